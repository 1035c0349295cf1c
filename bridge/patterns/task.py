"""The task of a strategy: the sorted rows, the graded conditions, and values computed from them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.errors import QueryError
from bridge.patterns.arrays import Array, Ints
from bridge.patterns.conditions import Condition
from bridge.patterns.rows import SortedRows
from bridge.query.row_pattern import RowPattern, Skip
from nfa import skip as modes
from nfa.arrays.deadlines import deadlines
from nfa.arrays.matches import SymbolSets
from nfa.program import MatchSymbol, Program
from windows.databases import Database
from windows.sql import column, number

_NARROW = {"uint8": exp.DataType.Type.SMALLINT, "uint16": exp.DataType.Type.INT}

MOST_SYMBOLS = 62
"""The greatest number of symbols in a pattern: each is a bit of a symbol set."""


@dataclasses.dataclass
class Task:
    """The input of a strategy; values are computed when they are first read."""

    rows: SortedRows
    clause: RowPattern
    conditions: tuple[Condition, ...]
    program: Program

    @property
    def ends(self) -> Ints:
        return self.rows.ends

    @functools.cached_property
    def skip(self) -> modes.Skip:
        """AFTER MATCH SKIP as a function of `nfa.skip`."""
        return skip_of(self.clause, self.clause.skip)

    @functools.cached_property
    def symbol_sets(self) -> SymbolSets:
        """For each row, the symbols that it can match by its own values: bit s for symbol s."""
        kind = np.min_scalar_type((1 << len(self.conditions)) - 1)
        return np.asarray(self.rows.columns([self.symbol_set])[0]).astype(kind, copy=False)

    @property
    def symbol_set(self) -> exp.Expr:
        """The expression of `symbol_sets`, in the narrowest type that suffices."""
        kind = np.min_scalar_type((1 << len(self.conditions)) - 1)
        return exp.cast(symbol_set(self.conditions), _NARROW.get(kind.name, exp.DataType.Type.BIGINT))

    @functools.cached_property
    def numbers(self) -> dict[tuple[str, bool], int]:
        """An instruction for each symbol, inside or outside `{- -}`, in place of all instructions of that symbol."""
        lines = enumerate(self.program.instructions)
        return {(line.name, line.excluded): place for place, line in lines if isinstance(line, MatchSymbol)}

    @functools.cached_property
    def times(self) -> Ints:
        """For each row its time, in the unit of `within`."""
        return self._timed[0]

    @property
    def within(self) -> int | None:
        """WITHIN in the unit of `times`."""
        return None if self.clause.within is None else self.clause.within * self._timed[1]

    @functools.cached_property
    def limits(self) -> Ints | None:
        """For each row, the row before which a match from it must end; None without WITHIN."""
        return None if self.within is None else deadlines(self.times, self.ends, self.within)

    @property
    def database(self) -> Database:
        return self.rows.database

    @functools.cached_property
    def symbol_set_of(self) -> list[int]:
        """The symbol sets as Python integers, for strategies that go row by row."""
        symbol_sets: list[int] = self.symbol_sets.tolist()
        return symbol_sets

    @functools.cached_property
    def time_of(self) -> list[int]:
        """The times as Python integers."""
        times: list[int] = self.times.tolist()
        return times

    def values_of(self, expression: exp.Expr) -> list[Any]:
        """The values of a row expression as Python objects."""
        array = self.rows.columns([expression])[0]
        try:
            values: list[Any] = array.to_pylist()
        except (OverflowError, ValueError):  # dates outside Python's range, which only the database compares
            values = [_python(scalar) for scalar in array]
        return values

    def type_of(self, expression: exp.Expr) -> pa.DataType | None:
        """The type of a row expression's values in Arrow."""
        kind: pa.DataType = self.rows.columns([expression])[0].type
        return kind

    def arrays_of(self, names: Sequence[str]) -> list[Array]:
        """Columns of the input."""
        return self.rows.columns([column(name) for name in names])

    @functools.cached_property
    def _timed(self) -> tuple[Ints, int]:
        if not self.clause.order_by:
            raise QueryError("WITHIN needs ORDER BY a time: a number of milliseconds, or a timestamp")
        first = self.clause.order_by[0]
        if first.args.get("desc"):
            raise QueryError("WITHIN needs an ascending time as the first column of ORDER BY")
        return _times(self.rows.columns([first.this])[0])


def _python(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar


def symbol_set(conditions: Sequence[Condition]) -> exp.Expr:
    """The expression of a row's symbol set."""
    if len(conditions) > MOST_SYMBOLS:
        raise QueryError(f"a pattern may have {MOST_SYMBOLS} symbols, not {len(conditions)}: join some with OR")
    always = sum(1 << place for place, condition in enumerate(conditions) if condition.row is None)
    total: exp.Expr = number(always)
    for place, condition in enumerate(conditions):
        if condition.row is not None:
            bit = exp.Case().when(condition.row.copy(), number(1 << place)).else_(number(0))
            total = exp.Add(this=total, expression=bit)
    return total


def skip_of(clause: RowPattern, skip: Skip) -> modes.Skip:
    if skip.to == "PAST LAST ROW":
        return modes.past_last_row
    if skip.to == "TO NEXT ROW":
        return modes.to_next_row
    symbols = clause.symbols_of(skip.variable or "")
    return modes.to_first(*symbols) if skip.to == "TO FIRST" else modes.to_last(*symbols)


_CAST = "CAST it to BIGINT, in milliseconds, in a sub-query before the clause"


def _times(array: Array) -> tuple[Ints, int]:
    """Times as whole numbers, and the number of their units in a millisecond."""
    types = pa.types
    if not len(array):
        return np.zeros(0, np.int64), 1
    if array.null_count:
        raise QueryError("WITHIN needs a time in every row: the first column of ORDER BY has NULLs")
    if types.is_integer(array.type):
        return _whole_times(array), 1
    if types.is_floating(array.type):
        return np.round(np.asarray(array) * 1000).astype(np.int64), 1000
    if types.is_timestamp(array.type):
        return np.asarray(array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())), 1000
    if types.is_date(array.type):
        return np.asarray(array.cast(pa.timestamp("us")).cast(pa.int64())), 1000
    raise QueryError(
        f"WITHIN needs a time as the first column of ORDER BY, a number of milliseconds or a timestamp, not {array.type}: "
        f"{_CAST}"
    )


def _whole_times(array: Array) -> Ints:
    """Integers, unchanged; an UBIGINT beyond 63 bits is counted from the least value."""
    try:
        return np.asarray(array.cast(pa.int64()))
    except pa.ArrowInvalid:
        unsigned = np.asarray(array)
        if unsigned.max() - unsigned.min() >= 1 << 62:
            raise QueryError(f"WITHIN needs times that are less than 2^62 milliseconds apart: {_CAST}") from None
        shifted: Ints = (unsigned - unsigned.min()).astype(np.int64)
        return shifted
