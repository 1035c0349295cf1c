"""A script of EPL: its statements one after the other, named windows, tables and schemas put in where they are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from bridge.frontends.epl.contexts import CreateContext
from bridge.frontends.epl.event_types import EventTypes
from bridge.frontends.epl.named_windows import NamedWindows
from bridge.frontends.epl.paths import refuse_where
from bridge.frontends.epl.schemas import CreateSchema, CreateVariant
from bridge.frontends.epl.statement import Statement, annotated, reading, refuse_next, statements_of
from bridge.frontends.epl.tables import ChangeRows, CreateTable, CreateWindow, IntoTable
from bridge.frontends.epl.variables import Constants, CreateVariable, OnSet, after
from bridge.frontends.statements import CreateQuery, CreateStream, Query
from bridge.frontends.statements import Statement as Plain
from bridge.query.changes import ChangeTable
from bridge.query.nodes import Stream, walk
from bridge.query.variables import SetVariables
from windows.schema import Schema

_CHANGES = (ChangeTable, SetVariables)


def script(text: str) -> list[Plain | CreateTable]:
    """The statements of a script, separated by `;`; what is called by `@name('…')` has that name.

    >>> found = script("create schema S (v int); @name('high') select * from S where v > 9; insert into T select v from S")
    >>> [getattr(statement, "name", None) for statement in found]
    ['S', 'high', 'T']
    """
    found: list[Plain | CreateTable] = []
    windows, streams = NamedWindows(), dict[str, Schema]()
    types = EventTypes(lambda name: streams.get(name.lower()), lambda: list(streams))
    with reading(text) as cursor:
        refuse_where(cursor)
        while cursor.peek():
            if cursor.take(";"):
                continue
            position = cursor.position
            name = annotated(cursor)
            several = statements_of(cursor)
            cursor.variables = after(cursor.variables, several, cursor.read)
            contexts = {one.context.name.lower(): one.context for one in several if isinstance(one, CreateContext)}
            cursor.contexts = {**cursor.contexts, **contexts}
            found += _called(list(_plain(windows, types, streams, several, found)), name)
            if sum(isinstance(statement, Query) for statement in found) > 1:
                cursor.fail("a second statement without a name: @name('…') before it gives it one", position)
            if cursor.peek() and cursor.word() != ";":
                refuse_next(cursor)
                cursor.fail(f"unexpected {cursor.shown()} after the end of the statement")
    return found


def _plain(
    windows: NamedWindows,
    types: EventTypes,
    streams: dict[str, Schema],
    statements: Sequence[Statement],
    before: Sequence[Plain | CreateTable],
) -> Iterator[Plain | CreateTable]:
    """The statements with named windows and tables put in where they are read, and the schemas that schemas name; what
    changes a table gets a name."""
    for statement in statements:
        match statement:
            case CreateWindow():
                windows.create(statement.name, statement.window, statement.like)
            case CreateTable():
                windows.create_table(statement.table)
                yield statement
            case IntoTable():
                into = windows.into_table(statement.table, statement.node)
                yield CreateQuery(_free(f"into {statement.table}", before), into, statement.text)
            case ChangeRows():
                if (node := windows.change(statement.target, statement.trigger, statement.change)) is not None:
                    yield CreateQuery(
                        _free(f"{statement.change.verb} {statement.target}", before), node, statement.text
                    )
            case CreateSchema():
                streams[statement.name.lower()] = types.declare(statement)
                yield CreateStream(statement.name, streams[statement.name.lower()])
            case OnSet():
                made = {one.table for one in before if isinstance(one, CreateTable)}
                yield from (CreateTable(state) for state in statement.node.set if state not in made)
                names = ", ".join(state.name for state in statement.node.set)
                yield CreateQuery(_free(f"set {names}", before), windows.put(statement.node), statement.text)
            case Constants() | CreateContext() | CreateVariable():
                continue  # the statements after it have its value
            case CreateVariant():
                types.create_variant(statement)
            case CreateStream():
                yield statement
            case CreateQuery() if statement.name in types:
                types.insert(statement.name, statement.node)
            case CreateQuery() if windows.is_table(statement.name):
                node = windows.insert_into_table(statement.name, statement.node)
                yield CreateQuery(_free(f"insert {statement.name}", before), node, statement.text)
                return
            case CreateQuery() if statement.name in windows:
                windows.insert(statement.name, statement.node)
                yield statement
            case Query(node=Stream(name)) if statement.text in types:
                yield dataclasses.replace(statement, node=types.put(types.inserted(name)))
            case _:
                node = windows.inserted(statement) or windows.put(statement.node)
                yield dataclasses.replace(statement, node=types.put(node))


def _free(name: str, before: Sequence[object]) -> str:
    """The name, with a number where a statement before has it."""
    taken = {str(getattr(statement, "name", "")).lower() for statement in before}
    found, number = name, 1
    while found.lower() in taken:
        number += 1
        found = f"{name} {number}"
    return found


def _called(statements: Sequence[Plain | CreateTable], name: str | None) -> Iterator[Plain | CreateTable]:
    """The statements of one, the last of them under a name; what inserts into a stream has that stream's alone."""
    match statements:
        case [*tables, CreateQuery(called, node, text)] if any(isinstance(below, _CHANGES) for below in walk(node)):
            yield from tables
            yield CreateQuery(name or called, node, text)
            return
    inserted = [statement.name for statement in statements if isinstance(statement, CreateQuery)]
    for statement in statements:
        if not isinstance(statement, Query):
            yield statement
        elif name is not None and name not in inserted:
            yield CreateQuery(name, statement.node, statement.text)
        elif not inserted:
            yield statement
