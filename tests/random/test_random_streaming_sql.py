"""Random queries of standard streaming SQL against the rules, written down in Python, over random events in random batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from tests.support.databases import Database


class Event(NamedTuple):
    """An event of the stream `s` or `t`."""

    stream: str
    ts: int
    k: str | None
    v: int | None


Result = tuple[Any, ...]
"""The time of a result and its values."""

END = 1000


def events_of(by: random.Random) -> list[Event]:
    """Some events of both streams in the order of time, with equal times and NULLs among them."""
    times = sorted(by.randrange(-20, 60) for _ in range(by.randrange(1, 25)))
    return [Event(by.choice("st"), ts, by.choice(["a", "b", None]), by.choice([1, 2, 3, None])) for ts in times]


def ms(size: int) -> str:
    """A duration."""
    return f"INTERVAL '{size}' MILLISECOND"


def reach(low: int, high: int) -> str:
    """The condition that an event of t is from `low` to `high` after one of s."""
    times = " AND ".join(
        f"t.ts {sign} s.ts {'-' if by < 0 else '+'} {ms(abs(by))}" for sign, by in ((">=", low), ("<=", high))
    )
    return times.replace("+ " + ms(0), "").replace("- " + ms(0), "")


# The rules ------------------------------------------------------------------------------------------------------------


def windows_of(ts: int, size: int, slide: int, offset: int) -> Iterator[int]:
    """The starts of the windows that hold a time."""
    start = (ts - offset) // slide * slide + offset
    while start > ts - size:
        yield start
        start -= slide


def hopping(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    size, slide, offset = by.randrange(1, 15), by.randrange(1, 12), by.randrange(-9, 9)
    if by.random() < 0.4:
        slide = size
        call = f"TUMBLE(TABLE s, DESCRIPTOR(ts), {ms(size)}, INTERVAL '{offset}' MILLISECOND)"
    else:
        call = f"HOP(TABLE s, DESCRIPTOR(ts), {ms(slide)}, {ms(size)}, INTERVAL '{offset}' MILLISECOND)"

    def expected(events: list[Event]) -> list[Result]:
        groups = grouped(
            (start, start + size, event) for event in events for start in windows_of(event.ts, size, slide, offset)
        )
        return [(end, start, end, k, len(of), total(of), min(each.ts for each in of)) for (start, end, k), of in groups]

    columns = "window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total, MIN(ts) AS first"
    return f"SELECT {columns} FROM {call} GROUP BY window_start, window_end, k", expected


def cumulating(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    step, count = by.randrange(1, 6), by.randrange(1, 5)
    size = step * count

    def expected(events: list[Event]) -> list[Result]:
        ends = (
            (start, end, event)
            for event in events
            for start in windows_of(event.ts, size, size, 0)
            for end in range(start + step, start + size + 1, step)
            if event.ts < end
        )
        return [(end, start, end, k, len(of), total(of)) for (start, end, k), of in grouped(ends)]

    call = f"TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), {ms(step)}, {ms(size)}))"
    columns = "window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total"
    return f"SELECT {columns} FROM {call} GROUP BY k, window_end, window_start", expected


def sessions(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    gap = by.randrange(1, 12)

    def expected(events: list[Event]) -> list[Result]:
        found = []
        for k in dict.fromkeys(event.k for event in events):
            session: list[Event] = []
            for event in [each for each in events if each.k == k]:
                if session and event.ts - session[-1].ts > gap:
                    found.append(session)
                    session = []
                session = [*session, event]
            found.append(session)
        return [(of[-1].ts + gap + 1, of[0].k, of[0].ts, of[-1].ts + gap, len(of), total(of)) for of in found]

    call = f"TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), {ms(gap)}))"
    columns = "k, window_start, window_end, COUNT(*) AS n, SUM(v) AS total"
    return f"SELECT {columns} FROM {call} GROUP BY k, window_start, window_end", expected


def windows_of_windows(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    small, step, gap = by.randrange(1, 7), by.randrange(1, 9), by.randrange(1, 12)
    kind, size = by.choice(["HOP", "CUMULATE", "SESSION"]), step * by.randrange(1, 4)

    def expected(events: list[Event]) -> list[Result]:
        counts = grouped(
            (start, start + small, event) for event in events for start in windows_of(event.ts, small, small, 0)
        )
        rows = sorted((end - 1, len(of)) for (_, end, _), of in counts)  # by window_time
        if kind == "SESSION":
            return [(start, end, n, end + 2) for start, end, n in sessions_of(rows)]
        found: dict[tuple[int, int], int] = {}
        for time, n in rows:
            for start, end in bounds(time):
                found[start, end] = found.get((start, end), 0) + n
        return [(start, end, n, end + 1) for (start, end), n in found.items()]

    def bounds(time: int) -> Iterator[tuple[int, int]]:
        if kind == "HOP":
            yield from ((start, start + size) for start in windows_of(time, size, step, 0))
        for start in windows_of(time, size, size, 0) if kind == "CUMULATE" else ():
            yield from ((start, end) for end in range(start + step, start + size + 1, step) if time < end)

    def sessions_of(rows: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        for place, (start, n) in enumerate(rows):
            if place and start - rows[place - 1][0] <= gap:
                continue
            end = start
            for time, more in rows[place + 1 :]:
                if time - end > gap:
                    break
                end, n = time, n + more
            yield start, end + gap, n

    inner = (
        f"SELECT window_time AS at, COUNT(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(ts), {ms(small)}) "
        "GROUP BY k, window_start, window_end"
    )
    sizes = ms(gap) if kind == "SESSION" else f"{ms(step)}, {ms(size)}"
    call = f"{kind}(({inner}), DESCRIPTOR(at), {sizes})"
    columns = "window_start, window_end, SUM(n) AS n"
    text = f"SELECT {columns} FROM {call} GROUP BY window_start, window_end"
    return text, lambda events: [(ts, start, end, n) for start, end, n, ts in expected(events)]


def over_rows(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    before = by.randrange(0, 4)
    back = by.randrange(0, before + 1)

    def expected(events: list[Event]) -> list[Result]:
        found = []
        for place, event in enumerate(events):
            frame = [each for each in events[: place + 1] if each.k == event.k][-before - 1 :]
            was = frame[-back - 1].v if back < len(frame) else 0
            found.append((event.ts, event.v, total(frame), len(frame), was))
        return found

    over = f"OVER (PARTITION BY k ORDER BY ts ROWS {before} PRECEDING)"
    lag = f"LAG(v, {back}, 0) OVER (PARTITION BY k ORDER BY ts)"
    return f"SELECT v, SUM(v) {over} AS total, COUNT(*) {over} AS n, {lag} AS was FROM s", expected


def over_following(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    after, has_lag = by.randrange(1, 4), by.random() < 0.5
    ahead = by.randrange(0, after + 1)

    def expected(events: list[Event]) -> list[Result]:
        found = []
        for place, event in enumerate(events):
            own = [each for each in events[place:] if each.k == event.k][: after + 1]
            before = [each.v for each in events[:place] if each.k == event.k]
            time = own[after].ts if len(own) > after else END
            lead = own[ahead].v if ahead < len(own) else -7
            found.append(
                (time, event.v, event.ts, total(own), len(own), lead, before[-1] if has_lag and before else None)
            )
        return found

    by_time = "OVER (PARTITION BY k ORDER BY ts"
    over = f"{by_time} ROWS BETWEEN CURRENT ROW AND {after} FOLLOWING)"
    lag = f"LAG(v) {by_time})" if has_lag else "NULL"
    lead = f"LEAD(v, {ahead}, 0 - 7) {by_time})"
    return (
        f"SELECT v, ts AS t, SUM(v) {over} AS total, COUNT(*) {over} AS n, {lead} AS x, {lag} AS was FROM s",
        expected,
    )


def over_ranges(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    length = by.randrange(0, 15)

    def expected(events: list[Event]) -> list[Result]:
        found = []
        for event in events:
            until = [each for each in events if each.ts <= event.ts]
            frame = [each for each in until if each.k == event.k and each.ts >= event.ts - length]
            high = max((each.v for each in until if each.v is not None), default=None)
            twos = sum(each.v == 2 for each in frame)
            found.append((event.ts + 1, event.ts, event.v, total(frame), len(frame), twos, high))
        return found

    frame = f"RANGE {ms(length)} PRECEDING" if length else "RANGE BETWEEN CURRENT ROW AND CURRENT ROW"
    over = f"OVER (PARTITION BY k ORDER BY ts {frame})"
    values = f"SUM(v) {over} AS total, COUNT(*) {over} AS n, COUNT(*) FILTER (WHERE v = 2) {over} AS twos"
    return f"SELECT ts AS t, v, {values}, MAX(v) OVER (ORDER BY ts) AS high FROM s", expected


def first_by_value(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    count, descending, rank = by.randrange(1, 4), by.random() < 0.5, by.random() < 0.3

    def least(event: Event) -> int:
        value = 0 if event.v is None else event.v  # NULL is least
        return -value if descending else value

    def expected(events: list[Event]) -> list[Result]:
        found = []
        for place, event in enumerate(events):
            others = [least(each) for each in events[:place] if each.k == event.k]
            number = 1 + sum(other < least(event) or (other == least(event) and not rank) for other in others)
            if number <= count:
                found.append((event.ts, event.k, event.v, number))
        return found

    function, order = "RANK" if rank else "ROW_NUMBER", " DESC" if descending else ""
    inner = f"SELECT k, v, {function}() OVER (PARTITION BY k ORDER BY v{order}) AS rn FROM s"
    return f"SELECT k, v, rn FROM ({inner}) WHERE rn <= {count}", expected


def numbers_in_windows(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    size, least, count = by.randrange(2, 20), by.randrange(1, 3), by.randrange(2, 4)
    per_key, descending = by.random() < 0.6, by.random() < 0.5
    function = by.choice(["ROW_NUMBER", "RANK", "DENSE_RANK"])

    def value(event: Event) -> int:
        least = 0 if event.v is None else event.v  # NULL is least
        return -least if descending else least

    def expected(events: list[Event]) -> list[Result]:
        windows = ((start, start + size, event) for event in events for start in windows_of(event.ts, size, size, 0))
        parts: dict[tuple[int, str | None], list[Event]] = {}
        for start, _, event in windows:
            parts.setdefault((start, event.k if per_key else None), []).append(event)
        return [
            (start + size, event.k, event.v, event.ts, start, number)
            for (start, _), of in parts.items()
            for place, event in enumerate(sorted(of, key=value), 1)  # equal ones by arrival
            if least <= (number := number_of(place, event, of)) <= count
        ]

    def number_of(place: int, event: Event, of: list[Event]) -> int:
        before = [value(each) for each in of if value(each) < value(event)]
        return {"ROW_NUMBER": place, "RANK": 1 + len(before), "DENSE_RANK": 1 + len(set(before))}[function]

    keys, order = ", k" if per_key else "", " DESC" if descending else ""
    over = f"{function}() OVER (PARTITION BY window_start, window_end{keys} ORDER BY v{order})"
    inner = f"SELECT k, v, ts, window_start, {over} AS rn FROM TUMBLE(TABLE s, DESCRIPTOR(ts), {ms(size)})"
    return f"SELECT k, v, ts AS t, window_start, rn FROM ({inner}) WHERE rn BETWEEN {least} AND {count}", expected


def outer_joins(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    low = by.randrange(-12, 6)
    high = low + by.randrange(0, 12)
    kind = by.choice(["INNER", "LEFT", "RIGHT", "FULL"])

    def meet(left: Event, right: Event) -> bool:
        equal = left.k is not None and left.k == right.k
        return equal and low <= right.ts - left.ts <= high

    def expected(events: list[Event]) -> list[Result]:
        s, t = ([event for event in events if event.stream == stream] for stream in "st")
        found: list[Result] = [
            (max(left.ts, right.ts), left.v, right.v, left.ts, right.ts)
            for left in s
            for right in t
            if meet(left, right)
        ]
        if kind in ("LEFT", "FULL"):
            alone = [left for left in s if not any(meet(left, right) for right in t)]
            found += [(left.ts + max(high, -1) + 1, left.v, None, left.ts, None) for left in alone]
        if kind in ("RIGHT", "FULL"):
            alone = [right for right in t if not any(meet(left, right) for left in s)]
            found += [(right.ts + max(-low, -1) + 1, None, right.v, None, right.ts) for right in alone]
        return found

    columns = "s.v AS a, t.v AS b, s.ts AS since, t.ts AS until"
    return f"SELECT {columns} FROM s {kind} JOIN t ON s.k = t.k AND {reach(low, high)}", expected


def semi_joins(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    low = by.randrange(-12, 6)
    high = low + by.randrange(0, 12)
    is_anti = by.random() < 0.5

    def expected(events: list[Event]) -> list[Result]:
        s, t = ([event for event in events if event.stream == stream] for stream in "st")
        found: list[Result] = []
        for row in s:
            partners = [each.ts for each in t if each.k == row.k is not None and low <= each.ts - row.ts <= high]
            if is_anti and not partners:
                found.append((row.ts + max(high, -1) + 1, row.k, row.v, row.ts))
            if partners and not is_anti:
                found.append((max(row.ts, min(partners)), row.k, row.v, row.ts))
        return found

    word = by.choice(["NOT EXISTS (SELECT *"] if is_anti else ["EXISTS (SELECT *", "k IN (SELECT k"])
    equal = "" if word.startswith("k") else "s.k = t.k AND "
    return f"SELECT k, v, ts AS since FROM s WHERE {word} FROM t WHERE {equal}{reach(low, high)})", expected


def semi_joins_of_windows(by: random.Random) -> tuple[str, Callable[[list[Event]], list[Result]]]:
    size, is_anti = by.randrange(1, 15), by.random() < 0.5

    def expected(events: list[Event]) -> list[Result]:
        s, t = ([event for event in events if event.stream == stream] for stream in "st")
        return [
            ((row.ts // size + 1) * size, row.v, row.ts, row.ts // size * size)
            for row in s
            if is_anti != any(row.k == each.k is not None and row.ts // size == each.ts // size for each in t)
        ]

    left, right = (f"(SELECT * FROM TUMBLE(TABLE {stream}, DESCRIPTOR(ts), {ms(size)}))" for stream in "st")
    equal = "l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
    word = "NOT EXISTS" if is_anti else "EXISTS"
    text = f"SELECT v, ts AS at, window_start FROM {left} l WHERE {word} (SELECT 1 FROM {right} r WHERE {equal})"
    return text, expected


def grouped(rows: Iterator[tuple[int, int, Event]]) -> list[tuple[tuple[int, int, str | None], list[Event]]]:
    """The events of each window and key."""
    found: dict[tuple[int, int, str | None], list[Event]] = {}
    for start, end, event in rows:
        found.setdefault((start, end, event.k), []).append(event)
    return list(found.items())


def total(events: list[Event]) -> int | None:
    """The sum of the values; None without any."""
    values = [event.v for event in events if event.v is not None]
    return sum(values) if values else None


# The test -------------------------------------------------------------------------------------------------------------

OF_TWO_STREAMS = [outer_joins, semi_joins, semi_joins_of_windows]
RULES = [
    hopping, cumulating, sessions, windows_of_windows, over_rows, over_following, over_ranges, first_by_value, numbers_in_windows,
    *OF_TWO_STREAMS,
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_random_streaming_sql(rule: Any, seed: int, database: Database) -> None:
    by = random.Random(f"{rule.__name__} {seed}")
    text, expected = rule(by)
    events = events_of(by)
    own = events if rule in OF_TWO_STREAMS else [event for event in events if event.stream == "s"]
    found: list[Result] = []
    with database.connect() as cep:
        for stream in "st":
            cep.register_stream(stream, "k VARCHAR, v INTEGER")
        cep.create_query("q", text)
        cep.add_output_processor("q", lambda event: found.append((event.timestamp, *event.payload.values())))
        left = events
        while left:
            part = left[: by.randrange(1, 6)]
            cep.push_all([(event.stream, [event.k, event.v], event.ts) for event in part])
            left = left[len(part) :]
        cep.advance_time(END)
        cep.finish()
    assert [row[0] for row in found] == sorted(row[0] for row in found), text
    assert sorted(found, key=repr) == sorted(expected(own), key=repr), text
