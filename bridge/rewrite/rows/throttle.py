"""Throttling: the first of every n rows, of each period, or of each key after a pause (EPL's output first)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from bridge import query
from bridge.query.epl_output import FirstEvents
from bridge.rewrite.computable import AfterPauses, Mark
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.state_tables import add_table, ago, arrived
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


@rewrite.register
def _(node: query.Throttle, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        rewritten = _every_nth if node.count else _after_pauses if node.partition_by else _of_periods
        rows = rewritten(operator, node, network, below)
        operator.result = Flow(below.names, rows, order=below.order, timed=below.timed, hidden=below.hidden)

    return network.give(network.operator(node, build, "Throttle"), node, need)


def _every_nth(operator: Operator, node: query.Throttle, network: Network, below: Flow) -> Selection:
    """The rows whose number in the stream, or per key, is 1, count + 1, …"""
    assert node.count is not None
    raw = network.name("raw", node)
    number_rows(operator, raw, below, {f"_key{place}": key for place, key in enumerate(node.partition_by)}, 1)
    names = [*below.system, *below.names]
    before = exp.paren(exp.Sub(this=column_of("t", "_number"), expression=number(1)))
    first = exp.EQ(this=exp.Mod(this=before, expression=number(node.count)), expression=number(0))
    rows = exp.select(*(column_of("t", name) for name in names)).from_(aliased_table(raw, "t"))
    return Selection.of(exp.Subquery(this=rows.where(arrived("t", below), first)), names)


def _of_periods(operator: Operator, node: query.Throttle, network: Network, below: Flow) -> Selection:
    """The first row of each period, or all rows of its event. A table has the reported rows with their periods."""
    assert node.time is not None
    origin = first_time(operator, node, network, below)
    reported, identity = network.name("reported", node), ("ts", "seq", *below.order)
    period = floor_to_multiple(exp.paren(exp.Sub(this=column_of("a", "ts"), expression=origin)), node.time)
    rows = exp.select(*(column_of("a", name) for name in identity), aliased(period, "_step"))
    rows = rows.from_(derived_table(below.arrivals.select(), "a"))
    place = row_number([column("_step")], map(column, below.key))
    if isinstance(node, FirstEvents):
        place = over(exp.Rank(), [column("_step")], [column(name) for name in below.key if name not in below.order])
    ranked = exp.select(*map(column, (*identity, "_step")), aliased(place, "_n")).from_(derived_table(rows, "r"))
    known = exp.select(number(1)).from_(aliased_table(reported, "k"))
    known = known.where(exp.EQ(this=column_of("k", "_step"), expression=column_of("f", "_step")))
    first = exp.select(*(column_of("f", name) for name in (*identity, "_step"))).from_(derived_table(ranked, "f"))
    first = first.where(exp.EQ(this=column_of("f", "_n"), expression=number(1)), exp.Not(this=exp.Exists(this=known)))
    add_table(operator, reported, rows)
    operator.steps.append(Insert(reported, first))
    newest = exp.select(aliased(exp.Max(this=column("_step")), "_step")).from_(table(reported))
    newest = exp.select(column("_step")).from_(derived_table(newest, "m"))
    operator.purges.append(Purge(reported, exp.LT(this=column("_step"), expression=exp.Subquery(this=newest))))
    return _reported(reported, identity, below)


def _reported(reported: str, identity: tuple[str, ...], below: Flow, mark: Mark | None = None) -> Selection:
    """The arrivals that are in the table of reported rows."""
    names = [*below.system, *below.names]
    rows = exp.select(*(column_of("a", name) for name in names)).from_(derived_table(below.arrivals.select(names), "a"))
    rows = rows.where(_is_in(reported, identity))
    return Selection.of(exp.Subquery(this=rows if mark is None else mark.of(rows)), names)


def _is_in(reported: str, identity: tuple[str, ...]) -> exp.Expr:
    same = [exp.EQ(this=column_of("k", name), expression=column_of("a", name)) for name in identity]
    return exp.Exists(this=exp.select(number(1)).from_(aliased_table(reported, "k")).where(*same))


def _after_pauses(operator: Operator, node: query.Throttle, network: Network, below: Flow) -> Selection:
    """The rows that come `node.time` or more after the last reported row of their key, found by a step."""
    assert node.time is not None
    identity = ("ts", "seq", *below.order)
    keys = {f"_key{place}": key for place, key in enumerate(node.partition_by)}
    rows = below.arrivals.project({**{name: column(name) for name in identity}, **keys})
    reported, last = network.name("reported", node), network.name("last", node)
    add_table(operator, reported, below.arrivals.select(identity))
    add_table(operator, last, rows.select())
    operator.inboxes.append(reported)
    newest = exp.select(*map(column, keys), aliased(exp.Max(this=column("ts")), "_ts")).from_(table(last))
    newest = newest.group_by(*map(column, keys))
    arrivals = exp.select(*map(column, (*identity, *keys))).from_(derived_table(rows.select(), "a"))
    arrivals = arrivals.order_by(*map(column, below.key))
    database = network.database
    texts = database.render(newest), database.render(arrivals), database.quoted(reported)
    operator.steps.append(PauseStep(reported, *texts, node.time, len(identity)))
    kept = exp.select(*(column_of("a", name) for name in rows.columns))
    kept = kept.from_(derived_table(rows.select(), "a")).where(_is_in(reported, identity))
    operator.steps.append(Insert(last, kept))
    operator.purges.append(Purge(last, exp.LTE(this=column("ts"), expression=ago(node.time))))
    every = below.arrivals.project({**{name: column(name) for name in below.arrivals.columns}, **keys}).select()
    return _reported(reported, identity, below, AfterPauses(texts[0], every, tuple(keys), below.key, node.time))


@dataclasses.dataclass
class PauseStep:
    """A step that finds the rows that come `time` milliseconds or more after the last reported row of their key.

    Args:
        last: the statement of each key's last reported timestamp.
        arrivals: the statement of the arrivals, each with `width` columns that identify it, then its key.
        quoted: the table that gets the rows to report.
    """

    table: str
    last: str
    arrivals: str
    quoted: str
    time: int
    width: int
    is_unfailing: ClassVar[bool] = True

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Inserts the rows to report."""
        last: dict[tuple[Any, ...], int] = {tuple(row[:-1]): row[-1] for row in database.fetch(self.last)}
        reported = []
        for row in database.fetch(self.arrivals):
            key = tuple(row[self.width :])
            if key not in last or row[0] - last[key] >= self.time:
                last[key] = row[0]
                reported.append(tuple(row[: self.width]))
        if reported:
            database.insert(self.quoted, self.width, reported)

    def forget(self) -> None:
        """Does nothing, as nothing is remembered."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The statements whose rows the step reads."""
        title = f"-- of these rows, those {self.time} ms after the last reported row of their key go to {self.quoted}"
        return f"{title}\n{pretty(self.arrivals)};\n-- which is\n{pretty(self.last)};"
