"""The network of operators of all queries of a bridge. Equal sub-trees share an operator, equal windows a table."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import singledispatch
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError
from bridge.query.codec import fingerprint
from bridge.query.epl_state import StateTable
from bridge.query.nodes import Node
from bridge.rewrite.derived_window import leaving_with, purge_expired_results
from bridge.rewrite.earlier_states import EarlierStates
from bridge.rewrite.flow import TIMES, Flow, Need, Selection
from bridge.rewrite.names import TableNames
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.settings import Settings
from bridge.rewrite.state_changes import StateChanges
from bridge.rewrite.state_tables import add_table, expired, indexed_by
from bridge.rewrite.timed import reports_by_time
from windows.databases.base import Database
from windows.sql import column, row_number, table

if TYPE_CHECKING:
    from bridge.stores.outbox import Outbox
    from bridge.stores.store import Stores

T = TypeVar("T")

DEFAULTS = Settings()


@dataclasses.dataclass(frozen=True)
class NamedSource:
    """The source that a name in FROM refers to: the inbox of a stream, or the tree of another query."""

    names: tuple[str, ...]
    inbox: str | None = None
    node: Node | None = None
    epoch: int = 0
    inherits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    timed: bool = False


class NetworkNames(Protocol):
    """Resolves names of streams, queries and data stores (None: the bridge's own database), and types of columns."""

    outbox: Outbox
    stores: Stores
    tables: dict[str, StateTable]

    def source(self, name: str) -> NamedSource: ...
    def store(self, name: str | None) -> Database: ...
    def types(self, node: Node, hidden: bool = True) -> dict[str, str]: ...


class Network:
    """Rewrites trees into operators.

    An operator has an `epoch`, the number of the newest event at its creation: a query does not see earlier events, so
    its results do not depend on which other queries exist. While a query is rewritten, `reader` is its own epoch, and
    `epoch` is that of the current tree, which may be another query's.
    """

    def __init__(
        self,
        database: Database,
        names: NetworkNames,
        settings: Settings = DEFAULTS,
        table_names: TableNames | None = None,
    ) -> None:
        self.database = database
        self.settings = settings
        self.source = names.source
        self.store = names.store
        self.types = names.types
        self.outbox = names.outbox
        self.stores = names.stores
        self.operators: list[Operator] = []
        self.changed: dict[int, tuple[Operator, list[int]]] = {}
        """The operators that the newest plan has created or changed, with the indexes that each table had before."""
        self._by_id: dict[int, Operator] = {}
        self._numbers = itertools.count(1)
        self.epoch = 0
        self.inherits: Mapping[str, int] = {}
        """The epochs of the operators that the current tree takes over from a replaced query, by fingerprint."""
        self.written_tables: frozenset[str] = frozenset()
        """The tables that queries write; reading them is a step of its own."""
        self.state_changes = StateChanges(names.tables)
        self.read_late: set[Node] = set()
        """Nodes that read tables which no query wrote when they were created; they read after all steps."""
        self._by_node: dict[tuple[Hashable, int], Operator] = {}
        self._earlier = EarlierStates()
        self._all: dict[str, object] = {}
        """The collections of all operators before the current transaction has removed some."""
        self.reader = 0
        self._used: set[int | str] = set()
        self._needs: dict[int | str, set[int | str]] = {}
        self.names = table_names or TableNames(database.table_names())

    def plan(
        self, node: Node, epoch: int, inherits: Mapping[str, int] = MappingProxyType({})
    ) -> tuple[Flow, list[Operator], frozenset[str]]:
        """Plans a resolved tree: the flow of its results, its operators, and the derived tables that it reads.

        `inherits`: the epochs of the operators that it takes over, by fingerprint.
        """
        self._used, self.changed = set(), {}
        self.epoch = self.reader = epoch
        self.inherits = inherits
        flow = self.rewrite(node, Need.RESULT)
        if only_views(node):
            self.rewrite(node, Need.CONTENT)  # the query is a window, whose content is needed for on-demand queries
        derived = frozenset(name for name in self._used if isinstance(name, str))
        return flow, in_order(self._by_id[each] for each in self._used if isinstance(each, int)), derived

    def rewrite(self, node: Node, need: Need) -> Flow:
        return rewrite(node, self, need)

    def keep(self, operators: Iterable[Operator]) -> list[Operator]:
        """Removes all operators except these; returns the removed ones, whose tables can be dropped."""
        kept = {id(operator) for operator in operators}
        self._all = self._all or {name: vars(self)[name] for name in ("operators", "_by_id", "_by_node", "_needs")}
        gone = [operator for operator in self.operators if id(operator) not in kept]
        self._needs = {key: needs for key, needs in self._needs.items() if key in kept or isinstance(key, str)}
        self.operators = [operator for operator in self.operators if id(operator) in kept]
        self._by_id = {id(operator): operator for operator in self.operators}
        self._by_node = {key: operator for key, operator in self._by_node.items() if id(operator) in kept}
        for operator in gone:
            if operator.leave is not None:
                operator.leave()
        return gone

    def keep_derived(self, names: set[str]) -> list[str]:
        """Removes all derived tables except these; returns the names of the tables that can be dropped."""
        for operator in self.operators:
            if not operator.derived.keys() <= names:
                self.note_before(operator)
        gone = [name for operator in self.operators for name in operator.forget_derived(names)]
        for name in gone:
            self._needs.pop(name, None)
        return gone

    def operator(
        self,
        node: Node,
        build: Callable[[Operator], None],
        title: str,
        key: Hashable | None = None,
        epoch: int | None = None,
    ) -> Operator:
        """The operator of this tree; it is built unless an equal one of this epoch exists.

        `key` identifies the operator if the tree itself does not. `epoch`: by default that of the current tree.
        """
        key = key or node
        reader = self.reader
        if epoch is None:
            inherited = self.inherits.get(fingerprint(key)) if self.inherits else None
            epoch, reader = (self.epoch, reader) if inherited is None else (inherited, inherited)
        found = self._by_node.get((key, epoch))
        if found is not None:
            self.note_before(found)
        else:
            sources, timed = self.concerns(node)
            reads = frozenset(each.name.lower() for each in query.walk(node) if isinstance(each, query.Stream))
            found = Operator(title, sources, timed, identity=self.names.identity(key, epoch), reads=reads)
            with self.names.owned_by(found.identity), self._read_by(reader):
                self._noting(id(found), lambda: build(found))
            found.number = next(self._numbers)
            self._by_node[key, epoch] = self._by_id[id(found)] = found
            self.operators.append(found)
            self.changed[id(found)] = found, []
        self.use(found)
        return found

    def can_have(self, key: Hashable, kind: str, part: str = "") -> bool:
        """Whether the operator of a key (or its part) may have such a table; not if the resumed state lacks it."""
        owner = self.names.identity(key, self._epoch_of(key, self.epoch, self.inherits)) if self.names.resuming else ""
        return not owner or self.names.is_known(owner + part, kind)

    @staticmethod
    def _epoch_of(key: Hashable, epoch: int, inherits: Mapping[str, int]) -> int:
        """The epoch of a key's operator in a query of this epoch, which `inherits` the epochs of some operators."""
        return inherits.get(fingerprint(key), epoch) if inherits else epoch

    @contextlib.contextmanager
    def _read_by(self, reader: int) -> Iterator[None]:
        """A context in which a query of the epoch `reader` reads; an inherited operator reads what it read before."""
        mine, self.reader = self.reader, reader
        try:
            yield
        finally:
            self.reader = mine

    def _noting(self, user: int | str, build: Callable[[], T]) -> T:
        """Builds an operator or a derived table, and records what it needs, as its readers need that, too."""
        above, self._used = self._used, set()
        result = build()
        self._needs[user] = self._used
        self._used = above
        return result

    def begin(self) -> None:
        """Begins a transaction, whose changes of operators `rollback` undoes."""
        self._earlier.clear()
        self.state_changes.begin()
        self._all = {}

    def commit(self) -> None:
        """Notes that the transaction has taken effect."""
        self.names.commit()

    def rollback(self) -> None:
        """Restores the operators after a failed transaction; the caller removes those that it has created."""
        self.names.rollback()
        self.state_changes.rollback()
        self._earlier.restore()
        vars(self).update(self._all)

    def note_before(self, operator: Operator) -> None:
        """Records the state of an operator before it is changed."""
        self.changed.setdefault(id(operator), (operator, [len(made.indexes) for made in operator.tables]))
        self._earlier.note(operator)

    def epochs_of(self, node: Node) -> list[int]:
        """The epochs of the operators of a window."""
        return [epoch for known, epoch in self._by_node if known == node]

    def windows(self) -> list[Node]:
        """All windows that have an operator."""
        return list(dict.fromkeys(node for node, _ in self._by_node if isinstance(node, query.Window)))

    def content_of(self, node: Node, epoch: int, inherits: Mapping[str, int] = MappingProxyType({})) -> Flow:
        """The content of the window of a query of this epoch, which `inherits` the epochs of some operators."""
        operator = self.existing(node, epoch, inherits)
        flow = next(iter(operator.contents.values()), operator.arrivals) if operator else None
        if flow is None or flow.content is None:
            raise QueryError(f"the content of {node} is not kept: no operator needs it")
        return flow

    def existing(
        self, key: Hashable, epoch: int, inherits: Mapping[str, int] = MappingProxyType({})
    ) -> Operator | None:
        """The operator of this key that a query reads, by its epoch or those it `inherits`; None if there is none."""
        return self._by_node.get((key, self._epoch_of(key, epoch, inherits)))

    def index(self, name: str, columns: tuple[str, ...]) -> None:
        """Adds an index over these columns to a table."""
        for operator in self.operators:
            for place, made in enumerate(operator.tables):
                if made.name == name and columns not in made.indexes:
                    self.note_before(operator)
                    operator.tables[place] = dataclasses.replace(made, indexes=(*made.indexes, columns))

    def use(self, operator: Operator) -> None:
        """Records that the current query needs an operator, and everything that the operator needs."""
        self._used |= {id(operator), *self._needs[id(operator)]}

    def under(self, epoch: int, inherits: Mapping[str, int]) -> Callable[[Node, Need], Flow]:
        """A function that rewrites another query's tree in that query's epoch, with the epochs that it `inherits`."""

        def rewritten(node: Node, need: Need) -> Flow:
            mine = self.epoch, self.inherits
            self.epoch, self.inherits = epoch, inherits
            try:
                return self.rewrite(node, need)
            finally:
                self.epoch, self.inherits = mine

        return rewritten

    def epochs(self, operators: Iterable[Operator], epochs: Collection[int]) -> dict[str, int]:
        """The epochs, by fingerprint, of the given operators whose epoch is one of the `epochs`."""
        return {fingerprint(key): epoch for (key, epoch), _ in self._of_epochs(operators, epochs)}

    def of_epochs(self, operators: Iterable[Operator], epochs: Collection[int]) -> list[Operator]:
        """The given operators whose epoch is one of the `epochs`."""
        return [operator for _, operator in self._of_epochs(operators, epochs)]

    def _of_epochs(
        self, operators: Iterable[Operator], epochs: Collection[int]
    ) -> list[tuple[tuple[Hashable, int], Operator]]:
        wanted = {id(operator) for operator in operators}
        return [(key, each) for key, each in self._by_node.items() if id(each) in wanted and key[1] in epochs]

    def name(self, kind: str, node: Node) -> str:
        """A name for a table: its kind, then the stream or query that it is for."""
        return self.names.of(kind, query.source_name(node) or "")

    def give(self, operator: Operator, node: Node, need: Need) -> Flow:
        """The result of an operator in the form its reader needs: a SELECT, an inbox, or also a derived window (W5)."""
        result = cast("Flow", operator.result)
        if need is Need.RESULT and operator.arrivals is None:
            return result
        if operator.arrivals is None:
            with self.names.owned_by(f"{operator.identity} result" if operator.identity else ""):
                operator.arrivals = self._materialised(operator, node, result)
        if need is Need.CONTENT and self.reader not in operator.contents:
            with self.names.owned_by(f"{operator.identity} result of {self.reader}" if operator.identity else ""):
                operator.contents[self.reader] = self._window(operator, node, operator.arrivals)
        wanted = (None, self.reader) if need is Need.CONTENT else (None,)
        for name in (name for name, reader in operator.derived.items() if reader in wanted):
            self._used |= {name, *self._needs.get(name, ())}
        return operator.contents[self.reader] if need is Need.CONTENT else operator.arrivals

    def _materialised(self, operator: Operator, node: Node, result: Flow) -> Flow:
        """Puts the result into an inbox. Rows of one event are numbered in the operator's order."""
        inbox = self.name("inbox", node)
        order: dict[str, exp.Expr] = {}
        if result.order == ("_place",):
            order = {"_place": column("_place")}
        elif result.order:
            order = {"_place": row_number(map(column, ("ts", "seq")), map(column, result.order))}
        kept = {name for name in operator.keys if name not in order}
        names = [name for name in result.arrivals.columns if name not in result.order or name in kept]
        columns = {**{name: column(name) for name in TIMES}, **order, **{n: column(n) for n in names}}

        def rows(found: Selection) -> exp.Expr:
            return Selection.of(exp.Subquery(this=found.select()), found.columns).project(columns).select()

        add_table(operator, inbox, cast("exp.Select", rows(result.arrivals)))
        operator.derived[inbox] = None
        operator.inboxes.append(inbox)
        written = dataclasses.replace(result.writers, brief=None, long=None, shared=None)
        operator.steps.append(Insert(inbox, written.map(lambda writer: writer.map(rows))))
        arrivals = Selection.of(table(inbox), columns)
        return dataclasses.replace(result, arrivals=arrivals, order=tuple(order), variants=None)

    def _window(self, operator: Operator, node: Node, arrivals: Flow) -> Flow:
        """W5: a table of the results that are still valid, by the expiry that comes with each row."""
        name = self.name("window", node)
        select = arrivals.arrivals.select()
        add_table(operator, name, select, indexed_by("_expires", select, self.database))
        operator.derived[name] = self.reader
        operator.steps.append(Insert(name, select))
        content = Selection.of(table(name), arrivals.arrivals.columns)
        # Newer results replace older ones at any time, not only at the boundaries of a window.
        boundaries = arrivals.boundaries if isinstance(node, query.Window) else None
        kept = dataclasses.replace(arrivals, content=content, last=None, boundaries=boundaries)
        flow = derived_content(node, kept)
        if origins := self._noting(name, operator.origins):
            flow = leaving_with(flow, origins)
        # Replaced rows are purged first: once the row that replaced them is gone, they would count again.
        operator.purges += [purge_expired_results(name, flow), expired(name)] if flow.counted else [expired(name)]
        return flow

    def streams(self, node: Node) -> frozenset[str]:
        """The streams whose events reach a node."""
        return self.concerns(node)[0]

    def concerns(self, node: Node) -> tuple[frozenset[str], bool]:
        """The streams below a node, and whether it reports as time passes."""
        streams: set[str] = set()
        timed = False
        for below in query.walk(node):
            if isinstance(below, query.Stream):
                source = self.source(below.name)
                streams |= source.sources
                timed |= source.timed
            timed |= reports_by_time(below)
        return frozenset(streams), timed


def in_order(operators: Iterable[Operator]) -> list[Operator]:
    """The operators in the order of their creation: inputs before their readers."""
    return sorted(operators, key=lambda operator: operator.number)


@singledispatch
def rewrite(node: Node, network: Network, need: Need) -> Flow:
    """The flow of a resolved node. Each operator registers its own function, one file per operator."""
    raise TypeError(f"no rewriting for {type(node).__name__}")


@singledispatch
def derived_content(node: Node, flow: Flow) -> Flow:
    """The content of a derived window, apart from `_expires`: newer rows of an aggregate replace older ones."""
    return flow


def only_views(node: Node) -> bool:
    """Whether a tree consists of windows below filters, maps and unions, which have no state."""
    if isinstance(node, query.Window):
        return True
    return isinstance(node, (query.Filter, query.Map, query.Union)) and all(map(only_views, node.inputs_of))
