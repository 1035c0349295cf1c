"""What a comparison with another engine has counted."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Tally:
    """Counts and lists, which add up over blocks."""

    questions: int = 0
    refused: list[str] = dataclasses.field(default_factory=list)
    differences: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: Tally) -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
