"""Variables that events set (EPL's on … set): the value of each variable is in a table of one row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from bridge.query.epl_state import CURRENT, SetVariables
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.joins.subquery_column import read_before_set
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Operator
from bridge.rewrite.state_tables import add_table
from bridge.rewrite.tables.change import EVENT, add_cause, arrived, equations
from bridge.rewrite.tables.put_rows import Marked, run_bound
from windows.databases import Database
from windows.sql import aliased, aliased_table, bigint_zero, column, column_of, table
from windows.times import NEVER


@rewrite.register
def _(node: SetVariables, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        read_before_set(node, network)
        for state in node.set:
            network.state_changes.add(state.name, node.input)
        _set(node, network.rewrite(node.input, Need.ARRIVALS), network, operator)

    names = ", ".join(table.name for table in node.set)
    return network.give(network.operator(node, build, f"Set {names}"), node, need)


def _set(node: SetVariables, below: Flow, network: Network, operator: Operator) -> None:
    database = network.database
    cause, changed = network.name("cause", node), network.name("changed", node)
    events = arrived(below)
    add_cause(operator, cause, events)
    operator.variables |= {state.name: next(iter(state.schema)).type for state in node.tables}
    names = [state.name for state in node.set]
    settings = []
    for name, value in node.settings:
        update = exp.Update(this=table(name), expressions=equations([name], 0))
        resolved = _resolved(value)
        text = database.render(exp.select(resolved).from_(aliased_table(cause, EVENT)))
        settings.append(Setting(names.index(name), text, database.parameterize(update, 1), resolved))
    shape = exp.select(*(aliased(bigint_zero(), name) for name in ("ts", "seq", "_expires", "_place")))
    values = [aliased(_value(name), name) for name in names]
    add_table(operator, changed, shape.select(*values))
    operator.inboxes.append(changed)
    columns = ["ts", "seq", "_expires", "_place", *names]
    reported = Flow(tuple(names), Selection.of(table(changed), columns), order=("_place",), timed=below.timed)
    operator.arrivals = operator.result = reported
    operator.steps.append(
        Assign(
            arrived=database.render(events),
            cause=database.quoted(cause),
            clear=database.render(exp.delete(table(cause))),
            settings=settings,
            changed=database.quoted(changed),
            table=changed,
            events=events,
            names=names,
        )
    )


def _value(name: str) -> exp.Subquery:
    """The present value of a variable."""
    return exp.Subquery(this=exp.select(column(name)).from_(table(name)))


def _resolved(value: exp.Expr) -> exp.Expr:
    """An expression over the current event and the values of variables."""

    def own(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        if node.name.startswith(CURRENT):
            return _value(node.name.removeprefix(CURRENT))
        return column_of(EVENT, node.name)

    return value.transform(own)


# The step that sets variables: for one event after the other, one value after the other


@dataclasses.dataclass(frozen=True)
class Setting:
    """One assignment: the place of its variable in a result, and the texts that compute and store the value.

    `tree`: the value, over the columns of the event (`EVENT`) and the tables of variables.
    """

    place: int
    value: str
    update: Marked
    tree: exp.Expr


@dataclasses.dataclass
class Assign:
    """Sets variables for each event of this push, in order; inserts their values after it into `changed`.

    `events`: the SELECT of the events in order, with the text `arrived`. `names`: the variables, by their places.
    """

    arrived: str
    cause: str
    clear: str
    settings: Sequence[Setting]
    changed: str
    table: str
    events: exp.Select
    names: Sequence[str]

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Sets the variables for the events of this push."""
        rows: list[tuple[Any, ...]] = []
        for place, event in enumerate(database.fetch(self.arrived)):
            database.execute(self.clear)
            database.insert(self.cause, len(event), [event])
            values = dict[int, Any]()
            for one in self.settings:
                values[one.place] = database.fetch(one.value)[0][0]
                run_bound(database, one.update, [values[one.place]])
            rows.append((*event[:2], NEVER, place, *(values[place] for place in sorted(values))))
        if rows:
            database.insert(self.changed, len(rows[0]), rows)

    def forget(self) -> None:
        """Does nothing: the step remembers nothing."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The events, and the values for each."""
        parts = [f"{pretty(self.arrived)};", f"-- for each of these rows, alone in {self.cause}:"]
        return "\n".join([*parts, *(f"{pretty(one.value)};" for one in self.settings)])
