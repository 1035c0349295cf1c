# ruff: noqa
"""Compares the prototype with the matcher on thousands of small random tables: each a partition of one statement."""

from __future__ import annotations

import collections
import random
import sys
import time
from typing import Any

import duckdb

import nfa
from prototypes.gaps import Gap, Query, statement

CONDITIONS = {
    "always": ("TRUE", lambda row, path: True),
    "own": ("kind < 2", lambda row, path: row["kind"] < 2),
    "even": ("kind % 2 = 0", lambda row, path: row["kind"] % 2 == 0),
    "first": ("v > A.v", lambda row, path: row["v"] > path.first("A")["v"]),
    "own and first": (
        "kind <> 1 AND v BETWEEN A.v - 3 AND A.v + 3",
        lambda row, path: row["kind"] != 1 and abs(row["v"] - path.first("A")["v"]) <= 3,
    ),
    "equal": ("kind = A.kind", lambda row, path: row["kind"] == path.first("A")["kind"]),
    "prev": ("v > PREV(v)", lambda row, path: row["before"] is not None and row["v"] > row["before"]),
    "next": ("v <= NEXT(v, 2) AND v <> A.v", lambda row, path: row["after"] is not None and row["v"] <= row["after"] and row["v"] != path.first("A")["v"]),
    "chain": ("v < B.v", lambda row, path: row["v"] < path.last("B")["v"]),
}  # fmt: skip


def random_tables(rng: random.Random, tables: int) -> list[tuple[int, int, int, int, int]]:
    rows = []
    for part in range(tables):
        ts = 0
        for tie in range(rng.randrange(0, 14)):
            ts += rng.choice((0, 0, 1, 1, 2, 5))
            rows.append((part, ts, tie, rng.randrange(4), rng.randrange(10)))
    return rows


def check(seed: int, tables: int) -> int:
    rng = random.Random(seed)
    rows = random_tables(rng, tables)
    symbols = tuple("ABCD"[: rng.choice((2, 3, 3, 4))])
    names = {"A": rng.choice(("own", "even", "always", "prev"))}
    for symbol in symbols[1:]:
        names[symbol] = rng.choice([n for n in CONDITIONS if n != "chain" or (symbol > "B" and rng.random() < 0.5)])
    gaps = []
    for _ in symbols[1:]:
        bounded = rng.random() < 0.15
        gaps.append(
            Gap(rng.random() < 0.5, rng.choice((0, 1)) if bounded else 0, rng.choice((None, 2)) if bounded else None)
        )
    within = rng.choice((1, 3, 6, 15))
    skip = rng.choice(("past last row", "to next row"))
    query = Query(
        "t", "ts", ("tie",), within, symbols, tuple(gaps), {s: CONDITIONS[n][0] for s, n in names.items()},
        ("kind", "v", "tie"), tuple(f"{s}.tie + 1" for s in symbols), ("part",), skip,
        counted=any(gap.least or gap.most is not None for gap in gaps) or rng.random() < 0.5,
        chain=rng.choice(("clusters", "doubling")),
    )  # fmt: skip
    text = statement(query, asof=rng.random() < 0.5)
    connection = duckdb.connect()
    connection.execute("SET threads = 1; CREATE TABLE t (part INT, ts BIGINT, tie INT, kind INT, v INT)")
    shuffled = rng.sample(rows, len(rows))
    columns = list(zip(*shuffled, strict=True))
    connection.execute(
        "INSERT INTO t SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)", [list(c) for c in columns]
    )
    found = collections.Counter(connection.execute(text).fetchall())
    wanted = collections.Counter(_truth(query, names, rows))
    if found != wanted:
        print(text)
        raise SystemExit(
            f"seed {seed}: {query}\nextra {list((found - wanted).items())[:5]}\nlacking {list((wanted - found).items())[:5]}"
        )
    return sum(wanted.values())


def _truth(query: Query, names: dict[str, str], rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    pattern = "A" + "".join(f" {_quantified(gap)} {s}" for s, gap in zip(query.symbols[1:], query.gaps, strict=True))
    parts: dict[int, list[dict[str, Any]]] = collections.defaultdict(list)
    for part, ts, tie, kind, v in rows:
        parts[part].append({"ts": ts, "tie": tie, "kind": kind, "v": v})

    def holds(symbol: str, row: dict[str, Any], path: nfa.Path[dict[str, Any]]) -> bool:
        return symbol == "Z" or bool(CONDITIONS[names[symbol]][1](row, path))

    skip = nfa.past_last_row if query.skip == "past last row" else nfa.to_next_row
    found = []
    for part, own in parts.items():
        for place, row in enumerate(own):
            row["before"] = own[place - 1]["v"] if place else None
            row["after"] = own[place + 2]["v"] if place + 2 < len(own) else None
        for match in nfa.find_all(
            pattern, own, holds, depends_on_path=True, skip=skip, within=query.within, time=lambda row: row["ts"]
        ):
            places = {m.symbol: m.row + 1 for m in match.memberships}
            found.append((part, *(places[s] for s in query.symbols)))
    return found


def _quantified(gap: Gap) -> str:
    most = "" if gap.most is None else str(max(gap.most, gap.least))
    return f"Z{{{gap.least},{most}}}{'' if gap.greedy else '?'}"


if __name__ == "__main__":
    began, matches, tables = time.monotonic(), 0, int(sys.argv[2])
    for seed in range(int(sys.argv[1])):
        matches += check(seed, tables)
    print(f"{sys.argv[1]} queries x {tables} tables equal, {matches} matches, {time.monotonic() - began:.0f} s")
