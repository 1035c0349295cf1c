"""Plans of events whose results this process computes and whose steps run later, together for many events."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence

from sqlglot import exp

from bridge.engine.results import ResultStatement
from bridge.engine.single_events.added_rows import totals_updates
from bridge.engine.single_events.bound_statements import BoundStatements
from bridge.engine.single_events.boundaries import NextBoundaries
from bridge.engine.single_events.in_process import InProcess, Reader, ReportsInTime
from bridge.engine.single_events.memory.derived_results import DerivedResults
from bridge.engine.single_events.memory.totals_table import TotalsAggregate, TotalsUpdate
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.engine.single_events.memory.window_changes import EvictionChanges
from bridge.engine.single_events.memory.window_memory import WindowMemory
from bridge.engine.single_events.one_event import OneEventPlan
from bridge.engine.single_events.one_event_planning import result_of_one_event
from bridge.engine.single_events.postponed import is_unfailing
from bridge.rewrite.plan import Call, Insert, Operator, OutputInsert, Purge, UpdateRows
from bridge.rewrite.tables.put_rows import PutRows
from bridge.rewrite.windows.evictions import EvictionStep


def waiting_plan(
    operators: Sequence[Operator],
    results: Sequence[ResultStatement],
    empty: Collection[str],
    bound: BoundStatements,
    memory: WindowMemory,
    derived: Callable[[ResultStatement], DerivedResults | None],
    put: Callable[[PutRows], DerivedResults | None],
) -> OneEventPlan | None:
    """The plan for an event whose results this process computes and whose steps all run later; None without such.

    Args:
        operators: The operators that the event concerns.
        results: The statements of the results that an event may have.
        empty: The inboxes of the other streams.
        bound: The bound statements for the stream.
        memory: The rows of tables in memory.
        derived: The computation of a statement over one stream for its events; None where only the database can.
        put: The same for the rows that a step puts into a table, which must be such that it takes them.
    """
    is_jumping = any(operator.boundaries is not None for operator in operators)
    steps = [step for operator in operators for step in operator.steps]
    is_safe = bound.are_sums_safe or (bound.has_known_types and not any(map(_may_add_up, steps)))
    if bound.row is None or is_jumping or not is_safe:
        return None
    found = _readers(results, empty, bound, memory, totals_updates(operators, bound, empty), derived)
    if found is None:
        return None
    readers, computed = found
    puts = _puts(operators, put)
    for check in puts.values():
        computed |= check.computed_tables
    if not all(step.table in computed or id(step) in puts or _may_run_later(step) for step in steps):
        return None
    is_by_time = not any(operator.steps for operator in operators if bound.stream in operator.sources)
    in_process = InProcess(readers, memory, bound.stream, list(puts.values()), waits=True, is_by_time=is_by_time)
    nothing: frozenset[str] = frozenset()
    boundaries = NextBoundaries((), (), bound.database)
    return OneEventPlan((), (), nothing, nothing, (), False, True, False, boundaries, in_process)


def _readers(
    results: Sequence[ResultStatement],
    empty: Collection[str],
    bound: BoundStatements,
    memory: WindowMemory,
    totals: Mapping[str, TotalsUpdate],
    derived: Callable[[ResultStatement], DerivedResults | None],
) -> tuple[list[tuple[ResultStatement, Reader]], set[str]] | None:
    """The computations of the results, and the tables whose rows they compute; None where only the database can."""
    readers: list[tuple[ResultStatement, Reader]] = []
    computed = set[str]()
    for result in results:
        reader = derived(result)
        if reader is not None:
            is_own = bound.stream in result.sources
            readers.append((result, reader if is_own else ReportsInTime(reader)))
            computed |= reader.computed_tables
            continue
        statement = bound.of(result, functools.partial(result_of_one_event, result), empty)
        if statement is None:
            continue
        values = statement.compute or _aggregate(result, bound, memory, empty, totals)
        if values is None:
            return None
        readers.append((result, values))
        computed |= {values.rows.name} if isinstance(values, TotalsAggregate) else set()
    return readers, computed


def _puts(operators: Sequence[Operator], put: Callable[[PutRows], DerivedResults | None]) -> dict[int, DerivedResults]:
    """The computations of the rows that steps put into tables, by the steps' ids, where only events add such rows."""
    steps = [step for operator in operators if not operator.timed for step in operator.steps]
    found = {id(step): put(step) for step in steps if isinstance(step, PutRows)}
    return {step: check for step, check in found.items() if check is not None}


def _aggregate(
    result: ResultStatement,
    bound: BoundStatements,
    memory: WindowMemory,
    empty: Collection[str],
    totals: Mapping[str, TotalsUpdate],
) -> WindowAggregate | None:
    """The computation of a statement that is an aggregate over a window of events of the same stream."""
    if len(result.members) > 1:
        return None
    results = result.members[0].results
    one = results.of("one") if results.entering is None else results.entering
    windows = [memory.filled(table) for table in bound.tables(one, one.statement.copy)]
    insertions = {each.insertion.table: each.insertion for each in windows if each and each.stream == bound.stream}
    if results.entering is None:
        return bound.aggregate(one, one.statement.copy, insertions, empty, totals)
    changes = bound.changes(one, one.statement.copy, insertions)
    return changes if isinstance(changes, EvictionChanges) else None  # time alone has no results


def _may_add_up(step: Insert | Purge | Call) -> bool:
    """Whether a step may add up values of events."""
    if isinstance(step, UpdateRows):
        return True
    if isinstance(step, Insert):
        return any(step.statement(push).find(exp.Sum, exp.Avg) for push, _ in step.variants.items())
    return not isinstance(step, Purge | EvictionStep)


def _may_run_later(step: Insert | Purge | Call) -> bool:
    """Whether a step cannot fail, and still knows its events after others have come."""
    if isinstance(step, OutputInsert):
        return False
    if isinstance(step, Insert):
        return all(is_unfailing(step.statement(push)) for push, _ in step.variants.items())
    return is_unfailing(step.statement()) if isinstance(step, Purge) else getattr(step, "is_unfailing", False)
