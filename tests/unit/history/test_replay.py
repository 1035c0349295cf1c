"""Replay gives what pushing gives, whatever the history comes in."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridge
from bridge.cli.demo import SCRIPT, exchange
from bridge.history.results import ResultTables
from bridge.history.script import ReplayScript
from tests.random.test_differential import prepare, same_rows
from tests.support.generate import Case, random_case

TRADES = pa.table({"ts": [1, 2, 3, 9], "symbol": ["A", "B", "A", "A"], "price": [9.0, 11.0, 12.0, 3.0]})
HIGH = {"high": "SELECT symbol, price FROM trades WHERE price > 10"}
HIGH_ROWS = [{"ts": 2, "symbol": "B", "price": 11.0}, {"ts": 3, "symbol": "A", "price": 12.0}]


def _pushed(
    script: str, events: list[tuple[str, dict[str, Any], int]], database: str
) -> dict[str, list[dict[str, Any]]]:
    """The results of pushing one event after the other."""
    results: dict[str, list[dict[str, Any]]] = {}
    with bridge.connect(database) as cep:
        parsed = ReplayScript.of(script)
        parsed.install(cep, {})
        for name in parsed.queries:
            taken = results.setdefault(name, [])
            cep.add_output_processor(name, lambda e, taken=taken: taken.append({"ts": e.timestamp, **e.payload}))
        for event in events:
            cep.push_event(*event)
    return results


def _by_stream(events: list[tuple[str, dict[str, Any], int]]) -> dict[str, list[tuple[dict[str, Any], int]]]:
    """News before trades of equal time, as the exchange makes them."""
    return {name: [(payload, ts) for stream, payload, ts in events if stream == name] for name in ("news", "trades")}


@pytest.mark.parametrize("database", ["duckdb://", "sqlite://"])
def test_replay_equals_pushing(database: str) -> None:
    events = list(exchange(seed=3, trades=150))
    expected = _pushed(SCRIPT, events, "sqlite://")
    assert sum(map(len, expected.values())) > 20
    for source in (events, _by_stream(events)):
        found = {name: table.to_pylist() for name, table in bridge.replay(source, SCRIPT, database=database).items()}
        assert found.keys() == expected.keys()
        assert [name for name in expected if not _alike(expected[name], found[name])] == []


def _alike(expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> bool:
    """The same rows, but for the last digits of doubles."""
    names = [list(row) for row in expected] == [list(row) for row in found]
    return names and same_rows(*([(row["ts"], tuple(row.values())) for row in rows] for rows in (expected, found)))


def test_replay_of_files_equals_replay_of_tables(tmp_path: Path) -> None:
    events = _by_stream(list(exchange(seed=4, trades=200)))
    tables = {
        name: pa.Table.from_pylist([{"ts": ts, **payload} for payload, ts in pairs]) for name, pairs in events.items()
    }
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    expected = {name: table.to_pylist() for name, table in bridge.replay(events, SCRIPT).items()}
    for source in (tables, {name: tmp_path / f"{name}.parquet" for name in tables}):
        found = bridge.replay(source, SCRIPT)
        assert {name: table.to_pylist() for name, table in found.items()} == expected


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "path", "pairs", "reader"])
def test_every_kind_of_source(kind: str, tmp_path: Path) -> None:
    import polars

    pq.write_table(TRADES, tmp_path / "trades.parquet")
    pairs = [({"symbol": r["symbol"], "price": r["price"]}, r["ts"]) for r in TRADES.to_pylist()]
    source = {
        "arrow": TRADES, "pandas": TRADES.to_pandas(), "polars": polars.from_arrow(TRADES),
        "path": str(tmp_path / "*.parquet"), "pairs": iter(pairs), "reader": TRADES.to_reader(),
    }[kind]  # fmt: skip
    assert bridge.replay({"trades": source}, HIGH)["high"].to_pylist() == HIGH_ROWS


def test_queries_are_texts_objects_or_a_script() -> None:
    node = bridge.Filter(bridge.Stream("trades"), "price > 10")
    script = "CREATE QUERY high AS SELECT * FROM trades WHERE price > 10;"
    for queries in (
        {"high": node},
        script,
        {"high": "SELECT * FROM trades[symbol Varchar, price Double] WHERE price > 10"},
    ):
        assert bridge.replay({"trades": TRADES}, queries)["high"].to_pylist() == HIGH_ROWS
    assert list(bridge.replay({"trades": TRADES}, "SELECT * FROM trades")) == ["result"]


def test_pairs_that_are_still_to_come_hold_nothing_up() -> None:
    """What is there goes on, where a file is read ahead."""
    told: list[int] = []
    seen: list[int] = []

    def pairs() -> Iterator[tuple[dict[str, int], int]]:
        for ts in range(9):
            seen.append(len(told))
            yield {"a": ts}, ts

    def take(self: ResultTables, name: str, rows: pa.Table) -> None:
        told.extend(rows["ts"].to_pylist())

    with (
        mock.patch("bridge.sources.tables.PAIRS", 3),
        mock.patch.object(ResultTables, "take", take),
        bridge.connect() as cep,
    ):
        bridge.replay({"s": pairs()}, {"n": "SELECT a FROM s"}, into=cep)
        assert told == list(range(9))
        assert seen == [0, 0, 0, 3, 3, 3, 6, 6, 6]


def test_equal_times_are_in_the_order_of_the_streams_however_they_are_read() -> None:
    """Of the first stream nothing is read at first."""
    times = {"one": [5, 7, 7], "two": [1, 2, 3, 5, 5, 7]}
    with mock.patch("bridge.sources.tables.ROWS", 2), mock.patch("bridge.sources.source.ROWS", 2):
        tables = {name: pa.table({"ts": found, "a": [name] * len(found)}) for name, found in times.items()}
        found = bridge.replay(tables, {"n": "SELECT * FROM one UNION ALL SELECT * FROM two"})["n"]
    assert found["ts"].to_pylist() == [1, 2, 3, 5, 5, 5, 7, 7, 7]
    assert found["a"].to_pylist() == ["two", "two", "two", "one", "two", "two", "one", "one", "two"]


def test_a_query_without_results_has_its_columns_and_types() -> None:
    table = bridge.replay({"trades": TRADES}, {"none": "SELECT symbol, price FROM trades WHERE price > 99"})["none"]
    assert (table.num_rows, table.schema) == (
        0,
        pa.schema({"ts": pa.int64(), "symbol": pa.string(), "price": pa.float64()}),
    )


def test_schemas_convert_what_the_source_leaves_open() -> None:
    events = [("t", (1,), 5), ("t", (2,), 6)]
    query = {"q": "SELECT a FROM t WHERE a > 1"}
    assert bridge.replay(events, query, schemas={"t": "a SMALLINT"})["q"].to_pylist() == [{"ts": 6, "a": 2}]
    with pytest.raises(bridge.QueryError, match="unknown"):
        bridge.replay(events, query)
    with pytest.raises(bridge.SourceError, match=r"the schema of 't'.*unknown type"):
        bridge.replay(events, query, schemas={"t": "a NUMBERISH"})


@pytest.mark.parametrize("database", ["duckdb://", "sqlite://"])
def test_relations_stand_in_the_database(database: str) -> None:
    names = pa.table({"code": ["A", "B"], "name": ["Acme", "Globex"], "since": [datetime.date(2000, 1, 1), None]})
    query = (
        "SELECT t.price, n.name, n.since FROM trades WINDOW(NOW) t, names n WHERE t.symbol = n.code AND t.price > 11"
    )
    found = bridge.replay({"trades": TRADES}, {"q": query}, relations={"names": names}, database=database)["q"]
    assert found.to_pylist() == [{"ts": 3, "price": 12.0, "name": "Acme", "since": datetime.date(2000, 1, 1)}]
    with pytest.raises(bridge.SourceError, match="is an Arrow table, a frame or a file, not list"):
        bridge.replay({"trades": TRADES}, HIGH, relations={"names": [1]})


def test_a_relation_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("code,name\nA,Acme\n")
    query = {"q": "SELECT n.name FROM trades t JOIN names n ON t.symbol = n.code"}
    found = bridge.replay({"trades": TRADES}, query, relations={"names": tmp_path / "names.csv"})["q"]
    assert set(found["name"].to_pylist()) == {"Acme"}


def test_events_whose_attributes_nothing_declares_say_where_these_are_declared() -> None:
    with pytest.raises(bridge.QueryError, match=r"unknown stream or table 't'.*attributes of a stream by schemas="):
        bridge.replay([("t", {"a": 1}, 1)], {"q": "SELECT a FROM t"})


def test_end_cuts_history_and_lets_time_pass() -> None:
    query = {"n": "SELECT COUNT(*) AS n FROM trades WINDOW(RANGE 4 MS SLIDE 4 MS)"}
    for source in ({"trades": TRADES}, [("trades", (r["symbol"], r["price"]), r["ts"]) for r in TRADES.to_pylist()]):
        schemas = {"trades": "symbol VARCHAR, price DOUBLE"}
        assert bridge.replay(source, query, schemas=schemas)["n"].to_pylist() == [{"ts": 4, "n": 3}]
        assert bridge.replay(source, query, schemas=schemas, end=2)["n"].to_pylist() == []
        assert bridge.replay(source, query, schemas=schemas, end=8)["n"].to_pylist() == [{"ts": 4, "n": 3}]
        assert bridge.replay(source, query, schemas=schemas, end=12)["n"].to_pylist() == [
            {"ts": 4, "n": 3},
            {"ts": 12, "n": 1},
        ]


def test_out_writes_a_file_a_query_and_nothing_half_made(tmp_path: Path) -> None:
    found = bridge.replay(
        {"trades": TRADES}, {**HIGH, "no": "SELECT price FROM trades WHERE price > 99"}, out=tmp_path / "out"
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["high.parquet", "no.parquet"]
    assert pq.read_table(tmp_path / "out" / "high.parquet").to_pylist() == HIGH_ROWS == found["high"].to_pylist()
    assert pq.read_table(tmp_path / "out" / "no.parquet").column_names == ["ts", "price"]
    wrong = [({"symbol": "A", "price": 11.0}, 1), ({"symbol": "A", "price": "x"}, 2)]
    with pytest.raises(bridge.SourceError, match="trades, event 2"):
        bridge.replay({"trades": wrong}, HIGH, out=tmp_path / "wrong")
    assert list((tmp_path / "wrong").iterdir()) == []


def test_queries_whose_results_would_be_one_file_are_refused(tmp_path: Path) -> None:
    high = HIGH["high"]
    with pytest.raises(bridge.BridgeError, match=r"'a/b' and 'A:b' would both be in A_b\.parquet: rename one"):
        bridge.replay({"trades": TRADES}, {"a/b": high, "A:b": high}, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("database", ["duckdb://:memory:", "duckdb://"])
@pytest.mark.parametrize("window", ["UNBOUNDED", "RANGE 2 MS"])
def test_a_result_that_does_not_fit_its_file_says_what_the_query_may_do(
    database: str, window: str, tmp_path: Path
) -> None:
    wide = pa.table({"ts": [1, 2], "v": pa.array([2**63 - 1] * 2, pa.int64())})
    total = "SELECT SUM(v) AS total FROM s WINDOW({})"
    with pytest.raises(bridge.BridgeError) as told:
        bridge.replay({"s": wide}, {"q": total.format(window)}, out=tmp_path, database=database)
    assert str(told.value).startswith(
        "q.parquet: a value of the column 'total' does not fit its type in the file, int64"
    )
    assert list(tmp_path.iterdir()) == []
    cast = total.format(window).replace("SUM(v)", "CAST(SUM(v) AS DECIMAL(38, 0))")
    written = bridge.replay({"s": wide}, {"q": cast}, out=tmp_path, database=database)
    assert written["q"]["total"].to_pylist() == [2**63 - 1, 2**64 - 2]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("events", [3, 300_000])
@pytest.mark.parametrize("query", ["SELECT a FROM s", "SELECT SUM(a) AS t FROM s WINDOW(UNBOUNDED)"])
def test_a_full_disk_is_told_and_leaves_no_file(query: str, events: int, tmp_path: Path) -> None:
    (tmp_path / ".q.parquet.part").symlink_to("/dev/full")
    source = pa.table({"ts": range(events), "a": range(events)})
    with pytest.raises(bridge.SourceError, match=r"results cannot be written to .*q\.parquet: No space left on device"):
        bridge.replay({"s": source}, {"p": query, "q": query}, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((TRADES, HIGH, "flink"), bridge.BridgeError, "unknown engine 'flink'; use 'local' or 'spark'"),
        ((TRADES, HIGH), bridge.SourceError, "a Table comes without its stream: write {'stream': source}"),
        (("trades.csv", HIGH), bridge.SourceError, "'trades.csv' comes without its stream: write {'stream': source}"),
        (([({"symbol": "A"}, 1)], {"q": "SELECT a FROM s[a INTEGER]"}), bridge.SourceError,
         "write {'stream': events} for the"),
        (({"trades": TRADES}, {"q": "SELECT t.price FROM trades t, firms f WHERE t.symbol = f.code"}), bridge.QueryError,
         r"(?s)'firms'; a table is given as relations={'firms': table}, .*schemas= \(line 1, column 31.*\^"),
        (({"trades": TRADES}, {"q": "SELECT price FROM trades UNION ALL SELECT price FROM trade"}), bridge.QueryError,
         "unknown stream or table 'trade'; did you mean 'trades'"),
        (({"trade": TRADES}, HIGH), bridge.UnknownName, "no query reads a stream 'trade'; did you mean 'trades'"),
        (({"trades": 5}, HIGH), bridge.SourceError, "the events of 'trades' are a path"),
        (({"trades": TRADES}, {"q": 5}), bridge.QueryError, "query 'q' is a text or a query object, not int"),
        (({"trades": TRADES}, 5), bridge.QueryError, "queries are a script or a mapping"),
        (([("s", 1)], {"q": "SELECT a FROM s[a Integer]"}), bridge.SourceError, "is .stream, payload, timestamp"),
        (({"trades": TRADES}, "SELECT prize FROM trades"), bridge.QueryError, r"(?s)unknown column .prize.*\^"),
        (({"trades": TRADES}, "CREATE QUERY a AS SELECT * FROM trades; CREATE QUERY A AS SELECT * FROM trades"),
         bridge.QueryError, "'A' is created twice"),
        (({"trades": TRADES.slice(1).set_column(0, "ts", pa.array([3, 2, 4]))}, HIGH), bridge.SourceError,
         "trades, row 2: column 'ts': time does not go back: 2 is before 3"),
        (({"trades": TRADES, "Trades": TRADES}, HIGH), bridge.SourceError, "'trades' and 'Trades' are one stream"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bridge.replay(*arguments)


def test_options_by_stream_find_it_ignoring_case_and_are_refused_where_there_is_none() -> None:
    source = {"trades": pa.table({"time": [1], "made": [2], "price": [11.0]})}
    query = {"q": "SELECT price FROM trades"}
    assert bridge.replay(source, query, timestamp={"Trades": "made"})["q"].to_pylist() == [{"ts": 2, "price": 11.0}]
    with pytest.raises(
        bridge.BridgeError, match="timestamp= is given for 'trade', which has no events; did you mean 'trades'"
    ):
        bridge.replay(source, query, timestamp={"trade": "made"})


@pytest.mark.parametrize(
    ("engine", "pieces", "message"),
    [
        ("local", 4, "pieces=… needs engine='spark'"),
        ("spark", 0, "pieces must be a whole number from 1 on, not 0"),
        ("spark", "4", "pieces must be a whole number from 1 on, not '4'"),
    ],
)
def test_a_number_of_pieces_that_cannot_be_is_refused(engine: str, pieces: Any, message: str) -> None:
    with pytest.raises(bridge.BridgeError, match=message):
        bridge.replay({"trades": TRADES}, HIGH, engine, pieces=pieces)


def test_importing_bridge_imports_no_arrow_and_no_driver() -> None:
    import subprocess
    import sys

    code = "import bridge, sys; print(callable(bridge.replay), {'pyarrow', 'duckdb', 'rich'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "True set()\n"
    )


@pytest.mark.parametrize("database", ["duckdb://", "sqlite://"])
def test_tables_of_several_streams_are_pushed_as_their_rows_are(database: str) -> None:
    one = pa.table({"ts": [n // 2 for n in range(2500)], "a": list(range(2500))})
    two = pa.table({"ts": [n // 3 for n in range(2500)], "a": list(range(0, -2500, -1))})
    both = "(SELECT a FROM one UNION ALL SELECT a FROM two)"
    script = f"CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(a) AS s FROM {both} u WINDOW(ROWS 5)"
    rows = [(name, (row["a"],), row["ts"]) for name, table in (("one", one), ("two", two)) for row in table.to_pylist()]
    rows.sort(key=lambda row: row[2])
    assert len(rows) == 5000
    schemas = {"one": "a INTEGER", "two": "a INTEGER"}
    expected = bridge.replay(rows, script, schemas=schemas, database=database)["q"]
    assert bridge.replay({"one": one, "two": two}, script, schemas=schemas, database=database)["q"].equals(expected)
    assert expected.num_rows == 5000
    with bridge.connect(database) as cep:
        cep.register_stream("one", "a INTEGER")
        with pytest.raises(bridge.SchemaError, match="the events of 'one' are an Arrow table or a frame, not list"):
            cep.push_tables({"one": [1]})


@pytest.mark.one_in(3)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("database", ["duckdb://", "sqlite://"])
@pytest.mark.parametrize("seed", range(300, 325))
def test_history_and_what_comes_live_after_it_are_the_whole(seed: int, database: str) -> None:
    """Without a gap or a double, wherever history ends; only what the last event leaves open may be decided later."""
    case = random_case(seed)
    times = sorted({ts for *_, ts in case.events})
    until = times[Random(seed).randrange(len(times))]
    whole = _live(case, case.events, database)
    with bridge.connect(database) as cep:
        prepare(cep, case)
        before = [event for event in case.events if event[2] <= until]
        history = bridge.replay(before, dict(case.queries), into=cep, end=until)
        found = {name: [(ts, tuple(v)) for ts, *v in zip(*_columns(t), strict=True)] for name, t in history.items()}
        for name in case.queries:
            cep.add_output_processor(
                name, lambda e, rows=found[name]: rows.append((e.timestamp, (*e.payload.values(),)))
            )
        cep.push_all([event for event in case.events if event[2] > until])
        if case.end is not None:
            cep.advance_time(case.end)
    for name, rows in whole.items():
        assert same_rows(rows, found[name]), (seed, name)


def _live(case: Case, events: Any, database: str) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {name: [] for name in case.queries}
    with bridge.connect(database) as cep:
        prepare(cep, case)
        for name, node in case.queries.items():
            cep.create_query(name, node)
            cep.add_output_processor(
                name, lambda e, rows=rows[name]: rows.append((e.timestamp, (*e.payload.values(),)))
            )
        cep.push_all(list(events))
        if case.end is not None:
            cep.advance_time(case.end)
    return rows


def _columns(table: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in table.columns]


def test_relations_are_those_of_the_bridge_that_history_goes_into() -> None:
    with (
        bridge.connect() as cep,
        pytest.raises(bridge.BridgeError, match="create the tables in the database of that bridge"),
    ):
        bridge.replay([], {"q": "SELECT a FROM s[a INTEGER]"}, into=cep, relations={"r": pa.table({"a": [1]})})


# Into an open bridge ----------------------------------------------------------------------------------------------------


def test_a_history_that_fails_leaves_no_stream_and_no_query_in_the_bridge() -> None:
    queries = {"q": "SELECT a FROM s[a INTEGER]", "r": "SELECT a FROM q WHERE a > 1"}
    with bridge.connect() as cep:
        cep.create_query("mine", "SELECT b FROM t[b INTEGER]")
        with pytest.raises(bridge.SourceError, match="time does not go back"):
            bridge.replay({"s": [({"a": 1}, 1), ({"a": 2}, 0)]}, queries, into=cep)
        assert (list(cep.streams), list(cep.queries)) == (["t"], ["mine"])
        bridge.replay({"s": [({"a": 1}, 1), ({"a": 2}, 2)]}, queries, into=cep)
        assert (list(cep.streams), list(cep.queries)) == (["t", "s"], ["mine", "q", "r"])


def test_a_history_goes_into_a_bridge_with_a_clock_before_its_first_query() -> None:
    got: list[int] = []
    with bridge.connect("sqlite://", clock="system") as cep:
        while cep.now is None:  # until the clock has ticked
            time.sleep(0.01)
        tables = bridge.replay(
            {"s": [({"a": 1}, 1000)]}, {"q": "SELECT COUNT(*) AS n FROM s[a INTEGER] WINDOW(ROWS 9)"}, into=cep
        )
        assert tables["q"].to_pydict() == {"ts": [1000], "n": [1]}
        cep.add_output_processor("q", lambda event: got.append(event.payload["n"]))
        cep.push_event("s", [2])
        assert got == [2]
        with pytest.raises(bridge.BridgeError, match="only before its first query and event"):
            bridge.replay({"t": [({"a": 1}, 1000)]}, {"r": "SELECT a FROM t[a INTEGER]"}, into=cep)
        assert list(cep.queries) == ["q"]


def test_sort_gives_the_results_of_the_history_in_order() -> None:
    queries = {"n": "SELECT symbol, COUNT(*) AS n FROM trades WINDOW(RANGE 5 MS) GROUP BY symbol"}
    mixed = TRADES.take([3, 0, 2, 1])
    expected = bridge.replay({"trades": TRADES}, queries)["n"].to_pylist()
    assert bridge.replay({"trades": mixed}, queries, sort=True)["n"].to_pylist() == expected
    events = [("trades", {"symbol": row["symbol"], "price": row["price"]}, row["ts"]) for row in mixed.to_pylist()]
    script = "CREATE STREAM trades (symbol VARCHAR, price DOUBLE); CREATE QUERY n AS " + queries["n"]
    assert bridge.replay(events, script, sort=True)["n"].to_pylist() == expected
    with pytest.raises(bridge.SourceError, match=r"an event is \(stream, payload, timestamp\), not 5"):
        bridge.replay([5], script, sort=True)
