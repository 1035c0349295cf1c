"""`cepbridge watch`, as a process beside a program that writes."""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

import bridge
from bridge.cli import main
from bridge.cli.service.outputs import json_of
from bridge.cli.service.webhooks import Webhook
from bridge.engine.named_processors import Result
from bridge.engine.subscription import Subscription
from bridge.history.deployment import Deployment
from bridge.history.script import ReplayScript
from tests.support import writers
from tests.support.databases import DATABASES, Database, one_of

ROOT = pathlib.Path(__file__).parents[3]

shared = one_of([database for database in DATABASES if database.name in ("sqlite", "postgresql")])

QUERIES = """
CREATE STREAM orders FROM TABLE orders (POSITION id, TIMESTAMP created_at, SINCE BEGINNING);
CREATE QUERY seen INTO TABLE seen_orders AS SELECT id, amount FROM orders;
CREATE QUERY big AS SELECT id AS "order", amount FROM orders WHERE amount > 100;
CREATE QUERY weight AS SELECT ABS(amount) AS weight FROM orders WHERE amount < -1000;
CREATE QUERY sent AS SELECT id AS "order" FROM orders WHERE amount < 0 AND amount > -1000;
"""


def until(is_so: Callable[[], bool], watch: Watch | None = None) -> None:
    """Waits for a condition, beside a process that is not to end before."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, f"it did not come about: {watch.said if watch is not None else ''}"
        assert watch is None or watch.process.poll() is None, watch.said
        time.sleep(0.02)


class Receiver:
    """A server on loopback that answers with these states, one after the other, and then with 200."""

    def __init__(self, *states: int) -> None:
        self.got: list[dict[str, Any]] = []
        self.keys: list[str] = []
        left = list(states)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                state = left.pop(0) if left else 200
                if state == 200:
                    self.got.append(json.loads(body))
                    self.keys.append(handler.headers["Idempotency-Key"])
                handler.send_response(state)
                handler.end_headers()

            def log_message(handler, *_: Any) -> None:  # noqa: N805
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(500, 503)
    yield made
    made.close()


class Watch:
    """A process of `cepbridge watch`."""

    def __init__(self, folder: pathlib.Path, url: str, queries: str, *options: str) -> None:
        (folder / "queries.sql").write_text(queries)
        self._said = (folder / "said.txt").open("w+")
        self._printed = (folder / "printed.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bridge", "watch", url, str(folder / "queries.sql"), "--health", "0", *options],
            cwd=ROOT, stdout=self._printed, stderr=self._said,
        )  # fmt: skip

    @property
    def said(self) -> str:
        return pathlib.Path(self._said.name).read_text()

    @property
    def printed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in pathlib.Path(self._printed.name).read_text().splitlines()]

    def started(self) -> None:
        until(lambda: "caught up" in self.said or self.process.poll() is not None)
        assert self.process.poll() is None, self.said

    def health(self, path: str = "/") -> tuple[int, dict[str, Any]]:
        url = self.said.partition("shown at ")[2].split("\n")[0]
        try:
            with urllib.request.urlopen(url.rstrip("/") + path, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def end(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Ends it; gives the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        assert self.process.wait(10) == 0, self.said
        return time.monotonic() - began

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._said.close()
        self._printed.close()


@pytest.fixture
def shop(shared: Database, tmp_path: pathlib.Path) -> Iterator[sa.Engine]:
    waits = {"connect_args": {"timeout": 30}} if shared.name == "sqlite" else {}
    engine = sa.create_engine(shared.durable(tmp_path), **waits)
    writers.create(engine, "orders")
    yield engine
    engine.dispose()


def url_of(engine: sa.Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def order(engine: sa.Engine, *amounts: int) -> None:
    with engine.begin() as connection:
        for amount in amounts:
            connection.execute(sa.text("INSERT INTO orders (amount) VALUES (:amount)"), {"amount": amount})


def seen(engine: sa.Engine) -> list[Any]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text("SELECT id, amount FROM seen_orders ORDER BY id"))]


def test_stopped_changed_and_started_again(shop: sa.Engine, tmp_path: pathlib.Path, receiver: Receiver) -> None:
    hook = f"sent={receiver.url}"
    order(shop, 1, 200)
    with Watch(tmp_path, url_of(shop), QUERIES, "--webhook", hook) as watch:
        watch.started()
        order(shop, 300, -1, -2)
        until(lambda: len(receiver.got) == 2)
        assert [each["order"] for each in receiver.got] == [4, 5]
        assert receiver.keys == [each["result_id"] for each in receiver.got]
        until(lambda: len(watch.printed) == 2)
        until(lambda: watch.health("/ready")[1]["webhooks"].get("sent", {}).get("sent") == 2)
        code, state = watch.health("/ready")
        assert code == 200
        assert state["tables"]["orders"]["position"] == 5
        assert state["tables"]["orders"]["behind"] == 0
        assert watch.end() < 1.5
        assert [(each["query"], each["order"]) for each in watch.printed] == [("big", 2), ("big", 3)]
    order(shop, 400, -3)
    changed = QUERIES.replace("amount > 100", "amount > 350")
    with Watch(tmp_path, url_of(shop), changed, "--webhook", hook) as watch:
        watch.started()
        assert "the query big has changed" in watch.said
        order(shop, 300, 500, -(2**63))  # the absolute value of the last one is too large
        until(lambda: len(watch.printed) == 2 and len(receiver.got) == 3 and len(seen(shop)) == 10, watch)
        until(lambda: "the query 'weight' is stopped" in watch.said, watch)
        until(lambda: list(watch.health()[1]["stopped"]) == ["weight"])
        assert watch.end(signal.SIGINT) < 1.5
        assert [each["order"] for each in watch.printed] == [6, 9]
        assert watch.said.rstrip().endswith("ended")
    assert receiver.got[-1]["order"] == 7
    assert seen(shop) == [
        (at, amount) for at, amount in enumerate((1, 200, 300, -1, -2, 400, -3, 300, 500, -(2**63)), 1)
    ]


def test_notify_and_a_lost_connection(shop: sa.Engine, tmp_path: pathlib.Path) -> None:
    if shop.dialect.name == "sqlite":
        pytest.skip("SQLite has neither")
    heard: set[int] = set()
    with Watch(tmp_path, url_of(shop), QUERIES, "--notify", "big=alerts") as watch:
        watch.started()
        url = shop.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("LISTEN alerts")
            order(shop, 200)
            heard |= {json.loads(each.payload)["order"] for each in other.notifies(timeout=10, stop_after=1)}
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
                          "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")  # fmt: skip
            order(shop, 300)
            end = time.monotonic() + 20
            while 2 not in heard and time.monotonic() < end:
                heard |= {json.loads(each.payload)["order"] for each in other.notifies(timeout=1, stop_after=1)}
        assert heard == {1, 2}
        assert watch.end() < 1.5
        assert watch.printed == []


def test_check_creates_nothing(shop: sa.Engine, tmp_path: pathlib.Path) -> None:
    names = ("queries.sql", "alerts.epl", "found.cpl")
    texts = (
        QUERIES + "CREATE STREAM changes FROM CHANGES OF orders;",
        "@name('old') select old_amount from changes where operation = 'delete'",
        "INSERT INTO negative SELECT id FROM orders WHERE amount < 0",
    )
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text)
    before = sa.inspect(shop).get_table_names()
    paths = [str(tmp_path / name) for name in names]
    result = CliRunner().invoke(
        main, ["watch", url_of(shop), *paths, "--check", "--webhook", "sent=http://example.org"]
    )
    assert result.exit_code == 0, result.output
    for text in (
        "orders: TABLE orders (POSITION id, TIMESTAMP created_at, SINCE BEGINNING), as (id BIGINT",
        "the table seen_orders, with the results of seen", "on orders: cep_changes_changes_", "old: new", "negative: new",
        "sent: to a webhook", "big: to standard output", "nothing was done",
    ):  # fmt: skip
        assert text.replace("BIGINT", "") in result.output.replace("BIGINT", "").replace("INTEGER", "")
    assert sa.inspect(shop).get_table_names() == before


def test_check_and_status_leave_a_file_unchanged(tmp_path: pathlib.Path) -> None:
    """SQLite's file itself says how it is written, which a bridge changes."""
    file = tmp_path / "shop.db"
    with sa.create_engine(f"sqlite:///{file}").begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    before = file.read_bytes()
    code, output = check(f"sqlite:///{file}", tmp_path, "CREATE STREAM orders FROM TABLE orders (POSITION id)")
    assert code == 0, output
    CliRunner().invoke(main, ["status", f"sqlite:///{file}"])
    assert file.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"shop.db", "q.sql"}
    with bridge.connect(f"sqlite:///{file}") as cep:
        assert cep.database.fetch("PRAGMA journal_mode") == [("wal",)]


def test_explain_shows_how_tables_are_read(shop: sa.Engine, tmp_path: pathlib.Path) -> None:
    """And makes nothing in their database."""
    (tmp_path / "q.sql").write_text(
        "CREATE STREAM orders FROM TABLE orders (POSITION id); CREATE STREAM changes FROM CHANGES OF orders;"
        "CREATE QUERY big AS SELECT id FROM orders WHERE amount > 100;"
        "CREATE QUERY cut AS SELECT id FROM changes WHERE amount < old_amount"
    )
    before = sa.inspect(shop).get_table_names()
    result = CliRunner().invoke(main, ["explain", str(tmp_path / "q.sql"), "--db", url_of(shop)])
    assert result.exit_code == 0, result.output
    for text in (
        "-- stream orders, rows of TABLE orders (POSITION id, SINCE NOW), each time after the newest position, and in the gaps",
        "-- stream changes, rows of CHANGES OF orders\nCREATE ", "CREATE TRIGGER",
    ):  # fmt: skip
        assert text in result.output
    assert sa.inspect(shop).get_table_names() == before
    order(shop, 1)  # no trigger fails
    result = CliRunner().invoke(main, ["explain", str(tmp_path / "q.sql")])
    assert result.exit_code == 1
    assert "the stream 'orders': there is no table 'orders' in the database" in result.output
    assert "(--db names the database of the table)" in result.output


def test_check_says_which_state_begins_anew(tmp_path: pathlib.Path) -> None:
    """A column that the table of results has got by hand is no reason to refuse; a query further down is unchanged."""
    text = """CREATE STREAM s (k VARCHAR, v INTEGER);
        CREATE QUERY m INTO TABLE ms AS SELECT * FROM s MATCH_RECOGNIZE (MEASURES {} PATTERN (A B) WITHIN {} S);
        CREATE QUERY w AS SELECT SUM(v) AS t FROM s WINDOW(ROWS {});"""
    url, file = f"sqlite:///{tmp_path}/state.db", tmp_path / "q.sql"
    with bridge.connect(url) as cep:
        Deployment(cep, [ReplayScript.of(text.format("A.v AS a", 5, 2))]).deploy()
        cep.database.execute("ALTER TABLE ms ADD COLUMN b INTEGER")
    for measures, within, rows, said in (
        ("A.v AS a, B.v AS b", 5, 2, ["m: changed, is replaced", "w: unchanged"]),
        (
            "A.v AS a",
            6,
            2,
            ["m: changed, is replaced and begins without the state of MatchRecognize A B", "w: unchanged"],
        ),
        ("A.v AS a", 5, 3, ["m: unchanged", "w: changed, is replaced and begins without the state of Window(ROWS 2)"]),
    ):
        file.write_text(text.format(measures, within, rows))
        result = CliRunner().invoke(main, ["watch", url, str(file), "--check"])
        assert result.exit_code == 0, result.output
        lines = [line.strip() for line in result.output.splitlines()]
        assert [line for line in lines if line.startswith(("m:", "w:"))][: len(said)] == said


def test_check_of_a_bridge_with_a_name(tmp_path: pathlib.Path) -> None:
    (tmp_path / "state.db").touch()
    text = "SELECT MAX(v) AS t FROM s[v: INTEGER] WINDOW(ROWS 2)"
    _, output = check(f"sqlite:///{tmp_path}/state.db", tmp_path, text, "--name", "a")
    assert "cep__a_inbox, cep__a_inbox_s, cep__a_processors, cep__a_results_q, cep__a_window_s\n" in output


def test_check_knows_the_declared_types_of_joined_tables(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER)"))
        connection.execute(sa.text("CREATE TABLE customers (number INTEGER, since DATE)"))
    text = """CREATE STREAM orders FROM TABLE orders (POSITION id);
        CREATE QUERY late AS SELECT id FROM orders, customers WHERE customer = number AND since > DATE '2020-01-01'"""
    code, output = check(url, tmp_path, text)
    assert code == 0, output


def check(url: str, folder: pathlib.Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "q.sql").write_text(text)
    result = CliRunner().invoke(main, ["watch", url, str(folder / "q.sql"), "--check", *options])
    return result.exit_code, result.output


PUSHED = """CREATE STREAM s (v INTEGER);
    CREATE STREAM orders FROM TABLE orders (POSITION id);
    CREATE QUERY sums INTO TABLE totals AS SELECT SUM(v) AS t FROM s WINDOW(RANGE 1 H);
    CREATE QUERY large AS SELECT t FROM sums WHERE t > 9;
    CREATE QUERY paid AS SELECT amount FROM orders;"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("s (v INTEGER)", "s (v BIGINT)", "with other attributes: (v INTEGER), not (v BIGINT)"),
        ("s (v INTEGER)", "s FROM TABLE orders (POSITION id)", "(v INTEGER), and not (id"),
        ("orders FROM TABLE orders", "orders FROM TABLE others", "FROM TABLE orders (POSITION id, SINCE NOW), and not"),
        ("orders FROM TABLE orders (POSITION id)", "orders (amount INTEGER)", "SINCE NOW), and not (amount INTEGER)"),
        ("CREATE QUERY sums INTO TABLE totals AS SELECT SUM(v) AS t FROM s WINDOW(RANGE 1 H);", "",
         "'sums' is in none of the files, and is read by 'large'"),
    ],
)  # fmt: skip
def test_check_refuses_what_the_start_refuses(tmp_path: pathlib.Path, before: str, after: str, said: str) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    with bridge.connect(url) as cep:
        for table in ("orders", "others"):
            cep.database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, amount INTEGER)")
        Deployment(cep, [ReplayScript.of(PUSHED)]).deploy()
    changed = PUSHED.replace(before, after)
    with bridge.connect(url) as cep, pytest.raises(bridge.BridgeError) as refused:
        Deployment(cep, [ReplayScript.of(changed)]).deploy()
    code, output = check(url, tmp_path, changed)
    assert (code, output) == (1, f"error: {refused.value}\n")
    assert said in output
    assert "remove_stream" not in output


def test_a_column_with_the_name_of_a_key_is_refused(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with bridge.connect(url) as cep:
        cep.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
    declared = "CREATE STREAM orders FROM TABLE orders (POSITION id);"
    code, output = check(url, tmp_path, f"{declared} CREATE QUERY big AS SELECT amount AS result_id FROM orders")
    assert (code, "'big' has a column 'result_id', which is a key of each line already" in output) == (1, True)
    query = "CREATE QUERY big INTO TABLE found AS SELECT amount AS result_id FROM orders"
    assert check(url, tmp_path, f"{declared} {query}")[0] == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT pressure FROM orders", "unknown column 'pressure'"),
        ("SELECT SUM(amount) AS t FROM orders, orders o", "a correlation needs a window"),
    ],
)
def test_check_refuses_a_wrong_query_on_a_server(tmp_path: pathlib.Path, text: str, said: str) -> None:
    url = DATABASES[2].fresh()
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id BIGINT, amount INTEGER)"))
    stream = "CREATE STREAM orders FROM TABLE orders (POSITION id);"
    code, output = check(url, tmp_path, f"{stream} CREATE QUERY q AS {text}")
    assert code == 1
    assert said in output
    code, output = check(url, tmp_path, f"{stream} CREATE QUERY q AS SELECT to_char(amount, '999') AS t FROM orders")
    assert code == 0, output  # which the database in memory does not have


def test_columns_of_other_types_are_declared_and_cast(tmp_path: pathlib.Path) -> None:
    url = DATABASES[2].fresh()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TYPE kind AS ENUM ('a', 'b')"))
        connection.execute(sa.text("CREATE TABLE r (id BIGINT, k kind, n NUMERIC, j JSONB, u UUID, l TEXT[])"))
        connection.execute(sa.text("INSERT INTO r VALUES (1, 'a', 0.1, '{\"x\": [1]}', NULL, '{y,z}')"))
    query = "CREATE QUERY q INTO TABLE found AS SELECT * FROM r"
    code, output = check(url, tmp_path, f"CREATE STREAM r FROM TABLE r (POSITION id, SINCE BEGINNING); {query}")
    assert code == 0
    advised = output[output.index("CREATE STREAM r (") : output.index("\nreads")]
    with bridge.connect(url) as cep:
        Deployment(cep, [ReplayScript.of(f"{advised}; {query}")]).deploy()
        cep.poll()
        (found,) = cep.database.fetch("SELECT k, n, j, u, l FROM found")
    assert found == ("a", "0.1", '{"x": [1]}', None, "{y,z}")
    with (
        pytest.raises(
            bridge.SchemaError, match=r"the column 'l' of r cannot be read as VARCHAR\[\] .*declare it VARCHAR"
        ),
        bridge.connect(url, fresh=True) as cep,
    ):
        cep.register_stream("r", "id BIGINT, l VARCHAR[]", table="r", position="id")
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TYPE kind CASCADE"))


def test_streams_that_are_of_no_table_are_named(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    bridge.connect(url).close()
    code, output = check(url, tmp_path, "CREATE STREAM s (v INTEGER); CREATE QUERY q AS SELECT v FROM s")
    assert code == 0
    assert "  s: is not of a table, so nothing is read into it: CREATE STREAM … FROM TABLE …" in output.splitlines()


def test_check_of_tables_with_names_in_quotes_and_schemas(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    with bridge.connect(url) as cep:
        cep.database.execute('CREATE TABLE "my orders" (id INTEGER PRIMARY KEY, amount INTEGER)')
        cep.database.execute('CREATE TABLE "order" (id INTEGER, amount INTEGER)')
    text = """CREATE STREAM o FROM TABLE "my orders" (POSITION id);
        CREATE QUERY q AS SELECT o.amount FROM o WINDOW(NOW), {} p WHERE o.id = p.id"""
    for table in '"my orders"', '"order"', 'main."order"':
        code, output = check(url, tmp_path, text.format(table))
        assert code == 0, output
        assert "  q: new\n" in output


def test_check_names_the_tables_that_are_made(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    with bridge.connect(url) as cep:
        cep.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
        Deployment(cep, [ReplayScript.of(PUSHED.rpartition("CREATE QUERY")[0])]).deploy()
        before = set(cep.database.table_names())
    added = PUSHED + "CREATE QUERY means AS SELECT AVG(amount) AS m FROM orders WINDOW(RANGE 1 H)"
    code, output = check(url, tmp_path, added)
    assert code == 0
    assert [line.strip() for line in output.splitlines() if "unchanged" in line or ": new" in line] == [
        "orders: unchanged", "s: unchanged", "sums: unchanged", "large: unchanged", "paid: new", "means: new",
    ]  # fmt: skip
    (named,) = (line.partition("(cep_…): ")[2].split(", ") for line in output.splitlines() if "(cep_…)" in line)
    with bridge.connect(url) as cep:
        Deployment(cep, [ReplayScript.of(added)]).deploy()
        for query in ("large", "paid", "means"):
            Subscription(cep, query, "watch:printed")
        assert set(named) == {
            name for name in set(cep.database.table_names()) - before if not name.startswith("cep_index")
        }
    code, output = check(url, tmp_path, added.replace("SUM(v)", "MAX(v)").replace("CREATE STREAM orders", "CREATE STREAM o")
                         .replace("FROM orders", "FROM o"))  # fmt: skip
    for line in ("o: new", "orders: in none of the files, is removed", "sums: changed, is replaced",
                 "large: begins anew, as it reads a query that has changed"):  # fmt: skip
        assert f"  {line}\n" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["duckdb:///x.duckdb", "q.sql"], "only one process at a time can open a DuckDB file"),
        (["shop.db", "q.sql"], "'shop.db' is not a URL: a database URL reads"),
        (["nowhere://shop", "q.sql"], "Can't load plugin: sqlalchemy.dialects:nowhere"),
        (["{url}", "q.sql", "--poll", "1"], "a duration reads like '500 MS'"),
        (["sqlite:///not_there.db", "q.sql"], "there is no database not_there.db"),
        (["{url}", "q.sql", "--into", "missing=t"], "--into: there is no query 'missing' in the files"),
        (["{url}", "q.sql", "--webhook", "sent=ftp://x"], "the URL begins with http:// or https://"),
        (["{url}", "q.sql", "--notify", "alerts"], "--notify is for PostgreSQL, and this is SQLite"),
        (["{url}", "wrong.sql", "--check"], "there is no table 'nowhere'"),
    ],
)
def test_what_is_refused(tmp_path: pathlib.Path, monkeypatch: Any, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("q.sql").write_text(QUERIES)
    pathlib.Path("wrong.sql").write_text("CREATE STREAM s FROM TABLE nowhere (POSITION id)")
    engine = sa.create_engine("sqlite:///shop.db")
    writers.create(engine, "orders")
    engine.dispose()
    result = CliRunner().invoke(main, ["watch", *(each.format(url="sqlite:///shop.db") for each in arguments)])
    assert result.exit_code == 1
    assert message in result.output


def test_another_bridge_has_the_lock(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windows.databases.sqlite.LOCK_TIMEOUT", 0.1)
    url = f"sqlite:///{tmp_path}/shop.db"
    engine = sa.create_engine(url)
    writers.create(engine, "orders")
    engine.dispose()
    (tmp_path / "queries.sql").write_text(QUERIES)
    with bridge.connect(url):
        result = CliRunner().invoke(main, ["watch", url, str(tmp_path / "queries.sql")])
    assert result.exit_code == 1
    assert "another bridge is at work" in result.output


def test_a_webhook_that_refuses(tmp_path: pathlib.Path) -> None:
    """The result is a dead letter, the next one is sent."""
    receiver = Receiver(400, 400)
    with bridge.connect(f"sqlite:///{tmp_path}/shop.db") as cep, contextlib.closing(receiver):
        cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
        webhook = Webhook(Subscription(cep, "q", "hook"), receiver.url, attempts=2)
        webhook.start()
        cep.push_events("s", [([1], 1000), ([2], 2000)])
        until(lambda: len(receiver.got) == 1)
        webhook.end(5)
        assert receiver.got[0]["a"] == 2
        (letter,) = cep.dead_letters()
        assert (letter.store, letter.query, letter.attempts, letter.reason) == (
            "webhook",
            "q",
            2,
            "HTTP 400 Bad Request",
        )
        assert json.loads(letter.parameters[0])["a"] == 1
        assert letter.id == "q/1000/1/0"
    done = CliRunner().invoke(main, ["status", f"sqlite:///{tmp_path}/shop.db"])
    assert "1 dead letter" in done.output


def test_json_of_values() -> None:
    import datetime
    import decimal

    values = {
        "d": datetime.date(2026, 1, 2),
        "n": decimal.Decimal("1.50"),
        "f": float("inf"),
        "l": [1, float("nan")],
        "t": "é",
    }
    assert json.loads(json_of("q", Result(values, 5, "q/5/1/0"))) == {
        "query": "q", "ts": 5, "result_id": "q/5/1/0", "d": "2026-01-02", "n": "1.50", "f": None, "l": [1, None], "t": "é",
    }  # fmt: skip


def test_signals_end_it_while_it_stands_by(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with bridge.connect(url), Watch(tmp_path, url, QUERIES, "--standby") as watch:
        until(lambda: "health is shown" in watch.said)
        time.sleep(0.2)
        assert watch.health()[0] == 503
        assert watch.end() < 1.5
