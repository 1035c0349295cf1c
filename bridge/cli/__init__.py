"""The command `cepbridge`: one file per sub-command."""

import click

import bridge
from bridge.cli import bench, demo, explain, replay, run, why

COMMANDS = [run.run, replay.replay, explain.explain, why.why, demo.demo, bench.bench]


@click.group(commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(bridge.__version__, prog_name="cepbridge")
def main() -> None:
    """Complex event processing on the database you already have."""


__all__ = ["main"]
