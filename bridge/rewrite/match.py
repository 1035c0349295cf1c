"""Pattern matching of the paper (P1–P7): the automaton's runs are rows, and a step of all runs is one join.

The pattern becomes a deterministic automaton over symbols (`nfa`), its transitions a table. One recursive statement
takes the runs alive and the batch's events through it, at any size of the batch: an event extends a run when it is at
the next instant, and the symbol's condition, evaluated by the database over the event and the run's variables, holds.
"""

from __future__ import annotations

import dataclasses
from typing import cast

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError
from bridge.flow import Flow, Need, Selection, as_text, joined_text, named, number, of, over, same, table
from bridge.plan import Insert, Operator, Purge
from bridge.rewrite.family import constants, kind_of, signature
from bridge.rewrite.network import Network, add_table, ago, rewrite
from bridge.scope import column
from nfa.automaton import Automaton, compile_automaton
from nfa.errors import BudgetError, PatternError


@rewrite.register
def _(node: query.Match, network: Network, need: Need) -> Flow:
    title = f"Match {node.pattern} WITHIN {node.within} MS"

    def build(operator: Operator) -> None:
        family = network.operator(node, lambda made: _begin(made, node, network), title, key=_shape(node))
        matching = family.family
        assert isinstance(matching, Matching)
        number = matching.join(node)
        operator.result = matching.result(node, number)
        operator.leave = lambda: matching.leave(number)

    operator = network.operator(node, build, title)
    return network.give(operator, node, need)


def _begin(family: Operator, node: query.Match, network: Network) -> None:
    below = network.rewrite(node.input, Need.ARRIVALS)
    family.family = Matching(node, below, automaton_of(node), network, family)


def _shape(node: query.Match) -> tuple[object, ...]:
    """What the members of a family have in common: all but WITHIN and the constants of DEFINE."""
    defined = tuple(
        (definition.symbol, definition.condition is None, *(name for name, _ in definition.assignments))
        for definition in node.define
    )
    expressions = tuple(map(signature, _expressions(node)))
    return "Match", node.input, node.pattern, node.measures, node.partition_by, defined, expressions


def _constants_of(node: query.Match) -> list[exp.Literal]:
    return [found for expression in _expressions(node) for found in constants(expression)]


def _typed(constant: exp.Literal) -> exp.Expr:
    """A constant as a value of a type that a column keeps."""
    return constant.copy() if constant.is_string else exp.cast(constant.copy(), kind_of(constant))


def _expressions(node: query.Match) -> list[exp.Expr]:
    """The conditions and assigned values of DEFINE."""
    found: list[exp.Expr] = []
    for definition in node.define:
        found += [] if definition.condition is None else [definition.condition]
        found += [value for _, value in definition.assignments]
    return found


def automaton_of(node: query.Match) -> Automaton:
    """The pattern's automaton, or the refusal of what strictly sequential matching has not."""
    try:
        return compile_automaton(node.pattern)
    except (PatternError, BudgetError) as error:
        raise QueryError(f"PATTERN {node.pattern}: {error}") from None


@dataclasses.dataclass
class Matching:
    """Writes the tables and steps of a family of Matches, which differ in WITHIN and the constants of DEFINE.

    symbols: this push's events with the instant before theirs; instants: the newest instant of each key;
    steps: the runs that this push made, complete or not; runs: those that may still grow. Each run carries its member's
    constants; where the operator has more than one member, they are rows of `_constants`, which runs begin from.
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
        self.define = self._defined()
        self.rows = [self._row(1, self.node)]
        self._make_tables()

    def join(self, node: query.Match) -> int:
        """Takes in one more; its number."""
        member = max(self.operator.members, default=0) + 1
        self.operator.members = {**self.operator.members, member: node}
        self._write()
        return member

    def leave(self, member: int) -> None:
        self.operator.members = {other: node for other, node in self.operator.members.items() if other != member}
        if self.operator.members:
            self._write()

    @property
    def members(self) -> dict[int, query.Match]:
        return cast("dict[int, query.Match]", self.operator.members)

    def _write(self) -> None:
        """The steps and purges, for the members there are now."""
        self.rows = [self._row(member, node) for member, node in self.members.items()]
        self.within = max(node.within for node in self.members.values())
        old = exp.LTE(this=column("ts"), expression=ago(self.within))
        self.operator.purges = [self._purge_runs(), Purge(self.instants, old)]
        self.operator.steps = [
            Insert(self.symbols, self._symbols()),
            Insert(self.steps, self._grown()),
            Insert(self.runs, self._growing()),
            *self._newest_instants(),
        ]

    # The members' constants -------------------------------------------------------------------------------------------

    def _defined(self) -> tuple[query.Definition, ...]:
        """DEFINE with its constants as columns of `_k`."""
        names = iter(self._names)

        def with_columns(expression: exp.Expr) -> exp.Expr:
            result = expression.copy()
            for constant in list(constants(result)):
                constant.replace(of("_k", next(names)))
            return result

        return tuple(
            query.Definition(
                definition.symbol,
                None if definition.condition is None else with_columns(definition.condition),
                tuple((name, with_columns(value)) for name, value in definition.assignments),
            )
            for definition in self.node.define
        )

    @property
    def _names(self) -> list[str]:
        """The columns of the constants in DEFINE."""
        return [f"_k{place}" for place, _ in enumerate(_constants_of(self.node), 1)]

    def _row(self, member: int, node: query.Match) -> dict[str, exp.Expr]:
        """A member's row of constants."""
        values = [_typed(constant) for constant in _constants_of(node)]
        whole = {"_member": number(member), "_within": number(node.within)}
        own = {name: exp.cast(value, "BIGINT") for name, value in whole.items()}
        return own | dict(zip(self._names, values, strict=True))

    @property
    def _alone(self) -> bool:
        return len(self.rows) == 1

    def _constant(self, name: str, run: str | None) -> exp.Expr:
        """A constant of a run's member: the run has it from its beginning."""
        if run is not None:
            return of(run, name)
        return self.rows[0][name].copy() if self._alone else of("_k", name)

    # The symbol table and the instants --------------------------------------------------------------------------------

    def _make_tables(self) -> None:
        rows = self._arrivals()
        symbols = rows.select().select(named(rows.columns["ts"].copy(), "_before"))
        instants = exp.select(column("ts"), column("_before"), *map(column, self.keys)).from_(table(self.symbols))
        add_table(self.operator, self.symbols, symbols, (("_before",),))
        add_table(self.operator, self.instants, instants)
        move = exp.Subquery(this=exp.select(named(number(0), "_to"), named(number(0), "_symbol")))
        steps = self._step(None).from_(_called(self.symbols, "e")).join(move.as_("m", quoted=True), join_type="cross")
        runs = exp.select(*map(column, self._run_columns)).from_(exp.Subquery(this=steps).as_("q", quoted=True))
        add_table(self.operator, self.steps, runs)
        add_table(self.operator, self.runs, runs, (("ts",),))
        self.operator.inboxes += [self.symbols, self.steps]

    def _arrivals(self) -> Selection:
        keys = dict(zip(self.keys, self.node.partition_by, strict=True))
        names = ("ts", "seq", *self.order, *self.below.names)
        return self.below.arrivals.project({**{name: column(name) for name in names}, **keys})

    def _symbols(self) -> exp.Select:
        """Each arrival with `_before`: the instant (distinct ts, per key) before its own (P2)."""
        rows = self._arrivals()
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
        return (
            exp.select(*columns, named(exp.Coalesce(this=in_batch, expressions=[known]), "_before"))
            .from_(source)
            .join(last, on=exp.and_(*same_key) if same_key else exp.true(), join_type="left")
        )

    def _newest_instants(self) -> list[Insert | Purge]:
        """One row a key: its newest instant and the one before that, for events of the same ts still to come."""
        newest = exp.select(exp.Max(this=of("m", "ts"))).from_(_called(self.symbols, "m"))
        newest = newest.where(*(same(of("m", key), of("s", key)) for key in self.keys))
        select = exp.select(*(of("s", name) for name in ("ts", "_before", *self.keys))).distinct()
        select = select.from_(_called(self.symbols, "s"))
        select = select.where(exp.EQ(this=of("s", "ts"), expression=exp.Subquery(this=newest)))
        seen = exp.select(number(1)).from_(_called(self.symbols, "m"))
        seen = seen.where(*(same(of("m", key), exp.column(key, table=self.instants, quoted=True)) for key in self.keys))
        return [Purge(self.instants, exp.Exists(this=seen)), Insert(self.instants, select)]

    # The runs ---------------------------------------------------------------------------------------------------------

    @property
    def _run_columns(self) -> list[str]:
        return [
            *self.rows[0], "_first", "_first_seq", "ts", "seq", *self.order, "_state", "_path", "_letters", *self.keys,
            *self.variables,
        ]  # fmt: skip

    def _grown(self) -> exp.Select:
        """One recursive SELECT: runs begin at events, and grow by the events of the instant after their last."""
        names = [*self._run_columns, "_new"]
        alive = exp.select(*(of("r", name) for name in self._run_columns), named(number(0), "_new"))
        alive = alive.from_(_called(self.runs, "r"))
        first = exp.select(exp.Min(this=column("_before"))).from_(table(self.symbols))
        alive = alive.where(exp.GTE(this=of("r", "ts"), expression=exp.Subquery(this=first)))
        begin = exp.union(alive, self._beginning(), distinct=False)
        body = exp.union(exp.select(*map(column, names)).from_(table("_begin")), self._growth(), distinct=False)
        parts = {"_move": (["_from", "_symbol", "_to"], self._moves()), "_begin": (names, begin), "_run": (names, body)}
        if not self._alone:
            rows = [exp.Tuple(expressions=[value.copy() for value in row.values()]) for row in self.rows]
            parts = {"_constants": (list(self.rows[0]), exp.Values(expressions=rows)), **parts}
        select = exp.select(*map(column, self._run_columns)).from_(table("_run"))
        select = select.where(exp.EQ(this=column("_new"), expression=number(1)))
        for name, (columns, part) in parts.items():
            alias = exp.TableAlias(this=_id(name), columns=[_id(c) for c in columns])
            select = select.with_(alias, as_=part, recursive=True)
        return select

    def _beginning(self) -> exp.Select:
        """The runs that begin with an event, for each member."""
        begun = self._step(None).from_(_called(self.symbols, "e")).join(_as("_move", "m"), join_type="cross")
        if not self._alone:
            begun = begun.join(_as("_constants", "_k"), join_type="cross")
        return begun.where(exp.EQ(this=of("m", "_from"), expression=number(0)), self._holds(None))

    def _growth(self) -> exp.Select:
        """The runs that an event of the next instant extends."""
        following = [
            exp.EQ(this=of("e", "_before"), expression=of("r", "ts")),
            *(same(of("e", key), of("r", key)) for key in self.keys),
        ]
        grown = self._step("r").from_(_as("_run", "r")).join(_called(self.symbols, "e"), on=exp.and_(*following))
        grown = grown.join(_as("_move", "m"), on=exp.EQ(this=of("m", "_from"), expression=of("r", "_state")))
        age = exp.Sub(this=of("e", "ts"), expression=of("r", "_first"))
        return grown.where(exp.LT(this=age, expression=of("r", "_within")), self._holds("r"))

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
            *(named(self._constant(name, run), name) for name in self.rows[0]),
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
        for definition in self.define:
            for assigned, value in definition.assignments:
                if assigned == name:
                    cases = cases.when(self._is(definition.symbol), exp.cast(self._value(value, run), kind))
        return cases.else_(before) if cases.args.get("ifs") else before

    def _holds(self, run: str | None) -> exp.Expr:
        """Whether the move's symbol holds for the event and the run's variables; without a definition it does."""
        cases = exp.Case()
        for definition in self.define:
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
            if node.table:
                return self._constant(node.name, run)
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
        old = exp.LTE(this=column("_first"), expression=ago(self.within))
        mine = [same(of("i", key), exp.column(key, table=self.runs, quoted=True)) for key in self.keys]
        passed = exp.LT(this=exp.column("ts", table=self.runs, quoted=True), expression=of("i", "_before"))
        later = exp.select(number(1)).from_(_called(self.instants, "i")).where(passed, *mine)
        return Purge(self.runs, exp.or_(old, exp.Exists(this=later)))

    # The matches ------------------------------------------------------------------------------------------------------

    def result(self, node: query.Match, member: int) -> Flow:
        """P5, P6: a member's runs that this push brought to an accepting state, in the order of their events."""
        states = [number(state) for state in sorted(self.automaton.accepting)]
        order = (*self.order, "_path", "_letters")
        columns = {
            "ts": column("ts"),
            "seq": column("seq"),
            "_expires": exp.Add(this=column("_first"), expression=number(node.within)),
            **{name: column(name) for name in (*order, *self.variables)},
        }
        accepted = exp.In(this=column("_state"), expressions=states)
        own = exp.EQ(this=column("_member"), expression=number(member))
        rows = Selection(table(self.steps), columns, (accepted, own))
        return Flow(tuple(self.variables), rows, order=order, timed=self.below.timed)


def _id(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _as(name: str, alias: str) -> exp.Expr:
    return exp.alias_(table(name), alias, table=True, quoted=True)


_called = _as
