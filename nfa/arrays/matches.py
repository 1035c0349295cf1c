"""Matches as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Letters: TypeAlias = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Match k covers the rows from `starts[k]` on, `lengths[k]` of them: 0 for an empty match.

    `codes` tells for every row of every match, in this order, the number of the instruction that took it. Rows count
    through all partitions; matches stand in the order of their partitions and of their numbers.
    """

    starts: Rows
    lengths: Rows
    codes: Codes

    @property
    def offsets(self) -> Rows:
        """Where the codes of each match begin, and the end of the last."""
        return offsets(self.lengths)


def offsets(lengths: Rows) -> Rows:
    """The sums of the lengths so far.

    >>> offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def found_of(starts: Sequence[int], lengths: Sequence[int], codes: Sequence[int]) -> Found:
    """The matches that these lists tell."""
    return Found(np.array(starts, np.int64), np.array(lengths, np.int64), np.array(codes, np.int32))


def joined(parts: Iterable[Found]) -> Found:
    """The matches of all parts, one after the other."""
    several = list(parts) or [found_of([], [], [])]
    return Found(
        np.concatenate([part.starts for part in several]),
        np.concatenate([part.lengths for part in several]),
        np.concatenate([part.codes for part in several]),
    )


def selected(found: Found, matches: NDArray[np.intp]) -> Found:
    """These matches, in this order.

    >>> found = found_of([0, 4, 7], [2, 1, 0], [5, 6, 7])
    >>> selected(found, np.array([1, 0])).codes.tolist()
    [7, 5, 6]
    """
    lengths = found.lengths[matches]
    # Each code comes from as far behind its match's first code as it goes.
    shift = np.repeat(found.offsets[:-1][matches] - offsets(lengths)[:-1], lengths)
    return Found(found.starts[matches], lengths, found.codes[np.arange(len(shift)) + shift])


def partitions(ends: Rows) -> tuple[Rows, Rows]:
    """The first row of each partition that has rows, and its end.

    >>> [part.tolist() for part in partitions(np.array([0, 3, 3, 4]))]
    [[0, 3], [3, 4]]
    """
    firsts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
    filled = firsts < ends
    return firsts[filled], ends[filled]
