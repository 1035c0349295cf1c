"""Shapes of files and frames that people have, each with its rows as pandas or DuckDB reads them."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import gzip
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Shape:
    """A source: what `make` puts into a folder or gives, read with `options` and perhaps a declared `schema`.

    `expected`: the rows, by another reader, of that source.
    """

    name: str
    make: Callable[[pathlib.Path], Any]
    expected: Callable[[Any], Rows]
    schema: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def shapes() -> list[Shape]:
    """All shapes."""
    return [*csv_shapes(), *timestamp_shapes(), *ndjson_shapes(), *parquet_shapes(), *frame_shapes(), *folder_shapes()]


def plain(value: Any) -> Any:
    """A value as Python has it: NULL for what is missing, times in UTC without a zone, decimals without zeros at their end."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in value]
    if (
        value is None
        or value is pd.NaT
        or value is pd.NA
        or (isinstance(value, (float, np.floating)) and np.isnan(value))
    ):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime(warn=False)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value.normalize() if isinstance(value, decimal.Decimal) else value


def by_pandas(**options: Any) -> Callable[[Any], Rows]:
    """The rows of a CSV file by pandas, with the timestamps under `ts`."""

    def read(path: Any) -> Rows:
        frame = pd.read_csv(path, **{"keep_default_na": False, "na_values": [], **options})
        return [{str(name): plain(value) for name, value in row.items()} for row in frame.to_dict("records")]

    return read


def by_sql(select: str) -> Callable[[Any], Rows]:
    """The rows of a file or frame by a SELECT of DuckDB, in which `source` stands for it."""

    def read(source: Any) -> Rows:
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        if isinstance(source, pathlib.Path):
            found = connection.sql(select.replace("source", f"'{source}'"))
        else:
            connection.register("source", source)
            found = connection.sql(select)
        return [dict(zip(found.columns, map(plain, row), strict=True)) for row in found.fetchall()]

    return read


def rows(*expected: Mapping[str, Any]) -> Callable[[Any], Rows]:
    """Rows that are written down, where other readers have other types."""
    return lambda _: [dict(row) for row in expected]


def text(name: str, content: str | bytes) -> Callable[[pathlib.Path], pathlib.Path]:
    """A file of this content."""

    def make(folder: pathlib.Path) -> pathlib.Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


# CSV ------------------------------------------------------------------------------------------------------------------

_CSV = ["ts,a,b,c", "1000,1,0.5,x", "2000,-2,1e300,y z", "2000,3,-0.25,ä€😀"]
_ENDS = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}
_MARKS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}


def csv_shapes() -> Iterator[Shape]:
    for mark_name, mark in _MARKS.items():
        for end_name, end in _ENDS.items():
            for last in ("", end):
                content = end.join(line.replace(",", mark) for line in _CSV) + last
                name = f"csv {mark_name} {end_name}{' no last end' * (not last)}"
                yield Shape(name, text("t.csv", content), by_pandas(sep=mark))
    lines = "\n".join(_CSV) + "\n"
    quoted = "\n".join(",".join(f'"{field}"' for field in line.split(",")) for line in _CSV) + "\n"
    packed = {"gz": gzip.compress(lines.encode()), "zst": pa.compress(lines.encode(), "zstd", asbytes=True)}
    for end, data in packed.items():
        compression = {"gz": "gzip", "zst": None}[end]
        expected = by_pandas(compression=compression) if compression else lambda _: _same(lines)
        yield Shape(f"csv {end}", text(f"t.csv.{end}", data), expected)
    for name, content in {
        "bom": "\ufeff" + lines,
        "all quoted": quoted,
        "quoted header": '"ts","a","b","c"\n' + lines.split("\n", 1)[1],
        "blank lines": lines.replace("\n", "\n\n"),
        "blank lines before": "\n\n" + lines,
        "named otherwise": lines,
        "tsv by ending": lines.replace(",", "\t"),
        "one row": "ts,a\n1,2\n",
        "one column": "ts,a\n1,5\n2,6\n",
        "quotes in quotes": 'ts,c\n1,"a ""b"" c"\n2,""""\n',
        "line end in quotes": 'ts,c\n1,"a\nb"\n2,"c\r\nd"\n',
        "delimiter in quotes": 'ts,c\n1,"a,b"\n2,","\n',
        "blanks kept in texts": "ts,c\n1, x \n2,\ty\n",
        "long text": f"ts,c\n1,{'x' * 70_000}\n2,y\n",
        "300 columns": "ts," + ",".join(f"c{n}" for n in range(300)) + "\n1," + ",".join(map(str, range(300))) + "\n",
        "3000 rows": "ts,a\n" + "".join(f"{n},{n * n}\n" for n in range(3000)),
        "names with blanks": "ts,my column,größe\n1,2,3\n",
        "words of SQL as names": "ts,select,from,order\n1,2,3,4\n",
        "negative times": "ts,a\n-5,1\n0,2\n",
        "signs and exponents": "ts,a,b\n1,-7,+1.5e-3\n2,8,-2E5\n",
        "ends of 64 bits": f"ts,a\n1,{2**63 - 1}\n2,{-(2**63)}\n",
        "digits of a double": "ts,b\n1,0.1\n2,1.7976931348623157e308\n3,5e-324\n",
        "zeros before": "ts,c\n1,007x\n2,08x\n",
        "an unnamed column": "ts,a,\n1,2,3\n",
    }.items():
        file = {"named otherwise": "t.dat", "tsv by ending": "t.tsv"}.get(name, "t.csv")
        options: dict[str, Any] = {"sep": "\t"} if file == "t.tsv" else {}
        expected = by_pandas(**options)
        if name == "an unnamed column":
            expected = rows({"ts": 1, "a": 2})
        yield Shape(f"csv {name}", text(file, content), expected)
    yield from _csv_values()


def _same(content: str) -> Rows:
    import io

    return by_pandas()(io.StringIO(content))


def _csv_values() -> Iterator[Shape]:
    """Values that pandas reads with other types, or only with a hint: booleans, NULLs, decimals, dates."""
    for spelling in (("true", "false"), ("True", "False"), ("TRUE", "FALSE")):
        yield Shape(f"csv {spelling[0]}", text("t.csv", f"ts,f\n1,{spelling[0]}\n2,{spelling[1]}\n"), by_pandas())
    empty = {"keep_default_na": False, "na_values": [""]}
    yield Shape("csv NULL number", text("t.csv", "ts,b,d\n1,,0.5\n2,2,\n"), by_pandas(**empty, dtype={"b": "Int64"}))
    yield Shape("csv NULL text", text("t.csv", "ts,c,d\n1,,5\n2,x,6\n"), by_pandas(**empty))
    yield Shape("csv empty text", text("t.csv", 'ts,c\n1,""\n2,x\n'), by_pandas())
    yield Shape("csv NULL column", text("t.csv", "ts,c,a\n1,,5\n2,,6\n"), by_pandas(**empty))
    words = ["NA", "N/A", "n/a", "#N/A", "NULL", "null"]
    missing = "ts,b,c\n0,1.5,x\n" + "".join(f"{n},{word},{word}\n" for n, word in enumerate(words, 1))
    yield Shape("csv words for NULL", text("t.csv", missing), by_pandas(na_values={"b": words}))
    yield Shape("csv NaN", text("t.csv", "ts,b\n1,NaN\n2,1.5\n"), by_pandas(keep_default_na=True, na_values=["NaN"]))
    yield Shape("csv infinity", text("t.csv", "ts,b\n1,inf\n2,-inf\n3,1.5\n"), by_pandas())
    days = text("t.csv", "ts,day\n1,2024-02-29\n2,1969-12-31\n")
    yield Shape("csv dates", days, by_sql("SELECT ts, CAST(day AS DATE) AS day FROM read_csv(source)"))
    money = text("t.csv", "ts,m\n1,0.10\n2,-123456789012345.67\n")
    exact = "SELECT ts, m FROM read_csv(source, types = {'m': 'DECIMAL(20, 2)'})"
    yield Shape("csv decimals", money, by_sql(exact), "m DECIMAL(20, 2)")
    wide = text("t.csv", f"ts,id\n1,{2**64}\n2,{10**37}\n")
    yield Shape(
        "csv beyond 64 bits", wide, by_sql("SELECT ts, id FROM read_csv(source, types = {'id': 'DECIMAL(38, 0)'})")
    )
    declared = "SELECT ts, a, CAST(b AS VARCHAR) AS b FROM read_csv(source)"
    yield Shape("csv declared text", text("t.csv", "ts,a,b\n1,2,3\n"), by_sql(declared), "a INTEGER, b VARCHAR")
    yield Shape("csv declared in another case", text("t.csv", "TS,A\n1,2\n"), rows({"ts": 1, "a": 2}), "a INTEGER")
    yield Shape("csv columns left out", text("t.csv", "x,ts,a,y\n1,2,3,4\n"), rows({"ts": 2, "a": 3}), "a INTEGER")
    yield Shape(
        "csv in another order",
        text("t.csv", "b,ts,a\n1,2,3\n"),
        rows({"ts": 2, "a": 3, "b": 1}),
        "a INTEGER, b INTEGER",
    )
    yield Shape("csv header alone", text("t.csv", "ts,a\n"), rows(), "a INTEGER")
    yield Shape("csv latest first", text("t.csv", "ts,a\n3,1\n1,2\n2,3\n"), _sorted_by_pandas, None, {"sort": True})


def _sorted_by_pandas(path: Any) -> Rows:
    return sorted(by_pandas()(path), key=lambda row: row["ts"])


# Timestamps -----------------------------------------------------------------------------------------------------------


def timestamp_shapes() -> Iterator[Shape]:
    first, second = 1_711_846_804_123, 1_711_846_805_000
    for unit, of_second in {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}.items():
        numbers = [str(first * of_second // 1000), str(second * of_second // 1000)]
        content = f"time,a\n{numbers[0]},1\n{numbers[1]},2\n"
        for option in (unit, "auto"):
            times = _milliseconds("time", unit=unit)
            yield Shape(f"times {unit} as {option}", text("t.csv", content), times, None, {"timestamp_unit": option})
    for name, pattern in {
        "T": "%Y-%m-%dT%H:%M:%S.%f",
        "blank": "%Y-%m-%d %H:%M:%S.%f",
        "Z": "%Y-%m-%dT%H:%M:%S.%fZ",
        "+00": "%Y-%m-%d %H:%M:%S+00:00",
        "+0200": "%Y-%m-%d %H:%M:%S+0200",
        "-05:30": "%Y-%m-%dT%H:%M:%S-05:30",
        "seconds": "%Y-%m-%d %H:%M:%S",
        "minutes": "%Y-%m-%d %H:%M",
        "days": "%Y-%m-%d",
        "slashes": "%Y/%m/%d %H:%M:%S",
        "UTC": "%Y-%m-%d %H:%M:%S UTC",
    }.items():
        moments = [datetime.datetime.fromtimestamp(each / 1000, datetime.UTC) for each in (first, second)]
        content = "".join(f"{moment.strftime(pattern)},{place}\n" for place, moment in enumerate(moments))
        yield Shape(f"times {name}", text("t.csv", "timestamp,a\n" + content), _milliseconds("timestamp", utc=True))
    for name in ("ts", "timestamp", "time", "event_time", "datetime", "date"):
        yield Shape(f"times called {name}", text("t.csv", f"a,{name}\n1,5\n2,6\n"), _milliseconds(name, unit="ms"))
    named = text("t.csv", "ts,created,a\n9,5,1\n8,6,2\n")
    yield Shape(
        "times named", named, _milliseconds("created", unit="ms", keeps=("ts",)), "a INTEGER", {"timestamp": "created"}
    )


def _milliseconds(name: str, keeps: tuple[str, ...] = (), **options: Any) -> Callable[[Any], Rows]:
    """The rows of a CSV file, its timestamps as pandas reads them."""

    def read(path: Any) -> Rows:
        frame = pd.read_csv(path)
        moments = pd.to_datetime(frame[name], **options)
        millis = (
            moments.astype("datetime64[ns, UTC]" if moments.dt.tz else "datetime64[ns]").astype("int64") // 10**6
        ).tolist()
        found = frame.drop(columns=[name, *keeps]).to_dict("records")
        return [{"ts": ts, **{str(n): plain(v) for n, v in row.items()}} for ts, row in zip(millis, found, strict=True)]

    return read


# NDJSON ---------------------------------------------------------------------------------------------------------------


def ndjson_shapes() -> Iterator[Shape]:
    objects: Rows = [{"ts": 1, "a": 1, "b": 0.5, "c": "x"}, {"ts": 2, "a": -2, "b": 1e300, "c": "ä€😀"}]
    lines = [json.dumps(each) for each in objects]
    joined = "\n".join(lines) + "\n"
    for name, content in {
        "plain": joined,
        "crlf": joined.replace("\n", "\r\n"),
        "no last end": joined.strip(),
        "blank lines": joined.replace("\n", "\n\n"),
        "bom": "\ufeff" + joined,
        "gz": gzip.compress(joined.encode()),
        "zst": pa.compress(joined.encode(), "zstd", asbytes=True),
        "blanks around": "\n".join(f"  {line} \t" for line in lines) + "\n",
        "not escaped": "\n".join(json.dumps(each, ensure_ascii=False) for each in objects) + "\n",
        "keys in another order": "\n".join(json.dumps(dict(reversed(each.items()))) for each in objects) + "\n",
    }.items():
        ending = f".{name}" if name in ("gz", "zst") else ""
        yield Shape(f"ndjson {name}", text(f"t.ndjson{ending}", content), rows(*objects))
    for name, given in {
        "missing keys": [{"ts": 1, "a": 1}, {"ts": 2, "b": 2}],
        "nulls": [{"ts": 1, "a": None}, {"ts": 2, "a": 2}],
        "whole numbers and fractions": [{"ts": 1, "a": 1}, {"ts": 2, "a": 0.5}],
        "booleans": [{"ts": 1, "f": True}, {"ts": 2, "f": False}],
        "escapes": [{"ts": 1, "c": 'a"b\\c/\n\t\u0001\u2028'}],
        "empty texts": [{"ts": 1, "c": ""}],
        "ends of 64 bits": [{"ts": 1, "a": 2**63 - 1}, {"ts": 2, "a": -(2**63)}],
        "objects": [{"ts": 1, "o": {"x": 1, "y": {"z": "t"}}}, {"ts": 2, "o": {"x": 2, "y": {"z": None}}}],
        "lists": [{"ts": 1, "l": [1, 2]}, {"ts": 2, "l": []}, {"ts": 3, "l": None}],
        "objects in lists": [{"ts": 1, "l": [{"x": 1}, {"x": 2}]}],
        "one key": [{"ts": 1, "a": 5}],
        "many rows": [{"ts": n, "a": n * n} for n in range(2000)],
    }.items():
        names = dict.fromkeys(key for row in given for key in row)
        expected = [{key: row.get(key) for key in names} for row in given]
        yield Shape(
            f"ndjson {name}", text("t.jsonl", "".join(json.dumps(row) + "\n" for row in given)), rows(*expected)
        )
    by = by_sql(
        'SELECT epoch_ms(CAST("at" AS TIMESTAMPTZ)) AS ts, a '
        "FROM read_json(source, columns = {\"at\": 'VARCHAR', a: 'INTEGER'})"
    )
    zoned = '{"at": "2024-03-31T01:00:04.5+02:00", "a": 1}\n{"at": "2024-03-31T01:00:05Z", "a": 2}\n'
    yield Shape("ndjson times", text("t.json", zoned), by, None, {"timestamp": "at"})
    dates = text("t.ndjson", '{"ts": 1, "d": "2024-02-29"}\n{"ts": 2, "d": null}\n')
    yield Shape(
        "ndjson dates", dates, by_sql("SELECT ts, d FROM read_json(source, columns = {ts: 'BIGINT', d: 'DATE'})")
    )
    money = text("t.ndjson", '{"ts": 1, "m": 0.1}\n{"ts": 2, "m": "2.50"}\n')
    yield Shape(
        "ndjson decimals",
        money,
        rows({"ts": 1, "m": decimal.Decimal("0.1")}, {"ts": 2, "m": decimal.Decimal("2.5")}),
        "m DECIMAL(6, 2)",
    )
    yield Shape(
        "ndjson keys left out", text("t.ndjson", '{"ts": 1, "a": 1, "x": {}}\n'), rows({"ts": 1, "a": 1}), "a INTEGER"
    )
    yield Shape("ndjson empty", text("t.ndjson", ""), rows(), "a INTEGER")


# Parquet --------------------------------------------------------------------------------------------------------------


def _table(count: int = 50) -> pa.Table:
    places = range(count)
    return pa.table(
        {
            "ts": [1000 * place for place in places], "a": [place if place % 7 else None for place in places],
            "b": [place / 4 for place in places], "c": [f"text {place % 5}" if place % 3 else None for place in places],
        }
    )  # fmt: skip


def parquet(table: pa.Table, **options: Any) -> Callable[[pathlib.Path], pathlib.Path]:
    """A Parquet file of a table."""

    def make(folder: pathlib.Path) -> pathlib.Path:
        pq.write_table(table, folder / "t.parquet", **options)
        return folder / "t.parquet"

    return make


def _column(values: list[Any], kind: Any = None) -> pa.Table:
    return pa.table({"ts": list(range(len(values))), "v": pa.array(values, kind)})


def parquet_shapes() -> Iterator[Shape]:
    everything = by_sql("SELECT * FROM source")
    for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        yield Shape(f"parquet {codec}", parquet(_table(), compression=codec), everything)
    for name, options in {
        "row groups": {"row_group_size": 7},
        "no dictionary": {"use_dictionary": False},
        "pages of version 2": {"data_page_version": "2.0"},
        "version 1.0": {"version": "1.0"},
        "small pages": {"data_page_size": 64},
        "no statistics": {"write_statistics": False},
        "delta encoding": {
            "use_dictionary": False,
            "column_encoding": {"a": "DELTA_BINARY_PACKED", "c": "DELTA_BYTE_ARRAY"},
        },
        "split bytes": {"use_dictionary": False, "column_encoding": {"b": "BYTE_STREAM_SPLIT"}},
    }.items():
        yield Shape(f"parquet {name}", parquet(_table(), **options), everything)
    yield Shape("parquet no rows", parquet(_table().slice(0, 0)), everything)
    yield Shape(
        "parquet dictionary", parquet(_table().set_column(3, "c", _table()["c"].dictionary_encode())), everything
    )
    small = [1, None, 3]
    kinds: dict[str, tuple[list[Any], Any]] = {
        **{
            str(kind): (small, kind)
            for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float32())
        },
        "uint64": ([2**64 - 1, 0], pa.uint64()),
        "bool": ([True, None, False], pa.bool_()),
        "large_string": (["x", None], pa.large_string()),
        "decimal128": ([decimal.Decimal("1.25"), None], pa.decimal128(10, 2)),
        "decimal of 38 digits": ([decimal.Decimal(10**37)], pa.decimal128(38, 0)),
        "date32": ([datetime.date(2024, 2, 29), None], pa.date32()),
        "timestamp[ms]": ([datetime.datetime(2024, 2, 29, 1)], pa.timestamp("ms")),
        "timestamp[us, Berlin]": (
            [datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.UTC)],
            pa.timestamp("us", "Europe/Berlin"),
        ),
        "list": ([[1, 2], [], None], pa.list_(pa.int64())),
        "struct": ([{"x": 1, "y": "t"}, {"x": None, "y": None}], pa.struct({"x": pa.int64(), "y": pa.string()})),
        "list of structs": ([[{"x": 1}], []], pa.list_(pa.struct({"x": pa.int64()}))),
    }
    for name, (values, kind) in kinds.items():
        yield Shape(f"parquet {name}", parquet(_column(values, kind)), everything)
    days = _column([datetime.time(1, 2, 3), None], pa.time64("us"))
    yield Shape("parquet time of day", parquet(days), by_sql("SELECT ts, CAST(v AS VARCHAR) AS v FROM source"))
    for unit in ("ms", "us", "ns"):
        for zone in (None, "UTC", "America/New_York"):
            moments = pa.array([1_711_846_804_123, 1_711_846_805_000], pa.timestamp("ms", zone)).cast(
                pa.timestamp(unit, zone)
            )
            table = pa.table({"at": moments, "a": [1, 2]})
            by = by_sql('SELECT epoch_ms(CAST("at" AS TIMESTAMP WITH TIME ZONE)) AS ts, a FROM source')
            yield Shape(f"parquet times {unit} {zone}", parquet(table), by)
    yield Shape("parquet columns left out", parquet(_table()), by_sql("SELECT ts, b FROM source"), "b DOUBLE")


# Frames ---------------------------------------------------------------------------------------------------------------


def frame_shapes() -> Iterator[Shape]:
    table = _table()
    everything = by_sql("SELECT * FROM source")
    of_table = lambda _: by_sql("SELECT * FROM source")(table)  # noqa: E731
    indexed = table.to_pandas().assign(at=lambda frame: pd.to_datetime(frame["ts"], unit="ms")).drop(columns="ts")
    makes: dict[str, Callable[[], Any]] = {
        "pandas": table.to_pandas,
        "pandas of Arrow": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas nullable": lambda: table.to_pandas().convert_dtypes(),
        "pandas category": lambda: table.to_pandas().astype({"c": "category"}),
        "pandas named index": lambda: table.to_pandas().set_index("ts"),
        "pandas index of two": lambda: table.to_pandas().set_index(["ts", "b"])[["a", "c"]],
        "pandas index of times": lambda: indexed.set_index("at"),
        "pandas index without a name": lambda: indexed.set_index(pd.DatetimeIndex(indexed["at"], name=None)).drop(
            columns="at"
        ),
        "pandas index of zoned times": lambda: indexed.assign(
            at=indexed["at"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
        ).set_index("at"),
        "pandas filtered": lambda: table.to_pandas().query("b >= 0"),
        "polars": lambda: pl.DataFrame(table),
        "polars lazy": lambda: pl.DataFrame(table).lazy(),
        "polars categorical": lambda: pl.DataFrame(table).with_columns(pl.col("c").cast(pl.Categorical)),
        "polars enum": lambda: pl.DataFrame(table).with_columns(
            pl.col("c").cast(pl.Enum([f"text {n}" for n in range(5)]))
        ),
        "arrow": lambda: table,
        "arrow chunked": lambda: pa.concat_tables([table.slice(0, 9), table.slice(9)]),
        "arrow batches": lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=8)),
        "arrow batch": lambda: table.to_batches()[0],
        "arrow sliced": lambda: pa.concat_tables([table, table]).slice(0, 50),
        "duckdb": lambda: duckdb.from_arrow(table),
        "duckdb query": lambda: duckdb.from_arrow(table).filter("b >= 0"),
        "dictionaries": table.to_pylist,
        "generator of dictionaries": lambda: iter(table.to_pylist()),
        "pairs": lambda: [({"a": r["a"], "b": r["b"], "c": r["c"]}, r["ts"]) for r in table.to_pylist()],
    }
    for name, make in makes.items():
        yield Shape(name, lambda folder, make=make: make(), of_table, "a BIGINT, b DOUBLE, c VARCHAR")
    for name, frame in {
        "polars datetime": pl.DataFrame({"ts": [1, 2], "at": [datetime.datetime(2024, 2, 29, 1), None]}),
        "polars decimal": pl.DataFrame({"ts": [1], "m": [decimal.Decimal("1.25")]}),
        "polars list": pl.DataFrame({"ts": [1, 2], "l": [[1], []]}),
        "polars struct": pl.DataFrame({"ts": [1], "o": [{"x": 1, "y": "t"}]}),
        "polars date": pl.DataFrame({"ts": [1], "d": [datetime.date(2024, 2, 29)]}),
    }.items():
        yield Shape(name, lambda folder, frame=frame: frame, lambda frame: everything(frame.to_arrow()))
    objects = pd.DataFrame(
        {"ts": [1, 2], "c": ["x", None], "m": [decimal.Decimal("1.5"), None], "d": [datetime.date(2024, 2, 29), None]}
    )
    yield Shape("pandas objects", lambda folder: objects, lambda frame: everything(pa.Table.from_pandas(frame)))
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "Europe/Berlin"):
            moments = pd.Series(pd.to_datetime([1_711_846_804, 1_711_846_805], unit="s", utc=True)).dt.tz_convert(zone)
            frame = pd.DataFrame({"at": moments.dt.as_unit(unit), "a": [1, 2]})
            yield Shape(f"pandas times {unit} {zone}", lambda folder, frame=frame: frame, _rows_of_times)


def _rows_of_times(frame: Any) -> Rows:
    moments = frame["at"] if frame["at"].dt.tz is not None else frame["at"].dt.tz_localize("UTC")
    return [{"ts": int(at.timestamp() * 1000), "a": a} for at, a in zip(moments, frame["a"], strict=True)]


# Folders --------------------------------------------------------------------------------------------------------------


def folder_shapes() -> Iterator[Shape]:
    """Several files as one stream, also with columns that their folders name."""
    for ending in ("csv", "parquet", "ndjson"):
        read = {"csv": "read_csv", "parquet": "read_parquet", "ndjson": "read_json"}[ending]
        for name, (folders, pattern, select) in {
            "files": ([""] * 2, "*", "ts, v"),
            "folders": (["x", "y"], "*/*", "ts, v"),
            "deep folders": (["x/1", "y"], "**/*", "ts, v"),
            "year=": (["year=2023", "year=2024"], "*/*", "ts, v, year"),
            "year= and shop=": (["year=2023/shop=a", "year=2024/shop=b"], "*/*/*", "ts, v, year, shop"),
            "day=": (["day=2024-02-29", "day=2024-03-01"], "*/*", "ts, v, CAST(day AS DATE) AS day"),
            "escaped": (["shop=a%20b", "shop=c%2Fd"], "*/*", "ts, v, shop"),
        }.items():
            by = f"SELECT {select} FROM {read}(source, hive_partitioning = true) ORDER BY ts"

            def make(
                folder: pathlib.Path, folders: list[str] = folders, pattern: str = pattern, ending: str = ending
            ) -> pathlib.Path:
                for place, name in enumerate(folders):
                    _write(
                        folder / "of" / name / f"part{place}.{ending}",
                        pa.table({"ts": [2 * place, 2 * place + 1], "v": [place, 7]}),
                    )
                return folder / "of" / f"{pattern}.{ending}"

            yield Shape(f"{ending} in {name}", make, by_sql(by))


def _write(path: pathlib.Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".csv":
            table.to_pandas().to_csv(path, index=False)
        case ".ndjson":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case _:
            pq.write_table(table, path)
