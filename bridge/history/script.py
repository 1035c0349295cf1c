"""The streams and queries of a replay, read from a script or a mapping."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from bridge import query as objects
from bridge.engine.bridge import Bridge
from bridge.engine.create import language_named, with_advice_in
from bridge.engine.session import session_of
from bridge.errors import QueryError, SourceError, UnknownName, closest, nearest, source_words
from bridge.frontends.epl.tables import CreateTable
from bridge.frontends.sql.statements import parse, statements
from bridge.frontends.statements import CreateStream, CreateTableStream, Query, Statement
from bridge.query.epl_state import StateTable
from bridge.query.scripts import Script as Graph
from bridge.query.time_rules import TimeRules
from bridge.sources.options import HistoryOptions, ReadOptions
from windows.schema import Schema, TypeMismatch


@dataclasses.dataclass
class ReplayScript:
    """Streams, queries and tables in the order of a script or a mapping. Each query has its text, for places in errors.

    >>> script = ReplayScript.of("CREATE STREAM s (a INTEGER); SELECT a FROM s", "high")
    >>> list(script.queries), script.reads
    (['high'], ['s'])
    """

    streams: dict[str, Schema]
    queries: dict[str, tuple[objects.Node, str | None]]
    tables: list[StateTable] = dataclasses.field(default_factory=list)
    """Tables and variables that statements of EPL change."""
    graphs: list[Graph] = dataclasses.field(default_factory=list)
    """The graphs of CPL scripts."""
    language: str = "sql"
    """The language of the texts."""
    readable: list[str] | None = None
    """The tables that the queries may read, if they are not trusted."""
    time_rules: dict[str, TimeRules] = dataclasses.field(default_factory=dict)
    """The rules for the times of declared streams.

    They apply to live events only, as a replay merges all events by time.
    """
    table_streams: list[CreateTableStream] = dataclasses.field(default_factory=list)
    """Streams of tables. In a replay, their events come from sources like those of other streams."""

    @classmethod
    def of(cls, source: Any, unnamed: str = "result", language: str = "sql", dialect: str = "duckdb") -> ReplayScript:
        """Reads a script, or a mapping of names to texts or query objects. A ReplayScript is returned unchanged.

        `unnamed`: the name of a query without one. `language`: the language of the texts: "sql", "epl" or "cpl".
        `dialect`: sqlglot's name of the database's SQL. Raises QueryError.
        """
        if isinstance(source, cls):
            return source
        language = language_named(language)
        if language == "cpl":
            return _script_of_cpl(list(source.values()) if isinstance(source, Mapping) else [source])
        read = _parser(language, dialect)
        script = (
            _script_of_text(source, unnamed, read)
            if isinstance(source, str)
            else _script_of_mapping(source, language, dialect)
        )
        return dataclasses.replace(script, language=language)

    def add(self, name: str, text: str, language: str, dialect: str) -> None:
        """Adds the statements of one text in a mapping; its query gets the name `name`."""
        script = _script_of_text(text, name, _parser(language, dialect))
        self.streams.update(script.streams)
        self.queries.update(script.queries)
        self.tables += script.tables
        if name not in script.queries and script.queries:  # the text inserts into a stream of another name
            self.queries[name] = (objects.Stream(list(script.queries)[-1]), text)

    @property
    def nodes(self) -> Iterator[objects.Stream]:
        """All streams that the queries read."""
        for node, _ in self.queries.values():
            yield from (below for below in objects.walk(node) if isinstance(below, objects.Stream))

    @property
    def declared(self) -> dict[str, Schema]:
        """The streams with a schema, declared by CREATE STREAM or in a query."""
        inline = {node.name: node.schema for node in self.nodes if node.schema is not None}
        return {**inline, **self.streams}

    @property
    def reads(self) -> list[str]:
        """The declared streams, and the other names that queries read: streams or tables, but not queries."""
        queries = {name.lower() for name in self.queries}
        names = [*self.declared, *(node.name for node in self.nodes)]
        unique = {name.lower(): name for name in reversed(names) if name.lower() not in queries}
        return list(reversed(unique.values()))

    def install(self, cep: Bridge, inferred: Mapping[str, Schema]) -> None:
        """Registers the streams that the bridge does not have, and creates the queries. Errors point into the text."""
        for name, schema in {**inferred, **self.streams}.items():
            known = {there.lower(): its for there, its in cep.streams.items()}
            if known.get(name.lower()) != schema:  # the bridge refuses another schema for a stream that it has
                cep.register_stream(name, schema)
        untrusted, readable = self.readable is not None, self.readable or ()
        for table in self.tables:
            cep.create_query(table.name, table, untrusted=untrusted)
        with session_of(cep).expecting(node for node, _ in self.queries.values()):
            for name, (node, text) in self.queries.items():
                try:
                    cep.create_query(name, node, untrusted=untrusted, tables=readable)
                except QueryError as error:
                    raise (with_advice_in(error, self.language).within(text) if text is not None else error) from None


def refuse_unnamed(source: Any) -> None:
    """Raises SourceError for a file or a table without the name of its stream."""
    if isinstance(source, (str, bytes, os.PathLike)) or hasattr(source, "columns") or hasattr(source, "schema"):
        text = repr(source) if isinstance(source, (str, bytes, os.PathLike)) else f"a {type(source).__name__}"
        raise SourceError(f"{text} comes without its stream: write {{'stream': source}}")


_IN_PYTHON = "as relations={{{!r}: table}}, the attributes of a stream by schemas="
"""How a table and a stream are given in Python."""


def refuse_unknown(script: ReplayScript, cep: Bridge, sources: Iterable[str], way_out: str = _IN_PYTHON) -> None:
    """Raises QueryError for a name in a query that is neither a stream nor a table.

    `way_out` tells how to add a table; the braces in it are replaced by the name.
    """
    known = [*sources, *script.declared, *cep.streams, *script.queries, *cep.queries]
    lowered = set(map(str.lower, known))
    for name, (node, text) in script.queries.items():
        for stream in (below.name for below in objects.walk(node) if isinstance(below, objects.Stream)):
            if stream.lower() in lowered or session_of(cep).database.relation(stream) is not None:
                continue
            hint = closest(stream, [other for other in known if other != name])
            message = f"unknown stream or table {stream!r}{hint or '; a table is given ' + way_out.format(stream)}"
            error = QueryError(message, words=source_words(stream))
            raise error.within(text) if text is not None else error


def sources_of(
    script: ReplayScript, sources: Mapping[str, Any], options: HistoryOptions
) -> Iterator[tuple[str, Any, Schema | None, ReadOptions]]:
    """For each stream: its name in the script, its source, the declared schema, and the options for reading.

    Raises SourceError for a stream that has two sources, as names are not case-sensitive.
    """
    options.check_names(sources)
    given: dict[str, str] = {}
    for name, source in sources.items():
        if (earlier := given.setdefault(str(name).lower(), name)) != name:
            raise SourceError(
                f"{earlier!r} and {name!r} are one stream, as names are not case-sensitive: give its events as one source"
            )
        schema = next((s for n, s in script.declared.items() if n.lower() == name.lower()), None)
        yield stream_name(name, script), source, schema, options.of(name)


class HasSchema(Protocol):
    """A source with the schema of its stream."""

    @property
    def schema(self) -> Schema: ...


def inferred_schemas(script: ReplayScript, sources: Mapping[str, HasSchema]) -> dict[str, Schema]:
    """The schemas of the sources whose streams the script does not declare."""
    declared = {name.lower() for name in script.declared}
    return {name: source.schema for name, source in sources.items() if name.lower() not in declared}


def stream_name(name: str, script: ReplayScript) -> str:
    """The name of a stream as the script writes it. Raises UnknownName if no query reads it."""
    if not isinstance(name, str):
        raise UnknownName(f"the name of a stream is a text, not {name!r}")
    found = next((read for read in script.reads if read.lower() == name.lower()), None)
    query = next((query for query in script.queries if query.lower() == name.lower()), None)
    if query is not None and any(node.name.lower() == name.lower() for node in script.nodes):
        raise QueryError(f"the query {query!r} has the name of a stream that is read: give the query another name")
    if found is None:
        hint = nearest(name, script.reads)
        raise UnknownName(f"no query reads a stream {name!r}{hint}")
    return found


def _parser(language: str, dialect: str) -> Callable[[str], Sequence[Statement | CreateTable]]:
    """The parser of scripts in a language."""
    if language == "sql":
        return functools.partial(statements, dialect=dialect)
    from bridge.frontends.epl.script import script

    return script


def _script_of_text(text: str, unnamed: str, read: Callable[[str], Sequence[Statement | CreateTable]]) -> ReplayScript:
    script = ReplayScript({}, {})
    for statement in read(text):
        if isinstance(statement, CreateStream):
            _refuse_duplicate(statement.name, script)
            script.streams[statement.name] = statement.schema
            script.time_rules[statement.name] = statement.rules
        elif isinstance(statement, CreateTableStream):
            _refuse_duplicate(statement.name, script)
            script.table_streams.append(statement)
            if statement.schema is not None:
                script.streams[statement.name] = statement.schema
        elif isinstance(statement, CreateTable):
            script.tables.append(statement.table)
        else:
            name = _name_of(statement, unnamed) if isinstance(statement, Query) else statement.name
            _refuse_duplicate(name, script)
            script.queries[name] = (statement.node, text)
    return script


def _name_of(statement: Query, name: str) -> str:
    """The name of a query without one: `name`, or `result` if it reads a stream of that name."""
    streams = (node.name.lower() for node in objects.walk(statement.node) if isinstance(node, objects.Stream))
    return "result" if name.lower() in streams else name


def _script_of_cpl(texts: Iterable[str]) -> ReplayScript:
    from bridge.frontends.cpl.script import parse as parse_cpl

    script = ReplayScript({}, {})
    for text in texts:
        found = parse_cpl(text)
        script.graphs.append(found)
        for name, schema in found.streams:
            if script.streams.setdefault(name, schema) != schema:
                raise QueryError(f"{name!r} is declared twice, with other attributes")
        for name, node in found.queries.items():
            _refuse_duplicate(name, script)
            script.queries[name] = (node, text)
    return script


def _refuse_duplicate(name: str, script: ReplayScript) -> None:
    of_tables = [stream.name for stream in script.table_streams]
    if name.lower() in {known.lower() for known in (*script.streams, *of_tables, *script.queries)}:
        raise QueryError(f"{name!r} is created twice")


def _script_of_mapping(source: Any, language: str, dialect: str) -> ReplayScript:
    if not isinstance(source, Mapping):
        raise QueryError(f"queries are a script or a mapping of names to queries, not {type(source).__name__}")
    script = ReplayScript({}, {})
    for name, definition in source.items():
        if isinstance(definition, str) and language == "sql":
            views = {known: node for known, (node, _) in script.queries.items()}
            script.queries[name] = (parse(definition, dialect, views), definition)
        elif isinstance(definition, str):
            script.add(name, definition, language, dialect)
        elif isinstance(definition, (objects.Node, Graph)):
            script.queries |= {output: (node, None) for output, node in Graph.of(name, definition).queries.items()}
        else:
            raise QueryError(f"query {name!r} is a text or a query object, not {type(definition).__name__}")
    return script


def schema_for(name: str, schema: Any) -> Schema:
    """The schema that a caller gives for a stream. Raises SourceError for anything else."""
    try:
        return Schema.of(schema)
    except TypeMismatch as error:
        raise SourceError(f"the schema of {name!r}: {error}") from None
