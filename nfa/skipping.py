"""AFTER MATCH SKIP over matches whose rows are told by instruction numbers; the modes are those of `nfa.skip`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from nfa.closures import Closures
from nfa.matcher import Match, Membership
from nfa.program import MatchSymbol
from nfa.skip import Skip, search_on, to_first

Onward: TypeAlias = Callable[[int, int, Sequence[int]], int]
"""From a match's number, first row and codes to the row to go on with, all counted in the partition."""


def onward(skip: Skip, closures: Closures) -> Onward:
    """The mode as a function of codes; it raises what the mode itself would raise."""
    if isinstance(skip, partial) and skip.func is getattr(to_first(), "func", None):
        return _to_symbol(skip, closures)
    return lambda number, start, codes: search_on(skip, match_of(closures, number, start, codes))


def match_of(closures: Closures, number: int, start: int, codes: Sequence[int]) -> Match:
    """The match as the thread machine gives it."""
    return Match(number, start, tuple(_member(closures, code, start + place) for place, code in enumerate(codes)))


def _member(closures: Closures, code: int, row: int) -> Membership:
    line = closures.code[code]
    assert isinstance(line, MatchSymbol)
    return Membership(line.name, row, line.excluded)


def _to_symbol(skip: partial[int], closures: Closures) -> Onward:
    names, last = skip.keywords["symbols"], skip.keywords["place"] == -1
    wanted = {n for n, line in enumerate(closures.code) if isinstance(line, MatchSymbol) and line.name in names}

    def go_on(number: int, start: int, codes: Sequence[int]) -> int:
        places = range(len(codes) - 1, 0, -1) if last else range(len(codes))
        place = next((place for place in places if codes[place] in wanted), 0)
        # What is not so simple is told by the mode: nowhere to go, or an empty match.
        return start + place if place else search_on(skip, match_of(closures, number, start, codes))

    return go_on
