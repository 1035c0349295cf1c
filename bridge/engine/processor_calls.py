"""Calls of processors that are still to be made: results for output processors, late events for late processors."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

from bridge.engine.delivery import Delivery, ProcessorFailure, call_all, deliver, deliveries, failure
from bridge.engine.event import LateEvent
from bridge.engine.execution.runner import Runner
from bridge.engine.named_processors import NamedProcessors
from bridge.engine.results import Results


class ProcessorCalls:
    """The results still to be delivered to processors, also after an interruption. `named`: the named processors."""

    def __init__(self, runner: Runner) -> None:
        self.named = NamedProcessors(runner)
        self.late_processors: list[Callable[[LateEvent], Any]] = []
        self.late: list[LateEvent] = []
        """The late events that the late processors still have to receive."""
        self._results: collections.deque[Delivery] = collections.deque()
        self._raised: list[ProcessorFailure] = []
        self._is_delivering = False

    @property
    def may_be_due(self) -> bool:
        """Whether some processor may have to be called, for results or events of earlier pushes."""
        return bool(self._results or self._raised or self.late or self.named.has_stored)

    def add(self, results: Results) -> None:
        """Adds results, which the output processors of each query receive at the next `deliver`."""
        self._results += deliveries(results)

    def add_late(self, events: Iterable[LateEvent]) -> None:
        """Adds events for late processors, for the next `call_late_processors`. A push meanwhile has its own list."""
        self.late += events

    def deliver(self) -> None:
        """Delivers the results in order. When a processor pushes, new results wait until all have received the earlier.

        Raises `ProcessorError` at the end if a processor raised.
        """
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            deliver(self._results, self._raised)
            while self.named.deliver(self._raised) or self._results:  # true when a processor has pushed
                deliver(self._results, self._raised)
        finally:
            self._is_delivering = False
        if self._raised:
            failed, self._raised = self._raised, []
            raise failure(failed) from failed[0].error

    def call_late_processors(self) -> None:
        """Calls the late processors with the events that they still have to receive."""
        late, self.late = self.late, []
        call_all([(function, event) for event in late for function in self.late_processors])
