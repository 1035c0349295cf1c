"""Query objects as text: for the bridge's SQL, `parse(statement(node)) == node`; other nodes have a text for reading.

Four trees have no text of their own and are parsed as an equivalent: `Relation` is written as its name (and parsed as a
Stream; the check of names distinguishes them), `Output(x)` as `x`, a `Map` of `*` alone as its input, and an unquoted
name that SQL parses as something else (`select`, `current_date`) in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sqlglot import exp

from bridge.errors import QueryError
from bridge.query.epl_columns import Enumeration, PreviousRow, SubqueryColumn
from bridge.query.epl_output import OrderLimitDistinct, OutputEvery, RStream, Snapshot, Throttle
from bridge.query.epl_patterns import EagerMatch, TemporalMatch
from bridge.query.epl_state import ChangedWindow, ChangeTable, SetVariables, WindowWithDeletions
from bridge.query.expression_text import name_text, scalar_text, scalars_text
from bridge.query.match import Definition, Match
from bridge.query.nodes import (
    Aggregate,
    Correlate,
    Filter,
    Map,
    MatchRecognize,
    Node,
    Output,
    Relation,
    Stream,
    Union,
    Window,
    as_text,
    source_name,
)
from bridge.query.scripts import IntoTable, MultiFilter, ReadSQL, UpdateSQL
from bridge.query.temporal_text import temporal_text
from bridge.query.words import CLAUSE_WORDS
from nfa import pattern
from windows.schema import Schema


@as_text.register
def statement(node: Node) -> str:
    """The query in the bridge's SQL, on one line.

    >>> from bridge.query.nodes import Filter, Stream
    >>> statement(Filter(Stream("order lines"), "price > 1"))
    'SELECT * FROM "order lines" WHERE price > 1'
    """
    match node:
        case Output(below):
            return statement(below)
        case Union(inputs):
            return " UNION ALL ".join(_branch(below) for below in inputs)
        case Aggregate():
            return _aggregate(node)
        case Map(below, columns):
            return _select(below, columns)
        case Filter(below, condition):
            return f"SELECT * FROM {_unambiguous(below, [condition])} WHERE {scalar_text(condition)}"
        case Correlate():
            return f"SELECT * FROM {_inputs(node)}"
        case MultiFilter(below, outputs):
            pairs = ", ".join(f"{name_text(name)} WHEN {scalar_text(condition)}" for name, condition in outputs)
            return f"INSERT INTO {pairs} {statement(below)}"
        case IntoTable(below, table):
            return f"INSERT INTO TABLE {name_text(table)} {statement(below)}"
    return f"SELECT * FROM {_item(node)}"


# Statements -----------------------------------------------------------------------------------------------------------


def _branch(node: Node) -> str:
    return f"({statement(node)})" if isinstance(node, Union) else statement(node)


def _aggregate(node: Aggregate) -> str:
    known = any(part.find(exp.AggFunc) for part in (*node.columns, *filter(None, [node.having])))
    text = _select(node.input, node.columns, [*node.group_by, *filter(None, [node.having])])
    if node.group_by or not known:
        text += f" GROUP BY {scalars_text(node.group_by) or '()'}"
    if node.having is not None:
        text += f" HAVING {scalar_text(node.having)}"
    return text + (" EMIT ON EVERY CHANGE" if node.every_change else " EMIT ON CHANGE" if node.on_change else "")


def _select(node: Node, columns: Sequence[exp.Expr], others: Sequence[exp.Expr] = ()) -> str:
    return f"SELECT {scalars_text(columns)} FROM {_source(node, [*columns, *others])}"


def _source(node: Node, read: Sequence[exp.Expr]) -> str:
    """The text after FROM: the inputs, and WHERE if `node` filters. `read`: other expressions over its columns."""
    match node:
        case Correlate():
            return _inputs(node)
        case Filter(below, condition):
            return f"{_unambiguous(below, [*read, condition])} WHERE {scalar_text(condition)}"
    return _unambiguous(node, read)


def _unambiguous(node: Node, read: Sequence[exp.Expr]) -> str:
    """An item of FROM, renamed if the part `s.a` of a column `s` would otherwise be parsed as the item's column `a`."""
    own = (source_name(node) or "").lower()
    bases = (dot.this for expression in read for dot in expression.find_all(exp.Dot))
    is_taken = any(isinstance(base, exp.Column) and not base.table and base.name.lower() == own for base in bases)
    return f"{_item(node)} AS {name_text(own + '_')}" if is_taken else _item(node)


def _inputs(node: Correlate) -> str:
    items = ", ".join(_aliased(place, alias, below) for place, (alias, below) in enumerate(node.inputs, 1))
    reported = f" REPORTED BY {name_text(node.driving)}" if node.driving is not None else ""
    reported += f" WITH ALL OF {', '.join(map(name_text, sorted(node.outer)))}" if node.outer else ""
    return items + reported + ("" if node.condition is None else f" WHERE {scalar_text(node.condition)}")


def _aliased(place: int, alias: str, node: Node) -> str:
    default = source_name(node) or f"input{place}"
    return _item(node) + ("" if alias == default else f" AS {name_text(alias)}")


# FROM items -----------------------------------------------------------------------------------------------------------


def _item(node: Node) -> str:
    match node:
        case Stream(called, schema):
            return _qualified(called) + ("" if schema is None else f"[{_schema(schema)}]")
        case Relation(called):
            return _qualified(called)
        case TemporalMatch():
            return temporal_text(node, _item)
        case Output(below):
            return _item(below)
        case Map() | Filter() | Aggregate() | Correlate() | Union():
            return f"({statement(node)})"
    below = node.inputs_of[0]
    return (f"(SELECT * FROM {_item(below)})" if type(below) is type(node) else _item(below)) + f" {clause(node)}"


def clause(node: Node) -> str:
    """The text of a node that follows its input's, for example the window of a stream, or the pattern over it.

    Raises QueryError for a node that is not written in this way.

    >>> clause(Window(Stream("s"), "ROWS 5"))
    'WINDOW(ROWS 5)'
    """
    match node:
        case Window(_, extent, keys):
            return f"WINDOW({_partition(keys)}{extent.sql(scalar_text)})"
        case Match():
            return f"MATCHING ({_matching(node)})"
        case MatchRecognize():
            return str(node.pattern)
        case EagerMatch():
            return f"{node.pattern} {node.reporting}"
        case ReadSQL() | UpdateSQL():
            return _sql(node)
        case SubqueryColumn() | PreviousRow() | Enumeration():
            return f"WITH {name_text(node.name)} ({_column(node)})"
        case OrderLimitDistinct() | Throttle() | OutputEvery() | Snapshot() | RStream():
            return _output(node)
        case ChangeTable(_, table):
            return f"CHANGING TABLE {name_text(table.name)}"
        case ChangedWindow(_, changes):
            return f"CHANGED BY {', '.join(_item(trigger) for trigger, _ in changes)}"
        case WindowWithDeletions(_, deletions):
            return f"DELETED BY {', '.join(_item(one.trigger) for one in deletions)}"
        case SetVariables(_, _, settings):
            return f"SETTING {', '.join(f'{name_text(name)} = {scalar_text(value)}' for name, value in settings)}"
    raise QueryError(f"a {type(node).__name__} has no text in this SQL")


def _sql(node: ReadSQL | UpdateSQL) -> str:
    named = [f"({node.statement})" + ("" if node.store is None else f" OF {name_text(node.store)}")]
    parameters = map(scalar_text, node.parameters)
    if isinstance(node, UpdateSQL):
        changed = [] if node.changed is None else [name_text(node.changed)]
        return f"ON SQL {', '.join([*named, 'updated', *parameters, *changed])}"
    columns = (name_text(name) + ("" if kind is None else f" {kind}") for name, kind in node.columns)
    return f"ON SQL{' LEFT' * node.left} {', '.join([*named, name_text(node.table), *parameters, *columns])}"


def _column(node: SubqueryColumn | PreviousRow | Enumeration) -> str:
    """The text for how the additional column is computed."""
    match node:
        case SubqueryColumn(_, _, source):
            condition = "" if node.condition is None else f" WHERE {scalar_text(node.condition)}"
            return f"{_looked_up(node)} OF {_item(source)}{condition}"
        case PreviousRow(_, _, value, count, within, keys):
            limit = "" if within is None else f" WITHIN {within} MS"
            partition = f" PARTITION BY {scalars_text(keys)}" if keys else ""
            return f"{scalar_text(value)} OF {count} ROWS BEFORE{limit}{partition}"
        case Enumeration(_, _, values, method, body):
            return f"{method} OF {scalar_text(values)}" + ("" if body is None else f": {scalar_text(body)}")


def _output(node: OrderLimitDistinct | Throttle | OutputEvery | Snapshot | RStream) -> str:
    match node:
        case OrderLimitDistinct():
            return f"PER EVENT ({_arrangement(node)})"
        case RStream():
            return "RSTREAM"
        case OutputEvery(_, count, first):
            return f"OUTPUT {'FIRST ' * first}EVERY {count} ROWS"
    every = f"{node.count} ROWS" if node.time is None else f"{node.time} MS"
    if isinstance(node, Snapshot):
        return f"SNAPSHOT EVERY {every}" + " OF ALL GROUPS" * node.all_groups
    return f"OUTPUT FIRST EVERY {every}" + (f" PER {scalars_text(node.partition_by)}" if node.partition_by else "")


def _looked_up(node: SubqueryColumn) -> str:
    value = "ROWS" if node.value is None else scalar_text(node.value)
    if node.place is not None:
        return f"{value} OF ROW {node.place}"
    return value if node.operand is None else f"{scalar_text(node.operand)} AMONG {value}"


def _arrangement(node: OrderLimitDistinct) -> str:
    words = ["DISTINCT"] * node.distinct
    if node.last_of is not None:
        words.append("LAST" + (f" OF {scalars_text(node.last_of)}" if node.last_of else ""))
    if node.order_by:
        words.append("ORDER BY " + _ordered(node.order_by))
    words += [] if node.limit is None else [f"LIMIT {node.limit}"]
    return " ".join([*words, *[f"OFFSET {node.offset}"] * bool(node.offset)])


def _ordered(terms: Iterable[exp.Ordered]) -> str:
    return ", ".join(scalar_text(term.this) + " DESC" * bool(term.args["desc"]) for term in terms)


def _matching(node: Match) -> str:
    parts = [
        f"{_partition(node.partition_by)}PATTERN {_pattern(node.pattern, {one.symbol for one in node.define})}",
        f"WITHIN {node.within} MS MEASURES {_schema(node.measures)}",
    ]
    return " ".join(parts + [f"DEFINE {', '.join(map(_definition, node.define))}"] * bool(node.define))


def _definition(one: Definition) -> str:
    condition = "" if one.condition is None else f" AS {scalar_text(one.condition)}"
    assignments = ", ".join(f"{name_text(variable)} = {scalar_text(value)}" for variable, value in one.assignments)
    return name_text(one.symbol) + condition + (f" DO {assignments}" if assignments else "")


def _pattern(tree: pattern.Pattern, defined: set[str]) -> str:
    """The pattern, with quotes for names that would end it, or that stand for several symbols."""

    def quoted(word: re.Match[str]) -> str:
        text = word[0]
        whole = text[0] == '"' or text in defined or len(text) == 1 or word["permute"]
        return text if whole and text.upper() not in CLAUSE_WORDS else f'"{text}"'

    return re.sub(rf'"(?:[^"]|"")*"|(?P<permute>PERMUTE(?=\())|{pattern.WORD.pattern}', quoted, str(tree))


def _partition(keys: tuple[exp.Expr, ...]) -> str:
    return f"PARTITION BY {scalars_text(keys)} " if keys else ""


def _schema(schema: Schema) -> str:
    return ", ".join(f"{name_text(attribute.name)}: {attribute.type}" for attribute in schema)


# Names and scalars ----------------------------------------------------------------------------------------------------


def _qualified(text: str) -> str:
    """The name of a stream or table; the dots of `schema.table` stay outside the quotes."""
    parts = text.split(".")
    return ".".join(map(name_text, parts)) if all(parts) else name_text(text)
