"""Objects and lists that queries make: of all types the same on every database, and the same however events are pushed."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from databases import DATABASES, Database, one_of

import bridge
from bridge.errors import QueryError

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
