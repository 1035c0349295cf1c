"""Batch windows (W6): from a row that starts a batch to the next later one that stops it, told at that row.

Whether a batch is open after a row is found without going from row to row. A row that only starts leaves it open, a row
that only stops leaves it closed, whatever was before; a row that does both changes it; any other leaves it as it is. So
it is given by the last row of the first two kinds, and by whether the rows since that change it are odd in number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Selection
from bridge.rewrite.network import Network, add_table, arrived, row_columns
from bridge.rewrite.plan import Insert, Operator, Purge
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


def by_condition(operator: Operator, node: query.Window, network: Network, below: Flow) -> None:
    """At each row that closes a batch (of its key) the rows of the batch, at that row's ts and seq."""
    assert isinstance(node.extent, Batch)
    raw = network.name("raw", node)
    keys = {f"_part{place}": key for place, key in enumerate(node.partition_by)}
    flags = {"_starts": _flag(node.extent.start), "_stops": _flag(node.extent.stop)}
    rows = below.arrivals.project({**row_columns(below, number(NEVER)), **keys, **flags}).select()
    add_table(operator, raw, rows)
    operator.steps.append(Insert(raw, rows))
    every = _states(exp.select("*").from_(table(raw)), list(keys), below)
    operator.purges.append(_purge(raw, every, list(keys), below))
    operator.result = _batches(_states(_stopped(raw, rows, list(keys)), list(keys), below), keys, below)


def _stopped(raw: str, rows: exp.Select, keys: Sequence[str]) -> exp.Select:
    """The rows kept of the keys for which an arrival stops a batch: of others nothing is told, and none need be read."""
    names: list[exp.Expr] = [column_of("a", key) for key in keys] or [aliased(number(1), "_stopped")]
    stopping = (
        exp.select(*names).distinct().from_(derived_table(rows.copy(), "a")).where(column_of("a", "_stops").eq(1))
    )
    alike = [null_safe_equal(column_of("w", key), column_of("a", key)) for key in keys]
    kept = exp.select(exp.Column(this=exp.Star(), table=identifier("w"))).from_(derived_table(stopping, "a"))
    kept = kept.join(aliased_table(raw, "w"), on=exp.and_(*alike) if alike else exp.true())
    kept.args["joins"][-1].meta[NESTED_LOOP] = True
    return kept


def _flag(condition: exp.Expr) -> exp.Expr:
    return _one_if(condition.copy())


def _one_if(condition: exp.Expr) -> exp.Expr:
    return exp.Case().when(condition, number(1)).else_(number(0))


def _states(kept: exp.Select, keys: Sequence[str], below: Flow) -> exp.Select:
    """These rows, with whether a batch is open before and after each, and its number among those of the key."""
    order = list(below.key)

    def running(function: exp.Expr, *more: str) -> exp.Expr:
        return over(function, map(column, (*keys, *more)), map(column, order))

    starts, stops = column("_starts"), column("_stops")
    settles = _one_if(exp.NEQ(this=starts, expression=stops))
    numbered = with_columns(
        kept,
        _number=running(exp.RowNumber()),
        _segment=exp.cast(running(exp.Sum(this=settles)), "BIGINT"),
    )
    settled = over(
        exp.Max(this=exp.Mul(this=settles.copy(), expression=starts.copy())), map(column, (*keys, "_segment")), []
    )
    changes = running(exp.Sum(this=exp.Mul(this=starts.copy(), expression=stops.copy())), "_segment")
    after = exp.Mod(this=exp.paren(exp.Add(this=settled, expression=changes)), expression=number(2))
    opened = with_columns(numbered, _open=exp.cast(after, "BIGINT"))
    before = running(exp.Lag(this=column("_open"), offset=number(1), default=number(0)))
    both = with_columns(opened, _before=before)
    opens = exp.and_(column("_before").eq(0), column("_starts").eq(1))
    return with_columns(both, _batch=exp.cast(running(exp.Sum(this=_one_if(opens))), "BIGINT"))


def _batches(states: exp.Select, keys: Mapping[str, exp.Expr], below: Flow) -> Flow:
    """Each row that closes a batch joined with the rows of the batch."""
    system = [aliased(column_of("t", name), name) for name in ("ts", "seq", "_expires")]
    order = [aliased(column_of("t", name), f"_t{name}") for name in below.order]
    rows = [column_of("r", name) for name in ("_number", *keys, *below.names)]
    inside = exp.or_(column_of("r", "_before").eq(1), column_of("r", "_starts").eq(1))
    of_the_batch: list[exp.Expr] = [exp.EQ(this=column_of("r", "_batch"), expression=column_of("t", "_batch")), inside]
    of_the_batch += [null_safe_equal(column_of("r", key), column_of("t", key)) for key in keys]
    joined = (
        exp.select(*system, *order, aliased(column_of("t", "_batch"), "_jump"), *rows)
        .from_(derived_table(states.copy(), "t"))
        .join(derived_table(states.copy(), "r"), on=exp.and_(*of_the_batch))
        .where(column_of("t", "_before").eq(1), column_of("t", "_stops").eq(1), arrived("t", below))
    )
    orders = (*(f"_t{name}" for name in below.order), "_number")
    names = ["ts", "seq", "_expires", *orders, "_jump", *keys, *below.names]
    return Flow(
        below.names,
        Selection.of(exp.Subquery(this=joined), names),
        order=orders,
        timed=below.timed,
        jumping=True,
        jump=("_jump", *keys),
    )


def _purge(raw: str, states: exp.Select, keys: Sequence[str], below: Flow) -> Purge:
    """Rows up to the last after which no batch of their key is open: from there on it is as if nothing had been."""
    closed = exp.Case().when(column("_open").eq(0), column("_number"))
    last = over(exp.Max(this=closed), map(column, keys), [])
    told = with_columns(states.copy(), _last=last)
    row = [column(key) for key in below.key]
    gone = exp.select(*(key.copy() for key in row)).from_(derived_table(told, "s"))
    gone = gone.where(exp.LTE(this=column("_number"), expression=column("_last")))
    sought = exp.Tuple(expressions=row) if len(row) > 1 else row[0]
    return Purge(raw, exp.In(this=sought, query=exp.Subquery(this=gone)))
