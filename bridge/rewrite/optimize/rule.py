"""Optimisation rules, and the facts that they may use about the push that a statement is for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from sqlglot import exp


@dataclasses.dataclass(frozen=True)
class OneRow:
    """A table that holds one row of known `values`, by the names of its columns.

    `inline`: the values may stand in the place of the columns. `separate`: the database would compute constants of them
    while it plans, which fails where a condition was to prevent it; so they are kept in a sub-query that it does not fold.
    """

    table: str
    values: Mapping[str, exp.Expr]
    inline: bool
    separate: bool


@dataclasses.dataclass(frozen=True)
class Facts:
    """The facts known when a statement runs: tables that are `empty`, and the one that holds one row."""

    empty: Collection[str] = ()
    row: OneRow | None = None


NOTHING = Facts()
"""Nothing is known of the push."""

Rule = Callable[[exp.Expr, Facts], "exp.Expr | None"]
"""Maps a statement to an equal one, changing it in place; gives None where the statement reads or writes no row."""
