"""Aggregates (O2): for each arriving row, over the rows of its group that are in the window as of that row.

Several methods give the same rows; an aggregate has the fastest variants for each kind of push. The join of arrivals
`t` with the window's rows `w` is right for every window. Where rows expire in the order of their arrival, window frames
compute all results in one pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge import query
from bridge.query.epl_output import Snapshot
from bridge.rewrite.aggregates import stretches
from bridge.rewrite.aggregates.change_points import EvictionPoints, ExpiryPoints, change_points_of, sees_null_rows
from bridge.rewrite.aggregates.constant_frames import over_constant_frames
from bridge.rewrite.aggregates.counts import by_list, by_places, by_row_numbers, by_sorted_array, only_counts_rows
from bridge.rewrite.aggregates.distinct_counts import over_distinct_counts
from bridge.rewrite.aggregates.frames import (
    aggregate_calls,
    group_columns,
    is_cumulative,
    over_frames,
    reads_last_rows,
    rows_by_index,
)
from bridge.rewrite.aggregates.join import GroupedJoin, null_without_row, per_jump
from bridge.rewrite.aggregates.jump_panes import over_panes
from bridge.rewrite.aggregates.on_change import LEAVING, ExitReports, at_every_change, change_points
from bridge.rewrite.aggregates.panes import Panes
from bridge.rewrite.aggregates.partials import can_move
from bridge.rewrite.aggregates.snapshot import at_reports, content_at_reports, reports_empty
from bridge.rewrite.aggregates.totals import Totals
from bridge.rewrite.flow import FROM, Flow, Need, Selection, not_later, valid
from bridge.rewrite.network import Network, derived_content, rewrite
from bridge.rewrite.plan import Operator
from bridge.rewrite.stateless import as_inserted
from bridge.rewrite.variants import StatementWriter, Variants
from bridge.rewrite.windows.expiry import expires_in_push, next_expiry
from bridge.rewrite.windows.row_count import with_evictions
from windows.databases.base import NESTED_LOOP, Database
from windows.extents import Range
from windows.sql import (
    add_join,
    aliased,
    bigint_zero,
    column,
    column_of,
    derived_table,
    null_safe_equal,
    number,
    sortable_text,
)
from windows.times import NEVER

_JOIN = "join of arrivals and window"
_STRETCHES = "join by stretches of results at which a row of the window counts"
_POINTS = "window frames over its rows and change points"

AggregateVariants = Variants[StatementWriter[exp.Query]]
"""The variants of an aggregate's statement."""


@rewrite.register
def _(node: query.Aggregate, network: Network, need: Need) -> Flow:
    if node.having is not None:
        return having_of(node, lambda whole: network.rewrite(whole, need))
    return _aggregated(node, network, need)


def having_of(node: query.Aggregate, flow_of: Callable[[query.Aggregate], Flow]) -> Flow:
    """HAVING as a filter above the flow of the same node without it.

    A result that HAVING omits still replaces the previous result of its group (W5).
    """
    assert node.having is not None
    condition = exp.alias_(node.having.copy(), "_having", quoted=True)
    flow = flow_of(dataclasses.replace(node, having=None, columns=(*node.columns, condition)))
    flow = flow.where(column("_having"))
    return dataclasses.replace(flow, names=flow.names[:-1])


def _aggregated(node: query.Aggregate, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        above = node.input
        if (totals := Totals.of(node, network)) is not None:
            operator.result = _flow(node, totals.below, totals.variants, (), network)
            return
        if isinstance(above, Snapshot):
            computed, below = node, content_at_reports(above, network)
        else:
            panes = over_panes(node, network)
            computed, below = panes or (node, network.rewrite(above, _need_of(node, network)))
        variants = _variants(computed, below, network)
        if node.every_change or node.on_change:
            operator.deadlines.append(next_expiry(below))
        if reports_empty(node):
            select = at_reports(operator, node, network)
            variants = Variants(StatementWriter(lambda: select, "join of report times and window"))
        jumping = below.counted and below.jumping and not node.every_change
        jump = ("ts", "seq", *below.jump) if jumping else ()
        notes_groups = reports_empty(node) and bool(node.group_by)  # writes with each event
        operator.boundaries = None if notes_groups else below.boundaries
        result = _flow(node, below, variants, (*jump, FROM) if jump else (), network)
        operator.result = dataclasses.replace(result, boundaries=operator.boundaries)
        if below.counted and not node.every_change:  # else a newer result comes when a row leaves
            operator.keys = (*jump, FROM) if jump else below.key
            operator.origins = lambda: [(below, {key: key for key in jump or below.key})]

    operator = network.operator(node, build, "Aggregate")
    return network.give(operator, node, need)


def _need_of(node: query.Aggregate, network: Network) -> Need:
    """The need for its input: its window's content, or just a SELECT where a jump's arrivals are the content."""
    window = query.without_filters(node.input)
    jumps = isinstance(window, query.Window) and isinstance(window.extent, Range) and window.extent.slide is not None
    is_content = not network.settings.is_replay or node.on_change or node.every_change
    return Need.RESULT if jumps and not is_content else Need.CONTENT


def _variants(node: query.Aggregate, below: Flow, network: Network) -> AggregateVariants:
    """The statement's variants, each with the name of its method."""
    if node.every_change or node.on_change:
        return _at_changes(node, below, network)
    if below.jumping:
        return Variants(StatementWriter(lambda: per_jump(node, below, network.database), "once per jump of its window"))
    by_number = network.database.uses_indexes and only_counts_rows(node, below)
    if by_number:
        rows = by_row_numbers(node, below, network)  # before the variants are written, as it creates an operator
        single: StatementWriter[exp.Query] = StatementWriter(lambda: rows, "row numbers")
    else:
        single = StatementWriter(lambda: joined(node, below, network.database), _JOIN)
    panes = None if by_number and network.database.index_range_joins else Panes.of(node, below, network)
    nth = any(
        isinstance(call, exp.NthValue) for call in aggregate_calls(node)
    )  # over the rows that have a value, not a frame
    cumulative = is_cumulative(node, below)
    in_order = reads_last_rows(node, below) or ((cumulative or below.size is not None) and not below.timed)
    if network.database.computed_frame_bounds and not nth and in_order:
        by_frames = StatementWriter(lambda: over_frames(node, below), "window frames, as its rows expire in order")
        if panes is None or below.last is not None or cumulative:
            return Variants(by_frames, few=single)
        return _with_frames(node, below, panes, by_frames, single, network)
    if panes is not None:
        return _of_panes(panes, network.database, single)
    if in_order and (counted := over_distinct_counts(node, below, network.database)) is not None:
        return Variants(counted, few=single)
    if by_number and (found := by_sorted_array(node, below, network)) is not None:
        return Variants(StatementWriter(lambda: found, "places in a sorted array"), few=single)
    if reads_last_rows(node, below) and network.database.uses_indexes and not network.database.index_range_joins:
        return Variants(
            StatementWriter(lambda: joined(node, below, network.database, by_scan=True), single.method), few=single
        )
    if _has_stretches(node, below, network.database):
        by_stretches = StatementWriter(lambda: stretches.at_arrivals(node, below, network.database), _STRETCHES)
        return Variants(single, many=by_stretches)
    return Variants(single)


def _at_changes(node: query.Aggregate, below: Flow, network: Network) -> AggregateVariants:
    """The variants of an aggregate that is also reported when rows leave the window."""
    variants = _with_leaving(node, below, network)
    if below.order or below.timed or (below.counted and not node.every_change):
        return variants
    return dataclasses.replace(
        variants, entering=StatementWriter(lambda: _results_at_events(node, below, network.database))
    )


def _results_at_events(node: query.Aggregate, below: Flow, database: Database) -> exp.Select:
    """The results at events, without the results at rows that leave the window."""
    select = joined(dataclasses.replace(node, on_change=False, every_change=False), below, database)
    select = select.select(aliased(number(1), "_place"))
    select.meta[LEAVING] = ExitReports(node.every_change or not node.group_by, node.on_change)
    return select


def _with_leaving(node: query.Aggregate, below: Flow, network: Network) -> AggregateVariants:
    """The variants by a join with the rows that are in the window after each change, or by frames."""
    database = network.database
    join: StatementWriter[exp.Query] = StatementWriter(lambda: joined(node, below, network.database), _JOIN)
    if node.every_change:
        join = StatementWriter(lambda: at_every_change(node, below, network), "join of change points and window")
    points = change_points_of(node, below, network)
    if points is None and _has_stretches(node, below, database):
        return Variants(
            join,
            many=StatementWriter(
                lambda: stretches.at_changes(node, below, change_points(node, below, network), database), _STRETCHES
            ),
        )
    if points is None:
        return Variants(join)
    if database.computed_frame_bounds:
        framed = points.in_frames()
        if framed is None:
            return Variants(join)
        return Variants(StatementWriter(lambda: points.reported(over_frames(*framed)), _POINTS), few=join)
    few = None
    if isinstance(points, EvictionPoints) and database.uses_indexes:
        few = StatementWriter(points.by_index, f"{join.method}, and an index")
    panes = Panes.of(points.computed, below, network)
    if panes is None and (changes := points.in_frames()) is not None:
        rows, flow, reported = changes
        if (counted := over_distinct_counts(rows, flow, database, reported)) is not None:
            return Variants(StatementWriter(lambda: points.reported(counted()), _POINTS), few=few or join)
    if panes is None or panes.parts.own:  # LAST reads the newest row, which may have left
        return Variants(join, few=few)
    in_parts, flow, reported = points.in_parts(panes.parts)
    moves = can_move(panes.parts, database)
    frames = StatementWriter(lambda: points.reported(over_constant_frames(in_parts, flow, moves, reported)), _POINTS)
    long = None
    if panes.are_stored and isinstance(points, ExpiryPoints):
        long = StatementWriter(
            lambda: points.reported(panes.joined(points.with_newest_row())), "join of change points and panes"
        )
    return Variants(frames, few=few or join, long=long)


def _has_stretches(node: query.Aggregate, below: Flow, database: Database) -> bool:
    """Whether, for many events, the fastest way is a join of equality by stretches of the reported points."""
    if not database.prefers_bulk or not stretches.can_be_cut(below):
        return False
    return not node.on_change and not (node.every_change and sees_null_rows(node))


def _of_panes(panes: Panes, database: Database, single: StatementWriter[exp.Query]) -> AggregateVariants:
    """The variants that are faster than a join with all rows: for few events beside a long window, and for many."""
    moves = can_move(panes.parts, database)
    brief = StatementWriter(
        lambda: over_constant_frames(*panes.shortened(), moves),
        "window frames over what enters and leaves, and panes of the rest",
    )
    return Variants(
        StatementWriter(
            lambda: over_constant_frames(*panes.in_parts(), moves), "window frames, of two parts of the window"
        ),
        few=single,
        brief=brief if panes.of_time else None,
        long=StatementWriter(panes.joined, "join of arrivals and panes") if panes.are_stored else None,
    )


def _with_frames(
    node: query.Aggregate,
    below: Flow,
    panes: Panes,
    by_frames: StatementWriter[exp.Query],
    single: StatementWriter[exp.Query],
    network: Network,
) -> AggregateVariants:
    """The variants that are faster than frames over all rows: for a short push, and for COUNT(*)."""
    if not (network.database.asof_joins and only_counts_rows(node, below)):
        brief = StatementWriter(
            lambda: over_frames(*panes.shortened()), "window frames over what enters and leaves, and one row"
        )
        return Variants(by_frames, few=single, brief=brief)
    in_order = as_inserted(node.input, network)
    return Variants(
        StatementWriter(lambda: by_places(node, below, in_order), "their places among the rows"),
        few=single,
        brief=StatementWriter(
            lambda: by_places(node, below, in_order, panes), "their places among those that enter and leave"
        ),
        shared=StatementWriter(lambda: by_list(node, below, in_order), "a list of their places among the rows"),
    )


def _flow(
    node: query.Aggregate, below: Flow, variants: AggregateVariants, extra: Sequence[str], network: Network
) -> Flow:
    """The flow of the results, with the `extra` columns."""
    names = tuple(item.alias for item in node.columns)
    groups = [f"_key{place}" for place in range(len(node.group_by))]
    order = ("_place",) if below.order or below.jumping or node.on_change or node.every_change else ()
    system = dict.fromkeys(("ts", "seq", "_expires", *order, *extra))
    columns = [*system, *groups, *names]

    def selection(select: exp.Query) -> Selection:
        return Selection.of(exp.Subquery(this=select), columns)

    written: Variants[StatementWriter[Selection]] = variants.map(lambda writer: writer.map(selection))
    few = written.of("few")
    arrivals = few()
    once = dataclasses.replace(written, **{written.kind("few"): StatementWriter(lambda: arrivals, few.method)})
    timed = below.timed or node.on_change or node.every_change
    # With GROUP BY, the remaining work is one row per group, of which there may be as many as rows in the window.
    brief = network.settings.brief if node.group_by else network.settings.brief_limit(network.database)
    return Flow(names, arrivals, order=order, timed=timed, variants=once, window=below.size or 0, brief=brief)


@derived_content.register
def _(node: query.Aggregate, flow: Flow) -> Flow:
    """W5: a result is valid until the next one of its group replaces it."""
    assert flow.content is not None
    keys: list[exp.Expr] = [column(f"_key{place}") for place in range(len(node.group_by))]
    return dataclasses.replace(flow, content=with_evictions(flow.content, flow, 1, keys), counted=True, last=None)


# The join form ---------------------------------------------------------------------------------------------------------


def joined(node: query.Aggregate, below: Flow, database: Database, by_scan: bool = False) -> exp.Select:
    """Each arrival `t` joined with the rows `w` of its window and group, then grouped by the arrival.

    `by_scan`: the last rows are determined by a scan of all rows, though an index would find the oldest one.
    """
    arrivals = _triggers(node, below)
    content, in_window, indexed = _window(node, below, database, by_scan)
    groups = [content.value(key, "w") for key in node.group_by]
    keys = [column_of("t", f"_key{place}") for place in range(len(groups))]
    order = ("_place",) if below.order or node.on_change else ()
    conditions = [
        _entered(node, below),
        *in_window,
        *(null_safe_equal(group, key.copy()) for group, key in zip(groups, keys, strict=True)),
        *content.conditions_of("w"),
    ]
    trigger = [column_of("t", name) for name in ("ts", "seq", *order)]
    expires = column_of("t", "_expires")
    age = [column_of("w", name) for name in below.key]
    oldest = exp.Min(this=sortable_text(part.copy() for part in age))
    empty_too = node.on_change and not node.group_by
    grouped = GroupedJoin(
        node,
        lambda e: content.value(null_without_row(e) if empty_too else e, "w"),
        keys,
        [*trigger, expires],
        exp.Count(this=column_of("w", "seq")),
        age,
        order=[column_of("t", "_place"), oldest] if node.on_change else (),
        database=database,
    )
    source = exp.alias_(arrivals, "t", table=True, quoted=True)
    join = exp.select().from_(source, copy=False)
    add_join(join, "LEFT" if empty_too else "INNER", content.item("w"), exp.and_(*conditions))
    join.args["joins"][-1].meta[NESTED_LOOP] = indexed
    return grouped.select(join)


def _window(
    node: query.Aggregate, below: Flow, database: Database, by_scan: bool
) -> tuple[Selection, list[exp.Expr], bool]:
    """The window's rows, the conditions under which `w` is in the window of `t`, and whether an index finds such rows.

    An index finds the oldest of the last rows. Otherwise window functions over all rows determine which row evicts
    which.
    """
    assert below.content is not None
    content = below.content
    if by_scan or not (database.uses_indexes and reads_last_rows(node, below)):
        return content, valid("w", "t", below, below.order, below.timed, database.uses_indexes), False
    content, since = rows_by_index(node, below)
    return content, [since], True


def _entered(node: query.Aggregate, below: Flow) -> exp.Expr:
    """Whether `w` arrived before `t`, or is `t`. An expiry (seq 0) comes before the events of its ts."""
    if below.timed or not node.on_change:
        return not_later("w", "t", below.order, below.timed)
    before = exp.LT(this=column_of("w", "ts"), expression=column_of("t", "ts"))
    return exp.or_(before, not_later("w", "t", below.order, timed=False))


def _triggers(node: query.Aggregate, below: Flow) -> exp.Expr:
    """The rows that report a result: the arrivals; with `on_change` also each expiry, per group that it changes."""
    keys = group_columns(node)
    order = ("_place",) if below.order or node.on_change else ()
    names = {"ts": column("ts"), "seq": column("seq"), "_expires": column("_expires")}
    place = {"_place": column("_place") if below.order else number(0)} if order else {}
    system = {name: below.arrivals.columns[name] for name in below.arrivals.columns}
    rows = dataclasses.replace(below.arrivals, columns={**system, "_zero": bigint_zero()})
    place = {name: column("_zero") if not below.order else value for name, value in place.items()}
    arrivals = rows.project({**names, **place, **keys}).select()
    if not node.on_change:
        return exp.Subquery(this=arrivals)
    assert below.content is not None
    content = below.content
    expired = content.project({"ts": column("_expires"), **keys})
    expired = dataclasses.replace(expired, conditions=(*content.conditions, *expires_in_push(below)))
    distinct = derived_table(expired.select().distinct(), "x")
    expiries = exp.select(
        column("ts"), aliased(bigint_zero(), "seq"), aliased(number(NEVER), "_expires"), aliased(bigint_zero(), "_place"),
        *map(column, keys),
    ).from_(distinct)  # fmt: skip
    return exp.Subquery(this=exp.union(arrivals, expiries, distinct=False))
