"""Plans for an event pushed alone: its values are bound in the statements in place of the inbox, which is not filled.

The statements are those of any push, and shorter: the results of one event have one `ts` and `seq`, so they need not be
sorted by them; joins with the inboxes of other streams, which are empty, are dropped.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from bridge.engine.catalogue import StreamEntry
from bridge.engine.results import Results, ResultStatement, ResultStatements
from bridge.rewrite.optimize import optimize
from bridge.rewrite.optimize.rule import Facts, OneRow
from bridge.rewrite.plan import Insert, Operator, Purge
from windows.databases import Database
from windows.schema import Attribute

_MARK = re.compile(r"cep_value_(\d+)_cep")

Row = tuple[Any, ...]


class BoundStatement(NamedTuple):
    """A statement's text, and the `places` of the values in an event's row that its parameters take, in their order."""

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
class OneEventPlan:
    """What an event of one stream runs, pushed alone: the steps, what reads results, and the inboxes that steps fill."""

    steps: Sequence[BoundStatement]
    results: Sequence[tuple[ResultStatement, BoundStatement]]
    inboxes: frozenset[str]
    timed: bool

    @property
    def is_one_select(self) -> bool:
        """Whether it writes nothing and reads by one statement at most, so that it needs no transaction."""
        return not self.steps and not self.timed and len(self.results) <= 1

    def run(self, database: Database, row: Row) -> Results:
        for step in self.steps:
            step.run(database, row)
        found: Results = []
        for result, bound in self.results:
            found += result.distribute(bound.read(database, row))
        if len(self.results) > 1:
            found.sort(key=lambda result: result[0].number)
        return found


class OneEventPlans:
    """The plan for an event of each stream, worked out once."""

    def __init__(
        self,
        database: Database,
        operators: Callable[[], Sequence[Operator]],
        results: ResultStatements,
        streams: Mapping[str, StreamEntry],
    ) -> None:
        self._database, self._operators, self._results, self._streams = database, operators, results, streams
        self._known: dict[str, OneEventPlan | None] = {}

    def clear(self) -> None:
        """Forgets all plans, as operators or result statements have changed."""
        self._known.clear()

    @property
    def known(self) -> list[OneEventPlan]:
        """The plans that were worked out."""
        return [plan for plan in self._known.values() if plan is not None]

    def of(self, stream: StreamEntry) -> OneEventPlan | None:
        """The plan for an event of this stream; None where something needs its inbox."""
        name = stream.name.lower()
        if name not in self._known:
            streams = frozenset([name])
            operators = self._operators()
            concerned = [operator for operator in operators if operator.concerned(streams)]
            results = self._results.concerned(streams, 1, final=False)
            timed = any(operator.timed for operator in operators)
            others = {other.inbox for other in self._streams.values()} - {stream.inbox}
            self._known[name] = one_event_plan(stream, concerned, results, timed, others, self._database)
        return self._known[name]


class _Unbound(Exception):
    """A statement needs the inbox."""


def one_event_plan(
    stream: StreamEntry,
    operators: Sequence[Operator],
    results: Sequence[ResultStatement],
    timed: bool,
    empty: Collection[str],
    database: Database,
) -> OneEventPlan | None:
    """The plan for an event of this stream, of these operators and result statements; None where one needs the inbox.

    `timed`: whether an operator reads the clock; `empty`: the inboxes of the other streams.
    """
    steps = [step for operator in operators for step in operator.steps]
    filled = frozenset(inbox for operator in operators for inbox in operator.inboxes)
    facts = facts_of(stream, empty, database)
    if facts is None or not all(isinstance(step, (Insert, Purge)) for step in steps):
        return None
    try:
        steps_bound = [
            _bound(step.statement("one") if isinstance(step, Insert) else step.statement(), facts, database)
            for step in steps
            if isinstance(step, (Insert, Purge))
        ]
        results_bound = [(result, _bound(_of_one_event(result), facts, database)) for result in results]
    except _Unbound:
        return None
    written = [bound for bound in steps_bound if bound is not None]
    read = [(result, bound) for result, bound in results_bound if bound is not None]
    return OneEventPlan(written, read, filled, timed)


def facts_of(stream: StreamEntry, empty: Collection[str], database: Database) -> Facts | None:
    """What is known of a push of one event: its row, and the `empty` inboxes; None where it must go through its inbox."""
    values = _values(stream, database)
    if values is None:
        return None
    return Facts(empty, OneRow(stream.inbox, values, database.inline_event_values, database.eager_constant_folding))


def _values(stream: StreamEntry, database: Database) -> dict[str, exp.Expr] | None:
    """A parameter per column of the inbox, cast to its type; None where only a table's column gives a value its type."""
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


def _of_one_event(result: ResultStatement) -> exp.Expr:
    """The statement without ORDER BY `ts` and `seq`, which are equal in its rows unless time alone gives rows."""
    statement = result.statement.copy()
    order = statement.args.get("order")
    if order is not None and not result.timed:
        kept = [term for term in order.expressions if term.this.name not in ("ts", "seq")]
        statement.set("order", exp.Order(expressions=kept) if kept else None)
    return statement


def _bound(statement: exp.Expr, facts: Facts, database: Database) -> BoundStatement | None:
    """The statement with the event's values wherever its inbox stood; None where it reads or writes no row."""
    if _MARK.search(database.render(statement)):
        raise _Unbound
    optimized = optimize(statement, facts)
    return None if optimized is None else _marked(database.render(optimized), database.placeholder)


def _marked(text: str, mark: str) -> BoundStatement:
    """The text with the driver's placeholders; where it has none it is unchanged, as drivers then look for none."""
    places = tuple(map(int, _MARK.findall(text)))
    if not places:
        return BoundStatement(text, ())
    if mark != "?":
        text = text.replace("%", "%%")
    return BoundStatement(_MARK.sub(mark, text), places)
