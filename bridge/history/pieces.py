"""How a query can be computed in pieces: by time, where its results look back a bounded while, or by key.

Slices of time need no key and know no skew: each begins as much earlier as its results look back. Keys serve what looks
back without bound, and only where every operator keeps rows of different keys apart.
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
from windows.nested import part_of
from windows.schema import Attribute
from windows.sql import conjuncts
from windows.types import Struct, is_nested, shape

Path = tuple[str, ...]
"""A column, or a part of an object: `home.city` is `("home", "city")`."""

KEYS = 3
"""So many columns at most make up a key: more would spread rows no better."""


class Reach(NamedTuple):
    """In milliseconds, None being without bound: how far `back` the events are that a result is made of, and how long
    after its `ts` a row `lasts` in the windows of those that read it.

    >>> Reach(5, 10).after
    15
    """

    back: int | None
    lasts: int | None

    @property
    def after(self) -> int | None:
        """How far back a result looks that is made of the rows that last until now."""
        return None if self.back is None or self.lasts is None else self.back + self.lasts


class Way(NamedTuple):
    """A value of each stream below by which rows can be kept apart; `shown`: what is equal to it among the results."""

    columns: frozenset[tuple[str, Path]]
    shown: frozenset[Path]


@dataclasses.dataclass(frozen=True)
class Fanout:
    """How one query is computed in pieces.

    `back`: by slices of time that begin so many milliseconds earlier; None where results look back without bound.
    `keys`: by these values of each stream (lower-case names), which several inputs have in the same order.
    `why`: the reason, for `explain`, where there is neither. `apart`: `keys`, or what they would be if results of several
    keys that time alone brings at once needed no order among them.
    """

    back: int | None
    keys: Mapping[str, tuple[Path, ...]]
    why: str = ""
    apart: Mapping[str, tuple[Path, ...]] = dataclasses.field(default_factory=dict)


def reach_back(name: str, catalogue: Catalogue) -> int | None:
    """How many milliseconds the results of a query look back, as `Fanout.back`, without the rest of that."""
    return _Analysis(catalogue).reach(catalogue.query_entry(name).resolved.node).back


def fanout(name: str, catalogue: Catalogue) -> Fanout:
    """How a continuous query, by its name, can be computed in pieces."""
    found = _Analysis(catalogue)
    entry = catalogue.query_entry(name)
    back = found.reach(entry.resolved.node).back
    keys = _combined(found.ways(entry.resolved.node), entry.sources)
    if (entry.timed or found.waits(entry.resolved.node)) and not _by_first_row(entry.resolved.node, catalogue):
        why = "time alone, or the end, brings results of several keys at once, which have an order"
        return Fanout(back, {}, why, keys)
    why = "" if keys or back is not None else "it looks back without bound, over rows of all keys together"
    return Fanout(back, keys, why, keys)


def in_words(keys: Mapping[str, tuple[Path, ...]]) -> str:
    """How pieces are made by keys, in words.

    >>> in_words({"trades": (("symbol",), ("home", "city"))})
    'by key: trades by symbol, home.city'
    """
    by = "; ".join(f"{stream} by {', '.join(map('.'.join, paths))}" for stream, paths in keys.items())
    return f"by key: {by}" if keys else "in one piece"


def _combined(ways: Iterable[Way], sources: frozenset[str]) -> dict[str, tuple[Path, ...]]:
    """All ways at once: rows that each keeps apart are kept apart by all together."""
    chosen: dict[frozenset[tuple[str, Path]], None] = {way.columns: None for way in ways}
    columns = [dict(way) for way in sorted(chosen, key=sorted)[:KEYS]]
    return {stream: tuple(way[stream] for way in columns) for stream in sorted(sources)} if columns else {}


def _by_first_row(node: Node, catalogue: Catalogue) -> bool:
    """Whether what time alone reports are matches of MATCH_RECOGNIZE, which are in the order of their first rows."""
    while isinstance(node, (query.Filter, query.Map)):
        node = node.input
    if not isinstance(node, query.MatchRecognize):
        return False
    below = node.input
    return stateless(below) and not any(
        isinstance(stream, query.Stream) and stream.name.lower() in catalogue.queries for stream in query.walk(below)
    )


def stateless(node: Node) -> bool:
    """Whether a tree is filters, maps and unions of streams."""
    if isinstance(node, query.Stream):
        return True
    return isinstance(node, (query.Filter, query.Map, query.Union)) and all(map(stateless, node.inputs_of))


class _Analysis:
    """What follows from each operator for reach and ways, of resolved trees."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def waits(self, node: Node) -> bool:
        """Whether matches are below that the end decides."""
        for below in query.walk(node):
            other = self.catalogue.queries.get(below.name.lower()) if isinstance(below, query.Stream) else None
            if isinstance(below, query.MatchRecognize) or (other is not None and self.waits(other.resolved.node)):
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

    # Ways ---------------------------------------------------------------------------------------------------------------

    @singledispatchmethod
    def ways(self, node: Node) -> list[Way]:
        return []

    @ways.register
    def _(self, node: query.Stream) -> list[Way]:
        if other := self.catalogue.queries.get(node.name.lower()):
            return self.ways(other.resolved.node)
        entry = self.catalogue.stream_entry(node.name)
        paths = (path for attribute in entry.schema for path in scalars(attribute))
        return [Way(frozenset([(entry.name.lower(), path)]), frozenset([path])) for path in paths]

    @ways.register(query.Filter)
    @ways.register(Enumeration)
    def _(self, node: query.Filter | Enumeration) -> list[Way]:
        return self.ways(node.input)

    @ways.register(ReadSQL)
    @ways.register(UpdateSQL)
    @ways.register(IntoTable)
    def _(self, node: ReadSQL | UpdateSQL | IntoTable) -> list[Way]:
        return self.ways(node.input)

    @ways.register
    def _(self, node: query.Map) -> list[Way]:
        return [Way(way.columns, _shown(node.columns, way)) for way in self.ways(node.input)]

    @ways.register
    def _(self, node: query.Union) -> list[Way]:
        return self._together([(self.ways(below), lambda path: path) for below in node.inputs], lambda a, b: a == b)

    @ways.register
    def _(self, node: query.Window) -> list[Way]:
        below = self.ways(node.input)
        of_all_rows = node.extent.begins_with_query or node.extent.holds_per_key
        return _kept_apart(below, node.partition_by) if of_all_rows else below

    @ways.register
    def _(self, node: query.Aggregate) -> list[Way]:
        apart = _kept_apart(self.ways(node.input), node.group_by)
        return [Way(way.columns, _shown(node.columns, way)) for way in apart]

    @ways.register(query.Match)
    def _(self, node: query.Match) -> list[Way]:
        return [Way(way.columns, frozenset()) for way in _kept_apart(self.ways(node.input), node.partition_by)]

    @ways.register(query.MatchRecognize)
    def _(self, node: query.MatchRecognize) -> list[Way]:
        keys = {key.name for key in node.pattern.partition_by}
        apart = _kept_apart(self.ways(node.input), node.pattern.partition_by)
        return [Way(way.columns, frozenset(path for path in way.shown if path[0] in keys)) for way in apart]

    @ways.register
    def _(self, node: query.EagerMatch) -> list[Way]:
        return [Way(way.columns, frozenset()) for way in _kept_apart(self.ways(node.input), node.pattern.partition_by)]

    @ways.register
    def _(self, node: query.TemporalMatch) -> list[Way]:
        """In a context; else events of all keys make one pattern."""
        found = []
        for keys in zip(*(event.keys for event in node.events), strict=True):
            parts = zip(node.events, keys, strict=True)
            inputs = [(_kept_apart(self.ways(event.input), [key]), _part_of(_path(key))) for event, key in parts]
            found += [Way(way.columns, frozenset()) for way in self._together(inputs, lambda a, b: a == b)]
        return found

    @ways.register
    def _(self, node: query.Correlate) -> list[Way]:
        fields = resolve(node, self.catalogue).fields
        names = {field.origin: field.name for field in fields if field.origin}
        equal = _equalities(node.condition)

        def shown_of(alias: str) -> Callable[[Path], Path]:
            return lambda path: (names[alias, path[0]], *path[1:]) if (alias, path[0]) in names else ()

        streamed = [(alias, below) for alias, below in node.inputs if not isinstance(below, query.Relation)]
        inputs = [(self.ways(below), shown_of(alias)) for alias, below in streamed]
        return self._together(inputs, lambda a, b: a == b or b in equal.get(a, ()))

    def _together(
        self,
        inputs: Sequence[tuple[list[Way], Callable[[Path], Path]]],
        equal: Callable[[Path, Path], bool],
    ) -> list[Way]:
        """The ways of several inputs that agree: their columns are equal wherever their rows meet."""
        found = []
        for ways in itertools.product(*(ways for ways, _ in inputs)):
            columns = frozenset[tuple[str, Path]]().union(*(way.columns for way in ways))
            one_a_stream = len({stream for stream, _ in columns}) == len(columns)
            shown = [{call(path) for path in way.shown} - {()} for way, (_, call) in zip(ways, inputs, strict=True)]
            meets = {a for a in shown[0] if all(any(equal(a, b) for b in others) for others in shown[1:])}
            if one_a_stream and meets:
                everywhere = {b for paths in shown for b in paths if any(equal(a, b) for a in meets)}
                found.append(Way(columns, frozenset(everywhere)))
        return found


def scalars(attribute: Attribute) -> Iterator[Path]:
    """An attribute, or the parts of an object, that have no parts themselves.

    >>> list(scalars(Attribute("home", "STRUCT(city VARCHAR, geo STRUCT(lat DOUBLE), tags VARCHAR[])")))
    [('home', 'city'), ('home', 'geo', 'lat')]
    """
    found = shape(attribute.type)
    if isinstance(found, Struct):
        yield from ((attribute.name, *path) for name, kind in found.fields for path in scalars(Attribute(name, kind)))
    elif not is_nested(attribute.type):
        yield (attribute.name,)


def _path(node: exp.Expr) -> Path:
    """What a column, or a part of one, is called; what is neither has no path."""
    if isinstance(node, exp.Column):
        return (node.name,)
    found = part_of(node)
    if found is None or not isinstance(found.base, exp.Column):
        return ()
    steps = tuple(step for step in found.steps if isinstance(step, str))
    return (found.base.name, *steps) if len(steps) == len(found.steps) else ()


def _part_of(key: Path) -> Callable[[Path], Path]:
    """Names a key, or a part of it, alike for all that have such a key."""
    return lambda path: ("key", *path[len(key) :]) if path[: len(key)] == key else ()


def _kept_apart(ways: list[Way], keys: Iterable[exp.Expr]) -> list[Way]:
    """The ways by which an operator that works per key keeps rows apart: by a key, or by a part of one."""
    known = {_path(key) for key in keys} - {()}
    return [way for way in ways if any(path[: len(key)] == key for path in way.shown for key in known)]


def _shown(columns: Iterable[exp.Expr], way: Way) -> frozenset[Path]:
    named = [(column.alias, _path(column.this)) for column in columns]
    return frozenset(
        (alias, *path[len(of) :]) for alias, of in named if of for path in way.shown if path[: len(of)] == of
    )


def _equalities(condition: exp.Expr | None) -> dict[Path, set[Path]]:
    """The columns and parts that are equal wherever the condition holds, each with all it is equal to."""
    classes: dict[Path, set[Path]] = {}
    for part in [] if condition is None else conjuncts(condition):
        left, right = (_path(part.this), _path(part.expression)) if isinstance(part, exp.EQ) else ((), ())
        if left and right:
            both = classes.get(left, {left}) | classes.get(right, {right})
            classes.update(dict.fromkeys(both, both))
    return classes


def _longest(lengths: Iterable[int | None]) -> int | None:
    listed = list(lengths)
    return None if None in listed else max((length for length in listed if length is not None), default=0)
