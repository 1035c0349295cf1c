"""Expressions of a database, computed by its own SELECT and in each place where a query of the bridge may have them."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import bridge
from windows.databases import Database, Refused

COLUMNS = "i BIGINT, k BIGINT, x DOUBLE, s VARCHAR, u VARCHAR, t TIMESTAMP, d DATE, b BOOLEAN, j VARCHAR"
LISTS = ", l BIGINT[], m VARCHAR[]"
_TEXT, _DATETIME = {"mariadb": "LONGTEXT"}, {"mariadb": "DATETIME(6)", "sqlite": "TEXT"}
_CHUNK = 16

ROWS = (
    (
        1,
        12,
        2.5,
        "abcabc",
        "b",
        "2024-02-29 10:20:30",
        "2024-02-29",
        True,
        '{"a": 9, "b": [1, 2]}',
        [7, 8, 9],
        ["p", "q"],
    ),
    (2, -3, -0.75, "X-y z", "X", "2023-12-31 23:59:59", "2023-12-31", False, '{"a": 10}', [7, 8, 1, 5], ["p", "q"]),
    (3, *[None] * 10),
)

Differences = dict[str, dict[str, str]]
"""By expression and place (measures, first, define, stream): what is refused, or both values."""


class Forms:
    """The comparison on one database; `cep` is a bridge on an empty one."""

    def __init__(self, cep: bridge.Bridge) -> None:
        self.cep, self.database = cep, cep.database
        self.names = itertools.count(1)
        width = None if self.database.dialect == "duckdb" else 9
        self.rows = [row[:width] for row in ROWS]
        self.schema = COLUMNS + (LISTS if width is None else "")
        self.database.execute(f"CREATE TABLE ev ({_column_types(self.database, self.schema)})")
        for row in self.rows:
            self.database.execute(f"INSERT INTO ev VALUES ({', '.join(map(_literal, row))})")
        cep.register_stream("es", self.schema)

    def differences(self, expressions: Sequence[str]) -> Differences:
        found: Differences = {}
        places = {"measures": self._measures, "first": self._first, "define": self._define, "stream": self._stream}
        wanted = {expression: self._plain(expression) for expression in expressions}
        for place, compute in places.items():
            for expression, text in self._compared(expressions, wanted, place, compute):
                found.setdefault(expression, {})[place] = text
        return found

    def _compared(
        self, expressions: Sequence[str], wanted: dict[str, list[Any]], place: str, compute: Callable[..., Any]
    ) -> Iterator[tuple[str, str]]:
        """The differences in one place: of several expressions at once, one by one where these are refused."""
        if place == "first":
            expressions = [each for each in expressions if _has_column(each)]
        for start in range(0, len(expressions), _CHUNK):
            chunk = expressions[start : start + _CHUNK]
            answers = self._answers(chunk, compute)
            for expression in chunk:
                answer = answers[expression] if answers is not None else self._alone(expression, compute)
                if isinstance(answer, Exception) and "names no row" in str(answer):
                    continue  # FIRST of a constant
                if isinstance(answer, Exception):
                    yield expression, f"refused: {type(answer).__name__}: {str(answer).splitlines()[0]}"
                elif not _same(answer, wanted[expression] if place != "define" else [True] * len(self.rows)):
                    yield expression, f"{answer} for {wanted[expression]}"

    def _answers(self, chunk: Sequence[str], compute: Callable[..., Any]) -> dict[str, Any] | None:
        try:
            return dict(zip(chunk, compute(chunk), strict=True))
        except Exception:
            return None

    def _alone(self, expression: str, compute: Callable[..., Any]) -> Any:
        try:
            return compute([expression])[0]
        except Exception as error:
            return error

    def _plain(self, expression: str) -> list[Any]:
        return [value for (value,) in self.database.fetch(f"SELECT {expression} AS v FROM ev ORDER BY i")]

    def _measures(self, chunk: Sequence[str], shape: str = "{}") -> list[list[Any]]:
        measures = ", ".join(f"{shape.format(each)} AS v{place}" for place, each in enumerate(chunk))
        rows = list(self.cep.query(f"SELECT * FROM ev MATCH_RECOGNIZE (ORDER BY i MEASURES {measures} PATTERN (A))"))
        return [list(column) for column in zip(*rows, strict=True)]

    def _first(self, chunk: Sequence[str]) -> list[list[Any]]:
        return self._measures(chunk, "FIRST({})")

    def _define(self, chunk: Sequence[str]) -> list[list[Any]]:
        """For each row, whether the expression is what a column has that the database computed."""
        name = f"ev{next(self.names)}"
        columns = ", ".join(f"{each} AS v{place}" for place, each in enumerate(chunk))
        try:
            self.database.execute(f"CREATE TEMPORARY TABLE {name} AS SELECT ev.*, {columns} FROM ev")
        except Refused:
            return [[True] * len(self.rows)] * len(chunk)  # a value of no type for a column
        equal = [f"({e}) IS NOT DISTINCT FROM v{place}" for place, e in enumerate(chunk)]
        if len(chunk) > 1 and len(self._matched(name, " AND ".join(equal))) == len(self.rows):
            return [[True] * len(self.rows)] * len(chunk)
        found = []
        for place in range(len(chunk)):
            if not self._has_equality(name, f"v{place}"):
                found.append([True] * len(self.rows))
                continue
            matched = self._matched(name, equal[place])
            found.append([row[0] in matched for row in self.rows])
        return found

    def _matched(self, table: str, condition: str) -> set[Any]:
        clause = f"ORDER BY i MEASURES A.i AS i PATTERN (A) DEFINE A AS {condition}"
        return {row[0] for row in self.cep.query(f"SELECT * FROM {table} MATCH_RECOGNIZE ({clause})")}

    def _has_equality(self, table: str, column: str) -> bool:
        """Whether the database compares values of this type: PostgreSQL's json has no equality."""
        try:
            self.database.fetch(f"SELECT 1 FROM {table} WHERE {column} = {column}")
        except Refused:
            return False
        return True

    def _stream(self, chunk: Sequence[str]) -> list[list[Any]]:
        name = f"cq{next(self.names)}"
        columns = ", ".join(f"{each} AS v{place}" for place, each in enumerate(chunk))
        self.cep.create_query(name, f"SELECT {columns} FROM es")
        payloads: list[Any] = []
        self.cep.add_output_processor(name, lambda event: payloads.append(list(event.payload.values())))
        try:
            start = next(self.names) * 1000
            self.cep.push_events("es", [(list(map(_value, row, self._kinds())), start) for row in self.rows])
        finally:
            self.cep.remove_query(name)
        return [list(column) for column in zip(*payloads, strict=True)]

    def _kinds(self) -> list[str]:
        return [column.split()[1] for column in self.schema.split(", ")]


def _has_column(expression: str) -> bool:
    return re.search(r"(?<![\w'])[ikxsutdbjlm](?![\w'(])", re.sub(r"\w?'[^']*'", "", expression)) is not None


def _column_types(database: Database, schema: str) -> str:
    texts = {"mariadb": ("LONGTEXT", "DATETIME(6)"), "sqlite": ("TEXT", "TEXT")}.get(
        database.dialect, ("TEXT", "TIMESTAMP")
    )
    types = schema.replace("VARCHAR[]", "varchar[]").replace("VARCHAR", texts[0]).replace("TIMESTAMP", texts[1])
    return types.replace("DOUBLE", "DOUBLE PRECISION")


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    return str(value) if isinstance(value, (int, float, list)) else f"'{value}'"


def _value(value: Any, kind: str) -> Any:
    if value is None or kind not in ("TIMESTAMP", "DATE"):
        return value
    return (datetime.datetime if kind == "TIMESTAMP" else datetime.date).fromisoformat(value)


def _same(some: Any, other: Any) -> bool:
    some, other = _normal(some), _normal(other)
    if isinstance(some, list) and isinstance(other, list):
        return len(some) == len(other) and all(map(_same, some, other))
    if isinstance(some, dict) and isinstance(other, dict):
        return some.keys() == other.keys() and all(_same(some[key], other[key]) for key in some)
    if isinstance(some, float) or isinstance(other, float):
        numbers = [float(each) for each in (some, other) if isinstance(each, (int, float))]
        return len(numbers) == 2 and (math.isclose(*numbers, rel_tol=1e-9) or all(map(math.isnan, numbers)))
    return bool(some == other)


def _normal(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return str(value).removesuffix(" 00:00:00")
    if type(value).__name__ == "MonthDayNano":
        months, days, nanoseconds = value
        return datetime.timedelta(days=30 * months + days, microseconds=nanoseconds / 1000)
    if isinstance(value, dict) and all(re.fullmatch(r"element\d+", key) for key in value):
        return list(value.values())
    if isinstance(value, (tuple, list)):
        return list(value)
    return value
