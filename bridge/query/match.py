"""MATCHING of the paper's extended SQL: strictly sequential patterns that report all matches (rules P1 to P7)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlglot import exp

from bridge.errors import QueryError
from bridge.query.expressions import scalar, scalars
from bridge.query.nodes import Node, checked, set_fields
from nfa.errors import PatternError
from nfa.parse import parse_pattern
from nfa.pattern import Pattern
from windows.schema import Schema
from windows.times import duration


@dataclasses.dataclass(frozen=True)
class Definition:
    """One symbol of a Match: its condition, and the variables set by a row that is matched as this symbol (rule P3).

    Without a `condition`, every row matches this symbol. `assignments` maps variables to expressions.

    Raises:
        QueryError: an expression is not SQL.

    >>> print(Definition("y", "a > z1", {"z2": "a"}).assignments[0][0])
    z2
    """

    symbol: str
    condition: exp.Expr | None = None
    assignments: tuple[tuple[str, exp.Expr], ...] = ()

    def __post_init__(self) -> None:
        pairs = self.assignments.items() if isinstance(self.assignments, Mapping) else self.assignments
        condition = None if self.condition is None else scalar(self.condition)
        set_fields(self, condition=condition, assignments=tuple((name, scalar(value)) for name, value in pairs))


@dataclasses.dataclass(frozen=True)
class Match(Node):
    """All matches of `pattern` over strictly consecutive timestamps, in less than `within` milliseconds (rules P1–P7).

    `within` is a number of milliseconds or a text such as `"2 S"`. `measures` declares the variables, which are the
    columns of a match. With `partition_by`, each key is matched separately.

    Raises:
        QueryError: the pattern, the duration, the schema or an expression cannot be read.

    >>> from bridge.query.nodes import Stream
    >>> rise = [Definition("x", None, {"z1": "a"}), Definition("y", "a > z1", {"z2": "a"})]
    >>> print(Match(Stream("s"), "xy", "2 S", "z1 INTEGER, z2 INTEGER", rise))
    SELECT * FROM s MATCHING (PATTERN x y WITHIN 2000 MS MEASURES z1: INTEGER, z2: INTEGER \
DEFINE x DO z1 = a, y AS a > z1 DO z2 = a)
    """

    keeps_name = True

    input: Node
    pattern: Pattern
    within: int
    measures: Schema
    define: tuple[Definition, ...] = ()
    partition_by: tuple[exp.Expr, ...] = ()

    def __post_init__(self) -> None:
        names = [definition.symbol for definition in self.define]
        set_fields(
            self,
            pattern=self.pattern if isinstance(self.pattern, Pattern) else _pattern(self.pattern, names),
            within=checked(duration, self.within),
            measures=checked(Schema.of, self.measures),
            define=tuple(self.define),
            partition_by=scalars(self.partition_by),
        )


def _pattern(text: str, names: list[str]) -> Pattern:
    try:
        return parse_pattern(text, names=names)
    except PatternError as error:
        raise QueryError(error.message, text, error.position) from None
