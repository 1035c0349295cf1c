"""COUNT(*) of a sliding window of time, as the difference between the numbers of its newest and oldest valid rows.

An index finds the oldest row, so the cost is logarithmic in the size of the window. This works because COUNT has an
exact inverse. Sums of doubles have none, and sums of integers over all history may exceed 64 bits, so these use a join.
"""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.query.epl_columns import OF_EVENT
from bridge.rewrite.aggregates.frames import aggregate_calls, arrived_in_push
from bridge.rewrite.aggregates.panes import Panes
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.state_tables import add_table, keep_for
from windows.sql import (
    aliased,
    column,
    column_of,
    derived_table,
    number,
    over,
    parenthesized,
    row_number,
    running_frame,
    table,
)
from windows.times import NEVER

NUMBER = "_n"
"""The column of a row's number."""

_OWN = (NUMBER, "_since")
"""Columns of the statements here, in addition to those of the events."""


def only_counts_rows(node: query.Aggregate, below: Flow) -> bool:
    """Whether COUNT(*) over a sliding window of time is the only aggregate; values of the event may stand beside it."""
    if node.group_by or node.on_change or not isinstance(node.input, query.Window):
        return False
    if below.size in (None, NEVER) or below.timed or below.order:
        return False
    calls = [call for call in aggregate_calls(node) if call.meta_get(OF_EVENT) is None]
    if any(call.this.name in _OWN for call in aggregate_calls(node) if isinstance(call, exp.Last)):
        return False
    return bool(calls) and all(isinstance(call, exp.Count) and isinstance(call.this, exp.Star) for call in calls)


def by_row_numbers(node: query.Aggregate, below: Flow, network: Network) -> exp.Select:
    """`t._n - (the first valid row's _n) + 1` for each arrival `t`.

    The arrivals' numbers come from a sub-query with a redundant DISTINCT. Without it databases merge the sub-query into
    the statement around it, and search for the numbers again for each member of a query family.
    """
    assert isinstance(node.input, query.Window) and below.size is not None
    numbers = table(_numbers(node.input, below.size, network))
    same_row = [exp.EQ(this=column_of("n", name), expression=column_of("a", name)) for name in ("ts", "seq")]
    own = exp.select(column_of("n", NUMBER)).from_(exp.alias_(numbers, "n", table=True, quoted=True)).where(*same_row)
    since = exp.Sub(this=column_of("t", "ts"), expression=number(below.size))
    first = exp.select(column_of("f", NUMBER)).from_(exp.alias_(numbers, "f", table=True, quoted=True))
    first = first.where(exp.GT(this=column_of("f", "ts"), expression=since))
    first = first.order_by(column_of("f", "ts"), column_of("f", "seq")).limit(1)
    before = exp.paren(exp.Sub(this=exp.Subquery(this=first), expression=number(1)))
    count = exp.paren(exp.Sub(this=column_of("t", NUMBER), expression=before))
    names = columns_of_arrivals(node)
    columns = (*(column_of("a", name) for name in names), aliased(exp.Subquery(this=own), NUMBER))
    arrivals = exp.select(*columns).from_(derived_table(below.arrivals.select(names), "a"))
    return results(node, below.size, arrivals.distinct(), count)


def by_sorted_array(node: query.Aggregate, below: Flow, network: Network) -> exp.Select | None:
    """`t._n - (the first row's _n) + 1 - (the number of rows not younger than t.ts - size)` for each arrival `t`.

    The rows' timestamps are one sorted array for binary search, which is faster than an index for many events. None if
    the database has no such search.
    """
    assert isinstance(node.input, query.Window) and below.size is not None
    numbers = table(_numbers(node.input, below.size, network))
    expired = network.database.rank_among(column("_since"), exp.select("ts").from_(numbers.copy()), column("ts"))
    if expired is None:
        return None
    first = exp.select(column(NUMBER)).from_(numbers.copy()).order_by(column("ts"), column("seq")).limit(1)
    before = exp.paren(exp.Sub(this=exp.Subquery(this=first), expression=number(1)))
    kept = exp.Sub(this=column(NUMBER), expression=before)
    count = exp.paren(exp.Sub(this=kept, expression=expired))
    names = columns_of_arrivals(node)
    since = exp.Sub(this=column_of("a", "ts"), expression=number(below.size))
    columns = (*(column_of("a", name) for name in names), column_of("n", NUMBER), aliased(since, "_since"))
    same_row = [exp.EQ(this=column_of("n", name), expression=column_of("a", name)) for name in ("ts", "seq")]
    arrivals = exp.select(*columns).from_(derived_table(below.arrivals.select(names), "a"))
    arrivals = arrivals.join(exp.alias_(numbers, "n", table=True, quoted=True), on=exp.and_(*same_row))
    return results(node, below.size, arrivals, count)


def columns_of_arrivals(node: query.Aggregate) -> list[str]:
    """The columns of an arrival that its result needs."""
    read = [call.this.name for call in aggregate_calls(node) if isinstance(call, exp.Last)]
    return list(dict.fromkeys(("ts", "seq", *read)))


def results(node: query.Aggregate, size: int, arrivals: exp.Select, count: exp.Expr) -> exp.Select:
    """The result of each arrival `t`: COUNT(*) of its window, and the expiry of the newest row.

    Only this part contains the window's length, so the members of a query family share `arrivals`.
    """
    expiry = aliased(exp.Add(this=column_of("t", "ts"), expression=number(size)), "_expires")
    columns = [aliased(item.this.transform(_of_arrival, count), item.alias) for item in node.columns]
    select = exp.select(column_of("t", "ts"), column_of("t", "seq"), expiry, *columns)
    return select.from_(derived_table(arrivals, "t"))


def _of_arrival(part: exp.Expr, count: exp.Expr) -> exp.Expr:
    """A part of the select list over an arrival `t`, the newest row of its window."""
    if isinstance(part, exp.Last):
        return column_of("t", part.this.name)
    return count.copy() if isinstance(part, exp.Count) else part


def _numbers(window: query.Window, size: int, network: Network) -> str:
    """The table of the input's numbered rows, which windows share; rows are kept for the longest of these."""

    def build(operator: Operator) -> None:
        below = network.rewrite(window.input, Need.ARRIVALS)
        name = network.name("numbers", window)
        last = exp.select(column(NUMBER)).from_(table(name)).order_by(_newest("ts"), _newest("seq")).limit(1)
        before = exp.Coalesce(this=exp.Subquery(this=last), expressions=[number(0)])
        rows = below.arrivals.select(["ts", "seq"])
        place = row_number([], [below.arrivals.columns["seq"]])
        is_searched = network.database.rank_among(column("ts"), rows, column("ts")) is not None  # a sorted array
        indexes = () if is_searched and network.settings.is_replay else (("ts", "seq", NUMBER),)
        add_table(operator, name, rows.select(aliased(place, NUMBER)), indexes)
        numbers = exp.Add(this=place.copy(), expression=before)
        operator.steps.append(Insert(name, rows.select(aliased(numbers, NUMBER))))

    operator = network.operator(window.input, build, "Row numbers", key=("Numbers", window.input))
    return keep_for(operator, size)


def _newest(name: str) -> exp.Ordered:
    return exp.Ordered(this=column(name), desc=True)


# For many events: a row's place among all rows, minus the number of expired rows ---------------------------------------

SPARSE = 4
"""The greatest ratio of milliseconds to rows for which a list with an entry per millisecond is used."""

_PLACE, _NEXT, _SINCE, _COUNTS, _BEGIN = "_at", "_next", "_since", "_counts", "_begin"


def by_places(node: query.Aggregate, below: Flow, in_order: bool, panes: Panes | None = None) -> exp.Select:
    """The arrivals with their counts, by an ASOF join with the newest expired row.

    Args:
        in_order: whether the database numbers the rows in their order.
        panes: if given, they count the rows that are in the windows of all arrivals; these rows get no place.
    """
    if panes is None:
        return _by_asof_join(node, below, _rows(node, below, in_order))
    names = columns_of_arrivals(node)
    rows = _with_places(panes.edges({name: column(name) for name in names}), in_order)
    return _by_asof_join(node, below, rows, panes.common())


def by_list(node: query.Aggregate, below: Flow, in_order: bool) -> exp.Query:
    """The same, by a list with an entry per millisecond; by `by_places` if the list would be long.

    Both are parts of one UNION ALL, one of which has no rows.
    """
    rows = _rows(node, below, in_order)
    spread = exp.paren(exp.Sub(this=exp.Max(this=column("ts")), expression=exp.Min(this=column("ts"))))
    close = exp.LTE(this=spread, expression=exp.Mul(this=number(SPARSE), expression=exp.Count(this=exp.Star())))
    listed = _by_list(node, below, _only_if(close, rows))
    return exp.union(listed, _by_asof_join(node, below, _only_if(exp.Not(this=close), rows)), distinct=False)


def _rows(node: query.Aggregate, below: Flow, in_order: bool) -> exp.Select:
    """All rows of the window table, with the columns that results need."""
    assert below.content is not None
    columns = {name: column(name) for name in columns_of_arrivals(node)}
    return _with_places(below.content.project(columns).select(), in_order)


def _with_places(rows: exp.Query, in_order: bool) -> exp.Select:
    """The rows, each with its place and the timestamp of the next row."""
    order = [] if in_order else [column("seq")]
    following = aliased(over(exp.Lead(this=column("ts")), [], order), _NEXT)
    return exp.select(*_names(rows), aliased(row_number([], order), _PLACE), following).from_(derived_table(rows, "m"))


def _only_if(condition: exp.Expr, rows: exp.Select) -> exp.Select:
    """The rows if a condition on the whole set is true, else no rows."""
    of_all = exp.select(condition.copy()).from_(derived_table(rows, "b"))
    return exp.select(*_names(rows)).from_(derived_table(rows, "w")).where(exp.paren(of_all))


def _by_asof_join(node: query.Aggregate, below: Flow, rows: exp.Select, others: exp.Expr | None = None) -> exp.Select:
    """The counts by an ASOF join. `others`: the number of rows that each window has in addition to these."""
    later = exp.GT(this=column(_NEXT), expression=column("ts"))
    last = exp.select(column("ts"), column(_PLACE)).from_(derived_table(rows, "n"))
    last = last.where(exp.or_(later, exp.Is(this=column(_NEXT), expression=exp.null())))
    before = exp.LTE(this=column_of("d", "ts"), expression=column_of("t", _SINCE))
    expired: exp.Expr = exp.Coalesce(this=column_of("d", _PLACE), expressions=[number(0)])
    select = _results(node, below, rows, expired if others is None else exp.Sub(this=expired, expression=others))
    select.append("joins", exp.Join(this=derived_table(last, "d"), method="ASOF", side="LEFT", on=before))
    return select


def _by_list(node: query.Aggregate, below: Flow, rows: exp.Select) -> exp.Select:
    since = exp.Sub(this=column_of("t", _SINCE), expression=column_of("l", _BEGIN))
    none_yet = exp.LT(this=column_of("t", _SINCE), expression=column_of("l", _BEGIN))
    place = exp.Add(this=since, expression=number(1))
    entry = exp.Anonymous(this="LIST_EXTRACT", expressions=[column_of("l", _COUNTS), place])
    expired = exp.Case().when(none_yet, number(0)).else_(entry)
    return _results(node, below, rows, expired).join(derived_table(_counts(rows), "l"), join_type="cross")


def _results(node: query.Aggregate, below: Flow, rows: exp.Select, expired: exp.Expr) -> exp.Select:
    """The results of the arrivals `t`, from the number of rows that have left the window."""
    assert below.size is not None
    since = aliased(exp.Sub(this=column("ts"), expression=number(below.size)), _SINCE)
    names = [name for name in _names(rows) if name.name != _NEXT]
    arrivals = exp.select(*names, since).from_(derived_table(rows, "n"))
    arrivals = arrivals.where(arrived_in_push(below))
    count = exp.paren(exp.Sub(this=column_of("t", _PLACE), expression=parenthesized(expired)))
    return results(node, below.size, arrivals, count)


def _counts(rows: exp.Select) -> exp.Select:
    """One row: for each millisecond the number of rows up to then, as a list, and the millisecond it begins with."""
    until = exp.Add(this=exp.Max(this=column("ts")), expression=number(1))
    range_of = exp.Anonymous(this="RANGE", expressions=[exp.Min(this=column("ts")), until])
    milliseconds = exp.select(aliased(exp.Anonymous(this="UNNEST", expressions=[range_of]), "ts"))
    milliseconds = milliseconds.from_(derived_table(rows, "e"))
    per_millisecond = exp.select(column("ts"), aliased(exp.Count(this=exp.Star()), "_rows")).group_by(column("ts"))
    per_millisecond = per_millisecond.from_(derived_table(rows, "g"))
    same = column_of("r", "ts").eq(column_of("i", "ts"))
    each = exp.select(column_of("i", "ts"), column_of("r", "_rows")).from_(derived_table(milliseconds, "i"))
    each = each.join(derived_table(per_millisecond, "r"), on=same, join_type="left")
    total = exp.cast(over(exp.Sum(this=column("_rows")), [], [column("ts")], running_frame()), "BIGINT")
    totals = exp.select(column("ts"), aliased(total, "_rows")).from_(derived_table(each, "j"))
    in_time = exp.Order(this=column("_rows"), expressions=[exp.Ordered(this=column("ts"))])
    counts = aliased(exp.Anonymous(this="LIST", expressions=[in_time]), _COUNTS)
    return exp.select(counts, aliased(exp.Min(this=column("ts")), _BEGIN)).from_(derived_table(totals, "k"))


def _names(rows: exp.Query) -> list[exp.Column]:
    return [column(name) for name in rows.named_selects]
