"""The columns that an expression may name, and expressions in normal form, with names found and types checked."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from sqlglot import exp

from bridge.check.compared_times import with_times
from bridge.check.computed_values import mark_computed
from bridge.check.objects import with_objects
from bridge.check.operands import check_types
from bridge.check.paths import with_parts
from bridge.check.types import UNKNOWN, cached, place, refuse_nested, type_of, with_type_names
from bridge.errors import QueryError, nearest, nearest_quoted
from bridge.query.epl_state import CURRENT
from bridge.query.row_pattern import NAMED_AS_VARIABLE
from windows.schema import is_reserved
from windows.sql import column, identifier

VOLATILE = frozenset(
    (
        "now", "random", "rand", "uuid", "gen_random_uuid", "newid", "current_timestamp", "current_date",
        "current_time", "localtime", "localtimestamp", "sysdate", "today", "clock_timestamp", "nextval",
        "random_normal", "setseed", "proctime",
    )
)  # fmt: skip
"""Functions whose value does not depend only on their arguments."""

_VOLATILE_NODES = (exp.Rand, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Uuid)
_SPELLED = {exp.CurrentTimestamp: ["now"], exp.Rand: ["random"]}
_NOT_SCALAR = {
    exp.Window: "window functions are not supported: a WINDOW(...) on the stream and an aggregate say the same",
    exp.Subquery: "a sub-query in an expression is not supported: join with it instead",
    exp.Select: "a sub-query in an expression is not supported: join with it instead",
    exp.Exists: "EXISTS is not supported: join with the stream or table instead",
    exp.Placeholder: "a query has no parameters: write the value",
    exp.Parameter: "a query has no parameters: write the value",
    exp.Filter: "FILTER (WHERE …) belongs to an aggregate: COUNT(*) FILTER (WHERE …)",
    exp.IgnoreNulls: "IGNORE NULLS is not supported: put a query WHERE the value IS NOT NULL into FROM",
    exp.RespectNulls: "RESPECT NULLS is not supported: FIRST, LAST and ARRAY_AGG do so by themselves",
}


@dataclasses.dataclass(frozen=True)
class Field:
    """A column of a node's result. `origin` is (alias, attribute) if a correlation made it."""

    name: str
    type: str
    origin: tuple[str, str] | None = None
    hidden: bool = False


@dataclasses.dataclass(frozen=True)
class Scope:
    """The columns that an expression may name. Variables of a pattern come after the attributes."""

    fields: tuple[Field, ...]
    variables: tuple[Field, ...] = ()

    def find(self, column: exp.Column) -> Field:
        name, qualifier = column.name, column.table
        if not qualifier and name.lower() == "ts":
            return Field("ts", "BIGINT")
        pool = [*self.fields, *self.variables]
        if qualifier:
            pool = [field for field in pool if field.origin and field.origin[0].lower() == qualifier.lower()]
        found = _named_so(pool, name, bool(qualifier))
        if len(found) == 1:
            return found[0]
        raise QueryError(self._complaint(column, found), position=place(column))

    def _complaint(self, column: exp.Column, found: list[Field]) -> str:
        if found:
            return f"{column.name!r} is ambiguous: write {' or '.join('.'.join(f.origin or ('', '')) for f in found)}"
        aliases = list(dict.fromkeys(field.origin[0] for field in self.fields if field.origin))
        if column.table and column.table.lower() not in [alias.lower() for alias in aliases]:
            return f"unknown input {column.table!r}{nearest(column.table, aliases)}"
        if column.name.startswith(CURRENT):
            name = column.name.removeprefix(CURRENT)
            return f"{name!r} changes (on … set), and cannot be read here: insert into … select *, {name} as x, before"
        names = [field.name for field in (*self.fields, *self.variables) if not field.hidden]
        if column.table:
            names = [field.origin[1] for field in _of_input(column, self) if field.origin]
        hint = nearest_quoted if column.this.args.get("quoted") and not column.table else nearest
        return f"unknown column {column.name!r}{hint(column.name, names)}"

    def type_of(self, column: exp.Column) -> str:
        return self.find(column).type


def scalar(expression: exp.Expr, scope: Scope, aggregates: bool = False) -> exp.Expr:
    """The expression in normal form, with names and types checked."""
    _refuse_unscalar(expression, aggregates)

    def normal(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        field = scope.find(node)
        found = column(field.name)
        found.this.meta.update(node.this.meta)
        found.meta["type"] = field.type
        return found

    def found(of: exp.Column) -> tuple[exp.Expr, str]:
        return normal(of), scope.type_of(of)

    def kind_of(value: exp.Expr) -> str:
        return type_of(value, scope.type_of)

    def columns(alias: str) -> list[tuple[str, str]]:
        if not alias:
            return [(field.name, field.type) for field in scope.fields if not field.hidden]
        return [((field.origin or ("", ""))[1], field.type) for field in _of_input(exp.column("*", alias), scope)]

    made = with_objects(with_parts(expression, found), columns, kind_of)
    whole = with_type_names(made, scope.type_of)
    check_types(whole, scope.type_of)
    whole = with_times(whole, functools.partial(type_of, column_type=cached(scope.type_of)))
    mark_computed(whole, scope.type_of)
    result = whole.transform(normal)
    while isinstance(result, exp.Paren):
        result = result.this
    return result


def condition_of(expression: exp.Expr, scope: Scope, clause: str, aggregates: bool = False) -> exp.Expr:
    aggregate = None if aggregates else expression.find(exp.AggFunc)
    if clause == "WHERE" and aggregate is not None:
        raise QueryError(
            f"an aggregate cannot stand in WHERE, which sees one row: HAVING {expression.sql()} sees the groups",
            position=place(aggregate),
        )
    resolved = scalar(expression, scope, aggregates)
    kind = type_of(resolved, scope.type_of)
    if kind not in ("BOOLEAN", UNKNOWN):
        raise QueryError(f"{clause} wants a condition; {expression.sql()} is {kind}", position=place(expression))
    return resolved


def order_term(term: exp.Ordered, scope: Scope) -> exp.Ordered:
    refuse_nested(term, scope.type_of)
    return exp.Ordered(this=scalar(term.this, scope), desc=term.args["desc"])


def columns_of(columns: Sequence[exp.Expr], scope: Scope) -> tuple[exp.Alias, ...]:
    """The columns in normal form: each an alias with its exact output name.

    No name occurs twice or is the bridge's own.
    """
    result: list[exp.Alias] = []
    for item in expanded(columns, scope):
        name = _output_name(item, scope)
        if is_reserved(name):
            raise QueryError(
                f"{name!r} is the bridge's own name (every result has its ts): give the column another one with AS",
                position=place(item),
            )
        if name.lower() in [other.alias.lower() for other in result]:
            raise QueryError(f"two columns are called {name!r}: rename one with AS", position=place(item))
        value = item.this if isinstance(item, exp.Alias) else item
        result.append(exp.Alias(this=scalar(value, scope, aggregates=True), alias=identifier(name)))
    return tuple(result)


def expanded(columns: Sequence[exp.Expr], scope: Scope) -> list[exp.Expr]:
    """The list of columns, with every star replaced by its columns."""
    expanded: list[exp.Expr] = []
    for item in columns:
        if isinstance(item, exp.Star):
            expanded += [_of_star(field, item) for field in scope.fields if not field.hidden]
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            expanded += [_of_star(field, item.this) for field in _of_input(item, scope)]
        else:
            expanded.append(item)
    return expanded


def _of_star(field: Field, star: exp.Expr) -> exp.Expr:
    """A column of a star, with the place of the star."""
    found = column(field.name)
    found.this.meta.update(star.meta)
    return found


def fields_of(columns: Sequence[exp.Alias], scope: Scope) -> tuple[Field, ...]:
    return tuple(Field(item.alias, type_of(item.this, scope.type_of)) for item in columns)


def without_aliases(expression: exp.Expr, columns: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
    """The expression of GROUP BY or HAVING, its aliases of the list replaced unless the input has such a column."""
    own = {field.name.lower() for field in scope.fields}
    values = {c.alias.lower(): c.this for c in columns if isinstance(c, exp.Alias) and c.alias.lower() not in own}

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in values:
            return exp.paren(values[node.name.lower()].copy())
        return node

    return expression.transform(replaced) if values else expression


def _named_so(pool: Sequence[Field], name: str, qualified: bool) -> list[Field]:
    """The fields of this name: with exactly this spelling, or else ignoring case.

    Unqualified, attributes' names count, too.
    """

    def spelled(field: Field) -> list[str]:
        return [field.origin[1]] if qualified and field.origin else [field.name]

    exact = [field for field in pool if name in spelled(field)]
    loose = exact or [field for field in pool if name.lower() in [text.lower() for text in spelled(field)]]
    if loose or qualified:
        return loose
    return [f for f in pool if f.origin and f.origin[1].lower() == name.lower() and not f.hidden]


def _refuse_unscalar(expression: exp.Expr, aggregates: bool) -> None:
    for node in expression.walk():
        for kind, reason in _NOT_SCALAR.items():
            if isinstance(node, kind):
                raise QueryError(reason, position=place(node))
        if spellings := _volatile(node):
            raise QueryError(
                f"{spellings[0].upper()} is not a function of the events, so replaying them would give other rows: "
                "ts is the event's time",
                words=spellings,
            )
        if isinstance(node, exp.AggFunc) and not aggregates:
            raise QueryError(f"an aggregate cannot stand here: {node.sql()}", position=place(node))
        if isinstance(node, exp.AggFunc) and any(a is not node for a in node.find_all(exp.AggFunc)):
            raise QueryError(f"an aggregate within an aggregate: {node.sql()}", position=place(node))
        if isinstance(node, exp.ArrayAgg) and isinstance(node.this, (exp.Order, exp.Distinct)):
            raise QueryError("ARRAY_AGG has all values, in the order in which they came", position=place(node))
        of_rows = isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        if of_rows and not isinstance(node.parent, exp.ArrayAgg):
            raise QueryError("a star stands alone in the list of columns", position=place(node))


def _volatile(node: exp.Expr) -> list[str]:
    """The names of a function whose value does not depend only on its arguments; empty for others."""
    if isinstance(node, _VOLATILE_NODES):
        names = [name.lower() for name in type(node).sql_names()]
        return [*(name for name in ("now", "random") if name in _SPELLED.get(type(node), names)), *names]
    if isinstance(node, exp.Anonymous) and node.name.lower() in VOLATILE:
        return [node.name.lower()]
    return []


def _of_input(item: exp.Column, scope: Scope) -> list[Field]:
    fields = [f for f in scope.fields if f.origin and f.origin[0].lower() == item.table.lower() and not f.hidden]
    if not fields:
        raise QueryError(f"unknown input {item.table!r}", position=place(item))
    return fields


def _output_name(item: exp.Expr, scope: Scope) -> str:
    if isinstance(item, exp.Alias):
        return str(item.alias)
    if isinstance(item, exp.Column):
        field = scope.find(item)
        return field.origin[1] if item.table and field.origin else field.name
    return item.sql()


def field_of(node: exp.Column, fields: Sequence[str]) -> str:
    """The input's spelling of a column's name, which is found ignoring case unless it is in quotes and exactly so."""
    named = node.this.args.get("quoted") and node.name in fields
    found = [node.name] if named else [name for name in fields if name.lower() == node.name.lower()]
    if not found:
        hint = nearest(node.name, list(fields))
        if node.this.meta_get(NAMED_AS_VARIABLE) is not None:
            name = node.name.upper()
            hint = f"; {name} is a variable of the pattern: COUNT({name}.*) counts its rows, {name}.{fields[0]} is a value of one"
        raise QueryError(f"unknown column {node.name!r}{hint}", position=place(node))
    return found[0]
