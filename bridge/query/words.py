"""Words with a meaning in the bridge's SQL, which need quotes as names."""

from __future__ import annotations

import re

WORD = re.compile(r"[^\W\d][\w$]*")
"""A name that needs no quotes, unless the language uses the word."""

RESERVED = frozenset(
    (
        "ALL", "AND", "ANTI", "AS", "ASOF", "BETWEEN", "BY", "CASE", "CLUSTER BY", "CREATE", "CROSS", "DISTINCT",
        "DISTRIBUTE BY", "ELSE", "EMIT", "END", "EXCEPT", "EXISTS", "FALSE", "FETCH", "FOR", "FROM", "FULL", "GROUP",
        "HAVING", "IN", "INNER", "INTERSECT", "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "MATCHING",
        "MATCH_RECOGNIZE", "MINUS", "NATURAL", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "ORDER BY", "OUTER",
        "PARTITION", "PIVOT", "QUALIFY", "RECURSIVE", "RIGHT", "SELECT", "SEMI", "SORT BY", "TABLE", "TABLESAMPLE",
        "THEN", "TRUE", "UNION", "UNNEST", "UNPIVOT", "USING", "VALUES", "WHEN", "WHERE", "WINDOW", "WITH",
    )
)  # fmt: skip
"""The words of continuous queries. `bridge.frontends.sql.select.REFUSED` has the reasons why some are refused."""

CLAUSE_WORDS = frozenset(
    (
        "WITHIN", "MEASURES", "DEFINE", "PATTERN", "DO", "RANGE", "ROWS", "SLIDE", "UNBOUNDED", "NOW", "OFFSET",
        "STEP", "FULL", "START", "STOP",
    )
)  # fmt: skip
"""Words that begin a part of WINDOW ( … ) or MATCHING ( … ); as names they are written in quotes."""

ROW_PATTERN_WORDS = ("MEASURES", "PATTERN", "WITHIN", "SUBSET", "DEFINE")
"""Words of MATCH_RECOGNIZE; as pattern variables they need quotes."""

NOT_OPERANDS = frozenset(
    (
        "ALL", "AND", "AS", "BETWEEN", "CASE", "ELSE", "FROM", "HAVING", "IN", "IS", "JOIN", "LIKE", "NOT", "ON",
        "OR", "SELECT", "THEN", "UNION", "WHEN", "WHERE",
    )
)  # fmt: skip
"""Words that sqlglot parses as names where an operand is missing."""
