# ruff: noqa

from __future__ import annotations

import dataclasses
import statistics
import sys
import time

import duckdb

from benchmarks.crimes import CRIMES, CRIMES_STATEMENT, NEAR
from prototypes.gaps import Gap, Query, statement

GREEDY, RELUCTANT = Gap(), Gap(greedy=False)
BASE = Query(
    table="t",
    ts="ts",
    tie=("id",),
    within=1_800_000,
    symbols=("R", "B", "M"),
    gaps=(GREEDY, GREEDY),
    define={
        "R": "R.primary_type = 'ROBBERY'",
        "B": f"B.primary_type = 'BATTERY' AND {NEAR.format(x='B')}",
        "M": f"M.primary_type = 'MOTOR VEHICLE THEFT' AND {NEAR.format(x='M')}",
    },
    columns=("id", "primary_type", "lon", "lat"),
    measures=("R.id AS rid", "B.id AS bid", "M.id AS mid", "M._seq - R._seq - 2 AS gap"),
    skip="to next row",
)
change = dataclasses.replace
UNCOUNTED = change(BASE, counted=False, measures=BASE.measures[:3])
ANYWHERE = {symbol: text.split(" AND ")[0] for symbol, text in BASE.define.items()}
COMMON = {
    "R": "primary_type = 'THEFT'",
    "B": f"primary_type = 'THEFT' AND {NEAR.format(x='B')}",
    "M": f"primary_type = 'BATTERY' AND {NEAR.format(x='M')}",
}
CASES = {
    "greedy, next row": BASE,
    "greedy, past last": change(BASE, skip="past last row"),
    "uncounted, next row": UNCOUNTED,
    "uncounted, past last": change(UNCOUNTED, skip="past last row"),
    "late count, next row": change(UNCOUNTED, late=True, measures=(*UNCOUNTED.measures, "m._between - 1 AS gap")),
    "reluctant, next row": change(BASE, gaps=(RELUCTANT, RELUCTANT)),
    "mixed, past last": change(BASE, gaps=(RELUCTANT, GREEDY), skip="past last row"),
    "anywhere, next row": change(UNCOUNTED, define=ANYWHERE),
    "anywhere, past last": change(UNCOUNTED, define=ANYWHERE, skip="past last row"),
    "anywhere, doubling": change(UNCOUNTED, define=ANYWHERE, skip="past last row", chain="doubling"),
    "common types, next row": change(UNCOUNTED, define=COMMON),
    "common types, past last": change(UNCOUNTED, define=COMMON, skip="past last row"),
    "common, 6 hours, next row": change(UNCOUNTED, define=COMMON, within=6 * 3_600_000),
    "common, 6 hours, doubling": change(
        UNCOUNTED, define=COMMON, within=6 * 3_600_000, skip="past last row", chain="doubling"
    ),
    "one gap": change(UNCOUNTED, symbols=("R", "M"), gaps=(GREEDY,), measures=("R.id", "M.id")),
    "three gaps": change(
        UNCOUNTED, symbols=("R", "B", "T", "M"), gaps=(GREEDY,) * 3,
        define={**BASE.define, "T": f"primary_type = 'THEFT' AND {NEAR.format(x='T')}"},
    ),
    "chain": change(UNCOUNTED, define={**BASE.define, "M": BASE.define["M"] + " AND M.lon > B.lon"}),
    "previous row": change(BASE, define={**BASE.define, "B": BASE.define["B"] + " AND PREV(primary_type) <> 'THEFT'"}),
}  # fmt: skip

if __name__ == "__main__":
    rows, runs, wanted = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS " + CRIMES.format(rows=rows))
    hand = sorted(connection.execute(CRIMES_STATEMENT).fetchall())
    for name, query in CASES.items():
        if wanted and name not in wanted:
            continue
        for asof in (True, False) if "anywhere" in name else (True,):
            text, spent = statement(query, asof), []
            for _ in range(runs):
                began = time.perf_counter()
                found = connection.execute(text).fetchall()
                spent.append(time.perf_counter() - began)
            if name in ("greedy, next row", "late count, next row"):
                assert sorted(found) == hand
            print(
                f"{name:28} {'asof' if asof else 'join'} {len(found):9,} {statistics.median(spent):6.2f} s", flush=True
            )
