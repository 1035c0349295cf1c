"""Objects and lists that queries make: of all types the same on every database, and the same however events are pushed."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

import bridge
from bridge.errors import QueryError
from tests.support.databases import DATABASES, Database, one_of

pytestmark = pytest.mark.some_databases(1)

database = one_of(DATABASES)

SCHEMA = (
    'id VARCHAR, n INTEGER, x DOUBLE, ok BOOLEAN, "at" TIMESTAMP, day DATE, price DECIMAL(8, 2), tags VARCHAR[], '
    "home STRUCT(city VARCHAR, m MAP(VARCHAR, DOUBLE))"
)
NAMES = ["id", "n", "x", "ok", "at", "day", "price", "tags", "home"]


def event(*values: Any) -> dict[str, Any]:
    """An event; what is left out is NULL."""
    return dict(zip(NAMES, [*values, *[None] * (len(NAMES) - len(values))], strict=True))


AT = datetime.datetime(2024, 1, 2, 3, 4, 5, 600)
EVENTS = [
    event("a", 1, 0.1 + 0.2, True, AT, datetime.date(2024, 2, 29), Decimal("1.50"), ["x", None], {"city": "é", "m": {"k": 2.0}}),
    event("'\"\\\n", 1, 1e22, False, None, None, Decimal("-3.00"), [], {"city": None, "m": None}),
    event(None, 1, -2.0),
    event("b", 2, 1e-7),
]  # fmt: skip


def told(database: Database, queries: dict[str, tuple[str, str]], size: int) -> dict[str, list[Any]]:
    """The payloads that queries give, of events pushed so many at a time."""
    found: dict[str, list[Any]] = {name: [] for name in queries}
    with database.connect() as cep:
        cep.register_stream("S", SCHEMA)
        for name, (language, text) in queries.items():
            cep.create_query(name, text, language=language)
            cep.add_output_processor(name, lambda e, name=name: found[name].append(e.payload))
        pairs = [(each, ts) for ts, each in enumerate(EVENTS, 1)]
        for start in range(0, len(pairs), size):
            cep.push_events("S", pairs[start : start + size])
    return found


MATCHES = {
    "whole": (
        "epl",
        "select * from S match_recognize (measures A as a, A[1] as second, A[7] as none, B as b"
        " pattern (A+ B) define A as A.n = 1, B as B.n = 2)",
    ),
    "rows": (
        "sql",
        "SELECT ns, o FROM S MATCH_RECOGNIZE (MEASURES ARRAY_AGG(A.price) AS ns, {'first': FIRST(A.id), 'of': B.n} AS o"
        " ALL ROWS PER MATCH PATTERN (A+ B) DEFINE A AS n = 1, B AS n = 2)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 4])
def test_a_match_tells_whole_events(database: Database, size: int) -> None:
    found = told(database, MATCHES, size)
    assert found["whole"] == [{"a": EVENTS[:3], "second": EVENTS[1], "none": None, "b": EVENTS[3]}]
    prices = [Decimal("1.50"), Decimal("-3.00"), None]
    assert found["rows"] == [
        {"ns": prices[:taken], "o": {"first": "a", "of": of}} for taken, of in [(1, None), (2, None), (3, None), (3, 2)]
    ]


@pytest.mark.parametrize("size", [1, 3])
def test_maps_in_matches_keep_their_own_keys(database: Database, size: int) -> None:
    maps, found = [{"k": 1.0}, {"z": 2.0}, {"k": None}], []
    with database.connect() as cep:
        cep.register_stream("S", "n INTEGER, m MAP(VARCHAR, DOUBLE)")
        cep.create_query("q", "SELECT m FROM S MATCH_RECOGNIZE (MEASURES A.n AS k ALL ROWS PER MATCH PATTERN (A A A))")
        cep.add_output_processor("q", lambda event: found.append(event.payload["m"]))
        for start in range(0, 3, size):
            cep.push_events("S", [((1, each), 1) for each in maps[start : start + size]])
    assert found == maps


def test_matches_in_a_replay_and_asked_for_now() -> None:
    history = [(each, ts) for ts, each in enumerate(EVENTS, 1)]
    text = MATCHES["whole"][1].replace("from S", "from S#keepall")
    kinds = "id string, n int, x double, ok boolean, at timestamp, day date, price decimal(8, 2), tags string[]"
    schema = f"create schema S ({kinds}, home struct(city string, m map(string, double)))"
    replayed = bridge.replay({"S": history}, f"{schema}; @name('q') {text}", language="epl")["q"]
    with bridge.connect("sqlite://") as cep:
        cep.create_query("schema", schema, language="epl")
        cep.create_query("q", text, language="epl")
        cep.push_events("S", history)
        asked = cep.query("SELECT * FROM q")
        assert [row[1:] for row in asked] == [(EVENTS[:3], EVENTS[1], None, EVENTS[3])]
        assert asked.to_arrow().select(["a", "b"]).equals(replayed.select(["a", "b"]))


# The content of windows ------------------------------------------------------------------------------------------------

S = [
    (1000, "e0", 1, "x"),
    (2000, "e1", None, "y"),
    (3000, "e2", 3, "x"),
    (4000, "e3", 4, "y"),
    (8000, "e4", 5, "x"),
    (8000, "e5", 6, "x"),
    (9000, "e9", 9, "x"),
]
E = [list(row[1:]) for row in S]

WINDOWS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "values": (
        "select window(v) as w from S#length(3)",
        [(1000, [1]), (2000, [1, None]), (3000, [1, None, 3]), (4000, [None, 3, 4]), (8000, [3, 4, 5]), (8000, [4, 5, 6]),
         (9000, [5, 6, 9])],
    ),
    "events": (
        "select window(*) as w from S#length(2)",
        [(1000, E[:1]), (2000, E[:2]), (3000, E[1:3]), (4000, E[2:4]), (8000, E[3:5]), (8000, E[4:6]), (9000, E[5:])],
    ),
    "keyed": (
        "select window(v) as w, k from S#length(3) group by k",
        [(1000, [1], "x"), (2000, [None], "y"), (3000, [1, 3], "x"), (4000, [None, 4], "y"), (4000, [3], "x"),
         (8000, [3, 5], "x"), (8000, [4], "y"), (8000, [5, 6], "x"), (9000, [5, 6, 9], "x"), (9000, None, "y")],
    ),
    "timed": (
        "select window(v) as w from S#time(3 sec)",
        [(1000, [1]), (2000, [1, None]), (3000, [1, None, 3]), (4000, [None, 3]), (4000, [None, 3, 4]), (5000, [3, 4]),
         (6000, [4]), (7000, None), (8000, [5]), (8000, [5, 6]), (9000, [5, 6, 9]), (11000, [9]), (12000, None)],
    ),
    "batches": ("select window(v) as w from S#length_batch(2)", [(2000, [1, None]), (4000, [3, 4]), (8000, [5, 6])]),
    "instants": (
        "select window(v) as w from S#time_batch(3 sec)", [(4000, [1, None, 3]), (7000, [4]), (10000, [5, 6, 9]), (13000, None)],
    ),
    "latest": (
        "select window(v) as w from S#unique(k)",
        [(1000, [1]), (2000, [1, None]), (3000, [None, 3]), (4000, [3, 4]), (8000, [4, 5]), (8000, [4, 6]), (9000, [4, 9])],
    ),
    "beside": (
        "select window(v * 2) as w, v, sum(v) as t from S#keepall where k = 'x'",
        [(1000, [2], 1, 1), (3000, [2, 6], 3, 4), (8000, [2, 6, 10], 5, 9), (8000, [2, 6, 10, 12], 6, 15),
         (9000, [2, 6, 10, 12, 18], 9, 24)],
    ),
    "named": ("select window(s) as w from S#length(2) as s having count(*) < 2", [(1000, E[:1])]),
    "before": (
        "select rstream window(v) as w from S#length(2)",
        [(1000, None), (2000, [1]), (3000, [1, None]), (4000, [None, 3]), (8000, [3, 4]), (8000, [4, 5]), (9000, [5, 6])],
    ),
    "paced": (
        "select window(v) as w from S#length(2) output last every 2 events",
        [(2000, [1, None]), (4000, [3, 4]), (8000, [5, 6])],
    ),
}  # fmt: skip
"""Statements, and what Esper 9 tells of them."""


@pytest.mark.parametrize("size", [1, len(S)])
def test_a_window_is_a_list_of_its_values(database: Database, size: int) -> None:
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in WINDOWS}
    with database.connect() as cep:
        cep.register_stream("S", "id VARCHAR, v INTEGER, k VARCHAR")
        for name, (text, _) in WINDOWS.items():
            cep.create_query(name, text, language="epl")
            cep.add_output_processor(name, lambda e, name=name: found[name].append(_row(e)))
        for start in range(0, len(S), size):
            cep.push_events("S", [(row[1:], row[0]) for row in S[start : start + size]])
        cep.advance_time(17_000)
    assert found == {name: rows for name, (_, rows) in WINDOWS.items()}


def _row(event: Any) -> tuple[Any, ...]:
    """The time and the values; objects as their values."""
    return (event.timestamp, *(_flat(value) for value in event.payload.values()))


def _flat(value: Any) -> Any:
    if isinstance(value, list):
        return [_flat(each) for each in value]
    return list(value.values()) if isinstance(value, dict) else value


PATTERNS = {
    "list": ("epl", "select a from pattern [every [2] a=S]"),
    "beside": ("epl", "insert into Beside select a as x, a[1].id as i, a.countOf() as n, b from pattern"
                      " [every (a=S(n = 1, x < 1) until b=S(n = 2 or x > 1))]"),
    "parts": ("epl", "select x[0].home.city as c, x.lastOf().id as l, b.day as d from Beside"),
    "all": ("epl", "select * from pattern [every (a=S(x < 1) until b=S(x > 1))]"),
    "conditioned": ("epl", "select a, b from pattern [[2] a=S(n = 1) -> b=S(n > a[0].n and x < a.lastOf().x)]"),
    "either": ("epl", "select a, b from pattern [every (a=S(n = 2) or b=S(id = 'a'))]"),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 4])
def test_a_pattern_tells_whole_events(database: Database, size: int) -> None:
    """As Esper 9 does, but that `select *` names the attributes of single events."""
    first, second, third, last = EVENTS
    found = told(database, PATTERNS, size)
    assert found["list"] == [{"a": EVENTS[:2]}, {"a": EVENTS[2:]}]
    beside = [(EVENTS[:1], None, 1, second), ([third], None, 1, last)]
    assert [tuple(row.values()) for row in found["beside"]] == beside
    parts = [("é", "a", None), (None, None, None)]
    assert [tuple(row.values()) for row in found["parts"]] == parts
    assert found["all"] == [{"a": EVENTS[:1], **{f"b_{name}": value for name, value in second.items()}}]
    assert found["conditioned"] == [{"a": EVENTS[:2], "b": last}]
    assert found["either"] == [{"a": None, "b": first}, {"a": last, "b": None}]


OWN = {
    "called": ("epl", "select window(n) from S#lastevent"),
    "typed": ("sql", "SELECT ARRAY_AGG(*) AS w, COUNT(*) AS c, FIRST(id) AS f FROM S WINDOW(ROWS 2)"),
    "keyed": ("sql", "SELECT n, ARRAY_AGG({'id': id, 'o': {'x': x, 'home': home}}) AS w FROM S WINDOW(ROWS 3) GROUP BY n"),
    "parts": ("sql", "SELECT w[-1].o.home.city AS c, w[1].id AS i, ARRAY_LENGTH(w) AS l FROM keyed"),
    "object": ("sql", "SELECT {'a': id || '!', 'b': 1.5, 'ok': n > 1} AS o FROM S WHERE {'x': x} = {'x': 2.0 - 4}"),
    "joined": (
        "sql",
        "SELECT ARRAY_AGG(a.*) AS e, ARRAY_AGG(b.id) AS i FROM S WINDOW(ROWS 2) a, S WINDOW(NOW) b WHERE a.n = b.n",
    ),
    "empty": ("sql", "SELECT ARRAY_AGG(n) AS w FROM S WINDOW(RANGE 1 MS) EMIT ON CHANGE"),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 4])
def test_lists_and_objects_in_sql(database: Database, size: int) -> None:
    found = told(database, OWN, size)
    assert found["called"] == [{"window(n)": [each["n"]]} for each in EVENTS]
    firsts = ["a", "a", EVENTS[1]["id"], None]
    spans = [EVENTS[:1], EVENTS[:2], EVENTS[1:3], EVENTS[2:]]
    assert found["typed"] == [{"w": w, "c": len(w), "f": f} for w, f in zip(spans, firsts, strict=True)]
    made = [{"id": each["id"], "o": {"x": each["x"], "home": each["home"]}} for each in EVENTS]
    assert [row["w"] for row in found["keyed"]] == [made[:1], made[:2], made[:3], made[3:]]
    parts = [("é", "a", 1), (None, "a", 2), (None, "a", 3), (None, "b", 1)]
    assert [tuple(row.values()) for row in found["parts"]] == parts
    assert found["object"] == [{"o": {"a": None, "b": 1.5, "ok": False}}]
    joined = [([0], [0]), ([0], [1]), ([0, 1], [1, 1]), ([1], [2]), ([1, 2], [2, 2]), ([3], [3])]
    told_of = [{"e": [EVENTS[n] for n in e], "i": [EVENTS[n]["id"] for n in i]} for e, i in joined]
    assert found["joined"] == told_of
    assert [row["w"] for row in found["empty"]] == [[1], None, [1], None, [1], None, [2]]


# Refusals ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("measures A.n as n pattern (A+ B) define B as ¦A = B)", "'A' as a whole event cannot stand in define"),
        ("measures B.n as n, coalesce(¦B, B) as b pattern (A+ B))", "the whole event 'B' stands alone"),
        ("measures ¦B[0] as b pattern (A+ B))", "'B' stands for one row"),
        ("measures ¦A.* as a pattern (A+ B))", "the whole event is A"),
    ],
)
def test_what_a_whole_event_cannot_be_is_refused_at_its_place(marked: str, message: str) -> None:
    before, after = f"select * from S match_recognize ({marked}".split("¦")
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("S", SCHEMA)
        with pytest.raises(QueryError) as refused:
            cep.create_query("q", before + after, language="epl")
    assert message in refused.value.message
    assert refused.value.position == len(before)
