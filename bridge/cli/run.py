"""The command `cepbridge`: run queries over files of events, explain them, tell why; a demonstration; a benchmark."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

import bridge
from bridge.errors import BridgeError, ProcessorError, QueryError, SourceError

if TYPE_CHECKING:
    from bridge.history.results import Tables
    from bridge.history.script import Script
    from bridge.history.slices import Lanes
    from bridge.sources.block import Rejects
    from bridge.sources.source import Source
    from nfa.graph import Graph

FORMATS = ("csv", "ndjson", "parquet")
EVENTS_HELP = """Events of a stream: STREAM=FILE, or FILE alone where the queries read one stream. FILE is CSV, NDJSON
or Parquet (CSV and NDJSON also gz-compressed), a pattern such as 'logs/*.csv', or - for standard input."""
LANGUAGES = ("sql", "epl", "cpl")
LANGUAGE_HELP = "The language of QUERIES [by the ending .epl or .cpl, else sql]."
RELATION_HELP = "A table that queries join with: CSV, NDJSON or Parquet; may be repeated."
DATASTORE_HELP = "A data store that a script of CPL reads or writes, any SQLAlchemy URL; may be repeated."
OUT_HELP = "Write one file a query into this directory."


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(bridge.__version__, prog_name="cepbridge")
def main() -> None:
    """Complex event processing on the database you already have."""


@main.command()
@click.argument("queries", type=click.Path(dir_okay=False))
@click.option("-e", "--events", multiple=True, required=True, metavar="[STREAM=]FILE", help=EVENTS_HELP)
@click.option("--db", default="duckdb://", show_default=True, help="The database: duckdb://, or any SQLAlchemy URL.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Write one file a query into this directory."
)
@click.option(
    "--format", "out_format", type=click.Choice(["ndjson", "csv", "parquet"]), help="Format of these files [parquet]."
)
@click.option(
    "--input-format", type=click.Choice(["csv", "ndjson", "parquet"]), help="Format of the events [by the file]."
)
@click.option(
    "--timestamp",
    multiple=True,
    metavar="[STREAM=]COLUMN",
    help="The column of the timestamps [guessed]; times without a zone are UTC.",
)
@click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
              help="At a wrong line: stop, or keep it in a file of rejects and go on.")  # fmt: skip
@click.option("--until", metavar="TIME", help="Read events up to this time (ms or ISO), and let time pass to it.")
@click.option("--relation", multiple=True, metavar="NAME=FILE", help=RELATION_HELP)
@click.option("--datastore", multiple=True, metavar="NAME=URL", help=DATASTORE_HELP)
@click.option("--language", type=click.Choice(LANGUAGES), help=LANGUAGE_HELP)
def run(
    queries: str, events: tuple[str, ...], db: str, out: Path | None, out_format: str | None, input_format: str | None,
    relation: tuple[str, ...], datastore: tuple[str, ...], timestamp: tuple[str, ...], on_error: str, until: str | None,
    language: str | None,
) -> None:  # fmt: skip
    """Run the queries of a file over files of events.

    QUERIES holds CREATE STREAM and CREATE QUERY … AS SELECT … statements, or one SELECT, named after the file. Without
    --out, results are NDJSON on standard output, ordered by time within each query: query, ts (milliseconds), and the
    columns; dates are ISO texts, decimals texts with all their digits, NaN and infinities null.
    """
    if out_format and out is None:
        raise click.UsageError("--format is the format of files: name their directory with --out")
    with _ending():
        from bridge.engine.connect import IN_MEMORY
        from bridge.history.replay import installed, open_sources, with_relations
        from bridge.history.script import refuse_unknown

        script, relations = _script(queries, language=language), _relations(relation)
        with bridge.connect(db) as cep, with_relations(cep, relations):
            for name, url in _pairs("datastore", datastore, "NAME=URL").items():
                cep.register_datastore(name, url)
            end = None if until is None else _time(until)
            named = _named(events, script, cep)
            stamps = _stamps(timestamp, named)
            sources = open_sources(script, named, stamps, input_format, _note)
            refuse_unknown(script, cep, sources, "with --relation {}=FILE")
            is_apart = db == IN_MEMORY and not datastore and not any(source.waits for source in sources.values())
            with _results(out, out_format) as results:
                lanes = installed(script, cep, sources, results, relations if is_apart else None)
                _Run(cep, sources, results, _rejects(on_error, out, named), lanes).go(end)


@main.command()
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
    with _ending():
        from bridge.history.replay import with_relations

        script = _script(queries)
        relations, stores = _relations(relation), _pairs("datastore", datastore, "NAME=URL")
        with bridge.connect(db) as cep, with_relations(cep, relations):
            named = _named(events, script, cep)
        stamps = _stamps(timestamp, named)
        end = None if until is None else _time(until)
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


@main.command()
@click.argument("queries", type=click.Path(dir_okay=False))
@click.option("--db", default="duckdb://", show_default=True, help="The database: duckdb://, or any SQLAlchemy URL.")
@click.option("--schema", type=click.Path(dir_okay=False), help="A file of CREATE STREAM statements.")
@click.option("--graph", type=click.Path(dir_okay=False), metavar="FILE",
              help="Draw patterns, or a script's operators, into FILE as well: .svg, or .dot or .gv for Graphviz.")  # fmt: skip
@click.option("--datastore", multiple=True, metavar="NAME=URL", help=DATASTORE_HELP)
@click.option("--language", type=click.Choice(LANGUAGES), help=LANGUAGE_HELP)
def explain(
    queries: str, db: str, schema: str | None, graph: str | None, datastore: tuple[str, ...], language: str | None
) -> None:
    """Show what becomes of the queries: tree, operators, SQL, automata.

    A SELECT … MATCH_RECOGNIZE without a name is a question on demand, whose tables must be in the database, unless it
    reads a stream that the script or --schema declares.
    """
    with _ending():
        from bridge.history.script import Script
        from bridge.query.notation import notation

        language = _language(queries, language)
        text, asked = _text(queries), list[str]()
        if language == "sql":
            text, asked = _with_question(queries, _text(schema) if schema else "")
        script = Script({}, {}) if asked and not _says_something(text) else _script(queries, text, language)
        if schema is not None:
            script.streams.update(_script(schema).streams)
        with bridge.connect(db) as cep:
            for name, url in _pairs("datastore", datastore, "NAME=URL").items():
                cep.register_datastore(name, url)
            script.install(cep, {})
            names = [*script.queries, *asked]
            for one in script.graphs:
                click.echo("\n".join(["-- script", "--", *(f"--   {line}" for line in notation(one)), ""]))
            for name in names:
                click.echo(cep.explain(name))
            if graph is not None:
                _draw(cep, names, graph, script)


@main.command()
@click.argument("query", type=click.Path(dir_okay=False))
@click.option("--db", "--database", default="duckdb://", show_default=True, help="The database that has the rows.")
@click.option("--row", multiple=True, required=True, metavar="COLUMN=VALUE", help="What tells the row from all others.")
@click.option("--clause", type=int, help="Which MATCH_RECOGNIZE, counted from 1, if there are several.")
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1), help="Show so many runs at most.")
def why(query: str, db: str, row: tuple[str, ...], clause: int | None, runs: int) -> None:
    """Tell why a row is in a match of a SELECT … MATCH_RECOGNIZE, or in none.

    QUERY holds one SELECT with MATCH_RECOGNIZE over a table of the database.
    """
    with _ending():
        wanted = dict(_pair(text) for text in row)
        asked = _one_select(query)
        _refuse_new_file(db)
        with bridge.connect(db) as cep:
            click.echo(cep.why(asked, wanted, clause=clause, runs=runs))


@main.command()
@click.option("--seed", default=7, show_default=True, help="The same seed, the same events.")
@click.option("--events", default=400, show_default=True, type=click.IntRange(1), help="How many trades.")
@click.option("--speed", default=1.0, show_default=True, type=click.FloatRange(0), help="2: twice as fast; 0: at once.")
@click.option("--db", default="sqlite://", show_default=True, help="The database: duckdb://, or any SQLAlchemy URL.")
def demo(seed: int, events: int, speed: float, db: str) -> None:
    """Watch four queries over a made-up stock exchange, for some eight seconds.

    SQLite is the fastest database for events one at a time; --db duckdb:// gives the same results.
    """
    with _ending():
        from bridge.cli.demo import show

        show(seed, events, speed, db)


def _numbers(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    from bridge.bench.command import numbers

    return numbers(context, option, texts)


def _operators(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    from bridge.bench.command import names

    return names(context, option, texts)


@main.command()
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
    with _ending():
        from bridge.bench import command

        settings = command.settings_of(
            quick, databases=databases, counts=count, drives=drive, operators=operators, runs=runs, seconds=seconds,
            peers=command.peers_of(peers),
        )  # fmt: skip
        command.bench(settings, json, plot)


# Endings --------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Errors are told, not traced: exit code 1; warnings are notes; Ctrl-C ends with 130; a reader that left is no error."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *place, **options: _note(str(message))
            yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except ProcessorError as error:
        _fail(error.errors[0])
    except (BridgeError, OSError) as error:
        _fail(error)


def _fail(error: BaseException) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered has nobody to read it
        sys.exit(0)
    notes = [f"\n  ({note})" for note in getattr(error, "__notes__", [])]
    click.echo(f"error: {error}{''.join(notes)}", err=True)
    sys.exit(1)


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


# What the options say -------------------------------------------------------------------------------------------------


def _script(path: str, text: str | None = None, language: str | None = None) -> Script:
    """The queries of a file; a bare SELECT is named after it."""
    from bridge.history.script import Script

    return Script.of(_text(path) if text is None else text, Path(path).stem, _language(path, language))


def _language(path: str, said: str | None) -> str:
    ending = Path(path).suffix.lower().removeprefix(".")
    return said or (ending if ending in LANGUAGES else "sql")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None


def _with_question(path: str, schema: str) -> tuple[str, list[str]]:
    """The text of a script with blanks for its question on demand, and this; one that reads a stream is a query."""
    from bridge.engine.on_demand import question

    text = _text(path)
    start, end = question(text)
    if start == end or _streams(text + ";" + schema) & _words(text[start:end]):
        return text, []
    # Errors in either tell the line of the file.
    return text[:start] + _blank(text[start:end]) + text[end:], [_blank(text[:start]) + text[start:end]]


def _one_select(path: str) -> str:
    """The text of a file that is one SELECT with MATCH_RECOGNIZE; a script of streams and queries is none."""
    from bridge.engine.on_demand import is_select
    from bridge.frontends.cursor import Cursor, word_of

    text = _text(path)
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


def _streams(script: str) -> set[str]:
    """What a script declares, in upper case."""
    from bridge.frontends.cursor import Cursor, word_of

    tokens = Cursor(script).tokens
    created = ["CREATE", "STREAM"]
    places = (at + 2 for at in range(len(tokens) - 2) if [*map(word_of, tokens[at : at + 2])] == created)
    return {tokens[place].text.upper() for place in places}


def _words(text: str) -> set[str]:
    from bridge.frontends.cursor import Cursor

    return {token.text.upper() for token in Cursor(text).tokens}


def _says_something(text: str) -> bool:
    from bridge.frontends.cursor import Cursor, word_of

    return any(word_of(token) != ";" for token in Cursor(text).tokens)


def _blank(text: str) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in text)


def _pair(text: str) -> tuple[str, str]:
    column, mark, value = text.partition("=")
    if not mark:
        raise click.UsageError(f"--row {text}: COLUMN=VALUE is wanted")
    return column, value


def _draw(cep: bridge.Bridge, names: list[str], path: str, script: Script) -> None:
    """The graph of a script of CPL, or the patterns of all queries."""
    from bridge.query.drawing import drawing_of

    try:
        if script.graphs:
            drawing_of(script.graphs[0]).save(path)
        else:
            _patterns(cep, names, path).save(path)
    except ValueError as error:
        raise click.UsageError(f"--graph {error}") from None


def _patterns(cep: bridge.Bridge, names: list[str], path: str) -> Graph:
    from nfa.graph import Diagram, Graph

    diagrams: list[Diagram] = []
    for name in names:
        with contextlib.suppress(QueryError):  # a query without a pattern
            found = cep.graph(name)
            diagrams += found.diagrams if isinstance(found, Graph) else ()
    if not diagrams:
        raise SourceError(f"{path} is not written: there is no pattern to draw")
    return Graph(tuple(diagrams))


def _named(events: tuple[str, ...], script: Script, cep: bridge.Bridge) -> dict[str, str]:
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


def _relations(options: tuple[str, ...]) -> dict[str, Any]:
    """Tables by name."""
    pairs = _pairs("relation", options, "NAME=FILE")
    if not pairs:
        return {}
    from bridge.sources.relations import read_relation

    return {name: read_relation(name, path) for name, path in pairs.items()}


def _pairs(option: str, texts: tuple[str, ...], wanted: str) -> dict[str, str]:
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


def _stamps(options: tuple[str, ...], named: dict[str, str]) -> dict[str, str]:
    """Timestamp columns by stream; a column alone is that of all streams."""
    stamps: dict[str, str] = {}
    for option in options:
        stream, mark, column = option.partition("=")
        found = [name for name in named if name.lower() == stream.lower()] if mark else list(named)
        if not found:
            raise click.UsageError(f"--timestamp {option}: --events names no stream {stream}")
        stamps |= dict.fromkeys(found, column if mark else option)
    return stamps


def _time(text: str) -> int:
    """Milliseconds, or an ISO date with a time (UTC where no zone is given)."""
    import pyarrow as pa

    from bridge.sources.convert import Unfit, to_times

    try:
        return int(to_times(pa.array([text]))[0].as_py())
    except (Unfit, pa.ArrowException):
        raise click.BadParameter(f"{text!r} is neither milliseconds nor an ISO time", param_hint="--until") from None


def _rejects(on_error: str, out: Path | None, named: dict[str, str]) -> Rejects | None:
    """Where wrong lines are kept: beside the results, or in the working directory by the name of the input."""
    if on_error == "stop":
        return None
    from bridge.sources.block import Rejects

    names = {stream: "stdin" if path == "-" else Path(path).name.replace("*", "_") for stream, path in named.items()}
    beside = {stream: Path(f"{name}.rejects.ndjson") for stream, name in names.items()}
    return Rejects(beside if out is None else dict.fromkeys(named, out / "rejects.ndjson"))


def _results(out: Path | None, out_format: str | None) -> Tables:
    from bridge.history.results import Lines, Results

    return Lines(_write) if out is None else Results(out, out_format or "parquet")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


# The run --------------------------------------------------------------------------------------------------------------


class _Run:
    """Feeds the sources, shows progress on a terminal, and sums up."""

    def __init__(
        self,
        cep: bridge.Bridge,
        sources: dict[str, Source],
        results: Tables,
        rejects: Rejects | None,
        lanes: Lanes | None,
    ) -> None:
        self.cep, self.sources, self.results, self.rejects, self.lanes = cep, sources, results, rejects, lanes
        self.events, self.started = 0, time.monotonic()

    def go(self, end: int | None) -> None:
        """Until all is read, or a bad row stops it: what precedes that is done and kept then."""
        from bridge.history.replay import feed

        stop: BaseException | None = None
        try:
            with _progress(self) as told:
                feed(self.cep, self.sources, end, self.rejects, told, lanes=self.lanes)
        except (SourceError, KeyboardInterrupt) as error:
            stop = error
        finally:
            if self.rejects is not None:
                self.rejects.close()
        self.results.close()
        self._sum_up()
        if stop is not None:
            raise stop

    def _sum_up(self) -> None:
        from bridge.history.results import counted

        seconds = time.monotonic() - self.started
        found = ", ".join(f"{name} {count:,}" for name, count in self.results.counts.items())
        click.echo(f"{counted(self.events)}, results: {found}; {seconds:.2f} s", err=True)
        for path, count in self.rejects.counts.items() if self.rejects is not None else ():
            click.echo(f"{counted(count, 'wrong line')} {'is' if count == 1 else 'are'} in {path}", err=True)


@contextlib.contextmanager
def _progress(run: _Run) -> Iterator[Callable[[int], None]]:
    """Counts events; draws a bar where standard error is a terminal and results do not go to the same one."""

    def count(events: int) -> None:
        run.events = events

    from bridge.history.results import Lines

    if not sys.stderr.isatty() or (isinstance(run.results, Lines) and sys.stdout.isatty()):
        yield count
        return
    with _bar() as bar:
        task = bar.add_task("events", total=None, events=0, rate=0)

        def draw(events: int) -> None:
            count(events)
            fractions = [source.fraction for source in run.sources.values()]
            done = None if None in fractions else min(f for f in fractions if f is not None)
            rate = int(events / max(time.monotonic() - run.started, 1e-9))
            bar.update(task, completed=done or 0, total=None if done is None else 1, events=events, rate=rate)

        yield draw


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    text = "{task.fields[events]:,} events  {task.fields[rate]:,}/s"
    return Progress(BarColumn(), TextColumn(text), TimeElapsedColumn(), console=Console(stderr=True), transient=True)
