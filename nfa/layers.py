"""How far from the start the states of a graph stand."""

from __future__ import annotations

from collections.abc import Sequence


def layers_of(after: Sequence[Sequence[int]]) -> list[int]:
    """For each state the longest way to it from state 0, over arrows that do not lead back; `after` has the targets.

    >>> layers_of([[1, 2], [2, 0], []])
    [0, 1, 2]
    """
    order, forward = _depth_first(after)
    layers = [0] * len(after)
    for state in order:
        for target in forward[state]:
            layers[target] = max(layers[target], layers[state] + 1)
    return layers


def _depth_first(after: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The states, each before those it leads to, and for each where it leads without leading back."""
    forward: list[list[int]] = [[] for _ in after]
    finished: list[int] = []
    entered, under_way = {0}, {0}
    pending = [(0, iter(after[0]))]
    while pending:
        state, targets = pending[-1]
        target = next(targets, None)
        if target is None:
            finished.append(state)
            under_way.discard(state)
            pending.pop()
            continue
        if target not in under_way:
            forward[state].append(target)
        if target not in entered:
            entered.add(target)
            under_way.add(target)
            pending.append((target, iter(after[target])))
    return finished[::-1], forward
