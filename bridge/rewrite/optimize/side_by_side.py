"""Statements that read the same rows and select different columns become one, with all the columns side by side.

In a family (`constants.py`), values of a row make the differences; but bounds of window frames must be literals. Here
each member has columns of its own, equal columns are selected once, and the rows are read once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import cast

from sqlglot import exp

from bridge.rewrite.flow import AT_LEAST
from bridge.rewrite.optimize.constants import NotAlike
from windows.sql import aliased, from_items, identifier

_CLAUSES = {"expressions", "from_", "where", "order"}


@dataclasses.dataclass(frozen=True)
class SideBySide:
    """One statement for several. `places`: for each member, the places of its columns."""

    statement: exp.Select
    places: tuple[tuple[int, ...], ...]


def side_by_side(statements: Sequence[exp.Expr]) -> SideBySide:
    """Merges statements of the same shape into one. Raises NotAlike.

    >>> import sqlglot
    >>> each = (f"SELECT ts, n FROM (SELECT ts, COUNT(*) OVER (ROWS {k} PRECEDING) AS n FROM t) AS q" for k in (4, 7))
    >>> one = side_by_side([sqlglot.parse_one(text) for text in each])
    >>> print(one.statement.sql(pretty=True), one.places)
    SELECT
      ts,
      "n_0",
      "n_1"
    FROM (
      SELECT
        ts,
        COUNT(*) OVER (ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS "n_0",
        COUNT(*) OVER (ROWS BETWEEN 7 PRECEDING AND CURRENT ROW) AS "n_1"
      FROM t
    ) AS q ((0, 1), (0, 2))
    """
    order = statements[0].args.get("order")
    merged = _MergedSelect.of(statements, order)
    if order is not None:
        if merged.own & {found.name for found in order.find_all(exp.Column)}:
            raise NotAlike("an order by what differs")
        merged.select.set("order", order.copy())
    return SideBySide(merged.select, tuple(zip(*merged.places, strict=True)))


def is_one(statements: Sequence[exp.Expr]) -> bool:
    """Whether `side_by_side` can merge the statements."""
    try:
        side_by_side(statements)
    except NotAlike:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class _MergedSelect:
    """One SELECT for the SELECTs of all members: the columns that differ, and the place of each column per member."""

    select: exp.Select
    own: frozenset[str]
    places: list[tuple[int, ...]]

    @classmethod
    def of(cls, queries: Sequence[exp.Expr], order: exp.Expr | None = None) -> _MergedSelect:
        selects = [_select(query, order) for query in queries]
        rows, own = _rows(selects)
        select = exp.Select()
        select.set("from_", exp.From(this=rows))
        if (where := _where([each.args.get("where") for each in selects], own)) is not None:
            select.set("where", where)
        named_own: set[str] = set()
        places: list[tuple[int, ...]] = []
        count = 0
        for several in zip(*(each.expressions for each in selects), strict=True):
            if _is_one(several, own):
                select.append("expressions", several[0].copy())
                places.append((count,) * len(several))
                count += 1
                continue
            name = several[0].alias_or_name
            if not name or any(each.alias_or_name != name for each in several):
                raise NotAlike("columns of other names")
            named_own.add(name)
            for member, each in enumerate(several):
                select.append("expressions", aliased(_of_member(each.unalias(), member, own), _name(name, member)))
            places.append(tuple(range(count, count + len(several))))
            count += len(several)
        if len({name.lower() for name in select.named_selects}) < count:
            raise NotAlike("two columns of one name")
        return cls(select, frozenset(named_own), places)


def _select(query: exp.Expr, order: exp.Expr | None) -> exp.Select:
    """The query, if it is a SELECT that gives one row for each row that it reads; else raises NotAlike."""
    if not isinstance(query, exp.Select):
        raise NotAlike(f"{type(query).__name__} is no SELECT")
    given = {clause for clause, value in query.args.items() if value}
    if given - _CLAUSES or query.args.get("order") != order or len(from_items(query)) != 1:
        raise NotAlike("a SELECT with more than rows, columns and conditions")
    if any(isinstance(call, exp.AggFunc) and not isinstance(call.parent, exp.Window) for call in _column_nodes(query)):
        raise NotAlike("an aggregate of all rows")
    return query


def _column_nodes(select: exp.Select) -> list[exp.Expr]:
    """The nodes of the columns, without sub-queries."""
    nodes = (one.walk(prune=lambda node: isinstance(node, exp.Query)) for one in select.expressions)
    return [node for each in nodes for node in each]


def _rows(selects: Sequence[exp.Select]) -> tuple[exp.Expr, frozenset[str]]:
    """The rows that all members read, and the names of the columns that differ."""
    first, *others = (each.args["from_"].this for each in selects)
    if all(other == first for other in others):
        return first.copy(), frozenset()
    if not all(isinstance(each, exp.Subquery) and each.alias == first.alias for each in (first, *others)):
        raise NotAlike("they read other rows")
    merged = _MergedSelect.of([each.this for each in (first, *others)])
    return cast("exp.Expr", exp.Subquery(this=merged.select, alias=first.args["alias"].copy())), merged.own


def _where(wheres: Sequence[exp.Where | None], own: frozenset[str]) -> exp.Expr | None:
    """The condition, which must be equal for all members, except for numbers marked as replaceable by greater ones."""
    if all(where is None for where in wheres):
        return None
    found = [where.copy() for where in wheres if where is not None]
    bounds = [[node for node in where.walk() if node.meta_get(AT_LEAST)] for where in found]
    for several in zip(*bounds, strict=False):
        greatest = max(several, key=lambda bound: int(bound.name))
        for bound in several:
            bound.replace(greatest.copy())
    if len(found) < len(wheres) or any(where != found[0] for where in found):
        raise NotAlike("other conditions")
    if own & {column.name for column in found[0].find_all(exp.Column)}:
        raise NotAlike("a condition on what differs")
    return found[0]


def _is_one(several: Sequence[exp.Expr], own: frozenset[str]) -> bool:
    """Whether a column is the same for all members."""
    if any(each != several[0] for each in several):
        return False
    return own.isdisjoint(column.name for column in several[0].find_all(exp.Column))


def _of_member(expression: exp.Expr, member: int, own: frozenset[str]) -> exp.Expr:
    """An expression over the member's own columns."""
    copied = expression.copy()
    for column in [found for found in copied.find_all(exp.Column) if found.name in own]:
        if column.find_ancestor(exp.Query) is not None:
            raise NotAlike("a sub-query about what differs")
        column.set("this", identifier(_name(column.name, member)))
    return copied


def _name(name: str, member: int) -> str:
    return f"{name}_{member}"
