"""EPL's patterns: match_recognize, `pattern [ … ]`, and the events of a tag that a pattern repeats.

Columns are flat, so for a repeated tag `b`, one of its events, the last event and their number are qualifiers:
`b[0].v`, `b[last].v`, `b[count].count`. All events together are one column, the list `b[*]`; for a tag that is not
repeated, that is the event.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlglot import exp

from bridge.query.expressions import scalar, scalars
from bridge.query.nodes import Composite, Node, set_fields
from bridge.query.row_pattern import RowPattern
from nfa.skip import After
from nfa.temporal.tree import Temporal, numbers

LAST, COUNT, WHOLE = "last", "count", "*"
_WHICH = re.compile(r"\[(\d{1,9}|last|count|\*)\]")


@dataclasses.dataclass(frozen=True)
class EagerMatch(Node):
    """EPL's match_recognize: each match is reported at the row that completes it, or `interval` ms after its first row.

    `input` is a stream or a window over one; when a row leaves the window, the open matches that contain it end.
    `after` tells where the search continues (`pattern.skip` is not read). If `all_matches`, all matches that one row
    completes are reported.

    >>> from bridge.query import Stream
    >>> from nfa.parse import parse_pattern
    >>> print(EagerMatch(Stream("s"), RowPattern(parse_pattern("A B"), measures=(exp.alias_("A.v", "v"),))))
    SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.v AS v PATTERN (A B)) REPORTED EAGERLY
    """

    keeps_name = True

    input: Node
    pattern: RowPattern
    after: After = After.PAST_LAST_ROW
    all_matches: bool = False
    interval: int | None = None
    or_terminated: bool = False

    @property
    def reporting(self) -> str:
        """A description of how matches are reported."""
        words = ["ALL MATCHES"] * self.all_matches
        words += [f"AFTER MATCH SKIP {self.after.value}"] * (self.after is not After.PAST_LAST_ROW)
        words += [] if self.interval is None else [f"INTERVAL {self.interval} MS"]
        return " ".join(["REPORTED EAGERLY", *words, *["OR TERMINATED"] * self.or_terminated])


@dataclasses.dataclass(frozen=True)
class Occurrence(Composite):
    """One kind of event in a TemporalMatch: an event of `input` for which `condition` holds.

    `tag` is its name in the columns; without one, the columns have none of its values. The condition names its own
    columns without a tag, and columns of earlier events as `tag.column`. With `keys`, each key has its own pattern,
    which begins with the key's first event; all events have the same number of keys.
    """

    tag: str | None
    input: Node
    condition: exp.Expr | None = None
    keys: tuple[exp.Expr, ...] = ()

    def __post_init__(self) -> None:
        set_fields(self, condition=None if self.condition is None else scalar(self.condition), keys=scalars(self.keys))


@dataclasses.dataclass(frozen=True)
class TemporalMatch(Node):
    """EPL's `pattern [ … ]`: events of several streams in time. `Once(n)` in `pattern` is the n-th of `events`.

    Its columns are `tag_column`, NULL for an event that did not occur. For a repeated tag they are `tag_0_column`,
    `tag_last_column` and `tag_count`, for `tag[0]`, `tag[last]` and `tag[count]` in `elements`. Number n in the guards
    `While` and `Distinct` is the n-th of `values`, over the events bound so far.

    >>> from bridge.query import Stream
    >>> from nfa.temporal.tree import Every, Once, Then
    >>> events = (Occurrence("a", Stream("A")), Occurrence("b", Stream("B"), "k = a.k"))
    >>> print(TemporalMatch(events, Every(Then((Once(0), Once(1))))))
    SELECT * FROM PATTERN [EVERY (a=A -> b=B(k = a.k))]
    """

    input_fields = ("events",)

    events: tuple[Occurrence, ...]
    pattern: Temporal
    values: tuple[exp.Expr, ...] = ()
    elements: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_fields(self, events=tuple(self.events), values=scalars(self.values), elements=tuple(self.elements))

    @property
    def tags(self) -> tuple[tuple[int, str, bool], ...]:
        """The tagged events: number, tag, and whether the pattern repeats it."""
        several = numbers(self.pattern)
        return tuple((n, one.tag, several.get(n, False)) for n, one in enumerate(self.events) if one.tag is not None)

    @property
    def aliases(self) -> tuple[str, ...]:
        """The qualifiers of its columns."""
        return tuple(columns.alias for columns in self.event_columns)

    @property
    def event_columns(self) -> tuple[EventColumns, ...]:
        """The groups of its columns, one per event or element, in order."""
        return tuple(event_columns(self.tags, self.elements))

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return tuple(dict.fromkeys(self.nodes()))


# Events of a repeated tag ---------------------------------------------------------------------------------------------


class Element(NamedTuple):
    """One of the events of `tag`. `which`: its number, counted from 0, "last", "count", or "*" for all of them."""

    tag: str
    which: int | str

    def __str__(self) -> str:
        return f"{self.tag}[{self.which}]"

    @property
    def prefix(self) -> str:
        """The prefix of its columns, or the name of the column of whole events.

        >>> Element("b", 0).prefix, Element("b", LAST).prefix, Element("b", WHOLE).prefix
        ('b_0', 'b_last', 'b')
        """
        return self.tag if self.which == WHOLE else f"{self.tag}_{self.which}"


def element(qualifier: str, tag: str) -> Element | None:
    """The element of this tag that a qualifier names; None if it names another tag.

    >>> element("b[2]", "b"), element("b[2]", "c")
    (Element(tag='b', which=2), None)
    """
    found = _WHICH.fullmatch(qualifier[len(tag) :]) if qualifier.startswith(tag) else None
    if found is None:
        return None
    return Element(tag, int(found[1]) if found[1].isdigit() else found[1])


def elements(expressions: Iterable[exp.Expr], tag: str) -> tuple[Element, ...]:
    """The elements of a tag that expressions name, each once."""
    tables = (column.table for one in expressions for column in one.find_all(exp.Column))
    found = (element(table, tag) for table in tables)
    return tuple(dict.fromkeys(one for one in found if one is not None))


class EventColumns(NamedTuple):
    """The columns of one event in a pattern: its number, their qualifier and prefix, and which of several it is."""

    number: int
    alias: str
    prefix: str
    which: int | str

    @property
    def is_count(self) -> bool:
        """Whether it is the number of events."""
        return self.which == COUNT

    @property
    def is_whole(self) -> bool:
        """Whether it is the event itself, or the list of all events."""
        return self.which == WHOLE

    @property
    def is_one(self) -> bool:
        """Whether it is a single column."""
        return self.is_count or self.is_whole

    @property
    def at(self) -> int | None:
        """Its index among the events of its tag; None for the last one."""
        return self.which if isinstance(self.which, int) else None


def event_columns(tags: Iterable[tuple[int, str, bool]], named: Iterable[str]) -> Iterator[EventColumns]:
    """The groups of columns of tagged events (`TemporalMatch.tags`), and of the elements `named` for repeated tags.

    >>> [one.prefix for one in event_columns([(0, "a", True), (1, "c", False)], ["a[0]", "a[count]", "a[*]"])]
    ['a_0', 'a_count', 'a', 'c']
    """
    for number, tag, several in tags:
        if not several:
            yield EventColumns(number, tag, tag, LAST)
        for alias in named:
            if (one := element(alias, tag)) is not None and (several or one.which == WHOLE):
                yield EventColumns(number, alias, one.prefix, one.which)
