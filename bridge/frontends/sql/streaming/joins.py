"""Joins of streams that standard SQL bounds by time: outer joins, joins of windows, and joins with versions."""

from __future__ import annotations

import collections
from typing import NamedTuple

from sqlglot import exp

from bridge.check.interval_join import lifetimes, partner_times
from bridge.frontends.cursor import Cursor, word_of
from bridge.frontends.expressions import all_of
from bridge.frontends.sql.streaming.bounds import is_result
from bridge.frontends.sql.streaming.select_list import names_of
from bridge.frontends.sql.streaming.undecided import END, START, RowsInWindows, decide
from bridge.frontends.sql.streaming.window_groups import EVENT_TIME, parts_of, with_event_time
from bridge.query.epl_output import RStream
from bridge.query.expressions import col
from bridge.query.nodes import Correlate, Filter, Map, Node, Union, Window
from windows.extents import Range, Rows
from windows.sql import change_columns

Inputs = tuple[tuple[str, Node], ...]
"""The two inputs of a join, by their aliases."""

_SIDES = {"LEFT": (0,), "RIGHT": (1,), "FULL": (0, 1)}
"""The inputs whose rows are kept without a partner."""


class OuterJoin(NamedTuple):
    """An outer join of two streams. `kind`: LEFT, RIGHT or FULL. `on`: its conditions. `position`: that of the word JOIN."""

    inputs: Inputs
    kind: str
    on: tuple[exp.Expr, ...]
    position: int


def inner_join(cursor: Cursor, inputs: Inputs, conditions: tuple[exp.Expr, ...]) -> Node:
    """The pairs for which the conditions hold.

    In standard SQL a group of a window function can find partners as long as the times in the conditions say. As the result of
    a query it would be valid only until the next result of its group (rule W5).
    """
    condition = all_of(conditions) if conditions else None
    known = lifetimes(condition, [alias for alias, _ in inputs])

    def content(alias: str, node: Node) -> Node:
        lifetime = known[alias.lower()] if is_result(cursor, node) else None
        return node if lifetime is None else Window(node, Range(lifetime))

    return Correlate(tuple((alias, content(alias, node)) for alias, node in inputs), condition)


def outer_join(cursor: Cursor, join: OuterJoin, where: tuple[exp.Expr, ...], columns: tuple[exp.Expr, ...]) -> Node:
    """The pairs, and each row that is kept without a partner as soon as nothing can meet it.

    >>> from bridge.frontends.sql.statements import parse
    >>> text = "SELECT o.id, s.b FROM o LEFT JOIN s ON o.id = s.id AND s.ts BETWEEN o.ts AND o.ts + INTERVAL '4' SECOND"
    >>> print(parse(text).inputs[0])
    SELECT o.id, s.b FROM o, s WHERE o.id = s.id AND s.ts BETWEEN o.ts AND o.ts + 4000
    """
    columns = _with_names(cursor, join.inputs, columns)
    for column in columns:
        if column.find(exp.Star) and not column.find(exp.AggFunc):
            cursor.fail(
                f"* beside a {join.kind} JOIN is not supported over streams: name the columns",
                join.position,
            )
    if all(isinstance(node, RowsInWindows) for _, node in join.inputs):
        return _of_windows(cursor, join, where, columns)
    inputs = tuple((alias, decide(cursor, node)) for alias, node in join.inputs)
    aliases = [alias.lower() for alias, _ in inputs]
    bounds = partner_times(all_of(join.on), aliases)
    if len(bounds) < 2:
        left, right = (alias for alias, _ in inputs)
        cursor.fail(
            f"a {join.kind} JOIN of streams needs bounds of time, or it is never known that nothing will meet a row: add "
            f"{right}.ts BETWEEN {left}.ts AND {left}.ts + INTERVAL '5' SECOND to ON",
            join.position,
        )
    branches = [_selected(inner_join(cursor, inputs, join.on), where, columns)]
    for side in _SIDES[join.kind]:
        kept, other = aliases[side], aliases[1 - side]
        after, before = bounds[other, kept], bounds[kept, other]
        branches.append(_alone(join._replace(inputs=inputs), side, (after, before), where, columns))
    return Union(tuple(branches))


def _with_names(cursor: Cursor, inputs: Inputs, columns: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """The select list with the columns of the inputs in place of `*`, if they are known. One that both have is `o_a`."""
    if not any(isinstance(column, exp.Star) for column in columns):
        return columns
    known = [(alias, names_of(cursor, node)) for alias, node in inputs]
    every = [(alias, name) for alias, names in known for name in names or ()]
    if any(names is None for _, names in known):
        return columns
    count = collections.Counter(name.lower() for _, name in every)
    listed = [
        exp.alias_(col(name, of=alias), col(f"{alias}_{name}" if count[name.lower()] > 1 else name).this)
        for alias, name in every
    ]
    return tuple(each for column in columns for each in (listed if isinstance(column, exp.Star) else [column]))


def _alone(
    join: OuterJoin, side: int, reach: tuple[int, int], where: tuple[exp.Expr, ...], columns: tuple[exp.Expr, ...]
) -> Node:
    """The rows of one side without a partner, with NULLs.

    `reach`: how many milliseconds a partner may be after a row, and before it. A row leaves a window when its last
    chance has passed, and is joined then with all that could have met it.
    """
    after, before = reach
    wait = max(after, -1) + 1
    kept, other = join.inputs[side][0], join.inputs[1 - side][0]
    timed = with_event_time(join.inputs[side][1])
    decided = RStream(Window(timed, Range(wait))) if wait else timed
    partners = Window(join.inputs[1 - side][1], Range(max(wait + before, 0) + 1))
    inputs = ((kept, decided), (other, partners))
    on, where, columns = (
        tuple(with_event_time_of(kept, each) for each in listed) for listed in (join.on, where, columns)
    )
    correlated = Correlate(inputs if side == 0 else inputs[::-1], all_of(on), frozenset({kept}), kept)
    nothing = exp.Is(this=exp.column("ts", table=other), expression=exp.Null())
    return _selected(correlated, (nothing, *where), columns)


def with_event_time_of(alias: str, expression: exp.Expr) -> exp.Expr:
    """The expression with the time of the event in place of the ts of an input."""

    def renamed(column: exp.Column) -> exp.Expr:
        is_time = column.name.lower() == "ts" and column.table.lower() == alias.lower()
        return exp.column(EVENT_TIME, table=column.args["table"].copy()) if is_time else column

    return change_columns(expression, renamed)


def _selected(node: Node, where: tuple[exp.Expr, ...], columns: tuple[exp.Expr, ...]) -> Node:
    return Map(Filter(node, all_of(where)) if where else node, columns)


# Windows --------------------------------------------------------------------------------------------------------------


def joins_windows(inputs: Inputs, conditions: tuple[exp.Expr, ...]) -> bool:
    """Whether two window functions are joined by the bounds of their windows."""
    if len(inputs) != 2 or not all(isinstance(node, RowsInWindows) for _, node in inputs):
        return False
    return any(_equates(condition, inputs, bound) for condition in parts_of(conditions) for bound in (START, END))


def window_join(
    cursor: Cursor, inputs: Inputs, conditions: tuple[exp.Expr, ...], columns: tuple[exp.Expr, ...], position: int
) -> tuple[Correlate, frozenset[str]]:
    """The pairs of two streams in the same window, at its end, and the aliases whose rows have their time in EVENT_TIME.

    They have it if a condition, the select list or a clause that follows reads it, as ts is the end of the window there.
    """
    size = _common_size(cursor, inputs, position)
    aliases, read = frozenset(alias.lower() for alias, _ in inputs), (*conditions, *columns)
    is_read = any(_reads_time(each, aliases) for each in read) or _is_time_ahead(cursor, aliases)
    timed = aliases if is_read else frozenset[str]()
    if timed and any(isinstance(column, exp.Star) for column in columns):
        cursor.fail("* beside the times of a join of windows is not supported: name the columns", position)
    decided = ((alias, decide(cursor, node), _offset(node)) for alias, node in inputs)
    contents = tuple(
        (alias, Window(with_event_time(node) if timed else node, Range(size, size, offset)))
        for alias, node, offset in decided
    )
    return Correlate(contents, all_of(tuple(with_own_times(timed, each) for each in conditions))), timed


def _reads_time(expression: exp.Expr, aliases: frozenset[str]) -> bool:
    columns = expression.find_all(exp.Column)
    return any(column.name.lower() == "ts" and column.table.lower() in aliases for column in columns)


def _is_time_ahead(cursor: Cursor, aliases: frozenset[str]) -> bool:
    words = [word_of(token).lower() for token in cursor.tokens[cursor.at :]]
    after = zip(words, words[1:], words[2:], strict=False)
    return any(one in aliases and (dot, name) == (".", "ts") for one, dot, name in after)


def with_own_times(timed: frozenset[str], expression: exp.Expr) -> exp.Expr:
    """The expression, in which the event times of these inputs replace their `ts`."""
    for alias in timed:
        expression = with_event_time_of(alias, expression)
    return expression


def content_in_windows(
    cursor: Cursor, inputs: Inputs, conditions: tuple[exp.Expr, ...], position: int
) -> tuple[Node, Node]:
    """The rows of the first input at the end of their windows, with their own times, and all that may meet them there."""
    size = _common_size(cursor, inputs, position)
    _check_equal(cursor, inputs, conditions, position)
    (_, kept), (_, other) = inputs
    rows = Window(with_event_time(decide(cursor, kept)), Range(size, size, _offset(kept)))
    return rows, Window(decide(cursor, other), Range(size + 1))  # at the boundary all of the window is there


def _check_equal(cursor: Cursor, inputs: Inputs, conditions: tuple[exp.Expr, ...], position: int) -> None:
    if not joins_windows(inputs, conditions):
        cursor.fail("a join of windows has window_start = window_start AND window_end = window_end in ON", position)


def _of_windows(cursor: Cursor, join: OuterJoin, where: tuple[exp.Expr, ...], columns: tuple[exp.Expr, ...]) -> Node:
    branches = list[Node]()
    for side in _SIDES[join.kind]:
        inputs = kept, other = join.inputs[side], join.inputs[1 - side]
        rows, partners = content_in_windows(cursor, inputs, join.on, join.position)
        both = ((kept[0], rows), (other[0], partners))
        on, filtered, listed = (
            tuple(with_event_time_of(kept[0], each) for each in part) for part in (join.on, where, columns)
        )
        joined = Correlate(both if side == 0 else both[::-1], all_of(on), frozenset({kept[0]}), kept[0])
        nothing = exp.Is(this=exp.column("ts", table=other[0]), expression=exp.Null())
        branches.append(_selected(joined, (nothing, *filtered) if branches else filtered, listed))
    return branches[0] if len(branches) == 1 else Union(tuple(branches))


def _offset(node: Node) -> int:
    return node.function.offset if isinstance(node, RowsInWindows) else 0


def _common_size(cursor: Cursor, inputs: Inputs, position: int) -> int:
    functions = [node.function for _, node in inputs if isinstance(node, RowsInWindows)]
    if functions[0] != functions[1]:
        cursor.fail(
            "a join of windows wants the same window on both sides: the same function, size and offset", position
        )
    if functions[0].kind != "TUMBLE":
        cursor.fail(f"a join of windows of {functions[0].kind} is not supported: TUMBLE is", position)
    return functions[0].size


def _equates(condition: exp.Expr, inputs: Inputs, bound: str) -> bool:
    if not isinstance(condition, exp.EQ):
        return False
    sides = {
        node.table.lower(): node.name.lower()
        for node in (condition.this, condition.expression)
        if isinstance(node, exp.Column)
    }
    return all(
        isinstance(node, RowsInWindows) and node.bounds.get(sides.get(alias.lower(), "")) == bound
        for alias, node in inputs
    )


# Versions -------------------------------------------------------------------------------------------------------------


def versioned_join(
    cursor: Cursor, inputs: Inputs, kind: str, on: tuple[exp.Expr, ...], of_stream: bool, position: int
) -> Correlate:
    """`JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON …`: each row of the left input with the newest version on the right.

    `of_stream`: the versions are the events of a stream; otherwise the right input is a table of the database.
    """
    (left, rows), (right, versions) = ((alias, decide(cursor, node)) for alias, node in inputs)
    if kind not in ("INNER", "LEFT"):
        cursor.fail(f"a {kind} JOIN with FOR SYSTEM_TIME AS OF is not supported: JOIN and LEFT JOIN are", position)
    if of_stream:
        keys = _keys(on, right)
        if not keys:
            cursor.fail(f"ON equates a column of {right} with one of {left}: {right}.k = {left}.k", position)
        versions = Window(versions, Rows(1), keys)
    outer = frozenset({left}) if kind == "LEFT" else frozenset[str]()
    return Correlate(((left, rows), (right, versions)), all_of(on), outer, left)


def _keys(on: tuple[exp.Expr, ...], alias: str) -> tuple[exp.Expr, ...]:
    """The columns of an input that ON equates with the other input."""
    keys = []
    for condition in parts_of(on):
        sides = [condition.this, condition.expression] if isinstance(condition, exp.EQ) else []
        own = [side for side in sides if isinstance(side, exp.Column) and side.table.lower() == alias.lower()]
        read = {column.table.lower() for side in sides for column in side.find_all(exp.Column)}
        if len(own) == 1 and len(read) > 1:
            keys.append(exp.column(own[0].this.copy()))
    return tuple(keys)
