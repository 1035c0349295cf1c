"""Results as Parquet, one directory a query: written beside, and in their place all at once when they are complete."""

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
from bridge.spark.big_partitions import NO_STRANDS
from bridge.spark.columns import ORDER, spark_schema
from bridge.spark.events import column
from bridge.spark.groups import Group
from bridge.spark.pieces import Replay
from bridge.spark.task import Writer, folder_of
from bridge.spark.write_back import write as write_letters
from bridge.spark.writes import run_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNFINISHED = "_unfinished-"
"""Directories of runs that are under way, or died."""


@dataclasses.dataclass(frozen=True)
class Written:
    """What a run has written of one query: its rows, over all pieces and in the largest; the seconds of its pass."""

    query: str
    rows: int
    pieces: int
    largest: int
    seconds: float
    told: str

    @property
    def skew(self) -> float:
        """The largest piece's rows, as a multiple of an average one's."""
        return self.largest * self.pieces / self.rows if self.rows else 1.0


class Directory:
    """A directory of results on any file system that Arrow knows; one run writes at a time.

    A query's results appear as `<query>.parquet` when they are complete; a run that died leaves what was there before.
    """

    def __init__(self, path: str) -> None:
        given = path if "://" in path else f"file://{os.path.abspath(path)}"
        try:
            self._system, self._base = fs.FileSystem.from_uri(given)
            self._system.create_dir(self._base, recursive=True)
            self._sweep()
            self._run = _unfinished()
            self._system.create_dir(f"{self._base}/{self._run}", recursive=True)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"results cannot be written to {path}: {error}") from None
        self._root = given.rstrip("/")

    @property
    def under_way(self) -> str:
        """The URI to which this run writes."""
        return f"{self._root}/{self._run}"

    def unsorted(self) -> str:
        """The URI of a directory below it, for files whose rows are still to be put in order."""
        self._system.create_dir(f"{self._base}/{self._run}/raw", recursive=True)
        return f"{self.under_way}/raw"

    def publish(self, names: Iterable[str]) -> None:
        """Puts what was written in its place; what was there before goes."""
        for name in names:
            made, place = f"{self._base}/{self._run}/{folder_of(name)}", f"{self._base}/{folder_of(name)}"
            before = f"{self._base}/{self._run}/before-{folder_of(name)}"
            if self._is_there(place):
                self._system.move(place, before)
            self._system.move(made, place)
        self._sweep()

    def keep(self, files: Mapping[str, Iterable[str]], schemas: Mapping[str, pa.Schema]) -> None:
        """Of what tasks wrote, only these files count: an attempt that failed may have left others. One at least each."""
        import pyarrow.parquet as pq

        for name, paths in files.items():
            folder = f"{self._base}/{self._run}/{folder_of(name)}"
            self._system.create_dir(folder, recursive=True)
            wanted = {path.rsplit("/", 1)[-1] for path in paths}
            for found in self._system.get_file_info(fs.FileSelector(folder)):
                if found.base_name not in wanted:
                    self._system.delete_file(found.path)
            if not wanted:
                pq.write_table(schemas[name].empty_table(), f"{folder}/part-00000.parquet", filesystem=self._system)

    def discard(self) -> None:
        """Removes what this run has written."""
        if self._is_there(f"{self._base}/{self._run}"):
            self._system.delete_dir(f"{self._base}/{self._run}")

    def _sweep(self) -> None:
        """Removes what runs that died have left; results they had moved away come back.

        Under another name first: a process of such a run that is still there then has no place to write to.
        """
        for found in self._system.get_file_info(fs.FileSelector(self._base)):
            if found.base_name.startswith(UNFINISHED):
                for inside in self._system.get_file_info(fs.FileSelector(found.path)):
                    place = f"{self._base}/{inside.base_name.removeprefix('before-')}"
                    if inside.base_name.startswith("before-") and not self._is_there(place):
                        self._system.move(inside.path, place)
                gone = f"{self._base}/{_unfinished()}"
                self._system.move(found.path, gone)
                self._system.delete_dir(gone)

    def _is_there(self, path: str) -> bool:
        return bool(self._system.get_file_info(path).type != fs.FileType.NotFound)


def _unfinished() -> str:
    """A name that no other run's directory has."""
    return f"{UNFINISHED}{uuid.uuid4().hex[:12]}"


def write(replay: Replay, out: str, run: str | None = None) -> list[Written]:
    """Computes all queries, those in the same pieces in one pass, and puts their results into a directory.

    What the script writes to databases is written when all is computed, as that of this `run`.
    """
    directory = Directory(out)
    try:
        told = [line for group in replay.groups() for line in _write_group(replay, group, directory)]
        write_letters(replay, run_name(run))
        directory.publish(replay.names)
    except BaseException as error:
        directory.discard()
        raise own(error) from None
    return told


def own(error: BaseException) -> BaseException:
    """The error of ours that an executor raised, or else what there is: Spark tells it as a text."""
    found = re.search(r"bridge\.errors\.(\w+): (.+)", str(error))
    kind = getattr(errors, found[1], None) if found else None
    return kind(found[2]) if found and kind in (errors.SourceError, errors.OrderError, errors.SchemaError) else error


def _write_group(replay: Replay, group: Group, directory: Directory) -> Iterator[Written]:
    if group.strands.found:
        yield from _write_strands(replay, group, directory)
    else:
        yield from _write_pieces(replay, group, directory)


def _write_strands(replay: Replay, group: Group, directory: Directory) -> Iterator[Written]:
    """Those that cannot be joined are written as if there were no strands."""
    left = []
    for name in group.names:
        began = time.monotonic()
        parts = replay.joined(group, name)
        if parts is None:
            left.append(name)
            continue
        path = f"{directory.under_way}/{folder_of(name)}"
        replay.together(group, name, [part.frame for part in parts]).write.parquet(path)
        rows = replay.spark.read.schema(spark_schema(replay.schemas[name])).parquet(path).count()
        told = [matches for part in parts for matches in part.matches]
        largest = rows * max(told) // max(sum(told), 1)
        yield Written(name, rows, len(told), largest, time.monotonic() - began, group.told)
    if left:
        yield from _write_pieces(replay, dataclasses.replace(group, names=tuple(left), strands=NO_STRANDS), directory)


def _write_pieces(replay: Replay, group: Group, directory: Directory) -> Iterator[Written]:
    began = time.monotonic()
    task, pieces = replay.task(group)
    ordered = task.in_order
    raw = directory.under_way if ordered else directory.unsorted()
    files = pieces.mapInArrow(Writer(task, raw).write, Writer.COLUMNS).collect()
    paths = {name: [file.path for file in files if file.query == name] for name in group.names}
    if ordered:
        directory.keep(paths, task.wanted)
    for name in group.names:
        rows = [file.rows for file in files if file.query == name]
        if not ordered:
            _sorted(replay, name, paths[name], task.wanted[name]).write.parquet(
                f"{directory.under_way}/{folder_of(name)}"
            )
        yield Written(name, sum(rows), max(len(rows), 1), max(rows, default=0), time.monotonic() - began, group.told)


def _sorted(replay: Replay, name: str, paths: list[str], schema: pa.Schema) -> DataFrame:
    """The rows of all pieces in one order."""
    found = spark_schema(schema)
    frame = replay.spark.read.schema(found).parquet(*paths) if paths else replay.spark.createDataFrame([], found)
    return frame.orderBy(*map(column, ORDER)).select(*map(column, replay.schemas[name].names))


def read(replay: Replay, out: str) -> dict[str, Any]:
    """The results in a directory as frames, in their order."""
    from pyspark.sql import functions as F  # noqa: N812

    found = {}
    for name in replay.names:
        frame = replay.spark.read.schema(spark_schema(replay.schemas[name])).parquet(f"{out}/{folder_of(name)}")
        found[name] = frame.orderBy(F.col("_metadata.file_name"), F.col("_metadata.row_index"))
    return found
