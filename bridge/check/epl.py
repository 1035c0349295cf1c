"""EPL's own nodes resolved: changes of tables and variables, columns from other rows, and output clauses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from bridge import query
from bridge.check.aggregates import refuse_missing
from bridge.check.operands import check_types
from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.scope import Field, Scope, condition_of, order_term, scalar
from bridge.check.types import UNKNOWN, family, place, type_of
from bridge.check.windows import is_known_to_change
from bridge.errors import QueryError, nearest
from bridge.query.epl_output import OutputEvery, RStream, Snapshot
from bridge.query.epl_state import CURRENT, INITIAL, Action, Change, ChangedWindow, ChangeTable, SetVariables
from windows.sql import column, column_of, identifier
from windows.types import List, is_nested, shape

Fields = Sequence[Field]

_WHOLE = ("SMALLINT", "INTEGER", "BIGINT")


@resolve.register
def _(node: ChangeTable, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    columns = tuple(Field(attribute.name, attribute.type) for attribute in node.table.schema)
    change = check_change(node.change, below.visible, columns, f"the table {node.table.name!r}")
    resolved = dataclasses.replace(node, input=below.node, change=change)
    return ResolvedNode(resolved, below.visible if change.always else columns, windowed=False)


@resolve.register
def _(node: ChangedWindow, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    changes = []
    for trigger, change in node.changes:
        by = resolve_stream(trigger, names)
        changes.append((by.node, check_change(change, by.visible, below.visible, "the window")))
    return ResolvedNode(ChangedWindow(below.node, tuple(changes)), below.visible, windowed=True)


def check_change(change: Change, event: Fields, row: Fields, what: str) -> Change:
    """The change, with its columns named `alias.column`; values that are set must fit the types. `what` is changed."""
    if change.alias.lower() == change.row.lower():
        raise QueryError(f"the event and the row are both called {change.row!r}: give one of them an alias")
    fields = _qualified(event, change.alias)
    both = Scope((*fields, *_qualified(row, change.row), *_qualified(row, INITIAL, hidden=True)))
    condition = None if change.condition is None else condition_of(change.condition, both, "WHERE")
    matched = tuple(_action(action, change, both, event, row, what) for action in change.matched)
    unmatched = tuple(_action(action, change, Scope(fields), event, row, what) for action in change.unmatched)
    return dataclasses.replace(change, condition=condition, matched=matched, unmatched=unmatched)


def _qualified(fields: Fields, alias: str, hidden: bool = False) -> tuple[Field, ...]:
    return tuple(Field(f"{alias}.{one.name}", one.type, (alias, one.name), hidden) for one in fields)


def _action(action: Action, change: Change, scope: Scope, event: Fields, row: Fields, what: str) -> Action:
    condition = None if action.condition is None else condition_of(action.condition, scope, "WHEN … AND")
    values = dict(_values(action, change, scope, event, row, what))
    return Action(action.kind, condition, tuple(values.items()))


def _values(
    action: Action, change: Change, scope: Scope, event: Fields, row: Fields, what: str
) -> Iterator[tuple[str, exp.Expr]]:
    """Each column that is set, with its value over the event and the row before; earlier settings are substituted."""
    before: dict[str, exp.Expr] = {}
    seen: set[str] = set()
    listed = action.values
    if action.star:
        listed = tuple((one.name, column_of(change.alias, one.name)) for one in event)
    for name, written in listed:
        value = _of_row(written, row, change.row) if action.kind == "update" else written
        column = next((one for one in row if one.name.lower() == name.lower()), None)
        if column is None:
            hint = nearest(name, [one.name for one in row])
            raise QueryError(f"{what} has no column {name!r}{hint}", position=place(value), words=[name])
        if column.name in seen and action.kind == "insert":
            raise QueryError(f"the column {name!r} has two values", position=place(value))
        seen.add(column.name)
        found = scalar(value, scope)
        kind = type_of(found, scope.type_of)
        check_fits(value, kind, column)
        given = _as_before(found, before, change.row)
        given = given if kind == column.type else exp.cast(given, column.type)
        if action.kind == "update":
            before[f"{change.row}.{column.name}"] = given
        yield column.name, given


def _of_row(value: exp.Expr, row: Fields, alias: str) -> exp.Expr:
    """A value that is set; names without an alias refer to the row if it has them."""
    own = {one.name.lower() for one in row}

    def named(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in own:
            return exp.column(node.this.copy(), table=identifier(alias))
        return node

    return value.transform(named)


def _as_before(value: exp.Expr, before: Mapping[str, exp.Expr], row: str) -> exp.Expr:
    """The value over the row before: columns set earlier are replaced by their values; `initial` is the row."""

    def was(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        if node.name in before:
            return exp.paren(before[node.name].copy())
        if node.name.startswith(f"{INITIAL}."):
            return column(f"{row}.{node.name.removeprefix(f'{INITIAL}.')}")
        return node

    return value.transform(was)


def check_fits(value: exp.Expr, kind: str, column: Field, what: str = "column") -> None:
    """Raises QueryError unless a value fits a column: numbers may become wider, no other type is converted."""
    if kind in (UNKNOWN, column.type) or isinstance(value, exp.Null):
        return
    wider = kind in _WHOLE and (column.type in _WHOLE or family(column.type) == "number")
    if not wider and not (family(kind) == family(column.type) and column.type == "DOUBLE"):
        raise QueryError(
            f"the {what} {column.name!r} is {column.type}, {value.sql()} is {kind} (cast(…, …) says what is meant)",
            position=place(value),
        )


@resolve.register
def _(node: SetVariables, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    types = {column.name: column.type for table in node.tables for column in table.schema}
    values = [Field(CURRENT + name, kind, hidden=True) for name, kind in types.items()]
    scope = Scope((*below.fields, *values))
    settings = []
    for name, value in node.settings:
        found = scalar(value, scope)
        kind = type_of(found, scope.type_of)
        check_fits(value, kind, Field(name, types[name]), "variable")
        settings.append((name, found if kind == types[name] else exp.cast(found, types[name])))
    fields = tuple(Field(table.name, types[table.name]) for table in node.set)
    return ResolvedNode(dataclasses.replace(node, input=below.node, settings=tuple(settings)), fields, windowed=False)


METHODS = {
    "countof": "COUNT", "anyof": "ANY", "allof": "ALL", "firstof": "FIRST", "lastof": "LAST", "sumof": "SUM",
    "average": "AVG", "min": "MIN", "max": "MAX",
}  # fmt: skip
CONDITIONAL = ("COUNT", "ANY", "ALL", "FIRST", "LAST")
"""The functions whose body is a condition; the body of other functions is a value."""


@resolve.register
def _(node: query.PreviousRow, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    scope = Scope(below.fields)
    value, keys = scalar(node.value, scope), tuple(scalar(key, scope) for key in node.partition_by)
    resolved = dataclasses.replace(node, input=below.node, value=value, partition_by=keys)
    field = Field(node.name, type_of(value, scope.type_of), hidden=True)
    return ResolvedNode(resolved, (*below.fields, field), windowed=False)


@resolve.register
def _(node: query.SubqueryColumn, names: Namespace) -> ResolvedNode:
    below, source = resolve_stream(node.input, names), resolve(node.source, names)
    if not source.windowed and not isinstance(source.node, query.Relation):
        name = query.source_name(source.node) or "its input"
        raise QueryError(f"a sub-query over {name!r} needs a window: #keepall, #time(…), #length(…)", words=[name])
    if taken := [field.name for field in below.visible if field.name.lower() == node.name.lower()]:
        raise QueryError(
            f"{taken[0]!r} is the name of a column and of the rows that are looked up: rename the column in a sub-query, "
            f"SELECT {taken[0]} AS a",
            words=taken,
        )
    inner = [Field(f"{node.name}.{f.name}", f.type, (node.name, f.name)) for f in source.visible]
    both = Scope((*below.fields, *inner, Field(f"{node.name}.ts", "BIGINT", (node.name, "ts"))))
    condition = None if node.condition is None else condition_of(node.condition, both, "WHERE")
    value = None if node.value is None else scalar(node.value, both, aggregates=True)
    operand = None if node.operand is None else scalar(node.operand, Scope(below.fields))
    if value is not None:
        refuse_missing([value], names.store(None))
    kind = "BOOLEAN" if value is None or operand is not None else type_of(value, both.type_of)
    if value is not None and operand is not None:
        check_types(exp.EQ(this=node.operand, expression=node.value), both.type_of)
    resolved = query.SubqueryColumn(
        below.node, node.name, source.node, condition, value, operand, node.early, node.place
    )
    return ResolvedNode(resolved, (*below.fields, Field(node.name, kind, hidden=True)), windowed=False)


@resolve.register
def _(node: query.Enumeration, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    outer = Scope(below.fields)
    values = scalar(node.values, outer)
    kind = type_of(values, outer.type_of)
    found = shape(kind)
    if not isinstance(found, List):
        raise QueryError(f"{node.values.sql()} is {kind}: its methods are those of lists", position=place(node.values))
    scope = Scope((*below.fields, Field(node.element, found.element)))
    body = node.body
    if node.method in CONDITIONAL and body is not None:
        body, kind = condition_of(body, scope, "=>"), found.element
    else:
        body = scalar(column(node.element) if body is None else body, scope)
        kind = type_of(body, scope.type_of)
        if is_nested(kind) or kind == "BOOLEAN" or (node.method in ("SUM", "AVG") and family(kind) != "number"):
            raise QueryError(f"{node.method} is not of values that are {kind}", position=place(node.values))
    resolved = dataclasses.replace(node, input=below.node, values=values, body=body)
    return ResolvedNode(
        resolved, (*below.fields, Field(node.name, method_type(node.method, kind), hidden=True)), windowed=False
    )


def method_type(method: str, of: str) -> str:
    """The type of a method's result for values of this type."""
    types = {"COUNT": "BIGINT", "ANY": "BOOLEAN", "ALL": "BOOLEAN", "AVG": "DOUBLE"}
    whole = {"SMALLINT": "BIGINT", "INTEGER": "BIGINT"}
    return types.get(method) or (whole.get(of, of) if method == "SUM" else of)


@resolve.register
def _(node: query.OrderLimitDistinct, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    scope = Scope(below.fields)
    order = tuple(order_term(term, scope) for term in node.order_by)
    last_of = None if node.last_of is None else tuple(scalar(key, scope) for key in node.last_of)
    resolved = dataclasses.replace(node, input=below.node, order_by=order, last_of=last_of)
    return ResolvedNode(resolved, below.fields, windowed=False)


@resolve.register
def _(node: query.Throttle, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    keys = tuple(scalar(key, Scope(below.fields)) for key in node.partition_by)
    return ResolvedNode(dataclasses.replace(node, input=below.node, partition_by=keys), below.fields, windowed=False)


@resolve.register
def _(node: Snapshot, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    if not is_known_to_change(query.without_filters(below.node)):
        raise QueryError("a snapshot tells what a window holds: #keepall, #time(5 sec)", words=["snapshot"])
    return ResolvedNode(dataclasses.replace(node, input=below.node), below.fields, windowed=True)


@resolve.register
def _(node: OutputEvery, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    return ResolvedNode(dataclasses.replace(node, input=below.node), below.fields, windowed=False)


@resolve.register
def _(node: RStream, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    if isinstance(query.without_filters(below.node), query.Stream):  # rows never leave an input without a window
        return ResolvedNode(query.Filter(below.node, exp.false()), below.fields, windowed=False)
    return ResolvedNode(RStream(below.node), below.fields, windowed=False)
