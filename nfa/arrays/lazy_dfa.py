"""The thread machine made deterministic while it runs: a state is all its threads, in preference order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nfa.arrays.lockstep import Ints, Table
from nfa.arrays.matches import Letters
from nfa.errors import BudgetError
from nfa.threads.transitions import Closures

DIRECT_SYMBOLS = 10
"""Up to so many symbols a letter is its own class."""

CLASS_LIMIT = 4_096
"""The most distinct letters of patterns with more symbols."""

PLACE_LIMIT = 10_000_000
"""The most threads of all states and moves together."""

IS_MATCH, IS_SETTLED, ENDS_HERE = 1, 2, 4


class Classes:
    """Numbers for the letters, in order of appearance.

    >>> classes = Classes(20)
    >>> classes.of(np.array([70000, 5, 70000], np.uint32)).tolist()
    [1, 0, 1]
    """

    def __init__(self, symbols: int) -> None:
        self._direct = symbols <= DIRECT_SYMBOLS
        self._used = (1 << symbols) - 1
        self.width = 1 << symbols if self._direct else CLASS_LIMIT
        self._sorted = np.zeros(0, np.uint64)
        self._numbers = np.zeros(0, np.intp)
        self._letters: list[int] = []

    def letter(self, number: int) -> int:
        """The letter with this number."""
        return number if self._direct else self._letters[number]

    def of(self, letters: Letters) -> Ints:
        """The number of each letter."""
        wide = letters & np.array(min(self._used, np.iinfo(letters.dtype).max), letters.dtype)
        if self._direct:
            return wide.astype(np.intp)
        self._learn(wide.astype(np.uint64))
        numbers: Ints = self._numbers.take(np.searchsorted(self._sorted, wide.astype(np.uint64)))
        return numbers

    def _learn(self, letters: NDArray[np.uint64]) -> None:
        places = np.searchsorted(self._sorted, letters)
        known = np.append(self._sorted, np.zeros(1, np.uint64)).take(places) == letters
        new = np.unique(letters[~known | (places == len(self._sorted))])
        if not len(new):
            return
        if len(self._letters) + len(new) > CLASS_LIMIT:
            raise BudgetError(f"the rows have more than {CLASS_LIMIT} distinct letters")
        self._letters += new.tolist()
        merged = np.concatenate([self._sorted, new])
        order = np.argsort(merged)
        first = len(self._numbers)
        self._numbers = np.concatenate([self._numbers, np.arange(first, first + len(new))])[order]
        self._sorted = merged[order]


class Determined:
    """States, moves and, for each move, which thread comes from which."""

    def __init__(self, closures: Closures) -> None:
        self._closures = closures
        self.classes = Classes(len(closures.symbols))
        self.width = self.classes.width
        self.table = Table(self.width, self._step)
        self.threads: list[tuple[int, ...]] = [()]
        self.closing: list[int] = [-1]
        self._numbers: dict[tuple[int, ...], int] = {}
        self._flags: list[int] = [IS_SETTLED]
        self._bases: dict[int, int] = {}
        self.parents: list[int] = []
        self.codes: list[int] = []
        self._places = 0
        self._arrays: tuple[int, NDArray[np.uint8]] = (0, np.zeros(0, np.uint8))
        self.begun = [self.table.offset(self._number(closures.begin(at_start))) for at_start in (False, True)]

    @property
    def flags(self) -> NDArray[np.uint8]:
        """At a state's offset whether it has a match, no later row matters, and it is a match if the partition ends."""
        if self._arrays[0] != len(self._flags):
            self._arrays = len(self._flags), np.repeat(np.array(self._flags, np.uint8), self.width)
        return self._arrays[1]

    def bases(self) -> Ints:
        """For each cell where its threads begin in `parents` and `codes`."""
        found = np.zeros(len(self.table.cells), np.intp)
        found[list(self._bases)] = list(self._bases.values())
        return found

    def base(self, cell: int) -> int:
        """Where the threads of the cell begin in `parents` and `codes`."""
        return self._bases[cell]

    def last_place(self, offset: int, at_end: bool) -> int:
        """The place of the thread that is the preferred match, where a match ends in this state."""
        state = offset // self.width
        return self.closing[state] if at_end else len(self.threads[state]) - 1

    def _step(self, state: int, number: int) -> int:
        letter = self.classes.letter(number)
        came: dict[int, int] = {}
        for place, waiting in enumerate(self.threads[state]):
            if self._closures.bits.get(waiting, 0) & letter:
                for there in self._closures.after(waiting):
                    came.setdefault(there, place)
                if self._closures.done in came:
                    break
        self._bases[state * self.width + number] = len(self.parents)
        self.parents += came.values()
        self.codes += [self.threads[state][place] for place in came.values()]
        self._count(len(came) + len(self.threads[state]))
        return self._number(tuple(came))

    def _number(self, threads: tuple[int, ...]) -> int:
        number = self._numbers.setdefault(threads, len(self.threads))
        if number == len(self.threads):
            self.threads.append(threads)
            self.closing.append(next((n for n, line in enumerate(threads) if self._closures.ends(line)), -1))
            done = self._closures.done
            flags = IS_MATCH * (threads[-1:] == (done,)) | IS_SETTLED * (threads[:1] in ((), (done,)))
            self._flags.append(flags | ENDS_HERE * (self.closing[-1] >= 0))
            self._count(len(threads))
        return number

    def _count(self, places: int) -> None:
        self._places += places
        if self._places > PLACE_LIMIT:
            raise BudgetError(f"the pattern needs states with more than {PLACE_LIMIT} threads together")
