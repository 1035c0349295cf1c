"""Statements in which the values of one event are bound in place of the inbox of its stream."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from sqlglot import exp

from bridge.engine.catalogue import StreamEntry
from bridge.engine.single_events.computed import Compute, computed, has_only_values
from bridge.engine.single_events.marked_values import (
    BoundStatement,
    has_mark,
    marked,
    marked_value,
    parameter,
    place_of_value,
)
from bridge.engine.single_events.memory.previous_rows import PreviousRows, previous_rows
from bridge.engine.single_events.memory.totals_table import TotalsUpdate
from bridge.engine.single_events.memory.window_aggregates import ForeignAggregate, WindowAggregate
from bridge.engine.single_events.memory.window_changes import WindowChanges
from bridge.engine.single_events.memory.window_content import WindowInsertion, arriving_row, insertion_of
from bridge.engine.single_events.memory.window_forms import UnknownFormError
from bridge.engine.single_events.memory.window_joins import WindowJoin, window_join
from bridge.engine.single_events.memory.window_memory import FilledWindow, WindowMemory
from bridge.engine.single_events.memory.window_recognition import AggregateFunctions, window_aggregate
from bridge.patterns.live.statements import Arrivals
from bridge.rewrite.aggregates.on_change import LEAVING, ExitReports
from bridge.rewrite.optimize import optimize
from bridge.rewrite.optimize.rule import Facts, OneRow
from bridge.rewrite.plan import Insert, UpdateRows
from windows.databases import Database
from windows.schema import Attribute
from windows.sql import number, table_names
from windows.types import PYTHON_TYPES


class Unbound(Exception):
    """A statement needs the inbox."""


class InlinedValues(Protocol):
    """Values that statements read in addition to those of the event.

    `types`: the types of the event's values, then those of the additional ones.
    """

    types: list[str]

    def inlined(self, tree: exp.Expr) -> exp.Expr:
        """The statement, changed in place, with these values."""


class BoundStatements:
    """The bound statements for the events of one stream; a new plan binds only the statements that are new in it.

    A statement is identified by the step, result statement or arrivals it comes from, and by the empty tables that it
    names. `inlined`: what it reads beside the event, as values that follow those of the event.
    """

    def __init__(
        self, stream: StreamEntry, row: OneRow | None, database: Database, inlined: InlinedValues | None = None
    ) -> None:
        self.row, self.stream, self._inlined = row, stream.name.lower(), inlined
        self.columns = ["ts", "seq", *(attribute.name for attribute in stream.schema)]
        """The names of the columns of an event's row; `types` has their types."""
        self.types, self.database = _types(stream) if inlined is None else inlined.types, database
        self._known: dict[int, _StatementSource] = {}
        self._before: dict[int, _StatementSource] = {}

    @functools.cached_property
    def proven(self) -> Collection[str]:
        """The types that Python computes with as the database does: where these change, all is bound anew."""
        return self.database.python_types

    @functools.cached_property
    def has_known_types(self) -> bool:
        """Whether Python has the values of all attributes."""
        return PYTHON_TYPES.keys() >= set(self.types[2:])

    @functools.cached_property
    def are_sums_safe(self) -> bool:
        """Whether the types of the attributes ensure that sums of an event's values stay in the range of their type."""
        return self.has_known_types and not (self.database.sums_in_64_bits and "BIGINT" in self.types[2:])

    @property
    def has_more_values(self) -> bool:
        """Whether statements have values beside those of the event."""
        return self._inlined is not None

    def begin(self) -> None:
        """Begins a plan, or discards all plans. A statement that none asks for is forgotten at the second time."""
        if self._known:
            self._before, self._known = self._known, {}

    def tables(self, source: object, write: Callable[[], exp.Expr]) -> frozenset[str]:
        """The tables that the statement of `source` names."""
        return self._source(source, write).tables

    def of(self, source: object, write: Callable[[], exp.Expr], empty: Collection[str]) -> BoundStatement | None:
        """The statement of `source` with the event's values; None where it reads or writes no row."""
        found = self._source(source, write)
        key = found.tables.intersection(empty)
        if key not in found.bound:
            tree, found.tree = found.tree or self._written(write), None
            if self._inlined is None and has_mark(tree):
                raise Unbound
            found.bound[key] = self._bind(tree, Facts(key, self.row), self.types)
        return found.bound[key]

    def reads_rows(self, select: exp.Expr, empty: Collection[str]) -> bool:
        """Whether a SELECT may give a row for an event, while these tables are empty."""
        tables = frozenset(table_names(select))
        return optimize(select.copy(), Facts(tables.intersection(empty), self.row)) is not None

    def of_arrivals(
        self, arrivals: Arrivals, insertion: WindowInsertion, empty: Collection[str]
    ) -> tuple[BoundStatement | None, PreviousRows]:
        """The SELECT of arrivals that read earlier rows, and the memory of these. Their values follow the event's.

        Raises Unbound where Python does not know the rows that an event adds to them.
        """
        previous = previous_rows(arrivals, self.filled(insertion))
        if previous is None:
            raise Unbound
        marks, types = dict[exp.Expr, exp.Expr](), list(self.types)
        for each in arrivals.previous:
            kind = types[insertion.places[each.column]]
            marks[each.placeholder] = self._mark_value(len(types), kind)
            types.append(kind)
        facts = Facts(frozenset(empty), self.row)
        tree = self._written(arrivals.select.copy)
        if self._inlined is None and has_mark(tree):
            raise Unbound
        return self._bind(tree, facts, types, marks), previous

    def _bind(
        self,
        statement: exp.Expr,
        facts: Facts,
        types: Sequence[str],
        marks: Mapping[exp.Expr, exp.Expr] = MappingProxyType({}),
    ) -> BoundStatement | None:
        """The statement in which the event's values replace its inbox; None where it reads or writes no row.

        `marks`: the expressions that replace placeholders of other values.
        """
        optimized = optimize(statement, facts)
        if optimized is None:
            return None
        if marks:
            optimized = optimized.transform(lambda node: marks[node].copy() if node in marks else node)
        compute = computed(optimized, place_of_value, types, self.proven) if has_only_values(optimized) else None
        return marked(self.database.render(optimized), self.database.placeholder)._replace(compute=compute)

    def _mark_value(self, place: int, kind: str) -> exp.Expr:
        """A parameter for the value at a place, cast to the database's type for this type."""
        return parameter(place, str(self.database.value_type(Attribute("value", kind))), self.database)

    def insertion(self, source: object, write: Callable[[], exp.Expr]) -> WindowInsertion | None:
        """The row that an INSERT adds for an event; None where it adds more than a row of its values."""
        found = self._source(source, write)
        if found.insertion is None:
            tree = optimize(self._written(write).copy(), Facts((), self.row))
            found.insertion = (None if tree is None else self._insertion_of(tree),)
        return found.insertion[0]

    def _insertion_of(self, tree: exp.Expr) -> WindowInsertion | None:
        insertion = insertion_of(tree, place_of_value)
        if insertion is None or insertion.condition is None:
            return insertion
        select = exp.select(number(1)).where(insertion.condition.copy())
        is_safe = computed(select, place_of_value, self.types, self.proven) is not None
        return insertion._replace(is_safe=insertion.is_safe and is_safe)

    def arriving(self, insertion: WindowInsertion, names: Sequence[str]) -> Compute | None:
        """A function that computes these columns of the row that an event adds; None where only the database can."""
        try:
            select = arriving_row(insertion, names, self.types, marked_value)
        except UnknownFormError:
            return None
        return computed(select, place_of_value, self.types, self.proven)

    def filled(self, insertion: WindowInsertion) -> FilledWindow:
        """The window table that an INSERT of this stream's events alone fills."""
        changes = functools.partial(self.changes, insertions={insertion.table: insertion})
        return FilledWindow(self.stream, insertion, self.types, functools.partial(self.arriving, insertion), changes)

    def join(
        self, source: object, write: Callable[[], exp.Expr], memory: WindowMemory, empty: Collection[str]
    ) -> WindowJoin | None:
        """A join of an event with rows of windows in memory, as the SELECT of `source`; None where only the database can."""
        found = self._source(source, write)
        if found.join is None:
            tree = optimize(self._written(write).copy(), Facts(found.tables.intersection(empty), self.row))
            known = None
            if tree is not None:
                known = window_join(tree, memory, place_of_value, marked_value, self.types, self.proven, self.stream)
            found.join = (known,)
        if (join := found.join[0]) is not None:
            join.forget()
            join.enter(memory)
        return join

    def aggregate(
        self,
        source: object,
        write: Callable[[], exp.Expr],
        insertions: Mapping[str, WindowInsertion],
        empty: Collection[str],
        updates: Mapping[str, TotalsUpdate] = MappingProxyType({}),
        memory: WindowMemory | None = None,
        leaving: ExitReports | None = None,
    ) -> WindowAggregate | None:
        """An aggregate over a window in memory that gives the rows of the SELECT; None where only the database can.

        `memory`: the windows that events of other streams fill; None where they are not read. `leaving`: how the groups
        that lose rows are reported.
        """
        found = self._source(source, write)
        if found.aggregate is None:
            tree = optimize(self._written(write).copy(), Facts(found.tables.intersection(empty), self.row))
            database, known = self.database, None
            if tree is not None:
                functions = AggregateFunctions(self.proven, database.compensates_sums, database.python_aggregates)
                known = window_aggregate(
                    tree,
                    insertions,
                    place_of_value,
                    marked_value,
                    self.types,
                    functions,
                    updates,
                    memory,
                    leaving,
                    len(self.columns),
                )
            found.aggregate = (known,)
        if (aggregate := found.aggregate[0]) is not None:
            aggregate.forget()
        if isinstance(aggregate, ForeignAggregate) and memory is not None:
            memory.add(aggregate.stream, id(aggregate), aggregate)
        return aggregate

    def changes(
        self, source: object, write: Callable[[], exp.Expr], insertions: Mapping[str, WindowInsertion]
    ) -> WindowChanges | None:
        """An aggregate for a SELECT of the results at an event and at the rows that leave the window up to its time."""
        selects = self._written(write).find_all(exp.Select)
        marked = (node.meta[LEAVING] for node in selects if node.meta_get(LEAVING) is not None)
        if (leaving := next(marked, None)) is None:
            return None
        found = self.aggregate(source, write, insertions, (), leaving=leaving)
        return found if isinstance(found, WindowChanges) else None

    def changes_of(self, step: Insert, filled: Callable[[str], FilledWindow | None]) -> WindowChanges | None:
        """The same for the results that an INSERT adds to a table, found by the SELECT of what a single event reports.

        `filled`: gives the INSERT that fills a window table. The expiry of the results is not among the columns.
        """
        if step.variants.entering is None:
            return None
        entering = dataclasses.replace(step.variants.entering)  # a copy, as the rows in memory belong to one reader
        insertions = self._insertions(entering, step.variants.of("entering"), filled)
        if insertions is None:
            return None
        return self.changes(entering, functools.partial(_without_expiry, step.variants.of("entering")), insertions)

    def aggregate_of(
        self, step: Insert, filled: Callable[[str], FilledWindow | None], totals: Mapping[str, TotalsUpdate]
    ) -> WindowAggregate | None:
        """The aggregate over a window in memory whose results an INSERT adds to a table, without their expiry."""
        write, source = step.variants.of("one"), dataclasses.replace(step.variants)
        insertions = self._insertions(source, write, filled, totals)
        if insertions is None:
            return None
        return self.aggregate(source, functools.partial(_without_expiry, write), insertions, (), totals)

    def _insertions(
        self, source: object, write: Callable[[], exp.Expr], filled: Callable[[str], FilledWindow | None],
        others: Collection[str] = (),
    ) -> dict[str, WindowInsertion] | None:  # fmt: skip
        """The rows that events add to a SELECT's window tables, by table; None where other streams' events do, too."""
        if self.row is None or source is None:
            return None
        windows = [filled(table) for table in self.tables(source, write) - {self.row.table, *others}]
        found = {each.insertion.table: each.insertion for each in windows if each and each.stream == self.stream}
        return found if len(found) == len(windows) else None

    def totals_update(self, step: UpdateRows, empty: Collection[str]) -> TotalsUpdate | None:
        """The row that an event adds to a table of totals; None where that is more than a row of its values."""
        tree = self._values_of(step, empty)
        if tree is None or not has_only_values(tree):
            return None
        places = {item.alias_or_name: place_of_value(item.unalias()) for item in tree.expressions}
        return TotalsUpdate(step.table, tree, step.calls, {name: at for name, at in places.items() if at is not None})

    def is_one_row(self, step: Insert, empty: Collection[str]) -> bool:
        """Whether the SELECT of a step gives at most one row per event, which is made of the event's values."""
        tree = self._values_of(step, empty)
        while isinstance(tree, exp.Select) and not tree.args.get("joins") and not tree.args.get("laterals"):
            source = tree.args.get("from_")
            if source is None:
                return True
            tree = source.this.this if isinstance(source.this, exp.Subquery) else None
        return False

    def _values_of(self, step: Insert, empty: Collection[str]) -> exp.Expr | None:
        """The simplified SELECT of a step for one event; None where it gives no row."""
        found = self._source(step, functools.partial(step.statement, "one"))
        key = found.tables.intersection(empty)
        if key not in found.values:
            tree = self._written(step.variants.of("one"))
            found.values[key] = optimize(tree.copy(), Facts(key, self.row))
        return found.values[key]

    def _written(self, write: Callable[[], exp.Expr]) -> exp.Expr:
        """The statement, with values in place of what is inlined."""
        tree = write()
        if self._inlined is None:
            return tree
        if has_mark(tree):
            raise Unbound
        return self._inlined.inlined(tree.copy())

    def _source(self, source: object, write: Callable[[], exp.Expr]) -> _StatementSource:
        known = self._known.get(id(source)) or self._before.get(id(source))
        if known is None:
            tree = self._written(write)
            tables = frozenset(table_names(tree))
            if self._inlined is not None and self.row is not None and has_mark(tree):
                tables |= {self.row.table}  # whose values have been inlined
            known = _StatementSource(source, tables, tree)
        self._known[id(source)] = known
        return known


@dataclasses.dataclass
class _StatementSource:
    """The origin of a statement (`source`), the tables that it names, and its forms by which of these tables are empty.

    `tree`: the statement, until it is bound for the first time. `values`: the SELECT of an event's row, by the same
    sets of tables. `insertion`, `aggregate`, `join`: the results of methods that are computed once.
    """

    source: object
    tables: frozenset[str]
    tree: exp.Expr | None
    bound: dict[frozenset[str], BoundStatement | None] = dataclasses.field(default_factory=dict)
    values: dict[frozenset[str], exp.Expr | None] = dataclasses.field(default_factory=dict)
    insertion: tuple[WindowInsertion | None] | None = None
    aggregate: tuple[WindowAggregate | None] | None = None
    join: tuple[WindowJoin | None] | None = None


def _without_expiry(write: Callable[[], exp.Expr]) -> exp.Expr:
    """A SELECT without the column of the expiry."""
    select = write()
    if not isinstance(select, exp.Select):
        return select
    kept = [item for item in select.selects if item.alias_or_name != "_expires"]
    return select.copy().select(*kept, append=False)


def facts_of(stream: StreamEntry, empty: Collection[str], database: Database) -> Facts | None:
    """The facts of a push of one event: its row, and the `empty` inboxes; None where it must go through its inbox."""
    row = row_of(stream, database)
    return None if row is None else Facts(empty, row)


def row_of(stream: StreamEntry, database: Database) -> OneRow | None:
    """The row of an event, as an inbox with it alone; None where it must go through its inbox."""
    values = _values(stream, database)
    if values is None:
        return None
    return OneRow(stream.inbox, values, database.inline_event_values, database.eager_constant_folding)


def _values(stream: StreamEntry, database: Database) -> dict[str, exp.Expr] | None:
    """A parameter per column of the inbox, cast to its type; None where only a table's column gives a value its type."""
    system = (Attribute("ts", "BIGINT"), Attribute("seq", "BIGINT"))
    kinds = {each.name: database.value_type(each) for each in (*system, *stream.schema)}
    if None in kinds.values():
        return None
    return {name: parameter(place, str(kind), database) for place, (name, kind) in enumerate(kinds.items())}


def _types(stream: StreamEntry) -> list[str]:
    """The types of the columns of an event's row."""
    return ["BIGINT", "BIGINT", *(attribute.type for attribute in stream.schema)]
