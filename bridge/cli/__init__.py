"""The command `cepbridge`."""

from bridge.cli.run import main

__all__ = ["main"]
