"""DuckDB through its native driver: events from Arrow, results to Arrow."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

import duckdb
from sqlglot import exp

from windows.arrow import columns_of_rows
from windows.databases import duckdb_catalog
from windows.databases.base import Database, Row
from windows.databases.duckdb_catalog import find_relation, visible_names
from windows.databases.duckdb_connection import disable_optimizer, open_connection, statistics_mislead
from windows.databases.json_values import Elements
from windows.databases.own_types import OwnType, duckdb_type
from windows.databases.pure_functions import DUCKDB, names
from windows.databases.python_aggregates import PythonAggregate, deviation_in_one_pass, median
from windows.databases.refused import Refused
from windows.databases.urls import without_password
from windows.nested import call, is_part
from windows.schema import Schema, is_storable, relation_schema
from windows.sql import column_of, number, table_of

if TYPE_CHECKING:
    import pyarrow as pa

BOUND_VALUES = 256
"""The number of values up to which rows are bound in one statement: for more Arrow is faster.

Measured per row of 4 columns: 0.35 ms for 1 row bound, 0.46 for 10, 0.8 for 32, 1.4 for 64; by Arrow 1.2 ms for any of these.
"""

_PYTHON_TYPES = frozenset({"SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN"})
STATEMENT_LIMIT = 1_000
"""The number of parsed statements that are kept at most."""
_LOCKED: weakref.WeakValueDictionary[str, DuckDB] = weakref.WeakValueDictionary()
"""The open files of this process's bridges."""


class DuckDB(Database):
    """A database in memory or in a file, perhaps with settings, or an open connection."""

    dialect: ClassVar[str] = "duckdb"
    title: ClassVar[str] = "DuckDB"
    lists_aggregates: ClassVar[bool] = True
    ordered_set_functions: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"percentile_cont": "quantile_cont", "percentile_disc": "quantile_disc"}
    )
    chunk_size: ClassVar[int] = 100_000
    arrow_chunk_size: ClassVar[int] = 500_000
    temporary_views: ClassVar[bool] = True
    zero_copy_arrow: ClassVar[bool] = True
    computed_frame_bounds: ClassVar[bool] = True
    asof_joins: ClassVar[bool] = True
    prefers_bulk: ClassVar[bool] = True
    set_functions: ClassVar[Collection[str]] = frozenset({"unnest", "generate_subscripts", "regexp_split_to_table"})
    wide_integer: ClassVar[str | None] = "HUGEINT"
    inline_event_values: ClassVar[bool] = True
    insertion_ordered: ClassVar[bool] = True
    uses_indexes: ClassVar[bool] = False
    in_memory_url: ClassVar[str | None] = "duckdb://"
    one_process: ClassVar[bool] = True
    pure_functions: ClassVar[Collection[str]] = DUCKDB
    growing_functions: ClassVar[Collection[str]] = names(
        "array_reduce array_resize bar filter format generate_series list_reduce list_resize lpad printf range reduce repeat "
        "rpad to_base"
    )
    python_aggregates: ClassVar[Mapping[type[exp.Expr], PythonAggregate]] = MappingProxyType(
        {exp.Stddev: deviation_in_one_pass, exp.StddevSamp: deviation_in_one_pass, exp.Median: median}
    )

    def __init__(self, place: str | duckdb.DuckDBPyConnection = ":memory:") -> None:
        """`place`: the part of a URL after `duckdb:///`, `file?setting=value&…`, or an open connection."""
        self._owned = isinstance(place, str)
        if isinstance(place, str):
            self.connection, self._shown = open_connection(place)
        else:
            self.connection, self._shown = place, "by a connection"
        self._statements: dict[str, Any] = {}
        self._uses_statistics = True
        self._sorts_for_asof = False
        self._memory_limit = ""

    def __repr__(self) -> str:
        return f"<DuckDB {without_password(self._shown)}>"

    def execute(self, sql: str) -> None:
        self._run(sql)

    def fetch(self, sql: str) -> list[Row]:
        return self._run(sql).fetchall()

    def fetch_arrow(self, sql: str) -> pa.Table:
        import pyarrow as pa

        try:
            relation = self.connection.sql(sql)
            table: pa.Table = relation.to_arrow_table()
        except duckdb.Error as error:
            raise Refused(error, sql) from None
        for place, kind in enumerate(relation.types):
            if kind == "HUGEINT":  # sums of integers; Arrow has no integers of 128 bits
                with contextlib.suppress(pa.ArrowInvalid):
                    narrow = table.column(place).cast(pa.int64())
                    table = table.set_column(place, table.field(place).name, narrow)
        return table

    def prepare(self, sql: str) -> None:
        """Plans the statement by PREPARE. EXPLAIN takes longer, as it draws the plan."""
        self._run(f"PREPARE cep_prepared AS {sql}")
        self._run("DEALLOCATE cep_prepared")

    def columns_of(self, sql: str) -> list[str]:
        return [column[0] for column in self._run(f"SELECT * FROM ({sql}) LIMIT 0").description or []]

    def insert(self, table: str, width: int, rows: Sequence[Row]) -> None:
        if len(rows) * width > BOUND_VALUES and len(rows) > 1:
            self._insert_bulk(table, rows)
        elif rows:
            marks = f"({', '.join('?' * width)})"
            self._bound(f"INSERT INTO {table} VALUES {', '.join([marks] * len(rows))}", [*chain.from_iterable(rows)])

    def fetch_bound(self, sql: str, values: Sequence[Any]) -> list[Row]:
        return self._bound(sql, values).fetchall()

    def execute_bound(self, sql: str, values: Sequence[Any]) -> None:
        self._bound(sql, values)

    def modify_bound(self, sql: str, values: Sequence[Any]) -> int:
        found = self._bound(sql, values).fetchall()
        return int(found[0][0]) if found else 0

    def _bound(self, sql: str, values: Sequence[Any]) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(self._prepared(sql), values)
        except (duckdb.Error, OverflowError) as error:
            raise Refused(error, sql) from None

    @contextlib.contextmanager
    def limited(self, seconds: float, megabytes: float, reads_only: bool) -> Iterator[None]:
        """A timer interrupts the statement. The limit on memory is that of the whole database, so it is set back."""
        used, before = self.fetch(
            "SELECT SUM(memory_usage_bytes), current_setting('memory_limit') FROM duckdb_memory()"
        )[0]
        self._memory_limit = self._memory_limit or before  # kept, as DuckDB shows it rounded
        timer = threading.Timer(seconds, self.connection.interrupt)
        timer.daemon = True
        self.execute(f"SET memory_limit = '{int(used + megabytes * 2**20)} B'")
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            self.execute(f"SET memory_limit = '{self._memory_limit}'")

    def append(self, table: str, batch: pa.Table) -> None:
        self.connection.register("_cep_batch", batch)
        try:
            self._run(f"INSERT INTO {table} SELECT * FROM _cep_batch")
        finally:
            self.connection.unregister("_cep_batch")

    def is_table(self, name: str) -> bool:
        found = find_relation(self.connection, exp.to_table(name, dialect="duckdb"))
        return found is not None and not found.is_view

    def register_arrow(self, name: str, rows: pa.Table) -> None:
        self.connection.register(name, rows)

    def unregister_arrow(self, name: str) -> None:
        try:
            self.connection.unregister(name)
        except duckdb.Error as error:
            raise Refused(error) from None

    @contextlib.contextmanager
    def temporary_view(self, table: str, select: str, is_stored: bool) -> Iterator[None]:
        """In DuckDB a name without a schema means first of all a temporary table or view."""
        name, form = self.quoted(table), "TABLE" if is_stored else "VIEW"
        kinds, found = (self._columns(query) for query in (f"SELECT * FROM main.{name} LIMIT 0", select))
        own = [self.quoted(column) for column in kinds]
        values = [
            value if kind == given else f"CAST({value} AS {kind}) AS {value}"
            for value, kind, given in zip(own, kinds.values(), found.values(), strict=True)
        ]
        text = f"SELECT {', '.join(values)} FROM ({select}) AS _cep_rows({', '.join(own)})"
        self._run(f"CREATE TEMPORARY {form} {name} AS {text}")
        try:
            yield
        finally:
            self._run(f"DROP {form} temp.{name}")

    def _columns(self, select: str) -> dict[str, str]:
        """The columns of a SELECT, by name, with their types."""
        return {name: kind for name, kind, *_ in self.fetch(f"DESCRIBE {select}")}

    def relation(self, name: str) -> Schema | None:
        """Describes only a table that exists: an error would end the transaction."""
        if find_relation(self.connection, table_of(name)) is None:
            return None
        try:
            rows = self.connection.execute(f"DESCRIBE {table_of(name).sql('duckdb')}").fetchall()
        except duckdb.Error:
            return None
        return relation_schema([(row[0], row[1]) for row in rows])

    def unique_keys(self, name: str) -> list[set[str]]:
        found = self._properties(
            name, "constraint_column_names FROM duckdb_constraints()", "constraint_type IN ('PRIMARY KEY', 'UNIQUE')"
        )
        return [{column.lower() for column in columns} for columns in found]

    def in_utc(self, table: str) -> dict[str, str]:
        names = self._properties(table, "column_name FROM duckdb_columns()", "data_type = 'TIMESTAMP WITH TIME ZONE'")
        return dict.fromkeys(names, "make_timestamp(epoch_us({}))")

    def _properties(self, name: str, what: str, condition: str) -> list[Any]:
        """A column of DuckDB's metadata for the table or view of this name."""
        found = find_relation(self.connection, table_of(name))
        if found is None:
            return []
        sql = f"SELECT {what} WHERE {condition} AND (database_name, schema_name, table_name) = (?, ?, ?)"
        rows = self.connection.execute(sql, [found.catalog, found.schema, found.name]).fetchall()
        return [value for (value,) in rows]

    def table_names(self) -> list[str]:
        return visible_names(self.connection)

    def begin(self) -> None:
        self._run("BEGIN TRANSACTION")

    def commit(self) -> None:
        self._run("COMMIT")

    def rollback(self) -> None:
        self._run("ROLLBACK")

    def has_committed(self, error: BaseException) -> bool:
        """Whether there is no transaction to roll back, and the error does not say that the COMMIT failed."""
        try:
            self.rollback()
        except Refused as refused:
            return "no transaction is active" in refused.reason and "Failed to commit" not in str(error)
        return False

    def value_at_edge(self, value: exp.Expr, place: exp.Expr, is_last: bool) -> exp.Expr:
        name = "ARG_MAX_NULL" if is_last else "ARG_MIN_NULL"
        return exp.AnonymousAggFunc(this=name, expressions=[value.copy(), place.copy()])

    def elements(self, values: exp.Expr, kind: str, alias: str) -> Elements:
        place_of = call("GENERATE_SUBSCRIPTS", values.copy(), number(1))
        columns = {"value": call("UNNEST", values), "place": place_of}
        rows = exp.Subquery(this=exp.select(*(exp.alias_(one, name, quoted=True) for name, one in columns.items())))
        value, place = (column_of(alias, name) for name in columns)
        return Elements(rows.as_(alias, quoted=True), value, place)

    def use_schema(self, name: str) -> None:
        """Tables of the previous schema are still found."""
        ((before,),) = self.fetch("SELECT current_schema()")
        self.execute(f"CREATE SCHEMA IF NOT EXISTS {self.quoted(name)}")
        path = f"{self.quoted(name)},{self.quoted(before)}".replace("'", "''")
        self.execute(f"SET search_path = '{path}'")

    def has_own(self, name: str) -> bool:
        sql = (
            "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = current_schema() "
            "AND lower(table_name) = lower(?)"
        )
        return bool(self.fetch_bound(sql, [name]))

    @property
    def python_types(self) -> Collection[str]:  # type: ignore[override]
        """Texts are among them, unless a default collation is set."""
        ((collation,),) = self.fetch("SELECT current_setting('default_collation')")
        return _PYTHON_TYPES - ({"VARCHAR"} if collation else set())

    @property
    def is_durable(self) -> bool:
        return bool(self._path)

    @functools.cached_property
    def _path(self) -> str:
        """The file of the current database; "" in memory."""
        found = self.fetch("SELECT path FROM duckdb_databases() WHERE database_name = current_database()")
        return next((str(path) for (path,) in found if path), "")

    def acquire_lock(self) -> None:
        """DuckDB locks a file against other processes; `_LOCKED` has the files of this process."""
        if not self._path:
            return  # in memory
        ((schema,),) = self.fetch("SELECT current_schema()")
        place = self.own_name(f"{self._path} {schema}")
        if place in _LOCKED:
            raise Refused(
                f"another bridge is at work in {self._path}: close it, or open another one beside it with connect(url, name=…)"
            )
        _LOCKED[place] = self

    def reclaim_space(self) -> None:
        """Deleted rows are scanned until a checkpoint. If other transactions prevent one, it can wait."""
        with contextlib.suppress(duckdb.Error):
            self.connection.execute("CHECKPOINT")

    def close(self) -> None:
        for path in [path for path, holder in _LOCKED.items() if holder is self]:
            del _LOCKED[path]
        if self._owned:
            self.connection.close()

    def adapt(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, (exp.Column, exp.Identifier)):
            return node  # most nodes of a statement
        if isinstance(node, exp.Cast) and is_part(node.this):
            node = cast("exp.Expr", node.this)  # a part has its type in DuckDB
        if isinstance(node, exp.Literal) and not node.is_string and "." in node.name and "e" not in node.name.lower():
            return exp.Literal.number(node.name + "e0")  # 1.5 is a DECIMAL in DuckDB, a DOUBLE elsewhere
        if statistics_mislead(node):
            self._distrust_statistics()
        if isinstance(node, exp.Join) and node.method == "ASOF":
            self._sort_for_asof()
        return super().adapt(node)

    def _distrust_statistics(self) -> None:
        """Disables the optimizer that uses statistics. Big batches get slower by a tenth."""
        if self._uses_statistics:
            self._uses_statistics = False
            disable_optimizer(self.connection, "statistics_propagation")

    def _sort_for_asof(self) -> None:
        """Makes ASOF joins sort: a table that was just filled is taken for small, and would be joined by nested loops."""
        if not self._sorts_for_asof:
            self._sorts_for_asof = True
            self.connection.execute("SET asof_loop_join_threshold = 0")

    def own_types(self, select: str) -> dict[str, OwnType]:
        described = self.fetch(f"DESCRIBE {select}")
        texts = [name for name, kind, *_ in described if kind == "VARCHAR"]
        kinds = {name: duckdb_type(kind) for name, kind, *_ in described}
        own = {name: kind for name, kind in kinds.items() if kind is not None}
        return own | (self._collations(select, texts) if texts else {})

    def _collations(self, select: str, names: Sequence[str]) -> dict[str, OwnType]:
        """The declared collations of text columns, found by which texts equal a literal in the column's place."""
        like = "(CASE WHEN false THEN {} ELSE '{}' END) = '{}'"
        pairs = (("a", "A"), ("\u00e9", "e"))
        equal = ", ".join(like.format(self.quoted(name), *pair) for name in names for pair in pairs)
        (found,) = self.fetch(f"SELECT {equal} FROM (SELECT 1) LEFT JOIN (SELECT * FROM ({select}) LIMIT 0) ON true")
        kinds = [
            [k for k, is_equal in zip(("NOCASE", "NOACCENT"), found[at : at + 2], strict=True) if is_equal]
            for at in range(0, len(found), 2)
        ]
        return {name: OwnType(f"COLLATE {'.'.join(kind)}") for name, kind in zip(names, kinds, strict=True) if kind}

    def is_aggregate(self, function: str) -> bool:
        return duckdb_catalog.is_aggregate(self.connection, function)

    def can_aggregate(self, function: str) -> bool:
        return duckdb_catalog.can_aggregate(self.connection, function)

    def _insert_bulk(self, table: str, rows: Sequence[Row]) -> None:
        import pyarrow as pa

        types = self.connection.sql(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema
        columns = columns_of_rows(rows, len(types))
        arrays = [pa.array(values, field.type) for values, field in zip(columns, types, strict=True)]
        self.append(table, pa.Table.from_arrays(arrays, schema=types))

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(self._prepared(sql))
        except duckdb.Error as error:
            raise Refused(error, sql) from None

    def _prepared(self, sql: str) -> Any:
        """The parsed statement, which is kept: parsing takes a fifth of a small statement's time."""
        statement = self._statements.get(sql)
        if statement is None:
            if len(self._statements) >= STATEMENT_LIMIT:
                self._statements.clear()  # texts with literals of one push do not recur
            if not is_storable(sql):
                raise Refused("the text is not Unicode: it has half of a surrogate pair", sql)
            found = self.connection.extract_statements(sql)
            statement = self._statements[sql] = found[0] if len(found) == 1 else sql
        return statement
