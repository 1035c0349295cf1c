"""Transactions of a bridge: all of a block takes effect or nothing, in the database and in the runner."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bridge.engine.execution.housekeeping import Housekeeping
from bridge.engine.execution.journal import Journal
from bridge.engine.execution.plans import Plans
from bridge.engine.execution.takeover import Replacement
from bridge.engine.intake import EventBatch
from bridge.engine.single_events.postponed import PostponedEvents
from bridge.rewrite.plan import Insert, Purge
from windows.databases import Database, Refused

NOTHING: Mapping[str, Any] = {}


class TrialOver(Exception):
    """Ends the transaction of a trial, so that it is rolled back."""


class Receipt(NamedTuple):
    """A note stored with a push, such as the position of its source.

    `write` stores it inside the transaction of the push; `remember` is called after that has taken effect.
    """

    write: Callable[[], None]
    remember: Callable[[], None] = lambda: None


class Transactions(Plans):
    """Plans whose state changes in transactions."""

    def __init__(self, database: Database, durable: bool = False) -> None:
        super().__init__(database, durable)
        self._housekeeping = Housekeeping(database, self.network, self._tables, self.results)
        self._postponed = PostponedEvents(database, self._inboxes, self._tables, self.network, self._process_waiting)
        self.has_committed = False
        """Whether the transaction of the newest push has taken effect; an interruption may come after that."""
        self._journal = Journal(self)
        self._in_transaction = False
        self._is_storing = False
        """Whether the transaction has written what is postponed into the tables."""
        self._restoring: list[Callable[[], None]] = []
        """What restores definitions that the current transaction has changed, if it does not take effect."""
        self._remembers = False
        """Whether that includes the catalogue and the network."""
        self._is_trial = False
        """Whether pushes are rolled back at the end."""

    @abc.abstractmethod
    def _process_waiting(self, batches: Sequence[EventBatch], before: int, lacking: set[str]) -> set[str]:
        """Runs the steps for events that wait, after the time `before`; returns the inboxes that have rows then.

        `lacking`: the streams whose events are not in the memory of rows yet.
        """

    @contextlib.contextmanager
    def transaction(self, registered: Mapping[str, Any] = NOTHING, stores_postponed: bool = True) -> Iterator[None]:
        """All of the block or nothing. An error restores this object, and Arrow tables are `registered` again.

        Within another transaction it is a part of that. It begins by storing postponed events. An error of a COMMIT
        that has taken effect is ignored. An interruption is raised, but the block has taken effect.
        """
        if self._in_transaction:
            yield
            return
        remembered, tables = self._position(), list(self._tables.names)
        self._in_transaction, self.has_committed, is_ending = True, False, False
        self._is_storing = False
        self._restoring.clear()
        self._remembers = False
        self.network.begin()
        interruption: BaseException | None = None
        try:
            self.database.begin()  # inside the block, as an interrupted `begin` may have begun the transaction
            if stores_postponed:
                self._write_postponed()
            yield
            if self._is_trial:
                self.database.settle()
                raise TrialOver
            self._tables.store_names()
            self.log.store(self.database)
            is_ending = True
            self.database.commit()
        except BaseException as error:
            if not (is_ending and self.database.has_committed(error)):
                self._undo(remembered, tables, registered)
                raise
            interruption = None if isinstance(error, Exception) else error
        finally:
            self._in_transaction = False
        self.has_committed = True
        if self._is_storing:
            self._postponed.clear()
            self._journal.clear()
        self._tables.drop_unused()
        self.network.commit()
        self.log.commit()
        if interruption is not None:
            raise interruption
        self._housekeeping.tidy(self.seq)

    @property
    def has_postponed(self) -> bool:
        """Whether there are changes that are not in the tables yet."""
        return bool(self._postponed or self._journal)

    def _write_postponed(self) -> None:
        """Writes all postponed changes into the tables, inside a transaction."""
        if not self.has_postponed:
            return
        if self._postponed:
            self._postponed.store()
        if self.is_durable:
            self._tables.set_clock(self.now, self.now, self.seq)
            self._journal.empty()
        self._is_storing = True

    def restored_by(self, restore: Callable[[], None]) -> None:
        """Has `restore` called if the current transaction does not take effect; the last one is called first."""
        self._restoring.append(restore)

    def remember_definitions(self) -> None:
        """Has the present definitions restored if the current transaction does not take effect.

        This is called before each change of definitions; the first call in a transaction counts.
        """
        if not self._remembers:
            self._remembers = True
            self.restored_by(self._remembered())

    def _remembered(self) -> Callable[[], None]:
        catalogue = self.catalogue
        kinds: list[dict[str, Any]] = [catalogue.streams, catalogue.queries, catalogue.scripts, catalogue.tables]
        before, undo_declarations = [dict(kind) for kind in kinds], catalogue.declarations.remember()

        def restore() -> None:
            undo_declarations()
            for kind, known in zip(kinds, before, strict=True):
                kind.clear()
                kind.update(known)
            self._replaced = Replacement()
            self.results.outdate()
            self.forget_undone()

        return restore

    def _position(self) -> tuple[Any, ...]:
        """The fields of this object that a push changes."""
        return self._inboxes.filled, self._inboxes.skipped, self.seq, self.now, self._housekeeping.since_purge

    def _go_back(self, position: tuple[Any, ...]) -> None:
        """Restores the fields to their values before a push that has not taken effect."""
        self._inboxes.filled, self._inboxes.skipped, self.seq, self.now, self._housekeeping.since_purge = position
        self._postponed.undo(self.seq)
        self._forget_steps()

    def _undo(self, remembered: tuple[Any, ...], tables: list[str], registered: Mapping[str, Any]) -> None:
        """Rolls back, and restores the fields of this object to their values before the transaction."""
        self.network.rollback()
        while self._restoring:
            self._restoring.pop()()
        self._go_back(remembered)
        self._tables.names = tables
        self._tables.keep_unused()
        self._housekeeping.undo()
        self.log.rollback()
        with contextlib.suppress(Refused):
            self.database.rollback()
        with contextlib.suppress(Refused):
            self._inboxes.register(registered)

    def _forget_steps(self) -> None:
        """Lets steps forget what they have in memory beside their tables."""
        for operator in self.network.operators:
            for step in operator.steps:
                if not isinstance(step, (Insert, Purge)):
                    step.forget()
