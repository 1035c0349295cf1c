"""The journal: a single event of a durable bridge takes one INSERT, and none is lost when its process ends (rules D1, D2)."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge.engine.durable import LAYOUT, LoggedCall
from bridge.engine.stored_status import stored_status
from bridge.errors import DatabaseError
from tests.faults import killing
from tests.support.crashes import Crash, crash_after, die
from tests.support.traced import reads_and_writes, traced
from windows.databases import Refused

if TYPE_CHECKING:
    from tests.support.databases import Database

QUERIES = {
    "filter": ("sql", "SELECT v FROM s WHERE v > 10"),
    "sums": ("sql", "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s WINDOW(RANGE 10 S) GROUP BY k"),
    "previous": ("epl", "select v - prev(1, v) as step, prior(2, v) as third from s#length(5)"),
    "pairs": ("epl", "select x.v as x, y.v as y from pattern [every x=s(v = 1) -> y=s(k = x.k, v > 100)]"),
    "minutes": ("epl", "select count(*) as n from s#time_batch(1 min)"),
}

JOURNAL = 'INSERT INTO "cep_journal_s"'


def opened(url: str, names: list[str]) -> tuple[bridge.Bridge, dict[str, list[Any]]]:
    """A bridge with these queries, and what they report from now on."""
    cep = bridge.connect(url)
    cep.register_stream("s", "k VARCHAR, v INTEGER")
    found: dict[str, list[Any]] = {}
    for name in names:
        language, text = QUERIES[name]
        cep.create_query(name, text, language=language)
        rows = found.setdefault(name, [])
        cep.add_output_processor(name, lambda event, rows=rows: rows.append((event.timestamp, event.payload)))
    return cep, found


def push(cep: bridge.Bridge, first: int, last: int) -> None:
    for number in range(first, last):
        cep.push_event("s", ["ann" if number % 3 else "bob", number], 1000 + number)


def rows_of(cep: bridge.Bridge, table: str) -> list[Any]:
    """The rows of a table as another process sees them now."""
    rows: list[Any] = cep._runner.database.fetch(f"SELECT * FROM {table} ORDER BY ts")
    return rows


@pytest.mark.parametrize("name", QUERIES)
def test_an_event_is_one_insert(embedded: Database, tmp_path: pathlib.Path, name: str) -> None:
    cep, _ = opened(embedded.durable(tmp_path), [name])
    push(cep, 1, 12)
    statements = traced(cep)
    push(cep, 12, 15)
    if name == "previous" and embedded.name == "sqlite":  # SQLite computes it in one statement as fast
        assert not any(text.startswith(JOURNAL) for text in statements)
    else:
        assert [text.split(" VALUES")[0] for text in reads_and_writes(statements)] == [JOURNAL] * 3
    cep.drop()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("names", [*([name] for name in QUERIES), list(QUERIES)], ids="_".join)
def test_the_next_process_continues(embedded: Database, tmp_path: pathlib.Path, names: list[str]) -> None:
    url = embedded.durable(tmp_path)
    cep, found = opened(url, names)
    push(cep, 1, 20)
    for first in (20, 25):
        die(cep)
        cep, more = opened(url, names)
        assert cep.now == 1000 + first - 1
        assert not any(more.values())
        push(cep, first, first + 5)
        if first == 25:
            cep.advance_time(200_000)
        for name in names:
            found[name] += more[name]
    cep.drop()
    undisturbed, wanted = opened("sqlite://", names)
    with undisturbed:
        push(undisturbed, 1, 30)
        undisturbed.advance_time(200_000)
    assert found == wanted


def test_the_journal_is_emptied_with_the_first_transaction_that_writes_rows(
    embedded: Database, tmp_path: pathlib.Path
) -> None:
    cep, _ = opened(embedded.durable(tmp_path), ["sums"])
    push(cep, 1, 12)
    assert [seq for _, seq, *_ in rows_of(cep, "cep_journal_s")] == list(range(3, 12))
    assert len(rows_of(cep, "cep_window_s")) == 2
    cep.push_events("s", [(["ann", 1], 2000)] * 1000)
    assert rows_of(cep, "cep_journal_s") == []
    assert len(rows_of(cep, "cep_window_s")) == 1011
    cep.drop()


def test_after_close_the_tables_have_all_rows(embedded: Database, tmp_path: pathlib.Path) -> None:
    url = embedded.durable(tmp_path)
    cep, _ = opened(url, ["sums"])
    push(cep, 1, 12)
    cep.close()
    status = stored_status(url)
    assert (status.seq, status.now) == (11, 1011)
    assert status.state_rows["cep_journal_s"] == 0
    assert status.state_rows["cep_window_s"] == 11
    bridge.connect(url).drop()


def test_the_status_counts_events_of_the_journal(embedded: Database, tmp_path: pathlib.Path) -> None:
    url = embedded.durable(tmp_path)
    cep, _ = opened(url, ["sums"])
    push(cep, 1, 12)
    die(cep)
    status = stored_status(url)
    assert (status.seq, status.now) == (11, 1011)
    bridge.connect(url).drop()


@pytest.mark.parametrize("calls", range(4))
def test_a_crash_within_the_push_of_an_event(embedded: Database, tmp_path: pathlib.Path, calls: int) -> None:
    """The event is in or not, with the position of its source, and its repetition changes nothing."""
    url = embedded.durable(tmp_path)
    cep, _ = opened(url, ["sums"])
    for number in range(1, 9):
        cep.push_events("s", [(["ann", number], 1000 + number)], source="feed", position=number)
    left = crash_after(cep, calls)
    with pytest.raises(Crash):
        cep.push_events("s", [(["ann", 9], 1009)], source="feed", position=9)
    left[0] = 10**9
    die(cep)
    cep, found = opened(url, ["sums"])
    assert cep.position("feed") in (8, 9)
    cep.push_events("s", [(["ann", 9], 1009)], source="feed", position=9)
    cep.push_events("s", [(["ann", 10], 1010)], source="feed", position=10)
    assert found["sums"][-1] == (1010, {"k": "ann", "total": 55, "n": 10})
    assert cep._runner.seq == 10
    cep.drop()


def test_a_commit_that_fails_leaves_the_event_out(
    embedded: Database, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cep, found = opened(embedded.durable(tmp_path), ["sums", "pairs"])
    push(cep, 1, 8)
    database = cep._runner.database

    def refuse() -> None:
        raise Refused(ValueError("the disk is full"), "COMMIT")

    with monkeypatch.context() as patch:
        patch.setattr(database, "commit", refuse)
        with pytest.raises(DatabaseError, match="the disk is full"):
            push(cep, 8, 9)
    assert cep.now == 1007
    push(cep, 8, 10)
    assert [payload["n"] for _, payload in found["sums"][-2:]] == [6, 3]
    cep.drop()


def test_results_of_a_table_are_there_at_once(embedded: Database, tmp_path: pathlib.Path) -> None:
    """A query that writes a table is not computed in the process; another reader of the table sees each result."""
    cep, _ = opened(embedded.durable(tmp_path), ["filter"])
    cep.create_query("kept", QUERIES["sums"][1], into="sums_kept")
    for number in range(1, 8):
        push(cep, number, number + 1)
        assert len(rows_of(cep, "sums_kept")) == number
    cep.database.execute("DROP TABLE sums_kept")
    cep.drop()


def test_a_report_of_a_pattern_into_a_table_comes_once(embedded: Database, tmp_path: pathlib.Path) -> None:
    url = embedded.durable(tmp_path)
    for first in range(1, 36, 7):
        cep = with_falls(url, into="falls")
        push_values(cep, first, first + 7)
        die(cep)
    cep = with_falls(url, into="falls")
    with with_falls("sqlite://") as undisturbed:
        wanted: list[Any] = []
        undisturbed.add_output_processor("falls", lambda event: wanted.append(tuple(event.payload.values())))
        push_values(undisturbed, 1, 36)
    assert len(wanted) > 5
    assert cep.database.fetch("SELECT x, y FROM falls ORDER BY ts") == wanted
    cep.database.execute("DROP TABLE falls")
    cep.drop()


def with_falls(url: str, into: str | None = None) -> bridge.Bridge:
    cep, _ = opened(url, [])
    measured = "MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS x, B.v AS y PATTERN (A B) DEFINE B AS B.v < A.v) AS m"
    cep.create_query("falls", f"SELECT m.x, m.y FROM s {measured}", into=into)
    return cep


def push_values(cep: bridge.Bridge, first: int, last: int) -> None:
    for number in range(first, last):
        cep.push_event("s", ["ann", number * 5 % 7], 1000 + number)


def test_a_stream_that_is_registered_anew_has_a_journal_of_its_own(embedded: Database, tmp_path: pathlib.Path) -> None:
    url = embedded.durable(tmp_path)
    cep, _ = opened(url, [])
    for schema, row in (("a VARCHAR, b INTEGER, c DOUBLE", ["x", 1, 0.5]), ("a INTEGER", [2])):
        cep.remove_stream("s")
        cep.register_stream("s", schema)
        cep.create_query("q", "SELECT a, COUNT(*) AS n FROM s WINDOW(ROWS 5) GROUP BY a")
        for _ in range(5):
            cep.push_event("s", row, 1000)
        assert cep._runner._journal
        die(cep)
        cep = bridge.connect(url)
        assert cep.query("SELECT COUNT(*) AS n FROM s WINDOW(ROWS 5)")[0][-1] == 5
        cep.remove_query("q")
    cep.drop()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite file"])
def test_a_stream_that_is_registered_anew_waits_in_a_table_of_its_own(url: str, tmp_path: pathlib.Path) -> None:
    cep = bridge.connect(url if url == "sqlite://" else f"sqlite:///{tmp_path}/s.db", lateness=5)
    for schema, row in (("a INTEGER", [1]), ("a VARCHAR, b INTEGER", ["x", 2])):
        cep.register_stream("s", schema)
        cep.push_event("s", row, (cep.now or 0) + 10)
        cep.advance_time(cep.now + 100)
        cep.remove_stream("s")
    cep.drop()


def test_an_earlier_program_refuses_a_state_with_a_journal(embedded: Database, tmp_path: pathlib.Path) -> None:
    url = embedded.durable(tmp_path)
    cep, _ = opened(url, ["sums"])
    database = cep._runner.database
    database.execute("UPDATE cep_definitions SET layout = 1")  # as an earlier program has left it
    push(cep, 1, 5)
    layouts = {LoggedCall(*row).layout for row in database.fetch("SELECT * FROM cep_definitions")}
    assert layouts == {LAYOUT}
    cep.drop()


def test_an_event_that_a_query_has_skipped_stays_skipped(embedded: Database, tmp_path: pathlib.Path) -> None:
    """It is not in the journal: pushed again, it would make the query fail once more."""
    url = embedded.durable(tmp_path)
    cep, rows = with_sizes(url)
    for number, value in enumerate([1, 2, 3, -(2**63)], 1):
        cep.push_event("n", [value], 1000 + number)
    assert cep.status().queries["sizes"].skipped == 1
    die(cep)
    cep, more = with_sizes(url)
    cep.push_event("n", [-4], 2000)
    assert (rows, more) == ([1, 2, 3], [4])
    cep.drop()


def with_sizes(url: str) -> tuple[bridge.Bridge, list[int]]:
    cep, rows = bridge.connect(url), list[int]()
    cep.register_stream("n", "v BIGINT")
    cep.create_query("few", "SELECT v FROM n WHERE v < 100")
    cep.create_query("sizes", "SELECT ABS(v) AS size FROM n", on_error="skip")
    cep.add_output_processor("few", lambda event: None)
    cep.add_output_processor("sizes", lambda event: rows.append(event.payload["size"]))
    return cep, rows


def test_the_stored_number_is_that_of_the_newest_event_that_is_not_in_the_journal(
    embedded: Database, tmp_path: pathlib.Path
) -> None:
    """Also where statements read the clock: with another number, events would be numbered anew after a crash."""
    cep = bridge.connect(embedded.durable(tmp_path))
    mix = killing.Mix(["mean", "sub", "snapshot"], 914200)
    mix.declare(cep)
    journaled = 0
    for number in range(1, 80):
        cep.push_all([mix.event(number)])
        database, journal = cep._runner.database, cep._runner._journal
        seqs = sorted(seq for table in journal._filled for (seq,) in database.fetch(f"SELECT seq FROM {table}"))
        ((stored,),) = database.fetch("SELECT seq FROM cep_clock")
        assert seqs == list(range(stored + 1, number + 1))
        journaled += bool(seqs)
    assert journaled > 10
    cep.drop()
