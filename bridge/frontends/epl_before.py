"""Aggregates as they were before each change (EPL's rstream and irstream): what a group told last, or of no event."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_streams import NEW, TOLD, is_mark
from bridge.frontends.scalars import position_of
from bridge.query import Aggregate, Map, Node, Prior, Union
from bridge.scope import column as by_name

_KEY = "key."


def told_before(
    cursor: Cursor, which: str, columns: tuple[exp.Expr, ...], aggregate: Callable[[tuple[exp.Expr, ...]], Aggregate]
) -> Node:
    """What `rstream` tells of an aggregate, or `irstream`, with the mark among the columns.

    >>> from bridge.frontends.epl_text import EplCursor
    >>> from bridge.query import Stream, Window
    >>> def made(columns):
    ...     return Aggregate(Window(Stream("s"), "ROWS 5"), columns)
    >>> print(told_before(EplCursor("rstream"), "RSTREAM", (exp.alias_(exp.Count(this=exp.Star()), "n"),), made))
    SELECT COALESCE("told.1", 0) AS "n" FROM \
(SELECT COUNT(*) AS n FROM s WINDOW(ROWS 5)) WITH "told.1" ("n" OF 1 ROWS BEFORE)
    """
    marks = [is_mark(_unaliased(column)) for column in columns]
    listed = tuple(column for column, mark in zip(columns, marks, strict=True) if not mark)
    made = aggregate(listed)
    hidden = tuple(
        exp.alias_(key.copy(), f"{_KEY}{place}", quoted=True)
        for place, key in enumerate(made.group_by, 1)
        if key not in map(_unaliased, listed)
    )
    made = dataclasses.replace(made, columns=(*made.columns, *hidden))
    names = {_unaliased(column): _alias_of(column) for column in made.columns}
    keys = tuple(by_name(names[key]) for key in made.group_by)
    node: Node = made
    before: dict[int, exp.Expr] = {}
    for place, column in enumerate(listed, 1):
        value = _unaliased(column)
        if value in made.group_by:
            continue
        if not isinstance(value, exp.AggFunc):
            cursor.fail(
                f"{which.lower()} tells groups and aggregates alone: insert into names what is computed of them",
                position_of(value),
            )
        called = f"{TOLD}{place}"
        node = Prior(node, called, by_name(_alias_of(column)), 1, None, keys)
        counts = isinstance(value, exp.Count)
        none = [exp.Literal.number(0)]
        before[place] = exp.Coalesce(this=by_name(called), expressions=none) if counts else by_name(called)

    def told(is_new: bool) -> Map:
        found: list[exp.Expr] = []
        place = 0
        for column, mark in zip(columns, marks, strict=True):
            place += not mark
            own: exp.Expr = exp.true() if is_new else exp.false()
            if not mark:
                own = by_name(_alias_of(column)) if is_new else before.get(place, by_name(_alias_of(column))).copy()
            found.append(exp.alias_(own, _alias_of(column), quoted=True))
        return Map(node, tuple(found))

    return told(False) if which == "RSTREAM" else Union((told(True), told(False)))


def _unaliased(column: exp.Expr) -> exp.Expr:
    return column.this if isinstance(column, exp.Alias) else column


def _alias_of(column: exp.Expr) -> str:
    if isinstance(column, exp.Alias):
        return str(column.alias)
    return column.name if isinstance(column, exp.Column) and column.name != NEW else column.sql()
