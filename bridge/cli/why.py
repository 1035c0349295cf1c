"""`cepbridge why`: why a row is in a match of a SELECT … MATCH_RECOGNIZE, or in none."""

from __future__ import annotations

import re
from pathlib import Path

import click

import bridge
from bridge.cli.errors import exit_on_error
from bridge.cli.options import text_of
from bridge.errors import QueryError, SourceError


@click.command()
@click.argument("query", type=click.Path(dir_okay=False))
@click.option("--db", "--database", default="duckdb://", show_default=True, help="The database that has the rows.")
@click.option("--row", multiple=True, required=True, metavar="COLUMN=VALUE", help="What tells the row from all others.")
@click.option("--clause", type=int, help="Which MATCH_RECOGNIZE, counted from 1, if there are several.")
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1), help="Show so many runs at most.")
def why(query: str, db: str, row: tuple[str, ...], clause: int | None, runs: int) -> None:
    """Tell why a row is in a match of a SELECT … MATCH_RECOGNIZE, or in none.

    QUERY holds one SELECT with MATCH_RECOGNIZE over a table of the database.
    """
    with exit_on_error():
        wanted = dict(_pair(text) for text in row)
        asked = _one_select(query)
        _refuse_new_file(db)
        with bridge.connect(db) as cep:
            click.echo(cep.why(asked, wanted, clause=clause, runs=runs))


def _pair(text: str) -> tuple[str, str]:
    column, mark, value = text.partition("=")
    if not mark:
        raise click.UsageError(f"--row {text}: COLUMN=VALUE is wanted")
    return column, value


def _one_select(path: str) -> str:
    """The text of a file that is one SELECT with MATCH_RECOGNIZE; a script of streams and queries is none."""
    from bridge.engine.on_demand import is_select
    from bridge.frontends.cursor import Cursor, word_of

    text = text_of(path)
    tokens = Cursor(text).tokens
    words = [*map(word_of, tokens)]
    many = any(word == ";" and any(after != ";" for after in words[at:]) for at, word in enumerate(words))
    if many or "MATCH_RECOGNIZE" not in words or not is_select(text):
        place = tokens[0].start if tokens else None
        raise QueryError("why asks one SELECT with MATCH_RECOGNIZE over a table of the database", text, place)
    return text


def _refuse_new_file(url: str) -> None:
    """A question about rows that are there wants a database that is there: DuckDB and SQLite would make the file."""
    match = re.fullmatch(r"(?!.*:memory:)(?:duckdb:(?://)?/?|sqlite(?:\+\w+)?:///)([^?]+)(?:\?.*)?", url)
    if match and not Path(match[1]).exists():
        raise SourceError(f"there is no database {match[1]}: --db names the one that has the rows")
