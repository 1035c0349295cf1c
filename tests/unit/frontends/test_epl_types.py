"""EPL's event types: schemas that inherit others, variant streams, and typeof. The rows are those that Esper 9 gave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import bridge
from bridge.errors import BridgeError, QueryError
from tests.support.databases import DATABASES, one_of

database = one_of(DATABASES)

SCHEMAS = [
    "create schema A (k string, v int)",
    "create schema B (x int) inherits A",
    "create schema C (y int) inherits B",
    "create schema D (k string, v double, z int)",
    "create variant schema V as A, D",
    "insert into V select * from A(v > 1)",
    "insert into V select * from D",
]

EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("A", {"k": "a", "v": 1}), ("B", {"k": "b", "v": 2, "x": 3}), ("C", {"k": "c", "v": None, "x": 3, "y": 4}),
    ("A", {"k": None, "v": 4}), ("D", {"k": "b", "v": 2.5, "z": 1}), ("B", {"k": "b", "v": 5, "x": 3}),
    ("A", {"k": "a", "v": 2}), ("D", {"k": "a", "v": 7, "z": 1}),
]  # fmt: skip

QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "select * from A": [(1, "a", 1), (2, "b", 2), (3, "c", None), (4, None, 4), (6, "b", 5), (7, "a", 2)],
    "select * from B": [(2, "b", 2, 3), (3, "c", None, 3), (6, "b", 5, 3)],
    "select typeof(a.v) as t, typeof(k), typeof(v * 1.5) as u from A as a": [
        (1, "Integer", "String", "Double"), (2, "Integer", "String", "Double"), (3, None, "String", None),
        (4, "Integer", None, "Double"), (6, "Integer", "String", "Double"), (7, "Integer", "String", "Double"),
    ],
    "select v, instanceof(v, int) as i, instanceof(k, int, string) as k, instanceof(v, long) as l from A": [
        (1, 1, True, True, False), (2, 2, True, True, False), (3, None, False, True, False),
        (4, 4, True, False, False), (6, 5, True, True, False), (7, 2, True, True, False),
    ],
    "select k, typeof(a) as t from A as a": [
        (1, "a", "A"), (2, "b", "B"), (3, "c", "C"), (4, None, "A"), (6, "b", "B"), (7, "a", "A"),
    ],
    "select sum(v) as s, count(*) as n from A#length(2)": [
        (1, 1, 1), (2, 3, 2), (3, 2, 2), (4, 4, 2), (6, 9, 2), (7, 7, 2),
    ],
    "select a.v as av, b.v as bv, typeof(b) as tb from pattern [every a=A(v > 0) -> b=A(typeof(b) = 'B')]": [
        (2, 1, 2, "B"), (6, 2, 5, "B"), (6, 4, 5, "B"),
    ],
    "select * from A as a where typeof(a) = 'B'": [(2, "b", 2), (6, "b", 5)],
    "select *, typeof(a) from A(typeof(a) = 'B') as a": [(2, "b", 2, "B"), (6, "b", 5, "B")],
    "select * from A match_recognize (measures X.v as xv, typeof(Y) as ty pattern (X Y) define X as X.v < 3)": [
        (2, 1, "B"),
    ],
    "select typeof(e) as t, count(*) as n from A#keepall as e group by typeof(e)": [
        (1, "A", 1), (2, "B", 1), (3, "C", 1), (4, "A", 2), (6, "B", 2), (7, "A", 3),
    ],
    "select typeof(l) as tl, typeof(r) as tr from A#lastevent as l, B#lastevent as r": [
        (2, "B", "B"), (3, "C", "C"), (4, "A", "C"), (6, "B", "B"), (7, "A", "B"),
    ],
    "select * from V": [
        (2, "b", 2.0), (4, None, 4.0), (5, "b", 2.5), (6, "b", 5.0), (7, "a", 2.0), (8, "a", 7.0),
    ],
    "select k, v, typeof(e) as t from V as e": [
        (2, "b", 2.0, "B"), (4, None, 4.0, "A"), (5, "b", 2.5, "D"), (6, "b", 5.0, "B"), (7, "a", 2.0, "A"),
        (8, "a", 7.0, "D"),
    ],
    "select typeof(e) as t, k from V#length(3) as e where v > 4": [(6, "B", "b"), (8, "D", "a")],
    "select distinct typeof(e) as t from V#length_batch(2) as e order by typeof(e)": [
        (4, "A"), (4, "B"), (6, "B"), (6, "D"), (8, "A"), (8, "D"),
    ],
}  # fmt: skip


@pytest.fixture
def cep(request: pytest.FixtureRequest, database: Any) -> Iterator[bridge.Bridge]:
    with database.connect() as found:
        declare(found)
        yield found


def declare(cep: bridge.Bridge) -> None:
    for place, text in enumerate(SCHEMAS):
        cep.create_query(f"s{place}", text, language="epl")


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("size", [1, 3, 8])
def test_events_are_of_the_types_that_theirs_inherit(cep: bridge.Bridge, size: int) -> None:
    found: dict[str, list[Any]] = {text: [] for text in QUERIES}
    for place, text in enumerate(QUERIES):
        cep.create_query(f"q{place}", text, language="epl")
        cep.add_output_processor(
            f"q{place}", lambda e, text=text: found[text].append((e.timestamp, *e.payload.values()))
        )
    rows = [(name, payload, ts) for ts, (name, payload) in enumerate(EVENTS, 1)]
    for start in range(0, len(rows), size):
        cep.push_all(rows[start : start + size])
    assert found == QUERIES


def test_a_script_says_the_same() -> None:
    script = ";\n".join([*SCHEMAS[:5], *SCHEMAS[5:], *(f"@name('q{n}') {text}" for n, text in enumerate(QUERIES))])
    history = [(name, payload, ts) for ts, (name, payload) in enumerate(EVENTS, 1)]
    found = bridge.replay(history, _named(script), language="epl")
    for place, text in enumerate(QUERIES):
        rows = [tuple(row.values()) for row in found[f"q{place}"].to_pylist()]
        assert rows == QUERIES[text], text


def _named(script: str) -> str:
    """The statements that insert, each under a name: a script has one without at most."""
    return script.replace("insert into V select * from A", "@name('i1') insert into V select * from A").replace(
        "insert into V select * from D", "@name('i2') insert into V select * from D"
    )


def test_what_inserts_into_a_variant_stream_tells_what_it_inserts() -> None:
    found: list[Any] = []
    with bridge.connect("sqlite://") as cep:
        declare(cep)
        cep.add_output_processor("s5", lambda e: found.append((e.timestamp, e.payload)))
        cep.push_all((name, payload, ts) for ts, (name, payload) in enumerate(EVENTS, 1))
    assert [ts for ts, _ in found] == [2, 4, 6, 7]
    assert found[0] == (2, {"k": "b", "v": 2.0})


def test_sql_reads_the_events_of_other_types_too() -> None:
    found: list[Any] = []
    with bridge.connect() as cep:
        declare(cep)
        cep.create_query("q", "SELECT k, COUNT(*) AS n FROM A WINDOW(ROWS 9) GROUP BY k")
        cep.add_output_processor("q", lambda e: found.append((e.timestamp, *e.payload.values())))
        cep.push_all((name, payload, ts) for ts, (name, payload) in enumerate(EVENTS, 1))
    assert found == [(1, "a", 1), (2, "b", 1), (3, "c", 1), (4, None, 1), (6, "b", 2), (7, "a", 2)]


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("select ¦x from A", "unknown column 'x'"),
        ("select ¦z from V", "unknown column 'z'"),
        ("select typeof(¦w) as t from A", "unknown column 'w'"),
        ("select typeof(sum(¦v)) as t from A", "typeof and instanceof are of attributes, not of aggregates"),
        ("select instanceof(v, ¦number) as t from A", "the type 'number' is not supported"),
        ("select ¦instanceof(v) as t from A", "instanceof wants a value and the names of types"),
        ("create schema E (q int) inherits ¦Z", "'E' inherits 'Z', which is not a schema"),
        ("create schema E (¦v string) inherits A", "'v' is INTEGER in one schema and VARCHAR in another"),
        ("create variant schema W as A, ¦Z", "unknown stream 'Z'"),
        ("create variant schema W as ¦*", "a variant schema of any events is not supported"),
        ("insert into ¦V select k, v from A", "'V' takes events of its members as they are"),
        ("insert into ¦V select * from C", "'V' takes events of its members as they are"),
    ],
)
def test_what_is_no_type_is_refused_at_its_place(marked: str, message: str) -> None:
    before, after = marked.split("¦")
    with bridge.connect("sqlite://") as cep:
        declare(cep)
        with pytest.raises(QueryError) as refused:
            cep.create_query("q", before + after, language="epl")
        known = set(cep.streams)
    assert message in refused.value.message
    assert (refused.value.position, known) == (len(before), {"A", "B", "C", "D"})


def test_schemas_come_before_the_statements_that_read_those_they_inherit() -> None:
    with bridge.connect("sqlite://") as cep:
        declare(cep)
        cep.create_query("q", "select * from A", language="epl")
        with pytest.raises(QueryError, match="'E' would be events of 'A', which is read already"):
            cep.create_query("e", "create schema E (q int) inherits B", language="epl")
        cep.create_query("w", "select * from V", language="epl")
        with pytest.raises(QueryError, match="'V' is read already"):
            cep.create_query("i", "insert into V select * from D(z = 1)", language="epl")
        with pytest.raises(BridgeError, match="there is a stream 'V' already"):
            cep.create_query("other", "create schema V (q int)", language="epl")


@pytest.mark.parametrize(
    "text",
    [
        "select * from L match_recognize (partition by xs measures X.i as a pattern (X))",
        "select a.i as i from pattern [every-distinct(a.xs) a=L]",
        "context C select a.i as i, b.i as j from pattern [a=L -> b=L]",
        "context C select * from L match_recognize (measures X.i as a pattern (X))",
    ],
)
def test_a_list_is_not_a_key_of_a_machine(text: str) -> None:
    with bridge.connect() as cep:
        cep.create_query("l", "create schema L (i string, xs int[], v int)", language="epl")
        cep.create_query("c", "create context C partition by xs from L", language="epl")
        with pytest.raises(QueryError, match="which is not a key: name a part of it"):
            cep.create_query("q", text, language="epl")
        cep.push_event("L", ["a", [1], 1], 1)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("insert into B select k, d as v from A", "'v' of 'B' is INTEGER, and what is inserted is DOUBLE"),
        ("insert into B select k, d from A", "'B' has no attribute 'd'"),
        ("insert into B select k, v from B", "'B' is read already"),
        ("insert into W select d as v from A", "'v' of 'W' is BIGINT, and what is inserted is DOUBLE"),
    ],
)
def test_what_is_inserted_fits_what_is_declared(statement: str, message: str) -> None:
    with bridge.connect() as cep:
        cep.create_query("a", "create schema A (k string, v int, d double)", language="epl")
        cep.create_query("b", "create schema B (k string, v int)", language="epl")
        cep.create_query("w", "create window W#keepall as (k string, v long)", language="epl")
        with pytest.raises(QueryError, match=re.escape(message)):
            cep.create_query("insert", statement, language="epl")
        cep.create_query("insert", "insert into B select k, v from A", language="epl")
