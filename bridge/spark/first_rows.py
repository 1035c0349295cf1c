"""Matches that time alone brings are in the order of their first rows: queries that say where these stood."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge import query
from bridge.history.pieces import is_stateless
from bridge.query.nodes import Node
from bridge.query.row_pattern import PerMatch
from bridge.spark.columns import FIRST, MOMENT
from windows.sql import column


def with_first_row(node: Node) -> Node | None:
    """The query with FIRST and, where it gives rows, MOMENT as its last columns: a row of no match is its own first one.

    None where it is no MATCH_RECOGNIZE under filters and maps.
    """
    if isinstance(node, query.Filter):
        below = with_first_row(node.input)
        return None if below is None else dataclasses.replace(node, input=below)
    if isinstance(node, query.Map):
        below = with_first_row(node.input)
        if below is None:
            return None
        hidden = FIRST if _is_a_row_a_match(below) else (*FIRST, *MOMENT)
        return dataclasses.replace(node, input=below, columns=(*node.columns, *map(_as, hidden)))
    if not isinstance(node, query.MatchRecognize) or not is_stateless(node.input):
        return None
    first = [
        exp.Alias(this=exp.First(this=column(of)), alias=exp.to_identifier(name, quoted=True))
        for of, name in zip(MOMENT, FIRST, strict=True)
    ]
    pattern = dataclasses.replace(node.pattern, measures=(*node.pattern.measures, *first))
    return dataclasses.replace(node, input=_placed(node.input), pattern=pattern)


def _is_a_row_a_match(node: Node) -> bool:
    while isinstance(node, (query.Filter, query.Map)):
        node = node.input
    return isinstance(node, query.MatchRecognize) and node.pattern.per_match is PerMatch.ONE_ROW


def _placed(node: Node) -> Node:
    """Filters, maps and unions of streams that give MOMENT, too."""
    if isinstance(node, query.Stream):
        return dataclasses.replace(node, schema=None)
    changed = node.with_inputs(_placed)
    if isinstance(changed, query.Map):
        return dataclasses.replace(changed, columns=(*changed.columns, *map(_as, MOMENT)))
    return changed


def _as(name: str) -> exp.Alias:
    return exp.Alias(this=column(name), alias=exp.to_identifier(name, quoted=True))
