"""The clauses of SQL that a continuous query lacks, by their first word, with the reason and the alternative."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.frontends.cursor import Cursor

_ORDER = (
    "{} is not supported: results come in time order; ask cep.query for a sorted or shortened answer, or report the first "
    "ten so far: QUALIFY ROW_NUMBER() OVER (ORDER BY x) <= 10"
)
_JOIN = "a {} join is not supported: only what happened is reported; write JOIN … ON, CROSS JOIN or a comma"
_SET = "{} is not supported, as rows could have to be taken back: JOIN … ON with bounds of time, or NOT EXISTS with such bounds"
_SAMPLE = "{} is not supported: put a sub-query with the rows and columns you want into FROM"

_FAMILIES = {
    ("ORDER BY", "LIMIT", "OFFSET", "FETCH", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY"): _ORDER,
    ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF"): _JOIN,
    ("EXCEPT", "MINUS"): _SET,
    ("TABLESAMPLE", "PIVOT", "UNPIVOT"): _SAMPLE,
}

REFUSED = {
    **{word: message.format(word) for words, message in _FAMILIES.items() for word in words},
    "USING": "USING is not supported: write the condition, JOIN … ON l.a = r.a",
    "LATERAL": "LATERAL is not supported: correlate the streams with a condition",
    "DISTINCT": "DISTINCT stands directly after SELECT",
    "QUALIFY": "QUALIFY stands after WHERE, once",
    "WINDOW": "named windows are not supported: WINDOW( … ) stands directly after the stream it belongs to, OVER has its own",
    "MATCHING": "MATCHING wants its clauses in parentheses, directly after the stream it belongs to",
    "MATCH_RECOGNIZE": "MATCH_RECOGNIZE wants its clauses in parentheses, directly after the stream it belongs to",
    "FOR": "FOR is not supported: a stream is read as its events arrive, and a table as it is then",
    "VALUES": "VALUES is not a stream: CREATE STREAM, or register one, and push the rows",
    "UNNEST": "UNNEST stands beside a stream: FROM s CROSS JOIN UNNEST(ARRAY[a, b]) AS u (x)",
    "TABLE": "TABLE is not supported: SELECT * FROM name",
    "INTO": "INTO is not supported: CREATE QUERY name AS SELECT … names a result",
    "RECURSIVE": "a recursive WITH is not supported: a query reads streams that are there before it",
}
"""Clauses of SQL that a continuous query lacks, by their first word, with the reason and the alternative."""

STOPS = frozenset(
    ("FROM", "WHERE", "GROUP BY", "HAVING", "EMIT", "UNION", "INTERSECT", "JOIN", "INNER", "CROSS", *REFUSED)
) - {"DISTINCT", "VALUES", "UNNEST", "TABLE", "INTO", "RECURSIVE", "MATCHING", "MATCH_RECOGNIZE", "FOR"}  # fmt: skip

AFTER_FROM = frozenset(REFUSED) - {"ORDER BY", "LIMIT", "QUALIFY"}
"""The words of REFUSED that are refused after FROM, too."""

NO_STREAM = ("VALUES", "LATERAL", "UNNEST", "TABLE")
_ONE_GROUPING = "make a query for each grouping and merge them with UNION ALL"
GROUPINGS = {**dict.fromkeys(("ROLLUP", "CUBE", "GROUPING SETS"), _ONE_GROUPING), "ALL": "name the columns"}


def refuse_next(cursor: Cursor, words: Iterable[str] = REFUSED) -> None:
    """Raises QueryError with the reason if the next word is one of these."""
    if cursor.word() in words:
        cursor.fail(REFUSED[cursor.word()])
