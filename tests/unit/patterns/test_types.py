"""Type by operator by strategy by database: MATCH_RECOGNIZE compares and computes as a plain SELECT of the database does."""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import bridge
from bridge.patterns import output, planner
from bridge.patterns.task import Task
from tests.support.databases import DATABASES, present
from tests.support.type_matrix import REFUSALS, TYPES, Kind
from windows.databases import Refused

SAME = {"sqlite": "{b} IS {a}", "mariadb": "{b} <=> {a}"}
COMPARISONS = {
    "=": "{b} = {a}", "<>": "{b} <> {a}", "<": "{b} < {a}", "<=": "{b} <= {a}", ">": "{b} > {a}", ">=": "{b} >= {a}",
    "IN": "{b} IN ({a}, {a})", "NOT IN": "{b} NOT IN ({a})", "BETWEEN": "{b} BETWEEN {a} AND {a}",
    "NOT NULL": "{b} = {a} OR {a} IS NULL",
    "COALESCE": "COALESCE({a}, {b}) = {b}", "CASE": "CASE {b} WHEN {a} THEN 1 ELSE 0 END = 1",
}  # fmt: skip
ARITHMETIC = {"+": "({b} + {a})", "-": "({b} - {a})", "*": "({b} * {a})", "||": "({b} || {a})"}
AGGREGATES = {
    "MIN": "MIN({x})", "MAX": "MAX({x})", "COUNT": "COUNT({x})", "COUNT DISTINCT": "COUNT(DISTINCT {x})",
    "SUM": "SUM({x})", "AVG": "AVG({x})",
}  # fmt: skip
SHAPES = {
    "a row at a known distance": ("A ({tried})", "A.x", ""),
    "the row before": ("A ({tried})", "PREV(x)", ""),
    "a row at no known distance": ("Z? A ({tried})", "A.x", "Z AS o < 0, "),
    "an aggregate": ("A ({tried})", "MAX(A.x)", ""),
}
"""The pattern, how the first row of a pair is named in DEFINE, and other conditions."""


NEAREST = "a row at a known distance"
"""The shape in which conditions are tried that the database computes start by start."""

MOST = 40
"""Expressions in one statement."""


class Matrix:
    """The pairs of a type's values in a table `pairs`: partition p is two rows of values, `ends` if one is at an end."""

    def __init__(self, cep: Any, kind: Kind) -> None:
        self.cep, self.database = cep, cep.database
        self.comparisons = COMPARISONS | {"IS": SAME.get(self.name_of(self.database), "{b} IS NOT DISTINCT FROM {a}")}
        self._fill(kind)

    @staticmethod
    def name_of(database: Any) -> str:
        """The name of a database in `TYPES`."""
        return {"postgres": "postgresql"}.get(database.dialect, database.dialect)

    def _fill(self, kind: Kind) -> None:
        execute = self.database.execute
        for name in ("kinds", "pairs"):
            execute(f"DROP TABLE IF EXISTS {name}")
        execute(f"CREATE TABLE kinds (n INTEGER, ends INTEGER, x {kind.declared})")
        rows = ", ".join(f"({n}, {int(value in kind.ends)}, {value})" for n, value in enumerate(kind.all))
        execute(f"INSERT INTO kinds VALUES {rows}")
        execute(f"CREATE TABLE pairs (p INTEGER, k INTEGER, ends INTEGER, o INTEGER, x {kind.declared})")
        for o, row in enumerate("ab"):
            execute(f"INSERT INTO pairs SELECT a.n * 100 + b.n, 0, a.ends + b.ends, {o}, {row}.x FROM kinds a, kinds b")
        execute("CREATE TABLE IF NOT EXISTS copies (i INTEGER)")
        execute("DELETE FROM copies")
        execute(f"INSERT INTO copies VALUES {', '.join(f'({n})' for n in range(1, MOST + 1))}")
        execute("INSERT INTO pairs SELECT p, i, ends, o, x FROM pairs, copies")

    # Expressions that the database has for the type

    def known(self, expressions: Mapping[str, str], ends: bool) -> dict[str, str]:
        """Those that the database itself computes."""
        return {name: text for name, text in expressions.items() if self.answer({name: text}, ends) is not None}

    def answer(self, expressions: Mapping[str, str], ends: bool) -> dict[int, tuple[Any, ...]] | None:
        """The database's own values of each pair; None where it refuses."""
        listed = ", ".join(f"({text.format(a='a.x', b='b.x')}) AS c{n}" for n, text in enumerate(expressions.values()))
        where = "" if ends else " AND a.ends = 0"
        rows = "pairs a JOIN pairs b ON a.p = b.p WHERE a.k = 0 AND b.k = 0 AND a.o = 0 AND b.o = 1"
        sql = f"SELECT a.p, {listed} FROM {rows}{where}"
        try:
            return {row[0]: tuple(row[1:]) for row in self.database.fetch(sql)}
        except Refused:
            return None

    def grouped(self, expressions: Mapping[str, str], ends: bool) -> dict[int, tuple[Any, ...]] | None:
        listed = ", ".join(f"{text.format(x='x')} AS c{n}" for n, text in enumerate(expressions.values()))
        where = "" if ends else " AND ends = 0"
        try:
            rows = self.database.fetch(f"SELECT p, {listed} FROM pairs WHERE k = 0{where} GROUP BY p")
            return {row[0]: tuple(row[1:]) for row in rows}
        except Refused:
            return None

    # What MATCH_RECOGNIZE says

    def measured(self, expressions: Mapping[str, str], ends: bool) -> dict[int, tuple[Any, ...]]:
        """The value of each expression as a measure, for each pair."""
        texts = (text.format(a="A.x", b="B.x", x="x") for text in expressions.values())
        listed = ", ".join(f"({text}) AS c{n}" for n, text in enumerate(texts))
        source = f"(SELECT p, o, x FROM pairs WHERE k = 0{'' if ends else ' AND ends = 0'}) AS s"
        clause = f"PARTITION BY p ORDER BY o MEASURES {listed} PATTERN (A B)"
        return {row[0]: tuple(row[1:]) for row in self.cep.query(f"SELECT * FROM {source} MATCH_RECOGNIZE ({clause})")}

    def defined(self, expressions: Mapping[str, str], ends: bool, shape: str) -> dict[int, tuple[Any, ...]]:
        """For each pair the truth of each expression, as conditions."""
        pattern, a, other = SHAPES[shape]
        places = range(1, len(expressions) + 1)
        tried = " | ".join(f"E{n}" for n in places)
        conditions = [
            f"E{n} AS k = {n} AND ({text.format(a=a, b='x')})" for n, text in enumerate(expressions.values(), 1)
        ]
        where = f"k BETWEEN 1 AND {len(expressions)}{'' if ends else ' AND ends = 0'}"
        clause = (
            f"PARTITION BY p, k ORDER BY o MEASURES COUNT(*) AS n PATTERN ({pattern.format(tried=tried)}) "
            f"DEFINE {other}{', '.join(conditions)}"
        )
        rows = self.cep.query(f"SELECT p, k FROM (SELECT * FROM pairs WHERE {where}) AS s MATCH_RECOGNIZE ({clause})")
        true = {tuple(row) for row in rows}
        pairs = self.database.fetch(f"SELECT DISTINCT p FROM pairs WHERE {where}")
        return {p: tuple((p, n) in true for n in places) for (p,) in pairs}


def differences(cep: Any, kind: Kind, forced: Forced, shapes: Sequence[str] = tuple(SHAPES)) -> Iterator[str]:
    """What MATCH_RECOGNIZE says otherwise than the database."""
    matrix = Matrix(cep, kind)
    for ends in (True, False) if kind.ends else (False,):
        comparisons = matrix.known(matrix.comparisons, ends)
        is_or = cep.database.dialect == "mariadb"  # in a plain SELECT there
        arithmetic = matrix.known({n: text for n, text in ARITHMETIC.items() if n != "||" or not is_or}, ends)
        asked = comparisons | (matrix.known(_results(arithmetic), ends) if forced.tried else {})
        for shape in shapes if asked else ():
            for strategy in forced.each():
                few = asked if shape == NEAREST and not strategy else comparisons
                yield from compared(matrix, few, ends, f"DEFINE, {shape}, {strategy}", shape)
        yield from compared(matrix, comparisons | arithmetic, ends, "MEASURES")
        named = {name: text for name, text in AGGREGATES.items() if name != "AVG" or not ends}
        aggregates = {name: text for name, text in named.items() if matrix.grouped({name: text}, ends) is not None}
        if aggregates:
            found = functools.partial(matrix.measured, aggregates, ends)
            yield from unequal(matrix.grouped(aggregates, ends), found, aggregates, f"aggregates {ends}")
    yield from ordered(matrix)
    yield from partitioned(matrix)


def _results(arithmetic: Mapping[str, str]) -> dict[str, str]:
    """Conditions on what operators give: compared with the operands the other way round, and with one of them."""
    swapped = {name: text.format(a="{b}", b="{a}") for name, text in arithmetic.items()}
    found = {f"{name} >": f"{text} > {swapped[name]}" for name, text in arithmetic.items()}
    return found | {f"{name} =": f"{text} = {{b}}" for name, text in arithmetic.items()}


def compared(
    matrix: Matrix, asked: Mapping[str, str], ends: bool, where: str, shape: str | None = None
) -> Iterator[str]:
    if not asked:
        return
    wanted = matrix.answer(asked, ends)
    assert wanted is not None
    if shape is None:
        yield from unequal(wanted, lambda: matrix.measured(asked, ends), asked, where)
    else:
        truths = {p: tuple(bool(value) for value in row) for p, row in wanted.items()}
        yield from unequal(truths, lambda: matrix.defined(asked, ends, shape), asked, where)


def unequal(wanted: Any, ask: Any, asked: Mapping[str, str], where: str) -> Iterator[str]:
    try:
        found = ask()
    except bridge.BridgeError as error:
        yield f"{where}: refused: {str(error)[:200]}"
        return
    if wanted.keys() != found.keys():
        yield f"{where}: {len(found)} partitions of {len(wanted)}"
    for place, name in enumerate(asked):
        wrong = [p for p in wanted if p in found and not alike(wanted[p][place], found[p][place])]
        if wrong:
            p = wrong[0]
            yield f"{where}: {name}: {len(wrong)} of {len(wanted)}, pair {p}: {wanted[p][place]!r} and not {found[p][place]!r}"


def ordered(matrix: Matrix) -> Iterator[str]:
    """Rows in the order of the clause have the ranks that the database gives them."""
    known = "(SELECT * FROM kinds WHERE x IS NOT NULL) AS s"
    try:
        rank = dict(matrix.database.fetch(f"SELECT n, RANK() OVER (ORDER BY x) AS r FROM {known}"))
    except Refused:
        return
    clause = "MATCH_RECOGNIZE (ORDER BY x MEASURES MATCH_NUMBER() AS m, A.n AS k PATTERN (A))"
    try:
        rows = matrix.cep.query(f"SELECT m, k FROM {known} {clause}")
        found = [rank[row[1]] for row in sorted(map(tuple, rows))]
    except bridge.BridgeError as error:
        yield f"ORDER BY: refused: {error}"
        return
    if sorted(rank.values()) != found:
        yield f"ORDER BY: {sorted(rank.values())} and not {found}"


def partitioned(matrix: Matrix) -> Iterator[str]:
    try:
        wanted = sorted(matrix.database.fetch("SELECT MIN(n), COUNT(*) FROM kinds GROUP BY x"))
    except Refused:
        return
    clause = "MATCH_RECOGNIZE (PARTITION BY x ORDER BY n MEASURES MIN(n) AS m, COUNT(*) AS c PATTERN (A+))"
    for source in ("kinds", "(SELECT * FROM kinds) AS s"):
        try:
            found = sorted(tuple(row) for row in matrix.cep.query(f"SELECT m, c FROM {source} {clause}"))
        except bridge.BridgeError as error:
            yield f"PARTITION BY {source}: refused: {error}"
            continue
        if [tuple(row) for row in wanted] != found:
            yield f"PARTITION BY {source}: {wanted} and not {found}"


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same, whatever the driver makes of them."""
    if one is None or other is None:
        return one is other
    if isinstance(one, (int, float, decimal.Decimal)) and isinstance(other, (int, float, decimal.Decimal)):
        if any(isinstance(value, float) for value in (one, other)):
            return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-320)
        return bool(one == other) or (one != one and other != other)
    if isinstance(other, pa.MonthDayNano):  # INTERVAL
        other = datetime.timedelta(30 * other.months + other.days, microseconds=other.nanoseconds // 1000)
    if hasattr(other, "to_pydatetime"):  # TIMESTAMP_NS
        other = other.to_pydatetime(warn=False)
    if isinstance(one, bytes) and isinstance(other, int):  # BIT
        return other in (int.from_bytes(one, "big"), int(one) if one.isdigit() else None)
    if isinstance(one, datetime.date) and isinstance(other, datetime.date):
        return str(one).removesuffix(" 00:00:00") == str(other).removesuffix(" 00:00:00")
    return bool(one == other) or _text(one) == _text(other)


def _text(value: Any) -> str:
    """A value as text without what drivers write differently; of several texts that are equal, MIN gives any."""
    if isinstance(value, datetime.timedelta):
        seconds = abs(value) // datetime.timedelta(seconds=1)
        value = f"{'-' * (value.days < 0)}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{value.microseconds:06}"
    value = str(value).replace("None", "NULL")
    value = "".join(c for c in unicodedata.normalize("NFKD", str(value)) if not unicodedata.combining(c))
    return re.sub(r"(\.0*|\+00|\+00:00|/32|/128|(?<=\+0\d):00)$", "", re.sub(r"[\[\]{} ]", "", str(value).casefold()))


class Forced:
    """Chooses each strategy that supports the clause in turn, the fastest one first."""

    def __init__(self) -> None:
        self.strategy, self.able = "", list[str]()
        self.tried = 10
        """The most strategies beside the fastest."""

    def each(self) -> Iterator[str]:
        """The strategies for one clause, which is evaluated while each is the chosen one."""
        self.strategy, self.able = "", []
        yield ""
        for name in self.able[: self.tried]:
            self.strategy = name
            yield name
        self.strategy = ""

    def choose(self, task: Task) -> planner.Choice:
        if not self.strategy:
            fastest = planner.choose_for_rows(task).strategy
            self.able = [choice.strategy for choice in planner.choices(task) if choice.strategy != fastest]
        chosen = self.strategy or fastest
        return planner.Choice(chosen, "")


@pytest.fixture(scope="module", params=DATABASES, ids=lambda database: database.name)
def cep(request: pytest.FixtureRequest) -> Iterator[Any]:
    with present(request).connect() as opened:
        if opened.database.dialect == "postgres":
            opened.database.execute("CREATE TYPE size AS ENUM ('small', 'medium', 'large')")
        yield opened


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Forced:
    found = Forced()
    monkeypatch.setattr(output, "choose_for_rows", found.choose)
    return found


def check(cep: Any, forced: Forced, shapes: Sequence[str], most: int, part: slice = slice(None)) -> None:
    """A part of a database's types; what is refused must be one of the known refusals."""
    wrong = {}
    for name, kind in list(TYPES[Matrix.name_of(cep.database)].items())[part]:
        found = differences(cep, kind._replace(values=kind.values[:most], ends=kind.ends[:most]), forced, shapes)
        if told := [text for text in found if not any(words in text for words in REFUSALS)]:
            wrong[name] = told
    assert not wrong, "\n".join(f"{name}:\n  " + "\n  ".join(told[:9]) for name, told in wrong.items())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("first", [0, 1])
def test_types_compare_and_compute_as_in_the_database(cep: Any, forced: Forced, first: int) -> None:
    """Every second type."""
    forced.tried = 0
    check(cep, forced, [NEAREST], 2, slice(first, None, 2))


@pytest.mark.long
def test_types_compare_and_compute_alike_by_every_strategy(cep: Any, forced: Forced) -> None:
    check(cep, forced, tuple(SHAPES), 10)
