"""A script of EPL: its statements in order, with named windows, tables and schemas in place of their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridge.frontends.epl.declarations import ChangeQuery, Declarations, Effect, Insertion
from bridge.frontends.epl.paths import refuse_where
from bridge.frontends.epl.select import refuse_next
from bridge.frontends.epl.statement import annotation_name, reading, statements_of
from bridge.frontends.epl.tables import CreateTable
from bridge.frontends.epl.variables import Constants
from bridge.frontends.statements import CreateQuery, CreateStream, Query
from bridge.frontends.statements import Statement as Plain
from windows.schema import Schema


class _Streams:
    """The streams that a script has declared so far."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def schema(self, name: str) -> Schema | None:
        return self.schemas.get(name.lower())

    def known(self) -> list[str]:
        return list(self.schemas)

    def free(self, name: str) -> str:
        """The name; whether it is used twice is checked after all statements are parsed."""
        return name


def script(text: str) -> list[Plain | CreateTable]:
    """The statements of a script, separated by `;`. A statement with `@name('…')` has that name.

    >>> found = script("create schema S (v int); @name('high') select * from S where v > 9; insert into T select v from S")
    >>> [getattr(statement, "name", None) for statement in found]
    ['S', 'high', 'T']
    """
    found: list[Plain | CreateTable] = []
    streams = _Streams()
    declarations = Declarations(streams)
    with reading(text) as cursor:
        refuse_where(cursor)
        while cursor.peek():
            if cursor.take(";"):
                continue
            position = cursor.position
            name = annotation_name(cursor)
            statements = statements_of(cursor)
            statements = [Constants(frozenset(cursor.read)), *statements]
            effects = [effect for statement in statements for effect in declarations.apply(statement)]
            cursor.variables, cursor.contexts = declarations.variables, declarations.contexts
            for statement in _named(effects, name, found):
                found.append(statement)
                if isinstance(statement, CreateStream):
                    streams.schemas[statement.name.lower()] = statement.schema
            if sum(isinstance(statement, Query) for statement in found) > 1:
                cursor.fail("a second statement without a name: @name('…') before it gives it one", position)
            if cursor.peek() and cursor.word() != ";":
                refuse_next(cursor)
                if cursor.word() in ("CREATE", "SELECT", "INSERT", "ON", "@"):
                    cursor.fail(f"a ';' is missing before {cursor.next_text()}")
                cursor.fail(f"unexpected {cursor.next_text()} after the end of the statement")
    return found


def _named(
    effects: Sequence[Effect], name: str | None, before: Sequence[Plain | CreateTable]
) -> Iterator[Plain | CreateTable]:
    """The statements that one statement becomes, the last of them with its `name`.

    A statement that inserts into a stream has the name of that stream; one that changes a table is named after it.
    """
    inserted = [effect.name for effect in effects if isinstance(effect, (CreateQuery, Insertion))]
    for effect in effects:
        match effect:
            case CreateStream() | CreateTable() | CreateQuery():
                yield effect
            case Insertion():
                yield CreateQuery(effect.name, effect.node, effect.text)
            case ChangeQuery():
                yield CreateQuery(name or _free(effect.title, before), effect.node, effect.text)
            case Query() if name is not None and name not in inserted:
                yield CreateQuery(name, effect.node, effect.text)
            case Query() if not inserted:
                yield effect


def _free(name: str, before: Sequence[object]) -> str:
    """The name, with a number if an earlier statement has it."""
    taken = {str(getattr(statement, "name", "")).lower() for statement in before}
    found, number = name, 1
    while found.lower() in taken:
        number += 1
        found = f"{name} {number}"
    return found
