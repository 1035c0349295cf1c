"""`cepbridge status`: prints the state of a bridge in a database."""

from __future__ import annotations

import click

from bridge.cli import options
from bridge.cli.errors import exit_on_error
from bridge.cli.why import refuse_new_file


@click.command(epilog=options.epilog("cepbridge status sqlite:///app.db", "docs/security.md"))
@click.argument("url")
@click.option("--name", help="The name of the bridge, if the program gave it one.")
@click.option("--schema", help="The schema of its tables, if the program named one.")
def status(url: str, name: str | None, schema: str | None) -> None:
    """Show the time, the queries and the rows of state of a bridge.

    URL is that of its database: duckdb:///FILE, or any SQLAlchemy URL. The bridge may be at work there, except on a DuckDB
    file, which one process at a time can open.
    """
    from bridge.engine.stored_status import stored_status

    with exit_on_error():
        refuse_new_file(url)
        click.echo(str(stored_status(url, name, schema)))
