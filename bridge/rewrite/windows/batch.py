"""Batches between two conditions (W6): from a row that starts a batch to the next later one that stops it.

Whether a batch is open after a row is computed without going from row to row. A row that only starts leaves it open, a
row that only stops leaves it closed, whatever was before; a row that does both toggles it; any other row changes
nothing. So it depends on the last row of the first two kinds, and on whether the number of toggling rows since then is
odd.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.state_tables import add_table, row_columns
from bridge.rewrite.windows.jumps import content_at_jumps
from bridge.rewrite.windows.window import as_operator, in_rows, key_columns, rewrite_window
from windows.databases.base import NESTED_LOOP
from windows.extents import Batch
from windows.sql import (
    aliased,
    aliased_table,
    column,
    column_of,
    derived_table,
    identifier,
    null_safe_equal,
    number,
    over,
    table,
    with_columns,
)
from windows.times import NEVER


@rewrite_window.register
def _(extent: Batch, node: query.Window, network: Network, need: Need) -> Flow:
    return as_operator(node, network, need, _at_stops)


def _at_stops(operator: Operator, node: query.Window, network: Network, below: Flow) -> Flow:
    """At each row that closes a batch (of its key): the rows of the batch, with that row's ts and seq."""
    assert isinstance(node.extent, Batch)
    raw, keys = network.name("raw", node), key_columns(node)
    flags = {"_starts": _one_if(node.extent.start.copy()), "_stops": _one_if(node.extent.stop.copy())}
    rows = below.arrivals.project({**row_columns(below, number(NEVER)), **keys, **flags}).select()
    add_table(operator, raw, rows)
    operator.steps.append(Insert(raw, rows))
    every = _with_batches(exp.select("*").from_(table(raw)), list(keys), below)
    operator.purges.append(_purge(raw, every, list(keys), below))
    states = _with_batches(_stopping(raw, rows, list(keys)), list(keys), below)
    inside = exp.or_(column_of("r", "_before").eq(1), column_of("r", "_starts").eq(1))
    same_batch = exp.EQ(this=column_of("r", "_batch"), expression=column_of("t", "_batch"))
    closes = [column_of("t", "_before").eq(1), column_of("t", "_stops").eq(1)]
    jumps, rows_of = derived_table(states.copy(), "t"), derived_table(states.copy(), "r")
    return content_at_jumps(below, list(keys), jumps, rows_of, "_batch", [same_batch, inside], closes)


def _stopping(raw: str, rows: exp.Select, keys: Sequence[str]) -> exp.Select:
    """The stored rows of the keys for which an arrival stops a batch; rows of other keys need not be read."""
    names: list[exp.Expr] = [column_of("a", key) for key in keys] or [aliased(number(1), "_stopped")]
    stopping = (
        exp.select(*names).distinct().from_(derived_table(rows.copy(), "a")).where(column_of("a", "_stops").eq(1))
    )
    same_key = [null_safe_equal(column_of("w", key), column_of("a", key)) for key in keys]
    kept = exp.select(exp.Column(this=exp.Star(), table=identifier("w"))).from_(derived_table(stopping, "a"))
    kept = kept.join(aliased_table(raw, "w"), on=exp.and_(*same_key) if same_key else exp.true())
    kept.args["joins"][-1].meta[NESTED_LOOP] = True
    return kept


def _one_if(condition: exp.Expr) -> exp.Expr:
    return exp.Case().when(condition, number(1)).else_(number(0))


def _with_batches(rows: exp.Select, keys: Sequence[str], below: Flow) -> exp.Select:
    """The rows, each with whether a batch is open before and after it, and the number of the batch within the key."""
    order = list(below.key)

    def running(function: exp.Expr, *more: str) -> exp.Expr:
        return over(function, map(column, (*keys, *more)), map(column, order))

    starts, stops = column("_starts"), column("_stops")
    settles = _one_if(exp.NEQ(this=starts, expression=stops))
    numbered = with_columns(
        rows, _number=running(exp.RowNumber()), _segment=exp.cast(running(exp.Sum(this=settles)), "BIGINT")
    )
    settled = over(
        exp.Max(this=exp.Mul(this=settles.copy(), expression=starts.copy())), map(column, (*keys, "_segment")), []
    )
    toggles = running(exp.Sum(this=exp.Mul(this=starts.copy(), expression=stops.copy())), "_segment")
    after = exp.Mod(this=exp.paren(exp.Add(this=settled, expression=toggles)), expression=number(2))
    opened = with_columns(numbered, _open=exp.cast(after, "BIGINT"))
    before = running(exp.Lag(this=column("_open"), offset=number(1), default=number(0)))
    both = with_columns(opened, _before=before)
    opens = exp.and_(column("_before").eq(0), column("_starts").eq(1))
    return with_columns(both, _batch=exp.cast(running(exp.Sum(this=_one_if(opens))), "BIGINT"))


def _purge(raw: str, states: exp.Select, keys: Sequence[str], below: Flow) -> Purge:
    """A purge of the rows up to their key's last row after which no batch is open: they are no longer needed."""
    closed = exp.Case().when(column("_open").eq(0), column("_number"))
    last = over(exp.Max(this=closed), map(column, keys), [])
    old = exp.select(*map(column, below.key)).from_(derived_table(with_columns(states.copy(), _last=last), "s"))
    old = old.where(exp.LTE(this=column("_number"), expression=column("_last")))
    return Purge(raw, in_rows(below.key, old))
