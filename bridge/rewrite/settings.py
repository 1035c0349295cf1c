"""The thresholds that choose between equal ways to compute the same rows; tests give others to try every way."""

from __future__ import annotations

import dataclasses

from windows.databases.base import Database


@dataclasses.dataclass(frozen=True)
class Settings:
    """Numbers found by measurement on this project's benchmarks; none of them changes a result.

    >>> Settings(few=0).few
    0
    """

    few: int = 16
    """Events in a push up to which the variant for few events runs."""

    many: int = 8_000
    """Events in a push from which on the variant for many thousands of events runs, if there is one."""

    in_process: int = 200
    """Events in a push up to which it is computed in the process, where that takes no statement of the database."""

    in_process_quick: int = 1_000
    """The same where the process is quicker than a statement: each key has few rows, or the statement joins each event with
    its rows on a database that only has nested loops."""

    brief: int = 8
    """A push is brief if its events span at most 1/`brief` of the window; databases may allow a greater part."""

    long_rows: int = 512
    """Rows in a window from which on panes are kept."""

    arrow_from: int = 1_000
    """Events in a push from which on results are read as Arrow: fewer rows are quicker as tuples."""

    registered_from: int = 1_000
    """Rows of an Arrow table from which on it is registered, where the database can read it, not copied into an inbox."""

    side_by_side: int = 100
    """The most queries whose results stand side by side in one statement."""

    side_by_side_rows: int = 4_096
    """Rows in a window from which on a statement per query is faster for a brief push than one side by side."""

    checkpoint_rows: int = 1_000
    """Rows between two checkpoints of a live machine, at least; more where the last checkpoint had more lines."""

    bulk_events: int = 1_000
    """Events in a push from which on the strategies for bounded data match a stream's rows, instead of the machine."""

    is_replay: bool = False
    """Whether all queries are known and pushes have many events, so nothing is kept for on-demand queries or single events."""

    tidy_events: int = 200_000
    """Events between two clean-ups by the database."""

    tidy_pushes: int = 10
    """Pushes that remove rows, at least, between two clean-ups by the database."""

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
