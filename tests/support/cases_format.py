"""The case files `tests/cases/<topic>/<fact>.yaml`: how one is read, compared and shown.

    title: the fact
    source: where it is written                      why: how the rows come about, where it is not obvious
    streams: {s: {a: INTEGER}}                       registered before the queries
    inline: {t: {b: VARCHAR}}                        registered by the query text itself; here to type the events
    tables: {r: {columns: {k: INTEGER}, rows: [[1]]}}   relations of the database
    query: {sql: SELECT ...}                         or queries: {name: {sql: ...}, ...}, which read each other by name
                                                     {epl: ...} in that language; {cpl: ...} is a script; `expect` then
                                                     has tables by its outputs
    stores: {crm: {table: {columns: ..., rows: ...}}}   data stores, each with its tables
    leaves: {table: ...}                             what tables hold at the end, in any order; crm.table: of a store
    events: |                                        several streams: a first column `stream`; `-`: not in this stream
      ts a
      1  5
      advance 2000
    expect: |                                        several queries: a mapping of names to tables
      ts "a + 1"
      1  6
    error: a fragment of the message (in any case)   instead of expect; at: what stands at the error's position
    not_yet: {database: reason}                      a strict expected failure
    plan: true                                       explain() is compared with tests/plans

Cells are divided by blanks. NULL is NULL, 'a text' is quoted as in SQL, and so is a text that looks like another type;
in the header, "a name" is quoted as in SQL. A float is written with its point: `5` is an integer, `5.0` is not.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import itertools
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import yaml
from sqlglot import exp

from windows.schema import canonical_type

ROOT = pathlib.Path(__file__).parents[1] / "cases"
KEYS = {
    "title", "source", "why", "stores", "streams", "inline", "tables", "query", "queries", "events", "expect", "error", "at",
    "not_yet", "plan", "leaves",
}  # fmt: skip
THE_QUERY = "result"
"""The name of the query of a case that has only one."""

Schemas = Mapping[str, Mapping[str, str]]

T = TypeVar("T")


class CaseError(Exception):
    """A case file that does not read."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One value as it is written."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        return "'" + self.text.replace("'", "''") + "'" if self.quoted else self.text


@dataclasses.dataclass(frozen=True)
class Table:
    """A text table: its header and the cells below."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclasses.dataclass(frozen=True)
class Push:
    """One line of `events`."""

    stream: str
    payload: Mapping[str, Any]
    timestamp: int


@dataclasses.dataclass(frozen=True)
class Advance:
    """A line `advance 2000`."""

    timestamp: int


@dataclasses.dataclass(frozen=True)
class Case:
    """One case file."""

    path: pathlib.Path
    title: str
    streams: Schemas
    tables: Mapping[str, Mapping[str, Any]]
    stores: Mapping[str, Mapping[str, Any]]
    queries: Mapping[str, str]
    languages: Mapping[str, str]
    leaves: Mapping[str, Table]
    events: tuple[Push | Advance, ...]
    written: str
    expect: Mapping[str, Table]
    error: str | None
    at: str | None
    not_yet: Mapping[str, str]
    plan: bool

    @property
    def id(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"


# Reading --------------------------------------------------------------------------------------------------------------


@functools.cache
def load_all() -> tuple[Case, ...]:
    """Every case, by topic and name; those of MATCH_RECOGNIZE over tables have a format of their own."""
    paths = (path for path in ROOT.rglob("*.yaml") if path.parent.name != "match_recognize")
    return tuple(load(path) for path in sorted(paths))


def load(path: pathlib.Path) -> Case:
    """The case of a file."""
    return made(path, _case)


def made(path: pathlib.Path, make: Callable[[pathlib.Path, Mapping[str, Any]], T]) -> T:
    """What is made of a file's YAML; `CaseError` names the file that does not read."""
    try:
        return make(path, yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader))
    except (CaseError, yaml.YAMLError, KeyError, ValueError, TypeError) as error:
        raise CaseError(f"{path}: {error or type(error).__name__}") from error


def _case(path: pathlib.Path, found: Mapping[str, Any]) -> Case:
    if unknown := set(found) - KEYS:
        raise CaseError(f"unknown keys {sorted(unknown)}")
    written_in = _queries(found)
    queries = {name: text for name, (_, text) in written_in.items()}
    streams: Schemas = found.get("streams") or {}
    written = found.get("events") or ""
    return Case(
        path=path,
        title=found["title"],
        streams=streams,
        tables=found.get("tables") or {},
        stores=found.get("stores") or {},
        queries=queries,
        languages={name: language for name, (language, _) in written_in.items()},
        leaves={name: read_table(text) for name, text in (found.get("leaves") or {}).items()},
        events=tuple(read_events(written, {**streams, **found.get("inline", {})})),
        written=written,
        expect=_expect(found, queries),
        error=found.get("error"),
        at=found.get("at"),
        not_yet=found.get("not_yet") or {},
        plan=found.get("plan", False),
    )


def _queries(found: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The language and the text of each query."""
    if ("query" in found) == ("queries" in found):
        raise CaseError("a case has either `query` or `queries`")
    several = found["queries"] if "queries" in found else {THE_QUERY: found["query"]}
    if any(len(query) != 1 or not query.keys() <= {"sql", "epl", "cpl"} for query in several.values()):
        raise CaseError(
            "a query is {sql: ...}, {epl: ...} or {cpl: ...}; with a comma or a colon in it the text wants quotes or a block"
        )
    return {name: (language, text.strip()) for name, query in several.items() for language, text in query.items()}


def _expect(found: Mapping[str, Any], queries: Mapping[str, str]) -> dict[str, Table]:
    if ("expect" in found or "leaves" in found) == ("error" in found):
        raise CaseError("a case has either `expect` or `error`")
    expect = found.get("expect", {})
    several = {THE_QUERY: expect} if isinstance(expect, str) else expect
    queried = found["queries"].values() if "queries" in found else [found["query"]]
    scripts = any("cpl" in query for query in queried)
    if not scripts and not several.keys() <= queries.keys():
        raise CaseError(f"results of no query: {sorted(several.keys() - queries.keys())}")
    tables = {name: read_table(text) for name, text in several.items()}
    if any(table.columns[0] != "ts" for table in tables.values()):
        raise CaseError("the first expected column is `ts`")
    return tables


def read_table(text: str) -> Table:
    """A text table: a header, then rows of as many cells.

    >>> table = read_table('ts "a + 1"\\n1 NULL\\n2 \\'NULL\\'')
    >>> table.columns, [[str(cell) for cell in row] for row in table.rows]
    (('ts', 'a + 1'), [['1', 'NULL'], ['2', "'NULL'"]])
    """
    header, *lines = [line for line in text.splitlines() if line.strip()]
    columns = tuple(cell.text for cell in _cells(header, '"'))
    rows = tuple(tuple(_cells(line, "'")) for line in lines)
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(columns) and not _is_advance(row):
            raise CaseError(f"{len(columns)} cells are wanted: {line!r}")
    return Table(columns, rows)


def _cells(line: str, quote: str) -> Iterable[Cell]:
    """The cells of a line; only `quote` quotes."""
    for match in re.finditer(rf"{quote}((?:[^{quote}]|{quote}{quote})*){quote}(?!\S)|(\S+)", line):
        quoted = match[2] is None
        yield Cell(match[1].replace(quote * 2, quote) if quoted else match[2], quoted)


def read_events(text: str, schemas: Schemas) -> list[Push | Advance]:
    """The events of a text table, typed by their stream's schema.

    >>> read_events("ts a\\n1 5\\nadvance 7", {"s": {"a": "INTEGER"}})
    [Push(stream='s', payload={'a': 5}, timestamp=1), Advance(timestamp=7)]
    """
    if not text.strip():
        return []
    table = read_table(text)
    return [Advance(int(row[1].text)) if _is_advance(row) else _push(table.columns, row, schemas) for row in table.rows]


def _is_advance(row: Sequence[Cell]) -> bool:
    return len(row) == 2 and row[0] == Cell("advance")


def _push(columns: Sequence[str], row: Sequence[Cell], schemas: Schemas) -> Push:
    if columns[0] == "stream":
        stream, columns, row = row[0].text, columns[1:], row[1:]
    else:
        (stream,) = schemas
    if columns[0] != "ts":
        raise CaseError("events have the columns [stream,] ts, attributes")
    return Push(stream, _payload(schemas[stream], columns[1:], row[1:]), int(row[0].text))


def _payload(schema: Mapping[str, str], columns: Sequence[str], cells: Sequence[Cell]) -> dict[str, Any]:
    for column, cell in zip(columns, cells, strict=True):
        if (column in schema) == (cell == Cell("-")):
            raise CaseError(f"{column!r} is {cell}: `-` is written where the stream has no such column, and only there")
    return {
        column: value_of(cell, canonical_type(schema[column]))
        for column, cell in zip(columns, cells, strict=True)
        if column in schema
    }


_VALUES: dict[str, Callable[[str], Any]] = {
    "BOOLEAN": {"true": True, "false": False}.__getitem__,
    "SMALLINT": int,
    "INTEGER": int,
    "BIGINT": int,
    "DOUBLE": float,
    "DECIMAL": decimal.Decimal,
    "DATE": datetime.date.fromisoformat,
    "TIMESTAMP": datetime.datetime.fromisoformat,
    "VARCHAR": str,
}


def value_of(cell: Cell, kind: str) -> Any:
    """The Python value of a cell; a text that is none of its type stays a text, for the cases about that.

    >>> value_of(Cell("2.50"), "DECIMAL(10, 2)"), value_of(Cell("NULL"), "INTEGER"), value_of(Cell("x"), "INTEGER")
    (Decimal('2.50'), None, 'x')
    """
    if cell.quoted or cell.text == "NULL":
        return cell.text if cell.quoted else None
    try:
        return _VALUES[kind.partition("(")[0]](cell.text)
    except (ValueError, KeyError, ArithmeticError):
        return cell.text


def declared(kind: str, database: Any) -> str:
    """A type as a table's column has it in a database's SQL; DuckDB and SQLite take it as it is written."""
    return kind if database.dialect in ("duckdb", "sqlite") else exp.DataType.build(kind).sql(database.dialect)


# Comparing ------------------------------------------------------------------------------------------------------------


def agree(expected: Table, actual: Sequence[Any]) -> bool:
    """Whether the events `actual` are the rows of the table: same names, same order, same values."""
    return len(expected.rows) == len(actual) and all(
        ("ts", *event.payload) == expected.columns and all(map(same, row, (event.timestamp, *event.payload.values())))
        for row, event in zip(expected.rows, actual, strict=True)
    )


def same(cell: Cell, value: Any) -> bool:
    """Whether a value is what the cell says.

    >>> same(Cell("2.50"), 2.5), same(Cell("5"), 5.0), same(Cell("5"), "5"), same(Cell("5", quoted=True), "5")
    (True, False, False, True)
    """
    if isinstance(value, str):
        return cell.text == value and (cell.quoted or not _looks_typed(value))
    if isinstance(value, float) and not cell.quoted and re.search(r"[.ein]", cell.text):
        return _is_float(cell.text) and math.isclose(float(cell.text), value, rel_tol=1e-9)
    return not cell.quoted and cell.text == printed(value) and not isinstance(value, float)


def printed(value: Any) -> str:
    """How a value is written in a table.

    >>> [printed(value) for value in (None, True, 5, 2.5, "x y", "5", "x", datetime.date(2024, 2, 29))]
    ['NULL', 'true', '5', '2.5', "'x y'", "'5'", 'x', '2024-02-29']
    """
    if isinstance(value, str):
        return str(Cell(value, quoted=_looks_typed(value) or not re.fullmatch(r"[^\s']+", value)))
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _looks_typed(text: str) -> bool:
    return text in ("NULL", "true", "false", "") or _is_float(text) or re.match(r"\d{4}-\d\d-\d\d", text) is not None


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Showing --------------------------------------------------------------------------------------------------------------


def report(case: Case, name: str, actual: Sequence[Any]) -> str:
    """What is to be seen when `actual` is not what the case expects of the query `name`."""
    expected = case.expect[name]
    left = _grid([expected.columns, *([str(cell) for cell in row] for row in expected.rows)])
    return "\n".join(
        [
            f"{case.id}: {case.title}",
            *(f"\n{query}:\n{_indented(text)}" for query, text in case.queries.items()),
            f"\nevents:\n{_indented(case.written)}",
            f"\nresults of {name}:",
            *_side_by_side(["expected", *left], ["actual", *_actual_grid(actual)]),
        ]
    )


def _actual_grid(actual: Sequence[Any]) -> list[str]:
    """The events as a table, with a header wherever the names change."""
    lines: list[Sequence[str]] = []
    for names, events in itertools.groupby(actual, key=lambda event: tuple(event.payload)):
        lines.append(("ts", *names))
        lines += [[printed(value) for value in (event.timestamp, *event.payload.values())] for event in events]
    return _grid(lines) if lines else ["(no rows)"]


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in itertools.zip_longest(*rows, fillvalue="")]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _side_by_side(left: Sequence[str], right: Sequence[str]) -> list[str]:
    width = max(map(len, left))
    pairs = itertools.zip_longest(left, right, fillvalue="")
    return [f"  {mine.ljust(width)}  |  {theirs}".rstrip() for mine, theirs in pairs]


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.strip().splitlines())
