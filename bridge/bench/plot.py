"""The experiment as a plot like the paper's Figure 4: throughput over Count, one panel per database, one line per operator.

With one number of queries there are no lines; bars then compare the systems, or the databases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.bench.report import three_digits, without_password
from bridge.errors import BridgeError

if TYPE_CHECKING:
    from bridge.bench.experiment import Measurement

STYLES: tuple[Any, ...] = (":", "-", "--", "-.", (0, (1, 4)), (0, (5, 5)))
"""The line styles of the systems, in order: the baseline, then this bridge event by event, …"""


class NoPlotError(BridgeError):
    """Raised if matplotlib is missing, or cannot write this kind of file."""


def pyplot() -> Any:
    """matplotlib's pyplot, which draws without a screen. Raises NoPlotError without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise NoPlotError("plots need matplotlib: pip install '.[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: Path) -> None:
    """Writes a figure. Raises NoPlotError for an unknown ending of the file."""
    try:
        figure.savefig(path, dpi=130)
    except ValueError as error:  # the message lists the endings that matplotlib can write
        raise NoPlotError(f"{path}: {error}") from None


def draw(measurements: Sequence[Measurement], path: Path) -> None:
    """Plots the measurements: lines whose colours are operators and whose styles are systems, or bars for one Count."""
    measured = [each for each in measurements if each.rates]
    if len({(each.operator, each.count) for each in measured}) == len({each.operator for each in measured}):
        _draw_bars(measured, path)
    else:
        _draw_lines(measured, path)


# Lines ----------------------------------------------------------------------------------------------------------------


def _draw_lines(measurements: Sequence[Measurement], path: Path) -> None:
    databases = list(dict.fromkeys(each.database for each in measurements))
    systems = list(dict.fromkeys(each.side for each in measurements))
    figure, panels = pyplot().subplots(
        1, len(databases), figsize=(1 + 5 * len(databases), 5), sharey=True, squeeze=False
    )
    for axes, database in zip(panels[0], databases, strict=True):
        _panel(axes, [each for each in measurements if each.database == database], systems)
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


# Bars -----------------------------------------------------------------------------------------------------------------


def _draw_bars(measurements: Sequence[Measurement], path: Path) -> None:
    """One panel per database, with a group of bars per operator.

    For one operator, one panel with a group per database.
    """
    operators = dict.fromkeys(each.operator for each in measurements)
    panels: dict[str, dict[str, list[Measurement]]] = {}
    for each in measurements:
        database = without_password(each.database)
        panel, group = (
            (each.operator, database) if len(operators) == 1 else (database, f"{each.operator} × {each.count}")
        )
        panels.setdefault(panel, {}).setdefault(group, []).append(each)
    systems = list(dict.fromkeys(each.side for each in measurements))
    width = max(6.5, 0.7 * sum(len(groups) for groups in panels.values()) * len(systems))
    figure, rows = pyplot().subplots(1, len(panels), figsize=(width, 5), sharey=True, squeeze=False)
    for axes, (title, groups) in zip(rows[0], panels.items(), strict=True):
        _bars(axes, groups, systems)
        axes.set_title(title)
    rows[0][0].set_ylabel("events per second")
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    save(figure, path)


def _bars(axes: Any, groups: Mapping[str, Sequence[Measurement]], systems: Sequence[str]) -> None:
    """A bar per system in each group, with its median above it, and the range of the runs."""
    for place, system in enumerate(systems):
        found = [(at, each) for at, group in enumerate(groups.values()) for each in group if each.side == system]
        middle = [each.median or 0.0 for _, each in found]
        below = [middle - min(each.rates) for middle, (_, each) in zip(middle, found, strict=True)]
        above = [max(each.rates) - middle for middle, (_, each) in zip(middle, found, strict=True)]
        places = [at + (place - (len(systems) - 1) / 2) * 0.8 / len(systems) for at, _ in found]
        bars = axes.bar(places, middle, 0.76 / len(systems), yerr=[below, above], capsize=2, label=system)
        axes.bar_label(bars, [_short(each) for each in middle], padding=3, fontsize=8)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_yscale("log")
    axes.margins(y=0.12)
    axes.grid(alpha=0.3, axis="y")


def _short(number: float) -> str:
    """A rate in few characters.

    >>> _short(1234567.0), _short(45678.0), _short(5.0)
    ('1.23 M', '45.7 k', '5')
    """
    for least, unit in ((1e6, " M"), (1e3, " k")):
        if number >= least:
            return f"{three_digits(number / least)}{unit}"
    return three_digits(number)
