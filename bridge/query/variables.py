"""EPL's variables: values under names, and what sets them (`on … set`)."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.query.changes import StateTable
from bridge.query.epl_nodes import Lookup
from bridge.query.nodes import Node, Relation
from windows.schema import Attribute, Schema
from windows.sql import column

EARLY = "filter."
"""What columns begin with that have values as they were before the event; of others it is `CURRENT`."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable, and the value that it has when it is created.

    `is_set`: whether events may change its value, which is then in a table; `is_read`: whether a statement has it as a
    constant.
    """

    name: str
    type: str
    value: exp.Expr
    is_constant: bool = False
    is_set: bool = False
    is_read: bool = False

    @property
    def state(self) -> StateTable:
        """The table of its one value.

        >>> print(Variable("most", "INTEGER", exp.Literal.number(3)).state.schema)
        most INTEGER
        """
        return StateTable(self.name, Schema((Attribute(self.name, self.type),)), row=(self.value,))

    @property
    def column(self) -> exp.Column:
        """The column that stands for its value, where this may change."""
        return column(CURRENT + self.name)


@dataclasses.dataclass(frozen=True)
class SetVariables(Node):
    """Variables set by each row of `input`, one after the other; it gives the values that they have then.

    Values are over the row, and over the values of variables, `variable.name`; each sees those set before it.

    >>> from bridge.query.nodes import Stream

    >>> from bridge.query.expressions import scalar
    >>> most = Variable("most", "INTEGER", exp.Literal.number(3))
    >>> print(SetVariables(Stream("S"), (most.state,), (("most", scalar("v + 1")),)))
    SELECT * FROM S SETTING most = v + 1
    """

    input: Node
    tables: tuple[StateTable, ...]
    settings: tuple[tuple[str, exp.Expr], ...]

    def __str__(self) -> str:
        return f"{self.input} SETTING {', '.join(f'{name} = {value.sql()}' for name, value in self.settings)}"

    @property
    def set(self) -> tuple[StateTable, ...]:
        """The tables of the variables that are set, each once."""
        names = dict.fromkeys(name for name, _ in self.settings)
        return tuple(next(table for table in self.tables if table.name == name) for name in names)


def names_of(expression: exp.Expr) -> tuple[str, ...]:
    """The variables whose values an expression asks for.

    >>> names_of(exp.GT(this=exp.column("v"), expression=exp.column("variable.most")))
    ('most',)
    """
    columns = (found.name for found in expression.find_all(exp.Column) if not found.table)
    return tuple(dict.fromkeys(name.removeprefix(CURRENT) for name in columns if name.startswith(CURRENT)))


def looked_up(node: Node, name: str, early: bool = False) -> Lookup:
    """The rows with the value of a variable.

    >>> from bridge.query.nodes import Stream
    >>> print(looked_up(Stream("S"), "most"))
    SELECT * FROM S LOOKING UP "variable.most" ("variable.most".most OF most)
    """
    called = (EARLY if early else CURRENT) + name
    value = exp.column(name, table=exp.to_identifier(called, quoted=True))
    return Lookup(node, called, Relation(name), None, value, early=early)


def asked_early(condition: exp.Expr) -> exp.Expr:
    """The condition over the values before the event."""

    def early(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.startswith(CURRENT):
            return column(EARLY + node.name.removeprefix(CURRENT))
        return node

    return condition.transform(early)


CURRENT = "variable."
"""What the columns of variables that events set begin with (EPL)."""
