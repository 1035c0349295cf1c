"""Your own queries over your own events: the same pushes on several databases.

The events, the first MOST of the files, are pushed again and again, each time with later timestamps. The first time
fills the windows and is not measured. Before that, the first events are pushed in every way, which must give the same
results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.bench.experiment import DifferenceError, ExperimentSettings, Measurement, Progress, first_difference
from bridge.bench.report import without_password
from bridge.bench.systems import EventRun, Push, ResultRows, drop, groups_in_turns, measure_runs, rows_of
from bridge.engine.connect import connect
from bridge.errors import BridgeError, SourceError
from bridge.sources.merge import Chunk, merge, row_count
from bridge.sources.options import HistoryOptions
from windows.schema import Schema

if TYPE_CHECKING:
    from bridge.history.script import ReplayScript

MOST = 100_000
"""The greatest number of events that are read."""

CHECKED = 500
"""The number of events in the check."""

FILL = 10_000
"""The number of events in a push that is not measured."""

SETTLING = 3
"""The number of further pushes that are not measured; they purge the rows that large pushes have left."""

RELATIVE = 1e-9
"""Doubles that differ by less, relative to the greater one, are equal, as a sum depends on the order of its terms."""


@dataclasses.dataclass(frozen=True)
class OwnEvents:
    """The events of each stream, whose first column is `ts`, and the schemas that no script declares."""

    tables: Mapping[str, pa.Table]
    schemas: Mapping[str, Schema]

    @classmethod
    def read(cls, script: ReplayScript, paths: Mapping[str, str], reading: HistoryOptions) -> OwnEvents:
        """Reads the first MOST events of the files. Raises SourceError, also if there are none."""
        from bridge.history.replay import open_sources
        from bridge.history.script import inferred_schemas

        sources = open_sources(script, paths, reading)
        chunks: list[Chunk] = []
        for chunk in merge({name: source.tables(None) for name, source in sources.items()}):
            chunks.append(chunk)
            if sum(map(row_count, chunks)) >= MOST:
                break
        found = {name: [chunk[name] for chunk in chunks if name in chunk] for name in sources}
        tables = {name: pa.concat_tables(parts) for name, parts in found.items() if parts}
        if not tables:
            raise SourceError(f"there are no events in {', '.join(paths.values())}")
        return cls(tables, inferred_schemas(script, sources)).first(MOST)

    def first(self, count: int) -> OwnEvents:
        """The first events in the order of time."""
        return dataclasses.replace(self, tables=self.between(0, count))

    @functools.cached_property
    def _places(self) -> dict[str, np.ndarray]:
        """The places of each stream's events in the order of all events.

        Equal timestamps are in the order of the streams.
        """
        times = [table.column(0).to_numpy() for table in self.tables.values()]
        order = np.argsort(np.concatenate(times), kind="stable")
        places = np.empty(len(order), "int64")
        places[order] = np.arange(len(order))
        ends = np.cumsum([len(each) for each in times])[:-1]
        return dict(zip(self.tables, np.split(places, ends), strict=True))

    @property
    def count(self) -> int:
        """The number of events."""
        return sum(table.num_rows for table in self.tables.values())

    @functools.cached_property
    def span(self) -> int:
        """The milliseconds by which the times of the events are increased each time they are pushed again."""
        times = [table.column(0) for table in self.tables.values()]
        return int(max(pc.max(each).as_py() for each in times) - min(pc.min(each).as_py() for each in times) + 1)

    def between(self, start: int, stop: int, later: int = 0) -> Chunk:
        """The events from one place to before another, with times `later` milliseconds later."""
        chunk = {}
        for name, places in self._places.items():
            first, end = np.searchsorted(places, (start, stop))
            if first < end:
                rows = self.tables[name].slice(first, end - first)
                chunk[name] = rows.set_column(0, rows.field(0), pc.add(rows.column(0), later)) if later else rows
        return chunk

    def at(self, place: int, later: int = 0) -> tuple[str, dict[str, Any], int]:
        """One event: its stream, its payload and its timestamp."""
        ((name, rows),) = self.between(place, place + 1).items()
        (payload,) = rows.to_pylist()
        return name, payload, payload.pop(rows.column_names[0]) + later


@dataclasses.dataclass(frozen=True)
class OwnSystem:
    """A database, with `drive` events per push."""

    database: str
    drive: int
    script: ReplayScript
    events: OwnEvents

    @property
    def name(self) -> str:
        return f"{self.drive:,} at a time"

    def open(self, collect: Callable[[str, Any], None] = drop) -> OwnRun:
        """Starts the queries. `collect(query, results)` receives events or Arrow tables."""
        cep = connect(self.database, durable=False)
        try:
            self.script.install(cep, self.events.schemas)
            for name in self.script.queries:
                cep.add_output_processor(name, functools.partial(collect, name), batch=self.drive > 1)
        except BaseException:
            cep.close()
            raise
        return OwnRun(cep, self.events, self.drive)

    def rows(self) -> ResultRows:
        """The results of each query over the first events, sorted."""
        found: ResultRows = {name: [] for name in self.script.queries}
        checked = dataclasses.replace(self, events=self.events.first(CHECKED))
        with contextlib.closing(checked.open(lambda name, results: found[name].extend(rows_of(results)))) as run:
            pushed = 0
            while pushed < checked.events.count:
                pushed += run.next(checked.events.count)()
        return {name: sorted(rows, key=_order) for name, rows in found.items()}


class OwnRun(EventRun):
    """The queries on a database. After the last event comes the first one again, with a later timestamp."""

    def __init__(self, cep: Any, events: OwnEvents, drive: int) -> None:
        self.cep, self.events, self.drive, self.place = cep, events, drive, 0

    def close(self) -> None:
        self.cep.close()

    def warm_up(self) -> None:
        while self.place < self.events.count:
            self._batch(FILL)()
        for _ in range(SETTLING):
            self.next(self.drive)()

    def next(self, most: int) -> Push:
        if self.drive > 1:
            return self._batch(self.batch(most))
        event = self.events.at(self.place % self.events.count, self._later)
        self.place += 1

        def push() -> int:
            self.cep.push_event(*event)
            return 1

        return push

    def batch(self, most: int) -> int:
        return min(most, self.drive, self.events.count)

    @property
    def _later(self) -> int:
        return self.place // self.events.count * self.events.span

    def _batch(self, most: int) -> Push:
        """A push of at most `most` events, which ends at the last event."""
        start = self.place % self.events.count
        chunk = self.events.between(start, start + most, self._later)
        count = row_count(chunk)
        self.place += count

        def push() -> int:
            self.cep.push_tables(chunk)
            return count

        return push


def measure(
    title: str, systems: Sequence[OwnSystem], settings: ExperimentSettings, progress: Progress
) -> Iterator[Measurement]:
    """Measures the systems, after comparing their results.

    Raises DifferenceError if two systems give different results, and the database's error if all refuse the queries.
    """
    refused = check(systems, progress)
    if len(refused) == len(systems):
        raise refused[0][1]
    for system, error in refused:
        reason = str(error).splitlines()[0]
        yield Measurement(title, len(system.script.queries), system.database, system.name, refused=reason)
    out = [system for system, _ in refused]
    groups = list(groups_in_turns([system for system in systems if system not in out]))
    for done, group in enumerate(groups):
        progress(f"{title}, {group[0].database}", done / len(groups))
        timings = measure_runs([system.open for system in group], settings.seconds, settings.runs)
        for system, timing in zip(group, timings, strict=True):
            count, place = len(system.script.queries), (system.database, system.name)
            yield Measurement(title, count, *place, timing.rates, timing.batch, latency=timing.latency)


def check(systems: Sequence[OwnSystem], progress: Progress) -> list[tuple[OwnSystem, BridgeError]]:
    """The errors of the systems that refuse the queries. Raises DifferenceError if two of the others differ."""
    expected: ResultRows | None = None
    refused = []
    for done, system in enumerate(systems):
        progress(f"check {system.database}, {system.name}", done / len(systems))
        try:
            rows = system.rows()
        except BridgeError as error:
            refused.append((system, error))
            continue
        expected = expected or rows
        if wrong := first_difference(expected, rows, are_equal=_is_close):
            raise DifferenceError(f"{without_password(system.database)}, {system.name}: {wrong}")
    return refused


def _is_close(one: Any, other: Any) -> bool:
    """Whether two values are equal but for the last digits of doubles.

    >>> _is_close(0.1 + 0.2, 0.3), _is_close(0.3, 0.4), _is_close(None, None)
    (True, False, True)
    """
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE) or one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def _order(row: tuple[Any, ...]) -> list[Any]:
    """The sort key of a row. Doubles come last, because they may differ in the last digits."""
    keys = [(value is not None, value if isinstance(value, (int, float)) else str(value)) for value in row]
    return sorted(keys, key=lambda key: isinstance(key[1], float))
