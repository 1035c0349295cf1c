"""The report's semantics of match_recognize (its Tables 5 and 6) as sets of matches, without any order of search.

A match is its labels with the places of their events. Concatenation is of events that follow one another at once, as the
report's text says (its formula would let events between that match nothing). A condition sees what is matched before it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from itertools import pairwise, product

from tests.support.epl_rows import Row

Match = tuple[tuple[str, int], ...]
Condition = Callable[[Sequence[Row], int, Match], bool]


@dataclasses.dataclass(frozen=True)
class Regexp:
    """A label, or `then`, `or`, `optional`, `exactly`, `plus`, `star` of others."""

    kind: str
    parts: tuple[Regexp, ...] = ()
    label: str = ""
    count: int = 0

    def __str__(self) -> str:
        match self.kind:
            case "label":
                return self.label
            case "then":
                return f"({' '.join(map(str, self.parts))})"
            case "or":
                return f"({' | '.join(map(str, self.parts))})"
        mark = {"optional": "?", "plus": "+", "star": "*", "exactly": f"[{self.count}]"}[self.kind]
        return f"{self.parts[0]}{mark}"


def start(match: Match) -> int:
    return match[0][1]


def end(match: Match) -> int:
    return match[-1][1]


def matches(regexp: Regexp, length: int) -> set[Match]:
    """[[regexp]] over so many events, whatever the conditions; the empty match is `()`."""
    match regexp.kind:
        case "label":
            return {((regexp.label, place),) for place in range(length)}
        case "or":
            return set().union(*(matches(part, length) for part in regexp.parts))
        case "then":
            return _chained([matches(part, length) for part in regexp.parts])
        case "optional":
            return {()} | matches(regexp.parts[0], length)
        case "exactly":
            return _chained([matches(regexp.parts[0], length)] * regexp.count)
    once = matches(regexp.parts[0], length)
    found = {()} if regexp.kind == "star" else set[Match]()
    for count in range(1, length + 1):
        found |= _chained([once] * count)
    return found


def _chained(sets: Sequence[set[Match]]) -> set[Match]:
    """What one match of each gives, each beginning right after the one before."""
    found: set[Match] = {()}
    for following in sets:
        found = {
            (*one, *two) for one, two in product(found, following) if not one or not two or end(one) + 1 == start(two)
        }
    return found


def evaluate(regexp: Regexp, define: dict[str, Condition], rows: Sequence[Row]) -> set[Match]:
    """[[PATTERN regexp DEFINE …]]: the matches whose events are what their labels say; an empty one is no result."""

    def holds(match: Match) -> bool:
        return all(
            label not in define or define[label](rows, place, match[:before])
            for before, (label, place) in enumerate(match)
        )

    return {match for match in matches(regexp, len(rows)) if match and holds(match)}


POLICIES: dict[str, Callable[[Match, Match], bool]] = {
    "past last": lambda one, two: end(one) < start(two),
    "to next": lambda one, two: start(one) < start(two),
    "to current": lambda one, two: start(one) <= start(two),
}
"""Table 6: what must hold of two matches that are selected, in the order of their starts."""


def is_selected(after: str, chosen: Sequence[Match]) -> bool:
    """Whether a policy allows these matches beside each other."""
    ordered = sorted(chosen, key=lambda match: (start(match), end(match)))
    return all(POLICIES[after](one, two) for one, two in pairwise(ordered))


def generate(chance: random.Random, depth: int = 2) -> Regexp:
    """A random regexp over A, B and C; quantifiers are of labels, as in the report's table."""
    if depth == 0 or chance.random() < 0.3:
        label = Regexp("label", (), chance.choice("ABC"))
        kind = chance.choice(("label", "label", "optional", "plus", "star", "exactly"))
        return label if kind == "label" else Regexp(kind, (label,), count=chance.randint(1, 3))
    parts = tuple(generate(chance, depth - 1) for _ in range(2))
    return Regexp(chance.choice(("then", "then", "or")), parts)


def labels(regexp: Regexp) -> list[str]:
    """The labels in it, in the order of the text."""
    found = [regexp.label] if regexp.kind == "label" else [one for part in regexp.parts for one in labels(part)]
    return list(dict.fromkeys(found))
