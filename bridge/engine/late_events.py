"""Events that do not contribute to any result, as rows of the table `late_events`.

They are too late, too far ahead, or duplicates; or they are rows of tables that cannot be read as events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from bridge.engine.catalogue import StreamEntry
from bridge.engine.event import LateEvent
from bridge.engine.execution.runner import Runner
from windows.databases.definition import create_table
from windows.schema import Attribute

LATE_EVENTS = "late_events"

LATE, AHEAD, DUPLICATE, WRONG = "late", "ahead", "duplicate", "wrong"
"""The reasons why an event is refused."""

_COLUMNS = {
    "stream": "VARCHAR", "payload": "VARCHAR", "ts": "BIGINT", "watermark": "BIGINT", "reason": "VARCHAR",
    "kind": "VARCHAR", "milliseconds": "BIGINT",
}  # fmt: skip


class LateEvents:
    """The table `late_events` of a bridge. `lateness`: in milliseconds. `watermark` returns the current watermark."""

    def __init__(self, runner: Runner, lateness: int, watermark: Callable[[], int]) -> None:
        self._runner, self._lateness, self._watermark = runner, lateness, watermark
        self._name = runner.database.own_name(LATE_EVENTS)
        self._is_made = False

    def create(self) -> None:
        """Creates the table, or adds the columns that a table of an earlier version lacks. Not inside a transaction."""
        if self._is_made:
            return
        database = self._runner.database
        known = database.relation(self._name) if database.has_own(self._name) else None
        with self._runner.transaction():
            if known is None:
                database.execute(create_table(database, self._name, _COLUMNS))
            there = set(_COLUMNS if known is None else map(str.lower, known.names))
            for name in (name for name in _COLUMNS if name not in there):
                kind = database.column_type(Attribute(name, _COLUMNS[name]))
                database.execute(f"ALTER TABLE {self._name} ADD COLUMN {database.quoted(name)} {kind}")
        self._is_made = True

    def event(
        self, stream: StreamEntry, ts: int, values: Sequence[Any], kind: str, milliseconds: int = 0, problem: str = ""
    ) -> LateEvent:
        """The description of an event that is refused. `problem`: why a row of a table is not an event."""
        reasons = {
            LATE: f"{milliseconds} ms before the watermark (lateness {self._lateness} ms)",
            AHEAD: f"{milliseconds} ms ahead (max_ahead {stream.rules.max_ahead} ms)",
            DUPLICATE: "an event with this id was pushed before",
            WRONG: problem,
        }
        payload = dict(zip(stream.schema.names, values, strict=True))
        return LateEvent(stream.name, payload, ts, self._watermark(), reasons[kind], kind, milliseconds)

    def store(self, late: Sequence[LateEvent]) -> None:
        """Stores late events, inside the transaction of their push."""
        if late:
            rows = [
                (one.stream, json.dumps(one.payload, default=str), one.timestamp, one.watermark, *one[4:])
                for one in late
            ]
            self._runner.database.insert(self._name, len(_COLUMNS), rows)
