"""Triggers that write the changes of a user's table to an outbox: one function per database that has triggers.

A row of an outbox has the time of the change, the operation, and the values of the changed row under the names of the columns.
The values before the change are under `old_…`. Of a deleted row both are the last values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

CHANNEL = "cep_bridge"
"""The channel on which PostgreSQL's NOTIFY says that an outbox has rows."""

OPERATIONS = ("insert", "update", "delete")


class OutboxColumn(NamedTuple):
    """A column of a user's table that the outbox contains: its name, and SQL that reads it, with {} for the column."""

    name: str
    reads: str


class ChangeOutbox(NamedTuple):
    """A user's table and the outbox of its changes: the names, quoted for SQL, and the columns in the outbox.

    `time`: the column with the time of a change; None for the current time. `quoted` quotes a name.
    """

    table: str
    schema: str
    name: str
    columns: Sequence[OutboxColumn]
    time: OutboxColumn | None
    quoted: Callable[[str], str]

    @property
    def place(self) -> str:
        """The name of the outbox in SQL, with its schema."""
        return f"{self.schema}{self.quoted(self.name)}"

    @property
    def column_list(self) -> str:
        """The names of all columns of the outbox but its number."""
        own = [each.name for each in self.columns]
        return ", ".join(map(self.quoted, ["changed_at", "operation", *own, *(f"old_{name}" for name in own)]))

    def values(self, operation: str, present: str, after: str, before: str) -> str:
        """The values of a row of the outbox.

        `after` and `before` are templates of the columns, "NULL" if there is no such row.
        """

        def of(column: OutboxColumn, row: str) -> str:
            return column.reads.replace("{}", row.replace("{}", self.quoted(column.name))) if row != "NULL" else row

        when = present if self.time is None else of(self.time, after)
        values = [of(column, row) for row in (after, before) for column in self.columns]
        return ", ".join([when, operation, *values])


class ChangeTriggers(NamedTuple):
    """The names of triggers, and the statements that create and drop them.

    right: A query that says whether this role may create them; "" if the database has none.
    """

    names: list[str]
    create: list[str]
    drop: list[str]
    right: str = ""


def postgresql_triggers(outbox: ChangeOutbox) -> ChangeTriggers:
    """One function for all operations.

    It runs with the rights of the bridge, so writers need no rights on the outbox.
    """
    name = f"{outbox.name}_note"
    trigger = outbox.quoted(name)
    function = f"{outbox.schema}{trigger}"
    after = "(CASE TG_OP WHEN 'DELETE' THEN OLD.{} ELSE NEW.{} END)"
    values = outbox.values("LOWER(TG_OP)", "(clock_timestamp() AT TIME ZONE 'UTC')", after, "OLD.{}")
    insert = f"INSERT INTO {outbox.place} ({outbox.column_list}) VALUES ({values});"
    body = f"BEGIN {insert} PERFORM pg_notify('{CHANNEL}', ''); RETURN NULL; END"
    create_function = (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
        f"SET search_path = pg_catalog, pg_temp AS $cep${body}$cep$"
    )
    create_trigger = (
        f"CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE ON {outbox.table} "
        f"FOR EACH ROW EXECUTE FUNCTION {function}()"
    )
    drop = f"DROP FUNCTION IF EXISTS {function}() CASCADE"  # only the owner of the table may drop its trigger by name
    table = outbox.table.replace("'", "''")
    return ChangeTriggers(
        [name], [create_function, create_trigger], [drop], f"SELECT has_table_privilege('{table}', 'TRIGGER')"
    )


def mariadb_triggers(outbox: ChangeOutbox, schema: str) -> ChangeTriggers:
    """Triggers are in the `schema` of their table, and run with the rights of the bridge.

    The time is that of the change itself. UTC_TIMESTAMP would be the time at which the statement began; it may have
    waited for the lock of a row while another transaction changed it.
    """
    present = "UTC_TIMESTAMP(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) MICROSECOND"
    return _one_per_operation(outbox, schema, present, "{}")


def sqlite_triggers(outbox: ChangeOutbox) -> ChangeTriggers:
    """Triggers in the file of the table."""
    return _one_per_operation(outbox, "", "STRFTIME('%Y-%m-%d %H:%M:%f', 'now')", "BEGIN {}; END")


def _one_per_operation(outbox: ChangeOutbox, schema: str, present: str, body: str) -> ChangeTriggers:
    """A trigger per operation, which reads the new row, the old row, or both."""
    names = {operation: f"{outbox.name}_{operation}" for operation in OPERATIONS}
    create, drop = list[str](), list[str]()
    for operation, name in names.items():
        trigger = f"{schema}{outbox.quoted(name)}"
        after, before = "OLD.{}" if operation == "delete" else "NEW.{}", "NULL" if operation == "insert" else "OLD.{}"
        values = outbox.values(f"'{operation}'", present, after, before)
        insert = body.replace("{}", f"INSERT INTO {outbox.place} ({outbox.column_list}) VALUES ({values})")
        create.append(f"CREATE TRIGGER {trigger} AFTER {operation.upper()} ON {outbox.table} FOR EACH ROW {insert}")
        drop.append(f"DROP TRIGGER IF EXISTS {trigger}")
    return ChangeTriggers(list(names.values()), create, drop)
