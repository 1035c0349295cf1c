"""The status of a bridge and its queries, as plain objects that can be printed: `cep.status()`."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

from bridge.engine.catalogue import QueryEntry
from bridge.engine.execution.runner import Runner
from bridge.engine.named_processors import table_of_results
from bridge.engine.watch.watched_table import TableStatus
from bridge.errors import quantity
from bridge.query.nodes import walk
from bridge.query.scripts import ReadSQL
from windows.times import BEGINNING

STATEMENTS = 1_000
"""The greatest number of statements whose times are kept; texts that contain an event's values do not recur."""


@dataclasses.dataclass
class StatementTimes:
    """The number of runs of a statement, their total time in seconds, and their rows.

    >>> import bridge
    >>> with bridge.connect() as cep:
    ...     cep.add_tracer(lambda sql, seconds, rows: None)
    ...     rows = cep.query("SELECT 1 AS a")
    ...     times = cep.status().statements["SELECT 1 AS a"]
    >>> times.runs, times.rows, times.seconds > 0
    (2, 1, True)
    """

    runs: int = 0
    seconds: float = 0.0
    rows: int = 0


class Times:
    """A tracer that adds up the times of each statement."""

    def __init__(self) -> None:
        self.statements: dict[str, StatementTimes] = {}
        self._lock = threading.Lock()

    def __call__(self, sql: str, seconds: float, rows: int | None) -> None:
        with self._lock:
            times = self.statements.get(sql)
            if times is None:
                if len(self.statements) >= STATEMENTS:
                    return
                times = self.statements[sql] = StatementTimes()
            times.runs += 1
            times.seconds += seconds
            times.rows += rows or 0


@dataclasses.dataclass(frozen=True)
class QueryStatus:
    """The figures of a continuous query.

    processors: The number of its output processors here, including named ones. events: Events of its streams since the
    bridge was opened. results: Results delivered to its processors since then; of several named processors the greatest
    number. A query without a processor reports none. state_rows: The rows of its tables, which other queries may share.
    seconds: The time of its result statements, None without a tracer; a statement that several queries share counts for
    each. last_error: The last error of a processor or of the query itself. stopped: The error that has stopped it
    (`on_error`). skipped: The number of pushes that it has not taken part in. waits_for: The events that its results
    wait for, in words. next_deadline: When time alone may bring a result. table: The table that its results are written
    into (`into`).

    >>> import bridge
    >>> with bridge.connect() as cep:
    ...     cep.create_query("total", "SELECT SUM(a) AS total FROM s[a: INTEGER] WINDOW(RANGE 5 S)")
    ...     cep.push_event("s", [7], 1000)
    ...     total = cep.status().queries["total"]
    >>> total.language, total.events, total.state_rows
    ('sql', 1, 1)
    """

    name: str
    language: str
    streams: tuple[str, ...]
    processors: int
    events: int
    results: int
    state_rows: int
    seconds: float | None
    last_error: str | None
    stopped: str | None = None
    skipped: int = 0
    waits_for: tuple[str, ...] = ()
    next_deadline: int | None = None
    table: str | None = None

    def __str__(self) -> str:
        delivered = f"{quantity(self.results, 'result')} to {quantity(self.processors, 'processor')}, "
        table = f"results in the table {self.table}, " if self.table else ""
        seconds = "" if self.seconds is None else f", {self.seconds:.3f} s"
        error = f"\n    last error: {self.last_error}" if self.last_error and not self.stopped else ""
        error += f"\n    skipped {self.skipped} pushes" if self.skipped else ""
        error += f"\n    stopped: {self.stopped}" if self.stopped else ""
        error += "".join(f"\n    waits for {what}" for what in self.waits_for)
        return (
            f"{self.name} ({self.language}): {quantity(self.events)} of {', '.join(self.streams)}, "
            f"{table if table and not self.processors else delivered + table}"
            f"{quantity(self.state_rows, 'row')} of state{seconds}{error}"
        )


@dataclasses.dataclass(frozen=True)
class Status:
    """The figures of a bridge; `print` it.

    now: The newest time seen. watermark: The time before which no event is accepted. seq: The number of all events so
    far. waiting: The number of events in the reorder buffer. last_error: The last error of a method of the bridge.
    statements: Runs, seconds and rows by statement, if there is a tracer. tables: How far the watched tables have been
    read.

    >>> import bridge
    >>> with bridge.connect() as cep:
    ...     cep.register_stream("s", "a INTEGER")
    ...     cep.push_event("s", [7], 1000)
    ...     status = cep.status()
    >>> status.seq, status.now, status.queries
    (1, 1000, {})
    """

    database: str
    now: int | None
    watermark: int | None
    seq: int
    waiting: int
    last_error: str | None
    queries: dict[str, QueryStatus]
    statements: dict[str, StatementTimes]
    tables: dict[str, TableStatus] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        waiting = f", {self.waiting} events wait for their order" if self.waiting else ""
        lines = [f"{self.database}: {self.seq} events, now {self.now}, watermark {self.watermark}{waiting}"]
        lines += [f"  {query}" for query in self.queries.values()]
        lines += [f"  {name}: {table}" for name, table in self.tables.items()]
        if self.last_error:
            lines.append(f"  last error: {self.last_error}")
        slowest = sorted(self.statements.items(), key=lambda item: -item[1].seconds)[:10]
        lines += [
            f"  {times.seconds:.3f} s in {times.runs} runs, {times.rows} rows: {' '.join(sql.split())[:100]}"
            for sql, times in slowest
        ]
        return "\n".join(lines)


def status_of(
    runner: Runner,
    pushes: Any,
    times: Times | None,
    last_error: str | None,
    tables: dict[str, TableStatus] | None = None,
) -> Status:
    """The status of a bridge. The rows of its tables are counted for it."""
    runner.store_postponed()
    statements = {} if times is None else dict(times.statements)
    reorder = pushes.reorder
    now = None if runner.now == BEGINNING else runner.now
    watermark = now if reorder is None else reorder.watermark
    return Status(
        str(runner.database), now, None if watermark == BEGINNING else watermark, runner.seq,
        0 if reorder is None else reorder.count, last_error,
        dict(_queries(runner, pushes, None if times is None else statements)), statements, tables or {},
    )  # fmt: skip


def _queries(
    runner: Runner, pushes: Any, statements: dict[str, StatementTimes] | None
) -> Iterator[tuple[str, QueryStatus]]:
    counts: dict[str, int] = {}
    there = set(runner.database.table_names())
    for entry in runner.catalogue.queries.values():
        if entry.is_internal:
            continue
        streams = [runner.catalogue.streams[name] for name in sorted(entry.sources) if name in runner.catalogue.streams]
        tables = {made.name for operator in entry.operators for made in operator.tables}
        for name in tables - counts.keys():  # some tables are created with their first row
            counts[name] = _rows(runner, name) if name in there else 0
        named, delivered = pushes.calls.named.delivered(entry.name)
        yield entry.name, QueryStatus(
            entry.name, _language(entry, runner), tuple(stream.name for stream in streams), len(entry.processors) + named,
            sum(stream.events for stream in streams), max(entry.delivered, delivered), sum(counts[name] for name in tables),
            _seconds(entry, runner, statements), entry.last_error, entry.stopped or None, entry.skipped,
            *_waits(entry, runner, pushes), table_of_results(entry),
        )  # fmt: skip


def _waits(entry: QueryEntry, runner: Runner, pushes: Any) -> tuple[tuple[str, ...], int | None]:
    """Texts that say what a query's results wait for, and when time alone may bring one."""
    if entry.stopped:
        return ("resume_query",), None
    found: list[str] = []
    if pushes.reorder is not None:
        awaited = pushes.reorder.time.waiting_on()
        if pushes.reorder.count and awaited:
            found.append(f"events of {', '.join(map(repr, awaited))}, up to which others wait")
        elif waiting := sum(pushes.reorder.waiting(runner.catalogue.streams[name].name) for name in entry.sources):
            found.append(f"the watermark: {waiting} events of its streams are newer")
    resting = [store.name for store in runner.catalogue.stores.known.values() if store.resting]
    read = {node.store for node in walk(entry.resolved.node) if isinstance(node, ReadSQL)}
    found += [f"the data store {name!r}, which does not answer" for name in resting if name in read]
    due = runner.next_deadline(entry.operators)
    if due is not None:
        found.append(f"time {due}, or an event before")
    return tuple(found), due


def _rows(runner: Runner, table: str) -> int:
    ((count,),) = runner.database.fetch(f"SELECT COUNT(*) FROM {runner.database.quoted(table)}")
    return int(count)


def _language(entry: QueryEntry, runner: Runner) -> str:
    """The language of a query's text; for a resumed query it is in the log."""
    logged = (each.definition.language for each in runner.log.entries.values() if entry.name.lower() in each.queries)
    return entry.language or next(logged, "")


def _seconds(entry: QueryEntry, runner: Runner, statements: dict[str, StatementTimes] | None) -> float | None:
    """The time of the statements that read a query's results."""
    if statements is None:
        return None
    return sum(statements[text].seconds for text in runner.result_texts(entry) & statements.keys())
