"""Structured Streaming, without Spark: each step goes on from the state of the one before, in a new bridge."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest

import bridge
from bridge.engine.session import session_of
from bridge.errors import BridgeError
from bridge.history.script import ReplayScript
from bridge.sources.arrow import EARLIEST
from bridge.sources.relations import create_relation
from bridge.spark.columns import PIECE, PLACE, STREAM_BITS, TIME
from bridge.spark.stream import StreamPiece, dump, from_bytes, restore, to_bytes, with_place
from bridge.spark.task import PieceTask, needed_queries
from tests.random.test_differential import LONG, same_rows
from tests.support.generate import Case, random_case
from tests.unit.spark.test_spark_pieces import History, _number, _rows

Rows = list[tuple[int, tuple[Any, ...]]]


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_gives_the_rows_of_a_bridge(seed: int) -> None:
    differs(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(2000, 2000 + LONG, 100))
def test_a_stream_gives_the_rows_of_a_bridge_on_many_seeds(start: int) -> None:
    for seed in range(start, start + 100):
        differs(seed)


def differs(seed: int) -> None:
    history = History(dataclasses.replace(random_case(seed), end=None))
    lateness = Random(seed).choice([0, 3, 20])
    steps = arrivals(history, lateness, Random(seed))
    for name, rows in live(history, steps, lateness).items():
        for keys in {(): None, tuple(sorted(history.ways[name].unordered_keys.items())): None}:
            found = streamed(history, name, dict(keys), steps, lateness)
            assert same_rows(sorted(rows, key=str), sorted(found, key=str)), (seed, name, keys)


EPL = {
    "eager": "select * from s#keepall match_recognize (partition by k measures A.a as x, B.a as y "
    "pattern (A B) define B as B.a > A.a)",
    "batch": "select * from s#length_batch(7) match_recognize (measures A.a as x, B[0].a as y pattern (A B+))",
    "temporal": "select a.a as x, b.a as y from pattern [every a=s(a < 3) -> b=s(a = 7) where timer:within(40 msec)]",
    "absent": "select a.a as x from pattern [every a=s(a < 3) -> (timer:interval(9 msec) and not s(a = 7))]",
    "prev": "select a, prev(1, a) as before from s#groupwin(k)#length(3)",
    "first": "select k, count(*) as n from s#firstlength(9) group by k",
    "output": "select k, sum(a) as n from s#time(30 msec) group by k output last every 20 msec",
    "left": "select rstream a from s#length(5)",
    "session": "select sum(a) as n from s#time_accum(4 msec)",
    "sub": "select a, (select max(a) from s#length(4)) as most from s",
    "sorted": "select sum(a) as n, count(*) as c from s#sort(4, a desc)",
}
SQL = {
    "decided": "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES MATCH_NUMBER() AS n, A.a AS x, LAST(B.a) AS y "
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+) WITHIN 30 MS DEFINE B AS a > PREV(a))",
    "next": "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.a AS x PATTERN (A B) DEFINE A AS a < NEXT(a))",
    "runs": "SELECT z1, z2 FROM s MATCHING (PARTITION BY k PATTERN x y+ WITHIN 30 MS MEASURES z1 BIGINT, z2 BIGINT "
    "DEFINE x AS a < 3 DO z1 = a, y AS a > z1 DO z2 = a)",
    "wide": "SELECT k, SUM(a * 1000000000000000) AS total, COUNT(*) AS n FROM s WINDOW(UNBOUNDED) GROUP BY k",
    "change": "SELECT k, MAX(a) AS top FROM s WINDOW(RANGE 7 MS) GROUP BY k EMIT ON CHANGE",
    "jump": "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 20 MS SLIDE 15 MS) GROUP BY k",
    "rows": "SELECT SUM(a) AS n FROM s WINDOW(ROWS 6 SLIDE 4)",
    "join": "SELECT l.a AS x, r.a AS y FROM s WINDOW(ROWS 5) AS l, s WINDOW(RANGE 9 MS) AS r WHERE l.k = r.k",
    "nested": "SELECT MAX(n) AS most FROM (SELECT k, COUNT(*) AS n FROM s WINDOW(PARTITION BY k ROWS 4) GROUP BY k)",
}


WINDOWS = {
    "updated": "on u as b update W as w set a = w.a + b.a where w.k = b.k; @name('q') select * from W",
    "merged": "on u as b merge W as w where w.k = b.k when matched and w.a > 5 then delete "
    "when not matched then insert select b.k as k, b.a as a; @name('q') select sum(a) as n from W",
    "asked": "@name('q') on u as b select b.a as x, w.* from W as w where w.k = b.k",
}
"""What events do to the rows of a named window."""

NAMED = (
    "create schema s (k long, a long); create schema u (k long, a long); create window W#keepall as s; "
    "@name('i') insert into W select * from s; "
)
WINDOWS = {name: NAMED + text for name, text in WINDOWS.items()}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [*EPL, *SQL, *WINDOWS])
def test_what_an_operator_knows_goes_on(name: str) -> None:
    """A few events a step, so that all that is remembered has gone through the state."""
    text = {**EPL, **SQL, **WINDOWS}[name]
    source = text if name in WINDOWS else {"q": text}
    script = ReplayScript.of(source, language="sql" if name in SQL else "epl")
    rng, ts, events = Random(name), 0, []
    for _ in range(24):
        ts += rng.choice([0, 1, 3, 12])
        events.append((rng.choice("ssu"), (rng.randrange(2), rng.randrange(9)), ts + 1))
    schemas = {"s": "k BIGINT, a BIGINT", "u": "k BIGINT, a BIGINT"}
    history = History(Case(schemas, {name: node for name, (node, _) in script.queries.items()}, tuple(events)))
    whole = history._events()
    whole = whole.take(pa.array(np.argsort(whole.column(TIME).to_numpy(), kind="stable")))
    steps = [whole.slice(at, 4) for at in range(0, len(whole), 4)]
    rows = live(history, steps, 2)["q"]
    assert rows
    assert sorted(streamed(history, "q", history.ways["q"].unordered_keys, steps, 2), key=str) == sorted(rows, key=str)


def test_the_state_of_other_queries_is_refused() -> None:
    with bridge.connect() as one, bridge.connect() as other:
        for cep, query in ((one, "SELECT SUM(a) AS n FROM s WINDOW(ROWS 3)"), (other, "SELECT a FROM s")):
            cep.register_stream("s", "a BIGINT")
            cep.create_query("q", query)
        one.push_event("s", [1], 1)
        with pytest.raises(
            BridgeError, match="the state belongs to other queries: this bridge has no table 'cep_window_s'"
        ):
            restore(session_of(other), dump(session_of(one)))


def test_a_checkpoint_of_other_pieces_is_refused() -> None:
    """Keys would be looked for where they are not."""
    state = State()
    state.exists, state.get = True, ("pieces=2, by key: s by k", 0, None, None)
    piece = StreamPiece(PieceTask((), (), {}, {}, 0), "q", "pieces=3, by key: s by k")
    with pytest.raises(BridgeError, match=r"the checkpoint of 'q' was made with pieces=2, .*, not with pieces=3"):
        next(piece.run((0,), iter([]), state))


def arrivals(history: History, lateness: int, rng: Random) -> list[pa.Table]:
    """The events in steps, some late, some too late."""
    events = history._events()
    times = events.column(TIME).to_numpy() + [rng.choice([0, 0, lateness, lateness * 2]) for _ in range(len(events))]
    order = sorted(range(len(events)), key=lambda place: times[place])
    shaken = events.take(pa.array(order, pa.int64()))
    bounds = sorted(rng.sample(range(len(order) + 1), min(len(order), rng.choice([2, 5, 9]))))
    cut = zip([0, *bounds], [*bounds, len(order)], strict=True)
    return [shaken.slice(first, last - first) for first, last in cut]


def live(history: History, steps: list[pa.Table], lateness: int) -> dict[str, Rows]:
    """What a bridge tells until the last watermark, of the events that are not too late."""
    found: dict[str, Rows] = {name: [] for name in history.case.queries}
    kept, reached, newest = list[dict[str, Any]](), EARLIEST, EARLIEST
    for step in steps:
        fresh = [row for row in step.to_pylist() if row[TIME] >= reached]
        kept += fresh
        newest = max([newest, *(row[TIME] for row in step.to_pylist())])
        reached = max(reached, newest - lateness)
    names = list(history.schemas)
    kept = sorted((row for row in kept if row[TIME] <= reached), key=lambda row: (row[TIME], row[PLACE] >> STREAM_BITS))
    with bridge.connect() as cep:
        for name, table in history.relations.items():
            create_relation(cep.database, name, table)
        for name, schema in history.schemas.items():
            cep.register_stream(name, schema)
        for name, node in history.case.queries.items():
            cep.create_query(name, node)
            cep.add_output_processor(
                name, lambda e, rows=found[name]: rows.append((e.timestamp, tuple(e.payload.values())))
            )
        for row in kept:
            number = row[PLACE] >> STREAM_BITS
            width = len(history.schemas[names[number]].names)
            cep.push_event(names[number], [row[f"s{number}c{place}"] for place in range(1, width + 1)], row[TIME])
        if kept and reached > (cep.now or EARLIEST):
            cep.advance_time(reached)
    return found


def streamed(history: History, name: str, keys: Any, steps: list[pa.Table], lateness: int) -> Rows:
    """What the pieces of a stream tell, each step in a new process as it were."""
    task = PieceTask(
        history._feeds(False), needed_queries(history.case.queries.items(), [name]), {name: history.shapes[name]},
        history.relations, 0, open_end=True,
    )  # fmt: skip
    states: dict[int, State] = {}
    found: Rows = []
    watermark = newest = 0
    for step in [*steps, step_without(steps[0])]:
        rows = with_place(step, 0, 0).to_pylist()
        for row in rows:
            row[PIECE] = _piece(history, row, keys)
        for piece in sorted({0, 1, 2} if keys else {0}):
            mine = pa.Table.from_pylist([row for row in rows if row[PIECE] == piece], step.schema)
            if not mine.num_rows and piece not in states:
                continue
            state = states.setdefault(piece, State())
            state.watermark, state.hasTimedOut = watermark, not mine.num_rows
            batches = [pandas.DataFrame({"rows": [to_bytes(mine)]})] if mine.num_rows else []
            for frame in StreamPiece(task, name, "by key").run((piece,), iter(batches), state):
                found += [row for packed in frame["rows"] for row in _told(packed)]
        newest = max([newest, *(row[TIME] for row in rows)])
        watermark = max(watermark, newest - lateness - 1)
    return found


def step_without(step: pa.Table) -> pa.Table:
    """The step in which Spark only lets time pass."""
    return step.slice(0, 0)


def _piece(history: History, row: dict[str, Any], keys: Any) -> int:
    if not keys:
        return 0
    number = row[PLACE] >> STREAM_BITS
    stream = list(history.schemas)[number]
    names = history.schemas[stream].names
    return sum(_number(row[f"s{number}c{names.index(k) + 1}"]) for (k,) in keys.get(stream.lower(), ())) % 3


def _told(packed: bytes) -> Iterator[tuple[int, tuple[Any, ...]]]:
    yield from _rows(from_bytes(packed))


class State:
    """Spark's state of one piece."""

    def __init__(self) -> None:
        self.exists, self.hasTimedOut = False, False
        self.watermark = 0
        self.get: Any = None

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802
        return self.watermark

    def update(self, value: Any) -> None:
        self.exists, self.get = True, value

    def setTimeoutTimestamp(self, at: int) -> None:  # noqa: N802
        assert at > self.watermark
