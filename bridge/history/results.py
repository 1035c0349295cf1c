"""Results on their way out: Arrow tables by query, files by query, or NDJSON lines.

In NDJSON, and only there: `ts` is milliseconds, dates and timestamps are ISO texts, decimals are texts with all their
digits, and NaN and the infinities, which JSON has not, are null.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from bridge.engine.bridge import Bridge
from bridge.engine.catalogue import Processor
from bridge.engine.rows import arrow_table
from bridge.engine.session import session_of
from bridge.errors import BridgeError, SourceError
from windows.arrow import values_of

FORMATS = ("ndjson", "csv", "parquet")

TIME = "ts"
"""The first column of results, whole milliseconds."""


def file_name(name: str, format: str) -> str:
    """What a query's results are called; letters that no file name should have stand as `_`.

    >>> file_name("dip/1", "parquet")
    'dip_1.parquet'
    """
    return "".join(letter if letter.isalnum() or letter in "._- " else "_" for letter in name) + f".{format}"


class Tables:
    """Keeps the results of each query as Arrow; `counts` has their numbers."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._parts: dict[str, list[pa.Table]] = {}
        self._handles: list[Processor] = []

    def attach(self, cep: Bridge, queries: Iterable[str]) -> None:
        """Takes the results of these queries from now on."""
        for name in queries:
            self._handles.append(cep.add_output_processor(name, functools.partial(self.take, name), batch=True))

    def begin(self, cep: Bridge, queries: Iterable[str]) -> None:
        """Before any results of these queries are taken."""
        for name in queries:
            self.counts[name] = 0
            self.start(name, arrow_table(session_of(cep).catalogue.query_entry(name).fields, []))

    def detach(self, cep: Bridge) -> None:
        """Takes no more results."""
        for handle in self._handles:
            cep.remove_output_processor(handle)
        self._handles.clear()

    def start(self, name: str, empty: pa.Table) -> None:
        """Called once a query, with a table of its columns."""
        self._parts[name] = [empty]

    def add(self, name: str, table: pa.Table) -> None:
        """Called with the results of each push."""
        self._parts[name].append(table)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """All results of each query."""
        return {name: _joined(parts) for name, parts in self._parts.items()}

    def close(self, keep: bool = True) -> None:
        """Ends it; without `keep`, nothing stays."""

    @property
    def total(self) -> int:
        """The number of all results."""
        return sum(self.counts.values())

    def take(self, name: str, table: pa.Table) -> None:
        """The next results of a query."""
        self.counts[name] += table.num_rows
        self.add(name, table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(keep=kind is None)


class Lines(Tables):
    """Writes results as NDJSON to one place as they come: `query`, `ts` and the columns."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        super().__init__()
        self._write = write

    def start(self, name: str, empty: pa.Table) -> None:
        """Nothing is written before the first result."""

    def add(self, name: str, table: pa.Table) -> None:
        self._write(ndjson(table, {"query": name}))


class Results(Tables):
    """Writes one file a query into a directory, in `format`; each appears under its name when it is complete.

    >>> Results(Path("results"), "parquet").path("dip").name
    'dip.parquet'
    """

    def __init__(self, directory: Path, format: str) -> None:
        super().__init__()
        self._directory, self._format = directory, format
        self._writers: dict[str, _Writer] = {}
        self._closed = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SourceError(f"results cannot be written to {directory}: {error.strerror}") from None

    def path(self, name: str) -> Path:
        """The file of a query."""
        return self._directory / file_name(name, self._format)

    def start(self, name: str, empty: pa.Table) -> None:
        self._writers[name] = _WRITERS[self._format](_partial(self.path(name)), empty.schema)

    def add(self, name: str, table: pa.Table) -> None:
        self._writers[name].write(table)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return Files({name: self.path(name) for name in self._writers})

    def close(self, keep: bool = True) -> None:
        if self._closed:
            return
        self._closed = True
        for name, writer in self._writers.items():
            writer.close()
            if keep:
                os.replace(_partial(self.path(name)), self.path(name))
            else:
                _partial(self.path(name)).unlink(missing_ok=True)


class Files(Mapping[str, pa.Table]):
    """Parquet files by query, each read whenever it is asked for.

    >>> Files({"dip": Path("dip.parquet")})
    Files(dip=dip.parquet)
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, name: str) -> pa.Table:
        return pq.read_table(self._paths[name], memory_map=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __repr__(self) -> str:
        return f"Files({', '.join(f'{name}={path}' for name, path in self._paths.items())})"


class _Writer:
    """A file of results in the types of the first of them."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self.schema = path, schema
        self._open = False

    def write(self, table: pa.Table) -> None:
        if not self._open:
            self._open = True
            kinds = zip(self.schema.names, self.schema.types, table.schema.types, strict=True)
            self.schema = pa.schema(
                [(name, found if pa.types.is_null(known) else known) for name, known, found in kinds]
            )
            self.open()
        try:
            self.append(table.cast(self.schema))
        except pa.ArrowException as error:
            raise BridgeError(f"{self.path.stem}: a result does not fit the type of the ones before: {error}") from None

    def close(self) -> None:
        if not self._open:
            self.open()
        self.end()

    def open(self) -> None: ...

    def append(self, table: pa.Table) -> None: ...

    def end(self) -> None: ...


class _Parquet(_Writer):
    def open(self) -> None:
        others = [name for name in self.schema.names if name != TIME]
        steps = {TIME: "DELTA_BINARY_PACKED"}  # a third of the time of a dictionary, and nearly no room
        self._file = pq.ParquetWriter(
            self.path,
            self.schema,
            use_dictionary=others,  # type: ignore[arg-type]  # names are taken, too
            column_encoding=steps,
        )

    def append(self, table: pa.Table) -> None:
        self._file.write_table(table)

    def end(self) -> None:
        self._file.close()


class _Csv(_Writer):
    def open(self) -> None:
        kinds = [pa.string() if pa.types.is_null(kind) else kind for kind in self.schema.types]
        self.schema = pa.schema(list(zip(self.schema.names, kinds, strict=True)))
        self._under = self.path.open("wb")
        self._file = arrow_csv.CSVWriter(self._under, self.schema)

    def append(self, table: pa.Table) -> None:
        self._file.write_table(table)
        self._under.flush()

    def end(self) -> None:
        self._file.close()
        self._under.close()


class _Ndjson(_Writer):
    def open(self) -> None:
        self._file: IO[str] = self.path.open("w", encoding="utf-8")

    def append(self, table: pa.Table) -> None:
        self._file.write(ndjson(table, {}))
        self._file.flush()

    def end(self) -> None:
        self._file.close()


_WRITERS: dict[str, type[_Writer]] = {"parquet": _Parquet, "csv": _Csv, "ndjson": _Ndjson}


class FileSink:
    """What `bridge.file_sink` gives: called with Arrow tables of results, it writes them to one file."""

    def __init__(self, path: str) -> None:
        self._path, self._format = Path(path), Path(path).suffix.removeprefix(".").lower()
        if self._format not in FORMATS:
            raise SourceError(f"a file of results ends in .csv, .ndjson or .parquet: {path!r} does not")
        self._writer: _Writer | None = None
        self._begun = self._closed = False

    def __call__(self, table: pa.Table) -> None:
        """Writes the results of a push."""
        if self._closed:
            raise BridgeError(f"{self._path} is closed: it takes no more results")
        try:
            if self._writer is None:
                place = _partial(self._path) if self._format == "parquet" else self._path
                self._writer = _WRITERS[self._format](place, table.schema)
            self._writer.write(table)
        except OSError as error:
            if not self._begun:
                self._writer = None
            raise SourceError(f"results cannot be written to {self._path}: {error.strerror or error}") from None
        self._begun = True

    def close(self) -> None:
        """Ends the file. Closing twice does nothing."""
        if self._writer is not None and not self._closed:
            self._writer.close()
            if self._format == "parquet":
                os.replace(_partial(self._path), self._path)
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ndjson(table: pa.Table, first: dict[str, str]) -> str:
    """The rows of a table as JSON objects, one a line, each beginning with `first`.

    >>> print(ndjson(pa.table({"ts": [1], "a": [float("nan")]}), {"query": "q"}), end="")
    {"query": "q", "ts": 1, "a": null}
    """
    keys = [json.dumps(name, ensure_ascii=False).replace("%", "%%") + ": %s" for name in table.column_names]
    fixed = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}".replace("%", "%%") for k, v in first.items()]
    template = "{" + ", ".join([*fixed, *keys]) + "}\n"
    return "".join([template % row for row in zip(*map(_texts, table.columns), strict=True)])


def _texts(column: Any) -> list[str]:
    """Each value of a column as JSON."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_finite(column), column, None)
    write: Callable[[Any], str] = json.dumps
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        write = repr
    elif pa.types.is_string(kind):
        write = functools.partial(json.dumps, ensure_ascii=False)
    elif not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        write = _other
    return ["null" if value is None else write(value) for value in values_of(column)]


def _other(value: Any) -> str:
    text = value.isoformat() if hasattr(value, "isoformat") else value
    return json.dumps(text, ensure_ascii=False, default=str)


def _joined(parts: list[pa.Table]) -> pa.Table:
    """All parts in one type: where some have a wider one, the wider."""
    with contextlib.suppress(pa.ArrowException):
        return pa.concat_tables(parts, promote_options="permissive")
    return pa.concat_tables([parts[0].slice(0, 0).cast(parts[-1].schema), *parts[1:]], promote_options="permissive")


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def counted(number: int, what: str = "event") -> str:
    """
    >>> counted(1), counted(1200), counted(2, "wrong line")
    ('1 event', '1,200 events', '2 wrong lines')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
