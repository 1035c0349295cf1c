"""From the tree as written to the tree as meant: every name found, every type known, every refusal with its place.

`resolve` gives the same kind of tree back in a normal form: names as the schema spells them, stars expanded, columns over
a correlation under their output names. Equal resolved trees are one operator, so nothing of the spelling is left in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Protocol, cast

from sqlglot import exp

from bridge import query
from bridge.check.aggregates import check_offsets, is_own_aggregate, refuse_missing, with_own_aggregates
from bridge.check.scope import Field, Scope, columns_of, condition_of, expanded, fields_of, scalar, without_aliases
from bridge.check.types import UNKNOWN, check_types, family, place, refuse_nested, type_of
from bridge.errors import QueryError, nearest, source_words
from bridge.query.epl_columns import is_type
from bridge.query.epl_output import OutputEvery, Snapshot
from bridge.query.epl_state import ChangedWindow
from bridge.query.nodes import Node, is_plain_join
from nfa.pattern import symbols
from windows.extent import Extent, Role
from windows.sql import column

if TYPE_CHECKING:
    from windows.databases import Database


WINDOWS = "WINDOW(RANGE 5 S), WINDOW(ROWS 100) or WINDOW(UNBOUNDED)"
"""What an input without a window may be given, as SQL writes it."""


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A node in normal form, the columns it gives, and whether it has a window (W5).

    `expiring`: each row has an instant at which it leaves the window, known when it arrives.
    """

    node: Node
    fields: tuple[Field, ...]
    windowed: bool
    expiring: bool = False

    @property
    def visible(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.hidden)


class Names(Protocol):
    """What names stand for in a bridge; each gives None for a name it does not know."""

    def stream(self, name: str) -> Resolved | None: ...
    def relation(self, name: str) -> Resolved | None: ...
    def known(self) -> list[str]: ...
    def store(self, name: str | None) -> Database: ...


@singledispatch
def resolve(node: Node, names: Names) -> Resolved:
    """The tree in normal form; raises QueryError, with the place where the tree came from a text."""
    raise QueryError(f"{type(node).__name__} is no query object of the bridge")


@resolve.register
def _(node: query.Output, names: Names) -> Resolved:
    return resolve(node.input, names)


@resolve.register(query.Stream)
@resolve.register(query.Relation)
def _(node: query.Stream | query.Relation, names: Names) -> Resolved:
    found = names.stream(node.name) if isinstance(node, query.Stream) else None
    found = found or names.relation(node.name)
    if found is None:
        hint = nearest(node.name, names.known()) or "; nothing is registered yet"
        raise QueryError(
            f"unknown stream {node.name!r}{hint}", words=[*source_words(node.name), node.name.split(".")[0]]
        )
    schema = node.schema if isinstance(node, query.Stream) else None
    if schema and [(a.name, a.type) for a in schema] != [(f.name, f.type) for f in found.visible]:
        has = ", ".join(f"{f.name} {f.type}" for f in found.visible)
        raise QueryError(f"{node.name!r} is registered with other attributes: ({has}), not ({schema})")
    return found


@resolve.register
def _(node: query.Window, names: Names) -> Resolved:
    below = resolve(node.input, names)
    if isinstance(below.node, query.Relation):
        raise QueryError(f"{below.node.name!r} is a table of the database: it has no time, so no window")
    keys = tuple(scalar(key, Scope(below.fields)) for key in node.partition_by)
    if keys:
        _check_keys(node.extent)
    if not node.extent.holds_per_key:
        keys = ()  # a time window holds the same rows with and without keys (W2)
    window = query.Window(below.node, _extent(node.extent, below), keys)
    return Resolved(window, below.fields, True, node.extent.expiry_known_on_arrival)


def _check_keys(extent: Extent) -> None:
    try:
        extent.check_keys()
    except ValueError as error:
        raise QueryError(str(error)) from None


def _extent(extent: Extent, below: Resolved) -> Extent:
    """The extent with its expressions checked, each by its role, over the columns of the window's input."""
    scope = Scope(below.fields)

    def checked(expression: exp.Expr, role: Role, name: str) -> exp.Expr:
        match role:
            case Role.CONDITION:
                return condition_of(expression, scope, name.upper())
            case Role.TIME:
                return _milliseconds(expression, scope)
            case Role.ORDER:
                return _ordered(cast("exp.Ordered", expression), scope)
        return scalar(expression, scope)

    return extent.map_expressions(checked)


def _milliseconds(of: exp.Expr, scope: Scope) -> exp.Expr:
    found = scalar(of, scope)
    kind = type_of(found, scope.type_of)
    if kind not in ("SMALLINT", "INTEGER", "BIGINT", UNKNOWN):
        raise QueryError(f"a time is a whole number of milliseconds; {of.sql()} is {kind}", position=place(of))
    return found


@resolve.register
def _(node: query.Filter, names: Names) -> Resolved:
    below = streaming(node.input, names)
    condition = condition_of(node.condition, Scope(below.fields), "WHERE")
    return dataclasses.replace(below, node=query.Filter(below.node, condition))


@resolve.register
def _(node: query.Map, names: Names) -> Resolved:
    database = names.store(None)
    if any(is_own_aggregate(below, database) for item in node.columns for below in item.find_all(exp.Anonymous)):
        return resolve(query.Aggregate(node.input, node.columns), names)
    below = streaming(node.input, names)
    scope = Scope(below.fields)
    columns = columns_of(node.columns, scope)
    for item in columns:
        if aggregate := item.this.find(exp.AggFunc):
            raise QueryError(f"{aggregate.sql()} is an aggregate: use Aggregate", position=place(aggregate))
    return Resolved(query.Map(below.node, columns), fields_of(columns, scope), below.windowed, below.expiring)


@resolve.register
def _(node: query.Union, names: Names) -> Resolved:
    parts = [streaming(below, names) for below in node.inputs]
    head = parts[0].visible
    for part in parts[1:]:
        if [f.type for f in part.visible] != [f.type for f in head]:
            raise QueryError(
                f"UNION ALL wants equal columns: ({_listed(head)}) and ({_listed(part.visible)}); "
                "name and CAST them alike in each SELECT"
            )
    renamed = [_renamed(part, head) for part in parts]
    fields = tuple(dataclasses.replace(field, origin=None) for field in head)
    union = query.Union(tuple(renamed))
    return Resolved(union, fields, all(part.windowed for part in parts), all(part.expiring for part in parts))


@resolve.register
def _(node: query.Aggregate, names: Names) -> Resolved:
    database = names.store(None)
    node = _with_own_aggregates(node, database)
    below = streaming(node.input, names)
    if not below.windowed:
        raise QueryError(_no_window("an aggregate", below.node), position=_first_place(node.columns))
    scope = Scope(below.fields)
    raw = tuple(expanded(node.columns, scope))
    groups = tuple(_group(key, raw, scope) for key in node.group_by)
    columns = columns_of(node.columns, scope)
    having = None
    if node.having is not None:
        having = condition_of(without_aliases(node.having, raw, scope), scope, "HAVING", aggregates=True)
    for expression in (*(item.this for item in columns), *([having] if having else [])):
        _check_grouped(expression, groups)
        check_offsets(expression)
    if node.on_change and not below.expiring:
        raise QueryError("EMIT ON CHANGE needs a time window without SLIDE: there rows expire at an instant")
    if node.every_change and not _is_known_to_change(query.without_filters(below.node)):
        raise QueryError(
            "EMIT ON EVERY CHANGE needs a stream with a window, or a join of windows that are neither batches nor sessions, "
            "perhaps filtered"
        )
    _check_parts(below.node, groups)
    resolved = query.Aggregate(below.node, columns, groups, having, node.on_change, node.every_change)
    windowed = _is_known_to_end(below.node) and not _falls_out(below.node)
    return Resolved(resolved, fields_of(columns, scope), windowed)


def _with_own_aggregates(node: query.Aggregate, database: Database) -> query.Aggregate:
    columns = tuple(with_own_aggregates(column, database) for column in node.columns)
    having = None if node.having is None else with_own_aggregates(node.having, database)
    refuse_missing([*columns, *([] if having is None else [having])], database)
    return dataclasses.replace(node, columns=columns, having=having)


def _is_known_to_end(node: Node) -> bool:
    """Whether results over a node have a window themselves (W5): a session's end is not known when its rows come."""
    if isinstance(node, query.Window):
        return node.extent.end_known
    if isinstance(node, query.Match):
        return True  # by its own WITHIN
    if isinstance(node, ChangedWindow):
        return False
    return all(map(_is_known_to_end, node.inputs_of))


def _is_known_to_change(node: Node) -> bool:
    """Whether all moments are known at which rows enter and leave: of a join with the first of their parts."""
    if isinstance(node, query.Correlate):
        return is_plain_join(node)
    return isinstance(node, (query.Window, ChangedWindow))


def _falls_out(node: Node) -> bool:
    """Whether the newest row may be the first to leave: then it does not tell how long its content lasts."""
    if isinstance(node, query.Window):
        return node.extent.may_evict_newest
    return any(map(_falls_out, node.inputs_of))


@resolve.register
def _(node: query.Correlate, names: Names) -> Resolved:
    parts = [(alias, resolve(below, names)) for alias, below in node.inputs]
    streaming = [(alias, part) for alias, part in parts if not isinstance(part.node, query.Relation)]
    if not streaming:
        raise QueryError("a correlation needs a stream: for tables alone ask cep.query")
    for alias, part in streaming:
        if len(streaming) > 1 and not part.windowed and alias != node.driving:
            message = _no_window("a correlation", part.node, alias)
            raise QueryError(message, words=_words_of(part.node, alias))
    fields = _joined_fields(parts)
    condition = None if node.condition is None else condition_of(node.condition, Scope(fields), "WHERE or ON")
    inputs = tuple((alias, part.node) for alias, part in parts)
    resolved = query.Correlate(inputs, condition, node.outer, node.driving)
    windowed, expiring = (all(getattr(part, name) for _, part in streaming) for name in ("windowed", "expiring"))
    windowed = windowed and _is_known_to_end(resolved) and not node.outer and node.driving is None
    return Resolved(resolved, fields, windowed, expiring)


@resolve.register
def _(node: query.OrderLimitDistinct, names: Names) -> Resolved:
    below = streaming(node.input, names)
    scope = Scope(below.fields)
    order = tuple(_ordered(term, scope) for term in node.order_by)
    last_of = None if node.last_of is None else tuple(scalar(key, scope) for key in node.last_of)
    resolved = dataclasses.replace(node, input=below.node, order_by=order, last_of=last_of)
    return Resolved(resolved, below.fields, windowed=False)


@resolve.register
def _(node: query.SubqueryColumn, names: Names) -> Resolved:
    below, source = streaming(node.input, names), resolve(node.source, names)
    if not source.windowed and not isinstance(source.node, query.Relation):
        name = query.source_name(source.node) or "its input"
        raise QueryError(f"a sub-query over {name!r} needs a window: #keepall, #time(…), #length(…)", words=[name])
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
    return Resolved(resolved, (*below.fields, Field(node.name, kind, hidden=True)), windowed=False)


@resolve.register
def _(node: query.PreviousRow, names: Names) -> Resolved:
    below = streaming(node.input, names)
    scope = Scope(below.fields)
    value, keys = scalar(node.value, scope), tuple(scalar(key, scope) for key in node.partition_by)
    resolved = dataclasses.replace(node, input=below.node, value=value, partition_by=keys)
    field = Field(node.name, type_of(value, scope.type_of), hidden=True)
    return Resolved(resolved, (*below.fields, field), windowed=False)


@resolve.register
def _(node: query.Throttle, names: Names) -> Resolved:
    below = streaming(node.input, names)
    keys = tuple(scalar(key, Scope(below.fields)) for key in node.partition_by)
    return Resolved(dataclasses.replace(node, input=below.node, partition_by=keys), below.fields, windowed=False)


@resolve.register
def _(node: Snapshot, names: Names) -> Resolved:
    below = streaming(node.input, names)
    if not _is_known_to_change(query.without_filters(below.node)):
        raise QueryError("a snapshot tells what a window holds: #keepall, #time(5 sec)", words=["snapshot"])
    return Resolved(dataclasses.replace(node, input=below.node), below.fields, windowed=True)


@resolve.register
def _(node: OutputEvery, names: Names) -> Resolved:
    below = streaming(node.input, names)
    return Resolved(dataclasses.replace(node, input=below.node), below.fields, windowed=False)


@resolve.register
def _(node: query.Match, names: Names) -> Resolved:
    below = streaming(node.input, names)
    scope = Scope(below.fields, tuple(Field(a.name, a.type) for a in node.measures))
    known = symbols(node.pattern)
    defined = [definition.symbol for definition in node.define]
    for symbol in defined:
        if defined.count(symbol) > 1:
            raise QueryError(f"symbol {symbol!r} is defined twice")
        if symbol not in known:
            raise QueryError(
                f"symbol {symbol!r} is defined but not in PATTERN {node.pattern}{nearest(symbol, list(known))}"
            )
    for attribute in node.measures:
        if any(f.name.lower() == attribute.name.lower() for f in below.fields):
            raise QueryError(f"the variable {attribute.name!r} has the name of an attribute of the stream: rename it")
    define = tuple(_definition(definition, scope, node) for definition in node.define)
    keys = tuple(scalar(key, Scope(below.fields)) for key in node.partition_by)
    resolved = query.Match(below.node, node.pattern, node.within, node.measures, define, keys)
    return Resolved(resolved, tuple(Field(a.name, a.type) for a in node.measures), True, True)


# Names and scalars -----------------------------------------------------------------------------------------------------


def _definition(definition: query.Definition, scope: Scope, node: query.Match) -> query.Definition:
    condition = None
    if definition.condition is not None:
        condition = condition_of(definition.condition, scope, f"DEFINE {definition.symbol}")
    assignments = []
    for name, value in definition.assignments:
        variable = node.measures.find(name)
        if variable is None:
            hint = nearest(name, node.measures.names)
            raise QueryError(f"variable {name!r} is not declared in MEASURES{hint}", position=place(value))
        given = scalar(value, scope)
        kind = type_of(given, scope.type_of)
        if None not in (family(kind), family(variable.type)) and family(kind) != family(variable.type):
            raise QueryError(
                f"the variable {variable.name!r} is {variable.type}, {value.sql()} is {kind} "
                f"(CAST(… AS {variable.type}) says what is meant)",
                position=place(value),
            )
        assignments.append((variable.name, given))
    return query.Definition(definition.symbol, condition, tuple(assignments))


def _joined_fields(parts: Sequence[tuple[str, Resolved]]) -> tuple[Field, ...]:
    """O3: the inputs' columns in FROM order, names that occur twice as `alias_name`; each part's ts as `alias.ts`."""
    listed = [(alias, field) for alias, part in parts for field in part.visible]
    lowered = [field.name.lower() for _, field in listed]
    fields = []
    for alias, field in listed:
        name = field.name if lowered.count(field.name.lower()) == 1 else f"{alias}_{field.name}"
        fields.append(Field(name, field.type, (alias, field.name)))
    names = [field.name.lower() for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"the correlation would have two columns {name!r}: give an input another alias")
    times = [
        Field(f"{alias}.ts", "BIGINT", (alias, "ts"), hidden=True)
        for alias, part in parts
        if not isinstance(part.node, query.Relation)
    ]
    return (*fields, *times)


def _renamed(part: Resolved, head: Sequence[Field]) -> Node:
    if [f.name for f in part.visible] == [f.name for f in head] and part.visible == part.fields:
        return part.node
    pairs = zip(part.visible, head, strict=True)
    return query.Map(part.node, tuple(exp.alias_(column(mine.name), its.name, quoted=True) for mine, its in pairs))


def _ordered(term: exp.Ordered, scope: Scope) -> exp.Ordered:
    refuse_nested(term, scope.type_of)
    return exp.Ordered(this=scalar(term.this, scope), desc=term.args["desc"])


def _group(key: exp.Expr, columns: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
    return scalar(without_aliases(key, columns, scope), scope)


def _check_grouped(expression: exp.Expr, groups: Sequence[exp.Expr]) -> None:
    if expression in groups or isinstance(expression, exp.AggFunc):
        return
    if isinstance(expression, exp.Column):
        raise QueryError(f"{expression.name!r} is neither in GROUP BY nor in an aggregate", position=place(expression))
    for child in expression.iter_expressions():
        _check_grouped(child, groups)


def _check_parts(node: Node, groups: Sequence[exp.Expr]) -> None:
    """A jump of a window per key renews one key's rows, so the aggregate must be per key, too."""
    match node:
        case query.Window(_, extent, keys) if extent.jumps and extent.holds_per_key and not set(keys) <= set(groups):
            wanted = ", ".join(key.sql() for key in keys)
            raise QueryError(f"an aggregate over {node.extent} PARTITION BY {wanted} needs GROUP BY {wanted}")
        case query.Filter():
            _check_parts(node.input, groups)
        case query.Map():
            values = {item.alias: item.this for item in node.columns}
            below = [group.transform(lambda n: _through(n, values)) for group in groups]
            _check_parts(node.input, below)


def _through(node: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    return values[node.name].copy() if isinstance(node, exp.Column) and node.name in values else node


def without_types(resolved: Resolved, names: Names) -> Resolved:
    """The results without the types of events that a statement of EPL has asked for."""
    listed = [field.name for field in resolved.visible if not is_type(field.name)]
    if len(listed) == len(resolved.visible):
        return resolved
    return resolve(query.Map(resolved.node, tuple(map(column, listed))), names)


def streaming(node: Node, names: Names) -> Resolved:
    below = resolve(node, names)
    if isinstance(below.node, query.Relation):
        raise QueryError(
            f"{below.node.name!r} is a table of the database: it can be joined with a stream, "
            "or asked on demand with cep.query"
        )
    return below


def _no_window(what: str, node: Node, alias: str | None = None) -> str:
    name = alias or query.source_name(node) or "its input"
    return f"{what} needs a window: write {name} {WINDOWS}"


def _words_of(node: Node, alias: str) -> list[str]:
    """An input of a correlation as its text may name it: with its alias, or by its own name."""
    name = query.source_name(node)
    return ([f"{name} {alias}", f"{name} AS {alias}"] if name else [f"AS {alias}"]) + source_words(name or alias)


def _first_place(expressions: Sequence[exp.Expr]) -> int | None:
    return min((p for p in map(place, expressions) if p is not None), default=None)


def _listed(fields: Sequence[Field]) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in fields)
