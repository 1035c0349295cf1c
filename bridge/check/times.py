"""Checks times in expressions: `ts` is a number, and numbers are not times."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from bridge.check.paths import source_text
from bridge.check.types import TypeOf, family, place, type_of
from bridge.errors import QueryError
from windows.types import is_nested

NAMES_A_TIME = "ts is in milliseconds since 1970: write a number"
"""The advice if `ts` is compared as a time."""

_PARTS_OF_TS = "ts is in milliseconds since 1970: ts - ts % 60000 is the beginning of its minute, in UTC"
_FUNCTIONS = frozenset(
    (
        "age", "date", "date_add", "date_diff", "date_format", "date_part", "date_sub", "date_trunc", "datediff", "datepart",
        "datesub", "datetime", "datetrunc", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear", "extract", "hour",
        "julianday", "last_day", "minute", "month", "monthname", "quarter", "second", "strftime", "time", "time_bucket",
        "timestamp_trunc", "timestampadd", "timestampdiff", "timestamptrunc", "to_char", "unixepoch", "week",
        "weekofyear", "year", "timetostr", "tsordstodate", "tsordstotimestamp",
    )
)  # fmt: skip
"""Functions of times. Some databases read a number as days or as the digits of a date; `ts` is neither."""

_MILLISECONDS = {
    "MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000, "WEEK": 604_800_000,
}  # fmt: skip


def of_event_time(expression: exp.Expr) -> bool:
    """Whether an expression reads `ts`.

    >>> import sqlglot
    >>> of_event_time(sqlglot.parse_one("MAX(ts)")), of_event_time(sqlglot.parse_one("a"))
    (True, False)
    """
    return any(found.name.lower() == "ts" for found in expression.find_all(exp.Column))


def check_times(node: exp.Expr, column_type: TypeOf) -> None:
    """Raises QueryError if a number is used as a time: in a sum with INTERVAL, in a CAST, in EXTRACT and the like."""
    if isinstance(node, (exp.Add, exp.Sub, *_COMPARED)):
        _check_pair(node, node.this, node.expression, column_type)
    elif isinstance(node, exp.Between):
        for bound in (node.args["low"], node.args["high"]):
            _check_pair(node, node.this, bound, column_type)
    elif isinstance(node, exp.Cast):
        _check_cast(node, column_type)
    elif isinstance(node, exp.AtTimeZone):
        _check_arguments([node.this], column_type)
    elif isinstance(node, exp.Func) and not isinstance(node, exp.Case):
        _check_call(node, column_type)


_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def _check_pair(node: exp.Expr, left: exp.Expr, right: exp.Expr, column_type: TypeOf) -> None:
    """Refuses an INTERVAL added to a number or compared with a number or time, and a number added to a TIMESTAMP."""
    is_sum = isinstance(node, (exp.Add, exp.Sub))
    for one, other in ((left, right), (right, left)):
        kind = type_of(one, column_type)
        is_duration = _duration(other) is not None
        unfit = ("number",) if is_sum else ("number", "time", "text", "boolean")
        if is_duration and family(kind) in unfit:
            verb = "added" if is_sum else "compared"
            what = f"{source_text(one)} is {kind}, {source_text(other)} is a duration: they cannot be {verb}"
            raise QueryError(what + _way_out(one, other), position=place(one) or place(node))
        is_moment = type_of(other, column_type) == "TIMESTAMP" or (
            of_event_time(one) and type_of(other, column_type) == "DATE"
        )
        if is_sum and family(kind) == "number" and is_moment:
            what = f"{source_text(one)} is {kind}, {source_text(other)} is {type_of(other, column_type)}: they cannot be added"
            way_out = NAMES_A_TIME if of_event_time(one) else "a number is not a duration: INTERVAL '1' DAY is one"
            raise QueryError(f"{what} ({way_out})", position=place(node))


def _duration(expression: exp.Expr) -> exp.Interval | None:
    """The INTERVAL, if an expression is one; else None."""
    while isinstance(expression, (exp.Paren, exp.Neg)):
        expression = expression.this
    return expression if isinstance(expression, exp.Interval) else None


def _way_out(number: exp.Expr, duration: exp.Expr) -> str:
    found = _duration(duration)
    if found is None or not of_event_time(number):
        return ""
    unit, count = found.text("unit").upper().rstrip("S"), found.text("this")
    length = (
        f"write {int(count) * _MILLISECONDS[unit]}" if unit in _MILLISECONDS and count.isdigit() else "write a number"
    )
    return f" (ts is in milliseconds since 1970: {length})"


def _check_cast(node: exp.Cast, column_type: TypeOf) -> None:
    """Refuses casts between numbers and times, whatever a database makes of them."""
    given, to = type_of(node.this, column_type), node.to
    is_time = to.is_type(*exp.DataType.TEMPORAL_TYPES, "TIME", "INTERVAL")
    kind = "time" if is_time else "number" if to.is_type(*exp.DataType.NUMERIC_TYPES) else ""
    pair = {family(given), "boolean" if to.is_type("BOOLEAN") else kind}
    if family(given) is None or is_nested(given):
        return
    is_listed = to.is_type(*exp.DataType.NESTED_TYPES) and family(given) != "text"
    if pair in ({"number", "time"}, {"boolean", "time"}) or is_listed:
        way_out = f" ({_PARTS_OF_TS})" if of_event_time(node.this) else ""
        message = f"{source_text(node.this)} is {given}: it cannot be cast to {to.sql()}{way_out}"
        raise QueryError(message, position=place(node))


def _check_call(node: exp.Func, column_type: TypeOf) -> None:
    arguments = [each for each in node.iter_expressions() if not isinstance(each, (exp.Var, exp.Interval))]
    name = (node.name if isinstance(node, exp.Anonymous) else type(node).sql_name()).lower()
    has_duration = any(_duration(each) is not None for each in node.iter_expressions())
    if name in _FUNCTIONS or name.replace("_", "") in _FUNCTIONS or has_duration:
        _check_arguments(arguments, column_type)


def _check_arguments(arguments: Iterable[exp.Expr], column_type: TypeOf) -> None:
    for argument in arguments:
        kind = type_of(argument, column_type)
        if isinstance(argument, (exp.Column, exp.AggFunc)) and of_event_time(argument) and family(kind) == "number":
            message = f"{source_text(argument)} is {kind}, and not a time ({_PARTS_OF_TS})"
            raise QueryError(message, position=place(argument))
