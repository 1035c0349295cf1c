"""CREATE TABLE and INSERT INTO of standard streaming SQL: a stream with its time, and the name of a query."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from sqlglot import exp

from bridge.check.row_pattern import level_of_caller
from bridge.frontends.cursor import Cursor
from bridge.frontends.sql.streaming.select_list import names_of
from bridge.query.expressions import col
from bridge.query.nodes import Map, Node
from windows.schema import Attribute, Schema, TypeMismatch, canonical_type

_CONSTRAINTS = ("PRIMARY KEY", "UNIQUE", "CONSTRAINT", "FOREIGN KEY")


class DeclaredColumn(NamedTuple):
    """A column of a declared table, with its type as it was written."""

    name: str
    type: str
    position: int


class DeclaredTable(NamedTuple):
    """`CREATE TABLE name ( … )`: a stream, or what INSERT INTO fills."""

    name: str
    columns: tuple[DeclaredColumn, ...]

    def schema(self, cursor: Cursor) -> Schema:
        """The attributes of the stream."""
        attributes: list[Attribute] = []
        for column in self.columns:
            try:
                attributes.append(Attribute(column.name, canonical_type(column.type)))
                Schema(tuple(attributes))
            except TypeMismatch as error:
                cursor.fail(str(error), column.position)
        return Schema(tuple(attributes))


def declared_table(cursor: Cursor) -> DeclaredTable:
    """Steps over `name (a INTEGER, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) [WITH ( … )]`.

    The column of the watermark is the time of the events, and no attribute. It is called ts.
    """
    name, columns, time = cursor.name("a name for the table"), list[DeclaredColumn](), ""
    cursor.expect("(")
    while True:
        if cursor.take("WATERMARK", "FOR"):
            time = _watermark(cursor)
        else:
            columns.append(_column(cursor))
        if not cursor.take(","):
            break
    cursor.expect(")")
    if cursor.take("WITH", "("):
        cursor.until(())
        cursor.expect(")")
        warnings.warn(
            f"WITH ( … ) of the table {name!r} is not used: its events are pushed, or read FROM TABLE",
            stacklevel=level_of_caller(),
        )
    return DeclaredTable(name, tuple(column for column in columns if column.name.lower() != time))


def _watermark(cursor: Cursor) -> str:
    position = cursor.position
    name = cursor.name("the time column")
    if name.lower() != "ts":
        cursor.fail("the time of a stream is called ts: call the column of the watermark so", position)
    cursor.expect("AS")
    cursor.name("the time column")
    if cursor.word() == "-":
        cursor.fail("how long late events are waited for is said by connect(lateness=…): WATERMARK FOR ts AS ts")
    return name.lower()


def _column(cursor: Cursor) -> DeclaredColumn:
    position = cursor.position
    if cursor.word() in _CONSTRAINTS:
        cursor.fail(f"a stream has attributes and nothing else: leave out {cursor.next_text()}")
    name = cursor.name("a name with its type")
    typed = cursor.position
    region = cursor.until((",",))
    if region.start == region.end:
        cursor.fail(f"the type of {name!r} is expected, not {cursor.next_text()}", typed)
    return DeclaredColumn(name, cursor.slice(region), position)


def named_as(cursor: Cursor, node: Node, table: DeclaredTable, position: int) -> Node:
    """A query whose columns have the names of the table that it fills, by their places."""
    names, wanted = names_of(cursor, node), [column.name for column in table.columns]
    if names is None or len(names) != len(wanted):
        cursor.fail(f"INSERT INTO {table.name} wants the columns {', '.join(wanted)}, by name", position)
    if names == wanted:
        return node
    return Map(node, tuple(exp.alias_(col(its), col(own).this) for its, own in zip(names, wanted, strict=True)))
