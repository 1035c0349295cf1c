"""The bridge's own clauses: inline schemas, durations, WINDOW ( … ), MATCHING ( … ) and EMIT.

A clause is parsed before its input's alias is known (`s WINDOW(…) AS x`), so it becomes a function that is applied to
the input after the whole FROM item was parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sqlglot import exp

from bridge.errors import QueryError, closest, nearest
from bridge.frontends.clauses import batch, duration, positive_integer, schema
from bridge.frontends.cursor import Cursor, NameToken, Region
from bridge.frontends.expressions import Qualifiers, expression_list, resolve, single_expression, without_aliases
from bridge.query.match import Definition, Match
from bridge.query.nodes import Node, Window
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
    expected_extents,
)
from windows.schema import Schema

Clause = Callable[[Node, Qualifiers], Node]


# WINDOW ---------------------------------------------------------------------------------------------------------------


def window(cursor: Cursor) -> Clause:
    """`WINDOW ( [PARTITION BY key, …] RANGE … | ROWS … | UNBOUNDED | NOW | START … STOP … )`."""
    cursor.expect("WINDOW")
    cursor.expect("(")
    keys = _partition(cursor, tuple(_EXTENTS))
    extent = _extent(cursor)
    cursor.expect(")")

    def windowed(node: Node, names: Qualifiers) -> Node:
        own = extent.with_expressions(lambda expression: resolve(cursor, [expression], names)[0])
        return Window(node, own, resolve(cursor, keys, names))

    return windowed


def _partition(cursor: Cursor, stops: tuple[str, ...]) -> tuple[exp.Expr, ...]:
    if not cursor.take("PARTITION BY"):
        return ()
    return without_aliases(cursor, expression_list(cursor, cursor.until(stops), "a key to partition by"))


def _extent(cursor: Cursor) -> Extent:
    position, read = cursor.position, _EXTENTS.get(cursor.word())
    if read is None:
        cursor.fail(f"{expected_extents()} is expected, not {cursor.next_text()}{closest(cursor.word(), [*_EXTENTS])}")
    try:
        return read(cursor)
    except ValueError as error:
        cursor.fail(str(error), position)


def _range(cursor: Cursor) -> Range:
    """`RANGE 5 S [SLIDE 1 S [OFFSET 1 S | OFFSET FIRST] | STEP 1 S]` (W1, W3)."""
    cursor.expect("RANGE")
    size = duration(cursor)
    if cursor.take("STEP"):
        return Range(size, step=duration(cursor))
    slide = duration(cursor) if cursor.take("SLIDE") else None
    if cursor.take("OFFSET", "FIRST"):
        return Range(size, slide, first=True)
    return Range(size, slide, duration(cursor) if cursor.take("OFFSET") else 0)


def _rows(cursor: Cursor) -> Extent:
    """`ROWS 10 [SLIDE 5 [FULL]]` (W2, W3), or `ROWS 3 ORDER BY …` (W9)."""
    cursor.expect("ROWS")
    count = positive_integer(cursor)
    if cursor.take("ORDER BY"):
        return _top(cursor, count)
    slide = positive_integer(cursor) if cursor.take("SLIDE") else None
    return Rows(count, slide, cursor.take("FULL"))


def _first(cursor: Cursor) -> Extent:
    """`FIRST ROWS 10` or `FIRST RANGE 5 S` (W7)."""
    cursor.expect("FIRST")
    if cursor.take("ROWS"):
        return FirstRows(positive_integer(cursor))
    cursor.expect("RANGE")
    return FirstRange(duration(cursor))


def _session(cursor: Cursor) -> Session:
    """`SESSION 5 S` (W8)."""
    cursor.expect("SESSION")
    return Session(duration(cursor))


def _trailing(cursor: Cursor) -> Trailing:
    """`TRAILING 5 S [ROWS 10] [OF v]` (W10)."""
    cursor.expect("TRAILING")
    size = duration(cursor)
    count = positive_integer(cursor) if cursor.take("ROWS") else None
    return Trailing(
        size, count, single_expression(cursor, cursor.until(()), "an expression") if cursor.take("OF") else None
    )


def _tumbling(cursor: Cursor) -> Tumbling:
    """`TUMBLING 5 S [OFFSET 1 S] OF v` (W11)."""
    cursor.expect("TUMBLING")
    size, origin = duration(cursor), None
    if cursor.take("OFFSET"):
        origin = 0 if cursor.take("0", "MS") else duration(cursor)
    cursor.expect(
        "OF", f" (the column whose time counts; by the time of the events it is RANGE {size} MS SLIDE {size} MS)"
    )
    return Tumbling(size, single_expression(cursor, cursor.until(()), "an expression"), origin)


def _top(cursor: Cursor, count: int) -> Top:
    """`v DESC, w [LAST OF k, …]`, after `ROWS 3 ORDER BY` (W9)."""
    terms = []
    while True:
        this = single_expression(cursor, cursor.until((",", "ASC", "DESC", "LAST")), "an expression to order by")
        descending = cursor.take("DESC")
        cursor.take("ASC")
        terms.append(exp.Ordered(this=this, desc=descending))
        if not cursor.take(","):
            break
    if not cursor.take("LAST"):
        return Top(count, tuple(terms))
    cursor.expect("OF")
    return Top(count, tuple(terms), without_aliases(cursor, expression_list(cursor, cursor.until(()), "a key")))


def _unbounded(cursor: Cursor) -> Unbounded:
    cursor.expect("UNBOUNDED")
    return Unbounded()


def _now(cursor: Cursor) -> Now:
    cursor.expect("NOW")
    return Now()


_EXTENTS: dict[str, Callable[[Cursor], Extent]] = {
    "RANGE": _range, "ROWS": _rows, "UNBOUNDED": _unbounded, "NOW": _now, "START": batch, "FIRST": _first,
    "SESSION": _session, "TRAILING": _trailing, "TUMBLING": _tumbling,
}  # fmt: skip
"""The parser of each kind of window, by its first word."""


# MATCHING -------------------------------------------------------------------------------------------------------------


class _SymbolDefinition(NamedTuple):
    symbol: NameToken
    condition: exp.Expr | None
    assignments: tuple[tuple[NameToken, exp.Expr], ...]


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

    def match(node: Node, names: Qualifiers) -> Node:
        define = tuple(_definition(cursor, one, names) for one in defined)
        return Match(node, pattern, within, measures, define, resolve(cursor, keys, names))

    return match


def _pattern_text(cursor: Cursor) -> Region:
    # Parentheses do not end it, as the pattern's own parser should point at an open group. A symbol `within` is quoted.
    start = cursor.at
    while cursor.peek() and cursor.word() not in ("WITHIN", "MEASURES", "DEFINE", ";"):
        cursor.at += 1
    if cursor.word() != "WITHIN":
        cursor.at = start
        cursor.until(("MEASURES", "DEFINE"))
    if start == cursor.at:
        cursor.fail(f"a pattern is expected, not {cursor.next_text()}")
    return Region(start, cursor.at)


def _pattern(cursor: Cursor, region: Region, names: list[str]) -> Pattern:
    try:
        return parse_pattern(cursor.slice(region), names=names, offset=cursor.span(region)[0])
    except PatternError as error:
        raise QueryError(error.message, cursor.text, error.position) from None


def _definitions(cursor: Cursor) -> list[_SymbolDefinition]:
    # The paper's listing has no commas between definitions.
    defined = [_symbol_definition(cursor)]
    while cursor.take(",") or cursor.has_name():
        defined.append(_symbol_definition(cursor))
    return defined


def _symbol_definition(cursor: Cursor) -> _SymbolDefinition:
    symbol = _name(cursor, "a symbol to define")
    condition = single_expression(cursor, _up_to(cursor, "DO"), "a condition") if cursor.take("AS") else None
    return _SymbolDefinition(symbol, condition, tuple(_assignments(cursor)) if cursor.take("DO") else ())


def _assignments(cursor: Cursor) -> Iterable[tuple[NameToken, exp.Expr]]:
    yield _assignment(cursor)
    # After a comma comes the next assignment or the next definition.
    while cursor.word() == "," and cursor.word(2) == "=":
        cursor.expect(",")
        yield _assignment(cursor)


def _assignment(cursor: Cursor) -> tuple[NameToken, exp.Expr]:
    variable = _name(cursor, "a variable to set")
    cursor.expect("=")
    return variable, single_expression(cursor, _up_to(cursor), "a value")


def _up_to(cursor: Cursor, *stops: str) -> Region:
    """The region up to a comma, one of `stops`, or the next definition's `symbol AS` or `symbol DO`."""
    region = cursor.until((",", "AS", "DO", *stops))
    ends_before_symbol = cursor.word() == "AS" or (cursor.word() == "DO" and "DO" not in stops)
    if ends_before_symbol and region.end - region.start > 1:
        cursor.at -= 1
    return Region(region.start, cursor.at)


def _name(cursor: Cursor, what: str) -> NameToken:
    position = cursor.position
    return NameToken(cursor.name(what), position)


def _definition(cursor: Cursor, one: _SymbolDefinition, names: Qualifiers) -> Definition:
    condition = None if one.condition is None else resolve(cursor, [one.condition], names)[0]
    variables = [variable.text for variable, _ in one.assignments]
    values = resolve(cursor, [value for _, value in one.assignments], names)
    return Definition(one.symbol.text, condition, tuple(zip(variables, values, strict=True)))


def _check_names(cursor: Cursor, defined: list[_SymbolDefinition], pattern: Pattern, measures: Schema) -> None:
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


# EMIT -----------------------------------------------------------------------------------------------------------------


def on_change(cursor: Cursor) -> dict[str, bool]:
    if not cursor.take("EMIT"):
        return {}
    cursor.expect("ON", " (EMIT ON CHANGE)")
    every = cursor.take("EVERY")
    cursor.expect("CHANGE", " (EMIT ON CHANGE)")
    return {"every_change" if every else "on_change": True}


def step_final(cursor: Cursor) -> None:
    """`EMIT FINAL` and `EMIT ON WINDOW CLOSE` say what windows do anyway."""
    position = cursor.position
    if not cursor.take("EMIT"):
        return
    if not (cursor.take("FINAL") or cursor.take("ON", "WINDOW", "CLOSE")):
        cursor.fail(
            "windows are reported once, at their end (EMIT FINAL): for the state at each row write "
            "WINDOW(RANGE 10 S), or GROUP BY without a window",
            position,
        )
