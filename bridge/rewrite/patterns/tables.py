"""Tables and statements that the operators of row patterns share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from bridge.check import row_pattern as resolve
from bridge.errors import QueryError
from bridge.patterns.conditions import Condition
from bridge.patterns.live.statements import PreviousValue
from bridge.patterns.values import Atom, MatchAggregate, MatchExpression, Value, lag_or_lead, shift_of
from bridge.query.row_pattern import RowPattern
from bridge.rewrite.flow import Flow, Selection
from bridge.rewrite.plan import Operator, Purge
from bridge.rewrite.state_tables import add_table
from nfa.errors import BudgetError
from nfa.program import Program, compile_program
from windows.nested import is_list
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    derived_table,
    lexicographically_before,
    null_safe_equal,
    number,
    over,
    row_number,
    table,
)

ROW_ID = ("ts", "seq", "_place")
"""The columns that identify and order the rows of a stream."""

SYSTEM = ("ts", "seq", "_expires", "_place")
"""The first columns of a result table."""


# Rows -----------------------------------------------------------------------------------------------------------------


def row_id(alias: str) -> list[exp.Expr]:
    """The columns of a row's id."""
    return [column_of(alias, name) for name in ROW_ID]


def same_row_id(one: str, other: str) -> list[exp.Expr]:
    """The conditions under which two rows are the same row."""
    return [exp.EQ(this=left, expression=right) for left, right in zip(row_id(one), row_id(other), strict=True)]


def place_in_event(flow: Flow) -> exp.Expr:
    """`_place`: the place of each row of a flow among the rows of its event."""
    places = [column(name) for name in flow.order]
    if len(places) == 1:
        return aliased(places[0], "_place")
    return aliased(row_number(map(column, ("ts", "seq")), places) if places else bigint_zero(), "_place")


def is_of_this_push(flow: Flow, alias: str) -> exp.Expr:
    """Whether a row is one of the arrivals."""
    arrival = exp.select(number(1)).from_(derived_table(flow.arrivals.select(), "a", copy=False), copy=False)
    same_event = (exp.EQ(this=column_of("a", name), expression=column_of(alias, name)) for name in ("ts", "seq"))
    return exp.Exists(this=arrival.where(*same_event, copy=False))


def has_arrivals(flow: Flow, keys: Sequence[str], alias: str) -> exp.Expr:
    """Whether the partition of a row has arrivals."""
    arrival = exp.select(number(1)).from_(derived_table(flow.arrivals.select(), "a"))
    return exp.Exists(this=arrival.where(*same_key(keys, "a", alias)))


def same_key(keys: Iterable[str], one: str, other: str) -> list[exp.Expr]:
    """The conditions under which two rows belong to the same partition."""
    return [null_safe_equal(column_of(one, key), column_of(other, key)) for key in keys]


def with_neighbours(expression: exp.Expr, keys: Sequence[str]) -> exp.Expr:
    """The expression with window functions in place of `_SHIFT`, which reads another row of the partition."""

    def window(node: exp.Expr) -> exp.Expr:
        by = shift_of(node)
        if by is None:
            return node
        return over(lag_or_lead(node.expressions[0], by), map(column, keys), map(column, ROW_ID))

    return expression.transform(window)


def previous_values(expressions: Iterable[exp.Expr]) -> tuple[PreviousValue, ...] | None:
    """The values of earlier rows that `with_placeholders` reads; None if more than columns of earlier rows is read."""
    nodes = [node for each in expressions for node in each.walk() if shift_of(node) is not None]
    if any((shift_of(node) or 0) >= 0 or not isinstance(node.expressions[0], exp.Column) for node in nodes):
        return None
    return tuple(dict.fromkeys(map(_previous_value, nodes)))


def with_placeholders(expression: exp.Expr) -> exp.Expr:
    """The expression with a placeholder for each value of an earlier row that `_SHIFT` reads."""

    def placeholder(node: exp.Expr) -> exp.Expr:
        return node if shift_of(node) is None else _previous_value(node).placeholder

    return expression.transform(placeholder)


def _previous_value(node: exp.Expr) -> PreviousValue:
    return PreviousValue(node.expressions[0].name, -(shift_of(node) or 0))


def shifts(expressions: Iterable[exp.Expr]) -> list[int]:
    """The distances at which the expressions read other rows: positive for later rows, negative for earlier rows."""
    return [by for e in expressions for node in e.walk() if (by := shift_of(node)) is not None]


def newest_first(keys: Iterable[str]) -> exp.Window:
    """The number of each row in its partition, counted from the newest."""
    order = exp.Order(expressions=[exp.Ordered(this=column(name), desc=True) for name in ROW_ID])
    return exp.Window(this=exp.RowNumber(), partition_by=[column(key) for key in keys] or None, order=order)


def purge_released(name: str, checkpoint: str, newest: exp.Expr, holder: exp.Expr | None = None) -> Purge:
    """Removes the rows that a checkpoint knows and does not hold.

    Both conditions are on the checkpoint's lines (alias `s`): `newest` on the line with the newest row that it knows,
    `holder` on the lines that hold rows (None: all lines).
    """
    lines = exp.select(number(1)).from_(aliased_table(checkpoint, "s"), copy=False)
    passed = lexicographically_before(list(zip(row_id(name), row_id("s"), strict=True)))
    is_passed = exp.Exists(this=lines.copy().where(newest, passed, copy=False))
    is_held = exp.Exists(this=lines.where(holder, *same_row_id("s", name), copy=False))
    return Purge(name, exp.and_(is_passed, exp.Not(this=is_held), copy=False))


# The values that a clause reads ---------------------------------------------------------------------------------------


def atoms_of(values: Iterable[MatchExpression | None]) -> list[Atom]:
    return [atom for valued in values if valued is not None for atom in valued.atoms]


def row_values(atoms: Iterable[Atom]) -> list[exp.Expr]:
    """The expressions over single rows whose values the atoms are."""
    return [atom.row for atom in atoms if isinstance(atom, Value)]


def running_arguments(atoms: Iterable[Atom]) -> list[exp.Expr]:
    """The arguments of the aggregates that are computed row by row."""
    running = [atom.running for atom in atoms if isinstance(atom, MatchAggregate)]
    return [found[1] for found in running if found is not None and found[1] is not None]


def aggregates_of_the_database(conditions: Iterable[Condition]) -> Iterator[MatchAggregate]:
    """The aggregates in conditions that only the database computes, over rows that all exist."""
    atoms = atoms_of(condition.rest for condition in conditions)
    return (atom for atom in atoms if isinstance(atom, MatchAggregate) and atom.running is None)


def program_of(clause: RowPattern) -> Program:
    """The clause's pattern as a program; raises QueryError if it is too long."""
    try:
        return compile_program(clause.pattern)
    except BudgetError as error:
        raise QueryError(f"PATTERN ({clause.pattern}): {error}") from None


def probes(clause: RowPattern, rows: exp.Expr) -> list[exp.Query]:
    """A statement that tests whether the database knows all functions in DEFINE; no other statement has them."""
    values = [typed(condition) for _, condition in clause.define]
    items = [aliased(value, f"c{place}") for place, value in enumerate(values)]
    return [exp.select(*items).from_(rows.copy()).where(exp.false())] if items else []


def typed(measure: exp.Expr) -> exp.Expr:
    """A measure over one row, from which the database derives its type; aggregates become window functions."""

    def windowed(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Cast) and is_list(node):
            return exp.Cast(this=exp.null(), to=node.to.copy())
        return exp.Window(this=node.copy()) if isinstance(node, exp.AggFunc) else node

    def undistinguished(node: exp.Expr) -> exp.Expr:
        return node.expressions[0] if isinstance(node, exp.Distinct) else node

    return resolve.plain(measure).transform(undistinguished).transform(windowed)


# Results --------------------------------------------------------------------------------------------------------------


def shape_of_results(columns: Mapping[str, exp.Expr]) -> exp.Select:
    """A SELECT, without FROM, of the columns of a result table."""
    system = {name: bigint_zero() for name in SYSTEM}
    return exp.select(*(aliased(value, name) for name, value in {**system, **columns}.items()))


def add_results(operator: Operator, name: str, shape: exp.Select, timed: bool) -> None:
    """Gives the operator a result table as its result; a machine fills the table at each push."""
    add_table(operator, name, shape)
    operator.inboxes.append(name)
    columns = shape.named_selects
    rows = Selection.of(table(name), columns)
    operator.result = operator.arrivals = Flow(tuple(columns[len(SYSTEM) :]), rows, order=("_place",), timed=timed)
