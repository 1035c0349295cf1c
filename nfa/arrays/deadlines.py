"""All matches in numpy where time bounds them and what a row can be does not depend on the rows matched before it."""

from __future__ import annotations

import numpy as np

from nfa.arrays.many_starts import scan_lanes
from nfa.arrays.matches import Found, Letters, Rows, joined, partitions, selected
from nfa.arrays.two_pass import Scan
from nfa.program import Program
from nfa.skip import Skip, past_last_row

LONG = 1_000
"""Partitions of more rows than this are searched one by one."""


def scan_within(
    program: Program, letters: Letters, ends: Rows, times: Rows, within: int, skip: Skip = past_last_row
) -> Found:
    """As `nfa.arrays.two_pass.scan`, with matches whose rows all have times below their first row's time plus `within`.

    Times ascend in each partition; ValueError otherwise.

    >>> from nfa import compile_program, parse_pattern
    >>> program, letters = compile_program(parse_pattern("A B+")), np.array([1, 2, 2], np.uint8)
    >>> scan_within(program, letters, np.array([3]), np.array([0, 5, 10]), 10).lengths.tolist()
    [2]
    """
    limits = deadlines(times, ends, within)
    # Where no match begins that may be as long as it likes, none begins within the time.
    scanned = Scan(program, letters, ends)
    kept, candidates = _unbounded(scanned, limits, ends) if skip is past_last_row else (None, scanned.candidates())
    found = scan_lanes(
        program, lambda starts, rows, asked: letters.take(rows), ends, skip, limits=limits, candidates=candidates
    )
    return found if kept is None else _merged(kept, found)


def _unbounded(scanned: Scan, limits: Rows, ends: Rows) -> tuple[Found, Rows]:
    """The matches of each partition up to the first that is not in time, and the rows where others can begin.

    A preferred match that is in time is also the preferred one of those that are.
    """
    firsts, cut = partitions(ends)
    found = scanned.found(past_last_row)
    late = np.flatnonzero(found.starts + found.lengths > limits[found.starts])
    partition = np.searchsorted(firsts, found.starts[late], "right") - 1
    cut = cut.copy()
    np.minimum.at(cut, partition, found.starts[late])
    if not len(late):
        return found, late
    keeps = found.starts < cut[np.searchsorted(firsts, found.starts, "right") - 1]
    candidates = scanned.candidates()
    open_ones = candidates >= cut[np.searchsorted(firsts, candidates, "right") - 1]
    return selected(found, np.flatnonzero(keeps)), candidates[open_ones]


def _merged(some: Found, others: Found) -> Found:
    both = joined([some, others])
    return selected(both, np.argsort(both.starts, kind="stable")) if len(others.starts) else some


def deadlines(times: Rows, ends: Rows, within: int) -> Rows:
    """For each row the first row of its partition that is too late for a match from it, or the partition's end.

    >>> deadlines(np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist()
    [2, 3, 3, 5, 5]
    """
    firsts, lasts = partitions(ends)
    check_ascending(times, firsts)
    found = np.repeat(lasts, lasts - firsts)
    long = lasts - firsts > LONG
    for first, last in zip(firsts[long].tolist(), lasts[long].tolist(), strict=True):
        age = times[first:last] - times[first]
        found[first:last] = first + np.searchsorted(age, age + min(within, int(age[-1]) + 1), "left")
    rows = np.flatnonzero(np.repeat(~long, lasts - firsts))
    found[rows] = _bisected(times, rows, found[rows], within)
    # Without any time there are rows as old that come before.
    return np.maximum(found, np.arange(len(found)))


def deadlines_of(starts: Rows, times: Rows, ends: Rows, within: int) -> Rows:
    """`deadlines` of these rows only, in time that ascends.

    >>> deadlines_of(np.array([1, 3]), np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist()
    [3, 5]
    """
    return np.maximum(_bisected(times, starts, ends[np.searchsorted(ends, starts, "right")], within), starts)


def since(rows: Rows, times: Rows, ends: Rows, within: int) -> Rows:
    """For each of these rows the first row of its partition from which a match may go as far; the row itself if none.

    >>> since(np.array([2, 4]), np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist()
    [1, 3]
    """
    low, high = np.concatenate([np.zeros(1, np.int64), ends])[np.searchsorted(ends, rows, "right")], rows.copy()
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) // 2
        late = times[rows] - times[middle] >= within
        low, high = np.where(late & (middle < high), middle + 1, low), np.where(late, high, middle)
    return low


def check_ascending(times: Rows, firsts: Rows) -> None:
    """Raise ValueError where time goes back within a partition."""
    descends = times[1:] < times[:-1]
    descends[firsts[1:] - 1] = False
    if descends.any():
        row = int(np.argmax(descends))
        raise ValueError(f"a row of time {times[row + 1]} comes after time {times[row]}")


def _bisected(times: Rows, rows: Rows, ends: Rows, within: int) -> Rows:
    """For each row the first one before its end that is too late; all are looked for at once."""
    low, high = rows.copy(), ends.copy()
    within = min(within, np.iinfo(np.int64).max)
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) // 2
        in_time = times.take(middle, mode="clip") - times[rows] < within
        in_time &= middle < high
        low, high = np.where(in_time, middle + 1, low), np.where(in_time, high, middle)
    return low
