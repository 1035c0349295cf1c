"""Data stores in a replay on Spark: executors read them, this process writes them, in order, once for each run's name.

What a script writes is computed in pieces as its results are (`stores.letters`). How many letters of a run a database has
taken stands in its table `cep_runs`, which each transaction of letters counts on: so a run that is repeated, or that was
killed, goes on where the last commit ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from bridge.engine.connect import connect
from bridge.errors import BridgeError, DatabaseError, QueryError
from bridge.history.pieces import Fanout
from bridge.history.script import Script
from bridge.query.nodes import walk
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.rewrite import letters
from bridge.rewrite.conflicts import conflicts
from bridge.rewrite.letters import Letters, Writer
from bridge.sources.relations import create_relation, drop_relation
from bridge.spark.columns import TIME
from bridge.stores import statement
from bridge.stores.check import RESULT_ID
from bridge.stores.outbox import encoder_of
from bridge.stores.statement import converted, loaded
from bridge.stores.store import Store, Unreachable
from bridge.stores.write import made
from windows.arrow import arrow_type
from windows.databases import Database, Refused, open_database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bridge.engine.bridge import Bridge
    from bridge.spark.events import Events
    from bridge.spark.pieces import Replay

RUNS = "cep_runs"
"""The table of runs, in each database that they write."""

AT_ONCE = 1_000
"""Letters in one transaction."""

PATIENCE = 8
"""So often a database that does not answer is asked again, after 0.1 s, 0.2 s, 0.4 s …"""

IN_MEMORY = ("duckdb://", "sqlite://", "duckdb:///:memory:", "sqlite:///:memory:")
"""Databases that nobody sees when the replay is over."""


class Letter(NamedTuple):
    """One write, in the order of all: of which writer, for which row, with which values."""

    ts: int
    seq: int
    writer: int
    place: int
    values: list[Any]


def run_name(given: str | None) -> str:
    """The name of a run; without one it is a new one, so that all is written."""
    if given is not None and (not isinstance(given, str) or not given.strip() or len(given) > 200):
        raise BridgeError(f"run is a text of 1 to 200 characters, not {given!r}")
    return given or uuid.uuid4().hex


def refuse(script: Script, why: str) -> None:
    """Raises BridgeError where a script reads or writes stored data by SQL."""
    if letters.touches(script.queries):
        raise BridgeError(f"the script reads or writes data stores, {why}")


def refuse_tables(script: Script, way_out: str = "") -> None:
    """Raises QueryError where statements of a script change tables, or variables, that others read."""
    if script.tables:
        raise QueryError(
            f"create table and on … set are not supported on Spark, where events are not taken one after the other{way_out}"
        )


def checked_stores(stores: Mapping[str, Any] | None) -> dict[str, str]:
    """The data stores by name; executors open them themselves, so each is a URL."""
    for name, target in (stores or {}).items():
        if not isinstance(target, str):
            raise BridgeError(f"on Spark the data store {name!r} is given as a URL, which executors can open, too")
        if target in IN_MEMORY:
            raise BridgeError(f"executors cannot see the data store {name!r}: {target} is in this process's memory")
    return dict(stores or {})


def brought(
    script: Script, database: Any, given: Collection[str], ours: Database
) -> tuple[Script, dict[str, pa.Table]]:
    """The script with its SQL in DuckDB's words, and the tables of the bridge's own database that it names.

    Those `given` as relations are there already.
    """
    if database in IN_MEMORY:
        return script, {}
    with _opened(database) as home:
        names = [*letters.own_tables(script.queries, home), *(node.name for node in script.nodes)]
        known = {name.lower() for name in (*script.declared, *script.queries, *given)}
        wanted = [name for name in dict.fromkeys(names) if name.lower() not in known]
        found = {name: rows for name in wanted if (rows := _rows(name, home)) is not None}
        queries = {n: (letters.in_dialect(node, home, ours), text) for n, (node, text) in script.queries.items()}
    return dataclasses.replace(script, queries=queries), found


def _rows(name: str, home: Database) -> pa.Table | None:
    schema = home.relation(name)
    if schema is None:
        return None
    columns = ", ".join(map(home.quoted, schema.names))
    fetched = home.fetch(f"SELECT {columns} FROM {'.'.join(map(home.quoted, name.split('.')))}")
    decoders = [home.decoder(attribute.type) for attribute in schema]
    rows = [converted(row, decoders) for row in fetched]
    arrays = [pa.array([row[place] for row in rows], arrow_type(a.type)) for place, a in enumerate(schema)]
    return pa.Table.from_arrays(arrays, names=schema.names)


def stores_read(script: Script, stores: Mapping[str, str]) -> dict[str, str]:
    """The data stores that executors ask."""
    nodes = (below for tree, _ in script.queries.values() for below in walk(tree))
    asked = {node.store.lower() for node in nodes if isinstance(node, ReadSQL) and node.store is not None}
    return {name: url for name, url in stores.items() if name.lower() in asked}


@dataclasses.dataclass(frozen=True)
class Writes:
    """What a script writes: the writers, by the queries of their letters. `serial`: events go one by one."""

    writers: Mapping[str, Writer]
    serial: bool
    kinds: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    """The columns of the rows that each gets, with `ts`, by the same names."""

    def way(self, name: str, found: Fanout) -> Fanout:
        """How a query can be cut: letters by time alone, as their events are numbered through."""
        if self.serial:
            return Fanout(None, {}, "one event reads what those before it wrote")
        return dataclasses.replace(found, keys={}) if name in self.writers else found

    def learn(self, cep: Bridge) -> None:
        """Notes the columns, of a bridge that has the queries."""
        for name in self.writers:
            node = cep._catalogue.query_entry(name).resolved.node
            assert isinstance(node, Letters)
            self.kinds[name] = {"ts": "BIGINT", **cep._catalogue.types(node.input)}

    def before(self, bounds: Sequence[int] | None, names: Iterable[str], events: Iterable[Events]) -> tuple[int, ...]:
        """How many events there are before each slice, where letters are among the queries in slices."""
        if bounds is None or self.writers.keys().isdisjoint(names):
            return ()
        from pyspark.sql import functions as F  # noqa: N812

        times = functools.reduce(lambda a, b: a.unionByName(b), (one.frame.select(TIME) for one in events))
        parts = [F.count(F.when(F.col(TIME) < bound, 1)) for bound in bounds[:-1]]
        return tuple(times.agg(*parts).first() or ())


NO_WRITES = Writes({}, False)


def separated(replay: Replay) -> tuple[Script, dict[str, pa.Table], Writes]:
    """The script without what it writes, all tables that executors want, and what it writes.

    The whole script is checked first, so that what is wrong with it is told as anywhere else.
    """
    script = replay.script
    if not letters.touches(script.queries):
        return script, replay.given, NO_WRITES
    with connect() as cep:
        replay.script, tables = brought(script, replay.database, replay.given, cep.database)
    replay.relations = {**replay.given, **tables}
    with replay.checked() as cep:
        serial = _is_serial(replay.script, cep)
    queries, writers = letters.split(replay.script.queries, serial)
    return dataclasses.replace(replay.script, queries=queries), replay.relations, Writes(writers, serial)


def _is_serial(script: Script, cep: Bridge) -> bool:
    """Whether events go one by one: a query reads what another one writes, or counts what it changes itself."""
    trees = [cep._catalogue.query_entry(name).resolved.node for name in script.queries]
    updates = [node for tree in trees for node in walk(tree) if isinstance(node, UpdateSQL) and node.store is None]
    alone = all(letters.counts_by_itself(node, cep.database) for node in updates if node.changed)
    return not alone or bool(conflicts(trees, cep.database))


# Writing --------------------------------------------------------------------------------------------------------------


class Target:
    """A database that is written, and by which writers: their statements as it takes them."""

    def __init__(self, store: Store, run: str) -> None:
        self.store, self.run = store, run
        self.texts: dict[int, tuple[str, list[int], Writer]] = {}

    def take(self, number: int, writer: Writer, kinds: Mapping[str, str]) -> None:
        """Another writer; `kinds`: the columns of its rows, if it fills a table."""
        there = self.store.database()
        if isinstance(writer, UpdateSQL):
            sql = statement.update(writer.statement, there)
            self.texts[number] = (*there.marked(sql.tree, sql.count), writer)
            return
        names = made(writer.table, kinds, there)
        columns, marks = ", ".join(map(there.quoted, names)), ", ".join([there.mark] * len(names))
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
            there.bind(f"INSERT INTO {RUNS} VALUES ({there.mark}, {there.mark})", [self.run, 0])
            there.commit()

    def _done(self, there: Database) -> int | None:
        found = there.ask(f"SELECT letters FROM {RUNS} WHERE run = {there.mark}", [self.run])
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
            there.bind(text, [sent[place] for place in order])
        if done < start + len(chunk):
            there.bind(
                f"UPDATE {RUNS} SET letters = {there.mark} WHERE run = {there.mark}", [start + len(chunk), self.run]
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


@contextlib.contextmanager
def _opened(database: Any) -> Iterator[Database]:
    if isinstance(database, Database):
        yield database
        return
    home = open_database(database)
    try:
        yield home
    finally:
        home.close()
