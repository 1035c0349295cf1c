"""CSV: pyarrow reads the fields of a block as text, and each column is converted to its type.

Quoting follows RFC 4180. A field that is empty without quotes is NULL; `""` is the empty text.
"""

from __future__ import annotations

import bisect
import contextlib
import csv
import functools
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from bridge.errors import SourceError
from bridge.sources.arrays import Array, is_text
from bridge.sources.block import Block, Fault
from bridge.sources.infer import type_of_texts
from bridge.sources.layout import Conversion, Layout
from bridge.sources.text import Bytes, TextReader, line_ends
from windows.arrow import arrow_type, single_chunk

_BOOLEANS = pa.array([None, "true", "True", "TRUE", "1", "false", "False", "FALSE", "0"])
NULLS = ("NA", "N/A", "n/a", "#N/A", "NULL", "null")
"""Words for NULL in columns of events that are not text."""

_CONVERT: dict[str, Any] = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}


class CsvReader(TextReader):
    """A CSV file with its header. `columns` has the type that pyarrow infers for each column from the first block.

    `nulls` are words for NULL in columns that are not text.
    """

    def __init__(self, source: Bytes, nulls: Sequence[str] = ()) -> None:
        super().__init__(source)
        self.nulls = nulls
        self.delimiter = _delimiter(source.first_line())
        self._pieces = source.rows(functools.partial(end_of_rows, self.delimiter))
        self._first, self._line, self._regular = next(self._pieces, (b"", 1, True))
        self.header = self._take_header()
        if not self._first:  # the first row is longer than one read, or is still to be written
            self._first, self._line, self._regular = next(self._pieces, (b"", self._line, True))
        self.columns = dict(zip(self.header, self._types(), strict=True))

    def blocks(self, layout: Layout) -> Iterator[Block]:
        """The rows after the header."""
        first = [(self._first, self._line, self._regular)] if self._first else []
        return (CsvBlock(self, layout, *piece) for piece in itertools.chain(first, self._pieces))

    def _take_header(self) -> list[str]:
        text = self._first.lstrip(b"\r\n")
        self._line += len(line_ends(self._first[: len(self._first) - len(text)]))
        if not text.strip():
            raise SourceError(f"{self.file} is empty: a CSV file starts with a line of column names")
        end = next(rows_of(self.delimiter, text)).end()
        record, self._first = text[:end], text[end:]
        self._line += len(line_ends(record))
        try:
            names = [name.strip() for name in split(record.decode(), self.delimiter)]
        except UnicodeDecodeError as error:
            place = f"{error.reason} at byte {error.start}"
            raise SourceError(f"{self.file}:1: the header is not UTF-8 ({place})") from None
        for name in names:
            if name and names.count(name) > 1:
                raise SourceError(f"{self.file}:1: two columns are called {name!r}")
        return [name or f"column {place}" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]

    def _types(self) -> list[pa.DataType]:
        rows = (row[0] for row in rows_of(self.delimiter, self._first) if self.fault(row) is None)
        text: list[pa.DataType] = [pa.string()] * len(self.header)
        return self._inferred(self._first) or self._inferred(b"".join(rows)) or text

    def _inferred(self, data: bytes) -> list[pa.DataType] | None:
        options = arrow_csv.ConvertOptions(check_utf8=False, **_CONVERT | {"null_values": ["", *self.nulls]})
        with contextlib.suppress(pa.ArrowException):
            return self._refined(data, self.parse(data, options).schema.types) if data.strip() else None
        return None

    def _refined(self, data: bytes, types: list[pa.DataType]) -> list[pa.DataType]:
        """The types; corrected where pyarrow misses times, or takes whole numbers beyond 64 bits for DOUBLEs."""
        unsure = [n for n, kind in zip(self.header, types, strict=True) if pa.types.is_floating(kind) or is_text(kind)]
        if not unsure:
            return types
        options = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(unsure, pa.string()), include_columns=unsure, check_utf8=False, **_CONVERT
        )
        texts = self.parse(data, options)

        def type_of(name: str, kind: pa.DataType) -> pa.DataType:
            column = single_chunk(texts.column(name))
            values = (
                pc.if_else(pc.is_in(column, pa.array(self.nulls, pa.string())), None, column) if self.nulls else column
            )
            return type_of_texts(values, kind, f"{self.file}: column {name!r}")

        return [type_of(name, kind) if name in unsure else kind for name, kind in zip(self.header, types, strict=True)]

    def parse(self, data: bytes, options: arrow_csv.ConvertOptions) -> pa.Table:
        """The rows in `data`, as one block. Raises ArrowInvalid if a row has another number of fields than the header."""
        return arrow_csv.read_csv(
            io.BytesIO(data),
            arrow_csv.ReadOptions(column_names=self.header, block_size=len(data) + 1),
            arrow_csv.ParseOptions(delimiter=self.delimiter.decode(), newlines_in_values=b'"' in data),
            options,
        )

    def fault(self, row: re.Match[bytes]) -> Fault | None:
        """The reason why a row is malformed; None if it is not."""
        text = row[0]
        if b"\0" in text:
            return Fault(None, "there is a NUL byte in the line")
        if row["wrong"]:
            place = row.end("fields") - row.start() + 1
            return Fault(f"byte {place}", "the quote that opens here does not enclose a field")
        unquoted = _quoted(self.delimiter).sub(b"", text) if b'"' in text else text
        count, expected = unquoted.count(self.delimiter) + 1, len(self.header)
        return Fault(None, f"{count} fields instead of the header's {expected}") if count != expected else None


class CsvBlock(Block):
    """Complete rows of a CSV file. They are `regular` if all quotes enclose fields."""

    def __init__(self, reader: CsvReader, layout: Layout, data: bytes, line: int, regular: bool) -> None:
        self.reader, self.layout, self._data, self._line = reader, layout, data, line
        self._regular = regular and b"\0" not in data
        self._types: dict[str, Any] = {}
        for conversion in layout.conversions():
            kind = pa.string() if conversion.type == "timestamp" else arrow_type(conversion.type)
            self._types.setdefault(conversion.column, kind)

    @functools.cached_property
    def _content(self) -> tuple[dict[str, Array], dict[int, Fault]]:
        """The columns, as bytes if a value does not have its type; and the malformed rows."""
        texts: dict[str, Any] = dict.fromkeys(self._types, pa.binary())
        typed = {name: kind if _is_exact(kind) else pa.string() for name, kind in self._types.items()}
        first = texts if "NaN" in self.reader.nulls else typed  # as a DOUBLE that is not NULL
        for types in (first, texts) if self._regular else ():
            with contextlib.suppress(pa.ArrowInvalid):
                return self._columns(self._data, types), {}
        faults = {number: fault for number, row in enumerate(self._rows) if (fault := self.reader.fault(row))}
        data = b"".join(row[0] for number, row in enumerate(self._rows) if number not in faults)
        return self._columns(data, texts), faults

    def _columns(self, data: bytes, types: dict[str, Any]) -> dict[str, Array]:
        if not data:
            return {name: pa.nulls(0, kind) for name, kind in types.items()}
        options = arrow_csv.ConvertOptions(column_types=types, include_columns=[*types], **_CONVERT)
        table = self.reader.parse(data, options)
        return {name: single_chunk(table.column(name)) for name in types}

    @functools.cached_property
    def _rows(self) -> list[re.Match[bytes]]:
        return [row for row in rows_of(self.reader.delimiter, self._data) if row[0].strip(b"\r\n")]

    @property
    def size(self) -> int:
        return len(next(iter(self._content[0].values())))

    @property
    def malformed(self) -> Mapping[int, Fault]:
        return self._content[1]

    def values(self, column: str, start: int, stop: int) -> Array:
        values, kind = self._content[0][column].slice(start, stop - start), self._types[column]
        return values if values.type == kind else _convert_text(values.cast(pa.string()), kind, self.reader.nulls)

    def line(self, number: int) -> int:
        return self._line + bisect.bisect(self._line_ends, self._rows[number].start())

    @functools.cached_property
    def _line_ends(self) -> list[int]:
        return line_ends(self._data)

    def raw(self, number: int) -> str:
        return self._rows[number][0].rstrip(b"\r\n").decode(errors="backslashreplace")

    def text(self, number: int, column: str) -> str:
        return repr(self._field(number, column))

    def column_name(self, column: str) -> str:
        return f"column {self.reader.header.index(column) + 1}, {column!r}"

    def fault(self, number: int, conversion: Conversion, error: Exception) -> Fault:
        """A byte that is not UTF-8 is reported as such, whatever the conversion."""
        broken = re.search("[\udc80-\udcff]", self._field(number, conversion.column))
        if broken is None:
            return super().fault(number, conversion, error)
        reason = f"the byte 0x{ord(broken[0]) - 0xDC00:02x} is not UTF-8 (is the file Latin-1?)"
        return Fault(self.column_name(conversion.column), reason)

    def _field(self, number: int, column: str) -> str:
        """A field; a byte that is not UTF-8 becomes a lone surrogate."""
        text = self._rows[number][0].rstrip(b"\r\n").decode(errors="surrogateescape")
        return split(text, self.reader.delimiter)[self.reader.header.index(column)]


def _is_exact(kind: pa.DataType) -> bool:
    """Whether pyarrow reads values of a type from CSV exactly; it truncates DECIMALs, and TIMESTAMPs may have zones."""
    return not (pa.types.is_decimal(kind) or pa.types.is_timestamp(kind) or pa.types.is_nested(kind))


def _convert_text(text: Array, kind: pa.DataType, nulls: Sequence[str]) -> Array:
    """Texts as values of a type, as pyarrow reads them from CSV, possibly between blanks. Raises ArrowInvalid."""
    if nulls and not pa.types.is_string(kind):
        text = pc.if_else(pc.is_in(text, pa.array(nulls)), None, text)
    if pa.types.is_string(kind) or pa.types.is_timestamp(kind):
        return text
    text = pc.utf8_trim(text, " \t")
    if pa.types.is_boolean(kind) and not pc.all(pc.is_in(text, _BOOLEANS), skip_nulls=True).as_py():
        raise pa.ArrowInvalid("not a boolean")
    return text.cast(kind)


def split(record: str, delimiter: bytes) -> list[str]:
    """The fields of one row.

    >>> split('a,"b, c",', b",")
    ['a', 'b, c', '']
    """
    reader = csv.reader(io.StringIO(record, newline=""), delimiter=delimiter.decode())
    try:
        return next(reader, [""])
    except csv.Error:
        return record.split(delimiter.decode())


def _delimiter(header: bytes) -> bytes:
    """The comma, unless the header contains no comma but another delimiter."""
    if b"," in header:
        return b","
    return next((mark for mark in (b"\t", b";", b"|") if mark in header), b",")


# Rows -----------------------------------------------------------------------------------------------------------------


def end_of_rows(delimiter: bytes, data: bytes, final: bool) -> tuple[int, bool]:
    """The end of the last complete row, and whether all quotes enclose fields. If `final`, nothing follows `data`.

    >>> end_of_rows(b",", b'a,"b\\nc"\\nd,"e\\n', final=False)
    (8, True)
    """
    if b'"' not in data:
        return data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1) + 1 or (len(data) if final else 0), True
    regular = _regular_rows(delimiter).match(data)
    end = regular.end() if regular else 0
    rest = [*rows_of(delimiter, data[end:], final)]
    end += max((row.end() for row in rest if row[0].endswith(b"\n") or row.end() < len(row.string)), default=0)
    return end or (len(data) if final else 0), not any(row["wrong"] for row in rest)


def rows_of(delimiter: bytes, data: bytes, final: bool = True) -> Iterator[re.Match[bytes]]:
    """The rows, each with its line end.

    If the group `wrong` of a row is not None, a quote there does not enclose a field.

    A wrong row ends with its line. Unless `final`, a field that is still open at the end of `data` ends the rows.

    >>> [row.group() for row in rows_of(b",", b'a,"b\\nc"\\n"d"e\\nf')]
    [b'a,"b\\nc"\\n', b'"d"e\\n', b'f']
    """
    for row in _row(delimiter, final).finditer(data):
        if not row[0] or (not final and row["open"]):
            return
        yield row


def _opening(delimiter: bytes) -> tuple[bytes, bytes]:
    """Patterns of a quoted field without its last quote, and of the delimiters and line ends next to fields."""
    edge = re.escape(delimiter) + rb"\r\n"
    return rb"(?<![^" + edge + rb'])"[^"]*+(?:""[^"]*+)*', edge


@functools.cache
def _quoted(delimiter: bytes) -> re.Pattern[bytes]:
    """A quoted field, or a quote within another field."""
    opening, edge = _opening(delimiter)
    return re.compile(opening + rb'"(?=[' + edge + rb"]|\Z)|(?<=[^" + edge + rb'])"')


@functools.cache
def _regular_rows(delimiter: bytes) -> re.Pattern[bytes]:
    """Complete rows, as many as there are before the first quote that does not enclose a field."""
    return re.compile(rb'(?:[^"]*+(?:' + _quoted(delimiter).pattern + rb'))*[^"]*(?:\n|\r(?!\Z))')


@functools.cache
def _row(delimiter: bytes, final: bool) -> re.Pattern[bytes]:
    # Only single characters are repeated possessively: before Python 3.11.5, a group of alternatives fails (gh-106052).
    fields = rb'(?P<fields>(?:[^"\r\n]++|' + _quoted(delimiter).pattern + rb")*)"
    unfinished = b"" if final else rb"(?P<open>" + _opening(delimiter)[0] + rb"\Z)|"
    return re.compile(fields + rb"(?:\r\n?|\n|\Z|" + unfinished + rb"(?P<wrong>[^\r\n]*(?:\r\n?|\n)?))")
