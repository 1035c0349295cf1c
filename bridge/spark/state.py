"""The state of a bridge as bytes. All its knowledge of earlier events is in its tables.

Steps restore their memory from the tables, as after a failed push.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from bridge.engine.session import BridgeSession
from bridge.errors import BridgeError

NUMBERS = b"cep:numbers"
"""The key of a state's metadata: the timestamp and the number of the newest event."""


def dump(session: BridgeSession) -> bytes:
    """The state of a bridge between two pushes, without expired rows."""
    session.purge()
    tables = {name: rows for name in session.state_tables() if (rows := _rows(session, name)).num_rows}
    numbers = json.dumps({"now": session.now, "seq": session.seq})
    columns: list[Any] = [pa.array(tables, pa.string()), pa.array(map(to_bytes, tables.values()), pa.binary())]
    return to_bytes(pa.table(columns, ["name", "rows"]).replace_schema_metadata({NUMBERS: numbers}))


def restore(session: BridgeSession, state: bytes) -> None:
    """Restores a state in a new bridge with the same queries. Raises BridgeError for other queries."""
    whole = from_bytes(state)
    tables = {row["name"]: from_bytes(row["rows"]) for row in whole.to_pylist()}
    if unknown := tables.keys() - session.state_tables():
        raise BridgeError(f"the state belongs to other queries: this bridge has no table {min(unknown)!r}")
    numbers = json.loads(whole.schema.metadata[NUMBERS])
    with session.replacing_state(numbers["now"], numbers["seq"]):
        for name in session.state_tables():
            session.database.execute(f"DELETE FROM {session.database.quoted(name)}")
        for name, rows in tables.items():
            session.database.append(session.database.quoted(name), rows)


def to_bytes(table: pa.Table) -> bytes:
    """A table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(rows: bytes) -> pa.Table:
    """The table that `to_bytes` wrote."""
    table: pa.Table = pa.ipc.open_stream(rows).read_all()
    return table


def _rows(session: BridgeSession, name: str) -> pa.Table:
    """The rows of a table. Sums are texts, because Arrow has no integers of 128 bits."""
    quoted = session.database.quoted
    kinds = session.database.fetch(f"DESCRIBE {quoted(name)}")
    columns = (f"{quoted(c)}::VARCHAR AS {quoted(c)}" if kind == "HUGEINT" else quoted(c) for c, kind, *_ in kinds)
    rows = session.database.fetch_arrow(f"SELECT {', '.join(columns)} FROM {quoted(name)}")
    assert rows is not None  # it is a DuckDB
    return rows
