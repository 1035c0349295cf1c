"""Sorted windows (W9): the first n rows in an order, optionally only the newest row per value of some keys."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from bridge import query
from bridge.query.nodes import Node
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network
from bridge.rewrite.windows.evictions import Row, with_eviction_step
from bridge.rewrite.windows.window import rewrite_window
from windows.extents import Top
from windows.sql import column


@rewrite_window.register
def _(extent: Top, node: query.Window, network: Network, need: Need) -> Flow:
    values = [*extent.last_of, *(term.this for term in extent.order)]
    descending = tuple(bool(term.args["desc"]) for term in extent.order)
    evict = BeyondFirst(extent.count, len(extent.last_of), descending)
    return with_eviction_step(node, network, need, values, evict, f"beyond the first {extent.count}")


def order_of(node: Node) -> list[exp.Ordered]:
    """The order of a sorted window, possibly below filters; equal rows have the newest first. Empty for other nodes."""
    window = query.without_filters(node)
    if not isinstance(window, query.Window) or not isinstance(window.extent, Top):
        return []
    terms = [(term.this, bool(term.args["desc"])) for term in window.extent.order]
    terms += [(column(name), True) for name in ("ts", "seq")]
    return [exp.Ordered(this=value.copy(), desc=desc, nulls_first=not desc) for value, desc in terms]


@dataclasses.dataclass(frozen=True)
class BeyondFirst:
    """Evicts, per key, the rows beyond the first `count`, and a row when a newer one has equal `last_of` values.

    The values of a row are its `last_of` values, then those of the order's terms, which may be `descending`.
    """

    count: int
    last_of: int
    descending: tuple[bool, ...]

    def __call__(self, rows: Iterable[tuple[Row, Row, Row]]) -> list[tuple[Row, Row]]:
        evicted: list[tuple[Row, Row]] = []
        ranked_by_key: dict[Row, list[tuple[Any, int, Row, Row]]] = {}
        for place, (row, key, values) in enumerate(rows):
            ranked, unique = ranked_by_key.setdefault(key, []), values[: self.last_of]
            if unique:
                evicted += [(other, row) for *_, its, other in ranked if its == unique]
                ranked[:] = [entry for entry in ranked if entry[2] != unique]
            rank = tuple(map(_rank, values[self.last_of :], self.descending))
            bisect.insort(ranked, (rank, -place, unique, row), key=lambda entry: entry[:2])
            if len(ranked) > self.count:
                evicted.append((ranked.pop()[3], row))
        return evicted


def _rank(value: Any, descending: bool) -> Any:
    """A value that sorts as in a term of an order: NULL is least."""
    rank = (value is not None, value if value is not None else 0)
    return _Reversed(rank) if descending else rank


class _Reversed:
    """A value with the reverse order."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)
