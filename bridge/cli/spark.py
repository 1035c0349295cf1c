"""`cepbridge replay --engine spark`: runs the queries, and tells of each how much there was and how evenly spread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from bridge.history.results import counted
from bridge.history.script import Script


def run_on_spark(
    source: Mapping[str, Any], script: Script, out: str | None, told: bool, run: str | None = None, **options: Any
) -> None:
    """Writes the results of all queries into `out`, or only tells how they would be computed."""
    from bridge.spark.parquet import write
    from bridge.spark.pieces import Replay

    began = time.monotonic()
    replay = Replay(source, script, **options)
    if told or out is None:
        for name in replay.names:
            click.echo(replay.explain(name))
        return
    lines = write(replay, out, run)
    events, seconds = replay.history.count, time.monotonic() - began
    click.echo(f"{counted(events)} in {seconds:.1f} s on {replay.cores} cores", err=True)
    for line in lines:
        click.echo(
            f"{line.query}: {line.rows:,} results, {line.told}; {line.pieces} pieces, "
            f"the largest {line.skew:.1f} times the average; pass of {line.seconds:.1f} s",
            err=True,
        )
