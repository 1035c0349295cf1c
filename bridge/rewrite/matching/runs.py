"""The runs of MATCHING that a push makes (P1–P5): one recursive SELECT, at any number of events.

Runs begin at events, and grow by the events of the instant after their last. What a run's first event is, constants
mostly do not say: then it begins one run for all members of a family (the common prefixes of queries are found once, as
in YFilter: Diao et al., TODS 2003), which the second event takes apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.matching.members import ALIAS, EVERY, Members, Row
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
class Taking:
    """How event `e` becomes a run's last: the run it was (None: it begins), whose constants, and by which transition.

    Without a transition it is any row of `m`, the table of the automaton's.
    """

    run: str | None
    constants: Row
    transition: Transition | None = None


@dataclasses.dataclass(frozen=True)
class Growth:
    """Writes the SELECT over the tables of `symbols` (this push's events) and `runs` (those that may still grow).

    `key` orders the events, `order` tells apart those of one number; `keys` are those of PARTITION BY.
    """

    node: query.Match
    automaton: Automaton
    members: Members
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
        """Whether a run's `_path` begins with its first event. Where its number is all, `_first_seq` says it, too: most runs
        of many events stay without a second one, and a text for each takes DuckDB as long as finding that out.
        """
        return not self.network.database.prefers_bulk or tuple(self.key) != ("seq",)

    @property
    def columns(self) -> list[str]:
        """Those of a run."""
        return [
            *self.members.names, "_first", "_first_seq", "ts", "seq", *self.order, "_state", "_path", "_letters",
            *self.keys, *self.variables,
        ]  # fmt: skip

    def shape(self) -> exp.Select:
        """A run of one event, for the types of the columns."""
        move = derived_table(exp.select(aliased(number(0), "_to"), aliased(number(0), "_symbol")), "m")
        taking = Taking(None, self.members.own())
        steps = self._step(taking).from_(aliased_table(self.symbols, "e")).join(move, join_type="cross")
        return exp.select(*map(column, self.columns)).from_(derived_table(steps, "q"))

    def select(self) -> exp.Query:
        """The runs that this push made: those that are complete, and those that an event to come can extend."""
        names = [*self.columns, "_new"]
        body = exp.union(exp.select(*map(column, names)).from_(table("_begin")), self._growth(), distinct=False)
        parts = {"_move": (["_from", "_symbol", "_to"], self._moves())}
        if self._common:
            parts["_common"] = (names, exp.union(self._alive(common=True), *self._common_begun(), distinct=False))
        parts |= {"_begin": (names, self._begin()), "_run": (names, body)}
        made = [self._made("_run")]
        if self._common:
            made.append(self._made("_common"))
        select: exp.Query = exp.union(*made, distinct=False) if len(made) > 1 else made[0]
        for name, (columns, part) in parts.items():
            select = select.with_(cte_name(name, columns), as_=part, recursive=True, copy=False)
        return select

    def _made(self, runs: str) -> exp.Select:
        """What this push made of `runs`. Databases that take many events at once leave out what nothing comes of."""
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

    # Those that are the same for all members ----------------------------------------------------------------------------

    @property
    def _common(self) -> list[Transition]:
        """The transitions by which a run begins for all members: no constant is asked, and no match complete."""
        return [
            (state, symbol, target)
            for state, symbol, target in self.automaton.transitions
            if state == 0 and target not in self.automaton.accepting and self._is_common(symbol)
        ]

    def _is_common(self, symbol: str) -> bool:
        return not self.members.alone and not self.members.differ_in(symbol)

    def _common_begun(self) -> Iterator[exp.Select]:
        for transition in self._common:
            taking = Taking(None, self.members.of_none(), transition)
            yield self._step(taking).from_(aliased_table(self.symbols, "e")).where(self._holds(taking))

    def _apart(self) -> Iterator[exp.Select]:
        """The runs that an event extends which were the same for all members until now."""
        states = {target for _, _, target in self._common}
        for transition in self.automaton.transitions:
            if transition[0] in states:
                taking = Taking("r", self.members.of_table(ALIAS), transition)
                grown = self.members.joined(self._next(taking, "_common"))
                yield grown.where(
                    column_of("r", "_state").eq(number(transition[0])), self._young(taking), self._holds(taking)
                )

    # Those of each member -----------------------------------------------------------------------------------------------

    def _begin(self) -> exp.Query:
        """The runs that the recursion begins with."""
        parts = [self._alive(common=False)]
        own = [symbol for state, symbol, _ in self.automaton.transitions if state == 0]
        common = [symbol for _, symbol, _ in self._common]
        if len(common) < len(own):
            parts.append(self._begun(common))
        return exp.union(*parts, *self._apart(), distinct=False)

    def _alive(self, common: bool) -> exp.Select:
        """The runs of pushes before that can grow yet."""
        alive = exp.select(*(column_of("r", name) for name in self.columns), aliased(number(0), "_new"))
        alive = alive.from_(aliased_table(self.runs, "r"))
        first = exp.select(exp.Min(this=column("_before"))).from_(table(self.symbols))
        alive = alive.where(exp.GTE(this=column_of("r", "ts"), expression=exp.Subquery(this=first)))
        if self._common:
            kind: type[exp.Binary] = exp.EQ if common else exp.NEQ
            alive = alive.where(kind(this=column_of("r", "_member"), expression=number(EVERY)))
        return alive

    def _begun(self, common: Sequence[str]) -> exp.Select:
        """The runs that begin with an event, for each member; `common` are the symbols that begin one for all."""
        taking = Taking(None, self.members.own())
        begun = (
            self._step(taking)
            .from_(aliased_table(self.symbols, "e"))
            .join(aliased_table("_move", "m"), join_type="cross")
        )
        begun = self.members.joined(begun).where(
            exp.EQ(this=column_of("m", "_from"), expression=number(0)), self._holds(taking)
        )
        others = [number(self._number(symbol)) for symbol in common]
        return (
            begun.where(exp.Not(this=exp.In(this=column_of("m", "_symbol"), expressions=others))) if others else begun
        )

    def _growth(self) -> exp.Select:
        """The runs that an event of the next instant extends."""
        taking = Taking("r", self.members.of_table("r"))
        grown = self._next(taking, "_run")
        grown = grown.join(
            aliased_table("_move", "m"), on=exp.EQ(this=column_of("m", "_from"), expression=column_of("r", "_state"))
        )
        return grown.where(self._young(taking), self._holds(taking))

    # A step -------------------------------------------------------------------------------------------------------------

    def _next(self, taking: Taking, runs: str) -> exp.Select:
        """Runs with the events of the instant after their last."""
        following = [
            exp.EQ(this=column_of("e", "_before"), expression=column_of("r", "ts")),
            *(null_safe_equal(column_of("e", key), column_of("r", key)) for key in self.keys),
        ]
        return (
            self._step(taking)
            .from_(aliased_table(runs, "r"))
            .join(aliased_table(self.symbols, "e"), on=exp.and_(*following))
        )

    def _young(self, taking: Taking) -> exp.Expr:
        """P4: WITHIN is not over."""
        age = exp.Sub(this=column_of("e", "ts"), expression=column_of("r", "_first"))
        return exp.LT(this=age, expression=taking.constants["_within"].copy())

    def _moves(self) -> exp.Expr:
        """The automaton's transitions; symbols by their number."""
        rows = [
            exp.Tuple(expressions=[number(state), number(self._number(symbol)), number(target)])
            for state, symbol, target in self.automaton.transitions
        ]
        return exp.Values(expressions=rows)

    def _step(self, taking: Taking) -> exp.Select:
        """The columns of a run after it took the event; a run that begins has none before."""
        event = sortable_text(column_of("e", name) for name in self.key)
        symbol = column_of("m", "_symbol") if taking.transition is None else number(self._number(taking.transition[1]))
        letter: exp.Expr = exp.cast(exp.Add(this=symbol, expression=number(100)), "VARCHAR")
        run = taking.run
        if run is None and not self.spells_first:
            event = exp.cast(exp.Literal.string(""), "VARCHAR")
        if run is not None:
            event, letter = (
                concatenated([column_of(run, "_path"), event]),
                concatenated([column_of(run, "_letters"), letter]),
            )
        columns = [
            *(aliased(value.copy(), name) for name, value in taking.constants.items()),
            aliased(column_of("e", "ts") if run is None else column_of(run, "_first"), "_first"),
            aliased(column_of("e", "seq") if run is None else column_of(run, "_first_seq"), "_first_seq"),
            *(column_of("e", name) for name in ("ts", "seq", *self.order)),
            aliased(column_of("m", "_to") if taking.transition is None else number(taking.transition[2]), "_state"),
            aliased(event, "_path"),
            aliased(letter, "_letters"),
            *(column_of("e", key) for key in self.keys),
            *(aliased(self._variable(name, taking), name) for name in self.variables),
            aliased(number(1), "_new"),
        ]
        return exp.select(*columns)

    def _variable(self, name: str, taking: Taking) -> exp.Expr:
        """P3: the value that the taken symbol assigns, else the one before; all assignments see the values before."""
        kind = exp.DataType.build(self._column_type(name), dialect=self._dialect)
        before: exp.Expr = exp.cast(exp.null(), kind) if taking.run is None else column_of(taking.run, name)
        assigned = {
            definition.symbol: exp.cast(self._value(value, taking), kind)
            for definition in self.members.define
            for variable, value in definition.assignments
            if variable == name
        }
        return self._by_symbol(assigned, before, taking)

    def _holds(self, taking: Taking) -> exp.Expr:
        """Whether the symbol holds for the event and the run's variables; without a definition it does."""
        conditions = {
            definition.symbol: self._value(definition.condition, taking)
            for definition in self.members.define
            if definition.condition is not None
        }
        return self._by_symbol(conditions, exp.true(), taking)

    def _by_symbol(self, values: Mapping[str, exp.Expr], otherwise: exp.Expr, taking: Taking) -> exp.Expr:
        """The value of the symbol that is taken."""
        if taking.transition is not None:
            return values.get(taking.transition[1], otherwise)
        cases = exp.Case()
        for symbol, value in values.items():
            cases = cases.when(exp.EQ(this=column_of("m", "_symbol"), expression=number(self._number(symbol))), value)
        return cases.else_(otherwise) if values else otherwise

    def _number(self, symbol: str) -> int:
        return self.automaton.symbols.index(symbol) + 1

    def _value(self, expression: exp.Expr, taking: Taking) -> exp.Expr:
        """An expression over the event's attributes and the run's variables (unset ones are NULL)."""

        def own(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            if node.table:
                return taking.constants[node.name].copy()
            if node.name not in self.variables:
                return column_of("e", node.name)
            if taking.run is not None:
                return column_of(taking.run, node.name)
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
