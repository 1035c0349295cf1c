"""Windows of time: RANGE (W1), which slides or jumps (W3), NOW and UNBOUNDED (W4)."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Boundaries, Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.state_tables import CLOCK, add_table, clock, expired, indexed_by, keep_for, row_columns
from bridge.rewrite.windows.jumps import first_time
from bridge.rewrite.windows.window import as_operator, on_arrival, rewrite_window, window_table
from windows.extents import Now, Range, Unbounded
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    cte_name,
    derived_table,
    floor_to_multiple,
    number,
    row_number,
    table,
)
from windows.times import NEVER


@rewrite_window.register
def _(extent: Range, node: query.Window, network: Network, need: Need) -> Flow:
    if extent.slide is not None:
        return as_operator(node, network, need, at_boundaries)
    if extent.step is not None:
        return _in_steps(extent.size, extent.step, node, network, need)
    return _of_size(extent.size, node, network, need)


@rewrite_window.register
def _(extent: Now, node: query.Window, network: Network, need: Need) -> Flow:
    return _of_size(1, node, network, need)


@rewrite_window.register
def _(extent: Unbounded, node: query.Window, network: Network, need: Need) -> Flow:
    def content(operator: Operator, arrivals: Flow) -> Flow:
        _, rows = window_table(
            operator, node, network, arrivals, lambda rows: indexed_by("_expires", rows, network.database)
        )
        return dataclasses.replace(arrivals, content=rows)

    return on_arrival(node, network, need, content, size=NEVER)


# Sliding ---------------------------------------------------------------------------------------------------------------


def _of_size(size: int, node: query.Window, network: Network, need: Need) -> Flow:
    """W1: each row is valid for `size` milliseconds."""
    expires = exp.Add(this=column("ts"), expression=number(size))

    def content(operator: Operator, arrivals: Flow) -> Flow:
        name = _shared_table(size, node, network, arrivals)
        return dataclasses.replace(arrivals, content=Selection(table(name), row_columns(arrivals, expires)))

    return on_arrival(node, network, need, content, expires, size)


def _shared_table(size: int, node: query.Window, network: Network, arrivals: Flow) -> str:
    """The table of an input's rows that all its sliding windows of time share, purged by the longest of them."""

    def build(operator: Operator) -> None:
        name = network.name("window", node)
        rows = arrivals.arrivals.select([name for name in row_columns(arrivals, bigint_zero()) if name != "_expires"])
        add_table(operator, name, rows, indexed_by("ts", rows, network.database))
        operator.steps.append(Insert(name, rows))

    operator = network.operator(node.input, build, "Rows for sliding windows", key=("Window", node.input))
    return keep_for(operator, size)


def _in_steps(size: int, step: int, node: query.Window, network: Network, need: Need) -> Flow:
    """C4: a row expires at the first multiple of `step` that is at least `ts + size`."""
    expires = floor_to_multiple(exp.Add(this=column("ts"), expression=number(size + step - 1)), step)

    def content(operator: Operator, arrivals: Flow) -> Flow:
        name, rows = window_table(
            operator, node, network, arrivals, lambda rows: indexed_by("_expires", rows, network.database)
        )
        operator.purges.append(expired(name))
        return dataclasses.replace(arrivals, content=rows)

    return on_arrival(node, network, need, content, expires)


# Jumping ---------------------------------------------------------------------------------------------------------------


def at_boundaries(operator: Operator, node: query.Window, network: Network, below: Flow) -> Flow:
    """W3: at each boundary B = k·slide + offset that time has reached, the rows with B − size ≤ ts < B, at time B."""
    assert isinstance(node.extent, Range) and node.extent.slide is not None
    size, slide = node.extent.size, node.extent.slide
    raw = network.name("raw", node)
    rows = below.arrivals.project(row_columns(below, exp.Add(this=column("ts"), expression=number(size)))).select()
    add_table(operator, raw, rows, () if network.settings.is_replay else (("_expires",),))
    origin = first_time(operator, node, network, below) if node.extent.first else number(node.extent.offset)
    operator.steps.append(Insert(raw, rows))
    operator.purges.append(Purge(raw, exp.LT(this=column("_expires"), expression=clock("now"))))
    reached = [
        exp.GT(this=column("_boundary"), expression=clock("before")),
        exp.LTE(this=column("_boundary"), expression=clock("now")),
        exp.LTE(this=exp.Sub(this=column("_boundary"), expression=number(size)), expression=column("ts")),
    ]
    operator.deadlines.append(_next_boundary(raw, slide, origin))
    first = origin.find(exp.Table)
    operator.boundaries = Boundaries(raw, slide, *((node.extent.offset,) if first is None else (None, first.name)))
    is_numbered = not below.order and not below.timed
    columns = {
        "ts": column("_boundary"),
        "seq": bigint_zero(),
        "_expires": exp.Add(this=column("_boundary"), expression=number(slide)),
        "_place": column("seq")
        if is_numbered
        else row_number([column("_boundary")], map(column, ("ts", "seq", *below.order))),
        **{name: column(name) for name in below.names},
    }
    entering = _with_boundaries(raw, size, slide, origin, below)
    content = Selection(exp.Subquery(this=entering), columns, tuple(reached))
    flow = Flow(below.names, content, order=("_place",), timed=True, jumping=True)
    return dataclasses.replace(flow, boundaries=operator.boundaries)


def _with_boundaries(raw: str, size: int, slide: int, origin: exp.Expr, below: Flow) -> exp.Select:
    """Each row of the table `raw` with each boundary whose content it may belong to, if this push reaches any."""
    later = exp.Mul(this=exp.paren(exp.Add(this=column_of("n", "i"), expression=number(1))), expression=number(slide))
    boundary = exp.Add(this=last_boundary(column_of("r", "ts"), slide, origin), expression=later)
    passed = _passed(slide, origin)
    own = (column_of("r", name) for name in ("ts", "seq", *below.order, *below.names))
    return (
        exp.select(aliased(boundary, "_boundary"), *own)
        .from_(derived_table(passed, "b"))
        .join(aliased_table(raw, "r"), join_type="cross")
        .join(exp.alias_(_numbers(-(-size // slide)), "n", table=True, quoted=True), join_type="cross")
        .where(exp.Exists(this=passed.copy()))  # PostgreSQL tests this first, and joins in any order
    )


def _next_boundary(raw: str, slide: int, origin: exp.Expr) -> exp.Query:
    """A statement of the next boundary, as `due`, if the table `raw` has a row that belongs to its content."""
    following = exp.Add(this=last_boundary(column("now"), slide, origin), expression=number(slide))
    boundary = exp.select(aliased(following, "due")).from_(table(CLOCK))
    belongs = exp.GTE(this=column_of("r", "_expires"), expression=column_of("b", "due"))
    rows = exp.select(number(1)).from_(aliased_table(raw, "r")).where(belongs)
    return exp.select(column_of("b", "due")).from_(derived_table(boundary, "b")).where(exp.Exists(this=rows))


def _passed(slide: int, origin: exp.Expr) -> exp.Select:
    """One row if time has reached a boundary in this push, else none, so that most pushes read no rows."""
    last = {name: last_boundary(column(name), slide, origin) for name in ("before", "now")}
    passed = exp.GT(this=last["now"], expression=last["before"])
    return exp.select(aliased(number(1), "_passed")).from_(table(CLOCK)).where(passed).limit(1)


def last_boundary(ts: exp.Expr, slide: int, origin: exp.Expr) -> exp.Expr:
    """The latest boundary that is at most `ts`."""
    if origin == number(0):
        return floor_to_multiple(ts, slide)
    shifted = exp.paren(exp.Sub(this=ts, expression=origin.copy()))
    return exp.paren(exp.Add(this=floor_to_multiple(shifted, slide), expression=origin.copy()))


def _numbers(count: int) -> exp.Subquery:
    """The numbers 0 … count − 1, as a column `i`."""
    if count == 1:
        return exp.Subquery(this=exp.select(aliased(number(0), "i")))
    following = exp.select(exp.Add(this=column("i"), expression=number(1))).from_(table("k"))
    following = following.where(exp.LT(this=column("i"), expression=number(count - 1)))
    body = exp.union(exp.select(aliased(number(0), "i")), following, distinct=False)
    select = exp.select(column("i")).from_(table("k"))
    return exp.Subquery(this=select.with_(cte_name("k", ["i"]), as_=body, recursive=True))
