"""A deterministic automaton whose states are thread lists in preference order, built while it runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nfa.arrays.lockstep import Ints, Table
from nfa.arrays.matches import SymbolSets
from nfa.errors import BudgetError
from nfa.threads.transitions import Transitions

DIRECT_SYMBOLS = 10
"""The most symbols for which a symbol set is its own class number."""

CLASS_LIMIT = 4_096
"""The most distinct symbol sets of patterns with more symbols."""

PLACE_LIMIT = 10_000_000
"""The most threads of all states and moves together."""

IS_MATCH, IS_SETTLED, ENDS_HERE = 1, 2, 4


class SymbolSetClasses:
    """Class numbers of symbol sets; with many symbols they are given in order of appearance.

    >>> classes = SymbolSetClasses(20)
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

    def symbol_set(self, number: int) -> int:
        """The symbol set with this class number."""
        return number if self._direct else self._letters[number]

    def of(self, symbol_sets: SymbolSets) -> Ints:
        """The class number of each symbol set."""
        wide = symbol_sets & np.array(min(self._used, np.iinfo(symbol_sets.dtype).max), symbol_sets.dtype)
        if self._direct:
            return wide.astype(np.intp)
        self._learn(wide.astype(np.uint64))
        numbers: Ints = self._numbers.take(np.searchsorted(self._sorted, wide.astype(np.uint64)))
        return numbers

    def _learn(self, symbol_sets: NDArray[np.uint64]) -> None:
        places = np.searchsorted(self._sorted, symbol_sets)
        known = np.append(self._sorted, np.zeros(1, np.uint64)).take(places) == symbol_sets
        new = np.unique(symbol_sets[~known | (places == len(self._sorted))])
        if not len(new):
            return
        if len(self._letters) + len(new) > CLASS_LIMIT:
            raise BudgetError(f"the rows have more than {CLASS_LIMIT} distinct sets of symbols")
        self._letters += new.tolist()
        merged = np.concatenate([self._sorted, new])
        order = np.argsort(merged)
        first = len(self._numbers)
        self._numbers = np.concatenate([self._numbers, np.arange(first, first + len(new))])[order]
        self._sorted = merged[order]


class LazyDFA:
    """States, transitions and, for each transition, the thread from which each thread after it comes.

    `parents` and `codes` have the threads after each transition: the place of the thread before, and the instruction that
    took the row. `closing`: for each state the place of the preferred match if the partition ends there, or -1.
    """

    def __init__(self, transitions: Transitions) -> None:
        self._transitions = transitions
        self.classes = SymbolSetClasses(len(transitions.symbols))
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
        self.start_offsets = [
            self.table.offset(self._number(transitions.begin(at_start))) for at_start in (False, True)
        ]

    @property
    def flags(self) -> NDArray[np.uint8]:
        """At a state's offset: IS_MATCH, IS_SETTLED if no later row matters, ENDS_HERE if a match at the end."""
        if self._arrays[0] != len(self._flags):
            self._arrays = len(self._flags), np.repeat(np.array(self._flags, np.uint8), self.width)
        return self._arrays[1]

    def bases(self) -> Ints:
        """For each cell the index at which its threads begin in `parents` and `codes`."""
        bases = np.zeros(len(self.table.cells), np.intp)
        bases[list(self._bases)] = list(self._bases.values())
        return bases

    def base(self, cell: int) -> int:
        """The index at which the threads of the cell begin in `parents` and `codes`."""
        return self._bases[cell]

    def last_place(self, offset: int, at_end: bool) -> int:
        """The place of the thread that is the preferred match, in a state where a match ends."""
        state = offset // self.width
        return self.closing[state] if at_end else len(self.threads[state]) - 1

    def _step(self, state: int, number: int) -> int:
        symbol_set = self.classes.symbol_set(number)
        parent_of: dict[int, int] = {}
        for place, waiting in enumerate(self.threads[state]):
            if self._transitions.bits.get(waiting, 0) & symbol_set:
                for target in self._transitions.after(waiting):
                    parent_of.setdefault(target, place)
                if self._transitions.done in parent_of:
                    break
        self._bases[state * self.width + number] = len(self.parents)
        self.parents += parent_of.values()
        self.codes += [self.threads[state][place] for place in parent_of.values()]
        self._count(len(parent_of) + len(self.threads[state]))
        return self._number(tuple(parent_of))

    def _number(self, threads: tuple[int, ...]) -> int:
        number = self._numbers.setdefault(threads, len(self.threads))
        if number == len(self.threads):
            self.threads.append(threads)
            self.closing.append(next((n for n, line in enumerate(threads) if self._transitions.ends(line)), -1))
            done = self._transitions.done
            flags = IS_MATCH * (threads[-1:] == (done,)) | IS_SETTLED * (threads[:1] in ((), (done,)))
            self._flags.append(flags | ENDS_HERE * (self.closing[-1] >= 0))
            self._count(len(threads))
        return number

    def _count(self, places: int) -> None:
        self._places += places
        if self._places > PLACE_LIMIT:
            raise BudgetError(f"the pattern needs states with more than {PLACE_LIMIT} threads together")
