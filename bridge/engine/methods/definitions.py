"""The methods of a bridge that register streams and create queries."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from bridge import query as objects
from bridge.check.trust import Trust
from bridge.engine.catalogue import QueryEntry
from bridge.engine.create import create, remove_script, text_of, with_advice_in
from bridge.engine.durable import LoggedCall
from bridge.engine.failures import check_policy
from bridge.engine.limits import Limits
from bridge.engine.methods.access import Access, locked
from bridge.engine.redefinition import Redefinition, call_of, change_rules, objects_of
from bridge.engine.refusal import as_bridge_error, refusal
from bridge.errors import InUse, QueryError
from bridge.frontends.epl.tables import CreateTable
from bridge.query.epl_state import StateTable
from bridge.query.scripts import Script
from bridge.query.table_source import source_of
from bridge.query.time_rules import TimeRules
from windows.databases import Refused
from windows.schema import Schema


class Definitions(Access):
    """Streams and queries of a bridge."""

    @locked
    def register_stream(
        self, name: str, schema: Any = None, *, idle_after: Any = None, max_ahead: Any = None, table: str | None = None,
        changes_of: str | None = None, position: str | None = None, timestamp: str | None = None,
        timestamp_unit: str | None = None, since: int | str | None = None,
    ) -> None:  # fmt: skip
        """Registers an event stream, which is pushed, or read from a table by `poll` and `run` (docs/watch.md).

        Args:
            name: Its name; names ignore case, as in SQL.
            schema: Attribute names mapped to types, or a text such as "symbol VARCHAR, price DOUBLE". The default, for a table
                only: all columns whose types the bridge knows.
            idle_after: Events of other streams wait until this one has reached their time, or has been silent for longer than
                this: milliseconds, or a text such as "30 S" (rule T5).
            max_ahead: An event that is further ahead is a late event of the kind "ahead", and does not move time (rule T6).
            table: The table of the bridge's database whose rows are the events; other programs insert them.
            changes_of: The table whose inserts, updates and deletes are the events.
            position: The column of `table` with unique whole numbers that usually grow, such as its primary key.
            timestamp: The column with the time of an event. None: the time at which its row is read.
            timestamp_unit: The unit of that column if it holds numbers: "s", "ms" (the default), "us" or "ns".
            since: The rows that are events: "now" (committed from now on), "beginning", or the position that they come after.

        Raises:
            NameTaken: A stream, query, script or table has this name.
            SchemaError: The name, the schema, a duration, the table or one of its columns is wrong.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
        ...     print(cep.streams["trades"])
        symbol VARCHAR, price DOUBLE
        """
        rules = TimeRules.of(idle_after=idle_after, max_ahead=max_ahead)
        source = source_of(table, changes_of, position, timestamp, timestamp_unit, since)
        if source is not None:
            if not self._watcher.register(name, None if schema is None else Schema.of(schema), source, rules):
                change_rules(name, rules, self._runner)
            self._pushes.follow_streams()
            return
        attributes = Schema.of(schema)
        if self._catalogue.is_registered(name, attributes):
            change_rules(name, rules, self._runner)
        else:
            self._catalogue.free(name)
            self._add_stream(name, attributes, rules)
        self._pushes.follow_streams()

    def _add_stream(self, name: str, schema: Schema, rules: TimeRules) -> None:
        call = LoggedCall(0, 0, "stream", name, "", str(schema), self._runner.seq).with_options(**rules._asdict())
        with self._runner.transaction():
            self._runner.remember_definitions()
            self._runner.add_stream(name, schema, rules)
            self._runner.log.add(call, (), [name.lower()])

    @locked
    def create_query(
        self, name: str, definition: objects.Node | Script | StateTable | str, language: str = "sql", *, into: str | None = None,
        keep: Any = None, replace: bool = False, untrusted: bool = False, tables: Sequence[str] = (), on_error: str = "refuse",
        limits: Limits | None = None,
    ) -> None:  # fmt: skip
        """Creates a continuous query; its results are a stream of that name, which other queries may read.

        The same definition again changes nothing, so a program that declares its queries can be restarted (rule D6).

        Args:
            name: The name of the query, or of a script: each output of a script is a query of its own name.
            definition: Query objects (see `bridge.query`), or a text.
            language: The language of a text: "sql", "epl" (Esper's) or "cpl" (a PaaS-CEP script).
            into: A table of the bridge's database that gets each result exactly once; see docs/durability.md.
            keep: How long a row stays in that table: milliseconds, or a text such as "7 D". By default for ever.
            replace: Replace another query of this name in one transaction. What both share keeps its state (D7).
            untrusted: Refuse everything that is not known to be harmless; see docs/security.md.
            tables: The tables of the database that an untrusted query may read in addition to streams and queries.
            on_error: A push in which the query fails is refused ("refuse"), or takes effect without the query: this push
                only ("skip"), or all from now on ("stop", until `resume_query`).
            limits: The greatest time and number of results per push, and rows in a table of state. Needs `on_error=`.

        Raises:
            QueryError: The query is wrong; the error points into the text. Nothing of the query remains.
            NameTaken: A stream, script, table or another query has this name.
            InUse: The query to be replaced is read by another one.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", "symbol VARCHAR, price DOUBLE")
        ...     cep.create_query("high", "SELECT symbol, MAX(price) AS price FROM trades WINDOW(RANGE 5 S) GROUP BY symbol")
        ...     cep.create_query("alert", "select * from high where price > 10", language="epl")
        ...     list(cep.queries)
        ['high', 'alert']
        """
        policy = check_policy(on_error, limits)
        call = call_of(name, definition, language, self._runner, into, keep).with_options(on_error=policy)
        queries = set(self._catalogue.queries)
        trust = Trust(self._runner.database, tables).and_table(into) if untrusted else None
        with self._catalogue.trusting(trust):
            self._create_query(name, definition, call, replace)
        created = self._entries_of(name, set(self._catalogue.queries) - queries)
        self._set_policy(created, call.language, on_error, limits)
        self._pushes.follow_streams()

    def _entries_of(self, name: Any, created: Collection[str] = ()) -> list[QueryEntry]:
        """The query of this name, or the outputs of the script, and the queries that were `created`."""
        known = self._catalogue
        script = known.scripts.get(str(name).lower())
        names = {str(name).lower(), *created, *(map(str.lower, script.outputs) if script is not None else ())}
        return [known.queries[each] for each in names if each in known.queries]

    def _set_policy(self, entries: Iterable[QueryEntry], language: str, on_error: str, limits: Limits | None) -> None:
        """Sets the policy and the limits of these queries, and the language of those that have none."""
        for entry in entries:
            entry.language = entry.language or language
            entry.on_error, entry.limits = on_error, limits
        self._runner.exclude(())

    def _create_query(
        self, name: str, definition: objects.Node | Script | StateTable | str, call: LoggedCall, replace: bool
    ) -> None:
        runner = self._runner
        redefinition = Redefinition(runner, self._pushes.calls.named)
        if isinstance(name, str) and redefinition.exists(call):
            return
        if isinstance(definition, StateTable):  # a table has a name of its own
            if self._catalogue.trust is not None:
                raise QueryError("CREATE TABLE is not allowed in an untrusted text, which may hold queries only")
            create(name, [CreateTable(definition)], "", runner, call)
            return
        replaces = replace and redefinition.is_taken(name)
        if not replaces:
            redefinition.refuse(name)
            self._catalogue.free(name)
        with _pointing(definition, call.language):
            query = objects_of(definition, call, runner)
            if replaces:
                redefinition.replace(name, query, text_of(definition), call)
            else:
                create(name, query, text_of(definition), runner, call)

    @locked
    def remove_query(self, name: str) -> None:
        """Removes a query with its output processors, or a script with all its outputs.

        Args:
            name: The name of the query or of the script.

        Raises:
            InUse: Another query reads it, or it is an output of a script.
            UnknownName: There is no such query.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
        ...     cep.remove_query("q")
        ...     cep.queries
        {}
        """
        if isinstance(name, str) and name.lower() in self._catalogue.scripts:
            remove_script(self._catalogue.scripts[name.lower()], self._runner, self._pushes.calls.named.forget)
            return
        entry = self._catalogue.query_entry(name)
        if script := self._catalogue.script_of(entry.name):
            raise InUse(f"{name!r} is an output of the script {script.name!r}: remove that")
        self._refuse_if_read(entry.name)
        with self._runner.transaction():  # with what is stored for its named processors
            self._pushes.calls.named.forget(entry.name)
            self._runner.remove_query(entry, logged=entry.name)
        entry.processors.clear()

    @locked
    def resume_query(self, name: str) -> None:
        """Lets a query that an error has stopped take part in pushes again, with empty windows as if created now.

        Its processors, its result table and the positions of its named processors stay. `create_query(…, replace=True)`
        does the same with another definition.

        Args:
            name: The name of the query.

        Raises:
            QueryError: The query is not stopped.
            InUse: Another query reads it, or it is an output of a script.
            UnknownName: There is no such query.

        >>> import bridge
        >>> with bridge.connect("sqlite://") as cep:
        ...     cep.create_query("q", "SELECT ABS(a) AS a FROM s[a: BIGINT]", on_error="stop")
        ...     handle = cep.add_output_processor("q", print)
        ...     cep.push_events("s", [([-(2**63)], 1000), ([-1], 1001)])
        ...     print(cep.status().queries["q"].stopped.splitlines()[0])
        ...     cep.resume_query("q")
        ...     cep.push_event("s", [-2], 1002)
        2
        DatabaseError: integer overflow
        Event(payload={'a': 2}, timestamp=1002)
        """
        entry = self._catalogue.query_entry(name)
        if not entry.stopped or entry.definition is None:
            raise QueryError(f"the query {entry.name!r} is not stopped")
        self._pushes.stand_still()  # otherwise the new query may read the event that stopped it
        known = self._runner.log.named(entry.name) or [
            LoggedCall(0, 0, "query", entry.name, entry.language, entry.text, 0)
        ]
        call = known[0]._replace(number=0, part=0, seq=self._runner.seq).with_options(inherits={})
        Redefinition(self._runner, self._pushes.calls.named).replace(entry.name, entry.definition, entry.text, call)
        new = self._catalogue.query_entry(name)
        new.language = entry.language
        self._set_policy(self._entries_of(name), entry.language, entry.on_error, entry.limits)

    @locked
    def remove_stream(self, name: str) -> None:
        """Removes a stream.

        Args:
            name: Its name.

        Raises:
            InUse: A query reads it, or events of it wait in the reorder buffer.
            UnknownName: There is no such stream.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", "price DOUBLE")
        ...     cep.remove_stream("trades")
        ...     cep.streams
        {}
        """
        entry = self._catalogue.stream_entry(name)
        self._refuse_if_read(entry.name)
        if self._pushes.reorder is not None and self._pushes.reorder.waiting(entry.name):
            raise InUse(f"events of {name!r} still wait in the reorder buffer: advance_time lets them through")
        with self._runner.transaction():
            self._watcher.forget(entry)
            self._runner.remove_stream(entry)
        self._pushes.follow_streams()


@contextlib.contextmanager
def _pointing(definition: objects.Node | Script | str, language: str) -> Iterator[None]:
    """Lets errors of the check point into the text of the query, if it is a text."""
    try:
        yield
    except Refused as error:
        raise refusal(error, definition if isinstance(definition, str) else "") from None
    except Exception as error:
        own = as_bridge_error(error)
        if not isinstance(own, QueryError):
            raise
        raise (with_advice_in(own, language).within(definition) if isinstance(definition, str) else own) from None
