"""A replay beside the best statement by hand on the same database, from Parquet to Parquet.

Both sides open a database of their own, or a connection of their own to a server, in each run:

- The replay is `bridge.replay` of the files of events, with its results written to a file.
- By hand on DuckDB, it is `COPY (SELECT …) TO` a file, of views of the files of events.
- By hand elsewhere, the events are loaded into temporary tables by the function that the bridge loads them with, and the rows of
  the SELECT are fetched by the function that the bridge fetches them with. `statement` is the time of the SELECT alone.
- On demand is `cep.query` with the text of the replay, over the same views or tables; its rows have no timestamps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import bridge
from benchmarks.compared import close_difference
from benchmarks.limit_queries import EVENTS, SCHEMAS, LimitQuery
from bridge.bench.report import machine, machine_description, three_digits, without_password
from bridge.errors import BridgeError
from windows.databases import Database, open_database

DIALECTS = ("duckdb", "sqlite", "postgres")
"""The databases that there are statements for, by sqlglot's names of their SQL."""

DEFAULT_EVENTS = {"duckdb": 5_000_000}
FEWER_EVENTS = 200_000
"""The number of events on other databases."""

REPLAY, BY_HAND, ON_DEMAND = "replay", "by hand", "on demand"

HEAD = (
    *("results", "replay, s", "CPU", "by hand, s", "CPU", "its SELECT, s", "ratio", "of CPU"),
    *("on demand, s", "ratio", "of CPU"),
)
"""The columns of the report after the query's name."""

IDLE = 0.5
"""A machine with a lower load average does nothing else."""

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class RunTimes:
    """The seconds of a run, those of the CPU in this process, and those of the statement where the events are loaded first."""

    seconds: float
    cpu: float
    statement: float | None = None


@dataclasses.dataclass
class Limit:
    """The runs of a query on one database, by side; run n of each side is in turn n.

    `in_process`: the database runs in this process, so that the CPU's seconds are all there are.
    """

    query: LimitQuery
    database: str
    in_process: bool
    events: int
    results: int
    runs: dict[str, list[RunTimes]]

    def ratios(self, side: str) -> list[float]:
        """The replay's seconds divided by those of another side, turn by turn."""
        return [replay.seconds / other.seconds for replay, other in self._turns(side)]

    def cpu_ratios(self, side: str) -> list[float]:
        """The same of the CPU's seconds; none where a server's are missing. Other work of the machine hardly matters to them."""
        return [replay.cpu / other.cpu for replay, other in self._turns(side)] if self.in_process else []

    def _turns(self, side: str) -> Iterator[tuple[RunTimes, RunTimes]]:
        return zip(self.runs[REPLAY], self.runs[side], strict=True)


@dataclasses.dataclass(frozen=True)
class LimitCase:
    """A query on a database, over the files of events in a folder, where the results are written, too."""

    query: LimitQuery
    database: str
    dialect: str
    folder: Path

    def events(self, stream: str) -> Path:
        """The file with the events of a stream."""
        return self.folder / f"{stream}.parquet"

    def output(self, side: str) -> Path:
        """The file with the results of a side; that of the replay is called like the query there."""
        return self.folder / side / "q.parquet"


# Measuring ------------------------------------------------------------------------------------------------------------


def measure(
    databases: Sequence[str], events: int | None, queries: Sequence[LimitQuery], runs: int, progress: Progress
) -> Iterator[Limit]:
    """Measures the queries on each database. Raises BridgeError where a side gives other rows, and for other databases."""
    for url in databases:
        with contextlib.closing(open_database(url)) as database:
            dialect = database.dialect
        if dialect not in DIALECTS:
            raise BridgeError(f"{without_password(url)}: there are statements by hand for {', '.join(DIALECTS)}")
        count = events or DEFAULT_EVENTS.get(dialect, FEWER_EVENTS)
        with tempfile.TemporaryDirectory() as name:
            progress(f"{without_password(url)}: {count:,} events")
            write_events(Path(name), count)
            for query in queries:
                yield _measure(LimitCase(query, url, dialect, Path(name)), count, runs, progress)


def write_events(folder: Path, events: int) -> None:
    """Writes the events of each stream into a Parquet file."""
    with duckdb.connect() as connection:
        for stream, select in EVENTS.items():
            connection.execute(f"COPY ({select.format(events=events)}) TO '{folder / stream}.parquet' (FORMAT parquet)")


def _measure(case: LimitCase, events: int, runs: int, progress: Progress) -> Limit:
    """The runs of all sides in turns, after one run of each, whose results are compared."""
    sides = {REPLAY: replay, BY_HAND: by_hand, **({ON_DEMAND: on_demand} if case.query.on_demand else {})}
    place = f"{without_password(case.database)}, {case.query.name}"
    for side, run in sides.items():
        progress(f"{place}: {side}, first run")
        case.output(side).parent.mkdir(exist_ok=True)
        run(case)
    in_process = case.dialect != "postgres"
    limit = Limit(case.query, case.database, in_process, events, compare(case), {side: [] for side in sides})
    for turn in range(1, runs + 1):
        for side, run in sides.items():
            progress(f"{place}: {side}, run {turn} of {runs}")
            limit.runs[side].append(_run_times(run, case))
    return limit


def _run_times(run: Callable[[LimitCase], float | None], case: LimitCase) -> RunTimes:
    start, cpu = time.perf_counter(), time.process_time()
    statement = run(case)
    return RunTimes(time.perf_counter() - start, time.process_time() - cpu, statement)


def compare(case: LimitCase) -> int:
    """The number of results. Raises BridgeError unless all sides have written the same rows, and these in the order of time."""
    rows = {side: pq.read_table(case.output(side)) for side in (REPLAY, BY_HAND)}
    with duckdb.connect() as connection:
        for side, table in rows.items():
            if not _in_order(table.column(0)):
                raise BridgeError(f"{case.query.name}, {side}: the rows are not in the order of time")
        wrong = close_difference(connection, rows[BY_HAND], rows[REPLAY])
        if wrong is None and case.query.on_demand:
            answer = pq.read_table(case.output(ON_DEMAND))
            wrong = close_difference(connection, rows[BY_HAND].remove_column(0), answer)
        if wrong is not None:
            raise BridgeError(f"{case.query.name}, {without_password(case.database)}: {wrong}")
    return rows[REPLAY].num_rows


def _in_order(times: pa.ChunkedArray) -> bool:
    numbers = times.to_numpy()
    return bool((numbers[1:] >= numbers[:-1]).all())


# The sides ------------------------------------------------------------------------------------------------------------


def replay(case: LimitCase) -> None:
    """Runs the query by `bridge.replay`."""
    files = {stream: case.events(stream) for stream in case.query.streams}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a pattern that ends with a quantifier without bound
        bridge.replay(files, {"q": case.query.text}, database=case.database, out=case.output(REPLAY).parent)


def by_hand(case: LimitCase) -> float | None:
    """Runs the statement by hand. Returns the seconds of the SELECT alone; None where it reads and writes the files itself."""
    select = case.query.statement(case.dialect)
    with contextlib.closing(open_database(case.database)) as database:
        prepare(database, case)
        if case.dialect == "duckdb":
            database.execute(f"COPY ({select}) TO '{case.output(BY_HAND)}' (FORMAT parquet)")
            return None
        start = time.perf_counter()
        rows = _fetched(database, select)
        seconds = time.perf_counter() - start
        pq.write_table(rows, case.output(BY_HAND))
        return seconds


def on_demand(case: LimitCase) -> None:
    """Runs the text of the query by `cep.query`."""
    with bridge.connect(case.database, durable=False) as cep, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepare(cep.database, case)
        pq.write_table(cep.query(case.query.text).to_arrow(), case.output(ON_DEMAND))


def prepare(database: Database, case: LimitCase) -> None:
    """Makes the events of the query's streams temporary tables; on DuckDB views of their files."""
    if case.dialect == "duckdb":
        for stream in case.query.streams:
            database.execute(f"CREATE TEMPORARY VIEW {stream} AS FROM read_parquet('{case.events(stream)}')")
        return
    database.begin()
    for stream in case.query.streams:
        database.execute(f"CREATE TEMPORARY TABLE {stream} ({SCHEMAS[stream]})")
        database.append(stream, pq.read_table(case.events(stream)))
    if case.query.index is not None:
        database.execute(case.query.index)
    database.commit()


def _fetched(database: Database, select: str) -> pa.Table:
    """The rows of a SELECT, whose columns are named by numbers where the database does not give Arrow."""
    found = database.fetch_arrow(select)
    if found is not None:
        return found
    columns = list(zip(*database.fetch(select), strict=True))
    return pa.table({f"c{place}": pa.array(values) for place, values in enumerate(columns)})


# Reports --------------------------------------------------------------------------------------------------------------


def load_average() -> float | None:
    """The mean number of busy processes within the last minute; None where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def load_description(before: float | None, after: float | None) -> list[str]:
    """The load before and after the runs, with a warning if the machine does other work.

    The runs themselves may load all cores, so the load after them is too high only beyond that.

    >>> load_description(0.1, 1.5)
    ['Load average: 0.1 before, 1.5 after.']
    >>> load_description(2.0, 2.5)[1]
    'Warning: the machine had other work before the runs (a load of 2.0), so the seconds are too many and ratios may be wrong.'
    """
    if before is None or after is None:
        return ["Load average: unknown."]
    notes = [f"Load average: {before:.1f} before, {after:.1f} after."]
    wrong = "so the seconds are too many and ratios may be wrong."
    if before > IDLE:
        notes.append(f"Warning: the machine had other work before the runs (a load of {before:.1f}), {wrong}")
    elif after > (os.cpu_count() or 1) + IDLE:
        notes.append(f"Warning: the machine had other work during the runs (a load of {after:.1f} after them), {wrong}")
    return notes


def markdown(found: Sequence[Limit], load: Sequence[str]) -> str:
    """One table per database, and the notes."""
    urls = list(dict.fromkeys(limit.database for limit in found))
    tables = [_table(url, [limit for limit in found if limit.database == url]) for url in urls]
    runs = max((len(limit.runs[REPLAY]) for limit in found), default=0)
    notes = [
        f"Medians of {runs} runs (smallest–largest); CPU: seconds of all cores in this process, without a server's."
    ]
    return "\n\n".join([*tables, "\n".join([*notes, machine_description(machine(urls)), *load])])


def _table(url: str, found: Sequence[Limit]) -> str:
    """A row per query; a column without a figure is left out."""
    title = f"{without_password(url)}, {found[0].events:,} events"
    rows = [[title, *HEAD], *map(_line, found)]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    head, *lines = zip(*columns, strict=True)
    ruled = [head, ["---", *["--:"] * (len(head) - 1)], *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)


def _line(limit: Limit) -> list[str]:
    cells = [limit.query.name, f"{limit.results:,}"]
    for side in (REPLAY, BY_HAND):
        cells += [_seconds(limit, side), f"{_median_cpu(limit.runs[side]):.2f}"]
    statements = [run.statement for run in limit.runs[BY_HAND] if run.statement is not None]
    cells += [_spread(statements), *_ratios(limit, BY_HAND)]
    return [
        *cells,
        *([_seconds(limit, ON_DEMAND), *_ratios(limit, ON_DEMAND)] if ON_DEMAND in limit.runs else [""] * 3),
    ]


def _seconds(limit: Limit, side: str) -> str:
    return _spread([run.seconds for run in limit.runs[side]])


def _ratios(limit: Limit, side: str) -> list[str]:
    """The ratio of the replay to a side, with its spread, and that of the CPU's seconds."""
    return [f"**{_spread(limit.ratios(side))}**", _spread(limit.cpu_ratios(side))]


def _median_cpu(runs: Sequence[RunTimes]) -> float:
    return statistics.median(run.cpu for run in runs)


def _spread(values: Sequence[float]) -> str:
    """The median, with the smallest and the largest value: `1.2 (1.1–1.4)`."""
    if not values:
        return ""
    median = three_digits(statistics.median(values))
    return f"{median} ({three_digits(min(values))}–{three_digits(max(values))})" if len(values) > 1 else median


def as_json(found: Sequence[Limit], before: float | None, after: float | None) -> str:
    """The machine, its load and all runs as JSON."""
    figures = [
        {
            "database": without_password(limit.database),
            "query": limit.query.name,
            "events": limit.events,
            "results": limit.results,
            "runs": {side: [dataclasses.asdict(run) for run in runs] for side, runs in limit.runs.items()},
            "ratios": {side: limit.ratios(side) for side in limit.runs if side != REPLAY},
            "cpu_ratios": {side: limit.cpu_ratios(side) for side in limit.runs if side != REPLAY},
        }
        for limit in found
    ]
    facts = machine(dict.fromkeys(limit.database for limit in found))
    whole = {"machine": facts, "load": {"before": before, "after": after}, "figures": figures}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
