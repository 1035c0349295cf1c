"""All matches in numpy where time bounds them and what a row can be does not depend on the rows matched before it."""

from __future__ import annotations

import numpy as np

from nfa.found import Found, Letters, Rows, partitions
from nfa.lanes import scan_lanes
from nfa.program import Program
from nfa.scan import Scan
from nfa.skip import Skip, past_last_row


def scan_within(
    program: Program, letters: Letters, ends: Rows, times: Rows, within: int, skip: Skip = past_last_row
) -> Found:
    """As `nfa.scan.scan`, with matches whose rows all have times below their first row's time plus `within`.

    Times ascend in each partition; ValueError otherwise.

    >>> from nfa import compile_program, parse_pattern
    >>> program, letters = compile_program(parse_pattern("A B+")), np.array([1, 2, 2], np.uint8)
    >>> scan_within(program, letters, np.array([3]), np.array([0, 5, 10]), 10).lengths.tolist()
    [2]
    """
    limits = deadlines(times, ends, within)
    # Where no match begins that may be as long as it likes, none begins within the time.
    candidates = Scan(program, letters, ends).candidates()
    return scan_lanes(
        program, lambda starts, rows: letters.take(rows), ends, skip, limits=limits, candidates=candidates
    )


def deadlines(times: Rows, ends: Rows, within: int) -> Rows:
    """For each row the first row of its partition that is too late for a match from it, or the partition's end.

    >>> deadlines(np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist()
    [2, 3, 3, 5, 5]
    """
    found = np.empty(len(times), np.int64)
    for first, end in zip(*(part.tolist() for part in partitions(ends)), strict=True):
        part = times[first:end]
        back = np.flatnonzero(part[1:] < part[:-1])
        if len(back):
            raise ValueError(f"a row of time {part[back[0] + 1]} comes after time {part[back[0]]}")
        found[first:end] = first + np.searchsorted(part, part + within, "left")
    # Without any time there are rows as old that come before.
    return np.maximum(found, np.arange(len(times)))
