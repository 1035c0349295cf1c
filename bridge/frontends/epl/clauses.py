"""Clauses of a statement as plain objects: contexts and output rates."""

from __future__ import annotations

import dataclasses

from sqlglot import exp


@dataclasses.dataclass(frozen=True)
class StreamKeys:
    """`k and j from S(v > 1)`: the keys of a stream's events, and the condition for events to count."""

    stream: str
    keys: tuple[exp.Expr, ...]
    condition: exp.Expr | None = None


@dataclasses.dataclass(frozen=True)
class Context:
    """`create context C partition by k from S, j from T`; or with categories, `group by v < 0 as low from S`.

    Categories have labels and conditions. An instance for a category has its `label`, and as `id` its place among them.
    """

    name: str
    streams: tuple[StreamKeys, ...]
    categories: tuple[tuple[str, exp.Expr], ...] = ()
    label: str | None = None
    id: int = 0

    @property
    def instances(self) -> tuple[Context, ...]:
        """The contexts in which a statement runs: one per category, as if the statement were written for it alone."""
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
    """`output last every 5 events`: which results since the last report are reported, and after how many or how long.

    `is_explicit`: whether the kind is written; otherwise it is "all".
    """

    kind: str
    count: int | None
    time: int | None
    position: int
    is_explicit: bool = False


@dataclasses.dataclass(frozen=True)
class OutputClauses:
    """DISTINCT, and the clauses after HAVING: output, order by, limit and offset."""

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
