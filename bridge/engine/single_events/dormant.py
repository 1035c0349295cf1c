"""Operators that an event of a stream does not concern: its push leaves them out until one of them is due.

They are patterns of timers alone, which read no stream, and operators that report as time passes and read other
streams. The memory of machines tells when they are due next; or statements do, which run again after events of those
streams.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeGuard

from bridge.engine.results import ResultStatement
from bridge.rewrite.plan import Call, Insert, Operator, Purge, RowCall, TimedCall
from windows.databases import Database
from windows.times import BEGINNING


class DormantOperators:
    """The operators that run as time passes and do not read a stream; none unless all know when they are due next.

    Args:
        operators: All operators.
        database: Their database.
        stream: The name of the stream; None: the operators that read no stream.
        next_due: The next time at which some operators are due, according to their statements.
    """

    def __init__(
        self,
        operators: Iterable[Operator],
        database: Database,
        stream: str | None = None,
        next_due: Callable[[Sequence[Operator]], int | None] = lambda operators: None,
    ) -> None:
        timed = [operator for operator in operators if operator.timed]
        if stream is None:
            found = [operator for operator in timed if not operator.sources]
            are_known = not any(_has_statement(operator) or operator.boundaries is not None for operator in found)
        else:
            found = [operator for operator in timed if stream not in operator.sources]
            are_known = True
        self._database, self._stream, self._next_due = database, stream, next_due
        self.operators = found if are_known and not any(map(_has_unknown_time, found)) else []
        steps = [step for operator in self.operators for step in operator.steps]
        self._machines = [step for step in steps if _is_machine(step)]
        self._asks = any(map(_has_statement, self.operators))
        self._sources = frozenset[str]().union(*(operator.sources for operator in self.operators))
        self._due: int | None = None
        self._is_known = False

    def are_due(self, before: int, now: int) -> bool:
        """Whether one of the operators may do something as time passes from `before` to `now`."""
        for machine in self._machines:
            if before == BEGINNING or not machine.is_restored:
                return True
            due = machine.next_deadline(self._database, before)
            if due is not None and due <= now:
                return True
        if not self._asks:
            return False
        if before == BEGINNING:
            return True
        if not self._is_known:
            self._due, self._is_known = self._next_due(self.operators), True
        return self._due is not None and self._due <= now

    def outdate(self, streams: Collection[str] | None = None) -> None:
        """Forgets when operators are due, as events of these streams have come, or (None) anything may have changed."""
        if self._is_known and (streams is None or not self._sources.isdisjoint(streams)):
            self._is_known = False

    def without(self, operators: Iterable[Operator]) -> list[Operator]:
        """The operators that are not dormant."""
        dormant = set(map(id, self.operators))
        return [operator for operator in operators if id(operator) not in dormant]

    def without_results(self, results: Sequence[ResultStatement]) -> Sequence[ResultStatement]:
        """The statements without those that read results of dormant operators only."""
        if not self.operators:
            return results
        return [each for each in results if (each.sources if self._stream is None else self._stream in each.sources)]


def _has_unknown_time(operator: Operator) -> bool:
    """Whether an operator may report something at a time that is not known: the late answer of another database."""
    from bridge.rewrite.tables.read_store import Read  # importing it loads the readers of stores

    return any(isinstance(step, Read) and step.waiting is not None for step in operator.steps)


def _has_statement(operator: Operator) -> bool:
    """Whether a statement tells when an operator is due."""
    timed = (step for step in operator.steps if isinstance(step, TimedCall))
    return bool(operator.deadlines) or any(not _is_machine(step) for step in timed)


def _is_machine(step: Insert | Purge | Call) -> TypeGuard[_TimedMatcher]:
    """Whether a step has a memory that knows when its next result is due."""
    return isinstance(step, RowCall) and isinstance(step, TimedCall)


class _TimedMatcher(RowCall, TimedCall, Protocol):
    """A step that takes rows and knows when it is due."""
