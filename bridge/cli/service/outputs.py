"""Destinations of results that go to no table: lines on standard output, and PostgreSQL's NOTIFY."""

from __future__ import annotations

import functools
import json
import logging
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.cli.service.settings import WatchSettings
from bridge.engine.bridge import Bridge
from bridge.engine.named_processors import Result
from bridge.engine.session import session_of
from bridge.engine.subscription import Subscription, subscribers
from bridge.errors import ProcessorError, SourceError
from bridge.history.lines import refuse_keys

OWN = "watch:"
"""The prefix of the names of `cepbridge watch`'s processors."""

PRINTED, WEBHOOK = OWN + "printed", OWN + "webhook"

KEYS = ("query", "result_id")
"""The keys of a line in addition to `ts` and the columns."""

LONGEST = 7_900
"""The greatest size of a notification in bytes; PostgreSQL accepts less than 8,000."""


_log = logging.getLogger("bridge.watch")


def json_of(query: str, result: Result) -> str:
    """A result as JSON text: the query, `ts` in milliseconds, `result_id`, and the values by their columns.

    >>> from decimal import Decimal
    >>> print(json_of("q", Result({"a": Decimal("1.50"), "b": float("nan")}, 1000, "q/1000/1/0")))
    {"query": "q", "ts": 1000, "result_id": "q/1000/1/0", "a": "1.50", "b": null}
    """
    head = {"query": query, "ts": result.timestamp, "result_id": result.id}
    return json.dumps(head | {name: _plain(value) for name, value in result.payload.items()}, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value in the types of JSON: dates and timestamps in ISO 8601, decimals as texts, infinities and NaN as null."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class Outputs:
    """The named processors of one start; they receive the results that earlier starts have not delivered."""

    def __init__(self, cep: Bridge, settings: WatchSettings) -> None:
        self._cep, self._settings = cep, settings
        self.broken: OSError | None = None
        """The reason why standard output accepts no more lines."""

    def attach(self) -> None:
        """Adds the processors, and removes those of earlier starts that no option names any more."""
        in_tables = {name.lower() for name in self._settings.in_tables}
        for query in self._cep.queries:
            is_read = bool(session_of(self._cep).catalogue.readers(query))
            names = self._named_by_options(query, is_read)
            if not names and not is_read and query.lower() not in in_tables:
                names = [PRINTED]
            if names:
                refuse_keys(query, session_of(self._cep).catalogue.query_entry(query).names, KEYS)
            self._remove(query, names)
            for name in names:
                self._add(query, name)

    def _named_by_options(self, query: str, is_read: bool) -> list[str]:
        names = [f"{OWN}notify {channel}" for channel in self._settings.channels_of(query, is_read)]
        return names + ([WEBHOOK] if self._settings.webhook_of(query) else [])

    def _remove(self, query: str, names: Sequence[str]) -> None:
        """Removes these processors of a query, which earlier starts have left."""
        for name in subscribers(self._cep, query):
            if name.startswith(OWN) and name not in names:
                Subscription(self._cep, query, name).remove()

    def _add(self, query: str, name: str) -> None:
        if name == WEBHOOK:  # it has a thread of its own
            return
        function = functools.partial(self._print, query)
        if name != PRINTED:
            function = functools.partial(self._notify, query, name.removeprefix(f"{OWN}notify "))
        try:
            self._cep.add_output_processor(query, function, name=name)
        except ProcessorError as error:
            _log.error("the results of %s before this start: %s", query, error)

    def _print(self, query: str, result: Result) -> None:
        try:
            sys.stdout.write(json_of(query, result) + "\n")
            sys.stdout.flush()
        except OSError as error:
            self.broken = error
            self._cep.stop()
            raise

    def _notify(self, query: str, channel: str, result: Result) -> None:
        text = json_of(query, result)
        if len(text.encode()) > LONGEST:
            text = json_of(query, result._replace(payload={"truncated": True}))
        session_of(self._cep).database.notify(channel, text)


def refuse_notify(cep: Bridge, settings: WatchSettings) -> None:
    """Raises SourceError for --notify on a database without NOTIFY."""
    if settings.notify and not session_of(cep).database.has_notify:
        raise SourceError(
            f"--notify is for PostgreSQL, and this is {cep.database.title}: --webhook sends results anywhere"
        )
