"""Pushing some events in the way that fits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import bridge


def push_some(cep: bridge.Bridge, events: Sequence[tuple[str, list[Any], int]]) -> None:
    """One event alone, several of one stream as a batch of it, and others together."""
    if len(events) == 1:
        cep.push_event(*events[0])
    elif len({stream for stream, _, _ in events}) == 1:
        cep.push_events(events[0][0], [(row, ts) for _, row, ts in events])
    else:
        cep.push_all(events)
