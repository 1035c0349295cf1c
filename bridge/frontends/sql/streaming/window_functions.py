"""The window functions of standard streaming SQL: TUMBLE, HOP, CUMULATE and SESSION, and other spellings of them.

They stand in FROM, as `TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND))` and without `TABLE( )`; in GROUP
BY, as `TUMBLE(ts, INTERVAL '10' SECOND)`, and as Spark's `window(ts, '10 seconds')`; and after a stream, as ksqlDB's
`WINDOW TUMBLING (SIZE 10 SECONDS)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from sqlglot import TokenType, exp

from bridge.errors import QueryError
from bridge.frontends.clauses import duration
from bridge.frontends.cursor import Cursor, word_of
from bridge.frontends.expressions import expression_list, without_aliases
from bridge.frontends.sql.streaming.time_values import clock_ms
from windows.extents import Range

_PARAMETERS = {
    "TUMBLE": ("SIZE",), "HOP": ("SLIDE", "SIZE"), "CUMULATE": ("STEP", "SIZE"), "SESSION": ("GAP",),
}  # fmt: skip
"""The durations of each function, in order. All but SESSION have an optional OFFSET after them."""

_OF_SPARK = ("WINDOW", "SESSION_WINDOW")
_OF_KSQL = {"TUMBLING": "TUMBLE", "HOPPING": "HOP", "SESSION": "SESSION"}
_TOO_LONG = ("MONTH", "MONTHS", "QUARTER", "QUARTERS", "YEAR", "YEARS")
_MOST_COPIES = 1000
"""The greatest number of windows of one function that one row may be in."""


@dataclasses.dataclass(frozen=True)
class WindowFunction:
    """A window function with its durations in milliseconds. `keys`: what SESSION is partitioned by.

    `slide` is the distance of two starts; for CUMULATE it is the step. SESSION has its gap in `size`. If the time column is
    `lag` before ts, all bounds are those of the column plus the lag, as windows are by ts.
    """

    kind: str
    size: int
    slide: int
    offset: int = 0
    keys: tuple[exp.Expr, ...] = ()
    lag: int = 0

    @property
    def extent(self) -> Range:
        """The window of the bridge's own SQL that reports at the ends of these windows.

        >>> str(WindowFunction("HOP", 10_000, 4000).extent)
        'RANGE 10000 MS SLIDE 4000 MS OFFSET 2000 MS'
        """
        return Range(self.size, self.slide, (self.offset + self.size) % self.slide)

    def lagging(self, lag: int) -> WindowFunction:
        """The same windows by a time column that is `lag` before ts."""
        period = self.slide if self.kind == "HOP" else self.size
        return dataclasses.replace(self, offset=(self.offset + lag) % period, lag=lag) if lag else self

    @property
    def copies(self) -> int:
        """The greatest number of windows that one row is in."""
        return -(-self.size // self.slide)


class FromFunction(NamedTuple):
    """A window function in FROM, with the position of its data, which is read by the caller, and of its time column."""

    function: WindowFunction
    time: str
    position: int


# In FROM --------------------------------------------------------------------------------------------------------------


def is_in_from(cursor: Cursor) -> bool:
    """Whether a window function follows, with or without `TABLE( )`."""
    outer = 2 if cursor.word() == "TABLE" and cursor.word(1) == "(" else 0
    return cursor.word(outer) in _PARAMETERS and cursor.word(outer + 1) == "("


def in_from(cursor: Cursor, data: Callable[[Cursor], None]) -> FromFunction:
    """Steps over a window function. `data` reads its input, which is a name or a query in parentheses."""
    wrapped = cursor.take("TABLE", "(")
    kind = cursor.word()
    cursor.at += 1
    cursor.expect("(")
    call = _WindowArguments(kind, cursor.position)
    while True:
        call.argument(cursor, data)
        if not cursor.take(","):
            break
    function = call.function(cursor)
    cursor.expect(")")
    if wrapped:
        cursor.expect(")")
    return FromFunction(function, call.time, call.time_position)


class _WindowArguments:
    """The arguments of one call, by position or by name."""

    def __init__(self, kind: str, position: int) -> None:
        self.kind = kind
        self.durations: dict[str, int] = {}
        self.keys: tuple[exp.Expr, ...] = ()
        self.time, self.time_position, self.position = "", position, position
        self.count = 0

    def argument(self, cursor: Cursor, data: Callable[[Cursor], None]) -> None:
        """Steps over the next argument, `SIZE => INTERVAL '10' SECOND` or without the name."""
        names = ("DATA", "TIMECOL", *_PARAMETERS[self.kind], "OFFSET")
        named = cursor.word() if cursor.word(1) == "=>" else ""
        if named:
            name = {"TIME": "TIMECOL"}.get(named, named)
            if name not in names:
                cursor.fail(f"{self.kind} has the arguments {', '.join(names)}, not {cursor.next_text()}")
            cursor.at += 2
        elif self.count >= len(names):
            cursor.fail(f"{self.kind} has the arguments {', '.join(names)}")
        else:
            name = names[self.count]
        self.count += 1
        match name:
            case "DATA":
                cursor.take("TABLE")
                data(cursor)
                self.keys = _partition(cursor)
            case "TIMECOL":
                self.time, self.time_position = _time_column(cursor)
            case _:
                self.durations[name] = window_duration(cursor, signed=name == "OFFSET")

    def function(self, cursor: Cursor) -> WindowFunction:
        """The function, after its arguments were read."""
        missing = [name for name in _PARAMETERS[self.kind] if name not in self.durations]
        if missing or not self.time:
            wanted = ", ".join(["DESCRIPTOR(ts)", *_PARAMETERS[self.kind]])
            cursor.fail(f"{self.kind} wants a stream, {wanted}, not {cursor.next_text()}")
        if self.keys and self.kind != "SESSION":
            cursor.fail(f"{self.kind} has the same windows for all keys: write the keys in GROUP BY", self.position)
        return function_of(cursor, self.kind, self.durations, self.position, self.keys)


def _partition(cursor: Cursor) -> tuple[exp.Expr, ...]:
    if not cursor.take("PARTITION BY"):
        return ()
    if cursor.word() == "(":
        cursor.at += 1
        keys = expression_list(cursor, cursor.until(()), "a key to partition by")
        cursor.expect(")")
    else:  # a comma ends it, as the next argument follows
        keys = expression_list(cursor, cursor.until((",",)), "a key to partition by")
    return without_aliases(cursor, keys)


def _time_column(cursor: Cursor) -> tuple[str, int]:
    described = cursor.take("DESCRIPTOR", "(")
    position = cursor.position
    name = cursor.name("the time column")
    while cursor.take("."):
        name = cursor.name("the time column")
    if described:
        cursor.expect(")")
    return name, position


# In GROUP BY and after a stream ---------------------------------------------------------------------------------------


def is_in_group_by(cursor: Cursor) -> bool:
    """Whether `TUMBLE(ts, …)` or the like follows."""
    return cursor.word() in (*_PARAMETERS, *_OF_SPARK) and cursor.word(1) == "("


def in_group_by(cursor: Cursor, lags: Mapping[str, int]) -> WindowFunction:
    """Steps over `HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)`. `lags`: the columns that are times, see `lags_of`."""
    kind, start = cursor.word(), cursor.position
    cursor.at += 1
    cursor.expect("(")
    if kind in _OF_SPARK:
        return _of_spark(cursor, kind, start, lags)
    lag = lag_of(cursor, *_time_column(cursor), lags)
    durations = {}
    for name in _PARAMETERS[kind]:
        cursor.expect(",", f" ({kind} wants {' and '.join(_PARAMETERS[kind])})")
        durations[name] = window_duration(cursor)
    if kind != "SESSION" and cursor.take(","):
        durations["OFFSET"] = window_duration(cursor, signed=True)
    cursor.expect(")")
    return function_of(cursor, kind, durations, start).lagging(lag)


def _of_spark(cursor: Cursor, word: str, start: int, lags: Mapping[str, int]) -> WindowFunction:
    """Spark's `window(ts, '10 seconds'[, '5 seconds'[, '2 seconds']])`: size, slide, offset; `session_window(ts, gap)`."""
    lag = lag_of(cursor, *_time_column(cursor), lags)
    names = ["GAP"] if word == "SESSION_WINDOW" else ["SIZE", "SLIDE", "OFFSET"]
    durations: dict[str, int] = {}
    while names and cursor.take(","):
        name = names.pop(0)
        durations[name] = _spark_duration(cursor, signed=name == "OFFSET")
    cursor.expect(")")
    if not durations:
        cursor.fail(f"{word.lower()} wants a duration, such as '10 seconds'", start)
    kind = "SESSION" if "GAP" in durations else "HOP" if "SLIDE" in durations else "TUMBLE"
    return function_of(cursor, kind, durations, start).lagging(lag)


def _spark_duration(cursor: Cursor, signed: bool) -> int:
    token = cursor.peek()
    if token is None or token.token_type != TokenType.STRING:
        return window_duration(cursor, signed)
    inner = Cursor(f"INTERVAL '{token.text}'")
    try:
        found = window_duration(inner, signed)
    except QueryError as error:
        cursor.fail(error.message)
    cursor.at += 1
    return found


def spark_bounds(cursor: Cursor) -> dict[str, exp.Expr]:
    """What `window.start` and the like stand for, if a GROUP BY with Spark's function follows."""
    depth, grouped = 0, False
    for token, after in zip(cursor.tokens[cursor.at :], cursor.tokens[cursor.at + 1 :], strict=False):
        word = word_of(token)
        if depth == 0 and word in (")", ";", "HAVING", "UNION"):
            break
        grouped |= depth == 0 and word == "GROUP BY"
        if grouped and depth == 0 and word in _OF_SPARK and word_of(after) == "(":
            bounds = {"start": "window_start", "end": "window_end"}
            return {f"{word.lower()}.{name}": exp.column(bound) for name, bound in bounds.items()}
        depth += (word == "(") - (word == ")")
    return {}


def is_after_stream(cursor: Cursor) -> bool:
    """Whether ksqlDB's `WINDOW TUMBLING ( … )` follows."""
    return cursor.word() == "WINDOW" and cursor.word(1) in _OF_KSQL


def after_stream(cursor: Cursor) -> WindowFunction:
    """Steps over `WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS)`, `WINDOW SESSION (5 SECONDS)`."""
    cursor.expect("WINDOW")
    start, kind = cursor.position, _OF_KSQL[cursor.word()]
    cursor.at += 1
    cursor.expect("(")
    durations: dict[str, int] = {}
    if kind == "SESSION":
        durations["GAP"] = window_duration(cursor)
        cursor.take(",")
    while cursor.word() not in (")", ""):
        _ksql_property(cursor, durations)
        if not cursor.take(","):
            break
    cursor.expect(")")
    missing = [name for name in _PARAMETERS[kind] if name not in durations]
    if missing:
        words = {"SLIDE": "ADVANCE BY"}
        cursor.fail(f"{words.get(missing[0], missing[0])} is missing in this window", start)
    return function_of(cursor, kind, durations, start)


def _ksql_property(cursor: Cursor, durations: dict[str, int]) -> None:
    if cursor.take("SIZE"):
        durations["SIZE"] = window_duration(cursor)
    elif cursor.take("ADVANCE", "BY"):
        durations["SLIDE"] = window_duration(cursor)
    elif cursor.word() in ("GRACE", "RETENTION"):
        cursor.fail(f"{cursor.word()} is not supported: connect(lateness=…) is how long late events are waited for")
    else:
        cursor.fail(f"SIZE or ADVANCE BY is expected, not {cursor.next_text()}")


# Durations ------------------------------------------------------------------------------------------------------------


def function_of(
    cursor: Cursor, kind: str, durations: dict[str, int], position: int, keys: tuple[exp.Expr, ...] = ()
) -> WindowFunction:
    """Makes the function with these durations. If one contradicts another, the error points at `position`."""
    size = durations.get("SIZE", durations.get("GAP", 0))
    slide = durations.get("SLIDE", durations.get("STEP", size))
    if kind == "CUMULATE" and size % slide:
        whole = size // slide * slide or slide
        cursor.fail(
            f"the size of CUMULATE is a multiple of its step, as the last step would be cut: with steps of {slide} MS for "
            f"example a size of {whole} MS",
            position,
        )
    period = slide if kind == "HOP" else size
    found = WindowFunction(kind, size, slide, durations.get("OFFSET", 0) % period, keys)
    if found.copies > _MOST_COPIES:
        cursor.fail(f"a row would be in {found.copies} windows: at most {_MOST_COPIES} are supported", position)
    return found


def window_duration(cursor: Cursor, signed: bool = False) -> int:
    """`INTERVAL '10' SECOND`, `INTERVAL '0:10' MINUTE TO SECOND`, `10 SECONDS`; if `signed`, also `INTERVAL '-4' SECOND`."""
    ahead = 1 if cursor.word() == "INTERVAL" else 0
    token = cursor.peek(ahead)
    text = token.text if token is not None and token.token_type == TokenType.STRING else ""
    unit = (text.split()[-1] if text and text.split()[-1].isalpha() else cursor.word(ahead + 1)).upper()
    if unit in _TOO_LONG:
        cursor.fail(f"{unit}: such windows differ in length; write days or less")
    if ":" in text:
        return _clock(cursor, text)
    if signed and text.strip().startswith("-"):
        return -_negated(cursor, text)
    if signed and text.strip() == "0":
        cursor.at += ahead + 2
        return 0
    return duration(cursor)


def _clock(cursor: Cursor, text: str) -> int:
    first, last = cursor.word(2), cursor.word(4)
    found = clock_ms(text, first, last) if cursor.word(3) == "TO" else None
    if found is None or found < 1:
        cursor.fail("INTERVAL '0:10' MINUTE TO SECOND: the parts do not fit the units")
    cursor.at += 5
    return found


def _negated(cursor: Cursor, text: str) -> int:
    """The duration of `INTERVAL '-4' SECOND` without its sign."""
    start, end = cursor.at, Cursor(f"INTERVAL '{text.strip()[1:]}' {cursor.word(2)}")
    found = duration(end)
    cursor.at = start + (2 if text.strip()[-1].isalpha() else 3)
    return found


def lag_of(cursor: Cursor, name: str, position: int, lags: Mapping[str, int]) -> int:
    """How many milliseconds a time column is before ts. Fails at a column that is not a time."""
    if name.lower() not in lags:
        _refuse_time(cursor, name, position)
    return lags[name.lower()]


def _refuse_time(cursor: Cursor, name: str, position: int) -> NoReturn:
    if name.lower().startswith("proc"):
        cursor.fail(
            f"{name!r} is not the time of the events: the clock would give other rows in a replay; write DESCRIPTOR(ts), "
            "and connect(clock='system') for time that passes by the clock",
            position,
        )
    cursor.fail(f"{name!r} is not the time of the events, which is ts: write DESCRIPTOR(ts)", position)
