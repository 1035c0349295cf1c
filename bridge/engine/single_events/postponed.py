"""Events whose rows are stored later, together: until then they are read only from memory, or not at all.

This is done for databases whose state ends with the process. Each transaction begins by storing these events, so every
reader of tables finds them there. Only the push of another such event does not store them.

An event that nothing reads before the next boundary waits unprocessed: all steps run later, once for all such events.
None of the steps may fail then, as the pushes have already succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from bridge.engine.inboxes import Inboxes
from bridge.engine.intake import EventBatch
from bridge.engine.single_events.marked_values import Row
from bridge.engine.single_events.one_event import NOTHING, OneEventPlan
from bridge.engine.single_events.variables import EventVariables
from bridge.engine.tables import Tables
from bridge.patterns.live.statements import Rows
from bridge.rewrite import Network
from bridge.rewrite.flow import PLAIN
from bridge.rewrite.plan import RowCall
from windows.databases import Database
from windows.databases.base import PREFIX

_UNFAILING = (
    *PLAIN, exp.Alias, exp.Avg, exp.Case, exp.Cast, exp.Coalesce, exp.Count, exp.DPipe, exp.DataType, exp.Delete, exp.Distinct,
    exp.Exists, exp.From, exp.Greatest, exp.Group, exp.Having, exp.If, exp.In, exp.Insert, exp.Join, exp.Lag, exp.Lead,
    exp.Least, exp.Limit, exp.Max, exp.Min, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Offset, exp.Order, exp.Ordered,
    exp.RowNumber, exp.Select, exp.Star, exp.Subquery, exp.Sum, exp.Table, exp.TableAlias, exp.Tuple, exp.Union, exp.Where,
    exp.Window, exp.WindowSpec,
)  # fmt: skip
"""The parts of statements that cannot fail, whatever the values of columns; casts and sums are examined further."""

_TIMES = ("ts", "seq", "before", "now", "_nth")
"""Columns whose values are so far from the limits of BIGINT that adding the length of a window stays within them."""

_NUMBERS = (exp.RowNumber, exp.Count)
"""Window functions whose values are as far from these limits."""


def is_unfailing(statement: exp.Expr) -> bool:
    """Whether a statement over the bridge's own tables cannot fail, so that it may run after its push has succeeded.

    >>> import sqlglot
    >>> texts = ("ts + 5", "SUM(a)", "a + 5", "1 / a", "ts - LAG(ts) OVER (PARTITION BY k)")
    >>> [is_unfailing(sqlglot.parse_one(f"SELECT {text} FROM cep_window_s")) for text in texts]
    [True, True, False, False, True]
    """
    return all(map(_is_unfailing, statement.walk()))


def _is_unfailing(node: exp.Expr) -> bool:
    match node:
        case exp.Add() | exp.Sub() | exp.Neg():
            parts = list(node.walk(prune=_is_small))
            return all(part.name in _TIMES for part in parts if isinstance(part, exp.Column))
        case exp.Cast():
            return isinstance(node.this, exp.Literal) or bool(node.to.is_type(*exp.DataType.TEXT_TYPES))
        case exp.Table():
            return node.name.startswith(PREFIX)
    return isinstance(node, _UNFAILING)


def _is_small(node: exp.Expr | None) -> bool:
    """Whether a node is a window function whose values are far from the limits of BIGINT, whatever its keys are."""
    if not isinstance(node, exp.Window):
        return False
    is_of_time = isinstance(node.this, exp.Min | exp.Max | exp.Lag) and node.this.this.name in _TIMES
    return (is_of_time and not node.this.args.get("default")) or isinstance(node.this, _NUMBERS)


class PostponedPush(NamedTuple):
    """A push: its events, the newest time before them, the plan that was used, and what machines still have to write.

    `waits`: no step has run for them. `is_noted`: the rows in memory nevertheless contain them. `rows`: their rows with
    the values of variables, if a step reads these; `set`: the variables that they have set.
    """

    batch: EventBatch
    plan: OneEventPlan
    before: int
    progress: Sequence[tuple[RowCall, Rows]] = ()
    waits: bool = False
    is_noted: bool = False
    rows: Sequence[Row] = ()
    set: Mapping[str, Any] = NOTHING

    @property
    def seq(self) -> int:
        """The number of the first event."""
        seq: int = self.batch.rows[0][1]
        return seq


class PostponedEvents:
    """The events that are not in the tables yet, in order.

    `process`: runs all steps for the events that wait, by stream, and returns the inboxes of results that it has
    filled. Its other arguments are the newest time before these events, and the streams whose rows in memory lack them.
    """

    def __init__(
        self, database: Database, inboxes: Inboxes, tables: Tables, network: Network,
        process: Callable[[Sequence[EventBatch], int, set[str]], set[str]],
    ) -> None:  # fmt: skip
        self._database, self._inboxes, self._tables, self._network = database, inboxes, tables, network
        self._process = process
        self._events: list[PostponedPush] = []

    def __bool__(self) -> bool:
        return bool(self._events)

    def accept(self, waits: bool) -> bool:
        """Whether a push may be added: either all pushes here wait, or none does. `waits`: no step has run for it."""
        return not self._events or self._events[0].waits == waits

    def add(self, event: PostponedPush) -> None:
        """Adds an event that has taken effect."""
        self._events.append(event)

    def clear(self) -> None:
        """Forgets the events, as the transaction that stores them has taken effect."""
        self._events.clear()

    def undo(self, seq: int) -> None:
        """Removes the events after this number, which have not taken effect."""
        while self._events and self._events[-1].seq > seq:
            self._events.pop()

    def store(self) -> None:
        """Writes rows and progress, inside a transaction; the inboxes are empty then."""
        self._inboxes.empty()
        self._inboxes.filled = set()
        if self._events[0].waits:
            self._process_all()
            return
        rows: dict[OneEventPlan, list[Row]] = {}
        extended: dict[OneEventPlan, list[Row]] = {}
        progress: dict[int, tuple[RowCall, Rows]] = {}
        for event in self._events:
            rows.setdefault(event.plan, []).extend(event.batch.rows)
            if event.plan.variables is not None:
                extended.setdefault(event.plan, []).extend(event.rows)
            for machine, some in event.progress:
                progress.setdefault(id(machine), (machine, []))[1].extend(some)
        streams = {event.plan: event.batch.stream for event in self._events}
        for plan, own in rows.items():
            if not plan.stores:
                continue
            filled = self._inboxes.fill([EventBatch(streams[plan], rows=own)])
            if (variables := plan.variables) is not None:
                filled |= variables.fill(self._database, extended[plan])
            for insert in plan.stores:
                self._database.execute(self._tables.text(insert, self._network.settings.kind(len(own))))
            filled |= plan.inboxes.intersection(insert.table for insert in plan.stores)
            for inbox in filled:
                self._database.execute(self._tables.emptying(inbox))
        for machine, written in progress.values():
            machine.write_progress(self._database, written)
        self._store_variables()

    def _store_variables(self) -> None:
        """Writes the last values that events have set."""
        last: dict[str, tuple[EventVariables, Any]] = {}
        for event in self._events:
            if event.plan.variables is not None:
                last |= {name: (event.plan.variables, value) for name, value in event.set.items()}
        for name, (variables, value) in last.items():
            variables.store(self._database, name, value)

    def _process_all(self) -> None:
        rows, lacking = dict[str, EventBatch](), set[str]()
        for event in self._events:
            batch, name = event.batch, event.batch.stream.name.lower()
            if not event.is_noted:
                lacking.add(name)
            known = rows.get(name)
            rows[name] = batch if known is None else EventBatch(batch.stream, rows=[*known.rows, *batch.rows])
        for inbox in self._process(list(rows.values()), self._events[0].before, lacking):
            self._database.execute(self._tables.emptying(inbox))
