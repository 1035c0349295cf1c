"""SELECT: its clauses, the inputs in FROM, joins, common table expressions and UNION ALL.

The clauses are found by their words; sqlglot parses only the expressions, so nothing that it would ignore gets lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sqlglot import exp

from bridge.frontends.clauses import schema
from bridge.frontends.cursor import Cursor, word_of
from bridge.frontends.expressions import (
    Qualifiers,
    aliases_of,
    all_of,
    expression_list,
    resolve,
    single_expression,
    without_aliases,
)
from bridge.frontends.sql.clauses import Clause, matching, window
from bridge.frontends.sql.match_recognize import match_recognize
from bridge.frontends.sql.other_windows import refuse_in_from, refuse_in_group_by, refuse_ksql
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, MatchRecognize, Node, Stream, Union, source_name
from windows.schema import Schema

_ORDER = "{} is not supported: results come in time order; ask cep.query for a sorted or shortened answer"
_JOIN = "a {} join is not supported: only what happened is reported; write JOIN … ON, CROSS JOIN or a comma"
_SET = "{} is not supported: UNION ALL merges streams, JOIN … ON finds what two have in common"
_SAMPLE = "{} is not supported: put a sub-query with the rows and columns you want into FROM"

_FAMILIES = {
    ("ORDER BY", "LIMIT", "OFFSET", "FETCH", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY"): _ORDER,
    ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF"): _JOIN,
    ("INTERSECT", "EXCEPT", "MINUS"): _SET,
    ("TABLESAMPLE", "PIVOT", "UNPIVOT"): _SAMPLE,
}

REFUSED = {
    **{word: message.format(word) for words, message in _FAMILIES.items() for word in words},
    "USING": "USING is not supported: write the condition, JOIN … ON l.a = r.a",
    "LATERAL": "LATERAL is not supported: correlate the streams with a condition",
    "DISTINCT": "DISTINCT is not supported: WINDOW(PARTITION BY columns FIRST ROWS 1) has each of their values once",
    "QUALIFY": "QUALIFY is not supported, as OVER is not: WINDOW(PARTITION BY k FIRST ROWS 1) has the first row of each key",
    "WINDOW": "named windows are not supported: WINDOW( … ) stands directly after the stream it belongs to",
    "MATCHING": "MATCHING wants its clauses in parentheses, directly after the stream it belongs to",
    "MATCH_RECOGNIZE": "MATCH_RECOGNIZE wants its clauses in parentheses, directly after the stream it belongs to",
    "FOR": "FOR is not supported: a stream is read as its events arrive, and a table as it is then",
    "VALUES": "VALUES is not a stream: CREATE STREAM, or register one, and push the rows",
    "UNNEST": "UNNEST is not supported: table functions are not streams",
    "TABLE": "TABLE is not supported: SELECT * FROM name",
    "INTO": "INTO is not supported: CREATE QUERY name AS SELECT … names a result",
    "RECURSIVE": "a recursive WITH is not supported: a query reads streams that are there before it",
}
"""Clauses of SQL that a continuous query lacks, by their first word, with the reason and the alternative."""

_STOPS = frozenset(
    ("FROM", "WHERE", "GROUP BY", "HAVING", "EMIT", "UNION", "JOIN", "INNER", "CROSS", *REFUSED)
) - {"DISTINCT", "VALUES", "UNNEST", "TABLE", "INTO", "RECURSIVE", "MATCHING", "MATCH_RECOGNIZE", "FOR"}  # fmt: skip

_NO_STREAM = ("VALUES", "LATERAL", "UNNEST", "TABLE")
_ONE_GROUPING = "make a query for each grouping and merge them with UNION ALL"
_GROUPINGS = {**dict.fromkeys(("ROLLUP", "CUBE", "GROUPING SETS"), _ONE_GROUPING), "ALL": "name the columns"}


def _recognized(cursor: Cursor) -> Clause:
    pattern = match_recognize(cursor)
    return lambda node, names: MatchRecognize(node, pattern)


_CLAUSES: dict[str, Callable[[Cursor], Clause]] = {
    "WINDOW": window,
    "MATCHING": matching,
    "MATCH_RECOGNIZE": _recognized,
}

Results = Mapping[str, tuple[str, Node]]
"""The common table expressions: by name in lower case, the name as written and the tree."""


class _FromItem(NamedTuple):
    """One input of FROM. `alias` is None if neither an alias nor a name is written."""

    alias: str | None
    node: Node
    clauses: tuple[Clause, ...]
    position: int


# Queries --------------------------------------------------------------------------------------------------------------


def select(cursor: Cursor, results: Results | None = None) -> Node:
    """Steps over `[WITH …] SELECT … [UNION ALL …]`; a closing parenthesis, `;` or the end must follow."""
    known = _with(cursor, results or {}) if cursor.take("WITH") else results or {}
    nodes = [_term(cursor, known)]
    while cursor.take("UNION"):
        if not cursor.take("ALL"):
            cursor.at -= 1
            cursor.fail(
                "UNION without ALL is not supported: UNION ALL, and in FROM of another query WINDOW(PARTITION BY columns "
                "FIRST ROWS 1) has each row once"
            )
        nodes.append(_term(cursor, known))
    if cursor.word() not in (")", ";") and cursor.peek():
        _refuse_next(cursor)
        cursor.fail(f"unexpected {cursor.next_text()}")
    return nodes[0] if len(nodes) == 1 else Union(tuple(nodes))


def _with(cursor: Cursor, results: Results) -> Results:
    known, written = dict(results), set()
    while True:
        _refuse_next(cursor, ["RECURSIVE"])
        position = cursor.position
        name = cursor.name("a name for the sub-query")
        if name.lower() in written:
            cursor.fail(f"WITH names {name!r} twice", position)
        if cursor.word() == "(":
            cursor.fail("a list of columns is not supported here: name them in the SELECT list, a AS b")
        cursor.expect("AS")
        written.add(name.lower())
        known[name.lower()] = (name, _inner(cursor, known))
        if not cursor.take(","):
            return known


def _inner(cursor: Cursor, results: Results) -> Node:
    cursor.expect("(")
    node = select(cursor, results)
    cursor.expect(")")
    return node


def _term(cursor: Cursor, results: Results) -> Node:
    return _inner(cursor, results) if cursor.word() == "(" else _core(cursor, results)


def _core(cursor: Cursor, results: Results) -> Node:
    _refuse_next(cursor, _NO_STREAM)
    cursor.expect("SELECT")
    _refuse_next(cursor, ["DISTINCT"])
    columns = expression_list(cursor, cursor.until(_STOPS), "a list of columns")
    _refuse_next(cursor)
    cursor.expect("FROM")
    items, conditions = _from(cursor, results)
    if cursor.take("WHERE"):
        conditions.append(_condition(cursor))
    inputs = _aliased(cursor, items)
    names = _names(inputs)
    node = _combined(inputs, resolve(cursor, conditions, names))
    return _projected(cursor, node, resolve(cursor, columns, names), names)


def _condition(cursor: Cursor) -> exp.Expr:
    return single_expression(cursor, cursor.until((",", *_STOPS)), "a condition")


def _names(inputs: tuple[tuple[str, Node], ...]) -> Qualifiers:
    if len(inputs) > 1:
        return Qualifiers(None, tuple(alias for alias, _ in inputs))
    return Qualifiers(inputs[0][0], aliases_of(inputs[0][1]))


def _combined(inputs: tuple[tuple[str, Node], ...], conditions: tuple[exp.Expr, ...]) -> Node:
    if len(inputs) > 1:
        return Correlate(inputs, all_of(conditions) if conditions else None)
    return Filter(inputs[0][1], conditions[0]) if conditions else inputs[0][1]


def _projected(cursor: Cursor, node: Node, columns: tuple[exp.Expr, ...], names: Qualifiers) -> Node:
    grouped = cursor.take("GROUP BY")
    keys = _grouping(cursor, node) if grouped else ()
    position = cursor.position
    having: tuple[exp.Expr, ...] = (_condition(cursor),) if cursor.take("HAVING") else ()
    # a function that only the database knows may be an aggregate, too
    kinds = (exp.AggFunc, exp.Anonymous) if having or cursor.word() == "EMIT" else (exp.AggFunc,)
    if grouped or any(column.find(*kinds) for column in columns + having):
        keys, having = resolve(cursor, keys, names), resolve(cursor, having, names)
        return Aggregate(node, columns, keys, having[0] if having else None, **_on_change(cursor))
    if having:
        cursor.fail("HAVING wants aggregates or GROUP BY: a condition on single events belongs in WHERE", position)
    if cursor.word() == "EMIT":
        cursor.fail("EMIT ON CHANGE wants aggregates or GROUP BY: nothing else changes by expiry")
    return node if _is_star(columns) else Map(node, columns)


def _is_star(columns: tuple[exp.Expr, ...]) -> bool:
    return len(columns) == 1 and columns[0] == exp.Star()


def _on_change(cursor: Cursor) -> dict[str, bool]:
    if not cursor.take("EMIT"):
        return {}
    cursor.expect("ON", " (EMIT ON CHANGE)")
    every = cursor.take("EVERY")
    cursor.expect("CHANGE", " (EMIT ON CHANGE)")
    return {"every_change" if every else "on_change": True}


def _grouping(cursor: Cursor, node: Node) -> tuple[exp.Expr, ...]:
    refuse_in_group_by(cursor, source_name(node))
    if cursor.take("(", ")"):  # the standard's empty grouping: all rows are one group, whatever functions the list has
        return ()
    region = cursor.until(_STOPS)
    for token in cursor.tokens[region.start : region.end]:
        if word_of(token) in _GROUPINGS:
            cursor.fail(f"{word_of(token)} is not supported: {_GROUPINGS[word_of(token)]}", token.start)
    keys = without_aliases(cursor, expression_list(cursor, region, "a column to group by"))
    for key in keys:
        if isinstance(key, exp.Literal):
            place = next(token.start for token in cursor.tokens[region.start :] if token.text == key.this)
            cursor.fail("GROUP BY a position is not supported: name the column", place)
    return keys


# FROM -----------------------------------------------------------------------------------------------------------------


def _from(cursor: Cursor, results: Results) -> tuple[list[_FromItem], list[exp.Expr]]:
    items, conditions = [_from_item(cursor, results)], list[exp.Expr]()
    while True:
        refuse_ksql(cursor)
        _refuse_next(cursor)
        if cursor.take(",") or _cross(cursor):
            items.append(_from_item(cursor, results))
        elif cursor.word() in ("JOIN", "INNER"):
            items.append(_join_item(cursor, results))
            conditions.append(_condition(cursor))
        else:
            return items, conditions


def _cross(cursor: Cursor) -> bool:
    crossed = cursor.take("CROSS")
    if crossed:
        cursor.expect("JOIN")
    return crossed


def _join_item(cursor: Cursor, results: Results) -> _FromItem:
    cursor.take("INNER")
    cursor.expect("JOIN")
    item = _from_item(cursor, results)
    _refuse_next(cursor, ["USING", "FOR"])
    cursor.expect("ON", " (a join of everything with everything is written CROSS JOIN)")
    return item


def _from_item(cursor: Cursor, results: Results) -> _FromItem:
    refuse_in_from(cursor)
    _refuse_next(cursor, _NO_STREAM)
    position = cursor.position
    default, node = _subquery(cursor, results) if cursor.word() == "(" else _named(cursor, results)
    alias, clauses = _modifiers(cursor)
    return _FromItem(alias or default, node, clauses, position)


def _subquery(cursor: Cursor, results: Results) -> tuple[str | None, Node]:
    if cursor.word(1) not in ("SELECT", "WITH", "(", "VALUES"):
        cursor.at += 1
        cursor.fail(f"a sub-query is expected in parentheses, not {cursor.next_text()}")
    node = _inner(cursor, results)
    return source_name(node), node


def _named(cursor: Cursor, results: Results) -> tuple[str | None, Node]:
    position = cursor.position
    parts = [cursor.name("a stream")]
    while cursor.take("."):
        parts.append(cursor.name("a table"))
    name = ".".join(parts)
    if cursor.word() == "(":
        cursor.fail(f"{name!r} cannot be called: a table function is not a stream", position)
    if len(parts) == 1 and name.lower() in results:
        return _result(cursor, results[name.lower()])
    stream = Stream(name, _inline(cursor) if cursor.take("[") else None)
    return source_name(stream), stream


def _result(cursor: Cursor, result: tuple[str, Node]) -> tuple[str, Node]:
    if cursor.word() == "[":
        cursor.fail(f"{result[0]!r} has the columns that WITH gives it: a schema is not expected here")
    return result


def _inline(cursor: Cursor) -> Schema:
    attributes = schema(cursor)
    cursor.expect("]")
    return attributes


def _modifiers(cursor: Cursor) -> tuple[str | None, tuple[Clause, ...]]:
    alias, clauses, last = None, list[Clause](), ""
    while True:
        word = cursor.word()
        if word in _CLAUSES and cursor.word(1) == "(":
            if word == last:
                cursor.fail(f"a second {word}: put the input with the first one into a sub-query")
            clauses.append(_CLAUSES[word](cursor))
            last = word
        elif alias is None and (cursor.take("AS") or cursor.has_name()):
            alias = _alias(cursor)
        else:
            return alias, tuple(clauses)


def _alias(cursor: Cursor) -> str:
    alias = cursor.name("an alias")
    if cursor.word() == "(":
        cursor.fail("a list of columns is not supported here: name them in a sub-query, SELECT a AS b")
    return alias


def _aliased(cursor: Cursor, items: Iterable[_FromItem]) -> tuple[tuple[str, Node], ...]:
    inputs: dict[str, tuple[str, Node]] = {}
    for place, item in enumerate(items, 1):
        alias, node = item.alias or f"input{place}", item.node
        for clause in item.clauses:
            node = clause(node, Qualifiers(alias, aliases_of(node)))
        if alias.lower() in inputs:
            cursor.fail(f"two inputs are called {alias!r}: give one of them an alias", item.position)
        inputs[alias.lower()] = (alias, node)
    return tuple(inputs.values())


def _refuse_next(cursor: Cursor, words: Iterable[str] = REFUSED) -> None:
    if cursor.word() in words:
        cursor.fail(REFUSED[cursor.word()])
