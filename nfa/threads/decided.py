"""The matcher: rows in, decided matches out (SQL:2016 row pattern recognition; rules S1 to S4).

One start is searched at a time. The rows from it on are retained, and when it is decided, the next start, which AFTER
MATCH SKIP determines, is searched over them. Threads after each row are remembered as tracks: a later start that reaches
the same threads as an earlier one follows its track instead of computing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

from nfa.match import Membership, PatternMatch
from nfa.parse import parse_pattern
from nfa.pattern import Pattern
from nfa.program import MatchSymbol, Program, compile_program
from nfa.skip import Skip, past_last_row, search_on
from nfa.threads.machine import Holds, InputRow, Machine, Threads
from nfa.threads.path import Row


class Track(Generic[Row]):
    """The threads before the row with index `position`, linked forward; `after` are the threads one row later, once known.

    `parents` has for each thread of `after` the place of its parent among the threads here. Several starts share tracks.
    """

    __slots__ = ("_best", "_far", "after", "parents", "position", "threads")

    def __init__(self, threads: Threads[Row], position: int) -> None:
        self.threads = threads
        self.position = position
        self.after: Track[Row] | None = None
        self.parents: tuple[int, ...] = ()
        self._far: Track[Row] | None = None
        self._best: Track[Row] | None = None

    def set_after(self, after: Track[Row], parents: tuple[int, ...], has_match: bool) -> None:
        self.after = self._far = after
        self.parents = parents
        self._best = self if has_match else None

    def until(self, last: Track[Row]) -> list[Track[Row]]:
        """The tracks from this one to before `last`."""
        tracks, track = [], self
        while track is not last:
            tracks.append(track)
            assert track.after is not None
            track = track.after
        return tracks

    def last_known(self) -> tuple[Track[Row], Track[Row] | None]:
        """The last track known after this one, and the last before that one which has a match.

        Shortens the path of all tracks in between, so that following many starts stays linear.
        """
        passed, track = [], self
        while track._far is not None:
            passed.append(track)
            track = track._far
        best: Track[Row] | None = None
        for earlier in reversed(passed):
            best = best or earlier._best
            earlier._far, earlier._best = track, best
        return track, best


class Matcher(Generic[Row]):
    """Finds the matches of a program in one partition whose rows are fed in order.

    A match is returned as soon as no later row can change it and every match before it is decided (S4).

    Args:
        holds: `holds(symbol, row, path)` says whether a row, which may be any object, can be a symbol.
        depends_on_path: Whether the result of `holds` depends on `path`. If not, it is called once per symbol and row,
            with an empty path, and the time is linear in the rows; otherwise it is called for every different path.
        within: The duration of a match: ts(last) − ts(first) < within (P4). Needs `time(row)`.
        timed_out: Whether a start without a match at its deadline gives the preferred partial match.
        absent: Two symbols; every alternative of the pattern ends with `others*? absent`. A row of the second ends the start
            without a match; if none comes before the deadline, the rows before `others` are the match (rule S6).

    Raises:
        SkipError: AFTER MATCH SKIP leads nowhere (S3).
        BudgetError: A start has too many threads.
        ValueError: A row is older than the time reached, or fed after `finish`.

    After an error the matcher must no longer be used.

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
            raise ValueError("within needs time, a function that returns the time of a row")
        self._options = (program, holds, depends_on_path, skip, within, time, timed_out, absent)
        self._timed_out, self._absent = timed_out, absent
        self._machine = Machine(program, holds, depends_on_path)
        self._skip, self._within, self._time = skip, within, time
        self._begin()

    def _begin(self) -> None:
        """A partition without rows."""
        self._rows: dict[int, InputRow[Row]] = {}
        self._tracks: dict[int, dict[Threads[Row], Track[Row]]] = {}
        self._first: Track[Row] | None = None
        self._start = self._count = self._matches = 0
        self._now: int | None = None
        self._finished = False

    @property
    def start(self) -> int:
        """The index of the row that is searched as a start; later matches have no row before it."""
        return self._start

    @property
    def match_number(self) -> int:
        """MATCH_NUMBER() of the next match, for conditions that read it (with depends_on_path=True)."""
        return self._matches + 1

    def resume(self, index: int, matches: int) -> None:
        """Sets, before the first row, the row's index and the number of matches already reported of its partition."""
        if self._count:
            raise ValueError("rows have been fed already")
        self._start = self._count = index
        self._matches = matches

    def feed(self, row: Row) -> list[PatternMatch]:
        """Adds the next row of the partition; returns the matches that it decides."""
        if self._finished:
            raise ValueError("the partition is finished")
        ts = 0
        if self._time is not None:
            self._advance_to(ts := self._time(row))
        self._rows[self._count] = InputRow(self._count, row, ts)
        self._count += 1
        return self._decide()

    def advance_time(self, ts: int) -> list[PatternMatch]:
        """Says that no row older than `ts` will come; returns the matches that this decides."""
        self._advance_to(max(ts, ts if self._now is None else self._now))
        return self._decide()

    def finish(self) -> list[PatternMatch]:
        """Ends the rows; returns the remaining matches."""
        self._finished = True
        return self._decide()

    def _advance_to(self, ts: int) -> None:
        if self._now is not None and ts < self._now:
            raise ValueError(f"a row of time {ts} comes after time {self._now}")
        self._now = ts

    def _decide(self) -> list[PatternMatch]:
        matches: list[PatternMatch] = []
        while self._start < self._count:
            first = self._first = self._first or Track(self._machine.begin(self._start), self._start)
            track, best = self._run(first)
            if not self._is_decided(track):
                break
            if self._absent is not None:
                self._report_absence(first, track, best, matches)
            elif self._timed_out and best is None and self._is_partial(track):
                matches.append(PatternMatch(0, self._start, self._memberships(first, track, 0)))
                self._continue(self._start + 1)
            else:
                self._report(first, *self._outcome(track, best), matches)
        return matches

    def _is_partial(self, track: Track[Row]) -> bool:
        """Whether time alone ends the start."""
        return not self._finished and bool(track.threads) and track.position > self._start

    def _report_absence(
        self, first: Track[Row], track: Track[Row], best: Track[Row] | None, matches: list[PatternMatch]
    ) -> None:
        assert self._absent is not None
        after = self._start + 1
        place = self._waiting_for_absent(track) if best is None and self._is_partial(track) else None
        if place is not None:
            rows = self._memberships(first, track, place)
            taken = tuple(row for row in rows if row.symbol != self._absent[0])
            self._matches += 1
            match = PatternMatch(self._matches, self._start, taken)
            after = search_on(self._skip, match)
            matches.append(match)
        self._continue(after)

    def _waiting_for_absent(self, track: Track[Row]) -> int | None:
        """The place of the preferred thread that waits for one of the absent symbols."""
        for place, (number, _) in enumerate(track.threads):
            line = self._machine.code[number]
            if isinstance(line, MatchSymbol) and line.name in (self._absent or ()):
                return place
        return None

    def _run(self, first: Track[Row]) -> tuple[Track[Row], Track[Row] | None]:
        """Searches a start as far as the rows go; returns its last track, and the last track that has a match."""
        machine, deadline = self._machine, self._deadline()
        track, best = first, None
        while True:
            track, passed = track.last_known()
            best = passed or best
            if machine.has_match(track.threads):
                best = track
            input_row = self._rows.get(track.position)
            if input_row is None or machine.is_settled(track.threads):
                return track, best
            if deadline is not None and input_row.ts >= deadline:
                return track, best
            track = self._step(track, input_row)

    def _step(self, track: Track[Row], input_row: InputRow[Row]) -> Track[Row]:
        threads, parents = self._machine.move(track.threads, input_row)
        tracks = self._tracks.setdefault(track.position, {})
        after = tracks.get(threads)
        if after is None:
            after = tracks[threads] = Track(threads, track.position + 1)
        track.set_after(after, parents, self._machine.has_match(track.threads))
        return after

    def _deadline(self) -> int | None:
        return None if self._within is None else self._rows[self._start].ts + self._within

    def _is_decided(self, track: Track[Row]) -> bool:
        if self._finished or track.position < self._count or self._machine.is_settled(track.threads):
            return True
        deadline = self._deadline()
        if deadline is None or self._now is None or self._now < deadline:
            return False
        return self._machine.is_settled(self._machine.without_rows(track.threads))

    def _outcome(self, track: Track[Row], best: Track[Row] | None) -> tuple[Track[Row] | None, int]:
        """The track that ends with the preferred match, and the place of its thread."""
        if self._finished and track.position == self._count:
            place = self._machine.at_end(track.threads)
            if place is not None:
                return track, place
        return best, -1

    def _report(self, first: Track[Row], last: Track[Row] | None, place: int, matches: list[PatternMatch]) -> None:
        after = self._start + 1
        if last is not None:
            self._matches += 1
            match = PatternMatch(self._matches, self._start, self._memberships(first, last, place))
            after = search_on(self._skip, match)
            matches.append(match)
        self._continue(after)

    def _continue(self, after: int) -> None:
        """Moves to the next start, and drops the rows before it."""
        for index in range(self._start, min(after, self._count)):
            del self._rows[index]
            self._tracks.pop(index, None)
        self._start, self._first = after, None

    def _memberships(self, first: Track[Row], last: Track[Row], place: int) -> tuple[Membership, ...]:
        memberships = []
        for track in reversed(first.until(last)):
            place = track.parents[place]
            line = self._machine.code[track.threads[place][0]]
            assert isinstance(line, MatchSymbol)
            memberships.append(Membership(line.name, track.position, line.excluded))
        return tuple(reversed(memberships))

    def __getstate__(self) -> dict[str, Any]:
        # The tracks are computed again from the retained rows when needed.
        names = ("_options", "_start", "_count", "_matches", "_now", "_finished")
        rows = [(input_row.row, input_row.ts) for input_row in self._rows.values()]
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
        self._rows = {first + place: InputRow(first + place, *row) for place, row in enumerate(rows)}


def for_another_partition(matcher: Matcher[Row]) -> Matcher[Row]:
    """A matcher of the same program and conditions without rows. Both share the moves that they have computed."""
    other: Matcher[Row] = object.__new__(Matcher)
    vars(other).update(vars(matcher))
    other._begin()
    return other


def find_all(
    pattern: str | Pattern | Program,
    rows: Iterable[Row],
    holds: Holds[Row],
    *,
    depends_on_path: bool = False,
    skip: Skip = past_last_row,
    within: int | None = None,
    time: Callable[[Row], int] | None = None,
) -> list[PatternMatch]:
    """All matches in bounded data; the pattern may be a text, a tree or a program, the other arguments are those of `Matcher`.

    >>> [match.memberships for match in find_all("A B?", "ab a", lambda symbol, row, path: row == symbol.lower())]
    [(Membership(symbol='A', row=0, excluded=False), Membership(symbol='B', row=1, excluded=False)), \
(Membership(symbol='A', row=3, excluded=False),)]
    """
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    program = tree if isinstance(tree, Program) else compile_program(tree)
    matcher = Matcher(program, holds, depends_on_path=depends_on_path, skip=skip, within=within, time=time)
    matches = [match for row in rows for match in matcher.feed(row)]
    return matches + matcher.finish()
