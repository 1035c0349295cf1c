"""COUNT(*) of a sliding window by the numbers of its rows: the newest one's less the oldest one's that is still valid.

An index finds that row, so the cost is logarithmic in the window's size. Counting has an inverse that is exact; sums of
doubles have none, and sums of whole numbers over all history may grow out of 64 bits: they are joined.
"""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.flow import Flow, Need, derived, named, number, numbered, of, table
from bridge.named import OF_EVENT
from bridge.plan import Insert, Operator
from bridge.rewrite.frames import aggregates
from bridge.rewrite.network import Network, add_table, keep_for
from bridge.scope import column
from windows.extents import NEVER

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
    itself = [exp.EQ(this=of("n", name), expression=of("a", name)) for name in ("ts", "seq")]
    newest = exp.select(of("n", NUMBER)).from_(exp.alias_(numbers, "n", table=True, quoted=True)).where(*itself)
    since = exp.Sub(this=of("t", "ts"), expression=number(below.size))
    first = exp.select(of("f", NUMBER)).from_(exp.alias_(numbers, "f", table=True, quoted=True))
    first = first.where(exp.GT(this=of("f", "ts"), expression=since)).order_by(of("f", "ts"), of("f", "seq")).limit(1)
    before = exp.paren(exp.Sub(this=exp.Subquery(this=first), expression=number(1)))
    count = exp.paren(exp.Sub(this=of("t", NUMBER), expression=before))
    names = of_arrivals(node)
    arrivals = derived(below.arrivals.select(names), "a")
    found = exp.select(*(of("a", name) for name in names), named(exp.Subquery(this=newest), NUMBER)).from_(arrivals)
    return told(node, below.size, found.distinct(), count)


def searched(node: query.Aggregate, below: Flow, network: Network) -> exp.Select | None:
    """`t._n - (the first row's _n) + 1 - (how many rows are not younger than t.ts - size)` for each arrival `t`.

    The rows' times are one sorted array, in which the database searches by halving: for many events, where an index
    would be asked for each of them. None where the database cannot do so.
    """
    assert isinstance(node.input, query.Window) and below.size is not None
    numbers = table(_numbers(node.input, below.size, network))
    gone = network.database.place_among(column("_since"), exp.select("ts").from_(numbers.copy()), column("ts"))
    if gone is None:
        return None
    first = exp.select(column(NUMBER)).from_(numbers.copy()).order_by(column("ts"), column("seq")).limit(1)
    kept = exp.Sub(
        this=column(NUMBER), expression=exp.paren(exp.Sub(this=exp.Subquery(this=first), expression=number(1)))
    )
    count = exp.paren(exp.Sub(this=kept, expression=gone))

    names = of_arrivals(node)
    arrivals = derived(below.arrivals.select(names), "a")
    same_row = [exp.EQ(this=of("n", name), expression=of("a", name)) for name in ("ts", "seq")]
    since = exp.Sub(this=of("a", "ts"), expression=number(below.size))
    found = exp.select(*(of("a", name) for name in names), of("n", NUMBER), named(since, "_since")).from_(arrivals)
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
    expiry = named(exp.Add(this=of("t", "ts"), expression=number(size)), "_expires")
    columns = [named(item.this.transform(_own, count), item.alias) for item in node.columns]
    select = exp.select(of("t", "ts"), of("t", "seq"), expiry, *columns)
    return select.from_(derived(arrivals, "t"))


def _own(part: exp.Expr, count: exp.Expr) -> exp.Expr:
    """A part of the select list: of the events of the window the newest is the one that arrives."""
    if isinstance(part, exp.Last):
        return of("t", part.this.name)
    return count.copy() if isinstance(part, exp.Count) else part


def _numbers(window: query.Window, size: int, network: Network) -> str:
    """The table of the input's rows by number, kept as long as the longest window that counts them wants."""

    def build(operator: Operator) -> None:
        below = network.rewrite(window.input, Need.ARRIVALS)
        name = network.name("numbers", window)
        last = exp.select(column(NUMBER)).from_(table(name)).order_by(_newest("ts"), _newest("seq")).limit(1)
        known = exp.Coalesce(this=exp.Subquery(this=last), expressions=[number(0)])
        rows = below.arrivals.select(["ts", "seq"])
        place = numbered([], [below.arrivals.columns["seq"]])
        add_table(operator, name, rows.select(named(place, NUMBER)), (("ts", "seq", NUMBER),))
        numbers = exp.Add(this=place.copy(), expression=known)
        operator.steps.append(Insert(name, rows.select(named(numbers, NUMBER))))

    operator = network.operator(window.input, build, "Row numbers", key=("Numbers", window.input))
    return keep_for(operator, size)


def _newest(name: str) -> exp.Ordered:
    return exp.Ordered(this=column(name), desc=True)
