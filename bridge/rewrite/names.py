"""The names of a bridge's tables. A durable bridge finds its tables again by the operators that own them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from bridge.query.codec import fingerprint
from windows.databases.base import PREFIX


class NameRow(NamedTuple):
    """A stored name: the key of its owner and purpose, the name itself, and the table that it is removed with."""

    key: str
    name: str
    belongs: str


class TableNames:
    """Gives each table an unused name, or the name that it had before the bridge was resumed.

    A name is stored with the fingerprint of the owning operator, its epoch, and the purpose of the table, as these are
    the same when the queries are created again. Rows about a table are removed with the table.

    `keeps`: whether names are stored. `known`: the names stored before. `prefix`: the beginning of all names.
    """

    def __init__(
        self, taken: Iterable[str], keeps: bool = False, known: Iterable[NameRow] = (), prefix: str = PREFIX
    ) -> None:
        self.keeps = keeps
        self._prefix = prefix
        self.rows: dict[str, NameRow] = {}
        self._keys: dict[str, set[str]] = {}
        """The keys of the rows that are removed with each table."""
        for row in known:
            self._put(row.key, row)
        self.missed: list[str] = []
        """The tables for which no name was stored although the bridge was being resumed."""
        self.claimed: set[str] = set()
        """The stored names that an owner has asked for again."""
        self.resuming = False
        self._taken = {name.lower() for name in taken}
        self._suffixes: dict[str, int] = {}
        """The last number of each stem: all numbers up to it are used."""
        self._undo: list[tuple[str, NameRow | None]] = []
        self._pending: dict[str, bool] = {}
        """The keys of rows to store or remove before the transaction commits, and whether they are stored already."""
        self._owner = ""
        self._counts: dict[str, int] = {}

    @contextlib.contextmanager
    def owned_by(self, owner: str) -> Iterator[None]:
        """A context in which names belong to this owner, which asks for them in the same order each time."""
        before = self._owner, self._counts
        self._owner, self._counts = owner, {}
        try:
            yield
        finally:
            self._owner, self._counts = before

    def identity(self, key: Hashable, epoch: int) -> str:
        """The identity of an operator, equal in every process; "" if names are not stored."""
        return f"{fingerprint(key)}@{epoch}" if self.keeps else ""

    def of(self, kind: str, source: str) -> str:
        """The name of a table: its kind, then the stream or query that it belongs to."""
        if not self.keeps:
            return self._free(kind, source)
        if not self._owner:
            return self._added("", self._free(kind, source))
        self._counts[kind] = self._counts.get(kind, 0) + 1
        key = f"{self._owner} {kind} {self._counts[kind]}"
        if key in self.rows:
            self.claimed.add(self.rows[key].name)
            return self.rows[key].name
        if self.resuming:
            self.missed.append(f"{kind} of {source or 'a query'}")
        return self._added(key, self._free(kind, source))

    def is_known(self, owner: str, kind: str) -> bool:
        """Whether an owner has a table of this kind."""
        return f"{owner} {kind} 1" in self.rows

    def add(self, table: str) -> None:
        """Adds a table whose name the user has chosen."""
        if self.keeps and f"{table} itself" not in self.rows:
            self._added("", table)

    def index(self, table: str, columns: Iterable[str], number: int) -> str | None:
        """The name of an index over these columns of a table, if possible its `number`-th; None if the index exists."""
        own = table.removeprefix(self._prefix)
        if not self.keeps:
            return f"{self._prefix}index_{own}_{number}"
        key = f"{table} index {' '.join(columns)}"
        if key in self.rows:
            return None
        used = {self.rows[each].name for each in self._keys.get(table, ())}
        while f"{self._prefix}index_{own}_{number}" in used:
            number += 1
        name = f"{self._prefix}index_{own}_{number}"
        self._set(key, NameRow(key, name, table))
        return name

    def member(self, family: str, table: str, node: Hashable, numbers: Iterable[int]) -> int:
        """A number for a new member of a family, which no member has had before.

        `numbers`: the numbers of the present members. `table`: a table of the family, with which the number is removed.
        """
        if not self.keeps:
            return max(numbers, default=0) + 1
        key, last = f"{family} member {fingerprint(node)}", f"{family} last"
        if key in self.rows:
            return int(self.rows[key].name)
        number = max([*numbers, int(self.rows[last].name) if last in self.rows else 0]) + 1
        self._set(last, NameRow(last, str(number), table))
        self._set(key, NameRow(key, str(number), table))
        return number

    def leave(self, family: str, node: Hashable) -> None:
        """Removes a member from its family; if it returns, it gets another number."""
        key = f"{family} member {fingerprint(node)}" if self.keeps else ""
        if key in self.rows:
            self._set(key, None)

    def forget(self, table: str) -> None:
        """Removes the rows about a table that is dropped."""
        for key in list(self._keys.get(table, ())):
            self._set(key, None)

    def commit(self) -> None:
        """Notes that the transaction has taken effect."""
        self._undo.clear()

    def rollback(self) -> None:
        """Undoes the changes of a failed transaction."""
        while self._undo:
            self._put(*self._undo.pop())
        self._pending.clear()

    @property
    def is_changed(self) -> bool:
        """Whether there are `changes` to store."""
        return bool(self._pending)

    def changes(self) -> tuple[list[str], list[NameRow]]:
        """The keys of stored rows to remove, and the rows to store after that; each change is returned once."""
        gone = [key for key, is_stored in self._pending.items() if is_stored]
        come = [self.rows[key] for key in self._pending if key in self.rows]
        self._pending.clear()
        return gone, come

    def _added(self, key: str, name: str) -> str:
        key = key or f"{name} itself"
        self._set(key, NameRow(key, name, name))
        return name

    def _set(self, key: str, row: NameRow | None) -> None:
        self._undo.append((key, self.rows.get(key)))
        self._pending.setdefault(key, key in self.rows)
        self._put(key, row)

    def _put(self, key: str, row: NameRow | None) -> None:
        """Puts a row in place of the row of this key; None removes that."""
        before = self.rows.pop(key, None)
        if before is not None:
            self._keys[before.belongs].discard(key)
        if row is not None:
            self.rows[key] = row
            self._keys.setdefault(row.belongs, set()).add(key)

    def _free(self, kind: str, source: str) -> str:
        words = re.sub(r"\W+", "_", source).strip("_").lower()[:24]
        stem = f"{self._prefix}{kind}_{words}" if words else f"{self._prefix}{kind}"
        name, suffix = stem, self._suffixes.get(stem, 1)
        while name in self._taken:
            suffix += 1
            name = f"{stem}_{suffix}"
        self._suffixes[stem] = suffix
        self._taken.add(name)
        return name
