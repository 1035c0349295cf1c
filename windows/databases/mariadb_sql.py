"""Statements as MariaDB and MySQL want them: the kinds of nodes that they spell in another way, and nested values as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from sqlglot import exp

from windows.aggregates import filtered
from windows.databases.alchemy import Server, aggregate_doubles, as_double
from windows.databases.json_values import Elements, JsonValues
from windows.databases.refused import Refused
from windows.nested import FieldValue, NestedPart, call, json_array_text, json_path, json_text, or_null, truth_text
from windows.schema import Attribute, decimal_size, is_reserved
from windows.sql import column_of, identifier, number, table
from windows.types import is_nested

TEXT_LENGTH = 4_000_000
"""The length of texts made by CAST: a recursive statement truncates its texts to the length of the first one."""

_NAME = re.compile(r"(?!\s)[^\0\U00010000-\U0010ffff]{1,64}(?<!\s)")


class MariaDBSql(Server):
    """A database whose statements are written for MariaDB or MySQL."""

    collation: str
    """The collation of the bridge's texts."""
    not_hashed: set[str]
    """The names, in lower case, of columns whose NULLs a hash join does not match."""

    def adapt(self, node: exp.Expr) -> exp.Expr:
        change = _CHANGES.get(type(node))
        changed = change(node, self) if change is not None else node
        return super().adapt(node) if changed is node else changed


def _name(name: exp.Expr, _: MariaDBSql) -> exp.Expr:
    if _NAME.fullmatch(name.name):
        return name
    raise Refused(
        f"{name.name!r} is not a name in MariaDB: names have at most 64 characters, none of them beyond U+FFFF, and no blanks "
        "around them"
    )


def _literal(literal: exp.Expr, _: MariaDBSql) -> exp.Expr:
    """Writes `1.5` as a DOUBLE, as in the bridge; in MariaDB it is a DECIMAL."""
    is_double = not literal.args["is_string"] and "." in literal.name and "e" not in literal.name.lower()
    return exp.Literal.number(literal.name + "e0") if is_double else literal


def cast_type(cast: exp.Expr, _: MariaDBSql) -> exp.Expr:
    """Casts to types that CAST accepts. A literal cast to BIGINT would make an INT column."""
    kind, value = cast.args["to"].this, cast.this
    if kind == exp.DataType.Type.BIGINT and isinstance(value, exp.Literal) and value.name.isdigit():
        cast.set("this", exp.Literal.number(f"{value.name}e0") if len(value.name) < 16 else value)
    elif kind in _CASTS:
        cast.set("to", exp.DataType.build(_CASTS[kind], dialect="mysql"))
    return cast


def _divided(quotient: exp.Expr, _: MariaDBSql) -> exp.Expr:
    """Divides doubles: a quotient of integers would have only four digits after the point."""
    quotient.set("this", as_double(quotient.this))
    return quotient


def _of_doubles(call: exp.Expr, _: MariaDBSql) -> exp.Expr:
    """Aggregates doubles: over decimals the result has only four more digits."""
    aggregate_doubles(call)
    return call


def _rounded(call: exp.Expr, _: MariaDBSql) -> exp.Expr:
    """Rounds a DECIMAL, half up; a DOUBLE would be rounded half to even."""
    call.set("this", exp.cast(call.this.copy(), "DECIMAL(65, 20)"))
    return call


def _like(like: exp.Expr, _: MariaDBSql) -> exp.Expr:
    r"""A backslash in a pattern stands for itself, as in other databases: it is doubled."""
    if not isinstance(like.parent, exp.Escape):
        slashes = [exp.Literal.string("\\" * count) for count in (1, 2)]
        like.set("expression", exp.Anonymous(this="REPLACE", expressions=[like.expression.copy(), *slashes]))
    return like


def _regexp_like(node: exp.Expr, database: MariaDBSql) -> exp.Expr:
    """Writes REGEXP_INSTR, as MariaDB lacks REGEXP_LIKE."""
    sides = [side.transform(database.adapt) for side in (node.this, node.expression)]
    place = exp.Anonymous(this="REGEXP_INSTR", expressions=sides)
    return exp.GT(this=place, expression=number(0))


def _windowed(window: exp.Expr, database: MariaDBSql) -> exp.Expr:
    """Replaces the default of LEAD and LAG, which MariaDB lacks.

    The bridge gives one only for values that are never NULL.
    """
    if (end := _end_of_order(window)) is not None:
        return end.transform(database.adapt)
    if not isinstance(window.this, (exp.Lead, exp.Lag)) or window.this.args.get("default") is None:
        return window
    bare = window.copy()
    default = bare.this.args["default"].transform(database.adapt)
    bare.this.set("default", None)
    return exp.Coalesce(this=bare.transform(database.adapt), expressions=[default])


def _end_of_order(window: exp.Expr) -> exp.Expr | None:
    """MAX and MIN over whole partitions, and MAX in its own order, as the value at an end of that order; None for all others.

    MariaDB reads the whole frame of each row for MAX and MIN. Only the bridge's own columns are taken: they are numbers,
    while an ENUM has another order in ORDER BY than in MAX.
    """
    call, order = window.this, window.args.get("order")
    if not isinstance(call, (exp.Max, exp.Min)):
        return None
    value = call.this
    if not all(is_reserved(each.name) for each in value.find_all(exp.Column)):
        return None
    found = window.copy()
    if order is None and window.args.get("spec") is None:
        nulls_last = [] if isinstance(call, exp.Max) else [exp.Ordered(this=value.copy().is_(exp.null()))]
        end = exp.Ordered(this=value.copy(), desc=isinstance(call, exp.Max))
        found.set("order", exp.Order(expressions=[*nulls_last, end]))
        found.set("this", exp.FirstValue(this=value.copy()))
    elif isinstance(call, exp.Max) and order is not None and order.expressions == [exp.Ordered(this=value.copy())]:
        found.set("this", exp.LastValue(this=value.copy()))
    else:
        return None
    return found


def _filtered(call: exp.Expr, database: MariaDBSql) -> exp.Expr:
    changed: exp.Expr = filtered(call.this, call.expression.this).transform(database.adapt)
    return changed


def _created(create: exp.Expr, database: MariaDBSql) -> exp.Expr:
    """Creates tables with transactions, and with texts that compare byte by byte."""
    if create.args["kind"] != "TABLE":
        return create
    properties = create.args.get("properties") or exp.Properties(expressions=[])
    properties.append("expressions", exp.EngineProperty(this=exp.to_identifier("InnoDB")))
    properties.append("expressions", exp.CharacterSetProperty(this=exp.var("utf8mb4"), default=True))
    properties.append("expressions", exp.CollateProperty(this=exp.var(database.collation)))
    create.set("properties", properties)
    where = create.expression.args.get("where") if isinstance(create.expression, exp.Select) else None
    if where is not None and isinstance(where.this, exp.Boolean):
        _make_nullable(create.expression)
    return create


def _make_nullable(shape: exp.Select) -> None:
    """Makes all columns of a new table nullable, in place: it takes the columns of an outer join."""
    rows = shape.args["from_"].this
    one = exp.select(exp.alias_(number(1), "_one", quoted=True)).subquery("_n")
    shape.from_(one, copy=False).join(rows, on=exp.false(), join_type="left", copy=False)


def _selected(select: exp.Expr, _: MariaDBSql) -> exp.Expr:
    """Qualifies columns in OVER (): MariaDB would take the SELECT's own columns of the same name."""
    source = select.args.get("from_")
    outputs = {item.alias for item in select.expressions if isinstance(item, exp.Alias)}
    for column in (column for item in select.expressions for column in _columns_over(item)):
        if not column.table and column.name in outputs and source is not None:
            column.set("table", identifier(source.this.alias_or_name))
    return select


def _collated(collate: exp.Expr, _: MariaDBSql) -> exp.Expr:
    if not isinstance(collate.this, exp.Cast) and collate.expression.name.startswith("utf8mb4"):
        collate.set("this", in_utf8(collate.this.copy()))
    return collate


def in_utf8(value: exp.Expr) -> exp.Expr:
    utf8 = exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.var("utf8mb4"))
    return exp.Cast(this=value, to=utf8)


def _null_safe(same: exp.Expr, database: MariaDBSql) -> exp.Expr:
    """Keeps `<=>` over DECIMALs and times out of hash joins, where MariaDB finds no pairs of NULLs."""
    names = {name.lower() for column in same.find_all(exp.Column) for name in _origins(column)}
    own = {name for name in names if name.startswith("_")}  # of state tables: of any type
    if not database.not_hashed or not (own or names & database.not_hashed):
        return same
    sides = {side: same.args[side].transform(database.adapt) for side in ("this", "expression")}
    return exp.Is(this=exp.paren(exp.NullSafeEQ(**sides)), expression=exp.true())


def _origins(column: exp.Column) -> set[str]:
    """The names of the columns of tables from which a column of sub-queries in FROM comes."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        joins = [join.this for join in select.args.get("joins") or []]
        from_ = select.args.get("from_")
        items = [from_.this, *joins] if from_ is not None else joins
        item = next((each for each in items if column.table in ("", each.alias_or_name)), None)
        if isinstance(item, exp.Subquery):
            inner = next((each for each in item.this.selects if each.alias_or_name == column.name), None)
            columns = [] if inner is None else list(inner.find_all(exp.Column))
            return {name for each in columns for name in _origins(each)} or {column.name}
        if item is not None:
            break
        select = select.find_ancestor(exp.Select)
    return {column.name}


def _deleted(delete: exp.Expr, _: MariaDBSql) -> exp.Expr:
    """Names the table twice if rows are sought IN a sub-query: otherwise MariaDB computes that again for each row.

    Then the sub-query may read the table itself only in a derived table.
    """
    where, target = delete.args.get("where"), delete.this
    clauses = ("tables", "using", "order", "limit", "returning")
    if where is None or any(delete.args.get(clause) for clause in clauses):
        return delete
    is_sought = any(found.args.get("query") for found in where.find_all(exp.In))
    if is_sought and not any(read.name == target.name and not _is_derived(read) for read in where.find_all(exp.Table)):
        delete.set("tables", [table(target.alias) if target.alias else target.copy()])
    return delete


def _is_derived(read: exp.Table) -> bool:
    """Whether a table is read in a derived table."""
    outer: exp.Expr | None = read.parent
    while outer is not None and not (
        isinstance(outer, exp.Subquery) and isinstance(outer.parent, (exp.From, exp.Join))
    ):
        outer = outer.parent
    return outer is not None


def _cte(cte: exp.Expr, _: MariaDBSql) -> exp.Expr:
    """Removes MATERIALIZED, which MariaDB does not have in WITH."""
    cte.set("materialized", None)
    return cte


def _columns_over(expression: exp.Expr) -> Iterator[exp.Column]:
    """The columns in the window function calls of an expression, those of its sub-queries left out."""
    for node in expression.walk(prune=lambda node: isinstance(node, (exp.Window, exp.Query))):
        if isinstance(node, exp.Window):
            yield from node.find_all(exp.Column)


_TEXTS = (exp.DataType.Type.VARCHAR, exp.DataType.Type.TEXT, exp.DataType.Type.LONGTEXT)
_CASTS = {
    **dict.fromkeys(_TEXTS, f"CHAR({TEXT_LENGTH})"),
    **dict.fromkeys((exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME), "DATETIME(6)"),
    exp.DataType.Type.BOOLEAN: "SIGNED",
}
_CHANGES: dict[type[exp.Expr], Callable[[Any, MariaDBSql], exp.Expr]] = {
    exp.Identifier: _name, exp.Literal: _literal, exp.Cast: cast_type, exp.Div: _divided, exp.Round: _rounded,
    exp.Avg: _of_doubles, exp.Stddev: _of_doubles, exp.StddevSamp: _of_doubles, exp.StddevPop: _of_doubles,
    exp.Variance: _of_doubles, exp.VariancePop: _of_doubles, exp.Window: _windowed, exp.Filter: _filtered,
    exp.Like: _like, exp.RegexpLike: _regexp_like, exp.Create: _created, exp.Select: _selected,
    exp.CTE: _cte, exp.Collate: _collated, exp.NullSafeEQ: _null_safe,
    exp.Delete: _deleted,
}  # fmt: skip


class MariaDBJson(JsonValues):
    """Nested values as JSON: texts, read by JSON functions and written by concatenation."""

    collation: str

    nested_type: ClassVar[str | None] = "LONGTEXT"

    def json_part(self, part: NestedPart) -> exp.Expr:
        """JSON_VALUE reads scalar values, JSON_QUERY objects and lists."""
        path = json_path(part.steps, lambda step: str(step))
        if is_nested(part.kind):
            return call("JSON_QUERY", part.base, path)
        text = call("JSON_VALUE", part.base, path)
        if part.kind == "BOOLEAN":
            return exp.EQ(this=text, expression=exp.Literal.string("1"))
        return self.adapt(exp.Cast(this=text, to=exp.DataType.build(part.kind)))

    def elements(self, values: exp.Expr, kind: str, alias: str) -> Elements:
        """Nested elements are JSON, booleans 1 or 0."""
        of = (
            "JSON" if is_nested(kind) else "TINYINT" if kind == "BOOLEAN" else self.column_type(Attribute("part", kind))
        )
        value, place = (identifier(name) for name in ("value", "place"))
        typed = exp.DataType.build(of, dialect="mysql", udt=True)
        columns = [
            exp.JSONColumnDef(this=value, kind=typed, path=exp.Literal.string("$")),
            exp.JSONColumnDef(this=place, ordinality=True),
        ]
        schema = exp.JSONSchema(expressions=columns)
        rows = exp.JSONTable(this=values, schema=schema, path=exp.Literal.string("$[*]"))
        item = exp.alias_(exp.Table(this=rows), alias, table=True, quoted=True)
        return Elements(item, column_of(alias, "value"), column_of(alias, "place"))

    def json_length(self, value: exp.Expr) -> exp.Expr:
        return call("JSON_LENGTH", value)

    def json_object(self, fields: Sequence[FieldValue]) -> exp.Expr:
        """Concatenates texts: JSON_OBJECT writes blanks, and integers for booleans."""
        return call("CONCAT", *json_text(fields, self._in_json))

    def json_list(self, value: exp.Expr, kind: str, order: Sequence[exp.Expr]) -> exp.Expr:
        text = or_null(self._in_json(value, kind))
        grouped: exp.Expr = exp.Order(this=text, expressions=list(order)) if order else text
        elements = exp.GroupConcat(this=grouped, separator=exp.Literal.string(","))
        return call("CONCAT", exp.Literal.string("["), elements, exp.Literal.string("]"))

    def json_array(self, values: Sequence[exp.Expr], kind: str) -> exp.Expr:
        return call("CONCAT", *json_array_text(values, lambda value: self._in_json(value, kind)))

    def _in_json(self, value: exp.Expr, kind: str) -> exp.Expr:
        """The JSON of a value. Doubles always have a point, so that equal values are equal texts."""
        if kind == "BOOLEAN":
            return truth_text(value)
        if kind == "DOUBLE":
            text = call("CONCAT", as_double(value))
            return call("REGEXP_REPLACE", text, exp.Literal.string("^(-?[0-9]+)$"), exp.Literal.string("\\1.0"))
        if is_nested(kind) or decimal_size(kind) or kind in ("SMALLINT", "INTEGER", "BIGINT"):
            return value
        quoted = call(
            "JSON_QUOTE", exp.Cast(this=value, to=exp.DataType.build(f"CHAR({TEXT_LENGTH})", dialect="mysql"))
        )
        return exp.Collate(this=quoted, expression=exp.var(self.collation))
