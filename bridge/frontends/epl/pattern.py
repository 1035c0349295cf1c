"""EPL's pattern [ … ], from its text to a TemporalMatch.

Precedence, from the tightest: parentheses and events; a guard (`where timer:within` or `while`); `every`,
`every-distinct` and `not`, with a repetition `[n]` after them; `until`, with a repetition before it; `and`; `or`; `->`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import NoReturn

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.cursor import period, whole
from bridge.frontends.epl.expressions import event_filter
from bridge.frontends.epl.paths import COUNTS
from bridge.frontends.epl.timers import timer
from bridge.frontends.expressions import Qualifiers, position_of, resolve
from bridge.query.epl_patterns import COUNT, LAST, WHOLE, Element, Occurrence, TemporalMatch, elements
from bridge.query.nodes import Stream
from nfa.temporal.calendar import Dates
from nfa.temporal.tree import (
    Absent,
    At,
    Both,
    Distinct,
    Either,
    Every,
    Once,
    Repeat,
    Temporal,
    Then,
    While,
    Within,
    is_instant,
)

_TIMERS = ("interval", "at", "schedule")
_GUARDS = ("within", "withinmax")


def pattern(cursor: Cursor) -> TemporalMatch:
    """Steps over `pattern [ … ]`.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> print(pattern(EplCursor("pattern [every a=A -> b=B(k = a.k) and not C]")))
    SELECT * FROM PATTERN [(EVERY a=A) -> (b=B(k = a.k) AND (NOT C))]
    """
    start = cursor.at
    cursor.expect("PATTERN")
    _refuse_annotations(cursor)
    cursor.expect("[")
    reader = _PatternReader(cursor)
    tree = reader.then()
    cursor.expect("]")
    found = TemporalMatch(tuple(reader.events), tree, tuple(reader.values))
    tags = {tag: several for _, tag, several in found.tags}
    return dataclasses.replace(found, elements=elements_used(cursor, tags, start, cursor.at))


class _PatternReader:
    """A recursive descent parser; each method parses one level of precedence."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.events: list[Occurrence] = []
        self.values: list[exp.Expr] = []
        self.repeated: set[str] = set()
        """The tags that stand for several events from here on."""

    def then(self) -> Temporal:
        found = [self.either()]
        limits = list[int | None]()
        while self.cursor.word() in ("->", "→", "-"):
            limits.append(None if self.cursor.take("->") or self.cursor.take("→") else self._limit())
            found.append(self.either())
        if len(found) == 1:
            return found[0]
        return Then(tuple(found), tuple(limits) if any(limits) else ())

    def _limit(self) -> int:
        """`-[n]>`"""
        self.cursor.expect("-")
        self.cursor.expect("[")
        limit = whole(self.cursor, "the most that may wait at once")
        self.cursor.expect("]")
        self.cursor.expect(">")
        return limit

    def either(self) -> Temporal:
        found = [self.both()]
        while self.cursor.take("OR"):
            found.append(self.both())
        return found[0] if len(found) == 1 else Either(tuple(found))

    def both(self) -> Temporal:
        found = [self.until()]
        while self.cursor.take("AND"):
            found.append(self.until())
        return found[0] if len(found) == 1 else Both(tuple(found))

    def until(self) -> Temporal:
        cursor, position, first = self.cursor, self.cursor.position, len(self.events)
        bounds = self._bounds() if cursor.word() == "[" else None
        tree = self.every()
        place = cursor.position
        if not cursor.take("UNTIL"):
            return tree if bounds is None else self._repeat(tree, bounds, None, position, first)
        if is_instant(tree):
            cursor.fail(
                "what is repeated is true from its start: an event, or a timer, is expected before until", position
            )
        last = len(self.events)
        end = self.every()
        if is_instant(end):
            cursor.fail("what until waits for is true from its start", place)
        return self._repeat(tree, bounds or (None, None), end, position, first, last)

    def _bounds(self) -> tuple[int | None, int | None]:
        """`[n]`, `[n:m]`, `[n:]`, `[:m]`"""
        cursor = self.cursor
        position = cursor.position
        cursor.expect("[")
        least: int | None = None
        most: int | None
        if cursor.take(":"):
            most = whole(cursor, "how often")
        else:
            least = whole(cursor, "how often", 0)
            ranged = cursor.take(":")
            most = (whole(cursor, "how often at most") if cursor.word() != "]" else None) if ranged else least
        if most == 0 or (least is not None and most is not None and most < least):
            cursor.fail("a repetition is at least once, and from fewer times to more", position)
        cursor.expect("]")
        return least, most

    def _repeat(
        self,
        tree: Temporal,
        bounds: tuple[int | None, int | None],
        until: Temporal | None,
        position: int,
        first: int,
        last: int | None = None,
    ) -> Repeat:
        found = Repeat(tree, *bounds, until)
        if until is None and not found.is_exact:
            self.cursor.fail("a repetition of [n:m] wants until; [n] alone ends by itself", position)
        if is_instant(tree):
            self.cursor.fail("what is repeated is true from its start: an event, or a timer, is expected", position)
        self.repeated |= {event.tag for event in self.events[first:last] if event.tag is not None}
        return found

    def every(self) -> Temporal:
        cursor = self.cursor
        if cursor.take("EVERY", "-"):
            cursor.expect("DISTINCT")
            return self._distinct()
        if cursor.take("EVERY"):
            return _every(self._repeated())
        if cursor.take("NOT"):
            return Absent(self._repeated())
        return self.guarded()

    def _repeated(self) -> Temporal:
        """The operand of `every` and `not`, which may be a repetition without until."""
        if self.cursor.word() != "[":
            return self.every()
        position, first = self.cursor.position, len(self.events)
        bounds = self._bounds()
        return self._repeat(self.every(), bounds, None, position, first)

    def _distinct(self) -> Temporal:
        """`every-distinct(key, …, time) part`. The keys name events of the part, so they are resolved after it."""
        cursor = self.cursor
        cursor.expect("(")
        regions, time = [], None
        while time is None:
            if cursor.word()[:1].isdigit():
                time = period(cursor)
            else:
                regions.append(cursor.until((",",)))
                if regions[-1].start == regions[-1].end:
                    cursor.fail("every-distinct wants a key: every-distinct(a.k) a=A")
            if not cursor.take(","):
                break
        cursor.expect(")")
        if not regions:
            cursor.fail("every-distinct wants a key: every-distinct(a.k) a=A")
        part = self._repeated()
        keys = [epl_expressions.expression_list(cursor, region, "a key")[0] for region in regions]
        return Distinct(part, tuple(map(self._value, keys)), time)

    def guarded(self) -> Temporal:
        cursor = self.cursor
        tree = self.atom()
        while cursor.word() in ("WHERE", "WHILE"):
            if cursor.take("WHILE"):
                cursor.expect("(")
                condition = epl_expressions.single_expression(cursor, cursor.until(()), "a condition")
                cursor.expect(")")
                tree = While(tree, self._value(condition))
                continue
            cursor.expect("WHERE")
            name = self._timer(_GUARDS)
            cursor.expect("(")
            time = period(cursor)
            most = None
            if name == "withinmax":
                cursor.expect(",")
                most = whole(cursor, "how often")
            cursor.expect(")")
            tree = Within(tree, time, most)
        return tree

    def atom(self) -> Temporal:
        cursor = self.cursor
        if cursor.take("("):
            tree = self.then()
            cursor.expect(")")
            return tree
        if cursor.word() == "TIMER" and cursor.word(1) == ":":
            position = cursor.position
            return timer(cursor, self._timer(_TIMERS), position)
        return self._event()

    def _event(self) -> Temporal:
        cursor = self.cursor
        tag = None
        name = cursor.name("an event")
        if cursor.take("="):
            tag, name = name, cursor.name("the stream of the event")
        if cursor.word() in (".", "#"):
            cursor.fail("a pattern reads streams as they come, not windows or parts of their events")
        place = cursor.position
        condition = event_filter(cursor)
        if condition is not None:
            condition = self._resolved(condition, tag or self._own(name))
        if cursor.take("@"):
            self._refuse_at(place)
        self.events.append(Occurrence(tag, Stream(name), condition))
        return Once(len(self.events) - 1)

    # What expressions name ----------------------------------------------------------------------------------------------

    def _resolved(self, expression: exp.Expr, own: str | None) -> exp.Expr:
        refuse_bare(self.cursor, [expression], self.repeated)
        tags = [event.tag for event in self.events if event.tag is not None]
        several = [str(one) for tag in tags if tag in self.repeated for one in elements([expression], tag)]
        single = [tag for tag in tags if tag not in self.repeated]
        (found,) = resolve(self.cursor, [expression], Qualifiers(own, (*single, *several)))
        return found

    def _own(self, stream: str) -> str | None:
        """The name of an event without a tag in its filter: its stream, unless that is the tag of an earlier event."""
        tags = [event.tag.lower() for event in self.events if event.tag is not None]
        return None if stream.lower() in tags else stream

    def _value(self, expression: exp.Expr) -> int:
        """The number of the value that a guard reads from the bound events."""
        self.values.append(self._resolved(expression, None))
        return len(self.values) - 1

    # Refusals -----------------------------------------------------------------------------------------------------------

    def _refuse_at(self, position: int) -> NoReturn:
        self.cursor.fail("@consume is not supported: one event can be several, as without it", position)

    def _timer(self, known: tuple[str, ...]) -> str:
        cursor = self.cursor
        position = cursor.position
        if not cursor.take("TIMER"):
            cursor.fail(f"timer:{known[0]}(…) is expected, not {cursor.next_text()}", position)
        cursor.expect(":")
        name = cursor.name("the name of a timer").lower()
        if name not in known:
            there = ", ".join(f"timer:{one}" for one in known)
            cursor.fail(f"timer:{name} has no meaning here; there is {there}", position)
        return name


def _every(part: Temporal) -> Temporal:
    """`every timer:schedule(…)` stands for each of its dates; nothing begins again after the last one."""
    if isinstance(part, At) and isinstance(part.when, Dates):
        return At(part.when, repeatedly=True)
    return Every(part)


def _refuse_annotations(cursor: Cursor) -> None:
    if cursor.word() == "@":
        cursor.fail("@DiscardPartialsOnMatch and @SuppressOverlappingMatches are not supported")


# `b[0].v`, `b.lastOf().v`, `b.countOf()`: the events of a tag that a pattern repeats, in EPL's notation

_ENDS: dict[str, int | str] = {"firstof": 0, "lastof": LAST}
_LISTS = ("SELECT", "ISTREAM", "RSTREAM", "IRSTREAM", "DISTINCT")
"""The words before a list of columns."""


def elements_used(cursor: Cursor, tags: Mapping[str, bool], start: int, end: int) -> tuple[str, ...]:
    """The uses of tags in the statement outside its pattern, the tokens from `start` to before `end`.

    For a repeated tag these are the events that are named, or all of them with `select *`; for any tag, the events as a
    whole. Refuses, at its place, an expression that would put several events into one column.
    """
    first = next((at + 1 for at in range(start - 1, -1, -1) if cursor.tokens[at].text == ";"), 0)
    last = next((at for at in range(end, len(cursor.tokens)) if cursor.tokens[at].text == ";"), len(cursor.tokens))
    found = [Element(tag, WHOLE) for tag, several in tags.items() if several and _is_all(cursor, start)]
    for at in (*range(first, start), *range(end, last)):
        tag = cursor.tokens[at].text
        if tag in tags and _is_column(cursor, at, start):
            found.append(Element(tag, WHOLE))
        elif tags.get(tag):
            found += _element_at(cursor, at)
    return tuple(dict.fromkeys(map(str, found)))


def _is_all(cursor: Cursor, start: int) -> bool:
    """Whether `select * from` comes before the pattern."""
    words = [cursor.word(at - cursor.at) for at in range(max(start - 3, 0), start)]
    return words[1:] == ["*", "FROM"] and words[0] in _LISTS


def _is_column(cursor: Cursor, at: int, end: int) -> bool:
    """Whether a name before a place is a column of its own in the list, as in `select a, b as x`."""
    before, after = (cursor.word(at + ahead - cursor.at) for ahead in (-1, 1))
    return at < end and before in (*_LISTS, ",") and after in (",", "FROM", "AS")


def _element_at(cursor: Cursor, at: int) -> Iterator[Element]:
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
    """Refuses `b.v` if `b` stands for several events."""
    for column in (found for one in expressions for found in one.find_all(exp.Column)):
        if column.table in tags:
            name = f"{column.table}[0].{column.name}, {column.table}.lastOf().{column.name}"
            cursor.fail(f"{column.table!r} stands for several events: write {name}", position_of(column))
