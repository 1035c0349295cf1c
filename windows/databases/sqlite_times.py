"""Times on SQLite, which stores them as texts. Casts return texts of the same form, so that all times compare."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from sqlglot import exp

from windows.databases.base import Database
from windows.nested import call
from windows.values import timestamp_text

_TIMESTAMPS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME)
_MICROSECONDS = exp.Literal.string("." + 6 * "[0-9]")


class SQLiteTimes(Database):
    """Times as texts of one form."""

    def adapt(self, node: exp.Expr) -> exp.Expr:
        found = adapted_cast(node) if isinstance(node, exp.Cast) else None
        return super().adapt(node) if found is None else found

    def relation_columns(self, name: str, columns: Sequence[str]) -> dict[str, exp.Expr]:
        """Makes times of every table compare like those of the bridge's tables; a value that is not a time is NULL."""
        kinds = {column.name: column.type for column in self.relation(name) or ()}
        plain = super().relation_columns(name, columns)
        times = {each for each in columns if kinds.get(each) in ("DATE", "TIMESTAMP")}
        return {each: exp.cast(column, kinds[each]) if each in times else column for each, column in plain.items()}


def adapted_cast(node: exp.Cast) -> exp.Expr | None:
    """The replacement of a cast to DATE or TIMESTAMP; None for other casts, and those that SQLite's own functions do.

    >>> adapted_cast(exp.cast(exp.Literal.string("2024-02-29"), "TIMESTAMP")).sql()
    "'2024-02-29 00:00:00.000000'"
    """
    kind, is_text = node.to.this, isinstance(node.this, exp.Literal) and node.this.is_string
    if kind == exp.DataType.Type.DATE and is_text:
        return exp.Literal.string(datetime.date.fromisoformat(node.this.name).isoformat())
    if kind in _TIMESTAMPS:
        if is_text:
            return exp.Literal.string(timestamp_text(datetime.datetime.fromisoformat(node.this.name)))
        return _with_microseconds(node.this)
    return None


def _with_microseconds(text: exp.Expr) -> exp.Expr:
    """A text of a time as SQLite stores it. Its own functions have no microseconds, which a stored time keeps."""
    end = call("SUBSTR", text.copy(), exp.Literal.number(20))
    seconds = call("DATETIME", call("SUBSTR", text.copy(), exp.Literal.number(1), exp.Literal.number(19)))
    in_milliseconds = call("STRFTIME", exp.Literal.string("%Y-%m-%d %H:%M:%f"), text.copy())
    found = exp.Case().when(
        exp.Glob(this=end, expression=_MICROSECONDS.copy()), exp.DPipe(this=seconds, expression=end.copy())
    )
    return found.else_(exp.DPipe(this=in_milliseconds, expression=exp.Literal.string("000")))
