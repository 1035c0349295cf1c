"""Queries that also give the first row of each match, by which matches reported without an event are ordered."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge import query
from bridge.history.pieces import is_stateless
from bridge.query.nodes import Node
from bridge.query.row_pattern import PerMatch
from bridge.spark.columns import EVENT_ID, FIRST_ID
from windows.sql import column, identifier


def with_first_row(node: Node) -> Node | None:
    """The query with FIRST_ID as its last columns.

    If it gives all rows, EVENT_ID, too: an unmatched row is its own first.

    None if it is not MATCH_RECOGNIZE below filters and maps.
    """
    if isinstance(node, query.Filter):
        below = with_first_row(node.input)
        return None if below is None else dataclasses.replace(node, input=below)
    if isinstance(node, query.Map):
        below = with_first_row(node.input)
        if below is None:
            return None
        hidden = FIRST_ID if _gives_one_row_per_match(below) else (*FIRST_ID, *EVENT_ID)
        return dataclasses.replace(node, input=below, columns=(*node.columns, *map(_as, hidden)))
    if not isinstance(node, query.MatchRecognize) or not is_stateless(node.input):
        return None
    first = [
        exp.Alias(this=exp.First(this=column(of)), alias=identifier(name))
        for of, name in zip(EVENT_ID, FIRST_ID, strict=True)
    ]
    pattern = dataclasses.replace(node.pattern, measures=(*node.pattern.measures, *first))
    return dataclasses.replace(node, input=_with_event_id(node.input), pattern=pattern)


def _gives_one_row_per_match(node: Node) -> bool:
    while isinstance(node, (query.Filter, query.Map)):
        node = node.input
    return isinstance(node, query.MatchRecognize) and node.pattern.per_match is PerMatch.ONE_ROW


def _with_event_id(node: Node) -> Node:
    """Filters, maps and unions over streams, with EVENT_ID as the last columns."""
    if isinstance(node, query.Stream):
        return dataclasses.replace(node, schema=None)
    changed = node.with_inputs(_with_event_id)
    if isinstance(changed, query.Map):
        return dataclasses.replace(changed, columns=(*changed.columns, *map(_as, EVENT_ID)))
    return changed


def _as(name: str) -> exp.Alias:
    return exp.Alias(this=column(name), alias=identifier(name))
