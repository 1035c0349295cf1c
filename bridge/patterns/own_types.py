"""Adds a CAST to each value of a clause that only the database can compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp

from bridge.errors import QueryError
from bridge.patterns.conditions import Condition
from bridge.patterns.rows import SortedRows, Source, source_item
from bridge.patterns.task import Task
from bridge.patterns.values import LEAVE_AS, OWN_TYPE, Atom, MatchAggregate, MatchExpression, Value, as_type, shift_of
from bridge.query.row_pattern import PerMatch, RowPattern
from nfa.program import compile_program
from windows.databases import Database
from windows.databases.own_types import ARITHMETIC, OwnType
from windows.sql import column


@dataclasses.dataclass(frozen=True)
class PreparedClause:
    """A resolved clause: its graded conditions, its measures, and the input columns that it reads."""

    clause: RowPattern
    fields: Sequence[str]
    conditions: tuple[Condition, ...]
    measures: list[MatchExpression]
    needed: list[str]
    leave_as: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The types to which columns are cast when they leave the database, if the driver would change their values."""

    def task(self, rows: SortedRows) -> Task:
        """The task of a strategy over these rows."""
        return Task(rows, self.clause, self.conditions, compile_program(self.clause.pattern))


def typed(prepared: PreparedClause, database: Database, source: Source) -> PreparedClause:
    """The clause with a CAST for each value that only the database can compare, so the matcher does not compute it.

    Values of other rows lose their type in the matcher: an ENUM becomes a text.
    """
    whole = [*(c.rest for c in prepared.conditions if c.rest is not None), *prepared.measures]
    atoms = {atom for valued in whole for atom in valued.atoms}
    rows = [atom.row for atom in atoms if isinstance(atom, Value)]
    rows += [column(name) for atom in atoms if isinstance(atom, MatchAggregate) for name in atom.columns]
    rows += map(column, _columns_of_output(prepared))
    own = _own_types(list(dict.fromkeys(rows)), database, source)
    if not own:
        return prepared
    conditions = [
        c if c.rest is None else dataclasses.replace(c, rest=_cast(c.rest, own, database.keeps_collations))
        for c in prepared.conditions
    ]
    measures = [
        measure if _is_computed(measure) else _cast(measure, own, database.keeps_collations)
        for measure in prepared.measures
    ]
    leave_as = {row.name: kind.leave_as for row, kind in own.items() if isinstance(row, exp.Column) and kind.leave_as}
    return dataclasses.replace(prepared, conditions=tuple(conditions), measures=measures, leave_as=leave_as)


def _is_computed(measure: MatchExpression) -> bool:
    """Whether a measure is just an expression over one row, so that it leaves the database as the driver returns it."""
    return isinstance(measure.only, Value) and not isinstance(measure.only.row, exp.Column)


def _columns_of_output(prepared: PreparedClause) -> list[str]:
    """The columns of the input that are columns of the output."""
    keys = [key.name for key in prepared.clause.partition_by]
    return keys if prepared.clause.per_match is PerMatch.ONE_ROW else list(prepared.fields)


def _own_types(rows: Sequence[exp.Expr], database: Database, source: Source) -> dict[exp.Expr, OwnType]:
    """The types of the expressions over a row that only the database can compare."""

    def here(node: exp.Expr) -> exp.Expr:
        return node if shift_of(node) is None else exp.Paren(this=node.expressions[0])

    if not rows:
        return {}
    named = [exp.alias_(row.transform(here), f"_e{place}", quoted=True) for place, row in enumerate(rows)]
    found = database.own_types(source.rendered(database, exp.select(*named).from_(source_item())))
    return {rows[int(name.removeprefix("_e"))]: kind for name, kind in found.items()}


def _of_type(value: exp.Expr, kind: str) -> exp.Expr:
    if kind.startswith("COLLATE "):
        return exp.Collate(this=value, expression=exp.var(kind.removeprefix("COLLATE ")))
    return as_type(value, kind)


_OF_ONE_ROW = (exp.Min, exp.Max, exp.First, exp.Last)
"""Aggregates whose value is one of the aggregated values, with their type."""


def _cast(
    match_expression: MatchExpression, types: Mapping[exp.Expr, OwnType], keeps_collations: bool
) -> MatchExpression:
    """The expression, with values of own types cast to the types in which they are compared and computed."""
    own = {row: kind for row, kind in types.items() if not kind.within or _has(match_expression, kind.within)}
    for atom in match_expression.atoms if any(kind.refused for kind in own.values()) else ():
        _refuse(atom, own, match_expression)

    def of_row(node: exp.Expr) -> exp.Expr:
        kind = types.get(node) if isinstance(node, exp.Column) else None
        return node if kind is None else _of_type(node.copy(), kind.cast)

    def of_atom(node: exp.Expr) -> exp.Expr:
        atom = named.get(node.name) if isinstance(node, exp.Column) else None
        row = atom.call.this if isinstance(atom, MatchAggregate) else atom.row if isinstance(atom, Value) else None
        is_row = isinstance(atom, Value) or (isinstance(atom, MatchAggregate) and isinstance(atom.call, _OF_ONE_ROW))
        kind = own.get(row) if is_row and row is not None else None
        if kind is not None and isinstance(node.parent, exp.DPipe) and kind.cast.startswith("COLLATE "):
            return _of_type(node.copy(), kind.cast) if keeps_collations else node
        return node if kind is None else _of_type(node.copy(), kind.cast)

    named = {f"_v{place}": atom for place, atom in enumerate(match_expression.atoms)}

    def aggregate(atom: MatchAggregate) -> MatchAggregate:
        call = atom.call.transform(of_row)
        if call != atom.call:
            call.meta[OWN_TYPE] = True
            kind = types.get(atom.call.this) if isinstance(atom.call, _OF_ONE_ROW) else None
            call.meta[LEAVE_AS] = kind.leave_as if kind is not None else ""
        return dataclasses.replace(atom, call=call)

    def leaving(atom: Value) -> Atom:
        kind = own.get(atom.row)
        if kind is None or not kind.leave_as:
            return atom
        return dataclasses.replace(atom, row=as_type(atom.row, kind.leave_as))

    def changed(atom: Atom) -> Atom:
        if isinstance(atom, MatchAggregate):
            return aggregate(atom)
        return leaving(atom) if isinstance(atom, Value) else atom

    atoms = tuple(map(changed, match_expression.atoms))
    expression = match_expression.expression
    return MatchExpression(expression if match_expression.only is not None else expression.transform(of_atom), atoms)


def _refuse(atom: Atom, own: Mapping[exp.Expr, OwnType], match_expression: MatchExpression) -> None:
    """Raises QueryError for arithmetic on values that only the database can compute."""
    rows = [atom.row] if isinstance(atom, Value) else []
    if isinstance(atom, MatchAggregate) and isinstance(atom.call, (exp.Sum, exp.Avg)):
        rows += map(column, atom.columns)
    is_aggregate = isinstance(atom, MatchAggregate)
    for kind in (own[row] for row in rows if row in own):
        if kind.refused and (is_aggregate or _has(match_expression, ARITHMETIC)):
            raise QueryError(kind.refused)


def _has(match_expression: MatchExpression, kinds: tuple[type[exp.Expr], ...]) -> bool:
    """Whether an expression, or an aggregate that it reads, contains a node of these kinds."""
    calls = [atom.call for atom in match_expression.atoms if isinstance(atom, MatchAggregate)]
    return any(each.find(*kinds) is not None for each in (match_expression.expression, *calls))
