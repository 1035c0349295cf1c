"""EPL's #expr: the conditions for which the oldest event stays that a window of the bridge can say.

>>> from bridge.frontends.epl_text import EplCursor
>>> print(expiring_extent(EplCursor("oldest_timestamp > newest_timestamp - 2000 and current_count <= 20")))
TRAILING 2000 MS ROWS 20
"""

from __future__ import annotations

from sqlglot import exp

from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor
from bridge.scope import conjuncts
from windows.extents import Rows, Trailing

_EXPECTED = (
    "expr is supported for current_count <= 20, for oldest_timestamp > newest_timestamp - 2000, and for both with and"
)
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


def expiring_extent(cursor: Cursor) -> Rows | Trailing:
    """Step over the condition of `#expr(…)`."""
    position, region = cursor.position, cursor.until(())
    condition = epl_scalars.single(cursor, region, "a condition")
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
        apart = isinstance(left, exp.Sub) and _is(left.this, "newest_timestamp")
        if apart and _is(left.expression, "oldest_timestamp") and kind in (exp.LT, exp.LTE) and _is_whole(right):
            return int(right.name) + (kind is exp.LTE)
    return None


def _both_ways(part: exp.Expr) -> list[tuple[type[exp.Expr], exp.Expr, exp.Expr]]:
    """A comparison read from either side."""
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
