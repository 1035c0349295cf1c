"""Events that are pushed alone: their values stand in the statements in place of the inbox, which need not be filled.

The statements are those of any push. That they are of one event saves them more: its results have one `ts` and `seq`, by
which they need not be sorted; and what joins the inbox of another stream gives nothing, as that is empty.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from bridge.engine.catalogue import StreamEntry
from bridge.engine.results import Report, Reports, Results
from bridge.rewrite import Network
from bridge.rewrite.optimize import optimize
from bridge.rewrite.optimize.rule import Known, OneRow
from bridge.rewrite.plan import Insert, Operator, Purge
from windows.databases import Database
from windows.schema import Attribute

_MARK = re.compile(r"cep_value_(\d+)_cep")

Row = tuple[Any, ...]


class Bound(NamedTuple):
    """A statement's text, and which values of an event's row its marks take, in their order."""

    text: str
    places: tuple[int, ...]

    def run(self, database: Database, row: Row) -> None:
        if self.places:
            database.execute_bound(self.text, [row[place] for place in self.places])
        else:
            database.execute(self.text)

    def read(self, database: Database, row: Row) -> list[Row]:
        if self.places:
            return database.fetch_bound(self.text, [row[place] for place in self.places])
        return database.fetch(self.text)


@dataclasses.dataclass(frozen=True)
class Single:
    """What an event of one stream means, pushed alone: steps, what reads results, the tables that the steps fill."""

    steps: Sequence[Bound]
    reports: Sequence[tuple[Report, Bound]]
    inboxes: frozenset[str]
    timed: bool

    @property
    def asks_once(self) -> bool:
        """Whether nothing is written and one statement reads, so that it needs no transaction around it."""
        return not self.steps and not self.timed and len(self.reports) <= 1

    def run(self, database: Database, row: Row) -> Results:
        for step in self.steps:
            step.run(database, row)
        found: Results = []
        for report, bound in self.reports:
            found += report.sorted_out(bound.read(database, row))
        if len(self.reports) > 1:
            found.sort(key=lambda result: result[0].number)
        return found


class Singles:
    """What an event of each stream alone means, found once."""

    def __init__(self, network: Network, reports: Reports, streams: Mapping[str, StreamEntry]) -> None:
        self._network, self._reports, self._streams = network, reports, streams
        self._known: dict[str, Single | None] = {}

    def clear(self) -> None:
        """Operators or reports have changed."""
        self._known.clear()

    def of(self, stream: StreamEntry) -> Single | None:
        """None where something wants the inbox."""
        name = stream.name.lower()
        if name not in self._known:
            streams = frozenset([name])
            concerned = [operator for operator in self._network.operators if operator.concerned(streams)]
            reports = self._reports.concerned(streams, 1, final=False)
            timed = any(operator.timed for operator in self._network.operators)
            others = {other.inbox for other in self._streams.values()} - {stream.inbox}
            self._known[name] = single(stream, concerned, reports, timed, others, self._network.database)
        return self._known[name]


class _Unbound(Exception):
    """A statement that wants the inbox."""


def single(
    stream: StreamEntry,
    operators: Sequence[Operator],
    reports: Sequence[Report],
    timed: bool,
    empty: Collection[str],
    database: Database,
) -> Single | None:
    """What an event of this stream alone means to these operators and reports; None where some of them wants the inbox.

    `timed`: whether an operator asks for the time; `empty`: the inboxes of the other streams.
    """
    steps = [step for operator in operators for step in operator.steps]
    filled = frozenset(inbox for operator in operators for inbox in operator.inboxes)
    known = known_of(stream, empty, database)
    if known is None or not all(isinstance(step, (Insert, Purge)) for step in steps):
        return None
    try:
        steps_bound = [
            _bound(step.statement("one") if isinstance(step, Insert) else step.statement(), known, database)
            for step in steps
            if isinstance(step, (Insert, Purge))
        ]
        reports_bound = [(report, _bound(_of_one_moment(report), known, database)) for report in reports]
    except _Unbound:
        return None
    written = [bound for bound in steps_bound if bound is not None]
    read = [(report, bound) for report, bound in reports_bound if bound is not None]
    return Single(written, read, filled, timed)


def known_of(stream: StreamEntry, empty: Collection[str], database: Database) -> Known | None:
    """What is known of a push of one event: its row, and the `empty` inboxes; None where it must go through its inbox."""
    values = _values(stream, database)
    if values is None:
        return None
    return Known(empty, OneRow(stream.inbox, values, database.inline_event_values, database.eager_constant_folding))


def _values(stream: StreamEntry, database: Database) -> dict[str, exp.Expr] | None:
    """A mark for each column of the inbox, of its type; None where only a table's column makes the value what it is."""
    system = (Attribute("ts", "BIGINT"), Attribute("seq", "BIGINT"))
    kinds = {each.name: database.value_type(each) for each in (*system, *stream.schema)}
    if None in kinds.values():
        return None
    return {
        name: exp.Cast(
            this=exp.var(f"cep_value_{place}_cep"), to=exp.DataType.build(str(kind), dialect=database.dialect, udt=True)
        )
        for place, (name, kind) in enumerate(kinds.items())
    }


def _of_one_moment(report: Report) -> exp.Expr:
    """The statement of a report whose rows have one `ts` and `seq`; time alone gives others."""
    statement = report.statement.copy()
    order = statement.args.get("order")
    if order is not None and not report.timed:
        kept = [term for term in order.expressions if term.this.name not in ("ts", "seq")]
        statement.set("order", exp.Order(expressions=kept) if kept else None)
    return statement


def _bound(statement: exp.Expr, known: Known, database: Database) -> Bound | None:
    """The statement with the event's values wherever its inbox stood; None where it reads or writes no row."""
    if _MARK.search(database.render(statement)):
        raise _Unbound
    optimized = optimize(statement, known)
    return None if optimized is None else _marked(database.render(optimized), database.placeholder)


def _marked(text: str, mark: str) -> Bound:
    """The text with the driver's marks; where there are none it stays as it is, as drivers then do not look for them."""
    places = tuple(map(int, _MARK.findall(text)))
    if not places:
        return Bound(text, ())
    if mark != "?":
        text = text.replace("%", "%%")
    return Bound(_MARK.sub(mark, text), places)
