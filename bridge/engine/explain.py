"""The explanation of a query: its tree, a pattern's automaton, and the SQL of one push in the order of execution.

The text is a script: once the inboxes are filled by hand, it runs unchanged in the database's own shell.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from sqlglot import exp

from bridge import query
from bridge.check.paths import source_text
from bridge.engine.catalogue import Catalogue, QueryEntry, ScriptEntry, StreamEntry
from bridge.engine.layout import laid_out
from bridge.engine.results import ResultStatement
from bridge.engine.single_events.bound_statements import facts_of
from bridge.engine.single_events.one_event_planning import one_event_plan
from bridge.engine.watch.changes import outbox_of, triggers_of
from bridge.engine.watch.reader import RowReader
from bridge.errors import QueryError
from bridge.query.epl_columns import Enumeration
from bridge.query.epl_output import OutputEvery, Snapshot
from bridge.query.epl_state import ChangedWindow, ChangeTable, SetVariables
from bridge.query.nodes import Node
from bridge.query.row_pattern import with_absence
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.query.text import clause
from bridge.rewrite.matching.match import automaton_of
from bridge.rewrite.optimize import fired
from bridge.rewrite.optimize.side_by_side import is_one
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.settings import Settings
from bridge.rewrite.state_tables import CLOCK
from bridge.rewrite.variants import StatementWriter
from nfa.errors import BudgetError
from nfa.graph import Diagram, Graph, diagram
from nfa.program import compile_program
from windows.databases import Database
from windows.sql import table

READ_AT_ONCE = 1_000
"""The number of rows shown in the statement that reads a watched table; the real number depends on the backlog."""


def explanation(entry: QueryEntry, catalogue: Catalogue, database: Database, settings: Settings, variants: bool) -> str:
    """The explanation of a continuous query, in this database's SQL; with one variant of each statement or all."""
    return "\n".join(_Explanation(entry, catalogue, database, variants, settings).lines())


def explanation_of_script(
    entry: ScriptEntry, catalogue: Catalogue, database: Database, settings: Settings, variants: bool
) -> str:
    """The graph of a script in the notation of PaaS-CEP's algebra, then each output's explanation."""
    from bridge.query.notation import notation

    head = [f"-- script {entry.name}", "--", *_commented("\n".join(notation(entry.script)))]
    outputs = map(catalogue.query_entry, entry.outputs)
    parts = [explanation(output, catalogue, database, settings, variants) for output in outputs]
    return "\n\n".join(["\n".join(head), *parts])


def tree(node: Node, depth: int = 0, label: str = "") -> str:
    """The tree, one node per line, with inputs indented below their reader.

    >>> print(tree(query.Filter(query.Stream("s"), "a > 1")))
    Filter a > 1
      Stream s
    """
    lines = ["  " * depth + label + _title(node)]
    labels = [f"{alias}: " for alias, _ in node.inputs] if isinstance(node, query.Correlate) else []
    for place, below in enumerate(node.inputs_of):
        lines.append(tree(below, depth + 1, labels[place] if labels else ""))
    return "\n".join(lines)


def _title(node: Node) -> str:
    match node:
        case query.Stream(name) | query.Relation(name):
            return f"{type(node).__name__} {name}"
        case query.Window():
            return f"Window {node.extent}{_keys('PARTITION BY', node.partition_by)}"
        case query.Filter():
            return f"Filter {source_text(node.condition)}"
        case query.Map():
            return f"Map {_list(node.columns)}"
        case query.Aggregate():
            keys = _keys("GROUP BY", node.group_by)
            having = f" HAVING {source_text(node.having)}" if node.having is not None else ""
            return f"Aggregate {_list(node.columns)}{keys}{having}{_emitted(node)}"
        case query.Correlate():
            return "Correlate" + (f" {source_text(node.condition)}" if node.condition is not None else "")
        case query.Match():
            keys = _keys("PARTITION BY", node.partition_by)
            return f"Match {node.pattern} WITHIN {node.within} MS{keys} MEASURES {node.measures}"
        case query.MatchRecognize():
            return str(node.pattern)
        case ReadSQL(_, statement, parameters) | UpdateSQL(_, statement, parameters):
            values = f" ({_list(parameters)})" if parameters else ""
            return f"{type(node).__name__}{values} {' '.join(statement.split())}"
        case IntoTable(_, name):
            return f"IntoTable {name}"
        case ChangeTable(_, state, change):
            return f"Change {state.name} by {change.verb}"
        case SetVariables():
            return "Set " + ", ".join(f"{name} = {source_text(value)}" for name, value in node.settings)
        case ChangedWindow(_, changes):
            return f"ChangedWindow by {', '.join(change.verb for _, change in changes)}"
        case query.TemporalMatch():
            return f"TemporalMatch {str(node).removeprefix('SELECT * FROM PATTERN ')}"
        case query.EagerMatch():
            return f"{node.pattern} {node.reporting}"
        case Enumeration():
            return f"Enumeration {node.name} of {source_text(node.values)}"
        case query.SubqueryColumn():
            condition = "" if node.condition is None else f" {source_text(node.condition)}"
            return f"SubqueryColumn {node.name}{condition}"
        case Snapshot() | OutputEvery() | query.OrderLimitDistinct() | query.Throttle() | query.PreviousRow():
            return f"{type(node).__name__} {clause(node)}"
        case _:
            return type(node).__name__


def _keys(words: str, expressions: tuple[exp.Expr, ...]) -> str:
    return f" {words} {_list(expressions)}" if expressions else ""


def _emitted(node: query.Aggregate) -> str:
    return " EMIT ON EVERY CHANGE" if node.every_change else " EMIT ON CHANGE" if node.on_change else ""


def _list(expressions: tuple[exp.Expr, ...]) -> str:
    return ", ".join(source_text(expression) for expression in expressions)


def _pushes(settings: Settings, brief: int) -> dict[str, str]:
    """The kinds of pushes that the variants of a statement are for."""
    many, few = f"more than {settings.few} events", f"at most {settings.few} events"
    return {
        "any": many,
        "few": few,
        "one": "one event",
        "brief": f"{many} within 1/{brief} of the window",
        "long": f"{few}, once the window holds more than {settings.long_rows} rows",
        "shared": f"{many}, where queries share the statement",
        "many": f"at least {settings.many} events",
        "history": "a whole history, of which nothing is stored",
    }


@dataclasses.dataclass
class _Explanation:
    """Writes the explanation of a query: its tree, then the statements of one push of few events, in order."""

    entry: QueryEntry
    catalogue: Catalogue
    database: Database
    variants: bool
    settings: Settings

    def lines(self) -> Iterator[str]:
        node = self.entry.resolved.node
        yield from (f"-- query {self.entry.name}, on {self.database.dialect}", "--", *_commented(tree(node)))
        for below in query.walk(node):
            if isinstance(below, query.Match):
                yield from ("--", f"-- automaton of {below.pattern}", *_commented(str(automaton_of(below))))
        for name in sorted(self.entry.sources):
            yield from self._reading(self.catalogue.streams[name])
        yield from ("", "-- state", *self._state())
        operators = [each for each in self.entry.operators if self.variants or each.steps or each.inboxes or each.notes]
        for number, operator in enumerate(operators, 1):
            yield from ("", *self._operator(number, operator))
        yield from ("", *self._results())
        yield from self._housekeeping()

    def _sql(self, statement: exp.Expr) -> str:
        return laid_out(self.database.render(statement), self.database.dialect) + ";"

    @functools.cached_property
    def _pushes(self) -> dict[str, str]:
        return _pushes(self.settings, self.entry.flow.brief)

    # State ------------------------------------------------------------------------------------------------------------

    def _state(self) -> Iterator[str]:
        """The statements that create the tables: the clock, the inboxes of the streams, the operators' tables."""
        zeros = (exp.alias_(exp.cast("0", "BIGINT"), name, quoted=True) for name in ("before", "now", "seq"))
        yield self._sql(exp.Create(kind="TABLE", this=table(CLOCK), expression=exp.select(*zeros)))
        for name in sorted(self.entry.sources):
            yield self._inbox(self.catalogue.streams[name])
        for operator in self.entry.operators:
            for made in (made for made in operator.tables if self.variants or not made.is_late):
                if made.is_late:
                    yield f"-- once the window holds more than {self.settings.long_rows} rows:"
                yield self._sql(made.create())
                if self.database.uses_indexes:
                    yield from map(self._sql, made.index())

    def _reading(self, stream: StreamEntry) -> Iterator[str]:
        """How rows of a watched table become events; for changes, also the triggers if they do not exist yet."""
        if stream.source is None:
            return
        place = "" if stream.source.changes else ", each time after the newest position, and in the gaps below it"
        yield from ("", f"-- stream {stream.name}, rows of {stream.source}{place}")
        if stream.source.changes and stream.reads is None:
            outbox = outbox_of(self.database, stream.name)
            yield from (f"{each};" for each in triggers_of(self.database, outbox, stream.schema, stream.source).create)
            return
        statement = RowReader(self.database, stream).statement(None if stream.source.changes else 0, READ_AT_ONCE)
        yield laid_out(statement, self.database.dialect) + ";"

    def _inbox(self, stream: StreamEntry) -> str:
        database = self.database
        key = exp.DataType.build("BIGINT").sql(database.dialect) + (" PRIMARY KEY" if database.uses_indexes else "")
        columns = [("ts", "BIGINT"), ("seq", key), *((a.name, database.column_type(a)) for a in stream.schema)]
        quoted = ", ".join(f"{database.quoted(name)} {kind}" for name, kind in columns)
        return laid_out(f"CREATE TABLE {database.render(table(stream.inbox))} ({quoted})", database.dialect) + ";"

    # One push ---------------------------------------------------------------------------------------------------------

    def _operator(self, number: int, operator: Operator) -> Iterator[str]:
        notes = f" ({'; '.join(operator.notes)})" if operator.notes else ""
        streams = f"at a push into {', '.join(sorted(operator.sources))}"
        when = "at each push and when time passes" if operator.timed else streams
        yield f"-- {number}. {operator.title}{notes}, {when}"
        yield from (self._sql(exp.delete(table(inbox))) for inbox in operator.inboxes)
        for step in operator.steps:
            if isinstance(step, Insert):
                yield from self._insert(step)
            elif isinstance(step, Purge):
                yield self._sql(step.statement())
            else:
                yield step.explained(lambda text: laid_out(text, self.database.dialect))

    def _insert(self, step: Insert) -> Iterator[str]:
        """An INSERT for a push of few events; its other variants as comments: their purposes, or their full texts."""
        yield self._sql(step.statement("few"))
        own = step.variants.kind("few")
        others = [(name, writer) for name, writer in step.variants.items() if name != own]
        yield from self._variant_lines((name, writer.method) for name, writer in others if not self.variants)
        for name, writer in others if self.variants else ():
            yield f"-- for {self._pushes[name]}{_by(writer)}"
            yield from _commented(self._sql(step.statement(name)))

    def _results(self) -> Iterator[str]:
        """The SELECT that reads the results of a push of few events, and its other variants."""
        results = self.entry.results
        own = results.kind("few")
        others = [(name, result) for name, result in results.items() if name != own]
        of = f" of {self._pushes[own]}" if others and own != "any" else ""
        yield f"-- results of a push{of}{_by(results.of(own).write)}"
        yield from (*self._merged(own), self._sql(results.of(own).statement))
        yield from self._variant_lines((name, result.write.method) for name, result in others if not self.variants)
        for name, result in others:
            if self.variants:
                yield from ("", f"-- results of a push of {self._pushes[name]}{_by(result.write)}")
            yield from self._merged(name)
            if self.variants:
                yield self._sql(result.statement)
        bound = self._bound_streams()
        if bound:
            rest = ", and what joins another stream's is left out" if len(self.entry.sources) > 1 else ""
            names = " or ".join(each.name for each in bound)
            yield f"-- an event of {names} that is pushed alone is bound in place of its inbox{rest}"
        yield from self._rules(bound)

    def _variant_lines(self, variants: Iterable[tuple[str, str]]) -> list[str]:
        """The other variants of a statement, each with its method."""
        lines = [f"--   {self._pushes[name]}: {method or 'another statement'}" for name, method in variants]
        return ["-- other variants:", *lines] if lines else []

    def _merged(self, variant: str) -> Iterator[str]:
        """The queries that differ so little that one statement reads the results of all of them."""
        if variant == "any" and self.entry.results.shared is not None:
            return
        own = self.entry.results.of(variant)
        others = [each for each in self.catalogue.queries.values() if each.results.kind(variant) == variant]
        alike = [each.name for each in others if each.results.of(variant).signature == own.signature]
        if len(alike) > 1:
            yield f"-- by one statement for {', '.join(alike)}: their constants are rows of a table that it is joined with"
        if self.database.side_by_side_frames:
            like = [each for each in others if each.results.of(variant).shape == own.shape]
            if len(like) > len(alike) and is_one([each.results.of(variant).statement for each in like]):
                names = ", ".join(each.name for each in like)
                yield f"-- by one statement for {names}, which have columns of their own in it"

    def _bound_streams(self) -> list[StreamEntry]:
        """The streams whose events need no inbox for this query."""
        entry, result = self.entry, self.entry.results.of(self.entry.variant("few", shared=False))
        report = ResultStatement([entry], result.statement, result.text)
        streams = [self.catalogue.streams[name] for name in sorted(entry.sources)]
        return [each for each in streams if one_event_plan(each, entry.operators, [report], (), self.database)]

    def _rules(self, bound: Iterable[StreamEntry]) -> Iterator[str]:
        """The optimisation rules that changed the printed statement, and those for an event pushed alone."""
        write = self.entry.results.of("few").write
        names = dict.fromkeys(fired(write()))
        inboxes = {each.inbox for each in self.catalogue.streams.values()}
        for stream in bound:
            known = facts_of(stream, inboxes - {stream.inbox}, self.database)
            names |= dict.fromkeys(fired(write(), known) if known is not None else ())
        if names:
            yield f"-- optimisation rules: {', '.join(names)}"

    # Housekeeping -----------------------------------------------------------------------------------------------------

    def _housekeeping(self) -> Iterator[str]:
        operators = self.entry.operators
        late = {made.name for operator in operators for made in operator.tables if made.is_late}
        for step in (step for operator in operators for step in operator.pane_inserts):
            if self.variants:
                yield from ("", f"-- panes, every {step.every} events", self._sql(step.statement()))
        if late and not self.variants:
            yield from (
                "",
                f"-- {', '.join(sorted(late))}: panes, once the window holds more than {self.settings.long_rows} rows",
            )
        purges = [step for each in operators for step in each.purges if self.variants or step.table not in late]
        if purges:
            yield from ("", f"-- purge, every {self.database.purge_every} events")
            yield from (self._sql(step.statement()) for step in purges)


def _by(writer: StatementWriter[Any]) -> str:
    return f": {writer.method}" if writer.method else ""


def _commented(text: str) -> list[str]:
    return [f"--   {line}" for line in text.splitlines()]


# Pictures of a query's patterns


def graph_of(source: QueryEntry | str, dialect: str = "") -> Graph:
    """The picture of a continuous query's patterns, or of those in a SELECT. Raises QueryError if there are none.

    MATCHING is drawn as its deterministic automaton, MATCH_RECOGNIZE with its paths in the order of preference.

    >>> print(graph_of("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A B?))"))
    A B?
    0: A -> 1
    1: B -> 2, accepting
    2: accepting
    """
    try:
        found = tuple(_of_select(source, dialect) if isinstance(source, str) else _of_query(source))
    except BudgetError as error:
        raise QueryError(str(error)) from None
    if not found:
        raise QueryError("there is no pattern in it to draw", source if isinstance(source, str) else None)
    return Graph(found)


def _of_query(entry: QueryEntry) -> Iterator[Diagram]:
    for node in query.walk(entry.resolved.node):
        if isinstance(node, query.Match):
            yield diagram(automaton_of(node), f"{entry.name}: {node.pattern}")
        if isinstance(node, (query.MatchRecognize, query.EagerMatch)):
            whole = with_absence(node.pattern).pattern
            yield diagram(compile_program(whole), f"{entry.name}: {whole}")


def _of_select(sql: str, dialect: str) -> Iterator[Diagram]:
    from bridge.frontends.sql.pattern_tables import pattern_tables

    for matched in pattern_tables(sql, dialect)[1]:
        yield diagram(compile_program(matched.clause.pattern), str(matched.clause.pattern))
