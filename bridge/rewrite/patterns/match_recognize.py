"""MATCH_RECOGNIZE over a stream: its rows and where each partition stands are tables, a machine goes between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from bridge import query
from bridge.check import row_pattern as resolve
from bridge.errors import QueryError
from bridge.patterns.conditions import Condition
from bridge.patterns.values import Atom, Fold, Number, Value, beside, read, shift_of
from bridge.query.row_pattern import PerMatch, RowPattern, with_absence
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, add_table, rewrite
from bridge.rewrite.plan import Insert, Operator, Purge
from nfa.errors import BudgetError
from nfa.program import AnchorStart, Program, compile_program
from windows.nested import is_list
from windows.sql import (
    aliased,
    aliased_table,
    bigint_zero,
    column,
    column_of,
    derived_table,
    lexicographically_before,
    null_safe_equal,
    number,
    over,
    row_number,
    table,
)

MOMENT = ("ts", "seq", "_place")
"""The columns that order the rows of a stream."""

STAND = (*MOMENT, "_needed", "_start", "_matches", "_version")
"""Where a partition stands: its last row that is not needed; as indexes the first row needed, and the row under way as a
start; how many matches there were; which of several lines is the newest."""


@rewrite.register
def _(node: query.MatchRecognize, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        Recognition(node.pattern, below, network, operator, node).build()

    operator = network.operator(node, build, f"MatchRecognize {node.pattern.pattern}")
    return network.give(operator, node, need)


def not_running(conditions: Iterable[Condition]) -> Iterator[Fold]:
    """The aggregates in conditions that only the database knows, over rows that are all there."""
    atoms = (atom for condition in conditions if condition.rest for atom in condition.rest.atoms)
    return (atom for atom in atoms if isinstance(atom, Fold) and atom.running is None)


def placed(below: Flow) -> exp.Expr:
    """`_place`: where each row of a flow stands among those of its event."""
    places = [column(name) for name in below.order]
    if len(places) == 1:
        return aliased(places[0], "_place")
    return aliased(row_number(map(column, ("ts", "seq")), places) if places else bigint_zero(), "_place")


@dataclasses.dataclass
class Recognition:
    """Writes the tables and statements of one clause, and makes its machine.

    rows: those that an open match may need; stands: one line a partition and change; found: the results of this push.
    """

    clause: RowPattern
    below: Flow
    network: Network
    operator: Operator
    node: query.MatchRecognize

    def __post_init__(self) -> None:
        self.clause = with_absence(self.clause)
        make = self.network.name
        self.rows, self.stands = make("rows", self.node), make("stands", self.node)
        self.found = make("matches", self.node)
        self.fields = (*self.below.names, "ts")
        self.keys = [key.name for key in self.clause.partition_by]

    def build(self) -> None:
        from bridge.patterns.conditions import conditions

        aggregate = self.network.database.is_aggregate
        self.conditions = conditions(self.clause, self.fields, aggregate)
        final = self.clause.per_match is PerMatch.ONE_ROW
        self.measures = tuple(
            read(m.this, self.clause, self.fields, None, final, aggregate) for m in self.clause.measures
        )
        self._refuse()
        self._keep_rows()
        self._keep_stands()
        self._match()

    def _refuse(self) -> None:
        for fold in not_running(self.conditions):
            raise QueryError(
                f"{fold.call.sql()} cannot stand in DEFINE over a stream: COUNT, SUM, AVG, MIN and MAX of one column or "
                "expression can"
            )

    # Tables -------------------------------------------------------------------------------------------------------------

    def _keep_rows(self) -> None:
        arrivals = self.below.arrivals
        select = exp.select(*map(column, ("ts", "seq")), placed(self.below), *map(column, self.below.names))
        select = select.from_(derived_table(arrivals.select(), "a"))
        add_table(self.operator, self.rows, select, ((*self.keys, "ts"),))
        self.operator.steps.append(Insert(self.rows, select))

    def _keep_stands(self) -> None:
        integers = [exp.alias_(exp.cast(number(0), "BIGINT"), name, quoted=True) for name in STAND]
        shape = exp.select(*map(column, self.keys), *integers).from_(table(self.rows))
        add_table(self.operator, self.stands, shape)
        seen = self._newer_than(self.stands)
        stands_before = exp.paren(
            lexicographically_before([(column_of("s", name), column_of(self.rows, name)) for name in MOMENT])
        )
        passed = self._same_key("s", self.rows, exp.Not(this=stands_before))
        behind = exp.select(number(1)).from_(aliased_table(self.stands, "s")).where(*passed)
        self.operator.purges += [Purge(self.stands, exp.Exists(this=seen)), Purge(self.rows, exp.Exists(this=behind))]

    def _same_key(self, alias: str, name: str, *more: exp.Expr) -> list[exp.Expr]:
        return [*(null_safe_equal(column_of(alias, key), column_of(name, key)) for key in self.keys), *more]

    def _newer_than(self, stand: str) -> exp.Select:
        """The lines of a partition that have come after the one of this alias."""
        later = exp.GT(this=column_of("m", "_version"), expression=column_of(stand, "_version"))
        newer = self._same_key("m", stand, later)
        return exp.select(number(1)).from_(aliased_table(self.stands, "m")).where(*newer)

    # The machine --------------------------------------------------------------------------------------------------------

    def _match(self) -> None:
        from bridge.patterns.live.decided import Live
        from bridge.patterns.live.statements import Texts
        from bridge.patterns.task import letter

        database = self.network.database
        expressions = tuple(self._expressions())
        read_here = [*expressions, letter(self.conditions)]
        shifts = [by for e in read_here for node in e.walk() if (by := shift_of(node)) is not None]
        behind, ahead = max([0, *(-by for by in shifts)]), max([0, *shifts])
        self._make_found()
        self.operator.probes += probes(self.clause, table(self.rows))
        texts = Texts(
            arrived=database.render(self._looked_at(expressions, bool(shifts), ahead, arrived=True)),
            kept=database.render(self._looked_at(expressions, bool(shifts), ahead, arrived=False)),
            places=database.render(self._newest_stands()),
            place_table=database.quoted(self.stands),
            result_table=database.quoted(self.found),
        )
        try:
            program = compile_program(self.clause.pattern)
        except BudgetError as error:
            raise QueryError(f"PATTERN ({self.clause.pattern}): {error}") from None
        self.operator.steps.append(
            Live(
                clause=self.clause,
                conditions=self.conditions,
                program=program,
                measures=self.measures,
                fields=self.fields,
                expressions=expressions,
                texts=texts,
                table=self.found,
                behind=behind,
                ahead=ahead,
                forgets=self._forgets(program, behind, ahead),
            )
        )

    def _forgets(self, program: Program, behind: int, ahead: int) -> bool:
        """Whether a partition without open rows is as one that never was; then nothing of it is kept."""
        values = [*(c.rest for c in self.conditions if c.rest), *self.measures]
        atoms = [atom for value in values for atom in value.atoms]
        numbers = any(isinstance(atom, Number) or (isinstance(atom, Fold) and atom.reads_number) for atom in atoms)
        first = any(isinstance(line, AnchorStart) for line in program.instructions)
        if numbers or first or behind or ahead:
            return False
        same_key = self._same_key("r", self.stands)
        kept = exp.select(number(1)).from_(aliased_table(self.rows, "r")).where(*same_key)
        self.operator.purges.append(Purge(self.stands, exp.Not(this=exp.Exists(this=kept))))
        return True

    def _expressions(self) -> Iterable[exp.Expr]:
        """What must be known of each row."""
        atoms: list[Atom] = [atom for c in self.conditions if c.rest for atom in c.rest.atoms]
        atoms += [atom for measure in self.measures for atom in measure.atoms]
        found = [atom.row for atom in atoms if isinstance(atom, Value)]
        for fold in (atom for atom in atoms if isinstance(atom, Fold)):
            found += map(column, fold.columns)
            if fold.running is not None and fold.running[1] is not None:
                found.append(fold.running[1])
        if self.clause.per_match is not PerMatch.ONE_ROW:
            found += map(column, self.fields)
        return dict.fromkeys(found)

    def _looked_at(self, expressions: Sequence[exp.Expr], shifted: bool, ahead: int, arrived: bool) -> exp.Expr:
        """The rows with their letters and values: those that arrived or, with NEXT, all of their partitions."""
        from bridge.patterns.task import letter

        arrivals = exp.Subquery(this=self.below.arrivals.select())
        columns = [*map(column, self.keys), *map(column, MOMENT)]
        values = [letter(self.conditions), *expressions]
        listed = [aliased(self._windows(value), f"_e{place}") for place, value in enumerate(values)]
        if ahead:
            listed.append(aliased(self._left(), "_left"))
        inner = exp.select(*columns, *listed).from_(aliased_table(self.rows, "r"))
        if not arrived:
            return inner
        touched = exp.select(number(1)).from_(arrivals.as_("a", quoted=True))
        if shifted and self.keys:
            inner = inner.where(
                exp.Exists(
                    this=touched.where(
                        *(null_safe_equal(column_of("a", key), column_of("r", key)) for key in self.keys)
                    )
                )
            )
        if ahead:
            return inner
        alias = "r" if not shifted else "q"
        new = touched.where(
            *(exp.EQ(this=column_of("a", name), expression=column_of(alias, name)) for name in ("ts", "seq"))
        )
        if not shifted:
            return inner.where(exp.Exists(this=new))
        return exp.select(exp.Star()).from_(derived_table(inner, "q")).where(exp.Exists(this=new))

    def _left(self) -> exp.Expr:
        """How many rows of the partition there are from a row on."""
        order = exp.Order(expressions=[exp.Ordered(this=column(name), desc=True) for name in MOMENT])
        return exp.Window(this=exp.RowNumber(), partition_by=[column(k) for k in self.keys] or None, order=order)

    def _windows(self, expression: exp.Expr) -> exp.Expr:
        def window(node: exp.Expr) -> exp.Expr:
            by = shift_of(node)
            if by is None:
                return node
            return over(beside(node.expressions[0], by), map(column, self.keys), map(column, MOMENT))

        return expression.transform(window)

    def _newest_stands(self) -> exp.Expr:
        select = exp.select(*(column_of("p", name) for name in (*self.keys, *STAND)))
        newest = exp.Not(this=exp.Exists(this=self._newer_than("p")))
        return select.from_(aliased_table(self.stands, "p")).where(newest)

    # Results ------------------------------------------------------------------------------------------------------------

    def _make_found(self) -> None:
        resolved = [*self.keys, *(m.alias for m in self.clause.measures)]
        shapes: dict[str, exp.Expr] = {key: column(key) for key in self.keys}
        shapes |= {m.alias: typed(m.this) for m in self.clause.measures}
        if self.clause.per_match is not PerMatch.ONE_ROW:
            resolved += [name for name in self.below.names if name not in self.keys]
            shapes |= {name: column(name) for name in self.below.names if name not in self.keys}
        system = {name: exp.cast(number(0), "BIGINT") for name in ("ts", "seq", "_expires", "_place")}
        listed = [aliased(value, name) for name, value in {**system, **shapes}.items()]
        shape = exp.select(*listed).from_(table(self.rows))
        add_table(self.operator, self.found, shape)
        self.operator.inboxes.append(self.found)
        names = ["ts", "seq", "_expires", "_place", *resolved]
        flow = Flow(
            tuple(resolved),
            Selection.of(table(self.found), names),
            order=("_place",),
            timed=self.clause.within is not None,
        )
        self.operator.result = self.operator.arrivals = flow


def probes(clause: RowPattern, rows: exp.Expr) -> list[exp.Query]:
    """What shows whether the database knows all functions in DEFINE, which stand for themselves in no statement."""
    values = [typed(condition) for _, condition in clause.define]
    listed = [aliased(value, f"c{place}") for place, value in enumerate(values)]
    return [exp.select(*listed).from_(rows.copy()).where(exp.false())] if listed else []


def typed(measure: exp.Expr) -> exp.Expr:
    """A measure's value over one row, so that the database says its type; aggregates are so as window functions."""

    def windowed(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Cast) and is_list(node):
            return exp.Cast(this=exp.null(), to=node.to.copy())
        return exp.Window(this=node.copy()) if isinstance(node, exp.AggFunc) else node

    def undistinguished(node: exp.Expr) -> exp.Expr:
        return node.expressions[0] if isinstance(node, exp.Distinct) else node

    return resolve.plain(measure).transform(undistinguished).transform(windowed)
