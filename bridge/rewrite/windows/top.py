"""Sorted windows (W9): the first n rows in an order, optionally only the newest row per value of some keys."""

from __future__ import annotations

import bisect
import dataclasses
import operator
from typing import Any

from sqlglot import exp

from bridge import query
from bridge.query.nodes import Node
from bridge.rewrite.computable import Evict, Row
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network
from bridge.rewrite.windows.evictions import with_eviction_step
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
class BeyondFirst(Evict):
    """Evicts, per key, the rows beyond the first `count`, and a row when a newer one has equal `last_of` values.

    The values of a row are its `last_of` values, then those of the order's terms, which may be `descending`.
    """

    count: int
    last_of: int
    descending: tuple[bool, ...]

    def window(self) -> _RankedWindow:
        return _RankedWindow(self)


class _RankedWindow:
    def __init__(self, extent: BeyondFirst) -> None:
        self._extent = extent
        self._place = 0
        self._ranked: list[tuple[Any, int, Row, Any]] = []
        """Rank, place in reverse order of arrival, `last_of` values, and identity of each row, in order."""

    def add(self, row: Any, values: Row) -> list[Any]:
        extent, evicted, unique = self._extent, list[Any](), values[: self._extent.last_of]
        if unique:
            evicted += [other for *_, its, other in self._ranked if its == unique]
            self._ranked = [entry for entry in self._ranked if entry[2] != unique]
        rank = tuple(map(_rank, values[extent.last_of :], extent.descending))
        self._place -= 1
        bisect.insort(self._ranked, (rank, self._place, unique, row), key=operator.itemgetter(0, 1))
        if len(self._ranked) > extent.count:
            evicted.append(self._ranked.pop()[3])
        return evicted


def _rank(value: Any, descending: bool) -> Any:
    """A value that sorts as in a term of an order: NULL is least."""
    rank = (value is not None, value if value is not None else 0)
    return _ReverseOrder(rank) if descending else rank


class _ReverseOrder:
    """A value with the reverse order."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _ReverseOrder) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ReverseOrder) and bool(self.value == other.value)
