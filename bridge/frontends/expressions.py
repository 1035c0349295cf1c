"""The expressions in a query: their tokens are found here, sqlglot parses them, and unsupported parts are refused.

sqlglot parses more than a continuous query supports, and drops some of what it parses. Both are refused here, with the
place in the text.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

import sqlglot
from sqlglot import Token, exp

from bridge.check.paths import is_path, path
from bridge.check.types import type_name
from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.dialect import parsed as in_dialect
from bridge.query.epl_columns import TYPE
from bridge.query.expressions import parsed
from bridge.query.nodes import Correlate, Node, without_filters
from bridge.query.words import NOT_OPERANDS, WORD

_OVER = "OVER is not supported here: put a query with it in its select list into FROM"
_SUBQUERY = (
    "a sub-query cannot stand in an expression: put it into FROM and correlate; IN and EXISTS are conditions of WHERE, which AND "
    "may join with others"
)
_FLAT = "a column is written name or input.name"
_BEFORE_STAR = (None, "(", ",", ".", "DISTINCT", "ALL")
_STAR = "* EXCEPT, REPLACE and the like are not supported: name the columns"
_PARAMETERS = "a query has no parameters: write the value"


# Nodes that a parsed expression must not contain, with the error message, and the words by which the place is found.
_REFUSED: tuple[tuple[tuple[type[exp.Expr], ...], str, tuple[str, ...]], ...] = (
    ((exp.Query, exp.Table, exp.Values), _SUBQUERY, ("SELECT", "VALUES", "TABLE", "FROM")),
    ((exp.Placeholder, exp.Parameter), _PARAMETERS, ("?", ":", "@", "??")),
    ((exp.Columns,), "COLUMNS is not supported: name the columns", ("COLUMNS",)),
    ((exp.Aliases, exp.Command), "not understood", ()),
)
_REFUSED_CLAUSES = {"into": "INTO is not supported: CREATE QUERY name AS SELECT … names a result"}


class TagColumns(NamedTuple):
    """The columns of an input that a query writes as `alias.tag.name` or `tag.name`; their names are `prefix_name`.

    `is_one`: there is a single column, whose name is `prefix`.
    """

    alias: str
    prefix: str
    is_one: bool = False


class Qualifiers(NamedTuple):
    """The qualifiers that an expression may use.

    `own`: the name of the single input, which is dropped. `aliases`: the inputs of a correlation, which stay. `inside`:
    tags within an input of a correlation, by its alias (None: written without it) and their own names. `values`: values
    by their full names, which are `qualifier.name` in lower case.
    """

    own: str | None
    aliases: tuple[str, ...]
    inside: Mapping[tuple[str | None, str], TagColumns] = MappingProxyType({})
    values: Mapping[str, exp.Expr] = MappingProxyType({})


def aliases_of(node: Node) -> tuple[str, ...]:
    """The aliases of a node that is a correlation or filters one."""
    node = without_filters(node)
    return tuple(alias for alias, _ in node.inputs) if isinstance(node, Correlate) else ()


def expression_list(cursor: Cursor, region: Region, what: str) -> tuple[exp.Expr, ...]:
    """The expressions of a region that the cursor has passed. `what` names them in error messages."""
    columns = unchecked_list(cursor, region, what)
    refuse_foreign(cursor, region, columns)
    return columns


def unchecked_list(cursor: Cursor, region: Region, what: str) -> tuple[exp.Expr, ...]:
    """The same without checks, for a language that first changes the expressions and then calls `refuse_foreign`."""
    if region.start == region.end:
        cursor.fail(f"{what} is expected, not {cursor.next_text()}")
    _require_no_gaps(cursor, region)
    select = _selected(cursor, region)
    # They are detached from the SELECT, as later passes look at parents.
    return tuple(cast("exp.Expr", column.pop()) for column in list(select.expressions))


def single_expression(cursor: Cursor, region: Region, what: str) -> exp.Expr:
    """The expression of a region, which must be a single one without an alias."""
    expression, *others = without_aliases(cursor, expression_list(cursor, region, what))
    if others:
        cursor.fail(f"{what} is expected, not {1 + len(others)} with commas between", cursor.span(region)[0])
    if isinstance(expression, exp.Star):
        cursor.fail(f"{what} is expected, not '*'", cursor.span(region)[0])
    return expression


def without_aliases(cursor: Cursor, expressions: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """The same expressions. Refuses an alias, which sqlglot also finds in any two words, such as `a b`."""
    for expression in expressions:
        if isinstance(expression, exp.Alias):
            _refuse_alias(cursor, expression)
    return expressions


def resolve(cursor: Cursor, expressions: Iterable[exp.Expr], names: Qualifiers) -> tuple[exp.Expr, ...]:
    """The expressions, with their qualifiers checked, and dropped if there is a single input."""
    return tuple(_resolved(cursor, expression, names) for expression in expressions)


def position_of(expression: exp.Expr) -> int | None:
    """The offset of the first name in an expression."""
    starts = [node.meta["start"] for node in expression.walk() if node.meta_get("start") is not None]
    return min(starts, default=None)


def _selected(cursor: Cursor, region: Region) -> exp.Select:
    start, _ = cursor.span(region)
    tree = _read(cursor, region, start)
    if not isinstance(tree, exp.Select) or not tree.expressions:
        raise QueryError("an expression is expected", cursor.text, start)
    for key, value in tree.args.items():
        if value and key != "expressions":
            message = _REFUSED_CLAUSES.get(key, f"{key.strip('_').upper()} is not supported here")
            raise QueryError(message, cursor.text, _place(cursor, region, (key.strip("_").upper(),)))
    return tree


def _read(cursor: Cursor, region: Region, start: int) -> exp.Expr:
    # sqlglot parses the expression as a SELECT list, because an expression may begin with a word that begins a
    # statement, as in `comment = 1`. It gets only this piece of the script, as it would tokenize a long script for each
    # expression. So all offsets are moved by that of the piece.
    lead = "SELECT "
    try:
        tree = _tree(cursor, region, lead)
    except QueryError as error:
        _refuse_foreign_words(cursor, region)
        place = max(0, (error.position or 0) - len(lead))
        raise QueryError(error.message, cursor.text, start + place) from None
    for node in tree.walk():
        for edge in ("start", "end"):
            if node.meta_get(edge) is not None:
                node.meta[edge] += start - len(lead)
        for relative in ("line", "col"):
            node.meta.pop(relative, None)
    _give_stars_places(cursor, region, tree)
    return tree


def _give_stars_places(cursor: Cursor, region: Region, tree: exp.Expr) -> None:
    """Gives each `*` that means columns its offset in the text, which sqlglot stores only for names."""
    tokens = cursor.tokens[region.start : region.end]
    before = [None, *map(word_of, tokens)]
    places = [
        token.start
        for token, word in zip(tokens, before, strict=False)
        if word_of(token) == "*" and word in _BEFORE_STAR
    ]
    stars = [node for node in tree.dfs() if isinstance(node, exp.Star)]
    if len(stars) == len(places):
        for star, start in zip(stars, places, strict=True):
            star.meta["start"] = start


def _refuse_foreign_words(cursor: Cursor, region: Region) -> None:
    """Refuses, by their words, a sub-query or `* EXCEPT …` that sqlglot could not parse."""
    for first, second in itertools.pairwise(cursor.tokens[region.start : region.end]):
        match word_of(first), word_of(second):
            case "(", "SELECT":
                cursor.fail(_SUBQUERY, second.start)
            case "*", ("EXCEPT" | "EXCLUDE" | "REPLACE" | "RENAME"):
                cursor.fail(_STAR, first.start)


def _tree(cursor: Cursor, region: Region, lead: str) -> exp.Expr:
    text = lead + cursor.slice(region)
    return in_dialect(text, sqlglot.tokenize(text), cursor.dialect) if cursor.dialect else parsed(text)


def _require_no_gaps(cursor: Cursor, region: Region) -> None:
    # sqlglot does not report a superfluous comma, or an AS without a name.
    before = "("
    for index in range(region.start, region.end + 1):
        word = word_of(cursor.tokens[index]) if index < region.end else ")"
        comma = index - (before == ",")
        if (word == "," and before in ("(", "[", ",")) or (before == "," and word in (")", "]")):
            cursor.fail("an expression is missing beside ','", cursor.tokens[comma].start)
        if before == "AS" and word in (",", ")", "]"):
            cursor.fail("a name is expected after AS", cursor.tokens[index - 1].end + 1)
        before = word or "name"


def refuse_foreign(cursor: Cursor, region: Region, columns: tuple[exp.Expr, ...]) -> None:
    """Refuses nodes that an expression over streams must not contain, with their places."""
    for node in (below for column in columns for below in column.walk()):
        for kinds, message, words in _REFUSED:
            if isinstance(node, kinds):
                cursor.fail(message, _place(cursor, region, words))
        if isinstance(node, exp.Window):
            cursor.fail(_OVER, _place(cursor, region, ("OVER",)))
        if isinstance(node, exp.Dot) and not (
            is_path(node) and isinstance(node.this, (exp.Column, exp.Dot, exp.Bracket))
        ):
            cursor.fail(_FLAT, _place(cursor, region, (".",)))
        if isinstance(node, exp.Alias) and node.parent is not None:
            _refuse_alias(cursor, node)
        if isinstance(node, exp.In) and node.args.get("field"):
            cursor.fail("IN wants a list of values in parentheses", position_of(node.args["field"]))
        if isinstance(node, exp.Star) and any(node.args.values()):
            cursor.fail(_STAR, _place(cursor, region, "*"))
        if isinstance(node, exp.Identifier) and not node.args.get("quoted"):
            _refuse_word(cursor, node)


def _refuse_word(cursor: Cursor, word: exp.Identifier) -> None:
    if word.name.startswith("$"):
        cursor.fail(_PARAMETERS, word.meta_get("start"))
    if not WORD.fullmatch(word.name) or word.name.upper() in NOT_OPERANDS:
        cursor.fail(f"{word.name!r} is not a name unless it is written in double quotes", word.meta_get("start"))


def _refuse_alias(cursor: Cursor, alias: exp.Alias) -> None:
    cursor.fail(f"unexpected {alias.alias!r}", position_of(alias.args["alias"]))


def _place(cursor: Cursor, region: Region, words: Collection[str]) -> int:
    found = (token.start for token in cursor.tokens[region.start : region.end] if word_of(token) in words)
    return next(found, cursor.span(region)[0])


def _resolved(cursor: Cursor, expression: exp.Expr, names: Qualifiers) -> exp.Expr:
    for column in list(expression.find_all(exp.Column)):
        qualifier = column.args.get("table")
        if qualifier is not None and (found := names.inside.get((column.db or None, qualifier.name))) is not None:
            _rename(cursor, column, qualifier, found)
            continue
        if qualifier is None:
            continue
        if (value := names.values.get(f"{qualifier.name}.{column.name}".lower())) is not None and not column.db:
            expression = _replaced(expression, column, value.copy())
            continue
        changed = _without_own(cursor, column, names)
        expression = _replaced(expression, column, changed) if changed is not column else expression
    return expression


def _without_own(cursor: Cursor, column: exp.Column, names: Qualifiers) -> exp.Expr:
    """`s.a.b` as the field `b` of the column `a` of the input `s`. A single input's qualifier is dropped."""
    words = [column.args[part] for part in ("catalog", "db", "table") if column.args.get(part) is not None]
    first = words[0]
    own = names.own is not None and first.name.lower() == names.own.lower()
    kept = not own and first.name.lower() in [name.lower() for name in names.aliases]
    if isinstance(column.this, exp.Star):
        if len(words) > 1 or not (own or kept):
            cursor.fail(_FLAT if len(words) > 1 else _unknown(first, names), first.meta_get("start"))
        return cast("exp.Expr", column.this) if own else column
    rest = [*words, column.this][own or kept :]
    if column.name == TYPE and not (own or kept):
        return type_name(exp.Column(this=first.copy()))
    if kept and len(rest) == 1:
        return column
    found: exp.Expr = exp.Column(this=rest[0].copy(), table=first.copy() if kept else None)
    for name in rest[1:]:
        found = exp.Dot(this=found, expression=name.copy())
        if not (own or kept):
            found.meta["unknown"] = _unknown(first, names)
    return _indexed(found)


def _indexed(found: exp.Expr) -> exp.Expr:
    """A column named `items[0]`, in EPL's notation, as that value of the list `items`."""
    for column in list(found.find_all(exp.Column)):
        known = re.fullmatch(r"(.*)\[(\d+|last|count)\]", column.name, re.DOTALL)
        if known is None:
            continue
        name = exp.to_identifier(known[1])
        name.meta.update(column.this.meta)
        base = exp.Column(this=name, table=column.args.get("table"))
        if known[2] == "count":
            return exp.ArraySize(this=base)
        place = path(base, -1 if known[2] == "last" else int(known[2]))
        if column is found:
            return place
        column.replace(place)
    return found


def _rename(cursor: Cursor, column: exp.Column, qualifier: exp.Identifier, found: TagColumns) -> None:
    """Renames the column `tag.name` or `alias.tag.name` to the column of the input that it refers to."""
    if isinstance(column.this, exp.Star):
        cursor.fail(f"{qualifier.name}.* is not supported in a join: name the columns", position_of(qualifier))
    name = found.prefix if found.is_one else f"{found.prefix}_{column.name}"
    for key, text in (("this", name), ("table", found.alias)):
        identifier = exp.to_identifier(text, quoted=True)
        identifier.meta.update(qualifier.meta)
        column.set(key, identifier)
    column.set("db", None)


def _unknown(qualifier: exp.Identifier, names: Qualifiers) -> str:
    known = ", ".join(map(repr, names.aliases or filter(None, [names.own])))
    return f"unknown input {qualifier.name!r}; there is {known}"


def _replaced(expression: exp.Expr, column: exp.Column, by: exp.Expr) -> exp.Expr:
    if column is expression:
        return by.pop() if by.parent is column else by
    column.replace(by)
    return expression


# Misspelt keywords that cause a syntax error at one of the next words

_FIRST = ("SELECT", "WITH", "CREATE")
_LATER = (
    "FROM", "WHERE", "GROUP", "HAVING", "UNION", "JOIN", "INNER", "CROSS", "EMIT", "WINDOW", "MATCHING",
    "MATCH_RECOGNIZE", "ORDER", "LIMIT",
)  # fmt: skip
_OF_PATTERNS = ("PARTITION", "MEASURES", "AFTER", "MATCH", "PATTERN", "WITHIN", "SUBSET", "DEFINE")
"""Words within MATCHING and MATCH_RECOGNIZE."""

_BEFORE_OPERAND = frozenset(
    (
        "SELECT", "FROM", "WHERE", "HAVING", "ON", "AND", "OR", "NOT", "AS", "BY", "IN", "IS", "LIKE", "BETWEEN", "CASE",
        "WHEN", "THEN", "ELSE", "JOIN", "WITH", "CREATE", "STREAM", "QUERY", "TABLE", "OF",
    )
)  # fmt: skip
_BACK = 3
"""The greatest number of words between a misspelt keyword and the error; sqlglot takes an unknown word for an alias."""

_CLOSE = 0.72


def with_spelling_hint(error: QueryError, cursor: Cursor) -> QueryError:
    """The error, moved to the misspelt keyword that causes it; unchanged if there is none.

    >>> text = "SELECT price FORM trades"
    >>> print(with_spelling_hint(QueryError("unexpected 'trades'", text, 18), Cursor(text)))
    unexpected 'FORM'; did you mean FROM? (line 1, column 14)
      SELECT price FORM trades
                   ^
    """
    if error.position is None:
        return error
    last = next((at for at, token in enumerate(cursor.tokens) if token.end >= error.position), len(cursor.tokens) - 1)
    for at in range(last, max(last - _BACK, 0) - 1, -1):
        if word := _similar_keyword(cursor, at):
            token = cursor.tokens[at]
            shown = cursor.text[token.start : token.end + 1]
            return QueryError(f"unexpected {shown!r}; did you mean {word}?", cursor.text, token.start)
    return error


def _similar_keyword(cursor: Cursor, at: int) -> str | None:
    """The keyword that a word resembles, if a keyword is possible there: at the beginning, or after an operand."""
    word, before = word_of(cursor.tokens[at]), cursor.tokens[max(at - 1, 0)]
    in_pattern = any(word_of(token) in ("MATCHING", "MATCH_RECOGNIZE") for token in cursor.tokens[:at])
    later = (*_LATER, *_OF_PATTERNS) if in_pattern else _LATER
    if not WORD.fullmatch(word) or word in (*cursor.reserved, *_FIRST, *later):
        return None
    first = at == 0 or word_of(before) == ";"
    if not first and not _can_end_operand(before):
        return None
    close = difflib.get_close_matches(word, _FIRST if first else later, n=1, cutoff=_CLOSE)
    return close[0] if close else None


def _can_end_operand(token: Token) -> bool:
    word = word_of(token)
    return word == "" or word in (")", "]", "*") or (word[-1].isalnum() and word.split()[-1] not in _BEFORE_OPERAND)


def all_of(conditions: tuple[exp.Expr, ...]) -> exp.Expr:
    """The conjunction of the conditions, as the parser would build it for their texts joined by AND.

    >>> print(all_of((exp.condition("a OR b"), exp.condition("c"))))
    (a OR b) AND c
    """
    if len(conditions) == 1:
        return conditions[0]
    parts = [part for condition in conditions for part in _operands(condition)]
    return functools.reduce(lambda left, right: exp.And(this=left, expression=right), parts)


def _operands(condition: exp.Expr) -> list[exp.Expr]:
    if isinstance(condition, exp.And):
        return list(condition.flatten(unnest=False))
    return [exp.Paren(this=condition) if isinstance(condition, exp.Connector) else condition]
