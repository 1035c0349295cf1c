"""EPL's pattern [ … ]: the events as they were seen and what is under way are tables, the machine goes between."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from bridge import query
from bridge.check import temporal as events
from bridge.check.paths import column_of_path
from bridge.patterns.conditions import conjoined
from bridge.patterns.values import Place, Value, Valued
from bridge.query.epl_patterns import COUNT, EventColumns
from bridge.query.nodes import Node
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, add_table, rewrite
from bridge.rewrite.patterns.match_recognize import MOMENT, placed
from bridge.rewrite.plan import Insert, Operator, Purge
from nfa.temporal.tree import is_timed
from windows.nested import kind_of, object_of, with_type
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    conjuncts,
    derived_table,
    lexicographically_before,
    number,
    table,
)
from windows.types import List

NOTED = ("_source", "_index", *MOMENT)
"""The events that are held by what is under way, as last noted: the input's number, a number of its own, its moment.

The line of source -1 has the moment of the newest event noted.
"""

STATE = ("_n", "_kind", "_value")
"""What is under way, nested lists written one item a line: a number (0), a list of so many items (1), an event (2)."""


@rewrite.register
def _(node: query.TemporalMatch, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        flows = {below: network.rewrite(below, Need.ARRIVALS) for below in node.inputs_of}
        _Writing(node, flows, network, operator).build()

    title = f"TemporalMatch {str(node).removeprefix('SELECT * FROM PATTERN ')}"
    return network.give(network.operator(node, build, title), node, need)


@dataclasses.dataclass
class _Writing:
    """Writes the tables and statements of one pattern, and makes its machine."""

    node: query.TemporalMatch
    flows: dict[Node, Flow]
    network: Network
    operator: Operator

    def build(self) -> None:
        from bridge.patterns.live.temporal import Input, Live, Texts

        self.noted, self.state, self.found = (self.network.name(k, self.node) for k in ("noted", "state", "matches"))
        rests = tuple(self._rest(n) for n in range(len(self.node.events)))
        values = tuple(self._valued(value, None) for value in self.node.values)
        self.wholes = {told.number: self._whole(told) for told in self.node.event_columns if told.is_whole}
        inputs = []
        for place, (below, flow) in enumerate(self.flows.items()):
            numbers = [n for n, event in enumerate(self.node.events) if event.input == below]
            wholes = (whole for n, whole in self.wholes.items() if n in numbers)
            parts = tuple(dict.fromkeys((*_parts((*rests, *values), numbers), *wholes)))
            keys = self.node.events[numbers[0]].keys
            seen, arrived = self._keep(flow, numbers, (*parts, *keys))
            render = self.network.database.render
            every = exp.select(exp.Star()).from_(aliased_table(seen, "r")).order_by(*_moment("r"))
            new = render(every.where(exp.Exists(this=arrived)))
            inputs.append(Input(new, render(every), flow.names, tuple(numbers), parts, len(keys)))
            self._purge(place, seen)
        for name, columns, indexes in ((self.noted, NOTED, (("_source", "ts", "seq"),)), (self.state, STATE, ())):
            add_table(self.operator, name, exp.select(*(aliased(bigint_zero(), c) for c in columns)), indexes)
        self._make_found()
        quoted = self.network.database.quoted
        texts = Texts(quoted(self.noted), quoted(self.state), quoted(self.found))
        live = Live(self.node, tuple(inputs), rests, values, texts, self.found, self.wholes)
        self.operator.steps.append(live)

    def _whole(self, told: EventColumns) -> exp.Expr:
        """The event as an object."""
        below = self.node.events[told.number].input
        types = self.network.types(below)
        return object_of((name, column(name), types[name]) for name in self.flows[below].names)

    def _no_event(self, told: EventColumns) -> exp.Expr:
        """NULL, of the type of the event or of the list of them."""
        whole = self.wholes[told.number]
        assert isinstance(whole, exp.Cast)
        kind = kind_of(whole)
        several = (told.number, told.prefix, True) in self.node.tags
        return with_type(exp.null(), str(List(kind)) if several else kind)

    # Conditions ---------------------------------------------------------------------------------------------------------

    def _split(self, place: int) -> tuple[exp.Expr | None, exp.Expr | None]:
        """Of a condition what is about the event alone, and what names events before it."""
        condition = self.node.events[place].condition
        alone, rest = list[exp.Expr](), list[exp.Expr]()
        for part in conjuncts(condition) if condition is not None else []:
            names_others = any(self._other(found.name) for found in part.find_all(exp.Column))
            (rest if names_others else alone).append(part)
        return conjoined(alone), conjoined(rest)

    def _other(self, name: str) -> Value | None:
        """What a column of a condition is, if it is that of an event with a tag; a count is of `COUNT(*)`."""
        found = events.tagged(self.node, lambda number: self.flows[self.node.events[number].input].names, name)
        if found is None:
            return None
        symbol = (str(found.number),)
        if found.which == COUNT:
            return Value(Place(symbol), exp.Count(this=exp.Star()))
        place = Place(symbol) if isinstance(found.which, str) else Place(symbol, first=True, offset=found.which)
        return Value(place, column(found.name))

    def _rest(self, place: int) -> Valued | None:
        """What of a condition waits for events before; the symbol of a value's place is the event's number."""
        _, rest = self._split(place)
        return None if rest is None else self._valued(rest, place)

    def _valued(self, expression: exp.Expr, place: int | None) -> Valued:
        """An expression over the events bound; a column of no tag is that of the event at `place`."""
        atoms: dict[Value, str] = {}

        def valued(node: exp.Expr) -> exp.Expr:
            whole = node if isinstance(node, exp.Column) else column_of_path(node)
            if whole is None:
                return node
            atom = self._other(whole.name) or Value(Place((str(place),)), column(whole.name))
            if node is not whole:
                part = node.transform(lambda below: atom.row.copy() if isinstance(below, exp.Column) else below)
                atom = dataclasses.replace(atom, row=part)
            return column(atoms.setdefault(atom, f"_v{len(atoms)}"))

        return Valued(expression.transform(valued), tuple(atoms))

    # Tables -------------------------------------------------------------------------------------------------------------

    def _keep(self, flow: Flow, numbers: Sequence[int], parts: Sequence[exp.Expr]) -> tuple[str, exp.Expr]:
        """The table of an input's events, with a bit for each event they can be; and what finds those of this push."""
        seen = self.network.name("seen", self.node)
        letter = aliased(self._letter(numbers), "_letter")
        kept = [*map(column, flow.names), *(part.copy() for part in parts)]
        columns = [aliased(value, f"_c{at}") for at, value in enumerate(kept)]
        arrivals = exp.Subquery(this=flow.arrivals.select())
        select = exp.select(column("ts"), column("seq"), placed(flow), letter, *columns)
        select = select.from_(arrivals.as_("a", quoted=True))
        add_table(self.operator, seen, select, (("ts", "seq"),))
        self.operator.steps.append(Insert(seen, select))
        new = exp.select(number(1)).from_(arrivals.copy().as_("a", quoted=True))
        return seen, new.where(
            *(exp.EQ(this=column_of("a", name), expression=column_of("r", name)) for name in ("ts", "seq"))
        )

    def _letter(self, numbers: Sequence[int]) -> exp.Expr:
        total = bigint_zero()
        for bit, place in enumerate(numbers):
            alone, _ = self._split(place)
            value = number(1 << bit)
            term = value if alone is None else exp.Case().when(alone, value).else_(number(0))
            total = exp.Add(this=total, expression=term)
        return total

    def _purge(self, place: int, seen: str) -> None:
        """Events that have been noted and are not held."""
        noted = exp.select(number(1)).from_(aliased_table(self.noted, "s"))
        passed = lexicographically_before([(column_of(seen, name), column_of("s", name)) for name in MOMENT])
        upto = noted.where(exp.EQ(this=column_of("s", "_source"), expression=number(-1)), passed)
        same = (exp.EQ(this=column_of("s", name), expression=column_of(seen, name)) for name in MOMENT)
        held = noted.where(exp.EQ(this=column_of("s", "_source"), expression=number(place)), *same)
        gone = exp.and_(exp.Exists(this=upto), exp.Not(this=exp.Exists(this=held)))
        self.operator.purges.append(Purge(seen, gone))

    def _make_found(self) -> None:
        system = {name: bigint_zero() for name in ("ts", "seq", "_expires", "_place")}
        sources = exp.select(*(aliased(value, name) for name, value in system.items()))
        names: list[str] = []
        for at, told in enumerate(self.node.event_columns):
            alias, flow = f"e{at}", self.flows[self.node.events[told.number].input]
            arrivals = derived_table(flow.arrivals.select(), alias)
            sources = sources.join(arrivals, join_type="CROSS") if names else sources.from_(arrivals)
            one = bigint_zero() if told.is_count else self._no_event(told) if told.is_whole else None
            columns = (
                {f"{told.prefix}_{n}": column_of(alias, n) for n in flow.names} if one is None else {told.prefix: one}
            )
            sources = sources.select(*(aliased(value, name) for name, value in columns.items()))
            names += columns
        add_table(self.operator, self.found, sources)
        self.operator.inboxes.append(self.found)
        rows = Selection.of(table(self.found), [*system, *names])
        flow = Flow(tuple(names), rows, order=("_place",), timed=is_timed(self.node.pattern))
        self.operator.result = self.operator.arrivals = flow


def _parts(asked: Sequence[Valued | None], numbers: Sequence[int]) -> tuple[exp.Expr, ...]:
    """What is asked of these events that is no column of theirs, but a part of one."""
    atoms = [atom for valued in asked if valued is not None for atom in valued.atoms if isinstance(atom, Value)]
    own = [atom for atom in atoms if atom.place.symbols is not None and int(atom.place.symbols[0]) in numbers]
    return tuple(dict.fromkeys(atom.row for atom in own if isinstance(atom.row, (exp.Cast, exp.ArraySize))))


def _moment(alias: str) -> Sequence[exp.Expr]:
    return [column_of(alias, name) for name in MOMENT]
