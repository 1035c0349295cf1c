"""Aggregates of long sliding windows, put together from panes: aggregates of some rows each, which are kept.

No row is aggregated again for each event ("No Pane, No Gain": Li, Maier, Tufte, Papadimos and Tucker 2005; theirs are of
equal times, these of equal numbers of rows, so that their cost does not depend on how fast events come). Panes have
levels: the rows themselves, panes of so many rows, panes of so many of those. What a window holds is the panes that lie in
it whole, and where a pane has begun to leave, what it was made of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import first_arrival, keys_of, last_arrival, last_rows
from bridge.rewrite.aggregates.partials import Parts, nothing_of
from bridge.rewrite.flow import NTH, Flow, Selection
from bridge.rewrite.network import Network, add_table, ago
from bridge.rewrite.plan import Operator, PaneInsert, Purge, RowCountProbe
from bridge.rewrite.variants import StatementWriter, Variants
from windows.databases.base import NESTED_LOOP
from windows.sql import (
    aliased,
    bigint_zero,
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
"""Of a pane's rows: the time of the last one (`ts` is that of the first), its number, and how many they are."""


def _is_steady(node: query.Aggregate) -> bool:
    """Whether it reads one window, and no table whose rows may change between a row and the pane it gets into."""
    below, read = node.input, [*node.columns, *node.group_by]
    while isinstance(below, (query.Filter, query.Map)):
        read += [below.condition] if isinstance(below, query.Filter) else below.columns
        below = below.input
    return isinstance(below, query.Window) and not any(value.find(exp.Query, exp.Table) for value in read)


@dataclasses.dataclass(frozen=True)
class Panes:
    """An aggregate, and its `levels`: each a selection of panes, the first one of the rows themselves.

    Where no panes are kept, the rows are the only level.
    """

    node: query.Aggregate
    below: Flow
    parts: Parts
    levels: Sequence[Selection]

    @classmethod
    def of(cls, node: query.Aggregate, below: Flow, network: Network) -> Panes | None:
        """Those of an aggregate over a sliding window; None where what it tells cannot be made of parts.

        Aggregates that differ in their windows' lengths alone share them. They are kept of windows of time alone.
        """
        of_time = below.size not in (None, NEVER) and not (below.timed or below.order or below.counted)
        if not of_time and not last_rows(node, below):
            return None
        parts = Parts.of(node)
        counts = network.database.pane_sizes if of_time and below.size != 1 and _is_steady(node) else ()
        if parts is None:
            return None
        assert below.content is not None
        columns = {
            "ts": column("ts"), _LAST: column("ts"), UNTIL: column("seq"), _ROWS: exp.cast(number(1), "BIGINT"),
            **keys_of(node), **dict(parts.of_rows()),
        }  # fmt: skip
        rows = below.content.project(columns)

        if not counts:
            return cls(node, below, parts, [rows])
        assert below.size is not None

        def build(operator: Operator) -> None:
            level = rows
            for _ in counts:
                name = network.name("panes", node.input)
                level = _add_level(operator, name, level, parts, list(keys_of(node)))

        kept = ("Panes", _without_window(node.input), node.group_by, tuple(parts.kept.items()))
        operator = network.operator(node.input, build, "Panes", key=kept)
        levels = [rows, *(Selection.of(table(made.name), columns) for made in operator.tables)]
        if below.size > operator.longest:
            operator.longest = below.size
            operator.pane_inserts = [
                _fold(levels, place, count, below.size, parts, list(keys_of(node)))
                for place, count in enumerate(counts)
            ]
            operator.row_count = RowCountProbe(cast("exp.Table", rows.source).name, network.settings.long_rows)
            operator.purges = [_purge(level, below.size) for level in levels[1:]]
        return cls(node, below, parts, levels)

    @property
    def are_kept(self) -> bool:
        return len(self.levels) > 1

    # Of few events --------------------------------------------------------------------------------------------------------

    def joined(self, changes: exp.Query | None = None) -> exp.Select:
        """Each arrival with the panes of its window and group, which are then put together.

        Or each of the moments at which windows change, up to its number `_until`, also where nothing is left.
        """
        told: exp.Query = changes or self._arrivals()
        carried = told.named_selects
        panes = self._panes(exp.Subquery(this=told), carried, until=UNTIL if changes else "seq")
        if changes:
            nothing = (aliased(nothing_of(call), name) for name, call in self.parts.kept.items())
            empty = exp.select(*map(column, carried), *nothing).from_(derived_table(changes.copy(), "t"))
            panes = exp.union(panes, empty, distinct=False)
        shown = [column(name) for name in carried if name not in (UNTIL, *self.parts.own)]
        select = exp.select(*shown, *(part.copy() for part in self.parts.columns))
        return select.from_(derived_table(panes, "p")).group_by(*map(column, carried))

    def _arrivals(self) -> exp.Select:
        system = {name: column(name) for name in ("ts", "seq", "_expires")}
        return self.below.arrivals.project({**system, **keys_of(self.node), **self.parts.own}).select()

    # Of many events -------------------------------------------------------------------------------------------------------

    def in_parts(self) -> tuple[query.Aggregate, Flow]:
        """The aggregate over the parts that the rows of its window are."""
        assert self.below.content is not None
        return self._over(self.below.content.project(self._values()))

    def shortened(self) -> tuple[query.Aggregate, Flow]:
        """The aggregate over fewer rows than its window has: those that are in the windows of all arrivals are one row."""
        keys, values = keys_of(self.node), self._values()
        staying = exp.select(
            aliased(exp.Min(this=column("ts")), "ts"), aliased(exp.Min(this=column(UNTIL)), "seq"),
            aliased(bigint_zero(), "_expires"),
            *map(column, keys), *self.parts.of_parts(), *(aliased(exp.null(), name) for name in self.parts.own),
        )  # fmt: skip
        staying = staying.from_(self._staying().as_("p", quoted=True))
        staying = staying.group_by(column_of("p", "seq"), *map(column, keys))  # not of nothing, which would be a row
        rows = Selection.of(exp.Subquery(this=exp.union(self.edges(values), staying, distinct=False)), values)
        return self._over(rows)

    def _values(self) -> dict[str, exp.Expr]:
        """The columns of the rows of the window, as parts."""
        system: dict[str, exp.Expr] = {name: column(name) for name in ("ts", "seq", "_expires")}
        numbers = {NTH: column(NTH)} if self.below.last else {}
        return {**system, **numbers, **keys_of(self.node), **dict(self.parts.of_rows()), **self.parts.own}

    def _over(self, rows: Selection) -> tuple[query.Aggregate, Flow]:
        flow = Flow(
            (*self.parts.kept, *self.parts.own), self.below.arrivals, rows, size=self.below.size, last=self.below.last
        )
        columns = tuple(part.copy() for part in self.parts.columns)
        by = tuple(column(name) for name in keys_of(self.node))
        return dataclasses.replace(self.node, columns=columns, group_by=by), flow

    def edges(self, values: Mapping[str, exp.Expr]) -> exp.Query:
        """The rows that are not in the windows of all arrivals, in their order: those that leave some, and the arrivals."""
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

    def staying(self) -> exp.Expr:
        """Of one aggregate without groups, that of all rows that are in the windows of all arrivals; 0 for none."""
        (total,) = self.parts.of_parts()
        select = exp.select(total).from_(self._staying().as_("p", quoted=True))
        return exp.Coalesce(this=exp.Subquery(this=select), expressions=[number(0)])

    def _staying(self) -> exp.Subquery:
        """The panes that are in the windows of all arrivals, of their groups."""
        keys = list(keys_of(self.node))
        newest = aliased(last_arrival(self.below), "ts")
        before = aliased(exp.Sub(this=first_arrival("seq", self.below), expression=number(1)), "seq")
        moments = exp.select(newest, before, *map(column, keys))
        if keys:
            groups = self.below.arrivals.project(keys_of(self.node)).select().distinct()
            moments = moments.from_(derived_table(groups, "g"))
        return exp.Subquery(this=self._panes(exp.Subquery(this=moments), ["seq", *keys], ("ts", UNTIL)))

    # The panes of a window ------------------------------------------------------------------------------------------------

    def _panes(
        self, moments: exp.Subquery, carried: Sequence[str], told: Sequence[str] = (), until: str = "seq"
    ) -> exp.Query:
        """For each of the moments `t` the panes of its window, up to its number `until`.

        Columns of `t` are `carried`, and of the panes `told`.
        """
        start = exp.select(*(column_of("t", name) for name in carried)).from_(moments.as_("t", quoted=True))
        selects = [
            found.select(*(aliased(self._of(level, name), name) for name in (*told, *self.parts.kept)))
            for level in range(len(self.levels))
            for found in self._in_window(level, start, until)
        ]
        return exp.union(*selects, distinct=False) if len(selects) > 1 else selects[0]

    def _in_window(self, level: int, start: exp.Select, until: str) -> Iterator[exp.Select]:
        """The panes of a level that are told as they are; of the rows those that came before the moment."""
        before = exp.LTE(this=self._of(0, UNTIL), expression=column_of("t", until))
        within = exp.GT(this=self._of(level, "ts"), expression=self._since())
        for found in self._begun(level, start):
            yield found.where(within if level else before)

    def _begun(self, level: int, start: exp.Select) -> Iterator[exp.Select]:
        """Those of a level that are in the window, or begin to leave it, and in no pane that is in it whole.

        They have come after all panes of the level above, or have gone into one that has begun to leave.
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
        for opened in self._begun(above, start):
            yield self._joined(opened.where(leaving), level, in_window, *inside)

    def _joined(self, found: exp.Select, level: int, *conditions: exp.Expr) -> exp.Select:
        """With the panes of a level for which this is true, and which are of the same group."""
        rows = self.levels[level]
        of_group = [self._grouped(level, key) for key in keys_of(self.node)]
        on = exp.and_(*of_group, *conditions, *rows.conditions_of(_alias(level)))
        joined = found.join(rows.item(_alias(level)), on=on)
        joined.args["joins"][-1].meta[NESTED_LOOP] = True
        return joined

    def _grouped(self, level: int, key: str) -> exp.Expr:
        """Whether it is of the moment's group. No index has the rows by group, and SQLite is not to make one for it."""
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


def _without_window(node: query.Node) -> query.Node:
    """The tree without its window: what enters it."""
    if isinstance(node, query.Window):
        return node.input
    assert isinstance(node, (query.Filter, query.Map))
    return dataclasses.replace(node, input=_without_window(node.input))


# The levels -----------------------------------------------------------------------------------------------------------


def _newest(level: Selection, name: str, otherwise: int) -> exp.Expr:
    """The greatest of a column of a level."""
    newest = exp.Subquery(this=exp.select(exp.Max(this=column(name))).from_(level.source.copy()))
    return exp.Coalesce(this=newest, expressions=[number(otherwise)])


def _add_level(operator: Operator, name: str, below: Selection, parts: Parts, keys: Sequence[str]) -> Selection:
    """Makes the table of the panes that are made of those of the level `below`."""
    columns = ["ts", _LAST, UNTIL, _ROWS, *keys, *parts.kept]
    panes = _together(below.select(), keys, parts)
    add_table(operator, name, panes, tuple(dict.fromkeys([(*keys, _LAST), (_LAST,), (UNTIL,)])), is_late=True)
    return Selection.of(table(name), columns)


def _together(rows: exp.Select, keys: Sequence[str], parts: Parts, by: Sequence[str] = ()) -> exp.Select:
    """Panes made of rows or of panes."""
    edges = {"ts": exp.Min(this=column("ts")), _LAST: exp.Max(this=column(_LAST)), UNTIL: exp.Max(this=column(UNTIL))}
    made = exp.select(
        *(aliased(exp.cast(edge, "BIGINT"), name) for name, edge in edges.items()),
        aliased(exp.cast(exp.Sum(this=column(_ROWS)), "BIGINT"), _ROWS),
        *map(column, keys),
        *parts.of_parts(),
    )
    made = made.from_(derived_table(rows, "r"))
    return made.group_by(*map(column, (*by, *keys))) if keys or by else made


def _fold(
    levels: Sequence[Selection], place: int, count: int, size: int, parts: Parts, keys: Sequence[str]
) -> PaneInsert:
    """Makes panes of the level above of what is in none yet, if that is `count` rows at least and a window may hold it."""
    table_above = cast("exp.Table", levels[place + 1].source).name
    write = StatementWriter(lambda: _folded(levels, place, count, size, parts, keys))
    return PaneInsert(table_above, Variants(write), every=count)


def _folded(
    levels: Sequence[Selection], place: int, count: int, size: int, parts: Parts, keys: Sequence[str]
) -> exp.Select:
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
    return _together(with_columns(counted, _pane=pane).where(enough), keys, parts, ["_pane"])


def _purge(level: Selection, size: int) -> Purge:
    """Panes that have left all windows; but the newest one stays, as it says what is in a pane."""
    gone = exp.LTE(this=column(_LAST), expression=ago(size))
    newest = exp.Subquery(this=exp.select(exp.Max(this=column(UNTIL))).from_(level.source.copy()))
    older = exp.LT(this=column(UNTIL), expression=newest)
    return Purge(cast("exp.Table", level.source).name, exp.and_(gone, older))
