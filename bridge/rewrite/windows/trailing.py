"""Trailing windows (W10): the rows that are less than a distance behind the newest, at most n of them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

from bridge import query
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network
from bridge.rewrite.windows.evictions import Row, with_eviction_step
from bridge.rewrite.windows.window import rewrite_window
from windows.extents import Trailing
from windows.sql import column


@rewrite_window.register
def _(extent: Trailing, node: query.Window, network: Network, need: Need) -> Flow:
    values = [column("ts") if extent.of is None else extent.of]
    return with_eviction_step(
        node, network, need, values, TooFarBehind(extent.size, extent.count), f"{extent.size} or more behind"
    )


@dataclasses.dataclass(frozen=True)
class TooFarBehind:
    """Evicts, per key, the oldest row while it is `size` or more behind the newest, or there are more than `count`."""

    size: int
    count: int | None

    def __call__(self, rows: Iterable[tuple[Row, Row, Row]]) -> list[tuple[Row, Row]]:
        evicted: list[tuple[Row, Row]] = []
        inside_by_key: dict[Row, collections.deque[tuple[Row, Row]]] = {}
        for row, key, values in rows:
            inside = inside_by_key.setdefault(key, collections.deque())
            inside.append((values, row))
            while inside and self.leaves(inside[0][0], values, len(inside)):
                evicted.append((inside.popleft()[1], row))
        return evicted

    def leaves(self, oldest: Row, newest: Row, count: int) -> bool:
        """Whether the oldest of `count` rows leaves; NULL is infinitely far behind."""
        (first,), (last,) = oldest, newest
        if first is None or last is None or (self.count is not None and count > self.count):
            return True
        return bool(last - first >= self.size)
