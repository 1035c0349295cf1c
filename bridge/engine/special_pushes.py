"""Special statements for pushes that are short compared with the windows of their queries, or are large."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from bridge.engine.catalogue import QueryEntry

S = TypeVar("S")
"""A statement that reads results."""


class SpecialPush(abc.ABC, Generic[S]):
    """Statements for some pushes, in place of those for any push; they are made at the first such push."""

    def __init__(self, make: Callable[[], list[S]]) -> None:
        self._make = make

    @abc.abstractmethod
    def is_for(self, count: int, lasting: int, is_history: bool = False) -> bool:
        """Whether they are for a push of `count` events, `lasting` milliseconds from the first to the last.

        `is_history`: it is a whole history, before which nothing is stored.
        """

    @functools.cached_property
    def statements(self) -> list[S]:
        """One statement per query."""
        return self._make()


class ShortPush(SpecialPush[S]):
    """The statements for pushes that are short compared with the windows of some queries.

    `ratio`: the least ratio of the shortest window to the push. `rows`: the least number of rows in this window,
    estimated from the rate of the push's events.
    """

    def __init__(self, members: Sequence[QueryEntry], make: Callable[[], list[S]], ratio: int, rows: int = 0) -> None:
        super().__init__(make)
        self.ratio = ratio
        self.window = min(entry.flow.window for entry in members)
        self.rows = rows
        self._members = members

    def is_for(self, count: int, lasting: int, is_history: bool = False) -> bool:
        is_brief = lasting * self.ratio <= self.window and count * self.window >= lasting * self.rows
        return is_brief and all(entry.has_short_variant for entry in self._members)


class LargePush(SpecialPush[S]):
    """The statements for pushes of at least `many` events."""

    def __init__(self, make: Callable[[], list[S]], many: int) -> None:
        super().__init__(make)
        self._many = many

    def is_for(self, count: int, lasting: int, is_history: bool = False) -> bool:
        return count >= self._many


class WholeHistory(SpecialPush[S]):
    """The statements for a whole history, before which nothing is stored."""

    def is_for(self, count: int, lasting: int, is_history: bool = False) -> bool:
        return is_history
