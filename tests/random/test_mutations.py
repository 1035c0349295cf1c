"""Mutated queries, events and files: nothing but `BridgeError` comes out, soon, and nothing stays behind.

CEP_MUTATIONS="start:stop" chooses other seeds for the short runs.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridge
from tests.support import cases_format, epl_conformance, row_pattern_case
from tests.support.databases import tables_of
from tests.support.mutate import mutated_bytes, mutated_event, mutated_text
from tests.test_cases import make_table, open_store

SEEDS = range(*map(int, os.environ.get("CEP_MUTATIONS", "0:150").split(":")))
LONGEST = 5.0
"""Seconds of processor time that a call may take at most: what other processes do does not count."""
LONG_QUERIES, LONG_EVENTS, LONG_FILES, BLOCK = 100_000, 100_000, 10_000, 500


class Text(NamedTuple):
    """A text to mutate, with what makes its bridge ready."""

    name: str
    language: str
    text: str
    prepare: Callable[[Any], None]


def texts() -> list[Text]:
    """The texts of the cases and of the conformance cases, in all languages."""
    return _texts()


@functools.cache
def _texts() -> list[Text]:
    found = [
        Text(case.id, case.languages[name], text, functools.partial(_prepare, case))
        for case in cases_format.load_all()
        for name, text in case.queries.items()
        if len(text) < 2000
    ]
    found += [Text(c.id, "clause", c.sql, functools.partial(_fill, c)) for c in row_pattern_case.load_all()]
    for file in ("epl_patterns", "epl_match_recognize"):
        schemas, cases = epl_conformance.cases(file)
        found += [Text(c["name"], "epl", c["epl"], functools.partial(_declare, schemas)) for c in cases]
    return found


def _prepare(case: cases_format.Case, cep: Any) -> None:
    for name, table in case.tables.items():
        make_table(cep, name, table)
    for name, tables in case.stores.items():
        cep.register_datastore(name, open_store(tables))
    for name, schema in case.streams.items():
        cep.register_stream(name, schema)


def _fill(case: row_pattern_case.Case, cep: Any) -> None:
    for name, table in case.tables.items():
        make_table(cep, name, {"columns": table.columns, "rows": []})
        rows = [[None if value is None else value for value in row] for row in table.rows]
        cep.database.insert(cep.database.quoted(name), len(table.columns), rows)
    for name, select in case.views.items():
        cep.database.execute(f"CREATE VIEW {name} AS {select}")


def _declare(schemas: dict[str, Any], cep: Any) -> None:
    for stream, columns in schemas.items():
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        cep.create_query(f"schema_{stream}", f"create schema {stream} ({listed})", language="epl")


def standing(cep: Any) -> tuple[Any, ...]:
    """The tables, streams and queries of a bridge."""
    temporary = cep.database.fetch("SELECT name FROM sqlite_temp_master") if cep.database.dialect == "sqlite" else []
    return tables_of(cep.database), set(temporary), list(cep.streams), list(cep.queries)


@contextlib.contextmanager
def fair(what: str) -> Iterator[None]:
    """Fails for an error that is not a `BridgeError`, one that cannot be printed, and one that takes too long."""
    start, computed = time.monotonic(), time.process_time()
    try:
        yield
    except bridge.BridgeError as error:
        str(error).encode()
    except Exception as error:
        pytest.fail(f"{what}\n{type(error).__name__}: {error}"[:4000])
    took = min(time.monotonic() - start, time.process_time() - computed)
    assert took < LONGEST, f"{took:.1f} seconds: {what}"


# Queries --------------------------------------------------------------------------------------------------------------


def check_text(source: Text, seed: int, url: str) -> None:
    """A mutation of a text, as a continuous query, explained, and on demand; then an event of each stream."""
    rng = Random(seed)
    text = mutated_text(source.text, lambda: rng.choice(texts()).text, rng)
    what = f"seed {seed}, {url}, {source.name}, {source.language}: {text!r}"
    with bridge.connect(url) as cep:
        try:
            source.prepare(cep)
        except bridge.SchemaError:
            return  # the case is about a stream that is refused
        before = standing(cep)
        if source.language in ("sql", "clause"):
            with fair(f"query, {what}"):
                list(cep.query(text))
        language = "sql" if source.language == "clause" else source.language
        created = False
        with fair(f"create_query, {what}"):
            try:
                cep.create_query("q", text, language=language)
                created = True
            except bridge.QueryError as error:
                assert error.position is None or 0 <= error.position <= len(error.text or ""), what
                raise
        if not created:
            assert standing(cep) == before, f"left behind: {what}"
            return
        with fair(f"explain, {what}"):
            cep.explain("q")
        for place, stream in enumerate(list(cep.streams)):
            with fair(f"push, {what}"):
                cep.push_event(stream, dict.fromkeys(cep.streams[stream].names), 1000 + place)
        with fair(f"remove_query, {what}"):
            cep.remove_query("q")


@pytest.mark.parametrize("start", SEEDS[::50])
def test_a_mutated_query_is_refused_or_runs(start: int, embedded: Any) -> None:
    for seed in range(start, min(start + 50, SEEDS.stop)):
        check_text(Random(seed).choice(texts()), seed, embedded.url)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, LONG_QUERIES, BLOCK))
def test_many_mutated_queries_are_refused_or_run(start: int, embedded: Any) -> None:
    for seed in range(start, start + BLOCK // 2):
        check_text(Random(seed).choice(texts()), seed, embedded.url)


# Events ---------------------------------------------------------------------------------------------------------------


SCHEMA = {
    "b": "BOOLEAN", "s": "SMALLINT", "i": "INTEGER", "l": "BIGINT", "d": "DOUBLE", "m": "DECIMAL(10, 2)", "t": "VARCHAR",
    "y": "DATE", "z": "TIMESTAMP",
}  # fmt: skip
QUERIES = {
    "kept": "SELECT * FROM e WHERE i > 0 OR i IS NULL",
    "sums": "SELECT t, SUM(l) AS l, AVG(d) AS d, MAX(m) AS m, MIN(y) AS y FROM e WINDOW(ROWS 5) GROUP BY t",
    "pairs": "SELECT x.i AS i, y.z AS z FROM e WINDOW(RANGE 50 MS) AS x, e WINDOW(ROWS 3) AS y WHERE x.t = y.t",
    "rises": "SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY t MEASURES A.d AS d, LAST(B.i) AS i PATTERN (A B+) WITHIN 50 MS "
    "DEFINE B AS B.d > A.d)",
    "runs": "SELECT p, n FROM e MATCHING (PATTERN x y WITHIN 50 MS MEASURES p DOUBLE, n BIGINT DEFINE x AS d > 0 DO p = d, "
    "y AS d > p DO n = l)",
}  # fmt: skip


def check_events(seed: int, database: Any, count: int) -> None:
    """Mutated events one by one, in batches and as tables: those refused change nothing."""
    rng = Random(seed)
    with database.connect() as cep:
        cep.register_stream("e", SCHEMA)
        for name, text in QUERIES.items():
            cep.create_query(name, text)
        before = standing(cep)
        for place in range(count):
            plain = dict(zip(SCHEMA, (True, 1, 2, 3, 1.5, 2, rng.choice("xyz"), None, None), strict=True))
            event = mutated_event("e", plain, 10 * place if cep.now is None else cep.now + rng.randrange(3), rng)
            what = f"seed {seed}, event {place}, {database.name}: {event!r:.300}"
            now = cep.now
            with fair(what):
                match rng.randrange(4):
                    case 0:
                        cep.push_all([("e", plain, event[2] if isinstance(event[2], int) else 0), event])
                    case 1:
                        cep.push_events(
                            event[0], [event[1] | {"ts": event[2]} if isinstance(event[1], dict) else event[1]]
                        )
                    case _:
                        cep.push_event(*event)
            if cep.now is not None and cep.now > 2**62:
                return check_events(seed + 1_000_003, database, count - place - 1)
            assert now is None or cep.now >= now, what
        assert standing(cep) == before
    return None


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_mutated_event_is_refused_or_in(seed: int, database: Any) -> None:
    check_events(seed, database, 100 if database.variable else 200)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(LONG_EVENTS // BLOCK // 4))
def test_many_mutated_events_are_refused_or_in(seed: int, database: Any) -> None:
    check_events(seed, database, BLOCK)


# Files ----------------------------------------------------------------------------------------------------------------


def _table(rows: int) -> pa.Table:
    places = range(rows)
    return pa.table(
        {
            "ts": [1000 * place for place in places],
            "i": list(places),
            "d": [place / 2 for place in places],
            "t": [f"text {place}" if place % 5 else None for place in places],
            "n": [{"x": place, "y": [place]} for place in places],
        }
    )


@functools.cache
def contents() -> dict[str, bytes]:
    """A small file of each format."""
    rows = _table(40).to_pylist()
    lines = ["ts,i,d,t", *(f'{row["ts"]},{row["i"]},{row["d"]},"{row["t"] or ""}"' for row in rows)]
    found = {
        "csv": "\n".join(lines).encode() + b"\n",
        "ndjson": "".join(json.dumps(row) + "\n" for row in rows).encode(),
    }
    for name, options in {"parquet": {}, "plain.parquet": {"compression": "none", "use_dictionary": False}}.items():
        out = io.BytesIO()
        pq.write_table(_table(40).drop_columns("n"), out, row_group_size=10, **options)
        found[name] = out.getvalue()
    return found


OF_FILES = (
    "SELECT * FROM e",
    "SELECT COUNT(*) AS n, SUM(i) AS s FROM e WINDOW(ROWS 5)",
    "SELECT t, i FROM e WHERE i > 3",
)


def check_file(seed: int, folder: pathlib.Path) -> None:
    """A mutated file as events, replayed whole, and as a relation."""
    rng = Random(seed)
    suffix = rng.choice(sorted(contents()))
    path = folder / f"events{seed}.{suffix}"
    path.write_bytes(mutated_bytes(contents()[suffix], rng))
    database = rng.choice(("duckdb://", "sqlite://"))
    query = rng.choice(OF_FILES)
    options: dict[str, Any] = {"sort": True} if rng.random() < 0.3 else {}
    with fair(f"seed {seed}, {suffix}, {database}"):
        bridge.replay({"e": str(path)}, query, database=database, timestamp="ts", **options)
    with fair(f"seed {seed}, {suffix} as a relation, {database}"):
        joined = "SELECT e.i, r.t FROM e, r WHERE e.i = r.i"
        bridge.replay({"e": _table(5)}, joined, database=database, timestamp="ts", relations={"r": str(path)})
    path.unlink()


@pytest.mark.parametrize("start", SEEDS[::50])
def test_a_mutated_file_is_refused_or_read(start: int, tmp_path: pathlib.Path) -> None:
    for seed in range(start, min(start + 50, SEEDS.stop)):
        check_file(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, LONG_FILES, BLOCK))
def test_many_mutated_files_are_refused_or_read(start: int, tmp_path: pathlib.Path) -> None:
    for seed in range(start, start + BLOCK):
        check_file(seed, tmp_path)
