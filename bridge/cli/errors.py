"""How a command ends: errors as one line on standard error, and the exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import NoReturn

import click

from bridge.errors import BridgeError, ProcessorError


@contextlib.contextmanager
def exit_on_error() -> Iterator[None]:
    """Errors are told, not traced: exit code 1; warnings are notes; Ctrl-C ends with 130; a reader that left is no error."""
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered has nobody to read it
        sys.exit(0)
    notes = [f"\n  ({note})" for note in getattr(error, "__notes__", [])]
    click.echo(f"error: {error}{''.join(notes)}", err=True)
    sys.exit(1)


def note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
