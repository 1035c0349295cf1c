"""The bytes of text files: plain, compressed by gzip, bzip2, xz or zstd, or from standard input."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import select
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from bridge.errors import SourceError

SIZE = 4_000_000
"""The number of bytes that are read at a time: enough for fast readers, few enough to fit any memory."""

LIMIT = 16_000_000
"""The number of bytes of the longest row. In a longer row, a quote or a line end is missing."""

Cut = Callable[[bytes, bool], tuple[int, bool]]
"""Returns the end of the last complete row, and whether the rows are regular.

The second argument: whether nothing follows.
"""

_LINE_END = re.compile(rb"\r\n?|\n")
_COMPRESSED: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x1f\x8b": ("gz", lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": ("bz2", bz2.BZ2File), b"\xfd7zX": ("xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": ("zst", lambda file: pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")),
}  # fmt: skip
"""The first bytes of compressed files, with the kind and the reader of each."""

_ARCHIVES = {b"PK\x03\x04": "a zip archive or a workbook: unpack it, or save it as CSV"}
ENDINGS = (".gz", ".bz2", ".xz", ".zst")
"""The endings of compressed files."""

_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}


class Bytes:
    """The bytes of a file (`-`: standard input), of which `size` are read at a time; by default SIZE.

    Raises SourceError if the file cannot be opened or read, is damaged, or is UTF-16 or UTF-32.
    """

    def __init__(self, path: str, size: int | None = None) -> None:
        self.path, self._piece = path, size or SIZE
        self.name = "stdin" if path == "-" else path
        self._raw: Any = sys.stdin.buffer if path == "-" else _open(path)
        self._size = Path(path).stat().st_size if path != "-" else 0
        self._head = b""
        self._read = self._available if path == "-" else self._raw.read
        self._kind = ""
        start = self._peek(4)
        for mark, (kind, reader) in _COMPRESSED.items():
            if start.startswith(mark) and (kind != "bz2" or self._peek(10)[4:] in (b"1AY&SY", b"\x17rE8P\x90")):
                compressed: Any = _ResumedFile(self._head, self._read)
                self._head, self._read, self._kind = b"", reader(compressed).read, kind
                start = self._peek(4)
                break
        for mark, what in _ARCHIVES.items():
            if start.startswith(mark):
                raise SourceError(f"{self.name} is {what}")
        for mark, encoding in _BOMS.items():
            if start.startswith(mark):
                raise SourceError(f"{self.name} is {encoding}: save it as UTF-8")
        self._head = self._head.removeprefix(b"\xef\xbb\xbf")

    @property
    def fraction(self) -> float | None:
        """The part of the file that has been read, from 0 to 1; None for standard input."""
        return self._raw.tell() / self._size if self._size else None

    def first_line(self) -> bytes:
        """The first line that is not empty, without consuming it."""
        while not _LINE_END.search(self._head.lstrip()) and len(self._head) < LIMIT and (more := self._some()):
            self._head += more
        return _LINE_END.split(self._head.lstrip(), 1)[0]

    def rows(self, end_of_rows: Cut) -> Iterator[tuple[bytes, int, bool]]:
        """Complete rows, as cut by `end_of_rows`; the number of their first line; and whether they are regular."""
        data, line = b"", 1
        while more := self._next():
            data = data + more if data else more
            end, regular = end_of_rows(data, len(data) > LIMIT)
            if end:
                yield data[:end], line, regular
                line += len(line_ends(data[:end])) if b"\r" in data else data.count(b"\n", 0, end)
                data = data[end:]
        if data:
            yield data, line, end_of_rows(data, True)[1]

    def close(self) -> None:
        """Closes a file; standard input stays open."""
        if self.path != "-":
            self._raw.close()

    def _next(self) -> bytes:
        head, self._head = self._head, b""
        return head or self._some()

    def _peek(self, count: int) -> bytes:
        while len(self._head) < count and (more := self._some()):
            self._head += more
        return self._head[:count]

    def _some(self) -> bytes:
        try:
            return bytes(self._read(self._piece))
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            raise SourceError(f"{self.name} is a damaged {self._kind} file: {error}") from None
        except OSError as error:
            if self._kind in ("bz2", "zst") and error.errno is None:
                raise SourceError(f"{self.name} is a damaged {self._kind} file: {error}") from None
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from None

    def _available(self, size: int) -> bytes:
        """The bytes that standard input has now: at least one before its end, and at most about `size`."""
        read: Callable[[int], bytes] = getattr(self._raw, "read1", self._raw.read)
        parts = [read(size)]
        while parts[-1] and sum(map(len, parts)) < size and self._is_ready():
            parts.append(read(size))
        return b"".join(parts)

    def _is_ready(self) -> bool:
        try:
            return bool(select.select([self._raw], [], [], 0)[0])
        except (OSError, ValueError):  # not a real file: in a test, or on Windows
            return True


def line_ends(data: bytes) -> list[int]:
    """The ends of all lines, which are LF, CR LF or CR.

    >>> line_ends(b"a\\nb\\r\\nc\\r")
    [2, 5, 7]
    """
    return [end.end() for end in _LINE_END.finditer(data)]


class TextReader:
    """The rows of a text file. Its columns have no types unless they are inferred."""

    typed = False

    def __init__(self, source: Bytes) -> None:
        self.source, self.file = source, source.name

    @property
    def fraction(self) -> float | None:
        """The part of the file that has been read."""
        return self.source.fraction

    @property
    def waits(self) -> bool:
        """Whether more rows may still be written during reading."""
        return self.source.fraction is None

    def close(self) -> None:
        """Closes the file."""
        self.source.close()


class _ResumedFile:
    """A file that begins with bytes that were already read, followed by the remaining bytes."""

    closed = False

    def __init__(self, head: bytes, read_more: Callable[[int], bytes]) -> None:
        self.head, self.read_more = head, read_more

    def close(self) -> None:
        """Does nothing, as the file below is closed by its reader."""

    def read(self, size: int = -1) -> bytes:
        head, self.head = self.head[:size], self.head[size:]
        return head or self.read_more(size)


def _open(path: str) -> IO[bytes]:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise SourceError(f"the file {path} does not exist") from None
    except (OSError, ValueError) as error:  # raised for a path with a NUL
        raise SourceError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
