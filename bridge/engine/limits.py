"""The limits of on-demand queries: time and memory, at which the database stops, and rows."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from bridge.errors import QueryError
from windows.databases import Database, Refused
from windows.sql import number

if TYPE_CHECKING:
    from bridge.engine.result_set import ResultSet


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of an on-demand query.

    seconds: The time of each of its statements in the database. rows: The rows of its result. megabytes: The memory
    that it may take in addition to what the database already uses; PostgreSQL has no such limit.

    >>> import bridge
    >>> with bridge.connect() as cep:
    ...     cep.query("SELECT * FROM range(1000000)", limits=Limits(rows=1000))
    Traceback (most recent call last):
    bridge.errors.QueryError: the answer has more than 1000 rows: write LIMIT, or allow more with limits=Limits(rows=…)
    """

    seconds: float = 10
    rows: int = 100_000
    megabytes: int = 512

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                raise QueryError(f"limits: {field.name} is a number above 0, not {value!r}")


@contextlib.contextmanager
def limited(limits: Limits | None, database: Database, reads_only: bool) -> Iterator[None]:
    """While the context is open, the database stops a statement that exceeds the limits; that is a QueryError."""
    if limits is None:
        yield
        return
    begin = time.monotonic()
    with database.limited(limits.seconds, limits.megabytes, reads_only):
        try:
            yield
        except (Refused, QueryError) as error:
            if time.monotonic() - begin < limits.seconds:
                raise
            raise QueryError(
                f"the query was stopped after {limits.seconds:g} seconds: narrow it, or allow more with "
                f"limits=Limits(seconds=…) ({error})"
            ) from None


def with_row_limit(tree: exp.Expr, limits: Limits) -> exp.Expr:
    """The SELECT, limited to one row more than `limits` allow.

    >>> from sqlglot import parse_one
    >>> [with_row_limit(parse_one(text), Limits(rows=9)).sql() for text in ("SELECT a FROM s", "SELECT a FROM s LIMIT 3")]
    ['SELECT a FROM s LIMIT 10', 'SELECT a FROM s LIMIT 3']
    """
    most = number(int(limits.rows) + 1)
    known = tree.args.get("limit")
    if isinstance(tree, (exp.Select, exp.SetOperation)) and not tree.args.get("offset"):
        if known is None:
            return tree.limit(most)
        if isinstance(known, exp.Limit) and isinstance(known.expression, exp.Literal) and known.expression.is_int:
            return tree.limit(most) if int(known.expression.name) > limits.rows + 1 else tree
    if isinstance(tree, exp.Values):
        return tree  # the rows are constants in its text
    inner = tree if isinstance(tree, exp.Subquery) and not tree.alias else exp.Subquery(this=tree)
    return exp.select("*").from_(inner.as_("limited", quoted=True)).limit(most)


def within_rows(limits: Limits | None, rows: ResultSet) -> ResultSet:
    """The rows. Raises QueryError if there are too many."""
    if limits is not None and len(rows) > limits.rows:
        raise QueryError(
            f"the answer has more than {limits.rows} rows: write LIMIT, or allow more with limits=Limits(rows=…)"
        )
    return rows
