"""What keeps tables small and statements fit for them, between pushes and never changing a result."""

from __future__ import annotations

from bridge.engine.results import Reports
from bridge.engine.tables import Tables
from bridge.rewrite import Network
from bridge.rewrite.plan import Fold, Length, Operator
from windows.databases import Database


class Upkeep:
    """Removes what has expired, keeps together what is long, and lets the database tidy up.

    `since_purge`: events since what has expired was removed last; `removed`: whether this transaction removes rows.
    """

    def __init__(self, database: Database, network: Network, tables: Tables, reports: Reports) -> None:
        self._database, self._network, self._tables, self._reports = database, network, tables, reports
        self.since_purge = 0
        self.removed = False
        self._untidy = 0
        """So many transactions have removed rows since the database tidied up, when `_tidied` events were in."""
        self._tidied = 0
        self._all_folds: list[Fold] | None = None

    def forget(self) -> None:
        """Operators have come or gone."""
        self._all_folds = None

    def is_due(self, count: int) -> bool:
        """Whether what has expired is to be removed with so many more events."""
        return self.since_purge + count >= self._database.purge_every

    def folds(self, seq: int, count: int) -> list[Fold]:
        """Those that are due when so many more events come than the `seq` that there are."""
        if self._all_folds is None:
            kept = (operator for operator in self._network.operators if operator.is_long)
            self._all_folds = [step for operator in kept for step in operator.folds]
        return [step for step in self._all_folds if step.is_due(seq, seq + count)]

    def purge(self) -> None:
        """Removes what has expired by the clock; what is left is measured."""
        for operator in self._network.operators:
            missing = self._tables.missing(operator)
            for step in operator.purges:
                if step.table not in missing:
                    self._database.execute(self._tables.text(step))
                    self.removed = True
        self._measure()

    def _measure(self) -> None:
        """Other statements are for tables that have become long."""
        found: dict[Length, bool] = {}
        for operator in self._network.operators:
            if (length := operator.length) is None:
                continue
            if length not in found:
                found[length] = bool(self._database.fetch(self._tables.text(length)))
            if found[length] != operator.is_long:
                for made in self._tables.missing(operator).values():
                    self._tables.make(made)
                self._take_as(operator, is_long=found[length])

    def _take_as(self, operator: Operator, is_long: bool) -> None:
        operator.is_long, self._all_folds = is_long, None
        self._reports.outdate()

    def take_back(self) -> None:
        """The transaction has failed: an operator whose tables it was to make is not long."""
        for operator in self._network.operators:
            if operator.is_long and self._tables.missing(operator):
                self._take_as(operator, is_long=False)

    def tidy(self, seq: int) -> None:
        """After so many events, since a row that was removed costs each statement a little until then."""
        self._untidy, self.removed = self._untidy + self.removed, False
        settings = self._network.settings
        if self._untidy >= settings.tidy_pushes and seq - self._tidied >= settings.tidy_events:
            self._untidy, self._tidied = 0, seq
            self._database.reclaim_space()
