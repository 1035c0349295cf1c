"""Random scripts that read and write one table, against a naive reference that goes event by event.

What an event writes, the next one reads; so these tell whether batches change anything.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.databases import Database

Row = tuple[Any, Any]
Rows = list[Row]
KEYS = ["ann", "bob", "eve"]

DECLARED = """
CREATE STREAMSCHEMA s WITH k varchar, v bigint;
CREATE SQL one AS SELECT n FROM t WHERE k = ?;
CREATE SQL below AS SELECT SUM(n) AS total FROM t WHERE n < ?;
CREATE SQL add AS UPDATE t SET n = n + ? WHERE k = ?;
CREATE SQL put AS INSERT INTO t (k, n) VALUES (?, ?);
CREATE SQL cut AS DELETE FROM t WHERE n > ?;
"""


class Table:
    """The table, in Python."""

    def __init__(self) -> None:
        self.rows: Rows = [("ann", 1), ("bob", 2), ("bob", 5)]
        self.kept: Rows = []

    def one(self, row: Row) -> Rows:
        return [(row[0], n) for n in sorted((n for k, n in self.rows if _same(k, row[0])), key=_order)]

    def one_left(self, row: Row) -> Rows:
        return self.one(row) or [(row[0], None)]

    def below(self, row: Row) -> Rows:
        found = [n for _, n in self.rows if n is not None and row[1] is not None and n < row[1]]
        return [(row[0], sum(found) if found else None)]

    def add(self, row: Row) -> Rows:
        changed = sum(_same(k, row[0]) for k, _ in self.rows)
        self.rows = [(k, _plus(n, row[1]) if _same(k, row[0]) else n) for k, n in self.rows]
        return [(row[0], changed)]

    def put(self, row: Row) -> Rows:
        self.rows.append(row)
        return [row]

    def cut(self, row: Row) -> Rows:
        self.rows = [(k, n) for k, n in self.rows if not (n is not None and row[1] is not None and n > row[1])]
        return [row]

    def keep(self, row: Row) -> Rows:
        self.kept.append(row)
        return []

    def low(self, row: Row) -> Rows:
        return [(row[0], row[1] % 7)] if row[1] is not None and row[1] > 2 else []


STATEMENTS: dict[str, str] = {
    "one": "INSERT INTO {out} SELECT k, n AS v FROM {source} ON SQL one, r, k, n",
    "one_left": "INSERT INTO {out} SELECT k, n AS v FROM {source} ON SQL LEFT one, r, k, n",
    "below": "INSERT INTO {out} SELECT k, total AS v FROM {source} ON SQL below, r, v, total BIGINT",
    "add": "INSERT INTO {out} SELECT k, changed AS v FROM {source} ON SQL add, r, v, k, changed",
    "put": "INSERT INTO {out} SELECT * FROM {source} ON SQL put, r, k, v",
    "cut": "INSERT INTO {out} SELECT * FROM {source} ON SQL cut, r, v",
    "low": "INSERT INTO {out} SELECT k, v % 7 AS v FROM {source} WHERE v > 2",
}


@dataclasses.dataclass
class Script:
    """Steps (what, from, to) and the events (k, v, ts)."""

    steps: list[tuple[str, str, str]]
    keeps: str
    events: list[tuple[Any, int, int]]

    @property
    def text(self) -> str:
        written = [STATEMENTS[what].format(source=source, out=out) for what, source, out in self.steps]
        return ";\n".join([DECLARED, *written, f"INSERT INTO TABLE kept SELECT k, v FROM {self.keeps}"])


def script_of(rng: Random) -> Script:
    names, steps = ["s"], list[tuple[str, str, str]]()
    for number in range(rng.randint(2, 6)):
        steps.append((rng.choice(list(STATEMENTS)), rng.choice(names[-3:]), f"o{number}"))
        names.append(f"o{number}")
    ts, events = 0, []
    for _ in range(rng.randint(3, 14)):
        ts += rng.choice([0, 1, 5])
        events.append((rng.choice([*KEYS, "joe", None]), rng.randint(0, 9), ts))
    return Script(steps, rng.choice(names), events)


def expected(script: Script) -> tuple[dict[str, list[Any]], Table]:
    """Event by event, and for each statement by statement."""
    table = Table()
    found: dict[str, list[Any]] = {out: [] for _, _, out in script.steps}
    for k, v, ts in script.events:
        streams: dict[str, Rows] = {"s": [(k, v)]}
        for what, source, out in script.steps:
            do: Callable[[Row], Rows] = getattr(table, what)
            streams[out] = [result for row in streams[source] for result in do(row)]
            found[out] += [(ts, *row) for row in streams[out]]
        table.kept += streams[script.keeps]
    return found, table


def actual(script: Script, database: Database, sizes: Callable[[], int]) -> tuple[dict[str, list[Any]], Rows, Rows]:
    found: dict[str, list[Any]] = {out: [] for _, _, out in script.steps}
    with contextlib.closing(database.connect()) as cep:
        cep.database.execute("CREATE TABLE t (k VARCHAR(20), n BIGINT)")
        cep.database.execute("INSERT INTO t VALUES ('ann', 1), ('bob', 2), ('bob', 5)")
        cep.create_query("script", script.text, language="cpl")
        for out, rows in found.items():
            cep.add_output_processor(
                out, lambda event, rows=rows: rows.append((event.timestamp, *event.payload.values()))
            )
        events = [("s", [k, v], ts) for k, v, ts in script.events]
        while events:
            size = sizes()
            cep.push_all(events[:size])
            events = events[size:]
        table = cep.database.fetch("SELECT k, n FROM t")
        kept = cep.database.fetch("SELECT k, v FROM kept")
    return found, [tuple(row) for row in table], [tuple(row) for row in kept]


def check(seed: int, database: Database) -> None:
    rng = Random(seed)
    script = script_of(rng)
    results, table = expected(script)
    for sizes in (lambda: 1, lambda: rng.randint(1, 4), lambda: 100):
        found, rows, kept = actual(script, database, sizes)
        assert found == results, f"seed {seed}\n{script.text}\n{script.events}"
        assert sorted(rows, key=_both) == sorted(table.rows, key=_both), f"seed {seed}\n{script.text}"
        assert sorted(kept, key=_both) == sorted(table.kept, key=_both), f"seed {seed}\n{script.text}"


@pytest.mark.one_in(5)
@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", range(40))
def test_random_scripts(seed: int, embedded: Database) -> None:
    check(seed, embedded)


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_scripts_on_servers(seed: int, server: Database) -> None:
    check(seed, server)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 2_000, 100))
def test_many_random_scripts(start: int, embedded: Database) -> None:
    for seed in range(start, start + 100):
        check(seed, embedded)


def _same(left: Any, right: Any) -> bool:
    """As SQL has it: NULL is not equal to NULL."""
    return left is not None and left == right


def _plus(n: Any, v: Any) -> Any:
    return None if n is None or v is None else n + v


def _order(value: Any) -> tuple[bool, Any]:
    return value is not None, 0 if value is None else value


def _both(row: Row) -> str:
    return repr(row)
