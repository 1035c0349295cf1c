"""What PaaS-CEP's algebra adds to the query objects: several outputs, and data stores read and written from within.

Map, Filter, Union, Aggregate and Join are `bridge.query`'s; MultiFilter, ReadSQL and UpdateSQL are here (PaaS-CEP, Tables
1 and 3). A `Script` is an acyclic graph of them, whose outputs have names.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from bridge.errors import QueryError
from bridge.query.expressions import scalar, scalars
from bridge.query.nodes import Filter, Node
from windows.schema import Schema
from windows.times import duration


@dataclasses.dataclass(frozen=True)
class MultiFilter(Node):
    """C5: each output gets the rows for which its condition is true; a row may go to several, or to none.

    `create_query` takes it as a script: each output is a query of its own name.

    >>> from bridge.query.nodes import Stream
    >>> routes = MultiFilter(Stream("trades"), {"dear": "price > 100", "cheap": "price < 10"})
    >>> print(routes)
    INSERT INTO dear WHEN price > 100, cheap WHEN price < 10 SELECT * FROM trades
    """

    input: Node
    outputs: tuple[tuple[str, exp.Expr], ...]

    def __post_init__(self) -> None:
        pairs = self.outputs.items() if isinstance(self.outputs, Mapping) else self.outputs
        _set(self, outputs=tuple((name, scalar(condition)) for name, condition in pairs))
        if not self.outputs:
            raise QueryError("a multi-filter has at least one output")

    @property
    def filters(self) -> dict[str, Filter]:
        """The filter that each output is."""
        return {name: Filter(self.input, condition) for name, condition in self.outputs}


@dataclasses.dataclass(frozen=True)
class ReadSQL(Node):
    """C6: for each row the rows that a SELECT gives, its `?` being `parameters`; one result for each of them.

    A result has the input's columns and the SELECT's, or those of them in `columns`: names, or a mapping that has the
    types of those that are not found. `table` names the SELECT's rows, to tell its columns from others: `table.column`.
    `store` is a data store's name; without it the statement is asked of the bridge's own database, in the push's
    transaction. With `left`, a row without any is kept, with NULLs. `cache`: answers are kept for so many milliseconds of
    event time.

    >>> from bridge.query.nodes import Stream
    >>> read = ReadSQL(Stream("calls"), "SELECT plan FROM clients WHERE id = ?", ["caller"], "client")
    >>> print(read)
    SELECT * FROM calls ON SQL (SELECT plan FROM clients WHERE id = ?), client, caller
    """

    input: Node
    statement: str
    parameters: tuple[exp.Expr, ...] = ()
    table: str = "result"
    columns: tuple[tuple[str, str | None], ...] = ()
    store: str | None = None
    left: bool = False
    cache: int | None = None
    position: int | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        pairs = self.columns.items() if isinstance(self.columns, Mapping) else map(_column, self.columns)
        cache = None if self.cache is None else duration(self.cache)
        _set(self, parameters=scalars(self.parameters), columns=tuple(pairs), cache=cache)

    @property
    def typed(self) -> list[tuple[str, str]]:
        """The SELECT's columns with their types, all of which are known when the query has been checked."""
        return [(name, kind) for name, kind in self.columns if kind is not None]


@dataclasses.dataclass(frozen=True)
class UpdateSQL(Node):
    """C6: for each row an INSERT, UPDATE or DELETE is run, its `?` being `parameters`; the row is handed on.

    `changed` names a column with the number of rows that it changed. Without a `store` it is the bridge's own database,
    in the push's transaction: exactly once. A `store` is written after the commit, at least once, and in order; what it
    refuses is kept (`Bridge.dead_letters`). The parameter `result_id` is a text that tells the row from every other and
    is the same when it is written again. `writer` tells equal updates of different queries apart: it is the query's name.

    >>> from bridge.query.nodes import Stream
    >>> print(UpdateSQL(Stream("bills"), "UPDATE clients SET due = ? WHERE id = ?", ["bill", "caller"]))
    SELECT * FROM bills ON SQL (UPDATE clients SET due = ? WHERE id = ?), updated, bill, caller
    """

    input: Node
    statement: str
    parameters: tuple[exp.Expr, ...] = ()
    changed: str | None = None
    store: str | None = None
    writer: str = ""
    position: int | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        _set(self, parameters=scalars(self.parameters))


@dataclasses.dataclass(frozen=True)
class IntoTable(Node):
    """A table of the bridge's database that gets every row, in the push's transaction: exactly once.

    The table is made where there is none, with `ts` and the row's columns; one that is there has at least the columns
    of the row. It stays when the bridge is closed.

    >>> from bridge.query.nodes import Stream
    >>> print(IntoTable(Stream("bills"), "billed"))
    INSERT INTO TABLE billed SELECT * FROM bills
    """

    input: Node
    table: str
    writer: str = ""


@dataclasses.dataclass(frozen=True)
class Statement:
    """One statement of a script: the name of its output (or those of a MultiFilter), and the tree that gives it.

    `schema`: the columns that the output was declared to have.

    >>> from bridge.query.nodes import Stream
    >>> list(Statement("routes", MultiFilter(Stream("s"), {"low": "a < 5", "high": "a >= 5"})).queries)
    ['low', 'high']
    """

    name: str
    node: Node
    schema: Schema | None = None

    @property
    def queries(self) -> dict[str, Node]:
        """The outputs' names and trees; what writes is told apart by the statement it is of."""
        node = _signed(self.node, self.name)
        return dict(node.filters) if isinstance(node, MultiFilter) else {self.name: node}


@dataclasses.dataclass(frozen=True)
class Script:
    """Queries that are created together, in the order of the data; each reads streams and outputs of those before it.

    >>> from bridge.query.nodes import Stream
    >>> script = Script((("s", Schema.of("a INTEGER")),), (Statement("high", Filter(Stream("s"), "a > 1")),))
    >>> list(script.queries)
    ['high']
    """

    streams: tuple[tuple[str, Schema], ...]
    statements: tuple[Statement, ...]

    @classmethod
    def of(cls, name: str, definition: Node | Script) -> Script:
        """A lone tree is a script of one statement."""
        return definition if isinstance(definition, Script) else cls((), (Statement(name, definition),))

    @property
    def queries(self) -> dict[str, Node]:
        """Each output's tree, by name, in order."""
        return {name: node for statement in self.statements for name, node in statement.queries.items()}

    @property
    def declared(self) -> dict[str, Schema]:
        """The columns that outputs were declared to have."""
        pairs = ((name, s.schema) for s in self.statements for name in s.queries)
        return {name: schema for name, schema in pairs if schema is not None}


def _signed(node: Node, name: str) -> Node:
    """The tree, what writes in it bearing the statement's name, and its place where there are several."""
    numbers = itertools.count(1)

    def sign(below: Node) -> Node:
        changed = below.with_inputs(sign)
        if not isinstance(changed, (UpdateSQL, IntoTable)) or changed.writer:
            return changed
        number = next(numbers)
        return dataclasses.replace(changed, writer=name if number == 1 else f"{name}.{number}")

    return sign(node)


def _column(item: Any) -> tuple[str, str | None]:
    return (item, None) if isinstance(item, str) else item


def _set(node: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(node, name, value)


__all__ = ["IntoTable", "MultiFilter", "ReadSQL", "Script", "Statement", "UpdateSQL"]
