"""Building blocks of SQL statements, as sqlglot trees: quoted names, numbers, comparisons, window functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from sqlglot import exp

from windows.times import NEVER

COMPUTED = "computed"
"""A key of `meta`: marks a value with its type, if some databases compute another one, such as doubles for DECIMALs."""

RELATION_ORDER_PREFIX = "_by_"
"""Prefix of the columns that order the rows of relations: they are ordered by value, since they have no time."""

_SORTABLE_OFFSET = 2 * 10**18
"""Added to a number before it becomes text: texts of equal length compare as the numbers do."""


# Names -----------------------------------------------------------------------------------------------------------------


def identifier(name: str) -> exp.Identifier:
    """A quoted name, which keeps its case."""
    return exp.to_identifier(name, quoted=True)


def column(name: str) -> exp.Column:
    """The column `name`, quoted, without a table.

    >>> column("Price").sql()
    '"Price"'
    """
    return exp.column(name, quoted=True)


def unused(name: str, names: Iterable[str]) -> str:
    """The name, with more `_` before it if one of the names is equal to it, ignoring case.

    >>> unused("_n", ["a", "_N"]), unused("_n", ["n"])
    ('__n', '_n')
    """
    used = {other.lower() for other in names}
    while name.lower() in used:
        name = f"_{name}"
    return name


def column_of(alias: str, name: str) -> exp.Column:
    """The column `alias.name`.

    >>> column_of("w", "ts").sql()
    '"w"."ts"'
    """
    return exp.column(name, table=alias, quoted=True)


def qualify_columns(expression: exp.Expr, alias: str | None) -> exp.Expr:
    """Puts `alias.` before each column of the expression, in place, and returns the expression."""
    if alias is not None:
        for node in expression.find_all(exp.Column):
            node.set("table", identifier(alias))
    return expression


def aliased(value: exp.Expr, name: str) -> exp.Expr:
    """`value AS name`; a plain column of that name is returned unchanged.

    >>> aliased(column("a"), "b").sql(), aliased(column("a"), "a").sql()
    ('"a" AS "b"', '"a"')
    """
    if isinstance(value, exp.Column) and value.name == name:
        return value
    return exp.alias_(value, name, quoted=True)


# FROM and WITH ---------------------------------------------------------------------------------------------------------


def table(name: str) -> exp.Table:
    """The table `name`, as an item of FROM."""
    return exp.Table(this=identifier(name))


def aliased_table(name: str, alias: str) -> exp.Expr:
    """`name AS alias`, as an item of FROM."""
    return exp.alias_(table(name), alias, table=True, quoted=True, copy=False)


def derived_table(rows: exp.Query, alias: str, copy: bool = True) -> exp.Expr:
    """`(rows) AS alias`, as an item of FROM. Without a `copy` the tree `rows` itself becomes a part of it."""
    return exp.Subquery(this=rows.copy() if copy else rows).as_(alias, quoted=True, copy=False)


def add_join(select: exp.Select, kind: str, item: exp.Expr, on: exp.Expr | None = None) -> exp.Select:
    """Adds `kind JOIN item ON on` to a SELECT, in place, and returns it; `kind` is INNER, LEFT or CROSS.

    >>> add_join(exp.select("*").from_("a"), "LEFT", table("b"), exp.true()).sql()
    'SELECT * FROM a LEFT JOIN "b" ON TRUE'
    """
    join = exp.Join(this=item, on=on)
    join.set("side" if kind == "LEFT" else "kind", kind)
    select.append("joins", join)
    return select


def cte_name(name: str, columns: Iterable[str]) -> exp.TableAlias:
    """`name (columns)`, the head of a common table expression in WITH."""
    return exp.TableAlias(this=identifier(name), columns=[identifier(column) for column in columns])


def from_items(select: exp.Select) -> list[exp.Expr]:
    """The items of FROM and JOIN of a SELECT, in order."""
    source = select.args.get("from_")
    return [source.this, *(join.this for join in select.args.get("joins") or [])] if source else []


def with_columns(source: exp.Expr, **columns: exp.Expr) -> exp.Select:
    """`SELECT *, value AS name, …` over a table or a SELECT."""
    item = derived_table(source, "q") if isinstance(source, exp.Select) else source
    return exp.select("*", *(aliased(value, name) for name, value in columns.items())).from_(item)


# Numbers ---------------------------------------------------------------------------------------------------------------


def number(value: int) -> exp.Expr:
    """An integer as a literal of SQL."""
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def cast_to(value: exp.Expr, type_name: str) -> exp.Cast:
    """`CAST(value AS type_name)`; the name is parsed once.

    >>> cast_to(column("a"), "DOUBLE").sql()
    'CAST("a" AS DOUBLE)'
    """
    return exp.cast(value, _data_type(type_name))


@functools.cache
def _data_type(name: str) -> exp.DataType:
    return exp.DataType.build(name)


def bigint_zero() -> exp.Expr:
    """`CAST(0 AS BIGINT)`: a table created from a SELECT takes its column types from it."""
    return cast_to(number(0), "BIGINT")


def bigint_never() -> exp.Expr:
    """The expiry of a row that does not expire, as a BIGINT."""
    return cast_to(number(NEVER), "BIGINT")


def floor_to_multiple(ts: exp.Expr, step: int) -> exp.Expr:
    """The greatest multiple of `step` that is at most `ts`, also for negative `ts`, where `%` has the sign of `ts`."""
    ts, modulus = parenthesized(ts), number(step)
    rest = exp.Mod(this=ts, expression=modulus)
    positive = exp.Mod(this=exp.paren(exp.Add(this=exp.paren(rest), expression=modulus)), expression=modulus)
    return exp.paren(exp.Sub(this=ts.copy(), expression=exp.paren(positive)))


def sortable_text(values: Iterable[exp.Expr]) -> exp.Expr:
    """Integers as one text that sorts like the list of them."""
    digits = [
        cast_to(exp.paren(exp.Add(this=value, expression=number(_SORTABLE_OFFSET))), "VARCHAR") for value in values
    ]
    return concatenated(digits)


def concatenated(parts: Iterable[exp.Expr]) -> exp.Expr:
    """`part || part || …`."""
    return functools.reduce(lambda left, right: exp.DPipe(this=left, expression=right, safe=True), parts)


# Conditions ------------------------------------------------------------------------------------------------------------


def lexicographically_before(pairs: list[tuple[exp.Expr, exp.Expr]]) -> exp.Expr:
    """True where the left values of the pairs, as a list, are less than the right ones.

    >>> lexicographically_before([(column("a"), column("b")), (column("c"), column("d"))]).sql()
    '"a" < "b" OR ("a" = "b" AND "c" < "d")'
    """
    (left, right), *rest = pairs
    less = exp.LT(this=left.copy(), expression=right.copy())
    if not rest:
        return less
    equal = exp.EQ(this=left.copy(), expression=right.copy())
    return exp.or_(less, exp.and_(equal, lexicographically_before(rest), copy=False), copy=False)


INDEXED = "indexed"
"""A key of `meta`: marks a NULL-safe equation of a column that has an index with a value."""


def null_safe_equal(left: exp.Expr, right: exp.Expr, is_indexed: bool = False) -> exp.Expr:
    """`left IS NOT DISTINCT FROM right`: NULL equals NULL, as in GROUP BY. `is_indexed`: an index finds one side."""
    equation = exp.NullSafeEQ(this=parenthesized(left), expression=parenthesized(right))
    if is_indexed:
        equation.meta[INDEXED] = True
    return equation


def parenthesized(value: exp.Expr) -> exp.Expr:
    """The value in parentheses, unless it is a column, a literal or a call. To sqlglot AND and OR are functions, too."""
    closed = (exp.Column, exp.Literal, exp.Paren)
    is_call = isinstance(value, exp.Func) and not isinstance(value, exp.Binary)
    return value if isinstance(value, closed) or is_call else exp.paren(value)


def with_operands(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy of an expression, with each operand changed.

    >>> with_operands(exp.EQ(this=column("a"), expression=column("b")), lambda each: column(each.name.upper())).sql()
    '"A" = "B"'
    """
    changed = node.copy()
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            changed.set(key, change(value))
        elif isinstance(value, list):
            changed.set(key, [change(each) if isinstance(each, exp.Expr) else each for each in value])
    return changed


def change_columns(expression: exp.Expr, change: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
    """A copy of an expression, with each column changed.

    >>> change_columns(exp.condition("a + 1 > b"), lambda each: column(each.name.upper())).sql()
    '"A" + 1 > "B"'
    """
    return expression.copy().transform(lambda node: change(node) if isinstance(node, exp.Column) else node)


def under_own_name(changed: exp.Expr, selected: exp.Expr) -> exp.Expr:
    """A column of a select list after a change, under the name that it had: that of a column, or its text.

    >>> under_own_name(exp.condition("b + 1"), exp.column("a")).sql()
    'b + 1 AS a'
    >>> under_own_name(exp.condition("b + 1"), exp.condition("a + 1")).sql()
    'b + 1 AS "a + 1"'
    """
    if isinstance(selected, exp.Alias) or changed == selected:
        return changed
    name = selected.this.copy() if isinstance(selected, exp.Column) else identifier(selected.sql())
    return exp.alias_(changed, name)


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that AND joins.

    >>> from sqlglot import parse_one
    >>> [part.sql() for part in conjuncts(parse_one("a > 1 AND (b > 2 AND c > 3)"))]
    ['a > 1', 'b > 2', 'c > 3']
    """
    parts, stack = [], [condition]
    while stack:
        part = stack.pop().unnest()
        if isinstance(part, exp.And):
            stack += [part.right, part.left]
        else:
            parts.append(part)
    return parts


# Window functions ------------------------------------------------------------------------------------------------------


def over(
    function: exp.Expr, partition: Iterable[exp.Expr], order: Iterable[exp.Expr], spec: exp.WindowSpec | None = None
) -> exp.Window:
    """`function OVER (PARTITION BY … ORDER BY … spec)`, with copies of the partition and order expressions."""
    keys = [expression.copy() for expression in partition]
    ordered = [ascending(expression) for expression in order]
    return exp.Window(
        this=function, partition_by=keys or None, order=exp.Order(expressions=ordered) if ordered else None, spec=spec
    )


def row_number(partition: Iterable[exp.Expr], order: Iterable[exp.Expr]) -> exp.Expr:
    """`ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)`."""
    return over(exp.RowNumber(), partition, order)


def running_frame() -> exp.WindowSpec:
    """`ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW`."""
    return exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")


def ascending(expression: exp.Expr) -> exp.Ordered:
    """A term of ORDER BY. NULLS FIRST is written only for values of relations: no other order column can be NULL."""
    by_value = any(each.name.startswith(RELATION_ORDER_PREFIX) for each in expression.find_all(exp.Column))
    return exp.Ordered(this=expression.copy(), nulls_first=True if by_value else None)


def computed_as(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    """The value, with the mark `COMPUTED` of another one, if that has it."""
    if other.meta_get(COMPUTED) is not None:
        value.meta[COMPUTED] = other.meta[COMPUTED]
    return value


def neutralize(node: exp.Expr) -> exp.Expr:
    """Rewrites divisions, on which databases differ, so that a division by zero is NULL."""
    by = _divisor(node)
    if by is None or isinstance(by, exp.Nullif):
        return node
    if _is_zero(by):
        return exp.null()
    if not isinstance(by, exp.Literal):
        by.replace(exp.Nullif(this=by.copy(), expression=exp.Literal.number(0)))
    return node


def _divisor(node: exp.Expr) -> exp.Expr | None:
    """The divisor of a node: that of `/`, `%` or `//`, or of MOD as a function of the database; None for other nodes."""
    found: exp.Expr | None = None
    if isinstance(node, (exp.Div, exp.Mod, exp.IntDiv)):
        found = node.expression
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "MOD" and len(node.expressions) == 2:
        found = node.expressions[1]
    return found


def _is_zero(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and not value.is_string and float(value.name) == 0


def is_constant_text(value: Any) -> bool:
    """Whether a value is a constant text: a literal, or computed of literals as in `'x' || 'y'`."""
    texts = isinstance(value, exp.Expr) and any(literal.is_string for literal in value.find_all(exp.Literal))
    return texts and value.find(exp.Column) is None


def table_of(name: str) -> exp.Table:
    """A table by its name, or `schema.table`; names are taken literally, not parsed as SQL.

    >>> table_of("s.t").sql("duckdb"), table_of('x"; --').sql("duckdb")
    ('"s"."t"', '"x""; --"')
    """
    *outer, own = (exp.to_identifier(part, quoted=True) for part in name.split("."))
    places = dict(zip(("db", "catalog"), reversed(outer), strict=False))
    return exp.Table(this=own, **places)


def table_names(statement: exp.Expr) -> list[str]:
    """The names of the tables in a statement, each as often as it is there.

    >>> table_names(exp.select("a").from_("s").join("t").where("a IN (SELECT b FROM s)"))
    ['s', 't', 's']
    """
    return [each.name for each in statement.find_all(exp.Table)]
