"""The explanation of a MATCH_RECOGNIZE clause: its conditions, its strategy, and the SQL that is run.

Only the statements that find the columns of the inputs are run for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from bridge.patterns.conditions import GRADES, Condition, atom_text, text
from bridge.patterns.output import prepare
from bridge.patterns.own_types import PreparedClause, typed
from bridge.patterns.planner import choose, reasons_against
from bridge.patterns.rows import Input, SortedRows
from bridge.patterns.task import Task
from bridge.patterns.values import Value
from bridge.query.expression_text import scalar_text
from bridge.query.row_pattern import RowPattern, clause_parts, variable_text
from nfa.errors import BudgetError
from nfa.graph import diagram
from windows.databases import Database


def pretty(sql: str, database: Database) -> str:
    """A statement over several lines; unchanged if only the database can parse it."""
    try:
        return sqlglot.parse_one(sql, dialect=database.dialect).sql(database.dialect, pretty=True)
    except SqlglotError:
        return sql


def clause_explanation(number: int, given: Input, database: Database) -> Iterator[str]:
    """The lines of the explanation of one clause; clauses are counted from 1."""
    prepared = typed(prepare(database, given.clause, given.fields), database, given.source)
    rows = SortedRows(
        database, given.source, prepared.clause, prepared.needed, prepared.leave_as, f"_cep_rows_{number}"
    )
    task = prepared.task(rows)
    yield from _commented("", f"{number}. MATCH_RECOGNIZE over {' '.join(given.table.input.split())}")
    lines = [*_clause_lines(given.clause, prepared, task)]
    yield from _commented(*("" if line == "" else f"  {line}" for line in lines))
    yield from ("", f"-- the rows of {number}, sorted; _p is the number of the partition" if rows.partitioned else
                f"-- the rows of {number}, sorted")  # fmt: skip
    yield from (pretty(statement, database) + ";" for statement in rows.statements())
    yield from _read(number, task, database)


def _clause_lines(clause: RowPattern, prepared: PreparedClause, task: Task) -> Iterator[str]:
    yield f"input: {', '.join(prepared.fields)}"
    yield from ("", "MATCH_RECOGNIZE (", *(f"  {part}" for part in clause_parts(clause)), ")", "", "conditions")
    defined = dict(clause.define)
    for condition in task.conditions:
        yield from (f"  {line}" for line in _condition(condition, defined.get(condition.symbol)))
    choice = choose(task)
    yield from ("", f"strategy {choice.strategy}: {choice.reason}")
    yield from (f"  not {name}: {reason}" for name, reason in reasons_against(task))
    yield from ("", "program", *(f"  {line}" for line in str(task.program).splitlines()))
    yield from ("", "automaton, the preferred way first", *(f"  {line}" for line in _states(task)))


def _states(task: Task) -> list[str]:
    try:
        return str(diagram(task.program, "")).splitlines()
    except BudgetError as error:
        return [str(error)]


def _condition(condition: Condition, defined: exp.Expr | None) -> Iterator[str]:
    name = variable_text(condition.symbol)
    if defined is None:
        yield f"{name}: every row can be it"
        return
    yield f"{name} AS {scalar_text(defined)}"
    yield f"  {GRADES[condition.grade]}"
    if condition.row is not None:
        yield f"  the database computes for each row: {text(condition.row)}"
    if condition.rest is not None:
        yield f"  the matcher computes {text(condition.rest.expression)}, where"
        yield from (f"    _v{place} is {atom_text(atom)}" for place, atom in enumerate(condition.rest.atoms))


def _read(number: int, task: Task, database: Database) -> Iterator[str]:
    """The lines on the expressions that are read from the sorted rows."""
    symbol_sets = ", ".join(f"{1 << place} {variable_text(c.symbol)}" for place, c in enumerate(task.conditions))
    yield from ("", f"-- what each row of {number} can be by itself, a sum of {symbol_sets}")
    yield pretty(task.rows.select([task.symbol_set]), database) + ";"
    atoms = [atom for c in task.conditions if c.rest is not None for atom in c.rest.atoms]
    values = list({atom.row: None for atom in atoms if isinstance(atom, Value)})
    if values:
        yield from ("", f"-- what the conditions of {number} compare, for each row")
        yield pretty(task.rows.select(values), database) + ";"


def _commented(*lines: str) -> Iterator[str]:
    return (f"-- {line}".rstrip() for line in lines)
