"""Named windows: what is inserted into them and deleted from them, until a statement reads them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from bridge.errors import NameTaken, QueryError, nearest
from bridge.query import Deleting, Deletion, Filter, Map, Node, Stream, Window, rebuilt

if TYPE_CHECKING:
    from windows.window import Extent


@dataclasses.dataclass(frozen=True)
class NamedWindow:
    """A window under a name; `like` is the stream whose columns it has, `is_read` whether a statement reads it."""

    name: str
    extent: Extent
    like: str
    input: Node | None = None
    deletions: tuple[Deletion, ...] = ()
    is_read: bool = False

    @property
    def rows(self) -> Node:
        """What is inserted."""
        if self.input is None:
            raise QueryError(f"nothing is inserted into the window {self.name!r} yet: insert into {self.name} select …")
        return self.input

    @property
    def content(self) -> Node:
        """What is in it."""
        window = Window(self.rows, self.extent)
        return Deleting(window, self.deletions) if self.deletions else window


class NamedWindows:
    """The named windows of a bridge, found ignoring case."""

    def __init__(self) -> None:
        self.known: dict[str, NamedWindow] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.known

    def create(self, name: str, extent: Extent, like: str) -> None:
        """A new window, empty and without a source."""
        if name in self:
            raise NameTaken(f"there is a window {name!r} already")
        self.known[name.lower()] = NamedWindow(name, extent, like)

    def insert(self, name: str, node: Node) -> None:
        """Says what is inserted; one statement does."""
        window = self._unread(name)
        if window.input is not None:
            raise QueryError(f"a second statement inserts into the window {name!r}: one can")
        self.known[name.lower()] = dataclasses.replace(window, input=node)

    def delete(self, name: str, deletion: Deletion) -> None:
        """Says what is deleted."""
        window = self._unread(name)
        self.known[name.lower()] = dataclasses.replace(window, deletions=(*window.deletions, deletion))

    def put(self, node: Node) -> Node:
        """The tree with the windows' content where it names them; what they give each event of is what is inserted."""
        if isinstance(node, Stream) and node.name in self:
            return self.known[node.name.lower()].rows
        if isinstance(node, (Map, Filter)):
            return rebuilt(node, self.put)
        return self._put(node)

    def _put(self, node: Node) -> Node:
        if isinstance(node, Stream):
            return self._read(node.name).content if node.name in self else node
        return rebuilt(node, self._put)

    def _read(self, name: str) -> NamedWindow:
        window = dataclasses.replace(self.known[name.lower()], is_read=True)
        self.known[name.lower()] = window
        return window

    def _unread(self, name: str) -> NamedWindow:
        if name not in self:
            raise QueryError(
                f"unknown window {name!r}{nearest(name, [w.name for w in self.known.values()])}", words=[name]
            )
        window = self.known[name.lower()]
        if window.is_read:
            raise QueryError(
                f"a statement reads the window {name!r} already: this one comes before those", words=[name]
            )
        return window
