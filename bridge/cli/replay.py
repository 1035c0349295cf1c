"""`cepbridge replay`: a history through queries, here or on Spark, into Parquet files."""

from __future__ import annotations

from typing import Any

import click

import bridge
from bridge.cli.errors import exit_on_error
from bridge.cli.options import (
    DATASTORE_HELP,
    RELATION_HELP,
    events_by_stream,
    milliseconds_of,
    pairs_of,
    relations_of,
    script_of,
    timestamps_of,
)  # fmt: skip


@click.command()
@click.argument("queries", type=click.Path(dir_okay=False))
@click.option("-e", "--events", multiple=True, required=True, metavar="[STREAM=]SOURCE",
              help="Events of a stream: a file, a directory or pattern of Parquet files, or a table of Spark.")  # fmt: skip
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True)
@click.option("--out", type=click.Path(file_okay=False), help="Write the results of each query as Parquet in there.")
@click.option("--timestamp", multiple=True, metavar="[STREAM=]COLUMN", help="The column of the timestamps [guessed].")
@click.option("--until", metavar="TIME", help="Read events up to this time (ms or ISO), and let time pass to it.")
@click.option("--relation", multiple=True, metavar="NAME=FILE", help=RELATION_HELP)
@click.option("--datastore", multiple=True, metavar="NAME=URL", help=DATASTORE_HELP)
@click.option(
    "--db", default="duckdb://", show_default=True, help="The database whose tables a script reads and writes."
)
@click.option("--pieces", type=click.IntRange(1), help="Cut the history into so many pieces, on Spark.")
@click.option(
    "--run", "run_name", metavar="NAME", help="What this run writes, on Spark, is written once under this name."
)
@click.option("--explain", "told", is_flag=True, help="Show how Spark would compute the queries; compute nothing.")
def replay(
    queries: str, events: tuple[str, ...], engine: str, out: str | None, timestamp: tuple[str, ...], until: str | None,
    relation: tuple[str, ...], datastore: tuple[str, ...], db: str, pieces: int | None, run_name: str | None, told: bool,
) -> None:  # fmt: skip
    """Replay a history through the queries of a file, here or on Spark; the results are Parquet files by query.

    The rows are those of `run`. On Spark (pip install 'cep-bridge[spark]', and Java) the history is cut into slices of
    time or by key, which all cores work on.
    """
    if out is None and not told:
        raise click.UsageError("name the directory of the results with --out")
    if engine != "spark" and (pieces or told or run_name):
        raise click.UsageError("--pieces, --run and --explain are about --engine spark")
    with exit_on_error():
        from bridge.history.replay import with_relations

        script = script_of(queries)
        relations, stores = relations_of(relation), pairs_of("datastore", datastore, "NAME=URL")
        with bridge.connect(db) as cep, with_relations(cep, relations):
            named = events_by_stream(events, script, cep)
        stamps = timestamps_of(timestamp, named)
        end = None if until is None else milliseconds_of(until)
        options: dict[str, Any] = {
            "timestamp": stamps, "end": end, "relations": relations, "stores": stores, "database": db,
        }  # fmt: skip
        if engine == "spark":
            from bridge.cli.spark import run_on_spark

            run_on_spark(named, script, out, told, run_name, pieces=pieces, **options)
        else:
            found = bridge.replay(named, script, out=out, **options)
            counted = ", ".join(f"{name} {table.num_rows:,}" for name, table in found.items())
            click.echo(f"results: {counted}", err=True)
