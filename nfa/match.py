"""A match: its number, its first row, and the rows that are bound to symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Membership(NamedTuple):
    """A row of a match, by its index: the symbol it is bound to, and whether `{- -}` keeps it from being shown."""

    symbol: str
    row: int
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """The preferred match from one start; `number` is MATCH_NUMBER(), which counts empty matches too (rule S2).

    A partial match, which was incomplete when its time was over, has the number 0.
    """

    number: int
    start: int
    memberships: tuple[Membership, ...] = ()
