"""Windows whose rows leave as others come, or stay away: sessions (W8), the first in an order (W9), the last so far (W10)."""

from __future__ import annotations

import bisect
import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from bridge import query
from bridge.query.nodes import Node
from bridge.rewrite.flow import OUT, Flow, Selection
from bridge.rewrite.network import Network, add_table
from bridge.rewrite.plan import Call, Operator, Purge
from windows.databases import Database
from windows.extents import Top, Trailing
from windows.sql import aliased, aliased_table, bigint_zero, column, column_of, derived_table, number, over
from windows.times import NEVER


def in_sessions(content: Selection, flow: Flow, gap: int, keys: Sequence[exp.Expr]) -> Selection:
    """The content with the end of each row's session, as far as it is known: its newest row's ts + gap.

    A row that comes later makes a session longer only while it is not over, so that whoever asks before then gets the
    same answer.
    """
    order = [column(name) for name in flow.key]
    before = over(exp.Lag(this=column("ts"), offset=number(1)), keys, order)
    away = exp.GTE(this=exp.Sub(this=column("ts"), expression=before), expression=number(gap))
    begins = exp.Case().when(away, number(1)).else_(number(0))
    inner = content.select().select(aliased(begins, "_starts"))
    segment = over(exp.Sum(this=column("_starts")), keys, order)
    middle = exp.select("*", aliased(segment, "_segment")).from_(derived_table(inner, "i"))
    newest = over(exp.Max(this=column("ts")), [*keys, column("_segment")], [])
    names = [name for name in content.columns if name != "_expires"]
    ends = aliased(exp.Add(this=newest, expression=number(gap)), "_expires")
    outer = exp.select(*map(column, names), ends).from_(derived_table(middle, "m"))
    return Selection.of(exp.Subquery(this=outer), content.columns)


def fallen_out(operator: Operator, content: Selection, flow: Flow, node: query.Window, network: Network) -> Selection:
    """The content with the row that made each one fall out of the first rows in an order."""
    extent = node.extent
    assert isinstance(extent, Top)
    order = tuple(Ordering(bool(term.args["desc"])) for term in extent.order)
    values = [*node.partition_by, *extent.last_of, *(term.this for term in extent.order)]
    counts = (2 + len(flow.order), len(node.partition_by), len(extent.last_of))

    def step(outs: str, text: str, quoted: str) -> Falling:
        return Falling(outs, text, quoted, extent.count, counts, order)

    return _noted(operator, content, flow, node, network, values, step)


def trailed(operator: Operator, content: Selection, flow: Flow, node: query.Window, network: Network) -> Selection:
    """The content with the row that each one was too far behind (W10)."""
    extent = node.extent
    assert isinstance(extent, Trailing)
    counts = (2 + len(flow.order), len(node.partition_by))
    values = [*node.partition_by, extent.of if extent.of is not None else column("ts")]

    def step(outs: str, text: str, quoted: str) -> Trimming:
        return Trimming(outs, text, quoted, extent.size, extent.count, counts)

    return _noted(operator, content, flow, node, network, values, step)


def placed(node: Node) -> list[exp.Ordered]:
    """The order of a sorted window, NULL being least: of equal rows the newest is first."""
    window = query.without_filters(node)
    if not isinstance(window, query.Window) or not isinstance(window.extent, Top):
        return []
    terms = [(term.this, bool(term.args["desc"])) for term in window.extent.order]
    terms += [(column(name), True) for name in ("ts", "seq")]
    return [exp.Ordered(this=value.copy(), desc=desc, nulls_first=not desc) for value, desc in terms]


def _noted(
    operator: Operator,
    content: Selection,
    flow: Flow,
    node: query.Window,
    network: Network,
    values: Sequence[exp.Expr],
    step: Callable[[str, str, str], Call],
) -> Selection:
    """The content with the row that put each one out, as a step over these `values` notes them in a table of their own."""
    outs = network.name("outs", node)
    moment = ("ts", "seq", *flow.order)
    shape = exp.select(*(aliased(bigint_zero(), name) for name in (*moment, *OUT)))
    add_table(operator, outs, shape, (("seq",),))
    joined = exp.and_(*(exp.EQ(this=column_of("o", name), expression=column_of("w", name)) for name in moment))
    rows = exp.select(*(column_of("w", name) for name in content.columns)).from_(content.item("w"))
    rows = rows.join(aliased_table(outs, "o"), on=joined, join_type="left")
    never = [exp.Coalesce(this=column_of("o", name), expressions=[number(NEVER)]) for name in OUT]
    left = rows.select(*(aliased(value, name) for value, name in zip(never, OUT, strict=True)))
    listed = exp.select(*map(column, moment), *(aliased(value.copy(), f"_e{at}") for at, value in enumerate(values)))
    here = exp.EQ(this=column(OUT[1]), expression=number(NEVER))
    present = listed.from_(derived_table(left, "q")).where(here).order_by(*map(column, moment))
    text, quoted = network.database.render(present), network.database.quoted(outs)
    operator.steps.append(step(outs, text, quoted))
    kept = (
        exp.select(number(1))
        .from_(content.item("w"))
        .where(*(exp.EQ(this=column_of("w", name), expression=column_of(outs, name)) for name in moment))
    )
    operator.purges.append(Purge(outs, exp.Not(this=exp.Exists(this=kept))))
    return Selection.of(exp.Subquery(this=left), [*content.columns, *OUT])


@dataclasses.dataclass(frozen=True)
class Ordering:
    """How the values of a term of an order compare: NULL is least, the order perhaps descending."""

    descending: bool

    def key(self, value: Any) -> Any:
        found = (value is not None, value if value is not None else 0)
        return _Reversed(found) if self.descending else found


class _Reversed:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)


@dataclasses.dataclass
class Falling:
    """A step: which of the rows in the window, with those that have come, fall out of it, and by which one's coming.

    All rows that are in it are gone through in their order, so nothing is remembered between two pushes. `counts`: of
    the columns, how many are a row's moment, its partition, and what only its last row counts of.
    """

    table: str
    present: str
    outs: str
    count: int
    counts: tuple[int, int, int]
    order: tuple[Ordering, ...]

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Note what this push's rows make fall out."""
        fallen: list[tuple[Any, ...]] = []
        parts: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        at, parted, unique = self.counts
        for place, row in enumerate(database.fetch(self.present)):
            moment, key, same = row[:at], row[at : at + parted], row[at + parted : at + parted + unique]
            ranked = parts.setdefault(key, [])
            out = [*moment, NEVER][: len(OUT)]
            if unique:
                fallen += [(*one[-1], *out) for one in ranked if one[-2] == same]
                ranked[:] = [one for one in ranked if one[-2] != same]
            values = tuple(how.key(value) for how, value in zip(self.order, row[at + parted + unique :], strict=True))
            bisect.insort(ranked, (values, -place, same, moment), key=lambda one: one[:2])
            if len(ranked) > self.count:
                fallen.append((*ranked.pop()[-1], *out))
        if fallen:
            database.insert(self.outs, at + len(OUT), fallen)

    def forget(self) -> None:
        """Nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement whose rows it goes through."""
        return f"-- of these rows, those beyond the first {self.count} go to {self.outs}\n{pretty(self.present)};"


@dataclasses.dataclass
class Trimming:
    """A step: which of the rows in the window are too far behind those that have come, and by which one's coming.

    `counts`: of the columns, how many are a row's moment, and its partition; the last one is how far it is.
    """

    table: str
    present: str
    outs: str
    size: int
    count: int | None
    counts: tuple[int, int]

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Note what this push's rows make leave."""
        left: list[tuple[Any, ...]] = []
        parts: dict[tuple[Any, ...], collections.deque[tuple[Any, tuple[Any, ...]]]] = {}
        at, parted = self.counts
        for row in database.fetch(self.present):
            moment, key, reached = row[:at], row[at : at + parted], row[at + parted]
            inside = parts.setdefault(key, collections.deque())
            inside.append((reached, moment))
            while inside and not self._holds(inside[0][0], reached, len(inside)):
                left.append((*inside.popleft()[1], *[*moment, NEVER][: len(OUT)]))
        if left:
            database.insert(self.outs, at + len(OUT), left)

    def _holds(self, oldest: Any, newest: Any, count: int) -> bool:
        """NULL is as far behind as can be."""
        if oldest is None or newest is None or (self.count is not None and count > self.count):
            return False
        return bool(newest - oldest < self.size)

    def forget(self) -> None:
        """Nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statement whose rows it goes through."""
        return f"-- of these rows, those {self.size} or more behind go to {self.outs}\n{pretty(self.present)};"
