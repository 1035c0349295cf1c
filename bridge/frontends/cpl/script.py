"""CPL, the language of PaaS-CEP (section 5 of its paper): scripts of declarations and INSERT INTO … SELECT … FROM.

The paper shows no syntax for windows, for the SQL that ON SQL names, and for MultiFilter; CREATE WINDOW, CREATE SQL and
INSERT INTO … WHEN are this project's. docs/cpl.md has the grammar and the operators that a statement becomes.

>>> script = parse("CREATE STREAMSCHEMA s WITH a integer; INSERT INTO high SELECT a FROM s WHERE a > 9")
>>> print(script.queries["high"])
SELECT a FROM s WHERE a > 9
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

from bridge.errors import QueryError
from bridge.frontends.clauses import batch, positive_integer, schema
from bridge.frontends.cpl.clauses import WORDS, NamedStatement
from bridge.frontends.cpl.insert import CplInsert, insert
from bridge.frontends.cursor import Cursor, Region
from bridge.query.scripts import Script, Statement
from windows.extent import Extent
from windows.extents import Range, Rows
from windows.schema import Schema
from windows.times import UNITS

_T = TypeVar("_T")

_GRAMMAR = """CREATE STREAMSCHEMA WITH SELECT FROM WHERE GROUP HAVING ON INSERT INTO WHEN AS AND OR NOT CASE THEN ELSE END
    NULL TRUE FALSE IN IS BETWEEN LIKE BY"""
RESERVED = frozenset((*_GRAMMAR.split(), *WORDS))
"""Words that are names only in quotes."""

_REFUSED = {
    "SELECT": "a statement of CPL begins with INSERT INTO, which names its output",
    "UPDATE": "CREATE SQL name AS UPDATE … names it, INSERT INTO … ON SQL runs it",
    "DELETE": "CREATE SQL name AS DELETE … names it, INSERT INTO … ON SQL runs it",
}


@dataclasses.dataclass
class CplDeclarations:
    """The declarations of a script so far, by names in lower case."""

    streams: dict[str, tuple[str, Schema, int]] = dataclasses.field(default_factory=dict)
    windows: dict[str, Extent] = dataclasses.field(default_factory=dict)
    statements: dict[str, NamedStatement] = dataclasses.field(default_factory=dict)


def parse(text: str) -> Script:
    """The script. Raises QueryError with the place in the text."""
    try:
        cursor = Cursor(text, RESERVED)
        declared, inserts = CplDeclarations(), list[CplInsert]()
        while cursor.peek():
            if not cursor.take(";"):
                _statement(cursor, declared, inserts)
        if not inserts:
            cursor.fail("the script has no statement: INSERT INTO output SELECT … FROM stream")
        _check_order(cursor, inserts)
        return _script(declared, inserts)
    except RecursionError:
        raise QueryError("the script is nested too deeply", text) from None


def _script(declared: CplDeclarations, inserts: list[CplInsert]) -> Script:
    made = {output.lower() for one in inserts for output in one.outputs}
    streams = [(name, kind) for key, (name, kind, _) in declared.streams.items() if key not in made]
    known = {key: kind for key, (_, kind, _) in declared.streams.items()}
    statements = [Statement(one.name, one.node, known.get(one.outputs[0].lower())) for one in inserts]
    return Script(tuple(streams), tuple(statements))


def _statement(cursor: Cursor, declared: CplDeclarations, inserts: list[CplInsert]) -> None:
    if cursor.take("INSERT"):
        found = insert(cursor, declared.windows, declared.statements)
        _check_outputs(cursor, found, inserts)
        inserts.append(found)
    elif cursor.take("CREATE"):
        _create(cursor, declared)
    else:
        cursor.fail(_REFUSED.get(cursor.word()) or f"CREATE or INSERT INTO is expected, not {cursor.next_text()}")
    if cursor.peek() and cursor.word() not in (";", "CREATE", "INSERT"):
        cursor.fail(f"unexpected {cursor.next_text()}")


def _create(cursor: Cursor, declared: CplDeclarations) -> None:
    if cursor.take("STREAMSCHEMA"):
        _declare(cursor, "stream", declared.streams, lambda name, at: (name, _columns(cursor), at))
    elif cursor.take("WINDOW"):
        _declare(cursor, "window", declared.windows, lambda name, at: _window(cursor))
    elif cursor.take("SQL"):
        _declare(cursor, "SQL statement", declared.statements, lambda name, at: _sql_statement(cursor))
    else:
        cursor.fail(f"CREATE STREAMSCHEMA, CREATE WINDOW or CREATE SQL is expected, not {cursor.next_text()}")


def _declare(cursor: Cursor, what: str, known: dict[str, _T], read: Callable[[str, int], _T]) -> None:
    position = cursor.position
    name = cursor.name(f"a name for the {what}")
    if name.lower() in known:
        cursor.fail(f"the {what} {name!r} is declared twice", position)
    known[name.lower()] = read(name, position)


def _columns(cursor: Cursor) -> Schema:
    cursor.expect("WITH", " (the fields and their types follow)")
    return schema(cursor, ("CREATE", "INSERT"))


# CREATE WINDOW --------------------------------------------------------------------------------------------------------


def _window(cursor: Cursor) -> Extent:
    if cursor.word() == "START":
        return batch(cursor, ("CREATE", "INSERT"))
    cursor.expect("ON", " (ON TUPLES SIZE …, ON TIME SIZE … or START … STOP …)")
    position = cursor.position
    if cursor.take("TUPLES"):
        size, advance = _sizes(cursor, positive_integer)
        if advance > size:
            cursor.fail(
                f"no more events can leave a window than it holds: ADVANCE {advance} is more than SIZE {size}", position
            )
        return Rows(size, advance, full=True)
    if not cursor.take("TIME"):
        cursor.fail(f"TUPLES or TIME is expected, not {cursor.next_text()}")
    size, advance = _sizes(cursor, _time)
    return Range(size, advance, size % advance)


def _sizes(cursor: Cursor, read: Callable[[Cursor], int]) -> tuple[int, int]:
    cursor.expect("SIZE", " (how much the window holds)")
    size = read(cursor)
    cursor.expect("ADVANCE", " (how much leaves the window when it is full)")
    return size, read(cursor)


def _time(cursor: Cursor) -> int:
    """A time in milliseconds; seconds, as in the paper, unless a unit is written."""
    position = cursor.position
    amount, unit = positive_integer(cursor), cursor.word()
    if unit in UNITS:
        cursor.at += 1
    milliseconds = amount * UNITS.get(unit, 1000)
    if milliseconds >= 2**62:
        cursor.fail("a duration is less than 2**62 milliseconds", position)
    return milliseconds


# CREATE SQL -----------------------------------------------------------------------------------------------------------


def _sql_statement(cursor: Cursor) -> NamedStatement:
    store = cursor.name("the name of a data store") if cursor.take("ON") else None
    position = cursor.position
    cache = _time(cursor) if cursor.take("CACHE") else None
    cursor.expect("AS", " (the SQL statement follows, up to a semicolon)")
    start = cursor.at
    while cursor.peek() and cursor.word() != ";":
        cursor.at += 1
    if start == cursor.at:
        cursor.fail(f"an SQL statement is expected, not {cursor.next_text()}")
    region = Region(start, cursor.at)
    first = cursor.tokens[start]
    reads = first.text.upper() in ("SELECT", "WITH", "VALUES", "(")
    if cache is not None and not reads:
        cursor.fail("CACHE keeps the answers of a SELECT", position)
    parameters = sum(
        token.text == "?" for token in cursor.tokens[start : cursor.at] if token.token_type.name == "PLACEHOLDER"
    )
    return NamedStatement(cursor.slice(region), first.start, store, cache, parameters, reads)


# The graph ------------------------------------------------------------------------------------------------------------


def _check_outputs(cursor: Cursor, found: CplInsert, inserts: list[CplInsert]) -> None:
    known = {output.lower() for one in inserts for output in one.outputs}
    for output in found.outputs:
        if output.lower() in known:
            cursor.fail(
                f"{output!r} is the output of two statements: give each one its own, and merge them with "
                "INSERT INTO … SELECT * FROM a, b",
                found.position,
            )
        known.add(output.lower())


def _check_order(cursor: Cursor, inserts: list[CplInsert]) -> None:
    """Raises an error unless each statement reads only outputs of earlier ones; so the graph has no cycle."""
    makers = {output.lower(): place for place, one in enumerate(inserts) for output in one.outputs}
    for place, one in enumerate(inserts):
        for name, position in one.reads:
            maker = makers.get(name.lower(), -1)
            if maker == place:
                cursor.fail(f"the graph has a cycle: {name!r} would be made of itself", position)
            if maker > place:
                if _reaches(inserts, makers, maker, place):
                    mine = one.outputs[0]
                    cursor.fail(f"the graph has a cycle: {mine!r} reads {name!r}, which is made of {mine!r}", position)
                cursor.fail(f"{name!r} is made by a later statement: let that one stand first", position)


def _reaches(inserts: list[CplInsert], makers: dict[str, int], start: int, end: int) -> bool:
    """Whether a statement reads, directly or through others, an output of another one."""
    waiting, seen = [start], set[int]()
    while waiting:
        place = waiting.pop()
        if place == end:
            return True
        if place not in seen:
            seen.add(place)
            waiting += [makers[name.lower()] for name, _ in inserts[place].reads if name.lower() in makers]
    return False
