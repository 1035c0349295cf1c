"""The results of one event or instant among themselves: each once, in an order, the first so many; and the first of many."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, add_table, ago, arrived, rewrite
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.windows.jumps import first_time, number_rows
from windows.databases import Database
from windows.sql import (
    aliased,
    aliased_table,
    column,
    column_of,
    derived_table,
    floor_to_multiple,
    number,
    over,
    row_number,
    table,
)

MOMENT = ("ts", "seq")


@rewrite.register
def _(node: query.OrderLimitDistinct, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        rows = _arranged(node, below)
        operator.result = Flow(below.names, rows, order=("_place",), timed=below.timed, hidden=below.hidden)

    return network.give(network.operator(node, build, "OrderLimitDistinct"), node, need)


def _arranged(node: query.OrderLimitDistinct, below: Flow) -> Selection:
    own = [*MOMENT, "_expires", *below.names]
    rows = below.arrivals.select(dict.fromkeys([*own, *below.order]))
    place = row_number(map(column, MOMENT), map(column, below.order or ("seq",)))
    select = exp.select(*map(column, own), aliased(place, "_place")).from_(derived_table(rows, "a"))
    if node.distinct:
        seen = [name for name in below.names if name not in below.hidden]
        select = _first_of(select, own, map(column, seen), [column("_place")])
    if node.last_of is not None:
        select = _last_of(select, own, node.last_of)
    terms = [_least_first(term) for term in node.order_by]
    ranked = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(name) for name in MOMENT],
        order=exp.Order(expressions=[*terms, exp.Ordered(this=column("_place"))]),
    )
    select = exp.select(*map(column, own), aliased(ranked, "_rank")).from_(derived_table(select, "r"))
    told = exp.select(*map(column, own), aliased(column("_rank"), "_place")).from_(derived_table(select, "t"))
    if node.offset:
        told = told.where(exp.GT(this=column("_rank"), expression=number(node.offset)))
    if node.limit is not None:
        told = told.where(exp.LTE(this=column("_rank"), expression=number(node.offset + node.limit)))
    return Selection.of(exp.Subquery(this=told), [*own, "_place"])


def _first_of(
    select: exp.Select, own: Sequence[str], keys: Iterable[exp.Expr], order: Sequence[exp.Expr]
) -> exp.Select:
    """Of the rows of one moment that are equal in the keys the first."""
    number_of = over(exp.RowNumber(), [*map(column, MOMENT), *keys], order)
    counted = exp.select(*map(column, (*own, "_place")), aliased(number_of, "_n")).from_(derived_table(select, "d"))
    first = exp.select(*map(column, (*own, "_place"))).from_(derived_table(counted, "f"))
    return first.where(exp.EQ(this=column("_n"), expression=number(1)))


def _last_of(select: exp.Select, own: Sequence[str], keys: Sequence[exp.Expr]) -> exp.Select:
    """Of the rows of one moment and group the last, where the group's first one was."""
    groups = [*map(column, MOMENT), *keys]
    begins = over(exp.Min(this=column("_place")), groups, [])
    ends = over(exp.Max(this=column("_place")), groups, [])
    names = map(column, (*own, "_place"))
    both = exp.select(*names, aliased(begins, "_first"), aliased(ends, "_last")).from_(derived_table(select, "g"))
    last = exp.select(*map(column, own), aliased(column("_first"), "_place")).from_(derived_table(both, "l"))
    return last.where(exp.EQ(this=column("_place"), expression=column("_last")))


def _least_first(term: exp.Ordered) -> exp.Ordered:
    descending = bool(term.args["desc"])
    return exp.Ordered(this=term.this.copy(), desc=descending, nulls_first=not descending)


# Throttle -------------------------------------------------------------------------------------------------------------


@rewrite.register
def _(node: query.Throttle, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        make = _by_count if node.count else after_pauses if node.partition_by else _by_time
        rows = make(operator, node, network, below)
        operator.result = Flow(below.names, rows, order=below.order, timed=below.timed, hidden=below.hidden)

    return network.give(network.operator(node, build, "Throttle"), node, need)


def _by_count(operator: Operator, node: query.Throttle, network: Network, below: Flow) -> Selection:
    """The rows whose number in the stream, or of their keys, is 1, count + 1, …"""
    assert node.count is not None
    raw = network.name("raw", node)
    number_rows(operator, raw, below, {f"_key{place}": key for place, key in enumerate(node.partition_by)}, 1)
    names = [*below.system, *below.names]
    before = exp.paren(exp.Sub(this=column_of("t", "_number"), expression=number(1)))
    first = exp.EQ(this=exp.Mod(this=before, expression=number(node.count)), expression=number(0))
    rows = exp.select(*(column_of("t", name) for name in names)).from_(aliased_table(raw, "t"))
    return Selection.of(exp.Subquery(this=rows.where(arrived("t", below), first)), names)


def _by_time(operator: Operator, node: query.Throttle, network: Network, below: Flow) -> Selection:
    """The first row of each period; what was told last is noted, with its period."""
    assert node.time is not None
    origin = first_time(operator, node, network, below)
    told, moment = network.name("told", node), (*MOMENT, *below.order)
    period = floor_to_multiple(exp.paren(exp.Sub(this=column_of("a", "ts"), expression=origin)), node.time)
    rows = exp.select(*(column_of("a", name) for name in moment), aliased(period, "_step")).from_(
        derived_table(below.arrivals.select(), "a")
    )
    place = row_number([column("_step")], map(column, below.key))
    ranked = exp.select(*map(column, (*moment, "_step")), aliased(place, "_n")).from_(derived_table(rows, "r"))
    known = exp.select(number(1)).from_(aliased_table(told, "k"))
    known = known.where(exp.EQ(this=column_of("k", "_step"), expression=column_of("f", "_step")))
    first = exp.select(*(column_of("f", name) for name in (*moment, "_step"))).from_(derived_table(ranked, "f"))
    first = first.where(exp.EQ(this=column_of("f", "_n"), expression=number(1)), exp.Not(this=exp.Exists(this=known)))
    add_table(operator, told, rows)
    operator.steps.append(Insert(told, first))
    operator.purges.append(Purge(told, _older(told)))
    itself = [exp.EQ(this=column_of("k", name), expression=column_of("a", name)) for name in moment]
    is_told = exp.Exists(this=exp.select(number(1)).from_(aliased_table(told, "k")).where(*itself))
    names = [*below.system, *below.names]
    result = (
        exp.select(*(column_of("a", name) for name in names))
        .from_(derived_table(below.arrivals.select(names), "a"))
        .where(is_told)
    )
    return Selection.of(exp.Subquery(this=result), names)


def _older(told: str) -> exp.Expr:
    """Whether a line is not the one of the newest period."""
    newest = exp.select(aliased(exp.Max(this=column("_step")), "_step")).from_(table(told))
    wrapped = exp.select(column("_step")).from_(derived_table(newest, "m"))
    return exp.LT(this=column("_step"), expression=exp.Subquery(this=wrapped))


# Rows told unless one of the same keys was told a while before (EPL's output first every 5 sec, of groups)


def after_pauses(operator: Operator, node: query.Throttle, network: Network, below: Flow) -> Selection:
    """The rows that a step finds, `node.time` or more after the last one told of their keys, which a table keeps."""
    assert node.time is not None
    moment = ("ts", "seq", *below.order)
    keys = {f"_key{place}": key for place, key in enumerate(node.partition_by)}
    rows = below.arrivals.project({**{name: column(name) for name in moment}, **keys})
    told, last = network.name("told", node), network.name("last", node)
    add_table(operator, told, below.arrivals.select(moment))
    add_table(operator, last, rows.select())
    operator.inboxes.append(told)

    newest = exp.select(*map(column, keys), aliased(exp.Max(this=column("ts")), "_ts")).from_(table(last))
    listed = exp.select(*map(column, (*moment, *keys))).from_(derived_table(rows.select(), "a"))
    database = network.database
    newest, listed = newest.group_by(*map(column, keys)), listed.order_by(*map(column, below.key))
    asked = Asked(database.render(newest), database.render(listed), database.quoted(told))
    operator.steps.append(Pausing(told, asked, node.time, len(moment)))
    kept = exp.select(*(column_of("a", name) for name in rows.columns))
    kept = kept.from_(derived_table(rows.select(), "a")).where(_is_told(told, moment))
    operator.steps.append(Insert(last, kept))
    operator.purges.append(Purge(last, exp.LTE(this=column("ts"), expression=ago(node.time))))
    names = [*below.system, *below.names]
    found = exp.select(*(column_of("a", name) for name in names))
    found = found.from_(derived_table(below.arrivals.select(names), "a"))
    return Selection.of(exp.Subquery(this=found.where(_is_told(told, moment))), names)


def _is_told(told: str, moment: tuple[str, ...]) -> exp.Expr:
    same = [exp.EQ(this=column_of("k", name), expression=column_of("a", name)) for name in moment]
    return exp.Exists(this=exp.select(exp.Literal.number(1)).from_(aliased_table(told, "k")).where(*same))


@dataclasses.dataclass(frozen=True)
class Asked:
    """The statements that give the last time of each key's, and the rows; and the name of the table of those told."""

    last: str
    rows: str
    told: str


@dataclasses.dataclass
class Pausing:
    """A step: which of the rows come so long after the last one told of their keys; `width`: the columns of a moment."""

    table: str
    asked: Asked
    time: int
    width: int

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Note the moments of the rows to be told."""
        last: dict[tuple[Any, ...], int] = {tuple(row[:-1]): row[-1] for row in database.fetch(self.asked.last)}
        found = []
        for row in database.fetch(self.asked.rows):
            keys = tuple(row[self.width :])
            if keys not in last or row[0] - last[keys] >= self.time:
                last[keys] = row[0]
                found.append(tuple(row[: self.width]))
        if found:
            database.insert(self.asked.told, self.width, found)

    def forget(self) -> None:
        """Nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statements whose rows it goes through."""
        title = f"-- of these rows, those {self.time} ms after the last one told of their keys go to {self.asked.told}"
        return f"{title}\n{pretty(self.asked.rows)};\n-- which is\n{pretty(self.asked.last)};"
