"""Row patterns measured: every side must give the expected rows before its time counts."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from benchmarks.peers import ByHand, Ours, RefusedError, Side
from benchmarks.row_patterns import Workload
from bridge.bench.report import machine, sentence, short

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Tell = Callable[[str], None]


class DifferenceError(Exception):
    """A side does not give the expected rows."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What one side took for a workload, or why it did not answer."""

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
        """Rows a second."""
        return self.rows / statistics.median(self.seconds) if self.seconds else None


def compare(
    workloads: Sequence[Workload], peers: Sequence[Side], quick: bool, runs: int, tell: Tell
) -> Iterator[Comparison]:
    """All sides of all workloads. A side that refuses is reported so; one that is wrong ends it all."""
    for workload in workloads:
        rows = workload.quick if quick else workload.rows
        sides: tuple[Side, ...] = (Ours(), ByHand(), *peers)
        for side in sides:
            asked = side.asked(workload, rows)
            if asked is None:
                continue
            tell(f"{workload.name}: {side.name}, {asked:,} rows")
            yield _one(workload, side, asked, runs)


def _one(workload: Workload, side: Side, rows: int, runs: int) -> Comparison:
    import duckdb

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        data = pathlib.Path(folder) / "rows.parquet"
        connection.execute(f"CREATE TABLE t AS {workload.data.format(rows=rows)}")
        connection.execute(f"COPY t TO '{data}' (FORMAT parquet)")
        try:
            answer = side.answer(workload, data, rows, runs)
        except RefusedError as error:
            return Comparison(workload.name, workload.what, side.name, rows, refused=str(error))
        expected = side.expected(workload)(connection)
        if found := difference(connection, expected, answer.result):
            raise DifferenceError(f"{workload.name}, {side.name}, {rows:,} rows: {found}")
    return Comparison(
        workload.name, workload.what, side.name, rows, expected.num_rows, answer.seconds, differs=side.differs(workload)
    )


def difference(connection: duckdb.DuckDBPyConnection, expected: pa.Table, found: pa.Table) -> str | None:
    """What is different, as bags of rows: numbers as numbers whatever their type, NaN as NULL; columns by place.

    >>> import duckdb, pyarrow as pa
    >>> difference(duckdb.connect(), pa.table({"a": [1, None]}), pa.table({"b": [float("nan"), 1.0]}))
    >>> difference(duckdb.connect(), pa.table({"a": [1, 2]}), pa.table({"a": [1, 1]}))
    '2 rows, as expected, but expected is (2.0,) and found (1.0,)'
    """
    if len(expected.columns) != len(found.columns):
        return f"{len(found.columns)} columns instead of {len(expected.columns)}"
    for name, table in (("expected", expected), ("found", found)):
        connection.register("side", table)
        columns = ", ".join(
            _alike(column, kind) for column, kind in zip(table.column_names, table.schema.types, strict=True)
        )
        connection.execute(f"CREATE OR REPLACE TABLE {name}_rows AS SELECT {columns} FROM side")
        connection.unregister("side")
    lacking = connection.execute("FROM expected_rows EXCEPT ALL FROM found_rows ORDER BY ALL LIMIT 1").fetchone()
    extra = connection.execute("FROM found_rows EXCEPT ALL FROM expected_rows ORDER BY ALL LIMIT 1").fetchone()
    if lacking is None and extra is None:
        return None
    count = "as expected" if found.num_rows == expected.num_rows else f"not {expected.num_rows:,}"
    parts = [f"expected is {lacking}"] if lacking else []
    parts += [f"found {extra}"] if extra else []
    return f"{found.num_rows:,} rows, {count}, but {' and '.join(parts)}"


def _alike(column: str, kind: pa.DataType) -> str:
    import pyarrow.types as types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return f'''nullif("{column}"::DOUBLE, 'nan'::DOUBLE)'''
    return f'"{column}"::VARCHAR'


# Reports --------------------------------------------------------------------------------------------------------------


def comparisons_json(found: Sequence[Comparison]) -> str:
    each = [{**dataclasses.asdict(one), "rate": one.rate} for one in found]
    return json.dumps({"machine": machine(), "comparisons": each}, indent=2, ensure_ascii=False) + "\n"


def comparisons_markdown(found: Sequence[Comparison], runs: int) -> str:
    """A row a workload and side: seconds, rows a second, and how many times as many rows a second ours takes."""
    ours = {one.workload: one.rate for one in found if one.side == Ours().name}
    lines = [
        ["workload", "", "side", "rows", "matches", "seconds (smallest–largest)", "rows/s", "ours ×"],
        ["---", "---", "---", "--:", "--:", "--:", "--:", "--:"],
    ]
    for one in found:
        rate, mine = one.rate, ours.get(one.workload)
        times = short(mine / rate) if mine and rate and one.side != Ours().name else ""
        lines.append([one.workload, one.what, one.side, *_figures(one), short(rate) if rate else "", times])
    notes = [f"Median of {runs} runs. {sentence(machine())}"]
    notes += [f"{one.workload}: {one.side} {one.differs}." for one in found if one.differs]
    notes += [f"{one.workload}: {one.side}: {one.refused}" for one in found if one.refused]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n" + "\n".join(notes) + "\n"


def _figures(one: Comparison) -> list[str]:
    if one.refused:
        return [f"{one.rows:,}", "", "refused"]
    spread = f" ({min(one.seconds):.2f}–{max(one.seconds):.2f})" if len(one.seconds) > 1 else ""
    return [f"{one.rows:,}", f"{one.matches:,}", f"{statistics.median(one.seconds):.2f}{spread}"]
