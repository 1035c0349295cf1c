"""Optimisation rules: each rewrites a statement into an equal one that runs faster.

`RULES` are applied to one statement, in this order; a rule of `MERGES` combines statements of several queries.
"""

from __future__ import annotations

from sqlglot import exp

from bridge.rewrite.optimize.constants import share_constants
from bridge.rewrite.optimize.inline import bind_event
from bridge.rewrite.optimize.prune import drop_empty, prune
from bridge.rewrite.optimize.rule import NOTHING, Facts, Rule
from bridge.rewrite.optimize.side_by_side import side_by_side

RULES: tuple[Rule, ...] = (drop_empty, bind_event, prune)
MERGES = (share_constants, side_by_side)


def optimize(statement: exp.Expr, facts: Facts = NOTHING) -> exp.Expr | None:
    """The statement (changed in place) after all rules; None if it reads or writes no row.

    >>> import sqlglot
    >>> print(optimize(sqlglot.parse_one("SELECT a FROM (SELECT a, b FROM t) AS q")))
    SELECT a FROM (SELECT a FROM t) AS q
    """
    for rule in RULES:
        changed = rule(statement, facts)
        if changed is None:
            return None
        statement = changed
    return statement


def fired(statement: exp.Expr, facts: Facts = NOTHING) -> list[str]:
    """The names of the rules that change a statement.

    >>> import sqlglot
    >>> fired(sqlglot.parse_one("SELECT a FROM (SELECT a, b FROM t) AS q"))
    ['prune']
    """
    names: list[str] = []
    statement = statement.copy()
    for rule in RULES:
        before = statement.sql()
        changed = rule(statement, facts)
        if changed is None or changed.sql() != before:
            names.append(rule.__name__)
        if changed is None:
            break
        statement = changed
    return names
