"""Expressions in the SQL of the database that computes them, parsed so that they are rendered as they were written.

sqlglot translates between databases: it parses many functions as nodes that it renders differently. Such a call becomes
a call of an unknown function here, which every step leaves unchanged. Constructs that the bridge defines on every
database (texts, quoted names, `||`, `/`, places in lists) are parsed in the same way for all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import Dialect, ErrorLevel, Token, TokenType, exp
from sqlglot.errors import SqlglotError

from bridge.errors import QueryError
from bridge.query.expressions import NOT_UNDERSTOOD, syntax_error

_NEUTRAL = {
    "INDEX_OFFSET": 0,  # a place in a list stays as written
    "TYPED_DIVISION": False,
    "SAFE_DIVISION": False,
    "STRICT_STRING_CONCAT": False,
    "DPIPE_IS_STRING_CONCAT": True,
}
"""Settings of a dialect that the bridge itself defines, on every database."""

_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)
_OPERAND_ENDS = (
    *_QUOTED, TokenType.VAR, TokenType.NUMBER, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.NULL, TokenType.TRUE,
    TokenType.FALSE, TokenType.END,
)  # fmt: skip
_PREFIX = "cep_call_"
"""The prefix for the names of functions that sqlglot must not recognise."""

_OWN_NODES = (
    exp.AggFunc, exp.Rand, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Localtime, exp.Localtimestamp,
    exp.Uuid,
)  # fmt: skip
"""Functions that the bridge looks for: aggregates, and those whose value does not depend only on their arguments."""

_OWN_CALLS = {"ARRAY_LENGTH": 1, "LENGTH": 1, "STDDEV": 1}
"""Functions that the bridge defines on every database, with their numbers of arguments.

MariaDB's own LENGTH counts bytes, and its STDDEV is that of the population.
"""

_IN_PAIRS = ("JSON_OBJECT",)
"""Functions whose arguments sqlglot parses as pairs, where each value may be any expression."""

_WORDS_OF_CALLS = (
    "FROM",
    "IN",
    "AS",
    "USING",
    "FOR",
    "PLACING",
    "ORDER BY",
    "SEPARATOR",
    "KEY",
    "VALUE",
    ":",
    "DISTINCT",
)
"""Words between the arguments of a call with special syntax."""

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_MOST_ARGUMENTS = 4


def parsed(text: str, neutral: Sequence[Token], dialect: str) -> exp.Expr:
    """The tree of a SELECT list in the SQL of a database.

    Args:
        text: The statement, without comments.
        neutral: The tokens of the bridge's SQL in this text, which tell where texts and quoted names are.
        dialect: sqlglot's name of the database's SQL.

    Raises:
        QueryError: It is not SQL of this database; the error points into `text`.

    >>> import sqlglot
    >>> def rendered(text, dialect):
    ...     return parsed(text, sqlglot.tokenize(text), dialect).sql(dialect)
    >>> rendered("SELECT x ^ 2, date_diff('minute', a, b)", "duckdb")
    "SELECT POWER(x, 2), DATE_DIFF('minute', a, b)"
    >>> rendered('SELECT "a" || \\'x\\'', "mysql")
    "SELECT CONCAT(`a`, 'x')"
    """
    settings = _dialect(dialect)
    try:
        tokens = list(_verbatim(_tokens(text, neutral, settings), dialect))
        marks = TokenType.DPIPE in settings.parser().DISJUNCTION
        tokens = list(_concatenating(tokens)) if marks else tokens
        tree = settings.parser().parse(tokens, text)[0]
    except NOT_UNDERSTOOD as error:
        raise syntax_error(error, text) from None
    except RecursionError:
        raise QueryError("the expression is nested too deeply", text) from None
    if tree is None:
        raise QueryError("an expression is expected", text)
    for marker in list(tree.find_all(exp.Cbrt)) if marks else []:
        if marker.meta_get("start") is None:  # calls have a place
            _concatenate(marker)
    for kind in tree.find_all(exp.DataType):
        if kind.this == _timestamp(dialect):
            kind.set("this", exp.DataType.Type.TIMESTAMP)
    for made in list(tree.find_all(exp.ToMap)):
        _spell_map(made)
    for comprehension in tree.find_all(exp.Comprehension):
        _bind_variable(comprehension)
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.startswith(_PREFIX):
            _restore(call, dialect)
    return tree


def with_places_as_written(expression: exp.Expr, dialect: str) -> exp.Expr:
    """The expression, changed in place so that places in lists are rendered as written."""
    for bracket in expression.find_all(exp.Bracket):
        bracket.set("offset", Dialect.get_or_raise(dialect).INDEX_OFFSET)
    return expression


@functools.cache
def _dialect(name: str) -> Dialect:
    found = Dialect.get_or_raise(name)
    for setting, value in _NEUTRAL.items():
        setattr(found, setting, value)
    return found


@functools.cache
def _timestamp(dialect: str) -> Any:
    """The types that sqlglot parses a dialect's TIMESTAMP as, such as one with a time zone for MariaDB."""
    return exp.DataType.build("TIMESTAMP", dialect=dialect).this


def _spell_map(node: exp.Expr) -> None:
    """Turns `MAP {'a': 1}` into `MAP(['a'], [1])`, as braces without MAP make an object."""
    pairs = node.this.expressions if isinstance(node.this, exp.Struct) else []
    if all(isinstance(pair, exp.PropertyEQ) for pair in pairs):
        keys, values = ([getattr(pair, side).pop() for pair in pairs] for side in ("this", "expression"))
        lists = [exp.Array(expressions=each) for each in (keys, values)]
        node.replace(exp.Anonymous(this="MAP", expressions=lists))


def _bind_variable(comprehension: exp.Expr) -> None:
    """Marks the variable of a list comprehension as not being a column."""
    variable = comprehension.expression.name
    for part in (comprehension.this, comprehension.args.get("condition"), comprehension.expression):
        for column in list(part.find_all(exp.Column)) if part is not None else []:
            if column.name == variable and not column.table:
                column.replace(column.this)


# Tokens ---------------------------------------------------------------------------------------------------------------


def _tokens(text: str, neutral: Sequence[Token], dialect: Dialect) -> Iterator[Token]:
    """The dialect's tokens, in which quotes mean what they mean in the bridge's SQL, and brackets are brackets."""
    quoted = {token.start: token for token in neutral if token.token_type in _QUOTED and _stands_alone(text, token)}
    brackets = {
        token.start: token for token in neutral if token.token_type in (TokenType.L_BRACKET, TokenType.R_BRACKET)
    }
    masked = list(text)
    for token in quoted.values():
        masked[token.start + 1 : token.end] = "x" * (token.end - token.start - 1)
    for start, token in brackets.items():
        masked[start] = "(" if token.token_type == TokenType.L_BRACKET else ")"
    for token in dialect.tokenize("".join(masked)):
        own = quoted.get(token.start) or brackets.get(token.start)
        yield token if own is None else _changed(token, own.token_type, own.text)


def _stands_alone(text: str, token: Token) -> bool:
    """Whether no letter before the quotes gives them a special meaning, as in `x'ff'`."""
    return token.start == 0 or not (text[token.start - 1].isalnum() or text[token.start - 1] in "_&")


def _changed(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _verbatim(tokens: Iterator[Token], dialect: str) -> Iterator[Token]:
    """The tokens, with other names for the functions that would not be rendered as written."""
    read = list(tokens)
    for place, token in enumerate(read):
        if _is_call(read, place) and not _is_faithful(dialect, token.text.upper(), _argument_count(read, place + 1)):
            yield _changed(token, TokenType.VAR, _PREFIX + token.text)
        else:
            yield token


def _is_call(tokens: Sequence[Token], place: int) -> bool:
    token, before = tokens[place], tokens[place - 1] if place else None
    if place + 1 == len(tokens) or tokens[place + 1].token_type != TokenType.L_PAREN or token.token_type in _QUOTED:
        return False
    first = before is None or before.token_type not in (*_OPERAND_ENDS, TokenType.DOT)
    return first and token.text.replace("_", "a").isalnum()


def _argument_count(tokens: Sequence[Token], opening: int) -> int:
    """The number of arguments in parentheses; -1 if more than commas separates them."""
    depth = count = 0
    for place in range(opening, len(tokens)):
        kind = tokens[place].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0:
            return count + (place > opening + 1)
        count += kind == TokenType.COMMA and depth == 1
        if depth == 1 and tokens[place].text.upper() in _WORDS_OF_CALLS:
            return -1
    return -1


def _concatenating(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with `| ||/` for each `||`, which the parser takes for OR.

    `||/`, an otherwise unused prefix, marks it.
    """
    for token in tokens:
        if token.token_type == TokenType.DPIPE:
            yield _changed(token, TokenType.PIPE, "|")
            yield _changed(token, TokenType.DPIPE_SLASH, "||/")
        else:
            yield token


def _concatenate(marker: exp.Expr) -> None:
    """Turns the `|` whose right side begins with a marker into `||`."""
    side: exp.Expr = marker
    while side.parent is not None and not (isinstance(side.parent, exp.BitwiseOr) and side.arg_key == "expression"):
        side = side.parent
    whole = side.parent
    marker.replace(marker.this)
    if whole is not None:
        whole.replace(exp.DPipe(this=whole.this, expression=whole.expression, safe=True))


# Functions ------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _is_faithful(dialect: str, name: str, count: int) -> bool:
    """Whether sqlglot renders a call of a function as it is written, or the bridge needs its node."""
    parser = _dialect(dialect).parser()
    if name in parser.FUNCTION_PARSERS:
        return count == -1 or name not in _IN_PAIRS
    if name in _OWN_CALLS:
        return False  # `_restore` creates its node
    if name not in parser.FUNCTIONS or _is_own(dialect, name):
        return True
    node = _node(dialect, name, max(count, 1))
    return node is not None and _is_rendered(node, dialect, name, max(count, 1))


@functools.lru_cache(maxsize=4096)
def _is_own(dialect: str, name: str) -> bool:
    return any(isinstance(_node(dialect, name, count), _OWN_NODES) for count in range(_MOST_ARGUMENTS))


def _arguments(count: int) -> list[exp.Expr]:
    return [exp.column(f"a{place}") for place in range(count)]


def _call(name: str, count: int) -> str:
    return f"{name}({', '.join(argument.name for argument in _arguments(count))})"


def _node(dialect: str, name: str, count: int) -> exp.Expr | None:
    """The node of a call with this number of arguments; None if sqlglot does not accept such a call."""
    settings = _dialect(dialect)
    try:
        (tree,) = settings.parser().parse(settings.tokenize("SELECT " + _call(name, count)), "")
    except (SqlglotError, AttributeError, TypeError):  # some builders return nothing
        return None
    return tree.expressions[0] if isinstance(tree, exp.Select) else None


def _is_rendered(node: exp.Expr, dialect: str, name: str, count: int) -> bool:
    try:
        text = Dialect.get_or_raise(dialect).generate(node, unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, KeyError, AttributeError, TypeError):  # the node lacks something that its text needs
        return False
    return text.upper() == _call(name, count).upper()


def _restore(call: exp.Anonymous, dialect: str) -> None:
    """The call under its own name, or as sqlglot's neutral node (whose type is known) if that is rendered alike."""
    name, arguments = call.name.removeprefix(_PREFIX), call.expressions
    call.set("this", name)
    if not _is_neutral(dialect, name.upper(), len(arguments)):
        return
    build = exp.FUNCTION_BY_NAME[name.upper()]
    typed = build.from_arg_list([argument.pop() for argument in list(arguments)])
    typed.meta.update(call.meta)
    call.replace(typed)


def _is_neutral(dialect: str, name: str, count: int) -> bool:
    """Whether a call becomes sqlglot's neutral node: the bridge defines it, or that node is rendered as written."""
    if name in _OWN_CALLS:
        return count == _OWN_CALLS[name]
    return name in exp.FUNCTION_BY_NAME and count <= _MOST_ARGUMENTS and _is_plain(dialect, name, count)


@functools.lru_cache(maxsize=4096)
def _is_plain(dialect: str, name: str, count: int) -> bool:
    """Whether sqlglot's own node of a function of this name is rendered as it is written."""
    build = exp.FUNCTION_BY_NAME[name]
    try:
        node = build.from_arg_list(_arguments(count))
    except (SqlglotError, IndexError, ValueError, TypeError):
        return False
    return len(list(node.find_all(exp.Column))) == count and _is_rendered(node, dialect, name, count)
