"""COUNT(*) of a sliding window by the numbers of its rows: the newest one's less the oldest one's that is still valid.

An index finds that row, so the cost is logarithmic in the window's size. Counting has an inverse that is exact; sums of
doubles have none, and sums of whole numbers over all history may grow out of 64 bits: they are joined.
"""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.query.epl_columns import OF_EVENT
from bridge.rewrite.aggregates.frames import aggregates, arrived
from bridge.rewrite.aggregates.panes import Panes
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network, add_table, keep_for
from bridge.rewrite.plan import Insert, Operator
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
_OURS = (NUMBER, "_since")
"""Columns beside those of the events."""


def can_count(node: query.Aggregate, below: Flow) -> bool:
    """Whether all it aggregates is COUNT(*) over a sliding window of time as it is, perhaps beside the event's values."""
    if node.group_by or node.on_change or not isinstance(node.input, query.Window):
        return False
    if below.size in (None, NEVER) or below.timed or below.order:
        return False
    others = [call for call in aggregates(node) if OF_EVENT not in call.meta]
    if any(call.this.name in _OURS for call in aggregates(node) if isinstance(call, exp.Last)):
        return False
    return bool(others) and all(isinstance(call, exp.Count) and isinstance(call.this, exp.Star) for call in others)


def counted(node: query.Aggregate, below: Flow, network: Network) -> exp.Select:
    """`t._n - (the first valid row's _n) + 1` for each arrival `t`.

    Their numbers are found in a sub-query that is DISTINCT, though it is so anyway: databases would else put it into the
    statement around it, and find them again for every member of a family.
    """
    assert isinstance(node.input, query.Window) and below.size is not None
    numbers = table(_numbers(node.input, below.size, network))
    itself = [exp.EQ(this=column_of("n", name), expression=column_of("a", name)) for name in ("ts", "seq")]
    newest = exp.select(column_of("n", NUMBER)).from_(exp.alias_(numbers, "n", table=True, quoted=True)).where(*itself)
    since = exp.Sub(this=column_of("t", "ts"), expression=number(below.size))
    first = exp.select(column_of("f", NUMBER)).from_(exp.alias_(numbers, "f", table=True, quoted=True))
    first = (
        first.where(exp.GT(this=column_of("f", "ts"), expression=since))
        .order_by(column_of("f", "ts"), column_of("f", "seq"))
        .limit(1)
    )
    before = exp.paren(exp.Sub(this=exp.Subquery(this=first), expression=number(1)))
    count = exp.paren(exp.Sub(this=column_of("t", NUMBER), expression=before))
    names = of_arrivals(node)
    arrivals = derived_table(below.arrivals.select(names), "a")
    found = exp.select(*(column_of("a", name) for name in names), aliased(exp.Subquery(this=newest), NUMBER)).from_(
        arrivals
    )
    return told(node, below.size, found.distinct(), count)


def searched(node: query.Aggregate, below: Flow, network: Network) -> exp.Select | None:
    """`t._n - (the first row's _n) + 1 - (how many rows are not younger than t.ts - size)` for each arrival `t`.

    The rows' times are one sorted array, in which the database searches by halving: for many events, where an index
    would be asked for each of them. None where the database cannot do so.
    """
    assert isinstance(node.input, query.Window) and below.size is not None
    numbers = table(_numbers(node.input, below.size, network))
    gone = network.database.rank_among(column("_since"), exp.select("ts").from_(numbers.copy()), column("ts"))
    if gone is None:
        return None
    first = exp.select(column(NUMBER)).from_(numbers.copy()).order_by(column("ts"), column("seq")).limit(1)
    kept = exp.Sub(
        this=column(NUMBER), expression=exp.paren(exp.Sub(this=exp.Subquery(this=first), expression=number(1)))
    )
    count = exp.paren(exp.Sub(this=kept, expression=gone))

    names = of_arrivals(node)
    arrivals = derived_table(below.arrivals.select(names), "a")
    same_row = [exp.EQ(this=column_of("n", name), expression=column_of("a", name)) for name in ("ts", "seq")]
    since = exp.Sub(this=column_of("a", "ts"), expression=number(below.size))
    found = exp.select(
        *(column_of("a", name) for name in names), column_of("n", NUMBER), aliased(since, "_since")
    ).from_(arrivals)
    found = found.join(exp.alias_(numbers, "n", table=True, quoted=True), on=exp.and_(*same_row))
    return told(node, below.size, found, count)


def of_arrivals(node: query.Aggregate) -> list[str]:
    """The columns of an arrival that its result is made of."""
    read = [call.this.name for call in aggregates(node) if isinstance(call, exp.Last)]
    return list(dict.fromkeys(("ts", "seq", *read)))


def told(node: query.Aggregate, size: int, arrivals: exp.Select, count: exp.Expr) -> exp.Select:
    """What is told of each arrival `t`, with the count of its window, and when the newest row leaves that.

    This stands outside `arrivals`: without its constant, what is found of an arrival is the same for all members.
    """
    expiry = aliased(exp.Add(this=column_of("t", "ts"), expression=number(size)), "_expires")
    columns = [aliased(item.this.transform(_own, count), item.alias) for item in node.columns]
    select = exp.select(column_of("t", "ts"), column_of("t", "seq"), expiry, *columns)
    return select.from_(derived_table(arrivals, "t"))


def _own(part: exp.Expr, count: exp.Expr) -> exp.Expr:
    """A part of the select list: of the events of the window the newest is the one that arrives."""
    if isinstance(part, exp.Last):
        return column_of("t", part.this.name)
    return count.copy() if isinstance(part, exp.Count) else part


def _numbers(window: query.Window, size: int, network: Network) -> str:
    """The table of the input's rows by number, kept as long as the longest window that counts them wants."""

    def build(operator: Operator) -> None:
        below = network.rewrite(window.input, Need.ARRIVALS)
        name = network.name("numbers", window)
        last = exp.select(column(NUMBER)).from_(table(name)).order_by(_newest("ts"), _newest("seq")).limit(1)
        known = exp.Coalesce(this=exp.Subquery(this=last), expressions=[number(0)])
        rows = below.arrivals.select(["ts", "seq"])
        place = row_number([], [below.arrivals.columns["seq"]])
        add_table(operator, name, rows.select(aliased(place, NUMBER)), (("ts", "seq", NUMBER),))
        numbers = exp.Add(this=place.copy(), expression=known)
        operator.steps.append(Insert(name, rows.select(aliased(numbers, NUMBER))))

    operator = network.operator(window.input, build, "Row numbers", key=("Numbers", window.input))
    return keep_for(operator, size)


def _newest(name: str) -> exp.Ordered:
    return exp.Ordered(this=column(name), desc=True)


# COUNT(*) of a sliding window, of many events: a row's place among all rows, less how many have left its window

SPARSE = 4
"""Rows whose times span more milliseconds than so many times their number are in no list."""

_PLACE, _NEXT, _SINCE, _COUNTS, _BEGIN = "_at", "_next", "_since", "_counts", "_begin"


def sought(node: query.Aggregate, below: Flow, in_order: bool, panes: Panes | None = None) -> exp.Select:
    """The arrivals with their counts, by the newest row that has left; `in_order`: the rows stand in their order.

    With `panes` the rows that are in the windows of all arrivals get no place, but are counted together.
    """
    if panes is None:
        return _sought(node, below, _rows(node, below, in_order))
    names = _columns(node)
    rows = _placed(panes.edges({name: column(name) for name in names}), in_order)
    return _sought(node, below, rows, panes.staying())


def listed(node: query.Aggregate, below: Flow, in_order: bool) -> exp.Query:
    """The same by the list, or, if it would be long, as `sought`: of the two parts one has no rows."""
    rows = _rows(node, below, in_order)
    spread = exp.paren(exp.Sub(this=exp.Max(this=column("ts")), expression=exp.Min(this=column("ts"))))
    close = exp.LTE(this=spread, expression=exp.Mul(this=number(SPARSE), expression=exp.Count(this=exp.Star())))
    parts = _listed(node, below, _only_if(close, rows)), _sought(node, below, _only_if(exp.Not(this=close), rows))
    return exp.union(*parts, distinct=False)


def _rows(node: query.Aggregate, below: Flow, in_order: bool) -> exp.Select:
    """All rows that are there, with what is told of those that arrive."""
    assert below.content is not None
    return _placed(below.content.project({name: column(name) for name in _columns(node)}).select(), in_order)


def _columns(node: query.Aggregate) -> list[str]:
    return list(dict.fromkeys(("ts", "seq", *of_arrivals(node))))


def _placed(rows: exp.Query, in_order: bool) -> exp.Select:
    """Rows, each with its place and the time of the next one."""
    order = [] if in_order else [column("seq")]
    following = aliased(over(exp.Lead(this=column("ts")), [], order), _NEXT)
    return exp.select(*_names(rows), aliased(row_number([], order), _PLACE), following).from_(derived_table(rows, "m"))


def _only_if(condition: exp.Expr, rows: exp.Select) -> exp.Select:
    """The rows, or none of them, by a condition of all."""
    of_all = exp.select(condition.copy()).from_(derived_table(rows, "b"))
    return exp.select(*_names(rows)).from_(derived_table(rows, "w")).where(exp.paren(of_all))


def _sought(node: query.Aggregate, below: Flow, rows: exp.Select, others: exp.Expr | None = None) -> exp.Select:
    """`others`: how many more rows each window has than these."""
    later = exp.GT(this=column(_NEXT), expression=column("ts"))
    last = exp.select(column("ts"), column(_PLACE)).from_(derived_table(rows, "n"))
    last = last.where(exp.or_(later, exp.Is(this=column(_NEXT), expression=exp.null())))
    left = exp.LTE(this=column_of("d", "ts"), expression=column_of("t", _SINCE))
    gone: exp.Expr = exp.Coalesce(this=column_of("d", _PLACE), expressions=[number(0)])
    select = _told(node, below, rows, gone if others is None else exp.Sub(this=gone, expression=others))
    select.append("joins", exp.Join(this=derived_table(last, "d"), method="ASOF", side="LEFT", on=left))
    return select


def _listed(node: query.Aggregate, below: Flow, rows: exp.Select) -> exp.Select:
    since = exp.Sub(this=column_of("t", _SINCE), expression=column_of("l", _BEGIN))
    nothing_yet = exp.LT(this=column_of("t", _SINCE), expression=column_of("l", _BEGIN))
    place = exp.Add(this=since, expression=number(1))
    counted = exp.Anonymous(this="LIST_EXTRACT", expressions=[column_of("l", _COUNTS), place])
    gone = exp.Case().when(nothing_yet, number(0)).else_(counted)
    return _told(node, below, rows, gone).join(derived_table(_counts(rows), "l"), join_type="cross")


def _told(node: query.Aggregate, below: Flow, rows: exp.Select, gone: exp.Expr) -> exp.Select:
    """What is told of each arrival `t`, from whose window so many rows have `gone`."""
    assert below.size is not None
    since = aliased(exp.Sub(this=column("ts"), expression=number(below.size)), _SINCE)
    names = [name for name in _names(rows) if name.name != _NEXT]
    arrivals = exp.select(*names, since).from_(derived_table(rows, "n"))
    arrivals = arrivals.where(arrived(below))
    return told(
        node, below.size, arrivals, exp.paren(exp.Sub(this=column_of("t", _PLACE), expression=parenthesized(gone)))
    )


def _counts(rows: exp.Select) -> exp.Select:
    """One row: the list, and the millisecond it begins with."""
    until = exp.Add(this=exp.Max(this=column("ts")), expression=number(1))
    milliseconds = exp.Anonymous(this="RANGE", expressions=[exp.Min(this=column("ts")), until])
    moments = exp.select(aliased(exp.Anonymous(this="UNNEST", expressions=[milliseconds]), "ts"))
    of_each = exp.select(column("ts"), aliased(exp.Count(this=exp.Star()), "_rows")).group_by(column("ts"))
    same = column_of("r", "ts").eq(column_of("i", "ts"))
    each = exp.select(column_of("i", "ts"), column_of("r", "_rows")).from_(
        derived_table(moments.from_(derived_table(rows, "e")), "i")
    )
    each = each.join(derived_table(of_each.from_(derived_table(rows, "g")), "r"), on=same, join_type="left")
    total = exp.cast(over(exp.Sum(this=column("_rows")), [], [column("ts")], running_frame()), "BIGINT")
    totals = exp.select(column("ts"), aliased(total, "_rows")).from_(derived_table(each, "j"))
    in_time = exp.Order(this=column("_rows"), expressions=[exp.Ordered(this=column("ts"))])
    counts = exp.Anonymous(this="LIST", expressions=[in_time])
    return exp.select(aliased(counts, _COUNTS), aliased(exp.Min(this=column("ts")), _BEGIN)).from_(
        derived_table(totals, "k")
    )


def _names(rows: exp.Query) -> list[exp.Column]:
    return [column(name) for name in rows.named_selects]
