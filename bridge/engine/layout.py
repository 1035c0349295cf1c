"""Formats SQL: on one line if it fits, otherwise with a line per clause and indented sub-queries."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot.dialects.dialect import Dialect

WIDTH = 112
"""The greatest length of a line, if the text can be broken."""

_CLAUSES = frozenset(
    ("ANTI", "ASOF", "CROSS", "EXCEPT", "FROM", "FULL", "GROUP", "HAVING", "INNER", "JOIN", "LEFT", "LIMIT", "ORDER",
     "QUALIFY", "RIGHT", "SELECT", "SEMI", "SET", "STRAIGHT_JOIN", "UNION", "VALUES", "WHERE", "WINDOW", "WITH")
)  # fmt: skip
"""The words that begin a line of their own."""

_JOINS = frozenset(("ANTI", "ASOF", "CROSS", "FULL", "INNER", "LEFT", "OUTER", "RIGHT", "SEMI"))
"""Words before JOIN. If there is one, it begins the line instead of JOIN."""


def laid_out(sql: str, dialect: str) -> str:
    """The statement on several lines, otherwise unchanged.

    >>> print(laid_out("SELECT a FROM t WHERE a > 1", "duckdb"))
    SELECT a FROM t WHERE a > 1
    >>> print(laid_out(f"SELECT a FROM (SELECT a, {'b' * 90} FROM t) AS q ORDER BY a", "duckdb").replace("b" * 90, "b"))
    SELECT a
    FROM (
      SELECT a, b FROM t
    ) AS q
    ORDER BY a
    """
    tokens = Dialect.get_or_raise(dialect).tokenize(sql)
    lines = _Text(sql, tokens).block(0, len(tokens), 0) if tokens else [sql]
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class _Text:
    """A statement with its tokens; pieces of it are ranges of tokens."""

    sql: str
    tokens: Sequence[Any]

    def flat(self, start: int, end: int) -> str:
        """The piece on one line."""
        return self.sql[self.tokens[start].start : self.tokens[end - 1].end + 1] if start < end else ""

    def block(self, start: int, end: int, indent: int) -> list[str]:
        """A statement or sub-query, from its first word."""
        if indent + len(self.flat(start, end)) <= WIDTH:
            return [" " * indent + self.flat(start, end)]
        cuts = [start, *(at for at in self._outside(start + 1, end) if self._begins_clause(at)), end]
        return [line for first, last in _pairs(cuts) for line in self._clause(first, last, indent)]

    def _begins_clause(self, at: int) -> bool:
        word, before = self._word(at), self._word(at - 1)
        if (before, word) in (("DISTINCT", "FROM"), ("DELETE", "FROM"), ("CHARACTER", "SET")):
            return False
        return word in _CLAUSES and not (word in ("JOIN", *_JOINS) and before in _JOINS)

    def _word(self, at: int) -> str:
        """The first word of a token, in capitals; "" for a quoted token."""
        token = self.tokens[at]
        text = self.sql[token.start : token.end + 1].upper()
        return "" if text != token.text.upper() else text.split(" ")[0]

    def _clause(self, start: int, end: int, indent: int, hang: int = 2) -> list[str]:
        """A clause: as many of its terms on a line as fit; further lines are indented by `hang` more."""
        lines: list[str] = []
        hang = 0 if self._word(start) == "WITH" else hang
        for first, last in _pairs([start, *self._breaks(start, end), end]):
            text = self.flat(first, last)
            if lines and len(lines[-1]) + 1 + len(text) <= WIDTH and self._word(first - 1) != ")":
                lines[-1] += " " + text
            else:
                lines += self._term(first, last, indent + hang if lines else indent)
        return lines

    def _breaks(self, start: int, end: int) -> list[int]:
        """The tokens at which the terms of a clause begin: after commas, or at AND, OR and ON of a condition."""
        outside = [(at, self._word(at)) for at in self._outside(start, end)]
        if self._word(start) not in ("WHERE", "HAVING", "JOIN", *_JOINS):
            return [at + 1 for at, word in outside if word == ","]
        return [at for at, word in outside if word in ("AND", "OR", "ON") and not self._is_between(at)]

    def _is_between(self, at: int) -> bool:
        """Whether an AND belongs to BETWEEN."""
        return any(self._word(back) == "BETWEEN" for back in range(max(0, at - 4), at))

    def _term(self, start: int, end: int, indent: int) -> list[str]:
        """A term. If it is too long, its longest parentheses or the branches of its CASE are put on lines of their own."""
        if indent + len(self.flat(start, end)) <= WIDTH:
            return [" " * indent + self.flat(start, end)]
        branches = [at for at in self._outside(start, end) if at > start and self._word(at) in ("WHEN", "ELSE")]
        if branches:
            head, *others = _pairs([start, *branches, end])
            lines = self._term(*head, indent)
            return lines + [line for branch in others for line in self._term(*branch, indent + 2)]
        groups = list(self._groups(start, end))
        if not groups:
            return [" " * indent + self.flat(start, end)]
        opening, closing = max(groups, key=lambda group: len(self.flat(*group)))
        if self._word(opening + 1) in ("SELECT", "WITH"):
            inside = self.block(opening + 1, closing, indent + 2)
        else:
            inside = self._clause(opening + 1, closing, indent + 2, hang=0)
        return [*self._term(start, opening + 1, indent), *inside, *self._term(closing, end, indent)]

    def _outside(self, start: int, end: int) -> Iterator[int]:
        """The tokens of a piece that are not within parentheses."""
        depth = 0
        for at in range(start, end):
            depth = max(0, depth - (self._word(at) == ")"))
            if depth == 0:
                yield at
            depth += self._word(at) == "("

    def _groups(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The outermost parentheses: the places of each `(` and its `)`."""
        opened = None
        for at in self._outside(start, end):
            if self._word(at) == "(":
                opened = at
            elif self._word(at) == ")" and opened is not None:
                if at > opened + 1:
                    yield opened, at
                opened = None


def _pairs(cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((first, last) for first, last in itertools.pairwise(cuts) if first < last)
