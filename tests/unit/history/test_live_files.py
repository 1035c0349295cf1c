"""Files as sinks and sources of a live bridge: what was written is read back as it was."""

from __future__ import annotations

import datetime
import decimal
import pathlib
from typing import Any

import pytest

import bridge

SCHEMA = "k VARCHAR, a INTEGER, d DECIMAL(9, 2), b BOOLEAN, m TIMESTAMP"
ROWS = [
    (1, ("x,\"'\n", 1, decimal.Decimal("1.25"), True, datetime.datetime(2024, 2, 29, 1, 2, 3, 4000))),
    (1, (None, None, None, None, None)),
    (7, ("ünï", -5, decimal.Decimal("-0.01"), False, datetime.datetime(1999, 12, 31))),
]


def listen(cep: bridge.Bridge) -> list[Any]:
    cep.register_stream("s", SCHEMA)
    cep.create_query("all", "SELECT * FROM s")
    found: list[Any] = []
    cep.add_output_processor("all", lambda event: found.append((event.timestamp, tuple(event.payload.values()))))
    return found


@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet"])
def test_what_a_sink_writes_a_source_reads(format: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"all.{format}"
    with bridge.connect("sqlite://") as cep, bridge.file_sink(path) as sink:
        listen(cep)
        cep.add_output_processor("all", sink, batch=True)
        for ts, values in ROWS:
            cep.push_event("s", values, ts)
            assert path.exists() is (format != "parquet")
        text = path.read_text(encoding="utf-8") if format != "parquet" else "ünï"
        assert "ünï" in text  # it is there before the sink is closed
    with bridge.connect("sqlite://") as cep:
        found = listen(cep)
        assert cep.push_events("s", bridge.file_source(path, SCHEMA)) == 3
        assert found == ROWS


def test_a_pattern_of_files_without_a_schema(tmp_path: pathlib.Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text(f"when,a\n{number}000,{number}\n")
    with bridge.connect() as cep:
        cep.register_stream("s", "a BIGINT")
        rows = bridge.file_source(tmp_path / "*.csv", timestamp="when")
        assert rows.schema.names == ["ts", "a"]
        assert cep.push_events("s", rows) == 2


def test_what_is_no_file_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(bridge.SourceError, match=r"ends in \.csv, \.ndjson or \.parquet"):
        bridge.file_sink(tmp_path / "rows.xlsx")
    with pytest.raises(bridge.SourceError, match="does not exist"):
        bridge.file_source(tmp_path / "none.csv")
    with pytest.raises(bridge.SourceError, match="the schema of"):
        bridge.file_source(tmp_path / "none.csv", {"ts": "INTEGER"})
    with bridge.connect() as cep:
        listen(cep)
        sink = bridge.file_sink(tmp_path / "no" / "rows.csv")
        handle = cep.add_output_processor("all", sink, batch=True)
        for _ in range(2):
            with pytest.raises(bridge.ProcessorError, match="results cannot be written to"):
                cep.push_event("s", ROWS[0][1], 1)
        cep.remove_output_processor(handle)
        sink.close()
        closed = bridge.file_sink(tmp_path / "rows.csv")
        closed.close()
        closed.close()
        cep.add_output_processor("all", closed, batch=True)
        with pytest.raises(bridge.ProcessorError, match="takes no more results"):
            cep.push_event("s", ROWS[0][1], 1)
        assert not (tmp_path / "rows.csv").exists()
