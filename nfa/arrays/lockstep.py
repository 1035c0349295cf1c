"""Long words through a deterministic automaton in numpy: the word is cut into lanes, and all lanes step together.

Where a lane's first state is not known yet it is guessed; lanes that began in a wrong state are run again until they
come to a state they were in before, which most automata do after a few letters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nfa.errors import BudgetError

LANES = 16_384
"""The most lanes: enough to hide what a numpy call costs, few enough to stay in the processor's cache."""

SMALL = 4_096
"""Words up to this length are read letter by letter."""

STEPS = 128
"""The fewest letters in a lane."""

ROUNDS = 12
"""How often lanes are run again all at once before they are mended one after the other."""

BLOCK = 16
"""How many letters are read between two looks at whether the table knew the way."""

STEP_PRICE = 100.0
"""What a step of several lanes together costs, when a letter read alone costs 1."""

LANE_PRICE = 1 / 30
"""What each lane adds to that."""

ALONE_PRICE = 60.0
"""What it costs to begin to read alone."""

CELL_LIMIT = 8_000_000
"""The most cells of one table."""

Ints: TypeAlias = NDArray[np.intp]
Grid: TypeAlias = NDArray[np.integer[Any]]


class Table:
    """An automaton that is built while it runs: `step(state, letter)` is asked once for each cell that is met.

    States count from 1 and letters from 0 to below `width`. Inside, a state is the offset of its cells; cell 0 and
    the others of state 0 stand for what is not known yet.

    >>> parity = Table(2, lambda state, letter: 3 - state if letter else state)
    >>> parity.follow([1, 0, 1, 1], 1)
    [2, 2, 1, 2]
    """

    def __init__(self, width: int, step: Callable[[int, int], int]) -> None:
        self.width = width
        self.cells: Ints = np.zeros(8 * width, np.intp)
        self._step = step
        self._known: dict[int, int] = {}

    def at(self, cell: int) -> int:
        """The offset of the state that this cell leads to."""
        after = self._known.get(cell)
        if after is None:
            after = self._known[cell] = self._step(*divmod(cell, self.width)) * self.width
            self._reserve(max(after, cell) + self.width)
            self.cells[cell] = after
        return after

    def look(self, cells: Ints) -> Ints:
        """Where the cells lead to, each made known if it was not."""
        after = self.cells.take(cells, mode="clip")
        if not after.all():
            for cell in np.unique(cells[after == 0]).tolist():
                self.at(cell)
            after = self.cells.take(cells)
        return after

    def offset(self, state: int) -> int:
        """The place of the state's first cell."""
        self._reserve((state + 1) * self.width)
        return state * self.width

    def walk(self, letters: list[int], offset: int) -> list[int]:
        """The offset of the state after each letter."""
        known, found = self._known, []
        for letter in letters:
            after = known.get(offset + letter)
            offset = self.at(offset + letter) if after is None else after
            found.append(offset)
        return found

    def follow(self, letters: list[int], state: int) -> list[int]:
        """The state after each letter."""
        return [offset // self.width for offset in self.walk(letters, self.offset(state))]

    def _reserve(self, length: int) -> None:
        if length > CELL_LIMIT:
            raise BudgetError(f"the pattern needs a table of more than {CELL_LIMIT} cells")
        if length > len(self.cells):
            more = np.zeros(max(length, 2 * len(self.cells)) - len(self.cells), np.intp)
            self.cells = np.concatenate([self.cells, more])


def shape(count: int, lanes: int | None = None) -> tuple[int, int]:
    """Letters in a lane and lanes for a word of this length; the word has to be filled up to fit.

    >>> shape(4_000), shape(1_000_000), shape(10, lanes=3)
    ((4000, 1), (129, 7752), (4, 3))
    """
    if lanes is None:
        lanes = 1 if count <= SMALL else min(LANES, count // STEPS)
    steps = -(-count // lanes)
    return steps, -(-count // steps) if steps else 1


def gridded(word: Grid, steps: int, lanes: int) -> Grid:
    """The word with a column for each lane, a row for each step."""
    return np.ascontiguousarray(word.reshape(lanes, steps).T)


def flat(grid: Grid) -> Grid:
    """The word again."""
    return np.ascontiguousarray(grid.T).reshape(-1)


def run(table: Table, grid: Grid, state: int, backward: bool = False) -> Grid:
    """The state after each letter (before it, when read backward), for a word that is read from this state on."""
    start = table.offset(state)
    steps, lanes = grid.shape
    order = slice(None, None, -1 if backward else 1)
    letters, found = grid[order], np.empty(grid.shape, np.int32)
    states = found[order]
    if lanes == 1:
        states[:, 0] = table.walk(letters[:, 0].tolist(), start)
    elif steps:
        _run_lanes(table, letters, states, start, order)
    found //= table.width
    return found


def _run_lanes(table: Table, letters: Grid, states: Grid, start: int, order: slice) -> None:
    lanes = letters.shape[1]
    begun = np.full(lanes, start, np.intp)
    _advance(table, letters, states, begun)
    for _ in range(ROUNDS):
        wanted = _joined(states[-1, order], start)[order]
        wrong = np.flatnonzero(wanted != begun)
        if not len(wrong):
            return
        begun[wrong] = wanted[wrong]
        _run_again(table, letters, states, wrong, wanted[wrong])
    for lane in range(lanes)[order]:
        start = _mend(table, letters[:, lane], states[:, lane], start)


def _joined(ends: Grid, start: int) -> Ints:
    # Each lane begins where the one before it ends.
    return np.concatenate([np.array([start], np.intp), ends[:-1]])


def _advance(table: Table, letters: Grid, states: Grid, begun: Ints) -> None:
    """Step all lanes through the letters; `states` takes the state after each."""
    offsets = begun.copy()
    for first in range(0, len(letters), BLOCK):
        block = slice(first, first + BLOCK)
        before = offsets.copy()
        _step_blindly(table, letters[block], states[block], offsets)
        if not offsets.all():
            offsets = before
            _step_and_learn(table, letters[block], states[block], offsets)


def _step_blindly(table: Table, letters: Grid, states: Grid, offsets: Ints) -> None:
    # A lane that meets an unknown cell stays in state 0, for letters that are within the table.
    cells = np.empty_like(offsets)
    for letter, state in zip(letters, states, strict=True):
        np.add(offsets, letter, out=cells)
        table.cells.take(cells, out=offsets, mode="clip")
        state[:] = offsets


def _step_and_learn(table: Table, letters: Grid, states: Grid, offsets: Ints) -> None:
    for letter, state in zip(letters, states, strict=True):
        offsets[:] = table.look(offsets + letter)
        state[:] = offsets


def _run_again(table: Table, letters: Grid, states: Grid, lanes: Ints, begun: Ints) -> None:
    """Run some lanes from another state, each until it is in a state that it was in before."""
    first = 0
    while first < len(letters) and len(lanes):
        block = slice(first, first + BLOCK)
        again = np.empty((len(letters[block]), len(lanes)), np.int32)
        _advance(table, letters[block, lanes], again, begun)
        differs = again[-1] != states[block][-1, lanes]
        states[block, lanes] = again
        begun, lanes = again[-1, differs].astype(np.intp), lanes[differs]
        first += BLOCK


def _mend(table: Table, letters: Grid, states: Grid, offset: int) -> int:
    # The same for one lane, letter by letter.
    for first in range(0, len(letters), SMALL):
        block = slice(first, first + SMALL)
        again = table.walk(letters[block].tolist(), offset)
        offset = again[-1]
        known = int(states[block][-1])
        states[block] = again
        if offset == known:
            break
    return int(states[-1])


def is_better_alone(lanes: int, depth: int) -> bool:
    """Whether so few lanes are left after so many steps that each should go on alone, if as much is still to come.

    >>> is_better_alone(1, 2), is_better_alone(90, 100), is_better_alone(10, 100)
    (True, False, True)
    """
    return lanes * (ALONE_PRICE + depth) <= STEP_PRICE * depth


def how_many_alone(lengths: NDArray[np.int64], like: float = 1.0) -> int:
    """How many of these lanes, the longest first, should be read alone and the others together.

    `like`: how many lanes of each length there are.

    >>> how_many_alone(np.array([1_000_000] + 1000 * [5])), how_many_alone(np.full(1000, 5))
    (1, 0)
    """
    alone = np.append(0, np.cumsum(lengths + ALONE_PRICE))
    return int(np.argmin(like * alone + STEP_PRICE * np.append(lengths, 0)))


def price(steps: NDArray[np.int64], like: float = 1.0) -> float:
    """What it has cost to read so many letters in each lane: together, and those that went far alone.

    With so many lanes `like` each of them, what each of the given ones would have cost.

    >>> price(np.full(10, 5)) > price(np.full(10, 5), like=100)
    True
    """
    longest = -np.sort(-steps)
    alone = how_many_alone(longest, like)
    together = float(longest[alone]) if alone < len(longest) else 0.0
    return STEP_PRICE * together / like + LANE_PRICE * float(longest[alone:].sum()) + alone_price(longest[:alone])


def alone_price(steps: NDArray[np.int64]) -> float:
    """What it would have cost to read each lane alone."""
    return float(steps.sum()) + ALONE_PRICE * len(steps)
