"""`cepbridge bench`: the options of the paper's experiment, and of your own workload, which `bridge.bench` measures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bridge.cli import options
from bridge.cli.errors import exit_on_error

if TYPE_CHECKING:
    from bridge.bench.command import Measure
    from bridge.bench.experiment import ExperimentSettings, Measurement, Progress

EXAMPLE = """cepbridge bench --quick --db sqlite:// --operators sigma,alpha
  cepbridge bench --queries my.sql --events trades.parquet --db duckdb:// --db sqlite:// --plot bars.png"""


def _numbers(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    from bridge.bench.command import numbers

    return numbers(context, option, texts)


def _operators(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    from bridge.bench.command import operators

    return operators(context, option, texts)


def _own_workload(queries: str, events: tuple[str, ...], timestamp: tuple[str, ...], sort: bool) -> Measure:
    """The queries of a file over the events of other files, on each database in the settings."""
    from bridge.bench import own
    from bridge.engine.connect import connect
    from bridge.sources.options import HistoryOptions

    def measured(settings: ExperimentSettings, progress: Progress) -> Iterator[Measurement]:
        progress("reading the events", 0)
        scripts = {url: options.script_of(queries, db=url) for url in settings.databases}
        first, script = next(iter(scripts.items()))
        with connect(first, durable=False) as cep:
            paths = options.events_by_stream(events, script, cep)
        reading = HistoryOptions(options.timestamps_of(timestamp, paths), sort=sort)
        found = own.OwnEvents.read(script, paths, reading)
        systems = [own.OwnSystem(url, drive, scripts[url], found) for url in scripts for drive in settings.drives]
        yield from own.measure(Path(queries).name, systems, settings, progress)

    return measured


@click.command(epilog=options.epilog(EXAMPLE, "benchmarks/README.md"))
@click.option("--db", "--database", "databases", multiple=True, metavar="URL",
              help="A database to measure, as a SQLAlchemy URL. Repeatable. Default: duckdb:// and sqlite://.")  # fmt: skip
@click.option("--count", multiple=True, callback=_numbers, metavar="NUMBERS",
              help="How many queries run at a time: 1,80 or 1-100/10. Repeatable. Default: 1,10,80.")  # fmt: skip
@click.option("--drive", multiple=True, callback=_numbers, metavar="NUMBERS",
              help="How many events a push has. Repeatable. Default: 1,1000,100000; with --queries 1,100,10000.")  # fmt: skip
@click.option("--operators", multiple=True, callback=_operators, metavar="NAMES",
              help="Which queries to measure. Repeatable. Default: sigma,join,alpha,rho,mixed.")  # fmt: skip
@click.option("--queries", type=click.Path(dir_okay=False), metavar="FILE",
              help="Measure the queries of this file in place of the paper's.")  # fmt: skip
@click.option("-e", "--events", multiple=True, metavar="[STREAM=]FILE",
              help="The events of a stream for --queries: CSV, NDJSON or Parquet. Repeatable.")  # fmt: skip
@options.timestamp_option
@options.sort_option
@click.option("--runs", type=click.IntRange(1), metavar="NUMBER", help="Runs per figure. Default: 5.")
@click.option("--seconds", type=click.FloatRange(0.001), metavar="NUMBER",
              help="Seconds per figure, shared by its runs. Default: 3.")  # fmt: skip
@click.option("--quick", is_flag=True, help="One short run with one query each: a check that everything works.")
@click.option("--peers", multiple=True, metavar="NAME=COMMAND",
              help="Another engine to measure, and the program that runs it. Repeatable.")  # fmt: skip
@click.option("--json", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures to this file, too.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path),
              help="Plot throughput over the number of queries into this .png or .svg file.")  # fmt: skip
def bench(
    databases: tuple[str, ...], count: tuple[int, ...], drive: tuple[int, ...], operators: tuple[str, ...],
    queries: str | None, events: tuple[str, ...], timestamp: tuple[str, ...], sort: bool,
    runs: int | None, seconds: float | None, quick: bool, peers: tuple[str, ...], json: Path | None, plot: Path | None,
) -> None:  # fmt: skip
    """Measure databases with the experiment of the paper, or with queries and events of your own.

    The figures are events per second. The queries are a filter (sigma), a correlation (join), an aggregation (alpha)
    and a pattern (rho), --count of one kind at a time, or 20 of each (mixed). Each stream has one event per
    millisecond, and all windows are full from the start. The baseline is the paper's own algorithm. Before it measures,
    the command checks that all report the same rows.

    With --queries and --events, the first 100,000 events of the files are pushed, which fills the windows, and then again
    and again at later timestamps, which is measured. The first 500 events must give the same rows in every way.
    """
    if bool(queries) != bool(events):
        raise click.UsageError(
            "--queries and --events go together: name a file of queries and the files of their events"
        )
    if queries and (count or operators or peers):
        raise click.UsageError("--count, --operators and --peers are about the paper's queries, not about --queries")
    with exit_on_error():
        from bridge.bench import command

        settings = command.settings_of(
            quick, bool(queries), databases=databases, counts=count, drives=drive, operators=operators, runs=runs,
            seconds=seconds, peers=command.peers_of(peers),
        )  # fmt: skip
        if queries:
            command.bench(settings, json, plot, _own_workload(queries, events, timestamp, sort))
        else:
            command.bench(settings, json, plot)
