"""NDJSON: one JSON object per line. A key that a line lacks is NULL; NaN and Infinity are numbers."""

from __future__ import annotations

import functools
import io
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json

from bridge.errors import SourceError
from bridge.sources.arrays import Array, Unfit
from bridge.sources.block import Block, Fault
from bridge.sources.infer import type_of_values
from bridge.sources.layout import Layout
from bridge.sources.text import Bytes, TextReader
from windows.arrow import is_nested, nested_array
from windows.schema import Attribute, TypeMismatch, checker, decimal_size

_DECODE = json.JSONDecoder().decode
_SCAN: Any = getattr(json.JSONDecoder(), "scan_once")  # noqa: B009 (not in its type)
_IN_JSON = {
    "BOOLEAN": pa.bool_(), "SMALLINT": pa.int64(), "INTEGER": pa.int64(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(), "DATE": pa.string(), "TIMESTAMP": pa.string(),
}  # fmt: skip
"""The types of attributes' values in JSON, if Arrow reads them as Python does."""


class NdjsonReader(TextReader):
    """An NDJSON file. `columns` has the keys of the first block with the types of their values."""

    def __init__(self, source: Bytes) -> None:
        super().__init__(source)
        self._pieces = source.rows(lambda data, final: (data.rfind(b"\n") + 1 or (len(data) if final else 0), True))
        self._first = list(itertools.islice(self._pieces, 1))
        self.columns = self._columns()

    def blocks(self, layout: Layout) -> Iterator[Block]:
        """The lines; none for an empty file."""
        schema = _schema(self.columns, layout)
        return (JsonBlock(layout, data, line, schema) for data, line, _ in itertools.chain(self._first, self._pieces))

    def _columns(self) -> dict[str, pa.DataType]:
        values: dict[str, list[Any]] = {}
        lines = [line for data, *_ in self._first for line in data.splitlines() if line.strip()]
        for item in filter(_is_object, map(_parse, lines)):
            for key, value in item.items():
                values.setdefault(key, []).append(value)
        if lines and not values and lines[0].lstrip().startswith(b"["):
            raise SourceError(
                f"{self.file} is a JSON array, and not NDJSON, which has an object per line: jq -c '.[]' writes it so"
            )
        if lines and not values:
            raise SourceError(f"{self.file} is not NDJSON: none of its first lines is a JSON object with keys")
        return {key: type_of_values(column, f"{self.file}: column {key!r}") for key, column in values.items()}


class JsonBlock(Block):
    """Complete lines of an NDJSON file. Given a `schema`, Arrow reads them if all have this schema."""

    def __init__(self, layout: Layout, data: bytes, line: int, schema: pa.Schema | None) -> None:
        self.layout, self._data, self._line = layout, data, line
        self._table = None if schema is None else _read(data, schema)
        self._checked = {c: a for a, c in layout.attributes if decimal_size(a.type) or is_nested(a.type)}

    @functools.cached_property
    def _lines(self) -> list[tuple[int, bytes]]:
        numbered = enumerate(self._data.split(b"\n"), self._line)
        return [(number, text) for number, text in numbered if text.strip()]

    @functools.cached_property
    def _items(self) -> list[Any]:
        return [_parse(text) for _, text in self._lines]

    @functools.cached_property
    def _objects(self) -> list[dict[str, Any]]:
        return [*filter(_is_object, self._items)]

    @property
    def size(self) -> int:
        return len(self._objects) if self._table is None else int(self._table.num_rows)

    @functools.cached_property
    def malformed(self) -> Mapping[int, Fault]:
        if self._table is not None:
            return {}
        wrong = (number for number, item in enumerate(self._items) if not _is_object(item))
        return {number: _fault(self._lines[number][1]) for number in wrong}

    def values(self, column: str, start: int, stop: int) -> Array:
        if self._table is not None:
            return self._table.column(column).slice(start, stop - start)
        return _array([item.get(column) for item in self._objects[start:stop]], self._checked.get(column))

    def line(self, number: int) -> int:
        return self._lines[number][0]

    def raw(self, number: int) -> str:
        return self._lines[number][1].decode(errors="backslashreplace").rstrip("\r")

    def text(self, number: int, column: str) -> str:
        text = json.dumps(self._items[number].get(column), ensure_ascii=False)
        return text.encode(errors="backslashreplace").decode()


def _schema(columns: Mapping[str, pa.DataType], layout: Layout) -> pa.Schema | None:
    """The types of a layout's columns in JSON; None if only Python can read one of them."""
    types: dict[str, Any] = {}
    for conversion in layout.conversions():
        kind = _IN_JSON.get(conversion.type)
        if conversion.type == "timestamp":
            own = columns[conversion.column]
            kind = pa.int64() if pa.types.is_integer(own) else own if pa.types.is_floating(own) else pa.string()
        if types.setdefault(conversion.column, kind) != kind or kind is None:
            return None
    return pa.schema(list(types.items()))


def _read(data: bytes, schema: pa.Schema) -> pa.Table | None:
    """The objects in `data`, read by Arrow; None if a value has another type, or a line is not one object."""
    lines = data.strip(b"\n")
    count = lines.count(b"\n") + 1
    if not lines.startswith(b"{") or not lines.endswith(b"}") or lines.count(b"}\n{") != count - 1:
        return None
    read = arrow_json.ReadOptions(block_size=len(lines) + 1)
    parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        if not lines.isascii():
            lines.decode()
        table = arrow_json.read_json(io.BytesIO(lines), read, parse)
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return table if table.num_rows == count else None


def _fault(line: bytes) -> Fault:
    """The reason why a line is not a JSON object."""
    try:
        _DECODE(line.decode())
    except json.JSONDecodeError as error:
        return Fault(f"character {error.pos + 1}", f"this is not JSON: {error.msg}")
    except UnicodeDecodeError as error:
        return Fault(
            f"byte {error.start + 1}", f"the byte 0x{line[error.start]:02x} is not UTF-8 (is the file Latin-1?)"
        )
    except (ValueError, RecursionError) as error:
        return Fault(None, f"this JSON cannot be read: {error}")
    return Fault("character 1", "a line is one JSON object {…}")


def _parse(line: bytes) -> Any:
    """The JSON value of a line; None if it has none."""
    try:
        text = line.decode()
        try:
            item, end = _SCAN(text, 0)
        except StopIteration:
            return _DECODE(text)
        return item if end == len(text) or not text[end:].strip(" \t\r\n") else None
    except (ValueError, RecursionError):
        return None


def _is_object(item: Any) -> bool:
    return type(item) is dict


def _array(values: list[Any], attribute: Attribute | None) -> Array:
    """Values of one kind as Arrow: numbers, texts or booleans. For an `attribute`, each value is checked."""
    if attribute is not None:
        try:
            check = checker(attribute)
            checked = [None if value is None else check(value) for value in values]
            return nested_array(checked, attribute.type) if is_nested(attribute.type) else pa.array(checked)
        except TypeMismatch as error:
            raise Unfit(str(error)) from None
    if bool in (kinds := set(map(type, values))) and not kinds <= {bool, type(None)}:
        raise Unfit("booleans and others")  # Arrow takes True for 1.0 next to a float
    try:
        return pa.array(values)
    except (OverflowError, pa.ArrowInvalid):  # whole numbers beyond 64 bits may be DOUBLEs
        return pa.array([float(value) if type(value) is int else value for value in values], pa.float64())
