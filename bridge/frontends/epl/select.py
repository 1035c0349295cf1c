"""What a statement of EPL cannot say, at its place: columns without a name, values that are not known where they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl.enumerations import EACH
from bridge.frontends.epl.previous import BEFORE, Priors
from bridge.frontends.epl.subqueries import FOUND, Subqueries
from bridge.query.epl_columns import Enumeration, PreviousRow, SubqueryColumn
from bridge.query.epl_patterns import TemporalMatch
from bridge.query.epl_state import CURRENT
from bridge.query.nodes import Correlate, Filter, Node, Window, walk

LATER = (FOUND, BEFORE)
"""What the columns begin with that stand for sub-queries, and for values of events before."""


def columns_in(expressions: Sequence[exp.Expr]) -> Iterator[exp.Column]:
    """All columns that they name."""
    return (column for expression in expressions for column in expression.find_all(exp.Column))


def refuse_unnamed(cursor: Cursor, columns: tuple[exp.Expr, ...], cut: Subqueries, priors: Priors) -> None:
    """A column with a sub-query, a method on a list, or a value of an event before, has no name of its own."""
    places: dict[str, int | None] = {one.name: one.position for one in cut.found}
    places |= {one.name: one.position for one in cut.each.found}
    places |= {one.name: one.position for one in priors.found}
    for column in columns:
        inside = [name for one in column.find_all(exp.Column) for name in (one.table, one.name) if name in places]
        if inside and not isinstance(column, exp.Alias):
            cursor.fail("a column with a sub-query, a method, prev or prior is named: … as x", places[inside[0]])


def refuse_repeated(cursor: Cursor, node: Node, region: Region, columns: tuple[exp.Expr, ...]) -> None:
    """`select *` of a pattern that repeats an event."""
    patterns = (below for below in walk(node) if isinstance(below, TemporalMatch))
    found = (
        tag
        for below in patterns
        for number, tag, several in below.tags
        if several and not any(told.number == number and told.is_whole for told in below.event_columns)
    )
    if columns == (exp.Star(),) and (tag := next(found, None)) is not None:
        message = f"select * cannot tell {tag!r}, which stands for several events: name {tag}[0].…, {tag}.lastOf().…"
        cursor.fail(message, cursor.span(region)[0])


def refuse_lookups(cursor: Cursor, node: Node, columns: tuple[exp.Expr, ...], position: int) -> None:
    """What a sub-query finds is known as an event arrives; a window would ask again as it leaves."""
    below, looks_up = node, False
    while isinstance(below, (Filter, SubqueryColumn, PreviousRow, Enumeration)):
        looks_up, below = looks_up or not isinstance(below, Filter), below.input
    if looks_up and isinstance(below, (Window, Correlate)):
        cursor.fail(
            "aggregates over a window with a sub-query, prev, prior or a variable that changes are not supported: insert "
            "into names these",
            position,
        )
    if any(one.name.startswith((*LATER, EACH, CURRENT)) for one in columns_in(columns)):
        cursor.fail(
            "a sub-query, a method on a list, prev, prior or a variable that changes beside aggregates is not supported: "
            "insert into names it",
            position,
        )
