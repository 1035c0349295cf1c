"""How a query can be computed in pieces: by time, if its results look back for a bounded time, or by key.

A slice of time begins earlier by the time that its results look back. Slices need no key, and skewed keys do not
matter. Keys serve queries that look back without bound, if every operator works on the rows of each key separately.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import singledispatchmethod
from typing import NamedTuple

from sqlglot import exp

from bridge import query
from bridge.check.resolve import resolve
from bridge.engine.catalogue import Catalogue
from bridge.query.epl_columns import Enumeration
from bridge.query.nodes import Node
from bridge.query.scripts import IntoTable, ReadSQL, UpdateSQL
from bridge.rewrite.write_requests import WriteRequests
from windows.nested import nested_part
from windows.schema import Attribute
from windows.sql import conjuncts
from windows.types import Struct, is_nested, shape

Path = tuple[str, ...]
"""A column, or a part of an object: `home.city` is `("home", "city")`."""

KEYS = 3
"""The largest number of columns in a combined key; more would not distribute rows better."""


class Reach(NamedTuple):
    """How far results reach into the past, in milliseconds. None: without bound.

    `back`: the age of the oldest event that a result depends on. `lasts`: how long a result stays, after its `ts`, in
    the windows of the queries that read it.

    >>> Reach(5, 10).after
    15
    """

    back: int | None
    lasts: int | None

    @property
    def after(self) -> int | None:
        """The age of the oldest event that matters to a result over all rows that are still in the window."""
        return None if self.back is None or self.lasts is None else self.back + self.lasts


class PartitionKey(NamedTuple):
    """A column of each input stream that partitions the rows. `outputs`: the output columns equal to it."""

    columns: frozenset[tuple[str, Path]]
    outputs: frozenset[Path]


@dataclasses.dataclass(frozen=True)
class Partitioning:
    """How one query can be computed in pieces.

    `look_back`: the milliseconds by which each slice of time begins earlier; None if results look back without bound.
    `keys`: the columns of each stream (in lower case) to partition by, in the same order for all streams. `reason`: why
    neither is possible, for `explain`. `unordered_keys`: the `keys` that would suffice if results of several keys with
    one timestamp did not need an order.
    """

    look_back: int | None
    keys: Mapping[str, tuple[Path, ...]]
    reason: str = ""
    unordered_keys: Mapping[str, tuple[Path, ...]] = dataclasses.field(default_factory=dict)


def look_back(name: str, catalogue: Catalogue) -> int | None:
    """How far the results of a query look back, in milliseconds, as in `Partitioning`; None: without bound."""
    return _Analysis(catalogue).reach(catalogue.query_entry(name).resolved.node).back


def partitioning(name: str, catalogue: Catalogue) -> Partitioning:
    """The ways in which a continuous query can be computed in pieces."""
    analysis = _Analysis(catalogue)
    entry = catalogue.query_entry(name)
    back = analysis.reach(entry.resolved.node).back
    keys = _combined_key(analysis.partition_keys(entry.resolved.node), entry.sources)
    if (entry.timed or analysis.has_row_pattern(entry.resolved.node)) and not _is_ordered_by_first_row(
        entry.resolved.node, catalogue
    ):
        reason = "results of several keys, reported at one time without an event or at the end, have an order"
        return Partitioning(back, {}, reason, keys)
    reason = "" if keys or back is not None else "it looks back without bound, over rows of all keys together"
    return Partitioning(back, keys, reason, keys)


def key_description(keys: Mapping[str, tuple[Path, ...]]) -> str:
    """A description of how rows are partitioned.

    >>> key_description({"trades": (("symbol",), ("home", "city"))})
    'by key: trades by symbol, home.city'
    """
    by = "; ".join(f"{stream} by {', '.join(map('.'.join, paths))}" for stream, paths in keys.items())
    return f"by key: {by}" if keys else "in one piece"


def _combined_key(keys: Iterable[PartitionKey], sources: frozenset[str]) -> dict[str, tuple[Path, ...]]:
    """The columns of each stream that form one key from all partition keys, at most KEYS of them."""
    distinct: dict[frozenset[tuple[str, Path]], None] = {key.columns: None for key in keys}
    columns = [dict(key) for key in sorted(distinct, key=sorted)[:KEYS]]
    return {stream: tuple(key[stream] for key in columns) for stream in sorted(sources)} if columns else {}


def _is_ordered_by_first_row(node: Node, catalogue: Catalogue) -> bool:
    """Whether all results reported without an event are matches of MATCH_RECOGNIZE, ordered by their first rows."""
    while isinstance(node, (query.Filter, query.Map)):
        node = node.input
    if not isinstance(node, query.MatchRecognize):
        return False
    below = node.input
    return is_stateless(below) and not any(
        isinstance(stream, query.Stream) and stream.name.lower() in catalogue.queries for stream in query.walk(below)
    )


def is_stateless(node: Node) -> bool:
    """Whether a tree has only filters, maps and unions over streams."""
    if isinstance(node, query.Stream):
        return True
    return isinstance(node, (query.Filter, query.Map, query.Union)) and all(map(is_stateless, node.inputs_of))


class _Analysis:
    """The reach and the partition keys of resolved trees, operator by operator."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def has_row_pattern(self, node: Node) -> bool:
        """Whether a tree, or a query that it reads, has MATCH_RECOGNIZE, whose last matches only the end decides."""
        for below in query.walk(node):
            other = self.catalogue.queries.get(below.name.lower()) if isinstance(below, query.Stream) else None
            if isinstance(below, query.MatchRecognize) or (
                other is not None and self.has_row_pattern(other.resolved.node)
            ):
                return True
        return False

    # Reach --------------------------------------------------------------------------------------------------------------

    @singledispatchmethod
    def reach(self, node: Node) -> Reach:
        return Reach(None, None)

    @reach.register
    def _(self, node: query.Stream) -> Reach:
        other = self.catalogue.queries.get(node.name.lower())
        return self.reach(other.resolved.node) if other else Reach(0, 0)

    @reach.register(query.Filter)
    @reach.register(query.Map)
    @reach.register(query.Union)
    @reach.register(query.OrderLimitDistinct)
    @reach.register(Enumeration)
    def _(self, node: Node) -> Reach:
        backs, lasts = zip(*map(self.reach, node.inputs_of), strict=True)
        return Reach(_longest(backs), _longest(lasts))

    @reach.register(UpdateSQL)
    @reach.register(IntoTable)
    @reach.register(WriteRequests)
    def _(self, node: UpdateSQL | IntoTable | WriteRequests) -> Reach:
        return self.reach(node.input)

    @reach.register
    def _(self, node: ReadSQL) -> Reach:
        return Reach(self.reach(node.input).back, None)

    @reach.register
    def _(self, node: query.Window) -> Reach:
        back, extent = self.reach(node.input).back, node.extent
        reach = extent.reach_ms
        return Reach(None if back is None or reach is None else back + reach, extent.lifetime_ms)

    @reach.register
    def _(self, node: query.Aggregate) -> Reach:
        below = self.reach(node.input)
        return Reach(below.after, None if node.on_change or node.every_change else below.lasts)

    @reach.register
    def _(self, node: query.Correlate) -> Reach:
        parts = [self.reach(below) for below in node.inputs_of if not isinstance(below, query.Relation)]
        bounded = [part.lasts for part in parts if part.lasts is not None]
        back = parts[0].back if len(parts) == 1 else _longest(part.after for part in parts)
        return Reach(back, min(bounded, default=None))

    @reach.register
    def _(self, node: query.Match) -> Reach:
        back = self.reach(node.input).back
        return Reach(None if back is None else back + node.within, node.within)

    # Partition keys -----------------------------------------------------------------------------------------------------

    @singledispatchmethod
    def partition_keys(self, node: Node) -> list[PartitionKey]:
        return []

    @partition_keys.register
    def _(self, node: query.Stream) -> list[PartitionKey]:
        if other := self.catalogue.queries.get(node.name.lower()):
            return self.partition_keys(other.resolved.node)
        entry = self.catalogue.stream_entry(node.name)
        paths = (path for attribute in entry.schema for path in scalar_paths(attribute))
        return [PartitionKey(frozenset([(entry.name.lower(), path)]), frozenset([path])) for path in paths]

    @partition_keys.register(query.Filter)
    @partition_keys.register(Enumeration)
    @partition_keys.register(ReadSQL)
    @partition_keys.register(UpdateSQL)
    @partition_keys.register(IntoTable)
    def _(self, node: query.Filter | Enumeration | ReadSQL | UpdateSQL | IntoTable) -> list[PartitionKey]:
        return self.partition_keys(node.input)

    @partition_keys.register
    def _(self, node: query.Map) -> list[PartitionKey]:
        keys = self.partition_keys(node.input)
        return [PartitionKey(key.columns, _output_paths(node.columns, key)) for key in keys]

    @partition_keys.register
    def _(self, node: query.Union) -> list[PartitionKey]:
        inputs = [(self.partition_keys(below), lambda path: path) for below in node.inputs]
        return _common(inputs, lambda a, b: a == b)

    @partition_keys.register
    def _(self, node: query.Window) -> list[PartitionKey]:
        keys = self.partition_keys(node.input)
        of_all_rows = node.extent.begins_with_query or node.extent.holds_per_key
        return _covered_by(node.partition_by, keys) if of_all_rows else keys

    @partition_keys.register
    def _(self, node: query.Aggregate) -> list[PartitionKey]:
        keys = _covered_by(node.group_by, self.partition_keys(node.input))
        return [PartitionKey(key.columns, _output_paths(node.columns, key)) for key in keys]

    @partition_keys.register(query.Match)
    def _(self, node: query.Match) -> list[PartitionKey]:
        keys = _covered_by(node.partition_by, self.partition_keys(node.input))
        return [PartitionKey(key.columns, frozenset()) for key in keys]

    @partition_keys.register(query.MatchRecognize)
    def _(self, node: query.MatchRecognize) -> list[PartitionKey]:
        names = {column.name for column in node.pattern.partition_by}
        keys = _covered_by(node.pattern.partition_by, self.partition_keys(node.input))
        return [PartitionKey(key.columns, frozenset(path for path in key.outputs if path[0] in names)) for key in keys]

    @partition_keys.register
    def _(self, node: query.EagerMatch) -> list[PartitionKey]:
        keys = _covered_by(node.pattern.partition_by, self.partition_keys(node.input))
        return [PartitionKey(key.columns, frozenset()) for key in keys]

    @partition_keys.register
    def _(self, node: query.TemporalMatch) -> list[PartitionKey]:
        """A pattern has keys only in a context by keys; otherwise events of all keys take part in one pattern."""
        common = []
        for columns in zip(*(event.keys for event in node.events), strict=True):
            inputs = [
                (_covered_by([column], self.partition_keys(event.input)), _relative_to(_path(column)))
                for event, column in zip(node.events, columns, strict=True)
            ]
            common += _common(inputs, lambda a, b: a == b)
        return [PartitionKey(key.columns, frozenset()) for key in common]

    @partition_keys.register
    def _(self, node: query.Correlate) -> list[PartitionKey]:
        fields = resolve(node, self.catalogue).fields
        names = {field.origin: field.name for field in fields if field.origin}
        equal = _equalities(node.condition)

        def output_of(alias: str) -> Callable[[Path], Path]:
            return lambda path: (names[alias, path[0]], *path[1:]) if (alias, path[0]) in names else ()

        streams = [(alias, below) for alias, below in node.inputs if not isinstance(below, query.Relation)]
        inputs = [(self.partition_keys(below), output_of(alias)) for alias, below in streams]
        return _common(inputs, lambda a, b: a == b or b in equal.get(a, ()))


def _common(
    inputs: Sequence[tuple[list[PartitionKey], Callable[[Path], Path]]], equal: Callable[[Path, Path], bool]
) -> list[PartitionKey]:
    """The partition keys of all inputs together: one key of each input, if these are equal wherever rows are joined.

    Each input has its keys, and a function from its own output columns to those of the operator; () means none.
    """
    common = []
    for keys in itertools.product(*(keys for keys, _ in inputs)):
        columns = frozenset[tuple[str, Path]]().union(*(key.columns for key in keys))
        is_unique = len({stream for stream, _ in columns}) == len(columns)
        outputs = [{rename(path) for path in key.outputs} - {()} for key, (_, rename) in zip(keys, inputs, strict=True)]
        matching = {a for a in outputs[0] if all(any(equal(a, b) for b in others) for others in outputs[1:])}
        if is_unique and matching:
            everywhere = {b for paths in outputs for b in paths if any(equal(a, b) for a in matching)}
            common.append(PartitionKey(columns, frozenset(everywhere)))
    return common


def scalar_paths(attribute: Attribute) -> Iterator[Path]:
    """The attribute, or the innermost parts of an object; lists and maps have no path.

    >>> list(scalar_paths(Attribute("home", "STRUCT(city VARCHAR, geo STRUCT(lat DOUBLE), tags VARCHAR[])")))
    [('home', 'city'), ('home', 'geo', 'lat')]
    """
    kind = shape(attribute.type)
    if isinstance(kind, Struct):
        yield from (
            (attribute.name, *path) for name, part in kind.fields for path in scalar_paths(Attribute(name, part))
        )
    elif not is_nested(attribute.type):
        yield (attribute.name,)


def _path(node: exp.Expr) -> Path:
    """The path of a column or of a part of one; () for any other expression."""
    if isinstance(node, exp.Column):
        return (node.name,)
    part = nested_part(node)
    if part is None or not isinstance(part.base, exp.Column):
        return ()
    steps = tuple(step for step in part.steps if isinstance(step, str))
    return (part.base.name, *steps) if len(steps) == len(part.steps) else ()


def _relative_to(key: Path) -> Callable[[Path], Path]:
    """A function from a path at or below `key` to its remainder after a common name; () for any other path."""
    return lambda path: ("key", *path[len(key) :]) if path[: len(key)] == key else ()


def _covered_by(columns: Iterable[exp.Expr], keys: list[PartitionKey]) -> list[PartitionKey]:
    """The partition keys that are one of these columns, or a part of one."""
    paths = {_path(column) for column in columns} - {()}
    return [key for key in keys if any(output[: len(path)] == path for output in key.outputs for path in paths)]


def _output_paths(columns: Iterable[exp.Expr], key: PartitionKey) -> frozenset[Path]:
    """The outputs of a partition key among the output columns of an operator."""
    sources = [(column.alias, _path(column.this)) for column in columns]
    return frozenset(
        (alias, *path[len(source) :])
        for alias, source in sources
        if source
        for path in key.outputs
        if path[: len(source)] == source
    )


def _equalities(condition: exp.Expr | None) -> dict[Path, set[Path]]:
    """For each path, the paths that are equal to it wherever a condition holds."""
    classes: dict[Path, set[Path]] = {}
    for part in [] if condition is None else conjuncts(condition):
        left, right = (_path(part.this), _path(part.expression)) if isinstance(part, exp.EQ) else ((), ())
        if left and right:
            both = classes.get(left, {left}) | classes.get(right, {right})
            classes.update(dict.fromkeys(both, both))
    return classes


def _longest(lengths: Iterable[int | None]) -> int | None:
    """The maximum; None (without bound) if one of them is None."""
    known = list(lengths)
    return None if None in known else max((length for length in known if length is not None), default=0)
