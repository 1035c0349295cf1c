"""Times of calendar timers: fields as in a crontab, and recurring dates. Times are UTC, in milliseconds since 1970."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

DAY = 86_400_000
_EPOCH = datetime.date(1970, 1, 1)
_CYCLE = 28 * 366
"""The days after which the calendar's weekdays recur, except across a century without a leap day."""


@dataclass(frozen=True, slots=True)
class Crontab:
    """The times whose fields are all among the given ones; they have no milliseconds.

    Days of the month count from 1, months from 1, days of the week from 0, Sunday.

    >>> noon = Crontab(frozenset({0}), frozenset({12}))
    >>> noon.after(0), noon.after(12 * 3_600_000)
    (43200000, 129600000)
    """

    minutes: frozenset[int] = frozenset(range(60))
    hours: frozenset[int] = frozenset(range(24))
    days: frozenset[int] = frozenset(range(1, 32))
    months: frozenset[int] = frozenset(range(1, 13))
    weekdays: frozenset[int] = frozenset(range(7))
    seconds: frozenset[int] = frozenset({0})

    def after(self, now: int, start: int = 0) -> int | None:
        """The first such time later than `now`; None if there is none."""
        today = now // DAY
        for day in range(today, today + _CYCLE * 3):
            if not self._has(day):
                continue
            for time in self._times_of_day():
                if day * DAY + time > now:
                    return day * DAY + time
        return None

    def _has(self, day: int) -> bool:
        try:
            date = _EPOCH + datetime.timedelta(days=day)
        except OverflowError:
            return False
        return date.day in self.days and date.month in self.months and date.isoweekday() % 7 in self.weekdays

    def _times_of_day(self) -> Iterator[int]:
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                for second in sorted(self.seconds):
                    yield ((hour * 60 + minute) * 60 + second) * 1000


@dataclass(frozen=True, slots=True)
class Dates:
    """`times` dates (None: without end) from `first` on, `period` ms apart; without `first` from a period after the start.

    >>> Dates(first=10, period=5, times=3).after(12), Dates(period=5).after(12, start=12), Dates(first=10).after(10)
    (15, 17, None)
    """

    first: int | None = None
    period: int | None = None
    times: int | None = None

    def after(self, now: int, start: int = 0) -> int | None:
        """The first date later than `now`; None if there is none."""
        begin = self.first if self.first is not None else start + (self.period or 0)
        if begin > now:
            return begin if self.times != 0 else None
        if self.period is None:
            return None
        place = (now - begin) // self.period + 1
        return begin + place * self.period if self.times is None or place < self.times else None
