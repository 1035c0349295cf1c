"""The rows that a thread has taken, as a linked list that grows at its end; threads share the common beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")
Value = TypeVar("Value")


class Path(Generic[Row]):
    """The rows that a match has bound so far, for conditions; without the row being tested.

    Two paths of one matcher are the same object if and only if they bind the same rows to the same symbols.

    >>> path = Path().take("A", 0, "first row").take("B", 1, "second row").take("B", 2, "third row")
    >>> path.last("B"), path.last("B", back=1), path.first("A", "B"), path.last("C")
    ('third row', 'second row', 'first row', None)
    >>> path.rows("B"), len(path)
    (['second row', 'third row'], 3)
    """

    __slots__ = ("_folds", "_last", "before", "index", "length", "symbol")

    _last: Row

    def __init__(self) -> None:
        self.before: Path[Row] | None = None
        self.symbol = ""
        self.index = -1
        self.length = 0
        self._folds: dict[str, Any] = {}

    def take(self, symbol: str, index: int, row: Row) -> Path[Row]:
        """The path with one more row."""
        longer: Path[Row] = Path()
        longer.before, longer.symbol, longer.index, longer.length = self, symbol, index, self.length + 1
        longer._last = row
        return longer

    def steps(self) -> Iterator[tuple[str, int, Row]]:
        """The symbol, index and row of each row, the newest first."""
        path = self
        while path.before is not None:
            yield path.symbol, path.index, path._last
            path = path.before

    def rows(self, *symbols: str) -> list[Row]:
        """The rows bound to one of the symbols (without arguments: all rows), the oldest first."""
        found = [row for symbol, _, row in self.steps() if not symbols or symbol in symbols]
        found.reverse()
        return found

    def last(self, *symbols: str, back: int = 0) -> Row | None:
        """LAST(v, back): the row of `rows` that is `back` rows before the newest one, or None."""
        for symbol, _, row in self.steps():
            if not symbols or symbol in symbols:
                if back == 0:
                    return row
                back -= 1
        return None

    def first(self, *symbols: str, ahead: int = 0) -> Row | None:
        """FIRST(v, ahead): the row of `rows` that is `ahead` rows after the oldest one, or None."""
        rows = self.rows(*symbols)
        return rows[ahead] if ahead < len(rows) else None

    def fold(self, name: str, start: Value, step: Callable[[Value, str, Row], Value]) -> Value:
        """An aggregate over the rows, oldest first: starts with `start`, and applies `step(value, symbol, row)` per row.

        The value is stored with the path under `name`, and longer paths continue from it: a running aggregate costs one
        step per row. Equal names must mean equal `start` and `step`.

        >>> Path().take("A", 0, 5).take("B", 1, 7).fold("sum", 0, lambda value, symbol, row: value + row)
        12
        """
        ahead, path = [], self
        while path.before is not None and name not in path._folds:
            ahead.append(path)
            path = path.before
        value: Value = path._folds.get(name, start)
        for path in reversed(ahead):
            value = path._folds[name] = step(value, path.symbol, path._last)
        return value

    def __len__(self) -> int:
        return self.length
