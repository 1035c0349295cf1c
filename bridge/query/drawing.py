"""A script as a picture: its streams and operators from left to right, as SVG or for Graphviz."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from xml.sax.saxutils import escape

from bridge.query.notation import Operation, operations
from bridge.query.scripts import Script
from nfa.picture import Picture

WIDTH, HEIGHT, GAP, MARGIN = 150, 44, 60, 20
"""Of a box, between the columns of boxes, and around the picture."""

STYLE = """
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2937; text-anchor: middle }
  text.stream { fill: #64748b; font-size: 11px }
  rect { fill: #f8fafc; stroke: #334155; stroke-width: 1.5; rx: 6 }
  rect.end { fill: #ecfdf5; stroke: #047857 }
  path { fill: none; stroke: #475569; stroke-width: 1.3; marker-end: url(#head) }
"""

HEAD = (
    '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M 0 1 L 10 5 L 0 9 z" style="fill:#475569;stroke:none"/></marker>'
)


@dataclasses.dataclass(frozen=True)
class Drawing(Picture):
    """The operators of a script and the streams between them.

    >>> from bridge.frontends.cpl.script import parse
    >>> drawing = drawing_of(parse("INSERT INTO all SELECT * FROM a, b; INSERT INTO high SELECT * FROM all WHERE x > 1"))
    >>> print(drawing)
    Union(a, b){all}
    Filter(all) = {(x > 1, high)}
    >>> drawing.edges
    [('a', 'Union', 'a'), ('b', 'Union', 'b'), ('Union', 'Filter', 'all'), ('Filter', 'high', 'high')]
    >>> drawing.to_svg().count("<rect")
    5
    """

    operations: tuple[Operation, ...]

    @property
    def names(self) -> list[str]:
        """The operators' names in the picture: their kinds, numbered where a kind is there several times."""
        kinds = [operation.kind for operation in self.operations]
        streams = {stream for operation in self.operations for stream in (*operation.inputs, *operation.outputs)}
        return [
            kind if kinds.count(kind) == 1 and kind not in streams else f"{kind} {kinds[: place + 1].count(kind)}"
            for place, kind in enumerate(kinds)
        ]

    @property
    def edges(self) -> list[tuple[str, str, str]]:
        """From where to where, and the stream: from an operator or an input stream, to an operator or an output."""
        makers = {out: name for name, one in zip(self.names, self.operations, strict=True) for out in one.outputs}
        read = {stream for one in self.operations for stream in one.inputs}
        found = [
            (makers.get(stream, stream), name, stream)
            for name, one in zip(self.names, self.operations, strict=True)
            for stream in one.inputs
        ]
        return found + [(maker, out, out) for out, maker in makers.items() if out not in read]

    def to_dot(self) -> str:
        """For Graphviz."""
        labels = dict(zip(self.names, map(str, self.operations), strict=True))
        lines = [f"  {_quoted(name)} [shape=box, tooltip={_quoted(label)}]" for name, label in labels.items()]
        ends = dict.fromkeys(end for edge in self.edges for end in edge[:2] if end not in labels)
        lines += [f"  {_quoted(end)} [shape=plaintext]" for end in ends]
        lines += [f"  {_quoted(a)} -> {_quoted(b)} [label={_quoted(stream)}]" for a, b, stream in self.edges]
        return "\n".join(["digraph {", "  rankdir=LR", *lines, "}"])

    def to_svg(self) -> str:
        """As an SVG picture, which needs nothing but a browser."""
        places = self._places()
        columns, rows = (max(place[axis] for place in places.values()) + 1 for axis in (0, 1))
        width = 2 * MARGIN + columns * WIDTH + (columns - 1) * GAP
        height = 2 * MARGIN + rows * HEIGHT + (rows - 1) * GAP // 2
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
                f"<style>{STYLE}</style><defs>{HEAD}</defs>",
                *self._arrows(places),
                *self._boxes(places),
                "</svg>",
            ]
        )

    def __str__(self) -> str:
        return "\n".join(map(str, self.operations))

    def _places(self) -> dict[str, tuple[int, int]]:
        """Column and row of each box: a column is the longest way from an input; rows are filled from the top."""
        columns: dict[str, int] = {}
        for start, end, _ in self.edges:  # in the order of the data, so what an edge starts from is placed
            columns.setdefault(start, 0)
            columns[end] = max(columns.get(end, 0), columns[start] + 1)
        rows: dict[int, int] = {}
        places = {}
        for name, column in columns.items():
            places[name] = (column, rows.get(column, 0))
            rows[column] = rows.get(column, 0) + 1
        return places

    def _boxes(self, places: dict[str, tuple[int, int]]) -> Iterator[str]:
        labels = dict(zip(self.names, map(str, self.operations), strict=True))
        for name, place in places.items():
            x, y = _corner(place)
            kind = "operator" if name in labels else "end"
            yield f'<g><title>{escape(labels.get(name, name))}</title><rect class="{kind}" x="{x}" y="{y}" '
            yield f'width="{WIDTH}" height="{HEIGHT}"/>'
            yield f'<text x="{x + WIDTH // 2}" y="{y + HEIGHT // 2 + 4}">{escape(_short(name))}</text></g>'

    def _arrows(self, places: dict[str, tuple[int, int]]) -> Iterator[str]:
        for start, end, stream in self.edges:
            (x1, y1), (x2, y2) = _corner(places[start]), _corner(places[end])
            left, right, top, bottom = x1 + WIDTH, x2, y1 + HEIGHT // 2, y2 + HEIGHT // 2
            middle = (left + right) // 2
            yield f'<path d="M {left} {top} C {middle} {top}, {middle} {bottom}, {right} {bottom}"/>'
            if stream not in (start, end):
                yield f'<text class="stream" x="{middle}" y="{(top + bottom) // 2 - 5}">{escape(_short(stream, 9))}</text>'


def drawing_of(script: Script) -> Drawing:
    """The picture of a script."""
    return Drawing(tuple(operations(script)))


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return MARGIN + place[0] * (WIDTH + GAP), MARGIN + place[1] * (HEIGHT + GAP // 2)


def _short(name: str, letters: int = 18) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
