"""Optimisation rules, and the facts about a push that they may use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from sqlglot import exp


@dataclasses.dataclass(frozen=True)
class OneRow:
    """A table that holds one row of known `values`, by the names of its columns.

    `inline`: whether the values may replace the columns. `separate`: whether the database would compute constant
    expressions of them while it plans, and fail before a condition prevents it; then they stay in a sub-query, which it
    does not fold.
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
"""The facts if nothing is known of the push."""

Rule = Callable[[exp.Expr, Facts], "exp.Expr | None"]
"""Rewrites a statement into an equal one, in place; returns None if the statement reads or writes no row."""
