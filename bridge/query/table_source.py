"""The source of a stream whose events are rows or changes of a table, as given by CREATE STREAM … FROM."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from bridge.errors import SchemaError
from bridge.query.expression_text import name_text

NOW, BEGINNING = "now", "beginning"
"""The values of `since` other than a position: rows that are committed from now on, or all rows."""

UNITS = ("s", "ms", "us", "ns")


@dataclasses.dataclass(frozen=True)
class TableSource:
    """A table that other programs write, whose rows are the events of a stream.

    table: Its name, optionally with a schema. position: The column of whole numbers that identify the rows and usually
    grow; None if `changes` are read. timestamp: The column with the time of an event; None: the time at which the row
    is read. unit: The unit of that column if it has numbers, by default milliseconds. since: "now", "beginning", or the
    position after which rows are events. changes: Whether the events are the inserts, updates and deletes of rows.

    >>> print(TableSource("shop.orders", "id", "created_at", since="beginning"))
    TABLE shop.orders (POSITION id, TIMESTAMP created_at, SINCE BEGINNING)
    >>> print(TableSource("my orders", None, changes=True))
    CHANGES OF "my orders"
    """

    table: str
    position: str | None
    timestamp: str | None = None
    unit: str | None = None
    since: int | str = NOW
    changes: bool = False

    def __str__(self) -> str:
        parts = [] if self.position is None else [f"POSITION {name_text(self.position)}"]
        if self.timestamp is not None:
            parts.append(f"TIMESTAMP {name_text(self.timestamp)}" + (f" UNIT {self.unit.upper()}" if self.unit else ""))
        if not self.changes:
            parts.append(f"SINCE {str(self.since).upper()}")
        options = f" ({', '.join(parts)})" if parts else ""
        table = ".".join(map(name_text, self.table.split(".")))
        return f"{'CHANGES OF' if self.changes else 'TABLE'} {table}{options}"

    def means(self, other: TableSource | None) -> bool:
        """Whether both read the same rows from now on; `since` only matters at the beginning."""
        return other is not None and dataclasses.replace(self, since=NOW) == dataclasses.replace(other, since=NOW)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `Bridge.register_stream` for this source, as `source_of` takes them."""
        named = {"timestamp": self.timestamp, "timestamp_unit": self.unit}
        if self.changes:
            return {"changes_of": self.table, **named}
        return {"table": self.table, "position": self.position, "since": self.since, **named}

    @property
    def as_json(self) -> dict[str, Any]:
        """The fields that differ from their defaults, for `of_json`."""
        return {
            field.name: value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        }

    @classmethod
    def of_json(cls, fields: dict[str, Any] | None) -> Self | None:
        """The source with these fields; None for None."""
        return None if fields is None else cls(**{"position": None, **fields})


def source_of(
    table: str | None,
    changes_of: str | None,
    position: str | None,
    timestamp: str | None,
    unit: str | None,
    since: int | str | None,
) -> TableSource | None:
    """The source given by the arguments of `Bridge.register_stream`; None for a stream that is pushed.

    Raises `SchemaError` for arguments that cannot be combined.

    >>> print(source_of("orders", None, "id", None, None, None))
    TABLE orders (POSITION id, SINCE NOW)
    """
    given = {
        "table": table, "changes_of": changes_of, "position": position, "timestamp": timestamp, "timestamp_unit": unit,
    }  # fmt: skip
    for name, text in given.items():
        if text is not None and (not isinstance(text, str) or not text):
            raise SchemaError(f"{name} is a name, not {text!r}")
    if table is None and changes_of is None:
        others = [name for name, value in {**given, "since": since}.items() if value is not None]
        if others:
            raise SchemaError(f"{others[0]}= belongs to a stream of a table: name it with table= or changes_of=")
        return None
    if table is not None and changes_of is not None:
        raise SchemaError("table= and changes_of= exclude each other: register a stream for each")
    if unit is not None and unit not in UNITS:
        raise SchemaError(f"timestamp_unit is one of {', '.join(UNITS)}, not {unit!r}")
    if unit is not None and timestamp is None:
        raise SchemaError("timestamp_unit= is the unit of the column that timestamp= names")
    if changes_of is not None:
        if position is not None or since is not None:
            raise SchemaError("the changes of a table have no position= and no since=: they are recorded from now on")
        return TableSource(changes_of, None, timestamp, unit, changes=True)
    assert table is not None
    if position is None:
        raise SchemaError(
            "a stream of a table needs position=, the column of unique whole numbers, such as its primary key"
        )
    since = NOW if since is None else since
    if since not in (NOW, BEGINNING) and (not isinstance(since, int) or isinstance(since, bool)):
        raise SchemaError(f'since is "now", "beginning" or a position, not {since!r}')
    return TableSource(table, position, timestamp, unit, since)
