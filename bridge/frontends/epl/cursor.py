"""EPL's spelling on top of the shared cursor: its quotes, comments, numbers and times.

Texts are in either kind of quotes, names in backticks, `//` begins a comment, and a number may have a type (`5L`). All
of this is respelled as SQL of the same length, so that every offset is an offset in the text as written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, blanked, tokens
from bridge.query.words import WORD

if TYPE_CHECKING:
    from bridge.frontends.epl.clauses import Context
    from bridge.query.epl_state import Variable

UNITS = {
    "MSEC": 1, "MILLISECOND": 1, "MILLISECONDS": 1, "SEC": 1000, "SECOND": 1000, "SECONDS": 1000, "MIN": 60_000,
    "MINUTE": 60_000, "MINUTES": 60_000, "HOUR": 3_600_000, "HOURS": 3_600_000, "DAY": 86_400_000,
    "DAYS": 86_400_000, "WEEK": 604_800_000, "WEEKS": 604_800_000,
}  # fmt: skip
"""The number of milliseconds in each unit of a time period."""

_UNEVEN = ("MONTH", "MONTHS", "YEAR", "YEARS")
_SMALL = ("MICROSECOND", "MICROSECONDS", "USEC")

_SPELLED = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | //[^\n]* | /\*.*?\*/ | /\* | ['"`]
      | (?<![\w.])(?:\d+\.?\d*|\.\d+)(?P<suffix>[lLfFdD])(?!\w)""",
    re.VERBOSE | re.DOTALL,
)
_UNCLOSED = {
    "'": "the text is never closed by '",
    '"': 'the text is never closed by "',
    "`": "the name is never closed by `",
    "/*": "the comment is never closed by */",
}


class EplCursor(Cursor):
    """The tokens of an EPL text.

    >>> cursor = EplCursor("select 'it' || \\"s\\" from `order` // all")
    >>> cursor.bare.split()
    ['select', "'it'", '||', "'s'", 'from', '"order"']
    """

    def __init__(
        self,
        text: str,
        reserved: Collection[str] = (),
        variables: Mapping[str, Variable] = MappingProxyType({}),
        contexts: Mapping[str, Context] = MappingProxyType({}),
    ) -> None:
        self.variables, self.contexts = variables, contexts
        self.read = set()
        self.text = text
        self.bare = _respelled(text)
        self.tokens = tokens(text, self.bare)
        self.reserved = reserved
        self.at = 0


def period(cursor: Cursor) -> int:
    """`5 sec`, `1 min 30 sec`, or a number of seconds, in milliseconds.

    >>> period(EplCursor("1 min 30 sec")), period(EplCursor("1.5")), period(EplCursor("10 milliseconds"))
    (90000, 1500, 10)
    """
    start = cursor.position
    total = Fraction(0)
    number = _number(cursor)
    while True:
        unit = cursor.word()
        if unit in _UNEVEN:
            cursor.fail(f"{unit.lower()} is not supported: months and years are not all equally long; write days")
        if unit in _SMALL:
            cursor.fail("microseconds are not supported: time is counted in milliseconds")
        if unit not in UNITS:
            if total == 0 and not (WORD.fullmatch(unit) and cursor.word(1) in (",", ")")):
                total = number * 1000
                break
            cursor.fail(f"a unit of time is expected ({', '.join(UNITS).lower()}), not {cursor.next_text()}")
        cursor.at += 1
        total += number * UNITS[unit]
        if not re.fullmatch(r"\d+\.?\d*|\.\d+", cursor.word()):
            break
        number = _number(cursor)
    if total.denominator != 1 or total <= 0 or total >= 2**62:
        cursor.fail("a time of whole milliseconds, at least 1, is expected", start)
    return total.numerator


def whole(cursor: Cursor, what: str, least: int = 1) -> int:
    """Steps over a whole number of at least `least`."""
    if not re.fullmatch(r"\d{1,18}", cursor.word()) or int(cursor.word()) < least:
        wanted = "below 10^18" if cursor.word().isdigit() and len(cursor.word()) > 18 else f"of at least {least}"
        cursor.fail(f"{what} is a whole number {wanted}, not {cursor.next_text()}")
    cursor.at += 1
    return int(cursor.word(-1))


def _number(cursor: Cursor) -> Fraction:
    if not re.fullmatch(r"\d+\.?\d*|\.\d+", cursor.word()):
        cursor.fail(f"a time is expected, such as 5 sec, not {cursor.next_text()}")
    cursor.at += 1
    return Fraction(cursor.word(-1))


def _respelled(text: str) -> str:
    bare = text
    for match in _SPELLED.finditer(text):
        found = match[0]
        if found in _UNCLOSED:
            raise QueryError(_UNCLOSED[found], text, match.start())
        bare = bare[: match.start()] + _spelled(text, match) + bare[match.end() :]
    return bare.replace("\ufeff", " ")


def _spelled(text: str, match: re.Match[str]) -> str:
    found = match[0]
    if match["suffix"]:
        return found[:-1] + " "
    if found.startswith("/"):
        return blanked(found, 0, 0)
    inside = found[1:-1]
    if found[0] == "`":
        return f'"{inside}"'
    if "\\" in inside or "'" in inside or (found[0] == "'" and text[match.end() : match.end() + 1] == "'"):
        raise QueryError(
            "a quote or a backslash within a text is not supported: compare with a column instead", text, match.start()
        )
    return f"'{inside}'"
