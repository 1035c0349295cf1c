"""The clauses of MATCH_RECOGNIZE as parsed, and the rules by which one clause restricts another."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, NoReturn

from sqlglot import exp

from bridge.errors import nearest
from bridge.frontends.cursor import Cursor, NameToken
from bridge.frontends.sql.navigation import check
from bridge.query.row_pattern import PAST_LAST_ROW, PerMatch, RowPattern, Skip
from nfa.pattern import Empty, Pattern, symbols


class Subset(NamedTuple):
    name: NameToken
    members: tuple[NameToken, ...]


@dataclasses.dataclass
class PatternClauses:
    """The clauses as parsed. Fields of type `int | None` are the offsets of words that other clauses may forbid."""

    input_name: str = ""
    """The alias or the name of the input; "" if it has none."""
    partition_by: tuple[exp.Column, ...] = ()
    order_by: tuple[exp.Ordered, ...] = ()
    measures: tuple[tuple[NameToken, exp.Expr], ...] = ()
    per_match: PerMatch = PerMatch.ONE_ROW
    timed_out: int | None = None
    skip: Skip = PAST_LAST_ROW
    target: int | None = None
    pattern: Pattern = dataclasses.field(default_factory=Empty)
    exclusion: int | None = None
    absent: NameToken | None = None
    within: int | None = None
    subsets: tuple[Subset, ...] = ()
    define: tuple[tuple[NameToken, exp.Expr], ...] = ()


def row_pattern(cursor: Cursor, read: PatternClauses) -> RowPattern:
    known = symbols(read.pattern)
    variables = [*known, *(subset.name.text for subset in read.subsets)]
    if read.timed_out is not None and read.within is None:
        cursor.fail("without WITHIN after the pattern no match is ever timed out", read.timed_out)
    if read.exclusion is not None and read.per_match is PerMatch.WITH_UNMATCHED:
        cursor.fail("{- -} cannot stand beside WITH UNMATCHED ROWS, which shows every row", read.exclusion)
    _check_subsets(cursor, read.subsets, known)
    _check_target(cursor, read, variables)
    absent = () if read.absent is None else (_absent_symbol(cursor, read, read.absent, variables),)
    _check_defined(cursor, read, (*known, *absent))
    for _, condition in read.define:
        check(cursor, condition, [*variables, *absent], defining=True)
    return RowPattern(
        pattern=read.pattern,
        define=tuple((symbol.text, condition) for symbol, condition in read.define),
        measures=_aliases(cursor, read, variables),
        partition_by=read.partition_by,
        order_by=read.order_by,
        per_match=read.per_match,
        skip=read.skip,
        within=read.within,
        timed_out=read.timed_out is not None,
        absent=None if read.absent is None else read.absent.text,
        subsets=tuple((name.text, tuple(member.text for member in members)) for name, members in read.subsets),
    )


def _absent_symbol(cursor: Cursor, read: PatternClauses, absent: NameToken, variables: list[str]) -> str:
    if absent.text in variables:
        cursor.fail(f"{absent.text!r} cannot be absent and in the pattern: define a symbol of its own", absent.position)
    if read.within is None:
        cursor.fail("NOT needs WITHIN after the pattern: until when no such row may come", absent.position)
    if read.timed_out is not None:
        cursor.fail(
            "with NOT it is the match that time brings: WITH TIMED OUT MATCHES cannot stand here", read.timed_out
        )
    return absent.text


def _check_subsets(cursor: Cursor, subsets: tuple[Subset, ...], known: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name, members in subsets:
        if name.text in known:
            cursor.fail(f"{name.text!r} is a symbol of the pattern: the subset needs another name", name.position)
        if name.text in seen:
            cursor.fail(f"the subset {name.text!r} is written twice", name.position)
        seen.add(name.text)
        for place, member in enumerate(members):
            if member.text not in known:
                _unknown(cursor, member, "symbol", known)
            if member.text in [other.text for other in members[:place]]:
                cursor.fail(f"the subset {name.text!r} has {member.text!r} twice", member.position)


def _check_target(cursor: Cursor, read: PatternClauses, variables: list[str]) -> None:
    if read.skip.variable is not None and read.target is not None and read.skip.variable not in variables:
        _unknown(cursor, NameToken(read.skip.variable, read.target), "variable", variables)


def _check_defined(cursor: Cursor, read: PatternClauses, known: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for symbol, _ in read.define:
        if symbol.text in seen:
            cursor.fail(f"the symbol {symbol.text!r} is defined twice: join the conditions with OR", symbol.position)
        if symbol.text in [subset.name.text for subset in read.subsets]:
            cursor.fail(f"{symbol.text!r} is a subset: its symbols are what is defined", symbol.position)
        if symbol.text not in known:
            hint = nearest(symbol.text, list(known))
            cursor.fail(f"the symbol {symbol.text!r} is defined but not in PATTERN{hint}", symbol.position)
        seen.add(symbol.text)


def _unknown(cursor: Cursor, name: NameToken, what: str, known: tuple[str, ...] | list[str]) -> NoReturn:
    cursor.fail(f"the {what} {name.text!r} is not in PATTERN{nearest(name.text, list(known))}", name.position)


def _aliases(cursor: Cursor, read: PatternClauses, variables: list[str]) -> tuple[exp.Alias, ...]:
    seen: set[str] = set()
    for name, value in read.measures:
        if name.text.lower() in seen:
            cursor.fail(f"two measures are called {name.text!r}", name.position)
        seen.add(name.text.lower())
        check(cursor, value, variables)
    return tuple(_alias(name, value) for name, value in read.measures)


def _alias(name: NameToken, value: exp.Expr) -> exp.Alias:
    alias = exp.to_identifier(name.text)
    alias.meta["start"] = name.position
    return exp.Alias(this=value, alias=alias)
