"""EPL's AFTER MATCH SKIP PAST LAST ROW over matches of fixed length, whose only state is the last match."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import ClassVar

import numpy as np
import pyarrow as pa

from windows.databases import Database

Key = tuple[Hashable, ...]


@dataclasses.dataclass
class DisjointMatches:
    """Selects, from the matches that a push completes, those that start after the last reported one of their partition.

    `completed` selects partition, number of the first row and number of the last row of these matches; `earlier`
    selects partition and number of the last row of matches reported before; both are ordered. The selected matches are
    appended to `reported`.
    """

    table: str
    reported: str
    completed: str
    earlier: str
    is_unfailing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._last: dict[Key, int] | None = None

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        completed = database.fetch(self.completed)
        if not completed:
            return
        if self._last is None:
            self._last = {tuple(key): end for *key, end in database.fetch(self.earlier)}
        reported = []
        for *values, first, end in completed:
            key = tuple(values)
            if first > self._last.get(key, -1):
                self._last[key] = end
                reported.append(end)
        database.append(self.reported, pa.table({"seq": pa.array(np.array(reported, np.int64))}))

    def forget(self) -> None:
        self._last = None

    def explained(self, pretty: Callable[[str], str]) -> str:
        said = (
            f"-- of these in turn, each that begins after the last one reported of its partition, into {self.reported}"
        )
        return f"{said}\n{pretty(self.completed)};"
