"""Database URLs: how they are shown without secrets, and hints for those that cannot be opened."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

EXAMPLES = "a database URL reads duckdb:///file.db, sqlite:///file.db, postgresql+psycopg://…, mariadb+pymysql://…"


EXTRAS = {"psycopg": "postgresql", "pymysql": "mysql"}
"""The extra of pyproject.toml that installs a driver, by the driver's module."""

_PASSWORD = re.compile(r"(://[^/:@?]*):(?:.*)@")
_PARAMETER = re.compile(r"([?&;])([^=&;?]+)=([^&;]*)")
_CONNECTION = re.compile(r"(?i)\b(\w*(?:password|passwd|pwd|secret|token))\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&;?@)'\"]+)")
_SECRET = re.compile(r"(?i)passw|pwd|secret|token|credential")
"""Parameters of a URL whose value is not shown."""


_IN_MEMORY = ("duckdb://", "duckdb:///:memory:", "sqlite://", "sqlite:///:memory:")


def is_in_memory(target: object) -> bool:
    """Whether each connection to a URL has a database of its own, in memory.

    >>> is_in_memory("duckdb://?threads=1"), is_in_memory("duckdb:///file.db")
    (True, False)
    """
    return isinstance(target, str) and target.partition("?")[0] in _IN_MEMORY


def without_password(target: object) -> str:
    """A database URL, or a text that contains one, in a form that may be shown.

    >>> without_password("mysql://me:sec/ret@host/x?password=secret&charset=utf8")
    'mysql://me:***@host/x?password=***&charset=utf8'
    >>> without_password("postgresql://host/x?p%61ssword=secret"), without_password("host=h password='a b'")
    ('postgresql://host/x?p%61ssword=***', 'host=h password=***')
    """
    shown = _PASSWORD.sub(r"\1:***@", str(target))
    shown = _PARAMETER.sub(_shown_parameter, shown)
    return _CONNECTION.sub(r"\1=***", shown)


def _shown_parameter(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    return f"{mark}{name}={'***' if _SECRET.search(unquote(name)) else value}"


def hidden(text: object, target: object) -> str:
    """A message of a library or a server without the password of the URL or engine that it is about.

    >>> hidden("bad value 's ecret' in s%20ecret", "mysql://me:s%20ecret@host/x")
    "bad value '***' in ***"
    """
    shown = without_password(text)
    for secret in sorted(_secrets(target), key=len, reverse=True):
        shown = shown.replace(secret, "***")
    return shown


def _secrets(target: object) -> set[str]:
    """The passwords in a URL, as written and decoded.

    Those of one letter are left out, as they could be part of any text.
    """
    url = getattr(target, "url", target)
    url = url.render_as_string(hide_password=False) if hasattr(url, "render_as_string") else str(url)
    found = [match[0].split(":", 2)[-1][:-1] for match in _PASSWORD.finditer(url)]
    found += [value for _, name, value in _PARAMETER.findall(url) if _SECRET.search(unquote(name))]
    return {text for each in found for text in (each, unquote(each), unquote_plus(each)) if len(text) > 1}


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
    ": pip install '.[postgresql]'"
    """
    extra = EXTRAS.get((driver or "").lower())
    if extra is None and driver == "psycopg2":
        return ": write postgresql+psycopg://, and pip install '.[postgresql]'"
    if extra is None and driver == "MySQLdb":
        return ": write mariadb+pymysql://, and pip install '.[mysql]'"
    return f": pip install '.[{extra}]'" if extra else f" ({EXAMPLES})"
