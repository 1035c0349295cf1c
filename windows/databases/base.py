"""What the bridge asks of a database: a few verbs. A database's file says what it does otherwise, and only that."""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sqlglot import Dialect, ErrorLevel, exp

from windows.nested import FieldValue, Part, is_nested_null, made, part_of
from windows.schema import Attribute, Schema, TypeMismatch, canonical_type, decimal_size, type_of_arrow
from windows.types import is_nested

if TYPE_CHECKING:
    import pyarrow as pa

PARAMETER = "cep_parameter_"
"""Begins the names of the columns that stand for the values of a statement of the user's, until these are bound."""

_MARK = re.compile(r"cep_mark_(\d+)_cep")

Row = tuple[Any, ...]
Convert = Callable[[Any], Any]


class Refused(Exception):
    """The database refused a statement; carries its own words (`reason`) and the statement."""

    def __init__(self, reason: object, sql: str = "") -> None:
        self.reason = str(reason).strip()
        super().__init__(self.reason + (f"\n  in: {sql[:2000]}" if sql else ""))


class Elements(NamedTuple):
    """The elements of a list as an item of FROM, and what gives the value and the place of one."""

    rows: exp.Expr
    value: exp.Expr
    place: exp.Expr


CLAIMED_WITHIN = 2
"""Seconds until another bridge's hold on a database counts: a server notices the end of a connection within moments."""

IN_TURN = "in_turn"
"""Marks a join of few rows with what an index finds for each of them, which no database sees where rows come and go."""


class Database(abc.ABC):
    """One connection to one database, used by one bridge.

    Statements are neutral sqlglot trees, rendered once by `render`; only `insert` and `append` bind values.
    """

    dialect: ClassVar[str]
    """sqlglot's name of the SQL it speaks."""
    chunk: ClassVar[int] = 10_000
    """So many events at most go through the statements at once."""
    long_chunk: ClassVar[int] = 0
    """As many that come as Arrow, divided by the number of queries, where that is more."""
    frames: ClassVar[bool] = False
    """Whether a window frame's bound may be computed per row."""
    asof: ClassVar[bool] = False
    """Whether it has ASOF JOIN, and lists whose values are read by their places."""
    bulk: ClassVar[bool] = False
    """Whether it is for many events at once, so that a statement had better seek more than write rows of no use."""
    seeks: ClassVar[bool] = True
    """Whether an index serves a range whose bounds are another row's."""
    slides: ClassVar[bool] = False
    """Whether MIN and MAX over a frame that moves are as fast as over frames that only grow."""
    beside: ClassVar[bool] = False
    """Whether one statement with window frames for several queries is faster than one for each."""
    panes: ClassVar[tuple[int, ...]] = ()
    """Of how many rows it keeps aggregates, and of how many each longer level, where it `seeks`: rather than read them all
    again."""
    indexes: ClassVar[bool] = True
    """Whether it profits from indexes on window tables."""
    wide: ClassVar[str | None] = None
    """A type in which no sum of some BIGINTs overflows, where equations of such are what it finds rows by."""
    folds: ClassVar[bool] = False
    """Whether it computes with the values of a statement before it asks the conditions, so that `1 / a … WHERE a <> 0` fails."""
    inlines: ClassVar[bool] = False
    """Whether conditions with the values of an event are faster than a join with a row of them."""
    purge_every: ClassVar[int] = 1_000
    """Events between two purges: often enough to keep windows small, rarely enough to cost nothing."""
    ordered: ClassVar[bool] = False
    """Whether a table's rows are read, and counted by OVER (), in the order in which they were inserted."""
    lends: ClassVar[bool] = False
    """Whether it reads an Arrow table where it is, so that `lend` copies nothing."""
    nested_type: ClassVar[str | None] = None
    """The type of columns that hold nested values as JSON, where there are no types for these."""
    covering: ClassVar[bool] = False
    """Whether an index may hold all columns, so that the table need not be read."""

    @abc.abstractmethod
    def execute(self, sql: str) -> None:
        """Run one statement."""

    @abc.abstractmethod
    def fetch(self, sql: str) -> list[Row]:
        """All rows of a SELECT, as the driver gives them."""

    @abc.abstractmethod
    def columns_of(self, sql: str) -> list[str]:
        """The names of the columns a SELECT gives."""

    @abc.abstractmethod
    def insert(self, table: str, width: int, rows: Sequence[Row]) -> None:
        """Bind rows into a table, in its column order."""

    def marked(self, statement: exp.Expr, count: int) -> tuple[str, list[int]]:
        """The text of a statement, its columns `PARAMETER…` as the driver's marks, and whose values these take."""
        text = statement.transform(_as_mark).sql(self.dialect)
        order = [int(found) for found in _MARK.findall(text)]
        assert set(order) <= set(range(count))
        if self.mark == "?":
            return _MARK.sub("?", text), order
        return _MARK.sub(self.mark, text.replace("%", "%%")), order

    mark: str = "?"
    """How the driver marks a value to be bound."""

    @abc.abstractmethod
    def ask(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """All rows of a SELECT whose marks take these values."""

    @abc.abstractmethod
    def bind(self, sql: str, values: Sequence[Any]) -> None:
        """Run one statement whose marks take these values."""

    @abc.abstractmethod
    def change(self, sql: str, values: Sequence[Any]) -> int:
        """Run an INSERT, UPDATE or DELETE whose marks take these values; the number of rows it changed."""

    @abc.abstractmethod
    def relation(self, name: str) -> Schema | None:
        """The columns of a table or view, None where there is none; a type we have no name for reads `UNKNOWN`."""

    def relation_columns(self, name: str, columns: Sequence[str]) -> dict[str, exp.Expr]:
        """How statements read the columns of a table of the user's, so that its values compare as those of our own do."""
        return {column: exp.column(column, quoted=True) for column in columns}

    def unique(self, name: str) -> list[set[str]]:
        """Sets of a table's columns whose values no two rows have, where the database says so; names in lower case."""
        return []

    @abc.abstractmethod
    def table_names(self) -> list[str]:
        """The names of all tables and views there are: those that a new table cannot have."""

    @abc.abstractmethod
    def begin(self) -> None: ...

    @abc.abstractmethod
    def commit(self) -> None: ...

    @abc.abstractmethod
    def rollback(self) -> None: ...

    @abc.abstractmethod
    def close(self) -> None: ...

    def claim(self) -> None:  # noqa: B027
        """Takes what holds the bridge's tables for one bridge, until it is closed; raises `Refused` where another has it.

        A database that has no means for that says nothing.
        """

    def tidy(self) -> None:  # noqa: B027
        """Now and then, between transactions: what the database does not do by itself after many deleted rows."""

    def render(self, statement: exp.Expr, pretty: bool = False) -> str:
        """The text of a neutral statement in this database's SQL; raises `Refused` for what it cannot say."""
        try:
            tree = statement.transform(self.adapt)
            dialect = Dialect.get_or_raise(self.dialect)
            return dialect.generate(tree, copy=False, identify=True, pretty=pretty, unsupported_level=ErrorLevel.RAISE)
        except Exception as error:
            raise Refused(error, statement.sql()) from None

    def adapt(self, node: exp.Expr) -> exp.Expr:
        """One node of a statement as this database wants it; called for every node, parents first."""
        if self.nested_type is not None and (found := self._nested(node)) is not None:
            return found
        if isinstance(node, exp.Ordered) and node.args.get("nulls_first") is None:
            node.set("nulls_first", self._null_order[bool(node.args.get("desc"))])
        return neutral(node)

    def _nested(self, node: exp.Expr) -> exp.Expr | None:
        """What is about nested values, over JSON; None for any other node."""
        if (found := part_of(node)) is not None:
            return self.json_part(found._replace(base=found.base.transform(self.adapt)))
        if isinstance(node, exp.ArraySize):
            return self.json_length(node.this.transform(self.adapt))
        if (making := made(node)) is not None:
            order = [each.transform(self.adapt) for each in making.order]
            if making.element is not None:
                return self.json_list(making.element.transform(self.adapt), making.kind, order)
            return self.json_object([(name, value.transform(self.adapt), kind) for name, value, kind in making.fields])
        if is_nested_null(node):
            kind = exp.DataType.build(self.nested_type or "", dialect=self.dialect, udt=True)
            return exp.Cast(this=node.this.transform(self.adapt), to=kind)
        return None

    def json_part(self, part: Part) -> exp.Expr:
        """A part of a nested value that is kept as JSON, in its own type; the expression it is of is adapted already."""
        raise NotImplementedError

    def elements(self, values: exp.Expr, kind: str, alias: str) -> Elements:
        """The elements of a list, which are of this type; the list is not adapted yet."""
        raise NotImplementedError

    def json_length(self, value: exp.Expr) -> exp.Expr:
        """How many there are in a list that is kept as JSON."""
        raise NotImplementedError

    def json_object(self, fields: Sequence[FieldValue]) -> exp.Expr:
        """JSON of an object of these parts, whose values are adapted already."""
        raise NotImplementedError

    def json_list(self, value: exp.Expr, kind: str, order: Sequence[exp.Expr]) -> exp.Expr:
        """JSON of the values of a group, which are of this type, in this order; all is adapted already."""
        raise NotImplementedError

    def listed(self, values: Sequence[Any]) -> Any:
        """A list of objects that were fetched, none of them NULL, as a value to insert."""
        return list(values) if self.nested_type is None else f"[{','.join(values)}]"

    @functools.cached_property
    def _null_order(self) -> tuple[bool, bool]:
        """Where NULL stands first by itself, ascending and descending: what is so anyway need not be said."""
        orders = {"nulls_are_small": (True, False), "nulls_are_large": (False, True)}
        return orders.get(Dialect.get_or_raise(self.dialect).NULL_ORDERING, (False, False))

    def append(self, table: str, batch: pa.Table) -> None:
        """Bind an Arrow table's rows into a table, in its column order."""
        columns = [column.to_pylist() for column in batch.columns]
        self.insert(table, batch.num_columns, list(zip(*columns, strict=True)))

    def arrow(self, sql: str) -> pa.Table | None:
        """The rows of a SELECT as Arrow where the database has it, else None: `fetch` then."""
        return None

    def place_among(self, value: exp.Expr, values: exp.Select, order: exp.Expr) -> exp.Expr | None:
        """How many of the whole numbers that a SELECT of one column gives are at most `value`, found by halving.

        `order` is that column. None where the database has no function for it.
        """
        return None

    def in_arrow(self, type_name: str) -> bool:
        """Whether a column of `arrow` has values of this type as they are to be, or numbers that only need a cast."""
        return self.decoder(type_name) is None

    def lend(self, name: str, rows: pa.Table) -> None:
        """Let statements read an Arrow table under a name that no table has, until `take_back`."""
        columns = (f"{self.quoted(field.name)} {self._lent_type(field.type)}" for field in rows.schema)
        self.execute(f"CREATE TEMPORARY TABLE {self.quoted(name)} ({', '.join(columns)})")
        self.append(self.quoted(name), rows)

    def _lent_type(self, kind: pa.DataType) -> str:
        return self.column_type(Attribute("lent", type_of_arrow(kind)))

    def quoted(self, name: str) -> str:
        """A name as statements in the database's SQL have it."""
        return self.render(exp.to_identifier(name, quoted=True))

    def take_back(self, name: str) -> None:
        """End what `lend` began."""
        self.execute(f"DROP TABLE {self.quoted(name)}")

    def is_table(self, name: str) -> bool:
        """Whether a name as written in FROM is that of a table proper, no view; False where that does not matter."""
        return False

    def column_type(self, attribute: Attribute) -> str:
        """The type of an attribute's column in this database."""
        if is_nested(attribute.type):
            return self.nested_type or attribute.type
        kind = "BIGINT" if attribute.type in ("SMALLINT", "INTEGER") else attribute.type
        return exp.DataType.build(kind).sql(self.dialect)

    def value_type(self, attribute: Attribute) -> str | None:
        """As what type a statement takes a value that its column would hold; None where it is to be in the column."""
        return self.column_type(attribute)

    def encoder(self, attribute: Attribute) -> Convert | None:
        """How a checked value is bound, where the driver does not take it as it is."""
        return None

    def decoder(self, type_name: str) -> Convert | None:
        """How a fetched value of this type becomes a Python value, where the driver does not do it."""
        return None

    def is_aggregate(self, function: str) -> bool:
        """Whether the database has an aggregate of this name that sqlglot does not know."""
        return False


def table_of(name: str) -> exp.Table:
    """A table by its name, or `schema.table`: names are taken as they are, not read as SQL.

    >>> table_of("s.t").sql("duckdb"), table_of('x"; --').sql("duckdb")
    ('"s"."t"', '"x""; --"')
    """
    *outer, own = (exp.to_identifier(part, quoted=True) for part in name.split("."))
    places = dict(zip(("db", "catalog"), reversed(outer), strict=False))
    return exp.Table(this=own, **places)


def _as_mark(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Column) and node.name.startswith(PARAMETER):
        return exp.var(f"cep_mark_{node.name.removeprefix(PARAMETER)}_cep")
    return node


def neutral(node: exp.Expr) -> exp.Expr:
    """What no database is asked for because they differ: division by zero (NULL here), the type of `1.5` (DOUBLE here)."""
    if isinstance(node, (exp.Div, exp.Mod, exp.IntDiv)) and not isinstance(node.expression, (exp.Literal, exp.Nullif)):
        node.set("expression", exp.Nullif(this=node.expression, expression=exp.Literal.number(0)))
    elif isinstance(node, (exp.Div, exp.Mod, exp.IntDiv)) and _is_zero(node.expression):
        return exp.null()
    return node


def _is_zero(value: exp.Expression) -> bool:
    return isinstance(value, exp.Literal) and not value.is_string and float(value.name) == 0


def schema_of(columns: Sequence[tuple[str, str]]) -> Schema:
    """A relation's schema; the bridge's own names and types it has no name for are allowed here."""
    attributes = []
    for name, kind in columns:
        attribute = object.__new__(Attribute)
        object.__setattr__(attribute, "name", name)
        object.__setattr__(attribute, "type", _known_type(kind))
        attributes.append(attribute)
    schema = object.__new__(Schema)
    object.__setattr__(schema, "attributes", tuple(attributes))
    return schema


def _known_type(kind: str) -> str:
    try:
        return canonical_type(kind)
    except TypeMismatch:
        return "UNKNOWN"


def scale_of(type_name: str) -> int | None:
    """The digits after the point of a DECIMAL type."""
    size = decimal_size(type_name)
    return size[1] if size else None
