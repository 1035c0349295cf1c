"""Runs a deterministic automaton over long words in numpy: a word is cut into segments, and all segments step together.

A segment's first state is a guess until the segment before it has been read. Segments that began in a wrong state are run
again until they reach a state they were in before, which takes most automata a few symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nfa.errors import BudgetError

SEGMENTS = 16_384
"""The most segments: enough to hide the cost of a numpy call, few enough to stay in the processor's cache."""

SMALL = 4_096
"""Words up to this length are read symbol by symbol."""

STEPS = 128
"""The fewest symbols in a segment."""

ROUNDS = 12
"""How often wrong segments are run again together before they are repaired one after the other."""

BLOCK = 16
"""The number of symbols read between two checks whether the table had all transitions."""

STEP_PRICE = 100.0
"""The cost of one step of several searches together; reading one symbol of one search alone costs 1."""

SEARCH_PRICE = 1 / 30
"""The cost that each search adds to such a step."""

ALONE_PRICE = 60.0
"""The cost of beginning to read a search alone."""

CELL_LIMIT = 8_000_000
"""The most cells of one table."""

Ints: TypeAlias = NDArray[np.intp]
Grid: TypeAlias = NDArray[np.integer[Any]]


class Table:
    """An automaton that is built while it runs: `step(state, symbol)` is called once for each transition that is used.

    States count from 1, and symbols from 0 to below `width`. In `cells` a state is the offset of its row; 0 stands for a
    transition that is not known yet.

    >>> parity = Table(2, lambda state, symbol: 3 - state if symbol else state)
    >>> parity.follow([1, 0, 1, 1], 1)
    [2, 2, 1, 2]
    """

    def __init__(self, width: int, step: Callable[[int, int], int]) -> None:
        self.width = width
        self.cells: Ints = np.zeros(8 * width, np.intp)
        self._step = step
        self._known: dict[int, int] = {}

    def at(self, cell: int) -> int:
        """The offset of the state that a cell leads to."""
        after = self._known.get(cell)
        if after is None:
            after = self._known[cell] = self._step(*divmod(cell, self.width)) * self.width
            self._reserve(max(after, cell) + self.width)
            self.cells[cell] = after
        return after

    def look(self, cells: Ints) -> Ints:
        """The offsets of the states that the cells lead to; computes unknown transitions."""
        after = self.cells.take(cells, mode="clip")
        if not after.all():
            for cell in np.unique(cells[after == 0]).tolist():
                self.at(cell)
            after = self.cells.take(cells)
        return after

    def offset(self, state: int) -> int:
        """The index of the state's first cell."""
        self._reserve((state + 1) * self.width)
        return state * self.width

    def walk(self, symbols: list[int], offset: int) -> list[int]:
        """The offset of the state after each symbol."""
        known, found = self._known, []
        for symbol in symbols:
            after = known.get(offset + symbol)
            offset = self.at(offset + symbol) if after is None else after
            found.append(offset)
        return found

    def follow(self, symbols: list[int], state: int) -> list[int]:
        """The state after each symbol."""
        return [offset // self.width for offset in self.walk(symbols, self.offset(state))]

    def _reserve(self, length: int) -> None:
        if length > CELL_LIMIT:
            raise BudgetError(f"the pattern needs a table of more than {CELL_LIMIT} cells")
        if length > len(self.cells):
            more = np.zeros(max(length, 2 * len(self.cells)) - len(self.cells), np.intp)
            self.cells = np.concatenate([self.cells, more])


def shape(count: int, segments: int | None = None) -> tuple[int, int]:
    """The number of symbols in a segment, and of segments, for a word of this length, which has to be padded to fit.

    >>> shape(4_000), shape(1_000_000), shape(10, segments=3)
    ((4000, 1), (129, 7752), (4, 3))
    """
    if segments is None:
        segments = 1 if count <= SMALL else min(SEGMENTS, count // STEPS)
    steps = -(-count // segments)
    return steps, -(-count // steps) if steps else 1


def to_grid(word: Grid, steps: int, segments: int) -> Grid:
    """The word with a column for each segment, a row for each step."""
    return np.ascontiguousarray(word.reshape(segments, steps).T)


def to_word(grid: Grid) -> Grid:
    """The word of a grid."""
    return np.ascontiguousarray(grid.T).reshape(-1)


def run(table: Table, grid: Grid, state: int, backward: bool = False) -> Grid:
    """The state after each symbol (before it, when read backward), for a word that is read from this state on."""
    start = table.offset(state)
    steps, segments = grid.shape
    order = slice(None, None, -1 if backward else 1)
    symbols, result = grid[order], np.empty(grid.shape, np.int32)
    states = result[order]
    if segments == 1:
        states[:, 0] = table.walk(symbols[:, 0].tolist(), start)
    elif steps:
        _run_segments(table, symbols, states, start, order)
    result //= table.width
    return result


def _run_segments(table: Table, symbols: Grid, states: Grid, start: int, order: slice) -> None:
    segments = symbols.shape[1]
    guesses = np.full(segments, start, np.intp)
    _advance(table, symbols, states, guesses)
    for _ in range(ROUNDS):
        firsts = _first_states(states[-1, order], start)[order]
        wrong = np.flatnonzero(firsts != guesses)
        if not len(wrong):
            return
        guesses[wrong] = firsts[wrong]
        _run_again(table, symbols, states, wrong, firsts[wrong])
    for segment in range(segments)[order]:
        start = _repair(table, symbols[:, segment], states[:, segment], start)


def _first_states(ends: Grid, start: int) -> Ints:
    # Each segment begins in the state in which the one before it ends.
    return np.concatenate([np.array([start], np.intp), ends[:-1]])


def _advance(table: Table, symbols: Grid, states: Grid, firsts: Ints) -> None:
    """Steps all segments through the symbols; writes the state after each into `states`."""
    offsets = firsts.copy()
    for first in range(0, len(symbols), BLOCK):
        block = slice(first, first + BLOCK)
        before = offsets.copy()
        _step_blindly(table, symbols[block], states[block], offsets)
        if not offsets.all():
            offsets = before
            _step_and_learn(table, symbols[block], states[block], offsets)


def _step_blindly(table: Table, symbols: Grid, states: Grid, offsets: Ints) -> None:
    # A segment that meets an unknown transition stays in state 0, whose cells are all 0.
    cells = np.empty_like(offsets)
    for symbol, state in zip(symbols, states, strict=True):
        np.add(offsets, symbol, out=cells)
        table.cells.take(cells, out=offsets, mode="clip")
        state[:] = offsets


def _step_and_learn(table: Table, symbols: Grid, states: Grid, offsets: Ints) -> None:
    for symbol, state in zip(symbols, states, strict=True):
        offsets[:] = table.look(offsets + symbol)
        state[:] = offsets


def _run_again(table: Table, symbols: Grid, states: Grid, segments: Ints, firsts: Ints) -> None:
    """Runs some segments from another state, each until it is in a state that it was in before."""
    first = 0
    while first < len(symbols) and len(segments):
        block = slice(first, first + BLOCK)
        again = np.empty((len(symbols[block]), len(segments)), np.int32)
        _advance(table, symbols[block, segments], again, firsts)
        differs = again[-1] != states[block][-1, segments]
        states[block, segments] = again
        firsts, segments = again[-1, differs].astype(np.intp), segments[differs]
        first += BLOCK


def _repair(table: Table, symbols: Grid, states: Grid, offset: int) -> int:
    # `_run_again` for one segment, symbol by symbol.
    for first in range(0, len(symbols), SMALL):
        block = slice(first, first + SMALL)
        again = table.walk(symbols[block].tolist(), offset)
        offset = again[-1]
        known = int(states[block][-1])
        states[block] = again
        if offset == known:
            break
    return int(states[-1])


def is_better_alone(searches: int, depth: int) -> bool:
    """Whether the searches open after `depth` steps are cheaper to finish one by one, if as many steps again are to come.

    >>> is_better_alone(1, 2), is_better_alone(90, 100), is_better_alone(10, 100)
    (True, False, True)
    """
    return searches * (ALONE_PRICE + depth) <= STEP_PRICE * depth


def count_alone(lengths: NDArray[np.int64], copies: float = 1.0) -> int:
    """The number of searches, from the longest on, that are cheaper alone while the others are run together.

    `lengths` descend; `copies` is the number of searches of each length.

    >>> count_alone(np.array([1_000_000] + 1000 * [5])), count_alone(np.full(1000, 5))
    (1, 0)
    """
    alone = np.append(0, np.cumsum(lengths + ALONE_PRICE))
    return int(np.argmin(copies * alone + STEP_PRICE * np.append(lengths, 0)))


def price(steps: NDArray[np.int64], copies: float = 1.0) -> float:
    """The estimated cost of searches that read `steps[i]` symbols, run together but for the longest ones.

    With `copies` searches of each length, the share of one copy.

    >>> price(np.full(10, 5)) > price(np.full(10, 5), copies=100)
    True
    """
    longest = -np.sort(-steps)
    alone = count_alone(longest, copies)
    together = float(longest[alone]) if alone < len(longest) else 0.0
    return STEP_PRICE * together / copies + SEARCH_PRICE * float(longest[alone:].sum()) + alone_price(longest[:alone])


def alone_price(steps: NDArray[np.int64]) -> float:
    """The estimated cost of the same searches one by one."""
    return float(steps.sum()) + ALONE_PRICE * len(steps)
