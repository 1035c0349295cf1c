"""Patterns of events in time, as EPL has them: each event, whatever else happens between, until it is too late.

A part is started at a moment, may turn true several times, and ends: it is exhausted, or false for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


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
    """The parts one after the other, each started by the one before."""

    parts: tuple[Temporal, ...]


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
    """True from the start until the part is."""

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


Temporal: TypeAlias = Once | Every | Then | Both | Either | Absent | Within | After


def parts(tree: Temporal) -> tuple[Temporal, ...]:
    """The patterns directly inside this one."""
    match tree:
        case Then(inner) | Both(inner) | Either(inner):
            return inner
        case Every(part) | Absent(part) | Within(part=part):
            return (part,)
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
    return any(isinstance(node, (Within, After)) for node in walk(tree))
