"""The work of `cepbridge bench`: reads its options, checks, measures, and reports."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from bridge.bench.experiment import ExperimentSettings, Measurement, Progress, check, measure
from bridge.bench.peers import Peer
from bridge.bench.plot import draw, pyplot
from bridge.bench.report import as_json, as_markdown
from bridge.errors import DatabaseError
from windows.databases import Refused, open_database

OWN: dict[str, Any] = {"drives": (1, 100, 10_000)}
"""The settings for your own workload."""

QUICK: dict[str, Any] = {"counts": (1,), "drives": (1, 1_000), "seconds": 0.2, "runs": 1}
"""The settings for a check that everything works, not how fast."""


def settings_of(quick: bool, own: bool = False, **options: Any) -> ExperimentSettings:
    """The settings from the options. An option that is not given has its default, or the value of QUICK or OWN."""
    defaults = dataclasses.replace(ExperimentSettings(), **{**(OWN if own else {}), **(QUICK if quick else {})})
    return dataclasses.replace(defaults, **{name: value for name, value in options.items() if value})


Measure = Callable[[ExperimentSettings, Progress], Iterator[Measurement]]
"""Measures the systems and reports progress."""


def experiment(settings: ExperimentSettings, progress: Progress) -> Iterator[Measurement]:
    """The experiment of the paper."""
    check(settings, progress)
    yield from measure(settings, progress)


def bench(settings: ExperimentSettings, json: Path | None, plot: Path | None, measured: Measure = experiment) -> None:
    """Measures and writes the figures. First raises UsageError for a file that cannot be written."""
    if plot is not None:
        pyplot()
    for path in (json, plot):
        if path is not None and not path.resolve().parent.is_dir():
            raise click.UsageError(f"{path}: the directory {path.parent} does not exist")
    measurements: list[Measurement] = []
    try:
        with _database_errors(), _progress_bar() as progress:
            _reach(settings)
            measurements.extend(measured(settings, progress))
    finally:
        if measurements:  # even after an interrupt
            _report(settings, measurements, json, plot)


def _report(
    settings: ExperimentSettings, measurements: Sequence[Measurement], json: Path | None, plot: Path | None
) -> None:
    click.echo(as_markdown(settings, measurements), nl=False)
    if json is not None:
        json.write_text(as_json(settings, measurements), encoding="utf-8")
    if plot is not None:
        draw(measurements, plot)


def _reach(settings: ExperimentSettings) -> None:
    """Opens each database once, so that a wrong URL is reported before anything is measured."""
    for url in settings.databases:
        open_database(url).close()


@contextlib.contextmanager
def _database_errors() -> Iterator[None]:
    """A context that raises DatabaseError for errors of a database."""
    try:
        yield
    except Refused as error:
        raise DatabaseError(str(error)) from None


@contextlib.contextmanager
def _progress_bar() -> Iterator[Progress]:
    """A function that draws a bar, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1)
        yield lambda text, done: bar.update(task, description=text, completed=done)


# Options --------------------------------------------------------------------------------------------------------------


def numbers(_: object, option: click.Parameter, texts: Sequence[str]) -> tuple[int, ...]:
    """`1,80`, `1-100`, `1-100/10`, or several of these."""
    all_numbers = (number for text in texts for word in text.split(",") for number in _range(word, text, option))
    return tuple(dict.fromkeys(all_numbers))


def _range(word: str, text: str, option: click.Parameter) -> range:
    try:
        ends, _, step = word.partition("/")
        first, _, last = ends.partition("-")
        numbers = range(int(first), int(last or first) + 1, int(step or 1))
    except ValueError:
        numbers = range(0)
    if not numbers or numbers[0] < 1:
        raise click.BadParameter(
            f"{text!r} is not a list of whole numbers from 1 on, such as 1,10,80 or 1-100/5", param=option
        )
    return numbers


def peers_of(texts: Sequence[str]) -> tuple[Peer, ...]:
    """The peers of `NAME=COMMAND` texts."""
    return tuple(map(_peer, texts))


def _peer(text: str) -> Peer:
    name, mark, command = text.partition("=")
    if not mark or not command.strip():
        raise click.BadParameter(f"{text!r}: expected NAME=COMMAND", param_hint="--peers")
    return Peer(name, tuple(shlex.split(command)))


def operators(_: object, option: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """`sigma,rho`, or several of these."""
    known = ExperimentSettings().operators
    words = tuple(dict.fromkeys(word.strip() for text in texts for word in text.split(",")))
    for word in words:
        if word not in known:
            raise click.BadParameter(f"{word!r} is not one of {', '.join(known)}", param=option)
    return words
