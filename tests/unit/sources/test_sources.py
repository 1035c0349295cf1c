"""Files of events: every format gives the same tables, and every wrong line is told by its place."""

from __future__ import annotations

import bz2
import contextlib
import datetime
import decimal
import gzip
import json
import lzma
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridge
from bridge.errors import SourceError
from bridge.sources.csv import end_of_rows, rows_of
from bridge.sources.merge import merge, take_until
from bridge.sources.options import ReadOptions
from bridge.sources.rejects import Rejects
from bridge.sources.relations import create_relation, read_relation
from bridge.sources.source import open_source
from windows.schema import Schema, TypeMismatch

SCHEMA = Schema.of(
    "symbol VARCHAR, price DOUBLE, count INTEGER, cost DECIMAL(10, 2), day DATE, at TIMESTAMP, ok BOOLEAN"
)

# fmt: off
GOOD = [
    {
        "ts": 1000, "symbol": 'A "x", y', "price": 9.5, "count": 3, "cost": "1.25", "day": "2024-02-29",
        "at": "2024-02-29T10:00:00", "ok": True,
    },
    {"ts": 1000, "symbol": "line\nend", "price": -1e300, "count": None, "cost": None, "day": None, "at": None,
     "ok": None},
    {"ts": 2000, "symbol": "", "price": 0.0, "count": -7, "cost": "-0.50", "day": "1969-12-31",
     "at": "1969-12-31T23:59:59.5", "ok": False},
    {"ts": 3000, "symbol": None, "price": None, "count": 0, "cost": "0.00", "day": None,
     "at": "2024-01-01T02:00:00+02:00", "ok": True},
    {"ts": 3000, "symbol": "größe", "price": 1.0, "count": 1, "cost": "2.00", "day": None, "at": None, "ok": None},
]
# fmt: on


def _csv_text(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    def field(value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value)

    lines = [delimiter.join(rows[0]), *(delimiter.join(map(field, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


def _json_text(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    typed = [
        {
            **row,
            "cost": row["cost"] and decimal.Decimal(row["cost"]),
            "day": row["day"] and datetime.date.fromisoformat(row["day"]),
            "at": row["at"] and datetime.datetime.fromisoformat(row["at"]).replace(tzinfo=datetime.UTC)
            if row["at"] and "+" not in row["at"]
            else row["at"] and datetime.datetime.fromisoformat(row["at"]),
        }
        for row in rows
    ]
    kinds = [("ts", pa.int64()), ("symbol", pa.string()), ("price", pa.float64()), ("count", pa.int32())]
    more = [("cost", pa.decimal128(10, 2)), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("ok", pa.bool_())]
    return pa.Table.from_pylist(typed, schema=pa.schema(kinds + more))


def _write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _ignore(text: str) -> None:
    pass


def _rows(
    source: Any, schema: Schema | None = None, note: Callable[[str], None] | None = None, **options: Any
) -> list[dict[str, Any]]:
    return [
        row
        for table in open_source("s", source, schema, ReadOptions(**options), note or _ignore).tables()
        for row in table.to_pylist()
    ]


def _stopped(source: Any, schema: Any, **options: Any) -> tuple[list[dict[str, Any]], str]:
    """The rows before the first bad one, and what is said about that."""
    rows: list[dict[str, Any]] = []
    with pytest.raises(SourceError) as caught:
        for table in open_source("s", source, Schema.of(schema), ReadOptions(**options)).tables():
            rows += table.to_pylist()
    return rows, str(caught.value)


def _skipped(path: Path, schema: Any, rejects: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    kept = Rejects({"s": rejects})
    rows = [row for table in open_source("s", path, Schema.of(schema)).tables(kept) for row in table.to_pylist()]
    kept.close()
    return rows, [json.loads(line) for line in rejects.read_text().splitlines()] if rejects.exists() else []


EXPECTED = _table(GOOD).set_column(6, "at", _table(GOOD).column("at").cast(pa.timestamp("us"))).to_pylist()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", _csv_text(GOOD)),
        ("a.tsv", _csv_text(GOOD, "\t")),
        ("semicolon.csv", _csv_text(GOOD, ";")),
        ("crlf.csv", _csv_text(GOOD).replace("\n", "\r\n").replace("line\r\n", "line\n")),
        ("cr.csv", _csv_text(GOOD).replace("\n", "\r").replace("line\r", "line\n")),
        ("bom.csv", b"\xef\xbb\xbf" + _csv_text(GOOD).encode()),
        ("no-last-line-end.csv", _csv_text(GOOD).rstrip("\n")),
        ("blank-lines.csv", "\n\n" + _csv_text(GOOD) + "\n\n"),
        ("a.csv.gz", gzip.compress(_csv_text(GOOD).encode(), mtime=0)),
        ("a.csv.bz2", bz2.compress(_csv_text(GOOD).encode())),
        ("a.CSV.XZ", lzma.compress(_csv_text(GOOD).encode())),
        ("a.jsonl.bz2", bz2.compress(_json_text(GOOD).encode())),
        ("a.ndjson", _json_text(GOOD)),
        ("bom.ndjson", b"\xef\xbb\xbf" + _json_text(GOOD).encode()),
        ("a.jsonl.gz", gzip.compress(_json_text(GOOD).encode(), mtime=0)),
        ("without-ending-csv", _csv_text(GOOD)),
        ("without-ending-json", _json_text(GOOD)),
    ],
)
def test_every_format_of_text_gives_the_same_rows(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert _rows(_write(tmp_path / name, content), SCHEMA) == EXPECTED


def test_parquet_gives_the_same_rows_whatever_it_is_called(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.pq", "nameless"):
        pq.write_table(_table(GOOD), tmp_path / name)
        assert _rows(tmp_path / name, SCHEMA) == EXPECTED


@pytest.mark.parametrize("make", [lambda t: t, lambda t: t.to_pandas(), lambda t: t.to_reader(max_chunksize=2)])
def test_tables_and_frames_give_the_same_rows(make: Callable[[pa.Table], Any]) -> None:
    table = _table(GOOD[:1]).select(["ts", "symbol", "price", "at", "ok"])
    expected = [{k: EXPECTED[0][k] for k in ("ts", "symbol", "price", "at", "ok")}]
    assert _rows(make(table)) == expected


def test_a_polars_frame_gives_the_same_rows() -> None:
    import polars

    frame = polars.DataFrame({"time": [1, 2], "s": ["a", None]})
    assert _rows(frame) == [{"ts": 1, "s": "a"}, {"ts": 2, "s": None}]


@pytest.mark.parametrize("name", ["when", None])
def test_a_pandas_frame_has_its_time_as_index(name: str | None) -> None:
    import pandas

    index = pandas.to_datetime(["1970-01-01 00:00:01", "1970-01-01 00:00:02"]).rename(name)
    expected = [{"ts": 1000, "v": 1}, {"ts": 2000, "v": 2}]
    assert _rows(pandas.DataFrame({"v": [1, 2]}, index=index)) == expected
    frame = pandas.DataFrame({"ts": [1000, 2000], "v": [1, 2]})
    assert _rows(frame[frame["v"] > 0].set_axis([7, 9])) == expected
    assert _rows(frame.set_index(["ts", "v"])) == expected


def test_a_column_of_a_pandas_frame_with_several_types_is_named() -> None:
    import pandas

    frame = pandas.DataFrame({"ts": [1, 2], "v": [1.5, "x"]})
    with pytest.raises(bridge.SchemaError, match=r"values of several types: .*column v"):
        bridge.replay({"s": frame}, "SELECT v FROM s")
    with bridge.connect() as cep:
        cep.register_stream("s", "v DOUBLE")
        with pytest.raises(bridge.SchemaError, match=r"values of several types: .*column v"):
            cep.push_events("s", frame)
        assert cep.now is None


def test_a_duckdb_relation_and_a_lazy_frame_give_the_same_rows() -> None:
    import duckdb
    import polars

    expected = [{"ts": 1, "s": "a"}, {"ts": 2, "s": None}]
    with duckdb.connect() as connection:
        assert _rows(connection.sql("SELECT * FROM (VALUES (1, 'a'), (2, NULL)) t(time, s)")) == expected
    assert _rows(polars.LazyFrame({"time": [1, 2], "s": ["a", None]})) == expected


def test_rows_that_are_mappings_give_the_same_rows() -> None:
    import sqlalchemy

    expected = [{"ts": 1, "s": "a"}, {"ts": 2, "s": None}]
    assert _rows([{"time": 1, "s": "a"}, {"time": 2}]) == expected
    with sqlalchemy.create_engine("sqlite://").connect() as connection:
        result = connection.execute(sqlalchemy.text("SELECT 1 AS ts, 'a' AS s UNION ALL SELECT 2, NULL"))
        assert _rows(result) == expected
    assert _rows([{"ts": 1, "id": 2**63}, {"ts": 2, "id": 2**64}])[1] == {"ts": 2, "id": 2**64}
    with pytest.raises(SourceError, match="s, row 2: column 'v': 'n/a' is not of the type of most others, int64"):
        _rows([{"ts": 1, "v": 1}, {"ts": 2, "v": "n/a"}, {"ts": 3, "v": 3}])
    with pytest.raises(SourceError, match="s, row 2: 5 is not a mapping, as the rows before it are"):
        _rows([{"ts": 1, "v": 1}, 5])


def test_pairs_are_checked_as_pushed_events_are() -> None:
    moment = datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=datetime.UTC)
    assert _rows([({"a": 1}, 1000), ({"a": 2}, moment)]) == [{"ts": 1000, "a": 1}, {"ts": 2000, "a": 2}]
    rows, message = _stopped([((1,), 1), (("x",), 2)], "a INTEGER")
    assert rows == [{"ts": 1, "a": 1}]
    assert message == "s, event 2: attribute 'a' is INTEGER: 'x' (str) does not fit"


# Bad lines ------------------------------------------------------------------------------------------------------------


def _bad_csv(*lines: str, header: str = "ts,symbol,price") -> bytes:
    return "\n".join([header, *lines]).encode("utf-8", "surrogateescape") + b"\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2,B,abc", "3: column 3, 'price': 'abc' is not a DOUBLE"),
        (
            '2,B,"1,5"',
            "3: column 3, 'price': '1,5' is not a DOUBLE; decimal commas are texts: declare it VARCHAR, and "
            "write CAST(REPLACE(price, ',', '.') AS DOUBLE)",
        ),
        ("2,B", "3: 2 fields instead of the header's 3"),
        ("2,B,1,9", "3: 4 fields instead of the header's 3"),
        (
            "x,B,1",
            "3: column 1, 'ts': 'x' is not a timestamp (it is not a date with a time, such as 2024-12-31T23:59:59.999Z)",
        ),
        (",B,1", "3: column 1, 'ts': '' is not a timestamp (the timestamp is missing)"),
        ("99999999999999999999,B,1", "3: column 1, 'ts': '99999999999999999999' is not a timestamp"),
        (
            "9999999999999999,B,1",
            "3: column 1, 'ts': '9999999999999999' is not a timestamp (the timestamp is out of range",
        ),
        (
            "0,B,1",
            "3: column 1, 'ts': time does not go back: 0 is before 1, the newest time of this stream; to sort the ",
        ),
        ('2,"B"b,1', "3: byte 3: the quote that opens here does not enclose a field"),
        ("2,B\0,1", "3: there is a NUL byte in the line"),
        ("2,caf\udce9,1", "3: column 2, 'symbol': the byte 0xe9 is not UTF-8 (is the file Latin-1?)"),
    ],
)
@pytest.mark.parametrize("quoted", [False, True])
def test_a_bad_csv_line_is_named(tmp_path: Path, line: str, message: str, quoted: bool) -> None:
    first, last = ('1,"a\nb",1', '5,"c",2') if quoted else ("1,a,1", "5,c,2")
    path = _write(tmp_path / "t.csv", _bad_csv(first, line, last))
    rows, said = _stopped(path, "symbol VARCHAR, price DOUBLE")
    assert rows == [{"ts": 1, "symbol": "a\nb" if quoted else "a", "price": 1.0}]
    number = "4" if quoted else "3"
    assert said.startswith(f"{path}:{number}{message[1:]}")
    rows, rejects = _skipped(path, "symbol VARCHAR, price DOUBLE", tmp_path / "r.ndjson")
    assert [row["ts"] for row in rows] == [1, 5]
    assert [(bad["line"], bad["file"], bad["stream"]) for bad in rejects] == [(int(number), str(path), "s")]
    assert rejects[0]["raw"] == line.encode("utf-8", "surrogateescape").decode(errors="backslashreplace")


def test_a_quote_that_never_closes_spoils_its_line_alone(tmp_path: Path) -> None:
    lines = [f"{n},s{n},{n}" for n in range(1, 2000)]
    lines[700] = '701,"s701,701'
    rows, rejects = _skipped(
        _write(tmp_path / "t.csv", _bad_csv(*lines)), "symbol VARCHAR, price DOUBLE", tmp_path / "r"
    )
    assert [bad["line"] for bad in rejects] == [702]
    assert [row["ts"] for row in rows] == [n for n in range(1, 2000) if n != 701]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"ts": 2, "a": 1.5}', """2: column 'a': 1.5 is not an INTEGER"""),
        ('{"ts": 2, "a": "1"}', """2: column 'a': "1" is not an INTEGER"""),
        ('{"ts": 2, "a": true}', "2: column 'a': true is not an INTEGER (it is bool, not INTEGER)"),
        ('{"ts": 2, "a": 5000000000}', "2: column 'a': 5000000000 is not an INTEGER"),
        ('{"ts": 2, "a": 99999999999999999999999}', "2: column 'a': 99999999999999999999999 is not an INTEGER"),
        ('{"ts": 2, "a": [1]}', "2: column 'a': [1] is not an INTEGER"),
        ('{"a": 1}', "2: column 'ts': null is not a timestamp (the timestamp is missing)"),
        ('{"ts": 2, "a": 1', "2: character 17: this is not JSON: Expecting ',' delimiter"),
        ('{"ts": 2, "a": 1} {}', "2: character 19: this is not JSON: Extra data"),
        ("[1, 2]", "2: character 1: a line is one JSON object {…}"),
        ("nonsense", "2: character 1: this is not JSON: Expecting value"),
        ('{"ts": 0, "a": 1}', "2: column 'ts': time does not go back: 0 is before 1, the newest time of this stream"),
        ('{"ts": 2, "a": 1, "x": "\udce9"}', "2: byte 25: the byte 0xe9 is not UTF-8 (is the file Latin-1?)"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    text = '{"ts": 1, "a": 1}\n' + line + '\n\n{"ts": 3, "a": null}\n'
    path = _write(tmp_path / "t.ndjson", text.encode("utf-8", "surrogateescape"))
    rows, said = _stopped(path, "a INTEGER")
    assert rows == [{"ts": 1, "a": 1}]
    assert said.startswith(f"{path}:{message}")
    rows, rejects = _skipped(path, "a INTEGER", tmp_path / "r.ndjson")
    assert rows == [{"ts": 1, "a": 1}, {"ts": 3, "a": None}]
    assert [bad["line"] for bad in rejects] == [2]


def test_a_bad_parquet_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"ts": [1, 2, None, 1, 4], "a": [1, 70000, 3, 4, 5]}), path)
    rows, said = _stopped(path, "a SMALLINT")
    assert rows == [{"ts": 1, "a": 1}]
    assert said.startswith(f"{path}, row 2: column 'a': 70000 is not a SMALLINT")
    rows, rejects = _skipped(path, "a SMALLINT", tmp_path / "r")
    assert [row["ts"] for row in rows] == [1, 1, 4]
    assert [(bad["line"], bad["reason"]) for bad in rejects][1] == (
        3,
        "None is not a timestamp (the timestamp is missing)",
    )


def test_many_bad_lines_are_kept_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [f"{n},{'x' if n % 7 == 0 else n}" if n % 11 else f"{n - 500},1" for n in range(1, 3000)]
    path = _write(tmp_path / "t.csv", _bad_csv(*lines, header="ts,a"))
    rows, rejects = _skipped(path, "a INTEGER", tmp_path / "r")
    bad = [n for n in range(1, 3000) if n % 11 == 0 or n % 7 == 0]
    bad = [n for n in bad if not (n % 11 == 0 and n == 11 and n - 500 > 10)]
    assert [reject["line"] - 1 for reject in rejects] == bad
    assert [row["ts"] for row in rows] == [n for n in range(1, 3000) if n not in set(bad)]


def test_blocks_beyond_the_first_count_their_lines_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.sources.text.SIZE", 50)
    lines = [f'{n},"a\nb{n}",{n}' for n in range(300)]
    path = _write(tmp_path / "t.csv", _bad_csv(*lines, "300,c,?"))
    rows, said = _stopped(path, "symbol VARCHAR, price DOUBLE")
    assert [row["symbol"] for row in rows] == [f"a\nb{n}" for n in range(300)]
    assert said.startswith(f"{path}:602: column 3, 'price': '?'")


@pytest.mark.parametrize(
    ("name", "text", "schema", "message"),
    [
        ("t.csv", "ts,a\n1,12345678.90\n2,123456789.00\n", "a DECIMAL(10, 2)", "'123456789.00' is not a DECIMAL(10, 2)"),
        ("t.ndjson", '{"ts": 1, "a": 0.5}\n{"ts": 2, "a": true}\n', "a DOUBLE", "true is not a DOUBLE"),
        ("t.ndjson", '{"ts": 1, "a": "x"}\n{"ts": 2, "a": "\\ud800"}\n', "a VARCHAR", '"\\ud800" is not a VARCHAR'),
    ],
)  # fmt: skip
def test_a_value_beyond_its_type_is_not_changed(
    tmp_path: Path, name: str, text: str, schema: str, message: str
) -> None:
    rows, said = _stopped(_write(tmp_path / name, text), schema)
    assert [row["ts"] for row in rows] == [1]
    assert message in said


def test_arrow_and_python_read_the_same_json(tmp_path: Path) -> None:
    """Arrow reads a block of good lines, Python any other: one line more decides which."""
    lines = [
        '{"ts": 1, "d": 1, "s": "größe", "b": true, "i": -0}', '{"ts": 2, "d": 1e25, "s": "\\ud83d\\ude00", "x": [1]}',
        '{"ts": 3, "d": 10000000000000000000000000, "s": null}', '{"s": "}{", "ts": 4, "d": 0.1, "i": 1}',
    ]  # fmt: skip
    schema = Schema.of("d DOUBLE, s VARCHAR, b BOOLEAN, i INTEGER")
    read = {}
    for last in ('{"ts": 5}', ' {"ts": 5}'):
        read[last] = _rows(_write(tmp_path / "t.ndjson", "\n".join([*lines, last])), schema)
    assert read['{"ts": 5}'] == read[' {"ts": 5}']
    assert read['{"ts": 5}'][1] == {"ts": 2, "d": 1e25, "s": "😀", "b": None, "i": None}


@pytest.mark.parametrize(
    "text", ['{"ts": 1} {"ts": 2}\n{"ts":\n 3}\n{"ts": 4, "a": 1}\n', '{"ts": 1, "a": 1, "a": 2}\n']
)
def test_a_line_of_json_is_one_object(tmp_path: Path, text: str) -> None:
    rows, rejects = _skipped(_write(tmp_path / "t.ndjson", text), "a INTEGER", tmp_path / "r")
    assert len(rows) + len(rejects) == text.count("\n")


def test_types_are_those_of_the_well_formed_rows(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", b"ts,city,v\n1,Bern,1\n2,Z\xfcrich,2,3\n3,Basel,4\n")
    assert str(open_source("s", path).schema) == "city VARCHAR, v BIGINT"


def test_a_relation_is_read_as_events_are(tmp_path: Path) -> None:
    text = 'k;name;weight\nA;"x, y";1.5\nB;;NA\n\nC;"";2\n'
    assert read_relation("r", str(_write(tmp_path / "r.csv", text))).to_pylist() == [
        {"k": "A", "name": "x, y", "weight": 1.5},
        {"k": "B", "name": None, "weight": None},
        {"k": "C", "name": "", "weight": 2.0},
    ]
    path = _write(tmp_path / "r.ndjson", '{"k": 1, "l": [1]}\n{"k": "x"}\n')
    with pytest.raises(SourceError, match=r'the relation .r.: .*r.ndjson:2: column .k.: "x" is not a BIGINT'):
        read_relation("r", str(path))
    assert read_relation("r", str(_write(tmp_path / "e.csv", "k\n"))).num_rows == 0


def test_a_relation_leaves_out_what_cannot_be_an_attribute() -> None:
    rows = pa.table(
        {"k": ["a"], "geom": [b"x"], "at": [datetime.time(1, 2, 3, 500_000)], "h": pa.array([7], pa.uint64())}
    )
    with bridge.connect() as cep:
        with pytest.warns(UserWarning, match="the relation 'r': column 'geom' is left out: it is binary"):
            create_relation(cep.database, "r", rows)
        assert [tuple(row) for row in cep.query("SELECT * FROM r")] == [("a", "01:02:03.5", 7)]
        reason = r"the relation 'e' has no usable column: it needs at least one attribute \(column 'geom' is left out: it is bin"
        with pytest.raises(SourceError, match=reason):
            create_relation(cep.database, "e", rows.select(["geom"]))


# Types ----------------------------------------------------------------------------------------------------------------


def _schema_of(tmp_path: Path, name: str, text: str) -> str:
    return str(open_source("s", _write(tmp_path / name, text)).schema)


def test_a_relation_that_is_refused_leaves_no_transaction() -> None:
    with bridge.connect("sqlite://") as cep:
        for value in (float("nan"), 1.5):
            table = pa.table({"v": [value]})
            with contextlib.suppress(TypeMismatch):
                create_relation(cep.database, "r", table)
        assert [tuple(row) for row in cep.query("SELECT v FROM r")] == [(1.5,)]


@pytest.mark.parametrize("name", ["t.csv", "t.ndjson"])
def test_whole_numbers_beyond_64_bits_are_decimals(tmp_path: Path, name: str) -> None:
    ids = [10000000000000000001, 10000000000000000002, -1]
    rows = [{"ts": place, "id": number} for place, number in enumerate(ids)]
    path = _write(tmp_path / name, _csv_text(rows) if name == "t.csv" else _json_text(rows))
    assert str(open_source("s", path).schema) == "id DECIMAL(38, 0)"
    assert [row["id"] for row in _rows(path)] == ids


@pytest.mark.parametrize("name", ["t.csv", "t.ndjson"])
def test_whole_numbers_beyond_38_digits_are_refused(tmp_path: Path, name: str) -> None:
    rows = [{"ts": 1, "id": 7}, {"ts": 2, "id": 10**38}]
    path = _write(tmp_path / name, _csv_text(rows) if name == "t.csv" else _json_text(rows))
    with pytest.raises(
        SourceError, match=r":[23]: column .*'id': .*10{38}.* is not a DECIMAL\(38, 0\).*; this type was inf"
    ):
        _rows(path)
    assert _rows(path, Schema.of("id DOUBLE"))[1] == {"ts": 2, "id": 1e38}


@pytest.mark.parametrize("name", ["t.csv", "t.ndjson"])
def test_digits_that_a_double_loses_are_warned_of(tmp_path: Path, name: str) -> None:
    rows = [{"ts": 1, "id": 1.5}, {"ts": 2, "id": 10000000000000000001}]
    path = _write(tmp_path / name, _csv_text(rows) if name == "t.csv" else _json_text(rows))
    with pytest.warns(UserWarning, match="column 'id' has whole numbers of 19 digits and more beside fractions"):
        assert [row["id"] for row in _rows(path)] == [1.5, 1e19]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ('1 "n/a" 3', "BIGINT"), ('"a" 1 "b"', "VARCHAR"), ("1 2.5 null", "DOUBLE"), ("true 1 false", "BOOLEAN"),
        ('"2024-03-31" "2024-04-01"', "DATE"), ('"2024-03-31 01:00:04+00" null', "TIMESTAMP"), ("null null", "VARCHAR"),
        ('{"a":1} {"a":"x"} {"a":2}', "STRUCT(a BIGINT)"), ("[1] [2.5] 3", "DOUBLE[]"),
    ],
)  # fmt: skip
def test_a_key_of_json_has_the_type_of_most_of_its_values(tmp_path: Path, values: str, kind: str) -> None:
    lines = (f'{{"ts": {place}, "v": {value}}}\n' for place, value in enumerate(values.split(" ")) if value != "null")
    if values.endswith('+00" null'):
        lines = iter(['{"ts": 1, "v": "2024-03-31 01:00:04+00"}\n', '{"ts": 2, "v": null}\n'])
    if values == "null null":
        lines = iter(['{"ts": 1, "v": null}\n'])
    assert _schema_of(tmp_path, "t.ndjson", "".join(lines)) == f"v {kind}"


def test_the_odd_value_of_a_key_is_named_and_skipped(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.ndjson", '{"ts": 1, "v": 1}\n{"ts": 2, "v": "n/a"}\n{"ts": 3, "v": 3}\n')
    way_out = "this type was inferred, another is declared with CREATE STREAM (schemas= in Python)"
    with pytest.raises(SourceError) as caught:
        _rows(path)
    assert str(caught.value) == f"{path}:2: column 'v': \"n/a\" is not a BIGINT (it is string, not BIGINT); {way_out}"
    kept = Rejects({"s": tmp_path / "r"})
    assert [row["v"] for table in open_source("s", path).tables(kept) for row in table.to_pylist()] == [1, 3]
    kept.close()


def test_texts_of_times_are_timestamps(tmp_path: Path) -> None:
    text = "ts,at,no\n1,2024-03-31 01:00:04 UTC,2024-03-31 01:00:04 UTC\n2,,x\n3,2024/03/31 01:00:04.5,\n"
    assert _schema_of(tmp_path, "t.csv", text) == "at TIMESTAMP, no VARCHAR"


def test_a_very_long_first_row_has_types(tmp_path: Path) -> None:
    text = "ts,text,v\n1000," + "x" * 5_000_000 + ",1\n2000,y,2\n"
    assert _schema_of(tmp_path, "t.csv", text) == "text VARCHAR, v BIGINT"
    assert [(row["ts"], row["v"]) for row in _rows(tmp_path / "t.csv")] == [(1000, 1), (2000, 2)]


@pytest.mark.parametrize(
    ("one", "two", "kind"),
    [
        ("1", "1.5", "DOUBLE"), ("1", "x", "VARCHAR"), ("", "1", "BIGINT"), ("", "1.5", "DOUBLE"),
        ("2024-03-31", "2024-03-31 10:00:00", "TIMESTAMP"), ("1", "10000000000000000001", "DECIMAL(38, 0)"),
    ],
)  # fmt: skip
def test_types_are_those_of_all_files(tmp_path: Path, one: str, two: str, kind: str) -> None:
    for files in ((one, two), (two, one)):
        for place, value in enumerate(files):
            _write(tmp_path / f"{place}.csv", f"ts,k,v\n{place},a,{value}\n")
        assert str(open_source("s", tmp_path / "*.csv").schema) == f"k VARCHAR, v {kind}"
        assert len(_rows(tmp_path / "*.csv")) == 2


def test_types_are_those_of_all_parquet_files(tmp_path: Path) -> None:
    for place, values in enumerate([pa.array([1], pa.int32()), pa.array([2**40]), pa.array([1.5])]):
        pq.write_table(pa.table({"ts": [place], "v": values}), tmp_path / f"{place}.parquet")
    assert [row["v"] for row in _rows(tmp_path / "*.parquet")] == [1.0, 2.0**40, 1.5]
    pq.write_table(pa.table({"ts": [3], "v": [1.0], "more": [1]}), tmp_path / "3.parquet")
    with pytest.warns(UserWarning, match=r"3.parquet: left out, since the schema has no such attribute: 'more'"):
        assert len(_rows(tmp_path / "*.parquet")) == 4


# Columns --------------------------------------------------------------------------------------------------------------


def _notes(path: Path, schema: str | None, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    notes: list[str] = []
    return _rows(path, None if schema is None else Schema.of(schema), note=notes.append, **options), notes


def test_the_timestamp_column_is_guessed_and_said(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", "Event_Time,a\n1970-01-01 00:00:01,5\n1970-01-01T00:00:02.0009999Z,6\n")
    rows, notes = _notes(path, "a INTEGER")
    assert rows == [{"ts": 1000, "a": 5}, {"ts": 2000, "a": 6}]
    assert notes == [f"{path}: the timestamps are column 'Event_Time' (a guess by its name)"]


def test_the_only_column_of_a_timestamp_type_is_taken(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", "when,a\n1970-01-01 00:00:01,5\n")
    rows, notes = _notes(path, None)
    assert rows == [{"ts": 1000, "a": 5}]
    assert notes == [f"{path}: the timestamps are column 'when' (a guess: the only one of a timestamp type)"]


def test_no_timestamp_to_guess_is_explained(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", "when,a\n1,5\n")
    with pytest.raises(
        SourceError, match=r"which column has the timestamps.*none is of a timestamp type; there are 'when', 'a'"
    ):
        _rows(path, Schema.of("a INTEGER"))
    assert _rows(path, Schema.of("a INTEGER"), timestamp="WHEN") == [{"ts": 1, "a": 5}]
    with pytest.raises(SourceError, match="no column 'whn' with the timestamps; did you mean 'when'"):
        _rows(path, Schema.of("a INTEGER"), timestamp="whn")


def test_the_timestamp_is_payload_where_the_schema_says_so(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", "date,a\n1970-01-02,5\n")
    assert _rows(path, Schema.of("date DATE, a INTEGER")) == [
        {"ts": 86_400_000, "date": datetime.date(1970, 1, 2), "a": 5}
    ]
    assert _rows(path) == [{"ts": 86_400_000, "a": 5}]


def test_texts_of_numbers_and_paths_in_a_list_are_refused_with_a_way_out() -> None:
    table = pa.table({"ts": [1], "price": ["1.5"]})
    with pytest.raises(SourceError, match=r"declare it VARCHAR and write CAST\(price AS DOUBLE\) in the queries"):
        open_source("s", table, Schema.of("price DOUBLE"))
    with pytest.raises(SourceError, match=r"the path of a file or a pattern of several, .*, not a list of texts"):
        open_source("s", ["a.csv", "b.csv"])


def test_extra_columns_are_left_out_with_one_note_and_missing_ones_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", "ts,A,b,c\n1,2,3,4\n")
    rows, notes = _notes(path, "a INTEGER")
    assert (rows, notes) == (
        [{"ts": 1, "a": 2}],
        [f"{path}: left out, since the schema has no such attribute: 'b', 'c'"],
    )
    with pytest.raises(SourceError, match=r"t\.csv has no column 'price'; there are 'ts', 'A', 'b', 'c'"):
        _rows(path, Schema.of("price DOUBLE"))


@pytest.mark.parametrize("name", ["t.csv", "t.ndjson", "t.parquet"])
def test_a_schema_is_inferred_from_the_file(tmp_path: Path, name: str) -> None:
    path, rows = (
        tmp_path / name,
        [{"ts": 1, "i": 1, "d": 1.5, "s": "x", "b": True, "day": "2024-01-01", "at": "2024-01-01 10:00:00"}],
    )
    if name == "t.parquet":
        day, at = datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 10)
        pq.write_table(pa.Table.from_pylist([{**rows[0], "day": day, "at": at}]), path)
    else:
        _write(path, _csv_text(rows) if name == "t.csv" else _json_text(rows))
    source = open_source("s", path)
    assert str(source.schema) == "i BIGINT, d DOUBLE, s VARCHAR, b BOOLEAN, day DATE, at TIMESTAMP"
    assert next(source.tables()).num_rows == 1


def test_columns_that_can_be_no_attribute_are_left_out_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"ts": [1], "a": [2], "l": pa.array([1], pa.duration("s")), "seq": [3]}), path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert _rows(path) == [{"ts": 1, "a": 2}]
    own = [str(each.message) for each in caught if each.category is UserWarning]
    assert [message.split(": ", 1)[1][:27] for message in own] == [
        "column 'l' is left out: no ",
        "column 'seq' is left out: t",
    ]


def test_columns_that_no_query_asks_for_do_not_make_a_table_unreadable() -> None:
    columns = {"ts": [1, 2], "k": ["a", "b"], "geom": pa.array([b"x", b"\xff"]), "at": [datetime.time(1), None]}
    table = pa.table(
        {**columns, "h": pa.array([1, 2**64 - 1], pa.uint64()), "id": pa.array([b"12", b"34"], pa.binary(2))}
    )
    with pytest.warns(UserWarning, match="s: column 'geom' is left out: it is binary; if it is UTF-8, declare it"):
        rows = _rows(table)
    assert rows == [
        {"ts": 1, "k": "a", "at": "01:00:00", "h": 1},
        {"ts": 2, "k": "b", "at": None, "h": 18446744073709551615},
    ]
    assert _rows(table, Schema.of("id VARCHAR, k VARCHAR"))[0] == {"ts": 1, "id": "12", "k": "a"}
    rows, said = _stopped(table, "geom VARCHAR")
    assert (rows, said[:43]) == ([{"ts": 1, "geom": "x"}], "s, row 2: column 'geom': b'\\xff' is not a V")


# Times ----------------------------------------------------------------------------------------------------------------

AT = 1711846804000
"""2024-03-31 01:00:04."""


@pytest.mark.parametrize(
    ("text", "unit", "ts"),
    [
        ("2024-03-31 01:00:04+00", None, AT),
        ("2024-03-31 01:00:04 UTC", None, AT),
        ("2024-03-31 01:00:04 GMT", None, AT),
        ("2024-03-31 01:00:04 +0000", None, AT),
        ("2024-03-31T03:00:04.5 +02:00", None, AT + 500),
        ("2024-03-31 06:30:04+05:30", None, AT),
        ("2024/03/31 01:00:04", None, AT),
        ("2024/03/31", None, AT - 3604000),
        ("2024-03-31 01:00:04,123", None, AT + 123),
        ("2024-03-31 01:00:04.123456789Z", None, AT + 123),
        ("1711846804", "s", AT),
        ("1711846804.1239", "s", AT + 123),
        ("-0.0001", "s", -1),
        ("1.711846804e12", None, AT),
        ("1711846804000.5", "ms", AT),
        ("1711846804000123", "us", AT),
        ("1711846804000123456", "ns", AT),
        ("1711846804", "auto", AT),
        ("1711846804.5", "auto", AT + 500),
        ("1711846804000", "auto", AT),
        ("1711846804000123", "auto", AT),
        ("1711846804000123456", "auto", AT),
        ("2024-03-31 01:00:04Z", "auto", AT),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_timestamps_are_read_as_people_write_them(
    tmp_path: Path, text: str, unit: str | None, ts: int, ending: str
) -> None:
    path = tmp_path / f"t.{ending}"
    is_number = text.replace(".", "").replace("-", "", 1).replace("e", "").isdigit()
    if ending == "parquet":
        value = text if not is_number else int(text) if text.isdigit() else float(text)
        pq.write_table(pa.table({"ts": [value], "v": [1]}), path)
    else:
        _write(path, f"ts,v\n{text},1\n" if "," not in text else f'ts,v\n"{text}",1\n')
        if ending == "ndjson":
            _write(path, '{"ts": %s, "v": 1}\n' % (text if is_number else json.dumps(text)))
    assert _rows(path, timestamp_unit=unit) == [{"ts": ts, "v": 1}]


def test_a_unit_that_is_hardly_right_is_pointed_out(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", "ts,v\n1711846804,1\n")
    way_out = "2024-03-31 01:00:04: --timestamp-unit s (timestamp_unit='s' in Python)"
    with pytest.warns(UserWarning) as caught:
        assert _rows(path) == [{"ts": 1711846804, "v": 1}]
    assert (
        str(caught[0].message)
        == f"{path}: the first timestamp is 1711846804 milliseconds; if it is seconds, that is {way_out}"
    )
    _write(path, "ts,v\n1711846804.25,1\n")
    assert _stopped(path, "v INTEGER")[1].endswith(
        f"'1711846804.25' is not a timestamp (it is not a whole number of milliseconds; if it is seconds, that is {way_out})"
    )
    _write(path, "ts,v\n1711846804000000000,1\n")
    assert "if it is nanoseconds, that is 2024-03-31 01:00:04: --timestamp-unit ns" in _stopped(path, "v INTEGER")[1]
    notes: list[str] = []
    assert _rows(path, note=notes.append, timestamp_unit="auto") == [{"ts": AT, "v": 1}]
    assert notes == [f"{path}: the timestamps are nanoseconds (a guess by the first one, 1.711846804e+18)"]


# Files that are none --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "t.csv is empty: a CSV file starts with a line of column names"),
        ("t.csv", b"\n\n", "t.csv is empty"),
        ("t.csv", "ts,a\n1,2\n".encode("utf-16"), "t.csv is UTF-16: save it as UTF-8"),
        ("t.csv", b"ts,caf\xe9\n1,2\n", "t.csv:1: the header is not UTF-8"),
        ("t.csv", b"ts,a,a\n1,2,3\n", "t.csv:1: two columns are called 'a'"),
        ("t.csv", b"1,A\n2,B\n", "which column has the timestamps.*there are '1', 'A'"),
        ("t.ndjson", b"ts,a\n1,2\n", "t.ndjson is not NDJSON"),
        (
            "t.json",
            b'[{"ts": 1, "a": 2}]',
            r"t.json is a JSON array, and not NDJSON, which has an object per line: jq -c '\.\[\]'",
        ),
        ("t.parquet", b"", "t.parquet is empty: this is not a Parquet file"),
        ("t.parquet", b"PAR1 and nothing else", "t.parquet is not a complete Parquet file"),
        ("t.csv.gz", gzip.compress(b"ts,a\n" + b"1,2\n" * 9, mtime=0)[:-9], "t.csv.gz is a damaged gz file"),
        ("t.csv.bz2", bz2.compress(b"ts,a\n" + b"1,2\n" * 9)[:-9], "t.csv.bz2 is a damaged bz2 file"),
        ("t.csv.bz2", bz2.compress(b"ts,a\n1,2\n")[:20] + b"x" * 40, "t.csv.bz2 is a damaged bz2 file"),
        ("t.csv.xz", lzma.compress(b"ts,a\n" + b"1,2\n" * 9)[:-9], "t.csv.xz is a damaged xz file"),
        ("t.xlsx", b"PK\x03\x04...", "t.xlsx is a zip archive or a workbook: unpack it, or save it as CSV"),
        ("t.csv.zst", b"\x28\xb5\x2f\xfd...", "t.csv.zst is a damaged zst file"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        _rows(_write(tmp_path / name, content), Schema.of("a INTEGER"))


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for path, message in [
        (tmp_path / "no.csv", "does not exist"), (tmp_path / "no.parquet", "does not exist"),
        (tmp_path / "*.csv", "no file matches"), (tmp_path, "is a directory"), (5, "not int"),
    ]:  # fmt: skip
        with pytest.raises(SourceError, match=message):
            _rows(path, Schema.of("a INTEGER"))


def test_a_truncated_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": list(range(1000)), "a": list(range(1000))}), tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    with pytest.raises(SourceError, match=r"t\.parquet is not a complete Parquet file"):
        _rows(_write(tmp_path / "t.parquet", content[: len(content) // 2]), Schema.of("a INTEGER"))


def test_a_parquet_file_with_a_damaged_name_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [1], "name": [2]}), tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes().replace(b"name", b"\x99ame")
    with pytest.raises(SourceError, match=r"t\.parquet is not a complete Parquet file"):
        _rows(_write(tmp_path / "t.parquet", content))


def test_a_relation_of_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "t.parquet", compression="none")
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    content[4:40] = bytes(36)  # the first page's head
    with pytest.raises(SourceError, match=r"the relation 'r': .*t\.parquet is damaged"):
        read_relation("r", str(_write(tmp_path / "t.parquet", bytes(content))))


def test_an_empty_ndjson_file_has_no_events_if_the_schema_is_known(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.ndjson", "")
    assert _rows(path, Schema.of("a INTEGER")) == []
    with pytest.raises(SourceError, match="is empty, and no schema of 's' is declared"):
        _rows(path)


# Several --------------------------------------------------------------------------------------------------------------


def test_files_of_a_pattern_are_one_stream_by_name(tmp_path: Path) -> None:
    _write(tmp_path / "b.csv", "ts,a\n3,3\n")
    _write(tmp_path / "a.csv", "a,ts\n1,1\n2,2\n")
    assert _rows(tmp_path / "*.csv") == [{"ts": n, "a": n} for n in (1, 2, 3)]
    _write(tmp_path / "c.csv", "a,ts\n9,2\n")
    rows, said = _stopped(tmp_path / "*.csv", "a BIGINT")
    assert len(rows) == 3
    assert "c.csv:2: column 2, 'ts': time does not go back: 2 is before 3" in said


def test_a_merge_orders_by_time_then_by_stream() -> None:
    one = [pa.table({"ts": [1, 2, 2]}), pa.table({"ts": [2, 5]})]
    two = [pa.table({"ts": [2]}), pa.table({"ts": [2, 3]}), pa.table({"ts": [6]})]
    order = []
    for chunk in merge({"one": iter(one), "two": iter(two)}):
        order += sorted((ts, place, name) for place, name in enumerate(("one", "two"))
                        for ts in (chunk[name].column(0).to_pylist() if name in chunk else []))  # fmt: skip
    names = [f"{ts}{name[0]}" for ts, _, name in order]
    assert names == ["1o", "2o", "2o", "2o", "2t", "2t", "3t", "5o", "6t"]


@pytest.mark.parametrize("run", [2**28, 5_000, 300])
def test_a_history_is_sorted_and_ties_stay_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    monkeypatch.setattr("bridge.sources.merge.RUN", run)
    monkeypatch.setattr("bridge.sources.merge.ROWS", 7)
    monkeypatch.setattr("bridge.sources.text.SIZE", 200)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    events = [{"ts": (n * 37) % 50, "n": n} for n in range(1000)]
    path = _write(tmp_path / "t.csv", _csv_text(events))
    assert _rows(path, sort=True) == sorted(events, key=lambda event: event["ts"])
    assert _rows(pa.Table.from_pylist(events), sort=True) == _rows(path, sort=True)
    assert _rows([({"n": e["n"]}, e["ts"]) for e in events], sort=True) == _rows(path, sort=True)
    assert [*tmp_path.iterdir()] == [path]


def test_a_wrong_row_of_a_sorted_history_stops_it_before_the_first(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", "ts,n\n5,1\n3,x\n1,2\n")
    rows, said = _stopped(path, "n INTEGER", sort=True)
    assert (rows, said) == ([], f"{path}:3: column 2, 'n': 'x' is not an INTEGER")
    kept = Rejects({"s": tmp_path / "r"})
    source = open_source("s", path, Schema.of("n INTEGER"), ReadOptions(sort=True))
    assert [row["n"] for table in source.tables(kept) for row in table.to_pylist()] == [2, 1]
    kept.close()


def test_until_reads_no_further() -> None:
    def tables() -> Any:
        yield pa.table({"ts": [1, 2]})
        yield pa.table({"ts": [2, 3]})
        raise AssertionError("read beyond the end")

    assert [table.column(0).to_pylist() for table in take_until(tables(), 2)] == [[1, 2], [2]]


@pytest.mark.parametrize(
    ("data", "final", "ends"),
    [
        (b'a,"b\nc"\nd,e\nf', False, [8, 12]),
        (b'"a","b\n', False, []),
        (b'"a\n"', False, []),
        (b'5" pipe\nb\n', True, [8, 10]),
        (b'x,"a""\n""b"\ny\n', True, [12, 14]),
        (b'5"\n"a\nb"\n', True, [3, 9]),
        (b'"a"b\n"c\nd"\n', True, [5, 11]),
        (b'"a"b\n"c\nd"\n"e', False, [5, 11]),
        (b'"a\nb\n', True, [3, 5]),
    ],
)
def test_rows_end_outside_quotes(data: bytes, final: bool, ends: list[int]) -> None:
    rows = [row for row in rows_of(b",", data, final) if row[0].endswith(b"\n")]
    assert [row.end() for row in rows] == ends
    wrong = any(row["wrong"] for row in rows)
    assert end_of_rows(b",", data, final) == (ends[-1] if ends else 0, not wrong)
