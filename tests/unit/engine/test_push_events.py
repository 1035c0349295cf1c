"""Many events at once: whatever they come in, they do what they would do one by one, or nothing of a chunk."""

from __future__ import annotations

import contextlib
import datetime
import decimal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bridge
from bridge import Bridge

if TYPE_CHECKING:
    from tests.support.databases import Database

pytestmark = pytest.mark.some_databases(1)

D = decimal.Decimal
EAST = datetime.timezone(datetime.timedelta(hours=2))


@pytest.fixture
def cep(database: Database) -> Iterator[Bridge]:
    with contextlib.closing(database.connect()) as opened:
        yield opened


def watch(cep: Bridge, schema: str) -> list[Any]:
    """The rows (ts, attributes…) that come into a new stream `s`."""
    cep.register_stream("s", schema)
    cep.create_query("all", "SELECT * FROM s")
    rows: list[Any] = []
    cep.add_output_processor("all", lambda event: rows.append((event.timestamp, *event.payload.values())))
    return rows


SCHEMA = "k VARCHAR, a INTEGER, d DOUBLE, b BOOLEAN, n DECIMAL(9, 2), y DATE, m TIMESTAMP"
EVENTS = [
    (5, "x", 1, 0.5, True, D("1.25"), datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 0, 0, 1)),
    (5, None, None, None, None, None, None, None),
    (7, "'\\\"", -(2**31), -1e300, False, D("-0.01"), datetime.date(1, 1, 1), datetime.datetime(1, 1, 1)),
]
ARROW = pa.table(
    {name: [row[place] for row in EVENTS] for place, name in enumerate(["ts", *"kadbnym"])},
    schema=pa.schema(
        [("ts", pa.int64()), ("k", pa.string()), ("a", pa.int32()), ("d", pa.float64()), ("b", pa.bool_()),
         ("n", pa.decimal128(9, 2)), ("y", pa.date32()), ("m", pa.timestamp("us"))]
    ),
)  # fmt: skip

CARRIERS: dict[str, Callable[[], Any]] = {
    "pairs": lambda: [(row[1:], row[0]) for row in EVENTS],
    "mappings": lambda: [(dict(zip("kadbnym", row[1:], strict=True)), row[0]) for row in EVENTS],
    "generator": lambda: ((row[1:], row[0]) for row in EVENTS),
    "tuple of lists": lambda: tuple([list(row[1:]), row[0]] for row in EVENTS),
    "table": lambda: ARROW,
    "chunked table": lambda: pa.concat_tables([ARROW.slice(0, 1), ARROW.slice(1)]),
    "batch": lambda: ARROW.to_batches()[0],
    "reader": lambda: pa.RecordBatchReader.from_batches(ARROW.schema, ARROW.to_batches(max_chunksize=1)),
    "reordered": lambda: ARROW.select(["m", "n", "ts", "k", "b", "a", "y", "d"]),
    "pandas": lambda: ARROW.to_pandas(timestamp_as_object=True),
    "polars": lambda: pl.from_arrow(ARROW),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_every_carrier_carries_the_same(cep: Bridge, carrier: str) -> None:
    rows = watch(cep, SCHEMA)
    assert cep.push_events("s", CARRIERS[carrier]()) == 3
    assert rows == EVENTS
    assert [list(map(type, row)) for row in rows] == [list(map(type, row)) for row in EVENTS]


EMPTY: list[Callable[[], Any]] = [
    list, tuple, lambda: iter(()), lambda: ARROW.slice(0, 0), lambda: ARROW.schema.empty_table().to_pandas(),
    lambda: pl.from_arrow(ARROW.slice(0, 0)), lambda: pa.RecordBatchReader.from_batches(ARROW.schema, []),
    lambda: pd.DataFrame({"ts": []}), lambda: pa.RecordBatch.from_pylist([], ARROW.schema),
]  # fmt: skip


@pytest.mark.parametrize("events", EMPTY)
def test_no_events_are_no_events(cep: Bridge, events: Callable[[], Any]) -> None:
    rows = watch(cep, SCHEMA)
    assert cep.push_events("s", events()) == 0
    assert (rows, cep.now) == ([], None)


@pytest.mark.parametrize(
    "events",
    [5, None, "ab", {"a": 1}, [1], [(1, 2, 3)], [([1],)], pa.array([1]), pd.Series([1]), pl.Series([1]), [([1], None)]],
)
def test_what_carries_no_events_is_refused(cep: Bridge, events: Any) -> None:
    rows = watch(cep, "a INTEGER")
    with pytest.raises(bridge.SchemaError):
        cep.push_events("s", events)
    assert rows == []


def test_missing_columns_are_null_and_unknown_ones_an_error(cep: Bridge) -> None:
    rows = watch(cep, SCHEMA)
    cep.push_events("s", ARROW.select(["a", "ts"]))
    assert rows == [(row[0], None, row[2], *[None] * 5) for row in EVENTS]
    for wrong in (pa.table({"ts": [9], "extra": [1]}), pd.DataFrame({"ts": [9], "A": [1]}), [({"extra": 1}, 9)]):
        with pytest.raises(bridge.SchemaError, match=r"'extra'|'A'"):
            cep.push_events("s", wrong)


def test_the_column_of_the_timestamps_may_have_another_name(cep: Bridge) -> None:
    rows = watch(cep, "a INTEGER")
    cep.push_events("s", pa.table({"a": [1], "when": [5]}), timestamp="when")
    assert rows == [(5, 1)]
    with pytest.raises(bridge.SchemaError, match=r"no column 'ts'.*'when'"):
        cep.push_events("s", pa.table({"a": [1], "when": [5]}))


NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
MS = int(NOON.timestamp() * 1000)


@pytest.mark.parametrize(
    "times",
    [
        pa.array([MS], pa.uint64()), pa.array([float(MS)]), pa.array([NOON], pa.timestamp("ns", "UTC")),
        pa.array([NOON], pa.timestamp("s", "+02:00")), pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")),
        pa.array([MS], pa.int64()).dictionary_encode(),
    ],
)  # fmt: skip
def test_timestamps_in_arrow(cep: Bridge, times: Any) -> None:
    """Without a zone they are taken as UTC, as Arrow itself reads them."""
    rows = watch(cep, "a INTEGER")
    cep.push_events("s", pa.table({"ts": times, "a": [1]}))
    assert rows == [(MS, 1)]


def test_timestamps_before_1970_are_cut_like_single_ones(cep: Bridge) -> None:
    rows = watch(cep, "a INTEGER")
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 998_500, datetime.UTC)
    cep.push_event("s", [1], moment)
    cep.push_events("s", pa.table({"ts": pa.array([moment], pa.timestamp("us", "UTC")), "a": [1]}))
    assert rows == [(-2, 1), (-2, 1)]


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1, None]), pa.array([1.0, 1.5]), pa.array(["1", "2"]), pa.array([False, True]), pa.nulls(2),
        pa.array([1, 2], pa.duration("s")), pa.array([1, 2**60]), pa.array([1, 2**63], pa.uint64()),
        pa.array([1.0, float("nan")]), pa.array([[1], [2]]), pa.array([1, 2], pa.time32("ms")),
        pa.array([D(1), D(2)]).cast(pa.decimal128(4, 2)).cast(pa.string()),
    ],
)  # fmt: skip
def test_what_is_no_timestamp_is_refused(cep: Bridge, times: Any) -> None:
    rows = watch(cep, "a INTEGER")
    with pytest.raises(bridge.SchemaError, match="timestamp"):
        cep.push_events("s", pa.table({"ts": times, "a": [1, 2]}))
    assert (rows, cep.now) == ([], None)


TAKEN = [
    ("INTEGER", pa.array([1.0, None]), [1, None]),
    ("INTEGER", pa.array([7, None], pa.uint64()), [7, None]),
    ("INTEGER", pa.nulls(2), [None, None]),
    ("BIGINT", pa.array([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)]),
    ("DOUBLE", pa.array([1, 2], pa.int8()), [1.0, 2.0]),
    ("DOUBLE", pa.array([0.5, None], pa.float32()), [0.5, None]),
    ("DOUBLE", pa.array([D("0.5"), None]), [0.5, None]),
    ("VARCHAR", pa.array(["x", None]).dictionary_encode(), ["x", None]),
    ("VARCHAR", pa.array(["x", None], pa.large_string()), ["x", None]),
    ("VARCHAR", pa.array(["x", None], pa.string_view()), ["x", None]),
    ("INTEGER", pa.array([1, None]).dictionary_encode(), [1, None]),
    ("DECIMAL(9, 2)", pa.array([1, None]), [D("1.00"), None]),
    ("DECIMAL(9, 2)", pa.array([D("1.5"), None], pa.decimal128(30, 20)), [D("1.50"), None]),
    ("DECIMAL(9, 2)", pa.array([0.1, 12.5]), [D("0.10"), D("12.50")]),
    ("TIMESTAMP", pa.array([NOON, None], pa.timestamp("ns", "+02:00")), [NOON.replace(tzinfo=None), None]),
    ("DATE", pa.array([NOON.date(), None], pa.date64()), [NOON.date(), None]),
    ("DATE", pa.array([datetime.datetime(2024, 2, 29), None], pa.timestamp("ns")), [NOON.date(), None]),
]


@pytest.mark.parametrize(("kind", "column", "values"), TAKEN)
def test_a_column_that_fits_is_taken_exactly(cep: Bridge, kind: str, column: Any, values: list[Any]) -> None:
    rows = watch(cep, f"a {kind}")
    cep.push_events("s", pa.table({"ts": [1, 2], "a": column}))
    assert rows == [(1, values[0]), (2, values[1])]
    assert [type(row[1]) for row in rows] == list(map(type, values))


WRONG = [
    ("INTEGER", pa.array([1.5, 2.0])),
    ("INTEGER", pa.array([2**31, 0])),
    ("INTEGER", pa.array(["1", "2"])),
    ("INTEGER", pa.array([True, False])),
    ("INTEGER", pa.array([float("nan"), 1.0])),
    ("BIGINT", pa.array([2**63, 0], pa.uint64())),
    ("INTEGER", pa.array([1, 2], pa.timestamp("ms"))),
    ("INTEGER", pa.array([1, 2], pa.date32())),
    ("INTEGER", pa.array(["1", "2"]).dictionary_encode()),
    ("BOOLEAN", pa.array([1, 0])),
    ("BOOLEAN", pa.array(["true", "false"])),
    ("DOUBLE", pa.array(["1", "2"])),
    ("DOUBLE", pa.array([True, False])),
    ("VARCHAR", pa.array([1, 2])),
    ("VARCHAR", pa.array([1, 2]).dictionary_encode()),
    ("VARCHAR", pa.array([b"x", b"y"])),
    ("VARCHAR", pa.array([True, False])),
    ("VARCHAR", pa.array([1, 2], pa.date32())),
    ("DECIMAL(9, 2)", pa.array([D("0.001"), D(1)])),
    ("DECIMAL(9, 2)", pa.array([D(10**7), D(1)])),
    ("DECIMAL(9, 2)", pa.array([0.001, 1.0])),
    ("DECIMAL(9, 2)", pa.array([10**7, 1])),
    ("DECIMAL(9, 2)", pa.array([True, False])),
    ("DATE", pa.array([NOON, NOON], pa.timestamp("ms"))),
    ("DATE", pa.array([1, 2])),
    ("TIMESTAMP", pa.array([1, 2])),
    ("TIMESTAMP", pa.array([1, 2], pa.timestamp("ns"))),
    ("INTEGER", pa.array([[1], [2]])),
]


@pytest.mark.parametrize(("kind", "column"), WRONG)
def test_a_column_that_does_not_fit_is_refused(cep: Bridge, kind: str, column: Any) -> None:
    rows = watch(cep, f"a {kind}")
    with pytest.raises(bridge.SchemaError, match="'a'"):
        cep.push_events("s", pa.table({"ts": [1, 2], "a": column}))
    assert (rows, cep.now) == ([], None)
    cep.push_event("s", [None], 1)


def test_gaps_in_a_pandas_column_of_integers_are_null(cep: Bridge) -> None:
    rows = watch(cep, "a INTEGER, t VARCHAR")
    frame = pd.DataFrame({"ts": [1, 2], "a": [1, None], "t": pd.Categorical(["x", None])}, index=[7, 7])
    cep.push_events("s", frame)
    assert rows == [(1, 1, "x"), (2, None, None)]


@pytest.mark.parametrize("options", [{}, {"lateness": 1_000}])
def test_a_frame_is_read_alike_with_lateness(database: Database, options: dict[str, Any]) -> None:
    """Whole numbers with gaps are doubles in pandas, and times without a zone are UTC."""
    times = pd.to_datetime([1000, 2000, 3000], unit="ms")
    frame = pd.DataFrame({"ts": times, "a": [1, None, 3], "t": times, "l": [[1], [], None]})
    moments = [datetime.datetime(1970, 1, 1, 0, 0, second) for second in (1, 2, 3)]
    with contextlib.closing(database.connect(**options)) as cep:
        rows = watch(cep, "a INTEGER, t TIMESTAMP, l INTEGER[]")
        assert cep.push_events("s", frame.iloc[[1, 0, 2]] if options else frame) == 3
        cep.finish()
    assert rows == [(1000, 1, moments[0], [1]), (2000, None, moments[1], []), (3000, 3, moments[2], None)]


def test_nan_in_a_column(cep: Bridge) -> None:
    rows = watch(cep, "d DOUBLE")
    table = pa.table({"ts": [1, 2], "d": [float("inf"), float("nan")]})
    if cep.database.dialect in ("sqlite", "mariadb"):
        with pytest.raises(bridge.SchemaError, match=r"NaN|inf"):
            cep.push_events("s", table)
        assert rows == []
    else:
        cep.push_events("s", table)
        assert repr(rows) == "[(1, inf), (2, nan)]"


# Order and chunks -----------------------------------------------------------------------------------------------------


def chunked(cep: Bridge, size: int) -> None:
    cep.database.chunk_size = cep.database.arrow_chunk_size = cep.database.frames_chunk_size = size  # type: ignore[misc]


@pytest.mark.parametrize("carrier", ["pairs", "table"])
def test_nothing_of_a_wrong_chunk_is_in(cep: Bridge, carrier: str) -> None:
    """A table is looked at as a whole before anything of it is in."""
    chunked(cep, 10)
    rows = watch(cep, "a INTEGER")
    times = [*range(25), 23, 30]
    events: Any = [([ts], ts) for ts in times] if carrier == "pairs" else pa.table({"ts": times, "a": times})
    with pytest.raises(bridge.OrderError, match="23 is before 24") as caught:
        cep.push_events("s", events)
    taken = 20 if carrier == "pairs" else 0
    assert caught.value.accepted == taken
    assert [row[0] for row in rows] == list(range(taken))
    cep.push_event("s", [0], 20)


def test_a_wrong_value_tells_its_event(cep: Bridge) -> None:
    chunked(cep, 10)
    rows = watch(cep, "a INTEGER")
    with pytest.raises(bridge.SchemaError, match=r"event 13 of the push: .*'a' is INTEGER: 'x'") as caught:
        cep.push_events("s", [([ts if ts != 12 else "x"], ts) for ts in range(25)])
    assert (caught.value.accepted, len(rows)) == (10, 10)


def test_a_reader_that_goes_back_between_batches(cep: Bridge) -> None:
    rows = watch(cep, "a INTEGER")
    batches = [pa.RecordBatch.from_pydict({"ts": [ts], "a": [ts]}) for ts in (1, 2, 1)]
    with pytest.raises(bridge.OrderError) as caught:
        cep.push_events("s", pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert (caught.value.accepted, rows) == (2, [(1, 1), (2, 2)])


def test_an_iterable_that_raises_brings_its_own_error_through(cep: Bridge) -> None:
    chunked(cep, 10)
    rows = watch(cep, "a INTEGER")

    def source() -> Iterator[Any]:
        for ts in range(15):
            yield [ts], ts
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        cep.push_events("s", source())
    assert len(rows) == 10
    cep.push_event("s", [0], 10)


def test_an_iterable_may_push_itself(cep: Bridge) -> None:
    chunked(cep, 2)
    rows = watch(cep, "a INTEGER")

    def source() -> Iterator[Any]:
        for ts in range(4):
            yield [ts], ts
        cep.push_event("s", [99], 3)
        yield [4], 4

    assert cep.push_events("s", source()) == 5
    assert [a for _, a in rows] == [0, 1, 2, 3, 99, 4]


QUERIES = {
    "filter": "SELECT a FROM s WHERE a % 100 = 0",
    "aggregate": "SELECT k, COUNT(*) AS n, SUM(a) AS t, MIN(a) AS low FROM s WINDOW(RANGE 40 MS) GROUP BY k",
    "rows": "SELECT SUM(a) AS t FROM s WINDOW(PARTITION BY k ROWS 5)",
    "join": "SELECT l.a, r.a AS b FROM s WINDOW(RANGE 20 MS) AS l, s WINDOW(ROWS 30) AS r WHERE l.a = r.a + 7",
    "match": "SELECT x1, x2 FROM s MATCHING (PATTERN xy WITHIN 50 MS MEASURES x1: INTEGER, x2: INTEGER "
    "DEFINE x AS a % 50 = 0 DO x1 = a, y AS a > x1 DO x2 = a)",
    "jumps": "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 100 MS SLIDE 50 MS)",
}


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("carrier", ["pairs", "table"])
def test_more_than_a_chunk_gives_what_single_events_give(database: Database, carrier: str) -> None:
    count, size = 200, 120  # single events take their time
    rows = [(ts // 3 * 5, f"k{ts % 4}", ts * 7 % 1000) for ts in range(count)]
    results = []
    for single in (True, False):
        with contextlib.closing(database.connect()) as cep:
            chunked(cep, size)
            cep.register_stream("s", "k VARCHAR, a INTEGER")
            found: dict[str, list[Any]] = {}
            for name, text in QUERIES.items():
                cep.create_query(name, text)
                cep.add_output_processor(name, found.setdefault(name, []).append)
            if single:
                for ts, k, a in rows:
                    cep.push_event("s", [k, a], ts)
            elif carrier == "table":
                ts, k, a = zip(*rows, strict=True)
                assert cep.push_events("s", pa.table({"ts": ts, "k": k, "a": a})) == count
            else:
                assert cep.push_events("s", (([k, a], ts) for ts, k, a in rows)) == count
            results.append(found)
    for name in QUERIES:
        assert results[0][name] == results[1][name] != []


KNOWN = """
CREATE SQL known AS SELECT name FROM names WHERE id = ?;
INSERT INTO named SELECT a, name FROM s ON SQL known, n, a, name;
INSERT INTO firsts SELECT a, name FROM named WHERE name < 'n5'
"""
"""Joins whose rows no database gives in the order of the events."""


def test_many_results_as_arrow_are_in_the_order_of_single_ones(database: Database) -> None:
    """As one table they may be put in order here, as single ones the database does it."""
    count, names = 1_500, [*QUERIES, "named", "firsts"]
    ranks = [n * 7 % count for n in range(count)]
    events = pa.table({"ts": [n // 3 * 5 for n in range(count)], "k": [f"k{n % 4}" for n in range(count)], "a": ranks})
    found: list[dict[str, list[Any]]] = []
    for batch in (True, False):
        with contextlib.closing(database.connect()) as cep:
            cep.register_stream("s", "k VARCHAR, a INTEGER")
            cep.database.execute("DROP TABLE IF EXISTS names")
            cep.database.execute("CREATE TABLE names (id INTEGER PRIMARY KEY, name VARCHAR(20))")
            cep.database.insert("names", 2, [(n * 11 % count, f"n{n}") for n in range(count) if n % 3])
            cep.create_query("script", KNOWN, language="cpl")
            for name, text in QUERIES.items():
                cep.create_query(name, text)
            got: dict[str, list[Any]] = {name: [] for name in names}
            for name in names:
                cep.add_output_processor(name, got[name].append, batch=batch)
            cep.push_events("s", events)
            found.append(got)
    for name in names:
        rows = [tuple(row.values()) for table in found[0][name] for row in table.to_pylist()]
        assert rows == [(event.timestamp, *event.payload.values()) for event in found[1][name]] != []


def test_the_chunk_of_the_database_is_no_limit(cep: Bridge) -> None:
    """What is more than one is as many in each."""
    chunked(cep, 1_000)
    count, half = 1_002, 501
    cep.create_query("q", f"SELECT a FROM s[a: INTEGER] WHERE a BETWEEN {half - 1} AND {half + 1}")
    got: list[Any] = []
    cep.add_output_processor("q", got.append, batch=True)
    numbers = pa.array(range(count))
    assert cep.push_events("s", pa.table({"ts": numbers, "a": numbers})) == count
    assert [table.to_pydict() for table in got] == [
        {"ts": [half - 1], "a": [half - 1]}, {"ts": [half, half + 1], "a": [half, half + 1]}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("queries", "is_large"),
    [
        (["SELECT a FROM s WHERE a > 1", "SELECT k, AVG(a) AS m FROM s WINDOW(RANGE 5 S) GROUP BY k"], True),
        (["SELECT k, SUM(a) AS t FROM s WINDOW(PARTITION BY k ROWS 5) WHERE a > 1 GROUP BY k"], True),
        (["SELECT a FROM s", "SELECT SUM(a) AS t FROM s WINDOW(PARTITION BY k ROWS 5)"], False),
        (["SELECT SUM(a) AS t FROM s WINDOW(RANGE 5 S) EMIT ON CHANGE"], False),
        (["SELECT STDDEV(a) AS m FROM s WINDOW(RANGE 5 S)"], False),
        (["SELECT x.a FROM s WINDOW(RANGE 5 S) x, s WINDOW(ROWS 5) y WHERE x.a < y.a"], False),
        (["SELECT SUM(a) AS t FROM s WINDOW(RANGE 4 S SLIDE 1 S)"], True),
        (["SELECT SUM(a) AS t FROM s WINDOW(RANGE 5 S SLIDE 1 S)"], False),
        (["SELECT a FROM s"] * 60, False),
    ],
)
def test_chunks_of_a_table_are_large_where_a_push_takes_time_in_proportion(queries: list[str], is_large: bool) -> None:
    """Elsewhere a database may compare each event with each other one of the chunk."""
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "k VARCHAR, a INTEGER")
        assert cep._pushes.sizes == (1_000, 60_000)
        for number, text in enumerate(queries):
            cep.create_query(f"q{number}", text)
        sizes = cep._pushes.sizes
    assert sizes == (1_000, 60_000 // len(queries) if is_large else 1_000)


def test_chunks_of_a_join_are_not_as_large_as_an_event_may_have_many_results() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT x.a FROM s WINDOW(RANGE 5 S) x, s WINDOW(RANGE 5 S) y WHERE x.a < y.a")
        assert cep._pushes.sizes == (1_000, 20_000)


def test_chunks_stay_small_for_a_query_that_may_skip_one() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("q", "SELECT a FROM s WHERE a > 1", on_error="skip")
        assert cep._pushes.sizes == (1_000, 1_000)


def test_push_all_takes_several_streams(cep: Bridge) -> None:
    chunked(cep, 2)
    cep.register_stream("l", "a INTEGER")
    cep.register_stream("r", "a INTEGER")
    cep.create_query("q", "SELECT l.a FROM l WINDOW(RANGE 5 MS), r WINDOW(RANGE 5 MS) WHERE l.a = r.a")
    rows: list[Any] = []
    cep.add_output_processor("q", lambda event: rows.append((event.timestamp, event.payload["a"])))
    assert cep.push_all(iter([("l", [1], 1), ("R", {"a": 1}, 2), ("r", [1], 3), ("L", [2], 4), ("r", [2], 9)])) == 5
    assert rows == [(2, 1), (3, 1)]
    with pytest.raises(bridge.UnknownName, match="'m'") as caught:
        cep.push_all([("l", [1], 10), ("r", [1], 11), ("l", [1], 12), ("m", [1], 13)])
    assert (caught.value.accepted, cep.now) == (2, 11)
    for wrong in (5, [5], [("l", [1])]):
        with pytest.raises(bridge.SchemaError):
            cep.push_all(wrong)  # type: ignore[arg-type]


# Tables that are read where they are ------------------------------------------------------------------------------------


def many(start: int, count: int = 2_000) -> pa.Table:
    """Events enough for a table to be read where it is, where the database can."""
    numbers = range(start, start + count)
    return pa.table({"ts": numbers, "a": [number % 7 for number in numbers]})


def test_tables_and_single_events_follow_each_other(cep: Bridge) -> None:
    rows = watch(cep, "a INTEGER")
    cep.push_event("s", (1,), 0)
    cep.push_events("s", many(1))
    cep.push_event("s", (2,), 2_001)
    cep.push_events("s", many(2_002))
    cep.advance_time(5_000)
    cep.push_event("s", (3,), 5_000)
    assert [ts for ts, _ in rows] == [*range(4_002), 5_000]
    assert list(cep.query("SELECT COUNT(*) FROM s")) == [(1,)]


def test_a_push_that_fails_brings_back_the_events_before_it(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.create_query("sums", "SELECT CASE WHEN a > 6 THEN 9223372036854775807 + a END AS x FROM s")
    told: list[Any] = []
    cep.add_output_processor("sums", told.append)
    cep.push_events("s", many(0))
    before = list(cep.query("SELECT COUNT(*) FROM s"))
    with pytest.raises(bridge.DatabaseError):
        cep.push_events("s", pa.table({"ts": range(2_000, 4_000), "a": [9] * 2_000}))
    assert list(cep.query("SELECT COUNT(*) FROM s")) == before
    cep.push_event("s", (1,), 2_000)
    assert len(told) == 2_001


def test_a_stream_is_removed_while_its_table_is_read(cep: Bridge) -> None:
    cep.register_stream("s", "a INTEGER")
    cep.push_events("s", many(0))
    cep.remove_stream("s")
    cep.register_stream("s", "a INTEGER, b INTEGER")
    cep.push_event("s", (1, 2), 3_000)
    assert list(cep.query("SELECT b FROM s")) == [(2,)]


@pytest.mark.parametrize("name", ['x"; DROP TABLE y', "select", "Ünïcode ☃"])
def test_a_table_for_a_stream_of_any_name(cep: Bridge, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    cep.register_stream(name, {name: "INTEGER"})
    cep.create_query("q", f"SELECT {quoted} FROM {quoted} WHERE {quoted} > 5")
    found: list[pa.Table] = []
    cep.add_output_processor("q", found.append, batch=True)
    cep.push_events(name, many(0).rename_columns(["ts", name]))
    assert sum(part.num_rows for part in found) == 285


@pytest.mark.parametrize("place", [0, 1, 777, 10_500])
def test_a_wrong_value_is_told_with_its_row(cep: Bridge, place: int) -> None:
    cep.register_stream("numbers", "a INTEGER")
    values = [1.0] * 10_600
    values[place] = 2.5
    table = pa.table({"ts": range(len(values)), "a": values})
    said = f"^row {place + 1}: attribute 'a' is INTEGER: Float value 2.5"
    with pytest.raises(bridge.SchemaError, match=said):
        cep.push_events("numbers", table)
    later = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=20_000))
    with pytest.raises(bridge.SchemaError, match=said):
        cep.push_events("numbers", later)
    with pytest.raises(bridge.SchemaError, match=f"^event {place + 1} of the push: attribute 'a' is INTEGER: 2.5"):
        cep.push_events("numbers", [([int(v) if v == 1 else v], ts) for ts, v in enumerate(values)])
