"""The state of a bridge as bytes: all that it knows of the events before is in its tables, so these are the state.

What steps keep in memory they make anew from the tables, as after a push that failed (`Call.forget`).
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from bridge.engine.runner import Runner
from bridge.errors import BridgeError
from bridge.rewrite.network import CLOCK

NUMBERS = b"cep:numbers"
"""Metadata of a state: time and number of the newest event."""


def saved(runner: Runner) -> bytes:
    """The state between two pushes, without what has expired."""
    runner.purge()
    tables = {name: rows for name in _tables(runner) if (rows := _rows(runner, name)).num_rows}
    numbers = json.dumps({"now": runner.now, "seq": runner.seq})
    columns: list[Any] = [pa.array(tables, pa.string()), pa.array(map(written, tables.values()), pa.binary())]
    return written(pa.table(columns, ["name", "rows"]).replace_schema_metadata({NUMBERS: numbers}))


def restore(runner: Runner, state: bytes) -> None:
    """Gives a new bridge, with the same queries, the state of the one before.

    Raises BridgeError where the queries are not the same.
    """
    whole = read(state)
    tables = {row["name"]: read(row["rows"]) for row in whole.to_pylist()}
    if unknown := tables.keys() - _tables(runner):
        raise BridgeError(f"the state is of other queries: there is no table {min(unknown)!r} here")
    with runner.pushing():
        for name in _tables(runner):
            runner.database.execute(f"DELETE FROM {runner.database.quoted(name)}")
        for name, rows in tables.items():
            runner.database.append(runner.database.quoted(name), rows)
    numbers = json.loads(whole.schema.metadata[NUMBERS])
    runner.now, runner.seq = numbers["now"], numbers["seq"]


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


def _tables(runner: Runner) -> list[str]:
    """The tables that one push leaves for the next: all but inboxes."""
    operators = runner.network.operators
    inboxes = {inbox for operator in operators for inbox in operator.inboxes}
    return [CLOCK, *(made.name for operator in operators for made in operator.tables if made.name not in inboxes)]


def _rows(runner: Runner, name: str) -> pa.Table:
    """A table's rows; Arrow has no integers as wide as those of sums, so these are texts."""
    quoted = runner.database.quoted
    kinds = runner.database.fetch(f"DESCRIBE {quoted(name)}")
    columns = (f"{quoted(c)}::VARCHAR AS {quoted(c)}" if kind == "HUGEINT" else quoted(c) for c, kind, *_ in kinds)
    rows = runner.database.arrow(f"SELECT {', '.join(columns)} FROM {quoted(name)}")
    assert rows is not None  # it is a DuckDB
    return rows
