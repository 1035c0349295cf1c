"""Differences of MariaDB and MySQL: quotes, texts that ignore case, DDL that ends transactions, decimal quotients."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, cast

import sqlalchemy as sa
from sqlglot import exp
from sqlglot.dialects.mysql import MySQL as _MySQL

from windows.databases.alchemy import standard_type
from windows.databases.base import LOCK_TIMEOUT, Convert
from windows.databases.mariadb_sql import MariaDBJson, MariaDBSql, cast_type, in_utf8
from windows.databases.own_types import OwnType, is_mariadb_binary, mariadb_types
from windows.databases.pure_functions import MARIADB, names
from windows.databases.refused import ConnectionLost, OtherBridge, Refused
from windows.databases.triggers import ChangeTriggers, OutboxColumn, mariadb_triggers
from windows.nested import is_nested_null
from windows.schema import Attribute, Schema, TypeMismatch, relation_schema
from windows.sql import table_of

MODE = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_UNSIGNED_SUBTRACTION"
"""Double quotes for names and texts without escapes, as in other databases; values that do not fit are errors.

A difference of numbers without a sign may be negative.
"""


INDEXED = 100
"""The number of characters of a text in an index."""

AGGREGATES = {
    "AVG", "BIT_AND", "BIT_OR", "BIT_XOR", "COUNT", "GROUP_CONCAT", "JSON_ARRAYAGG", "JSON_OBJECTAGG", "MAX",
    "MIN", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "SUM", "VARIANCE", "VAR_POP", "VAR_SAMP",
}  # fmt: skip
"""The aggregate functions of both databases, which no table of the server lists."""

_INDEX = re.compile(r"(CREATE INDEX .* ON `(.+?)`)\((.*)\)", re.DOTALL)
_LOCK = "CONCAT('cep_bridge.', SHA1(CONCAT('{}', COALESCE(DATABASE(), ''))))"
"""The name of the lock of the bridge in the current database."""

_DUPLICATE_COLUMN = 1060
"""The server's number for two columns of one name in a sub-query."""

_CREATE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(`(?:[^`]|``)+`)")

_IN_TRANSACTION = 1
"""The bit of the protocol's status of a connection that is in a transaction."""
_CLIENT_ERRORS = 2
"""The numbers of the driver's own errors, divided by 1,000."""

_NOT_HASHED = ("DECIMAL", "TIMESTAMP")
"""The types whose NULLs MariaDB's hash joins do not match."""


class MariaDB(_MySQL):
    """sqlglot's dialect for connections in `MODE`."""

    class Tokenizer(_MySQL.Tokenizer):
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]


class MySQL(MariaDBJson, MariaDBSql):
    """MariaDB or MySQL, through PyMySQL."""

    lock_name: ClassVar[str] = _LOCK
    unlock: ClassVar[str] = "SELECT RELEASE_LOCK({})"
    dialect: ClassVar[str] = "mariadb"
    title: ClassVar[str] = "MariaDB"
    windows_in_conditions: ClassVar[bool] = False
    binary_type: ClassVar[str] = "LONGBLOB"
    lists_aggregates: ClassVar[bool] = True
    ddl_commits: ClassVar[bool] = True
    chunk_size: ClassVar[int] = 1_000
    frames_chunk_size: ClassVar[int] = 50_000
    index_range_joins: ClassVar[bool] = False
    fast_sliding_min_max: ClassVar[bool] = True  # both are computed by reading the whole frame
    window_per_brief_push: ClassVar[int] = 3
    side_by_side_frames: ClassVar[bool] = True
    purge_every: ClassVar[int] = 64  # an index is read from its beginning
    wide_integer: ClassVar[str | None] = "DECIMAL(40, 0)"
    pure_functions: ClassVar[Collection[str]] = MARIADB
    growing_functions: ClassVar[Collection[str]] = names("lpad repeat rpad space")
    arrow_types: ClassVar[dict[int, str]] = {
        1: "int8", 2: "int16", 3: "int32", 4: "float", 5: "double", 8: "int64", 9: "int32", 10: "date32",
        12: "timestamp[us]", 15: "string", 246: "decimal", 249: "string", 250: "string", 251: "string", 252: "string",
        253: "string", 254: "string",
    }  # fmt: skip

    def __init__(self, engine: sa.Engine) -> None:
        if engine.dialect.driver != "pymysql":
            raise Refused(f"this database is driven by PyMySQL: mariadb+pymysql://…, not {engine.dialect.driver}")
        super().__init__(engine)
        driver = self._driver = cast("Any", self.connection.driver_connection)
        self.connection.detach()  # a connection with the bridge's settings must not return to a pool
        driver.autocommit(True)  # the bridge begins its transactions itself
        is_mariadb = "MariaDB" in driver.get_server_info()
        self.collation = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
        self.title = "MariaDB" if is_mariadb else "MySQL"  # type: ignore[misc]
        self._aggregates = AGGREGATES if is_mariadb else {*AGGREGATES, "ANY_VALUE"}
        driver.set_character_set("utf8mb4", self.collation)
        self.execute(f"SET sql_mode = '{MODE}', max_sort_length = 65536, group_concat_max_len = 1073741824")
        if self.fetch("SELECT @@log_bin = 0 OR @@SESSION.binlog_format <> 'STATEMENT'")[0][0]:
            # Else INSERT … SELECT would lock the rows that it reads in the tables of others, and wait for their transactions.
            self.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        if is_mariadb:
            self.execute("SET join_cache_level = 4")  # hash joins, which MySQL uses anyway
        self._created: list[str] = []
        self.not_hashed: set[str] = set()

    def own_types(self, select: str) -> dict[str, OwnType]:
        self.columns_of(select)
        return mariadb_types(self, select, self._cursor._result.fields, self.collation)

    def columns_of(self, sql: str) -> list[str]:
        try:
            return super().columns_of(sql)
        except Refused as error:
            if not error.reason.startswith(f"({_DUPLICATE_COLUMN},"):
                raise
        # The columns of a sub-query have different names, those of a result need not.
        self.fetch(f"SET STATEMENT sql_select_limit = 0 FOR {sql}" if self.title == "MariaDB" else f"({sql}) LIMIT 0")
        return [column[0] for column in self._cursor.description]

    @property
    def table_options(self) -> str:  # type: ignore[override]
        """Makes texts hold any characters, and compare byte by byte."""
        return f" DEFAULT CHARACTER SET utf8mb4 COLLATE {self.collation}"

    def _registered_type(self, kind: Any) -> str:
        found = super()._registered_type(kind)
        return f"LONGTEXT CHARACTER SET utf8mb4 COLLATE {self.collation}" if found == "LONGTEXT" else found

    def _arrow_kind(self, place: int, code: int) -> str | None:
        return "binary" if is_mariadb_binary(self._cursor._result.fields[place]) else super()._arrow_kind(place, code)

    def use_schema(self, name: str) -> None:
        """A schema is a database here. Tables of another database are named with it: `shop.orders`."""
        known = exp.Literal.string(name).sql(self.dialect)
        if not self.fetch(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {known}"):
            self.execute(f"CREATE DATABASE {self.quoted(name)}")
        self.execute(f"USE {self.quoted(name)}")
        self.schema = name

    def acquire_lock(self) -> None:
        """Takes a lock named after the current database."""
        if not self.fetch(f"SELECT GET_LOCK({self._own_lock}, {LOCK_TIMEOUT})")[0][0]:
            raise OtherBridge("this database")

    def execute(self, sql: str) -> None:
        super().execute(self._index(sql) if sql.startswith("CREATE INDEX") else sql)
        if found := _CREATE.match(sql):
            self._created.append(found[1])

    def limited(self, seconds: float, megabytes: float, reads_only: bool) -> contextlib.AbstractContextManager[None]:
        """The server stops a statement by its own clock, and where the connection's memory grows too large."""
        settings = {"max_execution_time": f"{max(1, round(seconds * 1_000))}"}  # MySQL's
        is_mariadb = self.title == "MariaDB"
        if is_mariadb:
            used = int(self.fetch("SHOW SESSION STATUS LIKE 'Memory_used'")[0][1])
            settings = {"max_statement_time": f"{seconds}", "max_session_mem_used": f"{used + int(megabytes * 2**20)}"}
        if reads_only:
            settings["tx_read_only" if is_mariadb else "transaction_read_only"] = "1"
        return self._settings(settings, "@@SESSION.{}", "SET SESSION {} = {}")

    def begin(self) -> None:
        self._created.clear()
        self.execute("BEGIN")

    def begin_again(self) -> None:
        if not self._driver.server_status & _IN_TRANSACTION:
            self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")
        self._created.clear()

    def rollback(self) -> None:
        """Also drops the tables created since `begin`: CREATE TABLE has committed the transaction."""
        self.execute("ROLLBACK")
        for name in self._created:
            self.execute(f"DROP TABLE IF EXISTS {name}")
        self._created.clear()

    def has_committed(self, error: BaseException) -> bool:
        """Asks the server's status whether a transaction is open. After an error of the server, it was rolled back."""
        number = next(iter(getattr(error.__context__, "args", ())), None)
        is_servers = isinstance(number, int) and number // 1000 != _CLIENT_ERRORS
        if not self._driver.open or self._driver.server_status & _IN_TRANSACTION or is_servers:
            return super().has_committed(error)
        self._created.clear()
        return True

    def column_type(self, attribute: Attribute) -> str:
        types = {"VARCHAR": "LONGTEXT", "TIMESTAMP": "DATETIME(6)"}
        if attribute.type.startswith(_NOT_HASHED):
            self.not_hashed.add(attribute.name.lower())
        return types.get(attribute.type) or super().column_type(attribute)

    def encoder(self, attribute: Attribute) -> Convert | None:
        return _finite(attribute.name) if attribute.type == "DOUBLE" else super().encoder(attribute)

    def relation(self, name: str) -> Schema | None:
        rows = self._columns(name, "column_name, column_type")
        kinds = [(column, _kind(kind)) for column, kind in rows]
        self.not_hashed |= {
            column.lower() for column, kind in kinds if kind.startswith((*_NOT_HASHED, "DATETIME", "TIME"))
        }
        return relation_schema(kinds) if rows else None

    def relation_columns(self, name: str, columns: Sequence[str]) -> dict[str, exp.Expr]:
        """Makes texts of every table compare like those of the bridge's tables, whatever their collation."""
        collations = dict(self._columns(name, "column_name, collation_name"))
        plain = super().relation_columns(name, columns)
        differs = [column for column in columns if collations.get(column) not in (None, self.collation)]
        return {**plain, **{column: self._binary(plain[column]) for column in differs}}

    def in_utc(self, table: str) -> dict[str, str]:
        """A TIMESTAMP is read in the time zone of the session, so it is converted."""
        names = [name for name, kind in self._columns(table, "column_name, data_type") if kind == "timestamp"]
        return dict.fromkeys(names, "CONVERT_TZ({}, @@SESSION.time_zone, '+00:00')")

    identity: ClassVar[str] = "BIGINT AUTO_INCREMENT PRIMARY KEY"

    def change_triggers(
        self, table: str, outbox: str, columns: Sequence[OutboxColumn], time: OutboxColumn | None
    ) -> ChangeTriggers:
        ((schema,),) = self.fetch("SELECT DATABASE()")
        own = self.quoted(schema)
        place = self.quoted(table_of(table).db) if "." in table else own
        return mariadb_triggers(self._outbox(table, f"{own}.", outbox, columns, time), f"{place}.")

    def table_names(self) -> list[str]:
        rows = self.fetch("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
        return [name for (name,) in rows]

    def is_aggregate(self, function: str) -> bool:
        return function.upper() in self._aggregates

    def _nested(self, node: exp.Expr) -> exp.Expr | None:
        """Adds a length to a CAST to text, which would make a column of length 0 without it."""
        found = super()._nested(node)
        return cast_type(found, self) if isinstance(found, exp.Cast) and is_nested_null(node) else found

    def _refused(self, error: Exception, sql: str = "") -> Refused:
        return Refused(error, sql) if self._driver.open else ConnectionLost(error)

    def _binary(self, column: exp.Expr) -> exp.Expr:
        return exp.Collate(this=in_utf8(column), expression=exp.var(self.collation))

    def _columns(self, name: str, properties: str) -> list[Any]:
        table = table_of(name)
        schema = exp.Literal.string(table.db).sql(self.dialect) if table.db else "DATABASE()"
        named = exp.Literal.string(table.name).sql(self.dialect)
        where = f"table_schema = {schema} AND table_name = {named} ORDER BY ordinal_position"
        return self.fetch(f"SELECT {properties} FROM information_schema.columns WHERE {where}")

    def _index(self, sql: str) -> str:
        """Adds the number of characters to index, which an index on a long text needs."""
        found = _INDEX.fullmatch(sql)
        assert found is not None
        head, table, columns = found.groups()
        texts = "SELECT column_name FROM information_schema.columns WHERE data_type LIKE '%text' AND table_name = "
        for (name,) in self.fetch(f"{texts}'{table}' AND table_schema = DATABASE()"):
            columns = columns.replace(self.quoted(name), f"{self.quoted(name)}({INDEXED})")
        return f"{head}({columns})"


_WHOLE = {
    "TINYINT": "SMALLINT", "UTINYINT": "SMALLINT", "USMALLINT": "INTEGER", "MEDIUMINT": "INTEGER", "UMEDIUMINT": "INTEGER",
    "UINT": "BIGINT", "UBIGINT": "DECIMAL(20, 0)",
}  # fmt: skip
"""For each of MariaDB's own integer types, the smallest type of the bridge that has all its values."""


def _kind(column_type: str) -> str:
    """The type of a column, as the catalogue shows it, in standard SQL.

    >>> [_kind(each) for each in ("tinyint(1)", "int(10) unsigned zerofill", "bigint(20) unsigned", "decimal(10,2) unsigned")]
    ['BOOLEAN', 'BIGINT', 'DECIMAL(20, 0)', 'DECIMAL(10, 2)']
    """
    if column_type == "tinyint(1)":
        return "BOOLEAN"
    found = standard_type(re.sub(r"int\(\d+\)", "int", column_type), "mysql")
    return _WHOLE.get(found) or re.sub(r"^U?(DECIMAL\(.*|DOUBLE|FLOAT).*", r"\1", found)


def _finite(name: str) -> Convert:
    def encode(value: float) -> float:
        if not math.isfinite(value):
            raise TypeMismatch(f"attribute {name!r}: MariaDB has no {value}: push NULL, or use DuckDB or PostgreSQL")
        return value

    return encode
