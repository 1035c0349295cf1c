"""Pushes that are refused when their operators have done their work, wherever their results are read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from bridge.engine.results import ResultStatements
from bridge.engine.single_events.one_event import OneEventPlan
from bridge.errors import BridgeError
from windows.databases import Refused

if TYPE_CHECKING:
    import bridge

READS = (
    (ResultStatements, "read"),
    (OneEventPlan, "read"),
    (OneEventPlan, "compute"),
    (OneEventPlan, "run_in_process"),
)
"""What reads the results of a push: of any number of events, of one, of values alone, and of what is in this process."""


def refused_push(cep: bridge.Bridge, push: Callable[[], object]) -> list[str]:
    """Runs a push of which the results are read, and refused then; gives the names of the methods that have read them.

    Nothing of such a push may stay, neither in tables nor in memory.
    """
    before, found = (cep.now, cep._runner.seq), list[str]()
    with contextlib.ExitStack() as stack:
        for owner, name in READS:
            stack.enter_context(_refusing(owner, name, found))
        stack.enter_context(pytest.raises(BridgeError, match="on purpose"))
        push()
    assert (cep.now, cep._runner.seq) == before
    return found


@contextlib.contextmanager
def _refusing(owner: type, name: str, found: list[str]) -> Iterator[None]:
    """Within it a method is refused after it has run; where it gives None, another one reads the results."""
    method: Callable[..., Any] = getattr(owner, name)

    def refuse(self: object, *arguments: Any, **options: Any) -> None:
        if method(self, *arguments, **options) is not None:
            found.append(name)
            raise Refused("on purpose")

    with mock.patch.object(owner, name, refuse):
        yield
