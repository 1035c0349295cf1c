"""The steps of an UpdateSQL: a part of the push in the bridge's own database, else a write in the outbox."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from bridge.check.types import UNKNOWN
from bridge.errors import QueryError
from bridge.query.scripts import UpdateSQL
from bridge.stores.outbox import Outbox
from bridge.stores.statement import dumped
from windows.databases import Database
from windows.schema import Attribute
from windows.sql import identifier, table
from windows.times import NEVER
from windows.values import Convert, converted


@dataclasses.dataclass
class Update:
    """Runs the statement for each row of this push, in order. If `counted`, it notes how many rows it changed."""

    node: UpdateSQL
    table: str
    arrived: str
    text: str
    order: Sequence[int]
    ids: Sequence[int]
    width: int
    counted: str | None

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        noted = []
        for row in database.fetch(self.arrived):
            values = parameters(row, self.width, self.ids, self.node.writer)
            bound = [values[place] for place in self.order]
            if self.counted is None:
                database.execute_bound(self.text, bound)
            else:
                noted.append((*row[: 3 + self.width], database.modify_bound(self.text, bound), NEVER))
        if self.counted is not None and noted:
            database.insert(self.counted, len(noted[0]), noted)

    def forget(self) -> None:
        """Does nothing, as nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The rows that it runs for, and the SQL."""
        return f"-- for each of these rows: {' '.join(self.node.statement.split())}\n{pretty(self.arrived)};"


@dataclasses.dataclass
class Post:
    """Puts a write for each row of this push into the outbox, which delivers it to the store after the commit."""

    node: UpdateSQL
    table: str
    arrived: str
    outbox: Outbox
    ids: Sequence[int]
    decoders: Sequence[Convert | None]
    width: int

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        writes = []
        for row in database.fetch(self.arrived):
            values = parameters(row, self.width, self.ids, self.node.writer, self.decoders)
            writes.append((result_id(row, self.node.writer), row[0], dumped(values)))
        self.outbox.put(self.node.store or "", self.node.writer, self.node.statement, writes)

    def forget(self) -> None:
        """Does nothing, as nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The rows that it posts, and the SQL."""
        intro = f"-- after the commit, at {self.node.store}, for each of these rows: {' '.join(self.node.statement.split())}"
        return f"{intro}\n{pretty(self.arrived)};"


def result_id(row: Sequence[Any], writer: str) -> str:
    """An id of a result that no other result has, and that is the same when the same events come again.

    >>> result_id((1000, 7, 0), "bills")
    'bills/1000/7/0'
    """
    return "/".join([writer, *map(str, row[:3])])


def parameters(
    row: Sequence[Any], width: int, ids: Sequence[int], writer: str, decoders: Sequence[Convert | None] = ()
) -> list[Any]:
    """The values for a statement's `?` for a row, which follow its place and its columns."""
    values = list(row[3 + width :])
    values = converted(values, decoders) if decoders else values
    for place in ids:
        values[place] = result_id(row, writer)
    return values


# Tables filled by INSERT INTO TABLE


def ensure_table(name: str, kinds: Mapping[str, str], database: Database) -> list[str]:
    """Creates the table if it is missing.

    Returns those of its columns that are filled by rows of these columns and types.
    """
    schema = database.relation(name)
    if schema is not None:
        known = {column.lower() for column in kinds}
        return [attribute.name for attribute in schema if attribute.name.lower() in known]
    columns = []
    for column, kind in kinds.items():
        if kind == UNKNOWN:
            raise QueryError(f"the type of {column!r} is not known: CAST({column} AS …) says it", words=[column])
        typed = exp.DataType.build(database.result_type(Attribute("column", kind)), dialect=database.dialect, udt=True)
        columns.append(exp.ColumnDef(this=identifier(column), kind=typed))
    create = exp.Create(kind="TABLE", this=exp.Schema(this=table(name), expressions=columns))
    database.execute(database.render(create))
    return list(kinds)
