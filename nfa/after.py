"""AFTER MATCH SKIP of matches that are reported as soon as they are complete."""

from __future__ import annotations

import enum


class After(enum.Enum):
    """Where the search goes on after a match that is reported."""

    PAST_LAST_ROW = "PAST LAST ROW"
    TO_NEXT_ROW = "TO NEXT ROW"
    TO_CURRENT_ROW = "TO CURRENT ROW"
