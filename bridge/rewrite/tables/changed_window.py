"""Windows changed by events (EPL's named windows): versions of rows, each with the event that ended it."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlglot import exp

from bridge.query.epl_state import Change, ChangedWindow
from bridge.rewrite.flow import INSERTED, OUT, Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator, Purge
from bridge.rewrite.state_tables import add_table
from bridge.rewrite.tables.change import add_cause, arrived, equations, matched_rows, unmatched
from windows.databases import Database
from windows.sql import aliased, bigint_zero, column, derived_table, number, table
from windows.times import NEVER

IDENTITY = ("ts", "seq", "_place")
"""The columns that identify the versions of rows, and order them."""


@rewrite.register
def _(node: ChangedWindow, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        rows = network.rewrite(node.input.inputs_of[0], Need.ARRIVALS)
        triggers = [network.rewrite(trigger, Need.ARRIVALS) for trigger, _ in node.changes]
        operator.arrivals = _built(node, rows, triggers, network, operator)

    operator = network.operator(node, build, "Window that events change")
    assert operator.arrivals is not None
    return operator.arrivals


def _built(node: ChangedWindow, rows: Flow, triggers: list[Flow], network: Network, operator: Operator) -> Flow:
    database = network.database
    window, inbox = network.name("window", node), network.name("inbox", node)
    shape = exp.select(*(aliased(bigint_zero(), name) for name in (*IDENTITY, "_expires")))
    bare = rows.arrivals.select(rows.names)
    shape = shape.select(*map(column, rows.names)).from_(derived_table(bare, "q"))
    add_table(operator, inbox, shape)
    add_table(operator, window, shape.select(*(aliased(bigint_zero(), name) for name in OUT)), (IDENTITY,))
    operator.inboxes.append(inbox)
    names = (*IDENTITY, "_expires", *rows.names)
    every = Selection.of(table(window), (*names, *OUT))
    within = dataclasses.replace(every, conditions=(exp.EQ(this=column(OUT[1]), expression=number(NEVER)),))
    content = Selection.of(exp.Subquery(this=every.select()), (*names, *OUT))
    steps = [
        _changer(node, change, trigger, rows, within, network, operator)
        for (_, change), trigger in zip(node.changes, triggers, strict=True)
    ]
    leave = exp.Update(this=table(window), expressions=equations(OUT, 0)).where(*equations(IDENTITY, len(OUT)))
    operator.steps.append(
        Versions(
            table=window,
            window=database.quoted(window),
            inbox=database.quoted(inbox),
            arrived=database.render(arrived(rows)),
            changers=tuple(steps),
            leave=database.parameterize(leave, len(OUT) + len(IDENTITY)),
        )
    )
    operator.purges.append(Purge(window, exp.LT(this=column(OUT[1]), expression=number(NEVER))))
    timed = rows.timed or any(trigger.timed for trigger in triggers)
    arrivals = Selection.of(table(inbox), names)
    return Flow(rows.names, arrivals, content, order=("_place",), counted=True, timed=timed, late=True)


def _changer(
    node: ChangedWindow,
    change: Change,
    trigger: Flow,
    rows: Flow,
    within: Selection,
    network: Network,
    operator: Operator,
) -> Changer:
    cause = network.name("cause", node)
    events = arrived(trigger)
    add_cause(operator, cause, events)
    database = network.database
    return Changer(
        change=change,
        arrived=database.render(events),
        cause=database.quoted(cause),
        clear=database.render(exp.delete(table(cause))),
        matched_rows=database.render(matched_rows(change, rows.names, within, cause, IDENTITY)),
        unmatched=database.render(unmatched(change, rows.names, cause)) if change.unmatched else None,
    )


# The step that stores versions of a window's rows: for one event after the other, each sees earlier changes

Row = tuple[Any, ...]
Marked = tuple[str, list[int]]

_PLACES = 3
"""The columns of a version's identity: ts, seq and place."""


@dataclasses.dataclass(frozen=True)
class Changer:
    """One kind of change: its events, the table of the current event, the matched rows, and the inserted row."""

    change: Change
    arrived: str
    cause: str
    clear: str
    matched_rows: str
    unmatched: str | None


@dataclasses.dataclass
class Versions:
    """Changes the rows of a window for each event of this push, in order, and inserts new ones.

    The changes of an event come before its insertions. The changed rows also go into the inbox.
    """

    table: str
    window: str
    inbox: str
    arrived: str
    changers: Sequence[Changer]
    leave: Marked

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Changes and extends the window by the events of this push."""
        new: list[Row] = []
        entered: list[Row] = []
        moment, place = None, 0
        for ts, event_seq, source, _, row in self._events(database):
            moment, place = (ts, event_seq), 0 if (ts, event_seq) != moment else place
            if source == len(self.changers):
                place += 1
                new.append((ts, event_seq, INSERTED + place, NEVER, *row))
                continue
            self._enter(database, new, entered)
            for changed in self._changed(self.changers[source], (ts, event_seq, row), database):
                place += 1
                new.append((ts, event_seq, place, NEVER, *changed))
        self._enter(database, new, entered)
        if entered:
            database.insert(self.inbox, len(entered[0]), entered)

    def _events(self, database: Database) -> Iterator[tuple[int, int, int, int, Row]]:
        """All events of this push: ts, number, the change (the last number stands for an insertion), place, columns."""
        texts = [*(changer.arrived for changer in self.changers), self.arrived]
        listed = [
            [(row[0], row[1], source, row[2], row[_PLACES:]) for row in database.fetch(text)]
            for source, text in enumerate(texts)
        ]
        return heapq.merge(*listed, key=lambda event: event[:4])

    def _enter(self, database: Database, new: list[Row], entered: list[Row]) -> None:
        if new:
            database.insert(self.window, len(new[0]) + 3, [(*row, NEVER, NEVER, NEVER) for row in new])
            entered += new
            new.clear()

    def _changed(self, changer: Changer, event: tuple[int, int, Row], database: Database) -> list[Row]:
        """Executes the changes of one event; returns the rows that enter."""
        ts, number, row = event
        database.execute(changer.clear)
        database.insert(changer.cause, len(row) + _PLACES, [(ts, number, 0, *row)])
        matched_rows = database.fetch(changer.matched_rows)
        if not matched_rows:
            given = database.fetch(changer.unmatched) if changer.unmatched is not None else []
            return [tuple(values) for which, *values in given if which]
        entering = []
        text, order = self.leave
        for which, *values in matched_rows:
            if which:
                out = [ts, number, 0, *values[:_PLACES]]
                database.execute_bound(text, [out[place] for place in order])
                if changer.change.matched[which - 1].kind == "update":
                    entering.append(tuple(values[_PLACES:]))
        return entering

    def forget(self) -> None:
        """Does nothing: the step remembers nothing."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The events, and the statements for each."""
        parts = [f"{pretty(self.arrived)};", f"-- these rows enter {self.window}, after what the events change:"]
        for changer in self.changers:
            parts += [f"{pretty(changer.arrived)};", f"-- for each of these rows, alone in {changer.cause}:"]
            parts += [f"{pretty(text)};" for text in (changer.matched_rows, changer.unmatched) if text is not None]
        return "\n".join(parts)
