"""What queries over one stream tell of its events, however these are pushed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridge.rewrite.settings import Settings
    from tests.support.databases import Database

Events = list[tuple[tuple[Any, ...], int]]
"""Payloads and times."""

Rows = dict[str, list[tuple[int, tuple[Any, ...]]]]
"""The results of queries by their names: times and values."""


def told(
    database: Database,
    schema: str,
    queries: Mapping[str, str],
    events: Events,
    sizes: Sequence[int],
    settings: Settings | None = None,
) -> Rows:
    """The results of all queries over the stream `s`, the events pushed so many at a time, and the rest at once."""
    rows: Rows = {}
    with database.connect(settings) as cep:
        cep.register_stream("s", schema)
        for name, text in queries.items():
            cep.create_query(name, text)
            found = rows[name] = []
            cep.add_output_processor(
                name, lambda event, found=found: found.append((event.timestamp, tuple(event.payload.values())))
            )
        for size in sizes:
            cep.push_events("s", events[:size])
            events = events[size:]
        cep.push_events("s", events)
    return rows
