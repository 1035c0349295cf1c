"""Keywords that are misspelt: what a syntax error means, where the word before its place almost is one."""

from __future__ import annotations

import difflib

from sqlglot import Token

from bridge.errors import QueryError
from bridge.frontends.cursor import WORD, Cursor, word_of

_FIRST = ("SELECT", "WITH", "CREATE")
_LATER = (
    "FROM", "WHERE", "GROUP", "HAVING", "UNION", "JOIN", "INNER", "CROSS", "EMIT", "WINDOW", "MATCHING",
    "MATCH_RECOGNIZE", "ORDER", "LIMIT",
)  # fmt: skip
_BEFORE_OPERAND = frozenset(
    (
        "SELECT", "FROM", "WHERE", "HAVING", "ON", "AND", "OR", "NOT", "AS", "BY", "IN", "IS", "LIKE", "BETWEEN", "CASE",
        "WHEN", "THEN", "ELSE", "JOIN", "WITH", "CREATE",
    )
)  # fmt: skip
_BACK = 3
"""sqlglot takes a word that it does not know for an alias, so the error stands up to so many words later."""

_CLOSE = 0.72


def respelt(error: QueryError, cursor: Cursor) -> QueryError:
    """The error at the misspelt keyword that is its cause, or the same error where there is none.

    >>> text = "SELECT price FORM trades"
    >>> print(respelt(QueryError("unexpected 'trades'", text, 18), Cursor(text)))
    unexpected 'FORM'; did you mean FROM? (line 1, column 14)
      SELECT price FORM trades
                   ^
    """
    if error.position is None:
        return error
    last = next((at for at, token in enumerate(cursor.tokens) if token.end >= error.position), len(cursor.tokens) - 1)
    for at in range(last, max(last - _BACK, 0) - 1, -1):
        if word := _meant(cursor, at):
            token = cursor.tokens[at]
            shown = cursor.text[token.start : token.end + 1]
            return QueryError(f"unexpected {shown!r}; did you mean {word}?", cursor.text, token.start)
    return error


def _meant(cursor: Cursor, at: int) -> str | None:
    """The keyword that a name almost is, where one could stand: at the beginning, or after an operand."""
    word, before = word_of(cursor.tokens[at]), cursor.tokens[max(at - 1, 0)]
    if not WORD.fullmatch(word) or word in (*cursor.reserved, *_FIRST, *_LATER):
        return None
    first = at == 0 or word_of(before) == ";"
    if not first and not _ends_operand(before):
        return None
    close = difflib.get_close_matches(word, _FIRST if first else _LATER, n=1, cutoff=_CLOSE)
    return close[0] if close else None


def _ends_operand(token: Token) -> bool:
    word = word_of(token)
    return word == "" or word in (")", "]", "*") or (word[-1].isalnum() and word.split()[-1] not in _BEFORE_OPERAND)
