"""PATTERN text to tree, by the grammar `<row pattern>` of SQL:2016 and rule P1 for the paper's letters."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import NamedTuple, NoReturn

from nfa.errors import PatternError
from nfa.pattern import (
    WORD,
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Symbol,
)

DEPTH_LIMIT = 64
"""The depth to which groups may nest: far beyond any pattern written by hand, far below Python's recursion limit."""

NUMBER_LIMIT = 999_999_999


def _as_written(name: str) -> str:
    return name


def parse_pattern(
    text: str, *, names: Collection[str] | None = None, offset: int = 0, fold: Callable[[str], str] = _as_written
) -> Pattern:
    """Read the text inside `PATTERN ( … )`.

    Concatenation, `|`, `( )`, `()`, the quantifiers `* + ? {n} {n,} {n,m} {,m}` and their reluctant forms,
    `PERMUTE(a, b)`, `{- -}`, `^`, `$`, quoted names and SQL comments. An unquoted name is what `fold` makes of it: as
    it is written, or in upper case as in standard SQL.

    `names` are the symbols known from DEFINE, spelled as in the pattern. They decide how an unquoted word is read
    (a quoted name is always one symbol); the first line that applies wins:

    1. `names` is None, or the word is in `names`: one symbol.
    2. Every character of the word is in `names`: these symbols, one after the other; a quantifier binds to the last.
    3. All names have one letter, the word has letters only, and one of them at least is in `names`: as 2, the
       letters without DEFINE being symbols that always hold.
    4. Anything else: one symbol, without DEFINE.

    Raises PatternError, with the position in `text` plus `offset`, for anything that is not a pattern, for groups nested
    deeper than DEPTH_LIMIT, and for an exclusion inside an exclusion.

    >>> print(repr(parse_pattern("A B*?")))
    Concatenation(parts=(Symbol(name='A'), Quantified(part=Symbol(name='B'), least=0, most=None, greedy=False)))
    >>> print(parse_pattern("xyu+", names={"x", "y", "u"}))
    x y u+
    >>> print(parse_pattern('a "b" A', fold=str.upper))
    A b A
    >>> parse_pattern("A | )", offset=100)
    Traceback (most recent call last):
    nfa.errors.PatternError: a pattern is expected before ')' (at position 104)
    """
    known = None if names is None else frozenset(names)
    return _Parser(_tokens(text, offset), offset + len(text), known, fold).whole()


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


_TOKEN = re.compile(
    rf"""(?P<blank>\s+|/\*.*?\*/|--[^\n]*)
       | (?P<word>{WORD.pattern})
       | (?P<quoted>"(?:[^"]|"")*")
       | (?P<number>[0-9]+)
       | (?P<mark>{{-|-}}|[()|,{{}}*+?^$])
       | (?P<stray>.)""",
    re.VERBOSE | re.DOTALL,
)


def _tokens(text: str, offset: int) -> list[_Token]:
    found = [_Token(m.lastgroup or "", m.group(), m.start() + offset) for m in _TOKEN.finditer(text)]
    for token in found:
        if token.kind == "stray":
            unclosed = {'"': "the quoted name is never closed", "/": "the comment is never closed"}
            raise PatternError(unclosed.get(token.text, f"{token.text!r} has no meaning here"), token.position)
    return [token for token in found if token.kind != "blank"]


class _Parser:
    """Recursive descent; each method reads one rule of the grammar and leaves the next token in place."""

    def __init__(
        self, tokens: list[_Token], end: int, names: frozenset[str] | None, fold: Callable[[str], str]
    ) -> None:
        self.tokens = [*tokens, _Token("end", "", end)]
        self.at = 0
        self.depth = 0
        self.excluding = False
        self.names = names
        self.fold = fold

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def next(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def has(self, *marks: str) -> bool:
        return self.token.kind == "mark" and self.token.text in marks

    def take(self, mark: str) -> bool:
        found = self.has(mark)
        self.at += found
        return found

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        raise PatternError(message, self.token.position if position is None else position)

    def whole(self) -> Pattern:
        tree = self.alternation()
        if self.token.kind != "end":
            self.fail(f"{self.token.text!r} closes nothing")
        return tree

    def alternation(self) -> Pattern:
        branches = [self.concatenation()]
        while self.take("|"):
            branches.append(self.concatenation())
        return branches[0] if len(branches) == 1 else Alternation(tuple(branches))

    def concatenation(self) -> Pattern:
        factors = self.factor()
        while not (self.token.kind == "end" or self.has("|", ")", "-}", ",", "}")):
            factors += self.factor()
        return factors[0] if len(factors) == 1 else Concatenation(tuple(factors))

    def factor(self) -> list[Pattern]:
        # A word of letters gives several primaries; the quantifier belongs to the last of them.
        *before, last = self.primary()
        return [*before, self.quantified(last)]

    def primary(self) -> list[Pattern]:
        token = self.next()
        match token.kind, token.text:
            case "word", word if word.upper() == "PERMUTE":
                return [self.permutation(token)]
            case "word", word:
                return [Symbol(name) for name in _split(self.fold(word), self.names)]
            case "quoted", _:
                return [self.quoted(token)]
            case "mark", "^" | "$":
                return [Anchor(token.text)]
            case "mark", "(":
                return [Empty() if self.take(")") else self.inside(token, ")")]
            case "mark", "{-":
                return [self.exclusion(token)]
        return self.no_primary(token)

    def no_primary(self, token: _Token) -> NoReturn:
        if token.kind == "end":
            self.fail("a pattern is expected here; the empty pattern is written ()", token.position)
        if token.text in ("*", "+", "?", "{"):
            self.fail(f"{token.text!r} has nothing before it to repeat", token.position)
        self.fail(f"a pattern is expected before {token.text!r}", token.position)

    def quoted(self, token: _Token) -> Pattern:
        if token.text == '""':
            self.fail("a quoted name cannot be empty", token.position)
        return Symbol(token.text[1:-1].replace('""', '"'))

    def inside(self, opening: _Token, closing: str) -> Pattern:
        self.deepen(opening)
        tree = self.alternation()
        self.close(opening, closing)
        return tree

    def deepen(self, opening: _Token) -> None:
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            self.fail(f"groups are nested deeper than {DEPTH_LIMIT}", opening.position)

    def close(self, opening: _Token, closing: str) -> None:
        self.depth -= 1
        if not self.take(closing):
            found = "" if self.token.kind == "end" else f" before {self.token.text!r}"
            self.fail(f"{opening.text!r} is not closed by {closing!r}{found}", opening.position)

    def exclusion(self, opening: _Token) -> Pattern:
        if self.excluding:
            self.fail("an exclusion cannot stand inside an exclusion: leave the inner {- -} out", opening.position)
        self.excluding = True
        tree = Exclusion(self.inside(opening, "-}"))
        self.excluding = False
        return tree

    def permutation(self, word: _Token) -> Pattern:
        opening = self.token
        if not self.take("("):
            self.fail("PERMUTE needs a list of patterns in parentheses", word.position)
        self.deepen(opening)
        parts = [self.alternation()]
        while self.take(","):
            parts.append(self.alternation())
        self.close(opening, ")")
        return Permutation(tuple(parts))

    def quantified(self, part: Pattern) -> Pattern:
        if not self.has("*", "+", "?", "{"):
            return part
        least, most = self.repetitions()
        reluctant = self.take("?")
        if self.has("*", "+", "?", "{"):
            self.fail(f"{self.token.text!r} follows a quantifier; put the repeated pattern in parentheses")
        return Quantified(part, least, most, greedy=not reluctant)

    def repetitions(self) -> tuple[int, int | None]:
        mark = self.next()
        match mark.text:
            case "*":
                return 0, None
            case "+":
                return 1, None
            case "?":
                return 0, 1
        return self.braces(mark)

    def braces(self, opening: _Token) -> tuple[int, int | None]:
        least = self.number()
        ranged = self.take(",")
        most = self.number() if ranged else least
        if least is None and not ranged:
            self.fail("a repetition is written {n}, {n,}, {,m} or {n,m}", opening.position)
        if not self.take("}"):
            self.fail("'{' is not closed by '}'", opening.position)
        return self.checked(opening, least or 0, most)

    def checked(self, opening: _Token, least: int, most: int | None) -> tuple[int, int | None]:
        if most is not None and most < least:
            self.fail(f"at least {least} but at most {most} repetitions cannot be", opening.position)
        if most == 0:
            self.fail("a repetition must allow one row pattern or more", opening.position)
        return least, most

    def number(self) -> int | None:
        if self.token.kind != "number":
            return None
        token = self.next()
        if len(token.text.lstrip("0")) > len(str(NUMBER_LIMIT)):
            self.fail(f"a repetition cannot be above {NUMBER_LIMIT}", token.position)
        return int(token.text.lstrip("0") or "0")


def _split(word: str, names: frozenset[str] | None) -> tuple[str, ...]:
    if names is None or word in names:
        return (word,)
    known = [letter in names for letter in word]
    loose = word.isalpha() and any(known) and all(len(name) == 1 for name in names)
    return tuple(word) if all(known) or loose else (word,)
