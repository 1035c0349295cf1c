"""Aggregates over windows whose rows leave in any order, by a join of equality.

Results are reported at points: arrivals, or changes of the window. A row of the window counts at an interval of the
points of its group. A join by the ends of the interval would compare each point with each row of the group. So an
interval is cut into stretches of 1, 2, 4, … points, each beginning at a multiple of its length, at most two of each
length, as in a segment tree (Bentley 1977). For each length, a point lies in one possible stretch; it is joined with
the rows that have this stretch.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import group_columns
from bridge.rewrite.aggregates.join import GroupedJoin, null_without_row
from bridge.rewrite.flow import OUT, Flow
from windows.databases import Database
from windows.databases.base import PREFIX
from windows.sql import (
    add_join,
    aliased,
    cast_to,
    column,
    column_of,
    cte_name,
    derived_table,
    null_safe_equal,
    number,
    over,
    qualify_columns,
    row_number,
    table,
    with_columns,
)
from windows.times import NEVER

# The names of these columns are reserved, and the tables are the bridge's own, so they cannot clash with users' names.

_SINCE, _UNTIL = "_starts", "_stops"
"""Columns of a row: the first point at which it counts, and the first point after that at which it no longer does."""

_ENTERS, _LEAVES = "_e{}", "_side{}"
"""Columns of a row: the parts of the place at which it enters, and of the place at which it leaves."""

_LENGTH, _BEGIN = "_step", "_start"
"""Columns of a stretch: its length in points, and the number of its first point, counted from 0 within the group."""

_FIRST, _END, _IS_LAST = "_first", "_last", "_rank"
"""The begins of an interval's first and last stretch of a length, and which of the two it is (0 or 1)."""

_POINT = "_number"
"""The number of a point; in a union it is 1 for a point and 0 for a row."""

_POINTS, _LENGTHS = f"{PREFIX}points", f"{PREFIX}lengths"


def can_be_cut(below: Flow) -> bool:
    """Whether the columns (ts, seq, _place) order the places at which the rows of a window enter and leave."""
    return below.order in ((), ("_place",)) and not (below.late or below.jumping)


def at_arrivals(node: query.Aggregate, below: Flow, database: Database) -> exp.Select:
    """The result of each arrival, over the window as of the arrival."""
    columns = {name: column(name) for name in ("ts", "seq", "_expires", *below.order)}
    arrivals = below.arrivals.project({**columns, **group_columns(node)}).select()
    place = ("ts", "seq", *below.order)
    paired = _paired(arrivals, _rows(node, below, place), list(group_columns(node)), place, "INNER")
    return _grouped(node, below, [column_of("t", name) for name in columns], database).select(paired)


def at_changes(node: query.Aggregate, below: Flow, points: exp.Query, database: Database) -> exp.Select:
    """The result of each change point, even if the window is empty; `_age` orders the results of one event."""
    place = ("ts", "seq")
    named = exp.select(*map(column, points.named_selects)).from_(table(_POINTS))
    paired = _paired(named, _rows(node, below, place), list(group_columns(node)), place, "LEFT")
    trigger = [column_of("t", name) for name in ("ts", "seq", "_expires")]
    results = _grouped(node, below, trigger, database, is_outer=True).select(paired)
    return results.with_(cte_name(_POINTS, points.named_selects), as_=points)


def _grouped(
    node: query.Aggregate, below: Flow, trigger: Sequence[exp.Expr], database: Database, is_outer: bool = False
) -> GroupedJoin:
    return GroupedJoin(
        node,
        lambda value: qualify_columns((null_without_row(value) if is_outer else value).copy(), "w"),
        [column_of("t", name) for name in group_columns(node)],
        trigger,
        exp.Count(this=column_of("w", "seq")),
        [column_of("w", name) for name in below.key],
        order=[exp.Min(this=column_of("t", "_age"))] if is_outer else (),
        database=database,
    )


# The intervals of rows --------------------------------------------------------------------------------------------------


def _rows(node: query.Aggregate, below: Flow, place: Sequence[str]) -> exp.Select:
    """The rows of the window, with the places at which they enter and leave."""
    assert below.content is not None
    names = dict.fromkeys(("ts", "seq", *below.order, *below.names))
    entering = {_ENTERS.format(at): column(name) for at, name in enumerate(place)}
    leaving = {_LEAVES.format(at): value for at, value in enumerate(_place_of_exit(below, len(place)))}
    values = {**{name: column(name) for name in names}, **group_columns(node), **entering, **leaving}
    return below.content.project(values).select()


def _place_of_exit(below: Flow, length: int) -> list[exp.Expr]:
    """The place from which a row has left: it is evicted; or it expires, which comes before all events of that time."""
    expires: exp.Expr = column("_expires")
    if below.size is not None:
        expires = number(NEVER) if below.size == NEVER else column("ts") + number(below.size)
    expiry = [expires, *(number(-1) for _ in range(length - 1))]
    if not below.counted:
        return expiry
    evicted = [column(name) for name in OUT[:length]]
    first = exp.LTE(this=expires, expression=evicted[0])
    return [exp.Case().when(first.copy(), at.copy()).else_(out) for at, out in zip(expiry, evicted, strict=True)]


def _intervals(points: exp.Query, rows: exp.Select, keys: Sequence[str], place: Sequence[str]) -> exp.Select:
    """The rows that count at some point, each with its interval of the group's points."""
    enters, leaves = ([name.format(at) for at in range(len(place))] for name in (_ENTERS, _LEAVES))
    since = _points_before(rows, enters, points, keys, place, _SINCE)
    both = _points_before(since, leaves, points, keys, place, _UNTIL)
    own = [name for name in rows.named_selects if name not in (*enters, *leaves)]
    some = exp.LT(this=column(_SINCE), expression=column(_UNTIL))
    return exp.select(*map(column, (*own, _SINCE, _UNTIL))).from_(derived_table(both, "i")).where(some)


def _points_before(
    rows: exp.Select, at: Sequence[str], points: exp.Query, keys: Sequence[str], place: Sequence[str], name: str
) -> exp.Select:
    """The rows with the number of their group's points before the place in their columns `at`."""
    names = rows.named_selects
    known = {**dict(zip(at, place, strict=True)), **{key: key for key in keys}}
    of_point = [aliased(column(known[each]) if each in known else exp.null(), each) for each in names]
    marked = exp.select(*of_point, aliased(number(1), _POINT)).from_(derived_table(points, "p"))
    both = exp.union(with_columns(rows, **{_POINT: number(0)}), marked, distinct=False)
    counted = over(exp.Sum(this=column(_POINT)), map(column, keys), map(column, (*at, _POINT)))
    numbered = exp.select(*map(column, (*names, _POINT)), aliased(cast_to(counted, "BIGINT"), name))
    numbered = numbered.from_(derived_table(both, "b"))
    of_rows = exp.EQ(this=column(_POINT), expression=number(0))
    return exp.select(*map(column, (*names, name))).from_(derived_table(numbered, "n")).where(of_rows)


# The join ---------------------------------------------------------------------------------------------------------------


def _paired(points: exp.Query, rows: exp.Select, keys: Sequence[str], place: Sequence[str], kind: str) -> exp.Select:
    """Each point `t` joined with the rows `w` that count at it, as a SELECT without columns."""
    lengths = derived_table(_lengths(points), "s")
    point = exp.Sub(this=row_number(map(column, keys), map(column, place)), expression=number(1))
    numbered = exp.select("*", aliased(point, _POINT)).from_(derived_table(points, "p"))
    begin = aliased(_down(column(_POINT), column(_LENGTH)), _BEGIN)
    stretch = exp.select("*", begin).from_(derived_table(numbered, "n")).join(lengths.copy(), join_type="cross")
    cut = _cut(_intervals(points, rows, keys, place), lengths)
    same = [null_safe_equal(column_of("t", key), column_of("w", key)) for key in keys]
    same += [exp.EQ(this=column_of("t", name), expression=column_of("w", name)) for name in (_LENGTH, _BEGIN)]
    joined = add_join(exp.select().from_(derived_table(stretch, "t")), kind, derived_table(cut, "w"), exp.and_(*same))
    if kind == "INNER":
        return joined
    found = exp.Not(this=exp.Is(this=column_of("w", _LENGTH), expression=exp.null()))
    return joined.where(exp.or_(found, column_of("t", _LENGTH).eq(1)))  # an empty window needs one row only


def _lengths(points: exp.Query) -> exp.Select:
    """The lengths of stretches: the powers of two up to the number of points."""
    count = exp.select(exp.Count(this=exp.Star())).from_(derived_table(points, "p"))
    longer = exp.select(exp.Mul(this=column(_LENGTH), expression=number(2))).from_(table(_LENGTHS))
    longer = longer.where(exp.LT(this=column(_LENGTH), expression=exp.Subquery(this=count)))
    body = exp.union(exp.select(aliased(cast_to(number(1), "BIGINT"), _LENGTH)), longer, distinct=False)
    select = exp.select(column(_LENGTH)).from_(table(_LENGTHS))
    return select.with_(cte_name(_LENGTHS, [_LENGTH]), as_=body, recursive=True)


def _cut(intervals: exp.Select, lengths: exp.Expr) -> exp.Select:
    """The rows, one per stretch of their interval, with the length and the beginning of the stretch.

    A stretch is the first or the last of its length inside the interval, unless it is half of a longer one there.
    """
    fits = exp.LTE(this=column(_LENGTH), expression=exp.Sub(this=column(_UNTIL), expression=column(_SINCE)))
    up = exp.Sub(this=exp.Add(this=column(_SINCE), expression=column(_LENGTH)), expression=number(1))
    inner = exp.select(
        "*",
        aliased(_down(exp.paren(up), column(_LENGTH)), _FIRST),
        aliased(_down(column(_UNTIL), column(_LENGTH)), _END),
    )
    inner = inner.from_(derived_table(intervals, "i")).join(lengths, on=fits)
    sides = exp.union(exp.select(aliased(number(0), _IS_LAST)), exp.select(number(1)), distinct=False)
    edge = exp.Case().when(column(_IS_LAST).eq(0), column(_FIRST)).else_(column(_END))
    last = exp.Sub(this=column(_END), expression=column(_LENGTH))
    begin = exp.Case().when(column(_IS_LAST).eq(0), column(_FIRST)).else_(last)
    is_half = exp.NEQ(
        this=exp.Mod(this=exp.paren(edge), expression=exp.paren(exp.Mul(this=number(2), expression=column(_LENGTH)))),
        expression=number(0),
    )
    inside = exp.LTE(this=column(_FIRST), expression=last.copy())
    stretches = exp.select("*", aliased(begin, _BEGIN)).from_(derived_table(inner, "c"))
    return stretches.join(derived_table(sides, "e"), join_type="cross").where(inside, is_half)


def _down(value: exp.Expr, length: exp.Expr) -> exp.Expr:
    """The greatest multiple of a length that does not exceed a value, which is not negative."""
    return exp.paren(exp.Sub(this=value, expression=exp.paren(exp.Mod(this=value.copy(), expression=length))))
