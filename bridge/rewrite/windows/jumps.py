"""The common part of windows that jump (W3, W6, W11): the content at each jump, and its replacement by the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp

from bridge import query
from bridge.query.nodes import Node
from bridge.rewrite.flow import OUT, Flow, Selection
from bridge.rewrite.network import Network, derived_content
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.state_tables import add_table, arrived, row_columns
from bridge.rewrite.windows.window import in_rows
from windows.sql import aliased, aliased_table, column, column_of, derived_table, null_safe_equal, number, over, table
from windows.times import NEVER


def content_at_jumps(
    below: Flow,
    keys: Sequence[str],
    jumps: exp.Expr,
    rows: exp.Expr,
    jump_number: str,
    inside: Sequence[exp.Expr],
    where: Sequence[exp.Expr],
) -> Flow:
    """The flow of the rows that enter at each jump, with the timestamp and number of the row that causes the jump.

    Args:
        jumps: the rows that may cause a jump, as an item of FROM with the alias `t`.
        rows: the rows that may enter, each with its `_number`, as an item of FROM with the alias `r`.
        jump_number: the column of `t` that distinguishes the jumps of a key.
        inside: conditions under which a row `r` is in the content at `t`, apart from equal keys.
        where: conditions under which a row `t` causes a jump.
    """
    system = [aliased(column_of("t", name), name) for name in ("ts", "seq", "_expires")]
    order = [aliased(column_of("t", name), f"_t{name}") for name in below.order]
    own = [column_of("r", name) for name in ("_number", *keys, *below.names)]
    same_key = (null_safe_equal(column_of("r", key), column_of("t", key)) for key in keys)
    joined = (
        exp.select(*system, *order, aliased(column_of("t", jump_number), "_jump"), *own)
        .from_(jumps)
        .join(rows, on=exp.and_(*inside, *same_key))
        .where(*where, arrived("t", below))
    )
    orders = (*(f"_t{name}" for name in below.order), "_number")
    names = ["ts", "seq", "_expires", *orders, "_jump", *keys, *below.names]
    content = Selection.of(exp.Subquery(this=joined), names)
    return Flow(below.names, content, order=orders, timed=below.timed, jumping=True, jump=("_jump", *keys))


def number_rows(operator: Operator, name: str, below: Flow, keys: Mapping[str, exp.Expr], count: int) -> None:
    """Adds a table of the last `count` rows of each key, with their `_number` in the stream, counted from 1 per key."""
    rows = below.arrivals.project({**row_columns(below, number(NEVER)), **keys})
    newest = exp.select(exp.Max(this=column_of("p", "_number"))).from_(aliased_table(name, "p"))
    newest = newest.where(*(null_safe_equal(column_of("p", key), column_of("a", key)) for key in keys))
    place = over(exp.RowNumber(), (column_of("a", key) for key in keys), (column_of("a", each) for each in below.key))
    total = exp.Add(this=exp.Coalesce(this=exp.Subquery(this=newest), expressions=[number(0)]), expression=place)
    source = exp.alias_(exp.Subquery(this=rows.select()), "a", table=True, quoted=True)
    columns = [column_of("a", each) for each in rows.columns]
    select = exp.select(*columns, aliased(total, "_number")).from_(source)
    add_table(operator, name, exp.select(*columns, aliased(place.copy(), "_number")).from_(source.copy()))
    operator.steps.append(Insert(name, select))
    latest = over(exp.Max(this=column("_number")), map(column, keys), [])
    age = exp.Sub(this=latest, expression=column("_number"))
    aged = exp.select(*map(column, below.key), aliased(age, "_age")).from_(table(name))
    old = exp.select(*map(column, below.key)).from_(derived_table(aged, "q"))
    old = old.where(exp.GTE(this=column("_age"), expression=number(count)))
    operator.purges.append(Purge(name, in_rows(below.key, old)))


def first_time(operator: Operator, node: Node, network: Network, below: Flow) -> exp.Expr:
    """The timestamp of the first row, which is stored in a table of its own."""
    begun = network.name("begun", node)
    first = exp.select(aliased(exp.Min(this=column("ts")), "ts"))
    first = first.from_(derived_table(below.arrivals.select(["ts"]), "a"))
    known = exp.Exists(this=exp.select(number(1)).from_(table(begun)))
    add_table(operator, begun, first)
    new = exp.Not(this=exp.Is(this=exp.Min(this=column("ts")), expression=exp.null()))
    operator.steps.append(Insert(begun, first.where(exp.Not(this=known)).having(new)))
    return exp.Subquery(this=exp.select(column("ts")).from_(table(begun)))


@derived_content.register
def _(node: query.Window, flow: Flow) -> Flow:
    """The content of a jumping window per key is replaced at the next jump of its key."""
    return replaced_by_next(flow) if node.extent.jumps and node.extent.holds_per_key else flow


def replaced_by_next(flow: Flow) -> Flow:
    """The flow with the event that evicts each row of its content: the event of the key's next jump."""
    assert flow.content is not None
    keys = [name for name in flow.jump if name != "_jump"]
    jump = [column(name) for name in ("ts", "seq", *flow.jump)]
    first = aliased(exp.Min(this=column("_place")), "_place")
    jumps = exp.select(*jump, first).from_(flow.content.source.copy()).group_by(*(name.copy() for name in jump))

    def of_next(name: str) -> exp.Expr:
        lead = exp.Lead(this=column(name), offset=number(1), default=number(NEVER))
        return over(lead, map(column, keys), map(column, ("ts", "seq", "_jump")))

    outs = [aliased(of_next(name), out) for name, out in zip(("ts", "seq", "_place"), OUT, strict=True)]
    evicting = exp.select(*jump, *outs).from_(derived_table(jumps, "e"))
    same_jump = exp.and_(
        *(null_safe_equal(column_of("o", name), column_of("c", name)) for name in ("ts", "seq", *flow.jump))
    )
    columns = [column_of("c", name) for name in flow.content.columns]
    select = (
        exp.select(*columns, *(column_of("o", name) for name in OUT))
        .from_(exp.alias_(flow.content.source.copy(), "c", table=True, quoted=True))
        .join(derived_table(evicting, "o"), on=same_jump)
    )
    content = Selection.of(exp.Subquery(this=select), [*flow.content.columns, *OUT])
    return dataclasses.replace(flow, content=content, counted=True, last=None)
