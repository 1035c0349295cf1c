"""Housekeeping keeps tables small and statements fast; it never changes a result."""

from __future__ import annotations

from bridge.engine.results import ResultStatements
from bridge.engine.tables import Tables
from bridge.rewrite import Network
from bridge.rewrite.plan import Operator, PaneInsert, RowCountProbe
from windows.databases import Database


class Housekeeping:
    """Purges expired rows, builds panes for long windows, and runs the database's own clean-up.

    `since_purge`: the number of events since the last purge. `removed`: whether this transaction removes rows.
    """

    def __init__(self, database: Database, network: Network, tables: Tables, results: ResultStatements) -> None:
        self._database, self._network, self._tables, self._results = database, network, tables, results
        self.since_purge = 0
        self.removed = False
        self._untidy = 0
        """The number of transactions that have removed rows since the last clean-up, after `_tidied` events."""
        self._tidied = 0
        self._pane_inserts: list[PaneInsert] | None = None

    def forget(self) -> None:
        """Resets the counts, as operators were added or removed."""
        self._pane_inserts = None

    def is_due(self, count: int) -> bool:
        """Whether a purge is due after `count` more events."""
        return self.since_purge + count >= self._database.purge_every

    def pane_inserts(self, seq: int, count: int) -> list[PaneInsert]:
        """The panes to be built when `count` more events come after the first `seq`."""
        if self._pane_inserts is None:
            kept = (operator for operator in self._network.operators if operator.is_long)
            self._pane_inserts = [step for operator in kept for step in operator.pane_inserts]
        return [step for step in self._pane_inserts if step.is_due(seq, seq + count)]

    def is_due_with(self, seq: int, count: int) -> bool:
        """Whether a purge or panes are due when `count` more events come after the first `seq`."""
        return self.is_due(count) or bool(self.pane_inserts(seq, count))

    def purge(self) -> None:
        """Removes the rows that have expired, then counts the remaining rows."""
        for operator in self._network.operators:
            missing = self._tables.missing(operator)
            for step in operator.purges:
                if step.table not in missing:
                    self._database.execute(self._tables.text(step))
                    self.removed = True
        self.measure()

    def measure(self) -> None:
        """Chooses other statements for tables that have become long, or are no longer long."""
        found: dict[RowCountProbe, bool] = {}
        for operator in self._network.operators:
            if (length := operator.row_count) is None:
                continue
            if length not in found:
                found[length] = bool(self._database.fetch(self._tables.text(length)))
            if found[length] != operator.is_long:
                for made in self._tables.missing(operator).values():
                    self._tables.create_planned(made)
                self._set_long(operator, is_long=found[length])

    def _set_long(self, operator: Operator, is_long: bool) -> None:
        operator.is_long, self._pane_inserts = is_long, None
        self._results.outdate()

    def undo(self) -> None:
        """After a failed transaction: marks operators as not long if it was to create their panes."""
        for operator in self._network.operators:
            if operator.is_long and self._tables.missing(operator):
                self._set_long(operator, is_long=False)

    def tidy(self, seq: int) -> None:
        """Runs the database's clean-up after many events; until then removed rows slow statements down a little."""
        self._untidy, self.removed = self._untidy + self.removed, False
        settings = self._network.settings
        if self._untidy >= settings.tidy_pushes and seq - self._tidied >= settings.tidy_events:
            self._untidy, self._tidied = 0, seq
            self._database.reclaim_space()
