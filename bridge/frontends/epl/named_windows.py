"""Named windows: the rows inserted into them and deleted from them, until a statement reads them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlglot import exp

from bridge.errors import NameTaken, QueryError, nearest
from bridge.frontends.epl.event_types import no_rows
from bridge.frontends.epl.tables import stored_aggregates
from bridge.query.epl_columns import ALL_TIME, OF_EVENT, Enumeration, PreviousRow, SubqueryColumn
from bridge.query.epl_output import OrderLimitDistinct, OutputEvery, Snapshot, Throttle
from bridge.query.epl_patterns import EagerMatch
from bridge.query.epl_state import Action, Change, ChangedWindow, ChangeTable, StateTable, WindowWithDeletions
from bridge.query.nodes import Aggregate, Filter, Map, Node, Output, Relation, Stream, Window, without_filters
from windows.extents import Unbounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windows.schema import Schema


def has_all_time(node: Aggregate) -> bool:
    """Whether an aggregate has calls over all events that ever came."""
    return any(part.meta_get(ALL_TIME) is not None for column in node.columns for part in column.walk())


def reports_expired_groups(window: Window, filtered: bool, keys: Sequence[exp.Expr]) -> bool:
    """Whether EPL also reports groups of an aggregate when rows leave, not only the group of each event that enters."""
    if not window.extent.leaves:
        return False
    if filtered or not window.extent.evicts:
        return True
    return bool(keys) and not set(keys) <= set(window.partition_by)


def is_per_event(node: Aggregate) -> bool:
    """Whether an aggregate reports values of the single event."""
    return any(part.meta_get(OF_EVENT) is not None for column in node.columns for part in column.walk())


@dataclasses.dataclass(frozen=True)
class NamedWindow:
    """A named window. `like`: the stream whose columns it has; otherwise it has `columns`.

    `is_read`: whether a statement reads its content. `is_reported`: whether one reads the inserted rows.
    """

    name: str
    window: Window
    like: str
    columns: Schema | None = None
    input: Node | None = None
    changes: tuple[tuple[Node, Change], ...] = ()
    is_read: bool = False
    is_reported: bool = False

    @property
    def rows(self) -> Node:
        """The inserted rows."""
        inserting = next((trigger for trigger, change in self.changes if change.inserts), None)
        if self.input is None and inserting is not None:  # only the events of on … merge insert rows
            return Filter(Stream(self.like), exp.false()) if self.columns is None else no_rows(inserting, self.columns)
        if self.input is None:
            raise QueryError(f"nothing is inserted into the window {self.name!r} yet: insert into {self.name} select …")
        return self.input

    @property
    def content(self) -> Node:
        """The rows in the window."""
        window = dataclasses.replace(self.window, input=self.rows)
        return ChangedWindow(window, self.changes) if self.changes else window

    @property
    def only_deletes(self) -> bool:
        """Whether events only delete rows, and do not change any."""
        return all(change.is_deletion for _, change in self.changes)


class NamedWindows:
    """The named windows and the tables of a bridge, found ignoring case."""

    def __init__(self) -> None:
        self.known: dict[str, NamedWindow] = {}
        self.tables: dict[str, StateTable] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.known

    def create(self, name: str, window: Window, like: str, columns: Schema | None = None) -> None:
        """Creates a window, empty and without a source."""
        self._check_free(name)
        self.known[name.lower()] = NamedWindow(name, window, like, columns)

    def create_table(self, table: StateTable) -> None:
        """Adds a table."""
        self._check_free(table.name)
        self.tables[table.name.lower()] = table

    def is_table(self, name: str) -> bool:
        """Whether a name is that of a table."""
        return name.lower() in self.tables

    def into_table(self, name: str, node: Aggregate) -> Node:
        """The statement that keeps the results of an aggregate in a table, which can have only one such statement."""
        table = self.tables.get(name.lower())
        if table is None:
            known = [one.name for one in self.tables.values()]
            raise QueryError(f"unknown table {name!r}{nearest(name, known)}", words=[name])
        if table.is_filled:
            raise QueryError(f"a second statement gives the aggregates of the table {name!r}: one can", words=[name])
        found = stored_aggregates(table, node)
        self.tables[name.lower()] = dataclasses.replace(table, is_filled=True)
        return self.expand(found)

    def _check_plain(self, name: str) -> None:
        if self.tables[name.lower()].aggregates:
            raise QueryError(f"the table {name!r} has aggregates: into table alone changes it", words=[name])

    def insert_into_table(self, name: str, node: Node) -> Node:
        """The statement that inserts the rows of a node into a table."""
        self._check_plain(name)
        insertion = Change("event", "row", unmatched=(Action("insert", star=True),), always=True)
        return ChangeTable(self.expand(node), self.tables[name.lower()], insertion)

    def change(self, name: str, trigger: Node, change: Change) -> Node | None:
        """Adds a change of a window by events. For a table the change is a query of its own, which is returned."""
        if self.is_table(name):
            self._check_plain(name)
            return ChangeTable(self.expand(trigger), self.tables[name.lower()], change)
        window = self._unread(name)
        if not isinstance(window.window.extent, Unbounded):
            raise QueryError(
                f"the window {name!r} is {window.window.extent}: on … {change.verb} is for #keepall", words=[name]
            )
        if window.is_reported and not change.is_deletion:
            raise _read_already(name)
        self.known[name.lower()] = dataclasses.replace(window, changes=(*window.changes, (trigger, change)))
        return None

    def insert(self, name: str, node: Node) -> None:
        """Adds the inserted rows; only one statement may insert."""
        window = self._unread(name)
        if window.input is not None:
            raise QueryError(f"a second statement inserts into the window {name!r}: one can")
        self.known[name.lower()] = dataclasses.replace(window, input=node)

    def expand(self, node: Node) -> Node:
        """The tree, with the content of windows in place of their names.

        Where it reads single events, the inserted rows.
        """
        if isinstance(node, Stream) and node.name in self:
            return self._reported_rows(node.name)
        if isinstance(node, Stream) and self.is_table(node.name):
            return Relation(self.tables[node.name.lower()].name)
        if isinstance(node, (Map, Filter, OrderLimitDistinct, Throttle, PreviousRow, Output, Enumeration, OutputEvery)):
            return node.with_inputs(self.expand)
        if isinstance(node, Window) and not isinstance(node.input, Aggregate):
            return node.with_inputs(self.expand)  # batches of the inserted rows
        if isinstance(node, SubqueryColumn):
            early = node.early and not (isinstance(node.input, Stream) and node.input.name in self)
            return dataclasses.replace(
                node, input=self.expand(node.input), source=self._expand(node.source), early=early
            )
        return self._expand(node)

    def _expand(self, node: Node) -> Node:
        if isinstance(node, Stream) and self.is_table(node.name):
            return Relation(self.tables[node.name.lower()].name)
        if isinstance(node, Stream):
            return self._read(node.name).content if node.name in self else node
        if isinstance(node, Aggregate) and isinstance(node.input, Window):
            return self._aggregated(node, node.input)
        if isinstance(node, Snapshot):
            return self._sampled(node)
        if isinstance(node, EagerMatch):
            self._check_keys(node)
            return dataclasses.replace(node, input=self._matched(self._expand(node.input)))
        return node.with_inputs(self._expand)

    def inserted(self, statement: object) -> Node | None:
        """The rows inserted into a window, if the statement is one that the reader of EPL adds to report them."""
        node, text = getattr(statement, "node", None), getattr(statement, "text", None)
        is_reported = isinstance(node, Stream) and node.name == text and node.name in self
        return self.known[node.name.lower()].rows if isinstance(node, Stream) and is_reported else None

    def _reported_rows(self, name: str) -> Node:
        """The rows of a window that are reported one by one: inserted rows, and changed rows after the change."""
        window = self.known[name.lower()]
        if not window.only_deletes:
            return self._read(name).content
        self.known[name.lower()] = dataclasses.replace(window, is_reported=True)
        return window.rows

    @staticmethod
    def _matched(node: Node) -> Node:
        """The input of match_recognize; events may delete rows of its window, but not change them."""
        if not isinstance(node, ChangedWindow):
            return node
        if not all(change.is_deletion for _, change in node.changes):
            raise QueryError("match_recognize over a window with on … update or on … merge is not supported")
        return WindowWithDeletions(node.input, node.deletions)

    def _check_keys(self, node: EagerMatch) -> None:
        source = node.input.input if isinstance(node.input, Map) else node.input
        if source is not node.input and isinstance(source, Stream) and source.name in self:
            raise QueryError(
                f"partition by wants columns over the window {source.name!r}: compute the key where rows are inserted, insert "
                f"into {source.name} select *, … as key",
                words=[source.name],
            )

    def _aggregated(self, node: Aggregate, every: Window) -> Node:
        """The aggregate; over all events of a named window, it is one over the content of the window."""
        below = without_filters(every.input)
        self._check_unfiltered(below)
        if not (isinstance(below, Stream) and below.name in self):
            return node.with_inputs(self._expand)
        content = self._expand(every.input)
        if is_per_event(node) and self.known[below.name.lower()].window.extent.is_sorted:
            raise QueryError(
                f"values of single events beside aggregates over the window {below.name!r} are not supported: it is sorted",
                words=[below.name],
            )
        known = self.known[below.name.lower()]
        if has_all_time(node) and (known.changes or not isinstance(known.window.extent, Unbounded)):
            raise QueryError(f"firstever, lastever and countever are not supported over the window {below.name!r}")
        if is_per_event(node) and not known.only_deletes:
            raise QueryError(
                f"values of single events beside aggregates over the window {below.name!r} are not supported: events "
                "change it",
                words=[below.name],
            )
        if is_per_event(node) or not isinstance(every.extent, Unbounded):
            return dataclasses.replace(node, input=content)
        more = bool(known.changes) or reports_expired_groups(known.window, below is not every.input, node.group_by)
        return dataclasses.replace(node, input=content, every_change=more)

    def _sampled(self, node: Snapshot) -> Node:
        """The snapshot; of all events of a named window, it is one of the content of the window."""
        every = node.input
        below = (
            without_filters(every.input) if isinstance(every, Window) and isinstance(every.extent, Unbounded) else None
        )
        if isinstance(every, Window) and isinstance(below, Stream) and below.name in self:
            return dataclasses.replace(node, input=self._expand(every.input))
        return node.with_inputs(self._expand)

    def _check_unfiltered(self, node: Node) -> None:
        """Refuses a filter by values that change on the content of a named window."""
        below = node
        while isinstance(below, SubqueryColumn) and below.early:
            below = without_filters(below.input)
        if below is not node and isinstance(below, Stream) and below.name in self:
            raise QueryError(
                f"aggregates over the window {below.name!r}, filtered by a variable that changes, are not supported",
                words=[below.name],
            )

    def _check_free(self, name: str) -> None:
        if name in self or self.is_table(name):
            raise NameTaken(f"there is a {'window' if name in self else 'table'} {name!r} already")

    def _read(self, name: str) -> NamedWindow:
        window = dataclasses.replace(self.known[name.lower()], is_read=True)
        self.known[name.lower()] = window
        return window

    def _unread(self, name: str) -> NamedWindow:
        if name not in self:
            raise QueryError(
                f"unknown window {name!r}{nearest(name, [w.name for w in self.known.values()])}", words=[name]
            )
        window = self.known[name.lower()]
        if window.is_read:
            raise _read_already(name)
        return window


def _read_already(name: str) -> QueryError:
    return QueryError(f"a statement reads the window {name!r} already: this one must come before it", words=[name])
