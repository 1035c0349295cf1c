"""Aggregate functions: what the bridge knows of each, one row per function in `AGGREGATES`.

Type checks, rewriting and row patterns read this table. An aggregate without a row still works where the database has it:
it is computed over all rows of the window, and sqlglot or the database says what its type is. A database that lacks an
aggregate, or creates it itself, says so in its own file (`Database.is_aggregate`).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from windows.sql import cast_to, number

ARGUMENT = "argument"
"""A value of `AggregateFunction.result`: the result has the type of the argument."""

NUMBERS, SCALARS = "numbers", "scalars"
"""Values of `AggregateFunction.of`: it aggregates only numbers, or only values that are not nested."""


@dataclasses.dataclass(frozen=True)
class Running:
    """How a search for row patterns updates an aggregate, row by row.

    `join` combines the value so far with a row's value; `text` is the same as Python source, of `{0}` and `{1}`. With
    `is_mean` the result is the joined value divided by the number of values.
    """

    join: Callable[[Any, Any], Any]
    text: str
    is_mean: bool = False


@dataclasses.dataclass(frozen=True)
class Decomposition:
    """How an aggregate is computed from aggregates of parts of the rows (Gray et al. 1997: distributive, algebraic).

    `functions` are computed for each part, by default the aggregate itself; `combine` makes the result of the merged
    values.
    """

    functions: tuple[type[exp.AggFunc], ...] = ()
    combine: Callable[..., exp.Expr] = lambda value: value


@dataclasses.dataclass(frozen=True)
class AggregateFunction:
    """An aggregate function. The defaults describe most functions: they ignore NULLs, and are NULL over no rows.

    Args:
        name: the name in SQL.
        function: sqlglot's class; None if sqlglot does not know the name.
        result: the type of its values, or `ARGUMENT`; empty: sqlglot determines it.
        keeps_scale: over DECIMALs its value is a DECIMAL of the same scale.
        of: what it aggregates, `NUMBERS` or `SCALARS`; empty: any values.
        is_universal: every database has it, or the bridge writes it in other words.
        empty: its value over no rows.
        is_edge: the value of one row, the n-th from the oldest or the newest.
        in_row_order: it depends on the order of the rows.
        sees_nulls: a row counts also if its value is NULL.
        parts: how it is computed from aggregates of parts of the rows; None if it is not.
        of_row: makes, of the argument, its value over a single row; by default the argument.
        merge: the aggregate that merges the values of several parts; by default the function itself.
        pair: merges the values of two parts, neither of which is NULL.
        is_exact: the value does not depend on the order in which parts are merged, also of DOUBLEs.
        slides: databases can remove a row from a frame without reading the other rows again.
        running: how row patterns keep it up to date; None if they compute it anew.
        ufunc: numpy's function that reduces an array likewise.
    """

    name: str
    function: type[exp.AggFunc] | None = None
    result: str = ""
    keeps_scale: bool = False
    of: str = ""
    is_universal: bool = False
    empty: int | None = None
    is_edge: bool = False
    in_row_order: bool = False
    sees_nulls: bool = False
    parts: Decomposition | None = None
    of_row: Callable[[exp.Expr], exp.Expr] = lambda argument: argument
    merge: type[exp.AggFunc] | None = None
    pair: Callable[[exp.Expr, exp.Expr], exp.Expr] = lambda left, right: exp.null()
    is_exact: bool = True
    slides: bool = False
    running: Running | None = None
    ufunc: str = ""

    def call(self, value: exp.Expr) -> exp.AggFunc:
        """The call of the function over a value."""
        if self.function is None:
            return exp.AnonymousAggFunc(this=self.name, expressions=[value])
        return self.function(this=value)

    def merged(self, values: exp.Expr) -> exp.Expr:
        """The merged value of several parts, whose values are in a column."""
        merged = self.call(values) if self.merge is None else self.merge(this=values)
        return merged if self.empty is None else cast_to(merged, "BIGINT")

    def over_nothing(self) -> exp.Expr:
        """Its value over no rows."""
        return exp.null() if self.empty is None else cast_to(number(self.empty), "BIGINT")


def _least(left: Any, right: Any) -> Any:
    """The smaller value; NaN is greater than all other numbers.

    >>> _least(float("nan"), 5), _least(3, float("nan"))
    (5, 3)
    """
    return right if right < left or left != left else left


def _greatest(left: Any, right: Any) -> Any:
    """The greater value; NaN is greater than all other numbers."""
    return right if right > left or right != right else left


def _count_of_row(argument: exp.Expr) -> exp.Expr:
    one, none = (cast_to(exp.Literal.number(value), "BIGINT") for value in (1, 0))
    if isinstance(argument, exp.Star):
        return one
    return exp.Case().when(exp.Is(this=argument, expression=exp.null()), none).else_(one)


def _sum(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Add(this=left, expression=right)


def _mean(total: exp.Expr, count: exp.Expr) -> exp.Expr:
    some = exp.Nullif(this=count, expression=number(0))
    return exp.Div(this=cast_to(total, "DOUBLE"), expression=cast_to(some, "DOUBLE"))


AGGREGATES = (
    AggregateFunction(
        "COUNT", exp.Count, is_universal=True, empty=0, parts=Decomposition(), of_row=_count_of_row, merge=exp.Sum,
        pair=_sum, slides=True, running=Running(operator.add, "{0} + {1}"),
    ),
    AggregateFunction(
        "SUM", exp.Sum, keeps_scale=True, of=NUMBERS, is_universal=True, parts=Decomposition(), pair=_sum,
        is_exact=False, slides=True, running=Running(operator.add, "{0} + {1}"), ufunc="add",
    ),
    AggregateFunction(
        "AVG", exp.Avg, of=NUMBERS, is_universal=True, parts=Decomposition((exp.Sum, exp.Count), _mean),
        running=Running(operator.add, "{0} + {1}", is_mean=True),
    ),
    AggregateFunction(
        "MIN", exp.Min, ARGUMENT, of=SCALARS, is_universal=True, parts=Decomposition(),
        pair=lambda left, right: exp.Least(this=left, expressions=[right]),
        running=Running(_least, "({1} if {1} < {0} else {0})"), ufunc="minimum",
    ),
    AggregateFunction(
        "MAX", exp.Max, ARGUMENT, of=SCALARS, is_universal=True, parts=Decomposition(),
        pair=lambda left, right: exp.Greatest(this=left, expressions=[right]),
        running=Running(_greatest, "({1} if {1} > {0} else {0})"), ufunc="maximum",
    ),
    AggregateFunction("STDDEV", exp.Stddev, of=NUMBERS),
    AggregateFunction("STDDEV_SAMP", exp.StddevSamp, of=NUMBERS),
    AggregateFunction("STDDEV_POP", exp.StddevPop, of=NUMBERS),
    AggregateFunction("VARIANCE", exp.Variance, of=NUMBERS),
    AggregateFunction("VARIANCE_POP", exp.VariancePop, of=NUMBERS),
    AggregateFunction("FIRST", exp.First, ARGUMENT, is_universal=True, is_edge=True, sees_nulls=True),
    AggregateFunction("LAST", exp.Last, ARGUMENT, is_universal=True, is_edge=True, sees_nulls=True),
    AggregateFunction("NTH_VALUE", exp.NthValue, ARGUMENT, is_universal=True, is_edge=True),
    AggregateFunction("ARRAY_AGG", exp.ArrayAgg, is_universal=True, in_row_order=True, sees_nulls=True),
    AggregateFunction("GROUP_CONCAT", exp.GroupConcat, in_row_order=True),
    AggregateFunction("COUNT_IF", exp.CountIf, empty=0),
)  # fmt: skip
"""The aggregate functions of which the bridge knows more than that they are aggregates."""

_IGNORE_NULLS = frozenset(
    (
        "MEDIAN", "MODE", "QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "PERCENTILE_DISC", "LOGICAL_AND",
        "LOGICAL_OR", "BOOL_AND", "BOOL_OR", "EVERY", "VAR_SAMP", "VAR_POP", "VARIANCE_SAMP", "TOTAL", "ANY_VALUE", "CORR",
        "COVAR_POP", "COVAR_SAMP", "APPROX_DISTINCT", "APPROX_COUNT_DISTINCT", "BIT_AND", "BIT_OR", "BIT_XOR", "SKEWNESS",
        "KURTOSIS",
    )
)  # fmt: skip
"""Aggregates that are not in `AGGREGATES`, but are known to ignore NULL."""

_BY_FUNCTION = {aggregate.function: aggregate for aggregate in AGGREGATES if aggregate.function is not None}
_BY_NAME = {aggregate.name: aggregate for aggregate in AGGREGATES}


def aggregate_of(call: exp.Expr) -> AggregateFunction | None:
    """The entry of `AGGREGATES` for the function of a call; None if there is none.

    >>> import sqlglot
    >>> aggregate_of(sqlglot.parse_one("MAX(a)")).name
    'MAX'
    """
    if isinstance(call, (exp.AnonymousAggFunc, exp.Anonymous)):
        return aggregate_named(call.name)
    return _BY_FUNCTION.get(type(call))  # type: ignore[arg-type]


def aggregate_named(name: str) -> AggregateFunction | None:
    """The entry of `AGGREGATES` for the name of a function, in any case; None if there is none."""
    return _BY_NAME.get(name.upper())


def arguments(call: exp.Expr) -> Iterator[exp.Expr]:
    """The arguments of a call that hold its values: the first one, and all others that read a column.

    >>> import sqlglot
    >>> [value.sql() for value in arguments(sqlglot.parse_one("CORR(a, b)"))]
    ['a', 'b']
    >>> [value.sql() for value in arguments(sqlglot.parse_one("COUNT(DISTINCT a)"))]
    ['a']
    >>> [value.sql() for value in arguments(sqlglot.parse_one("STRING_AGG(a, ',' ORDER BY b)", dialect="postgres"))]
    ['a']
    """
    values = [*_first(call.this), call.args.get("expression"), *(call.args.get("expressions") or [])]
    for place, value in enumerate(value for value in values if isinstance(value, exp.Expr)):
        if not place or value.find(exp.Column):
            yield value


def _first(value: Any) -> list[Any]:
    """The expressions beside DISTINCT and ORDER BY: `a` of `DISTINCT a ORDER BY b`."""
    if isinstance(value, exp.Order):
        return _first(value.this)
    return value.expressions if isinstance(value, exp.Distinct) else [value]


def first_argument(call: exp.Expr) -> exp.Expr:
    """The first argument of a call, the only one of most aggregates. `COUNT()`, which has none, is refused earlier."""
    return next(arguments(call))


def with_arguments(call: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The call with `change(value)` in place of each of its `arguments`."""
    changed = call.copy()
    for value in list(arguments(changed)):
        value.replace(change(value.copy()))
    return changed


def ignores_nulls(call: exp.Expr) -> bool:
    """Whether a row whose value is NULL is known not to count for the aggregate of a call.

    >>> ignores_nulls(exp.Sum(this=exp.column("v"))), ignores_nulls(exp.ArrayAgg(this=exp.column("v")))
    (True, False)
    """
    known = aggregate_of(call)
    if known is not None:
        return not (known.is_edge or known.sees_nulls)
    return function_name(call) in _IGNORE_NULLS


def function_name(call: exp.Expr) -> str:
    """The name of the function of a call, in upper case."""
    if isinstance(call, exp.Func) and not isinstance(call, (exp.Anonymous, exp.AnonymousAggFunc)):
        return call.sql_name()
    return call.name.upper()


def filtered(call: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """`AGG(x) FILTER (WHERE c)` of an aggregate that ignores NULL.

    >>> import sqlglot
    >>> filtered(sqlglot.parse_one("SUM(v)"), sqlglot.parse_one("v > 1")).sql()
    'SUM(CASE WHEN v > 1 THEN v END)'
    >>> filtered(sqlglot.parse_one("COUNT(*)"), sqlglot.parse_one("v > 1")).sql()
    'COUNT(CASE WHEN v > 1 THEN 1 END)'
    """

    def chosen(value: exp.Expr) -> exp.Expr:
        return exp.Case().when(condition.copy(), number(1) if isinstance(value, exp.Star) else value)

    return with_arguments(call, chosen)
