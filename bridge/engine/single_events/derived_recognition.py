"""Recognises, by the SELECTs of steps and results, results over several steps that this process can compute."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from bridge.engine.single_events.added_rows import totals_updates
from bridge.engine.single_events.bound_statements import BoundStatements
from bridge.engine.single_events.computed import Row, computed, is_condition
from bridge.engine.single_events.marked_values import marked_value, place_of_value
from bridge.engine.single_events.memory.derived_results import DerivedResults
from bridge.engine.single_events.memory.derived_rows import (
    AggregatedRows,
    ChangedGroups,
    ChosenRows,
    EarlierRows,
    EventRows,
    LastByKey,
    LastReports,
    Memory,
    Moment,
    NumberedRows,
    RowsAfterPauses,
    RowsInOrder,
    RowSource,
    RowsWithEarlier,
    RowsWithoutOverlap,
    TableRows,
    UnionRows,
    computed_rows,
    values_of,
)
from bridge.engine.single_events.memory.left_rows import (
    DepartedRows,
    EvictedByStep,
    LeavingRows,
    OpenSessionRows,
    QueuedRows,
)
from bridge.engine.single_events.memory.totals_table import TotalsAggregate
from bridge.engine.single_events.memory.window_aggregates import WindowAggregate
from bridge.engine.single_events.memory.window_forms import UnknownFormError, has_other_clauses, refuse_other_clauses
from bridge.engine.single_events.memory.window_memory import FilledWindow
from bridge.engine.single_events.memory.window_rows import WindowRows
from bridge.rewrite.computable import COMPUTABLE, AfterPauses, DisjointRows, LeftRows, RowsBefore, column_names
from bridge.rewrite.plan import Insert, Operator
from windows.databases import Database
from windows.times import NEVER
from windows.types import PYTHON_TYPES


def derived_results(
    statement: exp.Expr,
    operators: Sequence[Operator],
    bound: BoundStatements,
    filled: Callable[[str], FilledWindow | None],
    database: Database,
) -> DerivedResults | None:
    """The computation of a statement of results for events of one stream; None where only the database can compute it.

    Args:
        statement: The SELECT.
        operators: The operators that fill its tables.
        bound: The bound statements for events of this stream.
        filled: Gives the INSERT that fills a window table.
        database: The database.
    """
    if bound.row is None:
        return None
    try:
        return _DerivedRecognition(operators, bound, filled, database).results(statement)
    except UnknownFormError:
        return None


class _DerivedRecognition:
    """Takes SELECTs apart, down to the event, the tables of results, and the marked SELECTs."""

    def __init__(
        self, operators: Sequence[Operator], bound: BoundStatements, filled: Callable[[str], FilledWindow | None],
        database: Database,
    ) -> None:  # fmt: skip
        self._inboxes = {inbox for operator in operators for inbox in operator.inboxes}
        self._steps = [step for operator in operators for step in operator.steps if isinstance(step, Insert)]
        self._bound, self._filled, self._database = bound, filled, database
        self._totals = totals_updates(operators, bound, ())
        self._proven = {kind for kind in bound.proven if kind in PYTHON_TYPES}
        self._tables: dict[str, RowSource] = {}
        self._memories: list[Memory] = []
        self._aggregates: list[WindowAggregate] = []
        self._computed_tables = set[str]()

    def results(self, statement: exp.Expr) -> DerivedResults:
        """The computation of a statement of results; raises UnknownFormError where only the database can compute it."""
        rows = self._rows(statement)
        names = _names(statement)
        if list(rows.columns) != names:
            raise UnknownFormError
        return DerivedResults(self._tables, rows, self._memories, self._aggregates, self._computed_tables)

    def _rows(self, select: exp.Expr) -> RowSource:
        match select.meta_get(COMPUTABLE):
            case LeftRows() as left:
                return self._leaving_rows(left)
            case RowsBefore() as before:
                return self._before(before)
            case AfterPauses() as pauses:
                memory = LastReports(pauses.last, pauses.time)
                self._memories.append(memory)
                rows = self._rows(pauses.rows)
                _require(rows, [*pauses.keys, *pauses.order])
                return RowsAfterPauses(rows, memory, pauses)
            case DisjointRows() as matches:
                return self._disjoint(matches, _names(select))
        if isinstance(select, exp.Union):
            return self._union(select)
        if not isinstance(select, exp.Select):
            raise UnknownFormError
        refuse_other_clauses(select, ("expressions", "from_", "where", "order", "kind"))
        return self._selected(select, self._source(select))

    def _source(self, select: exp.Select) -> RowSource:
        """The rows that a SELECT reads."""
        source = select.args["from_"].this if select.args.get("from_") else None
        if isinstance(source, exp.Subquery):
            return self._rows(source.this)
        if not isinstance(source, exp.Table) or self._bound.row is None:
            raise UnknownFormError
        if source.name == self._bound.row.table:
            return self._event()
        if source.name not in self._inboxes:
            raise UnknownFormError
        if source.name not in self._tables:
            self._tables[source.name] = self._added(source.name)
        return TableRows(source.name, self._tables[source.name].columns)

    def _event(self) -> EventRows:
        """The event, with those of its columns whose values the database returns as Python has them."""
        types = self._bound.types
        columns = {name: kind for name, kind in zip(self._bound.columns, types, strict=True) if kind in self._proven}
        places = [place for place, kind in enumerate(types) if kind in self._proven]
        select = exp.select(*(exp.alias_(marked_value(place, types[place]), f"_{place}") for place in places))
        compute = computed(select, place_of_value, types, self._proven)
        if compute is None or list(columns)[:2] != ["ts", "seq"]:
            raise UnknownFormError
        return EventRows(columns, compute)

    def _added(self, table: str) -> RowSource:
        """The rows that an event adds to a table of results."""
        steps = [step for step in self._steps if step.table == table]
        if len(steps) != 1:
            raise UnknownFormError
        step = steps[0]
        if step.variants.entering is None:
            aggregate = self._bound.aggregate_of(step, self._filled, self._totals)
            if aggregate is None:
                return self._rows(step.variants.of("any")())
            if not isinstance(aggregate.rows, WindowRows):
                raise UnknownFormError
            if isinstance(aggregate, TotalsAggregate):
                self._computed_tables |= {table, aggregate.rows.name}
            self._aggregates.append(aggregate)
            return AggregatedRows(aggregate.items, aggregate)
        changes = self._bound.changes_of(step, self._filled)
        if changes is None:
            raise UnknownFormError
        self._aggregates.append(changes)
        kept = [(place, name) for place, name in enumerate(changes.items) if name != "_place"]
        if [name for _, name in kept][:2] != ["ts", "seq"]:
            raise UnknownFormError
        columns = {name: changes.items[name] for _, name in kept}
        return ChangedGroups(columns, changes, [place for place, _ in kept])

    def _union(self, union: exp.Union) -> RowSource:
        if union.args.get("distinct") or has_other_clauses(union, ("this", "expression", "distinct")):
            raise UnknownFormError
        left, right = self._rows(union.this), self._rows(union.expression)
        places = {name: place for place, name in enumerate(_names(union.this))}
        others = _names(union.expression)
        names = [name for name in left.columns if others[places[name]] in right.columns]
        kinds = {name: (left.columns[name], right.columns[others[places[name]]]) for name in names}
        columns = {name: one if one == other else None for name, (one, other) in kinds.items()}
        parts = [_only(left, names), _only(right, [others[places[name]] for name in names])]
        return UnionRows(columns, parts)

    # Columns --------------------------------------------------------------------------------------------------------

    def _selected(self, select: exp.Select, source: RowSource) -> RowSource:
        """The columns of a SELECT that can be computed. The other columns must not be read."""
        if select.args.get("where"):
            source = self._computed(
                source, {name: exp.column(name) for name in source.columns}, select.args["where"].this
            )
        if select.args.get("order"):
            terms = select.args["order"].expressions
            if any(term.args.get("desc") for term in terms):
                raise UnknownFormError
            source = RowsInOrder(source, _require(source, [_name(term.this) for term in terms]))
        items: dict[str, exp.Expr] = {}
        for item in select.expressions:
            value, name = item.unalias(), item.alias_or_name
            if isinstance(value, exp.Window):
                source, value = self._numbered(source, value, len(items))
            if self._is_known(value, source):
                items[name] = value
        return self._computed(source, items)

    def _numbered(self, source: RowSource, window: exp.Window, at: int) -> tuple[RowSource, exp.Expr]:
        """The rows with a further column for ROW_NUMBER, and that column."""
        order = window.args["order"].expressions if window.args.get("order") else []
        keys = window.args.get("partition_by") or []
        if not isinstance(window.this, exp.RowNumber) or any(term.args.get("desc") for term in order):
            raise UnknownFormError
        names = _require(source, [*map(_name, keys), *(_name(term.this) for term in order)])
        name = f"number {at}"
        return NumberedRows(source, name, names[: len(keys)], names[len(keys) :]), exp.column(name)

    def _is_known(self, value: exp.Expr, source: RowSource) -> bool:
        if isinstance(value, exp.Column):
            return value.name in source.columns
        try:
            self._computed(source, {"value": value})
        except UnknownFormError:
            return False
        return True

    def _computed(self, source: RowSource, items: Mapping[str, exp.Expr], where: exp.Expr | None = None) -> RowSource:
        """Expressions over the columns of rows; with `where`, of the rows for which it holds."""
        columns = {name: self._type(value, source) for name, value in items.items()}
        if where is None and all(isinstance(value, exp.Column) for value in items.values()):
            return _renamed(source, {name: value.name for name, value in items.items()}, columns)
        places = source.places

        def marked(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            kind = source.columns.get(node.name)
            if kind is None:
                raise UnknownFormError  # also of a computed value: its type in the database is not known
            return marked_value(places[node.name], kind)

        if _has_value_of_event(items.values()):
            raise UnknownFormError
        select = exp.select(*(exp.alias_(value.transform(marked), f"_{at}") for at, value in enumerate(items.values())))
        if where is not None:
            select = select.where(where.transform(marked))
        types = [kind or "" for kind in source.columns.values()]
        compute = computed(select, place_of_value, types, self._proven)
        if compute is None:
            raise UnknownFormError

        return ChosenRows(columns, source, functools.partial(computed_rows, compute))

    def _type(self, value: exp.Expr, source: RowSource) -> str | None:
        match value:
            case exp.Column():
                return source.columns.get(value.name)
            case exp.Boolean():
                return "BOOLEAN"
            case _ if is_condition(value):
                return "BOOLEAN"
            case exp.Literal() | exp.Cast(this=exp.Literal()):
                return "BIGINT"
        return None

    # Marked SELECTs -------------------------------------------------------------------------------------------------

    def _leaving_rows(self, mark: LeftRows) -> RowSource:
        window = self._filled(mark.table)
        if window is None or window.stream != self._bound.stream:
            raise UnknownFormError
        if window.insertion.constants.get("_expires", NEVER) != NEVER:
            raise UnknownFormError
        trees = [*mark.values.values(), *mark.conditions]
        read = dict.fromkeys(column.name for tree in trees for column in tree.find_all(exp.Column))
        names = [*mark.keys, *(name for name in read if name not in mark.keys)]
        if mark.evictions is not None:
            self._refuse_nested_loops()
        evicting = [] if mark.evictions is None else [*mark.evictions.keys, *mark.evictions.values]
        by = column_names(evicting)
        if by is None:
            raise UnknownFormError
        types = [window.type_of(name) for name in (*names, *by)]
        arrive = window.arriving([*names, *by])
        if arrive is None or not self._proven.issuperset(types):
            raise UnknownFormError
        columns = dict(zip(names, types, strict=False))
        where = exp.and_(*(condition.copy() for condition in mark.conditions)) if mark.conditions else None
        chosen = self._computed(TableRows("", columns), mark.values, where)
        memory = _leaving(mark, names[len(mark.keys) :], by, [PYTHON_TYPES[kind or ""] for kind in types])
        self._memories.append(memory)
        return DepartedRows(chosen.columns, memory, arrive, functools.partial(_of_row, chosen))

    def _refuse_nested_loops(self) -> None:
        """Raises UnknownFormError for a database of nested loops, which finds these rows as fast as this process."""
        if self._database.nested_loops_only:
            raise UnknownFormError

    def _disjoint(self, mark: DisjointRows, names: Sequence[str]) -> RowSource:
        self._refuse_nested_loops()
        rows, memory = self._rows(mark.rows), LastByKey(mark.last)
        self._memories.append(memory)
        _require(rows, [*mark.keys, "seq", "_first"])
        found = RowsWithoutOverlap(rows, memory, mark.keys)
        return _only(found, [name for name in names if name in found.columns])

    def _before(self, mark: RowsBefore) -> RowSource:
        rows = self._rows(mark.rows)
        stored = list(dict.fromkeys(each.column for each in mark.values.values()))
        _require(rows, [*mark.keys, *mark.order, *stored])
        types = [rows.columns[name] for name in (*mark.keys, *stored)]
        if list(rows.columns)[:1] != ["ts"] or not self._proven.issuperset(types):
            raise UnknownFormError
        most = max(each.back for each in mark.values.values())
        kinds = [PYTHON_TYPES[kind or ""] for kind in types]
        memory = EarlierRows(mark.order, mark.table, list(mark.keys), stored, kinds, None, most)
        self._memories.append(memory)
        return RowsWithEarlier(rows, memory, mark.keys, mark.order, stored, mark.values)


def _has_value_of_event(trees: Iterable[exp.Expr]) -> bool:
    """Whether a tree contains a value of the event, whose place means another column here."""
    nodes = itertools.chain.from_iterable(tree.walk() for tree in trees)
    return any(place_of_value(node) is not None for node in nodes)


def _leaving(mark: LeftRows, columns: Sequence[str], by: Sequence[str], kinds: Sequence[type]) -> LeavingRows:
    """The memory of the rows of a window. `by`: the columns by which a step computes evictions."""
    if (evictions := mark.evictions) is not None:
        windows = len(evictions.keys)
        return EvictedByStep(mark.table, mark.keys, columns, kinds, by[:windows], by[windows:], evictions.evict)
    if mark.gap is not None:
        return OpenSessionRows(mark.gap, mark.table, mark.keys, columns, kinds, None)
    return QueuedRows(mark.table, mark.keys, columns, kinds, mark.span, mark.count)


def _of_row(chosen: RowSource, row: Row) -> list[Row]:
    return chosen.of(Moment(None, 0, {"": [row]}))


def _only(rows: RowSource, names: Sequence[str]) -> RowSource:
    """A source of these columns of the rows, in this order."""
    return _renamed(rows, {name: name for name in names}, {name: rows.columns[name] for name in names})


def _renamed(rows: RowSource, names: Mapping[str, str], columns: Mapping[str, str | None]) -> RowSource:
    """Columns of rows under other names, in this order."""
    read = _require(rows, list(names.values()))
    if list(rows.columns) == read:
        rows.columns, rows.places = dict(columns), {name: place for place, name in enumerate(columns)}
        return rows
    values = values_of(rows, read)
    return ChosenRows(columns, rows, lambda row: [values(row)])


def _names(select: exp.Expr) -> list[str]:
    return [item.alias_or_name for item in select.selects] if isinstance(select, exp.Query) else []


def _name(node: exp.Expr) -> str:
    if not isinstance(node, exp.Column):
        raise UnknownFormError
    return node.name


def _require(rows: RowSource, names: Sequence[str]) -> list[str]:
    if not rows.columns.keys() >= set(names):
        raise UnknownFormError
    return list(names)
