"""Streams and their sliding windows (W1, W2, W4): the inbox holds what arrives, a window table what still counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import NTH, Flow, LastRows, Need, Selection
from bridge.rewrite.network import (
    Network,
    add_table,
    clock,
    expired,
    indexed_by,
    keep_for,
    rewrite,
    row_columns,
)
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.windows.first import rewrite_first
from bridge.rewrite.windows.jumping import rewrite_jumping
from bridge.rewrite.windows.trailing import fallen_out, in_sessions, trailed
from windows.extents import FirstRange, FirstRows, Now, Range, Rows, Session, Top, Trailing, Unbounded
from windows.sql import aliased, bigint_zero, column, column_of, floor_to_multiple, number, over, row_number, table
from windows.times import NEVER


@rewrite.register
def _(node: query.Stream, network: Network, need: Need) -> Flow:
    source = network.source(node.name)
    if source.node is not None:
        return network.under(source.epoch)(source.node, need)
    inbox = source.inbox or ""
    columns = {
        "ts": column("ts"),
        "seq": column("seq"),
        "_expires": number(NEVER),
        **{name: column(name) for name in source.names},
    }
    return Flow(source.names, Selection(table(inbox), columns))


@rewrite.register
def _(node: query.Window, network: Network, need: Need) -> Flow:
    if node.extent.jumps:
        return rewrite_jumping(node, network, need)
    if isinstance(node.extent, (FirstRows, FirstRange)):
        return rewrite_first(node, network, need)
    below = network.rewrite(node.input, Need.ARRIVALS)
    if need is not Need.CONTENT:
        return with_expiry(below, node)
    operator = network.operator(node, lambda made: _build(made, node, network, below), f"Window({node.extent})")
    assert operator.arrivals is not None
    return operator.arrivals


def with_expiry(below: Flow, node: query.Window) -> Flow:
    """The arrivals with the expiry that this window gives them."""
    columns = row_columns(below, expiry(node))
    return dataclasses.replace(
        below,
        arrivals=below.arrivals.project(columns),
        size=size_of(node),
        last=None,
        counted=False,
        jumping=False,
        variants=None,
    )


def expiry(node: query.Window) -> exp.Expr:
    """W1: `ts + size`, with STEP the next multiple of it; a row of a ROWS or unbounded window does not expire by time."""
    size = size_of(node)
    if isinstance(node.extent, Range) and node.extent.step is not None:
        step = node.extent.step
        return floor_to_multiple(exp.Add(this=column("ts"), expression=number(node.extent.size + step - 1)), step)
    return number(NEVER) if size is None or size == NEVER else exp.Add(this=column("ts"), expression=number(size))


def size_of(node: query.Window) -> int | None:
    match node.extent:
        case Range(size, step=None):
            return size
        case Now():
            return 1
        case Unbounded():
            return NEVER
        case _:
            return None


def _build(operator: Operator, node: query.Window, network: Network, below: Flow) -> None:
    """The window's table, filled from the arrivals; for ROWS, who pushes a row out is found by counting on."""
    arrivals = with_expiry(below, node)
    if arrivals.size not in (None, NEVER):
        content = Selection(table(_kept(node, network, below)), row_columns(below, expiry(node)))
        operator.arrivals = dataclasses.replace(arrivals, content=content)
        return
    name = network.name("window", node)
    rows = arrivals.arrivals.select()
    content = Selection.of(table(name), arrivals.arrivals.columns)
    counted = isinstance(node.extent, (Rows, Top, Trailing))
    indexes = indexed_by("seq" if counted else "_expires", rows, network)
    add_table(operator, name, rows, _keyed(node, network) or indexes)
    operator.steps.append(Insert(name, rows))
    match node.extent:
        case Rows(count):
            arrivals = dataclasses.replace(arrivals, last=LastRows(count, tuple(node.partition_by), content))
            keys = list(node.partition_by)
            operator.purges.append(_purge_rows(name, pushed_out(content, arrivals, count, keys), arrivals))
            content = pushed_out(content, arrivals, count, keys, numbers=True)
        case Top():
            content = fallen_out(operator, content, arrivals, node, network)
            operator.purges.append(_purge_rows(name, content, arrivals))
        case Trailing():
            content = trailed(operator, content, arrivals, node, network)
            operator.purges.append(_purge_rows(name, content, arrivals))
        case Session(gap):
            content = in_sessions(content, arrivals, gap, node.partition_by)
            operator.purges.append(_purge_sessions(name, content, arrivals))
        case Range() | Now():
            operator.purges.append(expired(name))
    operator.arrivals = dataclasses.replace(arrivals, content=content, counted=counted)


def _keyed(node: query.Window, network: Network) -> tuple[tuple[str, ...], ...]:
    """The indexes of a table of the last rows of each key: those of an event's key are sought in them."""
    plain = all(isinstance(key, exp.Column) for key in node.partition_by)
    if not (node.partition_by and plain and isinstance(node.extent, Rows)):
        return ()
    return (("seq",), (*(key.name for key in node.partition_by), "seq"))


def _kept(node: query.Window, network: Network, below: Flow) -> str:
    """The table that holds an input's rows for all its sliding windows of time, as long as the longest of them wants."""

    def build(operator: Operator) -> None:
        name = network.name("window", node)
        rows = below.arrivals.select([name for name in row_columns(below, bigint_zero()) if name != "_expires"])
        add_table(operator, name, rows, indexed_by("ts", rows, network))
        operator.steps.append(Insert(name, rows))

    operator = network.operator(node.input, build, "Rows for sliding windows", key=("Window", node.input))
    size = size_of(node)
    assert size is not None
    return keep_for(operator, size)


def pushed_out(content: Selection, flow: Flow, count: int, keys: list[exp.Expr], numbers: bool = False) -> Selection:
    """The content with the row that stands `count` places later, per key: that one pushes it out; and `NTH`, if told to."""
    order = [column(name) for name in flow.key]

    def later(name: str) -> exp.Expr:
        lead = exp.Lead(this=column(name), offset=number(count), default=number(NEVER))
        return over(lead, keys, order)

    extra = {
        "_out_ts": later("ts"),
        "_out": later("seq"),
        "_out_place": later("_place") if flow.order else number(NEVER),
        **({NTH: row_number(keys, order)} if numbers else {}),
    }
    select = content.select().select(*(aliased(value, name) for name, value in extra.items()))
    return Selection.of(exp.Subquery(this=select), [*content.columns, *extra])


def oldest_seen(flow: Flow, at: exp.Expr, alike: Sequence[exp.Expr] = (), itself: bool = True) -> exp.Expr:
    """The number of the oldest of the last rows when the arrival of the number `at` has come: an index finds it.

    `alike`: what rows called `o` fulfil if they are of the same keys. `itself`: the arrival is the newest of these rows.
    """
    assert flow.last is not None
    size, _, kept = flow.last
    if size == 1 and itself:
        return at
    before = (exp.LT if itself else exp.LTE)(this=column_of("o", "seq"), expression=at)
    older = exp.select(column_of("o", "seq")).from_(kept.item("o")).where(*alike, before)
    older = older.order_by(exp.Ordered(this=column_of("o", "seq"), desc=True)).limit(1).offset(size - 1 - itself)
    return exp.Coalesce(this=exp.Subquery(this=older), expressions=[number(0)])


def _purge_rows(name: str, content: Selection, flow: Flow) -> Purge:
    """Rows pushed out by an event that is in: nobody sees them any more."""
    return _purge_those(name, content.where(exp.LT(this=column("_out"), expression=number(NEVER))), flow)


def _purge_sessions(name: str, content: Selection, flow: Flow) -> Purge:
    """Rows of sessions that are over."""
    ended = exp.LTE(this=column("_expires"), expression=clock("now"))
    return _purge_those(name, dataclasses.replace(content, conditions=(*content.conditions, ended)), flow)


def _purge_those(name: str, rows: Selection, flow: Flow) -> Purge:
    keys = list(flow.key)
    row: exp.Expr = exp.Tuple(expressions=[column(key) for key in keys]) if len(keys) > 1 else column(keys[0])
    return Purge(name, exp.In(this=row, query=exp.Subquery(this=rows.select(keys))))
