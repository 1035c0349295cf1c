"""Periodic reports of a window's content (output snapshot): a table of report times, joined with the rows at each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge import query
from bridge.query.epl_columns import OF_EVENT
from bridge.query.epl_output import Snapshot
from bridge.rewrite.aggregates.frames import aggregate_calls, group_columns
from bridge.rewrite.aggregates.on_change import at_points
from bridge.rewrite.flow import Boundaries, Flow, Need, Selection, not_later, valid
from bridge.rewrite.network import Network, derived_content, rewrite
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.state_tables import CLOCK, add_table, arrived
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

_REPORT = ("ts", "seq", "_expires")
"""The columns of a report: when it is due, and until when it is valid."""


@rewrite.register
def _(node: Snapshot, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        operator.result = content_at_reports(node, network, order_of(node.input))
        operator.boundaries = operator.result.boundaries

    return network.give(network.operator(node, build, "Snapshot"), node, need)


def content_at_reports(node: Snapshot, network: Network, order: Sequence[exp.Ordered] = ()) -> Flow:
    """At each report `t` the rows `w` of the window, in this order, then in the order of their arrival."""
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
        **{name: column_of("t", name) for name in _REPORT},
        "_place": place,
        "_jump": column_of("t", "seq"),
        **{name: content.value(column(name), "w") for name in below.names},
    }
    inside = [not_later("w", "t", (), timed=True), *valid("w", "t", below, timed=True), *content.conditions_of("w")]
    joined = exp.select(*(aliased(value, name) for name, value in columns.items()))
    times = _report_times(node, network)
    joined = joined.from_(_reports(times)).join(content.item("w"), on=exp.and_(*inside))
    rows = Selection.of(exp.Subquery(this=joined), columns)
    jump = ("_jump",) if node.time is None else ()
    return Flow(below.names, rows, order=("_place",), timed=True, jumping=True, jump=jump, boundaries=times.boundaries)


@derived_content.register
def _(node: Snapshot, flow: Flow) -> Flow:
    """A report after every n rows is valid until the next one; a report by time expires."""
    return flow if node.time is not None else replaced_by_next(flow)


# Aggregates -----------------------------------------------------------------------------------------------------------


def reports_empty(node: query.Aggregate) -> bool:
    """Whether an aggregate over a snapshot is reported even if the window, or a group, is empty."""
    return isinstance(node.input, Snapshot) and (node.input.all_groups or not node.group_by)


def at_reports(operator: Operator, node: query.Aggregate, network: Network) -> exp.Select:
    """The aggregate at each report: of all rows, or of every group that has occurred by then."""
    assert isinstance(node.input, Snapshot)
    below = network.rewrite(node.input.input, Need.CONTENT)
    reports = exp.select(*(column_of("t", name) for name in _REPORT))
    reports = reports.from_(_reports(_report_times(node.input, network)))
    if not node.group_by:
        return at_points(node, below, reports.select(aliased(bigint_zero(), "_age")))
    groups = _groups(operator, node, network, below)
    keys = [column_of("g", f"_key{place}") for place in range(len(node.group_by))]
    known = not_later("g", "t", (), timed=True)
    reports = reports.select(*keys, column_of("g", "_age")).join(aliased_table(groups, "g"), on=known)
    return at_points(node, below, reports)


def _groups(operator: Operator, node: query.Aggregate, network: Network, below: Flow) -> str:
    """The table of the groups that have occurred, each with the ts and seq of its first row."""
    known = network.name("groups", node)
    keys = group_columns(node)
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


# Reports --------------------------------------------------------------------------------------------------------------


def _reports(times: Operator) -> exp.Expr:
    """The reports `t` that are due with this push."""
    return aliased_table(times.inboxes[0], "t")


def _report_times(node: Snapshot, network: Network) -> Operator:
    """The INSERT of the reports that are due with each push."""

    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        name = network.name("moments", node)
        add_table(operator, name, exp.select(*(aliased(bigint_zero(), column) for column in _REPORT)))
        operator.inboxes.append(name)
        make = _by_count if node.time is None else _by_time
        make(operator, node, network, below, name)

    key = ("Moments", node.input, node.time, node.count)
    return network.operator(node, build, "Moments", key=key)


def _by_time(operator: Operator, node: Snapshot, network: Network, below: Flow, name: str) -> None:
    assert node.time is not None
    first = first_time(operator, node, network, below)
    since = exp.select(aliased(first, "first"), column("before")).from_(table(CLOCK))
    text, quoted = network.database.render(since), network.database.quoted(name)
    operator.steps.append(PeriodicReports(name, text, quoted, node.time))
    begun = first.find(exp.Table)
    assert begun is not None
    operator.boundaries = Boundaries(name, node.time, None, begun.name)


def _by_count(operator: Operator, node: Snapshot, network: Network, below: Flow, name: str) -> None:
    raw = network.name("raw", node)
    number_rows(operator, raw, below, {}, 1)
    last = exp.Mod(this=column_of("r", "_number"), expression=number(node.count or 1)).eq(0)
    rows = exp.select(column_of("r", "ts"), column_of("r", "seq"), aliased(number(NEVER), "_expires"))
    operator.steps.append(Insert(name, rows.from_(aliased_table(raw, "r")).where(last, arrived("r", below)).distinct()))


@dataclasses.dataclass
class PeriodicReports:
    """A step that writes the report times of this push: every `every` milliseconds since the first row.

    The statement `since` gives the timestamp of the first row, and the newest time before the push.
    """

    table: str
    since: str
    quoted: str
    every: int

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Inserts the times since the previous push."""
        ((first, before),) = database.fetch(self.since)
        if first is not None:
            start = max(before - first, 0) // self.every + 1
            times = range(first + start * self.every, now + 1, self.every)
            if times:
                database.insert(self.quoted, len(_REPORT), [(time, 0, time + self.every) for time in times])

    def next_deadline(self, database: Database, now: int) -> int | None:
        """The next report time."""
        ((first, _),) = database.fetch(self.since)
        return None if first is None else int(first + (max(now - first, 0) // self.every + 1) * self.every)

    def forget(self) -> None:
        """Does nothing, as nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement that gives the first row's timestamp."""
        return (
            f"-- every {self.every} ms since this, the times that have come go to {self.quoted}\n{pretty(self.since)};"
        )


# The content of a query that has values of single events beside aggregates


def is_per_event(node: query.Aggregate) -> bool:
    """Whether an aggregate reports values of single events beside aggregates."""
    return any(call.meta_get(OF_EVENT) is not None for call in aggregate_calls(node))


def with_totals(node: query.Aggregate, below: Flow, totals_of: Callable[[query.Aggregate], Flow]) -> Flow:
    """Each row of the content with the aggregates of its group. `totals_of` gives one row per group, with its keys."""
    calls = dict.fromkeys(call for call in aggregate_calls(node) if call.meta_get(OF_EVENT) is None)
    names = {call: f"_a{place}" for place, call in enumerate(calls)}
    listed = [exp.alias_(call.copy(), name, quoted=True) for call, name in names.items()]
    listed = listed or [exp.alias_(exp.Count(this=exp.Star()), "_a0", quoted=True)]
    totals = totals_of(dataclasses.replace(node, columns=tuple(listed), having=None))
    keys = [f"_key{place}" for place in range(len(node.group_by))]
    rows = below.arrivals
    inner = rows.select(dict.fromkeys([*_REPORT, *below.order]))
    inner = inner.select(*(aliased(rows.value(key), name) for key, name in zip(node.group_by, keys, strict=True)))
    inner = inner.select(*(aliased(rows.columns[name].copy(), f"_in_{name}") for name in below.names))
    groups = totals.arrivals.select([*keys, *names.values()] or ["ts"])
    known = {name: column_of("r", f"_in_{name}") for name in below.names} | {"ts": column_of("r", "ts")}
    known |= {name: column_of("g", name) for name in names.values()}

    def of_row(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Last) and part.meta_get(OF_EVENT) is not None:
            value: exp.Expr = part.this.copy()
            return value
        return column(names[part]) if part in names else part

    system = [column_of("r", name) for name in _REPORT]
    place = row_number([], [column_of("r", name) for name in ("ts", "seq", *below.order)])
    same = [null_safe_equal(column_of("r", name), column_of("g", name)) for name in keys]
    select = exp.select(*system, aliased(place, "_place")).from_(derived_table(inner, "r"))
    select = select.join(derived_table(groups, "g"), on=exp.and_(*same) if same else exp.true())
    values = [(item.alias, Selection(exp.null(), known).value(item.this.transform(of_row))) for item in node.columns]
    select = select.select(*(aliased(value, name) for name, value in values))
    shown = tuple(name for name, _ in values)
    return Flow(shown, Selection.of(exp.Subquery(this=select), [*_REPORT, "_place", *shown]), order=("_place",))
