"""EPL's match_recognize written out by brute force: all bindings that end with a row, in their order of preference.

Rules by their numbers in docs/epl.md. Nothing of the machine is used but the pattern's tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from nfa.pattern import Alternation, Concatenation, Pattern, Permutation, Quantified, Symbol

Row = tuple[int, str, int, str | None]
"""ts, id, v, k."""

Binding = tuple[tuple[str, int], ...]
"""The symbols of a match with the indexes of their rows in the partition."""

Holds = Callable[[str, int, Binding], bool]


def endings(pattern: Pattern, start: int, length: int, holds: Holds) -> list[Binding]:
    """All ways to bind exactly the rows [start, start + length), the preferred first, each once."""
    found = (binding for end, binding in ways(pattern, start, start + length, (), holds) if end == start + length)
    return list(dict.fromkeys(found))


def ways(tree: Pattern, at: int, limit: int, bound: Binding, holds: Holds) -> Iterator[tuple[int, Binding]]:
    """Where a part that starts before the row `at` may end, with what it binds."""
    match tree:
        case Symbol(name):
            if at < limit and holds(name, at, bound):
                yield at + 1, (*bound, (name, at))
        case Concatenation(parts):
            yield from _one_after_another(parts, at, limit, bound, holds)
        case Alternation(parts):
            for part in parts:
                yield from ways(part, at, limit, bound, holds)
        case Permutation(parts):
            yield from _permuted(parts, at, limit, bound, holds)
        case Quantified():
            yield from _repeated(tree, 0, at, limit, bound, holds)


def _one_after_another(
    parts: Sequence[Pattern], at: int, limit: int, bound: Binding, holds: Holds
) -> Iterator[tuple[int, Binding]]:
    if not parts:
        yield at, bound
        return
    for end, binding in ways(parts[0], at, limit, bound, holds):
        yield from _one_after_another(parts[1:], end, limit, binding, holds)


def _permuted(
    parts: Sequence[Pattern], at: int, limit: int, bound: Binding, holds: Holds
) -> Iterator[tuple[int, Binding]]:
    if not parts:
        yield at, bound
    for place, part in enumerate(parts):
        for end, binding in ways(part, at, limit, bound, holds):
            yield from _permuted((*parts[:place], *parts[place + 1 :]), end, limit, binding, holds)


def _repeated(
    tree: Quantified, done: int, at: int, limit: int, bound: Binding, holds: Holds
) -> Iterator[tuple[int, Binding]]:
    if not tree.greedy and done >= tree.least:
        yield at, bound
    if tree.most is None or done < tree.most:
        for end, binding in ways(tree.part, at, limit, bound, holds):
            if end > at:
                yield from _repeated(tree, done + 1, end, limit, binding, holds)
    if tree.greedy and done >= tree.least:
        yield at, bound


@dataclasses.dataclass(frozen=True)
class Asked:
    """A query: what may be reported. `size` and `count` are a window's, `key` says whether partitions are by k."""

    pattern: Pattern
    conditions: dict[str, Callable[[Sequence[Row], int, Binding], bool]]
    after: str = "past last"
    all_matches: bool = False
    size: int | None = None
    count: int | None = None
    by_key: bool = False


def reported(asked: Asked, rows: Sequence[Row]) -> list[tuple[int, Binding, tuple[Row, ...]]]:
    """What each row completes (M2 to M10, M17): its time, and the bindings in their order, with the partition's rows."""
    found = []
    partitions: dict[str | None, list[tuple[int, Row]]] = {}
    bounds: dict[str | None, int] = {}
    for number, row in enumerate(rows):
        key = row[3] if asked.by_key else None
        mine = partitions.setdefault(key, [])
        mine.append((number, row))
        plain = [one for _, one in mine]

        def holds(symbol: str, at: int, bound: Binding, plain: Sequence[Row] = plain) -> bool:
            condition = asked.conditions.get(symbol)
            return condition is None or condition(plain, at, bound)

        end = len(mine)
        candidates: list[Binding] = []
        for start in range(bounds.get(key, -1) + 1, end):
            if _is_held(asked, mine[start], number, row[0]):
                candidates += endings(asked.pattern, start, end - start, holds)
        told = candidates if asked.all_matches else _chosen(candidates, asked.after)
        for binding in told:
            found.append((row[0], binding, tuple(plain)))
            if asked.after != "to current":
                skipped = binding[-1][1] if asked.after == "past last" else binding[0][1]
                bounds[key] = max(bounds.get(key, -1), skipped)
    return found


def _is_held(asked: Asked, first: tuple[int, Row], number: int, now: int) -> bool:
    """Whether a row is in the window when another arrives (M17)."""
    if asked.size is not None:
        return first[1][0] > now - asked.size
    return asked.count is None or first[0] > number - asked.count


def _chosen(candidates: list[Binding], after: str) -> list[Binding]:
    """M5 to M9: one a start, none from a start that an earlier match skips."""
    chosen: list[Binding] = []
    bound = -1
    for binding in candidates:
        start, end = binding[0][1], binding[-1][1]
        if start > bound:
            chosen.append(binding)
            bound = end if after == "past last" else start
    return chosen
