"""What a query keeps of the one that it replaces, on every database and after a restart (rule D7)."""

from __future__ import annotations

import functools
import logging
import pathlib
import random
from collections.abc import Sequence
from typing import Any

import pytest

import bridge
from tests.support.crashes import Crash, crash_after, die
from tests.support.databases import Database

Event = tuple[str, list[Any], int]

BEFORE: list[Event] = [("s", ["a", 1], 1000), ("s", ["a", 3], 2000), ("t", ["a", 7], 2500), ("s", ["a", 4], 3000)]
AFTER: list[Event] = [
    ("s", ["a", 5], 4000), ("t", ["a", 8], 4500), ("s", ["a", 2], 5000), ("s", ["a", 9], 6000), ("t", ["a", 1], 6500),
    ("s", ["a", 1], 7000), ("s", ["a", 3], 20_000),
]  # fmt: skip

RISING = """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES {measures} {rows} AFTER MATCH SKIP {skip}
    PATTERN (A U+ D) WITHIN {within} S DEFINE U AS v > {low}, D AS v < {low})"""
RUN = """SELECT {columns} FROM s MATCHING (PARTITION BY k PATTERN {pattern} WITHIN {within} S
    MEASURES z1 INTEGER, z2 INTEGER DEFINE x AS v > {least} DO z1 = v, y AS v > z1 DO z2 = v) WHERE z1 > {more}"""
EAGER = """select {columns} from s match_recognize (partition by k measures {measures} pattern ({pattern})
    define D as D.v < prev(D.v), U as U.v > prev(U.v))"""
SUM = "SELECT k, {what} AS t FROM {source} WINDOW({window}) GROUP BY k"


def rising(
    measures: str = "FIRST(v) AS f, LAST(v) AS l",
    within: int = 10,
    low: str = "PREV(v)",
    rows: str = "",
    skip: str = "",
) -> str:
    return RISING.format(measures=measures, within=within, low=low, rows=rows, skip=skip or "PAST LAST ROW")


def run(columns: str = "z1, z2", pattern: str = "x y+", within: int = 10, least: int = 0, more: int = 0) -> str:
    return RUN.format(columns=columns, pattern=pattern, within=within, least=least, more=more)


def eager(measures: str, columns: str = "*", pattern: str = "A U+ D") -> str:
    return EAGER.format(measures=measures, columns=columns, pattern=pattern)


def total(what: str = "SUM(v)", source: str = "s", window: str = "RANGE 5 S") -> str:
    return SUM.format(what=what, source=source, window=window)


def temporal(columns: str, pattern: str = "every a=s(v > 3) -> b=t") -> str:
    return f"select {columns} from pattern [{pattern}]"


KEPT = {
    "another aggregate": (total(), total("COUNT(*)")),
    "another length": (total(), total(window="RANGE 8 S")),
    "a filter over the window": (total(), total().replace(" GROUP", " WHERE v > 1 GROUP")),
    "another condition of a join": (
        "SELECT l.v AS a FROM s WINDOW(RANGE 5 S) l, t WINDOW(RANGE 5 S) r WHERE l.k = r.k",
        "SELECT l.v AS a, r.v AS b FROM s WINDOW(RANGE 5 S) l, t WINDOW(RANGE 5 S) r WHERE l.k = r.k AND l.v < r.v",
    ),
    "the columns of a pattern": (rising().replace("*", "f"), rising().replace("*", "f, l")),
    "a filter over a pattern": (rising(), f"SELECT * FROM ({rising()}) WHERE l > 0"),
    "other measures": (rising(), rising("FIRST(v) AS f, COUNT(*) AS n")),
    "measures of other columns": (rising(), rising("LAST(k) AS name")),
    "measures that read fewer rows": (rising("PREV(FIRST(v)) AS f"), rising("COUNT(*) AS n")),
    "all rows per match": (rising(), rising(rows="ALL ROWS PER MATCH")),
    "the columns of MATCHING": (run(), run("z2")),
    "a filter over MATCHING": (run(), run(more=2)),
    "a constant of a short MATCHING": (run(pattern="x y"), run(pattern="x y", least=2)),
}  # fmt: skip
KEPT_EPL = {
    "EPL, other measures of the same values": (
        eager("A.v as f, last(U.v) as l"),
        eager("last(U.v) as l, last(U.v) - A.v as d"),
    ),
    "EPL, other measures of a sequence": (
        eager("A.v as f, U.v as l", pattern="A U D"),
        eager("A.v as f", pattern="A U D"),
    ),
    "EPL, the columns of a pattern": (temporal("a.v as x"), temporal("a.v as x, b.v as y")),
    "EPL, other events of a repeated tag": (
        temporal("a[0].v as x", "every ([3] a=s -> b=t)"),
        temporal("a[0].v as x, a[1].v as y", "every ([3] a=s -> b=t)"),
    ),
    "EPL, an earlier row": ("select v, prior(2, v) as p from s", "select v, prior(1, v) as p from s"),
}
LOST = {
    "another window": (total(window="ROWS 2"), total(window="ROWS 3"), "Window(ROWS 2)"),
    "a filter below the window": (
        total(source="(SELECT * FROM s WHERE v > 1)"),
        total(source="(SELECT * FROM s WHERE v > 2)"),
        "Rows for sliding windows",
    ),
    "WITHIN": (rising(), rising(within=12), "MatchRecognize A U+ D"),
    "DEFINE": (rising(), rising(low="PREV(v) - 1"), "MatchRecognize A U+ D"),
    "SKIP": (rising(), rising(skip="TO NEXT ROW"), "MatchRecognize A U+ D"),
    "measures that read more rows": (rising(low="A.v"), rising("PREV(FIRST(v)) AS f", low="A.v"), "MatchRecognize A U+ D"),
    "MATCHING, a constant": (run(), run(least=2), "Match x y+ WITHIN 10000 MS"),
    "MATCHING, WITHIN": (run(), run(within=12), "Match x y+ WITHIN 10000 MS"),
}  # fmt: skip
LOST_EPL = {
    "EPL, measures of other values": (
        eager("A.v as f, last(U.v) as l"), eager("A.v as f, A.k as k"), "EagerMatch A U+ D",
    ),
    "EPL, a condition": (
        temporal("a.v as x"), temporal("a.v as x", "every a=s(v > 2) -> b=t"),
        'TemporalMatch [(EVERY a=s("v" > 3)) -> b=t]',
    ),
    "EPL, a row further back": (
        "select v, prior(1, v) as p from s", "select v, prior(2, v) as p from s", "PreviousRow before.1",
    ),
}  # fmt: skip

CASES = [
    *(pytest.param("sql", *texts, "", id=name) for name, texts in KEPT.items()),
    *(pytest.param("epl", *texts, "", id=name) for name, texts in KEPT_EPL.items()),
    *(pytest.param("sql", *texts, id=name) for name, texts in LOST.items()),
    *(pytest.param("epl", *texts, id=name) for name, texts in LOST_EPL.items()),
]


def opened(url: str, **options: Any) -> bridge.Bridge:
    cep = bridge.connect(url, **options)
    for name in ("s", "t"):
        cep.register_stream(name, "k VARCHAR, v INTEGER")
    return cep


def results(cep: bridge.Bridge, events: Sequence[Event]) -> list[Any]:
    """What the query q reports of events, in order."""
    found: list[Any] = []
    cep.add_output_processor("q", lambda event: found.append((event.timestamp, tuple(event.payload.values()))))
    for event in events:
        cep.push_event(*event)
    return found


@functools.cache
def expected(text: str, language: str, is_kept: bool) -> list[Any]:
    """What the query reports after `BEFORE` if it was there before, or is created after it."""
    with opened("sqlite://") as cep:
        if is_kept:
            cep.create_query("q", text, language=language)
        for event in BEFORE:
            cep.push_event(*event)
        if not is_kept:
            cep.create_query("q", text, language=language)
        return results(cep, AFTER)


@pytest.mark.some_databases(1)
@pytest.mark.parametrize(("language", "one", "other", "lost"), CASES)
def test_what_is_kept_and_what_is_lost(
    database: Database, tmp_path: pathlib.Path, caplog: Any, language: str, one: str, other: str, lost: str
) -> None:
    """The bridge is opened again before the query is replaced, and after that."""
    caplog.set_level(logging.WARNING, "bridge")
    url = database.durable(tmp_path)
    cep = opened(url)
    cep.create_query("q", one, language=language)
    for event in BEFORE:
        cep.push_event(*event)
    cep.close()
    cep = opened(url)
    cep.create_query("q", other, language=language, replace=True)
    warned = f"the query q has changed, and begins without the state of {lost}"
    assert [record.getMessage() for record in caplog.records] == ([warned] if lost else [])
    cep.close()
    cep = opened(url)
    found = results(cep, AFTER)
    cep.drop()
    assert found == expected(other, language, not lost)
    assert expected(other, language, True) != expected(other, language, False)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(12))
def test_open_matches_are_kept_at_any_time(seed: int) -> None:
    """Whatever MEASURES and ROWS PER MATCH say before, and whenever the query is replaced."""
    rng = random.Random(seed)
    rows = ["", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"]
    measures = [
        "MATCH_NUMBER() AS n, FIRST(v) AS f",
        "MATCH_NUMBER() AS n, LAST(v) AS f",
        "MATCH_NUMBER() AS n, COUNT(*) AS f",
    ]
    texts = [rising(rng.choice(measures), 5, rows=rng.choice(rows)) for _ in range(4)]
    events: list[Event] = [
        ("s", [rng.choice("ab"), rng.randint(0, 4)], 1000 * number + rng.choice([0, 300])) for number in range(80)
    ]
    changes = sorted(rng.sample(range(10, 80), len(texts)))
    with opened("sqlite://") as cep, opened("duckdb://") as undisturbed:
        cep.create_query("q", rising(measures[0], 5))
        for name, text in enumerate(texts):
            undisturbed.create_query(f"q{name}", text)
        at = 0
        for place, (change, text) in enumerate(zip(changes, texts, strict=True)):
            for stream, payload, ts in events[at:change]:
                cep.push_event(stream, payload, ts)
                undisturbed.push_event(stream, payload, ts)
            cep.create_query("q", text, replace=True)
            at, until = change, changes[place + 1] if place + 1 < len(changes) else len(events)
            found, wanted = list[Any](), list[Any]()
            mine = cep.add_output_processor("q", lambda event, to=found: to.append(event))
            its = undisturbed.add_output_processor(f"q{place}", lambda event, to=wanted: to.append(event))
            for stream, payload, ts in events[at:until]:
                cep.push_event(stream, payload, ts)
                undisturbed.push_event(stream, payload, ts)
            assert found == wanted
            cep.remove_output_processor(mine)
            undisturbed.remove_output_processor(its)
            at = until


# A crash ----------------------------------------------------------------------------------------------------------------


def declare(cep: bridge.Bridge, is_new: bool) -> None:
    """What a program declares in its first and in its second version."""
    for name in ("s", "t"):
        cep.register_stream(name, "k VARCHAR, v INTEGER")
    cep.create_query(
        "q", rising("FIRST(v) AS f, FIRST(v) + LAST(v) AS l") if is_new else rising(), into="matches", replace=True
    )
    cep.create_query("sums", total("COUNT(*)" if is_new else "SUM(v)"), into="sums", replace=True)


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.long)])
def test_a_crash_at_any_statement_of_a_replacement(database: Database, tmp_path: pathlib.Path, step: int) -> None:
    """The next start completes it; no state is lost, and no result comes twice."""
    url = database.durable(tmp_path)
    for calls in range(0, 1_000, step):
        cep = bridge.connect(url, fresh=True)
        cep.database.begin()
        for name in ("matches", "sums"):
            cep.database.execute(f"DROP TABLE IF EXISTS {name}")
        cep.database.commit()
        declare(cep, is_new=False)
        for event in BEFORE:
            cep.push_event(*event)
        left = crash_after(cep, calls)
        try:
            declare(cep, is_new=True)
            is_through = True
        except Crash:
            is_through = False
        left[0] = 10**9
        die(cep)
        cep = bridge.connect(url)
        declare(cep, is_new=True)
        for event in AFTER:
            cep.push_event(*event)
        texts = ("SELECT ts, f, l FROM matches ORDER BY ts", "SELECT ts, t FROM sums ORDER BY ts")
        found = [cep.database.fetch(text) for text in texts]
        cep.drop()
        if calls == 0:
            wanted = found
        assert found == wanted, calls
        if is_through:
            break
    assert is_through


SCRIPT = """CREATE STREAMSCHEMA s WITH k VARCHAR, v INTEGER;
    CREATE WINDOW w ON TUPLES SIZE 2 ADVANCE 1;
    INSERT INTO high SELECT k, v FROM s WHERE v > {least};
    INSERT INTO total SELECT SUM(v) AS t FROM high ON WINDOW w;
    INSERT INTO late SELECT COUNT(*) AS {column}, MAX(t) AS most FROM total ON WINDOW w;"""


@pytest.mark.parametrize(
    ("least", "column", "total", "late"),
    [
        (0, "m", [(4000, 9), (5000, 7)], [(4000, 2, 9), (5000, 2, 9)]),
        (1, "n", [(5000, 7)], []),
    ],
    ids=["what reads equal queries keeps its state", "what reads a changed query begins anew, directly or not"],
)
def test_an_output_that_reads_another_output(
    database: Database, tmp_path: pathlib.Path, least: int, column: str, total: list[Any], late: list[Any]
) -> None:
    """An output is named by those that read it; they share state only with readers of an equal one."""
    url = database.durable(tmp_path)
    cep = opened(url)
    cep.create_query("script", SCRIPT.format(least=0, column="n"), language="cpl")
    for event in [("s", ["a", 1], 1000), ("s", ["a", 3], 2000), ("s", ["a", 4], 3000)]:
        cep.push_event(*event)
    cep.create_query("script", SCRIPT.format(least=least, column=column), language="cpl", replace=True)
    cep.close()
    cep = opened(url)
    found = dict[str, list[Any]](total=[], late=[])
    for query, rows in found.items():
        cep.add_output_processor(query, lambda e, rows=rows: rows.append((e.timestamp, *e.payload.values())))
    for event in [("s", ["a", 5], 4000), ("s", ["a", 2], 5000)]:
        cep.push_event(*event)
    cep.drop()
    assert found == {"total": total, "late": late}
