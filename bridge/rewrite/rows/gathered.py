"""Results told together once there are enough: a table of those that wait, and a step that counts them event by event."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlglot import exp

from bridge.query.epl_output import OutputEvery
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, add_table, arrived, rewrite, row_columns
from bridge.rewrite.plan import Insert, Operator, Purge
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

_TOLD = ("ts", "seq", "_at_ts", "_at_seq")
"""The moment of rows, and that at which they are told."""


@rewrite.register
def _(node: OutputEvery, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        operator.result = _gathered(operator, node, network)

    return network.give(network.operator(node, build, "OutputEvery"), node, need)


def _gathered(operator: Operator, node: OutputEvery, network: Network) -> Flow:
    below = network.rewrite(node.input, Need.ARRIVALS)
    raw, ends, told = (network.name(kind, node) for kind in ("raw", "ends", "told"))
    rows = below.arrivals.project(row_columns(below, number(NEVER))).select()
    add_table(operator, raw, rows)
    add_table(operator, ends, exp.select(*(aliased(bigint_zero(), name) for name in _TOLD[:2])))
    add_table(operator, told, exp.select(*(aliased(bigint_zero(), name) for name in _TOLD)))
    operator.inboxes.append(told)
    done = exp.select(number(1)).from_(aliased_table(ends, "e")).where(_not_after(raw, "e"))
    operator.steps += [Purge(raw, exp.Exists(this=done)), Insert(raw, rows)]
    counted = exp.select(column("ts"), column("seq"), exp.Count(this=exp.Star())).from_(table(raw))
    counted = counted.group_by(column("ts"), column("seq")).order_by(column("ts"), column("seq"))
    database = network.database
    quoted = database.quoted(ends), database.quoted(told)
    operator.steps.append(Counting(told, database.render(counted), *quoted, node.count, node.first))
    newest = exp.select(aliased(exp.Max(this=column("ts")), "ts")).from_(table(ends))
    newest = exp.select(column("ts")).from_(derived_table(newest, "m"))
    operator.purges.append(Purge(ends, exp.LT(this=column("ts"), expression=exp.Subquery(this=newest))))
    return _result(below, raw, told, node.first)


def _not_after(row: str, end: str) -> exp.Expr:
    """Whether a row came with the event at which others were told, or before."""
    return lexicographically_before(
        [
            (column_of(row, "ts"), column_of(end, "ts")),
            (column_of(row, "seq"), exp.Add(this=column_of(end, "seq"), expression=number(1))),
        ]
    )


def _result(below: Flow, raw: str, told: str, first: bool) -> Flow:
    """The rows with the moment at which they are told; the `first` ones are of this push, and else were told before."""
    order = [column_of("r", name) for name in ("ts", "seq", *below.order)]
    at = [column_of("t", name) for name in _TOLD[2:]]
    place = row_number(at, order)
    columns = [aliased(at[0], "ts"), aliased(at[1], "seq"), column_of("r", "_expires"), aliased(place, "_place")]
    select = exp.select(*columns, *(column_of("r", name) for name in below.names))
    pairs = [exp.EQ(this=column_of("r", name), expression=column_of("t", name)) for name in ("ts", "seq")]
    select = select.from_(aliased_table(raw, "r")).join(aliased_table(told, "t"), on=exp.and_(*pairs))
    select = select.where(arrived("r", below)) if first else select
    names = ("ts", "seq", "_expires", "_place", *below.names)
    found = Selection.of(exp.Subquery(this=select), names)
    return Flow(below.names, found, order=("_place",), timed=below.timed, hidden=below.hidden)


@dataclasses.dataclass
class Counting:
    """A step: at which events the rows that wait are enough to be told; of `first` those of the event that begins."""

    table: str
    counted: str
    ends: str
    told: str
    count: int
    first: bool

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Note the events with which rows are told, and the rows' own."""
        ends, told, waiting = list[tuple[int, int]](), list[tuple[int, ...]](), list[tuple[int, int]]()
        reached = 0
        for ts, number_of, rows in database.fetch(self.counted):
            waiting.append((ts, number_of))
            reached += rows
            if self.first and len(waiting) == 1:
                told.append((ts, number_of, ts, number_of))
            if reached >= self.count:
                told += [] if self.first else [(*moment, ts, number_of) for moment in waiting]
                ends.append((ts, number_of))
                waiting, reached = [], 0
        if told:
            database.insert(self.told, len(_TOLD), told)
        if ends:
            database.insert(self.ends, 2, ends)

    def forget(self) -> None:
        """Nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement that counts."""
        return f"-- with every {self.count} of these rows or more they go to {self.told}\n{pretty(self.counted)};"
