"""What is computed of an event in this process is what the database computes of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp, parse_one

import bridge
from bridge.engine.single_events.computed import computed

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(1)

SCHEMA = "i INTEGER, b BIGINT, d DOUBLE, t VARCHAR, f BOOLEAN"
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, -1, 7, 2**31 - 1, None],
    "b": [0, 2**63 - 1, -(2**63) + 1, 2**53, 2**53 + 1, None],
    "d": [0.0, -0.0, 0.1, 7.0, 1e300, 5e-324, float("inf"), float("-inf"), 2.0**53, None],
    "t": ["", "A", "a", "é", "a ", "it's", "x\ny", "\U0001f600", None],
    "f": [True, False, None],
}
LITERALS = {
    "i": ["0", "1", "-1", "7"],
    "b": ["0", "9223372036854775807", "9007199254740993", "-7"],
    "d": ["0", "0.1", "-7", "7.0", "123456789.012345", "9007199254740992", "9007199254740993", "0.12345678901234567"],
    "t": ["''", "'A'", "'é'", "'it''s'", "'a '"],
}


def condition(draw: random.Random, depth: int) -> str:
    if depth:
        left, right = condition(draw, depth - 1), condition(draw, depth - 1)
        return draw.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})", left))
    column = draw.choice("iibbddtt")
    other = draw.choice((column, draw.choice(LITERALS[column]), draw.choice(LITERALS[column])))
    signs = ("=", "<>") if column == "t" and draw.random() < 0.9 else ("=", "<>", "<", "<=", ">", ">=")
    low, high = (draw.choice(LITERALS[column]) for _ in range(2))
    return draw.choice((
        f"{column} {draw.choice(signs)} {other}", f"{other} {draw.choice(signs)} {column}", f"{column} IS NULL",
        f"{column} IS NOT NULL", f"{column} BETWEEN {low} AND {high}", f"{column} + 1 > {other}" if column in "id" else "f",
        f"COALESCE({column} = {other}, FALSE)", f"d > {draw.choice('ib')}",
    ))  # fmt: skip


def arithmetic(draw: random.Random) -> str:
    """Numbers that are added and subtracted."""
    column = draw.choice("iibd")
    values = [
        column,
        *(draw.choice((column, draw.choice(LITERALS[column]).lstrip("-"))) for _ in range(draw.randint(1, 3))),
    ]
    draw.shuffle(values)
    text = values[0]
    for value in values[1:]:
        text = draw.choice((f"{text} + {value}", f"{text} - {value}", f"{value} - ({text})"))
    return text


def event(draw: random.Random, database: Database) -> list[Any]:
    found = [draw.choice(VALUES[name]) for name in "ibdtf"]
    if database.name == "mariadb" and found[2] in (float("inf"), float("-inf")):
        found[2] = None  # which it has not
    return found


@pytest.mark.parametrize("seed", range(60))
def test_conditions_are_what_the_database_makes_of_them(database: Database, seed: int) -> None:
    draw = random.Random(seed)
    numbers = f", {arithmetic(draw)} AS x" if seed % 2 else ""
    text = f"SELECT t, d, i, b, 7 AS seven{numbers} FROM s WHERE {condition(draw, draw.randint(0, 3))}"
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text)
        cep.add_output_processor("q", lambda event: None)
        cep.push_event("s", event(draw, database), 0)
        cep.push_event("s", event(draw, database), 0)
        plan = cep._runner._one_event_plans.of(cep._catalogue.stream_entry("s"))
        assert plan is not None
        bound = plan.results[0][1].whole
        if bound.compute is None:
            return
        assert database.name in ("duckdb", "sqlite")
        for number in range(60):
            row = (number, number + 2, *cep._catalogue.stream_entry("s").row(event(draw, database)))
            if (numbers or " + 1" in text) and bound.compute(row) is None:
                continue  # sums of large numbers are left to the database
            in_database = bound._replace(compute=None).read(cep.database, row)
            assert repr(bound.compute(row)) == repr(in_database), (text, row)


def test_simple_conditions_are_computed() -> None:
    for url in ("duckdb://", "sqlite://"):
        for where in ("i > 5", "i - b = 1", "t = 'A' AND d <= 0.5", "NOT (b = 7 OR d IS NULL)", "i BETWEEN 3 AND 9"):
            with bridge.connect(url) as cep:
                cep.register_stream("s", SCHEMA)
                cep.create_query("q", f"SELECT t, d, i FROM s WHERE {where}")
                cep.add_output_processor("q", lambda event: None)
                plan = None
                for _ in range(2):
                    cep.push_event("s", [1, 2, 3.0, "x", True], 0)
                    plan = cep._runner._one_event_plans.of(cep._catalogue.stream_entry("s"))
                assert plan is not None
                assert plan.results[0][1].whole.compute is not None


@pytest.mark.parametrize("seed", range(40))
def test_conditions_are_values_as_in_the_database(seed: int) -> None:
    """They are true, false or NULL."""
    draw = random.Random(seed)
    text, types = condition(draw, draw.randint(0, 3)), ["BIGINT", "BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN"]
    select = parse_one(f"SELECT {text} AS x, NOT f AS y", dialect="duckdb")
    places = {name: place for place, name in enumerate("ibdtf")}
    values = computed(select, lambda node: places.get(node.sql()), types, set(types))
    assert (values is not None) >= (seed in (1, 2, 3, 4, 5))  # the others may have numbers of many digits
    with bridge.connect("duckdb://") as cep:
        for _ in range(30 if values is not None else 0):
            row = [draw.choice(VALUES[name]) for name in "ibdtf"]
            if (found := values(tuple(row)) if values is not None else None) is None:
                continue
            given = ", ".join(f"CAST(? AS {kind}) AS {name}" for name, kind in zip("ibdtf", types, strict=True))
            expected = cep.database.fetch_bound(f"SELECT {text} AS x, NOT f AS y FROM (SELECT {given})", row)
            assert repr(found) == repr(expected), (text, row)


def test_differences_are_computed() -> None:
    with bridge.connect("duckdb://") as cep:
        cep.register_stream("s", SCHEMA)
        for number, text in enumerate(("i + 1", "b - i", "d - 0.5 + d", "(i - b) + 3")):
            cep.create_query(f"q{number}", f"SELECT {text} AS x FROM s")
            cep.add_output_processor(f"q{number}", lambda event: None)
        cep.push_event("s", [1, 2, 3.0, "x", True], 0)
        plan = cep._runner._one_event_plans.of(cep._catalogue.stream_entry("s"))
        assert plan is not None
        assert all(statement.whole.compute is not None for _, statement in plan.results)


def test_nan_is_compared_by_the_database() -> None:
    found: list[Any] = []
    with bridge.connect("duckdb://") as cep:
        cep.create_query("q", "SELECT d FROM s[d DOUBLE] WHERE d > 5")
        cep.add_output_processor("q", lambda event: found.append(event.payload["d"]))
        for value in (3.0, 7.0, float("nan"), float("inf")):
            cep.push_event("s", [value], 0)
    assert repr(found) == "[7.0, nan, inf]"


def test_texts_are_compared_as_the_database_is_set_to() -> None:
    found: list[Any] = []
    with bridge.connect("duckdb://") as cep:
        cep.database.execute("SET default_collation = 'nocase'")
        cep.create_query("q", "SELECT t FROM s[t VARCHAR] WHERE t = 'a'")
        cep.add_output_processor("q", lambda event: found.append(event.payload["t"]))
        for value in ("a", "A", "b"):
            cep.push_event("s", [value], 0)
    assert found == ["a", "A"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(10))
def test_few_events_at_once_give_the_rows_of_single_ones(seed: int) -> None:
    draw = random.Random(seed)
    where = condition(draw, 1)
    for url in ("duckdb://", "sqlite://"):
        numbers = VALUES["d"] + ([float("nan")] if url == "duckdb://" else [])
        rows = [
            ([draw.choice(VALUES["i"]), 1, draw.choice(numbers), draw.choice(VALUES["t"]), True], number // 3)
            for number in range(60)
        ]
        found: list[list[Any]] = []
        for most in (1, 16, 40):
            reprs: list[Any] = []
            with bridge.connect(url) as cep:
                cep.register_stream("s", SCHEMA)
                cep.create_query("q", f"SELECT t, d, i FROM s WHERE {where}")
                cep.add_output_processor("q", lambda event, reprs=reprs: reprs.append(repr(event)))
                place = 0
                while place < len(rows):
                    size = random.Random(place).randint(1, most)
                    cep.push_events("s", rows[place : place + size])
                    assert len(cep.query("SELECT * FROM s")) == len(rows[place : place + size])
                    place += size
            found.append(reprs)
        assert found[0] == found[1] == found[2]


def test_columns_of_tables_are_read_by_the_database() -> None:
    select = exp.select(exp.Literal.number(1)).where(exp.GT(this=exp.column("i"), expression=exp.Literal.number(0)))
    assert computed(select, lambda node: None, ["BIGINT"], {"BIGINT"}) is None


def test_a_difference_is_computed_further() -> None:
    """What is computed of it is left to the database where its type there is not known."""
    text = "SELECT n + 1 AS m FROM (SELECT MAX(i) - MIN(i) AS n FROM s WINDOW(SESSION 3 MS)) WINDOW(FIRST RANGE 2 MS)"
    found: list[Any] = []
    with bridge.connect() as cep:
        for stream in ("s", "t"):
            cep.register_stream(stream, SCHEMA)
        cep.create_query("q", text)
        cep.add_output_processor("q", lambda event: found.append((event.timestamp, event.payload["m"])))
        for ts in range(4):
            cep.push_event("t" if ts % 2 else "s", [5 * ts, 3, 0.5, "x", True], ts)
    assert found == [(0, 1)]
