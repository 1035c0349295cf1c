"""WHERE: conditions on the rows of an input, and sub-queries of IN and EXISTS, which become semi and anti joins."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.expressions import expression_list, single_expression
from bridge.frontends.sql.from_items import FromClause, ReadQuery, Results, aliased, condition
from bridge.frontends.sql.refused import STOPS
from bridge.query.nodes import Node

_ENDS = (",", *STOPS)
_SHAPE = "a sub-query of IN or EXISTS is SELECT … FROM one input WHERE … here: put anything else into FROM"


class Partners(NamedTuple):
    """`EXISTS (SELECT … FROM alias WHERE on)`: the rows of which one must be there, or none if `is_anti`.

    `equal`: what IN compares, over the row and over the sub-query. Expressions are as written.
    """

    alias: str
    node: Node
    on: tuple[exp.Expr, ...]
    equal: tuple[exp.Expr, exp.Expr] | None
    is_anti: bool
    position: int


class Where(NamedTuple):
    """The parts of a WHERE that AND joins."""

    conditions: list[exp.Expr]
    partners: list[Partners]


class WhereReader:
    """Reads WHERE. `results`: the common table expressions. `read`: reads a sub-query."""

    def __init__(self, cursor: Cursor, results: Results, read: ReadQuery) -> None:
        self.cursor, self.results, self.read = cursor, results, read
        self.end = cursor.at

    def where(self) -> Where:
        """Steps over the conditions, up to the next clause."""
        cursor, start = self.cursor, self.cursor.at
        region = cursor.until(_ENDS)
        words = [word_of(token) for token in cursor.tokens[region.start : region.end]]
        after = zip(words, words[1:], words[2:], strict=False)
        cursor.at, self.end = start, region.end
        if not any(one in ("IN", "EXISTS") and (opening, first) == ("(", "SELECT") for one, opening, first in after):
            return Where([condition(cursor)], [])
        found = Where([], [])
        while True:
            self._part(found)
            if cursor.word() == "OR":
                cursor.fail("OR beside a sub-query is not supported: UNION has the rows of two queries")
            if not cursor.take("AND"):
                return found

    def _part(self, found: Where) -> None:
        cursor, position = self.cursor, self.cursor.position
        is_anti = cursor.word() == "NOT" and cursor.word(1) == "EXISTS"
        if is_anti or cursor.word() == "EXISTS":
            cursor.at += 2 if is_anti else 1
            found.partners.append(self._partners(None, is_anti, position))
            return
        region = self._operand()
        if not self._is_subquery():
            found.conditions.append(single_expression(cursor, region, "a condition"))
            return
        if cursor.word() == "NOT":
            cursor.fail("NOT IN is not supported, as a NULL would decide it: NOT EXISTS, with bounds of time", position)
        operand = single_expression(cursor, region, "an expression")
        cursor.expect("IN")
        found.partners.append(self._partners(operand, False, position))

    def _operand(self) -> Region:
        """Steps up to an AND or OR outside of everything, to the IN of a sub-query with a NOT before it, or to the end."""
        cursor, start = self.cursor, self.cursor.at
        depth = cases = between = 0
        while cursor.at < self.end:
            word = cursor.word()
            if depth == cases == 0:
                if word == "OR" or (word == "AND" and not between) or self._is_subquery():
                    break
                between += (word == "BETWEEN") - (word == "AND")
            depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
            cases += (word == "CASE") - (word == "END" and cases > 0)
            cursor.at += 1
        return Region(start, cursor.at)

    def _is_subquery(self) -> bool:
        ahead = 1 if self.cursor.word() == "NOT" else 0
        return self.cursor.word(ahead) == "IN" and self.cursor.word(ahead + 2) == "SELECT"

    def _partners(self, operand: exp.Expr | None, is_anti: bool, position: int) -> Partners:
        cursor = self.cursor
        cursor.expect("(")
        cursor.expect("SELECT")
        values = expression_list(cursor, cursor.until(STOPS if operand is None else _ENDS), "a column")
        cursor.expect("FROM")
        source = FromClause(cursor, self.results, self.read)
        source.step()
        if len(source.items) != 1 or (operand is not None and len(values) > 1):
            cursor.fail(_SHAPE, position)
        if any(value.find(exp.AggFunc) for value in values):
            cursor.fail(
                "an aggregate in a sub-query of IN or EXISTS is one row, whatever it reads: put it into FROM", position
            )
        on = (condition(cursor),) if cursor.take("WHERE") else ()
        if cursor.word() != ")":
            cursor.fail(_SHAPE)
        cursor.expect(")")
        ((alias, node),) = aliased(cursor, source.items)
        equal = None if operand is None else (operand, values[0])
        return Partners(alias, node, on, equal, is_anti, position)
