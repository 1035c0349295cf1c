"""On-demand queries: SELECTs of the database's SQL over the present state of the bridge.

FROM may name a stream (its newest events: those of the last push), `stream WINDOW(…)` (a window that some query keeps),
a continuous query (its present content), and any table of the database.

The present content of a query is the result of its SQL over the present contents of its windows (Krämer & Seeger 2009).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import sqlglot
from sqlglot import exp

from bridge import query
from bridge.check.resolve import resolve
from bridge.check.scope import Field
from bridge.check.trust import Trust, is_cte
from bridge.engine.catalogue import Catalogue
from bridge.engine.limits import Limits, limited, with_row_limit, within_rows
from bridge.engine.on_demand.present_content import PresentState, present_content
from bridge.engine.on_demand.select_text import is_select
from bridge.engine.refusal import as_bridge_error, refusal
from bridge.engine.result_set import ResultSet
from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, word_of
from bridge.frontends.expressions import Qualifiers, with_spelling_hint
from bridge.frontends.sql.clauses import window
from bridge.query.expressions import NOT_UNDERSTOOD, syntax_error
from bridge.query.nodes import Node, walk
from bridge.query.words import RESERVED
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network
from windows.databases import Database, Refused
from windows.sql import table_of
from windows.types import is_nested
from windows.values import converted

if TYPE_CHECKING:
    import pyarrow as pa

    from bridge.patterns.why import Why


def answer(
    sql: str, catalogue: Catalogue, network: Network, now: int, trust: Trust | None = None, limits: Limits | None = None
) -> ResultSet:
    """The rows of a SELECT. Raises QueryError for another statement, and for a name whose content no query keeps.

    `trust`: what an untrusted text may do; None: it is trusted. `limits`: the time, rows and memory that it may take.
    """
    request = _Request(catalogue, network, now, trust)
    database = network.database
    with (
        request.pointing(sql),
        limited(limits, database, reads_only="match_recognize" not in sql.lower()),
        _answered(sql, database, request.rendered_for_pattern(sql)) as text,
    ):
        if not isinstance(text, str):
            return within_rows(limits, ResultSet(text.column_names, None, text))
        return within_rows(limits, _rows(request.rendered(text, limits), database, request.answered))


def explained(
    sql: str, catalogue: Catalogue, network: Network, now: int, trust: Trust | None = None, limits: Limits | None = None
) -> str:
    """The SQL that `answer` would run, without running it. Raises what `answer` raises before it reads rows."""
    request, database = _Request(catalogue, network, now, trust), network.database
    if "match_recognize" in sql.lower():
        from bridge.engine.on_demand.match_recognize import explained as explanation

        with request.pointing(sql), limited(limits, database, reads_only=False):
            return explanation(sql, database, request.rendered_for_pattern(sql))
    with request.pointing(sql):
        text = request.rendered(sql)
        database.columns_of(text)
    tree = sqlglot.parse_one(text, dialect=database.dialect)
    return f"-- SELECT on demand, on {database.dialect}\n\n{tree.sql(database.dialect, pretty=True)};"


def why(
    sql: str,
    row: Mapping[str, Any],
    ts: Any,
    clause: int | None,
    runs: int,
    catalogue: Catalogue,
    network: Network,
    now: int,
    trust: Trust | None = None,
    limits: Limits | None = None,
) -> Why:
    """Why a row of the input of a SELECT's MATCH_RECOGNIZE is in a match, or in none."""
    from bridge.engine.on_demand.match_recognize import why as why_of_clause

    request = _Request(catalogue, network, now, trust)
    with request.pointing(sql), limited(limits, network.database, reads_only=False):
        return why_of_clause(sql, row, ts, clause, runs, network.database, request.rendered_for_pattern(sql))


def _answered(
    sql: str, database: Database, rendered: Callable[[str], str]
) -> contextlib.AbstractContextManager[str | pa.Table]:
    if "match_recognize" not in sql.lower():
        return contextlib.nullcontext(sql)
    from bridge.engine.on_demand.match_recognize import answered

    return answered(sql, database, rendered)


def _rows(text: str, database: Database, nested: Mapping[str, str]) -> ResultSet:
    columns = database.columns_of(text)
    decoders = [database.decoder(nested[name]) if name in nested else None for name in columns]
    if any(decoders):  # some columns are decoded from JSON
        rows = [tuple(converted(row, decoders)) for row in database.fetch(text)]
        return ResultSet(columns, rows, nested=nested)
    arrow = database.fetch_arrow(text)
    return ResultSet(columns, database.fetch(text)) if arrow is None else ResultSet(columns, None, arrow)


@dataclasses.dataclass
class _Request:
    """One on-demand query, whose names it resolves."""

    catalogue: Catalogue
    network: Network
    now: int
    trust: Trust | None = None
    ctes: set[str] = dataclasses.field(default_factory=set)
    columns: list[str] = dataclasses.field(default_factory=list)
    """The columns of the streams and queries that its names stand for, as far as they are known."""
    nested: dict[str, str] = dataclasses.field(default_factory=dict)
    """The types of columns with nested values."""
    answered: dict[str, str] = dataclasses.field(default_factory=dict)
    """The columns of the result that are such a column, with their types."""
    answers: set[str] = dataclasses.field(default_factory=set)
    """The names that stand for outputs of MATCH_RECOGNIZE clauses."""

    @property
    def state(self) -> PresentState:
        return PresentState(self.catalogue, self.network, self.now)

    @contextlib.contextmanager
    def pointing(self, sql: object) -> Iterator[None]:
        """Lets errors point into the text of the query, also errors of the database."""
        if not isinstance(sql, str):
            raise QueryError(f"an on-demand query is the text of a SELECT, not {type(sql).__name__}")
        try:
            yield
        except Refused as error:
            tables = [*self.catalogue.known(), *self.ctes, *self.catalogue.table_names()]
            raise refusal(error, sql, tables, [*self.columns, *self._columns_of_tables(sql)]) from None
        except Exception as error:
            own = as_bridge_error(error)
            if not isinstance(own, QueryError):
                raise
            here = own.text is None or len(own.text) == len(sql)  # also with a name in place of each MATCH_RECOGNIZE
            raise QueryError(own.message, None, own.position if here else None, own.words).within(sql) from None

    def _columns_of_tables(self, sql: str) -> list[str]:
        """The columns of the database's tables that a text names, for hints."""
        with contextlib.suppress(QueryError, Refused):
            names = (item.sql(self.network.database.dialect) for item in self._parsed(sql)[0].find_all(exp.Table))
            readable = {name.lower() for name in self.catalogue.table_names()}
            found = [self.network.database.relation(name) for name in names if name.lower() in readable]
            return [name for schema in found if schema is not None for name in schema.names]
        return []

    def rendered_for_pattern(self, sql: str) -> Callable[[str], str]:
        """The function that renders the parts of a text; the clauses of an untrusted text are checked first."""
        if self.trust is not None and isinstance(sql, str) and "match_recognize" in sql.lower():
            from bridge.frontends.sql.pattern_subqueries import with_values
            from bridge.frontends.sql.pattern_tables import pattern_tables

            _, tables = pattern_tables(sql, self.network.database.dialect)
            self.answers = {table.name for table in tables}
            for table in tables:
                self.trust.check_definition(with_values(table.clause, lambda node: exp.Null()))
        return self.rendered

    def rendered(self, sql: str, limits: Limits | None = None) -> str:
        """A SELECT in the database's SQL, with its names resolved, and no more rows than `limits` allow."""
        tree = self._resolved(sql)
        if tree is None and self.trust is None and limits is None:
            return sql
        tree = self._parsed(sql)[0] if tree is None else tree
        if limits is not None:
            tree = with_row_limit(tree, limits)
        return tree.sql(self.network.database.dialect, comments=self.trust is None)

    def _parsed(self, sql: str) -> tuple[exp.Expr, dict[int, query.Window]]:
        blanked, windows = self._windows(sql)
        try:
            trees = sqlglot.parse(blanked, dialect=self.network.database.dialect)
        except NOT_UNDERSTOOD as error:
            raise with_spelling_hint(syntax_error(error, sql), Cursor(sql, RESERVED)) from None
        if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
            raise _no_select(sql)
        return trees[0], windows

    def _resolved(self, sql: str) -> exp.Expr | None:
        """The tree in which names of streams and queries are replaced by their content; None if it names none."""
        tree, windows = self._parsed(sql)
        self.ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        try:
            if self.trust is not None:
                self.trust.check_definition((tree, list(windows.values())))
            found = [(item, self._item(item, windows)) for item in list(tree.find_all(exp.Table))]
        except QueryError as error:
            raise error.within(sql) from None
        if not any(content for _, content in found):
            return None if self.trust is None else tree
        for item, content in found:
            if content is not None:
                rows = exp.Subquery(this=_renamed(content, item, sql).transform(self.network.database.adapt))
                item.replace(rows.as_(item.alias or item.name, quoted=True))
        self.answered = dict(self._nested_in(tree))
        return tree

    def _item(self, item: exp.Table, windows: dict[int, query.Window]) -> exp.Expr | None:
        """The SELECT that replaces an item of FROM; None for a table. Untrusted queries must be allowed to read it."""
        if self.trust is None:
            return self._content(item, windows, self.ctes)
        if is_cte(item) or item.name in self.answers or isinstance(item.this, exp.Func) or item.args.get("rows_from"):
            return None  # functions are checked elsewhere
        content = self._content(item, windows, set())
        if content is None:
            allowed = table_of(self.trust.table(_dotted(item), item.this.meta_get("start")))
            for part in ("this", "db", "catalog"):
                item.set(part, allowed.args.get(part))
        return content

    def _windows(self, sql: str) -> tuple[str, dict[int, query.Window]]:
        """The text with its WINDOW(…) clauses blanked out, and the clauses by the offset of the name before each."""
        cursor, windows = Cursor(sql), {}
        text = sql
        for place, token in enumerate(cursor.tokens[:-1]):
            follows = word_of(token) == "WINDOW" and word_of(cursor.tokens[place + 1]) == "("
            if not follows or place == 0:
                continue
            name = cursor.tokens[place - 1]
            cursor.at = place
            clause = window(cursor)
            end = cursor.tokens[cursor.at - 1].end + 1
            node = clause(query.Stream(name.text), Qualifiers(None, ()))
            windows[name.start] = cast("query.Window", node)
            text = text[: token.start] + " " * (end - token.start) + text[end:]
        return text, windows

    def _content(self, item: exp.Table, windows: dict[int, query.Window], ctes: set[str]) -> exp.Expr | None:
        """The SELECT that replaces an item of FROM; None for a table of the database."""
        name = _dotted(item)
        kept = windows.get(item.this.meta_get("start", -1)) if isinstance(item.this, exp.Identifier) else None
        if kept is not None:
            return self._select(self._window(kept))
        if name.lower() in ctes:
            return None
        if found := self.catalogue.stream(name):
            self._typed(found.visible)
        if entry := self.catalogue.queries.get(name.lower()):
            return self._select(present_content(entry.resolved.node, self.state, entry))
        if stream := self.catalogue.streams.get(name.lower()):
            flow = self.network.rewrite(query.Stream(stream.name), Need.RESULT)
            return self._select(flow)
        return None

    def _nested_in(self, tree: exp.Expr) -> Iterator[tuple[str, str]]:
        """The columns of the result that are unchanged columns with nested values."""
        for item in tree.selects if isinstance(tree, exp.Query) else []:
            of = item.this if isinstance(item, exp.Alias) else item
            if of.is_star:
                yield from self.nested.items()
            elif isinstance(of, exp.Column) and of.name in self.nested:
                yield item.alias_or_name, self.nested[of.name]

    def _typed(self, fields: Iterable[Field]) -> None:
        self.nested |= {field.name: field.type for field in fields if is_nested(field.type)}

    def _select(self, flow: Flow) -> exp.Expr:
        names = [name for name in flow.names if name not in flow.hidden]
        self.columns += ["ts", *names]
        return flow.arrivals.select(["ts", *names])

    def _window(self, node: query.Window) -> Flow:
        """The content of the oldest window of this kind. Raises QueryError where no query has such a window."""
        found = resolve(node, self.catalogue)
        self._typed(found.visible)
        resolved = found.node
        kept = self.network.epochs_of(resolved)
        if not kept:
            self._refuse_totals(resolved)
            raise QueryError(
                f"no query keeps {resolved}: create one that has this window "
                "(there are: " + (", ".join(map(str, self.network.windows())) or "none") + ")"
            )
        return self.state.now_valid(self.network.content_of(resolved, min(kept)))

    def _refuse_totals(self, window: Node) -> None:
        """Raises QueryError where queries keep only totals of a window, not its rows."""
        entries = [each for each in self.catalogue.queries.values() if not each.is_internal]
        if names := [each.name for each in entries if window in walk(each.resolved.node)]:
            raise QueryError(
                f"no query keeps the rows of {window}, only totals, which the results of {names[0]!r} have: create a query that "
                "is this SELECT"
            )


def _dotted(item: exp.Table) -> str:
    return ".".join(filter(None, (item.catalog, item.db, item.name)))


def _renamed(content: exp.Expr, item: exp.Table, sql: str) -> exp.Expr:
    """A content with the column names of its alias, as in `trades AS t (ts, key)`.

    Its SELECT renames the columns, as not every database does so in FROM.
    """
    alias = item.args.get("alias")
    names = alias.columns if alias is not None else []
    if not names:
        return content
    assert isinstance(content, exp.Select)
    own = content.selects
    if len(names) > len(own):
        there = ", ".join(column.alias_or_name for column in own)
        raise QueryError(f"{len(names)} column names for {item.name!r}, which has {len(own)}: {there}").within(sql)
    renamed = [exp.Alias(this=column.unalias(), alias=name.copy()) for column, name in zip(own, names, strict=False)]
    return content.select(*renamed, *own[len(names) :], append=False)


def _no_select(sql: str) -> QueryError:
    """An error that points at the first statement that is not a SELECT, or at the second of two."""
    tokens = Cursor(sql).tokens
    ends = [place for place, token in enumerate(tokens) if word_of(token) == ";"]
    second = ends[0] + 1 if ends and is_select(sql[: tokens[ends[0]].start]) else 0
    place = tokens[second].start if second < len(tokens) else None
    return QueryError("cep.query answers one SELECT; for other statements use the database itself", sql, place)
