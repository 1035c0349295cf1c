"""`python -m benchmarks limits`: the statements by hand give the rows of the replay, and other rows are noticed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

from benchmarks import limits
from benchmarks.__main__ import main as benchmarks
from benchmarks.compared import close_difference
from benchmarks.limit_queries import QUERIES, LimitQuery
from bridge.errors import BridgeError
from tests.support.databases import DATABASES, Database, one_of

A_MINUTE = 60_001
"""The events after which a window of a minute is reported."""

measured = one_of([database for database in DATABASES if database.name != "mariadb"])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_the_statement_by_hand_gives_the_rows_of_the_replay(measured: Database, query: LimitQuery) -> None:
    events = A_MINUTE if "1 MIN" in query.text else 20_000
    (limit,) = limits.measure([measured.fresh()], events, [query], 0, lambda text: None)
    assert limit.results > 0


def test_other_rows_are_an_error() -> None:
    wrong = dataclasses.replace(QUERIES[0], by_hand=QUERIES[0].by_hand.replace("9900", "9800"))
    with pytest.raises(BridgeError, match=r"filter, 1 % pass, duckdb://: \d+ rows of 3 columns, not \d+ of 3"):
        list(limits.measure(["duckdb://"], 1_000, [wrong], 1, lambda text: None))


def test_rows_out_of_the_order_of_time_are_an_error() -> None:
    wrong = dataclasses.replace(QUERIES[0], by_hand=f"{QUERIES[0].by_hand} ORDER BY ts DESC")
    with pytest.raises(BridgeError, match="filter, 1 % pass, by hand: the rows are not in the order of time"):
        list(limits.measure(["duckdb://"], 1_000, [wrong], 1, lambda text: None))


@pytest.mark.parametrize(
    ("found", "is_equal"),
    [
        ({"ts": [2, 1], "x": [None, 0.3]}, True),
        ({"ts": [2, 1], "x": [None, 0.3000001]}, False),
        ({"ts": [2, 1], "x": [0.0, 0.3]}, False),
        ({"ts": [2, 3], "x": [None, 0.3]}, False),
        ({"ts": [2, 1, 1], "x": [None, 0.3, 0.3]}, False),
    ],
)
def test_floats_are_compared_with_a_tolerance(found: dict[str, list[float]], is_equal: bool) -> None:
    expected = pa.table({"ts": [1, 2], "x": [0.1 + 0.2, None]})
    with duckdb.connect() as connection:
        assert (close_difference(connection, expected, pa.table(found)) is None) == is_equal


def test_the_command_prints_ratios_and_the_load_and_writes_all_runs(tmp_path: Path) -> None:
    file = tmp_path / "limits.json"
    asked = ("--events", "1000", "--runs", "2", "--query", "filter", "--query", "A B", "--json", str(file))
    result = CliRunner().invoke(benchmarks, ["limits", *asked])
    assert result.exit_code == 0, result.output
    head, _, *rows = result.output.split("\n\n")[0].splitlines()
    assert head.startswith("| duckdb://, 1,000 events | results | replay, s |")
    assert [row.split("|")[1].strip() for row in rows] == ["filter, 1 % pass", "A B within 10 s by symbol"]
    assert "Load average: " in result.output
    filtered, pattern = json.loads(file.read_text())["figures"]
    assert filtered["runs"].keys() == {"replay", "by hand"}
    assert pattern["runs"].keys() == {"replay", "by hand", "on demand"}
    assert len(pattern["ratios"]["on demand"]) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--query", "nothing"), "use one of filter, 1 % pass"),
        (("--database", "nosuch://"), "nosuch"),
        (("--database", "sqlite://", "--events", "0"), "0 is not in the range"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(benchmarks, ["limits", *arguments])
    assert result.exit_code != 0
    assert said in result.output


@pytest.mark.parametrize(
    ("before", "after", "warns"), [(0.1, 1.5, False), (0.6, 0.6, True), (0.1, 999.0, True), (None, None, False)]
)
def test_other_work_of_the_machine_is_warned_of(before: float | None, after: float | None, warns: bool) -> None:
    assert any(note.startswith("Warning: ") for note in limits.load_description(before, after)) == warns
