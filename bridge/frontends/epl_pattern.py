"""EPL's pattern [ … ], from its text to a TemporalMatch.

What binds tightest comes first: parentheses and events; `where timer:within`; `every` and `not`; `and`; `or`; `->`.
"""

from __future__ import annotations

from typing import NoReturn

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_from import filtered
from bridge.frontends.epl_text import period, whole
from bridge.frontends.scalars import Names, resolved
from bridge.query import Occurrence, Stream, TemporalMatch
from nfa.temporal import Absent, After, Both, Either, Every, Once, Temporal, Then, Within

_GUARDS = {
    "while": "a while guard is not supported: write the condition as a filter of the event",
}
_OBSERVERS = {
    "at": "timer:at is not supported: push an event at these times",
    "schedule": "timer:schedule is not supported: push an event at these times",
}


def pattern(cursor: Cursor) -> TemporalMatch:
    """Step over `pattern [ … ]`.

    >>> from bridge.frontends.epl_text import EplCursor
    >>> print(pattern(EplCursor("pattern [every a=A -> b=B(k = a.k) and not C]")))
    SELECT * FROM PATTERN [(EVERY a=A) -> (b=B(k = a.k) AND (NOT C))]
    """
    cursor.expect("PATTERN")
    _refuse_annotations(cursor)
    cursor.expect("[")
    reader = _Reader(cursor)
    tree = reader.then()
    cursor.expect("]")
    return TemporalMatch(tuple(reader.events), tree)


class _Reader:
    """Recursive descent; each method reads one level of precedence."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.events: list[Occurrence] = []

    def then(self) -> Temporal:
        found = [self.either()]
        while self.cursor.word() in ("->", "-"):
            if not self.cursor.take("->"):
                self.cursor.fail("-[n]> is not supported: -> waits for every event, whatever their number")
            found.append(self.either())
        return found[0] if len(found) == 1 else Then(tuple(found))

    def either(self) -> Temporal:
        found = [self.both()]
        while self.cursor.take("OR"):
            found.append(self.both())
        return found[0] if len(found) == 1 else Either(tuple(found))

    def both(self) -> Temporal:
        found = [self.every()]
        while self.cursor.take("AND"):
            found.append(self.every())
        return found[0] if len(found) == 1 else Both(tuple(found))

    def every(self) -> Temporal:
        position = self.cursor.position
        if self.cursor.take("EVERY"):
            if self.cursor.word() == "-":
                self.cursor.fail("every-distinct is not supported: match_recognize can partition by keys", position)
            return Every(self.every())
        if self.cursor.word() == "EVERY_DISTINCT":
            self.cursor.fail("every-distinct is not supported: match_recognize can partition by keys")
        if self.cursor.take("NOT"):
            return Absent(self.every())
        return self.guarded()

    def guarded(self) -> Temporal:
        cursor = self.cursor
        tree = self.atom()
        while cursor.take("WHERE"):
            position = cursor.position
            name = self._timer(cursor, ("within", "withinmax"), position)
            cursor.expect("(")
            time = period(cursor)
            most = None
            if name == "withinmax":
                cursor.expect(",")
                most = whole(cursor, "how often")
            cursor.expect(")")
            tree = Within(tree, time, most)
        if cursor.word() == "WHILE":
            cursor.fail(_GUARDS["while"])
        if cursor.word() == "UNTIL":
            cursor.fail("until is not supported: match_recognize repeats, with A* B")
        return tree

    def atom(self) -> Temporal:
        cursor = self.cursor
        if cursor.take("("):
            tree = self.then()
            cursor.expect(")")
            return tree
        if cursor.word() == "[":
            cursor.fail("repetition is not supported: match_recognize repeats, with A{3}")
        if cursor.word() == "TIMER" and cursor.word(1) == ":":
            position = cursor.position
            self._timer(cursor, ("interval",), position)
            cursor.expect("(")
            time = period(cursor)
            cursor.expect(")")
            return After(time)
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
        condition = filtered(cursor)
        if condition is not None:
            tags = tuple(event.tag for event in self.events if event.tag is not None)
            (condition,) = resolved(cursor, [condition], Names(tag or name, tags))
        if cursor.take("@"):
            self._refuse_at(place)
        self.events.append(Occurrence(tag, Stream(name), condition))
        return Once(len(self.events) - 1)

    def _refuse_at(self, position: int) -> NoReturn:
        self.cursor.fail("@consume is not supported: one event can be several, as without it", position)

    def _timer(self, cursor: Cursor, known: tuple[str, ...], position: int) -> str:
        if not cursor.take("TIMER"):
            cursor.fail(f"timer:{known[0]}(…) is expected, not {cursor.shown()}", position)
        cursor.expect(":")
        name = cursor.name("within, interval").lower()
        if name not in known:
            message = _OBSERVERS.get(name, f"timer:{name} has no meaning here; there is timer:{known[0]}")
            cursor.fail(message, position)
        return name


def _refuse_annotations(cursor: Cursor) -> None:
    if cursor.word() == "@":
        cursor.fail("@DiscardPartialsOnMatch and @SuppressOverlappingMatches are not supported")
