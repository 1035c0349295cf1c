"""The bridge itself: the JEPC interface and what came with the years, over the runner."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from bridge import query as objects
from bridge.engine.catalogue import Catalogue, Processor
from bridge.engine.create import Definition, create, parse_as, remove_script, retold
from bridge.engine.delivery import call_all, deliver, failure
from bridge.engine.event import Event, LateEvent
from bridge.engine.intake import Batch, Chunk, Sizes, batches_of, chunks, merged_chunks
from bridge.engine.refusal import refusal
from bridge.engine.results import Results
from bridge.engine.runner import Runner
from bridge.errors import (
    BridgeError,
    Closed,
    DatabaseError,
    InUse,
    OrderError,
    ProcessorError,
    QueryError,
    SchemaError,
    UnknownName,
)
from bridge.frontends.epl.tables import CreateTable
from bridge.query.epl_state import StateTable
from bridge.query.notation import notation
from bridge.query.scripts import Script
from bridge.sources.arrow import milliseconds
from bridge.stores.outbox import Letter
from windows.databases import Database, Refused
from windows.schema import Schema, TypeMismatch
from windows.times import BEGINNING, NEVER

if TYPE_CHECKING:
    from bridge.engine.rows import Rows
    from bridge.patterns.why import Why
    from bridge.query.drawing import Drawing
    from nfa.graph import Graph

P = ParamSpec("P")
R = TypeVar("R")


def _locked(method: Callable[P, R]) -> Callable[P, R]:
    """One call at a time, and none on a closed bridge; what the database refuses becomes an error of ours."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        self: Any = args[0]
        self._refuse_other_process()
        with self._lock:
            if self._closed:
                raise Closed("the bridge is closed")
            try:
                return method(*args, **kwargs)
            except Refused as error:
                raise DatabaseError(str(error)) from None
            except TypeMismatch as error:
                raise SchemaError(str(error)) from None

    return call


class Bridge:
    """Event processing on one database: the JEPC interface (paper, Table 1) and what came with the years.

    `lateness`: so many milliseconds (or "5 S") events may come out of order (rule T2). `clock="system"`: time also
    passes by the wall clock, and is an event's timestamp where none is given (rule T4). The rules are those of
    docs/semantics.md. `database` is the connection, for statements of your own: `cep.database.execute(sql)`,
    `cep.database.fetch(sql)`. Another bridge in the same database is refused.

    >>> from windows.databases import open_database
    >>> cep = Bridge(open_database())
    >>> cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
    >>> cep.create_query("high", "SELECT symbol, price FROM trades WHERE price > 10")
    >>> handle = cep.add_output_processor("high", lambda event: print(event.timestamp, event.payload))
    >>> cep.push_event("trades", {"symbol": "A", "price": 11.0}, 1000)
    1000 {'symbol': 'A', 'price': 11.0}
    >>> cep.close()
    """

    def __init__(self, database: Database, lateness: Any = 0, clock: str | None = None) -> None:
        self.database = database
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._closed = self._finished = False
        database.acquire_lock()
        self._runner = Runner(database)
        self._catalogue = self._runner.catalogue
        self._late_processors: list[Callable[[LateEvent], Any]] = []
        self._reorder = self._reorder_buffer(lateness)
        self._undelivered: collections.deque[Results] = collections.deque()
        self._delivering = False
        self._clock = self._system_clock(clock)

    # Streams and queries ----------------------------------------------------------------------------------------------

    @_locked
    def register_stream(self, name: str, schema: Any) -> None:
        """Registers an event stream; `schema` maps attribute names to types (or see `Schema.of`)."""
        self._catalogue.free(name)
        attributes = Schema.of(schema)
        try:
            with self._runner.transaction():
                self._runner.add_stream(name, attributes)
        except Exception:
            self._runner.undo([], [name])
            raise

    @_locked
    def create_query(
        self, name: str, definition: objects.Node | Script | StateTable | str, language: str = "sql"
    ) -> None:
        """Creates a continuous query from query objects or from a text; its results are a stream of that name.

        `language`: "sql", "epl" for Esper's, or "cpl" for a script of PaaS-CEP's. Each output of a script is a query of its own
        name; `remove_query` of the script's removes all of them.

        Raises QueryError, with the place in the text, for what cannot be; then nothing is left behind.
        """
        if isinstance(definition, StateTable):  # it has a name of its own
            create(name, [CreateTable(definition)], "", self._runner)
            return
        self._catalogue.free(name)
        parsed = _parsed(definition, language, self._catalogue)
        with _pointing(definition, language):
            create(name, parsed, _text_of(definition), self._runner)

    @_locked
    def remove_query(self, name: str) -> None:
        """Removes a query with its processors, or a script with all its outputs; refused while another query reads it."""
        if isinstance(name, str) and name.lower() in self._catalogue.scripts:
            remove_script(self._catalogue.scripts[name.lower()], self._runner)
            return
        entry = self._catalogue.query_entry(name)
        if script := self._catalogue.script_of(entry.name):
            raise InUse(f"{name!r} is an output of the script {script.name!r}: remove that")
        self._refuse_if_read(entry.name)
        self._runner.remove_query(entry)
        entry.processors.clear()

    @_locked
    def remove_stream(self, name: str) -> None:
        """Removes a stream; refused while a query reads it, or events of it wait to be put in order."""
        entry = self._catalogue.stream_entry(name)
        self._refuse_if_read(entry.name)
        if self._reorder is not None and self._reorder.waiting(entry.name):
            raise InUse(f"events of {name!r} still wait in the reorder buffer: advance_time lets them through")
        self._runner.remove_stream(entry)

    @_locked
    def add_output_processor(self, query: str, function: Callable[[Any], Any], batch: bool = False) -> Processor:
        """Calls `function(Event(payload, timestamp))` for every result from now on; gives the handle to remove it.

        With `batch` it is called once a push, with an Arrow table of the results and their `ts`.
        """
        entry = self._catalogue.query_entry(query)
        if not callable(function):
            raise ProcessorError(f"an output processor is a function, not {function!r}", [])
        handle = Processor(entry.name, function, batch)
        entry.processors.append(handle)
        self._runner.reports.outdate()
        return handle

    @_locked
    def remove_output_processor(self, handle: Processor) -> None:
        """Removes an output processor by its handle."""
        for entry in self._catalogue.queries.values():
            if handle in entry.processors:
                entry.processors.remove(handle)
                self._runner.reports.outdate()
                return
        raise UnknownName("this output processor is not there (any more)")

    @_locked
    def add_late_processor(self, function: Callable[[LateEvent], Any]) -> None:
        """Calls `function(LateEvent)` for every event that comes after the watermark has passed it."""
        self._late_processors.append(function)

    @_locked
    def register_datastore(self, name: str, target: Any) -> None:
        """Names a data store for ReadSQL and UpdateSQL: a URL as `bridge.connect` takes it, or an SQLAlchemy engine.

        It must answer now; later it may be away for a while: what is to be read waits, what is to be written is kept.
        """
        self._catalogue.stores.add(name, target)
        self._catalogue.outbox.find()

    @_locked
    def dead_letters(self) -> list[Letter]:
        """What a data store refused for good, the oldest first; the table `dead_letters` keeps it."""
        return self._catalogue.outbox.dead_letters()

    @_locked
    def deliver(self) -> int:
        """Tries at once to write what waits for data stores; gives how many rows wait still.

        It is done by itself after each push, but a store that did not answer is left alone for a while.
        """
        for store in self._catalogue.stores.known.values():
            store.wake()
        return self._catalogue.outbox.deliver()

    # Events -----------------------------------------------------------------------------------------------------------

    @_locked
    def push_event(self, stream: str, payload: Mapping[str, Any] | Sequence[Any], timestamp: Any = None) -> None:
        """Pushes one event; timestamps are milliseconds or aware datetimes, and do not go back (rule T2)."""
        entry = self._catalogue.stream_entry(stream)
        ts = self._moment() if timestamp is None else milliseconds(timestamp)
        self._take([Batch(entry, rows=[(ts, self._runner.seq + 1, *entry.row(payload))])], 1, ts, ts)

    @_locked
    def push_events(self, stream: str, events: Any, timestamp: str = "ts") -> int:
        """Pushes many events: an Arrow table or batches, a pandas or polars frame with a column `timestamp`, or
        (payload, timestamp) pairs. The same results as one by one. Gives their number.

        Each chunk is one transaction: on a wrong event nothing of its chunk is in, and the error says how many are.
        """
        entry = self._catalogue.stream_entry(stream)
        return self._push_chunks(chunks(entry, events, timestamp, self._sizes, self._reorder is None))

    @_locked
    def push_all(self, events: Iterable[tuple[str, Any, Any]]) -> int:
        """Pushes (stream, payload, timestamp) triples of several streams, ordered by time; gives their number."""
        entry = self._catalogue.stream_entry
        return self._push_chunks(batches_of(events, entry, self._sizes.rows, self._reorder is None))

    @_locked
    def push_tables(self, tables: Mapping[str, Any], timestamp: str = "ts") -> int:
        """Pushes Arrow tables or frames of several streams, merged by time, equal times in the mapping's order.

        The same results as `push_all` of their rows, at the speed of `push_events`. Gives the number of events.
        """
        entries = [(self._catalogue.stream_entry(name), events) for name, events in tables.items()]
        return self._push_chunks(merged_chunks(entries, timestamp, self._sizes.arrow))

    @_locked
    def advance_time(self, timestamp: Any) -> None:
        """Time passes without an event (rule T3): windows expire, boundaries and deadlines fire, buffers drain."""
        ts = milliseconds(timestamp)
        self._in_order(ts)
        if self._reorder is None:
            self._take([], 0, ts, ts)
        else:
            self._take_reordered([], ts)

    @_locked
    def purge(self) -> None:
        """Removes what has expired from the state, now; otherwise that happens every so many events."""
        self._runner.purge()

    # Looking at it ----------------------------------------------------------------------------------------------------

    @_locked
    def query(self, sql: str) -> Rows:
        """Answers a SELECT on demand, over window contents, streams, queries and tables; see `bridge.engine.on_demand`."""
        from bridge.engine.on_demand import answer

        self._runner.fill_up()
        return answer(sql, self._catalogue, self._runner.network, self._runner.now)

    @_locked
    def explain(self, query: str, variants: bool = False) -> str:
        """The plan of a query as a script in this database's SQL, which the database's own shell can run.

        Args:
            query: The name of a continuous query or of a script, or the text of a SELECT.
            variants: Print every variant of each statement, not only the one for a push of few events.

        Returns:
            Of a continuous query the tree, the automaton of a pattern, the tables, and the statements of one push in the
            order in which they run. Of a SELECT the SQL that `query` would run, and for each MATCH_RECOGNIZE how its
            conditions are computed and its matches are found.

        Raises:
            UnknownName: There is no such query.
            QueryError: The SELECT is wrong.

        >>> from windows.databases import open_database
        >>> with Bridge(open_database()) as cep:
        ...     cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
        ...     cep.create_query("high", "SELECT symbol FROM trades WHERE price > 10")
        ...     print(cep.explain("high").partition("-- state")[2])
        <BLANKLINE>
        CREATE TABLE "cep_clock" AS
        SELECT CAST(0 AS BIGINT) AS "before", CAST(0 AS BIGINT) AS "now", CAST(0 AS BIGINT) AS "seq";
        CREATE TABLE "cep_inbox_trades" ("ts" BIGINT, "seq" BIGINT, "symbol" TEXT, "price" DOUBLE);
        <BLANKLINE>
        -- results of a push
        SELECT "ts", "symbol"
        FROM (SELECT "ts", "seq", "symbol" FROM "cep_inbox_trades" WHERE "price" > 10) AS "r"
        ORDER BY "ts", "seq";
        -- an event of trades that is pushed alone is bound in place of its inbox
        -- optimisation rules: bind_event
        """
        from bridge.engine.explain import explanation, explanation_of_script
        from bridge.engine.on_demand import explained, is_select

        if is_select(query):
            return explained(query, self._catalogue, self._runner.network, self._runner.now)
        known = (self._catalogue, self.database, self._runner.network.settings, variants)
        if isinstance(query, str) and query.lower() in self._catalogue.scripts:
            return explanation_of_script(self._catalogue.scripts[query.lower()], *known)
        return explanation(self._catalogue.query_entry(query), *known)

    @_locked
    def graph(self, query: str) -> Graph | Drawing:
        """A picture of the patterns of a continuous query, by its name, or of a SELECT: `.to_svg()`, `.save(path)`.

        Of a script it is the graph of its operators.
        """
        from bridge.engine.explain import graph_of
        from bridge.engine.on_demand import is_select

        if isinstance(query, str) and query.lower() in self._catalogue.scripts:
            from bridge.query.drawing import drawing_of

            return drawing_of(self._catalogue.scripts[query.lower()].script)
        return graph_of(query if is_select(query) else self._catalogue.query_entry(query))

    @_locked
    def why(
        self,
        sql: str,
        row: Mapping[str, Any] | None = None,
        ts: Any = None,
        *,
        clause: int | None = None,
        runs: int = 20,
    ) -> Why:
        """Why a row of the input of a SELECT … MATCH_RECOGNIZE is in a match, or in none; `print` it.

        `row` has values that no other row has, `ts` that of the first column of ORDER BY; `clause` counts the clauses
        from 1, where there are several; so many `runs` are told at most.

        >>> from windows.databases import open_database
        >>> with Bridge(open_database()) as cep:
        ...     cep.database.execute("CREATE TABLE t AS FROM (VALUES (1, 9), (2, 7), (3, 8)) AS t (ts, a)")
        ...     told = cep.why("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (X Y+) DEFINE Y AS a < X.a - 1)", ts=3)
        >>> told.verdict, [str(run).splitlines()[-1].strip() for run in told.runs][:1]
        ('It is in no match.', ['after X Y: Y? no: a < X.a - 1 is false: a = 8, X.a = 9 - ends'])
        """
        from bridge.engine.on_demand import why

        self._runner.fill_up()
        return why(sql, row or {}, ts, clause, runs, self._catalogue, self._runner.network, self._runner.now)

    @property
    def now(self) -> int | None:
        """The newest time seen, in milliseconds; None before the first event."""
        return None if self._runner.now == BEGINNING else self._runner.now

    @property
    def streams(self) -> dict[str, Schema]:
        """The registered streams and their schemas."""
        return {entry.name: entry.schema for entry in self._catalogue.streams.values()}

    @property
    def queries(self) -> dict[str, str]:
        """The continuous queries and their texts."""
        return {entry.name: entry.text for entry in self._catalogue.queries.values()}

    @_locked
    def finish(self) -> None:
        """Nothing will come any more: what waits for later events is decided and reported.

        The events in the reorder buffer go through first. After that the bridge takes no event.
        """
        with self._runner.pushing(0 if self._reorder is None else None):
            batches, count = self._reorder.release(NEVER) if self._reorder is not None else ([], 0)
            results = self._runner.take(batches, count, self._last(batches), final=True)
        self._finished = True
        self._deliver(results)

    def _last(self, batches: Sequence[Batch]) -> int:
        """The newest time, these events counted in."""
        times: list[int] = [row[0] for batch in batches for row in batch.rows]
        return max([self._runner.now, *times])

    def close(self, final: bool = False) -> None:
        """Ends the bridge: its tables are removed and the connection closed. Closing twice does nothing.

        With `final` nothing is left open: `finish` comes first. In a process forked from the one that opened the bridge
        it leaves both as they are: they belong to that process.
        """
        if os.getpid() != self._process:
            return
        if final and not self._closed:
            self.finish()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._catalogue.outbox.deliver()
                self._catalogue.stores.close()
                self._runner.close()
            except Refused as error:
                raise DatabaseError(str(error)) from None
            finally:
                self.database.close()
        if self._clock is not None:
            self._clock.stop()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Within -----------------------------------------------------------------------------------------------------------

    def _refuse_other_process(self) -> None:
        """A forked process shares the connection, and may have copied the lock while another thread held it."""
        if os.getpid() != self._process:
            raise Closed(
                f"this bridge belongs to process {self._process}, which opened it, and this is process {os.getpid()}: "
                "call bridge.connect here, after the fork"
            )

    def _refuse_if_read(self, name: str) -> None:
        if readers := self._catalogue.readers(name):
            raise InUse(f"{name!r} is read by {', '.join(map(repr, readers))}: remove that first")

    def _in_order(self, ts: int) -> None:
        if ts < self._runner.now:
            raise OrderError(f"time does not go back: {ts} is before {self._runner.now}, the newest time seen")

    @property
    def _sizes(self) -> Sizes:
        """Of chunks: the fewer queries tell of each event, the more events go at once.

        What tells of time passing, too, joins all moments of a push with a window: its cost is not always linear.
        """
        queries = self._catalogue.queries.values()
        many = 0 if any(entry.timed for entry in queries) else self.database.arrow_chunk_size // max(1, len(queries))
        return Sizes(self.database.chunk_size, max(self.database.chunk_size, many))

    def _push_chunks(self, parts: Iterator[Chunk]) -> int:
        """Takes chunk after chunk; what is wrong in one says how many events the ones before brought in."""
        taken = 0
        failed: list[Exception] = []
        try:
            for part in parts:
                batches, count, first, last = part(self._runner.seq)
                try:
                    self._take(batches, count, first, last)
                except ProcessorError as raised:  # as the events are in, the others follow
                    failed += raised.errors
                taken += count
        except (BridgeError, TypeMismatch, Refused) as problem:
            error = _own(problem)
            error.accepted = taken
            if taken:
                error.add_note(f"{taken} events before this chunk are in")
            if failed:
                error.add_note(str(failure(failed)))
            raise error from None
        if failed:
            error = failure(failed)
            error.accepted = taken
            raise error from failed[0]
        return taken

    def _take(self, batches: Sequence[Batch], count: int, first: int, last: int) -> None:
        """One push: all of it or nothing; then the processors."""
        if self._closed:
            raise Closed("the bridge is closed")
        if self._finished:
            raise Closed("finish() said that nothing would come any more")
        if self._reorder is not None:
            self._take_reordered(batches, BEGINNING)
            return
        self._in_order(first)
        self._deliver(self._runner.push(batches, count, last))

    def _take_reordered(self, batches: Sequence[Batch], watermark: int) -> None:
        """One push through the reorder buffer: what the watermark has reached goes on."""
        reorder = self._reorder
        assert reorder is not None
        remembered = reorder.remembered()
        try:
            with self._runner.pushing():
                late = reorder.sift(batches)
                ready, count = reorder.release(max(watermark, reorder.watermark))
                results = self._runner.take(ready, count, max(self._runner.now, reorder.watermark))
        except BaseException:
            reorder.restore(remembered)
            raise
        try:
            self._deliver(results)
        finally:
            call_all([(function, event) for event in late for function in self._late_processors])

    def _deliver(self, results: Results) -> None:
        """Hands out results. When a processor pushes, its results wait until all have got those before."""
        self._catalogue.outbox.deliver()
        self._undelivered.append(results)
        if self._delivering:
            return
        self._delivering, failed = True, []
        try:
            while self._undelivered:
                try:
                    deliver(self._undelivered.popleft())
                except ProcessorError as error:
                    failed += error.errors
        finally:
            self._delivering = False
        if failed:
            raise failure(failed) from failed[0]

    def _moment(self) -> int:
        if self._clock is None:
            raise SchemaError('an event needs its timestamp (or connect(clock="system"), which gives it the present)')
        present: int = self._clock.milliseconds()
        return max(present, self._runner.now)

    def _reorder_buffer(self, lateness: Any) -> Any:
        if lateness == 0:
            return None
        from bridge.engine.reorder import Reorder
        from windows.times import duration

        try:
            return Reorder(self._runner, duration(lateness))
        except ValueError as error:
            raise SchemaError(f"lateness: {error}") from None

    def _system_clock(self, clock: str | None) -> Any:
        if clock is None:
            return None
        if clock != "system":
            raise SchemaError(f'clock is None or "system", not {clock!r}')
        from bridge.engine.clock import SystemClock

        return SystemClock(self._pass_time)

    def _pass_time(self, ts: int) -> None:
        """Advances time to the clock's, or leaves it where events were ahead of the clock."""
        with self._lock:  # else an event may come between reading `now` and advancing to it
            if not self._closed:
                self.advance_time(max(ts, self._runner.now))


def _parsed(definition: objects.Node | Script | str, language: str, known: Catalogue) -> Definition:
    if isinstance(definition, (objects.Node, Script)):
        return definition
    if not isinstance(definition, str):
        raise QueryError(f"a query is a text or a query object, not {type(definition).__name__}")
    return parse_as(language, definition, known.declarations.variables, known.declarations.contexts)


def _text_of(definition: objects.Node | Script | str) -> str:
    """The text of a definition; what no language says is told in the notation of the algebra."""
    with contextlib.suppress(QueryError):
        return str(definition) if not isinstance(definition, Script) else "\n".join(notation(definition))
    return "\n".join(notation(Script.of("result", definition)))  # type: ignore[arg-type]


@contextlib.contextmanager
def _pointing(definition: objects.Node | Script | str, language: str) -> Iterator[None]:
    """Errors of the check point into the text of the query, where it is one."""
    try:
        yield
    except QueryError as error:
        raise (retold(error, language).within(definition) if isinstance(definition, str) else error) from None
    except Refused as error:
        raise refusal(error, definition if isinstance(definition, str) else "") from None


def _own(problem: Exception) -> BridgeError:
    """The error of ours that says the same."""
    if isinstance(problem, BridgeError):
        return problem
    return SchemaError(str(problem)) if isinstance(problem, TypeMismatch) else DatabaseError(str(problem))


__all__ = ["Bridge", "Event", "LateEvent"]
