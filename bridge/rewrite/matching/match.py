"""Pattern matching of the paper (P1–P7): the automaton's runs are rows, and one join extends all of them by an event.

The pattern becomes a deterministic automaton over symbols (`nfa`), whose transitions are a table. One recursive
statement (`runs` writes it) moves the active runs over the events of the push, whatever its size. An event extends a
run if it is at the next timestamp, and the database finds the symbol's condition, over the event and the run's
variables, true.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.matching.members import FamilyMembers, QueryFamily, instant_before, shape
from bridge.rewrite.matching.runs import RunStatement
from bridge.rewrite.matching.sequence import SequenceFamily, suits, word_of
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.state_tables import add_table, ago
from bridge.rewrite.stateless import as_inserted
from bridge.rewrite.variants import StatementWriter, Variants
from nfa.automaton import Automaton, compile_automaton
from nfa.errors import BudgetError, PatternError
from windows.sql import (
    aliased,
    aliased_table,
    column,
    column_of,
    derived_table,
    null_safe_equal,
    number,
    over,
    running_frame,
    table,
)


@rewrite.register
def _(node: query.Match, network: Network, need: Need) -> Flow:
    title = f"Match {node.pattern} WITHIN {node.within} MS"

    def build(operator: Operator) -> None:
        family = network.operator(node, lambda made: _begin(made, node, network), title, key=shape(node))
        matching = family.family
        assert isinstance(matching, QueryFamily)
        number = matching.join(node)
        operator.result = matching.result(node, number)
        operator.leave = lambda: matching.leave(number)
        operator.has_runs = isinstance(matching, AutomatonFamily)

    operator = network.operator(node, build, title)
    return network.give(operator, node, need)


def _begin(family: Operator, node: query.Match, network: Network) -> None:
    below = network.rewrite(node.input, Need.ARRIVALS)
    automaton = automaton_of(node)
    word = word_of(automaton)
    if word is not None and suits(node, word, network.database.prefers_bulk):
        family.family = SequenceFamily(family, node, below, network, word)
    else:
        family.family = AutomatonFamily(family, node, below, network, automaton)


def automaton_of(node: query.Match) -> Automaton:
    """The pattern's automaton. Raises an error for a pattern that strictly sequential matching does not support."""
    try:
        return compile_automaton(node.pattern)
    except (PatternError, BudgetError) as error:
        raise QueryError(f"PATTERN {node.pattern}: {error}") from None


@dataclasses.dataclass
class AutomatonFamily(QueryFamily):
    """Writes the tables and steps of a family of Matches, which differ in WITHIN and in constants of DEFINE.

    symbols: the events of this push, with the previous timestamp of each; instants: the newest timestamp of each key;
    steps: the runs made in this push, complete or not; runs: the runs that may be extended. Each run carries the
    constants of its member, or is still the same for all members.
    """

    automaton: Automaton

    def __post_init__(self) -> None:
        make = self.network.name
        self.symbols, self.instants = make("symbols", self.node), make("instants", self.node)
        self.steps, self.runs = make("steps", self.node), make("runs", self.node)
        self.order = self.below.order
        runs = self._run_statement({1: self.node})
        self.spells_first, self.columns = runs.spells_first, runs.columns
        self._make_tables(runs)

    def write(self, members: Mapping[int, query.Match]) -> None:
        """Writes the steps and purges. The statement for many members is written only when it runs."""
        self.within = max(node.within for node in members.values())
        old = exp.LTE(this=column("ts"), expression=ago(self.within))
        self.operator.purges = [self._purge_runs(), Purge(self.instants, old)]
        self.operator.steps = [
            Insert(self.symbols, self._symbols()),
            Insert(self.steps, Variants(StatementWriter(lambda: self._run_statement(members).select()))),
            Insert(self.runs, self._extensible()),
            *self._newest_instants(),
        ]

    def _run_statement(self, nodes: Mapping[int, query.Match]) -> RunStatement:
        members = FamilyMembers.of(nodes, self.operator.constants)
        below = self.below
        return RunStatement(
            self.node, self.automaton, members, self.network, self.symbols, self.runs, below.key, self.order, self.keys
        )

    # The symbol table and the instants --------------------------------------------------------------------------------

    def _make_tables(self, runs: RunStatement) -> None:
        rows = self._arrivals()
        symbols = rows.select().select(aliased(rows.columns["ts"].copy(), "_before"))
        instants = exp.select(column("ts"), column("_before"), *map(column, self.keys)).from_(table(self.symbols))
        add_table(self.operator, self.symbols, symbols, (("_before",),))
        add_table(self.operator, self.instants, instants)
        add_table(self.operator, self.steps, runs.shape())
        add_table(self.operator, self.runs, runs.shape(), (("ts",),))
        self.operator.inboxes += [self.symbols, self.steps]

    def _arrivals(self) -> Selection:
        keys = dict(zip(self.keys, self.node.partition_by, strict=True))
        names = ("ts", "seq", *self.order, *self.read)
        return self.below.arrivals.project({**{name: column(name) for name in names}, **keys})

    def _symbols(self) -> exp.Select:
        """Each arrival with `_before`, the previous distinct timestamp of its key (P2)."""
        rows = self._arrivals()
        arrivals = rows.select()
        earlier: exp.Expr = column_of("a", "_earlier")
        if not self.keys and as_inserted(self.node.input, self.network):
            arrivals = _by_place(arrivals)
        else:
            keys = (column_of("a", key) for key in self.keys)
            earlier = over(exp.Max(this=column_of("a", "ts")), keys, [column_of("a", "ts")], self._frame())
        last = aliased_table(self.instants, "i")
        before = instant_before(earlier, "a", "i")
        same_key = [null_safe_equal(column_of("i", key), column_of("a", key)) for key in self.keys]
        return (
            exp.select(*(column_of("a", name) for name in rows.columns), aliased(before, "_before"))
            .from_(derived_table(arrivals, "a"))
            .join(last, on=exp.and_(*same_key) if same_key else exp.true(), join_type="left")
        )

    def _frame(self) -> exp.WindowSpec:
        """The frame of rows before a row's timestamp. DuckDB searches a frame's end from the beginning for each row."""
        start = {"kind": "RANGE", "start": "UNBOUNDED", "start_side": "PRECEDING"}
        if self.network.database.prefers_bulk:
            return exp.WindowSpec(**start, end="CURRENT ROW", exclude=exp.var("GROUP"))
        return exp.WindowSpec(**start, end=number(1), end_side="PRECEDING")

    def _newest_instants(self) -> list[Insert | Purge]:
        """One row per key: its newest timestamp and the one before, for later events of the same ts."""
        keys = [*map(column, self.keys)]
        latest = [aliased(exp.Max(this=column(name)), name) for name in ("ts", "_before")]  # both only grow
        newest = exp.select(*latest, *keys).from_(table(self.symbols)).group_by(*keys)
        select = exp.select(*(column_of("n", name) for name in ("ts", "_before", *self.keys)))
        select = select.from_(derived_table(newest, "n")).where(column_of("n", "ts").is_(exp.null()).not_())
        seen = exp.select(number(1)).from_(aliased_table(self.symbols, "m"))
        seen = seen.where(*(null_safe_equal(column_of("m", key), column_of(self.instants, key)) for key in self.keys))
        return [Purge(self.instants, exp.Exists(this=seen)), Insert(self.instants, select)]

    # The runs -----------------------------------------------------------------------------------------------------

    def _extensible(self) -> exp.Select:
        """The runs whose state has a transition."""
        states = sorted({state for state, _, _ in self.automaton.transitions})
        select = exp.select(*map(column, self.columns)).from_(table(self.steps))
        return select.where(exp.In(this=column("_state"), expressions=[number(state) for state in states]))

    def _purge_runs(self) -> Purge:
        """A purge of runs that are too old for WITHIN, or that their key's newest timestamp did not extend."""
        old = exp.LTE(this=column("_first"), expression=ago(self.within))
        mine = [null_safe_equal(column_of("i", key), column_of(self.runs, key)) for key in self.keys]
        passed = exp.LT(this=column_of(self.runs, "ts"), expression=column_of("i", "_before"))
        later = exp.select(number(1)).from_(aliased_table(self.instants, "i")).where(passed, *mine)
        return Purge(self.runs, exp.or_(old, exp.Exists(this=later)))

    # The matches ------------------------------------------------------------------------------------------------------

    def result(self, node: query.Match, member: int) -> Flow:
        states = [number(state) for state in sorted(self.automaton.accepting)]
        order = (*self.order, *(() if self.spells_first else ("_first_seq",)), "_path", "_symbols")
        accepted = exp.In(this=column("_state"), expressions=states)
        return self.matches_of(node, member, self.steps, order, [accepted])


def _by_place(arrivals: exp.Select) -> exp.Select:
    """The arrivals with `_earlier`, the previous distinct timestamp among them, if they are in order.

    It is the newest time that was followed by a later time: one pass, without a sort.
    """
    names = [column(name) for name in arrivals.named_selects]
    each = exp.select(*names, aliased(exp.Window(this=exp.Lag(this=column("ts"))), "_last"))
    each = each.from_(derived_table(arrivals, "b"))
    followed = exp.Case().when(exp.LT(this=column("_last"), expression=column("ts")), column("_last"))
    earlier = exp.Window(this=exp.Max(this=followed), spec=running_frame())
    return exp.select(*names, aliased(earlier, "_earlier")).from_(derived_table(each, "c"))
