"""Random clauses of the shapes that a strategy is for: most of what `row_pattern_generate` makes is for another one.

shaped("gaps", 7)    a clause over a table that the strategy can mostly answer
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

from sqlglot import exp

from bridge.query.row_pattern import PerMatch
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
from tests.support.row_pattern_generate import GRADES, Example, generate, named, random_pattern
from tests.support.row_patterns import expression

FROM_FIRST = ("row", "row", "first")


def shaped(strategy: str, seed: int) -> Example:
    """The example of this seed for a strategy."""
    rng = Random(f"{strategy}/{seed}")
    example = _SHAPES[strategy](rng, seed)
    # The definition takes long for long tables and any patterns.
    return example if strategy == "prefilter" or rng.random() < 0.4 else _longer(example, generate(-seed))


def _longer(example: Example, other: Example) -> Example:
    """With the other's rows after its own."""
    after = tuple((p, t + 8, u + 100, *rest) for p, t, u, *rest in other.rows)
    return dataclasses.replace(example, rows=example.rows + after)


def _gaps(rng: Random, seed: int) -> Example:
    parts: list[Pattern] = [_shown(rng, "A")]
    for name in "BCB"[: rng.choice([1, 2, 2, 3])]:
        parts += [_gap(rng), _shown(rng, name)]
    example = generate(seed, rng.choice([("row",), FROM_FIRST, FROM_FIRST]), Concatenation(tuple(parts)))
    kept = tuple((name, _equal(rng, condition)) for name, condition in example.clause.define if name not in "YZ")
    return _timed(dataclasses.replace(example, clause=dataclasses.replace(example.clause, define=kept)), rng)


def _equal(rng: Random, condition: exp.Expr) -> exp.Expr:
    """Now and then with a value that has to equal one of the first row."""
    if rng.random() < 0.7:
        return condition
    equal = expression(rng.choice(["x = FIRST(x)", "y = A.y", "FIRST(x) = y", "k = A.k"]))
    return equal if rng.random() < 0.6 else exp.and_(equal, condition)


def _shown(rng: Random, name: str) -> Pattern:
    return Exclusion(Symbol(name)) if rng.random() < 0.1 else Symbol(name)


def _gap(rng: Random) -> Pattern:
    gap = Quantified(Symbol(rng.choice("ZZY")), rng.choice([0, 0, 0, 1, 2]), None, greedy=rng.random() < 0.6)
    return Exclusion(gap) if rng.random() < 0.2 else gap


def _offsets(rng: Random, seed: int) -> Example:
    if rng.random() < 0.4:
        return _one_statement(rng, seed)
    grades = rng.choice([("row",), FROM_FIRST, ("row", "first", "register"), tuple(GRADES)])
    return generate(seed, grades, _fixed(rng, rng.choice([1, 2])))


def _one_statement(rng: Random, seed: int) -> Example:
    """One row for each match of one way, its measures no aggregates."""
    example = generate(seed, rng.choice([("row",), FROM_FIRST, ("row", "first", "register")]), _fixed(rng, 0))
    plain = tuple(one for one in example.clause.measures if not one.find(exp.AggFunc)) or (_NUMBER,)
    clause = dataclasses.replace(example.clause, per_match=PerMatch.ONE_ROW, measures=plain, within=None)
    return dataclasses.replace(example, clause=clause)


_NUMBER = named(expression("MATCH_NUMBER()"), "m1")


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
    clause = dataclasses.replace(example.clause, within=rng.choice([1, 2, 4, 6, 9]), order_by=order)
    return dataclasses.replace(example, clause=clause)


_SHAPES: dict[str, Callable[[Random, int], Example]] = {"gaps": _gaps, "offsets": _offsets, "prefilter": _prefilter}
