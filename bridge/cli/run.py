"""`cepbridge run`: files of events through queries; results as lines or as files."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import bridge
from bridge.cli.errors import exit_on_error, note
from bridge.cli.options import (
    DATASTORE_HELP,
    EVENTS_HELP,
    LANGUAGE_HELP,
    LANGUAGES,
    RELATION_HELP,
    events_by_stream,
    milliseconds_of,
    pairs_of,
    relations_of,
    script_of,
    timestamps_of,
)  # fmt: skip
from bridge.errors import SourceError

if TYPE_CHECKING:
    from bridge.history.results import Tables
    from bridge.history.slices import Lanes
    from bridge.sources.block import Rejects
    from bridge.sources.source import Source


@click.command()
@click.argument("queries", type=click.Path(dir_okay=False))
@click.option("-e", "--events", multiple=True, required=True, metavar="[STREAM=]FILE", help=EVENTS_HELP)
@click.option("--db", default="duckdb://", show_default=True, help="The database: duckdb://, or any SQLAlchemy URL.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Write one file a query into this directory."
)
@click.option(
    "--format", "out_format", type=click.Choice(["ndjson", "csv", "parquet"]), help="Format of these files [parquet]."
)
@click.option(
    "--input-format", type=click.Choice(["csv", "ndjson", "parquet"]), help="Format of the events [by the file]."
)
@click.option(
    "--timestamp",
    multiple=True,
    metavar="[STREAM=]COLUMN",
    help="The column of the timestamps [guessed]; times without a zone are UTC.",
)
@click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
              help="At a wrong line: stop, or keep it in a file of rejects and go on.")  # fmt: skip
@click.option("--until", metavar="TIME", help="Read events up to this time (ms or ISO), and let time pass to it.")
@click.option("--relation", multiple=True, metavar="NAME=FILE", help=RELATION_HELP)
@click.option("--datastore", multiple=True, metavar="NAME=URL", help=DATASTORE_HELP)
@click.option("--language", type=click.Choice(LANGUAGES), help=LANGUAGE_HELP)
def run(
    queries: str, events: tuple[str, ...], db: str, out: Path | None, out_format: str | None, input_format: str | None,
    relation: tuple[str, ...], datastore: tuple[str, ...], timestamp: tuple[str, ...], on_error: str, until: str | None,
    language: str | None,
) -> None:  # fmt: skip
    """Run the queries of a file over files of events.

    QUERIES holds CREATE STREAM and CREATE QUERY … AS SELECT … statements, or one SELECT, named after the file. Without
    --out, results are NDJSON on standard output, ordered by time within each query: query, ts (milliseconds), and the
    columns; dates are ISO texts, decimals texts with all their digits, NaN and infinities null.
    """
    if out_format and out is None:
        raise click.UsageError("--format is the format of files: name their directory with --out")
    with exit_on_error():
        from bridge.engine.connect import IN_MEMORY
        from bridge.history.replay import installed, open_sources, with_relations
        from bridge.history.script import refuse_unknown

        script, relations = script_of(queries, language=language), relations_of(relation)
        with bridge.connect(db) as cep, with_relations(cep, relations):
            for name, url in pairs_of("datastore", datastore, "NAME=URL").items():
                cep.register_datastore(name, url)
            end = None if until is None else milliseconds_of(until)
            named = events_by_stream(events, script, cep)
            stamps = timestamps_of(timestamp, named)
            sources = open_sources(script, named, stamps, input_format, note)
            refuse_unknown(script, cep, sources, "with --relation {}=FILE")
            is_apart = db == IN_MEMORY and not datastore and not any(source.waits for source in sources.values())
            with _results(out, out_format) as results:
                lanes = installed(script, cep, sources, results, relations if is_apart else None)
                _Run(cep, sources, results, _rejects(on_error, out, named), lanes).go(end)


def _rejects(on_error: str, out: Path | None, named: dict[str, str]) -> Rejects | None:
    """Where wrong lines are kept: beside the results, or in the working directory by the name of the input."""
    if on_error == "stop":
        return None
    from bridge.sources.block import Rejects

    names = {stream: "stdin" if path == "-" else Path(path).name.replace("*", "_") for stream, path in named.items()}
    beside = {stream: Path(f"{name}.rejects.ndjson") for stream, name in names.items()}
    return Rejects(beside if out is None else dict.fromkeys(named, out / "rejects.ndjson"))


def _results(out: Path | None, out_format: str | None) -> Tables:
    from bridge.history.results import Lines, Results

    return Lines(_write) if out is None else Results(out, out_format or "parquet")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class _Run:
    """Feeds the sources, shows progress on a terminal, and sums up."""

    def __init__(
        self,
        cep: bridge.Bridge,
        sources: dict[str, Source],
        results: Tables,
        rejects: Rejects | None,
        lanes: Lanes | None,
    ) -> None:
        self.cep, self.sources, self.results, self.rejects, self.lanes = cep, sources, results, rejects, lanes
        self.events, self.started = 0, time.monotonic()

    def go(self, end: int | None) -> None:
        """Until all is read, or a bad row stops it: what precedes that is done and kept then."""
        from bridge.history.replay import feed

        stop: BaseException | None = None
        try:
            with _progress(self) as told:
                feed(self.cep, self.sources, end, self.rejects, told, lanes=self.lanes)
        except (SourceError, KeyboardInterrupt) as error:
            stop = error
        finally:
            if self.rejects is not None:
                self.rejects.close()
        self.results.close()
        self._sum_up()
        if stop is not None:
            raise stop

    def _sum_up(self) -> None:
        from bridge.history.results import counted

        seconds = time.monotonic() - self.started
        found = ", ".join(f"{name} {count:,}" for name, count in self.results.counts.items())
        click.echo(f"{counted(self.events)}, results: {found}; {seconds:.2f} s", err=True)
        for path, count in self.rejects.counts.items() if self.rejects is not None else ():
            click.echo(f"{counted(count, 'wrong line')} {'is' if count == 1 else 'are'} in {path}", err=True)


@contextlib.contextmanager
def _progress(run: _Run) -> Iterator[Callable[[int], None]]:
    """Counts events; draws a bar where standard error is a terminal and results do not go to the same one."""

    def count(events: int) -> None:
        run.events = events

    from bridge.history.results import Lines

    if not sys.stderr.isatty() or (isinstance(run.results, Lines) and sys.stdout.isatty()):
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
