"""The settings of `cepbridge watch`, and the targets of its webhooks."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.engine.methods.watching import POLL, Pauses
from bridge.errors import SourceError, nearest
from bridge.history.deployment import refuse_duplicates
from bridge.history.script import ReplayScript
from bridge.query.scripts import IntoTable
from windows.databases import class_of
from windows.databases.urls import EXAMPLES, without_password

WITHOUT_TABLE = "is not of a table, so nothing is read into it: CREATE STREAM … FROM TABLE …"


@dataclasses.dataclass(frozen=True)
class WatchSettings:
    """The database, the scripts, and the destinations of results.

    connection: The options of `bridge.connect`. into: Result tables, by query. webhooks: URLs, by query. notify: Pairs
    of a query (or "" for all queries that no other one reads) and a channel. attempts: How often a webhook may refuse a
    result.
    """

    url: str
    scripts: Sequence[ReplayScript]
    connection: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    into: Mapping[str, str] = dataclasses.field(default_factory=dict)
    datastores: Mapping[str, str] = dataclasses.field(default_factory=dict)
    webhooks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notify: Sequence[tuple[str, str]] = ()
    attempts: int = 10
    on_error: str = "stop"
    poll: Any = POLL
    health: int | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        """Raises SourceError for settings that cannot be watched or name an unknown query.

        SchemaError for a wrong pause.
        """
        Pauses(self.poll)
        if "://" not in str(self.url):
            raise SourceError(f"{self.url!r} is not a URL: {EXAMPLES}")
        kind = class_of(self.url)
        if kind is not None and kind.one_process:
            raise SourceError(
                f"only one process at a time can open a {kind.title} file, so no other one could write the tables to watch"
            )
        refuse_duplicates(self.scripts)
        for option, names in (
            ("into", self.into),
            ("webhook", self.webhooks),
            ("notify", [one for one, _ in self.notify]),
        ):
            for name in names:
                if name and name.lower() not in self.queries:
                    hint = nearest(name, list(self.queries.values()))
                    raise SourceError(f"--{option}: there is no query {name!r} in the files{hint}")
        for url in self.webhooks.values():
            Target(url)

    @property
    def queries(self) -> dict[str, str]:
        """The names of the queries, by name in lower case."""
        return {name.lower(): name for script in self.scripts for name in script.queries}

    @property
    def without_table(self) -> list[str]:
        """The SQL streams without a table, into which a watch reads nothing."""
        tables = {stream.name.lower() for script in self.scripts for stream in script.table_streams}
        declared = (name for script in self.scripts if script.language == "sql" for name in script.declared)
        return [name for name in dict.fromkeys(declared) if name.lower() not in tables]

    def webhook_of(self, query: str) -> str | None:
        """The URL to which the results of a query are sent."""
        return next((url for name, url in self.webhooks.items() if name.lower() == query.lower()), None)

    def channels_of(self, query: str, is_read: bool) -> list[str]:
        """The channels for the results of a query. If another query reads it, only those that name it explicitly."""
        names = (query.lower(),) if is_read else ("", query.lower())
        return [channel for name, channel in self.notify if name.lower() in names]

    @property
    def read(self) -> set[str]:
        """The streams and queries that queries in the files read, in lower case."""
        return {node.name.lower() for script in self.scripts for node in script.nodes}

    @property
    def in_tables(self) -> list[str]:
        """The queries whose results are written into tables."""
        nodes = [pair for script in self.scripts for pair in script.queries.items()]
        return [*self.into, *(name for name, (node, _) in nodes if isinstance(node, IntoTable))]


ANSWERS_WITHIN = 10.0
"""The seconds to wait for an answer."""


class Target:
    """The target of a webhook.

    >>> print(Target("https://example.org:8443/hook?kind=alert"))
    https://example.org:8443/hook?kind=alert
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            self._port = parts.port
        except ValueError as error:
            raise SourceError(f"--webhook {without_password(url)}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError(f"--webhook {without_password(url)}: the URL begins with http:// or https:// and a host")
        self._host, self._is_secure = parts.hostname, parts.scheme == "https"
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._url = url

    def __str__(self) -> str:
        return without_password(self._url)

    def post(self, body: str, key: str) -> int:
        """Posts a JSON body with the key that identifies it; returns the status of the answer."""
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        headers = {"Content-Type": "application/json", "Idempotency-Key": key, "User-Agent": "cepbridge"}
        with contextlib.closing(kind(self._host, self._port, timeout=ANSWERS_WITHIN)) as connection:
            connection.request("POST", self._path, body.encode(), headers)
            return connection.getresponse().status
