"""Sub-queries of EPL in the list of columns and in WHERE: `exists (select …)`, `v in (select …)`, `(select max(v) …)`.

Each is cut out and replaced by a column, which a SubqueryColumn then adds to the rows.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable

from sqlglot import Token, TokenType, exp

from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.contexts import ContextSource
from bridge.frontends.epl.enumerations import Enumerations
from bridge.frontends.epl.expressions import STOPS
from bridge.frontends.epl.inputs import item
from bridge.frontends.expressions import Qualifiers, resolve
from bridge.query.epl_columns import SubqueryColumn
from bridge.query.epl_patterns import TemporalMatch
from bridge.query.nodes import Node, Stream, Window
from windows.aggregates import AGGREGATES, aggregate_of
from windows.sql import identifier, number

COLUMN_PREFIX = "sub."
"""The prefix of the names of columns for sub-queries."""

_KINDS = {"EXISTS": "exists", "IN": "in"}

_HAS_ROW = exp.GTE(this=exp.Count(this=exp.Star()), expression=number(0))
"""The condition that is true for an aggregate without groups, which always has a row, even over an empty window."""

_AGGREGATES = [aggregate for aggregate in AGGREGATES if aggregate.parts is not None]


@dataclasses.dataclass
class _EplSubquery:
    """One sub-query: the column that replaces it, its value and its source. `operand`: the expression before IN."""

    name: str
    kind: str
    position: int
    alias: str
    source: Node
    value: exp.Expr | None
    condition: exp.Expr | None
    operand: exp.Expr | None = None


class Subqueries:
    """The sub-queries of a statement."""

    def __init__(self, cursor: Cursor, change: Callable[[exp.Expr], exp.Expr]) -> None:
        self.cursor = cursor
        self.change = change
        """A further change to apply to each expression."""
        self.calls: list[_EplSubquery] = []
        self.each = Enumerations(cursor)
        self._numbers = itertools.count(1)

    def expressions(self, region: Region, what: str) -> tuple[exp.Expr, ...]:
        """The expressions of a region, with columns in place of sub-queries."""
        marked, region = self._marked(region)
        return epl_expressions.expression_list(marked, region, what, self._with_operands)

    def over(self, node: Node, names: Qualifiers, context: ContextSource) -> Node:
        """The node with the values of the sub-queries; in a context, for the same keys."""
        node = self.each.over(node, names)
        for cut in self.calls:
            operand = None if cut.operand is None else resolve(self.cursor, [cut.operand], names)[0]
            condition, value = (self._resolved(part, cut, names) for part in (cut.condition, cut.value))
            source, condition = context.lookup(cut.source, cut.name, condition, cut.position)
            node = SubqueryColumn(node, cut.name, source, condition, value, operand)
        return node

    def _resolved(self, part: exp.Expr | None, cut: _EplSubquery, outer: Qualifiers) -> exp.Expr | None:
        """An expression with resolved names. Names without an input are the sub-query's own, others the statement's.

        If the names of inputs differ only in case, such as `A` and `a`, each is found by its exact name.
        """
        if part is None:
            return None
        own = [outer.own] if outer.own is not None else []
        others = {*outer.aliases, *own} - {cut.alias}
        (found,) = resolve(self.cursor, [part], Qualifiers(None, (cut.alias, *outer.aliases, *own)))

        def named(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return node
            if node.table.lower() in ("", cut.alias.lower()) and node.table not in others:
                return exp.column(node.this.copy(), table=identifier(cut.name))
            if outer.own is not None and node.table.lower() == outer.own.lower():
                return exp.column(node.this.copy())
            return node

        return found.transform(named)

    # Reading ------------------------------------------------------------------------------------------------------------

    def _marked(self, region: Region) -> tuple[Cursor, Region]:
        """The cursor with a name in place of each sub-query of a region, and the remaining region."""
        marked = copy.copy(self.cursor)
        index, left = region.start, list[Token]()
        while index < region.end:
            words = [word_of(token) for token in self.cursor.tokens[index : index + 3]]
            exists = words == ["EXISTS", "(", "SELECT"]
            if (method := self.each.cut(index, region.end)) is not None:
                start, (name, index) = self.cursor.tokens[index].start, method
                left.append(_in_place(marked, name, start, self.cursor.tokens[index - 1].end))
                continue
            if not exists and words[:2] != ["(", "SELECT"]:
                left.append(self.cursor.tokens[index])
                index += 1
                continue
            start, opening = self.cursor.tokens[index].start, index + exists
            cut, index = self._cut(opening)
            left.append(_in_place(marked, cut.name, start, self.cursor.tokens[index - 1].end))
        marked.tokens = [*self.cursor.tokens[: region.start], *left, *self.cursor.tokens[region.end :]]
        return marked, Region(region.start, region.start + len(left))

    def _cut(self, opening: int) -> tuple[_EplSubquery, int]:
        """Parses the sub-query in these parentheses; also returns the place after them."""
        cursor = copy.copy(self.cursor)
        before = word_of(cursor.tokens[opening - 1])
        if before in ("ANY", "ALL", "SOME"):
            cursor.fail(f"{before.lower()} is not supported: write exists, or in", cursor.tokens[opening - 1].start)
        kind = _KINDS.get(before, "value")
        cursor.at = opening + 1
        position = cursor.expect("SELECT")
        if cursor.word() == "DISTINCT":
            cursor.fail("distinct is not supported in a sub-query")
        columns = epl_expressions.expression_list(cursor, cursor.until(STOPS), "a column")
        cursor.expect("FROM")
        alias, source, at, _ = item(cursor)
        if isinstance(source, TemporalMatch):
            cursor.fail("a sub-query reads a stream: insert a pattern's results into one", at)
        is_window = isinstance(source, Window) and not source.extent.jumps
        if not is_window and not isinstance(source, Stream):  # it may be a named window
            cursor.fail("a sub-query wants a window: write #keepall for all events, or #time(…), #length(…)", at)
        condition = None
        if cursor.take("WHERE"):
            condition = epl_expressions.single_expression(cursor, cursor.until(STOPS), "a condition")
        if cursor.word() != ")":
            cursor.fail("a sub-query is select … from one stream where …: insert the results of others into a stream")
        if kind == "exists" and any(column.find(exp.AggFunc) for column in columns):
            columns = (_HAS_ROW,)
        elif kind == "exists":
            columns = ()
        value = self._value(cursor, columns, position) if columns else None
        cut = _EplSubquery(f"{COLUMN_PREFIX}{next(self._numbers)}", kind, position, alias, source, value, condition)
        self.calls.append(cut)
        return cut, cursor.at + 1

    def _value(self, cursor: Cursor, columns: tuple[exp.Expr, ...], position: int) -> exp.Expr:
        if len(columns) != 1 or isinstance(columns[0], exp.Star):
            cursor.fail("a sub-query gives one value here: select it", position)
        value: exp.Expr = columns[0].this if isinstance(columns[0], exp.Alias) else columns[0]
        if any(aggregate_of(call) not in _AGGREGATES for call in value.find_all(exp.AggFunc)):
            *names, last = (aggregate.name.lower() for aggregate in _AGGREGATES)
            cursor.fail(f"the aggregates of a sub-query are {', '.join(names)} and {last}", position)
        return value

    def _with_operands(self, column: exp.Expr) -> exp.Expr:
        """The expression in which `v in "sub.1"` becomes the column itself."""
        holder = exp.Paren(this=column)
        for node in list(holder.find_all(exp.In)):
            field = node.args.get("field")
            cut = next((cut for cut in self.calls if field is not None and field.name == cut.name), None)
            if cut is not None and field is not None:
                cut.operand = node.this.copy()
                node.replace(field.copy())
        result: exp.Expr = holder.this.pop()
        return self.change(result)


def _in_place(marked: Cursor, name: str, start: int, end: int) -> Token:
    """The token of a name that replaces a piece of the text."""
    marked.bare = marked.bare[:start] + f'"{name}"'.ljust(end + 1 - start) + marked.bare[end + 1 :]
    return Token(TokenType.IDENTIFIER, name, start=start, end=end)
