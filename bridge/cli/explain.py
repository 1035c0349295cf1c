"""`cepbridge explain`: prints the plan of each query, and draws its patterns."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

import bridge
from bridge.cli import options
from bridge.cli.errors import exit_on_error, note_script
from bridge.errors import QueryError, SchemaError, SourceError

if TYPE_CHECKING:
    from bridge.history.script import ReplayScript
    from nfa.graph import Graph

EXAMPLE = "cepbridge explain queries.sql --db sqlite:// --graph patterns.svg"


@click.command(epilog=options.epilog(EXAMPLE, "docs/how-it-works.md"))
@options.queries_argument
@options.db_option("The database that the SQL is for: duckdb://, or any SQLAlchemy URL.")
@click.option("--schema", type=click.Path(dir_okay=False), metavar="FILE",
              help="A file of CREATE STREAM statements for the streams that QUERIES does not declare.")  # fmt: skip
@click.option("--graph", type=click.Path(dir_okay=False), metavar="FILE",
              help="Draw the patterns, or the operators of a CPL script, into a .svg, .mmd, .dot or .gv file.")  # fmt: skip
@click.option("--variants", is_flag=True, help="Print every variant of each statement, not only that of a small push.")
@options.datastore_option
@options.language_option
def explain(
    queries: str, db: str, schema: str | None, graph: str | None, variants: bool, datastore: tuple[str, ...],
    language: str | None,
) -> None:  # fmt: skip
    """Show the operators, the SQL and the automata of queries.

    A SELECT with MATCH_RECOGNIZE that is not part of a CREATE QUERY is explained as an on-demand query: its tables must
    be in the database. If it reads a stream that QUERIES or --schema declares, it is a continuous query.
    """
    with exit_on_error():
        from bridge.history.script import ReplayScript
        from bridge.query.notation import notation

        language = options.language_of(queries, language)
        text, selects = options.text_of(queries), list[str]()
        if language == "sql":
            text, selects = _split(queries, options.text_of(schema) if schema else "")
        script = (
            ReplayScript({}, {})
            if selects and not _has_statements(text)
            else options.script_of(queries, text, language, db)
        )
        if schema is not None:
            script.streams.update(options.script_of(schema).streams)
        with bridge.connect(db, durable=False) as cep:
            for name, url in options.pairs_of("datastore", datastore, "NAME=URL").items():
                cep.register_datastore(name, url)
            _register_tables(cep, script)
            script.install(cep, {})
            names = [*script.queries, *selects]
            for one in script.graphs:
                click.echo("\n".join(["-- script", "--", *(f"--   {line}" for line in notation(one)), ""]))
            for name in names:
                click.echo(cep.explain(name, variants))
            if graph is not None:
                _draw(cep, names, graph, script)


def _register_tables(cep: bridge.Bridge, script: ReplayScript) -> None:
    """Registers the streams of tables, which must be in the database. Nothing is created there to read them."""
    from bridge.engine.session import session_of
    from bridge.history.deployment import schema_of_table

    session = session_of(cep)
    for stream in script.table_streams:
        try:
            schema, _ = schema_of_table(stream, None, session.database)
        except SchemaError as error:
            raise SourceError(f"the stream {stream.name!r}: {error} (--db names the database of the table)") from None
        cep.register_stream(stream.name, schema)
        session.catalogue.stream_entry(stream.name).source = stream.source


def _split(path: str, schema: str) -> tuple[str, list[str]]:
    """The text of a script with its on-demand query blanked out, and that query. A query over a stream is continuous."""
    from bridge.engine.on_demand.select_text import on_demand_part

    text = options.text_of(path)
    start, end = on_demand_part(text)
    if start == end or _streams(text + ";" + schema) & _words(text[start:end]):
        return text, []
    # Blanks in place of the other part, so that errors have the line in the file.
    script, select = text[:start] + _blank(text[start:end]) + text[end:], _blank(text[:start]) + text[start:end]
    note_script(path, select)
    return script, [select]


def _streams(script: str) -> set[str]:
    """The names that a script declares, in upper case."""
    from bridge.frontends.cursor import Cursor, word_of

    tokens = Cursor(script).tokens
    created = ["CREATE", "STREAM"]
    places = (at + 2 for at in range(len(tokens) - 2) if [*map(word_of, tokens[at : at + 2])] == created)
    return {tokens[place].text.upper() for place in places}


def _words(text: str) -> set[str]:
    from bridge.frontends.cursor import Cursor

    return {token.text.upper() for token in Cursor(text).tokens}


def _has_statements(text: str) -> bool:
    from bridge.frontends.cursor import Cursor, word_of

    return any(word_of(token) != ";" for token in Cursor(text).tokens)


def _blank(text: str) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in text)


def _draw(cep: bridge.Bridge, names: list[str], path: str, script: ReplayScript) -> None:
    """Draws the graph of a CPL script, or the patterns of all queries."""
    from bridge.query.drawing import drawing_of

    try:
        if script.graphs:
            drawing_of(script.graphs[0]).save(path)
        else:
            _patterns(cep, names, path).save(path)
    except (ValueError, ModuleNotFoundError) as error:
        raise click.UsageError(f"--graph {error}") from None


def _patterns(cep: bridge.Bridge, names: list[str], path: str) -> Graph:
    from nfa.graph import Diagram, Graph

    diagrams: list[Diagram] = []
    for name in names:
        with contextlib.suppress(QueryError):  # raised for a query without a pattern
            found = cep.graph(name)
            diagrams += found.diagrams if isinstance(found, Graph) else ()
    if not diagrams:
        raise SourceError(f"{path} is not written: there is no pattern to draw")
    return Graph(tuple(diagrams))
