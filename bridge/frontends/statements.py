"""The statements of a script, as plain objects."""

from __future__ import annotations

import dataclasses

from bridge.query.nodes import Node
from bridge.query.table_source import TableSource
from bridge.query.time_rules import NO_RULES, TimeRules
from windows.schema import Schema


@dataclasses.dataclass(frozen=True)
class CreateStream:
    """`CREATE STREAM name (attribute TYPE, …) IDLE AFTER 30 S MAX AHEAD 1 MIN`."""

    name: str
    schema: Schema
    rules: TimeRules = NO_RULES


@dataclasses.dataclass(frozen=True)
class CreateTableStream:
    """`CREATE STREAM name FROM TABLE …` or `FROM CHANGES OF …`.

    Without a schema, the attributes are the table's columns.
    """

    name: str
    schema: Schema | None
    source: TableSource
    rules: TimeRules = NO_RULES


@dataclasses.dataclass(frozen=True)
class CreateQuery:
    """`CREATE QUERY name AS SELECT …`. `text` is the SELECT alone, but offsets in `node` refer to the whole script."""

    name: str
    node: Node
    text: str


@dataclasses.dataclass(frozen=True)
class Query:
    """One SELECT without a name. `text` is the SELECT alone, but offsets in `node` refer to the whole script."""

    node: Node
    text: str


Statement = CreateStream | CreateTableStream | CreateQuery | Query
