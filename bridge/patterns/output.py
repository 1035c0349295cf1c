"""The output of MATCH_RECOGNIZE: the rows of matches with MEASURES and columns of the input, as Arrow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from bridge.check.aggregates import refuse_set_functions
from bridge.check.scope import field_of
from bridge.errors import QueryError
from bridge.patterns.aggregates import aggregate_values
from bridge.patterns.arrays import Array, Bools, Ints, arrow_columns, take
from bridge.patterns.conditions import at_an_end, conditions
from bridge.patterns.members import ABSENT, Members
from bridge.patterns.own_types import PreparedClause, typed
from bridge.patterns.planner import choose_for_rows, run
from bridge.patterns.rows import SortedRows, Source
from bridge.patterns.strategies import offsets
from bridge.patterns.task import Task
from bridge.patterns.values import Atom, Classifier, MatchAggregate, MatchExpression, MatchNumber, Value, as_type, read
from bridge.query.row_pattern import PerMatch, RowPattern
from nfa.arrays.matches import Matches
from nfa.errors import BudgetError, SkipError
from windows.databases import Database
from windows.sql import column, table

if TYPE_CHECKING:
    import pyarrow as pa


@dataclasses.dataclass(frozen=True)
class OutputRows:
    """The output rows: the match (ABSENT: none), member (ABSENT: no match, or an empty one) and input row of each."""

    match: Ints
    member: Ints
    row: Ints
    each: bool = False
    """Whether there is exactly one row per match, in order."""

    @property
    def unmatched(self) -> Bools:
        found: Bools = self.match == ABSENT
        return found

    def take(self, order: Ints) -> OutputRows:
        """The rows at these places, in this order."""
        return OutputRows(self.match[order], self.member[order], self.row[order])


def output_rows(members: Members, per_match: PerMatch, count: int) -> OutputRows:
    """The output rows of a clause for its matches, over `count` rows of input."""
    found = members.found
    if per_match is PerMatch.ONE_ROW:
        last = np.where(found.lengths > 0, members.offsets[1:] - 1, ABSENT)
        return OutputRows(np.arange(members.matches), last, found.starts, each=True)
    kept = np.flatnonzero(~members.excluded)
    rows = OutputRows(members.match[kept], kept, members.rows(kept, members.match[kept]))
    if per_match is PerMatch.OMIT_EMPTY:
        return rows
    empty = np.flatnonzero(found.lengths == 0)
    rows = _concatenated(rows, OutputRows(empty, np.full(len(empty), ABSENT), found.starts[empty]))
    if per_match is PerMatch.WITH_UNMATCHED:
        free = np.ones(count, bool)
        every = np.arange(len(members))
        free[members.rows(every, members.match)] = False
        free[found.starts[empty]] = False
        alone = np.flatnonzero(free)
        nothing = np.full(len(alone), ABSENT)
        rows = _concatenated(rows, OutputRows(nothing, nothing, alone))
    return _in_order(rows, members)


def _concatenated(one: OutputRows, other: OutputRows) -> OutputRows:
    """The rows of one output, followed by those of another."""
    pairs = ((one.match, other.match), (one.member, other.member), (one.row, other.row))
    match, member, row = (np.concatenate(pair) for pair in pairs)
    return OutputRows(match, member, row)


def _in_order(rows: OutputRows, members: Members) -> OutputRows:
    """The rows sorted by the first row of their match (or the row itself, if unmatched), then by match, then by row."""
    starts = members.found.starts[rows.match] if members.matches else rows.row
    order = np.lexsort((rows.row, rows.match, np.where(rows.unmatched, rows.row, starts)))
    return rows.take(order)


class MatchInput(Protocol):
    """The input rows of matches: sorted in the database, or retained by a live machine."""

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]: ...
    def key(self, name: str, rows: Ints) -> Array: ...


@dataclasses.dataclass
class ResultColumns:
    """Computes the columns of the output."""

    database: Database
    rows: MatchInput
    members: Members
    output_rows: OutputRows
    has_own_types: bool = False
    """Whether the driver returns values of the input with another type."""

    def table(self, clause: RowPattern, fields: Sequence[str], measures: Sequence[MatchExpression]) -> pa.Table:
        """The output: partition columns and measures; for ALL ROWS also order columns before and other columns after them."""
        self._clause = clause
        keys = [key.name for key in clause.partition_by]
        names, rest = list[str](), list[str]()
        if clause.per_match is not PerMatch.ONE_ROW:
            names += [item.this.name for item in clause.order_by if isinstance(item.this, exp.Column)]
            names = [name for name in dict.fromkeys(names) if name not in keys]
            rest = [name for name in fields if name not in names and name not in keys]
        atoms = {atom: None for measure in measures for atom in measure.atoms}
        row_values = [atom.row for atom in atoms if isinstance(atom, Value)]
        wanted = list(dict.fromkeys([*row_values, *map(column, [*names, *rest])]))
        arrays = dict(zip(wanted, self.rows.columns(wanted), strict=True))
        values = {atom: self._atom(atom, arrays) for atom in atoms}
        computed = self._measures(measures, values)
        given = {name: take(arrays[column(name)], self.output_rows.row) for name in [*names, *rest]}
        before = [*(self.rows.key(key, self.output_rows.row) for key in keys), *(given[name] for name in names)]
        columns = [*before, *computed, *(given[name] for name in rest)]
        return pa.Table.from_arrays(columns, names=[*keys, *names, *(m.alias for m in clause.measures), *rest])

    def _atom(self, atom: Atom, arrays: dict[exp.Expr, Array]) -> Array:
        output_rows = self.output_rows
        match = np.maximum(output_rows.match, 0)
        if isinstance(atom, MatchNumber):
            numbers = self.members.numbers[match] if self.members.matches else match
            return pa.array(numbers, pa.int64(), mask=output_rows.unmatched | (numbers == 0))  # 0: partial match
        if isinstance(atom, MatchAggregate):
            return aggregate_values(atom, self.database, self.rows, self.members, output_rows.match, output_rows.member)
        found = self._members_at(atom, match)
        if isinstance(atom, Classifier):
            found = self.members.shifted(found, match, atom.shift) if atom.shift else found
            return self._labels(found)
        return take(arrays[atom.row], self.members.rows(found, match))

    def _members_at(self, atom: Value | Classifier, match: Ints) -> Ints:
        """For each output row, the member at the atom's place."""
        if not self.members.matches:
            return np.full(len(match), ABSENT)
        if not atom.place.final:
            return self.members.so_far(atom.place, self.output_rows.member)
        found = self.members.at_end(at_an_end(atom.place, self._clause))
        return found if self.output_rows.each else np.where(self.output_rows.unmatched, ABSENT, found[match])

    def _labels(self, found: Ints) -> Array:
        if not len(self.members):
            return pa.nulls(len(found), pa.string())
        codes = self.members.symbols[np.maximum(found, 0)].astype(np.int64)
        return take(pa.array(self.members.names, pa.string()), np.where(found == ABSENT, ABSENT, codes))

    def _measures(self, measures: Sequence[MatchExpression], values: dict[Atom, Array]) -> list[Array]:
        """The values of the measures.

        Measures that are more than one atom are computed by the database in one statement.
        """
        names = {atom: f"_v{place}" for place, atom in enumerate(values)}
        computed = [_renamed(measure, names) for measure in measures if measure.only is None]
        found = iter(self._computed(computed, values, names) if computed else [])
        return [values[measure.only] if measure.only is not None else next(found) for measure in measures]

    def _computed(self, computed: list[exp.Expr], values: dict[Atom, Array], names: dict[Atom, str]) -> list[Array]:
        order = pa.array(np.arange(len(self.output_rows.match)))
        given = pa.Table.from_arrays([*values.values(), order], names=[*names.values(), "_n"])
        with self.database.registered(given) as name:
            named = [
                exp.alias_(e, f"_m{place}", quoted=True) for place, e in enumerate(self._with_casts(computed, name))
            ]
            select = exp.select(*named).from_(table(name)).order_by(column("_n"))
            arrays = arrow_columns(self.database, self.database.render(select), len(named))
        nothing = pa.array(self.output_rows.unmatched)
        return [_without(array, nothing) for array in arrays]

    def _with_casts(self, computed: list[exp.Expr], name: str) -> list[exp.Expr]:
        """The expressions over a registered table, with a cast for values that cannot leave the database unchanged."""
        if not self.has_own_types:
            return computed
        named = [exp.alias_(e, f"_m{place}", quoted=True) for place, e in enumerate(computed)]
        own = self.database.own_types(self.database.render(exp.select(*named).from_(table(name))))
        kinds = [own[e.alias].leave_as if e.alias in own else "" for e in named]
        return [as_type(e, kind) if kind else e for e, kind in zip(computed, kinds, strict=True)]


def _renamed(measure: MatchExpression, names: dict[Atom, str]) -> exp.Expr:
    mine = {f"_v{place}": names[atom] for place, atom in enumerate(measure.atoms)}

    def rename(node: exp.Expr) -> exp.Expr:
        return column(mine[node.name]) if isinstance(node, exp.Column) else node

    return measure.expression.transform(rename)


def _without(array: Array, nothing: Array) -> Array:
    return pc.if_else(nothing, pa.scalar(None, array.type), array)


NO_COLUMN = "_cep_no_column"
"""The name of a column in an output without columns, to keep its number of rows."""


def with_count(output: pa.Table, count: int) -> pa.Table:
    """The output, which keeps its number of rows even if it has no columns.

    >>> with_count(pa.table({}), 2).num_rows, with_count(pa.table({"a": [1]}), 1).column_names
    (2, ['a'])
    """
    return output if output.num_columns else pa.table({NO_COLUMN: pa.array(np.zeros(count, np.int64))})


# A clause over bounded data: sort, match by the fastest strategy, compute measures


def evaluate_clause(
    database: Database, source: Source, clause: RowPattern, fields: Sequence[str], strategy: str | None = None
) -> pa.Table:
    """The output of MATCH_RECOGNIZE over a SELECT whose columns are `fields`, in order of the partitions.

    Args:
        strategy: The name of one of `planner.STRATEGIES`; by default the fastest one.

    Raises:
        QueryError: A name is not a column, AFTER MATCH SKIP leads nowhere (rule S3), or the result exceeds a limit.
    """
    prepared = typed(prepare(database, clause, fields), database, source)
    with SortedRows(database, source, prepared.clause, prepared.needed, prepared.leave_as) as rows:
        task = prepared.task(rows)
        strategy = strategy or choose_for_rows(task).strategy
        if strategy == "offsets" and (direct := offsets.evaluate_clause(task, prepared.measures)) is not None:
            return with_count(*direct)
        found = matches(task, strategy)
        members = Members(found, task.program, rows.ends)
        which = output_rows(members, clause.per_match, len(rows))
        columns = ResultColumns(database, rows, members, which, bool(prepared.leave_as))
        return with_count(columns.table(prepared.clause, fields, prepared.measures), len(which.match))


def matches(task: Task, strategy: str | None = None) -> Matches:
    """The matches found by the given or the fastest strategy; raises QueryError like `evaluate_clause`."""
    try:
        return run(task, strategy or choose_for_rows(task).strategy)
    except (SkipError, BudgetError) as error:
        raise QueryError(str(error)) from error


def prepare(database: Database, clause: RowPattern, fields: Sequence[str]) -> PreparedClause:
    """Resolves a clause over an input with these columns; raises QueryError for a name that is not a column."""
    if clause.timed_out or clause.absent is not None:
        what = "WITH TIMED OUT MATCHES" if clause.timed_out else "NOT in PATTERN"
        raise QueryError(f"{what} needs a stream, on which time passes: create a query, replay the table")
    checked = _columns_known(clause, fields)
    refuse_set_functions([*(value for _, value in checked.define), *(each.this for each in checked.measures)], database)
    read_conditions = conditions(checked, fields, database.is_aggregate)
    final = clause.per_match is PerMatch.ONE_ROW
    measures = [read(m.this, checked, fields, None, final, database.is_aggregate) for m in checked.measures]
    rows_read = [c.row for c in read_conditions if c.row is not None]
    values_read = [*(c.rest for c in read_conditions if c.rest is not None), *measures]
    needed = _needed(checked, database.insertion_ordered, fields, rows_read, values_read)
    return PreparedClause(checked, fields, read_conditions, measures, needed)


def _columns_known(clause: RowPattern, fields: Sequence[str]) -> RowPattern:
    """The clause, with the columns of PARTITION BY and ORDER BY spelled as in the input."""

    def spelled(node: exp.Expr) -> Any:
        return column(field_of(node, fields)) if isinstance(node, exp.Column) else node

    return dataclasses.replace(
        clause,
        partition_by=tuple(key.transform(spelled) for key in clause.partition_by),
        order_by=tuple(item.transform(spelled) for item in clause.order_by),
    )


def _needed(
    clause: RowPattern,
    separate_keys: bool,
    fields: Sequence[str],
    rows: Sequence[exp.Expr],
    values: Sequence[MatchExpression],
) -> list[str]:
    """The columns of the input that the clause reads."""
    if clause.per_match is not PerMatch.ONE_ROW:
        return list(fields)
    keys = () if separate_keys else clause.partition_by
    expressions: list[exp.Expr] = [*rows, *keys, *(clause.order_by if clause.within is not None else ())]
    atoms = [atom for valued in values for atom in valued.atoms]
    expressions += [atom.row for atom in atoms if isinstance(atom, Value)]
    expressions += [atom.call for atom in atoms if isinstance(atom, MatchAggregate)]
    read_names = {found.name for expression in expressions for found in expression.find_all(exp.Column)}
    return [name for name in fields if name in read_names] or list(fields[:1])
