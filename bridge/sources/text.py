"""Files of text as bytes, block after block: plain, gz-compressed, or standard input."""

from __future__ import annotations

import gzip
import select
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from bridge.errors import SourceError

SIZE = 4_000_000
"""Bytes read at a time: enough to keep the fast readers busy, little enough for any memory."""

LIMIT = 16_000_000
"""A longer row means that a quote or a line end is missing."""

_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}


class Bytes:
    """The bytes of a file or of standard input (`-`), with what was looked at still to come.

    `fraction` says how much of a file has been read, where that is known.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else path
        self._raw: Any = sys.stdin.buffer if path == "-" else _opened(path)
        self._size = Path(path).stat().st_size if path != "-" else 0
        self._head = b""
        self._read = self._available if path == "-" else self._raw.read
        start = self._peek(2)
        if start == b"\x1f\x8b":
            self._read = self._unpacked()
        self._refuse_others()

    @property
    def fraction(self) -> float | None:
        """The part of the file that has been read, from 0 to 1."""
        return self._raw.tell() / self._size if self._size else None

    def first_line(self) -> bytes:
        """The first line that is not empty, without taking it."""
        while b"\n" not in self._head.lstrip() and len(self._head) < LIMIT and (more := self._some()):
            self._head += more
        return self._head.lstrip().split(b"\n", 1)[0]

    def next(self) -> bytes:
        """The next block; empty at the end. Raises SourceError where the file is damaged."""
        if self._head:
            head, self._head = self._head, b""
            return head
        return self._some()

    def blocks(self, cut: Callable[[bytes, bool], int]) -> Iterator[tuple[bytes, int]]:
        """Blocks of whole rows with the number of their first line; `cut` gives the end of the last whole row."""
        held, line = b"", 1
        while more := self.next():
            held = held + more if held else more
            end = cut(held, len(held) > LIMIT)
            if end:
                yield held[:end], line
                line += held.count(b"\n", 0, end)
                held = held[end:]
        if held:
            yield held, line

    def close(self) -> None:
        """Closes a file; standard input stays open."""
        if self.path != "-":
            self._raw.close()

    def _peek(self, count: int) -> bytes:
        while len(self._head) < count and (more := self._some()):
            self._head += more
        return self._head[:count]

    def _some(self) -> bytes:
        try:
            return bytes(self._read(SIZE))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise SourceError(f"{self.name} is a damaged gz file: {error}") from None
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from None

    def _available(self, size: int) -> bytes:
        """What standard input has now: at least something, at most `size`."""
        read: Callable[[int], bytes] = getattr(self._raw, "read1", self._raw.read)
        parts = [read(size)]
        while parts[-1] and sum(map(len, parts)) < size and self._ready():
            parts.append(read(size))
        return b"".join(parts)

    def _ready(self) -> bool:
        try:
            return bool(select.select([self._raw], [], [], 0)[0])
        except (OSError, ValueError):  # no real file (a test, Windows)
            return True

    def _unpacked(self) -> Callable[[int], bytes]:
        head, self._head = self._head, b""
        if self.path == "-":
            rest: Any = _Rest(head, self._available)
            return gzip.GzipFile(fileobj=rest).read
        self._raw.seek(0)
        return gzip.GzipFile(fileobj=self._raw).read

    def _refuse_others(self) -> None:
        start = self._peek(4)
        for mark, name in _BOMS.items():
            if start.startswith(mark):
                raise SourceError(f"{self.name} is {name}: save it as UTF-8")
        if start.startswith(b"\xef\xbb\xbf"):
            self._head = self._head[3:]


class _Rest:
    """What was peeked at and what follows, as a file for gzip."""

    def __init__(self, head: bytes, read_on: Callable[[int], bytes]) -> None:
        self.head, self.read_on = head, read_on

    def read(self, size: int = -1) -> bytes:
        if self.head:
            part, self.head = self.head[:size], self.head[size:]
            return part
        return self.read_on(size)


def _opened(path: str) -> IO[bytes]:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise SourceError(f"there is no file {path}") from None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
