"""EPL's state: tables, named windows and variables, and the events that change them."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.query.epl_columns import SubqueryColumn
from bridge.query.nodes import Composite, Correlate, Node, Relation
from windows.schema import Attribute, Schema
from windows.sql import column, identifier

INITIAL = "initial"
"""The qualifier of a row's columns as they were before an update."""

CURRENT = "variable."
"""The prefix of columns for the values of variables that events may change."""

EARLY = "filter."
"""The prefix of columns for the values of variables before the event, which filters of streams read."""


@dataclasses.dataclass(frozen=True)
class StateTable:
    """EPL's `create table`: a table of the bridge's database that statements change, with one row per `key`.

    Without `key` it has at most one row. `aggregates`: the columns that contain an aggregate, each with the function's
    SQL name; one statement fills them (`into table`); `is_filled`: whether there is one. `row`: the first row.
    """

    name: str
    schema: Schema
    key: tuple[str, ...] = ()
    aggregates: tuple[tuple[str, str], ...] = ()
    is_filled: bool = False
    row: tuple[exp.Expr, ...] = ()


# Changes --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Action:
    """The action on a row for which `condition` holds: "update", "delete", "insert" or "upsert", with values by column.

    "upsert" inserts a row, or replaces the row with its key. Each value reads earlier assignments; `initial.column` is
    the column before all of them. If `star`, all columns of the event are the values.
    """

    kind: str
    condition: exp.Expr | None = None
    values: tuple[tuple[str, exp.Expr], ...] = ()
    star: bool = False


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of the rows for which `condition` holds at an event, like SQL's MERGE.

    Each such row gets the first action of `matched` that applies; if there is no such row, the first of `unmatched`
    applies. Conditions and values name the event's columns as `alias.column` and the row's as `row.column`. If
    `always`, no row is searched, and `unmatched` applies.
    """

    alias: str
    row: str
    condition: exp.Expr | None = None
    matched: tuple[Action, ...] = ()
    unmatched: tuple[Action, ...] = ()
    always: bool = False

    @property
    def is_deletion(self) -> bool:
        """Whether it only deletes the rows for which the condition holds."""
        return self.matched == (Action("delete"),) and not self.unmatched

    @property
    def inserts(self) -> bool:
        """Whether it may insert rows."""
        return any(action.kind in ("insert", "upsert") for action in (*self.matched, *self.unmatched))

    @property
    def verb(self) -> str:
        """The kind of its actions, or "merge" if there are several kinds."""
        kinds = {action.kind for action in (*self.matched, *self.unmatched)}
        return kinds.pop() if len(kinds) == 1 else "merge"


@dataclasses.dataclass(frozen=True)
class ChangeTable(Node):
    """A table changed by each row of `input`, one after the other. It emits the table's rows after each change.

    A deleted row is emitted as it was, unless another action applies.

    >>> from bridge.query import Stream
    >>> print(ChangeTable(Stream("S"), StateTable("T", Schema.of("k VARCHAR"), ("k",)), Change("s", "t")))
    SELECT * FROM S CHANGING TABLE T
    """

    input: Node
    table: StateTable
    change: Change


# Named windows that events change -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ChangedWindow(Node):
    """A named window that events change (EPL): the rows of `input`, a window of all rows, after the `changes`.

    A changed row leaves the window, and its new version enters. All queries that read the window first see the event,
    then its changes, then its insertions.

    >>> from bridge.query import Stream, Window
    >>> update = Change("b", "w", matched=(Action("update", None, (("v", exp.column("v", "b")),)),))
    >>> print(ChangedWindow(Window(Stream("S"), "UNBOUNDED"), ((Stream("B"), update),)))
    SELECT * FROM S WINDOW(UNBOUNDED) CHANGED BY B
    """

    input_fields = ("input", "changes")

    input: Node
    changes: tuple[tuple[Node, Change], ...]

    @property
    def deletions(self) -> tuple[Deletion, ...]:
        """The changes, if all of them only delete; else none."""
        return tuple(Deletion(trigger, one.alias, one.row, one.condition) for trigger, one in self.changes)


@dataclasses.dataclass(frozen=True)
class OnSelect(Correlate):
    """The rows that an event finds in a named window (EPL's `on … select`): a Correlate that the event drives.

    It sees the changes of the event in the window, but not its insertions. Other correlations, even if one input drives
    them, see the window as it was before the event.
    """


@dataclasses.dataclass(frozen=True)
class Deletion(Composite):
    """The deletion of the rows of a window for which `condition` holds, by an event of `trigger`.

    The condition names the event's columns as `alias.column`, and the row's as `row.column`.
    """

    input_fields = ("trigger",)

    trigger: Node
    alias: str
    row: str
    condition: exp.Expr | None = None


@dataclasses.dataclass(frozen=True)
class WindowWithDeletions(Node):
    """A named window with `on … delete` (EPL): the rows of `input`, a window, until an event deletes them."""

    input_fields = ("input", "deletions")

    keeps_name = True

    input: Node
    deletions: tuple[Deletion, ...]


# Variables ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable of EPL with its first value.

    `is_set`: whether events may change the value, so that a table has it. `is_read`: whether a statement has the value
    as a constant.
    """

    name: str
    type: str
    value: exp.Expr
    is_constant: bool = False
    is_set: bool = False
    is_read: bool = False

    @property
    def state(self) -> StateTable:
        """The table that has the value.

        >>> print(Variable("most", "INTEGER", exp.Literal.number(3)).state.schema)
        most INTEGER
        """
        return StateTable(self.name, Schema((Attribute(self.name, self.type),)), row=(self.value,))

    @property
    def column(self) -> exp.Column:
        """The column for the value, if events may change it."""
        return column(CURRENT + self.name)


@dataclasses.dataclass(frozen=True)
class SetVariables(Node):
    """Variables set by each row of `input`, one after the other. It emits the values after each row (`on … set`).

    `settings` are over the row and over the variables, `variable.name`; each reads the earlier settings.

    >>> from bridge.query import Stream, scalar
    >>> most = Variable("most", "INTEGER", exp.Literal.number(3))
    >>> print(SetVariables(Stream("S"), (most.state,), (("most", scalar("v + 1")),)))
    SELECT * FROM S SETTING most = v + 1
    """

    input: Node
    tables: tuple[StateTable, ...]
    settings: tuple[tuple[str, exp.Expr], ...]

    @property
    def set(self) -> tuple[StateTable, ...]:
        """The tables of the variables that are set, each once."""
        names = dict.fromkeys(name for name, _ in self.settings)
        return tuple(next(table for table in self.tables if table.name == name) for name in names)


def variables_in(expression: exp.Expr) -> tuple[str, ...]:
    """The names of the changeable variables that an expression reads, each once.

    >>> variables_in(exp.GT(this=exp.column("v"), expression=exp.column("variable.most")))
    ('most',)
    """
    columns = (found.name for found in expression.find_all(exp.Column) if not found.table)
    return tuple(dict.fromkeys(name.removeprefix(CURRENT) for name in columns if name.startswith(CURRENT)))


def with_variable(node: Node, name: str, early: bool = False) -> SubqueryColumn:
    """The rows with the value of a variable as one more column; if `early`, its value before the row's event.

    >>> from bridge.query import Stream
    >>> print(with_variable(Stream("S"), "most"))
    SELECT * FROM S WITH "variable.most" ("variable.most".most OF most)
    """
    called = (EARLY if early else CURRENT) + name
    value = exp.column(name, table=identifier(called))
    return SubqueryColumn(node, called, Relation(name), None, value, early=early)


def over_early_values(condition: exp.Expr) -> exp.Expr:
    """The condition over the values that variables had before the event."""

    def early(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.startswith(CURRENT):
            return column(EARLY + node.name.removeprefix(CURRENT))
        return node

    return condition.transform(early)
