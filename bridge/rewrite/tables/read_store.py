"""The step of a ReadSQL that is not one statement of the bridge's database: it queries a store, per row or for many."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridge.query.scripts import ReadSQL
from bridge.rewrite.network import Network
from bridge.stores.outbox import DeadLetter
from bridge.stores.statement import Sql, dumped, joins, loaded
from bridge.stores.store import Answers, ParameterizedSelect, Store, Unreachable, Values
from windows.arrow import arrow_type
from windows.databases import Database, Refused
from windows.schema import Attribute, Reader, Schema, TypeMismatch
from windows.times import NEVER
from windows.values import Convert, converted

NO_ANSWER = "the data store did not answer to the end"


@dataclasses.dataclass
class StoreConversion:
    """Conversions of values on their way to a store and back; values of the bridge's own database are not converted."""

    select: ParameterizedSelect
    store: Store | None
    there: Sequence[Convert | None]
    here: Sequence[Convert | None]
    reader: Reader | None
    encoders: Sequence[Convert | None]
    kinds: Sequence[Any] = ()

    @classmethod
    def of(cls, node: ReadSQL, sql: Sql, kinds: Sequence[str], network: Network) -> StoreConversion:
        wanted = [name for name, _ in node.typed]
        if node.store is None:
            nothing = [None] * len(kinds)
            select = ParameterizedSelect(sql, wanted, nothing, network.database, at_once=False)
            return cls(select, None, nothing, [], None, [])
        store = network.stores.find(node.store)
        there = store.database()
        encoders = [there.encoder(Attribute("value", kind)) if kind != "UNKNOWN" else None for kind in kinds]
        arrows = [None if encode else arrow_type(kind) for encode, kind in zip(encoders, kinds, strict=True)]
        select = ParameterizedSelect(sql, wanted, arrows, there, joins(sql, left=False))
        schema = Schema(tuple(Attribute(f"c{place}", kind) for place, (_, kind) in enumerate(node.typed)))
        return cls(
            select,
            store,
            [_both(network.database.decoder(k), e) for k, e in zip(kinds, encoders, strict=True)],
            [there.decoder(kind) for _, kind in node.typed],
            Reader.of(schema),
            [network.database.encoder(attribute) for attribute in schema],
        )

    def back(self, row: Values) -> list[Any]:
        """A row of the store as the bridge's database takes it. Raises TypeMismatch for a value of another type."""
        if self.reader is None:
            return list(row)
        return converted(list(self.reader.row(converted(row, self.here))), self.encoders)


@dataclasses.dataclass
class Read:
    """A step that reads a store for the rows of this push, and for earlier rows that waited for it.

    Rows that a store refuses go to the dead letters. While it does not answer, rows wait in a table.
    """

    node: ReadSQL
    conversion: StoreConversion
    table: str
    arrived: str
    results: str
    waiting: str | None
    width: int
    network: Network
    cache: str | None = None
    """The table of stored answers: their time, the values that were asked for, and the rows, as JSON."""
    cached: dict[Values, tuple[int, list[Values]]] | None = None

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Reads for this push. Results for rows that waited come before all events of the newest time."""
        rows = database.fetch(self.arrived)
        late = sorted(database.fetch(f"SELECT * FROM {self.waiting}"), key=_moment) if self.waiting else []
        if not rows and not late:
            return
        answers = self._answers([*late, *rows], now, database)
        if answers is None:
            self._wait(rows, database, final)
            return
        if late:
            database.execute(f"DELETE FROM {self.waiting}")
        done = [*((row, row[0], row[1]) for row in rows), *((row, now, 0) for row in late)]
        found = [result for row, ts, number in done for result in self._results(row, answers, ts, number)]
        if found:
            database.insert(self.results, len(found[0]), _numbered(found))

    def give_up(self, database: Database) -> None:
        """Makes dead letters of the rows that still wait."""
        if self.waiting:
            for row in database.fetch(f"SELECT * FROM {self.waiting}"):
                self._add_dead_letter(self._parameters(row), NO_ANSWER)
            database.execute(f"DELETE FROM {self.waiting}")

    def forget(self) -> None:
        """Forgets the cached answers, which are read again from their table when needed."""
        self.cached = None

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The rows that it reads for, and its SQL."""
        where = f"the data store {self.node.store}" if self.node.store else "this database"
        how = "for many rows at once" if self.conversion.select.at_once else "for each row"
        return f"-- {where} is queried {how}:\n--   {' '.join(self.node.statement.split())}\n{pretty(self.arrived)};"

    # Queries ------------------------------------------------------------------------------------------------------------

    def _answers(self, rows: Sequence[Values], now: int, database: Database) -> Answers | None:
        """The answer for each row's values; None if the store does not answer."""
        sets = list(dict.fromkeys(self._parameters(row) for row in rows))
        cached = self._fresh(now, database)
        fresh = {key: cached[key][1] for key in sets if key in cached}
        others = [key for key in sets if key not in fresh]
        try:
            answers = {**fresh, **self._ask(others, database)} if others else fresh
        except Unreachable:
            return None
        if self.cache is not None and others:
            new = {key: (now, answers[key]) for key in others if key in answers}
            self.cached = {**cached, **new}
            rows = [(at, dumped(key), dumped([dumped(row) for row in found])) for key, (at, found) in new.items()]
            database.execute(
                f"DELETE FROM {self.cache} WHERE {database.quoted('at')} <= {now - (self.node.cache or 0)}"
            )
            database.insert(self.cache, 3, rows)
        return answers

    def _fresh(self, now: int, database: Database) -> dict[Values, tuple[int, list[Values]]]:
        """The cached answers that are still fresh, by the values that were asked for."""
        if self.cache is None or self.node.cache is None:
            return {}
        if self.cached is None:
            stored = database.fetch(f"SELECT * FROM {self.cache}")
            self.cached = {
                tuple(loaded(key)): (int(at), [tuple(loaded(row)) for row in loaded(found)])
                for at, key, found in stored
            }
        return {key: answer for key, answer in self.cached.items() if now - answer[0] < self.node.cache}

    def _ask(self, sets: list[Values], database: Database) -> Answers:
        store = self.conversion.store
        if store is None:
            return self.conversion.select.answers(sets, database)
        by_sent = {tuple(converted(key, self.conversion.there)): key for key in sets}
        try:
            with store.opened() as there:
                found = self.conversion.select.answers(list(by_sent), there)
        except Refused:
            found = self._ask_each(by_sent, store)
        return {by_sent[sent]: answer for sent, answer in found.items()}

    def _ask_each(self, by_sent: Mapping[Values, Values], store: Store) -> Answers:
        """Queries for one row at a time after the store has refused all together; a refused row has no answer."""
        found: Answers = {}
        for sent, values in by_sent.items():
            try:
                with store.opened() as there:
                    found[sent] = self.conversion.select.answers([sent], there)[sent]
            except Refused as error:
                self._add_dead_letter(values, str(error))
        return found

    def _add_dead_letter(self, values: Values, reason: str) -> None:
        letter = DeadLetter("", self.node.store or "", self.node.table, self.node.statement, list(values), 0, 1, reason)
        self.network.outbox.add_dead_letter(letter)

    # Results ------------------------------------------------------------------------------------------------------------

    def _parameters(self, row: Values) -> Values:
        return tuple(row[3 + self.width :])

    def _results(self, row: Values, answers: Answers, ts: int, seq: int) -> list[Values]:
        """The row with each row of its answer; the first columns are ts, seq, expiry and place."""
        answer = answers.get(self._parameters(row))
        if answer is None:
            return []
        given = row[3 : 3 + self.width]
        results: list[Values] = []
        for read in answer:
            try:
                results.append((ts, seq, NEVER, row[2], *given, *self.conversion.back(read)))
            except TypeMismatch as error:
                self._add_dead_letter(self._parameters(row), f"{error}: {read!r}")
        if not answer and self.node.left:
            results.append((ts, seq, NEVER, row[2], *given, *[None] * len(self.node.columns)))
        return results

    def _wait(self, rows: Sequence[Values], database: Database, final: bool) -> None:
        """Lets rows wait for the store; if no event will follow, they become dead letters."""
        if final:
            self.give_up(database)
            for row in rows:
                self._add_dead_letter(self._parameters(row), NO_ANSWER)
            return
        assert self.waiting is not None
        if rows:
            database.insert(self.waiting, len(rows[0]), rows)


def _both(first: Convert | None, second: Convert | None) -> Convert | None:
    if first is None or second is None:
        return first or second
    return lambda value: second(first(value))


def _moment(row: Values) -> Values:
    """The ts, seq and place of a row."""
    return tuple(row[:3])


def _numbered(found: Sequence[Values]) -> list[Values]:
    """The rows, with their places among the rows of one event: in the order of the input, then of the answer."""
    numbered, before, place = [], None, 0
    for row in found:
        place = place + 1 if row[:2] == before else 1
        before = row[:2]
        numbered.append((*row[:3], place, *row[4:]))
    return numbered
