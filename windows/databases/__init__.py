"""The databases a bridge runs on, found by URL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from windows.databases.base import Database, Refused

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["Database", "Refused", "open_database"]


def open_database(target: Any = "duckdb://") -> Database:
    """The database of a URL (`duckdb://`, `duckdb:///file`, any SQLAlchemy URL), an Engine, or a DuckDB connection.

    Drivers are imported here, when one is wanted, and not before.
    """
    if isinstance(target, Database):
        return target
    if isinstance(target, str) and target.startswith("duckdb:"):
        from windows.databases.duckdb import DuckDB

        path = target.removeprefix("duckdb:").removeprefix("//").removeprefix("/")
        return DuckDB(path if path not in ("", ":memory:") else ":memory:")
    if type(target).__name__ == "DuckDBPyConnection":
        from windows.databases.duckdb import DuckDB

        return DuckDB(target)
    return _alchemy(target)


def _alchemy(target: Any) -> Database:
    import sqlalchemy as sa

    from windows.databases.alchemy import Alchemy

    try:
        engine = target if isinstance(target, sa.Engine) else _engine(sa.make_url(target))
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
        raise Refused(
            f"{error} (a database URL reads duckdb:///file.db, sqlite:///file.db, postgresql+psycopg://…, mariadb+pymysql://…)",
            _without_password(target),
        ) from None
    match engine.dialect.name:
        case "sqlite":
            from windows.databases.sqlite import SQLite

            return SQLite(engine)
        case "postgresql":
            from windows.databases.postgresql import PostgreSQL

            return PostgreSQL(engine)
        case "mysql" | "mariadb":
            from windows.databases.mysql import MySQL

            return MySQL(engine)
    return Alchemy(engine)


def _without_password(target: object) -> str:
    """
    >>> _without_password("mysql://me:secret@host/x")
    'mysql://me:***@host/x'
    """
    return re.sub(r"(://[^/:@]*):[^/@]*@", r"\1:***@", str(target))


def _engine(url: sa.URL) -> sa.Engine:
    """The engine of a URL. Any thread may use a SQLite connection, as the bridge lets in one at a time; and Python's
    SQLite keeps only 128 statements prepared unless told otherwise."""
    import sqlalchemy as sa

    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url)
    prepared = {"cached_statements": 100_000} if url.drivername in ("sqlite", "sqlite+pysqlite") else {}
    pool = sa.StaticPool if url.database in (None, "", ":memory:") else sa.NullPool
    return sa.create_engine(url, poolclass=pool, connect_args={"check_same_thread": False, **prepared})
