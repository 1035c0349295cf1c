"""The search of `nfa.arrays.many_starts` as machine code, where numba is installed: one start after the other.

The search is compiled once for each source of the conditions, which takes a second or two, so it is for many rows. Without
numba, or for a pattern of too many symbols, `nfa.arrays.many_starts` finds the same matches.
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
from nfa.arrays.lazy_dfa import DIRECT_SYMBOLS, ENDS_HERE, IS_MATCH, IS_SETTLED, LazyDFA
from nfa.arrays.matches import Codes, Matches, Rows, SymbolSets, offsets, partitions
from nfa.arrays.skip_chain import check_result
from nfa.program import Program
from nfa.skip import Skip, past_last_row, to_next_row
from nfa.threads.transitions import Transitions

COMPILE_FROM = 4_000_000
"""The number of rows from which on a search in numpy takes longer than compiling."""

RUN_COMPILED_FROM = 100_000
"""The number of rows from which on an already compiled search is used; below, numpy is fast enough."""

STARTS_AT_ONCE = 1 << 18
"""Starts per call of compiled code; between calls Python sees interrupts and the limit of result rows."""

MATCHES_AT_ONCE = 1 << 15
"""Matches per call of the compiled function that finds their instructions."""

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")

_compiled: set[str] = set()


def is_faster(source: str, rows: int) -> bool:
    """Whether the compiled search is available, and faster for conditions of this source over this number of rows.

    >>> is_faster("symbol_set &= 1", 1_000)
    False
    """
    return rows >= (RUN_COMPILED_FROM if source in _compiled else COMPILE_FROM) and is_installed()


def supports(program: Program, skip: Skip) -> bool:
    """Whether the pattern has few enough symbols, and the skip mode does not depend on the rows of a match."""
    return len(Transitions(program).symbols) <= DIRECT_SYMBOLS and skip in (past_last_row, to_next_row)


@functools.cache
def is_installed() -> bool:
    """Whether numba can be imported, and supports the installed numpy; this imports it."""
    try:
        importlib.import_module("numba")
    except ImportError:
        return False
    return True


def scan_compiled(
    program: Program,
    source: str,
    columns: Sequence[NDArray[Any]],
    symbol_sets: SymbolSets,
    ends: Rows,
    skip: Skip = past_last_row,
    *,
    limits: Rows | None = None,
) -> Matches:
    """The same result as `scan_starts`.

    Args:
        source: Python source that clears the bits of `symbol_set` for symbols ruled out by the match starting at `start`.
            It reads `columns[n][row]` and `columns[n][start]`, and numba must be able to compile it.

    >>> from nfa import compile_program, parse_pattern
    >>> values = np.array([3, 1, 2, 4, 1])
    >>> source = "if not columns[0][row] < columns[0][start]: symbol_set &= ~2"
    >>> if is_installed():
    ...     program = compile_program(parse_pattern("A B+"))
    ...     matches = scan_compiled(program, source, [values], np.full(5, 3, np.uint8), np.array([5]))
    ...     assert (matches.starts.tolist(), matches.lengths.tolist()) == ([0, 3], [3, 2])
    """
    firsts, lasts = partitions(ends)
    limits = np.repeat(lasts, lasts - firsts) if limits is None else limits
    search = _CompiledSearch(program, source, _SearchInput(tuple(columns), symbol_sets, firsts, lasts, limits))
    return search.matches(disjoint=skip is past_last_row)


def deadlines(times: Rows, ends: Rows, within: int) -> Rows:
    """The same result as `nfa.arrays.deadlines.deadlines`, in one pass over the rows.

    >>> if is_installed():
    ...     assert deadlines(np.array([0, 5, 9, 20, 21]), np.array([3, 5]), 9).tolist() == [2, 3, 3, 5, 5]
    """
    check_ascending(times, partitions(ends)[0])
    found = np.empty(len(times), np.int64)
    _functions().deadlines(times, ends, min(within, np.iinfo(np.int64).max), found)
    return found


class _SearchInput(NamedTuple):
    """The columns that conditions read, the partitions' first rows and ends, and the row that ends a match from each row."""

    columns: tuple[NDArray[Any], ...]
    symbol_sets: SymbolSets
    firsts: Rows
    ends: Rows
    limits: Rows


class _StateTables(NamedTuple):
    """The tables of a LazyDFA; the state before a match in general (`start`) and at a partition's first row (`first_start`)."""

    cells: NDArray[np.intp]
    flags: NDArray[np.uint8]
    width: int
    start: int
    first_start: int


class _ThreadTables(NamedTuple):
    """The tables of a LazyDFA that lead back over a match; `threads` has the number of threads of each state."""

    threads: NDArray[np.intp]
    closing: NDArray[np.intp]
    bases: NDArray[np.intp]
    parents: NDArray[np.intp]
    codes: Codes


class _CompiledSearch:
    """Runs the compiled functions on all cores."""

    def __init__(self, program: Program, source: str, rows: _SearchInput) -> None:
        self.machine, self.rows, self.symbol_set_of = LazyDFA(Transitions(program)), rows, _symbol_set_function(source)
        self.lock = threading.Lock()
        _compiled.add(source)

    def matches(self, disjoint: bool) -> Matches:
        several = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        total = 0
        for starts, ends in _in_parallel(lambda piece: self.piece(*piece, disjoint), self.pieces(disjoint)):
            total += int((ends - starts).sum())
            check_result(total)
            several.append((starts, ends))
        starts, ends = (np.concatenate(both) for both in zip(*several, strict=True))
        return Matches(starts, ends - starts, self.codes(starts, ends))

    def pieces(self, disjoint: bool) -> list[tuple[int, int]]:
        """The rows in pieces that are searched independently: whole partitions, where a match moves the next start."""
        count = len(self.rows.symbol_sets)
        cuts = np.arange(0, count, STARTS_AT_ONCE)
        if disjoint:
            cuts = np.unique(self.rows.firsts[np.searchsorted(self.rows.firsts, cuts, "right") - 1])
        return list(itertools.pairwise([*cuts.tolist(), count]))

    def piece(self, row: int, last: int, disjoint: bool) -> tuple[Rows, Rows]:
        """The matches from the starts of a piece."""
        search, tables = _functions().search, self.tables()
        starts, ends = np.empty(last - row, np.int64), np.empty(last - row, np.int64)
        count = 0
        while row < last:
            rest = starts[count:], ends[count:]
            row, more, unknown = search(self.symbol_set_of, self.rows, tables, row, last, disjoint, *rest)
            count += more
            if unknown >= 0:
                tables = self.tables(unknown)
        return starts[:count].copy(), ends[:count].copy()

    def codes(self, starts: Rows, ends: Rows) -> Codes:
        """The instructions that took the rows of these matches."""
        machine, places = self.machine, offsets(ends - starts)
        threads = np.array([len(threads) for threads in machine.threads], np.intp)
        parents, codes = np.array(machine.parents, np.intp), np.array(machine.codes, np.int32)
        back = _ThreadTables(threads, np.array(machine.closing, np.intp), machine.bases(), parents, codes)
        tables, result = self.tables(), np.empty(int(places[-1]), np.int32)

        def trace(piece: tuple[int, int]) -> None:
            own = slice(*piece)
            cells = np.empty(int((ends[own] - starts[own]).max(initial=0)), np.intp)
            _functions().trace(
                self.symbol_set_of, self.rows, tables, back, starts[own], ends[own], places[own], cells, result
            )

        cuts = [*range(0, len(starts), MATCHES_AT_ONCE), len(starts)]
        for _ in _in_parallel(trace, list(itertools.pairwise(cuts))):
            pass
        return result

    def tables(self, unknown: int = -1) -> _StateTables:
        """A copy of the tables, as other threads extend them, after computing the transition of the cell `unknown`."""
        machine = self.machine
        with self.lock:
            if unknown >= 0:
                machine.table.at(unknown)
            return _StateTables(machine.table.cells.copy(), machine.flags, machine.width, *machine.start_offsets)


def _in_parallel(work: Callable[[_Piece], _Result], pieces: Sequence[_Piece]) -> Iterator[_Result]:
    """The results of `work` for all pieces, in their order, computed on all cores; stops when the caller stops iterating."""
    pool = ThreadPoolExecutor(cores())
    try:
        yield from pool.map(work, pieces)
    finally:
        pool.shutdown(cancel_futures=True)


# Functions to compile: plain loops over arrays ------------------------------------------------------------------------


def _search(
    symbol_set_of: Any, rows: Any, tables: Any, row: int, last: int, disjoint: bool, starts: Any, ends: Any
) -> tuple[int, int, int]:
    """Writes the matches from the starts `row` to before `last`.

    Returns:
        The row to continue at, the number of matches, and the cell of an unknown transition that stopped the search, or -1.
    """
    partition = np.searchsorted(rows.ends, row, "right")
    count = 0
    while row < last:
        while rows.ends[partition] <= row:
            partition += 1
        end, limit = rows.ends[partition], rows.limits[row]
        state = tables.first_start if rows.firsts[partition] == row else tables.start
        at, best = row, -1
        while True:
            flags = tables.flags[state]
            if flags & IS_MATCH != 0 or (at == limit and limit == end and flags & ENDS_HERE != 0):
                best = at
            if flags & IS_SETTLED != 0 or at == limit:
                break
            cell = state + symbol_set_of(rows.columns, rows.symbol_sets, row, at)
            state = tables.cells[cell]
            if state == 0:
                return row, count, cell
            at += 1
        if best >= 0:
            starts[count], ends[count] = row, best
            count += 1
        row = best if disjoint and best > row else row + 1
    return row, count, -1


def _trace(
    symbol_set_of: Any, rows: Any, tables: Any, back: Any, starts: Any, ends: Any, places: Any, cells: Any, codes: Any
) -> None:
    """Writes the instructions of the rows of each match.

    Runs over the match again, storing `cells`, and then back along them.
    """
    partition = 0 if len(starts) == 0 else np.searchsorted(rows.ends, starts[0], "right")
    for number in range(len(starts)):
        start, last = starts[number], ends[number]
        while rows.ends[partition] <= start:
            partition += 1
        state = tables.first_start if rows.firsts[partition] == start else tables.start
        for at in range(start, last):
            cell = state + symbol_set_of(rows.columns, rows.symbol_sets, start, at)
            cells[at - start] = cell
            state = tables.cells[cell]
        state_number = state // tables.width
        place = back.closing[state_number] if last == rows.ends[partition] else back.threads[state_number] - 1
        for step in range(last - start - 1, -1, -1):
            thread = back.bases[cells[step]] + place
            codes[places[number] + step] = back.codes[thread]
            place = back.parents[thread]


def _deadlines(times: Any, ends: Any, within: int, found: Any) -> None:
    """Writes for each row the first one of its partition that is too late; both indexes only grow."""
    row = late = 0
    for end in ends:
        while row < end:
            late = max(late, row)
            while late < end and 0 <= times[late] - times[row] < within:
                late += 1
            found[row] = late
            row += 1


@functools.lru_cache(maxsize=64)
def _symbol_set_function(source: str) -> Any:
    """The compiled function that returns the symbol set of a row in the match from a start."""
    lines = ["def symbol_set_of(columns, symbol_sets, start, row):", "    symbol_set = int(symbol_sets[row])"]
    scope: dict[str, Any] = {}
    exec("\n".join([*lines, *(f"    {line}" for line in source.splitlines()), "    return symbol_set"]), scope)
    return compile_function(scope["symbol_set_of"])


class _Functions(NamedTuple):
    search: Any
    trace: Any
    deadlines: Any


@functools.cache
def _functions() -> _Functions:
    return _Functions(compile_function(_search), compile_function(_trace), compile_function(_deadlines))


def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, for the argument types of its first call."""
    import numba

    compiled: Callable[..., Any] = numba.njit(function, nogil=True)
    return compiled


def clear_caches() -> None:
    """Forgets the compiled functions."""
    _compiled.clear()
    _symbol_set_function.cache_clear()
    _functions.cache_clear()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
