"""The windows FIRST ROWS and FIRST RANGE: only the first rows of a stream enter them, and no row leaves (W7)."""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.plan import Insert, Operator
from bridge.rewrite.state_tables import add_table, clock, row_columns
from bridge.rewrite.windows.window import as_operator, key_columns, rewrite_window
from windows.extents import FirstRange, FirstRows
from windows.sql import (
    aliased,
    aliased_table,
    column,
    column_of,
    derived_table,
    null_safe_equal,
    number,
    row_number,
    table,
)
from windows.times import NEVER


@rewrite_window.register
def _(extent: FirstRows, node: query.Window, network: Network, need: Need) -> Flow:
    return as_operator(node, network, need, _first_rows)


@rewrite_window.register
def _(extent: FirstRange, node: query.Window, network: Network, need: Need) -> Flow:
    return as_operator(node, network, need, _first_range)


def _first_rows(operator: Operator, node: query.Window, network: Network, below: Flow) -> Flow:
    """The first `count` rows of each key. A table has the rows that have entered the window."""
    assert isinstance(node.extent, FirstRows)
    entered, keys = network.name("entered", node), key_columns(node)
    rows = below.arrivals.project({**row_columns(below, number(NEVER)), **keys})
    arrivals = derived_table(rows.select(), "a")
    place = row_number((column_of("a", key) for key in keys), (column_of("a", name) for name in below.key))
    known = exp.select(exp.Count(this=exp.Star())).from_(aliased_table(entered, "p"))
    known = known.where(*(null_safe_equal(column_of("p", key), column_of("a", key)) for key in keys))
    columns = [column_of("a", name) for name in rows.columns]
    identity = [column_of("a", name) for name in dict.fromkeys(("ts", "seq", *below.order, *keys))]
    counts = (aliased(place, "_number"), aliased(exp.Subquery(this=known), "_n"))
    add_table(operator, entered, exp.select(*identity).from_(arrivals.copy()), ((*keys,),) if keys else ())
    total = exp.Add(this=column("_number"), expression=column("_n"))
    within = exp.LTE(this=total, expression=number(node.extent.count))
    first = exp.select(*map(column, rows.columns))
    first = first.from_(derived_table(exp.select(*columns, *counts).from_(arrivals), "f")).where(within)
    entering = exp.select(*(column(each.name) for each in identity)).from_(derived_table(first, "e"))
    operator.steps.append(Insert(entered, entering))
    same_row = [
        exp.EQ(this=column_of("e", name), expression=column_of("a", name)) for name in ("ts", "seq", *below.order)
    ]
    has_entered = exp.Exists(this=exp.select(number(1)).from_(aliased_table(entered, "e")).where(*same_row))
    result = exp.select(*(column_of("a", name) for name in rows.columns)).from_(arrivals.copy()).where(has_entered)
    return _lasting_rows(Selection.of(exp.Subquery(this=result), rows.columns), below)


def _first_range(operator: Operator, node: query.Window, network: Network, below: Flow) -> Flow:
    """The rows that arrive less than `size` ms after the query began. A table has the time of its beginning."""
    assert isinstance(node.extent, FirstRange)
    begun = network.name("begun", node)
    beginning = exp.select(aliased(clock("before"), "ts"))
    add_table(operator, begun, beginning)
    operator.beginning = begun
    # The engine writes it when the query is created, or at the first event. In the script of `explain`, this step does.
    unknown = exp.Not(this=exp.Exists(this=exp.select(number(1)).from_(table(begun))))
    operator.steps.append(Insert(begun, beginning.copy().where(unknown)))
    since = exp.Subquery(this=exp.select(column("ts")).from_(table(begun)))
    end = exp.Add(this=since, expression=number(node.extent.size))
    rows = below.arrivals.project(row_columns(below, number(NEVER)))
    return _lasting_rows(rows.where(exp.LT(this=column("ts"), expression=end)), below)


def _lasting_rows(rows: Selection, below: Flow) -> Flow:
    return Flow(below.names, rows, order=below.order, timed=below.timed, size=NEVER)
