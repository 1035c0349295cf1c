"""Statements over tables that are known to be empty: what can give no row is left out."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from bridge.flow import items


def without_empty(query: exp.Expr, empty: Collection[str]) -> exp.Expr | None:
    """The query (changed in place) without the branches of UNION ALL that join an empty table; None if it gives no row.

    >>> import sqlglot
    >>> union = sqlglot.parse_one("SELECT a.x FROM a JOIN w ON a.x = w.x UNION ALL SELECT b.x FROM b JOIN v ON b.x = v.x")
    >>> print(without_empty(union, {"b"}))
    SELECT a.x FROM a JOIN w ON a.x = w.x
    """
    if query.args.get("with_"):
        return query
    if isinstance(query, exp.Union):
        return _of_union(query, empty)
    return _of_select(query, empty) if isinstance(query, exp.Select) else query


def _of_union(union: exp.Union, empty: Collection[str]) -> exp.Expr | None:
    left, right = without_empty(union.left, empty), without_empty(union.right, empty)
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
    for item in items(select):
        join = item.parent if isinstance(item.parent, exp.Join) else None
        outer = join is not None and bool(join.side)
        if outer and join is not None and join.side != "LEFT":
            return select  # it also gives rows that the items before have not
        if isinstance(item, exp.Subquery):
            found = without_empty(item.this, empty)
            gone |= found is None and not outer
            item.set("this", found or item.this)
        elif isinstance(item, exp.Table) and not item.db:
            gone |= item.name in empty and not outer
    return None if gone and (select.args.get("group") or not _is_aggregate(select)) else select


def _is_aggregate(select: exp.Select) -> bool:
    """Whether it gives a row for no rows."""
    nodes = (node for part in select.expressions for node in part.walk(prune=lambda node: isinstance(node, exp.Query)))
    return any(isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window) for node in nodes)
