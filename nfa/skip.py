"""AFTER MATCH SKIP: where the search for the next match begins, one function per mode (SQL:2016; rule S3).

A mode takes a match of one row or more and gives the index of the row to continue with. After an empty match the search
always continues at the next row.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from nfa.errors import SkipError
from nfa.match import PatternMatch

Skip: TypeAlias = "Callable[[PatternMatch], int]"


def past_last_row(match: PatternMatch) -> int:
    """AFTER MATCH SKIP PAST LAST ROW, the default: matches do not overlap."""
    return match.memberships[-1].row + 1


def to_next_row(match: PatternMatch) -> int:
    """AFTER MATCH SKIP TO NEXT ROW: every row may begin a match."""
    return match.start + 1


def to_first(*symbols: str) -> Skip:
    """AFTER MATCH SKIP TO FIRST v; several symbols stand for a SUBSET variable.

    The mode raises SkipError if no row of the match is v, or if the first one begins the match.

    >>> from nfa import find_all
    >>> matches = find_all("A B B", "abbb", lambda symbol, row, path: row == symbol.lower(), skip=to_first("B"))
    >>> [match.start for match in matches]
    [0]
    """
    return partial(_to, symbols=symbols, place=0)


def to_last(*symbols: str) -> Skip:
    """AFTER MATCH SKIP TO LAST v, for which SKIP TO v is short; otherwise the same as `to_first`."""
    return partial(_to, symbols=symbols, place=-1)


def search_on(skip: Skip, match: PatternMatch) -> int:
    """The row to continue with; raises SkipError for a mode that would not move on."""
    after = skip(match) if match.memberships else match.start + 1
    if after <= match.start:
        raise SkipError(f"{_match_text(match)} would be found for ever: the search goes on at row {after}")
    return after


def _to(match: PatternMatch, symbols: tuple[str, ...], place: int) -> int:
    rows = [member.row for member in match.memberships if member.symbol in symbols]
    if not rows:
        raise SkipError(f"{_match_text(match)} has no row {_any(symbols)} to skip to")
    if rows[place] == match.start:
        raise SkipError(f"{_match_text(match)} would be found for ever: row {_any(symbols)} to skip to is its first")
    return rows[place]


def _match_text(match: PatternMatch) -> str:
    return f"match {match.number} (rows {match.start} to {match.memberships[-1].row})"


def _any(symbols: tuple[str, ...]) -> str:
    return " or ".join(symbols)


class After(enum.Enum):
    """Where the search continues after a match that is reported."""

    PAST_LAST_ROW = "PAST LAST ROW"
    TO_NEXT_ROW = "TO NEXT ROW"
    TO_CURRENT_ROW = "TO CURRENT ROW"
