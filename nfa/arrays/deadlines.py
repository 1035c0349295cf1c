"""Time limits of matches (WITHIN), and the two-pass search under such limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nfa.arrays.many_starts import scan_starts
from nfa.arrays.matches import Matches, Rows, SymbolSets, concatenate, partitions, select
from nfa.arrays.two_pass import Scan
from nfa.program import Program
from nfa.skip import Skip, past_last_row

LONG = 1_000
"""Partitions of more rows are bisected one by one, by `np.searchsorted`; shorter ones all together."""


def scan_within(
    program: Program, symbol_sets: SymbolSets, ends: Rows, times: Rows, within: int, skip: Skip = past_last_row
) -> Matches:
    """The matches of `nfa.arrays.two_pass.scan` whose times are all below their first row's time plus `within`.

    Raises:
        ValueError: Times descend within a partition.

    >>> from nfa import compile_program, parse_pattern
    >>> program, symbol_sets = compile_program(parse_pattern("A B+")), np.array([1, 2, 2], np.uint8)
    >>> scan_within(program, symbol_sets, np.array([3]), np.array([0, 5, 10]), 10).lengths.tolist()
    [2]
    """
    return scan_limited(program, symbol_sets, ends, deadlines(times, ends, within), skip)


def scan_limited(
    program: Program, symbol_sets: SymbolSets, ends: Rows, limits: Rows, skip: Skip = past_last_row
) -> Matches:
    """`scan_within`, where `limits` are the `deadlines` of all rows."""
    # A row that begins no match of any duration begins none within the time.
    two_pass = Scan(program, symbol_sets, ends)
    done, candidates = (
        _up_to_first_late(two_pass, limits, ends) if skip is past_last_row else (None, two_pass.candidates())
    )
    matches = scan_starts(
        program,
        lambda starts, rows, requested: symbol_sets.take(rows),
        ends,
        skip,
        limits=limits,
        candidates=candidates,
    )
    return matches if done is None else _in_order(done, matches)


def _up_to_first_late(two_pass: Scan, limits: Rows, ends: Rows) -> tuple[Matches, Rows]:
    """The matches of each partition before the first that takes too long, and the rows where later ones can begin.

    A preferred match that is in time is also the preferred one among the matches in time.
    """
    firsts, bounds = partitions(ends)
    matches = two_pass.matches(past_last_row)
    late = np.flatnonzero(matches.starts + matches.lengths > limits[matches.starts])
    partition = np.searchsorted(firsts, matches.starts[late], "right") - 1
    bounds = bounds.copy()
    np.minimum.at(bounds, partition, matches.starts[late])
    if not len(late):
        return matches, late
    is_done = matches.starts < bounds[np.searchsorted(firsts, matches.starts, "right") - 1]
    candidates = two_pass.candidates()
    is_open = candidates >= bounds[np.searchsorted(firsts, candidates, "right") - 1]
    return select(matches, np.flatnonzero(is_done)), candidates[is_open]


def _in_order(some: Matches, others: Matches) -> Matches:
    both = concatenate([some, others])
    return select(both, np.argsort(both.starts, kind="stable")) if len(others.starts) else some


def deadlines(times: Rows, ends: Rows, within: int) -> Rows:
    """For each row the first row of its partition that is too late for a match from it, or the partition's end.

    >>> deadlines(np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist()
    [2, 3, 3, 5, 5]
    """
    firsts, lasts = partitions(ends)
    check_ascending(times, firsts)
    found = np.repeat(lasts, lasts - firsts)
    durations = times[lasts - 1].astype(np.float64) - times[firsts]
    long = (lasts - firsts > LONG) & (durations < 2**61)  # the ages of the others may have more than 63 bits
    for first, last in zip(firsts[long].tolist(), lasts[long].tolist(), strict=True):
        age = times[first:last] - times[first]
        found[first:last] = first + np.searchsorted(age, age + min(within, int(age[-1]) + 1), "left")
    rows = np.flatnonzero(np.repeat(~long, lasts - firsts))
    found[rows] = _first_late(times, rows, found[rows], within)
    # With a `within` of 0 earlier rows of the same time are too late already.
    return np.maximum(found, np.arange(len(found)))


def deadlines_of(starts: Rows, times: Rows, ends: Rows, within: int) -> Rows:
    """`deadlines` of these rows only; times must ascend.

    >>> deadlines_of(np.array([1, 3]), np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist()
    [3, 5]
    """
    return np.maximum(_first_late(times, starts, ends[np.searchsorted(ends, starts, "right")], within), starts)


def earliest_starts(rows: Rows, times: Rows, ends: Rows, within: int) -> Rows:
    """For each of these rows the first row of its partition whose matches may reach it; the row itself if there is none.

    >>> earliest_starts(np.array([2, 4]), np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist()
    [1, 3]
    """
    low, high = np.concatenate([np.zeros(1, np.int64), ends])[np.searchsorted(ends, rows, "right")], rows.copy()
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) // 2
        late = elapsed(times[middle], times[rows]) >= within
        low, high = np.where(late & (middle < high), middle + 1, low), np.where(late, high, middle)
    return low


def elapsed(times: Rows, later: Rows) -> NDArray[np.uint64]:
    """The time from each of these times to a later one, which may have 64 bits."""
    return (later - times).view(np.uint64)


def check_ascending(times: Rows, firsts: Rows) -> None:
    """Raises ValueError where times descend within a partition."""
    descends = times[1:] < times[:-1]
    descends[firsts[1:] - 1] = False
    if descends.any():
        row = int(np.argmax(descends))
        raise ValueError(f"a row of time {times[row + 1]} comes after time {times[row]}")


def _first_late(times: Rows, rows: Rows, ends: Rows, within: int) -> Rows:
    """For each row the first one before its end that is too late, by one bisection for all."""

    low, high = rows.copy(), ends.copy()
    within = min(within, np.iinfo(np.int64).max)
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) // 2
        in_time = elapsed(times[rows], times.take(middle, mode="clip")) < within
        in_time &= middle < high
        low, high = np.where(in_time, middle + 1, low), np.where(in_time, high, middle)
    return low
