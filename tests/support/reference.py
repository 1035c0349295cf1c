"""The truth: every rule of SEMANTICS sections T, W, O and P, written down without a database and without haste.

A node of a query tree has one *history*: all rows it ever reports, in order. Each row has

- a *place* in that history: (moment, index). A moment is (time, kind, seq): an event is (ts, EVENT, seq), what time
  alone triggers (a boundary of a jumping window, an expiry) is (x, TIME, 0); so time works before events of equal ts
  (W3). The index orders the rows of one moment (O6): they enter the next operator one by one.
- the place from which it is *out*: the row counts at places p with `place <= p < out`; None where no window was
  written (W4).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from bridge import query as q
from bridge.query.epl_output import FirstEvents, OutputEvery, RStream, Snapshot
from nfa import pattern as p
from windows.extents import Batch, FirstRange, FirstRows, Now, Range, Rows, Session, Top, Trailing, Tumbling, Unbounded
from windows.schema import Schema

Moment = tuple[float, int, int]
Place = tuple[Moment, tuple]
Values = tuple[Any, ...]
Results = dict[str, list[tuple[int, Values]]]
Relations = Mapping[str, tuple[Sequence[str], Sequence[Values]]]

TIME, EVENT = 0, 1
NEVER: Place = ((math.inf, TIME, 0), ())


class MeaningError(ValueError):
    """A query that has no meaning: an unknown name, or a stream without a window where W4 wants one."""


class AmbiguousError(MeaningError):
    """A name that two columns have: the qualified one of an input, and one that was called so before."""


class LimitError(Exception):
    """More rows or ways than the caller's limit allows."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a history; `jump` is the place of the renewal that brought it into a jumping window (W3)."""

    values: Values
    place: Place
    out: Place | None = None
    jump: Place | None = None

    @property
    def moment(self) -> Moment:
        return self.place[0]

    @property
    def ts(self) -> int:
        return int(self.place[0][0])

    def counts_at(self, place: Place) -> bool:
        return self.out is not None and self.place <= place < self.out


def evaluate(
    queries: Mapping[str, q.Node],
    schemas: Mapping[str, Schema | str],
    events: Sequence[tuple[str, Values, int]],
    relations: Relations | None = None,
    end: int | None = None,
    limit: int = 1_000_000,
) -> Results:
    """What each query reports, in order: (ts, values). Time ends at the last event, or at `end` (rule T3)."""
    truth = Truth(queries, schemas, events, relations or {}, end, limit)
    return {name: [(row.ts, row.values) for row in truth.rows(node)] for name, node in queries.items()}


def column_names(
    queries: Mapping[str, q.Node], schemas: Mapping[str, Schema | str], relations: Relations | None = None
) -> dict[str, list[str]]:
    """The names of each query's output columns."""
    truth = Truth(queries, schemas, [], relations or {})
    return {name: truth.columns(node) for name, node in queries.items()}


class Truth:
    """The histories of all nodes over one sequence of events."""

    def __init__(
        self,
        queries: Mapping[str, q.Node],
        schemas: Mapping[str, Schema | str],
        events: Sequence[tuple[str, Values, int]],
        relations: Relations,
        end: int | None = None,
        limit: int = 1_000_000,
    ) -> None:
        self.queries = queries
        self.schemas = {name: Schema.of(schema) for name, schema in schemas.items()}
        self.events = events
        self.relations = relations
        self.limit = limit
        times = [ts for _, _, ts in events]
        if times != sorted(times):
            raise MeaningError("T2: the events are not in order of time")
        self.now = max([*times, *([] if end is None else [end])], default=-math.inf)
        self.begin = min([*times, *([] if end is None else [end])], default=-math.inf)
        self._known: dict[int, tuple[q.Node, list[Row]]] = {}

    def rows(self, node: q.Node) -> list[Row]:
        """The history of `node`, in order of place."""
        if id(node) not in self._known:
            rows = sorted(self._rows(node), key=lambda row: row.place)
            if len(rows) > self.limit:
                raise LimitError(f"{len(rows)} rows")
            self._known[id(node)] = (node, rows)
        return self._known[id(node)][1]

    def _rows(self, node: q.Node) -> Iterable[Row]:
        match node:
            case q.Output(input):
                return self.rows(input)
            case q.Stream(name) if name in self.queries:
                return self.rows(self.queries[name])
            case q.Stream(name):
                return self.stream(name)
            case q.Window(input, extent, keys):
                return self.window(input, extent, self.key(input, keys))
            case q.Filter(input, condition):
                return self.filter(input, condition)
            case q.Map(input, columns):
                return self.map(input, columns)
            case q.Union(inputs):
                return self.union(inputs)
            case q.Aggregate():
                return Aggregation(self, node).rows()
            case q.Correlate():
                return self.correlate(node)
            case q.Match():
                return self.match(node)
            case q.OrderLimitDistinct(input):
                moments = itertools.groupby(self.rows(input), key=lambda row: row.moment)
                return [row for moment, rows in moments for row in self.arranged(node, moment, list(rows))]
            case FirstEvents(input, _, time):
                return first_events(self.rows(input), time or 1)
            case q.Throttle(input, count, time, keys):
                tell = paused if keys and time is not None else throttled
                parts = partitions(self.rows(input), self.key(input, keys))
                return [row for part in parts for row in tell(part, count, time)]
            case RStream(input):
                left = sorted(
                    (row for row in self.rows(input) if moment_of(row.out)[0] <= self.now), key=lambda r: r.place
                )
                return [Row(row.values, (moment_of(row.out), (at,))) for at, row in enumerate(left)]
            case OutputEvery(input, count, first):
                return gathered(self.rows(input), count, first)
            case Snapshot():
                return self.snapshots(node)
            case q.PreviousRow(input):
                parts = partitions(self.rows(input), self.key(input, node.partition_by))
                return [row for part in parts for row in self.with_prior(node, part)]
            case q.SubqueryColumn(input):
                return [
                    dataclasses.replace(row, values=(*row.values, self.found(node, row)), out=None)
                    for row in self.rows(input)
                ]
        raise MeaningError(f"no meaning for {type(node).__name__}")

    def columns(self, node: q.Node) -> list[str]:
        """The names of the columns of `node`; a correlation qualifies those that occur more than once (O3)."""
        match node:
            case q.Stream(name) if name in self.queries:
                return self.columns(self.queries[name])
            case q.Stream(name, schema):
                if name not in self.schemas and schema is None:
                    raise MeaningError(f"no stream {name}")
                return (self.schemas.get(name) or schema).names
            case q.Relation(name):
                return list(self.relations[name][0])
            case q.Map(input, columns):
                return [name for column in columns for name in self._named(input, column)]
            case q.Aggregate(_, columns):
                return [column.alias_or_name for column in columns]
            case q.Match(measures=measures):
                return measures.names
            case q.SubqueryColumn(input, name) | q.PreviousRow(input, name):
                return [*self.columns(input), name]
            case q.Correlate(inputs):
                pairs = [(alias, name) for alias, below in inputs for name in self.columns(below)]
                lowered = [name.lower() for _, name in pairs]
                return [f"{alias}_{name}" if lowered.count(name.lower()) > 1 else name for alias, name in pairs]
        return self.columns(node.inputs_of[0])

    def _named(self, input: q.Node, column: exp.Expression) -> list[str]:
        return self.columns(input) if isinstance(column, exp.Star) else [column.alias_or_name]

    def scope(self, node: q.Node) -> Callable[[Row], Scope]:
        """How a row of `node` answers for the names of its columns."""
        names: list[tuple[str | None, str]] = [(None, name) for name in self.columns(node)]
        while isinstance(
            node, q.OrderLimitDistinct | q.Throttle | q.Filter | q.Window | Snapshot | RStream | OutputEvery
        ):
            node = node.input
        if not isinstance(node, q.Correlate):
            return lambda row: Scope([*names, (None, "ts")], (*row.values, row.ts))
        names += [(alias, name) for alias, below in node.inputs for name in self.columns(below)]
        return lambda row: Scope(names, row.values * 2)

    def key(self, input: q.Node, keys: Sequence[exp.Expression]) -> Callable[[Row], Values]:
        """The partition or group of a row; NULLs are one group."""
        scope = self.scope(input)
        return lambda row: tuple(value(key, scope(row)) for key in keys)

    # Streams, windows ----------------------------------------------------------------------------------------

    def stream(self, name: str) -> Iterator[Row]:
        """T1: seq numbers the arrivals over all streams from 1."""
        if name not in self.schemas:
            raise MeaningError(f"no stream {name}")
        for seq, (stream, values, ts) in enumerate(self.events, 1):
            if stream == name:
                yield Row(tuple(values), ((ts, EVENT, seq), (0,)))

    def window(self, input: q.Node, extent: Any, key: Callable[[Row], Values]) -> Iterable[Row]:
        """W1–W6: whatever validity the rows had, this window replaces."""
        rows = self.rows(input)
        match extent:
            case Range(size, None, step=None):
                return [windowed(row, start_of(row.ts + size)) for row in rows]
            case Range(size, None, step=step):
                return [windowed(row, start_of(-(-(row.ts + size) // step) * step)) for row in rows]
            case Now():
                return [windowed(row, start_of(row.ts + 1)) for row in rows]
            case Unbounded():
                return [windowed(row, NEVER) for row in rows]
            case Rows(count, None):
                return [row for part in partitions(rows, key) for row in last_rows(part, count)]
            case FirstRows(count):
                return [windowed(row, NEVER) for part in partitions(rows, key) for row in part[:count]]
            case FirstRange(size):
                return [windowed(row, NEVER) for row in rows if row.ts < self.begin + size]
            case Session(gap):
                return [row for part in partitions(rows, key) for row in sessions(part, gap)]
            case Trailing():
                return [row for part in partitions(rows, key) for row in self.trailing(input, part, extent)]
            case Top():
                return [row for part in partitions(rows, key) for row in self.top(input, part, extent)]
            case Range(size, slide, first=True):
                return range_jumps(rows, size, slide, rows[0].ts, self.now) if rows else []
            case Range(size, slide, offset):
                return range_jumps(rows, size, slide, offset, self.now)
            case Rows(count, slide, full):
                return [row for part in partitions(rows, key) for row in rows_jumps(part, count, slide, full)]
            case Batch(start, stop):
                return [row for part in partitions(rows, key) for row in self.batches(input, part, start, stop)]
            case Tumbling():
                return [row for part in partitions(rows, key) for row in self.tumbling(input, part, extent)]
        raise MeaningError(f"no meaning for the window {extent}")

    def batches(self, input: q.Node, rows: list[Row], start: exp.Expression, stop: exp.Expression) -> Iterator[Row]:
        """W6: from a row that starts to the first later one that stops, told there, valid until the next is told."""
        scope = self.scope(input)
        open_, done = [], []
        for row in rows:
            if open_:
                open_.append(row)
                if value(stop, scope(row)) is True:
                    done.append(open_)
                    open_ = []
            elif value(start, scope(row)) is True:
                open_ = [row]
        for batch, following in itertools.zip_longest(done, done[1:]):
            yield from renewed(batch, batch[-1].place, following[-1].place if following else NEVER)

    def top(self, input: q.Node, rows: list[Row], extent: Top) -> Iterator[Row]:
        """W9: a row is out where it is not among the first any more, or where a newer one takes its place."""
        scope = self.scope(input)
        inside: list[Row] = []
        for row in rows:
            mine = [value(key, scope(row)) for key in extent.last_of]
            same = [r for r in inside if extent.last_of and [value(k, scope(r)) for k in extent.last_of] == mine]
            inside = [row, *(r for r in inside if r not in same)]  # newest first, which sorting keeps among equals
            for term in reversed(extent.order):
                of = [
                    (found is not None, 0 if found is None else found)
                    for found in (value(term.this, scope(r)) for r in inside)
                ]
                order = sorted(range(len(inside)), key=of.__getitem__)
                if term.args["desc"]:
                    order = sorted(range(len(inside)), key=lambda at: _Down(of[at]))
                inside = [inside[at] for at in order]
            gone = [*same, *inside[extent.count :]]
            inside = inside[: extent.count]
            yield from (windowed(r, row.place) for r in gone)
            inside.sort(key=lambda r: r.place, reverse=True)
        yield from (windowed(r, NEVER) for r in inside)

    def trailing(self, input: q.Node, rows: list[Row], extent: Trailing) -> Iterator[Row]:
        """W10: the oldest row leaves while it is too far behind the newest, or there are too many."""
        scope = self.scope(input)
        of = (lambda row: value(extent.of, scope(row))) if extent.of is not None else (lambda row: row.ts)
        inside: list[Row] = []
        for row in rows:
            inside.append(row)
            while inside:
                ends = of(inside[0]), of(row)
                few = extent.count is None or len(inside) <= extent.count
                if few and None not in ends and ends[1] - ends[0] < extent.size:
                    break
                yield windowed(inside.pop(0), row.place)
        yield from (windowed(row, NEVER) for row in inside)

    def tumbling(self, input: q.Node, rows: list[Row], extent: Tumbling) -> Iterator[Row]:
        """W11: a row in a later stretch than all before closes the batch, which is told there, valid until the next is."""
        scope = self.scope(input)
        is_own = isinstance(extent.of, exp.Column) and extent.of.name == "ts"
        timed = [(row.ts if is_own else value(extent.of, scope(row)), row) for row in rows]
        timed = [(at, row) for at, row in timed if at is not None]
        origin = timed[0][0] if extent.origin is None and timed else extent.origin
        batches: list[list[Row]] = []
        latest = -math.inf
        for at, row in timed:
            if (stretch := (at - origin) // extent.size) > latest:
                latest = stretch
                batches.append([])
            batches[-1].append(row)
        for batch, following, later in itertools.zip_longest(batches, batches[1:], batches[2:]):
            if following:
                yield from renewed(batch, following[0].place, later[0].place if later else NEVER)

    # O1 ------------------------------------------------------------------------------------------------------

    def filter(self, input: q.Node, condition: exp.Expression) -> list[Row]:
        """O1: NULL is not satisfied. Validity stays (W5), so a window below counts the rows left out too (O2)."""
        scope = self.scope(input)
        return [row for row in self.rows(input) if value(condition, scope(row)) is True]

    def map(self, input: q.Node, columns: Sequence[exp.Expression]) -> list[Row]:
        scope = self.scope(input)
        return [dataclasses.replace(row, values=projected(columns, row, scope(row))) for row in self.rows(input)]

    def union(self, inputs: Sequence[q.Node]) -> list[Row]:
        """O1: the rows of one moment come input by input."""
        width = len(self.columns(inputs[0]))
        if any(len(self.columns(node)) != width for node in inputs):
            raise MeaningError("O1: the inputs of a union have equal schemas")
        return [nested(row, branch) for branch, node in enumerate(inputs) for row in self.rows(node)]

    def sampled(self, node: Snapshot) -> list[Moment]:
        """The moments of a snapshot: so long apart since the first row, or those of each so-many-th row."""
        rows = self.rows(node.input)
        if node.time is None:
            return sorted({row.moment for row in rows[node.count - 1 :: node.count]})
        times = range(rows[0].ts + node.time, int(self.now) + 1, node.time) if rows else ()
        return [(time, TIME, 0) for time in times]

    def snapshots(self, node: Snapshot, sorts: bool = True) -> list[Row]:
        """What is in the window at each moment, until the next."""
        moments = self.sampled(node)
        ends = [*((moment, ()) for moment in moments[1:]), NEVER]
        pairs = zip(moments, ends, strict=False)
        return [row for moment, end in pairs for row in self.held(node.input, moment, end, sorts)]

    def held(self, input: q.Node, moment: Moment, end: Place, sorts: bool) -> Iterator[Row]:
        """What is in a window at a moment, in the order of a sorted one, told until the next."""
        rows = [row for row in self.rows(input) if row.moment <= moment < moment_of(row.out)]
        return renewed(self.in_order(input, rows) if sorts and is_sorted(input) else rows, (moment, ()), end)

    def in_order(self, input: q.Node, rows: list[Row]) -> list[Row]:
        """The rows of a window, newest first, or as a sorted one has them."""
        rows = rows[::-1]
        if is_sorted(input):
            scope = self.scope(input)
            for term in reversed(q.without_filters(input).extent.order):
                values = {id(row): value(term.this, scope(row)) for row in rows}
                rows.sort(key=lambda row: least_first(values[id(row)], term.args["desc"]))
        return rows

    def arranged(self, node: q.OrderLimitDistinct, moment: Moment, rows: list[Row]) -> Iterator[Row]:
        """The rows of one moment: each once, the last of each group, in an order, so many."""
        scope = self.scope(node.input)
        if node.distinct:
            firsts: dict[Values, Row] = {}
            rows = [firsts.setdefault(row.values, row) for row in rows if row.values not in firsts]
        if node.last_of is not None:
            rows = list({tuple(value(key, scope(row)) for key in node.last_of): row for row in rows}.values())
        for term in reversed(node.order_by):
            found = [value(term.this, scope(row)) for row in rows]
            keys = [(one is not None, 0 if one is None else one) for one in found]
            compared = [_Down(key) for key in keys] if term.args["desc"] else keys
            order = sorted(range(len(rows)), key=compared.__getitem__)
            rows = [rows[at] for at in order]
        end = None if node.limit is None else node.offset + node.limit
        for number, row in enumerate(rows[node.offset : end]):
            yield Row(row.values, (moment, (number,)))

    def with_prior(self, node: q.PreviousRow, rows: list[Row]) -> Iterator[Row]:
        """Each row with a value of the one so many before."""
        scope = self.scope(node.input)
        for at, row in enumerate(rows):
            other = rows[at - node.count] if at >= node.count else None
            if other is not None and node.within is not None and other.ts <= row.ts - node.within:
                other = None
            found = None if other is None else value(node.value, scope(other))
            yield dataclasses.replace(row, values=(*row.values, found), out=None)

    def found(self, node: q.SubqueryColumn, row: Row) -> Any:
        """What a sub-query finds among the rows that are in its window after the moment of a row."""
        names = [
            *((None, name) for name in self.columns(node.input)),
            *((node.name, n) for n in self.columns(node.source)),
            (node.name, "ts"),
        ]
        inside = [other for other in self.rows(node.source) if other.out and other.moment <= row.moment < other.out[0]]
        if node.place is not None:
            inside = self.in_order(node.source, inside)
        scopes = [Scope(names, (*row.values, *other.values, other.ts)) for other in inside]
        scopes = [scope for scope in scopes if node.condition is None or value(node.condition, scope) is True]
        if node.value is None:
            return bool(scopes)
        if node.place is not None:
            values = [value(node.value, scope) for scope in scopes]
            return values[node.place] if -len(values) <= node.place < len(values) else None
        if node.operand is not None:
            return contained(
                value(node.operand, self.scope(node.input)(row)), [value(node.value, one) for one in scopes]
            )
        if node.value.find(exp.AggFunc):
            return value(node.value, None, scopes)
        return value(node.value, scopes[0]) if len(scopes) == 1 else None

    # O3, O4 --------------------------------------------------------------------------------------------------

    def correlate(self, node: q.Correlate) -> Iterator[Row]:
        """O3, O6: at each moment with new rows, every combination with at least one of them, in order of its parts.

        Only streams' parts count for the order: rows of a relation have none.
        """
        names = [(alias, name) for alias, below in node.inputs for name in self.columns(below)]
        inputs = [self.parts(below) for below in node.inputs_of]
        for rows, (alias, _) in zip(inputs, node.inputs, strict=True):
            if alias == node.driving:
                rows[:] = [dataclasses.replace(row, out=row.place) for row in rows]
        for moment in sorted({row.moment for rows in inputs for row in rows if row.place is not THERE}):
            present = [[row for row in rows if takes_part(row, moment)] for rows in inputs]
            found, joined = itertools.count(), set[int]()
            for parts in self._combinations(present, moment, node):
                values = tuple(itertools.chain.from_iterable(part.values for part in parts))
                if node.condition is None or value(node.condition, Scope(names, values)) is True:
                    joined |= set(map(id, parts))
                    yield Row(values, (moment, (next(found),)), min(out_within(part, moment) for part in parts))
            for place, (alias, _) in enumerate(node.inputs):
                if alias in node.outer and node.driving in (None, alias):
                    for row in (row for row in inputs[place] if row.moment == moment and id(row) not in joined):
                        others = [(None,) * len(self.columns(below)) for below in node.inputs_of]
                        others[place] = row.values
                        yield Row(tuple(itertools.chain.from_iterable(others)), (moment, (next(found),)))

    def parts(self, node: q.Node) -> list[Row]:
        """A relation's rows are always there and trigger nothing (O4)."""
        if not isinstance(node, q.Relation):
            return self.rows(node)
        if node.name not in self.relations:
            raise MeaningError(f"no relation {node.name}")
        return [Row(tuple(values), THERE, NEVER) for values in self.relations[node.name][1]]

    def _combinations(self, present: list[list[Row]], moment: Moment, node: q.Correlate) -> Iterator[tuple[Row, ...]]:
        if math.prod(map(len, present)) > 20 * self.limit:
            raise LimitError("too many combinations")
        told = [place for place, (alias, _) in enumerate(node.inputs) if node.driving in (None, alias)]
        every = (parts for parts in itertools.product(*present) if any(parts[at].moment == moment for at in told))
        found = [parts for parts in every if meet(parts)]
        yield from sorted(found, key=lambda parts: [part.place for part in parts if part.place is not THERE])

    # P -------------------------------------------------------------------------------------------------------

    def match(self, node: q.Match) -> Iterator[Row]:
        """P5, P6: at each row the matches that it completes, by their rows, then by their symbols."""
        key = self.key(node.input, node.partition_by)
        for part in partitions(self.rows(node.input), key):
            runs = Runs(node, self.columns(node.input), part, self.limit)
            by_last: dict[Place, list[Run]] = defaultdict(list)
            for run in runs.matches():
                by_last[run.rows[-1].place].append(run)
            for (moment, index), completed in by_last.items():
                for number, run in enumerate(sorted(completed, key=runs.order)):
                    values = tuple(run.variables.get(name) for name in node.measures.names)
                    yield Row(values, (moment, (*index, number)), start_of(run.rows[0].ts + node.within))


# Windows ---------------------------------------------------------------------------------------------------------


THERE: Place = ((-math.inf, TIME, 0), ())
"""The place of a relation's rows."""


def meet(parts: Sequence[Row]) -> bool:
    """W9: what falls out as it comes meets what inputs before its own hold then, and what those after it held before."""
    for at, part in enumerate(parts):
        if part.out == part.place:
            others = [*parts[:at], *parts[at + 1 :]]
            if any(other.out == other.place for other in others):
                return False
            if any(other.moment == part.moment for other in parts[at + 1 :]):
                return False
    return True


def start_of(time: float) -> Place:
    """The place before everything that happens at `time`: a row valid in [ts, time) is out from there."""
    return ((time, -1, 0), ())


def moment_of(out: Place) -> Moment:
    """The moment with which a row has left."""
    time, kind, seq = out[0]
    return (time, max(kind, TIME), seq)


def is_sorted(node: q.Node) -> bool:
    """Whether rows have places of their own in a window (W9)."""
    window = q.without_filters(node)
    return isinstance(window, q.Window) and isinstance(window.extent, Top)


def windowed(row: Row, out: Place) -> Row:
    return Row(row.values, row.place, out)


def partitions(rows: Iterable[Row], key: Callable[[Row], Values]) -> list[list[Row]]:
    """The rows of each key, keys in order of first appearance."""
    found: dict[Values, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return list(found.values())


def last_rows(rows: list[Row], count: int) -> Iterator[Row]:
    """W2: a row is pushed out by the count-th row after it."""
    for number, row in enumerate(rows):
        pusher = number + count
        yield windowed(row, rows[pusher].place if pusher < len(rows) else NEVER)


def throttled(rows: list[Row], count: int | None, time: int | None) -> list[Row]:
    """The first of every `count` rows, or of every `time` since the first row."""
    if time is None:
        return [dataclasses.replace(row, out=None) for row in rows[::count]]
    firsts = {(row.ts - rows[0].ts) // time: row for row in reversed(rows)}
    return [dataclasses.replace(row, out=None) for row in reversed(firsts.values())]


def first_events(rows: list[Row], time: int) -> list[Row]:
    """All rows of the first moment in every `time` since the first row."""
    firsts = {(row.ts - rows[0].ts) // time: row.moment for row in reversed(rows)}
    return [dataclasses.replace(row, out=None) for row in rows if row.moment in firsts.values()]


def gathered(rows: list[Row], count: int, first: bool) -> Iterator[Row]:
    """The rows of so many moments that they are `count` or more, at the last of these; or those of the first alone."""
    waiting: list[list[Row]] = []
    for _, found in itertools.groupby(rows, key=lambda row: row.moment):
        waiting.append(list(found))
        if first and len(waiting) == 1:
            yield from (dataclasses.replace(row, out=None) for row in waiting[0])
        if sum(map(len, waiting)) >= count:
            moment, told = waiting[-1][0].moment, [] if first else itertools.chain(*waiting)
            yield from (Row(row.values, (moment, (at,))) for at, row in enumerate(told))
            waiting = []


def paused(rows: list[Row], count: int | None, time: int) -> Iterator[Row]:
    """The rows that come `time` or more after the last one told."""
    last = -math.inf
    for row in rows:
        if row.ts - last >= time:
            last = row.ts
            yield dataclasses.replace(row, out=None)


def least_first(found: Any, descending: bool) -> Any:
    """What a value sorts by, NULL being least."""
    key = (found is not None, 0 if found is None else found)
    return _Down(key) if descending else key


class _Down:
    """Compares the other way round."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def __lt__(self, other: _Down) -> bool:
        return bool(other.found < self.found)


def sessions(rows: list[Row], gap: int) -> Iterator[Row]:
    """W8: all rows of a session leave `gap` after its newest one."""
    held: list[Row] = []
    for row in rows:
        if held and row.ts >= held[-1].ts + gap:
            yield from (windowed(r, start_of(held[-1].ts + gap)) for r in held)
            held = []
        held.append(row)
    yield from (windowed(r, start_of(held[-1].ts + gap)) for r in held)


def range_jumps(rows: list[Row], size: int, slide: int, offset: int, now: float) -> Iterator[Row]:
    """W3: at each boundary B = k * slide + offset that time reaches, the rows with B - size <= ts < B, valid until B + slide."""
    contents: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        following = ((row.ts - offset) // slide + 1) * slide + offset
        for boundary in range(following, row.ts + size + 1, slide):
            contents[boundary].append(row)
    for boundary, content in contents.items():
        if boundary <= now:
            yield from renewed(content, ((boundary, TIME, 0), ()), start_of(boundary + slide))


def rows_jumps(rows: list[Row], count: int, slide: int, full: bool) -> Iterator[Row]:
    """W3: at every slide-th row (C3: from the first `count` on) the last `count` rows, valid until the next such row."""
    for end in range(count if full else slide, len(rows) + 1, slide):
        out = rows[end + slide - 1].place if end + slide <= len(rows) else NEVER
        yield from renewed(rows[max(0, end - count) : end], rows[end - 1].place, out)


def renewed(content: list[Row], place: Place, out: Place) -> Iterator[Row]:
    """The content of a jumping window, its rows entering one after another at `place`."""
    moment, index = place
    for number, row in enumerate(content):
        yield Row(row.values, (moment, (*index, number)), out, place)


def nested(row: Row, branch: int) -> Row:
    """The row as the branch-th part of a longer history; only places among rows are moved, not those of time alone."""
    return Row(row.values, _under(row.place, branch), row.out and _under(row.out, branch))


def _under(place: Place, branch: int) -> Place:
    moment, index = place
    return (moment, (branch, *index) if index else ())


# Correlations ----------------------------------------------------------------------------------------------------


def takes_part(row: Row, moment: Moment) -> bool:
    """The rows of the moment itself, and those that nothing up to and including this moment has put out."""
    if row.out is None:
        raise MeaningError("W4: a correlation of a stream without a window")
    return row.moment == moment or (row.moment < moment < row.out[0])


def out_within(row: Row, moment: Moment) -> Place:
    """W5: when a combination made at `moment` loses this part. A part put out at that very moment stays to its end."""
    out = row.out or NEVER
    return (out[0], ()) if out[0] > moment else (moment, (math.inf,))


# Aggregates ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Report:
    """One evaluation of one group: its row before HAVING."""

    group: Values
    place: Place
    content: list[Row]
    of: Row | None = None
    """A row of the group, where the content may be empty."""


class Aggregation:
    """O2: a row (or a jumping window's renewal) enters, its group is reported; on_change: so is what expiry changed."""

    def __init__(self, truth: Truth, node: q.Aggregate) -> None:
        self.node = node
        self.told_anyway = isinstance(node.input, Snapshot) and (node.input.all_groups or not node.group_by)
        self.moments = truth.sampled(node.input) if self.told_anyway else []
        self.input = truth.rows(node.input.input if self.told_anyway else node.input)
        if isinstance(node.input, Snapshot) and not self.told_anyway:
            self.input = truth.snapshots(node.input, sorts=False)
        self.group_of = truth.key(node.input, node.group_by)
        self.scope = truth.scope(node.input)
        self.now = truth.now
        if any(row.out is None for row in self.input):
            raise MeaningError("W4: an aggregate over a stream without a window")
        if node.on_change:
            if any(row.jump for row in self.input):
                raise MeaningError("EMIT ON CHANGE is for windows that rows leave one by one")
            self.input = [nested(row, 1) for row in self.input]

    def rows(self) -> Iterator[Row]:
        reports = [*self.entries(), *(self.expiries() if self.node.on_change else ())]
        if self.node.every_change:
            reports = list(self.changes())
        if self.told_anyway:
            reports = list(self.samples())
        for group in {report.group: None for report in reports}:
            history = sorted((r for r in reports if r.group == group), key=lambda report: report.place)
            for report, following in itertools.zip_longest(history, history[1:]):
                yield from self.row(report, following.place if following else NEVER)

    def row(self, report: Report, replaced: Place) -> Iterator[Row]:
        """W5: out when its group is reported again (even if HAVING hides that), at the latest with its newest row."""
        newest = report.content[-1] if report.content else report.of
        scope = self.scope(newest) if newest else None
        scopes = [self.scope(row) for row in report.content]
        if self.node.having is None or value(self.node.having, scope, scopes) is True:
            values = tuple(value(column, scope, scopes) for column in self.node.columns)
            yield Row(values, report.place, min(replaced, newest.out if newest and report.of is None else NEVER))

    def entries(self) -> Iterator[Report]:
        for entering in renewals(self.input):
            last = entering[-1]
            for number, rows in enumerate(partitions(entering, self.group_of)):
                group = self.group_of(rows[0])
                if content := self.content(group, last.place):  # none where a row falls out of a W9 as it comes
                    yield Report(group, _place_of(last, number), content)

    def expiries(self) -> Iterator[Report]:
        """EMIT ON CHANGE: at x, groups that lost a row at x and still have one (without GROUP BY: also when empty)."""
        for time in sorted({row.out[0][0] for row in self.input if row.out[0][0] <= self.now}):
            at = ((time, TIME, 0), (0,))
            lost = {self.group_of(row): None for row in self.input if row.out == start_of(time)}
            contents = [(group, self.content(group, at)) for group in lost]
            kept = [(group, content) for group, content in contents if content or not self.node.group_by]
            kept.sort(key=lambda pair: pair[1][0].place if pair[1] else at)
            for number, (group, content) in enumerate(kept):
                yield Report(group, (at[0], (0, number)), content)

    def changes(self) -> Iterator[Report]:
        """EMIT ON EVERY CHANGE: what each moment changes, as it leaves it: first where rows enter, then where they leave."""

        def left(row: Row) -> Moment:
            return moment_of(row.out)

        for moment in sorted({row.moment for row in self.input} | {left(row) for row in self.input}):
            if moment[0] > self.now:
                break
            changed = [row for row in self.input if row.moment == moment]
            changed += [row for row in self.input if left(row) == moment]
            groups = {self.group_of(row): row for row in reversed(changed)}
            for number, group in enumerate(dict.fromkeys(map(self.group_of, changed))):
                inside = [row for row in self.input if row.moment <= moment < left(row) and self.group_of(row) == group]
                yield Report(group, (moment, (number,)), inside, groups[group])

    def samples(self) -> Iterator[Report]:
        """A snapshot's groups: each that has been, or all rows together, at each of its moments."""
        for moment in self.moments:
            been = [row for row in self.input if row.moment <= moment]
            for number, rows in enumerate(partitions(been, self.group_of)):
                inside = [row for row in rows if moment < moment_of(row.out)]
                yield Report(self.group_of(rows[0]), (moment, (number,)), inside, rows[0])

    def content(self, group: Values, place: Place) -> list[Row]:
        return [row for row in self.input if row.counts_at(place) and self.group_of(row) == group]


def renewals(rows: list[Row]) -> Iterator[list[Row]]:
    """The rows as they enter: a renewal of a jumping window at once, any other row alone."""
    for _, entering in itertools.groupby(rows, key=lambda row: row.jump or row.place):
        yield list(entering)


def _place_of(last: Row, number: int) -> Place:
    if last.jump is None:
        return last.place
    moment, index = last.jump
    return (moment, (*index, number))


# Row patterns ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Run:
    """Rows taken as symbols, one at each of consecutive instants, and the variables set on the way."""

    rows: tuple[Row, ...]
    symbols: tuple[str, ...]
    variables: Mapping[str, Any]


class Runs:
    """P1–P4: all ways to match over the rows of one partition, by trying them."""

    def __init__(self, node: q.Match, columns: list[str], rows: list[Row], limit: int) -> None:
        self.node = node
        self.columns = [(None, name) for name in columns]
        self.instants = [list(at) for _, at in itertools.groupby(rows, key=lambda row: row.ts)]
        self.define = {definition.symbol: definition for definition in node.define}
        self.symbols = symbols_of(node.pattern)
        self.steps_left = 20 * limit
        if not self.define.keys() <= set(self.symbols):
            raise MeaningError("DEFINE of a symbol that PATTERN does not have")

    def matches(self) -> Iterator[Run]:
        start = frozenset({(self.node.pattern,)})
        for first in range(len(self.instants)):
            yield from self.longer(Run((), (), {}), start, first)

    def longer(self, run: Run, language: Language, instant: int) -> Iterator[Run]:
        """The matches that go on with one row of this instant, then perhaps rows of the next ones."""
        for row, symbol in itertools.product(self.instants[instant], self.symbols):
            rest = derivative(language, symbol)
            if rest and self.holds(symbol, row, run):
                taken = self.taken(symbol, row, run)
                if any(map(matches_nothing, rest)):
                    yield taken
                if instant + 1 < len(self.instants):
                    yield from self.longer(taken, rest, instant + 1)

    def holds(self, symbol: str, row: Row, run: Run) -> bool:
        """P3 and P4: the condition over the row and the variables so far, and the time since the first row."""
        self.steps_left -= 1
        if self.steps_left < 0:
            raise LimitError("too many runs")
        if run.rows and row.ts - run.rows[0].ts >= self.node.within:
            return False
        condition = self.define[symbol].condition if symbol in self.define else None
        return condition is None or value(condition, self.scope(row, run)) is True

    def taken(self, symbol: str, row: Row, run: Run) -> Run:
        """P3: the assignments of one symbol all see the values before."""
        assignments = self.define[symbol].assignments if symbol in self.define else ()
        scope = self.scope(row, run)
        changed = {name: value(expression, scope) for name, expression in assignments}
        return Run((*run.rows, row), (*run.symbols, symbol), {**run.variables, **changed})

    def scope(self, row: Row, run: Run) -> Scope:
        variables = [(None, name) for name in self.node.measures.names]
        return Scope(
            [*self.columns, *variables], (*row.values, *(run.variables.get(name) for name in self.node.measures.names))
        )

    def order(self, run: Run) -> tuple:
        """P6, then the symbols in order of first appearance in the pattern."""
        return [row.place for row in run.rows], [self.symbols.index(symbol) for symbol in run.symbols]


Language = frozenset[tuple[p.Pattern, ...]]
"""What may follow: alternatives, each a sequence of patterns still to be matched (Antimirov's partial derivatives)."""


def derivative(language: Language, symbol: str) -> Language:
    """What may follow after `symbol`; empty where the symbol is not allowed.

    Being a set of alternatives it forgets how it was reached: equal (row, symbol) sequences arise once (P5).
    """
    return frozenset(rest for todo in language for rest in _after(todo, symbol))


def matches_nothing(todo: tuple[p.Pattern, ...]) -> bool:
    """Whether the sequence of patterns may end here."""
    return all(map(_nullable, todo))


def _after(todo: tuple[p.Pattern, ...], symbol: str) -> set[tuple[p.Pattern, ...]]:
    if not todo:
        return set()
    first, rest = todo[0], todo[1:]
    found = {(*begun, *rest) for begun in _after_one(first, symbol)}
    return found | _after(rest, symbol) if _nullable(first) else found


def _after_one(tree: p.Pattern, symbol: str) -> set[tuple[p.Pattern, ...]]:
    match tree:
        case p.Symbol(name):
            return {()} if name == symbol else set()
        case p.Concatenation(parts):
            return _after(parts, symbol)
        case p.Alternation(parts):
            return set().union(*(_after_one(part, symbol) for part in parts))
        case p.Permutation(parts):
            return set().union(*(_after(order, symbol) for order in itertools.permutations(parts)))
        case p.Exclusion(part):
            return _after_one(part, symbol)
        case p.Quantified(part, least, most):
            return {(*begun, *_once_less(part, least, most)) for begun in _after_one(part, symbol)}
        case p.Empty():
            return set()
    raise MeaningError(f"P1 has no {tree}")


def _once_less(part: p.Pattern, least: int, most: int | None) -> tuple[p.Pattern, ...]:
    if most == 1:
        return ()
    owed = 0 if _nullable(part) else max(least - 1, 0)
    return (p.Quantified(part, owed, None if most is None else most - 1),)


def _nullable(tree: p.Pattern) -> bool:
    match tree:
        case p.Symbol():
            return False
        case p.Alternation(parts):
            return any(map(_nullable, parts))
        case p.Quantified(part, least):
            return least == 0 or _nullable(part)
    return all(map(_nullable, p.parts(tree)))


def symbols_of(tree: p.Pattern) -> list[str]:
    """The symbols in order of first appearance."""
    inner = [tree.name] if isinstance(tree, p.Symbol) else [s for part in p.parts(tree) for s in symbols_of(part)]
    return list(dict.fromkeys(inner))


# Scalars ---------------------------------------------------------------------------------------------------------


class Scope:
    """Values by name, with or without the input's alias; case does not count, as in SQL."""

    def __init__(self, names: Sequence[tuple[str | None, str]], values: Values) -> None:
        self.names = names
        self.values = values

    def find(self, table: str, name: str) -> Any:
        found = [
            place
            for place, (alias, column) in enumerate(self.names)
            if column.lower() == name.lower() and (not table or (alias or "").lower() == table.lower())
        ]
        if not table and len(found) > 1:  # by its name in the result, before that in an input
            found = [place for place in found if self.names[place][0] is None] or found
        if len(found) > 1:
            raise AmbiguousError(f"ambiguous column {table + '.' if table else ''}{name}")
        if not found:
            raise MeaningError(f"unknown column {table + '.' if table else ''}{name}")
        return self.values[found[0]]


def projected(columns: Sequence[exp.Expression], row: Row, scope: Scope) -> Values:
    parts = (row.values if isinstance(column, exp.Star) else (value(column, scope),) for column in columns)
    return tuple(itertools.chain.from_iterable(parts))


def value(tree: exp.Expression, scope: Scope | None, group: list[Scope] | None = None) -> Any:
    """The value of an expression in SQL's three-valued logic; aggregates range over `group`."""
    if isinstance(tree, exp.AggFunc):
        if group is None:
            raise MeaningError(f"{tree.sql()} outside of an aggregate")
        return aggregated(tree, group)
    kind = type(tree)
    if kind in BINARY:
        return strict(BINARY[kind], value(tree.this, scope, group), value(tree.expression, scope, group))
    return _value(tree, scope, lambda part: value(part, scope, group))


def strict(operation: Callable[..., Any], *operands: Any) -> Any:
    """NULL in, NULL out."""
    return None if any(operand is None for operand in operands) else operation(*operands)


BINARY: dict[type, Callable[[Any, Any], Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: a / b if b else None,
    exp.DPipe: lambda a, b: a + b,
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
}


def _value(tree: exp.Expression, scope: Scope | None, of: Callable[[exp.Expression], Any]) -> Any:
    match tree:
        case exp.Column() if scope is not None:
            return scope.find(tree.table, tree.name)
        case exp.Literal():
            return tree.this if tree.is_string else int(tree.this) if tree.is_int else float(tree.this)
        case exp.Boolean():
            return tree.this
        case exp.Null():
            return None
        case exp.Paren() | exp.Alias():
            return of(tree.this)
        case exp.And():
            return conjunction(of(tree.this), of(tree.expression))
        case exp.Or():
            return negation(conjunction(negation(of(tree.this)), negation(of(tree.expression))))
        case exp.Not():
            return negation(of(tree.this))
        case exp.Is():
            return of(tree.this) is of(tree.expression)
        case exp.NullSafeEQ():
            return of(tree.this) == of(tree.expression)
        case exp.Between():
            low, high = of(tree.args["low"]), of(tree.args["high"])
            operand = of(tree.this)
            return conjunction(strict(BINARY[exp.GTE], operand, low), strict(BINARY[exp.LTE], operand, high))
        case exp.In():
            return contained(of(tree.this), [of(item) for item in tree.expressions])
    return _function(tree, of)


def _function(tree: exp.Expression, of: Callable[[exp.Expression], Any]) -> Any:
    match tree:
        case exp.Case():
            return case(tree, of)
        case exp.Coalesce():
            return next((v for part in [tree.this, *tree.expressions] if (v := of(part)) is not None), None)
        case exp.Abs():
            return strict(abs, of(tree.this))
        case exp.Neg():
            return strict(lambda a: -a, of(tree.this))
    raise MeaningError(f"no meaning for {tree.sql()} here")


def conjunction(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def negation(operand: bool | None) -> bool | None:
    return None if operand is None else not operand


def contained(operand: Any, items: list[Any]) -> bool | None:
    """x IN (…) is x = item OR x = item …"""
    if operand is None:
        return None if items else False
    return True if operand in [item for item in items if item is not None] else None if None in items else False


def case(tree: exp.Case, of: Callable[[exp.Expression], Any]) -> Any:
    for branch in tree.args["ifs"]:
        condition = of(branch.this)
        if tree.this is not None:
            condition = strict(BINARY[exp.EQ], of(tree.this), condition)
        if condition is True:
            return of(branch.args["true"])
    return of(tree.args["default"]) if tree.args.get("default") else None


def aggregated(tree: exp.AggFunc, group: list[Scope]) -> Any:
    """An aggregate over the rows of a group, in order of place. All but FIRST, LAST and COUNT(*) pass over NULL."""
    inner = tree.this
    if isinstance(inner, exp.Star):
        return len(group)
    distinct = isinstance(inner, exp.Distinct)
    all_values = [value(inner.expressions[0] if distinct else inner, scope) for scope in group]
    if isinstance(tree, exp.First | exp.Last):
        away = int(tree.args["expression"].name) if tree.args.get("expression") else 0
        at = away if isinstance(tree, exp.First) else len(group) - 1 - away
        return all_values[at] if 0 <= at < len(group) else None
    known = [v for v in all_values if v is not None]
    if isinstance(tree, exp.NthValue):
        at = len(known) - 1 - int(tree.args["offset"].name)
        return known[at] if at >= 0 else None
    return AGGREGATES[type(tree)](list(dict.fromkeys(known)) if distinct else known)


def deviation(values: list[Any]) -> float | None:
    """Of the sample: n - 1."""
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


AGGREGATES: dict[type, Callable[[list[Any]], Any]] = {
    exp.Count: len,
    exp.Sum: lambda values: sum(values) if values else None,
    exp.Avg: lambda values: sum(values) / len(values) if values else None,
    exp.Min: lambda values: min(values, default=None),
    exp.Max: lambda values: max(values, default=None),
    exp.Stddev: deviation,
    exp.StddevSamp: deviation,
}
