"""`FROM TABLE table (POSITION column, TIMESTAMP column, SINCE …)` and `FROM CHANGES OF table` of CREATE STREAM."""

from __future__ import annotations

from bridge.frontends.cursor import Cursor
from bridge.query.table_source import BEGINNING, NOW, UNITS, TableSource


def table_source(cursor: Cursor) -> TableSource:
    """Parses the source of a stream after FROM.

    >>> print(table_source(Cursor("TABLE shop.orders (POSITION id, TIMESTAMP created_at UNIT S, SINCE 17)")))
    TABLE shop.orders (POSITION id, TIMESTAMP created_at UNIT S, SINCE 17)
    """
    changes = cursor.take("CHANGES", "OF")
    if not changes and not cursor.take("TABLE"):
        cursor.fail(f"TABLE or CHANGES OF is expected, not {cursor.next_text()}")
    table = _table(cursor)
    end = cursor.position
    position = timestamp = unit = None
    since: int | str = NOW
    if cursor.take("("):
        given: set[str] = set()
        while not cursor.take(")"):
            if (option := cursor.word()) in given:
                cursor.fail(f"{option} is given twice")
            given.add(option)
            if not changes and cursor.take("POSITION"):
                position = cursor.name("the column of the position")
            elif cursor.take("TIMESTAMP"):
                timestamp = cursor.name("the column of the timestamps")
                unit = _unit(cursor) if cursor.take("UNIT") else None
            elif not changes and cursor.take("SINCE"):
                since = _since(cursor)
            else:
                known = "TIMESTAMP" if changes else "POSITION, TIMESTAMP or SINCE"
                cursor.fail(f"{known} is expected, not {cursor.next_text()}")
            if not cursor.take(",") and cursor.word() != ")":
                cursor.fail(f", or ) is expected, not {cursor.next_text()}")
    if position is None and not changes:
        cursor.fail(f"POSITION names the column of the rows' numbers: FROM TABLE {table} (POSITION id)", end)
    return TableSource(table, position, timestamp, unit, since, changes)


def _table(cursor: Cursor) -> str:
    name = cursor.name("the name of the table")
    while cursor.take("."):
        name += "." + cursor.name("a name after the dot")
    return name


def _unit(cursor: Cursor) -> str:
    word = cursor.word().lower()
    if word not in UNITS:
        cursor.fail(f"the unit of timestamps is S, MS, US or NS, not {cursor.next_text()}")
    cursor.at += 1
    return word


def _since(cursor: Cursor) -> int | str:
    for word in (NOW, BEGINNING):
        if cursor.take(word.upper()):
            return word
    sign = -1 if cursor.take("-") else 1
    word = cursor.word()
    if not word.isdecimal():
        cursor.fail(f"SINCE NOW, SINCE BEGINNING or SINCE a position is expected, not {cursor.next_text()}")
    cursor.at += 1
    return sign * int(word)
