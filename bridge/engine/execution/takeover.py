"""The state that new operators take over from operators of the query they replace (rule D7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridge.engine.catalogue import QueryEntry
from bridge.rewrite import Network
from bridge.rewrite.network import in_order
from bridge.rewrite.plan import Operator


class Replacement(NamedTuple):
    """Queries that are being replaced. changed: The names of those whose meaning changes, in lower case."""

    entries: Sequence[QueryEntry] = ()
    changed: frozenset[str] = frozenset()

    @property
    def inheritable(self) -> list[QueryEntry]:
        """The queries whose state may be kept."""
        return [entry for entry in self.entries if entry.is_inheritable]

    def operators(self, entry: QueryEntry) -> list[Operator]:
        """The operators of a query whose input is unchanged: they read none of the changed queries."""
        return [operator for operator in entry.operators if not operator.reads & self.changed]


def take_over(
    network: Network, before: Iterable[Operator], replaced: Replacement, queries: Iterable[QueryEntry]
) -> tuple[str, ...]:
    """Copies the state of replaced operators into new ones that need the same state.

    Returns the titles of the operators whose state is lost.

    before: The operators that are not new. queries: The present queries.
    """
    old, needed = {id(each) for each in before}, {id(each) for entry in queries for each in entry.operators}
    own = [each for entry in replaced.inheritable for each in network.of_epochs(entry.operators, entry.own_epochs)]
    same = [each for each in own if not each.reads & replaced.changed]
    lost = {id(each): each for each in own if id(each) not in needed and each.holds_state}
    for new in (each for each in network.operators if id(each) not in old):
        source = next((each for each in same if new.filled_from(each) is not None), None)
        if source is not None:
            for statement in new.filled_from(source) or ():
                network.database.execute(network.database.render(statement))
            lost.pop(id(source), None)
    return tuple(dict.fromkeys(operator.title for operator in in_order(lost.values())))
