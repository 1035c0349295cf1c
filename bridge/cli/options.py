"""Options that several commands share, and the values that they are turned into."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import bridge
from bridge.cli.errors import note_script
from bridge.engine.create import LANGUAGES
from bridge.engine.session import session_of
from bridge.errors import QueryError, SourceError
from windows.databases.urls import without_password

if TYPE_CHECKING:
    from bridge.history.script import ReplayScript

FORMATS = ("ndjson", "csv", "parquet")

Decorator = Callable[[Any], Any]
"""Adds an argument or an option to a command."""

queries_argument: Decorator = click.argument("queries", type=click.Path(dir_okay=False))
datastore_option: Decorator = click.option(
    "--datastore", multiple=True, metavar="NAME=URL",
    help="A data store that a CPL script reads or writes, as a SQLAlchemy URL. Repeatable.",
)  # fmt: skip
language_option: Decorator = click.option(
    "--language", type=click.Choice(LANGUAGES, case_sensitive=False),
    help="The language of QUERIES. Default: by the ending, .epl or .cpl; sql for any other.",
)  # fmt: skip
relation_option: Decorator = click.option(
    "--relation", multiple=True, metavar="NAME=FILE",
    help="A table that queries join with, from a CSV, NDJSON or Parquet file. Repeatable.",
)  # fmt: skip
timestamp_option: Decorator = click.option(
    "--timestamp", multiple=True, metavar="[STREAM=]COLUMN",
    help="The column with the timestamps. Default: guessed by its name or type. Times without a zone are UTC. Repeatable.",
)  # fmt: skip
timestamp_unit_option: Decorator = click.option(
    "--timestamp-unit", type=click.Choice(["s", "ms", "us", "ns", "auto"]),
    help="The unit of timestamps that are numbers; auto guesses it by the first one. Default: whole milliseconds.",
)  # fmt: skip
sort_option: Decorator = click.option(
    "--sort", is_flag=True,
    help="Order the events by time first. Events of one stream with equal timestamps keep their order.",
)  # fmt: skip
until_option: Decorator = click.option(
    "--until", metavar="TIME",
    help="Read events up to and including TIME, then advance time to it: without it time ends with the newest event, and an "
    "absence that is due later is not reported. Milliseconds since 1970, or ISO 8601.",
)  # fmt: skip


def db_option(text: str, default: str = "duckdb://", *names: str) -> Decorator:
    """The option --db, with further `names`."""
    return click.option("--db", *names, default=default, show_default=True, metavar="URL", help=text)


def epilog(example: str, page: str) -> str:
    """The end of a command's help: an example, and the page of the documentation."""
    return f"\b\nExample:\n  {example}\n\n\b\nDocumentation:\n  {page} in the source repository of cep-bridge"


def script_of(path: str, text: str | None = None, language: str | None = None, db: str = "duckdb://") -> ReplayScript:
    """The script in a file, or in `text` if the file was already read; a single SELECT is named after the file.

    `db`: the URL of the database that computes its expressions.
    """
    from bridge.history.script import ReplayScript
    from windows.databases import dialect_of

    text = text_of(path) if text is None else text
    note_script(path, text)
    try:
        return ReplayScript.of(text, Path(path).stem, language_of(path, language), dialect_of(db))
    except QueryError as error:
        raise error.within(text) from None


def language_of(path: str, option: str | None) -> str:
    """The language of a script, given by the option --language or else by the file's ending."""
    ending = Path(path).suffix.lower().removeprefix(".")
    return option or (ending if ending in LANGUAGES else "sql")


def text_of(path: str) -> str:
    """The text of a UTF-8 file. Raises SourceError if it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        note_script(path, text)
        return text
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None


def events_by_stream(options: tuple[str, ...], script: ReplayScript, cep: bridge.Bridge) -> dict[str, str]:
    """The path of each stream's events, from the options --events."""
    paths: dict[str, str] = {}
    named = {option: option.partition("=") for option in options if "=" in option and not Path(option).exists()}
    others = {name.lower() for name, _, _ in named.values()}
    for option in options:
        if option in named:
            name, _, path = named[option]
        else:
            name, path = _only_stream(option, script, cep, others), option
        if name in paths:
            raise click.UsageError(
                f"--events {option}: the stream {name} has events already, from {paths[name]}; "
                "name several files by one pattern, such as 'logs/*.csv'"
            )
        paths[name] = path
    if list(paths.values()).count("-") > 1:
        raise click.UsageError("--events: standard input (-) holds the events of one stream; give the others as files")
    return paths


def _only_stream(path: str, script: ReplayScript, cep: bridge.Bridge, others: Collection[str]) -> str:
    """The stream of a file given without a stream's name: the only one that has no events yet.

    `others`: the streams that already have events, in lower case. The candidates are the streams that the script both
    declares and reads; if there is none, all names that it reads, without tables. Raises click.UsageError unless there
    is exactly one.
    """
    declared = {name.lower() for name in script.declared}
    free = [name for name in script.reads if name.lower() not in others]
    streams = [name for name in free if name.lower() in declared] or [
        name for name in free if session_of(cep).database.relation(name) is None
    ]
    if len(streams) != 1:
        names = f"the streams {', '.join(streams)}" if streams else "no other stream" if others else "no stream"
        raise click.UsageError(f"--events {path}: which stream? The queries read {names}; write STREAM={path}")
    return streams[0]


def relations_of(options: tuple[str, ...]) -> dict[str, Any]:
    """The Arrow table of each relation, from the options --relation."""
    pairs = pairs_of("relation", options, "NAME=FILE")
    if not pairs:
        return {}
    from bridge.sources.relations import read_relation

    return {name: read_relation(name, path) for name, path in pairs.items()}


def pairs_of(option: str, texts: tuple[str, ...], form: str) -> dict[str, str]:
    """The values of a repeatable option, by name. `form`: how each is written, for messages."""
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise click.UsageError(f"--{option} {without_password(text)}: expected {form}")
        if name in values:
            raise click.UsageError(
                f"--{option} {without_password(text)}: {name} is already {without_password(values[name])}; use another name"
            )
        values[name] = value
    return values


def timestamps_of(options: tuple[str, ...], paths: dict[str, str]) -> dict[str, str]:
    """The timestamp column of each stream in `paths`. A column without a stream is for all streams."""
    columns: dict[str, str] = {}
    for option in options:
        stream, equals, column = option.partition("=")
        streams = [name for name in paths if name.lower() == stream.lower()] if equals else list(paths)
        if not streams:
            raise click.UsageError(
                f"--timestamp {option}: --events does not name a stream {stream}; it names {', '.join(paths)}"
            )
        columns |= dict.fromkeys(streams, column if equals else option)
    return columns


def milliseconds_of(text: str) -> int:
    """Milliseconds since 1970 of the option --until: a whole number, or an ISO 8601 time, in UTC without a zone."""
    import pyarrow as pa

    from bridge.sources.arrays import Unfit
    from bridge.sources.times import to_times

    try:
        return int(to_times(pa.array([text]))[0].as_py())
    except (Unfit, pa.ArrowException):
        raise click.BadParameter(
            f"{text!r} is neither milliseconds nor an ISO 8601 time such as 2024-12-31T23:59:59Z", param_hint="--until"
        ) from None
