"""`python -m benchmarks`: the paper's experiment, the same as `cepbridge bench`; the commands measure other things."""

from __future__ import annotations

import contextlib
import pathlib
import shlex
import sys
from collections.abc import Iterator
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

GROWING = ("history", "window", "results")
"""What `scaling` may let grow."""

PROGRAMS = pathlib.Path(__file__).parent
OPTIONS = (
    click.Option(["--flink"], envvar="FLINK_PYTHON", metavar="PYTHON", help="Of an environment with apache-flink."),
    click.Option(["--esper-jars"], envvar="ESPER_JARS", metavar="DIR", help="A directory with Esper's jars."),
)


@click.group(help=__doc__, invoke_without_command=True, params=[*bench.params, *OPTIONS])
@click.pass_context
def main(context: click.Context, flink: str | None, esper_jars: str | None, **options: Any) -> None:
    if context.invoked_subcommand is None and bench.callback is not None:
        options["peers"] += tuple(_programs(flink, esper_jars))
        bench.callback(**options)


def _programs(flink: str | None, esper_jars: str | None) -> Iterator[str]:
    """The engines of this directory, as --peers takes them."""
    if flink:
        yield f"Flink SQL={shlex.join([flink, str(PROGRAMS / 'flink_peer.py')])}"
    if esper_jars:
        yield f"Esper={shlex.join([sys.executable, str(PROGRAMS / 'esper_peer.py'), esper_jars])}"


@main.command()
@click.option("--quick", is_flag=True, help="Fewer rows and three runs.")
@click.option("--runs", default=5, show_default=True, help="For each figure.")
@click.option("--only", multiple=True, help="A workload's name or its beginning; may be repeated.")
@click.option(
    "--peers",
    envvar="PEERS_PYTHON",
    metavar="PYTHON",
    help="The Python of an environment with pandas-match-recognize and pyarrow. [PEERS_PYTHON]",
)
@click.option("--flink", envvar="FLINK_PYTHON", metavar="PYTHON", help="Of an environment with apache-flink.")
@click.option("--esper-jars", envvar="ESPER_JARS", metavar="DIR", help="A directory with Esper's jars.")
@click.option("--json", "path", type=click.Path(path_type=pathlib.Path), help="Write the figures here, too.")
def row_patterns(
    quick: bool,
    runs: int,
    only: tuple[str, ...],
    peers: str | None,
    flink: str | None,
    esper_jars: str | None,
    path: pathlib.Path | None,
) -> None:
    """MATCH_RECOGNIZE on demand, against statements written by hand and other engines.

    Every side must first give the rows that are expected, found without row patterns.
    """
    workloads = [each for each in WORKLOADS if not only or each.name.startswith(only)]
    if not workloads:
        raise click.BadParameter(f"there are {', '.join(each.name for each in WORKLOADS)}", param_hint="--only")
    runs = 3 if quick else runs
    with telling(patterns.DifferenceError, RefusedError):
        found = list(compare(workloads, installed(peers, flink, esper_jars), quick, runs, tell))
    click.echo(comparisons_markdown(found, runs))
    if path is not None:
        path.write_text(comparisons_json(found), encoding="utf-8")


@main.command()
@click.option("--database", default="duckdb://", show_default=True, help="A URL.")
@click.option("--events", default=10_000_000, show_default=True, help="How long the history gets.")
@click.option(
    "--plot", type=click.Path(path_type=pathlib.Path), help="Draw the costs into this file (needs matplotlib)."
)
def live(database: str, events: int, plot: pathlib.Path | None) -> None:
    """What an event costs a continuous MATCH_RECOGNIZE, over the length of its history."""
    from benchmarks import live as growth

    points = growth.measure(database, events, tell)
    tell("")
    click.echo("| query | events before | µs an event |\n|---|---|---|")
    for point in points:
        click.echo(f"| {point.query} | {point.events:,} | {point.microseconds:.1f} |")
    if plot is not None:
        growth.draw(points, plot)


@main.command()
@click.option("--database", multiple=True, default=("duckdb://",), show_default=True, help="A URL; may be repeated.")
@click.option(
    "--drive", multiple=True, type=click.IntRange(1), default=(1, 1_000), show_default=True, help="Events at a time."
)
@click.option(
    "--of",
    multiple=True,
    type=click.Choice(GROWING),
    default=GROWING,
    show_default=True,
    help="What grows.",
)
@click.option("--events", default=1_000_000, show_default=True, help="How long histories and how large windows get.")
@click.option("--seconds", default=1.0, show_default=True, help="For each point.")
@click.option(
    "--plot", type=click.Path(path_type=pathlib.Path), help="Draw the costs into this file (needs matplotlib)."
)
def scaling(
    database: tuple[str, ...],
    drive: tuple[int, ...],
    of: tuple[str, ...],
    events: int,
    seconds: float,
    plot: pathlib.Path | None,
) -> None:
    """What an event costs over the length of the history, an aggregate's window, and a correlation's results."""
    from benchmarks import scaling as growth

    if plot is not None:
        pyplot()
    scales = [growth.Scale(url, each, events, seconds) for url in database for each in drive]
    points = []
    click.echo(growth.HEAD)
    for scale in scales:
        for point in growth.measure(scale, of):
            click.echo(growth.row(point))
            points.append(point)
    if plot is not None:
        growth.draw(points, plot)


@main.command()
@click.option("--count", multiple=True, type=click.IntRange(1), default=(1, 80), show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="For each figure, all runs together.")
@click.option("--runs", default=5, show_default=True, help="For each figure.")
@click.option("--esper-jars", envvar="ESPER_JARS", metavar="DIR", help="A directory with Esper's jars.")
def epl(count: tuple[int, ...], seconds: float, runs: int, esper_jars: str | None) -> None:
    """The paper's four queries in EPL, beside the same in SQL and Esper itself: events a second."""
    from benchmarks import epl as paper

    peer = next(iter(peers_of(tuple(_programs(None, esper_jars)))), None)
    with telling(BridgeError):
        found = list(paper.measure(count, seconds, runs, peer, tell))
    click.echo(paper.markdown(found))


@main.command()
@click.option("--events", multiple=True, type=click.IntRange(1), default=(1_000_000,), show_default=True)
@click.option("--keys", multiple=True, type=click.IntRange(1), default=(1_000, 1), show_default=True)
@click.option("--query", multiple=True, help="One of the queries; may be repeated. [all]")
@click.option("--cores", multiple=True, type=click.IntRange(1), default=(1, 2), show_default=True, help="For Spark.")
@click.option("--flink", envvar="FLINK_PYTHON", metavar="PYTHON", help="Of an environment with apache-flink.")
@click.option("--patience", default=180.0, show_default=True, help="For so many seconds a run of Flink may take.")
def spark(
    events: tuple[int, ...],
    keys: tuple[int, ...],
    query: tuple[str, ...],
    cores: tuple[int, ...],
    flink: str | None,
    patience: float,
) -> None:
    """History on Spark, from Parquet to Parquet, over many keys and over one, on several numbers of cores."""
    from benchmarks import on_spark

    unknown = set(query) - set(on_spark.QUERIES)
    if unknown:
        raise click.BadParameter(f"there are {', '.join(on_spark.QUERIES)}", param_hint="--query")
    found = []
    try:
        with telling(BridgeError):
            names = query or tuple(on_spark.QUERIES)
            cases = [on_spark.Case(name, count, each) for count in events for each in keys for name in names]
            for run in on_spark.measure(cases, cores, flink, patience, tell):
                found.append(run)  # noqa: PERF402 (what is there is shown, should it be interrupted)
    finally:
        click.echo(on_spark.markdown(found))


@main.command()
@click.option("--database", multiple=True, default=("duckdb://",), show_default=True, help="A URL; may be repeated.")
@click.option("--events", default=5_000_000, show_default=True, help="How many, of all streams together; 0: none.")
@click.option("--mixed", default=300_000, show_default=True, help="Likewise for 20 queries of each kind at once.")
@click.option("--runs", default=5, show_default=True, help="For each figure.")
@click.option("--flink", envvar="FLINK_PYTHON", metavar="PYTHON", help="Of an environment with apache-flink.")
@click.option("--patience", default=240.0, show_default=True, help="For so many seconds Flink may run at once.")
def replay(database: tuple[str, ...], events: int, mixed: int, runs: int, flink: str | None, patience: float) -> None:
    """History from files to files: `cepbridge run` and Flink SQL, one query at a time, and eighty at once."""
    from benchmarks import replay as history

    peer = Peer("Flink SQL", (flink, str(PROGRAMS / "flink_peer.py")), patience) if flink else None
    with telling(BridgeError):
        found = list(history.measure(history.cases(events, mixed), database, peer, runs, tell))
    click.echo(history.markdown(found))


@contextlib.contextmanager
def telling(*refusals: type[Exception]) -> Iterator[None]:
    """Around what tells its progress: the line is cleared in the end, and what it refuses is the command's error."""
    try:
        yield
    except refusals as error:
        raise click.ClickException(str(error)) from None
    finally:
        tell("")


def tell(progress: str) -> None:
    """The progress, on one line of a terminal; a file or pipe gets none."""
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
