"""The writes of a script, which the driver executes after all results are computed."""

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
from bridge.spark.writes import open_home
from bridge.stores import statement
from bridge.stores.check import RESULT_ID
from bridge.stores.outbox import encoder_of
from bridge.stores.statement import loaded
from bridge.stores.store import Store, Unreachable
from bridge.stores.write import ensure_table
from windows.databases import Database, Refused
from windows.databases.urls import is_in_memory
from windows.values import converted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bridge.spark.piecewise import Replay


class WriteRequest(NamedTuple):
    """One write: the row that it is for, the number of its writer, and its values; write requests are ordered."""

    ts: int
    seq: int
    writer: int
    place: int
    values: list[Any]


class WriteTarget:
    """A database that writers write to.

    `texts`: the statement of each writer, the order of its values, and the writer.
    """

    def __init__(self, store: Store, run: str) -> None:
        self.store, self.run = store, run
        self.texts: dict[int, tuple[str, list[int], WriteNode]] = {}

    def add(self, number: int, writer: WriteNode, kinds: Mapping[str, str]) -> None:
        """Adds a writer. `kinds`: the columns of its rows, if it fills a table."""
        there = self.store.database()
        if isinstance(writer, UpdateSQL):
            sql = statement.update(writer.statement, there)
            self.texts[number] = (*there.parameterize(sql.tree, sql.count), writer)
            return
        names = ensure_table(writer.table, kinds, there)
        columns, marks = ", ".join(map(there.quoted, names)), ", ".join([there.placeholder] * len(names))
        places = {name.lower(): place for place, name in enumerate(kinds)}
        text = f"INSERT INTO {'.'.join(map(there.quoted, writer.table.split('.')))} ({columns}) VALUES ({marks})"
        self.texts[number] = (text, [places[name.lower()] for name in names], writer)

    def write(self, requests: Iterator[WriteRequest]) -> None:
        """Writes all requests of the run that the database does not have yet, in order."""
        self._retry(self._prepare)
        for start in itertools.count(step=AT_ONCE):
            chunk = list(itertools.islice(requests, AT_ONCE))
            if not chunk:
                return
            self._retry(lambda there, start=start, chunk=chunk: self._take(there, start, chunk))

    def _prepare(self, there: Database) -> None:
        if there.relation(RUNS) is None:
            there.execute(f"CREATE TABLE {RUNS} (run VARCHAR(200), {REQUESTS_COLUMN} BIGINT)")
        if self._number_written(there) is None:
            there.begin()
            there.execute_bound(f"INSERT INTO {RUNS} VALUES ({there.placeholder}, {there.placeholder})", [self.run, 0])
            there.commit()

    def _number_written(self, there: Database) -> int | None:
        found = there.fetch_bound(f"SELECT {REQUESTS_COLUMN} FROM {RUNS} WHERE run = {there.placeholder}", [self.run])
        return int(found[0][0]) if found else None

    def _take(self, there: Database, start: int, chunk: list[WriteRequest]) -> None:
        there.begin()
        done = self._number_written(there) or 0
        for request in chunk[max(0, done - start) :]:
            text, order, writer = self.texts[request.writer]
            values = list(request.values)
            for place, parameter in enumerate(writer.parameters if isinstance(writer, UpdateSQL) else ()):
                if parameter.name == RESULT_ID and values[place] is None:
                    values[place] = "/".join([writer.writer, *map(str, (request.ts, request.seq, request.place))])
            sent = converted(values, [encoder_of(value, there) for value in values])
            there.execute_bound(text, [sent[place] for place in order])
        if done < start + len(chunk):
            there.execute_bound(
                f"UPDATE {RUNS} SET {REQUESTS_COLUMN} = {there.placeholder} WHERE run = {there.placeholder}",
                [start + len(chunk), self.run],
            )
        there.commit()

    def _retry(self, do: Any) -> None:
        """Calls `do` with the database, again while it does not answer. Raises DatabaseError."""
        for attempt in range(PATIENCE):
            while self.store.resting:
                time.sleep(0.01)
            try:
                with self.store.opened() as there:
                    do(there)
                return
            except Unreachable as error:
                if attempt == PATIENCE - 1:
                    raise DatabaseError(self._message(error)) from None
            except Refused as error:
                raise DatabaseError(self._message(error)) from None

    def _message(self, error: Exception) -> str:
        return (
            f"{self.store.name}: {error} (what was written stays; a replay with run={self.run!r} continues from there)"
        )


def write(replay: Replay, run: str) -> None:
    """Executes the writes of a script, in each database in the order of the events."""
    numbers = {name: number for number, name in enumerate(replay.job.writes.writers)}
    with contextlib.ExitStack() as stack:
        targets: dict[str | None, WriteTarget] = {}
        for name, writer in replay.job.writes.writers.items():
            there = None if isinstance(writer, IntoTable) else writer.store
            if there is None and is_in_memory(replay.job.database):
                del numbers[name]
                continue
            if there not in targets:
                targets[there] = WriteTarget(_store(there, replay, stack), run)
            targets[there].add(numbers[name], writer, replay.job.writes.kinds[name])
        if targets:
            frame = _write_requests(replay, numbers, stack)
            for target in targets.values():
                target.write(_in_order(frame, target.texts))


def _store(name: str | None, replay: Replay, stack: contextlib.ExitStack) -> Store:
    """A data store by its name; None: the bridge's database, which has the relations while it is written."""
    if name is None:
        home = stack.enter_context(open_home(replay.job.database))
        for relation, rows in replay.job.given_relations.items():
            create_relation(home, relation, rows)
            stack.callback(drop_relation, home, relation)
        return Store("the database", home)
    target = next(url for known, url in replay.job.stores.items() if known.lower() == name.lower())
    store = Store(name, target)
    stack.callback(store.close)
    return store


def _write_requests(replay: Replay, numbers: Mapping[str, int], stack: contextlib.ExitStack) -> DataFrame:
    """All write requests, computed once on all cores."""
    frames = []
    for group in replay.groups(numbers):
        task, pieces = replay.task(group)
        requests = task.write_requests({name: numbers[name] for name in group.names})
        frames.append(pieces.mapInArrow(requests, "ts long, seq long, writer long, place long, row string").persist())
        stack.callback(frames[-1].unpersist)
    return functools.reduce(lambda a, b: a.unionByName(b), frames)


def _in_order(frame: DataFrame, writers: Iterable[int]) -> Iterator[WriteRequest]:
    """The requests of some writers, in order, collected partition by partition."""
    own = frame.where(frame["writer"].isin(list(writers))).orderBy("ts", "seq", "writer", "place")
    for row in own.toLocalIterator():
        yield WriteRequest(row["ts"], row["seq"], row["writer"], row["place"], loaded(row["row"]))


RUNS = "cep_runs"
"""The table of runs in each database that they write to, with the number of requests that were written."""


REQUESTS_COLUMN = "letters"
"""The column of that number; existing tables have it under this name."""


AT_ONCE = 1_000
"""The number of requests in one transaction."""


PATIENCE = 8
"""The number of attempts to reach a database, after 0.1 s, 0.2 s, 0.4 s, …"""
