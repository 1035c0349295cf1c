"""A clause answered over bounded data: sort, match by the strategy that fits, measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from bridge.errors import QueryError
from bridge.recognize.clause import PerMatch, RowPattern
from bridge.recognize.conditions import Condition, conditions
from bridge.recognize.members import Members
from bridge.recognize.output import Output, shown
from bridge.recognize.planner import run, settled
from bridge.recognize.rows import SortedRows, Source
from bridge.recognize.strategies import statement
from bridge.recognize.task import Task
from bridge.recognize.values import Fold, Value, Valued, field_of, read
from bridge.scope import column
from nfa.arrays.matches import Found
from nfa.errors import BudgetError, SkipError
from nfa.program import compile_program
from windows.databases import Database

if TYPE_CHECKING:
    import pyarrow as pa


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A clause whose names are found: its graded conditions, its measures, and the columns of the input it reads."""

    clause: RowPattern
    fields: Sequence[str]
    conditions: tuple[Condition, ...]
    measures: list[Valued]
    needed: list[str]

    def task(self, rows: SortedRows) -> Task:
        """The question to a strategy."""
        return Task(rows, self.clause, self.conditions, compile_program(self.clause.pattern))


def answer(
    database: Database, source: Source, clause: RowPattern, fields: Sequence[str], strategy: str | None = None
) -> pa.Table:
    """The rows that MATCH_RECOGNIZE gives over a SELECT whose columns are `fields`, in order of the partitions.

    `strategy` forces one of `planner.STRATEGIES`; raises QueryError for a name that is no column, SkipError where AFTER
    MATCH SKIP leads nowhere (rule S3), and BudgetError for an answer beyond a limit.
    """
    asked = prepared(database, clause, fields)
    with SortedRows(database, source, asked.clause, asked.needed) as rows:
        task = asked.task(rows)
        strategy = strategy or settled(task).strategy
        if strategy == "offsets" and (told := statement.answer(task, asked.measures)) is not None:
            return told
        found = matches(task, strategy)
        members = Members(found, task.program, rows.ends)
        which = shown(members, clause.per_match, len(rows))
        return Output(database, rows, members, which).table(asked.clause, fields, asked.measures)


def matches(task: Task, strategy: str | None = None) -> Found:
    """The matches, by the strategy that fits."""
    try:
        return run(task, strategy or settled(task).strategy)
    except (SkipError, BudgetError) as error:
        raise QueryError(str(error)) from error


def prepared(database: Database, clause: RowPattern, fields: Sequence[str]) -> Prepared:
    """The clause over an input with these columns; raises QueryError for a name that is no column."""
    if clause.timed_out or clause.absent is not None:
        what = "WITH TIMED OUT MATCHES" if clause.timed_out else "NOT in PATTERN"
        raise QueryError(f"{what} needs a stream, on which time passes: create a query, replay the table")
    checked = _columns_known(clause, fields)
    asked = conditions(checked, fields, database.is_aggregate)
    final = clause.per_match is PerMatch.ONE_ROW
    measures = [read(m.this, checked, fields, None, final, database.is_aggregate) for m in checked.measures]
    rows_read = [c.row for c in asked if c.row is not None]
    values_read = [*(c.rest for c in asked if c.rest is not None), *measures]
    needed = _needed(checked, database.ordered, fields, rows_read, values_read)
    return Prepared(checked, fields, asked, measures, needed)


def _columns_known(clause: RowPattern, fields: Sequence[str]) -> RowPattern:
    """The clause with the input's own spelling of the columns to partition and order by."""

    def spelled(node: exp.Expr) -> Any:
        return column(field_of(node, fields)) if isinstance(node, exp.Column) else node

    return dataclasses.replace(
        clause,
        partition_by=tuple(key.transform(spelled) for key in clause.partition_by),
        order_by=tuple(item.transform(spelled) for item in clause.order_by),
    )


def _needed(
    clause: RowPattern,
    keys_apart: bool,
    fields: Sequence[str],
    rows: Sequence[exp.Expr],
    values: Sequence[Valued],
) -> list[str]:
    """The columns of the input that anything reads."""
    if clause.per_match is not PerMatch.ONE_ROW:
        return list(fields)
    keys = () if keys_apart else clause.partition_by
    expressions: list[exp.Expr] = [*rows, *keys, *(clause.order_by if clause.within is not None else ())]
    atoms = [atom for valued in values for atom in valued.atoms]
    expressions += [atom.row for atom in atoms if isinstance(atom, Value)]
    expressions += [atom.call for atom in atoms if isinstance(atom, Fold)]
    read_names = {found.name for expression in expressions for found in expression.find_all(exp.Column)}
    return [name for name in fields if name in read_names] or list(fields[:1])
