"""A process that watches a table is killed while others write it: every committed row is an event once.

    python -m tests.faults.watching WHAT URL KILLS STEPS

WHAT is `rows` (eight threads insert rows) or `changes` (four threads insert, update and delete). STEPS is how many rows, or
statements, all threads together make. The table is new; nothing else may be in the database. The process is killed (SIGKILL)
at random moments as long as the others write, at most KILLS times. `further` counts the runs that had read rows when they were
killed: where that are few, the next runs live longer.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

import bridge
from tests.support import runs, writers

SUMS = "SELECT writer, SUM(amount) AS total, MAX(id) AS id FROM orders WINDOW(ROWS 20) GROUP BY writer"
SOURCES: dict[str, dict[str, Any]] = {
    "rows": {"table": "orders", "position": "id", "timestamp": "created_at"},
    "changes": {"changes_of": "orders"},
}


LATENESS = "3 MIN"
"""No transaction takes longer, even on a machine with other work: else its rows would be late, and not in order."""


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url, pool_size=10, **({"connect_args": {"timeout": 30}} if "sqlite" in url else {}))


def opened(url: str, what: str) -> bridge.Bridge:
    """The bridge as each run of the process opens it."""
    cep = bridge.connect(url, lateness=LATENESS, standby=True)
    cep.register_stream("orders", **SOURCES[what])
    if what == "rows":
        cep.create_query("seen", "SELECT id FROM orders", into="seen_rows")
        cep.create_query("sums", SUMS, into="sums_of_writers")
    else:
        cep.create_query("seen", "SELECT operation, id, amount, old_amount FROM orders", into="seen_rows")
    return cep


read = mmap.mmap(-1, 8)
"""How many events were in when the newest run began, also those that wait for their order, as both processes see it."""

SHORTEST, LONGEST = 0.4, 20.0
"""Seconds that a run lives at most, at first and where runs get no further."""


def watch(url: str, what: str) -> None:
    cep = opened(url, what)
    status = cep.status()
    struct.pack_into("q", read, 0, status.seq + status.waiting)
    runs.phase[0] = runs.PUSHING
    cep.run(poll="2 MS")


def import_all() -> None:
    """Reads a small table: what that imports takes a second, and the runs that are forked from this process have it then."""
    with bridge.connect("sqlite://") as cep:
        cep.database.execute("CREATE TABLE small (id BIGINT, word VARCHAR)")
        cep.database.insert("small", 2, [(number, "a") for number in range(5_000)])
        cep.register_stream("small", table="small", position="id", since="beginning")
        cep.poll()


def kill_again_and_again(url: str, what: str, write: Callable[[], object], most: int) -> tuple[int, int]:
    """Runs the process, and kills it after a random time, as long as another one writes.

    Gives how often, and how many of the runs before the last one had read rows. This process has no connection open, as a process
    with one of SQLite must not be forked.
    """
    import_all()
    opened(url, what).close()
    writer = runs.forked(write)
    kills, further, longest, begun = 0, 0, SHORTEST, None
    while kills < most and not runs.has_ended(writer):
        kills += 1
        runs.killed(functools.partial(watch, url, what), kills, longest, runs.PUSHING)
        (found,) = struct.unpack_from("q", read, 0)
        has_read = begun is not None and found > begun
        further, begun = further + has_read, found
        longest = max(longest / 1.2, SHORTEST) if has_read else min(longest * 1.2, LONGEST)
    if os.waitpid(writer, 0)[1] != 0:
        raise SystemExit("a writer failed")
    return kills, further


def check_rows(url: str) -> int:
    """Every row is an event once, and the results are those of one replay over the table; gives the number of rows."""
    with opened(url, "rows") as cep:
        cep.poll()
        cep.finish()
        seen = [tuple(row) for row in cep.database.fetch("SELECT id FROM seen_rows")]
        live = cep.database.fetch("SELECT ts, writer, total, id FROM sums_of_writers")
        _check_late(cep)
    equal("the rows seen", sorted(seen), writers.rows_of(engine_of(url), "orders"))
    with bridge.connect(url, fresh=True, lateness=LATENESS) as cep:
        cep.register_stream("orders", since="beginning", **SOURCES["rows"])
        cep.create_query("sums", SUMS, into="sums_of_a_replay")
        cep.poll()
        cep.finish()
        replayed = cep.database.fetch("SELECT ts, writer, total, id FROM sums_of_a_replay")
    equal("the sums", sorted(live), sorted(replayed))
    return len(seen)


def check_changes(url: str) -> int:
    """The changes, one after the other, lead to the table as it is; gives their number."""
    with opened(url, "changes") as cep:
        cep.poll()
        cep.finish()
        changes = cep.database.fetch("SELECT operation, id, amount, old_amount FROM seen_rows")
        _check_late(cep)
        cep.drop()
    table: dict[int, int] = {}
    for operation, number, amount, before in changes:
        if operation == "insert":
            equal(f"whether {number} was there before", number in table, False)
        else:
            equal(f"the amount of {number} before", table[number], before)
        if operation == "delete":
            del table[number]
        else:
            table[number] = amount
    with engine_of(url).connect() as connection:
        there = {row[0]: row[1] for row in connection.execute(sa.text("SELECT id, amount FROM orders"))}
    equal("the table", table, there)
    return len(changes)


def _check_late(cep: bridge.Bridge) -> None:
    equal("late events", cep.database.fetch("SELECT * FROM late_events"), [])


def equal(what: str, found: Any, wanted: Any) -> None:
    """Ends the program if two things differ."""
    if found != wanted:
        raise SystemExit(f"{what}: {_sample(found)} instead of {_sample(wanted)}")


def _sample(value: Any) -> str:
    return f"{len(value)}, as {str(value)[:500]}" if isinstance(value, Sequence | dict) else repr(value)


def write(url: str, what: str, steps: int, seed: int) -> None:
    if what == "rows":
        with writers.Writers(engine_of(url), "orders", 8, steps // 8, seed, pause=0.02):
            pass
    else:
        writers.Changes(engine_of(url), "orders", 4, steps // 4).run()


def main(what: str, url: str, kills: str, steps: str) -> None:
    """Prints how often the process was killed, and how many events were compared."""
    engine = engine_of(url)
    writers.create(engine, "orders")
    engine.dispose()
    write_all = functools.partial(write, url, what, int(steps), int(kills))
    done, further = kill_again_and_again(url, what, write_all, int(kills))
    events = check_rows(url) if what == "rows" else check_changes(url)
    print(json.dumps({"kills": done, "further": further, "events": events}))


if __name__ == "__main__":
    main(*sys.argv[1:])
