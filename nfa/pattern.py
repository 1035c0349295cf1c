"""The row-pattern tree: what stands between the parentheses of PATTERN (SQL:2016, `<row pattern>`).

`str(tree)` writes it back as standard text with as few parentheses as possible; `nfa.parse` reads that text into
an equal tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Symbol:
    """One row that satisfies the condition DEFINEd for this name.

    >>> print(Symbol("A"), Symbol("a b"), Symbol("permute"))
    A "a b" "permute"
    """

    name: str

    def __post_init__(self) -> None:
        _require(bool(self.name), "a symbol needs a name")

    def __str__(self) -> str:
        if WORD.fullmatch(self.name) and self.name.upper() != "PERMUTE":
            return self.name
        return '"' + self.name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Concatenation:
    """The parts one after the other.

    >>> print(Concatenation((Symbol("A"), Alternation((Symbol("B"), Symbol("C"))))))
    A (B | C)
    """

    parts: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _require(len(self.parts) > 1, "a concatenation needs two parts or more")

    def __str__(self) -> str:
        return " ".join(_wrapped(part, above=Concatenation) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of the parts; an earlier one is preferred.

    >>> print(Alternation((Symbol("A"), Concatenation((Symbol("B"), Symbol("C"))))))
    A | B C
    """

    parts: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _require(len(self.parts) > 1, "an alternation needs two parts or more")

    def __str__(self) -> str:
        return " | ".join(_wrapped(part, above=Alternation) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Quantified:
    """The part `least` to `most` times (None: without bound); greedy prefers more, reluctant prefers less.

    >>> a = Symbol("A")
    >>> print(Quantified(a, 0, None), Quantified(a, 0, 1, greedy=False), Quantified(a, 2, 2), Quantified(a, 0, 3))
    A* A?? A{2} A{,3}
    """

    part: Pattern
    least: int
    most: int | None
    greedy: bool = True

    def __post_init__(self) -> None:
        _require(self.least >= 0, "a quantifier cannot ask for less than 0 repetitions")
        _require(self.most is None or self.most >= 1, "a quantifier must allow one repetition or more")
        _require(self.most is None or self.least <= self.most, "a quantifier's least is above its most")

    def __str__(self) -> str:
        return _wrapped(self.part, above=Quantified) + _bounds(self.least, self.most) + ("" if self.greedy else "?")


@dataclass(frozen=True, slots=True)
class Permutation:
    """The parts in any order; preference is lexicographic in the order they are written (ISO/IEC 19075-5, PERMUTE).

    >>> print(Permutation((Symbol("A"), Symbol("B"))))
    PERMUTE(A, B)
    """

    parts: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _require(len(self.parts) > 0, "PERMUTE needs a list of patterns")

    def __str__(self) -> str:
        return f"PERMUTE({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Rows that take part in the match but are left out of ALL ROWS PER MATCH.

    >>> print(Exclusion(Quantified(Symbol("A"), 1, None)))
    {- A+ -}
    """

    part: Pattern

    def __str__(self) -> str:
        return f"{{- {self.part} -}}"


@dataclass(frozen=True, slots=True)
class Anchor:
    """The beginning `^` or the end `$` of the partition."""

    place: str

    def __post_init__(self) -> None:
        _require(self.place in ("^", "$"), "an anchor is ^ or $")

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True, slots=True)
class Empty:
    """No row at all."""

    def __str__(self) -> str:
        return "()"


Pattern: TypeAlias = Symbol | Concatenation | Alternation | Quantified | Permutation | Exclusion | Anchor | Empty


def parts(tree: Pattern) -> tuple[Pattern, ...]:
    """The patterns directly inside this one.

    >>> [str(part) for part in parts(Permutation((Symbol("A"), Symbol("B"))))]
    ['A', 'B']
    """
    match tree:
        case Concatenation(inner) | Alternation(inner) | Permutation(inner):
            return inner
        case Quantified(part=part) | Exclusion(part):
            return (part,)
    return ()


def walk(tree: Pattern) -> Iterator[Pattern]:
    """This pattern and all inside it, in the order of the text."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(parts(node)))


def symbols(tree: Pattern) -> tuple[str, ...]:
    """The distinct symbol names in order of first appearance.

    >>> symbols(Concatenation((Symbol("B"), Symbol("A"), Symbol("B"))))
    ('B', 'A')
    """
    return tuple(dict.fromkeys(node.name for node in walk(tree) if isinstance(node, Symbol)))


def nullable(tree: Pattern) -> bool:
    """Whether the pattern can match no row at all (an anchor takes no row).

    >>> nullable(Quantified(Symbol("A"), 0, 1)), nullable(Symbol("A"))
    (True, False)
    """
    return length_bounds(tree)[0] == 0


def length_bounds(tree: Pattern) -> tuple[int, int | None]:
    """The least and the most rows a match can have; None stands for no bound.

    >>> length_bounds(Concatenation((Symbol("A"), Quantified(Symbol("B"), 0, 3))))
    (1, 4)
    >>> length_bounds(Quantified(Symbol("A"), 1, None))
    (1, None)
    """
    inner = [length_bounds(part) for part in parts(tree)]
    match tree:
        case Symbol():
            return 1, 1
        case Alternation():
            return min(least for least, _ in inner), _most([most for _, most in inner], max)
        case Quantified(least=times, most=limit):
            least, most = inner[0]
            unbounded = most is None or limit is None
            return least * times, 0 if most == 0 else None if unbounded else (most or 0) * (limit or 0)
    return sum(least for least, _ in inner), _most([most for _, most in inner], sum)


def rows_before(tree: Pattern) -> dict[str, int]:
    """The least number of rows that a match can have before a row of each symbol.

    >>> rows_before(Concatenation((Symbol("A"), Quantified(Symbol("B"), 0, 3), Symbol("C"))))
    {'A': 0, 'B': 1, 'C': 1}
    """
    found: dict[str, int] = {}
    _find_rows_before(tree, 0, found)
    return found


def _find_rows_before(tree: Pattern, before: int, found: dict[str, int]) -> None:
    if isinstance(tree, Symbol):
        found[tree.name] = min(before, found.get(tree.name, before))
    for part in parts(tree):
        _find_rows_before(part, before, found)
        if isinstance(tree, Concatenation):
            before += length_bounds(part)[0]


def _most(values: list[int | None], join: Callable[[Iterable[int]], int]) -> int | None:
    known = [value for value in values if value is not None]
    return join(known) if len(known) == len(values) else None


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


# Text of a looser-binding pattern needs parentheses inside an equally or tighter binding one.
_BINDING: dict[type, int] = {Alternation: 0, Concatenation: 1, Quantified: 2}


def _wrapped(part: Pattern, above: type) -> str:
    return f"({part})" if _BINDING.get(type(part), 3) <= _BINDING[above] else str(part)


def _bounds(least: int, most: int | None) -> str:
    match least, most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{least},}}"
        case 0, _:
            return f"{{,{most}}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


# What a pattern says of its variables: which stand for several rows, and which come before others


def groups(tree: Pattern) -> frozenset[str]:
    """The variables that stand for several rows: under `*` or `+`, or more than once along the pattern.

    >>> from nfa.parse import parse_pattern
    >>> sorted(groups(parse_pattern("A B+ (C | D) (C E?)")))
    ['B', 'C']
    """
    return frozenset(name for name, count in _counts(tree).items() if count > 1)


def _counts(tree: Pattern) -> dict[str, int]:
    """How often each variable can be bound, 2 standing for more."""
    match tree:
        case Symbol(name):
            return {name: 1}
        case Alternation(branches):
            found = [_counts(branch) for branch in branches]
            return {name: max(one.get(name, 0) for one in found) for one in found for name in one}
        case Quantified(part=part, most=most):
            times = 1 if most == 1 else 2
            return {name: count * times for name, count in _counts(part).items()}
    total: dict[str, int] = {}
    for part in parts(tree):
        for name, count in _counts(part).items():
            total[name] = total.get(name, 0) + count
    return total


def before(tree: Pattern, name: str) -> frozenset[str]:
    """The variables whose rows may come before a row of this one: those a definition may name.

    >>> from nfa.parse import parse_pattern
    >>> sorted(before(parse_pattern("A (B | C) D"), "D")), sorted(before(parse_pattern("A (B | C) D"), "C"))
    (['A', 'B', 'C'], ['A'])
    """
    found: set[str] = set()
    _collect(tree, name, frozenset(), found)
    return frozenset(found) - {name}


def _collect(tree: Pattern, name: str, seen: frozenset[str], found: set[str]) -> None:
    if isinstance(tree, Symbol) and tree.name == name:
        found |= seen
    together = tree.parts if isinstance(tree, Permutation) else ()
    for part in parts(tree):
        others = frozenset(n for other in together if other is not part for n in _counts(other))
        _collect(part, name, seen | others, found)
        if isinstance(tree, Concatenation):
            seen |= frozenset(_counts(part))
