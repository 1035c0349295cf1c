"""Queries that differ in constants alone are answered by one statement, and give what each gives by itself."""

from __future__ import annotations

import dataclasses
import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import sqlglot
from sqlglot import exp

import bridge
from bridge import query as q
from bridge.engine.session import session_of
from bridge.rewrite.optimize.constants import NotAlike, share_constants, signature
from bridge.rewrite.settings import Settings
from tests.random.test_differential import DRIVES, difference
from tests.support.generate import Case, is_left_open, print_case, random_case, shrink
from tests.support.reference import LimitError
from windows.extents import Range, Rows

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(2)

SEEDS = range(*map(int, os.environ.get("CEP_SEEDS", "0:7").split(":")))


@pytest.fixture
def cep(database):
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER, b VARCHAR")
        yield cep


def listen(cep, *texts, batch=False):
    """Creates a query for each text; what each reports."""
    told = {}
    for number, text in enumerate(texts):
        rows = told[f"q{number}"] = []
        cep.create_query(f"q{number}", text)
        take = (
            (lambda table, rows=rows: rows.extend(map(tuple, zip(*table.to_pydict().values(), strict=True))))
            if batch
            else (lambda event, rows=rows: rows.append((event.timestamp, *event.payload.values())))
        )
        cep.add_output_processor(f"q{number}", take, batch=batch)
    return told


def sizes(cep):
    """How many queries each statement answers."""
    return sorted(len(report.members) for report in cep._runner.results.of("few"))


def test_what_is_made_for_many_tells_the_last_few(cep):
    """Statements for few events are made when few come a second time; results are the same before and after."""
    session_of(cep).settings = Settings(in_process=0)
    told = listen(cep, "SELECT a FROM s WHERE a > 1", "SELECT a FROM s WHERE a > 2")
    few, made = 0, {"any": [], "few": []}
    for count, push in [(50, "any"), (2, None), (50, None), (1, "few"), (1, None), (50, None)]:
        few += count
        made |= {push: [2]} if push else {}
        cep.push_all([("s", (1 + ts % 3, "x"), ts) for ts in range(few - count, few)])
        assert {push: [len(report.members) for report in cep._runner.results.of(push)] for push in made} == made
    rows = [(ts, 1 + ts % 3) for ts in range(few)]
    assert told == {"q0": [row for row in rows if row[1] > 1], "q1": [row for row in rows if row[1] > 2]}


# What is one statement ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM s WHERE a = {0}",
        "SELECT a + {0} AS x FROM s WHERE a > {0} OR b = 'x{0}'",
        "SELECT COUNT(*) AS n FROM s WINDOW(RANGE {0} MS)",
        "SELECT b, SUM(a) AS n FROM s WINDOW(RANGE {0} MS) WHERE a > {0} GROUP BY b",
        "SELECT x.a AS p, y.a AS r FROM s WINDOW(RANGE {0} MS) AS x, s WINDOW(RANGE 2{0} MS) AS y WHERE x.a - y.a = {0}",
    ],
)
def test_constants_make_no_difference(cep, text):
    told = listen(cep, *(text.format(number) for number in (1, 2, 3)))
    for ts, a in enumerate([1, 2, 3, 2, 1, 4, 3]):
        cep.push_event("s", (a, f"x{a}"), ts)
    together = [len(report.members) for report in cep._runner.results.of("few")]
    assert together == [3] or cep.database.dialect == "duckdb"
    for number in (1, 2, 3):
        with bridge.connect("sqlite://") as alone:
            alone.register_stream("s", "a INTEGER, b VARCHAR")
            expected = listen(alone, text.format(number))["q0"]
            for ts, a in enumerate([1, 2, 3, 2, 1, 4, 3]):
                alone.push_event("s", (a, f"x{a}"), ts)
        assert told[f"q{number - 1}"] == expected, number


def test_a_different_shape_stays_apart(cep):
    listen(cep, "SELECT * FROM s WHERE a = 1", "SELECT * FROM s WHERE a > 1", "SELECT * FROM s WHERE a = 2")
    cep.push_event("s", (1, "x"), 0)
    assert sizes(cep) == [1, 2]


def test_the_same_query_twice(cep):
    told = listen(cep, "SELECT a FROM s WHERE a = 1", "SELECT a FROM s WHERE a = 1")
    cep.push_event("s", (1, "x"), 5)
    assert sizes(cep) == [2]
    assert told == {"q0": [(5, 1)], "q1": [(5, 1)]}


def test_queries_come_and_go(cep):
    told = listen(cep, *(f"SELECT a FROM s WINDOW(RANGE 10 MS) WHERE a > {number}" for number in range(3)))
    cep.push_event("s", (2, "x"), 0)
    cep.remove_query("q0")
    cep.push_event("s", (3, "x"), 1)
    assert sizes(cep) == [2]
    cep.remove_query("q1")
    cep.push_event("s", (4, "x"), 2)
    assert sizes(cep) == [1]
    cep.create_query("q1", "SELECT a FROM s WINDOW(RANGE 10 MS) WHERE a > 0")
    cep.add_output_processor("q1", lambda event: told["q1"].append((event.timestamp, *event.payload.values())))
    cep.push_event("s", (5, "x"), 3)
    assert told == {"q0": [(0, 2)], "q1": [(0, 2), (1, 3), (3, 5)], "q2": [(1, 3), (2, 4), (3, 5)]}
    assert len([name for name in cep.database.table_names() if "family" in name and "pkey" not in name]) == 1


def test_results_come_query_by_query_as_they_were_created(cep):
    order = []
    for name, text in {"x": "a > 0", "y": "a < 9", "z": "a > 1"}.items():
        cep.create_query(name, f"SELECT a FROM s WHERE {text}")
        cep.add_output_processor(name, lambda event, name=name: order.append(name))
    cep.push_event("s", (3, "x"), 0)
    assert order == ["x", "y", "z"]


def test_batches_as_arrow(cep):
    import pyarrow as pa

    told = listen(cep, *(f"SELECT a FROM s WHERE a > {n}" for n in (7, 3, 100)), batch=True)
    values = [number % 10 for number in range(3_000)]
    cep.push_events("s", pa.table({"a": values, "b": ["x"] * 3_000, "ts": range(3_000)}))
    for name, least in {"q0": 7, "q1": 3, "q2": 100}.items():
        assert told[name] == [(ts, a) for ts, a in enumerate(values) if a > least]


def test_texts_as_constants_stay_texts(cep):
    told = listen(cep, "SELECT a FROM s WHERE b = 'x''; DROP TABLE t; --'", "SELECT a FROM s WHERE b = '%s ? {} \\'")
    cep.push_event("s", (1, "x'; DROP TABLE t; --"), 0)
    cep.push_event("s", (2, "%s ? {} \\"), 1)
    assert told == {"q0": [(0, 1)], "q1": [(1, 2)]}


@pytest.mark.parametrize("name", ["_query", "_K1", "_member", "_within", "_n", "_back"])
def test_the_columns_of_families_are_the_bridges_own(cep, name):
    with pytest.raises(bridge.SchemaError, match="bridge's own"):
        cep.register_stream("t", {name: "INTEGER"})


# The lifting ----------------------------------------------------------------------------------------------------------


def test_a_signature_keeps_what_must_be_a_constant():
    one, other = (sqlglot.parse_one(f"SELECT ROUND(a, {n}) FROM s") for n in (1, 2))
    assert signature(one) != signature(other)


def test_a_constant_within_a_sub_query_of_an_expression_is_refused():
    texts = (
        f"SELECT a FROM s WHERE a > (SELECT MIN(b) FROM (SELECT b FROM t WHERE b > {n}) AS t) ORDER BY a"
        for n in (1, 2)
    )
    with pytest.raises(NotAlike):
        share_constants(list(map(sqlglot.parse_one, texts)), "k")


# At random ------------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_families_agree_with_the_reference(seed: int, database: Database):
    check(seed, database)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 3_000, 100))
def test_families_agree_on_many_seeds(start: int, database: Database):
    for seed in range(start, start + 100):
        check(seed, database)


def check(seed: int, database: Database) -> None:
    case = family_case(seed)
    drive = DRIVES[seed % len(DRIVES)]
    if case is None:
        return
    kind, _ = difference(case, database, drive, seed)
    if kind is not None:
        small = shrink(case, lambda smaller: difference(smaller, database, drive, seed)[0] == kind)
        _, told = difference(small, database, drive, seed)
        pytest.fail(
            f"seed {seed}, {database.name}, {drive.__name__}: {told}\n{print_case(small, f'seed {seed}')}", False
        )


def family_case(seed: int) -> Case | None:
    """A case of the generator with siblings of its queries, which have other constants; None where none is left."""
    case = random_case(seed)
    rng = Random(f"family {seed}")
    queries = dict(case.queries)
    for name, node in case.queries.items():
        for sibling in range(3):
            queries[f"{name}_{sibling}"] = varied(node, rng)
    made = dataclasses.replace(case, queries=queries)
    try:
        with_results = not is_left_open(made) and made.expected(20_000) is not None
    except (LimitError, bridge.BridgeError):
        return None
    return made if with_results else None


def varied(part: Any, rng: Random) -> Any:
    """The same tree with other constants, now and then."""
    if isinstance(part, exp.Expr):
        return part.transform(lambda node: _other(node, rng) if isinstance(node, exp.Literal) else node)
    if isinstance(part, tuple):
        return tuple(varied(one, rng) for one in part)
    if not isinstance(part, (q.Node, q.Definition, Range, Rows)):
        return part
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.init}
    sizes = {
        name: max(1, value + rng.choice([-2, -1, 0, 1, 3]))
        for name, value in fields.items()
        if type(value) is int and name != "offset"
    }
    other = {name: varied(value, rng) for name, value in fields.items()} | sizes
    try:
        return dataclasses.replace(part, **other)
    except ValueError:  # no such window: an OFFSET beyond its SLIDE, a FULL one that slides too far
        return part


def _other(literal: exp.Literal, rng: Random) -> exp.Literal:
    if literal.is_string or not literal.name.isdigit() or rng.random() < 0.3:
        return literal
    return exp.Literal.number(max(1, int(literal.name) + rng.choice([-2, -1, 0, 1, 3])))
