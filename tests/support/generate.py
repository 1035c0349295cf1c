"""Random cases for differential tests: streams, query trees of all node types, events; the same seed, the same case.

What SEMANTICS leaves open is not generated: `Source` says of each tree what may be built on it.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from sqlglot import exp

from bridge import query as q
from bridge.query.expressions import in_order, scalar
from nfa import pattern as p
from tests.support.reference import (
    AmbiguousError,
    LimitError,
    MeaningError,
    Results,
    column_names,
    evaluate,
    symbols_of,
)
from windows.extent import Extent
from windows.extents import (
    Batch,
    FirstRange,
    FirstRows,
    Now,
    Range,
    Rows,
    Session,
    Top,
    Tumbling,
    Unbounded,
)
from windows.schema import Schema
from windows.sql import conjuncts

ROW_LIMIT = 300
"""The most rows of one operator in a generated case: keeps the reference fast."""

INEXACT = "INEXACT"
"""The type of AVG and STDDEV results: DOUBLE, but nowhere compared, grouped or counted: the last bit may differ."""

Columns = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Case:
    """One test: `relations` maps a table's name to its schema's text and its rows; time ends at `end`."""

    schemas: Mapping[str, str]
    queries: Mapping[str, q.Node]
    events: tuple[tuple[str, tuple, int], ...]
    relations: Mapping[str, tuple[str, tuple[tuple, ...]]] = dataclasses.field(default_factory=dict)
    end: int | None = None

    def tables(self) -> dict[str, tuple[list[str], Sequence[tuple]]]:
        """The relations as the reference reads them."""
        return {name: (Schema.of(schema).names, rows) for name, (schema, rows) in self.relations.items()}

    def expected(self, limit: int = 1_000_000) -> Results:
        return evaluate(self.queries, self.schemas, self.events, self.tables(), self.end, limit)

    def columns(self) -> dict[str, list[str]]:
        return column_names(self.queries, self.schemas, self.tables())


def random_case(seed: int) -> Case:
    """The case of this seed: small enough, valid, and (nearly always) with results."""
    for attempt in range(1000):
        rng = Random(f"{seed}/{attempt}")
        case = Maker(rng).case()
        if is_left_open(case):
            continue
        try:
            expected = case.expected(ROW_LIMIT)
        except (LimitError, AmbiguousError):
            continue
        if any(expected.values()) and rng.random() < (1 if all(expected.values()) else 0.3):
            return case
    raise AssertionError(f"no case for seed {seed}")


@dataclasses.dataclass(frozen=True)
class Source:
    """A query tree and what may be built on it.

    `windowed`: may go into an aggregate or correlation as it is. `jumping`: its rows come in renewals (W3).
    `timed`: rows leave one by one and through time alone, as EMIT ON CHANGE wants it.
    """

    node: q.Node
    columns: Columns
    windowed: bool = False
    jumping: bool = False
    timed: bool = False

    def of(self, *types: str) -> list[str]:
        return [name for name, kind in self.columns if kind in types]

    @property
    def exact(self) -> list[str]:
        return [name for name, kind in self.columns if kind != INEXACT]


class Maker:
    """Makes one case, every choice drawn from `rng`."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.names = 0
        self.schemas: dict[str, str] = {}
        self.relations: dict[str, tuple[str, tuple[tuple, ...]]] = {}
        self.sources: list[Source] = []

    def case(self) -> Case:
        self.streams()
        queries = {f"q{number}": self.query(f"q{number}") for number in range(1, self.rng.choice([2, 2, 3, 3, 4]))}
        events = self.events()
        end = self.rng.choice([None, events[-1][2] + self.rng.randint(0, 12)])
        return Case(self.schemas, queries, events, self.relations, end)

    def query(self, name: str) -> q.Node:
        made = self.derived(self.rng.choice([1, 2, 3, 3, 4, 4]))
        # By its name it is read as the same rows; but a renewal or a change through time is not taken apart there.
        self.sources.append(dataclasses.replace(made, node=q.Stream(name), windowed=made.windowed and not made.jumping))
        return made.node

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # Streams and events ---------------------------------------------------------------------------------------------

    def streams(self) -> None:
        optional = [("b", "DOUBLE"), ("c", "VARCHAR"), ("d", "BOOLEAN"), ("e", "INTEGER")]
        columns: Columns = ()
        for number in range(1, self.rng.choice([3, 3, 4])):
            if not columns or self.chance(0.5):
                columns = (("a", "INTEGER"), *(column for column in optional if self.chance(0.5)))
            self.schemas[f"s{number}"] = ", ".join(f"{name} {kind}" for name, kind in columns)
            self.sources.append(Source(q.Stream(f"s{number}"), columns))

    def events(self) -> tuple[tuple[str, tuple, int], ...]:
        ts = self.rng.choice([-7, 0, 1, 1000])
        events = []
        for _ in range(self.rng.randint(16, 40)):
            ts += self.rng.choice([0, 0, 0, 1, 1, 1, 1, 2, 3, 9])
            stream = self.rng.choice(list(self.schemas))
            events.append((stream, self.row(Schema.of(self.schemas[stream])), ts))
        return tuple(events)

    def row(self, schema: Schema) -> tuple:
        return tuple(None if self.chance(0.12) else self.value(attribute.type) for attribute in schema)

    def value(self, kind: str) -> Any:
        match kind:
            case "INTEGER":
                return self.rng.choice([-1, 0, 1, 1, 2, 2, 3, 4])
            case "DOUBLE":
                return self.rng.randint(-4, 12) / 4
            case "BOOLEAN":
                return self.chance(0.5)
        return self.rng.choice(["a", "b", "c", "ab", ""])

    def relation(self) -> str:
        """A table with a unique key; joined by it, the order of a relation's rows does not matter (O4)."""
        if not self.relations or self.chance(0.3):
            rows = tuple((key, *self.row(Schema.of("w INTEGER, v VARCHAR"))) for key in range(self.rng.randint(1, 4)))
            self.relations[f"t{len(self.relations) + 1}"] = ("k INTEGER, w INTEGER, v VARCHAR", rows)
        return self.rng.choice(list(self.relations))

    # Trees ----------------------------------------------------------------------------------------------------------

    def any(self, depth: int) -> Source:
        """Any stream of rows, windowed or not."""
        if depth <= 0 or self.chance(0.15):
            return self.rng.choice(self.sources)
        return self.derived(depth)

    def derived(self, depth: int) -> Source:
        kinds = [self.filter, self.map, self.union, self.window, *[self.aggregate, self.correlate, self.match] * 2]
        return self.rng.choice(kinds)(depth)

    def windowed(self, depth: int) -> Source:
        """A stream of rows with a window, written or derived."""
        if self.chance(0.3):
            made = self.any(depth)
            if made.windowed:
                return made
        made = self.window(depth)
        for below in [self.filter_of, self.map_of]:
            if self.chance(0.25):
                made = below(made)
        return made

    def window(self, depth: int) -> Source:
        made = self.any(depth - 1)
        extent = self.batch(made) if self.chance(0.08) else self.extent()
        if made.exact and self.chance(0.1):
            extent = self.top(made)
        by_key = extent.holds_per_key
        by = self.rng.sample(made.exact, 1) if made.exact and self.chance(0.4 if by_key else 0.05) else []
        if getattr(extent, "first", False):
            by = []
        jumping = extent.jumps
        timed = isinstance(extent, Range | Now) and not jumping
        return Source(q.Window(made.node, extent, tuple(by)), made.columns, True, jumping, timed)

    def top(self, made: Source) -> Top:
        order = self.rng.sample(made.exact, min(len(made.exact), self.rng.randint(1, 2)))
        last_of = (self.rng.choice(made.exact),) if self.chance(0.4) else ()
        terms = [name + self.rng.choice(["", " DESC"]) for name in order]
        return Top(self.rng.randint(1, 3), tuple(map(in_order, terms)), tuple(map(scalar, last_of)))

    def batch(self, made: Source) -> Batch | Tumbling:
        whole = [name for name, kind in made.columns if kind == "INTEGER"]
        if whole and self.chance(0.4):
            return Tumbling(self.rng.randint(1, 4), scalar(self.rng.choice(whole)), self.rng.choice([None, 0, 1]))
        start, stop = (scalar(self.condition(made.columns, 1)) for _ in range(2))
        return Batch(start, stop)

    def extent(self) -> Extent:
        number = self.rng.randint
        makers: list[Callable[[], Extent]] = [
            *[lambda: Range(number(1, 9))] * 6,
            *[lambda: Rows(number(1, 4))] * 3,
            *[lambda: Range(number(1, 8), number(1, 5))] * 2,
            lambda: Rows(number(1, 4), number(1, 3)),
            lambda: Rows(number(3, 4), number(1, 3), full=True),
            lambda: Range(number(1, 8), 4, number(1, 3)),
            lambda: Range(number(1, 8), step=number(1, 5)),
            lambda: Range(number(1, 8), number(1, 5), first=True),
            lambda: FirstRows(number(1, 4)),
            lambda: FirstRange(number(1, 12)),
            Unbounded,
            Now,
        ]
        return self.rng.choice(makers)()

    def filter(self, depth: int) -> Source:
        return self.filter_of(self.any(depth - 1))

    def filter_of(self, made: Source) -> Source:
        return dataclasses.replace(made, node=q.Filter(made.node, self.condition(made.columns)))

    def map(self, depth: int) -> Source:
        return self.map_of(self.any(depth - 1))

    def map_of(self, made: Source) -> Source:
        computed = [self.computed(made.columns) for _ in range(self.rng.randint(1, 2))]
        if self.chance(0.3):
            texts, columns = ["*"], made.columns
        else:
            kept = self.rng.sample(made.columns, self.rng.randint(0, len(made.columns)))
            texts, columns = [name for name, _ in kept], tuple(kept)
        for text, kind in computed:
            name = self.fresh("c")
            texts.append(f"{text} AS {name}")
            columns = (*columns, (name, kind))
        return dataclasses.replace(made, node=q.Map(made.node, tuple(texts)), columns=columns)

    def union(self, depth: int) -> Source:
        """Inputs of equal types: the same stream or tree under different conditions and windows."""
        made = self.any(depth - 1)
        parts = [self.variant(made) for _ in range(self.rng.choice([2, 2, 3]))]
        windowed = all(part.windowed and not part.jumping for part in parts)
        jumping = any(part.jumping for part in parts)
        return Source(q.Union(tuple(part.node for part in parts)), made.columns, windowed, jumping)

    def variant(self, made: Source) -> Source:
        alike = [source for source in self.sources if source.columns == made.columns]
        if alike and self.chance(0.5):
            made = self.rng.choice(alike)
        if self.chance(0.6):
            made = self.filter_of(made)
        if self.chance(0.3) or (made.jumping and self.chance(0.8)):
            made = dataclasses.replace(made, node=q.Window(made.node, self.extent()), windowed=True, timed=False)
            extent = made.node.extent  # type: ignore[attr-defined]
            made = dataclasses.replace(made, jumping=extent.jumps)
        return made

    def aggregate(self, depth: int) -> Source:
        made = self.windowed(depth)
        groups = self.rng.sample(made.exact, min(len(made.exact), self.rng.choice([0, 0, 1, 1, 2])))
        columns = tuple((name, kind) for name, kind in made.columns if name in groups and self.chance(0.8))
        texts = [name for name, _ in columns]
        for _ in range(self.rng.randint(1, 3)):
            text, kind = self.aggregation(made)
            name = self.fresh("n")
            texts.append(f"{text} AS {name}")
            columns = (*columns, (name, kind))
        having = self.having(made, groups) if self.chance(0.2) else None
        on_change = made.timed and self.chance(0.4)
        every = _is_plainly_windowed(made.node) and not on_change and self.chance(0.4)
        in_sessions = isinstance(made.node, q.Window) and not on_change and self.chance(0.3 if every else 0.1)
        if isinstance(made.node, q.Window) and in_sessions:
            held = q.Window(made.node.input, Session(self.rng.randint(1, 5)), made.node.partition_by)
            made = dataclasses.replace(made, node=held, jumping=False)
        # How long a row reported through time alone is valid is left open: it is read through a written window.
        node = q.Aggregate(made.node, tuple(texts), tuple(groups), having, on_change, every)
        return Source(node, columns, not (on_change or every or in_sessions or _has_top(made.node)))

    def aggregation(self, made: Source) -> tuple[str, str]:
        """An aggregate and the type of its value."""
        name, kind = self.rng.choice(made.columns)
        numeric = {"INTEGER": "INTEGER", "DOUBLE": "DOUBLE", INEXACT: INEXACT}.get(kind)
        choices = [("COUNT(*)", "INTEGER"), (f"COUNT({name})", "INTEGER")]
        choices += [(f"FIRST({name})", kind), (f"LAST({name})", kind)]
        if kind != "BOOLEAN":
            choices += [(f"MIN({name})", kind), (f"MAX({name})", kind)]
        if kind != INEXACT:
            choices += [(f"COUNT(DISTINCT {name})", "INTEGER")] * 2
        if numeric:
            choices += [(f"SUM({name})", numeric), (f"AVG({name})", INEXACT)]
            choices += [(f"MAX({name}) - MIN({name})", numeric), (f"SUM({name}) + COUNT(*)", numeric)]
        if kind in ("INTEGER", "DOUBLE"):
            choices += [(f"STDDEV({name})", INEXACT), (f"SUM({name} * 2 + 1)", kind)]
        return self.rng.choice(choices)

    def having(self, made: Source, groups: list[str]) -> str:
        integers = made.of("INTEGER")
        choices = ["COUNT(*) > 1", "COUNT(*) <= 2", "COUNT(*) BETWEEN 1 AND 3"]
        choices += [f"SUM({name}) > 1" for name in integers] + [f"MIN({name}) IS NOT NULL" for name in integers]
        choices += [f"{name} IS NOT NULL AND COUNT(*) > 0" for name in groups]
        return self.rng.choice(choices)

    # Correlations ---------------------------------------------------------------------------------------------------

    def correlate(self, depth: int) -> Source:
        parts = [self.windowed(depth - 1)]
        for _ in range(self.rng.choice([1, 1, 1, 2])):
            parts.append(self.partner(parts[0], depth - 1))
        named = [(self.fresh("x"), part) for part in parts]
        conditions = self.join_conditions(named)
        if named[0][1].of("INTEGER") and self.chance(0.2):
            named, conditions = self.with_relation(named, conditions)
        columns = tuple((f"{alias}.{name}", kind) for alias, part in named for name, kind in part.columns)
        if self.chance(0.25):
            conditions.append(self.condition(columns, 1))
        condition = " AND ".join(f"({part})" for part in conditions) or None
        node = q.Correlate(tuple((alias, part.node) for alias, part in named), condition)
        return Source(node, output_columns(named), True)

    def partner(self, first: Source, depth: int) -> Source:
        """Another input; at times the same one, or the same stream in another window."""
        if self.chance(0.15):
            return first
        if self.chance(0.15) and isinstance(first.node, q.Window):
            return dataclasses.replace(
                first, node=q.Window(first.node.input, Range(self.rng.randint(1, 6))), jumping=False
            )
        return self.windowed(depth)

    def join_conditions(self, named: list[tuple[str, Source]]) -> list[str]:
        """A comparison between each two neighbours (at times none)."""
        found = []
        for (left, above), (right, below) in itertools.pairwise(named):
            pairs = [(a, b) for a, kind in above.columns for b, other in below.columns if kind == other != INEXACT]
            if pairs and self.chance(0.9):
                one, other = self.rng.choice(pairs)
                found.append(f"{left}.{one} {self.rng.choice(['=', '=', '=', '<=', '<>'])} {right}.{other}")
        return found

    def with_relation(
        self, named: list[tuple[str, Source]], conditions: list[str]
    ) -> tuple[list[tuple[str, Source]], list[str]]:
        name = self.relation()
        columns = tuple((attribute.name, attribute.type) for attribute in Schema.of(self.relations[name][0]))
        alias, part = named[0]
        added = (name, Source(q.Relation(name), columns))
        condition = f"{alias}.{self.rng.choice(part.of('INTEGER'))} = {name}.k"
        if len(named) > 2 or (len(named) == 2 and self.chance(0.3)):
            named, conditions = named[:1], []
        place = self.rng.randint(0, len(named))
        return [*named[:place], added, *named[place:]], [*conditions, condition]

    # Row patterns ---------------------------------------------------------------------------------------------------

    def match(self, depth: int) -> Source:
        made = self.any(depth - 1)
        names = self.rng.choice([["x", "y", "u"], ["A", "B"], ["Up", "Down", "Any"]])
        tree = self.pattern(names, 2)
        while p.nullable(tree):
            tree = self.pattern(names, 2)
        variables = tuple((self.fresh("z"), self.rng.choice(["INTEGER", "INTEGER", "VARCHAR"])) for _ in range(2))
        define = tuple(self.definition(name, made.columns, variables) for name in symbols_of(tree) if self.chance(0.85))
        by = tuple(self.rng.sample(made.exact, 1)) if made.exact and self.chance(0.3) else ()
        measures = dict(variables)
        node = q.Match(made.node, tree, self.rng.randint(3, 10), measures, define, by)
        return Source(node, variables, True)

    def definition(self, name: str, columns: Columns, variables: Columns) -> q.Definition:
        assignments = {v: self.expression(kind, (*columns, *variables), 1) for v, kind in variables if self.chance(0.6)}
        return q.Definition(name, self.symbol_condition(columns, variables), tuple(assignments.items()))

    def symbol_condition(self, columns: Columns, variables: Columns) -> str | None:
        integers = [name for name, kind in columns if kind == "INTEGER"]
        known = [name for name, kind in variables if kind == "INTEGER"]
        if integers and known and self.chance(0.4):
            one, variable = self.rng.choice(integers), self.rng.choice(known)
            return self.rng.choice(
                [f"{one} - {variable} = 1", f"{one} >= {variable}", f"{variable} IS NULL OR {one} > {variable}"]
            )
        return None if self.chance(0.35) else self.condition((*columns, *variables), 1)

    def pattern(self, names: list[str], depth: int) -> p.Pattern:
        if depth == 0 or self.chance(0.2):
            return p.Symbol(self.rng.choice(names))
        inner = [self.pattern(names, depth - 1) for _ in range(self.rng.choice([2, 2, 3]))]
        match self.rng.randint(0, 4):
            case 0:
                return p.Alternation(tuple(inner))
            case 1:
                return p.Quantified(
                    inner[0], *self.rng.choice([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None)])
                )
        return p.Concatenation(tuple(inner))

    # Scalars --------------------------------------------------------------------------------------------------------

    def computed(self, columns: Columns) -> tuple[str, str]:
        """An expression of any type that the columns give, and its type. (A DOUBLE constant alone would be DECIMAL.)"""
        present = {kind for _, kind in columns}
        kind = self.rng.choice(
            [kind for kind in ("INTEGER", "DOUBLE", "VARCHAR", "BOOLEAN") if kind != "DOUBLE" or kind in present]
        )
        return self.expression(kind, columns, 2), kind

    def expression(self, kind: str, columns: Columns, depth: int) -> str:
        names = [name for name, other in columns if other == kind]
        if kind == "BOOLEAN":
            return f"({self.condition(columns, depth)})"
        if depth == 0 or self.chance(0.3):
            return self.rng.choice(names) if names and (kind == "DOUBLE" or self.chance(0.8)) else self.literal(kind)
        one, other = self.expression(kind, columns, depth - 1), self.expression(kind, columns, depth - 1)
        choices = [f"COALESCE({one}, {self.literal(kind)})"]
        choices += [f"CASE WHEN {self.condition(columns, 1)} THEN {one} {self.rng.choice([f'ELSE {other} ', ''])}END"]
        if kind == "VARCHAR":
            choices += [f"({one} || {other})"] * 2
        else:
            choices += [f"({one} + {other})", f"({one} - {other})", f"({one} * 2)", f"ABS({one})", f"(-({one}))"]
        return self.rng.choice(choices)

    def literal(self, kind: str) -> str:
        value = self.value(kind)
        return f"'{value}'" if isinstance(value, str) else f"{value}" if value >= 0 else f"({value})"

    def condition(self, columns: Columns, depth: int = 2) -> str:
        if depth > 0 and self.chance(0.4):
            one, other = self.condition(columns, depth - 1), self.condition(columns, depth - 1)
            return self.rng.choice([f"({one}) AND ({other})", f"({one}) OR ({other})", f"NOT ({one})"])
        usable = [(name, kind) for name, kind in columns if kind != INEXACT]
        if not usable:
            return "1 = 1"
        name, kind = self.rng.choice(usable)
        if self.chance(0.12):
            return f"{name} IS {self.rng.choice(['', 'NOT '])}NULL"
        if kind == "BOOLEAN":
            return self.rng.choice([name, f"NOT {name}", f"{name} = TRUE"])
        return self.comparison(name, kind, columns)

    def comparison(self, name: str, kind: str, columns: Columns) -> str:
        numeric = ("INTEGER", "DOUBLE")
        alike = [other for other, also in columns if also == kind or (kind in numeric and also in numeric)]
        sign = self.rng.choice(["=", "<>", "<", "<=", ">", ">="])
        first, second, third = (self.literal(kind) for _ in range(3))
        choices = [f"{name} {sign} {first}"] * 3 + [f"{name} {sign} {self.rng.choice(alike)}"] * 2
        choices += [f"{name} BETWEEN {first} AND {second}", f"{name} IN ({first}, {second}, {third})"]
        choices += [f"{name} NOT IN ({first}, {second})"]
        return self.rng.choice(choices)


def _is_plainly_windowed(node: q.Node) -> bool:
    while isinstance(node, q.Filter):
        node = node.input
    return isinstance(node, q.Window)


def _has_top(node: q.Node) -> bool:
    if isinstance(node, q.Window):
        return isinstance(node.extent, Top)
    return any(map(_has_top, node.inputs_of))


def output_columns(named: Sequence[tuple[str, Source]]) -> Columns:
    """O3: names that occur more than once are qualified."""
    every = [name.lower() for _, part in named for name, _ in part.columns]
    return tuple(
        (f"{alias}_{name}" if every.count(name.lower()) > 1 else name, kind)
        for alias, part in named
        for name, kind in part.columns
    )


# What SEMANTICS leaves open -------------------------------------------------------------------------------------------


def is_left_open(case: Case) -> bool:
    """Whether a query asks what no rule answers; such cases are neither generated nor left by `shrink`."""
    nodes = [node for query in case.queries.values() for node in q.walk(query)]
    return any(map(_joins_a_relation_in_any_order, nodes)) or any(
        _is_left_open(node, below, case.queries)
        for node in nodes
        if isinstance(node, q.Aggregate | q.Correlate)
        for below in node.inputs_of
    )


def _is_left_open(node: q.Node, below: q.Node, queries: Mapping[str, q.Node]) -> bool:
    sources = list(_as_they_come(below, queries))
    jumping = [s.extent.jumps for s in sources if isinstance(s, q.Window)]
    by_key = [s for s in sources if isinstance(s, q.Window) and s.partition_by and s.extent.jumps]
    if isinstance(node, q.Aggregate) and any(not set(s.partition_by) <= set(node.group_by) for s in by_key):
        return True  # refused: a jump renews one key's rows
    if isinstance(node, q.Aggregate) and node.on_change:  # through time alone, row by row
        timed = [isinstance(s, q.Window) and isinstance(s.extent, Range | Now) for s in sources]
        return any(jumping) or not all(timed) or len(sources) > 1
    if any(isinstance(source, q.Aggregate) and (source.on_change or source.every_change) for source in sources):
        return True
    return isinstance(node, q.Aggregate) and any(jumping) and not _arrives_whole(below)


def _as_they_come(node: q.Node, queries: Mapping[str, q.Node]) -> Iterator[q.Node]:
    """The nodes that made the rows and their validity."""
    if isinstance(node, q.Stream) and node.name in queries:
        yield from _as_they_come(queries[node.name], queries)
    elif isinstance(node, q.Filter | q.Map | q.Union):
        for below in node.inputs_of:
            yield from _as_they_come(below, queries)
    else:
        yield node


def _arrives_whole(node: q.Node) -> bool:
    """Whether only filters and maps lie between it and its window, so that a renewal arrives whole."""
    while isinstance(node, q.Filter | q.Map):
        node = node.input
    return isinstance(node, q.Window)


def _joins_a_relation_in_any_order(node: q.Node) -> bool:
    """The rows of a relation have no order: at most one may join, by its key."""
    if not isinstance(node, q.Correlate):
        return False
    joined = [alias for alias, below in node.inputs if isinstance(below, q.Relation)]
    texts = [part.sql() for part in conjuncts(node.condition)] if node.condition is not None else []
    return any(not any(text.endswith(f" = {alias}.k") for text in texts) for alias in joined)


# Making a failing case small ------------------------------------------------------------------------------------------


def shrink(case: Case, fails: Callable[[Case], bool], seconds: float = 60) -> Case:
    """A small case that still fails: fewer events, fewer queries, simpler trees, until nothing more can go."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for smaller in (_fewer_events, _fewer_queries, _simpler_trees):
            found = _first_failing(smaller(case), fails, deadline)
            while found is not None:
                case, progress = found, True
                found = _first_failing(smaller(case), fails, deadline)
    return case


def _first_failing(candidates: Iterator[Case], fails: Callable[[Case], bool], deadline: float) -> Case | None:
    for candidate in candidates:
        if time.monotonic() > deadline:
            return None
        if _is_meaningful(candidate) and fails(candidate):
            return candidate
    return None


def _is_meaningful(case: Case) -> bool:
    try:
        case.columns()
        case.expected()
    except (MeaningError, KeyError, TypeError):
        return False
    return not is_left_open(case)


def _fewer_events(case: Case) -> Iterator[Case]:
    size = len(case.events)
    chunk = size // 2
    while chunk:
        for start in range(0, size, chunk):
            yield dataclasses.replace(case, events=case.events[:start] + case.events[start + chunk :])
        chunk //= 2
    if case.end is not None:
        yield dataclasses.replace(case, end=None)


def _fewer_queries(case: Case) -> Iterator[Case]:
    for name in reversed(case.queries) if len(case.queries) > 1 else ():
        yield dataclasses.replace(case, queries={k: node for k, node in case.queries.items() if k != name})


def _simpler_trees(case: Case) -> Iterator[Case]:
    for name, node in case.queries.items():
        for simpler in simplified(node):
            yield dataclasses.replace(case, queries={**case.queries, name: simpler})


def simplified(node: q.Node) -> Iterator[q.Node]:
    """Trees one step simpler: a node replaced by its input, a part left out, or an input simplified."""
    yield from (below for below in node.inputs_of if not isinstance(below, q.Relation))
    yield from _without_parts(node)
    for place, below in enumerate(node.inputs_of):
        for simpler in simplified(below):
            inputs = iter([*node.inputs_of[:place], simpler, *node.inputs_of[place + 1 :]])
            yield node.with_inputs(lambda _, inputs=inputs: next(inputs))


def _without_parts(node: q.Node) -> Iterator[q.Node]:
    change = dataclasses.replace
    match node:
        case q.Aggregate(_, columns, group_by, having, on_change):
            yield from [change(node, having=None)] * bool(having) + [change(node, on_change=False)] * bool(on_change)
            yield from (change(node, group_by=rest) for rest in _one_less(group_by))
            yield from (change(node, columns=rest) for rest in _one_less(columns) if rest)
        case q.Map(_, columns):
            yield from (change(node, columns=rest) for rest in _one_less(columns) if rest)
        case q.Filter(_, condition):
            yield from (change(node, condition=part) for part in _weaker(condition))
        case q.Correlate(inputs, condition):
            yield from (change(node, inputs=rest) for rest in _one_less(inputs) if len(rest) > 1)
            yield from (change(node, condition=part) for part in [None, *_weaker(condition)] if condition)
        case q.Union(inputs):
            yield from (change(node, inputs=rest) for rest in _one_less(inputs) if len(rest) > 1)
        case q.Window(partition_by=by):
            yield from [change(node, partition_by=())] * bool(by)
        case q.Match():
            yield from _simpler_match(node)


def _simpler_match(node: q.Match) -> Iterator[q.Node]:
    yield from [dataclasses.replace(node, partition_by=())] * bool(node.partition_by)
    yield from (dataclasses.replace(node, define=rest) for rest in _one_less(node.define))
    for part in p.parts(node.pattern):
        define = tuple(definition for definition in node.define if definition.symbol in symbols_of(part))
        yield from [dataclasses.replace(node, pattern=part, define=define)] * (not p.nullable(part))
    for place, definition in enumerate(node.define):
        for assignments in _one_less(definition.assignments):
            changed = dataclasses.replace(definition, assignments=assignments)
            yield dataclasses.replace(node, define=(*node.define[:place], changed, *node.define[place + 1 :]))


def _one_less(items: tuple) -> Iterator[tuple]:
    return (items[:place] + items[place + 1 :] for place in range(len(items)))


def _weaker(condition: exp.Expression | None) -> list[exp.Expression]:
    inner = condition.unnest() if condition is not None else None
    if isinstance(inner, exp.And | exp.Or):
        return [inner.this, inner.expression]
    return [inner.this] if isinstance(inner, exp.Not) else []


# Printing -------------------------------------------------------------------------------------------------------------


def print_case(case: Case, title: str = "a case of the generator") -> str:
    """The case in the form of tests/cases, with the query objects beside their SQL."""
    lines = [f"title: {title}", "streams:"]
    lines += [f"  {name}: {_mapping(schema)}" for name, schema in case.schemas.items()]
    for name, (schema, rows) in case.relations.items():
        lines += ["relations:", f"  {name}: {_mapping(schema)}", "rows: |"]
        lines += [f"  {name} {_values(row)}" for row in rows]
    lines += ["queries:"]
    for name, node in case.queries.items():
        lines += [f"  {name}:", f"    objects: {code(node)}", *_sql(node)]
    lines += ["events: |", "  stream ts values"]
    lines += [f"  {stream} {ts} {_values(values)}" for stream, values, ts in case.events]
    lines += [] if case.end is None else [f"end: {case.end}"]
    lines += ["expect:"]
    for name, rows in case.expected().items():
        lines += [f"  {name}: |", f"    ts {' '.join(case.columns()[name])}"]
        lines += [f"    {ts} {_values(values)}" for ts, values in rows]
    return "\n".join(lines)


def code(node: q.Node) -> str:
    """The Python text that makes the node."""
    match node:
        case q.Stream(name) | q.Relation(name):
            return f"{type(node).__name__}({name!r})"
        case q.Window(input, Batch(start, stop), by):
            held = f"Batch({start.sql()!r}, {stop.sql()!r})"
            return f"Window({code(input)}, {held}{_given('partition_by', _texts(by))})"
        case q.Window(input, Top(count, order, last_of), by):
            held = f"Top({count}, {_texts(order)}, {_texts(last_of)})"
            return f"Window({code(input)}, {held}{_given('partition_by', _texts(by))})"
        case q.Window(input, extent, by):
            return f"Window({code(input)}, '{extent}'{_given('partition_by', _texts(by))})"
        case q.Filter(input, condition):
            return f"Filter({code(input)}, {condition.sql()!r})"
        case q.Map(input, columns):
            return f"Map({code(input)}, {_texts(columns)})"
        case q.Union(inputs):
            return f"Union([{', '.join(map(code, inputs))}])"
        case q.Correlate(inputs, condition):
            pairs = ", ".join(f"{alias!r}: {code(below)}" for alias, below in inputs)
            return f"Correlate({{{pairs}}}, {condition.sql() if condition else None!r})"
        case q.Aggregate(input, columns, by, having, on_change, every_change):
            options = _given("having", having and having.sql()) + _given("on_change", on_change)
            options += _given("every_change", every_change)
            return f"Aggregate({code(input)}, {_texts(columns)}, {_texts(by)}{options})"
        case q.Match(input, pattern, within, measures, define, by):
            symbols = ", ".join(map(_definition, define))
            head = f"Match({code(input)}, {str(pattern)!r}, {within}, {str(measures)!r}"
            return f"{head}, [{symbols}]{_given('partition_by', _texts(by))})"
    return repr(node)


def _definition(definition: q.Definition) -> str:
    condition = definition.condition and definition.condition.sql()
    assignments = {name: expression.sql() for name, expression in definition.assignments}
    return f"Definition({definition.symbol!r}, {condition!r}, {assignments})"


def _texts(expressions: Sequence[exp.Expression]) -> list[str]:
    return [expression.sql() for expression in expressions]


def _given(name: str, value: Any) -> str:
    return f", {name}={value!r}" if value else ""


def _sql(node: q.Node) -> list[str]:
    try:
        return ["    sql: |", f"      {node}"]
    except ImportError:
        return []


def _mapping(schema: str) -> str:
    return "{" + ", ".join(f"{attribute.name}: {attribute.type}" for attribute in Schema.of(schema)) + "}"


def _values(values: Sequence[Any]) -> str:
    return " ".join("NULL" if value is None else repr(value) for value in values)
