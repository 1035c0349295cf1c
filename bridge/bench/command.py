"""What `cepbridge bench` does: read its options, check, measure, tell."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from bridge.bench.experiment import ExperimentSettings, Measurement, Tell, check, measure
from bridge.bench.peers import Peer
from bridge.bench.plot import draw, pyplot
from bridge.bench.report import as_json, as_markdown
from bridge.errors import DatabaseError
from windows.databases import Refused, open_database

QUICK: dict[str, Any] = {"counts": (1,), "drives": (1, 1_000), "seconds": 0.2, "runs": 1}
"""Whether everything works, not how fast."""


def settings_of(quick: bool, **options: Any) -> ExperimentSettings:
    """The settings that options give; what is not given is as usual, or as it is in a hurry."""
    usual = dataclasses.replace(ExperimentSettings(), **(QUICK if quick else {}))
    return dataclasses.replace(usual, **{name: value for name, value in options.items() if value})


def bench(settings: ExperimentSettings, json: Path | None, plot: Path | None) -> None:
    """Runs the experiment and writes what it found; what cannot be written is refused before."""
    if plot is not None:
        pyplot()
    for path in (json, plot):
        if path is not None and not path.resolve().parent.is_dir():
            raise click.UsageError(f"{path}: there is no directory {path.parent}")
    found: list[Measurement] = []
    try:
        with _refusing(), _telling() as tell:
            _reach(settings)
            check(settings, tell)
            found.extend(measure(settings, tell))
    finally:
        if found:  # also what there is when it is interrupted
            _report(settings, found, json, plot)


def _report(settings: ExperimentSettings, found: Sequence[Measurement], json: Path | None, plot: Path | None) -> None:
    click.echo(as_markdown(settings, found), nl=False)
    if json is not None:
        json.write_text(as_json(settings, found), encoding="utf-8")
    if plot is not None:
        draw(found, plot)


def _reach(settings: ExperimentSettings) -> None:
    """Opens each database once: a wrong URL is told before minutes have passed."""
    for url in settings.databases:
        open_database(url).close()


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """What a database refuses the baseline is told as all errors are."""
    try:
        yield
    except Refused as error:
        raise DatabaseError(str(error)) from None


@contextlib.contextmanager
def _telling() -> Iterator[Tell]:
    """A bar where standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1)
        yield lambda text, done: bar.update(task, description=text, completed=done)


# What the options say -------------------------------------------------------------------------------------------------


def numbers(_: object, option: click.Parameter, texts: Sequence[str]) -> tuple[int, ...]:
    """`1,80`, `1-100`, `1-100/10`, or several of these."""
    found = [number for text in texts for word in text.split(",") for number in _range(word, text, option)]
    return tuple(dict.fromkeys(found))


def _range(word: str, text: str, option: click.Parameter) -> range:
    try:
        ends, _, step = word.partition("/")
        first, _, last = ends.partition("-")
        found = range(int(first), int(last or first) + 1, int(step or 1))
    except ValueError:
        found = range(0)
    if not found or found[0] < 1:
        raise click.BadParameter(
            f"{text!r} is no list of whole numbers from 1 on, like 1,10,80 or 1-100/5", param=option
        )
    return found


def peers_of(texts: Sequence[str]) -> tuple[Peer, ...]:
    """Other engines by name and command."""
    return tuple(map(_peer, texts))


def _peer(text: str) -> Peer:
    name, mark, command = text.partition("=")
    if not mark or not command.strip():
        raise click.BadParameter(f"{text!r}: NAME=COMMAND is wanted", param_hint="--peers")
    return Peer(name, tuple(shlex.split(command)))


def operators(_: object, option: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """`sigma,rho`, or several of these."""
    known = ExperimentSettings().operators
    found = tuple(dict.fromkeys(word.strip() for text in texts for word in text.split(",")))
    for word in found:
        if word not in known:
            raise click.BadParameter(f"there is {', '.join(known)}, and no {word!r}", param=option)
    return found
