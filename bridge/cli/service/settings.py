"""The settings of `cepbridge watch`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.cli.service.target import Target
from bridge.engine.watching import POLL, Pauses
from bridge.errors import SourceError, nearest
from bridge.history.deployment import refuse_duplicates
from bridge.history.script import ReplayScript
from bridge.query.scripts import IntoTable
from windows.databases import dialect_of
from windows.databases.urls import EXAMPLES

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
        if dialect_of(self.url) == "duckdb":
            raise SourceError(
                "only one process at a time can open a DuckDB file, so no other one could write the tables to watch"
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
