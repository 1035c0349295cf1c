"""MATCH_RECOGNIZE ( … ) of SQL:2016 (feature R010), from its text to a RowPattern.

The clauses are parsed first, in order; references are checked when all clauses are known. Extensions of the standard:
WITHIN after the pattern, and WITH TIMED OUT MATCHES.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import TokenType, exp

from bridge.errors import QueryError
from bridge.frontends.clauses import duration
from bridge.frontends.cursor import Cursor, NameToken, Region, word_of
from bridge.frontends.expressions import single_expression
from bridge.frontends.sql.navigation import is_name, refuse_functions, rowwise
from bridge.frontends.sql.pattern_clauses import PatternClauses, Subset, row_pattern
from bridge.query.row_pattern import PerMatch, RowPattern, Skip
from bridge.query.words import ROW_PATTERN_WORDS
from nfa.errors import PatternError
from nfa.parse import parse_pattern

_T = TypeVar("_T")

_ALONE = ("PARTITION BY", "ORDER BY", "MEASURES", "WITHIN", "SUBSET", "DEFINE")
_FOLLOWED = {"ONE": "ROW", "ALL": "ROWS", "AFTER": "MATCH", "INITIAL": "PATTERN", "SEEK": "PATTERN", "PATTERN": "("}
_STOPS = (*_ALONE, *_FOLLOWED)
_OPTIONS = (PerMatch.SHOW_EMPTY, PerMatch.OMIT_EMPTY, PerMatch.WITH_UNMATCHED)
_ALL_ROWS = "ALL ROWS PER MATCH"
_TIMED_OUT = "WITH TIMED OUT MATCHES"


def match_recognize(cursor: Cursor) -> RowPattern:
    """Steps over `MATCH_RECOGNIZE ( … )`.

    >>> clause = match_recognize(Cursor("MATCH_RECOGNIZE (PATTERN (a b+) DEFINE b AS price > PREV(b.price))"))
    >>> print(clause)
    MATCH_RECOGNIZE (PATTERN (A B+) DEFINE B AS price > PREV(B.price))
    """
    name = _input_name(cursor)
    cursor.expect("MATCH_RECOGNIZE")
    cursor.expect("(")
    read = _clauses(cursor, name)
    cursor.expect(")")
    return row_pattern(cursor, read)


# The clauses and their order ------------------------------------------------------------------------------------------


def _input_name(cursor: Cursor) -> str:
    """The name before the clause, or before the column list of an alias."""
    at = cursor.at - 1
    depth = 0
    while at > 0 and (word_of(cursor.tokens[at]) == ")" or depth):
        depth += {")": 1, "(": -1}.get(word_of(cursor.tokens[at]), 0)
        at -= 1
    return cursor.tokens[at].text if at >= 0 else ""


def _clauses(cursor: Cursor, input_name: str) -> PatternClauses:
    read, seen = PatternClauses(input_name), list[str]()
    while (word := cursor.word()) in _READERS:
        title, reader = _READERS[word]
        _check_order(cursor, title, seen)
        cursor.at += 1
        reader(cursor, read)
        seen.append(title)
    if "PATTERN" not in seen:
        cursor.fail(f"PATTERN ( … ) is expected, not {cursor.next_text()}")
    return read


def _check_order(cursor: Cursor, title: str, seen: list[str]) -> None:
    if title in seen:
        cursor.fail(f"{title} is written twice")
    later = [other for other in seen if _TITLES.index(other) > _TITLES.index(title)]
    if later:
        cursor.fail(f"{title} stands before {min(later, key=_TITLES.index)}")


def _partition_by(cursor: Cursor, read: PatternClauses) -> None:
    read.partition_by = _comma_list(cursor, lambda cursor: _partition_column(cursor, read.input_name))


def _partition_column(cursor: Cursor, input_name: str) -> exp.Column:
    start = cursor.position
    column = single_expression(cursor, _region(cursor, "a column to partition by", ","), "a column to partition by")
    if not isinstance(column, exp.Column):
        cursor.fail("PARTITION BY wants columns: compute the key in a sub-query before", start)
    _leave_away(input_name, column)
    refuse_functions(cursor, column, "PARTITION BY")
    return column


def _leave_away(input_name: str, expression: exp.Expr) -> None:
    """Removes the name of the input from its columns, which do not need it."""
    for column in expression.find_all(exp.Column):
        if column.table.lower() == input_name.lower() and column.args.get("db") is None:
            column.set("table", None)


def _order_by(cursor: Cursor, read: PatternClauses) -> None:
    read.order_by = _comma_list(cursor, lambda cursor: _ordered(cursor, read.input_name))


def _ordered(cursor: Cursor, input_name: str) -> exp.Ordered:
    key = rowwise(cursor, _region(cursor, "a value to order by", ",", "ASC", "DESC", "NULLS"), "a value to order by")
    _leave_away(input_name, key)
    refuse_functions(cursor, key, "ORDER BY")
    descending = not cursor.take("ASC") and cursor.take("DESC")
    # NULL is less than any value, as in every order of the bridge, unless the text says otherwise.
    first = not descending
    if cursor.take("NULLS"):
        first = cursor.take("FIRST")
        if not first:
            cursor.expect("LAST", " (or FIRST)")
    return exp.Ordered(this=key, desc=descending, nulls_first=first)


def _measures(cursor: Cursor, read: PatternClauses) -> None:
    read.measures = _comma_list(cursor, _measure)


def _measure(cursor: Cursor) -> tuple[NameToken, exp.Expr]:
    region = _region(cursor, "a measure", ",", "AS")
    if cursor.word() != "AS" and _is_named(cursor, region):
        cursor.fail("AS is expected before the measure's name", cursor.tokens[region.end - 1].start)
    value = rowwise(cursor, region, "a measure")
    cursor.expect("AS", " (and the measure's name)")
    position = cursor.position
    if _opens(cursor):
        cursor.fail(f"a name for the measure is expected, not {cursor.next_text()}")
    return NameToken(cursor.name("a name for the measure"), position), value


def _is_named(cursor: Cursor, region: Region) -> bool:
    """Whether a measure's name follows its value without AS, as some databases allow."""
    words = [word_of(token) for token in cursor.tokens[region.start : region.end]]
    return len(words) > 1 and is_name(words[-1]) and (words[-2] == ")" or is_name(words[-2]))


def _rows_per_match(cursor: Cursor, read: PatternClauses) -> None:
    every = cursor.word(-1) == "ALL"
    _expect(cursor, f"{'ROWS' if every else 'ROW'} PER MATCH")
    if every:
        chosen = (option for option in _OPTIONS if cursor.take(*_option(option).split()))
        read.per_match = next(chosen, PerMatch.SHOW_EMPTY)
    position = cursor.position
    if cursor.take(*_TIMED_OUT.split()):
        read.timed_out = position
    if cursor.word() in ("WITH", "SHOW", "OMIT"):
        options = ", ".join([*map(_option, _OPTIONS)] * every + [_TIMED_OUT])
        cursor.fail(f"what may follow here is {options}, not {cursor.next_text()}")


def _option(option: PerMatch) -> str:
    return option.value.removeprefix(_ALL_ROWS).strip()


def _after_match(cursor: Cursor, read: PatternClauses) -> None:
    _expect(cursor, "MATCH SKIP")
    if cursor.take("PAST"):
        _expect(cursor, "LAST ROW")
        return
    cursor.expect("TO", " (or PAST LAST ROW)")
    if cursor.take("NEXT", "ROW"):
        read.skip = Skip("TO NEXT ROW")
        return
    to = "TO FIRST" if cursor.take("FIRST") else "TO LAST"
    cursor.take("LAST")
    variable = _variable(cursor, "the variable to skip to")
    read.skip, read.target = Skip(to, variable.text), variable.position


def _initial(cursor: Cursor, read: PatternClauses) -> None:
    if cursor.word(-1) == "SEEK":
        cursor.at -= 1
        cursor.fail("SEEK is not supported: it belongs to patterns in a WINDOW clause; here each match is looked for")
    if cursor.word() != "PATTERN":
        cursor.fail(f"PATTERN is expected after INITIAL, not {cursor.next_text()}")


def _pattern(cursor: Cursor, read: PatternClauses) -> None:
    opening = cursor.expect("(", " (the pattern stands in parentheses)")
    region, read.absent = _absence(cursor, _pattern_region(cursor))
    start = cursor.tokens[region.start].start if region.start < len(cursor.tokens) else cursor.position
    text = cursor.slice(region) if region.start < region.end else ""
    try:
        read.pattern = parse_pattern(text, offset=start, fold=str.upper)
    except PatternError as error:
        raise QueryError(error.message, cursor.text, error.position) from None
    if read.absent is not None:
        cursor.at = region.end + 2
    if not cursor.take(")"):
        cursor.fail("the pattern is never closed by ')'", opening)
    read.exclusion = _exclusion(cursor, region)


def _pattern_region(cursor: Cursor) -> Region:
    # Parentheses alone do not end it, as the pattern's own parser should point at an open group.
    start, depth = cursor.at, 0
    while cursor.peek() and cursor.word() not in (*ROW_PATTERN_WORDS, ";") and (depth or cursor.word() != ")"):
        depth += (cursor.word() == "(") - (cursor.word() == ")")
        cursor.at += 1
    return Region(start, cursor.at)


def _absence(cursor: Cursor, region: Region) -> tuple[Region, NameToken | None]:
    """The region without the `NOT symbol` at its end, and that symbol."""
    at = region.end - 2
    places = [place for place in range(region.start, region.end) if word_of(cursor.tokens[place]) == "NOT"]
    if places and places[0] != at:
        cursor.fail("NOT stands before the last symbol of a pattern: PATTERN (A NOT B)", cursor.tokens[places[0]].start)
    if not places:
        return region, None
    token = cursor.tokens[at + 1]
    if at == region.start:
        cursor.fail("NOT stands after what it is the absence of: PATTERN (A NOT B)", cursor.tokens[at].start)
    name = token.text if token.token_type == TokenType.IDENTIFIER else token.text.upper()
    return Region(region.start, at), NameToken(name, token.start)


def _exclusion(cursor: Cursor, region: Region) -> int | None:
    words = ((cursor.tokens[at], cursor.tokens[at + 1]) for at in range(region.start, region.end))
    return next((one.start for one, two in words if (one.text, two.text) == ("{", "-")), None)


def _within(cursor: Cursor, read: PatternClauses) -> None:
    read.within = duration(cursor)


def _subset(cursor: Cursor, read: PatternClauses) -> None:
    read.subsets = _comma_list(cursor, _one_subset)


def _one_subset(cursor: Cursor) -> Subset:
    name = _variable(cursor, "a name for the subset")
    cursor.expect("=")
    cursor.expect("(", " (and the symbols of the subset)")
    members = _comma_list(cursor, lambda cursor: _variable(cursor, "a symbol of the subset"))
    cursor.expect(")")
    return Subset(name, members)


def _define(cursor: Cursor, read: PatternClauses) -> None:
    read.define = _comma_list(cursor, _definition)


def _definition(cursor: Cursor) -> tuple[NameToken, exp.Expr]:
    symbol = _variable(cursor, "a symbol to define")
    cursor.expect("AS", " (and the condition)")
    region = _region(cursor, "a condition", ",", "AS")
    if cursor.word() == "AS":
        cursor.fail("a comma is missing between two definitions", cursor.tokens[max(region.start, cursor.at - 1)].start)
    return symbol, rowwise(cursor, region, "a condition")


_Reader = Callable[[Cursor, PatternClauses], None]
_READERS: dict[str, tuple[str, _Reader]] = {
    "PARTITION BY": ("PARTITION BY", _partition_by),
    "ORDER BY": ("ORDER BY", _order_by),
    "MEASURES": ("MEASURES", _measures),
    "ONE": ("ROWS PER MATCH", _rows_per_match),
    "ALL": ("ROWS PER MATCH", _rows_per_match),
    "AFTER": ("AFTER MATCH SKIP", _after_match),
    "INITIAL": ("INITIAL", _initial),
    "SEEK": ("INITIAL", _initial),
    "PATTERN": ("PATTERN", _pattern),
    "WITHIN": ("WITHIN", _within),
    "SUBSET": ("SUBSET", _subset),
    "DEFINE": ("DEFINE", _define),
}
_TITLES = tuple(dict.fromkeys(title for title, _ in _READERS.values()))


# Steps of the cursor --------------------------------------------------------------------------------------------------


def _comma_list(cursor: Cursor, one: Callable[[Cursor], _T]) -> tuple[_T, ...]:
    found = [one(cursor)]
    while cursor.take(","):
        found.append(one(cursor))
    return tuple(found)


def _region(cursor: Cursor, what: str, *stops: str) -> Region:
    """The region of one expression. If the next clause begins instead, `what` is reported as missing."""
    if _opens(cursor) or cursor.word() == "AS":
        cursor.fail(f"{what} is expected, not {cursor.next_text()}")
    region = cursor.until((*stops, *_STOPS))
    if cursor.word() == "WITHIN" and cursor.word(1) == "GROUP":
        cursor.fail("WITHIN GROUP is not supported here: use an aggregate of plain arguments")
    return region


def _opens(cursor: Cursor) -> bool:
    """Whether a clause begins here. Words of clauses that the standard does not reserve may also be columns."""
    word = cursor.word()
    return word in _ALONE or (word in _FOLLOWED and cursor.word(1) == _FOLLOWED[word])


def _expect(cursor: Cursor, words: str) -> None:
    for word in words.split():
        cursor.expect(word)


def _variable(cursor: Cursor, what: str) -> NameToken:
    token, position = cursor.peek(), cursor.position
    if cursor.word() in ROW_PATTERN_WORDS:
        cursor.fail(f'{what} is expected, not {cursor.next_text()}; as a name it is quoted: "{cursor.word()}"')
    text = cursor.name(what)
    quoted = token is not None and token.token_type == TokenType.IDENTIFIER
    return NameToken(text if quoted else text.upper(), position)


# Rules between clauses ------------------------------------------------------------------------------------------------
