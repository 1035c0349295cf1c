"""Files as sources and sinks of a live bridge: CSV, NDJSON and Parquet, by their endings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bridge.errors import SourceError
from windows.schema import Schema, TypeMismatch

if TYPE_CHECKING:
    import pyarrow as pa

    from bridge.history.results import FileSink


def file_source(path: str | os.PathLike[str], schema: Any = None, timestamp: str | None = None) -> pa.RecordBatchReader:
    """The events of a file, or of a pattern of files such as `logs/*.csv`, for `push_events`; read as they are pushed.

    `schema` has the attributes and their types as `register_stream` takes them; without it they are those of the file.
    `timestamp` names the column of the timestamps where it is not guessed. CSV and NDJSON may be gz-compressed. Raises
    SourceError for a file that is not there, or not what it should be.

    >>> import bridge, pathlib
    >>> size = pathlib.Path("calls.csv").write_text("ts,caller,seconds\\n1000,ann,5\\n2000,bob,7\\n")
    >>> cep = bridge.connect()
    >>> cep.register_stream("calls", "caller VARCHAR, seconds INTEGER")
    >>> cep.push_events("calls", bridge.file_source("calls.csv", cep.streams["calls"]))
    2
    >>> cep.close()
    >>> pathlib.Path("calls.csv").unlink()
    """
    import pyarrow as pa

    from bridge.sources.source import open_source
    from windows.arrow import arrow_type

    try:
        declared = None if schema is None else Schema.of(schema)
    except TypeMismatch as error:
        raise SourceError(f"the schema of {os.fspath(path)}: {error}") from None
    source = open_source(os.fspath(path), os.fspath(path), declared, timestamp)
    columns = [("ts", pa.int64()), *((attribute.name, arrow_type(attribute.type)) for attribute in source.schema)]
    kinds = pa.schema(columns)
    batches = (batch for table in source.tables() for batch in _named(table, kinds).to_batches())
    return pa.RecordBatchReader.from_batches(kinds, batches)


def _named(table: pa.Table, kinds: pa.Schema) -> pa.Table:
    return table.rename_columns(kinds.names).cast(kinds)


def file_sink(path: str | os.PathLike[str]) -> FileSink:
    """A file for a query's results, as an output processor with `batch=True`: `.csv`, `.ndjson` or `.parquet`.

    What is there before is replaced. CSV and NDJSON have each push's results when it is done, Parquet is whole when the
    sink is closed (it is a context manager, too). Where nothing came, there is no file. Raises SourceError for another
    ending, or where the file cannot be written.

    >>> import bridge, pathlib
    >>> cep = bridge.connect()
    >>> cep.create_query("high", "SELECT a FROM s[a: INTEGER] WHERE a > 1")
    >>> with bridge.file_sink("high.csv") as sink:
    ...     handle = cep.add_output_processor("high", sink, batch=True)
    ...     cep.push_event("s", [2], 1000)
    >>> pathlib.Path("high.csv").read_text().split()
    ['"ts","a"', '1000,2']
    >>> cep.close()
    >>> pathlib.Path("high.csv").unlink()
    """
    from bridge.history.results import FileSink

    return FileSink(os.fspath(path))
