"""Matches as arrays, and the arrays that the array engines work on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int64]
"""Numbers of rows; rows are counted through all partitions."""

Codes: TypeAlias = NDArray[np.int32]
"""Numbers of the instructions that take rows."""

SymbolSets: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""For each row the symbols that it can be: bit s for symbol number s."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Match k covers the rows from `starts[k]` on, `lengths[k]` of them: 0 for an empty match.

    `codes` has the number of the instruction that took it for every row of every match, in this order. Matches are in the
    order of their partitions, and within a partition in the order of their numbers.
    """

    starts: Rows
    lengths: Rows
    codes: Codes

    @property
    def offsets(self) -> Rows:
        """Where the codes of each match begin, and the end of the last."""
        return offsets(self.lengths)


def offsets(lengths: Rows) -> Rows:
    """The index at which each of several consecutive ranges begins, and the end of the last.

    >>> offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def matches_of(starts: Sequence[int], lengths: Sequence[int], codes: Sequence[int]) -> Matches:
    """The matches with these starts, lengths and codes."""
    return Matches(np.array(starts, np.int64), np.array(lengths, np.int64), np.array(codes, np.int32))


def concatenate(parts: Iterable[Matches]) -> Matches:
    """The matches of all parts, one after the other."""
    several = list(parts) or [matches_of([], [], [])]
    return Matches(
        np.concatenate([part.starts for part in several]),
        np.concatenate([part.lengths for part in several]),
        np.concatenate([part.codes for part in several]),
    )


def select(matches: Matches, places: NDArray[np.intp]) -> Matches:
    """The matches at these places, in this order.

    >>> matches = matches_of([0, 4, 7], [2, 1, 0], [5, 6, 7])
    >>> select(matches, np.array([1, 0])).codes.tolist()
    [7, 5, 6]
    """
    lengths = matches.lengths[places]
    # A match's codes keep their order, so all of them move by the same number of places.
    shift = np.repeat(matches.offsets[:-1][places] - offsets(lengths)[:-1], lengths)
    return Matches(matches.starts[places], lengths, matches.codes[np.arange(len(shift)) + shift])


def partitions(ends: Rows) -> tuple[Rows, Rows]:
    """The first row of each partition that has rows, and its end.

    >>> [part.tolist() for part in partitions(np.array([0, 3, 3, 4]))]
    [[0, 3], [3, 4]]
    """
    firsts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
    filled = firsts < ends
    return firsts[filled], ends[filled]
