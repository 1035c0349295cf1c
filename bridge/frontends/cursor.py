"""A cursor over the tokens of a query text: the first step of every front end.

The bridge's own clauses are read token by token here. Ordinary SQL expressions are cut out by their offsets and given
to sqlglot, so every reported place is an offset in the text as written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import sqlglot
from sqlglot import Token, TokenType

from bridge.errors import QueryError
from bridge.query.expressions import NOT_UNDERSTOOD
from bridge.query.nodes import Node, Stream
from bridge.query.words import WORD

if TYPE_CHECKING:
    from bridge.query.epl_state import Variable

_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING, TokenType.NATIONAL_STRING)
_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")

# An operand follows each of these words, so a word that could open a clause is a column's name there.
_BEFORE_OPERAND = "AND OR NOT XOR BETWEEN IN LIKE ILIKE RLIKE IS ESCAPE CASE WHEN THEN ELSE AS DISTINCT DIV MOD"
_NEVER_OPERAND = frozenset(("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "UNION", "INTERSECT", "EXCEPT"))


class Region(NamedTuple):
    """A range of tokens, by index, from `start` up to but without `end`."""

    start: int
    end: int


class NameToken(NamedTuple):
    """A name with its place. Trees have only names, so references are checked while they are parsed."""

    text: str
    position: int


class Cursor:
    """The tokens of `text`, and a position among them. `reserved`: the words that are names only in quotes.

    >>> cursor = Cursor("WITHIN 500 MS -- half a second")
    >>> cursor.take("WITHIN"), cursor.word(), cursor.position
    (True, '500', 7)
    >>> cursor.expect("INTERVAL")
    Traceback (most recent call last):
    bridge.errors.QueryError: INTERVAL is expected, not '500' (line 1, column 8)
      WITHIN 500 MS -- half a second
             ^
    """

    variables: Mapping[str, Variable] = MappingProxyType({})
    """The variables that an EPL text may name, by name in lower case."""
    read: set[str]
    """The names of the variables that it reads as constants."""

    dialect: str = ""
    """sqlglot's name of the SQL in which expressions are written; "" is the neutral one."""

    views: dict[str, Node]
    """The queries that a text may read, by name in lower case: existing ones, and those of its earlier statements."""

    def __init__(self, text: str, reserved: Collection[str] = ()) -> None:
        self.text = text
        self.views = {}
        self.bare = uncommented(text)
        self.tokens = tokens(text, self.bare)
        self.reserved = reserved
        self.read = set()
        self.at = 0

    def query_of(self, node: Node) -> Node:
        """The query that a node stands for, if it is the name of one; otherwise the node."""
        view = self.views.get(node.name.lower()) if isinstance(node, Stream) else None
        return node if view is None else self.query_of(view)

    def peek(self, ahead: int = 0) -> Token | None:
        """The token at the position, or the given number of tokens later; None after the end."""
        index = self.at + ahead
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The same token as a keyword or mark, in upper case; "" for a quoted name, a text or the end."""
        return word_of(self.peek(ahead))

    @property
    def position(self) -> int:
        """The offset at which the next token starts; at the end, the offset after the last token."""
        token = self.peek()
        return token.start if token else self.tokens[-1].end + 1 if self.tokens else 0

    def take(self, *words: str) -> bool:
        """Steps over these words if they follow; returns whether they did."""
        found = all(self.word(ahead) == word for ahead, word in enumerate(words))
        self.at += len(words) if found else 0
        return found

    def expect(self, word: str, hint: str = "") -> int:
        """Steps over `word` and returns its offset. Anything else is an error."""
        position = self.position
        if not self.take(word):
            self.fail(f"{word} is expected{hint}, not {self.next_text()}")
        return position

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raises a QueryError that points at `position`, or at the next token."""
        raise QueryError(message, self.text, self.position if position is None else position)

    def next_text(self) -> str:
        """The next token, as error messages name it."""
        token = self.peek()
        return repr(self.text[token.start : token.end + 1]) if token else "the end of the text"

    def has_name(self) -> bool:
        """Whether a name follows: a quoted name, or a word that is not reserved."""
        token = self.peek()
        if token is None or token.token_type == TokenType.IDENTIFIER:
            return token is not None
        return WORD.fullmatch(self.word()) is not None and self.word() not in self.reserved

    def name(self, what: str) -> str:
        """Steps over a name. `what` describes it in error messages."""
        token = self.peek()
        if token is None or not self.has_name():
            reserved = self.word() in self.reserved and WORD.fullmatch(self.word())
            hint = f"; as a name it is quoted: {self._as_name()}" if reserved else ""
            self.fail(f"{what} is expected, not {self.next_text()}{hint}")
        if not token.text:
            self.fail("a name cannot be empty")
        self.at += 1
        return token.text

    def _as_name(self) -> str:
        return f'"{self.text[self.position : self.position + len(self.word())]}"'

    def until(self, stops: Collection[str]) -> Region:
        """Steps over everything up to one of `stops` outside parentheses, a closing parenthesis, `;` or the end."""
        start, depth = self.at, 0
        while (word := self.word()) or self.peek():
            if word == ";" or (depth == 0 and (word in _CLOSE or (word in stops and self._is_stop(start)))):
                break
            depth += (word in _OPEN) - (word in _CLOSE)
            self.at += 1
        return Region(start, self.at)

    def _is_stop(self, start: int) -> bool:
        word = self.word()
        if word == "EXCEPT" and self.word(-1) == "*":
            return False
        if word == "FROM" and self.word(-1) == "DISTINCT":
            return self.word(-2) not in ("IS", "NOT")
        if word in _NEVER_OPERAND or not word[0].isalpha():
            return True
        before = self.word(-1)
        operand = before in ("", *_CLOSE) or re.search(r"[\w$]$|\d\.$", before) is not None
        return self.at > start and operand and before not in _BEFORE_OPERAND.split()

    def span(self, region: Region) -> tuple[int, int]:
        """The offsets of a region that is not empty."""
        return self.tokens[region.start].start, self.tokens[region.end - 1].end + 1

    def slice(self, region: Region) -> str:
        """The text of a region, with comments blanked out."""
        start, end = self.span(region)
        return self.bare[start:end]


def word_of(token: Token | None) -> str:
    """A token in the form of `Cursor.word`; several blanks inside (`GROUP  BY`) become one."""
    return "" if token is None or token.token_type in _QUOTED else " ".join(token.text.upper().split())


def blanked(text: str, start: int, end: int) -> str:
    """`text` with everything outside `[start, end)` blanked out, so that offsets and lines stay the same.

    >>> blanked("SELECT a + b FROM s", 7, 12)
    '       a + b       '
    """
    return _blank(text[:start]) + text[start:end] + _blank(text[end:])


def uncommented(text: str) -> str:
    """`text` with its comments, which may nest, blanked out. Quoted names and texts stay unchanged.

    >>> uncommented("a /* b */ '--' -- c")
    "a         '--'     "
    """
    parts, done = [], 0
    while match := _QUOTES_AND_COMMENTS.search(text, done):
        end = _end(text, match)
        comment = match[0][0] in "-/"
        parts += [
            text[done : match.start()],
            _blank(text[match.start() : end]) if comment else text[match.start() : end],
        ]
        done = end
    return ("".join(parts) + text[done:]).replace("\ufeff", " ")


def tokens(text: str, bare: str) -> list[Token]:
    """sqlglot's tokens of `bare`; anything that is not an SQL token is an error in `text`."""
    try:
        return list(sqlglot.tokenize(bare))
    except NOT_UNDERSTOOD as error:
        raise QueryError(f"not understood: {error}", text) from None


_QUOTES_AND_COMMENTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*|\{\#|['"]""")
_UNCLOSED = {
    "'": "the text is never closed by '",
    '"': 'the quoted name is never closed by "',
    "{#": "'{#' has no meaning here",
}


def _end(text: str, match: re.Match[str]) -> int:
    if match[0] in _UNCLOSED:
        raise QueryError(_UNCLOSED[match[0]], text, match.start())
    return _end_of_comment(text, match.start()) if match[0] == "/*" else match.end()


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return start + mark.end()
    raise QueryError("the comment is never closed by */", text, start)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
