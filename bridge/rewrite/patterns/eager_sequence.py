"""EPL's match_recognize with one row per variable, such as `pattern (x y u)`: a filter over a row and its predecessors.

A row ends a match if the conditions hold for it and the rows just before it, so no machine with open matches is needed.
All matches that end at a row begin at the same row, so a row reports at most one match (M1, M5). Only AFTER MATCH SKIP
PAST LAST ROW depends on earlier reported matches (M7).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from sqlglot import exp

from bridge import query
from bridge.query.row_pattern import NAVIGATION, OF_THE_MATCH, SEMANTICS
from bridge.rewrite.computable import DisjointRows
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.rows.previous import Before, with_rows_before
from bridge.rewrite.state_tables import add_table, all_but_newest
from bridge.rewrite.stored_state import StoredState, StoredTable
from bridge.rewrite.variants import StatementWriter, Variants
from nfa.pattern import Concatenation, Symbol
from nfa.skip import After
from windows.nested import is_list, is_object
from windows.sql import aliased_table, bigint_never, column, column_of, number, table

LONGEST = 16
"""The greatest number of variables in such a pattern; each needs one more window function."""

_EXISTS = number(1)
"""A constant whose value in an earlier row is NULL if there is no such row."""


def is_sequence(node: query.EagerMatch, is_aggregate: Callable[[str], bool]) -> bool:
    """Whether each variable of the pattern has one row, and the clause reads only values of such rows.

    Clauses over a window or with an interval need the machine.
    """
    if isinstance(node.input, (query.Window, query.WindowWithDeletions)) or node.interval is not None:
        return False
    places = _places(node)
    return 0 < len(places) <= LONGEST and not any(
        _needs_machine(part, is_aggregate) for expression in _expressions(node) for part in expression.walk()
    )


def _places(node: query.EagerMatch) -> Mapping[str, int]:
    """The place of each variable, from 0; empty if a variable stands for no row or several rows."""
    pattern = node.pattern.pattern
    parts = pattern.parts if isinstance(pattern, Concatenation) else (pattern,)
    places = {part.name: place for place, part in enumerate(parts) if isinstance(part, Symbol)}
    return places if len(places) == len(parts) else {}


def _expressions(node: query.EagerMatch) -> Iterator[exp.Expr]:
    yield from (condition for _, condition in node.pattern.define)
    yield from (measure.this for measure in node.pattern.measures)


def _needs_machine(part: exp.Expr, is_aggregate: Callable[[str], bool]) -> bool:
    if isinstance(part, exp.Anonymous):
        navigates = part.name in (*NAVIGATION, *OF_THE_MATCH, *SEMANTICS) and part.name != "PREV"
        return navigates or is_aggregate(part.name)
    return isinstance(part, (exp.AggFunc, exp.Star)) or (
        isinstance(part, exp.Cast) and (is_list(part) or is_object(part))
    )


@dataclasses.dataclass
class EagerSequence:
    """Writes the statements that report the matches of one clause."""

    node: query.EagerMatch
    network: Network

    def __post_init__(self) -> None:
        self.places = _places(self.node)
        self.final = max(self.places.values())
        self.values: dict[tuple[exp.Expr, int], str] = {}
        """The columns with values of earlier rows, by the value and its distance in rows from the match's last row."""
        self.own: set[str] = set()
        """The columns that are read from the last row of the match."""
        pattern = self.node.pattern
        self.conditions: list[exp.Expr] = [
            exp.paren(self._read(condition, self.places[symbol])) for symbol, condition in pattern.define
        ]
        if self.final:
            self.conditions.append(exp.Not(this=exp.Is(this=self._at(_EXISTS, 0), expression=exp.null())))
        self.measures = {measure.alias: self._read(measure.this, self.final) for measure in pattern.measures}
        self.first = self._at(column("seq"), 0) if self.skips else None

    @property
    def skips(self) -> bool:
        """Whether a match must start after the last reported one."""
        return self.node.after is After.PAST_LAST_ROW and self.final > 0

    def flow(self, need: Need) -> Flow:
        if self.skips or need is Need.CONTENT:
            node = self.node
            operator = self.network.operator(node, self._build, f"EagerMatch {node.pattern.pattern}")
            return self.network.give(operator, node, need)
        return self._reported(self._matches())

    # The rows -------------------------------------------------------------------------------------------------------------

    def _matches(self) -> Flow:
        """The last row of each match, including overlapping matches, with the values that the clause reads."""
        source, keys = self.node.input, self.node.pattern.partition_by
        if not self.values:
            below = self.network.rewrite(source, Need.ARRIVALS)
        else:
            values = {name: Before(value, count) for (value, count), name in self.values.items()}
            shown = frozenset((*self.own, *(key.name for key in keys)))

            def build(operator: Operator) -> None:
                rows = self.network.rewrite(source, Need.ARRIVALS)
                names = [name for name in rows.names if name in shown]
                operator.result = with_rows_before(operator, source, self.network, rows, names, keys, values)

            key = ("rows before", source, keys, shown, tuple(values.items()))
            operator = self.network.operator(source, build, "Rows before", key=key)
            below = self.network.give(operator, source, Need.RESULT)
        return below.where(exp.and_(*self.conditions)) if self.conditions else below

    def _reported(self, matches: Flow) -> Flow:
        return matches.change(tuple(self.measures), {"_expires": bigint_never(), **self.measures})

    def _read(self, expression: exp.Expr, here: int) -> exp.Expr:
        """A condition on the row at the place `here`, or a measure, rewritten over the columns that it reads."""

        def at_its_row(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Anonymous) and part.name == "PREV":
                of_row, back = part.expressions
                return self._at(of_row.transform(_alone), here - int(back.name))
            if isinstance(part, exp.Column):
                return self._at(column(part.name), self.places[part.table] if part.table else here)
            return part

        return expression.transform(at_its_row)

    def _at(self, value: exp.Expr, place: int) -> exp.Expr:
        """The column that has the value of the row at a place."""
        if place == self.final:
            self.own.add(value.name)
            return value
        return column(self.values.setdefault((value, self.final - place), f"_b{len(self.values)}"))

    # Matches that do not overlap --------------------------------------------------------------------------------------

    def _build(self, operator: Operator) -> None:
        flow = self._matches()
        operator.result = self._reported(flow) if self.first is None else self._disjoint(operator, flow, self.first)

    def _disjoint(self, operator: Operator, flow: Flow, first: exp.Expr) -> Flow:
        """The flow of the matches that do not overlap.

        found: the matches that this push completes; reported: the last rows of the reported matches; last: the last row
        of each partition's last reported match.
        """
        from bridge.patterns.live.disjoint import DisjointMatches

        found, reported, last = (self.network.name(kind, self.node) for kind in ("found", "reported", "last"))
        keys = {f"_part{place}": key for place, key in enumerate(self.node.pattern.partition_by)}
        system = {"ts": column("ts"), "seq": column("seq"), "_expires": bigint_never()}

        def matches(rows: Selection) -> exp.Select:
            return rows.project({**system, **keys, "_first": first, **self.measures}).select()

        def selected(names: Iterable[str]) -> exp.Select:
            on = exp.EQ(this=column_of("t", "seq"), expression=column_of("f", "seq"))
            return (
                exp.select(*(column_of("f", name) for name in names))
                .from_(aliased_table(found, "f"))
                .join(aliased_table(reported, "t"), on=on)
            )

        completed, newest = matches(flow.arrivals), selected([*keys, "seq"])
        add_table(operator, found, completed)
        add_table(operator, reported, exp.select(column("seq")).from_(table(found)), (("seq",),))
        add_table(operator, last, newest)
        operator.inboxes += [found, reported]
        written: Variants[StatementWriter[exp.Expr]] = flow.writers.map(lambda writer: writer.map(matches))
        entering = Insert(found, written)
        database, in_order = self.network.database, exp.Ordered(this=column("seq"))
        now = exp.select(*map(column, (*keys, "_first", "seq"))).from_(table(found)).order_by(in_order)
        earlier = exp.select(*map(column, (*keys, "seq"))).from_(table(last)).order_by(in_order.copy())
        texts = database.render(now), database.render(earlier)
        step = DisjointMatches(reported, database.quoted(reported), *texts)
        operator.steps += [entering, step, Insert(last, newest)]
        operator.purges.append(all_but_newest(last, map(column, keys), 1, ("seq",)))
        plain = dataclasses.replace(self.node, pattern=dataclasses.replace(self.node.pattern, measures=()))
        operator.stored = StoredState(plain, {"last": StoredTable.of(last, (*keys, "seq"))})
        names = [*system, *self.measures]
        rows = DisjointRows(texts[1], completed, tuple(keys)).of(selected(names))
        return Flow(tuple(self.measures), Selection.of(exp.Subquery(this=rows), names))


def _alone(part: exp.Expr) -> exp.Expr:
    return column(part.name) if isinstance(part, exp.Column) else part
