"""A pattern as a flat program, most preferred way first, for the thread machine in `nfa.threads.decided`.

The preference order is Perl's and the standard's (ISO/IEC 19075-5, 7.2; rule S1): alternatives as written, greedy
before reluctant, left to right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

from nfa.errors import BudgetError
from nfa.pattern import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Symbol,
    nullable,
)

INSTRUCTION_LIMIT = 100_000
"""The longest program; bounded quantifiers and PERMUTE are written out and may ask for more."""


@dataclass(frozen=True, slots=True)
class MatchSymbol:
    """Take one row that can be this symbol, and continue with the next instruction."""

    name: str
    excluded: bool = False

    def __str__(self) -> str:
        return f"match {Symbol(self.name)}" + (" excluded" if self.excluded else "")


@dataclass(frozen=True, slots=True)
class Jump:
    """Go on at another instruction."""

    target: int

    def __str__(self) -> str:
        return f"jump {self.target}"


@dataclass(frozen=True, slots=True)
class Split:
    """Go on at both places; `first` is preferred."""

    first: int
    second: int

    def __str__(self) -> str:
        return f"split {self.first}, {self.second}"


@dataclass(frozen=True, slots=True)
class IterationStart:
    """An iteration that might take no row begins here."""

    def __str__(self) -> str:
        return "iteration start"


@dataclass(frozen=True, slots=True)
class IterationEnd:
    """The iteration begun at `start` ends.

    If it took no row, the quantifier stops: go to `exit`; else to the next one.
    """

    start: int
    exit: int

    def __str__(self) -> str:
        return f"iteration end of {self.start}, if empty to {self.exit}"


@dataclass(frozen=True, slots=True)
class AnchorStart:
    """Go on only before the first row of the partition."""

    def __str__(self) -> str:
        return "at start"


@dataclass(frozen=True, slots=True)
class AnchorEnd:
    """Go on only after the last row of the partition."""

    def __str__(self) -> str:
        return "at end"


@dataclass(frozen=True, slots=True)
class Accept:
    """A match."""

    def __str__(self) -> str:
        return "done"


Instruction: TypeAlias = MatchSymbol | Jump | Split | IterationStart | IterationEnd | AnchorStart | AnchorEnd | Accept


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions, run from number 0; `str` gives a numbered listing."""

    instructions: tuple[Instruction, ...]

    def __str__(self) -> str:
        width = len(str(len(self.instructions) - 1))
        return "\n".join(f"{number:{width}} {line}" for number, line in enumerate(self.instructions))


def compile_program(tree: Pattern) -> Program:
    """Write the pattern out as instructions.

    Bounded quantifiers are unrolled and PERMUTE is expanded in lexicographic order. An iteration that takes no row
    stops its quantifier once the least number is reached, so nothing loops for ever (Perl's rule).
    Raises BudgetError, before anything is built, if there would be more than INSTRUCTION_LIMIT instructions.

    >>> from nfa import parse_pattern
    >>> print(compile_program(parse_pattern("A (B | C)+?")))
    0 match A
    1 split 2, 4
    2 match B
    3 jump 5
    4 match C
    5 split 6, 1
    6 done
    """
    length = program_length(tree)
    if length > INSTRUCTION_LIMIT:
        raise BudgetError(f"the pattern needs {_about(length)} instructions; the limit is {INSTRUCTION_LIMIT}")
    code: list[Instruction] = []
    _emit(tree, code, excluded=False)
    return Program((*code, Accept()))


def program_length(tree: Pattern) -> int:
    """The number of instructions of the pattern, found without writing them.

    For PERMUTE of over 20 parts a lower bound.
    """
    return _length(tree) + 1


def permuted(tree: Permutation) -> Pattern:
    """PERMUTE written out.

    >>> print(permuted(Permutation((Symbol("A"), Symbol("B")))))
    A B | B A
    """
    ways: Iterator[tuple[Pattern, ...]] = permutations(tree.parts)
    return tree.parts[0] if len(tree.parts) == 1 else Alternation(tuple(map(Concatenation, ways)))


def _about(number: int) -> str:
    return str(number) if number < 10**15 else "more than 10^15"


def _length(tree: Pattern) -> int:
    match tree:
        case Empty():
            return 0
        case Concatenation(parts):
            return sum(map(_length, parts))
        case Alternation(parts):
            return sum(map(_length, parts)) + 2 * (len(parts) - 1)
        case Permutation(parts):
            ways = math.factorial(min(len(parts), 20))
            return ways * sum(map(_length, parts)) + 2 * (ways - 1)
        case Quantified():
            return _length_of_copies(tree)
        case Exclusion(part):
            return _length(part)
    return 1


def _length_of_copies(tree: Quantified) -> int:
    body = _length(tree.part)
    splits = 1 + (tree.least == 0) if tree.most is None else tree.most - tree.least
    guards = _guards(tree) if nullable(tree.part) else 0
    return _copies(tree) * body + splits + 2 * guards if body else 0


def _copies(tree: Quantified) -> int:
    return max(tree.least, 1) if tree.most is None else tree.most


def _guards(tree: Quantified) -> int:
    # From the least number on, every iteration that another may follow asks whether it was empty.
    return 1 if tree.most is None else tree.most - max(tree.least, 1)


def _emit(tree: Pattern, code: list[Instruction], excluded: bool) -> None:
    match tree:
        case Symbol(name):
            code.append(MatchSymbol(name, excluded))
        case Concatenation(parts):
            for part in parts:
                _emit(part, code, excluded)
        case Alternation(parts):
            _emit_alternatives(parts, code, excluded)
        case Permutation():
            _emit(permuted(tree), code, excluded)
        case Quantified():
            _emit_copies(tree, code, excluded)
        case Exclusion(part):
            _emit(part, code, excluded=True)
        case Anchor(place):
            code.append(AnchorStart() if place == "^" else AnchorEnd())


def _emit_alternatives(parts: tuple[Pattern, ...], code: list[Instruction], excluded: bool) -> None:
    jumps = []
    for part in parts[:-1]:
        split = _reserve(code)
        _emit(part, code, excluded)
        jumps.append(_reserve(code))
        code[split] = Split(split + 1, len(code))
    _emit(parts[-1], code, excluded)
    for jump in jumps:
        code[jump] = Jump(len(code))


def _emit_copies(tree: Quantified, code: list[Instruction], excluded: bool) -> None:
    copies = _copies(tree) if _length(tree.part) else 0
    # An iteration is guarded if it may be empty, is beyond the least number, and another may follow.
    last_guarded = copies if tree.most is None else copies - 1
    guarded = range(max(tree.least, 1), last_guarded + 1) if nullable(tree.part) else range(0)
    forks, guards, start = [], [], 0
    for number in range(1, copies + 1):
        if number > tree.least:
            forks.append((_reserve(code), len(code)))
        start = len(code)
        if number in guarded:
            code.append(IterationStart())
        _emit(tree.part, code, excluded)
        if number in guarded:
            guards.append((_reserve(code), start))
    if copies and tree.most is None:
        forks.append((_reserve(code), start))
    for at, again in forks:
        code[at] = Split(again, len(code)) if tree.greedy else Split(len(code), again)
    for at, start in guards:
        code[at] = IterationEnd(start, len(code))


def _reserve(code: list[Instruction]) -> int:
    # The place of an instruction whose target is not known yet.
    code.append(Accept())
    return len(code) - 1
