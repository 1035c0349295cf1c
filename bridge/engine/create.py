"""Creates queries, tables and scripts, all parts of them or none, and removes scripts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import bridge.stores.check  # noqa: F401  (registers the checks of what data stores are for)
from bridge import query as objects
from bridge.check.resolve import resolve
from bridge.check.trust import Trust
from bridge.check.types import family
from bridge.check.windows import WINDOWS
from bridge.engine.catalogue import Catalogue, ScriptEntry
from bridge.engine.durable import LoggedCall
from bridge.engine.execution.runner import Runner
from bridge.errors import InUse, NameTaken, QueryError
from bridge.frontends.epl.clauses import Context
from bridge.frontends.epl.declarations import (
    ChangeQuery,
    CheckColumns,
    CheckKeys,
    CheckQuery,
    Effect,
    Insertion,
    Statement,
)
from bridge.frontends.epl.event_types import fits
from bridge.frontends.epl.tables import CreateTable
from bridge.frontends.epl.variables import Constants
from bridge.frontends.statements import CreateQuery, CreateStream, Query
from bridge.query.epl_state import StateTable, Variable
from bridge.query.nodes import Node
from bridge.query.notation import notation
from bridge.query.scripts import MultiFilter, Script, into_table
from bridge.query.scripts import Statement as Output
from bridge.rewrite.conflicts import conflicting_table, written_tables
from windows.schema import Schema

LANGUAGES = ("sql", "epl", "cpl")

Definition = Node | Script | Sequence[Statement]
"""A query, a script with outputs, or a sequence of statements."""


def parse_as(
    language: str,
    text: str,
    variables: Mapping[str, Variable] = MappingProxyType({}),
    contexts: Mapping[str, Context] = MappingProxyType({}),
    dialect: str = "",
    views: Mapping[str, Node] = MappingProxyType({}),
) -> Definition:
    """The query objects of a text in this language. EPL may use the `variables` and `contexts`.

    `dialect`: sqlglot's name of the database's SQL, in which expressions of "sql" are written; `views`: the queries that
    exist, by their names.
    """
    epl = functools.partial(_epl, variables=variables, contexts=contexts)
    readers: dict[str, Callable[[str], Definition]] = {
        "sql": functools.partial(_sql, dialect=dialect, views=views),
        "epl": epl,
        "cpl": _cpl,
    }
    return readers[language_named(language)](text)


def language_named(language: object) -> str:
    """The canonical name of a language: "sql", "epl" or "cpl"; case is ignored. Raises `QueryError` for another."""
    if not isinstance(language, str) or language.lower() not in LANGUAGES:
        raise QueryError(f"unknown language {language!r}; there is {', '.join(map(repr, LANGUAGES))}")
    return language.lower()


def _sql(text: str, dialect: str, views: Mapping[str, Node]) -> Node:
    from bridge.frontends.sql.statements import parse

    return parse(text, dialect, views)


def _epl(text: str, variables: Mapping[str, Variable], contexts: Mapping[str, Context]) -> Definition:
    from bridge.frontends.epl.statement import parse

    return parse(text, variables, contexts)


def _cpl(text: str) -> Script:
    from bridge.frontends.cpl.script import parse

    return parse(text)


def with_table(definition: Definition, name: str, table: str, keep: int | None) -> Definition:
    """The definition of a query whose results are also written to a table, and stay there for `keep` milliseconds.

    Raises `QueryError` for a definition of several queries.
    """
    if isinstance(definition, Node) and not isinstance(definition, MultiFilter):
        return into_table(definition, name, table, keep)
    if isinstance(definition, Sequence):
        *before, last = definition  # the variables whose values are in the text come before
        if isinstance(last, (Query, CreateQuery)) and all(isinstance(each, Constants) for each in before):
            return [*before, dataclasses.replace(last, node=into_table(last.node, name, table, keep))]
    raise QueryError("into= is for one query; a script writes its results by INSERT INTO TABLE table SELECT …")


def text_of(definition: Node | Script | str) -> str:
    """The text of a definition; in the notation of the algebra if no language can express it."""
    with contextlib.suppress(QueryError):
        return str(definition) if not isinstance(definition, Script) else "\n".join(notation(definition))
    return "\n".join(notation(Script.of("result", definition)))  # type: ignore[arg-type]


def with_advice_in(error: QueryError, language: str) -> QueryError:
    """The error, with its advice worded in this language.

    >>> print(with_advice_in(QueryError("write s WINDOW(RANGE 5 S), WINDOW(ROWS 100) or WINDOW(UNBOUNDED)"), "epl"))
    write s#time(5 sec), #length(100) or #keepall
    """
    if language != "epl" or WINDOWS not in error.message:
        return error
    message = error.message.replace(" " + WINDOWS, "#time(5 sec), #length(100) or #keepall")
    return QueryError(message, error.text, error.position, error.words)


def refuse_untrusted(definition: Definition, trust: Trust, catalogue: Catalogue) -> None:
    """Raises QueryError for parts that an untrusted text must not have, such as those that change what others use."""
    trust.check_definition(definition)
    known = catalogue.declarations
    for statement in definition if isinstance(definition, Sequence) else ():
        if not isinstance(statement, (CreateStream, CreateQuery, Query, Constants)):
            what = " ".join(re.findall("[A-Z][a-z]+", type(statement).__name__)).upper()
            raise QueryError(f"{what} is not allowed in an untrusted text, which may hold queries only")
        into = statement.name if isinstance(statement, CreateQuery) else ""
        if into and (into in known.event_types or into in known.windows or known.windows.is_table(into)):
            raise QueryError(f"an untrusted query cannot insert into {into!r}, which others use", words=[into])


def create(name: str, definition: Definition, text: str, runner: Runner, call: LoggedCall | None = None) -> None:
    """Creates a query, or a script's streams and queries, in one transaction. After an error nothing of it remains.

    `call`: the call that is logged, if the bridge is durable.
    """
    if isinstance(definition, Sequence):
        _create_statements(name, definition, text, runner, call)
        return
    catalogue = runner.catalogue
    is_script = isinstance(definition, (Script, MultiFilter))
    script = definition if isinstance(definition, Script) else Script((), (Output(name, definition),))
    known, made = set(catalogue.streams), list[str]()
    new = written_tables(script.queries.values(), runner.database)
    runner.network.written_tables = (
        runner.expected | new | {each for entry in catalogue.queries.values() for each in entry.writes}
    )
    _refuse_late_writes(script, runner)
    with runner.transaction():
        runner.remember_definitions()
        for stream, schema in script.streams:
            _declare(stream, schema, runner)
        for output, node in script.queries.items():
            _register_inline(node, runner)
            runner.add_query(catalogue.free(output), catalogue.declarations.expand(node), text)
            made.append(output)
            _check_schema(output, script.declared.get(output), runner)
        if call is not None:
            runner.log.add(call, [output.lower() for output in made], set(catalogue.streams) - known)
        if is_script:
            streams = [stream for stream, _ in script.streams if stream.lower() not in known]
            catalogue.scripts[name.lower()] = ScriptEntry(name, script, tuple(made), tuple(streams))


def _refuse_late_writes(script: Script, runner: Runner) -> None:
    """Raises QueryError if queries that exist would read, at the event itself, a row that the script writes at it."""
    if not runner.network.read_late:
        return
    before = (node for entry in runner.catalogue.queries.values() for node in objects.walk(entry.resolved.node))
    late = [node for node in before if node in runner.network.read_late]
    table = conflicting_table(script.queries.values(), late, runner.database) if late else None
    if table is not None:
        raise QueryError(
            f"this writes {table!r}, which an earlier query reads: create the query that writes first, or both in "
            "one script",
            words=[table],
        )


def _create_statements(
    name: str, statements: Sequence[Statement], text: str, runner: Runner, call: LoggedCall | None
) -> None:
    """Creates all statements of a text, or none."""
    catalogue = runner.catalogue
    streams, queries = set(catalogue.streams), set(catalogue.queries)
    with runner.transaction():
        runner.remember_definitions()
        effects = list[Effect]()
        for statement in statements:
            if isinstance(statement, Query) and name.lower() in catalogue.queries:
                continue  # an insertion into a stream of its own name
            effects += (own := catalogue.declarations.apply(statement))
            for effect in own:
                _carry_out(effect, name, text, runner)
        if call is not None:
            gone = {_query_of(effect, name).lower() for effect in effects if _is_removed_later(effect, name, runner)}
            new = set(catalogue.queries) - queries | gone
            declares = len(statements) > 1 or not new or any(isinstance(each, ChangeQuery) for each in effects)
            runner.log.add(call, new, set(catalogue.streams) - streams, declares)


def _query_of(effect: Effect, name: str) -> str:
    """The name of the query that an effect creates; a query without a name of its own is called `name`."""
    return effect.name if isinstance(effect, CreateQuery) else name


def _is_removed_later(effect: Effect, name: str, runner: Runner) -> bool:
    """Whether the state is being resumed, and the query that an effect creates is removed later."""
    is_query = isinstance(effect, (CreateQuery, Query, ChangeQuery))
    return is_query and runner.log.is_removed_later(_query_of(effect, name))


def _carry_out(effect: Effect, name: str, text: str, runner: Runner) -> None:
    """Executes the effect of one statement. A query without a name of its own is called `name`."""
    catalogue = runner.catalogue
    match effect:
        case CreateStream():
            runner.add_stream(effect.name, effect.schema, effect.rules)
        case CreateTable():
            create_table(effect.table, runner)
        case CheckQuery() | CheckColumns() | CheckKeys() if runner.log.resumed is not None:
            return  # it was valid then, and may concern streams and queries that are gone
        case CreateQuery() | Query() | ChangeQuery() if _is_removed_later(effect, name, runner):
            runner.network.state_changes.add_all(effect.node)
        case CheckQuery():
            resolve(effect.node, catalogue)
        case CheckColumns():
            _check_columns(effect, catalogue)
        case CheckKeys():
            _check_keys(effect, catalogue)
        case CreateQuery():
            runner.add_query(catalogue.free(effect.name), effect.node, text)
        case Query() | ChangeQuery():
            runner.add_query(catalogue.free(name), effect.node, text)
        case Insertion():
            return  # readers of the window read its rows


def _check_columns(effect: CheckColumns, catalogue: Catalogue) -> None:
    found = {field.name.lower(): field.type for field in resolve(effect.node, catalogue).visible}
    for attribute in effect.schema:
        kind = found.get(attribute.name.lower(), attribute.type)
        if not fits(kind, attribute.type):
            raise QueryError(
                f"{attribute.name!r} of {effect.name!r} is {attribute.type}, and what is inserted is {kind}: cast says what "
                "is meant",
                words=[attribute.name],
            )


def _check_keys(effect: CheckKeys, catalogue: Catalogue) -> None:
    types = list[list[str]]()
    for stream, keys in effect.keys:
        types.append([field.type for field in resolve(keys, catalogue).visible])
        if [family(kind) for kind in types[-1]] != [family(kind) for kind in types[0]]:
            raise QueryError(f"the keys of {stream!r} are {types[-1]}, those before {types[0]}", words=[stream])


def create_table(table: StateTable, runner: Runner) -> None:
    """Creates a table that statements change; it is removed when the bridge is closed."""
    runner.catalogue.free(table.name)
    if not runner.is_left(table.name) and runner.database.relation(table.name) is not None:
        raise NameTaken(f"there is a table {table.name!r} in the database already")
    runner.create_state(table)


def remove_script(entry: ScriptEntry, runner: Runner, forget: Callable[[str], None] = lambda query: None) -> None:
    """Removes all outputs of a script in one transaction, and the streams that it declared if nobody else reads them.

    `forget` is called for each output first.
    """
    catalogue = runner.catalogue
    own = {name.lower() for name in entry.outputs}
    queries = [catalogue.query_entry(name) for name in entry.outputs]
    for name in entry.outputs:
        if others := [reader for reader in catalogue.readers(name) if reader.lower() not in own]:
            raise InUse(f"{name!r} is read by {', '.join(map(repr, others))}: remove that first")
    with runner.transaction():
        runner.remember_definitions()
        for place, query in enumerate(reversed(queries)):
            forget(query.name)
            runner.remove_query(query, logged=None if place else entry.name)
        del catalogue.scripts[entry.name.lower()]
        for stream in entry.streams:
            if stream.lower() in catalogue.streams and not catalogue.readers(stream):
                runner.remove_stream(catalogue.stream_entry(stream))
    for query in queries:
        query.processors.clear()


def _declare(name: str, schema: Schema, runner: Runner) -> None:
    """Registers a stream of a script. If it is registered already, the schemas must be equal."""
    known = runner.catalogue.streams.get(name.lower())
    if known is None:
        runner.add_stream(runner.catalogue.free(name), schema)
    elif [(a.name.lower(), a.type) for a in known.schema] != [(a.name.lower(), a.type) for a in schema]:
        raise QueryError(
            f"{name!r} is registered with other attributes: ({known.schema}), not ({schema})", words=[name]
        )


def _register_inline(node: Node, runner: Runner) -> None:
    """Registers the stream of a stand-alone query, whose schema is in its text, on first use."""
    for below in objects.walk(node):
        if isinstance(below, objects.Stream) and below.schema and runner.catalogue.stream(below.name) is None:
            runner.add_stream(runner.catalogue.free(below.name), below.schema)


def _check_schema(output: str, schema: Schema | None, runner: Runner) -> None:
    """Raises an error if an output has other columns than it was declared to have."""
    if schema is None:
        return
    made = Schema.of({field.name: field.type for field in runner.catalogue.query_entry(output).fields})
    if [(a.name.lower(), a.type) for a in made] != [(a.name.lower(), a.type) for a in schema]:
        raise QueryError(
            f"{output!r} is declared with the fields ({schema}), but the statement gives ({made})", words=[output]
        )
