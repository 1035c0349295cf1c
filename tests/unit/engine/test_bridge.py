"""The bridge as its users meet it: every method, every refusal, and what must hold whatever else happens."""

from __future__ import annotations

import contextlib
import copy
import datetime
import decimal
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp

import bridge
from bridge import Bridge, Event
from tests.support.databases import tables_of
from windows.databases import open_database

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(2)


@pytest.fixture
def cep(database: Database) -> Iterator[Bridge]:
    with contextlib.closing(database.connect()) as opened:
        yield opened


def collect(cep: Bridge, query: str) -> list[Any]:
    """A list that the query's results will be appended to, as (ts, value, value, …)."""
    rows: list[Any] = []
    cep.add_output_processor(query, lambda event: rows.append((event.timestamp, *event.payload.values())))
    return rows


def tables(cep: Bridge) -> set[str]:
    return tables_of(cep.database)


def sizes(cep: Bridge) -> dict[str, int]:
    return {name: cep.database.fetch(f'SELECT COUNT(*) FROM "{name}"')[0][0] for name in tables(cep)}


# The methods ----------------------------------------------------------------------------------------------------------


def test_one_event_comes_out_as_one_result(cep: Bridge) -> None:
    cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
    cep.create_query("high", "SELECT price, symbol FROM trades WHERE price > 10")
    events: list[Event] = []
    cep.add_output_processor("high", events.append)
    cep.push_event("trades", {"symbol": "A", "price": 11.5}, 1000)
    cep.push_event("trades", ("B", 9.5), 1000)
    assert events == [Event({"price": 11.5, "symbol": "A"}, 1000)]
    assert list(events[0].payload) == ["price", "symbol"]


def test_streams_and_queries_are_listed_as_they_were_given(cep: Bridge) -> None:
    cep.register_stream("Trades", "a INTEGER")
    text = "SELECT  a FROM trades  -- all of it"
    cep.create_query("All of it", text)
    assert {name: str(schema) for name, schema in cep.streams.items()} == {"Trades": "a INTEGER"}
    assert cep.queries == {"All of it": text}


def test_a_query_may_be_an_object(cep: Bridge) -> None:
    trades = bridge.Stream("trades", "a INTEGER")
    cep.create_query("sums", bridge.Aggregate(bridge.Window(trades, "ROWS 2"), ["SUM(a) AS total"]))
    rows = collect(cep, "sums")
    for ts in (1, 2, 3):
        cep.push_event("trades", [ts], ts)
    assert rows == [(1, 1), (2, 3), (3, 5)]


def test_time_passes_without_an_event(cep: Bridge) -> None:
    cep.create_query("n", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 10 MS SLIDE 10 MS)")
    rows = collect(cep, "n")
    cep.push_event("s", [1], 3)
    cep.advance_time(9)
    assert rows == []
    cep.advance_time(datetime.datetime.fromtimestamp(0.025, datetime.UTC))
    assert rows == [(10, 1)]
    assert cep.now == 25
    cep.advance_time(25)


def test_timestamps_are_milliseconds_or_aware_datetimes(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    rows = collect(cep, "q")
    east = datetime.timezone(datetime.timedelta(hours=2))
    cep.push_event("s", [1], datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500, datetime.UTC))
    cep.push_event("s", [2], datetime.datetime(1970, 1, 1, 2, 0, 1, tzinfo=east))
    assert rows == [(-1, 1), (1000, 2)]


@pytest.mark.parametrize("timestamp", [None, "1000", 1.0, True, datetime.datetime(2024, 1, 1), 2**60, -(2**60)])
def test_a_timestamp_that_is_none_is_refused(cep: Bridge, timestamp: Any) -> None:
    cep.register_stream("s", "a INTEGER")
    with pytest.raises(bridge.SchemaError, match="timestamp"):
        cep.push_event("s", [1], timestamp)
    with pytest.raises(bridge.SchemaError, match="timestamp"):
        cep.advance_time(timestamp)
    assert cep.now is None


def test_a_removed_processor_gets_nothing_more(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    first: list[Event] = []
    second: list[Event] = []
    handle = cep.add_output_processor("q", first.append)
    cep.add_output_processor("Q", second.append)
    cep.push_event("s", [1], 1)
    cep.remove_output_processor(handle)
    cep.push_event("s", [2], 2)
    assert [event.timestamp for event in first] == [1]
    assert [event.timestamp for event in second] == [1, 2]
    with pytest.raises(bridge.UnknownName):
        cep.remove_output_processor(handle)


def test_a_processor_that_cannot_be_called_is_refused_at_once(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    with pytest.raises(bridge.BridgeError, match="function"):
        cep.add_output_processor("q", [])  # type: ignore[arg-type]


def test_a_batch_processor_gets_one_typed_table_a_push(cep: Bridge) -> None:
    import pyarrow as pa

    schema = "b BOOLEAN, i INTEGER, l BIGINT, d DOUBLE, t VARCHAR, n DECIMAL(6, 2), y DATE, m TIMESTAMP"
    cep.register_stream("s", schema)
    cep.create_query("q", "SELECT *, i + 1 AS next, i > 1 AS more FROM s")
    got: list[Any] = []
    cep.add_output_processor("q", got.append, batch=True)
    day = datetime.date(2024, 2, 29)
    moment = datetime.datetime(2024, 2, 29, 12, 30, 0, 1)
    row = (True, 1, 2**62, 0.5, "x", decimal.Decimal("1.25"), day, moment)
    cep.push_events("s", [(row, 5), ((None,) * 8, 6)])
    cep.push_event("s", row, 7)
    first, second = got
    assert (first.num_rows, second.num_rows) == (2, 1)
    types = [
        pa.int64(),
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.decimal128(6, 2),
        pa.date32(),
    ]
    assert first.schema.types[:9] == [*types, pa.timestamp("us")]
    assert first.schema.names == ["ts", *"bildtnym", "next", "more"]
    assert first.schema.types[10] == pa.bool_()
    assert tuple(first.to_pylist()[0].values()) == (5, *row, 2, False)
    assert tuple(first.to_pylist()[1].values()) == (6, *[None] * 10)


def test_explain_tells_of_the_query(cep: Bridge) -> None:
    cep.create_query("q", "SELECT SUM(a) AS total FROM s[a: INTEGER] WINDOW(ROWS 3)")
    text = cep.explain("Q")
    assert "Window ROWS 3" in text and "SUM(" in text
    with pytest.raises(bridge.UnknownName, match="did you mean 'q'"):
        cep.explain("qq")


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["S", "s", "Q"])
def test_a_name_is_taken_once_whatever_its_case(cep: Bridge, name: str) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.create_query("q", "SELECT a FROM s")
    with pytest.raises(bridge.NameTaken, match="already"):
        cep.register_stream(name, "b INTEGER")
    with pytest.raises(bridge.NameTaken, match=r"there is a(nother)? (stream|query)"):
        cep.create_query(name, "SELECT a + 1 AS a FROM s")


def test_the_same_declaration_again_changes_nothing(cep: Bridge) -> None:
    """As when a cell of a notebook is run again (rule D6), whatever the definition is."""
    high = bridge.query.Filter(bridge.query.Stream("s"), "a > 5")
    for text in ("SELECT SUM(a) AS a FROM s WINDOW(ROWS 2)", "select sum(a) as a from s window(rows 2)"):
        cep.register_stream("s", "a INTEGER")
        cep.create_query("sums", text)
        cep.create_query("types", "create schema T (a int)", language="epl")
        cep.create_query("graph", "INSERT INTO found SELECT a FROM s WHERE a > 5", language="cpl")
        cep.create_query("objects", high)
        cep.create_query("inline", "SELECT b FROM other[b: INTEGER]")
        cep.register_stream("other", "b INTEGER")
        rows: list[Any] = []
        cep.add_output_processor("sums", lambda event, rows=rows: rows.append(event.payload["a"]))
        cep.push_event("s", [7], 1000)
    assert rows == [14]  # the window goes on
    for define, kind, hint in (
        (lambda: cep.register_stream("s", "a BIGINT"), "stream 's' already, with other attributes", "remove_stream"),
        (lambda: cep.create_query("sums", "SELECT a FROM s"), "other query 'sums'", "replace=True"),
        (lambda: cep.create_query("sums", high), "other query 'sums'", "replace=True"),
        (lambda: cep.create_query("graph", "INSERT INTO found SELECT a FROM s", "cpl"), "other script", "replace=True"),
    ):
        with pytest.raises(bridge.NameTaken, match=f"there is an?.*{kind}.*{hint}"):
            define()
    cep.create_query("sums", "SELECT a FROM s", replace=True)
    cep.create_query("sums", "SELECT a FROM s")


def test_a_definition_of_which_something_was_removed_is_not_taken_for_made(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    for _ in range(2):
        cep.create_query("feed", "insert into A select a from s", language="epl")
        known = list(cep.queries)
        for name in reversed(known):
            cep.remove_query(name)
        assert "A" in known
    cep.create_query("lone", "create schema U (a int)", language="epl")
    cep.remove_stream("U")
    with contextlib.suppress(bridge.BridgeError):
        cep.create_query("lone", "create schema U (a int)", language="epl")
        assert "U" in cep.streams


def test_a_query_is_not_called_as_the_stream_it_brings(cep: Bridge) -> None:
    with pytest.raises(bridge.NameTaken):
        cep.create_query("s", "SELECT a FROM s[a: INTEGER]")
    assert (cep.streams, cep.queries) == ({}, {})


@pytest.mark.parametrize("name", [None, 5, "", " ", "a\0b", "\ud800"])
def test_what_cannot_be_a_name_is_refused(cep: Bridge, name: Any) -> None:
    with pytest.raises(bridge.SchemaError, match="cannot be a name"):
        cep.register_stream(name, "a INTEGER")
    with pytest.raises(bridge.SchemaError, match="cannot be a name"):
        cep.create_query(name, "SELECT a FROM s[a: INTEGER]")
    assert cep.streams == {}


NAMES = [
    'x"; DROP TABLE y', "it's", "two words", " lead", "select", "group", "null", "Größe", "日本", "𝄞", "a.b", "a%s", "a?",
    ":a", "$1", "{x}", "back\\slash", "new\nline", "tab\t", "n" * 300, "_", "-", "--", "/*", "w", "t", "x[a: INTEGER]",
    "\u202e", "e\u0301", "_id", "cep_clock", "now", "before", "ctid",
]  # fmt: skip


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("SELECT a,\n  ¦foo(a) AS b FROM s", "foo"),
        ("SELECT CAST(a AS ¦INTEGERR) AS b FROM s", "INTEGERR"),
    ],
)
def test_what_the_database_does_not_know_is_pointed_at(cep: Bridge, marked: str, message: str) -> None:
    if "CAST" in marked and cep.database.dialect == "sqlite":
        pytest.skip("SQLite takes any word for a type")
    cep.register_stream("s", "a INTEGER")
    before, after = marked.split("¦")
    with pytest.raises(bridge.QueryError, match=r"^(the database refuses|syntax error): .*") as refused:
        cep.create_query("q", before + after)
    assert message.lower() in refused.value.message.lower() or "TYPE after CAST" in refused.value.message
    assert "\n" not in refused.value.message
    assert (refused.value.text, refused.value.position) == (before + after, len(before))


@pytest.mark.parametrize(
    ("language", "marked", "way"),
    [
        ("sql", "SELECT s.a FROM ¦s, u WINDOW(NOW) WHERE s.a = u.a", "write s WINDOW(RANGE 5 S), WINDOW(ROWS 100)"),
        ("sql", "SELECT x.a FROM s WINDOW(NOW) x JOIN s AS ¦y ON x.a = y.a", "write s WINDOW(RANGE 5 S)"),
        ("epl", "select x.a from s#time(5 sec) as x, s as ¦y", "write s#time(5 sec), #length(100) or #keepall"),
    ],
)
def test_a_join_without_a_window_is_pointed_at(cep: Bridge, language: str, marked: str, way: str) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.register_stream("u", "a INTEGER")
    before, after = marked.split("¦")
    with pytest.raises(bridge.QueryError) as refused:
        cep.create_query("q", before + after, language=language)
    assert way in refused.value.message
    assert refused.value.position == len(before)
    with pytest.raises(bridge.QueryError) as refused:
        bridge.replay([], {"q": before + after}, language=language, schemas={"s": "a INTEGER", "u": "a INTEGER"})
    assert (way in refused.value.message, refused.value.position) == (True, len(before))


NO_NAMES = {
    "postgres": [name for name in NAMES if len(name.encode()) > 60 or name == "ctid"],
    "mariadb": [name for name in NAMES if len(name) > 60 or name != name.strip() or max(name) > "\uffff"],
}


@pytest.mark.some_databases(4)
@pytest.mark.parametrize("name", NAMES)
def test_any_text_is_a_name(cep: Bridge, name: str) -> None:
    """As stream, attribute, result column and query; in a filter, an aggregate, a correlation and a pattern.

    A database that has no such name refuses it.
    """
    if name in NO_NAMES.get(cep.database.dialect, ()):
        with pytest.raises(bridge.DatabaseError, match=r"names? .*have at most|every table .* has a column"):
            cep.register_stream(name, {name: "INTEGER", "other": "INTEGER"})
        assert tables(cep) == {"cep_clock"}
        return
    quoted = '"' + name.replace('"', '""') + '"'
    cep.register_stream(name, {name: "INTEGER", "other": "INTEGER"})
    query = "q " + name
    read = '"' + query.replace('"', '""') + '"'
    cep.create_query(query, f"SELECT {quoted} FROM {quoted} WHERE {quoted} > 0")
    cep.create_query("sum", f"SELECT {quoted}, SUM({quoted}) AS total FROM {read} WINDOW(ROWS 2) GROUP BY {quoted}")
    cep.create_query(
        "pair", f"SELECT l.{quoted} AS {quoted} FROM {quoted} WINDOW(ROWS 1) AS l, {read} WINDOW(NOW) AS r "
        f"WHERE l.{quoted} = r.{quoted}"
    )  # fmt: skip
    cep.create_query(
        "pairs", f"SELECT v FROM {quoted} MATCHING (PATTERN xy WITHIN 1 S MEASURES v: INTEGER "
        f"DEFINE x AS {quoted} = 1, y AS {quoted} = 2 DO v = {quoted})"
    )  # fmt: skip
    results = {found: collect(cep, found) for found in (query, "sum", "pair", "pairs")}
    cep.push_event(name, {name: 1}, 1)
    cep.push_event(name, {name: 2}, 2)
    assert results == {
        query: [(1, 1), (2, 2)],
        "sum": [(1, 1, 1), (2, 2, 2)],
        "pair": [(1, 1), (2, 2)],
        "pairs": [(2, 2)],
    }
    for found in ("pairs", "pair", "sum", query):
        cep.remove_query(found)
    cep.remove_stream(name)
    assert tables(cep) == {"cep_clock"}


OWN = [
    "_number",
    "_jump",
    "_boundary",
    "_key0",
    "_rank",
    "_zero",
    "_before",
    "_first",
    "_first_seq",
    "_state",
    "_path",
    "_symbols",
    "_new",
    "_helper1",
    "_in_a",
    "_out_ts",
    "_out_place",
    "_from",
    "_to",
    "_symbol",
    "_move",
    "_run",
    "_by_1",
    "_o_ts",
    "w",
    "t",
    "i",
    "before",
    "now",
    "l.ts",
]


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("name", OWN)
def test_names_used_inside_are_free_for_attributes(cep: Bridge, name: str) -> None:
    """Or refused at registration; never a wrong result."""
    columns = f'"{name}"'
    try:
        cep.register_stream("s", {"a": "INTEGER", name: "INTEGER"})
    except bridge.SchemaError:
        return
    windows = ("RANGE 10 MS", "ROWS 5", "RANGE 10 MS SLIDE 10 MS", "ROWS 2 SLIDE 1")
    for place, window in enumerate(windows):
        aggregates = f"SUM({columns}) AS total, FIRST({columns}) AS f, STDDEV({columns}) AS d"
        cep.create_query(f"g{place}", f"SELECT {columns}, {aggregates} FROM s WINDOW({window}) GROUP BY {columns}")
    cep.create_query(
        "change", f"SELECT {columns}, COUNT(*) AS n FROM s WINDOW(RANGE 10 MS) GROUP BY {columns} EMIT ON CHANGE"
    )
    cep.create_query(
        "join", f"SELECT l.{columns} AS x, r.{columns} AS y FROM s WINDOW(ROWS 2) AS l, s WINDOW(ROWS 1) AS r"
    )
    cep.create_query(
        "m", f"SELECT v FROM s MATCHING (PARTITION BY a PATTERN xy WITHIN 1 S MEASURES v: INTEGER "
        f"DEFINE x AS {columns} = 7 DO v = {columns}, y AS {columns} = v + 1 DO v = {columns})"
    )  # fmt: skip
    results = {query: collect(cep, query) for query in cep.queries}
    cep.push_events("s", [([1, 7], 1), ([1, 8], 2)])
    cep.advance_time(20)
    for place in (0, 1):
        assert [row[:4] for row in results[f"g{place}"]] == [(1, 7, 7, 7), (2, 8, 8, 8)]
    assert [row[:4] for row in results["g2"]] == [(10, 7, 7, 7), (10, 8, 8, 8)]
    assert results["change"][:2] == [(1, 7, 1), (2, 8, 1)]
    assert results["join"] == [(1, 7, 7), (2, 7, 8), (2, 8, 8)]
    assert results["m"] == [(2, 8)]


# Refusals -------------------------------------------------------------------------------------------------------------


def test_unknown_names_are_told_with_the_nearest(cep: Bridge) -> None:
    cep.register_stream("trades", "price DOUBLE")
    cep.create_query("dip", "SELECT price FROM trades")
    calls: list[Callable[[], Any]] = [
        lambda: cep.push_event("trade", {}, 1), lambda: cep.push_events("trade", []), lambda: cep.remove_stream("trade"),
        lambda: cep.push_event("dip", {}, 1), lambda: cep.push_all([("trade", {}, 1)]),
        lambda: cep.remove_query("dib"), lambda: cep.add_output_processor("dib", print), lambda: cep.explain("trades"),
        lambda: cep.push_event(None, {}, 1),  # type: ignore[arg-type]
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(bridge.UnknownName, match=r"'trades'|'dip'"):
            call()
    assert cep.now is None


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("SELECT prise FROM trades", "prise"),
        ("SELECT price FROM trads", "trads"),
        ("SELECT price\nFROM trades\nWHERE price >", "WHERE price >"),
        ("SELECT price FROM trades WINDOW(RANGE 5 PARSECS)", "PARSECS"),
        ("SELECT price FROM trades WHERE symbol > 1", "symbol"),
        ("SELECT nope(price) AS x FROM trades", "nope"),
    ],
)
def test_a_malformed_query_is_shown_with_its_place(cep: Bridge, sql: str, at: str) -> None:
    cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
    before = tables(cep)
    with pytest.raises(bridge.QueryError) as caught:
        cep.create_query("q", sql)
    lines = str(caught.value).split("\n")
    carets = [place for place, line in enumerate(lines) if line.strip() == "^"]
    if at == "nope":  # only the database knows its functions: its own words
        assert "nope" in str(caught.value).lower()
    else:
        place = carets[-1]
        assert lines[place - 1].find(at.splitlines()[0]) >= 0
        assert lines[place].index("^") >= lines[place - 1].index(at.splitlines()[0])
    assert (cep.queries, tables(cep)) == ({}, before)


@pytest.mark.parametrize(
    "definition", [None, 5, b"SELECT a FROM s", ["SELECT a FROM s"], "", " ", ";", "DROP TABLE s", "\0", "\ud800"]
)
def test_what_is_no_query_is_refused(cep: Bridge, definition: Any) -> None:
    cep.register_stream("s", "a INTEGER")
    with pytest.raises(bridge.QueryError):
        cep.create_query("q", definition)
    assert cep.queries == {}


def test_an_unknown_language_is_refused(cep: Bridge) -> None:
    with pytest.raises(bridge.QueryError, match="language 'klingon'"):
        cep.create_query("q", "SELECT a FROM s[a: INTEGER]", language="klingon")


def test_what_is_read_cannot_be_removed(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.create_query("q", "SELECT a FROM s")
    cep.create_query("reader", "SELECT COUNT(*) AS n FROM Q WINDOW(ROWS 2)")
    with pytest.raises(bridge.InUse, match="'q'"):
        cep.remove_stream("S")
    with pytest.raises(bridge.InUse, match="'reader'"):
        cep.remove_query("q")
    rows = collect(cep, "reader")
    cep.push_event("s", [1], 1)
    assert rows == [(1, 1)]
    for name in ("reader", "q"):
        cep.remove_query(name)
    cep.remove_stream("s")
    assert (cep.streams, cep.queries) == ({}, {})


def test_an_event_that_is_too_old_changes_nothing(cep: Bridge) -> None:
    cep.register_stream("other", "b INTEGER")
    cep.create_query("q", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 1 S)")
    rows = collect(cep, "q")
    cep.push_event("s", [1], 10)
    for call in (
        lambda: cep.push_event("s", [2], 9), lambda: cep.push_event("other", [2], 9), lambda: cep.advance_time(9),
        lambda: cep.push_events("s", [([2], 9)]), lambda: cep.push_events("s", [([2], 11), ([3], 10)]),
    ):  # fmt: skip
        with pytest.raises(bridge.OrderError, match="does not go back"):
            call()
    cep.push_event("s", [3], 10)
    assert rows == [(10, 1), (10, 2)]


def test_a_closed_bridge_says_so(database: Database) -> None:
    cep = database.connect()
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    handle = cep.add_output_processor("q", print)
    cep.close()
    cep.close()
    calls = [
        lambda: cep.register_stream("t", "a INTEGER"), lambda: cep.create_query("p", "SELECT a FROM s"),
        lambda: cep.push_event("s", [1], 1), lambda: cep.push_events("s", []), lambda: cep.push_all([]),
        lambda: cep.advance_time(1), lambda: cep.purge(), lambda: cep.query("SELECT 1"), lambda: cep.explain("q"),
        lambda: cep.add_output_processor("q", print), lambda: cep.remove_output_processor(handle),
        lambda: cep.remove_query("q"), lambda: cep.remove_stream("s"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(bridge.Closed):
            call()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "nosuchdb://x",
        "duckdb:////no/such/dir/x.db",
        "sqlite:////no/such/dir/x.db",
        "sqlite:///\0",
        "postgresql+psycopg://me@host:port/x",
        None,
        5,
    ],
)  # fmt: skip
def test_a_database_that_cannot_be_opened_is_an_error_of_the_bridge(url: Any) -> None:
    with pytest.raises(bridge.DatabaseError):
        bridge.connect(url)


# Nothing half-made ----------------------------------------------------------------------------------------------------


def test_a_query_that_fails_leaves_nothing_behind(cep: Bridge) -> None:
    before = tables(cep)
    with pytest.raises(bridge.QueryError, match=r"(?i)nosuchfunction"):
        cep.create_query(
            "q", "SELECT nosuchfunction(a) AS x FROM s[a: INTEGER] WINDOW(ROWS 3) GROUP BY nosuchfunction(a)"
        )
    assert (cep.streams, cep.queries, tables(cep)) == ({}, {}, before)
    cep.create_query("q", "SELECT SUM(b) AS x FROM s[b: INTEGER] WINDOW(ROWS 3)")
    rows = collect(cep, "q")
    cep.push_event("s", [1], 1)
    assert rows == [(1, 1)]


def test_a_query_that_fails_leaves_the_query_it_reads_as_it_was(cep: Bridge) -> None:
    cep.create_query("sums", "SELECT SUM(a) AS total FROM s[a: INTEGER] WINDOW(ROWS 2)")
    before = tables(cep)
    with pytest.raises(bridge.QueryError):
        cep.create_query("q", "SELECT COUNT(*) AS n, MAX(nosuchfunction(total)) AS x FROM sums WINDOW(ROWS 2)")
    assert tables(cep) == before
    rows = collect(cep, "sums")
    cep.push_event("s", [1], 1)
    cep.create_query("q", "SELECT COUNT(*) AS n, MAX(total) AS x FROM sums WINDOW(ROWS 2)")
    more = collect(cep, "q")
    cep.push_event("s", [2], 2)
    assert (rows, more) == ([(1, 1), (2, 3)], [(2, 1, 3)])


def test_a_stream_that_fails_leaves_nothing_behind(cep: Bridge) -> None:
    before = tables(cep)
    with pytest.raises(bridge.SchemaError):
        cep.register_stream("s", {"a": "INTEGER", "b": "NOSUCHTYPE"})
    assert (cep.streams, tables(cep)) == ({}, before)
    cep.register_stream("s", "a INTEGER")


def test_removing_a_query_drops_its_tables(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.create_query("kept", "SELECT SUM(a) AS total FROM s WINDOW(ROWS 2)")
    before = tables(cep)
    texts = [
        "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 1 S)",
        "SELECT l.a FROM s WINDOW(ROWS 2) AS l, s WINDOW(RANGE 1 S) AS r WHERE l.a = r.a",
        "SELECT z FROM s MATCHING (PATTERN xy WITHIN 1 S MEASURES z: INTEGER DEFINE y AS a > 0 DO z = a)",
        "SELECT MAX(total) AS top FROM kept WINDOW(ROWS 3)",
        "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 1 S SLIDE 1 S)",
    ]
    for ts in range(3):
        for place, text in enumerate(texts):
            cep.create_query(f"q{place}", text)
        assert tables(cep) > before
        cep.push_event("s", [ts], ts)
        for place in range(len(texts)):
            cep.remove_query(f"q{place}")
    assert tables(cep) == before
    rows = collect(cep, "kept")
    cep.push_event("s", [5], 5)
    assert rows == [(5, 7)]


@pytest.mark.some_databases(1)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, SUM(a) AS total FROM s WINDOW(RANGE {} S) GROUP BY k",
        "SELECT s.k FROM s WINDOW(RANGE {} S), t WINDOW(RANGE 1 S) WHERE s.k = t.k",
        "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.a AS x PATTERN (A B) WITHIN {} S DEFINE B AS B.a > A.a)",
    ],
)
def test_removing_a_query_frees_its_statements(cep: Bridge, text: str) -> None:
    for stream in ("s", "t"):  # t has no event
        cep.register_stream(stream, "k VARCHAR, a INTEGER")
    counts = []
    for size in range(1, 13):
        cep.create_query("q", text.format(size))
        collect(cep, "q")
        cep.push_events("s", [(["x", number], 1000 * size + number) for number in range(20)])
        cep.push_event("s", ["x", 1], 1000 * size + 50)
        cep.remove_query("q")
        gc.collect()
        counts.append(sum(isinstance(each, exp.Expr) for each in gc.get_objects()))
    assert counts[11] - counts[7] < 10


def test_one_of_two_equal_queries_can_go(cep: Bridge) -> None:
    text = "SELECT SUM(a) AS total FROM s[a: INTEGER] WINDOW(ROWS 2)"
    over = "SELECT COUNT(*) AS n FROM (SELECT SUM(a) AS total FROM s WINDOW(ROWS 2)) WINDOW(ROWS 9)"
    for name, query in (("p", text), ("q", text), ("over", over), ("over too", over)):
        cep.create_query(name, query)
    rows, over_rows = collect(cep, "q"), collect(cep, "over too")
    cep.push_event("s", [1], 1)
    for name in ("over", "p"):
        cep.remove_query(name)
    cep.push_event("s", [1], 1)
    assert (rows, over_rows) == ([(1, 1), (1, 2)], [(1, 1), (1, 2)])
    cep.remove_query("q")
    cep.push_event("s", [1], 1)
    assert over_rows == [(1, 1), (1, 2), (1, 3)]


def test_what_an_equal_reader_of_a_window_needs_stays(cep: Bridge) -> None:
    """Also the tables that say when the parts of its rows leave."""
    cep.create_query("pairs", "SELECT l.a FROM s[a: INTEGER] WINDOW(ROWS 2) AS l, s WINDOW(ROWS 2) AS r")
    for name in ("p", "q"):
        cep.create_query(name, "SELECT COUNT(*) AS n FROM pairs")
    rows = collect(cep, "q")
    cep.push_event("s", [1], 1)
    cep.remove_query("p")
    cep.push_event("s", [2], 2)
    cep.purge()
    cep.push_event("s", [3], 3)
    assert [n for _, n in rows] == [1, 2, 3, 4, 2, 3, 4]


def test_the_window_of_a_removed_reader_goes_with_it(cep: Bridge) -> None:
    """A derived window hangs on the operator that is read, which lives on."""
    cep.create_query("kept", "SELECT SUM(a) AS total FROM s[a: INTEGER] WINDOW(RANGE 1 S)")
    before = tables(cep)
    for ts in range(3):
        cep.create_query("reader", "SELECT MAX(total) AS top FROM kept")
        cep.push_event("s", [ts], ts)
        cep.remove_query("reader")
    assert tables(cep) == before


# Queries over queries, and later ones ---------------------------------------------------------------------------------

LATER = {
    "aggregate": "SELECT COUNT(*) AS n, SUM(a) AS total FROM s WINDOW(RANGE 1 S)",
    "rows": "SELECT COUNT(*) AS n FROM s WINDOW(PARTITION BY a ROWS 3)",
    "correlation": "SELECT l.a, r.a AS b FROM s WINDOW(ROWS 3) AS l, s WINDOW(RANGE 1 S) AS r",
    "pattern": "SELECT z FROM s MATCHING (PATTERN xyz WITHIN 1 S MEASURES z: INTEGER DEFINE x AS true DO z = a)",
    "jumping": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 10 MS SLIDE 2 MS)",
    "over a filter": "SELECT COUNT(*) AS n FROM some",
    "over a window": "SELECT COUNT(*) AS n FROM some WINDOW(RANGE 1 S)",
    "over groups": "SELECT COUNT(*) AS n FROM groups",
    "over a correlation": "SELECT COUNT(*) AS n FROM pairs",
    "over matches": "SELECT COUNT(*) AS n FROM matches",
    "over an aggregate": "SELECT COUNT(*) AS n FROM sums",
    "window over an aggregate": "SELECT COUNT(*) AS n FROM sums WINDOW(ROWS 3)",
    "correlation with a query": "SELECT some.a, sums.total FROM some, sums",
}


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("kind", LATER)
def test_a_later_query_does_not_see_earlier_events(database: Database, kind: str) -> None:
    """Whether or not another query has kept the same window all along."""
    results = []
    for with_another in (False, True):
        with contextlib.closing(database.connect()) as cep:
            cep.register_stream("s", "a INTEGER")
            cep.create_query("some", "SELECT a FROM s WINDOW(RANGE 1 S) WHERE a > 0")
            cep.create_query("sums", "SELECT SUM(a) AS total FROM s WINDOW(RANGE 1 S)")
            cep.create_query("groups", "SELECT a, SUM(a) AS total FROM s WINDOW(RANGE 1 S) GROUP BY a")
            cep.create_query("pairs", "SELECT l.a, r.a AS b FROM s WINDOW(ROWS 2) AS l, s WINDOW(RANGE 1 S) AS r")
            cep.create_query("matches", "SELECT z FROM s MATCHING (PATTERN xy WITHIN 1 S MEASURES z: INTEGER "
                             "DEFINE x AS true DO z = a)")  # fmt: skip
            if with_another:
                cep.create_query("another", LATER[kind])
            cep.push_events("s", [([1], 1), ([2], 2), ([1], 3)])
            cep.create_query("q", LATER[kind])
            rows = collect(cep, "q")
            cep.push_events("s", [([1], 4), ([3], 5), ([4], 6)])
            cep.advance_time(20)
            results.append(rows)
    assert results[0] == results[1] != []


def test_a_query_reads_a_query_by_its_name(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.create_query("evens", "SELECT a AS even FROM s WHERE a % 2 = 0")
    cep.create_query("count", "SELECT COUNT(*) AS n FROM Evens WINDOW(ROWS 10)")
    cep.create_query("third", "SELECT n FROM count WHERE n = 3")
    rows = collect(cep, "third")
    assert cep.push_events("s", [([a], a) for a in range(9)]) == 9
    assert rows == [(4, 3)]


# Processors -----------------------------------------------------------------------------------------------------------


def failing(event: Event) -> None:
    raise ValueError(f"no {event.payload['a']}")


def test_a_processor_that_raises_stops_nobody(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    cep.add_output_processor("q", failing)
    rows = collect(cep, "q")
    with pytest.raises(bridge.ProcessorError, match="ValueError: no 1") as caught:
        cep.push_event("s", [1], 1)
    assert [str(error) for error in caught.value.errors] == ["no 1"]
    assert str(caught.value).startswith("the output processor failing of 'q' raised ValueError: no 1 (")
    assert caught.value.processors == ["the output processor failing of 'q'"]
    assert caught.value.__cause__ is caught.value.errors[0]
    with pytest.raises(bridge.ProcessorError):
        cep.push_event("s", [2], 2)
    assert rows == [(1, 1), (2, 2)]


def test_a_processor_that_raises_once_gets_the_rest_of_the_batch(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    seen = []

    def sometimes(event: Event) -> None:
        seen.append(event.timestamp)
        if event.timestamp < 3:
            failing(event)

    cep.add_output_processor("q", sometimes)
    with pytest.raises(bridge.ProcessorError) as caught:
        cep.push_events("s", [([ts], ts) for ts in (1, 2, 3)])
    assert seen == [1, 2, 3]
    assert len(caught.value.errors) == 2


def test_a_processor_that_raises_does_not_cut_a_long_push_short(cep: Bridge) -> None:
    """What is in does not depend on how many events the database takes at once."""
    cep.database.chunk_size = 10  # type: ignore[misc]
    cep.create_query("q", "SELECT a FROM s[a: INTEGER] WHERE a < 1")
    cep.create_query("n", "SELECT COUNT(*) AS n FROM s WINDOW(UNBOUNDED)")
    cep.add_output_processor("q", failing)
    rows = collect(cep, "n")
    with pytest.raises(bridge.ProcessorError) as caught:
        cep.push_events("s", [([a], a) for a in range(25)])
    assert caught.value.accepted == 25  # type: ignore[attr-defined]
    assert rows[-1] == (24, 25)
    assert cep.now == 24


def test_a_processor_may_push(cep: Bridge) -> None:
    cep.register_stream("alarms", "a INTEGER")
    cep.create_query("high", "SELECT a FROM s[a: INTEGER] WHERE a > 1")
    cep.create_query("n", "SELECT COUNT(*) AS n FROM alarms WINDOW(UNBOUNDED)")
    cep.add_output_processor("high", lambda event: cep.push_event("alarms", event.payload, event.timestamp))
    rows = collect(cep, "n")
    for ts in (1, 2, 3):
        cep.push_event("s", [ts], ts)
    assert rows == [(2, 1), (3, 2)]


def test_every_processor_gets_the_results_in_order_when_one_pushes(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")

    def count_down(event: Event) -> None:
        if event.payload["a"]:
            cep.push_event("s", [event.payload["a"] - 1], event.timestamp + 1)

    cep.add_output_processor("q", count_down)
    rows = collect(cep, "q")
    cep.push_event("s", [300], 0)
    assert rows == [(place, 300 - place) for place in range(301)]


def test_a_processor_may_push_too_old_an_event_and_is_told(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    cep.add_output_processor("q", lambda event: cep.push_event("s", [0], event.timestamp - 1))
    with pytest.raises(bridge.ProcessorError, match="of 'q' raised OrderError: time does not go back") as caught:
        cep.push_event("s", [1], 1)
    assert isinstance(caught.value.errors[0], bridge.OrderError)
    assert cep.now == 1


def test_a_processor_may_create_and_remove(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    rows: list[Any] = []

    def once(event: Event) -> None:
        cep.remove_output_processor(handle)
        cep.create_query("more", "SELECT COUNT(*) AS n FROM q WINDOW(ROWS 9)")
        cep.add_output_processor("more", lambda event: rows.append(event.payload["n"]))

    handle = cep.add_output_processor("q", once)
    for ts in (1, 2, 3):
        cep.push_event("s", [ts], ts)
    assert rows == [1, 2]


def test_a_processor_that_removes_itself_gets_no_more_of_the_batch(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    rows: list[Any] = []

    def once(event: Event) -> None:
        rows.append(event.timestamp)
        cep.remove_output_processor(handle)

    handle = cep.add_output_processor("q", once)
    cep.push_events("s", [([ts], ts) for ts in (1, 2, 3)])
    assert rows == [1]


def test_a_processor_may_remove_its_query(cep: Bridge) -> None:
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    cep.add_output_processor("q", lambda event: cep.remove_query("q"))
    cep.push_event("s", [1], 1)
    assert cep.queries == {}
    cep.push_event("s", [1], 1)


def test_a_processor_may_close_the_bridge(cep: Bridge) -> None:
    cep.database.chunk_size = 10  # type: ignore[misc]
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    cep.add_output_processor("q", lambda event: cep.close())
    with pytest.raises(bridge.Closed):
        cep.push_events("s", [([a], a) for a in range(25)])


def test_two_threads_push_every_event_once(cep: Bridge) -> None:
    cep.create_query("n", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(UNBOUNDED)")
    rows = collect(cep, "n")
    errors: list[Exception] = []

    def push() -> None:
        try:
            for _ in range(50):
                cep.push_event("s", [1], 7)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=push) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [n for _, n in rows] == list(range(1, 101))


# State ----------------------------------------------------------------------------------------------------------------

BOUNDED = {
    "aggregate": "SELECT k, SUM(a) AS t FROM s WINDOW(RANGE 100 MS) GROUP BY k",
    "on change": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 100 MS) EMIT ON CHANGE",
    "rows": "SELECT COUNT(*) AS n FROM s WINDOW(ROWS 50)",
    "correlation": "SELECT l.a FROM s WINDOW(RANGE 5 MS) AS l, s WINDOW(RANGE 100 MS) AS r WHERE l.k = r.k",
    "correlation of rows": "SELECT l.a FROM s WINDOW(ROWS 3) AS l, s WINDOW(ROWS 50) AS r WHERE l.a = r.a",
    "match": "SELECT z FROM s MATCHING (PATTERN x y+ WITHIN 100 MS MEASURES z: INTEGER "
    "DEFINE x AS a = 1 DO z = a, y AS a = z + 1 DO z = a)",
    "match of keys": "SELECT z FROM s MATCHING (PARTITION BY k PATTERN x y? WITHIN 100 MS MEASURES z: INTEGER "
    "DEFINE x AS true DO z = a, y AS a > z)",
    "derived": "SELECT COUNT(*) AS n FROM (SELECT a FROM s WINDOW(RANGE 100 MS) WHERE a > 1)",
    "derived from an aggregate": "SELECT MAX(t) AS m FROM (SELECT SUM(a) AS t FROM s WINDOW(RANGE 100 MS))",
    "derived from keys": "SELECT MAX(t) AS m FROM (SELECT k, SUM(a) AS t FROM s WINDOW(RANGE 100 MS) GROUP BY k)",
    "derived from a correlation": "SELECT COUNT(*) AS n FROM (SELECT l.a FROM s WINDOW(ROWS 3) AS l, s WINDOW(RANGE 9 MS) AS r "
    "WHERE l.a = r.a)",
    "jumping": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 100 MS SLIDE 50 MS)",
    "jumping rows": "SELECT COUNT(*) AS n FROM s WINDOW(ROWS 100 SLIDE 50)",
    "derived from jumping rows": "SELECT COUNT(*) AS n FROM (SELECT a FROM s WINDOW(ROWS 9 SLIDE 9) WHERE a > 1)",
    "derived from rows": "SELECT MAX(t) AS m FROM (SELECT SUM(a) AS t FROM s WINDOW(ROWS 9))",
}


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("kind", BOUNDED)
def test_state_does_not_grow(cep: Bridge, kind: str) -> None:
    cep.register_stream("s", "k INTEGER, a INTEGER")
    cep.create_query("q", BOUNDED[kind])
    seen = collect(cep, "q")
    cep.push_events("s", [([ts, ts % 7], ts) for ts in range(4_000)])
    for ts in range(4_000, 4_050):
        cep.push_event("s", [ts, ts % 7], ts)
    assert seen
    inboxes = {entry.inbox for entry in cep._catalogue.streams.values()}
    assert {name: size for name, size in sizes(cep).items() if size > 3000 and name not in inboxes} == {}
    cep.purge()
    assert {name: size for name, size in sizes(cep).items() if size > 1000 and name not in inboxes} == {}


def test_rows_of_keys_that_come_no_more_stay(cep: Bridge) -> None:
    """A ROWS window per key holds its rows for ever: that is what it says (W2)."""
    cep.create_query("q", "SELECT COUNT(*) AS n FROM s[k: INTEGER] WINDOW(PARTITION BY k ROWS 2)")
    cep.push_events("s", [([ts % 5], ts) for ts in range(3000)])
    cep.purge()
    assert max(size for name, size in sizes(cep).items() if "window" in name) == 10


def test_what_is_kept_in_memory_does_not_grow(cep: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement with the time in it is not kept as if it came again."""
    cep.create_query("q", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 10 MS SLIDE 10 MS)")
    kept: Any = getattr(cep.database, "_statements", {})
    monkeypatch.setattr("windows.databases.duckdb.STATEMENT_LIMIT", 50)
    for ts in range(200):
        cep.advance_time(ts)
    assert len(kept) <= 50


@pytest.mark.some_databases(1)
def test_purging_changes_no_result(database: Database) -> None:
    results = []
    for purging in (False, True):
        with contextlib.closing(database.connect()) as cep:
            cep.register_stream("s", "k INTEGER, a INTEGER")
            found = []
            for kind, text in BOUNDED.items():
                cep.create_query(kind, text)
                found.append(collect(cep, kind))
            for ts in range(0, 300, 9):
                cep.push_event("s", [ts % 4, ts % 7], ts)
                if purging:
                    cep.purge()
            results.append(found)
    assert results[0] == results[1]


# What the database says -----------------------------------------------------------------------------------------------


def test_a_failure_inside_the_database_changes_nothing(cep: Bridge) -> None:
    """A conversion that fails on DuckDB and PostgreSQL, a sum over 64 bits on the others."""
    converts = cep.database.dialect in ("duckdb", "postgres")
    text = (
        "SELECT CAST(t AS INTEGER) AS x FROM s WHERE CAST(t AS INTEGER) > 0"
        if converts
        else "SELECT ABS(CAST(t AS BIGINT)) AS x FROM s"
    )
    bad = "no number" if converts else str(-(2**63))
    cep.register_stream("s", "t VARCHAR")
    cep.create_query("q", text)
    cep.create_query("n", "SELECT COUNT(*) AS n FROM s WINDOW(UNBOUNDED)")
    rows, counts = collect(cep, "q"), collect(cep, "n")
    cep.push_event("s", ["1"], 1)
    with pytest.raises(bridge.DatabaseError):
        cep.push_event("s", [bad], 2)
    with pytest.raises(bridge.DatabaseError):
        cep.push_events("s", [(["2"], 2), ([bad], 3)])
    assert cep.now == 1
    cep.push_event("s", ["3"], 2)
    assert (rows, counts) == ([(1, 1), (2, 3)], [(1, 1), (2, 2)])


def test_a_table_that_is_gone_is_told(cep: Bridge) -> None:
    cep.register_stream("other", "a INTEGER")
    cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
    cep.create_query("p", "SELECT a FROM other")
    rows = collect(cep, "p")
    cep.push_event("s", [1], 1)
    cep.database.execute("DROP TABLE cep_inbox_s")
    with pytest.raises(bridge.DatabaseError, match="cep_inbox_s"):
        cep.push_events("s", [([a], 1) for a in range(20)])  # fewer need no inbox
    cep.remove_query("q")
    cep.remove_stream("s")
    cep.push_event("other", [1], 1)
    assert rows == [(1, 1)]


def test_a_sum_over_64_bits_is_right_or_refused(cep: Bridge) -> None:
    cep.create_query("q", "SELECT SUM(a) AS total FROM s[a: BIGINT] WINDOW(ROWS 2)")
    rows: list[Any] = []
    cep.add_output_processor("q", lambda event: rows.append(event.payload["total"]))
    batches: list[Any] = []
    cep.add_output_processor("q", batches.append, batch=True)
    top = 2**63 - 1
    cep.push_event("s", [top], 1)
    if cep.database.dialect != "sqlite":
        cep.push_event("s", [top], 2)
        assert rows == [top, 2 * top]
        assert batches[1]["total"].to_pylist() == [2 * top]
    else:
        with pytest.raises(bridge.DatabaseError, match="overflow"):
            cep.push_event("s", [top], 2)
        cep.push_event("s", [-1], 2)
        assert rows == [top, top - 1]


@pytest.mark.parametrize("count", [1, 900])
def test_an_overflow_is_never_a_rounded_integer(cep: Bridge, count: int) -> None:
    """Neither in the query that computes, nor in one over its results, nor in a sum; the push is refused."""
    cep.create_query("q", "SELECT a + a AS x FROM s[a: BIGINT]")
    cep.create_query("over_q", "SELECT x FROM q")
    cep.create_query("newest", "SELECT LAST(a * 2) AS x FROM s WINDOW(ROWS 3)")
    rows: list[Any] = []
    for name in ("q", "over_q", "newest"):
        cep.add_output_processor(name, lambda event: rows.append(event.payload["x"]))
    for top in (2**62 + 1, 2**63 - 1):
        with pytest.raises(bridge.DatabaseError, match=r"(?i)overflow|out of range"):
            cep.push_events("s", [([7], 1)] * (count - 1) + [([top], 1)])
    assert rows == []
    cep.push_event("s", [7], 1)
    assert rows == [14, 14, 14]


@pytest.mark.parametrize(
    "expression",
    ["a / 0", "a / b", "a % b", "a / 0.0", "a / 0.00", "a / (b)", "a % 0", "a / -b", "a / -0", "c / 0e0", "MOD(a, b)"],
)
def test_division_by_zero_is_null(cep: Bridge, expression: str) -> None:
    cep.create_query("q", f"SELECT {expression} AS x FROM s[a: INTEGER, b: INTEGER, c: DOUBLE]")
    rows = collect(cep, "q")
    cep.push_event("s", [1, 0, 1.0], 1)
    assert rows == [(1, None)]


def test_nan_and_infinity(cep: Bridge) -> None:
    cep.create_query("q", "SELECT d FROM s[d: DOUBLE]")
    rows = collect(cep, "q")
    has_not = {"sqlite": ["nan"], "mariadb": ["nan", "inf", "-inf"]}.get(cep.database.dialect, [])
    for ts, value in enumerate([float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308, float("nan")]):
        if repr(value) in has_not:
            with pytest.raises(bridge.SchemaError, match=rf"(?i)'d'.*{value}"):
                cep.push_event("s", [value], ts)
            continue
        cep.push_event("s", [value], ts)
        assert repr(rows[-1][1]) == repr(value)


def test_nul_in_a_text(cep: Bridge) -> None:
    cep.create_query("q", "SELECT t FROM s[t: VARCHAR]")
    rows = collect(cep, "q")
    events = [(["a\0b"], 1)] * 300
    if cep.database.dialect != "postgres":
        cep.push_events("s", events)
        assert rows == [(1, "a\0b")] * 300
        return
    for some in (events[:1], events):
        with pytest.raises(bridge.SchemaError, match="NUL"):
            cep.push_events("s", some)
    cep.push_event("s", ["a"], 1)
    assert rows == [(1, "a")]


def test_every_type_comes_back_as_it_went_in(cep: Bridge) -> None:
    schema = "b BOOLEAN, h SMALLINT, i INTEGER, l BIGINT, d DOUBLE, t VARCHAR, n DECIMAL(15, 4), y DATE, m TIMESTAMP"
    cep.register_stream("s", schema)
    cep.create_query("q", "SELECT * FROM s")
    cep.create_query("last", "SELECT " + ", ".join(f"LAST({c}) AS {c}" for c in "bhildtnym") + " FROM s WINDOW(ROWS 2)")
    rows, last = collect(cep, "q"), collect(cep, "last")
    nul = "" if cep.database.dialect == "postgres" else "\0"
    number, day, moment = decimal.Decimal, datetime.date, datetime.datetime
    values = [
        (True, -(2**15), -(2**31), -(2**63), 0.1, "", number("-99999999999.9999"), day(1, 1, 1), moment(1, 1, 1)),
        (False, 2**15 - 1, 2**31 - 1, 2**63 - 1, -1e-300, f"'\"{nul};--\n𝄞\\\u202e", number("0.0001"), day(9999, 12, 31),
         moment(9999, 12, 31, 23, 59, 59, 999999)),
        (None,) * 9,
        (False, 0, 0, 2**53 + 1, 0.1 + 0.2, "NULL", number("12345678901.2345"), day(1970, 1, 1), moment(2024, 2, 29, 12)),
    ]  # fmt: skip
    for ts, row in enumerate(values):
        cep.push_event("s", row, ts)
    cep.push_events("s", [(row, 9) for row in values * 20])
    expected = [*values, *values * 20]
    for found in (rows, last):
        assert [row[1:] for row in found] == expected
        assert [list(map(type, row[1:])) for row in found] == [list(map(type, row)) for row in expected]


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def url(database: Database, tmp_path: Any) -> str:
    return database.fresh() if database.variable else f"{database.name}:///{tmp_path}/app.db"


def test_bridges_on_one_file_one_after_the_other(url: str) -> None:
    for _ in range(2):
        with bridge.connect(url, durable=False) as cep:
            assert tables(cep) == {"cep_clock"}
            cep.create_query("q", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 1 S)")
            rows = collect(cep, "q")
            cep.push_event("s", [1], 5)
            assert rows == [(5, 1)]


def test_a_bridge_that_was_not_closed_is_no_obstacle(url: str) -> None:
    code = f"""
import bridge
import os
cep = bridge.connect({url!r})
cep.create_query("q", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 1 S)")
cep.push_event("s", [1], 5)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    with bridge.connect(url, fresh=True) as cep:
        cep.create_query("q", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 1 S)")
        rows = collect(cep, "q")
        cep.push_event("s", [1], 5)
        assert rows == [(5, 1)]
        cep.drop()


def test_the_users_own_tables_stay(url: str) -> None:
    own = ("mine", "s", "cep_inbox_s", "cep_notes")
    with bridge.connect(url, durable=False) as cep:
        for name in own:
            cep.database.execute(f"CREATE TABLE {name} (a INTEGER)")
            cep.database.execute(f"INSERT INTO {name} VALUES (1)")
    with bridge.connect(url, durable=False) as cep:
        cep.create_query("q", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 1 S)")
        cep.push_event("s", [1], 5)
    with bridge.connect(url, durable=False) as cep:
        assert sizes(cep) == {**dict.fromkeys(own, 1), "cep_clock": 1}


def test_closing_leaves_no_table_of_the_bridge(url: str, database: Database) -> None:
    with bridge.connect(url, durable=False) as cep:
        for place, text in enumerate(BOUNDED.values()):
            cep.create_query(f"q{place}", text.replace("FROM s", "FROM s[k: INTEGER, a: INTEGER]", 1))
        cep.push_event("s", [1, 1], 1)
    path = url.split(":///")[-1]
    if database.variable:
        with contextlib.closing(open_database(url)) as opened:
            assert opened.table_names() == []
    elif database.name == "duckdb":
        import duckdb

        with duckdb.connect(path) as connection:
            assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []
    else:
        import sqlite3

        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []


def test_closing_after_the_connection_has_ended_says_that_tables_stay(database: Database, caplog: Any) -> None:
    cep = database.connect()
    cep.database.close()
    cep.close()
    cep.close()
    assert [record.message.partition(" (")[0] for record in caplog.records] == [
        "the connection was lost: the tables of the bridge stay"
    ]


# As Python objects ----------------------------------------------------------------------------------------------------


def test_results_and_errors_can_be_pickled_and_copied() -> None:
    from bridge.engine.result_set import Row

    row = Row.of(["a", "b"], [1, None])
    for copied in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert (copied, copied.b, copied._mapping) == (row, None, {"a": 1, "b": None})
    event = Event({"a": 1}, 5)
    assert pickle.loads(pickle.dumps(event)) == event
    query = pickle.loads(pickle.dumps(bridge.QueryError("no", "SELECT 1", 7)))
    assert (str(query), query.text, query.position) == (str(bridge.QueryError("no", "SELECT 1", 7)), "SELECT 1", 7)
    processor = pickle.loads(pickle.dumps(bridge.ProcessorError("no", [ValueError("x")])))
    assert (str(processor), str(processor.errors[0])) == ("no", "x")


def test_a_query_object_can_be_pickled() -> None:
    tree = bridge.Filter(bridge.Stream("s", "a INTEGER"), "a > 1")
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_every_error_is_an_error_of_the_bridge() -> None:
    errors = [
        getattr(bridge, name) for name in bridge.__all__ if name.endswith(("Error", "Name", "InUse", "Taken", "Closed"))
    ]
    assert len(errors) == 11
    assert all(issubclass(error, bridge.BridgeError) for error in errors)


@pytest.mark.parametrize(
    ("url", "call", "expected"),
    [
        ("sqlite://", "total(v)", [1.0, 4.0, 9.0, 15.0]),
        ("duckdb://", "favg(v)", [1.0, 2.0, 3.0, 5.0]),
        ("duckdb://", "arg_max(v, w)", [1.0, 1.0, 1.0, 3.0]),
        ("duckdb://", "favg(v) + quantile_cont(v, 0.5)", [2.0, 4.0, 6.0, 10.0]),
    ],
)
@pytest.mark.parametrize("count", [1, 4])
def test_an_aggregate_of_the_database_alone_is_over_the_window(url: str, call: str, expected: list[float], count: int):
    with bridge.connect(url) as cep:
        cep.register_stream("s", "v DOUBLE, w INTEGER")
        cep.create_query("q", f"SELECT {call} AS p FROM s WINDOW(ROWS 3) HAVING {call} > 0")
        found: list[float] = []
        cep.add_output_processor("q", lambda event: found.append(event.payload["p"]))
        events = [([1.0, 9], 1), ([3.0, 8], 2), ([5.0, 7], 3), ([7.0, 6], 4)]
        for first in range(0, 4, count):
            cep.push_events("s", events[first : first + count])
        assert found == expected
        cep.create_query("without", f"SELECT {call} AS p FROM s")  # over all rows so far


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_cannot_use_the_bridge_of_its_parent(database: Database) -> None:
    """Both would write to one connection. Also a lock that another thread held at the fork does not block it."""
    with database.connect() as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("n", "SELECT COUNT(*) AS n FROM s WINDOW(ROWS 100)")
        rows: list[Any] = []
        cep.add_output_processor("n", lambda event: rows.append(event.payload["n"]))
        cep.push_event("s", [1], 1)
        holding, release = threading.Event(), threading.Event()

        def hold() -> None:
            with cep._lock:
                holding.set()
                release.wait(30)

        holder = threading.Thread(target=hold)
        holder.start()
        holding.wait(30)
        child = os.fork()
        if child == 0:
            try:
                for call in (lambda: cep.push_event("s", [9], 2), lambda: cep.query("SELECT 1"), cep.finish):
                    with pytest.raises(bridge.Closed, match=r"belongs to process \d+, .* call bridge\.connect here"):
                        call()
                cep.close()
                os._exit(0)
            finally:
                os._exit(1)
        release.set()
        holder.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        cep.push_event("s", [1], 2)
        assert rows == [1, 2]
