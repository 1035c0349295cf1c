"""Pattern matching of the paper (P1–P7): the automaton's runs are rows, and a step of all runs is one join.

The pattern becomes a deterministic automaton over symbols (`nfa`), its transitions a table. One recursive statement
takes the runs alive and the batch's events through it, at any size of the batch: an event extends a run when it is at
the next instant, and the symbol's condition, evaluated by the database over the event and the run's variables, holds.
"""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge import query
from bridge.check import column
from bridge.errors import QueryError
from bridge.flow import Flow, Need, Selection, as_text, joined_text, named, number, of, over, same, table
from bridge.plan import Insert, Operator, Purge
from bridge.rewrite.network import Network, add_table, ago, rewrite
from nfa.automaton import Automaton, compile_automaton
from nfa.errors import BudgetError, PatternError


@rewrite.register
def _(node: query.Match, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        Matching(node, below, automaton_of(node), network, operator).build()

    operator = network.operator(node, build, f"Match {node.pattern} WITHIN {node.within} MS")
    return network.give(operator, node, need)


def automaton_of(node: query.Match) -> Automaton:
    """The pattern's automaton, or the refusal of what strictly sequential matching has not."""
    try:
        return compile_automaton(node.pattern)
    except (PatternError, BudgetError) as error:
        raise QueryError(f"PATTERN {node.pattern}: {error}") from None


@dataclasses.dataclass
class Matching:
    """Writes the tables and steps of one Match.

    symbols: this push's events with the instant before theirs; instants: the newest instant of each key;
    steps: the runs that this push made, complete or not; runs: those that may still grow.
    """

    node: query.Match
    below: Flow
    automaton: Automaton
    network: Network
    operator: Operator

    def __post_init__(self) -> None:
        make = self.network.name
        self.symbols, self.instants = make("symbols", self.node), make("instants", self.node)
        self.steps, self.runs = make("steps", self.node), make("runs", self.node)
        self.keys = [f"_key{place}" for place in range(len(self.node.partition_by))]
        self.variables = [attribute.name for attribute in self.node.measures]
        self.order = self.below.order

    def build(self) -> None:
        self._fill_symbols()
        self._take_steps()
        self._remember_instants()
        self._report()

    # The symbol table and the instants --------------------------------------------------------------------------------

    def _fill_symbols(self) -> None:
        """Each arrival with `_before`: the instant (distinct ts, per key) before its own (P2)."""
        keys = dict(zip(self.keys, self.node.partition_by, strict=True))
        rows = self.below.arrivals.project(
            {**{name: column(name) for name in ("ts", "seq", *self.order, *self.below.names)}, **keys}
        )
        last = exp.alias_(table(self.instants), "i", table=True, quoted=True)
        source = exp.alias_(exp.Subquery(this=rows.select()), "a", table=True, quoted=True)
        in_batch = over(
            exp.Max(this=of("a", "ts")),
            (of("a", key) for key in self.keys),
            [of("a", "ts")],
            exp.WindowSpec(
                kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end=number(1), end_side="PRECEDING"
            ),
        )
        earlier = exp.LT(this=of("i", "ts"), expression=of("a", "ts"))
        known = exp.Case().when(earlier, of("i", "ts")).else_(of("i", "_before"))
        same_key = [same(of("i", key), of("a", key)) for key in self.keys]
        columns = [of("a", name) for name in rows.columns]
        select = (
            exp.select(*columns, named(exp.Coalesce(this=in_batch, expressions=[known]), "_before"))
            .from_(source)
            .join(last, on=exp.and_(*same_key) if same_key else exp.true(), join_type="left")
        )
        shape = exp.select(*columns, named(of("a", "ts"), "_before")).from_(source.copy())
        add_table(self.operator, self.symbols, shape, (("_before",),))
        self.operator.inboxes.append(self.symbols)
        instants = exp.select(column("ts"), column("_before"), *map(column, self.keys)).from_(table(self.symbols))
        add_table(self.operator, self.instants, instants)
        self.operator.steps.append(Insert(self.symbols, select))

    def _remember_instants(self) -> None:
        """One row a key: its newest instant and the one before that, for events of the same ts still to come."""
        newest = exp.select(exp.Max(this=of("m", "ts"))).from_(_called(self.symbols, "m"))
        newest = newest.where(*(same(of("m", key), of("s", key)) for key in self.keys))
        select = exp.select(*(of("s", name) for name in ("ts", "_before", *self.keys))).distinct()
        select = select.from_(_called(self.symbols, "s"))
        select = select.where(exp.EQ(this=of("s", "ts"), expression=exp.Subquery(this=newest)))
        seen = exp.select(number(1)).from_(_called(self.symbols, "m"))
        seen = seen.where(*(same(of("m", key), exp.column(key, table=self.instants, quoted=True)) for key in self.keys))
        self.operator.steps += [Purge(self.instants, exp.Exists(this=seen)), Insert(self.instants, select)]
        old = exp.LTE(this=column("ts"), expression=ago(self.node.within))
        self.operator.purges.append(Purge(self.instants, old))

    # The runs ---------------------------------------------------------------------------------------------------------

    @property
    def _run_columns(self) -> list[str]:
        return [
            "_first", "_first_seq", "ts", "seq", *self.order, "_state", "_path", "_letters", *self.keys,
            *self.variables,
        ]  # fmt: skip

    def _take_steps(self) -> None:
        """One recursive SELECT: runs begin at events, and grow by the events of the instant after their last."""
        move = self._moves()
        alive = exp.select(*(of("r", name) for name in self._run_columns), named(number(0), "_new"))
        alive = alive.from_(_called(self.runs, "r"))
        first = exp.select(exp.Min(this=column("_before"))).from_(table(self.symbols))
        alive = alive.where(exp.GTE(this=of("r", "ts"), expression=exp.Subquery(this=first)))
        begun = self._step(None).from_(_called(self.symbols, "e")).join(_as("_move", "m"), join_type="cross")
        begun = begun.where(exp.EQ(this=of("m", "_from"), expression=number(0)), self._holds(None))
        begin = exp.union(alive, begun, distinct=False)
        grown = self._step("r").from_(_as("_run", "r"))
        next_event = [
            exp.EQ(this=of("e", "_before"), expression=of("r", "ts")),
            *(same(of("e", key), of("r", key)) for key in self.keys),
        ]
        grown = grown.join(_called(self.symbols, "e"), on=exp.and_(*next_event))
        grown = grown.join(_as("_move", "m"), on=exp.EQ(this=of("m", "_from"), expression=of("r", "_state")))
        near = exp.LT(
            this=exp.Sub(this=of("e", "ts"), expression=of("r", "_first")), expression=number(self.node.within)
        )
        grown = grown.where(near, self._holds("r"))
        names = [*self._run_columns, "_new"]
        body = exp.union(exp.select(*map(column, names)).from_(table("_begin")), grown, distinct=False)
        select = exp.select(*map(column, self._run_columns)).from_(table("_run"))
        select = select.where(exp.EQ(this=column("_new"), expression=number(1)))
        for name, columns, part in (
            ("_move", ["_from", "_symbol", "_to"], move), ("_begin", names, begin), ("_run", names, body),
        ):  # fmt: skip
            alias = exp.TableAlias(this=_id(name), columns=[_id(c) for c in columns])
            select = select.with_(alias, as_=part, recursive=True)
        shape = (
            self._step(None)
            .from_(_called(self.symbols, "e"))
            .join(
                exp.Subquery(this=exp.select(named(number(0), "_to"), named(number(0), "_symbol"))).as_(
                    "m", quoted=True
                ),
                join_type="cross",
            )
        )
        shape = exp.select(*map(column, self._run_columns)).from_(exp.Subquery(this=shape).as_("q", quoted=True))
        add_table(self.operator, self.steps, shape)
        add_table(self.operator, self.runs, shape, (("ts",),))
        self.operator.inboxes.append(self.steps)
        self.operator.steps.append(Insert(self.steps, select))
        self.operator.steps.append(Insert(self.runs, self._growing()))
        self.operator.purges.append(self._purge_runs())

    def _moves(self) -> exp.Expr:
        """The automaton's transitions; symbols by their number."""
        numbers = {symbol: place for place, symbol in enumerate(self.automaton.symbols, 1)}
        rows = [
            exp.Tuple(expressions=[number(state), number(numbers[symbol]), number(target)])
            for state, symbol, target in self.automaton.transitions
        ]
        return exp.Values(expressions=rows)

    def _step(self, run: str | None) -> exp.Select:
        """The columns of a run after it took event `e` by move `m`; a run that begins has none before."""
        event = as_text(of("e", name) for name in self.below.key)
        letter: exp.Expr = exp.cast(exp.Add(this=of("m", "_symbol"), expression=number(100)), "VARCHAR")
        if run is not None:
            event, letter = joined_text([of(run, "_path"), event]), joined_text([of(run, "_letters"), letter])
        begun = run is None
        columns = [
            named(of("e", "ts") if begun else of("r", "_first"), "_first"),
            named(of("e", "seq") if begun else of("r", "_first_seq"), "_first_seq"),
            *(of("e", name) for name in ("ts", "seq", *self.order)),
            named(of("m", "_to"), "_state"),
            named(event, "_path"),
            named(letter, "_letters"),
            *(of("e", key) for key in self.keys),
            *(named(self._variable(name, run), name) for name in self.variables),
            named(number(1), "_new"),
        ]
        return exp.select(*columns)

    def _variable(self, name: str, run: str | None) -> exp.Expr:
        """P3: the value that the taken symbol assigns, else the one before; all assignments see the values before."""
        kind = exp.DataType.build(self._column_type(name), dialect=self.network.database.dialect)
        before: exp.Expr = exp.cast(exp.null(), kind) if run is None else of(run, name)
        cases = exp.Case()
        for definition in self.node.define:
            for assigned, value in definition.assignments:
                if assigned == name:
                    cases = cases.when(self._is(definition.symbol), exp.cast(self._value(value, run), kind))
        return cases.else_(before) if cases.args.get("ifs") else before

    def _holds(self, run: str | None) -> exp.Expr:
        """Whether the move's symbol holds for the event and the run's variables; without a definition it does."""
        cases = exp.Case()
        for definition in self.node.define:
            if definition.condition is not None:
                cases = cases.when(self._is(definition.symbol), self._value(definition.condition, run))
        return cases.else_(exp.true()) if cases.args.get("ifs") else exp.true()

    def _is(self, symbol: str) -> exp.Expr:
        return exp.EQ(this=of("m", "_symbol"), expression=number(self.automaton.symbols.index(symbol) + 1))

    def _value(self, expression: exp.Expr, run: str | None) -> exp.Expr:
        """An expression over the event's attributes and the run's variables (unset ones are NULL)."""

        def own(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            if node.name not in self.variables:
                return of("e", node.name)
            if run is not None:
                return of(run, node.name)
            return exp.cast(exp.null(), exp.DataType.build(self._column_type(node.name), dialect=self._dialect))

        replaced = expression.transform(own)
        assert isinstance(replaced, exp.Expr)
        return replaced

    @property
    def _dialect(self) -> str:
        return self.network.database.dialect

    def _column_type(self, variable: str) -> str:
        attribute = self.node.measures.find(variable)
        assert attribute is not None
        return self.network.database.column_type(attribute)

    def _growing(self) -> exp.Select:
        """The runs from whose state the automaton goes on."""
        states = sorted({state for state, _, _ in self.automaton.transitions})
        select = exp.select(*map(column, self._run_columns)).from_(table(self.steps))
        return select.where(exp.In(this=column("_state"), expressions=[number(state) for state in states]))

    def _purge_runs(self) -> Purge:
        """Runs too old for WITHIN, and those that the newest instant of their key did not extend."""
        old = exp.LTE(this=column("_first"), expression=ago(self.node.within))
        mine = [same(of("i", key), exp.column(key, table=self.runs, quoted=True)) for key in self.keys]
        passed = exp.LT(this=exp.column("ts", table=self.runs, quoted=True), expression=of("i", "_before"))
        later = exp.select(number(1)).from_(_called(self.instants, "i")).where(passed, *mine)
        return Purge(self.runs, exp.or_(old, exp.Exists(this=later)))

    # The matches ------------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        """P5, P6: the runs that this push brought to an accepting state, in the order of their events."""
        states = [number(state) for state in sorted(self.automaton.accepting)]
        order = (*self.order, "_path", "_letters")
        columns = {
            "ts": column("ts"),
            "seq": column("seq"),
            "_expires": exp.Add(this=column("_first"), expression=number(self.node.within)),
            **{name: column(name) for name in (*order, *self.variables)},
        }
        accepted = exp.In(this=column("_state"), expressions=states)
        rows = Selection(table(self.steps), columns, (accepted,))
        self.operator.result = Flow(tuple(self.variables), rows, order=order, timed=self.below.timed)


def _id(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _as(name: str, alias: str) -> exp.Expr:
    return exp.alias_(table(name), alias, table=True, quoted=True)


_called = _as
