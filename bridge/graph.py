"""The patterns of a query as a picture."""

from __future__ import annotations

from collections.abc import Iterator

from bridge import query
from bridge.catalogue import QueryEntry
from bridge.errors import QueryError
from bridge.recognize.clause import with_absence
from bridge.rewrite.match import automaton_of
from nfa.errors import BudgetError
from nfa.graph import Diagram, Graph, diagram
from nfa.program import compile_program


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
    from bridge.recognize.demand import parts

    for part in parts(sql)[1]:
        yield diagram(compile_program(part.clause.pattern), str(part.clause.pattern))
