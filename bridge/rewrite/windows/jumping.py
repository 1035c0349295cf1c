"""Jumping windows (W3): the content enters as a whole, at boundaries of time or after every so many rows."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge import query
from bridge.query.nodes import Node
from bridge.rewrite.flow import OUT, Flow, Need, Selection
from bridge.rewrite.network import CLOCK, Network, add_table, arrived, clock, derived_content, row_columns
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.windows.batch import by_condition
from bridge.rewrite.windows.tumbling import by_stretch
from windows.extents import Batch, Range, Rows, Tumbling
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    cte_name,
    derived_table,
    floor_to_multiple,
    null_safe_equal,
    number,
    over,
    row_number,
    table,
)
from windows.times import NEVER


def rewrite_jumping(node: query.Window, network: Network, need: Need) -> Flow:
    below = network.rewrite(node.input, Need.ARRIVALS)

    def build(operator: Operator) -> None:
        make = {Range: _by_time, Rows: _by_count, Batch: by_condition, Tumbling: by_stretch}[type(node.extent)]
        make(operator, node, network, below)

    operator = network.operator(node, build, f"Window({node.extent})")
    return network.give(operator, node, need)


def _by_time(operator: Operator, node: query.Window, network: Network, below: Flow) -> None:
    """At each boundary B = k·slide + offset that time has reached, the rows with B − size ≤ ts < B, at time B."""
    assert isinstance(node.extent, Range) and node.extent.slide is not None
    size, slide, offset = node.extent.size, node.extent.slide, node.extent.offset
    raw = network.name("raw", node)
    rows = below.arrivals.project(row_columns(below, exp.Add(this=column("ts"), expression=number(size)))).select()
    add_table(operator, raw, rows, (("_expires",),))
    origin = first_time(operator, node, network, below) if node.extent.first else number(offset)
    operator.steps.append(Insert(raw, rows))
    operator.purges.append(Purge(raw, exp.LT(this=column("_expires"), expression=clock("now"))))
    boundary = exp.Add(
        this=_last_boundary(column_of("r", "ts"), slide, origin),
        expression=exp.Mul(
            this=exp.paren(exp.Add(this=column_of("n", "i"), expression=number(1))), expression=number(slide)
        ),
    )
    passed = _passed(slide, origin)
    entering = (
        exp.select(
            aliased(boundary, "_boundary"),
            *(column_of("r", name) for name in ("ts", "seq", *below.order, *below.names)),
        )
        .from_(derived_table(passed, "b"))
        .join(aliased_table(raw, "r"), join_type="cross")
        .join(exp.alias_(numbers(-(-size // slide)), "n", table=True, quoted=True), join_type="cross")
        .where(exp.Exists(this=passed.copy()))  # PostgreSQL asks this first, and joins in any order
    )
    reached = [
        exp.GT(this=column("_boundary"), expression=clock("before")),
        exp.LTE(this=column("_boundary"), expression=clock("now")),
        exp.LTE(this=exp.Sub(this=column("_boundary"), expression=number(size)), expression=column("ts")),
    ]
    place = row_number([column("_boundary")], map(column, ("ts", "seq", *below.order)))
    columns = {
        "ts": column("_boundary"),
        "seq": bigint_zero(),
        "_expires": exp.Add(this=column("_boundary"), expression=number(slide)),
        "_place": place,
        **{name: column(name) for name in below.names},
    }
    content = Selection(exp.Subquery(this=entering), columns, tuple(reached))
    operator.result = Flow(below.names, content, order=("_place",), timed=True, jumping=True)


def _passed(slide: int, origin: exp.Expr) -> exp.Select:
    """A row if time has reached a boundary with this push: of most events it has not, and no row need be read."""
    last = {name: _last_boundary(column(name), slide, origin) for name in ("before", "now")}
    passed = exp.GT(this=last["now"], expression=last["before"])
    return exp.select(aliased(number(1), "_passed")).from_(table(CLOCK)).where(passed).limit(1)


def numbers(count: int) -> exp.Subquery:
    """The numbers 0 … count − 1 as a column `i`."""
    if count == 1:
        return exp.Subquery(this=exp.select(aliased(number(0), "i")))
    following = exp.select(exp.Add(this=column("i"), expression=number(1))).from_(table("k"))
    following = following.where(exp.LT(this=column("i"), expression=number(count - 1)))
    body = exp.union(exp.select(aliased(number(0), "i")), following, distinct=False)
    select = exp.select(column("i")).from_(table("k"))
    return exp.Subquery(this=select.with_(cte_name("k", ["i"]), as_=body, recursive=True))


def first_time(operator: Operator, node: Node, network: Network, below: Flow) -> exp.Expr:
    """The time of the first row there was, kept in a table of its own."""
    begun = network.name("begun", node)
    first = exp.select(aliased(exp.Min(this=column("ts")), "ts"))
    first = first.from_(derived_table(below.arrivals.select(["ts"]), "a"))
    known = exp.Exists(this=exp.select(number(1)).from_(table(begun)))
    add_table(operator, begun, first)
    new = exp.Not(this=exp.Is(this=exp.Min(this=column("ts")), expression=exp.null()))
    operator.steps.append(Insert(begun, first.where(exp.Not(this=known)).having(new)))
    return exp.Subquery(this=exp.select(column("ts")).from_(table(begun)))


def _last_boundary(ts: exp.Expr, slide: int, offset: exp.Expr) -> exp.Expr:
    """The last boundary that is not after a time."""
    if offset == number(0):
        return floor_to_multiple(ts, slide)
    shifted = exp.paren(exp.Sub(this=ts, expression=offset.copy()))
    return exp.paren(exp.Add(this=floor_to_multiple(shifted, slide), expression=offset.copy()))


def _by_count(operator: Operator, node: query.Window, network: Network, below: Flow) -> None:
    """After every slide-th row (per key) the last `count` rows, at that row's ts and seq."""
    assert isinstance(node.extent, Rows) and node.extent.slide is not None
    raw = network.name("raw", node)
    keys = {f"_part{place}": key for place, key in enumerate(node.partition_by)}
    number_rows(operator, raw, below, keys, node.extent.count)
    jump = _jumps(node.extent.count, node.extent.slide, node.extent.full)
    near = [
        exp.LTE(this=column_of("r", "_number"), expression=column_of("t", "_number")),
        exp.GT(
            this=column_of("r", "_number"),
            expression=exp.Sub(this=column_of("t", "_number"), expression=number(node.extent.count)),
        ),
        *(null_safe_equal(column_of("r", key), column_of("t", key)) for key in keys),
    ]
    columns = [aliased(column_of("t", name), name) for name in ("ts", "seq", "_expires")]
    order = [aliased(column_of("t", name), f"_t{name}") for name in below.order]
    joined = (
        exp.select(
            *columns,
            *order,
            aliased(column_of("t", "_number"), "_jump"),
            aliased(column_of("r", "_number"), "_number"),
            *(column_of("r", name) for name in (*keys, *below.names)),
        )
        .from_(aliased_table(raw, "t"))
        .join(aliased_table(raw, "r"), on=exp.and_(*near))
        .where(jump, arrived("t", below))
    )
    orders = (*(f"_t{name}" for name in below.order), "_number")
    names = ["ts", "seq", "_expires", *orders, "_jump", *keys, *below.names]
    operator.result = Flow(
        below.names,
        Selection.of(exp.Subquery(this=joined), names),
        order=orders,
        timed=below.timed,
        jumping=True,
        jump=("_jump", *keys),
    )


def _jumps(count: int, slide: int, full: bool) -> exp.Expr:
    """Whether the content is renewed at a row of `t`: at each slide-th, with `full` from the count-th on."""
    rest = exp.Mod(this=column_of("t", "_number"), expression=number(slide))
    if not full:
        return exp.EQ(this=rest, expression=number(0))
    is_full = exp.GTE(this=column_of("t", "_number"), expression=number(count))
    return exp.and_(is_full, exp.EQ(this=rest, expression=number(count % slide)))


def number_rows(operator: Operator, raw: str, below: Flow, keys: dict[str, exp.Expr], count: int) -> None:
    """A table of the rows with their `_number` in the stream, per key, counted on from the last one."""
    rows = below.arrivals.project({**row_columns(below, number(NEVER)), **keys})
    known = exp.select(exp.Max(this=column_of("p", "_number"))).from_(aliased_table(raw, "p"))
    known = known.where(*(null_safe_equal(column_of("p", key), column_of("a", key)) for key in keys))
    counted = over(exp.RowNumber(), (column_of("a", key) for key in keys), (column_of("a", name) for name in below.key))
    total = exp.Add(this=exp.Coalesce(this=exp.Subquery(this=known), expressions=[number(0)]), expression=counted)
    source = exp.alias_(exp.Subquery(this=rows.select()), "a", table=True, quoted=True)
    columns = [column_of("a", name) for name in rows.columns]
    select = exp.select(*columns, aliased(total, "_number")).from_(source)
    shape = exp.select(*columns, aliased(counted.copy(), "_number")).from_(source.copy())
    add_table(operator, raw, shape)
    operator.steps.append(Insert(raw, select))
    latest = over(exp.Max(this=column("_number")), map(column, keys), [])
    old = exp.select(*map(column, below.key), aliased(exp.Sub(this=latest, expression=column("_number")), "_age"))
    aged = exp.select(*map(column, below.key)).from_(derived_table(old.from_(table(raw)), "q"))
    aged = aged.where(exp.GTE(this=column("_age"), expression=number(count)))
    row = [column(key) for key in below.key]
    condition = exp.In(this=exp.Tuple(expressions=row) if len(row) > 1 else row[0], query=exp.Subquery(this=aged))
    operator.purges.append(Purge(raw, condition))


@derived_content.register
def _(node: query.Window, flow: Flow) -> Flow:
    """The content of a ROWS … SLIDE, START … STOP or TUMBLING window is replaced when its key jumps next."""
    if not isinstance(node.extent, (Rows, Batch, Tumbling)):
        return flow
    return replaced_by_next(node, flow)


def replaced_by_next(node: Node, flow: Flow) -> Flow:
    """The content with the event that replaces a row, with all of its key, by newer ones."""
    assert flow.content is not None
    keys = [name for name in flow.jump if name != "_jump"]
    jump = [column(name) for name in ("ts", "seq", *flow.jump)]
    first = aliased(exp.Min(this=column("_place")), "_place")
    jumps = exp.select(*jump, first).from_(flow.content.source.copy()).group_by(*(name.copy() for name in jump))

    def following(name: str) -> exp.Expr:
        lead = exp.Lead(this=column(name), offset=number(1), default=number(NEVER))
        return over(lead, map(column, keys), map(column, ("ts", "seq", "_jump")))

    outs = [aliased(following(name), out) for name, out in zip(("ts", "seq", "_place"), OUT, strict=True)]
    spans = exp.select(*jump, *outs).from_(derived_table(jumps, "e"))
    same_jump = exp.and_(
        *(null_safe_equal(column_of("o", name), column_of("c", name)) for name in ("ts", "seq", *flow.jump))
    )
    columns = [column_of("c", name) for name in flow.content.columns]
    select = (
        exp.select(*columns, *(column_of("o", name) for name in OUT))
        .from_(exp.alias_(flow.content.source.copy(), "c", table=True, quoted=True))
        .join(derived_table(spans, "o"), on=same_jump)
    )
    content = Selection.of(exp.Subquery(this=select), [*flow.content.columns, *OUT])
    return dataclasses.replace(flow, content=content, counted=True, last=None)
