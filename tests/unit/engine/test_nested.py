"""Nested data: objects, lists and maps in events, the same on every database, and the same however events are pushed."""

from __future__ import annotations

import datetime
import json
import pathlib
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridge
from bridge.errors import QueryError, SchemaError
from bridge.history.deployment import Deployment
from bridge.history.script import ReplayScript
from tests.support.databases import DATABASES, Database, one_of
from windows.schema import Schema
from windows.types import List, MapType, Struct, is_nested, shape

database = one_of(DATABASES)

SCHEMAS = [
    "create schema Address (city string, geo struct(lat double))",
    "create schema Item (price decimal(10, 2), day date)",
    "create schema P (name string, address Address, tags string[], m map(string, double), items Item[])",
]


def event(
    name: str, city: str | None, lat: float | None, tags: list[Any] | None, price: str | None, m: Any = None
) -> dict[str, Any]:
    """An event of P; without a city it has no address, without a price no items."""
    geo = None if lat is None else {"lat": lat}
    items = None if price is None else [{"price": price}, {"day": "2024-02-29"}]
    return {
        "name": name, "address": None if city is None else {"city": city, "geo": geo}, "tags": tags, "m": m, "items": items,
    }  # fmt: skip


EVENTS = [
    event("x", "Rome", 1, ["a"], "1.5", {"k": 2}),
    event("x", "Rome", 2.5, ["a", "b"], "2.5"),
    event("y", "Oslo", 1, [], None, {}),
    event("x", None, 1, None, "3"),
    event("x", "Rome", None, [None, "z"], "7"),
    event("x", "rome", 0.5, ['it\'s "é"\n'], None, {"a b": -1, "k": None}),
]

QUERIES: dict[str, tuple[str, list[tuple[int, Any]]]] = {
    "paths": (
        "select address.city, p.address.geo.lat as lat, tags[1] as t1, items[0].price as ip, m('k') as k from P as p",
        [
            (1, ("Rome", 1.0, None, Decimal("1.50"), 2.0)), (2, ("Rome", 2.5, "b", Decimal("2.50"), None)),
            (3, ("Oslo", 1.0, None, None, None)), (4, (None, None, None, Decimal("3.00"), None)),
            (5, ("Rome", None, "z", Decimal("7.00"), None)), (6, ("rome", 0.5, None, None, None)),
        ],
    ),
    "ends": (
        "select tags.firstOf() as f, tags.lastOf() as l, p.items.lastOf().day as d, tags.countOf() as n from P as p",
        [
            (1, ("a", "a", datetime.date(2024, 2, 29), 1)), (2, ("a", "b", datetime.date(2024, 2, 29), 2)),
            (3, (None, None, None, 0)), (4, (None, None, datetime.date(2024, 2, 29), None)),
            (5, (None, "z", datetime.date(2024, 2, 29), 2)), (6, ("it's \"é\"\n", "it's \"é\"\n", None, 1)),
        ],
    ),
    "filtered": ("select name from P(address.city = 'Rome', items[0].price > 2)", [(2, ("x",)), (5, ("x",))]),
    "grouped": (
        "select address.city as city, sum(items[0].price) as s, count(*) as n from P#keepall group by address.city",
        [
            (1, ("Rome", Decimal("1.50"), 1)), (2, ("Rome", Decimal("4.00"), 2)), (3, ("Oslo", None, 1)),
            (4, (None, Decimal("3.00"), 1)), (5, ("Rome", Decimal("11.00"), 3)), (6, ("rome", None, 1)),
        ],
    ),
    "joined": (
        "select l.address.geo as g, r.tags as t from P#length(2) as l, P#length(1) as r"
        " where l.address.city = r.address.city and l.tags[0] = r.tags[0]",
        [(1, ({"lat": 1.0}, ["a"])), (2, ({"lat": 1.0}, ["a", "b"])), (2, ({"lat": 2.5}, ["a", "b"])),
         (3, None), (6, ({"lat": 0.5}, ["it's \"é\"\n"]))],
    ),
    "equal": (
        "select l.name from P#lastevent as l, P#keepall as r where l.address = r.address and l.m = r.m",
        [(1, ("x",)), (3, ("y",)), (6, ("x",))],
    ),
    "whole": (
        "select first(address) as a, last(tags) as t, count(distinct address.city) as n from P#length(2)",
        [
            (1, ({"city": "Rome", "geo": {"lat": 1.0}}, ["a"], 1)),
            (2, ({"city": "Rome", "geo": {"lat": 1.0}}, ["a", "b"], 1)),
            (3, ({"city": "Rome", "geo": {"lat": 2.5}}, [], 2)),
            (4, ({"city": "Oslo", "geo": {"lat": 1.0}}, None, 1)),
            (5, (None, [None, "z"], 1)),
            (6, ({"city": "Rome", "geo": None}, ["it's \"é\"\n"], 2)),
        ],
    ),
    "before": (
        "select prev(1, address.city) as c, prior(1, tags[0]) as t from P#length(3)",
        [(1, (None, None)), (2, ("Rome", "a")), (3, ("Rome", "a")), (4, ("Oslo", None)), (5, (None, None)), (6, ("Rome", None))],
    ),
    "matched": (
        "select * from P match_recognize (measures A.address.city as c, B.lastOf().address as b, B[0].items[0].price as p,"
        " count(B.tags[0]) as n, A.m as m pattern (A B+) define A as A.tags[0] = 'a',"
        " B as B.address.geo.lat >= A.address.geo.lat and B.address.city != 'x')",
        [(2, ("Rome", {"city": "Rome", "geo": {"lat": 2.5}}, Decimal("2.50"), 1, {"k": 2.0}))],
    ),
    "in time": (
        "select a.address.city as c, b.address as b, b.tags[0] as t"
        " from pattern [every a=P -> b=P(address.city = a.address.city and tags.countOf() >= a.tags.countOf())]",
        [(2, ("Rome", {"city": "Rome", "geo": {"lat": 2.5}}, "a")), (5, ("Rome", {"city": "Rome", "geo": None}, None))],
    ),
    "repeated": (
        "select c[0].address.city as c, c.lastOf().tags.lastOf() as t, c.countOf() as n"
        " from pattern [every (c=P(address.city = 'Rome') until d=P(tags.countOf() = 0))]",
        [(3, ("Rome", "b", 2))],
    ),
    "looked up": (
        "select name, (select max(address.geo.lat) from P#keepall as q where q.address.city = p.address.city) as m from P as p",
        [(1, ("x", 1.0)), (2, ("x", 2.5)), (3, ("y", 1.0)), (4, ("x", None)), (5, ("x", 2.5)), (6, ("x", 0.5))],
    ),
}  # fmt: skip


def expected(name: str) -> list[tuple[int, Any]]:
    """The rows of a query; None stands for no row."""
    return [row for row in QUERIES[name][1] if row[1] is not None]


@pytest.fixture
def cep(database: Database) -> Iterator[bridge.Bridge]:
    with database.connect() as found:
        for place, text in enumerate(SCHEMAS):
            found.create_query(f"schema {place}", text, language="epl")
        yield found


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("size", [1, 4, 6])
def test_epl_reads_nested_values(cep: bridge.Bridge, size: int) -> None:
    found: dict[str, list[Any]] = {name: [] for name in QUERIES}
    for name, (text, _) in QUERIES.items():
        cep.create_query(name, text, language="epl")
        cep.add_output_processor(
            name, lambda e, name=name: found[name].append((e.timestamp, tuple(e.payload.values())))
        )
    rows = list(zip(EVENTS, range(1, 7), strict=True))
    for start in range(0, len(rows), size):
        cep.push_events("P", rows[start : start + size])
    for name in QUERIES:
        assert found[name] == expected(name), name


def test_a_replay_gives_the_same_rows() -> None:
    script = ";\n".join([*SCHEMAS, *(f"@name('{name}') {text}" for name, (text, _) in QUERIES.items())])
    history = [(each, ts) for ts, each in enumerate(EVENTS, 1)]
    found = bridge.replay({"P": history, "Address": [], "Item": []}, script, language="epl")
    for name in QUERIES:
        table = found[name]
        columns = [[_plain(value, column.type) for value in column.to_pylist()] for column in table.columns]
        rows = list(zip(*columns, strict=True))
        assert [(row[0], row[1:]) for row in rows] == expected(name), name


def test_a_script_is_stored_and_resumed(tmp_path: pathlib.Path) -> None:
    """Its queries are stored as objects, also those with a call on a path, which may be a column's name as well."""
    script = ";\n".join([*SCHEMAS, *(f"@name('{name}') {text}" for name, (text, _) in QUERIES.items())])
    for _ in range(2):
        with bridge.connect(f"sqlite:///{tmp_path}/a.db") as cep:
            Deployment(cep, [ReplayScript.of(script, language="epl")]).deploy()
            assert {*QUERIES} <= {*cep.queries}


def _plain(value: Any, kind: Any) -> Any:
    """A map of Arrow's as Python has it elsewhere."""
    return dict(value) if pa.types.is_map(kind) and value is not None else value


def test_a_push_that_fails_leaves_the_runs_as_they_were(cep: bridge.Bridge) -> None:
    found: list[Any] = []
    cep.create_query("q", QUERIES["in time"][0], language="epl")
    cep.add_output_processor("q", lambda e: found.append((e.timestamp, tuple(e.payload.values()))))
    for ts, each in enumerate(EVENTS, 1):
        with pytest.raises(SchemaError, match=r"address\.geo\.lat: it is DOUBLE: 'x' \(str\) does not fit"):
            cep.push_events("P", [(each, ts), ({"address": {"geo": {"lat": "x"}}}, ts)])
        cep.push_event("P", each, ts)
    assert found == expected("in time")


# Values -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"address": {"city": 5}}, "attribute 'address', address.city: it is VARCHAR: 5 (int) does not fit"),
        ({"address": {"zip": 5}}, "attribute 'address', address.zip: there is no such part"),
        ({"address": ["Rome"]}, "attribute 'address' is STRUCT(city VARCHAR, geo STRUCT(lat DOUBLE)): ['Rome'] (list) does"),
        ({"tags": "ab"}, "attribute 'tags' is VARCHAR[]: 'ab' (str) does not fit"),
        ({"tags": ["a", 1]}, "attribute 'tags', tags[1]: it is VARCHAR: 1 (int) does not fit"),
        ({"items": [{}, {"price": "1.234"}]}, "attribute 'items', items[1].price: it is DECIMAL(10, 2): '1.234' (str)"),
        ({"m": {1: 2.0}}, "attribute 'm', m[1]: it is VARCHAR: 1 (int) does not fit"),
        ({"m": {"k": "x"}}, "attribute 'm', m['k']: it is DOUBLE: 'x' (str) does not fit"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_path(payload: dict[str, Any], message: str) -> None:
    with bridge.connect() as cep:
        for place, text in enumerate(SCHEMAS):
            cep.create_query(f"schema {place}", text, language="epl")
        with pytest.raises(SchemaError) as refused:
            cep.push_event("P", payload, 1)
    assert message in str(refused.value)


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", range(3))
def test_any_values_come_out_as_they_went_in(database: Database, seed: int) -> None:
    """Of random types; also parts of them, which a walk in Python finds."""
    rng = random.Random(seed)
    schema = Schema.of({f"a{place}": a_type(rng, 3) for place in range(4)})
    events = [{a.name: a_value(rng, a.type) for a in schema} for _ in range(12)]
    paths = [path for a in schema for path in paths_of(a.name, a.type, rng)]
    columns = ", ".join(f"{text} AS p{place}" for place, (text, _) in enumerate(paths))
    kept = []
    for size in (1, 12):
        with database.connect() as cep:
            cep.register_stream("s", schema)
            cep.create_query("q", "SELECT * FROM s WINDOW(ROWS 100)")
            cep.create_query("parts", f"SELECT {columns} FROM s")
            whole = ", ".join(f"(select {a.name} from s#lastevent) as {a.name}" for a in schema)
            cep.create_query("last", f"select {whole} from s", language="epl")
            found: dict[str, list[Any]] = {"q": [], "parts": [], "last": []}
            for name, rows in found.items():
                cep.add_output_processor(name, lambda e, rows=rows: rows.append(list(e.payload.values())))
            for start in range(0, 12, size):
                cep.push_events("s", [(each, start) for each in events[start : start + size]])
            asked = cep.query("SELECT * FROM q")
            for place, attribute in enumerate(schema, 1):
                if is_nested(attribute.type):  # others are as the database has them
                    assert [row[place] for row in asked] == [each[attribute.name] for each in events]
            assert asked.to_arrow().num_rows == 12
        assert found["q"] == found["last"] == [list(each.values()) for each in events]
        assert found["parts"] == [[walked(each, steps) for _, steps in paths] for each in events]
        kept.append(found)
    assert kept[0] == kept[1]


def a_type(rng: random.Random, depth: int) -> str:
    """A type, nested up to so deep."""
    kind = rng.choice(["scalar", "struct", "list", "map"]) if depth else "scalar"
    if kind == "struct":
        return str(Struct(tuple((f"f{n}", a_type(rng, depth - 1)) for n in range(rng.randint(1, 3)))))
    if kind == "list":
        return str(List(a_type(rng, depth - 1)))
    if kind == "map":
        return str(MapType(a_type(rng, depth - 1)))
    return rng.choice(["INTEGER", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL(8, 2)", "BIGINT"])


def a_value(rng: random.Random, kind: str) -> Any:
    """A value as it comes out, NULL now and then."""
    if rng.random() < 0.15:
        return None
    match shape(kind):
        case Struct(fields):
            return {name: a_value(rng, of) for name, of in fields}
        case List(of):
            return [a_value(rng, of) for _ in range(rng.randint(0, 3))]
        case MapType(of):
            return {name: a_value(rng, of) for name in sorted(rng.sample(["a", "b c", "é", "key"], rng.randint(0, 3)))}
    return {
        "INTEGER": rng.randint(-5, 5), "BIGINT": rng.choice([2**53 + 1, -1]), "DOUBLE": rng.choice([0.1, -2.0, 1e22]),
        "VARCHAR": rng.choice(["", "a'b", 'q"\\', "null", "1", "é\n"]), "BOOLEAN": rng.random() < 0.5,
        "DATE": datetime.date(2024, 2, rng.randint(1, 29)), "DECIMAL(8, 2)": Decimal(rng.randint(-999, 999)) / 4 * 1,
        "TIMESTAMP": datetime.datetime(2024, 1, 1, rng.randint(0, 23), 1, 2, rng.choice([0, 500])),
    }[kind] if kind != "DECIMAL(8, 2)" else Decimal(rng.randint(-999, 999)).scaleb(-2)  # fmt: skip


def paths_of(
    text: str, kind: str, rng: random.Random, steps: tuple[Any, ...] = ()
) -> list[tuple[str, tuple[Any, ...]]]:
    """Paths into a value, as they are written and as a walk takes them."""
    steps = steps or (text,)
    match shape(kind):
        case Struct(fields):
            return [found for name, of in fields for found in paths_of(f"{text}.{name}", of, rng, (*steps, name))]
        case List(of):
            place = rng.choice([0, 1, -1])
            return paths_of(f"{text}[{place + 1 if place >= 0 else place}]", of, rng, (*steps, place))
        case MapType(of):
            name = rng.choice(["a", "b c", "é"])
            return paths_of(f"{text}['{name}']", of, rng, (*steps, name))
    return [(text, steps)]


def walked(value: Any, steps: tuple[Any, ...]) -> Any:
    """The part of a value at a path; None where there is none."""
    for step in steps:
        if isinstance(value, list):
            value = value[step] if -len(value) <= step < len(value) else None
        else:
            value = None if value is None else value.get(step)
    return value


# Tables and files -------------------------------------------------------------------------------------------------------

ROWS = [
    {"ts": 1, "name": "a", "address": {"city": "Rome", "geo": {"lat": 1.0}}, "tags": ["x", "y"]},
    {"ts": 2, "name": "b", "address": None, "tags": []},
    {"ts": 3, "name": "c", "address": {"city": "Oslo"}, "tags": None},
]
GIVEN = [("Rome", ["x", "y"]), (None, []), ("Oslo", None)]


def a_table() -> pa.Table:
    """The rows in types of Arrow's that are not those of the schema, the parts in another order."""
    address = pa.struct([("geo", pa.struct([("lat", pa.float32())])), ("city", pa.large_string())])
    kinds = [("ts", pa.int64()), ("name", pa.string()), ("address", address), ("tags", pa.large_list(pa.string()))]
    return pa.Table.from_pylist(ROWS, schema=pa.schema(kinds))


def test_arrow_tables_are_pushed_and_given(database: Database) -> None:
    found: list[pa.Table] = []
    with database.connect() as cep:
        cep.register_stream("p", {"name": str, "address": {"city": str, "geo": {"lat": float}}, "tags": [str]})
        cep.create_query("q", "SELECT address.city AS city, tags, address FROM p")
        cep.add_output_processor("q", found.append, batch=True)
        cep.push_events("p", a_table())
        with pytest.raises(SchemaError, match=r"row 2: attribute 'tags', tags\[0\]: it is VARCHAR: 5 \(int\)"):
            cep.push_events("p", pa.table({"ts": [4, 5], "tags": pa.array([None, [5]])}))
        with pytest.raises(SchemaError, match=r"row 1: attribute 'address' is STRUCT.*'x' \(str\) does not fit"):
            cep.push_events("p", pa.table({"ts": [4], "address": ["x"]}))
    (table,) = found
    assert [(row["city"], row["tags"]) for row in table.to_pylist()] == GIVEN
    assert table.schema.field("address").type == pa.struct(
        [("city", pa.string()), ("geo", pa.struct([("lat", pa.float64())]))]
    )


@pytest.mark.parametrize("format", ["ndjson", "parquet"])
def test_files_hold_nested_values(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"p.{format}"
    if format == "parquet":
        pq.write_table(a_table(), path)
    else:
        path.write_text("\n".join(map(json.dumps, ROWS)))
    found = bridge.replay({"p": path}, {"q": "SELECT address.city AS city, tags FROM p"})["q"].to_pylist()
    assert [(row["city"], row["tags"]) for row in found] == GIVEN


# Refusals ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("select address.¦zip from P", "address has no part 'zip'; there is 'city', 'geo'"),
        ("select p.address.geo.¦latt as x from P as p", "address.geo has no part 'latt'; did you mean 'lat'?"),
        ("select name.¦x from P", "name is VARCHAR: it has no parts"),
        ("select tags.¦x from P", "tags is a list: name a place in it"),
        ("select ¦address[0] as x from P", "address is STRUCT(city VARCHAR, geo STRUCT(lat DOUBLE)): it is not a list"),
        ("select ¦o.p from P", "unknown input 'o'; there is 'P'"),
        ("select ¦tags[name] as x from P", "an index is a whole number from 0"),
        ("select ¦tags.anyOf() as x from P", "the method anyOf is not supported"),
        ("select ¦name.countOf(x => x = 'a') as n from P", "name is VARCHAR: its methods are those of lists"),
        ("select ¦items.sumOf() as n from P", "SUM is not of values that are STRUCT"),
        ("select ¦tags.sumOf() as n from P", "SUM is not of values that are VARCHAR"),
        ("select tags.anyOf(x => ¦x) as n from P", "=> wants a condition"),
        ("select tags.anyOf(x => ¦x = 1) as n from P", "cannot be compared"),
        ("select items.anyOf(x => x.¦cost > 1) as n from P", "has no part 'cost'"),
        ("select tags.anyOf(x => ¦y = 'a') as n from P", "unknown column 'y'"),
        ("select ¦tags.anyOf(x => x = 'a') from P", "is named"),
        ("select ¦items.firstOf(x => x.price > 1).price from P", "is named"),
        ("select tags.countOf(x => items.anyOf(i ¦=> i.price > 1)) as n from P", "a method with x => … is not supported here"),
        ("select count(*) as n, tags.max() as x from P¦", "beside aggregates"),
        ("select count(*) as n from P#length(2) where tags.max() = 'a'¦", "aggregates over a window with"),
        ("select items.¦where(x => x.price > 1) as x from P", "the method where is not supported"),
        ("select * from P(items.anyOf(x ¦=> x.price > 1))", "a method with x => … is not supported here"),
        ("select * from P where ¦address > items[0]", "address is STRUCT(city VARCHAR, geo STRUCT(lat DOUBLE)): name a part"),
        ("select * from P where ¦tags = items", "they cannot be compared"),
        ("select max(¦tags) as x from P", "tags is VARCHAR[]: name a part of it"),
        ("select ¦tags || 'x' as x from P", "tags is VARCHAR[]: name a part of it"),
        ("select ¦m + 1 as x from P", "m is MAP(VARCHAR, DOUBLE); + wants a number"),
        ("select * from P order by ¦tags", "tags is VARCHAR[]: name a part of it"),
        ("select * from P#sort(3, ¦tags)", "tags is VARCHAR[]: name a part of it"),
        ("create schema X (a ¦Adress)", "the type 'Adress' is not supported"),
        ("create schema X (a java¦.util.Map)", "classes are not supported as types"),
        ("create schema X (a ¦map(int, int))", "a map reads MAP(VARCHAR, T)"),
    ],
)  # fmt: skip
def test_what_has_no_such_part_is_refused_at_its_place(marked: str, message: str) -> None:
    before, after = marked.split("¦")
    with bridge.connect("sqlite://") as cep:
        for place, text in enumerate(SCHEMAS):
            cep.create_query(f"schema {place}", text, language="epl")
        with pytest.raises(QueryError) as refused:
            cep.create_query("q", before + after, language="epl")
    assert message in refused.value.message
    assert refused.value.position == len(before)
