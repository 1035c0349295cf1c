"""Patterns of timers alone: no event concerns them, so until one of their timers is due, a small push leaves them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeGuard

from bridge.engine.results import ResultStatement
from bridge.rewrite.plan import Call, Insert, Operator, Purge, RowCall, TimedCall
from windows.databases import Database
from windows.times import BEGINNING


class DormantOperators:
    """The operators that read no stream, if machines know when each of them has something to do; else none."""

    def __init__(self, operators: Iterable[Operator], database: Database) -> None:
        found = [operator for operator in operators if operator.timed and not operator.sources]
        self._database = database
        self._operators = found if all(map(_has_known_deadlines, found)) else []
        self._machines = [step for operator in self._operators for step in operator.steps if _is_machine(step)]

    def are_due(self, before: int, now: int) -> bool:
        """Whether one may do something as time passes from `before` to `now`."""
        for machine in self._machines:
            if before == BEGINNING or not machine.is_restored:
                return True
            due = machine.next_deadline(self._database, before)
            if due is not None and due <= now:
                return True
        return False

    def without(self, operators: Iterable[Operator]) -> list[Operator]:
        """The operators that are not dormant."""
        dormant = set(map(id, self._operators))
        return [operator for operator in operators if id(operator) not in dormant]

    def without_results(self, results: Sequence[ResultStatement]) -> Sequence[ResultStatement]:
        """The statements that read results of other operators, too."""
        return [result for result in results if result.sources] if self._operators else results


def _has_known_deadlines(operator: Operator) -> bool:
    """Whether the times at which it does something are those of its machines, or of what it reads."""
    if operator.deadlines or operator.boundaries is not None:
        return False
    return all(isinstance(step, (Insert, Purge)) or _is_machine(step) for step in operator.steps)


def _is_machine(step: Insert | Purge | Call) -> TypeGuard[_Machine]:
    """Whether it has a memory that knows when its next result is due."""
    return isinstance(step, RowCall) and isinstance(step, TimedCall)


class _Machine(RowCall, TimedCall, Protocol):
    """A step of both kinds."""
