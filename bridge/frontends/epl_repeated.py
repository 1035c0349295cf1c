"""`b[0].v`, `b.lastOf().v`, `b.countOf()`: the events of a tag that a pattern repeats, as EPL writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_paths import COUNTS
from bridge.frontends.scalars import position_of
from bridge.repeated import COUNT, LAST, Element

_ENDS: dict[str, int | str] = {"firstof": 0, "lastof": LAST}


def mentioned(cursor: Cursor, tags: Collection[str], start: int, end: int) -> tuple[str, ...]:
    """What the statement at the cursor says of repeated tags, but for its tokens from `start` to before `end`, the pattern.

    Refuses, at its place, what would be several events in one column.
    """
    first = next((at + 1 for at in range(start - 1, -1, -1) if cursor.tokens[at].text == ";"), 0)
    last = next((at for at in range(end, len(cursor.tokens)) if cursor.tokens[at].text == ";"), len(cursor.tokens))
    places = [at for at in (*range(first, start), *range(end, last)) if cursor.tokens[at].text in tags]
    return tuple(dict.fromkeys(str(found) for at in places for found in _mentioned_at(cursor, at)))


def _mentioned_at(cursor: Cursor, at: int) -> Iterator[Element]:
    def word(ahead: int) -> str:
        return cursor.word(at + ahead - cursor.at)

    tag, position = cursor.tokens[at].text, cursor.tokens[at].start
    if word(-1) == ".":
        return
    ways = f"write {tag}[0].…, {tag}.firstOf().…, {tag}.lastOf().… or {tag}.countOf()"
    if word(1) == "[" and word(2).isdigit() and word(3) == "]":
        yield Element(tag, int(word(2)))
    elif word(1) == "." and word(2).lower() in _ENDS:
        yield Element(tag, _ENDS[word(2).lower()])
    elif word(1) == "." and word(2).lower() in COUNTS:
        yield Element(tag, COUNT)
    elif word(1) in (".", "["):
        cursor.fail(f"{tag!r} stands for several events: {ways}", position)
    elif word(-1) in ("SELECT", ",") and word(1) in (",", "FROM", "AS"):
        cursor.fail(f"{tag!r} stands for several events, which are no column: {ways}", position)


def refuse_bare(cursor: Cursor, expressions: Collection[exp.Expr], tags: Collection[str]) -> None:
    """Refuses `b.v` where `b` stands for several events."""
    for column in (found for one in expressions for found in one.find_all(exp.Column)):
        if column.table in tags:
            name = f"{column.table}[0].{column.name}, {column.table}.lastOf().{column.name}"
            cursor.fail(f"{column.table!r} stands for several events: write {name}", position_of(column))
