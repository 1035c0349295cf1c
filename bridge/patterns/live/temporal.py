"""EPL's pattern [ … ] over streams: tables have its events and a checkpoint of its instances."""

from __future__ import annotations

import collections
import dataclasses
import heapq
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import pyarrow as pa
from sqlglot import exp

from bridge import query
from bridge.patterns.evaluate.python import scalar
from bridge.patterns.live.machine import CheckpointSchedule, LiveMachine, MachineState, time_before
from bridge.patterns.live.results import system_columns
from bridge.patterns.live.rows import BEGINNING, ColumnTypes, RowId
from bridge.patterns.live.statements import Rows, TemporalTables
from bridge.patterns.strategies.machine import evaluator
from bridge.patterns.values import Atom, MatchExpression, Value
from bridge.query.epl_patterns import EventColumns
from nfa.temporal.by_key import KeyedMatchers
from nfa.temporal.instance import Bound
from nfa.temporal.listeners import Equality
from nfa.temporal.machine import TemporalMatcher
from windows.databases import Database
from windows.sql import column, conjuncts


class PatternEvent(NamedTuple):
    """An event: the number of its input, its row id, the bits of the kinds that it can be, and its values."""

    source: int
    row_id: RowId
    symbol_set: int
    values: tuple[Any, ...]


class BoundEvents(NamedTuple):
    """The events for which a pattern became true at a time, by the event `seq` (0: by time alone)."""

    ts: int
    seq: int
    events: Bound


@dataclasses.dataclass(frozen=True)
class EventInput:
    """One input: the SELECTs of this push's events and of all retained events, in order; its columns.

    Its events' kinds.

    The columns of an event are followed by the `parts` of nested columns that conditions read, and by `keys` key
    values.
    """

    arrived: str
    retained: str
    names: tuple[str, ...]
    kinds: tuple[int, ...]
    parts: tuple[exp.Expr, ...] = ()
    keys: int = 0


Pick: TypeAlias = "Callable[[Bound], PatternEvent | None]"


def picker(kind: int, index: int | None) -> Pick:
    """A function from bound events to the event of a kind.

    If there are several, the one at an index (None: the last).
    """

    def pick(bound: Bound) -> PatternEvent | None:
        found: Any = bound.get(kind)
        if not isinstance(found, list):
            return cast("PatternEvent | None", found)
        if index is None:
            return cast("PatternEvent", found[-1])
        return cast("PatternEvent", found[index]) if index < len(found) else None

    return pick


class EventReader:
    """Reads values of bound events, for the conditions and guards of a pattern."""

    def __init__(self, inputs: Sequence[EventInput], database: Database) -> None:
        self.inputs, self.database = inputs, database

    def input_of(self, kind: int) -> EventInput:
        """The input whose events can be of a kind."""
        return next(one for one in self.inputs if kind in one.kinds)

    def function(self, match_expression: MatchExpression) -> Callable[[Bound], Any]:
        """The value of an expression over bound events."""
        readers = [self._reader(atom) for atom in match_expression.atoms if isinstance(atom, Value)]
        return evaluator(match_expression.expression, readers, self.database)

    def equality(self, kind: int, condition: MatchExpression | None) -> Equality | None:
        """The first conjunct of a condition that compares a column with a column of an earlier event for equality."""
        if condition is None or scalar(condition.expression, len(condition.atoms)) is None:
            return None
        atoms = {column(f"_v{place}"): atom for place, atom in enumerate(condition.atoms)}
        for conjunct in conjuncts(condition.expression):
            if not isinstance(conjunct, exp.EQ):
                continue
            sides = [atoms.get(each) for each in (conjunct.this, conjunct.expression)]
            own, others = ([side for side in sides if _is_of(side, kind) == is_own] for is_own in (True, False))
            if len(own) == len(others) == 1 and isinstance(own[0], Value) and isinstance(others[0], Value):
                return _equality(kind, self._reader(own[0]), self._reader(others[0]))
        return None

    def _reader(self, atom: Value) -> Callable[[Bound], Any]:
        assert atom.place.symbols is not None
        kind, name = int(atom.place.symbols[0]), atom.row.name
        if isinstance(atom.row, exp.Count):
            return lambda bound: len(bound[kind]) if kind in bound else None
        pick = picker(kind, atom.place.offset if atom.place.first else None)
        one = self.input_of(kind)
        if atom.row in one.parts:
            place = len(one.names) + one.parts.index(atom.row)
        elif name in one.names:
            place = one.names.index(name)
        else:  # the time of the event
            return lambda bound: None if (event := pick(bound)) is None else event.row_id[0]
        return lambda bound: None if (event := pick(bound)) is None else event.values[place]


def _equality(kind: int, own: Callable[[Bound], Any], other: Callable[[Bound], Any]) -> Equality:
    return Equality(lambda event: own({kind: event}), other)


def _is_of(atom: Atom | None, kind: int) -> bool:
    """Whether an atom is a value of an event of a kind."""
    return isinstance(atom, Value) and atom.place.symbols == (str(kind),)


class TemporalState(MachineState[BoundEvents]):
    """The instances of a pattern (per key, if events have keys), and the newest event."""

    def __init__(self, inputs: Sequence[EventInput], matcher: TemporalMatcher | KeyedMatchers) -> None:
        self.inputs, self.matcher = inputs, matcher
        self.newest = BEGINNING

    def feed(self, event: PatternEvent) -> Iterator[BoundEvents]:
        ts, seq, _ = event.row_id
        yield from self.elapse(ts)
        kinds = self.inputs[event.source].kinds
        can_be = [kind for bit, kind in enumerate(kinds) if event.symbol_set >> bit & 1]
        self.newest = event.row_id
        for bound in self.matcher.feed(event, can_be, ts):
            yield BoundEvents(ts, seq, bound)

    def next_deadline(self) -> int | None:
        return self.matcher.deadline

    def due(self, deadline: int) -> Iterator[BoundEvents]:
        return (BoundEvents(deadline, 0, bound) for bound in self.matcher.fire())


@dataclasses.dataclass
class TemporalMachine(LiveMachine):
    """The machine of one continuous pattern [ … ]. `rests`: the conditions of its events that name earlier events."""

    node: query.TemporalMatch
    inputs: tuple[EventInput, ...]
    rests: tuple[MatchExpression | None, ...]
    values: tuple[MatchExpression, ...]
    tables: TemporalTables
    checkpoint_rows: int
    """The least number of rows between two checkpoints."""
    wholes: dict[int, exp.Expr]
    """The part of an event that is the whole event, if that is a column of the result."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._schedule = CheckpointSchedule(self.checkpoint_rows)

    # The tables ---------------------------------------------------------------------------------------------------------

    def restore(self, database: Database) -> None:
        self._reader = EventReader(self.inputs, database)
        self._types = ColumnTypes(database, f"SELECT * FROM {database.quoted(self.table)}")
        state = self._state = TemporalState(self.inputs, self._new_watch())
        self._schedule = CheckpointSchedule(self.checkpoint_rows)
        now = time_before(database)
        lines = [row[1:] for row in sorted(database.fetch(f"SELECT * FROM {self.tables.state}"))]
        retained = self._events(database, [one.retained for one in self.inputs])
        if lines:
            self._load(database, lines, {(event.source, event.row_id): event for event in retained})
        else:
            state.matcher.start(now)
            self.checkpoint(database)
        new = {(event.source, event.row_id) for event in self._arrived(database)}
        since = [e for e in retained if e.row_id > state.newest and (e.source, e.row_id) not in new]
        self._schedule.rows = len(since)
        for event in since:
            collections.deque(state.feed(event), maxlen=0)
        collections.deque(state.elapse(now), maxlen=0)

    def _new_watch(self) -> TemporalMatcher | KeyedMatchers:
        """The machine of the pattern; one per key if events have keys."""
        holds, values = self._holds(), [self._reader.function(value) for value in self.values]
        found = {kind: self._reader.equality(kind, rest) for kind, rest in enumerate(self.rests)}
        equalities = {kind: equality for kind, equality in found.items() if equality is not None}

        def new_watch() -> TemporalMatcher:
            return TemporalMatcher(self.node.pattern, holds, lambda number, bound: values[number](bound), equalities)

        count = max((one.keys for one in self.inputs), default=0)
        return KeyedMatchers(new_watch, lambda event: event.values[-count:]) if count else new_watch()

    def _holds(self) -> Callable[[int, PatternEvent, Bound], bool]:
        """A function that tells whether an event is of a kind after others, by the conditions that name those."""
        conditions = [None if rest is None else self._reader.function(rest) for rest in self.rests]

        def holds(kind: int, event: PatternEvent, bound: Bound) -> bool:
            condition = conditions[kind]
            return condition is None or bool(condition({**bound, kind: event}))

        return holds

    @property
    def is_checkpoint_due(self) -> bool:
        return self._schedule.is_due

    def checkpoint(self, database: Database) -> None:
        """Replaces the last checkpoint."""
        held: dict[tuple[int, RowId], int] = {}
        lines: list[tuple[int, int]] = []
        _flatten(self._state.matcher.dump(), lines, held)
        events = [(source, at, *row_id) for (source, row_id), at in held.items()]
        for name, rows in (
            (self.tables.events, [*events, (-1, 0, *self._state.newest)]),
            (self.tables.state, [(n, *line) for n, line in enumerate(lines)]),
        ):
            database.execute(f"DELETE FROM {name}")
            database.insert(name, len(rows[0]), rows)
        self._schedule.restart(len(lines))

    def _load(
        self, database: Database, lines: list[tuple[Any, ...]], retained: dict[tuple[int, RowId], PatternEvent]
    ) -> None:
        held = database.fetch(f"SELECT * FROM {self.tables.events}")
        events = {at: retained[source, (ts, seq, place)] for source, at, ts, seq, place in held if source >= 0}
        (self._state.newest,) = [(ts, seq, place) for source, _, ts, seq, place in held if source == -1]
        self._state.matcher.load(_unflattened(iter(lines), events))

    # A push -------------------------------------------------------------------------------------------------------------

    def advance(
        self, database: Database, now: int, seq: int, final: bool, arrived: Sequence[Rows] | None = None
    ) -> pa.Table | None:
        state, events = self._state, self._arrived(database) if arrived is None else _events_of(arrived)
        reports = [*(report for event in events for report in state.feed(event)), *state.elapse(now)]
        self._schedule.rows += len(events)
        return self._results(database, reports) if reports else None

    def _arrived(self, database: Database) -> list[PatternEvent]:
        return self._events(database, [one.arrived for one in self.inputs])

    def _events(self, database: Database, selects: list[str]) -> list[PatternEvent]:
        """The events of all inputs, in order."""
        return _events_of([database.fetch(select) for select in selects])

    def explained(self, pretty: Callable[[str], str]) -> str:
        intro = f"-- a machine reads these events and writes what makes the pattern true into {self.table}"
        return "\n".join([intro, *(f"{pretty(one.arrived)};" for one in self.inputs)])

    # Results ------------------------------------------------------------------------------------------------------------

    def _results(self, database: Database, reports: list[BoundEvents]) -> pa.Table:
        system = system_columns([report.ts for report in reports], [report.seq for report in reports])
        columns: dict[str, list[Any]] = {}
        for columns_of_event in self.node.event_columns:
            columns |= self._columns(database, columns_of_event, reports)
        places = range(len(system), len(system) + len(columns))
        arrays = [self._types.array(values, place) for place, values in zip(places, columns.values(), strict=True)]
        return pa.Table.from_arrays([*system.values(), *arrays], names=[*system, *columns])

    def _columns(
        self, database: Database, columns_of_event: EventColumns, reports: list[BoundEvents]
    ) -> dict[str, list[Any]]:
        """The values of one kind of event for its columns: the number of events, the whole event, or its columns."""
        if columns_of_event.is_count:
            several = [report.events.get(columns_of_event.number) for report in reports]
            return {columns_of_event.prefix: [None if one is None else len(one) for one in several]}
        if columns_of_event.is_whole:
            return {
                columns_of_event.prefix: [
                    self._whole(database, columns_of_event.number, report.events) for report in reports
                ]
            }
        pick = picker(columns_of_event.number, columns_of_event.at)
        found = [pick(report.events) for report in reports]
        return {
            f"{columns_of_event.prefix}_{name}": [None if one is None else one.values[at] for one in found]
            for at, name in enumerate(self._reader.input_of(columns_of_event.number).names)
        }

    def _whole(self, database: Database, kind: int, bound: Bound) -> Any:
        """An event as a value, or a list of the events with its tag; NULL if there is none."""
        found: Any = bound.get(kind)
        one = self._reader.input_of(kind)
        at = len(one.names) + one.parts.index(self.wholes[kind])
        if isinstance(found, list):
            return database.list_value([event.values[at] for event in found])
        return None if found is None else found.values[at]


_row_id_of = operator.attrgetter("row_id")


def _events_of(inputs: Sequence[Rows]) -> list[PatternEvent]:
    """The events of the rows of all inputs, in order."""
    several = [
        sorted((PatternEvent(source, (row[0], row[1], row[2]), row[3], tuple(row[4:])) for row in rows), key=_row_id_of)
        for source, rows in enumerate(inputs)
    ]
    return several[0] if len(several) == 1 else list(heapq.merge(*several, key=_row_id_of))


def _flatten(item: Any, lines: list[tuple[int, int]], numbers: dict[tuple[int, RowId], int]) -> None:
    """Nested lists as lines: a number (0), a list with its length (1), an event by its number in `numbers` (2)."""
    if isinstance(item, PatternEvent):
        lines.append((2, numbers.setdefault((item.source, item.row_id), len(numbers))))
    elif isinstance(item, list):
        lines.append((1, len(item)))
        for one in item:
            _flatten(one, lines, numbers)
    else:
        lines.append((0, item))


def _unflattened(lines: Iterator[tuple[Any, ...]], events: dict[int, PatternEvent]) -> Any:
    """The inverse of `_flatten`."""
    kind, value = next(lines)
    if kind == 1:
        return [_unflattened(lines, events) for _ in range(value)]
    return events[value] if kind == 2 else value
