"""Values of the expressions of MEASURES and DEFINE, by the definitions of SQL:2016: slow, plain, sharing no code.

NULL is None, truth is True, False or None. A row is a dict; a row pattern function names a row of the partition first
and is then its argument, evaluated at that row.
"""

from __future__ import annotations

import dataclasses
import decimal
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

Row = Mapping[str, Any]
AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


class Step(NamedTuple):
    """A row of a match: the symbol it is mapped to, its place in the partition, whether `{- -}` hides it."""

    symbol: str
    row: int
    excluded: bool = False


@dataclasses.dataclass(frozen=True)
class Scene:
    """What an expression can see.

    `rows` is the partition, `steps` the match, of which RUNNING sees the first `seen`; `at` is the row a navigation or
    an aggregate stands on, while its argument is evaluated; `subsets` names the symbols of each union variable.
    """

    rows: Sequence[Row]
    steps: tuple[Step, ...]
    seen: int
    number: int = 1
    subsets: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    final: bool = False
    at: int | None = None

    def of(self, variable: str | None) -> list[Step]:
        """The visible steps of a variable; those of all variables for None."""
        visible = self.steps if self.final else self.steps[: self.seen]
        names = self.subsets.get(variable or "", (variable,))
        return [step for step in visible if variable is None or step.symbol in names]


def value(tree: exp.Expr, scene: Scene) -> Any:
    """The value of an expression."""
    if isinstance(tree, exp.Column):
        return _column(tree, scene)
    if isinstance(tree, exp.Anonymous):
        return _FUNCTIONS[tree.name.upper()](tree, scene)
    if isinstance(tree, AGGREGATES):
        return _aggregate(tree, scene)
    if isinstance(tree, exp.Literal):
        return tree.this if tree.is_string else _number(tree.this)
    if type(tree) in _LAZY:
        return _LAZY[type(tree)](tree, scene)
    return _strict(tree, scene)


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)


# Rows -----------------------------------------------------------------------------------------------------------------


def _column(tree: exp.Column, scene: Scene) -> Any:
    """`A.x` is `LAST(A.x)`; inside a navigation or an aggregate it is the column of the row they stand on."""
    if scene.at is not None:
        return cell(scene.rows[scene.at], tree.name)
    steps = scene.of(tree.table or None)
    return cell(scene.rows[steps[-1].row], tree.name) if steps else None


def cell(row: Row, name: str) -> Any:
    """A column of a row, whatever the case of its name."""
    return row[name] if name in row else next(one for key, one in row.items() if key.lower() == name.lower())


def _navigated(tree: exp.Anonymous, scene: Scene) -> Any:
    row, argument = _row_of(tree, scene)
    return None if row is None else value(argument, dataclasses.replace(scene, at=row))


def _row_of(tree: exp.Expr, scene: Scene) -> tuple[int | None, exp.Expr]:
    """The row that a navigation names, in the partition, and what is wanted of it; no row is None."""
    name = tree.name.upper() if isinstance(tree, exp.Anonymous) else ""
    if name in ("RUNNING", "FINAL"):
        return _row_of(tree.expressions[0], dataclasses.replace(scene, final=name == "FINAL"))
    if name in ("FIRST", "LAST"):
        return _within_match(tree, scene, name), tree.expressions[0]
    if name in ("PREV", "NEXT"):
        return _within_partition(tree, scene, name)
    steps = scene.of(variable_of(tree))
    return (steps[-1].row if steps else None), tree


def _within_match(tree: exp.Expr, scene: Scene, name: str) -> int | None:
    steps = scene.of(variable_of(tree.expressions[0]))
    offset = _offset(tree, scene, 0)
    place = offset if name == "FIRST" else len(steps) - 1 - offset
    return steps[place].row if 0 <= place < len(steps) else None


def _within_partition(tree: exp.Expr, scene: Scene, name: str) -> tuple[int | None, exp.Expr]:
    row, argument = _row_of(tree.expressions[0], scene)
    offset = _offset(tree, scene, 1)
    if row is not None:
        row += offset if name == "NEXT" else -offset
    return (row if row is not None and 0 <= row < len(scene.rows) else None), argument


def _offset(tree: exp.Expr, scene: Scene, default: int) -> int:
    offset = value(tree.expressions[1], scene) if len(tree.expressions) > 1 else default
    assert isinstance(offset, int)
    return offset


def variable_of(tree: exp.Expr) -> str | None:
    """The one variable that the argument of a navigation or an aggregate is about; None is all rows of the match."""
    for node in tree.walk():
        if isinstance(node, exp.Anonymous) and node.name.upper() == "CLASSIFIER" and node.expressions:
            return str(node.expressions[0].name)
        if isinstance(node, exp.Column) and node.table:
            return str(node.table)
    return None


def _classifier(tree: exp.Anonymous, scene: Scene) -> str | None:
    if scene.at is not None:
        return next((step.symbol for step in scene.steps if step.row == scene.at), None)
    steps = scene.of(variable_of(tree))
    return steps[-1].symbol if steps else None


def _in_semantics(tree: exp.Anonymous, scene: Scene) -> Any:
    return value(tree.expressions[0], dataclasses.replace(scene, final=tree.name.upper() == "FINAL"))


_FUNCTIONS: dict[str, Callable[[exp.Anonymous, Scene], Any]] = {
    **dict.fromkeys(("FIRST", "LAST", "PREV", "NEXT"), _navigated),
    **dict.fromkeys(("RUNNING", "FINAL"), _in_semantics),
    "CLASSIFIER": _classifier,
    "MATCH_NUMBER": lambda tree, scene: scene.number,
}


# Aggregates -----------------------------------------------------------------------------------------------------------


def _aggregate(tree: exp.Expr, scene: Scene) -> Any:
    argument = tree.this
    distinct = isinstance(argument, exp.Distinct)
    if distinct:
        (argument,) = argument.expressions
    steps = scene.of(variable_of(argument))
    if isinstance(argument, exp.Star) or argument.find(exp.Star):
        return len(steps)
    found = [value(argument, dataclasses.replace(scene, at=step.row)) for step in steps]
    known = [one for one in found if one is not None]
    return _summary(tree, list(dict.fromkeys(known)) if distinct else known)


def _summary(tree: exp.Expr, known: list[Any]) -> Any:
    if isinstance(tree, exp.Count):
        return len(known)
    if not known:
        return None
    if isinstance(tree, exp.Avg):
        return sum(known) / len(known)
    return sum(known) if isinstance(tree, exp.Sum) else min(known) if isinstance(tree, exp.Min) else max(known)


# Truth that may be known without both sides ----------------------------------------------------------------------------


def _and(tree: exp.Expr, scene: Scene) -> bool | None:
    sides = [value(tree.this, scene), value(tree.expression, scene)]
    if any(side is not None and not side for side in sides):
        return False
    return None if None in sides else True


def _or(tree: exp.Expr, scene: Scene) -> bool | None:
    sides = [value(tree.this, scene), value(tree.expression, scene)]
    return True if any(sides) else None if None in sides else False


def _is(tree: exp.Expr, scene: Scene) -> bool:
    return bool(value(tree.this, scene) == value(tree.expression, scene))


def _between(tree: exp.Expr, scene: Scene) -> bool | None:
    low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
    high = exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
    return _and(exp.And(this=low, expression=high), scene)


def _in(tree: exp.Expr, scene: Scene) -> bool | None:
    wanted = value(tree.this, scene)
    listed = [value(one, scene) for one in tree.expressions]
    if wanted is None:
        return None
    return True if wanted in listed else None if None in listed else False


def _case(tree: exp.Expr, scene: Scene) -> Any:
    for branch in tree.args["ifs"]:
        tested = value(branch.this, scene)
        if tree.this is not None:
            tested = tested is not None and tested == value(tree.this, scene)
        if tested:
            return value(branch.args["true"], scene)
    default = tree.args.get("default")
    return None if default is None else value(default, scene)


def _coalesce(tree: exp.Expr, scene: Scene) -> Any:
    found = (value(one, scene) for one in (tree.this, *tree.expressions))
    return next((one for one in found if one is not None), None)


_LAZY: dict[type[exp.Expr], Callable[[exp.Expr, Scene], Any]] = {
    exp.And: _and,
    exp.Or: _or,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Null: lambda tree, scene: None,
    exp.Boolean: lambda tree, scene: bool(tree.this),
    exp.Alias: lambda tree, scene: value(tree.this, scene),
    exp.Paren: lambda tree, scene: value(tree.this, scene),
}


# What is NULL where an operand is --------------------------------------------------------------------------------------


def _strict(tree: exp.Expr, scene: Scene) -> Any:
    if type(tree) not in _OPERATORS:
        raise NotImplementedError(f"{type(tree).__name__}: {tree}")
    operands = [value(one, scene) for one in (tree.this, tree.args.get("expression")) if one is not None]
    return None if None in operands else _OPERATORS[type(tree)](*_alike(operands))


def _alike(operands: list[Any]) -> list[Any]:
    kinds = {type(one) for one in operands}
    return [float(one) for one in operands] if kinds == {float, decimal.Decimal} else operands


def _like(text: str, pattern: str) -> bool:
    parts = ({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


_OPERATORS: dict[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: lambda one, other: one / other if other else None,
    exp.Neg: operator.neg,
    exp.Abs: abs,
    exp.Not: operator.not_,
    exp.Like: _like,
    exp.DPipe: lambda one, other: f"{one}{other}",
    exp.Upper: str.upper,
    exp.Lower: str.lower,
}
