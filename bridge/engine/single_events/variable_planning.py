"""Plans of single events that read or set variables of EPL, whose values are in memory.

Each step that adds one row of values to an inbox of results is left out, as is one that adds rows with the value of a
variable: the statements that read the inbox get the SELECT of its rows in its place. In all statements the values of
variables are further values of the event.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from sqlglot import exp

from bridge.engine.catalogue import StreamEntry
from bridge.engine.results import ResultStatement
from bridge.engine.single_events.bound_statements import BoundStatements, Unbound
from bridge.engine.single_events.computed import DIGITS, Compute, Row, computed, has_only_values
from bridge.engine.single_events.marked_values import has_mark, parameter, place_of_value
from bridge.engine.single_events.memory.window_memory import WindowMemory
from bridge.engine.single_events.one_event import OneEventPlan
from bridge.engine.single_events.one_event_planning import one_event_plan
from bridge.engine.single_events.outputs import TableOutput
from bridge.engine.single_events.variables import Assignment, ComputedInbox, EventVariables, VariableMemory
from bridge.rewrite.optimize import optimize
from bridge.rewrite.optimize.inline import inline_rows
from bridge.rewrite.optimize.rule import Facts
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.tables.change import EVENT
from bridge.rewrite.tables.variables import Assign
from windows.databases import Database
from windows.schema import Attribute
from windows.sql import aliased, bigint_never, bigint_zero, column_of, derived_table, number, table_names
from windows.types import PYTHON_TYPES


def plan_with_variables(
    stream: StreamEntry,
    operators: Sequence[Operator],
    results: Sequence[ResultStatement],
    empty: Collection[str],
    bound: BoundStatements,
    memory: WindowMemory,
    variables: VariableMemory,
    known: Collection[str],
    outputs: Sequence[TableOutput],
) -> OneEventPlan | None:
    """The plan for an event of a stream that reads or sets variables; None where this process cannot compute all of it.

    Args:
        stream: The stream.
        operators: The operators that the event concerns.
        results: The statements of the results that an event may have.
        empty: The inboxes of the other streams.
        bound: The statements for the stream without variables.
        memory: The rows of tables in memory.
        variables: The values of variables in memory.
        known: The names of all variables.
        outputs: The tables that get results.
    """
    if bound.row is None:
        return None
    found = _Variables(bound, operators, empty, bound.database)
    try:
        kept = found.without_values(operators)
        own = BoundStatements(stream, bound.row, bound.database, found)
        nothing = {*empty, *found.nothing}
        plan = one_event_plan(stream, kept, results, nothing, bound.database, own, memory, outputs)
    except Unbound:
        return None
    if plan is None or plan.in_process is None:
        return None
    read = {name for step in plan.stores for name in table_names(step.statement())}
    inboxes = found.inboxes_of(read)
    if inboxes is None or not read.isdisjoint(known):
        return None
    tables = frozenset(name.lower() for name in known)
    values = EventVariables(variables, list(found.names), found.assignments, tables, inboxes)
    in_process = dataclasses.replace(plan.in_process, variables=values)
    return dataclasses.replace(plan, in_process=in_process, can_wait=False)


class _Variables:
    """The values of variables as further values of an event, and inboxes of results as SELECTs of such values.

    `types`: the types of an event's values, then those of the variables. `names`: the variables with their types.
    `nothing`: the inboxes that get no row.
    """

    def __init__(
        self, bound: BoundStatements, operators: Sequence[Operator], empty: Collection[str], database: Database
    ) -> None:
        self._row, self._empty, self._database = bound.row, empty, database
        self.names = {name: kind for operator in operators for name, kind in operator.variables.items()}
        self.types = [*bound.types, *self.names.values()]
        self._places = {name: place for place, name in enumerate(self.names, len(bound.types))}
        """The place of each variable's present value."""
        self._selects: dict[str, exp.Expr] = {}
        """The rows of inboxes of results that are inlined."""
        self._others: dict[str, exp.Expr] = {}
        """The rows of the other inboxes of results."""
        self.nothing = set[str]()
        self.assignments: list[Assignment] = []

    def without_values(self, operators: Sequence[Operator]) -> list[Operator]:
        """The operators without the steps that only set variables, or fill an inbox whose rows are inlined."""
        for operator in operators:
            for step in operator.steps:
                if isinstance(step, Assign):
                    self._assign(step)
                elif type(step) is Insert and step.table in operator.inboxes:
                    self._add(step, operator.timed)
        gone = {*self._selects, *self.nothing}
        found = []
        for each in operators:
            steps = [step for step in each.steps if not isinstance(step, Assign) and step.table not in gone]
            inboxes = [name for name in each.inboxes if name not in gone]
            is_same = len(steps) == len(each.steps)
            found.append(each if is_same else dataclasses.replace(each, steps=steps, inboxes=inboxes))
        return found

    def _add(self, step: Insert, is_timed: bool) -> None:
        """Notes the rows that an inbox gets, if they are one row of values, or have the value of a variable.

        `is_timed`: time alone may add rows; then only the database knows the values that variables have at that time.
        """
        if step.table in {*self._selects, *self._others, *self.nothing}:
            raise Unbound  # several steps fill this inbox
        select = step.variants.of("one")()
        values = self._of_values(select)
        if values is not None and has_only_values(values):
            self._selects[step.table] = values
        elif is_timed:
            return
        elif values is None:
            self.nothing.add(step.table)
        elif self._places.keys().isdisjoint(table_names(select)):
            entering = "one" if step.variants.entering is None else "entering"
            self._others[step.table] = self.inlined(step.variants.of(entering)().copy())
        else:
            for name in set(table_names(select)).intersection(self._others):  # aggregates beside the variable
                self._selects[name] = self._others[name]
            self._selects[step.table] = self.inlined(select.copy())

    def _of_values(self, select: exp.Expr) -> exp.Expr | None:
        """The SELECT with the event's values; None where it gives no row."""
        if has_mark(select):
            raise Unbound
        return optimize(self.inlined(select.copy()), self._facts)

    def _assign(self, step: Assign) -> None:
        """Notes the values that a step gives to variables, and the row that it inserts, which has the same values."""
        events = step.events.copy()
        events.set("order", None)
        rows = derived_table(events, EVENT)
        for setting in step.settings:
            name = step.names[setting.place]
            value = setting.tree
            while isinstance(value, exp.Cast) and value.to.is_type(self.names[name]):
                value = value.this  # the variable has this type
            select = self._of_values(exp.select(value.copy()).from_(rows.copy()))
            if select is None:
                self.nothing.add(step.table)
                return
            compute = self._compute(select, self.names[name]) if has_only_values(select) else None
            if compute is None:
                raise Unbound
            self.assignments.append(Assignment(name, self.names[name], compute, self._places[name], setting.update))
            self._places[name] = len(self.types)
            self.types = [*self.types, self.names[name]]
        items: list[exp.Expr] = [column_of(EVENT, name) for name in ("ts", "seq")]
        items += [aliased(bigint_never(), "_expires"), aliased(bigint_zero(), "_place")]
        items += [aliased(self._mark(self._places[name]), name) for name in step.names]
        found = optimize(self.inlined(exp.select(*items).from_(rows)), self._facts)
        if found is None or not has_only_values(found):
            raise Unbound
        self._selects[step.table] = found

    @property
    def _facts(self) -> Facts:
        return Facts({*self._empty, *self.nothing}, self._row)

    def _compute(self, select: exp.Select, kind: str) -> Compute | None:
        """The function that computes a SELECT of one value for a variable of this type; None where only the database can."""
        proven = self._database.python_types
        select = cast("exp.Select", select.transform(_without_same_casts))
        constant = constant_of(select.expressions[0].unalias(), kind)
        if constant is None:
            return computed(select, place_of_value, self.types, proven)
        select.set("expressions", [number(1)])
        holds = computed(select, place_of_value, self.types, proven)
        return None if holds is None or kind not in proven else functools.partial(_constant_where, holds, constant)

    def _mark(self, place: int) -> exp.Expr:
        return parameter(place, str(self._database.value_type(Attribute("value", self.types[place]))), self._database)

    def inlined(self, tree: exp.Expr) -> exp.Expr:
        """The statement, changed in place, with values in place of variables and of rows of inboxes."""
        for found in list(tree.find_all(exp.Subquery)):
            is_value = not isinstance(found.parent, exp.From | exp.Join | exp.In)
            if is_value and (value := self._value(found)) is not None:
                found.replace(aliased(value, found.alias) if found.alias else value)
        for source in list(tree.find_all(exp.Table)):
            if source.name in self._selects and not source.db:
                rows = exp.Subquery(this=self._selects[source.name].copy())
                source.replace(exp.alias_(rows, source.alias_or_name, table=True, quoted=True))
        return inline_rows(tree) if self._row is not None and self._row.inline else tree

    def _value(self, found: exp.Subquery) -> exp.Expr | None:
        """The value of a sub-query that reads a variable, or a column of the event's row in an inbox; else None."""
        select = found.this
        source = select.args["from_"].this if isinstance(select, exp.Select) and select.args.get("from_") else None
        if not isinstance(source, exp.Table) or len(select.expressions) != 1:
            return None
        item, where = select.expressions[0].unalias(), select.args.get("where")
        if not isinstance(item, exp.Column) or select.args.get("joins"):
            return None
        if source.name in self._places and where is None and item.name == source.name:
            return self._mark(self._places[source.name])
        rows = self._selects.get(source.name)
        if rows is None or not has_only_values(rows) or rows.args.get("where") or where is None:
            return None
        same = where.this.unnest()
        sides = (same.this, same.expression) if isinstance(same, exp.EQ) else ()
        if not sides or any(not isinstance(side, exp.Column) or side.name != "seq" for side in sides):
            return None
        values: Mapping[str, exp.Expr] = {each.alias_or_name: each.unalias() for each in rows.expressions}
        return values[item.name].copy() if item.name in values else None

    def inboxes_of(self, tables: Collection[str]) -> list[ComputedInbox] | None:
        """The inboxes among these tables; None where this process cannot compute the rows of one."""
        found = []
        for name, select in self._selects.items():
            if name in tables:
                compute = None
                if has_only_values(select):
                    compute = computed(select, place_of_value, self.types, self._database.python_types)
                if compute is None:
                    return None
                found.append(ComputedInbox(name, compute))
        return found


def _without_same_casts(node: exp.Expr) -> exp.Expr:
    """A value of the event without a cast to its own type."""
    is_same = isinstance(node, exp.Cast) and place_of_value(node.this) is not None and node.this.to == node.to
    return node.this if is_same else node


def constant_of(node: exp.Expr, kind: str) -> tuple[Any] | None:
    """The constant that a variable of a type gets from a literal; None for another expression.

    >>> from sqlglot import parse_one
    >>> [constant_of(parse_one(text), "DOUBLE") for text in ("-1.5", "CAST(2 AS DOUBLE)", "NULL", "'a'", "a")]
    [(-1.5,), (2.0,), (None,), None, None]
    """
    node = node.unnest()
    if isinstance(node, exp.Cast) and node.to.is_type(kind):
        node = node.this.unnest()
    if isinstance(node, exp.Null):
        return (None,)
    if isinstance(node, exp.Boolean):
        return (bool(node.this),) if kind == "BOOLEAN" else None
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal) or (literal.is_string and literal is not node):
        return None
    wanted, digits = PYTHON_TYPES.get(kind), literal.name.replace(".", "", 1)
    if literal.is_string or wanted is str:
        return (literal.name,) if literal.is_string and wanted is str else None
    if not digits.isdecimal() or len(digits) > DIGITS or (wanted is int and digits != literal.name):
        return None
    if wanted is not int and wanted is not float:
        return None
    value = wanted(literal.name)
    return (value if literal is node else -value,)


def _constant_where(holds: Compute, constant: tuple[Any], row: Row) -> list[Row] | None:
    found = holds(row)
    return None if found is None else [constant for _ in found]
