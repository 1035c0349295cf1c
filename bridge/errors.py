"""The errors of the bridge, each with its place in the text if there is one.

Every error that the bridge raises itself is a `BridgeError`; a `QueryError` points into the query.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class BridgeError(Exception):
    """The base class of all errors: `except bridge.BridgeError` catches everything that the bridge refuses.

    `accepted`: for a push of many events, the number of events that were pushed before the error.
    """

    accepted: int = 0

    def __str__(self) -> str:
        """The message, which can always be printed: half of a surrogate pair is shown as its number."""
        return super().__str__().encode("utf-8", "backslashreplace").decode()


class QueryError(BridgeError):
    """A query that is refused: for its syntax, a name, a type, or something that is not supported.

    `text` is the query, `position` the offset of the place (in characters, from 0), or None without a place. `words`:
    words to look for in the text, the likeliest first, if only the spelling of the place is known.

    >>> print(QueryError("unknown column 'prize'", "SELECT prize FROM trades", 7))
    unknown column 'prize' (line 1, column 8)
      SELECT prize FROM trades
             ^
    """

    def __init__(
        self, message: str, text: str | None = None, position: int | None = None, words: Iterable[str] = ()
    ) -> None:
        self.message = message
        self.text = text
        self.position = position
        self.words = tuple(words)
        super().__init__(self.message + pointer(text, position))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.text, self.position, self.words), vars(self)

    def within(self, text: str) -> QueryError:
        """The same error with the query text that it points into, unless it has a text already."""
        if self.text is not None:
            return self
        position = _find(text, self.words) if self.position is None else self.position
        return type(self)(self.message, text, position)


class SchemaError(BridgeError):
    """A schema or a payload that is wrong: unknown or missing attribute, wrong type, value out of range."""


class OrderError(BridgeError):
    """An event (or `advance_time`) is older than the newest time already seen; nothing was changed (rule T2)."""


class NameTaken(BridgeError):
    """A stream or query of this name exists already."""


class UnknownName(BridgeError):
    """There is no stream, query or output processor of this name."""


class InUse(BridgeError):
    """A stream or query cannot be removed while others read it."""


class Closed(BridgeError):
    """The bridge was closed, the connection to its database is lost, or another process opened the bridge."""


class DatabaseError(BridgeError):
    """The database refused a statement; the message is the database's own, with the statement."""


class ProcessorError(BridgeError):
    """Output processors raised errors. The events were pushed, and the other processors ran.

    `errors`: the errors raised. `processors`: in the same order, descriptions of the processor and query of each.
    """

    def __init__(self, message: str, errors: list[Exception], processors: Iterable[str] = ()) -> None:
        self.errors, self.processors = errors, list(processors)
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.errors, self.processors), vars(self)


class SourceError(BridgeError):
    """A file of events cannot be read; the message names the file and, if known, line and column."""


def pointer(text: str | None, position: int | None) -> str:
    """The lines that show `position` in `text` with a caret; "" without a position."""
    if text is None or position is None:
        return ""
    position = min(position, len(text))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    column = position - start
    indent = "".join("\t" if letter == "\t" else " " for letter in line[:column])
    return f" (line {text.count(chr(10), 0, position) + 1}, column {column + 1})\n  {line}\n  {indent}^"


def _find(text: str, words: tuple[str, ...]) -> int | None:
    """The offset of the first of these words that is a token of the text, quoted or not; if it occurs often, the last.

    A word may be the beginning of a token of several words.

    >>> _find("SELECT s.a FROM s", ("FROM s", "s")), _find("SELECT a FROM s ORDER BY a", ("order",))
    (16, 16)
    """
    import sqlglot

    tokens = sqlglot.tokenize(text) if words else []
    spelled = [token.text.lower() for token in tokens]
    for wanted in (word.lower().split(" ") for word in words):
        for last in range(len(wanted), len(tokens) + 1):
            if spelled[last - len(wanted) : last] == wanted:
                return tokens[last - 1].start
        for token, text_of in zip(tokens, spelled, strict=True):
            if text_of.startswith(f"{wanted[0]} ") and len(wanted) == 1:
                return token.start
    return None


def source_words(name: str) -> list[str]:
    """The ways in which a text may name an input: in FROM, if it is known to be there, or else anywhere."""
    return [f"FROM {name}", f"JOIN {name}", f", {name}", name]


def nearest(name: str, names: list[str]) -> str:
    """A hint with the closest of `names`, or with all of them if they are few.

    >>> nearest("prize", ["symbol", "price"])
    "; did you mean 'price'?"
    """
    there = f"; there is {', '.join(map(repr, names))}" if 0 < len(names) <= 12 else ""
    return closest(name, names) or there


def nearest_quoted(name: str, names: list[str]) -> str:
    """A hint for an unknown name in double quotes, which may have been meant as a text.

    >>> nearest_quoted("ACME", ["symbol", "price"])
    "; double quotes name a column, a text is in single quotes: 'ACME'"
    """
    text = name.replace("'", "''")
    hint = closest(name, names)
    return f"{f'{hint} D' if hint else '; d'}ouble quotes name a column, a text is in single quotes: '{text}'"


def closest(name: str, names: list[str]) -> str:
    """A hint with the closest of `names`, if one is close."""
    import difflib

    close = difflib.get_close_matches(name.lower(), {other.lower(): other for other in names}, n=1)
    return f"; did you mean {next(other for other in names if other.lower() == close[0])!r}?" if close else ""


def first_line(error: Exception) -> str:
    """The first line of the text of a library's error, for a sentence of our own.

    >>> first_line(ValueError("no such column"))
    'no such column'
    """
    return str(error).partition("\n")[0]


def quantity(number: int, what: str = "event") -> str:
    """A number with the noun that it counts, in singular or plural.

    >>> quantity(1), quantity(1200), quantity(2, "wrong line")
    ('1 event', '1,200 events', '2 wrong lines')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
