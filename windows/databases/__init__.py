"""The databases that a bridge runs on, opened by URL."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from windows.databases.base import Database
from windows.databases.refused import Refused
from windows.databases.urls import EXAMPLES, hidden, install_hint, scheme_hint, without_password

if TYPE_CHECKING:
    import sqlalchemy as sa

    from windows.databases.alchemy import Alchemy

__all__ = ["Database", "Refused", "open_database"]


_SHARED = {"mysql": "mariadb"}
"""Databases that are defined in the file of another one."""


_SIGNS = ": in a user's name and password, the signs @ : / ? # % are written %40 %3A %2F %3F %23 %25"


def open_database(target: Any = "duckdb://") -> Database:
    """Opens a database.

    Drivers are imported here, when they are needed.

    Args:
        target: `duckdb://` (in memory), `duckdb:///file`, any SQLAlchemy URL or engine, or a DuckDB connection. DuckDB's
            settings follow a `?`, as in `duckdb:///file?threads=1&memory_limit=2GB`.

    Raises:
        Refused: if the URL or its driver is unknown, or the database cannot be opened.

    >>> open_database("sqlite://").fetch("SELECT 1 + 1")
    [(2,)]
    """
    if isinstance(target, Database):
        return target
    if not _is_duckdb(target):
        return _alchemy(target)
    from windows.databases.duckdb import DuckDB

    if not isinstance(target, str):
        return DuckDB(target)
    return DuckDB(target.removeprefix("duckdb:").removeprefix("//").removeprefix("/"))


def dialect_of(target: Any) -> str:
    """sqlglot's name of the SQL of a database that is not opened; DuckDB's where `open_database` would refuse it.

    >>> dialect_of("duckdb://"), dialect_of("postgresql+psycopg://me@host/app")
    ('duckdb', 'postgres')
    """
    if isinstance(target, Database):
        return target.dialect
    if _is_duckdb(target):
        return "duckdb"
    from sqlglot import Dialect

    from windows.databases.alchemy import DIALECTS

    name = _backend(target)
    found = str(getattr(class_of(target), "dialect", DIALECTS.get(name, name)))
    return found if Dialect.get(found) else "duckdb"


def class_of(target: Any) -> type[Database] | None:
    """The class of a database that is not opened; None if a URL names no database, or a driver is missing.

    >>> class_of("sqlite:///app.db"), class_of("app.db")
    (<class 'windows.databases.sqlite.SQLite'>, None)
    """
    if not _is_duckdb(target):
        return _alchemy_class(target)
    from windows.databases.duckdb import DuckDB

    return DuckDB


def _alchemy_class(target: Any) -> type[Alchemy] | None:
    try:
        name = _backend(target)
        return _class_named(name) if name else None
    except ImportError:
        return None


def _backend(target: Any) -> str:
    """SQLAlchemy's name of a database; "" if a URL names none."""
    import sqlalchemy as sa

    try:
        return target.dialect.name if isinstance(target, sa.Engine) else sa.make_url(target).get_backend_name()
    except (sa.exc.ArgumentError, ValueError):
        return ""


def _is_duckdb(target: Any) -> bool:
    """Whether a target is a URL or a connection of DuckDB, which is opened without SQLAlchemy."""
    if isinstance(target, str):
        return target.startswith("duckdb:")
    return type(target).__name__ == "DuckDBPyConnection"


def _alchemy(target: Any) -> Database:
    import sqlalchemy as sa

    try:
        engine = target if isinstance(target, sa.Engine) else _engine(sa.make_url(target))
    except ImportError as error:
        raise Refused(f"{error}{install_hint(error.name)}", without_password(target)) from None
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ValueError) as error:  # a port that is not a number
        signs = "" if isinstance(error, sa.exc.ArgumentError) else _SIGNS
        hint = scheme_hint(str(target)) or f"{hidden(error, target)}{signs} ({EXAMPLES})"
        raise Refused(hint, without_password(target)) from None
    return _class_named(engine.dialect.name)(engine)


def _class_named(name: str) -> type[Alchemy]:
    """The class of a database by SQLAlchemy's name for it, defined in the file `windows/databases/<name>.py`.

    If there is none: the class that assumes nothing but standard SQL.

    >>> [_class_named(name).__name__ for name in ("sqlite", "oracle", "duckdb")]
    ['SQLite', 'Alchemy', 'Alchemy']
    """
    from windows.databases.alchemy import Alchemy

    module = f"{__name__}.{_SHARED.get(name, name)}"
    if importlib.util.find_spec(module) is None:
        return Alchemy
    defined = [each for each in vars(importlib.import_module(module)).values() if isinstance(each, type)]
    return next((each for each in defined if issubclass(each, Alchemy) and each.__module__ == module), Alchemy)


def _engine(url: sa.URL) -> sa.Engine:
    """The engine of a URL. A password among the parameters would be shown by `repr`, unlike one in its place."""
    import sqlalchemy as sa

    if "@" in (url.host or ""):
        raise ValueError("the name of the host has the sign @")
    for name in {"password", "passwd"} & set(url.query):
        url = url.set(password=str(url.query[name])).difference_update_query([name])
    kind = _alchemy_class(url)
    return sa.create_engine(url, **({} if kind is None else kind.engine_options(url)))
