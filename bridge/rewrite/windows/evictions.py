"""Windows whose evictions a step computes in Python: a table has each evicted row with the row that evicted it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

from sqlglot import exp

from bridge import query
from bridge.rewrite.computable import Evict, EvictedRows
from bridge.rewrite.flow import OUT, Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Operator, Purge
from bridge.rewrite.state_tables import add_table, indexed_by
from bridge.rewrite.windows.window import on_arrival, purge_of, window_table
from windows.databases import Database
from windows.sql import aliased, aliased_table, bigint_zero, column, column_of, derived_table, number
from windows.times import NEVER


def with_eviction_step(
    node: query.Window, network: Network, need: Need, values: Sequence[exp.Expr], evict: Evict, what: str
) -> Flow:
    """A window whose evictions `evict` computes.

    Args:
        values: the values of each row that `evict` needs, in addition to its identity and key.
        what: a description of the evicted rows, for `explain`.
    """

    def content(operator: Operator, arrivals: Flow) -> Flow:
        name, rows = window_table(
            operator, node, network, arrivals, lambda rows: indexed_by("seq", rows, network.database)
        )
        rows = _with_evictions(operator, rows, arrivals, node, network, values, evict, what)
        operator.purges.append(purge_evicted(name, rows, arrivals))
        return dataclasses.replace(arrivals, content=rows, counted=True)

    return on_arrival(node, network, need, content)


def purge_evicted(name: str, content: Selection, flow: Flow) -> Purge:
    """A purge of a window table's evicted rows."""
    return purge_of(name, content.where(exp.LT(this=column("_out"), expression=number(NEVER))), flow.key)


def _with_evictions(
    operator: Operator,
    content: Selection,
    flow: Flow,
    node: query.Window,
    network: Network,
    values: Sequence[exp.Expr],
    evict: Evict,
    what: str,
) -> Selection:
    """The rows with the row that evicted each, which an `EvictionStep` writes into a table."""
    outs = network.name("outs", node)
    identity = ("ts", "seq", *flow.order)
    shape = exp.select(*(aliased(bigint_zero(), name) for name in (*identity, *OUT)))
    add_table(operator, outs, shape, (("seq",),))
    same_row = exp.and_(*(exp.EQ(this=column_of("o", name), expression=column_of("w", name)) for name in identity))
    rows = exp.select(*(column_of("w", name) for name in content.columns)).from_(content.item("w"))
    rows = rows.join(aliased_table(outs, "o"), on=same_row, join_type="left")
    evictor = [exp.Coalesce(this=column_of("o", name), expressions=[number(NEVER)]) for name in OUT]
    rows = rows.select(*(aliased(value, name) for value, name in zip(evictor, OUT, strict=True)))
    if not flow.order and isinstance(content.source, exp.Table):
        rows = EvictedRows(tuple(node.partition_by), tuple(values), evict).of(rows)
    needed = (aliased(value.copy(), f"_e{at}") for at, value in enumerate([*node.partition_by, *values]))
    inside = exp.EQ(this=column(OUT[1]), expression=number(NEVER))
    present = exp.select(*map(column, identity), *needed).from_(derived_table(rows, "q"))
    present = present.where(inside).order_by(*map(column, identity))
    text, quoted = network.database.render(present), network.database.quoted(outs)
    operator.steps.append(EvictionStep(outs, text, quoted, len(identity), len(node.partition_by), evict, what))
    own = [exp.EQ(this=column_of("w", name), expression=column_of(outs, name)) for name in identity]
    kept = exp.select(number(1)).from_(content.item("w")).where(*own)
    operator.purges.append(Purge(outs, exp.Not(this=exp.Exists(this=kept))))
    return Selection.of(exp.Subquery(this=rows), [*content.columns, *OUT])


@dataclasses.dataclass
class EvictionStep:
    """A step that notes the rows of a window that this push evicts, each with the row whose arrival evicts it.

    It reads all rows of the window, so it remembers nothing between pushes. A row of the statement `present` has
    `identity` columns, `keys` columns, and the values that `evict` needs.
    """

    table: str
    present: str
    outs: str
    identity: int
    keys: int
    evict: Evict
    what: str
    is_unfailing: ClassVar[bool] = True

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Writes the evictions of this push."""
        split, end = self.identity, self.identity + self.keys
        rows = ((row[:split], row[split:end], row[end:]) for row in database.fetch(self.present))
        evicted = [(*row, *[*by, NEVER][: len(OUT)]) for row, by in self.evict(rows)]
        if evicted:
            database.insert(self.outs, self.identity + len(OUT), evicted)

    def forget(self) -> None:
        """Does nothing, as nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement whose rows the step reads."""
        return f"-- of these rows, those {self.what} go to {self.outs}\n{pretty(self.present)};"
