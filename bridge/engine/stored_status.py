"""The state of a durable bridge in a database, read without the lock, even while a bridge is at work there."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from typing import Any

from bridge.engine.create import text_of
from bridge.engine.durable import CatalogueTables, LoggedCall
from bridge.engine.namespace import has_schema, use_namespace
from bridge.engine.resume import OBJECTS
from bridge.errors import DatabaseError, quantity
from bridge.query.codec import loaded
from bridge.query.nodes import Node
from bridge.query.scripts import Script
from bridge.rewrite.state_tables import CLOCK
from bridge.stores.outbox import Outbox
from bridge.stores.store import Stores
from windows.databases import Database, Refused, open_database


@dataclasses.dataclass(frozen=True)
class StoredStatus:
    """The state of a bridge as its last transaction has left it.

    now, seq: The time and the number of the newest event. definitions: The calls that created its streams and queries,
    in order. state_rows: The number of rows in each of its tables. dead_letters: The number of rows and results that a
    data store or webhook has refused for good.
    """

    database: str
    now: int | None
    seq: int
    definitions: tuple[LoggedCall, ...]
    state_rows: dict[str, int]
    dead_letters: int = 0

    def __str__(self) -> str:
        newest = "" if self.now is None else f", the newest at {self.now} ms{_utc(self.now)}"
        lines = [
            f"{self.database}: {quantity(self.seq)} so far{newest}",
            *(f"  {_line(each)}" for each in self.definitions),
        ]
        lines.append(f"  {quantity(sum(self.state_rows.values()), 'row')} of state, in these tables:")
        lines += [f"    {name}: {quantity(count, 'row')}" for name, count in sorted(self.state_rows.items())]
        if self.dead_letters:
            lines.append(f"  {quantity(self.dead_letters, 'dead letter')} in the table dead_letters")
        return "\n".join(lines)


def _line(call: LoggedCall) -> str:
    """A definition as text: as it was written, or as it could be."""
    match call.kind:
        case "query":
            definition = loaded(call.text) if call.language == OBJECTS else call.text
            text = text_of(definition) if isinstance(definition, (Node, Script, str)) else str(definition)
            into = f" INTO TABLE {call.option('into')}" if call.option("into") else ""
            return f"query {call.name} ({call.language}){into}: {_short(text)}"
        case "stored results":
            return f"results of {call.name} are stored until their processors have had them"
        case _:
            return f"{call.kind} {call.name}" + (f": {_short(call.text)}" if call.text else "")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 100 else f"{words[:99]}…"


def _utc(milliseconds: int) -> str:
    """A time as text, if Python can express it."""
    with contextlib.suppress(OverflowError):
        start = datetime.datetime(1970, 1, 1)
        return f" ({start + datetime.timedelta(milliseconds=milliseconds):%Y-%m-%d %H:%M:%S} UTC)"
    return ""


def stored_status(target: Any, name: str | None = None, schema: str | None = None) -> StoredStatus:
    """The state of the bridge of this name in a database.

    Raises `DatabaseError` if it cannot be opened, or no bridge has left a state there.
    """
    try:
        database = open_database(target)
        try:
            if not has_schema(database, schema):
                raise DatabaseError(f"there is no schema {schema!r} in {repr(database)[1:-1]}")
            use_namespace(database, name, schema)
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
    for journal in stored.journals():
        if journal.lower() in there:
            ((last, newest),) = database.fetch(f"SELECT MAX(ts), MAX(seq) FROM {database.quoted(journal)}")
            now, seq = max(now, last or now), max(seq, newest or seq)
    tables = sorted({row.belongs for row in stored.names() if row.belongs.lower() in there})
    counts = {name: int(database.fetch(f"SELECT COUNT(*) FROM {database.quoted(name)}")[0][0]) for name in tables}
    definitions = tuple(each for each in stored.definitions() if each.kind != "bridge")
    dead = len(Outbox(database, Stores()).dead_letters())
    return StoredStatus(repr(database)[1:-1], int(now) if seq else None, int(seq), definitions, counts, dead)
