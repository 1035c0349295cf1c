"""Nested data on Spark: objects, lists and maps in events, and EPL's event types; the rows of the local replay."""

from __future__ import annotations

import datetime
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bridge
from bridge.errors import SourceError
from bridge.history.pieces import partitioning
from bridge.spark.piecewise import Replay
from tests.unit.engine import test_nested as nested
from tests.unit.frontends import test_epl_types as types
from tests.unit.frontends import test_epl_variables as variables
from windows.arrow import nested_array, values_of
from windows.schema import Schema


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(values_of(column) for column in table.columns), strict=True))


def agree(spark: Any, local: Any, source: Any, queries: Any, out: Path | None = None, **options: Any) -> None:
    """Spark gives of each query the rows, and the columns, that the local replay of the first source gives."""
    wanted = bridge.replay(local, queries, **options)
    found = bridge.replay(source, queries, "spark", spark=spark, pieces=3, out=out, **options)
    for name, table in wanted.items():
        frame = found[name].toArrow()
        assert (rows_of(frame), frame.schema.names) == (rows_of(table), table.schema.names), name
        assert table.num_rows, name


# EPL --------------------------------------------------------------------------------------------------------------------


def script(statements: list[str], queries: dict[str, str]) -> str:
    return ";\n".join([*statements, *(f"@name('{name}') {text}" for name, text in queries.items())])


def as_table(schema: Schema, events: list[dict[str, Any]]) -> pa.Table:
    """Events that came one a millisecond."""
    arrays = [nested_array([each[a.name] for each in events], a.type) for a in schema]
    return pa.Table.from_arrays([pa.array(range(1, len(events) + 1)), *arrays], names=["ts", *schema.names])


def test_epl_reads_nested_values(spark: Any, tmp_path: Path) -> None:
    """Of a frame whose parts are in Spark's own types."""
    chosen = ["paths", "joined", "whole", "before", "matched", "repeated", "looked up"]
    text = script(nested.SCHEMAS, {name.replace(" ", "_"): nested.QUERIES[name][0] for name in chosen})
    pairs = [(each, ts) for ts, each in enumerate(nested.EVENTS, 1)]
    with bridge.connect() as cep:
        for place, schema in enumerate(nested.SCHEMAS):
            cep.create_query(f"schema {place}", schema, language="epl")
        cep.create_query("all", "select * from P", language="epl")
        found: list[dict[str, Any]] = []
        cep.add_output_processor("all", lambda event: found.append(event.payload))
        cep.push_events("P", pairs)
        frame = spark.createDataFrame(as_table(cep.streams["P"], found)).coalesce(1)
    agree(spark, {"P": pairs}, {"P": frame}, text, out=tmp_path, language="epl")


def test_events_are_of_the_types_that_theirs_inherit(spark: Any, tmp_path: Path) -> None:
    chosen = list(types.QUERIES)[4:12:2]
    text = types._named(script(types.SCHEMAS, {f"q{place}": query for place, query in enumerate(chosen)}))
    history: dict[str, list[Any]] = {}
    for ts, (name, payload) in enumerate(types.EVENTS, 1):
        history.setdefault(name, []).append((payload, ts))
    agree(spark, history, history, text, out=tmp_path, language="epl")


def test_variables_have_their_values(spark: Any, tmp_path: Path) -> None:
    text = script(variables.VARIABLES, {f"q{place}": query for place, query in enumerate(variables.QUERIES)})
    history = {"A": [(payload, ts) for _, payload, ts in variables.EVENTS]}
    agree(spark, history, history, text, out=tmp_path, language="epl")


# SQL --------------------------------------------------------------------------------------------------------------------

HOME = "k VARCHAR, home STRUCT(city VARCHAR, geo STRUCT(lat INTEGER)), tags VARCHAR[], m MAP(VARCHAR, DOUBLE)"

BY_PARTS = {
    "ever": "SELECT home.city AS c, COUNT(*) AS n, MAX(m['x']) AS x FROM s WINDOW(UNBOUNDED) GROUP BY home.city",
    "deep": "SELECT h.geo.lat AS l, COUNT(*) AS n FROM (SELECT home AS h, k FROM s) WINDOW(UNBOUNDED) GROUP BY h.geo.lat",
    "whole": "SELECT home, COUNT(*) AS n FROM s WINDOW(UNBOUNDED) GROUP BY home",
    "rows": "SELECT home.city AS c, tags[1] AS t FROM s WINDOW(PARTITION BY home.city ROWS 2)",
    "match": "SELECT * FROM (SELECT home.city AS c, home, tags FROM s) MATCH_RECOGNIZE (PARTITION BY c MEASURES "
    "A.home AS first, LAST(B.tags) AS tags PATTERN (A B+) WITHIN 60 MS DEFINE B AS tags[1] >= A.tags[1])",
    "join": "SELECT a.home AS one, b.tags AS other FROM s WINDOW(ROWS 9) AS a, s WINDOW(RANGE 9 MS) AS b "
    "WHERE a.home.city = b.home.city AND a.m = b.m",
}
"""Queries that keep the rows of different cities apart, or of different latitudes."""


def homes(seed: int, count: int) -> pa.Table:
    rng = random.Random(seed)
    schema = Schema.of(HOME)
    events: list[dict[str, Any]] = []
    for _ in range(count):
        geo = rng.choice([None, {"lat": rng.randrange(3)}])
        home = rng.choice([None, {"city": rng.choice(["Rome", "Oslo", None]), "geo": geo}])
        tags = rng.choice([None, [], [rng.choice("abc")], ["b", None]])
        events.append({"k": "x", "home": home, "tags": tags, "m": rng.choice([None, {}, {"x": 1, "y": 2}, {"x": 3}])})
    return as_table(schema, events)


def test_rows_are_kept_apart_by_parts_of_objects(spark: Any, tmp_path: Path) -> None:
    table = homes(5, 200)
    frame = spark.createDataFrame(table).coalesce(1)
    agree(spark, {"s": table}, {"s": frame}, BY_PARTS, out=tmp_path, schemas={"s": HOME})


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("ever", {"s": (("home", "city"),)}),
        ("deep", {"s": (("home", "geo", "lat"),)}),
        ("whole", {"s": (("home", "city"), ("home", "geo", "lat"))}),
        ("rows", {"s": (("home", "city"),)}),
        ("match", {"s": (("home", "city"),)}),
    ],
)
def test_the_keys_are_parts(name: str, keys: dict[str, Any]) -> None:
    with bridge.connect() as cep:
        cep.register_stream("s", HOME)
        cep.create_query("q", BY_PARTS[name])
        assert partitioning("q", cep._catalogue).keys == keys


def test_a_place_in_a_list_is_no_key(spark: Any) -> None:
    query = {"q": "SELECT tags[1] AS t, COUNT(*) AS n FROM s WINDOW(UNBOUNDED) GROUP BY tags[1]"}
    assert "in one piece" in Replay({"s": homes(1, 9)}, query, schemas={"s": HOME}, spark=spark).explain("q")


@pytest.mark.parametrize("seed", range(2))
def test_any_values_come_out_as_they_went_in(seed: int, spark: Any, tmp_path: Path) -> None:
    """Of random types, from a frame of Spark through files to the results."""
    rng = random.Random(seed)
    schema = Schema.of({f"a{place}": nested.a_type(rng, 3) for place in range(4)})
    table = as_table(schema, [{a.name: nested.a_value(rng, a.type) for a in schema} for _ in range(12)])
    paths = [text for a in schema for text, _ in nested.paths_of(a.name, a.type, rng)]
    columns = ", ".join(f"{text} AS p{place}" for place, text in enumerate(paths))
    queries = {"all": "SELECT * FROM s WINDOW(ROWS 3)", "parts": f"SELECT {columns} FROM s"}
    frame = spark.createDataFrame(table).coalesce(1)
    agree(spark, {"s": table}, {"s": frame}, queries, out=tmp_path, schemas={"s": schema})


# Sources ----------------------------------------------------------------------------------------------------------------


def test_sparks_own_times_within_objects_are_in_utc(spark: Any) -> None:
    frame = spark.sql("SELECT 1L AS ts, named_struct('at', timestamp'2024-01-01 05:00:00+02:00', 'n', 1) AS o")
    found = bridge.replay({"s": frame}, {"q": "SELECT o.at AS at, o FROM s"}, "spark", spark=spark)["q"].toArrow()
    at = datetime.datetime(2024, 1, 1, 3)
    assert found.to_pylist() == [{"ts": 1, "at": at, "o": {"at": at, "n": 1}}]


def test_lines_of_json(spark: Any, tmp_path: Path) -> None:
    """The schema says what the objects of a file without types are."""
    lines = [{**row, "ts": row["ts"] * 10} for row in homes(2, 30).drop_columns(["m"]).to_pylist()]
    (tmp_path / "s.ndjson").write_text("\n".join(map(json.dumps, lines)))
    source = {"s": tmp_path / "s.ndjson"}
    agree(spark, source, source, {"ever": BY_PARTS["ever"].replace(", MAX(m['x']) AS x", "")})


def test_what_is_no_object_is_refused(spark: Any) -> None:
    table = pa.table({"ts": [1], "k": ["a"], "home": ["Rome"], "tags": [["a"]], "m": [None]})
    with pytest.raises(
        SourceError, match=r"column 'home' is string, but the stream's schema declares STRUCT\(city VARCHAR"
    ):
        bridge.replay({"s": table}, {"q": "SELECT k FROM s"}, "spark", schemas={"s": HOME}, spark=spark)
    other = pa.table({"ts": [1], "home": [{"city": 5}]})
    query = {"q": "SELECT home.city AS c FROM s"}
    with pytest.raises(Exception, match=r"attribute 'home', home\.city: it is VARCHAR: 5 \(int\) does not fit"):
        bridge.replay({"s": other}, query, "spark", schemas={"s": "home STRUCT(city VARCHAR)"}, spark=spark)[
            "q"
        ].count()
