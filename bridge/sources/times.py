"""Timestamps of files and frames in milliseconds since 1970, from numbers with a unit, ISO 8601 texts, and times."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.errors import BridgeError
from bridge.sources.arrays import Array, Unfit, cast, is_number, is_text, plain_array
from bridge.sources.arrow import EARLIEST, LATEST

TO_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""The conversion of a unit to milliseconds: the factor and the divisor."""

_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

AUTO = "auto"
UNITS = (*TO_MS, AUTO)
"""The units of numeric timestamps; AUTO is the unit that puts the first timestamp nearest to the present."""

_NUMBER = r"^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*$"
WHOLE = r"^\s*[-+]?\d+\s*$"
_ZONE = r":\d\d.*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"
_SPELLINGS = (
    (r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3"),
    (r"(\d\d:\d\d:\d\d),(\d+)", r"\1.\2"),
    (r"(\.\d{6})\d+", r"\1"),
    (r"(:\d\d(?:\.\d+)?)\s*(?:UTC|GMT|[Zz])$", r"\1Z"),
    (r"(:\d\d(?:\.\d+)?)\s+([+-]\d\d)", r"\1\2"),
)
"""Other ways to write ISO 8601, and digits after the microseconds, which are ignored."""

TIMESTAMP = r"^\s*\d{4}[-/]\d\d[-/]\d\d[ Tt]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\s*(?:[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?)?\s*$"
"""A date with a time, as `times_of_texts` reads it."""


class TimeUnit:
    """The unit of a stream's numeric timestamps. AUTO becomes a unit at the first number.

    None means milliseconds, which must be whole. `first`: the first number.

    >>> TimeUnit("s").to_times(pa.array(["1711846804.5", "1.7e9"])).to_pylist()
    [1711846804500, 1700000000000]
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.first: float | None = None

    @property
    def words(self) -> str:
        """The unit in plain words."""
        return _NAMES[self.name or "ms"]

    @property
    def hint(self) -> str | None:
        """Advice if another unit is the likely one, as only that puts the first number in the present."""
        if self.first is None or _is_present(self.first, self.name or "ms"):
            return None
        likely = likely_unit(self.first)
        if not _is_present(self.first, likely):
            return None
        return f"if it is {_NAMES[likely]}, that is {_date(self.first, likely)}: {_way_out(likely)}"

    def to_times(self, column: Array) -> Array:
        """Timestamps in milliseconds since 1970. Times without a zone are UTC; parts of a millisecond are ignored.

        Raises Unfit for a value that is missing, out of range, or not a time.
        """
        times = self._milliseconds(plain_array(column))
        if times.null_count:
            raise Unfit("the timestamp is missing")
        if len(times):
            extremes: Any = pc.min_max(times).as_py()
            if extremes["min"] < EARLIEST or extremes["max"] > LATEST:
                raise self._out_of_range()
        return times

    def _milliseconds(self, values: Array) -> Array:
        kind = values.type
        if pa.types.is_timestamp(kind):
            return self._scaled(values.cast(pa.int64()), kind.unit)
        if pa.types.is_date(kind):
            return self._scaled(values.cast(pa.date32()).cast(pa.timestamp("s")).cast(pa.int64()), "s")
        if is_text(kind):
            return self._of_texts(values)
        if pa.types.is_null(kind) or is_number(kind):
            return self._of_numbers(values)
        raise Unfit(f"a timestamp is a number or a date with a time, not {kind}")

    def _of_texts(self, values: Array) -> Array:
        """The times of texts of numbers, and of dates with times; one column may contain both."""
        try:
            return self._of_numbers(values.cast(pa.int64()))
        except pa.ArrowInvalid:
            pass
        numeric = pc.match_substring_regex(values, _NUMBER)
        texts = pc.utf8_trim_whitespace(pc.if_else(numeric, values, None))
        is_whole = pc.all(pc.match_substring_regex(texts, WHOLE)).as_py() is not False
        numbers = self._of_numbers(cast(texts, pa.int64() if is_whole else pa.float64()))
        times = times_of_texts(pc.if_else(numeric, None, values)).cast(pa.int64())
        return pc.coalesce(numbers, self._scaled(times, "us"))

    def _of_numbers(self, values: Array) -> Array:
        if values.null_count == len(values):
            return values.cast(pa.int64())
        if self.first is None:
            self.first = float(next(value for value in values if value.is_valid).as_py())
        if self.name == AUTO:
            self.name = likely_unit(self.first)
        if pa.types.is_integer(values.type):
            return self._scaled(cast(values, pa.int64()), self.name or "ms")
        if self.name is None:
            return self._whole_milliseconds(values)
        return self._of_fractions(values, self.name)

    def _whole_milliseconds(self, values: Array) -> Array:
        try:
            return cast(values, pa.int64())
        except Unfit:
            reason = "it is not a whole number of milliseconds"
        hint = self.hint or f"name the unit: {_way_out('ms')}"
        raise Unfit(f"{reason}; {hint}")

    def _of_fractions(self, values: Array, unit: str) -> Array:
        """Numbers with fractions, exact to the microsecond, as milliseconds."""
        times, divisor = TO_MS[unit]
        floats = cast(values, pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
        microseconds = np.rint(floats * (1000 * times / divisor))
        if not np.all(np.abs(microseconds) < 2**62):
            raise self._out_of_range()
        return pa.array(microseconds.astype("int64") // 1000, pa.int64(), mask=np.asarray(values.is_null()))

    def _scaled(self, values: Array, unit: str) -> Array:
        """Whole numbers of a unit as milliseconds, rounded down. NULL stays NULL."""
        times, divisor = TO_MS[unit]
        if times == divisor == 1:
            return values
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        limit = 2**62 // times
        if len(numbers) and (numbers.min() < -limit or numbers.max() > limit):
            raise self._out_of_range()
        return pa.array(numbers * times // divisor, pa.int64(), mask=np.asarray(values.is_null()))

    def _out_of_range(self) -> Unfit:
        hint = f"; {self.hint}" if self.hint else ""
        return Unfit(f"the timestamp is out of range ({EARLIEST} to {LATEST} ms){hint}")


def to_times(column: Array) -> Array:
    """Timestamps in milliseconds since 1970; numbers are whole milliseconds. Raises Unfit, see `TimeUnit.to_times`.

    >>> to_times(pa.array(["1970-01-01 00:00:01", "1970-01-01T01:00:02+01:00"])).to_pylist()
    [1000, 2000]
    """
    return TimeUnit().to_times(column)


def times_of_texts(values: Array) -> Array:
    """ISO 8601 texts, also with slashes or the words UTC and GMT, as timestamps in UTC.

    >>> times_of_texts(pa.array(["2024/03/31 01:00:04 UTC", "2024-03-31 01:00:04+02"]))[1].as_py().hour
    23
    """
    for zone in (None, "UTC"):
        with contextlib.suppress(pa.ArrowInvalid):
            return values.cast(pa.timestamp("us", zone)).cast(pa.timestamp("us"))
    short = pc.utf8_trim_whitespace(values)
    for pattern, replacement in _SPELLINGS:
        short = pc.replace_substring_regex(short, pattern, replacement)
    zoned = pc.match_substring_regex(short, _ZONE)
    try:
        local = pc.if_else(zoned, None, short).cast(pa.timestamp("us"))
        if not pc.any(zoned).as_py():
            return local
        universal = pc.if_else(zoned, short, None).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        raise Unfit("it is not a date with a time, such as 2024-12-31T23:59:59.999Z") from None
    return pc.coalesce(local, universal)


def are_timestamps(texts: Array) -> bool:
    """Whether all texts that are not NULL are dates with a time; False if there is none.

    >>> are_timestamps(pa.array(["2024-03-31 01:00:04+00", None])), are_timestamps(pa.array(["2024-03-31"]))
    (True, False)
    """
    first = next((text for text in texts if text.is_valid), None)
    if first is None or not pc.match_substring_regex(first, TIMESTAMP).as_py():
        return False
    try:
        return pc.all(pc.match_substring_regex(texts, TIMESTAMP)).as_py() and times_of_texts(texts) is not None
    except Unfit:
        return False


def likely_unit(number: float) -> str:
    """The unit in which a number is nearest to the present.

    >>> [likely_unit(number) for number in (1711846804, 1711846804500, 1711846804500123, 1711846804500123456)]
    ['s', 'ms', 'us', 'ns']
    """
    return next((unit for unit, limit in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if abs(number) < limit), "ns")


def unit_of(name: str | None) -> str | None:
    """A name of UNITS, or None. Raises BridgeError for anything else."""
    if name is not None and name not in UNITS:
        raise BridgeError(f"the unit of timestamps is one of {', '.join(UNITS)}, not {name!r}")
    return name


def _is_present(number: float, unit: str) -> bool:
    """Whether a number in a unit is in the years 1973 to 2099."""
    times, divisor = TO_MS[unit]
    return 1e11 <= number * times / divisor <= 4.1e12


def _date(number: float, unit: str) -> str:
    times, divisor = TO_MS[unit]
    return f"{datetime.datetime.fromtimestamp(number * times / divisor / 1000, datetime.UTC):%Y-%m-%d %H:%M:%S}"


def _way_out(unit: str) -> str:
    return f"--timestamp-unit {unit} (timestamp_unit={unit!r} in Python)"
