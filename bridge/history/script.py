"""The streams and queries of a replay: a script or a mapping, read once for every engine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from bridge import query as objects
from bridge.engine.bridge import Bridge
from bridge.engine.create import retold
from bridge.engine.session import session_of
from bridge.errors import QueryError, SourceError, UnknownName, closest, nearest, source_words
from bridge.frontends.epl.tables import CreateTable
from bridge.frontends.sql.statements import parse, statements
from bridge.frontends.statements import CreateStream, Query, Statement
from bridge.query.epl_state import StateTable
from bridge.query.scripts import Script as Graph
from windows.schema import Schema, TypeMismatch


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
        with session_of(cep).expecting(node for node, _ in self.queries.values()):
            for name, (node, text) in self.queries.items():
                try:
                    cep.create_query(name, node)
                except QueryError as error:
                    raise (retold(error, self.language).within(text) if text is not None else error) from None


def refuse_unnamed(source: Any) -> None:
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


def described_sources(
    script: Script, sources: Mapping[str, Any], timestamp: str | Mapping[str, str] | None
) -> Iterator[tuple[str, Any, Schema | None, str | None]]:
    """Of each stream, as the script writes it: its source, the schema declared, and the column of the timestamps."""
    for name, what in sources.items():
        schema = next((s for n, s in script.declared.items() if n.lower() == name.lower()), None)
        column = timestamp if isinstance(timestamp, str) or timestamp is None else timestamp.get(name)
        yield known_stream(name, script), what, schema, column


class Described(Protocol):
    """Opened events, which know the schema of their stream."""

    @property
    def schema(self) -> Schema: ...


def undeclared(script: Script, sources: Mapping[str, Described]) -> dict[str, Schema]:
    """The schemas that the sources gave because nothing declares them."""
    declared = {name.lower() for name in script.declared}
    return {name: source.schema for name, source in sources.items() if name.lower() not in declared}


def known_stream(name: str, script: Script) -> str:
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
        from bridge.frontends.epl.script import script

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
    from bridge.frontends.cpl.script import parse as parse_cpl

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
