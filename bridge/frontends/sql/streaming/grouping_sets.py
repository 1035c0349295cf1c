"""GROUPING SETS, ROLLUP and CUBE beside a window: a query for each set of keys, merged."""

from __future__ import annotations

import itertools

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import expression_list, without_aliases
from bridge.frontends.sql.streaming.undecided import RowsInWindows
from bridge.frontends.sql.streaming.window_groups import Grouping, group_by_windows
from bridge.query.nodes import Node, Union
from windows.sql import under_own_name, with_operands

Keys = tuple[exp.Expr, ...]

_WORDS = ("ROLLUP", "CUBE", "GROUPING SETS")
_MOST = 64
"""The greatest number of sets, each of which is an aggregate of its own."""


def is_grouping_set(cursor: Cursor) -> bool:
    """Whether `ROLLUP ( … )` or the like follows."""
    return cursor.word() in _WORDS and cursor.word(1) == "("


def grouping_sets(cursor: Cursor) -> list[Keys]:
    """Steps over `ROLLUP (a, b)`, `CUBE (a, b)` or `GROUPING SETS ((a, b), a, ())`; returns the sets.

    >>> [[str(key) for key in keys] for keys in grouping_sets(Cursor("ROLLUP (a, b)"))]
    [['a', 'b'], ['a'], []]
    >>> [[str(key) for key in keys] for keys in grouping_sets(Cursor("GROUPING SETS ((a, b), a, ())"))]
    [['a', 'b'], ['a'], []]
    """
    word, position = cursor.word(), cursor.position
    cursor.at += 1
    cursor.expect("(")
    sets = [_keys(cursor)]
    while cursor.take(","):
        sets.append(_keys(cursor))
    cursor.expect(")")
    if word == "ROLLUP":
        sets = [tuple(itertools.chain(*sets[:count])) for count in range(len(sets), -1, -1)]
    elif word == "CUBE":
        chosen = itertools.chain(*(itertools.combinations(sets, count) for count in range(len(sets), -1, -1)))
        sets = [tuple(itertools.chain(*some)) for some in chosen]
    if len(sets) > _MOST:
        cursor.fail(f"{word} has {len(sets)} sets of keys: at most {_MOST} are supported", position)
    return sets


def _keys(cursor: Cursor) -> Keys:
    """`(a, b)`, `()` or a single key."""
    if cursor.take("(", ")"):
        return ()
    wrapped = cursor.take("(")
    region = cursor.until(() if wrapped else (",",))
    keys = without_aliases(cursor, expression_list(cursor, region, "a column to group by"))
    if wrapped:
        cursor.expect(")")
    return keys


def groups_of_sets(rows: RowsInWindows, by: Grouping, sets: list[Keys]) -> Node:
    """A union of the groups by each set of keys. The keys of `by` are in all sets."""
    listed = list(dict.fromkeys(key for keys in sets for key in keys))
    branches = []
    for keys in sets:
        left_out = tuple(key for key in listed if key not in (*by.keys, *keys))
        columns = tuple(column_in_set(column, left_out) for column in by.columns)
        having = tuple(in_set(condition, left_out) for condition in by.having)
        branches.append(group_by_windows(rows, Grouping(columns, by.conditions, (*by.keys, *keys), having)))
    return Union(tuple(branches)) if len(branches) > 1 else branches[0]


def in_set(expression: exp.Expr, left_out: Keys) -> exp.Expr:
    """A column or condition in a set: keys that are left out are NULL, and GROUPING says which these are.

    >>> import sqlglot
    >>> print(in_set(sqlglot.condition("COALESCE(k, 'all') || GROUPING(k) || SUM(k)"), (exp.column("k"),)))
    COALESCE(NULLIF(MAX(k), MAX(k)), 'all') || 1 || SUM(k)
    """
    if isinstance(expression, exp.Grouping):
        bits = "".join("01"[key in left_out] for key in expression.expressions)
        return exp.Literal.number(int(bits, 2))
    if expression in left_out:
        value = exp.Max(this=expression.copy())  # a NULL of the key's type
        return exp.Nullif(this=value, expression=value.copy())
    if isinstance(expression, (exp.AggFunc, exp.Filter)):
        return expression.copy()
    return with_operands(expression, lambda operand: in_set(operand, left_out))


def column_in_set(column: exp.Expr, left_out: Keys) -> exp.Expr:
    """A column of the select list in a set, under its own name."""
    return under_own_name(in_set(column, left_out), column)
