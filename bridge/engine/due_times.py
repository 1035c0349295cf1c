"""When something is due by time alone: a boundary, an expiry, a periodic report, the deadline of a pattern."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from bridge.rewrite.plan import Operator, TimedCall
from windows.databases import Database


class DueTimes:
    """Asks operators for the next time at which they may report something though no event comes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._texts: dict[int, tuple[exp.Query, str]] = {}
        """The texts of statements, by their ids; each with its statement, so that the id is not given to another one."""

    def clear(self) -> None:
        """Forgets all texts, as operators have come or gone."""
        self._texts.clear()

    def next(self, operators: Iterable[Operator], now: int) -> int | None:
        """The earliest such time of these operators after `now`, to which the clock in the database is set.

        Machines without their memory, which a push gives them, do not count.
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
