"""The changes of a table as a stream: triggers write them into an outbox, from which they are read and removed.

Triggers and outbox belong to the bridge: they are created and removed with the stream. An outbox has a row per insert,
update and delete: its number and time, the operation, the new values under the names of the columns, and the old ones
under `old_…`.
"""

from __future__ import annotations

import contextlib

from bridge.check.types import UNKNOWN
from bridge.engine.catalogue import StreamEntry
from bridge.engine.execution.runner import Runner
from bridge.engine.watch.columns import TableColumns, missing_column
from bridge.errors import SchemaError
from bridge.query.table_source import TableSource
from bridge.query.time_rules import TimeRules
from windows.databases import Database, Refused
from windows.databases.triggers import ChangeTriggers, OutboxColumn
from windows.schema import Attribute, Schema

NUMBER, TIME, OPERATION = "change_id", "changed_at", "operation"


def changes_schema(columns: Schema) -> Schema:
    """The attributes of the stream of changes of a table with these columns.

    >>> print(changes_schema(Schema.of("id BIGINT, status VARCHAR")))
    operation VARCHAR, id BIGINT, status VARCHAR, old_id BIGINT, old_status VARCHAR
    """
    old = [Attribute(f"old_{column.name}", column.type) for column in columns]
    return Schema((Attribute(OPERATION, "VARCHAR"), *columns, *old))


def watched_columns(changes: Schema) -> Schema:
    """The columns of the table whose changes have these attributes.

    >>> print(watched_columns(changes_schema(Schema.of("id BIGINT, status VARCHAR"))))
    id BIGINT, status VARCHAR
    """
    return Schema(changes.attributes[1 : 1 + len(changes) // 2])


def schema_of_stream(
    columns: TableColumns, name: str, declared: Schema | None, source: TableSource, known: StreamEntry | None
) -> tuple[Schema, bool]:
    """The attributes of a table's stream, and whether they are the `known` stream's though the table has changed.

    A stream whose columns are not declared keeps its first columns. Raises `SchemaError` if one of them no longer
    exists.
    """
    schema = columns.schema(declared)
    schema = changes_schema(schema) if source.changes else schema
    if known is None or declared is not None or known.schema == schema or not source.means(known.source):
        return schema, False
    before = watched_columns(known.schema) if source.changes else known.schema
    for attribute in before:
        if attribute.name not in columns:
            raise missing_column(source, name, attribute.name)
    columns.schema(before)
    return known.schema, True


def add_table_stream(runner: Runner, name: str, schema: Schema, source: TableSource, rules: TimeRules) -> StreamEntry:
    """Adds a stream of a table, inside a transaction; with the outbox of its changes, but not yet with triggers."""
    ranks = [entry.rank for entry in runner.catalogue.streams.values()]
    entry = runner.add_stream(name, schema, rules, source)
    entry.rank = max(ranks, default=0) + 1
    if source.changes:
        outbox = runner.create_outbox(name, lambda: _outbox_columns(runner.database, schema, source))
        entry.reads = TableSource(outbox, NUMBER, TIME, source.unit, changes=True)
    return entry


def _outbox_columns(database: Database, schema: Schema, source: TableSource) -> str:
    """The definitions of an outbox's columns."""
    time = Attribute(TIME, _type_of_time(source, database))
    columns = [f"{database.quoted(each.name)} {database.column_type(each)}" for each in (time, *schema)]
    return ", ".join([f"{database.quoted(NUMBER)} {database.identity}", *columns])


def outbox_of(database: Database, stream: str) -> str:
    """The name for the outbox of a stream, unless another table of the bridge has it."""
    return database.own_name(f"cep_changes_{stream.lower()}")


def create_triggers(runner: Runner, entry: StreamEntry) -> None:
    """Creates the triggers of a stream of changes. If the database refuses, raises `SchemaError` and leaves none."""
    assert entry.source is not None and entry.reads is not None
    triggers = triggers_of(runner.database, entry.reads.table, entry.schema, entry.source)
    try:
        for statement in triggers.create:
            runner.database.execute(statement)
    except Refused as error:
        with contextlib.suppress(Refused):
            _drop(runner.database, triggers)
        raise SchemaError(
            f"the changes of {entry.source.table} cannot be recorded by triggers: {error.reason}"
        ) from None


def drop_triggers(database: Database, outbox: str, source: TableSource) -> None:
    """Drops the triggers of a stream of changes; columns may no longer exist. Does nothing if the table is gone."""
    if database.relation(source.table) is not None:
        _drop(database, database.change_triggers(source.table, outbox, (), None))


def _drop(database: Database, triggers: ChangeTriggers) -> None:
    for statement in triggers.drop:
        database.execute(statement)


def triggers_of(database: Database, outbox: str, schema: Schema, source: TableSource) -> ChangeTriggers:
    """The triggers that write the changes of a table as events of this schema."""
    known = TableColumns(source, database)
    columns = [OutboxColumn(known[each.name].name, known.value(each)) for each in watched_columns(schema)]
    time = source.timestamp
    changed_at = None if time is None else OutboxColumn(known[time].name, known.time(time))
    return database.change_triggers(source.table, outbox, columns, changed_at)


def _type_of_time(source: TableSource, database: Database) -> str:
    kind = "TIMESTAMP" if source.timestamp is None else TableColumns(source, database).type_of(source.timestamp)
    return "TIMESTAMP" if kind == UNKNOWN else kind
