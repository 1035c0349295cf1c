"""The operators that PaaS-CEP's algebra adds: MultiFilter, ReadSQL and UpdateSQL (Tables 1 and 3 of its paper).

A `Script` is an acyclic graph of operators, whose outputs have names.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from bridge.errors import QueryError
from bridge.query.expressions import scalar, scalars
from bridge.query.nodes import Filter, Node, Union, set_fields
from windows.schema import Schema
from windows.times import duration


@dataclasses.dataclass(frozen=True)
class MultiFilter(Node):
    """Several outputs, each with the rows for which its condition is true (rule C5).

    A row may be in several outputs, or none.

    `create_query` takes it as a script: each output becomes a query with the output's name.

    Raises:
        QueryError: there is no output, or a condition is not SQL.

    >>> from bridge.query.nodes import Stream
    >>> routes = MultiFilter(Stream("trades"), {"dear": "price > 100", "cheap": "price < 10"})
    >>> print(routes)
    INSERT INTO dear WHEN price > 100, cheap WHEN price < 10 SELECT * FROM trades
    """

    input: Node
    outputs: tuple[tuple[str, exp.Expr], ...]

    def __post_init__(self) -> None:
        pairs = self.outputs.items() if isinstance(self.outputs, Mapping) else self.outputs
        set_fields(self, outputs=tuple((name, scalar(condition)) for name, condition in pairs))
        if not self.outputs:
            raise QueryError("a multi-filter has at least one output")

    @property
    def filters(self) -> dict[str, Filter]:
        """The filter for each output, by name."""
        return {name: Filter(self.input, condition) for name, condition in self.outputs}


@dataclasses.dataclass(frozen=True)
class ReadSQL(Node):
    """Each row joined with the rows of a SELECT, in which `?` stands for the `parameters` (rule C6).

    A result has the input's columns and the SELECT's, or only those of the latter that are listed in `columns`: names,
    or a mapping of names to types if the store does not tell them. `table` qualifies the SELECT's columns:
    `table.column`. `store` is the name of a data store; without it, the SELECT runs in the bridge's own database, in
    the push's transaction. If `left`, a row for which the SELECT has no rows is emitted with NULLs. `cache`: results
    are reused for this duration of event time, in milliseconds or as a text such as `"5 S"`.

    Raises:
        QueryError: a parameter is not SQL.

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
        set_fields(self, parameters=scalars(self.parameters), columns=tuple(pairs), cache=cache)

    @property
    def place(self) -> range | None:
        """The offsets of the statement in the text of the query, if that is known."""
        return _place(self)

    @property
    def typed(self) -> list[tuple[str, str]]:
        """The SELECT's columns with their types; for a checked query, all columns."""
        return [(name, kind) for name, kind in self.columns if kind is not None]


@dataclasses.dataclass(frozen=True)
class UpdateSQL(Node):
    """Runs an INSERT, UPDATE or DELETE per row, in which `?` stands for the `parameters`; emits the row (rule C6).

    `changed` names a column for the number of changed rows. Without a `store`, the statement runs in the bridge's own
    database, in the push's transaction: exactly once. A `store` is written after the commit, in order and at least
    once; refused statements are kept (`Bridge.dead_letters`). The parameter `result_id` is a text that identifies the
    row, and is the same if the row is written again. `writer` is the name of the query, so that equal updates of two
    queries differ.

    Raises:
        QueryError: a parameter is not SQL.

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
        set_fields(self, parameters=scalars(self.parameters))

    @property
    def place(self) -> range | None:
        """The offsets of the statement in the text of the query, if that is known."""
        return _place(self)


def _place(node: ReadSQL | UpdateSQL) -> range | None:
    return None if node.position is None else range(node.position, node.position + len(node.statement))


@dataclasses.dataclass(frozen=True)
class EqualUnion(Union):
    """The union of Table 1, whose inputs have the same fields by name and type (rule C2)."""


@dataclasses.dataclass(frozen=True)
class IntoTable(Node):
    """Inserts every row into a table of the bridge's database, in the push's transaction: exactly once.

    The table is created if it does not exist, with `ts` and the row's columns. An existing table must have the columns
    of the row. The table remains when the bridge is closed. `keep`: the milliseconds, or a text such as `"7 D"`, after
    which a row is removed. `system`: further columns of the table, "result_id" (a text that identifies the row, and is
    the same if it comes again) and "result_number" (a number that grows from row to row). `reads`: the fingerprint of a
    query that the input names, if that query may be replaced by another one of its name.

    Raises:
        ValueError: `keep` is not a time.

    >>> from bridge.query.nodes import Stream
    >>> print(IntoTable(Stream("bills"), "billed"))
    INSERT INTO TABLE billed SELECT * FROM bills
    """

    input: Node
    table: str
    writer: str = ""
    keep: int | None = None
    system: tuple[str, ...] = ()
    reads: str = ""

    def __post_init__(self) -> None:
        set_fields(self, keep=None if self.keep is None else duration(self.keep))


def into_table(node: Node, query: str, table: str, keep: Any = None) -> IntoTable:
    """The results of a query in a table, each with its `result_id`."""
    return IntoTable(node, table, query, keep, ("result_id",))


@dataclasses.dataclass(frozen=True)
class Statement:
    """One statement of a script: the name of its output (a MultiFilter has its own names), and the tree of its rows.

    `schema`: the declared columns of the output.

    >>> from bridge.query.nodes import Stream
    >>> list(Statement("routes", MultiFilter(Stream("s"), {"low": "a < 5", "high": "a >= 5"})).queries)
    ['low', 'high']
    """

    name: str
    node: Node
    schema: Schema | None = None

    @property
    def queries(self) -> dict[str, Node]:
        """The trees of the outputs, by name. Operators that write have the statement's name as their `writer`."""
        node = _signed(self.node, self.name)
        return dict(node.filters) if isinstance(node, MultiFilter) else {self.name: node}


@dataclasses.dataclass(frozen=True)
class Script:
    """Queries that are created together. Each reads streams and outputs of earlier statements.

    >>> from bridge.query.nodes import Stream
    >>> script = Script((("s", Schema.of("a INTEGER")),), (Statement("high", Filter(Stream("s"), "a > 1")),))
    >>> list(script.queries)
    ['high']
    """

    streams: tuple[tuple[str, Schema], ...]
    statements: tuple[Statement, ...]

    @classmethod
    def of(cls, name: str, definition: Node | Script) -> Script:
        """The script of a tree: one statement named `name`. A script is returned unchanged."""
        return definition if isinstance(definition, Script) else cls((), (Statement(name, definition),))

    @property
    def queries(self) -> dict[str, Node]:
        """The trees of the outputs, by name, in order."""
        return {name: node for statement in self.statements for name, node in statement.queries.items()}

    @property
    def declared(self) -> dict[str, Schema]:
        """The declared columns of outputs, by name."""
        pairs = ((name, s.schema) for s in self.statements for name in s.queries)
        return {name: schema for name, schema in pairs if schema is not None}


def _signed(node: Node, name: str) -> Node:
    """The tree, in which operators that write have the statement's name as `writer`, numbered from the second on."""
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


__all__ = ["IntoTable", "MultiFilter", "ReadSQL", "Script", "Statement", "UpdateSQL"]
