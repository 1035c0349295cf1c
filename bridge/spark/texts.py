"""Text files on the executors: each is read by the reader of every replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bridge.sources.source import open_source
from windows.arrow import arrow_type
from windows.schema import Schema


@dataclasses.dataclass(frozen=True)
class Texts:
    """Reads files of one stream: `ts`, the attributes, then the file's number and each row's place in it."""

    stream: str
    attributes: Schema
    timestamp: str | None

    @property
    def schema(self) -> str:
        """The columns as Spark declares them."""
        from pyspark.sql.pandas.types import from_arrow_schema

        fields = [("ts", pa.int64()), *((a.name, arrow_type(a.type)) for a in self.attributes)]
        fields += [("_file", pa.int32()), ("_row", pa.int64())]
        return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)  # type: ignore[return-value]

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files that these rows name."""
        for batch in batches:
            for file in batch.to_pylist():
                yield from self._rows(file["file"], file["path"])

    def _rows(self, number: int, path: str) -> Iterator[pa.RecordBatch]:
        source = open_source(self.stream, path, self.attributes, self.timestamp)
        done = 0
        for table in source.tables():
            count = table.num_rows
            places = pa.array(np.arange(done, done + count))
            files = pa.array(np.full(count, number, np.int32))
            numbered = table.append_column("_file", files).append_column("_row", places)
            yield from numbered.combine_chunks().to_batches()
            done += count
