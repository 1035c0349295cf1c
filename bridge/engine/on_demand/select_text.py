"""On-demand queries, recognised by their words: a text that is one, or the part of a script that is one."""

from __future__ import annotations

from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, word_of


def is_select(text: str) -> bool:
    """Whether a text is an on-demand query, rather than the name of a continuous query.

    >>> is_select("SELECT 1"), is_select("select"), is_select("WITH t AS (VALUES (1)) SELECT * FROM t")
    (True, False, True)
    """
    try:
        cursor = Cursor(text)
    except QueryError:
        return False
    return cursor.word() in ("SELECT", "WITH", "VALUES", "FROM", "(") and len(cursor.tokens) > 1


def on_demand_part(script: str) -> tuple[int, int]:
    """The start and end of a script's SELECT with MATCH_RECOGNIZE outside CREATE QUERY; (0, 0) if there is none.

    >>> script = "CREATE STREAM s (a INTEGER); SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))"
    >>> script[slice(*on_demand_part(script))]
    'SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))'
    """
    tokens = Cursor(script).tokens
    ends = [place for place, token in enumerate(tokens) if word_of(token) == ";"]
    first = 0
    for end in [*ends, len(tokens)]:
        words = [word_of(token) for token in tokens[first:end]]
        if "MATCH_RECOGNIZE" in words and words[0] != "CREATE":
            return tokens[first].start, tokens[end - 1].end + 1
        first = end + 1
    return 0, 0
