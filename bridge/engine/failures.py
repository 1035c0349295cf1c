"""Pushes that fail because of one query: they are refused, or run without that query (`on_error`).

A push that has failed is rolled back, so it can be tried again without some queries. Further trials, rolled back as
well, find the failing queries by halving the set.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence

from bridge.engine.catalogue import QueryEntry
from bridge.engine.durable import LoggedCall
from bridge.engine.execution.runner import Runner
from bridge.engine.execution.transactions import Receipt
from bridge.engine.limits import Limits
from bridge.engine.refusal import as_bridge_error
from bridge.engine.results import Results
from bridge.errors import QueryError
from windows.databases.refused import ConnectionLost

REFUSE, SKIP, STOP = "refuse", "skip", "stop"
"""The effects of a query's error: the push is refused; or it runs without the query, once or from now on."""

STOP_QUERY = "stop query"
"""The kind of the definition that stops a query; the text is the error."""

Run = Callable[[Sequence[Receipt]], Results]
"""The transaction of a push, with further receipts to write."""


def check_policy(on_error: object, limits: object = None) -> str:
    """The policy of a query with these limits. Raises `QueryError` for an unknown policy."""
    if limits is not None and (not isinstance(limits, Limits) or on_error == REFUSE):
        raise QueryError(f'limits= is Limits(…), and on_error="{STOP}" or "{SKIP}" says what happens beyond them')
    if on_error not in (REFUSE, SKIP, STOP):
        raise QueryError(f'on_error is "{REFUSE}", "{SKIP}" or "{STOP}", not {on_error!r}')
    return str(on_error)


class Failures:
    """Runs pushes without the queries that make them fail, if the policies of these allow it."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def are_possible(self) -> bool:
        """Whether a push may continue without some query."""
        return any(self._may_fail(entry) for entry in self._runner.catalogue.queries.values())

    def run_without(self, error: Exception, run: Run) -> Results:
        """Runs a failed push again without the queries that make it fail. Raises the `error` if no query does."""
        if as_bridge_error(error) is None or isinstance(error, ConnectionLost) or not self.are_possible:
            raise error
        known = self._runner.catalogue
        groups = [known.with_readers(each.name) for each in known.queries.values() if self._may_fail(each)]
        try:
            failing = self._failing(groups, run)
            if not failing:
                raise error
            self._runner.exclude(name for group in failing for name in group)
            outcomes = [_FailureReceipt(self._runner, group, _text(own)) for group, own in failing.items()]
            return run([Receipt(outcome.write, outcome.remember) for outcome in outcomes])
        finally:
            self._runner.exclude(())

    def _may_fail(self, entry: QueryEntry) -> bool:
        """Whether a push may continue without a query and its readers."""
        queries = self._runner.catalogue.queries
        if entry.is_internal or entry.stopped or entry.on_error == REFUSE:
            return False
        readers = (queries[name] for name in self._runner.catalogue.with_readers(entry.name))
        return all(reader.is_internal or reader.on_error != REFUSE for reader in readers)

    def _failing(self, groups: Sequence[tuple[str, ...]], run: Run) -> dict[tuple[str, ...], Exception]:
        """The groups that each make a push fail, with the errors; none if the push fails without any group.

        A query that only reads a failing query is not in a group of its own, but in that query's.
        """
        failing: dict[tuple[str, ...], Exception] = {}
        if self._error_with((), groups, run) is not None:
            return failing

        def search(some: Sequence[tuple[str, ...]]) -> None:
            if (error := self._error_with(some, groups, run)) is None:
                return
            if len(some) == 1:
                failing[some[0]] = error
                return
            search(some[: len(some) // 2])
            search(some[len(some) // 2 :])

        search(groups)
        readers = {name for group in failing for name in group[1:]}
        return {group: error for group, error in failing.items() if group[0] not in readers}

    def _error_with(
        self, some: Sequence[tuple[str, ...]], groups: Sequence[tuple[str, ...]], run: Run
    ) -> Exception | None:
        """The error of a push with `some` of all groups; None if it succeeds."""
        kept = {name for group in some for name in group}
        self._runner.exclude(name for group in groups for name in group if name not in kept)
        try:
            with self._runner.trial():
                run(())
        except ConnectionLost:
            raise
        except Exception as error:
            if as_bridge_error(error) is None:
                raise
            return error
        return None


def _text(error: Exception) -> str:
    own = as_bridge_error(error) or error
    return f"{type(own).__name__}: {own}"


@dataclasses.dataclass
class _FailureReceipt:
    """The receipt for a query that has failed: it has skipped a push, or it and its readers are stopped."""

    runner: Runner
    group: tuple[str, ...]
    reason: str

    def write(self) -> None:
        if self._entry.on_error == STOP:
            self.runner.log.add(LoggedCall(0, 0, STOP_QUERY, self._entry.name, "", self.reason, self.runner.seq))

    def remember(self) -> None:
        entry = self._entry
        entry.last_error = self.reason
        if entry.on_error == STOP:
            stop(self.group, self.reason, self.runner)
        else:
            entry.skipped += 1
        verb = "is stopped" if entry.on_error == STOP else "has skipped a push"
        logging.getLogger("bridge").error("the query %r %s: %s", entry.name, verb, self.reason)

    @property
    def _entry(self) -> QueryEntry:
        return self.runner.catalogue.queries[self.group[0]]


def stop(names: Iterable[str], reason: str, runner: Runner) -> None:
    """Stops the first of these queries for this reason, and the others because they read it."""
    first, *readers = (runner.catalogue.queries[name] for name in names)
    first.stopped = reason
    for reader in readers:
        reader.stopped = reader.stopped or f"it reads {first.name!r}, which is stopped"
    runner.exclude(())
