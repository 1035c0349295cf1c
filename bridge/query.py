"""Query objects: the logical form of every query, in whatever language it was written (JEPC: everything is an object).

Objects compose without limit; scalars are sqlglot expressions, given as such (`col("a") - col("b") > 1`) or as SQL text.

>>> trades = Stream("trades", "symbol VARCHAR, price DOUBLE")
>>> query = Aggregate(Window(Filter(trades, "price > 0"), "RANGE 5 S"), ["symbol", avg("price").as_("mean")], ["symbol"])
>>> print(query)
SELECT symbol, AVG(price) AS mean FROM (SELECT * FROM trades[symbol: VARCHAR, price: DOUBLE] WHERE price > 0) \
WINDOW(RANGE 5000 MS) GROUP BY symbol
"""

from __future__ import annotations

import builtins
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from bridge.errors import QueryError
from bridge.recognize.clause import RowPattern
from bridge.repeated import Told, told_by
from nfa.errors import PatternError
from nfa.parse import parse_pattern
from nfa.pattern import Pattern
from nfa.skip import After
from nfa.temporal.tree import Temporal, numbers
from windows.extents import (
    Batch,
    Extent,
    FirstRange,
    FirstRows,
    Now,
    Range,
    Rows,
    Session,
    Top,
    Trailing,
    Tumbling,
    Unbounded,
    duration,
)
from windows.schema import Schema, TypeMismatch

Scalar = exp.Expr | str
"""A value or condition: a sqlglot expression or its SQL text."""


class Node:
    """The parent of all query objects. `str(node)` is the query in the bridge's SQL; parsing that gives an equal node."""

    def __str__(self) -> str:
        from bridge.write import statement

        return statement(self)

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        """The nodes this one reads, left to right."""
        return ()


@dataclasses.dataclass(frozen=True)
class Stream(Node):
    """A registered stream, or the results of another query, by name. With a schema the stream is registered on use.

    >>> print(Stream("s", "a INTEGER"))
    SELECT * FROM s[a: INTEGER]
    """

    name: str
    schema: Schema | None = None

    def __post_init__(self) -> None:
        if self.schema is not None:
            _set(self, schema=_checked(Schema.of, self.schema))

    __str__ = Node.__str__


@dataclasses.dataclass(frozen=True)
class Relation(Node):
    """A table of the database (rule O4), as it is at the moment of the push; `name` may be `schema.table`.

    >>> print(Correlate([Stream("trades"), Relation("companies")], "trades.symbol = companies.symbol"))
    SELECT * FROM trades, companies WHERE trades.symbol = companies.symbol
    """

    name: str

    __str__ = Node.__str__


@dataclasses.dataclass(frozen=True)
class Window(Node):
    """The rows of `input` that count at a time: an extent or its text, `"RANGE 5 S"`, `"ROWS 10"` (section W).

    >>> print(Window(Stream("s"), Range("5 S")))
    SELECT * FROM s WINDOW(RANGE 5000 MS)
    >>> print(Window(Stream("s"), "ROWS 10", ["k"]))
    SELECT * FROM s WINDOW(PARTITION BY k ROWS 10)
    >>> print(Window(Stream("s"), Batch("a > 9", "a < 1")))
    SELECT * FROM s WINDOW(START a > 9 STOP a < 1)
    """

    input: Node
    extent: Extent
    partition_by: tuple[exp.Expr, ...] = ()

    def __post_init__(self) -> None:
        held = _checked(extent, self.extent)
        if isinstance(held, Batch):
            held = Batch(scalar(held.start), scalar(held.stop))
        if isinstance(held, Trailing) and held.of is not None:
            held = Trailing(held.size, held.count, scalar(held.of))
        if isinstance(held, Tumbling):
            held = Tumbling(held.size, scalar(held.of), held.origin)
        if isinstance(held, Top):
            held = Top(held.count, tuple(map(in_order, held.order)), scalars(held.last_of))
        _set(self, extent=held, partition_by=scalars(self.partition_by))

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class Filter(Node):
    """O1: the rows for which `condition` is true.

    >>> print(Filter(Stream("s"), col("a") > 1))
    SELECT * FROM s WHERE a > 1
    """

    input: Node
    condition: exp.Expr

    def __post_init__(self) -> None:
        _set(self, condition=scalar(self.condition))

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class Map(Node):
    """O1: one row of `columns` for each row; a column is an expression, `"a + b AS c"`, or `"*"`.

    >>> print(Map(Stream("s"), ["a", "a + b AS c"]))
    SELECT a, a + b AS c FROM s
    """

    input: Node
    columns: tuple[exp.Expr, ...]

    def __post_init__(self) -> None:
        _set(self, columns=projections(self.columns))

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class Union(Node):
    """O1: the rows of all inputs merged in (ts, seq) order; equal schemas, the names are the first input's.

    >>> print(Union([Stream("s"), Stream("t")]))
    SELECT * FROM s UNION ALL SELECT * FROM t
    """

    inputs: tuple[Node, ...]

    def __post_init__(self) -> None:
        _set(self, inputs=tuple(self.inputs))
        if len(self.inputs) < 2:
            raise QueryError("a union has at least two inputs")

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return self.inputs


@dataclasses.dataclass(frozen=True)
class Aggregate(Node):
    """O2: at each row entering the window of `input`, `columns` over the window, of that row's group.

    With `on_change` also the groups that expiry changed, at the expiry time (`EMIT ON CHANGE`). With `every_change` once
    at each moment that changes the window, the groups that got rows and those that lost some, also when nothing is left
    (`EMIT ON EVERY CHANGE`, as EPL reports).

    >>> print(Aggregate(Window(Stream("s"), "ROWS 10"), ["k", count().as_("n")], ["k"], having=count() > 1))
    SELECT k, COUNT(*) AS n FROM s WINDOW(ROWS 10) GROUP BY k HAVING COUNT(*) > 1
    """

    input: Node
    columns: tuple[exp.Expr, ...]
    group_by: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    on_change: bool = False
    every_change: bool = False

    def __post_init__(self) -> None:
        having = None if self.having is None else scalar(self.having)
        _set(self, columns=projections(self.columns), group_by=scalars(self.group_by), having=having)

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class Correlate(Node):
    """O3: each arriving row joined with the other inputs' windows where `condition` is true.

    `inputs` maps aliases to nodes (a plain sequence takes the streams' names); conditions name columns `alias.column`.
    `outer` names the inputs whose rows are reported as they arrive also where nothing joins them, with NULLs; `driving`
    the one input whose arrivals alone are reported (EPL's outer joins of two inputs, and its unidirectional).

    >>> print(Correlate({"l": Window(Stream("s"), "NOW"), "r": Window(Stream("t"), "RANGE 2 S")}, "l.a = r.b"))
    SELECT * FROM s WINDOW(NOW) AS l, t WINDOW(RANGE 2000 MS) AS r WHERE l.a = r.b
    """

    inputs: tuple[tuple[str, Node], ...]
    condition: exp.Expr | None = None
    outer: frozenset[str] = frozenset()
    driving: str | None = None

    def __post_init__(self) -> None:
        pairs = self.inputs.items() if isinstance(self.inputs, Mapping) else self.inputs
        named = tuple(_named(place, item) for place, item in enumerate(pairs, 1))
        _set(self, inputs=named, condition=None if self.condition is None else scalar(self.condition))
        lowered = [alias.lower() for alias, _ in named]
        if len(named) < 2:
            raise QueryError("a correlation has at least two inputs")
        for alias in lowered:
            if lowered.count(alias) > 1:
                raise QueryError(f"two inputs are called {alias!r}: give one of them an alias")

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return tuple(node for _, node in self.inputs)


@dataclasses.dataclass(frozen=True)
class Definition:
    """One symbol of a Match: its condition (None: always true) and the variables set when it is taken (P3).

    >>> print(Definition("y", "a > z1", {"z2": "a"}).assignments[0][0])
    z2
    """

    symbol: str
    condition: exp.Expr | None = None
    assignments: tuple[tuple[str, exp.Expr], ...] = ()

    def __post_init__(self) -> None:
        pairs = self.assignments.items() if isinstance(self.assignments, Mapping) else self.assignments
        condition = None if self.condition is None else scalar(self.condition)
        _set(self, condition=condition, assignments=tuple((name, scalar(value)) for name, value in pairs))


@dataclasses.dataclass(frozen=True)
class Match(Node):
    """P1–P7: every way to match `pattern` strictly sequentially over time instants, within less than `within` ms.

    >>> rise = [Definition("x", None, {"z1": "a"}), Definition("y", "a > z1", {"z2": "a"})]
    >>> print(Match(Stream("s"), "xy", "2 S", "z1 INTEGER, z2 INTEGER", rise))
    SELECT * FROM s MATCHING (PATTERN x y WITHIN 2000 MS MEASURES z1: INTEGER, z2: INTEGER \
DEFINE x DO z1 = a, y AS a > z1 DO z2 = a)
    """

    input: Node
    pattern: Pattern
    within: int
    measures: Schema
    define: tuple[Definition, ...] = ()
    partition_by: tuple[exp.Expr, ...] = ()

    def __post_init__(self) -> None:
        names = [definition.symbol for definition in self.define]
        _set(
            self,
            pattern=self.pattern if isinstance(self.pattern, Pattern) else _pattern(self.pattern, names),
            within=_checked(duration, self.within),
            measures=_checked(Schema.of, self.measures),
            define=tuple(self.define),
            partition_by=scalars(self.partition_by),
        )

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class MatchRecognize(Node):
    """SQL:2016's MATCH_RECOGNIZE over a stream: what matches is reported as soon as it is decided."""

    input: Node
    pattern: RowPattern

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class Deletion:
    """What an event of `trigger` deletes from a window: the rows for which `condition` holds.

    The condition names the columns of both, `alias.column` and `row.column`.
    """

    trigger: Node
    alias: str
    row: str
    condition: exp.Expr | None = None


@dataclasses.dataclass(frozen=True)
class Deleting(Node):
    """EPL's named window with `on … delete`: the rows of `input`, a window, until an event deletes them."""

    input: Node
    deletions: tuple[Deletion, ...]

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input, *(deletion.trigger for deletion in self.deletions))


@dataclasses.dataclass(frozen=True)
class EagerMatch(Node):
    """EPL's match_recognize: each match is reported at the row that completes it (or `interval` ms after its first row).

    `input` is a stream or a window of one; what leaves the window ends the open matches that hold it. `pattern.skip` is
    not read: `after` says where the search goes on, and `all_matches` that those of one delivery do not compete.

    >>> from nfa.parse import parse_pattern
    >>> print(EagerMatch(Stream("s"), RowPattern(parse_pattern("A B"), measures=(exp.alias_("A.v", "v"),))))
    SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.v AS v PATTERN (A B)) REPORTED EAGERLY
    """

    input: Node
    pattern: RowPattern
    after: After = After.PAST_LAST_ROW
    all_matches: bool = False
    interval: int | None = None
    or_terminated: bool = False

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def reporting(self) -> str:
        """How matches are reported, in words."""
        words = ["ALL MATCHES"] * self.all_matches
        words += [f"AFTER MATCH SKIP {self.after.value}"] * (self.after is not After.PAST_LAST_ROW)
        words += [] if self.interval is None else [f"INTERVAL {self.interval} MS"]
        return " ".join(["REPORTED EAGERLY", *words, *["OR TERMINATED"] * self.or_terminated])


@dataclasses.dataclass(frozen=True)
class Occurrence:
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

    >>> from nfa.temporal.tree import Every, Once, Then
    >>> events = (Occurrence("a", Stream("A")), Occurrence("b", Stream("B"), "k = a.k"))
    >>> print(TemporalMatch(events, Every(Then((Once(0), Once(1))))))
    SELECT * FROM PATTERN [EVERY (a=A -> b=B(k = a.k))]
    """

    events: tuple[Occurrence, ...]
    pattern: Temporal
    values: tuple[exp.Expr, ...] = ()
    elements: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _set(self, events=tuple(self.events), values=scalars(self.values), elements=tuple(self.elements))

    __str__ = Node.__str__

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
        return tuple(dict.fromkeys(event.input for event in self.events))


@dataclasses.dataclass(frozen=True)
class Arrange(Node):
    """The rows that one event or instant brings, arranged among themselves: EPL's distinct, order by and limit.

    Each row once with `distinct`; the last one alone with `last_of`, of each group of these; then in the order, NULL
    being least; then so many of them, after `offset`.

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

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class Lookup(Node):
    """Each row with one column more, what a sub-query over another window finds as the row arrives (EPL).

    The column is called `name`, as are the columns of `source` within `condition` and `value`: `name.column`; others are
    the row's. It is the `value`, an aggregate or that of the only row there is; with `operand`, whether this is among
    the values; without a value, whether there is a row at all. `early`: as it is before
    the row's own event changes it.

    >>> print(Lookup(Stream("s"), "found", Window(Stream("t"), "ROWS 5"), scalar("k = found.k")))
    SELECT * FROM s LOOKING UP found (ROWS OF t WINDOW(ROWS 5) WHERE k = found.k)
    """

    input: Node
    name: str
    source: Node
    condition: exp.Expr | None = None
    value: exp.Expr | None = None
    operand: exp.Expr | None = None
    early: bool = False
    place: int | None = None

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input, self.source)


@dataclasses.dataclass(frozen=True)
class Prior(Node):
    """Each row with one column more: a value of the row so many before it (EPL's prev and prior).

    With `partition_by` of the same keys; with `within` NULL where that row is so many milliseconds older, or more.

    >>> print(Prior(Stream("s"), "before", scalar("v"), 1))
    SELECT * FROM s WITH before (v OF 1 ROWS BEFORE)
    """

    input: Node
    name: str
    value: exp.Expr
    count: int
    within: int | None = None
    partition_by: tuple[exp.Expr, ...] = ()

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class Throttle(Node):
    """The first row of every so many, or of every so many milliseconds counted from the first row: EPL's output first.

    With `partition_by` so many rows of the same keys; or a row that comes so long after the last one told of its keys.

    >>> print(Throttle(Stream("s"), time=5000))
    SELECT * FROM s THROTTLED (FIRST EVERY 5000 MS)
    """

    input: Node
    count: int | None = None
    time: int | None = None
    partition_by: tuple[exp.Expr, ...] = ()

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclasses.dataclass(frozen=True)
class Output(Node):
    """The one end of a query definition; `create_query` adds it where it is missing.

    >>> print(Output(Stream("s")))
    SELECT * FROM s
    """

    input: Node

    __str__ = Node.__str__

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        return (self.input,)


def walk(node: Node) -> Iterable[Node]:
    """`node` and all below it, inputs before their readers."""
    for below in node.inputs_of:
        yield from walk(below)
    yield node


def unfiltered(node: Node) -> Node:
    """What is left without the filters that a node begins with."""
    while isinstance(node, Filter):
        node = node.input
    return node


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The same node over `change`d inputs."""
    if isinstance(node, Correlate):
        return dataclasses.replace(node, inputs=tuple((alias, change(below)) for alias, below in node.inputs))
    if isinstance(node, Union):
        return dataclasses.replace(node, inputs=tuple(map(change, node.inputs)))
    if isinstance(node, Deleting):
        deletions = tuple(dataclasses.replace(one, trigger=change(one.trigger)) for one in node.deletions)
        return Deleting(change(node.input), deletions)
    if isinstance(node, Lookup):
        return dataclasses.replace(node, input=change(node.input), source=change(node.source))
    own: Callable[[Callable[[Node], Node]], Node] | None = getattr(node, "rebuilt", None)
    if own is not None:
        return own(change)
    if isinstance(node, TemporalMatch):
        events = tuple(dataclasses.replace(event, input=change(event.input)) for event in node.events)
        return dataclasses.replace(node, events=events)
    below: Any = node
    return dataclasses.replace(below, input=change(node.inputs_of[0])) if node.inputs_of else node


# Scalars ---------------------------------------------------------------------------------------------------------------


def col(name: str, of: str | None = None) -> exp.Column:
    """A column, by its exact name; `of` names the input of a correlation.

    >>> print((col("a", of="left") - col("b")).sql())
    left.a - b
    """
    return exp.column(_identifier(name), table=None if of is None else _identifier(of))


def lit(value: object) -> exp.Expr:
    """A constant: number, text, boolean, None, date or datetime.

    >>> print(col("name").eq(lit("O'Hara")))
    name = 'O''Hara'
    """
    return exp.convert(value)


def count(of: Scalar = "*", distinct: bool = False) -> exp.Expr:
    """`COUNT(*)`, `COUNT(x)`, `COUNT(DISTINCT x)`."""
    return call("COUNT", "DISTINCT " + scalar(of).sql() if distinct else of)


def sum(of: Scalar) -> exp.Expr:
    """The sum of the values that are not NULL; NULL where there are none."""
    return call("SUM", of)


def avg(of: Scalar) -> exp.Expr:
    """The arithmetic mean, as DOUBLE."""
    return call("AVG", of)


def min(of: Scalar) -> exp.Expr:
    """The smallest value."""
    return call("MIN", of)


def max(of: Scalar) -> exp.Expr:
    """The largest value."""
    return call("MAX", of)


def stddev(of: Scalar) -> exp.Expr:
    """The standard deviation of the sample (n − 1); NULL for fewer than two values."""
    return call("STDDEV", of)


def first(of: Scalar) -> exp.Expr:
    """The value of the window's oldest row, by (ts, seq); it may be NULL."""
    return call("FIRST", of)


def last(of: Scalar) -> exp.Expr:
    """The value of the window's newest row, by (ts, seq); it may be NULL."""
    return call("LAST", of)


def call(function: str, *arguments: Scalar) -> exp.Expr:
    """A call of any function or aggregate that the database has."""
    if not re.fullmatch(r"\w+", function):
        raise QueryError(f"{function!r} is no function's name")
    texts = [a if isinstance(a, str) else a.sql() for a in arguments]
    return scalar(f"{function}({', '.join(texts)})")


def scalar(source: Scalar, dialect: str = "") -> exp.Expr:
    """The expression of an SQL text; an expression stays as it is."""
    if isinstance(source, exp.Expr):
        return source
    if not isinstance(source, str):
        raise QueryError(
            f"an expression is SQL text or an object made with col() and lit(), not {type(source).__name__}"
        )
    return parsed(source, dialect)


def parsed(text: str, dialect: str = "", shown: str | None = None) -> exp.Expr:
    """sqlglot's tree of `text`; its syntax errors become a QueryError that points into `shown` (default: `text`)."""
    try:
        tree = sqlglot.parse_one(text, dialect=dialect)
    except SqlglotError as error:
        raise syntax_error(error, shown or text) from None
    except RecursionError:
        raise QueryError("the expression is nested too deeply", shown or text) from None
    return tree


def is_plain_join(node: Correlate) -> bool:
    """Whether it is known when combinations leave: as the first of their parts does."""
    plain = all(
        isinstance(below, Window)
        and getattr(below.extent, "slide", None) is None
        and not isinstance(below.extent, (Batch, Session))
        for below in node.inputs_of
    )
    return plain and not node.outer and node.driving is None


def scalars(sources: Scalar | Iterable[Scalar]) -> tuple[exp.Expr, ...]:
    """Expressions of one or several texts or expressions."""
    return tuple(map(scalar, [sources] if isinstance(sources, (str, exp.Expr)) else sources))


def projections(sources: Scalar | Iterable[Scalar] | Mapping[str, Scalar]) -> tuple[exp.Expr, ...]:
    """The columns of a SELECT list: expressions, aliased ones, or a mapping of names to expressions."""
    if isinstance(sources, Mapping):
        return tuple(exp.alias_(scalar(value).copy(), name, quoted=True) for name, value in sources.items())
    listed = [sources] if isinstance(sources, (str, exp.Expr)) else sources
    columns = tuple(_projection(item) for item in listed)
    if not columns:
        raise QueryError("at least one column is wanted")
    return columns


def extent(source: Extent | str) -> Extent:
    """An extent from its text: `RANGE 5 S [SLIDE 1 S [OFFSET 1 S | OFFSET FIRST] | STEP 1 S]`, `ROWS 10 [SLIDE 5 [FULL]]`, …"""
    if not isinstance(source, str):
        return source
    unit = r"(\d+\s*[A-Za-z]+)"
    text = source.strip().upper()
    if match := re.fullmatch(rf"RANGE\s+{unit}(?:\s+SLIDE\s+{unit}(?:\s+OFFSET\s+{unit})?|\s+STEP\s+{unit})?", text):
        return Range(match[1], match[2], match[3] or 0, match[4])  # type: ignore[arg-type]
    if match := re.fullmatch(r"ROWS\s+(\d+)(?:\s+SLIDE\s+(\d+)(\s+FULL)?)?", text):
        return Rows(int(match[1]), int(match[2]) if match[2] else None, bool(match[3]))
    if match := re.fullmatch(rf"RANGE\s+{unit}\s+SLIDE\s+{unit}\s+OFFSET\s+FIRST", text):
        return Range(match[1], match[2], first=True)  # type: ignore[arg-type]
    if match := re.fullmatch(rf"FIRST\s+(?:ROWS\s+(\d+)|RANGE\s+{unit})|SESSION\s+{unit}", text):
        rows, size, gap = match.groups()
        return FirstRows(int(rows)) if rows else FirstRange(duration(size)) if size else Session(duration(gap))
    if match := re.fullmatch(rf"TRAILING\s+{unit}(?:\s+ROWS\s+(\d+))?", text):
        return Trailing(duration(match[1]), int(match[2]) if match[2] else None)
    if text in ("UNBOUNDED", "NOW"):
        return Unbounded() if text == "UNBOUNDED" else Now()
    raise ValueError(
        "a window reads RANGE 5 S [SLIDE 1 S], ROWS 10 [SLIDE 5], FIRST ROWS 10, FIRST RANGE 5 S, SESSION 5 S, UNBOUNDED or "
        f"NOW, not {source!r}"
    )


def in_order(term: exp.Expr | str) -> exp.Ordered:
    """A term of an order, `"v DESC"`; NULL is least."""
    if isinstance(term, str):
        term = cast("exp.Select", parsed(f"SELECT 1 ORDER BY {term}", shown=term)).args["order"].expressions[0]
    if not isinstance(term, exp.Ordered):
        return exp.Ordered(this=term, desc=False)
    return exp.Ordered(this=term.this, desc=bool(term.args.get("desc")))


def _projection(source: Scalar) -> exp.Expr:
    if isinstance(source, exp.Expr):
        return source
    return cast("exp.Expr", cast("exp.Select", parsed("SELECT " + source, shown=source)).expressions[0])


def _identifier(name: str) -> exp.Identifier:
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None
    return exp.to_identifier(name, quoted=not plain)


def _named(place: int, item: Any) -> tuple[str, Node]:
    if isinstance(item, Node):
        return (source_name(item) or f"input{place}", item)
    alias, node = item
    return (alias, node)


def source_name(node: Node) -> str | None:
    """The name a FROM item has when no alias is written: its stream's or relation's."""
    while isinstance(node, (Window, Match, MatchRecognize, EagerMatch, Deleting)):
        node = node.input
    return node.name.split(".")[-1] if isinstance(node, (Stream, Relation)) else None


def _pattern(text: str, names: list[str]) -> Pattern:
    try:
        return parse_pattern(text, names=names)
    except PatternError as error:
        raise QueryError(error.message, text, error.position) from None


def _checked(make: Callable[[Any], Any], value: Any) -> Any:
    try:
        return make(value)
    except (TypeMismatch, ValueError) as error:
        raise QueryError(str(error)) from None


def syntax_error(error: SqlglotError, text: str) -> QueryError:
    """What sqlglot could not read, at its place in `text`."""
    details: dict[str, Any] = (getattr(error, "errors", None) or [{}])[0]
    line, column = details.get("line"), details.get("col")
    if line is None or column is None:
        return QueryError(f"not understood: {str(error).splitlines()[0]}", text)
    starts = [0] + [match.end() for match in re.finditer("\n", text)]
    found = details.get("highlight") or ""
    position = builtins.max(0, starts[builtins.min(line, len(starts)) - 1] + column - len(found))
    reason = str(details.get("description", error)).rstrip(".")
    if reason.startswith(("Required keyword", "Required argument")):
        reason = f"something is missing after {found!r}"
    elif reason.startswith("Invalid expression"):
        reason = f"unexpected {found!r}"
    reason = re.sub(r" but got <Token.*", "", reason, flags=re.DOTALL)
    return QueryError(f"syntax error: {reason}", text, position)


def _set(node: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(node, name, value)
