"""The arguments of output processors and late processors: a result, or an event that came too late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Event(NamedTuple):
    """A result of a query, the argument of output processors.

    payload: The values by the names of the query's columns. timestamp: Milliseconds since 1970.

    >>> event = Event({"a": 1}, 1000)
    >>> event.payload["a"], event.timestamp
    (1, 1000)
    """

    payload: dict[str, Any]
    timestamp: int


class LateEvent(NamedTuple):
    """An event that is refused, the argument of late processors; it is also a row of the table `late_events`.

    stream: Its stream. payload: Its attributes by name. timestamp: Milliseconds since 1970. watermark: The time, in
    milliseconds, before which no event is accepted. reason: The reason in words. kind: "late", "ahead" (further than
    `max_ahead` allows) or "duplicate" (its `event_id` is known). milliseconds: By how much it is late or ahead.

    >>> late = LateEvent("s", {"a": 1}, 14, 15, "1 ms before the watermark")
    >>> late.stream, late.timestamp, late.watermark
    ('s', 14, 15)
    """

    stream: str
    payload: dict[str, Any]
    timestamp: int
    watermark: int
    reason: str
    kind: str = "late"
    milliseconds: int = 0


def maker(names: Sequence[str]) -> Callable[[tuple[Any, ...]], Event]:
    """A function that makes an `Event` from a row: its timestamp, then the values of these columns.

    It is compiled for these names, as dict(zip(…)) and Event(…) take twice as long per result.

    >>> maker(["a", 'b" \\'c'])((1000, 1, 2))
    Event(payload={'a': 1, 'b" \\'c': 2}, timestamp=1000)
    """
    items = ", ".join(f"{name!r}: row[{place}]" for place, name in enumerate(names, 1))
    made: Callable[[tuple[Any, ...]], Event] = eval(
        f"lambda row: new(Event, ({{{items}}}, row[0]))", {"new": tuple.__new__, "Event": Event}
    )
    return made
