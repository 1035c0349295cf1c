"""EPL's named windows: create window, and on … delete."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.frontends import epl_scalars
from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_from import item
from bridge.frontends.epl_views import windows
from bridge.frontends.scalars import Names, resolved
from bridge.query import Deletion, Filter, Stream
from windows.window import Extent, Unbounded


@dataclasses.dataclass(frozen=True)
class CreateWindow:
    """`create window W#keepall as S`: a window of rows like those of a stream."""

    name: str
    extent: Extent
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
    if view is None or not isinstance(view.extent, Unbounded):
        cursor.fail(
            "a named window is #keepall: other windows stand directly after the stream they belong to", position
        )
    cursor.expect("AS", " (the stream whose columns it has)")
    if cursor.word() in ("(", "SELECT"):
        cursor.fail("the name of a stream is expected: create schema, before")
    return CreateWindow(name, view.extent, cursor.name("the stream whose columns it has"))


def delete(cursor: Cursor) -> DeleteFrom:
    """Step over `B(…) as b delete from W as w where …`, after `on`."""
    position = cursor.position
    alias, trigger, _, _ = item(cursor)
    if not isinstance(trigger, (Stream, Filter)):
        cursor.fail("on wants a stream, perhaps with a filter", position)
    if not cursor.take("DELETE"):
        cursor.fail("on … select, update, merge and set are not supported: on … delete from is")
    cursor.expect("FROM")
    name = cursor.name("a named window")
    row = cursor.name("an alias") if cursor.take("AS") or cursor.has_name() else name
    condition: exp.Expr | None = None
    if cursor.take("WHERE"):
        found = epl_scalars.single(cursor, cursor.until(()), "a condition")
        (condition,) = resolved(cursor, [found], Names(None, (alias, row)))
    return DeleteFrom(name, Deletion(trigger, alias, row, condition))
