"""MATCHINGs that differ in constants alone share runs until a constant decides; each gives what it gives by itself."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING
from unittest import mock

import pytest

import bridge
from bridge.rewrite.matching.sequence import word_of
from nfa import parse_pattern
from nfa.automaton import compile_automaton

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(2)

SEEDS = range(*map(int, os.environ.get("CEP_SEEDS", "0:8").split(":")))
SCHEMA = "a INTEGER, b VARCHAR, c DOUBLE"
PATTERNS = ("xyu", "x y* u", "(x|u) y", "x", "x* y", "(x y)* u", "(x|y) (y|u)+", "x?y", "x y{{1,3}}")
CONDITIONS = ("true", "a > 1", "a - z1 = {0}", "a >= {0}", "b = 'v{0}'", "c < {0}.5", "z2 IS NULL OR a <> z2 + {0}")
WORDS = ("xyu", "xy", "x x", "xyx", "x y u y", "xyuxyu")
"""Patterns of one word, which are matched without recursion."""
ASSIGNED = ("a", "a + {0}", "z1 + 1")


def by_runs() -> AbstractContextManager[object]:
    """Queries created meanwhile find patterns of one word by recursion, too."""
    return mock.patch("bridge.rewrite.matching.match.suits", lambda *_: False)


def is_recursive(url: str, text: str) -> bool:
    with bridge.connect(url, durable=False) as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text)
        return "RECURSIVE" in str(cep.explain("q"))


def query(random: Random, patterns: Sequence[str]) -> str:
    """The text of a MATCHING whose constants are still to be filled in."""
    pattern = random.choice(patterns)
    defined = []
    for symbol in random.sample(sorted(set("xyu") & set(pattern)), len(set("xyu") & set(pattern))):
        condition = random.choice(CONDITIONS)
        assigned = f" DO z{random.randint(1, 2)} = {random.choice(ASSIGNED)}" if random.random() < 0.7 else ""
        if condition != "true" or assigned or random.random() < 0.5:
            defined.append(f"{symbol} AS {condition}{assigned}")
    defined = defined or ["x AS a > {0}"]
    keys = "PARTITION BY b " if random.random() < 0.3 else ""
    return (
        f"SELECT z1, z2 FROM s MATCHING ({keys}PATTERN {pattern} WITHIN {{1}} MS "
        f"MEASURES z1:Integer, z2:Integer DEFINE {', '.join(defined)})"
    )


def events(random: Random) -> list[tuple[str, tuple[int, str, float], int]]:
    found, ts = [], 0
    steps = random.choice(((0, 1, 1, 2), (0, 1, 1, 2), (1,), (0, 1, 1, 1, 1)))
    for _ in range(random.choice((10, 10, 25))):
        ts += random.choice(steps)
        found.append(("s", (random.randint(0, 4), f"v{random.randint(0, 3)}", float(random.randint(0, 4))), ts))
    return found


def told(url: str, texts: Sequence[str], pushes: Iterable[Sequence[tuple[str, tuple[int, str, float], int]]]) -> object:
    """What each query reports, in order."""
    with bridge.connect(url, durable=False) as cep:
        cep.register_stream("s", SCHEMA)
        found: list[list[tuple[object, ...]]] = [[] for _ in texts]
        for number, text in enumerate(texts):
            cep.create_query(f"q{number}", text)
            cep.add_output_processor(
                f"q{number}", lambda e, n=number: found[n].append((e.timestamp, *e.payload.values()))
            )
        for push in pushes:
            cep.push_all(push)
        return found


def check(seed: int, url: str, patterns: Sequence[str] = PATTERNS) -> None:
    """A family, singly and in batches, beside each of its members alone."""
    random = Random(seed)
    template, pushed = query(random, patterns), events(random)
    texts = [template.format(constant, 3 + constant) for constant in (0, 1, 2, 3)]
    with by_runs():
        alone = [told("sqlite://", [text], [pushed])[0] for text in texts]  # type: ignore[index]
    cut = random.randint(1, len(pushed) - 1)
    for pushes in ([[event] for event in pushed], [pushed[:cut], pushed[cut:]]):
        assert told(url, texts, pushes) == alone, (seed, template)


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_family_gives_what_its_members_give_alone(seed: int, database: Database) -> None:
    check(seed, database.fresh())


@pytest.mark.long
@pytest.mark.parametrize("start", range(1_000, 3_000, 100))
def test_families_on_many_seeds(start: int, database: Database) -> None:
    for seed in range(start, start + 100):
        check(seed, database.fresh())


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_patterns_of_one_word(seed: int, database: Database) -> None:
    check(seed, database.fresh(), WORDS)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1_000, 3_000, 100))
def test_patterns_of_one_word_on_many_seeds(start: int, database: Database) -> None:
    for seed in range(start, start + 100):
        check(seed, database.fresh(), WORDS)


def pair(step: int, pattern: str = "xy") -> str:
    """Two events, the second one by `step` more."""
    return (
        f"SELECT z1 FROM s MATCHING (PATTERN {pattern} WITHIN 10 MS MEASURES z1:Integer "
        f"DEFINE x AS true DO z1 = a, y AS a - z1 = {step})"
    )


def test_a_run_begins_once_for_all(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        for step in range(5):
            cep.create_query(f"q{step}", pair(step, "x y+"))
        cep.push_event("s", (1, "", 0.0), 1)
        (begun,) = cep.database.fetch("SELECT COUNT(*), MIN(_member), MAX(_member) FROM cep_runs_s")
    assert begun == (1, 0, 0)


@pytest.mark.parametrize("left", [0, 1])
def test_the_others_leave_while_runs_are_the_same_for_all(database: Database, left: int) -> None:
    """The one that stays gets its matches."""
    found = []
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        for step in (0, 1):
            cep.create_query(f"q{step}", pair(step))
        cep.add_output_processor(f"q{left}", lambda event: found.append((event.timestamp, event.payload["z1"])))
        cep.push_event("s", (5, "", 0.0), 1)
        cep.remove_query(f"q{1 - left}")
        cep.push_event("s", (5 + left, "", 0.0), 2)
        cep.push_event("s", (5 + 2 * left, "", 0.0), 3)
    assert found == [(2, 5), (3, 5 + left)]


def test_the_table_of_constants_has_those_of_the_queries_there_are(database: Database) -> None:
    """Not that of one that was refused, nor of one that has gone."""
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        told: dict[int, list[int]] = {step: [] for step in range(3)}

        def constants(ts: int) -> list[int]:
            cep.push_event("s", (0, "", 0.0), ts)
            (name,) = (name for name in cep.database.table_names() if name.startswith("cep_constants"))
            return sorted(int(row[0]) for row in cep.database.fetch(f"SELECT _k1 FROM {name}"))

        for step in range(3):
            cep.create_query(f"q{step}", pair(step))
            cep.add_output_processor(f"q{step}", lambda event, step=step: told[step].append(event.timestamp))
            with pytest.raises(bridge.QueryError, match="database refuses"):
                cep.create_query("wrong", f"SELECT NO_SUCH_FUNCTION(z1) AS x FROM ({pair(3)})")
        assert constants(1) == [0, 1, 2]
        cep.remove_query("q1")
        assert constants(2) == [0, 2]
        cep.remove_query("q0")
        assert constants(3) == [2]
        cep.push_event("s", (2, "", 0.0), 4)
    assert told == {0: [2], 1: [], 2: [4]}


def test_constants_in_the_first_symbol_begin_runs_of_their_own(database: Database) -> None:
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        for least in range(3):
            text = f"PATTERN x y+ WITHIN 10 MS MEASURES z1:Integer DEFINE x AS a > {least} DO z1 = a, y AS true"
            cep.create_query(f"q{least}", f"SELECT z1 FROM s MATCHING ({text})")
        cep.push_event("s", (2, "", 0.0), 1)
        begun = cep.database.fetch("SELECT _member FROM cep_runs_s ORDER BY _member")
    assert begun == [(1,), (2,)]


# Patterns of one word -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "word"),
    [("x y u", "xyu"), ("x y x", "xyx"), ("x{2}", "xx"), ("x y{2} | x y y", "xyy")]
    + [(pattern, None) for pattern in ("x", "x y?", "x|y", "x y+", "x* y", "x{9}", "(x y)+")],
)
def test_the_one_word_of_a_pattern(pattern: str, word: str | None) -> None:
    assert word_of(compile_automaton(parse_pattern(pattern))) == (word and tuple(word))


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", range(4))
def test_patterns_of_one_word_over_many_events(seed: int, database: Database) -> None:
    """More than DuckDB reads at once, some of one instant, by key or not, in pushes that begin anywhere."""
    random = Random(seed)
    keys = "PARTITION BY b " if seed % 2 else ""
    steps = random.choice(((1,), (0, 1, 1, 1), (1,) * 50 + (0,), (0, 1)))
    found, ts = [], 0
    for _ in range(6_000):
        ts += random.choice(steps)
        found.append(("s", (random.randint(0, 5), f"v{random.randint(0, 4)}", 0.0), ts))
    texts = [
        f"SELECT z1, z2 FROM s MATCHING ({keys}PATTERN xyx WITHIN {10 + step} MS MEASURES z1:Integer, z2:Integer "
        f"DEFINE x AS true DO z1 = a, y AS a < 5 AND a - z1 = {step} DO z2 = a)"
        for step in range(1 + seed // 2)
    ]
    first, second = sorted(random.randint(0, len(found)) for _ in range(2))
    pushes = [found[:first], found[first:second], found[second:]]
    with by_runs():
        expected = told("sqlite://", texts, [found])
    assert told(database.fresh(), texts, pushes) == expected


def doubled(count: int) -> str:
    """A MATCHING in which each symbol doubles what the one before assigned."""
    symbols = "abcdefgh"[:count]
    defined = [f"{symbol} AS true DO z = z + z + a" for symbol in symbols]
    return f"SELECT z FROM s MATCHING (PATTERN {symbols} WITHIN 1 S MEASURES z:Integer DEFINE {', '.join(defined)})"


@pytest.mark.parametrize(("count", "recursive"), [(3, False), (8, True)])
def test_what_variables_stand_for_is_written_out_up_to_a_size(count: int, recursive: bool) -> None:
    events = [("s", (number, "", 0.0), number) for number in range(10)]
    assert is_recursive("duckdb://", doubled(count)) is recursive
    with by_runs():
        expected = told("sqlite://", [doubled(count)], [events])
    assert told("duckdb://", [doubled(count)], [events]) == expected


@pytest.mark.parametrize(
    ("define", "on_duckdb", "elsewhere"),
    [
        ("y AS a > z1 DO z1 = a, u AS a > z1 DO z1 = a, v AS a > z1", False, False),
        ("x AS a = 1, y AS a = 2, u AS a = 3, v AS a = 4", False, False),
        ("y AS a > z1, u AS a > z1 DO z1 = a, v AS a > z1", False, True),  # nothing is asked of y without x
        ("y AS a > z1, u AS a > z1, v AS a > z1", False, True),
        ("y AS a > 2 AND a > z1, u AS a > 2 AND a > z1, v AS a > z1", False, False),
        ("y AS 1 = 1, u AS a > 2, v AS a > z1", False, True),
        ("y AS a > z1 DO z1 = a, u AS a > z1 DO z1 = a, v AS 1 / a > 0", True, True),  # which can fail
    ],
)
def test_a_sequence_is_joined_where_something_is_asked_of_each_event_and_those_after_it(
    define: str, on_duckdb: bool, elsewhere: bool
) -> None:
    """Each event is joined with all of the instant before, from the last one back; there may be many."""
    text = (
        "SELECT z1 FROM s MATCHING (PATTERN x y u v WITHIN 1 S MEASURES z1:Integer "
        f"DEFINE {define if define.startswith('x') else f'x DO z1 = a, {define}'})"
    )
    assert is_recursive("duckdb://", text) is on_duckdb
    assert is_recursive("sqlite://", text) is elsewhere


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(
    ("variable", "condition"), [("z1:Double", "CAST(b AS INTEGER) > 1"), ("z1:Decimal(4,2)", "z1 < 9")]
)
def test_a_condition_is_not_asked_where_one_before_it_does_not_hold(
    members: int, variable: str, condition: str, database: Database
) -> None:
    """A text that is no number is an error, and a number of too many digits; but no run comes to these."""
    texts = [
        f"SELECT z1 FROM s MATCHING (PATTERN xy WITHIN {within} MS MEASURES {variable} "
        f"DEFINE x AS a = 1 DO z1 = c, y AS {condition})"
        for within in range(5, 5 + members)
    ]
    values = ((1, "7", 0.0), (1, "8", 3.0), (0, "9", 4.0), (0, "none", 5_000.0), (0, "7", 5.0))
    events = [("s", value, ts) for ts, value in enumerate(values, 1)]
    expected = [[(2, 0.0), (3, 3.0)]] * members
    assert told(database.fresh(), texts, [events]) == expected
    assert told(database.fresh(), texts, [[event] for event in events]) == expected


@pytest.mark.parametrize("keys", ["", "PARTITION BY b "])
def test_the_events_of_the_last_instants_are_kept(keys: str, database: Database) -> None:
    text = f"SELECT z1 FROM s MATCHING ({keys}PATTERN xyx WITHIN 1 H MEASURES z1:Integer DEFINE x AS true DO z1 = a, y AS a >= 0)"
    with database.connect() as cep:
        cep.register_stream("s", SCHEMA)
        cep.create_query("q", text)
        for push in range(5):
            times = range(1_000 * push, 1_000 * push + 1_000)
            cep.push_all([("s", (ts, f"v{ts % 7}", 0.0), ts) for ts in times])
            cep.purge()
            ((kept,),) = cep.database.fetch("SELECT COUNT(*) FROM cep_events_s")
            assert kept == (3 * 7 if keys else 3)
