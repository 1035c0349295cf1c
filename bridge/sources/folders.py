"""Columns given by the names of a file's folders, as in Hive: `sales/year=2024/shop=3/part.parquet`."""

from __future__ import annotations

import dataclasses
import datetime
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from bridge.sources.arrays import Array
from bridge.sources.block import Block, Fault, FileReader
from bridge.sources.layout import Conversion, Layout
from windows.schema import Attribute, Schema

_FOLDER = re.compile(r"([^=/\\]+)=(.*)")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")


class FolderValue(NamedTuple):
    """The value of a column in all rows of a file, and its type."""

    text: str | None
    type: pa.DataType

    def array(self, count: int) -> Array:
        """An array that repeats the value `count` times."""
        value: Any = self.text
        if self.text is not None and pa.types.is_integer(self.type):
            value = int(self.text)
        elif self.text is not None and pa.types.is_date(self.type):
            value = datetime.date.fromisoformat(self.text)
        scalar: Any = pa.scalar(value, self.type)
        return pa.repeat(scalar, count)


def folder_columns(path: str, paths: Sequence[str], schema: Schema | None) -> list[dict[str, FolderValue]]:
    """The columns from the folders' names, for each of the files of a path or pattern, for `open_source`.

    Without a schema, these are the folders that the pattern leaves open, if all files have them.

    >>> folder_columns("a=1/b=*/*.csv", ["a=1/b=7/x.csv", "a=1/b=8/y.csv"], None)[1]
    {'b': FolderValue(text='8', type=DataType(int64))}
    """
    texts = [_texts(each) for each in paths]
    names = [name for name in texts[0] if all(name in each for each in texts)]
    if schema is None:
        fixed = _texts(os.path.join(fixed_folder(path), "file") if glob.has_magic(path) else path)
        names = [name for name in names if name not in fixed]
    else:
        names = [name for name in names if schema.find(name) is not None]
    types = {name: _type([each[name] for each in texts], schema.find(name) if schema else None) for name in names}
    return [{name: FolderValue(each[name], types[name]) for name in names} for each in texts]


def fixed_folder(pattern: str) -> str:
    """The folder of a pattern before its first wildcard.

    >>> fixed_folder("sales/year=2024/shop=*/*.parquet")
    'sales/year=2024'
    """
    parts = PurePath(pattern).parts
    first = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    return str(PurePath(*parts[:first]))


def _texts(path: str) -> dict[str, str | None]:
    """The values of the folders of a file, by their names."""
    named = filter(None, map(_FOLDER.fullmatch, PurePath(path).parts[:-1]))
    return {unquote(each[1]): None if each[2] == _NULL else unquote(each[2]) for each in named}


def _type(texts: Sequence[str | None], declared: Attribute | None) -> pa.DataType:
    known = [text for text in texts if text is not None]
    if declared is not None and declared.type == "VARCHAR":
        return pa.string()
    if known and all(map(_WHOLE.fullmatch, known)):
        return pa.int64()
    return pa.date32() if known and all(map(_is_date, known)) else pa.string()


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


class FolderReader:
    """A file with further columns, each of one value. A column that the file itself has is read from the file."""

    def __init__(self, reader: FileReader, values: Mapping[str, FolderValue]) -> None:
        self._reader = reader
        own = {name.lower() for name in reader.columns}
        self._values = {name: value for name, value in values.items() if name.lower() not in own}
        self.file, self.typed = reader.file, reader.typed
        self.columns = {**reader.columns, **{name: value.type for name, value in self._values.items()}}

    @property
    def fraction(self) -> float | None:
        """The part of the file that has been read."""
        return self._reader.fraction

    @property
    def waits(self) -> bool:
        """Whether more rows may still be written."""
        return self._reader.waits

    def blocks(self, layout: Layout) -> Iterator[Block]:
        """The blocks of the file, with the further columns."""
        return (FolderBlock(block, layout, self._values) for block in self._reader.blocks(self._within(layout)))

    def _within(self, layout: Layout) -> Layout:
        """The layout of the columns that the file has, at least one."""
        attributes = tuple(each for each in layout.attributes if each[1] not in self._values)
        timestamp = None if layout.timestamp in self._values else layout.timestamp
        if not attributes and timestamp is None:
            first = next(iter(self._reader.columns))
            attributes = ((Attribute(first, "VARCHAR"), first),)
        return dataclasses.replace(layout, attributes=attributes, timestamp=timestamp)

    def close(self) -> None:
        """Closes the file."""
        self._reader.close()


class FolderBlock(Block):
    """A block of a file with further columns, each of one value."""

    def __init__(self, block: Block, layout: Layout, values: Mapping[str, FolderValue]) -> None:
        self._block, self.layout, self._values = block, layout, values
        self.unit = block.unit

    @property
    def size(self) -> int:
        return self._block.size

    @property
    def malformed(self) -> Mapping[int, Fault]:
        return self._block.malformed

    def values(self, column: str, start: int, stop: int) -> Array:
        if column in self._values:
            return self._values[column].array(stop - start)
        return self._block.values(column, start, stop)

    def line(self, number: int) -> int:
        return self._block.line(number)

    def raw(self, number: int) -> str:
        return self._block.raw(number)

    def text(self, number: int, column: str) -> str:
        return repr(self._values[column].text) if column in self._values else self._block.text(number, column)

    def column_name(self, column: str) -> str:
        return f"the folder {column!r}" if column in self._values else self._block.column_name(column)

    def fault(self, number: int, conversion: Conversion, error: Exception) -> Fault:
        if conversion.column in self._values:
            return super().fault(number, conversion, error)
        return self._block.fault(number, conversion, error)
