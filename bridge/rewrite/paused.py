"""Rows told unless one of the same keys was told a while before (EPL's output first every 5 sec, of groups)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from bridge import query
from bridge.flow import Flow, Selection, called, derived, named, of, table
from bridge.plan import Insert, Operator, Purge
from bridge.rewrite.network import Network, add_table, ago
from bridge.scope import column
from windows.databases import Database


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

    newest = exp.select(*map(column, keys), named(exp.Max(this=column("ts")), "_ts")).from_(table(last))
    listed = exp.select(*map(column, (*moment, *keys))).from_(derived(rows.select(), "a"))
    database = network.database
    newest, listed = newest.group_by(*map(column, keys)), listed.order_by(*map(column, below.key))
    asked = Asked(database.render(newest), database.render(listed), database.quoted(told))
    operator.steps.append(Pausing(told, asked, node.time, len(moment)))
    kept = exp.select(*(of("a", name) for name in rows.columns))
    kept = kept.from_(derived(rows.select(), "a")).where(_is_told(told, moment))
    operator.steps.append(Insert(last, kept))
    operator.purges.append(Purge(last, exp.LTE(this=column("ts"), expression=ago(node.time))))
    names = [*below.system, *below.names]
    found = exp.select(*(of("a", name) for name in names))
    found = found.from_(derived(below.arrivals.select(names), "a"))
    return Selection.of(exp.Subquery(this=found.where(_is_told(told, moment))), names)


def _is_told(told: str, moment: tuple[str, ...]) -> exp.Expr:
    same = [exp.EQ(this=of("k", name), expression=of("a", name)) for name in moment]
    return exp.Exists(this=exp.select(exp.Literal.number(1)).from_(called(told, "k")).where(*same))


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
