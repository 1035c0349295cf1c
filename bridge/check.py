"""From the tree as written to the tree as meant: every name found, every type known, every refusal with its place.

`resolve` gives the same kind of tree back in a normal form: names as the schema spells them, stars expanded, columns over
a correlation under their output names. Equal resolved trees are one operator, so nothing of the spelling is left in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError, nearest, source_words
from bridge.query import Node
from bridge.types import UNKNOWN, check_types, family, place, type_of
from nfa.pattern import symbols
from windows.schema import is_reserved
from windows.window import BY_KEY, Batch, Extent, Rows, Session, Top

if TYPE_CHECKING:
    from windows.databases import Database

VOLATILE = frozenset(
    (
        "now", "random", "rand", "uuid", "gen_random_uuid", "newid", "current_timestamp", "current_date",
        "current_time", "localtime", "localtimestamp", "sysdate", "today", "clock_timestamp", "nextval",
        "random_normal", "setseed",
    )
)  # fmt: skip
"""Functions whose value is not given by their arguments."""

_VOLATILE_NODES = (exp.Rand, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Uuid)
_SPELLED = {exp.CurrentTimestamp: ["now"], exp.Rand: ["random"]}
_NOT_SCALAR = {
    exp.Window: "window functions are not supported: a WINDOW(...) on the stream and an aggregate say the same",
    exp.Subquery: "a sub-query in an expression is not supported: join with it instead",
    exp.Select: "a sub-query in an expression is not supported: join with it instead",
    exp.Exists: "EXISTS is not supported: join with the stream or table instead",
    exp.Placeholder: "a query has no parameters: write the value",
    exp.Parameter: "a query has no parameters: write the value",
    exp.Filter: "FILTER (WHERE …) is not supported by every database: write COUNT(CASE WHEN … THEN 1 END)",
}

WINDOWS = "WINDOW(RANGE 5 S), WINDOW(ROWS 100) or WINDOW(UNBOUNDED)"
"""What an input without a window may be given, as SQL writes it."""


@dataclasses.dataclass(frozen=True)
class Field:
    """One column of a node's result; `origin` is (alias, attribute) where a correlation made it."""

    name: str
    type: str
    origin: tuple[str, str] | None = None
    hidden: bool = False


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


def resolve(node: Node, names: Names) -> Resolved:
    """The tree in normal form; raises QueryError, with the place where the tree came from a text."""
    return _resolve(node, names)


@singledispatch
def _resolve(node: Node, names: Names) -> Resolved:
    raise QueryError(f"{type(node).__name__} is no query object of the bridge")


@_resolve.register
def _(node: query.Output, names: Names) -> Resolved:
    return resolve(node.input, names)


@_resolve.register(query.Stream)
@_resolve.register(query.Relation)
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


@_resolve.register
def _(node: query.Window, names: Names) -> Resolved:
    below = resolve(node.input, names)
    if isinstance(below.node, query.Relation):
        raise QueryError(f"{below.node.name!r} is a table of the database: it has no time, so no window")
    keys = tuple(_scalar(key, _Scope(below.fields)) for key in node.partition_by)
    if getattr(node.extent, "first", False) and keys:
        raise QueryError("OFFSET FIRST counts from the first row of all: PARTITION BY is not supported")
    if not isinstance(node.extent, BY_KEY):
        keys = ()  # a time window holds the same rows with and without keys (W2)
    expiring = not isinstance(node.extent, (Rows, Batch, Session, Top)) and getattr(node.extent, "slide", None) is None
    return Resolved(query.Window(below.node, _extent(node.extent, below), keys), below.fields, True, expiring)


def _extent(extent: Extent, below: Resolved) -> Extent:
    scope = _Scope(below.fields)
    if isinstance(extent, Top):
        order = (exp.Ordered(this=_scalar(term.this, scope), desc=term.args["desc"]) for term in extent.order)
        return Top(extent.count, tuple(order), tuple(_scalar(key, scope) for key in extent.last_of))
    if not isinstance(extent, Batch):
        return extent
    return Batch(_condition(extent.start, scope, "START"), _condition(extent.stop, scope, "STOP"))


@_resolve.register
def _(node: query.Filter, names: Names) -> Resolved:
    below = _streaming(node.input, names)
    condition = _condition(node.condition, _Scope(below.fields), "WHERE")
    return dataclasses.replace(below, node=query.Filter(below.node, condition))


@_resolve.register
def _(node: query.Map, names: Names) -> Resolved:
    if any(_is_aggregate(below, names) for item in node.columns for below in item.find_all(exp.Anonymous)):
        return resolve(query.Aggregate(node.input, node.columns), names)
    below = _streaming(node.input, names)
    scope = _Scope(below.fields)
    columns = _columns(node.columns, scope)
    for column in columns:
        if aggregate := column.this.find(exp.AggFunc):
            raise QueryError(f"{aggregate.sql()} is an aggregate: use Aggregate", position=place(aggregate))
    return Resolved(query.Map(below.node, columns), _fields_of(columns, scope), below.windowed, below.expiring)


@_resolve.register
def _(node: query.Union, names: Names) -> Resolved:
    parts = [_streaming(below, names) for below in node.inputs]
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


@_resolve.register
def _(node: query.Aggregate, names: Names) -> Resolved:
    node = _of_the_database(node, names)
    below = _streaming(node.input, names)
    if not below.windowed:
        raise QueryError(_no_window("an aggregate", below.node), position=_first_place(node.columns))
    scope = _Scope(below.fields)
    raw = tuple(_expand(node.columns, scope))
    groups = tuple(_group(key, raw, scope) for key in node.group_by)
    columns = _columns(node.columns, scope)
    having = None
    if node.having is not None:
        having = _condition(_without_aliases(node.having, raw, scope), scope, "HAVING", aggregates=True)
    for expression in (*(column.this for column in columns), *([having] if having else [])):
        _check_grouped(expression, groups)
    if node.on_change and not below.expiring:
        raise QueryError("EMIT ON CHANGE needs a time window without SLIDE: there rows expire at an instant")
    if node.every_change and not _is_windowed_plainly(below.node):
        raise QueryError("EMIT ON EVERY CHANGE needs a stream with a window, perhaps filtered")
    _check_parts(below.node, groups)
    resolved = query.Aggregate(below.node, columns, groups, having, node.on_change, node.every_change)
    windowed = _is_known_to_end(below.node) and not _falls_out(below.node)
    return Resolved(resolved, _fields_of(columns, scope), windowed)


def _of_the_database(node: query.Aggregate, names: Names) -> query.Aggregate:
    """With what only the database knows as an aggregate said to be one."""

    def said(inner: exp.Expr) -> exp.Expr:
        if isinstance(inner, exp.Anonymous) and _is_aggregate(inner, names):
            return exp.AnonymousAggFunc(
                this=inner.name, expressions=[each.transform(said) for each in inner.expressions]
            )
        return inner

    columns = tuple(column.transform(said) for column in node.columns)
    having = None if node.having is None else node.having.transform(said)
    return dataclasses.replace(node, columns=columns, having=having)


def _is_aggregate(function: exp.Expr, names: Names) -> bool:
    return names.store(None).is_aggregate(function.name)


def _is_windowed_plainly(node: Node) -> bool:
    while isinstance(node, query.Filter):
        node = node.input
    return isinstance(node, query.Window)


def _is_known_to_end(node: Node) -> bool:
    """Whether results over a node have a window themselves (W5): a session's end is not known when its rows come."""
    if isinstance(node, query.Window):
        return not isinstance(node.extent, Session)
    return all(map(_is_known_to_end, node.inputs_of))


def _falls_out(node: Node) -> bool:
    """Whether the newest row may be the first to leave: then it does not tell how long its content lasts."""
    if isinstance(node, query.Window):
        return isinstance(node.extent, Top)
    return any(map(_falls_out, node.inputs_of))


@_resolve.register
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
    condition = None if node.condition is None else _condition(node.condition, _Scope(fields), "WHERE or ON")
    inputs = tuple((alias, part.node) for alias, part in parts)
    resolved = query.Correlate(inputs, condition, node.outer, node.driving)
    windowed, expiring = (all(getattr(part, name) for _, part in streaming) for name in ("windowed", "expiring"))
    windowed = windowed and _is_known_to_end(resolved) and not node.outer and node.driving is None
    return Resolved(resolved, fields, windowed, expiring)


@_resolve.register
def _(node: query.Arrange, names: Names) -> Resolved:
    below = _streaming(node.input, names)
    scope = _Scope(below.fields)
    order = tuple(exp.Ordered(this=_scalar(term.this, scope), desc=term.args["desc"]) for term in node.order_by)
    last_of = None if node.last_of is None else tuple(_scalar(key, scope) for key in node.last_of)
    resolved = dataclasses.replace(node, input=below.node, order_by=order, last_of=last_of)
    return Resolved(resolved, below.fields, windowed=False)


@_resolve.register
def _(node: query.Lookup, names: Names) -> Resolved:
    below, source = _streaming(node.input, names), _streaming(node.source, names)
    if not source.windowed:
        name = query.source_name(source.node) or "its input"
        raise QueryError(f"a sub-query over {name!r} needs a window: #keepall, #time(…), #length(…)", words=[name])
    inner = [Field(f"{node.name}.{f.name}", f.type, (node.name, f.name)) for f in source.visible]
    both = _Scope((*below.fields, *inner, Field(f"{node.name}.ts", "BIGINT", (node.name, "ts"))))
    condition = None if node.condition is None else _condition(node.condition, both, "WHERE")
    value = None if node.value is None else _scalar(node.value, both, aggregates=True)
    operand = None if node.operand is None else _scalar(node.operand, _Scope(below.fields))
    kind = "BOOLEAN" if value is None or operand is not None else type_of(value, both.type_of)
    if value is not None and operand is not None:
        check_types(exp.EQ(this=node.operand, expression=node.value), both.type_of)
    resolved = query.Lookup(below.node, node.name, source.node, condition, value, operand)
    return Resolved(resolved, (*below.fields, Field(node.name, kind, hidden=True)), windowed=False)


@_resolve.register
def _(node: query.Prior, names: Names) -> Resolved:
    below = _streaming(node.input, names)
    scope = _Scope(below.fields)
    value, keys = _scalar(node.value, scope), tuple(_scalar(key, scope) for key in node.partition_by)
    resolved = dataclasses.replace(node, input=below.node, value=value, partition_by=keys)
    field = Field(node.name, type_of(value, scope.type_of), hidden=True)
    return Resolved(resolved, (*below.fields, field), windowed=False)


@_resolve.register
def _(node: query.Throttle, names: Names) -> Resolved:
    below = _streaming(node.input, names)
    return Resolved(dataclasses.replace(node, input=below.node), below.fields, windowed=False)


@_resolve.register
def _(node: query.Match, names: Names) -> Resolved:
    below = _streaming(node.input, names)
    scope = _Scope(below.fields, tuple(Field(a.name, a.type) for a in node.measures))
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
    keys = tuple(_scalar(key, _Scope(below.fields)) for key in node.partition_by)
    resolved = query.Match(below.node, node.pattern, node.within, node.measures, define, keys)
    return Resolved(resolved, tuple(Field(a.name, a.type) for a in node.measures), True, True)


# Names and scalars -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Scope:
    """The columns an expression may name; variables of a pattern come after the attributes."""

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
        names = [field.name for field in (*self.fields, *self.variables) if not field.hidden]
        return f"unknown column {column.name!r}{nearest(column.name, names)}"

    def type_of(self, column: exp.Column) -> str:
        return self.find(column).type


def _named_so(pool: Sequence[Field], name: str, qualified: bool) -> list[Field]:
    """The fields of this name: exactly so, else ignoring case; unqualified also an attribute's own name if it is one."""

    def spelled(field: Field) -> list[str]:
        return [field.origin[1]] if qualified and field.origin else [field.name]

    exact = [field for field in pool if name in spelled(field)]
    loose = exact or [field for field in pool if name.lower() in [text.lower() for text in spelled(field)]]
    if loose or qualified:
        return loose
    return [f for f in pool if f.origin and f.origin[1].lower() == name.lower() and not f.hidden]


def _scalar(expression: exp.Expr, scope: _Scope, aggregates: bool = False) -> exp.Expr:
    """The expression in normal form, its names and types checked."""
    _refuse_unscalar(expression, aggregates)

    def normal(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        field = scope.find(node)
        found = column(field.name)
        found.this.meta.update(node.this.meta)
        found.meta["type"] = field.type
        return found

    check_types(expression, scope.type_of)
    result = expression.transform(normal)
    while isinstance(result, exp.Paren):
        result = result.this
    return result


def column(name: str) -> exp.Column:
    """A column by its exact name, quoted."""
    return exp.column(exp.to_identifier(name, quoted=True))


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
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            raise QueryError("a star stands alone in the list of columns", position=place(node))


def _volatile(node: exp.Expr) -> list[str]:
    """The names of a function whose value is not given by its arguments; empty for all others."""
    if isinstance(node, _VOLATILE_NODES):
        names = [name.lower() for name in type(node).sql_names()]
        return [*(name for name in ("now", "random") if name in _SPELLED.get(type(node), names)), *names]
    if isinstance(node, exp.Anonymous) and node.name.lower() in VOLATILE:
        return [node.name.lower()]
    return []


def _condition(expression: exp.Expr, scope: _Scope, clause: str, aggregates: bool = False) -> exp.Expr:
    resolved = _scalar(expression, scope, aggregates)
    kind = type_of(resolved, scope.type_of)
    if kind not in ("BOOLEAN", UNKNOWN):
        raise QueryError(f"{clause} wants a condition; {expression.sql()} is {kind}", position=place(expression))
    return resolved


def _definition(definition: query.Definition, scope: _Scope, node: query.Match) -> query.Definition:
    condition = None
    if definition.condition is not None:
        condition = _condition(definition.condition, scope, f"DEFINE {definition.symbol}")
    assignments = []
    for name, value in definition.assignments:
        variable = node.measures.find(name)
        if variable is None:
            hint = nearest(name, node.measures.names)
            raise QueryError(f"variable {name!r} is not declared in MEASURES{hint}", position=place(value))
        given = _scalar(value, scope)
        kind = type_of(given, scope.type_of)
        if None not in (family(kind), family(variable.type)) and family(kind) != family(variable.type):
            raise QueryError(
                f"the variable {variable.name!r} is {variable.type}, {value.sql()} is {kind} "
                f"(CAST(… AS {variable.type}) says what is meant)",
                position=place(value),
            )
        assignments.append((variable.name, given))
    return query.Definition(definition.symbol, condition, tuple(assignments))


def _expand(columns: Sequence[exp.Expr], scope: _Scope) -> list[exp.Expr]:
    """The list of columns with every star replaced by the columns it stands for."""
    expanded: list[exp.Expr] = []
    for item in columns:
        if isinstance(item, exp.Star):
            expanded += [column(field.name) for field in scope.fields if not field.hidden]
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            expanded += [column(field.name) for field in _of_input(item, scope)]
        else:
            expanded.append(item)
    return expanded


def _of_input(item: exp.Column, scope: _Scope) -> list[Field]:
    fields = [f for f in scope.fields if f.origin and f.origin[0].lower() == item.table.lower() and not f.hidden]
    if not fields:
        raise QueryError(f"unknown input {item.table!r}", position=place(item))
    return fields


def _columns(columns: Sequence[exp.Expr], scope: _Scope) -> tuple[exp.Alias, ...]:
    """The columns in normal form: each an alias with its exact output name, no name twice, none of the bridge's own."""
    result: list[exp.Alias] = []
    for item in _expand(columns, scope):
        name = _output_name(item, scope)
        if is_reserved(name):
            raise QueryError(
                f"{name!r} is the bridge's own name (every result has its ts): give the column another one with AS",
                position=place(item),
            )
        if name.lower() in [other.alias.lower() for other in result]:
            raise QueryError(f"two columns are called {name!r}: rename one with AS", position=place(item))
        value = item.this if isinstance(item, exp.Alias) else item
        result.append(
            exp.Alias(this=_scalar(value, scope, aggregates=True), alias=exp.to_identifier(name, quoted=True))
        )
    return tuple(result)


def _output_name(item: exp.Expr, scope: _Scope) -> str:
    if isinstance(item, exp.Alias):
        return str(item.alias)
    if isinstance(item, exp.Column):
        field = scope.find(item)
        return field.origin[1] if item.table and field.origin else field.name
    return item.sql()


def _fields_of(columns: Sequence[exp.Alias], scope: _Scope) -> tuple[Field, ...]:
    return tuple(Field(item.alias, type_of(item.this, scope.type_of)) for item in columns)


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


def _group(key: exp.Expr, columns: Sequence[exp.Expr], scope: _Scope) -> exp.Expr:
    return _scalar(_without_aliases(key, columns, scope), scope)


def _without_aliases(expression: exp.Expr, columns: Sequence[exp.Expr], scope: _Scope) -> exp.Expr:
    """GROUP BY and HAVING may name a column of the list by its alias, where the input has no column of that name."""
    own = {field.name.lower() for field in scope.fields}
    values = {c.alias.lower(): c.this for c in columns if isinstance(c, exp.Alias) and c.alias.lower() not in own}

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in values:
            return exp.paren(values[node.name.lower()].copy())
        return node

    return expression.transform(replaced) if values else expression


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
        case query.Window(_, extent, keys) if _renews_by_key(extent) and not set(keys) <= set(groups):
            wanted = ", ".join(key.sql() for key in keys)
            raise QueryError(f"an aggregate over {node.extent} PARTITION BY {wanted} needs GROUP BY {wanted}")
        case query.Filter():
            _check_parts(node.input, groups)
        case query.Map():
            values = {item.alias: item.this for item in node.columns}
            below = [group.transform(lambda n: _through(n, values)) for group in groups]
            _check_parts(node.input, below)


def _renews_by_key(extent: Extent) -> bool:
    return isinstance(extent, Batch) or (isinstance(extent, Rows) and extent.slide is not None)


def _through(node: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    return values[node.name].copy() if isinstance(node, exp.Column) and node.name in values else node


def _streaming(node: Node, names: Names) -> Resolved:
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
