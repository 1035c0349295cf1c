"""Several streams as one sequence of events in the order of time, a stretch at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

BYTES = 2**26
"""So many bytes of events are held at most before they go on."""

Stretch = dict[str, pa.Table]
"""Tables by stream; their rows together come before all rows of later stretches."""


def until(tables: Iterator[pa.Table], end: int | None) -> Iterator[pa.Table]:
    """The rows up to and at `end`; nothing is read beyond it."""
    for table in tables:
        count = table.num_rows if end is None else int(np.searchsorted(_times(table), end, side="right"))
        if count:
            yield table.slice(0, count)
        if count < table.num_rows:
            return


def since(stretches: Iterable[Stretch], begin: int) -> Iterator[Stretch]:
    """The rows at and after an instant.

    >>> [stretch["a"]["ts"].to_pylist() for stretch in since([{"a": pa.table({"ts": [1, 4]})}], 2)]
    [[4]]
    """
    for stretch in stretches:
        rest = {name: table.slice(int(np.searchsorted(_times(table), begin))) for name, table in stretch.items()}
        if later := {name: table for name, table in rest.items() if table.num_rows}:
            yield later


def gathered(stretches: Iterable[Stretch], streams: Iterable[str], events: int, size: int) -> Iterator[Stretch]:
    """The same in fewer stretches, each of at most so many events and bytes, unless it was longer as it came.

    `streams` is the order of rows of equal times. What reading them raises comes after all that precedes it was given.

    >>> one, two = {"b": pa.table({"ts": [1]})}, {"a": pa.table({"ts": [2]})}
    >>> for stretch in gathered([one, two, two], "ab", 2, 1_000):
    ...     print({name: table["ts"].to_pylist() for name, table in stretch.items()})
    {'a': [2], 'b': [1]}
    {'a': [2]}
    """
    order = list(streams)
    kept: list[Stretch] = []
    rows = bytes_ = 0
    try:
        for stretch in stretches:
            more, larger = rows_of(stretch), sum(table.nbytes for table in stretch.values())
            if kept and (rows + more > events or bytes_ + larger > size):
                yield _joined(kept, order)
                kept, rows, bytes_ = [], 0, 0
            kept.append(stretch)
            rows, bytes_ = rows + more, bytes_ + larger
    except Exception:
        if kept:
            yield _joined(kept, order)
        raise
    if kept:
        yield _joined(kept, order)


def ahead(stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    """The same, each being read while the one before it is used.

    >>> [rows_of(stretch) for stretch in ahead(iter([{"a": pa.table({"ts": [1]})}]))]
    [1]
    """
    with ThreadPoolExecutor(1, "reading") as thread:
        coming = thread.submit(next, stretches, None)
        while (stretch := coming.result()) is not None:
            coming = thread.submit(next, stretches, None)
            yield stretch


def rows_of(stretch: Stretch) -> int:
    """How many events these are.

    >>> rows_of({"a": pa.table({"ts": [1, 2]})})
    2
    """
    return sum(table.num_rows for table in stretch.values())


def _joined(stretches: list[Stretch], order: list[str]) -> Stretch:
    parts = {name: [found[name] for found in stretches if name in found] for name in order}
    return {name: pa.concat_tables(tables) for name, tables in parts.items() if tables}


def merged(streams: Mapping[str, Iterator[pa.Table]]) -> Iterator[Stretch]:
    """Merges streams of tables by `ts`; rows of equal times come in the order of the streams.

    Holds one table a stream. What a stream raises comes after all that precedes it in time was given.

    >>> one, two = pa.table({"ts": [1, 4]}), pa.table({"ts": [2, 3]})
    >>> for stretch in merged({"a": iter([one]), "b": iter([two])}):
    ...     print({name: table["ts"].to_pylist() for name, table in stretch.items()})
    {'a': [1], 'b': [2, 3]}
    {'a': [4]}
    """
    heads = [_Head(name, tables) for name, tables in streams.items()]
    for head in heads:
        head.load()
    while alive := [head for head in heads if head.times.size]:
        newest = min(int(head.times[-1]) for head in alive)
        first = next(place for place, head in enumerate(alive) if head.times[-1] == newest)
        taken = ((head, head.take(newest, place <= first)) for place, head in enumerate(alive))
        yield {head.name: table for head, table in taken if table.num_rows}
        for head in alive:
            if not head.times.size:
                head.load()


@dataclasses.dataclass
class _Head:
    """The table of a stream that is being merged; no times: the stream is at its end."""

    name: str
    tables: Iterator[pa.Table]
    table: Any = None
    times: Any = None

    def load(self) -> None:
        """The next table that has rows."""
        self.table = next((table for table in self.tables if table.num_rows), None)
        self.times = np.array([], "int64") if self.table is None else _times(self.table)

    def take(self, newest: int, equal: bool) -> pa.Table:
        """The rows before `newest`, or up to it, which are gone from here then."""
        count = int(np.searchsorted(self.times, newest, side="right" if equal else "left"))
        taken: pa.Table = self.table.slice(0, count)
        self.table, self.times = self.table.slice(count), self.times[count:]
        return taken


def _times(table: pa.Table) -> Any:
    return table.column(0).to_numpy()
