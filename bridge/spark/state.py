"""The state of a bridge as bytes: all that it knows of the events before is in its tables, so these are the state.

What steps keep in memory they make anew from the tables, as after a push that failed (`Call.forget`).
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from bridge.engine.session import Session
from bridge.errors import BridgeError

NUMBERS = b"cep:numbers"
"""Metadata of a state: time and number of the newest event."""


def saved(session: Session) -> bytes:
    """The state between two pushes, without what has expired."""
    session.purge()
    tables = {name: rows for name in session.state_tables() if (rows := _rows(session, name)).num_rows}
    numbers = json.dumps({"now": session.now, "seq": session.seq})
    columns: list[Any] = [pa.array(tables, pa.string()), pa.array(map(written, tables.values()), pa.binary())]
    return written(pa.table(columns, ["name", "rows"]).replace_schema_metadata({NUMBERS: numbers}))


def restore(session: Session, state: bytes) -> None:
    """Gives a new bridge, with the same queries, the state of the one before.

    Raises BridgeError where the queries are not the same.
    """
    whole = read(state)
    tables = {row["name"]: read(row["rows"]) for row in whole.to_pylist()}
    if unknown := tables.keys() - session.state_tables():
        raise BridgeError(f"the state is of other queries: there is no table {min(unknown)!r} here")
    numbers = json.loads(whole.schema.metadata[NUMBERS])
    with session.replacing_state(numbers["now"], numbers["seq"]):
        for name in session.state_tables():
            session.database.execute(f"DELETE FROM {session.database.quoted(name)}")
        for name, rows in tables.items():
            session.database.append(session.database.quoted(name), rows)


def written(table: pa.Table) -> bytes:
    """A table in Arrow's format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read(rows: bytes) -> pa.Table:
    """A table that was `written`."""
    table: pa.Table = pa.ipc.open_stream(rows).read_all()
    return table


def _rows(session: Session, name: str) -> pa.Table:
    """A table's rows; Arrow has no integers as wide as those of sums, so these are texts."""
    quoted = session.database.quoted
    kinds = session.database.fetch(f"DESCRIBE {quoted(name)}")
    columns = (f"{quoted(c)}::VARCHAR AS {quoted(c)}" if kind == "HUGEINT" else quoted(c) for c, kind, *_ in kinds)
    rows = session.database.fetch_arrow(f"SELECT {', '.join(columns)} FROM {quoted(name)}")
    assert rows is not None  # it is a DuckDB
    return rows
