"""The source of one stream: opens files, tables, frames or pairs, and reads them as tables in the order of time."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import itertools
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bridge.errors import SourceError
from bridge.sources import csv, ndjson
from bridge.sources.arrow import as_arrow
from bridge.sources.block import Block, FileReader
from bridge.sources.folders import FolderReader, FolderValue, folder_columns
from bridge.sources.in_place import NotInPlaceError, ParquetFile, ParquetInPlace, in_order, parquet_file
from bridge.sources.infer import common_types
from bridge.sources.layout import Layout, Note, layout_of
from bridge.sources.mappings import is_mapping, table_of_mappings
from bridge.sources.merge import sort_by_time
from bridge.sources.options import DEFAULTS, ReadOptions
from bridge.sources.rejects import Checker, Rejects
from bridge.sources.tables import ROWS, PairsReader, ParquetReader, TableReader
from bridge.sources.text import ENDINGS as COMPRESSED
from bridge.sources.text import Bytes
from bridge.sources.times import AUTO, TimeUnit
from windows.schema import Schema

FORMATS = ("csv", "ndjson", "parquet")
"""The formats of files."""

SAMPLE = 2**18
"""The number of bytes of a text file from which the types of several files are inferred."""

_ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip


class EventSource:
    """The events of one stream, from one or several files or tables, which are opened one after the other.

    `schema`: the declared schema, or that of the first file or table, whose columns may have other `types`. `paths`:
    the paths of the files, if these contain all columns.
    """

    def __init__(
        self,
        stream: str,
        readers: Iterator[FileReader],
        schema: Schema | None,
        options: ReadOptions,
        note: Note,
        types: Mapping[str, pa.DataType] | None = None,
        paths: Sequence[str] = (),
    ) -> None:
        self.stream, self.options = stream, options
        self._types, self._is_declared = types or {}, schema is not None
        self._readers, self._note, self._paths = readers, note, paths
        self._rows_in_place, self._read_in_place = 0, 0
        self._noted_in_place: tuple[list[str], list[warnings.WarningMessage]] = [], []
        self._unit = TimeUnit(options.timestamp_unit)
        self._reader = next(readers)
        self._layout = self._laid_out(schema)
        self.schema = schema or self._schema_of_layout()

    @property
    def fraction(self) -> float | None:
        """The part of the current file that has been read, from 0 to 1; None if unknown."""
        return self._read_in_place / self._rows_in_place if self._read_in_place else self._reader.fraction

    def note_read(self, rows: int) -> int:
        """Adds rows of the files that a database has read itself; returns how many it has read so far."""
        self._read_in_place += rows
        return self._read_in_place

    @property
    def waits(self) -> bool:
        """Whether more events may arrive during reading, so that each should be pushed at once."""
        return self._reader.waits and not self.options.sort

    def tables(self, rejects: Rejects | None = None) -> Iterator[pa.Table]:
        """Tables of `ts` and the attributes, in the order of time, of at most ROWS rows.

        Rows that do not fit are written to `rejects`. Without it, the first such row raises SourceError, after the rows
        before it were given; if rows are sorted, before any row is given.
        """
        tables = self._tables(Checker(self.stream, rejects, any_order=self.options.sort))
        for table in sort_by_time(tables) if self.options.sort else tables:
            yield from _slices(table)

    def _tables(self, checker: Checker) -> Iterator[pa.Table]:
        self._read_in_place = 0
        for number, block in enumerate(self._blocks()):
            yield from checker.tables(block)
            if number == 0:
                self._note_unit()

    def _blocks(self) -> Iterator[Block]:
        layout = self._layout
        while True:
            yield from self._reader.blocks(layout) if layout else []
            self.close()
            following = next(self._readers, None)
            if following is None:
                return
            self._reader = following
            layout = self._laid_out(self.schema)

    def in_place(self) -> ParquetInPlace | None:
        """The files, if all are Parquet, in order, and have the types of the stream, so that a database can read them.

        Notes and warnings about them are given by `begin_in_place`, or when the files are read here.
        """
        if self.options.sort or not self._paths:
            return None
        notes: list[str] = []
        note, self._note = self._note, notes.append
        try:
            with warnings.catch_warnings(record=True) as caught:
                found = in_order(list(self._parquet_files()))
        except NotInPlaceError:
            return None
        finally:
            self._note = note
        self._noted_in_place = notes, caught
        self._rows_in_place = found.rows_until(None) if found is not None else 0
        return found

    def begin_in_place(self) -> None:
        """Notes that a database begins to read the files of `in_place`."""
        notes, caught = self._noted_in_place
        self._note_unit()
        for text in notes:
            self._note(text)
        for warning in caught:
            warnings.warn(warning.message, warning.category, stacklevel=2)

    def _parquet_files(self) -> Iterator[ParquetFile]:
        for place, path in enumerate(self._paths):
            if place == 0:
                yield parquet_file(self._reader, self._layout)
                continue
            try:
                reader = open_file(path, self.options)
                yield parquet_file(reader, self._laid_out(self.schema, reader))
                reader.close()
            except SourceError as error:
                raise NotInPlaceError from error

    def timestamp_unit(self) -> str | None:
        """The unit of numeric timestamps. For AUTO, the first rows are read."""
        if self._unit.name == AUTO:
            next(self._tables(Checker(self.stream, any_order=True)), None)
        return self._unit.name

    def close(self) -> None:
        """Closes the current file."""
        self._reader.close()

    def _laid_out(self, schema: Schema | None, reader: FileReader | None = None) -> Layout | None:
        """The layout of the current or another file; None if it has neither columns nor rows."""
        reader = reader or self._reader
        if not reader.columns and schema is not None:
            return None
        if not reader.columns:
            raise SourceError(f"{reader.file} is empty, and no schema of {self.stream!r} is declared")
        columns = {name: self._types.get(name, kind) for name, kind in reader.columns.items()}
        layout = layout_of(reader.file, columns, schema, self.options.timestamp, self._note, reader.typed, self._unit)
        if schema is not None and (text := layout.left_out(columns)):
            self._note(text) if self._is_declared else warnings.warn(text, stacklevel=2)
        return dataclasses.replace(layout, inferred=not self._is_declared)

    def _note_unit(self) -> None:
        """Gives a note about a guessed unit, or a warning about one that is hardly right."""
        file, unit = self._reader.file, self._unit
        if self.options.timestamp_unit == AUTO and unit.first is not None:
            self._note(f"{file}: the timestamps are {unit.words} (a guess by the first one, {unit.first:.15g})")
        elif unit.hint:
            warnings.warn(f"{file}: the first timestamp is {unit.first:.15g} {unit.words}; {unit.hint}", stacklevel=2)

    def _schema_of_layout(self) -> Schema:
        return Schema(tuple(attribute for attribute, _ in self._layout.attributes) if self._layout else ())


def open_source(
    stream: str,
    source: Any,
    schema: Schema | None = None,
    options: ReadOptions = DEFAULTS,
    note: Note = lambda text: None,
) -> EventSource:
    """Opens the events of one stream: a path (also a pattern such as `logs/*.csv`, or `-`), an Arrow table, a frame,
    rows that are mappings, or (payload, timestamp) pairs. `note` takes messages about guesses.

    Raises SourceError for a source that does not exist, cannot be read, or has no such columns.

    >>> source = open_source("s", pa.table({"time": [1, 2], "a": [5, 6]}))
    >>> str(source.schema), [table.num_rows for table in source.tables()]
    ('a BIGINT', [2])
    """
    if isinstance(source, (str, os.PathLike)):
        paths = paths_of(os.fspath(source))
        types = _types_of_files(paths, options) if schema is None and len(paths) > 1 else {}
        folders = folder_columns(os.fspath(source), paths, schema)
        own = paths if paths != ["-"] and not any(folders) else []
        return EventSource(stream, _readers(paths, folders, options), schema, options, note, types, own)
    if (tables := as_arrow(source)) is not None:
        return EventSource(stream, iter([TableReader(stream, tables)]), schema, options, note)
    try:
        pairs = iter(source)
    except TypeError:
        raise SourceError(
            f"the events of {stream!r} are a path, an Arrow table, a frame, mappings or (payload, timestamp) pairs, "
            f"not {type(source).__name__}"
        ) from None
    first = next(pairs, None)
    pairs = itertools.chain([] if first is None else [first], pairs)
    if is_mapping(first):
        table = table_of_mappings(stream, pairs)
        return EventSource(stream, iter([TableReader(stream, iter([table]))]), schema, options, note)
    if isinstance(first, (str, os.PathLike)):
        raise SourceError(
            f"the events of {stream!r} are the path of a file or a pattern of several, such as 'logs/*.csv', not a list of "
            "texts; DuckDB reads files of several patterns as one: duckdb.sql(\"FROM read_csv(['a.csv', 'b.csv'])\")"
        )
    reader = PairsReader(stream, pairs, schema)
    return EventSource(stream, iter([reader]), reader.schema, dataclasses.replace(options, timestamp="ts"), note)


def _readers(
    paths: Sequence[str], folders: Sequence[Mapping[str, FolderValue]], options: ReadOptions
) -> Iterator[FileReader]:
    """The files, each opened in its turn, with the columns from the names of its folders."""
    for path, values in zip(paths, folders, strict=True):
        reader = open_file(path, options)
        yield FolderReader(reader, values) if values else reader


def paths_of(path: str) -> list[str]:
    """The files of a path or a pattern, sorted by name. Raises SourceError if no file matches."""
    if path == "-" or os.path.exists(path) or not glob.has_magic(path):  # False for too long names
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise SourceError(f"no file matches {path}")
    return found


def ending_of(path: str) -> str | None:
    """The format of a file by its ending; None for an unknown ending.

    >>> ending_of("trades.CSV.gz"), ending_of("sales.trades")
    ('csv', None)
    """
    plain = path[: -len(end)] if (end := Path(path).suffix).lower() in COMPRESSED else path
    return _ENDINGS.get(Path(plain).suffix.lower())


def _types_of_files(paths: list[str], options: ReadOptions) -> dict[str, pa.DataType]:
    """The types of the columns of all files together, from their first rows. An unreadable file has none."""
    columns: list[Mapping[str, pa.DataType]] = []
    are_texts = False
    for path in paths:
        with contextlib.suppress(SourceError):
            reader = open_file(path, options, size=SAMPLE)
            columns.append(reader.columns)
            are_texts |= isinstance(reader, csv.CsvReader)
            reader.close()
    return common_types(columns, are_texts)


def open_file(
    path: str, options: ReadOptions = DEFAULTS, nulls: Sequence[str] = csv.NULLS, size: int | None = None
) -> FileReader:
    """A reader of one file. The format is given, or found by the file's ending or its first bytes.

    For `nulls` see `csv.CsvReader`. `size`: the number of bytes of text that are read at a time.
    """
    if os.path.isdir(path):
        raise SourceError(f"{path} is a directory: name its files, such as '{path}/*.parquet'")
    format = options.format or (ending_of(path) if path != "-" else None)
    if format == "parquet" and path == "-":
        raise SourceError("Parquet cannot be read from standard input: name a file")
    if format == "parquet":
        return ParquetReader(path)
    source = Bytes(path, size)
    first = source.first_line()
    if format is None and first.startswith(b"PAR1"):
        source.close()
        return ParquetReader(path)
    if (format or ("ndjson" if first[:1] in (b"{", b"[", b"") else "csv")) == "ndjson":
        return ndjson.NdjsonReader(source)
    return csv.CsvReader(source, nulls)


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    return (table.slice(start, ROWS) for start in range(0, table.num_rows, ROWS))
