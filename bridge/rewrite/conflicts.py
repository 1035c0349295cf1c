"""Whether events must be pushed one by one, because an event reads rows that the event before it wrote to a table.

The statements of a push run over all its events. The results are those of one event after the other, unless a query
reads what a query writes, or two queries write the same: inserted or deleted rows, or columns that an UPDATE sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlglot import exp

from bridge import query
from bridge.query.epl_state import ChangeTable, SetVariables
from bridge.query.nodes import Node
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.stores import statement
from bridge.stores.statement import Sql
from windows.databases import Database
from windows.databases.base import PARAMETER


class TableUse(NamedTuple):
    """The columns of a table that an operator reads or writes; None: whole rows. Names are in lower case."""

    node: Node
    table: str
    columns: frozenset[str] | None

    def overlaps(self, other: TableUse) -> bool:
        """Whether two different operators use the same columns of a table."""
        if self.node == other.node or self.table != other.table:
            return False
        return self.columns is None or other.columns is None or not self.columns.isdisjoint(other.columns)


def conflicts(trees: Iterable[Node], database: Database) -> set[str]:
    """The tables of the bridge's database that force events to be pushed one by one; names are in lower case."""
    nodes = dict.fromkeys(node for tree in trees for node in query.walk(tree))
    writes = [use for node in nodes for use in _written(node, database)]
    reads = [use for node in nodes for use in _read(node, database)] if writes else []
    found = {write.table for write in writes if any(write.overlaps(read) for read in reads)}
    for write in writes:
        others = (other for other in writes if isinstance(other.node, (UpdateSQL, ChangeTable, SetVariables)))
        if any(write.overlaps(other) for other in others):
            found.add(write.table)
    return found


def written_tables(trees: Iterable[Node], database: Database) -> frozenset[str]:
    """The tables of the bridge's database that these trees write; names are in lower case."""
    nodes = (node for tree in trees for node in query.walk(tree))
    return frozenset(use.table for node in nodes for use in _written(node, database))


def changed_tables(trees: Iterable[Node], database: Database) -> frozenset[str]:
    """The same without the tables that only get the results of queries."""
    nodes = (node for tree in trees for node in query.walk(tree) if not isinstance(node, IntoTable))
    return frozenset(use.table for node in nodes for use in _written(node, database))


def used_tables(tree: Node, database: Database) -> frozenset[str]:
    """The tables of the bridge's database that a tree reads or writes; names are in lower case."""
    found = (use for node in query.walk(tree) for use in (*_written(node, database), *_read(node, database)))
    return frozenset(use.table for use in found)


def uses(tree: Node, table: str, database: Database) -> tuple[int, int]:
    """The number of nodes of a tree that read a table, and the number that write it."""
    nodes = dict.fromkeys(query.walk(tree))
    reads = sum(use.table == table for node in nodes for use in _read(node, database))
    return reads, sum(use.table == table for node in nodes for use in _written(node, database))


def conflicting_table(trees: Iterable[Node], late: Iterable[Node], database: Database) -> str | None:
    """A table that the trees write and a node of `late` reads after all steps; None if there is no such table."""
    writes = [use for tree in trees for node in query.walk(tree) for use in _written(node, database)]
    reads = [use for node in late for use in _read(node, database)] if writes else []
    return next((write.table for write in writes if any(write.overlaps(read) for read in reads)), None)


def _written(node: Node, database: Database) -> Iterator[TableUse]:
    match node:
        case UpdateSQL(store=None):
            sql = statement.update(node.statement, database, node.position)
            yield TableUse(node, statement.updated_table(sql), set_columns(sql))
        case IntoTable():
            yield TableUse(node, node.table.lower(), None)
        case ChangeTable():
            yield TableUse(node, node.table.name.lower(), None)
        case SetVariables():
            yield from (TableUse(node, table.name.lower(), None) for table in node.set)


def _read(node: Node, database: Database) -> Iterator[TableUse]:
    match node:
        case query.Relation(name):
            yield TableUse(node, name.split(".")[-1].lower(), None)
        case ReadSQL(store=None):
            yield from _read_by(node, statement.read(node.statement, database))
        case UpdateSQL(store=None):
            yield from _read_by(node, statement.update(node.statement, database))
        case SetVariables():
            own = node.set
            yield from (TableUse(node, table.name.lower(), None) for table in node.tables if table not in own)


def _read_by(node: Node, sql: Sql) -> Iterator[TableUse]:
    for name in dict.fromkeys(table.name.lower() for table in sql.tables):
        yield TableUse(node, name, read_columns(sql, name))


def set_columns(sql: Sql) -> frozenset[str] | None:
    """The columns that an UPDATE sets; None for a statement that inserts or deletes rows."""
    if not isinstance(sql.tree, exp.Update):
        return None
    return frozenset(setting.this.name.lower() for setting in sql.tree.expressions)


def read_columns(sql: Sql, table: str) -> frozenset[str] | None:
    """The columns of a table that a statement may read; None if its text does not tell."""
    tree = sql.tree
    stars = (star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    joins = (join for join in tree.find_all(exp.Join) if join.method or join.args.get("using"))
    if isinstance(tree, (exp.Insert, exp.Merge)) or any(stars) or any(joins):
        return None
    aliases = {"", *(found.alias_or_name.lower() for found in sql.tables if found.name.lower() == table)}
    settings = tree.expressions if isinstance(tree, exp.Update) else []
    targets = {id(setting.this) for setting in settings}
    columns = (column for column in tree.find_all(exp.Column) if id(column) not in targets)
    return frozenset(
        column.name.lower()
        for column in columns
        if column.table.lower() in aliases and not column.name.startswith(PARAMETER)
    )
