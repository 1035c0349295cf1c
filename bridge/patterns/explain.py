"""What becomes of a SELECT with MATCH_RECOGNIZE: its clauses, how each is answered, and the SQL that is run.

Nothing is run for it but what tells the columns of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from bridge.patterns.bounded import Input, inputs, pointing
from bridge.patterns.conditions import GRADES, Condition, atom_text, text
from bridge.patterns.output import Prepared, answer, prepared
from bridge.patterns.planner import against, choose
from bridge.patterns.rows import SortedRows, Source
from bridge.patterns.task import Task
from bridge.patterns.values import Value
from bridge.query.expression_text import scalar_text
from bridge.query.row_pattern import RowPattern, parts, variable
from nfa.errors import BudgetError
from nfa.graph import diagram
from windows.databases import Database


def explanation(sql: str, database: Database, rendered: Callable[[str], str]) -> str:
    """The explanation, in this database's SQL; raises what the answer would raise before its rows are read."""

    def empty(given: Input) -> pa.Table:
        none = Source(f"SELECT * FROM ({given.source.text}) AS e WHERE 1 = 0")
        found = answer(database, none, given.clause, given.fields)
        return found if found.num_columns else pa.table({"none": pa.nulls(0)})

    with inputs(sql, database, rendered, empty) as (whole, clauses):
        select = rendered(whole)
        database.columns_of(select)
        lines = [f"-- SELECT on demand, on {database.dialect}"]
        for number, given in enumerate(clauses, 1):
            with pointing(sql):
                lines += _clause(number, given, database)
    stands = ", ".join(f"{given.part.name} is the answer of {number}" for number, given in enumerate(clauses, 1))
    return "\n".join([*lines, "", f"-- the answer; {stands}", pretty(select, database) + ";"])


def pretty(sql: str, database: Database) -> str:
    """A statement over several lines, or as it is where only the database can read it."""
    try:
        return sqlglot.parse_one(sql, dialect=database.dialect).sql(database.dialect, pretty=True)
    except SqlglotError:
        return sql


def _clause(number: int, given: Input, database: Database) -> Iterator[str]:
    asked = prepared(database, given.clause, given.fields)
    rows = SortedRows(database, given.source, asked.clause, asked.needed, f"_cep_rows_{number}")
    task = asked.task(rows)
    yield from _commented("", f"{number}. MATCH_RECOGNIZE over {' '.join(given.part.table.split())}")
    told = [*_told(given.clause, asked, task)]
    yield from _commented(*("" if line == "" else f"  {line}" for line in told))
    yield from ("", f"-- the rows of {number}, sorted; _p is the number of the partition" if rows.partitioned else
                f"-- the rows of {number}, sorted")  # fmt: skip
    yield from (pretty(statement, database) + ";" for statement in rows.statements())
    yield from _read(number, task, database)


def _told(clause: RowPattern, asked: Prepared, task: Task) -> Iterator[str]:
    yield f"input: {', '.join(asked.fields)}"
    yield from ("", "MATCH_RECOGNIZE (", *(f"  {part}" for part in parts(clause)), ")", "", "conditions")
    defined = dict(clause.define)
    for condition in task.conditions:
        yield from (f"  {line}" for line in _condition(condition, defined.get(condition.symbol)))
    choice = choose(task)
    yield from ("", f"strategy {choice.strategy}: {choice.reason}")
    yield from (f"  not {name}: {reason}" for name, reason in against(task))
    yield from ("", "program", *(f"  {line}" for line in str(task.program).splitlines()))
    yield from ("", "automaton, the preferred way first", *(f"  {line}" for line in _states(task)))


def _states(task: Task) -> list[str]:
    try:
        return str(diagram(task.program, "")).splitlines()
    except BudgetError as error:
        return [str(error)]


def _condition(condition: Condition, defined: exp.Expr | None) -> Iterator[str]:
    name = variable(condition.symbol)
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
    """What is read of the sorted rows."""
    letters = ", ".join(f"{1 << place} {variable(c.symbol)}" for place, c in enumerate(task.conditions))
    yield from ("", f"-- what each row of {number} can be by itself, a sum of {letters}")
    yield pretty(task.rows.select([task.letter]), database) + ";"
    atoms = [atom for c in task.conditions if c.rest is not None for atom in c.rest.atoms]
    values = list({atom.row: None for atom in atoms if isinstance(atom, Value)})
    if values:
        yield from ("", f"-- what the conditions of {number} compare, for each row")
        yield pretty(task.rows.select(values), database) + ";"


def _commented(*lines: str) -> Iterator[str]:
    return (f"-- {line}".rstrip() for line in lines)
