"""Query objects as text: `parse(statement(node)) == node`.

Four trees have no text of their own and come back as what they mean: `Relation` is written as its name (and read as a
Stream: whoever checks the names tells them apart), `Output(x)` as `x`, a `Map` of `*` alone as its input, and an
unquoted name that SQL reads as something else (`select`, `current_date`) in quotes.
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
from bridge.query.nodes import (
    Aggregate,
    Correlate,
    Definition,
    Filter,
    Map,
    Match,
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
from bridge.query.temporal_text import in_time
from bridge.query.words import CLAUSE_WORDS
from nfa import pattern
from windows.extents import Batch, Extent, Top, Trailing, Tumbling
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
            return f"SELECT * FROM {_apart(below, [condition])} WHERE {scalar_text(condition)}"
        case Correlate():
            return f"SELECT * FROM {_inputs(node)}"
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
    """What stands after FROM: the inputs and, if `node` filters, WHERE; `read` is what else names columns of it."""
    match node:
        case Correlate():
            return _inputs(node)
        case Filter(below, condition):
            return f"{_apart(below, [*read, condition])} WHERE {scalar_text(condition)}"
    return _apart(node, read)


def _apart(node: Node, read: Sequence[exp.Expr]) -> str:
    """An item of FROM, under another name where a part `s.a` of a column `s` would else be read as column `a` of this one."""
    own = (source_name(node) or "").lower()
    bases = (dot.this for expression in read for dot in expression.find_all(exp.Dot))
    is_taken = any(isinstance(base, exp.Column) and not base.table and base.name.lower() == own for base in bases)
    return f"{_item(node)} AS {name_text(own + '_')}" if is_taken else _item(node)


def _inputs(node: Correlate) -> str:
    items = ", ".join(_aliased(place, alias, below) for place, (alias, below) in enumerate(node.inputs, 1))
    told = f" REPORTED BY {name_text(node.driving)}" if node.driving is not None else ""
    told += f" WITH ALL OF {', '.join(map(name_text, sorted(node.outer)))}" if node.outer else ""
    return items + told + ("" if node.condition is None else f" WHERE {scalar_text(node.condition)}")


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
        case Window(below, extent, keys):
            return f"{_below(node, below)} WINDOW({_partition(keys)}{_extent(extent)})"
        case Match():
            return f"{_below(node, node.input)} MATCHING ({_matching(node)})"
        case MatchRecognize():
            return f"{_below(node, node.input)} {node.pattern}"
        case EagerMatch():
            return f"{_below(node, node.input)} {node.pattern} {node.reporting}"
        case WindowWithDeletions(below, deletions):
            triggers = ", ".join(_item(one.trigger) for one in deletions)
            return f"{_item(below)} WITHOUT WHAT {triggers} DELETES"
        case TemporalMatch():
            return in_time(node, _item, scalar_text, name_text)
        case OrderLimitDistinct(below):
            return f"({statement(below)}) ARRANGED ({_arrangement(node)})"
        case SubqueryColumn(below, called, source):
            return f"{_below(node, below)} LOOKING UP {name_text(called)} ({_looked_up(node)} OF {_item(source)}{_where(node)})"
        case PreviousRow(below, called, value, count, within, keys):
            limit = "" if within is None else f" WITHIN {within} MS"
            apart = f" PARTITION BY {scalars_text(keys)}" if keys else ""
            return f"{_below(node, below)} WITH {name_text(called)} ({scalar_text(value)} OF {count} ROWS BEFORE{limit}{apart})"
        case Throttle(below, count, time, keys):
            every = f"{count} ROWS" if time is None else f"{time} MS"
            apart = f"PARTITION BY {scalars_text(keys)} " if keys else ""
            return f"{_below(node, below)} THROTTLED ({apart}FIRST EVERY {every})"
        case Output(below):
            return _item(below)
        case Map() | Filter() | Aggregate() | Correlate() | Union():
            return f"({statement(node)})"
        case ChangeTable() | ChangedWindow() | RStream() | Snapshot() | OutputEvery() | SetVariables() | Enumeration():
            return f"({node})"
    raise QueryError(f"a {type(node).__name__} has no text in this SQL")


def _extent(extent: Extent) -> str:
    if isinstance(extent, Batch):
        return f"START {scalar_text(extent.start)} STOP {scalar_text(extent.stop)}"
    if isinstance(extent, Trailing):
        of = "" if extent.of is None else f" OF {scalar_text(extent.of)}"
        return str(Trailing(extent.size, extent.count)) + of
    if isinstance(extent, Tumbling):
        return f"{extent.head} OF {scalar_text(extent.of)}"
    if isinstance(extent, Top):
        last_of = f" LAST OF {scalars_text(extent.last_of)}" if extent.last_of else ""
        return f"ROWS {extent.count} ORDER BY {_ordered(extent.order)}{last_of}"
    return str(extent)


def _looked_up(node: SubqueryColumn) -> str:
    value = "ROWS" if node.value is None else scalar_text(node.value)
    if node.place is not None:
        return f"{value} OF ROW {node.place}"
    return value if node.operand is None else f"{scalar_text(node.operand)} AMONG {value}"


def _where(node: SubqueryColumn) -> str:
    return "" if node.condition is None else f" WHERE {scalar_text(node.condition)}"


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


def _below(node: Node, below: Node) -> str:
    return f"(SELECT * FROM {_item(below)})" if type(below) is type(node) else _item(below)


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
    """The pattern with those names in quotes that would end it, or that stand for several symbols."""

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
    """A stream's or table's name; the dots of `schema.table` stay outside the quotes."""
    parts = text.split(".")
    return ".".join(map(name_text, parts)) if all(parts) else name_text(text)
