"""The baseline: the algorithm of the paper (*Event Processing on your own Database*, section 4) as it is described there.

Every event goes alone through every query, and every query has its own tables and statements; nothing is shared
between queries but the inbox of a stream. What each step follows:

- 4.1 A query becomes statements of standard SQL over tables when it is created; their texts are made once.
- 4.2 Each time window of each query is a table of its own. A new event is inserted into all windows on its stream, and
  what its timestamp and the window's size say has expired is deleted at once.
- 4.3 Each stream has one inbox, a table with its newest event alone. A filter reads only the inbox. An aggregate is
  computed from scratch over its window. A correlation inserts the event into its window, deletes what has expired from
  all of its windows, and joins the inbox with the other windows.
- 4.4 A pattern: the database derives the symbols that the event emits, and the values of the variables, for each
  sequence under way, which has an identifier. Symbols and identifiers go through the automaton; it tells the
  identifiers of complete sequences, by which the database gives the values to report.
- 5.1 One thread; each event triggers all queries on its stream ("tuple-driven").

Where the paper is silent, what is faster and simple was chosen:

- One transaction an event, committed before results are handed out. No indexes; the paper names none.
- The bound of a deletion stands in the statement as a number: on DuckDB that takes two thirds of the time of a
  sub-query on the inbox. All other texts stay the same, so that databases keep them prepared.
- Sequences: only those which the automaton can still complete are stored, and only until the next instant is over, as
  strictly sequential patterns need no more (otherwise there were 3^500 of them in a window of the experiment). All
  symbols of an event come from one statement, a part a symbol, not from one statement each.
- Every thousand events a database may tidy up after deletions, as it may for the bridge.
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

TIDY = 1_000
"""After so many events the database may tidy up."""


@dataclasses.dataclass(frozen=True)
class Inbox:
    """Section 4.3: the newest event of a stream, and how it gets there."""

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
        """One event as (ts, values …), or several where windows are filled for a start."""
        self.database.execute(f"DELETE FROM {self.table}")
        self.database.insert(self.table, 1 + len(self.columns), rows)


class TimeWindow:
    """Section 4.2: the table of one time window of one query."""

    def __init__(self, inbox: Inbox, table: str, size: int) -> None:
        self.database, self.inbox, self.table, self.size = inbox.database, inbox, table, size
        columns = ", ".join(["ts", *inbox.columns])
        self._insert = f"INSERT INTO {table} SELECT {columns} FROM {inbox.table}"

    def add(self) -> None:
        self.database.execute(self._insert)

    def purge(self, now: int) -> None:
        self.database.execute(f"DELETE FROM {self.table} WHERE ts <= {now - self.size}")


class Operator:
    """One query: its windows, and what an event in an inbox gives."""

    windows: tuple[TimeWindow, ...] = ()

    def push(self, inbox: Inbox, now: int) -> list[Row]:
        """The results of the event in the inbox, whose timestamp is `now`, without their timestamps."""
        raise NotImplementedError


class Filter(Operator):
    """Section 4.3: is executed on the inbox."""

    def __init__(self, inbox: Inbox, condition: exp.Expr) -> None:
        self._select = f"SELECT {', '.join(inbox.columns)} FROM {inbox.table} WHERE {condition.sql()}"

    def push(self, inbox: Inbox, now: int) -> list[Row]:
        return inbox.database.fetch(self._select)


class Aggregate(Operator):
    """Section 4.3: the window is updated, then the aggregate computed over all of it."""

    def __init__(self, window: TimeWindow, columns: Sequence[exp.Expr]) -> None:
        self.windows = (window,)
        self._select = f"SELECT {', '.join(column.sql() for column in columns)} FROM {window.table}"

    def push(self, inbox: Inbox, now: int) -> list[Row]:
        (window,) = self.windows
        window.add()
        window.purge(now)
        return inbox.database.fetch(self._select)


class Correlate(Operator):
    """Section 4.3: the inbox, which holds the new event alone, meets all windows but its own."""

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

    def push(self, inbox: Inbox, now: int) -> list[Row]:
        for window in self.windows:
            if window.inbox is inbox:
                window.add()
        for window in self.windows:
            window.purge(now)
        return inbox.database.fetch(self._selects[inbox.stream])


class Match(Operator):
    """Section 4.4: symbols and variables in the database, the automaton beside it.

    The table of sequences has a row for each that may still grow, and for each complete one until its instant is over:
    identifier, instant of its last event, timestamp of its first, variables. Sequence 0 is the empty one, which every
    other continues.
    """

    def __init__(self, inbox: Inbox, table: str, node: query.Match, columns: Sequence[exp.Expr]) -> None:
        self.database, self.table, self.node = inbox.database, table, node
        self.runs = Runs(compile_automaton(node.pattern))
        self._variables = [attribute.name for attribute in node.measures.attributes]
        self._symbols = " UNION ALL ".join(self._part(inbox, definition) for definition in node.define)
        self._load = f"SELECT {', '.join(column.sql() for column in columns)} FROM {table} WHERE id IN "
        self._create()

    def _create(self) -> None:
        kinds = [f"{each.name} {self.database.column_type(each)}" for each in self.node.measures.attributes]
        columns = ", ".join(["id BIGINT", "instant BIGINT", "since BIGINT", *kinds])
        self.database.execute(f"CREATE TABLE {self.table} ({columns})")
        self._insert([(0, None, None, *([None] * len(kinds)))])

    def _part(self, inbox: Inbox, definition: query.Definition) -> str:
        """Which sequences the event continues as this symbol, and their variables then."""
        changed = {name: value.sql() for name, value in definition.assignments}
        values = ", ".join(changed.get(name, name) for name in self._variables)
        emitted = f" AND {definition.condition.sql()}" if definition.condition else ""
        return (
            f"SELECT id, '{definition.symbol}', COALESCE(since, ts), {values} FROM {inbox.table}, {self.table} "
            f"WHERE (instant IS NULL OR instant < ts){emitted}"
        )

    def push(self, inbox: Inbox, now: int) -> list[Row]:
        if self.runs.enter(now):
            self._purge()
        emitted = self.database.fetch(self._symbols)
        taken = [(new, row[2:]) for row in emitted if (new := self.runs.take(row[0], row[1])) is not None]
        if not taken:
            return []
        self._insert([(identifier, now, *values) for identifier, values in taken])
        complete = [str(identifier) for identifier, _ in taken if self.runs.complete(identifier)]
        return self.database.fetch(f"{self._load}({', '.join(complete)})") if complete else []

    def _purge(self) -> None:
        """What began too long ago, and what the instant that is over now has not continued."""
        old = f"instant < {self.runs.before} OR since <= {self.runs.now - self.node.within}"
        self.database.execute(f"DELETE FROM {self.table} WHERE {old}")

    def _insert(self, rows: Sequence[Row]) -> None:
        self.database.insert(self.table, 3 + len(self._variables), rows)


class Runs:
    """Section 4.4: the automaton, and the state of each sequence that ends at this instant or the one before.

    >>> from nfa import parse_pattern
    >>> runs = Runs(compile_automaton(parse_pattern("A B")))
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
        """Whether a new instant begins."""
        if now == self.now:
            return False
        self.before, self.now = self.now, now
        self._older, self._states = self._states, {}
        return True

    def take(self, identifier: int, symbol: str) -> int | None:
        """The identifier of the sequence that goes on with this symbol, None where the pattern has no such one."""
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
class Query:
    """A query with its operator, the streams it reads, the names of its columns, and who gets its results."""

    name: str
    operator: Operator
    names: Sequence[str]
    processors: list[Processor] = dataclasses.field(default_factory=list)


class Paper:
    """The paper's bridge on the database of a URL, with the methods of `bridge.Bridge` that the experiment needs.

    Queries are those of Listing 1: one operator over streams, the windows in milliseconds.

    >>> cep = Paper("sqlite://")
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
        self._inboxes: dict[str, Inbox] = {}
        self._queries: dict[str, Query] = {}
        self._readers: dict[str, list[Query]] = defaultdict(list)
        self._tables: list[str] = []
        self._events = 0

    # JEPC's methods (Table 1) -----------------------------------------------------------------------------------------

    def register_stream(self, name: str, schema: str) -> None:
        inbox = Inbox(self.database, name, Schema.of(schema))
        self._create(inbox.table, inbox.schema)
        self._inboxes[name] = inbox

    def create_query(self, name: str, text: str) -> None:
        node, columns = _unmapped(parse(text))
        operator, names = self._operator(name, node, columns)
        found = self._queries[name] = Query(name, operator, names)
        for stream in dict.fromkeys(each.name for each in query.walk(node) if isinstance(each, query.Stream)):
            self._readers[stream].append(found)

    def add_output_processor(self, name: str, function: Processor) -> None:
        self._queries[name].processors.append(function)

    def push_event(self, stream: str, payload: Mapping[str, Any], timestamp: int) -> None:
        """One event through all queries on its stream, in one transaction; then the results go out."""
        inbox = self._inboxes[stream]
        self.database.begin()
        inbox.replace([(timestamp, *payload.values())])
        results = [(reader, reader.operator.push(inbox, timestamp)) for reader in self._readers[stream]]
        self.database.commit()
        self._tidy()
        for reader, rows in results:
            _deliver(reader, rows, timestamp)

    def fill(self, stream: str, rows: Sequence[Row]) -> None:
        """Puts many events (ts, values …) into the windows at once, so that they need not be filled one by one.

        Patterns see none of them: of a pattern without repetition, as many events as it is long must follow singly.
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
    ) -> tuple[Operator, Sequence[str]]:
        match node:
            case query.Filter(query.Stream(stream), condition) if columns is None:
                inbox = self._inboxes[stream]
                return Filter(inbox, condition), inbox.columns
            case query.Aggregate(query.Window() as window, chosen, (), None, False):
                return Aggregate(self._window(name, window), chosen), [
                    each.alias_or_name or each.sql() for each in chosen
                ]
            case query.Correlate(inputs, condition) if columns is None:
                windows = [self._window(f"{name}_{place}", each) for place, (_, each) in enumerate(inputs, 1)]
                return Correlate(windows, condition), [column for each in windows for column in each.inbox.columns]
            case query.Match(query.Stream(stream)) if not node.partition_by:
                wanted = columns or [query.col(each.name) for each in node.measures.attributes]
                self._drop_later(table := f"paper_sequences_{name}")
                return Match(self._inboxes[stream], table, node, wanted), [each.alias_or_name for each in wanted]
        raise QueryError(f"the paper's experiment has no query like this: {node}")

    def _window(self, name: str, node: query.Node) -> TimeWindow:
        match node:
            case query.Window(query.Stream(stream), Range(size, None), ()):
                inbox = self._inboxes[stream]
                self._create(table := f"paper_window_{name}", inbox.schema)
                return TimeWindow(inbox, table, size)
        raise QueryError(f"the paper's experiment has no window like this: {node}")

    def _create(self, table: str, schema: Schema) -> None:
        kinds = [f"{each.name} {self.database.column_type(each)}" for each in schema.attributes]
        self._drop_later(table)
        self.database.execute(f"CREATE TABLE {table} ({', '.join(['ts BIGINT', *kinds])})")

    def _drop_later(self, table: str) -> None:
        self.database.execute(f"DROP TABLE IF EXISTS {table}")  # what a run that was ended left behind
        self._tables.append(table)

    def _tidy(self) -> None:
        self._events += 1
        if self._events % TIDY == 0:
            self.database.reclaim_space()


def _unmapped(node: query.Node) -> tuple[query.Node, Sequence[exp.Expr] | None]:
    """The operator below a list of columns, and these."""
    return (node.input, node.columns) if isinstance(node, query.Map) else (node, None)


def _deliver(reader: Query, rows: Sequence[Row], timestamp: int) -> None:
    for row in rows:
        event = Event(dict(zip(reader.names, row, strict=True)), timestamp)
        for processor in reader.processors:
            processor(event)
