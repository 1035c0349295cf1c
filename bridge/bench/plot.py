"""The experiment as a picture like the paper's Figure 4: throughput over Count, a panel a database, a line an operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.bench.report import shown
from bridge.errors import BridgeError

if TYPE_CHECKING:
    from bridge.bench.experiment import Measurement

STYLES: tuple[Any, ...] = (":", "-", "--", "-.", (0, (1, 4)), (0, (5, 5)))
"""Of the sides in their order: the baseline first, then this bridge event by event."""


class NoPlotError(BridgeError):
    """There is nothing to draw with, or no way to write that kind of picture."""


def pyplot() -> Any:
    """matplotlib's, drawing without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise NoPlotError("pictures are drawn by matplotlib: pip install 'cep-bridge[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=130)
    except ValueError as error:  # matplotlib's list of the endings that it can write
        raise NoPlotError(f"{path}: {error}") from None


def draw(found: Sequence[Measurement], path: Path) -> None:
    """Operators differ by colour, drives by the kind of line."""
    databases = list(dict.fromkeys(each.database for each in found if each.rates))
    sides = list(dict.fromkeys(each.side for each in found if each.rates))
    figure, panels = pyplot().subplots(
        1, len(databases), figsize=(1 + 5 * len(databases), 5), sharey=True, squeeze=False
    )
    for axes, database in zip(panels[0], databases, strict=True):
        _panel(axes, [each for each in found if each.database == database and each.rates], sides)
        axes.set_title(shown(database))
    panels[0][0].set_ylabel("events a second")
    _legend(figure, found, sides)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    save(figure, path)


def _panel(axes: Any, found: Sequence[Measurement], sides: Sequence[str]) -> None:
    for operator, side in dict.fromkeys((each.operator, each.side) for each in found):
        mine = sorted(
            (each for each in found if (each.operator, each.side) == (operator, side)), key=lambda each: each.count
        )
        middle = [each.median or 0.0 for each in mine]
        below = [middle - min(each.rates) for middle, each in zip(middle, mine, strict=True)]
        above = [max(each.rates) - middle for middle, each in zip(middle, mine, strict=True)]
        axes.errorbar(
            [each.count for each in mine], middle, [below, above], color=_color(operator),
            linestyle=STYLES[sides.index(side) % len(STYLES)], marker="*" if operator == "mixed" else ".", capsize=2,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel("Count: queries at the same time")
    axes.grid(alpha=0.3, which="both")


def _color(operator: str) -> str:
    colors = {"σ": "tab:blue", "⋈": "tab:red", "α": "tab:green", "ρ": "tab:purple"}
    return colors.get(operator[0], "black")


def _legend(figure: Any, found: Sequence[Measurement], sides: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    operators = dict.fromkeys(each.operator for each in found)
    lines = [Line2D([], [], color=_color(operator), marker=".", label=operator) for operator in operators]
    lines += [
        Line2D([], [], color="grey", linestyle=STYLES[n % len(STYLES)], label=side) for n, side in enumerate(sides)
    ]
    figure.legend(handles=lines, loc="lower center", ncols=5, frameon=False)
