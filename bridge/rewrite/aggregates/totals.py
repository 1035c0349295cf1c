"""Aggregates over windows that rows never leave: a table with the totals of each group, instead of the window's rows.

So the state is one row per group, and the cost of a push depends only on its own events and their groups. The totals
are partial aggregates (COUNT, SUM, MIN, MAX). A push first merges the partial aggregates of its arrivals into the
table, which also keeps the totals from before the push. The result of an arrival is made of those, merged with the
arrivals of its group up to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.constant_frames import merged_parts
from bridge.rewrite.aggregates.frames import group_columns, is_cumulative, with_aggregates
from bridge.rewrite.aggregates.partials import Partials, known, steady_window
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import InsertMissing, Operator, UpdateRows
from bridge.rewrite.state_tables import add_table
from bridge.rewrite.stored_state import StoredState, StoredTable
from bridge.rewrite.variants import StatementWriter, Variants
from windows.aggregates import first_argument
from windows.databases import Database
from windows.databases.base import NESTED_LOOP
from windows.extents import Unbounded
from windows.nested import call
from windows.sql import (
    add_join,
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    computed_as,
    derived_table,
    null_safe_equal,
    number,
    over,
    parenthesized,
    running_frame,
    table,
)

_TOTALS, _ARRIVED, _ARRIVAL = "g", "d", "t"
"""The aliases of the totals, of the arrivals' partial aggregates, and of an arrival with the arrivals up to it."""

CALLS = "calls"
"""In `meta`, marks a column over totals with the expression of the select list, which calls the aggregates."""


@dataclasses.dataclass(frozen=True)
class Totals:
    """The totals of an aggregate, in the table `name`: the `parts` of the arrivals `below`.

    For each group, the table has the number (`seq`) of the newest row, the keys, the totals, and the totals before the
    newest push that had rows of the group.
    """

    node: query.Aggregate
    below: Flow
    parts: Partials
    name: str
    database: Database

    @classmethod
    def of(cls, node: query.Aggregate, network: Network) -> Totals | None:
        """The totals of an aggregate; None if the aggregate needs the rows of its window."""
        parts = _parts_of(node)
        if parts is None or not network.can_have(key := _identity(node, parts), "totals"):
            return None
        below = network.rewrite(node.input, Need.ARRIVALS)
        if not is_cumulative(node, below) or below.timed or below.order:
            return None

        def build(operator: Operator) -> None:
            totals = cls(node, below, parts, network.name("totals", node.input), network.database)
            operator.totals = totals.name
            totals._add_to(operator)

        operator = network.operator(node.input, build, "Totals", key=key)
        return cls(node, below, parts, operator.totals, network.database)

    @classmethod
    def stored(cls, node: query.Aggregate, network: Network, epoch: int, inherits: Mapping[str, int]) -> Totals | None:
        """The stored totals of a query of this epoch, for reading; None if it has none.

        `inherits`: the epochs that some of its operators have.
        """
        parts = _parts_of(node)
        operator = None if parts is None else network.existing(_identity(node, parts), epoch, inherits)
        if parts is None or operator is None:
            return None
        nothing = Flow((), Selection(exp.null(), {}))
        return cls(node, nothing, parts, operator.totals, network.database)

    # The table ------------------------------------------------------------------------------------------------------------

    def _add_to(self, operator: Operator) -> None:
        """Adds the table, and the steps that merge the arrivals into it."""
        keys = list(group_columns(self.node))
        add_table(operator, self.name, self._shape(), (tuple(keys),) if keys else ())
        by_event = StatementWriter(self._values, "the values of the event")
        arrived: Variants[StatementWriter[exp.Query]] = Variants(StatementWriter(self._arrived), one=by_event)
        same = self._same_group(_ARRIVED, is_indexed=True)
        operator.steps += [
            UpdateRows(
                self.name,
                arrived,
                matches=same,
                own=_TOTALS,
                row=_ARRIVED,
                settings=self._settings(),
                calls=self.parts.calls,
            ),
            InsertMissing(self.name, arrived.map(lambda writer: writer.map(self._new)), matches=same, own=_TOTALS),
        ]
        columns = {"seq": "seq", **{key: key for key in keys}}
        for name, aggregate in self.parts.calls.items():
            columns |= {aggregate.sql(): name, f"{aggregate.sql()} before": _before(name)}
        meaning = ("Totals", self.node.input, self.node.group_by)
        operator.stored = StoredState(meaning, {"totals": StoredTable(self.name, columns)})

    def _shape(self) -> exp.Select:
        """A SELECT with the columns of the table; earlier totals have the same types as totals."""
        names = ["seq", *group_columns(self.node), *self.parts.calls]
        before = (aliased(column_of(_ARRIVED, name), _before(name)) for name in self.parts.calls)
        select = exp.select(*(column_of(_ARRIVED, name) for name in names), *before)
        return select.from_(derived_table(self._arrived(), _ARRIVED))

    def _rows(self) -> Selection:
        """The arrivals, each as the partial aggregates of itself alone."""
        return self._of_arrivals(["seq"], self._halves)

    def _of_arrivals(self, system: Sequence[str], halves: Callable[[exp.Expr], tuple[exp.Expr, exp.Expr]]) -> Selection:
        """The arrivals with these columns, their keys, and the partial aggregates of each alone.

        Whole numbers are split into `halves` where intermediate sums must not exceed 64 bits.
        """
        columns = {**{name: column(name) for name in system}, **group_columns(self.node), **dict(self.parts.of_rows())}
        for name, high in self._high.items():
            columns[high], columns[name] = halves(columns[name])
        return self.below.arrivals.project(columns)

    def _halves(self, value: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """The upper bits of a whole number, and its lower 32 bits."""
        is_stored = isinstance(self.below.arrivals.columns.get(value.name), exp.Column)
        exact = value if isinstance(value, exp.Column) and is_stored else self.database.exact(value, "BIGINT")
        upper = exp.BitwiseRightShift(this=parenthesized(exact), expression=number(32))
        lower = exp.BitwiseAnd(this=parenthesized(exact.copy()), expression=number(2**32 - 1))
        return exp.paren(upper), exp.paren(lower)

    @property
    def _high(self) -> dict[str, str]:
        """The columns of upper bits, by the columns of the sums whose numbers are split."""
        sums = (
            [name for name in self.parts.calls if _is_whole(self.parts, name)] if self.database.sums_in_64_bits else []
        )
        return {name: name.replace("_part", "_high") for name in sums}

    def _sums(self) -> list[exp.Expr]:
        """The partial aggregates of several rows of partial aggregates."""
        return [*self.parts.merged(), *(aliased(exp.Sum(this=column(high)), high) for high in self._high.values())]

    def _values(self) -> exp.Select:
        """The same for a single arrival, as its values."""
        return self._of_arrivals(["seq"], lambda value: (bigint_zero(), value)).select()

    def _arrived(self) -> exp.Select:
        """The partial aggregates of the arrivals of each group."""
        keys = [column(name) for name in group_columns(self.node)]
        newest = aliased(exp.Max(this=column("seq")), "seq")
        select = exp.select(newest, *keys, *self._sums()).from_(derived_table(self._rows().select(), "r"))
        some = exp.GT(this=exp.Count(this=exp.Star()), expression=number(0))
        return select.group_by(*(key.copy() for key in keys)) if keys else select.having(some)

    def _new(self, arrived: exp.Query) -> exp.Select:
        """The rows of groups that have no row in the table yet."""
        names = ["seq", *group_columns(self.node)]
        parts = (aliased(self._alone(name), name) for name in self.parts.calls)
        nothing = (aliased(value, _before(name)) for name, value in self.parts.of_nothing())
        select = exp.select(*(column_of(_ARRIVED, name) for name in names), *parts, *nothing)
        return select.from_(derived_table(arrived, _ARRIVED))

    def _alone(self, name: str) -> exp.Expr:
        """A partial aggregate of the arrivals of a group that has no row yet."""
        own, high = column_of(_ARRIVED, name), self._high.get(name)
        return own if high is None else call("CEP_TOTAL", exp.null(), column_of(_ARRIVED, high), own)

    def _settings(self) -> dict[str, exp.Expr]:
        """The new values of a group's row, in an order in which no value is read after it was changed.

        MariaDB assigns them one after the other, and the counts tell whether there was a value to add to.
        """
        parts = sorted(self.parts.calls, key=lambda name: isinstance(self.parts.calls[name], exp.Count))
        before = {_before(name): column_of(_TOTALS, name) for name in parts}
        now = {name: self._merged(name, lambda name: column_of(_TOTALS, name), _ARRIVED) for name in parts}
        return {"seq": column_of(_ARRIVED, "seq"), **before, **now}

    def _same_group(self, alias: str, is_indexed: bool = False) -> list[exp.Expr]:
        """The conditions under which a row of totals belongs to the group of a row with this alias."""
        keys = group_columns(self.node)
        return [null_safe_equal(column_of(_TOTALS, key), column_of(alias, key), is_indexed) for key in keys]

    def _merged(self, name: str, earlier: Callable[[str], exp.Expr], later: str) -> exp.Expr:
        """A partial aggregate of the earlier rows, merged with that of the row with the alias `later`.

        A sum may be NaN, which some databases return as NULL; the number of values distinguishes it from no sum.
        """
        aggregate = self.parts.calls[name]
        before, since = earlier(name), column_of(later, name)
        if (high := self._high.get(name)) is not None:
            return call("CEP_TOTAL", before, column_of(later, high), since)
        if not isinstance(aggregate, exp.Sum):
            return merged_parts(aggregate, before, since)
        if not self.parts.is_exact(name):
            count = next(other for other, of in self.parts.calls.items() if of == _count_of(aggregate))
            none = exp.EQ(this=earlier(count), expression=number(0))
            no_more = exp.EQ(this=column_of(later, count), expression=number(0))
            total = computed_as(known(aggregate).pair(before.copy(), since.copy()), aggregate)
            return exp.Case().when(none, since).when(no_more, before).else_(total)
        return merged_parts(aggregate, before, since)

    # Results --------------------------------------------------------------------------------------------------------------

    @property
    def variants(self) -> Variants[StatementWriter[exp.Query]]:
        """The ways to read the results of the arrivals."""
        return Variants(
            StatementWriter(self.results, "totals of the groups before the push, and window frames over the arrivals"),
            one=StatementWriter(self.result_of_event, "totals of the group"),
        )

    def results(self) -> exp.Select:
        """The result of each arrival: the earlier totals of its group, merged with the arrivals up to it."""
        keys = list(group_columns(self.node))
        shown = ("ts", "seq", "_expires", *keys)
        arrivals = exp.alias_(exp.Subquery(this=self._running()), _ARRIVAL, table=True, quoted=True)
        select = exp.select(*(column_of(_ARRIVAL, name) for name in shown)).from_(arrivals)
        same = self._same_group(_ARRIVAL)
        add_join(
            select, "INNER" if same else "CROSS", aliased_table(self.name, _TOTALS), exp.and_(*same) if same else None
        )
        if same:
            select.args["joins"][-1].meta[NESTED_LOOP] = True

        def earlier(name: str) -> exp.Expr:
            return column_of(_TOTALS, _before(name))

        of_arrival = [column_of(_ARRIVAL, key) for key in keys]
        return select.select(*self._columns(lambda name: self._merged(name, earlier, _ARRIVAL), of_arrival))

    def result_of_event(self) -> exp.Select:
        """The result of the only arrival: its group's totals now."""
        keys = group_columns(self.node)
        system = {name: column(name) for name in ("ts", "seq", "_expires")}
        arrival = derived_table(self.below.arrivals.project({**system, **keys}).select(), _ARRIVAL)
        select = exp.select(*(column_of(_ARRIVAL, name) for name in (*system, *keys))).from_(arrival)
        same = self._same_group(_ARRIVAL, is_indexed=True)
        add_join(
            select, "INNER" if same else "CROSS", aliased_table(self.name, _TOTALS), exp.and_(*same) if same else None
        )
        of_arrival = [column_of(_ARRIVAL, key) for key in keys]
        columns = list(self._columns(lambda name: column_of(_TOTALS, name), of_arrival))
        for item, shown in zip(self.node.columns, columns, strict=True):
            shown.meta[CALLS] = with_aggregates(item.this, self.node, of_arrival, lambda call: call.copy())
        return select.select(*columns)

    def _running(self) -> exp.Select:
        """The arrivals, each with the partial aggregates of its group's arrivals up to it."""
        keys, system = group_columns(self.node), ("ts", "seq", "_expires")
        rows = self._of_arrivals(system, self._halves)
        order, partition = [column("seq")], [column(key) for key in keys]

        def running(part: exp.Expr) -> exp.Expr:
            is_call = isinstance(part, exp.AggFunc)
            return over(part.copy(), partition, order, running_frame()) if is_call else part

        parts = (part.transform(running) for part in self._sums())
        return exp.select(*map(column, (*system, *keys)), *parts).from_(derived_table(rows.select(), "r"))

    def present(self) -> Selection:
        """The present results of all groups, with the `seq` of the newest row of each."""
        keys = list(group_columns(self.node))
        columns = self._columns(lambda name: column(name), [column(key) for key in keys])
        named = {each.alias_or_name: each.unalias() for each in columns}
        return Selection(table(self.name), {"seq": column("seq"), **{key: column(key) for key in keys}, **named})

    def _columns(self, value: Callable[[str], exp.Expr], keys: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
        """The select list, with `value(name)` for a partial aggregate, and `keys` for those of the group."""
        by = tuple(map(column, group_columns(self.node)))
        node = dataclasses.replace(self.node, group_by=by)
        for item in self.parts.columns:
            found = with_aggregates(item.this, node, keys, lambda call: value(call.this.name))
            yield aliased(found, item.alias)


def _before(name: str) -> str:
    """The column with the total before the newest push."""
    return name.replace("_part", "_before")


def _identity(node: query.Aggregate, parts: Partials) -> Hashable:
    return ("Totals", node.input, node.group_by, tuple(parts.calls.items()))


def _parts_of(node: query.Aggregate) -> Partials | None:
    """The partial aggregates of an aggregate for which totals suffice: its rows never leave and are not changed."""
    window = steady_window(node)
    if window is None or not isinstance(window.extent, Unbounded) or node.on_change or node.every_change:
        return None
    parts = Partials.of(node)
    if parts is None or parts.own:
        return None
    calls = dict(parts.calls)
    for name, aggregate in parts.calls.items():
        if isinstance(aggregate, exp.Sum) and not parts.is_exact(name) and _count_of(aggregate) not in calls.values():
            calls[f"_part{len(calls)}"] = _count_of(aggregate)
    return dataclasses.replace(parts, calls=calls)


def _count_of(call: exp.Expr) -> exp.Expr:
    """The number of values that an aggregate was computed from."""
    return exp.Count(this=first_argument(call).copy())


def _is_whole(parts: Partials, name: str) -> bool:
    """Whether a sum is of whole numbers."""
    return not known(parts.calls[name]).is_exact and parts.is_exact(name)
