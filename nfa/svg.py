"""Pictures of patterns as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from nfa.graph import Diagram
from nfa.layout import FONT, LANE, LINE, LOOP, RADIUS, Arrow, Layout, layout, text_width

MARGIN = 24
AT_END = "$ at the end"
TITLE = 34
"""The height of a title."""

STYLE = """
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2937; text-anchor: middle }
  text.title { font-weight: 600; font-size: 14px; text-anchor: start }
  text.state { fill: #64748b; font-size: 12px }
  rect.behind { fill: #fff; fill-opacity: 0.85 }
  circle { fill: #f8fafc; stroke: #334155; stroke-width: 1.5 }
  circle.match { fill: #ecfdf5; stroke: #047857 }
  circle.inner { fill: none; stroke: #047857 }
  path.arrow { fill: none; stroke: #475569; stroke-width: 1.3; marker-end: url(#head) }
  .dashed { stroke-dasharray: 5 4 }
"""

HEAD = (
    '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
    'orient="auto-start-reverse"><path d="M 0 1 L 10 5 L 0 9 z" fill="#475569"/></marker>'
)


class Box(NamedTuple):
    """A rectangle that something covers."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether they have a place in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )  # fmt: skip


def drawn(diagrams: Sequence[Diagram]) -> str:
    """The pictures one below the other.

    >>> from nfa import compile_program, parse_pattern
    >>> from nfa.graph import diagram
    >>> drawn([diagram(compile_program(parse_pattern("A")), "A")]).count("<circle")
    3
    """
    parts: list[str] = []
    width, height = 0.0, float(MARGIN)
    for one in diagrams:
        picture = _Picture(layout(one), one)
        box = picture.box
        parts.append(f'<text class="title" x="{MARGIN}" y="{_n(height + FONT)}">{escape(one.title)}</text>')
        height += TITLE
        parts.append(f'<g transform="translate({_n(MARGIN - box.left)} {_n(height - box.top)})">')
        parts += [*picture.parts, "</g>"]
        width = max(width, box.right - box.left, 1.1 * text_width(one.title))
        height += box.bottom - box.top + MARGIN
    size = f'viewBox="0 0 {_n(width + 2 * MARGIN)} {_n(height)}" width="{_n(width + 2 * MARGIN)}" height="{_n(height)}"'
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join((opening, f"<style>{STYLE}</style>", f"<defs>{HEAD}</defs>", background, *parts, "</svg>"))


class _Picture:
    """The elements of one picture, and what they cover."""

    def __init__(self, places: Layout, one: Diagram) -> None:
        self.places, self.one = places, one
        self.taken = [Box(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in places.at]
        wide = text_width(AT_END) / 2
        for state, (x, y) in enumerate(places.at):
            if self._is_bound_to_the_end(state):
                self.taken.append(Box(x - wide, y + RADIUS + 3, x + wide, y + RADIUS + LINE + 4))
        self.paths: list[str] = []
        self.labels: list[str] = []
        x, y = places.at[0]
        self._path(f"M {_n(x - RADIUS - 28)} {_n(y)} L {_n(x - RADIUS)} {_n(y)}", False)
        self.taken.append(Box(x - RADIUS - 28, y, x, y))
        for arrow in places.loops:
            self._loop(arrow)
        for arrow in places.above:
            self._over(arrow, places.top - 6 - LANE * (arrow.lane - 0.5), up=True)
        for arrow in places.below:
            self._over(arrow, places.bottom + LANE * (arrow.lane - 0.2), up=False)
        for arrow in places.lines:
            self._line(arrow)

    @property
    def parts(self) -> list[str]:
        """Arrows, then states, then labels, which nothing hides."""
        return [*self.paths, *self._states(), *self.labels]

    @property
    def box(self) -> Box:
        """What the picture covers, with room for the strokes."""
        return Box(
            min(box.left for box in self.taken) - 2,
            min(box.top for box in self.taken) - 2,
            max(box.right for box in self.taken) + 2,
            max(box.bottom for box in self.taken) + 2,
        )

    def _is_bound_to_the_end(self, state: int) -> bool:
        accept = self.one.accept(state)
        return accept is not None and accept.at_end

    def _states(self) -> Iterator[str]:
        for state, (x, y) in enumerate(self.places.at):
            accept, at_end = self.one.accept(state), self._is_bound_to_the_end(state)
            kind = ' class="match"' if accept is not None else ""
            yield f'<circle{kind} cx="{_n(x)}" cy="{_n(y)}" r="{RADIUS}"/>'
            if accept is not None:
                dashed = " dashed" if at_end else ""
                yield f'<circle class="inner{dashed}" cx="{_n(x)}" cy="{_n(y)}" r="{RADIUS - 4}"/>'
            yield f'<text class="state" x="{_n(x)}" y="{_n(y + 4)}">{state}</text>'
            if at_end:
                yield f'<text class="label" x="{_n(x)}" y="{_n(y + RADIUS + LINE)}">{AT_END}</text>'

    def _path(self, d: str, dashed: bool) -> None:
        self.paths.append(f'<path class="arrow{" dashed" if dashed else ""}" d="{d}"/>')

    def _label(self, arrow: Arrow, x: float, bottom: float) -> None:
        """The label with its last line's foot at `bottom`."""
        box = _label_box(arrow, x, bottom)
        self.taken.append(box)
        size = f'width="{_n(arrow.width)}" height="{_n(box.bottom - box.top - 3)}"'
        self.labels.append(f'<rect class="behind" x="{_n(box.left)}" y="{_n(box.top + 2)}" {size}/>')
        for place, line in enumerate(reversed(arrow.lines)):
            self.labels.append(
                f'<text class="label" x="{_n(x)}" y="{_n(bottom - 4 - place * LINE)}">{escape(line)}</text>'
            )

    def _loop(self, arrow: Arrow) -> None:
        x, y = self.places.at[arrow.source]
        (ax, ay), (bx, by) = _rim(x, y, -112), _rim(x, y, -68)
        top = y - LOOP - 10
        self._path(
            f"M {_n(ax)} {_n(ay)} C {_n(x - 30)} {_n(top)} {_n(x + 30)} {_n(top)} {_n(bx)} {_n(by)}", arrow.dashed
        )
        self._label(arrow, x, y - LOOP)

    def _line(self, arrow: Arrow) -> None:
        """A line to the next layer, its label where it meets nothing."""
        (x, y), (to_x, to_y) = self.places.at[arrow.source], self.places.at[arrow.target]
        angle = math.degrees(math.atan2(to_y - y, to_x - x)) * 0.75
        (ax, ay), (bx, by) = _rim(x, y, angle), _rim(to_x, to_y, 180 + angle)
        bend = (bx - ax) * 0.4 if to_y != y else 0
        self._path(
            f"M {_n(ax)} {_n(ay)} C {_n(ax + bend)} {_n(ay)} {_n(bx - bend)} {_n(by)} {_n(bx)} {_n(by)}", arrow.dashed
        )
        rises = 4 if to_y == y else -LINE / 2
        spots = [(ax + (bx - ax) * t, ay + (by - ay) * t - rises) for t in (0.5, 0.42, 0.58, 0.34, 0.66, 0.28, 0.72)]
        free = (spot for spot in spots if not any(_label_box(arrow, *spot).meets(box) for box in self.taken))
        self._label(arrow, *next(free, spots[0]))

    def _over(self, arrow: Arrow, lane: float, up: bool) -> None:
        """An arrow through a lane: it rises and falls between the layers, where no states are."""
        (x, y), (to_x, to_y) = self.places.at[arrow.source], self.places.at[arrow.target]
        sign, rise = 1 if to_x > x else -1, -1 if up else 1
        steep = math.radians(min(22 + 10 * arrow.lane, 52))
        across, along = sign * RADIUS * math.cos(steep), rise * RADIUS * math.sin(steep)
        (ax, ay), (bx, by) = (x + across, y + along), (to_x - across, to_y + along)
        out, bend, flat = (sign * part * min(58.0, abs(bx - ax) / 2) for part in (0.45, 0.55, 1.0))
        self._path(
            f"M {_n(ax)} {_n(ay)} C {_n(ax + out)} {_n(ay + along)} {_n(ax + bend / 2)} {_n(lane)} {_n(ax + flat)} {_n(lane)} "
            f"L {_n(bx - flat)} {_n(lane)} C {_n(bx - bend / 2)} {_n(lane)} {_n(bx - out)} {_n(by + along)} {_n(bx)} {_n(by)}",
            arrow.dashed,
        )
        self.taken.append(Box(min(ax, bx), lane - 1, max(ax, bx), lane + 1))
        self._label(arrow, (ax + bx) / 2, lane - 2)


def _label_box(arrow: Arrow, x: float, bottom: float) -> Box:
    return Box(x - arrow.width / 2, bottom - LINE * len(arrow.lines), x + arrow.width / 2, bottom)


def _rim(x: float, y: float, degrees: float) -> tuple[float, float]:
    """The place on a state's rim in a direction; 0 is right, -90 up."""
    return x + RADIUS * math.cos(math.radians(degrees)), y + RADIUS * math.sin(math.radians(degrees))


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
