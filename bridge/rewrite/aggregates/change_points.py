"""Aggregates told at every change of their window, in one pass: its moments are rows, too, which no aggregate counts.

What enters is there anyway. For each instant at which time puts rows out, a row without values stands before what
comes then: its frame is the window as that instant leaves it. EMIT ON CHANGE wants the same moments, but tells nothing
of groups that have gone, and those of an instant in the order of their oldest rows that are left. Of last rows (ROWS)
a row without values stands after the one that pushes a row of another group out.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping

from sqlglot import exp

from bridge import query
from bridge.rewrite.aggregates.frames import Told, aggregates, arrived, by_index, keys_of, last_rows, listed
from bridge.rewrite.aggregates.on_change import told_at
from bridge.rewrite.aggregates.panes import UNTIL
from bridge.rewrite.aggregates.partials import Parts, nothing_of
from bridge.rewrite.flow import AT_LEAST, NTH, Flow, Need, Selection
from bridge.rewrite.network import Network, clock
from bridge.rewrite.windows.expiry import evicting_inputs, expires_in_push
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

Rows = tuple[query.Aggregate, Flow, Told]
"""An aggregate over other rows than its window has, and which of them are told."""

_THERE = "_there"
"""What rows of the window have, and moments have not."""

_COUNT, _OLDEST = "_count", "_oldest"
"""Of the rows that are left: how many they are, and the number of the first one."""


def moments_of(node: query.Aggregate, below: Flow, network: Network) -> OfTime | OfRows | None:
    """Those of a window whose rows time alone ends, or the number of those that come; None for any other."""
    if below.timed or below.order or below.jumping:
        return None
    if not below.counted and below.size not in (None, NEVER):
        return OfTime(node, below)
    triggers = evicting_inputs(node)
    if not last_rows(node, below) or len(triggers) != 1:
        return None
    return OfRows(node, below, network.rewrite(triggers[0], Need.ARRIVALS))


@dataclasses.dataclass(frozen=True)
class _Moments(abc.ABC):
    """The moments of an aggregate over a window."""

    node: query.Aggregate
    below: Flow

    @property
    def asked(self) -> query.Aggregate:
        """The aggregate with what has to be known of each moment."""
        if self.node.every_change:
            return self.node
        left = (aliased(exp.Count(this=exp.Star()), _COUNT), aliased(exp.Min(this=column("seq")), _OLDEST))
        return dataclasses.replace(self.node, columns=(*self.node.columns, *left))

    def told(self, found: exp.Select) -> exp.Select:
        """What is told of them, in its order."""
        if self.node.every_change:
            return found
        place = aliased(row_number([column("ts"), column("seq")], [column(_OLDEST)]), "_place")
        names = (*self._keys, *(item.alias for item in self.node.columns))
        told = exp.select(*map(column, ("ts", "seq", "_expires")), place, *map(column, names)).from_(
            derived_table(found, "o")
        )
        is_left = exp.GT(this=column(_COUNT), expression=number(0))
        return told.where(is_left) if self.node.group_by else told

    def in_frames(self) -> Rows | None:
        """The aggregate over the rows and the moments; None where one asks for rows by their places in the window."""
        by_place = (exp.First, exp.Last, exp.NthValue, exp.ArrayAgg)
        if any(isinstance(call, by_place) for call in aggregates(self.node)):
            return None
        values: dict[exp.Expr, str] = {}

        def kept(value: exp.Expr) -> exp.Expr:
            return column(values.setdefault(value, f"_value{len(values)}"))

        def over_kept(call: exp.Expr) -> exp.Expr:
            if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
                return exp.Count(this=column(_THERE))
            call = call.copy()
            if isinstance(call.this, exp.Distinct):
                call.this.set("expressions", [kept(value) for value in call.this.expressions])
            else:
                call.set("this", kept(call.this))
            return call

        node, keys = self.asked, [column(name) for name in self._keys]
        columns = tuple(aliased(listed(item.this, node, keys, over_kept), item.alias) for item in node.columns)
        of_rows: dict[str, exp.Expr] = {name: value for value, name in values.items()} | {_THERE: number(1)}
        return self._over(columns, of_rows, dict.fromkeys(of_rows, exp.null()))

    def in_parts(self, parts: Parts) -> Rows:
        """The aggregate over the parts that these rows are."""
        nothing = {name: nothing_of(call) for name, call in parts.kept.items()}
        return self._over(tuple(part.copy() for part in parts.columns), dict(parts.of_rows()), nothing)

    @abc.abstractmethod
    def _over(
        self, columns: tuple[exp.Expr, ...], of_rows: Mapping[str, exp.Expr], of_moments: Mapping[str, exp.Expr]
    ) -> Rows:
        """The aggregate over the union of both."""

    def _of(self, columns: tuple[exp.Expr, ...]) -> query.Aggregate:
        return dataclasses.replace(self.node, columns=columns, group_by=tuple(map(column, self._keys)))

    @property
    def _keys(self) -> dict[str, exp.Expr]:
        return keys_of(self.node)

    @property
    def _system(self) -> dict[str, exp.Expr]:
        """The columns of an arrival; EMIT ON CHANGE tells until when it counts."""
        expires = bigint_never() if self.node.every_change else column("_expires")
        place = exp.cast(number(1), "BIGINT")
        return {"ts": column("ts"), "seq": column("seq"), "_expires": expires, "_place": place, **self._keys}


class OfTime(_Moments):
    """Rows leave at an instant, before what comes then."""

    def _over(
        self, columns: tuple[exp.Expr, ...], of_rows: Mapping[str, exp.Expr], of_moments: Mapping[str, exp.Expr]
    ) -> Rows:
        assert self.below.content is not None
        content, size = self.below.content, number(self.below.size or 0)
        size.meta[AT_LEAST] = True
        seen = exp.GT(this=content.columns["ts"].copy(), expression=exp.Sub(this=clock("before"), expression=size))
        rows = content.project({**self._system, **of_rows})
        rows = dataclasses.replace(rows, conditions=(*rows.conditions, seen))
        left = self._left().select(*(aliased(value.copy(), name) for name, value in of_moments.items()))
        both = exp.Subquery(this=exp.union(rows.select(), left, distinct=False))
        flow = Flow(
            tuple(of_rows), self.below.arrivals, Selection.of(both, rows.columns),
            order=("_place",), timed=True, size=self.below.size,
        )  # fmt: skip
        is_moment = exp.EQ(this=column("seq"), expression=number(0))
        return self._of(columns), flow, Told((), exp.or_(is_moment, arrived(self.below)))

    def listed(self) -> exp.Query:
        """The moments, each with the number of the newest row that has come by then."""
        arrivals = self.below.arrivals.project({**self._system, UNTIL: column("seq")}).select()
        later = self.below.arrivals.project({name: column(name) for name in ("ts", "seq")}).select()
        first = exp.select(exp.Min(this=column_of("l", "seq"))).from_(derived_table(later, "l"))
        first = first.where(exp.GTE(this=column_of("l", "ts"), expression=column_of("m", "ts")))
        before = exp.Coalesce(this=exp.Subquery(this=first), expressions=[number(NEVER)])
        until = aliased(exp.Sub(this=before, expression=number(1)), UNTIL)
        left = exp.select(*(column_of("m", name) for name in self._system), until).from_(
            derived_table(self._left(), "m")
        )
        return exp.union(arrivals, left, distinct=False)

    def _left(self) -> exp.Select:
        """The instants at which time has put rows of a group out, of each instant in the order of the oldest of them."""
        assert self.below.content is not None
        content = self.below.content
        rows = content.project({"ts": column("_expires"), "seq": column("seq"), **self._keys})
        rows = dataclasses.replace(rows, conditions=(*content.conditions, *expires_in_push(self.below)))
        place = row_number([column("ts")], [exp.Min(this=column("seq"))])
        system = {"seq": bigint_zero(), "_expires": bigint_never(), "_place": place}
        found = exp.select(
            column("ts"), *(aliased(value, name) for name, value in system.items()), *map(column, self._keys)
        )
        return found.from_(derived_table(rows.select(), "m")).group_by(column("ts"), *map(column, self._keys))


@dataclasses.dataclass(frozen=True)
class OfRows(_Moments):
    """A row leaves as another one comes, of those that are `pushing`, whichever the filters above the window show."""

    pushing: Flow

    def _over(
        self, columns: tuple[exp.Expr, ...], of_rows: Mapping[str, exp.Expr], of_moments: Mapping[str, exp.Expr]
    ) -> Rows:
        assert self.below.content is not None
        rows = self.below.content.project({**self._system, NTH: column(NTH), **of_rows})
        left = exp.select(*map(column, (*self._system, NTH)), *(aliased(v.copy(), n) for n, v in of_moments.items()))
        both = exp.Subquery(this=exp.union(rows.select(), left.from_(derived_table(self._left(), "m")), distinct=False))
        flow = Flow(
            tuple(of_rows), self.below.arrivals, Selection.of(both, rows.columns), order=("_place",), last=self.below.last
        )  # fmt: skip
        return self._of(columns), flow, Told((), arrived(self.pushing))

    def _left(self) -> exp.Select:
        """The moments after those that come, as of the row that comes: of the groups that it takes a row from."""
        assert self.below.content is not None and self.below.last is not None
        content, (size, by, _) = self.below.content, self.below.last
        groups = {f"_by{place}": key for place, key in enumerate(by)}
        moment = {
            "ts": column("_out_ts"),
            "seq": column("_out"),
            NTH: exp.Add(this=column(NTH), expression=number(size)),
        }
        rows = content.project({**self._system, **moment, "_place": exp.cast(number(2), "BIGINT")})
        shown = exp.Case().when(exp.and_(*(content.conditions or [exp.true()])), number(1)).else_(number(0))
        held = dataclasses.replace(rows, columns={**rows.columns, **groups, "_shown": shown}, conditions=())

        def pushing(name: str) -> exp.Expr:
            lead = exp.Lead(this=column(name), offset=number(size))
            return over(lead, map(column, groups), [column(NTH)])

        told = {name: pushing(name) for name in (*self._keys, "_shown")}
        found = with_columns(held.select(), **{f"{name}_after": value for name, value in told.items()})
        one_group = [null_safe_equal(column(name), column(f"{name}_after")) for name in self._keys]
        is_told = _unless(column("_shown_after").eq(1), *one_group)
        in_push = exp.LT(this=column("seq"), expression=number(NEVER))
        return with_columns(found).where(column("_shown").eq(1), arrived(self.pushing), in_push, is_told)

    def sought(self, network: Network) -> exp.Select:
        """The moments joined with the rows that are left then: an index finds these, and the row that leaves."""
        kept, since = by_index(self.node, self.below)
        come = exp.LTE(this=column_of("w", "seq"), expression=column_of("t", "seq"))
        own = {name: value for name, value in self._system.items() if name != "_place"}
        entering = self.below.arrivals.project({**own, "_age": number(1)}).select()
        moments = exp.union(entering, self._pushed(kept), distinct=False)
        return told_at(self.node, self.below, network, moments, (kept, [come, since]))

    def _pushed(self, kept: Selection) -> exp.Select:
        """Of each row `a` that comes the one `p` that it pushes out, if it is of another group."""
        assert self.below.last is not None
        size, by, table = self.below.last
        alike = [null_safe_equal(table.value(key, "o"), table.value(key, "a")) for key in by]
        older = exp.LT(this=column_of("o", "seq"), expression=column_of("a", "seq"))
        first = exp.select(column_of("o", "seq")).from_(table.item("o")).where(*alike, older)
        first = first.order_by(exp.Ordered(this=column_of("o", "seq"), desc=True)).limit(1).offset(size - 1)
        keys = self._keys
        one_group = [null_safe_equal(kept.value(key, "p"), kept.value(key, "a")) for key in keys.values()]
        told = (
            {"_expires": number(NEVER)}
            | {name: kept.value(key, "p") for name, key in keys.items()}
            | {"_age": number(2)}
        )
        select = exp.select(
            column_of("a", "ts"), column_of("a", "seq"), *(aliased(value, name) for name, value in told.items())
        )
        arrivals = derived_table(self.pushing.arrivals.select(["seq"]), "i")
        pushed = exp.EQ(this=column_of("p", "seq"), expression=exp.Subquery(this=first))
        select = select.from_(arrivals).join(
            table.item("a"), on=exp.EQ(this=column_of("a", "seq"), expression=column_of("i", "seq"))
        )
        select = select.join(table.item("p"), on=pushed)
        return select.where(*kept.conditions_of("p"), _unless(*kept.conditions_of("a"), *one_group))


def _unless(*conditions: exp.Expr) -> exp.Expr:
    """Whether these are not all true."""
    return exp.Case().when(exp.and_(*(conditions or [exp.true()])), number(0)).else_(number(1)).eq(1)
