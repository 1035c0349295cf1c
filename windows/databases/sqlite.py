"""Differences of SQLite: no types for booleans, decimals and dates; no STDDEV; LIKE ignores case."""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, cast

import sqlalchemy as sa
from sqlglot import exp

from windows.databases.alchemy import Alchemy, decimal_of
from windows.databases.base import LOCK_TIMEOUT, NESTED_LOOP, Convert
from windows.databases.own_types import OwnType
from windows.databases.pure_functions import SQLITE, names
from windows.databases.python_aggregates import PythonAggregate, deviation_in_two_passes
from windows.databases.refused import OtherBridge, Refused
from windows.databases.sqlite_functions import create_functions
from windows.databases.sqlite_sql import SQLiteDecimals, SQLiteJson, SQLiteTimes
from windows.databases.triggers import ChangeTriggers, OutboxColumn, sqlite_triggers
from windows.nested import call
from windows.schema import Attribute, Schema, TypeMismatch, decimal_size, relation_schema
from windows.sql import identifier
from windows.types import is_nested, scalars_of, scale_of
from windows.values import json_reader, timestamp_text

_AFFINITY = {"BOOLEAN": "INTEGER", "DOUBLE": "REAL", "VARCHAR": "TEXT", "DATE": "TEXT", "TIMESTAMP": "TEXT"}
_EXACT_DIGITS = 15
"""The digits to which SQLite, which computes decimals as doubles, is exact."""

_WINDOW_FUNCTIONS = {
    "cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank", "rank",
    "row_number",
}  # fmt: skip
"""The functions that SQLite lists among aggregates, and that only windows have."""

BUSY_TIMEOUT = 30_000
"""The least milliseconds to wait for other writers of the file: SQLite's lock has no queue, so one may wait long."""

STATEMENT_LIMIT = 2_000
"""Prepared statements that a connection keeps: about 45 kB each. With Python's 128, some hundred queries would have their
statements prepared again for every event."""

MAX_DEPTH = 8
"""The depth of sub-queries up to which a statement is not flattened: SQLite's parser has a stack of 100 entries."""


_IN_QUOTES = re.compile(r"""'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|"((?:[^"]|"")+)\"""", re.DOTALL)
"""Texts, comments, and names in double quotes."""


def _in_backquotes(token: re.Match[str]) -> str:
    if token[1] is None:
        return token[0]
    name = token[1].replace('""', '"').replace("`", "``")
    return f"`{name}`"


class SQLite(SQLiteDecimals, SQLiteJson, SQLiteTimes, Alchemy):
    """SQLite, the fastest back end for single events."""

    dialect: ClassVar[str] = "sqlite"
    title: ClassVar[str] = "SQLite"
    python_types = frozenset({"SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR"})
    lists_aggregates: ClassVar[bool] = True
    compensates_sums = sqlite3.sqlite_version_info >= (3, 43)
    python_aggregates: ClassVar[Mapping[type[exp.Expr], PythonAggregate]] = MappingProxyType(
        {exp.Stddev: deviation_in_two_passes, exp.StddevSamp: deviation_in_two_passes}
    )
    ordered_aggregates = sqlite3.sqlite_version_info >= (3, 44)
    inline_event_values: ClassVar[bool] = True
    chunk_size: ClassVar[int] = 1_000
    frames_chunk_size: ClassVar[int] = 60_000
    covering_indexes: ClassVar[bool] = True
    nested_loops_only: ClassVar[bool] = True
    # Earlier versions compute other values where about 430 rows are in a sliding frame.
    fast_sliding_min_max = sqlite3.sqlite_version_info >= (3, 47)
    window_per_brief_push: ClassVar[int] = 3
    sums_in_64_bits: ClassVar[bool] = True
    pane_sizes: ClassVar[tuple[int, ...]] = (64, 4_096, 262_144)
    has_schemas: ClassVar[bool] = False
    in_memory_url: ClassVar[str | None] = "sqlite://"
    version_query: ClassVar[str] = "SELECT sqlite_version()"
    pure_functions: ClassVar[Collection[str]] = SQLITE
    growing_functions: ClassVar[Collection[str]] = names("format printf")
    stops_regexp: ClassVar[bool] = False  # Python's, which `create_functions` adds
    in_reads_tables: ClassVar[bool] = True

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._lock = contextlib.ExitStack()
        driver = cast("Any", self.connection.driver_connection)
        driver.isolation_level = None  # so that CREATE TABLE, too, is part of the bridge's transactions
        self.execute("PRAGMA case_sensitive_like = ON")
        create_functions(driver)
        if engine.url.database not in (None, "", ":memory:"):
            ((patience,),) = self.fetch("PRAGMA busy_timeout")
            self.execute(f"PRAGMA busy_timeout = {max(int(patience), BUSY_TIMEOUT)}")

    def prepare(self, sql: str) -> None:
        """An unknown name in double quotes is a text to SQLite; in backquotes it is refused, as on other databases."""
        super().prepare(_IN_QUOTES.sub(_in_backquotes, sql))

    def columns_of(self, sql: str) -> list[str]:
        if '"' in sql:
            self.prepare(sql)
        return super().columns_of(sql)

    @classmethod
    def engine_options(cls, url: sa.URL) -> dict[str, Any]:
        """Any thread may use a connection, as the bridge admits one at a time."""
        prepared = {"cached_statements": STATEMENT_LIMIT} if url.drivername in ("sqlite", "sqlite+pysqlite") else {}
        pool = sa.StaticPool if url.database in (None, "", ":memory:") else sa.NullPool
        return {"poolclass": pool, "connect_args": {"check_same_thread": False, **prepared}}

    @property
    def is_durable(self) -> bool:
        return bool(self._path)

    @functools.cached_property
    def _path(self) -> str:
        """The file of the database; "" in memory."""
        return next(str(file or "") for _, name, file in self.fetch("PRAGMA database_list") if name == "main")

    def acquire_lock(self) -> None:
        """Locks a file beside the database, which SQLite releases when the process ends.

        If that file cannot be written, there is no lock.
        """
        path = self._path
        if not path:
            return  # in memory
        self._lock_file(path)
        self._write_ahead()

    def _lock_file(self, path: str) -> None:
        try:
            lock = sqlite3.connect(
                f"{path}-{self.own_name('cep')}", LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            self._lock.callback(lock.close)
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise OtherBridge(path) from None

    def close(self) -> None:
        super().close()
        self._lock.close()

    def begin(self) -> None:
        if not self._writes_ahead:
            self._write_ahead()
        self.execute("BEGIN IMMEDIATE")

    _writes_ahead = False

    def _write_ahead(self) -> None:
        """Lets others read while this connection writes.

        The file keeps this mode, so it is set only before the first write.
        """
        if self._path:
            self.execute("PRAGMA journal_mode = WAL")
            self.execute("PRAGMA synchronous = NORMAL")
        self._writes_ahead = True

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        driver = cast("Any", self.connection.driver_connection)  # None if it was closed
        if driver is not None and driver.in_transaction:
            self.execute("ROLLBACK")

    def has_committed(self, error: BaseException) -> bool:
        """A COMMIT that failed has left the transaction open."""
        driver = cast("Any", self.connection.driver_connection)
        if driver is None or driver.in_transaction:
            return super().has_committed(error)
        return True

    @contextlib.contextmanager
    def limited(self, seconds: float, megabytes: float, reads_only: bool) -> Iterator[None]:
        """Sets a function that SQLite calls while it computes, to stop in time.

        A text has at most a quarter of the memory.
        """
        driver = cast("Any", self.connection.driver_connection)
        end = time.monotonic() + seconds
        length = driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, int(megabytes * 2**18))
        pattern = driver.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100)  # a long one takes ages, uninterrupted
        driver.set_progress_handler(lambda: time.monotonic() > end, 10_000)
        if reads_only:
            self.execute("PRAGMA query_only = ON")
        try:
            yield
        finally:
            driver.set_progress_handler(None, 0)
            driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
            driver.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, pattern)
            self.execute("PRAGMA query_only = OFF")

    def column_type(self, attribute: Attribute) -> str:
        sizes = [size for kind in scalars_of(attribute.type) if (size := decimal_size(kind))]
        if any(digits > _EXACT_DIGITS for digits, _ in sizes):
            raise TypeMismatch(
                f"attribute {attribute.name!r}: SQLite computes {attribute.type} only to {_EXACT_DIGITS} digits: "
                f"declare at most DECIMAL({_EXACT_DIGITS}, s), or use DuckDB or PostgreSQL"
            )
        if is_nested(attribute.type):
            return super().column_type(attribute)
        return "NUMERIC" if sizes else _AFFINITY.get(attribute.type, "INTEGER")

    def declared_type(self, attribute: Attribute) -> str:
        """SQLite stores the name of any type, and `relation` reads it."""
        return attribute.type

    def encoder(self, attribute: Attribute) -> Convert | None:
        if attribute.type == "DOUBLE":
            return _no_nan(attribute.name)
        if decimal_size(attribute.type):
            return float
        encoders: dict[str, Convert] = {"DATE": datetime.date.isoformat, "TIMESTAMP": timestamp_text}
        return encoders.get(attribute.type) or super().encoder(attribute)

    def decoder(self, type_name: str) -> Convert | None:
        scale = scale_of(type_name)
        if scale is not None:
            return decimal_of(scale)
        decoders: dict[str, Callable[[Any], Any]] = {
            "BOOLEAN": bool,
            "DOUBLE": float,
            "DATE": lambda text: datetime.date.fromisoformat(text[:10]),
            "TIMESTAMP": datetime.datetime.fromisoformat,
        }
        return json_reader(type_name) if is_nested(type_name) else decoders.get(type_name)

    def exact(self, value: exp.Expr, type_name: str) -> exp.Expr:
        """Fails where SQLite would continue with doubles, as `+`, `-` and `*` overflow 64 bits."""
        return call("CEP_INTEGER", value) if type_name in ("SMALLINT", "INTEGER", "BIGINT") else value

    def _refused(self, error: Exception, sql: str = "") -> Refused:
        raised = "user-defined function raised exception" in str(error) and ("CEP_INTEGER" in sql or "CEP_TOTAL" in sql)
        return Refused("integer overflow: a result is beyond 64 bits" if raised else error, sql)

    def render(self, statement: exp.Expr, pretty: bool = False) -> str:
        return super().render(_flat(statement) if _depth(statement) > MAX_DEPTH else statement, pretty)

    def adapt(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier) and node.name.lower() in ("true", "false"):
            raise Refused(f"SQLite takes the name {node.name!r} for the value: give the column another one")
        if isinstance(node, (exp.Column, exp.Identifier, exp.Literal)):
            return node  # nearly all of a statement
        if isinstance(node, exp.Join) and node.meta_get(NESTED_LOOP):
            node.set("kind", "CROSS")  # SQLite then keeps the order of the tables
        return super().adapt(node)

    def relation(self, name: str) -> Schema | None:
        *schema, table = name.split(".")
        if schema and schema[-1].lower() not in {row[1].lower() for row in self.fetch("PRAGMA database_list")}:
            return None
        prefix = f"{_quoted(schema[-1])}." if schema else ""
        columns = self.fetch(f"PRAGMA {prefix}table_xinfo({_quoted(table)})")
        return relation_schema([(column[1], column[2]) for column in columns]) if columns else None

    identity: ClassVar[str] = "INTEGER PRIMARY KEY AUTOINCREMENT"

    def value_at_edge(self, value: exp.Expr, place: exp.Expr, is_last: bool) -> exp.Expr:
        """Calls an aggregate of the bridge: a window function below the grouping would sort the rows."""
        name = "CEP_LATEST" if is_last else "CEP_EARLIEST"
        return exp.AnonymousAggFunc(this=name, expressions=[value.copy(), place.copy()])

    def data_version(self) -> Any:
        """The version of the file `main`, and this connection's own changes; None if other files are attached."""
        ((others, *version),) = self.fetch(
            "SELECT (SELECT COUNT(*) FROM pragma_database_list WHERE name NOT IN ('main', 'temp')), data_version, "
            "schema_version, TOTAL_CHANGES() FROM pragma_data_version, pragma_schema_version"
        )
        return None if others else version

    def change_triggers(
        self, table: str, outbox: str, columns: Sequence[OutboxColumn], time: OutboxColumn | None
    ) -> ChangeTriggers:
        return sqlite_triggers(self._outbox(table, "", outbox, columns, time))

    def unique_keys(self, name: str) -> list[set[str]]:
        *schema, table = name.split(".")
        prefix = f"{_quoted(schema[-1])}." if schema else ""
        found = [{row[1] for row in self.fetch(f"PRAGMA {prefix}table_info({_quoted(table)})") if row[5]}]
        for _, index, is_unique, _, is_partial in self.fetch(f"PRAGMA {prefix}index_list({_quoted(table)})"):
            if is_unique and not is_partial:
                found.append({row[2] for row in self.fetch(f"PRAGMA {prefix}index_info({_quoted(index)})")})
        return [{str(column).lower() for column in columns} for columns in found if columns and None not in columns]

    keeps_collations: ClassVar[bool] = False

    def own_types(self, select: str) -> dict[str, OwnType]:
        found = {}
        for name in self.columns_of(select):
            column, places = _quoted(name), f"SELECT * FROM ({select})"
            probe = f"SELECT c = 'A', c = 'a ' FROM (SELECT {column} AS c FROM ({places}) WHERE 0 UNION ALL SELECT 'a')"
            ((by_case, by_space),) = self.fetch(probe)
            if by_case or by_space:
                found[name] = OwnType(f"COLLATE {'NOCASE' if by_case else 'RTRIM'}")
        return found

    def table_names(self) -> list[str]:
        return [name for (name,) in self.fetch("SELECT name FROM sqlite_master")]

    def is_aggregate(self, function: str) -> bool:
        if function.lower() in _WINDOW_FUNCTIONS:
            return False
        sql = f"SELECT 1 FROM pragma_function_list WHERE name = lower({_text(function)}) AND type IN ('a', 'w') LIMIT 1"
        return bool(self.fetch(sql))


def _depth(statement: exp.Expr) -> int:
    """The depth to which sub-queries are nested."""
    deepest = [0]
    stack: list[tuple[exp.Expr, int]] = [(statement, 0)]
    while stack:
        node, depth = stack.pop()
        depth += isinstance(node, exp.Subquery)
        deepest[0] = max(deepest[0], depth)
        stack += [(child, depth) for child in node.iter_expressions()]
    return deepest[0]


def _flat(statement: exp.Expr) -> exp.Expr:
    """The statement with the sub-queries of FROM moved to WITH, one after the other."""
    whole = statement.copy()
    query = whole if isinstance(whole, (exp.Query, exp.Delete)) else whole.expression
    if not isinstance(query, (exp.Query, exp.Delete)) or query.args.get("with_"):
        return whole
    found = [
        node for node in query.walk(bfs=False) if isinstance(node, exp.Subquery) and _can_move_to_with(node, query)
    ]
    parts = []
    for place, node in enumerate(reversed(found), 1):  # inner sub-queries before outer ones
        name = f"cep_part_{place}"
        alias = node.args.get("alias") or exp.TableAlias(this=identifier(name))
        node.replace(exp.Table(this=identifier(name), alias=alias))
        cte = exp.TableAlias(this=identifier(name))
        parts.append(exp.CTE(this=node.this, alias=cte))
    if parts:
        query.set("with_", exp.With(expressions=parts))
    return whole


def _can_move_to_with(node: exp.Subquery, query: exp.Expr) -> bool:
    """Whether a sub-query is an item of FROM, and reads no column of the statement around it."""
    if not isinstance(node.parent, (exp.From, exp.Join)) or not isinstance(node.this, exp.Query):
        return False
    inside_value = False
    above: exp.Expr | None = node.parent
    while above is not None and above is not query:
        if isinstance(above, exp.With) or (isinstance(above, exp.Query) and above.args.get("with_")):
            return False
        if isinstance(above, exp.Subquery):
            inside_value |= not isinstance(above.parent, (exp.From, exp.Join, exp.Query))
        else:
            inside_value |= not isinstance(above, (exp.From, exp.Join, exp.Query))
        above = above.parent
    return not inside_value or _is_closed(node)


def _is_closed(node: exp.Subquery) -> bool:
    """Whether a sub-query within a value reads only the bridge's tables, and no outer column: those are qualified."""
    tables = list(node.this.find_all(exp.Table))
    known = {table.alias_or_name for table in tables} | {inner.alias for inner in node.this.find_all(exp.Subquery)}
    own = all(table.name.startswith("cep_") for table in tables)
    return own and all(column.table in known for column in node.this.find_all(exp.Column) if column.table)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _no_nan(name: str) -> Convert:
    def encode(value: float) -> float:
        if math.isnan(value):
            raise TypeMismatch(f"attribute {name!r}: SQLite has no NaN (it would read NULL): push NULL, or use DuckDB")
        return value + 0.0  # a column stores no -0.0

    return encode
