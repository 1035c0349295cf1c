"""The instances that wait for an event, found by the value that its condition demands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from nfa.errors import BudgetError

if TYPE_CHECKING:
    from nfa.temporal.instance import Bound
    from nfa.temporal.operators import OnceState

INSTANCE_LIMIT = 1_000_000
"""The most live instances, or keys, of one pattern."""

_States: TypeAlias = "dict[int, OnceState]"


@dataclasses.dataclass(frozen=True)
class Equality:
    """What a condition of an event demands: that one of its values is equal to one of the events before it.

    An event that breaks it does not fulfil the condition; one that satisfies it may or may not.
    """

    of_event: Callable[[Any], Any]
    of_bound: Callable[[Bound], Any]


class Listeners:
    """The instances of `Once` that wait for an event, by their number, and by the value of an equality where one is known.

    Values are compared by hash only where that is what a database does: integers with integers and texts with texts. An
    event with another value reaches all instances, and an instance with another value gets all events.
    """

    def __init__(self, equalities: Mapping[int, Equality]) -> None:
        self._equalities = equalities
        self._all: dict[int, _States] = {}
        self._by_value: dict[tuple[int, int | str | None], _States] = {}

    def add(self, state: OnceState) -> None:
        """Adds an instance.

        Raises:
            BudgetError: There are too many.
        """
        waiting = self._all.setdefault(state.number, {})
        waiting[state.at] = state
        if state.number in self._equalities:
            self._by_value.setdefault(self._place(state), {})[state.at] = state
        if len(waiting) > INSTANCE_LIMIT:
            raise BudgetError(f"the pattern has {len(waiting)} instances under way; the limit is {INSTANCE_LIMIT}")

    def remove(self, state: OnceState) -> None:
        """Removes an instance, if it is there."""
        self._all.get(state.number, {}).pop(state.at, None)
        if state.number in self._equalities:
            place = self._place(state)
            states = self._by_value.get(place, {})
            states.pop(state.at, None)
            if not states:
                self._by_value.pop(place, None)

    def reached_by(self, event: Any, number: int) -> Collection[OnceState]:
        """The instances for which an event of this number can be the one."""
        equality = self._equalities.get(number)
        value = None if equality is None else _hashed(equality.of_event(event))
        if value is None:
            return self._all.get(number, {}).values()
        found = (self._by_value.get((number, each), {}) for each in (value, None))
        return [state for states in found for state in states.values()]

    def _place(self, state: OnceState) -> tuple[int, int | str | None]:
        return state.number, _hashed(self._equalities[state.number].of_bound(state.begin))


def _hashed(value: Any) -> int | str | None:
    """The value, if it is equal to just the values that it is equal to in a database; else None."""
    return value if type(value) in (int, str) else None
