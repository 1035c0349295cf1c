"""Tables changed by events (EPL's on … merge, on … update, on … delete, and insert into a table)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from bridge.errors import DatabaseError
from bridge.query.epl_state import Action, Change, ChangeTable, StateTable
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator
from bridge.rewrite.state_tables import add_table
from bridge.rewrite.tables.put_rows import Marked, PutRows, puts_rows, refuse_null_key, run_bound, shown_key
from windows.databases import Database
from windows.databases.base import PARAMETER
from windows.sql import aliased, aliased_table, bigint_zero, column, column_of, derived_table, number, table
from windows.times import NEVER

EVENT, ROW = "e", "r"
"""The aliases of the current event and of the rows that it may change."""


@rewrite.register
def _(node: ChangeTable, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        below = network.rewrite(node.input, Need.ARRIVALS)
        network.state_changes.add(node.table.name, node.input)
        _changed(node, below, network, operator)

    return network.give(network.operator(node, build, f"Change {node.table.name}"), node, need)


def _changed(node: ChangeTable, below: Flow, network: Network, operator: Operator) -> None:
    database, state = network.database, node.table
    names = tuple(state.schema.names)
    if puts_rows(node.change) and database.python_types:
        operator.steps.append(_put(node, below, network))
        operator.result = below
        return
    cause, changed = network.name("cause", node), network.name("changed", node)
    events = arrived(below)
    add_cause(operator, cause, events)
    reads = database.relation_columns(state.name, names)
    source = Selection(table(state.name), reads)
    statements = Statements(
        arrived=database.render(events),
        cause=database.quoted(cause),
        clear=database.render(exp.delete(table(cause))),
        matched_rows=None if node.change.always else database.render(matched_rows(node.change, names, source, cause)),
        unmatched=database.render(unmatched(node.change, names, cause)) if node.change.unmatched else None,
        table=database.quoted(state.name),
        update=database.parameterize(_update(names, state.name, state.key), len(names) + len(state.key)),
        delete=database.parameterize(_delete(state.name, state.key), len(state.key)),
        known=database.parameterize(_known(state.name, state.key), len(state.key)),
    )
    reported = below
    if not node.change.always:
        shape = exp.select(*(aliased(bigint_zero(), name) for name in ("ts", "seq", "_expires", "_place")))
        add_table(operator, changed, shape.select(*map(column, names)).from_(table(state.name)))
        operator.inboxes.append(changed)
        columns = ["ts", "seq", "_expires", "_place", *names]
        reported = Flow(names, Selection.of(table(changed), columns), order=("_place",), timed=below.timed)
        operator.arrivals = reported
    operator.result = reported
    keys = tuple(names.index(name) for name in state.key)
    quoted = None if node.change.always else database.quoted(changed)
    operator.steps.append(Alter(state, node.change, statements, keys, quoted, changed if quoted else ""))


def _put(node: ChangeTable, below: Flow, network: Network) -> PutRows:
    """The step that puts the event's row into the table."""
    database, state, events = network.database, node.table, arrived(below)
    names = tuple(state.schema.names)
    row = [_new(node.change.unmatched, name, None, lambda value: _resolved(value, node.change, None)) for name in names]
    rows = exp.select(*(aliased(value, name) for value, name in zip(row, names, strict=True)))
    order = [exp.Ordered(this=column_of(EVENT, name)) for name in ("ts", "seq", "_place")]
    events.set("order", None)
    rows = rows.from_(derived_table(events, EVENT)).order_by(*order)
    update = database.parameterize(_update(names, state.name, state.key), len(names) + len(state.key))
    return PutRows(state, rows, database.render(rows), database.quoted(state.name), update)


def arrived(below: Flow) -> exp.Select:
    """The events in order: ts, seq and place, then their columns."""
    order = [below.arrivals.columns[name].copy() for name in ("ts", "seq", *below.order)]
    place = order[2].copy() if below.order else bigint_zero()
    select = below.arrivals.select(["ts", "seq"]).select(aliased(place, "_place"))
    return select.select(*(aliased(below.arrivals.columns[name].copy(), name) for name in below.names)).order_by(*order)


def add_cause(operator: Operator, cause: str, events: exp.Select) -> None:
    """Adds the table of the current event."""
    bare = events.copy()
    bare.set("order", None)
    add_table(operator, cause, bare)
    operator.inboxes.append(cause)


def matched_rows(
    change: Change, names: Sequence[str], rows: Selection, cause: str, identity: Sequence[str] = ()
) -> exp.Select:
    """The rows that the event matches: the number of the action on each (0: none), the row before, and the row after.

    Of the row before, only the `identity` is selected if given; it orders the rows.
    """

    def resolved(value: exp.Expr) -> exp.Expr:
        return _resolved(value, change, rows)

    which = _which([action.condition and resolved(action.condition) for action in change.matched])
    old = [aliased(rows.value(column(name), ROW), f"_old_{name}") for name in identity or names]
    new = [aliased(_new(change.matched, name, rows, resolved), f"_new_{name}") for name in names]
    event = aliased_table(cause, EVENT)
    select = exp.select(aliased(which, "_which"), *old, *new).from_(event)
    conditions = [*rows.conditions_of(ROW), *([] if change.condition is None else [resolved(change.condition)])]
    on = exp.and_(*conditions) if conditions else None
    select = select.join(rows.item(ROW), on=on, join_type="inner" if conditions else "cross")
    order = [rows.value(column(name), ROW) for name in identity or names]
    return select.order_by(*(exp.Ordered(this=value, nulls_first=None if identity else True) for value in order))


def unmatched(change: Change, names: Sequence[str], cause: str) -> exp.Select:
    """The number of the action if no row matches (0: none), and the row that is then inserted."""

    def resolved(value: exp.Expr) -> exp.Expr:
        return _resolved(value, change, None)

    which = _which([action.condition and resolved(action.condition) for action in change.unmatched])
    row = [aliased(_new(change.unmatched, name, None, resolved), f"_new_{name}") for name in names]
    return exp.select(aliased(which, "_which"), *row).from_(aliased_table(cause, EVENT))


def _which(conditions: Sequence[exp.Expr | None]) -> exp.Expr:
    """The number of the first action that applies, from 1."""
    if not conditions or conditions[0] is None:
        return number(len(conditions[:1]))
    case = exp.Case()
    for place, condition in enumerate(conditions, 1):
        case = case.when(condition if condition is not None else exp.true(), number(place))
    return case.else_(number(0))


def _new(
    actions: Sequence[Action], name: str, rows: Selection | None, resolved: Callable[[exp.Expr], exp.Expr]
) -> exp.Expr:
    """The value of a column after the action that applies."""
    kept = exp.null() if rows is None else rows.value(column(name), ROW)
    values = [dict(action.values).get(name) for action in actions]
    if not any(value is not None for value in values):
        return kept
    given = [kept.copy() if value is None else resolved(value) for value in values]
    if actions[0].condition is None:
        return given[0]
    case = exp.Case()
    for action, value in zip(actions, given, strict=True):
        case = case.when(exp.true() if action.condition is None else resolved(action.condition), value)
    return case.else_(kept.copy())


def _resolved(value: exp.Expr, change: Change, rows: Selection | None) -> exp.Expr:
    """An expression over `alias.column` and `row.column`, rewritten over the event and the row."""

    def own(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        if node.name.startswith(f"{change.alias}."):
            return column_of(EVENT, node.name.removeprefix(f"{change.alias}."))
        assert rows is not None
        return rows.value(column(node.name.removeprefix(f"{change.row}.")), ROW)

    return value.transform(own)


def equations(names: Sequence[str], first: int) -> list[exp.Expr]:
    """Equations of columns with the values of a statement, beginning with the value at `first`."""
    return [
        exp.EQ(this=column(name), expression=column(f"{PARAMETER}{place}")) for place, name in enumerate(names, first)
    ]


def _update(names: Sequence[str], name: str, key: Sequence[str]) -> exp.Expr:
    update = exp.Update(this=table(name), expressions=equations(names, 0))
    return update.where(*equations(key, len(names))) if key else update


def _delete(name: str, key: Sequence[str]) -> exp.Expr:
    where = equations(key, 0)
    return exp.delete(table(name), where=exp.and_(*where) if where else None)


def _known(name: str, key: Sequence[str]) -> exp.Expr:
    return exp.select(number(1)).from_(table(name)).where(*equations(key, 0)).limit(1)


# The step that changes a table: for one event after the other, each sees the changes of earlier ones

Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Statements:
    """The texts: the events, the current event's table, the matched rows, the actions, and whether a key exists."""

    arrived: str
    cause: str
    clear: str
    matched_rows: str | None
    unmatched: str | None
    table: str
    update: Marked
    delete: Marked
    known: Marked


@dataclasses.dataclass
class Alter:
    """Changes a table for each event of this push, in order; inserts the changed rows into `changed`, if given."""

    state: StateTable
    change: Change
    sql: Statements
    keys: Sequence[int]
    changed: str | None
    table: str

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Changes the table for the events of this push."""
        rows: list[Row] = []
        moment, place = None, 0
        for event in database.fetch(self.sql.arrived):
            database.execute(self.sql.clear)
            database.insert(self.sql.cause, len(event), [event])
            moment, place = event[:2], 0 if event[:2] != moment else place
            for row in self._apply(database):
                place += 1
                rows.append((*moment, NEVER, place, *row))
        if self.changed is not None and rows:
            database.insert(self.changed, len(rows[0]), rows)

    def _apply(self, database: Database) -> list[Row]:
        """Executes the action of one event; returns the changed rows."""
        matched_rows = database.fetch(self.sql.matched_rows) if self.sql.matched_rows is not None else []
        if matched_rows:
            return [row for one in matched_rows for row in self._matched(one, database)]
        given = database.fetch(self.sql.unmatched) if self.sql.unmatched is not None else []
        return [self._put(self.change.unmatched[which - 1], row, database) for which, *row in given if which]

    def _matched(self, matched_rows: Row, database: Database) -> list[Row]:
        which, width = matched_rows[0], len(self.state.schema.names)
        if not which:
            return []
        action: Action = self.change.matched[which - 1]
        old, new = matched_rows[1 : 1 + width], matched_rows[1 + width :]
        if action.kind == "delete":
            run_bound(database, self.sql.delete, self._key(old))
            return [old] if self.change.is_deletion else []
        if self._key(old) != self._key(new):
            self._check_new(new, database)
        run_bound(database, self.sql.update, [*new, *self._key(old)])
        return [new]

    def _put(self, action: Action, row: Sequence[Any], database: Database) -> Row:
        """Inserts a row, or replaces the row with the same key."""
        if action.kind == "upsert" and self._exists(row, database):
            run_bound(database, self.sql.update, [*row, *self._key(row)])
            return tuple(row)
        return self._insert(row, database)

    def _insert(self, row: Sequence[Any], database: Database) -> Row:
        self._check_new(row, database)
        database.insert(self.sql.table, len(row), [tuple(row)])
        return tuple(row)

    def _key(self, row: Sequence[Any]) -> list[Any]:
        return [row[place] for place in self.keys]

    def _check_new(self, row: Sequence[Any], database: Database) -> None:
        """Raises DatabaseError if the key exists or has a NULL. A table without a key has one row."""
        key = self._key(row)
        refuse_null_key(self.state, key)
        if self._exists(row, database):
            there = f"a row with {shown_key(self.state, key)}" if key else "its one row"
            raise DatabaseError(f"the table {self.state.name!r} has {there} already: on … merge says what is done then")

    def _exists(self, row: Sequence[Any], database: Database) -> bool:
        text, order = self.sql.known
        key = self._key(row)
        return bool(database.fetch_bound(text, [key[place] for place in order]))

    def forget(self) -> None:
        """Does nothing: the step remembers nothing."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The events, and the statements for each."""
        selects = [text for text in (self.sql.matched_rows, self.sql.unmatched) if text is not None]
        parts = [f"{pretty(self.sql.arrived)};", f"-- for each of these rows, alone in {self.sql.cause}:"]
        return "\n".join([*parts, *(f"{pretty(text)};" for text in selects)])
