"""The databases as fixtures, and `--update-plans`."""

from __future__ import annotations

import pytest
from databases import DATABASES, one_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-plans", action="store_true", help="write tests/plans anew from explain()")


database = one_of(DATABASES)
embedded = one_of([database for database in DATABASES if not database.variable])
server = one_of([database for database in DATABASES if database.variable])
