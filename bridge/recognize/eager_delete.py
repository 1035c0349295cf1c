"""Deletions from the window that EPL's match_recognize reads, whatever their order (rules M18 to M21 of docs/epl.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.recognize.live import Key
from bridge.recognize.texts import Moment
from windows.databases import Database

if TYPE_CHECKING:
    from bridge.recognize.eager import Live


class Gone(NamedTuple):
    """A row is deleted at a moment."""

    at: Moment
    row: Moment


class Deletions:
    """The rows of a window with their partitions, and which of them some way took, the oldest first."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.keys: dict[Moment, Key] = {}
        self.taken: dict[Key, dict[Moment, None]] = {}
        self.gone: set[Moment] = set()
        """The rows deleted since the last note."""

    def enter(self, moment: Moment, key: Key, took: bool) -> None:
        """A row has come; whether it was taken."""
        self.keys[moment] = key
        if took:
            self.taken.setdefault(key, {})[moment] = None

    def delete(self, gone: Gone) -> None:
        """The oldest row that was taken ends what holds it; another one lets all of its partition be taken anew."""
        if gone.row in self.gone or gone.row not in self.keys:
            return
        self.gone.add(gone.row)
        key = self.keys.pop(gone.row)
        taken = self.taken.get(key, {})
        if gone.row not in taken:
            return
        oldest = next(iter(taken)) == gone.row
        del taken[gone.row]
        part = self.live.parts.get(key)
        if not oldest:
            self._retake(key, gone.at)
        elif part is not None:
            moments = [self.live.store.moment_of[number] for number in part.rows]
            if gone.row in moments:
                part.machine.lose_row(part.base + moments.index(gone.row))
                self.live.touched[key] = None

    def _retake(self, key: Key, until: Moment) -> None:
        """The partition's rows once more, silently."""
        live = self.live
        old = live.parts.pop(key, None)
        if old is not None:
            live.discarded += old.rows  # matches of this push may be of them
        part = live.part(key)
        rows: list[tuple[Any, ...]] = live.store.database.fetch(live.texts.seen)
        for row in rows:
            if live.key(row) == key and live.moment(row) < until and live.moment(row) not in self.gone:
                part.rows.append(live.add(row))
        part.machine.retake(part.rows)
        live.touched[key] = None

    def forget(self, database: Database) -> None:
        """Removes what is deleted from the tables."""
        texts = self.live.texts
        if texts.gone_table is None:
            return
        same = " AND ".join(
            f"g.{name} = {texts.seen_table}.{name}" for name in map(database.quoted, ("ts", "seq", "_place"))
        )
        database.execute(
            f"DELETE FROM {texts.seen_table} WHERE EXISTS (SELECT 1 FROM {texts.gone_table} AS g WHERE {same})"
        )
        database.execute(f"DELETE FROM {texts.gone_table}")
        self.gone.clear()
