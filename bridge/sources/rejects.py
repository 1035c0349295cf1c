"""Checks the order of time, and handles rejected rows of a stream: an error for the first, or a file with all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from bridge.errors import SourceError
from bridge.sources.block import Block, Fault, FittingRows

SORT = "to sort the history: --sort (sort=True in Python)"


@dataclasses.dataclass(frozen=True)
class Reject:
    """A rejected row: its file, line and place, the reason, and the text of the row. `unit`: what `line` counts.

    >>> print(Reject("t.csv", 3, "column 2, 'price'", "'x' is not a DOUBLE", "1,x"))
    t.csv:3: column 2, 'price': 'x' is not a DOUBLE
    """

    file: str
    line: int
    place: str | None
    reason: str
    raw: str
    unit: str = "line"

    def __str__(self) -> str:
        row = f"{self.file}:{self.line}: " if self.unit == "line" else f"{self.file}, {self.unit} {self.line}: "
        return row + (f"{self.place}: " if self.place else "") + self.reason


class Rejects:
    """Writes rejected rows to a file per stream, one JSON object per line. A file is created at its first row.

    >>> Rejects({"trades": Path("trades.csv.rejects.ndjson")}).counts
    {}
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths
        self._files: dict[Path, IO[str]] = {}
        self.counts: dict[Path, int] = {}

    def add(self, stream: str, reject: Reject) -> None:
        """Writes a rejected row of a stream."""
        path = self._paths[stream]
        if path not in self._files:
            self._files[path] = path.open("w", encoding="utf-8")
        row = {
            "file": reject.file,
            "line": reject.line,
            "place": reject.place,
            "reason": reject.reason,
            "raw": reject.raw,
        }
        self._files[path].write(json.dumps({"stream": stream, **row}, ensure_ascii=False) + "\n")
        self.counts[path] = self.counts.get(path, 0) + 1

    def close(self) -> None:
        """Closes the files."""
        for file in self._files.values():
            file.close()


@dataclasses.dataclass
class Checker:
    """Converts the blocks of one stream to tables in the order of time, and reports the rows that do not fit.

    `rejects` takes these rows; without it, the first one raises SourceError, after the rows before it were given.
    `newest`: the newest timestamp so far (rule T2). `any_order`: whether time may go back.
    """

    stream: str
    rejects: Rejects | None = None
    newest: int | None = None
    any_order: bool = False

    def tables(self, block: Block) -> Iterator[pa.Table]:
        """The rows that fit, as at most one table."""
        rows = self._in_order(block, block.rows(until_fault=self.rejects is None))
        if rows.table.num_rows:
            self.newest = int(rows.table.column(0)[-1].as_py())
            yield rows.table
        for number in sorted(rows.faults):
            reject = reject_of(block, number, rows.faults[number])
            if self.rejects is None:
                raise SourceError(str(reject))
            self.rejects.add(self.stream, reject)

    def _in_order(self, block: Block, rows: FittingRows) -> FittingRows:
        """The rows that are not older than a row before them; the older ones become faults."""
        times = rows.table.column(0).to_numpy()
        if self.any_order or not len(times):
            return rows
        newest = np.maximum.accumulate(np.concatenate([[times[0] if self.newest is None else self.newest], times]))
        late = np.flatnonzero(times < newest[:-1])
        if not len(late):
            return rows
        place, faults = block.column_name(block.layout.columns[0]), dict(rows.faults)
        for row in late if self.rejects is not None else late[:1]:
            reason = (
                f"time does not go back: {times[row]} is before {newest[row]}, the newest time of this stream; {SORT}"
            )
            faults[int(rows.numbers[row])] = Fault(place, reason)
        if self.rejects is None:
            return FittingRows(rows.table.slice(0, int(late[0])), rows.numbers[: late[0]], faults)
        in_order = np.delete(np.arange(len(times)), late)
        return FittingRows(rows.table.take(in_order), rows.numbers[in_order], faults)


def reject_of(block: Block, number: int, fault: Fault) -> Reject:
    """A row of a block as a reject."""
    return Reject(block.layout.file, block.line(number), fault.place, fault.reason, block.raw(number), block.unit)
