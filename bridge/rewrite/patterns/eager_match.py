"""EPL's match_recognize: tables have its rows and the checkpoint of its open matches, and a machine runs over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError
from bridge.patterns.conditions import conditions
from bridge.patterns.live.statements import Arrivals
from bridge.patterns.values import MatchAggregate, read
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.patterns.eager_sequence import EagerSequence, is_sequence
from bridge.rewrite.patterns.tables import (
    ROW_ID,
    SYSTEM,
    add_results,
    aggregates_of_the_database,
    atoms_of,
    has_arrivals,
    is_of_this_push,
    newest_first,
    place_in_event,
    probes,
    program_of,
    purge_released,
    row_id,
    row_values,
    running_arguments,
    same_row_id,
    shape_of_results,
    shifts,
    typed,
    with_neighbours,
)
from bridge.rewrite.plan import Insert, Operator, Probe, Purge
from bridge.rewrite.state_tables import add_table
from bridge.rewrite.stored_state import StoredState, StoredTable
from nfa.pattern import groups
from windows.extent import Extent
from windows.extents import Unbounded
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    derived_table,
    lexicographically_before,
    number,
    table,
)

ROWS = ("_part", "_index", *ROW_ID, "_number")
"""The columns of a checkpoint's rows that open matches hold: partition, index in it, row id, number among all rows.

The line of partition -1 has the oldest row in the window, or else the newest row: earlier rows that have no line are
not needed. The line of partition -2 has the newest row and the number of rows so far. The lines of partition -3 have
the rows that were taken from a window from which rows are deleted.
"""

THREADS = ("_part", "_start", "_thread", "_at", "_held", "_step", "_symbol")
"""The columns of a checkpoint's threads: partition, index of the start, place in the order of preference, instruction,
number of a complete match that is held (0: open), then one line per row taken, with the number of its symbol.
"""


@rewrite.register
def _(node: query.EagerMatch, network: Network, need: Need) -> Flow:
    if is_sequence(node, network.database.is_aggregate):
        sequence = EagerSequence(node, network)
        if not sequence.skips or network.rewrite(node.input, Need.ARRIVALS).key == ("seq",):
            return sequence.flow(need)

    def build(operator: Operator) -> None:
        deleting = node.input if isinstance(node.input, query.WindowWithDeletions) else None
        window = node.input if deleting is None else deleting.input
        source = window.input if isinstance(window, query.Window) else window
        triggers = [network.rewrite(one.trigger, Need.ARRIVALS) for one in deleting.deletions] if deleting else []
        extent = window.extent if isinstance(window, query.Window) else None
        _EagerMatchPlan(node, network.rewrite(source, Need.ARRIVALS), network, operator, extent, triggers).build()

    operator = network.operator(node, build, f"EagerMatch {node.pattern.pattern}")
    return network.give(operator, node, need)


@dataclasses.dataclass
class _EagerMatchPlan:
    """The tables, statements and machine of one clause.

    log: the rows that prev reads; retained: the known values of each row; results: the results of this push.
    """

    node: query.EagerMatch
    below: Flow
    network: Network
    operator: Operator
    window: Extent | None
    triggers: list[Flow]

    def __post_init__(self) -> None:
        from bridge.patterns.task import symbol_set

        self.clause = self.node.pattern
        fields = (*self.below.names, "ts")
        self.keys = [key.name for key in self.clause.partition_by]
        kinds = ("log", "retained", "held", "threads", "matches", "current", "deleted")
        self.log, self.retained, self.held, self.threads, self.results, self.current, self.deleted = (
            self.network.name(kind, self.node) for kind in kinds
        )
        is_aggregate = self.network.database.is_aggregate
        self.conditions = conditions(self.clause, fields, is_aggregate)
        self.single: dict[str, tuple[str, str]] = {}
        values = [self._with_single_rows(measure.this) for measure in self.clause.measures]
        fields = (*fields, *self.single)
        self.measures = tuple(read(value, self.clause, fields, None, True, is_aggregate) for value in values)
        self.expressions = self._expressions()
        self.values = [symbol_set(self.conditions), *self.expressions]

    def build(self) -> None:
        self._refuse()
        self._add_rows()
        self._add_deletions()
        self._add_checkpoint()
        self._add_results()
        self._add_machine()
        self.operator.stored = self._stored_state()

    def _stored_state(self) -> StoredState:
        """The stored open matches, for measures that read only known values of a row."""
        known: dict[Any, str] = {name: name for name in (*ROW_ID, *(f"_k{place}" for place in range(len(self.keys))))}
        known |= {value: f"_e{place}" for place, value in enumerate(self.values)}
        tables = {
            "retained": StoredTable(self.retained, known),
            "held": StoredTable.of(self.held, ROWS),
            "threads": StoredTable.of(self.threads, THREADS),
        }
        if by := shifts(self.values):
            tables["log"] = StoredTable.of(self.log, (*ROW_ID, *self.below.names))
        if self._deletions:
            tables["deleted"] = StoredTable.of(self.deleted, ("_ts", "_seq", *ROW_ID))
        plain = dataclasses.replace(self.clause, measures=())
        return StoredState(
            dataclasses.replace(self.node, pattern=plain), tables, (max([0, *(-shift for shift in by)]),)
        )

    def _refuse(self) -> None:
        for aggregate in aggregates_of_the_database(self.conditions):
            raise QueryError(f"{aggregate.call.sql()} cannot stand in DEFINE: count, sum, avg, min and max can")

    def _with_single_rows(self, measure: exp.Expr) -> exp.Expr:
        """The measure, with columns for variables of one row that an aggregate over another variable names."""
        several = groups(self.clause.pattern)

        def renamed(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or not node.table or node.table in several:
                return node
            call = node.find_ancestor(exp.AggFunc)
            over = next((c.table for c in call.find_all(exp.Column) if c.table in several), None) if call else None
            if over is None:
                return node
            name = f"_{node.table}.{node.name}"
            self.single[name] = (node.table, node.name)
            return column_of(over, name)

        return measure.transform(renamed)

    def _expressions(self) -> tuple[exp.Expr, ...]:
        """The values of a row that conditions, measures and deletions read."""
        in_conditions, in_measures = atoms_of(c.rest for c in self.conditions), atoms_of(self.measures)
        found = row_values([*in_conditions, *in_measures])
        for aggregate in (atom for atom in in_measures if isinstance(atom, MatchAggregate)):
            found += (column(self.single[name][1] if name in self.single else name) for name in aggregate.columns)
        found += running_arguments(in_conditions)
        for deletion in self._deletions:
            columns = deletion.condition.find_all(exp.Column) if deletion.condition is not None else []
            found += [column(name) for c in columns for name in [_window_column(deletion, c)] if name is not None]
        return tuple(dict.fromkeys(found))

    # Rows ---------------------------------------------------------------------------------------------------------------

    def _add_rows(self) -> None:
        row = [column("ts"), column("seq"), place_in_event(self.below)]
        arrivals = exp.select(*row, *map(column, self.below.names)).from_(
            derived_table(self.below.arrivals.select(), "a")
        )
        by = shifts(self.values)
        select = self._known(self._logged(arrivals, max(-shift for shift in by)) if by else arrivals)
        self.arrivals = () if by or self._deletions else (Arrivals(self.retained, select.copy()),)
        if by:
            new = is_of_this_push(self.below, "q")
            columns = [column_of("q", name) for name in select.named_selects]
            select = exp.select(*columns).from_(derived_table(select, "q")).where(new)
        add_table(self.operator, self.retained, select, (("ts", "seq"),))
        self.operator.steps.append(Insert(self.retained, select))

    def _known(self, rows: exp.Select) -> exp.Select:
        """For each row its partition, its id, its symbol set, and the values that conditions and measures read."""
        keys = [aliased(column(key), f"_k{place}") for place, key in enumerate(self.keys)]
        values = [aliased(with_neighbours(value, self.keys), f"_e{place}") for place, value in enumerate(self.values)]
        return exp.select(*keys, *map(column, ROW_ID), *values).from_(derived_table(rows, "r"))

    def _logged(self, arrivals: exp.Select, behind: int) -> exp.Select:
        """The logged rows of partitions with new rows; per partition, the log has as many rows as prev looks back."""
        add_table(self.operator, self.log, arrivals, ((*self.keys, "ts"),))
        self.operator.steps.append(Insert(self.log, arrivals))
        ranked = exp.select(*map(column, ROW_ID), aliased(newest_first(self.keys), "_n")).from_(table(self.log))
        old = exp.select(number(1)).from_(derived_table(ranked, "o"))
        is_far = exp.GT(this=column_of("o", "_n"), expression=number(behind))
        self.operator.purges.append(Purge(self.log, exp.Exists(this=old.where(is_far, *same_row_id("o", self.log)))))
        rows = exp.select(*(column_of("l", name) for name in (*ROW_ID, *self.below.names))).from_(
            aliased_table(self.log, "l")
        )
        return rows.where(has_arrivals(self.below, self.keys, "l"))

    def _all_retained(self) -> exp.Select:
        return exp.select(exp.Star()).from_(aliased_table(self.retained, "r")).order_by(*row_id("r"))

    # Deletions ----------------------------------------------------------------------------------------------------------

    @property
    def _deletions(self) -> tuple[query.Deletion, ...]:
        return self.node.input.deletions if isinstance(self.node.input, query.WindowWithDeletions) else ()

    def _add_deletions(self) -> None:
        """Adds the rows that events delete: ts and seq of the event, and the row's id."""
        for place, (deletion, flow) in enumerate(zip(self._deletions, self.triggers, strict=True)):
            event = [aliased(column_of("b", name), f"_{name}") for name in ("ts", "seq")]
            rows, events = aliased_table(self.retained, "r"), derived_table(flow.arrivals.select(), "b")
            older = lexicographically_before([(column_of("r", name), column_of("b", name)) for name in ("ts", "seq")])
            select = exp.select(*event, *row_id("r")).from_(events).join(rows, on=older)
            if deletion.condition is not None:
                select = select.where(self._over_both(deletion.condition, deletion))
            if place == 0:
                add_table(self.operator, self.deleted, select)
            self.operator.steps.append(Insert(self.deleted, select))

    def _over_both(self, condition: exp.Expr, deletion: query.Deletion) -> exp.Expr:
        """A deletion's condition, over the known values of a row and the event."""

        def known(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            name = _window_column(deletion, node)
            if name is None:
                return column_of("b", node.name.partition(".")[2])
            return column_of("r", f"_e{1 + self.expressions.index(column(name))}")

        return condition.transform(known)

    def _deleted_in_this_push(self) -> exp.Select:
        are_new = []
        for flow in self.triggers:
            event = exp.select(number(1)).from_(derived_table(flow.arrivals.select(), "b"))
            same_event = (
                exp.EQ(this=column_of("b", name), expression=column_of("g", f"_{name}")) for name in ("ts", "seq")
            )
            are_new.append(exp.Exists(this=event.where(*same_event)))
        return exp.select(exp.Star()).from_(aliased_table(self.deleted, "g")).where(exp.or_(*are_new))

    # Checkpoint and results ---------------------------------------------------------------------------------------------

    def _add_checkpoint(self) -> None:
        for name, columns in ((self.held, ROWS), (self.threads, THREADS)):
            shape = exp.select(*(aliased(bigint_zero(), c) for c in columns)).from_(table(self.retained))
            add_table(self.operator, name, shape)
        if not isinstance(self.window, Unbounded):
            oldest = exp.EQ(this=column_of("s", "_part"), expression=number(-1))
            self.operator.purges.append(purge_released(self.retained, self.held, oldest))

    def _add_results(self) -> None:
        fields = exp.select(*map(column, (*self.below.names, "ts")))
        rows = derived_table(fields.from_(derived_table(self.below.arrivals.select(), "a")), "f")
        shape = shape_of_results({measure.alias: typed(measure.this) for measure in self.clause.measures}).from_(rows)
        add_results(self.operator, self.results, shape, timed=self.node.interval is not None)
        add_table(self.operator, self.current, shape)
        self.operator.probes += map(Probe, probes(self.clause, rows))

    # The machine --------------------------------------------------------------------------------------------------------

    def _add_machine(self) -> None:
        from bridge.patterns.live.eager import EagerMachine
        from bridge.patterns.live.rows import LiveTask
        from bridge.patterns.live.statements import EagerStatements

        database = self.network.database
        retained = self._all_retained()
        statements = EagerStatements(
            arrived=database.render(retained.where(is_of_this_push(self.below, "r"))),
            retained=database.render(retained),
            retained_table=database.quoted(self.retained),
            row_table=database.quoted(self.held),
            thread_table=database.quoted(self.threads),
            deleted_table=database.quoted(self.deleted) if self._deletions else None,
            deleted=database.render(self._deleted_in_this_push()) if self._deletions else None,
        )
        task = LiveTask(self.clause, self.conditions, program_of(self.clause), self.measures, self.expressions)
        self.operator.steps.append(
            EagerMachine(
                self.results,
                self.node,
                task,
                statements,
                self.network.settings.checkpoint_rows,
                self.current,
                self.single,
                arrivals=self.arrivals,
            )
        )


def _window_column(deletion: query.Deletion, found: exp.Column) -> str | None:
    """The column of the window's rows that a condition names; None for a column of the deleting event."""
    alias, _, name = found.name.partition(".")
    return name if alias == deletion.row else None


class QueryOperators(Protocol):
    """A query's operators, its epoch, and the epochs that it inherits."""

    operators: list[Operator]
    epoch: int
    inherits: Mapping[str, int]


def present(node: query.EagerMatch, of: QueryOperators, network: Network, now: int) -> Flow:
    """The matches over the rows in a clause's window (Esper's iterator), in a table."""
    from bridge.patterns.live.eager import EagerMachine

    steps = (step for operator in of.operators for step in operator.steps)
    machine = next((step for step in steps if isinstance(step, EagerMachine) and step.node == node), None)
    if machine is None:  # a sequence, without a window
        return network.under(of.epoch, of.inherits)(node, Need.RESULT).where(exp.false())
    database = network.database
    database.begin()
    try:
        machine.write_current(database, now)
        database.commit()
    except BaseException:
        database.rollback()
        raise
    names = [measure.alias for measure in node.pattern.measures]
    rows = Selection.of(table(machine.current_table), [*SYSTEM, *names])
    return Flow(tuple(names), rows, order=("_place",))
