"""Results reach every processor, whatever another one raises and whoever interrupts; no processor is called in vain."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import pytest

import bridge


def opened() -> bridge.Bridge:
    cep = bridge.connect("sqlite://")
    cep.register_stream("s", "a INTEGER")
    cep.create_query("q", "SELECT a FROM s")
    return cep


async def awaited(event: Any) -> None:
    """A processor that nothing would await."""


class AwaitedObject:
    async def __call__(self, event: Any) -> None:
        """Nothing would await it, either."""


@pytest.mark.parametrize("function", [awaited, AwaitedObject()])
def test_a_coroutine_function_is_refused_with_what_runs_it(function: Any) -> None:
    with opened() as cep:
        for add in (lambda f: cep.add_output_processor("q", f), cep.add_late_processor):
            with pytest.raises(bridge.ProcessorError, match=r"async def.*run_coroutine_threadsafe"):
                add(function)
        cep.push_event("s", [1], 1)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_ends_the_call_at_once_and_the_next_one_delivers_the_rest(interruption: Any) -> None:
    got: list[tuple[str, int]] = []

    def first(event: Any) -> None:
        got.append(("first", event.payload["a"]))
        if event.payload["a"] == 2:
            raise interruption

    with opened() as cep:
        cep.add_output_processor("q", first)
        cep.add_output_processor("q", lambda event: got.append(("second", event.payload["a"])))
        with pytest.raises(interruption):
            cep.push_events("s", [([1], 1), ([2], 2), ([3], 3)])
        assert got == [("first", 1), ("first", 2)]
        cep.push_event("s", [4], 4)
    rest = [("first", 3), *(("second", a) for a in (1, 2, 3)), ("first", 4), ("second", 4)]
    assert got == [("first", 1), ("first", 2), *rest]


def test_what_an_interruption_has_left_is_delivered_when_the_bridge_is_closed(caplog: Any) -> None:
    """Beside the interruption, what processors raise then is logged."""
    got: list[int] = []
    with caplog.at_level(logging.ERROR, "bridge"), pytest.raises(SystemExit, match="3"), opened() as cep:
        cep.add_output_processor("q", lambda event: sys.exit(3))
        cep.add_output_processor("q", lambda event: 1 / 0)
        cep.add_output_processor("q", lambda event: got.append(event.payload["a"]))
        cep.push_event("s", [1], 1)
    assert got == [1]
    assert "ZeroDivisionError" in caplog.text
    cep = opened()
    cep.add_output_processor("q", lambda event: sys.exit(3))
    cep.add_output_processor("q", lambda event: 1 / 0)
    with pytest.raises(SystemExit):
        cep.push_event("s", [1], 1)
    with pytest.raises(bridge.ProcessorError, match="ZeroDivisionError"):
        cep.close()
    with pytest.raises(bridge.Closed):
        cep.push_event("s", [2], 2)


def test_what_processors_raised_before_an_interruption_is_raised_by_the_next_call() -> None:
    with opened() as cep:
        cep.add_output_processor("q", lambda event: 1 / 0 if event.payload["a"] == 1 else None)
        stop = cep.add_output_processor("q", lambda event: sys.exit(3))
        with pytest.raises(SystemExit):
            cep.push_event("s", [1], 1)
        cep.remove_output_processor(stop)
        with pytest.raises(bridge.ProcessorError, match="ZeroDivisionError"):
            cep.push_event("s", [2], 2)
        cep.push_event("s", [3], 3)


def test_sys_exit_in_a_processor_does_not_stop_the_clock(caplog: Any) -> None:
    """In the clock's thread it could end nothing else; it is logged."""
    counts: list[int] = []

    def leave(event: Any) -> None:
        counts.append(event.payload["n"])
        if event.payload["n"] == 0:
            sys.exit("the window is empty")

    with caplog.at_level(logging.ERROR, "bridge"), bridge.connect("sqlite://", clock="system") as cep:
        cep.register_stream("s", "a INTEGER")
        cep.create_query("n", "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 100 MS) EMIT ON CHANGE")
        cep.add_output_processor("n", leave)
        for _ in range(2):
            cep.push_event("s", [1])
            end = time.monotonic() + 10
            while counts[-1:] != [0] and time.monotonic() < end:
                time.sleep(0.02)
            assert counts == [1, 0]
            counts.clear()
    assert "the window is empty" in caplog.text


def test_an_event_that_comes_too_late_names_what_takes_it() -> None:
    with opened() as cep:
        cep.push_event("s", [1], 1000)
        with pytest.raises(bridge.OrderError, match=r"999 is before 1000.*lateness.*clock.*any thread"):
            cep.push_event("s", [2], 999)
