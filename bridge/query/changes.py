"""Query objects for state that events change, and for what leaves it (EPL): tables, named windows, rstream."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.query.epl_nodes import Deletion
from bridge.query.nodes import Node
from windows.schema import Schema


@dataclasses.dataclass(frozen=True)
class StateTable:
    """EPL's `create table`: a table of the bridge's database that statements change, one row for each `key`.

    Without a key it has one row at most. Columns that hold `aggregates`, each with its function's name in SQL, are given
    by one statement (`bridge.frontends.epl.tables`); `is_filled` when there is one. It begins with `row`, if there is one.
    """

    name: str
    schema: Schema
    key: tuple[str, ...] = ()
    aggregates: tuple[tuple[str, str], ...] = ()
    is_filled: bool = False
    row: tuple[exp.Expr, ...] = ()


@dataclasses.dataclass(frozen=True)
class Action:
    """What is done where `condition` holds: `"update"`, `"delete"` or `"insert"`, with values for columns by name.

    `"put"` inserts a row, in the place of the one of its key.

    Of several values each sees those before it; `initial.column` is as it was before all. A star instead of them stands
    for all columns of the event.
    """

    kind: str
    condition: exp.Expr | None = None
    values: tuple[tuple[str, exp.Expr], ...] = ()
    star: bool = False


@dataclasses.dataclass(frozen=True)
class Change:
    """What an event does to the rows for which `condition` holds, or where there is none.

    For each such row the first of `matched` is done that applies; where there is no such row, the first of `unmatched`.
    Conditions and values name the columns of both, `alias.column` the event's and `row.column` the row's. With `always`
    no row is sought, and `unmatched` is done.
    """

    alias: str
    row: str
    condition: exp.Expr | None = None
    matched: tuple[Action, ...] = ()
    unmatched: tuple[Action, ...] = ()
    always: bool = False

    @property
    def is_deletion(self) -> bool:
        """Whether it deletes all rows that it finds, and does no more."""
        return self.matched == (Action("delete"),) and not self.unmatched

    @property
    def verb(self) -> str:
        """What it is in a word."""
        kinds = {action.kind for action in (*self.matched, *self.unmatched)}
        return kinds.pop() if len(kinds) == 1 else "merge"


@dataclasses.dataclass(frozen=True)
class ChangeTable(Node):
    """A table changed by each row of `input`, one after the other; it gives the rows as they are then.

    A row that is deleted comes out as it was, where nothing else is done.

    >>> from bridge.query.nodes import Stream
    >>> print(ChangeTable(Stream("S"), StateTable("T", Schema.of("k VARCHAR"), ("k",)), Change("s", "t")))
    SELECT * FROM S CHANGING TABLE T
    """

    input: Node
    table: StateTable
    change: Change

    def __str__(self) -> str:
        return f"{self.input} CHANGING TABLE {self.table.name}"


@dataclasses.dataclass(frozen=True)
class Changing(Node):
    """EPL's named window that events change: the rows of `input`, a window of all rows, as the `changes` leave them.

    A row that is changed leaves, and comes anew as it is then. What an event changes is there when it has been told to
    all that read the window, before what it inserts.

    >>> from bridge.query.nodes import Stream, Window
    >>> update = Change("b", "w", matched=(Action("update", None, (("v", exp.column("v", "b")),)),))
    >>> print(Changing(Window(Stream("S"), "UNBOUNDED"), ((Stream("B"), update),)))
    SELECT * FROM S WINDOW(UNBOUNDED) AS B CHANGE IT
    """

    input_fields = ("input", "changes")

    input: Node
    changes: tuple[tuple[Node, Change], ...]

    def __str__(self) -> str:
        triggers = ", ".join(str(trigger).removeprefix("SELECT * FROM ") for trigger, _ in self.changes)
        return f"{self.input} AS {triggers} CHANGE IT"

    @property
    def deletions(self) -> tuple[Deletion, ...]:
        """The changes, all of which delete."""
        return tuple(Deletion(trigger, one.alias, one.row, one.condition) for trigger, one in self.changes)


@dataclasses.dataclass(frozen=True)
class Leaving(Node):
    """EPL's rstream: the rows that leave a window, each as it leaves, in the order in which they came.

    >>> from bridge.query.nodes import Stream, Window
    >>> print(Leaving(Window(Stream("s"), "ROWS 5")))
    SELECT * FROM s WINDOW(ROWS 5) AS THEY LEAVE
    """

    input: Node

    def __str__(self) -> str:
        return f"{self.input} AS THEY LEAVE"


INITIAL = "initial"
"""Qualifies the columns of a row as they were before an update."""
