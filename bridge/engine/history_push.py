"""Pushes of a history whose state nobody reads afterwards: tables of state are replaced by views over the events."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from sqlglot import exp

from bridge.engine.execution.runner import Runner
from bridge.engine.results import Results
from bridge.rewrite.flow import LastRows
from bridge.rewrite.patterns.tables import ROW_ID
from bridge.rewrite.plan import Insert, UpdateRows
from windows.arrow import ids_table
from windows.databases import Database
from windows.sql import aliased, column, derived_table, number, row_number, table_names

if TYPE_CHECKING:
    import pyarrow as pa


class HistoryEvents(NamedTuple):
    """Events in the order of time, numbered: per stream an Arrow table of `ts`, `seq` and the attributes.

    A table may also be the text of a SELECT of these columns. `size`: the number of events; `first`, `last`: their
    times, in milliseconds.
    """

    tables: Mapping[str, pa.Table | str]
    size: int
    first: int
    last: int


class HistoryMatcher(Protocol):
    """A step that is not a statement: it reads a table of `rows`, and returns rows of its result `table`.

    `needed`: the ids of the rows that it needs again with the next slice of the history.
    """

    @property
    def rows(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def needed(self) -> Sequence[Sequence[int]]: ...

    def run(self, database: Database, now: int, last: int | None) -> pa.Table | None:
        """The results of these rows at the time `now`. `last`: the number of the last event, if no event follows."""


@runtime_checkable
class HasHistory(Protocol):
    """A step that may have a form for a history; None if it has none."""

    def history(self) -> HistoryMatcher | None: ...


class HistoryPush:
    """The statements of a bridge over all events that some results depend on, without tables of state.

    A push fills tables of state, from which its own results are read. Here each such table is a view with the same
    columns, so the database plans inputs and results as one statement, and stores nothing. The results are those of one
    push of the events into a new bridge.

    `is_sequence`: each slice of the history continues the one before it, with the rows that matchers need again, or
    with the last rows of a window. Otherwise slices are independent.
    """

    def __init__(self, runner: Runner, queries: Iterable[str], is_sequence: bool) -> None:
        """Raises NotImplementedError where a step needs a table of state. `queries`: the queries to read results of."""
        self._runner, self._database, self._is_sequence = runner, runner.database, is_sequence
        results = [runner.catalogue.query_entry(name).results.of("history").statement for name in queries]
        self._steps, reads = _needed(_steps_of(runner), results)
        filled = [step for step in self._steps if isinstance(step, _Fill)]
        matched = {step.rows for step in self._steps if not isinstance(step, _Fill)}
        self._last_rows = dict(_last_rows(runner))
        """The windows of last rows, by table."""
        if matched and not (is_sequence and {step.table for step in filled} <= matched):
            raise NotImplementedError("a matcher beside a table of state")
        if (
            is_sequence
            and not matched
            and not {step.table for step in filled if step.is_state} <= self._last_rows.keys()
        ):
            raise NotImplementedError("a table of state that has more than the last rows of a window")
        self._stored = {step.table for step in filled if reads[step.table] > 1}
        """The tables that several statements read; their rows are computed once."""
        self._needed_rows: dict[str, pa.Table] = {}
        """The rows of earlier slices that are needed again, by table."""
        self._seq = 0

    def run(self, events: HistoryEvents, until: int, is_last: bool) -> Results:
        """The results of these events, while time passes from the first of them to `until`, in milliseconds.

        `is_last`: no events follow.
        """
        self._seq = self._seq + events.size if self._is_sequence else events.size
        self._runner.settle(None)
        self._runner.set_clock(events.first, until, self._seq)
        found = self._run(events, until, None, goes_on=self._is_sequence and not is_last)
        if is_last and any(not isinstance(step, _Fill) for step in self._steps):
            found += self._run(events._replace(tables={}), until, self._seq)
        return found

    def _run(self, events: HistoryEvents, until: int, last: int | None, goes_on: bool = False) -> Results:
        runner, database, catalogue = self._runner, self._database, self._runner.catalogue
        with contextlib.ExitStack() as stack:
            for name, rows in events.tables.items():
                self._show(stack, catalogue.stream_entry(name).inbox, rows)
            for step in self._steps:
                if isinstance(step, _Fill):
                    needed = self._needed_rows.get(step.table)
                    earlier = () if needed is None or not needed.num_rows else (needed,)
                    self._show(stack, step.table, *earlier, database.render(step.select))
                    if goes_on and step.table in self._last_rows:
                        self._needed_rows[step.table] = self._last_rows_of(step.table)
                    continue
                results = step.run(database, until, last)
                if results is not None:
                    self._show(stack, step.table, results)
                self._needed_rows[step.rows] = self._rows_of(step)
            streams = frozenset(name.lower() for name in catalogue.streams)
            return runner.results.read(
                database, streams, events.size, True, events.last - events.first, is_history=True
            )

    def _show(self, stack: contextlib.ExitStack, table: str, *rows: pa.Table | str) -> None:
        """Lets statements read these rows (tables or texts of SELECTs) as `table`, until `stack` is closed."""
        selects = [
            part if isinstance(part, str) else f"SELECT * FROM {stack.enter_context(self._database.registered(part))}"
            for part in rows
        ]
        is_stored = table in self._stored
        stack.enter_context(self._database.temporary_view(table, " UNION ALL ".join(selects), is_stored))

    def _rows_of(self, matcher: HistoryMatcher) -> pa.Table:
        """The rows that a matcher needs again."""
        names = [self._database.quoted(name) for name in ROW_ID]
        rows = self._database.quoted(matcher.rows)
        with self._database.registered(ids_table(ROW_ID, matcher.needed)) as needed:
            found = self._database.fetch_arrow(f"SELECT * FROM {rows} SEMI JOIN {needed} USING ({', '.join(names)})")
        assert found is not None
        return found

    def _last_rows_of(self, table: str) -> pa.Table:
        """The rows that events of later slices need."""
        size, keys, rows = self._last_rows[table]
        newest_first = exp.Ordered(this=column("seq"), desc=True)
        place = row_number([rows.value(key) for key in keys], [newest_first])
        ranked = derived_table(rows.select(["seq"]).select(aliased(place, "_n")), "q")
        last = exp.select(column("seq")).from_(ranked).where(exp.LTE(this=column("_n"), expression=number(size)))
        select = rows.select().where(exp.In(this=column("seq"), query=exp.Subquery(this=last)))
        found = self._database.fetch_arrow(self._database.render(select))
        assert found is not None
        return found


class _Fill(NamedTuple):
    """A table, with one SELECT for all its INSERTs. `is_state`: whether its rows stay after the push."""

    table: str
    select: exp.Query
    is_state: bool


def _steps_of(runner: Runner) -> list[_Fill | HistoryMatcher]:
    """The steps of all operators, in order."""
    found: list[_Fill | HistoryMatcher] = []
    read: set[str] = set()
    for operator in runner.active_operators():
        passing = {*operator.inboxes, *operator.derived}
        selects: dict[str, list[exp.Query]] = {}
        for step in operator.steps:
            if isinstance(step, UpdateRows):
                continue  # tables that stay empty
            if isinstance(step, Insert) and step.table in {made.name for made in operator.tables}:
                select = step.variants.of("history")()
                assert isinstance(select, exp.Query)
                read.update(table_names(select))
                if step.table in read:
                    raise NotImplementedError(f"{step.table} is read before it is filled")
                selects.setdefault(step.table, []).append(select)
                continue
            matcher = step.history() if isinstance(step, HasHistory) else None
            if matcher is None:
                raise NotImplementedError(f"{operator.title} is more than a statement")
            found += _fills(selects, passing)
            found.append(matcher)
            selects.clear()
        found += _fills(selects, passing)
    return found


def _fills(selects: Mapping[str, Sequence[exp.Query]], passing: Collection[str]) -> Iterator[_Fill]:
    for table, parts in selects.items():
        select = exp.union(*parts, distinct=False) if len(parts) > 1 else parts[0]
        yield _Fill(table, select, table not in passing)


def _last_rows(runner: Runner) -> Iterator[tuple[str, LastRows]]:
    """The tables of windows of last rows."""
    for operator in runner.active_operators():
        flow = operator.arrivals
        if flow is not None and flow.is_last_rows and flow.last is not None:
            yield flow.last.rows.source.name, flow.last


def _needed(
    steps: Sequence[_Fill | HistoryMatcher], results: Sequence[exp.Expr]
) -> tuple[list[_Fill | HistoryMatcher], collections.Counter[str]]:
    """The steps whose tables the results read, directly or through others, and how often each table is read."""
    reads = collections.Counter(name for statement in results for name in table_names(statement))
    found: list[_Fill | HistoryMatcher] = []
    for step in reversed(steps):
        if reads[step.table]:
            found.append(step)
            reads.update(table_names(step.select) if isinstance(step, _Fill) else [step.rows])
    return found[::-1], reads
