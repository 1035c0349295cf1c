"""What a bridge for a replay keeps: what its own results need, in tables without a write-ahead log."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from bridge.engine import inboxes
from bridge.engine.session import session_of
from tests.support.databases import DATABASES, one_of, tables_of

if TYPE_CHECKING:
    from tests.support.databases import Database

EVENTS = [({"k": "xyz"[place % 3], "v": place}, 1_000 + place) for place in range(25)]
JUMPING = "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM s WINDOW(RANGE 20 MS SLIDE 10 MS) WHERE v > 2 GROUP BY k"


def pushed(database: Database, text: str, is_replay: bool) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """The results of a query, and the rows of each table after the last push."""
    rows: list[tuple[Any, ...]] = []
    with database.connect() as cep:
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        with session_of(cep).of_replay() if is_replay else contextlib.nullcontext():
            cep.create_query("q", text)
        cep.add_output_processor("q", lambda event: rows.append((event.timestamp, *event.payload.values())))
        cep.push_events("s", EVENTS[:15])
        cep.push_events("s", EVENTS[15:])
        tables = tables_of(cep.database).intersection(session_of(cep).state_tables())
        counts = {name: cep.database.fetch(f"SELECT COUNT(*) FROM {name}")[0][0] for name in tables}
    return rows, counts


def test_windows_that_jump_keep_a_row_per_group_and_pane(database: Database) -> None:
    """Live, on-demand queries may read the rows."""
    live, of_live = pushed(database, JUMPING, is_replay=False)
    replayed, of_replay = pushed(database, JUMPING, is_replay=True)
    assert replayed == live != []
    assert of_live == {"cep_clock": 1, "cep_raw_s": 25, "cep_window_s": 10 + 20}
    assert of_replay == {
        "cep_clock": 1,
        "cep_raw_s": 3 * 4,
    }  # of three groups: the second of three panes is in both pushes


def test_a_sum_of_doubles_depends_on_its_order_so_its_rows_are_kept(database: Database) -> None:
    text = JUMPING.replace("SUM(v)", "SUM(v / 10)")
    live, _ = pushed(database, text, is_replay=False)
    replayed, counts = pushed(database, text, is_replay=True)
    assert (replayed, counts["cep_raw_s"]) == (live, 25)


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("SELECT COUNT(*) AS n FROM s WINDOW(RANGE 5 MS)", {"sqlite", "postgresql"}),
        ("SELECT k, v FROM s WINDOW(RANGE 5 MS) WHERE v > 3", {"duckdb", "sqlite", "postgresql", "mariadb"}),
        ("SELECT k, MAX(v) AS m FROM s WINDOW(RANGE 5 MS) GROUP BY k", set()),
    ],
)
def test_tables_that_on_demand_queries_alone_would_read_are_not_kept(
    database: Database, text: str, unread: set[str]
) -> None:
    live, of_live = pushed(database, text, is_replay=False)
    replayed, of_replay = pushed(database, text, is_replay=True)
    assert replayed == live != []
    gone = {"cep_window_s"} if database.name in unread else set()
    assert of_replay.keys() == of_live.keys() - gone


postgresql = one_of([database for database in DATABASES if database.name == "postgresql"])


@pytest.mark.parametrize(("durable", "kind"), [(False, "u"), (True, "p")])
def test_state_that_ends_with_its_process_has_no_log(postgresql: Database, durable: bool, kind: str) -> None:
    """A push of many events leaves an inbox that TRUNCATE empties, which does not wait for readers of durable state."""
    with postgresql.connect(durable=durable) as cep:
        cep.register_stream("s", "k VARCHAR, v INTEGER")
        cep.create_query("q", JUMPING)
        kinds = "SELECT DISTINCT relpersistence::text FROM pg_class WHERE relkind = 'r' AND relname LIKE 'cep\\_%'"
        assert cep.database.fetch(kinds) == [(kind,)]
        file = "SELECT relfilenode FROM pg_class WHERE relname = 'cep_inbox_s'"
        (before,) = cep.database.fetch(file)
        cep.push_events("s", [({"k": "x", "v": 1}, 1)] * inboxes.TRUNCATED_FROM)
        cep.push_events("s", [({"k": "x", "v": 1}, 2)] * 20)
        assert (cep.database.fetch(file) != [before]) is not durable
        assert cep.database.fetch("SELECT COUNT(*) FROM cep_inbox_s") == [(20,)]
