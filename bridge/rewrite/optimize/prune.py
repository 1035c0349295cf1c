"""Drops columns of sub-queries that are not read, and joins to empty tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from bridge.rewrite.optimize.rule import Facts
from windows.sql import from_items


def prune(statement: exp.Expr, facts: Facts) -> exp.Expr:
    """The statement (changed in place) whose sub-queries in FROM select only the columns that are read.

    >>> import sqlglot
    >>> print(prune(sqlglot.parse_one("SELECT a FROM (SELECT a, b FROM t) AS q WHERE q.c > 1"), Facts()))
    SELECT a FROM (SELECT a FROM t) AS q WHERE q.c > 1
    """
    for select in statement.find_all(exp.Select):
        if not isinstance(select.parent, (exp.Subquery, exp.Union)):
            _prune(select)
    return statement


def _prune(select: exp.Select) -> None:
    for item in _sub_queries(select):
        used = _used(select, item)
        if used is not None:
            _keep(item.this, used)
        for inner in _selects(item.this):
            _prune(inner)


def _keep(query: exp.Expr, used: Collection[str]) -> None:
    """Keeps the columns of these names; in a union, the columns at their places."""
    names = [each.alias_or_name for each in next(_selects(query)).expressions]
    selects = list(_selects(query))
    if "*" in names or any(select.args.get("distinct") for select in selects) or _is_distinct(query):
        return
    kept = [place for place, name in enumerate(names) if name in used] or [0]
    for select in selects:
        select.set("expressions", [select.expressions[place] for place in kept])


def _is_distinct(query: exp.Expr) -> bool:
    return any(union.args.get("distinct") for union in query.find_all(exp.Union))


def _selects(query: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs of a union, or the only SELECT."""
    if isinstance(query, exp.Union):
        yield from _selects(query.left)
        yield from _selects(query.right)
    elif isinstance(query, exp.Select):
        yield query


def _sub_queries(select: exp.Select) -> list[exp.Subquery]:
    return [item for item in from_items(select) if isinstance(item, exp.Subquery) and list(_selects(item.this))]


def _used(select: exp.Select, item: exp.Subquery) -> set[str] | None:
    """The columns of the item that the rest of the SELECT names; None if it selects all of them."""
    used: set[str] = set()
    alias = item.alias
    for node in select.walk(prune=lambda node: node is item):
        if isinstance(node, exp.Column) and node.table in ("", alias):
            used.add(node.name)
        elif isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
    return used


# Statements over tables that are known to be empty


def drop_empty(statement: exp.Expr, facts: Facts) -> exp.Expr | None:
    """The statement (changed in place) without joins to tables known to be empty; None if it has no rows.

    >>> import sqlglot
    >>> union = sqlglot.parse_one("SELECT a.x FROM a JOIN w ON a.x = w.x UNION ALL SELECT b.x FROM b JOIN v ON b.x = v.x")
    >>> print(drop_empty(union, Facts(empty={"b"})))
    SELECT a.x FROM a JOIN w ON a.x = w.x
    """
    if not facts.empty or isinstance(statement, exp.Delete):
        return statement
    if not isinstance(statement, exp.Insert):
        return without_empty_tables(statement, facts.empty)
    rows = without_empty_tables(statement.expression, facts.empty)
    if rows is not None:
        statement.set("expression", rows)
    return statement if rows is not None else None


def without_empty_tables(query: exp.Expr, empty: Collection[str]) -> exp.Expr | None:
    """The query (changed in place) without branches of UNION ALL that join an empty table; None if it has no rows."""
    if query.args.get("with_"):
        return query
    if isinstance(query, exp.Union):
        return _of_union(query, empty)
    return _of_select(query, empty) if isinstance(query, exp.Select) else query


def _of_union(union: exp.Union, empty: Collection[str]) -> exp.Expr | None:
    left, right = without_empty_tables(union.left, empty), without_empty_tables(union.right, empty)
    if left is None and right is None:
        return None
    whole = union.args.get("distinct") or union.args.get("order") or union.args.get("limit")
    if whole or (left is None and union.left.named_selects != union.right.named_selects):
        return union
    if left is None or right is None:
        return left or right
    union.set("this", left)
    union.set("expression", right)
    return union


def _of_select(select: exp.Select, empty: Collection[str]) -> exp.Select | None:
    gone = False
    for item in from_items(select):
        join = item.parent if isinstance(item.parent, exp.Join) else None
        outer = join is not None and bool(join.side)
        if outer and join is not None and join.side != "LEFT":
            return select  # it also gives rows that earlier items do not have
        if isinstance(item, exp.Subquery):
            found = without_empty_tables(item.this, empty)
            gone |= found is None and not outer
            item.set("this", found or item.this)
        elif isinstance(item, exp.Table) and not item.db:
            gone |= item.name in empty and not outer
    return None if gone and (select.args.get("group") or not _is_aggregate(select)) else select


def _is_aggregate(select: exp.Select) -> bool:
    """Whether a SELECT gives a row even if it reads none."""
    nodes = (node for part in select.expressions for node in part.walk(prune=lambda node: isinstance(node, exp.Query)))
    return any(isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window) for node in nodes)
