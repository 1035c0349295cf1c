"""The times at which something is due without an event: a boundary, an expiry, a periodic report, a deadline."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from bridge.rewrite.plan import Operator, TimedCall
from windows.databases import Database


class DueTimes:
    """Asks operators for the next time at which they may report something without an event."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._texts: dict[int, tuple[exp.Query, str]] = {}
        """The texts of statements, by id; with the statement itself, so that its id is not reused."""

    def clear(self) -> None:
        """Forgets all texts, as operators were added or removed."""
        self._texts.clear()

    def next(self, operators: Iterable[Operator], now: int) -> int | None:
        """The earliest such time of these operators after `now`; sets the clock in the database to `now`.

        Machines whose memory is not restored do not count; a push restores it.
        """
        due: list[int | None] = []
        for operator in (each for each in operators if each.timed):
            for statement in operator.deadlines:
                due += [value for (value,) in self._database.fetch(self._text(statement))]
            steps = (step for step in operator.steps if isinstance(step, TimedCall))
            due += [step.next_deadline(self._database, now) for step in steps]
        return min((int(each) for each in due if each is not None), default=None)

    def _text(self, statement: exp.Query) -> str:
        known = self._texts.get(id(statement))
        if known is None:
            known = self._texts[id(statement)] = statement, self._database.render(statement)
        return known[1]
