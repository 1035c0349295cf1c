"""The command, with real files: what it prints, what it leaves, how it ends."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import bridge
from bridge import query
from bridge.cli import main

ROOT = Path(__file__).parents[3]
QUERIES = """
CREATE STREAM trades (symbol VARCHAR, price DOUBLE);
CREATE QUERY high AS SELECT symbol, price FROM trades WHERE price > 10;
CREATE QUERY n AS SELECT COUNT(*) AS n FROM trades WINDOW(RANGE 2 MS);
"""
CSV = "ts,symbol,price\n1,A,9.5\n2,B,11\n3,A,12\n9,A,3\n"
HIGH = [
    {"query": "high", "ts": 2, "symbol": "B", "price": 11.0},
    {"query": "high", "ts": 3, "symbol": "A", "price": 12.0},
]
COUNTS = [{"query": "n", "ts": ts, "n": n} for ts, n in [(1, 1), (2, 2), (3, 2), (9, 1)]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with queries.sql and trades.csv."""
    monkeypatch.chdir(tmp_path)
    Path("queries.sql").write_text(QUERIES)
    Path("trades.csv").write_text(CSV)
    return tmp_path


def _call(*arguments: str, code: int = 0, input: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(main, list(arguments), input=input)
    assert result.exit_code == code, result.output
    return result


def _run(*arguments: str, code: int = 0, input: str | bytes | None = None) -> tuple[list[dict[str, Any]], str]:
    result = _call("run", "queries.sql", *arguments, code=code, input=input)
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@pytest.mark.parametrize("events", ["trades=trades.csv", "TRADES=trades.csv", "trades.csv"])
@pytest.mark.parametrize("database", ["duckdb://", "sqlite://"])
def test_run_prints_results_and_a_summary(place: Path, events: str, database: str) -> None:
    rows, said = _run("--events", events, "--db", database)
    assert rows == HIGH + COUNTS
    assert said.startswith("4 events, results: high 2, n 4; ")


def test_formats_and_standard_input_give_identical_results(place: Path) -> None:
    pq.write_table(arrow_csv.read_csv("trades.csv"), "trades.parquet")
    ndjson = "".join(json.dumps(row) + "\n" for row in pq.read_table("trades.parquet").to_pylist())
    Path("trades.ndjson").write_text(ndjson)
    Path("trades.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    expected = _call("run", "queries.sql", "-e", "trades.csv").stdout
    for name in ("trades.parquet", "trades.ndjson", "trades.csv.gz", "trades.c*v"):
        assert _call("run", "queries.sql", "-e", f"trades={name}").stdout == expected
    for text in (CSV, ndjson, gzip.compress(CSV.encode()), gzip.compress(ndjson.encode())):
        assert _call("run", "queries.sql", "-e", "trades=-", input=text).stdout == expected
    assert _call("run", "queries.sql", "-e", "-", "--input-format", "ndjson", input=ndjson).stdout == expected


@pytest.mark.parametrize("format", ["parquet", "csv", "ndjson"])
def test_out_writes_a_file_a_query(place: Path, format: str) -> None:
    rows, said = _run("-e", "trades.csv", "--out", "out", "--format", format)
    assert rows == []
    assert "results: high 2, n 4" in said
    assert sorted(path.name for path in Path("out").iterdir()) == [f"high.{format}", f"n.{format}"]
    path = Path(f"out/high.{format}")
    if format == "parquet":
        found = pq.read_table(path).to_pylist()
    elif format == "csv":
        assert path.read_text() == '"ts","symbol","price"\n2,"B",11\n3,"A",12\n'
        found = arrow_csv.read_csv(path).to_pylist()
    else:
        found = [json.loads(line) for line in path.read_text().splitlines()]
    assert found == [{k: v for k, v in row.items() if k != "query"} for row in HIGH]


def test_objects_and_lists_in_csv_are_texts_of_json(place: Path) -> None:
    Path("queries.sql").write_text(
        "CREATE QUERY high AS SELECT ARRAY_AGG(price) AS prices, {'top': MAX(price), 'of': symbol} AS best"
        " FROM trades WINDOW(ROWS 2) GROUP BY symbol"
    )
    _run("-e", "trades.csv", "--out", "out", "--format", "csv")
    found = arrow_csv.read_csv("out/high.csv").to_pylist()
    assert [sorted(json.loads(row["best"])) for row in found] == 4 * [["of", "top"]]
    assert all(isinstance(json.loads(row["prices"]), list) for row in found)


def test_the_note_on_inferred_types_can_be_copied(place: Path) -> None:
    Path("t.csv").write_text("ts,group,Order,unit price\n1,a,2,3.5\n")
    Path("queries.sql").write_text('CREATE QUERY q AS SELECT "group" AS g, "Order" AS o FROM t')
    rows, said = _run("-e", "t=t.csv")
    declaration = next(line for line in said.splitlines() if "CREATE STREAM" in line).split(" is read as ")[1]
    Path("queries.sql").write_text(declaration + ' CREATE QUERY q AS SELECT "group" AS g, "Order" AS o FROM t')
    assert _run("-e", "t=t.csv")[0] == rows


def test_values_in_json_are_as_documented(place: Path) -> None:
    Path("queries.sql").write_text(
        "CREATE STREAM t (d DOUBLE, c DECIMAL(20, 3), day DATE, at TIMESTAMP, b BOOLEAN, s VARCHAR, i BIGINT);"
        'CREATE QUERY q AS SELECT d, c, day, at, b, s, i AS "100%" FROM t'
    )
    Path("t.csv").write_text(
        'ts,d,c,day,at,b,s,i\n1,nan,1.5,2024-02-29,2024-02-29T10:00:00.25Z,true,"ä""\n",9007199254740993\n2,inf,,,,,,\n'
    )
    rows, _ = _run("-e", "t.csv")
    assert rows == [
        {"query": "q", "ts": 1, "d": None, "c": "1.500", "day": "2024-02-29", "at": "2024-02-29T10:00:00.250000",
         "b": True, "s": 'ä"\n', "100%": 9007199254740993},
        {"query": "q", "ts": 2, "d": None, "c": None, "day": None, "at": None, "b": None, "s": None, "100%": None},
    ]  # fmt: skip


def test_a_bare_select_is_named_after_its_file_and_a_schema_inferred(place: Path) -> None:
    Path("cheap.sql").write_text("SELECT symbol FROM trades WHERE price < 5")
    shown = _call("run", "cheap.sql", "-e", "trades.csv").stdout
    assert json.loads(shown) == {
        "query": "cheap",
        "ts": 9,
        "symbol": "A",
    }


def test_several_streams_are_merged_by_time_and_ties_follow_the_command_line(place: Path) -> None:
    Path("queries.sql").write_text("CREATE QUERY q AS SELECT x, y FROM a WINDOW(RANGE 9 MS), b WINDOW(NOW)")
    Path("a.csv").write_text("ts,x\n1,1\n2,2\n2,3\n")
    Path("b.csv").write_text("when,y\n2,1\n3,2\n")
    pairs = {}
    for first, second in (("a", "b"), ("b", "a")):
        rows, _ = _run("-e", f"{first}={first}.csv", "-e", f"{second}={second}.csv", "--timestamp", "b=when")
        pairs[first] = [(row["ts"], row["x"], row["y"]) for row in rows]
    assert pairs["a"] == [(2, 1, 1), (2, 2, 1), (2, 3, 1), (3, 1, 2), (3, 2, 2), (3, 3, 2)]
    assert pairs["b"] == [(2, 1, 1), (2, 2, 1), (2, 3, 1), (3, 1, 2), (3, 2, 2), (3, 3, 2)]
    rows, _ = _run("-e", "a=a.csv", "-e", "b=b.csv", "--timestamp", "a=ts", "--timestamp", "b=when", "--until", "2")
    assert [row["ts"] for row in rows] == [2, 2, 2]


def test_until_stops_reading_and_lets_time_pass(place: Path) -> None:
    Path("queries.sql").write_text("CREATE QUERY q AS SELECT COUNT(*) AS n FROM trades WINDOW(RANGE 4 MS SLIDE 4 MS)")
    assert _run("-e", "trades.csv", "--until", "3")[0] == []
    assert _run("-e", "trades.csv", "--until", "4")[0] == [{"query": "q", "ts": 4, "n": 3}]
    assert len(_run("-e", "trades.csv", "--until", "1970-01-01T00:00:01Z")[0]) == 2


def test_the_unit_of_timestamps(place: Path) -> None:
    Path("trades.csv").write_text("ts,symbol,price\n1711846804.5,B,11\n")
    rows, said = _run("-e", "trades.csv", code=1)
    assert (
        "it is not a whole number of milliseconds; if it is seconds, that is 2024-03-31 01:00:04: --timestamp-unit s"
        in said
    )
    expected = [{"query": "high", "ts": 1711846804500, "symbol": "B", "price": 11.0}]
    rows, said = _run("-e", "trades.csv", "--timestamp-unit", "s")
    assert rows[:1] == expected
    rows, said = _run("-e", "trades.csv", "--timestamp-unit", "auto")
    assert rows[:1] == expected
    assert "note: trades.csv: the timestamps are seconds (a guess by the first one, 1711846804.5)" in said
    Path("trades.csv").write_text("ts,symbol,price\n1711846804,B,11\n")
    assert (
        "note: trades.csv: the first timestamp is 1711846804 milliseconds; if it is seconds"
        in _run("-e", "trades.csv")[1]
    )
    _call("replay", "queries.sql", "-e", "trades.csv", "--timestamp-unit", "s", "--out", "out")
    assert pq.read_table("out/high.parquet")["ts"].to_pylist() == [1711846804000]


def test_a_history_out_of_order_is_sorted(place: Path) -> None:
    ordered = _call("run", "queries.sql", "-e", "trades.csv").stdout
    lines = CSV.splitlines(keepends=True)
    Path("trades.csv").write_text("".join([lines[0], *reversed(lines[1:])]))
    said = _run("-e", "trades.csv", code=1)[1]
    assert (
        "trades.csv:3: column 1, 'ts': time does not go back: 3 is before 9, the newest time of this stream; " in said
    )
    assert said.endswith("to sort the history: --sort (sort=True in Python)\n")
    assert _call("run", "queries.sql", "-e", "trades.csv", "--sort").stdout == ordered
    _call("replay", "queries.sql", "-e", "trades.csv", "--sort", "--out", "out")
    assert pq.read_table("out/high.parquet")["ts"].to_pylist() == [2, 3]


def test_a_select_in_a_file_named_as_its_stream_is_called_result(place: Path) -> None:
    Path("trades.sql").write_text("SELECT symbol FROM trades WHERE price < 5")
    shown = _call("run", "trades.sql", "-e", "trades=trades.csv").stdout
    assert json.loads(shown) == {"query": "result", "ts": 9, "symbol": "A"}
    Path("trades.sql").write_text("CREATE QUERY trades AS SELECT symbol FROM trades")
    said = _call("run", "trades.sql", "-e", "trades=trades.csv", code=1).stderr
    assert "the query 'trades' has the name of a stream that is read: give the query another name" in said


# Bad input ------------------------------------------------------------------------------------------------------------


def test_a_bad_line_stops_the_run_after_what_precedes_it(place: Path) -> None:
    Path("trades.csv").write_text("ts,symbol,price\n1,A,99\n2,B,eleven\n3,C,99\n")
    rows, said = _run("-e", "trades.csv", code=1)
    assert rows == [{"query": "high", "ts": 1, "symbol": "A", "price": 99.0}, {"query": "n", "ts": 1, "n": 1}]
    summary, error = said.splitlines()
    assert summary.startswith("1 event, results: high 1, n 1; ")
    assert error == "error: trades.csv:3: column 3, 'price': 'eleven' is not a DOUBLE"
    _run("-e", "trades.csv", "--out", "out", code=1)
    assert pq.read_table("out/high.parquet").num_rows == 1


def test_bad_lines_are_kept_and_the_run_goes_on(place: Path) -> None:
    Path("trades.csv").write_text("ts,symbol,price\n1,A,99\n2,B,eleven\n3,C,99\n2,D,99\n4,E\n")
    rows, said = _run("-e", "trades.csv", "--on-error", "skip")
    assert [row["symbol"] for row in rows if row["query"] == "high"] == ["A", "C"]
    assert "3 wrong lines are in trades.csv.rejects.ndjson" in said
    bads = [json.loads(line) for line in Path("trades.csv.rejects.ndjson").read_text().splitlines()]
    assert [(bad["line"], bad["raw"]) for bad in bads] == [(3, "2,B,eleven"), (5, "2,D,99"), (6, "4,E")]
    _, said = _run("-e", "trades.csv", "--on-error", "skip", "--out", "out")
    assert "3 wrong lines are in out/rejects.ndjson" in said
    assert Path("out/rejects.ndjson").read_text() == Path("trades.csv.rejects.ndjson").read_text()


def test_results_are_not_written_into_the_file_of_bad_lines(place: Path) -> None:
    Path("queries.sql").write_text("CREATE QUERY Rejects AS SELECT * FROM trades")
    Path("trades.csv").write_text("ts,symbol,price\n1,A,99\n2,B,eleven\n")
    skipped = ("-e", "trades.csv", "--on-error", "skip", "--out", "out")
    _, said = _run(*skipped, "--format", "ndjson", code=1)
    assert "the results of 'Rejects' would be in rejects.ndjson, which has what is rejected: rename the query" in said
    _run(*skipped, "--format", "csv")
    _run("-e", "trades.csv", "--out", "out", "--format", "ndjson")
    assert len(Path("out/Rejects.ndjson").read_text().splitlines()) == 2


def test_in_several_streams_all_before_the_bad_line_in_time_is_done(place: Path) -> None:
    Path("queries.sql").write_text("CREATE QUERY q AS SELECT x FROM a; CREATE QUERY r AS SELECT y FROM b")
    Path("a.csv").write_text("ts,x\n1,1\n3,3\n9,9\n")
    Path("b.csv").write_text("ts,y\n2,2\n4,4\nfive,5\n")
    rows, said = _run("-e", "a=a.csv", "-e", "b=b.csv", code=1)
    assert sorted(row["ts"] for row in rows) == [1, 2, 3, 4]
    assert "error: b.csv:4: column 1, 'ts': 'five' is not a timestamp" in said


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-e", "trade=trades.csv"], 1, "error: no query reads a stream 'trade'; did you mean 'trades'?"),
        (["-e", "trades=no.csv"], 1, "error: the file no.csv does not exist"),
        (["-e", "trades=wrong.csv"], 1, "no column 'price'; did you mean 'prize'? There are 'ts', 'symbol', 'prize'"),
        (["-e", "trades.csv", "--timestamp", "tss"], 1, "error: trades.csv has no column 'tss' with the timestamps"),
        (["-e", "trades.csv", "--db", "nonsense://"], 1, "error: Can't load plugin"),
        (["-e", "trades.csv", "--db", "duckdb:////no/such.db"], 1, "the database duckdb:////no/such.db cannot"),
        (["-e", "trades.csv", "--db", "sqlite:////no/such.db"], 1, "the database sqlite:////no/such.db cannot"),
        (["-e", "trades.csv", "--out", "wrong.csv"], 2, "is a file"),
        (["-e", "trades.csv", "--out", "wrong.csv/out"], 1, "error: results cannot be written to wrong.csv/out"),
        (["-e", "trades.csv", "--format", "csv"], 2, "--format applies to files of results; name their directory"),
        (["-e", "trades.csv", "--until", "soon"], 2, "'soon' is neither milliseconds nor an ISO 8601 time"),
        (["-e", "trades.csv", "--timestamp", "quotes=ts"], 2, "--timestamp quotes=ts: --events does not name a stream quotes"),
        (["-e", "trades.csv", "-e", "trades.csv"], 2, "trades has events already"),
        (["-e", "-", "--input-format", "parquet"], 1, "error: Parquet cannot be read from standard input"),
        (["-e", "trades.csv", "--on-error", "ignore"], 2, "Invalid value for '--on-error'"),
        ([], 2, "Missing option '-e' / '--events'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_in_one_error(place: Path, arguments: list[str], code: int, message: str) -> None:
    Path("wrong.csv").write_text("ts,symbol,prize\n1,A,2\n")
    rows, said = _run(*arguments, code=code)
    assert rows == []
    assert message in said
    assert "Traceback" not in said


def test_a_column_with_the_name_of_a_key_is_told(place: Path) -> None:
    Path("query.sql").write_text("SELECT symbol AS query, price FROM trades")
    result = _call("run", "query.sql", "-e", "trades=trades.csv", code=1)
    assert result.stdout == ""
    assert "error: 'query' has a column 'query', which is a key of each line already: give it another" in result.stderr
    _call("run", "query.sql", "-e", "trades=trades.csv", "--out", "out", "--format", "ndjson")
    assert json.loads(Path("out/query.ndjson").read_text().splitlines()[0])["query"]


def test_several_streams_want_their_names(place: Path) -> None:
    Path("queries.sql").write_text("CREATE QUERY q AS SELECT x, y FROM a WINDOW(NOW), b WINDOW(NOW)")
    _, said = _run("-e", "trades.csv", code=2)
    assert "--events trades.csv: which stream? The queries read the streams a, b; write STREAM=trades.csv" in said
    _, said = _run("-e", "a=-", "-e", "b=-", code=2)
    assert "standard input (-) holds the events of one stream" in said


def test_a_wrong_query_is_shown_with_its_place(place: Path) -> None:
    Path("queries.sql").write_text(
        "CREATE STREAM trades (symbol VARCHAR, price DOUBLE);\nCREATE QUERY q AS SELECT prize FROM trades;"
    )
    _, said = _run("-e", "trades.csv", code=1)
    assert said.splitlines() == [
        "error: queries.sql: unknown column 'prize'; did you mean 'price'? (line 2, column 26)",
        "  CREATE QUERY q AS SELECT prize FROM trades;",
        "                           ^",
    ]
    Path("queries.sql").write_bytes(b"SELECT '\xe9'")
    assert _run("-e", "trades.csv", code=1)[1].startswith("error: queries.sql is not UTF-8")
    assert _call("run", "no.sql", "-e", "trades.csv", code=1).stderr.startswith("error: no.sql cannot be read")


# Explain, demo, examples ----------------------------------------------------------------------------------------------


def test_explain_shows_every_query_in_the_words_of_the_database(place: Path) -> None:
    shown = _call("explain", "queries.sql", "--db", "sqlite://").stdout
    assert "high" in shown
    assert "COUNT(" in shown
    Path("schema.sql").write_text("CREATE STREAM trades (symbol VARCHAR, price DOUBLE)")
    Path("bare.sql").write_text("SELECT symbol FROM trades WHERE price > 10")
    assert '"price" > 10' in _call("explain", "bare.sql", "--schema", "schema.sql").stdout
    assert "error: " in _call("explain", "bare.sql", code=1).stderr


def test_the_demo_is_the_same_for_the_same_seed_on_every_database() -> None:
    shown = _call("demo", "--speed", "0", "--events", "120").stdout
    assert "dip " in shown
    assert "cepbridge run queries.sql --events trades.csv" in shown
    lines = shown.splitlines()
    assert lines[0] == "ACME, GLOBEX, INITECH: 120 trades; the queries are block, swing, reaction, dip"
    assert _call("demo", "--speed", "0", "--events", "120", "--db", "duckdb://").stdout == shown
    assert _call("demo", "--speed", "0", "--events", "120", "--seed", "8").stdout != shown


def test_the_demo_waits_as_long_as_its_speed_says() -> None:
    started = time.monotonic()
    _call("demo", "--events", "11", "--speed", "1")
    assert time.monotonic() - started >= 0.2


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = _call("run", "examples/queries.sql", "--events", "examples/trades.csv")
    dips = [json.loads(line) for line in result.stdout.splitlines() if '"dip"' in line]
    assert dips[0] == {"query": "dip", "ts": 10200, "share": "ACME", "top": 94.77, "bottom": 88.25, "back": 94.54}
    assert len(dips) == 2
    assert "results: block 2, mean 120, dip 2" in result.stderr
    assert _python("examples/embedded.py").splitlines() == [
        "3000 {'sensor': 'boiler', 'mean': 82.0}",
        "4000 {'sensor': 'boiler', 'mean': 83.2}",
        "5000 {'sensor': 'boiler', 'mean': 81.0}",
    ]
    assert _python("examples/generate_trades.py", "120") == Path("examples/trades.csv").read_text()


# As a process ---------------------------------------------------------------------------------------------------------


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _python(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=_environment()).stdout


def _process(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bridge", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(), **options)


def test_help_and_version_load_nothing_heavy() -> None:
    code = "import bridge.cli, sys; bridge.cli.main(['--help'], standalone_mode=False)"
    check = "; print({'pyarrow', 'duckdb', 'sqlalchemy', 'rich', 'numpy'} & set(sys.modules))"
    shown = _python("-c", code + check)
    assert "Complex event processing" in shown
    assert shown.endswith("set()\n")
    assert _python("-m", "bridge", "--version") == "cepbridge, version 0.1.0\n"


def test_a_run_over_text_loads_no_parquet() -> None:
    command = ["run", "examples/queries.sql", "--events", "examples/trades.csv"]
    code = f"import bridge.cli, sys; bridge.cli.main({command}, standalone_mode=False); print(*sys.modules)"
    loaded = set(_python("-c", code).splitlines()[-1].split())
    assert "pyarrow.csv" in loaded
    assert {"pyarrow.parquet", "pyarrow.fs", "sqlalchemy", "rich"} & loaded == set()


def test_a_reader_that_leaves_ends_it_quietly(place: Path) -> None:
    Path("trades.csv").write_text("ts,symbol,price\n" + "".join(f"{n},A,99\n" for n in range(150_000)))
    process = _process("run", "queries.sql", "-e", "trades.csv")
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["ts"] == 0
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_results_come_while_standard_input_is_still_open(place: Path) -> None:
    process = _process("run", "queries.sql", "-e", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"ts,symbol,price\n1,A,99\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"query": "high", "ts": 1, "symbol": "A", "price": 99.0}
    assert json.loads(process.stdout.readline()) == {"query": "n", "ts": 1, "n": 1}
    out, said = process.communicate(b"2,A,98\n", 60)
    assert process.returncode == 0
    assert [json.loads(line)["ts"] for line in out.splitlines()] == [2, 2]
    assert said.startswith(b"2 events")


def test_an_interrupt_ends_it_with_130_and_keeps_what_is_done(place: Path) -> None:
    process = _process("run", "queries.sql", "-e", "-", "--out", "out", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"ts,symbol,price\n1,A,99\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not Path("out/.high.parquet.part").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.decode().splitlines()[-1] == "interrupted"
    assert b"Traceback" not in said
    assert pq.read_table("out/high.parquet").num_rows == 1


@pytest.mark.parametrize(
    "text", [QUERIES, "SELECT price FROM trades", "SELECT 1; SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))"]
)
def test_why_wants_one_select_with_match_recognize(place: Path, text: str) -> None:
    Path("q.sql").write_text(text)
    said = _call("why", "q.sql", "--row", "ts=1", code=1).stderr
    assert said.startswith(
        "error: q.sql: cepbridge why explains one SELECT with MATCH_RECOGNIZE over a table of the database (line "
    )


@pytest.mark.parametrize("url", ["duckdb:///nope.duckdb", "sqlite:///nope.db"])
def test_why_makes_no_database(place: Path, url: str) -> None:
    Path("q.sql").write_text("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (A))")
    before = sorted(place.iterdir())
    said = _call("why", "q.sql", "--row", "a=1", "--db", url, code=1).stderr
    assert said.startswith("error: there is no database nope")
    assert sorted(place.iterdir()) == before


def test_a_warning_is_a_note(place: Path) -> None:
    Path("queries.sql").write_text(
        "SELECT * FROM trades[symbol VARCHAR, price DOUBLE] MATCH_RECOGNIZE (MEASURES A.price AS p PATTERN (A+))"
    )
    said = _run("--events", "trades.csv")[1]
    assert said.startswith("note: PATTERN (A+) ends with a quantifier without bound")
    assert "UserWarning" not in said


FIRMS = """
CREATE STREAM trades (symbol VARCHAR, price DOUBLE);
CREATE QUERY firm AS SELECT f.name, t.price FROM trades t, firms f WHERE t.symbol = f.code AND t.price > 11;
"""


@pytest.mark.parametrize("database", ["duckdb://", "sqlite://"])
def test_a_relation_is_a_file(place: Path, database: str) -> None:
    Path("queries.sql").write_text(FIRMS)
    Path("firms.csv").write_text("code,name\nA,Acme\nB,Globex\n")
    rows, _ = _run("-e", "trades=trades.csv", "--db", database, "--relation", "firms=firms.csv")
    assert rows == [{"query": "firm", "ts": 3, "name": "Acme", "price": 12.0}]
    said = _run("-e", "trades=trades.csv", "--db", database, code=1)[1]
    assert "unknown stream or table 'firms'; a table is given with --relation firms=FILE (line 3" in said
    assert "does not exist" in _run("-e", "trades=trades.csv", "--relation", "firms=no.csv", code=1)[1]
    assert "expected NAME=FILE" in _run("-e", "trades=trades.csv", "--relation", "firms", code=2)[1]


STORES = """
CREATE STREAMSCHEMA trades WITH symbol varchar, price double;
CREATE SQL firm_of ON crm AS SELECT firm FROM firms WHERE symbol = ?;
CREATE SQL note ON crm AS INSERT INTO noted VALUES (?, ?);
INSERT INTO named SELECT symbol, price, firm FROM trades ON SQL firm_of, f, symbol, firm WHERE price > 10;
INSERT INTO kept SELECT firm FROM named ON SQL note, n, firm, price
"""
NAMED = [(2, "B", 11.0, "Bolt"), (3, "A", 12.0, "Acme")]


@pytest.fixture
def crm(place: Path) -> str:
    """The URL of a data store with the names of firms and a table for notes; stores.cpl reads and writes it."""
    Path("stores.cpl").write_text(STORES)
    url = f"sqlite:///{place}/crm.db"
    with bridge.connect(url) as there:
        there.database.execute("CREATE TABLE firms (symbol VARCHAR(9), firm VARCHAR(9))")
        there.database.execute("INSERT INTO firms VALUES ('A', 'Acme'), ('B', 'Bolt')")
        there.database.execute("CREATE TABLE noted (firm VARCHAR(9) CHECK (firm <> 'Evil'), price DOUBLE)")
    return url


def _noted(url: str) -> list[tuple[Any, ...]]:
    with bridge.connect(url) as there:
        return [tuple(row) for row in there.query("SELECT firm, price FROM noted ORDER BY price")]


def test_a_data_store_is_a_url(place: Path, crm: str) -> None:
    done = _call("run", "stores.cpl", "-e", "trades.csv", "--datastore", f"crm={crm}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(r["ts"], r["symbol"], r["price"], r["firm"]) for r in rows if r["query"] == "named"] == NAMED
    assert _noted(crm) == [("Bolt", 11.0), ("Acme", 12.0)]
    told = _call("explain", "stores.cpl", "--datastore", f"crm={crm}").stdout
    assert "-- the data store crm is queried for many rows at once" in told


def test_a_data_store_that_is_not_there(place: Path, crm: str) -> None:
    events = ("-e", "trades.csv")
    assert "unknown data store 'crm'" in _call("run", "stores.cpl", *events, code=1).stderr
    said = _call("run", "stores.cpl", *events, "--datastore", "crm=sqlite:////nowhere/at/all.db", code=1).stderr
    assert "error: the data store 'crm'" in said
    assert "expected NAME=URL" in _call("run", "stores.cpl", *events, "--datastore", "crm", code=2).stderr
    twice = ("--datastore", f"crm={crm}", "--datastore", "crm=duckdb://")
    assert f"crm is already {crm}" in _call("run", "stores.cpl", *events, *twice, code=2).stderr


def test_what_a_data_store_refuses_is_told(place: Path, crm: str) -> None:
    with bridge.connect(crm) as there:
        there.database.execute("UPDATE firms SET firm = 'Evil' WHERE symbol = 'A'")
    done = _call(
        "run", "stores.cpl", "-e", "trades.csv", "--datastore", f"crm={crm}", "--db", f"sqlite:///{place}/own.db"
    )
    assert "note: 1 row not taken by data stores; the first: crm: " in done.stderr
    assert _noted(crm) == [("Bolt", 11.0)]


def test_a_replay_takes_data_stores(place: Path, crm: str) -> None:
    _call("replay", "stores.cpl", "-e", "trades.csv", "--datastore", f"crm={crm}", "--out", "out")
    assert [tuple(row.values()) for row in pq.read_table("out/named.parquet").to_pylist()] == NAMED
    assert _noted(crm) == [("Bolt", 11.0), ("Acme", 12.0)]


def test_a_replay_takes_relations(place: Path) -> None:
    Path("queries.sql").write_text(FIRMS)
    Path("firms.ndjson").write_text('{"code": "A", "name": "Acme"}\n')
    _call("replay", "queries.sql", "-e", "trades.csv", "--relation", "firms=firms.ndjson", "--out", "out")
    assert pq.read_table("out/firm.parquet").to_pylist() == [{"ts": 3, "name": "Acme", "price": 12.0}]


@pytest.mark.parametrize("events", [["trades.csv"], ["trades=trades.csv"], ["quotes=quotes.csv", "trades.csv"]])
def test_a_misspelt_stream_is_named_with_its_place(place: Path, events: list[str]):
    """Also where the file comes without the name of its stream: it is that of the declared stream."""
    Path("quotes.csv").write_text("ts,ask\n1,9.5\n")
    Path("queries.sql").write_text(QUERIES + "CREATE QUERY q AS SELECT ask FROM quotes;" * ("quotes" in events[0])
                                   + "\nCREATE QUERY m AS SELECT symbol FROM tradse")  # fmt: skip
    said = _run(*(each for name in events for each in ("-e", name)), code=1)[1]
    assert "unknown stream or table 'tradse'; did you mean 'trades'? (line 6, column 38)" in said


def test_the_types_of_streams_that_are_not_declared_are_noted(place: Path):
    Path("high.sql").write_text('SELECT symbol FROM "my trades" WHERE price > 11')
    result = _call("run", "high.sql", "-e", "trades.csv")
    statement = 'CREATE STREAM "my trades" (symbol VARCHAR, price DOUBLE);'
    assert result.stderr.startswith(f"note: trades.csv is read as {statement}\n4")
    Path("high.sql").write_text(f"{statement} {Path('high.sql').read_text()}")
    declared = _call("run", "high.sql", "-e", "trades.csv")
    assert (declared.stdout, "note" in declared.stderr) == (result.stdout, False)
    said = _call("run", "queries.sql", "-e", "-", input=CSV).stderr
    assert "note" not in said


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.sql", "SELECT prize FROM trades", "unknown column 'prize'; did you mean 'price'? (line 1, column 8)"),
        ("b.sql", "SELECT price FRM trades", "(line 1, column"),
        ("c.sql", "", "the text is empty"),
        ("d.sql", "CREATE STREAM s (a INTEGER); CREATE STREAM s (a INTEGER)", "'s' is created twice"),
        ("e.epl", "select prize from trades", "unknown column 'prize'"),
        ("f.cpl", "INSERT INTO x SELECT prize FROM trades", "unknown column 'prize'"),
    ],
)
def test_errors_in_scripts_name_the_file(place: Path, name: str, text: str, message: str):
    Path(name).write_text(text)
    for command in (
        ["run", name, "-e", "trades=trades.csv"],
        ["replay", name, "-e", "trades=trades.csv", "--out", "o"],
    ):
        if command[0] == "run" or name.endswith(".sql"):
            said = _call(*command, code=1).stderr
            assert message in said.partition(f"error: {name}: ")[2]


def test_errors_in_one_of_several_files_name_it(place: Path):
    Path("streams.sql").write_text("CREATE STREAM trades (price DOUBLE);")
    Path("wrong.sql").write_text("CREATE QUERY q AS SELECT prize FROM trades;")
    Path("app.db").touch()
    said = _call("watch", "sqlite:///app.db", "streams.sql", "wrong.sql", "--check", code=1).stderr
    assert said.startswith("error: wrong.sql: unknown column 'prize'; did you mean 'price'? (line 1, column 26)")
    Path("select.sql").write_text("SELECT nosuch FROM t MATCH_RECOGNIZE (PATTERN (A))")
    for command in ("explain", "why"):
        said = _call(command, "select.sql", *(["--row", "a=1"] if command == "why" else []), code=1).stderr
        assert said.startswith("error: select.sql: ")


def test_an_absence_is_reported_when_its_time_is_over(place: Path):
    Path("unpaid.sql").write_text("""SELECT * FROM trades MATCH_RECOGNIZE (PARTITION BY symbol MEASURES A.ts AS since
        PATTERN (A NOT B) WITHIN 30 S DEFINE A AS price > 1, B AS price < 1)""")
    Path("trades.csv").write_text("ts,symbol,price\n1000,A,2.5\n2000,B,2.5\n31000,C,0.5\n")
    found = [_call("run", "unpaid.sql", "-e", "trades.csv", *until).stdout for until in ((), ("--until", "32000"))]
    assert [each.count("since") for each in found] == [1, 2]
    for command in ("run", "replay"):
        assert "absence" in CliRunner().invoke(main, [command, "--help"]).output


# status ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_work", [False, True])
def test_status_reads_the_state_of_a_bridge(place: Path, at_work: bool):
    with bridge.connect("sqlite:///app.db") as cep:
        cep.register_stream("trades", "price DOUBLE")
        cep.create_query("total", "select sum(price) as total from trades#length(3)", language="epl")
        cep.create_query("high", query.Filter(query.Stream("trades"), "price > 5"), into="highs")
        cep.create_query("graph", query.Script.of("found", query.Filter(query.Stream("trades"), "price > 9")))
        cep.push_events("trades", [([1.5], 1000), ([2.5], 2000)])
        if at_work:
            done = CliRunner().invoke(main, ["status", "sqlite:///app.db"])
    if not at_work:
        done = CliRunner().invoke(main, ["status", "sqlite:///app.db"])
    assert done.exit_code == 0, done.output
    first, *lines = done.output.splitlines()
    assert first == "SQLite sqlite:///app.db: 2 events so far, the newest at 2000 ms (1970-01-01 00:00:02 UTC)"
    assert "  query high (objects) INTO TABLE highs: SELECT * FROM trades WHERE price > 5" in lines
    assert "  query graph (objects): Filter(trades) = {(price > 9, found)}" in lines
    assert "  2 rows of state, in these tables:" in lines
    assert "  query total (epl): select sum(price) as total from trades#length(3)" in lines
    assert any(line.startswith("  stream trades") for line in lines)


def test_status_of_what_is_not_there(place: Path):
    done = CliRunner().invoke(main, ["status", "sqlite:///nosuch.db"])
    assert (done.exit_code, done.output.startswith("error: there is no database nosuch.db")) == (1, True)
    assert not (place / "nosuch.db").exists()
    done = CliRunner().invoke(main, ["status", "sqlite://"])
    assert "there is no state of a bridge in SQLite sqlite://" in done.output
