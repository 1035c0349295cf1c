"""The types of each database with values to compare: ordinary ones, and those at the ends of the type."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A type as a column declares it, with SQL for its values; arithmetic over `ends` may overflow."""

    declared: str
    values: tuple[str, ...]
    ends: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.values, *self.ends, "NULL")


def _whole(declared: str, bits: int, unsigned: bool = False) -> Kind:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Kind(declared, ("1", "3", "2"), (str(low), str(high), str(high - 1)))


def _kind(declared: str, values: str, ends: str = "") -> Kind:
    """Values are divided by `; `."""
    return Kind(declared, tuple(values.split("; ")), tuple(ends.split("; ")) if ends else ())


_UUIDS = "; ".join(f"'{first}-0000-0000-0000-000000000001'" for first in ("00000000", "ffffffff", "80000000"))
_ZONED = "'2024-02-29 12:00:00+00'; '2024-02-29 13:00:00+01'; '2024-02-29 13:00:00+00'"
_TIMES = "'2024-02-29 12:00:00'; '1969-12-31 23:59:59.999999'"
_INFINITE = "'infinity'; '-infinity'"
_LETTERS = "'a'; 'B'; 'A'; 'ä'; ''; 'a '"

DUCKDB = {
    "BOOLEAN": _kind("BOOLEAN", "true; false"),
    **{name: _whole(name, bits) for name, bits in {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}.items()},
    **{f"U{name}": _whole(f"U{name}", bits, True) for name, bits in {"TINYINT": 8, "INTEGER": 32, "BIGINT": 64}.items()},
    "HUGEINT": _kind("HUGEINT", "1; 3; 2", f"{10**37}; -{10**37}; {10**37 - 1}; {2**64}; {2**64 + 1}"),
    "UHUGEINT": _kind("UHUGEINT", "1; 3; 2", f"{2**128 - 1}; {2**128 - 2}"),
    "DECIMAL": _kind("DECIMAL(18, 3)", "1.5; 1.50; 2.25; -3", "999999999999999.999; 999999999999999.998"),
    "DECIMAL of 38 digits": _kind("DECIMAL(38, 10)", "1.5; 2.25; -3; 1.5000000001", "'9999999999999999999999999999.9999999999'"),
    "FLOAT": _kind("FLOAT", "1.5; 0.1; -2; 0", "'nan'; 'inf'; '-inf'; '-0.0'; 3e38; 1e-45"),
    "DOUBLE": _kind("DOUBLE", "1.5; 0.1; -2; 0", "'nan'; 'inf'; '-inf'; '-0.0'; 1e308; 5e-324; 9007199254740993"),
    "VARCHAR": _kind("VARCHAR", _LETTERS),
    "VARCHAR without case": _kind("VARCHAR COLLATE NOCASE", _LETTERS),
    "VARCHAR without accents": _kind("VARCHAR COLLATE NOACCENT", _LETTERS),
    "VARCHAR without both": _kind("VARCHAR COLLATE NOCASE.NOACCENT", _LETTERS),
    "DATE": _kind("DATE", "'2024-02-29'; '1969-12-31'", f"{_INFINITE}; '0044-03-15 (BC)'; '20000-01-01'"),
    "TIME": _kind("TIME", "'12:30:00.000001'; '00:00:00'; '12:30:00'", "'23:59:59.999999'"),
    "TIMETZ": _kind("TIMETZ", "'12:30:00+00'; '12:30:00+01'; '11:30:00+00'; '13:30:00+02'"),
    "TIMESTAMP": _kind(
        "TIMESTAMP", _TIMES, f"{_INFINITE}; '0044-03-15 (BC) 00:00:00'; '20000-01-01'"
    ),
    "TIMESTAMP_S": _kind("TIMESTAMP_S", "'2024-02-29 12:00:00'; '1969-12-31 23:59:59'"),
    "TIMESTAMP_MS": _kind("TIMESTAMP_MS", "'2024-02-29 12:00:00.001'; '2024-02-29 12:00:00.002'"),
    "TIMESTAMP_NS": _kind("TIMESTAMP_NS", "'2024-01-01 00:00:00.000000001'; '2024-01-01 00:00:00.000000002'"),
    "TIMESTAMPTZ": _kind("TIMESTAMPTZ", _ZONED, _INFINITE),
    "INTERVAL": _kind("INTERVAL", "'20 days'; '1 month'; '30 days'; '24 hours'; '1 day'; '-1 day'"),
    "UUID": _kind("UUID", _UUIDS),
    "BLOB": _kind("BLOB", "'a'; '\\xFF'::BLOB; '\\x00'::BLOB; ''"),
    "BIT": _kind("BIT", "'101'; '0101'; '11'; '1'"),
    "ENUM": _kind("ENUM('small', 'medium', 'large')", "'small'; 'medium'; 'large'"),
    "a list": _kind("INTEGER[]", "[1, 2]; [1]; [2]; [NULL]; []"),
    "a struct": _kind("STRUCT(a INTEGER, b VARCHAR)", "{'a': 1, 'b': 'x'}; {'a': 1, 'b': NULL}; {'a': 2, 'b': 'a'}"),
    "JSON": _kind("JSON", "'1'; '\"a\"'; '[1]'; '{}'; ' 1'"),
}  # fmt: skip

SQLITE = {
    "INTEGER": _whole("INTEGER", 64),
    "REAL": _kind("REAL", "1.5; 0.1; -2; 0", "9e999; -9e999; 9007199254740993"),
    "TEXT": _kind("TEXT", _LETTERS),
    "TEXT without case": _kind("TEXT COLLATE NOCASE", _LETTERS),
    "TEXT without blanks": _kind("TEXT COLLATE RTRIM", _LETTERS),
    "BLOB": _kind("BLOB", "x'00'; x'ff'; x''; 'a'; 1; '1'; 1.0; x'31'"),
    "NUMERIC": _kind("NUMERIC", "1; '2'; '1.0'; 'a'; x'31'"),
    "no type": _kind("", "1; '1'; 1.0; 'a'; x'61'; 1.5"),
    "BOOLEAN": _kind("BOOLEAN", "TRUE; FALSE; 2"),
    "VARCHAR": _kind("VARCHAR(5)", "'a'; 'B'; 1; '1'; x'31'"),
    "DECIMAL": _kind("DECIMAL(10, 2)", "1.5; '1.50'; 2; -3; 'x'"),
    "DATE": _kind("DATE", "'2024-02-29'; '1969-12-31'; '0000-01-01'; 'x'; 5"),
    "TIMESTAMP": _kind("TIMESTAMP", "'2024-02-29 12:00:00'; '1969-12-31 23:59:59'; '2024-02-29T12:00:00'"),
    "mixed sizes": _kind(
        "NUMERIC", "9007199254740993; 9007199254740992; 9007199254740992.0", "9223372036854775807; 9.2233720368547758e18"
    ),
}  # fmt: skip

POSTGRESQL = {
    "BOOLEAN": _kind("BOOLEAN", "true; false"),
    **{name: _whole(name, bits) for name, bits in {"SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}.items()},
    "NUMERIC": _kind("NUMERIC", "1.5; 1.50; 2.25; -3", "'NaN'; 'Infinity'; '-Infinity'; 1e50; 1e-50"),
    "NUMERIC(10, 2)": _kind("NUMERIC(10, 2)", "1.5; 2.25; -3", "99999999.99"),
    "REAL": _kind("REAL", "1.5; 0.1; -2; 0", "'NaN'; 'Infinity'; '-Infinity'; '-0.0'; 3e38"),
    "DOUBLE": _kind("DOUBLE PRECISION", "1.5; 0.1; -2; 0", "'NaN'; 'Infinity'; '-Infinity'; '-0.0'; 1e308"),
    "MONEY": _kind("MONEY", "'1.50'; '2.25'; '-3'; '1000'"),
    "TEXT": _kind("TEXT", _LETTERS),
    "VARCHAR(9)": _kind("VARCHAR(9)", _LETTERS),
    "CHAR(5)": _kind("CHAR(5)", _LETTERS),
    "BYTEA": _kind("BYTEA", "'a'; '\\xff'; '\\x00'; ''"),
    "DATE": _kind("DATE", "'2024-02-29'; '1969-12-31'", f"{_INFINITE}; '0044-03-15 BC'; '20000-01-01'"),
    "TIME": _kind("TIME", "'12:30:00.000001'; '00:00:00'; '12:30:00'", "'23:59:59.999999'; '24:00:00'"),
    "TIMETZ": _kind("TIMETZ", "'12:30:00+00'; '12:30:00+01'; '11:30:00+00'; '13:30:00+02'"),
    "TIMESTAMP": _kind("TIMESTAMP", _TIMES, f"{_INFINITE}; '0044-03-15 BC'; '20000-01-01'"),
    "TIMESTAMPTZ": _kind("TIMESTAMPTZ", _ZONED, _INFINITE),
    "INTERVAL": _kind("INTERVAL", "'20 days'; '1 month'; '30 days'; '24 hours'; '1 day'; '-1 day'"),
    "UUID": _kind("UUID", _UUIDS),
    "BIT": _kind("BIT(3)", "'101'; '010'; '110'"),
    "VARBIT": _kind("BIT VARYING", "'101'; '0101'; '11'; '1'"),
    "INET": _kind("INET", "'10.0.0.9'; '10.0.0.10'; '10.0.0.0/8'; '::1'"),
    "MACADDR": _kind("MACADDR", "'08:00:2b:01:02:03'; '08:00:2b:01:02:04'"),
    "ENUM": _kind("size", "'small'; 'medium'; 'large'"),
    "an array": _kind("INTEGER[]", "'{1,2}'; '{1}'; '{2}'; '{NULL}'; '{}'"),
    "JSONB": _kind("JSONB", "'1'; '\"a\"'; '[1]'; '{}'; '1.0'"),
    "JSON": _kind("JSON", "'1'; '\"a\"'; '[1]'"),
    "a range": _kind("INT4RANGE", "'[1,3)'; '[1,2]'; '[2,5)'; 'empty'"),
    "OID": _kind("OID", "1; 3; 2", "4294967295; 4294967294"),
}  # fmt: skip

_INTEGERS = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")
MARIADB = {
    "BOOLEAN": _kind("BOOLEAN", "true; false"),
    **{name: _whole(name, bits) for name, bits in zip(_INTEGERS, (8, 16, 24, 32, 64), strict=True)},
    **{f"{name} UNSIGNED": _whole(f"{name} UNSIGNED", bits, True) for name, bits in (("INT", 32), ("BIGINT", 64))},
    "DECIMAL": _kind("DECIMAL(10, 2)", "1.5; 1.50; 2.25; -3", "99999999.99"),
    "DECIMAL of 65 digits": _kind("DECIMAL(65, 30)", "1.5; 2.25; -3; 1.500000000000000000000000000001", "9" * 35),
    "FLOAT": _kind("FLOAT", "1.5; 0.1; -2; 0; 16777217", "3e38; 1e-45; 123456.789"),
    "DOUBLE": _kind("DOUBLE", "1.5; 0.1; -2; 0", "1e308; 5e-324; 9007199254740993"),
    "VARCHAR": _kind("VARCHAR(9)", _LETTERS),
    "VARCHAR of one collation": _kind("VARCHAR(9) COLLATE utf8mb4_general_ci", _LETTERS),
    "VARCHAR of letters as they are": _kind("VARCHAR(9) COLLATE utf8mb4_nopad_bin", _LETTERS),
    "CHAR": _kind("CHAR(5)", _LETTERS),
    "TEXT": _kind("TEXT", _LETTERS),
    "VARBINARY": _kind("VARBINARY(9)", "'a'; x'ff'; x'00'; ''; 'B'"),
    "BINARY": _kind("BINARY(4)", "'a'; x'ff'; x'00'; ''; 'B'"),
    "BLOB": _kind("BLOB", "'a'; x'ff'; x'00'; ''; 'B'"),
    "DATE": _kind("DATE", "'2024-02-29'; '1969-12-31'", "'9999-12-31'; '1000-01-01'"),
    "TIME": _kind("TIME(6)", "'12:30:00.000001'; '00:00:00'; '12:30:00'", "'838:59:59'; '-838:59:59'; '24:00:00'"),
    "DATETIME": _kind("DATETIME(6)", "'2024-02-29 12:00:00'; '1969-12-31 23:59:59.999999'", "'9999-12-31 23:59:59'"),
    "TIMESTAMP": _kind("TIMESTAMP(6) NULL", "'2024-02-29 12:00:00'; '1999-12-31 23:59:59.999999'"),
    "YEAR": _kind("YEAR", "2024; 1969; 2155"),
    "ENUM": _kind("ENUM('small', 'medium', 'large')", "'small'; 'medium'; 'large'"),
    "SET": _kind("SET('c', 'a', 'b')", "'a'; 'b'; 'a,c'; ''"),
    "BIT": _kind("BIT(8)", "b'101'; b'11'; b'1'; b'11111111'"),
    "JSON": _kind("JSON", "'1'; '\"a\"'; '[1]'"),
    "UUID": _kind("UUID", _UUIDS),
    "INET6": _kind("INET6", "'::1'; '::2'; 'ff::'; '::a'"),
}  # fmt: skip

TYPES: dict[str, dict[str, Kind]] = {"duckdb": DUCKDB, "sqlite": SQLITE, "postgresql": POSTGRESQL, "mariadb": MARIADB}

REFUSALS = (
    "NaN and Infinity among decimals", "(after year 10K)", "(before year 1)", "MariaDB computes with the numbers of an ENUM",
    "to double precision", "duration[us]", "type Range", "a DECIMAL has 1 to 38 digits", "Decimal precision out of range",
    "a column has values of several types", "out of range in Python", "function max(",
)  # fmt: skip
"""Parts of the messages of what is refused: values that neither Python nor Arrow has, and means of what is not a number."""
