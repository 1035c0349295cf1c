"""The case files `tests/cases/match_recognize/<fact>.yaml`: questions over tables, one fact a file.

title: the fact
source: where the idea is published              why: how the rows come about, where it is not obvious
tables: {r: {columns: {k: INTEGER}, rows: "1"}}  cells as in tests/cases_format.py
views: {v: SELECT ...}                           made after the tables
sql: SELECT ... MATCH_RECOGNIZE (...)
expect: |                                        in this order where the SQL ends with ORDER BY, else in any
  a  b
  1  2
error: a fragment of the message                 instead of expect; at: what stands at the error's position
not_yet: {database: reason}                      a strict expected failure
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.cases_format import ROOT, CaseError, Cell, Table, declared, made, read_table, same, value_of
from windows.schema import canonical_type

KEYS = {"title", "source", "why", "tables", "views", "sql", "expect", "error", "at", "not_yet"}


@dataclasses.dataclass(frozen=True)
class Input:
    """A table: its columns with their types, and its rows."""

    columns: Mapping[str, str]
    rows: tuple[tuple[Any, ...], ...]


@dataclasses.dataclass(frozen=True)
class Case:
    """One case file."""

    path: pathlib.Path
    title: str
    tables: Mapping[str, Input]
    views: Mapping[str, str]
    sql: str
    expect: Table | None
    error: str | None
    at: str | None
    not_yet: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.path.stem


def load_all() -> list[Case]:
    """Every case, by name."""
    return [load(path) for path in sorted((ROOT / "match_recognize").glob("*.yaml"))]


def load(path: pathlib.Path) -> Case:
    """The case of a file; `CaseError` names the file that does not read."""
    return made(path, _case)


def _case(path: pathlib.Path, found: Mapping[str, Any]) -> Case:
    if unknown := set(found) - KEYS:
        raise CaseError(f"unknown keys {sorted(unknown)}")
    if ("expect" in found) == ("error" in found):
        raise CaseError("a case has either `expect` or `error`")
    return Case(
        path=path,
        title=found["title"],
        tables={name: _input(table) for name, table in found["tables"].items()},
        views=found.get("views") or {},
        sql=found["sql"].strip(),
        expect=read_table(found["expect"]) if "expect" in found else None,
        error=found.get("error"),
        at=found.get("at"),
        not_yet=found.get("not_yet") or {},
    )


def _input(table: Mapping[str, Any]) -> Input:
    columns = table["columns"]
    header = " ".join(f'"{name}"' for name in columns)
    cells = read_table(f"{header}\n{table['rows']}").rows
    kinds = [canonical_type(kind) for kind in columns.values()]
    return Input(columns, tuple(tuple(map(value_of, row, kinds)) for row in cells))


def rows_of(table: Input) -> list[dict[str, Any]]:
    """The rows as the definition takes them."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def agree(case: Case, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    """Whether a result is what the case expects."""
    assert case.expect is not None
    if tuple(columns) != case.expect.columns or len(rows) != len(case.expect.rows):
        return False
    left = [tuple(row) for row in rows]
    for place, wanted in enumerate(case.expect.rows):
        within = range(1) if _is_ordered(case.sql) else range(len(rows) - place)
        found = next((at for at in within if all(map(_same, wanted, left[at]))), None)
        if found is None:
            return False
        del left[found]
    return True


def _same(cell: Cell, value: Any) -> bool:
    """As everywhere; but a database without dates gives their text."""
    dated = isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value) is not None
    return same(cell, value) or (dated and not cell.quoted and cell.text == value)


def _is_ordered(sql: str) -> bool:
    return re.search(r"\bORDER BY [^()]*\Z", sql) is not None


def statements(case: Case, database: Any) -> list[str]:
    """The SQL that makes the tables and the views."""
    made = []
    for name, table in case.tables.items():
        columns = ", ".join(f'"{column}" {declared(kind, database)}' for column, kind in table.columns.items())
        made.append(f"CREATE TABLE {name} ({columns})")
        made += [f"INSERT INTO {name} VALUES ({', '.join(map(_literal, row))})" for row in table.rows]
    return made + [f"CREATE VIEW {name} AS {sql}" for name, sql in case.views.items()]


def dropped(case: Case) -> list[str]:
    """The SQL that takes them away."""
    return [f"DROP VIEW {name}" for name in case.views] + [f"DROP TABLE {name}" for name in case.tables]


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return "NULL" if value is None else str(value).upper()
    return "'" + str(value).replace("'", "''") + "'"
