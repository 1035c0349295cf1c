"""Recognises, by their form, statements that are aggregates over a window, so that this process can compute them.

They are nested SELECTs that name and filter, around a SELECT of aggregates over the rows of a window for the event. The
inner SELECT may also be a sub-query beside values of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sqlglot import exp

from bridge.engine.single_events.computed import Compute, computed, has_only_values, is_condition
from bridge.engine.single_events.memory.running_totals import RunningTotals
from bridge.engine.single_events.memory.totals_table import TotalsContent, TotalsUpdate
from bridge.engine.single_events.memory.window_aggregates import (
    EDGES,
    ONLY,
    ColumnAggregate,
    ForeignAggregate,
    RunningAggregate,
    WindowAggregate,
)
from bridge.engine.single_events.memory.window_changes import EvictionChanges, ExpiryChanges
from bridge.engine.single_events.memory.window_content import (
    WindowContent,
    WindowInsertion,
    arriving_row,
    is_window,
    replace_columns,
)
from bridge.engine.single_events.memory.window_forms import UnknownFormError, refuse_other_clauses
from bridge.engine.single_events.memory.window_memory import FilledContent, WindowMemory
from bridge.engine.single_events.memory.window_rows import ExpiringRows
from bridge.rewrite.aggregates.on_change import ExitReports
from bridge.rewrite.computable import EDGE
from windows.databases.python_aggregates import PythonAggregate
from windows.sql import number, table_names
from windows.types import PYTHON_TYPES

_NAMES: Mapping[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
_IN_ANY_ORDER = ("count", "count distinct", "min", "max", ONLY, *EDGES)
"""The aggregates whose value does not depend on the order in which a database reads the rows."""

_WHOLE = ("SMALLINT", "INTEGER", "BIGINT")


class AggregateFunctions(NamedTuple):
    """The aggregates that Python computes as a database does.

    Args:
        proven: The types whose values the database compares and returns as Python does.
        compensates: Whether the database's sums of doubles compensate for rounding.
        others: Further aggregates of numbers, by their expressions.
    """

    proven: Collection[str]
    compensates: bool = False
    others: Mapping[type[exp.Expr], PythonAggregate] = MappingProxyType({})

    def aggregate(self, node: exp.Expr, content: WindowContent, types: Sequence[str]) -> ColumnAggregate:
        """An aggregate over a column of a window's rows. `types`: the types of the values that fill the window."""
        if (edge := node.meta_get(EDGE)) is not None:
            return self._edge(edge, node, content, types)
        distinct = isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct)
        inner = content.name_of(node.this.expressions[0] if distinct else node.this)
        name, other = _NAMES.get(type(node)), self.others.get(type(node))
        if any(value for part, value in node.args.items() if part not in ("this", "big_int")):
            raise UnknownFormError
        if name == "count" and (isinstance(node.this, exp.Star) or inner == "seq"):
            return ColumnAggregate(name, None, "BIGINT")
        if inner is None:
            raise UnknownFormError
        kind = types[content.place(inner)]
        if distinct and (len(node.this.expressions) > 1 or kind not in {*_WHOLE, "VARCHAR"}.intersection(self.proven)):
            raise UnknownFormError
        if name == "count":
            return ColumnAggregate("count distinct" if distinct else name, inner, "BIGINT")
        if kind not in (*_WHOLE, "DOUBLE"):
            raise UnknownFormError
        if name is None:
            if other is None:
                raise UnknownFormError
            return ColumnAggregate(type(node).__name__, inner, "DOUBLE", other)
        if self.compensates and kind == "DOUBLE" and name in ("sum", "avg"):
            return ColumnAggregate(f"compensated {name}", inner, "DOUBLE")
        return ColumnAggregate(name, inner, "DOUBLE" if name == "avg" or kind == "DOUBLE" else "BIGINT")

    def _edge(self, name: str, node: exp.Expr, content: WindowContent, types: Sequence[str]) -> ColumnAggregate:
        """The value of the oldest or the newest row, by the numbers of the rows."""
        inner, place = map(content.name_of, node.expressions)
        if inner is None or place != "seq" or types[content.place(inner)] not in PYTHON_TYPES.keys() & self.proven:
            raise UnknownFormError
        return ColumnAggregate(name, inner, types[content.place(inner)])


def window_aggregate(
    statement: exp.Expr,
    insertions: Mapping[str, WindowInsertion],
    place_of: Callable[[exp.Expr], int | None],
    mark: Callable[[int, str], exp.Expr],
    types: Sequence[str],
    functions: AggregateFunctions,
    updates: Mapping[str, TotalsUpdate] = MappingProxyType({}),
    memory: WindowMemory | None = None,
    leaving: ExitReports | None = None,
    width: int | None = None,
) -> WindowAggregate | None:
    """The aggregate that computes a SELECT over a window; None where only the database can.

    Args:
        statement: The SELECT, with the values of an event.
        insertions: The rows that INSERTs add to window tables, by table.
        place_of: The place of an event's value in its row; None for another expression.
        mark: The expression that stands for a value at a place of the row, of a type.
        types: The types of the columns of that row.
        functions: The aggregates that Python computes as the database does.
        updates: The rows that are added to tables of totals, by table.
        memory: The windows that events of other streams fill; None where they are not in memory.
        leaving: How the groups that lose rows are reported; None where they are not reported.
        width: The number of the event's own values, which are the first values of its row; None: all.
    """
    try:
        recognition = _AggregateRecognition(insertions, place_of, mark, types, functions, updates, memory, width)
        found = recognition.aggregate(statement, leaving)
    except UnknownFormError:
        return None
    found.items = recognition.item_types
    return found


class _AggregateRecognition:
    """Takes a SELECT apart: nested SELECTs that name and filter, around a SELECT of aggregates over a window table."""

    def __init__(
        self, insertions: Mapping[str, WindowInsertion], place_of: Callable[[exp.Expr], int | None],
        mark: Callable[[int, str], exp.Expr], types: Sequence[str], functions: AggregateFunctions,
        updates: Mapping[str, TotalsUpdate], memory: WindowMemory | None, width: int | None,
    ) -> None:  # fmt: skip
        self._memory = memory
        self._width = len(types) if width is None else width
        self._updates, self._totals = updates, dict[str, TotalsContent]()
        self._insertions, self._place_of, self._mark = insertions, place_of, mark
        self._types, self._functions = types, functions
        self._aggregates: list[ColumnAggregate] = []
        self._conditions: list[exp.Expr] = []
        self._content: WindowContent | None = None
        self._reports_empty = False
        self.item_types: dict[str, str | None] = {}
        """The types of the columns of the SELECT, where known."""

    def aggregate(self, statement: exp.Expr, leaving: ExitReports | None) -> WindowAggregate:
        items = self._items(statement)
        select = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in items.items()), copy=False)
        if self._conditions:
            select.where(exp.and_(*self._conditions), copy=False)
        content = self._content
        if self._totals:
            return self._over_totals(select, items)
        if content is None or any(v.find(exp.Column, exp.AggFunc) for v in [*items.values(), *self._conditions]):
            raise UnknownFormError
        types, proven = [*self._types, *(each.type for each in self._aggregates)], self._functions.proven
        self.item_types = self._types_of_items(items, types)
        finish = computed(select, self._place_of, types, proven)
        columns = list(dict.fromkeys(each.column for each in self._aggregates if each.column is not None))
        added = [each.column for each in self._aggregates if each.name not in _IN_ANY_ORDER and each.column is not None]
        is_in_order = not content.evicting or content.evicts_oldest
        if not is_in_order and any(self._types_of(content)[content.place(name)] == "DOUBLE" for name in added):
            raise UnknownFormError  # the order in which the database adds up doubles is not known
        arrive = self._arriving(content, [*content.columns, *columns, *content.evicting])
        if finish is None or arrive is None:
            raise UnknownFormError
        can_run = all(each.is_running for each in self._aggregates) and not isinstance(content, FilledContent)
        key, equal = list(content.keys.values()), [content.keys[name] for name in content.equal]
        is_plain = not (self._conditions or equal or self._reports_empty) and all(map(self._is_plain, items.values()))
        arriving = self._arriving(content, []) if is_plain else None
        others = (arrive, key, equal, self._aggregates, columns, finish, self._reports_empty, arriving)
        if leaving is not None:
            changing = content.changing_rows(columns, self._types)
            kind = ExpiryChanges if isinstance(changing, ExpiringRows) else EvictionChanges
            finish = self._finish_leaving(content, items, key, kind is EvictionChanges)
            return kind(leaving, finish, (self._width, len(self._types)), changing, *others)
        rows = content.rows(columns, self._types_of(content), can_run)
        if isinstance(content, FilledContent):
            return ForeignAggregate(content.window.stream, rows, *others)
        return RunningAggregate(rows, *others) if isinstance(rows, RunningTotals) else WindowAggregate(rows, *others)

    def _finish_leaving(
        self, content: WindowContent, items: Mapping[str, exp.Expr], key: Sequence[int], by_event: bool
    ) -> Compute:
        """A function from the aggregates of a group that loses rows to its results; it does not depend on the event.

        `by_event`: the rows leave at the event, so that the values that follow its own in its row are known.
        """
        select = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in items.items()), copy=False)
        own = set(map(id, content.conditions))
        select = select.where(*(each for each in self._conditions if id(each) not in own), copy=False)
        read = {place for node in select.walk() if (place := self._place_of(node)) is not None}
        types = [*self._types, *(each.type for each in self._aggregates)]
        finish = computed(select, self._place_of, types, self._functions.proven)
        of_event = {place for place in read if place < (self._width if by_event else len(self._types))}
        if finish is None or isinstance(content, FilledContent) or not of_event <= {0, 1, *key}:
            raise UnknownFormError
        return finish

    def _is_plain(self, value: exp.Expr) -> bool:
        """Whether a value is a value of the event, an aggregate, a number, or a later time."""
        is_later = isinstance(value, exp.Add) and self._place_of(value.this) == 0
        value = value.expression if is_later else value
        return isinstance(value, exp.Literal) or self._place_of(value) is not None

    def _types_of_items(self, items: Mapping[str, exp.Expr], types: Sequence[str]) -> dict[str, str | None]:
        """The types of values of the event, of aggregates and of conditions; None for other values."""
        places = {name: self._place_of(value) for name, value in items.items()}
        others = {name: "BOOLEAN" if is_condition(value) else None for name, value in items.items()}
        return {name: others[name] if place is None else types[place] for name, place in places.items()}

    def _over_totals(self, select: exp.Select, items: Mapping[str, exp.Expr]) -> WindowAggregate:
        """The aggregate that computes the SELECT over a table of totals."""
        (totals,) = self._totals.values()
        if self._content is not None or select.find(exp.Column, exp.AggFunc) is not None:
            raise UnknownFormError
        types, proven = [*self._types, *totals.types], self._functions.proven
        self.item_types = self._types_of_items(items, types)
        finish = computed(select, self._place_of, types, proven)
        if finish is None:
            raise UnknownFormError
        is_plain = totals.has_conditions(self._conditions) and all(map(self._is_plain, items.values()))
        return totals.aggregate(finish, lambda select: computed(select, self._place_of, self._types, proven), is_plain)

    def _arriving(self, content: WindowContent, names: Sequence[str]) -> Compute | None:
        """A function that computes these columns of the row that an event adds."""
        if isinstance(content, FilledContent):
            return content.window.arriving(names)
        select = arriving_row(content.insertion, names, self._types, self._mark)
        return computed(select, self._place_of, self._types, self._functions.proven)

    def _items(self, select: exp.Expr) -> dict[str, exp.Expr]:
        """The values of a SELECT's columns, by name. Also adds the SELECT's conditions."""
        if has_only_values(select):
            return self._items_with_sub_query(select, None)
        source = select.args["from_"].this if isinstance(select, exp.Select) and select.args.get("from_") else None
        if isinstance(source, exp.Table) and source.name in self._updates:
            return self._items_of_totals(select, self._updates[source.name])
        if not isinstance(select, exp.Select) or not isinstance(source, exp.Table | exp.Subquery):
            raise UnknownFormError
        if is_window(source):
            return self._innermost(select)
        refuse_other_clauses(select, ("expressions", "from_", "where", "order"))
        if has_only_values(source.this) and source.this.find(exp.Subquery) is None:
            return self._items_with_sub_query(select, source)
        known = self._items(source.this)
        if (where := select.args.get("where")) is not None:
            self._conditions.append(replace_columns(where.this, known))
        return {item.alias_or_name: replace_columns(item.unalias(), known) for item in select.expressions}

    def _items_of_totals(self, select: exp.Expr, update: TotalsUpdate) -> dict[str, exp.Expr]:
        """The values of the SELECT that reads a table of totals."""
        refuse_other_clauses(select, ("expressions", "from_", "where"))
        if self._totals:
            raise UnknownFormError
        assert isinstance(select, exp.Select)
        totals = self._totals[update.table] = TotalsContent(update, self._types, self._mark)
        self._conditions += totals.conditions(select)
        return totals.items(select)

    def _innermost(self, select: exp.Select) -> dict[str, exp.Expr]:
        """The values of the SELECT of aggregates over the window table."""
        refuse_other_clauses(select, ("expressions", "from_", "where", "having"))
        having = select.args["having"].this if select.args.get("having") else None
        if having is None or having.sql() != "COUNT(*) > 0":
            raise UnknownFormError
        content = self._take(select)
        self._conditions += content.conditions
        return {item.alias_or_name: self._value(item.unalias(), content) for item in select.expressions}

    def _items_with_sub_query(self, select: exp.Select, event: exp.Expr | None) -> dict[str, exp.Expr]:
        """The values of a SELECT that has values of the event (whose alias may be `event`) and a sub-query."""
        alias = "" if event is None else event.alias
        known = {} if event is None else {item.alias_or_name: item.unalias() for item in event.this.expressions}

        def bound(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.name not in known:
                return node
            is_outside = not node.table and node.find_ancestor(exp.Select) is None
            return known[node.name].copy() if node.table == alias or is_outside else node

        def aggregated(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Exists) and [each.sql() for each in node.this.expressions] == ["1"]:
                counted = exp.select(exp.Count(this=exp.Star())).from_(node.this.args["from_"].this)
                counted.set("where", node.this.args.get("where"))
                refuse_other_clauses(node.this, ("expressions", "from_", "where"))
                return exp.GT(this=self._sub_query(counted, alias), expression=number(0))
            if isinstance(node, exp.SubqueryPredicate | exp.In) and node.find(exp.Select) is not None:
                raise UnknownFormError  # it reads rows, not a value
            return self._sub_query(node.unnest(), alias) if isinstance(node, exp.Subquery) else node

        self._reports_empty = True
        for each in (select,) if event is None else (event.this, select):
            if each.args.get("where"):
                self._conditions.append(each.args["where"].this.transform(bound).transform(aggregated))
        return {
            item.alias_or_name: item.unalias().transform(bound).transform(aggregated) for item in select.expressions
        }

    def _sub_query(self, select: exp.Expr, event: str) -> exp.Expr:
        """The value of a sub-query that is an aggregate over the window; it has a value without rows, too."""
        refuse_other_clauses(select, ("expressions", "from_", "where"))
        is_shadowed = any(event in (each.alias_or_name, each.name) for each in select.find_all(exp.Table, exp.Subquery))
        if not isinstance(select, exp.Select) or select.args.get("from_") is None or (event and is_shadowed):
            raise UnknownFormError
        if len(select.expressions) != 1:
            raise UnknownFormError
        content = self._take(select)
        found = self._value(select.expressions[0].unalias(), content)
        if content.conditions or not self._aggregates:
            raise UnknownFormError
        return found

    def _take(self, select: exp.Select) -> WindowContent:
        """The rows that a SELECT reads. Raises UnknownFormError if another SELECT has read rows."""
        if self._content is not None:
            raise UnknownFormError
        self._content = content = self._filled(select) or WindowContent(select, self._insertions, self._place_of)
        return content

    def _filled(self, select: exp.Select) -> FilledContent | None:
        """The rows of a window that events of another stream fill; None for other windows."""
        read = set(table_names(select.args["from_"]))
        if self._memory is None or len(read) != 1 or not read.isdisjoint(self._insertions):
            return None
        window = self._memory.filled(*read)
        if window is None:
            return None
        content = FilledContent(select, window, self._place_of, self._types, is_own=False)
        if content.others:
            raise UnknownFormError
        return content

    def _types_of(self, content: WindowContent) -> Sequence[str]:
        """The types of the values of an event that fills the window."""
        return content.window.types if isinstance(content, FilledContent) else self._types

    def _value(self, value: exp.Expr, content: WindowContent) -> exp.Expr:
        """An expression over the event's values and aggregates, which become further values of the event's row."""

        def marked(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column | exp.Subquery):
                raise UnknownFormError
            only = _only_value(node)
            if only is None and not isinstance(node, exp.AggFunc):
                return node
            types = self._types_of(content)
            if only is None:
                aggregate = self._functions.aggregate(node, content, types)
            else:
                name = content.name_of(only) or ""
                aggregate = ColumnAggregate(ONLY, name, types[content.place(name)])
            if aggregate not in self._aggregates:
                self._aggregates.append(aggregate)
            return self._mark(len(self._types) + self._aggregates.index(aggregate), aggregate.type)

        return value.transform(marked)


def _only_value(node: exp.Expr) -> exp.Expr | None:
    """The inner expression, if an expression is its value in the only row, and NULL for several rows; else None."""
    match node:
        case exp.Case(this=None, args={"ifs": [exp.If(this=exp.EQ() as alone, args={"true": exp.Min() as value})]}):
            is_alone = node.args.get("default") is None and alone.sql() == "COUNT(*) = 1"
            return value.this if is_alone else None
    return None
