"""Checks the operands of operators and functions: comparisons and computations without a meaning are refused.

Databases differ for them: one converts, one fails at the first event, one returns false. So none is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bridge.check.compared_times import check_text_of_time
from bridge.check.paths import is_part, source_text
from bridge.check.times import NAMES_A_TIME, check_times, of_event_time
from bridge.check.types import COMPARISONS, TypeOf, cached, family, is_constructed, place, refuse_nested, type_of
from bridge.errors import QueryError
from windows.aggregates import NUMBERS, SCALARS, AggregateFunction, aggregate_of, first_argument, function_name
from windows.types import is_nested

_EQUATIONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Nullif)
_OF_SCALARS = (exp.DPipe, exp.Cast, exp.Like)
_SIGNS: dict[type[exp.Expr], str] = {
    exp.Neg: "minus",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
}
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)


def check_types(expression: exp.Expr, column_type: TypeOf) -> None:
    """Raises QueryError if values of different kinds, such as a text and a number, are compared or computed with."""
    column_type = cached(column_type)
    for node in reversed(list(expression.walk())):  # parts before the whole
        check_times(node, column_type)
        if isinstance(node, (*COMPARISONS, exp.Nullif)):
            _same_family(node, "compared", node.this, [node.expression], column_type)
        elif isinstance(node, (exp.Between, exp.In)):
            others = [node.args["low"], node.args["high"]] if isinstance(node, exp.Between) else node.expressions
            _same_family(node, "compared", node.this, others, column_type)
        elif isinstance(node, _ARITHMETIC):
            _families_are(node, [node.this, node.expression], ("number", "time"), column_type)
        elif isinstance(node, exp.Neg):
            _families_are(node, [node.this], ("number",), column_type)
        elif isinstance(node, (exp.And, exp.Or)):
            _families_are(node, [node.this, node.expression], ("boolean",), column_type)
        elif isinstance(node, exp.Not) or _is_condition_of_case(node):
            _families_are(node, [node.this], ("boolean",), column_type)
        elif (aggregate := aggregate_of(node)) is not None:
            _check_argument(node, aggregate, column_type)
        if isinstance(node, _OF_SCALARS) and not (is_part(node.this) or is_constructed(node)):
            refuse_nested(node, column_type)
        if isinstance(node, (exp.Like, exp.ILike)):
            _families_are(node, [node.this, node.expression], ("text",), column_type)
        if isinstance(node, exp.Case):
            _check_branches(node, column_type)


def _is_condition_of_case(node: exp.Expr) -> bool:
    """Whether a node is `WHEN condition THEN …` in a CASE without a compared value."""
    return isinstance(node, exp.If) and isinstance(node.parent, exp.Case) and node.parent.args.get("this") is None


def _check_branches(node: exp.Case, column_type: TypeOf) -> None:
    """Raises QueryError unless the values of a CASE are of one kind, as well as the values that it compares."""
    if node.this is not None:
        _same_family(node, "compared", node.this, [branch.this for branch in node.args["ifs"]], column_type)
    values = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default")]
    known = [value for value in values if value is not None and family(type_of(value, column_type)) is not None]
    if known and not any(is_nested(type_of(value, column_type)) for value in known):
        _same_family(node, "values of one column", known[0], known[1:], column_type)


def _check_argument(call: exp.Expr, aggregate: AggregateFunction, column_type: TypeOf) -> None:
    name = function_name(call)
    if call.this is None and not call.expressions:
        raise QueryError(
            f"{call.key.upper()}() has no argument: {call.key.upper()}(*) or of a column", words=[call.key]
        )
    counted = call.this.expressions if isinstance(call.this, exp.Distinct) else [call.this]
    if isinstance(call, exp.Count) and (call.expressions or (len(counted) == 1 and counted != [call.this])):
        others = [*counted, *call.expressions]
        if len(others) > 1:
            raise QueryError(
                f"COUNT is of one value: COUNT({source_text(others[0])})", position=place(call), words=[name]
            )
        if isinstance(others[0], exp.Star):
            raise QueryError("COUNT(DISTINCT *) is not supported: name a column", words=["*"])
    if aggregate.of == SCALARS and not is_part(call.this):
        refuse_nested(call, column_type)
    elif aggregate.of == NUMBERS and not isinstance(call.this, exp.Distinct):
        _families_are(call, [first_argument(call)], ("number",), column_type)


def _same_family(node: exp.Expr, verb: str, left: exp.Expr, others: Sequence[exp.Expr], column_type: TypeOf) -> None:
    first = type_of(left, column_type)
    for other in others:
        second = type_of(other, column_type)
        kinds = family(first), family(second)
        texts = [side for side in (left, other) if isinstance(side, exp.Literal) and side.is_string]
        if is_nested(first) and not isinstance(node, _EQUATIONS):
            raise QueryError(f"{source_text(left)} is {first}: name a part of it", position=place(node))
        if "time" in kinds and texts:
            check_text_of_time(node, texts[0])
        elif None not in kinds and kinds[0] != kinds[1]:
            way_out = f"{_casts(left, other, first, kinds)} says what is meant"
            if {"time", "text"} & {*kinds} and (of_event_time(left) or of_event_time(other)):
                way_out = NAMES_A_TIME
            raise QueryError(
                f"{source_text(left)} is {first}, {source_text(other)} is {second}: they cannot be {verb} ({way_out})",
                position=place(node),
            )


def _casts(left: exp.Expr, other: exp.Expr, first: str, kinds: tuple[str | None, str | None]) -> str:
    """The CASTs that make the values have one type."""
    if {*kinds} != {"text", "number"}:
        return f"CAST(… AS {first})"
    text, number = (left, other) if kinds[0] == "text" else (other, left)
    as_text = f"CAST({source_text(number)} AS VARCHAR)"
    return as_text if isinstance(text, exp.Literal) else f"CAST({source_text(text)} AS DOUBLE) or {as_text}"


def _families_are(node: exp.Expr, operands: list[exp.Expr], families: tuple[str, ...], column_type: TypeOf) -> None:
    for operand in operands:
        found = type_of(operand, column_type)
        if family(found) not in (None, *families):
            name = node.name if isinstance(node, exp.AnonymousAggFunc) else node.key
            name = "when" if _is_condition_of_case(node) else _SIGNS.get(type(node), name)
            way_out = "; a list's values have methods in EPL, xs.average()" if found.endswith("[]") else ""
            if isinstance(node, exp.Add) and found == "VARCHAR":
                way_out = "; || joins texts"
            message = f"{source_text(operand)} is {found}; {name.upper()} wants a {families[0]}{way_out}"
            raise QueryError(message, position=place(node))
