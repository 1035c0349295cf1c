"""Parquet files that executors can read themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import urllib.parse
import warnings
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from bridge.errors import SourceError
from bridge.sources.in_place import ParquetInPlace
from bridge.sources.options import ReadOptions
from bridge.sources.source import open_source, paths_of
from bridge.sources.tables import UNREADABLE
from windows.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST = 1_000_000_000
"""The greatest number of events whose timestamps this process reads, to check that they are in order.

It takes seconds.
"""


@dataclasses.dataclass(frozen=True)
class FileSource:
    """A Parquet source, as the local replay reads it, and Spark's `frame` of it.

    `declared`: the schema in the script. `schema`: the schema of the stream on Spark.
    """

    stream: str
    frame: DataFrame
    path: str
    declared: Schema | None
    schema: Schema
    options: ReadOptions

    def in_place(self) -> ParquetInPlace | None:
        """The files, if every executor can read them, and DuckDB gives their values unchanged and in order.

        Else None.
        """
        uris = [urllib.parse.urlparse(uri) for uri in self.frame.inputFiles()]
        if any(uri.scheme != "file" or uri.netloc for uri in uris):
            return None
        try:
            paths = [os.path.abspath(path) for path in paths_of(self.path)]
            if sorted(urllib.parse.unquote(uri.path) for uri in uris) != sorted(paths):
                return None  # Spark would skip some files
            if sum(pq.read_metadata(path).num_rows for path in paths) > MOST:
                return None
            options = dataclasses.replace(self.options, sort=False)
            opened = open_source(self.stream, os.path.abspath(self.path), self.declared, options)
            with contextlib.closing(opened), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return opened.in_place() if opened.schema == self.schema else None
        except (SourceError, *UNREADABLE):
            return None  # Spark reports the error
