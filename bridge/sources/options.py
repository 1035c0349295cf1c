"""How the events of streams are read: the options of `bridge.replay`, `file_source` and the command."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from bridge.errors import BridgeError
from bridge.sources.times import unit_of

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How the events of one stream are read.

    `timestamp`: the column with the timestamps; None to guess it. `timestamp_unit`: one of `times.UNITS`, or None.
    `sort`: order the events by time. `format`: the format of files, if their ending does not say.
    """

    timestamp: str | None = None
    timestamp_unit: str | None = None
    sort: bool = False
    format: str | None = None


DEFAULTS = ReadOptions()
"""Everything is guessed; numbers are milliseconds."""


@dataclasses.dataclass(frozen=True)
class HistoryOptions:
    """How the events of several streams are read: an option applies to all of them, or is a mapping by stream.

    >>> HistoryOptions({"a": "time"}, "s").of("a")
    ReadOptions(timestamp='time', timestamp_unit='s', sort=False, format=None)
    """

    timestamp: str | Mapping[str, str] | None = None
    timestamp_unit: str | Mapping[str, str] | None = None
    sort: bool = False
    format: str | None = None

    def of(self, stream: str) -> ReadOptions:
        """The options of one stream. Raises BridgeError for an unknown unit, and for what is not a column."""
        unit, timestamp = unit_of(_of_stream(self.timestamp_unit, stream)), _of_stream(self.timestamp, stream)
        if timestamp is not None and not isinstance(timestamp, str):
            raise BridgeError(f"timestamp= is the name of a column, not {timestamp!r}")
        return ReadOptions(timestamp, unit, self.sort, self.format)


HISTORY_DEFAULTS = HistoryOptions()
"""`DEFAULTS` for all streams."""


def _of_stream(option: T | Mapping[str, T] | None, stream: str) -> T | None:
    return option.get(stream) if isinstance(option, Mapping) else option
