"""The test queries of the paper's Listing 1, and their events.

The paper does not specify the values of its events. Here they are chosen so that every query reports results: a filter
for about one event in a hundred, a correlation for one in twenty, a pattern for one in twenty times Count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMAS = {"stream": "a INTEGER, b INTEGER", "stream1": "a INTEGER", "stream2": "b INTEGER"}
LONGEST = 500 + 100 // 2
"""The longest window of the paper's experiment, in milliseconds."""

BLOCK = 20
"""The number of events of `stream` in a block. The first three of a block rise by one step, from 1 to Count."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """Input streams, and the texts of the queries q(i, Count) for i from 1 to Count."""

    key: str
    name: str
    streams: tuple[str, ...]
    texts: tuple[Callable[[int, int], str], ...]
    language: str = "sql"

    def queries(self, count: int) -> dict[str, str]:
        """The texts of the queries by name."""
        return {f"{text.__name__}_{i}": text(i, count) for text in self.texts for i in range(1, count + 1)}


def window(i: int, count: int) -> int:
    return 500 + count // 2 - i


def sigma(i: int, count: int) -> str:
    return f"SELECT * FROM stream WHERE a - b = {i}"


def join(i: int, count: int) -> str:
    size = f"WINDOW(RANGE {window(i, count)} MS)"
    return f"SELECT * FROM stream1 {size}, stream2 {size} WHERE a - b = {i + 1}"


def alpha(i: int, count: int) -> str:
    return f"SELECT COUNT(*) FROM stream WINDOW(RANGE {window(i, count)} MS)"


def rho(i: int, count: int) -> str:
    return f"""SELECT z1, z2, z3 FROM stream
               MATCHING (PATTERN xyu WITHIN {window(i, count)} MS
                         MEASURES z1:Integer, z2:Integer, z3:Integer
                         DEFINE x AS true DO z1 = a, y AS a - z1 = {i} DO z2 = a, u AS a - z2 = {i} DO z3 = a)"""


WORKLOADS = (
    Workload("sigma", "σ filter", ("stream",), (sigma,)),
    Workload("join", "⋈ correlation", ("stream1", "stream2"), (join,)),
    Workload("alpha", "α aggregation", ("stream",), (alpha,)),
    Workload("rho", "ρ pattern", ("stream",), (rho,)),
)
MIXED = Workload("mixed", "mixed", ("stream", "stream1", "stream2"), (sigma, join, alpha, rho))
MIXED_COUNT = 20
"""The number of queries of each kind in the paper's mixed workload."""


# Events ---------------------------------------------------------------------------------------------------------------


def columns(stream: str, start: int, stop: int, count: int) -> Mapping[str, np.ndarray]:
    """One event per millisecond, from `start` to before `stop`. Its values depend only on its timestamp."""
    ts = np.arange(start, stop, dtype="int64")
    if stream == "stream1":
        return {"ts": ts, "a": _random(ts, 1) % 10_000}
    if stream == "stream2":
        return {"ts": ts, "b": _random(ts, 2) % 10_000}
    block, place = ts // BLOCK, ts % BLOCK
    rising = _random(block, 3) % 100 + place * (1 + _random(block, 4) % count)
    return {"ts": ts, "a": np.where(place < 3, rising, _random(ts, 5) % 100), "b": _random(ts, 6) % 100}


def table(stream: str, start: int, stop: int, count: int) -> pa.Table:
    """The events of one stream as an Arrow table."""
    import pyarrow as pa

    return pa.table({name: pa.array(values) for name, values in columns(stream, start, stop, count).items()})


def triples(streams: tuple[str, ...], start: int, stop: int, count: int) -> list[tuple[str, dict[str, Any], int]]:
    """The events of all streams, in order of time, as `push_all` takes them."""
    each = (_triples(name, start, stop, count) for name in streams)
    return [event for events in zip(*each, strict=True) for event in events]


def _triples(stream: str, start: int, stop: int, count: int) -> Iterator[tuple[str, dict[str, Any], int]]:
    arrays = columns(stream, start, stop, count)
    _, *names = arrays
    times, *values = (column.tolist() for column in arrays.values())
    for ts, *row in zip(times, *values, strict=True):
        yield stream, dict(zip(names, row, strict=True)), ts


def _random(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Pseudo-random numbers that depend only on the input (splitmix64)."""
    mixed = numbers.astype("uint64") * np.uint64(10) + np.uint64(salt)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype("int64")
