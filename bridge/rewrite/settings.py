"""The thresholds for choosing among equivalent methods; tests set others to try every method."""

from __future__ import annotations

import dataclasses

from windows.databases.base import Database


@dataclasses.dataclass(frozen=True)
class Settings:
    """Thresholds measured on this project's benchmarks; they never change a result.

    >>> Settings(few=0).few
    0
    """

    few: int = 16
    """The greatest number of events in a push for which the variant for few events runs."""

    many: int = 8_000
    """The least number of events in a push for which the variant for thousands of events runs, if there is one."""

    in_process: int = 200
    """The greatest number of events in a push that may be computed in this process, if that needs no statement."""

    in_process_quick: int = 1_000
    """The same where this process is faster than a statement: each key has few rows, or the statement joins each event
    with its rows on a database that only has nested loops.
    """

    brief: int = 8
    """A push is brief if its events span at most 1/`brief` of the window; a database may allow a greater part."""

    long_rows: int = 512
    """The least number of rows in a window for which panes are stored."""

    arrow_from: int = 1_000
    """The least number of events in a push for which results are read as Arrow; tuples are faster for fewer."""

    registered_from: int = 1_000
    """The least number of rows in an Arrow table that is registered, if the database can read it, instead of copied."""

    side_by_side: int = 100
    """The greatest number of queries whose results stand side by side in one statement."""

    side_by_side_rows: int = 4_096
    """The least number of rows in a window for which, in a brief push, a statement per query beats one side by side."""

    checkpoint_rows: int = 1_000
    """The least number of rows between two checkpoints of a live machine; more after a larger checkpoint."""

    bulk_events: int = 1_000
    """The least number of events in a push for which strategies for bounded data replace the machine."""

    is_replay: bool = False
    """Whether all queries are known and pushes large: nothing is stored for on-demand queries or single events."""

    tidy_events: int = 200_000
    """The number of events between two clean-ups by the database."""

    tidy_pushes: int = 10
    """The least number of pushes that remove rows between two clean-ups by the database."""

    def brief_limit(self, database: Database | type[Database]) -> int:
        """`brief` for a database, which may allow a push to span a greater part of the window.

        >>> from windows.databases.sqlite import SQLite
        >>> Settings().brief_limit(SQLite), Settings(brief=1).brief_limit(SQLite)
        (3, 1)
        """
        return min(self.brief, database.window_per_brief_push)

    def kind(self, count: int) -> str:
        """The kind of a push of `count` events, as variants name it.

        >>> Settings().kind(3), Settings().kind(300), Settings().kind(30_000)
        ('few', 'any', 'many')
        """
        return "few" if count <= self.few else "any" if count < self.many else "many"
