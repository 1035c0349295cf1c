"""What stands in FROM of an EPL statement: a stream with its filter and its windows."""

from __future__ import annotations

from typing import NamedTuple, NoReturn, cast

from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_text import period, whole
from bridge.frontends.scalars import Names, resolved
from bridge.query import Filter, Node, Stream, Window
from windows.window import Extent, Range, Rows, Unbounded

RESERVED = frozenset(
    (
        "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "OUTPUT", "LIMIT", "INSERT", "INTO", "AS", "ON", "JOIN",
        "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "UNIDIRECTIONAL", "RETAIN", "MATCH_RECOGNIZE", "PATTERN", "AND", "OR",
        "NOT", "IN", "IS", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "CREATE", "DELETE", "UPDATE",
        "MERGE", "EVERY", "UNTIL", "WHILE", "DEFINE", "MEASURES", "DISTINCT", "ISTREAM", "RSTREAM", "IRSTREAM",
        "CONTEXT", "FOR", "UNION", "GROUP BY", "ORDER BY", "PARTITION BY",
    )
)  # fmt: skip
"""Words that are names in backticks only."""

_INSTEAD = {
    "ext_timed": "#time does the same: time is the events' own",
    "ext_timed_batch": "WINDOW(RANGE … SLIDE …) of the bridge's own SQL does it",
    "timebatch": "",
    "time_accum": "",
    "time_order": "events come in the order of their time; lateness= sorts those that do not",
    "time_to_live": "",
    "lastevent": "#length(1) is the same",
    "firstevent": "#firstlength is not there either",
    "unique": "WINDOW(PARTITION BY k ROWS 1) of the bridge's own SQL is the same",
    "groupwin": "WINDOW(PARTITION BY k ROWS n) of the bridge's own SQL is the same",
    "firstunique": "",
    "firstlength": "",
    "firsttime": "",
    "sort": "",
    "rank": "",
    "expr": "",
    "expr_batch": "",
    "uni": "aggregates say the same",
    "linest": "",
    "correl": "",
    "weighted_avg": "sum(x * w) / sum(w) says the same",
    "size": "count(*) says the same",
}


class Item(NamedTuple):
    """An input: its alias, the node, where it stands."""

    alias: str
    node: Node
    position: int


def item(cursor: Cursor) -> Item:
    """`Stream(condition)#window(…) as alias`.

    >>> from bridge.frontends.epl_text import EplCursor
    >>> print(item(EplCursor("Trades(price > 1)#time(5 sec) as t")).node)
    SELECT * FROM (SELECT * FROM Trades WHERE price > 1) WINDOW(RANGE 5000 MS)
    """
    position = cursor.position
    if cursor.word() in ("SQL", "METHOD") and cursor.word(1) == ":":
        cursor.fail(f"{cursor.word().lower()}: is not supported: tables of the database are asked with cep.query")
    if cursor.word() == "(":
        cursor.fail("a sub-query is not supported in FROM: insert into names a statement's results")
    if cursor.word() == "PATTERN":
        from bridge.frontends.epl_pattern import pattern

        name, node, condition = "pattern", cast("Node", pattern(cursor)), None
    else:
        name = cursor.name("a stream")
        node = Stream(name)
        condition = filtered(cursor)
    extents = windows(cursor)
    alias = _alias(cursor) or name
    if condition is not None:
        node = Filter(node, resolved(cursor, [condition], Names(alias, ()))[0])
    for extent in extents:
        node = Window(node, extent)
    return Item(alias, node, position)


def filtered(cursor: Cursor) -> epl_scalars.Expression | None:
    """`( condition, … )` after a stream's name: all of them hold."""
    if not cursor.take("("):
        return None
    if cursor.take(")"):
        return None
    conditions = epl_scalars.listed(cursor, cursor.until(()), "a condition")
    cursor.expect(")")
    found = conditions[0]
    for condition in conditions[1:]:
        found = epl_scalars.both(found, condition)
    return found


def _alias(cursor: Cursor) -> str | None:
    return cursor.name("an alias") if cursor.take("AS") or cursor.has_name() else None


def windows(cursor: Cursor) -> list[Extent]:
    """`#time(5 sec)`, `.win:time(5 sec)`: the windows after a stream."""
    found: list[Extent] = []
    while cursor.word() in ("#", "."):
        position = cursor.position
        cursor.at += 1
        name = cursor.name("a window")
        if cursor.take(":"):
            if name.lower() not in ("win", "std", "ext", "stat", "rnd"):
                cursor.fail(f"unknown name space {name!r}: win is expected", position)
            name = cursor.name("a window")
        found.append(_window(cursor, name.lower(), position))
        if len(found) > 1:
            cursor.fail("two windows of one stream are not supported", position)
    if cursor.word() in ("RETAIN", "UNIDIRECTIONAL"):
        cursor.fail(f"{cursor.word().lower()} is not supported")
    return found


def _window(cursor: Cursor, name: str, position: int) -> Extent:
    opened = cursor.take("(")
    if name == "keepall":
        extent: Extent = Unbounded()
    elif name in ("length", "length_batch") and opened:
        count = whole(cursor, "the number of events")
        extent = Rows(count, count if name == "length_batch" else None)
    elif name in ("time", "ext_timed") and opened:
        if name == "ext_timed":
            _external(cursor)
        extent = Range(period(cursor))
    elif name == "time_batch" and opened:
        extent = _time_batch(cursor, position)
    elif name == "lastevent":
        extent = Rows(1)
    else:
        _refuse(cursor, name, position)
    if opened:
        cursor.expect(")")
    return extent


def _external(cursor: Cursor) -> None:
    """The time of `ext_timed` is an attribute's; ours is every event's own."""
    if not cursor.take("CURRENT_TIMESTAMP"):
        cursor.fail("ext_timed is supported with current_timestamp alone: push events with the time they have")
    cursor.take("(", ")")
    cursor.expect(",")


def _time_batch(cursor: Cursor, position: int) -> Extent:
    size = period(cursor)
    if not cursor.take(","):
        cursor.fail(
            "time_batch would begin at the first event, and results would depend on when that was: name the moment from "
            "which batches count, #time_batch(5 sec, 0)",
            position,
        )
    if cursor.word() != "0":
        cursor.fail("batches count from 0 here", cursor.position)
    cursor.at += 1
    return Range(size, size)


def _refuse(cursor: Cursor, name: str, position: int) -> NoReturn:
    instead = _INSTEAD.get(name)
    if instead is None:
        cursor.fail(f"unknown window {name!r}: there are keepall, time, length, length_batch, time_batch", position)
    cursor.fail(f"the window {name} is not supported" + (f": {instead}" if instead else ""), position)
