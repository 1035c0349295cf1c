"""Random statements over windows, and in contexts, whose answers Esper and the bridge agree on but for their order."""

from __future__ import annotations

import random
import re

from tests.random.test_random_epl_contexts import UNASKED
from tests.random.test_random_epl_statements import JOINED, WINDOWS
from tests.random.test_random_epl_statements import statement as of_windows

CONTEXTS = ("create context C partition by k from S", "create context C partition by k from A, k from B")
WITHOUT_NULL = {
    "on a.k = b.k": "on a.v = b.v",
    "b.k = a.k": "b.v = a.v",
    "where k = a.k": "where v = a.v",
    "#rank(k, 2, v)": "#rank(v, 2, id)",
    "#rank(v, 2, k desc)": "#rank(v, 2, id desc)",
}
"""Decisions 19 and 20."""

DECIDED = (
    r"from A\S* as b",  # 17: a stream and its own event's row
    r" output ",  # 16: what is counted
    r" (order by|limit)\b.*(limit|offset)",  # which of equal rows
    r"distinct",
    r"r?stream .*(sum|count)\(.*#groupwin\(k\)#time_accum",  # 25
    r"(first|last)\(\w+, \d\).* from [SAB](\([^)]*\))?( |$)",  # 22: without a window
)
"""What differs by decisions of docs/epl.md, or by what no document says."""


def statement(chance: random.Random) -> tuple[tuple[str, ...], str, list[str]]:
    """What is created before, the statement, and the names of its columns."""
    while True:
        kind = chance.randint(0, 3)
        text = both(chance) if kind == 0 else of_windows(chance)
        for asked, instead in WITHOUT_NULL.items():
            text = text.replace(asked, instead)
        if any(re.search(one, text) for one in DECIDED):
            continue
        if chance.random() < 0.5:
            return (), text, columns(text)
        if not re.search(UNASKED, text) and not ("time_batch" in text and "order by" in text):
            is_timed = re.search(r"#(time|groupwin\(k\)#time)", text) and ("sum(" in text or "stream" in text)
            if not (is_timed and "order by" in text):
                return (CONTEXTS[" from S" not in text],), f"context C {text}", columns(text)


def both(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return _joined(chance)
    window = chance.choice(WINDOWS)
    where = chance.choice(("", " where v > 1", " where k is not null"))
    return f"select irstream id, v as w, istream() as n from S(v < 4){window}{where}"


def _joined(chance: random.Random) -> str:
    """What comes and leaves of a join, or what leaves of it alone."""
    left, right = (chance.choice([one for one in JOINED if "time_accum" not in one]) for _ in range(2))
    which, mark = chance.choice((("irstream", ", istream() as n"), ("rstream", "")))
    on = chance.choice(("a.v = b.v", "a.v > b.v", "a.v = b.v and a.k <> 'x'"))
    return f"select {which} a.id as i, b.id as j{mark} from A{left} as a, B{right} as b where {on}"


def columns(text: str) -> list[str]:
    """The names in a list of columns.

    >>> columns("select k, prev(1, id) as x, (select max(v) from B#keepall) as y from A")
    ['k', 'x', 'y']
    """
    found, depth, start = list[str](), 0, 0
    listed = re.sub(r"^(context C )?select (irstream |rstream |distinct )?", "", text)
    for at, letter in enumerate(listed):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and (letter == "," or listed.startswith(" from ", at)):
            found.append(listed[start:at].split(" as ")[-1].strip())
            start = at + 1
            if letter == " ":
                break
    return found
