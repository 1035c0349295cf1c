"""The running example of EPL's report (1.1): cameras and thermometers, whose events inherit schemas of one another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bridge
from tests.support.databases import DATABASES, one_of

database = one_of(DATABASES)
EXAMPLE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "conformance" / "epl_report.json").read_text("utf-8"))
STATEMENTS: dict[str, str] = {f"q{place}": one["statement"] for place, one in enumerate(EXAMPLE["statements"])}
ROWS = {f"q{place}": [tuple(row) for row in one["rows"]] for place, one in enumerate(EXAMPLE["statements"])}
EVENTS = [(stream, payload, ts) for stream, ts, *payload in EXAMPLE["events"]]


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("size", [1, 3, len(EVENTS)])
def test_pushed_events_give_what_esper_gave(database: Any, size: int) -> None:
    found: dict[str, list[Any]] = {name: [] for name in STATEMENTS}
    with database.connect() as cep:
        for place, text in enumerate(EXAMPLE["schemas"]):
            cep.create_query(f"schema{place}", text, language="epl")
        for name, text in STATEMENTS.items():
            cep.create_query(name, text, language="epl")
            cep.add_output_processor(
                name, lambda event, name=name: found[name].append((event.timestamp, *event.payload.values()))
            )
        for start in range(0, len(EVENTS), size):
            cep.push_all(EVENTS[start : start + size])
        cep.advance_time(EXAMPLE["end"])
    assert found == ROWS


def test_a_replay_gives_what_esper_gave() -> None:
    script = ";\n".join([*EXAMPLE["schemas"], *(f"@name('{name}') {text}" for name, text in STATEMENTS.items())])
    found = bridge.replay(EVENTS, script, language="epl", end=EXAMPLE["end"])
    assert {name: [tuple(row.values()) for row in found[name].to_pylist()] for name in STATEMENTS} == ROWS
