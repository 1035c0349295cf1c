"""The status of a bridge for Prometheus: `REGISTRY.register(StatusCollector(cep))`. Needs the extra `cep-bridge[prometheus]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from bridge.engine.bridge import Bridge


class StatusCollector(Collector):
    """Collects the status when Prometheus asks for it; the rows of the state are counted for it.

    >>> import bridge
    >>> from prometheus_client import CollectorRegistry
    >>> with bridge.connect() as cep:
    ...     cep.create_query("high", "SELECT a FROM s[a: INTEGER] WHERE a > 5")
    ...     cep.push_event("s", [7], 1000)
    ...     registry = CollectorRegistry()
    ...     registry.register(StatusCollector(cep))
    ...     registry.get_sample_value("cep_query_events_total", {"query": "high"})
    1
    """

    def __init__(self, cep: Bridge) -> None:
        self._cep = cep

    def describe(self) -> list[Metric]:
        """No metrics, so that registering does not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of the bridge, and those of its queries with the label `query`."""
        status = self._cep.status()
        yield CounterMetricFamily("cep_events", "Events so far.", value=status.seq)
        yield GaugeMetricFamily("cep_now_seconds", "The newest time seen.", value=(status.now or 0) / 1_000)
        yield GaugeMetricFamily("cep_waiting_events", "Events in the reorder buffer.", value=status.waiting)
        events = CounterMetricFamily("cep_query_events", "Events of a query's streams.", labels=["query"])
        results = CounterMetricFamily("cep_query_results", "Results that were delivered.", labels=["query"])
        rows = GaugeMetricFamily("cep_query_state_rows", "Rows of a query's tables.", labels=["query"])
        for query in status.queries.values():
            events.add_metric([query.name], query.events)
            results.add_metric([query.name], query.results)
            rows.add_metric([query.name], query.state_rows)
        yield from (events, results, rows)
