"""The interface that the bridge needs of a database. Each database's own file contains only its differences."""

from __future__ import annotations

import abc
import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import Dialect, ErrorLevel, exp

from windows.databases.capabilities import Capabilities
from windows.databases.change_capture import ChangeCapture
from windows.databases.json_values import JsonValues
from windows.databases.own_types import OwnType
from windows.databases.refused import Refused
from windows.schema import Attribute, Schema, type_of_arrow
from windows.sql import identifier, neutralize
from windows.types import is_nested

if TYPE_CHECKING:
    import pyarrow as pa


PREFIX = "cep_"
"""The beginning of the names of all tables of a bridge."""

CLOCK = "cep_clock"
"""The table of the time of a bridge, as neutral statements name it; it is called `own_name(CLOCK)`."""

PARAMETER = "cep_parameter_"
"""Prefix of the columns that stand for the values of a user's statement until these are bound."""

_MARK = re.compile(r"cep_mark_(\d+)_cep")
_registration = itertools.count(1)

Row = tuple[Any, ...]
Convert = Callable[[Any], Any]

LOCK_TIMEOUT = 5
"""Seconds to wait for another bridge's lock: a server needs a moment to notice that a connection has ended."""

NESTED_LOOP = "nested_loop"
"""Key in the `meta` of a join: few rows, each joined by an index. Tables that fill and empty mislead the planners."""


class Database(Capabilities, ChangeCapture, JsonValues, abc.ABC):
    """One connection to one database, used by one bridge.

    Statements are neutral sqlglot trees, which `render` turns into the database's SQL once; `insert`, `append` and the
    `…_bound` methods bind values. `Capabilities` state what the database can do, or does well.
    """

    dialect: ClassVar[str]
    """sqlglot's name of the database's SQL."""
    title: ClassVar[str] = "the database"
    """The database's name in messages."""
    owner: str = ""
    """The name of the bridge, where several have their tables in one database."""

    def own_types(self, select: str) -> dict[str, OwnType]:
        """The columns of a SELECT whose values compare or compute differently outside the database, and their types."""
        return {}

    def own_name(self, name: str) -> str:
        """The name of a table that has one name in every bridge, such as `cep_clock`, for the bridge `owner`."""
        if not self.owner:
            return name
        return (
            f"{PREFIX}_{self.owner}_{name.removeprefix(PREFIX)}" if name.startswith(PREFIX) else f"{name}_{self.owner}"
        )

    def use_schema(self, name: str) -> None:
        """Sets the schema of new tables, and creates it if needed. Tables in other schemas are found as before.

        Raises `Refused` if the database has no schemas.
        """
        raise Refused(f"{self.title} has no schemas that the bridge can use: name= keeps several bridges apart")

    def has_own(self, name: str) -> bool:
        """Whether a table of this name exists in the schema of new tables."""
        return self.relation(name) is not None

    @property
    def is_durable(self) -> bool:
        """Whether tables outlive the connection."""
        return False

    def __repr__(self) -> str:
        """The database as text, without a password."""
        return f"<{self.title}>"

    # Statements ---------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def execute(self, sql: str) -> None:
        """Runs one statement. Raises `Refused`."""

    @abc.abstractmethod
    def fetch(self, sql: str) -> list[Row]:
        """Runs a SELECT and returns all rows, with values as the driver gives them. Raises `Refused`."""

    def prepare(self, sql: str) -> None:
        """Plans a statement without running it. Raises `Refused` for a name or type that the database does not know."""
        self.fetch(f"EXPLAIN {sql}")

    @abc.abstractmethod
    def columns_of(self, sql: str) -> list[str]:
        """The column names of a SELECT."""

    @abc.abstractmethod
    def insert(self, table: str, width: int, rows: Sequence[Row]) -> None:
        """Inserts rows of `width` values, in the table's column order."""

    def parameterize(self, statement: exp.Expr, count: int) -> tuple[str, list[int]]:
        """A statement with the driver's placeholders for its `count` columns `PARAMETER…`.

        Returns the text, and for each placeholder, left to right, the number of the parameter that it takes.
        """
        text = statement.transform(_as_mark).sql(self.dialect)
        order = [int(parameter) for parameter in _MARK.findall(text)]
        assert set(order) <= set(range(count))
        if self.placeholder == "?":
            return _MARK.sub("?", text), order
        return _MARK.sub(self.placeholder, text.replace("%", "%%")), order

    table_options: str = ""
    """The end of CREATE TABLE for a table whose texts compare like those of the bridge."""

    placeholder: str = "?"
    """How the driver writes a value to be bound."""

    @abc.abstractmethod
    def fetch_bound(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """Runs a SELECT with values for its placeholders and returns all rows."""

    @abc.abstractmethod
    def execute_bound(self, sql: str, values: Sequence[Any]) -> None:
        """Runs one statement with values for its placeholders."""

    @abc.abstractmethod
    def modify_bound(self, sql: str, values: Sequence[Any]) -> int:
        """Runs an INSERT, UPDATE or DELETE with values for its placeholders; returns the number of affected rows."""

    def limited(self, seconds: float, megabytes: float, reads_only: bool) -> contextlib.AbstractContextManager[None]:
        """A context in which a statement that exceeds the time or the memory is stopped, and raises `Refused`.

        `reads_only`: no statement may write, not even a temporary table. Raises `Refused` if there are no limits.
        """
        raise Refused(f"{self.title} has no limits on a statement's time: use DuckDB, SQLite, PostgreSQL or MariaDB")

    # Tables -------------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def relation(self, name: str) -> Schema | None:
        """The columns of a table or view, None if there is none. A type unknown to the bridge is `UNKNOWN`."""

    def relation_columns(self, name: str, columns: Sequence[str]) -> dict[str, exp.Expr]:
        """Expressions that read the columns of a user's table so that its values compare like the bridge's own."""
        return {column: exp.column(column, quoted=True) for column in columns}

    def unique_keys(self, name: str) -> list[set[str]]:
        """The sets of a table's columns, in lower case, that the database declares unique."""
        return []

    def in_utc(self, table: str) -> dict[str, str]:
        """SQL that reads each column with a time zone as a TIMESTAMP in UTC, by column name; {} stands for the column."""
        return {}

    @abc.abstractmethod
    def table_names(self) -> list[str]:
        """The names of all tables and views that a new table would clash with."""

    def is_table(self, name: str) -> bool:
        """True if a name, as written in FROM, is a table and not a view; False also if that does not matter."""
        return False

    # Transactions -------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def begin(self) -> None: ...

    def begin_again(self) -> None:
        """Begins a transaction if DDL has committed the current one; see `ddl_commits`."""

    def settle(self) -> None:
        """Waits for the statements of the transaction that still run. Raises `Refused` if one has failed."""

    @abc.abstractmethod
    def commit(self) -> None: ...

    @abc.abstractmethod
    def rollback(self) -> None: ...

    def has_committed(self, error: BaseException) -> bool:
        """Whether a COMMIT that raised this error took effect, as far as the connection knows. Ends the transaction."""
        with contextlib.suppress(Refused):
            self.rollback()
        return False

    @abc.abstractmethod
    def close(self) -> None: ...

    def answers(self) -> bool:
        """Whether the connection still works. Rolls back the current transaction."""
        with contextlib.suppress(Refused):
            self.rollback()
        try:
            self.fetch("SELECT 1")
        except Refused:
            return False
        with contextlib.suppress(Refused):  # some databases begin a transaction with any statement
            self.rollback()
        return True

    def reopen(self) -> None:
        """Opens the connection again, after it was lost. Raises `Refused` if that fails, or is impossible."""
        raise Refused(f"{self.title} is not opened again")

    def acquire_lock(self) -> None:
        """Locks the place of the bridge's tables for one bridge until `close`. Raises `Refused` if another holds it.

        A database without such locks does nothing.
        """

    def reclaim_space(self) -> None:
        """Does housekeeping between transactions that the database does not do by itself after many deletions."""

    # Rendering ----------------------------------------------------------------------------------------------------------

    def render(self, statement: exp.Expr, pretty: bool = False) -> str:
        """A neutral statement in the database's SQL. Raises `Refused` if the database's SQL cannot express it."""
        try:
            tree = statement.transform(self.adapt)
            dialect = Dialect.get_or_raise(self.dialect)
            return dialect.generate(tree, copy=False, identify=True, pretty=pretty, unsupported_level=ErrorLevel.RAISE)
        except Exception as error:
            raise Refused(error, statement.sql()) from None

    def adapt(self, node: exp.Expr) -> exp.Expr:
        """Replaces one node of a neutral statement by what this database needs; called for every node, parents first."""
        if self.nested_type is not None and (found := self._nested(node)) is not None:
            return found
        if self.owner and isinstance(node, exp.Table) and node.name == CLOCK:
            return exp.table_(identifier(self.own_name(CLOCK)), alias=node.args.get("alias"))
        if isinstance(node, exp.Ordered) and node.args.get("nulls_first") is None:
            node.set("nulls_first", self._null_order[bool(node.args.get("desc"))])
        return neutralize(node)

    def quoted(self, name: str) -> str:
        """A name, quoted, in the database's SQL."""
        return self.render(identifier(name))

    @functools.cached_property
    def _null_order(self) -> tuple[bool, bool]:
        """True where NULLs come first by default, in ascending and descending order: the default is not written."""
        orders = {"nulls_are_small": (True, False), "nulls_are_large": (False, True)}
        return orders.get(Dialect.get_or_raise(self.dialect).NULL_ORDERING, (False, False))

    def exact(self, value: exp.Expr, type_name: str) -> exp.Expr:
        """A computed value of this type, as an expression that fails if arithmetic beyond 64 bits would round it."""
        return value

    def rank_among(self, value: exp.Expr, values: exp.Select, order: exp.Expr) -> exp.Expr | None:
        """How many integers of a SELECT of one column `order` are at most `value`, by binary search; None if impossible."""
        return None

    def is_aggregate(self, function: str) -> bool:
        """True if the database has an aggregate function of this name."""
        return False

    def has_aggregate(self, call: exp.Expr) -> bool:
        """False if the function that a call of an aggregate becomes in this database is known to be missing."""
        if not self.lists_aggregates:
            return True
        try:
            name = re.match(r"(\w+)\(", self.render(call))
        except Refused:
            return False
        return name is None or self.can_aggregate(name[1])

    def can_aggregate(self, function: str) -> bool:
        """True if there is a function of this name, which stands for one of sqlglot's aggregates."""
        return self.is_aggregate(function)

    # Arrow --------------------------------------------------------------------------------------------------------------

    def append(self, table: str, batch: pa.Table) -> None:
        """Inserts an Arrow table's rows, in the table's column order."""
        columns = [column.to_pylist() for column in batch.columns]
        self.insert(table, batch.num_columns, list(zip(*columns, strict=True)))

    def fetch_arrow(self, sql: str) -> pa.Table | None:
        """The rows of a SELECT as an Arrow table; None if the database has only `fetch`."""
        return None

    def value_at_edge(self, value: exp.Expr, place: exp.Expr, is_last: bool) -> exp.Expr | None:
        """An aggregate for the value, also NULL, at a group's least or greatest `place`; None: use a window function."""
        return None

    def is_exact_in_arrow(self, type_name: str) -> bool:
        """True if `fetch_arrow` gives values of this type unchanged, or as numbers that only need a cast."""
        return self.decoder(type_name) is None

    def register_arrow(self, name: str, rows: pa.Table) -> None:
        """Makes an Arrow table readable by statements under a new name, until `unregister_arrow`."""
        columns = (f"{self.quoted(field.name)} {self._registered_type(field.type)}" for field in rows.schema)
        self.execute(f"CREATE TEMPORARY TABLE {self.quoted(name)} ({', '.join(columns)})")
        self.append(self.quoted(name), rows)

    def unregister_arrow(self, name: str) -> None:
        """Ends the registration of an Arrow table by `register_arrow`."""
        self.execute(f"DROP TABLE {self.quoted(name)}")

    @contextlib.contextmanager
    def registered(self, rows: pa.Table, name: str | None = None) -> Iterator[str]:
        """Registers an Arrow table for the duration of a `with` block; its target is the name of the table."""
        name = name or f"_cep_registered_{next(_registration)}"
        self.register_arrow(name, rows)
        try:
            yield name
        except BaseException:
            with contextlib.suppress(Refused):  # the error may have ended the transaction, and the table with it
                self.unregister_arrow(name)
            raise
        self.unregister_arrow(name)

    def temporary_view(self, table: str, select: str, is_stored: bool) -> contextlib.AbstractContextManager[None]:
        """A context in which statements read the rows of a SELECT in place of a table, in the types of its columns.

        Only if `temporary_views` is true. `is_stored`: the rows are computed once.
        """
        raise NotImplementedError(f"{self.title} has no temporary views that hide tables")

    def _registered_type(self, kind: pa.DataType) -> str:
        if str(kind) in ("binary", "large_binary"):
            return self.binary_type
        return self.column_type(Attribute("registered", type_of_arrow(kind)))

    # Values -------------------------------------------------------------------------------------------------------------

    def column_type(self, attribute: Attribute) -> str:
        """The type of an attribute's column in this database."""
        if is_nested(attribute.type):
            return self.nested_type or attribute.type
        kind = "BIGINT" if attribute.type in ("SMALLINT", "INTEGER") else attribute.type
        return exp.DataType.build(kind).sql(self.dialect)

    def declared_type(self, attribute: Attribute) -> str:
        """The type to declare for a column of a table whose types are read again by `relation`."""
        return self.column_type(attribute)

    def result_type(self, attribute: Attribute) -> str:
        """The type of a column that holds a query's results."""
        return self.column_type(attribute)

    def value_type(self, attribute: Attribute) -> str | None:
        """The type for a CAST of a value that a statement computes with; None if only a column of its type has them."""
        return self.column_type(attribute)

    def encoder(self, attribute: Attribute) -> Convert | None:
        """The function that turns a checked value into one the driver binds; None if the driver takes it unchanged."""
        return None

    def decoder(self, type_name: str) -> Convert | None:
        """The function that turns a fetched value of this type into a Python value; None if the driver does that."""
        return None


def _as_mark(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Column) and node.name.startswith(PARAMETER):
        return exp.var(f"cep_mark_{node.name.removeprefix(PARAMETER)}_cep")
    return node
