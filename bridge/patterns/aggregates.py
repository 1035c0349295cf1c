"""Aggregates over the rows of matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from bridge.patterns.arrays import Array, Bools, Ints, arrow_columns, ranges, take
from bridge.patterns.members import ABSENT, Members
from bridge.patterns.values import MatchAggregate
from windows.aggregates import aggregate_of
from windows.databases import Database
from windows.nested import is_list
from windows.sql import column, number, running_frame, table


class Columns(Protocol):
    """The input rows of matches."""

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]: ...


def aggregate_values(
    match_aggregate: MatchAggregate, database: Database, rows: Columns, members: Members, match: Ints, member: Ints
) -> Array:
    """The value of an aggregate for each output row: over its match, or over the rows of its match up to its member."""
    if _is_count_of_rows(match_aggregate.call):
        return _counts(match_aggregate, members, match, member)
    arguments = match_aggregate.columns
    columns = dict(zip(arguments, rows.columns([column(name) for name in arguments]), strict=True))
    if _counts_all(match_aggregate.call, columns):
        return _counts(match_aggregate, members, match, member)
    inside = members.is_one_of(match_aggregate.symbols)
    if match_aggregate.final:
        values, of_match = _summed(match_aggregate.call, members, columns, inside) or _grouped(
            match_aggregate, database, members, columns, inside
        )
        place = np.full(members.matches + 1, ABSENT)
        place[of_match] = np.arange(len(of_match))
        places = place[match]
    else:
        running = _so_far if is_list(match_aggregate.call) else _running
        values = running(match_aggregate, database, members, columns, inside)
        places = member
    return _with_zero_counts(match_aggregate, take(values, places), match)


def _is_count_of_rows(call: exp.Expr) -> bool:
    return isinstance(call, exp.Count) and isinstance(call.this, exp.Star)


def _counts_all(call: exp.Expr, columns: dict[str, Array]) -> bool:
    """Whether a COUNT counts every row, as its column has no NULL."""
    plain = isinstance(call, exp.Count) and isinstance(call.this, exp.Column)
    return plain and call.this.name in columns and columns[call.this.name].null_count == 0


def _counts(match_aggregate: MatchAggregate, members: Members, match: Ints, member: Ints) -> Array:
    """COUNT(*) or COUNT(A.*), computed from the numbers of members."""
    if not members.matches:
        return pa.nulls(len(match), pa.int64())
    known = np.maximum(match, 0)
    if match_aggregate.final:
        counts = members.count_at_end(match_aggregate.symbols)[known]
    else:
        counts = np.where(member < 0, 0, members.count_so_far(match_aggregate.symbols, np.maximum(member, 0)))
    return pa.array(counts, pa.int64(), mask=match == ABSENT)


_LARGEST_SUM = 2**62


def _summed(call: exp.Expr, members: Members, columns: dict[str, Array], inside: Bools) -> tuple[Array, Ints] | None:
    """SUM, MIN and MAX of a plain column of numbers without NULLs, computed without the database."""
    values = next(iter(columns.values())) if len(columns) == 1 else None
    aggregate = aggregate_of(call)
    if aggregate is None or not aggregate.ufunc or values is None or values.null_count or not len(members):
        return None
    if not (isinstance(call.this, exp.Column) and call.this.name in columns):
        return None
    if not (pa.types.is_int64(values.type) or pa.types.is_int32(values.type) or pa.types.is_float64(values.type)):
        return None
    chosen = np.flatnonzero(inside)
    of_match = members.match[chosen]
    first = np.flatnonzero(np.diff(of_match, prepend=-1))
    read = np.asarray(values)[members.rows(chosen, of_match)]
    if aggregate.ufunc == "minimum" and read.dtype.kind == "f" and np.isnan(read).any():
        return None
    if read.dtype.kind == "i":
        read = read.astype(np.int64)
        if len(read) and max(int(read.max()), -int(read.min())) * len(read) >= _LARGEST_SUM:
            return None
    reduced = getattr(np, aggregate.ufunc).reduceat(read, first) if len(first) else read
    return pa.array(reduced), of_match[first]


def _with_zero_counts(match_aggregate: MatchAggregate, values: Array, match: Ints) -> Array:
    """The values of COUNT, with 0 for a match without such rows."""
    call = match_aggregate.call.this if isinstance(match_aggregate.call, exp.Filter) else match_aggregate.call
    aggregate = aggregate_of(call)
    if aggregate is None or aggregate.empty is None:
        return values
    zero = pa.scalar(0, pa.int64())
    counts = pc.fill_null(values.cast(pa.int64()), zero)
    return pc.if_else(pa.array(match == ABSENT), pa.scalar(None, pa.int64()), counts)


def _table(members: Members, chosen: Ints, columns: dict[str, Array], match_aggregate: MatchAggregate) -> pa.Table:
    """The members over which an aggregate is computed, with the columns that it reads."""
    of_match = members.match[chosen]
    named: dict[str, Array] = {match_aggregate.own("_match"): pa.array(of_match)}
    named[match_aggregate.own("_member")] = pa.array(chosen)
    if match_aggregate.reads_classifier:
        named[match_aggregate.classifier] = take(
            pa.array(members.names, pa.string()), members.symbols[chosen].astype(np.int64)
        )
    if match_aggregate.reads_match_number:
        named[match_aggregate.match_number] = pa.array(members.numbers[of_match])
    rows = members.rows(chosen, of_match)
    return pa.table({**named, **{name: take(values, rows) for name, values in columns.items()}})


def _grouped(
    match_aggregate: MatchAggregate, database: Database, members: Members, columns: dict[str, Array], inside: Bools
) -> tuple[Array, Ints]:
    """The values of the matches that have such members, with the numbers of these matches."""
    return _by_match(match_aggregate, database, _table(members, np.flatnonzero(inside), columns, match_aggregate))


def _by_match(match_aggregate: MatchAggregate, database: Database, given: pa.Table) -> tuple[Array, Ints]:
    with database.registered(given) as name:
        match = column(match_aggregate.own("_match"))
        value = exp.alias_(
            match_aggregate.leaving(_in_order(match_aggregate, database)), match_aggregate.own("_value"), quoted=True
        )
        select = exp.select(match, value).from_(table(name)).group_by(match.copy())
        found = arrow_columns(database, database.render(select), 2)
    return found[1], np.asarray(found[0]).astype(np.int64)


def _in_order(match_aggregate: MatchAggregate, database: Database) -> exp.Expr:
    """The aggregate over its values in the order of the rows, if it depends on their order.

    SQLite before 3.44 cannot order them; it takes the rows of a group in the order in which they were given.
    """

    def ordered(node: exp.Expr) -> exp.Expr:
        aggregate = aggregate_of(node)
        in_row_order = database.ordered_aggregates and aggregate is not None and aggregate.in_row_order
        if in_row_order and not isinstance(node.this, (exp.Order, exp.Distinct)):
            node.set("this", exp.Order(this=node.this, expressions=[member.copy()]))
        return node

    member = exp.Ordered(this=column(match_aggregate.own("_member")))
    return match_aggregate.call.transform(ordered)


def _so_far(
    match_aggregate: MatchAggregate, database: Database, members: Members, columns: dict[str, Array], inside: Bools
) -> Array:
    """For each member a list of the values so far, without window functions, as few databases have lists as such."""
    every = np.arange(len(members))
    firsts = members.offsets[members.match]
    taken_by, owner = ranges(firsts, every + 1), np.repeat(every, every + 1 - firsts)
    inside = inside[taken_by]
    given = _table(members, taken_by[inside], columns, match_aggregate)
    given = given.set_column(0, match_aggregate.own("_match"), pa.array(owner[inside]))
    values, of_member = _by_match(match_aggregate, database, given)
    place = np.full(len(members), ABSENT)
    place[of_member] = np.arange(len(of_member))
    return take(values, place)


def _running(
    match_aggregate: MatchAggregate, database: Database, members: Members, columns: dict[str, Array], inside: Bools
) -> Array:
    """For each member the value over the match's rows so far."""
    given = _table(members, np.arange(len(members)), columns, match_aggregate).append_column(
        match_aggregate.own("_inside"), pa.array(inside)
    )
    call = match_aggregate.call.copy()
    condition: exp.Expr | None = column(match_aggregate.own("_inside")) if match_aggregate.symbols is not None else None
    if isinstance(call, exp.Filter):
        own = exp.Paren(this=call.expression.this)
        condition, call = own if condition is None else exp.And(this=condition, expression=own), call.this
    with database.registered(given) as name:
        source: exp.Expr = table(name)
        if isinstance(call.this, exp.Distinct):
            source, call = _once(source, call, condition, match_aggregate)
        elif condition is not None:
            call = exp.Filter(this=call, expression=exp.Where(this=condition))
        over = match_aggregate.leaving(_over(call, match_aggregate))
        value = exp.alias_(over, match_aggregate.own("_value"), quoted=True)
        select = exp.select(value).from_(source).order_by(column(match_aggregate.own("_member")))
        return arrow_columns(database, database.render(select), 1)[0]


def _once(
    source: exp.Expr, call: exp.Expr, condition: exp.Expr | None, match_aggregate: MatchAggregate
) -> tuple[exp.Expr, exp.Expr]:
    """Running DISTINCT, which few databases have.

    A value stays where it first occurs in its match, and is NULL later.
    """

    (value,) = call.this.expressions
    counted = exp.Case().when(condition, value).else_(exp.null()) if condition is not None else value
    ranked = _over(exp.RowNumber(), match_aggregate, [counted.copy()])
    place, once = map(match_aggregate.own, ("_place", "_once"))
    inner = exp.select(exp.Star(), exp.alias_(ranked, place, quoted=True), exp.alias_(counted, once, quoted=True))
    is_first = exp.EQ(this=column(place), expression=number(1))
    call.set("this", exp.Case().when(is_first, column(once)))
    return inner.from_(source).subquery("d"), call


def _over(call: exp.Expr, match_aggregate: MatchAggregate, keys: Sequence[exp.Expr] = ()) -> exp.Expr:
    """The aggregate over the rows of its match so far that have the same keys."""
    order = exp.Order(expressions=[exp.Ordered(this=column(match_aggregate.own("_member")))])
    ranked = isinstance(call, exp.RowNumber)
    return exp.Window(
        this=call,
        partition_by=[column(match_aggregate.own("_match")), *keys],
        order=order,
        spec=None if ranked else running_frame(),
    )
