"""The rows of a table that lies in the order wanted, brought together by partition: no need to sort them all.

Events are written as they come, so most tables lie in order of time. Then it is enough to count each row to its
partition, in half the time of a sort by partition and time.
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
"""So many bytes of rows are held beside the database at most; it sorts more by itself, on disk if need be."""

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")

PLAIN = frozenset((*INTEGERS, "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"))
"""Types whose values are of one width, and the same in the database and in Arrow."""

KEYS = frozenset((*INTEGERS, "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"))
"""Types whose values are the same key in the database and in Arrow: no doubles, as -0.0 is 0.0."""

SAMPLE_ROWS = 100_000
"""So many rows tell soon that a table lies in no order."""


@dataclasses.dataclass(frozen=True)
class PartitionedRows:
    """The columns, partition by partition; each row's number of its partition, from 1 on; of each partition its key, in
    the database's order, and its end."""

    columns: Mapping[str, Array]
    partitions: Array
    keys: Array
    ends: Ints


def columns_to_read(clause: RowPattern, needed: Sequence[str]) -> list[str] | None:
    """The column to partition by, the one to order by, and what else is needed; None where these are not one each."""
    keys = [key.name for key in clause.partition_by if isinstance(key, exp.Column)]
    times = [
        item.this.name for item in clause.order_by if isinstance(item.this, exp.Column) and not item.args.get("desc")
    ]
    if len(clause.partition_by) != 1 or len(clause.order_by) != 1 or len(keys) != 1 or len(times) != 1:
        return None
    return list(dict.fromkeys([*keys, *times, *needed]))


def is_collated(key: exp.Column) -> exp.Expr:
    """Whether texts in a column compare otherwise than by their characters: by case, accent, composition or language.

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
    """Whether values never go down; not where one is NULL.

    >>> in_order(pa.chunked_array([[1, 3], [3]])), in_order(pa.chunked_array([[3, 1]]))
    (True, False)
    """
    numbers = values.to_numpy()
    return not values.null_count and bool((numbers[1:] >= numbers[:-1]).all())


def partition_rows(
    rows: pa.Table, key: str, time: str, needed: Sequence[str], database: Database
) -> PartitionedRows | None:
    """The columns needed by partition, in each of them as they came; None if the rows are not in order of time.

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
        return keys.take(pa.array(numbers - 1)) if name == key else _taken(rows[name], order)

    with ThreadPoolExecutor() as pool:
        columns = dict(zip(needed, pool.map(by_partition, needed), strict=True))
    return PartitionedRows(columns, pa.array(numbers), keys, np.cumsum(counts))


def _ranked(values: Array, with_null: bool, database: Database) -> tuple[Array, NDArray[Any]]:
    """The keys in the database's order, NULL first, and the number in it of each of the values, and of NULL."""
    with database.registered(pa.table({"k": values, "n": pa.array(np.arange(len(values)))})) as name:
        found = database.fetch_arrow(database.render(exp.select("n").from_(name).order_by("k")))
    assert found is not None
    places = found.column(0).combine_chunks()
    keys = pa.concat_arrays([pa.nulls(int(with_null), values.type), values.take(places)])
    rank = np.zeros(len(values) + 1, np.uint16 if len(keys) <= 1 << 16 else np.uint32)
    rank[places.to_numpy()] = np.arange(int(with_null), len(keys))
    return keys, rank


def _by(partition: NDArray[Any]) -> Ints:
    """The rows' numbers by partition. numpy sorts small numbers in one go, so by each half of a large one in turn."""
    order: Ints = np.argsort(partition.astype(np.uint16, copy=False), kind="stable")
    if partition.dtype == np.uint16:
        return order
    return order[np.argsort((partition[order] >> 16).astype(np.uint16), kind="stable")]


def _taken(values: Array, order: Ints) -> Array:
    if not values.null_count and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return pa.array(values.to_numpy().take(order))
    return values.combine_chunks().take(pa.array(order))
