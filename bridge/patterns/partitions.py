"""Partitions the rows of a table that is stored in the order of time, without sorting.

Events are usually inserted in order of time. Then a stable distribution of the rows over their partitions takes half
the time of a sort by partition and time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from bridge.patterns.arrays import Array, Ints
from bridge.query.row_pattern import RowPattern
from windows.databases import Database

MEMORY_LIMIT = 1 << 30
"""The greatest number of bytes that are copied into memory; the database sorts larger tables, on disk if necessary."""

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")

PLAIN = frozenset((*INTEGERS, "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"))
"""Types of fixed width whose values are the same in the database and in Arrow."""

KEYS = frozenset((*INTEGERS, "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"))
"""Types whose values are equal as keys in the database and in Arrow. Doubles are not, as -0.0 equals 0.0."""

SAMPLE_ROWS = 100_000
"""The number of rows read first; they usually show whether a table is in the order of time."""


@dataclasses.dataclass(frozen=True)
class PartitionedRows:
    """The columns, partition by partition; each row's partition number, from 1; the key and end of each partition.

    Partitions are in the database's order of their keys.
    """

    columns: Mapping[str, Array]
    partitions: Array
    keys: Array
    ends: Ints


def columns_to_read(clause: RowPattern, needed: Sequence[str]) -> list[str] | None:
    """The partition column, the order column and the further columns to read.

    None unless there is exactly one of the first two.
    """
    keys = [key.name for key in clause.partition_by if isinstance(key, exp.Column)]
    times = [
        item.this.name for item in clause.order_by if isinstance(item.this, exp.Column) and not item.args.get("desc")
    ]
    if len(clause.partition_by) != 1 or len(clause.order_by) != 1 or len(keys) != 1 or len(times) != 1:
        return None
    return list(dict.fromkeys([*keys, *times, *needed]))


def is_collated(key: exp.Column) -> exp.Expr:
    """Whether the texts of a column are compared other than by code points: by case, accent, composition or language.

    >>> from windows.databases import open_database
    >>> database = open_database("duckdb://")
    >>> database.execute("CREATE TABLE t (k VARCHAR COLLATE nocase, l VARCHAR)")
    >>> database.execute("INSERT INTO t VALUES ('x', 'x')")
    >>> asked = exp.select(is_collated(exp.column("k")), is_collated(exp.column("l"))).from_("t")
    >>> database.fetch(database.render(asked))
    [(True, False)]
    """

    def like_key(text: str) -> exp.Expr:
        return exp.Case().when(exp.false(), key.copy()).else_(exp.Literal.string(text))

    by_case = exp.LT(this=like_key("a"), expression=exp.Literal.string("B"))
    by_accent = exp.LT(this=like_key("\u00e9"), expression=exp.Literal.string("f"))
    by_composition = exp.EQ(this=like_key("e\u0301"), expression=exp.Literal.string("\u00e9"))
    return exp.or_(by_case, by_accent, by_composition)


def in_order(values: Array) -> bool:
    """Whether values never decrease; false if one is NULL.

    >>> in_order(pa.chunked_array([[1, 3], [3]])), in_order(pa.chunked_array([[3, 1]]))
    (True, False)
    """
    numbers = values.to_numpy()
    return not values.null_count and bool((numbers[1:] >= numbers[:-1]).all())


def partition_rows(
    rows: pa.Table, key: str, time: str, needed: Sequence[str], database: Database
) -> PartitionedRows | None:
    """The needed columns by partition, in stored order within each; None if the rows are not in order of time.

    >>> from windows.databases import open_database
    >>> rows = pa.table({"k": ["b", "a", "b"], "ts": [1, 2, 3]})
    >>> found = partition_rows(rows, "k", "ts", ["ts"], open_database("duckdb://"))
    >>> found.columns["ts"].to_pylist(), found.keys.to_pylist(), found.ends.tolist()
    ([2, 1, 3], ['a', 'b'], [1, 3])
    """
    if not in_order(rows[time]):
        return None
    with ThreadPoolExecutor() as pool:
        coded = pool.map(lambda chunk: chunk.dictionary_encode(), rows[key].chunks)
        chunks: list[Any] = pa.chunked_array([*coded]).unify_dictionaries().chunks
        keys, rank = _ranked(chunks[0].dictionary, rows[key].null_count > 0, database)
        null = len(rank) - 1
        places = pool.map(lambda chunk: rank.take(chunk.indices.fill_null(null).to_numpy()), chunks)
        partition: NDArray[Any] = np.concatenate([*places])
    counts = np.bincount(partition, minlength=len(keys))
    order = _by(partition)
    numbers = np.repeat(np.arange(1, len(counts) + 1, dtype=np.int32), counts)

    def by_partition(name: str) -> Array:
        return keys.take(pa.array(numbers - 1)) if name == key else _in_order(rows[name], order)

    with ThreadPoolExecutor() as pool:
        columns = dict(zip(needed, pool.map(by_partition, needed), strict=True))
    return PartitionedRows(columns, pa.array(numbers), keys, np.cumsum(counts))


def _ranked(values: Array, with_null: bool, database: Database) -> tuple[Array, NDArray[Any]]:
    """The keys in the database's order, NULL first, and the rank of each value and of NULL."""
    with database.registered(pa.table({"k": values, "n": pa.array(np.arange(len(values)))})) as name:
        found = database.fetch_arrow(database.render(exp.select("n").from_(name).order_by("k")))
    assert found is not None
    places = found.column(0).combine_chunks()
    keys = pa.concat_arrays([pa.nulls(int(with_null), values.type), values.take(places)])
    rank = np.zeros(len(values) + 1, np.uint16 if len(keys) <= 1 << 16 else np.uint32)
    rank[places.to_numpy()] = np.arange(int(with_null), len(keys))
    return keys, rank


def _by(partition: NDArray[Any]) -> Ints:
    """The numbers of the rows by partition. numpy radix-sorts 16-bit numbers, so wider ones are sorted in two passes."""
    order: Ints = np.argsort(partition.astype(np.uint16, copy=False), kind="stable")
    if partition.dtype == np.uint16:
        return order
    return order[np.argsort((partition[order] >> 16).astype(np.uint16), kind="stable")]


def _in_order(values: Array, order: Ints) -> Array:
    if not values.null_count and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return pa.array(values.to_numpy().take(order))
    return values.combine_chunks().take(pa.array(order))
