"""Statements over one row of known values: the values replace the columns, and the row is dropped from FROM.

A database plans a join with one row like any join, and groups its result by that row again. With values instead,
conditions on them are checked while a table is read; where rows were grouped only by that row, no grouping remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from bridge.rewrite.flow import PLAIN
from bridge.rewrite.optimize.rule import Facts
from windows.sql import aliased, from_items, number, parenthesized

_ROW_ONLY = {"expressions", "where", "kind", "hint", "operation_modifiers"}
"""The clauses that the SELECT of a row may have."""

_SIMPLE = (
    exp.Add, exp.Boolean, exp.Cast, exp.ColumnDef, exp.DataType, exp.DataTypeParam, exp.Identifier, exp.Literal, exp.Neg,
    exp.Null, exp.Paren, exp.Sub, exp.Var,
)  # fmt: skip
"""Expressions that may be computed wherever the column is read."""

_UNFAILING = (
    *PLAIN, *_SIMPLE, exp.Alias, exp.Case, exp.Coalesce, exp.If, exp.In, exp.Like, exp.Lower, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Upper,
)  # fmt: skip
"""Expressions that cannot fail, whatever their values, except casts."""

_CLAUSES = (exp.Query, exp.Where, exp.Join, exp.Having, exp.Group, exp.Ordered)
"""Nodes that end an expression."""


def bind_event(statement: exp.Expr, facts: Facts) -> exp.Expr:
    """The statement in which the known row's values replace its table.

    >>> import sqlglot
    >>> from bridge.rewrite.optimize.rule import OneRow
    >>> row = OneRow("inbox", {"ts": sqlglot.parse_one("7")}, inline=True, separate=False)
    >>> print(bind_event(sqlglot.parse_one("SELECT w.a FROM inbox JOIN w ON w.ts > inbox.ts - 5"), Facts(row=row)))
    SELECT w.a FROM w WHERE w.ts > 7 - 5
    """
    row = facts.row
    if row is None:
        return statement
    places = [found for found in statement.find_all(exp.Table) if found.name == row.table and not found.db]
    for found in places:
        values = exp.select(*(aliased(value.copy(), name) for name, value in row.values.items()))
        values = values.offset(0) if row.separate else values
        found.replace(exp.alias_(exp.Subquery(this=values), found.alias or row.table, table=True, quoted=True))
    return inline_rows(statement) if places and row.inline else statement


def inline_rows(statement: exp.Expr) -> exp.Expr:
    """The statement (changed in place) in which values replace sub-queries in FROM that are one row.

    >>> import sqlglot
    >>> query = "SELECT t.ts, MAX(w.a) AS a FROM (SELECT 7 AS ts) AS t JOIN w ON w.ts > t.ts - 5 GROUP BY t.ts"
    >>> print(inline_rows(sqlglot.parse_one(query)))
    SELECT 7 AS "ts", MAX(w.a) AS a FROM w WHERE w.ts > 7 - 5 HAVING COUNT(*) > 0
    """
    for select in reversed(list(statement.find_all(exp.Select))):  # inner ones first
        for item in from_items(select):
            values = _values(item)
            columns = None if values is None else _columns(select, item, values)
            if values is None or columns is None or not _can_go(select, item) or not _fit(values, columns):
                continue
            _remove(select, item)
            for column in columns:
                _replace(column, values[column.name], select)
            _without_values(select)
    return statement


def _values(item: exp.Expr) -> dict[str, exp.Expr] | None:
    """The columns of a sub-query that is one row of values, possibly with a condition."""
    row = item.this
    if not isinstance(item, exp.Subquery) or not isinstance(row, exp.Select):
        return None
    if any(value for part, value in row.args.items() if part not in _ROW_ONLY):
        return None
    values = {each.alias_or_name: _unnamed(each) for each in row.expressions}
    return values if all(map(_can_move, values.values())) else None


def _unnamed(value: exp.Expr) -> exp.Expr:
    return exp.Subquery(this=value.this) if isinstance(value, exp.Subquery) else value.unalias()


def _can_move(value: exp.Expr) -> bool:
    """Whether a value is the same in another place; a sub-query is, if all its columns are those of its own FROM."""
    if not isinstance(value, exp.Subquery) or not isinstance(value.this, exp.Select):
        return _is_simple(value)
    read = {item.alias_or_name for item in from_items(value.this)}
    return all(column.table in read for column in value.find_all(exp.Column))


def _is_simple(value: exp.Expr) -> bool:
    return all(isinstance(node, _SIMPLE) for node in value.walk())


def _can_go(select: exp.Select, item: exp.Expr) -> bool:
    """Whether the SELECT has the same rows if values replace the item's columns."""
    joins = select.args.get("joins") or []
    if any(join.method or join.args.get("using") or join.side not in ("", "LEFT") for join in joins):
        return False
    if any(join.kind not in ("", "INNER", "CROSS") or isinstance(join.this, exp.Lateral) for join in joins):
        return False
    own = item.parent if isinstance(item.parent, exp.Join) else None
    if (own or next(iter(joins), exp.Join())).side:  # it, or the item that becomes the first, may be without a row
        return False
    if select.args.get("distinct") or any(each.is_star for each in select.expressions):
        return False
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None and (select.args.get("limit") or group.args.keys() - {"expressions"}):
        return False
    terms = [*(group.expressions if group else ()), *(term.this for term in (order.expressions if order else ()))]
    return not any(isinstance(term, exp.Literal) for term in terms)  # this term is the number of a column


def _may_fail(columns: Sequence[exp.Column], values: Mapping[str, exp.Expr]) -> bool:
    """Whether an expression over values alone could fail after values replace the columns.

    A database computes such an expression before it checks the conditions that should prevent the failure. An
    expression with another column, or in an aggregate, is computed row by row.
    """
    own = set(map(id, columns))
    alone, by_row = dict[int, exp.Expr](), dict[int, exp.Expr]()
    for column in columns:
        _climb(column, alone)
    for part in list(alone.values()):
        if not isinstance(part.parent, exp.Expr) or isinstance(part.parent, _CLAUSES):
            for other in part.find_all(exp.Column, exp.AggFunc):
                if isinstance(other, exp.AggFunc):
                    by_row[id(other)] = other
                elif id(other) in own:
                    continue
                _climb(other, by_row)
    return any(
        not isinstance(part, _UNFAILING) or (isinstance(part, exp.Cast) and not _is_safe(part, values))
        for number, part in alone.items()
        if number not in by_row
    )


def _climb(node: exp.Expr, seen: dict[int, exp.Expr]) -> None:
    """Adds the nodes that contain a node, up to its clause, to those seen, by id."""
    while isinstance(node.parent, exp.Expr) and not isinstance(node.parent, _CLAUSES) and id(node.parent) not in seen:
        node = node.parent
        seen[id(node)] = node


def _is_safe(call: exp.Cast, values: Mapping[str, exp.Expr]) -> bool:
    """Whether the cast cannot fail, as it is to a text, or to the value's own type."""
    value = values[call.this.name] if isinstance(call.this, exp.Column) else call.this
    return call.to.is_type(*exp.DataType.TEXT_TYPES) or (isinstance(value, exp.Cast) and value.to == call.to)


def _fit(values: Mapping[str, exp.Expr], columns: Sequence[exp.Column]) -> bool:
    """Whether values can replace these columns; a value that is not simple must be read in only one place."""
    read = Counter(column.name for column in columns)
    once = all(count == 1 or _is_simple(values[name]) for name, count in read.items())
    return once and not _may_fail(columns, values)


def _columns(select: exp.Select, item: exp.Expr, values: Mapping[str, exp.Expr]) -> list[exp.Column] | None:
    """The columns that refer to the item's columns; None if that is uncertain."""
    found = []
    derived = set(map(id, from_items(select)))
    for node in select.walk(prune=lambda node: id(node) in derived):
        if not isinstance(node, exp.Column) or node.table not in ("", item.alias):
            continue
        names = [inner.alias_or_name for scope in _scopes(node, select) for inner in from_items(scope)]
        if node.table not in names if node.table else not names:
            found.append(node)
        elif not node.table and node.name in values:  # of its own sub-query, or of the item
            return None
    if len(derived) > 1:
        found = [column for column in found if column.table or column.name in values]
    return found if all(column.name in values for column in found) else None


def _scopes(column: exp.Column, select: exp.Select) -> Iterator[exp.Select]:
    """The sub-queries of the SELECT that contain the column, the innermost first."""
    scope = column.find_ancestor(exp.Select)
    while scope is not None and scope is not select:
        yield scope
        scope = scope.find_ancestor(exp.Select)


def _remove(select: exp.Select, item: exp.Expr) -> None:
    """Removes the item from FROM, and moves its conditions to the SELECT."""
    joins = select.args.get("joins") or []
    parent, condition = item.parent, item.this.args.get("where")
    if isinstance(parent, exp.Join):
        joins.remove(parent)
        conditions = [parent.args.get("on")]
    elif joins:
        first = joins.pop(0)
        select.args["from_"].set("this", first.this)
        conditions = [first.args.get("on")]
    else:
        select.set("from_", None)
        conditions = []
    conditions += [condition.this] if condition is not None else []
    select.where(*(each for each in conditions if each is not None), copy=False)


def _replace(column: exp.Column, value: exp.Expr, select: exp.Select) -> None:
    is_selected = column.parent is select and column.arg_key == "expressions"
    column.replace(aliased(value.copy(), column.name) if is_selected else parenthesized(value.copy()))


def _without_values(select: exp.Select) -> None:
    """Drops values from GROUP BY and ORDER BY. Without other terms, the rows (if there are any) are one group."""
    order = select.args.get("order")
    if order is not None:
        kept = [term for term in order.expressions if not _is_value(term.this)]
        select.set("order", exp.Order(expressions=kept) if kept else None)
    group = select.args.get("group")
    if group is None:
        return
    kept = [term for term in group.expressions if not _is_value(term)]
    select.set("group", exp.Group(expressions=kept) if kept else None)
    if not kept and not any(each.find(exp.AggFunc) for each in (*select.expressions, *select.find_all(exp.Having))):
        select.limit(1, copy=False)
    elif not kept:
        some = exp.GT(this=exp.Count(this=exp.Star()), expression=number(0))
        select.having(some, copy=False)


def _is_value(term: exp.Expr) -> bool:
    """Whether a term is the same for all rows."""
    return not term.find(exp.Column, exp.Query)
