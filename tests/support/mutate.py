"""Mutations of query texts, events and files: what people mistype, paste together and cut off."""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

_TOKEN = re.compile(r"\s+|\w+|'[^']*'|\"[^\"]*\"|<=|>=|<>|->|\|\||.", re.DOTALL)
_ODD = (
    "", "(", ")", "((", "'", '"', "`", ";", "--", "/*", ",", ".", "..", "*", "?", ":", "{-", "-}", "$", "%", "\\", "\0", "\udfff",
    "é", "NULL", "0", "-1", "1e400", "9223372036854775808", "99999999999999999999999999", "1.5", "''", "'x'", "SELECT",
    "FROM", "WHERE", "AND", "NOT", "IN", "AS", "ON", "BY", "CASE", "END", "WINDOW", "ROWS", "RANGE", "PATTERN", "DEFINE",
    "MEASURES", "WITHIN", "every", "where", "timer:interval(1)", "output", "having", "DISTINCT", "nosuch", "COUNT", "(*)",
    "ts", "s", "x", "A", "B", "+", "*?", "{2,1}", "{1000}", "|", "&", "^", "||", "PREV(", "FIRST(", "LAST(", "NEXT(",
    "CLASSIFIER()", "SUM(", "MS", "UNBOUNDED", "INTERVAL '1' DAY", "CAST(NULL AS BLOB)", "[1]", "\n", "\t", "\u2028",
)  # fmt: skip


def mutated_text(text: str, others: Callable[[], str], rng: Random) -> str:
    """A text with one to three mistakes; `others` gives a text from which parts are pasted."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(_TEXT_CHANGES)(text, others, rng)
    return text


def _of_tokens(change: Callable[[list[str], int, Random], None]) -> Callable[..., str]:
    @functools.wraps(change)
    def of_text(text: str, others: Callable[[], str], rng: Random) -> str:
        tokens = _TOKEN.findall(text) or [""]
        change(tokens, rng.randrange(len(tokens)), rng)
        return "".join(tokens)

    return of_text


@_of_tokens
def _left_out(tokens: list[str], place: int, rng: Random) -> None:
    del tokens[place : place + rng.choice((1, 1, 2, 5))]


@_of_tokens
def _twice(tokens: list[str], place: int, rng: Random) -> None:
    tokens[place:place] = [" ", *tokens[place : place + rng.choice((1, 2, 6))], " "]


@_of_tokens
def _swapped(tokens: list[str], place: int, rng: Random) -> None:
    other = rng.randrange(len(tokens))
    tokens[place], tokens[other] = tokens[other], tokens[place]


@_of_tokens
def _odd(tokens: list[str], place: int, rng: Random) -> None:
    tokens[place] = rng.choice(_ODD)


@_of_tokens
def _odd_beside(tokens: list[str], place: int, rng: Random) -> None:
    tokens.insert(place, f" {rng.choice(_ODD)} ")


@_of_tokens
def _other_name(tokens: list[str], place: int, rng: Random) -> None:
    names = [token for token in tokens if token.isidentifier()]
    tokens[place] = rng.choice(names) if names else "x"


def _cut(text: str, others: Callable[[], str], rng: Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _pasted(text: str, others: Callable[[], str], rng: Random) -> str:
    """A piece of another text in the place of one of this."""
    mine, other = _TOKEN.findall(text), _TOKEN.findall(others())
    start, place = rng.randrange(len(other) + 1), rng.randrange(len(mine) + 1)
    mine[place : place + rng.randrange(6)] = [" ", *other[start : start + rng.randrange(1, 12)], " "]
    return "".join(mine)


def _letter(text: str, others: Callable[[], str], rng: Random) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice((*"()'\"; ,.*", "\0", "é", "\udc80")) + text[place + rng.choice((0, 1)) :]


_TEXT_CHANGES = (_left_out, _twice, _swapped, _odd, _odd_beside, _other_name, _cut, _pasted, _letter)

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**15, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64, 10**40, 0.0, -0.0, 1.5, 1e308, 1e-320,
    math.nan, math.inf, -math.inf, "", "x", "5", "nan", "\0", "a\0b", "\udfff", "é" * 5, "x" * 70_000, "2024-01-01", b"", b"\xff",
    bytearray(b"x"),
    decimal.Decimal("1.5"), decimal.Decimal("NaN"), decimal.Decimal("Infinity"), decimal.Decimal("1e100"),
    decimal.Decimal("1e-100"), datetime.date.min, datetime.date.max, datetime.date(2024, 2, 29), datetime.datetime.min,
    datetime.datetime.max, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.time(1), datetime.timedelta(1),
    [], [1], [None], (), (1, "x"), {}, {"a": 1}, {1: 2}, {1}, object(), int, len, 1j, range(3), iter(()), Ellipsis,
    NotImplemented,
    type("Text", (str,), {})("t"), type("Number", (int,), {})(3),
)  # fmt: skip
"""Values of every kind that somebody may pass where another is expected."""

TIMESTAMPS = (
    *(0, 1, -1, 5, 10**6, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30, None, True, 1.5, math.nan, math.inf),
    *("", "5", "x", "2024-01-01", datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1), decimal.Decimal(5), [], object()),
)  # fmt: skip


def mutated_event(stream: str, payload: Mapping[str, Any], ts: int, rng: Random) -> tuple[Any, Any, Any]:
    """An event with one thing wrong, perhaps."""
    changed: Any = dict(payload)
    names = list(payload) or ["x"]
    change = rng.randrange(12)
    if change < 6:
        changed[rng.choice(names)] = rng.choice(VALUES)
    elif change == 6:
        changed.pop(rng.choice(names), None)
    elif change == 7:
        changed[rng.choice(("nosuch", "", 1, None, "\udfff", names[0].upper(), "ts"))] = rng.choice(VALUES)
    elif change == 8:
        changed = list(changed.values())[: rng.randrange(len(changed) + 2)] + rng.sample(VALUES, rng.randrange(2))
    elif change == 9:
        changed = rng.choice(VALUES)
    elif change == 10:
        return stream, changed, rng.choice(TIMESTAMPS)
    else:
        return rng.choice((None, "", "nosuch", 1, [], stream.upper(), "\udfff", "\0")), changed, ts
    return stream, changed, ts


def mutated_bytes(content: bytes, rng: Random) -> bytes:
    """A file's content with one to four places changed, cut off, doubled or moved."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(found) + 1)
        length = rng.choice((1, 1, 2, 10, 200))
        match rng.randrange(6):
            case 0:
                del found[place:]
            case 1:
                del found[place : place + length]
            case 2:
                found[place:place] = bytes(rng.randrange(256) for _ in range(length))
            case 3:
                found[place : place + length] = bytes(rng.randrange(256) for _ in range(length))
            case 4:
                found[place:place] = found[place : place + length]
            case _:
                found[place:place] = rng.choice(_PIECES)
    return bytes(found)


_PIECES = (
    b"\n", b"\r", b"\r\n", b'"', b"'", b",", b";", b"\t", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3",
    b"{", b"}", b"[", b"]", b"null",
    b"NaN", b"true", b"-", b"1e999", b"99999999999999999999", b"1.5", b"2024-02-30", b"x", b'"x', b"\\u", b"\\ud800",
    b'{"ts": 1}\n', b",,,,",
)  # fmt: skip
