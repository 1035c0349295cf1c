"""Executes statements of EPL, for a live bridge and for the script of a replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from sqlglot import exp

from bridge.errors import NameTaken, QueryError, nearest
from bridge.frontends.epl.clauses import Context
from bridge.frontends.epl.contexts import CreateContext
from bridge.frontends.epl.event_types import EventTypes, as_rows
from bridge.frontends.epl.named_windows import NamedWindows
from bridge.frontends.epl.schemas import CreateSchema, CreateVariant
from bridge.frontends.epl.tables import ChangeRows, CreateTable, CreateWindow, IntoTableStatement
from bridge.frontends.epl.variables import Constants, CreateVariable, OnSet, after
from bridge.frontends.statements import CreateQuery, CreateStream, Query
from bridge.query.epl_state import Variable
from bridge.query.expressions import projections, scalar
from bridge.query.nodes import Filter, Map, Node, Stream
from windows.schema import Attribute, Schema

Created = CreateContext | CreateSchema | CreateTable | CreateVariable | CreateVariant | CreateWindow
Statement = CreateStream | CreateQuery | Query | Created | ChangeRows | Constants | IntoTableStatement | OnSet
"""A statement of EPL, as parsed."""


@dataclasses.dataclass(frozen=True)
class ChangeQuery:
    """A query that changes a table or variables. `title` describes it if the statement has no name."""

    title: str
    node: Node
    text: str


@dataclasses.dataclass(frozen=True)
class Insertion:
    """The rows inserted into a named window. A replay reports them under the window's name."""

    name: str
    node: Node
    text: str


@dataclasses.dataclass(frozen=True)
class CheckQuery:
    """A query that must be valid, although it is not created."""

    node: Node


@dataclasses.dataclass(frozen=True)
class CheckColumns:
    """Rows inserted under a name, whose columns must fit the attributes declared for it."""

    name: str
    node: Node
    schema: Schema


@dataclasses.dataclass(frozen=True)
class CheckKeys:
    """Queries for the keys of a context, one per stream. They must be valid and have the same types."""

    keys: tuple[tuple[str, Node], ...]


Effect = (
    CreateStream | CreateTable | CreateQuery | Query | ChangeQuery | Insertion | CheckQuery | CheckColumns | CheckKeys
)
"""One action that a statement requires of a bridge or a script."""


class StreamNames(Protocol):
    """The streams and queries of a bridge or a script."""

    def schema(self, name: str) -> Schema | None:
        """The columns of a stream or query; None if there is none of this name."""

    def known(self) -> list[str]:
        """All names, for hints."""

    def free(self, name: str) -> str:
        """The name; raises NameTaken if it is used."""


class Declarations:
    """Event types, named windows, tables, variables and contexts that statements of EPL have declared."""

    def __init__(self, names: StreamNames) -> None:
        self._names = names
        self.event_types = EventTypes(names.schema, names.known)
        self.windows = NamedWindows()
        self.variables: dict[str, Variable] = {}
        """The variables, by name in lower case."""
        self.contexts: dict[str, Context] = {}
        """The contexts, by name in lower case."""

    def remember(self) -> Callable[[], None]:
        """A function that undoes all later declarations."""
        undo = self.event_types.remember()
        windows, tables = dict(self.windows.known), dict(self.windows.tables)
        variables, contexts = self.variables, dict(self.contexts)

        def back() -> None:
            undo()
            self.windows.known, self.windows.tables = windows, tables
            self.variables, self.contexts = variables, contexts

        return back

    def expand(self, node: Node) -> Node:
        """The tree, in which named windows, tables and event types are replaced by their content."""
        return self.event_types.expand(self.windows.expand(node))

    def apply(self, statement: Statement) -> list[Effect]:
        """Stores the declarations of a statement; returns the actions that are still to be done, in order.

        Raises NameTaken and QueryError if it contradicts earlier declarations.
        """
        match statement:
            case CreateStream():
                return [CreateStream(self._names.free(statement.name), statement.schema)]
            case CreateSchema():
                return [CreateStream(self._names.free(statement.name), self.event_types.declare(statement))]
            case CreateVariant():
                self.event_types.create_variant(dataclasses.replace(statement, name=self._names.free(statement.name)))
                return []
            case CreateWindow():
                columns = self._columns_of_window(statement)
                self.windows.create(self._names.free(statement.name), statement.window, statement.like, columns)
                if columns is not None:
                    return []
                return [CheckQuery(dataclasses.replace(statement.window, input=Stream(statement.like)))]
            case CreateTable():
                self.windows.create_table(statement.table)
                return [statement]
            case CreateContext():
                return self._context(statement.context)
            case Constants() | CreateVariable() | OnSet():
                return self._variables(statement)
            case IntoTableStatement() | ChangeRows():
                return self._changed(statement)
            case CreateQuery():
                return self._inserted(statement)
            case Query():
                return self._selected(statement)

    def _columns_of_window(self, statement: CreateWindow) -> Schema | None:
        """The columns of a window, unless they are just those of a stream."""
        if statement.columns is not None:
            return self.event_types.columns(statement.columns)
        if not statement.chosen:
            return None
        like = self._names.schema(statement.like)
        if like is None:
            hint = nearest(statement.like, self._names.known())
            raise QueryError(f"unknown stream {statement.like!r}{hint}", words=[statement.like])
        known = {attribute.name.lower(): attribute.type for attribute in like}
        for _, column in statement.chosen:
            if column.lower() not in known:
                hint = nearest(column, [attribute.name for attribute in like])
                raise QueryError(f"unknown column {column!r}{hint}", words=[column])
        return Schema(tuple(Attribute(name, known[column.lower()]) for name, column in statement.chosen))

    def _context(self, context: Context) -> list[Effect]:
        if context.name.lower() in self.contexts:
            raise NameTaken(f"there is a context {context.name!r} already")
        self.contexts[context.name.lower()] = context
        if not context.categories:
            return [
                CheckKeys(tuple((one.stream, _keys(one.stream, one.keys, one.condition)) for one in context.streams))
            ]
        streams = [one for instance in context.instances for one in instance.streams]
        return [CheckQuery(Filter(Stream(one.stream), scalar(one.condition or exp.true()))) for one in streams]

    def _variables(self, statement: Constants | CreateVariable | OnSet) -> list[Effect]:
        """The actions for declaring or setting variables; variables that events set from now on get their tables."""
        if isinstance(statement, CreateVariable) and statement.variable.name.lower() in self.variables:
            raise NameTaken(f"there is a variable {statement.variable.name!r} already")
        before = self.variables
        self.variables = after(before, [statement], statement.names if isinstance(statement, Constants) else ())
        if not isinstance(statement, OnSet):
            return []
        states = statement.node.set
        tables = [CreateTable(state) for state in states if not before[state.name.lower()].is_set]
        title = f"set {', '.join(state.name for state in states)}"
        return [*tables, ChangeQuery(title, self.expand(statement.node), statement.text)]

    def _changed(self, statement: IntoTableStatement | ChangeRows) -> list[Effect]:
        """The query that changes a table; none for a window, which is changed by its readers."""
        if isinstance(statement, IntoTableStatement):
            title, node = f"into {statement.table}", self.windows.into_table(statement.table, statement.node)
            return [ChangeQuery(title, self.event_types.expand(node), statement.text)]
        changed = self.windows.change(statement.target, statement.trigger, statement.change)
        if changed is None:
            return []
        title = f"{statement.change.verb} {statement.target}"
        return [ChangeQuery(title, self.event_types.expand(changed), statement.text)]

    def _inserted(self, statement: CreateQuery) -> list[Effect]:
        """The actions for `insert into` a variant stream, a table, a named window, or a new stream."""
        name, node = statement.name, statement.node
        if name in self.event_types:
            self.event_types.insert(name, node)
            schema = None if name.lower() in self.event_types.variants else self._names.schema(name)
            return [] if schema is None else [CheckColumns(name, self.expand(node), schema)]
        if self.windows.is_table(name):
            into = self.windows.insert_into_table(name, node)
            return [ChangeQuery(f"insert {name}", self.event_types.expand(into), statement.text)]
        if name in self.windows:
            return self._inserted_into_window(name, node, statement.text)
        return [CreateQuery(name, self.expand(node), statement.text)]

    def _inserted_into_window(self, name: str, node: Node, text: str) -> list[Effect]:
        window = self.windows.known[name.lower()]
        if window.columns is None:
            self.windows.insert(name, node)
            return [Insertion(name, node, text)]
        rows = as_rows(node, window.columns, name)
        self.windows.insert(name, rows)
        checked = self.expand(dataclasses.replace(window.window, input=rows))
        return [CheckColumns(name, self.expand(node), window.columns), CheckQuery(checked), Insertion(name, rows, text)]

    def _selected(self, statement: Query) -> list[Effect]:
        """The query of a `select`, or of the rows that the statement has inserted, which the reader adds."""
        if statement.text in self.event_types:
            rows = self.event_types.inserted(statement.text)
        elif statement.node == Stream(statement.text) and self.windows.is_table(statement.text):
            return []
        else:
            rows = self.windows.inserted(statement) or self.windows.expand(statement.node)
        return [Query(self.event_types.expand(rows), statement.text)]


def _keys(stream: str, keys: Sequence[exp.Expr], condition: exp.Expr | None) -> Node:
    """The keys of a stream's events, as columns."""
    source = Stream(stream) if condition is None else Filter(Stream(stream), condition)
    return Map(source, projections({f"key{place}": key for place, key in enumerate(keys, 1)}))
