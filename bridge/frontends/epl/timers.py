"""The timers of EPL's patterns: timer:interval, timer:at and timer:schedule. Calendars are in UTC."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import NoReturn

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl.cursor import period, whole
from nfa.temporal.calendar import Crontab, Dates
from nfa.temporal.tree import At, TimerInterval

_FIELDS = (
    ("minutes", 0, 59),
    ("hours", 0, 23),
    ("days", 1, 31),
    ("months", 1, 12),
    ("weekdays", 0, 6),
    ("seconds", 0, 59),
)
_NAMES = {"days": "days of the month", "weekdays": "days of the week"}

_ISO = re.compile(
    r"(?:(?P<repeated>R(?P<times>\d{0,9}))/)?(?:(?P<date>\d{4}-[\d:.TZ+-]+))?/?"
    r"(?P<period>P(?:\d+[YMWD])*(?:T(?:\d+[HMS])+)?)?"
)
_UNITS = {"W": 604_800_000, "D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1000}


def timer(cursor: Cursor, name: str, position: int) -> TimerInterval | At:
    """Steps over the arguments of a timer.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> timer(EplCursor("(30 sec)"), "interval", 0)
    TimerInterval(time=30000)
    """
    cursor.expect("(")
    found = _READERS[name](cursor, position)
    cursor.expect(")")
    return found


def _interval(cursor: Cursor, position: int) -> TimerInterval:
    return TimerInterval(period(cursor))


# timer:at -------------------------------------------------------------------------------------------------------------


def _at(cursor: Cursor, position: int) -> At:
    """`minutes, hours, days of the month, months, days of the week [, seconds]`, as in a crontab."""
    fields: dict[str, frozenset[int]] = {}
    for name, least, most in _FIELDS:
        if name == "seconds" and not cursor.take(","):
            break
        if name not in ("minutes", "seconds"):
            cursor.expect(",", " (minutes, hours, days of the month, months, days of the week)")
        fields[name] = _field(cursor, _NAMES.get(name, name), least, most)
    if cursor.word() == ",":
        cursor.fail("time zones and parts of seconds are not supported: a calendar is that of UTC")
    if len(fields["days"]) < 31 and len(fields["weekdays"]) < 7:
        cursor.fail("days of the month and days of the week cannot both be arguments", position)
    when = Crontab(**fields)
    if when.after(0) is None:
        cursor.fail("the calendar has no such day", position)
    return At(when)


def _field(cursor: Cursor, name: str, least: int, most: int) -> frozenset[int]:
    if not cursor.take("["):
        return frozenset(_values(cursor, name, least, most))
    found = set(_values(cursor, name, least, most))
    while cursor.take(","):
        found.update(_values(cursor, name, least, most))
    cursor.expect("]")
    return frozenset(found)


def _values(cursor: Cursor, name: str, least: int, most: int) -> range | list[int]:
    """`*`, `*/n` (the multiples of n), `n`, `n:m`."""
    if cursor.take("*"):
        if not cursor.take("/"):
            return range(least, most + 1)
        step = whole(cursor, "the step")
        return [value for value in range(least, most + 1) if value % step == 0]
    if cursor.word() in ("LAST", "WEEKDAY", "LASTWEEKDAY"):
        cursor.fail(f"{cursor.word().lower()} is not supported: write days, or *")
    first = _number(cursor, name, least, most)
    if cursor.word() in ("LAST", "WEEKDAY"):
        cursor.fail(f"{cursor.word().lower()} is not supported: write days, or *")
    last = _number(cursor, name, least, most) if cursor.take(":") else first
    if last < first:
        cursor.fail(f"a range of {name} goes up: {first}:{last} does not", cursor.position)
    return range(first, last + 1)


def _number(cursor: Cursor, name: str, least: int, most: int) -> int:
    position = cursor.position
    found = whole(cursor, f"a number, of {name},", 0)
    if not least <= found <= most:
        cursor.fail(f"{name} are from {least} to {most}", position)
    return found


# timer:schedule ---------------------------------------------------------------------------------------------------------


def _schedule(cursor: Cursor, position: int) -> At:
    """`iso: 'R3/2026-05-01T10:00:00Z/PT5M'`, or `date: '…', period: 5 min, repetitions: 3`."""
    arguments: dict[str, object] = {}
    while True:
        place = cursor.position
        name = cursor.name("iso, date, period or repetitions").lower()
        cursor.expect(":")
        if name in arguments or (arguments and "iso" in (name, *arguments)):
            cursor.fail(f"{name} cannot stand here again, nor beside iso", place)
        arguments[name] = _argument(cursor, name, place)
        if not cursor.take(","):
            break
    if "iso" in arguments:
        return At(_iso(cursor, str(arguments["iso"]), position))
    date, interval, times = arguments.get("date"), arguments.get("period"), arguments.get("repetitions", ...)
    assert isinstance(date, int | None)
    assert isinstance(interval, int | None)
    if times is ...:
        return At(_once(cursor, date, interval, position))
    if interval is None:
        cursor.fail("repetitions want a period", position)
    assert isinstance(times, int)
    return At(Dates(date, interval, None if times < 0 else times))


def _argument(cursor: Cursor, name: str, place: int) -> object:
    if name == "period":
        return period(cursor)
    if name == "repetitions":
        sign = -1 if cursor.take("-") else 1
        return sign * whole(cursor, "repetitions", 1)
    if name not in ("iso", "date"):
        cursor.fail(f"timer:schedule has iso, date, period and repetitions, not {name!r}", place)
    text, place = _text(cursor), cursor.position
    return text if name == "iso" else _date(cursor, text, place)


def _text(cursor: Cursor) -> str:
    token = cursor.peek()
    if token is None or cursor.word() or not token.text:
        cursor.fail(f"a text is expected, such as '2026-05-01T10:00:00Z', not {cursor.next_text()}")
    cursor.at += 1
    return token.text


def _iso(cursor: Cursor, text: str, position: int) -> Dates:
    found = _ISO.fullmatch(text)
    if found is None or not (found["date"] or found["period"]) or found["period"] in ("P", "PT"):
        _refuse_iso(cursor, text, position)
    date = _date(cursor, found["date"], position) if found["date"] else None
    interval = _period(cursor, found["period"], position) if found["period"] else None
    if not found["repeated"]:
        return _once(cursor, date, interval, position)
    if interval is None:
        cursor.fail("what recurs wants a period: R3/2026-05-01T10:00:00Z/PT5M", position)
    return Dates(date, interval, int(found["times"]) if found["times"] else None)


def _once(cursor: Cursor, date: int | None, interval: int | None, position: int) -> Dates:
    """One date: the period after the given date, or after the start."""
    if date is None and interval is None:
        cursor.fail("a date or a period is expected", position)
    return Dates(date + interval) if date is not None and interval is not None else Dates(date, interval, 1)


def _date(cursor: Cursor, text: str, position: int) -> int:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        _refuse_iso(cursor, text, position)
    found = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
    return (found - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1)


def _period(cursor: Cursor, text: str, position: int) -> int:
    days, _, times = text[1:].partition("T")
    if re.search(r"\d[YM]", days):
        cursor.fail("months and years are not supported: they are not all equally long; write days", position)
    total = sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([WDHMS])", days + times))
    if not 0 < total < 2**62:
        _refuse_iso(cursor, text, position)
    return total


def _refuse_iso(cursor: Cursor, text: str, position: int) -> NoReturn:
    cursor.fail(f"{text!r} is not a time of ISO 8601, such as R3/2026-05-01T10:00:00Z/PT5M", position)


_READERS: dict[str, Callable[[Cursor, int], TimerInterval | At]] = {
    "interval": _interval,
    "at": _at,
    "schedule": _schedule,
}
