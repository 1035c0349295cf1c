"""The input of a clause in the order of its partitions, and row expressions as Arrow columns."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from sqlglot import exp

from bridge.patterns.arrays import Array, Ints, arrow_columns, take
from bridge.patterns.partitions import (
    KEYS,
    MEMORY_LIMIT,
    PLAIN,
    SAMPLE_ROWS,
    PartitionedRows,
    columns_to_read,
    in_order,
    is_collated,
    partition_rows,
)
from bridge.patterns.values import as_type, lag_or_lead, shift_of
from bridge.query.row_pattern import PatternTable, RowPattern
from windows.databases import Database
from windows.sql import aliased_table, column, column_of, identifier, lexicographically_before, over, table, unused

SOURCE, ROWS = "_cep_source", "r"
"""The placeholder of the input in a statement, and the alias of its rows."""

_fresh = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Source:
    """A SELECT in the database's SQL.

    `plain`: whether it reads all of one table, whose rows have an order of their own.
    """

    text: str
    plain: bool = False

    def rendered(self, database: Database, statement: exp.Expr) -> str:
        """A statement that reads the table SOURCE, with this SELECT in place of the table."""
        return database.render(statement).replace(database.quoted(SOURCE), f"({self.text})")


class SortedRows:
    """A temporary table of the input, sorted by partition and order; use it as a context.

    `ends`: for each partition the number of the row after its last; rows count from 0 over all partitions.
    """

    def __init__(
        self,
        database: Database,
        source: Source,
        clause: RowPattern,
        needed: Sequence[str],
        leave_as: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        self.leave_as = leave_as or {}
        self.database = database
        self.name = name or f"_cep_rows_{next(_fresh)}"
        self.partitioned = bool(clause.partition_by)
        self.source = source
        self._known: dict[exp.Expr, Array] = {}
        self.keys = f"{self.name}_keys" if clause.partition_by and database.insertion_ordered else None
        self.in_place = False
        self._partitioned: PartitionedRows | None = None
        self._clause, self._needed = clause, needed
        names = [*needed, *(key.name for key in clause.partition_by)]
        self._partition, self._order = unused("_p", names), unused("_n", names)
        """Columns of the sorted table: the number of the partition and (where tables have no order) of the row."""

    def _is_in_order(self, clause: RowPattern) -> bool:
        """Whether the table's rows are stored in the order of the clause; checking is far cheaper than sorting."""
        keys = [item.this for item in clause.order_by]
        if not keys:
            return True
        if any(item.args.get("desc") for item in clause.order_by):
            return False
        above = [exp.alias_(exp.Window(this=exp.Lag(this=key.copy())), f"_b{i}") for i, key in enumerate(keys)]
        here = [exp.alias_(key.copy(), f"_h{i}") for i, key in enumerate(keys)]
        pairs = exp.select(*here, *above).from_(table(SOURCE)).subquery("o")
        places = range(len(keys))
        wrong = exp.or_(
            *(exp.Is(this=exp.column(f"_h{i}"), expression=exp.null()) for i in places),
            lexicographically_before([(exp.column(f"_h{i}"), exp.column(f"_b{i}")) for i in places]),
        )
        select = exp.select(exp.Count(this=exp.Star())).from_(pairs).where(wrong)
        (found,) = arrow_columns(self.database, self.source.rendered(self.database, select), 1)
        return bool(found[0].as_py() == 0)

    def statements(self) -> list[str]:
        """The statements that create the tables: the partition keys, if they have a table of their own, and the rows."""
        rows = self._create(self.name, self._sort())
        return [self._create(self.keys, self._numbered()), rows] if self.keys else [rows]

    def _create(self, name: str, select: exp.Query) -> str:
        temporary = exp.Properties(expressions=[exp.TemporaryProperty()])
        create = exp.Create(kind="TABLE", this=table(name), expression=select, properties=temporary)
        return self.source.rendered(self.database, create)

    def _sort(self) -> exp.Query:
        """A SELECT of the needed columns with the number of each row's partition, sorted."""
        columns = [column_of(ROWS, name) for name in self._needed]
        order = [item.transform(_of_rows) for item in self._clause.order_by]
        if not self.database.insertion_ordered:
            return self._ranked(columns, order)
        if not self.keys:
            if not order:
                return exp.select(*columns).from_(source_item())
            return exp.select(*columns).from_(self._numbered_source()).order_by(*order, self._tie_breaker())
        same = (
            exp.NullSafeEQ(this=column_of(ROWS, key.name), expression=column_of("k", key.name))
            for key in self._clause.partition_by
        )
        # Sorting by small numbers is faster than by the keys themselves.
        number_of = exp.cast(column_of("k", self._partition), "INT")
        select = exp.select(*columns, exp.alias_(number_of, self._partition, quoted=True)).from_(
            self._numbered_source()
        )
        joined = select.join(aliased_table(self.keys, "k"), on=exp.and_(*same))
        return joined.order_by(exp.Ordered(this=number_of.copy()), *order, self._tie_breaker())

    def _numbered_source(self) -> exp.Expr:
        """The input with a number for each row, which breaks ties, as the sort itself is not stable."""
        names = self._names()
        number = exp.alias_(exp.Window(this=exp.RowNumber()), self._row_number(), quoted=True)
        return exp.select(*map(column, names), number).from_(table(SOURCE)).subquery(identifier(ROWS))

    def _tie_breaker(self) -> exp.Ordered:
        return exp.Ordered(this=column_of(ROWS, self._row_number()))

    def _row_number(self) -> str:
        return unused("_r", self._names())

    def _names(self) -> list[str]:
        """The columns of the input that the sorted table needs or is sorted by."""
        order = [found.name for item in self._clause.order_by for found in item.find_all(exp.Column)]
        return list(dict.fromkeys([*self._needed, *(key.name for key in self._clause.partition_by), *order]))

    def _ranked(self, columns: list[exp.Column], order: list[exp.Expr]) -> exp.Query:
        """The rows with a number each, for databases whose tables have no order."""
        keys = [exp.Ordered(this=column_of(ROWS, key.name), nulls_first=True) for key in self._clause.partition_by]
        by = exp.Order(expressions=[*keys, *order]) if keys or order else None
        ranks: list[exp.Expr] = [exp.Window(this=exp.RowNumber(), order=by)]
        if keys:
            ranks.append(
                exp.Window(this=exp.Anonymous(this="DENSE_RANK"), order=exp.Order(expressions=[k.copy() for k in keys]))
            )
        names = (self._order, self._partition)
        named = [exp.alias_(rank, name, quoted=True) for rank, name in zip(ranks, names, strict=False)]
        return exp.select(*columns, *named).from_(source_item())

    def _numbered(self) -> exp.Query:
        """The keys of the partitions, numbered in their order."""
        keys = [key.name for key in self._clause.partition_by]
        distinct = exp.select(*(column_of(ROWS, key) for key in keys)).from_(source_item()).distinct()
        order = exp.Order(expressions=[exp.Ordered(this=column_of("d", key), nulls_first=True) for key in keys])
        rank = exp.alias_(exp.Window(this=exp.RowNumber(), order=order), self._partition, quoted=True)
        return exp.select(*(column_of("d", key) for key in keys), rank).from_(distinct.subquery("d"))

    def __enter__(self) -> SortedRows:
        if self.source.plain and self.database.insertion_ordered:
            self.in_place = not self.partitioned and self._is_in_order(self._clause)
            self._partitioned = self._read_partitioned() if self.partitioned else None
        if self._partitioned is not None:
            self._register(self._partitioned)
            return self
        for statement in [] if self.in_place else self.statements():
            self.database.execute(statement)
        self.ends = self._ends()
        return self

    def _register(self, rows: PartitionedRows) -> None:
        columns = {name: rows.columns[name] for name in self._needed}
        self.database.register_arrow(self.name, pa.table({**columns, self._partition: rows.partitions}))
        self._known.update({column(name): values for name, values in columns.items()})
        self.ends = rows.ends

    def __exit__(self, *_: object) -> None:
        if self._partitioned is not None:
            self.database.unregister_arrow(self.name)
            return
        for name in (None if self.in_place else self.name, self.keys):
            if name:
                self.database.execute(self.database.render(exp.Drop(tables=[table(name)], kind="TABLE")))

    def _read_partitioned(self) -> PartitionedRows | None:
        """The rows by partition, if the table is stored in order and has plain types and a size that fits into memory."""
        wanted = columns_to_read(self._clause, self._needed)
        if wanted is None or not self._is_small(wanted):
            return None
        key, time, *_ = wanted
        if not in_order(self._read([time], SAMPLE_ROWS)[time]):
            return None
        return partition_rows(self._read(wanted), key, time, self._needed, self.database)

    def _is_small(self, names: Sequence[str]) -> bool:
        """Whether these columns (the key is the first) have plain types, at least one row, and fit into memory."""
        kinds = exp.select(*(exp.Anonymous(this="TYPEOF", expressions=[column(name)]) for name in names))
        found = self._first(kinds)
        if not found or found[0] not in KEYS or not PLAIN.issuperset(found[1:]):
            return False
        if found[0] == "VARCHAR" and any(self._first(exp.select(is_collated(column(names[0]))))):
            return False
        (rows,) = self._first(exp.select(exp.Count(this=exp.Star())))
        return bool(rows * 8 * len(names) <= MEMORY_LIMIT)

    def _first(self, select: exp.Select) -> Sequence[Any]:
        rows = self.database.fetch(self.source.rendered(self.database, select.from_(table(SOURCE)).limit(1)))
        return rows[0] if rows else ()

    def _read(self, names: Sequence[str], limit: int | None = None) -> pa.Table:
        """These columns of all rows, or of the first `limit` rows, in stored order."""
        select = exp.select(*map(column, names)).from_(table(SOURCE))
        found = self.database.fetch_arrow(
            self.source.rendered(self.database, select if limit is None else select.limit(limit))
        )
        assert found is not None
        return found

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def _ends(self) -> Ints:
        select = exp.select(exp.Count(this=exp.Star())).from_(self._table())
        if self.partitioned:
            select = select.group_by(column(self._partition)).order_by(exp.Ordered(this=column(self._partition)))
        (counts,) = arrow_columns(self.database, self.source.rendered(self.database, select), 1)
        ends = np.cumsum(np.asarray(counts, np.int64))
        return ends[ends > 0]

    def _table(self) -> exp.Expr:
        """The table with the rows: the sorted table, or the input if it is stored in order."""
        if not self._collations:
            return table(SOURCE if self.in_place else self.name)
        names = [*self._needed, self._order, *([self._partition] if self.partitioned else [])]
        collated = [
            exp.alias_(exp.Collate(this=column(name), expression=exp.var(self._collations[name])), name, quoted=True)
            if name in self._collations
            else column(name)
            for name in names
        ]
        return exp.select(*collated).from_(table(self.name)).subquery("s")

    @functools.cached_property
    def _collations(self) -> dict[str, str]:
        """The collations of columns that the sorted table does not preserve."""
        if self.database.keeps_collations:
            return {}
        select = self.source.rendered(self.database, exp.select(*map(column, self._needed)).from_(source_item()))
        own = self.database.own_types(select)
        kinds = {name: kind.cast for name, kind in own.items()}
        return {name: kind.removeprefix("COLLATE ") for name, kind in kinds.items() if kind.startswith("COLLATE ")}

    def key(self, name: str, rows: Ints) -> Array:
        """For each of these rows the value of the partition column."""
        partition = np.searchsorted(self.ends, rows, side="right")
        if self._partitioned is not None:
            return take(self._partitioned.keys, partition)
        if not self.keys:
            firsts = np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])
            return take(self.columns([column(name)])[0], firsts[partition])
        select = exp.select(self._with_cast(column(name))).from_(table(self.keys)).order_by(column(self._partition))
        return take(arrow_columns(self.database, self.database.render(select), 1)[0], partition)

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        """The values of each expression, row by row; plain columns are cached."""
        missing = [e for e in dict.fromkeys(expressions) if e not in self._known]
        found = dict(zip(missing, self._fetched(missing), strict=True))
        self._known.update({e: values for e, values in found.items() if isinstance(e, exp.Column)})
        return [found[e] if e in found else self._known[e] for e in expressions]

    def _fetched(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        if not expressions:
            return []
        return arrow_columns(self.database, self.select(expressions), len(expressions))

    def select(self, expressions: Sequence[exp.Expr]) -> str:
        """The statement that computes the expressions for each row."""
        shifted = [self._with_cast(self._shifted(e)) for e in expressions]
        named = [exp.alias_(e, f"_e{place}", quoted=True) for place, e in enumerate(shifted)]
        select = exp.select(*named).from_(self._table())
        if not self.database.insertion_ordered:
            select = select.order_by(column(self._order))
        if not self.database.windows_in_conditions:
            select = self._windows_first(select)
        return self.source.rendered(self.database, select)

    def _windows_first(self, select: exp.Select) -> exp.Select:
        """The SELECT over another SELECT that computes its window functions as columns."""
        windows: dict[exp.Expr, str] = {}

        def moved(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Window):
                return node
            return column(windows.setdefault(node, unused(f"_w{len(windows)}", self._needed)))

        outer = cast("exp.Select", select.transform(moved))
        named = [exp.alias_(window, name, quoted=True) for window, name in windows.items()]
        inner = exp.select(exp.Star(), *named).from_(self._table()).subquery("w")
        return outer.from_(inner) if windows else select

    def _with_cast(self, expression: exp.Expr) -> exp.Expr:
        kind = self.leave_as.get(expression.name) if isinstance(expression, exp.Column) else None
        return expression if kind is None else as_type(expression, kind)

    def where(self, condition: exp.Expr, values: Sequence[exp.Expr], outputs: Sequence[exp.Expr]) -> list[Array]:
        """In one statement, the numbers of the rows for which a condition holds, and their values of `outputs`.

        The condition and `outputs` are over the columns `_w0`, `_w1` …, which represent `values`.
        """
        ranked = exp.Sub(this=exp.Window(this=exp.RowNumber()), expression=exp.Literal.number(1))
        number = (
            ranked
            if self.database.insertion_ordered
            else exp.Sub(this=column(self._order), expression=exp.Literal.number(1))
        )
        named = [exp.alias_(self._shifted(value), f"_w{place}", quoted=True) for place, value in enumerate(values)]
        inner = exp.select(exp.alias_(number, "_row", quoted=True), *named)
        of_rows = inner.from_(self._table()).subquery("h")
        computed = [exp.alias_(e.copy(), f"_e{place}", quoted=True) for place, e in enumerate(outputs)]
        select = exp.select(column("_row"), *computed).from_(of_rows).where(condition.copy())
        if not self.database.insertion_ordered:
            select = select.order_by(column("_row"))
        return arrow_columns(self.database, self.source.rendered(self.database, select), 1 + len(computed))

    def _shifted(self, expression: exp.Expr) -> exp.Expr:
        """The expression with LAG and LEAD in place of `_SHIFT`, which reads other rows of the partition."""
        return expression.transform(self._window)

    def _window(self, node: exp.Expr) -> exp.Expr:
        by = shift_of(node)
        if by is None:
            return node
        row = node.expressions[0]
        if by == 0:
            return exp.Paren(this=row)
        if not self.database.insertion_ordered:
            return over(
                lag_or_lead(row, by), [column(self._partition)] if self.partitioned else [], [column(self._order)]
            )
        there = over(lag_or_lead(row, by), [], [])
        if not self.partitioned:
            return there
        same = exp.EQ(this=over(lag_or_lead(column(self._partition), by), [], []), expression=column(self._partition))
        return exp.Case().when(same, there)


def source_item() -> exp.Expr:
    """The input as an item of FROM, with the alias ROWS."""
    return aliased_table(SOURCE, ROWS)


def _of_rows(node: exp.Expr) -> exp.Expr:
    return column_of(ROWS, node.name) if isinstance(node, exp.Column) else node


@dataclasses.dataclass(frozen=True)
class Input:
    """One clause, with the SELECT that it reads, in the database's SQL, and the columns of that SELECT."""

    table: PatternTable
    source: Source
    fields: Sequence[str]

    @property
    def clause(self) -> RowPattern:
        return self.table.clause
