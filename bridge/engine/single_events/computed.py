"""SELECTs over the values of one event, computed in this process where the result is proven equal to the database's.

Such a SELECT has no FROM: only values of the event, whole numbers, and conditions. It is computed if it only compares values
of one kind (whole numbers with whole numbers, doubles with doubles that are not NaN, texts for equality), and adds and
subtracts numbers that are not too large. Everything else (other arithmetic, other types, NaN) is left to the database.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias, TypeGuard

from sqlglot import exp

from windows.types import PYTHON_TYPES

Row: TypeAlias = tuple[Any, ...]
Compute: TypeAlias = Callable[[Row], "list[Row] | None"]
"""The rows of the SELECT for an event's row; None where a value is of another type than its column, or NaN."""

_TYPE_NAMES = {name: kind.__name__ for name, kind in PYTHON_TYPES.items()}
"""The names of the Python types of columns."""

_CLAUSES = {"expressions", "where", "kind", "hint", "operation_modifiers"}
_LARGEST = {"int": 2**63 - 1, "float": 2**53}
"""The greatest whole number in a query that stays exact: 64 bits beside whole numbers, 53 beside doubles."""

DIGITS = 15
"""The digits up to which every database reads a number with a decimal point as the nearest double."""

MOST_OPERANDS = 16
"""The number of values that are added and subtracted here at most. Longer sums are left to the database."""

_BUILTINS = {"all": all, "zip": zip, "type": type, "int": int, "float": float, "str": str, "bool": bool}


class _OtherwiseError(Exception):
    """Raised where the database has to compute the SELECT."""


def has_only_values(statement: exp.Expr) -> TypeGuard[exp.Select]:
    """Whether the statement is a SELECT that reads no table, and so gives at most one row."""
    return isinstance(statement, exp.Select) and not any(
        value for part, value in statement.args.items() if part not in _CLAUSES
    )


def is_condition(node: exp.Expr) -> bool:
    """Whether a value is that of a condition: true, false or NULL."""
    return isinstance(node.unnest(), exp.Predicate | exp.Connector | exp.Not)


Joined: TypeAlias = Callable[[Row, Sequence["list[Any]"]], "list[Row] | None"]
"""Computes the rows of the SELECT from an event's row and the rows of a window, given as one list per column."""

_BOUNDS = {"int": 2**53, "float": 1e300}
"""The magnitudes up to which a few numbers can be added without leaving their type."""


def joined(
    select: exp.Select, place_of: Callable[[exp.Expr], int | None], types: Sequence[str], proven: Collection[str], width: int
) -> Joined | None:  # fmt: skip
    """The function that computes a SELECT of values of the event (the first `width` places) and of a row of a window.

    >>> from sqlglot import parse_one
    >>> rows = joined(parse_one("SELECT b AS x WHERE a > b - 2"), lambda node: {"a": 0, "b": 1}.get(node.sql()),
    ...               ["BIGINT", "BIGINT"], {"BIGINT"}, 1)
    >>> rows((4,), [[3, 7, 5, None]]), rows((2**60,), [[3]])
    ([(3,), (5,)], [(3,)])
    """
    try:
        return _SelectCode(place_of, types, proven).function_over(select, width)
    except (_OtherwiseError, SyntaxError, MemoryError, RecursionError):
        return None


def computed(
    select: exp.Select, place_of: Callable[[exp.Expr], int | None], types: Sequence[str], proven: Collection[str]
) -> Compute | None:
    """The function that computes a SELECT; None where only the database can.

    Args:
        select: One that `has_only_values`.
        place_of: The place of an event's value in its row; None for another expression.
        types: The types of the columns of that row.
        proven: The types whose values the database compares and returns as Python does.

    >>> from sqlglot import parse_one
    >>> rows = computed(parse_one("SELECT a AS x, 7 AS y WHERE a > 5"), lambda node: 0 if node.sql() == "a" else None,
    ...                 ["BIGINT"], {"BIGINT"})
    >>> rows((9,)), rows((3,)), rows((None,)), rows((9.5,))
    ([(9, 7)], [], [], None)
    >>> rows = computed(parse_one("SELECT a > 5 AS x"), lambda node: 0 if node.sql() == "a" else None,
    ...                 ["BIGINT"], {"BIGINT", "BOOLEAN"})
    >>> rows((9,)), rows((3,)), rows((None,))
    ([(True,)], [(False,)], [(None,)])
    """
    try:
        return _SelectCode(place_of, types, proven).function(select)
    except (_OtherwiseError, SyntaxError, MemoryError, RecursionError):  # nested too deeply for Python
        return None


class _SelectCode:
    """The Python source of a SELECT; the value at a place of the row is called `_v` and that place."""

    def __init__(
        self, place_of: Callable[[exp.Expr], int | None], types: Sequence[str], proven: Collection[str]
    ) -> None:
        self._place_of, self._types, self._proven = place_of, types, proven
        self._read: set[int] = set()
        self._added: set[int] = set()
        """The places of the values that are added or subtracted."""

    def function_over(self, select: exp.Select, width: int) -> Joined:
        """The function of an event's values and the rows of a window, whose values have the types of their columns."""
        from bridge.patterns.evaluate.python import HELPERS

        items = "".join(f"{self._item(item.unalias())}, " for item in select.expressions)
        where = select.args.get("where")
        condition = "" if where is None else f" if {self._truth(where.this)}"
        names = [f"_v{place}" for place in range(len(self._types))]
        checks = [self._check(place) for place in sorted(self._read) if place < width]
        added = [place for place in sorted(self._added) if place >= width]
        checks += [
            f"all(_v is None or {self._bounded(place, '_v')} for _v in _columns[{place - width}])" for place in added
        ]
        rows = f"[({items}) for {', '.join(names[width:])}, in zip(*_columns){condition}]"
        source = (
            f"lambda {', '.join([*names[:width], '_columns'])}: {rows} if {' and '.join(checks) or 'True'} else None"
        )
        function: Callable[..., Any] = eval(source, {**HELPERS, **_BUILTINS})
        return lambda row, columns: function(*row, columns)

    def function(self, select: exp.Select) -> Compute:
        from bridge.patterns.evaluate.python import HELPERS  # which loads Arrow

        items = "".join(f"{self._item(item.unalias())}, " for item in select.expressions)
        where = select.args.get("where")
        rows = f"[({items})]" + (f" if {self._truth(where.this)} else []" if where is not None else "")
        checks = " and ".join(map(self._check, sorted(self._read))) or "True"
        names = ", ".join(f"_v{place}" for place in range(len(self._types)))
        source = f"lambda {names}: ({rows}) if {checks} else None"
        function: Callable[..., Any] = eval(source, {**HELPERS, **_BUILTINS})
        return lambda row: function(*row)

    def _check(self, place: int) -> str:
        """Python that is true where a value is NULL, or is of its column's type and not NaN."""
        name, kind = f"_v{place}", _TYPE_NAMES[self._types[place]]
        is_number = f" and {name} == {name}" if kind == "float" else ""
        is_small = f" and {self._bounded(place, name)}" if place in self._added else ""
        return f"({name} is None or (type({name}) is {kind}{is_number}{is_small}))"

    def _bounded(self, place: int, name: str) -> str:
        bound = _BOUNDS[_TYPE_NAMES[self._types[place]]]
        return f"-{bound} < {name} < {bound}"

    def _item(self, node: exp.Expr) -> str:
        """Python for a value of the event (possibly with CASE), a condition, a whole number, or a sum of conditional numbers."""
        if isinstance(node, exp.Paren):
            return self._item(node.this)
        if isinstance(node, exp.Null):
            return "None"
        is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()
        if is_number and int(node.name) <= _LARGEST["int"]:
            return node.name
        if isinstance(node, exp.Boolean) and "BOOLEAN" in self._proven:
            return str(bool(node.this))
        if self._place_of(node) is not None:
            return self._value(node)
        if is_condition(node) and "BOOLEAN" in self._proven:
            opposite = exp.Not(this=exp.Paren(this=node.copy()))
            return f"(True if {self._truth(node)} else False if {self._truth(opposite)} else None)"
        if isinstance(node, exp.Coalesce) and len(node.expressions) == 1 and self._place_of(node.this) is not None:
            value = self._value(node.this)
            if _TYPE_NAMES[self._types[int(value[2:])]] != "int":
                raise _OtherwiseError
            return f"({_whole(node.expressions[0])} if {value} is None else {value})"
        if (
            isinstance(node, exp.Case)
            and node.this is None
            and not node.args.get("default")
            and len(node.args["ifs"]) == 1
        ):
            (branch,) = node.args["ifs"]
            if self._place_of(branch.args["true"]) is not None:
                return f"({self._value(branch.args['true'])} if {self._truth(branch.this)} else None)"
        operands = list(itertools.islice(_operands(node), MOST_OPERANDS + 1))
        if len(operands) <= MOST_OPERANDS and any(self._place_of(each) is not None for each in operands):
            return self._difference(node)
        return self._sum(node)

    def _difference(self, node: exp.Expr) -> str:
        """Values of the event that are added and subtracted, also whole numbers as written; NULL if one of them is."""
        values = node.transform(self._named)
        kind = self._kind(values)
        if kind is None or not self._is_of(values, kind):
            raise _OtherwiseError
        names = dict.fromkeys(column.name for column in values.find_all(exp.Column))
        known = " and ".join(f"{name} is not None" for name in names)
        return f"(({values.sql()}) if {known} else None)"

    def _sum(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Add):
            return f"{self._sum(node.this)} + {self._sum(node.expression)}"
        if isinstance(node, exp.Cast) and node.to.is_type("BIGINT", "INT"):
            return str(_whole(node.this))
        if isinstance(node, exp.Case) and node.this is None and len(node.args["ifs"]) == 1:
            (branch,) = node.args["ifs"]
            return (
                f"({_whole(branch.args['true'])} if {self._truth(branch.this)} else {_whole(node.args.get('default'))})"
            )
        return str(_whole(node))

    def _truth(self, condition: exp.Expr) -> str:
        """Python that is true where a condition is."""
        from bridge.patterns.evaluate.python import truth

        values = condition.transform(self._named)
        self._refuse_other(values)
        nullable = {f"_v{place}" for place in self._read}
        found = truth(values, nullable)
        if found is None:
            raise _OtherwiseError
        return found

    def _named(self, node: exp.Expr) -> exp.Expr:
        if self._place_of(node) is not None:
            return exp.column(self._value(node))
        if isinstance(node, exp.Column):  # of a sub-query
            raise _OtherwiseError
        return node

    def _value(self, node: exp.Expr) -> str:
        place = self._place_of(node)
        assert place is not None
        if self._types[place] not in self._proven or self._types[place] not in _TYPE_NAMES:
            raise _OtherwiseError
        self._read.add(place)
        return f"_v{place}"

    def _refuse_other(self, node: exp.Expr) -> None:
        """Raises _OtherwiseError unless a condition only compares values of one kind."""
        match node:
            case exp.And() | exp.Or():
                self._refuse_other(node.this)
                self._refuse_other(node.expression)
            case exp.Not() | exp.Paren():
                self._refuse_other(node.this)
            case exp.Coalesce():
                for part in (node.this, *node.expressions):
                    self._refuse_other(part)
            case exp.Is() if isinstance(node.expression, exp.Null) and self._kind(node.this) is not None:
                pass
            case exp.Boolean():
                pass
            case exp.Column() if self._kind(node) == "bool":
                pass
            case exp.EQ() | exp.NEQ():
                self._refuse_unlike(node.this, node.expression, ("int", "float", "str"))
            case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                self._refuse_unlike(node.this, node.expression, ("int", "float"))
            case exp.Between():
                self._refuse_unlike(node.this, node.args["low"], ("int", "float"))
                self._refuse_unlike(node.this, node.args["high"], ("int", "float"))
            case _:
                raise _OtherwiseError

    def _refuse_unlike(self, left: exp.Expr, right: exp.Expr, kinds: Collection[str]) -> None:
        kind = self._kind(left) or self._kind(right)
        if kind is None or kind not in kinds or not all(self._is_of(side, kind) for side in (left, right)):
            raise _OtherwiseError

    def _kind(self, node: exp.Expr) -> str | None:
        """The kind of an event's value."""
        if isinstance(node, exp.Paren | exp.Add | exp.Sub):
            return self._kind(node.this) or (None if isinstance(node, exp.Paren) else self._kind(node.expression))
        return _TYPE_NAMES[self._types[int(node.name[2:])]] if isinstance(node, exp.Column) else None

    def _is_of(self, node: exp.Expr, kind: str) -> bool:
        """Whether it is an event's value of this kind, or a literal that the database reads as such a value."""
        if isinstance(node, exp.Paren):
            return self._is_of(node.this, kind)
        if isinstance(node, exp.Add | exp.Sub):
            columns = list(node.find_all(exp.Column))
            self._added |= {int(column.name[2:]) for column in columns}
            literals = [literal.name.partition(".")[0] for literal in node.find_all(exp.Literal)]
            is_small = all(whole.isdecimal() and int(whole) < _BOUNDS["int"] for whole in literals)
            # The sum of two literals is a DECIMAL in databases.
            is_number = kind in _BOUNDS and is_small and bool(columns)
            return is_number and self._is_of(node.this, kind) and self._is_of(node.expression, kind)
        if isinstance(node, exp.Column):
            return self._kind(node) == kind
        if isinstance(node, exp.Neg):
            return kind != "str" and isinstance(node.this, exp.Literal) and self._is_of(node.this, kind)
        if not isinstance(node, exp.Literal) or node.is_string != (kind == "str"):
            return False
        if kind == "str":
            return True
        whole, _, fraction = node.name.partition(".")
        if not fraction:
            return node.name.isdecimal() and int(node.name) <= _LARGEST[kind]
        digits = whole + fraction
        return kind == "float" and digits.isdecimal() and len(digits) <= DIGITS


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions that a sum or difference adds and subtracts, in any order."""
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, exp.Add | exp.Sub):
            stack += part.this, part.expression
        elif isinstance(part, exp.Paren):
            stack.append(part.this)
        else:
            yield part


def _whole(node: exp.Expr | None) -> int:
    """A whole number as written; raises _OtherwiseError for another expression."""
    if isinstance(node, exp.Cast) and node.to.is_type("BIGINT"):
        return _whole(node.this)
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal() and int(node.name) < 2**62:
        return int(node.name)
    raise _OtherwiseError
