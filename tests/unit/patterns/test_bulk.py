"""Many rows of a stream at once: the strategies tell what the machine tells, and either goes on after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge import query
from bridge.engine.session import session_of
from bridge.errors import DatabaseError, QueryError
from bridge.patterns.live import bulk
from bridge.rewrite.settings import Settings
from tests.support.row_pattern_generate import COLUMNS, generate
from windows.databases import Refused

if TYPE_CHECKING:
    from tests.support.databases import Database

NEVER = 10**9
RUN = bulk.Bulk.run
Told = list[tuple[int, str]]


@pytest.mark.some_databases(1)
def test_many_at_once_are_as_one_by_one(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sum(check(seed, database, monkeypatch) for seed in range(14))
    assert taken > 7


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_many_at_once_are_as_one_by_one_for_long(
    block: int, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(10_000 + 100 * block, 10_100 + 100 * block):
        check(seed, database, monkeypatch)


def check(seed: int, database: Database, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many pushes the strategies took."""
    rng = Random(seed)
    example = generate(seed, ("row", "first") if seed % 2 else ("row",))
    clause = dataclasses.replace(example.clause, order_by=())
    if clause.within is None and rng.random() < 0.5:
        clause = dataclasses.replace(clause, within=rng.choice([1, 2, 4]))
    rows = sorted(example.rows, key=lambda row: (row[1], row[2]))
    pushes = list(chopped(rows, rng))
    taken = counted(monkeypatch)
    try:
        singly = told(database, clause, pushes, NEVER)
        assert not taken
        for many in (1, 3):
            is_replay = (seed // 2 + many // 2) % 2 == 0
            found = told(database, clause, pushes, many, is_replay)
            assert found == singly, (seed, many, is_replay, str(example))
    except QueryError:
        return 0  # SKIP leads nowhere, or an aggregate in DEFINE
    return len(taken)


def chopped(rows: list[tuple[Any, ...]], rng: Random) -> Iterator[list[tuple[Any, ...]] | int]:
    """Pushes of some rows, and here and there a time to which time goes on, which no row is before."""
    while rows:
        count = rng.choice([1, 2, 5, 9])
        push, rows = rows[:count], rows[count:]
        yield push
        if rng.random() < 0.3:
            yield rng.randint(push[-1][1], rows[0][1] if rows else push[-1][1] + 5)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for each push that the strategies take."""
    taken: list[int] = []

    def counting(self: bulk.Bulk, *given: Any) -> int:
        kept = RUN(self, *given)
        taken.append(kept)
        return kept

    monkeypatch.setattr(bulk.Bulk, "run", counting)
    return taken


def told(database: Database, clause: Any, pushes: list[Any], many: int, is_replay: bool = False) -> Told:
    """What is reported, in order, where pushes of `many` events are matched in bulk."""
    found: Told = []
    with warnings.catch_warnings(), database.connect(Settings(bulk_events=many)) as cep:
        warnings.simplefilter("ignore")
        cep.register_stream("s", ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
        with session_of(cep).of_replay() if is_replay else contextlib.nullcontext():
            cep.create_query("m", query.MatchRecognize(query.Stream("s"), clause))
        cep.add_output_processor("m", lambda e: found.append((e.timestamp, shape(e.payload))))
        for push in pushes:
            if isinstance(push, int):
                cep.advance_time(push)
            else:
                cep.push_events("s", [(dict(zip(COLUMNS, row, strict=True)), row[1]) for row in push])
        cep.finish()
    return found


def shape(row: dict[str, Any]) -> str:
    return repr([float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else v for v in row.values()])


PAIRS = """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES MATCH_NUMBER() AS n, A.v AS a, LAST(B.v) AS b
    PATTERN (A B+){within} DEFINE A AS v > PREV(v), B AS v < A.v)"""


def test_a_push_that_fails_leaves_where_it_stood(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[Any, ...]] = []
    with warnings.catch_warnings(), database.connect(Settings(bulk_events=2)) as cep:
        warnings.simplefilter("ignore")
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        cep.create_query("q", PAIRS.format(within=""))
        cep.add_output_processor("q", lambda e: found.append((e.timestamp, *e.payload.values())))
        cep.push_events("s", [((None, 1), 1), ((None, 5), 2), ((None, 3), 3)])
        append = cep.database.append
        monkeypatch.setattr(cep.database, "append", refused)
        with pytest.raises(DatabaseError):
            cep.push_events("s", [((None, 4), 4), ((None, 9), 5), ((None, 8), 6), ((None, 10), 7)])
        monkeypatch.setattr(cep.database, "append", append)
        cep.push_events("s", [((None, 4), 4), ((None, 9), 5)])
        cep.push_events("s", [((None, 8), 6)])
        cep.push_events("s", [((None, 10), 7), ((None, 2), 8)])
    assert found == [(5, None, 1, 5, 4), (7, None, 2, 9, 8)]


def refused(*_: object) -> None:
    raise Refused("the disk is full")


@pytest.mark.parametrize("many", [1, NEVER])
def test_what_time_decided_is_not_told_again_after_a_failure(
    database: Database, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """The first row of a partition stays for PREV when the start has gone beyond it."""
    found: list[tuple[Any, ...]] = []
    with warnings.catch_warnings(), database.connect(Settings(bulk_events=many)) as cep:
        warnings.simplefilter("ignore")
        cep.register_stream("s", "v INTEGER")
        cep.create_query(
            "q",
            """SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.v AS a, COUNT(*) AS n
            PATTERN (A B*) WITHIN 5 MS DEFINE B AS v > PREV(v))""",
        )
        cep.add_output_processor("q", lambda e: found.append((e.timestamp, *e.payload.values())))
        cep.push_events("s", [((1,), 1)])
        cep.advance_time(20)
        assert found == [(6, 1, 1)]
        monkeypatch.setattr(cep.database, "insert", refused)
        monkeypatch.setattr(cep.database, "append", refused)
        with pytest.raises(DatabaseError):
            cep.push_events("s", [((2,), 21), ((3,), 22)])
        monkeypatch.undo()
        cep.push_events("s", [((2,), 21)])
        cep.advance_time(40)
    assert found == [(6, 1, 1), (26, 2, 1)]


def test_a_place_is_the_newest_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of one partition are numbered on by what was read anew."""
    found: list[tuple[Any, ...]] = []
    with warnings.catch_warnings(), bridge.connect("sqlite://") as cep:
        session_of(cep).settings = Settings(bulk_events=3)
        warnings.simplefilter("ignore")
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        cep.create_query("q", PAIRS.format(within=""))
        cep.add_output_processor("q", lambda e: found.append((e.timestamp, *e.payload.values())))
        events = [((None, v), ts) for ts, v in enumerate([1, 5, 3, 4, 9, 8, 10, 2, 11, 3, 12, 1, 13])]
        for event in events[:8]:
            cep.push_event("s", *event)
        with monkeypatch.context() as failing, pytest.raises(DatabaseError):
            failing.setattr(cep.database, "insert", refused)
            cep.push_event("s", *events[8])
        cep.push_event("s", *events[8])
        cep.push_events("s", events[9:])
    assert [row[2] for row in found] == [1, 2, 3, 4, 5]
