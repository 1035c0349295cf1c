"""Aggregates of long sliding windows, combined from panes, which are stored aggregates of consecutive rows.

So no event aggregates all rows again ("No Pane, No Gain": Li, Maier, Tufte, Papadimos and Tucker 2005). The panes of
that paper have equal lengths of time; these have equal numbers of rows, so that their cost does not depend on the rate
of events. Panes have levels: the rows themselves, panes of n rows, panes of m such panes. A window consists of the
panes that lie in it completely and, of a pane that is partly outside, the parts inside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import (
    first_arrival,
    frame_columns,
    group_columns,
    is_cumulative,
    last_arrival,
    reads_last_rows,
)
from bridge.rewrite.aggregates.partials import Partials, steady_window
from bridge.rewrite.flow import Flow, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Operator, PaneInsert, Purge, RowCountProbe
from bridge.rewrite.state_tables import add_table, ago
from bridge.rewrite.variants import StatementWriter, Variants
from windows.databases.base import NESTED_LOOP
from windows.sql import (
    aliased,
    bigint_zero,
    cast_to,
    column,
    column_of,
    derived_table,
    null_safe_equal,
    number,
    over,
    parenthesized,
    running_frame,
    table,
    with_columns,
)
from windows.times import BEGINNING, NEVER

_LAST, UNTIL, _ROWS = "_last", "_until", "_rows"
"""Columns of a pane: the `ts` and `seq` of its last row, and the number of its rows; its `ts` is its first row's."""


@dataclasses.dataclass(frozen=True)
class Panes:
    """The panes of an aggregate. The first level is the rows themselves; it is the only one if no panes are stored.

    `of_time`: whether every row of the window is valid for the same time.
    """

    node: query.Aggregate
    below: Flow
    parts: Partials
    levels: Sequence[Selection]
    of_time: bool

    @classmethod
    def of(cls, node: query.Aggregate, below: Flow, network: Network) -> Panes | None:
        """The panes of an aggregate over a window whose rows leave in order; None if its functions have no parts.

        Panes are stored for windows of time; aggregates that differ only in the length of the window share them. They
        serve pushes of few events, which a replay does not have.
        """
        of_time = below.size not in (None, NEVER) and not (below.timed or below.order or below.counted)
        cumulative = is_cumulative(node, below) and not below.timed
        if not (of_time or cumulative or reads_last_rows(node, below)):
            return None
        parts = Partials.of(node)
        are_stored = of_time and below.size != 1 and steady_window(node) is not None and not network.settings.is_replay
        counts = network.database.pane_sizes if are_stored else ()
        if parts is None:
            return None
        assert below.content is not None
        columns = {
            "ts": column("ts"), _LAST: column("ts"), UNTIL: column("seq"), _ROWS: cast_to(number(1), "BIGINT"),
            **group_columns(node), **dict(parts.of_rows()),
        }  # fmt: skip
        rows = below.content.project(columns)

        if not counts:
            return cls(node, below, parts, [rows], of_time)
        assert below.size is not None

        def build(operator: Operator) -> None:
            level = rows
            for _ in counts:
                name = network.name("panes", node.input)
                level = _add_level(operator, name, level, parts, list(group_columns(node)))

        identity = ("Panes", query.without_window(node.input), node.group_by, tuple(parts.calls.items()))
        operator = network.operator(node.input, build, "Panes", key=identity)
        levels = [rows, *(Selection.of(table(made.name), columns) for made in operator.tables)]
        if below.size > operator.longest:
            operator.longest = below.size
            operator.pane_inserts = [
                _pane_insert(levels, place, count, below.size, parts, list(group_columns(node)))
                for place, count in enumerate(counts)
            ]
            operator.row_count = RowCountProbe(cast("exp.Table", rows.source).name, network.settings.long_rows)
            operator.purges = [_purge(level, below.size) for level in levels[1:]]
        return cls(node, below, parts, levels, of_time)

    @classmethod
    def of_rows(cls, node: query.Aggregate, below: Flow, parts: Partials) -> Panes:
        """The panes without stored levels: the rows alone."""
        return cls(node, below, parts, [], of_time=False)

    @property
    def are_stored(self) -> bool:
        return len(self.levels) > 1

    # Of few events --------------------------------------------------------------------------------------------------------

    def joined(self, points: exp.Query | None = None) -> exp.Select:
        """Each arrival joined with the panes of its window and group, which are then merged.

        With change points, each of them is joined with the panes up to its row `_until`, even if there are none.
        """
        reported: exp.Query = points or self._arrivals()
        carried = reported.named_selects
        panes = self._panes(exp.Subquery(this=reported), carried, until=UNTIL if points else "seq")
        if points:
            nothing = (aliased(value, name) for name, value in self.parts.of_nothing())
            empty = exp.select(*map(column, carried), *nothing).from_(derived_table(points.copy(), "t"))
            panes = exp.union(panes, empty, distinct=False)
        shown = [column(name) for name in carried if name not in (UNTIL, *self.parts.own)]
        select = exp.select(*shown, *(part.copy() for part in self.parts.columns))
        return select.from_(derived_table(panes, "p")).group_by(*map(column, carried))

    def _arrivals(self) -> exp.Select:
        system = {name: column(name) for name in ("ts", "seq", "_expires")}
        return self.below.arrivals.project({**system, **group_columns(self.node), **self.parts.own}).select()

    # Of many events -------------------------------------------------------------------------------------------------------

    def in_parts(self) -> tuple[query.Aggregate, Flow]:
        """The aggregate over the partial aggregates of single rows."""
        assert self.below.content is not None
        return self._over(self.below.content.project(self._values()))

    def shortened(self) -> tuple[query.Aggregate, Flow]:
        """The aggregate over fewer rows: the rows in the windows of all arrivals are merged into one row per group."""
        keys, values = group_columns(self.node), self._values()
        common = exp.select(
            aliased(exp.Min(this=column("ts")), "ts"), aliased(exp.Min(this=column(UNTIL)), "seq"),
            aliased(bigint_zero(), "_expires"),
            *map(column, keys), *self.parts.merged(), *(aliased(exp.null(), name) for name in self.parts.own),
        )  # fmt: skip
        common = common.from_(self._common().as_("p", quoted=True))
        common = common.group_by(column_of("p", "seq"), *map(column, keys))  # without a row if there are none
        rows = Selection.of(exp.Subquery(this=exp.union(self.edges(values), common, distinct=False)), values)
        return self._over(rows)

    def _values(self) -> dict[str, exp.Expr]:
        """The columns of single rows, as partial aggregates."""
        system: dict[str, exp.Expr] = {name: column(name) for name in ("ts", "seq", "_expires")}
        numbers = {name: column(name) for name in (*self.below.order, *frame_columns(self.below))}
        return {**system, **numbers, **group_columns(self.node), **dict(self.parts.of_rows()), **self.parts.own}

    def _over(self, rows: Selection) -> tuple[query.Aggregate, Flow]:
        flow = Flow(
            (*self.parts.calls, *self.parts.own), self.below.arrivals, rows, size=self.below.size, last=self.below.last,
            sessions_of=self.below.sessions_of, order=self.below.order,
        )  # fmt: skip
        columns = tuple(part.copy() for part in self.parts.columns)
        by = tuple(column(name) for name in group_columns(self.node))
        return dataclasses.replace(self.node, columns=columns, group_by=by), flow

    def edges(self, values: Mapping[str, exp.Expr]) -> exp.Query:
        """The rows that are not in the windows of all arrivals: those that leave some window, then the arrivals."""
        assert self.below.content is not None and self.below.size is not None
        rows = self.below.content.project(values)
        ts, seq, size = rows.columns["ts"], rows.columns["seq"], number(self.below.size)
        first, last, since = (
            first_arrival("ts", self.below),
            last_arrival(self.below),
            first_arrival("seq", self.below),
        )
        leaving = rows.select().where(
            exp.GT(this=ts.copy(), expression=exp.Sub(this=first, expression=size)),
            exp.LTE(this=ts.copy(), expression=exp.Sub(this=last, expression=size.copy())),
            exp.LT(this=seq.copy(), expression=since),
        )
        arrived = rows.select().where(
            exp.GTE(this=ts.copy(), expression=first.copy()), exp.GTE(this=seq.copy(), expression=since.copy())
        )
        return exp.union(leaving, arrived, distinct=False)

    def common(self) -> exp.Expr:
        """The value of the only aggregate, without groups, over the rows in the windows of all arrivals; 0 for none."""
        (total,) = self.parts.merged()
        select = exp.select(total).from_(self._common().as_("p", quoted=True))
        return exp.Coalesce(this=exp.Subquery(this=select), expressions=[number(0)])

    def _common(self) -> exp.Subquery:
        """The panes in the windows of all arrivals, of the arrivals' groups."""
        keys = list(group_columns(self.node))
        newest = aliased(last_arrival(self.below), "ts")
        before = aliased(exp.Sub(this=first_arrival("seq", self.below), expression=number(1)), "seq")
        last = exp.select(newest, before, *map(column, keys))
        if keys:
            groups = self.below.arrivals.project(group_columns(self.node)).select().distinct()
            last = last.from_(derived_table(groups, "g"))
        return exp.Subquery(this=self._panes(exp.Subquery(this=last), ["seq", *keys], ("ts", UNTIL)))

    # The panes of a window ------------------------------------------------------------------------------------------------

    def _panes(
        self, triggers: exp.Subquery, carried: Sequence[str], own: Sequence[str] = (), until: str = "seq"
    ) -> exp.Query:
        """For each trigger `t` the panes of its window, up to the row whose `seq` is in the column `until`.

        The result has the columns `carried` of `t`, and `own` of the panes.
        """
        start = exp.select(*(column_of("t", name) for name in carried)).from_(triggers.as_("t", quoted=True))
        selects = [
            panes.select(*(aliased(self._of(level, name), name) for name in (*own, *self.parts.calls)))
            for level in range(len(self.levels))
            for panes in self._in_window(level, start, until)
        ]
        return exp.union(*selects, distinct=False) if len(selects) > 1 else selects[0]

    def _in_window(self, level: int, start: exp.Select, until: str) -> Iterator[exp.Select]:
        """The panes of a level that lie in the window; on the level of rows, those that arrived before the trigger."""
        before = exp.LTE(this=self._of(0, UNTIL), expression=column_of("t", until))
        within = exp.GT(this=self._of(level, "ts"), expression=self._since())
        for panes in self._overlapping(level, start):
            yield panes.where(within if level else before)

    def _overlapping(self, level: int, start: exp.Select) -> Iterator[exp.Select]:
        """The panes of a level that overlap the window, and are not part of a higher pane that lies in it.

        They are newer than all panes of the level above, or part of a pane that lies partly outside.
        """
        in_window = exp.GT(this=self._of(level, _LAST), expression=self._since())
        if level + 1 == len(self.levels):
            yield self._joined(start, level, in_window)
            return
        above = level + 1
        begun = exp.Add(this=self._since(), expression=number(1))
        after = exp.Greatest(this=begun, expressions=[_newest(self.levels[above], _LAST, BEGINNING)])
        yield self._joined(
            start,
            level,
            exp.GTE(this=self._of(level, _LAST), expression=after),
            exp.GT(this=self._of(level, UNTIL), expression=_newest(self.levels[above], UNTIL, 0)),
        )
        leaving = exp.LTE(this=self._of(above, "ts"), expression=self._since())
        inside = [exp.LTE(this=self._of(level, name), expression=self._of(above, name)) for name in (_LAST, UNTIL)]
        for opened in self._overlapping(above, start):
            yield self._joined(opened.where(leaving), level, in_window, *inside)

    def _joined(self, source: exp.Select, level: int, *conditions: exp.Expr) -> exp.Select:
        """The join with the panes of a level that belong to the trigger's group and fulfil the conditions."""
        rows = self.levels[level]
        same_group = [self._same_group(level, key) for key in group_columns(self.node)]
        on = exp.and_(*same_group, *conditions, *rows.conditions_of(_alias(level)))
        joined = source.join(rows.item(_alias(level)), on=on)
        joined.args["joins"][-1].meta[NESTED_LOOP] = True
        return joined

    def _same_group(self, level: int, key: str) -> exp.Expr:
        """Whether a pane is of the trigger's group. Rows have no index by group, and SQLite must not build one."""
        mine, its = self._of(level, key), column_of("t", key)
        return (
            null_safe_equal(mine, its)
            if level
            else exp.Not(this=exp.paren(exp.NullSafeNEQ(this=parenthesized(mine), expression=its)))
        )

    def _of(self, level: int, name: str) -> exp.Expr:
        return self.levels[level].value(column(name), _alias(level))

    def _since(self) -> exp.Expr:
        assert self.below.size is not None
        return exp.Sub(this=column_of("t", "ts"), expression=number(self.below.size))


def _alias(level: int) -> str:
    return f"x{level}"


# The levels -----------------------------------------------------------------------------------------------------------


def _newest(level: Selection, name: str, otherwise: int) -> exp.Expr:
    """The greatest value of a column of a level."""
    newest = exp.Subquery(this=exp.select(exp.Max(this=column(name))).from_(level.source.copy()))
    return exp.Coalesce(this=newest, expressions=[number(otherwise)])


def _add_level(operator: Operator, name: str, below: Selection, parts: Partials, keys: Sequence[str]) -> Selection:
    """Adds the table of the panes that consist of panes of the level `below`."""
    columns = ["ts", _LAST, UNTIL, _ROWS, *keys, *parts.calls]
    panes = _merged(below.select(), keys, parts)
    add_table(operator, name, panes, tuple(dict.fromkeys([(*keys, _LAST), (_LAST,), (UNTIL,)])), is_late=True)
    return Selection.of(table(name), columns)


def _merged(rows: exp.Select, keys: Sequence[str], parts: Partials, by: Sequence[str] = ()) -> exp.Select:
    """Rows or panes merged into panes, one per group and value of the columns `by`."""
    edges = {"ts": exp.Min(this=column("ts")), _LAST: exp.Max(this=column(_LAST)), UNTIL: exp.Max(this=column(UNTIL))}
    panes = exp.select(
        *(aliased(exp.cast(edge, "BIGINT"), name) for name, edge in edges.items()),
        aliased(exp.cast(exp.Sum(this=column(_ROWS)), "BIGINT"), _ROWS),
        *map(column, keys),
        *parts.merged(),
    )
    panes = panes.from_(derived_table(rows, "r"))
    return panes.group_by(*map(column, (*by, *keys))) if keys or by else panes


def _pane_insert(
    levels: Sequence[Selection], place: int, count: int, size: int, parts: Partials, keys: Sequence[str]
) -> PaneInsert:
    """The step that adds a pane to the level above for each `count` rows that have arrived since its last pane."""
    table_above = cast("exp.Table", levels[place + 1].source).name
    write = StatementWriter(lambda: _new_panes(levels, place, count, size, parts, keys))
    return PaneInsert(table_above, Variants(write), every=count)


def _new_panes(
    levels: Sequence[Selection], place: int, count: int, size: int, parts: Partials, keys: Sequence[str]
) -> exp.Select:
    """The new panes, of rows that are not in a pane yet and that a window may still hold."""
    below, above, rows = levels[place], levels[place + 1], levels[0]
    now = exp.Subquery(this=Selection(rows.source, {"ts": exp.Max(this=rows.columns["ts"].copy())}).select())
    in_window = exp.Sub(this=now, expression=number(size - 1))
    after = exp.Greatest(this=_newest(above, _LAST, BEGINNING), expressions=[in_window])
    fresh = below.select().where(
        exp.GTE(this=below.columns[_LAST].copy(), expression=after),
        exp.GT(this=below.columns[UNTIL].copy(), expression=_newest(above, UNTIL, 0)),
    )
    counted = with_columns(
        fresh,
        _at=over(exp.Sum(this=column(_ROWS)), [], [column(UNTIL)], running_frame()),
        _all=over(exp.Sum(this=column(_ROWS)), [], []),
    )
    pane = exp.Sub(this=column("_at"), expression=exp.paren(exp.Mod(this=column("_at"), expression=number(count))))
    enough = exp.GTE(this=column("_all"), expression=number(count))
    return _merged(with_columns(counted, _pane=pane).where(enough), keys, parts, ["_pane"])


def _purge(level: Selection, size: int) -> Purge:
    """A purge of the panes that have left all windows. The newest stays, as rows after it are not in a pane yet."""
    old = exp.LTE(this=column(_LAST), expression=ago(size))
    newest = exp.Subquery(this=exp.select(exp.Max(this=column(UNTIL))).from_(level.source.copy()))
    older = exp.LT(this=column(UNTIL), expression=newest)
    return Purge(cast("exp.Table", level.source).name, exp.and_(old, older))
