"""Types whose values would mean something else outside their database: one table per database says how they leave it.

The values of all other types compare and compute alike in Python, NumPy and the database.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

from sqlglot import exp

Nodes = tuple[type[exp.Expr], ...]

ARITHMETIC: Nodes = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.DPipe, exp.AggFunc)
ORDER: Nodes = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Greatest, exp.Least, exp.Min, exp.Max)


class Connection(Protocol):
    """The methods of a database that the tables need."""

    def fetch(self, sql: str) -> list[tuple[Any, ...]]: ...
    def quoted(self, name: str) -> str: ...


class OwnType(NamedTuple):
    """How values of such a type leave the database, and come back."""

    cast: str
    """The type for a cast of values that come back, or `COLLATE` and the name of a collation."""
    leave_as: str = ""
    """The type to which they are cast when they leave, if the driver or Arrow would change them."""
    within: Nodes = ()
    """The only expressions that differ; empty: all."""
    refused: str = ""
    """Why arithmetic is refused, where values cannot come back as what they were."""


# DuckDB ---------------------------------------------------------------------------------------------------------------

_DUCKDB = ("ENUM(", "INTERVAL", "TIMESTAMP_NS", "FLOAT", "TIME WITH TIME ZONE", "BIT", "UHUGEINT")
_NOT_IN_ARROW = ("TIME WITH TIME ZONE", "BIT", "UHUGEINT")


def duckdb_type(kind: str) -> OwnType | None:
    """The own type of a column that DESCRIBE shows as `kind`."""
    if not kind.startswith(_DUCKDB) or kind.endswith("]"):
        return None
    return OwnType(kind, "VARCHAR" * (kind in _NOT_IN_ARROW), ARITHMETIC if kind == "FLOAT" else ())


# PostgreSQL -----------------------------------------------------------------------------------------------------------

_POSTGRESQL = {
    **dict.fromkeys((16, 17, 18, 20, 21, 23, 25, 26, 701, 1043, 1082, 1114, 1700), None),
    19: OwnType("name", "text", ORDER), 700: OwnType("real", "", ARITHMETIC), 1042: OwnType("bpchar"),
    1083: OwnType("time", "text"), 1184: OwnType("timestamptz", "", ARITHMETIC), 1560: OwnType("varbit", "text"),
}  # fmt: skip
"""The own types by OID; None: values compare and compute alike."""
_TEXTS_BY_OID = (19, 25, 1042, 1043)


def postgresql_types(database: Connection, select: str, shape: Sequence[tuple[str, int]]) -> dict[str, OwnType]:
    """The own types of a SELECT's columns, by their names and OIDs.

    Values for which Arrow has no type leave as text.
    """
    others = ", ".join({str(oid) for _, oid in shape if oid not in _POSTGRESQL})
    listed = f"SELECT CAST(oid AS BIGINT), FORMAT_TYPE(oid, NULL) FROM pg_type WHERE oid IN ({others})"
    names = dict(cast("list[tuple[int, str]]", database.fetch(listed))) if others else {}
    kinds = {name: _POSTGRESQL[oid] if oid in _POSTGRESQL else OwnType(names[oid], "text") for name, oid in shape}
    texts = [name for name, oid in shape if oid in _TEXTS_BY_OID and kinds[name] is None]
    if texts:
        default = "(SELECT datcollate FROM pg_database WHERE datname = CURRENT_DATABASE())"
        own, *found = _of_no_row(database, select, default, "CAST(PG_COLLATION_FOR({}) AS TEXT)", texts)
        kinds |= {name: _postgresql_collation(kind, own) for name, kind in zip(texts, found, strict=True)}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _of_no_row(database: Connection, select: str, first: str, call: str, columns: Sequence[str]) -> tuple[Any, ...]:
    """One row, over NULLs in place of the columns of a SELECT: the expression `first`, and `call` for each column."""
    calls = ", ".join(call.format(database.quoted(name)) for name in columns)
    rows = f"(SELECT 1 AS one) AS o LEFT JOIN (SELECT * FROM ({select}) AS s LIMIT 0) AS q ON TRUE"
    return database.fetch(f"SELECT {first}, {calls} FROM {rows}")[0]


def _postgresql_collation(name: str, default: str) -> OwnType | None:
    """The own type of texts with a collation; `default` is the database's own.

    Only its order differs from the bridge's.
    """
    is_default = name == '"default"'
    is_binary = (default if is_default else name.strip('"')) in ("C", "POSIX", "C.UTF-8", "C.utf8", "ucs_basic")
    return None if is_binary else OwnType(f"COLLATE {name}", "", ORDER if is_default else ())


# MariaDB --------------------------------------------------------------------------------------------------------------

_UNSIGNED, _ENUM_OR_SET, _BINARY_CHARSET = 32, 256 | 2048, 63
_BY_NUMBER = (
    "MariaDB computes with the numbers of an ENUM or a SET, which leave it as texts: write x + 0 in a sub-query"
)
_INTEGERS, _TEXTS = (1, 2, 3, 8, 9), (249, 250, 251, 252, 253, 254)
_MARIADB = {
    4: OwnType("FLOAT", "DOUBLE"), 7: OwnType("DATETIME(6)", "", ARITHMETIC), 10: OwnType("DATE", "", ARITHMETIC),
    11: OwnType("TIME(6)", "CHAR"), 12: OwnType("DATETIME(6)", "", ARITHMETIC), 16: OwnType("UNSIGNED", "UNSIGNED"),
}  # fmt: skip
"""The own types by the type code of the protocol."""


def mariadb_types(database: Connection, select: str, fields: Sequence[Any], collation: str) -> dict[str, OwnType]:
    """The own types of a SELECT's columns, by their descriptions in PyMySQL; `collation` is that of the bridge's tables."""
    own = {field.name: kind for field in fields if (kind := _mariadb_type(field)) is not None}
    texts = [field.name for field in fields if field.type_code in _TEXTS and not is_mariadb_binary(field)]
    if texts:
        _, *found = _of_no_row(database, select, "1", "COLLATION({})", texts)
        kinds = [re.sub("^[a-z0-9]+", "utf8mb4", kind) for kind in found]
        own |= {name: OwnType(f"COLLATE {kind}") for name, kind in zip(texts, kinds, strict=True) if kind != collation}
    for name in (field.name for field in fields if field.flags & _ENUM_OR_SET):
        own[name] = own.get(name, OwnType(f"COLLATE {collation}"))._replace(refused=_BY_NUMBER)
    return own


def _mariadb_type(field: Any) -> OwnType | None:
    if field.type_code in _INTEGERS and field.flags & _UNSIGNED:
        return OwnType("UNSIGNED", "", ARITHMETIC)
    if field.type_code == 246 and (digits := field.length - (field.scale > 0) - 1) > 38:
        return OwnType(f"DECIMAL({min(digits, 65)}, {field.scale})", "CHAR")
    return _MARIADB.get(field.type_code)


def is_mariadb_binary(field: Any) -> bool:
    """True for a column of bytes."""
    return field.type_code in _TEXTS and field.charsetnr == _BINARY_CHARSET
