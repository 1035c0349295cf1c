"""What a changed script changes in a durable bridge."""

from __future__ import annotations

import concurrent.futures
import pathlib
import sqlite3
import time

import pytest

import bridge
from bridge.engine.subscription import Subscription
from bridge.history.deployment import Deployment
from bridge.history.script import ReplayScript
from tests.support.crashes import Crash, crash_after, die
from tests.support.databases import Database, tables_of

STREAM = "CREATE STREAM s (k VARCHAR, a INTEGER);"


class Place:
    """A database, and what deployments in it say."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file = folder / "state.db"

    def deploy(self, *texts: str, **options: bool) -> list[str]:
        notes: list[str] = []
        with bridge.connect(f"sqlite:///{self.file}") as cep:
            Deployment(cep, [script_of(text) for text in texts], note=notes.append).deploy(**options)
        return notes

    def do(self, sql: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.file)
        with connection:
            found = connection.execute(sql).fetchall()
        connection.close()
        return found


def script_of(text: str) -> ReplayScript:
    language, _, rest = text.partition(": ")
    return ReplayScript.of(rest, "epl_query", language) if language in ("epl", "cpl") else ReplayScript.of(text)


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    return Place(tmp_path)


def test_new_changed_unchanged_and_removed(place: Place) -> None:
    one = f"{STREAM} CREATE QUERY q AS SELECT a FROM s; CREATE QUERY r AS SELECT k FROM s;"
    assert place.deploy(one) == ["the query q is new", "the query r is new"]
    assert place.deploy(one) == []
    assert place.deploy(one.replace("SELECT a", "SELECT a + 1 AS a")) == ["the query q has changed"]
    assert place.deploy(STREAM, removes=False) == []
    assert place.deploy(STREAM) == ["the query q is removed", "the query r is removed"]
    assert place.deploy("CREATE STREAM t (a INTEGER)") == ["the stream s is removed"]


def test_a_query_that_reads_a_changed_one_begins_anew(place: Place) -> None:
    text = f"""{STREAM} CREATE QUERY q AS SELECT a FROM s; CREATE QUERY r AS SELECT MAX(a) AS a FROM q WINDOW(ROWS 3);
               CREATE QUERY t AS SELECT a FROM r WHERE a > 1;"""
    place.deploy(text)
    assert place.deploy(text.replace("SELECT a FROM s", "SELECT a FROM s WHERE a > 0")) == [
        "the query t begins anew, as it reads q", "the query r begins anew, as it reads q", "the query q has changed",
        "the query r is new", "the query t is new",
    ]  # fmt: skip


def test_a_removed_query_may_read_a_changed_one(place: Place) -> None:
    text = f"{STREAM} CREATE QUERY q AS SELECT a FROM s; CREATE QUERY r AS SELECT a FROM q;"
    place.deploy(text)
    changed = f"{STREAM} CREATE QUERY q AS SELECT k FROM s;"
    assert place.deploy(changed) == ["the query r is removed", "the query q has changed"]


def test_results_that_wait_are_not_thrown_away(place: Place) -> None:
    one = f"{STREAM} CREATE QUERY q AS SELECT a FROM s; CREATE QUERY r AS SELECT a FROM q;"
    place.deploy(one)
    with bridge.connect(f"sqlite:///{place.file}") as cep:
        mailer = Subscription(cep, "r", "mailer")
        cep.push_event("s", ["k", 1], 1000)
    with pytest.raises(bridge.QueryError, match=r"'r' reads 'q', .* has results that are still to be delivered"):
        place.deploy(one.replace("SELECT a FROM s", "SELECT a FROM s WHERE a > 0"))
    assert place.deploy(STREAM) == [
        "the query r stays until its results are delivered: a later start removes it",
        "the query q stays until its results are delivered: a later start removes it",
    ]
    with bridge.connect(f"sqlite:///{place.file}") as cep:
        mailer = Subscription(cep, "r", "mailer")
        mailer.advance(mailer.fetch(10)[-1][0])
    assert place.deploy(STREAM) == ["the query r is removed", "the query q is removed"]


def test_a_stream_keeps_its_attributes_when_its_table_gets_columns(place: Place) -> None:
    place.do("CREATE TABLE orders (id INTEGER PRIMARY KEY, a INTEGER)")
    text = """CREATE STREAM o FROM TABLE orders (POSITION id); CREATE STREAM c FROM CHANGES OF orders;
              CREATE QUERY q AS SELECT a FROM o; CREATE QUERY r AS SELECT a, old_a FROM c;"""
    place.deploy(text)
    place.do("ALTER TABLE orders ADD COLUMN b INTEGER")
    assert place.deploy(text) == [
        "the columns of orders have changed, the stream o keeps the earlier ones: id INTEGER, a INTEGER",
        "the columns of orders have changed, the stream c keeps the earlier ones: id INTEGER, a INTEGER",
    ]
    assert place.deploy("CREATE STREAM o FROM TABLE orders (POSITION id)")[-1] == "the stream c is removed"
    assert place.do("SELECT COUNT(*) FROM sqlite_master WHERE type = 'trigger'") == [(0,)]


def test_several_scripts_of_all_languages(place: Place) -> None:
    epl = "epl: @name('e') select k, a from s where a > 5"
    cpl = "cpl: INSERT INTO c SELECT k, a FROM s WHERE a > 7; INSERT INTO TABLE found SELECT k FROM c"
    notes = place.deploy(STREAM, epl, cpl, "CREATE QUERY last AS SELECT k FROM e")
    assert notes == [f"the query {name} is new" for name in ("e", "c", "table found", "last")]
    assert place.deploy(STREAM, epl, cpl, "CREATE QUERY last AS SELECT k FROM e") == []
    with pytest.raises(bridge.QueryError, match="'e' is created in two of the files"):
        place.deploy(STREAM, epl, epl)


def test_other_threads_wait_for_a_deployment() -> None:
    """Its transaction is on the connection that a status reads, too."""
    with bridge.connect("sqlite://") as cep, concurrent.futures.ThreadPoolExecutor(1) as pool:
        reads = list[concurrent.futures.Future[object]]()

        def note(_: str) -> None:
            reads.append(pool.submit(cep.status))
            assert not concurrent.futures.wait(reads, 0.1).done

        Deployment(cep, [script_of(f"{STREAM} CREATE QUERY q AS SELECT a FROM s")], note=note).deploy()
        assert [len(read.result(60).queries) for read in reads] == [1]


def test_what_a_file_reads_must_be_in_the_files(place: Place) -> None:
    place.deploy(f"{STREAM} CREATE QUERY q AS SELECT a FROM s")
    with pytest.raises(bridge.BridgeError, match="'q' is in none of the files, and is read by 'r'"):
        place.deploy(f"{STREAM} CREATE QUERY r AS SELECT a FROM q")


# A crash ----------------------------------------------------------------------------------------------------------------

MATCH = "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES {} AS x PATTERN (A B) WITHIN 9 S DEFINE B AS a > A.a)"
VERSIONS = [
    f"""{STREAM} CREATE QUERY q INTO TABLE of_q AS {MATCH.format("A.a")};
        CREATE QUERY r INTO TABLE of_r AS SELECT SUM(a) AS x FROM s WINDOW(RANGE 9 S);
        CREATE QUERY t AS SELECT a FROM s WHERE a > 1; CREATE QUERY u INTO TABLE of_u AS SELECT MAX(a) AS x FROM t WINDOW(ROWS 2);
        CREATE QUERY gone AS SELECT a FROM s WINDOW(ROWS 3);""",
    f"""{STREAM} CREATE STREAM s2 (a INTEGER); CREATE QUERY q INTO TABLE of_q AS {MATCH.format("A.a + B.a")};
        CREATE QUERY r INTO TABLE of_r AS SELECT COUNT(a) AS x FROM s WINDOW(RANGE 9 S);
        CREATE QUERY t AS SELECT a FROM s WHERE a > 0; CREATE QUERY u INTO TABLE of_u AS SELECT MAX(a) AS x FROM t WINDOW(ROWS 2);
        CREATE QUERY n INTO TABLE of_n AS SELECT a AS x FROM s2;""",
]
"""Two queries change and keep their state, one changes that another one reads, one goes and one comes."""


def deploy_version(cep: bridge.Bridge, version: int) -> None:
    Deployment(cep, [script_of(VERSIONS[version])]).deploy()


@pytest.mark.some_databases(2)
@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.long)])
def test_a_deployment_is_whole_after_a_crash_at_any_statement(
    database: Database, tmp_path: pathlib.Path, step: int
) -> None:
    """The next start finds the old definitions or the new ones, deploys the new ones, and no result is lost or doubled."""
    url = database.durable(tmp_path)
    wanted = None
    for calls in range(0, 3_000, step):
        cep = bridge.connect(url, fresh=True)
        cep.database.begin()
        for name in "qrun":
            cep.database.execute(f"DROP TABLE IF EXISTS of_{name}")
        cep.database.commit()
        deploy_version(cep, 0)
        for ts, value in enumerate([1, 3, 2], 1):
            cep.push_event("s", ["k", value], 1000 * ts)
        left = crash_after(cep, calls)
        is_through = True
        try:
            deploy_version(cep, 1)
        except Crash:
            is_through = False
        left[0] = 10**9
        die(cep)
        cep = bridge.connect(url)
        assert set(cep.queries) in ({"q", "r", "t", "u", "gone"}, {"q", "r", "t", "u", "n"}), calls
        deploy_version(cep, 1)
        cep.push_event("s", ["k", 4], 5000)
        found = [sorted(cep.database.fetch(f"SELECT ts, x FROM of_{name}")) for name in "qru"]
        tables = {name for name in tables_of(cep.database) if name.startswith("cep_")}
        cep.drop()
        wanted = wanted or (found, len(tables))
        assert (found, len(tables)) == wanted, calls
        if is_through:
            return
    raise AssertionError("not through")


def test_no_time_passes_over_what_a_refused_deployment_has_undone(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"""{STREAM}
        CREATE QUERY silent AS SELECT * FROM s MATCH_RECOGNIZE (
            PARTITION BY k PATTERN (A NOT B) WITHIN 1 MS DEFINE B AS TRUE);
        CREATE QUERY wrong AS SELECT b FROM s"""
    cep = bridge.connect(f"sqlite:///{tmp_path}/state.db", clock="system")
    with pytest.raises(bridge.QueryError, match="unknown column 'b'"):
        Deployment(cep, [script_of(text)], on_error="stop").deploy()
    time.sleep(0.3)  # ticks of the clock
    cep.close()
    assert not caplog.messages
