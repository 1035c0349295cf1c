"""Events in the order of time: several streams merged chunk by chunk, and a history sorted in bounded memory."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bridge.errors import SourceError

BYTES = 2**26
"""The largest size of a chunk in bytes, unless a single one is larger."""

Chunk = dict[str, pa.Table]
"""Tables by stream. All their rows precede all rows of later chunks."""


def take_until(tables: Iterator[pa.Table], end: int | None) -> Iterator[pa.Table]:
    """The rows up to and including the timestamp `end`. Nothing is read beyond it."""
    for table in tables:
        count = table.num_rows if end is None else int(np.searchsorted(_times(table), end, side="right"))
        if count:
            yield table.slice(0, count)
        if count < table.num_rows:
            return


def drop_before(chunks: Iterable[Chunk], begin: int) -> Iterator[Chunk]:
    """The rows at and after the timestamp `begin`.

    >>> [chunk["a"]["ts"].to_pylist() for chunk in drop_before([{"a": pa.table({"ts": [1, 4]})}], 2)]
    [[4]]
    """
    for chunk in chunks:
        rest = {name: table.slice(int(np.searchsorted(_times(table), begin))) for name, table in chunk.items()}
        if later := {name: table for name, table in rest.items() if table.num_rows}:
            yield later


def combine(chunks: Iterable[Chunk], streams: Iterable[str], events: int, size: int) -> Iterator[Chunk]:
    """The same rows in fewer chunks, each of at most `events` rows and `size` bytes unless it was larger before.

    `streams`: the order of rows with equal timestamps. An error of reading is raised after all rows before it.

    >>> one, two = {"b": pa.table({"ts": [1]})}, {"a": pa.table({"ts": [2]})}
    >>> for chunk in combine([one, two, two], "ab", 2, 1_000):
    ...     print({name: table["ts"].to_pylist() for name, table in chunk.items()})
    {'a': [2], 'b': [1]}
    {'a': [2]}
    """
    order = list(streams)
    waiting: list[Chunk] = []
    rows = bytes_ = 0
    try:
        for chunk in chunks:
            more, larger = row_count(chunk), sum(table.nbytes for table in chunk.values())
            if waiting and (rows + more > events or bytes_ + larger > size):
                yield _concatenate(waiting, order)
                waiting, rows, bytes_ = [], 0, 0
            waiting.append(chunk)
            rows, bytes_ = rows + more, bytes_ + larger
    except Exception:
        if waiting:
            yield _concatenate(waiting, order)
        raise
    if waiting:
        yield _concatenate(waiting, order)


def prefetch(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The same chunks. Each is read while the previous one is used.

    >>> [row_count(chunk) for chunk in prefetch(iter([{"a": pa.table({"ts": [1]})}]))]
    [1]
    """
    with ThreadPoolExecutor(1, "reading") as thread:
        following = thread.submit(next, chunks, None)
        while (chunk := following.result()) is not None:
            following = thread.submit(next, chunks, None)
            yield chunk


def row_count(chunk: Chunk) -> int:
    """The number of events in a chunk.

    >>> row_count({"a": pa.table({"ts": [1, 2]})})
    2
    """
    return sum(table.num_rows for table in chunk.values())


def _concatenate(chunks: list[Chunk], order: list[str]) -> Chunk:
    parts = {name: [chunk[name] for chunk in chunks if name in chunk] for name in order}
    return {name: pa.concat_tables(tables) for name, tables in parts.items() if tables}


def merge(streams: Mapping[str, Iterator[pa.Table]]) -> Iterator[Chunk]:
    """Merges streams of tables by `ts`. Rows with equal timestamps are in the order of the streams.

    It keeps one table per stream in memory. An error of a stream is raised after all rows that are earlier in time.

    >>> one, two = pa.table({"ts": [1, 4]}), pa.table({"ts": [2, 3]})
    >>> for chunk in merge({"a": iter([one]), "b": iter([two])}):
    ...     print({name: table["ts"].to_pylist() for name, table in chunk.items()})
    {'a': [1], 'b': [2, 3]}
    {'a': [4]}
    """
    heads = [_Head(name, tables) for name, tables in streams.items()]
    for head in heads:
        head.load()
    while open_heads := [head for head in heads if head.times.size]:
        newest = min(int(head.times[-1]) for head in open_heads)
        first = next(place for place, head in enumerate(open_heads) if head.times[-1] == newest)
        parts = ((head, head.take(newest, place <= first)) for place, head in enumerate(open_heads))
        yield {head.name: table for head, table in parts if table.num_rows}
        for head in open_heads:
            if not head.times.size:
                head.load()


@dataclasses.dataclass
class _Head:
    """The current table of a stream. Without `times` the stream is at its end."""

    name: str
    tables: Iterator[pa.Table]
    table: Any = None
    times: Any = None

    def load(self) -> None:
        """Reads the next table that has rows."""
        self.table = next((table for table in self.tables if table.num_rows), None)
        self.times = np.array([], "int64") if self.table is None else _times(self.table)

    def take(self, newest: int, equal: bool) -> pa.Table:
        """Removes and returns the rows before `newest`; if `equal`, also the rows at `newest`."""
        count = int(np.searchsorted(self.times, newest, side="right" if equal else "left"))
        rows: pa.Table = self.table.slice(0, count)
        self.table, self.times = self.table.slice(count), self.times[count:]
        return rows


def _times(table: pa.Table) -> Any:
    return table.column(0).to_numpy()


RUN = 2**28
"""The size in bytes of a run, which is sorted in memory."""

ROWS = 50_000
"""The number of rows of a run that are read at a time."""


def sort_by_time(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows by `ts`, the first column; rows with equal timestamps stay in their order.

    Rows beyond RUN bytes are written to a directory for temporary files, which is removed afterwards.

    >>> parts = iter([pa.table({"ts": [3, 1], "a": [1, 2]}), pa.table({"ts": [1], "a": [3]})])
    >>> pa.concat_tables(sort_by_time(parts)).to_pydict()
    {'ts': [1, 1, 3], 'a': [2, 3, 1]}
    """
    parts, size = list[pa.Table](), 0
    with contextlib.ExitStack() as stack:
        directory: Path | None = None
        runs: dict[str, Iterator[pa.Table]] = {}
        for table in tables:
            parts.append(table)
            size += table.nbytes
            if size < RUN:
                continue
            directory = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cep-bridge-sort-")))
            runs[str(len(runs))] = _on_disk(_sorted(parts), directory / f"{len(runs)}.arrow", stack)
            parts, size = [], 0
        if parts:
            runs[str(len(runs))] = iter([_sorted(parts)])
        del parts
        for chunk in merge(runs):
            yield _sorted([*chunk.values()])


def _sorted(tables: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables)
    times = whole.column(0).to_numpy()
    if np.all(times[1:] >= times[:-1]):
        return whole
    return whole.take(np.argsort(times, kind="stable"))


def _on_disk(run: pa.Table, path: Path, files: contextlib.ExitStack) -> Iterator[pa.Table]:
    """Writes a run to a file, and reads it part by part. `files` closes the file."""
    try:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, run.schema) as writer:
            writer.write_table(run, max_chunksize=ROWS)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"the history cannot be sorted in {path.parent}: {error}; TMPDIR names another place"
        ) from None
    reader = pa.ipc.open_file(files.enter_context(pa.memory_map(str(path))))
    return (pa.Table.from_batches([reader.get_batch(place)]) for place in range(reader.num_record_batches))
