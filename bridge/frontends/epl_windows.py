"""EPL's named windows: create window, and what begins with on."""

from __future__ import annotations

import dataclasses

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl_changes import VERBS
from bridge.frontends.epl_from import Item, item
from bridge.frontends.epl_views import windowed, windows
from bridge.query import Filter, Stream, TemporalMatch, Window


@dataclasses.dataclass(frozen=True)
class CreateWindow:
    """`create window W#keepall as S`: a window of rows like those of a stream, perhaps one for each of some keys."""

    name: str
    window: Window
    like: str


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
    """Step over `B(…) as b`, or `pattern [ … ]`, after `on`."""
    found = item(cursor)
    sets = cursor.word() == "SET"
    if not isinstance(found.node, (Stream, Filter)) and not (sets and isinstance(found.node, TemporalMatch)):
        cursor.fail("on wants a stream, perhaps with a filter; on … set also a pattern", found.position)
    if cursor.word() not in ("SELECT", "SET", *VERBS):
        cursor.fail("on … select, on … set, on … update, on … merge and on … delete are supported; insert into inserts")
    return found
