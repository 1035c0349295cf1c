"""Compared times: texts become texts of one form, and dates compared with timestamps become timestamps.

SQLite stores times as texts, and compares texts. The other databases parse each text as a time, each in its own forms.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable

from sqlglot import exp

from bridge.check.types import COMPARISONS, place
from bridge.errors import QueryError
from windows.values import timestamp_text

_TIME = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ]\s*(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?\s*(?:(Z|UTC)|([+-])(\d{1,2})(?::?(\d{2}))?)?)?\s*",
    re.IGNORECASE,
)

KindOf = Callable[[exp.Expr], str]
"""The type of an expression."""


def time_of(text: str) -> datetime.datetime | None:
    """The time that a text represents, in UTC; None if it is not a time.

    >>> time_of("2026-01-31T12:00+01:00")
    datetime.datetime(2026, 1, 31, 11, 0)
    >>> time_of("2026-13-01") is time_of("tomorrow") is None
    True
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups()[:6])
    fraction, _, sign, hours, minutes = found.groups()[6:]
    ahead = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        local = datetime.datetime(year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")))
        return local + ahead if sign == "-" else local - ahead
    except (ValueError, OverflowError):
        return None


def check_text_of_time(node: exp.Expr, text: exp.Expr) -> datetime.datetime:
    """The time that a text represents, which is compared with times in `node`.

    Raises QueryError if it is not a time.
    """
    found = time_of(text.name)
    if found is None:
        message = f"{text.sql()} is not a time: write '2020-01-31' or '2020-01-31 23:59:59'"
        raise QueryError(message, position=place(node))
    return found


def with_times(expression: exp.Expr, kind_of: KindOf) -> exp.Expr:
    """The expression in which times are compared with times of the same form.

    Raises QueryError for a text that is not a time, and for a time of day that is compared with a DATE.

    >>> import sqlglot
    >>> kinds = {"a": "TIMESTAMP", "d": "DATE"}
    >>> with_times(sqlglot.parse_one("a > '2026-1-31' AND a = d"), lambda each: kinds.get(each.name, "VARCHAR")).sql()
    "a > '2026-01-31 00:00:00.000000' AND a = CAST(d AS TIMESTAMP)"
    """
    inner_first = list(expression.walk())[::-1]
    for cast in [node for node in inner_first if isinstance(node, exp.Cast) and _is_text(node.this)]:
        _write_alike(cast)
    for node, is_value, group in [(compared, *each) for compared in inner_first for each in _compared(compared)]:
        kinds = [kind_of(each) for each in group]
        if "TIMESTAMP" in kinds or "DATE" in kinds:
            for member, kind in zip(group, kinds, strict=True):
                _make_alike(node, member, kind, "TIMESTAMP" if "TIMESTAMP" in kinds else "DATE", is_value)
    return expression


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _text_of(time: datetime.datetime, kind: str) -> exp.Literal:
    return exp.Literal.string(timestamp_text(time) if kind == "TIMESTAMP" else time.date().isoformat())


def _write_alike(cast: exp.Cast) -> None:
    """Writes the text of `TIMESTAMP '…'` or `DATE '…'` in the form in which such values are stored."""
    time = time_of(cast.this.name)
    kinds = [kind for kind in ("TIMESTAMP", "DATE") if cast.to.is_type(kind)]
    if time is not None and kinds:
        cast.set("this", _text_of(time, kinds[0]))


def _compared(node: exp.Expr) -> Iterable[tuple[bool, list[exp.Expr]]]:
    """Operands that are compared with each other, or one of which is the expression's value.

    With whether the latter holds.
    """
    if isinstance(node, exp.Nullif):
        yield True, [node.this, node.expression]
    elif isinstance(node, COMPARISONS):
        yield False, [node.this, node.expression]
    elif isinstance(node, exp.Between):
        yield False, [node.this, node.args["low"], node.args["high"]]
    elif isinstance(node, exp.In):
        yield False, [node.this, *node.expressions]
    elif isinstance(node, (exp.Coalesce, exp.Greatest, exp.Least)):
        yield True, [node.this, *node.expressions]
    elif isinstance(node, exp.Case):
        if node.this is not None:
            yield False, [node.this, *(branch.this for branch in node.args["ifs"])]
        default = node.args.get("default")
        yield True, [*(branch.args["true"] for branch in node.args["ifs"]), *([] if default is None else [default])]


def _make_alike(node: exp.Expr, member: exp.Expr, kind: str, target: str, is_value: bool) -> None:
    """Converts a text, or a date among timestamps. `is_value`: whether the type of `node` is that of its operands."""
    if _is_text(member):
        time = check_text_of_time(node, member)
        if target == "DATE" and time.time() != datetime.time():
            way_out = f"write '{time.date()}', or CAST(… AS TIMESTAMP)"
            message = f"{member.sql()} has a time of day, and is compared with a DATE: {way_out}"
            raise QueryError(message, position=place(node))
        text = _text_of(time, target)
        member.replace(exp.cast(text, target) if is_value else text)
    elif kind == "DATE" and target == "TIMESTAMP":
        member.replace(exp.cast(member.copy(), "TIMESTAMP"))
