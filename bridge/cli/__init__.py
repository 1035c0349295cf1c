"""The command `cepbridge`: one file per sub-command."""

import click

import bridge
from bridge.cli import bench, demo, explain, options, replay, run, status, watch, why

COMMANDS = [run.run, replay.replay, watch.watch, explain.explain, why.why, status.status, demo.demo, bench.bench]


@click.group(
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=options.epilog("cepbridge demo", "README.md and docs/"),
)
@click.version_option(bridge.__version__, prog_name="cepbridge")
def main() -> None:
    """Complex event processing on the database you already have.

    Each command has its own help: cepbridge COMMAND --help.
    """


__all__ = ["main"]
