"""The base class of pictures, which can be written for Graphviz and Mermaid, shown in a notebook, and saved.

SVG is drawn by pygraphviz, whose wheels bring Graphviz's layout with them; the extra `graph` installs it.
"""

from __future__ import annotations

import abc
import importlib.util
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

STYLE = (
    "rankdir=LR",
    'graph [fontname="Helvetica", fontcolor="#1f2937", labeljust=l]',
    'node [fontname="Helvetica", fontsize=12, fontcolor="#1f2937", color="#334155", fillcolor="#f8fafc", style=filled]',
    'edge [fontname="Helvetica", fontsize=12, fontcolor="#1f2937", color="#475569", arrowsize=0.7]',
)
"""The first statements of every graph in Graphviz's language."""

MATCH_STYLE = 'color="#047857", fillcolor="#ecfdf5"'
"""The colours of a node that is a match or a result."""


class Picture(abc.ABC):
    """A graph that is drawn by Graphviz or Mermaid."""

    __slots__ = ()

    @abc.abstractmethod
    def to_dot(self) -> str:
        """Returns the graph in Graphviz's language."""

    @abc.abstractmethod
    def to_mermaid(self) -> str:
        """Returns the graph in Mermaid's language, which GitHub and JupyterLab draw."""

    def to_svg(self) -> str:
        """Draws the graph.

        Returns:
            An SVG document.

        Raises:
            ModuleNotFoundError: pygraphviz is not installed (the extra `graph`).
        """
        try:
            import pygraphviz
        except ImportError:
            raise ModuleNotFoundError(
                "an SVG picture needs pygraphviz: pip install '.[graph]'; .dot and .mmd need nothing"
            ) from None
        with pygraphviz.AGraph(string=self.to_dot()) as graph:
            svg: bytes = graph.draw(format="svg", prog="dot")
        # Without prolog, so that the document can stand in a page of HTML.
        return svg[svg.index(b"<svg") :].decode().rstrip()

    def save(self, path: str | Path) -> None:
        """Writes the picture into a file.

        Args:
            path: Its suffix says what is written: .svg, .dot or .gv for Graphviz, .mmd for Mermaid.

        Raises:
            ValueError: The suffix is none of these.
            ModuleNotFoundError: .svg needs pygraphviz, which is not installed.
        """
        writers = {".svg": self.to_svg, ".dot": self.to_dot, ".gv": self.to_dot, ".mmd": self.to_mermaid}
        suffix = Path(path).suffix.lower()
        if suffix not in writers:
            raise ValueError(f"{path}: a picture is an .svg, .dot or .gv for Graphviz, or .mmd for Mermaid")
        Path(path).write_text(writers[suffix]() + "\n", encoding="utf-8")

    def _repr_svg_(self) -> str | None:
        return self.to_svg() if _can_draw() else None

    def _repr_mimebundle_(self, include: Collection[str] = (), exclude: Collection[str] = ()) -> dict[str, Any]:
        # JupyterLab draws Mermaid by itself, so that a notebook shows a picture without the extra, too.
        return {} if _can_draw() else {"text/vnd.mermaid": self.to_mermaid()}


def _can_draw() -> bool:
    return importlib.util.find_spec("pygraphviz") is not None


def dot_text(text: str) -> str:
    r"""A text in quotes, as Graphviz reads it.

    >>> print(dot_text('say "A\\B"'))
    "say \"A\\B\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def mermaid_text(text: str) -> str:
    """A text in quotes, as Mermaid reads it: characters with a meaning are entities.

    >>> print(mermaid_text('"a b"*'))
    "#34;a b#34;*"
    """
    return '"' + re.sub(r'["#<>&`\\]', lambda found: f"#{ord(found[0])};", text) + '"'


def digraph(statements: Sequence[str]) -> str:
    """A graph in Graphviz's language, from left to right."""
    return "\n".join(("digraph {", *(f"  {line}" for line in (*STYLE, *statements)), "}"))


def flowchart(statements: Sequence[str]) -> str:
    """A graph in Mermaid's language, from left to right."""
    return "\n".join(("flowchart LR", *(f"  {line}" for line in statements)))
