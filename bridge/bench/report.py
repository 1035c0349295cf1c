"""What was measured, as Markdown tables and as JSON, with a description of the machine that tells no names."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from bridge.bench.experiment import ExperimentSettings, Measurement
from windows.databases import open_database

PACKAGES = ("cep-bridge", "duckdb", "sqlalchemy", "sqlglot", "pyarrow", "numpy")
VERSIONS = {"sqlite": "SELECT sqlite_version()"}
"""How a database tells its version, where it is not `SELECT version()`."""


def machine(databases: Iterable[str] = ()) -> dict[str, Any]:
    """Processor, cores, memory, system, and the versions of what takes part; databases by URL, without passwords."""
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
        "databases": {shown(url): _database(url) for url in databases},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """Linux tells the model in a file; elsewhere Python knows a little."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            return next(models, platform.processor())
    except OSError:
        return platform.processor()


def _memory() -> str | None:
    """In GiB; None where the system does not tell."""
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return None


def _database(url: str) -> str:
    database = open_database(url)
    try:
        ((version, *_),) = database.fetch(VERSIONS.get(database.dialect, "SELECT version()"))
        return f"{database.dialect} {version}"
    finally:
        database.close()


def shown(url: str) -> str:
    """A URL without its password, an engine's name as it is.

    >>> shown("postgresql+psycopg://me:secret@host/db"), shown("sqlite://"), shown("Flink SQL")
    ('postgresql+psycopg://me:***@host/db', 'sqlite://', 'Flink SQL')
    """
    if "@" not in url:
        return url
    import sqlalchemy as sa

    return sa.make_url(url).render_as_string(hide_password=True)


# JSON -----------------------------------------------------------------------------------------------------------------


def as_json(settings: ExperimentSettings, found: Sequence[Measurement]) -> str:
    told = {
        "databases": [shown(url) for url in settings.databases],
        "counts": list(settings.counts),
        "drives": list(settings.drives),
        "operators": list(settings.operators),
        "seconds": settings.seconds,
        "runs": settings.runs,
    }
    measurements = [
        {**dataclasses.asdict(each), "database": shown(each.database), "median": each.median} for each in found
    ]
    whole = {"machine": machine(settings.databases), "settings": told, "measurements": measurements}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


# Markdown -------------------------------------------------------------------------------------------------------------


def as_markdown(settings: ExperimentSettings, found: Sequence[Measurement]) -> str:
    """A table a database: median events a second (smallest–largest), and how many times the baseline's that is."""
    tables = [_table(url, [each for each in found if each.database == url]) for url in settings.databases]
    peers = [each for each in found if each.database not in settings.databases]
    tables += [_table("other engines", peers)] if peers else []
    return "\n\n".join([*tables, "\n".join(_notes(settings, found))]) + "\n"


def _table(title: str, found: Sequence[Measurement]) -> str:
    sides = list(dict.fromkeys(each.side for each in found))
    rows = list(dict.fromkeys((each.operator, each.count) for each in found))
    cells = {(each.operator, each.count, each.side): each for each in found}
    lines = [
        [shown(title), "Count", *sides],
        ["---", "--:", *["--:"] * len(sides)],
        *(
            [
                name,
                str(count),
                *(_cell(cells.get((name, count, side)), cells.get((name, count, "paper"))) for side in sides),
            ]
            for name, count in rows
        ),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(each: Measurement | None, baseline: Measurement | None) -> str:
    if each is None or each.median is None:
        return "" if each is None else "refused"
    spread = f" ({short(min(each.rates))}–{short(max(each.rates))})" if len(each.rates) > 1 else ""
    times = f" **{short(each.median / baseline.median)} ×**" if baseline not in (None, each) and baseline.median else ""
    fewer = f" *{each.batch:,}" if _fewer(each) else ""
    return f"{short(each.median)}{spread}{times}{fewer}"


def _notes(settings: ExperimentSettings, found: Sequence[Measurement]) -> list[str]:
    facts = machine(settings.databases)
    runs = f"Median of {settings.runs} runs (smallest–largest)" if settings.runs > 1 else "One run"
    notes = [
        "Input events a second over all streams. paper: the paper's own algorithm, event by event; **×**: times its rate.",
        f"{runs}. {sentence(facts)}",
    ]
    if any(_fewer(each) for each in found):
        notes.append("*: a whole batch takes too long; so many events at once instead.")
    return notes + [f"{each.operator} × {each.count}, {each.side}: {each.refused}" for each in found if each.refused]


def _fewer(each: Measurement) -> bool:
    return each.side.endswith(" at a time") and each.side != f"{each.batch:,} at a time"


def short(rate: float) -> str:
    """Three digits are all that a measurement says.

    >>> short(1234567.0), short(12345.6), short(7.25)
    ('1,230,000', '12,300', '7.25')
    """
    text = f"{float(f'{rate:.3g}'):,.2f}" if rate < 100 else f"{float(f'{rate:.3g}'):,.0f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def sentence(facts: dict[str, Any]) -> str:
    """The machine in words: `2 cores of …, 23 GiB, Linux 6.1; python 3.11.2, …`."""
    place = ("cpu", "cpus", "memory", "architecture", "system", "release", "databases")
    versions = [f"{name} {facts[name]}" for name in facts if name not in place]
    databases = [f"{url}: {version}" for url, version in facts.get("databases", {}).items()]
    memory = f", {facts['memory']}" if facts["memory"] else ""
    where = f"{facts['cpus']} cores of {facts['cpu'] or facts['architecture']}{memory}, {facts['system']}"
    return f"{where} {facts['release']}; {', '.join(versions + databases)}."
