"""Statements as spans of OpenTelemetry: `cep.add_tracer(span_tracer())`. Needs the extra `cep-bridge[opentelemetry]`."""

from __future__ import annotations

import time

from opentelemetry import trace

from windows.databases.tracing import Tracer


def span_tracer(tracer: trace.Tracer | None = None) -> Tracer:
    """A tracer for a bridge that makes a span per statement, below the current span.

    Args:
        tracer: OpenTelemetry's tracer; by default that of the global provider for "bridge".

    >>> import bridge
    >>> with bridge.connect() as cep:
    ...     cep.add_tracer(span_tracer())
    ...     cep.query("SELECT 1 AS a")
    ResultSet(['a'], [(1,)])
    """
    spans = tracer or trace.get_tracer("bridge")

    def make_span(sql: str, seconds: float, rows: int | None) -> None:
        end = time.time_ns()
        attributes: dict[str, str | int] = {"db.query.text": sql}
        if rows is not None:
            attributes["db.response.returned_rows"] = rows
        operation = sql.split(None, 1)[0].upper() if sql.strip() else "SQL"
        span = spans.start_span(
            operation, kind=trace.SpanKind.CLIENT, attributes=attributes, start_time=end - int(seconds * 1e9)
        )
        span.end(end)

    return make_span
