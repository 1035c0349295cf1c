"""EPL's named windows: create window, and on … delete."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_from import Item, item
from bridge.frontends.epl_views import windowed, windows
from bridge.frontends.scalars import Names, resolved
from bridge.query import Deletion, Filter, Stream, Window


@dataclasses.dataclass(frozen=True)
class CreateWindow:
    """`create window W#keepall as S`: a window of rows like those of a stream, perhaps one for each of some keys."""

    name: str
    window: Window
    like: str


@dataclasses.dataclass(frozen=True)
class DeleteFrom:
    """`on B as b delete from W as w where …`."""

    window: str
    deletion: Deletion


def create_window(cursor: Cursor) -> CreateWindow:
    """Step over `window W#keepall as S`, after `create`."""
    position = cursor.expect("WINDOW")
    name = cursor.name("a name for the window")
    view = windows(cursor)
    if view is None or getattr(view.extent, "slide", None) is not None:
        cursor.fail("a named window has a window that is no batch: #keepall, #time(5 sec), #length(5)", position)
    window = windowed(cursor, Stream(name), view, name)
    cursor.expect("AS", " (the stream whose columns it has)")
    if cursor.word() in ("(", "SELECT"):
        cursor.fail("the name of a stream is expected: create schema, before")
    return CreateWindow(name, window, cursor.name("the stream whose columns it has"))


def trigger(cursor: Cursor) -> Item:
    """Step over `B(…) as b`, after `on`."""
    found = item(cursor)
    if not isinstance(found.node, (Stream, Filter)):
        cursor.fail("on wants a stream, perhaps with a filter", found.position)
    if cursor.word() not in ("DELETE", "SELECT"):
        cursor.fail("on … update, merge, insert and set are not supported: on … select and on … delete are")
    return found


def delete(cursor: Cursor, by: Item) -> DeleteFrom:
    """Step over `delete from W as w where …`, after `on B as b`."""
    alias = by.alias
    cursor.expect("DELETE")
    cursor.expect("FROM")
    name = cursor.name("a named window")
    row = cursor.name("an alias") if cursor.take("AS") or cursor.has_name() else name
    condition: exp.Expr | None = None
    if cursor.take("WHERE"):
        found = epl_scalars.single(cursor, cursor.until(()), "a condition")
        (condition,) = resolved(cursor, [found], Names(None, (alias, row)))
    return DeleteFrom(name, Deletion(by.node, alias, row, condition))
