"""Tables that hold a statement's aggregates (EPL's into table): a row for each group, as it is then."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.changes import Action, Change, ChangeTable, StateTable
from bridge.errors import QueryError
from bridge.query import Aggregate, Map, Node

EVENT, ROW = "result", "row"


def kept(table: StateTable, node: Aggregate) -> Node:
    """The results of an aggregate, each put into the table as it comes, under the key that its groups are.

    >>> from bridge.query import Stream, Window, sum
    >>> from windows.schema import Schema
    >>> table = StateTable("T", Schema.of("k VARCHAR, total BIGINT"), ("k",), (("total", "SUM"),))
    >>> totals = Aggregate(Window(Stream("S"), "ROWS 3"), [sum("v").as_("total")], ["k"])
    >>> print(kept(table, totals))
    SELECT "total" FROM (SELECT SUM(v) AS total, k AS "k" FROM S WINDOW(ROWS 3) GROUP BY k CHANGING TABLE T)
    """
    if len(node.group_by) != len(table.key):
        raise QueryError(
            f"the table {table.name!r} has the key ({', '.join(table.key)}), and the statement groups by "
            f"{len(node.group_by)} columns: they are the same",
            words=[table.name],
        )
    columns = {_name(column): column.unalias() for column in node.columns}
    values: dict[str, exp.Expr] = {}
    for name, value in columns.items():
        if value.find(exp.AggFunc) is not None:
            values[_target_column(table, name, value)] = _result(name)
    if missing := [name for name, _ in table.aggregates if name not in values]:
        raise QueryError(f"one statement gives all aggregates of {table.name!r}: {missing[0]!r} is left out")
    more = []
    for key, group in zip(table.key, node.group_by, strict=True):
        if key not in columns:
            more.append(exp.alias_(group.copy(), key, quoted=True))
        elif columns[key] != group:
            raise QueryError(
                f"the column {key!r} is the key of {table.name!r}, which is {group.sql()} here", words=[key]
            )
        values[key] = _result(key)
    put = Change(EVENT, ROW, unmatched=(Action("put", None, tuple(values.items())),), always=True)
    changed = ChangeTable(dataclasses.replace(node, columns=(*node.columns, *more)), table, put)
    return (
        Map(changed, tuple(exp.column(exp.to_identifier(name, quoted=True)) for name in columns)) if more else changed
    )


def _name(column: exp.Expr) -> str:
    return str(column.alias if isinstance(column, exp.Alias) else column.name or column.sql())


def _target_column(table: StateTable, name: str, value: exp.Expr) -> str:
    """The table's column that has this aggregate."""
    known = {column.lower(): (column, function) for column, function in table.aggregates}
    column, function = known.get(name.lower(), ("", ""))
    if not isinstance(value, exp.AggFunc) or value.sql_name() != function:
        there = ", ".join(f"{one} {function}" for one, function in table.aggregates) or "none"
        raise QueryError(f"{name!r} is no such aggregate of the table {table.name!r}; there is {there}", words=[name])
    return column


def _result(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(EVENT, quoted=True))
