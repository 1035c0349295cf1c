"""Run the experiment of the paper, like `cepbridge bench`. The commands run other benchmarks."""

from __future__ import annotations

import contextlib
import pathlib
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from benchmarks import compared as patterns
from benchmarks.compared import compare, comparisons_json, comparisons_markdown
from benchmarks.peers import RefusedError, installed
from benchmarks.row_patterns import WORKLOADS
from bridge.bench.command import peers_of
from bridge.bench.peers import Peer
from bridge.bench.plot import pyplot
from bridge.cli.bench import bench
from bridge.errors import BridgeError
from windows.databases import Refused

GROWING = ("history", "window", "results")
"""What grows in `scaling`."""

PROGRAMS = pathlib.Path(__file__).parent

# Options of several commands.
esper_option = click.option("--esper-jars", envvar="ESPER_JARS", metavar="DIR", help="A directory with Esper's jars.")
flink_option = click.option(
    "--flink", envvar="FLINK_PYTHON", metavar="PYTHON", help="The Python of an environment with apache-flink."
)
json_option = click.option(
    "--json", "path", type=click.Path(path_type=pathlib.Path), help="Write the figures to this file, too."
)
plot_option = click.option(
    "--plot", type=click.Path(path_type=pathlib.Path), help="Plot the costs into this file. Needs matplotlib."
)


def runs_option(default: int) -> Callable[[Any], Any]:
    """The option `--runs`."""
    return click.option("--runs", type=click.IntRange(1), default=default, show_default=True, help="Runs per figure.")


def databases_option(*urls: str) -> Callable[[Any], Any]:
    """The option `--database`, which may be repeated, with these databases by default."""
    return click.option(
        "--database", multiple=True, default=urls, show_default=True, help="A database, as a URL. Repeatable."
    )


@flink_option
@esper_option
@click.group(help=__doc__, invoke_without_command=True, params=list(bench.params))
@click.pass_context
def main(context: click.Context, flink: str | None, esper_jars: str | None, **options: Any) -> None:
    if context.invoked_subcommand is None and bench.callback is not None:
        options["peers"] += tuple(_programs(flink, esper_jars))
        bench.callback(**options)


def _programs(flink: str | None, esper_jars: str | None) -> Iterator[str]:
    """The engines of this directory, as values of --peers."""
    if flink:
        yield f"Flink SQL={shlex.join([flink, str(PROGRAMS / 'flink_peer.py')])}"
    if esper_jars:
        yield f"Esper={shlex.join([sys.executable, str(PROGRAMS / 'esper_peer.py'), esper_jars])}"


@main.command()
@click.option("--quick", is_flag=True, help="Fewer rows, and three runs.")
@runs_option(5)
@click.option("--only", multiple=True, help="The name of a workload, or its beginning. Repeatable.")
@click.option(
    "--peers",
    envvar="PEERS_PYTHON",
    metavar="PYTHON",
    help="The Python of an environment with pandas-match-recognize and pyarrow.",
)
@flink_option
@esper_option
@json_option
def row_patterns(
    quick: bool,
    runs: int,
    only: tuple[str, ...],
    peers: str | None,
    flink: str | None,
    esper_jars: str | None,
    path: pathlib.Path | None,
) -> None:
    """Measure MATCH_RECOGNIZE on demand.

    It is compared with statements written by hand and with other engines. Every system must first give the expected rows,
    which are found without row patterns.
    """
    workloads = [each for each in WORKLOADS if not only or each.name.startswith(only)]
    if not workloads:
        raise click.BadParameter(f"use one of {', '.join(each.name for each in WORKLOADS)}", param_hint="--only")
    runs = 3 if quick else runs
    with progress_line(patterns.WrongRowsError, RefusedError):
        found = list(compare(workloads, installed(peers, flink, esper_jars), quick, runs, show_progress))
    click.echo(comparisons_markdown(found, runs))
    if path is not None:
        path.write_text(comparisons_json(found), encoding="utf-8")


@main.command()
@click.option("--database", default="duckdb://", show_default=True, help="The database, as a URL.")
@click.option("--events", default=10_000_000, show_default=True, help="The number of events of the history.")
@plot_option
def live(database: str, events: int, plot: pathlib.Path | None) -> None:
    """Measure the cost of an event in a continuous MATCH_RECOGNIZE.

    The cost is shown over the length of the history.
    """
    from benchmarks import live as benchmark

    points = benchmark.measure(database, events, show_progress)
    show_progress("")
    click.echo("| query | events before | µs per event | p99 |\n|---|--:|--:|--:|")
    for point in points:
        click.echo(f"| {point.query} | {point.events:,} | {point.microseconds:.1f} | {point.p99:.1f} |")
    if plot is not None:
        benchmark.draw(points, plot)


@main.command()
@databases_option("duckdb://")
@click.option(
    "--drive",
    multiple=True,
    type=click.IntRange(1),
    default=(1, 1_000),
    show_default=True,
    help="The number of events per push. Repeatable.",
)
@click.option(
    "--of",
    multiple=True,
    type=click.Choice(GROWING),
    default=GROWING,
    show_default=True,
    help="What grows. Repeatable.",
)
@click.option("--events", default=1_000_000, show_default=True, help="The largest history and the largest window.")
@click.option("--seconds", default=1.0, show_default=True, help="Seconds per point.")
@plot_option
def scaling(
    database: tuple[str, ...],
    drive: tuple[int, ...],
    of: tuple[str, ...],
    events: int,
    seconds: float,
    plot: pathlib.Path | None,
) -> None:
    """Measure the cost of an event as something grows.

    That is the history, the window of an aggregate, or the results of a correlation.
    """
    from benchmarks import scaling as benchmark

    if plot is not None:
        pyplot()
    scales = [benchmark.Scale(url, each, events, seconds) for url in database for each in drive]
    points = []
    click.echo(benchmark.HEAD)
    for scale in scales:
        for point in benchmark.measure(scale, of):
            click.echo(benchmark.row(point))
            points.append(point)
    if plot is not None:
        benchmark.draw(points, plot)


@main.command()
@click.option("--count", multiple=True, type=click.IntRange(1), default=(1, 80), show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="Seconds per figure, shared by its runs.")
@runs_option(5)
@esper_option
def epl(count: tuple[int, ...], seconds: float, runs: int, esper_jars: str | None) -> None:
    """Measure the paper's four queries in EPL, in SQL and on Esper."""
    from benchmarks import epl as paper

    peer = next(iter(peers_of(tuple(_programs(None, esper_jars)))), None)
    with progress_line(BridgeError):
        found = list(paper.measure(count, seconds, runs, peer, show_progress))
    click.echo(paper.markdown(found))


@main.command()
@click.option("--events", multiple=True, type=click.IntRange(1), default=(1_000_000,), show_default=True)
@click.option("--keys", multiple=True, type=click.IntRange(1), default=(1_000, 1), show_default=True)
@click.option("--query", multiple=True, help="One of the queries. Repeatable. Default: all.")
@click.option(
    "--cores",
    multiple=True,
    type=click.IntRange(1),
    default=(1, 2),
    show_default=True,
    help="The cores of Spark. Repeatable.",
)
@flink_option
@click.option("--patience", default=180.0, show_default=True, help="Seconds that a run of Flink may take.")
def spark(
    events: tuple[int, ...],
    keys: tuple[int, ...],
    query: tuple[str, ...],
    cores: tuple[int, ...],
    flink: str | None,
    patience: float,
) -> None:
    """Measure a replay on Spark.

    It runs from Parquet to Parquet, over many keys and over one, on several numbers of cores.
    """
    from benchmarks import on_spark

    unknown = set(query) - set(on_spark.QUERIES)
    if unknown:
        raise click.BadParameter(f"use one of {', '.join(on_spark.QUERIES)}", param_hint="--query")
    found = []
    try:
        with progress_line(BridgeError):
            names = query or tuple(on_spark.QUERIES)
            cases = [on_spark.SparkCase(name, count, each) for count in events for each in keys for name in names]
            for run in on_spark.measure(cases, cores, flink, patience, show_progress):
                found.append(run)  # noqa: PERF402 (the figures so far are shown after an interrupt)
    finally:
        click.echo(on_spark.markdown(found))


@main.command()
@databases_option("duckdb://", "sqlite://")
@click.option("--seconds", default=2.0, show_default=True, help="Seconds per figure.")
@runs_option(3)
@click.option("--linger", default="5 MS", show_default=True)
def gathering(database: tuple[str, ...], seconds: float, runs: int, linger: str) -> None:
    """Measure single pushes from eight threads, with `linger` and without."""
    from benchmarks import gathering as benchmark

    with progress_line(BridgeError):
        found = list(benchmark.measure(database, seconds, runs, linger, show_progress))
    click.echo(benchmark.markdown(found))


@main.command()
@databases_option("duckdb://", "sqlite://")
@click.option("--queries", default=100, show_default=True, help="The number of queries in one bridge.")
@runs_option(3)
def creation(database: tuple[str, ...], queries: int, runs: int) -> None:
    """Measure what it costs to create queries, to group them anew, and to import the library."""
    from benchmarks import creation as benchmark

    with progress_line(BridgeError):
        found = list(benchmark.measure(database, queries, runs, show_progress))
        start = benchmark.seconds_of_import(runs)
    click.echo(benchmark.markdown(found, start))


@main.command()
@databases_option("duckdb://")
@click.option(
    "--events", default=5_000_000, show_default=True, help="The number of events of all streams together; 0 for none."
)
@click.option("--mixed", default=300_000, show_default=True, help="The same for 20 queries of each kind at once.")
@runs_option(5)
@flink_option
@click.option("--patience", default=240.0, show_default=True, help="Seconds that Flink may run.")
def replay(database: tuple[str, ...], events: int, mixed: int, runs: int, flink: str | None, patience: float) -> None:
    """Measure a replay from files to files.

    It compares `cepbridge run` and Flink SQL, with one query at a time and with eighty at once.
    """
    from benchmarks import replay as benchmark

    peer = Peer("Flink SQL", (flink, str(PROGRAMS / "flink_peer.py")), patience) if flink else None
    with progress_line(BridgeError):
        found = list(benchmark.measure(benchmark.cases(events, mixed), database, peer, runs, show_progress))
    click.echo(benchmark.markdown(found))


@main.command()
@databases_option("duckdb://")
@click.option("--events", type=click.IntRange(1), help="Default: 5,000,000 on DuckDB, 200,000 on others.")
@click.option("--query", multiple=True, help="The name of a query, or its beginning. Repeatable. Default: all.")
@runs_option(5)
@json_option
def limits(
    database: tuple[str, ...], events: int | None, query: tuple[str, ...], runs: int, path: pathlib.Path | None
) -> None:
    """Measure a replay beside the best statement by hand.

    Both run on the same database (DuckDB, SQLite or PostgreSQL), from Parquet to Parquet, in turns. Their results are compared
    first.
    """
    from benchmarks import limits as benchmark
    from benchmarks.limit_queries import QUERIES

    queries = [each for each in QUERIES if not query or each.name.startswith(query)]
    if not queries:
        raise click.BadParameter(f"use one of {', '.join(each.name for each in QUERIES)}", param_hint="--query")
    before, found = benchmark.load_average(), []
    try:
        with progress_line(BridgeError, Refused):
            for limit in benchmark.measure(database, events, queries, runs, show_progress):
                found.append(limit)  # noqa: PERF402 (the figures so far are shown after an interrupt)
    finally:
        if found:
            after = benchmark.load_average()
            click.echo(benchmark.markdown(found, benchmark.load_description(before, after)))
            if path is not None:
                path.write_text(benchmark.as_json(found, before, after), encoding="utf-8")


@contextlib.contextmanager
def progress_line(*refusals: type[Exception]) -> Iterator[None]:
    """Clears the line of progress at the end. The errors `refusals` end the command with their messages."""
    try:
        yield
    except refusals as error:
        raise click.ClickException(str(error)) from None
    finally:
        show_progress("")


def show_progress(progress: str) -> None:
    """Shows the progress on one line of a terminal; nothing in a file or a pipe."""
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
