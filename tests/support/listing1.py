"""Listing 1 of the paper by brute force, without the bridge: plain lists, one loop a query.

An input stream has exactly one event a millisecond: `rows[t]` is the payload at time t. A result is (ts, values).
"""

from __future__ import annotations

from random import Random

Result = tuple[int, tuple[int, ...]]


def window_size(i: int, count: int) -> int:
    """`WINDOW(RANGE (500 + (Count/2) - i) MS)`, with the integer division of the paper's Java."""
    return 500 + count // 2 - i


def sigma(rows: list[dict], i: int) -> list[Result]:
    """SELECT * FROM stream[a, b] WHERE a - b = i."""
    return [(t, (row["a"], row["b"])) for t, row in enumerate(rows) if row["a"] - row["b"] == i]


def join(rows1: list[dict], rows2: list[dict], i: int, count: int) -> list[Result]:
    """SELECT * FROM stream1[a] WINDOW, stream2[b] WINDOW WHERE a - b = i + 1; at each t stream1's event comes first."""
    size = window_size(i, count)
    results = []
    for t in range(len(rows1)):
        oldest = max(0, t - size + 1)
        a = rows1[t]["a"]
        results += [(t, (a, row["b"])) for row in rows2[oldest:t] if a - row["b"] == i + 1]
        b = rows2[t]["b"]
        results += [(t, (row["a"], b)) for row in rows1[oldest : t + 1] if row["a"] - b == i + 1]
    return results


def alpha(rows: list[dict], i: int, count: int) -> list[Result]:
    """SELECT COUNT(*) FROM stream[a] WINDOW."""
    size = window_size(i, count)
    return [(t, (len(rows[max(0, t - size + 1) : t + 1]),)) for t in range(len(rows))]


def rho(rows: list[dict], i: int, count: int) -> list[Result]:
    """PATTERN xyu: three events in a row, each i more than the one before, within the window's size."""
    results = []
    for t in range(2, len(rows)):
        x, y, u = (rows[t - back]["a"] for back in (2, 1, 0))
        if y - x == i and u - y == i and window_size(i, count) > 2:
            results.append((t, (x, y, u)))
    return results


def filter_rows(n: int, count: int, seed: int = 1) -> list[dict]:
    """Payloads (a, b) with differences from 0 to a little above Count."""
    rng = Random(seed)
    pairs = [(rng.randint(0, 3), rng.randint(0, count + 2)) for _ in range(n)]
    return [{"a": b + difference, "b": b} for b, difference in pairs]


def single_rows(n: int, name: str, spread: int, seed: int) -> list[dict]:
    """Payloads of one attribute from 0 to `spread`."""
    rng = Random(seed)
    return [{name: rng.randint(0, spread)} for _ in range(n)]


def rising_rows(n: int, count: int, seed: int = 4) -> list[dict]:
    """Payloads with runs of three that rise by i, for each i in turn, among random ones."""
    rng = Random(seed)
    values: list[int] = []
    turn = 0
    while len(values) < n:
        start = rng.randint(0, 9)
        step = turn % count + 1
        turn += 1
        values += [
            start,
            start + step,
            start + 2 * step,
            *(rng.randint(0, 2 * count) for _ in range(rng.randint(0, 4))),
        ]
    return [{"a": value} for value in values[:n]]
