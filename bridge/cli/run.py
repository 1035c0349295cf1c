"""`cepbridge run`: runs queries over files of events, and prints the results or writes them to files."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import bridge
from bridge.cli import options
from bridge.cli.errors import exit_on_error, note
from bridge.errors import SourceError, quantity

if TYPE_CHECKING:
    from bridge.history.results import ResultTables
    from bridge.history.slices import Workers
    from bridge.sources.rejects import Rejects
    from bridge.sources.source import EventSource
    from windows.schema import Schema

EVENTS_HELP = """The events of a stream. FILE is CSV, NDJSON or Parquet, or CSV or NDJSON compressed by gzip,
bzip2, xz or zstd; a pattern such as
'logs/*.csv'; or - for standard input. STREAM= may be left out if the queries read one stream only. Repeatable."""
REJECTS = "rejects.ndjson"
"""The name of the file of wrong lines beside the files of results."""

EXAMPLE = "cepbridge run queries.sql --events trades=trades.csv --out results --format csv"


@click.command(epilog=options.epilog(EXAMPLE, "README.md (Command line) and docs/language.md"))
@options.queries_argument
@click.option("-e", "--events", multiple=True, required=True, metavar="[STREAM=]FILE", help=EVENTS_HELP)
@options.db_option("The database that computes the results: duckdb://, or any SQLAlchemy URL.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Write one file per query into this directory. Default: NDJSON on standard output.")  # fmt: skip
@click.option("--format", "out_format", type=click.Choice(options.FORMATS),
              help="The format of the files in --out. Default: parquet.")  # fmt: skip
@click.option("--input-format", type=click.Choice(["csv", "ndjson", "parquet"]),
              help="The format of the events. Default: by the file's ending, or by its first bytes.")  # fmt: skip
@options.timestamp_option
@options.timestamp_unit_option
@options.sort_option
@click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
              help="What a wrong line does: stop the run, or be written to a file of rejects and skipped.")  # fmt: skip
@options.until_option
@options.relation_option
@options.datastore_option
@options.language_option
def run(
    queries: str, events: tuple[str, ...], db: str, out: Path | None, out_format: str | None, input_format: str | None,
    relation: tuple[str, ...], datastore: tuple[str, ...], timestamp: tuple[str, ...], timestamp_unit: str | None, sort: bool,
    on_error: str, until: str | None, language: str | None,
) -> None:  # fmt: skip
    """Run queries over files of events.

    QUERIES is a file with CREATE STREAM and CREATE QUERY … AS SELECT … statements, or with one SELECT, which is named
    after the file, or 'result' if it reads a stream of that name. Events must be in the order of their
    timestamps, unless --sort is given.

    Without --out, each result is a line of JSON with the keys query, ts (milliseconds since 1970) and the columns.
    Dates are ISO texts, decimals are texts with all digits, NaN and infinities are null. The results of each query are
    ordered by time. Notes and a summary go to standard error.

    Time ends with the newest event, or with --until: an absence (NOT in a row pattern, "not" in a pattern of EPL) whose
    time is not over then is not reported.
    """
    if out_format and out is None:
        raise click.UsageError("--format applies to files of results; name their directory with --out")
    with exit_on_error():
        from bridge.engine.connect import IN_MEMORY
        from bridge.history.replay import install_queries, open_sources, with_relations
        from bridge.history.script import inferred_schemas, refuse_unknown
        from bridge.sources.options import HistoryOptions

        script, relations = options.script_of(queries, language=language, db=db), options.relations_of(relation)
        with bridge.connect(db, durable=False) as cep, with_relations(cep, relations):
            for name, url in options.pairs_of("datastore", datastore, "NAME=URL").items():
                cep.register_datastore(name, url)
            end = None if until is None else options.milliseconds_of(until)
            paths = options.events_by_stream(events, script, cep)
            reading = HistoryOptions(
                options.timestamps_of(timestamp, paths), timestamp_unit, sort=sort, format=input_format
            )
            sources = open_sources(script, paths, reading, note)
            refuse_unknown(script, cep, sources, "with --relation {}=FILE")
            _note_inferred(inferred_schemas(script, sources), paths)
            is_separate = db == IN_MEMORY and not datastore and not any(source.waits for source in sources.values())
            with _results(out, out_format, on_error) as results:
                workers = install_queries(script, cep, sources, results, relations if is_separate else None)
                _ScriptRun(cep, sources, results, _rejects(on_error, out, paths), workers).go(end)


def _note_inferred(schemas: Mapping[str, Schema], paths: Mapping[str, str]) -> None:
    """Prints the types of streams that the queries do not declare, as statements to be copied."""
    from bridge.engine.watch.columns import declaration

    files = {name.lower(): "standard input" if path == "-" else path for name, path in paths.items()}
    for name, schema in schemas.items():
        note(f"{files[name.lower()]} is read as {declaration(name, schema)};")


def _rejects(on_error: str, out: Path | None, paths: dict[str, str]) -> Rejects | None:
    """The files of rejects: one in `out`, or else one per input in the working directory, named after the input."""
    if on_error == "stop":
        return None
    from bridge.sources.rejects import Rejects

    names = {stream: "stdin" if path == "-" else Path(path).name.replace("*", "_") for stream, path in paths.items()}
    files = {stream: Path(f"{name}.rejects.ndjson") for stream, name in names.items()}
    return Rejects(files if out is None else dict.fromkeys(paths, out / REJECTS))


def _results(out: Path | None, out_format: str | None, on_error: str) -> ResultTables:
    from bridge.history.results import ResultFiles, ResultLines

    others = () if on_error == "stop" else (REJECTS,)
    return ResultLines(_write) if out is None else ResultFiles(out, out_format or "parquet", others)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class _ScriptRun:
    """One run: pushes the events of all sources, shows its progress, and prints a summary."""

    def __init__(
        self,
        cep: bridge.Bridge,
        sources: dict[str, EventSource],
        results: ResultTables,
        rejects: Rejects | None,
        workers: Workers | None,
    ) -> None:
        self.cep, self.sources, self.results, self.rejects, self.workers = cep, sources, results, rejects, workers
        self.events, self.started = 0, time.monotonic()

    def go(self, end: int | None) -> None:
        """Reads until the sources end or a wrong line stops the run; the results of the earlier events are written."""
        from bridge.history.replay import feed

        stop: BaseException | None = None
        try:
            with _progress(self) as progress:
                feed(self.cep, self.sources, end, self.rejects, progress, workers=self.workers)
        except (SourceError, KeyboardInterrupt) as error:
            stop = error
        finally:
            if self.rejects is not None:
                self.rejects.close()
        self.results.close()
        self._summarize()
        if stop is not None:
            raise stop

    def _summarize(self) -> None:
        seconds = time.monotonic() - self.started
        results = ", ".join(f"{name} {count:,}" for name, count in self.results.counts.items())
        click.echo(f"{quantity(self.events)}, results: {results}; {seconds:.2f} s", err=True)
        for path, count in self.rejects.counts.items() if self.rejects is not None else ():
            click.echo(f"{quantity(count, 'wrong line')} {'is' if count == 1 else 'are'} in {path}", err=True)


@contextlib.contextmanager
def _progress(run: _ScriptRun) -> Iterator[Callable[[int], None]]:
    """A function that is called with the number of events so far.

    It draws a bar if standard error is a terminal that does not also show the results.
    """

    def count(events: int) -> None:
        run.events = events

    from bridge.history.results import ResultLines

    if not sys.stderr.isatty() or (isinstance(run.results, ResultLines) and sys.stdout.isatty()):
        yield count
        return
    with _bar() as bar:
        task = bar.add_task("events", total=None, events=0, rate=0)

        def draw(events: int) -> None:
            count(events)
            fractions = [source.fraction for source in run.sources.values()]
            done = None if None in fractions else min(f for f in fractions if f is not None)
            rate = int(events / max(time.monotonic() - run.started, 1e-9))
            bar.update(task, completed=done or 0, total=None if done is None else 1, events=events, rate=rate)

        yield draw


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    text = "{task.fields[events]:,} events  {task.fields[rate]:,}/s"
    return Progress(BarColumn(), TextColumn(text), TimeElapsedColumn(), console=Console(stderr=True), transient=True)
