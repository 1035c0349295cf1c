"""`cepbridge bench`: the options of the paper's experiment, which `bridge.bench` runs."""

from __future__ import annotations

from pathlib import Path

import click

from bridge.cli.errors import exit_on_error


def _numbers(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    from bridge.bench.command import numbers

    return numbers(context, option, texts)


def _operators(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    from bridge.bench.command import names

    return names(context, option, texts)


@click.command()
@click.option("--db", "--database", "databases", multiple=True, metavar="URL",
              help="A database; may be repeated [duckdb:// and sqlite://].")  # fmt: skip
@click.option("--count", multiple=True, callback=_numbers, help="Queries at a time: 1,80, or 1-100/10 [1,10,80].")
@click.option("--drive", multiple=True, callback=_numbers, help="Events at a time [1,1000,100000].")
@click.option("--operators", multiple=True, callback=_operators, help="[sigma,join,alpha,rho,mixed]")
@click.option("--runs", type=click.IntRange(1), help="For each figure [5].")
@click.option("--seconds", type=click.FloatRange(0.001), help="For each figure, shared by its runs [3].")
@click.option("--quick", is_flag=True, help="Count 1, one short run each: whether everything works, not how fast.")
@click.option(
    "--peers", multiple=True, metavar="NAME=COMMAND", help="Another engine, run by a program; may be repeated."
)
@click.option("--json", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here, too.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path),
              help="Draw throughput over Count into this file, .png or .svg.")  # fmt: skip
def bench(
    databases: tuple[str, ...], count: tuple[int, ...], drive: tuple[int, ...], operators: tuple[str, ...],
    runs: int | None, seconds: float | None, quick: bool, peers: tuple[str, ...], json: Path | None, plot: Path | None,
) -> None:  # fmt: skip
    """Measure databases with the experiment of the paper: how many events a second its queries take.

    Filter (sigma), correlation (join), aggregation (alpha) and pattern (rho), as many queries at a time as --count says,
    and 20 of each (mixed); an event a millisecond on each stream; windows are full from the start. Beside this program
    runs, as a baseline, the paper's own algorithm. First all must report the same rows.
    """
    with exit_on_error():
        from bridge.bench import command

        settings = command.settings_of(
            quick, databases=databases, counts=count, drives=drive, operators=operators, runs=runs, seconds=seconds,
            peers=command.peers_of(peers),
        )  # fmt: skip
        command.bench(settings, json, plot)
