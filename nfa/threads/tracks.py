"""Tracks: the threads under way after each row, linked forward, so that several starts can share what follows."""

from __future__ import annotations

from typing import Generic

from nfa.threads.machine import Threads
from nfa.threads.path import Row


class Track(Generic[Row]):
    """The threads before the row with index `position`; `after` are those one row later, once known.

    `parents` tells for each thread of `after` the place of the thread here that it comes from.
    """

    __slots__ = ("_best", "_far", "after", "parents", "position", "threads")

    def __init__(self, threads: Threads[Row], position: int) -> None:
        self.threads = threads
        self.position = position
        self.after: Track[Row] | None = None
        self.parents: tuple[int, ...] = ()
        self._far: Track[Row] | None = None
        self._best: Track[Row] | None = None

    def lead_to(self, after: Track[Row], parents: tuple[int, ...], has_match: bool) -> None:
        self.after = self._far = after
        self.parents = parents
        self._best = self if has_match else None

    def until(self, last: Track[Row]) -> list[Track[Row]]:
        """The tracks from this one to before `last`."""
        found, track = [], self
        while track is not last:
            found.append(track)
            assert track.after is not None
            track = track.after
        return found


def ahead(track: Track[Row]) -> tuple[Track[Row], Track[Row] | None]:
    """The last track known after this one, and the last before that one which has a match.

    Every track on the way is made to point straight there, so that following many starts stays linear.
    """
    passed = []
    while track._far is not None:
        passed.append(track)
        track = track._far
    best: Track[Row] | None = None
    for earlier in reversed(passed):
        best = best or earlier._best
        earlier._far, earlier._best = track, best
    return track, best
