"""The step that sets variables: one event after the other, one value after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from bridge.state_table import Marked, run_bound
from windows.databases import Database
from windows.extents import NEVER


@dataclasses.dataclass(frozen=True)
class Setting:
    """One value that is set: its place among those that are told, and the texts that compute and keep it."""

    place: int
    value: str
    update: Marked


@dataclasses.dataclass
class Assign:
    """Sets variables for each event of this push, in order; notes in `told` the values that they have then."""

    arrived: str
    cause: str
    clear: str
    settings: Sequence[Setting]
    told: str
    table: str

    def run(self, database: Database, now: int, seq: int, final: bool) -> None:
        """Take the events of this push."""
        told: list[tuple[Any, ...]] = []
        for place, event in enumerate(database.fetch(self.arrived)):
            database.execute(self.clear)
            database.insert(self.cause, len(event), [event])
            values = dict[int, Any]()
            for one in self.settings:
                values[one.place] = database.fetch(one.value)[0][0]
                run_bound(database, one.update, [values[one.place]])
            told.append((*event[:2], NEVER, place, *(values[place] for place in sorted(values))))
        if told:
            database.insert(self.told, len(told[0]), told)

    def forget(self) -> None:
        """It remembers nothing."""

    def explained(self, pretty: Callable[[str], str]) -> str:
        """The events, and the values for each."""
        parts = [f"{pretty(self.arrived)};", f"-- for each of these rows, alone in {self.cause}:"]
        return "\n".join([*parts, *(f"{pretty(one.value)};" for one in self.settings)])
