"""Whether events must be taken one by one: where what one writes into a table, the next reads there.

Statements of a push run over all its events. That gives what one event after the other gives, unless a query reads a
table that a query writes, or two write the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bridge import query
from bridge.algebra import IntoTable, ReadSQL, UpdateSQL
from bridge.changes import ChangeTable
from bridge.query import Node
from bridge.stores import statement
from windows.databases import Database


def conflicts(trees: Iterable[Node], database: Database) -> set[str]:
    """The tables of the bridge's database for whose sake events are taken one by one; names in lower case."""
    nodes = dict.fromkeys(node for tree in trees for node in query.walk(tree))
    writers = [(node, table) for node in nodes if (table := _written(node, database))]
    readers = [(node, table) for node in nodes for table in _read(node, database)] if writers else []
    found = {table for node, table in readers for writer, written in writers if written == table and writer != node}
    for node, table in writers:
        others = [other for other, written in writers if written == table and other != node]
        if any(isinstance(other, (UpdateSQL, ChangeTable)) for other in others):
            found.add(table)
    return found


def written(trees: Iterable[Node], database: Database) -> frozenset[str]:
    """The tables of the bridge's database that some of these trees write; names in lower case."""
    nodes = (node for tree in trees for node in query.walk(tree))
    return frozenset(table for node in nodes if (table := _written(node, database)))


def uses(tree: Node, table: str, database: Database) -> tuple[int, int]:
    """How often a tree reads a table, and writes it."""
    nodes = dict.fromkeys(query.walk(tree))
    reads = sum(name == table for node in nodes for name in _read(node, database))
    return reads, sum(_written(node, database) == table for node in nodes)


def _written(node: Node, database: Database) -> str | None:
    match node:
        case UpdateSQL(store=None):
            return statement.written(statement.update(node.statement, database, node.position))
        case IntoTable():
            return node.table.lower()
        case ChangeTable():
            return node.table.name.lower()
    return None


def _read(node: Node, database: Database) -> Iterator[str]:
    match node:
        case query.Relation(name):
            yield name.split(".")[-1].lower()
        case ReadSQL(store=None):
            yield from (table.name.lower() for table in statement.read(node.statement, database).tables)
        case UpdateSQL(store=None):
            yield from (table.name.lower() for table in statement.update(node.statement, database).tables)
