"""The results of a query for a reader that fetches them when it can, such as one that sends them elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.engine.execution.runner import Runner
from bridge.engine.named_processors import NamedProcessors, Result
from bridge.stores.outbox import DeadLetter

if TYPE_CHECKING:
    from bridge.engine.bridge import Bridge


class Subscription:
    """A named processor without a function: its results are stored until it reports them as done.

    The methods may be called by any thread, one call at a time, like those of the bridge.

    >>> from bridge.engine.connect import connect
    >>> with connect() as cep:
    ...     cep.create_query("high", "SELECT a FROM s[a: INTEGER] WHERE a > 5")
    ...     high = Subscription(cep, "high", "mailer")
    ...     cep.push_event("s", [7], 1000)
    ...     ((number, result),) = high.fetch(10)
    ...     high.advance(number)
    ...     result.payload, high.fetch(10)
    ({'a': 7}, [])
    """

    def __init__(self, cep: Bridge, query: str, name: str) -> None:
        self.query, self.name = query, name
        self._cep = cep
        self._cep._with_named_processors(
            lambda runner, named: named.subscribe(runner.catalogue.query_entry(query), name)
        )

    def fetch(self, most: int) -> list[tuple[int, Result]]:
        """The next results, at most `most`, with their numbers."""
        return self._cep._with_named_processors(lambda _, named: named.undelivered(self.query, self.name, most))

    def advance(self, number: int) -> None:
        """Reports the result of this number, and all earlier ones, as done."""
        self._cep._with_named_processors(lambda _, named: named.advance(self.query, self.name, number))

    def remove(self) -> None:
        """Ends the subscription: results are no longer stored for it."""
        self._cep._with_named_processors(lambda _, named: named.unsubscribe(self.query, self.name))

    def give_up(self, number: int, letter: DeadLetter) -> None:
        """Makes the result of this number a dead letter, and reports all earlier ones as done."""

        def add(runner: Runner, named: NamedProcessors) -> None:
            outbox = runner.catalogue.outbox
            outbox.prepare()
            with runner.transaction():
                outbox.add_dead_letter(letter)
                named.advance(self.query, self.name, number)

        self._cep._with_named_processors(add)


def subscribers(cep: Bridge, query: str) -> list[str]:
    """The named processors of a query, including those of earlier processes."""
    return cep._with_named_processors(lambda _, named: named.names(query))


def waits(cep: Bridge, query: str) -> bool:
    """Whether a query has results that a named processor has not received."""
    return cep._with_named_processors(lambda _, named: named.waits(query))
