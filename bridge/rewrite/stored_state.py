"""The content of an operator's tables, for another operator with equal needs but other reports (rule D7)."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from sqlglot import exp

from windows.sql import column, identifier, table


class StoredTable(NamedTuple):
    """A table of state: its name, and its columns by their content."""

    name: str
    columns: Mapping[Any, str]

    @classmethod
    def of(cls, name: str, columns: Iterable[str]) -> StoredTable:
        """A table whose columns are named after their content."""
        return cls(name, {each: each for each in columns})


@dataclasses.dataclass(frozen=True)
class StoredState:
    """The state of an operator, such as the open matches of a pattern.

    meaning: Operators with equal meanings have equal state. tables: By purpose. needs: What the rows must suffice for,
    such as the number of rows before a match; tables written for smaller needs cannot be used.

    >>> one = StoredState("A B", {"rows": StoredTable.of("one", ["ts", "a", "b"])}, (1,))
    >>> other = StoredState("A B", {"rows": StoredTable.of("other", ["ts", "b"])}, (0,))
    >>> [each.sql() for each in other.filled_from(one)]
    ['INSERT INTO "other" ("ts", "b") SELECT "ts", "b" FROM "one"']
    >>> one.filled_from(other)
    """

    meaning: Hashable
    tables: Mapping[str, StoredTable]
    needs: tuple[int, ...] = ()

    def filled_from(self, other: StoredState) -> list[exp.Expr] | None:
        """The statements that fill these tables from those of `other`; None if those lack what is needed."""
        if self.meaning != other.meaning or any(mine > its for mine, its in zip(self.needs, other.needs, strict=True)):
            return None
        if not self.tables.keys() <= other.tables.keys():
            return None
        pairs = [(mine, other.tables[kind]) for kind, mine in self.tables.items()]
        if not all(mine.columns.keys() <= its.columns.keys() for mine, its in pairs):
            return None
        return [_copying(mine, its) for mine, its in pairs]


def _copying(to: StoredTable, of: StoredTable) -> exp.Expr:
    rows = exp.select(*(column(of.columns[what]) for what in to.columns)).from_(table(of.name))
    return exp.insert(rows, table(to.name), columns=[identifier(name) for name in to.columns.values()])
