"""What every picture can do: be shown in a notebook, and be saved."""

from __future__ import annotations

import abc
from pathlib import Path


class Picture(abc.ABC):
    """A picture as SVG and in Graphviz's language."""

    __slots__ = ()

    @abc.abstractmethod
    def to_svg(self) -> str:
        """As an SVG picture, which needs nothing but a browser."""

    @abc.abstractmethod
    def to_dot(self) -> str:
        """In Graphviz's language."""

    def save(self, path: str | Path) -> None:
        """Writes the picture: as SVG, or for Graphviz by the suffix .dot or .gv; ValueError for any other."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".svg", ".dot", ".gv"):
            raise ValueError(f"{path}: a picture is an .svg, or .dot or .gv for Graphviz")
        Path(path).write_text((self.to_svg() if suffix == ".svg" else self.to_dot()) + "\n", encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.to_svg()  # notebooks show it
