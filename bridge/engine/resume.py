"""How a bridge continues from the state that an earlier bridge has left in the database (rules D2, D8)."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Iterator

from bridge.engine.create import Definition, create, parse_as, remove_script, text_of, with_table
from bridge.engine.durable import CatalogueTables, LoggedCall
from bridge.engine.execution.runner import Runner
from bridge.engine.failures import REFUSE, stop
from bridge.engine.named_processors import NamedProcessors
from bridge.engine.watch.changes import add_table_stream, drop_triggers
from bridge.errors import BridgeError, DatabaseError
from bridge.query.codec import loaded
from bridge.query.nodes import Node, walk
from bridge.query.scripts import ReadSQL, Script, UpdateSQL
from bridge.query.table_source import TableSource
from bridge.query.time_rules import TimeRules
from windows.databases import Database, Refused
from windows.schema import Schema
from windows.sql import table

OBJECTS = "objects"
"""The language of a definition that consists of query objects."""

REMOVALS = "remove query", "remove stream"
"""The kinds of definitions that undo a part of an earlier one."""


def discard_state(database: Database) -> None:
    """Removes the state of a durable bridge from a database, except result tables and writes that wait."""
    from sqlglot import exp

    from bridge.rewrite.state_tables import CLOCK

    stored = CatalogueTables(database)
    if not stored.exist():
        return
    names = [row.name for row in stored.names() if row.belongs == row.name]
    database.begin()
    try:
        for outbox, source in _outboxes(stored):
            drop_triggers(database, outbox, source)
        for name in filter(database.has_own, (*names, database.own_name(CLOCK))):
            database.execute(database.render(exp.Drop(tables=[table(name)], kind="TABLE", exists=True)))
        stored.drop()
        database.commit()
    except BaseException:
        database.rollback()
        raise


def _outboxes(stored: CatalogueTables) -> Iterator[tuple[str, TableSource]]:
    """The outboxes of a state, with the tables whose changes they contain."""
    names = {row.key: row.name for row in stored.names()}
    with contextlib.suppress(DatabaseError):  # raised for a newer layout
        for call in stored.definitions():
            source = TableSource.of_json(call.option("source"))
            if source is not None and (outbox := names.get(f"changes {call.name.lower()} changes 1")):
                yield outbox, source


def refuse_other_state(database: Database) -> None:
    """Refuses to work beside the state of a durable bridge. A state without streams and queries is removed."""
    stored = CatalogueTables(database)
    if not stored.exist():
        return
    if len(definitions := stored.definitions()) > 1:
        names = ", ".join(repr(each.name) for each in definitions[1:6])
        raise DatabaseError(
            f"the state of a durable bridge is in this database ({names}): open it with connect(url), remove it with "
            "connect(url, fresh=True), or give this bridge another database or schema"
        )
    discard_state(database)


class Resumption:
    """The definitions that are still to be executed over the tables of a state.

    A definition that uses a data store waits until the store is registered, as do all definitions after it.
    """

    def __init__(self, runner: Runner, named: NamedProcessors) -> None:
        self._runner, self._named = runner, named
        assert runner.stored is not None and runner.stored_clock is not None
        self._now, self._seq = runner.stored_clock
        self._left = collections.deque(runner.stored.definitions())
        runner.log.removals.update(each.name.lower() for each in self._left if each.kind in REMOVALS)
        runner.network.names.resuming = True

    @property
    def waiting_for(self) -> str:
        """A sentence that says what the next definition waits for; "" after all were executed."""
        if not self._left:
            return ""
        store = next(iter(self._missing(self._left[0])), "?")
        return (
            f"the query {self._left[0].name!r} of the resumed bridge uses the data store {store!r}: "
            f"register_datastore({store!r}, url) first"
        )

    def go_on(self) -> None:
        """Executes definitions up to one that has to wait. Raises `DatabaseError` if one is no longer possible."""
        while self._left and not self._missing(self._left[0]):
            self._carry_out(self._left[0])
            self._left.popleft()

    def end(self) -> None:
        """Ends the resumption after all definitions were executed: the bridge continues from the end of the state."""
        self._runner.end_resumption(self._now, self._seq)

    def _carry_out(self, definition: LoggedCall) -> None:
        runner, log = self._runner, self._runner.log
        runner.seq, log.resumed = definition.seq, definition
        if definition.kind in REMOVALS:
            log.removals[definition.name.lower()] -= 1
        try:
            apply(definition, runner, self._named)
        except (BridgeError, Refused) as error:
            raise DatabaseError(
                f"the {definition.kind} {definition.name!r} of the state in this database cannot be resumed: {error}\n"
                "connect(url, fresh=True) begins anew"
            ) from None
        finally:
            log.resumed = None

    def _missing(self, definition: LoggedCall) -> list[str]:
        """The data stores that a definition uses and that are not registered yet."""
        if definition.kind != "query" or (definition.language != OBJECTS and "SQL" not in definition.text.upper()):
            return []
        nodes = (node for tree in _trees(parsed(definition, self._runner)) for node in walk(tree))
        used = dict.fromkeys(node.store for node in nodes if isinstance(node, (ReadSQL, UpdateSQL)) and node.store)
        return [name for name in used if name.lower() not in self._runner.catalogue.stores.known]


def parsed(call: LoggedCall, runner: Runner) -> Definition:
    """The query objects of a call of the kind "query", with its result table."""
    is_text = call.language != OBJECTS
    return with_results(read_text(call.text, call.language, runner) if is_text else loaded(call.text), call)


def read_text(text: str, language: str, runner: Runner) -> Definition:
    """The query objects of a text, which may use names that were declared before."""
    known, queries = runner.catalogue.declarations, runner.catalogue.queries
    views = {name: entry.definition for name, entry in queries.items() if entry.definition is not None}
    return parse_as(language, text, known.variables, known.contexts, runner.database.dialect, views)


def with_results(definition: Definition, call: LoggedCall) -> Definition:
    """The query objects of a call, with its result table if it names one."""
    table = call.option("into")
    return definition if table is None else with_table(definition, call.name, table, call.option("keep"))


def apply(definition: LoggedCall, runner: Runner, named: NamedProcessors) -> None:
    """Executes a definition in the same way as the call that made it."""
    catalogue = runner.catalogue
    match definition.kind:
        case "stream":
            with runner.transaction():
                _add_stream(definition, runner)
                runner.log.add(definition, streams=[definition.name.lower()])
        case "query":
            created = parsed(definition, runner)
            text = definition.text if definition.language != OBJECTS else _definition_text(created)
            before = set(catalogue.queries)
            create(definition.name, created, text, runner, definition)
            for name in set(catalogue.queries) - before:
                catalogue.queries[name].on_error = definition.option("on_error") or REFUSE
        case "stored results":
            named.define(definition)
        case "stop query":
            if definition.name.lower() in catalogue.queries:  # otherwise its script was removed
                stop(catalogue.with_readers(definition.name), definition.text, runner)
            runner.log.add(definition)
        case "remove query":
            _remove_query(definition.name, runner)
        case "remove stream":
            runner.remove_stream(catalogue.stream_entry(definition.name))
        case _:
            runner.log.add(definition)


def _remove_query(name: str, runner: Runner) -> None:
    """Removes a query or a script. If it was not created, because it is removed here, only the log is changed."""
    catalogue, lowered = runner.catalogue, name.lower()
    if lowered in catalogue.scripts:
        remove_script(catalogue.scripts[lowered], runner)
    elif lowered in catalogue.queries:
        runner.remove_query(catalogue.query_entry(name), logged=name)
    else:
        with runner.transaction():
            runner.log_removal(name)


def _add_stream(definition: LoggedCall, runner: Runner) -> None:
    schema, source = Schema.of(definition.text), TableSource.of_json(definition.option("source"))
    rules = TimeRules(definition.option("idle_after"), definition.option("max_ahead"))
    if source is None:
        runner.add_stream(definition.name, schema, rules)
    else:
        add_table_stream(runner, definition.name, schema, source, rules)


def _definition_text(definition: Definition) -> str:
    return text_of(definition) if isinstance(definition, (Node, Script)) else ""


def _trees(definition: Definition) -> Iterable[Node]:
    match definition:
        case Node():
            return [definition]
        case Script():
            return definition.queries.values()
    return [node for statement in definition for node in vars(statement).values() if isinstance(node, Node)]
