"""The statements that change tables that queries share, and the streams whose events cause the changes."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from bridge import query
from bridge.query.epl_state import ChangeTable, SetVariables
from bridge.query.nodes import Node


class StateChanges:
    """The statements that change tables, by table. `tables`: all tables that statements may change."""

    def __init__(self, tables: Collection[str]) -> None:
        self._tables = tables
        self._streams: dict[str, list[frozenset[str]]] = {}
        """For each table, the streams that each of its statements reads, in the order of creation."""
        self._before: dict[str, list[frozenset[str]]] | None = None
        """The same before the current transaction, if it has added statements."""

    def concern(self, names: Iterable[str]) -> bool:
        """Whether statements may change one of these tables; reading it then has a place among the steps."""
        return any(name in self._tables for name in names)

    def add(self, name: str, node: Node) -> None:
        """Adds a statement (the tree `node`) that changes this table."""
        if self._before is None:
            self._before = {known: list(found) for known, found in self._streams.items()}
        self._streams.setdefault(name.lower(), []).append(frozenset(_streams(node)))

    def add_all(self, tree: Node) -> None:
        """Adds all statements in a tree."""
        for node in query.walk(tree):
            match node:
                case ChangeTable():
                    self.add(node.table.name, node.input)
                case SetVariables():
                    for state in node.set:
                        self.add(state.name, node.input)

    def streams(self, name: str, node: Node) -> set[str]:
        """The streams below `node` whose events change this table."""
        read = _streams(node)
        return {read[one] for changing in self._streams.get(name.lower(), []) for one in changing & set(read)}

    def key(self, node: Node, tables: Iterable[str]) -> Hashable:
        """The key of an operator that reads `tables`; a new statement that changes one of them changes the key."""
        counts = tuple((name, len(self._streams[name])) for name in sorted(tables) if name in self._streams)
        return (node, counts) if counts else node

    def begin(self) -> None:
        """Begins a transaction, whose new statements `rollback` forgets."""
        self._before = None

    def rollback(self) -> None:
        """Forgets the statements that the failed transaction has added."""
        if self._before is not None:
            self._streams, self._before = self._before, None


def _streams(node: Node) -> dict[str, str]:
    """The names of the streams below a node, by their lower case."""
    return {below.name.lower(): below.name for below in query.walk(node) if isinstance(below, query.Stream)}
