"""Type by operator by window by database: continuous queries compare and compute as a plain SELECT of the database does."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from bridge.sources.relations import create_relation
from tests.support.databases import Database
from windows.arrow import arrow_type

INFINITE = [math.inf, -math.inf]


class Kind(NamedTuple):
    """The values of a type; arithmetic over `ends` may overflow. `has_sums`: whether values are added."""

    values: list[Any]
    ends: list[Any]
    has_sums: bool = True


def _day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


TYPES = {
    "BOOLEAN": Kind([True, False], [], has_sums=False),
    "SMALLINT": Kind([1, 3, 2], [-(2**15), 2**15 - 1]),
    "INTEGER": Kind([1, 3, 2], [-(2**31), 2**31 - 1]),
    "BIGINT": Kind([1, 3, 2], [-(2**63), 2**63 - 1, 2**63 - 2, 2**53 + 1]),
    "DOUBLE": Kind([1.5, 0.1, -2.0, 0.0], [math.nan, *INFINITE, -0.0, 1e308, 5e-324]),
    "DECIMAL(15, 3)": Kind([*map(decimal.Decimal, ("1.500", "2.250", "-3.000"))], [decimal.Decimal("999999999999.999")]),
    "VARCHAR": Kind(["a", "B", "A", "ä", "", "a ", "😀"], [], has_sums=False),
    "DATE": Kind([_day("2024-02-29"), _day("1969-12-31")], [_day("0001-01-01"), _day("9999-12-31")], has_sums=False),
    "TIMESTAMP": Kind(
        [_time("2024-02-29 12:00:00"), _time("1969-12-31 23:59:59.999999")], [_time("9999-12-31 23:59:59")], has_sums=False
    ),
}  # fmt: skip

COMPARISONS = {
    "=": "{b} = {a}", "<>": "{b} <> {a}", "<": "{b} < {a}", "<=": "{b} <= {a}", ">": "{b} > {a}", ">=": "{b} >= {a}",
    "IN": "{b} IN ({a}, {a})", "NOT IN": "{b} NOT IN ({a})", "BETWEEN": "{b} BETWEEN {a} AND {a}",
    "NULL": "{b} = {a} OR {a} IS NULL", "COALESCE": "COALESCE({a}, {b}) = {b}", "CASE": "CASE {b} WHEN {a} THEN 1 ELSE 0 END = 1",
}  # fmt: skip
ARITHMETIC = {"+": "({b} + {a})", "-": "({b} - {a})", "*": "({b} * {a})"}
AGGREGATES = {"MIN": "MIN({a})", "MAX": "MAX({a})", "COUNT": "COUNT({a})", "COUNT DISTINCT": "COUNT(DISTINCT {a})"}
SUMS = {"SUM": "SUM({a})", "AVG": "AVG({a} * 1e0)"}
WINDOWS = {
    "UNBOUNDED": "q.k <= p.k", "ROWS 3": "q.k > p.k - 3 AND q.k <= p.k", "RANGE 4 MS": "q.k > p.k - 4 AND q.k <= p.k",
}  # fmt: skip
"""Windows over events with k as their time, and which rows q are in them at row p."""


class Live:
    """Continuous queries over the pairs of a type's values, and a relation `pairs` of the same rows."""

    def __init__(self, cep: Any, declared: str, kind: Kind, ends: bool) -> None:
        self.cep, self.database, self.declared = cep, cep.database, declared
        values = [*kind.values, *(kind.ends if ends else []), None]
        refused = {"mariadb": {"nan", "inf", "-inf"}, "sqlite": {"nan"}}.get(cep.database.dialect, set())
        values = [value for value in values if str(value) not in refused]
        pairs = [(a, b) for a in values for b in values]
        columns = [pa.array(column, arrow_type(declared)) for column in zip(*pairs, strict=True)]
        self.rows = pa.table({"k": pa.array(range(1, len(pairs) + 1), pa.int64()), "a": columns[0], "b": columns[1]})
        create_relation(cep.database, "pairs", self.rows)
        cep.register_stream("s", {"k": "BIGINT", "a": declared, "b": declared})
        self.found: dict[str, list[tuple[Any, ...]]] = {}
        self.expected: dict[str, str] = {}

    def compare(self, name: str, query: str, select: str) -> None:
        """Creates a continuous query, whose results are to be those of a SELECT over `pairs`."""
        self.cep.create_query(name, query)
        found = self.found[name] = []
        self.cep.add_output_processor(name, lambda event: found.append(tuple(event.payload.values())))
        self.expected[name] = select

    def queries(self, kind: Kind, ends: bool, conditions: Sequence[str]) -> None:
        """A filter per condition, all comparisons and arithmetic as columns, and all aggregates of each window."""
        truths = ", ".join(
            f"CASE WHEN {text.format(a='a', b='b')} THEN 1 ELSE 0 END AS c{n}"
            for n, text in enumerate(COMPARISONS.values())
        )
        self.compare("truths", f"SELECT k, {truths} FROM s", f"SELECT k, {truths} FROM pairs ORDER BY k")
        for name in conditions:
            condition = COMPARISONS[name].format(a="a", b="b")
            place = list(COMPARISONS).index(name)
            self.compare(
                f"where{place}",
                f"SELECT k FROM s WHERE {condition}",
                f"SELECT k FROM pairs WHERE {condition} ORDER BY k",
            )
        if kind.has_sums and not ends:
            computed = ", ".join(f"{text.format(a='a', b='b')} AS c{n}" for n, text in enumerate(ARITHMETIC.values()))
            self.compare("computed", f"SELECT k, {computed} FROM s", f"SELECT k, {computed} FROM pairs ORDER BY k")
        counts = {name: text for name, text in AGGREGATES.items() if name.startswith("COUNT")}
        has_order = self.declared != "BOOLEAN" or self.database.dialect != "postgres"  # which has no MIN of booleans
        aggregates = (AGGREGATES if has_order else counts) | (SUMS if kind.has_sums and not ends else {})
        for place, (window, within) in enumerate(WINDOWS.items()):
            live = ", ".join(f"{text.format(a='a')} AS c{n}" for n, text in enumerate(aggregates.values()))
            plain = ", ".join(
                f"(SELECT {text.format(a='q.a')} FROM pairs AS q WHERE {within}) AS c{n}"
                for n, text in enumerate(aggregates.values())
            )
            self.compare(
                f"window{place}",
                f"SELECT {live} FROM s WINDOW({window})",
                f"SELECT {plain} FROM pairs AS p ORDER BY p.k",
            )
        of_key = "(SELECT COUNT(*) FROM pairs AS q WHERE q.k <= p.k AND (q.a = p.a OR (q.a IS NULL AND p.a IS NULL)))"
        grouped = "SELECT a, COUNT(*) AS n FROM s WINDOW(UNBOUNDED) GROUP BY a"
        self.compare("keys", grouped, f"SELECT p.a, {of_key} AS n FROM pairs AS p ORDER BY p.k")
        joined = "SELECT s.k AS k, r.k AS l FROM s, pairs AS r WHERE s.a = r.b"
        self.compare("joined", joined, "SELECT s.k, r.k FROM pairs AS s, pairs AS r WHERE s.a = r.b ORDER BY s.k, r.k")

    def push(self, size: int | None) -> None:
        """The events in batches of a size; None: as one Arrow table."""
        events = self.rows.append_column("ts", self.rows.column("k"))
        if size is None:
            self.cep.push_events("s", events)
            return
        rows = self.rows.to_pylist()
        for start in range(0, len(rows), size):
            self.cep.push_events("s", [(row, row["k"]) for row in rows[start : start + size]])

    def differences(self) -> Iterator[str]:
        for name, select in self.expected.items():
            wanted = [tuple(row) for row in self.database.fetch(select)]
            found = sorted(self.found[name]) if name == "joined" else self.found[name]
            if len(wanted) != len(found):
                yield f"{name}: {len(found)} rows of {len(wanted)}"
                continue
            wrong = [n for n, rows in enumerate(zip(wanted, found, strict=True)) if not all(map(alike, *rows))]
            if wrong:
                yield f"{name}: {len(wrong)} of {len(wanted)}, row {wrong[0]}: {wanted[wrong[0]]!r} and not {found[wrong[0]]!r}"


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same, whatever the driver makes of them."""
    if one is None or other is None:
        return one is other
    if isinstance(other, float):
        one = float(one)
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-14)
    if isinstance(other, (int, decimal.Decimal)):
        return bool(decimal.Decimal(str(int(one) if isinstance(one, bool) else one)) == other)
    if isinstance(other, datetime.date) and isinstance(one, str):
        one = type(other).fromisoformat(one)
    return bool(one == other)


def check(database: Database, declared: str, sizes: Sequence[int | None], conditions: Sequence[str]) -> None:
    wrong = []
    kind = TYPES[declared]
    for ends in (True, False) if kind.ends else (False,):
        for size in sizes:
            with database.connect() as cep:
                live = Live(cep, declared, kind, ends)
                live.queries(kind, ends, conditions)
                live.push(size)
                wrong += [f"{'with ends, ' * ends}{size} at once: {text}" for text in live.differences()]
                cep.database.execute("DROP TABLE pairs")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("declared", ["BIGINT", "DOUBLE", "VARCHAR", "TIMESTAMP"])
def test_streams_of_a_type_compute_as_the_database(embedded: Database, declared: str) -> None:
    check(embedded, declared, [None], ["="])


@pytest.mark.long
@pytest.mark.parametrize("declared", TYPES)
def test_streams_of_each_type_compute_as_the_database_however_they_are_pushed(
    database: Database, declared: str
) -> None:
    check(database, declared, [1, 7, 1000, None], list(COMPARISONS))
