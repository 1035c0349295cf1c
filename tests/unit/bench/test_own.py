"""`cepbridge bench --queries`: the same events in several ways on several databases, results first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bridge.bench import own
from bridge.bench.experiment import DifferenceError
from bridge.cli import main
from bridge.history.script import ReplayScript
from bridge.sources.options import HistoryOptions
from tests.support.databases import Database

SCRIPT = """
CREATE QUERY means AS SELECT symbol, AVG(price) AS mean FROM trades WINDOW(RANGE 10 MS) GROUP BY symbol;
CREATE QUERY crossed AS SELECT t.symbol FROM trades WINDOW(NOW) t, quotes WINDOW(RANGE 5 MS) q WHERE t.price > q.bid
"""
TRADES = pa.table(
    {"ts": range(0, 60, 2), "symbol": [f"S{n % 3}" for n in range(30)], "price": [n / 7 for n in range(30)]}
)
QUOTES = pa.table({"ts": range(0, 60, 6), "bid": [2.0] * 10})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the queries and the events of two streams."""
    (tmp_path / "my.sql").write_text(SCRIPT)
    pq.write_table(TRADES, tmp_path / "trades.parquet")
    pq.write_table(QUOTES, tmp_path / "quotes.parquet")
    return tmp_path


def events_of(folder: Path) -> own.OwnEvents:
    paths = {stream: str(folder / f"{stream}.parquet") for stream in ("trades", "quotes")}
    return own.OwnEvents.read(ReplayScript.of(SCRIPT), paths, HistoryOptions())


def call(folder: Path, *arguments: str, code: int = 0) -> str:
    events = [word for name in ("trades", "quotes") for word in ("-e", f"{name}={folder / name}.parquet")]
    asked = ["bench", "--queries", str(folder / "my.sql"), *events, "--seconds", "0.05", "--runs", "1", *arguments]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == code, result.output
    return result.output


def test_events_of_several_streams_are_cut_in_the_order_of_time(files: Path) -> None:
    events = events_of(files)
    assert events.count == 40
    assert [events.at(place)[0] for place in range(6)] == ["trades", "quotes", "trades", "trades", "trades", "quotes"]
    assert events.at(1) == ("quotes", {"bid": 2.0}, 0)
    cut = events.between(1, 5)
    assert {name: rows["ts"].to_pylist() for name, rows in cut.items()} == {"trades": [2, 4, 6], "quotes": [0]}
    assert events.between(39, 50, later=events.span)["trades"]["ts"].to_pylist() == [58 + 59]


def test_events_begin_again_at_later_timestamps(files: Path) -> None:
    times: list[int] = []
    system = own.OwnSystem("sqlite://", 7, ReplayScript.of(SCRIPT), events_of(files))
    run = system.open(lambda name, results: times.extend(results["ts"].to_pylist() if name == "means" else []))
    pushed = [run.next(1_000)() for _ in range(12)]
    run.close()
    assert pushed == [7, 7, 7, 7, 7, 5] * 2
    assert times == [*range(0, 60, 2), *range(59, 119, 2)]


def test_all_ways_are_measured_and_written(files: Path) -> None:
    said = call(files, "--drive", "1,10", "--json", str(files / "own.json"))
    assert "| duckdb:// | Count | 1 at a time | 10 at a time |" in said
    assert "| sqlite://, ms per push | Count | 1 at a time | 10 at a time |" in said
    assert "paper" not in said
    measurements = json.loads((files / "own.json").read_text())["measurements"]
    assert {(each["operator"], each["count"]) for each in measurements} == {("my.sql", 2)}
    assert all(each["median"] > 0 for each in measurements)


def test_a_database_that_refuses_the_queries_takes_no_part(files: Path) -> None:
    (files / "my.sql").write_text(f"{SCRIPT}; CREATE QUERY m AS SELECT MEDIAN(price) AS m FROM trades WINDOW(ROWS 5)")
    said = call(files, "--drive", "10")
    assert "my.sql × 3, sqlite://, 10 at a time: " in said
    assert "| my.sql | 3 | refused |" in said
    call(files, "--drive", "10", "--db", "sqlite://", code=1)


def test_other_results_are_an_error(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = own.OwnSystem.rows

    def wrong(self: own.OwnSystem) -> Any:
        rows = right(self)
        return rows if self.database == "duckdb://" else {**rows, "means": rows["means"][:-1]}

    monkeypatch.setattr(own.OwnSystem, "rows", wrong)
    events, script = events_of(files), ReplayScript.of(SCRIPT)
    systems = [own.OwnSystem(url, 10, script, events) for url in ("duckdb://", "sqlite://")]
    with pytest.raises(DifferenceError, match="sqlite://, 10 at a time: means reports 29 rows instead of 30"):
        own.check(systems, lambda text, done: None)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--queries", "x.sql"), 2, "--queries and --events go together"),
        (("--queries", "x.sql", "-e", "a.csv", "--count", "3"), 2, "are about the paper's queries"),
        (("--queries", "nosuch.sql", "-e", "a.csv"), 1, "nosuch.sql cannot be read"),
    ],
)
def test_wrong_options_are_refused(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = CliRunner().invoke(main, ["bench", *arguments])
    assert result.exit_code == code, result.output
    assert said in result.output


def test_files_without_events_are_refused(files: Path) -> None:
    pq.write_table(TRADES.slice(0, 0), files / "trades.parquet")
    pq.write_table(QUOTES.slice(0, 0), files / "quotes.parquet")
    assert "there are no events" in call(files, code=1)


def test_servers_are_measured_one_way_after_the_other(files: Path, server: Database) -> None:
    said = call(files, "--drive", "1,10", "--db", server.fresh())
    assert "| Count | 1 at a time | 10 at a time |" in said
    assert "refused" not in said
