"""What a query becomes: its tree, its operators with the SQL that runs at each push, and a pattern's automaton.

The text is a script: with the inboxes filled by hand it runs as it stands in the database's own shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlglot
from sqlglot import exp

from bridge import query
from bridge.check.paths import shown
from bridge.engine.catalogue import Catalogue, QueryEntry, ScriptEntry
from bridge.engine.one_event import single
from bridge.engine.results import BRIEF, FEW, Report
from bridge.errors import QueryError
from bridge.query.epl_columns import Enumeration
from bridge.query.epl_output import OutputEvery, Snapshot
from bridge.query.epl_state import ChangedWindow, ChangeTable, SetVariables
from bridge.query.nodes import Node
from bridge.query.row_pattern import with_absence
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.query.text import clause
from bridge.rewrite.aggregates.panes import LONG
from bridge.rewrite.matching.match import automaton_of
from bridge.rewrite.network import CLOCK
from bridge.rewrite.optimize.side_by_side import is_one
from bridge.rewrite.plan import Call, Insert, Operator, Purge, Step
from nfa.errors import BudgetError
from nfa.graph import Diagram, Graph, diagram
from nfa.program import compile_program
from windows.databases import Database
from windows.sql import table


def explanation(entry: QueryEntry, catalogue: Catalogue, database: Database) -> str:
    """The explanation of one continuous query, in this database's SQL."""
    lines = [f"-- query {entry.name}, on {database.dialect}", "--", *_commented(tree(entry.resolved.node))]
    for node in query.walk(entry.resolved.node):
        if isinstance(node, query.Match):
            lines += ["--", f"-- automaton of {node.pattern}", *_commented(str(automaton_of(node)))]
    lines += ["", "-- state", *_state(entry, catalogue, database)]
    for number, operator in enumerate(entry.operators, 1):
        lines += ["", *_operator(number, operator, database)]
    heads = {
        "any": "-- results of this push",
        "shared": "-- the same, where queries that differ in constants alone share it",
        "brief": f"-- the same, of a push of many events that lasts at most 1/{BRIEF} of the window",
        "long": f"-- the same, of few events where the window is long: more than {LONG} rows",
        "few": f"-- the same, of a push of at most {FEW} events",
    }
    for variant, result in entry.results.items():
        text = database.render(result.statement, pretty=True)
        by = f": {result.write.method}" if result.write.method else ""
        lines += ["", f"{heads[variant]}{by}", *_family(entry, variant, catalogue), f"{text};"]
    lines += _bound(entry, catalogue, database)
    for step in (step for operator in entry.operators for step in operator.folds):
        lines += ["", f"-- panes, every {step.every} events", *_statements([step], database)]
    purges = [step for operator in entry.operators for step in operator.purges]
    if purges:
        lines += ["", "-- purge, now and then", *_statements(purges, database)]
    return "\n".join(lines)


def explanation_of_script(entry: ScriptEntry, catalogue: Catalogue, database: Database) -> str:
    """The graph of a script in the notation of PaaS-CEP's algebra, then each output's explanation."""
    from bridge.query.notation import notation

    head = [f"-- script {entry.name}", "--", *_commented("\n".join(notation(entry.script)))]
    parts = [explanation(catalogue.query_entry(output), catalogue, database) for output in entry.outputs]
    return "\n\n".join(["\n".join(head), *parts])


def tree(node: Node, depth: int = 0, label: str = "") -> str:
    """The tree, one node a line, inputs indented below their reader.

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
            keys = f" PARTITION BY {_list(node.partition_by)}" if node.partition_by else ""
            return f"Window {node.extent}{keys}"
        case query.Filter():
            return f"Filter {shown(node.condition)}"
        case query.Map():
            return f"Map {_list(node.columns)}"
        case query.Aggregate():
            keys = f" GROUP BY {_list(node.group_by)}" if node.group_by else ""
            having = f" HAVING {shown(node.having)}" if node.having is not None else ""
            return f"Aggregate {_list(node.columns)}{keys}{having}{_emitted(node)}"
        case query.Correlate():
            return "Correlate" + (f" {shown(node.condition)}" if node.condition is not None else "")
        case query.Match():
            keys = f" PARTITION BY {_list(node.partition_by)}" if node.partition_by else ""
            return f"Match {node.pattern} WITHIN {node.within} MS{keys} MEASURES {node.measures}"
        case query.MatchRecognize():
            return str(node.pattern)
        case ReadSQL(_, statement, parameters) | UpdateSQL(_, statement, parameters):
            asked = f" ({_list(parameters)})" if parameters else ""
            return f"{type(node).__name__}{asked} {' '.join(statement.split())}"
        case IntoTable(_, name):
            return f"IntoTable {name}"
        case ChangeTable(_, state, change):
            return f"Change {state.name} by {change.verb}"
        case SetVariables():
            return "Set " + ", ".join(f"{name} = {shown(value)}" for name, value in node.settings)
        case ChangedWindow(_, changes):
            return f"ChangedWindow by {', '.join(change.verb for _, change in changes)}"
        case query.TemporalMatch():
            return f"TemporalMatch {str(node).removeprefix('SELECT * FROM PATTERN ')}"
        case query.EagerMatch():
            return f"{node.pattern} {node.reporting}"
        case Enumeration():
            return f"Enumeration {node.name} of {shown(node.values)}"
        case query.SubqueryColumn():
            asked = "" if node.condition is None else f" {shown(node.condition)}"
            return f"SubqueryColumn {node.name}{asked}"
        case Snapshot() | OutputEvery() | query.OrderLimitDistinct() | query.Throttle() | query.PreviousRow():
            return f"{type(node).__name__} {clause(node)}"
        case _:
            return type(node).__name__


def _emitted(node: query.Aggregate) -> str:
    return " EMIT ON EVERY CHANGE" if node.every_change else " EMIT ON CHANGE" if node.on_change else ""


def _list(expressions: tuple[exp.Expr, ...]) -> str:
    return ", ".join(shown(expression) for expression in expressions)


def _state(entry: QueryEntry, catalogue: Catalogue, database: Database) -> Iterator[str]:
    """The statements that make the tables: the clock, the inboxes of the streams, the operators' tables."""
    clock = exp.select(*(exp.alias_(exp.cast("0", "BIGINT"), name, quoted=True) for name in ("before", "now", "seq")))
    yield database.render(exp.Create(kind="TABLE", this=table(CLOCK), expression=clock), pretty=True) + ";"
    for name in sorted(entry.sources):
        stream = catalogue.streams[name]
        key = exp.DataType.build("BIGINT").sql(database.dialect) + (" PRIMARY KEY" if database.uses_indexes else "")
        columns = [("ts", "BIGINT"), ("seq", key), *((a.name, database.column_type(a)) for a in stream.schema)]
        quoted = (f"{database.quoted(name)} {kind}" for name, kind in columns)
        yield f"CREATE TABLE {database.render(table(stream.inbox))} ({', '.join(quoted)});"
    for operator in entry.operators:
        for made in operator.tables:
            if made.is_late:
                yield "-- when the window has become long:"
            yield database.render(made.create(), pretty=True) + ";"
            if database.uses_indexes:
                yield from (database.render(index) + ";" for index in made.index())


def _operator(number: int, operator: Operator, database: Database) -> Iterator[str]:
    notes = f" ({'; '.join(operator.notes)})" if operator.notes else ""
    when = (
        "at each push and when time passes"
        if operator.timed
        else f"at a push into {', '.join(sorted(operator.sources))}"
    )
    yield f"-- {number}. {operator.title}{notes}, {when}"
    yield from (f"{database.render(exp.delete(table(inbox)))};" for inbox in operator.inboxes)
    yield from _statements(operator.steps, database)
    inserts = [step for step in operator.steps if isinstance(step, Insert)]
    whens = {"few": f"of a push of at most {FEW} events", "one": "of an event that is pushed alone"}
    for variant, when in whens.items():
        if own := [step for step in inserts if step.variants.kind(variant) == variant]:
            yield f"--\n-- in place of these into the same tables, {when}"
        for step in own:
            yield from _commented(f"{database.render(step.statement(variant), pretty=True)};")


def _statements(steps: Sequence[Step | Call], database: Database) -> Iterator[str]:
    for step in steps:
        if isinstance(step, (Insert, Purge)):
            yield f"{database.render(step.statement(), pretty=True)};"
        else:
            yield step.explained(lambda text: _prettily(text, database))


def _prettily(text: str, database: Database) -> str:
    return sqlglot.parse_one(text, dialect=database.dialect).sql(database.dialect, identify=True, pretty=True)


def _family(entry: QueryEntry, variant: str, catalogue: Catalogue) -> Iterator[str]:
    """Which queries differ in constants alone, so that one statement reports for all that have a processor."""
    if variant == "any" and entry.results.shared is not None:
        return
    own = entry.results.of(variant)
    others = [other for other in catalogue.queries.values() if other.results.kind(variant) == variant]
    alike = [other.name for other in others if other.results.of(variant).signature == own.signature]
    if len(alike) > 1:
        yield f"-- by one statement for {', '.join(alike)}: their constants are rows of a table that it is joined with"
    if catalogue.database.side_by_side_frames:
        like = [other for other in others if other.results.of(variant).shape == own.shape]
        if len(like) > len(alike) and is_one([other.results.of(variant).statement for other in like]):
            yield f"-- by one statement for {', '.join(other.name for other in like)}, which have columns of their own in it"


def _bound(entry: QueryEntry, catalogue: Catalogue, database: Database) -> Iterator[str]:
    """Events of which streams need no inbox, as far as this query goes."""
    result = entry.results.of(entry.variant("few", shared=False))
    report = Report([entry], result.statement, result.text)
    streams = [catalogue.streams[name] for name in sorted(entry.sources)]
    bound = [stream.name for stream in streams if single(stream, entry.operators, [report], entry.timed, (), database)]
    if bound:
        others = ", and what joins another stream's is left out" if len(streams) > 1 else ""
        yield f"-- an event of {' or '.join(bound)} that is pushed alone is bound in place of its inbox{others}"


def _commented(text: str) -> list[str]:
    return [f"--   {line}" for line in text.splitlines()]


# The patterns of a query as a picture


def graph_of(source: QueryEntry | str) -> Graph:
    """The picture of a continuous query's patterns, or of those in a SELECT; QueryError where there is none.

    MATCHING is drawn as its deterministic automaton, MATCH_RECOGNIZE with its ways in the order of preference.

    >>> print(graph_of("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A B?))"))
    A B?
    0: A -> 1
    1: B -> 2, accepting
    2: accepting
    """
    try:
        found = tuple(_of_select(source) if isinstance(source, str) else _of_query(source))
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


def _of_select(sql: str) -> Iterator[Diagram]:
    from bridge.frontends.sql.clauses_in_text import parts

    for part in parts(sql)[1]:
        yield diagram(compile_program(part.clause.pattern), str(part.clause.pattern))
