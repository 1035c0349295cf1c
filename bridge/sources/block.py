"""Blocks of rows, and their conversion to the types of a stream: the rows that fit, and the faults of the others."""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from bridge.sources.arrays import Array, Unfit
from bridge.sources.layout import Conversion, Layout

_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")

UNFIT = (Unfit, pa.ArrowException, OverflowError, UnicodeEncodeError)
"""The errors that a conversion may raise."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """The reason why a row is rejected, and the place in the row, if there is one."""

    place: str | None
    reason: str


@dataclasses.dataclass(frozen=True)
class FittingRows:
    """`table`: the rows of a block that fit. `numbers`: their numbers in the block.

    `faults`: the reasons against the others.
    """

    table: pa.Table
    numbers: Any
    faults: Mapping[int, Fault]


class Block(abc.ABC):
    """Consecutive rows of a file, not yet converted, numbered from 0.

    A row is malformed if it has no values at all. The other rows are also counted from 0, as `places`.
    """

    layout: Layout
    unit = "line"
    """The unit that `line` counts."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number of rows that are not malformed."""

    @property
    def malformed(self) -> Mapping[int, Fault]:
        """The malformed rows by their numbers."""
        return {}

    @abc.abstractmethod
    def values(self, column: str, start: int, stop: int) -> Array:
        """The values of a column at the places from `start` to before `stop`.

        Raises one of UNFIT without a common type.
        """

    @abc.abstractmethod
    def line(self, number: int) -> int:
        """The line in the file, counted from 1, on which a row begins."""

    @abc.abstractmethod
    def raw(self, number: int) -> str:
        """The text of a row in the file."""

    @abc.abstractmethod
    def text(self, number: int, column: str) -> str:
        """A value of a row, for messages."""

    def column_name(self, column: str) -> str:
        """A column, for messages."""
        return f"column {column!r}"

    def fault(self, number: int, conversion: Conversion, error: Exception) -> Fault:
        """The reason why a row's value does not fit, from `error`."""
        text = self.text(number, conversion.column)
        value = text if len(text) <= 60 else text[:57] + "…"
        detail = f" ({error})" if isinstance(error, Unfit) and "Failed to parse" not in str(error) else ""
        article = "an" if conversion.type[0] in "AEIOU" else "a"
        reason = f"{value} is not {article} {conversion.type}{detail}"
        if self.layout.inferred and conversion.type != "timestamp":
            reason += "; this type was inferred, another is declared with CREATE STREAM (schemas= in Python)"
        if conversion.type.startswith(("DOUBLE", "DECIMAL")) and _DECIMAL_COMMA.fullmatch(text.strip("'\"")):
            comma = f"REPLACE({conversion.name}, ',', '.')"
            reason += f"; decimal commas are texts: declare it VARCHAR, and write CAST({comma} AS {conversion.type})"
        return Fault(self.column_name(conversion.column), reason)

    def rows(self, until_fault: bool) -> FittingRows:
        """The rows that fit, converted to `ts` and the attributes.

        If `until_fault`, only those before the first fault.
        """
        count = self.size + len(self.malformed)
        numbers, faults = np.delete(np.arange(count), list(self.malformed)), dict(self.malformed)
        limit = int(np.searchsorted(numbers, min(faults))) if until_fault and faults else self.size
        columns: list[tuple[str, Array, list[int]]] = []
        for conversion in self.layout.conversions():
            values, errors = _convert(self, conversion, limit, until_fault)
            for place, error in errors.items():
                number = int(numbers[place])
                faults.setdefault(number, self.fault(number, conversion, error))
            limit = min(errors, default=limit) if until_fault else limit
            columns.append((conversion.name, values, [*errors]))
        fits = np.arange(self.size) < limit
        for _, _, unfit in columns:
            fits[unfit] = False
        arrays = {name: _filter(values, np.delete(fits, unfit)) for name, values, unfit in columns}
        return FittingRows(pa.table(arrays), numbers[fits], faults)


class FileReader(Protocol):
    """A file or table: its columns with their types, and its rows in blocks.

    `typed`: whether the types are the file's own. `fraction`: the part that has been read, from 0 to 1; None if
    unknown. `waits`: whether more rows may still be written during reading.
    """

    file: str
    typed: bool
    columns: dict[str, pa.DataType]

    @property
    def fraction(self) -> float | None: ...

    @property
    def waits(self) -> bool: ...

    def blocks(self, layout: Layout) -> Iterator[Block]: ...

    def close(self) -> None: ...


def _convert(block: Block, conversion: Conversion, count: int, until_fault: bool) -> tuple[Array, dict[int, Exception]]:
    """The values that fit among the first `count` places, and the errors of the others, by place.

    Places are halved until all values of a part fit, or a single one is left that does not.
    """
    parts: list[Array] = []
    errors: dict[int, Exception] = {}
    ranges = [(0, count)] if count else []
    while ranges:
        start, stop = ranges.pop()
        try:
            parts.append(conversion.convert(block.values(conversion.column, start, stop)))
        except UNFIT as error:
            if stop - start > 1:
                middle = (start + stop) // 2
                ranges += [(middle, stop), (start, middle)]
                continue
            errors[start] = error.with_traceback(None)
            if until_fault:
                break
    return (pa.concat_arrays(parts) if parts else pa.nulls(0)), errors


def _filter(values: Array, fits: Any) -> Array:
    """The values at the places that fit. `fits` may have more places than there are values."""
    mask = fits[: len(values)]
    return values if mask.all() else values.filter(pa.array(mask))
