"""Queries that come and go: one, or the outputs of a script, all of them or none."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sqlglot import exp

import bridge.check.changes
import bridge.check.enumerations
import bridge.stores.check  # noqa: F401  (registers the checks of what data stores are for)
from bridge import query as objects
from bridge.check.resolve import WINDOWS, resolve
from bridge.check.types import family
from bridge.engine.catalogue import Catalogue, ScriptEntry
from bridge.engine.runner import Runner
from bridge.errors import InUse, NameTaken, QueryError
from bridge.frontends.epl.clauses import Context
from bridge.frontends.epl.contexts import CreateContext
from bridge.frontends.epl.named_windows import NamedWindows
from bridge.frontends.epl.schemas import CreateSchema, CreateVariant
from bridge.frontends.epl.tables import ChangeRows, CreateTable, CreateWindow, IntoTable
from bridge.frontends.epl.variables import Constants, CreateVariable, OnSet, after
from bridge.frontends.statements import CreateQuery, CreateStream, Query, Statement
from bridge.query.changes import StateTable
from bridge.query.nodes import Node
from bridge.query.scripts import MultiFilter, Script
from bridge.query.scripts import Statement as Output
from bridge.query.variables import Variable
from bridge.rewrite.conflicts import met, written
from windows.schema import Schema

Created = CreateContext | CreateSchema | CreateTable | CreateVariable | CreateVariant | CreateWindow
Asked = Statement | Created | ChangeRows | Constants | IntoTable | OnSet
"""What a statement asks for."""

Definition = Node | Script | Sequence[Asked]
"""A query, a script of outputs, or statements one after the other."""


def parse_as(
    language: str,
    text: str,
    variables: Mapping[str, Variable] = MappingProxyType({}),
    contexts: Mapping[str, Context] = MappingProxyType({}),
) -> Definition:
    """The query objects of a text in this language; EPL may name the `variables`, and stand in the `contexts`."""
    epl = functools.partial(_epl, variables=variables, contexts=contexts)
    readers: dict[str, Callable[[str], Definition]] = {"sql": _sql, "epl": epl, "cpl": _cpl}
    if language not in readers:
        raise QueryError(f"unknown language {language!r}; there is {', '.join(map(repr, readers))}")
    return readers[language](text)


def _sql(text: str) -> Node:
    from bridge.frontends.sql.statements import parse

    return parse(text)


def _epl(text: str, variables: Mapping[str, Variable], contexts: Mapping[str, Context]) -> Definition:
    from bridge.frontends.epl.statement import parse

    return parse(text, variables, contexts)


def _cpl(text: str) -> Script:
    from bridge.frontends.cpl.script import parse

    return parse(text)


def retold(error: QueryError, language: str) -> QueryError:
    """The error with its advice in this language.

    >>> print(retold(QueryError("write s WINDOW(RANGE 5 S), WINDOW(ROWS 100) or WINDOW(UNBOUNDED)"), "epl"))
    write s#time(5 sec), #length(100) or #keepall
    """
    if language != "epl" or WINDOWS not in error.message:
        return error
    message = error.message.replace(" " + WINDOWS, "#time(5 sec), #length(100) or #keepall")
    return QueryError(message, error.text, error.position, error.words)


def create(name: str, definition: Definition, text: str, runner: Runner, windows: NamedWindows) -> None:
    """Creates a query, or a script's streams and queries, in one transaction; on an error nothing of it is left."""
    if isinstance(definition, Sequence):
        _create_statements(name, definition, text, runner, windows)
        return
    catalogue = runner.catalogue
    is_script = isinstance(definition, (Script, MultiFilter))
    script = definition if isinstance(definition, Script) else Script((), (Output(name, definition),))
    known, made = set(catalogue.streams), list[str]()
    before = [entry.resolved.node for entry in catalogue.queries.values()]
    try:
        runner.network.written = runner.expected | written([*before, *script.queries.values()], runner.database)
        _refuse_late_writes(script, before, runner)
        with runner.network.restored_on_error(), runner.transaction():
            for stream, schema in script.streams:
                _declare(stream, schema, runner)
            for output, node in script.queries.items():
                _register_inline(node, runner)
                runner.add_query(catalogue.free(output), windows.put(node), text)
                made.append(output)
                _check_schema(output, script.declared.get(output), runner)
    except Exception:
        runner.undo(made, set(catalogue.streams) - known)
        raise
    if is_script:
        streams = [stream for stream, _ in script.streams if stream.lower() not in known]
        catalogue.scripts[name.lower()] = ScriptEntry(name, script, tuple(made), tuple(streams))


def _refuse_late_writes(script: Script, before: Sequence[Node], runner: Runner) -> None:
    """What was created before must not see at an event what the event itself has written."""
    late = [node for tree in before for node in objects.walk(tree) if node in runner.network.read_late]
    table = met(script.queries.values(), late, runner.database) if late else None
    if table is not None:
        raise QueryError(
            f"this writes {table!r}, which a query reads that was created before: create what writes first, or the two in "
            "one script",
            words=[table],
        )


def _create_statements(
    name: str,
    statements: Sequence[Asked],
    text: str,
    runner: Runner,
    windows: NamedWindows,
) -> None:
    """All statements of a text or none."""
    catalogue = runner.catalogue
    streams, queries = set(catalogue.streams), set(catalogue.queries)
    known, tables, variables = dict(windows.known), dict(windows.tables), dict(catalogue.variables)
    states = set(catalogue.tables)
    forget = catalogue.event_types.remember()
    try:
        with runner.network.restored_on_error(), runner.transaction():
            for statement in statements:
                _create_statement(statement, name, text, runner, windows)
    except Exception:
        forget()
        windows.known, windows.tables, catalogue.variables = known, tables, variables
        made = set(catalogue.tables) - states
        runner.undo(list(set(catalogue.queries) - queries | {name}), set(catalogue.streams) - streams, made)
        raise


def _create_statement(statement: Asked, name: str, text: str, runner: Runner, windows: NamedWindows) -> None:
    """What one statement asks for; where it has no name of its own it is called `name`."""
    catalogue = runner.catalogue
    match statement:
        case CreateStream():
            runner.add_stream(catalogue.free(statement.name), statement.schema)
        case CreateSchema():
            runner.add_stream(catalogue.free(statement.name), catalogue.event_types.declare(statement))
        case CreateVariant():
            catalogue.event_types.create_variant(dataclasses.replace(statement, name=catalogue.free(statement.name)))
        case CreateContext():
            _create_context(statement.context, catalogue)
        case Constants() | CreateVariable():
            _note_variables(statement, runner)
        case CreateWindow():
            resolve(objects.Stream(statement.like), catalogue)
            resolve(dataclasses.replace(statement.window, input=objects.Stream(statement.like)), catalogue)
            windows.create(catalogue.free(statement.name), statement.window, statement.like)
        case CreateTable():
            windows.create_table(statement.table)
            create_table(statement.table, runner)
        case CreateQuery() if statement.name in catalogue.event_types:
            catalogue.event_types.insert(statement.name, statement.node)
        case CreateQuery() if statement.name in windows:
            windows.insert(statement.name, statement.node)
        case OnSet() | IntoTable() | ChangeRows():
            if (node := _changing(statement, runner, windows)) is not None:
                runner.add_query(catalogue.free(name), node, text)
        case CreateQuery() if windows.is_table(statement.name):
            runner.add_query(catalogue.free(name), windows.insert_into_table(statement.name, statement.node), text)
        case CreateQuery() | Query():
            _create_query(statement, name, text, runner, windows)


def _changing(statement: OnSet | IntoTable | ChangeRows, runner: Runner, windows: NamedWindows) -> Node | None:
    """The query that changes rows; None where a window does it that nothing reads yet."""
    match statement:
        case OnSet():
            _note_variables(statement, runner)
            return windows.put(statement.node)
        case IntoTable():
            return windows.into_table(statement.table, statement.node)
        case ChangeRows():
            return windows.change(statement.target, statement.trigger, statement.change)


def _create_query(statement: CreateQuery | Query, name: str, text: str, runner: Runner, windows: NamedWindows) -> None:
    """What tells rows: under its own name, or under `name`."""
    catalogue = runner.catalogue
    if _tells_inserted(statement) and windows.is_table(statement.text):
        return  # what is inserted into a table is the statement's own
    called = statement.name if isinstance(statement, CreateQuery) else name
    if called.lower() == name.lower() and called.lower() in catalogue.queries:
        return  # a statement inserts into a stream of its own name
    _register_inline(statement.node, runner)
    node = windows.inserted(statement) or windows.put(statement.node)
    if isinstance(statement, Query) and statement.text in catalogue.event_types:
        node = catalogue.event_types.inserted(statement.text)
    runner.add_query(catalogue.free(called), node, text)


def _note_variables(statement: Constants | CreateVariable | OnSet, runner: Runner) -> None:
    """What it says of variables; those that events set from now on get their tables."""
    catalogue = runner.catalogue
    if isinstance(statement, CreateVariable) and statement.variable.name.lower() in catalogue.variables:
        raise NameTaken(f"there is a variable {statement.variable.name!r} already")
    if isinstance(statement, OnSet):
        for state in statement.node.set:
            if not catalogue.variables[state.name.lower()].is_set:
                create_table(state, runner)
    read = statement.names if isinstance(statement, Constants) else ()
    catalogue.variables = after(catalogue.variables, [statement], read)


def _create_context(context: Context, catalogue: Catalogue) -> None:
    """A context whose streams and keys are there, and of one type each."""
    if context.name.lower() in catalogue.contexts:
        raise NameTaken(f"there is a context {context.name!r} already")
    if context.categories:
        _check_categories(context, catalogue)
    else:
        _check_keys(context, catalogue)
    catalogue.contexts[context.name.lower()] = context


def _check_categories(context: Context, catalogue: Catalogue) -> None:
    for instance in context.instances:
        (of,) = instance.streams
        resolve(objects.Filter(objects.Stream(of.stream), objects.scalar(of.condition or exp.true())), catalogue)


def _check_keys(context: Context, catalogue: Catalogue) -> None:
    types = list[list[str]]()
    for one in context.streams:
        stream = objects.Stream(one.stream)
        source = stream if one.condition is None else objects.Filter(stream, one.condition)
        keys = {f"key{place}": key for place, key in enumerate(one.keys, 1)}
        types.append(
            [field.type for field in resolve(objects.Map(source, objects.projections(keys)), catalogue).visible]
        )
        if [family(kind) for kind in types[-1]] != [family(kind) for kind in types[0]]:
            raise QueryError(f"the keys of {one.stream!r} are {types[-1]}, those before {types[0]}", words=[one.stream])


def _tells_inserted(statement: CreateQuery | Query) -> bool:
    """Whether it is what the reader adds to insert into: the stream that it inserts into, by its name alone."""
    return isinstance(statement, Query) and statement.node == objects.Stream(statement.text)


def create_table(table: StateTable, runner: Runner) -> None:
    """Makes a table that statements change; it goes when the bridge is closed."""
    runner.catalogue.free(table.name)
    if runner.database.relation(table.name) is not None:
        raise NameTaken(f"there is a table {table.name!r} in the database already")
    runner.create_state(table)


def remove_script(entry: ScriptEntry, runner: Runner) -> None:
    """Removes all outputs of a script, and the streams that it declared where nobody else reads them."""
    catalogue = runner.catalogue
    own = {name.lower() for name in entry.outputs}
    for name in entry.outputs:
        if others := [reader for reader in catalogue.readers(name) if reader.lower() not in own]:
            raise InUse(f"{name!r} is read by {', '.join(map(repr, others))}: remove that first")
    for name in reversed(entry.outputs):
        query = catalogue.query_entry(name)
        runner.remove_query(query)
        query.processors.clear()
    del catalogue.scripts[entry.name.lower()]
    for stream in entry.streams:
        if stream.lower() in catalogue.streams and not catalogue.readers(stream):
            runner.remove_stream(catalogue.stream_entry(stream))


def _declare(name: str, schema: Schema, runner: Runner) -> None:
    """Registers a stream of a script; one that is there already must be as it is declared."""
    known = runner.catalogue.streams.get(name.lower())
    if known is None:
        runner.add_stream(runner.catalogue.free(name), schema)
    elif [(a.name.lower(), a.type) for a in known.schema] != [(a.name.lower(), a.type) for a in schema]:
        raise QueryError(
            f"{name!r} is registered with other attributes: ({known.schema}), not ({schema})", words=[name]
        )


def _register_inline(node: Node, runner: Runner) -> None:
    """Stand-alone SQL: a stream with its schema in the query is registered on first use."""
    for below in objects.walk(node):
        if isinstance(below, objects.Stream) and below.schema and runner.catalogue.stream(below.name) is None:
            runner.add_stream(runner.catalogue.free(below.name), below.schema)


def _check_schema(output: str, schema: Schema | None, runner: Runner) -> None:
    """An output that was declared has the columns that it was declared to have."""
    if schema is None:
        return
    made = Schema.of({field.name: field.type for field in runner.catalogue.query_entry(output).fields})
    if [(a.name.lower(), a.type) for a in made] != [(a.name.lower(), a.type) for a in schema]:
        raise QueryError(
            f"{output!r} is declared with the fields ({schema}), but the statement gives ({made})", words=[output]
        )
