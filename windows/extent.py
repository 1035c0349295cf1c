"""The base class of the kinds of windows: the questions that checks, languages and plans ask about each kind."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable
from typing import Any, ClassVar, Self

from sqlglot import exp

from windows.times import duration

DURATION = r"\d+ ?[A-Z]+"
"""The regular expression of a duration, such as `5 S`."""


class Role(enum.Enum):
    """The purpose of an expression of an extent, which decides how it is checked."""

    VALUE = "value"
    TIME = "a value in whole milliseconds"
    CONDITION = "condition"
    ORDER = "a term of ORDER BY, an exp.Ordered"


def as_sql(expression: exp.Expr) -> str:
    text: str = expression.sql()
    return text


Render = Callable[[exp.Expr], str]
"""Writes an expression in some language."""


@dataclasses.dataclass(frozen=True)
class Extent:
    """A kind of window. A subclass defines only what differs from the answers given here.

    A field that holds an expression, or (`several`) a tuple of them, has its role in the field's metadata.
    """

    example: ClassVar[str] = ""
    """A text of this kind over a column v, as messages show it, with optional parts in brackets."""
    syntax: ClassVar[str] = ""
    """A regular expression of the text, in upper case, whose groups are the fields; empty: the text has expressions."""
    holds_per_key: ClassVar[bool] = True
    """True if the content differs with PARTITION BY: each key then has its own window."""
    evicts: ClassVar[bool] = False
    """True if rows leave because other rows arrive."""
    expires_by_time: ClassVar[bool] = False
    """True if rows leave because time passes."""
    end_known: ClassVar[bool] = True
    """True if a row's expiry by time, if it has one, is known when the row arrives (W5)."""
    may_evict_newest: ClassVar[bool] = False
    """True if the newest row may leave before older ones."""
    is_sorted: ClassVar[bool] = False
    """True if the content is the first rows of an order other than that of arrival."""

    @property
    def jumps(self) -> bool:
        """True if the content is replaced as a whole, at certain times or rows (W3, W6, W11)."""
        return False

    @property
    def is_timed(self) -> bool:
        """True if time alone decides which rows enter: at boundaries of time (W3), or up to a time limit (W7)."""
        return False

    @property
    def begins_with_query(self) -> bool:
        """True if the content depends on when the query began, or on the first row of all."""
        return False

    @property
    def is_suffix(self) -> bool:
        """True if the content is always the newest rows of the stream, or all; `has_left` says how many."""
        return False

    @property
    def reach_ms(self) -> int | None:
        """The longest time that can pass between a row's arrival and its entry; None: without bound."""
        return None

    @property
    def lifetime_ms(self) -> int | None:
        """The longest time that a row stays after its entry; None: without bound."""
        return None

    @property
    def leaves(self) -> bool:
        """True if rows leave at all."""
        return self.evicts or self.expires_by_time

    @property
    def expiry_known_on_arrival(self) -> bool:
        """True if time alone decides when a row leaves, and its expiry is known when it arrives."""
        return self.end_known and not self.jumps and not self.evicts

    @property
    def membership_by_age(self) -> bool:
        """True if an earlier row of the content is still in it exactly while it is younger than `lifetime_ms`."""
        return not self.jumps and (self.is_suffix or not self.leaves)

    def has_left(self, age_ms: int, newer: int) -> bool:
        """Whether a row has left a window that `is_suffix`, by its age and the number of newer rows."""
        return False

    def check_keys(self) -> None:
        """Raises ValueError if the window cannot have PARTITION BY."""

    def sql(self, render: Render = as_sql) -> str:
        """The extent in the bridge's SQL, with its expressions written by `render`."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.sql()

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The extent of a text in upper case with single blanks; None if the text is not of this kind."""
        found = re.fullmatch(cls.syntax, text) if cls.syntax else None
        return cls(**{name: _parsed(value) for name, value in found.groupdict().items() if value}) if found else None

    def map_expressions(self, change: Callable[[Any, Role, str], Any]) -> Self:
        """The extent with each expression replaced by `change(expression, role, field name)`."""
        changed: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            role, value = field.metadata.get("role"), getattr(self, field.name)
            if role is not None and field.metadata.get("several"):
                values = [value] if isinstance(value, str) else value
                changed[field.name] = tuple(change(each, role, field.name) for each in values)
            elif role is not None and value is not None:
                changed[field.name] = change(value, role, field.name)
        return dataclasses.replace(self, **changed) if changed else self

    def with_expressions(self, change: Callable[[exp.Expr], exp.Expr]) -> Self:
        """The extent with each expression, also those within an order, replaced by `change(expression)`.

        >>> import sqlglot
        >>> from windows.extents import Trailing
        >>> print(Trailing(5, None, sqlglot.condition("v")).with_expressions(lambda value: value + 1))
        TRAILING 5 MS OF v + 1
        """

        def changed(value: Any, role: Role, name: str) -> exp.Expr:
            if role is Role.ORDER:
                return exp.Ordered(this=change(value.this), desc=value.args["desc"])
            return change(value)

        return self.map_expressions(changed)


def _parsed(value: str) -> Any:
    """A count, a duration in milliseconds, or True for a word that is present."""
    return int(value) if value.isdigit() else duration(value) if value[0].isdigit() else True


def check_count(word: str, count: int) -> None:
    """Raises ValueError if a count, which `word` introduces, is not a whole number of at least 1."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{word} wants a whole number of at least 1, not {count!r}")
