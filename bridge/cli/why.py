"""`cepbridge why`: explains why a row is or is not part of a match of MATCH_RECOGNIZE."""

from __future__ import annotations

import re
from pathlib import Path

import click

import bridge
from bridge.cli import options
from bridge.cli.errors import exit_on_error
from bridge.errors import QueryError, SourceError

EXAMPLE = "cepbridge why dip.sql --db duckdb:///app.duckdb --row symbol=ACME --row ts=7000"


@click.command(epilog=options.epilog(EXAMPLE, "docs/row-patterns.md"))
@click.argument("query", type=click.Path(dir_okay=False))
@options.db_option(
    "The database that holds the rows: duckdb:///FILE, or any SQLAlchemy URL.", "duckdb://", "--database"
)
@click.option("--row", multiple=True, required=True, metavar="COLUMN=VALUE",
              help="A value that identifies the row. Repeat it until one row has all the values.")  # fmt: skip
@click.option("--clause", type=int, metavar="NUMBER",
              help="Which MATCH_RECOGNIZE of the query, counted from 1. Required if there are several.")  # fmt: skip
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1), metavar="NUMBER",
              help="The number of attempts at a match to show.")  # fmt: skip
def why(query: str, db: str, row: tuple[str, ...], clause: int | None, runs: int) -> None:
    """Explain why a row is or is not in a match.

    QUERY is a file with one SELECT with MATCH_RECOGNIZE over a table of the database.
    """
    with exit_on_error():
        values = dict(_pair(text) for text in row)
        select = _select_of(query)
        refuse_new_file(db)
        with bridge.connect(db, durable=False) as cep:
            click.echo(cep.why(select, values, clause=clause, runs=runs))


def _pair(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--row {text}: expected COLUMN=VALUE")
    return column, value


def _select_of(path: str) -> str:
    """The text of a file that must contain one SELECT with MATCH_RECOGNIZE, and not a script."""
    from bridge.engine.on_demand.select_text import is_select
    from bridge.frontends.cursor import Cursor, word_of

    text = options.text_of(path)
    tokens = Cursor(text).tokens
    words = [*map(word_of, tokens)]
    many = any(word == ";" and any(after != ";" for after in words[at:]) for at, word in enumerate(words))
    if many or "MATCH_RECOGNIZE" not in words or not is_select(text):
        place = tokens[0].start if tokens else None
        raise QueryError(
            "cepbridge why explains one SELECT with MATCH_RECOGNIZE over a table of the database", text, place
        )
    return text


def refuse_new_file(url: str) -> None:
    """Raises SourceError if DuckDB or SQLite would create the database's file, which then has no rows."""
    match = re.fullmatch(r"(?!.*:memory:)(?:duckdb:(?://)?/?|sqlite(?:\+\w+)?:///)([^?]+)(?:\?.*)?", url)
    if match and not Path(match[1]).exists():
        raise SourceError(f"there is no database {match[1]}")
