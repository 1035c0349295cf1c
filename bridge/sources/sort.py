"""A history in the order of time, in bounded memory: sorted runs in files, which are merged."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bridge.errors import SourceError
from bridge.sources.merge import merge

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
