"""Windows that rows enter only in the beginning, and never leave (W7)."""

from __future__ import annotations

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, add_table, clock, row_columns
from bridge.rewrite.plan import Insert, Operator
from windows.extents import FirstRange, FirstRows
from windows.sql import aliased, aliased_table, column, column_of, derived_table, null_safe_equal, number, over, table
from windows.times import NEVER

__all__ = ["rewrite_first"]


def rewrite_first(node: query.Window, network: Network, need: Need) -> Flow:
    """The arrivals that enter; the others are none of this window."""
    below = network.rewrite(node.input, Need.ARRIVALS)

    def build(operator: Operator) -> None:
        make = _by_count if isinstance(node.extent, FirstRows) else _by_time
        rows = make(operator, node, network, below)
        operator.result = Flow(below.names, rows, order=below.order, timed=below.timed, size=NEVER)

    operator = network.operator(node, build, f"Window({node.extent})")
    return network.give(operator, node, need)


def _by_count(operator: Operator, node: query.Window, network: Network, below: Flow) -> Selection:
    """The rows whose number in the stream, of their key, is at most `count`; those that entered are counted in a table."""
    assert isinstance(node.extent, FirstRows)
    entered = network.name("entered", node)
    keys = {f"_part{place}": key for place, key in enumerate(node.partition_by)}
    rows = below.arrivals.project({**row_columns(below, number(NEVER)), **keys})
    arrivals = derived_table(rows.select(), "a")
    place = over(exp.RowNumber(), (column_of("a", key) for key in keys), (column_of("a", name) for name in below.key))
    known = exp.select(exp.Count(this=exp.Star())).from_(aliased_table(entered, "p"))
    known = known.where(*(null_safe_equal(column_of("p", key), column_of("a", key)) for key in keys))
    columns = [column_of("a", name) for name in rows.columns]
    moments = [column_of("a", name) for name in dict.fromkeys(("ts", "seq", *below.order, *keys))]
    numbered = exp.select(*columns, aliased(place, "_number"), aliased(exp.Subquery(this=known), "_n")).from_(arrivals)
    shape = exp.select(*moments).from_(arrivals.copy())
    add_table(operator, entered, shape, ((*keys,),) if keys else ())
    total = exp.Add(this=column("_number"), expression=column("_n"))
    within = exp.LTE(this=total, expression=number(node.extent.count))
    first = exp.select(*map(column, rows.columns)).from_(derived_table(numbered, "f")).where(within)
    noted = exp.select(*(column(moment.name) for moment in moments))
    operator.steps.append(Insert(entered, noted.from_(derived_table(first, "e"))))
    mine = [exp.EQ(this=column_of("e", name), expression=column_of("a", name)) for name in ("ts", "seq", *below.order)]
    is_in = exp.Exists(this=exp.select(number(1)).from_(aliased_table(entered, "e")).where(*mine))
    listed = exp.select(*(column_of("a", name) for name in rows.columns)).from_(arrivals.copy()).where(is_in)
    return Selection.of(exp.Subquery(this=listed), rows.columns)


def _by_time(operator: Operator, node: query.Window, network: Network, below: Flow) -> Selection:
    """The rows that come within `size` of the time at which the query began."""
    assert isinstance(node.extent, FirstRange)
    begun = network.name("begun", node)
    beginning = exp.select(aliased(clock("before"), "ts"))
    add_table(operator, begun, beginning)
    unknown = exp.Not(this=exp.Exists(this=exp.select(number(1)).from_(table(begun))))
    operator.steps.append(Insert(begun, beginning.copy().where(unknown)))
    since = exp.Subquery(this=exp.select(column("ts")).from_(table(begun)))
    end = exp.Add(this=since, expression=number(node.extent.size))
    rows = below.arrivals.project(row_columns(below, number(NEVER)))
    return rows.where(exp.LT(this=column("ts"), expression=end))
