"""Sub-queries without the columns that nobody reads: less to compute, and less to read in `explain`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from bridge.flow import items


def prune(select: exp.Select) -> exp.Select:
    """The SELECT (in place), its sub-queries in FROM giving only what it reads of them."""
    for item in _sub_queries(select):
        used = _used(select, item)
        if used is not None:
            _keep(item.this, used)
        for inner in _selects(item.this):
            prune(inner)
    return select


def _keep(query: exp.Expr, used: Collection[str]) -> None:
    """Leaves the columns of these names, of a union those at their places."""
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
    """The SELECTs of a union, or the one."""
    if isinstance(query, exp.Union):
        yield from _selects(query.left)
        yield from _selects(query.right)
    elif isinstance(query, exp.Select):
        yield query


def _sub_queries(select: exp.Select) -> list[exp.Subquery]:
    return [item for item in items(select) if isinstance(item, exp.Subquery) and list(_selects(item.this))]


def _used(select: exp.Select, item: exp.Subquery) -> set[str] | None:
    """The columns that the SELECT, without the item, names of it; None where it wants all of them."""
    used: set[str] = set()
    alias = item.alias
    for node in select.walk(prune=lambda node: node is item):
        if isinstance(node, exp.Column) and node.table in ("", alias):
            used.add(node.name)
        elif isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
    return used
