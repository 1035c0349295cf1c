"""EPL's event types: schemas that name others, events that belong to several schemas, and variant streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from sqlglot import exp

from bridge.errors import NameTaken, QueryError, nearest
from bridge.frontends.epl.expressions import TYPES
from bridge.frontends.epl.schemas import CreateSchema, CreateVariant
from bridge.query.epl_columns import TYPE, stream_of, with_type
from bridge.query.nodes import Aggregate, Filter, Map, Node, Stream, Union, without_filters
from windows.schema import Attribute, Schema, TypeMismatch, canonical_type
from windows.sql import column
from windows.types import List, Struct, shape

Known = Callable[[str], Schema | None]
"""Gives the schema of a name; None if there is none."""

_NUMBERS = ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE")


@dataclasses.dataclass(frozen=True)
class _VariantStream:
    """A variant stream: its members, the columns that they share, and the inserted rows."""

    name: str
    members: tuple[str, ...]
    columns: Schema
    inserted: tuple[Node, ...] = ()
    is_read: bool = False


class EventTypes:
    """The event types of a bridge or a script, found ignoring case. `known` gives the schemas of its streams."""

    def __init__(self, known: Known, names: Callable[[], list[str]]) -> None:
        self.schema, self.names = known, names
        self.children: dict[str, tuple[str, ...]] = {}
        """For each name, the streams whose events belong to it, too."""
        self.variants: dict[str, _VariantStream] = {}
        self.inserts: dict[str, tuple[Node, ...]] = {}
        """For each declared schema, the rows that statements insert, with its attributes."""
        self._schemas: frozenset[str] = frozenset()
        self._read: dict[str, str] = {}

    def remember(self) -> Callable[[], None]:
        """A function that undoes all later declarations."""
        children, variants, read = dict(self.children), dict(self.variants), dict(self._read)
        inserts, schemas = dict(self.inserts), self._schemas

        def back() -> None:
            self.children, self.variants, self._read = children, variants, read
            self.inserts, self._schemas = inserts, schemas

        return back

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.variants or name.lower() in self._schemas

    def declare(self, declared: CreateSchema) -> Schema:
        """The attributes of a schema: those of the schemas that it inherits, then its own."""
        attributes = [a for parent in declared.inherits for a in self._parent(parent, declared.name)]
        attributes += schema_of(declared, self.schema, self.names())
        found: dict[str, Attribute] = {}
        for attribute in attributes:
            before = found.setdefault(attribute.name.lower(), attribute)
            if before.type != attribute.type:
                raise QueryError(
                    f"{attribute.name!r} is {before.type} in one schema and {attribute.type} in another",
                    words=[attribute.name],
                )
        schema = _schema(tuple(found.values()))
        for parent in declared.inherits:
            self._add_child(parent, declared.name)
        self._schemas |= {declared.name.lower()}
        return schema

    def columns(self, declared: CreateSchema) -> Schema:
        """The attributes that a named window is created with."""
        return schema_of(declared, self.schema, self.names())

    def create_variant(self, declared: CreateVariant) -> None:
        """A new variant stream, which is still empty."""
        if declared.name in self or self.schema(declared.name) is not None:
            raise NameTaken(f"there is a stream {declared.name!r} already")
        schemas = [self._member(name) for name in declared.members]
        columns = _schema(tuple(_shared(schemas)))
        self.variants[declared.name.lower()] = _VariantStream(declared.name, declared.members, columns)

    def insert(self, name: str, node: Node) -> None:
        """Adds inserted rows: to a variant stream events of one of its members, to a schema its attributes."""
        if name.lower() not in self.variants:
            self._insert_rows(name, node)
            return
        variant = self.variants[name.lower()]
        below = without_filters(node)
        stream = stream_of(below) if isinstance(below, Map) else below
        if not isinstance(stream, Stream) or stream.name.lower() not in map(str.lower, variant.members):
            wanted = " or ".join(f"select * from {member}" for member in variant.members)
            raise QueryError(
                f"{name!r} takes events of its members as they are: insert into {name} {wanted}", words=[name]
            )
        if variant.is_read:
            raise QueryError(
                f"{name!r} is read already: create the statements that insert before those that read", words=[name]
            )
        self.variants[name.lower()] = dataclasses.replace(variant, inserted=(*variant.inserted, node))

    def inserted(self, name: str) -> Node:
        """The rows that the latest statement inserts, with the columns of the variant stream or the schema."""
        if name.lower() not in self.variants:
            return self.inserts[name.lower()][-1]
        variant = self.variants[name.lower()]
        return _with_columns(variant.inserted[-1], variant.columns, is_typed=False)

    def expand(self, node: Node) -> Node:
        """The tree, which, where it reads a stream, also reads the events of other types that belong to it."""
        stream = stream_of(node) if isinstance(node, Map) else node
        if isinstance(stream, Stream) and (found := self._events(stream.name, stream is not node)) is not None:
            return found
        return node if isinstance(stream, Stream) else node.with_inputs(self.expand)

    def forget(self, name: str) -> None:
        """Removes a stream."""
        self._schemas -= {name.lower()}
        self.inserts.pop(name.lower(), None)
        self.children.pop(name.lower(), None)
        self.children = {
            parent: tuple(child for child in children if child.lower() != name.lower())
            for parent, children in self.children.items()
        }

    # Within -------------------------------------------------------------------------------------------------------------

    def _events(self, name: str, is_typed: bool) -> Node | None:
        """The tree for a name, with or without a column for the type of each event; None for a plain stream."""
        if variant := self.variants.get(name.lower()):
            if not variant.inserted:
                raise QueryError(
                    f"nothing is inserted into {name!r} yet: insert into {name} select * from …", words=[name]
                )
            self.variants[name.lower()] = dataclasses.replace(variant, is_read=True)
            parts = [self.expand(_with_columns(each, variant.columns, is_typed)) for each in variant.inserted]
            return parts[0] if len(parts) == 1 else Union(tuple(parts))
        self._read[name.lower()] = name
        children, schema = list(dict.fromkeys(self._below(name.lower()))), self.schema(name)
        inserts = self.inserts.get(name.lower(), ())
        if not (children or inserts) or schema is None:
            return None
        own: Node = with_type(Stream(name)) if is_typed else Stream(name)
        rest = [_with_columns(Stream(child), schema, is_typed) for child in children]
        columns = (exp.Star(), _type_named(name)) if is_typed else (exp.Star(),)
        return Union((own, *rest, *(Map(node, columns) for node in inserts)))

    def _insert_rows(self, name: str, node: Node) -> None:
        schema = self.schema(name)
        assert schema is not None
        rows = self.expand(as_rows(node, schema, name))
        if name.lower() in self._read:
            raise QueryError(
                f"{name!r} is read already: create the statements that insert into it before the statements that read it",
                words=[name],
            )
        self.inserts[name.lower()] = (*self.inserts.get(name.lower(), ()), rows)

    def _below(self, name: str) -> Iterator[str]:
        for child in self.children.get(name, ()):
            yield child
            yield from self._below(child.lower())

    def _add_child(self, parent: str, child: str) -> None:
        lowered = parent.lower()
        above = [parent, *(name for name in self.children if lowered in map(str.lower, self._below(name)))]
        if read := next((self._read[name.lower()] for name in above if name.lower() in self._read), None):
            raise QueryError(
                f"{child!r} would be events of {read!r}, which is read already: create its schema before", words=[child]
            )
        self.children[lowered] = (*self.children.get(lowered, ()), child)

    def _parent(self, name: str, child: str) -> Schema:
        found = self.schema(name)
        if found is None:
            raise QueryError(
                f"{child!r} inherits {name!r}, which is not a schema{nearest(name, self.names())}", words=[name]
            )
        return found

    def _member(self, name: str) -> Schema:
        found = self.schema(name)
        if found is None:
            raise QueryError(f"unknown stream {name!r}{nearest(name, self.names())}", words=[name])
        return found


def as_rows(node: Node, schema: Schema, name: str) -> Node:
    """Rows with the attributes of a schema; an attribute that is not in the list of columns is NULL.

    Raises:
        QueryError: The list has a column that is not among the attributes.
    """
    listed = _column_list(node)
    if listed is None:
        return _with_columns(node, schema, is_typed=False)
    unknown = next((column for column in listed if schema.find(column) is None), None)
    if unknown is not None:
        raise QueryError(
            f"{name!r} has no attribute {unknown!r}{nearest(unknown, schema.names)}: name the columns as its attributes are",
            words=[unknown],
        )
    known = {column.lower() for column in listed}
    columns = [
        column if attribute.name.lower() in known else exp.alias_(_null(attribute.type), attribute.name, quoted=True)
        for attribute, column in zip(schema, _columns(schema, is_typed=False), strict=True)
    ]
    return Map(node, tuple(columns))


def _column_list(node: Node) -> list[str] | None:
    """The names of the columns that a statement lists; None for `*` or another kind of statement."""
    while not isinstance(node, (Map, Aggregate)):
        if len(node.inputs_of) != 1:
            return None
        node = node.inputs_of[0]
    if any(column.is_star for column in node.columns):
        return None
    return [column.alias_or_name or column.sql() for column in node.columns]


def no_rows(node: Node, schema: Schema) -> Node:
    """A node with the columns of a schema, and without rows; it reads another node, and takes none of its rows."""
    nulls = [exp.alias_(_null(attribute.type), attribute.name, quoted=True) for attribute in schema]
    return Map(Filter(node, exp.false()), tuple(nulls))


def _null(kind: str) -> exp.Expr:
    return exp.cast(exp.null(), exp.DataType.build(kind, dialect="duckdb"))


def _type_named(name: str) -> exp.Expr:
    return exp.alias_(exp.Literal.string(name), TYPE, quoted=True)


def fits(found: str, attribute: str) -> bool:
    """Whether values of one type fit an attribute of another: numbers may be of a smaller type.

    >>> fits("INTEGER", "BIGINT"), fits("DOUBLE", "INTEGER")
    (True, False)
    """
    if found in _NUMBERS and attribute in _NUMBERS:
        return _NUMBERS.index(found) <= _NUMBERS.index(attribute)
    return found in (attribute, "UNKNOWN", "NULL")


def schema_of(declared: CreateSchema, known: Known, names: list[str]) -> Schema:
    """The attributes of a schema, whose types may be the names of schemas that are `known`.

    >>> from bridge.frontends.epl.statement import parse
    >>> (person,) = parse("create schema Person (name string, homes Address[])")
    >>> str(schema_of(person, {"Address": Schema.of("city VARCHAR")}.get, ["Address"]))
    'name VARCHAR, homes STRUCT(city VARCHAR)[]'
    """
    return _schema(tuple(Attribute(name, _type(kind, known, names)) for name, kind in declared.attributes))


def _schema(attributes: tuple[Attribute, ...]) -> Schema:
    try:
        return Schema(attributes)
    except TypeMismatch as error:
        raise QueryError(str(error)) from None


def _type(kind: str, known: Known, names: list[str]) -> str:
    found = shape(kind)
    if isinstance(found, List):
        return str(List(_type(found.element, known, names)))
    try:
        return canonical_type(kind)
    except TypeMismatch:
        schema = known(kind)
    if schema is None:
        there = ", ".join(TYPES)
        raise QueryError(
            f"the type {kind!r} is not supported; there are {there}, and schemas{nearest(kind, names)}", words=[kind]
        )
    return str(Struct(tuple((attribute.name, attribute.type) for attribute in schema)))


def _shared(schemas: list[Schema]) -> Iterator[Attribute]:
    """The columns that all schemas have, in types that hold the values of each."""
    for attribute in schemas[0]:
        kinds = [found.type if (found := schema.find(attribute.name)) else "" for schema in schemas]
        if len(set(kinds)) == 1:
            yield attribute
        elif all(kind in _NUMBERS for kind in kinds):
            yield Attribute(attribute.name, max(kinds, key=_NUMBERS.index))


def _with_columns(node: Node, columns: Schema, is_typed: bool) -> Node:
    """The events of a stream, possibly filtered, with only these columns, and their type if `is_typed`."""
    return Map(_typed_inside(node) if is_typed else node, _columns(columns, is_typed))


def _typed_inside(node: Node) -> Node:
    if isinstance(node, Filter):
        return dataclasses.replace(node, input=_typed_inside(node.input))
    return with_type(node) if isinstance(node, Stream) else node


def _columns(columns: Schema, is_typed: bool) -> tuple[exp.Expr, ...]:
    listed: list[exp.Expr] = [
        exp.alias_(exp.cast(column(a.name), exp.DataType.build(a.type, dialect="duckdb")), a.name, quoted=True)
        if a.type in _NUMBERS
        else column(a.name)
        for a in columns
    ]
    return (*listed, column(TYPE)) if is_typed else tuple(listed)
