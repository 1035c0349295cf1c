"""The catalogue of a bridge: its streams, its queries with their operators, and the database's tables."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlglot import exp

from bridge import query
from bridge.check.resolve import ResolvedNode, resolve
from bridge.check.scope import Field
from bridge.check.trust import Trust
from bridge.engine.event import Event, maker
from bridge.engine.limits import Limits
from bridge.errors import NameTaken, QueryError, SchemaError, UnknownName, nearest
from bridge.frontends.epl.declarations import Declarations
from bridge.query.epl_state import StateTable
from bridge.query.nodes import Node
from bridge.query.scripts import Script
from bridge.query.table_source import TableSource
from bridge.query.time_rules import NO_RULES, TimeRules
from bridge.rewrite import Flow, NamedSource
from bridge.rewrite.linear import is_linear
from bridge.rewrite.optimize import optimize
from bridge.rewrite.optimize.constants import signature
from bridge.rewrite.plan import Operator
from bridge.rewrite.variants import StatementWriter, Variants
from bridge.stores.outbox import Outbox
from bridge.stores.store import Stores, Unreachable
from windows.databases import Database
from windows.databases.base import PREFIX
from windows.schema import Attribute, Reader, Schema, is_storable
from windows.values import converted


@dataclasses.dataclass
class StreamEntry:
    """A registered stream: its schema, the check of its payloads, and its inbox."""

    name: str
    schema: Schema
    inbox: str
    reader: Reader
    encoders: tuple[Callable[[Any], Any] | None, ...]
    events: int = 0
    """The number of events that were pushed."""
    rules: TimeRules = NO_RULES
    source: TableSource | None = None
    """For the stream of a watched table: the table whose rows or changes are its events."""
    rank: int = 0
    """The place of the stream among those of watched tables; it orders rows of equal times."""
    reads: TableSource | None = None
    """The outbox from which the changes of that table are read."""

    def difference(self, schema: Schema, source: TableSource | None) -> str:
        """How a declaration of a stream (`source` None: of pushed events) differs from this one; "" if it does not."""
        if self.schema == schema and (self.source is None if source is None else source.means(self.source)):
            return ""
        if self.source is None and source is None:
            return f"with other attributes: ({self.schema}), not ({schema})"
        there, declared = (f" FROM {each}" if each is not None else "" for each in (self.source, source))
        return f"({self.schema}){there}, and not ({schema}){declared}"

    def row(self, payload: Any) -> Sequence[Any]:
        """A payload, after a check, as values for the database."""
        values = self.reader.row(payload)
        return converted(values, self.encoders) if any(self.encoders) else values


@dataclasses.dataclass
class ResultQuery:
    """A statement that reads a query's results; it is written and rendered when it is first needed."""

    write: StatementWriter[exp.Expr]
    render: Callable[[exp.Expr], str]
    types: tuple[str, ...]

    @functools.cached_property
    def statement(self) -> exp.Expr:
        return cast("exp.Expr", optimize(self.write()))

    @functools.cached_property
    def text(self) -> str:
        """The text in the database's SQL."""
        return self.render(self.statement)

    @functools.cached_property
    def signature(self) -> Hashable:
        """A key that is equal for statements that differ only in constants."""
        return signature(self.statement), self.types

    @functools.cached_property
    def shape(self) -> Hashable:
        """A key that is equal for statements that differ only in constants, including the bounds of window frames."""
        return signature(self.statement, fixed=False), self.types


@dataclasses.dataclass
class QueryEntry:
    """A continuous query: its resolved tree, the flow of its results, and how they are read.

    `results`: the variants of the statement that reads the results. `number`: its place in the order of creation.
    """

    name: str
    text: str
    resolved: ResolvedNode
    epoch: int
    flow: Flow
    operators: list[Operator]
    derived: frozenset[str]
    sources: frozenset[str]
    timed: bool
    results: Variants[ResultQuery]
    number: int
    decoders: tuple[Callable[[Any], Any] | None, ...]
    in_arrow: bool
    """Whether the values in the database's Arrow tables need no decoding."""
    writes: frozenset[str]
    """The tables of the bridge's database that the query writes, in lower case."""
    computes: bool
    """Whether results may come from arithmetic, in this query or in one that it reads."""
    direct: Variants[ResultQuery] | None = None
    """The statements that read the results without the inbox from which a table of results is filled."""
    inherits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The epochs of the operators taken over from the query that it replaced, by fingerprint (rule D7)."""
    on_error: str = "refuse"
    """The effect of the query's errors on a push: `refuse`, `skip` or `stop`."""
    limits: Limits | None = None
    """The limits of the query in a push."""
    stopped: str = ""
    """The reason why the query no longer takes part in pushes; "" if it does."""
    skipped: int = 0
    """The number of pushes that it has not taken part in."""
    definition: Node | None = None
    """The tree of the query as it was created."""
    is_internal: bool = False
    """Whether the bridge created it itself, to store the results of another query."""
    language: str = ""
    delivered: int = 0
    """The number of results delivered to its processors."""
    last_error: str | None = None
    """The last error of a processor."""
    processors: list[Processor] = dataclasses.field(default_factory=list)

    @property
    def is_inheritable(self) -> bool:
        """Whether a query that replaces this one may keep its state."""
        return not self.is_internal and not self.stopped

    @property
    def own_epochs(self) -> set[int]:
        """The epochs of its operators, without those of the queries that it reads."""
        return {self.epoch, *self.inherits.values()}

    def is_linear(self, joins_by_range: bool) -> bool:
        """Whether its pushes may be large: their time is proportional to the events, and none of them is skipped."""
        return self.on_error == "refuse" and is_linear(self.resolved.node, joins_by_range)

    @functools.cached_property
    def fields(self) -> tuple[Field, ...]:
        return self.resolved.visible

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.fields]

    @functools.cached_property
    def event(self) -> Callable[[tuple[Any, ...]], Event]:
        """A function that makes an event of a row of the results."""
        return maker(self.names)

    @functools.cached_property
    def is_decoded(self) -> bool:
        """Whether values of the database are decoded to the types of the query."""
        return any(self.decoders)

    def variant(self, push: str, shared: bool) -> str:
        """The variant that reads the results of a push of `few` or of `any` events; `shared`: queries may share it."""
        if push == "few" and self.results.long is not None and self._is_long:
            return "long"
        return self.results.kind("shared" if shared and push == "any" else push)

    @property
    def has_short_variant(self) -> bool:
        """Whether there is now a statement for pushes that are short compared with the window; it may read panes."""
        return self.results.brief is not None and (self.results.long is None or self._is_long)

    @property
    def _is_long(self) -> bool:
        """Whether the panes exist for all tables that may have them."""
        return all(operator.is_long for operator in self.operators if operator.row_count is not None)

    def runs_at(self, streams: frozenset[str]) -> bool:
        """Whether the query may have results at a push into these streams."""
        return self.timed or not self.sources.isdisjoint(streams)


class ScriptEntry(NamedTuple):
    """A script: its outputs are queries, and its streams are those that it was the first to declare."""

    name: str
    script: Script
    outputs: tuple[str, ...]
    streams: tuple[str, ...]


@dataclasses.dataclass(eq=False)
class Processor:
    """The handle of an output processor. `batch`: it is called with an Arrow table per push, not an event per result.

    `name`: the name of a processor that gets each result at least once; None for other processors.
    """

    query: str
    function: Callable[[Any], Any]
    batch: bool = False
    name: str | None = None

    def __repr__(self) -> str:
        """The query and the function's name, without values that it may hold, such as passwords in a partial."""
        return f"<Processor of {self.query!r}: {function_name(self.function)}>"

    def __str__(self) -> str:
        return f"the output processor {self.name or function_name(self.function)} of {self.query!r}"


def function_name(function: Callable[..., Any]) -> str:
    """The name of a function, or the name of the class of another callable object."""
    return getattr(function, "__qualname__", type(function).__name__)


class Catalogue:
    """Finds names, ignoring case as SQL does. The check and the network use it as their `Names`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.streams: dict[str, StreamEntry] = {}
        self.queries: dict[str, QueryEntry] = {}
        self.scripts: dict[str, ScriptEntry] = {}
        self.tables: dict[str, StateTable] = {}
        self.declarations = Declarations(self)
        self.trust: Trust | None = None
        """The bounds of the query that is being created, if it is untrusted."""
        self.stores = Stores()
        self.outbox = Outbox(database, self.stores)

    @contextlib.contextmanager
    def trusting(self, trust: Trust | None) -> Iterator[None]:
        """While the context is open, tables of the database are found only as far as `trust` allows."""
        self.trust = trust
        try:
            yield
        finally:
            self.trust = None

    def known(self) -> list[str]:
        return [e.name for e in self.streams.values()] + [e.name for e in self.queries.values()]

    def table_names(self) -> list[str]:
        """The tables of the database that a query may read, for hints; none for an untrusted query."""
        if self.trust is not None:
            return []
        return [name for name in self.database.table_names() if not name.lower().startswith(PREFIX)]

    def free(self, name: str) -> str:
        """The name, if it is not used yet. Raises `NameTaken`."""
        if not isinstance(name, str) or not name.strip() or not is_storable(name):
            raise SchemaError(f"{name!r} cannot be a name")
        kinds: dict[str, Collection[str]] = {
            "stream": [*self.streams, *self.declarations.event_types.variants], "query": self.queries, "script": self.scripts,
            "table": self.tables,
        }  # fmt: skip
        for kind in (kind for kind, known in kinds.items() if name.lower() in known):
            raise NameTaken(f"there is a {kind} {name!r} already")
        return name

    def is_registered(self, name: str, schema: Schema, source: TableSource | None = None) -> bool:
        """Whether this stream is registered already. Raises `NameTaken` for another stream of this name."""
        known = self.streams.get(name.lower()) if isinstance(name, str) else None
        if known is not None and (other := known.difference(schema, source)):
            anew = ", connect(url, fresh=True) begins anew" if self.database.is_durable else ""
            raise NameTaken(f"there is a stream {name!r} already, {other}; remove_stream removes it{anew}")
        return known is not None

    def stream_entry(self, name: str) -> StreamEntry:
        entry = self.streams.get(name.lower()) if isinstance(name, str) else None
        if entry is None:
            if isinstance(name, str) and name.lower() in self.queries:
                raise UnknownName(f"{name!r} is a query, whose events are its results: they are not pushed")
            hint = nearest(str(name), [entry.name for entry in self.streams.values()])
            raise UnknownName(f"unknown stream {name!r}{hint or f'; register_stream({name!r}, schema) makes it one'}")
        return entry

    def has_stream(self, entry: StreamEntry) -> bool:
        """Whether this stream is still registered, and was not removed since it was looked up."""
        return self.streams.get(entry.name.lower()) is entry

    def query_entry(self, name: str) -> QueryEntry:
        entry = self.queries.get(name.lower()) if isinstance(name, str) else None
        if entry is None and isinstance(name, str) and name.lower() in self.scripts:
            outputs = ", ".join(map(repr, self.scripts[name.lower()].outputs))
            raise UnknownName(f"{name!r} is a script, whose outputs are queries: {outputs}")
        if entry is None:
            hint = nearest(str(name), [entry.name for entry in self.queries.values()])
            raise UnknownName(f"unknown query {name!r}{hint}")
        return entry

    def schema(self, name: str) -> Schema | None:
        """The attributes of the stream, or the columns of the query, of this name; None if there is neither."""
        found = self.stream(name)
        return None if found is None else Schema(tuple(Attribute(f.name, f.type) for f in found.visible))

    def stream(self, name: str) -> ResolvedNode | None:
        """The stream of this name, or the results of the query of this name, as a resolved node."""
        if entry := self.streams.get(name.lower()):
            fields = tuple(Field(a.name, a.type) for a in entry.schema)
            return ResolvedNode(query.Stream(entry.name), fields, windowed=False)
        if found := self.queries.get(name.lower()):
            known = found.resolved
            return ResolvedNode(query.Stream(found.name), found.fields, known.windowed, known.expiring)
        return None

    def relation(self, name: str) -> ResolvedNode | None:
        """A table of the database as a resolved node."""
        state = self.tables.get(name.lower())  # databases may report other types than were meant
        if state is None and self.trust is not None:
            name = self.trust.table(name)
        schema = self.database.relation(name) if state is None else state.schema
        if schema is None:
            return None
        return ResolvedNode(query.Relation(name), tuple(Field(a.name, a.type) for a in schema), windowed=False)

    def store(self, name: str | None) -> Database:
        """The database of a data store; None is the bridge's own."""
        if name is None:
            return self.database
        try:
            return self.stores.find(name).database()
        except Unreachable as error:
            raise QueryError(f"the data store {name!r} does not answer: {error}", words=[name]) from None

    def types(self, node: Node, hidden: bool = True) -> dict[str, str]:
        """The types of a resolved node's columns; `hidden`: also of those that results do not have."""
        return {field.name: field.type for field in resolve(node, self).fields if hidden or not field.hidden}

    def source(self, name: str) -> NamedSource:
        """The source in the network that a resolved name stands for."""
        if entry := self.streams.get(name.lower()):
            key = frozenset([entry.name.lower()])
            return NamedSource(tuple(entry.schema.names), inbox=entry.inbox, sources=key)
        if found := self.queries.get(name.lower()):
            names = tuple(field.name for field in found.fields)
            return NamedSource(
                names,
                node=found.resolved.node,
                epoch=found.epoch,
                inherits=found.inherits,
                sources=found.sources,
                timed=found.timed,
            )
        schema = self.database.relation(name)
        return NamedSource(tuple(schema.names) if schema else ())

    def readers(self, name: str) -> list[str]:
        """The queries whose tree names this stream or query."""
        return [
            entry.name
            for entry in self.queries.values()
            if not entry.is_internal
            for node in query.walk(entry.resolved.node)
            if isinstance(node, query.Stream) and node.name.lower() == name.lower()
        ]

    def with_readers(self, name: str) -> tuple[str, ...]:
        """The names, in lower case, of a query, of the queries that read its results, and so on."""
        read = {
            key: {node.name.lower() for node in query.walk(entry.resolved.node) if isinstance(node, query.Stream)}
            for key, entry in self.queries.items()
        }
        found = [name.lower()]
        for each in found:
            found += [key for key, names in read.items() if each in names and key not in found]
        return tuple(found)

    def script_of(self, output: str) -> ScriptEntry | None:
        """The script that has this query as an output, if any."""
        lowered = output.lower()
        return next((s for s in self.scripts.values() if lowered in map(str.lower, s.outputs)), None)

    @staticmethod
    def names_of(node: Node) -> list[str]:
        return [below.name for below in query.walk(node) if isinstance(below, query.Stream)]
