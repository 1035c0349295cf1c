"""Windows of the last n rows: ROWS, which slides (W2) or jumps (W3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import NTH, Boundaries, Flow, LastRows, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Operator
from bridge.rewrite.state_tables import all_but_newest, indexed_by
from bridge.rewrite.windows.jumps import content_at_jumps, number_rows
from bridge.rewrite.windows.window import as_operator, key_columns, on_arrival, rewrite_window, window_table
from windows.extents import Rows
from windows.sql import aliased, aliased_table, column, column_of, number, over, row_number
from windows.times import NEVER


@rewrite_window.register
def _(extent: Rows, node: query.Window, network: Network, need: Need) -> Flow:
    if extent.slide is not None:
        return as_operator(node, network, need, _at_rows)

    def content(operator: Operator, arrivals: Flow) -> Flow:
        name, rows = window_table(operator, node, network, arrivals, lambda rows: _indexes(rows, node, network))
        keys = list(node.partition_by)
        arrivals = dataclasses.replace(arrivals, last=LastRows(extent.count, node.partition_by, rows))
        operator.purges.append(all_but_newest(name, keys, extent.count, arrivals.key))
        numbered = with_evictions(rows, arrivals, extent.count, keys, numbers=True)
        return dataclasses.replace(arrivals, content=numbered, counted=True)

    return on_arrival(node, network, need, content)


def _indexes(rows: exp.Select, node: query.Window, network: Network) -> tuple[tuple[str, ...], ...]:
    """The indexes: by row number, and by key, as an event's statements read only its key's rows."""
    if network.settings.is_replay:
        return ()
    if node.partition_by and all(isinstance(key, exp.Column) for key in node.partition_by):
        return (("seq",), (*(key.name for key in node.partition_by), "seq"))
    return indexed_by("seq", rows, network.database)


def with_evictions(
    content: Selection, flow: Flow, count: int, keys: list[exp.Expr], numbers: bool = False
) -> Selection:
    """The rows with the row that evicts each, `count` places later within the key; with `NTH` if `numbers`."""
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


def oldest_seq(flow: Flow, at: exp.Expr, same_key: Sequence[exp.Expr] = (), inclusive: bool = True) -> exp.Expr:
    """The `seq` of the oldest of the last rows when the arrival with the number `at` has come, found by an index.

    Args:
        same_key: conditions under which a row `o` has the key of the arrival.
        inclusive: whether the arrival is itself the newest of these rows.
    """
    assert flow.last is not None
    size, _, kept = flow.last
    if size == 1 and inclusive:
        return at
    before = (exp.LT if inclusive else exp.LTE)(this=column_of("o", "seq"), expression=at)
    older = exp.select(column_of("o", "seq")).from_(kept.item("o")).where(*same_key, before)
    newest_first = exp.Ordered(this=column_of("o", "seq"), desc=True)
    older = older.order_by(newest_first).limit(1).offset(size - 1 - inclusive)
    return exp.Coalesce(this=exp.Subquery(this=older), expressions=[number(0)])


def stored_rows(content: Selection, last: LastRows) -> Selection:
    """The rows of a window of last rows, read from its table, without their numbers."""
    return dataclasses.replace(content, source=last.rows.source)


def _at_rows(operator: Operator, node: query.Window, network: Network, below: Flow) -> Flow:
    """W3: after every `slide`-th row (per key) the last `count` rows, with that row's ts and seq."""
    assert isinstance(node.extent, Rows) and node.extent.slide is not None
    count, slide, full = node.extent.count, node.extent.slide, node.extent.full
    raw, keys = network.name("raw", node), key_columns(node)
    number_rows(operator, raw, below, keys, count)
    oldest = exp.Sub(this=column_of("t", "_number"), expression=number(count))
    near = [
        exp.LTE(this=column_of("r", "_number"), expression=column_of("t", "_number")),
        exp.GT(this=column_of("r", "_number"), expression=oldest),
    ]
    jumps, rows = aliased_table(raw, "t"), aliased_table(raw, "r")
    flow = content_at_jumps(below, list(keys), jumps, rows, "_number", near, [_jumps(count, slide, full)])
    operator.boundaries = Boundaries(raw, slide, count if full else slide, keys=tuple(keys))
    return dataclasses.replace(flow, boundaries=operator.boundaries)


def _jumps(count: int, slide: int, full: bool) -> exp.Expr:
    """Whether the window jumps at a row `t`: at every slide-th row; if `full`, only from the count-th row on."""
    rest = exp.Mod(this=column_of("t", "_number"), expression=number(slide))
    if not full:
        return exp.EQ(this=rest, expression=number(0))
    is_full = exp.GTE(this=column_of("t", "_number"), expression=number(count))
    return exp.and_(is_full, exp.EQ(this=rest, expression=number(count % slide)))
