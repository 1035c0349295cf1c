"""NDJSON: one JSON object a line. A key that a line leaves out is NULL; NaN and Infinity are read."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa

from bridge.errors import SourceError
from bridge.sources.block import Block
from bridge.sources.convert import Array, Unfit
from bridge.sources.layout import Layout
from bridge.sources.text import Bytes
from windows.arrow import is_nested, nested_array
from windows.schema import Attribute, TypeMismatch, checker, decimal_size

_DECODE = json.JSONDecoder().decode
_SCAN: Any = getattr(json.JSONDecoder(), "scan_once")  # noqa: B009 (not in its type)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?")


class Reader:
    """An NDJSON file; `columns` has the keys of the first block and the types of their values."""

    typed = False

    def __init__(self, source: Bytes) -> None:
        self.source = source
        self.file = source.name
        self._blocks = source.blocks(lambda data, final: data.rfind(b"\n") + 1 or (len(data) if final else 0))
        self._first = next(self._blocks, None)
        self.columns = self._columns()

    @property
    def fraction(self) -> float | None:
        """The part of the file that has been read."""
        return self.source.fraction

    @property
    def waits(self) -> bool:
        """Whether the end of the input is not there yet."""
        return self.source.fraction is None

    def blocks(self, layout: Layout) -> Iterator[Block]:
        """The lines; none for an empty file."""
        if self._first:
            yield JsonBlock(layout, *self._first)
        for data, line in self._blocks:
            yield JsonBlock(layout, data, line)

    def close(self) -> None:
        """Closes the file."""
        self.source.close()

    def _columns(self) -> dict[str, pa.DataType]:
        values: dict[str, list[Any]] = {}
        for line in self._first[0].splitlines() if self._first else []:
            for key, value in _object(line).items():
                values.setdefault(key, []).append(value)
        if self._first and self._first[0].strip() and not values:
            raise SourceError(f"{self.file} is no NDJSON: no line of its beginning is a JSON object with keys")
        return {key: _kind(found) for key, found in values.items()}


class JsonBlock(Block):
    """Whole lines of an NDJSON file."""

    def __init__(self, layout: Layout, data: bytes, line: int) -> None:
        self.layout = layout
        numbered = enumerate(data.split(b"\n"), line)
        self._lines = [(number, text) for number, text in numbered if text.strip()]
        self._checked = {c: a for a, c in layout.attributes if decimal_size(a.type) or is_nested(a.type)}

    @property
    def rows(self) -> int:
        return len(self._lines)

    @functools.cached_property
    def _objects(self) -> list[Any]:
        """Each line's object, None for a line that has none."""
        return [_parsed(text) for _, text in self._lines]

    def read(self, start: int, stop: int, columns: list[str]) -> pa.Table:
        objects = self._objects[start:stop]
        if not all(type(found) is dict for found in objects):
            raise Unfit("no JSON object")
        arrays = [_array([o.get(column) for o in objects], self._checked.get(column)) for column in columns]
        return pa.Table.from_arrays(arrays, names=columns)

    def line(self, row: int) -> int:
        return self._lines[row][0]

    def raw(self, row: int) -> str:
        return self._lines[row][1].decode(errors="backslashreplace").rstrip("\r")

    def value(self, row: int, column: str) -> str:
        return json.dumps(self._objects[row].get(column), ensure_ascii=False)

    def syntax(self, row: int) -> tuple[str | None, str] | None:
        text = self._lines[row][1]
        try:
            found = _DECODE(text.decode())
        except json.JSONDecodeError as error:
            return f"character {error.pos + 1}", f"this is no JSON: {error.msg}"
        except UnicodeDecodeError as error:
            return f"byte {error.start + 1}", f"the byte 0x{text[error.start]:02x} is no UTF-8 (is the file Latin-1?)"
        except (ValueError, RecursionError) as error:
            return None, f"this JSON cannot be read: {error}"
        return None if isinstance(found, dict) else ("character 1", "a line is one JSON object {…}")


def _parsed(line: bytes) -> Any:
    """The object of a line, None where it has none."""
    try:
        text = line.decode()
        try:
            found, end = _SCAN(text, 0)
        except StopIteration:
            return _DECODE(text)
        return found if end == len(text) or not text[end:].strip(" \t\r\n") else None
    except (ValueError, RecursionError):
        return None


def _object(line: bytes) -> dict[str, Any]:
    found = _parsed(line) if line.strip() else None
    return found if isinstance(found, dict) else {}


def _array(values: list[Any], attribute: Attribute | None) -> Array:
    """Values of one kind as Arrow: numbers, texts or truths, not mixed; of an attribute where each is to be looked at."""
    if attribute is not None:
        try:
            check = checker(attribute)
            found = [None if value is None else check(value) for value in values]
            return nested_array(found, attribute.type) if is_nested(attribute.type) else pa.array(found)
        except TypeMismatch as error:
            raise Unfit(str(error)) from None
    try:
        return pa.array(values)
    except OverflowError:
        return pa.array(values, pa.float64())


def _kind(values: list[Any]) -> pa.DataType:
    """The Arrow type of a key's values: also dates and times, where all its texts are such."""
    try:
        kind = _array(values, None).type
    except (pa.ArrowException, OverflowError):
        return pa.string()
    if pa.types.is_string(kind):
        texts = [value for value in values if value is not None]
        if all(map(_DATE.fullmatch, texts)):
            return pa.date32()
        if all(map(_MOMENT.fullmatch, texts)):
            return pa.timestamp("us")
    return cast("pa.DataType", kind)
