"""COUNT(*) of a sliding window, of many events: a row's place among all rows, less how many have left its window.

Those are the rows up to the row's time less the window's length; the newest of them is found by an ASOF JOIN. That takes
DuckDB half as long as a frame, whose ends are sought for each row. Where queries share the statement and the rows lie
about as close as the milliseconds, a list has the number of rows up to each millisecond: one list for all, and a tenth
of the time.
"""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.flow import Flow, derived, named, number, numbered, of, over, so_far, whole
from bridge.rewrite.counted import of_arrivals, told
from bridge.rewrite.frames import arrived
from bridge.rewrite.panes import Panes
from bridge.scope import column

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
    following = named(over(exp.Lead(this=column("ts")), [], order), _NEXT)
    return exp.select(*_names(rows), named(numbered([], order), _PLACE), following).from_(derived(rows, "m"))


def _only_if(condition: exp.Expr, rows: exp.Select) -> exp.Select:
    """The rows, or none of them, by a condition of all."""
    of_all = exp.select(condition.copy()).from_(derived(rows, "b"))
    return exp.select(*_names(rows)).from_(derived(rows, "w")).where(exp.paren(of_all))


def _sought(node: query.Aggregate, below: Flow, rows: exp.Select, others: exp.Expr | None = None) -> exp.Select:
    """`others`: how many more rows each window has than these."""
    later = exp.GT(this=column(_NEXT), expression=column("ts"))
    last = exp.select(column("ts"), column(_PLACE)).from_(derived(rows, "n"))
    last = last.where(exp.or_(later, exp.Is(this=column(_NEXT), expression=exp.null())))
    left = exp.LTE(this=of("d", "ts"), expression=of("t", _SINCE))
    gone: exp.Expr = exp.Coalesce(this=of("d", _PLACE), expressions=[number(0)])
    select = _told(node, below, rows, gone if others is None else exp.Sub(this=gone, expression=others))
    select.append("joins", exp.Join(this=derived(last, "d"), method="ASOF", side="LEFT", on=left))
    return select


def _listed(node: query.Aggregate, below: Flow, rows: exp.Select) -> exp.Select:
    since = exp.Sub(this=of("t", _SINCE), expression=of("l", _BEGIN))
    nothing_yet = exp.LT(this=of("t", _SINCE), expression=of("l", _BEGIN))
    place = exp.Add(this=since, expression=number(1))
    counted = exp.Anonymous(this="LIST_EXTRACT", expressions=[of("l", _COUNTS), place])
    gone = exp.Case().when(nothing_yet, number(0)).else_(counted)
    return _told(node, below, rows, gone).join(derived(_counts(rows), "l"), join_type="cross")


def _told(node: query.Aggregate, below: Flow, rows: exp.Select, gone: exp.Expr) -> exp.Select:
    """What is told of each arrival `t`, from whose window so many rows have `gone`."""
    assert below.size is not None
    since = named(exp.Sub(this=column("ts"), expression=number(below.size)), _SINCE)
    names = [name for name in _names(rows) if name.name != _NEXT]
    arrivals = exp.select(*names, since).from_(derived(rows, "n"))
    arrivals = arrivals.where(arrived(below))
    return told(node, below.size, arrivals, exp.paren(exp.Sub(this=of("t", _PLACE), expression=whole(gone))))


def _counts(rows: exp.Select) -> exp.Select:
    """One row: the list, and the millisecond it begins with."""
    until = exp.Add(this=exp.Max(this=column("ts")), expression=number(1))
    milliseconds = exp.Anonymous(this="RANGE", expressions=[exp.Min(this=column("ts")), until])
    moments = exp.select(named(exp.Anonymous(this="UNNEST", expressions=[milliseconds]), "ts"))
    of_each = exp.select(column("ts"), named(exp.Count(this=exp.Star()), "_rows")).group_by(column("ts"))
    same = of("r", "ts").eq(of("i", "ts"))
    each = exp.select(of("i", "ts"), of("r", "_rows")).from_(derived(moments.from_(derived(rows, "e")), "i"))
    each = each.join(derived(of_each.from_(derived(rows, "g")), "r"), on=same, join_type="left")
    total = exp.cast(over(exp.Sum(this=column("_rows")), [], [column("ts")], so_far()), "BIGINT")
    totals = exp.select(column("ts"), named(total, "_rows")).from_(derived(each, "j"))
    in_time = exp.Order(this=column("_rows"), expressions=[exp.Ordered(this=column("ts"))])
    counts = exp.Anonymous(this="LIST", expressions=[in_time])
    return exp.select(named(counts, _COUNTS), named(exp.Min(this=column("ts")), _BEGIN)).from_(derived(totals, "k"))


def _names(rows: exp.Query) -> list[exp.Column]:
    return [column(name) for name in rows.named_selects]
