"""The conditions of DEFINE, split into a part that depends only on the row and a part that depends on the match."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Sequence

from sqlglot import exp

from bridge.errors import quantity
from bridge.patterns.values import (
    CURRENT,
    Atom,
    Classifier,
    MatchAggregate,
    MatchExpression,
    MatchNumber,
    Place,
    Value,
    read,
    shift_of,
)
from bridge.query.expression_text import scalar_text
from bridge.query.row_pattern import RowPattern
from nfa.pattern import Concatenation, Exclusion, Pattern, Quantified, Symbol, length_bounds, symbols, walk
from windows.sql import conjuncts, number, parenthesized


class Grade(enum.IntEnum):
    """The other rows that a condition reads: none, rows at a known distance from the first, or any rows."""

    ROW = 0
    START = 1
    RUN = 2


@dataclasses.dataclass(frozen=True)
class Condition:
    """The condition of a symbol: its part over the row alone, and its part over the match so far. None means true."""

    symbol: str
    row: exp.Expr | None
    rest: MatchExpression | None
    grade: Grade


def conditions(clause: RowPattern, fields: Sequence[str], is_aggregate: Callable[[str], bool]) -> tuple[Condition, ...]:
    """The conditions of all symbols, in the order of `nfa.symbols`; a symbol without one always holds."""
    defined = dict(clause.define)
    return tuple(
        _condition(symbol, defined.get(symbol), clause, fields, is_aggregate) for symbol in symbols(clause.pattern)
    )


def _condition(
    symbol: str,
    condition: exp.Expr | None,
    clause: RowPattern,
    fields: Sequence[str],
    is_aggregate: Callable[[str], bool],
) -> Condition:
    if condition is None:
        return Condition(symbol, None, None, Grade.ROW)
    alone: list[exp.Expr] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(condition):
        valued = read(part, clause, fields, symbol, is_aggregate=is_aggregate)
        row = of_row(valued)
        if row is None:
            rest.append(part)
        else:
            alone.append(row)
    left = conjoined(rest)
    joined = None if left is None else read(left, clause, fields, symbol, is_aggregate=is_aggregate)
    grade = Grade.ROW if joined is None else _grade(joined, clause)
    return Condition(symbol, conjoined(alone), joined, grade)


def conjoined(parts: Sequence[exp.Expr]) -> exp.Expr | None:
    """The conjunction of the parts; None without parts."""
    wrapped: list[exp.Expr] = [exp.Paren(this=part.copy()) for part in parts]
    return functools.reduce(lambda left, right: exp.And(this=left, expression=right), wrapped) if wrapped else None


def of_row(match_expression: MatchExpression) -> exp.Expr | None:
    """The condition as an expression over the row, if it does not read other rows; else None."""
    if not match_expression.atoms:
        return match_expression.expression
    only = match_expression.only
    return only.row if isinstance(only, Value) and only.place == CURRENT else None


def _grade(rest: MatchExpression, clause: RowPattern) -> Grade:
    known = [atom for atom in rest.atoms if isinstance(atom, Value) and distance(atom.place, clause) is not None]
    current = [atom for atom in rest.atoms if isinstance(atom, Value) and atom.place == CURRENT]
    return Grade.START if len(known) + len(current) == len(rest.atoms) else Grade.RUN


def reads_match_number(conditions: Sequence[Condition]) -> bool:
    """Whether a condition reads MATCH_NUMBER(), so that the match from a start depends on the matches before it."""
    return any(isinstance(atom, MatchNumber) for c in conditions if c.rest for atom in c.rest.atoms)


def distance(place: Place, clause: RowPattern) -> int | None:
    """The distance of a place from the match's first row, if it is the same in all matches that have the place.

    Else None.
    """
    if place.symbols is None:
        return place.offset if place.first else None
    if len(place.symbols) != 1 or place.offset:
        return None
    return _positions(clause.pattern).get(place.symbols[0])


@functools.lru_cache(maxsize=256)
def _positions(pattern: Pattern) -> dict[str, int]:
    """The distances of the symbols that occur once in the pattern, for one row at a known distance from the first."""
    names = [node.name for node in walk(pattern) if isinstance(node, Symbol)]
    found: dict[str, int] = {}
    before = 0
    for part in pattern.parts if isinstance(pattern, Concatenation) else (pattern,):
        inner = part.part if isinstance(part, Exclusion) else part
        if isinstance(inner, Symbol) and names.count(inner.name) == 1:
            found[inner.name] = before
        least, most = length_bounds(part)
        if least != most:
            break
        before += least
    return found


def at_an_end(place: Place, clause: RowPattern) -> Place:
    """The same place, counted from the first or last row of the whole match if the pattern determines it.

    >>> from nfa import parse_pattern
    >>> clause = RowPattern(parse_pattern("A B* C+"))
    >>> at_an_end(Place(("C",), final=True), clause).symbols, at_an_end(Place(("B",), final=True), clause).symbols
    (None, ('B',))
    """
    if place.symbols is None or place.offset or not place.final or clause.timed_out or clause.absent is not None:
        return place  # a partial match has no end of the pattern
    known = distance(place, clause)
    if known is not None:
        return dataclasses.replace(place, symbols=None, first=True, offset=known)
    parts = clause.pattern.parts if isinstance(clause.pattern, Concatenation) else (clause.pattern,)
    end = parts[0] if place.first else parts[-1]
    if isinstance(end, Quantified) and end.least > 0:
        end = end.part
    there = isinstance(end, Symbol) and end.name in place.symbols
    return dataclasses.replace(place, symbols=None) if there else place


# Texts for explanations

GRADES = {
    Grade.ROW: "about the row alone",
    Grade.START: "reads rows at a known distance from the first",
    Grade.RUN: "reads the match so far",
}


def text(expression: exp.Expr) -> str:
    """An expression over rows of the input as text of a clause, with PREV and NEXT.

    >>> from sqlglot import parse_one
    >>> text(parse_one('(("a") > (_SHIFT("a", -2)))'))
    'a > PREV(a, 2)'
    >>> text(parse_one('("a" > 1 OR "b" > 2) AND ("c")'))
    '(a > 1 OR b > 2) AND c'
    """
    holder = exp.Paren(this=expression.transform(_navigation))
    for name in holder.find_all(exp.Identifier):
        name.set("quoted", False)  # the dialect quotes again the names that need it
    for node in [*holder.find_all(exp.Paren)]:
        if node is not holder and _is_idle(node, holder):
            node.replace(node.this)
    return scalar_text(holder.this)


def _is_idle(node: exp.Paren, holder: exp.Paren) -> bool:
    """Whether parentheses are redundant."""
    inner, above = node.this, node.parent
    if above is holder or parenthesized(inner) is inner:
        return True
    compares = isinstance(inner, exp.Predicate)
    return (isinstance(above, exp.And) and compares) or (
        isinstance(above, (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)) and isinstance(inner, _ARITHMETIC)
    )


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg)


def _navigation(node: exp.Expr) -> exp.Expr:
    by = shift_of(node)
    if by is None:
        return node
    more = [] if abs(by) == 1 else [number(abs(by))]
    return exp.Anonymous(this="PREV" if by < 0 else "NEXT", expressions=[node.expressions[0].copy(), *more])


def atom_text(atom: Atom) -> str:
    """An atom in words.

    >>> from sqlglot import parse_one
    >>> from bridge.patterns.values import Value
    >>> atom_text(Value(Place(("A",), first=True), parse_one("price"))), atom_text(MatchNumber())
    ('price of the first A', 'MATCH_NUMBER()')
    """
    match atom:
        case MatchNumber():
            return "MATCH_NUMBER()"
        case MatchAggregate(call=call, symbols=symbols):
            return f"{text(call)} over the rows so far{'' if symbols is None else ' that are ' + _any(symbols)}"
        case Classifier(place, shift):
            moved = f", {quantity(abs(shift), 'row')} {'later' if shift > 0 else 'earlier'}" if shift else ""
            return f"CLASSIFIER() of {place_text(place)}{moved}"
    return f"{text(atom.row)} of {place_text(atom.place)}"


def place_text(place: Place) -> str:
    """A place of a match in words.

    >>> place_text(CURRENT), place_text(Place(first=True)), place_text(Place(("A", "B"), offset=2))
    ('this row', 'the first row', 'the A or B 2 before the last')
    """
    if place == CURRENT:
        return "this row"
    kind = "row" if place.symbols is None else _any(place.symbols)
    end = "first" if place.first else "last"
    if not place.offset:
        return f"the {end} {kind}"
    return f"the {kind} {place.offset} {'after the first' if place.first else 'before the last'}"


def _any(symbols: tuple[str, ...]) -> str:
    return " or ".join(symbols)
