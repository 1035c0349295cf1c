"""The layout of a file: the column with the timestamps, the columns of attributes, and the columns left out."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from bridge.errors import SourceError, nearest
from bridge.sources.arrays import Array, is_bytes, is_text
from bridge.sources.convert import is_convertible, to_attribute
from bridge.sources.times import TimeUnit
from windows.schema import Attribute, Schema, TypeMismatch, canonical_type, is_reserved

NAMES = ("ts", "timestamp", "time", "event_time", "datetime", "date")
"""The names of timestamp columns, in the order in which they are looked for, ignoring case."""

Note = Callable[[str], None]
"""Takes a message about a guess, or about columns that are left out."""


@dataclasses.dataclass(frozen=True)
class Conversion:
    """The conversion of a file's `column` to the column `name` of a stream, whose `type` is for messages."""

    name: str
    column: str
    type: str
    convert: Callable[[Array], Array]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns of the timestamps (a relation has none) and of each attribute. `file` is for messages.

    `unit`: the unit of numeric timestamps. `inferred`: whether the types of the attributes come from the first rows.

    >>> layout = Layout("f.csv", "time", ((Attribute("a", "BIGINT"), "A"),))
    >>> layout.conform(pa.table({"time": [1], "A": [2]})).to_pylist()
    [{'ts': 1, 'a': 2}]
    """

    file: str
    timestamp: str | None
    attributes: tuple[tuple[Attribute, str], ...]
    unit: TimeUnit = dataclasses.field(default_factory=TimeUnit)
    inferred: bool = False

    def left_out(self, columns: Iterable[str]) -> str | None:
        """A note about the columns that the schema does not have."""
        extra = [repr(name) for name in columns if name not in self.columns]
        return f"{self.file}: left out, since the schema has no such attribute: {', '.join(extra)}" if extra else None

    @property
    def columns(self) -> list[str]:
        """The columns to read, each once."""
        return list(dict.fromkeys(conversion.column for conversion in self.conversions()))

    def conform(self, raw: pa.Table) -> pa.Table:
        """`ts` and the attributes, converted from the file's columns. Raises Unfit if a value does not fit."""
        return pa.table({each.name: each.convert(raw.column(each.column)) for each in self.conversions()})

    def conversions(self) -> Iterable[Conversion]:
        """The conversions to `ts` and to each attribute."""
        if self.timestamp is not None:
            yield Conversion("ts", self.timestamp, "timestamp", self.unit.to_times)
        for attribute, column in self.attributes:
            convert = functools.partial(self._values, attribute=attribute, column=column)
            yield Conversion(attribute.name, column, attribute.type, convert)

    def _values(self, values: Array, attribute: Attribute, column: str) -> Array:
        """The values of an attribute. If its column also has the timestamps, a number may be written as a time."""
        number = attribute.type not in ("VARCHAR", "DATE", "TIMESTAMP")
        return to_attribute(self.unit.to_times(values) if number and column == self.timestamp else values, attribute)


def layout_of(
    file: str,
    columns: Mapping[str, pa.DataType],
    schema: Schema | None,
    timestamp: str | None,
    note: Note,
    typed: bool = False,
    unit: TimeUnit | None = None,
) -> Layout:
    """The layout of a file with these columns. Without a schema, the attributes are those of the columns.

    `typed`: the columns have types of their own (Parquet, a frame), which must be of the attribute's kind.
    `unit`: the unit of numeric timestamps.
    Raises SourceError for an unknown timestamp column, and for a column that is missing or of another kind.
    """
    time = (
        _timestamp_by_name(file, columns, timestamp)
        if timestamp is not None
        else _guess_timestamp(file, columns, schema, note)
    )
    complete = infer_schema(file, columns, time, typed) if schema is None else schema
    attributes = tuple((attribute, _column_of(file, attribute, columns)) for attribute in complete)
    for attribute, column in attributes if typed else ():
        if not is_convertible(columns[column], attribute):
            way_out = f"CAST({attribute.name} AS {attribute.type}) in the queries"
            raise SourceError(
                f"{file}: column {column!r} is {columns[column]}, but the stream's schema declares {attribute.type}: convert "
                + (f"it, or declare it VARCHAR and write {way_out}" if is_text(columns[column]) else "it before")
            )
    return Layout(file, time, attributes, unit or TimeUnit(), inferred=schema is None)


def infer_schema(file: str, columns: Mapping[str, pa.DataType], timestamp: str | None, typed: bool = True) -> Schema:
    """The schema of a file's columns without the timestamp. A column that cannot be an attribute is left out, with a warning.

    `typed`: the columns have types of their own.
    """
    attributes, left_out = [], []
    for name, kind in columns.items():
        if name == timestamp:
            continue
        reason = _unusable(name, kind, typed)
        if reason:
            left_out.append(f"column {name!r} is left out: {reason}")
        else:
            attributes.append(Attribute(name, attribute_type(kind)))
    if not attributes:
        but = f" but the timestamps {timestamp!r}: an event" if timestamp else ": it"
        usable, why = ("usable ", f" ({'; '.join(left_out)})") if left_out else ("", "")
        raise SourceError(f"{file} has no {usable}column{but} needs at least one attribute{why}")
    for each in left_out:
        warnings.warn(f"{file}: {each}", stacklevel=2)
    try:
        return Schema(tuple(attributes))
    except TypeMismatch as error:
        raise SourceError(f"{file}: {error}") from None


def attribute_type(kind: pa.DataType) -> str:
    """The attribute type for an Arrow type. Raises TypeMismatch if there is none."""
    if pa.types.is_time(kind) or is_bytes(kind):
        return "VARCHAR"
    if pa.types.is_uint64(kind):
        return "DECIMAL(20, 0)"
    return Schema.of(pa.schema([("a", kind)])).attributes[0].type


def _unusable(name: str, kind: pa.DataType, typed: bool) -> str | None:
    if not name or is_reserved(name):
        return "it has no name" if not name else "the bridge has a column of this name itself; rename it"
    if typed and is_bytes(kind):
        return "it is binary; if it is UTF-8, declare it as VARCHAR: CREATE STREAM (schemas= in Python)"
    try:
        canonical_type(attribute_type(kind))
    except TypeMismatch as error:
        return str(error)
    return None


def _timestamp_by_name(file: str, columns: Mapping[str, pa.DataType], timestamp: str) -> str:
    found = _find(timestamp, columns)
    if found is None:
        raise SourceError(f"{file} has no column {timestamp!r} with the timestamps{_hint(timestamp, columns)}")
    return found


def _guess_timestamp(file: str, columns: Mapping[str, pa.DataType], schema: Schema | None, note: Note) -> str:
    for name in NAMES:
        if found := next((column for column in columns if column.lower() == name), None):
            if found != "ts":
                note(f"{file}: the timestamps are column {found!r} (a guess by its name)")
            return found
    typed = [name for name, kind in columns.items() if _is_time(name, kind, schema)]
    if len(typed) == 1:
        note(f"{file}: the timestamps are column {typed[0]!r} (a guess: the only one of a timestamp type)")
        return typed[0]
    why = f"{' and '.join(map(repr, typed))} are of a timestamp type" if typed else "none is of a timestamp type"
    raise SourceError(
        f"{file}: which column has the timestamps? None is called {', '.join(NAMES)}, and {why}; "
        f"there are {_names(columns)}. Name it: --timestamp COLUMN (timestamp= in Python)"
    )


def _is_time(name: str, kind: pa.DataType, schema: Schema | None) -> bool:
    declared = schema.find(name) if schema else None
    return bool(pa.types.is_timestamp(kind)) or (declared is not None and declared.type == "TIMESTAMP")


def _column_of(file: str, attribute: Attribute, columns: Mapping[str, pa.DataType]) -> str:
    found = _find(attribute.name, columns)
    if found is None:
        raise SourceError(f"{file} has no column {attribute.name!r}{_hint(attribute.name, columns)}")
    return found


def _find(name: str, columns: Iterable[str]) -> str | None:
    """The column with this name, or else the first column with this name in another case."""
    names = list(columns)
    return name if name in names else next((column for column in names if column.lower() == name.lower()), None)


def _hint(name: str, columns: Iterable[str]) -> str:
    names = list(columns)
    similar = nearest(name, names)
    return f"{similar} There are {_names(names)}" if "did you mean" in similar else f"; there are {_names(names)}"


def _names(columns: Iterable[str]) -> str:
    names = [repr(column if len(column) <= 40 else column[:37] + "…") for column in columns]
    return ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "")
