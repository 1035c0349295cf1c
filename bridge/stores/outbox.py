"""The transactional outbox: writes to data stores, kept in a table and delivered after the commit, in order, at least once.

A write is deleted from the outbox after its store has accepted it. A write that the store has refused `ATTEMPTS` times
is moved to the table `dead_letters`, with the reason. Both tables stay when the bridge is closed, so no write is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from bridge.stores import statement
from bridge.stores.statement import dumped, loaded
from bridge.stores.store import Store, Stores, Unreachable
from windows.databases import Database, Refused
from windows.databases.definition import create_table
from windows.schema import Attribute, type_of_value
from windows.values import Convert, converted

OUTBOX, DEAD_LETTERS = "cep_outbox", "dead_letters"

ATTEMPTS = 5
"""The number of attempts at a write that its store refuses."""

AT_ONCE = 500
"""The number of writes in one transaction of a store."""


class DeadLetter(NamedTuple):
    """A write or a result that its data store or webhook has refused for good.

    `id` identifies the row that was to be written, `timestamp` is its time in milliseconds, `attempts` the number of
    attempts, and `reason` the last error.

    >>> letter = DeadLetter("bills/1000/7/0", "crm", "bills", "UPDATE t SET a = ?", [1], 1000, 5, "no such table: t")
    >>> letter.store, letter.parameters, letter.reason
    ('crm', [1], 'no such table: t')
    """

    id: str
    store: str
    query: str
    statement: str
    parameters: list[Any]
    timestamp: int
    attempts: int
    reason: str


_COLUMNS = {
    "number": "BIGINT", "id": "VARCHAR", "store": "VARCHAR", "query": "VARCHAR", "statement": "VARCHAR",
    "parameters": "VARCHAR", "ts": "BIGINT", "attempts": "BIGINT", "reason": "VARCHAR",
}  # fmt: skip


class Outbox:
    """The outbox of one bridge, in its database."""

    def __init__(self, database: Database, stores: Stores) -> None:
        self.database = database
        self.stores = stores
        self.waiting = False
        self._texts: dict[tuple[str, str], tuple[str, list[int]]] = {}
        self._outbox, self._dead_letters = map(database.own_name, (OUTBOX, DEAD_LETTERS))

    def prepare(self) -> None:
        """Creates the tables, if they do not exist."""
        for name in (self._outbox, self._dead_letters):
            if not self.database.has_own(name):
                self.database.execute(create_table(self.database, name, _COLUMNS))

    def close(self) -> None:
        """Removes the tables if they are empty."""
        for name in (self._outbox, self._dead_letters):
            if self.database.has_own(name) and not self.database.fetch(f"SELECT 1 FROM {name} LIMIT 1"):
                self.database.execute(f"DROP TABLE {name}")

    def resume(self) -> None:
        """Notes whether writes of an earlier process still wait, for example after a crash."""
        if self.database.has_own(self._outbox):
            self.waiting = bool(self.database.fetch(f"SELECT 1 FROM {self._outbox} LIMIT 1"))

    def put(self, store: str, query: str, text: str, writes: Iterable[tuple[str, int, str]]) -> None:
        """Adds writes (id, ts, parameters), inside the push's transaction."""
        ((last,),) = self.database.fetch(
            f"SELECT COALESCE(MAX({self.database.quoted('number')}), 0) FROM {self._outbox}"
        )
        rows = [
            (int(last) + place, name, store, query, text, values, ts, 0, "")
            for place, (name, ts, values) in enumerate(writes, 1)
        ]
        if rows:
            self.database.insert(self._outbox, len(_COLUMNS), rows)
            self.waiting = True

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """Adds a dead letter that was not in the outbox, inside a transaction."""
        name, store, query, text, values, ts, attempts, reason = letter
        row = (0, name, store, query, text, dumped(values), ts, attempts, reason)
        self.database.insert(self._dead_letters, len(_COLUMNS), [row])

    def dead_letters(self) -> list[DeadLetter]:
        """All dead letters, the oldest first."""
        if not self.database.has_own(self._dead_letters):
            return []
        return [_dead_letter(row) for row in self._rows(self._dead_letters)]

    def deliver(self) -> int:
        """Tries to deliver all writes; returns the number of those that still wait."""
        if not self.waiting:
            return 0
        for store in self.stores.known.values():
            while not store.resting and self._deliver_to(store):
                pass
        ((left,),) = self.database.fetch(f"SELECT COUNT(*) FROM {self._outbox}")
        self.waiting = left > 0
        return int(left)

    def _deliver_to(self, store: Store) -> bool:
        """Delivers the next writes of a store; returns whether there may be more."""
        rows = self._rows(self._outbox, store.name)[:AT_ONCE]
        if not rows:
            return False
        try:
            self._write(store, rows)
        except Unreachable:
            return False
        except Refused:
            return self._deliver_one_by_one(store, rows)
        self._remove([row[0] for row in rows])
        return len(rows) == AT_ONCE

    def _deliver_one_by_one(self, store: Store, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Delivers writes one by one, up to the first that the store refuses.

        That one is tried again later, or becomes a dead letter.
        """
        for row in rows:
            try:
                self._write(store, [row])
            except Unreachable:
                return False
            except Refused as error:
                return self._note_refusal(store, row, str(error))
            self._remove([row[0]])
        return True

    def _note_refusal(self, store: Store, row: tuple[Any, ...], reason: str) -> bool:
        attempts = int(row[7]) + 1
        self.database.begin()
        self._delete([row[0]])
        name = self._dead_letters if attempts >= ATTEMPTS else self._outbox
        self.database.insert(name, len(_COLUMNS), [(*row[:7], attempts, reason)])
        self.database.commit()
        if attempts < ATTEMPTS:
            store.defer()
        return attempts >= ATTEMPTS

    def _write(self, store: Store, rows: Sequence[tuple[Any, ...]]) -> None:
        with store.opened() as there:
            there.begin()
            for row in rows:
                text, order = self._text(store, row[4], there)
                values = loaded(row[5])
                encoders = [encoder_of(value, there) for value in values]
                sent = converted(values, encoders)
                there.execute_bound(text, [sent[place] for place in order])
            there.commit()

    def _text(self, store: Store, text: str, there: Database) -> tuple[str, list[int]]:
        key = (store.name, text)
        if key not in self._texts:
            sql = statement.update(text, there)
            self._texts[key] = there.parameterize(sql.tree, sql.count)
        return self._texts[key]

    def _remove(self, numbers: Sequence[int]) -> None:
        self.database.begin()
        self._delete(numbers)
        self.database.commit()

    def _delete(self, numbers: Sequence[int]) -> None:
        listed = ", ".join(str(int(number)) for number in numbers)
        self.database.execute(f"DELETE FROM {self._outbox} WHERE {self.database.quoted('number')} IN ({listed})")

    def _rows(self, name: str, store: str | None = None) -> list[tuple[Any, ...]]:
        columns = ", ".join(map(self.database.quoted, _COLUMNS))
        rows = self.database.fetch(f"SELECT {columns} FROM {name} ORDER BY {self.database.quoted('number')}")
        return [tuple(row) for row in rows if store is None or row[2].lower() == store.lower()]


def _dead_letter(row: tuple[Any, ...]) -> DeadLetter:
    _, name, store, query, text, values, ts, attempts, reason = row
    return DeadLetter(name, store, query, text, loaded(values), ts, attempts, reason)


def encoder_of(value: Any, there: Database) -> Convert | None:
    """The conversion with which a value of this type is bound in this database."""
    kind = type_of_value(value)
    return there.encoder(Attribute("value", kind)) if kind else None
