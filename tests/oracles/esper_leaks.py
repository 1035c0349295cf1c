"""Decision 13 the other way: what is false for good goes on, where Esper lets it.

Beside `or`, what `until` waits for can become true, and so it can where what is repeated is false from its start. The
timer of a guard fires although what it guards was false before, and tells so a second time: `every` starts one more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from nfa.temporal.instance import Bound, State, create_instance
from nfa.temporal.operators import EitherState, EveryState
from nfa.temporal.repeats import DistinctState, RepeatState
from nfa.temporal.timers import WithinState


@contextlib.contextmanager
def leaking() -> Iterator[None]:
    """The machine does as Esper's does."""
    with contextlib.ExitStack() as stack:
        for kind, name, function in _PATCHES:
            stack.enter_context(mock.patch.object(kind, name, function))
        yield


def _repeat(repeat: RepeatState) -> None:
    part = create_instance(repeat.matcher, repeat, repeat.node.part)
    part.start(repeat.begin)
    repeat.part = part


def _repeat_false(repeat: RepeatState, state: State) -> None:
    state.quit()
    if state in (repeat.part, repeat.until):
        repeat.parent.false(repeat)


def _either_true(either: EitherState, bound: Bound, state: State, ended: bool) -> None:
    if ended:
        either.running = [None if state is part else part for part in either.running]
        either.quit()
    either.parent.true(bound, either, ended)


def _either_false(either: EitherState, state: State) -> None:
    either.running = [None if state is part else part for part in either.running]
    if not any(either.running):
        either.alive = False
        either.parent.false(either)


def _within_false(within: WithinState, state: State) -> None:
    within.part.alive = False
    within.parent.false(within)


def _within_quit(within: WithinState) -> None:
    if within.part.alive:
        within.alive = False
        within.part.quit()


def _within_fire(within: WithinState) -> None:
    within.part.quit()
    within.alive = False
    within.parent.false(within)


def _every_false(every: EveryState, state: State) -> None:
    state.quit()
    every.running = [one for one in every.running if one is not state]
    every._spawn()


def _distinct_false(distinct: DistinctState, state: State) -> None:
    state.quit()
    distinct.running.pop(state, None)
    distinct._spawn({})


_PATCHES = (
    (RepeatState, "_repeat", _repeat),
    (RepeatState, "false", _repeat_false),
    (EitherState, "true", _either_true),
    (EitherState, "false", _either_false),
    (WithinState, "false", _within_false),
    (WithinState, "quit", _within_quit),
    (WithinState, "fire", _within_fire),
    (EveryState, "false", _every_false),
    (DistinctState, "false", _distinct_false),
)
