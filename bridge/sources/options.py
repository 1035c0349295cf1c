"""The options for reading the events of streams, for `bridge.replay`, `file_source` and the command."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeVar

from bridge.errors import BridgeError, nearest
from bridge.sources.times import unit_of

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """The options for reading the events of one stream.

    `timestamp`: the column with the timestamps; None: it is guessed. `timestamp_unit`: one of `times.UNITS`, or None.
    `sort`: whether to order the events by time. `format`: the format of files, if their ending does not tell.
    """

    timestamp: str | None = None
    timestamp_unit: str | None = None
    sort: bool = False
    format: str | None = None


DEFAULTS = ReadOptions()
"""Everything is guessed; numbers are milliseconds."""


@dataclasses.dataclass(frozen=True)
class HistoryOptions:
    """The options for reading the events of several streams. An option is for all of them, or is a mapping by stream.

    >>> HistoryOptions({"a": "time"}, "s").of("a")
    ReadOptions(timestamp='time', timestamp_unit='s', sort=False, format=None)
    """

    timestamp: str | Mapping[str, str] | None = None
    timestamp_unit: str | Mapping[str, str] | None = None
    sort: bool = False
    format: str | None = None

    def of(self, stream: str) -> ReadOptions:
        """The options of one stream. Raises BridgeError for an unknown unit, and for a column that is not a name."""
        unit, timestamp = unit_of(_of_stream(self.timestamp_unit, stream)), _of_stream(self.timestamp, stream)
        if timestamp is not None and not isinstance(timestamp, str):
            raise BridgeError(f"timestamp= is the name of a column, not {timestamp!r}")
        return ReadOptions(timestamp, unit, self.sort, self.format)

    def check_names(self, streams: Iterable[str]) -> None:
        """Raises BridgeError for an option that is given for none of these streams."""
        known = [str(stream).lower() for stream in streams]
        for option, value in (("timestamp", self.timestamp), ("timestamp_unit", self.timestamp_unit)):
            for stream in value if isinstance(value, Mapping) else ():
                if str(stream).lower() not in known:
                    raise BridgeError(
                        f"{option}= is given for {stream!r}, which has no events{nearest(str(stream), known)}"
                    )


HISTORY_DEFAULTS = HistoryOptions()
"""`DEFAULTS` for all streams."""


def _of_stream(option: T | Mapping[str, T] | None, stream: str) -> T | None:
    if not isinstance(option, Mapping):
        return option
    return next((value for name, value in option.items() if str(name).lower() == stream.lower()), None)
