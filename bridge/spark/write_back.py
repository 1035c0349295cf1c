"""What a script writes, written by the driver once all of it is computed."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.errors import DatabaseError
from bridge.query.scripts import IntoTable, UpdateSQL
from bridge.rewrite.write_requests import WriteNode
from bridge.sources.relations import create_relation, drop_relation
from bridge.spark.writes import IN_MEMORY, _opened
from bridge.stores import statement
from bridge.stores.check import RESULT_ID
from bridge.stores.outbox import encoder_of
from bridge.stores.statement import converted, loaded
from bridge.stores.store import Store, Unreachable
from bridge.stores.write import made
from windows.databases import Database, Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bridge.spark.pieces import Replay


class Letter(NamedTuple):
    """One write, in the order of all: of which writer, for which row, with which values."""

    ts: int
    seq: int
    writer: int
    place: int
    values: list[Any]


class Target:
    """A database that is written, and by which writers: their statements as it takes them."""

    def __init__(self, store: Store, run: str) -> None:
        self.store, self.run = store, run
        self.texts: dict[int, tuple[str, list[int], WriteNode]] = {}

    def take(self, number: int, writer: WriteNode, kinds: Mapping[str, str]) -> None:
        """Another writer; `kinds`: the columns of its rows, if it fills a table."""
        there = self.store.database()
        if isinstance(writer, UpdateSQL):
            sql = statement.update(writer.statement, there)
            self.texts[number] = (*there.parameterize(sql.tree, sql.count), writer)
            return
        names = made(writer.table, kinds, there)
        columns, marks = ", ".join(map(there.quoted, names)), ", ".join([there.placeholder] * len(names))
        places = {name.lower(): place for place, name in enumerate(kinds)}
        text = f"INSERT INTO {'.'.join(map(there.quoted, writer.table.split('.')))} ({columns}) VALUES ({marks})"
        self.texts[number] = (text, [places[name.lower()] for name in names], writer)

    def write(self, all_letters: Iterator[Letter]) -> None:
        """All letters of the run that the database has not taken yet, in their order."""
        self._insist(self._prepare)
        for start in itertools.count(step=AT_ONCE):
            chunk = list(itertools.islice(all_letters, AT_ONCE))
            if not chunk:
                return
            self._insist(lambda there, start=start, chunk=chunk: self._take(there, start, chunk))

    def _prepare(self, there: Database) -> None:
        if there.relation(RUNS) is None:
            there.execute(f"CREATE TABLE {RUNS} (run VARCHAR(200), letters BIGINT)")
        if self._done(there) is None:
            there.begin()
            there.execute_bound(f"INSERT INTO {RUNS} VALUES ({there.placeholder}, {there.placeholder})", [self.run, 0])
            there.commit()

    def _done(self, there: Database) -> int | None:
        found = there.fetch_bound(f"SELECT letters FROM {RUNS} WHERE run = {there.placeholder}", [self.run])
        return int(found[0][0]) if found else None

    def _take(self, there: Database, start: int, chunk: list[Letter]) -> None:
        there.begin()
        done = self._done(there) or 0
        for letter in chunk[max(0, done - start) :]:
            text, order, writer = self.texts[letter.writer]
            values = list(letter.values)
            for place, parameter in enumerate(writer.parameters if isinstance(writer, UpdateSQL) else ()):
                if parameter.name == RESULT_ID and values[place] is None:
                    values[place] = "/".join([writer.writer, *map(str, (letter.ts, letter.seq, letter.place))])
            sent = converted(values, [encoder_of(value, there) for value in values])
            there.execute_bound(text, [sent[place] for place in order])
        if done < start + len(chunk):
            there.execute_bound(
                f"UPDATE {RUNS} SET letters = {there.placeholder} WHERE run = {there.placeholder}",
                [start + len(chunk), self.run],
            )
        there.commit()

    def _insist(self, do: Any) -> None:
        """Again and again while the database does not answer."""
        for attempt in range(PATIENCE):
            while self.store.resting:
                time.sleep(0.01)
            try:
                with self.store.asked() as there:
                    do(there)
                return
            except Unreachable as error:
                if attempt == PATIENCE - 1:
                    raise DatabaseError(self._told(error)) from None
            except Refused as error:
                raise DatabaseError(self._told(error)) from None

    def _told(self, error: Exception) -> str:
        return f"{self.store.name}: {error} (what it has taken is kept: a replay with run={self.run!r} goes on there)"


def write(replay: Replay, run: str) -> None:
    """Writes what the script writes, each database's letters in the order of the events."""
    numbers = {name: number for number, name in enumerate(replay.writes.writers)}
    with contextlib.ExitStack() as stack:
        targets: dict[str | None, Target] = {}
        for name, writer in replay.writes.writers.items():
            there = None if isinstance(writer, IntoTable) else writer.store
            if there is None and replay.database in IN_MEMORY:
                del numbers[name]
                continue
            if there not in targets:
                targets[there] = Target(_store(there, replay, stack), run)
            targets[there].take(numbers[name], writer, replay.writes.kinds[name])
        if targets:
            frame = _letters(replay, numbers, stack)
            for target in targets.values():
                target.write(_ordered(frame, target.texts))


def _store(name: str | None, replay: Replay, stack: contextlib.ExitStack) -> Store:
    """A data store; without a name the bridge's own database, in which the relations stand as long as it is written."""
    if name is None:
        home = stack.enter_context(_opened(replay.database))
        for relation, rows in replay.given.items():
            create_relation(home, relation, rows)
            stack.callback(drop_relation, home, relation)
        return Store("the database", home)
    target = next(url for known, url in replay.stores.items() if known.lower() == name.lower())
    store = Store(name, target)
    stack.callback(store.close)
    return store


def _letters(replay: Replay, numbers: Mapping[str, int], stack: contextlib.ExitStack) -> DataFrame:
    """All letters, computed once, on all cores."""
    frames = []
    for group in replay.grouped(numbers):
        task, pieces = replay.task(group)
        made = task.letters({name: numbers[name] for name in group.names})
        frames.append(pieces.mapInArrow(made, "ts long, seq long, writer long, place long, row string").persist())
        stack.callback(frames[-1].unpersist)
    return functools.reduce(lambda a, b: a.unionByName(b), frames)


def _ordered(frame: DataFrame, writers: Iterable[int]) -> Iterator[Letter]:
    """The letters of some writers, brought here part by part."""
    own = frame.where(frame["writer"].isin(list(writers))).orderBy("ts", "seq", "writer", "place")
    for row in own.toLocalIterator():
        yield Letter(row["ts"], row["seq"], row["writer"], row["place"], loaded(row["row"]))


RUNS = "cep_runs"
"""The table of runs, in each database that they write."""


AT_ONCE = 1_000
"""Letters in one transaction."""


PATIENCE = 8
"""So often a database that does not answer is asked again, after 0.1 s, 0.2 s, 0.4 s …"""
