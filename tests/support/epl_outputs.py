"""Random statements of EPL that say when results are told (snapshots, all groups, the first of each), or look back."""

from __future__ import annotations

import random

WINDOWS = (
    "#keepall", "#length(3)", "#time(4 milliseconds)", "#unique(k)", "#groupwin(k)#length(2)", "#firstlength(4)",
    "#firstunique(k)", "#sort(2, v)", "#sort(3, v desc, id)", "#rank(v, 2, id desc)", "#time_accum(3 milliseconds)",
    "#lastevent", "#ext_timed(current_timestamp, 4 milliseconds)", "#expr(current_count < 4)",
)  # fmt: skip
KEPT = ("#keepall", "#firstlength(4)", "#firstunique(k)")
"""Windows that nothing leaves: where Esper, too, counts what is new (decision 16)."""

PERIODS = ("every 4 milliseconds", "every 7 milliseconds", "every 30 milliseconds")
COUNTS = ("every 2 events", "every 3 events")
SUMS = "sum(v) as t, count(*) as n, last(id) as l"


def statement(chance: random.Random) -> str:
    """A statement over one window, or a join of two."""
    kind = chance.randint(0, 11)
    if kind == 0:
        return _of_join(chance)
    if kind >= 10:
        return _leaving(chance)
    if kind >= 7:
        return _ever(chance) if kind == 9 else _before(chance)
    window = chance.choice(WINDOWS)
    where = chance.choice(("", "", " where v > 1"))
    every = chance.choice(COUNTS if window in KEPT and chance.random() < 0.4 else PERIODS)
    if kind <= 2:
        listed = chance.choice(("id, v", "id, v + 1 as w", "distinct v, k"))
        order = chance.choice(("", " order by v desc", " order by v")) if "distinct" in listed else ""
        return f"select {listed} from S{window}{where} output snapshot {every}{order}"
    having = chance.choice(("", "", " having count(*) <> 2"))
    window = chance.choice((window, window, ""))
    if kind == 3:
        every = every if window else chance.choice(PERIODS + COUNTS)
        return f"select {SUMS} from S{window}{where}{having} output snapshot {every}"
    by = chance.choice(("k", "v", "k, v"))
    group = f"select {by}, {SUMS} from S{window}{where} group by {by}{having} output"
    if kind == 4:
        return f"{group} snapshot {every}"
    return f"{group} all {every}" if kind == 5 else f"{group} first {chance.choice(PERIODS)}"


def _leaving(chance: random.Random) -> str:
    """What comes and what leaves, where no time decides which period that is (decision 16)."""
    window = chance.choice([one for one in WINDOWS if "time" not in one])
    where, every = chance.choice(("", " where v > 1")), chance.choice(PERIODS)
    if chance.random() < 0.4:
        listed = "irstream k, sum(v) as t, count(*) as c, istream() as n"
        return f"select {listed} from S{window}{where} group by k output {every}"
    which, mark = chance.choice((("irstream", ", istream() as n"), ("rstream", "")))
    return f"select {which} id, v{mark} from S{window}{where} output {chance.choice(('', 'last '))}{every}"


def _before(chance: random.Random) -> str:
    """Events before in a window, from either end."""
    window = chance.choice([one for one in WINDOWS if "unique" not in one and "last" not in one and "first" not in one])
    call = chance.choice(("prev(1, id)", "prev(v, 0)", "prevtail(0, id)", "prevtail(1, v)", "prevcount(k)"))
    where = chance.choice(("", " where v > 1", " where prev(1, v) >= v"))
    return f"select id, {call} as x, prev(1, id) as y from S{window}{where}"


def _ever(chance: random.Random) -> str:
    """Aggregates of all events beside those of a window; groups where Esper forgets none (decision 27)."""
    if chance.random() < 0.3:
        by = chance.choice(("", "k"))
        return (
            f"select {by}{', ' * bool(by)}rate(0.004) as r from S{chance.choice(('', '#keepall'))}"
            + " group by k" * bool(by)
        )
    window, where = chance.choice(WINDOWS), chance.choice(("", " where v > 1"))
    by = chance.choice(("", "k")) if window in KEPT else ""
    single = "id as i, " * (not by and "sort" not in window and "rank" not in window and chance.random() < 0.3)
    listed = f"{single}firstever(id) as f, lastever(v) as g, countever(*) as c, countever(k) as d, sum(v) as t"
    having = chance.choice(("", " having count(*) <> 2"))
    return f"select {listed} from S{window}{where}" + " group by k" * bool(by) + having


def _of_join(chance: random.Random) -> str:
    left, right = (chance.choice([one for one in WINDOWS if "accum" not in one]) for _ in range(2))
    counts = chance.random() < 0.4
    if counts:
        left, right = chance.choice(KEPT), chance.choice(KEPT)
    of = f"from A{left} as a, B{right} as b where {chance.choice(('a.v = b.v', 'a.v > b.v'))}"
    listed = chance.choice(("a.id as i, b.id as j", "sum(a.v) as t, count(*) as n"))
    if counts:
        how = chance.choice(("", "last ", "first "))
        if chance.random() < 0.3:
            return f"select id, v from S#length_batch({chance.randint(2, 3)}) output {how}{chance.choice(COUNTS)}"
        return f"select a.id as i, b.id as j {of} output {how}{chance.choice(COUNTS)}"
    if chance.random() < 0.3:
        how = chance.choice(("snapshot", "all"))
        return f"select b.v as g, count(*) as n {of} group by b.v output {how} {chance.choice(PERIODS)}"
    return f"select {listed} {of} output snapshot {chance.choice(PERIODS)}"
