"""The experiment as a plot like the paper's Figure 4: throughput over Count, one panel per database, one line per operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.bench.report import without_password
from bridge.errors import BridgeError

if TYPE_CHECKING:
    from bridge.bench.experiment import Measurement

STYLES: tuple[Any, ...] = (":", "-", "--", "-.", (0, (1, 4)), (0, (5, 5)))
"""Line styles of the systems in their order: the baseline, then this bridge event by event, …"""


class NoPlotError(BridgeError):
    """matplotlib is missing, or cannot write this kind of file."""


def pyplot() -> Any:
    """matplotlib's pyplot, which draws without a screen. Raises NoPlotError without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise NoPlotError("plots need matplotlib: pip install 'cep-bridge[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: Path) -> None:
    """Writes a figure. Raises NoPlotError for an unknown ending of the file."""
    try:
        figure.savefig(path, dpi=130)
    except ValueError as error:  # it lists the endings that matplotlib can write
        raise NoPlotError(f"{path}: {error}") from None


def draw(measurements: Sequence[Measurement], path: Path) -> None:
    """Plots the measurements. Colours are operators, line styles are systems."""
    databases = list(dict.fromkeys(each.database for each in measurements if each.rates))
    systems = list(dict.fromkeys(each.side for each in measurements if each.rates))
    figure, panels = pyplot().subplots(
        1, len(databases), figsize=(1 + 5 * len(databases), 5), sharey=True, squeeze=False
    )
    for axes, database in zip(panels[0], databases, strict=True):
        _panel(axes, [each for each in measurements if each.database == database and each.rates], systems)
        axes.set_title(without_password(database))
    panels[0][0].set_ylabel("events per second")
    _legend(figure, measurements, systems)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    save(figure, path)


def _panel(axes: Any, measurements: Sequence[Measurement], systems: Sequence[str]) -> None:
    for operator, system in dict.fromkeys((each.operator, each.side) for each in measurements):
        points = sorted(
            (each for each in measurements if (each.operator, each.side) == (operator, system)),
            key=lambda each: each.count,
        )
        middle = [each.median or 0.0 for each in points]
        below = [middle - min(each.rates) for middle, each in zip(middle, points, strict=True)]
        above = [max(each.rates) - middle for middle, each in zip(middle, points, strict=True)]
        axes.errorbar(
            [each.count for each in points], middle, [below, above], color=_color(operator),
            linestyle=STYLES[systems.index(system) % len(STYLES)], marker="*" if operator == "mixed" else ".", capsize=2,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel("Count: queries at the same time")
    axes.grid(alpha=0.3, which="both")


def _color(operator: str) -> str:
    colors = {"σ": "tab:blue", "⋈": "tab:red", "α": "tab:green", "ρ": "tab:purple"}
    return colors.get(operator[0], "black")


def _legend(figure: Any, measurements: Sequence[Measurement], systems: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    operators = dict.fromkeys(each.operator for each in measurements)
    lines = [Line2D([], [], color=_color(operator), marker=".", label=operator) for operator in operators]
    lines += [
        Line2D([], [], color="grey", linestyle=STYLES[n % len(STYLES)], label=system)
        for n, system in enumerate(systems)
    ]
    figure.legend(handles=lines, loc="lower center", ncols=5, frameon=False)
