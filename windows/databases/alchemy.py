"""Any database that SQLAlchemy knows: its engine gives the connection, the driver's cursor runs the statements."""

from __future__ import annotations

import contextlib
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlglot import exp
from sqlglot.errors import SqlglotError

from windows.arrow import columns_of_rows
from windows.databases.base import Convert, Database, Row
from windows.databases.refused import Refused
from windows.databases.urls import hidden, without_password
from windows.schema import Attribute, Schema, relation_schema
from windows.types import is_nested, scale_of
from windows.values import json_reader, json_writer

if TYPE_CHECKING:
    import pyarrow as pa

_PYTHON: dict[str, Convert] = {"BOOLEAN": bool, "SMALLINT": int, "INTEGER": int, "BIGINT": int, "DOUBLE": float}

DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql"}
"""sqlglot's names of dialects, where they differ from SQLAlchemy's."""


class Alchemy(Database):
    """A database by its SQLAlchemy URL or engine."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        if not hasattr(type(self), "dialect"):
            self.dialect = DIALECTS.get(engine.dialect.name, engine.dialect.name)  # type: ignore[misc]
        self._errors: tuple[type[Exception], ...] = (engine.dialect.dbapi.Error, UnicodeError)  # type: ignore[union-attr]
        try:
            self.connection = engine.raw_connection()
        except (SQLAlchemyError, ValueError, TypeError, *self._errors) as error:  # a NUL; an unknown parameter
            raise Refused(
                f"the database {without_password(engine.url)} cannot be opened: {hidden(error, engine)}"
            ) from None
        self._cursor: Any = self.connection.cursor()
        self._inserts: dict[tuple[str, int], str] = {}

    @classmethod
    def engine_options(cls, url: sa.URL) -> dict[str, Any]:
        """The arguments of SQLAlchemy's `create_engine` for a URL of this database."""
        return {}

    def __repr__(self) -> str:
        title = self.title if type(self) is not Alchemy else self.engine.dialect.name
        return f"<{title} {without_password(self.engine.url)}>"

    def execute(self, sql: str) -> None:
        try:
            self._cursor.execute(sql)
        except self._errors as error:
            raise self._refused(error, sql) from None

    arrow_types: ClassVar[Mapping[int, str]] = {}
    """Arrow's type names by the driver's type codes; "decimal" for codes that sums of integers have, too."""

    def fetch(self, sql: str) -> list[Row]:
        self.execute(sql)
        try:
            return list(self._cursor.fetchall())
        except self._errors as error:  # some databases compute rows only now
            raise self._refused(error, sql) from None

    def columns_of(self, sql: str) -> list[str]:
        self.fetch(f"SELECT * FROM ({sql}) AS q WHERE 1 = 0")
        return [column[0] for column in self._cursor.description]

    def fetch_arrow(self, sql: str) -> pa.Table | None:
        """The result in the types of its columns; None if the driver's type codes are unknown."""
        if not self.arrow_types:
            return None
        import pyarrow as pa

        rows = self.fetch(sql)
        described = self._cursor.description
        columns = columns_of_rows(rows, len(described))
        kinds = [self._arrow_kind(place, column[1]) for place, column in enumerate(described)]
        arrays = [arrow_array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        return pa.Table.from_arrays(arrays, names=[column[0] for column in described])

    @contextlib.contextmanager
    def _settings(self, settings: Mapping[str, str], read: str, write: str) -> Iterator[None]:
        """A context in which the connection has these settings.

        `read` and `write` are the SQL to read and to set one.
        """
        (before,) = self.fetch(f"SELECT {', '.join(map(read.format, settings))}")
        try:
            for name, value in settings.items():
                self.execute(write.format(name, value))
            yield
        finally:
            for name, value in zip(settings, before, strict=True):
                self.execute(write.format(name, value))

    def _arrow_kind(self, place: int, code: int) -> str | None:
        """Arrow's name of the type of the result's column at a place, by the driver's type code."""
        return self.arrow_types.get(code)

    def insert(self, table: str, width: int, rows: Sequence[Row]) -> None:
        sql = self._inserts.get((table, width)) or self._insert_text(table, width)
        try:
            self._cursor.executemany(sql, rows)
        except (*self._overflows, *self._errors) as error:
            raise self._refused(error, sql) from None

    @property
    def placeholder(self) -> str:  # type: ignore[override]
        """The driver's own placeholder."""
        return self._mark("a statement with parameters")

    def fetch_bound(self, sql: str, values: Sequence[Any]) -> list[Row]:
        self.execute_bound(sql, values)
        try:
            return list(self._cursor.fetchall())
        except self._errors as error:
            raise self._refused(error, sql) from None

    def modify_bound(self, sql: str, values: Sequence[Any]) -> int:
        self.execute_bound(sql, values)
        return int(self._cursor.rowcount)

    def execute_bound(self, sql: str, values: Sequence[Any]) -> None:
        try:
            self._cursor.execute(sql, tuple(values))
        except (*self._overflows, *self._errors) as error:
            raise self._refused(error, sql) from None

    nested_type: ClassVar[str | None] = "TEXT"

    def encoder(self, attribute: Attribute) -> Convert | None:
        """A function that writes nested values as JSON; None for other types."""
        return json_writer(attribute.type) if is_nested(attribute.type) else None

    def decoder(self, type_name: str) -> Convert | None:
        """A function that converts fetched values: many databases return decimals for sums, numbers for booleans."""
        if is_nested(type_name):
            return json_reader(type_name)
        scale = scale_of(type_name)
        return decimal_of(scale) if scale is not None else _PYTHON.get(type_name)

    def is_exact_in_arrow(self, type_name: str) -> bool:
        return type_name in _PYTHON or super().is_exact_in_arrow(type_name)

    def relation(self, name: str) -> Schema | None:
        *schema, table = name.split(".")
        inspector = sa.inspect(self.engine)
        try:
            columns = inspector.get_columns(table, schema=schema[-1] if schema else None)
        except SQLAlchemyError:
            return None
        return relation_schema([(column["name"], str(column["type"])) for column in columns])

    def table_names(self) -> list[str]:
        inspector = sa.inspect(self.engine)
        return [*inspector.get_table_names(), *inspector.get_view_names()]

    def begin(self) -> None:
        """The driver opens a transaction with the first statement."""

    def commit(self) -> None:
        self._call(self.connection.commit)

    def rollback(self) -> None:
        self._call(self.connection.rollback)

    def close(self) -> None:
        """Closes the connection, also if it is lost or was closed elsewhere."""
        with contextlib.suppress(SQLAlchemyError, *self._errors):
            self._cursor.close()
            self.connection.close()

    def _call(self, function: Callable[[], object]) -> None:
        """Calls a function of the driver; its errors become `Refused`."""
        try:
            function()
        except self._errors as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception, sql: str = "") -> Refused:
        """The driver's error as `Refused`."""
        return Refused(error, sql)

    _overflows: ClassVar[tuple[type[Exception], ...]] = (OverflowError,)

    def _mark(self, what: str) -> str:
        style = self.engine.dialect.paramstyle
        marks = {"qmark": "?", "format": "%s", "pyformat": "%s"}
        if style not in marks:
            raise Refused(f"the driver's parameter style {style!r} is not known", what)
        return marks[style]

    def _insert_text(self, table: str, width: int) -> str:
        sql = f"INSERT INTO {table} VALUES ({', '.join([self._mark(table)] * width)})"
        self._inserts[table, width] = sql
        return sql


class Server(Alchemy):
    """A database on a server: tables outlive a connection, which may be lost and opened again."""

    lock_name: ClassVar[str]
    """The name of the lock of a bridge in the database's SQL, without the bridge's name."""
    unlock: ClassVar[str]
    """The SELECT that releases a lock."""
    schema: str = ""
    """The schema of the bridge's tables, if that is not the connection's."""

    @property
    def is_durable(self) -> bool:
        return True

    def reopen(self) -> None:
        with contextlib.suppress(SQLAlchemyError, *self._errors):
            self.connection.invalidate()  # else the pool would try to use it, and log that it cannot
        type(self).__init__(self, self.engine)
        if self.schema:
            self.use_schema(self.schema)

    @property
    def _own_lock(self) -> str:
        """The name of the lock of the bridge of this name."""
        return self.lock_name.format(f"{self.owner}." if self.owner else "")

    def close(self) -> None:
        """Releases the lock first: a server needs a moment to notice that a connection has ended."""
        with contextlib.suppress(Refused):
            self.fetch(self.unlock.format(self._own_lock))
        super().close()


def arrow_array(values: Sequence[Any], kind: str | None) -> Any:
    """An Arrow array of a type, by default of the values' own type. Decimals without fractions are sums of integers."""
    import pyarrow as pa

    if kind == "decimal":
        known = [value for value in values if value is not None]
        if not all(value.is_finite() for value in known):
            raise Refused("NaN and Infinity among decimals cannot leave the database: CAST them to DOUBLE PRECISION")
        whole = all(value.as_tuple().exponent == 0 and abs(value) < 2**63 for value in known)
        if whole:
            return pa.array([value if value is None else int(value) for value in values], pa.int64())
        kind = None
    try:
        return pa.array(values, pa.type_for_alias(cast("Any", kind)) if kind else None)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return array_of_any(values)


def array_of_any(values: Sequence[Any]) -> Any:
    """An Arrow array of the type that the values have; whole numbers beyond 64 bits are decimals."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except OverflowError:
        return pa.array([decimal.Decimal(value) if isinstance(value, int) else value for value in values])


def decimal_of(scale: int) -> Convert:
    """The function that turns numbers into decimals with `scale` digits after the point."""
    unit = decimal.Decimal(1).scaleb(-scale)
    context = decimal.Context(prec=80)

    def decode(value: Any) -> decimal.Decimal:
        return decimal.Decimal(str(value)).quantize(unit, context=context)

    return decode


def standard_type(kind: str, dialect: str) -> str:
    """A type of the database's catalogue in standard SQL.

    A NUMERIC without a size has as many digits as each value needs, so none of the bridge's types fits.

    >>> standard_type("character varying(20)", "postgres"), standard_type("timestamp without time zone", "postgres")
    ('VARCHAR(20)', 'TIMESTAMP')
    """
    if kind == "numeric":
        return "UNKNOWN"
    try:
        return exp.DataType.build(kind, dialect=dialect).sql()
    except SqlglotError:
        return kind


def as_double(value: exp.Expr) -> exp.Expr:
    """`CAST(value AS DOUBLE)`."""
    return exp.Cast(this=value.copy(), to=exp.DataType.build("DOUBLE"))


def aggregate_doubles(call: exp.Expr) -> None:
    """Casts the values of an aggregate to DOUBLE, in place."""
    if isinstance(call.this, exp.Distinct):
        call.this.set("expressions", [as_double(value) for value in call.this.expressions])
    else:
        call.set("this", as_double(call.this))
