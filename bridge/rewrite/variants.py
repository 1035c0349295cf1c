"""The variants of a statement: all give the same rows, and each is the fastest for one kind of push."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S")


@dataclasses.dataclass(frozen=True)
class StatementWriter(Generic[T_co]):
    """Writes a statement when it is first needed. `method`: a short description of how it computes its rows.

    >>> StatementWriter(lambda: "SELECT 1", "a constant").map(str.lower)()
    'select 1'
    """

    write: Callable[[], T_co]
    method: str = ""

    def __call__(self) -> T_co:
        return self.write()

    def map(self, change: Callable[[T_co], S]) -> StatementWriter[S]:
        """A writer of the statement after `change`."""
        return StatementWriter(lambda: change(self.write()), self.method)


@dataclasses.dataclass(frozen=True)
class Variants(Generic[T_co]):
    """One statement in several variants. `any` is right for every push; None means that there is no better variant.

    few: for a push of few events (`Settings.few`). one: for a single event. brief: for many events within a time that
    is short compared with the window. long: for few events and a window of many rows. shared: for many events, if
    queries that differ in constants share the statement. many: for thousands of events (`Settings.many`). history: for
    a whole history, before which nothing is stored. entering: the rows of a single event, without those caused by rows
    that leave windows at its time; it never runs, but describes what this process has to compute.

    >>> variants = Variants("frames", few="join")
    >>> variants.of("one"), variants.of("shared"), dict(variants.items())
    ('join', 'frames', {'any': 'frames', 'few': 'join'})
    """

    any: T_co
    few: T_co | None = None
    one: T_co | None = None
    brief: T_co | None = None
    long: T_co | None = None
    shared: T_co | None = None
    many: T_co | None = None
    history: T_co | None = None
    entering: T_co | None = None

    def of(self, push: str) -> T_co:
        """The variant for a push of this kind."""
        found: T_co | None = getattr(self, push)
        return self.of(_NEXT[push]) if found is None else found

    def kind(self, push: str) -> str:
        """The name of the variant that a push of this kind takes."""
        return push if getattr(self, push) is not None else self.kind(_NEXT[push])

    def items(self) -> Iterator[tuple[str, T_co]]:
        """The variants that run, by their names."""
        return ((name, variant) for name, variant in self._known() if name != "entering")

    def _known(self) -> Iterator[tuple[str, T_co]]:
        for field in dataclasses.fields(self):
            if (variant := getattr(self, field.name)) is not None:
                yield field.name, variant

    def map(self, change: Callable[[T_co], S]) -> Variants[S]:
        """The variants that `change` makes of these."""
        return Variants(**{name: change(variant) for name, variant in self._known()})


_NEXT = {"one": "few", "few": "any", "long": "few", "brief": "any", "shared": "any", "many": "any", "history": "many"}
"""The variant to take if there is none for a kind of push."""
