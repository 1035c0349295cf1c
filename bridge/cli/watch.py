"""`cepbridge watch`: watches tables until it is stopped, and reports the results of queries."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from bridge.cli import options
from bridge.cli.errors import exit_on_error

EXAMPLE = "cepbridge watch postgresql+psycopg://cep@localhost/shop alerts.sql --schema cep --health 8081"


@click.command(epilog=options.epilog(EXAMPLE, "docs/watch.md"))
@click.argument("url")
@click.argument("queries", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option("--name", help="The name of the bridge, if several have their state in the database.")
@click.option("--schema", help="The schema for the bridge's tables, which is created (MariaDB: a database).")
@click.option("--lateness", metavar="DURATION", help="How much later than newer events an event may come: '2 S'.")
@click.option("--poll", metavar="DURATION", default="20 MS", show_default=True,
              help="The time between two looks at tables that do not change.")  # fmt: skip
@click.option("--standby", is_flag=True, help="Wait while another process has the bridge, and take over where it ends.")
@click.option("--into", multiple=True, metavar="QUERY=TABLE",
              help="A table for the results of a query, as CREATE QUERY … INTO TABLE names it. Repeatable.")  # fmt: skip
@click.option("--webhook", multiple=True, metavar="QUERY=URL",
              help="Send each result of a query by POST, as JSON. Repeatable.")  # fmt: skip
@click.option("--attempts", type=click.IntRange(1), default=10, show_default=True,
              help="How often a webhook may refuse a result before it is moved to the table dead_letters.")  # fmt: skip
@click.option("--notify", multiple=True, metavar="[QUERY=]CHANNEL",
              help="Send results to a channel of PostgreSQL: of one query, or of all that none reads. Repeatable.")  # fmt: skip
@click.option("--on-error", type=click.Choice(["stop", "skip", "refuse"]), default="stop", show_default=True,
              help="What happens to a query that fails: it is stopped, left out this once, or holds up all reading.")  # fmt: skip
@click.option("--health", type=click.IntRange(0, 65535), metavar="PORT",
              help="Show the state at http://127.0.0.1:PORT/, with 200 or 503.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the queries and streams that are in none of the files any more.")
@click.option("--check", is_flag=True, help="Report what would be read and created, and do nothing.")
@options.datastore_option
@options.language_option
def watch(
    url: str, queries: tuple[str, ...], name: str | None, schema: str | None, lateness: str | None, poll: str, standby: bool,
    into: tuple[str, ...], webhook: tuple[str, ...], attempts: int, notify: tuple[str, ...], on_error: str,
    health: int | None, keep: bool, check: bool, datastore: tuple[str, ...], language: str | None,
) -> None:  # fmt: skip
    """Watch tables, and report what queries find in their new rows.

    URL is that of a SQLite file, PostgreSQL or MariaDB. QUERIES are files with CREATE STREAM … FROM TABLE …, which say what to
    read, and with queries; .epl and .cpl files may read streams that an .sql file declares.

    It continues where it ended. Changed files are deployed at the start: a query with another text is replaced, and one that
    is in none of the files is removed. It ends on SIGTERM or Ctrl-C, with the exit code 0; 1 after an error.

    Results that go nowhere else (INTO TABLE, --into, --webhook, --notify, another query) are lines of JSON on standard output.
    """
    with exit_on_error():
        from bridge.cli.service.settings import WatchSettings
        from bridge.cli.why import refuse_new_file

        scripts = [options.script_of(path, language=language, db=url) for path in queries]
        connection: dict[str, Any] = {"name": name, "schema": schema, "lateness": lateness or 0, "standby": standby}
        settings = WatchSettings(
            url, scripts, connection, options.pairs_of("into", into, "QUERY=TABLE"),
            options.pairs_of("datastore", datastore, "NAME=URL"), options.pairs_of("webhook", webhook, "QUERY=URL"),
            [_channel(text) for text in notify], attempts, on_error, poll, health, keep,
        )  # fmt: skip
        refuse_new_file(url)
        if check:
            from bridge.cli.service.check import report

            click.echo(report(settings))
            return
        from bridge.cli.service.service import Service

        Service(settings).run()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # at once, as the interpreter would take long to unload large libraries


def _channel(text: str) -> tuple[str, str]:
    """A query (or "" for all) and a channel."""
    query, equals, channel = text.partition("=")
    return (query, channel) if equals else ("", text)
