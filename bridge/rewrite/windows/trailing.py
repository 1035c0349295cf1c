"""Trailing windows (W10): the rows that are less than a distance behind the newest, at most n of them."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, ClassVar

from bridge import query
from bridge.rewrite.computable import Evict, Row
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network
from bridge.rewrite.windows.evictions import with_eviction_step
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
class TooFarBehind(Evict):
    """Evicts, per key, the oldest row while it is `size` or more behind the newest, or there are more than `count`."""

    size: int
    count: int | None
    evicts_oldest: ClassVar[bool] = True

    def window(self) -> _TrailingWindow:
        return _TrailingWindow(self)

    def leaves(self, oldest: Any, newest: Any, count: int) -> bool:
        """Whether the oldest of `count` rows leaves; NULL is infinitely far behind."""
        if oldest is None or newest is None or (self.count is not None and count > self.count):
            return True
        return bool(newest - oldest >= self.size)


class _TrailingWindow:
    def __init__(self, extent: TooFarBehind) -> None:
        self._leaves = extent.leaves
        self._inside = collections.deque[tuple[Any, Any]]()

    def add(self, row: Any, values: Row) -> list[Any]:
        (newest,), inside, evicted = values, self._inside, list[Any]()
        inside.append((newest, row))
        while inside and self._leaves(inside[0][0], newest, len(inside)):
            evicted.append(inside.popleft()[1])
        return evicted
