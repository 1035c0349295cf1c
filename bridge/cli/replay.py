"""`cepbridge replay`: runs queries over a history, here or on Spark, and writes the results as Parquet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

import bridge
from bridge.cli import options
from bridge.cli.errors import exit_on_error
from bridge.errors import quantity

if TYPE_CHECKING:
    from bridge.history.script import ReplayScript

EXAMPLE = "cepbridge replay queries.sql --events trades='trades/*.parquet' --engine spark --out results"


@click.command(epilog=options.epilog(EXAMPLE, "docs/spark.md"))
@options.queries_argument
@click.option("-e", "--events", multiple=True, required=True, metavar="[STREAM=]SOURCE",
              help="The events of a stream: a file, a pattern, or with --engine spark a directory of Parquet files or a "
                   "table of Spark. STREAM= may be left out if the queries read one stream only. Repeatable.")  # fmt: skip
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True,
              help="Where the queries run: on this machine, or on Spark.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False),
              help="The directory of the results: Parquet, per query. Required unless --explain is given.")  # fmt: skip
@options.timestamp_option
@options.timestamp_unit_option
@options.sort_option
@options.until_option
@options.relation_option
@options.datastore_option
@options.db_option("The database whose tables a script reads and writes: duckdb://, or any SQLAlchemy URL.")
@click.option("--pieces", type=click.IntRange(1), metavar="NUMBER",
              help="The number of pieces the history is cut into, on Spark. Default: by its size.")  # fmt: skip
@click.option("--run", "run_name", metavar="NAME",
              help="A name for this run, on Spark: under one name, tables and data stores are written once, "
                   "even if the run is repeated.")  # fmt: skip
@click.option("--explain", is_flag=True, help="Show how Spark would compute the queries, without computing them.")
def replay(
    queries: str, events: tuple[str, ...], engine: str, out: str | None, timestamp: tuple[str, ...],
    timestamp_unit: str | None, sort: bool, until: str | None, relation: tuple[str, ...], datastore: tuple[str, ...], db: str,
    pieces: int | None, run_name: str | None, explain: bool,
) -> None:  # fmt: skip
    """Run queries over a history, here or on Spark.

    The results of each query are written as Parquet; they are those of `cepbridge run`. With --engine spark, which needs
    Java and the extra `spark` (pip install '.[spark]'), the history is cut into pieces by time or by key, and all cores work
    on them.
    """
    if out is None and not explain:
        raise click.UsageError("name the directory of the results with --out")
    if engine != "spark" and (pieces or explain or run_name):
        raise click.UsageError("--pieces, --run and --explain need --engine spark")
    with exit_on_error():
        from bridge.history.replay import with_relations
        from bridge.sources.options import HistoryOptions

        script = options.script_of(queries, db="duckdb://" if engine == "spark" else db)
        relations, stores = options.relations_of(relation), options.pairs_of("datastore", datastore, "NAME=URL")
        with bridge.connect(db, durable=False) as cep, with_relations(cep, relations):
            paths = options.events_by_stream(events, script, cep)
        columns = options.timestamps_of(timestamp, paths)
        arguments: dict[str, Any] = {
            "relations": relations, "stores": stores, "database": db,
            "end": None if until is None else options.milliseconds_of(until),
        }  # fmt: skip
        if engine == "spark":
            arguments["reading"] = HistoryOptions(columns, timestamp_unit)
            if explain or out is None:
                _explain_on_spark(paths, script, pieces=pieces, **arguments)
            else:
                _replay_on_spark(paths, script, out, run_name, pieces=pieces, **arguments)
        else:
            tables = bridge.replay(
                paths, script, out=out, timestamp=columns, timestamp_unit=timestamp_unit, sort=sort, **arguments
            )
            click.echo(
                f"results: {', '.join(f'{name} {table.num_rows:,}' for name, table in tables.items())}", err=True
            )


def _explain_on_spark(source: Mapping[str, Any], script: ReplayScript, **arguments: Any) -> None:
    """Prints how each query would be computed. `arguments` are those of `bridge.spark.piecewise.Replay`."""
    from bridge.spark.piecewise import Replay

    replay = Replay(source, script, **arguments)
    for name in replay.job.names:
        click.echo(replay.explain(name))


def _replay_on_spark(
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
