"""The physical form of queries: tables, and steps, each of which is one standard SQL statement or a call.

A step has a neutral sqlglot statement; its text in the database's SQL is rendered once, when the query is created.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

from sqlglot import exp

from bridge.patterns.live.statements import Arrivals, Rows
from bridge.query.nodes import Node
from bridge.rewrite.flow import Boundaries, Flow
from bridge.rewrite.stored_state import StoredState
from bridge.rewrite.variants import StatementWriter, Variants
from windows.databases import Database
from windows.sql import aliased, aliased_table, cast_to, column, derived_table, identifier, number, table

if TYPE_CHECKING:
    import pyarrow as pa


class Probe(NamedTuple):
    """A statement that is only prepared. `place`: its offsets in the text of the query, if the user has written it."""

    statement: exp.Expr
    place: range | None = None


@dataclasses.dataclass(frozen=True)
class PlannedTable:
    """A table of state, created with the columns of a SELECT that would fill it: the database chooses the types."""

    name: str
    like: exp.Query
    indexes: tuple[tuple[str, ...], ...] = ()
    is_late: bool = False
    """Whether it is created only after the window of its operator has become long."""

    def create(self) -> exp.Create:
        """`CREATE TABLE name AS SELECT …`, without rows."""
        shape = (
            exp.select(*map(_shaped, self.like.named_selects))
            .from_(derived_table(self.like, "q"), copy=False)
            .where(exp.false(), copy=False)
        )
        return exp.Create(kind="TABLE", this=table(self.name), expression=shape)

    def index(self) -> list[exp.Expr]:
        """`CREATE INDEX …` for each of its indexes."""
        own = self.name.removeprefix("cep_")
        return [indexing(f"cep_index_{own}_{place}", self.name, each) for place, each in enumerate(self.indexes, 1)]


def indexing(name: str, of: str, columns: Sequence[str]) -> exp.Expr:
    """`CREATE INDEX name` over these columns of a table."""
    params = exp.IndexParameters(columns=[column(c) for c in columns])
    return exp.Create(kind="INDEX", this=exp.Index(this=identifier(name), table=table(of), params=params))


def _shaped(name: str) -> exp.Expr:
    """A column of a new table. Computed columns have no type in SQLite, so comparisons would not use an index."""
    column = exp.column(name, quoted=True)
    return aliased(cast_to(column, "BIGINT"), name) if name == "_expires" else column


@dataclasses.dataclass(frozen=True)
class Insert:
    """Adds the rows of a SELECT to a table of state. The SELECT may have variants, each written when it first runs."""

    table: str
    select: exp.Expr | Variants[StatementWriter[exp.Expr]]
    columns: tuple[str, ...] = ()
    """For a user's table: the columns that get the columns of the SELECT, in order."""

    @property
    def variants(self) -> Variants[StatementWriter[exp.Expr]]:
        """The ways to write the SELECT; at least one."""
        select = self.select
        return select if isinstance(select, Variants) else Variants(StatementWriter(select.copy))

    def statement(self, push: str = "any") -> exp.Expr:
        """The statement for a push of this kind; see `Variants`."""
        names = [identifier(name) for name in self.columns]
        return exp.insert(self.variants.of(push)(), table(self.table), columns=names or None, copy=False)


@dataclasses.dataclass(frozen=True)
class OutputInsert(Insert):
    """Adds the results of a query to a table that no step of the push reads.

    `writer`: the name with which the ids of results begin. `system`: the `columns` of the table that are not columns of
    the results, except `ts`.
    """

    writer: str = ""
    system: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class UpdateRows(Insert):
    """Changes the rows of a table of state (alias `own`) that match a row of the SELECT (alias `row`).

    `settings`: the new values of columns, in the order of assignment. `matches`: the conditions. `calls`: the
    aggregates of all rows so far that the columns have.
    """

    settings: Mapping[str, exp.Expr] = dataclasses.field(default_factory=dict)
    matches: Sequence[exp.Expr] = ()
    own: str = ""
    row: str = ""
    calls: Mapping[str, exp.Expr] = dataclasses.field(default_factory=dict)

    def statement(self, push: str = "any") -> exp.Expr:
        settings = [exp.EQ(this=column(name), expression=value.copy()) for name, value in self.settings.items()]
        select = self.variants.of(push)()
        assert isinstance(select, exp.Query)
        rows = exp.From(this=derived_table(select, self.row, copy=False))
        update = exp.Update(this=aliased_table(self.table, self.own), expressions=settings, from_=rows)
        return update.where(*(each.copy() for each in self.matches), copy=False) if self.matches else update


@dataclasses.dataclass(frozen=True)
class InsertMissing(Insert):
    """Adds the rows of a SELECT that do not match a row of the table (alias `own`), by the conditions `matches`."""

    matches: Sequence[exp.Expr] = ()
    own: str = ""

    def statement(self, push: str = "any") -> exp.Expr:
        there = exp.select(number(1)).from_(aliased_table(self.table, self.own))
        there = there.where(*(each.copy() for each in self.matches))
        rows = self.variants.of(push)()
        assert isinstance(rows, exp.Select)
        return exp.insert(rows.where(exp.Not(this=exp.Exists(this=there)), copy=False), table(self.table), copy=False)


@dataclasses.dataclass(frozen=True)
class PaneInsert(Insert):
    """Adds panes, the aggregates of rows that have arrived. It is housekeeping, run every `every` events."""

    every: int = 1

    def is_due(self, before: int, now: int) -> bool:
        """Whether it is due after `now` events, if it last ran after `before` events."""
        return now // self.every > before // self.every


@dataclasses.dataclass(frozen=True)
class RowCountProbe:
    """A probe whether a table has more than `rows` rows."""

    table: str
    rows: int

    def statement(self) -> exp.Expr:
        """A SELECT that gives one row or none, and reads no more rows than necessary."""
        return exp.select(number(1)).from_(table(self.table)).limit(1).offset(self.rows)


@dataclasses.dataclass(frozen=True)
class Purge:
    """Removes rows that cannot take part in any later result. It is housekeeping, correct at any time."""

    table: str
    condition: exp.Expr

    @classmethod
    def beyond(cls, name: str, key: Sequence[str], place: exp.Expr, count: int) -> Self:
        """Removes the rows of a table, identified by `key`, whose `place` (a window function) is above `count`."""
        row = [exp.column(column, quoted=True) for column in key]
        ranked = exp.select(*row, exp.alias_(place, "_n", quoted=True)).from_(table(name))
        near = exp.LTE(this=exp.column("_n", quoted=True), expression=number(count))
        left = exp.select(*row).from_(derived_table(ranked, "o")).where(near)  # databases stop at this place
        sought = exp.Tuple(expressions=row) if len(row) > 1 else row[0]
        return cls(name, exp.Not(this=exp.In(this=sought, query=exp.Subquery(this=left))))

    def statement(self) -> exp.Expr:
        return exp.delete(table(self.table), where=self.condition.copy())


class Call(Protocol):
    """A step that is not one statement: it reads tables, and writes one.

    A step that cannot fail has `is_unfailing`, and may run after its push has succeeded.
    """

    table: str

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Runs for this push, whose newest event has time `now` and number `seq`. `final`: no event follows."""

    def forget(self) -> None:
        """Forgets what it has in memory beside its tables, after a rollback."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """A script of the statements that it runs, with comments. `pretty` lays out SQL."""


@runtime_checkable
class RowCall(Protocol):
    """A step that keeps the rows of its input in tables, but takes the rows of a single event directly.

    See `bridge.patterns.live.machine.LiveMachine`.
    """

    table: str
    arrivals: tuple[Arrivals, ...]

    @property
    def is_restored(self) -> bool: ...

    @property
    def is_checkpoint_due(self) -> bool: ...

    def take(self, database: Database, arrived: Sequence[Rows], now: int, seq: int) -> pa.Table | None: ...

    def progress(self) -> Rows: ...

    def write_progress(self, database: Database, lines: Rows) -> None: ...

    def checkpoint(self, database: Database) -> None: ...


@runtime_checkable
class TimedCall(Protocol):
    """A step that knows when it reports something without an event."""

    def next_deadline(self, database: Database, now: int) -> int | None:
        """The next time (ms) after `now` at which it may report something; None if there is none."""


Step = Insert | Purge
Origin = tuple[Flow, dict[str, str]]


@dataclasses.dataclass
class Operator:
    """One distinct (sub-)query: its tables, and its steps of each push in order.

    `inboxes` are emptied at the next push. `sources`: the streams whose events it reads. `timed`: whether it also runs
    as time passes. `origins` returns the contents that its results come from and from which rows are evicted, with
    pairs of their columns and the results' (among `keys`); a result leaves its derived window with the first of these
    rows (W5). `derived`: the inbox of its results (None) and their windows (the epoch of the readers), which exist
    while they are read. `longest`: the length of the longest window whose rows its table has, in milliseconds.
    `members`: the trees that it serves, by number; `family` writes its steps for them; `leave` is called when it is no
    longer needed. `pane_inserts` build panes of the rows of a table while that is long, as found by `row_count`.
    `constants`: the table of the members' constants, if there are several; `settings` writes the statements that fill
    it again before the next push. `probes`: further statements that are prepared once, at creation, so that errors
    known only to the database are found there. `identity`: identifies it in every process, if the state is durable.
    `deadlines`: statements with a column `due`, the later times at which time alone may make it report something.
    `stored`: the part of its tables that an operator with other reports can take over. `has_runs`: whether its open
    matches are rows of their own in the tables of its family. `number`: its place in the order of creation.
    `boundaries`: the only times at which it has results. Before the next one, an operator with the table of their rows
    only stores new rows, and another one does nothing. `variables`: the variables of EPL whose tables it reads or
    writes, with their types.
    """

    title: str
    sources: frozenset[str]
    timed: bool
    identity: str = ""
    reads: frozenset[str] = frozenset()
    """The streams and queries that its tree names, in lower case."""
    tables: list[PlannedTable] = dataclasses.field(default_factory=list)
    steps: list[Insert | Purge | Call] = dataclasses.field(default_factory=list)
    purges: list[Purge] = dataclasses.field(default_factory=list)
    pane_inserts: list[PaneInsert] = dataclasses.field(default_factory=list)
    row_count: RowCountProbe | None = None
    is_long: bool = False
    inboxes: list[str] = dataclasses.field(default_factory=list)
    result: Flow | None = None
    arrivals: Flow | None = None
    contents: dict[int, Flow] = dataclasses.field(default_factory=dict)
    derived: dict[str, int | None] = dataclasses.field(default_factory=dict)
    keys: tuple[str, ...] = ()
    origins: Callable[[], list[Origin]] = list
    longest: int = 0
    members: Mapping[int, Node] = dataclasses.field(default_factory=dict)
    family: object = None
    constants: str = ""
    settings: Callable[[], Sequence[exp.Expr]] = list
    leave: Callable[[], None] | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    probes: list[Probe] = dataclasses.field(default_factory=list)
    deadlines: list[exp.Query] = dataclasses.field(default_factory=list)
    stored: StoredState | None = None
    has_runs: bool = False
    number: int = 0
    boundaries: Boundaries | None = None
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    totals: str = ""
    """Its table of totals, if it has totals."""
    beginning: str = ""
    """Its table with the time at which it began: the newest time at its creation, or that of the first event of all."""

    @property
    def holds_state(self) -> bool:
        """Whether a push leaves more in its tables than results."""
        passing = {*self.inboxes, *self.derived}
        own = (made.name for made in self.tables if not made.is_late and made.name not in passing)
        return self.has_runs or any(own)

    def filled_from(self, other: Operator) -> list[exp.Expr] | None:
        """The statements that fill its tables from those of another operator; None if those lack what it needs."""
        if self.stored is None or other.stored is None:
            return None
        return self.stored.filled_from(other.stored)

    def forget_derived(self, names: set[str]) -> list[str]:
        """Removes the inbox and the windows of its results that are not among `names`; returns their names."""
        gone = [name for name in self.derived if name not in names]
        for name in gone:
            reader = self.derived.pop(name)
            if reader is None:
                self.arrivals = None
            else:
                del self.contents[reader]
        self.forget(gone)
        return gone

    def forget(self, names: Collection[str]) -> None:
        """Removes these tables, with the steps that fill and purge them."""
        self.tables = [made for made in self.tables if made.name not in names]
        self.steps = [step for step in self.steps if step.table not in names]
        self.purges = [step for step in self.purges if step.table not in names]
        self.pane_inserts = [step for step in self.pane_inserts if step.table not in names]
        self.inboxes = [inbox for inbox in self.inboxes if inbox not in names]

    def runs_at(self, streams: frozenset[str]) -> bool:
        """Whether it runs at a push into these streams."""
        return self.timed or not self.sources.isdisjoint(streams)
