"""Aggregates over the rows of matches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.check import column
from bridge.recognize.arrow import Array, Bools, Ints, taken
from bridge.recognize.members import ABSENT, Members
from bridge.recognize.rows import SortedRows, arrow_columns, lent
from bridge.recognize.values import LABEL, NUMBER, Fold
from windows.databases import Database


def folded(fold: Fold, database: Database, rows: SortedRows, members: Members, match: Ints, member: Ints) -> Array:
    """An aggregate's value for each row of the answer: of its match, or of what the match had taken by its member."""
    arguments = _arguments(fold.call)
    columns = dict(zip(arguments, rows.columns([column(name) for name in arguments]), strict=True))
    inside = members.is_one_of(fold.symbols)
    if fold.final:
        values, of_match = _grouped(fold, database, members, columns, inside)
        place = np.full(members.matches + 1, ABSENT)
        place[of_match] = np.arange(len(of_match))
        places = place[match]
    else:
        values = _running(fold, database, members, columns, inside)
        places = member
    absent = places < 0
    found = (
        values.take(pa.array(np.where(absent, 0, places), pa.int64(), mask=absent))
        if len(values)
        else _nulls(values, len(match))
    )
    return _counted(fold, found, match)


def _nulls(values: Array, count: int) -> Array:
    return pa.nulls(count, values.type)


def _counted(fold: Fold, values: Array, match: Ints) -> Array:
    """COUNT over no rows is 0, where there is a match at all."""
    call = fold.call.this if isinstance(fold.call, exp.Filter) else fold.call
    if not isinstance(call, (exp.Count, exp.CountIf)):
        return values
    import pyarrow.compute as pc

    zero = pa.scalar(0, pa.int64())
    counts = pc.fill_null(values.cast(pa.int64()), zero)
    return pc.if_else(pa.array(match == ABSENT), pa.scalar(None, pa.int64()), counts)


def _arguments(call: exp.Expr) -> list[str]:
    names = [found.name for found in call.find_all(exp.Column)]
    return [name for name in dict.fromkeys(names) if name not in (LABEL, NUMBER)]


def _table(members: Members, chosen: Ints, columns: dict[str, Array], call: exp.Expr) -> pa.Table:
    """The members an aggregate is computed over, with the columns it reads."""
    of_match = members.match[chosen]
    named: dict[str, Array] = {"_match": pa.array(of_match), "_member": pa.array(chosen)}
    read = {found.name for found in call.find_all(exp.Column)}
    if LABEL in read:
        named[LABEL] = taken(pa.array(members.names, pa.string()), members.symbols[chosen].astype(np.int64))
    if NUMBER in read:
        named[NUMBER] = pa.array(members.numbers[of_match])
    rows = members.rows(chosen, of_match)
    return pa.table({**named, **{name: taken(values, rows) for name, values in columns.items()}})


def _grouped(
    fold: Fold, database: Database, members: Members, columns: dict[str, Array], inside: Bools
) -> tuple[Array, Ints]:
    """The values of the matches that have such rows, and which matches these are."""
    table = _table(members, np.flatnonzero(inside), columns, fold.call)
    with lent(database, table) as name:
        value = exp.alias_(_in_order(fold.call), "_value", quoted=True)
        select = exp.select(column("_match"), value).from_(exp.to_identifier(name, quoted=True))
        found = arrow_columns(database, database.render(select.group_by(column("_match"))), 2)
    return found[1], np.asarray(found[0]).astype(np.int64)


def _in_order(call: exp.Expr) -> exp.Expr:
    """An aggregate that keeps its values apart takes them in the order of the rows."""

    def ordered(node: exp.Expr) -> exp.Expr:
        if isinstance(node, (exp.ArrayAgg, exp.GroupConcat)) and not isinstance(node.this, (exp.Order, exp.Distinct)):
            node.set("this", exp.Order(this=node.this, expressions=[exp.Ordered(this=column("_member"))]))
        return node

    return call.copy().transform(ordered)


def _running(fold: Fold, database: Database, members: Members, columns: dict[str, Array], inside: Bools) -> Array:
    """The value at each member over the rows taken by then."""
    table = _table(members, np.arange(len(members)), columns, fold.call).append_column("_inside", pa.array(inside))
    call = fold.call
    if fold.symbols is not None:
        condition: exp.Expr = column("_inside")
        if isinstance(call, exp.Filter):
            condition = exp.And(this=condition, expression=exp.Paren(this=call.expression.this.copy()))
            call = call.this
        call = exp.Filter(this=call.copy(), expression=exp.Where(this=condition))
    frame = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    over = exp.Window(
        this=call.copy(),
        partition_by=[column("_match")],
        order=exp.Order(expressions=[exp.Ordered(this=column("_member"))]),
        spec=frame,
    )
    with lent(database, table) as name:
        select = exp.select(exp.alias_(over, "_value", quoted=True)).from_(exp.to_identifier(name, quoted=True))
        return arrow_columns(database, database.render(select.order_by(column("_member"))), 1)[0]
