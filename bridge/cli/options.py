"""Options that several commands have, and what their values stand for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import bridge
from bridge.errors import SourceError

if TYPE_CHECKING:
    from bridge.history.script import Script

EVENTS_HELP = """Events of a stream: STREAM=FILE, or FILE alone where the queries read one stream. FILE is CSV, NDJSON
or Parquet (CSV and NDJSON also gz-compressed), a pattern such as 'logs/*.csv', or - for standard input."""
LANGUAGES = ("sql", "epl", "cpl")
LANGUAGE_HELP = "The language of QUERIES [by the ending .epl or .cpl, else sql]."
RELATION_HELP = "A table that queries join with: CSV, NDJSON or Parquet; may be repeated."
DATASTORE_HELP = "A data store that a script of CPL reads or writes, any SQLAlchemy URL; may be repeated."
OUT_HELP = "Write one file a query into this directory."


def script_of(path: str, text: str | None = None, language: str | None = None) -> Script:
    """The queries of a file; a bare SELECT is named after it."""
    from bridge.history.script import Script

    return Script.of(text_of(path) if text is None else text, Path(path).stem, language_of(path, language))


def language_of(path: str, said: str | None) -> str:
    ending = Path(path).suffix.lower().removeprefix(".")
    return said or (ending if ending in LANGUAGES else "sql")


def text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None


def events_by_stream(events: tuple[str, ...], script: Script, cep: bridge.Bridge) -> dict[str, str]:
    """Files by stream."""
    named: dict[str, str] = {}
    for option in events:
        name, mark, path = option.partition("=")
        if not mark or Path(option).exists():
            name, path = _only_stream(option, script, cep), option
        if name in named:
            raise click.UsageError(
                f"--events {option}: {name} has events already ({named[name]}); 'a*.csv' takes several files"
            )
        named[name] = path
    if list(named.values()).count("-") > 1:
        raise click.UsageError("standard input can be only one stream's events")
    return named


def relations_of(options: tuple[str, ...]) -> dict[str, Any]:
    """Tables by name."""
    pairs = pairs_of("relation", options, "NAME=FILE")
    if not pairs:
        return {}
    from bridge.sources.relations import read_relation

    return {name: read_relation(name, path) for name, path in pairs.items()}


def pairs_of(option: str, texts: tuple[str, ...], wanted: str) -> dict[str, str]:
    """What an option that may be repeated says, by name."""
    found: dict[str, str] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not (name and mark and value):
            raise click.UsageError(f"--{option} {text}: {wanted} is wanted")
        if name in found:
            raise click.UsageError(f"--{option} {text}: {name} is {found[name]} already")
        found[name] = value
    return found


def _only_stream(path: str, script: Script, cep: bridge.Bridge) -> str:
    declared = {name.lower() for name in script.declared}
    reads = [name for name in script.reads if name.lower() in declared or cep.database.relation(name) is None]
    if len(reads) != 1:
        there = ", ".join(reads) or "none"
        raise click.UsageError(f"--events {path}: which stream? The queries read {there}: STREAM={path}")
    return reads[0]


def timestamps_of(options: tuple[str, ...], named: dict[str, str]) -> dict[str, str]:
    """Timestamp columns by stream; a column alone is that of all streams."""
    stamps: dict[str, str] = {}
    for option in options:
        stream, mark, column = option.partition("=")
        found = [name for name in named if name.lower() == stream.lower()] if mark else list(named)
        if not found:
            raise click.UsageError(f"--timestamp {option}: --events names no stream {stream}")
        stamps |= dict.fromkeys(found, column if mark else option)
    return stamps


def milliseconds_of(text: str) -> int:
    """Milliseconds, or an ISO date with a time (UTC where no zone is given)."""
    import pyarrow as pa

    from bridge.sources.convert import Unfit, to_times

    try:
        return int(to_times(pa.array([text]))[0].as_py())
    except (Unfit, pa.ArrowException):
        raise click.BadParameter(f"{text!r} is neither milliseconds nor an ISO time", param_hint="--until") from None
