"""SELECT: common table expressions, UNION, and what may follow the last SELECT.

The clauses are found by their words; sqlglot parses only the expressions, so nothing that it would ignore gets lost.
"""

from __future__ import annotations

from bridge.frontends.clauses import positive_integer
from bridge.frontends.cursor import Cursor
from bridge.frontends.sql.from_items import Results
from bridge.frontends.sql.refused import REFUSED, refuse_next
from bridge.frontends.sql.select_core import SelectReader
from bridge.frontends.sql.streaming.select_list import distinct_rows, rows_of_both
from bridge.frontends.sql.streaming.times import times_of
from bridge.frontends.sql.streaming.undecided import decide
from bridge.query.nodes import Node, Union, Window
from windows.extents import FirstRows


def select(cursor: Cursor) -> Node:
    """Steps over `[WITH …] SELECT … [UNION ALL …] [ORDER BY ts] [LIMIT n]`; `;` or the end must follow."""
    return decide(cursor, _query(cursor, {}))


def _query(cursor: Cursor, results: Results) -> Node:
    """The same; a closing parenthesis may follow. What depends on the text around it is not decided yet."""
    known = _with(cursor, results) if cursor.take("WITH") else results
    node = _united(cursor, known)
    _step_order(cursor, node)
    if cursor.word() == "LIMIT":
        cursor.expect("LIMIT")
        node = Window(decide(cursor, node), FirstRows(positive_integer(cursor)))
    if cursor.word() not in (")", ";") and cursor.peek():
        refuse_next(cursor)
        cursor.fail(f"unexpected {cursor.next_text()}")
    return node


def _united(cursor: Cursor, results: Results) -> Node:
    """SELECTs joined by UNION and UNION ALL; a UNION removes the duplicates of everything before it, too."""
    node, others, position = _intersected(cursor, results), list[Node](), cursor.position
    while cursor.take("UNION"):
        keeps = cursor.take("ALL")
        cursor.take("DISTINCT")
        others.append(decide(cursor, _intersected(cursor, results)))
        if not keeps:
            united = Union((decide(cursor, node), *others))
            node, others = distinct_rows(cursor, united, position, "UNION"), []
    return Union((decide(cursor, node), *others)) if others else node


def _intersected(cursor: Cursor, results: Results) -> Node:
    """SELECTs joined by INTERSECT, which binds more tightly than UNION."""
    node = _term(cursor, results)
    while cursor.word() == "INTERSECT":
        position = cursor.position
        cursor.expect("INTERSECT")
        if cursor.take("ALL"):
            cursor.fail("INTERSECT ALL is not supported: INTERSECT has each row once", position)
        cursor.take("DISTINCT")
        node = rows_of_both(cursor, node, _term(cursor, results), position)
    return node


def _step_order(cursor: Cursor, node: Node) -> None:
    """Steps over ORDER BY the time, which is the order of results anyway."""
    if cursor.word() != "ORDER BY":
        return
    position = cursor.position
    cursor.expect("ORDER BY")
    column = cursor.name("ts") if cursor.has_name() else ""
    while cursor.take("."):
        column = cursor.name("ts")
    cursor.take("ASC")
    if column.lower() not in times_of(cursor, node) or cursor.word() not in (")", ";", "LIMIT", ""):
        cursor.fail(REFUSED["ORDER BY"], position)


def _with(cursor: Cursor, results: Results) -> Results:
    known, written = dict(results), set()
    while True:
        refuse_next(cursor, ["RECURSIVE"])
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
    node = _query(cursor, results)
    cursor.expect(")")
    return node


def _term(cursor: Cursor, results: Results) -> Node:
    return _inner(cursor, results) if cursor.word() == "(" else SelectReader(cursor, results, _inner).tree()
