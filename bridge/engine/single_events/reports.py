"""Reports of a live machine, read in this process by a SELECT that only chooses and orders columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from windows.types import PYTHON_TYPES

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = {"ts", "seq", "_place"}
"""The columns of each result table that are whole numbers, never NULL."""


class ReportReader(NamedTuple):
    """The columns of a result table that a SELECT gives, their Python types, and the columns that it orders by."""

    table: str
    columns: Sequence[str]
    kinds: Sequence[type]
    order: Sequence[str]

    def read(self, report: pa.Table) -> list[tuple[Any, ...]] | None:
        """The rows of the SELECT over a report; None where the database might return a value differently."""
        if not {*self.columns, *self.order} <= set(report.column_names):
            return None
        values = [report.column(name).to_pylist() for name in self.columns]
        if not all(_is_same(value, kind) for some, kind in zip(values, self.kinds, strict=True) for value in some):
            return None
        rows = list(zip(*values, strict=True))
        if len(rows) > 1 and self.order:
            keys = list(zip(*(report.column(name).to_pylist() for name in self.order), strict=True))
            rows = [rows[place] for place in sorted(range(len(rows)), key=keys.__getitem__)]
        return rows


def _is_same(value: Any, kind: type) -> bool:
    """Whether a value is NULL, or is of this type and returned unchanged by every database: not NaN, not -0.0."""
    if value is None:
        return True
    is_number = kind is not float or value != 0 or math.copysign(1.0, value) > 0
    return type(value) is kind and is_number and bool(value == value)


def report_reader(select: exp.Expr, types: Sequence[str], proven: Collection[str]) -> ReportReader | None:
    """A reader of the rows of a SELECT from a report; None where the SELECT does more than choose and order columns.

    Args:
        select: The SELECT, over one table.
        types: The types of its last columns; those before are system columns.
        proven: The types whose values the database returns as Python has them.

    >>> from sqlglot import parse_one
    >>> text = "SELECT ts, x FROM (SELECT ts, seq, a AS x FROM matches) AS r ORDER BY ts, seq"
    >>> report_reader(parse_one(text), ["DOUBLE"], {"DOUBLE"})
    ReportReader(table='matches', columns=['ts', 'a'], kinds=[<class 'int'>, <class 'float'>], order=['ts', 'seq'])
    >>> report_reader(parse_one("SELECT ts FROM matches WHERE a > 5"), [], {"BIGINT"}) is None
    True
    """
    if not isinstance(select, exp.Select) or not set(types) <= PYTHON_TYPES.keys() & set(proven):
        return None
    terms: Sequence[exp.Expr] = select.args["order"].expressions if select.args.get("order") else []
    origin = _origin(select, {"expressions", "from_", "order"})
    if origin is None or any(term.args.get("desc") for term in terms):
        return None
    columns = [_column(item.unalias(), origin[1]) for item in select.expressions]
    order = [_column(term.this, origin[1]) for term in terms]
    system = columns[: len(columns) - len(types)]
    if None in columns or not _NUMBERS.issuperset([*system, *order]):
        return None
    kinds = [int] * len(system) + [PYTHON_TYPES[kind] for kind in types]
    return ReportReader(origin[0], [*filter(None, columns)], kinds, [*filter(None, order)])


def _origin(select: exp.Select, clauses: Collection[str]) -> tuple[str, Callable[[str], str | None]] | None:
    """The table that a SELECT with only these `clauses` reads, and a function from names in FROM to its columns."""
    if any(value and part not in clauses for part, value in select.args.items()):
        return None
    source = select.args["from_"].this if select.args.get("from_") else None
    if isinstance(source, exp.Table):
        return source.name, lambda name: name
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Select):
        return None
    below = _origin(source.this, {"expressions", "from_"})
    if below is None:
        return None
    columns = {item.alias_or_name: _column(item.unalias(), below[1]) for item in source.this.expressions}
    return below[0], columns.get


def _column(node: exp.Expr, origin: Callable[[str], str | None]) -> str | None:
    """The table's column that an expression names; None where it is computed."""
    return origin(node.name) if isinstance(node, exp.Column) else None
