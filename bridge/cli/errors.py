"""The end of a command: errors as messages on standard error, and the exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import NoReturn

import click

from bridge.errors import BridgeError, ProcessorError, QueryError

_SCRIPTS = f"{__name__}.scripts"
"""The key in a command's context for the scripts that it has read: their paths, by text."""


def note_script(path: str, text: str) -> None:
    """Notes that the command has read a script, or blanked out parts of it, so that errors in it name the file."""
    if (context := click.get_current_context(silent=True)) is not None:
        context.meta.setdefault(_SCRIPTS, {})[text] = path


def _file_of(error: BaseException) -> str:
    """The file of the script that contains an error, as a prefix of the message; "" without a script."""
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(error, QueryError):
        return ""
    scripts: dict[str, str] = context.meta.get(_SCRIPTS, {})
    paths = {*scripts.values()}
    path = next(iter(paths)) if error.text is None and len(paths) == 1 else scripts.get(error.text or "")
    return "" if path is None else f"{path}: "


@contextlib.contextmanager
def exit_on_error() -> Iterator[None]:
    """Prints errors without a traceback, and warnings as notes.

    The exit code is 1 after an error, 130 after Ctrl-C, and 0 if the reader of standard output has closed it.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *place, **options: note(str(message))
            yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except ProcessorError as error:
        _fail(error.errors[0])
    except (BridgeError, OSError) as error:
        _fail(error)


def _fail(error: BaseException) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes standard output again at exit
        sys.exit(0)
    notes = [f"\n  ({note})" for note in getattr(error, "__notes__", [])]
    click.echo(f"error: {_file_of(error)}{error}{''.join(notes)}", err=True)
    sys.exit(1)


def note(text: str) -> None:
    """Prints a note on standard error."""
    click.echo(f"note: {text}", err=True)
