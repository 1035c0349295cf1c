"""What MariaDB and MySQL do otherwise: quotes, texts that ignore case, DDL that ends transactions, decimals for quotients."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, cast

import sqlalchemy as sa
from sqlglot import exp
from sqlglot.dialects.mysql import MySQL as _MySQL

from windows.databases.alchemy import Alchemy, as_double, spelled, take_doubles
from windows.databases.base import Convert, Refused, schema_of
from windows.schema import Attribute, Schema, TypeMismatch

MODE = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
"""Names in double quotes and texts without escapes, as in every other database here; what does not fit is an error."""

TEXT_LENGTH = 4_000_000
"""Of texts made by CAST: a recursive statement cuts off what is longer than the type that the texts begin with."""

INDEXED = 100
"""Letters of a text in an index."""

_INDEX = re.compile(r"(CREATE INDEX .* ON `(.+?)`)\((.*)\)", re.DOTALL)
_NAME = re.compile(r"(?!\s)[^\0\U00010000-\U0010ffff]{1,64}(?<!\s)")
_CREATE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(`(?:[^`]|``)+`)")


class MariaDB(_MySQL):
    """The SQL of a connection in this mode, as sqlglot reads and writes it."""

    class Tokenizer(_MySQL.Tokenizer):
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]


class MySQL(Alchemy):
    """MariaDB, or MySQL, through PyMySQL."""

    dialect: ClassVar[str] = "mariadb"
    chunk: ClassVar[int] = 1_000
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
        self.connection.detach()  # with settings of ours it goes back to no pool
        driver.autocommit(True)  # transactions are ours
        self.collation = "utf8mb4_nopad_bin" if "MariaDB" in driver.get_server_info() else "utf8mb4_0900_bin"
        driver.set_character_set("utf8mb4", self.collation)
        self.execute(f"SET sql_mode = '{MODE}', max_sort_length = 65536, group_concat_max_len = 1073741824")
        self._created: list[str] = []

    def execute(self, sql: str) -> None:
        super().execute(self._index(sql) if sql.startswith("CREATE INDEX") else sql)
        if found := _CREATE.match(sql):
            self._created.append(found[1])

    def begin(self) -> None:
        self._created.clear()
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")
        self._created.clear()

    def rollback(self) -> None:
        """What was created is taken back by hand: CREATE TABLE ended the transaction before it."""
        self.execute("ROLLBACK")
        for name in self._created:
            self.execute(f"DROP TABLE IF EXISTS {name}")
        self._created.clear()

    def column_type(self, attribute: Attribute) -> str:
        types = {"VARCHAR": "LONGTEXT", "TIMESTAMP": "DATETIME(6)"}
        return types.get(attribute.type) or super().column_type(attribute)

    def encoder(self, attribute: Attribute) -> Convert | None:
        return _finite(attribute.name) if attribute.type == "DOUBLE" else None

    def relation(self, name: str) -> Schema | None:
        rows = self._columns(name, "column_name, column_type")
        return schema_of([(column, _kind(kind)) for column, kind in rows]) if rows else None

    def relation_columns(self, name: str, columns: Sequence[str]) -> dict[str, exp.Expr]:
        """Texts of every table compare as those of our own do, however they were declared."""
        collations = dict(self._columns(name, "column_name, collation_name"))
        return {
            column: exp.column(column, quoted=True)
            if collations.get(column) in (None, self.collation)
            else self._binary(column)
            for column in columns
        }

    def table_names(self) -> list[str]:
        return [
            name
            for (name,) in self.fetch(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
            )
        ]

    def adapt(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier) and not _NAME.fullmatch(node.name):
            raise Refused(
                f"{node.name!r} is no name for MariaDB: these have at most 64 letters and no blank around them"
            )
        if isinstance(node, exp.Literal) and not node.is_string and "." in node.name and "e" not in node.name.lower():
            return exp.Literal.number(node.name + "e0")  # 1.5 is a DECIMAL in MariaDB, a DOUBLE elsewhere
        if isinstance(node, exp.Create) and node.kind == "TABLE":
            self._declare(node)
        if isinstance(node, exp.Filter):
            return _within_call(node).transform(self.adapt)
        if isinstance(node, exp.Select):
            _point_into_source(node)
        if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.BIGINT and _is_whole(node.this):
            return exp.cast(exp.Literal.number(f"{node.this.name}e0"), "BIGINT")  # of an INT, it would be an INT
        if isinstance(node, exp.Cast) and node.to.this in _CASTS:
            node.set("to", exp.DataType.build(_CASTS[node.to.this], dialect="mysql"))
        if isinstance(node, exp.Div):
            node.set("this", as_double(node.this))  # a quotient of whole numbers has four digits else
        if isinstance(node, _EXACT):
            take_doubles(node)  # else these answer with four digits more than they are given
        if isinstance(node, exp.Round):
            node.set("this", exp.cast(node.this.copy(), "DECIMAL(65, 20)"))  # a half is rounded up, not to the even
        if (
            isinstance(node, exp.Window)
            and isinstance(node.this, (exp.Lead, exp.Lag))
            and node.this.args.get("default")
        ):
            return self._with_default(node)
        return super().adapt(node)

    def _refused(self, error: Exception, sql: str = "") -> Refused:
        return Refused(error, sql) if self._driver.open else Refused(f"the connection to the database is lost: {error}")

    def _declare(self, create: exp.Create) -> None:
        """Tables that take part in transactions, and whose texts compare byte by byte."""
        properties = create.args.get("properties") or exp.Properties(expressions=[])
        properties.append("expressions", exp.EngineProperty(this=exp.to_identifier("InnoDB")))
        properties.append("expressions", exp.CharacterSetProperty(this=exp.var("utf8mb4"), default=True))
        properties.append("expressions", exp.CollateProperty(this=exp.var(self.collation)))
        create.set("properties", properties)
        where = create.expression.args.get("where") if isinstance(create.expression, exp.Select) else None
        if where is not None and isinstance(where.this, exp.Boolean):
            _let_be_null(create.expression)

    def _with_default(self, window: exp.Window) -> exp.Expr:
        """LEAD and LAG have no default; what they look at is never NULL where we give one."""
        bare = window.copy()
        default = bare.this.args["default"].transform(self.adapt)
        bare.this.set("default", None)
        return exp.Coalesce(this=bare.transform(self.adapt), expressions=[default])

    def _binary(self, column: str) -> exp.Expr:
        utf8 = exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.var("utf8mb4"))
        text = exp.Cast(this=exp.column(column, quoted=True), to=utf8)
        return exp.Collate(this=text, expression=exp.var(self.collation))

    def _columns(self, name: str, wanted: str) -> list[Any]:
        table = exp.to_table(name)
        schema = exp.Literal.string(table.db).sql(self.dialect) if table.db else "DATABASE()"
        named = exp.Literal.string(table.name).sql(self.dialect)
        where = f"table_schema = {schema} AND table_name = {named} ORDER BY ordinal_position"
        return self.fetch(f"SELECT {wanted} FROM information_schema.columns WHERE {where}")

    def _index(self, sql: str) -> str:
        """An index holds the beginnings of long texts, and wants to be told of how many letters."""
        head, table, columns = _INDEX.fullmatch(sql).groups()  # type: ignore[union-attr]
        listed = "SELECT column_name FROM information_schema.columns WHERE data_type = 'longtext' AND table_name = "
        texts = self.fetch(f"{listed}'{table}' AND table_schema = DATABASE()")
        for (name,) in texts:
            columns = columns.replace(f"`{name.replace('`', '``')}`", rf"`{name.replace('`', '``')}`({INDEXED})")
        return f"{head}({columns})"


def _let_be_null(shape: exp.Select) -> None:
    """The columns of an outer join may be NULL, also those that are not in the rows that give a table its shape."""
    rows = shape.args["from_"].this
    one = exp.select(exp.alias_(exp.Literal.number(1), "_one", quoted=True)).subquery("_n")
    shape.from_(one, copy=False).join(rows, on=exp.false(), join_type="left", copy=False)


def _point_into_source(select: exp.Select) -> None:
    """The columns in OVER () by their table: MariaDB would take those of the same name that the SELECT gives."""
    source = select.args.get("from_")
    given = {one.alias for one in select.expressions if isinstance(one, exp.Alias)}
    for found in (column for one in select.expressions for column in _windowed(one)):
        if not found.table and found.name in given and source is not None:
            found.set("table", exp.to_identifier(source.this.alias_or_name, quoted=True))


def _windowed(expression: exp.Expr) -> Iterator[exp.Column]:
    """The columns in the window function calls of an expression, those of its sub-queries left out."""
    for node in expression.walk(prune=lambda node: isinstance(node, (exp.Window, exp.Query))):
        if isinstance(node, exp.Window):
            yield from node.find_all(exp.Column)


def _within_call(filtered: exp.Filter) -> exp.Expr:
    """`AGG(x) FILTER (WHERE c)` as `AGG(CASE WHEN c THEN x END)`."""
    call, condition = filtered.this.copy(), filtered.expression.this
    holder = call.this if isinstance(call.this, exp.Distinct) else call
    values = holder.expressions if holder is not call else [call.this]
    kept = [exp.Literal.number(1) if isinstance(value, exp.Star) else value.copy() for value in values]
    cases: list[exp.Expr] = [exp.Case().when(condition.copy(), value) for value in kept]
    holder.set(*(("expressions", cases) if holder is not call else ("this", cases[0])))
    return call


_CASTS = {
    **dict.fromkeys(
        (exp.DataType.Type.VARCHAR, exp.DataType.Type.TEXT, exp.DataType.Type.LONGTEXT), f"CHAR({TEXT_LENGTH})"
    ),
    **dict.fromkeys((exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME), "DATETIME(6)"),
    exp.DataType.Type.BOOLEAN: "SIGNED",
}


_EXACT = (exp.Avg, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop)


def _is_whole(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit() and len(value.name) < 16


def _kind(column_type: str) -> str:
    return "BOOLEAN" if column_type == "tinyint(1)" else spelled(re.sub(r"int\(\d+\)", "int", column_type), "mysql")


def _finite(name: str) -> Convert:
    def encode(value: float) -> float:
        if not math.isfinite(value):
            raise TypeMismatch(f"attribute {name!r}: MariaDB has no {value}: push NULL, or use DuckDB or PostgreSQL")
        return value

    return encode
