"""The rules for the times of a stream's events: how long other streams wait for it, and how far it may be ahead."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from bridge.errors import SchemaError
from windows.times import duration


class TimeRules(NamedTuple):
    """The rules for the times of a stream's events, in milliseconds; None if there is no such rule.

    idle_after: Events of other streams wait for this one, unless it has been silent for longer than this. max_ahead: An
    event that is further ahead is refused as a late event.
    """

    idle_after: int | None = None
    max_ahead: int | None = None

    @classmethod
    def of(cls, **durations: Any) -> Self:
        """The rules for durations such as "30 S". Raises `SchemaError` for a value that is not a duration.

        >>> TimeRules.of(idle_after="30 S", max_ahead=None)
        TimeRules(idle_after=30000, max_ahead=None)
        """
        found = dict.fromkeys(durations)
        for name, value in durations.items():
            try:
                found[name] = None if value is None else duration(value)
            except ValueError as error:
                raise SchemaError(f"{name}: {error}") from None
        return cls(**found)


NO_RULES = TimeRules()
