"""The instances that wait for an event, found by the value that its condition demands."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
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
    """An equality in a condition: a value of the event is equal to one of an earlier event.

    An event that breaks it does not fulfil the condition; one that satisfies it may or may not.
    """

    of_event: Callable[[Any], Any]
    of_bound: Callable[[Bound], Any]


class Listeners:
    """The instances of `Once` that wait for an event, by their number and the value that their equality demands.

    Values are compared by hash only if a database compares them alike: integers with integers and texts with texts. An
    event with another value reaches all instances. An instance without an equality, or with another value, has the value
    None here: it gets all events.
    """

    def __init__(self, equalities: Mapping[int, Equality]) -> None:
        self._equalities = equalities
        self._by_value: dict[int, dict[int | str | None, _States]] = defaultdict(partial(defaultdict, dict))
        self._counts: dict[int, int] = defaultdict(int)

    def add(self, state: OnceState) -> None:
        """Adds an instance.

        Raises:
            BudgetError: There are too many.
        """
        number = state.number
        value = self._value_of(state) if number in self._equalities else None
        self._by_value[number][value][state.at] = state
        self._counts[number] = count = self._counts[number] + 1
        if count > INSTANCE_LIMIT:
            raise BudgetError(f"the pattern has {count} live instances; the limit is {INSTANCE_LIMIT}")

    def remove(self, state: OnceState) -> None:
        """Removes an instance, if it is there."""
        number = state.number
        value = self._value_of(state) if number in self._equalities else None
        states = self._by_value[number][value]
        if states.pop(state.at, None) is not None:
            self._counts[number] -= 1
        if not states and value is not None:
            del self._by_value[number][value]

    def reached_by(self, event: Any, number: int) -> Collection[OnceState]:
        """The instances for which an event of this number may be the awaited one."""
        by_value, equality = self._by_value[number], self._equalities.get(number)
        if equality is None:
            return by_value[None].values()
        value = _hashed(equality.of_event(event))
        found = by_value.values() if value is None else (by_value.get(value, {}), by_value.get(None, {}))
        return [state for states in found for state in states.values()]

    def _value_of(self, state: OnceState) -> int | str | None:
        return _hashed(self._equalities[state.number].of_bound(state.begin))


def _hashed(value: Any) -> int | str | None:
    """The value, if in Python it is equal to the same values as in a database; else None."""
    return value if type(value) in (int, str) else None
