"""Tumbling windows by a time of the rows (W11): a batch is told with the first row that lies beyond it.

A row begins a batch where it lies in a later stretch of time than all rows before; so the batch of each row is the
latest stretch so far, and one window function finds them all.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Selection
from bridge.rewrite.network import Network, add_table, arrived, row_columns
from bridge.rewrite.plan import Insert, Operator, Purge
from windows.extents import Tumbling
from windows.sql import (
    aliased,
    aliased_table,
    column,
    column_of,
    derived_table,
    floor_to_multiple,
    null_safe_equal,
    number,
    over,
    with_columns,
)
from windows.times import NEVER

_AT = "_at"


def by_stretch(operator: Operator, node: query.Window, network: Network, below: Flow) -> None:
    """At each row beyond the batch (of its key) the rows of the batch, at that row's ts and seq."""
    assert isinstance(node.extent, Tumbling)
    extent = node.extent
    raw = network.name("raw", node)
    keys = {f"_part{place}": key for place, key in enumerate(node.partition_by)}
    timed = below.arrivals.where(exp.Not(this=exp.Is(this=extent.of.copy(), expression=exp.null())))
    rows = timed.project({**row_columns(below, number(NEVER)), **keys, _AT: exp.cast(extent.of.copy(), "BIGINT")})
    add_table(operator, raw, rows.select())
    origin = number(extent.origin) if extent.origin is not None else _first(operator, node, network, rows, below)
    operator.steps.append(Insert(raw, rows.select()))
    states = _states(raw, list(keys), below, extent.size, origin)
    operator.purges.append(_purge(raw, states, list(keys), below))
    operator.result = _batches(states, list(keys), below)


def _first(operator: Operator, node: query.Window, network: Network, rows: Selection, below: Flow) -> exp.Expr:
    """The time of the first row (of the key of a row `r`), kept in a table of its own."""
    begun = network.name("begun", node)
    names = [_AT, *(name for name in rows.columns if name.startswith("_part"))]
    come = rows.select([*names, *below.key])
    place = over(exp.RowNumber(), map(column, names[1:]), map(column, below.key))
    numbered = with_columns(come, _first=place)
    first = exp.select(*(column_of("a", name) for name in names)).from_(derived_table(numbered, "a"))
    known = exp.select(number(1)).from_(aliased_table(begun, "b"))
    known = known.where(*(null_safe_equal(column_of("b", name), column_of("a", name)) for name in names[1:]))
    add_table(operator, begun, first)
    operator.steps.append(
        Insert(begun, first.where(column_of("a", "_first").eq(1), exp.Not(this=exp.Exists(this=known))))
    )
    found = exp.select(column_of("b", _AT)).from_(aliased_table(begun, "b"))
    return exp.Subquery(
        this=found.where(*(null_safe_equal(column_of("b", name), column_of("r", name)) for name in names[1:]))
    )


def _states(raw: str, keys: Sequence[str], below: Flow, size: int, origin: exp.Expr) -> exp.Select:
    """The rows kept, with the batch of each and of the row before it, and its number among those of the key."""

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


def _batches(states: exp.Select, keys: Sequence[str], below: Flow) -> Flow:
    """Each row that lies beyond a batch joined with the rows of the batch."""
    system = [aliased(column_of("t", name), name) for name in ("ts", "seq", "_expires")]
    order = [aliased(column_of("t", name), f"_t{name}") for name in below.order]
    rows = [column_of("r", name) for name in ("_number", *keys, *below.names)]
    of_the_batch: list[exp.Expr] = [exp.EQ(this=column_of("r", "_batch"), expression=column_of("t", "_before"))]
    of_the_batch += [null_safe_equal(column_of("r", key), column_of("t", key)) for key in keys]
    joined = (
        exp.select(*system, *order, aliased(column_of("t", "_batch"), "_jump"), *rows)
        .from_(derived_table(states.copy(), "t"))
        .join(derived_table(states.copy(), "r"), on=exp.and_(*of_the_batch))
        .where(exp.GT(this=column_of("t", "_batch"), expression=column_of("t", "_before")), arrived("t", below))
    )
    orders = (*(f"_t{name}" for name in below.order), "_number")
    names = ["ts", "seq", "_expires", *orders, "_jump", *keys, *below.names]
    found = Selection.of(exp.Subquery(this=joined), names)
    return Flow(below.names, found, order=orders, timed=below.timed, jumping=True, jump=("_jump", *keys))


def _purge(raw: str, states: exp.Select, keys: Sequence[str], below: Flow) -> Purge:
    """Rows of batches that are told: the one under way begins with a row that lies beyond them."""
    last = over(exp.Max(this=column("_batch")), map(column, keys), [])
    row = [column(key) for key in below.key]
    gone = exp.select(*(key.copy() for key in row))
    gone = gone.from_(derived_table(with_columns(states.copy(), _last=last), "s"))
    gone = gone.where(exp.LT(this=column("_batch"), expression=column("_last")))
    sought = exp.Tuple(expressions=row) if len(row) > 1 else row[0]
    return Purge(raw, exp.In(this=sought, query=exp.Subquery(this=gone)))
