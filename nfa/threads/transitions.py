"""The instructions that each instruction leads to without taking a row (its closure), from which automata are built."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from nfa.errors import BudgetError
from nfa.program import MatchSymbol, Program
from nfa.threads.machine import Machine

SYMBOL_LIMIT = 64
"""The most symbols of a pattern: a symbol set has one bit for each."""


class Transitions:
    """The instructions at which a program waits, in preference order and up to Accept, as tuples of their numbers.

    >>> from nfa import compile_program, parse_pattern
    >>> transitions = Transitions(compile_program(parse_pattern("A B*")))
    >>> transitions.begin(at_start=True), transitions.after(0), transitions.symbols
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
        """For each instruction that takes a row, the bit of its symbol in a symbol set."""
        bit = {name: 1 << number for number, name in enumerate(self.symbols)}
        return {number: bit[line.name] for number, line in enumerate(self.code) if isinstance(line, MatchSymbol)}

    def begin(self, at_start: bool) -> tuple[int, ...]:
        """Where a match waits for its first row; `at_start`: that row is the first of its partition."""
        return tuple(number for number, _ in self.machine.begin(0 if at_start else 1))

    def after(self, number: int) -> tuple[int, ...]:
        """Where the program waits after this instruction has taken a row."""
        if number not in self._after:
            self._after[number] = self.machine.waiting(number + 1)
        return self._after[number]

    def ends(self, number: int) -> bool:
        """Whether a thread that waits at this instruction is a match if the partition ends."""

        if number not in self._ends:
            self._ends[number] = number not in self.bits and self.machine.passes_end(number)
        return self._ends[number]


def mask(numbers: Iterable[int]) -> int:
    """A set of small numbers as the bits of one.

    >>> mask([0, 2])
    5
    """
    return sum(1 << number for number in set(numbers))
