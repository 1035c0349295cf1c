"""EPL's pattern [ … ] over streams: a machine of instances, its events in tables, what is under way noted now and then."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pyarrow as pa
from sqlglot import exp

from bridge import query
from bridge.patterns.live.statements import BEGINNING, Moment
from bridge.patterns.strategies.machine import computed
from bridge.patterns.values import Value, Valued
from nfa.temporal.by_key import Watches
from nfa.temporal.instance import Bound
from nfa.temporal.machine import Watch
from windows.arrow import array_of
from windows.databases import Database
from windows.times import NEVER

NOTED_EVERY = 1_000
"""What is under way is noted when so many events have come since, or as many as the last note was long."""


class Event(NamedTuple):
    """An event: the number of its input, its moment, the bits of what it can be, and its values."""

    source: int
    moment: Moment
    letter: int
    values: tuple[Any, ...]


class Report(NamedTuple):
    """A result that became true at a moment."""

    ts: int
    seq: int
    bound: Bound


@dataclasses.dataclass(frozen=True)
class Input:
    """One input: the events of this push and all that are kept, the names of their columns, what they can be.

    After the columns come `parts` of nested ones, which conditions name, and so many `keys`.
    """

    arrived: str
    seen: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    parts: tuple[exp.Expr, ...] = ()
    keys: int = 0


@dataclasses.dataclass(frozen=True)
class Texts:
    """The quoted names of the tables."""

    noted: str
    state: str
    found: str


@dataclasses.dataclass
class Live:
    """The machine of one continuous query; a step of its operator."""

    node: query.TemporalMatch
    inputs: tuple[Input, ...]
    rests: tuple[Valued | None, ...]
    values: tuple[Valued, ...]
    texts: Texts
    table: str
    wholes: dict[int, exp.Expr]
    """Of events that are told as a whole the part that is one."""

    def __post_init__(self) -> None:
        self._ready = False
        self._since, self._note_after, self._newest = 0, NOTED_EVERY, BEGINNING

    def forget(self) -> None:
        """What is in memory is no longer what is in the tables."""
        self._ready = False

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Take this push's events; `now` is its newest time."""
        arrived = list(self._events(database, [one.arrived for one in self.inputs]))
        if not self._ready:
            self._restore(database, arrived)
        reports = [report for event in arrived for report in self._fed(event)] + list(self._passed(now))
        if reports:
            self._write(database, reports)
        if self._since >= self._note_after:
            self._note(database)

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statements whose events the machine takes."""
        told = f"-- the machine takes these events, and puts what is true into {self.texts.found}"
        return "\n".join([told, *(f"{pretty(one.arrived)};" for one in self.inputs)])

    # Events in ----------------------------------------------------------------------------------------------------------

    def _events(self, database: Database, texts: list[str]) -> Iterator[Event]:
        """The events of all inputs, in order."""
        several = []
        for source, text in enumerate(texts):
            rows = database.fetch(text)
            several.append([Event(source, (row[0], row[1], row[2]), row[3], tuple(row[4:])) for row in rows])
        return heapq.merge(*several, key=lambda event: event.moment)

    def _fed(self, event: Event) -> Iterator[Report]:
        ts, seq, _ = event.moment
        yield from self._passed(ts)
        numbers = self.inputs[event.source].numbers
        can_be = [number for bit, number in enumerate(numbers) if event.letter >> bit & 1]
        self._newest, self._since = event.moment, self._since + 1
        for bound in self.watch.feed(event, can_be, ts):
            yield Report(ts, seq, bound)

    def _passed(self, now: int) -> Iterator[Report]:
        while (deadline := self.watch.deadline) is not None and deadline <= now:
            for bound in self.watch.fire():
                yield Report(deadline, 0, bound)

    def _holds(self) -> Callable[[int, Event, Bound], bool]:
        """Whether an event is what it can be, after others: what of the condition names these."""
        asked = [None if rest is None else self._asked(rest) for rest in self.rests]

        def holds(number: int, event: Event, bound: Bound) -> bool:
            ask = asked[number]
            return ask is None or bool(ask({**bound, number: event}))

        return holds

    def _values(self) -> Callable[[int, Bound], Any]:
        """What guards ask of the events bound."""
        asked = [self._asked(value) for value in self.values]
        return lambda number, bound: asked[number](bound)

    def _asked(self, rest: Valued) -> Callable[[Bound], Any]:
        readers = [self._reader(atom) for atom in rest.atoms if isinstance(atom, Value)]
        return computed(rest.expression, readers, self._database)

    def _reader(self, atom: Value) -> Callable[[Bound], Any]:
        assert atom.place.symbols is not None
        number, name = int(atom.place.symbols[0]), atom.row.name
        if isinstance(atom.row, exp.Count):
            return lambda bound: len(bound[number]) if number in bound else None
        pick = picker(number, atom.place.offset if atom.place.first else None)
        names, parts = next((one.names, one.parts) for one in self.inputs if number in one.numbers)
        if atom.row in parts:
            part = len(names) + parts.index(atom.row)
            return lambda bound: None if (event := pick(bound)) is None else event.values[part]
        if name not in names:  # its time
            return lambda bound: None if (event := pick(bound)) is None else event.moment[0]
        at = names.index(name)
        return lambda bound: None if (event := pick(bound)) is None else event.values[at]

    # Results ------------------------------------------------------------------------------------------------------------

    def _write(self, database: Database, reports: list[Report]) -> None:
        shape = database.fetch_arrow(f"SELECT * FROM {self.texts.found} AS q WHERE 1 = 0")
        kinds = shape.schema.types if shape is not None else []
        columns: dict[str, list[Any]] = {
            "ts": [report.ts for report in reports],
            "seq": [report.seq for report in reports],
            "_expires": [NEVER] * len(reports),
            "_place": list(range(len(reports))),
        }
        for told in self.node.event_columns:
            if told.is_count:
                several = [report.bound.get(told.number) for report in reports]
                columns[told.prefix] = [None if one is None else len(one) for one in several]
                continue
            if told.is_whole:
                columns[told.prefix] = [self._whole(database, told.number, report.bound) for report in reports]
                continue
            names = next(one.names for one in self.inputs if told.number in one.numbers)
            pick = picker(told.number, told.at)
            found = [pick(report.bound) for report in reports]
            for at, name in enumerate(names):
                columns[f"{told.prefix}_{name}"] = [None if one is None else one.values[at] for one in found]
        if kinds:
            arrays = [array_of(values, kind) for values, kind in zip(columns.values(), kinds, strict=True)]
        else:
            arrays = [pa.array(values) for values in columns.values()]
        database.append(self.texts.found, pa.Table.from_arrays(arrays, names=list(columns)))

    def _whole(self, database: Database, number: int, bound: Bound) -> Any:
        """An event as a value, or the list of those of its tag; NULL where there is none."""
        found: Any = bound.get(number)
        names, parts = next((one.names, one.parts) for one in self.inputs if number in one.numbers)
        at = len(names) + parts.index(self.wholes[number])
        if isinstance(found, list):
            return database.list_value([event.values[at] for event in found])
        return None if found is None else found.values[at]

    # Notes --------------------------------------------------------------------------------------------------------------

    def _restore(self, database: Database, arrived: list[Event]) -> None:
        """What was noted, then the events since, whose results have been told."""
        self._database = database
        self.watch = self._watch()
        self._since, self._note_after, self._newest = 0, NOTED_EVERY, BEGINNING
        ((past,),) = database.fetch(f"SELECT {database.quoted('before')} FROM {database.quoted('cep_clock')}")
        lines = [row[1:] for row in sorted(database.fetch(f"SELECT * FROM {self.texts.state}"))]
        kept = list(self._events(database, [one.seen for one in self.inputs]))
        if lines:
            self._load(database, lines, {(event.source, event.moment): event for event in kept})
        else:
            self.watch.start(past)
            self._note(database)
        new = {(event.source, event.moment) for event in arrived}
        for event in kept:
            if event.moment > self._newest and (event.source, event.moment) not in new:
                for _ in self._fed(event):
                    pass
        for _ in self._passed(past):
            pass
        self._ready = True

    def _watch(self) -> Watch | Watches:
        """The machine; one for each key, where the events have keys."""
        holds, values = self._holds(), self._values()
        if not any(one.keys for one in self.inputs):
            return Watch(self.node.pattern, holds, values)
        count = self.inputs[0].keys
        return Watches(lambda: Watch(self.node.pattern, holds, values), lambda event: event.values[-count:])

    def _note(self, database: Database) -> None:
        held: dict[tuple[int, Moment], int] = {}
        lines: list[tuple[int, int]] = []
        _flatten(self.watch.dump(), lines, held)
        noted = [(source, at, *moment) for (source, moment), at in held.items()]
        for name, rows in (
            (self.texts.noted, [*noted, (-1, 0, *self._newest)]),
            (self.texts.state, [(n, *line) for n, line in enumerate(lines)]),
        ):
            database.execute(f"DELETE FROM {name}")
            database.insert(name, len(rows[0]), rows)
        self._since, self._note_after = 0, max(NOTED_EVERY, len(lines))

    def _load(self, database: Database, lines: list[tuple[Any, ...]], kept: dict[tuple[int, Moment], Event]) -> None:
        noted = database.fetch(f"SELECT * FROM {self.texts.noted}")
        events = {at: kept[source, (ts, seq, place)] for source, at, ts, seq, place in noted if source >= 0}
        (self._newest,) = [(ts, seq, place) for source, _, ts, seq, place in noted if source == -1]
        self.watch.load(_unflattened(iter(lines), events))


def picker(number: int, index: int | None) -> Callable[[Bound], Event | None]:
    """Of the events bound the one of this number; of several that of this index (None: the last)."""

    def pick(bound: Bound) -> Event | None:
        found: Any = bound.get(number)
        if not isinstance(found, list):
            return cast("Event | None", found)
        if index is None:
            return cast("Event", found[-1])
        return cast("Event", found[index]) if index < len(found) else None

    return pick


def _flatten(item: Any, lines: list[tuple[int, int]], held: dict[tuple[int, Moment], int]) -> None:
    """Nested lists as lines: a number (0), a list of so many items (1), an event by its number among those held (2)."""
    if isinstance(item, Event):
        lines.append((2, held.setdefault((item.source, item.moment), len(held))))
    elif isinstance(item, list):
        lines.append((1, len(item)))
        for one in item:
            _flatten(one, lines, held)
    else:
        lines.append((0, item))


def _unflattened(lines: Iterator[tuple[Any, ...]], events: dict[int, Event]) -> Any:
    kind, value = next(lines)
    if kind == 1:
        return [_unflattened(lines, events) for _ in range(value)]
    return events[value] if kind == 2 else value
