"""EPL's match_recognize: the rows as they were seen and where the machine stands are tables, the machine goes between."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from sqlglot import exp

from bridge import query
from bridge.errors import QueryError
from bridge.patterns.values import Atom, Fold, Value, beside, read, shift_of
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, add_table, rewrite
from bridge.rewrite.patterns.eager_sequence import SequenceOf, is_sequence
from bridge.rewrite.patterns.match_recognize import MOMENT, not_running, placed, probes, typed
from bridge.rewrite.plan import Insert, Operator, Purge
from nfa.errors import BudgetError
from nfa.pattern import groups
from nfa.program import compile_program
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
    null_safe_equal,
    number,
    over,
    table,
)

ROWS = ("_part", "_index", *MOMENT, "_number")
"""The rows that open matches hold, as the machine last noted them: partition, index in it, moment, number of all rows.

The line of partition -1 has the oldest row that is in the window, if there is one, and else the newest: rows before it may
go that no line has. The line of partition -2 has the newest row and the number of rows so far; those of partition -3 have
the rows that were taken of a window that rows are deleted from.
"""

WAYS = ("_part", "_start", "_way", "_at", "_held", "_step", "_symbol")
"""Their ways: partition, index of the start, place in the order of preference, instruction, number if complete and held
(0: open), then one line for each row taken, with the number of its symbol."""


@rewrite.register
def _(node: query.EagerMatch, network: Network, need: Need) -> Flow:
    if is_sequence(node, network.database.is_aggregate):
        found = SequenceOf(node, network)
        if not found.skips or network.rewrite(node.input, Need.ARRIVALS).key == ("seq",):
            return found.flow(need)

    def build(operator: Operator) -> None:
        deleting = node.input if isinstance(node.input, query.WindowWithDeletions) else None
        window = node.input if deleting is None else deleting.input
        source = window.input if isinstance(window, query.Window) else window
        triggers = [network.rewrite(one.trigger, Need.ARRIVALS) for one in deleting.deletions] if deleting else []
        extent = window.extent if isinstance(window, query.Window) else None
        _Writing(node, network.rewrite(source, Need.ARRIVALS), network, operator, extent, triggers).build()

    operator = network.operator(node, build, f"EagerMatch {node.pattern.pattern}")
    return network.give(operator, node, need)


@dataclasses.dataclass
class _Writing:
    """Writes the tables and statements of one clause, and makes its machine.

    log: rows to look back at by prev; seen: what is known of each row; found: the results of this push.
    """

    node: query.EagerMatch
    below: Flow
    network: Network
    operator: Operator
    window: Extent | None
    triggers: list[Flow]

    def __post_init__(self) -> None:
        self.clause = self.node.pattern
        self.fields = (*self.below.names, "ts")
        self.keys = [key.name for key in self.clause.partition_by]
        kinds = ("log", "seen", "rows", "ways", "matches", "present", "gone")
        self.log, self.seen, self.rows, self.ways, self.found, self.present, self.gone = (
            self.network.name(kind, self.node) for kind in kinds
        )

    def build(self) -> None:
        from bridge.patterns.conditions import conditions
        from bridge.patterns.task import letter

        aggregate = self.network.database.is_aggregate
        self.conditions = conditions(self.clause, self.fields, aggregate)
        self.single: dict[str, tuple[str, str]] = {}
        values = [self._set_apart(m.this) for m in self.clause.measures]
        fields = (*self.fields, *self.single)
        self.measures = tuple(read(value, self.clause, fields, None, True, aggregate) for value in values)
        self.expressions = tuple(self._expressions())
        self.values = [letter(self.conditions), *self.expressions]
        self._refuse()
        self._keep_rows()
        self._keep_gone()
        self._keep_state()
        self._make_found()
        self._match()

    def _refuse(self) -> None:
        for fold in not_running(self.conditions):
            raise QueryError(f"{fold.call.sql()} cannot stand in DEFINE: count, sum, avg, min and max can")

    def _set_apart(self, measure: exp.Expr) -> exp.Expr:
        """An aggregate over the rows of one variable may name others, which have one row: a column of each row, then."""
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

    def _expressions(self) -> Iterable[exp.Expr]:
        """What must be known of each row."""
        asked: list[Atom] = [atom for c in self.conditions if c.rest for atom in c.rest.atoms]
        told: list[Atom] = [atom for measure in self.measures for atom in measure.atoms]
        found = [atom.row for atom in (*asked, *told) if isinstance(atom, Value)]
        for fold in (atom for atom in told if isinstance(atom, Fold)):
            found += (column(self.single[name][1] if name in self.single else name) for name in fold.columns)
        running = [atom.running for atom in asked if isinstance(atom, Fold)]
        found += [kept[1] for kept in running if kept is not None and kept[1] is not None]
        for deletion in self.deletions:
            columns = deletion.condition.find_all(exp.Column) if deletion.condition is not None else []
            found += [column(name) for c in columns for name in [self._of_row(deletion, c)] if name is not None]
        return dict.fromkeys(found)

    # Tables -------------------------------------------------------------------------------------------------------------

    def _keep_rows(self) -> None:
        moment = [column("ts"), column("seq"), placed(self.below)]
        arrivals = exp.select(*moment, *map(column, self.below.names))
        arrivals = arrivals.from_(derived_table(self.below.arrivals.select(), "a"))
        shifts = [-by for e in self.values for node in e.walk() if (by := shift_of(node)) is not None]
        looked_at = self._logged(arrivals, max(shifts)) if shifts else arrivals
        select = self._known(looked_at)
        add_table(self.operator, self.seen, select, (("ts", "seq"),))
        self.operator.steps.append(Insert(self.seen, select))

    def _known(self, rows: exp.Select) -> exp.Select:
        """For each row its partition, moment, letter, and the values that conditions and measures read."""
        keys = [aliased(column(key), f"_k{place}") for place, key in enumerate(self.keys)]
        values = [aliased(self._windows(value), f"_e{place}") for place, value in enumerate(self.values)]
        known = exp.select(*keys, *map(column, MOMENT), *values).from_(derived_table(rows, "r"))
        if not any(shift_of(node) is not None for value in self.values for node in value.walk()):
            return known
        arrived = exp.select(number(1)).from_(derived_table(self.below.arrivals.select(), "n"))
        new = arrived.where(
            *(exp.EQ(this=column_of("n", name), expression=column_of("q", name)) for name in ("ts", "seq"))
        )
        rows = exp.select(*(column_of("q", name) for name in known.named_selects))
        return rows.from_(derived_table(known, "q")).where(exp.Exists(this=new))

    def _logged(self, arrivals: exp.Select, behind: int) -> exp.Select:
        """The rows of the partitions that have new ones; only so many of each are kept as prev looks back."""
        add_table(self.operator, self.log, arrivals, ((*self.keys, "ts"),))
        self.operator.steps.append(Insert(self.log, arrivals))
        back = exp.Order(expressions=[exp.Ordered(this=column(name), desc=True) for name in MOMENT])
        newest = exp.Window(this=exp.RowNumber(), partition_by=[column(k) for k in self.keys] or None, order=back)
        ranked = exp.select(*map(column, MOMENT), aliased(newest, "_n")).from_(table(self.log))
        old = exp.select(number(1)).from_(derived_table(ranked, "o"))
        old = old.where(
            exp.GT(this=column_of("o", "_n"), expression=number(behind)),
            *(exp.EQ(this=column_of("o", name), expression=column_of(self.log, name)) for name in MOMENT),
        )
        self.operator.purges.append(Purge(self.log, exp.Exists(this=old)))
        names = ("ts", "seq", "_place", *self.below.names)
        rows = exp.select(*(column_of("l", name) for name in names)).from_(aliased_table(self.log, "l"))
        touched = exp.select(number(1)).from_(derived_table(self.below.arrivals.select(), "t"))
        return rows.where(
            exp.Exists(
                this=touched.where(*(null_safe_equal(column_of("t", key), column_of("l", key)) for key in self.keys))
            )
        )

    def _windows(self, expression: exp.Expr) -> exp.Expr:
        def window(node: exp.Expr) -> exp.Expr:
            by = shift_of(node)
            if by is None:
                return node
            return over(beside(node.expressions[0], by), map(column, self.keys), map(column, MOMENT))

        return expression.transform(window)

    def _keep_state(self) -> None:
        for name, columns in ((self.rows, ROWS), (self.ways, WAYS)):
            shape = exp.select(*(aliased(bigint_zero(), c) for c in columns)).from_(table(self.seen))
            add_table(self.operator, name, shape)
        if isinstance(self.window, Unbounded):
            return
        passed = lexicographically_before([(column_of(self.seen, name), column_of("s", name)) for name in MOMENT])
        noted = exp.select(number(1)).from_(aliased_table(self.rows, "s"))
        upto = noted.where(exp.EQ(this=column_of("s", "_part"), expression=number(-1)), passed)
        inside = noted.where(
            *(exp.EQ(this=column_of("s", name), expression=column_of(self.seen, name)) for name in MOMENT)
        )
        condition = exp.and_(exp.Exists(this=upto), exp.Not(this=exp.Exists(this=inside)))
        self.operator.purges.append(Purge(self.seen, condition))

    @property
    def deletions(self) -> tuple[query.Deletion, ...]:
        return self.node.input.deletions if isinstance(self.node.input, query.WindowWithDeletions) else ()

    @staticmethod
    def _of_row(deletion: query.Deletion, found: exp.Column) -> str | None:
        """The column of the window's rows that a condition names; None for one of the event that deletes."""
        alias, _, name = found.name.partition(".")
        return name if alias == deletion.row else None

    def _keep_gone(self) -> None:
        """The rows that events delete: the event's moment, and the row's."""
        if not self.deletions:
            return
        for place, (deletion, flow) in enumerate(zip(self.deletions, self.triggers, strict=True)):
            rows, events = aliased_table(self.seen, "r"), exp.Subquery(this=flow.arrivals.select())
            listed = [aliased(column_of("b", name), f"_{name}") for name in ("ts", "seq")] + [
                column_of("r", name) for name in MOMENT
            ]
            older = lexicographically_before([(column_of("r", name), column_of("b", name)) for name in ("ts", "seq")])
            select = exp.select(*listed).from_(events.as_("b", quoted=True)).join(rows, on=older)
            if deletion.condition is not None:
                select = select.where(self._over_both(deletion))
            if place == 0:
                add_table(self.operator, self.gone, select)
            self.operator.steps.append(Insert(self.gone, select))

    def _gone_in_this_push(self) -> exp.Select:
        conditions = []
        for flow in self.triggers:
            events = exp.select(number(1)).from_(derived_table(flow.arrivals.select(), "b"))
            same_event = (
                exp.EQ(this=column_of("b", name), expression=column_of("g", f"_{name}")) for name in ("ts", "seq")
            )
            conditions.append(exp.Exists(this=events.where(*same_event)))
        return exp.select(exp.Star()).from_(aliased_table(self.gone, "g")).where(exp.or_(*conditions))

    def _over_both(self, deletion: query.Deletion) -> exp.Expr:
        """A deletion's condition over what is known of a row, and the event."""
        assert deletion.condition is not None

        def known(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            name = self._of_row(deletion, node)
            if name is None:
                return column_of("b", node.name.partition(".")[2])
            return column_of("r", f"_e{1 + self.expressions.index(column(name))}")

        return deletion.condition.transform(known)

    def _make_found(self) -> None:
        shapes = {m.alias: typed(m.this) for m in self.clause.measures}
        system = {name: bigint_zero() for name in ("ts", "seq", "_expires", "_place")}
        fields = exp.select(*map(column, (*self.below.names, "ts")))
        fields = fields.from_(derived_table(self.below.arrivals.select(), "a"))
        listed = [aliased(value, name) for name, value in {**system, **shapes}.items()]
        shape = exp.select(*listed).from_(derived_table(fields, "f"))
        add_table(self.operator, self.found, shape)
        add_table(self.operator, self.present, shape)
        self.operator.probes += probes(self.clause, derived_table(fields, "f"))
        self.operator.inboxes.append(self.found)
        names = ["ts", "seq", "_expires", "_place", *shapes]
        timed = self.node.interval is not None
        flow = Flow(tuple(shapes), Selection.of(table(self.found), names), order=("_place",), timed=timed)
        self.operator.result = self.operator.arrivals = flow

    # The machine --------------------------------------------------------------------------------------------------------

    def _match(self) -> None:
        from bridge.patterns.live.eager import Live, Texts

        try:
            program = compile_program(self.clause.pattern)
        except BudgetError as error:
            raise QueryError(f"PATTERN ({self.clause.pattern}): {error}") from None
        database = self.network.database
        texts = Texts(
            arrived=database.render(self._of_this_push()),
            seen=database.render(self._all_seen()),
            seen_table=database.quoted(self.seen),
            row_table=database.quoted(self.rows),
            way_table=database.quoted(self.ways),
            result_table=database.quoted(self.found),
            gone_table=database.quoted(self.gone) if self.deletions else None,
            gone=database.render(self._gone_in_this_push()) if self.deletions else None,
        )
        live = Live(
            self.node, self.conditions, program, self.measures, self.expressions, texts, self.found, self.present, self.single
        )  # fmt: skip
        self.operator.steps.append(live)

    def _all_seen(self) -> exp.Select:
        return exp.select(exp.Star()).from_(aliased_table(self.seen, "r")).order_by(*_moment("r"))

    def _of_this_push(self) -> exp.Select:
        new = exp.select(number(1)).from_(derived_table(self.below.arrivals.select(), "a"))
        new = new.where(*(exp.EQ(this=column_of("a", name), expression=column_of("r", name)) for name in ("ts", "seq")))
        return self._all_seen().where(exp.Exists(this=new))


def present(node: query.EagerMatch, operators: Sequence[Operator], network: Network, epoch: int, now: int) -> Flow:
    """The matches over what the window of a clause holds at this moment (Esper's iterator), in a table."""
    from bridge.patterns.live.eager import Live

    steps = (step for operator in operators for step in operator.steps)
    live = next((step for step in steps if isinstance(step, Live) and step.node == node), None)
    if live is None:  # a sequence: of no window
        return network.under(epoch)(node, Need.RESULT).where(exp.false())
    database = network.database
    database.begin()
    try:
        live.show(database, now)
        database.commit()
    except BaseException:
        database.rollback()
        raise
    names = [measure.alias for measure in node.pattern.measures]
    rows = Selection.of(table(live.present), ["ts", "seq", "_expires", "_place", *names])
    return Flow(tuple(names), rows, order=("_place",))


def _moment(alias: str) -> Sequence[exp.Expr]:
    return [column_of(alias, name) for name in MOMENT]
