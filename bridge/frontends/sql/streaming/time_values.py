"""The time of an event as standard SQL writes it: `ts + INTERVAL '4' SECOND`, `TIMESTAMP '…'`, `EXTRACT`, `TIMESTAMPDIFF`.

`ts` is a whole number of milliseconds since 1970, in UTC. So these expressions become arithmetic on whole numbers.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection

from sqlglot import exp

from windows.times import UNITS

_INTERVAL = re.compile(r"\s*(-?)(\d+)\s*([A-Za-z]*)\s*")
_CLOCK = re.compile(r"(-?)(\d+(?::\d+)+)")
_STEPS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_PARTS = {"MILLISECOND": (1, 1000), "SECOND": (1000, 60), "MINUTE": (60_000, 60), "HOUR": (3_600_000, 24)}
_DIFFERENCES = ("TIMESTAMPDIFF", "TIMESTAMP_DIFF")
_EPOCH = datetime.datetime(1970, 1, 1)


def arithmetic_of(expression: exp.Expr, times: Collection[str] = ("ts",)) -> exp.Expr:
    """The expression with every operation on times as arithmetic. `times`: the names of columns that are times.

    >>> import sqlglot
    >>> def shown(text):
    ...     print(arithmetic_of(sqlglot.condition(text)))
    >>> shown("s.ts BETWEEN o.ts AND o.ts + INTERVAL '4' SECOND")
    s.ts BETWEEN o.ts AND o.ts + 4000
    >>> shown("ts >= TIMESTAMP '1970-01-01 00:01:00.5' AND d >= TIMESTAMP '1970-01-01'")
    ts >= 60500 AND d >= CAST('1970-01-01' AS TIMESTAMP)
    >>> shown("EXTRACT(SECOND FROM ts) > 30")
    CAST((((ts % 60000 + 60000) % 60000 - (ts % 1000 + 1000) % 1000) / 1000) AS BIGINT) > 30
    """

    def changed(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Add() | exp.Sub():
                return _moved(node, times)
            case exp.Between() | exp.Predicate():
                return _compared(node, times)
            case exp.Extract() if _is_time(node.expression, times):
                return _part(node.expression, node.name.upper()) or node
            case exp.TimestampDiff() | exp.Anonymous():
                return _difference(node, times) or node
        return node

    # Operands come first: `ts + INTERVAL '1' SECOND` is a time itself.
    return _from_below(expression.copy(), changed)


def _from_below(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(key, _from_below(value, change))
        elif isinstance(value, list):
            node.set(key, [_from_below(each, change) if isinstance(each, exp.Expr) else each for each in value])
    return change(node)


def interval_ms(node: exp.Expr | None) -> int | None:
    """The milliseconds of an INTERVAL; None if it is another expression, or of months.

    >>> import sqlglot
    >>> [interval_ms(sqlglot.condition(text)) for text in ("INTERVAL '4' SECOND", "INTERVAL '-2 HOURS'", "INTERVAL '1' MONTH")]
    [4000, -7200000, None]
    """
    if not isinstance(node, exp.Interval) or node.this is None:
        return None
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return clock_ms(node.name, unit.this.name.upper(), unit.expression.name.upper())
    found = _INTERVAL.fullmatch(node.name)
    known = UNITS.get((found[3] if found and found[3] else node.text("unit")).upper())
    return None if found is None or known is None else int(found[2]) * known * (-1 if found[1] else 1)


def clock_ms(text: str, first: str, last: str) -> int | None:
    """The milliseconds of `INTERVAL '0:10' MINUTE TO SECOND`; None if the parts do not fit the units.

    >>> clock_ms("0:10", "MINUTE", "SECOND"), clock_ms("1:0:0", "HOUR", "SECOND"), clock_ms("1", "HOUR", "SECOND")
    (10000, 3600000, None)
    """
    found = _CLOCK.fullmatch(text.strip())
    names = list(_STEPS)
    if found is None or first not in names or last not in names:
        return None
    units, numbers = names[names.index(first) : names.index(last) + 1], found[2].split(":")
    if len(units) != len(numbers):
        return None
    total = sum(int(number) * _STEPS[unit] for number, unit in zip(numbers, units, strict=True))
    return -total if found[1] else total


def _is_time(node: exp.Expr | None, times: Collection[str]) -> bool:
    match node:
        case exp.Column():
            return node.name.lower() in times
        case exp.Paren():
            return _is_time(node.this, times)
        case exp.Add() | exp.Sub():
            return _is_time(node.this, times) and isinstance(node.expression, exp.Literal)
    return False


def _moved(node: exp.Expr, times: Collection[str]) -> exp.Expr:
    """A time plus or minus an interval; an interval plus a time."""
    left, right = node.this, node.expression
    if isinstance(node, exp.Add) and interval_ms(left) is not None and _is_time(right, times):
        left, right = right, left
    milliseconds = interval_ms(right)
    if milliseconds is None or not _is_time(left, times):
        return node
    kind = exp.Add if isinstance(node, exp.Add) == (milliseconds >= 0) else exp.Sub
    return kind(this=left, expression=exp.Literal.number(abs(milliseconds)))


def _compared(node: exp.Expr, times: Collection[str]) -> exp.Expr:
    """A comparison of a time with timestamps, which become milliseconds."""
    operands = [key for key, value in node.args.items() if isinstance(value, exp.Expr)]
    if any(_is_time(node.args[key], times) for key in operands):
        for key in operands:
            if (milliseconds := _timestamp_ms(node.args[key])) is not None:
                node.set(key, milliseconds)
    return node


def _timestamp_ms(node: exp.Expr) -> exp.Expr | None:
    if not (isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string):
        return None
    if not node.to.is_type("timestamp", "datetime", "timestamptz", "date"):
        return None
    try:
        moment = datetime.datetime.fromisoformat(node.this.name.strip())
    except ValueError:
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return exp.convert((moment - _EPOCH) // datetime.timedelta(milliseconds=1))


def _part(time: exp.Expr, unit: str) -> exp.Expr | None:
    """`EXTRACT(unit FROM time)` for units of the same length everywhere."""
    if unit not in _PARTS:
        return None
    size, count = _PARTS[unit]
    below, above = remainder(time, size), remainder(time, size * count)
    return _quotient(exp.Sub(this=above, expression=below), size)


def remainder(time: exp.Expr, size: int, offset: int = 0) -> exp.Expr:
    """The milliseconds since the latest multiple of `size` (plus `offset`), also before 1970.

    >>> print(remainder(exp.column("ts"), 10, 4))
    ((ts - 4) % 10 + 10) % 10
    """
    moved: exp.Expr = time.copy()
    if offset:
        moved = exp.Paren(this=exp.Sub(this=moved, expression=exp.Literal.number(offset)))
    elif isinstance(moved, exp.Binary):
        moved = exp.Paren(this=moved)
    width = exp.Literal.number(size)
    inner = exp.Add(this=exp.Mod(this=moved, expression=width.copy()), expression=width.copy())
    return exp.Mod(this=exp.Paren(this=inner), expression=width)


def _quotient(value: exp.Expr, by: int) -> exp.Expr:
    """A multiple of `by` divided by it, as a whole number."""
    divided = exp.Div(this=exp.Paren(this=value), expression=exp.Literal.number(by))
    return exp.cast(exp.Paren(this=divided), "BIGINT")


def _difference(node: exp.Expr, times: Collection[str]) -> exp.Expr | None:
    """`TIMESTAMPDIFF(SECOND, a, b)`: whole units from a to b, cut towards zero."""
    if isinstance(node, exp.Anonymous):
        arguments = node.expressions if node.name.upper() in _DIFFERENCES and len(node.expressions) == 3 else []
    else:
        arguments = [node.args.get(key) for key in ("this", "expression", "unit")]
        if isinstance(arguments[2], exp.Var):
            arguments = [arguments[2], arguments[1], arguments[0]]
    if not arguments or not all(_is_time(each, times) for each in arguments[1:]):
        return None
    unit = UNITS.get(arguments[0].name.upper())
    if unit is None:
        return None
    apart = exp.Sub(this=_operand(arguments[2]), expression=_operand(arguments[1]))
    rest = exp.Mod(this=exp.Paren(this=apart.copy()), expression=exp.Literal.number(unit))
    return _quotient(exp.Sub(this=apart, expression=rest), unit)


def _operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Binary) else node.copy()
