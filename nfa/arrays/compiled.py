"""`nfa.arrays.many_starts` as machine code, where numba is installed: one start after the other, with no row looked at in vain.

The search and the way back over a match are compiled once for each text of the letters, which takes a second or two: it
is for many rows. Where numba is missing, or a pattern has too many symbols, `nfa.arrays.many_starts` finds the same.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nfa.arrays.deadlines import check_ascending
from nfa.arrays.lazy_dfa import DIRECT_SYMBOLS, ENDS_HERE, IS_MATCH, IS_SETTLED, Determined
from nfa.arrays.matches import Codes, Found, Letters, Rows, offsets, partitions
from nfa.arrays.skip_chain import check_result
from nfa.program import Program
from nfa.skip import Skip, past_last_row, to_next_row
from nfa.threads.transitions import Closures

WORTH = 4_000_000
"""From so many rows on it takes longer to search in numpy than to compile."""

WORTH_AGAIN = 100_000
"""The same of what is compiled already: below, numpy takes less than a blink, too."""

STARTS_AT_ONCE = 1 << 18
"""How many starts are searched before Python hears of it: of an interrupt, and of matches that are too many."""

MATCHES_AT_ONCE = 1 << 15
"""The same of matches whose way is found."""

_Piece = TypeVar("_Piece")
_Told = TypeVar("_Told")

_compiled: set[str] = set()


def pays(text: str, rows: int) -> bool:
    """Whether these letters over so many rows should be searched here, and can be.

    >>> pays("letter", 1_000)
    False
    """
    return rows >= (WORTH_AGAIN if text in _compiled else WORTH) and is_installed()


def can(program: Program, skip: Skip) -> bool:
    """Whether the search knows the pattern: few symbols, and a mode that does not look at the rows of a match."""
    return len(Closures(program).symbols) <= DIRECT_SYMBOLS and skip in (past_last_row, to_next_row)


@functools.cache
def is_installed() -> bool:
    """Whether numba is there and goes with this numpy; to ask loads it."""
    try:
        importlib.import_module("numba")
    except ImportError:
        return False
    return True


def scan_compiled(
    program: Program,
    text: str,
    columns: Sequence[NDArray[Any]],
    letters: Letters,
    ends: Rows,
    skip: Skip = past_last_row,
    *,
    limits: Rows | None = None,
) -> Found:
    """What `scan_lanes` gives. `text`: Python that says of `letter` what is not so in the match that begins at `start`.

    It reads `columns[n][row]` and `columns[n][start]`, and is compiled, so it must be such that numba can.

    >>> from nfa import compile_program, parse_pattern
    >>> values = np.array([3, 1, 2, 4, 1])
    >>> text = "if not columns[0][row] < columns[0][start]: letter &= ~2"
    >>> if is_installed():
    ...     program = compile_program(parse_pattern("A B+"))
    ...     found = scan_compiled(program, text, [values], np.full(5, 3, np.uint8), np.array([5]))
    ...     assert (found.starts.tolist(), found.lengths.tolist()) == ([0, 3], [3, 2])
    """
    firsts, lasts = partitions(ends)
    limits = np.repeat(lasts, lasts - firsts) if limits is None else limits
    return _Search(program, text, _Rows(tuple(columns), letters, firsts, lasts, limits)).found(skip is past_last_row)


def deadlines(times: Rows, ends: Rows, within: int) -> Rows:
    """What `nfa.arrays.deadlines.deadlines` gives, in one go over the rows.

    >>> if is_installed():
    ...     assert deadlines(np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist() == [2, 3, 3, 5, 5]
    """
    check_ascending(times, partitions(ends)[0])
    found = np.empty(len(times), np.int64)
    _functions().deadlines(times, ends, min(within, np.iinfo(np.int64).max), found)
    return found


class _Rows(NamedTuple):
    """What conditions read, the partitions' first rows and ends, and how far a match from each row may go."""

    columns: tuple[NDArray[Any], ...]
    letters: Letters
    firsts: Rows
    ends: Rows
    limits: Rows


class _Moves(NamedTuple):
    """Where each cell leads to, the flags at each state's offset, a state's width, and the state before a match: not at
    the partition's first row, and there."""

    cells: NDArray[np.intp]
    flags: NDArray[np.uint8]
    width: int
    begun: int
    begun_first: int


class _Back(NamedTuple):
    """Which thread came from which: each state's threads, its place for a match at the partition's end, where a cell's
    threads begin, and of each of them the thread before it and the instruction."""

    threads: NDArray[np.intp]
    closing: NDArray[np.intp]
    bases: NDArray[np.intp]
    parents: NDArray[np.intp]
    codes: Codes


class _Search:
    """The rows and the machine for the compiled functions, which run on all cores side by side."""

    def __init__(self, program: Program, text: str, rows: _Rows) -> None:
        self.machine, self.rows, self.letter_of = Determined(Closures(program)), rows, _letter(text)
        self.learning = threading.Lock()
        _compiled.add(text)

    def found(self, disjoint: bool) -> Found:
        several = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        total = 0
        for starts, ends in _side_by_side(lambda piece: self.piece(*piece, disjoint), self.pieces(disjoint)):
            total += int((ends - starts).sum())
            check_result(total)
            several.append((starts, ends))
        starts, ends = (np.concatenate(both) for both in zip(*several, strict=True))
        return Found(starts, ends - starts, self.codes(starts, ends))

    def pieces(self, disjoint: bool) -> list[tuple[int, int]]:
        """The rows in pieces that can be searched on their own: where a match moves the next start, whole partitions."""
        count = len(self.rows.letters)
        cuts = np.arange(0, count, STARTS_AT_ONCE)
        if disjoint:
            cuts = np.unique(self.rows.firsts[np.searchsorted(self.rows.firsts, cuts, "right") - 1])
        return list(itertools.pairwise([*cuts.tolist(), count]))

    def piece(self, row: int, last: int, disjoint: bool) -> tuple[Rows, Rows]:
        """The matches from the starts of a piece."""
        search, moves = _functions().search, self.moves()
        starts, ends = np.empty(last - row, np.int64), np.empty(last - row, np.int64)
        found = 0
        while row < last:
            rest = starts[found:], ends[found:]
            row, more, unknown = search(self.letter_of, self.rows, moves, row, last, disjoint, *rest)
            found += more
            if unknown >= 0:
                moves = self.moves(unknown)
        return starts[:found].copy(), ends[:found].copy()

    def codes(self, starts: Rows, ends: Rows) -> Codes:
        """The instructions of all rows of these matches."""
        machine, places = self.machine, offsets(ends - starts)
        threads = np.array([len(threads) for threads in machine.threads], np.intp)
        parents, codes = np.array(machine.parents, np.intp), np.array(machine.codes, np.int32)
        back = _Back(threads, np.array(machine.closing, np.intp), machine.bases(), parents, codes)
        moves, told = self.moves(), np.empty(int(places[-1]), np.int32)

        def traced(piece: tuple[int, int]) -> None:
            own = slice(*piece)
            way = np.empty(int((ends[own] - starts[own]).max(initial=0)), np.intp)
            _functions().trace(self.letter_of, self.rows, moves, back, starts[own], ends[own], places[own], way, told)

        cuts = [*range(0, len(starts), MATCHES_AT_ONCE), len(starts)]
        for _ in _side_by_side(traced, list(itertools.pairwise(cuts))):
            pass
        return told

    def moves(self, unknown: int = -1) -> _Moves:
        """All that is known, and the move of a cell that was not: a copy, while others learn more."""
        machine = self.machine
        with self.learning:
            if unknown >= 0:
                machine.table.at(unknown)
            return _Moves(machine.table.cells.copy(), machine.flags, machine.width, *machine.begun)


def _side_by_side(work: Callable[[_Piece], _Told], pieces: Sequence[_Piece]) -> Iterator[_Told]:
    """What the work gives for each piece, in their order, done on all cores; not done where nobody waits any more."""
    pool = ThreadPoolExecutor(cores())
    try:
        yield from pool.map(work, pieces)
    finally:
        pool.shutdown(cancel_futures=True)


# Compiled: plain loops over arrays ------------------------------------------------------------------------------------


def _search(
    letter_of: Any, rows: Any, moves: Any, row: int, last: int, disjoint: bool, starts: Any, ends: Any
) -> tuple[int, int, int]:
    """The matches from the starts from `row` to before `last`: the row to go on with, how many, a cell not known yet."""
    part = np.searchsorted(rows.ends, row, "right")
    found = 0
    while row < last:
        while rows.ends[part] <= row:
            part += 1
        end, limit = rows.ends[part], rows.limits[row]
        state = moves.begun_first if rows.firsts[part] == row else moves.begun
        at, best = row, -1
        while True:
            flags = moves.flags[state]
            if flags & IS_MATCH != 0 or (at == limit and limit == end and flags & ENDS_HERE != 0):
                best = at
            if flags & IS_SETTLED != 0 or at == limit:
                break
            cell = state + letter_of(rows.columns, rows.letters, row, at)
            state = moves.cells[cell]
            if state == 0:
                return row, found, cell
            at += 1
        if best >= 0:
            starts[found], ends[found] = row, best
            found += 1
        row = best if disjoint and best > row else row + 1
    return row, found, -1


def _trace(
    letter_of: Any, rows: Any, moves: Any, back: Any, starts: Any, ends: Any, places: Any, way: Any, codes: Any
) -> None:
    """Write the instructions of the rows of each match, going over it once more, and back by `way`."""
    part = 0 if len(starts) == 0 else np.searchsorted(rows.ends, starts[0], "right")
    for number in range(len(starts)):
        start, last = starts[number], ends[number]
        while rows.ends[part] <= start:
            part += 1
        state = moves.begun_first if rows.firsts[part] == start else moves.begun
        for at in range(start, last):
            cell = state + letter_of(rows.columns, rows.letters, start, at)
            way[at - start] = cell
            state = moves.cells[cell]
        number_of = state // moves.width
        place = back.closing[number_of] if last == rows.ends[part] else back.threads[number_of] - 1
        for step in range(last - start - 1, -1, -1):
            there = back.bases[way[step]] + place
            codes[places[number] + step] = back.codes[there]
            place = back.parents[there]


def _deadlines(times: Any, ends: Any, within: int, found: Any) -> None:
    """For each row the first one of its partition that is too late; both only go forward."""
    row = late = 0
    for end in ends:
        while row < end:
            late = max(late, row)
            while late < end and times[late] - times[row] < within:
                late += 1
            found[row] = late
            row += 1


@functools.lru_cache(maxsize=64)
def _letter(text: str) -> Any:
    """The function that gives the letter of a row in the match from a start."""
    lines = ["def letter_of(columns, letters, start, row):", "    letter = int(letters[row])"]
    scope: dict[str, Any] = {}
    exec("\n".join([*lines, *(f"    {line}" for line in text.splitlines()), "    return letter"]), scope)
    return compile_function(scope["letter_of"])


class _Functions(NamedTuple):
    search: Any
    trace: Any
    deadlines: Any


@functools.cache
def _functions() -> _Functions:
    return _Functions(compile_function(_search), compile_function(_trace), compile_function(_deadlines))


def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, for the types of the arguments it is called with first."""
    import numba

    compiled: Callable[..., Any] = numba.njit(function, nogil=True)
    return compiled


def forget() -> None:
    """Forget what has been compiled."""
    _compiled.clear()
    _letter.cache_clear()
    _functions.cache_clear()


# How many things can be done side by side


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
