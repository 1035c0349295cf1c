"""EPL's pattern [ … ]: tables have its events and the checkpoint of its instances, and a machine runs over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from bridge import query
from bridge.check import temporal as events
from bridge.check.paths import column_of_path
from bridge.patterns.conditions import conjoined
from bridge.patterns.live.statements import Arrivals, TemporalTables
from bridge.patterns.values import MatchExpression, Place, Value
from bridge.query.epl_patterns import COUNT, EventColumns
from bridge.query.nodes import Node
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.patterns.tables import (
    ROW_ID,
    add_results,
    atoms_of,
    is_of_this_push,
    place_in_event,
    purge_released,
    row_id,
    row_values,
    shape_of_results,
)
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.state_tables import add_table
from bridge.rewrite.stored_state import StoredState, StoredTable
from nfa.temporal.tree import is_timed
from windows.nested import kind_of, object_of, with_type
from windows.sql import (
    add_join,
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    conjuncts,
    derived_table,
    number,
)
from windows.types import List

if TYPE_CHECKING:
    from bridge.patterns.live.temporal import EventInput

EVENTS = ("_source", "_index", *ROW_ID)
"""The columns of a checkpoint's events that instances hold: the input's number, the event's own number, its row id.

The line of source -1 has the newest event that the checkpoint knows.
"""

STATE = ("_n", "_kind", "_value")
"""The columns of a checkpoint's instances: nested lists, as lines of a number (0), a length (1) or an event (2)."""


@rewrite.register
def _(node: query.TemporalMatch, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        flows = {below: network.rewrite(below, Need.ARRIVALS) for below in node.inputs_of}
        _TemporalMatchPlan(node, flows, network, operator).build()

    title = f"TemporalMatch {str(node).removeprefix('SELECT * FROM PATTERN ')}"
    return network.give(network.operator(node, build, title), node, need)


@dataclasses.dataclass
class _TemporalMatchPlan:
    """The tables, statements and machine of one pattern."""

    node: query.TemporalMatch
    flows: dict[Node, Flow]
    network: Network
    operator: Operator

    def build(self) -> None:
        from bridge.patterns.live.temporal import TemporalMachine

        self.arrivals: list[Arrivals] = []
        self.retained: dict[str, StoredTable] = {}
        self.events, self.state, self.results = (self.network.name(k, self.node) for k in ("held", "state", "matches"))
        self.rests = tuple(self._rest(kind) for kind in range(len(self.node.events)))
        self.values = tuple(self._valued(value, None) for value in self.node.values)
        self.wholes = {event.number: self._whole(event) for event in self.node.event_columns if event.is_whole}
        inputs = tuple(self._add_input(place, below) for place, below in enumerate(self.flows))
        for name, columns, indexes in ((self.events, EVENTS, (("_source", "ts", "seq"),)), (self.state, STATE, ())):
            add_table(self.operator, name, exp.select(*(aliased(bigint_zero(), c) for c in columns)), indexes)
        self._add_results()
        quoted = self.network.database.quoted
        tables = TemporalTables(quoted(self.events), quoted(self.state))
        self.operator.steps.append(
            TemporalMachine(
                self.results,
                self.node,
                inputs,
                self.rests,
                self.values,
                tables,
                self.network.settings.checkpoint_rows,
                self.wholes,
                arrivals=tuple(self.arrivals),
            )
        )
        own = {"events": StoredTable.of(self.events, EVENTS), "state": StoredTable.of(self.state, STATE)}
        self.operator.stored = StoredState(dataclasses.replace(self.node, elements=()), self.retained | own)

    def _whole(self, event: EventColumns) -> exp.Expr:
        """The event as one object."""
        below = self.node.events[event.number].input
        types = self.network.types(below)
        return object_of((name, column(name), types[name]) for name in self.flows[below].names)

    def _no_event(self, event: EventColumns) -> exp.Expr:
        """NULL, with the type of the event or of the list of events."""
        whole = self.wholes[event.number]
        assert isinstance(whole, exp.Cast)
        kind = kind_of(whole)
        several = (event.number, event.prefix, True) in self.node.tags
        return with_type(exp.null(), str(List(kind)) if several else kind)

    # Conditions ---------------------------------------------------------------------------------------------------------

    def _split(self, place: int) -> tuple[exp.Expr | None, exp.Expr | None]:
        """The conjuncts of a condition that read only the event, and those that read earlier events."""
        condition = self.node.events[place].condition
        alone, rest = list[exp.Expr](), list[exp.Expr]()
        for part in conjuncts(condition) if condition is not None else []:
            names_others = any(self._other(found.name) for found in part.find_all(exp.Column))
            (rest if names_others else alone).append(part)
        return conjoined(alone), conjoined(rest)

    def _other(self, name: str) -> Value | None:
        """The value that a condition's column stands for, if it belongs to a tagged event; a count is of `COUNT(*)`."""
        found = events.tagged(self.node, lambda number: self.flows[self.node.events[number].input].names, name)
        if found is None:
            return None
        symbol = (str(found.number),)
        if found.which == COUNT:
            return Value(Place(symbol), exp.Count(this=exp.Star()))
        place = Place(symbol) if isinstance(found.which, str) else Place(symbol, first=True, offset=found.which)
        return Value(place, column(found.name))

    def _rest(self, place: int) -> MatchExpression | None:
        """The part of a condition on earlier events; values of the event itself have its number as their symbol."""
        _, rest = self._split(place)
        return None if rest is None else self._valued(rest, place)

    def _valued(self, expression: exp.Expr, place: int | None) -> MatchExpression:
        """An expression over the bound events; a column without a tag belongs to the event at `place`."""
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

        return MatchExpression(expression.transform(valued), tuple(atoms))

    # Tables -------------------------------------------------------------------------------------------------------------

    def _add_input(self, place: int, below: Node) -> EventInput:
        """An input of the machine; its events are retained as long as an instance holds them."""
        from bridge.patterns.live.temporal import EventInput

        flow = self.flows[below]
        kinds = [kind for kind, event in enumerate(self.node.events) if event.input == below]
        wholes = (whole for kind, whole in self.wholes.items() if kind in kinds)
        parts = tuple(dict.fromkeys((*_parts((*self.rests, *self.values), kinds), *wholes)))
        keys = self.node.events[kinds[0]].keys
        retained = self._add_events(place, flow, kinds, (*parts, *keys))
        newest, holder = (exp.EQ(this=column_of("s", "_source"), expression=number(source)) for source in (-1, place))
        self.operator.purges.append(purge_released(retained, self.events, newest, holder))
        render = self.network.database.render
        every = exp.select(exp.Star()).from_(aliased_table(retained, "r")).order_by(*row_id("r"))
        arrived = render(every.where(is_of_this_push(flow, "r")))
        return EventInput(arrived, render(every), flow.names, tuple(kinds), parts, len(keys))

    def _add_events(self, place: int, flow: Flow, kinds: Sequence[int], parts: Sequence[exp.Expr]) -> str:
        """The table of an input's events, with a bit for each kind of event that an event can be."""
        retained = self.network.name("retained", self.node)
        columns = [*map(column, flow.names), *(part.copy() for part in parts)]
        values = [aliased(value, f"_c{at}") for at, value in enumerate(columns)]
        symbol_set = aliased(self._symbol_set(kinds), "_letter")
        select = exp.select(column("ts"), column("seq"), place_in_event(flow), symbol_set, *values)
        select = select.from_(derived_table(flow.arrivals.select(), "a", copy=False), copy=False)
        add_table(self.operator, retained, select, (("ts", "seq"),))
        known = {name: name for name in (*ROW_ID, "_letter")} | {value: f"_c{at}" for at, value in enumerate(columns)}
        self.retained[f"input {place}"] = StoredTable(retained, known)
        self.operator.steps.append(Insert(retained, select))
        self.arrivals.append(Arrivals(retained, select))
        return retained

    def _symbol_set(self, kinds: Sequence[int]) -> exp.Expr:
        total = bigint_zero()
        for bit, kind in enumerate(kinds):
            alone, _ = self._split(kind)
            value = number(1 << bit)
            term = value if alone is None else exp.Case().when(alone, value).else_(number(0))
            total = exp.Add(this=total, expression=term)
        return total

    def _add_results(self) -> None:
        columns: dict[str, exp.Expr] = {}
        sources = []
        for at, event in enumerate(self.node.event_columns):
            alias, flow = f"e{at}", self.flows[self.node.events[event.number].input]
            sources.append(derived_table(flow.arrivals.select(), alias, copy=False))
            one = bigint_zero() if event.is_count else self._no_event(event) if event.is_whole else None
            columns |= (
                {f"{event.prefix}_{n}": column_of(alias, n) for n in flow.names} if one is None else {event.prefix: one}
            )
        shape = shape_of_results(columns)
        for place, source in enumerate(sources):
            shape = add_join(shape, "CROSS", source) if place else shape.from_(source, copy=False)
        add_results(self.operator, self.results, shape, timed=is_timed(self.node.pattern))


def _parts(values: Sequence[MatchExpression | None], kinds: Sequence[int]) -> tuple[exp.Expr, ...]:
    """The parts of columns that are read from events of these kinds."""
    atoms = [atom for atom in atoms_of(values) if isinstance(atom, Value)]
    own = [atom for atom in atoms if atom.place.symbols is not None and int(atom.place.symbols[0]) in kinds]
    return tuple(dict.fromkeys(row for row in row_values(own) if isinstance(row, (exp.Cast, exp.ArraySize))))
