"""Resolves select lists: Map and Aggregate, GROUP BY and HAVING (rules O1, O2)."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from bridge import query
from bridge.check.aggregates import check_offsets, is_own_aggregate, refuse_missing, with_own_aggregates
from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.row_pattern import level_of_caller
from bridge.check.scope import Scope, columns_of, condition_of, expanded, fields_of, scalar, without_aliases
from bridge.check.types import place
from bridge.check.windows import is_known_to_change, is_known_to_end, may_evict_newest
from bridge.errors import QueryError
from bridge.query.nodes import Node
from windows.extents import Unbounded

if TYPE_CHECKING:
    from windows.databases import Database


@resolve.register
def _(node: query.Map, names: Namespace) -> ResolvedNode:
    database = names.store(None)
    if any(is_own_aggregate(below, database) for item in node.columns for below in item.find_all(exp.Anonymous)):
        return resolve(query.Aggregate(node.input, node.columns), names)
    below = _resolved_input(node, names)
    scope = Scope(below.fields)
    columns = columns_of(node.columns, scope)
    for item in columns:
        if aggregate := item.this.find(exp.AggFunc):
            raise QueryError(f"{aggregate.sql()} is an aggregate: use Aggregate", position=place(aggregate))
    return ResolvedNode(query.Map(below.node, columns), fields_of(columns, scope), below.windowed, below.expiring)


@resolve.register
def _(node: query.Aggregate, names: Namespace) -> ResolvedNode:
    database = names.store(None)
    node = _with_own_aggregates(node, database)
    below = _resolved_input(node, names)
    if not below.windowed:  # the standard's GROUP BY without a window: all rows so far
        _warn_of_all_rows()
        below = dataclasses.replace(below, node=query.Window(below.node, Unbounded()), windowed=True)
    scope = Scope(below.fields)
    raw = tuple(expanded(node.columns, scope))
    groups = tuple(_group(key, raw, scope) for key in node.group_by)
    columns = columns_of(node.columns, scope)
    having = None
    if node.having is not None:
        having = condition_of(without_aliases(node.having, raw, scope), scope, "HAVING", aggregates=True)
    for expression in (*(item.this for item in columns), *([having] if having else [])):
        _check_grouped(expression, groups, database)
        check_offsets(expression)
    if node.on_change and not below.expiring:
        raise QueryError("EMIT ON CHANGE needs a time window without SLIDE: there rows expire at an instant")
    if node.every_change and not is_known_to_change(query.without_filters(below.node)):
        raise QueryError(
            "EMIT ON EVERY CHANGE needs a stream with a window, or a join of windows that are neither batches nor sessions, "
            "perhaps filtered"
        )
    _check_parts(below.node, groups)
    resolved = query.Aggregate(below.node, columns, groups, having, node.on_change, node.every_change)
    windowed = is_known_to_end(below.node) and not may_evict_newest(below.node)
    return ResolvedNode(resolved, fields_of(columns, scope), windowed)


def _warn_of_all_rows() -> None:
    """Warns of an aggregate without a window, with advice; it is accepted."""
    warnings.warn(
        "an aggregate without a window is over all rows so far, and keeps them: WINDOW(RANGE 1 H) or WINDOW(ROWS 100) after "
        "the stream bounds that, and WINDOW(UNBOUNDED) says that it is meant",
        stacklevel=level_of_caller(),
    )


def _resolved_input(node: query.Map | query.Aggregate, names: Namespace) -> ResolvedNode:
    """The input of a select list. An error about one of its aliases in WHERE tells what to write instead."""
    try:
        return resolve_stream(node.input, names)
    except QueryError as error:
        wanted = _alias_at(error, node)
        if wanted is None:
            raise
        name, value = wanted
        way = "HAVING reads it" if value.find(exp.AggFunc) else f"repeat {value.sql()} there"
        raise QueryError(
            f"unknown column {name!r}: it is a column of the result, which WHERE does not see yet; {way}",
            error.text, error.position, error.words,
        ) from None  # fmt: skip


def _alias_at(error: QueryError, node: query.Map | query.Aggregate) -> tuple[str, exp.Expr] | None:
    """The alias of the select list that a refused condition of its input names, and the alias's expression."""
    if not error.message.startswith("unknown column"):
        return None
    aliases = {item.alias.lower(): item for item in node.columns if isinstance(item, exp.Alias)}
    conditions = [value for value in vars(node.input).values() if isinstance(value, exp.Expr)]
    for named in (each for condition in conditions for each in condition.find_all(exp.Column)):
        item = aliases.get(named.name.lower())
        if item is not None and not named.table and place(named) == error.position:
            return item.alias, item.this
    return None


def _with_own_aggregates(node: query.Aggregate, database: Database) -> query.Aggregate:
    columns = tuple(_named_as_written(with_own_aggregates(column, database), column) for column in node.columns)
    having = None if node.having is None else with_own_aggregates(node.having, database)
    refuse_missing([*columns, *([] if having is None else [having])], database)
    return dataclasses.replace(node, columns=columns, having=having)


def _named_as_written(column: exp.Expr, written: exp.Expr) -> exp.Expr:
    """A column without an alias, named as it was written, even if it is now another expression."""
    is_plain = isinstance(column, (exp.Alias, exp.Column, exp.Star)) or column == written
    return column if is_plain else exp.alias_(column, written.sql(), quoted=True)


def _group(key: exp.Expr, columns: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
    return scalar(without_aliases(key, columns, scope), scope)


def _check_grouped(expression: exp.Expr, groups: Sequence[exp.Expr], database: Database) -> None:
    if expression in groups or isinstance(expression, exp.AggFunc):
        return
    if isinstance(expression, exp.Column):
        message = f"{expression.name!r} is neither in GROUP BY nor in an aggregate"
        if call := expression.find_ancestor(exp.Anonymous):
            message += f"; {call.name.upper()} is not an aggregate function of {database.title}"
        raise QueryError(message, position=place(expression))
    for child in expression.iter_expressions():
        _check_grouped(child, groups, database)


def _check_parts(node: Node, groups: Sequence[exp.Expr]) -> None:
    """Raises QueryError unless the aggregate is per key: a jump of a window per key only renews the rows of one key."""
    match node:
        case query.Window(_, extent, keys) if extent.jumps and extent.holds_per_key and not set(keys) <= set(groups):
            wanted = ", ".join(key.sql() for key in keys)
            raise QueryError(f"an aggregate over {node.extent} PARTITION BY {wanted} needs GROUP BY {wanted}")
        case query.Filter():
            _check_parts(node.input, groups)
        case query.Map():
            values = {item.alias: item.this for item in node.columns}
            below = [group.transform(lambda n: _through(n, values)) for group in groups]
            _check_parts(node.input, below)


def _through(node: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    return values[node.name].copy() if isinstance(node, exp.Column) and node.name in values else node
