"""`b[0].v`, `b.lastOf().v`, `b.countOf()`: the events of a tag that a pattern repeats, as EPL writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_paths import COUNTS
from bridge.frontends.scalars import position_of
from bridge.repeated import COUNT, LAST, WHOLE, Element

_ENDS: dict[str, int | str] = {"firstof": 0, "lastof": LAST}
_LISTS = ("SELECT", "ISTREAM", "RSTREAM", "IRSTREAM", "DISTINCT")
"""Words before a list of columns."""


def mentioned(cursor: Cursor, tags: Mapping[str, bool], start: int, end: int) -> tuple[str, ...]:
    """What the statement at the cursor says of tags, but for its tokens from `start` to before `end`, the pattern.

    Of those that are repeated it names some events, and all where it selects all; of any tag the events as a whole. Refuses,
    at its place, what would be several events in one column.
    """
    first = next((at + 1 for at in range(start - 1, -1, -1) if cursor.tokens[at].text == ";"), 0)
    last = next((at for at in range(end, len(cursor.tokens)) if cursor.tokens[at].text == ";"), len(cursor.tokens))
    found = [Element(tag, WHOLE) for tag, several in tags.items() if several and _is_all(cursor, start)]
    for at in (*range(first, start), *range(end, last)):
        tag = cursor.tokens[at].text
        if tag in tags and _is_column(cursor, at, start):
            found.append(Element(tag, WHOLE))
        elif tags.get(tag):
            found += _mentioned_at(cursor, at)
    return tuple(dict.fromkeys(map(str, found)))


def _is_all(cursor: Cursor, start: int) -> bool:
    """Whether `select * from` stands before the pattern."""
    words = [cursor.word(at - cursor.at) for at in range(max(start - 3, 0), start)]
    return words[1:] == ["*", "FROM"] and words[0] in _LISTS


def _is_column(cursor: Cursor, at: int, end: int) -> bool:
    """Whether a name is a column alone in the list, `select a, b as x`, which ends before a place."""
    before, after = (cursor.word(at + ahead - cursor.at) for ahead in (-1, 1))
    return at < end and before in (*_LISTS, ",") and after in (",", "FROM", "AS")


def _mentioned_at(cursor: Cursor, at: int) -> Iterator[Element]:
    def word(ahead: int) -> str:
        return cursor.word(at + ahead - cursor.at)

    tag, position = cursor.tokens[at].text, cursor.tokens[at].start
    if word(-1) == ".":
        return
    if word(1) == "[" and word(2).isdigit() and word(3) == "]":
        yield Element(tag, int(word(2)))
    elif word(1) == "." and word(2).lower() in _ENDS:
        yield Element(tag, _ENDS[word(2).lower()])
    elif word(1) == "." and word(2).lower() in COUNTS:
        yield Element(tag, COUNT)
    elif word(1) in (".", "["):
        ways = f"write {tag}[0].…, {tag}.firstOf().…, {tag}.lastOf().… or {tag}.countOf()"
        cursor.fail(f"{tag!r} stands for several events: {ways}", position)


def refuse_bare(cursor: Cursor, expressions: Collection[exp.Expr], tags: Collection[str]) -> None:
    """Refuses `b.v` where `b` stands for several events."""
    for column in (found for one in expressions for found in one.find_all(exp.Column)):
        if column.table in tags:
            name = f"{column.table}[0].{column.name}, {column.table}.lastOf().{column.name}"
            cursor.fail(f"{column.table!r} stands for several events: write {name}", position_of(column))
