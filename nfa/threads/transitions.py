"""What each instruction leads to without taking a row: the ground on which the vectorised engines build their tables."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from nfa.errors import BudgetError
from nfa.program import MatchSymbol, Program
from nfa.threads.machine import Machine

SYMBOL_LIMIT = 64
"""The most symbols: a letter has one bit for each."""


class Closures:
    """The places where a program waits, in preference order and up to Done, as tuples of instruction numbers.

    >>> from nfa import compile_program, parse_pattern
    >>> closures = Closures(compile_program(parse_pattern("A B*")))
    >>> closures.begin(at_start=True), closures.after(0), closures.symbols
    ((0,), (2, 4), ('A', 'B'))
    """

    def __init__(self, program: Program) -> None:
        self.machine: Machine[None] = Machine(program, lambda symbol, row, path: False, depends_on_path=False)
        self.code = program.instructions
        self.done = len(self.code) - 1
        self.symbols = tuple(dict.fromkeys(line.name for line in self.code if isinstance(line, MatchSymbol)))
        if len(self.symbols) > SYMBOL_LIMIT:
            raise BudgetError(f"the pattern has {len(self.symbols)} symbols; the limit is {SYMBOL_LIMIT}")
        self._after: dict[int, tuple[int, ...]] = {}
        self._ends: dict[int, bool] = {}

    @cached_property
    def bits(self) -> dict[int, int]:
        """For each instruction that takes a row, the bit of its symbol in a letter."""
        bit = {name: 1 << number for number, name in enumerate(self.symbols)}
        return {number: bit[line.name] for number, line in enumerate(self.code) if isinstance(line, MatchSymbol)}

    def begin(self, at_start: bool) -> tuple[int, ...]:
        """Where a match that begins here waits; `at_start` tells whether the partition begins here too."""
        return tuple(number for number, _ in self.machine.begin(0 if at_start else 1))

    def after(self, number: int) -> tuple[int, ...]:
        """Where the program waits when this instruction has taken a row."""
        if number not in self._after:
            self._after[number] = self.machine.waiting(number + 1)
        return self._after[number]

    def ends(self, number: int) -> bool:
        """Whether a thread that waits here is a match when the partition ends."""
        if number not in self._ends:
            self._ends[number] = number not in self.bits and self.machine.passes_end(number)
        return self._ends[number]


def mask(numbers: Iterable[int]) -> int:
    """A set of small numbers as the bits of one.

    >>> mask([0, 2])
    5
    """
    return sum(1 << number for number in set(numbers))
