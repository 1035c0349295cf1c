"""The databases the tests run on."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import pathlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tests.support import servers

if TYPE_CHECKING:
    from bridge.rewrite.settings import Settings


@dataclasses.dataclass(frozen=True)
class Database:
    """A database to test on: its URL, or the environment variable that may hold that of a server, and its driver's module.

    Without the variable a server of our own is started, see `servers`.
    """

    name: str
    url: str = ""
    driver: str = ""
    variable: str = ""

    def missing(self) -> str | None:
        """Why it cannot be tested here, or None."""
        if self.driver and importlib.util.find_spec(self.driver) is None:
            return f"{self.name}: the driver {self.driver} is not installed"
        try:
            self.fresh()
        except servers.MissingError as error:
            return f"{self.name}: {error} (or ${self.variable} holds the URL of a server)"
        return None

    def is_at(self, value: object) -> bool:
        """Whether a value is the URL of such a database."""
        return isinstance(value, str) and value.startswith(f"{self.name}://")

    def fresh(self) -> str:
        """The URL of an empty database."""
        return servers.emptied(self.name, self.variable).fresh() if self.variable else self.url

    def durable(self, folder: pathlib.Path) -> str:
        """The URL of an empty database whose tables outlive a connection: a file in the folder, or a server's."""
        return self.fresh() if self.variable else self.url.replace("://", f":///{folder / 'state.db'}")

    def present_url(self) -> str:
        """The URL of the database as it is."""
        return servers.emptied(self.name, self.variable).url if self.variable else self.url

    def connect(self, settings: Settings | None = None, **options: Any) -> Any:
        """A bridge on an empty database, perhaps with other settings; its tables are dropped when it is closed."""
        import bridge
        from bridge.engine.session import session_of

        cep = bridge.connect(self.fresh(), **{"durable": False, **options})
        if settings is not None:
            session_of(cep).settings = settings
        return cep


def tables_of(database: Any) -> set[str]:
    """The names of the tables in the database that a bridge is open on; no views, no indexes."""
    schema = {"postgres": "current_schema()", "mariadb": "DATABASE()"}.get(database.dialect, "'main'")
    listed = (
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = {schema} AND table_type = 'BASE TABLE'"
    )
    if database.dialect == "sqlite":
        listed = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return {name for (name,) in database.fetch(listed)}


DATABASES = (
    Database("duckdb", "duckdb://?threads=1", driver="duckdb"),  # small statements are faster in one thread
    Database("sqlite", "sqlite://", driver="sqlalchemy"),
    Database("postgresql", driver="psycopg", variable="BRIDGE_TEST_POSTGRESQL"),
    Database("mariadb", driver="pymysql", variable="BRIDGE_TEST_MARIADB"),
)


def present(request: pytest.FixtureRequest) -> Database:
    """A database; one that is missing is skipped, with the reason, but fails where CI is set."""
    found: Database = request.param
    if missing := found.missing():
        refuse_missing(missing)
    return found


def refuse_missing(reason: str) -> NoReturn:
    """Skips a test for this reason; fails it where CI is set."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def prepared_servers(postgresql: Callable[[], Any], mariadb: Callable[[], Any]) -> Any:
    """A fixture that is what either context manager gives; without such a server it is skipped, but fails where CI is set."""

    def prepared(request: Any) -> Iterator[Any]:
        try:
            with {"PostgreSQL": postgresql, "MariaDB": mariadb}[request.param]() as found:
                yield found
        except servers.MissingError as error:
            refuse_missing(str(error))

    return pytest.fixture(params=["PostgreSQL", "MariaDB"])(prepared)


def statements_of(block: str) -> list[str]:
    """The statements of a page's block of SQL."""
    return [statement for statement in block.split(";\n") if statement.strip()]


def one_of(databases: Sequence[Database]) -> Any:
    """A fixture that is each of these in turn."""
    return pytest.fixture(params=databases, ids=lambda database: database.name)(present)


def is_in_turn(test: pytest.Function, count: int) -> bool:
    """True for a test on one of the `count` databases that are in turn with its other parameters.

    The database is a parameter, or the URL of one is; a test without one is always in turn. Two seeds in succession are
    on different databases, so that all tests of a function are on all databases together.
    """
    values = list(test.callspec.params.values()) if hasattr(test, "callspec") else []
    places = [
        place for place, each in enumerate(DATABASES) if any(value is each or each.is_at(value) for value in values)
    ]
    if not places:
        return True
    place = places[0]
    numbers = [value for value in values if isinstance(value, int)]
    besides = {DATABASES[place].name, *map(str, numbers)}
    words = [
        word
        for word in f"{test.originalname}-{test.callspec.id}".split("-")
        if word not in besides and not DATABASES[place].is_at(word)
    ]
    turn = zlib.crc32("-".join(words).encode()) + sum(numbers)
    return (place - turn) % (len(DATABASES) // count) == 0
