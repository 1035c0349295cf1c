"""FROM: streams, tables, sub-queries and window functions, their clauses and aliases, and joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sqlglot import exp

from bridge.frontends.clauses import schema
from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import Qualifiers, aliases_of, resolve, single_expression
from bridge.frontends.sql.clauses import Clause, matching, window
from bridge.frontends.sql.match_recognize import match_recognize
from bridge.frontends.sql.refused import AFTER_FROM, NO_STREAM, REFUSED, STOPS, refuse_next
from bridge.frontends.sql.streaming.times import lags_of
from bridge.frontends.sql.streaming.undecided import WINDOW_COLUMNS, RowsInWindows, decide
from bridge.frontends.sql.streaming.window_functions import (
    after_stream,
    in_from,
    is_after_stream,
    is_in_from,
    lag_of,
)
from bridge.query.expressions import col
from bridge.query.nodes import Map, MatchRecognize, Node, Stream, Union, source_name
from windows.schema import Schema

Results = Mapping[str, tuple[str, Node]]
"""The common table expressions: by name in lower case, the name as written and the tree."""

ReadQuery = Callable[[Cursor, Results], Node]
"""Steps over a query within parentheses."""

_AS_OF = ["FOR", "SYSTEM_TIME", "AS", "OF"]
_KINDS = ("INNER", "LEFT", "RIGHT", "FULL")
_OF_KSQL = {"WINDOWSTART": "start", "WINDOWEND": "end"}


class FromItem(NamedTuple):
    """One input of FROM. `alias` is None if neither an alias nor a name is written."""

    alias: str | None
    node: Node
    clauses: tuple[Clause, ...]
    position: int
    as_of: str | None = None
    """The name of the time of FOR SYSTEM_TIME AS OF, if the input has versions."""


class Join(NamedTuple):
    """The join of the input before with the next one. `kind`: INNER, LEFT, RIGHT or FULL; `on` is its condition."""

    kind: str
    on: exp.Expr
    position: int


def _recognized(cursor: Cursor) -> Clause:
    pattern = match_recognize(cursor)
    return lambda node, names: MatchRecognize(node, pattern)


_CLAUSES: dict[str, Callable[[Cursor], Clause]] = {
    "WINDOW": window,
    "MATCHING": matching,
    "MATCH_RECOGNIZE": _recognized,
}


class FromClause:
    """Reads FROM. `results`: the common table expressions. `read`: reads a sub-query."""

    def __init__(self, cursor: Cursor, results: Results, read: ReadQuery) -> None:
        self.cursor, self.results, self.read = cursor, results, read
        self.items: list[FromItem] = []
        self.joins: list[Join] = []
        self.values: dict[str, exp.Expr] = {}
        """The elements of UNNEST, by their full names in lower case."""

    def step(self) -> None:
        """Steps over the inputs, the joins between them and their conditions."""
        cursor = self.cursor
        self.items.append(self._item())
        while True:
            if cursor.word() not in _KINDS:
                refuse_next(cursor, AFTER_FROM)
            if cursor.take(",") or self._crosses():
                if cursor.word() == "UNNEST":
                    self._unnest()
                else:
                    self.items.append(self._item())
            elif cursor.word() in ("JOIN", *_KINDS):
                self._join()
            else:
                return

    def _crosses(self) -> bool:
        crossed = self.cursor.take("CROSS")
        if crossed:
            self.cursor.expect("JOIN")
        return crossed

    def _unnest(self) -> None:
        """`UNNEST(ARRAY[a, b]) AS u (x)`: each row of the input once for each element."""
        cursor, position = self.cursor, self.cursor.position
        if len(self.items) > 1:
            cursor.fail("UNNEST is beside one input: put the join of the others into a sub-query", position)
        cursor.expect("UNNEST")
        cursor.expect("(")
        array = single_expression(cursor, cursor.until(()), "an array")
        cursor.expect(")")
        if not isinstance(array, exp.Array) or not array.expressions:
            cursor.fail("UNNEST wants ARRAY[a, b] with its elements: lists of any length are not taken apart", position)
        cursor.take("AS")
        alias = cursor.name("an alias")
        cursor.expect("(", " (UNNEST( … ) AS u (x) names the element)")
        name = cursor.name("a name for the element")
        cursor.expect(")")
        self.values[f"{alias}.{name}".lower()] = col(name)

        def unnested(node: Node, names: Qualifiers) -> Node:
            elements = resolve(cursor, array.expressions, names)
            rows = tuple(Map(node, (exp.Star(), exp.alias_(element, col(name).this))) for element in elements)
            return Union(rows) if len(rows) > 1 else rows[0]

        self.items[0] = self.items[0]._replace(clauses=(*self.items[0].clauses, unnested))

    def _join(self) -> None:
        cursor, position = self.cursor, self.cursor.position
        kind = cursor.word() if cursor.word() in _KINDS else "INNER"
        cursor.take(kind)
        if kind != "INNER":
            cursor.take("OUTER")
        cursor.expect("JOIN")
        self.items.append(self._item())
        refuse_next(cursor, ["USING", "FOR"])
        cursor.expect("ON", " (a join of everything with everything is written CROSS JOIN)")
        self.joins.append(Join(kind, condition(cursor), position))

    def _item(self) -> FromItem:
        cursor, position = self.cursor, self.cursor.position
        if is_in_from(cursor):
            default, node = self._windowed()
        else:
            refuse_next(cursor, NO_STREAM)
            default, node = self._source()
        alias, clauses, as_of = _modifiers(cursor, joined=bool(self.items))
        return FromItem(alias or default, node, clauses, position, as_of)

    def _windowed(self) -> tuple[str | None, Node]:
        position, found = self.cursor.position, list[tuple[str | None, Node]]()
        function, time, time_position = in_from(self.cursor, lambda cursor: found.append(self._source()))
        name, node = found[0]
        node = decide(self.cursor, node)
        lag = lag_of(self.cursor, time, time_position, lags_of(self.cursor, node))
        return name, RowsInWindows(node, function.lagging(lag), position=position)

    def _source(self) -> tuple[str | None, Node]:
        return self._subquery() if self.cursor.word() == "(" else self._named()

    def _subquery(self) -> tuple[str | None, Node]:
        cursor = self.cursor
        if cursor.word(1) not in ("SELECT", "WITH", "(", "VALUES"):
            cursor.at += 1
            cursor.fail(f"a sub-query is expected in parentheses, not {cursor.next_text()}")
        node = self.read(cursor, self.results)
        return source_name(node), node

    def _named(self) -> tuple[str | None, Node]:
        cursor, position = self.cursor, self.cursor.position
        parts = [cursor.name("a stream")]
        while cursor.take("."):
            parts.append(cursor.name("a table"))
        name = ".".join(parts)
        if cursor.word() == "(":
            cursor.fail(f"{name!r} cannot be called: a table function is not a stream", position)
        if len(parts) == 1 and name.lower() in self.results:
            return self._result(self.results[name.lower()])
        stream = Stream(name, self._inline() if cursor.take("[") else None)
        return source_name(stream), stream

    def _result(self, result: tuple[str, Node]) -> tuple[str, Node]:
        if self.cursor.word() == "[":
            self.cursor.fail(f"{result[0]!r} has the columns that WITH gives it: a schema is not expected here")
        return result

    def _inline(self) -> Schema:
        attributes = schema(self.cursor)
        self.cursor.expect("]")
        return attributes


def condition(cursor: Cursor) -> exp.Expr:
    """Steps over a condition, up to the next clause."""
    return single_expression(cursor, cursor.until((",", *STOPS)), "a condition")


def _modifiers(cursor: Cursor, joined: bool) -> tuple[str | None, tuple[Clause, ...], str | None]:
    alias, clauses, last, as_of = None, list[Clause](), "", None
    while True:
        word = cursor.word()
        if word in _CLAUSES and cursor.word(1) == "(":
            if word == last:
                cursor.fail(f"a second {word}: put the input with the first one into a sub-query")
            clauses.append(_CLAUSES[word](cursor))
            last = word
        elif is_after_stream(cursor):
            clauses.append(_windowed(cursor))
        elif as_of is None and joined and [cursor.word(ahead) for ahead in range(4)] == _AS_OF:
            as_of = _system_time(cursor)
        elif alias is None and (cursor.take("AS") or cursor.has_name()):
            alias = _alias(cursor)
        else:
            return alias, tuple(clauses), as_of


def _windowed(cursor: Cursor) -> Clause:
    """ksqlDB's window, whose bounds are WINDOWSTART and WINDOWEND."""
    position = cursor.position
    function = after_stream(cursor)
    columns = (("*", None), *WINDOW_COLUMNS.items(), *_OF_KSQL.items())
    return lambda node, names: RowsInWindows(node, function, columns, implied=True, position=position)


def _system_time(cursor: Cursor) -> str:
    """The name of the time after FOR SYSTEM_TIME AS OF, without its input: `o.ts`, `PROCTIME()`."""
    position = cursor.position
    cursor.at += len(_AS_OF)
    if not cursor.has_name():
        cursor.fail(REFUSED["FOR"], position)
    name = cursor.name("a time")
    while cursor.take("."):
        name = cursor.name("a time")
    if cursor.take("("):
        cursor.expect(")")
    return name.lower()


def _alias(cursor: Cursor) -> str:
    alias = cursor.name("an alias")
    if cursor.word() == "(":
        cursor.fail("a list of columns is not supported here: name them in a sub-query, SELECT a AS b")
    return alias


def aliased(cursor: Cursor, items: Iterable[FromItem]) -> tuple[tuple[str, Node], ...]:
    """The inputs by their aliases, with their clauses."""
    inputs: dict[str, tuple[str, Node]] = {}
    for place, item in enumerate(items, 1):
        alias, node = item.alias or f"input{place}", item.node
        for clause in item.clauses:
            node = decide(cursor, node)
            node = clause(node, Qualifiers(alias, aliases_of(node)))
        if alias.lower() in inputs:
            cursor.fail(f"two inputs are called {alias!r}: give one of them an alias", item.position)
        inputs[alias.lower()] = (alias, node)
    return tuple(inputs.values())
