"""The result of an on-demand query: rows like SQLAlchemy's, and their Arrow, pandas and polars forms."""

from __future__ import annotations

import contextlib
import decimal
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bridge.check.scope import Field
from bridge.errors import SchemaError
from windows.arrow import arrow_type, columns_of_rows, is_nested, nested_array, values_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa


class Row(tuple[Any, ...]):
    """One row: a tuple whose values are also attributes, and a mapping as `row._mapping`.

    >>> row = Row.of(["a", "b"], (1, 2))
    >>> row.a, row[1], row._mapping["b"]
    (1, 2, 2)
    """

    _names: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Any]) -> Row:
        row = cls(values)
        row._names = tuple(names)
        return row

    def __getattr__(self, name: str) -> Any:
        names = vars(self).get("_names", ())  # there are none while a row is being unpickled
        if name in names:
            return self[names.index(name)]
        raise AttributeError(f"no column {name!r}; there are {list(names)}")

    @property
    def _mapping(self) -> Mapping[str, Any]:
        return dict(zip(self._names, self, strict=True))


class ResultSet(Sequence[Row]):
    """The result of an on-demand query: a sequence of rows, in order.

    columns: The names of its columns. Each row is a tuple whose values are also attributes.

    >>> import bridge
    >>> with bridge.connect() as cep:
    ...     rows = cep.query("SELECT 1 AS a, 'x' AS b")
    >>> rows.columns, rows[0].b, len(rows), [a for a, _ in rows]
    (('a', 'b'), 'x', 1, [1])
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[tuple[Any, ...]] | None,
        arrow: pa.Table | None = None,
        nested: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.columns = tuple(columns)
        self._nested = nested
        self._tuples = rows
        self._arrow = arrow

    @functools.cached_property
    def _rows(self) -> list[Row]:
        """The rows. They are made on first use, as only the Arrow form may be needed."""
        tuples = self._tuples
        if tuples is None:
            assert self._arrow is not None
            try:
                tuples = list(zip(*map(values_of, self._arrow.columns), strict=True))
            except (OverflowError, ValueError) as error:
                raise SchemaError(
                    f"a value is out of range in Python: {error}: CAST it to text, or take to_arrow()"
                ) from None
        return [Row.of(self.columns, row) for row in tuples]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __repr__(self) -> str:
        return f"ResultSet({list(self.columns)}, {self._rows!r})"

    def __eq__(self, other: object) -> bool:
        return list(self) == (list(other) if isinstance(other, Sequence) else other)

    __hash__ = None  # type: ignore[assignment]

    def to_arrow(self) -> pa.Table:
        """The result as an Arrow table.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.query("SELECT 1 AS a, 'x' AS b").to_arrow().to_pylist()
        [{'a': 1, 'b': 'x'}]
        """
        if self._arrow is not None:
            return self._arrow
        import pyarrow as pa

        columns = [(name, [row[place] for row in self._rows]) for place, name in enumerate(self.columns)]
        nested = self._nested
        arrays = [nested_array(found, nested[name]) if name in nested else pa.array(found) for name, found in columns]
        return pa.Table.from_arrays(arrays, names=list(self.columns))

    def to_pandas(self) -> pandas.DataFrame:
        """The result as a pandas frame; raises ImportError without pandas.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.query("SELECT 1 AS a, 'x' AS b").to_pandas().shape
        (1, 2)
        """
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The result as a polars frame; raises ImportError without polars.

        >>> import bridge
        >>> with bridge.connect() as cep:
        ...     cep.query("SELECT 1 AS a, 'x' AS b").to_polars().shape
        (1, 2)
        """
        import polars

        return polars.from_arrow(self.to_arrow())  # type: ignore[return-value]


def arrow_table(fields: Sequence[Field], rows: Any) -> pa.Table:
    """Results (tuples or an Arrow table) as an Arrow table: `ts`, then the query's columns in the query's types."""
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        return arrow_cast(fields, [None] * len(fields), rows)
    columns = columns_of_rows(rows, len(fields) + 1)
    arrays = [pa.array(columns[0], pa.int64())]
    for field, values in zip(fields, columns[1:], strict=True):
        nested = is_nested(field.type)
        arrays.append(nested_array(values, field.type) if nested else _array(values, arrow_type(field.type)))
    return pa.Table.from_arrays(arrays, names=["ts", *(field.name for field in fields)])


def arrow_cast(fields: Sequence[Field], decoders: Sequence[Callable[[Any], Any] | None], rows: pa.Table) -> pa.Table:
    """The database's Arrow table with the columns in the query's types."""
    import pyarrow as pa

    kinds = [pa.int64(), *(arrow_type(field.type) for field in fields)]
    columns = [
        _cast(column, kind, decode) for column, kind, decode in zip(rows.columns, kinds, (None, *decoders), strict=True)
    ]
    return pa.Table.from_arrays(columns, names=["ts", *(field.name for field in fields)])


def _cast(column: Any, kind: Any, decode: Callable[[Any], Any] | None = None) -> Any:
    """A column cast to a type. Decimals, and values that Arrow cannot cast, are decoded one by one."""
    import pyarrow as pa

    if decode is None or not pa.types.is_decimal(column.type):
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return column.cast(kind)
    values = column.to_pylist()
    if decode is not None:
        values = [value if value is None else decode(value) for value in values]
    return _array(values, kind)


def _array(values: Sequence[Any], kind: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # the values may be wider than the inferred type (a sum over 64 bits)
        wide = any(isinstance(value, int) and abs(value) >= 2**63 for value in values)
        return pa.array([decimal.Decimal(value) if wide and value is not None else value for value in values])
