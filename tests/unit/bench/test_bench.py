"""The experiment: the baseline gives the rows of the bridge, and the command tells what it measured or what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks import epl
from benchmarks.__main__ import main as benchmarks
from bridge.bench.experiment import DifferenceError, ExperimentSettings, Measurement, check, first_difference
from bridge.bench.paper import PaperBridge
from bridge.bench.peers import Peer
from bridge.bench.plot import draw
from bridge.bench.systems import BridgeSystem, PaperSystem, RefusedError
from bridge.bench.workloads import MIXED, WORKLOADS, Workload
from bridge.cli import main
from bridge.errors import QueryError

URLS = ("duckdb://", "sqlite://")
CHECKED = range(520, 560)
"""Windows are full then, and rows have left them."""


def call(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["bench", *arguments])
    assert result.exit_code == code, result.output
    return result


def silent(text: str, done: float) -> None:
    assert 0 <= done <= 1


# The baseline ---------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("workload", [*WORKLOADS, MIXED], ids=lambda each: each.key)
def test_the_baseline_gives_the_rows_of_the_bridge(url: str, workload: Workload) -> None:
    count = 1 if workload is MIXED else 4
    expected = BridgeSystem("duckdb://", 600).rows(workload, count, CHECKED)
    assert any(expected.values())
    assert PaperSystem(url).rows(workload, count, CHECKED) == expected


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each.key)
def test_the_baseline_may_begin_with_empty_windows(url: str, workload: Workload) -> None:
    assert PaperSystem(url).rows(workload, 1, range(30)) == BridgeSystem(url, 30).rows(workload, 1, range(30))


@pytest.mark.parametrize("url", URLS)
def test_the_baseline_takes_events_of_one_instant_for_alternatives(url: str) -> None:
    """P2: the worked example of the paper's pattern, with i = 1."""
    found: list[tuple[Any, ...]] = []
    cep = PaperBridge(url)
    cep.register_stream("stream", "a INTEGER")
    (rho,) = WORKLOADS[3].queries(1).values()
    cep.create_query("q", rho)
    cep.add_output_processor("q", lambda event: found.append((event.timestamp, *event.payload.values())))
    for ts, a in [(1, 7), (2, 1), (3, 2), (3, 5), (4, 3), (4, 6), (5, 7), (600, 8)]:
        cep.push_event("stream", {"a": a}, ts)
    cep.close()
    assert found == [(4, 1, 2, 3), (5, 5, 6, 7)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM stream",
        "SELECT COUNT(*) FROM stream WINDOW(ROWS 3)",
        "SELECT a, COUNT(*) FROM stream WINDOW(RANGE 3 MS) GROUP BY a",
        "SELECT a FROM stream WHERE a > 1",
    ],
)
def test_the_baseline_refuses_what_the_experiment_has_not(text: str) -> None:
    cep = PaperBridge("sqlite://")
    cep.register_stream("stream", "a INTEGER")
    with pytest.raises(QueryError, match="the paper's experiment does not have such"):
        cep.create_query("q", text)
    cep.close()


def test_the_baseline_leaves_no_tables_and_minds_none_left(tmp_path: Path) -> None:
    from windows.databases import open_database

    url = f"sqlite:///{tmp_path / 'bench.db'}"
    first = PaperBridge(url)
    first.register_stream("stream", "a INTEGER")
    first.database.close()
    second = PaperBridge(url)
    second.register_stream("stream", "a INTEGER")
    second.close()
    database = open_database(url)
    assert database.table_names() == []
    database.close()


# The check ------------------------------------------------------------------------------------------------------------


def test_a_difference_is_told_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PaperSystem.rows

    def wrong(self: PaperSystem, *where: Any) -> Any:
        found = right(self, *where)
        name, rows = next((name, rows) for name, rows in found.items() if rows)
        return {**found, name: [(*rows[0][:-1], -1), *rows[1:]]}

    monkeypatch.setattr(PaperSystem, "rows", wrong)
    settings = ExperimentSettings(("sqlite://",), (2,), (1,), ("alpha",))
    with pytest.raises(
        DifferenceError, match=r"α aggregation, Count = 2, sqlite:// paper: alpha_1 reports \(800, -1\)"
    ):
        check(settings, silent)


@pytest.mark.parametrize("pair", list(epl.in_epl()), ids=lambda pair: pair[0].key)
def test_the_queries_in_epl_tell_the_rows_of_the_paper(pair: tuple[Workload, Workload]) -> None:
    epl.check(*pair, 2, BridgeSystem("sqlite://", 1))


def test_lacking_rows_are_a_difference() -> None:
    assert first_difference({"q": [(1, 7)]}, {"q": []}, range(3)) == "q reports 0 rows instead of 1"


# Other engines --------------------------------------------------------------------------------------------------------

PEER = """
import csv
import json
import sys
request = json.load(sys.stdin)
if any(query["operator"] != "sigma" for query in request["queries"]):
    sys.exit("filters alone")
if request["result"]:
    with open(request["result"], "w") as out, open(request["events"]["stream"]) as events:
        for ts, a, b in csv.reader(events):
            for query in request["queries"]:
                if int(a) - int(b) == query["i"]:
                    print(query["name"], ts, a, b, sep=",", file=out)
print(json.dumps({"seconds": [0.5] * request["runs"], "version": "1"}))
"""


@pytest.fixture
def peer(tmp_path: Path) -> Peer:
    """A program that knows filters alone."""
    (tmp_path / "peer.py").write_text(PEER)
    return Peer("toy", (sys.executable, str(tmp_path / "peer.py")))


def test_a_peer_is_a_program_that_answers_a_request(peer: Peer) -> None:
    sigma = WORKLOADS[0]
    assert peer.rows(sigma, 2, range(500)) == BridgeSystem("sqlite://", 500).rows(sigma, 2, range(500))
    assert peer.measure(sigma, 1, 1.0, 2).rates == (24_000.0, 24_000.0)


def test_a_peer_that_fails_takes_no_part_and_says_why(peer: Peer) -> None:
    with pytest.raises(RefusedError, match="filters alone"):
        peer.rows(WORKLOADS[1], 1, range(10))
    with pytest.raises(RefusedError, match="nowhere"):
        Peer("toy", ("nowhere",)).rows(WORKLOADS[0], 1, range(10))


# The command ----------------------------------------------------------------------------------------------------------


def test_bench_prints_tables_and_writes_json_and_a_picture(tmp_path: Path, peer: Peer) -> None:
    file, picture = tmp_path / "bench.json", tmp_path / "bench.svg"
    tiny = ("--quick", "--db", "sqlite://", "--seconds", "0.01", "--operators", "sigma,rho", "--drive", "1,500")
    draw = ("--plot", str(picture)) if _has("matplotlib") else ()
    said = call(*tiny, *draw, "--json", str(file), "--peers", f"toy={' '.join(peer.command)}").stdout
    assert "| sqlite:// | Count | paper | 1 at a time | 500 at a time |" in said
    assert said.count(" ×**") == 4
    assert "| other engines | Count | toy |" in said
    assert "ρ pattern × 1, toy: filters alone" in said
    whole = json.loads(file.read_text())
    assert {each["side"] for each in whole["measurements"]} == {"paper", "1 at a time", "500 at a time", "toy"}
    assert "| sqlite://, ms per push | Count | paper | 1 at a time | 500 at a time |" in said
    latencies = {each["side"]: each["latency"] for each in whole["measurements"] if each["latency"]}
    assert latencies.keys() == {"paper", "1 at a time", "500 at a time"}
    assert all(0 < latency["p50"] <= latency["p99"] for latency in latencies.values())
    assert whole["settings"]["counts"] == [1]
    assert whole["machine"]["databases"].keys() == {"sqlite://"}
    assert not draw or "σ filter" in picture.read_text(encoding="utf-8")


def _has(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--db", "nosuch://"), 1, "nosuch"),
        (("--db", "sqlite:////no/such/directory/x.db"), 1, "/no/such/directory/x.db"),
        (("--count", "0"), 2, "'0' is not a list of whole numbers from 1 on, such as 1,10,80 or 1-100/5"),
        (("--count", "9-1"), 2, "'9-1' is not a list"),
        (("--count", "1-9/0"), 2, "'1-9/0' is not a list"),
        (("--drive", "many"), 2, "'many' is not a list"),
        (("--operators", "sigma,delta"), 2, "'delta' is not one of sigma, join, alpha, rho, mixed"),
        (("--peers", "Flink"), 2, "expected NAME=COMMAND"),
        (("--runs", "0"), 2, "0 is not in the range x>=1"),
        (("--json", "/no/such/directory/x.json"), 2, "the directory /no/such/directory does not exist"),
    ],
)
def test_bench_says_what_is_wrong(arguments: tuple[str, ...], code: int, told: str) -> None:
    assert told in call(*arguments, code=code).output


@pytest.mark.skipif(not _has("matplotlib"), reason="matplotlib is missing")
@pytest.mark.parametrize(("counts", "labels"), [((1,), ["duckdb://", "5 k", "10 k"]), ((1, 80), ["Count: queries"])])
def test_one_number_of_queries_is_drawn_as_bars(tmp_path: Path, counts: tuple[int, ...], labels: list[str]) -> None:
    rates = {"duckdb://": 5_000.0, "sqlite://": 10_000.0}
    found = [
        Measurement("mine", count, url, "1 at a time", (rate, rate)) for url, rate in rates.items() for count in counts
    ]
    draw(found, tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert all(label in text for label in labels)


def test_counts_are_lists_and_ranges() -> None:
    from bridge.bench.command import numbers

    option: Any = None
    assert numbers(None, option, ["1,80", "1-3"]) == (1, 80, 2, 3)
    assert numbers(None, option, ["1-100/50"]) == (1, 51)


def test_a_picture_wants_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = call("--quick", "--plot", str(tmp_path / "x.png"), code=1).output
    assert "pip install '.[bench]'" in said


def test_scaling_compares_databases(tmp_path: Path) -> None:
    databases = ("--database", "duckdb://", "--database", "sqlite://")
    draw = ("--plot", str(tmp_path / "s.png")) if _has("matplotlib") else ()
    asked = ("--of", "window", "--drive", "1", "--events", "100", "--seconds", "0.01", *draw)
    result = CliRunner().invoke(benchmarks, ["scaling", *databases, *asked])
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.output.splitlines()[2:]]
    assert [(row[0], row[2], row[3]) for row in rows] == [
        (database, "100", line) for database in ("duckdb://", "sqlite://") for line in ("COUNT(*)", "MAX(a)")
    ]
    assert all(float(row[5]) > 0 for row in rows)
    if draw:
        assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_other_commands_do_not_load_the_benchmark() -> None:
    code = "import sys, bridge.cli; print([name for name in sys.modules if name.startswith('bridge.bench')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
