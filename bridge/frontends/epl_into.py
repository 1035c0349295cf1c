"""EPL's into table: a statement's aggregates kept in a table, a row for each of its groups."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor, Region
from bridge.query import Aggregate, Node

_OF_VALUES = {"sum": None, "min": "", "max": "", "avg": "DOUBLE", "stddev": "DOUBLE", "median": "DOUBLE"}
"""The aggregates of a table's columns: the type of each; "": that of its values. A sum of whole numbers is BIGINT."""


@dataclasses.dataclass(frozen=True)
class IntoTable:
    """`into table T select sum(v) as total from S group by k`."""

    table: str
    node: Aggregate
    text: str


def aggregate_column(cursor: Cursor, function: str, position: int) -> tuple[str, str]:
    """Step over `(double)` of `sum(double)`, the type of a column: its own type, and the aggregate in SQL's words.

    >>> from bridge.frontends.epl_text import EplCursor
    >>> aggregate_column(EplCursor("(int)"), "sum", 0), aggregate_column(EplCursor("(*)"), "count", 0)
    (('BIGINT', 'SUM'), ('BIGINT', 'COUNT'))
    """
    name = function.lower()
    cursor.expect("(")
    if name == "count" and cursor.take("*"):
        cursor.expect(")")
        return "BIGINT", "COUNT"
    if name not in _OF_VALUES and name != "count":
        known = ", ".join(f"{one}(…)" for one in ("count", *_OF_VALUES))
        cursor.fail(f"{function}(…) in a table is not supported; there are {known}", position)
    place = cursor.position
    of = epl_scalars.type_named(cursor, cursor.name("the type of what is aggregated"), place)
    cursor.expect(")")
    if name == "count":
        return "BIGINT", "COUNT"
    kind = _OF_VALUES[name]
    if kind is None:
        kind = "DOUBLE" if of == "DOUBLE" else "BIGINT"
    return kind or of, "STDDEV" if name == "stddev" else name.upper()


def into_table(cursor: Cursor, name: str, node: Node, start: int, position: int) -> IntoTable:
    """What follows `into table T`, a statement that has been read; `position`: where `into` stands."""
    if not isinstance(node, Aggregate) or node.having is not None:
        cursor.fail(
            "into table wants aggregates of one stream or join, without having, output and order by: into table T "
            "select sum(v) as total from S group by k",
            position,
        )
    for column in node.columns:
        if not isinstance(column, exp.Alias) and column.find(exp.AggFunc):
            cursor.fail("an aggregate is named as its column in the table is: … as total", position)
    return IntoTable(name, node, cursor.slice(Region(start, cursor.at)))
