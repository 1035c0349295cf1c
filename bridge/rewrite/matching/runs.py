"""The runs of MATCHING in a push (P1–P5): one recursive SELECT for any number of events.

A run begins at an event, and is extended by events at the next timestamp. If the condition on the first event has no
constants, the event begins one run for all queries of a family, which the second event splits (common prefixes of
queries are evaluated once, as in YFilter: Diao et al., TODS 2003).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.matching.members import ALIAS, EVERY, FamilyMembers, Row
from bridge.rewrite.network import Network
from nfa.automaton import Automaton, Transition
from windows.sql import (
    aliased,
    aliased_table,
    column,
    column_of,
    concatenated,
    cte_name,
    derived_table,
    null_safe_equal,
    number,
    sortable_text,
    table,
)


@dataclasses.dataclass(frozen=True)
class RunStep:
    """How event `e` extends a run: the alias of the run (None: a run begins), the constants, and the transition.

    Without a transition, any row of `m` applies, the table of the automaton's transitions.
    """

    run: str | None
    constants: Row
    transition: Transition | None = None


@dataclasses.dataclass(frozen=True)
class RunStatement:
    """Writes the SELECT over the tables `symbols` (the events of this push) and `runs` (the runs that may be extended).

    `key` orders the events, `order` orders the events of one `seq`. `keys` are the columns of PARTITION BY.
    """

    node: query.Match
    automaton: Automaton
    members: FamilyMembers
    network: Network
    symbols: str
    runs: str
    key: Sequence[str]
    order: Sequence[str]
    keys: Sequence[str]

    @property
    def variables(self) -> list[str]:
        return [attribute.name for attribute in self.node.measures]

    @property
    def spells_first(self) -> bool:
        """Whether a run's `_path` begins with its first event.

        If `seq` alone orders events, `_first_seq` suffices. Most runs have no second event, and writing a text for each
        takes DuckDB as long as finding the runs.
        """
        return not self.network.database.prefers_bulk or tuple(self.key) != ("seq",)

    @property
    def columns(self) -> list[str]:
        """The columns of a run."""
        return [
            *self.members.names, "_first", "_first_seq", "ts", "seq", *self.order, "_state", "_path", "_symbols",
            *self.keys, *self.variables,
        ]  # fmt: skip

    def shape(self) -> exp.Select:
        """A run of one event, for the types of the columns."""
        move = derived_table(exp.select(aliased(number(0), "_to"), aliased(number(0), "_symbol")), "m")
        step = RunStep(None, self.members.constants())
        steps = self._stepped(step).from_(aliased_table(self.symbols, "e")).join(move, join_type="cross")
        return exp.select(*map(column, self.columns)).from_(derived_table(steps, "q"))

    def select(self) -> exp.Query:
        """The runs of this push that are complete or that a later event can extend."""
        names = [*self.columns, "_new"]
        body = exp.union(exp.select(*map(column, names)).from_(table("_begin")), self._extended(), distinct=False)
        parts = {"_move": (["_from", "_symbol", "_to"], self._moves())}
        if self._common:
            parts["_common"] = (names, exp.union(self._alive(common=True), *self._common_begun(), distinct=False))
        parts |= {"_begin": (names, self._begin()), "_run": (names, body)}
        parts_of_push = [self._new_runs("_run")]
        if self._common:
            parts_of_push.append(self._new_runs("_common"))
        select: exp.Query = exp.union(*parts_of_push, distinct=False) if len(parts_of_push) > 1 else parts_of_push[0]
        for name, (columns, part) in parts.items():
            select = select.with_(cte_name(name, columns), as_=part, recursive=True, copy=False)
        return select

    def _new_runs(self, runs: str) -> exp.Select:
        """The new rows of `runs`. Where bulk is preferred, without runs that can neither match nor be extended."""
        made = exp.select(*(column_of("r", name) for name in self.columns)).from_(aliased_table(runs, "r"))
        made = made.where(exp.EQ(this=column_of("r", "_new"), expression=number(1)))
        if not self.network.database.prefers_bulk:
            return made
        latest = exp.select(*map(column, self.keys), aliased(exp.Max(this=column("_before")), "_latest"))
        latest = latest.from_(table(self.symbols)).group_by(*map(column, self.keys))
        one_key = [null_safe_equal(column_of("l", key), column_of("r", key)) for key in self.keys]
        made = made.join(derived_table(latest, "l"), on=exp.and_(*one_key) if one_key else exp.true())
        complete = [number(state) for state in sorted(self.automaton.accepting)]
        since = exp.Coalesce(this=column_of("l", "_latest"), expressions=[column_of("r", "ts")])
        alive = exp.GTE(this=column_of("r", "ts"), expression=since)
        return made.where(exp.or_(exp.In(this=column_of("r", "_state"), expressions=complete), alive))

    # Runs that are common to all members ----------------------------------------------------------------------------

    @property
    def _common(self) -> list[Transition]:
        """The transitions by which a run begins for all members: no constant decides, and no match is complete."""
        return [
            (state, symbol, target)
            for state, symbol, target in self.automaton.transitions
            if state == 0 and target not in self.automaton.accepting and self._is_common(symbol)
        ]

    def _is_common(self, symbol: str) -> bool:
        return not self.members.is_single and not self.members.differ_in(symbol)

    def _common_begun(self) -> Iterator[exp.Select]:
        for transition in self._common:
            step = RunStep(None, self.members.of_none(), transition)
            yield self._stepped(step).from_(aliased_table(self.symbols, "e")).where(self._holds(step))

    def _split(self) -> Iterator[exp.Select]:
        """The runs, so far common to all members, that an event extends: one per member."""
        states = {target for _, _, target in self._common}
        for transition in self.automaton.transitions:
            if transition[0] in states:
                step = RunStep("r", self.members.of_table(ALIAS), transition)
                grown = self.members.joined(self._next(step, "_common"))
                yield grown.where(
                    column_of("r", "_state").eq(number(transition[0])), self._young(step), self._holds(step)
                )

    # Runs of one member -----------------------------------------------------------------------------------------------

    def _begin(self) -> exp.Query:
        """The runs with which the recursion begins."""
        parts = [self._alive(common=False)]
        own = [symbol for state, symbol, _ in self.automaton.transitions if state == 0]
        common = [symbol for _, symbol, _ in self._common]
        if len(common) < len(own):
            parts.append(self._begun(common))
        return exp.union(*parts, *self._split(), distinct=False)

    def _alive(self, common: bool) -> exp.Select:
        """The runs of earlier pushes that can still be extended."""
        alive = exp.select(*(column_of("r", name) for name in self.columns), aliased(number(0), "_new"))
        alive = alive.from_(aliased_table(self.runs, "r"))
        first = exp.select(exp.Min(this=column("_before"))).from_(table(self.symbols))
        alive = alive.where(exp.GTE(this=column_of("r", "ts"), expression=exp.Subquery(this=first)))
        if self._common:
            kind: type[exp.Binary] = exp.EQ if common else exp.NEQ
            alive = alive.where(kind(this=column_of("r", "_member"), expression=number(EVERY)))
        return alive

    def _begun(self, common: Sequence[str]) -> exp.Select:
        """The runs that begin at an event, per member; `common` are the symbols that begin a run for all."""
        step = RunStep(None, self.members.constants())
        begun = (
            self._stepped(step)
            .from_(aliased_table(self.symbols, "e"))
            .join(aliased_table("_move", "m"), join_type="cross")
        )
        begun = self.members.joined(begun).where(
            exp.EQ(this=column_of("m", "_from"), expression=number(0)), self._holds(step)
        )
        others = [number(self._number(symbol)) for symbol in common]
        return (
            begun.where(exp.Not(this=exp.In(this=column_of("m", "_symbol"), expressions=others))) if others else begun
        )

    def _extended(self) -> exp.Select:
        """The runs that an event at the next timestamp extends."""
        step = RunStep("r", self.members.of_table("r"))
        grown = self._next(step, "_run")
        grown = grown.join(
            aliased_table("_move", "m"), on=exp.EQ(this=column_of("m", "_from"), expression=column_of("r", "_state"))
        )
        return grown.where(self._young(step), self._holds(step))

    # A step -------------------------------------------------------------------------------------------------------------

    def _next(self, step: RunStep, runs: str) -> exp.Select:
        """Runs, each joined with the events of the timestamp after its last event."""
        following = [
            exp.EQ(this=column_of("e", "_before"), expression=column_of("r", "ts")),
            *(null_safe_equal(column_of("e", key), column_of("r", key)) for key in self.keys),
        ]
        return (
            self._stepped(step)
            .from_(aliased_table(runs, "r"))
            .join(aliased_table(self.symbols, "e"), on=exp.and_(*following))
        )

    def _young(self, step: RunStep) -> exp.Expr:
        """P4: the time WITHIN has not passed."""
        age = exp.Sub(this=column_of("e", "ts"), expression=column_of("r", "_first"))
        return exp.LT(this=age, expression=step.constants["_within"].copy())

    def _moves(self) -> exp.Expr:
        """The automaton's transitions; symbols by their number."""
        rows = [
            exp.Tuple(expressions=[number(state), number(self._number(symbol)), number(target)])
            for state, symbol, target in self.automaton.transitions
        ]
        return exp.Values(expressions=rows)

    def _stepped(self, step: RunStep) -> exp.Select:
        """The columns of a run after the event. A run that begins has no columns before it."""
        event = sortable_text(column_of("e", name) for name in self.key)
        symbol = column_of("m", "_symbol") if step.transition is None else number(self._number(step.transition[1]))
        letter: exp.Expr = exp.cast(exp.Add(this=symbol, expression=number(100)), "VARCHAR")
        run = step.run
        if run is None and not self.spells_first:
            event = exp.cast(exp.Literal.string(""), "VARCHAR")
        if run is not None:
            event, letter = (
                concatenated([column_of(run, "_path"), event]),
                concatenated([column_of(run, "_symbols"), letter]),
            )
        columns = [
            *(aliased(value.copy(), name) for name, value in step.constants.items()),
            aliased(column_of("e", "ts") if run is None else column_of(run, "_first"), "_first"),
            aliased(column_of("e", "seq") if run is None else column_of(run, "_first_seq"), "_first_seq"),
            *(column_of("e", name) for name in ("ts", "seq", *self.order)),
            aliased(column_of("m", "_to") if step.transition is None else number(step.transition[2]), "_state"),
            aliased(event, "_path"),
            aliased(letter, "_symbols"),
            *(column_of("e", key) for key in self.keys),
            *(aliased(self._variable(name, step), name) for name in self.variables),
            aliased(number(1), "_new"),
        ]
        return exp.select(*columns)

    def _variable(self, name: str, step: RunStep) -> exp.Expr:
        """P3: the value that the symbol assigns, or else the previous value; all assignments read previous values."""
        kind = exp.DataType.build(self._column_type(name), dialect=self._dialect)
        before: exp.Expr = exp.cast(exp.null(), kind) if step.run is None else column_of(step.run, name)
        assigned = {
            definition.symbol: exp.cast(self._value(value, step), kind)
            for definition in self.members.define
            for variable, value in definition.assignments
            if variable == name
        }
        return self._by_symbol(assigned, before, step)

    def _holds(self, step: RunStep) -> exp.Expr:
        """Whether the symbol's condition holds for the event and the run's variables; true for a symbol without one."""
        conditions = {
            definition.symbol: self._value(definition.condition, step)
            for definition in self.members.define
            if definition.condition is not None
        }
        return self._by_symbol(conditions, exp.true(), step)

    def _by_symbol(self, values: Mapping[str, exp.Expr], otherwise: exp.Expr, step: RunStep) -> exp.Expr:
        """The value that belongs to the step's symbol."""
        if step.transition is not None:
            return values.get(step.transition[1], otherwise)
        cases = exp.Case()
        for symbol, value in values.items():
            cases = cases.when(exp.EQ(this=column_of("m", "_symbol"), expression=number(self._number(symbol))), value)
        return cases.else_(otherwise) if values else otherwise

    def _number(self, symbol: str) -> int:
        return self.automaton.symbols.index(symbol) + 1

    def _value(self, expression: exp.Expr, step: RunStep) -> exp.Expr:
        """An expression over the event's attributes and the run's variables (unset ones are NULL)."""

        def own(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            if node.table:
                return step.constants[node.name].copy()
            if node.name not in self.variables:
                return column_of("e", node.name)
            if step.run is not None:
                return column_of(step.run, node.name)
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
