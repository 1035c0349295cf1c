"""What the state of a durable bridge in a database says, read without the lock: while a bridge is at work there, too."""

from __future__ import annotations

import dataclasses
from typing import Any

from bridge.engine.durable import CatalogueTables, LoggedCall
from bridge.engine.own_place import has_schema, own_place
from bridge.errors import DatabaseError
from bridge.rewrite.state_tables import CLOCK
from bridge.stores.outbox import Outbox
from bridge.stores.store import Stores
from windows.databases import Database, Refused, open_database


@dataclasses.dataclass(frozen=True)
class StoredStatus:
    """The state of a bridge as its last transaction has left it.

    now, seq: The time and the number of the newest event. definitions: The calls that made its streams and queries, in order.
    state_rows: The rows of each of its tables. dead_letters: Rows and results that a data store or webhook has refused for good.
    """

    database: str
    now: int | None
    seq: int
    definitions: tuple[LoggedCall, ...]
    state_rows: dict[str, int]
    dead_letters: int = 0

    def __str__(self) -> str:
        lines = [f"{self.database}: {self.seq} events, now {self.now}, {sum(self.state_rows.values())} rows of state"]
        for each in self.definitions:
            language = f" ({each.language})" if each.kind == "query" else ""
            lines.append(f"  {each.kind} {each.name}{language}: {' '.join(each.text.split())[:100]}")
        lines += [f"  table {name}: {count} rows" for name, count in sorted(self.state_rows.items())]
        if self.dead_letters:
            lines.append(f"  {self.dead_letters} dead letter{'s' * (self.dead_letters > 1)} in the table dead_letters")
        return "\n".join(lines)


def stored_status(target: Any, name: str | None = None, schema: str | None = None) -> StoredStatus:
    """The state of the bridge of this name in a database.

    Raises `DatabaseError` where it cannot be opened, or where no bridge has left one.
    """
    try:
        database = open_database(target)
        try:
            if not has_schema(database, schema):
                raise DatabaseError(f"there is no schema {schema!r} in {repr(database)[1:-1]}")
            own_place(database, name, schema)
            return _status(database)
        finally:
            database.close()
    except Refused as error:
        raise DatabaseError(str(error)) from None


def _status(database: Database) -> StoredStatus:
    stored = CatalogueTables(database)
    if not stored.exist() or not database.has_own(database.own_name(CLOCK)):
        raise DatabaseError(f"there is no state of a bridge in {repr(database)[1:-1]}")
    columns = ", ".join(map(database.quoted, ("now", "seq")))
    ((now, seq),) = database.fetch(f"SELECT {columns} FROM {database.quoted(database.own_name(CLOCK))}")
    there = {name.lower() for name in database.table_names()}
    tables = sorted({row.belongs for row in stored.names() if row.belongs.lower() in there})
    counts = {name: int(database.fetch(f"SELECT COUNT(*) FROM {database.quoted(name)}")[0][0]) for name in tables}
    definitions = tuple(each for each in stored.definitions() if each.kind != "bridge")
    dead = len(Outbox(database, Stores()).dead_letters())
    return StoredStatus(repr(database)[1:-1], int(now) if seq else None, int(seq), definitions, counts, dead)
