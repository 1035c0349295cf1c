"""The checkpoint of EPL's match_recognize: the lines of two tables (`ROWS` and `THREADS` of the rewriting)."""

from __future__ import annotations

import dataclasses
from typing import Any

from bridge.patterns.live.eager_state import EagerPartition, EagerState
from bridge.patterns.live.rows import BEGINNING, Row, RowId
from nfa.threads.eager import EagerThread, IntervalMatcher, Start
from nfa.threads.path import Path
from windows.databases import Database

OLDEST, NEWEST, TAKEN = -1, -2, -3
"""The values that replace a partition's number in lines of ROWS about the window; see `ROWS`."""


@dataclasses.dataclass
class EagerCheckpoint:
    """The lines of both tables."""

    rows: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    threads: list[tuple[int, ...]] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows) + len(self.threads)

    # Writing ----------------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, state: EagerState) -> EagerCheckpoint:
        """The lines that describe a state."""
        found = cls()
        for place, partition in enumerate(state.partitions.values()):
            for offset, number in enumerate(partition.rows):
                found.rows.append((place, partition.base + offset, *state.rows.row_id_of[number], number))
            for start in partition.machine.starts:
                found._add_threads(state, place, partition, start)
        for taken in state.taken.values():
            found.rows += ((TAKEN, 0, *row_id, 0) for row_id in taken)
        found.rows.append((NEWEST, 0, *state.newest, state.rows.count))
        found.rows.append((OLDEST, 0, *state.oldest, 0))
        return found

    def _add_threads(self, state: EagerState, place: int, partition: EagerPartition, start: Start[int]) -> None:
        machine = partition.machine
        pending = machine.pending.get(start.index, {}) if isinstance(machine, IntervalMatcher) else {}
        for rank, thread in enumerate(start.threads):
            number = pending.get(thread.path, 0) if state.steps.is_complete(thread) else 0
            for step, (symbol, _, _) in enumerate(list(thread.path.steps())[::-1]):
                self.threads.append((place, start.index, rank, thread.at, number, step, state.codes[symbol]))

    def write(self, database: Database, row_table: str, thread_table: str) -> None:
        """Replaces the lines of the last checkpoint."""
        for name, lines in ((row_table, self.rows), (thread_table, self.threads)):
            database.execute(f"DELETE FROM {name}")
            if lines:
                database.insert(name, len(lines[0]), lines)

    # Reading ----------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, database: Database, row_table: str, thread_table: str) -> EagerCheckpoint:
        """The lines of the last checkpoint."""
        return cls(*(sorted(database.fetch(f"SELECT * FROM {name}")) for name in (row_table, thread_table)))

    @property
    def upto(self) -> RowId:
        """The newest row that the checkpoint contains."""
        return next((_row_id(line) for line in self.rows if line[0] == NEWEST), BEGINNING)

    def restore(self, state: EagerState, retained: dict[RowId, Row]) -> None:
        """Restores an empty state to that of the checkpoint. `retained`: the retained rows in order."""
        partitions: dict[int, EagerPartition] = {}
        for place, index, ts, seq, within, number in self.rows:
            if place < 0:
                continue
            row = retained[ts, seq, within]
            partition = state.partition(state.task.key(row))
            if place not in partitions:
                partitions[place] = partition
                partition.base = partition.machine.count = index
            state.rows.count = number
            partition.rows.append(state.rows.add(row))
            partition.machine.count += 1
        self._restore_window(state, retained)
        self._restore_threads(state, partitions)

    def _restore_window(self, state: EagerState, retained: dict[RowId, Row]) -> None:
        if state.tracks_deletions:
            taken = {_row_id(line) for line in self.rows if line[0] == TAKEN}
            for row_id, row in retained.items():
                if row_id <= self.upto:
                    state.enter(row_id, state.task.key(row), row_id in taken)
        window = {line[0]: line for line in self.rows if line[0] < 0}
        if window:
            state.newest, state.rows.count = _row_id(window[NEWEST]), window[NEWEST][5]
            if state.reporting.shrinking_window is not None:
                oldest = _row_id(window[OLDEST])
                state.content.extend(row_id for row_id in retained if oldest <= row_id <= state.newest)

    def _restore_threads(self, state: EagerState, partitions: dict[int, EagerPartition]) -> None:
        symbol_of = {code: symbol for symbol, code in state.codes.items()}
        known: dict[tuple[Any, ...], Path[int]] = {}
        lines: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
        for line in self.threads:
            lines.setdefault((line[0], line[1], line[2]), []).append(line)
        for (place, index, _), steps in lines.items():
            partition = partitions[place]
            machine = partition.machine
            if not machine.starts or machine.starts[-1].index != index:
                machine.starts.append(Start(index, partition.row(index)))
            path: Path[int] = Path()
            for step, line in enumerate(steps):
                key = (place, index, path if step else None, line[6])
                if key not in known:
                    known[key] = path.take(symbol_of[line[6]], index + step, partition.row(index + step))
                path = known[key]
            machine.starts[-1].threads.append(EagerThread(steps[0][3], path))
            if steps[0][4] and isinstance(machine, IntervalMatcher):
                machine.pending.setdefault(index, {})[path] = steps[0][4]
                machine.number = max(machine.number, steps[0][4])
        for key, partition in state.partitions.items():
            state.await_deadline(key, partition)


def _row_id(line: tuple[int, ...]) -> RowId:
    ts, seq, place = line[2:5]
    return ts, seq, place
