"""Parts of a query whose query objects depend on the text around them.

`FROM TABLE(TUMBLE( … ))` is a window if GROUP BY has its bounds, and two more columns per row otherwise. Such a part is
a node of its own while the text is parsed; a finished tree has none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from sqlglot import exp

from bridge.frontends.cursor import Cursor
from bridge.frontends.sql.streaming.bounds import OF_ROWS, mark
from bridge.frontends.sql.streaming.time_values import interval_ms, remainder
from bridge.frontends.sql.streaming.window_functions import WindowFunction
from bridge.query.expressions import col
from bridge.query.nodes import Filter, Map, Node, Union, as_text

START, END, TIME = "start", "end", "time"
"""The bounds of a window: its start, its end, and the last millisecond before the end."""

WINDOW_COLUMNS = {"window_start": START, "window_end": END, "window_time": TIME}
"""The columns that a window function adds."""

_OF_CALLS = {"_START": START, "_END": END, "_ROWTIME": TIME}
_TRUNCATED = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


class UndecidedNode(Node):
    """A part of a query that is not decided yet."""

    position: int

    def decide(self, cursor: Cursor) -> Node:
        """Its query objects where nothing around it decides otherwise."""
        raise NotImplementedError


def decide(cursor: Cursor, node: Node) -> Node:
    """The node, decided."""
    return node.decide(cursor) if isinstance(node, UndecidedNode) else node


@dataclasses.dataclass(frozen=True)
class RowsInWindows(UndecidedNode):
    """The rows of `input`, each with the bounds of the windows of `function` that it is in.

    `columns` are the columns in order: `*` for all of the input, or names, each with the bound it is, or None for a column
    of the input. `implied`: the windows group the rows even if GROUP BY does not name their bounds.
    """

    input: Node
    function: WindowFunction
    columns: tuple[tuple[str, str | None], ...] = (("*", None), *WINDOW_COLUMNS.items())
    implied: bool = False
    position: int = 0

    @property
    def bounds(self) -> Mapping[str, str]:
        """The bound that a column is, by the column's name in lower case."""
        return {name.lower(): bound for name, bound in self.columns if bound is not None}

    def bound(self, node: exp.Expr) -> str | None:
        """The bound that an expression is by itself, such as `window_start` or `TUMBLE_END(ts, …)`."""
        match node:
            case exp.Column():
                return self.bounds.get(node.name.lower())
            case exp.Anonymous() if (suffix := self._suffix(node)) is not None:
                return _OF_CALLS[suffix]
            case exp.Floor() | exp.DateTrunc() | exp.TimestampTrunc() | exp.Anonymous():
                return START if self.implied and truncation(node) == self.function else None
        return None

    def _suffix(self, node: exp.Anonymous) -> str | None:
        name = node.name.upper()
        suffix = next((one for one in _OF_CALLS if name == self.function.kind + one), None)
        given = [interval_ms(each) for each in node.expressions[1:]]
        own = [self.function.size] if self.function.kind in ("TUMBLE", "SESSION") else []
        own = own or [self.function.slide, self.function.size]
        return suffix if given[: len(own)] == own else None

    def has_bound(self, node: exp.Expr) -> bool:
        """Whether a bound is in an expression."""
        return any(self.bound(below) is not None for below in node.walk())

    def decide(self, cursor: Cursor) -> Node:
        """A row per event and window that holds it, earlier windows first."""
        if self.function.kind == "SESSION":
            cursor.fail(
                "GROUP BY window_start, window_end is missing: when the rows of a session arrive, its end is not known",
                self.position,
            )
        return with_bounds(self.input, self.function, self.columns)


@as_text.register
def _(node: RowsInWindows) -> str:
    return f"{node.input} ({node.function.kind})"


def truncation(node: exp.Expr) -> WindowFunction | None:
    """The windows whose starts are `FLOOR(ts TO MINUTE)` or `DATE_TRUNC('minute', ts)`; None for anything else."""
    match node:
        case exp.Floor():
            time, unit = node.this, node.text("to")
        case exp.DateTrunc() | exp.TimestampTrunc():
            time, unit = node.this, node.text("unit")
        case exp.Anonymous(this=str(name)) if name.upper() == "DATE_TRUNC" and len(node.expressions) == 2:
            unit, time = node.expressions[0].name, node.expressions[1]
        case _:
            return None
    size = _TRUNCATED.get(unit.upper())
    plain = isinstance(time, exp.Column) and time.name.lower() == "ts"
    return WindowFunction("TUMBLE", size, size) if plain and size else None


def with_bounds(node: Node, function: WindowFunction, columns: tuple[tuple[str, str | None], ...]) -> Node:
    """The rows of a node, each once for every window that holds it, with the bounds as columns.

    >>> from bridge.query.nodes import Stream
    >>> print(with_bounds(Stream("s"), WindowFunction("TUMBLE", 10, 10), (("*", None), ("window_end", END))))
    SELECT *, ts - (ts % 10 + 10) % 10 + 10 AS window_end FROM s
    """
    branches = []
    for start, end, condition in _windows_of_row(function):
        kept = node if condition is None else Filter(node, condition)
        start, end = moved(start, -function.lag), moved(end, -function.lag)
        values = {START: start, END: end, TIME: moved(end, -1)}
        branches.append(
            Map(
                kept,
                tuple(
                    _column(name) if bound is None else mark(exp.alias_(values[bound].copy(), col(name).this), OF_ROWS)
                    for name, bound in columns
                ),
            )
        )
    return branches[0] if len(branches) == 1 else Union(tuple(branches))


def _column(name: str) -> exp.Expr:
    return exp.Star() if name == "*" else col(name)


def _windows_of_row(function: WindowFunction) -> Iterator[tuple[exp.Expr, exp.Expr, exp.Expr | None]]:
    """The start and the end of each window that a row may be in, and the condition for it, over the row's ts."""
    ts: exp.Expr = exp.column("ts")
    size, slide = function.size, function.slide
    if function.kind == "CUMULATE":
        rest = remainder(ts, size, function.offset)
        first = exp.Sub(this=ts, expression=rest)
        for end in range(slide, size + 1, slide):
            condition = exp.LT(this=rest.copy(), expression=exp.Literal.number(end))
            yield first.copy(), moved(first, end), None if end == size else condition
        return
    rest = remainder(ts, slide, function.offset)
    latest = exp.Sub(this=ts, expression=rest)
    for back in reversed(range(function.copies)):
        start = moved(latest, -back * slide)
        condition = exp.LT(this=rest.copy(), expression=exp.Literal.number(size - back * slide))
        yield start, moved(latest, size - back * slide), None if (back + 1) * slide <= size else condition


def moved(time: exp.Expr, by: int) -> exp.Expr:
    """A time plus milliseconds."""
    if by == 0:
        return time.copy()
    kind = exp.Add if by > 0 else exp.Sub
    return kind(this=time.copy(), expression=exp.Literal.number(abs(by)))


def bounds_at_end(function: WindowFunction) -> dict[str, exp.Expr]:
    """The bounds of a window of TUMBLE or HOP over the ts of its results, which is its end plus the lag of its time."""
    ts, lag = exp.column("ts"), function.lag
    return {START: moved(ts, -function.size - lag), END: moved(ts, -lag), TIME: moved(ts, -1 - lag)}


def period_start(function: WindowFunction) -> exp.Expr:
    """The start of the period of CUMULATE that a row is in, over its ts."""
    ts = exp.column("ts")
    return exp.Sub(this=ts, expression=remainder(ts, function.size, function.offset))
