"""Aggregates of EPL with a filter: `count(*, v > 1)`, `sum(v, filter: k = 'a')`, `fmax(v, v < 9)`.

sqlglot parses `agg(value, condition)` as an aggregate of two values, or not at all. So the name is replaced by a mark
before parsing, and the marked call becomes an aggregate of a CASE afterwards.
"""

from __future__ import annotations

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.expressions import position_of
from windows.aggregates import filtered

_OF_TWO = ("MAX", "MIN")
"""`max(v, w)` is the larger of two values; a filter is written `max(v, filter: …)` or `fmax(v, …)`."""

_FILTERED: dict[str, type[exp.AggFunc]] = {
    "COUNT": exp.Count, "SUM": exp.Sum, "AVG": exp.Avg, "STDDEV": exp.Stddev, "MEDIAN": exp.Median, "MAX": exp.Max,
    "MIN": exp.Min, "FMAX": exp.Max, "FMIN": exp.Min,
}  # fmt: skip
_ALWAYS = ("FMAX", "FMIN")

_MARKED = {f"{name[:-1].lower()}_": function for name, function in _FILTERED.items()}
"""The functions, by the names that replace them while sqlglot parses the text."""


def marked_filters(cursor: Cursor, region: Region, bare: str) -> str:
    """The text, with marked names of the same length for the aggregates that have a filter."""
    for index in range(region.start, region.end - 1):
        name = word_of(cursor.tokens[index])
        is_call = word_of(cursor.tokens[index + 1]) == "(" and (index == 0 or word_of(cursor.tokens[index - 1]) != ".")
        if not is_call:
            continue
        commas, end = _commas(cursor, index + 1, region)
        named = next((comma for comma in commas if _is_named(cursor, comma, end, "FILTER")), None)
        if any(_is_named(cursor, comma, end, "GROUP_BY") for comma in commas):
            cursor.fail("group_by within an aggregate is not supported: group by is", cursor.tokens[index].start)
        if named is not None and name not in _FILTERED:
            cursor.fail(
                f"a filter in {name.lower()} is not supported: count, sum, avg, stddev, median, max and min have one",
                cursor.tokens[index].start,
            )
        has_filter = named is not None or name in _ALWAYS or (bool(commas) and name not in _OF_TWO)
        if name not in _FILTERED or not has_filter:
            continue
        last = cursor.tokens[index].end
        bare = f"{bare[:last]}_{bare[last + 1 :]}"
        if named is not None:
            start, stop = cursor.tokens[named + 1].start, cursor.tokens[named + 2].end + 1
            bare = bare[:start] + " " * (stop - start) + bare[stop:]
    return bare


def with_filters(cursor: Cursor, expression: exp.Expr) -> exp.Expr:
    """The expression, with an aggregate of a CASE for each marked call."""
    return expression.transform(lambda node: _aggregate(cursor, node) if isinstance(node, exp.Anonymous) else node)


def _aggregate(cursor: Cursor, call: exp.Anonymous) -> exp.Expr:
    function = _MARKED.get(call.name.lower())
    if function is None:
        return call
    first = call.expressions[0] if call.expressions else None
    is_distinct = isinstance(first, exp.Distinct)
    values = first.expressions if isinstance(first, exp.Distinct) else call.expressions
    if len(values) != 2:
        name = function.__name__.lower()
        cursor.fail(f"{name} wants one value and a filter: {name}(v, v > 1)", call.meta_get("start", position_of(call)))
    value, condition = values
    whole = value.copy()
    return filtered(function(this=exp.Distinct(expressions=[whole]) if is_distinct else whole), condition)


def _commas(cursor: Cursor, start: int, region: Region) -> tuple[list[int], int]:
    """The commas between the arguments of a call that opens at `start`, and the place where it closes."""
    depth, commas = 0, list[int]()
    for index in range(start, region.end):
        word = word_of(cursor.tokens[index])
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if depth == 1 and word == ",":
            commas.append(index)
        if depth == 0:
            return commas, index
    return commas, region.end


def _is_named(cursor: Cursor, comma: int, end: int, name: str) -> bool:
    """Whether the argument after a comma begins with `name:`."""
    words = [word_of(token) for token in cursor.tokens[comma + 1 : min(comma + 3, end)]]
    return words == [name, ":"]
