"""Standard streaming SQL as Flink runs it, but for the decisions of docs/language.md: every case of the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge.frontends.sql.statements import parse, statements
from bridge.frontends.statements import CreateQuery, Query
from tests.support.streaming_sql import CASES, StreamingRun, in_order

if TYPE_CHECKING:
    from tests.support.databases import Database

REFUSED = {
    # refused by the rules, too
    "regular join, left": ("LEFT JOIN", "needs bounds of time"),
    "regular join, full": ("FULL JOIN", "needs bounds of time"),
    "anti join without a bound": ("id NOT IN", "NOT EXISTS, with bounds of time"),
    "order by another column": ("ORDER BY temp", "results come in time order"),
    "order and limit": ("ORDER BY temp", "QUALIFY ROW_NUMBER() OVER (ORDER BY x) <= 10"),
    "except": ("EXCEPT", "JOIN … ON with bounds of time"),
    "the second alone": ("OVER (", "WHERE rn <= 2, or the first of a window"),
    "over in another order than time": ("OVER (", "change with every row: ORDER BY ts"),
    "over backwards": ("OVER (", "rows that have not come: ORDER BY ts"),
    "window over a left interval join": ("o.ts FROM", "is not the time of the results"),
    "average of all in a condition": ("SELECT AVG", "put it into FROM and correlate"),
    "window of the clock": ("proc)", "connect(clock='system')"),
    "cumulate, size no multiple of step": ("TABLE readings", "is a multiple of its step"),
    "window join of different windows": ("(SELECT * FROM TABLE(TUMBLE(TABLE ship", "the same window on both sides"),
    # W25: nothing bounds the state
    "regular join, inner": ("o JOIN", "a correlation needs a window"),
    # W28: nothing bounds the state
    "semi join with IN": ("id IN", "WINDOW(UNBOUNDED) after both streams"),
    "semi join with EXISTS": ("EXISTS", "WINDOW(UNBOUNDED) after both streams"),
}
"""The cases whose query is refused: what the error points at, and what it says."""

LATER_BY_ONE = {
    "session of all", "session, equal times", "session of two keys", "session, a row that joins nothing before",
    "ksqlDB session",
    "windows of windows by window_time",
    "over range", "over without a frame", "over without a partition", "over, late rows",
}  # fmt: skip
"""W12: a session has the time at which nothing can join it any more, a millisecond after window_end.

W9: a window over windows is reported when the next one begins, as the last small window is in it.

W14: a row with values OVER a range of time has the time at which no row of its own time can come any more.
"""

DECIDED = {
    # W26: the version that is there when the order arrives, also if another one of the same time follows
    "temporal join, version after the order at one time": [[2000, 1, 10, 2000], [3000, 2, 20, 3000]],
}
"""The cases with other rows, each for a decision."""

RUN = [case for case in CASES if case["name"] not in REFUSED]


def name_of(case: dict[str, Any]) -> str:
    """What a case is called."""
    return f"{case['rule']} {case['name']}"


def expected(case: dict[str, Any]) -> list[list[Any]]:
    """The rows of a case, each with its time."""
    rows = DECIDED.get(case["name"], case["expect"])
    later = case["name"] in LATER_BY_ONE
    return in_order([time + later if later else time, *values] for time, *values in rows)


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("case", RUN, ids=name_of)
def test_case(case: dict[str, Any], database: Database) -> None:
    for together in (False, True):
        assert in_order(StreamingRun(database, case, together).results()) == expected(case), together


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("case", RUN, ids=name_of)
def test_end_of_input(case: dict[str, Any], embedded: Database) -> None:
    """Flink closes all windows where its input ends; here time passes until nothing is due."""
    assert in_order(StreamingRun(embedded, case, True, to_the_end=True).results()) == expected(case)


@pytest.mark.parametrize("case", [case for case in CASES if case["name"] in REFUSED], ids=name_of)
def test_refusal(case: dict[str, Any], embedded: Database) -> None:
    place, reason = REFUSED[case["name"]]
    with pytest.raises(bridge.BridgeError) as caught:
        StreamingRun(embedded, case, together=False).create()
    error = caught.value
    assert isinstance(error, bridge.QueryError)
    assert reason in error.message
    assert error.text is not None and error.text[error.position or 0 :].startswith(place)


FOR_READING = (" RSTREAM", " REPORTED BY ", " PER EVENT ", re.compile(r" WITH \w+ \((ROWS|COUNT|SUM|AVG|MIN|MAX)"))
"""The words of operators that this SQL has no syntax for."""


@pytest.mark.parametrize("case", RUN, ids=name_of)
def test_trees_are_written_back(case: dict[str, Any]) -> None:
    for one in statements(case["sql"]):
        text = str(one.node) if isinstance(one, (CreateQuery, Query)) else ""
        if text and not any(re.search(words, text) for words in FOR_READING):
            assert parse(text) == one.node


def test_every_case_has_its_place() -> None:
    names = {case["name"] for case in CASES}
    assert len(names) == len(CASES) == 150
    assert {*REFUSED, *LATER_BY_ONE, *DECIDED} <= names
    assert not REFUSED.keys() & (LATER_BY_ONE | DECIDED.keys())
    assert len(RUN) == 133
    assert {case["name"] for case in CASES if "refused" in case} <= REFUSED.keys()
