"""Query object for what a window holds, told as a whole every so often (EPL's output snapshot, and output all of groups)."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.query.elements import Told, told_by
from bridge.query.expressions import in_order, scalar, scalars
from bridge.query.nodes import Composite, Node, _set
from bridge.query.row_pattern import RowPattern
from nfa.skip import After
from nfa.temporal.tree import Temporal, numbers


@dataclasses.dataclass(frozen=True)
class Snapshot(Node):
    """What a window holds: every so many milliseconds, counted from the first row, or after every so many rows.

    An aggregate over it is told each time: without groups of an empty window, too; with `ever` of every group there has
    been.

    >>> from bridge.query.nodes import Stream, Window
    >>> print(Snapshot(Window(Stream("s"), "ROWS 5"), time=5000))
    SELECT * FROM s WINDOW(ROWS 5) AS IT IS EVERY 5000 MS
    """

    input: Node
    time: int | None = None
    count: int | None = None
    ever: bool = False

    def __str__(self) -> str:
        every = f"{self.count} ROWS" if self.time is None else f"{self.time} MS"
        return f"{self.input} AS IT IS EVERY {every}" + " FOR ALL GROUPS" * self.ever


# Query object for results that are told together once there are enough of them (EPL's output every n events of joins)


@dataclasses.dataclass(frozen=True)
class Gathered(Node):
    """The rows since the last time, told with the event that makes them `count` or more; what one event brings stays together.

    With `first` what the first event brings, at once, and nothing of the others.

    >>> from bridge.query.nodes import Stream
    >>> print(Gathered(Stream("s"), 3))
    SELECT * FROM s GATHERED 3 ROWS
    """

    input: Node
    count: int
    first: bool = False

    def __str__(self) -> str:
        return f"{self.input} GATHERED {'FIRST OF ' * self.first}{self.count} ROWS"


@dataclasses.dataclass(frozen=True)
class Deletion(Composite):
    """What an event of `trigger` deletes from a window: the rows for which `condition` holds.

    The condition names the columns of both, `alias.column` and `row.column`.
    """

    input_fields = ("trigger",)

    trigger: Node
    alias: str
    row: str
    condition: exp.Expr | None = None


@dataclasses.dataclass(frozen=True)
class Deleting(Node):
    """EPL's named window with `on … delete`: the rows of `input`, a window, until an event deletes them."""

    input_fields = ("input", "deletions")

    keeps_name = True

    input: Node
    deletions: tuple[Deletion, ...]


@dataclasses.dataclass(frozen=True)
class EagerMatch(Node):
    """EPL's match_recognize: each match is reported at the row that completes it (or `interval` ms after its first row).

    `input` is a stream or a window of one; what leaves the window ends the open matches that hold it. `pattern.skip` is
    not read: `after` says where the search goes on, and `all_matches` that those of one delivery do not compete.

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
        """How matches are reported, in words."""
        words = ["ALL MATCHES"] * self.all_matches
        words += [f"AFTER MATCH SKIP {self.after.value}"] * (self.after is not After.PAST_LAST_ROW)
        words += [] if self.interval is None else [f"INTERVAL {self.interval} MS"]
        return " ".join(["REPORTED EAGERLY", *words, *["OR TERMINATED"] * self.or_terminated])


@dataclasses.dataclass(frozen=True)
class Occurrence(Composite):
    """One kind of event of a TemporalMatch: of `input`, if `condition` holds, called `tag` (None: its values are not told).

    The condition names its own columns bare and those of events before it `tag.column`. Where events have `keys`, each
    key has a pattern of its own, which begins with its first event; all events have as many keys.
    """

    tag: str | None
    input: Node
    condition: exp.Expr | None = None
    keys: tuple[exp.Expr, ...] = ()

    def __post_init__(self) -> None:
        _set(self, condition=None if self.condition is None else scalar(self.condition), keys=scalars(self.keys))


@dataclasses.dataclass(frozen=True)
class TemporalMatch(Node):
    """EPL's pattern [ … ]: events of several streams in time; `Once(n)` of `pattern` is the n-th of `events`.

    Its columns are `tag_column`, NULL for an event that has not been. Of a tag that the pattern repeats they are
    `tag_0_column`, `tag_last_column` and `tag_count`, for those of `elements`: `tag[0]`, `tag[last]`, `tag[count]`.
    Number n in the guards `While` and `Distinct` is the n-th of `values`, over the events bound then.

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
        _set(self, events=tuple(self.events), values=scalars(self.values), elements=tuple(self.elements))

    @property
    def tags(self) -> tuple[tuple[int, str, bool], ...]:
        """Of every event that has a tag its number, the tag, and whether the pattern repeats it."""
        several = numbers(self.pattern)
        return tuple((n, one.tag, several.get(n, False)) for n, one in enumerate(self.events) if one.tag is not None)

    @property
    def aliases(self) -> tuple[str, ...]:
        """The qualifiers of its columns."""
        return tuple(told.alias for told in self.told)

    @property
    def told(self) -> tuple[Told, ...]:
        """The events that give columns, in their order."""
        return tuple(told_by(self.tags, self.elements))

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return tuple(dict.fromkeys(self.nodes()))


@dataclasses.dataclass(frozen=True)
class Arrange(Node):
    """The rows that one event or instant brings, arranged among themselves: EPL's distinct, order by and limit.

    Each row once with `distinct`; the last one alone with `last_of`, of each group of these; then in the order, NULL
    being least; then so many of them, after `offset`.

    >>> from bridge.query import Stream, Window
    >>> print(Arrange(Window(Stream("s"), "ROWS 3 SLIDE 3"), ["v DESC"], limit=2))
    SELECT * FROM (SELECT * FROM s WINDOW(ROWS 3 SLIDE 3)) ARRANGED (ORDER BY v DESC LIMIT 2)
    """

    input: Node
    order_by: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False
    last_of: tuple[exp.Expr, ...] | None = None

    def __post_init__(self) -> None:
        last_of = None if self.last_of is None else scalars(self.last_of)
        _set(self, order_by=tuple(map(in_order, self.order_by)), last_of=last_of)


@dataclasses.dataclass(frozen=True)
class Lookup(Node):
    """Each row with one column more, what a sub-query over another window finds as the row arrives (EPL).

    The column is called `name`, as are the columns of `source` within `condition` and `value`: `name.column`; others are
    the row's. It is the `value`, an aggregate or that of the only row there is; with `operand`, whether this is among
    the values; without a value, whether there is a row at all. `early`: as it is before
    the row's own event changes it.

    >>> from bridge.query import Stream, Window
    >>> print(Lookup(Stream("s"), "found", Window(Stream("t"), "ROWS 5"), scalar("k = found.k")))
    SELECT * FROM s LOOKING UP found (ROWS OF t WINDOW(ROWS 5) WHERE k = found.k)
    """

    input_fields = ("input", "source")

    input: Node
    name: str
    source: Node
    condition: exp.Expr | None = None
    value: exp.Expr | None = None
    operand: exp.Expr | None = None
    early: bool = False
    place: int | None = None


@dataclasses.dataclass(frozen=True)
class Prior(Node):
    """Each row with one column more: a value of the row so many before it (EPL's prev and prior).

    With `partition_by` of the same keys; with `within` NULL where that row is so many milliseconds older, or more.

    >>> from bridge.query import Stream
    >>> print(Prior(Stream("s"), "before", scalar("v"), 1))
    SELECT * FROM s WITH before (v OF 1 ROWS BEFORE)
    """

    input: Node
    name: str
    value: exp.Expr
    count: int
    within: int | None = None
    partition_by: tuple[exp.Expr, ...] = ()


@dataclasses.dataclass(frozen=True)
class Throttle(Node):
    """The first row of every so many, or of every so many milliseconds counted from the first row: EPL's output first.

    With `partition_by` so many rows of the same keys; or a row that comes so long after the last one told of its keys.

    >>> from bridge.query import Stream
    >>> print(Throttle(Stream("s"), time=5000))
    SELECT * FROM s THROTTLED (FIRST EVERY 5000 MS)
    """

    input: Node
    count: int | None = None
    time: int | None = None
    partition_by: tuple[exp.Expr, ...] = ()


@dataclasses.dataclass(frozen=True)
class Enumeration(Node):
    """Each row with one column more: what a `method` finds in a list, `values`.

    Its `body` is over an element, `name.element`, and over the row: a condition, or a value; without one it is the
    element. NULL among the elements does not count, and of a list that is NULL all is NULL.

    >>> from bridge.query.nodes import Stream

    >>> from bridge.query.expressions import scalar
    >>> print(Enumeration(Stream("S"), "each.1", exp.column("tags"), "COUNT", scalar('"each.1.element" = k')))
    SELECT * FROM S WITH "each.1" (COUNT OF tags: "each.1.element" = k)
    """

    input: Node
    name: str
    values: exp.Expr
    method: str
    body: exp.Expr | None = None

    def __str__(self) -> str:
        body = "" if self.body is None else f": {self.body.sql()}"
        return f'{self.input} WITH "{self.name}" ({self.method} OF {self.values.sql()}{body})'

    @property
    def element(self) -> str:
        """What the body calls an element."""
        return f"{self.name}.element"
