"""Where the states and arrows of a pattern's picture stand: layers from left to right, long arrows in lanes.

An arrow to the next layer is a line; one that leads further goes through a lane above all states (below them from a
lower row), one that leads back through a lane below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from nfa.graph import Diagram
from nfa.layers import layers_of

RADIUS = 19
ROW = 92
"""From one state of a layer to the next."""
LOOP = 46
"""How high an arrow from a state to itself rises above its middle."""
LANE = 38
"""From one lane to the next."""
FONT = 13
LINE = 16
"""From one line of a label to the next."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """All moves from one state to another; `lane` is 0 for a line, else the number of the lane."""

    source: int
    target: int
    lines: tuple[str, ...]
    dashed: bool = False
    lane: int = 0

    @property
    def width(self) -> float:
        """The width of the label, about."""
        return max(map(text_width, self.lines))


@dataclass
class Layout:
    """The middle of each state, and the arrows by their kind."""

    at: list[tuple[float, float]]
    lines: list[Arrow] = field(default_factory=list)
    loops: list[Arrow] = field(default_factory=list)
    above: list[Arrow] = field(default_factory=list)
    below: list[Arrow] = field(default_factory=list)

    @property
    def top(self) -> float:
        """The highest line that a state or its loop reaches."""
        looped = {arrow.source: arrow for arrow in self.loops}
        return min(y - (_loop_height(looped[s]) if s in looped else RADIUS) for s, (_, y) in enumerate(self.at))

    @property
    def bottom(self) -> float:
        """The lowest line of a state."""
        return max(y for _, y in self.at) + RADIUS


def text_width(text: str) -> float:
    """The width of a text in pixels, about; the fonts of browsers differ.

    >>> text_width("DOWN") > text_width("down")
    True
    """
    return sum(0.74 if letter.isupper() else 0.35 if letter in " :.,{}-^$" else 0.6 for letter in text) * FONT


def layout(one: Diagram) -> Layout:
    """Places for everything.

    >>> from nfa import compile_program, parse_pattern
    >>> from nfa.graph import diagram
    >>> found = layout(diagram(compile_program(parse_pattern("A B? C+")), ""))
    >>> [(arrow.source, arrow.target) for arrow in found.above], len(found.loops)
    ([(1, 3)], 1)
    """
    arrows = _arrows(one)
    layers = layers_of([[move.target for move in one.moves(state)] for state in range(len(one.states))])
    rows = _rows(layers, arrows)
    spans = {arrow: layers[arrow.target] - layers[arrow.source] for arrow in arrows}
    found = Layout(list(zip(_columns(layers, spans), (row * ROW for row in rows), strict=True)))
    found.loops = [arrow for arrow in arrows if arrow.source == arrow.target]
    found.lines = [arrow for arrow, span in spans.items() if span == 1]
    far = [arrow for arrow, span in spans.items() if span > 1]
    low = [arrow for arrow in far if rows[arrow.source] + rows[arrow.target] > 0]
    found.above = _in_lanes([arrow for arrow in far if arrow not in low], layers)
    found.below = _in_lanes([*low, *(arrow for arrow, span in spans.items() if span < 0)], layers)
    return found


def _loop_height(arrow: Arrow) -> float:
    return LOOP + LINE * len(arrow.lines)


def _arrows(one: Diagram) -> list[Arrow]:
    """The moves of each pair of states together; two short labels share a line."""
    labels: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    shown: defaultdict[tuple[int, int], list[bool]] = defaultdict(list)
    for state in range(len(one.states)):
        for move, label in zip(one.moves(state), one.labels(state), strict=True):
            labels[state, move.target].append(label)
            shown[state, move.target].append(not move.excluded)
    return [Arrow(*pair, tuple(_wrapped(found)), not any(shown[pair])) for pair, found in labels.items()]


def _wrapped(labels: list[str]) -> Iterable[str]:
    line = ""
    for label in labels:
        if line and len(line) + len(label) > 14:
            yield line + ","
            line = label
        else:
            line = f"{line}, {label}" if line else label
    yield line


def _rows(layers: list[int], arrows: list[Arrow]) -> list[float]:
    """The row of each state in its layer, near those that lead to it; the start's is 0."""
    rows = [0.0] * len(layers)
    for layer in range(max(layers) + 1):
        members = [state for state, own in enumerate(layers) if own == layer]

        def middle(state: int) -> float:
            before = [rows[a.source] for a in arrows if a.target == state and layers[a.source] < layers[state]]
            return sum(before) / len(before) if before else 0.0

        wanted = {state: middle(state) for state in members}
        for state, place in zip(sorted(members, key=wanted.__getitem__), _apart(sorted(wanted.values())), strict=True):
            rows[state] = place
    return rows


def _apart(wanted: list[float]) -> list[float]:
    """Rows that are at least one apart, as near as may be to those wanted, which ascend.

    >>> _apart([0.0, 0.0]), _apart([-1.0, 3.0])
    ([-0.5, 0.5], [-1.0, 3.0])
    """
    found: list[float] = []
    for row in wanted:
        found.append(max(row, found[-1] + 1) if found else row)
    shift = (sum(wanted) - sum(found)) / len(found)
    return [row + shift for row in found]


def _columns(layers: list[int], spans: dict[Arrow, int]) -> list[float]:
    """How far right each state stands: labels have room between two layers."""
    gaps = [86.0] * (max(layers) + 1)
    for arrow, span in spans.items():
        if span == 1 or (span == -1 and arrow.source != arrow.target):
            left = min(layers[arrow.source], layers[arrow.target])
            gaps[left] = max(gaps[left], arrow.width + 44)
        elif span == 0:  # a loop's label is as wide as it is, on both sides
            for gap in range(max(layers[arrow.source] - 1, 0), layers[arrow.source] + 1):
                gaps[gap] = max(gaps[gap], arrow.width / 2 + 56)
    places = [0.0]
    for width in gaps:
        places.append(places[-1] + width + 2 * RADIUS)
    return [places[layer] for layer in layers]


def _in_lanes(arrows: list[Arrow], layers: list[int]) -> list[Arrow]:
    """The arrows with a lane each, from 1 on: in one lane they do not meet, and short ones are nearer."""
    taken: list[list[tuple[int, int]]] = []
    found = []

    def ends(arrow: Arrow) -> tuple[int, int]:
        left, right = sorted((layers[arrow.source], layers[arrow.target]))
        return left, right

    for arrow in sorted(arrows, key=lambda a: (ends(a)[1] - ends(a)[0], ends(a))):
        left, right = ends(arrow)
        lanes = (n for n, others in enumerate(taken) if all(right <= a or b <= left for a, b in others))
        lane = next(lanes, len(taken))
        if lane == len(taken):
            taken.append([])
        taken[lane].append((left, right))
        found.append(Arrow(arrow.source, arrow.target, arrow.lines, arrow.dashed, lane + 1))
    return found
