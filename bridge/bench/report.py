"""The measurements as Markdown tables and as JSON, with a description of the machine that contains no names."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bridge.bench.experiment import ExperimentSettings, Measurement
from windows.databases import open_database

PACKAGES = ("cep-bridge", "duckdb", "sqlalchemy", "sqlglot", "pyarrow", "numpy")
Cell = Callable[[Measurement | None, Measurement | None], str]
"""The text for a measurement next to the baseline's, in a table."""


def machine(databases: Iterable[str] = ()) -> dict[str, Any]:
    """Processor, cores, memory, system, and versions of packages and of databases.

    The latter by URL, without passwords.
    """
    versions = {package: version for package in PACKAGES if (version := _version(package))}
    return {
        "cpu": _processor(),
        "cpus": os.cpu_count(),
        "memory": _memory(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "release": ".".join(platform.release().split(".")[:2]),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **versions,
        "databases": {without_password(url): _database(url) for url in databases},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The model of the processor. Linux has it in a file; elsewhere Python knows a part of it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            return next(models, platform.processor())
    except OSError:
        return platform.processor()


def _memory() -> str | None:
    """The memory in GiB; None if the system does not tell."""
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return None


def _database(url: str) -> str:
    database = open_database(url)
    try:
        ((version, *_),) = database.fetch(database.version_query)
        return f"{database.dialect} {version}"
    finally:
        database.close()


def without_password(url: str) -> str:
    """A URL without its password; the name of an engine unchanged.

    >>> without_password("postgresql+psycopg://me:secret@host/db"), without_password("sqlite://"), without_password("Flink SQL")
    ('postgresql+psycopg://me:***@host/db', 'sqlite://', 'Flink SQL')
    """
    if "@" not in url:
        return url
    import sqlalchemy as sa

    return sa.make_url(url).render_as_string(hide_password=True)


# JSON -----------------------------------------------------------------------------------------------------------------


def as_json(settings: ExperimentSettings, measurements: Sequence[Measurement]) -> str:
    """The machine, the settings and the measurements as JSON."""
    options = {
        "databases": [without_password(url) for url in settings.databases],
        "counts": list(settings.counts),
        "drives": list(settings.drives),
        "operators": list(settings.operators),
        "seconds": settings.seconds,
        "runs": settings.runs,
    }
    figures = [
        {**dataclasses.asdict(each), "database": without_password(each.database), "median": each.median}
        for each in measurements
    ]
    whole = {"machine": machine(settings.databases), "settings": options, "measurements": figures}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


# Markdown -------------------------------------------------------------------------------------------------------------


def as_markdown(settings: ExperimentSettings, measurements: Sequence[Measurement]) -> str:
    """Two tables per database: events per second, and the latency of a push.

    The first has medians (smallest–largest), with their ratios to those of the baseline.
    """
    groups = {url: [each for each in measurements if each.database == url] for url in settings.databases}
    groups["other engines"] = [each for each in measurements if each.database not in settings.databases]
    tables = [_table(title, group, _rates) for title, group in groups.items() if group]
    tables += [
        _table(f"{title}, ms per push", known, _latencies)
        for title, group in groups.items()
        if (known := _known(group))
    ]
    return "\n\n".join([*tables, "\n".join(_notes(settings, measurements))]) + "\n"


def _known(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The measurements with a latency."""
    return [each for each in measurements if each.latency is not None]


def _table(title: str, measurements: Sequence[Measurement], cell: Cell) -> str:
    systems = list(dict.fromkeys(each.side for each in measurements))
    rows = list(dict.fromkeys((each.operator, each.count) for each in measurements))
    cells = {(each.operator, each.count, each.side): each for each in measurements}
    lines = [
        [without_password(title), "Count", *systems],
        ["---", "--:", *["--:"] * len(systems)],
        *(
            [
                name,
                str(count),
                *(cell(cells.get((name, count, system)), cells.get((name, count, "paper"))) for system in systems),
            ]
            for name, count in rows
        ),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _latencies(each: Measurement | None, baseline: Measurement | None) -> str:
    if each is None or each.latency is None:
        return ""
    return f"{_milliseconds(each.latency.p50)} / {_milliseconds(each.latency.p99)}"


def _milliseconds(number: float) -> str:
    """Milliseconds with three significant digits, or two if it is less than one.

    >>> _milliseconds(1234.5), _milliseconds(0.00712)
    ('1,230', '0.0071')
    """
    return three_digits(number) if number >= 1 else f"{number:.2g}"


def _rates(each: Measurement | None, baseline: Measurement | None) -> str:
    if each is None or each.median is None:
        return "" if each is None else "refused"
    spread = f" ({three_digits(min(each.rates))}–{three_digits(max(each.rates))})" if len(each.rates) > 1 else ""
    times = (
        f" **{three_digits(each.median / baseline.median)} ×**"
        if baseline not in (None, each) and baseline.median
        else ""
    )
    fewer = f" *{each.batch:,}" if _fewer(each) else ""
    return f"{three_digits(each.median)}{spread}{times}{fewer}"


def _notes(settings: ExperimentSettings, measurements: Sequence[Measurement]) -> list[str]:
    facts = machine(settings.databases)
    runs = f"Median of {settings.runs} runs (smallest–largest)" if settings.runs > 1 else "One run"
    has_baseline = any(each.side == "paper" for each in measurements)
    baseline = " paper: the paper's algorithm, event by event; **×**: the ratio to its rate." if has_baseline else ""
    notes = [
        f"Input events per second over all streams.{baseline}",
        "ms per push: median / 99th percentile.",
        f"{runs}. {machine_description(facts)}",
    ]
    if any(_fewer(each) for each in measurements):
        notes.append("*: a whole batch takes too long; this many events at once instead.")
    return notes + [
        f"{each.operator} × {each.count}, {_place(each, settings)}: {each.refused}"
        for each in measurements
        if each.refused
    ]


def _place(each: Measurement, settings: ExperimentSettings) -> str:
    return f"{without_password(each.database)}, {each.side}" if each.database in settings.databases else each.side


def _fewer(each: Measurement) -> bool:
    return each.side.endswith(" at a time") and each.side != f"{each.batch:,} at a time"


def three_digits(rate: float) -> str:
    """A rate with three significant digits.

    >>> three_digits(1234567.0), three_digits(12345.6), three_digits(7.25)
    ('1,230,000', '12,300', '7.25')
    """
    text = f"{float(f'{rate:.3g}'):,.2f}" if rate < 100 else f"{float(f'{rate:.3g}'):,.0f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def machine_description(facts: dict[str, Any]) -> str:
    """The machine as a sentence: `2 cores of …, 23 GiB, Linux 6.1; python 3.11.2, …`."""
    place = ("cpu", "cpus", "memory", "architecture", "system", "release", "databases")
    versions = [f"{name} {facts[name]}" for name in facts if name not in place]
    databases = [f"{url}: {version}" for url, version in facts.get("databases", {}).items()]
    memory = f", {facts['memory']}" if facts["memory"] else ""
    where = f"{facts['cpus']} cores of {facts['cpu'] or facts['architecture']}{memory}, {facts['system']}"
    return f"{where} {facts['release']}; {', '.join(versions + databases)}."
