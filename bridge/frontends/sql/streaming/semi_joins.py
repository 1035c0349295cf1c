"""Semi and anti joins, which IN, EXISTS and NOT EXISTS are: the rows that have a partner, or none."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from sqlglot import exp

from bridge.check.interval_join import partner_times
from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import all_of
from bridge.frontends.sql.streaming.bounds import is_result
from bridge.frontends.sql.streaming.joins import Inputs, content_in_windows, with_event_time_of
from bridge.frontends.sql.streaming.select_list import with_names, with_time_named
from bridge.frontends.sql.streaming.undecided import RowsInWindows, decide
from bridge.frontends.sql.streaming.window_groups import EVENT_TIME, with_event_time
from bridge.frontends.sql.streaming.window_ranks import last_of_rows
from bridge.query.epl_columns import SubqueryColumn
from bridge.query.epl_output import RStream
from bridge.query.expressions import col, count
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Stream, Union, Window, walk
from windows.extents import Now, Range, Unbounded
from windows.sql import change_columns, under_own_name

_MET = "has_partner"
"""The name of the column that says whether a row has a partner, and of the partners in its condition."""

_NUMBER, _TIME = "partner_number", "partner_ts"
"""The columns with the place of a partner among those of its timestamp, and with this timestamp."""

_NOT_AFTER = exp.or_(
    exp.LT(this=col("ts", of=_MET), expression=col(_TIME)),
    exp.and_(
        exp.EQ(this=col("ts", of=_MET), expression=col(_TIME)),
        exp.LTE(this=col(_NUMBER, of=_MET), expression=col(_NUMBER)),
    ),
)
"""Whether a partner is not after the one that a row has met."""


class SemiJoin(NamedTuple):
    """The rows of the first input that have a partner in the second one; if `is_anti`, those that have none.

    `on`: the conditions, whose columns are qualified. `position`: that of the sub-query.
    """

    inputs: Inputs
    on: tuple[exp.Expr, ...]
    is_anti: bool
    position: int


def semi_join(cursor: Cursor, join: SemiJoin, where: tuple[exp.Expr, ...], columns: tuple[exp.Expr, ...]) -> Node:
    """Each row that has a partner, once, with the first one; each that has none, as soon as none can come.

    >>> from bridge.frontends.sql.statements import parse
    >>> print(parse("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.a AND t.ts BETWEEN s.ts - 5 AND s.ts - 1)"))
    SELECT a FROM (SELECT a, event_ts FROM (SELECT *, ts AS event_ts FROM s) \
WITH has_partner (ROWS OF t WINDOW(RANGE 6 MS) WHERE has_partner.a = a AND has_partner.ts BETWEEN event_ts - 5 AND event_ts - 1) \
WHERE has_partner)
    """
    (kept, node), _ = join.inputs
    columns = with_names(cursor, columns, node)
    for column in columns:
        if isinstance(column, exp.Star):
            cursor.fail("* beside IN and EXISTS is not supported over a stream: name the columns", join.position)
        if isinstance(column, exp.Column) and column.name.lower() == "ts":
            cursor.fail(
                "ts is not the time of the results, which may come later: give it a name, ts AS t", join.position
            )
    named = {
        column.name.lower(): column.name
        for expression in (*where, *columns, *join.on)
        for column in expression.find_all(exp.Column)
        if column.table.lower() in ("", kept.lower()) and column.name.lower() != "ts"
    }
    rows = _rows(cursor, join, [*named.values(), EVENT_TIME])
    columns = tuple(map(_named, columns))
    return Map(Filter(rows, with_time_named(all_of(where), EVENT_TIME)) if where else rows, columns)


def qualified(expression: exp.Expr, alias: str) -> exp.Expr:
    """The expression, whose columns without a qualifier are those of an input."""
    return change_columns(expression, lambda column: column if column.table else col(column.name, of=alias))


def _named(column: exp.Expr) -> exp.Expr:
    """A column with the time of the event in place of ts, under its own name."""
    return under_own_name(with_time_named(column, EVENT_TIME), column)


def _rows(cursor: Cursor, join: SemiJoin, names: list[str]) -> Node:
    if all(isinstance(node, RowsInWindows) for _, node in join.inputs):
        rows, partners = content_in_windows(cursor, join.inputs, join.on, join.position)
        return _rows_by_partner(join, rows, partners, names)
    inputs = tuple((alias, decide(cursor, node)) for alias, node in join.inputs)
    join = join._replace(inputs=inputs)
    (kept, node), (other, partners) = inputs
    bounds = partner_times(all_of(join.on), [kept.lower(), other.lower()]) if join.on else {}
    timed = with_event_time(node)
    if len(bounds) < 2:
        if join.is_anti or not all(isinstance(each, Window) and each.extent == Unbounded() for _, each in inputs):
            _refuse_unbounded(cursor, join)
        numbered, so_far = join, partners
        if isinstance(partners, Window) and not _comes_singly(cursor, partners):
            numbered, so_far = _numbered(join._replace(inputs=(inputs[0], (other, partners.input))))
            so_far = Window(so_far, Unbounded())
        return Union((_rows_by_partner(join, timed, partners, names), _met_later(numbered, timed, so_far, names)))
    after, before = bounds[other.lower(), kept.lower()], bounds[kept.lower(), other.lower()]
    if join.is_anti:
        wait = max(after, -1) + 1
        rows = RStream(Window(timed, Range(wait))) if wait else timed
        return _rows_by_partner(join, rows, Window(partners, Range(max(wait + before, 0) + 1)), names)
    if before >= 0 and after >= 0 and _read_same_stream(inputs):
        cursor.fail(
            "both read the same stream, so a row may be its own partner: bound the times on one side of the row, "
            f"{other}.ts < {kept}.ts or {other}.ts > {kept}.ts",
            join.position,
        )
    branches = list[Node]()
    if before >= 0:
        branches.append(_rows_by_partner(join, timed, Window(partners, Range(before + 1)), names))
    if after >= 0:
        if not _comes_singly(cursor, partners):
            join, partners = _numbered(join)
        so_far = Window(partners, Range(max(after + before, 0) + 1))
        together = is_result(cursor, node) and is_result(cursor, inputs[1][1])  # those of one time are in both branches
        later = (exp.GT(this=col("ts", of=other), expression=col("ts", of=kept)),) if together and before >= 0 else ()
        branches.append(_met_later(join, Window(timed, Range(after + 1)), so_far, names, later))
    return Union(tuple(branches)) if len(branches) > 1 else branches[0]


def _refuse_unbounded(cursor: Cursor, join: SemiJoin) -> NoReturn:
    (kept, _), (other, _) = join.inputs
    way_out = f"add {other}.ts BETWEEN {kept}.ts AND {kept}.ts + INTERVAL '5' SECOND to its WHERE"
    if join.is_anti:
        cursor.fail(
            f"NOT EXISTS needs bounds of time, or it is never known that no partner comes: {way_out}", join.position
        )
    cursor.fail(
        f"IN and EXISTS need bounds of time, or all rows are kept: {way_out}, or WINDOW(UNBOUNDED) after both streams",
        join.position,
    )


def _met_later(
    join: SemiJoin, rows_so_far: Node, so_far: Node, names: list[str], later: tuple[exp.Expr, ...] = ()
) -> Node:
    """The rows whose first partner comes after them: with it there is one. `later`: conditions on that partner."""
    (kept, _), (other, partners) = join.inputs
    inputs = ((kept, rows_so_far), (other, partners))
    pairs = Correlate(
        inputs, all_of(tuple(with_event_time_of(kept, each) for each in (*join.on, *later))), frozenset(), other
    )
    rows, condition = [exp.alias_(col(name, of=kept), col(name).this) for name in names], _of_partners(join)
    if isinstance(partners, Aggregate):
        rows += [exp.alias_(col(_NUMBER, of=other), _NUMBER), exp.alias_(col("ts", of=other), _TIME)]
        condition = exp.and_(condition, _NOT_AFTER.copy())
    counted = SubqueryColumn(Map(pairs, tuple(rows)), _MET, so_far, condition, count())
    return _columns(Filter(counted, exp.EQ(this=col(_MET), expression=exp.Literal.number(1))), names)


def _comes_singly(cursor: Cursor, node: Node) -> bool:
    """Whether no event gives several rows."""
    match node := cursor.query_of(node):
        case Map(below) | Filter(below):
            return _comes_singly(cursor, below)
        case Window(below, extent):
            return not extent.jumps and _comes_singly(cursor, below)
    return isinstance(node, Stream)


def _numbered(join: SemiJoin) -> tuple[SemiJoin, Node]:
    """The join whose partners have a number within their timestamp, and these partners."""
    kept, (other, partners) = join.inputs
    columns = (
        column for each in join.on for column in each.find_all(exp.Column) if column.table.lower() == other.lower()
    )
    names = {column.name.lower(): column.name for column in columns if column.name.lower() != "ts"}
    listed = (*(last_of_rows(col(name)) for name in names.values()), exp.alias_(count(), _NUMBER))
    numbered = Aggregate(Window(partners, Now()), listed)
    return join._replace(inputs=(kept, (other, numbered))), numbered


def _rows_by_partner(join: SemiJoin, rows: Node, partners: Node, names: list[str]) -> Node:
    """The rows with a partner, or without one, with the columns of these names."""
    met = SubqueryColumn(rows, _MET, partners, _of_partners(join))
    return _columns(Filter(met, exp.Not(this=col(_MET)) if join.is_anti else col(_MET)), names)


def _columns(node: Node, names: list[str]) -> Node:
    return Map(node, tuple(map(col, names)))


def _of_partners(join: SemiJoin) -> exp.Expr:
    """The condition on partners, which are a window that is looked up; columns without a qualifier are those of the row."""
    other, _ = join.inputs[1]

    def changed(column: exp.Column) -> exp.Expr:
        if column.table.lower() == other.lower():
            return col(column.name, of=_MET)
        return col(EVENT_TIME if column.name.lower() == "ts" else column.name)

    return change_columns(all_of(join.on), changed)


def _read_same_stream(inputs: Inputs) -> bool:
    read = [{below.name.lower() for below in walk(node) if isinstance(below, Stream)} for _, node in inputs]
    return not read[0].isdisjoint(read[1])
