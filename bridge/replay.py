"""Replay: history in, results out, with the very queries that run live."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bridge import query as objects
from bridge.algebra import Script as Graph
from bridge.changes import StateTable
from bridge.creation import retold
from bridge.engine import Bridge
from bridge.errors import BridgeError, QueryError, SourceError, UnknownName, closest, nearest, source_words
from bridge.frontends.epl_changes import CreateTable
from bridge.frontends.extended import CreateStream, Query, Statement, parse, statements
from bridge.intake import milliseconds
from windows.schema import Schema, TypeMismatch

if TYPE_CHECKING:
    from bridge.parallel import Lanes
    from bridge.results import Results, Tables
    from bridge.sources import Rejects, Source
    from bridge.sources.merge import Stretch

IN_MEMORY = "duckdb://"
"""The database of a replay's own."""


@dataclasses.dataclass
class Script:
    """The streams and queries of a text or of a mapping, in order; `text` is what offsets in errors refer to.

    >>> script = Script.of("CREATE STREAM s (a INTEGER); SELECT a FROM s", "high")
    >>> list(script.queries), script.reads
    (['high'], ['s'])
    """

    streams: dict[str, Schema]
    queries: dict[str, tuple[objects.Node, str | None]]
    tables: list[StateTable] = dataclasses.field(default_factory=list)
    """Those that statements of EPL change."""
    graphs: list[Graph] = dataclasses.field(default_factory=list)
    """Scripts of CPL, as the graphs that they are."""
    language: str = "sql"
    """That of the texts."""

    @classmethod
    def of(cls, source: Any, unnamed: str = "result", language: str = "sql") -> Script:
        """Reads a script, or a mapping of names to texts or query objects; `unnamed` names a bare SELECT.

        `language` is that of the texts: "sql", "epl" or "cpl". A script that has been read stays what it is.
        """
        if isinstance(source, cls):
            return source
        if language == "cpl":
            return _cpl(list(source.values()) if isinstance(source, Mapping) else [source])
        read = _reader(language)
        script = _script(source, unnamed, read) if isinstance(source, str) else _mapping(source, language)
        return dataclasses.replace(script, language=language)

    def add(self, name: str, text: str, language: str) -> None:
        """Adds what one text of a mapping asks for, under its name."""
        found = _script(text, name, _reader(language))
        self.streams.update(found.streams)
        self.queries.update(found.queries)
        self.tables += found.tables
        if name not in found.queries and found.queries:  # it inserts into a stream of another name
            self.queries[name] = (objects.Stream(list(found.queries)[-1]), text)

    @property
    def nodes(self) -> Iterator[objects.Stream]:
        """Every stream that a query names."""
        for node, _ in self.queries.values():
            yield from (below for below in objects.walk(node) if isinstance(below, objects.Stream))

    @property
    def declared(self) -> dict[str, Schema]:
        """The streams with a schema, by CREATE STREAM or in a query."""
        inline = {node.name: node.schema for node in self.nodes if node.schema is not None}
        return {**inline, **self.streams}

    @property
    def reads(self) -> list[str]:
        """The streams declared, and the names that queries read and that are no queries: streams, or tables."""
        queries = {name.lower() for name in self.queries}
        names = [*self.declared, *(node.name for node in self.nodes)]
        unique = {name.lower(): name for name in reversed(names) if name.lower() not in queries}
        return list(reversed(unique.values()))

    def install(self, cep: Bridge, inferred: Mapping[str, Schema]) -> None:
        """Registers the streams that are not there yet, then creates the queries; errors point into the text."""
        for name, schema in {**inferred, **self.streams}.items():
            known = {there.lower(): its for there, its in cep.streams.items()}
            if known.get(name.lower()) != schema:  # another one of this name is refused
                cep.register_stream(name, schema)
        for table in self.tables:
            cep.create_query(table.name, table)
        with cep._runner.expecting(node for node, _ in self.queries.values()):
            for name, (node, text) in self.queries.items():
                try:
                    cep.create_query(name, node)
                except QueryError as error:
                    raise (retold(error, self.language).within(text) if text is not None else error) from None


def replay(
    source: Any,
    queries: Any,
    engine: str = "local",
    *,
    language: str = "sql",
    database: Any = IN_MEMORY,
    timestamp: str | Mapping[str, str] | None = None,
    schemas: Mapping[str, Any] | None = None,
    relations: Mapping[str, Any] | None = None,
    stores: Mapping[str, Any] | None = None,
    end: Any = None,
    out: str | os.PathLike[str] | None = None,
    into: Bridge | None = None,
    spark: Any = None,
    pieces: int | None = None,
    run: str | None = None,
) -> Mapping[str, Any]:
    """Runs queries over history, with the results that pushing it would have had; gives them by query.

    `source` maps each stream to a path or pattern (CSV, NDJSON, Parquet), an Arrow table, a frame or an iterable of
    (payload, timestamp); or it is an iterable of (stream, payload, timestamp). `queries` maps names to texts of
    `language` ("sql", "epl" or "cpl") or query objects, or is one script. `timestamp` names the column of the timestamps
    where it is not guessed (times without a zone are UTC), `schemas` the types where neither query nor file has them,
    `relations` maps table names to Arrow tables or frames, `stores` names of data stores to their URLs. History is read
    up to `end`, and time advanced to it. With `out`, a directory, the results go there as Parquet files by query, each
    complete when it appears; each is read when it is asked for.

    On the default database, queries of which every result looks back a bounded while (windows of time, patterns `WITHIN`)
    run on all cores: slices of the history go through bridges of their own at once, each after the events it looks back at.

    With `engine="spark"` the history is computed in pieces on Spark, in the session `spark`, the active one, or a new one
    (`bridge.spark`). Sources may be frames and tables of Spark, too; the results are frames, computed when they are used
    (at once where slices of one partition have to be joined) or, with `out`, in directories of Parquet. Executors have a
    DuckDB each; `database` has the tables that a script reads and writes, and what it writes there, or to data stores, is
    written once for each name of a `run`. `pieces` is the number of pieces, where it is not to be found out; the local
    engine has none.

    With `into`, an open bridge, the queries are created there and stay, as if the history had been pushed: what waits for
    later events goes on waiting. Processors that are added then get what comes after, without a gap or a double. `end` is
    where history stops and live events begin.

    Raises what `push_events` and `create_query` raise, and SourceError for what cannot be read.

    >>> import pyarrow
    >>> trades = pyarrow.table({"ts": [1, 2], "price": [9.0, 11.0]})
    >>> replay({"trades": trades}, {"high": "SELECT price FROM trades WHERE price > 10"})["high"].to_pylist()
    [{'ts': 2, 'price': 11.0}]
    """
    if engine == "spark":
        from bridge.spark import replay as on_spark

        script = Script.of(queries, language=language)
        options = {
            "timestamp": timestamp, "schemas": schemas, "relations": relations, "stores": stores, "database": database,
            "end": end, "pieces": pieces, "run": run,
        }  # fmt: skip
        directory = None if out is None else os.fspath(out)
        return on_spark(source, script, out=directory, into=into, spark=spark, **options)
    if engine != "local":
        raise BridgeError(f"unknown engine {engine!r}; there are 'local' and 'spark'")
    if run is not None:
        raise BridgeError("the local engine writes in the transactions of its pushes: run=… is for engine='spark'")
    if pieces is not None:
        raise BridgeError("the local engine reads the history in one piece: pieces=… is for engine='spark'")
    _refuse_unnamed(source)
    from bridge.results import Results, Tables

    script = Script.of(queries, language=language)
    script.streams.update({name: schema_for(name, schema) for name, schema in (schemas or {}).items()})
    results: Results | Tables = Tables() if out is None else Results(Path(out), "parquet")
    with contextlib.ExitStack() as stack:
        if into is None:
            cep = stack.enter_context(_opened(database))
            stack.enter_context(with_relations(cep, relations or {}))
        elif relations:
            raise BridgeError("the bridge that history goes into has tables of its own: create the relations there")
        else:
            cep = into
        for name, target in (stores or {}).items():
            cep.register_datastore(name, target)
        stack.enter_context(results)
        stack.callback(results.detach, cep)
        until = None if end is None else milliseconds(end)
        if not isinstance(source, Mapping):
            _push(cep, script, source, results, until, into is None)
        else:
            sources = open_sources(script, source, timestamp)
            refuse_unknown(script, cep, sources)
            apart = relations or {} if into is None and database == IN_MEMORY and not stores else None
            lanes = installed(script, cep, sources, results, apart)
            feed(cep, sources, until, final=into is None, lanes=lanes)
    return results.tables


def _push(cep: Bridge, script: Script, source: Any, results: Any, end: int | None, final: bool) -> None:
    refuse_unknown(script, cep, ())
    script.install(cep, {})
    results.begin(cep, script.queries)
    results.attach(cep, script.queries)
    cep.push_all(_before(source, end))
    _finish(cep, end, final)


def installed(
    script: Script, cep: Bridge, sources: Mapping[str, Described], results: Tables, relations: Mapping[str, Any] | None
) -> Lanes | None:
    """Creates the queries and has their results taken; gives what replays them on all cores, where that can be.

    It cannot without `relations`, which are all that the bridge's database had before: the database is others', too, then.
    """
    inferred = undeclared(script, sources)
    script.install(cep, inferred)
    results.begin(cep, script.queries)
    if relations is not None:
        from bridge.parallel import lanes

        if (found := lanes(cep, script, inferred, relations, results.take)) is not None:
            return found
    results.attach(cep, script.queries)
    return None


def _refuse_unnamed(source: Any) -> None:
    """A file or a table alone does not say whose events it has."""
    if isinstance(source, (str, bytes, os.PathLike)) or hasattr(source, "columns") or hasattr(source, "schema"):
        shown = repr(source) if isinstance(source, (str, bytes, os.PathLike)) else f"a {type(source).__name__}"
        raise SourceError(f"{shown} alone does not say whose events it has: sources are given as {{'stream': source}}")


def refuse_unknown(
    script: Script, cep: Bridge, sources: Iterable[str], way: str = "as relations={{{!r}: table}}"
) -> None:
    """Raises QueryError for what queries read and is neither a stream nor a table; `way`: how a table is given."""
    known = [*sources, *script.declared, *cep.streams, *script.queries, *cep.queries]
    lowered = set(map(str.lower, known))
    for name, (node, text) in script.queries.items():
        for stream in (below.name for below in objects.walk(node) if isinstance(below, objects.Stream)):
            if stream.lower() in lowered or cep.database.relation(stream) is not None:
                continue
            hint = closest(stream, [other for other in known if other != name])
            message = f"unknown stream or table {stream!r}{hint or '; a table is given ' + way.format(stream)}"
            error = QueryError(message, words=source_words(stream))
            raise error.within(text) if text is not None else error


def open_sources(
    script: Script,
    sources: Mapping[str, Any],
    timestamp: str | Mapping[str, str] | None = None,
    format: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, Source]:
    """Opens the events of each stream; raises UnknownName for a stream that no query reads."""
    from bridge.sources import open_source

    described = described_sources(script, sources, timestamp)
    return {
        stream: open_source(stream, what, schema, column, format, note) for stream, what, schema, column in described
    }


def described_sources(
    script: Script, sources: Mapping[str, Any], timestamp: str | Mapping[str, str] | None
) -> Iterator[tuple[str, Any, Schema | None, str | None]]:
    """Of each stream, as the script writes it: its source, the schema declared, and the column of the timestamps."""
    for name, what in sources.items():
        schema = next((s for n, s in script.declared.items() if n.lower() == name.lower()), None)
        column = timestamp if isinstance(timestamp, str) or timestamp is None else timestamp.get(name)
        yield _known(name, script), what, schema, column


class Described(Protocol):
    """Opened events, which know the schema of their stream."""

    @property
    def schema(self) -> Schema: ...


def undeclared(script: Script, sources: Mapping[str, Described]) -> dict[str, Schema]:
    """The schemas that the sources gave because nothing declares them."""
    declared = {name.lower() for name in script.declared}
    return {name: source.schema for name, source in sources.items() if name.lower() not in declared}


def feed(
    cep: Bridge,
    sources: Mapping[str, Source],
    end: int | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int], None] = lambda events: None,
    final: bool = True,
    lanes: Lanes | None = None,
) -> None:
    """Pushes all sources, merged by time, equal times in their order, up to `end`, into `cep` or into `lanes` of it.

    Unless it is `final`, more may come later.

    `progress` is told the number of events so far. A SourceError comes after all that precedes the bad row in time is in.
    """
    from bridge.sources.merge import BYTES, ahead, gathered, merged, until

    stretches = merged({name: until(s.tables(rejects), end) for name, s in sources.items()})
    if not any(source.waits for source in sources.values()):
        stretches = ahead(gathered(stretches, sources, cep._sizes.arrow, BYTES))
    if lanes is not None:
        with lanes:
            lanes.feed(_told(stretches, progress), lambda last: _finish(last, end, final))
        return
    for stretch in _told(stretches, progress):
        cep.push_tables(stretch)
    _finish(cep, end, final)


def _told(stretches: Iterator[Stretch], progress: Callable[[int], None]) -> Iterator[Stretch]:
    """The same; `progress` is told of each when the next one is wanted."""
    from bridge.sources.merge import rows_of

    count = 0
    for stretch in stretches:
        yield stretch
        count += rows_of(stretch)
        progress(count)


def _finish(cep: Bridge, end: int | None, final: bool) -> None:
    if end is not None and (cep.now is None or end > cep.now):
        cep.advance_time(end)
    if final:
        cep.finish()
        _warn_of_letters(cep)


def _warn_of_letters(cep: Bridge) -> None:
    """What did not reach a data store in the end, which a database in memory forgets."""
    from bridge.results import counted
    from bridge.stores.outbox import ATTEMPTS

    waiting, dead = min(cep.deliver() for _ in range(ATTEMPTS)), cep.dead_letters()
    if waiting:
        warnings.warn(f"{counted(waiting, 'row')} did not reach data stores", stacklevel=2)
    if dead:
        first = f"{dead[0].store}: {dead[0].reason}"
        warnings.warn(f"{counted(len(dead), 'row')} not taken by data stores; the first: {first}", stacklevel=2)


def _before(events: Iterable[Any], end: int | None) -> Iterator[Any]:
    for event in events:
        try:
            _, _, timestamp = event
        except (TypeError, ValueError):
            raise SourceError(
                f"an event of several streams is (stream, payload, timestamp), not {event!r}; "
                "events of one are given as {'stream': events}"
            ) from None
        if end is not None and milliseconds(timestamp) > end:
            return
        yield event


def _known(name: str, script: Script) -> str:
    """The stream as the script writes it; raises UnknownName where no query reads it."""
    found = next((read for read in script.reads if read.lower() == name.lower()), None)
    if found is None:
        hint = nearest(name, script.reads)
        raise UnknownName(f"no query reads a stream {name!r}{hint}")
    return found


def _reader(language: str) -> Callable[[str], Sequence[Statement | CreateTable]]:
    """What reads a script of this language."""
    if language == "sql":
        return statements
    if language == "epl":
        from bridge.frontends.epl_script import script

        return script
    raise QueryError(f"unknown language {language!r}; there are 'sql', 'epl' and 'cpl'")


def _script(text: str, unnamed: str, read: Callable[[str], Sequence[Statement | CreateTable]]) -> Script:
    script = Script({}, {})
    for statement in read(text):
        if isinstance(statement, CreateStream):
            _once(statement.name, script)
            script.streams[statement.name] = statement.schema
        elif isinstance(statement, CreateTable):
            script.tables.append(statement.table)
        else:
            name = unnamed if isinstance(statement, Query) else statement.name
            _once(name, script)
            script.queries[name] = (statement.node, text)
    return script


def _cpl(texts: Iterable[str]) -> Script:
    from bridge.frontends.cpl import parse as parse_cpl

    script = Script({}, {})
    for text in texts:
        found = parse_cpl(text)
        script.graphs.append(found)
        for name, schema in found.streams:
            if script.streams.setdefault(name, schema) != schema:
                raise QueryError(f"{name!r} is declared twice, with other attributes")
        for name, node in found.queries.items():
            _once(name, script)
            script.queries[name] = (node, text)
    return script


def _once(name: str, script: Script) -> None:
    if name.lower() in {known.lower() for known in (*script.streams, *script.queries)}:
        raise QueryError(f"{name!r} is created twice")


def _mapping(source: Any, language: str) -> Script:
    if not isinstance(source, Mapping):
        raise QueryError(f"queries are a script or a mapping of names to queries, not {type(source).__name__}")
    script = Script({}, {})
    for name, definition in source.items():
        if isinstance(definition, str) and language == "sql":
            script.queries[name] = (parse(definition), definition)
        elif isinstance(definition, str):
            script.add(name, definition, language)
        elif isinstance(definition, (objects.Node, Graph)):
            script.queries |= {output: (node, None) for output, node in Graph.of(name, definition).queries.items()}
        else:
            raise QueryError(f"query {name!r} is a text or a query object, not {type(definition).__name__}")
    return script


def schema_for(name: str, schema: Any) -> Schema:
    """A schema of the caller's; raises SourceError for what is none."""
    try:
        return Schema.of(schema)
    except TypeMismatch as error:
        raise SourceError(f"the schema of {name!r}: {error}") from None


def _opened(database: Any) -> Bridge:
    import bridge

    return bridge.connect(database)


@contextlib.contextmanager
def with_relations(cep: Bridge, relations: Mapping[str, Any]) -> Iterator[None]:
    """The tables stand in the database as long as the replay runs."""
    from bridge.sources.relations import create_relation, drop_relation

    made: list[str] = []
    try:
        for name, data in relations.items():
            create_relation(cep.database, name, data)
            made.append(name)
        yield
    finally:
        for name in made:
            drop_relation(cep.database, name)
