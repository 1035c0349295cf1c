"""EPL's match_recognize ( … ), from its text to an EagerMatch.

Its clauses are in a fixed order: PARTITION BY, MEASURES, ALL MATCHES, AFTER MATCH SKIP, PATTERN, INTERVAL or WITHIN,
DEFINE.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from sqlglot import TokenType, exp

from bridge.errors import nearest
from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl import row_pattern as epl_rows
from bridge.frontends.epl.column_names import numbered
from bridge.frontends.epl.cursor import period
from bridge.frontends.epl.pattern_scope import NamedExpression, PatternScope
from bridge.frontends.expressions import position_of
from bridge.query.epl_columns import COMPUTED_KEY
from bridge.query.epl_patterns import EagerMatch
from bridge.query.nodes import Map, Node, Window
from bridge.query.row_pattern import RowPattern
from nfa.pattern import Pattern, symbols
from nfa.skip import After
from windows.sql import identifier

_CLAUSES = ("MEASURES", "ALL", "AFTER", "PATTERN", "INTERVAL", "WITHIN", "DEFINE")
_AFTER = {"LAST": After.PAST_LAST_ROW, "NEXT": After.TO_NEXT_ROW, "CURRENT": After.TO_CURRENT_ROW}
_REPORT = {"PASTLAST": After.PAST_LAST_ROW, "TONEXT": After.TO_NEXT_ROW, "TOCURRENT": After.TO_CURRENT_ROW}
"""The words of the technical report for these."""


@dataclasses.dataclass
class _MatchClauses:
    partition_by: tuple[exp.Expr, ...] = ()
    measures: tuple[NamedExpression, ...] = ()
    all_matches: bool = False
    after: After = After.PAST_LAST_ROW
    interval: int | None = None
    or_terminated: bool = False
    within: int | None = None
    define: tuple[NamedExpression, ...] = ()


def match_recognize(cursor: Cursor, alias: str) -> Callable[[Node], EagerMatch]:
    """Steps over `match_recognize ( … )`. `alias`: the name of its input."""
    cursor.expect("MATCH_RECOGNIZE")
    cursor.expect("(")
    read = _MatchClauses()
    if cursor.take("PARTITION BY"):
        read.partition_by = _keys(cursor, alias)
    cursor.expect("MEASURES", " (what a match reports)")
    read.measures = _measures(cursor)
    if cursor.take("ALL"):
        cursor.expect("MATCHES")
        read.all_matches = True
    if cursor.take("AFTER"):
        read.after = _skip(cursor)
    cursor.expect("PATTERN")
    cursor.expect("(")
    pattern = epl_rows.pattern(cursor)
    cursor.expect(")")
    if cursor.take("INTERVAL"):
        read.interval = period(cursor)
        if cursor.take("OR"):
            cursor.expect("TERMINATED")
            read.or_terminated = True
    elif cursor.take("WITHIN"):
        read.within = period(cursor)
    if cursor.take("DEFINE"):
        read.define = _definitions(cursor)
    cursor.expect(")")
    return _eager_match(cursor, read, pattern, alias)


def _keys(cursor: Cursor, alias: str) -> tuple[exp.Expr, ...]:
    region = cursor.until(_CLAUSES)
    keys = epl_expressions.expression_list(cursor, region, "a column to partition by")
    for key in keys:
        if key.find(exp.AggFunc) or isinstance(key, exp.Star):
            cursor.fail("partition by wants columns, or values computed from one event's", position_of(key))
    for column in (column for key in keys for column in key.find_all(exp.Column)):
        if column.table and column.table.lower() != alias.lower():
            cursor.fail(f"unknown input {column.table!r}; there is {alias!r}", position_of(column))
        column.set("table", None)
    return keys


def _measures(cursor: Cursor) -> tuple[NamedExpression, ...]:
    found = []
    while True:
        position = cursor.position
        region = cursor.until((",", *_CLAUSES))
        name = _dotted_name(cursor, region)
        region = region if name is None else Region(region.start, region.end - 4)
        (written,) = epl_expressions.untranslated_list(cursor, region, "a measure")
        if name is None and not isinstance(written, exp.Alias):
            cursor.fail("a measure has a name: … as name", position)
        found.append(NamedExpression(name or written.alias, position, region, written.unalias()))
        if not cursor.take(","):
            return tuple(found)


def _dotted_name(cursor: Cursor, region: Region) -> str | None:
    """The name `c.id` of a measure `C.id as c.id`; None for a plain name."""
    last = [word_of(token) for token in cursor.tokens[max(region.start, region.end - 4) : region.end]]
    is_dotted = last[::2] == ["AS", "."]
    return cursor.slice(Region(region.end - 3, region.end)) if is_dotted else None


def _skip(cursor: Cursor) -> After:
    cursor.expect("MATCH")
    cursor.expect("SKIP")
    if cursor.word() in _REPORT:
        cursor.at += 1
        return _REPORT[cursor.word(-1)]
    if not (cursor.take("TO") or cursor.take("PAST")):
        cursor.fail(f"PAST LAST ROW, TO NEXT ROW or TO CURRENT ROW is expected, not {cursor.next_text()}")
    word = cursor.word()
    if word not in _AFTER:
        cursor.fail(f"LAST, NEXT or CURRENT is expected, not {cursor.next_text()}")
    cursor.at += 1
    cursor.expect("ROW")
    return _AFTER[word]


def _definitions(cursor: Cursor) -> tuple[NamedExpression, ...]:
    found = []
    while True:
        position = cursor.position
        name = cursor.name("a pattern variable to define")
        cursor.expect("AS")
        region = _condition(cursor)
        (written,) = epl_expressions.untranslated_list(cursor, region, "a condition")
        if isinstance(written, exp.Alias):
            cursor.fail(f"unexpected {written.alias!r}", position_of(written.args["alias"]))
        found.append(NamedExpression(name, position, region, written))
        # The report repeats DEFINE, and an example in Esper's documentation omits a comma.
        if not (cursor.take(",") or cursor.take("DEFINE") or cursor.word(1) == "AS"):
            return tuple(found)


def _condition(cursor: Cursor) -> Region:
    """Steps over a condition, up to a comma, DEFINE, or the `B as` of the next definition."""
    region = cursor.until((",", "DEFINE", "AS"))
    before = cursor.tokens[region.end - 2] if region.end - region.start > 2 else None
    ends = before is not None and (before.token_type in _VALUES or word_of(before) in (")", "]", "}"))
    if cursor.word() != "AS":
        return region
    if not ends:
        cursor.at = region.start
        return cursor.until((",", "DEFINE"))
    cursor.at -= 1
    return Region(region.start, cursor.at)


_VALUES = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING)


def _eager_match(cursor: Cursor, read: _MatchClauses, pattern: Pattern, alias: str) -> Callable[[Node], EagerMatch]:
    known = symbols(pattern)
    seen: set[str] = set()
    for one in read.define:
        if one.name in seen:
            cursor.fail(f"the variable {one.name!r} is defined twice", one.position)
        if one.name not in known:
            cursor.fail(
                f"the variable {one.name!r} is not in the pattern{nearest(one.name, list(known))}", one.position
            )
        seen.add(one.name)
    scope = PatternScope(cursor, pattern, tuple(key.name.lower() for key in read.partition_by), alias)
    define = tuple((one.name, dataclasses.replace(scope, symbol=one.name).read(one)) for one in read.define)
    if read.within is not None:
        define = _with_limit(dict(define), known, read.within)
    names = numbered(one.name for one in read.measures)
    measures = tuple(map(_named, map(scope.read, read.measures), names))
    columns, keys = _key_columns(read.partition_by)
    clause = RowPattern(pattern, define, measures, keys)
    rest = (clause, read.after, read.all_matches, read.interval, read.or_terminated)
    return lambda node: EagerMatch(_with_columns(node, columns), *rest)


def _with_limit(
    define: Mapping[str, exp.Expr], known: Sequence[str], milliseconds: int
) -> tuple[tuple[str, exp.Expr], ...]:
    """The definitions of all variables; their rows must also be within the interval after the match's first row."""
    passed = exp.Sub(this=exp.column("ts"), expression=exp.Anonymous(this="FIRST", expressions=[exp.column("ts")]))
    limit = exp.LT(this=passed, expression=exp.Literal.number(milliseconds))
    return tuple((name, exp.and_(limit.copy(), define[name]) if name in define else limit.copy()) for name in known)


def _key_columns(keys: Sequence[exp.Expr]) -> tuple[tuple[exp.Expr, ...], tuple[exp.Column, ...]]:
    """The columns that are added to each row for computed keys, and the columns that partition the rows."""
    columns, found = list[exp.Expr](), list[exp.Column]()
    for place, key in enumerate(keys):
        if not isinstance(key, exp.Column):
            columns.append(exp.alias_(key, f"{COMPUTED_KEY}{place}", quoted=True))
            key = exp.column(identifier(f"{COMPUTED_KEY}{place}"))
        found.append(key)
    return tuple(columns), tuple(found)


def _with_columns(node: Node, columns: tuple[exp.Expr, ...]) -> Node:
    """The rows with more columns, which are added before the rows enter a window."""
    if not columns:
        return node
    if isinstance(node, Window):
        return dataclasses.replace(node, input=_with_columns(node.input, columns))
    return Map(node, (exp.Star(), *columns))


def _named(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=identifier(name))
