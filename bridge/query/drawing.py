"""A script as a picture, with its streams and operators from left to right."""

from __future__ import annotations

import dataclasses

from bridge.query.notation import Operation, operations
from bridge.query.scripts import Script
from nfa.picture import MATCH_STYLE, Picture, digraph, dot_text, flowchart, mermaid_text


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
    >>> print(drawing.to_mermaid())
    flowchart LR
      n0["Union"]
      n1["Filter"]
      n2(["a"])
      n3(["b"])
      n4(["high"])
      n2 --> n0
      n3 --> n0
      n0 -->|"all"| n1
      n1 --> n4
    """

    operations: tuple[Operation, ...]

    @property
    def names(self) -> list[str]:
        """The operators' names in the picture: their kinds, with numbers if a kind occurs several times."""
        kinds = [operation.kind for operation in self.operations]
        streams = {stream for operation in self.operations for stream in (*operation.inputs, *operation.outputs)}
        return [
            kind if kinds.count(kind) == 1 and kind not in streams else f"{kind} {kinds[: place + 1].count(kind)}"
            for place, kind in enumerate(kinds)
        ]

    @property
    def edges(self) -> list[tuple[str, str, str]]:
        """The edges: from an operator or an input stream, to an operator or an output; and the stream."""
        makers = {out: name for name, one in zip(self.names, self.operations, strict=True) for out in one.outputs}
        read = {stream for one in self.operations for stream in one.inputs}
        found = [
            (makers.get(stream, stream), name, stream)
            for name, one in zip(self.names, self.operations, strict=True)
            for stream in one.inputs
        ]
        return found + [(maker, out, out) for out, maker in makers.items() if out not in read]

    def to_dot(self) -> str:
        """Returns the graph in Graphviz's language; the operators' definitions are tooltips."""
        labels = dict(zip(self.names, map(str, self.operations), strict=True))
        statements = ['node [shape=box, style="rounded,filled"]']
        statements += [f"{dot_text(name)} [tooltip={dot_text(label)}]" for name, label in labels.items()]
        statements += [f"{dot_text(end)} [{MATCH_STYLE}]" for end in self._ends]
        for start, end, stream in self.edges:
            label = "" if stream in (start, end) else f" [label={dot_text(stream)}]"
            statements.append(f"{dot_text(start)} -> {dot_text(end)}{label}")
        return digraph(statements)

    def to_mermaid(self) -> str:
        """Returns the graph in Mermaid's language."""
        numbers = {name: f"n{number}" for number, name in enumerate((*self.names, *self._ends))}
        statements = [f"{numbers[name]}[{mermaid_text(name)}]" for name in self.names]
        statements += [f"{numbers[end]}([{mermaid_text(end)}])" for end in self._ends]
        for start, end, stream in self.edges:
            label = "" if stream in (start, end) else f"|{mermaid_text(stream)}|"
            statements.append(f"{numbers[start]} -->{label} {numbers[end]}")
        return flowchart(statements)

    @property
    def _ends(self) -> list[str]:
        """The input and output streams."""
        return list(dict.fromkeys(end for edge in self.edges for end in edge[:2] if end not in self.names))

    def __str__(self) -> str:
        return "\n".join(map(str, self.operations))


def drawing_of(script: Script) -> Drawing:
    """The picture of a script."""
    return Drawing(tuple(operations(script)))
