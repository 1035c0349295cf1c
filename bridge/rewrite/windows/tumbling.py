"""Tumbling windows by a value of the rows (W11): a batch is reported at the first row beyond it.

A row begins a batch if it lies in a later interval than all rows before it. So a row's batch is the latest interval so
far, which one window function computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.state_tables import add_table, row_columns
from bridge.rewrite.windows.jumps import content_at_jumps
from bridge.rewrite.windows.window import as_operator, in_rows, key_columns, rewrite_window
from windows.extents import Tumbling
from windows.sql import (
    aliased_table,
    column,
    column_of,
    derived_table,
    floor_to_multiple,
    null_safe_equal,
    number,
    over,
    row_number,
    with_columns,
)
from windows.times import NEVER

_AT = "_at"
"""The column of the value that determines the batches."""


@rewrite_window.register
def _(extent: Tumbling, node: query.Window, network: Network, need: Need) -> Flow:
    return as_operator(node, network, need, _at_ends)


def _at_ends(operator: Operator, node: query.Window, network: Network, below: Flow) -> Flow:
    """At each row beyond a batch (of its key): the rows of the batch, with that row's ts and seq."""
    assert isinstance(node.extent, Tumbling)
    extent = node.extent
    raw, keys = network.name("raw", node), key_columns(node)
    timed = below.arrivals.where(exp.Not(this=exp.Is(this=extent.of.copy(), expression=exp.null())))
    rows = timed.project({**row_columns(below, number(NEVER)), **keys, _AT: exp.cast(extent.of.copy(), "BIGINT")})
    add_table(operator, raw, rows.select())
    origin = number(extent.origin) if extent.origin is not None else _first(operator, node, network, rows, below)
    operator.steps.append(Insert(raw, rows.select()))
    states = _with_batches(raw, list(keys), below, extent.size, origin)
    operator.purges.append(_purge(raw, states, list(keys), below))
    of_batch = exp.EQ(this=column_of("r", "_batch"), expression=column_of("t", "_before"))
    beyond = exp.GT(this=column_of("t", "_batch"), expression=column_of("t", "_before"))
    jumps, rows_of = derived_table(states.copy(), "t"), derived_table(states.copy(), "r")
    return content_at_jumps(below, list(keys), jumps, rows_of, "_batch", [of_batch], [beyond])


def _first(operator: Operator, node: query.Window, network: Network, rows: Selection, below: Flow) -> exp.Expr:
    """The value of the first row (of the key of a row `r`), which is stored in a table."""
    begun = network.name("begun", node)
    names = [_AT, *(name for name in rows.columns if name.startswith("_part"))]
    numbered = with_columns(
        rows.select([*names, *below.key]), _first=row_number(map(column, names[1:]), map(column, below.key))
    )
    first = exp.select(*(column_of("a", name) for name in names)).from_(derived_table(numbered, "a"))
    known = exp.select(number(1)).from_(aliased_table(begun, "b"))
    known = known.where(*(null_safe_equal(column_of("b", name), column_of("a", name)) for name in names[1:]))
    add_table(operator, begun, first)
    new = first.where(column_of("a", "_first").eq(1), exp.Not(this=exp.Exists(this=known)))
    operator.steps.append(Insert(begun, new))
    found = exp.select(column_of("b", _AT)).from_(aliased_table(begun, "b"))
    same_key = (null_safe_equal(column_of("b", name), column_of("r", name)) for name in names[1:])
    return exp.Subquery(this=found.where(*same_key))


def _with_batches(raw: str, keys: Sequence[str], below: Flow, size: int, origin: exp.Expr) -> exp.Select:
    """The stored rows, each with its batch, the batch of the previous row, and its number among the rows of the key."""

    def running(function: exp.Expr) -> exp.Expr:
        return over(function, map(column, keys), map(column, below.key))

    since = exp.paren(exp.Sub(this=column_of("r", _AT), expression=origin))
    stretched = with_columns(aliased_table(raw, "r"), _stretch=floor_to_multiple(since, size))
    batched = with_columns(
        stretched,
        _batch=exp.cast(running(exp.Max(this=column("_stretch"))), "BIGINT"),
        _number=running(exp.RowNumber()),
    )
    return with_columns(batched, _before=running(exp.Lag(this=column("_batch"), offset=number(1))))


def _purge(raw: str, states: exp.Select, keys: Sequence[str], below: Flow) -> Purge:
    """A purge of the rows of reported batches, which come before the rows of the open batch."""
    last = over(exp.Max(this=column("_batch")), map(column, keys), [])
    old = exp.select(*map(column, below.key))
    old = old.from_(derived_table(with_columns(states.copy(), _last=last), "s"))
    old = old.where(exp.LT(this=column("_batch"), expression=column("_last")))
    return Purge(raw, in_rows(below.key, old))
