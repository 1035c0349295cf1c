"""Results reported together, n at a time (EPL's output every n events): a table of waiting results, and a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlglot import exp

from bridge.query.epl_output import OutputEvery
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.state_tables import add_table, arrived, row_columns
from windows.databases import Database
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    derived_table,
    lexicographically_before,
    number,
    row_number,
    table,
)
from windows.times import NEVER

_REPORT = ("ts", "seq", "_at_ts", "_at_seq")
"""The event of a row, and the event at which the row is reported."""


@rewrite.register
def _(node: OutputEvery, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        operator.result = _reports(operator, node, network)

    return network.give(network.operator(node, build, "OutputEvery"), node, need)


def _reports(operator: Operator, node: OutputEvery, network: Network) -> Flow:
    """The rows that this push reports."""
    below = network.rewrite(node.input, Need.ARRIVALS)
    raw, ends, reports = (network.name(kind, node) for kind in ("raw", "ends", "reported"))
    rows = below.arrivals.project(row_columns(below, number(NEVER))).select()
    add_table(operator, raw, rows)
    add_table(operator, ends, exp.select(*(aliased(bigint_zero(), name) for name in _REPORT[:2])))
    add_table(operator, reports, exp.select(*(aliased(bigint_zero(), name) for name in _REPORT)))
    operator.inboxes.append(reports)
    reported = exp.select(number(1)).from_(aliased_table(ends, "e")).where(_not_after(raw, "e"))
    operator.steps += [Purge(raw, exp.Exists(this=reported)), Insert(raw, rows)]
    counted = exp.select(column("ts"), column("seq"), exp.Count(this=exp.Star())).from_(table(raw))
    counted = counted.group_by(column("ts"), column("seq")).order_by(column("ts"), column("seq"))
    database = network.database
    quoted = database.quoted(ends), database.quoted(reports)
    operator.steps.append(CountStep(reports, database.render(counted), *quoted, node.count, node.first))
    newest = exp.select(aliased(exp.Max(this=column("ts")), "ts")).from_(table(ends))
    newest = exp.select(column("ts")).from_(derived_table(newest, "m"))
    operator.purges.append(Purge(ends, exp.LT(this=column("ts"), expression=exp.Subquery(this=newest))))
    return _result(below, raw, reports, node.first)


def _not_after(row: str, end: str) -> exp.Expr:
    """Whether a row arrived no later than the event at which rows were reported."""
    return lexicographically_before(
        [
            (column_of(row, "ts"), column_of(end, "ts")),
            (column_of(row, "seq"), exp.Add(this=column_of(end, "seq"), expression=number(1))),
        ]
    )


def _result(below: Flow, raw: str, reports: str, first: bool) -> Flow:
    """The rows, with ts and seq of the event at which they are reported; if `first`, only the rows of this push."""
    order = [column_of("r", name) for name in ("ts", "seq", *below.order)]
    at = [column_of("t", name) for name in _REPORT[2:]]
    place = row_number(at, order)
    columns = [aliased(at[0], "ts"), aliased(at[1], "seq"), column_of("r", "_expires"), aliased(place, "_place")]
    select = exp.select(*columns, *(column_of("r", name) for name in below.names))
    pairs = [exp.EQ(this=column_of("r", name), expression=column_of("t", name)) for name in ("ts", "seq")]
    select = select.from_(aliased_table(raw, "r")).join(aliased_table(reports, "t"), on=exp.and_(*pairs))
    select = select.where(arrived("r", below)) if first else select
    names = ("ts", "seq", "_expires", "_place", *below.names)
    rows = Selection.of(exp.Subquery(this=select), names)
    return Flow(below.names, rows, order=("_place",), timed=below.timed, hidden=below.hidden)


@dataclasses.dataclass
class CountStep:
    """A step that finds the events at which `count` or more rows wait, so that they are reported.

    With `first`, only the rows of the event that begins a count are reported, at once.

    Args:
        counted: the statement of the waiting events, each with its number of rows.
        ends: the table of the events that end a count.
        reports: the table of the rows to report.
    """

    table: str
    counted: str
    ends: str
    reports: str
    count: int
    first: bool

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Inserts the ends of counts, and the rows to report."""
        ends, reports, waiting = list[tuple[int, int]](), list[tuple[int, ...]](), list[tuple[int, int]]()
        reached = 0
        for ts, number_of, rows in database.fetch(self.counted):
            waiting.append((ts, number_of))
            reached += rows
            if self.first and len(waiting) == 1:
                reports.append((ts, number_of, ts, number_of))
            if reached >= self.count:
                reports += [] if self.first else [(*event, ts, number_of) for event in waiting]
                ends.append((ts, number_of))
                waiting, reached = [], 0
        if reports:
            database.insert(self.reports, len(_REPORT), reports)
        if ends:
            database.insert(self.ends, 2, ends)

    def forget(self) -> None:
        """Does nothing, as nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement that counts."""
        return f"-- with every {self.count} of these rows or more they go to {self.reports}\n{pretty(self.counted)};"
