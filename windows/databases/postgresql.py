"""Differences of PostgreSQL: statements sent ahead of their results, COPY, and a type for every literal."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

import sqlalchemy as sa
from psycopg.adapt import Transformer
from psycopg.pq import Format, TransactionStatus
from psycopg.types.json import set_json_dumps, set_json_loads
from sqlglot import exp

from windows.databases.alchemy import arrow_array, standard_type
from windows.databases.base import LOCK_TIMEOUT, Row
from windows.databases.listener import PostgreSQLListener
from windows.databases.own_types import OwnType, postgresql_types
from windows.databases.postgresql_arrow import array_of, columns_as_arrays
from windows.databases.postgresql_sql import PostgreSQLJson, PostgreSQLSql
from windows.databases.pure_functions import POSTGRESQL, names
from windows.databases.refused import ConnectionLost, OtherBridge, Refused
from windows.databases.triggers import ChangeTriggers, OutboxColumn, postgresql_triggers
from windows.schema import Schema, TypeMismatch, relation_schema
from windows.sql import number, table_of

if TYPE_CHECKING:
    import pyarrow as pa

COPY_ROWS = 200
"""The number of rows from which COPY is faster than INSERT."""

STATEMENT_LIMIT = 1_000
"""The number of statements that are kept prepared at most."""

_FORGETS = re.compile(r"\s*(?:DROP|ALTER)\b", re.IGNORECASE)
"""Statements after which the driver lets the server forget all prepared statements.

In a queue this may happen after the driver has prepared others, which it then wrongly takes for prepared.
"""

_LOCK = "HASHTEXT('{}cep_bridge'), HASHTEXT(COALESCE(CURRENT_SCHEMA(), ''))"
"""The two numbers of the advisory lock that a bridge holds."""


class PostgreSQL(PostgreSQLJson, PostgreSQLSql):
    """PostgreSQL through psycopg 3.

    Within a transaction statements without a result are only queued (libpq's pipeline). An error of one is raised when
    the next result is fetched, at the latest on commit. COPY cannot be queued, so pushes of many rows have no queue.
    """

    lock_name: ClassVar[str] = _LOCK
    unlock: ClassVar[str] = "SELECT pg_advisory_unlock({})"
    dialect: ClassVar[str] = "postgres"
    title: ClassVar[str] = "PostgreSQL"
    binary_type: ClassVar[str] = "BYTEA"
    lists_aggregates: ClassVar[bool] = True
    has_all_extremes: ClassVar[bool] = False
    unlogged_tables: ClassVar[bool] = True
    ordered_set_functions: ClassVar[Mapping[str, str]] = MappingProxyType(
        {name: name for name in ("percentile_cont", "percentile_disc", "mode")}
    )
    wide_integer: ClassVar[str | None] = "DECIMAL(40, 0)"
    eager_constant_folding: ClassVar[bool] = True
    pane_sizes: ClassVar[tuple[int, ...]] = (64, 4_096)
    pure_functions: ClassVar[Collection[str]] = POSTGRESQL
    growing_functions: ClassVar[Collection[str]] = names("array_fill format generate_series lpad repeat rpad")
    has_notify: ClassVar[bool] = True
    frames_chunk_size: ClassVar[int] = 100_000
    arrow_types: ClassVar[dict[int, str]] = {
        16: "bool", 20: "int64", 21: "int16", 23: "int32", 25: "string", 700: "float", 701: "double", 1042: "string",
        1043: "string", 3802: "string", 1082: "date32", 1114: "timestamp[us]", 1700: "decimal",
    }  # fmt: skip

    def __init__(self, engine: sa.Engine) -> None:
        if engine.dialect.driver != "psycopg":
            raise Refused(f"PostgreSQL is driven by psycopg: postgresql+psycopg://…, not {engine.dialect.driver}")
        super().__init__(engine)
        self._driver = cast("Any", self.connection.driver_connection)
        self.connection.detach()  # a connection with the bridge's settings must not return to a pool
        self._driver.autocommit = True  # the bridge begins its transactions itself
        self._driver.prepare_threshold = 2
        self._driver.prepared_max = STATEMENT_LIMIT
        set_json_loads(_text, self._driver)
        set_json_dumps(str, self._driver)
        self._queue: Any = None
        self._deallocations = 0
        self._many = False
        self._shapes: dict[str, list[tuple[str, int]]] = {}
        """Names and type OIDs of the result columns, by the statements that pushes of many rows run."""
        self.execute("SET jit = off")  # compiling takes longer than the bridge's statements run
        self.execute("SET standard_conforming_strings = on")

    def use_schema(self, name: str) -> None:
        """Tables of the previous schemas are still found."""
        known = _quoted(name)
        if not self.fetch(f"SELECT 1 FROM pg_namespace WHERE nspname = {known}"):
            self.execute(f"CREATE SCHEMA {self.quoted(name)}")
        self.fetch(
            f"SELECT set_config('search_path', quote_ident({known}) || ', ' || current_setting('search_path'), false)"
        )
        self.schema = name

    def has_own(self, name: str) -> bool:
        own = "relnamespace = CAST(current_schema() AS regnamespace)"
        return bool(self.fetch(f"SELECT 1 FROM pg_class WHERE {own} AND relname = {_quoted(name)}"))

    def acquire_lock(self) -> None:
        """Takes an advisory lock for the current schema."""
        until = time.monotonic() + LOCK_TIMEOUT
        while not self.fetch(f"SELECT pg_try_advisory_lock({self._own_lock})")[0][0]:
            if time.monotonic() > until:
                raise OtherBridge("this schema", "; or give this one another schema, …?options=-csearch_path=other")
            time.sleep(0.05)

    def limited(self, seconds: float, megabytes: float, reads_only: bool) -> contextlib.AbstractContextManager[None]:
        """The server stops a statement by its own clock. It has no limit on a statement's memory."""
        settings = {"statement_timeout": str(max(1, round(seconds * 1_000)))}
        if reads_only:
            settings["default_transaction_read_only"] = "on"
        return self._settings(settings, "CURRENT_SETTING('{}')", "SET {} = '{}'")

    def execute(self, sql: str) -> None:
        """Within a transaction the error may be of an earlier statement, so it does not show this one."""
        try:
            if self._queue is not None and _FORGETS.match(sql):
                return self._execute_unqueued(sql)
            self._cursor = self._driver.execute(sql, prepare=False if self._many else None)
        except self._errors as error:
            if self._queue is None and not self._driver.info.transaction_status and "cached plan must" in str(error):
                self._forget_prepared()  # a table of this name was created anew
                return self.execute(sql)
            raise self._refused(error, sql if self._queue is None else "") from None

    def _execute_unqueued(self, sql: str) -> None:
        self._end_queue()
        self._cursor = self._driver.execute(sql, prepare=False)
        self._begin_queue()

    def execute_bound(self, sql: str, values: Sequence[Any]) -> None:
        try:
            self._cursor = self._driver.execute(sql, values, prepare=False if self._many else None)
        except self._errors as error:
            _refuse_nul([tuple(values)])
            raise self._refused(error, sql if self._queue is None else "") from None

    def modify_bound(self, sql: str, values: Sequence[Any]) -> int:
        """Waits for the queued statements, after which the number is known."""
        if self._queue is None:
            return super().modify_bound(sql, values)
        try:
            with self._driver.pipeline():  # which waits for the queue at its end
                self.execute_bound(sql, values)
        except self._errors as error:
            raise self._refused(error) from None
        return int(self._cursor.rowcount)

    def insert(self, table: str, width: int, rows: Sequence[Row]) -> None:
        try:
            if len(rows) < COPY_ROWS:
                self._insert_few(self._inserts.get((table, width)) or self._insert_text(table, width), rows)
            else:
                self._copy(table, rows)
        except self._errors as error:
            _refuse_nul(rows)
            raise self._refused(error) from None

    def fetch_arrow(self, sql: str) -> pa.Table | None:
        """Fetches column by column.

        Outside of a push row by row, if a column exceeds an array's limit of one gigabyte.
        """
        if self._queue is not None:  # few rows: one more round trip costs more
            return super().fetch_arrow(sql)
        try:
            shape = self._shape(sql)
            if all(kind in self.arrow_types for _, kind in shape):
                return self._by_columns(sql, shape)
        except self._errors as error:
            if self._many:
                raise self._refused(error, sql) from None
        return super().fetch_arrow(sql)

    def own_types(self, select: str) -> dict[str, OwnType]:
        try:
            shape = self._shape(select)
        except self._errors as error:
            raise self._refused(error, select) from None
        return postgresql_types(self, select, shape)

    def rank_among(self, value: exp.Expr, values: exp.Select, order: exp.Expr) -> exp.Expr:
        """WIDTH_BUCKET is a binary search in a sorted array."""
        ordered = exp.Array(expressions=[values.order_by(order)])
        return exp.Anonymous(this="WIDTH_BUCKET", expressions=[value, ordered])

    def value_at_edge(self, value: exp.Expr, place: exp.Expr, is_last: bool) -> exp.Expr:
        """Takes the first element of a sorted array: a window function below the grouping takes twice as long."""
        in_order = exp.Order(this=value.copy(), expressions=[exp.Ordered(this=place.copy(), desc=is_last)])
        return exp.Bracket(this=exp.Paren(this=exp.ArrayAgg(this=in_order)), expressions=[number(1)], offset=1)

    def relation(self, name: str) -> Schema | None:
        regclass = _quoted(table_of(name).sql(self.dialect))
        rows = self.fetch(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = to_regclass({regclass}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        return relation_schema([(column, standard_type(kind, self.dialect)) for column, kind in rows]) if rows else None

    def in_utc(self, table: str) -> dict[str, str]:
        regclass = _quoted(table_of(table).sql(self.dialect))
        rows = self.fetch(
            "SELECT attname FROM pg_attribute "
            f"WHERE attrelid = to_regclass({regclass}) AND attnum > 0 AND atttypid = 'timestamptz'::regtype"
        )
        return {name: "({} AT TIME ZONE 'UTC')" for (name,) in rows}

    def listener(self) -> PostgreSQLListener:
        return PostgreSQLListener(self.engine)

    def notify(self, channel: str, text: str) -> None:
        self.fetch_bound("SELECT CAST(pg_notify(%s, %s) AS TEXT)", [channel, text])

    identity: ClassVar[str] = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"

    def change_triggers(
        self, table: str, outbox: str, columns: Sequence[OutboxColumn], time: OutboxColumn | None
    ) -> ChangeTriggers:
        ((schema,),) = self.fetch("SELECT quote_ident(current_schema())")
        return postgresql_triggers(self._outbox(table, f"{schema}.", outbox, columns, time))

    def table_names(self) -> list[str]:
        """The names in the schema in which new tables are created."""
        sql = "SELECT relname FROM pg_class WHERE relnamespace = CAST(current_schema() AS regnamespace)"
        return [name for (name,) in self.fetch(sql)]

    def begin(self) -> None:
        self._call(self._begin_queue)
        self.execute("BEGIN")

    def settle(self) -> None:
        self._call(self._end_queue)

    def commit(self) -> None:
        self.execute("COMMIT")
        self._call(self._end_queue)
        self._many = False

    def rollback(self) -> None:
        with contextlib.suppress(*self._errors):  # statements queued after the error
            self._end_queue()
        self._many = False
        self.execute("ROLLBACK")
        self._call(self._forget_prepared)  # the driver takes what was queued after the error for prepared

    def has_committed(self, error: BaseException) -> bool:
        """Asks the server's status whether a transaction is open.

        An error with a state is the server's: it was rolled back.
        """
        with contextlib.suppress(*self._errors):
            self._end_queue()
        is_servers = getattr(error.__context__, "sqlstate", None) is not None
        if self._driver.info.transaction_status != TransactionStatus.IDLE or is_servers:
            return super().has_committed(error)
        self._many = False
        return True

    @functools.cached_property
    def set_functions(self) -> Collection[str]:  # type: ignore[override]
        return {name for (name,) in self.fetch("SELECT proname FROM pg_proc WHERE proretset")}

    def is_aggregate(self, function: str) -> bool:
        sql = f"SELECT 1 FROM pg_proc WHERE prokind = 'a' AND proname = lower({_quoted(function)}) LIMIT 1"
        return bool(self.fetch(sql))

    def _refused(self, error: Exception, sql: str = "") -> Refused:
        return ConnectionLost(error) if self._driver.closed else Refused(error, sql)

    def _insert_few(self, sql: str, rows: Sequence[Row]) -> None:
        if len(rows) == 1:
            self._driver.execute(sql, rows[0])
        elif rows:
            self._driver.cursor().executemany(sql, rows)

    def _copy(self, table: str, rows: Sequence[Row]) -> None:
        """Copies rows in binary, in the columns' types. Later statements of a push are planned again, for many rows."""
        self._many = self._many or self._queue is not None  # outside of a push there is no queue
        self._end_queue()
        kinds = self._driver.execute(
            "SELECT atttypid FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 ORDER BY attnum", [table]
        ).fetchall()
        with self._driver.cursor().copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types([kind for (kind,) in kinds])
            for row in rows:
                copy.write_row(row)

    def _shape(self, sql: str) -> list[tuple[str, int]]:
        """The names and type OIDs of a SELECT's columns, which are kept for the statements of pushes."""
        shape = self._shapes.get(sql)
        if shape is None:
            described = self._driver.execute(f"SELECT * FROM ({sql}) AS q LIMIT 0", prepare=False).description
            shape = [(column.name, column.type_code) for column in described]
            if self._many:
                if len(self._shapes) >= STATEMENT_LIMIT:
                    self._shapes.clear()
                self._shapes[sql] = shape
        return shape

    def _by_columns(self, sql: str, shape: Sequence[tuple[str, int]]) -> pa.Table:
        import pyarrow as pa

        text = columns_as_arrays(sql, len(shape))
        result = self._driver.cursor(binary=True).execute(text, prepare=False if self._many else None).pgresult
        arrays = [self._column(result, place, self.arrow_types[kind]) for place, (_, kind) in enumerate(shape)]
        return pa.Table.from_arrays(arrays, names=[name for name, _ in shape])

    def _column(self, result: Any, place: int, kind: str) -> Any:
        """The values of a column. psycopg converts those that Arrow cannot take as transmitted to Python."""
        sent = result.get_value(0, place)
        if sent is None:
            return arrow_array([], kind)
        array = array_of(sent)
        if array is not None:
            return array
        load = Transformer(self._driver).get_loader(result.ftype(place), Format.BINARY).load
        return arrow_array(cast("Sequence[Any]", load(sent)), kind)

    def _forget_prepared(self) -> None:
        """Lets server and driver forget all prepared statements. The driver only notices texts that are new to it."""
        self._deallocations += 1
        self._driver.execute(f"DEALLOCATE ALL -- {self._deallocations}", prepare=False)

    def _begin_queue(self) -> None:
        self._queue = self._driver.pipeline()
        self._queue.__enter__()

    def _end_queue(self) -> None:
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.__exit__(None, None, None)


def _text(data: bytes | str) -> str:
    """Returns JSON as text, without parsing it: the reader knows its type."""
    return data if isinstance(data, str) else data.decode()


def _refuse_nul(rows: Sequence[Row]) -> None:
    for value in (value for row in rows for value in row if isinstance(value, str) and "\0" in value):
        raise TypeMismatch(f"{value!r}: PostgreSQL's texts hold no NUL: leave it out, or use DuckDB") from None


def _quoted(text: str) -> str:
    return exp.Literal.string(text).sql("postgres")
