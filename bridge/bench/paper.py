"""The baseline: the algorithm of the paper (*Event Processing on your own Database*, section 4) as described there.

Every query processes every event separately, and has its own tables and statements. Queries share only the inbox of a
stream. The steps follow these sections:

- 4.1 A query becomes statements of standard SQL over tables when it is created; their texts are made once.
- 4.2 Each time window of each query is a table of its own. A new event is inserted into all windows on its stream, and
  rows that expire by its timestamp and the size of the window are deleted at once.
- 4.3 Each stream has one inbox, a table with its newest event only. A filter reads only the inbox. An aggregate is
  computed from scratch over its window. A correlation inserts the event into its window, deletes expired rows from
  all of its windows, and joins the inbox with the other windows.
- 4.4 A pattern: the database derives the symbols that the event emits, and the values of the variables, for each
  open sequence, which has an identifier. The automaton reads symbols and identifiers, and gives the identifiers of complete
  sequences, by which the database gives the values to report.
- 5.1 One thread; each event triggers all queries on its stream ("tuple-driven").

Where the paper does not say how, the faster of the simple ways was chosen:

- One transaction per event, committed before results are delivered. No indexes; the paper names none.
- The bound of a deletion is a number in the statement: on DuckDB that takes two thirds of the time of a sub-query on the
  inbox. All other texts are constant, so that databases keep them prepared.
- Only sequences that the automaton can still complete are stored, and only until the next timestamp has passed: strictly
  sequential patterns need no more (otherwise a window of the experiment had 3^500 of them). One statement gives all
  symbols of an event, with one part per symbol.
- Every thousand events the database may reclaim the space of deleted rows, as it may for the bridge.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from bridge import query
from bridge.engine.event import Event
from bridge.errors import QueryError
from bridge.frontends.sql.statements import parse
from nfa.automaton import Automaton, compile_automaton
from windows.databases import Database, open_database
from windows.extents import Range
from windows.schema import Schema

Row = tuple[Any, ...]
Processor = Callable[[Event], object]

RECLAIM = 1_000
"""The number of events after which the database may reclaim space."""


@dataclasses.dataclass(frozen=True)
class StreamInbox:
    """Section 4.3: the table with the newest event of a stream."""

    database: Database
    stream: str
    schema: Schema

    @property
    def table(self) -> str:
        return f"paper_inbox_{self.stream}"

    @property
    def columns(self) -> list[str]:
        return [attribute.name for attribute in self.schema.attributes]

    def replace(self, rows: Sequence[Row]) -> None:
        """Replaces the content by one event (ts, values …), or by several while windows are filled."""
        self.database.execute(f"DELETE FROM {self.table}")
        self.database.insert(self.table, 1 + len(self.columns), rows)


class TimeWindow:
    """Section 4.2: the table of one time window of one query."""

    def __init__(self, inbox: StreamInbox, table: str, size: int) -> None:
        self.database, self.inbox, self.table, self.size = inbox.database, inbox, table, size
        columns = ", ".join(["ts", *inbox.columns])
        self._insert = f"INSERT INTO {table} SELECT {columns} FROM {inbox.table}"

    def add(self) -> None:
        self.database.execute(self._insert)

    def purge(self, now: int) -> None:
        self.database.execute(f"DELETE FROM {self.table} WHERE ts <= {now - self.size}")


class PaperOperator:
    """One query: its windows, and the results of an event."""

    windows: tuple[TimeWindow, ...] = ()

    def push(self, inbox: StreamInbox, now: int) -> list[Row]:
        """The results (without timestamps) of the event in the inbox, whose timestamp is `now`."""
        raise NotImplementedError


class PaperFilter(PaperOperator):
    """Section 4.3: a filter, which reads the inbox."""

    def __init__(self, inbox: StreamInbox, condition: exp.Expr) -> None:
        self._select = f"SELECT {', '.join(inbox.columns)} FROM {inbox.table} WHERE {condition.sql()}"

    def push(self, inbox: StreamInbox, now: int) -> list[Row]:
        return inbox.database.fetch(self._select)


class PaperAggregate(PaperOperator):
    """Section 4.3: an aggregate, which is computed over its whole window after each update."""

    def __init__(self, window: TimeWindow, columns: Sequence[exp.Expr]) -> None:
        self.windows = (window,)
        self._select = f"SELECT {', '.join(column.sql() for column in columns)} FROM {window.table}"

    def push(self, inbox: StreamInbox, now: int) -> list[Row]:
        (window,) = self.windows
        window.add()
        window.purge(now)
        return inbox.database.fetch(self._select)


class PaperCorrelation(PaperOperator):
    """Section 4.3: a correlation, which joins the inbox with all windows of the other streams."""

    def __init__(self, windows: Sequence[TimeWindow], condition: exp.Expr | None) -> None:
        self.windows = tuple(windows)
        where = f" WHERE {condition.sql()}" if condition else ""
        self._selects = {window.inbox.stream: self._from(window) + where for window in windows}

    def _from(self, new: TimeWindow) -> str:
        columns = (f"{window.inbox.stream}.{column}" for window in self.windows for column in window.inbox.columns)
        tables = (
            f"{window.inbox.table if window is new else window.table} AS {window.inbox.stream}"
            for window in self.windows
        )
        return f"SELECT {', '.join(columns)} FROM {', '.join(tables)}"

    def push(self, inbox: StreamInbox, now: int) -> list[Row]:
        for window in self.windows:
            if window.inbox is inbox:
                window.add()
        for window in self.windows:
            window.purge(now)
        return inbox.database.fetch(self._selects[inbox.stream])


class PaperMatch(PaperOperator):
    """Section 4.4: a pattern, with symbols and variables in the database, and the automaton in memory.

    The table of sequences has a row for each open sequence, and for each complete one until its timestamp has passed:
    identifier, timestamp of its last event, timestamp of its first event, variables. Sequence 0 is empty; every other
    sequence continues it.
    """

    def __init__(self, inbox: StreamInbox, table: str, node: query.Match, columns: Sequence[exp.Expr]) -> None:
        self.database, self.table, self.node = inbox.database, table, node
        self.runs = Sequences(compile_automaton(node.pattern))
        self._variables = [attribute.name for attribute in node.measures.attributes]
        self._symbols = " UNION ALL ".join(self._part(inbox, definition) for definition in node.define)
        self._load = f"SELECT {', '.join(column.sql() for column in columns)} FROM {table} WHERE id IN "
        self._create()

    def _create(self) -> None:
        kinds = [f"{each.name} {self.database.column_type(each)}" for each in self.node.measures.attributes]
        columns = ", ".join(["id BIGINT", "instant BIGINT", "since BIGINT", *kinds])
        self.database.execute(f"CREATE TABLE {self.table} ({columns})")
        self._insert([(0, None, None, *([None] * len(kinds)))])

    def _part(self, inbox: StreamInbox, definition: query.Definition) -> str:
        """A SELECT of the sequences that the event continues as this symbol, with their new variables."""
        changed = {name: value.sql() for name, value in definition.assignments}
        values = ", ".join(changed.get(name, name) for name in self._variables)
        emitted = f" AND {definition.condition.sql()}" if definition.condition else ""
        return (
            f"SELECT id, '{definition.symbol}', COALESCE(since, ts), {values} FROM {inbox.table}, {self.table} "
            f"WHERE (instant IS NULL OR instant < ts){emitted}"
        )

    def push(self, inbox: StreamInbox, now: int) -> list[Row]:
        if self.runs.enter(now):
            self._purge()
        emitted = self.database.fetch(self._symbols)
        continued = [(new, row[2:]) for row in emitted if (new := self.runs.take(row[0], row[1])) is not None]
        if not continued:
            return []
        self._insert([(identifier, now, *values) for identifier, values in continued])
        complete = [str(identifier) for identifier, _ in continued if self.runs.complete(identifier)]
        return self.database.fetch(f"{self._load}({', '.join(complete)})") if complete else []

    def _purge(self) -> None:
        """Deletes sequences that began too long ago, or that the last timestamp did not continue."""
        old = f"instant < {self.runs.before} OR since <= {self.runs.now - self.node.within}"
        self.database.execute(f"DELETE FROM {self.table} WHERE {old}")

    def _insert(self, rows: Sequence[Row]) -> None:
        self.database.insert(self.table, 3 + len(self._variables), rows)


class Sequences:
    """Section 4.4: the automaton, and the state of each sequence that ends at this timestamp or the one before.

    >>> from nfa import parse_pattern
    >>> runs = Sequences(compile_automaton(parse_pattern("A B")))
    >>> runs.enter(1), runs.take(0, "A"), runs.take(0, "B"), runs.complete(1)
    (True, 1, None, False)
    >>> runs.enter(2), runs.take(1, "B"), runs.complete(2)
    (True, 2, True)
    """

    def __init__(self, automaton: Automaton) -> None:
        self.before = self.now = -1
        self._moves = {(state, symbol): after for state, symbol, after in automaton.transitions}
        self._accepting = automaton.accepting
        self._last = 0
        self._states: dict[int, int] = {}
        self._older: dict[int, int] = {}

    def enter(self, now: int) -> bool:
        """Enters a timestamp; returns whether it is a new one."""
        if now == self.now:
            return False
        self.before, self.now = self.now, now
        self._older, self._states = self._states, {}
        return True

    def take(self, identifier: int, symbol: str) -> int | None:
        """The identifier of the sequence after this symbol continues it; None if the pattern has no such sequence."""
        state = self._moves.get((self._older[identifier] if identifier else 0, symbol))
        if state is None:
            return None
        self._last += 1
        self._states[self._last] = state
        return self._last

    def complete(self, identifier: int) -> bool:
        return self._states[identifier] in self._accepting


# The bridge -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class PaperQuery:
    """A query: its operator, the names of its columns, and its output processors."""

    name: str
    operator: PaperOperator
    names: Sequence[str]
    processors: list[Processor] = dataclasses.field(default_factory=list)


class PaperBridge:
    """The paper's bridge on the database of a URL, with the methods of `bridge.Bridge` that the experiment needs.

    Queries are those of Listing 1: one operator over streams, with windows in milliseconds.

    >>> cep = PaperBridge("sqlite://")
    >>> cep.register_stream("s", "a INTEGER")
    >>> cep.create_query("n", "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 2 MS)")
    >>> cep.add_output_processor("n", print)
    >>> for ts in (1, 2, 5):
    ...     cep.push_event("s", {"a": 7}, ts)
    Event(payload={'n': 1}, timestamp=1)
    Event(payload={'n': 2}, timestamp=2)
    Event(payload={'n': 1}, timestamp=5)
    >>> cep.close()
    """

    def __init__(self, url: str) -> None:
        self.database = open_database(url)
        self._inboxes: dict[str, StreamInbox] = {}
        self._queries: dict[str, PaperQuery] = {}
        self._readers: dict[str, list[PaperQuery]] = defaultdict(list)
        self._tables: list[str] = []
        self._events = 0

    # JEPC's methods (Table 1) -----------------------------------------------------------------------------------------

    def register_stream(self, name: str, schema: str) -> None:
        inbox = StreamInbox(self.database, name, Schema.of(schema))
        self._create(inbox.table, inbox.schema)
        self._inboxes[name] = inbox

    def create_query(self, name: str, text: str) -> None:
        node, columns = _unmapped(parse(text))
        operator, names = self._operator(name, node, columns)
        entry = self._queries[name] = PaperQuery(name, operator, names)
        for stream in dict.fromkeys(each.name for each in query.walk(node) if isinstance(each, query.Stream)):
            self._readers[stream].append(entry)

    def add_output_processor(self, name: str, function: Processor) -> None:
        self._queries[name].processors.append(function)

    def push_event(self, stream: str, payload: Mapping[str, Any], timestamp: int) -> None:
        """Processes an event in all queries on its stream, in one transaction, and delivers the results."""
        inbox = self._inboxes[stream]
        self.database.begin()
        inbox.replace([(timestamp, *payload.values())])
        results = [(reader, reader.operator.push(inbox, timestamp)) for reader in self._readers[stream]]
        self.database.commit()
        self._reclaim()
        for reader, rows in results:
            _deliver(reader, rows, timestamp)

    def fill(self, stream: str, rows: Sequence[Row]) -> None:
        """Inserts many events (ts, values …) into the windows at once.

        Patterns do not see them; as many single events as the pattern is long must follow.
        """
        self.database.begin()
        self._inboxes[stream].replace(rows)
        for window in (window for each in self._readers[stream] for window in each.operator.windows):
            if window.inbox.stream == stream:
                window.add()
            window.purge(rows[-1][0])
        self.database.commit()
        self.database.reclaim_space()

    def close(self) -> None:
        self.database.begin()
        for table in self._tables:
            self.database.execute(f"DROP TABLE {table}")
        self.database.commit()
        self.database.close()

    # Query translation (4.1) ------------------------------------------------------------------------------------------

    def _operator(
        self, name: str, node: query.Node, columns: Sequence[exp.Expr] | None
    ) -> tuple[PaperOperator, Sequence[str]]:
        match node:
            case query.Filter(query.Stream(stream), condition) if columns is None:
                inbox = self._inboxes[stream]
                return PaperFilter(inbox, condition), inbox.columns
            case query.Aggregate(query.Window() as window, chosen, (), None, False):
                return PaperAggregate(self._window(name, window), chosen), [
                    each.alias_or_name or each.sql() for each in chosen
                ]
            case query.Correlate(inputs, condition) if columns is None:
                windows = [self._window(f"{name}_{place}", each) for place, (_, each) in enumerate(inputs, 1)]
                return PaperCorrelation(windows, condition), [
                    column for each in windows for column in each.inbox.columns
                ]
            case query.Match(query.Stream(stream)) if not node.partition_by:
                outputs = columns or [query.col(each.name) for each in node.measures.attributes]
                self._drop_later(table := f"paper_sequences_{name}")
                return PaperMatch(self._inboxes[stream], table, node, outputs), [each.alias_or_name for each in outputs]
        raise QueryError(f"the paper's experiment does not have such a query: {node}")

    def _window(self, name: str, node: query.Node) -> TimeWindow:
        match node:
            case query.Window(query.Stream(stream), Range(size, None), ()):
                inbox = self._inboxes[stream]
                self._create(table := f"paper_window_{name}", inbox.schema)
                return TimeWindow(inbox, table, size)
        raise QueryError(f"the paper's experiment does not have such a window: {node}")

    def _create(self, table: str, schema: Schema) -> None:
        kinds = [f"{each.name} {self.database.column_type(each)}" for each in schema.attributes]
        self._drop_later(table)
        self.database.execute(f"CREATE TABLE {table} ({', '.join(['ts BIGINT', *kinds])})")

    def _drop_later(self, table: str) -> None:
        self.database.execute(f"DROP TABLE IF EXISTS {table}")  # a run that was killed may have left it
        self._tables.append(table)

    def _reclaim(self) -> None:
        self._events += 1
        if self._events % RECLAIM == 0:
            self.database.reclaim_space()


def _unmapped(node: query.Node) -> tuple[query.Node, Sequence[exp.Expr] | None]:
    """The operator below a list of columns, and the columns."""
    return (node.input, node.columns) if isinstance(node, query.Map) else (node, None)


def _deliver(reader: PaperQuery, rows: Sequence[Row], timestamp: int) -> None:
    for row in rows:
        event = Event(dict(zip(reader.names, row, strict=True)), timestamp)
        for processor in reader.processors:
            processor(event)
