"""The clauses of the bridge's own: inline schemas, durations, WINDOW ( … ) and MATCHING ( … ).

A clause is read before its input's alias is known (`s WINDOW(…) AS x`), so each gives a function that is applied to
the input when the whole FROM item has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sqlglot import exp

from bridge.errors import QueryError, nearest
from bridge.frontends.clauses import batch, duration, schema, whole
from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.expressions import Names, listed, plain, resolved, single
from bridge.query.nodes import Definition, Match, Node, Window
from nfa.errors import PatternError
from nfa.parse import parse_pattern
from nfa.pattern import Pattern, symbols
from windows.extent import Extent
from windows.extents import (
    FirstRange,
    FirstRows,
    Now,
    Range,
    Rows,
    Session,
    Top,
    Trailing,
    Tumbling,
    Unbounded,
)
from windows.schema import Schema

Clause = Callable[[Node, Names], Node]


# WINDOW ---------------------------------------------------------------------------------------------------------------


def window(cursor: Cursor) -> Clause:
    """`WINDOW ( [PARTITION BY key, …] RANGE … | ROWS … | UNBOUNDED | NOW | START … STOP … )`."""
    cursor.expect("WINDOW")
    cursor.expect("(")
    keys = _partition(
        cursor, ("RANGE", "ROWS", "UNBOUNDED", "NOW", "START", "FIRST", "SESSION", "TRAILING", "TUMBLING")
    )
    extent = batch(cursor) if cursor.word() == "START" else _extent(cursor)
    cursor.expect(")")

    def windowed(node: Node, names: Names) -> Node:
        own = extent.with_expressions(lambda expression: resolved(cursor, [expression], names)[0])
        return Window(node, own, resolved(cursor, keys, names))

    return windowed


def _partition(cursor: Cursor, stops: tuple[str, ...]) -> tuple[exp.Expr, ...]:
    if not cursor.take("PARTITION BY"):
        return ()
    return plain(cursor, listed(cursor, cursor.until(stops), "a key to partition by"))


def _extent(cursor: Cursor) -> Extent:
    position = cursor.position
    try:
        if cursor.take("RANGE"):
            return _range(cursor)
        if cursor.take("ROWS"):
            count = whole(cursor)
            if cursor.take("ORDER BY"):
                return _top(cursor, count)
            slide = whole(cursor) if cursor.take("SLIDE") else None
            return Rows(count, slide, cursor.take("FULL"))
        if cursor.take("FIRST"):
            cursor.expect("RANGE") if cursor.word() != "ROWS" else cursor.expect("ROWS")
            return FirstRows(whole(cursor)) if cursor.word(-1) == "ROWS" else FirstRange(duration(cursor))
        if cursor.take("TRAILING"):
            size = duration(cursor)
            most = whole(cursor) if cursor.take("ROWS") else None
            of = single(cursor, cursor.until(()), "an expression") if cursor.take("OF") else None
            return Trailing(size, most, of)
        if cursor.take("TUMBLING"):
            return _tumbling(cursor)
        if cursor.take("SESSION"):
            return Session(duration(cursor))
    except ValueError as error:
        cursor.fail(str(error), position)
    if cursor.take("UNBOUNDED"):
        return Unbounded()
    if not cursor.take("NOW"):
        cursor.fail(f"RANGE 5 S [SLIDE 1 S], ROWS 10 [SLIDE 5], UNBOUNDED or NOW is expected, not {cursor.shown()}")
    return Now()


def _range(cursor: Cursor) -> Range:
    size = duration(cursor)
    if cursor.take("STEP"):
        return Range(size, step=duration(cursor))
    slide = duration(cursor) if cursor.take("SLIDE") else None
    if cursor.take("OFFSET", "FIRST"):
        return Range(size, slide, first=True)
    return Range(size, slide, duration(cursor) if cursor.take("OFFSET") else 0)


def _tumbling(cursor: Cursor) -> Tumbling:
    """`5 S [OFFSET 1 S] OF v`, after `TUMBLING` (W11)."""
    size, origin = duration(cursor), None
    if cursor.take("OFFSET"):
        origin = 0 if cursor.take("0", "MS") else duration(cursor)
    cursor.expect("OF", " (the time that counts)")
    return Tumbling(size, single(cursor, cursor.until(()), "an expression"), origin)


def _top(cursor: Cursor, count: int) -> Top:
    """`v DESC, w [LAST OF k, …]`, after `ROWS 3 ORDER BY` (W9)."""
    terms = []
    while True:
        this = single(cursor, cursor.until((",", "ASC", "DESC", "LAST")), "an expression to order by")
        descending = cursor.take("DESC")
        cursor.take("ASC")
        terms.append(exp.Ordered(this=this, desc=descending))
        if not cursor.take(","):
            break
    if not cursor.take("LAST"):
        return Top(count, tuple(terms))
    cursor.expect("OF")
    return Top(count, tuple(terms), plain(cursor, listed(cursor, cursor.until(()), "a key")))


# MATCHING -------------------------------------------------------------------------------------------------------------


class _Name(NamedTuple):
    """A name and where it stands; the tree keeps names only, so what they refer to is checked while reading."""

    text: str
    position: int


class _Defined(NamedTuple):
    symbol: _Name
    condition: exp.Expr | None
    assignments: tuple[tuple[_Name, exp.Expr], ...]


def matching(cursor: Cursor) -> Clause:
    """`MATCHING ( [PARTITION BY …] PATTERN … WITHIN … MEASURES … [DEFINE …] )`, rules P1 to P7."""
    cursor.expect("MATCHING")
    cursor.expect("(")
    keys = _partition(cursor, ("PATTERN",))
    cursor.expect("PATTERN")
    raw = _pattern_text(cursor)
    cursor.expect("WITHIN", " (it bounds how long a match may last, and so what must be kept)")
    within = duration(cursor)
    cursor.expect("MEASURES", " (the variables that make up the result, each with its type)")
    measures = schema(cursor, ("DEFINE",))
    defined = _definitions(cursor) if cursor.take("DEFINE") else []
    cursor.expect(")")
    pattern = _pattern(cursor, raw, [one.symbol.text for one in defined])
    _check_names(cursor, defined, pattern, measures)

    def match(node: Node, names: Names) -> Node:
        define = tuple(_definition(cursor, one, names) for one in defined)
        return Match(node, pattern, within, measures, define, resolved(cursor, keys, names))

    return match


def _pattern_text(cursor: Cursor) -> Region:
    # Not by parentheses: an open group is for the pattern's own parser to point at. A symbol `within` is quoted.
    start = cursor.at
    while cursor.peek() and cursor.word() not in ("WITHIN", "MEASURES", "DEFINE", ";"):
        cursor.at += 1
    if cursor.word() != "WITHIN":
        cursor.at = start
        cursor.until(("MEASURES", "DEFINE"))
    if start == cursor.at:
        cursor.fail(f"a pattern is expected, not {cursor.shown()}")
    return Region(start, cursor.at)


def _pattern(cursor: Cursor, region: Region, names: list[str]) -> Pattern:
    try:
        return parse_pattern(cursor.slice(region), names=names, offset=cursor.span(region)[0])
    except PatternError as error:
        raise QueryError(error.message, cursor.text, error.position) from None


def _definitions(cursor: Cursor) -> list[_Defined]:
    # The paper's listing has no commas between its definitions.
    defined = [_defined(cursor)]
    while cursor.take(",") or cursor.has_name():
        defined.append(_defined(cursor))
    return defined


def _defined(cursor: Cursor) -> _Defined:
    symbol = _name(cursor, "a symbol to define")
    condition = single(cursor, _up_to(cursor, "DO"), "a condition") if cursor.take("AS") else None
    return _Defined(symbol, condition, tuple(_assignments(cursor)) if cursor.take("DO") else ())


def _assignments(cursor: Cursor) -> Iterable[tuple[_Name, exp.Expr]]:
    yield _assignment(cursor)
    # After a comma the next assignment or the next definition follows.
    while cursor.word() == "," and cursor.word(2) == "=":
        cursor.expect(",")
        yield _assignment(cursor)


def _assignment(cursor: Cursor) -> tuple[_Name, exp.Expr]:
    variable = _name(cursor, "a variable to set")
    cursor.expect("=")
    return variable, single(cursor, _up_to(cursor), "a value")


def _up_to(cursor: Cursor, *stops: str) -> Region:
    """The region up to a comma, one of `stops`, or the next definition's `symbol AS`."""
    region = cursor.until((",", "AS", *stops))
    if cursor.word() == "AS" and region.end - region.start > 1:
        cursor.at -= 1
    return Region(region.start, cursor.at)


def _name(cursor: Cursor, what: str) -> _Name:
    position = cursor.position
    return _Name(cursor.name(what), position)


def _definition(cursor: Cursor, one: _Defined, names: Names) -> Definition:
    condition = None if one.condition is None else resolved(cursor, [one.condition], names)[0]
    variables = [variable.text for variable, _ in one.assignments]
    values = resolved(cursor, [value for _, value in one.assignments], names)
    return Definition(one.symbol.text, condition, tuple(zip(variables, values, strict=True)))


def _check_names(cursor: Cursor, defined: list[_Defined], pattern: Pattern, measures: Schema) -> None:
    seen: set[str] = set()
    for symbol, _, assignments in defined:
        if symbol.text in seen:
            cursor.fail(f"the symbol {symbol.text!r} is defined twice: join the conditions with OR", symbol.position)
        if symbol.text not in symbols(pattern):
            hint = nearest(symbol.text, list(symbols(pattern)))
            cursor.fail(f"the symbol {symbol.text!r} is defined but not in PATTERN{hint}", symbol.position)
        seen.add(symbol.text)
        for variable, _ in assignments:
            if measures.find(variable.text) is None:
                hint = nearest(variable.text, measures.names)
                cursor.fail(f"the variable {variable.text!r} is not among MEASURES{hint}", variable.position)
