"""Values between one database and another, and as JSON in between."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Sequence
from typing import Any

Convert = Callable[[Any], Any]

_KINDS: dict[str, tuple[type, Convert, Convert]] = {
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "timestamp": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "float": (float, repr, float),
}


def converted(values: Sequence[Any], convert: Sequence[Convert | None]) -> list[Any]:
    """Each value by its conversion; NULL stays NULL."""
    return [
        change(value) if change is not None and value is not None else value
        for value, change in zip(values, convert, strict=True)
    ]


def dumped(values: Sequence[Any]) -> str:
    """Values as JSON from which `loaded` gives the same ones.

    >>> loaded(dumped([1, None, "x", 0.1, decimal.Decimal("1.20")]))
    [1, None, 'x', 0.1, Decimal('1.20')]
    """
    return json.dumps([_told(value) for value in values], ensure_ascii=False)


def loaded(text: str) -> list[Any]:
    """The values of a JSON text that `dumped` gave."""
    return [_value(told) for told in json.loads(text)]


def _told(value: Any) -> Any:
    for kind, (known, write, _) in _KINDS.items():
        if isinstance(value, known):
            return {kind: write(value)}
    return value


def _value(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    ((kind, text),) = told.items()
    return _KINDS[kind][2](text)
