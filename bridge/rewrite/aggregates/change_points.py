"""Aggregates reported at every change of their window, in one pass: change points are added as rows without values.

Each arrival is a change point anyway. For each timestamp at which rows expire, a row without values is placed before
the arrivals of that timestamp: its frame is the window after the expiry. EMIT ON CHANGE has the same change points, but
does not report groups that have become empty, and orders the groups of a timestamp by their oldest rows. For last rows
(ROWS), a row without values is placed after each row that evicts a row of another group.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import (
    ReportedRows,
    aggregate_calls,
    arrived_in_push,
    frame_columns,
    group_columns,
    is_cumulative,
    reads_last_rows,
    rows_by_index,
    with_aggregates,
)
from bridge.rewrite.aggregates.on_change import at_points
from bridge.rewrite.aggregates.panes import UNTIL
from bridge.rewrite.aggregates.partials import Partials
from bridge.rewrite.flow import AT_LEAST, NTH, Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.state_tables import clock
from bridge.rewrite.windows.expiry import evicting_inputs, expires_in_push
from windows.aggregates import aggregate_of, with_arguments
from windows.sql import (
    aliased,
    bigint_never,
    bigint_zero,
    column,
    column_of,
    derived_table,
    null_safe_equal,
    number,
    over,
    row_number,
    with_columns,
)
from windows.times import NEVER

Framed = tuple[query.Aggregate, Flow, ReportedRows]
"""An aggregate, the rows and change points to compute it over, and the condition on those that are reported."""

_PRESENT = "_there"
"""The column that is NULL in change points, and only there."""

_COUNT, _OLDEST = "_count", "_oldest"
"""The number of remaining rows in a group, and the `seq` of the oldest of them."""


def change_points_of(node: query.Aggregate, below: Flow, network: Network) -> ExpiryPoints | EvictionPoints | None:
    """The change points of a window of time, or of last rows; None for other windows."""
    if below.timed or below.order or below.jumping:
        return None
    of_time = not below.counted and below.size is not None
    if of_time or is_cumulative(node, below):
        return ExpiryPoints(node, below)
    inputs = evicting_inputs(node)
    if not reads_last_rows(node, below) or len(inputs) != 1:
        return None
    return EvictionPoints(node, below, network.rewrite(inputs[0], Need.ARRIVALS))


@dataclasses.dataclass(frozen=True)
class _ChangePoints(abc.ABC):
    """The change points of an aggregate over a window."""

    node: query.Aggregate
    below: Flow

    @property
    def computed(self) -> query.Aggregate:
        """The aggregate, with the further values of each change point that EMIT ON CHANGE needs."""
        if self.node.every_change:
            return self.node
        left = (aliased(exp.Count(this=exp.Star()), _COUNT), aliased(exp.Min(this=column("seq")), _OLDEST))
        return dataclasses.replace(self.node, columns=(*self.node.columns, *left))

    def reported(self, computed: exp.Select) -> exp.Select:
        """The results among the computed rows, in order."""
        if self.node.every_change:
            return computed
        place = aliased(row_number([column("ts"), column("seq")], [column(_OLDEST)]), "_place")
        names = (*self._keys, *(item.alias for item in self.node.columns))
        results = exp.select(*map(column, ("ts", "seq", "_expires")), place, *map(column, names))
        results = results.from_(derived_table(computed, "o"))
        is_left = exp.GT(this=column(_COUNT), expression=number(0))
        return results.where(is_left) if self.node.group_by else results

    def in_frames(self) -> Framed | None:
        """The aggregate over rows and change points; None if one of its functions would notice the change points."""
        if sees_null_rows(self.node):
            return None
        values: dict[exp.Expr, str] = {}

        def value_column(value: exp.Expr) -> exp.Expr:
            return column(values.setdefault(value, f"_value{len(values)}"))

        def over_values(call: exp.Expr) -> exp.Expr:
            if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
                return exp.Count(this=column(_PRESENT))
            return with_arguments(call, value_column)

        node, keys = self.computed, [column(name) for name in self._keys]
        columns = tuple(
            aliased(with_aggregates(item.this, node, keys, over_values), item.alias) for item in node.columns
        )
        of_rows: dict[str, exp.Expr] = {name: value for value, name in values.items()} | {_PRESENT: number(1)}
        return self._over(columns, of_rows, dict.fromkeys(of_rows, exp.null()))

    def in_parts(self, parts: Partials) -> Framed:
        """The aggregate over the partial aggregates of rows and change points."""
        columns = tuple(part.copy() for part in parts.columns)
        return self._over(columns, dict(parts.of_rows()), dict(parts.of_nothing()))

    @abc.abstractmethod
    def _over(
        self, columns: tuple[exp.Expr, ...], of_rows: Mapping[str, exp.Expr], of_points: Mapping[str, exp.Expr]
    ) -> Framed:
        """An aggregate with these columns over the union of rows and change points."""

    def _aggregate(self, columns: tuple[exp.Expr, ...]) -> query.Aggregate:
        return dataclasses.replace(self.node, columns=columns, group_by=tuple(map(column, self._keys)))

    @property
    def _keys(self) -> dict[str, exp.Expr]:
        return group_columns(self.node)

    @property
    def _system(self) -> dict[str, exp.Expr]:
        """The columns of an arrival; results of EMIT ON CHANGE expire."""
        expires = bigint_never() if self.node.every_change else column("_expires")
        place = exp.cast(number(1), "BIGINT")
        return {"ts": column("ts"), "seq": column("seq"), "_expires": expires, "_place": place, **self._keys}


def sees_null_rows(node: query.Aggregate) -> bool:
    """Whether the value of one of its functions may be changed by a row whose values are NULL."""
    return any(map(_sees_nulls, aggregate_calls(node)))


def _sees_nulls(call: exp.Expr) -> bool:
    aggregate = aggregate_of(call)
    if aggregate is None:  # sqlglot's other classes ignore NULL
        return isinstance(call, exp.AnonymousAggFunc)
    return aggregate.sees_nulls or aggregate.is_edge


class ExpiryPoints(_ChangePoints):
    """The change points of a window of time: rows expire at a timestamp, before the arrivals of that timestamp."""

    def _over(
        self, columns: tuple[exp.Expr, ...], of_rows: Mapping[str, exp.Expr], of_points: Mapping[str, exp.Expr]
    ) -> Framed:
        assert self.below.content is not None
        rows = self.below.content.project({**self._system, **of_rows, **self._session})
        rows = dataclasses.replace(rows, conditions=(*rows.conditions, *self._seen()))
        of_points = {**of_points, **dict.fromkeys(self._session, exp.null())}  # after it the window is empty
        points = self._points().select(*(aliased(value.copy(), name) for name, value in of_points.items()))
        both = exp.Subquery(this=exp.union(rows.select(), points, distinct=False))
        flow = Flow(
            tuple(of_rows), self.below.arrivals, Selection.of(both, rows.columns),
            order=("_place",), timed=True, size=self.below.size, sessions_of=self.below.sessions_of,
        )  # fmt: skip
        is_point = exp.EQ(this=column("seq"), expression=number(0))
        return self._aggregate(columns), flow, ReportedRows((), exp.or_(is_point, arrived_in_push(self.below)))

    @property
    def _session(self) -> dict[str, exp.Expr]:
        """The column of a row's session. When a session expires, its group is empty."""
        return {name: column(name) for name in frame_columns(self.below)}

    def _seen(self) -> list[exp.Expr]:
        """Conditions on the rows in the windows of a push."""
        if self.below.size in (None, NEVER):
            return []
        assert self.below.content is not None
        size = number(self.below.size or 0)
        size.meta[AT_LEAST] = True
        ts = self.below.content.columns["ts"].copy()
        return [exp.GT(this=ts, expression=exp.Sub(this=clock("before"), expression=size))]

    def with_newest_row(self) -> exp.Query:
        """All change points, each with the `seq` of the newest row that has arrived before it."""
        arrivals = self.below.arrivals.project({**self._system, UNTIL: column("seq")}).select()
        later = self.below.arrivals.project({name: column(name) for name in ("ts", "seq")}).select()
        first = exp.select(exp.Min(this=column_of("l", "seq"))).from_(derived_table(later, "l"))
        first = first.where(exp.GTE(this=column_of("l", "ts"), expression=column_of("m", "ts")))
        before = exp.Coalesce(this=exp.Subquery(this=first), expressions=[number(NEVER)])
        until = aliased(exp.Sub(this=before, expression=number(1)), UNTIL)
        points = exp.select(*(column_of("m", name) for name in self._system), until)
        return exp.union(arrivals, points.from_(derived_table(self._points(), "m")), distinct=False)

    def _points(self) -> exp.Select:
        """The timestamps at which rows of a group expired in this push, in the order of the oldest row of each."""
        assert self.below.content is not None
        content = self.below.content
        rows = content.project({"ts": column("_expires"), "seq": column("seq"), **self._keys})
        rows = dataclasses.replace(rows, conditions=(*content.conditions, *expires_in_push(self.below)))
        place = row_number([column("ts")], [exp.Min(this=column("seq"))])
        system = {"seq": bigint_zero(), "_expires": bigint_never(), "_place": place}
        points = exp.select(
            column("ts"), *(aliased(value, name) for name, value in system.items()), *map(column, self._keys)
        )
        return points.from_(derived_table(rows.select(), "m")).group_by(column("ts"), *map(column, self._keys))


@dataclasses.dataclass(frozen=True)
class EvictionPoints(_ChangePoints):
    """The change points of a window of last rows: a row leaves when one of the `evicting` rows arrives.

    `evicting`: the rows that enter the window, including those that filters above the window hide.
    """

    evicting: Flow

    def _over(
        self, columns: tuple[exp.Expr, ...], of_rows: Mapping[str, exp.Expr], of_points: Mapping[str, exp.Expr]
    ) -> Framed:
        assert self.below.content is not None
        rows = self.below.content.project({**self._system, NTH: column(NTH), **of_rows})
        points = exp.select(*map(column, (*self._system, NTH)), *(aliased(v.copy(), n) for n, v in of_points.items()))
        points = points.from_(derived_table(self._points(), "m"))
        both = exp.Subquery(this=exp.union(rows.select(), points, distinct=False))
        flow = Flow(
            tuple(of_rows), self.below.arrivals, Selection.of(both, rows.columns), order=("_place",), last=self.below.last
        )  # fmt: skip
        return self._aggregate(columns), flow, ReportedRows((), arrived_in_push(self.evicting))

    def _points(self) -> exp.Select:
        """The groups that lose a row, each just after the row that evicts it."""
        assert self.below.content is not None and self.below.last is not None
        content, (size, by, _) = self.below.content, self.below.last
        partition = {f"_by{place}": key for place, key in enumerate(by)}
        evicted = {
            "ts": column("_out_ts"),
            "seq": column("_out"),
            NTH: exp.Add(this=column(NTH), expression=number(size)),
        }
        rows = content.project({**self._system, **evicted, "_place": exp.cast(number(2), "BIGINT")})
        shown = exp.Case().when(exp.and_(*(content.conditions or [exp.true()])), number(1)).else_(number(0))
        rows = dataclasses.replace(rows, columns={**rows.columns, **partition, "_shown": shown}, conditions=())

        def of_evicting(name: str) -> exp.Expr:
            lead = exp.Lead(this=column(name), offset=number(size))
            return over(lead, map(column, partition), [column(NTH)])

        after = {f"{name}_after": of_evicting(name) for name in (*self._keys, "_shown")}
        points = with_columns(rows.select(), **after)
        same_group = [null_safe_equal(column(name), column(f"{name}_after")) for name in self._keys]
        only_lost = _not_all(column("_shown_after").eq(1), *same_group)
        in_push = exp.LT(this=column("seq"), expression=number(NEVER))
        return with_columns(points).where(column("_shown").eq(1), arrived_in_push(self.evicting), in_push, only_lost)

    def by_index(self) -> exp.Select:
        """The change points joined with the rows that remain; an index finds these, and the row that leaves."""
        kept, since = rows_by_index(self.node, self.below)
        arrived = exp.LTE(this=column_of("w", "seq"), expression=column_of("t", "seq"))
        own = {name: value for name, value in self._system.items() if name != "_place"}
        entering = self.below.arrivals.project({**own, "_age": number(1)}).select()
        points = exp.union(entering, self._evictions(kept), distinct=False)
        return at_points(self.node, self.below, points, (kept, [arrived, since]))

    def _evictions(self, kept: Selection) -> exp.Select:
        """Each arriving row `a` with the row `p` that it evicts, if that belongs to another group."""
        assert self.below.last is not None
        size, by, table = self.below.last
        same_key = [null_safe_equal(table.value(key, "o"), table.value(key, "a")) for key in by]
        older = exp.LT(this=column_of("o", "seq"), expression=column_of("a", "seq"))
        oldest = exp.select(column_of("o", "seq")).from_(table.item("o")).where(*same_key, older)
        oldest = oldest.order_by(exp.Ordered(this=column_of("o", "seq"), desc=True)).limit(1).offset(size - 1)
        keys = self._keys
        same_group = [null_safe_equal(kept.value(key, "p"), kept.value(key, "a")) for key in keys.values()]
        columns = {"_expires": number(NEVER), **{n: kept.value(key, "p") for n, key in keys.items()}, "_age": number(2)}
        select = exp.select(
            column_of("a", "ts"), column_of("a", "seq"), *(aliased(value, name) for name, value in columns.items())
        )
        arrivals = derived_table(self.evicting.arrivals.select(["seq"]), "i")
        itself = exp.EQ(this=column_of("a", "seq"), expression=column_of("i", "seq"))
        evicted = exp.EQ(this=column_of("p", "seq"), expression=exp.Subquery(this=oldest))
        select = select.from_(arrivals).join(table.item("a"), on=itself).join(table.item("p"), on=evicted)
        return select.where(*kept.conditions_of("p"), _not_all(*kept.conditions_of("a"), *same_group))


def _not_all(*conditions: exp.Expr) -> exp.Expr:
    """Whether not all conditions are true; NULL counts as not true."""
    return exp.Case().when(exp.and_(*(conditions or [exp.true()])), number(0)).else_(number(1)).eq(1)
