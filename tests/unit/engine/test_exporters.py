"""The adapters for Prometheus and OpenTelemetry, with their own libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bridge


def test_prometheus_gets_the_status():
    client = pytest.importorskip("prometheus_client")
    from bridge.prometheus import StatusCollector

    with bridge.connect("sqlite://") as cep:
        cep.create_query("high", "SELECT a FROM s[a: INTEGER] WINDOW(ROWS 2) WHERE a > 5")
        cep.add_output_processor("high", lambda event: None)
        cep.push_events("s", [([a], 1000 + a) for a in range(10)])
        registry = client.CollectorRegistry()
        registry.register(StatusCollector(cep))
        text = client.generate_latest(registry).decode()
    for line in ("cep_events_total 10.0", "cep_now_seconds 1.009", 'cep_query_events_total{query="high"} 10.0',
                 'cep_query_results_total{query="high"} 4.0', "cep_waiting_events 0.0"):  # fmt: skip
        assert line in text.splitlines()
    assert 'cep_query_state_rows{query="high"}' in text


def test_opentelemetry_gets_a_span_of_each_statement():
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from bridge.opentelemetry import span_tracer

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with bridge.connect("sqlite://") as cep:
        cep.add_tracer(span_tracer(tracer))
        with tracer.start_as_current_span("request") as request:
            cep.query("SELECT 1 AS a UNION ALL SELECT 2")
    spans = [span for span in exporter.get_finished_spans() if span.name == "SELECT"]
    found = next(span for span in spans if span.attributes.get("db.response.returned_rows") == 2)
    assert found.attributes["db.query.text"] == "SELECT 1 AS a UNION ALL SELECT 2"
    assert found.end_time >= found.start_time
    assert found.parent.span_id == request.get_span_context().span_id


def test_neither_library_is_imported_without_its_adapter():
    listed = "[name for name in sys.modules if 'prometheus' in name or 'telemetry' in name]"
    code = f"import sys, bridge; bridge.connect('sqlite://').close(); print({listed})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
