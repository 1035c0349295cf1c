"""A script in the notation of PaaS-CEP's algebra (Tables 1 to 3 of its paper), one operator per line.

A statement may be several operators; the streams between them are named `output.1`, `output.2`, ….
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from sqlglot import exp

from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Stream, Union, Window
from bridge.query.scripts import IntoTable, MultiFilter, ReadSQL, Script, Statement, UpdateSQL
from windows.extent import Extent
from windows.extents import Batch, Range, Rows


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operator of the graph: its kind, the streams that it reads and emits, and its parameters."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    """The condition of each output, if the operator is a filter."""

    def __str__(self) -> str:
        head = f"{self.kind}({', '.join(self.inputs)})"
        if self.kind == "Union":
            return f"{head}{{{self.outputs[0]}}}"
        if self.conditions:
            pairs = zip(self.conditions, self.outputs, strict=True)
            return f"{head} = {{{', '.join(f'({condition}, {output})' for condition, output in pairs)}}}"
        return f"{head} = {{{', '.join([*self.parameters, *self.outputs])}}}"


def notation(script: Script) -> list[str]:
    """The operators of a script as text, in the order of data flow.

    >>> from bridge.frontends.cpl.script import parse
    >>> for line in notation(parse("INSERT INTO cost SELECT id, length * 10 AS due FROM calls WHERE length >= 10")):
    ...     print(line)
    Filter(calls) = {(length >= 10, cost.1)}
    Map(cost.1) = {id = id, due = length * 10, cost}
    """
    return [str(operation) for operation in operations(script)]


def operations(script: Script) -> Iterator[Operation]:
    """The operators of a script."""
    for statement in script.statements:
        yield from _of_statement(statement)


def _of_statement(statement: Statement) -> Iterator[Operation]:
    chain = list(_chain(statement.node))
    ends = [f"{statement.name.removeprefix('table ')}.{number}" for number in range(1, len(chain))]
    outputs = [*((end,) for end in ends), _outputs(statement)]
    for place, (node, output) in enumerate(zip(chain, outputs, strict=True)):
        yield _operation(node, (ends[place - 1],) if place else None, output)


def _outputs(statement: Statement) -> tuple[str, ...]:
    match statement.node:
        case MultiFilter(_, outputs):
            return tuple(name for name, _ in outputs)
        case IntoTable(_, table):
            return (f"TABLE {table}",)
    return (statement.name,)


def _chain(node: Node) -> Iterator[Node]:
    """The operators of a tree with one branch, beginning at the source.

    An aggregate's window is part of the aggregate.
    """
    below = node.inputs_of[0] if len(node.inputs_of) == 1 else None
    if below is not None and not isinstance(node, Stream):
        inner = below.input if isinstance(below, Window) and isinstance(node, Aggregate) else below
        if not isinstance(inner, Stream):
            yield from _chain(inner)
    yield node


def _operation(node: Node, inputs: tuple[str, ...] | None, outputs: tuple[str, ...]) -> Operation:
    read = inputs or tuple(_names(node))
    match node:
        case Filter(_, condition):
            return Operation("Filter", read, outputs, conditions=(_sql(condition),))
        case MultiFilter(_, routes):
            return Operation("MultiFilter", read, outputs, conditions=tuple(_sql(condition) for _, condition in routes))
        case Map(_, columns):
            return Operation("Map", read, outputs, tuple(map(_assigned, columns)))
        case Aggregate():
            return Operation("Aggregate", read, outputs, tuple(_aggregate(node)))
        case Union():
            return Operation("Union", read, outputs)
        case Correlate():
            return Operation("Join", read, outputs, tuple(_join(node)))
        case ReadSQL() | UpdateSQL():
            return Operation(type(node).__name__, read, outputs, tuple(_sql_parts(node)))
        case IntoTable():
            return Operation("IntoTable", read, outputs)
        case Window(_, extent):
            return Operation("Window", read, outputs, tuple(_extent(extent)))
    return Operation(type(node).__name__, read, outputs)


def _names(node: Node) -> Iterator[str]:
    if isinstance(node, Stream):
        yield node.name
        return
    for below in node.inputs_of:
        yield from _names(below)


def _aggregate(node: Aggregate) -> Iterator[str]:
    yield from map(_assigned, node.columns)
    if isinstance(node.input, Window):
        yield from _extent(node.input.extent)
    if node.group_by:
        yield f"Group-by({_comma_list(node.group_by)})"
    if node.having is not None:
        yield f"Having({_sql(node.having)})"


def _join(node: Correlate) -> Iterator[str]:
    yield _sql(node.condition) if node.condition is not None else "TRUE"
    for _, below in node.inputs:
        if isinstance(below, Window):
            yield " ".join(_extent(below.extent))


def _extent(extent: Extent) -> list[str]:
    """Size, advance and type of a window, as in Table 2."""
    match extent:
        case Range(size, slide, _, step):
            return [f"{size} MS", f"{slide or step or 1} MS", "time"]
        case Rows(count, slide):
            return [str(count), str(slide or 1), "tuples"]
        case Batch(start, stop):
            return [f"START {_sql(start)}", f"STOP {_sql(stop)}", "batch"]
    return [str(extent)]


def _sql_parts(node: ReadSQL | UpdateSQL) -> Iterator[str]:
    yield " ".join(node.statement.split())
    if node.parameters:
        yield f"({_comma_list(node.parameters)})"
    if node.store:
        yield node.store


def _assigned(column: exp.Expr) -> str:
    if isinstance(column, exp.Star):
        return "*"
    value = column.this if isinstance(column, exp.Alias) else column
    return f"{column.alias_or_name or _sql(column)} = {_sql(value)}"


def _comma_list(expressions: Sequence[exp.Expr]) -> str:
    return ", ".join(map(_sql, expressions))


def _sql(expression: exp.Expr) -> str:
    return expression.sql(comments=False, normalize_functions=False)
