"""The results of queries: as Arrow tables, as files, or as lines of NDJSON.

In CSV files, objects and lists are JSON texts.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.csv as arrow_csv

from bridge.engine.bridge import Bridge
from bridge.engine.catalogue import Processor
from bridge.engine.result_set import arrow_table
from bridge.engine.session import session_of
from bridge.errors import BridgeError, SourceError
from bridge.history.lines import json_values, ndjson, refuse_keys
from windows.arrow import values_of

FORMATS = ("ndjson", "csv", "parquet")

TIME = "ts"
"""The first column of results, in milliseconds."""


def file_name(name: str, format: str) -> str:
    """The name of the file for a query's results. Characters that are not safe in file names become `_`.

    >>> file_name("dip/1", "parquet")
    'dip_1.parquet'
    """
    return "".join(c if c.isalnum() or c in "._- " else "_" for c in name) + f".{format}"


def refuse_equal_files(names: Iterable[str]) -> None:
    """Raises BridgeError if the results of two queries would be in the same file.

    >>> refuse_equal_files(["dip/1", "dip:1"])
    Traceback (most recent call last):
    bridge.errors.BridgeError: the results of 'dip/1' and 'dip:1' would both be in dip_1.parquet: rename one of the queries
    """
    known: dict[str, str] = {}
    for name in names:
        file = file_name(name, "parquet")
        if (other := known.setdefault(file.lower(), name)) != name:
            raise BridgeError(
                f"the results of {other!r} and {name!r} would both be in {file}: rename one of the queries"
            )


class ResultTables:
    """The results of each query as Arrow tables. `counts`: the number of results per query."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._parts: dict[str, list[pa.Table]] = {}
        self._handles: list[Processor] = []
        self._problem: BridgeError | None = None

    def attach(self, cep: Bridge, queries: Iterable[str]) -> None:
        """Adds itself as an output processor to these queries."""
        for name in queries:
            self._handles.append(cep.add_output_processor(name, functools.partial(self.take, name), batch=True))

    def begin(self, cep: Bridge, queries: Iterable[str]) -> None:
        """Starts a table without rows for each of these queries."""
        for name in queries:
            self.counts[name] = 0
            self.start(name, arrow_table(session_of(cep).catalogue.query_entry(name).fields, []))

    def detach(self, cep: Bridge) -> None:
        """Removes itself from the queries."""
        for handle in self._handles:
            cep.remove_output_processor(handle)
        self._handles.clear()

    def start(self, name: str, empty: pa.Table) -> None:
        """Called once per query, with an empty table of its columns."""
        self._parts[name] = [empty]

    def add(self, name: str, table: pa.Table) -> None:
        """Called with the results of each push, once per query."""
        self._parts[name].append(table)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The results by query."""
        return {name: _concatenate(parts) for name, parts in self._parts.items()}

    def close(self, keep: bool = True) -> None:
        """Ends the results. Unless `keep`, they are removed."""

    @property
    def total(self) -> int:
        """The number of results of all queries."""
        return sum(self.counts.values())

    def take(self, name: str, table: pa.Table) -> None:
        """Takes the next results of a query."""
        self.counts[name] += table.num_rows
        try:
            self.add(name, table)
        except BridgeError as error:
            self._problem = error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(keep=kind is None)
        if kind is not None and self._problem is not None:
            raise self._problem from None  # instead of the error that wraps the processor's


class ResultLines(ResultTables):
    """Writes results as lines of NDJSON with the keys `query`, `ts` and the columns, as soon as they are reported.

    Raises BridgeError for a column named `query`, as a key can be in a line only once.
    """

    def __init__(self, write: Callable[[str], Any]) -> None:
        super().__init__()
        self._write = write

    def start(self, name: str, empty: pa.Table) -> None:
        refuse_keys(name, empty.column_names, ("query",))

    def add(self, name: str, table: pa.Table) -> None:
        self._write(ndjson(table, {"query": name}))


class ResultFiles(ResultTables):
    """Writes one file per query into a directory, in `format`. A file gets its name when it is complete.

    `others`: the names of other files there, which must not be used for a query.

    >>> ResultFiles(Path("results"), "parquet").path("dip").name
    'dip.parquet'
    """

    def __init__(self, directory: Path, format: str, others: Collection[str] = ()) -> None:
        super().__init__()
        self._directory, self._format, self._others = directory, format, others
        self._writers: dict[str, _FileWriter] = {}
        self._closed = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:  # raised for a path with a NUL
            reason = getattr(error, "strerror", None) or error
            raise SourceError(f"results cannot be written to {directory}: {reason}") from None

    def begin(self, cep: Bridge, queries: Iterable[str]) -> None:
        """Starts a file for each of these queries.

        Raises BridgeError for a query whose file would replace another one.
        """
        names = list(queries)
        refuse_equal_files(names)
        for name in names:
            if (file := self.path(name).name.lower()) in self._others:
                raise BridgeError(
                    f"the results of {name!r} would be in {file}, which has what is rejected: rename the query"
                )
        super().begin(cep, names)

    def path(self, name: str) -> Path:
        """The file of a query."""
        return self._directory / file_name(name, self._format)

    def start(self, name: str, empty: pa.Table) -> None:
        path = self.path(name)
        self._writers[name] = _WRITERS[self._format](_unfinished(path), empty.schema, path.name)

    def add(self, name: str, table: pa.Table) -> None:
        try:
            self._writers[name].write(table)
        except OSError as error:
            raise _not_written(self.path(name), error) from None

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return ParquetTables({name: self.path(name) for name in self._writers})

    def close(self, keep: bool = True) -> None:
        if self._closed:
            return
        self._closed = True
        problem: SourceError | None = None
        for name, writer in self._writers.items():
            try:
                writer.close()
            except OSError as error:
                problem = problem or _not_written(self.path(name), error)
        for path in map(self.path, self._writers):
            if keep and problem is None:
                os.replace(_unfinished(path), path)
            else:
                _unfinished(path).unlink(missing_ok=True)
        if keep and problem is not None:
            raise problem


class ParquetTables(Mapping[str, pa.Table]):
    """The tables in Parquet files, by query. A file is read each time its query is looked up.

    >>> ParquetTables({"dip": Path("dip.parquet")})
    Files(dip=dip.parquet)
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, name: str) -> pa.Table:
        import pyarrow.parquet as pq

        return pq.read_table(self._paths[name], memory_map=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __repr__(self) -> str:
        return f"Files({', '.join(f'{name}={path}' for name, path in self._paths.items())})"


class _FileWriter:
    """A file of results, in the types of the first results. `title`: its name after it is complete."""

    def __init__(self, path: Path, schema: pa.Schema, title: str) -> None:
        self.path, self.schema, self._title = path, schema, title
        self._open = False

    def write(self, table: pa.Table) -> None:
        if not self._open:
            kinds = zip(self.schema.names, self.schema.types, table.schema.types, strict=True)
            self.schema = pa.schema(
                [(name, kind if pa.types.is_null(declared) else declared) for name, declared, kind in kinds]
            )
            self.open()
            self._open = True
        self.append(self._cast(table))

    def _cast(self, table: pa.Table) -> pa.Table:
        """The results in the types of the file."""
        columns = []
        for field, column in zip(self.schema, table.columns, strict=True):
            try:
                columns.append(column.cast(field.type))
            except pa.ArrowException as error:
                raise BridgeError(
                    f"{self._title}: a value of the column {field.name!r} does not fit its type in the file, {field.type}: "
                    f"{error}; the query may CAST it, whole numbers beyond 64 bits to DECIMAL(38, 0)"
                ) from None
        return pa.Table.from_arrays(columns, schema=self.schema)

    def close(self) -> None:
        if not self._open:
            self.open()
        self.end()

    def open(self) -> None: ...

    def append(self, table: pa.Table) -> None: ...

    def end(self) -> None: ...


class _Parquet(_FileWriter):
    def open(self) -> None:
        import pyarrow.parquet as pq

        others = [name for name in self.schema.names if name != TIME]
        steps = {TIME: "DELTA_BINARY_PACKED"}  # takes a third of the time of a dictionary, and hardly more space
        self._under = self.path.open("wb")  # a path with a colon would be read as a URI
        self._file = pq.ParquetWriter(
            self._under,
            self.schema,
            use_dictionary=others,  # type: ignore[arg-type]  # names are accepted, too
            column_encoding=steps,
        )

    def append(self, table: pa.Table) -> None:
        self._file.write_table(table)

    def end(self) -> None:
        self._file.close()
        self._under.close()


class _Csv(_FileWriter):
    def open(self) -> None:
        kinds = [pa.string() if pa.types.is_null(kind) else kind for kind in self.schema.types]
        self.schema = pa.schema(list(zip(self.schema.names, kinds, strict=True)))
        self._nested = [place for place, kind in enumerate(kinds) if pa.types.is_nested(kind)]
        self._under = self.path.open("wb")
        self._file = arrow_csv.CSVWriter(self._under, self._with_texts(self.schema.empty_table()).schema)

    def _with_texts(self, table: pa.Table) -> pa.Table:
        """The table with JSON texts for objects and lists, which CSV does not have."""
        for place in self._nested:
            column = table.column(place)
            texts = [
                None if value is None else text
                for value, text in zip(values_of(column), json_values(column), strict=True)
            ]
            table = table.set_column(place, table.column_names[place], pa.array(texts, pa.string()))
        return table

    def append(self, table: pa.Table) -> None:
        self._file.write_table(self._with_texts(table))
        self._under.flush()

    def end(self) -> None:
        self._file.close()
        self._under.close()


class _Ndjson(_FileWriter):
    def open(self) -> None:
        self._file: IO[str] = self.path.open("w", encoding="utf-8")

    def append(self, table: pa.Table) -> None:
        self._file.write(ndjson(table, {}))
        self._file.flush()

    def end(self) -> None:
        self._file.close()


_WRITERS: dict[str, type[_FileWriter]] = {"parquet": _Parquet, "csv": _Csv, "ndjson": _Ndjson}


class FileSink:
    """A file of results, which is called with Arrow tables; `bridge.file_sink` creates it."""

    def __init__(self, path: str) -> None:
        self._path, self._format = Path(path), Path(path).suffix.removeprefix(".").lower()
        if self._format not in FORMATS:
            raise SourceError(f"the name of a file of results ends in .csv, .ndjson or .parquet, unlike {path!r}")
        self._writer: _FileWriter | None = None
        self._has_written = self._closed = False

    def __call__(self, table: pa.Table) -> None:
        """Writes the results of a push. Raises BridgeError after `close`, SourceError if the file cannot be written."""
        if self._closed:
            raise BridgeError(f"{self._path} is closed: it takes no more results")
        try:
            if self._writer is None:
                place = _unfinished(self._path) if self._format == "parquet" else self._path
                self._writer = _WRITERS[self._format](place, table.schema, self._path.name)
            self._writer.write(table)
        except OSError as error:
            if not self._has_written:
                self._writer = None
            raise _not_written(self._path, error) from None
        self._has_written = True

    def close(self) -> None:
        """Completes the file. A second call does nothing. Raises SourceError if it cannot be written."""
        if self._writer is not None and not self._closed:
            try:
                self._writer.close()
            except OSError as error:
                raise _not_written(self._path, error) from None
            if self._format == "parquet":
                os.replace(_unfinished(self._path), self._path)
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _not_written(path: Path, error: OSError) -> SourceError:
    return SourceError(f"results cannot be written to {path}: {error.strerror or error}")


def _concatenate(parts: list[pa.Table]) -> pa.Table:
    """The parts as one table. Each column has the widest type among the parts."""
    with contextlib.suppress(pa.ArrowException):
        return pa.concat_tables(parts, promote_options="permissive")
    return pa.concat_tables([parts[0].slice(0, 0).cast(parts[-1].schema), *parts[1:]], promote_options="permissive")


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")
