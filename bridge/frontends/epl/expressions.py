"""Expressions of EPL, as the shared SQL trees."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator

from sqlglot import Token, exp

from bridge.check.objects import VALUES
from bridge.check.types import NAMES, cast_to_whole, is_one_of, type_name
from bridge.errors import QueryError
from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.epl import paths as epl_paths
from bridge.frontends.epl.aggregate_filters import marked_filters, with_filters
from bridge.frontends.epl.ranges import marked_ranges, with_ranges
from bridge.frontends.epl.values import with_values
from bridge.frontends.expressions import all_of, position_of, refuse_foreign, unchecked_list, without_aliases
from bridge.query.epl_columns import TYPE
from bridge.query.words import WORD
from windows.schema import TypeMismatch, canonical_type
from windows.sql import identifier

TYPES = {
    "string": "VARCHAR", "char": "VARCHAR", "bool": "BOOLEAN", "boolean": "BOOLEAN", "byte": "SMALLINT", "short": "SMALLINT",
    "int": "INTEGER", "integer": "INTEGER", "long": "BIGINT", "float": "DOUBLE", "double": "DOUBLE",
}  # fmt: skip
"""EPL's names of types."""

_CLASSES = {
    "java.lang.String": ["VARCHAR"], "java.lang.CharSequence": ["VARCHAR"], "java.lang.Boolean": ["BOOLEAN"],
    "java.lang.Short": ["SMALLINT"], "java.lang.Integer": ["INTEGER"], "java.lang.Long": ["BIGINT"],
    "java.lang.Double": ["DOUBLE"], "java.lang.Number": ["SMALLINT", "INTEGER", "BIGINT", "DOUBLE"],
    "java.lang.Object": [*NAMES],
}  # fmt: skip
"""The names of Java's classes, for instanceof."""

_MATH: dict[str, Callable[..., exp.Expr]] = {
    "abs": lambda x: exp.Abs(this=x),
    "max": lambda x, y: _extreme(exp.GT, x, y),
    "min": lambda x, y: _extreme(exp.LT, x, y),
    "sqrt": lambda x: exp.Sqrt(this=x),
    "floor": lambda x: exp.Floor(this=x),
    "ceil": lambda x: exp.Ceil(this=x),
}

_REFUSED_CALLS = {
    "prior": "prior is not supported here: in the list of columns and in where it is",
    "prev": "prev is not supported here: in the list of columns and in where it is, and in DEFINE of match_recognize",
    "prevtail": "prevtail is not supported here: in the list of columns and in where it is",
    "prevcount": "prevcount is not supported here: in the list of columns and in where it is",
    "prevwindow": "prevwindow is not supported: window(v) is, the oldest first",
    "istream": "istream() stands in the list of columns of select irstream: all else that is reported is new",
    "grouping": "grouping() is not supported: one GROUP BY is",
    "firstever": "firstever is not supported here: in the list of columns it is",
    "lastever": "lastever is not supported here: in the list of columns it is",
    "countever": "countever is not supported here: in the list of columns it is",
    "nth": "nth is not supported here: in the list of columns it is",
    "rate": "rate is not supported here: in the list of columns it is",
    "leaving": "leaving is not supported: only what is new is reported",
    "window": "window is not supported here: in the list of columns it is",
    "maxever": "maxever is not supported: max of all events is, without a window",
    "minever": "minever is not supported: min of all events is, without a window",
    "fmaxever": "fmaxever is not supported: fmax of all events is, without a window",
    "fminever": "fminever is not supported: fmin of all events is, without a window",
    "maxby": "maxby is not supported: S#sort(1, v desc) has the event with the greatest v",
    "minby": "minby is not supported: S#sort(1, v) has the event with the least v",
    "maxbyever": "maxbyever is not supported: S#sort(1, v desc) has the event with the greatest v",
    "minbyever": "minbyever is not supported: S#sort(1, v) has the event with the least v",
    "sorted": "sorted is not supported: S#sort(5, v desc) has events in an order",
    "avedev": "avedev is not supported: stddev is",
    "exists": "exists is not supported: every attribute of a schema is there",
    "currenteventtime": "write current_timestamp",
}

_BEFORE = (
    "prev", "prior", "prevtail", "prevcount", "firstever", "lastever", "countever", "nth", "rate", "window", "istream",
)  # fmt: skip
"""Calls that the list of columns interprets itself."""


def expression_list(
    cursor: Cursor, region: Region, what: str, change: Callable[[exp.Expr], exp.Expr] = lambda written: written
) -> tuple[exp.Expr, ...]:
    """The expressions of a region after `change`, with EPL's operators and functions translated to SQL."""
    columns = tuple(change(with_chains(cursor, column)) for column in untranslated_list(cursor, region, what))
    for call in (node for column in columns for node in column.find_all(exp.Anonymous) if node.name.lower() in _BEFORE):
        cursor.fail(_REFUSED_CALLS[call.name.lower()], call.meta_get("start", position_of(call)))
    return translated(cursor, region, columns)


def translated(cursor: Cursor, region: Region, columns: tuple[exp.Expr, ...]) -> tuple[exp.Expr, ...]:
    """The same expressions in SQL, after a clause has interpreted the parts that only it knows."""
    found = tuple(_translated(cursor, column) for column in columns)
    refuse_foreign(cursor, region, found)
    return found


def untranslated_list(cursor: Cursor, region: Region, what: str) -> tuple[exp.Expr, ...]:
    """The expressions as written: `A[0].v` and `A.lastOf().v` are still those of EPL."""
    for index in range(region.start, region.end):
        _refuse_words(cursor, index, region)
    marked = copy.copy(cursor)
    for index in range(region.start, region.end - 1):
        if word_of(cursor.tokens[index]) == "CAST" and _is_call_with_comma(cursor, index, region):
            start = cursor.tokens[index].start  # sqlglot expects CAST(x AS type): use a function of another name
            marked.bare = marked.bare[:start] + _CAST + marked.bare[start + 4 :]
    for token in _dynamic_marks(cursor, region):
        marked.bare = marked.bare[: token.start] + " " + marked.bare[token.end + 1 :]
    marked.bare, ranges = marked_ranges(cursor, region, marked_filters(cursor, region, marked.bare))
    found = with_ranges(cursor, unchecked_list(marked, region, what), ranges)
    return tuple(_without_distinct(cursor, with_filters(cursor, column)) for column in found)


def _without_distinct(cursor: Cursor, expression: exp.Expr) -> exp.Expr:
    """`first(distinct v)` as `first(v)`, as the first distinct value is the first value."""
    for call in expression.find_all(exp.First, exp.Last):
        if isinstance(call.this, exp.Distinct):
            name, values = type(call).__name__.lower(), call.this.expressions
            if isinstance(call, exp.Last) or len(values) != 1 or call.expression:
                cursor.fail(
                    f"{name}(distinct …) is not supported: of a value that comes again it is not said which one counts; "
                    f"write {name}(v)",
                    position_of(call),
                )
            call.set("this", values[0])
    return expression


_CAST = "cas_"


def _dynamic_marks(cursor: Cursor, region: Region) -> Iterator[Token]:
    """The marks in `A.id?`: Esper looks for such attributes at each event, here the schema has them."""
    for before, token in itertools.pairwise(cursor.tokens[region.start : region.end]):
        if token.text == "?" and token.start == before.end + 1 and WORD.fullmatch(word_of(before)):
            yield token


def single_expression(cursor: Cursor, region: Region, what: str) -> exp.Expr:
    """The only expression of a region that ends before any comma."""
    return only_expression(cursor, region, expression_list(cursor, region, what), what)


def only_expression(cursor: Cursor, region: Region, expressions: tuple[exp.Expr, ...], what: str) -> exp.Expr:
    """The only one of these expressions, which must not have an alias."""
    expressions = without_aliases(cursor, expressions)
    if len(expressions) != 1 or isinstance(expressions[0], exp.Star):
        cursor.fail(f"{what} is expected", cursor.span(region)[0])
    return expressions[0]


def type_of_name(cursor: Cursor, name: str, position: int) -> str:
    """The bridge's type of an EPL type's name."""
    known = TYPES.get(name.lower())
    try:
        return known or canonical_type(name)
    except TypeMismatch:
        cursor.fail(f"the type {name!r} is not supported; there are {', '.join(TYPES)}", position)


def _refuse_words(cursor: Cursor, index: int, region: Region) -> None:
    token = cursor.tokens[index]
    word, after = word_of(token), word_of(cursor.tokens[index + 1]) if index + 1 < region.end else ""
    name = token.text.lower()
    if word and after == "(" and name in _REFUSED_CALLS and name not in _BEFORE:
        cursor.fail(_REFUSED_CALLS[name], token.start)
    if word == "NEW":
        cursor.fail("new is not supported: results are flat", token.start)
    if word == "=>":
        cursor.fail(
            "a method with x => … is not supported here: in the list of columns and in where there are countOf, anyOf, "
            "allOf, firstOf, lastOf, sumOf, average, min and max",
            token.start,
        )
    if word == "->":
        cursor.fail(f"{token.text} is not supported in an expression", token.start)


def _is_call_with_comma(cursor: Cursor, index: int, region: Region) -> bool:
    if word_of(cursor.tokens[index + 1]) != "(":
        return False
    depth = 0
    for token in cursor.tokens[index + 1 : region.end]:
        word = word_of(token)
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if depth == 0:
            return False
        if depth == 1 and word == ",":
            return True
    return False


def with_chains(
    cursor: Cursor,
    expression: exp.Expr,
    change: Callable[[list[epl_paths.Step]], exp.Expr | None] = epl_paths.as_column,
) -> exp.Expr:
    """The expression, in which `change` turns chains of names such as `a.b[0].c` into nodes of the shared trees."""
    holder = exp.Paren(this=expression)
    for node in list(holder.find_all(exp.Dot, exp.Bracket, exp.Anonymous, exp.Column)):
        if isinstance(node, exp.Column) and not node.db:
            continue
        if not epl_paths.in_chain(node) and (found := epl_paths.steps(cursor, node)) is not None:
            node.replace(change(found) or node)
    result: exp.Expr = holder.this.pop()
    return result


def _translated(cursor: Cursor, expression: exp.Expr) -> exp.Expr:
    holder = exp.Paren(this=expression)
    for test in list(holder.find_all(exp.In)):
        test.replace(_in_arrays(test))
    for node in list(
        holder.find_all(
            exp.Dot, exp.CurrentTimestamp, exp.Anonymous, exp.Is, exp.AggFunc, exp.RegexpLike, exp.Typeof, exp.Struct
        )
    ):
        found = _in_sql(cursor, node)
        if found is not node:
            node.replace(found)
    result: exp.Expr = holder.this.pop()
    return with_values(result, cursor.variables, cursor.read)


def _in_sql(cursor: Cursor, node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.CurrentTimestamp):
        return exp.column("ts")
    if isinstance(node, exp.Typeof):
        return _type_of(cursor, node)
    if isinstance(node, exp.Struct):
        return _array(cursor, node)
    if isinstance(node, exp.RegexpLike):
        return whole_match(cursor, node)
    if isinstance(node, exp.Anonymous):
        return _call(cursor, node)
    if isinstance(node, exp.Is) and not isinstance(node.expression, (exp.Null, exp.Boolean)):
        return exp.NullSafeEQ(this=node.this, expression=node.expression)
    if isinstance(node, (exp.Max, exp.Min)) and node.expressions:
        return _extreme_of(exp.GT if isinstance(node, exp.Max) else exp.LT, node.this, *node.expressions)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
        of, call = node.this, node.expression
        if isinstance(of, exp.Identifier) and of.name == "Math" and call.name.lower() in _MATH:
            return _math(cursor, call)
        epl_paths.refuse_method(cursor, node, call)
    return node


def _array(cursor: Cursor, node: exp.Struct) -> exp.Expr:
    """`{v, w}` as the list of its values."""
    if not node.expressions:
        cursor.fail("a list has values: of {} no type is known", position_of(node))
    if any(isinstance(value, exp.PropertyEQ) for value in node.expressions):
        cursor.fail("the values of a list have no names: {v, w}", position_of(node))
    found = exp.Array(expressions=[_translated(cursor, value.copy()) for value in node.expressions])
    found.meta[VALUES] = True
    return found


def _in_arrays(node: exp.In) -> exp.Expr:
    """`v in ({1, 2}, {5})`, which searches in each array, as a list of all their values."""
    values: list[exp.Expr] = []
    for each in node.expressions:
        values += each.expressions if isinstance(each, exp.Struct) else [each]
    is_array = len(values) != len(node.expressions) or any(isinstance(each, exp.Struct) for each in node.expressions)
    if not is_array:
        return node
    return exp.In(this=node.this.copy(), expressions=[value.copy() for value in values]) if values else exp.false()


def _call(cursor: Cursor, node: exp.Anonymous) -> exp.Expr:
    name = node.name.lower()
    if name == _CAST:
        value, kind = node.expressions[0], node.expressions[1]
        if not isinstance(kind, exp.Column):
            cursor.fail("cast wants the name of a type", position_of(node))
        known = type_of_name(cursor, kind.name, position_of(kind) or 0)
        is_whole = known in ("SMALLINT", "INTEGER", "BIGINT")
        return cast_to_whole(value.copy(), known) if is_whole else exp.cast(value.copy(), known)
    return _instance_of(cursor, node) if name == "instanceof" else node


def _type_of(cursor: Cursor, call: exp.Typeof) -> exp.Expr:
    """`typeof(a)` as a column of the event, or the type of another value."""
    event = call.this
    if not isinstance(event, exp.Column) or event.table:
        return type_name(event.copy())
    return exp.Column(this=identifier(TYPE), table=event.this.copy())


def _instance_of(cursor: Cursor, call: exp.Anonymous) -> exp.Expr:
    """`instanceof(v, int, string)`."""
    value, kinds = call.expressions[:1], call.expressions[1:]
    position = call.meta_get("start", position_of(call))
    if not kinds or not all(isinstance(kind, (exp.Column, exp.Dot)) for kind in kinds):
        cursor.fail("instanceof wants a value and the names of types: instanceof(v, int, long)", position)
    found: list[str] = []
    for kind in kinds:
        name = kind.sql().replace('"', "")
        found += _CLASSES.get(name) or [type_of_name(cursor, name, position_of(kind) or position or 0)]
    return is_one_of(value[0].copy(), dict.fromkeys(found))


def _math(cursor: Cursor, call: exp.Anonymous) -> exp.Expr:
    try:
        return _MATH[call.name.lower()](*(argument.copy() for argument in call.expressions))
    except TypeError:
        raise QueryError(f"Math.{call.name} has other arguments", cursor.text, position_of(call)) from None


def _extreme_of(compare: type[exp.Expr], first: exp.Expr, *others: exp.Expr) -> exp.Expr:
    """The largest or smallest of several values; NULL if one is NULL."""
    for other in others:
        first = _extreme(compare, first, other)
    return first


def _extreme(compare: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """The larger or smaller of two values; NULL if one is NULL."""
    wins = compare(this=left.copy(), expression=right.copy())
    loses = exp.Not(this=exp.Paren(this=wins.copy()))
    return exp.Case().when(wins, left).when(loses, right)


# Regular expressions


def whole_match(cursor: Cursor, node: exp.RegexpLike) -> exp.Expr:
    """`v regexp 'a+'`: the whole text must match, as in Java.

    Only patterns with one meaning on all databases are accepted.
    """
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        cursor.fail("regexp wants its pattern as a text", position_of(node))
    text = pattern.name
    if re.search(r"\(\?|\[\[|\[\^?\]|&&|--|[*+?}]\+|\n", text) or not text.isascii():
        cursor.fail(
            "this regular expression is not supported: databases agree on letters, classes, groups, | and quantifiers",
            position_of(node),
        )
    try:
        re.compile(text)
    except re.error as error:
        cursor.fail(f"this is not a regular expression: {error}", position_of(node))
    return exp.RegexpLike(this=node.this.copy(), expression=exp.Literal.string(f"^({text})$"))


# The condition in parentheses after a stream, and conditions of clauses

STOPS = ("FROM", "WHERE", "GROUP BY", "HAVING", "OUTPUT", "ORDER BY", "LIMIT", "FOR", "MATCH_RECOGNIZE", "ON")
"""Words that end an expression of a statement."""

JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER")


def event_filter(cursor: Cursor) -> exp.Expr | None:
    """Steps over `( condition, … )` after a stream's name.

    Returns the conjunction of the conditions, None without any.
    """
    if not cursor.take("(") or cursor.take(")"):
        return None
    conditions = expression_list(cursor, cursor.until(()), "a condition")
    cursor.expect(")")
    return all_of(conditions)


def condition(cursor: Cursor, read: Callable[[Region, str], tuple[exp.Expr, ...]] | None = None) -> exp.Expr:
    """Steps over a condition that ends before the next clause. `read` gives the expressions of a region."""
    region = cursor.until((",", *STOPS, *JOINS))
    if read is None:
        return single_expression(cursor, region, "a condition")
    return only_expression(cursor, region, read(region, "a condition"), "a condition")
