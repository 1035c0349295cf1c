"""What the machine of a stream and the strategies for many rows share: where they read, and where they write."""

from __future__ import annotations

import dataclasses

Moment = tuple[int, int, int]
"""ts, seq and place of a row."""

BEGINNING: Moment = (-(2**62), 0, 0)


@dataclasses.dataclass(frozen=True)
class Texts:
    """The statements of one clause, in the database's SQL."""

    arrived: str
    """The rows of this push: key, ts, seq, place, letter, then `expressions`, by key and time."""
    kept: str
    """The same of all rows kept, in any order."""
    places: str
    """Where the partitions stand: key, then ts, seq, place of the last row that is not needed, index of the next one,
    index of the start, matches so far, and a number that grows from line to line."""
    place_table: str
    result_table: str
