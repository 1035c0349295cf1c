"""Results as lines of NDJSON.

`ts` is in milliseconds, dates and timestamps are ISO 8601 texts, decimals are texts with all digits. NaN and the
infinities, which JSON does not have, are null.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bridge.errors import BridgeError
from windows.arrow import values_of


def refuse_keys(query: str, columns: Iterable[str], keys: Sequence[str]) -> None:
    """Raises BridgeError for a column of a query that has the name of another key in its lines.

    >>> refuse_keys("q", ["query", "a"], ("query", "result_id"))
    Traceback (most recent call last):
    bridge.errors.BridgeError: 'q' has a column 'query', which is a key of each line already: give it another name with AS
    """
    for name in columns:
        if name in keys:
            raise BridgeError(
                f"{query!r} has a column {name!r}, which is a key of each line already: give it another name with AS"
            )


def ndjson(table: pa.Table, first: dict[str, str]) -> str:
    """The rows of a table as lines of NDJSON, each beginning with the keys and values of `first`.

    >>> print(ndjson(pa.table({"ts": [1], "a": [float("nan")]}), {"query": "q"}), end="")
    {"query": "q", "ts": 1, "a": null}
    """
    keys = [json.dumps(name, ensure_ascii=False).replace("%", "%%") + ": %s" for name in table.column_names]
    fixed = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}".replace("%", "%%") for k, v in first.items()]
    template = "{" + ", ".join([*fixed, *keys]) + "}\n"
    return "".join([template % row for row in zip(*map(json_values, table.columns), strict=True)])


def json_values(column: Any) -> list[str]:
    """The values of a column as JSON texts."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_finite(column), column, None)
    write: Callable[[Any], str] = json.dumps
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        write = repr
    elif pa.types.is_string(kind):
        write = functools.partial(json.dumps, ensure_ascii=False)
    elif not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        write = _json_text
    return ["null" if value is None else write(value) for value in values_of(column)]


def _json_text(value: Any) -> str:
    text = value.isoformat() if hasattr(value, "isoformat") else value
    return json.dumps(text, ensure_ascii=False, default=str)
