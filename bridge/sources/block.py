"""Blocks of rows, checked: what fits goes on as Arrow, what does not is told by line, column and reason."""

from __future__ import annotations

import abc
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from bridge.errors import SourceError
from bridge.sources.convert import Unfit
from bridge.sources.layout import Layout


@dataclasses.dataclass(frozen=True)
class Bad:
    """One row that cannot be taken: where it stands, why, and what it reads."""

    file: str
    line: int
    place: str | None
    reason: str
    raw: str
    word: str = "line"

    def __str__(self) -> str:
        row = f"{self.file}:{self.line}: " if self.word == "line" else f"{self.file}, {self.word} {self.line}: "
        return row + (f"{self.place}: " if self.place else "") + self.reason


class Block(abc.ABC):
    """Some consecutive rows of a file, not yet converted."""

    layout: Layout
    word = "line"
    """What the rows are counted in."""

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """How many rows there are."""

    @abc.abstractmethod
    def read(self, start: int, stop: int, columns: list[str]) -> pa.Table:
        """These columns of the rows from `start` to before `stop`; raises Unfit or an Arrow error."""

    @abc.abstractmethod
    def line(self, row: int) -> int:
        """The line, counted from 1, on which a row begins."""

    @abc.abstractmethod
    def raw(self, row: int) -> str:
        """The row as it stands in the file."""

    @abc.abstractmethod
    def value(self, row: int, column: str) -> str:
        """One value of a row, for messages."""

    def syntax(self, row: int) -> tuple[str | None, str] | None:
        """(place in the line, reason) where the row is no row at all."""
        return None

    def place(self, column: str) -> str:
        """How a message names a column."""
        return f"column {column!r}"

    def whole(self) -> pa.Table:
        """`table` of all rows."""
        return self.table(0, self.rows)

    def table(self, start: int, stop: int) -> pa.Table:
        """`ts` and the attributes of some rows; raises `Unfit` when any of them does not fit."""
        return self.conformed(lambda: self.read(start, stop, self.layout.columns))

    def conformed(self, read: Callable[[], pa.Table]) -> pa.Table:
        """What `read` gives in the stream's types; whatever cannot be is `Unfit`."""
        try:
            return self.layout.conform(read())
        except (pa.ArrowException, OverflowError) as error:
            raise Unfit(str(error)) from None

    def bad(self, row: int) -> Bad:
        """What is wrong with a row."""
        place, reason = self.syntax(row) or self._unfit(row)
        return Bad(self.layout.file, self.line(row), place, reason, self.raw(row), self.word)

    def late(self, row: int, ts: int, newest: int) -> Bad:
        """The row as one that comes after a newer one (rule T2)."""
        reason = f"time does not go back: {ts} is before {newest}, the newest time of this stream"
        place = self.place(self.layout.timestamp)
        return Bad(self.layout.file, self.line(row), place, reason, self.raw(row), self.word)

    def _unfit(self, row: int) -> tuple[str | None, str]:
        for column, wanted, convert in self.layout.conversions():
            try:
                convert(self.read(row, row + 1, [column]).column(column))
            except (Unfit, pa.ArrowException, OverflowError) as error:
                return self.place(column), _reason(self.value(row, column), wanted, error)
        return None, "the row cannot be read"


def _reason(value: str, wanted: str, error: Exception) -> str:
    shown = value if len(value) <= 60 else value[:57] + "…"
    own = f" ({error})" if isinstance(error, Unfit) and "Failed to parse" not in str(error) else ""
    return f"{shown} is no {wanted}{own}"


class Rejects:
    """Keeps bad rows in a file, one JSON object a line; the file appears with the first of them.

    >>> Rejects({"trades": Path("trades.csv.rejects.ndjson")}).counts
    {}
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths
        self._files: dict[Path, IO[str]] = {}
        self.counts: dict[Path, int] = {}

    def add(self, stream: str, bad: Bad) -> None:
        """Keeps one bad row of a stream."""
        path = self._paths[stream]
        if path not in self._files:
            self._files[path] = path.open("w", encoding="utf-8")
        row = {"file": bad.file, "line": bad.line, "place": bad.place, "reason": bad.reason, "raw": bad.raw}
        self._files[path].write(json.dumps({"stream": stream, **row}, ensure_ascii=False) + "\n")
        self.counts[path] = self.counts.get(path, 0) + 1

    def close(self) -> None:
        """Ends the files."""
        for file in self._files.values():
            file.close()


@dataclasses.dataclass
class Checker:
    """Turns the blocks of one stream into tables whose time does not go back, and hands out the rows that are bad.

    Without `rejects` the first bad row ends it with a SourceError, after the rows before it were given.
    """

    stream: str
    rejects: Rejects | None = None
    newest: int | None = None

    def tables(self, block: Block) -> Iterator[pa.Table]:
        """The good rows of a block, at most one table."""
        try:
            whole = block.whole()
            if self._ordered(whole):
                yield from [whole] if whole.num_rows else []
                return
        except Unfit:
            pass
        good, bads = self._sorted_out(block)
        if good.num_rows:
            yield good
        for bad in bads:
            if self.rejects is None:
                raise SourceError(str(bad))
            self.rejects.add(self.stream, bad)

    def _ordered(self, table: pa.Table) -> bool:
        times = table.column(0).to_numpy()
        if not len(times):
            return True
        if (self.newest is not None and times[0] < self.newest) or (times[1:] < times[:-1]).any():
            return False
        self.newest = int(times[-1])
        return True

    def _sorted_out(self, block: Block) -> tuple[pa.Table, list[Bad]]:
        """The good rows, and the bad ones by line; up to the first bad one when that ends the reading."""
        pieces: list[tuple[int, pa.Table]] = []
        found: dict[int, Bad] = {}
        _salvage(block, 0, block.rows, pieces, found, self.rejects is None)
        late = self._late(pieces)
        rows = sorted({*found, *late})[: 1 if self.rejects is None else None]
        bads = [found.get(row) or block.late(row, *late[row]) for row in rows]
        limit = rows[0] if self.rejects is None and rows else block.rows
        good = [_without(start, table, rows, limit) for start, table in pieces]
        result = pa.concat_tables(good) if good else block.layout.conform(_nothing(block.layout))
        if result.num_rows:
            self.newest = int(result.column(0)[-1].as_py())
        return result, bads

    def _late(self, pieces: list[tuple[int, pa.Table]]) -> dict[int, tuple[int, int]]:
        """The rows that come after a newer one: their ts and the newest before them."""
        late: dict[int, tuple[int, int]] = {}
        newest = self.newest
        for start, table in pieces:
            times = table.column(0).to_numpy()
            before = np.maximum.accumulate(np.concatenate([[times[0] if newest is None else newest], times]))
            for place in np.flatnonzero(times < before[:-1]):
                late[start + int(place)] = (int(times[place]), int(before[place]))
            newest = int(before[-1])
        return late


def _salvage(
    block: Block, start: int, stop: int, pieces: list[tuple[int, pa.Table]], found: dict[int, Bad], first_only: bool
) -> None:
    """Halves the rows until each piece fits, or is one bad row; left to right."""
    if start >= stop or (first_only and found):
        return
    try:
        pieces.append((start, block.table(start, stop)))
    except Unfit:
        if stop - start == 1:
            found[start] = block.bad(start)
            return
        middle = (start + stop) // 2
        _salvage(block, start, middle, pieces, found, first_only)
        _salvage(block, middle, stop, pieces, found, first_only)


def _without(start: int, table: pa.Table, rows: list[int], limit: int) -> pa.Table:
    """A piece without the bad rows, and before `limit`."""
    numbers = np.arange(start, start + table.num_rows)
    mask = (numbers < limit) & ~np.isin(numbers, rows)
    return table if mask.all() else table.filter(pa.array(mask))


def _nothing(layout: Layout) -> pa.Table:
    return pa.table({column: pa.nulls(0) for column in layout.columns})
