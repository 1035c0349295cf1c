"""Measures row patterns. Every system must give the expected rows before its time counts."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from benchmarks.peers import BridgeQueries, HandwrittenSql, PatternSystem, RefusedError
from benchmarks.row_patterns import PatternWorkload
from bridge.bench.report import machine, machine_description, three_digits

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Progress = Callable[[str], None]


class WrongRowsError(Exception):
    """A system does not give the expected rows."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The times of one system, whose name is `side`, for a workload; `refused` says why there are none.

    `what` describes the workload; `differs` says how the system's results differ from the standard's.
    """

    workload: str
    what: str
    side: str
    rows: int
    matches: int = 0
    seconds: tuple[float, ...] = ()
    refused: str | None = None
    differs: str | None = None

    @property
    def rate(self) -> float | None:
        """Rows per second."""
        return self.rows / statistics.median(self.seconds) if self.seconds else None


def compare(
    workloads: Sequence[PatternWorkload], peers: Sequence[PatternSystem], quick: bool, runs: int, progress: Progress
) -> Iterator[Comparison]:
    """Measures all systems with all workloads. Raises DifferenceError for one that gives other rows."""
    for workload in workloads:
        rows = workload.quick if quick else workload.rows
        systems: tuple[PatternSystem, ...] = (BridgeQueries(), HandwrittenSql(), *peers)
        for system in systems:
            count = system.row_count(workload, rows)
            if count is None:
                continue
            progress(f"{workload.name}: {system.name}, {count:,} rows")
            yield _compare(workload, system, count, runs)


def _compare(workload: PatternWorkload, system: PatternSystem, rows: int, runs: int) -> Comparison:
    import duckdb

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        data = pathlib.Path(folder) / "rows.parquet"
        connection.execute(f"CREATE TABLE t AS {workload.data.format(rows=rows)}")
        connection.execute(f"COPY t TO '{data}' (FORMAT parquet)")
        try:
            timed = system.run(workload, data, rows, runs)
        except RefusedError as error:
            return Comparison(workload.name, workload.what, system.name, rows, refused=str(error))
        expected = system.expected(workload)(connection)
        if wrong := difference(connection, expected, timed.result):
            raise WrongRowsError(f"{workload.name}, {system.name}, {rows:,} rows: {wrong}")
    return Comparison(
        workload.name,
        workload.what,
        system.name,
        rows,
        expected.num_rows,
        timed.seconds,
        differs=system.differs(workload),
    )


def difference(connection: duckdb.DuckDBPyConnection, expected: pa.Table, found: pa.Table) -> str | None:
    """The first difference between two bags of rows; None if there is none.

    Columns are compared by their positions, numbers by their values whatever their types, NaN as NULL.

    >>> import duckdb, pyarrow as pa
    >>> difference(duckdb.connect(), pa.table({"a": [1, None]}), pa.table({"b": [float("nan"), 1.0]}))
    >>> difference(duckdb.connect(), pa.table({"a": [1, 2]}), pa.table({"a": [1, 1]}))
    '2 rows, as expected, but expected is (2.0,) and found (1.0,)'
    """
    if len(expected.columns) != len(found.columns):
        return f"{len(found.columns)} columns instead of {len(expected.columns)}"
    for name, table in (("expected", expected), ("found", found)):
        connection.register("rows", table)
        columns = ", ".join(
            _comparable(column, kind) for column, kind in zip(table.column_names, table.schema.types, strict=True)
        )
        connection.execute(f"CREATE OR REPLACE TABLE {name}_rows AS SELECT {columns} FROM rows")
        connection.unregister("rows")
    missing = connection.execute("FROM expected_rows EXCEPT ALL FROM found_rows ORDER BY ALL LIMIT 1").fetchone()
    extra = connection.execute("FROM found_rows EXCEPT ALL FROM expected_rows ORDER BY ALL LIMIT 1").fetchone()
    if missing is None and extra is None:
        return None
    count = "as expected" if found.num_rows == expected.num_rows else f"not {expected.num_rows:,}"
    parts = [f"expected is {missing}"] if missing else []
    parts += [f"found {extra}"] if extra else []
    return f"{found.num_rows:,} rows, {count}, but {' and '.join(parts)}"


RELATIVE = 1e-9
"""Floating-point numbers that differ by less, relative to the greater one, are equal: a sum depends on the order of its terms."""


def close_difference(connection: duckdb.DuckDBPyConnection, expected: pa.Table, found: pa.Table) -> str | None:
    """The first difference between two bags of rows, whose floating-point numbers may differ by `RELATIVE`; None without one.

    Columns are compared by their positions, numbers by their values whatever their types.

    >>> import duckdb, pyarrow as pa
    >>> close_difference(duckdb.connect(), pa.table({"a": [0.1 + 0.2, 1.0]}), pa.table({"b": [1.0, 0.3]}))
    >>> close_difference(duckdb.connect(), pa.table({"a": [1, 2], "b": [1.0, 2.0]}), pa.table({"a": [2, 1], "b": [1.0, 2.0]}))
    'expected is (1, 1.0) and found (1, 2.0)'
    """
    import pyarrow.types as types

    if expected.shape != found.shape:
        return f"{found.num_rows:,} rows of {found.num_columns} columns, not {expected.num_rows:,} of {expected.num_columns}"
    kinds = list(zip(expected.schema.types, found.schema.types, strict=True))
    close = [any(map(types.is_floating, pair)) for pair in kinds]
    columns = [f"c{place}" for place in range(len(kinds))]
    order = ", ".join(sorted(columns, key=lambda column: close[columns.index(column)]))  # the exact columns first
    for name, table in (("expected", expected), ("found", found)):
        connection.register("rows", table.rename_columns(columns))
        connection.execute(f"CREATE OR REPLACE TABLE {name}_rows AS FROM rows ORDER BY {order}")
        connection.unregister("rows")
    equal = " AND ".join(
        _is_close(column) if near else _is_same(column) for column, near in zip(columns, close, strict=True)
    )
    pair = connection.execute(
        f"SELECT e, f FROM expected_rows e POSITIONAL JOIN found_rows f WHERE NOT ({equal}) LIMIT 1"
    ).fetchone()
    return pair and "expected is {} and found {}".format(*(tuple(row.values()) for row in pair))


def _is_same(column: str) -> str:
    return f"e.{column} IS NOT DISTINCT FROM f.{column}"


def _is_close(column: str) -> str:
    greater = f"greatest(abs(e.{column}), abs(f.{column}))"
    return f"({_is_same(column)} OR COALESCE(abs(e.{column} - f.{column}) <= {RELATIVE} * {greater}, false))"


def _comparable(column: str, kind: pa.DataType) -> str:
    import pyarrow.types as types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return f'''nullif("{column}"::DOUBLE, 'nan'::DOUBLE)'''
    return f'"{column}"::VARCHAR'


# Reports --------------------------------------------------------------------------------------------------------------


def comparisons_json(found: Sequence[Comparison]) -> str:
    """The machine and the comparisons as JSON."""
    each = [{**dataclasses.asdict(one), "rate": one.rate} for one in found]
    return json.dumps({"machine": machine(), "comparisons": each}, indent=2, ensure_ascii=False) + "\n"


def comparisons_markdown(found: Sequence[Comparison], runs: int) -> str:
    """One row per workload and system: seconds, rows per second, and the ratio of the bridge's rate to it."""
    ours = {one.workload: one.rate for one in found if one.side == BridgeQueries().name}
    lines = [
        ["workload", "", "side", "rows", "matches", "seconds (smallest–largest)", "rows/s", "ours ×"],
        ["---", "---", "---", "--:", "--:", "--:", "--:", "--:"],
    ]
    for one in found:
        rate, mine = one.rate, ours.get(one.workload)
        times = three_digits(mine / rate) if mine and rate and one.side != BridgeQueries().name else ""
        lines.append([one.workload, one.what, one.side, *_figures(one), three_digits(rate) if rate else "", times])
    notes = [f"Median of {runs} runs. {machine_description(machine())}"]
    notes += [f"{one.workload}: {one.side} {one.differs}." for one in found if one.differs]
    notes += [f"{one.workload}: {one.side}: {one.refused}" for one in found if one.refused]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n" + "\n".join(notes) + "\n"


def _figures(one: Comparison) -> list[str]:
    if one.refused:
        return [f"{one.rows:,}", "", "refused"]
    spread = f" ({min(one.seconds):.2f}–{max(one.seconds):.2f})" if len(one.seconds) > 1 else ""
    return [f"{one.rows:,}", f"{one.matches:,}", f"{statistics.median(one.seconds):.2f}{spread}"]
