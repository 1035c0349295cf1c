"""Random clauses of the shapes that a strategy is for: most of what `row_pattern_generate` makes is for another one.

shaped("gaps", 7)    a clause over a table that the strategy can mostly answer
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

from sqlglot import exp

from bridge.recognize.clause import PerMatch
from nfa.pattern import (
    Alternation,
    Concatenation,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Symbol,
    walk,
)
from tests.row_pattern_generate import GRADES, Example, generate, random_pattern

FROM_FIRST = ("row", "row", "first")


def shaped(strategy: str, seed: int) -> Example:
    """The example of this seed for a strategy."""
    rng = Random(f"{strategy}/{seed}")
    return _SHAPES[strategy](rng, seed)


def _gaps(rng: Random, seed: int) -> Example:
    parts: list[Pattern] = [_named(rng, "A")]
    for name in "BCB"[: rng.choice([1, 2, 2, 3])]:
        parts += [_gap(rng), _named(rng, name)]
    example = generate(seed, rng.choice([("row",), FROM_FIRST, FROM_FIRST]), Concatenation(tuple(parts)))
    kept = tuple((name, condition) for name, condition in example.clause.define if name not in "YZ")
    return _timed(dataclasses.replace(example, clause=dataclasses.replace(example.clause, define=kept)), rng)


def _named(rng: Random, name: str) -> Pattern:
    return Exclusion(Symbol(name)) if rng.random() < 0.1 else Symbol(name)


def _gap(rng: Random) -> Pattern:
    gap = Quantified(Symbol(rng.choice("ZZY")), rng.choice([0, 0, 0, 1, 2]), None, greedy=rng.random() < 0.6)
    return Exclusion(gap) if rng.random() < 0.2 else gap


def _offsets(rng: Random, seed: int) -> Example:
    pattern = _fixed(rng, rng.choice([0, 0, 1, 2]))
    grades = rng.choice([("row",), FROM_FIRST, ("row", "first", "register"), tuple(GRADES)])
    example = generate(seed, grades, pattern)
    if any(isinstance(node, Exclusion) for node in walk(pattern)) or rng.random() < 0.4:
        return example
    return dataclasses.replace(example, clause=dataclasses.replace(example.clause, per_match=PerMatch.ONE_ROW))


def _fixed(rng: Random, depth: int) -> Pattern:
    if depth == 0:
        names = [Symbol(rng.choice("ABC")) for _ in range(rng.choice([1, 2, 3, 3, 4]))]
        return Concatenation(tuple(names)) if len(names) > 1 else names[0]
    inner = tuple(_fixed(rng, depth - 1) for _ in range(2))
    least = rng.choice([0, 1, 1, 2])
    repeated = Quantified(inner[0], least, max(least + rng.choice([0, 1, 2]), 1), greedy=rng.random() < 0.6)
    kinds: tuple[Pattern, ...] = (
        Concatenation(inner), Alternation(inner), repeated, Concatenation((repeated, inner[1])), Permutation(inner),
        Exclusion(inner[0]) if not any(isinstance(node, Exclusion) for node in walk(inner[0])) else inner[1],
    )  # fmt: skip
    return rng.choice(kinds)


def _prefilter(rng: Random, seed: int) -> Example:
    free = [random_pattern(rng, "ABD", rng.choice([0, 1, 2]), exclusion=False) for _ in range(2)]
    named = [Symbol(rng.choice("ABC")) for _ in range(rng.choice([1, 2, 2]))]
    mixed = [*named, *free[: rng.choice([1, 2])]]
    rng.shuffle(mixed)
    return _timed(generate(seed, tuple(GRADES), Concatenation(tuple(mixed))), rng)


def _timed(example: Example, rng: Random) -> Example:
    """Mostly with WITHIN, which needs an ascending time."""
    if rng.random() < 0.25:
        return example
    order = tuple(exp.Ordered(this=exp.column(name), desc=False, nulls_first=True) for name in "tu")
    clause = dataclasses.replace(example.clause, within=rng.choice([1, 2, 3, 4, 6]), order_by=order)
    return dataclasses.replace(example, clause=clause)


_SHAPES: dict[str, Callable[[Random, int], Example]] = {"gaps": _gaps, "offsets": _offsets, "prefilter": _prefilter}
