"""MATCH_RECOGNIZE over a stream: tables have its rows and each partition's progress, and a machine runs over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError
from bridge.patterns.conditions import conditions
from bridge.patterns.values import MatchAggregate, MatchNumber, read
from bridge.query.row_pattern import PerMatch, RowPattern, with_absence
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.patterns.tables import (
    ROW_ID,
    add_results,
    aggregates_of_the_database,
    atoms_of,
    has_arrivals,
    is_of_this_push,
    newest_first,
    place_in_event,
    previous_values,
    probes,
    program_of,
    row_id,
    row_values,
    running_arguments,
    same_key,
    same_row_id,
    shape_of_results,
    shifts,
    typed,
    with_neighbours,
    with_placeholders,
)
from bridge.rewrite.plan import Insert, Operator, Probe, Purge
from bridge.rewrite.state_tables import add_table
from bridge.rewrite.stored_state import StoredState, StoredTable
from nfa.pattern import rows_before
from nfa.program import AnchorStart, Program
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

if TYPE_CHECKING:
    from bridge.patterns.live.statements import Arrivals, LateStorage

PROGRESS = (*ROW_ID, "_needed", "_start", "_covered", "_matches", "_version")
"""The columns of a partition's progress: its last row that is no longer needed; as indexes, the first row needed, the
current start, and the row after the furthest match; the number of matches so far; the version, greatest in the newest
line.
"""


@rewrite.register
def _(node: query.MatchRecognize, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        _MatchRecognizePlan(node.pattern, below, network, operator, node).build()

    operator = network.operator(node, build, f"MatchRecognize {node.pattern.pattern}")
    return network.give(operator, node, need)


@dataclasses.dataclass
class _MatchRecognizePlan:
    """The tables, statements and machine of one clause.

    rows: the rows that an open match may need; progress: one line per partition and change; results: of this push.
    """

    clause: RowPattern
    below: Flow
    network: Network
    operator: Operator
    node: query.MatchRecognize

    def __post_init__(self) -> None:
        self.clause = with_absence(self.clause)
        self.rows, self.progress, self.results = (
            self.network.name(kind, self.node) for kind in ("rows", "progress", "matches")
        )
        self.fields = (*self.below.names, "ts")
        self.keys = [key.name for key in self.clause.partition_by]
        is_aggregate = self.network.database.is_aggregate
        self.conditions = conditions(self.clause, self.fields, is_aggregate)
        final = self.clause.per_match is PerMatch.ONE_ROW
        self.measures = tuple(
            read(measure.this, self.clause, self.fields, None, final, is_aggregate) for measure in self.clause.measures
        )

    def build(self) -> None:
        self._refuse()
        self._add_rows()
        self._add_progress()
        self._add_machine()

    def _refuse(self) -> None:
        for aggregate in aggregates_of_the_database(self.conditions):
            raise QueryError(
                f"{aggregate.call.sql()} cannot stand in DEFINE over a stream: COUNT, SUM, AVG, MIN and MAX of one column or "
                "expression can"
            )

    # Tables -------------------------------------------------------------------------------------------------------------

    def _add_rows(self) -> None:
        row = [*map(column, ("ts", "seq")), place_in_event(self.below), *map(column, self.below.names)]
        item = derived_table(self.below.arrivals.select(), "a", copy=False)
        self.stored = exp.select(*row).from_(item, copy=False)
        add_table(self.operator, self.rows, self.stored, ((*self.keys, "ts"),))

    def _add_progress(self) -> None:
        integers = [exp.alias_(bigint_zero(), name, quoted=True) for name in PROGRESS]
        shape = exp.select(*map(column, self.keys), *integers).from_(table(self.rows), copy=False)
        add_table(self.operator, self.progress, shape, ((*self.keys, "_version"),) if self.keys else ())
        comes_before = exp.paren(lexicographically_before(list(zip(row_id("s"), row_id(self.rows), strict=True))))
        passed = [*same_key(self.keys, "s", self.rows), exp.Not(this=comes_before)]
        behind = exp.select(number(1)).from_(aliased_table(self.progress, "s"), copy=False).where(*passed, copy=False)
        self.operator.purges += [
            Purge(self.progress, exp.Exists(this=self._newer_than(self.progress))),
            Purge(self.rows, exp.Exists(this=behind)),
        ]

    def _newer_than(self, alias: str) -> exp.Select:
        """The newer lines of the same partition."""
        later = exp.GT(this=column_of("m", "_version"), expression=column_of(alias, "_version"))
        newer = [*same_key(self.keys, "m", alias), later]
        return exp.select(number(1)).from_(aliased_table(self.progress, "m"), copy=False).where(*newer, copy=False)

    # The machine --------------------------------------------------------------------------------------------------------

    def _add_machine(self) -> None:
        from bridge.patterns.live.bulk import can_run_in_bulk
        from bridge.patterns.live.decided import DecidedMachine
        from bridge.patterns.live.rows import LiveTask
        from bridge.patterns.live.statements import DecidedStatements
        from bridge.patterns.task import symbol_set

        database = self.network.database
        expressions = self._expressions()
        values = [symbol_set(self.conditions), *expressions]
        by = shifts(values)
        behind, ahead = self._rows_behind(expressions), max([0, *by])
        self._add_results()
        self.operator.probes += map(Probe, probes(self.clause, table(self.rows)))
        program = program_of(self.clause)
        task = LiveTask(self.clause, self.conditions, program, self.measures, expressions, self.fields, behind)
        is_late = self.network.settings.is_replay and not database.temporary_views and can_run_in_bulk(task, ahead)
        statements = DecidedStatements(
            arrived=database.render(self._arrived(values, bool(by), ahead)),
            retained=database.render(self._retained(values, ahead)),
            progress=database.render(self._newest_progress()),
            progress_table=database.quoted(self.progress),
            rows=self.rows,
            late=self._late_storage(values) if is_late else None,
        )
        forgets = self._forgets_partitions(program, behind, ahead)
        arrivals = () if is_late else self._arrivals(values)
        if not is_late:
            self.operator.steps.append(Insert(self.rows, self.stored))
        bulk = self.network.settings.bulk_events
        machine = DecidedMachine(self.results, task, statements, ahead, forgets, bulk, arrivals=arrivals)
        self.operator.steps.append(machine)
        self.operator.stored = self._stored_state(behind, ahead, forgets)

    def _stored_state(self, behind: int, ahead: int, forgets: bool) -> StoredState:
        """The stored open matches. They do not depend on MEASURES and ROWS PER MATCH, as whole rows are retained."""
        plain = dataclasses.replace(self.node.pattern, measures=(), per_match=PerMatch.ONE_ROW)
        tables = {
            "rows": StoredTable.of(self.rows, self.stored.named_selects),
            "progress": StoredTable.of(self.progress, (*self.keys, *PROGRESS)),
        }
        return StoredState((dataclasses.replace(self.node, pattern=plain), ahead), tables, (behind, int(not forgets)))

    def _late_storage(self, values: Sequence[exp.Expr]) -> LateStorage:
        """The storage for many rows: they are read on arrival, and those needed later are stored afterwards by ids."""
        from bridge.patterns.live.statements import LateStorage

        database, needed = self.network.database, self.network.name("needed", self.node)
        ids = exp.select(*(aliased(bigint_zero(), name) for name in ROW_ID)).from_(table(self.rows), copy=False)
        add_table(self.operator, needed, ids, (("seq",),))

        def is_needed(alias: str) -> exp.Expr:
            same = exp.select(number(1)).from_(aliased_table(needed, "n")).where(*same_row_id("n", alias))
            return exp.Exists(this=same)

        retained = exp.select(*map(column, self.stored.named_selects)).from_(table(self.rows), copy=False)
        whole = derived_table(exp.union(retained, self.stored, distinct=False), "r")
        arrived = exp.select(exp.Star()).from_(derived_table(self.stored, "r")).where(is_needed("r"))
        return LateStorage(
            rows=database.render(exp.select(*self._known(values)).from_(whole, copy=False)),
            store=database.render(Insert(self.rows, self.stored).statement()),
            needed=database.quoted(needed),
            keep=(
                database.render(exp.delete(table(self.rows), where=exp.Not(this=is_needed(self.rows)))),
                database.render(Insert(self.rows, arrived).statement()),
            ),
            empty=database.render(exp.delete(table(needed))),
        )

    def _arrivals(self, values: Sequence[exp.Expr]) -> tuple[Arrivals, ...]:
        """The SELECTs of a push for the machine; none if its rows depend on more than columns of earlier rows."""
        from bridge.patterns.live.statements import Arrivals

        previous = previous_values(values)
        return () if previous is None else (Arrivals(self.rows, self._of_arrivals(values), previous, (*self.keys,)),)

    def _of_arrivals(self, values: Sequence[exp.Expr]) -> exp.Select:
        """`_retained` for the rows of this push, read from the inbox; followed by the columns that are only stored."""
        rest = [name for name in self.below.names if name not in self.keys and column(name) not in values]
        select = exp.select(*self._known([with_placeholders(value) for value in values]), *map(column, rest))
        return select.from_(derived_table(self.stored, "r"), copy=False)

    def _rows_behind(self, expressions: Sequence[exp.Expr]) -> int:
        """The number of rows before the start of a match that conditions and results read.

        A condition reads rows before its own; the pattern determines how many of these, at least, are in the match.
        """
        before = rows_before(self.clause.pattern)
        behind = [-shift for shift in shifts(expressions)]
        for condition in self.conditions:
            alone = [] if condition.row is None else [condition.row]
            behind += [-shift - before[condition.symbol] for shift in shifts(alone)]
        return max([0, *behind])

    def _forgets_partitions(self, program: Program, behind: int, ahead: int) -> bool:
        """Whether a partition without open rows equals one that never had a row; then its progress is purged."""
        atoms = atoms_of([*(condition.rest for condition in self.conditions), *self.measures])
        numbers = any(
            isinstance(atom, MatchNumber) or (isinstance(atom, MatchAggregate) and atom.reads_match_number)
            for atom in atoms
        )
        first = any(isinstance(line, AnchorStart) for line in program.instructions)
        if numbers or first or behind or ahead:
            return False
        retained = (
            exp.select(number(1)).from_(aliased_table(self.rows, "r")).where(*same_key(self.keys, "r", self.progress))
        )
        self.operator.purges.append(Purge(self.progress, exp.Not(this=exp.Exists(this=retained))))
        return True

    def _expressions(self) -> tuple[exp.Expr, ...]:
        """The values of a row that conditions, measures and results read."""
        atoms = atoms_of([*(condition.rest for condition in self.conditions), *self.measures])
        found = row_values(atoms)
        for aggregate in (atom for atom in atoms if isinstance(atom, MatchAggregate)):
            found += [*map(column, aggregate.columns), *running_arguments([aggregate])]
        if self.clause.per_match is not PerMatch.ONE_ROW:
            found += map(column, self.fields)
        return tuple(dict.fromkeys(found))

    def _retained(self, values: Sequence[exp.Expr], ahead: int) -> exp.Select:
        """All retained rows: key, id, symbol set and values; with NEXT also the number of rows from each one on, and 1
        for a row of this push.
        """
        left = [aliased(newest_first(self.keys), "_left"), self._is_new()] if ahead else []
        return exp.select(*self._known(values), *left).from_(aliased_table(self.rows, "r"), copy=False)

    def _known(self, values: Sequence[exp.Expr]) -> list[exp.Expr]:
        """The columns of a row as the machine reads it: key, id, symbol set and values."""
        columns = [*map(column, self.keys), *map(column, ROW_ID)]
        return [
            *columns,
            *(aliased(with_neighbours(value, self.keys), f"_e{place}") for place, value in enumerate(values)),
        ]

    def _is_new(self) -> exp.Expr:
        is_new = exp.Case().when(is_of_this_push(self.below, "r"), number(1)).else_(number(0))
        return aliased(is_new, "_new")

    def _arrived(self, values: Sequence[exp.Expr], shifted: bool, ahead: int) -> exp.Select:
        """The rows of this push; with NEXT all rows of their partitions."""
        rows = self._retained(values, ahead)
        if not shifted:
            return rows.where(is_of_this_push(self.below, "r"), copy=False)
        if self.keys:
            rows = rows.where(has_arrivals(self.below, self.keys, "r"))
        if ahead:
            return rows
        return exp.select(exp.Star()).from_(derived_table(rows, "q")).where(is_of_this_push(self.below, "q"))

    def _newest_progress(self) -> exp.Select:
        select = exp.select(*(column_of("p", name) for name in (*self.keys, *PROGRESS))).from_(
            aliased_table(self.progress, "p")
        )
        return select.where(exp.Not(this=exp.Exists(this=self._newer_than("p"))))

    def _add_results(self) -> None:
        columns: dict[str, exp.Expr] = {key: column(key) for key in self.keys}
        columns |= {measure.alias: typed(measure.this) for measure in self.clause.measures}
        if self.clause.per_match is not PerMatch.ONE_ROW:
            columns |= {name: column(name) for name in self.below.names if name not in self.keys}
        shape = shape_of_results(columns).from_(table(self.rows), copy=False)
        add_results(self.operator, self.results, shape, timed=self.clause.within is not None)
