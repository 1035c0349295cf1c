"""Runs the cases of tests/conformance: EPL statements, events, and what they gave in Esper 9."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.databases import Database

HERE = Path(__file__).parents[1] / "conformance"


def cases(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The schemas and the cases of a file; what our decisions say instead is in `decisions.json`."""
    content = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    decided = json.loads((HERE / "decisions.json").read_text(encoding="utf-8"))
    for case in content["cases"]:
        for place, step in decided.get(case["name"], {}).items():
            case["steps"][int(place)] = step
    return content["schemas"], content["cases"]


class Run:
    """One case on one database; `together` pushes the events between two moments at once."""

    def __init__(self, database: Database, schemas: dict[str, Any], case: dict[str, Any], together: bool) -> None:
        self.case, self.together = case, together
        self.cep = database.connect()
        for stream, columns in schemas.items():
            listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            self.cep.create_query(f"schema_{stream}", f"create schema {stream} ({listed})", language="epl")
        for place, text in enumerate(case["setup"]):
            self.cep.create_query(f"setup{place}", text, language="epl")
        self.cep.create_query("q", case["epl"], language="epl")
        self.found: list[dict[str, Any]] = []
        self.cep.add_output_processor("q", lambda event: self.found.append(event.payload))
        self.now = case["start_time_ms"]
        self.waiting: list[tuple[str, dict[str, Any], int]] = []

    def check(self) -> None:
        """Every step gives what it should; pushed together, the results of all are what they should be."""
        with self.cep:
            expected = [list(self._step(step)) for step in self.case["steps"]]
            self._push()
            if self.together:
                wanted = [row for rows in expected for row in rows]
                names = wanted[0] if wanted else {}
                assert [{name: row[name] for name in names or row} for row in self.found] == wanted

    def _step(self, step: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "send" in step:
            self.waiting.append((step["send"]["type"], _whole(step["send"]["fields"]), self.now))
            if not self.together:
                self._push()
        elif "advance_time_ms" in step:
            self._push()
            self.now = step["advance_time_ms"]
            self.cep.advance_time(self.now)
        elif "expect_iterator" in step:
            self._push()
            rows = [dict(row._mapping) for row in self.cep.query("SELECT * FROM q")]
            assert [[row[name] for name in step["columns"]] for row in rows] == step["expect_iterator"]
        else:
            yield from self._expected(step)

    def _expected(self, step: dict[str, Any]) -> Iterator[dict[str, Any]]:
        columns = [name.replace(".", "_") for name in step.get("columns", ())]
        rows = [dict(zip(columns, map(_whole, row), strict=True)) for row in step.get("expect_new", ())]
        if not self.together:
            assert [{name: row[name] for name in columns or row} for row in self.found] == rows, step
            self.found.clear()
        yield from rows

    def _push(self) -> None:
        if self.waiting:
            self.cep.push_all(self.waiting)
        self.waiting = []


def _whole(value: Any) -> Any:
    """An event with all its attributes; events in a list likewise."""
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return {"id": None, "v": None, "k": None} | value if isinstance(value, dict) else value
