"""Files as sources and sinks of a live bridge: CSV, NDJSON and Parquet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bridge.errors import SourceError
from windows.schema import Schema, TypeMismatch

if TYPE_CHECKING:
    import pyarrow as pa

    from bridge.history.results import FileSink


def file_source(
    path: str | os.PathLike[str],
    schema: Any = None,
    timestamp: str | None = None,
    *,
    timestamp_unit: str | None = None,
    sort: bool = False,
) -> pa.RecordBatchReader:
    """Opens a file of events for `push_events`, which reads it batch by batch.

    Args:
        path: The path, or a pattern of several files such as `logs/*.csv`. The format is given by the ending (.csv,
            .ndjson, .parquet), or else by the first bytes. CSV and NDJSON may be compressed by gzip, bzip2 or xz.
        schema: The attributes and their types, as for `register_stream`. By default those of the file.
        timestamp, timestamp_unit, sort: The column with the timestamps, their unit, and whether to order the events by them,
            as for `bridge.replay`.

    Returns:
        Arrow batches of `ts`, in milliseconds, and the attributes.

    Raises:
        SourceError: The file cannot be read or lacks a column; or, while batches are read, a row does not fit.

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

    from bridge.sources.options import ReadOptions
    from bridge.sources.source import open_source
    from bridge.sources.times import unit_of
    from windows.arrow import arrow_type

    name, declared = _path_of(path), _schema_of(path, schema)
    source = open_source(name, name, declared, ReadOptions(timestamp, unit_of(timestamp_unit), sort=sort))
    columns = [("ts", pa.int64()), *((attribute.name, arrow_type(attribute.type)) for attribute in source.schema)]
    kinds = pa.schema(columns)
    batches = (batch for table in source.tables() for batch in _named(table, kinds).to_batches())
    return pa.RecordBatchReader.from_batches(kinds, batches)


def _schema_of(path: str | os.PathLike[str], schema: Any) -> Schema | None:
    """The schema that is declared for a file; None without one. Raises SourceError."""
    try:
        return None if schema is None else Schema.of(schema)
    except TypeMismatch as error:
        raise SourceError(f"the schema of {_path_of(path)}: {error}") from None


def _named(table: pa.Table, kinds: pa.Schema) -> pa.Table:
    return table.rename_columns(kinds.names).cast(kinds)


def file_sink(path: str | os.PathLike[str]) -> FileSink:
    """Opens a file for the results of a query, as an output processor with `batch=True`.

    Args:
        path: The file, whose ending tells its format: .csv, .ndjson or .parquet. An existing file is replaced.

    Returns:
        A function that takes Arrow tables, and a context manager that closes the file. A CSV or NDJSON file has the
        results of each push as soon as the push is done; a Parquet file is complete after `close`. Without results
        there is no file.

    Raises:
        SourceError: The ending is another one, or the file cannot be written.

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

    return FileSink(_path_of(path))


def _path_of(path: object) -> str:
    """A path as a text. Raises `SourceError` for anything else."""
    try:
        found = os.fspath(path)  # type: ignore[call-overload]
    except TypeError:
        raise SourceError(f"a file is a path, not {path!r}") from None
    if not isinstance(found, str):
        raise SourceError(f"a path is a text, not {found!r}")
    return found
