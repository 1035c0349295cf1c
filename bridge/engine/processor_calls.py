"""Calls of processors: results for output processors, and late events for late processors, that are still to be delivered."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

from bridge.engine.delivery import Delivery, Raised, call_all, deliver, deliveries, failure
from bridge.engine.event import LateEvent
from bridge.engine.named_processors import NamedProcessors
from bridge.engine.results import Results
from bridge.engine.runner import Runner


class ProcessorCalls:
    """The results that processors still have to get, also after an interruption; `named`: processors whose position is stored."""

    def __init__(self, runner: Runner) -> None:
        self.named = NamedProcessors(runner)
        self.late_processors: list[Callable[[LateEvent], Any]] = []
        self.late: list[LateEvent] = []
        """The events that the late processors still have to get."""
        self._results: collections.deque[Delivery] = collections.deque()
        self._raised: list[Raised] = []
        self._is_delivering = False

    def add(self, results: Results) -> None:
        """Lets the output processors of each query get its results, by the next `deliver`."""
        self._results += deliveries(results)

    def add_late(self, events: Iterable[LateEvent]) -> None:
        """Lets the late processors get these, by the next `call_late_processors`. A push in between has another list."""
        self.late += events

    def deliver(self) -> None:
        """Delivers the results in order. When a processor pushes, its results wait until all have got those before.

        Raises `ProcessorError` at the end if a processor raised.
        """
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            deliver(self._results, self._raised)
            while self.named.deliver(self._raised) or self._results:  # a processor has pushed
                deliver(self._results, self._raised)
        finally:
            self._is_delivering = False
        if self._raised:
            failed, self._raised = self._raised, []
            raise failure(failed) from failed[0].error

    def call_late_processors(self) -> None:
        """Calls the late processors with what they still have to get."""
        late, self.late = self.late, []
        call_all([(function, event) for event in late for function in self.late_processors])
