"""What conditions read, in words and as text of the clause."""

from __future__ import annotations

from sqlglot import exp

from bridge import write
from bridge.flow import number, whole
from bridge.recognize.conditions import Grade
from bridge.recognize.values import CURRENT, Atom, Fold, Label, Number, Place, shift_of

GRADES = {
    Grade.ROW: "about the row alone",
    Grade.START: "reads rows at a known distance from the first",
    Grade.RUN: "reads the match so far",
}


def text(expression: exp.Expr) -> str:
    """An expression over rows of the input as one would write it; PREV and NEXT for what reads their neighbours.

    >>> from sqlglot import parse_one
    >>> text(parse_one('(("a") > (_SHIFT("a", -2)))'))
    'a > PREV(a, 2)'
    >>> text(parse_one('("a" > 1 OR "b" > 2) AND ("c")'))
    '(a > 1 OR b > 2) AND c'
    """
    holder = exp.Paren(this=expression.transform(_navigation))
    for name in holder.find_all(exp.Identifier):
        name.set("quoted", False)  # those that need quotes get them again
    for node in [*holder.find_all(exp.Paren)]:
        if node is not holder and _is_idle(node, holder):
            node.replace(node.this)
    return write.scalar(holder.this)


def _is_idle(node: exp.Paren, holder: exp.Paren) -> bool:
    """Whether parentheses change nothing."""
    inner, above = node.this, node.parent
    if above is holder or whole(inner) is inner:
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
    """What an atom stands for.

    >>> from sqlglot import parse_one
    >>> from bridge.recognize.values import Value
    >>> atom_text(Value(Place(("A",), first=True), parse_one("price"))), atom_text(Number())
    ('price of the first A', 'MATCH_NUMBER()')
    """
    match atom:
        case Number():
            return "MATCH_NUMBER()"
        case Fold(call, symbols):
            return f"{text(call)} over the rows so far{'' if symbols is None else ' that are ' + _any(symbols)}"
        case Label(place, shift):
            moved = f", {abs(shift)} row{'s' * (abs(shift) > 1)} {'later' if shift > 0 else 'earlier'}" if shift else ""
            return f"CLASSIFIER() of {place_text(place)}{moved}"
    return f"{text(atom.row)} of {place_text(atom.place)}"


def place_text(place: Place) -> str:
    """A row of a match.

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
