"""Schemas and the values they take: what fits is kept exactly, what does not is refused with its attribute's name."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import pickle
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from windows.schema import Attribute, Reader, Schema, TypeMismatch, canonical_type, checker

D = decimal.Decimal
NOON = datetime.datetime(2024, 2, 29, 12)
DAY = datetime.date(2024, 2, 29)
EAST = datetime.timezone(datetime.timedelta(hours=2))

FITTING = [
    ("BOOLEAN", True, True),
    ("BOOLEAN", np.False_, False),
    ("SMALLINT", -(2**15), -(2**15)),
    ("INTEGER", 2**31 - 1, 2**31 - 1),
    ("BIGINT", -(2**63), -(2**63)),
    ("BIGINT", np.uint8(200), 200),
    ("DOUBLE", 1, 1.0),
    ("DOUBLE", D("0.5"), 0.5),
    ("DOUBLE", np.float32(0.5), 0.5),
    ("DOUBLE", float("-inf"), float("-inf")),
    ("VARCHAR", "", ""),
    ("VARCHAR", "a\0'\"\n𝄞", "a\0'\"\n𝄞"),
    ("DECIMAL(5, 2)", D("123.45"), D("123.45")),
    ("DECIMAL(5, 2)", "-0.5", D("-0.50")),
    ("DECIMAL(5, 2)", 0.1, D("0.10")),
    ("DECIMAL(5, 2)", 999, D("999.00")),
    ("DECIMAL(38, 0)", 10**38 - 1, D(10**38 - 1)),
    ("DATE", DAY, DAY),
    ("DATE", "2024-02-29", DAY),
    ("TIMESTAMP", NOON, NOON),
    ("TIMESTAMP", NOON.replace(tzinfo=EAST), datetime.datetime(2024, 2, 29, 10)),
    ("TIMESTAMP", "2024-02-29 12:00", NOON),
]

REFUSED = [
    ("BOOLEAN", 1), ("BOOLEAN", "true"), ("BOOLEAN", 0.0),
    ("SMALLINT", 2**15), ("INTEGER", -(2**31) - 1), ("BIGINT", 2**63),
    ("INTEGER", True), ("INTEGER", np.True_), ("INTEGER", 1.0), ("INTEGER", "1"), ("INTEGER", D(1)), ("INTEGER", [1]),
    ("DOUBLE", "1.5"), ("DOUBLE", b"1.5"), ("DOUBLE", bytearray(b"1.5")), ("DOUBLE", False), ("DOUBLE", np.True_),
    ("DOUBLE", 1j), ("DOUBLE", 10**400),
    ("VARCHAR", 1), ("VARCHAR", b"x"), ("VARCHAR", "\ud800"), ("VARCHAR", DAY),
    ("DECIMAL(5, 2)", D("0.001")), ("DECIMAL(5, 2)", 1000), ("DECIMAL(5, 2)", True), ("DECIMAL(5, 2)", "x"),
    ("DECIMAL(5, 2)", float("nan")), ("DECIMAL(5, 2)", D("NaN")), ("DECIMAL(5, 2)", D("-Infinity")),
    ("DECIMAL(5, 2)", "nan"), ("DECIMAL(5, 2)", D("sNaN")),
    ("DATE", NOON), ("DATE", "29.2.2024"), ("DATE", 0),
    ("TIMESTAMP", DAY), ("TIMESTAMP", 0), ("TIMESTAMP", "noon"),
    ("TIMESTAMP", datetime.datetime.min.replace(tzinfo=EAST)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "kept"), FITTING)
def test_a_fitting_value_is_kept_exactly(kind: str, value: Any, kept: Any) -> None:
    found = checker(Attribute("a", kind))(value)
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(("kind", "value"), REFUSED)
def test_a_wrong_value_is_refused_by_its_attribute(kind: str, value: Any) -> None:
    with pytest.raises(TypeMismatch, match="'a b'"):
        checker(Attribute("a b", kind))(value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("int", "INTEGER"), (" Double Precision ", "DOUBLE"), ("varchar(20)", "VARCHAR"), ("numeric", "DECIMAL(18, 3)"),
        ("decimal( 10 )", "DECIMAL(10, 0)"), ("DateTime", "TIMESTAMP"), ("logical", "BOOLEAN"),
    ],
)  # fmt: skip
def test_types_have_other_names(written: str, meant: str) -> None:
    assert canonical_type(written) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INTEGR",
        "INTEGER(5)",
        "DECIMAL(39, 0)",
        "DECIMAL(2, 3)",
        "DECIMAL(0)",
        "a b",
        "INT[",
        "STRUCT()",
        "STRUCT(a)",
        "MAP(INTEGER, DATE)",
        "STRUCT(a DATE, A DATE)",
    ],
)
def test_an_unknown_type_is_refused(text: str) -> None:
    with pytest.raises(TypeMismatch):
        canonical_type(text)


@dataclasses.dataclass
class Trade:
    symbol: str
    price: float
    size: int | None
    day: datetime.date
    paid: bool
    fee: decimal.Decimal


def test_a_schema_comes_from_anything_that_has_names_and_types() -> None:
    text = "symbol VARCHAR, price DOUBLE, size BIGINT, day DATE, paid BOOLEAN, fee DECIMAL(18, 6)"
    arrow = pa.schema(
        [
            ("symbol", pa.dictionary(pa.int8(), pa.large_string())), ("price", pa.float32()), ("size", pa.uint32()),
            ("day", pa.date32()), ("paid", pa.bool_()), ("fee", pa.decimal128(18, 6)),
        ]
    )  # fmt: skip
    python = {"symbol": str, "price": float, "size": int, "day": datetime.date, "paid": bool, "fee": decimal.Decimal}
    for source in (
        text,
        Trade,
        Trade("", 0, 0, DAY, True, D(0)),
        arrow,
        python,
        dict(zip(arrow.names, arrow.types, strict=True)),
    ):
        assert str(Schema.of(source)) == text
    assert Schema.of(Schema.of(text)) == Schema.of(text)


def test_a_schema_writes_itself_back() -> None:
    schema = Schema.of({'a "b", c': "INTEGER", "Größe": "DECIMAL(4, 1)", "select": "DATE", "x:y": "DOUBLE"})
    assert Schema.of(str(schema)) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    "source",
    [
        None, 5, [("a", "INTEGER")], "a", "a INTEGER b DOUBLE", "", {"a": None}, {"a": complex},
        {"a": list[complex]}, {"a": Literal["INTEGER"]}, {"a": ["INTEGER", "DATE"]},
        {"a": int | str}, {1: "INTEGER"}, {None: "INTEGER"},
        {"": "INTEGER"}, {"a": "INTEGER", "A": "INTEGER"}, {"ts": "INTEGER"}, {"SEQ": "INTEGER"}, {"a\0b": "INTEGER"},
        {"\ud800": "INTEGER"}, {"a": pa.list_(pa.time32("s"))}, pa.schema([("a", pa.uint64())]),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(source: Any) -> None:
    with pytest.raises(TypeMismatch):
        Schema.of(source)


def test_a_dataclass_whose_hints_cannot_be_found_is_refused() -> None:
    made = dataclasses.make_dataclass("Made", [("a", "Missing")])
    with pytest.raises(TypeMismatch, match="Made"):
        Schema.of(made)


def test_a_payload_is_a_mapping_or_a_sequence() -> None:
    reader = Reader.of(Schema.of("a INTEGER, b VARCHAR"))
    for payload in ({"a": 1, "b": "x"}, {"b": "x", "a": 1}, [1, "x"], (1, "x")):
        assert reader.row(payload) == (1, "x")
    assert reader.row({"b": "x"}) == reader.row({"b": "x", "a": None}) == reader.row((None, "x")) == (None, "x")
    assert reader.row({}) == (None, None)


@pytest.mark.parametrize(
    "payload",
    [
        {"a": 1, "c": None}, {"a": 1, 1: 1}, {"A": 1}, (1,), (1, "x", 2), "ab", b"ab", {1, "x"}, None, 5, iter((1, "x")),
        {"a": np.array([1, 2])}, {"a": None, "b": np.array([None, 2])},
    ],
)  # fmt: skip
def test_a_payload_that_does_not_fit_is_refused(payload: Any) -> None:
    with pytest.raises(TypeMismatch):
        Reader.of(Schema.of("a INTEGER, b VARCHAR")).row(payload)
