"""Where the machines of EPL's match_recognize stand, as lines of two tables (`ROWS` and `WAYS` of the rewriting)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.patterns.live.decided import Key
from bridge.patterns.live.statements import BEGINNING, Moment
from nfa.threads.eager import Interval, Start, Way
from nfa.threads.path import Path
from windows.databases import Database

if TYPE_CHECKING:
    from bridge.patterns.live.eager import Live, Part


@dataclasses.dataclass
class Notes:
    """The lines of the tables; `upto` is the moment of the newest row that is in them."""

    rows: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    ways: list[tuple[int, ...]] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows) + len(self.ways)

    # Writing ----------------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, live: Live) -> Notes:
        """What the machines know now."""
        notes = cls()
        for place, part in enumerate(live.parts.values()):
            for offset, number in enumerate(part.rows):
                notes.rows.append((place, part.base + offset, *live.store.moment_of[number], number))
            for start in part.machine.starts:
                notes._note_start(live, place, part, start)
        for taken in live.deleted.taken.values():
            notes.rows += ((-3, 0, *moment, 0) for moment in taken)
        notes.rows.append((-2, 0, *live.newest, live.store.count))
        notes.rows.append((-1, 0, *live.oldest, 0))
        return notes

    def _note_start(self, live: Live, place: int, part: Part, start: Start[int]) -> None:
        held = part.machine.held.get(start.index, {}) if isinstance(part.machine, Interval) else {}
        codes = live.codes
        for rank, way in enumerate(start.ways):
            steps = list(way.path.steps())[::-1]
            number = held.get(way.path, 0) if live.steps.is_complete(way) else 0
            for step, (symbol, _, _) in enumerate(steps):
                self.ways.append((place, start.index, rank, way.at, number, step, codes[symbol]))

    def write(self, database: Database, row_table: str, way_table: str) -> None:
        """Replaces what was noted before."""
        for name, lines in ((row_table, self.rows), (way_table, self.ways)):
            database.execute(f"DELETE FROM {name}")
            if lines:
                database.insert(name, len(lines[0]), lines)

    # Reading ----------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, database: Database, row_table: str, way_table: str) -> Notes:
        """What was noted last."""
        rows = sorted(database.fetch(f"SELECT * FROM {row_table}"))
        return cls(list(rows), sorted(database.fetch(f"SELECT * FROM {way_table}")))

    @property
    def upto(self) -> Moment:
        """The moment of the newest row that is in the notes."""
        return next((_moment(line) for line in self.rows if line[0] == -2), BEGINNING)

    def restore(self, live: Live, rows: dict[Any, tuple[Any, ...]]) -> None:
        """Makes the machines as they were noted; `rows` are those kept, by their moments."""
        parts: dict[int, Part] = {}
        for place, index, ts, seq, within, number in self.rows:
            if place < 0:
                continue
            row = rows[ts, seq, within]
            part = live.part(live.key(row))
            if place not in parts:
                parts[place] = part
                part.base = part.machine.count = index
            live.store.count = number
            part.rows.append(live.add(row))
            part.machine.count += 1
        if live.texts.gone_table is not None:
            taken = {_moment(line) for line in self.rows if line[0] == -3}
            for moment, row in rows.items():
                if moment <= self.upto:
                    live.deleted.enter(moment, live.key(row), moment in taken)
        noted = {line[0]: line for line in self.rows if line[0] < 0}
        if noted:
            live.restored(_moment(noted[-2]), _moment(noted[-1]), noted[-2][5], rows)
        self._restore_ways(live, parts)

    def _restore_ways(self, live: Live, parts: dict[int, Part]) -> None:
        symbol_of = {code: symbol for symbol, code in live.codes.items()}
        known: dict[tuple[Any, ...], Path[int]] = {}
        lines: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
        for line in self.ways:
            lines.setdefault((line[0], line[1], line[2]), []).append(line)
        for (place, index, _), steps in lines.items():
            part = parts[place]
            if not part.machine.starts or part.machine.starts[-1].index != index:
                part.machine.starts.append(Start(index, part.rows[index - part.base]))
            path: Path[int] = Path()
            for step, line in enumerate(steps):
                key = (place, index, path if step else None, line[6])
                if key not in known:
                    known[key] = path.take(symbol_of[line[6]], index + step, part.rows[index + step - part.base])
                path = known[key]
            way = Way(steps[0][3], path)
            part.machine.starts[-1].ways.append(way)
            if steps[0][4] and isinstance(part.machine, Interval):
                part.machine.held.setdefault(index, {})[path] = steps[0][4]
                part.machine.number = max(part.machine.number, steps[0][4])
        for key, part in live.parts.items():
            live.await_deadline(key, part)


def _moment(line: tuple[int, ...]) -> Moment:
    ts, seq, place = line[2:5]
    return ts, seq, place


# Deletions from the window that EPL's match_recognize reads, whatever their order (rules M18 to M21 of docs/epl.md)


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
