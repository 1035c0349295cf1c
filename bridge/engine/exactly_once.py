"""Recognition of repeated pushes, by the ids of events and the positions of sources (rule D4).

Both are written in the transaction of the push, so after a crash they agree with the events.
"""

from __future__ import annotations

import collections
import functools
import json
from typing import Any, NamedTuple

from bridge.engine.execution.runner import Runner
from bridge.engine.execution.transactions import Receipt
from bridge.engine.own_table import OwnTable
from bridge.errors import SchemaError
from windows.times import duration

EVENT_IDS, POSITIONS = "cep_event_ids", "cep_positions"

DEFAULT_RETENTION = 100_000
"""The number of event ids that are remembered, unless `event_ids` says otherwise."""

SLACK = 1_000
"""The number of superfluous ids that are removed at once."""

Position = int | str


class EventIds:
    """The ids of the newest events. `retention`: how many are remembered, or for how long, such as "7 D"."""

    def __init__(self, runner: Runner, retention: Any = None) -> None:
        self._runner = runner
        self._count, self._age = _retention(retention)
        self._known: collections.OrderedDict[tuple[str, str], int] = collections.OrderedDict()
        """The timestamps of the events, by stream and id, the oldest first."""
        self._table = OwnTable(runner, EVENT_IDS, "time BIGINT, number BIGINT, stream VARCHAR, id VARCHAR")

    def resume(self) -> None:
        """Reads the stored ids."""
        self._known.clear()
        self._known.update(((stream, name), int(ts)) for ts, _, stream, name in sorted(self._table.rows()))

    def is_known(self, stream: str, event_id: object) -> bool:
        """Whether an event of this stream with this id has been pushed."""
        return (stream.lower(), str(event_id)) in self._known

    def receipt(self, stream: str, event_id: object, ts: int) -> Receipt:
        """Notes the id of an event, before the transaction of its push."""
        if self._runner.is_durable:
            self._table.create()
        event = (stream, event_id, ts, self._oldest())
        return Receipt(functools.partial(self.write, *event), functools.partial(self.add, *event))

    def write(self, stream: str, event_id: object, ts: int, oldest: int | None) -> None:
        """Stores an id, inside the transaction of its push, and removes the ids before the time `oldest`."""
        if self._table.exists:
            self._table.insert((ts, self._runner.seq, stream.lower(), str(event_id)))
            if oldest is not None:
                self._runner.database.execute(
                    f"DELETE FROM {self._table.text} WHERE {self._table.quoted('time')} < {oldest}"
                )

    def add(self, stream: str, event_id: object, ts: int, oldest: int | None) -> None:
        """Remembers an id after its push has taken effect, and forgets the ids before the time `oldest`."""
        self._known[stream.lower(), str(event_id)] = ts
        while oldest is not None and self._known and next(iter(self._known.values())) < oldest:
            self._known.popitem(last=False)

    def _oldest(self) -> int | None:
        """The time before which ids are forgotten; None while there are only a few more than are to be remembered."""
        if self._age is not None:
            first = next(iter(self._known.values()), self._runner.now)
            return self._runner.now - self._age if self._runner.now - first > self._age * 1.01 + SLACK else None
        surplus = len(self._known) - self._count
        return list(self._known.values())[surplus] if surplus > SLACK else None


def _retention(retention: Any) -> tuple[int, int | None]:
    """How many ids are to be remembered, and for how many milliseconds."""
    if retention is None:
        return DEFAULT_RETENTION, None
    if isinstance(retention, int) and not isinstance(retention, bool) and retention > 0:
        return retention, None
    try:
        if isinstance(retention, str):
            return 0, duration(retention)
    except ValueError as error:
        raise SchemaError(f"event_ids: {error}") from None
    raise SchemaError(f'event_ids is a number of ids, or a time such as "7 D", not {retention!r}')


class SourceState(NamedTuple):
    """The position of a source; and of an unfinished push, the position it leads to and the number of events pushed."""

    position: Position | None
    pending: Position | None = None
    done: int = 0


class SourcePositions:
    """The positions of sources, each stored with the push of the events before it."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._known: dict[str, SourceState] = {}
        self._table = OwnTable(runner, POSITIONS, "source VARCHAR, position VARCHAR, pending VARCHAR, done BIGINT")

    def resume(self) -> None:
        """Reads the stored positions."""
        for source, position, pending, done in self._table.rows():
            self._known[source] = SourceState(json.loads(position), json.loads(pending), int(done))

    def of(self, source: str) -> Position | None:
        """The position of a source; None before its first. Raises `SchemaError` if the name is not a text."""
        _check_source(source)
        return self._known.get(source, SourceState(None)).position

    def events_in(self, source: str, position: Position) -> int | None:
        """The number of events of the push to this position that have been pushed; None if all have.

        Raises `SchemaError` for a value that is not a position, or is of another kind than the earlier positions.
        """
        _check_source(source)
        if not isinstance(position, (int, str)) or isinstance(position, bool):
            raise SchemaError(f"the position of a source is a whole number or a text, not {position!r}")
        state = self._known.get(source, SourceState(None))
        for known in (known for known in (state.position, state.pending) if known is not None):
            if isinstance(known, int) != isinstance(position, int):
                raise SchemaError(f"the positions of {source!r} are like {known!r}, not like {position!r}")
        if state.position == position:
            return None
        if isinstance(position, int) and isinstance(state.position, int) and position < state.position:
            return None
        return state.done if state.pending == position else 0

    def receipt(self, source: str, position: Position, done: int | None = None) -> Receipt:
        """The receipt of a push, or of its first `done` events; made before the transaction that has them."""
        if self._runner.is_durable:
            self._table.create()
        state = SourceState(position) if done is None else SourceState(self.of(source), position, done)
        return Receipt(functools.partial(self.write, source, state), functools.partial(self.set, source, state))

    def write(self, source: str, state: SourceState) -> None:
        """Stores the state of a source, inside the transaction of its push."""
        if not self._table.exists:
            return
        values = {"position": json.dumps(state.position), "pending": json.dumps(state.pending), "done": state.done}
        if source in self._known:
            self._table.update(values, source=source)
        else:
            self._table.insert((source, *values.values()))

    def remove(self, source: str) -> None:
        """Removes the state of a source, inside a transaction."""
        known = self._known.pop(source, None)
        if known is not None:
            self._runner.restored_by(functools.partial(self.set, source, known))
        if known is not None and self._table.exists:
            self._table.delete(source=source)

    def set(self, source: str, state: SourceState) -> None:
        """Remembers the state of a source after its push has taken effect."""
        self._known[source] = state


def _check_source(source: object) -> None:
    if not isinstance(source, str) or not source:
        raise SchemaError(f"a source is a name, not {source!r}")
