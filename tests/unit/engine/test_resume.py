"""Durable bridges: what is there again after the process has ended, on every database (rules D1, D2, D6, D8)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import bridge
from bridge.engine import exactly_once
from tests.support.databases import Database, tables_of
from windows.databases import Refused, open_database

pytestmark = pytest.mark.some_databases(2)

MEAN = "SELECT k, AVG(v) AS mean FROM s WINDOW(RANGE 5 S) GROUP BY k"


@pytest.fixture
def url(database: Database, tmp_path: pathlib.Path) -> str:
    return database.durable(tmp_path)


@pytest.fixture
def open_again(url: str) -> Iterator[Callable[..., bridge.Bridge]]:
    """Opens the database as a process does that comes after one that was killed."""
    with contextlib.ExitStack() as stack:
        opened: list[Any] = []

        def connect(**options: Any) -> bridge.Bridge:
            while opened:
                opened.pop().database.close()
            opened.append(bridge.connect(url, **options))
            return opened[-1]

        yield connect
        for cep in opened:
            stack.callback(cep.drop)


def listen(cep: bridge.Bridge, query: str) -> list[tuple[int, Any]]:
    rows: list[tuple[int, Any]] = []
    cep.add_output_processor(query, lambda event: rows.append((event.timestamp, tuple(event.payload.values()))))
    return rows


def test_windows_time_and_numbers_go_on(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", MEAN)
    cep.push_events("s", [(["a", 1], 1000), (["a", 3], 2000)])
    cep = open_again()
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 5], 3000)
    assert rows == [(3000, ("a", 3.0))]
    with pytest.raises(bridge.OrderError, match=r"1999 is before 2000, .* resumed; cep\.position"):
        cep.push_event("s", ["a", 5], 1999)
    with pytest.raises(bridge.OrderError, match="2999 is before 3000, the newest time seen"):
        cep.push_event("s", ["a", 5], 2999)


def test_declaring_again_changes_nothing(open_again: Callable[..., bridge.Bridge]) -> None:
    for text in (
        MEAN,
        MEAN,
        MEAN.replace("SELECT k, AVG(v) AS", "select  k, avg(v) as"),
        MEAN.replace("5 S", "5000 MS"),
    ):
        cep = open_again()
        cep.register_stream("s", {"k": "VARCHAR", "v": "INTEGER"})
        cep.create_query("m", text)
        cep.create_query("m", text)
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 1], 1000)
    assert rows == [(1000, ("a", 1.0))]


def test_another_definition_of_a_name_is_refused(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", MEAN)
    with pytest.raises(bridge.NameTaken, match="with other attributes"):
        cep.register_stream("s", "k VARCHAR, v DOUBLE")
    with pytest.raises(bridge.NameTaken, match="replace=True"):
        cep.create_query("m", MEAN.replace("5 S", "6 S"))


def test_what_was_removed_stays_removed(open_again: Callable[..., bridge.Bridge], database: Database) -> None:
    cep = open_again()
    cep.create_query("a", "SELECT COUNT(*) AS n FROM s[k: VARCHAR, v: INTEGER] WINDOW(RANGE 5 S)")
    cep.create_query("b", "SELECT SUM(v) AS n FROM s WINDOW(RANGE 9 S)")
    cep.create_query("c", "SELECT n FROM a WHERE n > 1")
    cep.push_event("s", ["x", 7], 1000)
    cep.remove_query("c")
    cep.remove_query("a")
    cep = open_again()
    assert (list(cep.queries), list(cep.streams)) == (["b"], ["s"])
    rows = listen(cep, "b")
    cep.push_event("s", ["x", 7], 2000)
    assert rows == [(2000, (14,))]
    cep.remove_query("b")
    cep.remove_stream("s")
    cep = open_again()
    assert (list(cep.queries), list(cep.streams)) == ([], [])
    assert tables_of(cep.database) == {"cep_clock", "cep_definitions", "cep_names"}


def test_members_of_a_family_keep_their_rows_when_others_leave(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    texts = {
        f"q{n}": "SELECT z FROM s MATCHING(PATTERN ab WITHIN 9 S MEASURES z:Integer "
        f"DEFINE a AS v > {n} DO z = v, b AS v > z + {n})"
        for n in range(4)
    }
    for name, text in texts.items():
        cep.create_query(name, text)
    cep.push_event("s", ["x", 5], 1000)
    cep.remove_query("q0")
    cep.remove_query("q2")
    cep = open_again()
    rows = {name: listen(cep, name) for name in ("q1", "q3")}
    cep.push_event("s", ["x", 7], 2000)
    assert rows == {"q1": [(2000, (5,))], "q3": []}


def test_objects_are_stored(open_again: Callable[..., bridge.Bridge]) -> None:
    trades = bridge.Stream("s", "k VARCHAR, v INTEGER")
    query = bridge.Aggregate(bridge.Window(trades, bridge.Rows(2)), ["k", bridge.query.sum("v").as_("total")], ["k"])
    cep = open_again()
    cep.create_query("t", query)
    cep.push_event("s", ["x", 5], 1000)
    cep = open_again()
    cep.create_query("t", query)
    rows = listen(cep, "t")
    cep.push_event("s", ["x", 6], 2000)
    assert rows == [(2000, ("x", 11))]


def test_statements_of_epl_are_carried_out_again(open_again: Callable[..., bridge.Bridge]) -> None:
    declared = [
        "create variable integer least = 3", "create window w#keepall as s", "create table t (n count(*))",
    ]  # fmt: skip
    for again in range(3):
        cep = open_again()
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        for text in declared:
            cep.create_query("declared", text, language="epl")
        cep.create_query("set", "on s(k = 'set') set least = v", language="epl")
        cep.create_query("into", "insert into w select * from s(v > least)", language="epl")
        cep.create_query("count", "select count(*) as n from w", language="epl")
        rows = listen(cep, "count")
        if again == 0:
            cep.push_event("s", ["x", 5], 1000)
            cep.push_event("s", ["set", 10], 1000)
        else:
            cep.push_event("s", ["x", 10], 2000)
            cep.push_event("s", ["x", 10 + again], 2000)
            assert rows[-1] == (2000, (again + 2,))  # the event that sets the variable is in the window, too


def test_events_out_of_order_wait_through_a_restart(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again(lateness="5 S")
    cep.register_stream("s", "k VARCHAR, v DECIMAL(8, 2), at TIMESTAMP, day DATE, is_on BOOLEAN")
    cep.create_query("all", "SELECT k, v, is_on FROM s")
    cep.push_events(
        "s", [(["a", 1, None, None, True], 7000), (["b", "2.50", "2024-01-01 00:00:00", "2024-01-01", None], 6000)]
    )
    with pytest.raises(bridge.DatabaseError, match="lateness"):
        open_again()
    cep = open_again(lateness="5 S")
    rows = listen(cep, "all")
    late: list[Any] = []
    cep.add_late_processor(late.append)
    cep.push_event("s", ["c", 3, None, None, False], 1999)
    cep.push_event("s", ["d", 4, None, None, False], 6500)
    cep.push_event("s", ["e", 5, None, None, False], 12000)
    assert [(ts, k, str(v), is_on) for ts, (k, v, is_on) in rows] == [
        (6000, "b", "2.50", None), (6500, "d", "4.00", False), (7000, "a", "1.00", True),
    ]  # fmt: skip
    assert [event.timestamp for event in late] == [1999]


def test_a_state_of_a_newer_layout_is_refused(open_again: Callable[..., bridge.Bridge], url: str) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.database.execute("UPDATE cep_definitions SET layout = 99")
    if cep.database.dialect not in ("duckdb", "sqlite"):
        cep.database.commit()
    with pytest.raises(bridge.DatabaseError, match="newer program"):
        open_again()
    open_again(fresh=True).register_stream("s", "k VARCHAR, v INTEGER")


def test_a_bridge_that_keeps_nothing_does_not_touch_a_state(open_again: Callable[..., bridge.Bridge]) -> None:
    open_again().register_stream("s", "k VARCHAR, v INTEGER")
    with pytest.raises(bridge.DatabaseError, match=r"the state of a durable bridge is in this database \('s'\)"):
        open_again(durable=False)
    assert list(open_again().streams) == ["s"]


def test_a_query_of_a_data_store_waits_for_it(open_again: Callable[..., bridge.Bridge], tmp_path: pathlib.Path) -> None:
    store = f"sqlite:///{tmp_path}/crm.db"
    with bridge.connect(store, durable=False) as crm:
        crm.database.execute("CREATE TABLE plans (id VARCHAR(20), fee INTEGER)")
        crm.database.execute("INSERT INTO plans VALUES ('ann', 5)")
    script = """CREATE STREAMSCHEMA cdr WITH id varchar; CREATE SQL fee_of ON crm AS SELECT fee FROM plans WHERE id = ?;
        INSERT INTO fees SELECT id, fee FROM cdr ON SQL fee_of, f, id, fee"""
    cep = open_again()
    cep.register_datastore("crm", store)
    cep.create_query("script", script, language="cpl")
    cep = open_again()
    with pytest.raises(bridge.BridgeError, match=r"register_datastore\('crm', url\) first"):
        cep.push_event("cdr", ["ann"], 1000)
    cep.register_datastore("crm", store)
    cep.create_query("script", script, language="cpl")
    rows = listen(cep, "fees")
    cep.push_event("cdr", ["ann"], 1000)
    assert rows == [(1000, ("ann", 5))]


@pytest.mark.parametrize("wait", [0.0, 0.09, 0.1, 0.11])
def test_a_bridge_with_a_clock_is_dropped(wait: float) -> None:
    cep = bridge.connect(clock="system")
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    time.sleep(wait)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(cep.drop).result(20)


def test_a_closed_bridge_whose_state_is_kept_does_not_pretend_to_drop_it(tmp_path: pathlib.Path) -> None:
    cep = bridge.connect(f"sqlite:///{tmp_path}/s.db")
    cep.register_stream("s", "v INTEGER")
    cep.close()
    with pytest.raises(bridge.Closed, match="the bridge is closed, and its state is kept"):
        cep.drop()
    again = bridge.connect(f"sqlite:///{tmp_path}/s.db")
    assert list(again.streams) == ["s"]
    again.drop()
    again.drop()


# Replacing (rule D7) --------------------------------------------------------------------------------------------------


def test_a_replaced_query_keeps_what_both_have_in_common(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", MEAN)
    cep.push_events("s", [(["a", 1], 1000), (["a", 3], 2000)])
    rows = listen(cep, "m")
    cep.create_query("m", MEAN.replace("AVG(v) AS mean", "SUM(v) AS total, COUNT(*) AS n"), replace=True)
    cep.push_event("s", ["a", 5], 3000)
    assert rows == [(3000, ("a", 9, 3))]
    cep = open_again()
    cep.create_query("m", MEAN.replace("AVG(v) AS mean", "SUM(v) AS total, COUNT(*) AS n"), replace=True)
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 5], 3500)
    assert rows == [(3500, ("a", 14, 4))]
    cep.create_query("m", MEAN.replace("AVG(v) AS mean", "MAX(v) AS top"), replace=True)
    cep.create_query("reader", "SELECT top FROM m WHERE top > 1")
    cep = open_again()
    rows = [*listen(cep, "m"), *listen(cep, "reader")]
    rows = listen(cep, "reader")
    cep.push_event("s", ["a", 2], 4000)
    assert rows == [(4000, (5,))]
    with pytest.raises(bridge.InUse, match="read by 'reader'"):
        cep.create_query("m", MEAN, replace=True)


def test_a_replacement_that_is_refused_leaves_all_as_it_was(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", MEAN)
    cep.push_events("s", [(["a", 1], 1000), (["a", 3], 2000)])
    rows = listen(cep, "m")
    before = tables_of(cep.database)
    for wrong in (MEAN.replace("AVG(v)", "AVG(nothing)"), MEAN.replace("AVG(v)", "ABS(AVG(v), 1, 2)"), "SELECT"):
        with pytest.raises(bridge.QueryError):
            cep.create_query("m", wrong, replace=True)
    assert tables_of(cep.database) == before
    cep.push_event("s", ["a", 5], 3000)
    assert rows == [(3000, ("a", 3.0))]
    cep = open_again()
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 7], 3000)
    assert rows == [(3000, ("a", 4.0))]


def test_a_replaced_script_keeps_its_windows(open_again: Callable[..., bridge.Bridge]) -> None:
    script = """CREATE STREAMSCHEMA s WITH k varchar, v integer; CREATE WINDOW w ON TUPLES SIZE 3 ADVANCE 1;
        INSERT INTO sums SELECT k, SUM(v) AS total FROM s ON WINDOW w GROUP BY k"""
    more = script.replace("SUM(v)", "MAX(v)") + "; INSERT INTO high SELECT k FROM sums WHERE total > 3"
    cep = open_again()
    cep.create_query("p", script, language="cpl")
    cep.push_events("s", [(["a", 4], 1000), (["a", 3], 2000)])
    cep.create_query("p", more, language="cpl", replace=True)
    cep = open_again()
    cep.create_query("p", more, language="cpl", replace=True)
    rows = {name: listen(cep, name) for name in ("sums", "high")}
    cep.push_event("s", ["a", 1], 3000)
    assert rows == {"sums": [(3000, ("a", 4))], "high": [(3000, ("a",))]}
    cep.remove_query("p")
    assert list(open_again().queries) == []


def test_without_a_file_a_query_is_replaced_as_well() -> None:
    with bridge.connect() as cep:
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        cep.create_query("m", MEAN)
        cep.push_events("s", [(["a", 1], 1000), (["a", 3], 2000)])
        rows = listen(cep, "m")
        cep.create_query("m", MEAN.replace("AVG(v) AS mean", "SUM(v) AS total"), replace=True)
        cep.push_event("s", ["a", 5], 3000)
        assert rows == [(3000, ("a", 9))]
        assert cep.query("SELECT * FROM m") == [(3000, "a", 9)]


# Repeated pushes (rule D4) --------------------------------------------------------------------------------------------


def test_a_repeated_event_is_dropped(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.register_stream("t", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT SUM(v) AS total FROM s WINDOW(RANGE 5 S)")
    for _ in range(2):
        cep.push_event("s", ["a", 1], 1000, event_id="e1")
        cep.push_event("t", ["a", 1], 1000, event_id="e1")
        cep.push_event("s", ["a", 2], 2000, event_id=2)
        cep = open_again()
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 2], 2000, event_id=2)
    cep.push_event("s", ["a", 4], 3000, event_id="e3")
    assert rows == [(3000, (7,))]


def test_ids_are_forgotten_after_a_while(
    open_again: Callable[..., bridge.Bridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once, "SLACK", 5)
    for kept in (10, "10 MS"):
        cep = open_again(event_ids=kept, fresh=True)
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        for number in range(40):
            cep.push_event("s", ["a", 1], number, event_id=number)
        ((stored,),) = cep.database.fetch("SELECT COUNT(*) FROM cep_event_ids")
        assert 10 <= stored <= 17
        cep.push_event("s", ["a", 1], 40, event_id=35)
        assert cep._runner.seq == 40
        cep.push_event("s", ["a", 1], 40, event_id=5)
        assert cep._runner.seq == 41


def test_a_repeated_push_of_a_source_is_dropped(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT SUM(v) AS total FROM s WINDOW(RANGE 5 S)")
    assert cep.position("feed") is None
    for first in (0, 0, 2, 0, 4):
        events = [(["a", number], 1000 + number) for number in range(first, first + 2)]
        if (cep.position("feed") or 0) < first + 2:
            assert cep.push_events("s", events, source="feed", position=first + 2) == 2
        else:
            assert cep.push_events("s", events, source="feed", position=first + 2) == 0
        cep = open_again()
    assert cep.position("feed") == 6
    with pytest.raises(bridge.SchemaError, match="are like 6"):
        cep.push_events("s", [], source="feed", position="x")
    with pytest.raises(bridge.SchemaError, match="belong together"):
        cep.push_events("s", [], source="feed")
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 100], 2000)
    assert rows == [(2000, (115,))]


@pytest.mark.parametrize("as_table", [False, True])
def test_of_a_push_that_ended_half_way_the_rest_is_pushed(
    open_again: Callable[..., bridge.Bridge], as_table: bool
) -> None:
    import pyarrow as pa

    from bridge.engine.intake import ChunkSizes

    events: Any = [(["a", number], 1000 + number) for number in range(10)]
    if as_table:
        events = pa.table({"ts": range(1000, 1010), "k": ["a"] * 10, "v": pa.array(range(10), pa.int32())})
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT SUM(v) AS total FROM s WINDOW(RANGE 5 S)")
    cep.database.chunk_size = cep.database.arrow_chunk_size = cep.database.frames_chunk_size = 4
    write, left = cep._pushes.positions.write, [2]

    def dying(*arguments: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        write(*arguments)

    cep._pushes.positions.write = dying
    with pytest.raises(KeyboardInterrupt):
        cep.push_events("s", events, source="feed", position="p1")
    assert cep._runner.seq == 8
    cep = open_again()
    assert cep.position("feed") is None
    assert ChunkSizes(1, 1) and cep.push_events("s", events, source="feed", position="p1") == 2
    assert (cep._runner.seq, cep.position("feed")) == (10, "p1")
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 100], 2000)
    assert rows == [(2000, (145,))]


def test_the_position_is_in_the_transaction_of_the_last_events(
    open_again: Callable[..., bridge.Bridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a process that goes on from `position` pushes events again that are in."""
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.push_events("s", [(["a", 1], 1000)], source="feed", position=1)
    commit, commits = cep.database.commit, list[int]()

    def counted() -> None:
        commits.append(1)
        commit()

    monkeypatch.setattr(cep.database, "commit", counted)
    cep.push_events("s", [(["a", 2], 2000), (["a", 3], 2000)], source="feed", position=3)
    assert commits == [1]


# Results (rule D5) ----------------------------------------------------------------------------------------------------


def test_a_table_of_results_takes_only_what_fits_its_columns(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT k, v FROM s", into="fits")
    for select, said in (
        ("k, v + 0.5 AS v", "the table 'fits' has the column v (BIGINT|INTEGER), and the query gives DOUBLE: CAST"),
        ("k, k AS v", "has the column v (BIGINT|INTEGER), and the query gives VARCHAR"),
        ("k, v, v AS w", "has no column 'w': ALTER TABLE fits ADD COLUMN w … adds it, of the type INTEGER"),
    ):
        with pytest.raises(bridge.QueryError, match=said):
            cep.create_query("m", f"SELECT {select} FROM s", into="fits", replace=True)
    cep.create_query("m", "SELECT k, CAST(v + 0.5 AS INTEGER) AS v FROM s", into="fits", replace=True)
    cep.database.execute("ALTER TABLE fits ADD COLUMN w INTEGER")
    cep.create_query("m", "SELECT v AS w FROM s", into="fits", replace=True)
    cep.push_event("s", ["a", 1], 1000)
    assert [tuple(row) for row in cep.database.fetch("SELECT k, v, w FROM fits")] == [(None, None, 1)]
    cep.database.execute("DROP TABLE fits")


def test_a_table_of_results_has_each_result_once(open_again: Callable[..., bridge.Bridge]) -> None:
    for again in range(3):
        cep = open_again()
        if again == 0:
            cep.database.execute("DROP TABLE IF EXISTS means")
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        cep.create_query("m", MEAN, into="means", keep="7 D")
        cep.create_query("e", "select k, v from s where v > 1", language="epl", into="big")
        cep.push_event("s", ["a", again], again * 1000)
    assert sorted(cep.database.fetch("SELECT result_id, ts, k, mean FROM means")) == [
        ("m/0/1/0", 0, "a", 0.0), ("m/1000/2/0", 1000, "a", 0.5), ("m/2000/3/0", 2000, "a", 1.0),
    ]  # fmt: skip
    assert [(each.payload, each.timestamp, each.id) for each in cep.results("m", after="m/0/1/0")] == [
        ({"k": "a", "mean": 0.5}, 1000, "m/1000/2/0"), ({"k": "a", "mean": 1.0}, 2000, "m/2000/3/0"),
    ]  # fmt: skip
    assert [each.payload for each in cep.results("e")] == [{"k": "a", "v": 2}]
    with pytest.raises(bridge.NameTaken):
        cep.create_query("m", MEAN, into="means")
    cep.push_event("s", ["a", 7], 8 * 24 * 3600 * 1000)
    cep.purge()
    assert len(cep.results("m")) == 1
    cep.remove_query("m")
    cep.create_query("m", MEAN)
    with pytest.raises(bridge.QueryError, match="into=table"):
        cep.results("m")
    for name in ("means", "big"):
        cep.database.execute(f"DROP TABLE {name}")


def test_a_table_of_results_has_the_columns_of_its_query(open_again: Callable[..., bridge.Bridge]) -> None:
    """Also of a join, whose parts' times no result has, and where a variable's value is in the text."""
    cep = open_again()
    cep.register_stream("s", "v INTEGER")
    cep.create_query("n", "create variable int n = 7", language="epl")
    pairs = "SELECT * FROM s WINDOW(NOW) AS a, s WINDOW(NOW) AS b"
    cep.create_query("pairs", pairs, into="of_pairs")
    cep.create_query("jumps", f"SELECT * FROM ({pairs}) WINDOW(ROWS 1 SLIDE 1)", into="of_jumps")
    cep.create_query("constant", "select v, n from s", language="epl", into="of_constant")
    cep.push_event("s", [3], 1000)
    for name, columns in ("pairs", "a_v, b_v"), ("jumps", "a_v, b_v"), ("constant", "v, n"):
        relation = cep.database.relation(f"of_{name}")
        assert relation is not None
        assert ", ".join(relation.names) == f"result_id, ts, {columns}"
        assert [list(each.payload) for each in cep.results(name)] == [columns.split(", ")]
        cep.database.execute(f"DROP TABLE of_{name}")


def test_a_result_has_one_id_however_its_events_are_pushed(open_again: Callable[..., bridge.Bridge]) -> None:
    queries = {
        "absent": ("epl", "select x.a as a from pattern [every x=s -> (timer:interval(15 msec) and not s(a = 0))]"),
        "joined": ("sql", "SELECT x.a AS a, y.a AS b FROM s WINDOW(RANGE 30 MS) AS x, s WINDOW(RANGE 30 MS) AS y"),
        "rows": ("sql", "SELECT a FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES FINAL COUNT(*) AS n ALL ROWS PER MATCH "
                 "PATTERN (A B+) WITHIN INTERVAL '20' MILLISECOND DEFINE B AS B.a > PREV(B.a)) AS m"),
    }  # fmt: skip
    events = [([number * 7 % 5], 1000 + number * 5) for number in range(30)]

    def ids(push: Callable[[bridge.Bridge], object]) -> dict[str, list[str]]:
        cep = open_again(fresh=True)
        cep.register_stream("s", "a INTEGER")
        for name, (language, text) in queries.items():
            cep.database.execute(f"DROP TABLE IF EXISTS of_{name}")
            cep.create_query(name, text, language=language, into=f"of_{name}")
        push(cep)
        cep.advance_time(2000)
        return {name: [result.id for result in cep.results(name)] for name in queries}

    together = ids(lambda cep: cep.push_events("s", events))
    assert ids(lambda cep: [cep.push_event("s", *event) for event in events]) == together
    assert all(len(set(each)) == len(each) > 5 for each in together.values())


def test_a_named_processor_gets_what_it_has_not_had(open_again: Callable[..., bridge.Bridge]) -> None:
    received: list[tuple[Any, int, str]] = []
    for again in range(3):
        cep = open_again()
        cep.register_stream("s", "k VARCHAR, v DECIMAL(8, 2)")
        cep.create_query("m", "SELECT k, SUM(v) AS total FROM s WINDOW(RANGE 5 S) GROUP BY k")
        if again != 1:
            cep.add_output_processor("m", lambda result: received.append(tuple(result)), name="mailer")
        cep.push_event("s", ["a", again], again * 1000)
        assert list(cep.queries) == ["m"]
    assert [(str(payload["total"]), ts, name) for payload, ts, name in received] == [
        ("0.00", 0, "m/0/1/0"), ("1.00", 1000, "m/1000/2/0"), ("3.00", 2000, "m/2000/3/0"),
    ]  # fmt: skip
    assert [each.id for each in cep.results("m", after="m/0/1/0")] == ["m/1000/2/0", "m/2000/3/0"]
    with pytest.raises(bridge.NameTaken, match="'mailer'"):
        cep.add_output_processor("m", print, name="mailer")


def test_a_named_processor_that_raises_gets_the_result_again(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT v FROM s")
    failing, received, batches = [True], list[int](), list[Any]()

    def mail(result: Any) -> None:
        if failing[0] and result.payload["v"] == 2:
            raise ValueError("no connection")
        received.append(result.payload["v"])

    handle = cep.add_output_processor("m", mail, name="mailer")
    cep.add_output_processor(
        "m", lambda table: batches.append(table.column("v").to_pylist()), batch=True, name="batches"
    )
    with pytest.raises(bridge.ProcessorError, match=r"the output processor mailer of .* raised .*no connection"):
        cep.push_events("s", [(["a", 1], 1000), (["a", 2], 1000), (["a", 3], 1000)])
    with pytest.raises(bridge.ProcessorError, match=r"the output processor mailer of .* raised .*no connection"):
        cep.push_event("s", ["a", 4], 2000)
    assert received == [1]
    failing[0] = False
    cep.push_event("s", ["a", 5], 2000)
    assert received == [1, 2, 3, 4, 5]
    assert batches == [[1, 2, 3], [4], [5]]
    cep.remove_output_processor(handle)
    cep.push_event("s", ["a", 6], 2000)
    cep = open_again()
    cep.add_output_processor("m", mail, name="mailer")
    assert received == [1, 2, 3, 4, 5]
    cep.remove_query("m")
    cep = open_again()
    assert list(cep.queries) == []
    assert not {name for name in tables_of(cep.database) if name.startswith("cep_results")}


def test_named_processors_stay_when_their_query_is_replaced(open_again: Callable[..., bridge.Bridge]) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT k, SUM(v) AS total FROM s WINDOW(RANGE 5 S) GROUP BY k")
    received: list[Any] = []
    cep.add_output_processor("m", received.append, name="mailer")
    cep.push_event("s", ["a", 1], 1000)
    cep.create_query("m", "SELECT k, CAST(MAX(v) AS BIGINT) AS total FROM s WINDOW(RANGE 5 S) GROUP BY k", replace=True)
    cep.push_event("s", ["a", 2], 2000)
    cep = open_again()
    cep.push_event("s", ["a", 0], 3000)
    cep.add_output_processor("m", received.append, name="mailer")
    assert [(each.payload["total"], each.timestamp) for each in received] == [(1, 1000), (2, 2000), (2, 3000)]


def test_named_processors_of_a_bridge_in_memory_stay_when_their_query_is_replaced(embedded: Database) -> None:
    with embedded.connect() as cep:
        cep.register_stream("s", "v INTEGER")
        cep.create_query("m", "SELECT v FROM s WHERE v > 0")
        received: list[Any] = []
        cep.add_output_processor("m", received.append, name="mailer")
        cep.push_events("s", [([1], 1000), ([2], 2000)])
        cep.create_query("m", "SELECT v FROM s WHERE v > 1", replace=True)
        cep.push_events("s", [([1], 3000), ([3], 3000), ([4], 4000)])
        assert [each.id for each in received] == ["m/1000/1/0", "m/2000/2/0", "m/3000/4/0", "m/4000/5/0"]
        assert cep.results("m") == received


def test_named_processors_get_the_columns_that_a_replaced_query_has_now(
    open_again: Callable[..., bridge.Bridge],
) -> None:
    cep = open_again()
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT k FROM s")
    received: list[Any] = []
    handle = cep.add_output_processor("m", received.append, name="mailer")
    for number in (1, 2):
        cep.push_event("s", ["a", number], number)
    cep.create_query("m", "SELECT k, v FROM s", replace=True)
    cep.push_event("s", ["b", 3], 3)
    cep = open_again()
    cep.push_event("s", ["c", 4], 4)
    with pytest.raises(
        bridge.QueryError, match=r"results that named processors \(mailer\) have not received, .*columns k VARCHAR, v"
    ):
        cep.create_query("m", "SELECT v FROM s", replace=True)
    cep.add_output_processor("m", received.append, name="mailer")
    cep.create_query("m", "SELECT v FROM s", replace=True)
    cep.push_event("s", ["d", 5], 5)
    assert [tuple(each.payload.values()) for each in received] == [("a",), ("a",), ("b", 3), ("c", 4), (5,)]
    assert len({each.id for each in received}) == 5
    cep = open_again()
    cep.remove_query("m")
    assert not {name for name in tables_of(cep.database) if name.startswith("cep_results")}
    assert handle is not None


# Lost connections -----------------------------------------------------------------------------------------------------


def cut(cep: bridge.Bridge, url: str) -> None:
    """The server ends the connection of the bridge."""
    name = "pg_backend_pid()" if cep.database.dialect == "postgres" else "CONNECTION_ID()"
    ((number,),) = cep.database.fetch(f"SELECT {name}")
    other = open_database(url)
    ended = f"SELECT pg_terminate_backend({number})" if cep.database.dialect == "postgres" else f"KILL {number}"
    if cep.database.dialect == "postgres":
        other.fetch(ended)
    else:
        other.execute(ended)
    other.close()


@pytest.mark.parametrize("lateness", [0, "1 S"])
def test_a_lost_connection_is_opened_again(server: Database, tmp_path: pathlib.Path, lateness: Any) -> None:
    url = server.durable(tmp_path)
    cep = bridge.connect(url, lateness=lateness)
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT SUM(v) AS total FROM s WINDOW(RANGE 60 S)", into="totals")
    cep.create_query(
        "p",
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS x, B.v AS y PATTERN (A B) "
        "DEFINE B AS v > A.v) AS m",
    )
    rows, matches = listen(cep, "m"), listen(cep, "p")
    for number in range(1, 13):
        if number % 3 == 0:
            cut(cep, url)
        cep.push_event("s", ["a", number], number * 1000, event_id=number)
        if number % 4 == 0:
            cep.push_event("s", ["a", number], number * 1000, event_id=number)
    cep.advance_time(20_000)
    assert [total for _, (total,) in rows] == [n * (n + 1) // 2 for n in range(1, 13)]
    assert matches == [(n * 1000, ("a", n - 1, n)) for n in range(2, 13, 2)]
    assert len(cep.results("m")) == 12
    cut(cep, url)
    with pytest.raises(bridge.DatabaseError):
        cep.query("SELECT v FROM s WINDOW(RANGE 60 S)")
    assert len(cep.query("SELECT v FROM s WINDOW(RANGE 60 S)")) == 12
    cep.drop()


def test_a_commit_that_took_effect_is_not_repeated(
    server: Database, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.durable(tmp_path)
    cep = bridge.connect(url)
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    cep.create_query("m", "SELECT SUM(v) AS total FROM s WINDOW(RANGE 60 S)", into="totals")
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 1], 1000)
    commit = cep.database.commit

    def commit_and_lose() -> None:
        commit()
        monkeypatch.undo()
        cut(cep, url)
        raise Refused("the connection was lost")

    monkeypatch.setattr(cep.database, "commit", commit_and_lose)
    cep.push_event("s", ["a", 2], 2000)
    cep.push_event("s", ["a", 4], 3000)
    assert [total for _, (total,) in rows] == [1, 3, 7]
    assert [each.payload["total"] for each in cep.results("m")] == [1, 3, 7]
    cep.drop()


# Standing by (rule D9) ------------------------------------------------------------------------------------------------

LEADER = """
import sys, time
import bridge
cep = bridge.connect(sys.argv[1])
cep.register_stream("s", "k VARCHAR, v INTEGER")
cep.create_query("m", "SELECT SUM(v) AS total FROM s WINDOW(RANGE 60 S)")
cep.push_event("s", ["a", 1], 1000)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_bridge_that_stands_by_takes_over(database: Database, tmp_path: pathlib.Path) -> None:
    if database.name == "duckdb":
        pytest.skip("a file of DuckDB is opened by one process")
    url = database.durable(tmp_path)
    with subprocess.Popen([sys.executable, "-c", LEADER, url], stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None and leader.stdout.readline() == b"ready\n"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: bridge.connect(url, standby=True))
            with pytest.raises(TimeoutError):
                waiting.result(0.3)
            leader.kill()
            cep = waiting.result(30)
    rows = listen(cep, "m")
    cep.push_event("s", ["a", 2], 2000)
    assert rows == [(2000, (3,))]
    cep.drop()


def test_own_tables_hold_texts_of_any_characters_and_any_length(open_again: Callable[..., bridge.Bridge]) -> None:
    long = "\N{SNOWMAN}" * 70_000
    cep = open_again(lateness="1 S")
    cep.register_stream("s\N{SNOWMAN}", "k VARCHAR")
    cep.create_query(
        "q\N{SNOWMAN}", 'SELECT k, \'\N{SNOWMAN}\' AS "\N{SNOWMAN}" FROM "s\N{SNOWMAN}"', into="t\N{SNOWMAN}"
    )
    cep.push_event("s\N{SNOWMAN}", [long], 5000, event_id="\N{SNOWMAN}")
    cep.push_event("s\N{SNOWMAN}", [long], 1)  # late
    cep.push_events("s\N{SNOWMAN}", [([long], 5000)], source="\N{SNOWMAN}", position="\N{SNOWMAN}")
    cep = open_again(lateness="1 S")
    rows = listen(cep, "q\N{SNOWMAN}")
    assert cep.position("\N{SNOWMAN}") == "\N{SNOWMAN}"
    cep.push_event("s\N{SNOWMAN}", [long], 5000, event_id="\N{SNOWMAN}")  # is known
    cep.advance_time(9000)
    assert rows == [(5000, (long, "\N{SNOWMAN}"))] * 2
    late = cep.database.fetch("SELECT stream, payload FROM late_events ORDER BY ts")
    assert [(stream, json.loads(payload)) for stream, payload in late] == [("s\N{SNOWMAN}", {"k": long})] * 2
