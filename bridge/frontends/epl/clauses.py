"""Clauses of a statement as plain objects: contexts and output rates."""

from __future__ import annotations

import dataclasses

from sqlglot import exp


@dataclasses.dataclass(frozen=True)
class StreamKeys:
    """`k and j from S(v > 1)`: the keys of a stream's events, and which of them count."""

    stream: str
    keys: tuple[exp.Expr, ...]
    condition: exp.Expr | None = None


@dataclasses.dataclass(frozen=True)
class Context:
    """`create context C partition by k from S, j from T`; or of categories, `group by v < 0 as low from S`.

    Categories have labels and conditions; an instance for one of them has its `label`, and its place among them as `id`.
    """

    name: str
    streams: tuple[StreamKeys, ...]
    categories: tuple[tuple[str, exp.Expr], ...] = ()
    label: str | None = None
    id: int = 0

    @property
    def instances(self) -> tuple[Context, ...]:
        """The contexts in which a statement runs: with categories one for each, as if it were written for that alone."""
        if not self.categories:
            return (self,)
        (of,) = self.streams
        conditions = [(label, _both(condition, of.condition)) for label, condition in self.categories]
        return tuple(
            Context(self.name, (StreamKeys(of.stream, (), condition),), label=label, id=place)
            for place, (label, condition) in enumerate(conditions)
        )

    def keyed(self, stream: str) -> StreamKeys | None:
        """The keys and the condition of a stream; None if the context does not name it."""
        return next((one for one in self.streams if one.stream.lower() == stream.lower()), None)


@dataclasses.dataclass(frozen=True)
class OutputRate:
    """`output last every 5 events`: what of the results since the last time, and after how many or how long.

    `is_explicit`: the kind, which is "all" where none is written.
    """

    kind: str
    count: int | None
    time: int | None
    position: int
    is_explicit: bool = False


@dataclasses.dataclass(frozen=True)
class OutputClauses:
    """The condition of HAVING, and DISTINCT before the columns."""

    distinct: bool
    rate: OutputRate | None
    order: tuple[exp.Ordered, ...]
    limit: int | None
    offset: int

    @property
    def is_arranged(self) -> bool:
        return bool(self.order) or self.limit is not None


def _both(one: exp.Expr, other: exp.Expr | None) -> exp.Expr:
    return one if other is None else exp.and_(other.copy(), one.copy())
