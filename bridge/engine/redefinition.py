"""Definitions of names that exist: the same definition, which changes nothing, or another one (rules D6 and D7)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

from bridge import query as objects
from bridge.check.resolve import resolve_stream
from bridge.engine.catalogue import QueryEntry
from bridge.engine.create import Definition, create, language_named, refuse_untrusted
from bridge.engine.durable import LoggedCall
from bridge.engine.execution.runner import Runner
from bridge.engine.execution.takeover import Replacement
from bridge.engine.named_processors import NamedProcessors
from bridge.engine.resume import OBJECTS, parsed, read_text, with_results
from bridge.errors import InUse, NameTaken, QueryError
from bridge.query.codec import dumped
from bridge.query.epl_state import StateTable
from bridge.query.scripts import Script
from bridge.query.time_rules import TimeRules
from windows.times import duration


def call_of(name: Any, definition: Any, language: str, runner: Runner, into: str | None, keep: Any) -> LoggedCall:
    """A call of `create_query`, as it is logged."""
    text, language = definition if isinstance(definition, str) else "", language_named(language)
    if isinstance(definition, (objects.Node, Script, StateTable)):
        language, text = OBJECTS, dumped(definition)
    if into is not None and (not isinstance(into, str) or not into):
        raise QueryError(f"into= is the name of a table, not {into!r}")
    if keep is not None and into is None:
        raise QueryError("keep= is how long rows stay in the table of results: it needs into=")
    try:
        milliseconds = None if keep is None else duration(keep)
    except ValueError as error:
        raise QueryError(f"keep: {error}") from None
    return LoggedCall(0, 0, "query", name, language, text, runner.seq).with_options(into=into, keep=milliseconds)


def objects_of(definition: Any, call: LoggedCall, runner: Runner) -> Definition:
    """The query objects of a definition, with its result table."""
    if isinstance(definition, (objects.Node, Script)):
        found: Definition = definition
    elif isinstance(definition, str):
        found = read_text(definition, call.language, runner)
    else:
        raise QueryError(f"a query is a text or a query object, not {type(definition).__name__}")
    if runner.catalogue.trust is not None:
        refuse_untrusted(found, runner.catalogue.trust, runner.catalogue)
    return with_results(found, call)


def change_rules(name: str, rules: TimeRules, runner: Runner) -> None:
    """Changes the rules for the times of a registered stream's events."""
    entry = runner.catalogue.stream_entry(name)
    if entry.rules == rules:
        return
    with runner.transaction():
        runner.log.change_stream(name, **rules._asdict())
    entry.rules = rules


class Redefinition:
    """Handles a definition whose name is taken."""

    def __init__(self, runner: Runner, named: NamedProcessors) -> None:
        self._runner, self._named, self._catalogue = runner, named, runner.catalogue

    def exists(self, call: LoggedCall) -> bool:
        """Whether this definition exists already, with the same text or the same meaning."""
        known = [each for each in self._runner.log.complete(call.name) if _stored(each) == _stored(call)]
        if any((each.language, each.text) == (call.language, call.text) for each in known):
            return True
        return any(self._is_same(each, call) for each in known)

    def is_taken(self, name: Any) -> bool:
        """Whether a query or a script has this name."""
        return isinstance(name, str) and name.lower() in {*self._catalogue.queries, *self._catalogue.scripts}

    def refuse(self, name: Any) -> None:
        """Raises an error for another definition of a query or script that exists."""
        if self.is_taken(name):
            kind = "script" if name.lower() in self._catalogue.scripts else "query"
            raise NameTaken(f"there is another {kind} {name!r}: replace=True replaces it, remove_query removes it")

    def replace(self, name: str, definition: Definition, text: str, call: LoggedCall) -> None:
        """Replaces the query or script of this name by another definition, in one transaction."""
        script = self._catalogue.scripts.get(name.lower())
        if script is None and (other := self._catalogue.script_of(name)):
            raise InUse(f"{name!r} is an output of the script {other.name!r}: replace that")
        outputs = [self._catalogue.query_entry(each) for each in (script.outputs if script is not None else [name])]
        own = {entry.name.lower() for entry in outputs}
        for entry in outputs:
            if others := [reader for reader in self._catalogue.readers(entry.name) if reader.lower() not in own]:
                raise InUse(f"{entry.name!r} is read by {', '.join(map(repr, others))}: remove that first")
        stored = [entry.name for entry in outputs if self._named.is_stored(entry.name)]
        internal = [each for query in stored for each in self._named.internal(query)]
        replaced = Replacement([*outputs, *internal], self._changed(outputs, name, definition))
        with self._named.restored_on_error(), self._runner.replacing(name, replaced) as inherits:
            create(name, definition, text, self._runner, call.with_options(inherits=dict(inherits)))
            for query in stored:
                self._named.define_again(query)
        if self._runner.lost:
            lost = ", ".join(self._runner.lost)
            logging.getLogger("bridge").warning(
                "the query %s has changed, and begins without the state of %s", name, lost
            )

    def _changed(self, outputs: Sequence[QueryEntry], name: str, definition: Definition) -> frozenset[str]:
        """The outputs of a script, in lower case, that its new definition changes, or that read such an output."""
        if len(outputs) == 1:
            return frozenset()  # a query never reads itself
        if isinstance(definition, Script):
            trees = {output.lower(): node for output, node in definition.queries.items()}
        else:
            trees = {name.lower(): definition} if isinstance(definition, objects.Node) else {}
        changed = set[str]()
        for entry in outputs:  # inputs come before their readers
            tree = trees.get(entry.name.lower())
            reads = {each.lower() for each in self._catalogue.names_of(entry.resolved.node)}
            if entry.stopped or tree is None or reads & changed or not self._has_tree(entry, tree):
                changed.add(entry.name.lower())
        return frozenset(changed)

    def _has_tree(self, entry: QueryEntry, tree: objects.Node) -> bool:
        """Whether a tree, once checked, equals that of an existing query."""
        expanded = self._catalogue.declarations.expand(tree)
        with contextlib.suppress(QueryError):  # it may read something that does not exist yet
            return resolve_stream(expanded, self._catalogue).node == entry.resolved.node
        return False

    def _is_same(self, known: LoggedCall, call: LoggedCall) -> bool:
        with contextlib.suppress(QueryError, NameTaken):
            one, other = (parsed(each, self._runner) for each in (known, call))
            if one == other:
                return True
            if isinstance(one, objects.Node) and isinstance(other, objects.Node):
                entry = self._catalogue.queries.get(known.name.lower())
                return entry is not None and self._has_tree(entry, other)
        return False


def _stored(call: LoggedCall) -> tuple[Any, Any]:
    """The result table of a definition, and how long its rows stay."""
    return call.option("into"), call.option("keep")
