"""`cepbridge replay --engine spark`: runs the queries, and prints the size and the balance of each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from bridge.errors import quantity
from bridge.history.script import ReplayScript


def explain_on_spark(source: Mapping[str, Any], script: ReplayScript, **arguments: Any) -> None:
    """Prints how each query would be computed. `arguments` are those of `bridge.spark.piecewise.Replay`."""
    from bridge.spark.piecewise import Replay

    replay = Replay(source, script, **arguments)
    for name in replay.job.names:
        click.echo(replay.explain(name))


def replay_on_spark(
    source: Mapping[str, Any], script: ReplayScript, out: str, run: str | None, **arguments: Any
) -> None:
    """Writes the results of all queries into the directory `out`. `arguments` are those of `bridge.spark.piecewise.Replay`."""
    from bridge.spark.parquet import write
    from bridge.spark.piecewise import Replay

    start = time.monotonic()
    replay = Replay(source, script, **arguments)
    lines = write(replay, out, run)
    events, seconds = replay.job.history.count, time.monotonic() - start
    click.echo(f"{quantity(events)} in {seconds:.1f} s on {replay.job.cores} cores", err=True)
    for line in lines:
        click.echo(
            f"{line.query}: {line.rows:,} results, {line.description}; {line.pieces} pieces, "
            f"the largest {line.skew:.1f} times the average; pass of {line.seconds:.1f} s",
            err=True,
        )
