"""Pushes of a history whose state nobody reads afterwards: what would be tables of state are views over the events."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from bridge.engine.results import Results
from bridge.engine.runner import Runner
from bridge.rewrite.plan import Insert

if TYPE_CHECKING:
    import pyarrow as pa


class HistoryEvents(NamedTuple):
    """Events in the order of time, numbered from 1: per stream an Arrow table of `ts`, `seq` and the attributes.

    In place of a table may stand the text of a SELECT of these columns. `size`: their number; `first`, `last`: their times,
    in milliseconds.
    """

    tables: Mapping[str, pa.Table | str]
    size: int
    first: int
    last: int


class HistoryPush:
    """The statements of a bridge over all events that some results look at, without state before or after them.

    A push fills tables of state, from which its own results are read. Here each such table is a view with the same
    columns, so the database plans inputs and results as one statement, and stores nothing. The rows are those of one push
    of the events into a new bridge.
    """

    def __init__(self, runner: Runner) -> None:
        """Raises NotImplementedError where a step is more than a statement that fills a table from those before it."""
        self._runner, self._database = runner, runner.database
        entries = runner.active_queries()
        results = [entry.results.of("any").statement for entry in entries if entry.processors]
        self._selects, reads = _needed(_selects_of(runner), results)
        self._stored = {name for name in self._selects if reads[name] > 1}
        """The tables that several statements read: they are filled once."""

    def run(self, events: HistoryEvents, until: int) -> Results:
        """The results of these events, while time passes from the first of them to `until`, in milliseconds."""
        runner, catalogue = self._runner, self._runner.catalogue
        runner.settle(None)
        runner.set_clock(events.first, until, events.size)
        with contextlib.ExitStack() as stack:
            for name, rows in events.tables.items():
                stack.enter_context(self._readable(catalogue.stream_entry(name).inbox, rows))
            for name, selects in self._selects.items():
                whole = exp.union(*selects, distinct=False) if len(selects) > 1 else selects[0]
                text = self._database.render(whole)
                stack.enter_context(self._database.standing_in(name, text, name in self._stored))
            streams = frozenset(name.lower() for name in events.tables)
            return runner.results.read(self._database, streams, events.size, True, events.last - events.first)

    @contextlib.contextmanager
    def _readable(self, inbox: str, rows: pa.Table | str) -> Iterator[None]:
        """Lets the statements read events in the place of an inbox."""
        if isinstance(rows, str):
            with self._database.standing_in(inbox, rows, False):
                yield
            return
        self._database.register_arrow(inbox, rows)
        try:
            yield
        finally:
            self._database.unregister_arrow(inbox)


def _needed(
    selects: dict[str, list[exp.Query]], results: Sequence[exp.Expr]
) -> tuple[dict[str, list[exp.Query]], collections.Counter[str]]:
    """The SELECTs whose tables the results read, also through others, and how often each table is read."""
    reads = collections.Counter(name for statement in results for name in _tables_of(statement))
    found: dict[str, list[exp.Query]] = {}
    for name in reversed(selects):
        if reads[name]:
            found[name] = selects[name]
            reads.update(read for select in selects[name] for read in _tables_of(select))
    return dict(reversed(found.items())), reads


def _tables_of(statement: exp.Expr) -> list[str]:
    return [each.name for each in statement.find_all(exp.Table)]


def _selects_of(runner: Runner) -> dict[str, list[exp.Query]]:
    """The SELECTs that fill each table of state, in the order of the steps."""
    found: dict[str, list[exp.Query]] = {}
    read: set[str] = set()
    for operator in runner.active_operators():
        tables = {made.name for made in operator.tables}
        for step in operator.steps:
            if not isinstance(step, Insert) or step.table not in tables:
                raise NotImplementedError(f"{operator.title} is more than a statement")
            select = step.variants.of("any")()
            assert isinstance(select, exp.Query)
            read.update(_tables_of(select))
            if step.table in read:
                raise NotImplementedError(f"{step.table} is read before it is filled")
            found.setdefault(step.table, []).append(select)
    return found
