"""The tree of EPL's patterns of events in time.

A part is started at some time, may turn true several times, and then ends: it is exhausted, or false for good.
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
    """The part, started anew whenever it turns true or false for good."""

    part: Temporal


@dataclass(frozen=True, slots=True)
class Then:
    """The parts one after the other, each started by the one before.

    `limits` has for each part but the first the most live instances (None: no limit); a result that would start one more is
    dropped.
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
    """True from the start on, until the part is true for the last time."""

    part: Temporal


@dataclass(frozen=True, slots=True)
class Within:
    """The part, for `time` ms after its start and at most `most` times (None: no limit)."""

    part: Temporal
    time: int
    most: int | None = None


@dataclass(frozen=True, slots=True)
class TimerInterval:
    """True `time` ms after the start."""

    time: int


@dataclass(frozen=True, slots=True)
class At:
    """True at the next of these dates after the start; if `repeatedly` at each of them, then false for good."""

    when: Crontab | Dates
    repeatedly: bool = False


@dataclass(frozen=True, slots=True)
class While:
    """The part, as long as the value of this number is true whenever the part turns true; then false for good."""

    part: Temporal
    value: int


@dataclass(frozen=True, slots=True)
class Distinct:
    """`Every`, true once for equal values of these numbers, or once in `time` ms."""

    part: Temporal
    values: tuple[int, ...]
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """The part repeated: `least` times without `until`, else until that is true.

    It is false if `until` is true before the part was true `least` times; after `most` times the part is not started again.
    If `least` equals `most` it ends after that many times.
    """

    part: Temporal
    least: int | None = None
    most: int | None = None
    until: Temporal | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it ends when the part was true `least` times."""
        return self.least is not None and self.least == self.most


Temporal: TypeAlias = (
    Once | Every | Then | Both | Either | Absent | Within | TimerInterval | At | While | Distinct | Repeat
)


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
    """Whether time alone can turn it true or false."""
    return any(isinstance(node, (Within, TimerInterval, At)) for node in walk(tree))


def numbers(tree: Temporal) -> dict[int, bool]:
    """The numbers of the events in a pattern, in the order of the text, and whether each is a list of events.

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
    """Whether it can be true when it starts."""

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
