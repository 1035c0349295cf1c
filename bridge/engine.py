"""The bridge itself: takes events, runs the plans over them in one transaction a push, hands out results."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from sqlglot import exp

from bridge import query as objects
from bridge.catalogue import Catalogue, Processor, QueryEntry, StreamEntry
from bridge.check import resolve
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
from bridge.intake import Batch, batches_of, chunks, merged_chunks, milliseconds
from bridge.plan import Operator
from bridge.rewrite import Flow, Need, Network
from bridge.rewrite.network import CLOCK
from bridge.flow import ascending, table
from windows.databases import Database, Refused
from windows.schema import Reader, Schema, TypeMismatch

PURGE_EVERY = 1_000
"""Events between two purges: often enough to keep windows small, rarely enough to cost nothing."""

BEGINNING = -(2**60)
"""The time before every event."""


class Event(NamedTuple):
    """One result: its payload by column name, and its timestamp in milliseconds.

    >>> event = Event({"a": 1}, 1000)
    >>> event.payload["a"], event.timestamp
    (1, 1000)
    """

    payload: dict[str, Any]
    timestamp: int


P = ParamSpec("P")
R = TypeVar("R")


def _locked(method: Callable[P, R]) -> Callable[P, R]:
    """One call at a time, and none on a closed bridge; what the database refuses becomes an error of ours."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        self: Any = args[0]
        with self._lock:
            if self._closed:
                raise Closed("the bridge is closed")
            try:
                return method(*args, **kwargs)
            except Refused as error:
                raise DatabaseError(str(error)) from None

    return call


class Bridge:
    """Event processing on one database: the JEPC interface (paper, Table 1) and what came with the years.

    >>> cep = Bridge(open_database())
    >>> cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
    >>> cep.create_query("high", "SELECT symbol, price FROM trades WHERE price > 10")
    >>> handle = cep.add_output_processor("high", lambda event: print(event.timestamp, event.payload))
    >>> cep.push_event("trades", {"symbol": "A", "price": 11.0}, 1000)
    1000 {'symbol': 'A', 'price': 11.0}
    >>> cep.close()
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now: int | None = None
        self._seq = 0
        self._lock = threading.RLock()
        self._closed = False
        self._catalogue = Catalogue(database)
        self._network = Network(database, self._catalogue.source)
        self._texts: dict[str, str] = {}
        self._filled: set[str] = set()
        self._since_purge = 0
        self._tables: list[str] = []
        with self._transaction():
            self._create_clock()

    # Streams and queries ----------------------------------------------------------------------------------------------

    @_locked
    def register_stream(self, name: str, schema: Any) -> None:
        """Registers an event stream; `schema` maps attribute names to types (or see `Schema.of`)."""
        self._catalogue.free(name)
        with _as_schema_errors():
            attributes = Schema.of(schema)
            with self._transaction():
                self._add_stream(name, attributes)

    @_locked
    def create_query(self, name: str, definition: objects.Node | str, language: str = "sql") -> None:
        """Creates a continuous query from query objects or from a text; its results are a stream of that name.

        Raises QueryError, with the place in the text, for what cannot be; then nothing is left behind.
        """
        self._catalogue.free(name)
        node = self._parsed(definition, language)
        text = definition if isinstance(definition, str) else str(definition)
        with self._pointing(definition), _as_schema_errors(), self._transaction():
            try:
                self._register_inline(node)
                self._add_query(name, node, text)
            except Exception:
                self._forget_half_made(name)
                raise

    @_locked
    def remove_query(self, name: str) -> None:
        """Removes a query with its processors; refused while another query reads it."""
        entry = self._catalogue.query_entry(name)
        self._refuse_if_read(entry.name)
        del self._catalogue.queries[entry.name.lower()]
        self._drop_unused()

    @_locked
    def remove_stream(self, name: str) -> None:
        """Removes a stream; refused while a query reads it."""
        entry = self._catalogue.stream_entry(name)
        self._refuse_if_read(entry.name)
        del self._catalogue.streams[entry.name.lower()]
        self._filled.discard(entry.inbox)
        with self._transaction():
            self._drop(entry.inbox)

    @_locked
    def add_output_processor(self, query: str, function: Callable[[Any], Any], batch: bool = False) -> Processor:
        """Calls `function(Event(payload, timestamp))` for every result from now on; gives the handle to remove it.

        With `batch` it is called once a push, with an Arrow table of the results and their `ts`.
        """
        entry = self._catalogue.query_entry(query)
        handle = Processor(entry.name, function, batch)
        entry.processors.append(handle)
        return handle

    @_locked
    def remove_output_processor(self, handle: Processor) -> None:
        """Removes an output processor by its handle."""
        for entry in self._catalogue.queries.values():
            if handle in entry.processors:
                entry.processors.remove(handle)
                return
        raise UnknownName("this output processor is not there (any more)")

    # Events -----------------------------------------------------------------------------------------------------------

    @_locked
    def push_event(self, stream: str, payload: Mapping[str, Any] | Sequence[Any], timestamp: Any) -> None:
        """Pushes one event; timestamps are milliseconds or aware datetimes, and do not go back (rule T2)."""
        entry = self._catalogue.stream_entry(stream)
        ts = milliseconds(timestamp)
        self._in_order(ts)
        with _as_schema_errors():
            values = entry.row(payload)
        self._take([Batch(entry, rows=[(ts, self._seq + 1, *values)])], 1, ts)

    @_locked
    def push_events(self, stream: str, events: Any, timestamp: str = "ts") -> int:
        """Pushes many events: an Arrow table or batches, a pandas or polars frame with a column `timestamp`, or
        (payload, timestamp) pairs. The same results as one by one. Gives their number.

        Each chunk is one transaction: on a wrong event nothing of its chunk is in, and the error says how many are.
        """
        entry = self._catalogue.stream_entry(stream)
        return self._push_chunks(chunks(entry, events, timestamp, self.database.chunk))

    @_locked
    def push_all(self, events: Iterable[tuple[str, Any, Any]]) -> int:
        """Pushes (stream, payload, timestamp) triples of several streams, ordered by time; gives their number."""
        return self._push_chunks(batches_of(events, self._catalogue.stream_entry, self.database.chunk))

    @_locked
    def push_tables(self, tables: Mapping[str, Any], timestamp: str = "ts") -> int:
        """Pushes Arrow tables or frames of several streams, merged by time, equal times in the mapping's order.

        The same results as `push_all` of their rows, at the speed of `push_events`. Gives the number of events.
        """
        entries = [(self._catalogue.stream_entry(name), events) for name, events in tables.items()]
        return self._push_chunks(merged_chunks(entries, timestamp, self.database.chunk))

    @_locked
    def advance_time(self, timestamp: Any) -> None:
        """Time passes without an event (rule T3): windows expire, boundaries and deadlines fire."""
        ts = milliseconds(timestamp)
        self._in_order(ts)
        self._take([], 0, ts)

    @_locked
    def purge(self) -> None:
        """Removes what has expired from the state, now; otherwise that happens every so many events."""
        with self._transaction():
            self._set_clock(self._time, self._time)
            self._purge()

    # Looking at it ----------------------------------------------------------------------------------------------------

    @_locked
    def query(self, sql: str) -> Any:
        """Answers a SELECT on demand, over window contents, streams, queries and tables; see `demand.answer`."""
        from bridge.demand import answer

        return answer(sql, self._catalogue, self._network, self._time)

    @_locked
    def explain(self, query: str) -> str:
        """The tree, the operators with their SQL in this database's words, and the automaton of a pattern."""
        from bridge.explain import explanation

        return explanation(self._catalogue.query_entry(query), self._catalogue, self.database)

    @property
    def streams(self) -> dict[str, Schema]:
        """The registered streams and their schemas."""
        return {entry.name: entry.schema for entry in self._catalogue.streams.values()}

    @property
    def queries(self) -> dict[str, str]:
        """The continuous queries and their texts."""
        return {entry.name: entry.text for entry in self._catalogue.queries.values()}

    def close(self) -> None:
        """Ends the bridge: its tables are removed and the connection closed. Closing twice does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                with self._transaction():
                    for name in self._tables:
                        self.database.execute(self._text(exp.Drop(tables=[table(name)], kind="TABLE", exists=True)))
            finally:
                self.database.close()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How queries come and go ------------------------------------------------------------------------------------------

    def _parsed(self, definition: objects.Node | str, language: str) -> objects.Node:
        if isinstance(definition, objects.Node):
            return definition
        if not isinstance(definition, str):
            raise QueryError(f"a query is a text or a query object, not {type(definition).__name__}")
        if language != "sql":
            raise QueryError(f"unknown language {language!r}; there is 'sql'")
        from bridge.frontends.extended import parse

        return parse(definition)

    def _register_inline(self, node: objects.Node) -> None:
        """Stand-alone SQL: a stream with its schema in the query is registered on first use."""
        for below in objects.walk(node):
            if isinstance(below, objects.Stream) and below.schema and self._catalogue.stream(below.name) is None:
                self._add_stream(self._catalogue.free(below.name), below.schema)

    def _add_stream(self, name: str, schema: Schema) -> None:
        inbox = self._network.name("inbox", objects.Stream(name))
        columns = [exp.ColumnDef(this=exp.to_identifier(c, quoted=True), kind=exp.DataType.build("BIGINT")) for c in ("ts", "seq")]
        for attribute in schema:
            kind = exp.DataType.build(self.database.column_type(attribute), dialect=self.database.dialect)
            columns.append(exp.ColumnDef(this=exp.to_identifier(attribute.name, quoted=True), kind=kind))
        create = exp.Create(kind="TABLE", this=exp.Schema(this=table(inbox), expressions=columns))
        self.database.execute(self._text(create))
        self._tables.append(inbox)
        encoders = tuple(self.database.encoder(attribute) for attribute in schema)
        self._catalogue.streams[name.lower()] = StreamEntry(name, schema, inbox, Reader.of(schema), encoders)

    def _add_query(self, name: str, node: objects.Node, text: str) -> None:
        resolved = resolve(node, self._catalogue)
        known = {id(operator): len(operator.tables) for operator in self._network.operators}
        flow, operators = self._network.plan(resolved.node, self._seq)
        for operator in self._network.operators:
            self._create_tables(operator, known.get(id(operator), 0))
        emit = self._emission(flow, [field.name for field in resolved.visible])
        sources, timed = self._network.concerns(resolved.node)
        decoders = tuple(self.database.decoder(field.type) for field in resolved.visible)
        self.database.fetch(emit)  # a name or type that only the database knows is wrong here, not at the first event
        self._catalogue.queries[name.lower()] = QueryEntry(
            name, text, resolved, self._seq, flow, operators, sources, timed, emit, decoders
        )

    def _emission(self, flow: Flow, names: Sequence[str]) -> str:
        order = [ascending(exp.column(c, quoted=True)) for c in ("ts", "seq", *flow.order)]
        rows = flow.arrivals.select(["ts", "seq", *flow.order, *names])
        columns = [exp.column(c, quoted=True) for c in ("ts", *names)]
        select = exp.select(*columns).from_(exp.Subquery(this=rows).as_("r", quoted=True)).order_by(*order)
        return self.database.render(select)

    def _create_tables(self, operator: Operator, done: int) -> None:
        for made in operator.tables[done:]:
            self.database.execute(self._text(made.create()))
            self._tables.append(made.name)
            for index in made.index() if self.database.indexes else []:
                self.database.execute(self._text(index))

    def _forget_half_made(self, name: str) -> None:
        """After a refusal: the transaction removes the tables, this the operators and streams that stood on them."""
        kept = [operator for entry in self._catalogue.queries.values() for operator in entry.operators]
        self._network.keep(kept)
        self._catalogue.queries.pop(name.lower(), None)

    def _drop_unused(self) -> None:
        kept = [operator for entry in self._catalogue.queries.values() for operator in entry.operators]
        with self._transaction():
            for operator in self._network.keep(kept):
                self._filled -= set(operator.inboxes)
                for made in operator.tables:
                    self._drop(made.name)

    def _drop(self, name: str) -> None:
        self.database.execute(self._text(exp.Drop(tables=[table(name)], kind="TABLE", exists=True)))
        self._tables.remove(name)

    def _refuse_if_read(self, name: str) -> None:
        if readers := self._catalogue.readers(name):
            raise InUse(f"{name!r} is read by {', '.join(map(repr, readers))}: remove that first")

    # How events go through --------------------------------------------------------------------------------------------

    @property
    def _time(self) -> int:
        return BEGINNING if self.now is None else self.now

    def _in_order(self, ts: int) -> None:
        if ts < self._time:
            raise OrderError(f"time does not go back: {ts} is before {self.now}, the newest time seen")

    def _push_chunks(self, parts: Iterator[Any]) -> int:
        """Takes chunk after chunk; what is wrong in one says how many events the ones before brought in."""
        taken = 0
        while True:
            try:
                with _as_schema_errors():
                    part = next(parts, None)
                    if part is None:
                        return taken
                    batches, count, first, last = part(self._seq)
                self._in_order(first)
                self._take(batches, count, last)
            except BridgeError as error:
                error.accepted = taken  # type: ignore[attr-defined]
                if taken:
                    error.add_note(f"{taken} events before this chunk are in")
                raise
            taken += count

    def _take(self, batches: Sequence[Batch], count: int, ts: int) -> None:
        """One push: inboxes, operators in order, results, purge; all of it or nothing, then the processors."""
        streams = frozenset(batch.stream.name.lower() for batch in batches)
        filled: set[str] = set()
        with self._transaction():
            for inbox in self._filled:
                self.database.execute(self._clear(inbox))
            for batch in batches:
                batch.insert(self.database, self._quoted(batch.stream.inbox))
                filled.add(batch.stream.inbox)
            due = self._since_purge + count >= PURGE_EVERY
            if due or any(operator.timed for operator in self._network.operators):
                self._set_clock(self._time, ts)
            for operator in self._network.operators:
                if operator.concerned(streams):
                    for step in operator.steps:
                        self.database.execute(self._step_text(step))
                    filled.update(operator.inboxes)
            results = self._results(streams)
            if due:
                self._purge()
        self._filled = filled
        self._since_purge = 0 if due else self._since_purge + count
        self._seq += count
        self.now = ts
        self._hand_out(results)

    def _results(self, streams: frozenset[str]) -> list[tuple[QueryEntry, list[tuple[Any, ...]]]]:
        results = []
        for entry in self._catalogue.queries.values():
            if entry.processors and entry.concerned(streams):
                rows = self.database.fetch(entry.emit)
                if rows:
                    results.append((entry, rows))
        return results

    def _hand_out(self, results: list[tuple[QueryEntry, list[tuple[Any, ...]]]]) -> None:
        """Every processor gets its results, whatever another one raised."""
        errors: list[Exception] = []
        for entry, rows in results:
            decoded = [_decoded(row, entry.decoders) for row in rows] if any(entry.decoders) else rows
            names = [field.name for field in entry.fields]
            for processor in list(entry.processors):
                try:
                    _call(processor, names, decoded, entry)
                except Exception as error:
                    errors.append(error)
        if errors:
            first = errors[0]
            raise ProcessorError(
                f"an output processor raised {type(first).__name__}: {first} (the events are in; "
                f"{len(errors)} calls failed, all others ran)",
                errors,
            ) from first

    def _purge(self) -> None:
        for operator in self._network.operators:
            for purge in operator.purges:
                self.database.execute(self._step_text(purge))

    def _create_clock(self) -> None:
        time = exp.select(
            exp.alias_(exp.cast(exp.Literal.number(0), "BIGINT"), "before", quoted=True),
            exp.alias_(exp.cast(exp.Literal.number(0), "BIGINT"), "now", quoted=True),
        )
        self.database.execute(self._text(exp.Drop(tables=[table(CLOCK)], kind="TABLE", exists=True)))
        self.database.execute(self._text(exp.Create(kind="TABLE", this=table(CLOCK), expression=time)))
        self._tables.append(CLOCK)
        self._set_clock(BEGINNING, BEGINNING)

    def _set_clock(self, before: int, now: int) -> None:
        clock, quote = self._quoted(CLOCK), self._quoted
        self.database.execute(f"UPDATE {clock} SET {quote('before')} = {before}, {quote('now')} = {now}")

    # Text and transactions --------------------------------------------------------------------------------------------

    def _text(self, statement: exp.Expression) -> str:
        return self.database.render(statement)

    def _step_text(self, step: Any) -> str:
        text = self._step_texts.get(id(step))
        if text is None:
            text = self._step_texts[id(step)] = self._text(step.statement())
            self._kept_steps.append(step)
        return text

    @functools.cached_property
    def _step_texts(self) -> dict[int, str]:
        return {}

    @functools.cached_property
    def _kept_steps(self) -> list[Any]:
        """Keeps rendered steps alive, so that their ids stay theirs."""
        return []

    def _clear(self, inbox: str) -> str:
        text = self._texts.get(inbox)
        if text is None:
            text = self._texts[inbox] = self._text(exp.delete(table(inbox)))
        return text

    def _quoted(self, name: str) -> str:
        return self._text(exp.to_identifier(name, quoted=True))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self.database.begin()
        try:
            yield
            self.database.commit()
        except BaseException:
            with contextlib.suppress(Refused):
                self.database.rollback()
            raise

    @contextlib.contextmanager
    def _pointing(self, definition: objects.Node | str) -> Iterator[None]:
        """Errors of the check point into the text of the query, where it is one."""
        try:
            yield
        except QueryError as error:
            raise (error.within(definition) if isinstance(definition, str) else error) from None
        except Refused as error:
            raise QueryError(f"the database refuses this query: {error}") from None


def _call(processor: Processor, names: list[str], rows: Sequence[tuple[Any, ...]], entry: QueryEntry) -> None:
    if processor.batch:
        from bridge.rows import arrow_table

        processor.function(arrow_table(entry.fields, rows))
        return
    for ts, *values in rows:
        processor.function(Event(dict(zip(names, values, strict=True)), ts))


def _decoded(row: tuple[Any, ...], decoders: Sequence[Callable[[Any], Any] | None]) -> tuple[Any, ...]:
    values = [
        decode(value) if decode is not None and value is not None else value
        for decode, value in zip(decoders, row[1:], strict=True)
    ]
    return (row[0], *values)


@contextlib.contextmanager
def _as_schema_errors() -> Iterator[None]:
    try:
        yield
    except TypeMismatch as error:
        raise SchemaError(str(error)) from None


def open_database(target: Any = "duckdb://") -> Database:
    """The database of a URL, engine or connection."""
    from windows.databases import open_database as opened

    return opened(target)


__all__ = ["Bridge", "Event", "Need"]
