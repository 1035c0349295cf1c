"""The errors of row patterns; each is a ValueError."""

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
    """A pattern, or a run of it, would grow beyond a documented limit. The result is never shortened instead."""


class ExhaustedError(BudgetError):
    """The work or the result is beyond a limit, as it would be in every other way of finding the same matches."""


class SkipError(ValueError):
    """AFTER MATCH SKIP leads nowhere: to a row that the match does not have, or back to its first row (rule S3)."""
