"""Results as Parquet, one directory per query. A run writes to its own directory, and moves complete results."""

from __future__ import annotations

import dataclasses
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from bridge import errors
from bridge.errors import SourceError
from bridge.history.results import refuse_equal_files
from bridge.spark.big_partitions import NO_BIG_PARTITIONS
from bridge.spark.columns import spark_schema
from bridge.spark.events import column
from bridge.spark.piecewise import Replay
from bridge.spark.plan import QueryGroup
from bridge.spark.task import PieceWriter, folder_of
from bridge.spark.write_back import write as write_back
from bridge.spark.writes import run_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNFINISHED = "_unfinished-"
"""The prefix of directories of runs that are not finished."""


@dataclasses.dataclass(frozen=True)
class WriteStatistics:
    """Figures of one query's results: the rows of all pieces and of the largest one, and the seconds of the pass."""

    query: str
    rows: int
    pieces: int
    largest: int
    seconds: float
    description: str

    @property
    def skew(self) -> float:
        """The rows of the largest piece divided by the average."""
        return self.largest * self.pieces / self.rows if self.rows else 1.0


class ResultDirectory:
    """A directory of results on any file system that Arrow supports. One run writes at a time.

    The results of a query appear as `<query>.parquet` when complete. A run that dies leaves the results of earlier
    runs.
    """

    def __init__(self, path: str) -> None:
        uri = path if "://" in path else f"file://{os.path.abspath(path)}"
        try:
            self._system, self._base = fs.FileSystem.from_uri(uri)
            self._system.create_dir(self._base, recursive=True)
            self._sweep()
            self._run = _unfinished()
            self._system.create_dir(f"{self._base}/{self._run}", recursive=True)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"results cannot be written to {path}: {error}") from None
        self._root = uri.rstrip("/")

    @property
    def unfinished(self) -> str:
        """The URI to which this run writes."""
        return f"{self._root}/{self._run}"

    def unsorted(self) -> str:
        """The URI of a directory for files whose rows are not in order yet."""
        self._system.create_dir(f"{self._base}/{self._run}/raw", recursive=True)
        return f"{self.unfinished}/raw"

    def publish(self, names: Iterable[str]) -> None:
        """Moves the results of these queries to their place, where they replace those of earlier runs."""
        for name in names:
            written, place = f"{self._base}/{self._run}/{folder_of(name)}", f"{self._base}/{folder_of(name)}"
            before = f"{self._base}/{self._run}/before-{folder_of(name)}"
            if self._is_there(place):
                self._system.move(place, before)
            self._system.move(written, place)
        self._sweep()

    def keep(self, files: Mapping[str, Iterable[str]], schemas: Mapping[str, pa.Schema]) -> None:
        """Deletes all files except these, as a failed attempt of a task may have left others.

        A query without files gets one.
        """
        import pyarrow.parquet as pq

        for name, paths in files.items():
            folder = f"{self._base}/{self._run}/{folder_of(name)}"
            self._system.create_dir(folder, recursive=True)
            names = {path.rsplit("/", 1)[-1] for path in paths}
            for found in self._system.get_file_info(fs.FileSelector(folder)):
                if found.base_name not in names:
                    self._system.delete_file(found.path)
            if not names:
                pq.write_table(schemas[name].empty_table(), f"{folder}/part-00000.parquet", filesystem=self._system)

    def discard(self) -> None:
        """Removes the files of this run."""
        if self._is_there(f"{self._base}/{self._run}"):
            self._system.delete_dir(f"{self._base}/{self._run}")

    def _sweep(self) -> None:
        """Removes the files of runs that died, and restores the results that these had moved away.

        A directory is renamed first, so that a process of such a run that is still alive cannot write to it.
        """
        for found in self._system.get_file_info(fs.FileSelector(self._base)):
            if found.base_name.startswith(UNFINISHED):
                for inside in self._system.get_file_info(fs.FileSelector(found.path)):
                    place = f"{self._base}/{inside.base_name.removeprefix('before-')}"
                    if inside.base_name.startswith("before-") and not self._is_there(place):
                        self._system.move(inside.path, place)
                renamed = f"{self._base}/{_unfinished()}"
                self._system.move(found.path, renamed)
                self._system.delete_dir(renamed)

    def _is_there(self, path: str) -> bool:
        return bool(self._system.get_file_info(path).type != fs.FileType.NotFound)


def _unfinished() -> str:
    """A new name for the directory of a run."""
    return f"{UNFINISHED}{uuid.uuid4().hex[:12]}"


def write(replay: Replay, out: str, run: str | None = None) -> list[WriteStatistics]:
    """Computes all queries, one pass per group, and writes their results to a directory.

    Returns figures for each query.

    After everything is computed, the script's writes to databases are executed under the name `run`.
    """
    refuse_equal_files(replay.job.names)
    directory = ResultDirectory(out)
    try:
        lines = [line for group in replay.groups() for line in _write_group(replay, group, directory)]
        write_back(replay, run_name(run))
        directory.publish(replay.job.names)
    except BaseException as error:
        directory.discard()
        raise bridge_error(error) from None
    return lines


def bridge_error(error: BaseException) -> BaseException:
    """The error of the bridge that an executor raised, found in the text of Spark's error; else Spark's error."""
    found = re.search(r"bridge\.errors\.(\w+): (.+)", str(error))
    kind = getattr(errors, found[1], None) if found else None
    return kind(found[2]) if found and kind in (errors.SourceError, errors.OrderError, errors.SchemaError) else error


def _write_group(replay: Replay, group: QueryGroup, directory: ResultDirectory) -> Iterator[WriteStatistics]:
    if group.big.partitions:
        yield from _write_big_partitions(replay, group, directory)
    else:
        yield from _write_pieces(replay, group, directory)


def _write_big_partitions(replay: Replay, group: QueryGroup, directory: ResultDirectory) -> Iterator[WriteStatistics]:
    """Writes the queries of a group. Queries whose slices cannot be joined are computed without slices."""
    others = []
    for name in group.names:
        start = time.monotonic()
        parts = replay.joined_results(group, name)
        if parts is None:
            others.append(name)
            continue
        path = f"{directory.unfinished}/{folder_of(name)}"
        replay.combine(group, name, [part.frame for part in parts]).write.parquet(path)
        rows = replay.job.spark.read.schema(spark_schema(replay.job.schemas[name])).parquet(path).count()
        matches = [count for part in parts for count in part.matches]
        largest = rows * max(matches) // max(sum(matches), 1)
        yield WriteStatistics(name, rows, len(matches), largest, time.monotonic() - start, group.description)
    if others:
        rest = dataclasses.replace(group, names=tuple(others), big=NO_BIG_PARTITIONS)
        yield from _write_pieces(replay, rest, directory)


def _write_pieces(replay: Replay, group: QueryGroup, directory: ResultDirectory) -> Iterator[WriteStatistics]:
    start = time.monotonic()
    task, pieces = replay.task(group)
    ordered = task.in_order
    raw = directory.unfinished if ordered else directory.unsorted()
    files = pieces.mapInArrow(PieceWriter(task, raw).write, PieceWriter.COLUMNS).collect()
    paths = {name: [file.path for file in files if file.query == name] for name in group.names}
    if ordered:
        directory.keep(paths, task.schemas)
    for name in group.names:
        rows = [file.rows for file in files if file.query == name]
        if not ordered:
            _in_order(replay, name, paths[name], task.schemas[name]).write.parquet(
                f"{directory.unfinished}/{folder_of(name)}"
            )
        yield WriteStatistics(
            name, sum(rows), max(len(rows), 1), max(rows, default=0), time.monotonic() - start, group.description
        )


def _in_order(replay: Replay, name: str, paths: list[str], schema: pa.Schema) -> DataFrame:
    """The rows of all pieces in order."""
    kinds, spark = spark_schema(schema), replay.job.spark
    frame = spark.read.schema(kinds).parquet(*paths) if paths else spark.createDataFrame([], kinds)
    return replay.plan.in_order(frame).select(*map(column, replay.job.schemas[name].names))


def read(replay: Replay, out: str) -> dict[str, Any]:
    """The results in a directory, as ordered frames."""
    from pyspark.sql import functions as F  # noqa: N812

    results = {}
    for name in replay.job.names:
        frame = replay.job.spark.read.schema(spark_schema(replay.job.schemas[name])).parquet(f"{out}/{folder_of(name)}")
        results[name] = frame.orderBy(F.col("_metadata.file_name"), F.col("_metadata.row_index"))
    return results
