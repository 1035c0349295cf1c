"""What a window holds, told every so often: moments that a step writes down, each joined with the rows that are in it then."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge import query
from bridge.query.epl_output import Snapshot
from bridge.rewrite.aggregates.frames import keys_of
from bridge.rewrite.aggregates.on_change import told_at
from bridge.rewrite.flow import Flow, Need, Selection, not_later, valid
from bridge.rewrite.network import CLOCK, Network, add_table, arrived, derived_content, rewrite
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.windows.jumps import first_time, number_rows, replaced_by_next
from bridge.rewrite.windows.top import order_of
from windows.databases import Database
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    derived_table,
    null_safe_equal,
    number,
    row_number,
    sortable_text,
    table,
)
from windows.times import NEVER

MOMENT = ("ts", "seq", "_expires")


@rewrite.register
def _(node: Snapshot, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        operator.result = held(node, network, order_of(node.input))

    return network.give(network.operator(node, build, "Snapshot"), node, need)


def held(node: Snapshot, network: Network, order: Sequence[exp.Ordered] = ()) -> Flow:
    """At each moment `t` the rows `w` of the window, in an order, and else in that in which they came."""
    below = network.rewrite(node.input, Need.CONTENT)
    assert below.content is not None
    content = below.content
    place = row_number(
        [column_of("t", "ts"), column_of("t", "seq")], [column_of("w", name) for name in ("ts", "seq", *below.order)]
    )
    terms = [term.copy() for term in order]
    for term in terms:
        term.set("this", content.value(term.this, "w"))
    place.set("order", exp.Order(expressions=[*terms, *place.args["order"].expressions]))
    columns = {
        **{name: column_of("t", name) for name in MOMENT},
        "_place": place,
        "_jump": column_of("t", "seq"),
        **{name: content.value(column(name), "w") for name in below.names},
    }
    inside = [not_later("w", "t", (), timed=True), *valid("w", "t", below, timed=True), *content.conditions_of("w")]
    held = exp.select(*(aliased(value, name) for name, value in columns.items()))
    held = held.from_(_moments(node, network).as_("t", quoted=True)).join(content.item("w"), on=exp.and_(*inside))
    rows = Selection.of(exp.Subquery(this=held), columns)
    jump = ("_jump",) if node.time is None else ()
    return Flow(below.names, rows, order=("_place",), timed=True, jumping=True, jump=jump)


@derived_content.register
def _(node: Snapshot, flow: Flow) -> Flow:
    """What is told after so many rows is replaced by what is told next."""
    return flow if node.time is not None else replaced_by_next(flow)


# Aggregates -----------------------------------------------------------------------------------------------------------


def told_anyway(node: query.Aggregate) -> bool:
    """Whether an aggregate over a snapshot is told although nothing may be in the window, or nothing of a group."""
    return isinstance(node.input, Snapshot) and (node.input.all_groups or not node.group_by)


def at_moments(operator: Operator, node: query.Aggregate, network: Network) -> exp.Select:
    """The aggregate at each moment: of all rows, or of every group that has been by then."""
    assert isinstance(node.input, Snapshot)
    below = network.rewrite(node.input.input, Need.CONTENT)
    moments = exp.select(*(column_of("t", name) for name in MOMENT)).from_(
        _moments(node.input, network).as_("t", quoted=True)
    )
    if not node.group_by:
        return told_at(node, below, network, moments.select(aliased(bigint_zero(), "_age")))
    groups = _groups(operator, node, network, below)
    keys = [column_of("g", f"_key{place}") for place in range(len(node.group_by))]
    come = not_later("g", "t", (), timed=True)
    return told_at(
        node, below, network, moments.select(*keys, column_of("g", "_age")).join(aliased_table(groups, "g"), on=come)
    )


def _groups(operator: Operator, node: query.Aggregate, network: Network, below: Flow) -> str:
    """A table of the groups there have been, each with its first row's moment."""
    known = network.name("groups", node)
    keys = keys_of(node)
    order = [column(name) for name in ("ts", "seq", *below.order)]
    own = {"ts": column("ts"), "seq": column("seq"), **keys}
    rows = below.arrivals.project({**own, "_age": sortable_text(order), "_n": row_number(keys.values(), order)})
    new = exp.select(*(column_of("a", name) for name in (*own, "_age")))
    new = new.from_(derived_table(rows.select(), "a"))
    add_table(operator, known, new)
    there = (
        exp.select(number(1))
        .from_(aliased_table(known, "g"))
        .where(*(null_safe_equal(column_of("g", key), column_of("a", key)) for key in keys))
    )
    first = exp.EQ(this=column_of("a", "_n"), expression=number(1))
    operator.steps.append(Insert(known, new.where(first, exp.Not(this=exp.Exists(this=there)))))
    return known


# Moments --------------------------------------------------------------------------------------------------------------


def _moments(node: Snapshot, network: Network) -> exp.Table:
    """The table of the moments of this push."""

    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        name = network.name("moments", node)
        add_table(operator, name, exp.select(*(aliased(bigint_zero(), column) for column in MOMENT)))
        operator.inboxes.append(name)
        make = _by_count if node.time is None else _by_time
        make(operator, node, network, below, name)

    key = ("Moments", node.input, node.time, node.count)
    return table(network.operator(node, build, "Moments", key=key).inboxes[0])


def _by_time(operator: Operator, node: Snapshot, network: Network, below: Flow, name: str) -> None:
    assert node.time is not None
    first = aliased(first_time(operator, node, network, below), "first")
    asked = exp.select(first, column("before")).from_(table(CLOCK))
    text, quoted = network.database.render(asked), network.database.quoted(name)
    operator.steps.append(Ticking(name, text, quoted, node.time))


def _by_count(operator: Operator, node: Snapshot, network: Network, below: Flow, name: str) -> None:
    raw = network.name("raw", node)
    number_rows(operator, raw, below, {}, 1)
    last = exp.Mod(this=column_of("r", "_number"), expression=number(node.count or 1)).eq(0)
    rows = exp.select(column_of("r", "ts"), column_of("r", "seq"), aliased(number(NEVER), "_expires"))
    operator.steps.append(Insert(name, rows.from_(aliased_table(raw, "r")).where(last, arrived("r", below)).distinct()))


@dataclasses.dataclass
class Ticking:
    """A step: the times that have come, `every` so many milliseconds since the first row."""

    table: str
    asked: str
    ticks: str
    every: int

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Note the times since the push before."""
        ((first, before),) = database.fetch(self.asked)
        if first is not None:
            start = max(before - first, 0) // self.every + 1
            times = range(first + start * self.every, now + 1, self.every)
            if times:
                database.insert(self.ticks, len(MOMENT), [(time, 0, time + self.every) for time in times])

    def forget(self) -> None:
        """Nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement that says since when."""
        return (
            f"-- every {self.every} ms since this, the times that have come go to {self.ticks}\n{pretty(self.asked)};"
        )
