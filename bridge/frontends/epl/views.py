"""EPL's windows: from the views after a stream, with # (or .win:), to the windows of the bridge.

>>> from bridge.frontends.epl.cursor import EplCursor
>>> view = view_of(EplCursor("#groupwin(k)#length(5)"))
>>> print(view.extent, *view.keys)
ROWS 5 k
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NoReturn

from sqlglot import exp

from bridge.errors import closest
from bridge.frontends.cursor import Cursor
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.cursor import period, whole
from bridge.frontends.expressions import Qualifiers, resolve
from bridge.query.nodes import Filter, Node, Window
from windows.extent import Extent
from windows.extents import FirstRange, FirstRows, Range, Rows, Session, Top, Trailing, Tumbling, Unbounded
from windows.sql import column, conjuncts

_INSTEAD = {
    "time_order": "events come in the order of their time; lateness= sorts those that do not",
    "time_length_batch": "#length_batch and #time_batch are",
    "intersect": "a stream has one window",
    "union": "a stream has one window",
    "time_to_live": "#time has one length for all events",
    "expr_batch": "WINDOW(START … STOP …) of the bridge's own SQL is for batches between conditions",
    "uni": "avg(v), sum(v), stddev(v) and count(*) over the window say the same",
    "linest": "aggregates of the database, such as regr_slope(y, x), are there",
    "correl": "aggregates of the database, such as corr(x, y), are there",
    "weighted_avg": "sum(x * w) / sum(w) over the window says the same",
    "timebatch": "#time_batch is",
    "size": "count(*) says the same",
}


@dataclasses.dataclass(frozen=True)
class View:
    """A window as written: its extent, and the keys with a window each."""

    extent: Extent
    keys: tuple[exp.Expr, ...] = ()


def window_over(cursor: Cursor, node: Node, view: View, alias: str) -> Window:
    """The window over a node whose columns may be named `alias.column`."""
    names = Qualifiers(alias, ())
    extent = view.extent.with_expressions(lambda expression: resolve(cursor, [expression], names)[0])
    if isinstance(extent, Trailing) and extent.of is not None:
        # In Esper, an event without a time is in no window; in the bridge's SQL, it empties a WINDOW(TRAILING).
        node = Filter(node, exp.Not(this=exp.Is(this=extent.of.copy(), expression=exp.null())))
    return Window(node, extent, resolve(cursor, view.keys, names))


def view_of(cursor: Cursor) -> View | None:
    """`#time(5 sec)`, `.win:time(5 sec)`, `#groupwin(k)#length(5)`: the window after a stream, if there is one."""
    found: View | None = None
    keys: tuple[exp.Expr, ...] = ()
    while cursor.word() in ("#", "."):
        position = cursor.position
        cursor.at += 1
        name = _name(cursor, position)
        if found is not None and name in _INSTEAD:
            _refuse(cursor, name, position)
        if found is not None:
            cursor.fail("two windows of one stream are not supported", position)
        if name in ("groupwin", "groupby"):
            keys = _arguments(cursor, "a key")
            continue
        found = _view(cursor, name, position)
        if keys:
            found = _grouped(cursor, found, keys, position)
    if keys and found is None:
        cursor.fail("groupwin wants the window that each key has: #groupwin(k)#length(5)")
    if cursor.word() == "RETAIN":
        cursor.fail("retain is not supported: one window of a stream is")
    return found


def _name(cursor: Cursor, position: int) -> str:
    name = cursor.name("a window")
    if cursor.take(":"):
        if name.lower() not in ("win", "std", "ext", "stat", "rnd"):
            cursor.fail(f"unknown name space {name!r}: win is expected", position)
        name = cursor.name("a window")
    return name.lower()


def _grouped(cursor: Cursor, view: View, keys: tuple[exp.Expr, ...], position: int) -> View:
    """The window, one per key."""
    if view.extent.begins_with_query:
        cursor.fail("groupwin with this window is not supported: its time begins once, not for every key", position)
    return View(view.extent, (*keys, *view.keys))


def _view(cursor: Cursor, name: str, position: int) -> View:
    make = _VIEWS.get(name)
    if make is None:
        _refuse(cursor, name, position)
    if name in _BARE:
        cursor.take("(", ")")
        return make(cursor)
    if cursor.word() != "(":
        cursor.fail(f"{name} wants its arguments in parentheses: {_EXAMPLES[name]}")
    if name in ("unique", "firstunique"):
        return make(cursor)
    cursor.expect("(")
    view = make(cursor)
    cursor.expect(")")
    return view


def _arguments(cursor: Cursor, what: str) -> tuple[exp.Expr, ...]:
    """`(k, j)`."""
    cursor.expect("(")
    found = epl_expressions.expression_list(cursor, cursor.until(()), what)
    cursor.expect(")")
    return found


def _length(cursor: Cursor) -> View:
    return View(Rows(whole(cursor, "the number of events")))


def _length_batch(cursor: Cursor) -> View:
    count = whole(cursor, "the number of events")
    return View(Rows(count, count))


def _time_batch(cursor: Cursor) -> View:
    """Batches count from the first event, or from 0 if that is written."""
    size = period(cursor)
    if not cursor.take(","):
        return View(Range(size, size, first=True))
    if cursor.word() != "0":
        cursor.fail("batches count from 0 here, or from the first event, #time_batch(5 sec)", cursor.position)
    cursor.at += 1
    return View(Range(size, size))


def _external(cursor: Cursor) -> View:
    """The time of `ext_timed` is an attribute, or the time of the event; events leave when others come."""
    of = _time_of(cursor)
    cursor.expect(",", " (how long events stay)")
    return View(Trailing(period(cursor), None, of))


def _external_batch(cursor: Cursor) -> View:
    """`ext_timed_batch(v, 5 sec, 0)`: batches count from the first event's time, or from the given time."""
    of = _time_of(cursor)
    cursor.expect(",", " (how long a batch is)")
    size = period(cursor)
    origin = whole(cursor, "the time that batches count from, in milliseconds,", 0) if cursor.take(",") else None
    return View(Tumbling(size, column("ts") if of is None else of, origin))


def _time_of(cursor: Cursor) -> exp.Expr | None:
    """An expression over an attribute; None for the time of the event."""
    if cursor.take("CURRENT_TIMESTAMP"):
        cursor.take("(", ")")
        return None
    return _argument(cursor)


def _sort(cursor: Cursor) -> View:
    """`sort(3, v desc, w)`: among equal events the oldest leaves first."""
    count = whole(cursor, "the number of events")
    cursor.expect(",", " (what the events are sorted by)")
    return View(Top(count, _order(cursor)))


def _rank(cursor: Cursor) -> View:
    """`rank(k, 3, v desc)`: the last event of each k, and the first three of these."""
    keys = [_argument(cursor)]
    while cursor.take(",") and not cursor.word().isdigit():
        keys.append(_argument(cursor))
    count = whole(cursor, "the number of events")
    cursor.expect(",", " (what the events are sorted by)")
    return View(Top(count, _order(cursor), tuple(keys)))


def _argument(cursor: Cursor) -> exp.Expr:
    return epl_expressions.single_expression(cursor, cursor.until((",",)), "an expression")


def _order(cursor: Cursor) -> tuple[exp.Ordered, ...]:
    terms = []
    while True:
        this = epl_expressions.single_expression(cursor, cursor.until((",", "ASC", "DESC")), "an expression to sort by")
        descending = cursor.take("DESC")
        cursor.take("ASC")
        terms.append(exp.Ordered(this=this, desc=descending))
        if not cursor.take(","):
            return tuple(terms)


_VIEWS: dict[str, Callable[[Cursor], View]] = {
    "keepall": lambda cursor: View(Unbounded()),
    "lastevent": lambda cursor: View(Rows(1)),
    "firstevent": lambda cursor: View(FirstRows(1)),
    "length": _length,
    "length_batch": _length_batch,
    "time": lambda cursor: View(Range(period(cursor))),
    "time_batch": _time_batch,
    "ext_timed": _external,
    "ext_timed_batch": _external_batch,
    "expr": lambda cursor: View(expiring_extent(cursor)),
    "time_accum": lambda cursor: View(Session(period(cursor))),
    "unique": lambda cursor: View(Rows(1), _arguments(cursor, "a key")),
    "firstunique": lambda cursor: View(FirstRows(1), _arguments(cursor, "a key")),
    "firstlength": lambda cursor: View(FirstRows(whole(cursor, "the number of events"))),
    "firsttime": lambda cursor: View(FirstRange(period(cursor))),
    "sort": _sort,
    "rank": _rank,
}
_BARE = ("keepall", "lastevent", "firstevent")
_EXAMPLES = {name: f"#{name}(5)" for name in _VIEWS} | {
    name: f"#{name}(5 sec)" for name in ("time", "time_batch", "time_accum", "firsttime")
} | {
    "unique": "#unique(k)", "firstunique": "#firstunique(k)", "sort": "#sort(3, v desc)", "rank": "#rank(k, 3, v desc)",
    "ext_timed": "#ext_timed(current_timestamp, 5 sec)",
    "ext_timed_batch": "#ext_timed_batch(v, 5 sec)", "expr": "#expr(current_count <= 5)",
}  # fmt: skip


def _refuse(cursor: Cursor, name: str, position: int) -> NoReturn:
    instead = _INSTEAD.get(name)
    if instead is None:
        known = [*_VIEWS, "groupwin"]
        hint = closest(name, known) or f": there are {', '.join(known)}"
        cursor.fail(f"unknown window {name!r}{hint}", position)
    cursor.fail(f"the window {name} is not supported: {instead}", position)


# EPL's #expr: those conditions on the oldest event that a window of the bridge can express

_EXPECTED = (
    "expr is supported for current_count <= 20, for oldest_timestamp > newest_timestamp - 2000, and for both with and"
)
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


def expiring_extent(cursor: Cursor) -> Rows | Trailing:
    """Steps over the condition of `#expr(…)`."""
    position, region = cursor.position, cursor.until(())
    condition = epl_expressions.single_expression(cursor, region, "a condition")
    sizes, counts = list[int](), list[int]()
    for part in conjuncts(condition):
        if (count := _count(part)) is not None:
            counts.append(count)
        elif (size := _size(part)) is not None:
            sizes.append(size)
        else:
            cursor.fail(_EXPECTED, position)
    if min([*sizes, *counts]) < 1:
        cursor.fail("no event would ever be in this window", position)
    return Trailing(min(sizes), min(counts, default=None)) if sizes else Rows(min(counts))


def _count(part: exp.Expr) -> int | None:
    """`current_count <= n`, `n > current_count`."""
    for kind, left, right in _both_ways(part):
        if _is(left, "current_count") and kind in (exp.LT, exp.LTE) and _is_whole(right):
            return int(right.name) - (kind is exp.LT)
    return None


def _size(part: exp.Expr) -> int | None:
    """`oldest_timestamp > newest_timestamp - n`, `newest_timestamp - oldest_timestamp < n`: n milliseconds."""
    for kind, left, right in _both_ways(part):
        behind = isinstance(right, exp.Sub) and _is(right.this, "newest_timestamp") and _is_whole(right.expression)
        if _is(left, "oldest_timestamp") and kind in (exp.GT, exp.GTE) and behind:
            return int(right.expression.name) + (kind is exp.GTE)
        difference = isinstance(left, exp.Sub) and _is(left.this, "newest_timestamp")
        if difference and _is(left.expression, "oldest_timestamp") and kind in (exp.LT, exp.LTE) and _is_whole(right):
            return int(right.name) + (kind is exp.LTE)
    return None


def _both_ways(part: exp.Expr) -> list[tuple[type[exp.Expr], exp.Expr, exp.Expr]]:
    """The comparison, read from both sides."""
    while isinstance(part, exp.Paren):
        part = part.this
    if type(part) not in _MIRRORED:
        return []
    left, right = part.this, part.args["expression"]
    return [(type(part), left, right), (_MIRRORED[type(part)], right, left)]


def _is(value: exp.Expr, name: str) -> bool:
    return isinstance(value, exp.Column) and not value.table and value.name.lower() == name


def _is_whole(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and value.is_int
