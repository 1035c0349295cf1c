"""The events of a tag that a pattern repeats: one of them, the last, or how many they are, as a qualifier of columns.

Columns are flat, so each is an input of its own: `b[0].v`, `b[last].v`, `b[count].count`; or all of them are one column, a
list, `b[*]`. Of a tag that is not repeated that is the event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlglot import exp

LAST, COUNT, WHOLE = "last", "count", "*"
_WHICH = re.compile(r"\[(\d{1,9}|last|count|\*)\]")


class Element(NamedTuple):
    """Of the events of `tag` the one of this number, counted from 0; the last; their count; or they themselves."""

    tag: str
    which: int | str

    def __str__(self) -> str:
        return f"{self.tag}[{self.which}]"

    @property
    def prefix(self) -> str:
        """What its columns begin with, or what the one of whole events is called.

        >>> Element("b", 0).prefix, Element("b", LAST).prefix, Element("b", WHOLE).prefix
        ('b_0', 'b_last', 'b')
        """
        return self.tag if self.which == WHOLE else f"{self.tag}_{self.which}"


def element(qualifier: str, tag: str) -> Element | None:
    """What a qualifier means, if it is about this tag.

    >>> element("b[2]", "b"), element("b[2]", "c")
    (Element(tag='b', which=2), None)
    """
    found = _WHICH.fullmatch(qualifier[len(tag) :]) if qualifier.startswith(tag) else None
    if found is None:
        return None
    return Element(tag, int(found[1]) if found[1].isdigit() else found[1])


def elements(expressions: Iterable[exp.Expr], tag: str) -> tuple[Element, ...]:
    """What expressions name of a tag's events, each once."""
    tables = (column.table for one in expressions for column in one.find_all(exp.Column))
    found = (element(table, tag) for table in tables)
    return tuple(dict.fromkeys(one for one in found if one is not None))


class Told(NamedTuple):
    """An event that gives columns: its number, their qualifier and what they begin with, which it is of several."""

    number: int
    alias: str
    prefix: str
    which: int | str

    @property
    def is_count(self) -> bool:
        """Whether it is how many there are."""
        return self.which == COUNT

    @property
    def is_whole(self) -> bool:
        """Whether it is the event, or the list of them."""
        return self.which == WHOLE

    @property
    def is_one(self) -> bool:
        """Whether it is one column."""
        return self.is_count or self.is_whole

    @property
    def at(self) -> int | None:
        """Its place among several; None for the last."""
        return self.which if isinstance(self.which, int) else None


def told_by(tags: Iterable[tuple[int, str, bool]], named: Iterable[str]) -> Iterator[Told]:
    """The events that give columns, of tags (their numbers, and whether each is repeated) and elements named of these.

    >>> [told.prefix for told in told_by([(0, "a", True), (1, "c", False)], ["a[0]", "a[count]", "a[*]"])]
    ['a_0', 'a_count', 'a', 'c']
    """
    for number, tag, several in tags:
        if not several:
            yield Told(number, tag, tag, LAST)
        for alias in named:
            if (one := element(alias, tag)) is not None and (several or one.which == WHOLE):
                yield Told(number, alias, one.prefix, one.which)
