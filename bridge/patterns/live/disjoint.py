"""Matches of a known length that do not overlap: EPL's AFTER MATCH SKIP PAST LAST ROW where nothing else is to be kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable

import numpy as np
import pyarrow as pa

from windows.databases import Database

Key = tuple[Hashable, ...]


@dataclasses.dataclass
class DisjointMatches:
    """Of the matches that a push completes those that begin after the one that their partition told of last.

    `found` gives of each of them, in their order, partition, number of its first row, number of its last; `known` of
    matches told before, in their order, partition and number of the last row. `told` is where the chosen ones' go.
    """

    table: str
    told: str
    found: str
    known: str

    def __post_init__(self) -> None:
        self._last: dict[Key, int] | None = None

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        found = database.fetch(self.found)
        if not found:
            return
        if self._last is None:
            self._last = {tuple(key): end for *key, end in database.fetch(self.known)}
        told = []
        for *parts, first, end in found:
            key = tuple(parts)
            if first > self._last.get(key, -1):
                self._last[key] = end
                told.append(end)
        database.append(self.told, pa.table({"seq": pa.array(np.array(told, np.int64))}))

    def forget(self) -> None:
        self._last = None

    def explained(self, pretty: Callable[[str], str]) -> str:
        said = f"-- of these in turn, each that begins after the last one told of its partition, into {self.told}"
        return f"{said}\n{pretty(self.found)};"
