"""Patterns of events in time, as EPL has them: each event, whatever else happens between, until it is too late.

A part is started at a moment, may turn true several times, and ends: it is exhausted, or false for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nfa.temporal.calendar import Crontab, Dates


@dataclass(frozen=True, slots=True)
class Once:
    """The first event of this number's kind after the start."""

    number: int


@dataclass(frozen=True, slots=True)
class Every:
    """The part, started anew whenever it turns true, or false for good."""

    part: Temporal


@dataclass(frozen=True, slots=True)
class Then:
    """The parts one after the other, each started by the one before.

    `limits` says of each part but the first how many instances of it may be under way at once (None, or no limits at all:
    however many); what would start one more is dropped.
    """

    parts: tuple[Temporal, ...]
    limits: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Both:
    """All parts, in any order."""

    parts: tuple[Temporal, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of the parts."""

    parts: tuple[Temporal, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """True from the start until the part is, for the last time."""

    part: Temporal


@dataclass(frozen=True, slots=True)
class Within:
    """The part, for so many milliseconds after its start, `most` times (None: however often)."""

    part: Temporal
    time: int
    most: int | None = None


@dataclass(frozen=True, slots=True)
class After:
    """So many milliseconds after the start."""

    time: int


@dataclass(frozen=True, slots=True)
class At:
    """The next of these dates after the start; `repeatedly`, each of them, then false for good."""

    when: Crontab | Dates
    repeatedly: bool = False


@dataclass(frozen=True, slots=True)
class While:
    """The part, for as long as the value of this number is true when the part is; false for good then."""

    part: Temporal
    value: int


@dataclass(frozen=True, slots=True)
class Distinct:
    """`Every`, told once for the same values of these numbers, or once in so many milliseconds."""

    part: Temporal
    values: tuple[int, ...]
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """The part again and again: `least` times if there is no `until`, else until that is true.

    It is false when `until` comes before the part was true `least` times; after `most` times the part rests. `least` and
    `most` alike end it by themselves.
    """

    part: Temporal
    least: int | None = None
    most: int | None = None
    until: Temporal | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it ends when the part was true so many times."""
        return self.least is not None and self.least == self.most


Temporal: TypeAlias = Once | Every | Then | Both | Either | Absent | Within | After | At | While | Distinct | Repeat


def parts(tree: Temporal) -> tuple[Temporal, ...]:
    """The patterns directly inside this one."""
    match tree:
        case Then(inner) | Both(inner) | Either(inner):
            return inner
        case Every(part) | Absent(part) | Within(part=part) | While(part=part) | Distinct(part=part):
            return (part,)
        case Repeat(part=part, until=until):
            return (part,) if until is None else (part, until)
    return ()


def walk(tree: Temporal) -> Iterator[Temporal]:
    """This pattern and all inside it, in the order of the text.

    >>> [type(node).__name__ for node in walk(Every(Then((Once(0), Absent(Once(1))))))]
    ['Every', 'Then', 'Once', 'Absent', 'Once']
    """
    yield tree
    for part in parts(tree):
        yield from walk(part)


def is_timed(tree: Temporal) -> bool:
    """Whether time alone can make it true or false."""
    return any(isinstance(node, (Within, After, At)) for node in walk(tree))


def numbers(tree: Temporal) -> dict[int, bool]:
    """The numbers of the events in a pattern, in the order of the text, and whether each can be several events.

    >>> numbers(Then((Repeat(Once(0), 2, 2), Once(1))))
    {0: True, 1: False}
    """
    if isinstance(tree, Once):
        return {tree.number: False}
    found: dict[int, bool] = {}
    for part in parts(tree):
        several = isinstance(tree, Repeat) and part is tree.part
        found |= {number: several or more for number, more in numbers(part).items()}
    return found


def is_instant(tree: Temporal) -> bool:
    """Whether it can be true from its very start."""
    match tree:
        case Absent():
            return True
        case Then(inner) | Both(inner):
            return all(map(is_instant, inner))
        case Either(inner):
            return any(map(is_instant, inner))
        case Within(part=part) | While(part=part):
            return is_instant(part)
        case Repeat(part=part, until=until):
            return is_instant(part) or (until is not None and is_instant(until))
    return False
