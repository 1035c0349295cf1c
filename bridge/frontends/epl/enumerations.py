"""Methods of lists in the list of columns and in WHERE: `tags.anyOf(x => x = 'a')`, `items.sumOf(x => x.price)`.

Each call is cut out and replaced by a column, which an Enumeration then adds to the rows.
"""

from __future__ import annotations

import copy
import dataclasses

from sqlglot import exp

from bridge.check.epl import CONDITIONAL, METHODS
from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.expressions import Qualifiers, resolve
from bridge.query.epl_columns import Enumeration
from bridge.query.nodes import Node
from windows.sql import column

EACH = "each."
"""The prefix of the names of these columns."""


@dataclasses.dataclass(frozen=True)
class _EnumerationCall:
    name: str
    position: int
    values: exp.Expr
    method: str
    body: exp.Expr | None


class Enumerations:
    """The calls of methods of lists in a statement."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.calls: list[_EnumerationCall] = []
        self._applied = 0

    def cut(self, start: int, end: int) -> tuple[str, int] | None:
        """The column that replaces a call whose list begins at this token, and the place after the call.

        None for no such call.
        """
        at = self._method(start, end)
        if at is None:
            return None
        cursor = copy.copy(self.cursor)
        method, position = METHODS[cursor.tokens[at].text.lower()], cursor.tokens[start].start
        values = epl_expressions.single_expression(cursor, Region(start, at - 1), "a list")
        cursor.at = at + 2
        name = f"{EACH}{len(self.calls) + 1}"
        body = None if cursor.word() == ")" else self._body(cursor, f"{name}.element")
        if cursor.word() == ",":
            cursor.fail("a method on a list has one argument here: x => …")
        if body is None and method in CONDITIONAL:
            cursor.fail(f"{cursor.tokens[at].text} wants a condition: x => …", cursor.tokens[at].start)
        cursor.expect(")")
        self.calls.append(_EnumerationCall(name, position, values, method, body))
        return name, cursor.at

    def over(self, node: Node, names: Qualifiers) -> Node:
        """The node with the values of the calls that were not added to a node before."""
        applied, self._applied = self._applied, len(self.calls)
        for cut in self.calls[applied:]:
            (values,) = resolve(self.cursor, [cut.values], names)
            body = None if cut.body is None else resolve(self.cursor, [cut.body], names)[0]
            node = Enumeration(node, cut.name, values, cut.method, body)
        return node

    def _method(self, start: int, end: int) -> int | None:
        """The place of the method at the end of a chain of names, places and calls, if it is one of these methods."""
        tokens = self.cursor.tokens
        words = [word_of(token) for token in tokens[start:end]] + [""] * 4
        if not _is_name(self.cursor, start) or (start and word_of(tokens[start - 1]) == "."):
            return None
        at = 1
        while True:
            if words[at] == "." and start + at + 1 < end:
                name, opens = tokens[start + at + 1].text.lower(), words[at + 2] == "("
                is_arrow = words[at + 4] == "=>" if at + 4 < len(words) else False
                if (
                    opens
                    and name in METHODS
                    and (is_arrow or (words[at + 3] == ")" and METHODS[name] not in CONDITIONAL))
                ):
                    return start + at + 1
                at += 2
            elif words[at] == "[" and words[at + 2] == "]":
                at += 3
            elif words[at] == "(" and words[at + 1] == ")":
                at += 2
            else:
                return None

    def _body(self, cursor: Cursor, element: str) -> exp.Expr:
        """`x => x.price > 3`, with `x` as the column of an element."""
        variable = cursor.name("a name for the elements")
        cursor.expect("=>", " (x => …)")
        body = epl_expressions.single_expression(cursor, cursor.until((",",)), "a condition, or a value")

        def meant(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            parts = [node.args[part] for part in ("catalog", "db", "table", "this") if node.args.get(part)]
            if parts[0].name != variable:
                return node
            found: exp.Expr = column(element)
            found.this.meta.update(parts[0].meta)
            for part in parts[1:]:
                found = exp.Dot(this=found, expression=part.copy())
            return found

        return body.transform(meant)


def _is_name(cursor: Cursor, index: int) -> bool:
    before, cursor.at = cursor.at, index
    try:
        return cursor.has_name()
    finally:
        cursor.at = before
