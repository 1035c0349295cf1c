"""Query objects: the logical form of every query, in whatever language it was written (JEPC: everything is an object).

Objects can be nested without limit. Scalars are sqlglot expressions, `col("a") - col("b") > 1`, or SQL text.

>>> from bridge.query import avg
>>> trades = Stream("trades", "symbol VARCHAR, price DOUBLE")
>>> query = Aggregate(Window(Filter(trades, "price > 0"), "RANGE 5 S"), ["symbol", avg("price").as_("mean")], ["symbol"])
>>> print(query)
SELECT symbol, AVG(price) AS mean FROM (SELECT * FROM trades[symbol: VARCHAR, price: DOUBLE] WHERE price > 0) \
WINDOW(RANGE 5000 MS) GROUP BY symbol
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

from sqlglot import exp

from bridge.errors import QueryError
from bridge.query.expressions import in_order, projections, scalar, scalars
from bridge.query.row_pattern import RowPattern
from windows.extent import Extent, Role
from windows.extents import parse_extent
from windows.schema import Schema, TypeMismatch


class Composite:
    """An object with nodes in its fields: directly, in tuples, or in other composites."""

    input_fields: ClassVar[tuple[str, ...]] = ("input",)
    """The fields that contain nodes."""

    def nodes(self) -> Iterator[Node]:
        """The nodes in the fields, left to right."""
        for name in self.input_fields:
            yield from _nodes_in(getattr(self, name))

    def with_inputs(self, change: Callable[[Node], Node]) -> Self:
        """A copy with `change(node)` in place of each node."""
        changed = {name: _changed(getattr(self, name), change) for name in self.input_fields}
        below: Any = self
        return dataclasses.replace(below, **changed) if changed else self


def _nodes_in(value: Any) -> Iterator[Node]:
    match value:
        case Node():
            yield value
        case tuple():
            for each in value:
                yield from _nodes_in(each)
        case Composite():
            yield from value.nodes()


def _changed(value: Any, change: Callable[[Node], Node]) -> Any:
    match value:
        case Node():
            return change(value)
        case tuple():
            return tuple(_changed(each, change) for each in value)
        case Composite():
            return value.with_inputs(change)
    return value


class Node(Composite):
    """The base class of query objects: frozen dataclasses that compare by value.

    `str(node)` is the query in the bridge's SQL; parsing it gives an equal node.

    >>> str(Filter(Stream("s"), "a > 1"))
    'SELECT * FROM s WHERE a > 1'
    """

    keeps_name: ClassVar[bool] = False
    """Whether an item of FROM without an alias has the name of its input."""

    def __str__(self) -> str:
        return as_text(self)

    @property
    def inputs_of(self) -> tuple[Node, ...]:
        """The nodes that this one reads, from left to right."""
        return tuple(self.nodes())


@functools.singledispatch
def as_text(node: Node) -> str:
    """The text of a node. `bridge.query.text` registers the implementation."""
    raise TypeError(f"{type(node).__name__} has no text")


@dataclasses.dataclass(frozen=True)
class Stream(Node):
    """A registered stream, or the results of another query, by name.

    If `schema` is given, `create_query` registers the stream unless it exists.

    Raises:
        QueryError: the schema is not valid.

    >>> print(Stream("s", "a INTEGER"))
    SELECT * FROM s[a: INTEGER]
    """

    input_fields = ()

    name: str
    schema: Schema | None = None

    def __post_init__(self) -> None:
        if self.schema is not None:
            set_fields(self, schema=checked(Schema.of, self.schema))


@dataclasses.dataclass(frozen=True)
class Relation(Node):
    """A table of the database, with its content at the time of the push (rule O4). `name` may be `schema.table`.

    >>> print(Correlate([Stream("trades"), Relation("companies")], "trades.symbol = companies.symbol"))
    SELECT * FROM trades, companies WHERE trades.symbol = companies.symbol
    """

    input_fields = ()

    name: str


@dataclasses.dataclass(frozen=True)
class Window(Node):
    """The rows of `input` that are valid at a time, by an extent or its text (section W): `"RANGE 5 S"`, `"ROWS 10"`.

    With `partition_by`, each key has a window of its own.

    Raises:
        QueryError: the text is not an extent, or an expression is not SQL.

    >>> from windows.extents import Batch, Range
    >>> print(Window(Stream("s"), Range("5 S")))
    SELECT * FROM s WINDOW(RANGE 5000 MS)
    >>> print(Window(Stream("s"), "ROWS 10", ["k"]))
    SELECT * FROM s WINDOW(PARTITION BY k ROWS 10)
    >>> print(Window(Stream("s"), Batch("a > 9", "a < 1")))
    SELECT * FROM s WINDOW(START a > 9 STOP a < 1)
    """

    keeps_name = True

    input: Node
    extent: Extent
    partition_by: tuple[exp.Expr, ...] = ()

    def __post_init__(self) -> None:
        extent = checked(parse_extent, self.extent) if isinstance(self.extent, str) else self.extent
        extent = extent.map_expressions(lambda value, role, _: in_order(value) if role is Role.ORDER else scalar(value))
        set_fields(self, extent=extent, partition_by=scalars(self.partition_by))


@dataclasses.dataclass(frozen=True)
class Filter(Node):
    """The rows for which `condition` is true, and not NULL (rule O1).

    Raises:
        QueryError: the condition is not SQL.

    >>> from bridge.query import col
    >>> print(Filter(Stream("s"), col("a") > 1))
    SELECT * FROM s WHERE a > 1
    """

    input: Node
    condition: exp.Expr

    def __post_init__(self) -> None:
        set_fields(self, condition=scalar(self.condition))


@dataclasses.dataclass(frozen=True)
class Map(Node):
    """One row of `columns` per row (rule O1). A column is an expression, `"a + b AS c"`, or `"*"`.

    Raises:
        QueryError: a column is not SQL, or there is no column.

    >>> print(Map(Stream("s"), ["a", "a + b AS c"]))
    SELECT a, a + b AS c FROM s
    """

    input: Node
    columns: tuple[exp.Expr, ...]

    def __post_init__(self) -> None:
        set_fields(self, columns=projections(self.columns))


@dataclasses.dataclass(frozen=True)
class Union(Node):
    """The rows of all inputs, merged in the order of (ts, seq) (rule O1).

    The inputs have equal types; the names of the columns are those of the first input.

    Raises:
        QueryError: there are fewer than two inputs.

    >>> print(Union([Stream("s"), Stream("t")]))
    SELECT * FROM s UNION ALL SELECT * FROM t
    """

    input_fields = ("inputs",)

    inputs: tuple[Node, ...]

    def __post_init__(self) -> None:
        set_fields(self, inputs=tuple(self.inputs))
        if len(self.inputs) < 2:
            raise QueryError("a union has at least two inputs")


@dataclasses.dataclass(frozen=True)
class Aggregate(Node):
    """For each row that enters the window of `input`: `columns` over the window's rows in that row's group (rule O2).

    If `on_change`, also for groups that an expiry changed, at its time (`EMIT ON CHANGE`). If `every_change`, once per
    timestamp that changes the window, for the groups that gained or lost rows, including empty ones (`EMIT ON EVERY
    CHANGE`, as EPL reports).

    Raises:
        QueryError: an expression is not SQL, or there is no column.

    >>> from bridge.query import count
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
        set_fields(self, columns=projections(self.columns), group_by=scalars(self.group_by), having=having)


@dataclasses.dataclass(frozen=True)
class Correlate(Node):
    """Each arriving row joined with the rows in the other inputs' windows for which `condition` is true (rule O3).

    `inputs` maps aliases to nodes; for a sequence of nodes, the aliases are the streams' names. Conditions name columns
    as `alias.column`. `outer`: the inputs whose rows are also emitted, with NULLs, if nothing joins them on arrival
    (EPL's outer joins of two inputs). `driving`: the only input whose arrivals are emitted (EPL's unidirectional).

    Raises:
        QueryError: there are fewer than two inputs, two have the same name, or the condition is not SQL.

    >>> print(Correlate({"l": Window(Stream("s"), "NOW"), "r": Window(Stream("t"), "RANGE 2 S")}, "l.a = r.b"))
    SELECT * FROM s WINDOW(NOW) AS l, t WINDOW(RANGE 2000 MS) AS r WHERE l.a = r.b
    """

    input_fields = ("inputs",)

    inputs: tuple[tuple[str, Node], ...]
    condition: exp.Expr | None = None
    outer: frozenset[str] = frozenset()
    driving: str | None = None

    def __post_init__(self) -> None:
        pairs = self.inputs.items() if isinstance(self.inputs, Mapping) else self.inputs
        named = tuple(_named(place, item) for place, item in enumerate(pairs, 1))
        set_fields(self, inputs=named, condition=None if self.condition is None else scalar(self.condition))
        lowered = [alias.lower() for alias, _ in named]
        if len(named) < 2:
            raise QueryError("a correlation has at least two inputs")
        for alias in lowered:
            if lowered.count(alias) > 1:
                raise QueryError(f"two inputs are called {alias!r}: give one of them an alias")


@dataclasses.dataclass(frozen=True)
class MatchRecognize(Node):
    """SQL:2016's MATCH_RECOGNIZE over a stream; a match is emitted as soon as no later row can change it.

    >>> from nfa.parse import parse_pattern
    >>> print(MatchRecognize(Stream("s"), RowPattern(parse_pattern("A B"), within=500)))
    SELECT * FROM s MATCH_RECOGNIZE (PATTERN (A B) WITHIN 500 MS)
    """

    keeps_name = True

    input: Node
    pattern: RowPattern


@dataclasses.dataclass(frozen=True)
class Output(Node):
    """The end of a query definition, as in JEPC. `create_query` adds it if it is missing.

    >>> print(Output(Stream("s")))
    SELECT * FROM s
    """

    input: Node


def walk(node: Node) -> Iterable[Node]:
    """All nodes of a tree, inputs before their readers, `node` last.

    >>> [type(one).__name__ for one in walk(Filter(Stream("s"), "a > 1"))]
    ['Stream', 'Filter']
    """
    for below in node.inputs_of:
        yield from walk(below)
    yield node


def without_filters(node: Node) -> Node:
    """The node below the filters at the top of a tree.

    >>> print(without_filters(Filter(Filter(Stream("s"), "a > 1"), "b > 1")))
    SELECT * FROM s
    """
    while isinstance(node, Filter):
        node = node.input
    return node


def without_window(node: Node) -> Node:
    """The tree without its window, above which there are only filters and maps.

    >>> print(without_window(Filter(Window(Stream("s"), "RANGE 5 S"), "a > 1")))
    SELECT * FROM s WHERE a > 1
    """
    if isinstance(node, Window):
        return node.input
    assert isinstance(node, (Filter, Map))
    return dataclasses.replace(node, input=without_window(node.input))


def is_plain_join(node: Correlate) -> bool:
    """Whether each result of a correlation expires at a known time: when the first of its rows leaves its window."""
    plain = all(
        isinstance(below, Window) and below.extent.end_known and not below.extent.jumps for below in node.inputs_of
    )
    return plain and not node.outer and node.driving is None


def _named(place: int, item: Any) -> tuple[str, Node]:
    if isinstance(item, Node):
        return (source_name(item) or f"input{place}", item)
    alias, node = item
    return (alias, node)


def source_name(node: Node) -> str | None:
    """The name of an item of FROM without an alias: that of its stream or relation; None if there is none.

    >>> source_name(Window(Relation("shop.orders"), "ROWS 3"))
    'orders'
    """
    while node.keeps_name:
        (node, *_) = node.inputs_of
    return node.name.split(".")[-1] if isinstance(node, (Stream, Relation)) else None


def checked(make: Callable[[Any], Any], value: Any) -> Any:
    """`make(value)`; raises QueryError if it refuses the value."""
    try:
        return make(value)
    except (TypeMismatch, ValueError) as error:
        raise QueryError(str(error)) from None


def set_fields(node: object, **values: object) -> None:
    """Sets fields of a frozen dataclass during its creation."""
    for name, value in values.items():
        object.__setattr__(node, name, value)
