"""The databases the tests run on, and `--update-plans`."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from typing import Any

import pytest


@dataclasses.dataclass(frozen=True)
class Database:
    """A database to test on: its URL, or the environment variable that holds it, and the module that is its driver."""

    name: str
    url: str = ""
    driver: str = ""
    variable: str = ""

    def missing(self) -> str | None:
        """Why it cannot be tested here, or None."""
        if self.driver and importlib.util.find_spec(self.driver) is None:
            return f"{self.name}: the driver {self.driver} is not installed"
        if self.variable and not os.environ.get(self.variable):
            return f"{self.name}: ${self.variable} holds no URL"
        return None

    def connect(self) -> Any:
        """A bridge on it; without a URL the one that `connect()` takes by itself."""
        import bridge

        url = os.environ.get(self.variable, self.url) if self.variable else self.url
        return bridge.connect(*[url] if url else [])


DATABASES = (
    Database("duckdb", driver="duckdb"),
    Database("sqlite", "sqlite://", driver="sqlalchemy"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-plans", action="store_true", help="write tests/plans anew from explain()")


@pytest.fixture(params=DATABASES, ids=lambda database: database.name)
def database(request: pytest.FixtureRequest) -> Database:
    """Each database in turn; one that is missing is skipped, with the reason, but fails where CI is set."""
    missing = request.param.missing()
    if missing and os.environ.get("CI"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    found: Database = request.param
    return found
