"""The tables of a bridge in its database, created and dropped by name, and the texts of statements on them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from bridge.engine.durable import CatalogueTables
from bridge.rewrite.names import TableNames
from bridge.rewrite.plan import Insert, Operator, PlannedTable, RowCountProbe, Step, indexing
from bridge.rewrite.state_tables import CLOCK
from windows.databases import Database, Refused
from windows.schema import Schema
from windows.sql import identifier, table
from windows.times import BEGINNING


class Tables:
    """Creates and drops tables. `names`: the names of the existing tables, in the order of creation."""

    def __init__(self, database: Database, names: TableNames, catalogue: CatalogueTables | None = None) -> None:
        self.names: list[str] = []
        self.left: set[str] = set()
        """The tables of the state that is being resumed that no definition has claimed yet."""
        self.absent: set[str] = set()
        """The names in that state without a table: it is created later, or a crash came before its creation."""
        self._drops: list[Callable[[], None]] = []
        """The functions that drop tables after the current transaction has taken effect."""
        self._database = database
        self._clock = database.own_name(CLOCK)
        self._own_names, self._catalogue = names, catalogue
        self._texts: dict[tuple[int, str], tuple[Step | RowCountProbe, str]] = {}
        self.quoted = functools.cache(database.quoted)
        """A name, quoted as in the database's SQL."""
        self.emptying = functools.cache(self._emptying)
        """The statement that removes all rows of a table. The second argument: whether there may be many rows."""
        self._are_unlogged = catalogue is None and database.unlogged_tables

    def resume(self, named: Iterable[str], present: Iterable[str]) -> None:
        """Notes which tables of a resumed state, by their names, are `present` and which are absent."""
        lowered = {name.lower() for name in present}
        self.left = {name for name in named if name.lower() in lowered}
        self.absent = {*named} - self.left

    def store_names(self) -> None:
        """Stores the names that were added or removed in this transaction, before such a table is created."""
        if self._catalogue is not None and self._own_names.is_changed:
            self._catalogue.change_names(*self._own_names.changes())

    def _is_left(self, name: str) -> bool:
        """Whether a table belongs to the state that is being resumed; then it is taken over."""
        self.store_names()
        if name not in self.left:
            return False
        self.left.discard(name)
        self.names.append(name)
        return True

    def create(self, name: str, columns: Sequence[tuple[str, str]], key: str | None = None) -> bool:
        """Creates a table with these columns; types are in the database's SQL. A `key` is used where indexes are.

        False if the table exists, in a resumed state.
        """
        if self._is_left(name):
            return False
        definitions = [
            exp.ColumnDef(
                this=identifier(column), kind=exp.DataType.build(kind, dialect=self._database.dialect, udt=True)
            )
            for column, kind in columns
        ]
        if self._database.uses_indexes and not self._are_unlogged:  # here an index costs as much as the rows
            for definition in definitions:
                if definition.name == key:  # rows that are read in this order need no sorting to be grouped
                    definition.set("constraints", [exp.ColumnConstraint(kind=exp.PrimaryKeyColumnConstraint())])
        self._create(exp.Create(kind="TABLE", this=exp.Schema(this=table(name), expressions=definitions)))
        self.names.append(name)
        return True

    def create_from(self, name: str, definitions: Callable[[], str]) -> None:
        """`create`, for columns whose definitions are given in the database's SQL."""
        if not self._is_left(name):
            self._database.execute(f"CREATE TABLE {self.quoted(name)} ({definitions()}){self._database.table_options}")
            self.names.append(name)

    def create_own(self, name: str, columns: Sequence[tuple[str, str]]) -> bool:
        """`create` for a table whose name is the user's."""
        self._own_names.add(name)
        return self.create(name, columns)

    def create_clock(self) -> None:
        """Creates the clock: one row with the time before the push, the time now, and the newest event's number."""
        if self._database.has_own(self._clock):
            self._execute(exp.Drop(tables=[table(self._clock)], kind="TABLE"))
        self.create(self._clock, [("before", "BIGINT"), ("now", "BIGINT"), ("seq", "BIGINT")])
        self._database.insert(self.quoted(self._clock), 3, [(BEGINNING, BEGINNING, 0)])

    def set_clock(self, before: int, now: int, seq: int) -> None:
        """Sets the time and the number of the newest event, which statements read; a restart needs them, too."""
        self._database.execute_bound(self._setting_clock, (before, now, seq))

    @functools.cached_property
    def _setting_clock(self) -> str:
        mark = self._database.placeholder
        settings = ", ".join(f"{self.quoted(name)} = {mark}" for name in ("before", "now", "seq"))
        return f"UPDATE {self.quoted(self._clock)} SET {settings}"

    def begin(self, operator: Operator, ts: int) -> None:
        """Notes the time at which an operator began, which later events do not change."""
        self._database.insert(self.quoted(operator.beginning), 1, [(ts,)])

    def clock(self) -> tuple[int, int] | None:
        """The time and the number of the newest event, as set by `set_clock`; None if the database has no clock."""
        if not self._database.has_own(self._clock):
            return None
        columns = ", ".join(map(self.quoted, ("now", "seq")))
        found = self._database.fetch(f"SELECT {columns} FROM {self.quoted(self._clock)}")
        return next(((int(now), int(seq)) for now, seq in found), None)

    def create_planned(self, planned: PlannedTable) -> None:
        """Creates a table of a plan and its indexes, unless it exists in a resumed state."""
        if not self._is_left(planned.name):
            self._create(planned.create())
            self.names.append(planned.name)
        self.index(planned.name, planned.indexes)

    def index(self, name: str, indexes: Sequence[Sequence[str]], done: int = 0) -> None:
        """Creates indexes over these columns of a table, except the first `done`, if the database uses indexes."""
        for number, columns in enumerate(indexes[done:] if self._database.uses_indexes else [], done + 1):
            if (index := self._own_names.index(name, columns, number)) is not None:
                self._execute(indexing(index, name, columns))

    def drop(self, name: str) -> None:
        """Drops a table in the current transaction; where DDL commits, after it, to keep the old state whole."""
        self._drop_at_end(functools.partial(self._drop, name))

    def drop_catalogue(self) -> None:
        """Drops the tables of the catalogue, if it exists. Where DDL commits, this too is after the transaction."""
        if self._catalogue is not None:
            self._drop_at_end(self._catalogue.drop)

    def _drop_at_end(self, drop: Callable[[], None]) -> None:
        if self._database.ddl_commits:
            self._drops.append(drop)
        else:
            drop()

    def drop_unused(self) -> None:
        """Drops the tables that the last transaction has left unused. After an error the next resumption drops them."""
        if not self._drops:
            return
        drops, self._drops = self._drops, []
        with contextlib.suppress(Refused):
            for drop in drops:
                drop()

    def keep_unused(self) -> None:
        """Keeps the tables that the transaction would have left unused, as it has not taken effect."""
        self._drops.clear()

    def _drop(self, name: str) -> None:
        self._own_names.forget(name)
        self.store_names()
        self._execute(exp.Drop(tables=[table(name)], kind="TABLE", exists=True))
        self.names.remove(name)

    def count(self, name: str) -> int:
        """The number of rows of a table."""
        return int(self._database.fetch(f"SELECT COUNT(*) FROM {self.quoted(name)}")[0][0])

    def missing(self, operator: Operator) -> dict[str, PlannedTable]:
        """The tables of an operator that are created later and do not exist yet."""
        return {made.name: made for made in operator.tables if made.is_late and made.name not in self.names}

    def columns(self, schema: Schema) -> list[tuple[str, str]]:
        """The columns, for `create`, of the attributes of a stream."""
        return [(attribute.name, self._database.column_type(attribute)) for attribute in schema]

    def text(self, step: Step | RowCountProbe, push: str = "any") -> str:
        """A step in the database's SQL, for `any` push or a push of `few` events; rendered once.

        The step is stored with its text, so that its id is not reused for another object.
        """
        variant = step.variants.kind(push) if isinstance(step, Insert) else "any"
        known = self._texts.get((id(step), variant))
        if known is None:
            statement = step.statement(variant) if isinstance(step, Insert) else step.statement()
            known = self._texts[id(step), variant] = (step, self._database.render(statement))
        return known[1]

    def prepare(self, step: Step, push: str) -> None:
        """Lets the database prepare a step, once, for `any` push or a push of `few` events. Raises `Refused`."""
        variant = step.variants.kind(push) if isinstance(step, Insert) else "any"
        if (id(step), variant) not in self._texts:
            self._database.prepare(self.text(step, push))

    def forget_texts(self, operators: Iterable[Operator] = ()) -> None:
        """Forgets the texts of all steps except those of these operators. The other steps were undone or removed."""
        steps = [step for each in operators for step in (*each.steps, *each.purges, *each.pane_inserts, each.row_count)]
        kept = set(map(id, steps))
        self._texts = {key: known for key, known in self._texts.items() if key[0] in kept}

    def _emptying(self, name: str, many: bool = False) -> str:
        """TRUNCATE takes the same time for any number of rows, but waits for readers such as pg_dump."""
        truncate = exp.TruncateTable(expressions=[table(name)])
        return self._database.render(truncate if many and self._are_unlogged else exp.delete(table(name)))

    def _create(self, statement: exp.Create) -> None:
        """Creates a table, without a log for crash recovery if the state ends with the process."""
        if self._are_unlogged:
            statement.set("properties", exp.Properties(expressions=[exp.UnloggedProperty()]))
        self._execute(statement)

    def _execute(self, statement: exp.Expr) -> None:
        self._database.execute(self._database.render(statement))
