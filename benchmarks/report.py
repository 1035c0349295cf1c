"""What was measured, as a Markdown table and as JSON, with a description of the machine that tells no names."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from typing import Any

from benchmarks.runner import Measurement, Settings

PACKAGES = ("cep-bridge", "duckdb", "sqlalchemy", "sqlglot", "pyarrow", "numpy")


def machine() -> dict[str, Any]:
    """The processor's kind and number of cores, the system, and the versions of what takes part."""
    versions = {package: version for package in PACKAGES if (version := _version(package))}
    return {
        "cpus": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **versions,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def as_json(settings: Settings, found: Sequence[Measurement]) -> str:
    measurements = [{**dataclasses.asdict(each), "median": each.median} for each in found]
    whole = {"machine": machine(), "settings": dataclasses.asdict(settings), "measurements": measurements}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def as_markdown(settings: Settings, found: Sequence[Measurement]) -> str:
    """A row a workload and Count, a column a database and drive: median events a second (smallest–largest)."""
    columns = [(url, drive) for url in settings.databases for drive in sorted(settings.drives)]
    rows = list(dict.fromkeys((each.workload, each.count) for each in found))
    cells = {(each.workload, each.count, each.database, each.drive): _cell(each) for each in found}
    lines = [
        ["events/s", "Count", *(f"{url.removesuffix('://')}, {drive:,} at a time" for url, drive in columns)],
        ["---", *["--:"] * (1 + len(columns))],
        *([name, str(count), *(cells.get((name, count, *place), "") for place in columns)] for name, count in rows),
    ]
    notes = [f"Median of {settings.runs} runs (smallest–largest). " + sentence(machine())]
    if any(each.batch < each.drive for each in found):
        notes.append("*: a whole batch takes too long; so many events at once instead.")
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n" + "\n".join(notes) + "\n"


def _cell(each: Measurement) -> str:
    spread = f" ({short(min(each.rates))}–{short(max(each.rates))})" if len(each.rates) > 1 else ""
    fewer = f" *{each.batch:,}" if each.batch < each.drive else ""
    return f"{short(each.median)}{spread}{fewer}"


def short(rate: float) -> str:
    """Three digits are all that a measurement says.

    >>> short(1234567.0), short(12345.6), short(7.25)
    ('1,230,000', '12,300', '7.25')
    """
    text = f"{float(f'{rate:.3g}'):,.2f}" if rate < 100 else f"{float(f'{rate:.3g}'):,.0f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def sentence(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {facts[name]}" for name in facts if name not in ("cpus", "architecture", "system"))
    return f"{facts['cpus']} cores, {facts['architecture']}, {facts['system']}; {versions}."
