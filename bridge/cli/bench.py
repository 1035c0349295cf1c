"""`cepbridge bench`: the options of the paper's experiment, which `bridge.bench` runs."""

from __future__ import annotations

from pathlib import Path

import click

from bridge.cli import options
from bridge.cli.errors import exit_on_error

EXAMPLE = "cepbridge bench --quick --db sqlite:// --operators sigma,alpha"


def _numbers(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    from bridge.bench.command import numbers

    return numbers(context, option, texts)


def _operators(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    from bridge.bench.command import operators

    return operators(context, option, texts)


@click.command(epilog=options.epilog(EXAMPLE, "benchmarks/README.md"))
@click.option("--db", "--database", "databases", multiple=True, metavar="URL",
              help="A database to measure, as a SQLAlchemy URL. Repeatable. Default: duckdb:// and sqlite://.")  # fmt: skip
@click.option("--count", multiple=True, callback=_numbers, metavar="NUMBERS",
              help="How many queries run at a time: 1,80 or 1-100/10. Repeatable. Default: 1,10,80.")  # fmt: skip
@click.option("--drive", multiple=True, callback=_numbers, metavar="NUMBERS",
              help="How many events a push has. Repeatable. Default: 1,1000,100000.")  # fmt: skip
@click.option("--operators", multiple=True, callback=_operators, metavar="NAMES",
              help="Which queries to measure. Repeatable. Default: sigma,join,alpha,rho,mixed.")  # fmt: skip
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
    runs: int | None, seconds: float | None, quick: bool, peers: tuple[str, ...], json: Path | None, plot: Path | None,
) -> None:  # fmt: skip
    """Measure databases with the experiment of the paper.

    The figures are events per second. The queries are a filter (sigma), a correlation (join), an aggregation (alpha)
    and a pattern (rho), --count of one kind at a time, or 20 of each (mixed). Each stream has one event per
    millisecond, and all windows are full from the start. The baseline is the paper's own algorithm. Before it measures,
    the command checks that all report the same rows.
    """
    with exit_on_error():
        from bridge.bench import command

        settings = command.settings_of(
            quick, databases=databases, counts=count, drives=drive, operators=operators, runs=runs, seconds=seconds,
            peers=command.peers_of(peers),
        )  # fmt: skip
        command.bench(settings, json, plot)
