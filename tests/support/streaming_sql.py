"""Runs the cases of tests/conformance/streaming_sql.json: standard streaming SQL, events, and what is reported when."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.engine.session import session_of
from bridge.errors import OrderError
from bridge.frontends.sql.statements import statements
from bridge.frontends.statements import CreateQuery, CreateStream

if TYPE_CHECKING:
    from tests.support.databases import Database

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "conformance" / "streaming_sql.json").read_text(encoding="utf-8")
)["cases"]
"""Each case has a `name`, the `rule` that it shows, `streams`, `events`, `sql`, `columns` and the rows to `expect`."""

Row = list[Any]


class StreamingRun:
    """One case on one database; `together` pushes the events between two moments at once.

    `to_the_end`: after the events time passes until nothing is due, and not to the time of the case.
    """

    def __init__(self, database: Database, case: dict[str, Any], together: bool, to_the_end: bool = False) -> None:
        self.case, self.together, self.to_the_end = case, together, to_the_end
        self.rows: list[Row] = []
        self.cep = database.connect()
        self.waiting: list[tuple[str, dict[str, Any], int]] = []
        self.newest = -(2**60)
        self.is_finished = False

    def results(self) -> list[Row]:
        """The results in order, each with its time first."""
        with self.cep:
            self._create()
            for name, *rest in self.case["events"]:
                if name == "finish":
                    self._push()
                    self.is_finished = True
                    self.cep.finish()
                elif name == "time":
                    self._push()
                    self._pass(rest[0])
                else:
                    self._event(name, rest[1], rest[0])
        return self.rows

    def _pass(self, until: int) -> None:
        if not self.to_the_end:
            self.cep.advance_time(until)
            return
        while (due := self.cep.next_deadline()) is not None:
            self.cep.advance_time(due)

    def create(self) -> None:
        """Only creates the queries; raises the error of one that is refused."""
        with self.cep:
            self._create()

    def _create(self) -> None:
        dialect = session_of(self.cep).database.dialect
        for name, table in self.case.get("tables", {}).items():
            self._table(name, table)
        sql = self.case["sql"]
        created = statements(sql, dialect) if ";" in sql else [sql]
        declared = [one.name for one in created if isinstance(one, CreateStream)]
        for name, columns in self.case["streams"].items():
            if name not in declared:
                self.cep.register_stream(name, columns)
        last = "q"
        for one in created:
            if isinstance(one, CreateStream):
                self.cep.register_stream(one.name, one.schema)
            elif isinstance(one, CreateQuery):
                self.cep.create_query(one.name, one.node)
                last = one.name
            else:
                self.cep.create_query("q", one if isinstance(one, str) else one.node)
                last = "q"
        self.cep.add_output_processor(
            last, lambda event: self.rows.append([self._time(event.timestamp), *self._values(event.payload)])
        )

    def _time(self, timestamp: int) -> int | str:
        return "finish" if self.is_finished else timestamp

    def _values(self, payload: dict[str, Any]) -> Iterable[Any]:
        assert list(payload) == self.case["columns"]
        return payload.values()

    def _table(self, name: str, table: dict[str, Any]) -> None:
        columns = ", ".join(
            f"{column} {kind}{'(9)' * (kind == 'VARCHAR')}" for column, kind in table["columns"].items()
        )
        self.cep.database.execute(f"CREATE TABLE {name} ({columns})")
        for row in table["rows"]:
            self.cep.database.execute(f"INSERT INTO {name} VALUES ({', '.join(map(repr, row))})")

    def _event(self, stream: str, payload: dict[str, Any], ts: int) -> None:
        if ts < self.newest:  # late: refused, whatever the query
            assert self.case.get("late")
            self._push()
            try:
                self.cep.push_event(stream, payload, ts)
            except OrderError:
                return
            raise AssertionError(f"{ts} is late")
        self.newest = ts
        self.waiting.append((stream, payload, ts))
        if not self.together:
            self._push()

    def _push(self) -> None:
        if self.waiting:
            self.cep.push_all(self.waiting)
        self.waiting = []


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows in the order of their times, `finish` last; the order within one time is not compared. Doubles have nine digits."""
    rounded = [[round(value, 9) if isinstance(value, float) else value for value in row] for row in rows]
    return sorted(rounded, key=lambda row: (isinstance(row[0], str), row[0], repr([_plain(value) for value in row])))


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, (int, float)) or type(value).__name__ == "Decimal" else value
