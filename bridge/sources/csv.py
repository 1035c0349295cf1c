"""CSV: pyarrow reads block after block; where it stumbles, the block is halved until the wrong line is alone.

Quoting is RFC 4180's. A field that is empty without quotes is NULL, `""` is the empty text; nothing else is NULL.
"""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from bridge.errors import SourceError
from bridge.sources.block import Block
from bridge.sources.convert import Unfit
from bridge.sources.layout import Layout
from bridge.sources.text import Bytes
from windows.arrow import arrow_type


class Quotes:
    """The quoted parts of some rows: `starts` and `ends` of what is enclosed, `wrong` the places of stray quotes.

    `open` is where a field begins whose end is still to come.

    >>> quotes = Quotes(b'a,"b\\nc"\\nd,"e', b",", final=True)
    >>> quotes.starts.tolist(), quotes.ends.tolist(), quotes.wrong
    ([2], [7], [10])
    """

    def __init__(self, data: bytes, delimiter: bytes, final: bool) -> None:
        self.wrong: list[int] = []
        self.open: int | None = None
        self.starts = self.ends = np.array([], "int64")
        if b'"' in data and not self._alternate(data, delimiter, final):
            self._scan(data, delimiter, final)

    def row_ends(self, data: bytes) -> Any:
        """Where rows end: after each line end that is not enclosed."""
        lines = np.flatnonzero(np.frombuffer(data, "uint8") == 10)
        if self.open is not None:
            lines = lines[lines < self.open]
        if self.starts.size:
            before = np.searchsorted(self.starts, lines, side="right") - 1
            lines = lines[(before < 0) | (lines >= self.ends[before])]
        return lines + 1

    def _alternate(self, data: bytes, delimiter: bytes, final: bool) -> bool:
        """The fast way: quotes open and close in turn, each beside a delimiter, a line end, or another quote."""
        buffer = np.frombuffer(b"\n" + data + b"\n", "uint8")
        places = np.flatnonzero(buffer == 34)
        edge = np.zeros(256, bool)
        edge[[10, 13, 34, delimiter[0]]] = True
        opens, closes = places[0::2], places[1::2]
        closed = closes[:-1] if not final and closes.size and closes[-1] == len(data) else closes
        if (final and len(places) % 2) or not (edge[buffer[opens - 1]].all() and edge[buffer[closed + 1]].all()):
            return False
        self.starts, self.ends = opens[: len(closes)] - 1, closes
        self.open = int(opens[-1]) - 1 if len(places) % 2 else None
        return True

    def _scan(self, data: bytes, delimiter: bytes, final: bool) -> None:
        """The exact way, field after field; after a stray quote it goes on with the next line."""
        pattern, position, spans = _quoted(delimiter), 0, []
        while match := pattern.search(data, position):
            position = match.end()
            if match[1] is not None:
                spans.append(match.span())
            elif position == len(data) and not final:
                self.open = match.start()
                break
            else:
                self.wrong.append(match.start())
                position = data.find(b"\n", match.start()) + 1 or len(data)
        self.starts, self.ends = np.array(spans, "int64").reshape(-1, 2).T


@functools.cache
def _quoted(delimiter: bytes) -> re.Pattern[bytes]:
    """A quote where a field begins, with what it encloses; group 1 is the closing quote at the field's end."""
    edge = re.escape(delimiter) + rb"\r\n"
    return re.compile(rb"(?<![^" + edge + rb'])"(?:[^"]++|"")*+("(?=[' + edge + rb"]|\Z))?")


class Reader:
    """A CSV file with its header; `columns` has the types that pyarrow finds in the first block."""

    typed = False

    def __init__(self, source: Bytes) -> None:
        self.source = source
        self.file = source.name
        self.delimiter = _delimiter(source.first_line())
        self._blocks = source.blocks(self._cut)
        self._first, self._line = next(self._blocks, (b"", 1))
        self.header = self._take_header()
        self.columns = dict(zip(self.header, self._types(), strict=True))

    @property
    def fraction(self) -> float | None:
        """The part of the file that has been read."""
        return self.source.fraction

    @property
    def waits(self) -> bool:
        """Whether the end of the input is not there yet."""
        return self.source.fraction is None

    def blocks(self, layout: Layout) -> Iterator[Block]:
        """The rows after the header."""
        if self._first:
            yield CsvBlock(self, layout, self._first, self._line)
        for data, line in self._blocks:
            yield CsvBlock(self, layout, data, line)

    def close(self) -> None:
        """Closes the file."""
        self.source.close()

    def _cut(self, data: bytes, final: bool) -> int:
        """The end of the last whole row; where none ends before the limit, the quotes cannot be right: lines then."""
        if b'"' not in data:
            return data.rfind(b"\n") + 1 or (len(data) if final else 0)
        ends = Quotes(data, self.delimiter, final).row_ends(data)
        return int(ends[-1]) if len(ends) else (len(data) if final else 0)

    def _take_header(self) -> list[str]:
        text = self._first.lstrip(b"\r\n")
        self._line += self._first.count(b"\n", 0, len(self._first) - len(text))
        if not text.strip():
            raise SourceError(f"{self.file} is empty: a CSV file starts with a line of column names")
        end = next(iter(_row_ends(text, self.delimiter)))
        record, self._first = text[:end], text[end:]
        self._line += record.count(b"\n")
        try:
            names = [name.strip() for name in split(record.decode(), self.delimiter)]
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self.file}:1: the header is not UTF-8 ({error.reason} at byte {error.start})"
            ) from None
        for name in names:
            if name and names.count(name) > 1:
                raise SourceError(f"{self.file}:1: two columns are called {name!r}")
        return [name or f"column {place}" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]

    def _types(self) -> list[pa.DataType]:
        text: list[pa.DataType] = [pa.string()] * len(self.header)
        if not self._first.strip():
            return text
        try:
            table = arrow_csv.read_csv(
                io.BytesIO(self._first),
                self.read_options(len(self._first)),
                self.parse_options(True, invalid_row_handler=lambda row: "skip"),
                arrow_csv.ConvertOptions(null_values=[""], strings_can_be_null=True, check_utf8=False),
            )
        except pa.ArrowException:
            return text
        return list(table.schema.types)

    def read_options(self, size: int) -> arrow_csv.ReadOptions:
        """No header, the whole block at once."""
        return arrow_csv.ReadOptions(column_names=self.header, block_size=size + 1)

    def parse_options(self, newlines: bool, **more: Any) -> arrow_csv.ParseOptions:
        """The delimiter and the quotes."""
        return arrow_csv.ParseOptions(delimiter=self.delimiter.decode(), newlines_in_values=newlines, **more)


class CsvBlock(Block):
    """Whole rows of a CSV file."""

    def __init__(self, reader: Reader, layout: Layout, data: bytes, line: int) -> None:
        self.reader, self.layout, self.data, self._line = reader, layout, data, line

    @functools.cached_property
    def _records(self) -> list[tuple[int, int]]:
        """Start and end of each row; empty lines are none."""
        ends = _row_ends(self.data, self.reader.delimiter)
        return [(a, b) for a, b in zip([0, *ends], ends, strict=False) if self.data[a:b].strip(b"\r\n")]

    @functools.cached_property
    def _suspect(self) -> list[int]:
        """Where a row is wrong although pyarrow might take it: NUL bytes, quotes that do not enclose a field."""
        nulls = [match.start() for match in re.finditer(b"\0", self.data)]
        return nulls + Quotes(self.data, self.reader.delimiter, final=True).wrong

    @property
    def rows(self) -> int:
        return len(self._records)

    def whole(self) -> pa.Table:
        if self._suspect:
            raise Unfit("a row that is none")
        return self.conformed(lambda: self._parsed(self.data, self.layout.columns))

    def read(self, start: int, stop: int, columns: list[str]) -> pa.Table:
        begin, end = self._records[start][0], self._records[stop - 1][1]
        if any(begin <= place < end for place in self._suspect):
            raise Unfit("a row that is none")
        table = self._parsed(self.data[begin:end], columns)
        if table.num_rows != stop - start:
            raise Unfit("the rows cannot be told apart")
        return table

    def line(self, row: int) -> int:
        return self._line + self.data.count(b"\n", 0, self._records[row][0])

    def raw(self, row: int) -> str:
        start, end = self._records[row]
        return self.data[start:end].rstrip(b"\r\n").decode(errors="backslashreplace")

    def value(self, row: int, column: str) -> str:
        return repr(self._fields(row)[self.reader.header.index(column)])

    def place(self, column: str) -> str:
        return f"column {self.reader.header.index(column) + 1}, {column!r}"

    def syntax(self, row: int) -> tuple[str | None, str] | None:
        start, end = self._records[row]
        if b"\0" in self.data[start:end]:
            return None, "there is a NUL byte in the line"
        wrong = [place for place in self._suspect if start <= place < end]
        if wrong:
            return f"byte {wrong[0] - start + 1}", "the quote that opens here closes no field"
        fields, wanted = self._fields(row), len(self.reader.header)
        if len(fields) != wanted:
            return None, f"{len(fields)} fields instead of the header's {wanted}"
        for column in self.layout.columns:
            if broken := re.search("[\udc80-\udcff]", fields[self.reader.header.index(column)]):
                return self.place(
                    column
                ), f"the byte 0x{ord(broken[0]) - 0xDC00:02x} is no UTF-8 (is the file Latin-1?)"
        return None

    def _fields(self, row: int) -> list[str]:
        """The fields; bytes that are no UTF-8 stand as lone surrogates."""
        start, end = self._records[row]
        return split(self.data[start:end].rstrip(b"\r\n").decode(errors="surrogateescape"), self.reader.delimiter)

    def _parsed(self, data: bytes, columns: list[str]) -> pa.Table:
        return arrow_csv.read_csv(
            io.BytesIO(data),
            self.reader.read_options(len(data)),
            self.reader.parse_options(b'"' in data),
            arrow_csv.ConvertOptions(
                column_types=self._column_types(),
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["true", "True", "TRUE", "1"],
                false_values=["false", "False", "FALSE", "0"],
            ),
        )

    def _column_types(self) -> dict[str, pa.DataType]:
        types = {
            column: pa.string() if attribute.type == "TIMESTAMP" else arrow_type(attribute.type)
            for attribute, column in self.layout.attributes
        }
        return types | {self.layout.timestamp: pa.string()}


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


def _row_ends(data: bytes, delimiter: bytes) -> list[int]:
    """Where rows end, the last one with the data."""
    ends: list[int] = Quotes(data, delimiter, final=True).row_ends(data).tolist()
    return ends if ends and ends[-1] == len(data) else [*ends, len(data)]


def _delimiter(header: bytes) -> bytes:
    """The comma, unless the header has none and another one divides it."""
    if b"," in header:
        return b","
    return next((mark for mark in (b"\t", b";", b"|") if mark in header), b",")
