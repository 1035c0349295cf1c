"""Where MariaDB and MySQL differ: quotes, texts that ignore case, DDL that ends transactions, decimal quotients."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

import sqlalchemy as sa
from sqlglot import exp
from sqlglot.dialects.mysql import MySQL as _MySQL

from windows.databases.alchemy import Server, aggregate_doubles, as_double, standard_type
from windows.databases.base import LOCK_TIMEOUT, Convert
from windows.databases.mariadb_json import TEXT_LENGTH, MariaDBJson
from windows.databases.own_types import OwnType, is_mariadb_binary, mariadb_types
from windows.databases.refused import ConnectionLost, Refused
from windows.databases.triggers import ChangeTriggers, NotedColumn, mariadb_triggers
from windows.nested import (
    is_nested_null,
)
from windows.schema import Attribute, Schema, TypeMismatch, relation_schema
from windows.sql import table_of

MODE = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
"""Double quotes for names and texts without escapes, as in other databases; values that do not fit are errors."""


INDEXED = 100
"""The number of characters of a text in an index."""

AGGREGATES = {
    "AVG", "BIT_AND", "BIT_OR", "BIT_XOR", "COUNT", "GROUP_CONCAT", "JSON_ARRAYAGG", "JSON_OBJECTAGG", "MAX",
    "MIN", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "SUM", "VARIANCE", "VAR_POP", "VAR_SAMP",
}  # fmt: skip
"""The aggregate functions of both, which no table of the server lists."""

_INDEX = re.compile(r"(CREATE INDEX .* ON `(.+?)`)\((.*)\)", re.DOTALL)
_NAME = re.compile(r"(?!\s)[^\0\U00010000-\U0010ffff]{1,64}(?<!\s)")
_LOCK = "CONCAT('cep_bridge.', SHA1(CONCAT('{}', COALESCE(DATABASE(), ''))))"
"""The name of the lock of the bridge in the current database."""

_CREATE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(`(?:[^`]|``)+`)")

_IN_TRANSACTION = 1
"""The bit of the protocol's status of a connection that is in a transaction."""
_CLIENT_ERRORS = 2
"""The thousand that the numbers of errors have which are the driver's own."""

_NOT_HASHED = ("DECIMAL", "TIMESTAMP")
"""The types whose NULLs MariaDB's hash joins do not find."""


class MariaDB(_MySQL):
    """sqlglot's dialect for connections in `MODE`."""

    class Tokenizer(_MySQL.Tokenizer):
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]


class MySQL(MariaDBJson, Server):
    """MariaDB or MySQL, through PyMySQL."""

    lock_name: ClassVar[str] = _LOCK
    unlock: ClassVar[str] = "SELECT RELEASE_LOCK({})"
    dialect: ClassVar[str] = "mariadb"
    title: ClassVar[str] = "MariaDB"
    windows_in_conditions: ClassVar[bool] = False
    binary_type: ClassVar[str] = "LONGBLOB"
    lists_aggregates: ClassVar[bool] = True
    chunk_size: ClassVar[int] = 1_000
    index_range_joins: ClassVar[bool] = False
    fast_sliding_min_max: ClassVar[bool] = True  # both are computed by reading the whole frame
    side_by_side_frames: ClassVar[bool] = True
    purge_every: ClassVar[int] = 64  # an index is read from its beginning
    wide_integer: ClassVar[str | None] = "DECIMAL(40, 0)"
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
        if is_mariadb:
            self.execute("SET join_cache_level = 4")  # hash joins, which MySQL uses anyway
        self._created: list[str] = []
        self._not_hashed: set[str] = set()
        """The names of columns whose NULLs a hash join does not find, in lower case."""

    def own_types(self, select: str) -> dict[str, OwnType]:
        self.columns_of(select)
        return mariadb_types(self, select, self._cursor._result.fields, self.collation)

    @property
    def table_options(self) -> str:  # type: ignore[override]
        """Texts of any letters, which compare byte by byte."""
        return f" DEFAULT CHARACTER SET utf8mb4 COLLATE {self.collation}"

    def _registered_type(self, kind: Any) -> str:
        found = super()._registered_type(kind)
        return f"LONGTEXT CHARACTER SET utf8mb4 COLLATE {self.collation}" if found == "LONGTEXT" else found

    def _arrow_kind(self, place: int, code: int) -> str | None:
        return "binary" if is_mariadb_binary(self._cursor._result.fields[place]) else super()._arrow_kind(place, code)

    def use_schema(self, name: str) -> None:
        """A schema is a database here, and those of others are named with theirs: `shop.orders`."""
        known = exp.Literal.string(name).sql(self.dialect)
        if not self.fetch(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {known}"):
            self.execute(f"CREATE DATABASE {self.quoted(name)}")
        self.execute(f"USE {self.quoted(name)}")
        self.schema = name

    def acquire_lock(self) -> None:
        """Takes a lock named after the current database."""
        if not self.fetch(f"SELECT GET_LOCK({self._own_lock}, {LOCK_TIMEOUT})")[0][0]:
            raise Refused("another bridge is at work in this database: close it, or give this one another")

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

    def commit(self) -> None:
        self.execute("COMMIT")
        self._created.clear()

    def rollback(self) -> None:
        """Drops the tables created since `begin`: CREATE TABLE commits the transaction."""
        self.execute("ROLLBACK")
        for name in self._created:
            self.execute(f"DROP TABLE IF EXISTS {name}")
        self._created.clear()

    def has_committed(self, error: BaseException) -> bool:
        """The server's status says whether it is in a transaction; its own errors say that it has rolled back."""
        number = next(iter(getattr(error.__context__, "args", ())), None)
        is_servers = isinstance(number, int) and number // 1000 != _CLIENT_ERRORS
        if not self._driver.open or self._driver.server_status & _IN_TRANSACTION or is_servers:
            return super().has_committed(error)
        self._created.clear()
        return True

    def column_type(self, attribute: Attribute) -> str:
        types = {"VARCHAR": "LONGTEXT", "TIMESTAMP": "DATETIME(6)"}
        if attribute.type.startswith(_NOT_HASHED):
            self._not_hashed.add(attribute.name.lower())
        return types.get(attribute.type) or super().column_type(attribute)

    def encoder(self, attribute: Attribute) -> Convert | None:
        return _finite(attribute.name) if attribute.type == "DOUBLE" else super().encoder(attribute)

    def relation(self, name: str) -> Schema | None:
        rows = self._columns(name, "column_name, column_type")
        kinds = [(column, _kind(kind)) for column, kind in rows]
        self._not_hashed |= {
            column.lower() for column, kind in kinds if kind.startswith((*_NOT_HASHED, "DATETIME", "TIME"))
        }
        return relation_schema(kinds) if rows else None

    def relation_columns(self, name: str, columns: Sequence[str]) -> dict[str, exp.Expr]:
        """Texts of every table compare like those of the bridge's tables, whatever their collation."""
        collations = dict(self._columns(name, "column_name, collation_name"))
        plain = super().relation_columns(name, columns)
        differs = [column for column in columns if collations.get(column) not in (None, self.collation)]
        return {**plain, **{column: self._binary(plain[column]) for column in differs}}

    def in_utc(self, table: str) -> dict[str, str]:
        """A TIMESTAMP is read in the time zone of the session."""
        names = [name for name, kind in self._columns(table, "column_name, data_type") if kind == "timestamp"]
        return dict.fromkeys(names, "CONVERT_TZ({}, @@SESSION.time_zone, '+00:00')")

    identity: ClassVar[str] = "BIGINT AUTO_INCREMENT PRIMARY KEY"

    def change_triggers(
        self, table: str, outbox: str, columns: Sequence[NotedColumn], time: NotedColumn | None
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

    def adapt(self, node: exp.Expr) -> exp.Expr:
        change = _CHANGES.get(type(node))
        changed = change(node, self) if change is not None else node
        return super().adapt(node) if changed is node else changed

    def _nested(self, node: exp.Expr) -> exp.Expr | None:
        """A CAST to text without a length would make a column of length 0."""
        found = super()._nested(node)
        return _cast(found, self) if isinstance(found, exp.Cast) and is_nested_null(node) else found

    def _refused(self, error: Exception, sql: str = "") -> Refused:
        return Refused(error, sql) if self._driver.open else ConnectionLost(error)

    def _binary(self, column: exp.Expr) -> exp.Expr:
        return exp.Collate(this=_in_utf8(column), expression=exp.var(self.collation))

    def _columns(self, name: str, properties: str) -> list[Any]:
        table = table_of(name)
        schema = exp.Literal.string(table.db).sql(self.dialect) if table.db else "DATABASE()"
        named = exp.Literal.string(table.name).sql(self.dialect)
        where = f"table_schema = {schema} AND table_name = {named} ORDER BY ordinal_position"
        return self.fetch(f"SELECT {properties} FROM information_schema.columns WHERE {where}")

    def _index(self, sql: str) -> str:
        """An index on a long text needs the number of characters to index."""
        found = _INDEX.fullmatch(sql)
        assert found is not None
        head, table, columns = found.groups()
        texts = "SELECT column_name FROM information_schema.columns WHERE data_type LIKE '%text' AND table_name = "
        for (name,) in self.fetch(f"{texts}'{table}' AND table_schema = DATABASE()"):
            columns = columns.replace(self.quoted(name), f"{self.quoted(name)}({INDEXED})")
        return f"{head}({columns})"


# Adaptations of single nodes ------------------------------------------------------------------------------


def _name(name: exp.Expr, _: MySQL) -> exp.Expr:
    if _NAME.fullmatch(name.name):
        return name
    raise Refused(f"{name.name!r} is not a name in MariaDB: names have at most 64 characters and no blanks around them")


def _literal(literal: exp.Expr, _: MySQL) -> exp.Expr:
    """`1.5` is a DECIMAL in MariaDB, and a DOUBLE in the bridge."""
    is_double = not literal.args["is_string"] and "." in literal.name and "e" not in literal.name.lower()
    return exp.Literal.number(literal.name + "e0") if is_double else literal


def _cast(cast: exp.Expr, _: MySQL) -> exp.Expr:
    """Types that CAST accepts. A literal cast to BIGINT would make an INT column."""
    kind, value = cast.args["to"].this, cast.this
    if kind == exp.DataType.Type.BIGINT and isinstance(value, exp.Literal) and value.name.isdigit():
        cast.set("this", exp.Literal.number(f"{value.name}e0") if len(value.name) < 16 else value)
    elif kind in _CASTS:
        cast.set("to", exp.DataType.build(_CASTS[kind], dialect="mysql"))
    return cast


def _divided(quotient: exp.Expr, _: MySQL) -> exp.Expr:
    """A quotient of integers would have four digits after the point."""
    quotient.set("this", as_double(quotient.this))
    return quotient


def _of_doubles(call: exp.Expr, _: MySQL) -> exp.Expr:
    """Over decimals the result has only four more digits."""
    aggregate_doubles(call)
    return call


def _rounded(call: exp.Expr, _: MySQL) -> exp.Expr:
    """A DOUBLE is rounded half to even, a DECIMAL half up."""
    call.set("this", exp.cast(call.this.copy(), "DECIMAL(65, 20)"))
    return call


def _like(like: exp.Expr, _: MySQL) -> exp.Expr:
    r"""A backslash in a pattern stands for itself, as in other databases: it is doubled."""
    if not isinstance(like.parent, exp.Escape):
        slashes = [exp.Literal.string("\\" * count) for count in (1, 2)]
        like.set("expression", exp.Anonymous(this="REPLACE", expressions=[like.expression.copy(), *slashes]))
    return like


def _regexp_like(node: exp.Expr, database: MySQL) -> exp.Expr:
    """MariaDB lacks REGEXP_LIKE."""
    sides = [side.transform(database.adapt) for side in (node.this, node.expression)]
    place = exp.Anonymous(this="REGEXP_INSTR", expressions=sides)
    return exp.GT(this=place, expression=exp.Literal.number(0))


def _windowed(window: exp.Expr, database: MySQL) -> exp.Expr:
    """LEAD and LAG have no default; the bridge gives one only for values that are never NULL."""
    if not isinstance(window.this, (exp.Lead, exp.Lag)) or window.this.args.get("default") is None:
        return window
    bare = window.copy()
    default = bare.this.args["default"].transform(database.adapt)
    bare.this.set("default", None)
    return exp.Coalesce(this=bare.transform(database.adapt), expressions=[default])


def _filtered(filtered: exp.Expr, database: MySQL) -> exp.Expr:
    """`AGG(x) FILTER (WHERE c)` as `AGG(CASE WHEN c THEN x END)`."""
    call, condition = filtered.this.copy(), filtered.expression.this

    def kept(value: exp.Expr) -> exp.Expr:
        shown = exp.Literal.number(1) if isinstance(value, exp.Star) else value.copy()
        return exp.Case().when(condition.copy(), shown)

    if isinstance(call.this, exp.Distinct):
        call.this.set("expressions", [kept(value) for value in call.this.expressions])
    else:
        call.set("this", kept(call.this))
    changed: exp.Expr = call.transform(database.adapt)
    return changed


def _created(create: exp.Expr, database: MySQL) -> exp.Expr:
    """Tables with transactions, and with texts that compare byte by byte."""
    if create.args["kind"] != "TABLE":
        return create
    properties = create.args.get("properties") or exp.Properties(expressions=[])
    properties.append("expressions", exp.EngineProperty(this=exp.to_identifier("InnoDB")))
    properties.append("expressions", exp.CharacterSetProperty(this=exp.var("utf8mb4"), default=True))
    properties.append("expressions", exp.CollateProperty(this=exp.var(database.collation)))
    create.set("properties", properties)
    where = create.expression.args.get("where") if isinstance(create.expression, exp.Select) else None
    if where is not None and isinstance(where.this, exp.Boolean):
        _make_nullable(create.expression)
    return create


def _make_nullable(shape: exp.Select) -> None:
    """Makes all columns of a new table nullable, in place: it takes the columns of an outer join."""
    rows = shape.args["from_"].this
    one = exp.select(exp.alias_(exp.Literal.number(1), "_one", quoted=True)).subquery("_n")
    shape.from_(one, copy=False).join(rows, on=exp.false(), join_type="left", copy=False)


def _selected(select: exp.Expr, _: MySQL) -> exp.Expr:
    """Qualifies columns in OVER (): MariaDB would take the SELECT's own columns of the same name."""
    source = select.args.get("from_")
    outputs = {item.alias for item in select.expressions if isinstance(item, exp.Alias)}
    for column in (column for item in select.expressions for column in _columns_over(item)):
        if not column.table and column.name in outputs and source is not None:
            column.set("table", exp.to_identifier(source.this.alias_or_name, quoted=True))
    return select


def _collated(collate: exp.Expr, _: MySQL) -> exp.Expr:
    if not isinstance(collate.this, exp.Cast) and collate.expression.name.startswith("utf8mb4"):
        collate.set("this", _in_utf8(collate.this.copy()))
    return collate


def _in_utf8(value: exp.Expr) -> exp.Expr:
    utf8 = exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.var("utf8mb4"))
    return exp.Cast(this=value, to=utf8)


def _null_safe(same: exp.Expr, database: MySQL) -> exp.Expr:
    """Keeps `<=>` over DECIMALs and times out of hash joins, where MariaDB finds no pairs of NULLs."""
    names = {name.lower() for column in same.find_all(exp.Column) for name in _origins(column)}
    own = {name for name in names if name.startswith("_")}  # of state tables: of any type
    if not database._not_hashed or not (own or names & database._not_hashed):
        return same
    sides = {side: same.args[side].transform(database.adapt) for side in ("this", "expression")}
    return exp.Is(this=exp.paren(exp.NullSafeEQ(**sides)), expression=exp.true())


def _origins(column: exp.Column) -> set[str]:
    """The names of the columns of tables from which a column of sub-queries in FROM comes."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        joins = [join.this for join in select.args.get("joins") or []]
        from_ = select.args.get("from_")
        items = [from_.this, *joins] if from_ is not None else joins
        item = next((each for each in items if column.table in ("", each.alias_or_name)), None)
        if isinstance(item, exp.Subquery):
            inner = next((each for each in item.this.selects if each.alias_or_name == column.name), None)
            columns = [] if inner is None else list(inner.find_all(exp.Column))
            return {name for each in columns for name in _origins(each)} or {column.name}
        if item is not None:
            break
        select = select.find_ancestor(exp.Select)
    return {column.name}


def _cte(cte: exp.Expr, _: MySQL) -> exp.Expr:
    """There is no MATERIALIZED in WITH."""
    cte.set("materialized", None)
    return cte


def _columns_over(expression: exp.Expr) -> Iterator[exp.Column]:
    """The columns in the window function calls of an expression, those of its sub-queries left out."""
    for node in expression.walk(prune=lambda node: isinstance(node, (exp.Window, exp.Query))):
        if isinstance(node, exp.Window):
            yield from node.find_all(exp.Column)


_TEXTS = (exp.DataType.Type.VARCHAR, exp.DataType.Type.TEXT, exp.DataType.Type.LONGTEXT)
_CASTS = {
    **dict.fromkeys(_TEXTS, f"CHAR({TEXT_LENGTH})"),
    **dict.fromkeys((exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME), "DATETIME(6)"),
    exp.DataType.Type.BOOLEAN: "SIGNED",
}
_CHANGES: dict[type[exp.Expr], Callable[[Any, MySQL], exp.Expr]] = {
    exp.Identifier: _name, exp.Literal: _literal, exp.Cast: _cast, exp.Div: _divided, exp.Round: _rounded,
    exp.Avg: _of_doubles, exp.Stddev: _of_doubles, exp.StddevSamp: _of_doubles, exp.StddevPop: _of_doubles,
    exp.Variance: _of_doubles, exp.VariancePop: _of_doubles, exp.Window: _windowed, exp.Filter: _filtered,
    exp.Like: _like, exp.RegexpLike: _regexp_like, exp.Create: _created, exp.Select: _selected,
    exp.CTE: _cte, exp.Collate: _collated, exp.NullSafeEQ: _null_safe,
}  # fmt: skip


def _kind(column_type: str) -> str:
    return (
        "BOOLEAN" if column_type == "tinyint(1)" else standard_type(re.sub(r"int\(\d+\)", "int", column_type), "mysql")
    )


def _finite(name: str) -> Convert:
    def encode(value: float) -> float:
        if not math.isfinite(value):
            raise TypeMismatch(f"attribute {name!r}: MariaDB has no {value}: push NULL, or use DuckDB or PostgreSQL")
        return value

    return encode
