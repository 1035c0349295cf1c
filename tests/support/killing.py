"""A program that bills and is killed: `python -m tests.support.killing URL RUNS SEED` starts it RUNS times, one after the other.

Each run is a process of its own, forked from this one so that it need not import anything. It carries on where the last
one's last commit ended, after it has seen that the bills are exactly those of the events before. It is killed (SIGKILL)
at any moment: while it connects, while its query is created, before, within and after pushes.
"""

from __future__ import annotations

import collections
import functools
import itertools
import json
import random
import sys
import time

import bridge
from tests.support.runs import PUSHING, STARTING, WAITING, killed, phase

PRICES = {"ann": 1, "bob": 10, "eve": 100}
CALLERS = tuple(PRICES)
SCRIPT = """
CREATE STREAMSCHEMA cdr WITH id varchar, seconds integer, number integer;
CREATE SQL price_of AS SELECT price FROM clients WHERE id = ?;
CREATE SQL charge AS UPDATE clients SET due = due + ? WHERE id = ?;
CREATE SQL stand AS UPDATE stand SET number = ?;
INSERT INTO priced SELECT id, seconds * price AS cost, number FROM cdr ON SQL price_of, p, id, price;
INSERT INTO charged SELECT * FROM priced ON SQL charge, c, cost, id;
INSERT INTO stood SELECT * FROM cdr ON SQL stand, s, number;
INSERT INTO TABLE log SELECT id, cost, number FROM charged
"""
LONGEST = 0.3
"""Seconds after which a run is killed at the latest: from its start, or every other time from its first push."""

PAUSE = 0.002
"""Seconds between two pushes, at most."""


def prepare(url: str) -> None:
    """The tables, with nothing to pay."""
    with bridge.connect(url) as cep:
        for statement in (
            "CREATE TABLE clients (id VARCHAR(20), price INTEGER, due INTEGER)",
            *(f"INSERT INTO clients VALUES ('{caller}', {price}, 0)" for caller, price in PRICES.items()),
            "CREATE TABLE stand (number INTEGER)",
            "INSERT INTO stand VALUES (0)",
            "CREATE TABLE log (id VARCHAR(20), cost INTEGER, number INTEGER)",
        ):
            cep.database.execute(statement)


def call(number: int) -> tuple[str, int, int]:
    """The event of this number."""
    return CALLERS[number % 3], number % 7, number


def owed(last: int) -> dict[str, int]:
    """What each caller has to pay for the events up to the last one."""
    due = dict.fromkeys(CALLERS, 0)
    for caller, seconds, _ in map(call, range(1, last + 1)):
        due[caller] += seconds * PRICES[caller]
    return due


def check(cep: bridge.Bridge) -> int:
    """Each event up to the last one is in the bills and in the log exactly once; gives its number."""
    ((last,),) = cep.database.fetch("SELECT number FROM stand")
    counted = "SELECT COUNT(*), COUNT(DISTINCT number), COALESCE(MIN(number), 1), COALESCE(MAX(number), 0) FROM log"
    assert tuple(cep.database.fetch(counted)[0]) == (last, last, 1, last), f"the log is wrong after {last} events"
    due = owed(last)
    logged = dict(cep.database.fetch("SELECT id, SUM(cost) FROM log GROUP BY id"))
    assert {**dict.fromkeys(CALLERS, 0), **logged} == due, f"the log is wrong after {last} events"
    assert dict(cep.database.fetch("SELECT id, due FROM clients")) == due, f"the bills are wrong after {last} events"
    return int(last)


def bill(url: str, seed: int) -> None:
    """Bills without end, events one by one and several at a time."""
    rng = random.Random(seed)
    cep = bridge.connect(url)
    cep.create_query("billing", SCRIPT, language="cpl")
    number = check(cep) + 1
    for count in itertools.cycle((1, 3, 1, 1, rng.randrange(2, 20))):
        phase[0] = PUSHING
        cep.push_events("cdr", [(call(each), each) for each in range(number, number + count)])
        phase[0] = WAITING
        time.sleep(rng.random() * PAUSE)
        number += count


def main(url: str, runs: int, seed: int) -> None:
    """Tells how many runs were killed while starting, between and within pushes, and how many events are billed."""
    prepare(url)
    doing = collections.Counter(
        killed(functools.partial(bill, url, each), each, LONGEST, PUSHING if each % 2 else STARTING)
        for each in range(seed, seed + runs)
    )
    counts = {"starting": doing[STARTING], "waiting": doing[WAITING], "pushing": doing[PUSHING]}
    with bridge.connect(url) as cep:
        print(json.dumps({**counts, "events": check(cep)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
