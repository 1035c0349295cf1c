"""Database URLs: what may be shown of them, and what to write where one cannot be opened."""

from __future__ import annotations

import re

EXAMPLES = "a database URL reads duckdb:///file.db, sqlite:///file.db, postgresql+psycopg://…, mariadb+pymysql://…"


def without_password(target: object) -> str:
    """A database URL to be shown.

    >>> without_password("mysql://me:secret@host/x?password=secret&charset=utf8")
    'mysql://me:***@host/x?password=***&charset=utf8'
    """
    shown = re.sub(r"(://[^/:@]*):[^/@]*@", r"\1:***@", str(target))
    return re.sub(r"(?i)([?&]\w*(?:password|passwd|pwd)=)[^&]*", r"\1***", shown)


def scheme_hint(url: str) -> str:
    """A hint for a URL whose scheme SQLAlchemy does not know; empty if there is none.

    >>> scheme_hint("postgres://me@host/app")
    'for postgres:// write postgresql+psycopg://'
    """
    begin = url.partition("://")[0]
    return f"for {begin}:// write postgresql+psycopg://" if begin in ("postgres", "psql", "pg") else ""


def install_hint(driver: str | None) -> str:
    """The command that installs a driver, if an extra has it.

    >>> install_hint("psycopg")
    ": pip install 'cep-bridge[postgresql]'"
    """
    extra = {"psycopg": "postgresql", "pymysql": "mysql"}.get((driver or "").lower())
    if extra is None and driver == "psycopg2":
        return ": write postgresql+psycopg://, and pip install 'cep-bridge[postgresql]'"
    if extra is None and driver == "MySQLdb":
        return ": write mariadb+pymysql://, and pip install 'cep-bridge[mysql]'"
    return f": pip install 'cep-bridge[{extra}]'" if extra else f" ({EXAMPLES})"
