"""Which of its two streams a statement of EPL tells: what comes (istream), what leaves (rstream), or both, each marked."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.changes import Leaving
from bridge.frontends.cursor import Cursor
from bridge.query import (
    Arrange,
    Correlate,
    EagerMatch,
    Filter,
    Map,
    Node,
    Prior,
    TemporalMatch,
    Union,
    Window,
    in_order,
    is_plain_join,
    unfiltered,
    walk,
)
from bridge.scope import column

TOLD = "told."
"""What the columns begin with that hold what aggregates told before (`epl_before`)."""

NEW = "istream"
"""The column that tells what comes from what leaves; a statement names it `istream()`."""


def leaving(cursor: Cursor, node: Node, position: int) -> Leaving:
    """What leaves a window; `position`: where rstream stands."""
    if not isinstance(node, Window):
        cursor.fail("rstream wants one stream with a window: #time(5 sec), #length(5)", position)
    return Leaving(node)


def both(cursor: Cursor, node: Node, position: int) -> Node:
    """What comes, and what leaves, where something may; of one moment first what comes.

    >>> from bridge.frontends.epl_text import EplCursor
    >>> from bridge.query import Stream
    >>> print(both(EplCursor("irstream"), Window(Stream("s"), "ROWS 5"), 0))
    SELECT *, TRUE AS istream FROM s WINDOW(ROWS 5) \
UNION ALL SELECT *, FALSE AS istream FROM (SELECT * FROM s WINDOW(ROWS 5) AS THEY LEAVE)
    """
    if isinstance(node, (EagerMatch, TemporalMatch)):
        return node
    return Union((_marked(node, exp.true()), _marked(Leaving(node), exp.false())))


def check_join(cursor: Cursor, node: Node, position: int) -> None:
    """Refuses rstream and irstream where it is not known when combinations leave."""
    assert isinstance(node, Correlate)
    if not is_plain_join(node):
        cursor.fail(
            "rstream and irstream of this join are not supported: insert into names its results; of windows that are "
            "neither batches nor #time_accum, joined with inner joins, they are",
            position,
        )


def of_join(node: Node, columns: tuple[exp.Expr, ...], both: bool) -> Node:
    """The combinations that leave with the first of their parts; with `both` those that come before, each marked."""
    left = Map(Leaving(node), _valued(columns, exp.false()))
    return Union((Map(node, _valued(columns, exp.true())), left)) if both else left


def _marked(node: Node, value: exp.Expr) -> Map:
    return Map(node, (exp.Star(), exp.alias_(value, NEW)))


def is_both(node: Node) -> bool:
    """Whether a statement's source is what comes and what leaves."""
    return isinstance(unfiltered(node), Union)


def streams_of(node: Node) -> str:
    """What a statement says before its list, where something may leave."""
    below = list(walk(node))
    if any(isinstance(one, Filter) and one.condition == exp.Not(this=column(NEW)) for one in below):
        return "RSTREAM"
    if any(isinstance(one, Union) for one in below):
        return "IRSTREAM"
    left = any(isinstance(one, Leaving) or (isinstance(one, Prior) and one.name.startswith(TOLD)) for one in below)
    return "RSTREAM" if left else ""


def marked(columns: tuple[exp.Expr, ...], node: Node) -> tuple[exp.Expr, ...]:
    """The columns of a list over `node`, which `both` gave, with the mark after them where they do not name it."""
    star = is_both(node) and any(column.is_star for column in columns)
    columns = columns if star else with_mark(columns)
    return columns if is_both(node) else _valued(columns, exp.true())  # nothing leaves what matches


def with_mark(columns: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """The columns of a list, with the mark after them where they do not name it."""
    if any(is_mark(one) for column in columns for one in column.walk()):
        return columns
    return (*columns, exp.alias_(exp.column(NEW), NEW, quoted=True))


def mark(call: exp.Expr) -> exp.Expr:
    """`istream()` as the column that it is, under its name where it stands alone."""
    found = exp.column(NEW)
    return found if isinstance(call.parent, exp.Alias) else exp.alias_(found, f"{NEW}()", quoted=True)


def is_mark(value: exp.Expr) -> bool:
    """Whether a value is the mark."""
    return isinstance(value, exp.Column) and value.name == NEW and not value.table


def _valued(columns: tuple[exp.Expr, ...], value: exp.Expr) -> tuple[exp.Expr, ...]:
    """The columns with a value for the mark."""
    return tuple(column.transform(lambda one: value.copy() if is_mark(one) else one) for column in columns)


def arranged(node: Arrange) -> Arrange:
    """The same order of what comes, and after it of what leaves."""
    return dataclasses.replace(node, order_by=(in_order(f"{NEW} DESC"), *node.order_by))
