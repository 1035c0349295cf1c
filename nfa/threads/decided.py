"""The matcher: rows in, decided matches out (SQL:2016 row pattern recognition; rules S1 to S4).

One start is under way at a time: the rows from it on are kept, and the next start goes over them when the start
before is decided, as AFTER MATCH SKIP says. What has been computed for a row is kept with it, so where a later start
comes to the same threads as an earlier one it follows in its tracks instead of computing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

from nfa.match import Match, Membership
from nfa.parse import parse_pattern
from nfa.pattern import Pattern
from nfa.program import MatchSymbol, Program, compile_program
from nfa.skip import Skip, past_last_row, search_on
from nfa.threads.machine import Arrived, Holds, Machine, Threads
from nfa.threads.path import Row
from nfa.threads.tracks import Track, ahead


class Matcher(Generic[Row]):
    """Finds the matches of a program in one partition whose rows are fed in order.

    `holds(symbol, row, path)` answers whether a row can be a symbol; the rows may be anything. With
    `depends_on_path=False` the answer must not depend on `path` (it is then asked once for a symbol and row, with an
    empty path) and time is linear in the rows; otherwise it is asked for every different path.

    With `timed_out` a start that has no match when its time is over gives the preferred partial one. `absent` names two
    symbols: what stands at the end of every way is `others*? absent`, where a row of the second ends the start without a
    match, and when the time is over without one the rows before `others` are the match (rule S6).

    `within` needs `time(row)` and bounds the rows of a match before matching: ts(last) − ts(first) < within (P4).

    A match is returned as soon as no later row can change it and every match before it is decided (S4). Raises
    SkipError where AFTER MATCH SKIP leads nowhere (S3), BudgetError for too many open ways, ValueError for a row
    older than the time reached or fed after `finish`; after an error the matcher must not be used any more.

    >>> v_shape = compile_program(parse_pattern("STRT DOWN+ UP+"))
    >>> conditions = {"STRT": lambda now, last: True, "DOWN": lambda now, last: now < last,
    ...               "UP": lambda now, last: now > last}
    >>> matcher = Matcher(v_shape, lambda symbol, row, path: conditions[symbol](row, path.last()), depends_on_path=True)
    >>> [len(matcher.feed(price)) for price in (10, 8, 6, 7, 9, 5)]
    [0, 0, 0, 0, 0, 1]
    >>> matcher.finish()
    []
    """

    def __init__(
        self,
        program: Program,
        holds: Holds[Row],
        *,
        depends_on_path: bool = False,
        skip: Skip = past_last_row,
        within: int | None = None,
        time: Callable[[Row], int] | None = None,
        timed_out: bool = False,
        absent: tuple[str, str] | None = None,
    ) -> None:
        if within is not None and time is None:
            raise ValueError("within needs time, a function that gives the time of a row")
        self._options = (program, holds, depends_on_path, skip, within, time, timed_out, absent)
        self._timed_out, self._absent = timed_out, absent
        self._machine = Machine(program, holds, depends_on_path)
        self._kept: dict[int, Arrived[Row]] = {}
        self._tracks: dict[int, dict[Threads[Row], Track[Row]]] = {}
        self._begun: Track[Row] | None = None
        self._start = self._count = self._matches = 0
        self._now: int | None = None
        self._finished = False
        self._skip, self._within, self._time = skip, within, time

    @property
    def start(self) -> int:
        """The index of the row under way as a start: later matches hold no row before it."""
        return self._start

    @property
    def match_number(self) -> int:
        """MATCH_NUMBER() of the match under way, for conditions that ask for it (with depends_on_path=True)."""
        return self._matches + 1

    def resume(self, index: int, matches: int) -> None:
        """Before the first row: it has this index, and so many matches of its partition are told already."""
        if self._count:
            raise ValueError("rows have been fed already")
        self._start = self._count = index
        self._matches = matches

    def feed(self, row: Row) -> list[Match]:
        """Take the next row of the partition; return what is decided by it."""
        if self._finished:
            raise ValueError("the partition is finished")
        ts = 0
        if self._time is not None:
            self._pass(ts := self._time(row))
        self._kept[self._count] = Arrived(self._count, row, ts)
        self._count += 1
        return self._decided()

    def advance_time(self, ts: int) -> list[Match]:
        """No row older than `ts` will come; return what is decided by that."""
        self._pass(max(ts, ts if self._now is None else self._now))
        return self._decided()

    def finish(self) -> list[Match]:
        """No row will come at all; return the rest."""
        self._finished = True
        return self._decided()

    def _pass(self, ts: int) -> None:
        if self._now is not None and ts < self._now:
            raise ValueError(f"a row of time {ts} comes after time {self._now}")
        self._now = ts

    def _decided(self) -> list[Match]:
        found: list[Match] = []
        while self._start < self._count:
            begun = self._begun = self._begun or Track(self._machine.begin(self._start), self._start)
            track, best = self._run(begun)
            if not self._is_decided(track):
                break
            if self._absent is not None:
                self._close_absence(begun, track, best, found)
            elif self._timed_out and best is None and self._is_partial(track):
                found.append(Match(0, self._start, self._memberships(begun, track, 0)))
                self._go_on(self._start + 1)
            else:
                self._close(begun, *self._outcome(track, best), found)
        return found

    def _is_partial(self, track: Track[Row]) -> bool:
        """Whether it is time alone that ends a start."""
        return not self._finished and bool(track.threads) and track.position > self._start

    def _close_absence(self, begun: Track[Row], track: Track[Row], best: Track[Row] | None, found: list[Match]) -> None:
        assert self._absent is not None
        after = self._start + 1
        place = self._waiting_for_absent(track) if best is None and self._is_partial(track) else None
        if place is not None:
            rows = self._memberships(begun, track, place)
            taken = tuple(row for row in rows if row.symbol != self._absent[0])
            self._matches += 1
            match = Match(self._matches, self._start, taken)
            after = search_on(self._skip, match)
            found.append(match)
        self._go_on(after)

    def _waiting_for_absent(self, track: Track[Row]) -> int | None:
        """The place of the preferred thread that has all but what must not come."""
        for place, (number, _) in enumerate(track.threads):
            line = self._machine.code[number]
            if isinstance(line, MatchSymbol) and line.name in (self._absent or ()):
                return place
        return None

    def _run(self, begun: Track[Row]) -> tuple[Track[Row], Track[Row] | None]:
        """Follow the start as far as the rows go: where it is now, and the last place where it was a match."""
        machine, deadline = self._machine, self._deadline()
        track, best = begun, None
        while True:
            track, passed = ahead(track)
            best = passed or best
            if machine.has_match(track.threads):
                best = track
            arrived = self._kept.get(track.position)
            if arrived is None or machine.is_settled(track.threads):
                return track, best
            if deadline is not None and arrived.ts >= deadline:
                return track, best
            track = self._step(track, arrived)

    def _step(self, track: Track[Row], arrived: Arrived[Row]) -> Track[Row]:
        threads, parents = self._machine.move(track.threads, arrived)
        tracks = self._tracks.setdefault(track.position, {})
        after = tracks.get(threads)
        if after is None:
            after = tracks[threads] = Track(threads, track.position + 1)
        track.lead_to(after, parents, self._machine.has_match(track.threads))
        return after

    def _deadline(self) -> int | None:
        return None if self._within is None else self._kept[self._start].ts + self._within

    def _is_decided(self, track: Track[Row]) -> bool:
        if self._finished or track.position < self._count or self._machine.is_settled(track.threads):
            return True
        deadline = self._deadline()
        if deadline is None or self._now is None or self._now < deadline:
            return False
        return self._machine.is_settled(self._machine.without_rows(track.threads))

    def _outcome(self, track: Track[Row], best: Track[Row] | None) -> tuple[Track[Row] | None, int]:
        """The track that ends with the preferred match, and the place of the thread that is it."""
        if self._finished and track.position == self._count:
            place = self._machine.at_end(track.threads)
            if place is not None:
                return track, place
        return best, -1

    def _close(self, begun: Track[Row], last: Track[Row] | None, place: int, found: list[Match]) -> None:
        after = self._start + 1
        if last is not None:
            self._matches += 1
            match = Match(self._matches, self._start, self._memberships(begun, last, place))
            after = search_on(self._skip, match)
            found.append(match)
        self._go_on(after)

    def _go_on(self, after: int) -> None:
        """The next start, and what is before it forgotten."""
        for index in range(self._start, min(after, self._count)):
            del self._kept[index]
            self._tracks.pop(index, None)
        self._start, self._begun = after, None

    def _memberships(self, begun: Track[Row], last: Track[Row], place: int) -> tuple[Membership, ...]:
        found = []
        for track in reversed(begun.until(last)):
            place = track.parents[place]
            line = self._machine.code[track.threads[place][0]]
            assert isinstance(line, MatchSymbol)
            found.append(Membership(line.name, track.position, line.excluded))
        return tuple(reversed(found))

    def __getstate__(self) -> dict[str, Any]:
        # The rows kept say it all; the tracks are followed again when needed.
        names = ("_options", "_start", "_count", "_matches", "_now", "_finished")
        rows = [(arrived.row, arrived.ts) for arrived in self._kept.values()]
        return {"rows": rows, **{name: getattr(self, name) for name in names}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        program, holds, depends_on_path, skip, within, time, timed_out, absent = state.pop("_options")
        self.__init__(  # type: ignore[misc]
            program,
            holds,
            depends_on_path=depends_on_path,
            skip=skip,
            within=within,
            time=time,
            timed_out=timed_out,
            absent=absent,
        )
        rows = state.pop("rows")
        self.__dict__.update(state)
        first = self._count - len(rows)
        self._kept = {first + place: Arrived(first + place, *row) for place, row in enumerate(rows)}


def find_all(
    pattern: str | Pattern | Program,
    rows: Iterable[Row],
    holds: Holds[Row],
    *,
    depends_on_path: bool = False,
    skip: Skip = past_last_row,
    within: int | None = None,
    time: Callable[[Row], int] | None = None,
) -> list[Match]:
    """All matches in bounded data; the arguments are those of `Matcher`, the pattern may be text, tree or program.

    >>> [match.memberships for match in find_all("A B?", "ab a", lambda symbol, row, path: row == symbol.lower())]
    [(Membership(symbol='A', row=0, excluded=False), Membership(symbol='B', row=1, excluded=False)), \
(Membership(symbol='A', row=3, excluded=False),)]
    """
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    program = tree if isinstance(tree, Program) else compile_program(tree)
    matcher = Matcher(program, holds, depends_on_path=depends_on_path, skip=skip, within=within, time=time)
    found = [match for row in rows for match in matcher.feed(row)]
    return found + matcher.finish()
