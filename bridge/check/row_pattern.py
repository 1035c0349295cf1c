"""Checks MATCH_RECOGNIZE over a stream, SQL's and EPL's: columns, their types, and what is impossible over a stream."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlglot import exp

from bridge import query
from bridge.check.aggregates import refuse_missing, refuse_set_functions
from bridge.check.compared_times import with_times
from bridge.check.computed_values import mark_computed
from bridge.check.objects import with_objects
from bridge.check.operands import check_types
from bridge.check.paths import with_parts
from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.scope import Field, Scope, condition_of, field_of
from bridge.check.types import UNKNOWN, TypeOf, place, refuse_nested_key, type_of, with_type_names
from bridge.errors import QueryError
from bridge.query.epl_columns import COMPUTED_KEY
from bridge.query.row_pattern import NAVIGATION, SEMANTICS, PerMatch, RowPattern
from nfa.pattern import Alternation, Concatenation, Exclusion, Pattern, Quantified, parts
from windows.extents import Rows
from windows.schema import is_reserved
from windows.sql import identifier, number


@resolve.register
def _(node: query.MatchRecognize, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    if isinstance(below.node, query.Window):
        raise QueryError(
            "MATCH_RECOGNIZE reads a stream, not a window of it: WITHIN bounds how long a match may last; over what a "
            "window holds now, ask cep.query"
        )
    fields = [field for field in below.fields if not field.hidden]
    types = {field.name: field.type for field in fields} | {"ts": "BIGINT"}
    clause = with_paths(spelled(node.pattern, list(types)), types)
    _check_order(clause)
    if clause.timed_out and clause.within is None:
        raise QueryError("WITH TIMED OUT MATCHES needs WITHIN: without it no time is ever over")
    _warn_of_unbounded_state(clause)
    clause, measures = _with_measures(clause, types, names)
    keys = [Field(key.name, types[key.name]) for key in clause.partition_by]
    rest: list[Field] = []
    if clause.per_match is not PerMatch.ONE_ROW:
        rest = [Field(f.name, f.type) for f in fields if f.name not in {key.name for key in keys}]
    found = (*keys, *measures, *rest)
    check_measures(found, clause)
    return ResolvedNode(query.MatchRecognize(below.node, clause), found, windowed=False)


@resolve.register
def _(node: query.EagerMatch, names: Namespace) -> ResolvedNode:
    deleting = node.input if isinstance(node.input, query.WindowWithDeletions) else None
    below = resolve_stream(node.input if deleting is None else deleting.input, names)
    if deleting is not None and node.interval is not None:
        raise QueryError("INTERVAL is not supported over a window with on … delete", words=["interval"])
    if isinstance(below.node, query.Window):
        _check_window(below.node)
        if node.interval is not None and below.node.extent.jumps:
            raise QueryError(
                "a batch is reported when it is full: INTERVAL has no meaning over one", words=["interval"]
            )
    fields = [field for field in below.fields if not field.hidden]
    types = {field.name: field.type for field in fields} | {"ts": "BIGINT"}
    pattern = with_paths(spelled(node.pattern, list(types)), types)
    pattern, measures = _with_measures(pattern, types, names)
    check_measures(measures, pattern)
    source = below.node
    if deleting is not None:
        source = query.WindowWithDeletions(
            below.node, tuple(_deletion(one, below, names) for one in deleting.deletions)
        )
    return ResolvedNode(dataclasses.replace(node, input=source, pattern=pattern), measures, windowed=False)


@resolve.register
def _(node: query.WindowWithDeletions, names: Namespace) -> ResolvedNode:
    raise QueryError("a window with on … delete is read by match_recognize, or plainly, select * from it")


_OURS = ("bridge", "windows", "contextlib", "functools")
"""Modules that a warning does not point at."""


def _deletion(deletion: query.Deletion, rows: ResolvedNode, names: Namespace) -> query.Deletion:
    """The condition with its columns, of the window's rows and of the event, named `alias.column`."""
    trigger = resolve_stream(deletion.trigger, names)
    condition = None
    if deletion.condition is not None:
        fields = [
            Field(f"{alias}.{field.name}", field.type, (alias, field.name))
            for alias, resolved in ((deletion.row, rows), (deletion.alias, trigger))
            for field in resolved.visible
        ]
        condition = condition_of(deletion.condition, Scope(tuple(fields)), "WHERE")
    return query.Deletion(trigger.node, deletion.alias, deletion.row, condition)


def _check_window(window: query.Window) -> None:
    extent = window.extent
    if window.partition_by:
        raise QueryError(
            "a window per key is not supported before match_recognize: PARTITION BY belongs inside its parentheses"
        )
    is_batch = isinstance(extent, Rows) and extent.slide == extent.count
    if not (extent.is_suffix or is_batch):
        raise QueryError(
            f"match_recognize cannot read a window {extent}: it reads the last milliseconds or rows, all of them, or "
            "batches of a number of rows",
            words=["match_recognize"],
        )


def spelled(clause: RowPattern, fields: Sequence[str]) -> RowPattern:
    """The clause with names of columns spelled as in the input."""

    def by_field(node: exp.Expr) -> Any:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        if isinstance(node.parent, exp.Anonymous) and node.parent.name == "CLASSIFIER":
            return node
        found = exp.column(identifier(field_of(node, fields)), table=node.args.get("table"))
        found.this.meta.update(node.this.meta)
        return found

    return dataclasses.replace(
        clause,
        define=tuple((symbol, condition.transform(by_field)) for symbol, condition in clause.define),
        measures=tuple(measure.transform(by_field) for measure in clause.measures),
        partition_by=tuple(key.transform(by_field) for key in clause.partition_by),
        order_by=tuple(item.transform(by_field) for item in clause.order_by),
    )


def _with_measures(
    clause: RowPattern, types: Mapping[str, str], names: Namespace
) -> tuple[RowPattern, tuple[Field, ...]]:
    """The clause with checked keys, conditions and measures, and the columns of the measures."""
    clause = with_checked_scalars(clause, lambda c: types[c.name])
    for key in clause.partition_by:
        refuse_nested_key(key, types[key.name])
    scalars = [*(condition for _, condition in clause.define), *clause.measures]
    refuse_missing(scalars, names.store(None))
    refuse_set_functions(scalars, names.store(None))
    return clause, tuple(Field(m.alias, type_of(plain(m.this), lambda c: types[c.name])) for m in clause.measures)


def with_paths(clause: RowPattern, types: Mapping[str, str]) -> RowPattern:
    """The clause with typed parts for the paths in its conditions and measures, and objects for whole rows."""
    columns = [(name, kind) for name, kind in types.items() if name != "ts" and not name.startswith(COMPUTED_KEY)]

    def column_type(column: exp.Column) -> str:
        return types[column.name]

    def kind_of(value: exp.Expr) -> str:
        return type_of(plain(value), column_type)

    def found(column: exp.Column) -> tuple[exp.Expr, str]:
        return column, types[column.name]

    def typed(expression: exp.Expr) -> exp.Expr:
        parted = with_parts(expression, found)
        return with_type_names(with_objects(parted, lambda _: columns, kind_of), column_type)

    return dataclasses.replace(
        clause,
        define=tuple((symbol, typed(condition)) for symbol, condition in clause.define),
        measures=tuple(cast("exp.Alias", typed(measure)) for measure in clause.measures),
    )


def plain(expression: exp.Expr) -> exp.Expr:
    """An expression over one row that has the same type as a measure.

    >>> from bridge.frontends.cursor import Cursor
    >>> from bridge.frontends.sql.match_recognize import match_recognize
    >>> text = "MATCH_RECOGNIZE (MEASURES FINAL LAST(A.price, 2) - MATCH_NUMBER() AS m PATTERN (A))"
    >>> print(plain(match_recognize(Cursor(text)).measures[0].this))
    price - CAST(0 AS BIGINT)
    """

    def of_row(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and node.name in (*NAVIGATION, *SEMANTICS):
            return plain(node.expressions[0])
        if isinstance(node, exp.Anonymous) and node.name == "CLASSIFIER":
            return exp.cast(exp.Literal.string(""), "VARCHAR")
        if isinstance(node, exp.Anonymous) and node.name == "MATCH_NUMBER":
            return exp.cast(number(0), "BIGINT")
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            return exp.Star()
        return exp.column(node.this.copy()) if isinstance(node, exp.Column) else node

    return expression.transform(of_row)


def _check_order(clause: RowPattern) -> None:
    for item in clause.order_by:
        in_time = isinstance(item.this, exp.Column) and item.this.name == "ts" and not item.args.get("desc")
        if not in_time:
            raise QueryError(
                "a stream is read in the order of its time: ORDER BY ts, or no ORDER BY; events of one timestamp are in the "
                "order of their pushes, so push them in the order that is meant",
                position=place(item),
            )


def with_checked_scalars(clause: RowPattern, column_type: TypeOf) -> RowPattern:
    """The clause with compared times in one form, and with the types of computed values.

    Raises QueryError for types that do not fit in conditions and measures, and for conditions that are not conditions.
    """
    for symbol, condition in clause.define:
        alone = plain(condition)
        check_types(alone, column_type)
        kind = type_of(alone, column_type)
        if kind not in ("BOOLEAN", UNKNOWN):
            raise QueryError(
                f"DEFINE {symbol} wants a condition; {condition.sql()} is {kind}", position=place(condition)
            )
    for measure in clause.measures:
        check_types(plain(measure.this), column_type)

    def kind_of(value: exp.Expr) -> str:
        return type_of(plain(value), column_type)

    def marked(expression: exp.Expr) -> exp.Expr:
        made = with_times(expression.copy(), kind_of)
        mark_computed(made, column_type)
        return made

    return dataclasses.replace(
        clause,
        define=tuple((symbol, marked(condition)) for symbol, condition in clause.define),
        measures=tuple(cast("exp.Alias", marked(measure)) for measure in clause.measures),
    )


def check_measures(fields: Sequence[Field], clause: RowPattern) -> None:
    """Refuses a name for a measure that the bridge or another column uses."""
    lowered = [field.name.lower() for field in fields]
    for measure in clause.measures:
        if is_reserved(measure.alias):
            raise QueryError(
                f"{measure.alias!r} is the bridge's own name (every result has its ts): give the measure another one",
                position=place(measure),
            )
        if lowered.count(measure.alias.lower()) > 1:
            raise QueryError(f"two columns are called {measure.alias!r}: rename the measure", position=place(measure))
    if not fields:
        raise QueryError("MATCH_RECOGNIZE gives no column: MEASURES or PARTITION BY names some")


def _warn_of_unbounded_state(clause: RowPattern) -> None:
    """Warns of a pattern without a bound on its state, with advice; the pattern is accepted."""
    if clause.within is None and _ends_unbounded(clause.pattern):
        warnings.warn(
            f"PATTERN ({clause.pattern}) ends with a quantifier without bound: a match is reported only when a row ends it, "
            "and its rows are kept until then; WITHIN bounds both",
            stacklevel=level_of_caller(),
        )


def level_of_caller() -> int:
    """The number of frames up to the code that does not belong to the bridge."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    return level


def _ends_unbounded(pattern: Pattern) -> bool:
    if isinstance(pattern, Quantified):
        return (pattern.most is None and pattern.greedy) or _ends_unbounded(pattern.part)
    if isinstance(pattern, Concatenation):
        return _ends_unbounded(pattern.parts[-1])
    return isinstance(pattern, (Alternation, Exclusion)) and any(map(_ends_unbounded, parts(pattern)))
