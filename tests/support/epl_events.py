"""EPL's patterns written out as functions: when a part is true, and when it ends (rules P1 to P6; no timers).

A part that starts after the event `since` sees the later ones alone. It gives its results, each with the event that brought
it, and its end: the event, and whether it is false for good then (or exhausted). What forbids comes before what is
allowed, so a part that an event makes false gives no result by that event.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from itertools import product

Event = tuple[str, tuple[int, str, int, str | None]]
"""The stream, and the row: ts, id, v, k."""

Bound = dict[str, tuple[int, str, int, str | None]]
Results = list[tuple[int, Bound]]
End = tuple[int, bool] | None


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a pattern: `once`, `every`, `then`, `and`, `or` or `not`."""

    kind: str
    parts: tuple[Part, ...] = ()
    tag: str = ""
    stream: str = ""
    least: int = 0
    like: str | None = None
    """The tag of an event before that has the same k."""

    def __str__(self) -> str:
        match self.kind:
            case "once":
                conditions = [f"v >= {self.least}"] + ([f"k = {self.like}.k"] if self.like else [])
                return f"{self.tag}={self.stream}({', '.join(conditions)})"
            case "every" | "not":
                return f"{self.kind} ({self.parts[0]})"
        mark = {"then": "->", "and": "and", "or": "or"}[self.kind]
        return "(" + f" {mark} ".join(map(str, self.parts)) + ")"


def run(part: Part, since: int, bound: Bound, events: Sequence[Event]) -> tuple[Results, End]:
    """The results of a part, and its end."""
    match part.kind:
        case "once":
            return _once(part, since, bound, events)
        case "every":
            return _every(part, since, bound, events)
        case "then":
            return _then(part, since, bound, events)
        case "and":
            return _and(part, since, bound, events)
    results, end = [], None
    for inner in part.parts:  # of single events: the one that comes first, the left one of two that come together
        found, ended = _once(inner, since, bound, events)
        if ended is not None and (end is None or ended[0] < end[0]):
            results, end = found, ended
    return results, end


def _once(part: Part, since: int, bound: Bound, events: Sequence[Event]) -> tuple[Results, End]:
    for place in range(since + 1, len(events)):
        stream, row = events[place]
        alike = part.like is None or (row[3] is not None and row[3] == bound.get(part.like, (0, "", 0, None))[3])
        if stream == part.stream and row[2] >= part.least and alike:
            return [(place, {**bound, part.tag: row})], (place, False)
    return [], None


def _every(part: Part, since: int, bound: Bound, events: Sequence[Event]) -> tuple[Results, End]:
    results: Results = []
    pending = [since]
    while pending:
        found, end = run(part.parts[0], pending.pop(), bound, events)
        results += found
        pending += [place for place, _ in found] + ([end[0]] if end is not None and end[1] else [])
    return sorted(results, key=lambda one: one[0]), None


def _then(part: Part, since: int, bound: Bound, events: Sequence[Event]) -> tuple[Results, End]:
    left, right = part.parts
    results: Results = []
    first, end = run(left, since, bound, events)
    ends = [end]
    for place, known in first:
        found, ended = run(right, place, known, events)
        results += found
        ends.append(ended)
    known_ends = [one for one in ends if one is not None]
    if len(known_ends) < len(ends):
        return sorted(results, key=lambda one: one[0]), None
    last = max(place for place, _ in known_ends)
    # The left part's own end, where it is not false, is no result of the whole.
    told = any(one == (last, False) for one in known_ends[1:])
    return sorted(results, key=lambda one: one[0]), (last, not told)


def _and(part: Part, since: int, bound: Bound, events: Sequence[Event]) -> tuple[Results, End]:
    found, ends = [], list[End]()
    for inner in part.parts:
        if inner.kind == "not":
            _, end = run(inner.parts[0], since, bound, events)
            ends.append(None if end is None else (end[0], True))
        else:
            results, end = run(inner, since, bound, events)
            found.append(results)
            ends.append(end)
    joined = [
        (max(place for place, _ in several), {tag: row for _, one in several for tag, row in one.items()})
        for several in product(*found)
    ]
    wanted = [end for end, inner in zip(ends, part.parts, strict=True) if inner.kind != "not"]
    over = None
    if all(end is not None and not end[1] for end in wanted):
        over = max(end[0] for end in wanted if end is not None)
    false = min((end[0] for end in ends if end is not None and end[1]), default=None)
    if false is not None and (over is None or false <= over):
        return sorted([one for one in joined if one[0] < false], key=lambda one: one[0]), (false, True)
    return sorted(joined, key=lambda one: one[0]), None if over is None else (over, False)


def generate(chance: random.Random, depth: int = 3) -> Part:
    """A random pattern."""
    return _generated(chance, depth, iter("abcdefghijklmnopqrstuvwxyz"), [])


def _generated(chance: random.Random, depth: int, tags, known: list[str]) -> Part:  # type: ignore[no-untyped-def]
    kind = chance.choice(("once", "every", "every", "then", "then", "and", "or", "not")) if depth else "once"
    if kind == "once":
        like = chance.choice(known) if known and chance.random() < 0.4 else None
        return Part("once", (), next(tags), chance.choice("AB"), chance.randint(1, 3), like)
    if kind == "every":
        return Part("every", (_generated(chance, depth - 1, tags, known),))
    if kind == "or":
        return Part("or", (_generated(chance, 0, tags, known), _generated(chance, 0, tags, known)))
    left = _generated(chance, depth - 1, tags, known)
    if kind == "then":
        return Part("then", (left, _generated(chance, depth - 1, tags, [*known, *tags_of(left)])))
    right = _generated(chance, 0 if kind == "not" else depth - 1, tags, known)
    return Part("and", (left, Part("not", (right,)) if kind == "not" else right))


def tags_of(part: Part) -> list[str]:
    """The tags of a part, those of what is forbidden too."""
    return [part.tag] if part.kind == "once" else [tag for inner in part.parts for tag in tags_of(inner)]
