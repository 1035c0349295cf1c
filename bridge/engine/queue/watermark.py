"""The watermark (rules T2 and T5): the time that all streams have reached, apart from streams that are idle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bridge.engine.catalogue import StreamEntry
from bridge.engine.execution.runner import Runner
from bridge.engine.own_table import OwnTable
from bridge.engine.queue.clock import wall_clock
from windows.times import BEGINNING

TIMES = "cep_watermark"

ALL = ""
"""The name under which the times of all streams together are stored."""


@dataclasses.dataclass(frozen=True)
class StreamTime:
    """The newest timestamp of a stream, and when it came by the wall clock; before an event, when the wait began."""

    newest: int
    arrived: int
    has_events: bool = True


class Watermark:
    """The watermark of a bridge, which never moves back, and the times of its streams that determine it.

    `lateness`: how many milliseconds late events may come. `is_live`: whether time passes by the wall clock.
    """

    def __init__(self, runner: Runner, lateness: int, is_live: bool, present: Callable[[], int] = wall_clock) -> None:
        self._runner = runner
        self.lateness = lateness
        self._is_live = is_live
        self._present = present
        self.watermark = BEGINNING
        self.waits: Mapping[str, int] = {}
        """The streams that others wait for, with the milliseconds after which a silent one is idle."""
        self._seen: dict[str, StreamTime] = {}
        """The times of all streams together (under `ALL`), and of each stream that others wait for."""
        self._stored: dict[str, tuple[int, ...]] = {}
        self._table = OwnTable(
            runner, TIMES, "stream VARCHAR, newest BIGINT, arrived BIGINT, seen BIGINT, watermark BIGINT"
        )
        if runner.is_durable:
            self._table.create()

    def resume(self) -> None:
        """Continues with the times in the database. By the wall clock, each stream is awaited as long as a new one."""
        self._seen.clear()
        self._stored.clear()
        for name, *times in self._table.rows():
            newest, arrived, seen, watermark = self._stored[name] = tuple(map(int, times))
            self._seen[name] = StreamTime(newest, self._present() if name != ALL else arrived, bool(seen))
            self.watermark = max(self.watermark, watermark)

    def see(self, stream: str, ts: int) -> None:
        """Notes that an event of this stream has come, or time has passed on it, and moves the watermark."""
        present = self._present()
        everywhere = self._seen.get(ALL)
        if everywhere is None or ts >= everywhere.newest:
            self._seen[ALL] = StreamTime(ts, present)
        if stream.lower() in self.waits:
            known = self._seen.get(stream.lower())
            newest = max(ts, known.newest) if known is not None and known.has_events else ts
            self._seen[stream.lower()] = StreamTime(newest, present)
        self.reach(self._follows(self._seen[ALL].newest))

    def reach(self, watermark: int) -> None:
        """Moves the watermark to this time, unless it is later already."""
        self.watermark = max(self.watermark, watermark)

    def pass_all(self, ts: int) -> None:
        """Notes that time has passed on all streams."""
        present = self._present()
        for name in (ALL, *self.waits):
            known = self._seen.get(name)
            if known is None or not known.has_events or known.newest < ts:
                self._seen[name] = StreamTime(ts, present if known is None or name == ALL else known.arrived)
        self.reach(ts)

    def by_clock(self, present: int) -> int:
        """The watermark at the time `present` of the wall clock."""
        everywhere = self._seen.get(ALL)
        newest = present if everywhere is None else max(present, everywhere.newest)
        return max(self.watermark, self._follows(newest))

    def too_far_ahead(self, stream: StreamEntry, ts: int) -> int:
        """The number of milliseconds that an event is ahead, if that is too far; else 0.

        With `is_live` this is measured by the wall clock, else by the newest event and the time since it came.
        """
        most = stream.rules.max_ahead
        everywhere = self._seen.get(ALL)
        if most is None or (everywhere is None and not self._is_live):
            return 0
        present = self._present()
        expected = present
        if not self._is_live and everywhere is not None:
            expected = everywhere.newest + max(0, present - everywhere.arrived)
        return ts - expected if ts - expected > most else 0

    def waiting_on(self) -> list[str]:
        """The streams that events of other streams now wait for."""
        everywhere = self._seen.get(ALL)
        newest = everywhere.newest if everywhere is not None else BEGINNING
        return [name for name, idle_after in self.waits.items() if not self._is_idle(name, idle_after, newest)]

    def saved_state(self) -> tuple[Any, ...]:
        """The state to `restore` if the transaction fails."""
        return self.watermark, dict(self._seen)

    def restore(self, remembered: tuple[Any, ...]) -> None:
        self.watermark, self._seen = remembered
        self._stored.clear()

    def store(self) -> None:
        """Stores the times that have changed, inside the transaction of the push."""
        if not self._runner.is_durable or ALL not in self._seen:
            return
        for name, seen in self._seen.items():
            row = (seen.newest, seen.arrived, int(seen.has_events), self.watermark if name == ALL else BEGINNING)
            if self._stored.get(name) != row:
                self._table.delete(stream=name)
                self._table.insert((name, *row))
                self._stored[name] = row

    def _follows(self, newest: int) -> int:
        """The watermark if `newest` is the newest timestamp of all streams."""
        reached = [newest]
        for name, idle_after in self.waits.items():
            if not self._is_idle(name, idle_after, newest):
                seen = self._seen[name]
                reached.append(seen.newest if seen.has_events else BEGINNING + self.lateness)
        return min(reached) - self.lateness

    def _is_idle(self, name: str, idle_after: int, newest: int) -> bool:
        """Whether a stream has been silent for too long: by the wall clock with `is_live`, else by other events."""
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = StreamTime(newest, self._present(), has_events=False)
        silent = self._present() - seen.arrived if self._is_live else newest - seen.newest
        return silent > idle_after
