"""Streams as Spark frames: the timestamp, the order among rows with equal timestamps, and the columns of the attributes."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from bridge.errors import SourceError, first_line
from bridge.history.script import ReplayScript, sources_of
from bridge.sources.arrow import EARLIEST
from bridge.sources.folders import fixed_folder
from bridge.sources.layout import Layout, layout_of
from bridge.sources.options import HistoryOptions, ReadOptions
from bridge.sources.source import ending_of, open_source, paths_of
from bridge.sources.times import AUTO, TO_MS, TimeUnit, likely_unit
from bridge.spark.columns import TIME, arrow_type_of_spark
from bridge.spark.file_source import FileSource
from windows.arrow import arrow_type
from windows.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


FILE, ROW = "file", "row"
"""Columns of a frame of events that order rows with equal TIME."""


@dataclasses.dataclass(frozen=True)
class Events:
    """The events of one stream: a frame of TIME, FILE, ROW, and `c0`, `c1`, … for the columns of `layout`.

    `file`: the source, if it is of Parquet.
    """

    stream: str
    schema: Schema
    layout: Layout
    frame: DataFrame
    file: FileSource | None = None

    @property
    def columns(self) -> list[str]:
        """The columns of the frame that hold the columns of the layout."""
        return [f"c{place}" for place in range(len(self.layout.columns))]

    def column_of(self, attribute: str) -> str:
        """The column of an attribute."""
        name = next(column for own, column in self.layout.attributes if own.name == attribute)
        return self.columns[self.layout.columns.index(name)]


def open_events(
    spark: SparkSession, script: ReplayScript, sources: Mapping[str, Any], options: HistoryOptions
) -> list[Events]:
    """The events of each stream, in the order of the mapping. Only the columns are read now.

    A declared stream without a source has no events.
    """
    given = {name.lower() for name in sources}
    empty: dict[str, Any] = {name: [] for name in script.declared if name.lower() not in given}
    return [_open(spark, *described) for described in sources_of(script, {**sources, **empty}, options)]


def _open(spark: SparkSession, stream: str, source: Any, schema: Schema | None, options: ReadOptions) -> Events:
    from pyspark.sql import functions as F  # noqa: N812

    frame, file, row, is_read = _frame(spark, stream, source, schema, options)
    own = ReadOptions("ts") if is_read else options
    unit = TimeUnit(own.timestamp_unit)
    layout = layout_of(stream, _arrow_columns(frame), schema, own.timestamp, lambda text: None, typed=True, unit=unit)
    known = schema or Schema(tuple(attribute for attribute, _ in layout.attributes))
    columns = [column(name).alias(f"c{place}") for place, name in enumerate(layout.columns)]
    if unit.name == AUTO:
        unit.name = _likely_unit(stream, frame, layout.columns[0])
    time = _milliseconds(frame, layout.columns[0], unit.name)
    # a row without a timestamp comes first, so that the bridge refuses it
    first = F.coalesce(time, F.lit(EARLIEST)).cast("long").alias(TIME)
    selected = frame.select(first, file.cast("int").alias(FILE), row.cast("long").alias(ROW), *columns)
    is_file = isinstance(source, (str, os.PathLike)) and not is_read
    path = os.fspath(source) if is_file and _is_path(os.fspath(source)) else None
    files = None if path is None else FileSource(stream, frame, path, schema, known, options)
    return Events(stream, known, layout, selected, files)


class _Frame(NamedTuple):
    """The rows of a source, and the expressions of their FILE and ROW.

    `is_read`: whether the columns are `ts`, in milliseconds, and the attributes, as read by `open_source`.
    """

    frame: DataFrame
    file: Column
    row: Column
    is_read: bool = False


def _frame(spark: SparkSession, stream: str, source: Any, schema: Schema | None, options: ReadOptions) -> _Frame:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812

    position = F.monotonically_increasing_id()
    if isinstance(source, DataFrame):
        return _Frame(source, F.lit(0), F.lit(0) if source.isStreaming else position)
    if isinstance(source, str) and not _is_path(source):
        return _Frame(_table(spark, source), F.lit(0), position)
    if isinstance(source, (str, os.PathLike)):
        return _files(spark, stream, os.fspath(source), schema, options)
    opened = open_source(stream, source, schema, dataclasses.replace(options, sort=True))
    whole = pa.concat_tables([*opened.tables()] or [_no_events(opened.schema)])
    numbered = whole.append_column("_place", pa.array(range(whole.num_rows), pa.int64()))
    return _Frame(spark.createDataFrame(numbered), F.lit(0), F.col("_place"), is_read=True)


def _no_events(schema: Schema) -> pa.Table:
    """A table with `ts` and these columns, without rows."""
    kinds = {attribute.name: arrow_type(attribute.type) or pa.string() for attribute in schema}
    return pa.schema({"ts": pa.int64(), **kinds}).empty_table()


def _files(spark: SparkSession, stream: str, path: str, schema: Schema | None, options: ReadOptions) -> _Frame:
    from pyspark.sql import functions as F  # noqa: N812

    if "://" in path or os.path.isdir(path) or path.endswith((".parquet", ".pq")) or _all_parquet(path):
        frame = _parquet(spark, path)
        if len(frame.inputFiles()) < 2:
            return _Frame(frame, F.lit(0), F.col("_metadata.row_index"))
        named = frame.withColumns({"_name": F.col("_metadata.file_path"), "_row": F.col("_metadata.row_index")})
        names = sorted(row[0] for row in named.select("_name").distinct().collect())
        numbers = spark.createDataFrame([(name, place) for place, name in enumerate(names)], "_name string, _at int")
        return _Frame(named.join(F.broadcast(numbers), "_name").drop("_name"), F.col("_at"), F.col("_row"))
    return _text_files(spark, stream, path, schema, options)


def _text_files(spark: SparkSession, stream: str, path: str, schema: Schema | None, options: ReadOptions) -> _Frame:
    """CSV and NDJSON, which executors read file by file like the local replay, so that each value is the same."""
    from pyspark.sql import functions as F  # noqa: N812

    paths = [os.path.abspath(name) for name in paths_of(path)]
    first = open_source(stream, path, schema, options)
    reader = TextFiles(stream, first.schema, dataclasses.replace(options, timestamp_unit=first.timestamp_unit()))
    first.close()
    files = spark.createDataFrame(list(enumerate(paths)), "file int, path string").repartitionById(
        len(paths), F.col("file")
    )
    return _Frame(files.mapInArrow(reader.read, reader.schema), F.col("_file"), F.col("_row"), is_read=True)


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    name = path if "://" in path else os.path.abspath(path)
    if "://" not in path and not glob.glob(name):
        raise SourceError(f"the file {path} does not exist")
    folders = fixed_folder(name) if "://" not in path and not os.path.isdir(path) and glob.has_magic(name) else None
    try:
        return (spark.read.option("basePath", folders) if folders else spark.read).parquet(name)
    except Exception as error:
        raise SourceError(f"{path} cannot be read as Parquet: {first_line(error)}") from None


def _table(spark: SparkSession, name: str) -> DataFrame:
    try:
        return spark.table(name)
    except Exception as error:
        raise SourceError(f"{name!r} is neither a file nor a table of Spark: {first_line(error)}") from None


def _is_path(source: str) -> bool:
    """Whether a text names files.

    Tables of Spark are named `trades`, `sales.trades`, or by a format: delta.`/data/trades`.
    """
    if "`" in source:
        return False
    return any(character in source for character in "/\\*?") or os.path.exists(source) or ending_of(source) is not None


def _all_parquet(path: str) -> bool:
    names = glob.glob(path, recursive=True)
    return bool(names) and all(name.endswith((".parquet", ".pq")) for name in names)


def _arrow_columns(frame: DataFrame) -> dict[str, pa.DataType]:
    hidden = {"_place", "_file", "_row", "_at"}
    return {field.name: arrow_type_of_spark(field.dataType) for field in frame.schema if field.name not in hidden}


def _likely_unit(stream: str, frame: DataFrame, name: str) -> str:
    """The likely unit of a frame's timestamps, by the first one."""
    if frame.isStreaming:
        raise SourceError(f"the unit of the timestamps of {stream!r} cannot be guessed: name it, timestamp_unit='s'")
    first = frame.where(column(name).isNotNull()).select(column(name)).first()
    return likely_unit(float(first[0])) if first and isinstance(first[0], (int, float, Decimal)) else "ms"


def _milliseconds(frame: DataFrame, name: str, unit: str | None) -> Column:
    """A column as milliseconds since 1970, like `TimeUnit.to_times`: times without a zone are in UTC."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    kind, time = frame.schema[name].dataType, column(name)
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        return F.unix_millis(time.cast("timestamp"))
    if isinstance(kind, T.DateType):
        return F.unix_date(time).cast("long") * 86_400_000
    times, divisor = TO_MS[unit or "ms"]
    if isinstance(kind, T.IntegralType) or (isinstance(kind, T.DecimalType) and kind.scale == 0):
        long = time.cast("long")
        return F.call_function("div", long - F.pmod(long, F.lit(divisor)), F.lit(divisor)) * times
    if isinstance(kind, T.NumericType) and unit is not None:
        return F.floor(F.rint(time.cast("double") * (1000 * times / divisor)) / 1000)
    raise SourceError(
        f"the timestamps {name!r} are {kind.simpleString()}; they must be whole milliseconds or timestamps, "
        "or numbers whose unit is named: --timestamp-unit (timestamp_unit= in Python)"
    )


def column(name: str) -> Column:
    """A column by its exact name."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col("`" + name.replace("`", "``") + "`")


@dataclasses.dataclass(frozen=True)
class TextFiles:
    """Reads text files of a stream on executors: `ts`, the attributes, the number of the file and of the row in it."""

    stream: str
    attributes: Schema
    options: ReadOptions

    @property
    def schema(self) -> str:
        """The columns in the form for `mapInArrow`."""
        from pyspark.sql.pandas.types import from_arrow_schema

        fields = [("ts", pa.int64()), *((a.name, arrow_type(a.type)) for a in self.attributes)]
        fields += [("_file", pa.int32()), ("_row", pa.int64())]
        return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)  # type: ignore[return-value]

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files that `batches` name."""
        for batch in batches:
            for file in batch.to_pylist():
                yield from self._rows(file["file"], file["path"])

    def _rows(self, number: int, path: str) -> Iterator[pa.RecordBatch]:
        source = open_source(self.stream, path, self.attributes, self.options)
        done = 0
        for table in source.tables():
            count = table.num_rows
            places = pa.array(np.arange(done, done + count))
            files = pa.array(np.full(count, number, np.int32))
            numbered = table.append_column("_file", files).append_column("_row", places)
            yield from numbered.combine_chunks().to_batches()
            done += count
