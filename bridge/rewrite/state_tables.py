"""The tables in which operators store rows: their columns and indexes, and the purges of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from bridge.rewrite.flow import Flow
from bridge.rewrite.plan import Operator, PlannedTable, Purge
from windows.databases.base import Database
from windows.sql import column, column_of, number, over, table

CLOCK = "cep_clock"
"""One row: `before` and `now`, the newest times before and after the push, and `seq`, the newest event's number."""


def add_table(
    operator: Operator, name: str, like: exp.Query, indexes: tuple[tuple[str, ...], ...] = (), is_late: bool = False
) -> None:
    operator.tables.append(PlannedTable(name, like, indexes, is_late))


def indexed_by(time: str, rows: exp.Select, database: Database) -> tuple[tuple[str, ...], ...]:
    """The indexes of a window table by `time` (`ts`, `_expires` or `seq`); valid rows are at their end."""
    others = [name for name in ("seq", *rows.named_selects) if name != time]
    return (tuple(dict.fromkeys((time, *others))),) if database.covering_indexes else ((time,),)


def clock(name: str) -> exp.Expr:
    """The time `now`, or the time `before` the push, as a sub-query on the clock."""
    return exp.Subquery(this=exp.select(column(name)).from_(table(CLOCK)))


def ago(milliseconds: int) -> exp.Expr:
    """The time `milliseconds` before now."""
    return exp.Sub(this=clock("now"), expression=number(milliseconds))


def keep_for(operator: Operator, milliseconds: int) -> str:
    """The name of an operator's table, whose rows are kept for at least `milliseconds` from now on."""
    name = operator.tables[0].name
    if milliseconds > operator.longest:
        operator.longest = milliseconds
        operator.purges = [Purge(name, exp.LTE(this=column("ts"), expression=ago(milliseconds)))]
    return name


def expired(name: str) -> Purge:
    return Purge(name, exp.LTE(this=column("_expires"), expression=clock("now")))


def all_but_newest(name: str, keys: Iterable[exp.Expr], count: int, order: Sequence[str]) -> Purge:
    """A purge of the rows that are not among the `count` newest of their key, in this order."""
    place = over(exp.RowNumber(), keys, [])
    place.set("order", exp.Order(expressions=[exp.Ordered(this=column(name), desc=True) for name in order]))
    return Purge.beyond(name, order, place, count)


def arrived(alias: str, below: Flow) -> exp.Expr:
    """Whether a row of the table (alias `alias`) is one of this push's arrivals."""
    keys = ("ts", "seq") if below.timed else ("seq",)
    row = [column_of(alias, key) for key in keys]
    return exp.In(
        this=exp.Tuple(expressions=row) if len(row) > 1 else row[0],
        query=exp.Subquery(this=below.arrivals.select(keys)),
    )


def order_columns(flow: Flow) -> dict[str, exp.Expr]:
    """The columns that order rows; a window table copies them from its input."""
    return {name: column(name) for name in flow.order}


def row_columns(flow: Flow, expires: exp.Expr) -> dict[str, exp.Expr]:
    """The columns of a window table over a flow: those of the flow's rows, with another expiry."""
    return {
        "ts": column("ts"),
        "seq": column("seq"),
        "_expires": expires,
        **order_columns(flow),
        **{name: column(name) for name in flow.names},
    }
