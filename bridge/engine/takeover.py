"""What new operators take over from those of a query that theirs replaces (rule D7)."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.engine.catalogue import QueryEntry
from bridge.rewrite import Network
from bridge.rewrite.network import in_order
from bridge.rewrite.plan import Operator


def take_over(
    network: Network, before: Iterable[Operator], replaced: Iterable[QueryEntry], queries: Iterable[QueryEntry]
) -> tuple[str, ...]:
    """Copies the state of replaced operators into new ones that need the same state.

    Returns the titles of the operators whose state is lost.

    before: The operators that are not new. replaced: The queries that are replaced. queries: Those that there are now.
    """
    old, needed = {id(each) for each in before}, {id(each) for entry in queries for each in entry.operators}
    inheritable = (entry for entry in replaced if entry.is_inheritable)
    own = [each for entry in inheritable for each in network.of_epochs(entry.operators, entry.own_epochs)]
    lost = {id(each): each for each in own if id(each) not in needed and each.holds_state}
    for new in (each for each in network.operators if id(each) not in old):
        source = next((each for each in own if new.filled_from(each) is not None), None)
        if source is not None:
            for statement in new.filled_from(source) or ():
                network.database.execute(network.database.render(statement))
            lost.pop(id(source), None)
    return tuple(dict.fromkeys(operator.title for operator in in_order(lost.values())))
