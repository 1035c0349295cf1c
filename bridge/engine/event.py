"""What output processors get: one result, or an event that came too late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One result: its payload by column name, and its timestamp in milliseconds.

    >>> event = Event({"a": 1}, 1000)
    >>> event.payload["a"], event.timestamp
    (1, 1000)
    """

    payload: dict[str, Any]
    timestamp: int


class LateEvent(NamedTuple):
    """An event that came after time had passed it, as the `late_events` table keeps it too.

    >>> late = LateEvent("s", {"a": 1}, 14, 15, "1 ms before the watermark")
    >>> late.stream, late.timestamp, late.watermark
    ('s', 14, 15)
    """

    stream: str
    payload: dict[str, Any]
    timestamp: int
    watermark: int
    reason: str


def maker(names: Sequence[str]) -> Callable[[tuple[Any, ...]], Event]:
    """A function that makes an `Event` of a row, its timestamp and then the values of these columns.

    It is written for these names, as dict(zip(…)) and Event(…) take twice as long, and mostly there are many of one row.

    >>> maker(["a", 'b" \\'c'])((1000, 1, 2))
    Event(payload={'a': 1, 'b" \\'c': 2}, timestamp=1000)
    """
    items = ", ".join(f"{name!r}: row[{place}]" for place, name in enumerate(names, 1))
    made: Callable[[tuple[Any, ...]], Event] = eval(
        f"lambda row: new(Event, ({{{items}}}, row[0]))", {"new": tuple.__new__, "Event": Event}
    )
    return made
