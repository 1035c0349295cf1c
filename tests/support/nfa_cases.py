"""What the tests of the row-pattern package share: generated patterns, and the definitions they are held against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import Any
from zlib import crc32

from hypothesis import strategies as st

from nfa import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Membership,
    Pattern,
    PatternMatch,
    Permutation,
    Quantified,
    Symbol,
    nullable,
    past_last_row,
)

LETTERS = "ABC"
Bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, None), (2, 2), (0, 2), (1, 2), (1, 3), (2, 4), (3, 3)])
leaves: st.SearchStrategy[Pattern] = st.sampled_from(LETTERS).map(Symbol)
anchors: st.SearchStrategy[Pattern] = st.sampled_from("^$").map(Anchor)
empties: st.SearchStrategy[Pattern] = st.just(Empty())


def several(inner: st.SearchStrategy[Pattern], most: int = 3) -> st.SearchStrategy[tuple[Pattern, ...]]:
    return st.lists(inner, min_size=2, max_size=most).map(tuple)


def quantified(inner: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    return st.builds(lambda part, bounds, greedy: Quantified(part, *bounds, greedy), inner, Bounds, st.booleans())


def basic(inner: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    return several(inner).map(Concatenation) | several(inner).map(Alternation) | quantified(inner)


def permuting(inner: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    return basic(inner) | several(inner).map(Permutation)


def excluding(inner: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    plain = inner.filter(lambda tree: "{-" not in str(tree))
    return permuting(inner) | plain.map(Exclusion)


def solid_loops(tree: Pattern) -> bool:
    """No quantifier over what may be empty, where Python's `re` and the standard part."""
    match tree:
        case Quantified(part=part):
            return not nullable(part) and solid_loops(part)
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return all(map(solid_loops, parts))
    return True


for_re = st.recursive(leaves | anchors | empties, basic, max_leaves=8).filter(solid_loops)
without_anchors = st.recursive(leaves | empties, excluding, max_leaves=6)
anything = st.recursive(leaves | anchors | empties, excluding, max_leaves=6)
for_automata = st.recursive(leaves | empties, permuting, max_leaves=6)
row_sets = st.lists(st.frozensets(st.sampled_from(LETTERS)), max_size=7)


def letter_is(symbol: str, row: str, path: object) -> bool:
    return symbol == row


def symbol_among(symbol: str, row: frozenset[str], path: object) -> bool:
    return symbol in row


def told_by_path(symbol: str, bound: Sequence[tuple[str, int]], row: object) -> bool:
    """A condition that nobody can guess: it depends on everything bound before, and holds three times in four."""
    return crc32(repr((symbol, row, bound)).encode()) % 4 != 0


# The standard's definition, run as it reads: try all ways in preference order; the first that ends is the match.

Bound = tuple[Membership, ...]
Condition = Callable[[str, int, Bound], bool]


def first_way(tree: Pattern, start: int, count: int, holds: Condition) -> Bound | None:
    return next((bound for _, bound in ways(tree, start, (), count, holds)), None)


def ways(
    tree: Pattern, at: int, bound: Bound, count: int, holds: Condition, excluded: bool = False
) -> Iterator[tuple[int, Bound]]:
    match tree:
        case Symbol(name):
            if at < count and holds(name, at, bound):
                yield at + 1, (*bound, Membership(name, at, excluded))
        case Empty():
            yield at, bound
        case Anchor(place):
            if at == (0 if place == "^" else count):
                yield at, bound
        case Concatenation((first, *rest)):
            for after, longer in ways(first, at, bound, count, holds, excluded):
                tail = rest[0] if len(rest) == 1 else Concatenation(tuple(rest))
                yield from ways(tail, after, longer, count, holds, excluded)
        case Alternation(parts):
            for part in parts:
                yield from ways(part, at, bound, count, holds, excluded)
        case Permutation(parts):
            for order in permutations(parts):
                tail = order[0] if len(order) == 1 else Concatenation(order)
                yield from ways(tail, at, bound, count, holds, excluded)
        case Exclusion(part):
            yield from ways(part, at, bound, count, holds, True)
        case Quantified():
            yield from repeated(tree, 0, at, bound, count, holds, excluded)


def repeated(
    tree: Quantified, done: int, at: int, bound: Bound, count: int, holds: Condition, excluded: bool
) -> Iterator[tuple[int, Bound]]:
    stop = [(at, bound)] if done >= tree.least else []
    if not tree.greedy:
        yield from stop
    if tree.most is None or done < tree.most:
        for after, longer in ways(tree.part, at, bound, count, holds, excluded):
            if after == at and done + 1 >= tree.least:
                yield after, longer
            else:
                yield from repeated(tree, done + 1, after, longer, count, holds, excluded)
    if tree.greedy:
        yield from stop


def by_definition(
    tree: Pattern,
    count: int,
    holds: Condition,
    skip: Callable[[PatternMatch], int] = past_last_row,
    times: Sequence[int] | None = None,
    within: int | None = None,
) -> list[PatternMatch]:
    found: list[PatternMatch] = []
    start = 0

    def in_time(symbol: str, at: int, bound: Bound) -> bool:
        first = bound[0].row if bound else at
        timely = within is None or times is None or times[at] - times[first] < within
        return timely and holds(symbol, at, bound)

    while start < count:
        bound = first_way(tree, start, count, in_time)
        after = start + 1
        if bound is not None:
            found.append(PatternMatch(len(found) + 1, start, bound))
            after = skip(found[-1]) if bound else after
        start = after
    return found


def words(tree: Pattern, longest: int) -> set[tuple[str, ...]]:
    """The symbol sequences of a pattern, as sets: no preference, no machine."""
    match tree:
        case Symbol(name):
            return {(name,)} if longest else set()
        case Concatenation(parts):
            return in_sequence(parts, longest)
        case Alternation(parts):
            return set().union(*(words(part, longest) for part in parts))
        case Permutation(parts):
            return set().union(*(in_sequence(order, longest) for order in permutations(parts)))
        case Quantified(part, least, most):
            limit = least + longest if most is None else most
            counts = range(least, min(limit, least + longest) + 1)
            return set().union(*(in_sequence((part,) * number, longest) for number in counts))
    return {()}


def in_sequence(parts: Sequence[Pattern], longest: int) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = {()}
    for part in parts:
        found = {a + b for a, b in product(found, words(part, longest)) if len(a + b) <= longest}
    return found


def spelled(match: PatternMatch) -> str:
    """A match as `start:symbols`, lower case where excluded.

    >>> spelled(PatternMatch(1, 4, (Membership("A", 4), Membership("B", 5, True))))
    '4:Ab'
    """
    return f"{match.start}:" + "".join(m.symbol.lower() if m.excluded else m.symbol for m in match.memberships)


def fed(matcher: Any, rows: Sequence[Any]) -> list[list[PatternMatch]]:
    """What each row decides, and at last what the end decides."""
    return [*(matcher.feed(row) for row in rows), matcher.finish()]
