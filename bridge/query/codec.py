"""Query objects as JSON and back, to store queries; and fingerprints of query objects.

Only classes of query objects, patterns and schemas are decoded, so a stored text cannot name other classes.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import hashlib
import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp, serde

_PACKAGES = ("bridge.query.", "bridge.frontends.", "nfa.", "windows.")
"""Where the classes of stored objects are defined."""

_CLASS, _VALUE = "class", "value"


def dumped(value: Any) -> str:
    """Query objects as JSON text.

    Raises:
        TypeError: An object is of a kind that cannot be stored.

    >>> from bridge.query import Filter, Stream
    >>> loaded(dumped(Filter(Stream("s"), "a > 1"))) == Filter(Stream("s"), "a > 1")
    True
    """
    return json.dumps(_encoded(value, _of_expression))


def loaded(text: str) -> Any:
    """The query objects in a text written by `dumped`.

    Raises:
        ValueError: The text names a class that is not one of a query.
    """
    return _decoded(json.loads(text))


def fingerprint(value: Any) -> str:
    """A text of 24 digits that is equal for equal objects, in every process; positions in a text are ignored.

    It does not depend on the modules in which the classes are defined.

    >>> from bridge.query import Filter, Stream
    >>> fingerprint(Filter(Stream("s"), "a > 1")) == fingerprint(Filter(Stream("s"), "a>1"))
    True
    """
    text = json.dumps(_encoded(value, repr, only_compared=True), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _encoded(value: Any, of_expression: Callable[[exp.Expr], Any], only_compared: bool = False) -> Any:
    """A value in the types of JSON: lists for tuples, and objects with their class for everything else."""

    def encoded(below: Any) -> Any:
        return _encoded(below, of_expression, only_compared)

    def path(cls: type) -> str:
        return cls.__qualname__ if only_compared else f"{cls.__module__}:{cls.__qualname__}"

    match value:
        case None | bool() | str():
            return value
        case enum.Enum():
            return {_CLASS: path(type(value)), _VALUE: value.name}
        case int() | float():
            return value
        case exp.Expr():
            return {_CLASS: "expression", _VALUE: of_expression(value)}
        case tuple() if hasattr(value, "_fields"):
            return {_CLASS: path(type(value)), _VALUE: [encoded(each) for each in value]}
        case tuple():
            return [encoded(each) for each in value]
        case list() | set() | frozenset():
            each_one = [encoded(each) for each in value]
            ordered = each_one if isinstance(value, list) else sorted(each_one, key=json.dumps)
            return {_CLASS: type(value).__name__, _VALUE: ordered}
        case Mapping():
            return {_CLASS: "dict", _VALUE: [[encoded(key), encoded(each)] for key, each in value.items()]}
        case decimal.Decimal() | datetime.date() | datetime.time():
            return {_CLASS: type(value).__name__, _VALUE: str(value)}
        case bytes():
            return {_CLASS: "bytes", _VALUE: value.hex()}
    if isinstance(value, type):
        return {_CLASS: "type", _VALUE: path(value)}
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.compare or not only_compared]
        return {_CLASS: path(type(value)), _VALUE: {name: encoded(getattr(value, name)) for name in fields}}
    raise TypeError(f"{type(value).__name__} is not an object of a query that can be stored: {value!r}")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    if not isinstance(value, dict):
        return value
    name, below = value[_CLASS], value[_VALUE]
    if name in _DECODERS:
        return _DECODERS[name](below)
    cls = _class(name)
    if issubclass(cls, enum.Enum):
        return cls[below]
    if issubclass(cls, tuple):
        return cls(*map(_decoded, below))
    made = object.__new__(cls)  # the values were checked, so `__post_init__` is not needed
    for field, each in below.items():
        object.__setattr__(made, field, _decoded(each))
    return made


_META = "m"
"""The key under which sqlglot writes the metadata of a node, which may be another expression."""


def _of_expression(expression: exp.Expr) -> Any:
    nodes = serde.dump(expression)
    for node in (node for node in nodes if _META in node):
        node[_META] = {
            name: {_CLASS: "expression", _VALUE: _of_expression(noted)} if isinstance(noted, exp.Expr) else noted
            for name, noted in node[_META].items()
        }
    return nodes


def _expression(nodes: list[dict[str, Any]]) -> Any:
    for name in (str(node.get("c", "")) for node in nodes):
        if "." in name and name != serde.DATA_TYPE and not name.startswith("sqlglot.expressions."):
            raise ValueError(f"a stored expression has an object of {name!r}, which is not of SQL")
    for node in (node for node in nodes if _META in node):
        for name, noted in node[_META].items():
            if isinstance(noted, dict) and noted.get(_CLASS) == "expression":
                node[_META][name] = _expression(noted[_VALUE])
    return serde.load(nodes)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "expression": _expression,
    "list": lambda below: list(map(_decoded, below)),
    "set": lambda below: set(map(_decoded, below)),
    "frozenset": lambda below: frozenset(map(_decoded, below)),
    "dict": lambda below: {_decoded(key): _decoded(each) for key, each in below},
    "Decimal": decimal.Decimal,
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "bytes": bytes.fromhex,
    "type": lambda name: _class(name),
}


def _class(path: str) -> type:
    module, _, name = path.partition(":")
    if not module.startswith(_PACKAGES):
        raise ValueError(f"a stored query has an object of {module!r}, which has no query objects")
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, type) or not (dataclasses.is_dataclass(found) or issubclass(found, (enum.Enum, tuple))):
        raise ValueError(f"a stored query has an object of the unknown class {path!r}")
    return found
