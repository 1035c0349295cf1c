"""Plans for an event pushed alone: its values are bound in the statements in place of the inbox, which is not filled.

The statements are those of any push, and shorter: the results of one event have one `ts` and `seq`, so they need not be
sorted by them; joins with the inboxes of other streams, which are empty, are dropped. A machine gets the event's rows from
a SELECT of their own; where it reports nothing, what reads its results is left out.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from bridge.engine.catalogue import StreamEntry
from bridge.engine.computed import Compute, computed, has_only_values
from bridge.engine.results import Results, ResultStatement, ResultStatements
from bridge.patterns.live.statements import Arrivals, Rows
from bridge.rewrite.network import CLOCK
from bridge.rewrite.optimize import optimize
from bridge.rewrite.optimize.rule import Facts, OneRow
from bridge.rewrite.plan import Insert, Operator, Purge, RowCall
from windows.databases import Database
from windows.schema import Attribute

if TYPE_CHECKING:
    import pyarrow as pa

_MARK = re.compile(r"cep_value_(\d+)_cep")

Row = tuple[Any, ...]


class BoundStatement(NamedTuple):
    """A statement's text, and the `places` of the values in an event's row that its parameters take, in their order.

    `compute` gives the rows without the database, or None where it has to be asked.
    """

    text: str
    places: tuple[int, ...]
    compute: Compute | None = None

    def run(self, database: Database, row: Row) -> None:
        if self.places:
            database.execute_bound(self.text, [row[place] for place in self.places])
        else:
            database.execute(self.text)

    def read(self, database: Database, row: Row) -> list[Row]:
        if self.compute is not None and (rows := self.compute(row)) is not None:
            return rows
        if self.places:
            return database.fetch_bound(self.text, [row[place] for place in self.places])
        return database.fetch(self.text)


class EventStatement(NamedTuple):
    """A statement, and what is left of it while no machine has reported anything; None where nothing is left."""

    whole: BoundStatement
    quiet: BoundStatement | None

    def of(self, reported: bool) -> BoundStatement | None:
        return self.whole if reported else self.quiet


class MachineStep(NamedTuple):
    """A machine, what reads its rows of an event (None: there are none), and what stores them."""

    machine: RowCall
    reads: Sequence[BoundStatement | None]
    inserts: Sequence[BoundStatement]

    def take(self, database: Database, rows: Sequence[Row], now: int, seq: int) -> pa.Table | None:
        """The results; nothing is stored."""
        arrived = [
            [] if bound is None else [found for row in rows for found in bound.read(database, row)]
            for bound in self.reads
        ]
        return self.machine.take(database, arrived, now, seq)

    @property
    def is_computed(self) -> bool:
        """Whether no statement reads its rows of an event."""
        return all(bound is None or bound.compute is not None for bound in self.reads)

    def store(self, database: Database, row: Row) -> None:
        """Stores what `take` has changed."""
        for insert in self.inserts:
            insert.run(database, row)
        self.machine.write_progress(database, self.machine.progress())
        if self.machine.is_checkpoint_due:
            self.machine.checkpoint(database)


class Outcome(NamedTuple):
    """The results of an event, the inboxes of results that have rows then, and what machines have still to write."""

    results: Results
    filled: set[str]
    progress: Sequence[tuple[RowCall, Rows]]


@dataclasses.dataclass(frozen=True, eq=False)
class OneEventPlan:
    """What an event of one stream runs, pushed alone: the steps, what reads results, and the inboxes that INSERTs fill.

    `stores`: the INSERTs that store the rows of machines, as for events in the inbox. `timed`: whether a statement reads the
    clock. `binds`: whether a statement reads the event, not only machines.
    """

    steps: Sequence[EventStatement | MachineStep]
    results: Sequence[tuple[ResultStatement, EventStatement]]
    inboxes: frozenset[str]
    stores: Sequence[Insert]
    timed: bool
    binds: bool

    @functools.cached_property
    def machines(self) -> list[RowCall]:
        """Its machines."""
        return [step.machine for step in self.steps if isinstance(step, MachineStep)]

    @functools.cached_property
    def is_one_select(self) -> bool:
        """Whether it writes nothing and reads by one statement at most, so that it needs no transaction."""
        return not self.steps and not self.timed and len(self.results) <= 1

    @functools.cached_property
    def _is_quiet(self) -> bool:
        """Whether only machines run while these report nothing."""
        statements = [
            *(step for step in self.steps if isinstance(step, EventStatement)),
            *(each for _, each in self.results),
        ]
        return bool(self.machines) and all(statement.quiet is None for statement in statements)

    @property
    def can_store_later(self) -> bool:
        """Whether an event may be stored with later ones: its rows are those of machines, which have them in memory."""
        return self._is_quiet and all(each.is_restored and not each.is_checkpoint_due for each in self.machines)

    @functools.cached_property
    def takes_several(self) -> bool:
        """Whether it also runs several events at once, which are then computed in this process."""
        if self.is_one_select:
            return all(statement.whole.compute is not None for _, statement in self.results)
        machines = [step for step in self.steps if isinstance(step, MachineStep)]
        return self._is_quiet and not self.binds and all(step.is_computed for step in machines)

    def compute(self, rows: Sequence[Row]) -> Results | None:
        """The results of one SELECT for each of these events; None where one has to be computed by the database."""
        found: Results = []
        for result, statement in self.results:
            several = [statement.whole.compute(row) for row in rows] if statement.whole.compute is not None else [None]
            if None in several:
                return None
            found += result.distribute([one for some in several for one in some or ()])
        return found

    @property
    def reads_clock(self) -> bool:
        """Whether a statement of the next push reads the time before it, or a machine does that makes its memory anew."""
        return self.timed or not all(machine.is_restored for machine in self.machines)

    def run(
        self,
        database: Database,
        rows: Sequence[Row],
        now: int,
        seq: int,
        before_report: Callable[[], object] | None = None,
    ) -> Outcome:
        """Runs an event in a transaction, with its row, time and number; or events (`takes_several`), with those of the last.

        `before_report`: they are stored later, and this is called before the first results of a machine are written.
        """
        row = rows[0]
        filled, progress, reported = set(self.inboxes), list[tuple[RowCall, Rows]](), False
        for step in self.steps:
            if isinstance(step, EventStatement):
                if (bound := step.of(reported)) is not None:
                    bound.run(database, row)
                continue
            machine, results = step.machine, step.take(database, rows, now, seq)
            if before_report is None:
                step.store(database, row)
            else:
                progress.append((machine, machine.progress()))
            if results is not None:
                if not reported and before_report is not None:
                    before_report()
                reported = True
                database.append(database.quoted(machine.table), results)
                filled.add(machine.table)
        return Outcome(self.read(database, rows, reported), filled, progress)

    def read(self, database: Database, rows: Sequence[Row], reported: bool = False) -> Results:
        """The results, after all steps; `reported`: whether a machine has reported something."""
        found: Results = []
        for result, statement in self.results:
            if (bound := statement.of(reported)) is not None:
                read = bound.read(database, rows[0]) if len(rows) == 1 else database.fetch(result.text)
                found += result.distribute(read)
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
            others = {other.inbox for other in self._streams.values()} - {stream.inbox}
            self._known[name] = one_event_plan(stream, concerned, results, others, self._database)
        return self._known[name]


class _Unbound(Exception):
    """A statement needs the inbox."""


def one_event_plan(
    stream: StreamEntry,
    operators: Sequence[Operator],
    results: Sequence[ResultStatement],
    empty: Collection[str],
    database: Database,
) -> OneEventPlan | None:
    """The plan for an event of this stream, of these operators and result statements; None where one needs the inbox.

    `empty`: the inboxes of the other streams.
    """
    facts = facts_of(stream, empty, database)
    if facts is None:
        return None
    try:
        return _Planning(operators, facts, _types(stream), database).plan(results)
    except _Unbound:
        return None


class _Planning:
    """The steps of a plan, bound one after the other."""

    def __init__(self, operators: Sequence[Operator], facts: Facts, types: Sequence[str], database: Database) -> None:
        self._types = types
        self._steps = [step for operator in operators for step in operator.steps]
        self._machines = [step for step in self._steps if isinstance(step, RowCall)]
        reported = {machine.table for machine in self._machines}
        self._inboxes = frozenset(inbox for operator in operators for inbox in operator.inboxes) - reported
        self._database, self._facts = database, facts
        self._quiet = dataclasses.replace(facts, empty={*facts.empty, *reported})
        self._derived = {*self._inboxes, *reported}
        self._binds = False

    def plan(self, results: Sequence[ResultStatement]) -> OneEventPlan:
        stored = {arrivals.table: step for step in self._machines for arrivals in step.arrivals}
        inserts: dict[str, Insert] = {}
        steps: list[EventStatement | MachineStep | None] = []
        for step in self._steps:
            if isinstance(step, RowCall):
                steps.append(self._machine(step, inserts))
            elif isinstance(step, Insert) and step.table in stored:
                inserts[step.table] = step
            elif isinstance(step, (Insert, Purge)):
                steps.append(self._statement(functools.partial(_of_step, step)))
            else:
                raise _Unbound
        read = [(each, self._statement(functools.partial(_of_one_event, each))) for each in results]
        found = [step for step in steps if step is not None]
        results_bound = [(each, statement) for each, statement in read if statement is not None]
        statements = [
            *(step for step in found if isinstance(step, EventStatement)),
            *(each for _, each in results_bound),
        ]
        clock = self._database.own_name(CLOCK)
        timed = any(clock in statement.whole.text for statement in statements)
        return OneEventPlan(found, results_bound, self._inboxes, list(inserts.values()), timed, self._binds)

    def _statement(self, write: Callable[[], exp.Expr]) -> EventStatement | None:
        tree, row = write(), self._facts.row
        self._binds |= row is not None and any(found.name == row.table for found in tree.find_all(exp.Table))
        whole = self._bound(tree, self._facts)
        if whole is None or not self._machines:
            return None if whole is None else EventStatement(whole, whole)
        return EventStatement(whole, self._bound(write(), self._quiet))

    def _bound(self, statement: exp.Expr, facts: Facts) -> BoundStatement | None:
        return _bound(statement, facts, self._types, self._database)

    def _machine(self, machine: RowCall, inserts: Mapping[str, Insert]) -> MachineStep:
        if not machine.arrivals:
            raise _Unbound
        stored = (self._bound(_of_step(inserts[each.table]), self._facts) for each in machine.arrivals)
        reads = [self._arrivals(each) for each in machine.arrivals]
        return MachineStep(machine, reads, [insert for insert in stored if insert is not None])

    def _arrivals(self, arrivals: Arrivals) -> BoundStatement | None:
        """What reads the rows of the event; raises _Unbound where they are results of another operator."""
        if any(found.name in self._derived for found in arrivals.select.find_all(exp.Table)):
            raise _Unbound
        return self._bound(arrivals.select.copy(), self._facts)


def _of_step(step: Insert | Purge) -> exp.Expr:
    return step.statement("one") if isinstance(step, Insert) else step.statement()


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


def _types(stream: StreamEntry) -> list[str]:
    """The types of the columns of an event's row."""
    return ["BIGINT", "BIGINT", *(attribute.type for attribute in stream.schema)]


def _place_of(node: exp.Expr) -> int | None:
    """The place of an event's value in its row, for a parameter cast to the type of its column."""
    mark = _MARK.fullmatch(node.this.name) if isinstance(node, exp.Cast) and isinstance(node.this, exp.Var) else None
    return None if mark is None else int(mark[1])


def _bound(statement: exp.Expr, facts: Facts, types: Sequence[str], database: Database) -> BoundStatement | None:
    """The statement with the event's values wherever its inbox stood; None where it reads or writes no row."""
    if _MARK.search(database.render(statement)):
        raise _Unbound
    optimized = optimize(statement, facts)
    if optimized is None:
        return None
    compute = None
    if has_only_values(optimized):
        compute = computed(optimized, _place_of, types, database.python_types)
    return _marked(database.render(optimized), database.placeholder)._replace(compute=compute)


def _marked(text: str, mark: str) -> BoundStatement:
    """The text with the driver's placeholders; where it has none it is unchanged, as drivers then look for none."""
    places = tuple(map(int, _MARK.findall(text)))
    if not places:
        return BoundStatement(text, ())
    if mark != "?":
        text = text.replace("%", "%%")
    return BoundStatement(_MARK.sub(mark, text), places)
