"""The methods of a bridge that show it: on-demand queries, plans, patterns, status."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridge.check.trust import Trust
from bridge.engine.limits import Limits
from bridge.engine.methods.access import Access, locked
from bridge.engine.named_processors import Result, results_in_table
from bridge.engine.on_demand.local_frames import frames_of_caller, in_database
from bridge.engine.status import Status, Times, status_of
from bridge.errors import ProcessorError, QueryError
from windows.databases.tracing import Tracer, add_tracer
from windows.schema import Schema
from windows.times import BEGINNING

if TYPE_CHECKING:
    from bridge.engine.result_set import ResultSet
    from bridge.patterns.why import Why
    from bridge.query.drawing import Drawing
    from nfa.graph import Graph


class Inspection(Access):
    """The methods of a bridge that show its state and how it computes."""

    @locked
    def query(
        self, sql: str, *, untrusted: bool = False, tables: Sequence[str] = (), limits: Limits | None = None
    ) -> ResultSet:
        """Answers an on-demand query.

        Args:
            sql: A SELECT over the contents of windows, streams, queries and tables; see docs/language.md. A name in FROM that
                is none of them may be a frame or an Arrow table among the caller's variables.
            untrusted: Refuse everything that is not known to be harmless; see docs/security.md.
            tables: The tables that an untrusted query may read in addition to streams and queries.
            limits: The time, rows and memory that it may take. By default an untrusted query has those of `Limits()`, a
                trusted one none.

        Returns:
            The rows, in order, with `.columns`, `.to_arrow()`, `.to_pandas()` and `.to_polars()`.

        Raises:
            QueryError: The SELECT is wrong, reads a window that no query keeps, does something that an untrusted query
                must not do, or exceeds its limits.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("n", "SELECT COUNT(*) AS n FROM s[a: INTEGER] WINDOW(RANGE 5 S)")
        ...     cep.push_event("s", [7], 1000)
        ...     cep.query("SELECT ts, a FROM s WINDOW(RANGE 5 S)")
        ResultSet(['ts', 'a'], [(1000, 7)])
        """
        from bridge.engine.on_demand.query import answer

        self._runner.fill_inbox()
        trust, limits = self._bounds(untrusted, tables, limits)
        with self._frames(sql, untrusted):
            return answer(sql, self._catalogue, self._runner.network, self._runner.now, trust, limits)

    @locked
    def results(self, query: str, after: str | None = None) -> list[Result]:
        """The stored results of a query that has named processors, or a table of results (`into=`).

        Args:
            query: The name of the query.
            after: The id of a result; only later results are returned. None: all that are still stored.

        Returns:
            The results in order, each with its id.

        Raises:
            QueryError: The results of the query are not stored.
            UnknownName: There is no such query.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("high", "SELECT a FROM s[a: INTEGER] WHERE a > 5", into="highs")
        ...     cep.push_events("s", [([7], 1000), ([8], 2000)])
        ...     first, second = cep.results("high")
        ...     cep.results("high", after=first.id)
        2
        [Result(payload={'a': 8}, timestamp=2000, id='high/2000/2/0')]
        """
        entry = self._catalogue.query_entry(query)
        if self._pushes.calls.named.is_stored(entry.name):
            return self._pushes.calls.named.read(entry.name, after)
        return results_in_table(entry, after, self._runner.database)

    @locked
    def explain(
        self, query: str, variants: bool = False, *, untrusted: bool = False, tables: Sequence[str] = ()
    ) -> str:
        """The plan of a query as a script in this database's SQL, which the database's own shell can run.

        Args:
            query: The name of a continuous query or of a script, or the text of a SELECT, as `query` takes it.
            variants: Print every variant of each statement, not only the one for a push of few events.
            untrusted: Refuse a SELECT that does something not known to be harmless; see docs/security.md.
            tables: The tables that an untrusted SELECT may read in addition to streams and queries.

        Returns:
            For a continuous query: the tree, the automaton of a pattern, the tables, and the statements of one push in
            the order of execution. For a SELECT: the SQL that `query` would run, and for each MATCH_RECOGNIZE how its
            conditions are computed and its matches are found.

        Raises:
            UnknownName: There is no such query.
            QueryError: The SELECT is wrong.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", {"symbol": "VARCHAR", "price": "DOUBLE"})
        ...     cep.create_query("high", "SELECT symbol FROM trades WHERE price > 10")
        ...     print(cep.explain("high").partition("-- results of a push")[2].lstrip())
        SELECT "ts", "symbol"
        FROM (SELECT "ts", "seq", "symbol" FROM "cep_inbox_trades" WHERE "price" > 10) AS "r"
        ORDER BY "ts", "seq";
        -- an event of trades that is pushed alone is bound in place of its inbox
        -- optimisation rules: bind_event
        """
        from bridge.engine.explain import explanation, explanation_of_script
        from bridge.engine.on_demand.query import explained
        from bridge.engine.on_demand.select_text import is_select

        if isinstance(query, str) and is_select(query):
            bounds = self._bounds(untrusted, tables, None)
            with self._frames(query, untrusted):
                return explained(query, self._catalogue, self._runner.network, self._runner.now, *bounds)
        known = (self._catalogue, self._runner.database, self._runner.network.settings, variants)
        if isinstance(query, str) and query.lower() in self._catalogue.scripts:
            return explanation_of_script(self._catalogue.scripts[query.lower()], *known)
        return explanation(self._catalogue.query_entry(query), *known)

    @locked
    def graph(self, query: str) -> Graph | Drawing:
        """A picture of the patterns of a query, or of the operators of a script.

        Args:
            query: The name of a continuous query or of a script, or the text of a SELECT.

        Returns:
            An object with `.to_svg()`, `.to_mermaid()`, `.to_dot()` and `.save(path)`; notebooks show it.

        Raises:
            QueryError: There is no pattern in the query.
            UnknownName: There is no such query.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     print(cep.graph("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A B?))"))
        A B?
        0: A -> 1
        1: B -> 2, accepting
        2: accepting
        """
        from bridge.engine.explain import graph_of
        from bridge.engine.on_demand.select_text import is_select

        if isinstance(query, str) and query.lower() in self._catalogue.scripts:
            from bridge.query.drawing import drawing_of

            return drawing_of(self._catalogue.scripts[query.lower()].script)
        dialect = self._runner.database.dialect
        return graph_of(
            query if isinstance(query, str) and is_select(query) else self._catalogue.query_entry(query), dialect
        )

    @locked
    def why(
        self,
        sql: str,
        row: Mapping[str, Any] | None = None,
        ts: Any = None,
        *,
        clause: int | None = None,
        runs: int = 20,
        untrusted: bool = False,
        tables: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> Why:
        """Says why a row of the input of MATCH_RECOGNIZE is in a match, or in none; `print` the answer.

        Args:
            sql: A SELECT with MATCH_RECOGNIZE, as `query` takes it.
            row: Values that no other row has, by their columns.
            ts: The row's value in the first column of ORDER BY.
            clause: The number of the MATCH_RECOGNIZE clause, from 1, if there are several.
            runs: The greatest number of runs that the answer shows.
            untrusted: As for `query`, like `tables` and `limits`.
            tables: The tables that an untrusted SELECT may read.
            limits: The time and memory that it may take.

        Returns:
            The verdict, and the runs of the pattern that reach the row.

        Raises:
            QueryError: The SELECT is wrong, or `row` and `ts` do not identify one row.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.database.execute("CREATE TABLE t AS FROM (VALUES (1, 9), (2, 7), (3, 8)) AS t (ts, a)")
        ...     answer = cep.why("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (X Y+) DEFINE Y AS a < X.a - 1)", ts=3)
        >>> answer.verdict, [str(run).splitlines()[-1].strip() for run in answer.runs][:1]
        ('It is in no match.', ['after X Y: Y? no: a < X.a - 1 is false: a = 8, X.a = 9 - ends'])
        """
        from bridge.engine.on_demand.query import why

        self._runner.fill_inbox()
        bounds = self._bounds(untrusted, tables, limits)
        known = (self._catalogue, self._runner.network, self._runner.now)
        with self._frames(sql, untrusted):
            return why(sql, row or {}, ts, clause, runs, *known, *bounds)

    def _frames(self, sql: str, untrusted: bool) -> contextlib.AbstractContextManager[None]:
        """Registers the frames among the caller's variables that a text names as tables of the database meanwhile."""
        frames = {} if untrusted else frames_of_caller(sql)
        return in_database(frames, self._catalogue, self._runner.database)

    def _bounds(
        self, untrusted: bool, tables: Sequence[str], limits: Limits | None
    ) -> tuple[Trust | None, Limits | None]:
        """The bounds of a text: what it may do, and how much it may take."""
        trust = Trust(self._runner.database, tables, is_limited=True) if untrusted else None
        if limits is not None and not isinstance(limits, Limits):
            raise QueryError(f"limits are Limits(seconds, rows, megabytes), not {limits!r}")
        return trust, limits or (Limits() if untrusted else None)

    @locked
    def status(self) -> Status:
        """The state and the figures of the bridge and its queries; `print` it, or read its fields.

        It counts the rows of the state's tables. Numbers of events and results count from the opening of the bridge.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("total", "SELECT SUM(a) AS total FROM s[a: INTEGER] WINDOW(RANGE 5 S)")
        ...     handle = cep.add_output_processor("total", lambda event: None)
        ...     cep.push_events("s", [([7], 1000), ([8], 2000)])
        ...     print(cep.status())
        2
        <DuckDB in memory>: 2 events, now 2000, watermark 2000
          total (sql): 2 events of s, 2 results to 1 processor, 2 rows of state
        """
        return status_of(self._runner, self._pushes, self._times, self._last_error, self._watcher.status())

    @locked
    def add_tracer(self, tracer: Tracer) -> None:
        """Calls a function with each statement from now on; `status` then has times, too.

        Args:
            tracer: Called as `tracer(sql, seconds, rows)` after each statement in the bridge's database, within the call that
                runs it; `rows` is None where the number is unknown. A text may hold values of events.

        Raises:
            ProcessorError: `tracer` is not a function.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("high", "SELECT a FROM s[a: INTEGER] WHERE a > 5")
        ...     seen = []
        ...     cep.add_tracer(lambda sql, seconds, rows: seen.append((sql, rows)))
        ...     rows = cep.query("SELECT 1 AS a")
        >>> seen[:2]
        [('SELECT 1 AS a', None), ('SELECT 1 AS a', 1)]
        """
        if not callable(tracer):
            raise ProcessorError(f"a tracer is a function, not {tracer!r}", [])
        if self._times is None:
            self._times = Times()
            add_tracer(self._runner.database, self._times)
        add_tracer(self._runner.database, tracer)

    @property
    def now(self) -> int | None:
        """The newest time seen, in milliseconds; None before the first event.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.advance_time(1000)
        ...     cep.now
        1000
        """
        return None if self._runner.now == BEGINNING else self._runner.now

    @property
    def streams(self) -> dict[str, Schema]:
        """The schemas of the registered streams, by name.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.register_stream("trades", "price DOUBLE")
        ...     cep.streams["trades"].names
        ['price']
        """
        return {entry.name: entry.schema for entry in self._catalogue.streams.values()}

    @property
    def queries(self) -> dict[str, str]:
        """The texts of the continuous queries, by name.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
        ...     cep.queries
        {'q': 'SELECT a FROM s[a: INTEGER]'}
        """
        return {entry.name: entry.text for entry in self._catalogue.queries.values() if not entry.is_internal}
