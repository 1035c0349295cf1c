"""PaaS-CEP's billing example: live, in batches and in replay the same bills, on every database, and right ones."""

from __future__ import annotations

import collections
import contextlib
import pathlib
import random
import subprocess
import sys
from typing import Any

import pytest

import bridge
from tests.support.runs import figures_of

DAY = 86_400_000
EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"
BILLING, PLANS = (EXAMPLES / name for name in ("billing.cpl", "plans.cpl"))
CLIENTS = {"ann": (10, 10), "bob": (2, 100), "eve": (0, 5)}
"""What each pays for a second and for a call."""

Call = tuple[str, list[Any], int]


def calls(seed: int) -> list[Call]:
    """Three days of calls, some of them short, some by strangers without a plan."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(3 * DAY) for _ in range(60))
    times[20] = times[19] = DAY  # at the boundary, and at once
    return [
        (rng.choice(["cdr1", "cdr2"]), [rng.choice([*CLIENTS, "joe"]), "any", rng.randrange(30), ts // 1000], ts)
        for ts in sorted(times)
    ]


def bills(events: list[Call], planned: bool) -> list[tuple[int, str, int]]:
    """The truth: what each caller's calls of a day cost, in the order in which callers first called."""
    owed: dict[tuple[int, str], int] = collections.defaultdict(int)
    for _, (caller, _, duration, _), ts in events:
        if duration >= 10 and (caller in CLIENTS or not planned):
            a_second, a_call = CLIENTS[caller] if planned else (10, 10)
            owed[(ts // DAY + 1) * DAY, caller] += duration * a_second + a_call
    return [(day, caller, bill) for (day, caller), bill in owed.items()]


def prepare(cep: bridge.Bridge) -> None:
    """The tables of plans and clients."""
    cep.database.execute("CREATE TABLE plans (id VARCHAR(20), a_second INTEGER, a_call INTEGER)")
    cep.database.execute("CREATE TABLE clients (idclient VARCHAR(20), idplan VARCHAR(20), due INTEGER)")
    for name, (a_second, a_call) in CLIENTS.items():
        cep.database.execute(f"INSERT INTO plans VALUES ('of {name}', {a_second}, {a_call})")
        cep.database.execute(f"INSERT INTO clients VALUES ('{name}', 'of {name}', 0)")


def live(cep: bridge.Bridge, events: list[Call]) -> None:
    for stream, payload, ts in events:
        cep.push_event(stream, payload, ts)


def batches(cep: bridge.Bridge, events: list[Call]) -> None:
    for start in range(0, len(events), 7):
        cep.push_all(events[start : start + 7])


def at_once(cep: bridge.Bridge, events: list[Call]) -> None:
    cep.push_all(events)


@pytest.mark.one_in(2)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("planned", [False, True], ids=["billing", "plans"])
@pytest.mark.parametrize("drive", [live, batches, at_once])
@pytest.mark.parametrize("seed", range(3))
def test_the_bills_are_right(seed: int, drive: Any, planned: bool, database: Any) -> None:
    events = calls(seed)
    with contextlib.closing(database.connect()) as cep:
        prepare(cep)
        cep.create_query("script", (PLANS if planned else BILLING).read_text(encoding="utf-8"), language="cpl")
        found: list[tuple[int, str, int]] = []
        cep.add_output_processor("dailybill", lambda event: found.append((event.timestamp, *event.payload.values())))
        drive(cep, events)
        cep.advance_time(3 * DAY)
        truth = bills(events, planned)
        assert found == truth
        if planned:
            due = {caller: sum(bill for _, name, bill in truth if name == caller) for caller in CLIENTS}
            assert dict(cep.database.fetch("SELECT idclient, due FROM clients")) == due
            assert sorted(cep.database.fetch("SELECT ts, idcaller, bill FROM bills")) == sorted(truth)


@pytest.mark.parametrize("planned", [False, True], ids=["billing", "plans"])
def test_a_replay_gives_the_same_bills(planned: bool, database: Any) -> None:
    import pyarrow as pa

    events = calls(5)
    target = database.connect().database
    prepare_only = bridge.Bridge(target)
    prepare(prepare_only)
    source = {}
    for stream in ("cdr1", "cdr2"):
        rows = [(ts, *payload) for name, payload, ts in events if name == stream]
        names = ["ts", "idcaller", "idreceiver", "duration", "timestamp"]
        source[stream] = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    script = (PLANS if planned else BILLING).read_text(encoding="utf-8")
    results = bridge.replay(source, script, language="cpl", database=target, timestamp="ts", end=3 * DAY)
    found = [tuple(row.values()) for row in results["dailybill"].to_pylist()]
    assert sorted(found) == sorted(bills(events, planned))


def test_the_graph_is_figure_5() -> None:
    with bridge.connect() as cep:
        cep.create_query("billing", BILLING.read_text(encoding="utf-8"), language="cpl")
        drawing = cep.graph("billing")
        assert drawing.edges == [  # type: ignore[union-attr]
            ("cdr1", "Union", "cdr1"),
            ("cdr2", "Union", "cdr2"),
            ("Union", "Filter", "unionout"),
            ("Filter", "Map", "costs.1"),
            ("Map", "Aggregate", "costs"),
            ("Aggregate", "dailybill", "dailybill"),
        ]
        assert '"Map" -> "Aggregate" [label="costs"]' in drawing.to_dot()
        assert drawing.to_svg().count('class="node"') == 7


def test_the_command_runs_and_explains_a_script(tmp_path: pathlib.Path) -> None:
    (tmp_path / "cdr1.csv").write_text("ts,idcaller,idreceiver,duration,timestamp\n1000,ann,bob,10,1\n")
    (tmp_path / "cdr2.csv").write_text(
        "ts,idcaller,idreceiver,duration,timestamp\n2000,ann,bob,20,2\n3000,bob,ann,9,3\n"
    )
    command = [sys.executable, "-m", "bridge", "run", str(BILLING), "--until", str(DAY)]
    files = [f"--events={name}={tmp_path}/{name}.csv" for name in ("cdr1", "cdr2")]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=True, cwd=EXAMPLES.parent)
    assert '{"query": "dailybill", "ts": 86400000, "idcaller": "ann", "bill": 320}' in done.stdout
    command = [sys.executable, "-m", "bridge", "explain", str(BILLING), "--graph", str(tmp_path / "billing.svg")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=EXAMPLES.parent)
    assert done.stdout.startswith("-- script\n--\n--   Union(cdr1, cdr2){unionout}\n")
    assert "Aggregate" in (tmp_path / "billing.svg").read_text()


def killed(kind: str, folder: pathlib.Path, runs: int) -> dict[str, int]:
    """What `killing` tells of so many runs on a database in a file; it fails where a bill is wrong after one of them."""
    url = f"{kind}:///{folder}/bills.db"
    told: dict[str, int] = figures_of("tests.support.killing", url, runs, 1, within=60 + 5 * runs)
    assert told["starting"] + told["waiting"] + told["pushing"] == runs
    return told


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_bills_are_right_however_often_it_is_killed(kind: str, tmp_path: pathlib.Path) -> None:
    assert killed(kind, tmp_path, runs=6)["events"] > 0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_bills_are_right_after_a_thousand_kills(kind: str, tmp_path: pathlib.Path) -> None:
    told = killed(kind, tmp_path, runs=1_000)
    assert told["pushing"] > 100 and told["events"] > 1_000
