"""Clauses that several languages share: schemas, whole numbers, durations, START … STOP …"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import TokenType

from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import single_expression
from windows.extents import Batch
from windows.schema import Attribute, Schema, TypeMismatch, canonical_type
from windows.times import UNITS

_Number = int | Fraction


_LIMIT = 2**62


def schema(cursor: Cursor, stops: tuple[str, ...] = ()) -> Schema:
    """`a Integer, "b c": DECIMAL(10, 2)`, up to one of `stops` or a closing parenthesis.

    >>> print(schema(Cursor('a:Integer, "b c": varchar')))
    a INTEGER, "b c" VARCHAR
    """
    attributes = [_attribute(cursor, (), stops)]
    while cursor.take(","):
        attributes.append(_attribute(cursor, tuple(attributes), stops))
    return Schema(tuple(attributes))


_CONSTRAINTS = ("PRIMARY KEY", "FOREIGN KEY", "CONSTRAINT", "UNIQUE")
"""Constraints, which SQL writes among the columns of a table."""


def _attribute(cursor: Cursor, before: tuple[Attribute, ...], stops: tuple[str, ...]) -> Attribute:
    position = cursor.position
    alone = f"a stream has attributes and nothing else: leave out {cursor.next_text()}"
    if cursor.word() == "WATERMARK" and cursor.word(1) == "FOR":
        cursor.fail(f"{alone}; the time of an event is given with it, and lateness= waits for late ones")
    if cursor.word() in _CONSTRAINTS:
        cursor.fail(alone)
    name = cursor.name("a name with its type")
    cursor.take(":")
    typed = cursor.position
    region = cursor.until((",", *stops))
    if region.start == region.end:
        cursor.fail(f"the type of {name!r} is expected, not {cursor.next_text()}")
    try:
        kind = canonical_type(cursor.slice(region))
    except TypeMismatch as error:
        cursor.fail(str(error), typed)
    attribute = Attribute(name, kind)
    try:
        Schema((*before, attribute))
    except TypeMismatch as error:
        cursor.fail(str(error), position)
    return attribute


def duration(cursor: Cursor) -> int:
    """`500 MS`, `(500 + (10/2) - 1) MS`, `INTERVAL '5' SECOND`, `INTERVAL '5 seconds'`, in milliseconds.

    >>> duration(Cursor("(500 + (10/2) - 1) MS")), duration(Cursor("INTERVAL '5' SECOND"))
    (504, 5000)
    """
    start = cursor.position
    milliseconds = _interval(cursor) if cursor.take("INTERVAL") else _whole_milliseconds(cursor)
    if milliseconds >= _LIMIT:
        cursor.fail("a duration is less than 2**62 milliseconds", start)
    return milliseconds


def _whole_milliseconds(cursor: Cursor) -> int:
    start, at = cursor.position, cursor.at
    value = _factor(cursor)
    unit = UNITS.get(cursor.word())
    if value.denominator != 1 and unit is not None and (value * unit).denominator == 1 and value > 0:
        cursor.fail(f"a whole number of at least 1 is expected, not {float(value)}: write {value * unit} MS", start)
    cursor.at = at
    return positive_integer(cursor) * _unit(cursor)


def _unit(cursor: Cursor) -> int:
    unit = cursor.word()
    if unit not in UNITS:
        cursor.fail(f"a unit of time is expected ({', '.join(UNITS)}), not {cursor.next_text()}")
    cursor.at += 1
    return UNITS[unit]


def _interval(cursor: Cursor) -> int:
    token = cursor.peek()
    if token is None or token.token_type != TokenType.STRING:
        return positive_integer(cursor) * _unit(cursor)
    found = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", token.text)
    unit = found[2].upper() if found else ""
    if not found or len(found[1]) > 30 or int(found[1]) < 1 or unit not in ("", *UNITS):
        cursor.fail("INTERVAL wants a whole number of at least 1, like INTERVAL '5' SECOND")
    cursor.at += 1
    return int(found[1]) * (UNITS[unit] if unit else _unit(cursor))


def positive_integer(cursor: Cursor) -> int:
    """A whole number of at least 1: a literal, or computed in parentheses.

    Between whole numbers `/` drops the remainder, as in the databases and the language of the paper's queries. So the
    paper's windows of `500 + (Count/2) - i` are whole for odd counts, too.
    """
    start = cursor.position
    value = _factor(cursor)
    if value.denominator != 1 or not 1 <= value < _LIMIT:
        number = value.numerator if value.denominator == 1 else float(value)
        wanted = "of at least 1" if value < _LIMIT else f"below {_LIMIT}"
        cursor.fail(f"a whole number {wanted} is expected, not {number}", start)
    return value.numerator


def _sum(cursor: Cursor) -> _Number:
    value = _product(cursor)
    while (mark := cursor.word()) in ("+", "-"):
        cursor.at += 1
        value = value + _product(cursor) if mark == "+" else value - _product(cursor)
    return value


def _product(cursor: Cursor) -> _Number:
    value = _factor(cursor)
    while (mark := cursor.word()) in ("*", "/"):
        cursor.at += 1
        position = cursor.position
        factor = _factor(cursor)
        if mark == "/" and factor == 0:
            cursor.fail("division by zero", position)
        value = value * factor if mark == "*" else _quotient(value, factor)
    return value


def _quotient(value: _Number, by: _Number) -> _Number:
    exact = Fraction(value) / by
    return int(exact) if isinstance(value, int) and isinstance(by, int) else exact


def _factor(cursor: Cursor) -> _Number:
    token = cursor.peek()
    if cursor.take("-"):
        return -_factor(cursor)
    if cursor.take("("):
        value = _sum(cursor)
        cursor.expect(")")
        return value
    if token is None or token.token_type != TokenType.NUMBER:
        cursor.fail(f"a number is expected, not {cursor.next_text()}")
    if not token.text.replace(".", "", 1).isdecimal() or len(token.text) > 30:
        cursor.fail("a number is written in plain digits, at most 30")
    cursor.at += 1
    return Fraction(token.text) if "." in token.text else int(token.text)


def batch(cursor: Cursor, stops: tuple[str, ...] = ()) -> Batch:
    """`START condition STOP condition` (W6), up to one of `stops` or a closing parenthesis."""
    cursor.expect("START")
    start = single_expression(cursor, cursor.until(("STOP",)), "a condition")
    cursor.expect("STOP", " (a batch ends with the row for which the condition after it is true)")
    return Batch(start, single_expression(cursor, cursor.until(stops), "a condition"))
