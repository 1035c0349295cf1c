"""What can go wrong with a row pattern; every error here is a ValueError."""

from __future__ import annotations


class PatternError(ValueError):
    """A pattern that cannot be read, or that a machine cannot run.

    `message` says what is wrong; `position` is the character offset of the place, or None for a tree that was not
    read from text.

    >>> print(PatternError("nothing to repeat", 4))
    nothing to repeat (at position 4)
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message, position)
        self.message = message
        self.position = position

    def __str__(self) -> str:
        return self.message if self.position is None else f"{self.message} (at position {self.position})"


class BudgetError(ValueError):
    """A pattern or a run of it that would grow beyond a documented limit; never answered by a shorter result."""


class ExhaustedError(BudgetError):
    """Work or an answer beyond a limit that no other way of finding the same matches would stay below."""


class SkipError(ValueError):
    """AFTER MATCH SKIP that leads nowhere: to a row the match has not, or back to its first row (rule S3)."""
