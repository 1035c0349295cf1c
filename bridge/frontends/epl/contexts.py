"""EPL's contexts by keys: `create context`, and the meaning of a statement in one, with an instance per key.

No operator knows of contexts. Windows are partitioned by the keys, inputs are joined where the keys are equal, and
aggregates are grouped by them: so each key has its own windows, combinations, groups and matches. NULL is a key like
others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp

from bridge.errors import nearest
from bridge.frontends.cursor import Cursor
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.clauses import Context, OutputClauses, StreamKeys
from bridge.frontends.epl.context_keys import QUALIFIER, key_measures, key_name, keys_of_matches, reads_keys
from bridge.frontends.epl.expressions import event_filter
from bridge.frontends.epl.inputs import Joins
from bridge.frontends.expressions import Qualifiers, position_of, resolve
from bridge.query.epl_output import RStream
from bridge.query.epl_patterns import EagerMatch, TemporalMatch
from bridge.query.nodes import Correlate, Filter, Map, Node, Stream, Window, walk
from nfa.temporal.tree import is_timed
from windows.sql import conjuncts, identifier

_KINDS = {
    "COALESCE": "a context by hashes is not supported: partition by says which events belong together",
    "START": "a context that starts and ends is not supported: windows say which events count, patterns what begins and ends",
    "INITIATED": "a context that is initiated is not supported: a pattern says what begins and ends",
    "CONTEXT": "contexts in contexts are not supported: partition by takes several keys, k and j",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class CreateContext:
    """A declared context."""

    context: Context


# CREATE CONTEXT -------------------------------------------------------------------------------------------------------


def create_context(cursor: Cursor) -> CreateContext:
    """Steps over `context C partition by k from S, j from T`, after `create`.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> found = create_context(EplCursor("context C partition by k and v from S(v > 1), j and w from T")).context
    >>> [(one.stream, *map(str, one.keys), str(one.condition)) for one in found.streams]
    [('S', 'k', 'v', 'v > 1'), ('T', 'j', 'w', 'None')]
    """
    cursor.expect("CONTEXT")
    name = cursor.name("a name for the context")
    cursor.take("AS")
    if cursor.word() in _KINDS:
        cursor.fail(_KINDS[cursor.word()])
    if cursor.word() in ("GROUP", "GROUP BY"):
        return CreateContext(_categories(cursor, name))
    if not cursor.take("PARTITION BY"):
        cursor.expect("PARTITION", " (by which keys: partition by k from S)")
    found = [_stream_keys(cursor)]
    while cursor.take(","):
        position = cursor.position
        found.append(_stream_keys(cursor))
        if any(one.stream.lower() == found[-1].stream.lower() for one in found[:-1]):
            cursor.fail(f"the stream {found[-1].stream!r} has its keys already", position)
        if len(found[-1].keys) != len(found[0].keys):
            cursor.fail("all streams of a context must have the same number of keys", position)
    if cursor.word() in ("INITIATED", "TERMINATED"):
        cursor.fail(
            f"{cursor.word().lower()} is not supported here: windows and patterns say what is over, and what begins"
        )
    return CreateContext(Context(name, tuple(found)))


def _categories(cursor: Cursor, name: str) -> Context:
    """`group by v < 0 as low, group by v >= 0 as high from S(v != 5)`."""
    found = list[tuple[str, exp.Expr]]()
    while True:
        if not cursor.take("GROUP BY"):
            cursor.expect("GROUP", " (group by a condition as a name)")
        condition = epl_expressions.single_expression(cursor, cursor.until(("AS", ",")), "a condition")
        cursor.expect("AS", " (a name for the category)")
        position = cursor.position
        label = cursor.name("a name for the category")
        if any(label.lower() == other.lower() for other, _ in found):
            cursor.fail(f"two categories are called {label!r}", position)
        found.append((label, condition))
        if not cursor.take(","):
            break
    cursor.expect("FROM")
    stream, alias, condition_of_all = _stream(cursor)
    conditions = resolve(cursor, [condition for _, condition in found], Qualifiers(alias, ()))
    labels = [label for label, _ in found]
    return Context(name, (StreamKeys(stream, (), condition_of_all),), tuple(zip(labels, conditions, strict=True)))


def _stream_keys(cursor: Cursor) -> StreamKeys:
    """`k and j from S(v > 1) as s`."""
    region = cursor.until(("FROM",))
    listed = epl_expressions.expression_list(cursor, region, "a key")
    keys = [part for one in listed for part in conjuncts(one)]
    for key in keys:
        if not isinstance(key, exp.Column):
            cursor.fail("a context's keys are attributes: partition by k and j from S", position_of(key))
    cursor.expect("FROM")
    stream, alias, condition = _stream(cursor)
    return StreamKeys(stream, resolve(cursor, keys, Qualifiers(alias, ())), condition)


def _stream(cursor: Cursor) -> tuple[str, str, exp.Expr | None]:
    """`S(v > 1) as s`: the stream, its alias, and its condition."""
    stream = cursor.name("a stream")
    condition = event_filter(cursor)
    alias = cursor.name("an alias") if cursor.take("AS") or (cursor.has_name() and not _ends(cursor)) else stream
    if condition is not None:
        (condition,) = resolve(cursor, [condition], Qualifiers(alias, ()))
    return stream, alias, condition


def _ends(cursor: Cursor) -> bool:
    return cursor.word() in ("INITIATED", "TERMINATED")


# Statements in a context ----------------------------------------------------------------------------------------------


def take_context(cursor: Cursor, known: Mapping[str, Context]) -> Context | None:
    """Steps over `context C` before a statement. `known`: the contexts by their names in lower case."""
    if not cursor.take("CONTEXT"):
        return None
    position = cursor.position
    name = cursor.name("a context")
    found = known.get(name.lower())
    if found is None:
        hint = nearest(name, [context.name for context in known.values()])
        cursor.fail(f"unknown context {name!r}{hint}: create context {name} partition by …, before", position)
    if cursor.word() not in ("SELECT", "INSERT"):
        cursor.fail("in a context stand select and insert into: windows, tables and what changes them have none")
    return found


@dataclasses.dataclass(frozen=True)
class ContextSource:
    """The source of a statement.

    In a context, a node with separate rows per key, and the keys as the statement names them.
    `conditions` join its inputs by equal keys; `values` are the meanings of names such as `context.key1`.
    `keys_of_match`: the keys as columns of a pattern or of `match_recognize`. `measures`: the columns of
    `match_recognize` that `*` stands for, if it has the keys as further columns.
    """

    node: Node
    reader: _Partitioner | None = None
    keys: tuple[exp.Expr, ...] = ()
    conditions: tuple[exp.Expr, ...] = ()
    keys_of_match: tuple[exp.Expr, ...] = ()
    measures: tuple[exp.Expr, ...] = ()

    @property
    def values(self) -> dict[str, exp.Expr]:
        """The values of `context.key1` and `context.name`."""
        if self.reader is not None and self.reader.context.label is not None:
            context = self.reader.context
            names = {"name": exp.Literal.string(context.name), "label": exp.Literal.string(context.label)}
            values = {**names, "id": exp.Literal.number(context.id)}
            return {f"{QUALIFIER}.{name}": value for name, value in values.items()}
        if self.reader is None:
            return {}
        keys = {key_name(place): key for place, key in enumerate(self.keys or self.keys_of_match, 1)}
        return {**keys, f"{QUALIFIER}.name": exp.Literal.string(self.reader.context.name)}

    def column_list(self, columns: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
        """The list of columns, where `*` stands for what the statement measures; what a context has not is refused."""
        if self.reader is not None:
            self.reader.check_names(columns, self.values)
        if not self.measures:
            return columns
        return tuple(found for one in columns for found in (self.measures if isinstance(one, exp.Star) else (one,)))

    def lookup(
        self, source: Node, name: str, condition: exp.Expr | None, position: int
    ) -> tuple[Node, exp.Expr | None]:
        """The input of a sub-query, and the condition for its rows, whose columns are named `name.column`."""
        if self.reader is None:
            return source, condition
        if not self.keys and self.reader.context.label is None:
            self.reader.cursor.fail(_NO_KEYS, position)
        reader = dataclasses.replace(self.reader, position=position)
        inner = qualified(reader.keyed(source).keys, name)
        parts = [*equal(inner, self.keys), *([] if condition is None else [exp.paren(condition)])]
        return reader.source(source), exp.and_(*parts) if parts else None

    def check_output(self, node: Node, clauses: OutputClauses, aggregating: bool) -> None:
        """Refuses outputs that would be reported for all keys together, as results are reported per key."""
        if self.reader is None or self.reader.context.label is not None:
            return
        cursor = self.reader.cursor
        if not self.keys and (aggregating or clauses.rate is not None):
            cursor.fail(_NO_KEYS, self.reader.position)
        rate = clauses.rate
        if rate is not None and (aggregating or rate.count is None or rate.kind == "snapshot"):
            cursor.fail(
                "this output is not supported in a context: output [all | last | first] every n events of single events is",
                rate.position,
            )
        if (clauses.is_arranged or clauses.distinct) and _is_timed(node, aggregating):
            cursor.fail(
                "distinct, order by and limit are not supported in a context where time reports results, as those of "
                "several keys: insert these results into a stream, and read that",
                self.reader.position,
            )


_NO_KEYS = (
    "aggregates, output, and sub-queries over match_recognize or a pattern are not supported in a context: insert into "
    "names its results"
)


def context_source(cursor: Cursor, context: Context | None, joins: Joins, node: Node, start: int) -> ContextSource:
    """The source of a statement whose columns begin at `start`: `node`, made from `joins`, in a context or (None) in none."""
    if context is None:
        return ContextSource(node)
    reader = _Partitioner(cursor, context, joins.items[0].position)
    if isinstance(node, Correlate):
        return reader.join(node, [one.position for one in joins.items])
    if isinstance(node, EagerMatch):
        return reader.match(node, context.label is None and reads_keys(cursor, start))
    if isinstance(node, TemporalMatch):
        pattern = reader.pattern(node)
        return ContextSource(pattern, reader, keys_of_match=keys_of_matches(pattern))
    return ContextSource(reader.source(node), reader, reader.keyed(node).keys)


def named_by_context(column: exp.Expr) -> exp.Expr:
    """A column of a list with its own name: `context.key1`."""
    if isinstance(column, exp.Column) and column.table.lower() == QUALIFIER:
        return exp.alias_(column, f"{QUALIFIER}.{column.name}", quoted=True)
    return column


def equal(left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> tuple[exp.Expr, ...]:
    """The conditions under which two events have equal keys; NULL equals NULL."""
    pairs = zip(left, right, strict=True)
    return tuple(exp.NullSafeEQ(this=mine.copy(), expression=its.copy()) for mine, its in pairs)


def qualified(keys: Sequence[exp.Expr], alias: str) -> tuple[exp.Expr, ...]:
    """Keys as columns of an input.

    >>> print(*qualified([exp.column("k")], "a"))
    "a".k
    """
    return tuple(exp.column(key.this.copy(), table=identifier(alias)) for key in keys)


def _is_timed(node: Node, aggregating: bool) -> bool:
    """Whether time alone reports results, possibly of several keys at once."""
    for below in walk(node):
        aggregating = aggregating or isinstance(below, RStream)
        if isinstance(below, TemporalMatch) and is_timed(below.pattern):
            return True
        if isinstance(below, EagerMatch) and below.interval is not None:
            return True
    extents = [below.extent for below in walk(node) if isinstance(below, Window)]
    slides = any(extent.jumps and extent.is_timed for extent in extents)
    return slides or (aggregating and any(extent.expires_by_time for extent in extents))


@dataclasses.dataclass(frozen=True)
class _Partitioner:
    cursor: Cursor
    context: Context
    position: int

    def keyed(self, node: Node) -> StreamKeys:
        """The keys and the condition of the stream that a node reads."""
        while isinstance(node, (Filter, Map, Window)):
            node = node.input
        if not isinstance(node, Stream):
            self.cursor.fail(
                "this is not supported in a context: insert its results into a stream before", self.position
            )
        found = self.context.keyed(node.name)
        if found is None and self.context.label is not None:
            of = self.context.streams[0].stream
            self.cursor.fail(f"the context {self.context.name!r} has categories of {of!r} alone", self.position)
        if found is None:
            known = ", ".join(repr(one.stream) for one in self.context.streams)
            self.cursor.fail(
                f"the context {self.context.name!r} has no keys of {node.name!r}: it is of {known}", self.position
            )
        return found

    def check_names(self, columns: Sequence[exp.Expr], values: Mapping[str, exp.Expr]) -> None:
        """Refuses values that a context has not, or that a match of a pattern does not know."""
        for column in (part for one in columns for part in one.find_all(exp.Column)):
            name = f"{column.table}.{column.name}".lower()
            if column.table.lower() != QUALIFIER or name in values:
                continue
            if name in {key_name(place) for place, _ in enumerate(self.context.streams[0].keys, 1)}:
                why = "is not known of each match: give an event that each match has a tag, [every a=S]"
                self.cursor.fail(f"{name} {why}", position_of(column))
            known = ", ".join(values)
            self.cursor.fail(f"the context {self.context.name!r} has no {name}; there is {known}", position_of(column))

    def source(self, node: Node) -> Node:
        """A stream, possibly filtered or with a window; each key has a window of its own."""
        if isinstance(node, (Filter, Map)):
            return dataclasses.replace(node, input=self.source(node.input))
        keyed = self.keyed(node)
        if not isinstance(node, Window):
            return node if keyed.condition is None else Filter(node, keyed.condition)
        if node.extent.begins_with_query and self.context.label is None:
            self.cursor.fail(
                "this window is not supported in a context, where its time begins with every key: #time_batch(5 sec, 0) "
                "begins at 0",
                self.position,
            )
        return Window(self.source(node.input), node.extent, (*keyed.keys, *node.partition_by))

    def join(self, node: Correlate, positions: Sequence[int]) -> ContextSource:
        """The inputs, each with its own keys, joined where these are equal."""
        readers = [dataclasses.replace(self, position=position) for position in positions]
        pairs = list(zip(readers, node.inputs, strict=True))
        inputs = tuple((alias, reader.source(below)) for reader, (alias, below) in pairs)
        keys = [qualified(reader.keyed(below).keys, alias) for reader, (alias, below) in pairs]
        conditions = tuple(part for others in keys[1:] for part in equal(keys[0], others))
        shared = keys[0] if not node.outer else [exp.func("COALESCE", *same) for same in zip(*keys, strict=True)]
        return ContextSource(dataclasses.replace(node, inputs=inputs), self, tuple(shared), conditions)

    def match(self, node: EagerMatch, with_keys: bool) -> ContextSource:
        """The match within the rows of each key, with the keys as further columns if the statement reads them."""
        by_key = isinstance(node.input, Window) and node.input.extent.holds_per_key
        if by_key and self.context.label is None:
            self.cursor.fail(
                "match_recognize over this window is not supported in a context: over #time and #keepall it is",
                self.position,
            )
        keys = tuple(key for key in self.keyed(node.input).keys if isinstance(key, exp.Column))
        pattern = dataclasses.replace(node.pattern, partition_by=(*keys, *node.pattern.partition_by))
        names, measured = tuple(one.alias for one in pattern.measures), key_measures(keys) if with_keys else ()
        pattern = dataclasses.replace(pattern, measures=(*pattern.measures, *measured))
        return ContextSource(
            dataclasses.replace(node, input=self.source(node.input), pattern=pattern),
            self,
            keys_of_match=tuple(exp.column(one.args["alias"].copy()) for one in measured),
            measures=tuple(exp.column(name, quoted=True) for name in names) if measured else (),
        )

    def pattern(self, node: TemporalMatch) -> TemporalMatch:
        """A pattern per key, which begins with the key's first event in any stream of the context."""
        there = {event.input.name.lower() for event in node.events if isinstance(event.input, Stream)}
        missing = next((one.stream for one in self.context.streams if one.stream.lower() not in there), None)
        if missing is not None and is_timed(node.pattern) and self.context.label is None:
            self.cursor.fail(
                f"this pattern's time would begin with the first event of {missing!r}, too: a context of the pattern's "
                "streams alone is supported",
                self.position,
            )
        events = tuple(
            dataclasses.replace(event, input=self.source(event.input), keys=self.keyed(event.input).keys)
            for event in node.events
        )
        return dataclasses.replace(node, events=events)
