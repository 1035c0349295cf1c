"""Windows in the streaming SQL of other products: refused, with the equivalent here."""

from __future__ import annotations

import re
from typing import NoReturn

from bridge.frontends.cursor import Cursor, word_of
from windows.times import UNITS

_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_OF_KSQL = {"TUMBLING": "TUMBLE", "HOPPING": "HOP", "SESSION": "SESSION"}
_DURATION = re.compile(r"(?:INTERVAL|SIZE|ADVANCE\s+BY|\()\s*'?\s*(\d+)\s*'?\s*([A-Z]+)", re.IGNORECASE)
_INPUT = re.compile(r"\(\s*(?:DATA\s*=>\s*)?(?:TABLE\s+)?(\w+)", re.IGNORECASE)
_KEYS = re.compile(r"PARTITION\s+BY\s+(.+?)\s*,\s*DESCRIPTOR", re.IGNORECASE | re.DOTALL)
_ENDS = "the ts of a result is the end of its window, so there is no window_start and window_end to group by"


def refuse_in_from(cursor: Cursor) -> None:
    """Refuses `TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND))` and the like, with or without `TABLE( )`."""
    outer = 2 if cursor.word() == "TABLE" and cursor.word(1) == "(" else 0
    if cursor.word(outer) in _FUNCTIONS and cursor.word(outer + 1) == "(":
        text = cursor.bare[cursor.tokens[cursor.at + outer].start :]
        stream, keys = _INPUT.search(text), _KEYS.search(text)
        name = stream[1] if stream else "s"
        _refuse(cursor, cursor.word(outer), name, keys[1] if keys else "", text)


def refuse_in_group_by(cursor: Cursor, name: str | None) -> None:
    """Refuses `GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)` and the like.

    `name`: the name of the stream, if it has one.
    """
    start, keys, found = cursor.at, list[str](), None
    region = cursor.until(("HAVING", "EMIT", "UNION"))
    for at in range(region.start, region.end):
        word, after = word_of(cursor.tokens[at]), word_of(cursor.tokens[at + 1]) if at + 1 < region.end else ""
        if word in _FUNCTIONS and after == "(":
            found = found or at
        elif word_of(cursor.tokens[at - 1]) in ("GROUP BY", ",") and found is None:
            keys.append(cursor.tokens[at].text)
    cursor.at = start if found is None else found
    if found is not None:
        _refuse(cursor, cursor.word(), name or "s", ", ".join(keys), cursor.bare[cursor.position :])


def refuse_ksql(cursor: Cursor) -> None:
    """Refuses `WINDOW TUMBLING (SIZE 10 SECONDS)` and the like, after the stream."""
    if cursor.word() == "WINDOW" and cursor.word(1) in _OF_KSQL:
        before = cursor.tokens[cursor.at - 1].text
        _refuse(cursor, _OF_KSQL[cursor.word(1)], before, "", cursor.bare[cursor.position :])


def _refuse(cursor: Cursor, function: str, name: str, keys: str, text: str) -> NoReturn:
    found = [(int(count), unit.upper()) for count, unit in _DURATION.findall(text) if unit.upper() in UNITS]
    if function == "HOP" and "ADVANCE" in text.upper():
        found.reverse()
    cursor.fail(f"{function} is not supported: {_translation(function, name, keys, found)}")


def _translation(function: str, name: str, keys: str, durations: list[tuple[int, str]]) -> str:
    """The equivalent in the bridge's own SQL."""
    first = durations[0] if durations else (10, "S")
    second = durations[1] if len(durations) > 1 else first
    one, other = (f"{count} {unit}" for count, unit in (first, second))
    one_ms, other_ms = (count * UNITS[unit] for count, unit in (first, second))
    match function:
        case "TUMBLE":
            return f"{name} WINDOW(RANGE {one} SLIDE {one}) has these windows; {_ENDS}"
        case "HOP":
            offset = f" OFFSET {other_ms % one_ms} MS" if other_ms % one_ms else ""
            return f"{name} WINDOW(RANGE {other} SLIDE {one}{offset}) has these windows; {_ENDS}"
        case "CUMULATE":
            return (
                f"{name} WINDOW(RANGE {one} SLIDE {other} OFFSET {one}) is its first step, and a query for each step is "
                "merged by UNION ALL"
            )
        case _:
            key = f"PARTITION BY {keys} " if keys else ""
            return (
                f"{name} MATCH_RECOGNIZE ({key}MEASURES FIRST(ts) AS since, LAST(ts) AS until, COUNT(*) AS n PATTERN (A B*) "
                f"DEFINE B AS ts - PREV(ts) <= {one_ms}) has a row per session"
            )
