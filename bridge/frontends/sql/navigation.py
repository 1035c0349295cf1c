"""Expressions of MATCH_RECOGNIZE: sqlglot parses them, and the standard's rules for them are checked here.

`rowwise` parses an expression before the variables are known, as MEASURES comes before PATTERN; `check` completes it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import NoReturn, cast

from sqlglot import Token, exp

from bridge.errors import nearest
from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.expressions import position_of, single_expression
from bridge.query.row_pattern import (
    MOST_ROWS,
    NAMED_AS_VARIABLE,
    NAVIGATION,
    OF_THE_MATCH,
    SEMANTICS,
    variable_identifier,
)
from bridge.query.words import WORD

_OPPOSITE = {"PREV": "NEXT", "NEXT": "PREV"}
_WORDS = """AND OR NOT XOR BETWEEN IN LIKE ILIKE RLIKE GLOB SIMILAR IS ISNULL NOTNULL ESCAPE CASE WHEN THEN ELSE END AS
    DIV MOD COLLATE AT"""
_OPERATORS = frozenset(_WORDS.split())
"""Words that cannot be a function's name; RUNNING and FINAL before them are columns."""

_AROUND: dict[type[exp.Expr], str] = {
    exp.Filter: "FILTER is not supported here: give the aggregate a CASE WHEN … END",
    exp.IgnoreNulls: "IGNORE NULLS is not supported here: FIRST and LAST take the row as it is",
    exp.RespectNulls: "RESPECT NULLS is not written here: FIRST and LAST take the row as it is",
    exp.Lag: "LAG is not a function of row patterns: PREV(price) is of the row before, PREV(price, 2) two before",
    exp.Lead: "LEAD is not a function of row patterns: NEXT(price) is of the row after, NEXT(price, 2) two after",
    exp.WithinGroup: "WITHIN GROUP is not supported here: use an aggregate of plain arguments",
}


# Reading --------------------------------------------------------------------------------------------------------------


def rowwise(cursor: Cursor, region: Region, what: str) -> exp.Expr:
    """The expression of a region just passed, with functions of row patterns in the form of RowPattern.

    >>> cursor = Cursor("FINAL LAST(a.price, 1)")
    >>> print(rowwise(cursor, cursor.until(()), "a value").sql())
    FINAL(LAST(a.price, 1))
    """
    modes = dict(_modes(cursor, region))
    marked = copy.copy(cursor)
    for place in modes.values():
        marked.bare = _without(marked.bare, cursor.tokens[place])
    # Placed below a node of ours, so that the root is replaced like any other node.
    holder = exp.Paren(this=single_expression(marked, region, what))
    _refuse_calls_of_modes(cursor, holder)
    calls = list(holder.find_all(exp.Func))
    for name, place in modes.items():
        _wrap(cursor, _call(cursor, calls, name), cursor.tokens[place])
    for call in calls:
        _unify(call)
    return cast("exp.Expr", holder.this.pop())


def is_name(word: str) -> bool:
    """Whether a word between two others is a name, and not an operator of SQL.

    >>> is_name("LAST"), is_name("AND")
    (True, False)
    """
    return WORD.fullmatch(word) is not None and word not in _OPERATORS


def _modes(cursor: Cursor, region: Region) -> Iterator[tuple[int, int]]:
    """The indexes of functions' names after RUNNING or FINAL, and of these words."""
    for index in range(region.start, region.end - 1):
        before, word, after = (word_of(cursor.tokens[at]) for at in (index - 1, index, index + 1))
        qualified = index > region.start and before in (".", "AS")
        if word not in SEMANTICS or qualified or not is_name(after):
            continue
        if index + 2 >= region.end or word_of(cursor.tokens[index + 2]) != "(":
            _refuse_mode(cursor, cursor.tokens[index])
        yield index + 1, index


def _without(text: str, token: Token) -> str:
    return text[: token.start] + " " * (token.end + 1 - token.start) + text[token.end + 1 :]


def _refuse_mode(cursor: Cursor, mode: Token) -> NoReturn:
    cursor.fail(f"{mode.text.upper()} stands before FIRST, LAST or an aggregate only", mode.start)


def _refuse_calls_of_modes(cursor: Cursor, holder: exp.Expr) -> None:
    for call in holder.find_all(exp.Anonymous):
        if (name := call.name.upper()) in SEMANTICS:
            cursor.fail(f"{name} is written before a function, without parentheses: {name} LAST(price)", _place(call))


def _call(cursor: Cursor, calls: list[exp.Func], index: int) -> exp.Func | None:
    """The call whose name is the token at `index`, as sqlglot does not store the place of every function."""
    start = cursor.tokens[index].start
    end = _closing(cursor, index + 1)
    placeless = (call for call in calls if isinstance(call, exp.AggFunc) and call.meta_get("start") is None)
    inside = (call for call in placeless if start < (position_of(call) or -1) < end)
    return next((call for call in calls if call.meta_get("start") == start), None) or next(inside, None)


def _closing(cursor: Cursor, opening: int) -> int:
    depth = 0
    for token in cursor.tokens[opening:]:
        depth += (word_of(token) == "(") - (word_of(token) == ")")
        if depth == 0:
            return token.start
    return len(cursor.text)


def _wrap(cursor: Cursor, call: exp.Func | None, mode: Token) -> None:
    # A function that sqlglot does not know may be an aggregate of the database.
    unknown = isinstance(call, exp.Anonymous) and call.name.upper() not in ("PREV", "NEXT", *OF_THE_MATCH)
    if call is None or not (unknown or isinstance(call, exp.AggFunc)):
        _refuse_mode(cursor, mode)
    wrapped = _anonymous(mode.text.upper(), mode.start)
    call.replace(wrapped)
    wrapped.set("expressions", [call])


def _unify(call: exp.Func) -> None:
    if isinstance(call, (exp.First, exp.Last)):
        unified = _anonymous(type(call).__name__.upper(), _place(call))
        call.replace(unified)
        unified.set("expressions", [part for part in (call.this, call.args.get("expression")) if part])
    elif isinstance(call, exp.Anonymous) and call.name.upper() in (*NAVIGATION, *OF_THE_MATCH):
        call.set("this", call.name.upper())


def _anonymous(name: str, start: int | None) -> exp.Anonymous:
    call = exp.Anonymous(this=name)
    call.meta["start"] = start
    return call


# Checking -------------------------------------------------------------------------------------------------------------


def check(cursor: Cursor, expression: exp.Expr, variables: Collection[str], *, defining: bool = False) -> None:
    """Folds the names of variables in an expression of `rowwise`, and refuses what the standard refuses.

    Outermost first.
    """
    for column in list(expression.find_all(exp.Column)):
        _check_column(cursor, column, variables)
    for node in expression.walk():
        if message := _AROUND.get(type(node)):
            cursor.fail(message, _place(node))
        elif _name(node) == "FINAL" and defining:
            cursor.fail("FINAL has no meaning in DEFINE: the match has no last row yet", _place(node))
        elif _name(node) in OF_THE_MATCH:
            _check_of_the_match(cursor, node)
        elif _name(node) in NAVIGATION:
            _check_navigation(cursor, node)
        elif _is_aggregate(node):
            _check_aggregate(cursor, node)


def refuse_functions(cursor: Cursor, expression: exp.Expr, where: str) -> None:
    """Refuses functions of row patterns, aggregates and qualifiers where they have no meaning."""
    for node in expression.walk():
        if isinstance(node, exp.Column) and node.table:
            cursor.fail(f"the input has no name inside MATCH_RECOGNIZE: leave out {node.table!r}", _place(node))
        if _name(node) in (*NAVIGATION, *OF_THE_MATCH, *SEMANTICS) or _is_aggregate(node):
            cursor.fail(f"{_name(node) or 'an aggregate'} cannot stand in {where}: it needs a match", _place(node))


def _check_column(cursor: Cursor, column: exp.Column, variables: Collection[str]) -> None:
    qualifier = column.args.get("table")
    if column.args.get("db") is not None:
        cursor.fail("a column is written name or variable.name", _place(column))
    if isinstance(column.this, exp.Star) and not isinstance(column.parent, exp.Count):
        cursor.fail("* stands in COUNT only", _place(column))
    if _name(column.parent) == "CLASSIFIER" and qualifier is None:
        column.set("this", _variable(cursor, column.this, variables, ""))
    elif qualifier is not None:
        hint = "; if it is the input's name, leave it out"
        column.set("table", _variable(cursor, qualifier, variables, hint))
    elif column.name.upper() in variables:
        column.this.meta[NAMED_AS_VARIABLE] = True


def _variable(cursor: Cursor, written: exp.Identifier, variables: Collection[str], hint: str) -> exp.Identifier:
    name = written.name if written.args.get("quoted") else written.name.upper()
    if name not in variables:
        cursor.fail(f"unknown pattern variable {name!r}{nearest(name, list(variables))}{hint}", _place(written))
    folded = variable_identifier(name)
    folded.meta.update(written.meta)
    return folded


def _check_of_the_match(cursor: Cursor, call: exp.Expr) -> None:
    arguments, name = call.expressions, _name(call)
    if name == "MATCH_NUMBER" and arguments:
        cursor.fail("MATCH_NUMBER() has no argument", _place(call))
    variable = len(arguments) == 1 and isinstance(arguments[0], exp.Column) and not arguments[0].table
    if arguments and (not variable or isinstance(arguments[0].this, exp.Star)):
        cursor.fail("the argument of CLASSIFIER is a pattern variable, or there is none", _place(call))


def _check_navigation(cursor: Cursor, call: exp.Expr) -> None:
    name, arguments = _name(call), call.expressions
    if len(arguments) not in (1, 2):
        cursor.fail(f"{name} has a value and, after a comma, an offset", _place(call))
    if isinstance(arguments[0], (exp.Star, exp.Distinct, exp.Order, exp.Kwarg)):
        cursor.fail(f"{name} takes a plain value: {name}(price)", _place(call))
    if len(arguments) == 2:
        _check_offset(cursor, call, arguments[1])
    for inner in _calls(call):
        _check_nesting(cursor, call, inner)
    if not _qualifiers(call):
        cursor.fail(f"{name} names no row: its value has a column or CLASSIFIER() in it", _place(call))
    _check_one_variable(cursor, call, name)


def _check_offset(cursor: Cursor, call: exp.Expr, offset: exp.Expr) -> None:
    if isinstance(offset, exp.Literal) and not offset.is_string and offset.name.isdecimal():
        if int(offset.name) > MOST_ROWS:
            cursor.fail(f"the offset of {_name(call)} is at most {MOST_ROWS}", _place(call))
        return
    other = _OPPOSITE.get(_name(call)) if isinstance(offset, exp.Neg) else None
    hint = f"; {other} looks the other way" if other else ""
    message = f"the offset of {_name(call)} is a whole number, written in digits{hint}"
    start = offset.meta_get("start", position_of(offset))
    cursor.fail(message, _place(call) if start is None else start)


def _check_nesting(cursor: Cursor, call: exp.Expr, inner: exp.Expr) -> None:
    outer, name = _name(call), _name(inner)
    if _is_aggregate(inner):
        cursor.fail(f"an aggregate cannot stand in {outer}: navigation names one row", _place(inner))
    if outer in ("FIRST", "LAST"):
        way = f": write {name}({outer}(…))" if name in _OPPOSITE else ""
        cursor.fail(f"{name} cannot stand in {outer}{way}", _place(inner))
    if name in _OPPOSITE:
        cursor.fail(f"{name} cannot stand in {outer}: write one of them, with an offset", _place(inner))
    directly = inner.parent if _name(inner.parent) in SEMANTICS else inner
    if directly is not call.expressions[0]:
        cursor.fail(
            f"{name} in {outer} is its whole value: write {outer}({name}(a.x)), and compute outside", _place(inner)
        )


def _check_aggregate(cursor: Cursor, call: exp.Expr) -> None:
    for inner in _calls(call):
        what = _name(inner) if _name(inner) in NAVIGATION else "an aggregate"
        cursor.fail(f"{what} cannot stand in an aggregate, which goes over all rows of a variable", _place(inner))
    if isinstance(call.this, exp.Star) and not isinstance(call, exp.Count):
        cursor.fail("* stands in COUNT only", _place(call.this))
    _check_one_variable(cursor, call, "an aggregate")


def _check_one_variable(cursor: Cursor, call: exp.Expr, what: str) -> None:
    (first, _), *others = _qualifiers(call) or [("", None)]
    for qualifier, place in others:
        if qualifier != first:
            shown = " and ".join(repr(name) if name else "none" for name in (first, qualifier))
            cursor.fail(f"the columns in {what} belong to one variable, or all to none: here to {shown}", place)


# Looking at a tree ----------------------------------------------------------------------------------------------------


def _name(node: exp.Expr | None) -> str:
    """The name of a function of row patterns, or of another function that sqlglot does not know."""
    return node.name if isinstance(node, exp.Anonymous) else ""


def _is_aggregate(node: exp.Expr) -> bool:
    marked = _name(node.parent) in SEMANTICS and _name(node) not in NAVIGATION
    return isinstance(node, exp.AggFunc) or (marked and isinstance(node, exp.Func))


def _calls(call: exp.Expr) -> Iterator[exp.Expr]:
    """The navigation calls and the aggregates inside a call."""
    inside = (node for node in call.walk() if node is not call)
    return (node for node in inside if _name(node) in NAVIGATION or _is_aggregate(node))


def _qualifiers(call: exp.Expr) -> list[tuple[str, int | None]]:
    """The variable of each column and CLASSIFIER in a call, in the order of the text; "" stands for all rows."""
    found = []
    for node in call.walk():
        if _name(node) == "CLASSIFIER":
            found.append((node.expressions[0].name if node.expressions else "", _place(node)))
        elif isinstance(node, exp.Column) and _name(node.parent) != "CLASSIFIER":
            found.append((node.table, _place(node)))
    return sorted(found, key=lambda one: one[1] or 0)


def _place(node: exp.Expr) -> int | None:
    start = node.meta_get("start")
    return start if isinstance(start, int) else position_of(node)
