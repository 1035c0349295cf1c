"""MATCHING of a pattern that is one word of symbols, such as `x y u` (P1–P7).

A match takes one event at each of so many consecutive timestamps as the word has symbols. Usually a timestamp has one
event; then a match consists of an event and the events just before it, which the database has at hand as it reads the
events in order (LAG). If several events share a timestamp, or some came with earlier pushes, the events of each
timestamp are joined with those of the previous one. Variables are replaced by the expressions that they stand for, so
the state contains only events.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from bridge import query
from bridge.check.types import UNKNOWN, family, type_of
from bridge.rewrite.flow import PLAIN, Flow
from bridge.rewrite.matching.members import FamilyMembers, QueryFamily, expressions, instant_before
from bridge.rewrite.plan import Insert, Purge
from bridge.rewrite.state_tables import add_table, ago
from bridge.rewrite.stateless import as_inserted
from bridge.rewrite.variants import StatementWriter, Variants
from nfa.automaton import Automaton
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    cast_to,
    column,
    column_of,
    conjuncts,
    derived_table,
    identifier,
    null_safe_equal,
    number,
    over,
    running_frame,
    sortable_text,
    table,
)

LONGEST = 8
"""The greatest number of symbols in such a pattern, whose statement joins a table per symbol."""

LARGEST = 400
"""The greatest number of nodes in its conditions, after variables are replaced by their expressions."""

At = Callable[[int, str], exp.Expr]
"""Gives a column of the event at a place of the pattern, from 1."""


def word_of(automaton: Automaton) -> tuple[str, ...] | None:
    """The symbols of the only word that an automaton accepts; None if it accepts others, or a too long word."""
    following = {state: (symbol, target) for state, symbol, target in automaton.transitions}
    if not 1 < len(automaton.transitions) == len(following) <= LONGEST:
        return None
    word: list[str] = []
    state = 0
    while state in following and len(word) < len(following):
        symbol, state = following[state]
        word.append(symbol)
    return tuple(word) if automaton.accepting == {state} and state not in following else None


def suits(node: query.Match, word: Sequence[str], bulk: bool) -> bool:
    """Whether joins are fast for the pattern, although each timestamp may have many events.

    From the last event back, each is joined with all events of the previous timestamp. A database that takes many
    events at once (`bulk`) chooses another order if that serves conditions better, so one place may be without a
    condition.
    """
    return _is_short(node, word) and ((bulk and _is_plain(node)) or len(_without_condition(node, word)) <= bulk)


def _without_condition(node: query.Match, word: Sequence[str]) -> set[int]:
    """The places between first and last without a condition on only the event there and later ones."""
    unasked = set(range(2, len(word)))
    if not _is_plain(node):
        return unasked
    defined = {definition.symbol: definition for definition in node.define}
    variables: Mapping[str, set[int]] = {attribute.name: set() for attribute in node.measures}
    for place, symbol in enumerate(word, 1):
        if definition := defined.get(symbol):
            for part in () if definition.condition is None else conjuncts(definition.condition):
                unasked.discard(min(_places(part, place, variables), default=0))
            given = {name: _places(value, place, variables) for name, value in definition.assignments}
            variables = {**variables, **given}
    return unasked


def _places(expression: exp.Expr, place: int, variables: Mapping[str, set[int]]) -> set[int]:
    """The places of the events that an expression at a place reads, directly or through variables."""
    return set().union(*(variables.get(found.name, {place}) for found in expression.find_all(exp.Column)))


def _is_short(node: query.Match, word: Sequence[str]) -> bool:
    """Whether the conditions are small enough after variables are replaced by their expressions."""
    sizes = {attribute.name: 1 for attribute in node.measures}
    defined = {definition.symbol: definition for definition in node.define}
    whole = 0
    for symbol in word:
        if definition := defined.get(symbol):
            whole += 0 if definition.condition is None else _size(definition.condition, sizes)
            sizes |= {name: _size(value, sizes) + 1 for name, value in definition.assignments}
    return whole + sum(sizes.values()) <= LARGEST


def _size(expression: exp.Expr, sizes: Mapping[str, int]) -> int:
    return sum(sizes.get(node.name, 1) if isinstance(node, exp.Column) else 1 for node in expression.walk())


@dataclasses.dataclass
class SequenceFamily(QueryFamily):
    """Writes the tables and steps of a family of such patterns, which differ in WITHIN and in constants of DEFINE.

    matches: the matches of this push and (without `_member`) its events of the last timestamps; events: for each key,
    the events of the last timestamps, as many as the pattern has symbols, each with the previous timestamp.
    """

    word: tuple[str, ...]

    def __post_init__(self) -> None:
        make = self.network.name
        self.matches, self.events = make("matches", self.node), make("events", self.node)
        self.moment = ["ts", "seq", *self.below.order]
        self.values = {name: f"_e{place}" for place, name in enumerate(self.read)}
        self.columns = [*self.moment, *self.keys, *self.values.values()]
        self.is_plain = _is_plain(self.node)
        shape = exp.select(*map(column, self.columns), aliased(bigint_zero(), "_before")).from_(
            derived_table(self._arrivals(), "a")
        )
        add_table(self.operator, self.events, shape, ((*self.keys, "ts"),))
        own = FamilyMembers.of({1: self.node})
        add_table(self.operator, self.matches, self._by_place(own, derived_table(self._rows(), "r")))
        self.operator.inboxes.append(self.matches)

    def result(self, node: query.Match, member: int) -> Flow:
        return self.matches_of(node, member, self.matches, (*self.below.order, "_path"))

    def write(self, members: Mapping[int, query.Match]) -> None:
        old = exp.LTE(this=column("ts"), expression=ago(max(node.within for node in members.values())))
        place = _from_the_last(map(column, self.keys), column("ts"))
        passed = Purge.beyond(self.events, self.below.key, place, len(self.word))
        kept = exp.select(*map(column, self.columns), column("_before")).from_(table(self.matches))
        kept = kept.where(exp.Is(this=column("_member"), expression=exp.null()))
        self.operator.purges = [Purge(self.events, exp.or_(old, passed.condition))]
        found: Variants[StatementWriter[exp.Expr]] = Variants(
            StatementWriter(lambda: self._select(members), "the events in order, joined where several share an instant")
        )
        seen: Variants[StatementWriter[exp.Expr]] = Variants(StatementWriter(kept.copy, "those of the last instants"))
        if not self.below.timed:  # otherwise an event may bring results of several timestamps
            found = dataclasses.replace(
                found, one=StatementWriter(lambda: self._select_alone(members), "joins with the instants before it")
            )
            seen = dataclasses.replace(seen, one=StatementWriter(self._newest, "that event"))
        self.operator.steps = [Insert(self.matches, found), Insert(self.events, seen)]

    # The events, and their neighbours -------------------------------------------------------------------------------------

    def _arrivals(self) -> exp.Select:
        moment = {name: column(name) for name in self.moment}
        keys = dict(zip(self.keys, self.node.partition_by, strict=True))
        values = {mine: column(name) for name, mine in self.values.items()}
        return self.below.arrivals.project({**moment, **keys, **values}).select()

    def _rows(self) -> exp.Select:
        """This push's events, with values of the events before them in its order: `_e0_2` is two events before.

        `_alone`: at its timestamp no other event comes before it, nor before the earlier events that a match takes, all
        of which are in this push. `_next`: the same for the event that many places after it.
        """
        count = len(self.word)
        mine = [column(name) for name in self.columns]
        backs = [("ts", back) for back in range(1, count + 1)]
        backs += [(name, back) for name in self.values.values() for back in range(1, count)]
        before = [aliased(self._in_order(_lag(name, back)), f"{name}_{back}") for name, back in backs]
        rows = exp.select(*mine, *before).from_(derived_table(self._arrivals(), "a"))
        times = [column("ts"), *(column(f"ts_{back}") for back in range(1, count + 1))]
        rising = exp.and_(*(exp.GT(this=time, expression=last) for time, last in itertools.pairwise(times)))
        alone = exp.Coalesce(this=rising, expressions=[exp.false()])
        names = [column(f"{name}_{back}") for name, back in backs]
        rows = exp.select(*mine, *names, aliased(alone, "_alone")).from_(derived_table(rows, "b"))
        after = self._in_order(exp.Lead(this=column("_alone"), offset=number(count)))
        return exp.select(*mine, *names, column("_alone"), aliased(after, "_next")).from_(derived_table(rows, "c"))

    def _near(self) -> exp.Select:
        """The events that are not alone, or that matches with such events may take, with the previous timestamp.

        They include all events of each key's first timestamp and of its last ones.
        """
        new = exp.Case().when(
            exp.LT(this=column_of("r", "ts_1"), expression=column_of("r", "ts")), column_of("r", "ts_1")
        )
        keys = [column_of("r", key) for key in self.keys]
        mine = over(exp.Max(this=new), keys, [column_of("r", name) for name in self.below.key], running_frame())
        before = instant_before(mine, "r", "l")
        is_last = exp.LTE(this=_from_the_last(keys, column_of("r", "ts")), expression=number(len(self.word)))
        names = [column_of("r", name) for name in (*self.columns, "_alone")]
        rows = exp.select(*names, aliased(before, "_before"), aliased(is_last, "_kept")).from_(
            aliased_table("_row", "r")
        )
        newest = [aliased(exp.Max(this=column(name)), name) for name in ("ts", "_before")]
        latest = (
            exp.select(*map(column, self.keys), *newest).from_(table(self.events)).group_by(*map(column, self.keys))
        )
        rows = rows.join(derived_table(latest, "l"), on=self._one_key("l", "r"), join_type="left")
        apart = exp.and_(
            column_of("r", "_alone"), exp.Coalesce(this=column_of("r", "_next"), expressions=[exp.false()])
        )
        return rows.where(exp.Not(this=exp.paren(apart)))

    def _all(self) -> exp.Query:
        """The same events, and those of earlier pushes."""
        names = [*map(column, self.columns), column("_before")]
        older = exp.select(*names).from_(table(self.events))
        return exp.union(exp.select(*names).from_(table("_near")), older, distinct=False)

    def _in_order(self, function: exp.Expr) -> exp.Window:
        """A window function over the events of a key; one stream's events are stored in order and need no sort."""
        if not self.keys and as_inserted(self.node.input, self.network):
            return exp.Window(this=function)
        return over(function, map(column, self.keys), map(column, self.below.key))

    def _one_key(self, left: str, right: str, *others: exp.Expr) -> exp.Expr:
        """Whether two rows have the same key, and other conditions hold."""
        conditions = [*others, *(null_safe_equal(column_of(left, key), column_of(right, key)) for key in self.keys)]
        return exp.and_(*conditions) if conditions else exp.true()

    # The matches ----------------------------------------------------------------------------------------------------------

    def _select(self, nodes: Mapping[int, query.Match]) -> exp.Query:
        members = self._members_of(nodes)
        others = exp.Not(this=column_of(f"e{len(self.word)}", "_alone"))
        by_place = self._by_place(members, aliased_table("_row", "r"))
        by_instant = self._by_instant(members, table("_near"), table("_all"), others)
        select = exp.union(by_place, by_instant, self._last_instants(), distinct=False)
        parts = {"_row": self._rows(), "_near": self._near(), "_all": self._all()}
        for name, part in parts.items():
            select = select.with_(identifier(name), as_=part, materialized=True, copy=False)
        return select

    def _select_alone(self, nodes: Mapping[int, query.Match]) -> exp.Query:
        """The matches of a push with events of one timestamp: all earlier events came with earlier pushes."""
        return self._by_instant(self._members_of(nodes), exp.Subquery(this=self._newest()), table(self.events))

    def _members_of(self, nodes: Mapping[int, query.Match]) -> FamilyMembers:
        return FamilyMembers.of(nodes, self.operator.constants if len(nodes) > 1 else "")

    def _newest(self) -> exp.Select:
        """This push's events, all of one timestamp, each with the previous timestamp."""
        before = exp.select(exp.Max(this=column_of("l", "ts"))).from_(aliased_table(self.events, "l"))
        before = before.where(
            self._one_key("l", "r", exp.LT(this=column_of("l", "ts"), expression=column_of("r", "ts")))
        )
        names = [column_of("r", name) for name in self.columns]
        return exp.select(*names, aliased(exp.Subquery(this=before), "_before")).from_(
            derived_table(self._arrivals(), "r")
        )

    def _by_place(self, members: FamilyMembers, rows: exp.Expr) -> exp.Select:
        """The matches of events that are alone at their timestamps and all in this push."""

        def at(place: int, name: str) -> exp.Expr:
            back = len(self.word) - place
            return column_of("r", f"{name}_{back}" if back else name)

        path = cast_to(exp.Literal.string(""), "VARCHAR")
        return self._matches(exp.select().from_(rows), members, at, path, column_of("r", "_alone"))

    def _by_instant(self, members: FamilyMembers, new: exp.Expr, known: exp.Expr, *conditions: exp.Expr) -> exp.Select:
        """The matches that end with a `new` event, joined with the `known` events of the timestamps before it."""

        def at(place: int, name: str) -> exp.Expr:
            return column_of(f"e{place}", name)

        final = len(self.word)
        rows = exp.select().from_(exp.alias_(new, f"e{final}", table=True, quoted=True))
        for place in range(final - 1, 0, -1):
            mine, its = f"e{place}", f"e{place + 1}"
            on = self._one_key(mine, its, column_of(mine, "ts").eq(column_of(its, "_before")))
            rows = rows.join(exp.alias_(known, mine, table=True, quoted=True), on=on)
        path = sortable_text(at(place, name) for place in range(1, final + 1) for name in self.below.key)
        return self._matches(rows, members, at, path, *conditions)

    def _matches(
        self, rows: exp.Select, members: FamilyMembers, at: At, path: exp.Expr, *conditions: exp.Expr
    ) -> exp.Select:
        constants = members.constants()
        held, variables = self._read(members, at)
        final = len(self.word)
        age = exp.paren(exp.Sub(this=at(final, "ts"), expression=at(1, "ts")))
        young = exp.LT(this=age, expression=constants["_within"].copy())
        rows = members.joined(rows).select(
            aliased(constants["_member"].copy(), "_member"),
            aliased(at(1, "ts"), "_first"),
            *(at(final, name) for name in self.columns),
            aliased(cast_to(exp.null(), "BIGINT"), "_before"),
            aliased(path, "_path"),
            *(aliased(value, name) for name, value in variables.items()),
        )
        conditions = (*conditions, young, *held)
        return rows.where(*conditions) if self.is_plain else rows.where(_one_after_the_other(conditions))

    def _read(self, members: FamilyMembers, at: At) -> tuple[list[exp.Expr], dict[str, exp.Expr]]:
        """P3: the symbols' conditions, and the final values of variables, as expressions over the events."""
        constants = members.constants()
        kinds = {a.name: self.network.database.column_type(a) for a in self.node.measures}
        dialect = self.network.database.dialect
        types = {name: exp.DataType.build(kind, dialect=dialect) for name, kind in kinds.items()}
        variables: dict[str, exp.Expr] = {name: exp.cast(exp.null(), types[name]) for name in self.variables}
        conditions = []

        def read(expression: exp.Expr, place: int) -> exp.Expr:
            def meant(node: exp.Expr) -> exp.Expr:
                if not isinstance(node, exp.Column):
                    return node
                if node.table:
                    return constants[node.name].copy()
                of_event = {"ts": "ts", **self.values}
                return variables[node.name].copy() if node.name in variables else at(place, of_event[node.name])

            return expression.transform(meant)

        defined = {definition.symbol: definition for definition in members.define}
        for place, symbol in enumerate(self.word, 1):
            if definition := defined.get(symbol):
                if definition.condition not in (None, exp.true()):
                    conditions.append(read(definition.condition, place))
                # All assignments read the previous values.
                given = {name: exp.cast(read(value, place), types[name]) for name, value in definition.assignments}
                variables = {**variables, **given}
        return conditions, variables

    def _last_instants(self) -> exp.Select:
        """The events of this push that later matches can begin with."""
        nothing = [aliased(exp.null(), name) for name in ("_member", "_first")]
        rows = exp.select(*nothing, *map(column, [*self.columns, "_before"]))
        rows = rows.select(*(aliased(exp.null(), name) for name in ("_path", *self.variables)))
        return rows.from_(table("_near")).where(column("_kept"))


def _from_the_last(keys: Iterable[exp.Expr], ts: exp.Expr) -> exp.Expr:
    """The place of a row's timestamp among those of its key, counted from the newest."""
    place = over(exp.DenseRank(), keys, [])
    place.set("order", exp.Order(expressions=[exp.Ordered(this=ts, desc=True)]))
    return place


def _lag(name: str, places: int) -> exp.Expr:
    return exp.Lag(this=column(name), offset=number(places))


def _is_plain(node: query.Match) -> bool:
    """Whether no condition can fail, so that their order does not matter; then DuckDB joins by them."""
    plain = all(isinstance(found, PLAIN) for expression in expressions(node.define) for found in expression.walk())
    kinds = {attribute.name: attribute.type for attribute in node.measures}
    assigned = [assignment for definition in node.define for assignment in definition.assignments]
    return plain and all(_fits(type_of(value, _type), kinds[name]) for name, value in assigned)


def _fits(given: str, kind: str) -> bool:
    """Whether every value of one type is also a value of the other."""
    return given == kind or (kind == "DOUBLE" and family(given) == "number")


def _type(found: exp.Column) -> str:
    return str(found.meta_get("type", UNKNOWN))


def _one_after_the_other(conditions: Sequence[exp.Expr]) -> exp.Expr:
    """Whether all conditions hold; a condition is evaluated only if all earlier ones hold."""
    *others, result = conditions
    for condition in reversed(others):
        result = exp.Case().when(condition, result).else_(exp.false())
    return result
