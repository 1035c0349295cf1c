"""A program carried out by a bridge that nobody disturbs, or by processes that end again and again, and what both give.

The steps: ("push", events), ("event", event, id), ("time", ts), ("purge",), ("due",), ("ask", SQL), ("create", declared),
("remove", name), ("replace", declared), ("resume", name). ("restart", how) and ("crash", calls, repeats, step) disturb: the
process ends between two steps, or with so many calls of the database in a step, and the step is done again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import bridge
from bridge.engine.session import session_of
from bridge.errors import BridgeError
from bridge.rewrite.settings import Settings
from tests.support.crashes import Crash, crash_after, die
from tests.support.programs import CALLS, RELATIONS, STREAMS, Declared, Program, Step

NAMED = "p"
"""The name of named processors."""


class Refusal(str):
    """What a step that was refused gives; two of them are alike, as several queries may refuse one push."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal)

    __hash__ = str.__hash__


class Life:
    """A bridge and what it has given: the `outcomes` of definitions and steps, and what its queries have `told`.

    `disturbed`: it keeps its state, and its process ends where the program says so. `keeps`: its results are kept in tables
    and for named processors where the program says so; else all have processors without a name.
    """

    def __init__(self, url: str, program: Program, disturbed: bool, settings: Settings, keeps: bool = True) -> None:
        self.url, self.program, self.disturbed, self.settings, self.keeps = url, program, disturbed, settings, keeps
        self.told: dict[str, list[Any]] = {}
        self.ids: dict[str, dict[str, Any]] = {}
        """What named processors have received, by the ids of results."""
        self.outcomes: list[Any] = []
        self.late: list[Any] = []
        self.declared: dict[str, Declared] = {}
        self.tables: set[str] = set()
        """The tables of results."""
        self.number = 0
        self.cep: Any = None
        self.heard: set[str] = set()
        """The queries whose results this process collects."""

    def run(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.open()
            try:
                self._run()
            except BaseException:
                with contextlib.suppress(Exception):
                    self.cep.close()
                raise
            if self.disturbed:
                self.cep.drop()
            else:
                self.cep.close()

    def _run(self) -> None:
        for text in RELATIONS:
            self.cep.database.execute(text)
        self.streams()
        for one in self.program.first:
            self.outcomes.append(self.attempt(self.create, one))
        for place, step in enumerate(self.program.steps):
            self.number = place
            self.outcomes.append(self.step(step))
        if self.program.is_timed:  # a push that is repeated after a crash may be a duplicate
            late = self.cep.database.fetch("SELECT stream, payload, ts, kind FROM late_events")
            self.late = sorted((row for row in late if row[3] != "duplicate"), key=repr)
        self.read_tables()

    def read_tables(self) -> None:
        for table in sorted(self.tables):
            rows = self.cep.database.fetch(f"SELECT * FROM {table}")
            self.told[table] = sorted(rows, key=lambda row: (row[1], *map(int, row[0].split("/")[-2:]), repr(row)))
            self.cep.database.execute(f"DROP TABLE {table}")
        for table in ("t", "kept", "r1"):
            if self.cep.database.relation(table) is not None:
                self.told[f"table {table}"] = sorted(self.cep.database.fetch(f"SELECT * FROM {table}"), key=repr)
                self.cep.database.execute(f"DROP TABLE {table}")

    # The bridge -------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.cep = bridge.connect(self.url, durable=self.disturbed, lateness=self.program.lateness)
        session_of(self.cep).settings = self.settings
        self.heard = set()

    def streams(self) -> None:
        rules = {"idle_after": self.program.idle_after, "max_ahead": self.program.max_ahead}
        for name, schema in {**STREAMS, "calls": CALLS}.items():
            self.cep.register_stream(name, schema, **(rules if name in "SA" else {}))

    def create(self, one: Declared, replace: bool = False) -> None:
        into = f"of_{one.name}" if one.kept == "table" and self.keeps else None
        self.cep.create_query(
            one.name, one.text, language=one.language, into=into, on_error=one.on_error, replace=replace
        )
        if into is not None:
            self.tables.add(into)
        self.declared[one.name.lower()] = one
        self.listen(one)

    def listen(self, one: Declared) -> None:
        if one.kept == "silent" or (self.keeps and one.kept == "table"):
            return
        for output in (each for each in one.outputs if each in self.cep.queries and each not in self.heard):
            self.heard.add(output)
            if self.keeps and one.kept == "named":
                self.cep.add_output_processor(output, self.receiver(output), name=NAMED)
            else:
                self.cep.add_output_processor(output, self.collector(output))

    def collector(self, output: str) -> Callable[[Any], None]:
        rows = self.told.setdefault(output, [])
        return lambda event: rows.append((event.timestamp, tuple(event.payload.values())))

    def receiver(self, output: str) -> Callable[[Any], None]:
        known = self.ids.setdefault(output, {})

        def receive(result: Any) -> None:
            row = (result.timestamp, tuple(result.payload.values()))
            assert known.setdefault(result.id, row) == row, f"{result.id} is {known[result.id]} and {row}"

        return receive

    # Steps ------------------------------------------------------------------------------------------------------------

    def step(self, step: Step) -> Any:
        kind, *arguments = step
        if kind == "restart":
            return self.restart(*arguments) if self.disturbed else None
        if kind == "crash":
            calls, repeats, inner = arguments
            return self.crash(calls, repeats, inner) if self.disturbed else self.step(inner)
        return self.attempt(getattr(self, kind), *arguments)

    def attempt(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except BridgeError as error:
            return Refusal(f"{type(error).__name__}: {error}")

    def restart(self, how: str) -> None:
        """The process ends and another one begins, which declares its queries again unless it is "silent"."""
        if how == "close":
            self.cep.close()
        else:
            die(self.cep)
        self.begin(how != "silent")

    def begin(self, declares: bool) -> None:
        self.open()
        if declares:
            self.streams()
        for one in list(self.declared.values()):
            if declares:
                self.create(one)
            else:
                self.listen(one)

    def crash(self, calls: int, repeats: bool, step: Step) -> Any:
        """The process ends with so many calls of the database; `repeats`: the next one, too, with more calls."""
        cep = self.cep
        left = crash_after(cep, calls)
        try:
            return self.step(step)
        except Crash:
            left[0] = 10**9
            die(cep)
            self.begin(declares=False)
            return self.crash(calls * 2 + 1, repeats, step) if repeats and calls < 200 else self.step(step)
        finally:
            left[0] = 10**9

    def push(self, events: Any) -> None:
        given = {"source": "feed", "position": self.number} if self.disturbed else {}
        self.cep.push_all(list(events), **given)

    def event(self, event: Any, event_id: str) -> None:
        self.cep.push_event(*event, event_id=event_id)

    def time(self, ts: int) -> None:
        self.cep.advance_time(ts)

    def purge(self) -> None:
        self.cep.purge()

    def due(self) -> Any:
        return self.cep.next_deadline()

    def ask(self, sql: str) -> Any:
        return sorted(map(tuple, self.cep.query(sql)), key=repr)

    def replace(self, one: Declared) -> None:
        self.create(one, replace=True)

    def remove(self, name: str) -> None:
        if name.lower() in map(str.lower, [*self.cep.queries, *self.cep._catalogue.scripts]):
            self.cep.remove_query(name)
        elif name.lower() in self.declared and not self.declared[name.lower()].outputs:
            return  # a variable, a table or the like stays
        self.declared.pop(name.lower(), None)
        self.heard &= set(self.cep.queries)

    def resume(self, name: str) -> None:
        self.cep.resume_query(name)


# Comparing ------------------------------------------------------------------------------------------------------------


def difference(
    program: Program, url: Callable[[], str], memory: Callable[[], str], settings: Settings, keeps: bool
) -> str:
    """What processes that end give otherwise than a bridge that nobody disturbs; "" where both give the same."""
    plain = Life(memory(), program, False, settings, keeps)
    plain.run()
    disturbed = Life(url(), program, True, settings)
    try:
        disturbed.run()
    except Exception as error:
        return f"step {disturbed.number}: {type(error).__name__}: {error}"
    return _of_outcomes(program, plain, disturbed) or _of_results(program, plain, disturbed)


def _of_outcomes(program: Program, plain: Life, disturbed: Life) -> str:
    given = [*program.first, *program.steps]
    for one, left, right in zip(given, plain.outcomes, disturbed.outcomes, strict=True):
        is_asked = isinstance(one, tuple) and one[0] == "ask"
        if is_asked and (plain.tables != disturbed.tables or isinstance(right, Refusal)):
            continue  # what a table of results has may not be kept otherwise
        if not alike(left, right):
            return f"outcome of {one}:\n  {left}\n  {right}"
    return ""


def _of_results(program: Program, plain: Life, disturbed: Life) -> str:
    unnamed = {output for one in program.first if not one.kept for output in one.outputs}
    found = rows_of(disturbed)
    for name, rows in rows_of(plain).items():
        if name in unnamed and program.has_crashes:
            continue  # results that are in may not have been delivered
        others = found.get(name, [])
        if not alike(rows, others) and not alike(sorted(rows, key=repr), others):
            return f"{name} has {len(rows)} rows, disturbed {len(others)}: {first_difference(rows, others)}"
    for name in plain.tables & disturbed.tables:
        if not alike(plain.told[name], disturbed.told[name]):
            return f"{name}: {first_difference(plain.told[name], disturbed.told[name])}"
    for name, known in plain.ids.items():
        if list(known) != (received := list(disturbed.ids.get(name, {}))):
            return f"ids of {name}: {first_difference(list(known), received)}"
    return "" if plain.late == disturbed.late else f"late: {first_difference(plain.late, disturbed.late)}"


def rows_of(life: Life) -> dict[str, list[Any]]:
    """Times and values of the results of each query; those that came in several ways are sorted."""
    found: dict[str, list[list[Any]]] = {}
    for name, rows in life.told.items():
        if name in life.tables:
            found.setdefault(name.removeprefix("of_"), []).append([(row[1], tuple(row[2:])) for row in rows])
        else:
            found.setdefault(name, []).append(list(rows))
    for name, known in life.ids.items():
        found.setdefault(name, []).append(list(known.values()))
    return {
        name: ways[0] if len(ways) == 1 else sorted(itertools.chain(*ways), key=repr) for name, ways in found.items()
    }


def first_difference(one: Sequence[Any], other: Sequence[Any]) -> str:
    """The first place at which two lists differ, and what each has there."""
    places = (place for place, pair in enumerate(zip(one, other, strict=False)) if not alike(*pair))
    place = next(places, min(len(one), len(other)))
    return f"at {place}\n  {one[place : place + 1]}\n  {other[place : place + 1]}"


def alike(one: Any, other: Any) -> bool:
    """Equal; a DOUBLE may differ in its last digits."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


# Making a failing program small ---------------------------------------------------------------------------------------


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 60) -> Program:
    """A small program that still fails."""
    end = time.monotonic() + seconds
    before = None
    while program != before and time.monotonic() < end:
        before = program
        for field in ("first", "steps"):
            program = _without_items(program, field, fails, end)
        for smaller in _simpler(program):
            if time.monotonic() > end:
                break
            if fails(smaller):
                program = smaller
                break
    return program


def _without_items(program: Program, field: str, fails: Callable[[Program], bool], end: float) -> Program:
    """The program without the definitions or steps that can be left out, many at a time at first."""
    size = max(1, len(getattr(program, field)) // 2)
    while size:
        at = 0
        while at < len(items := getattr(program, field)) and time.monotonic() < end:
            fewer = dataclasses.replace(program, **{field: items[:at] + items[at + size :]})
            if fails(fewer):
                program = fewer
            else:
                at += size
        size //= 2
    return program


def _simpler(program: Program) -> Iterator[Program]:
    """Programs with a simpler step or definition, or without a rule for times."""
    for place, step in enumerate(program.steps):
        for several in _simpler_steps(step):
            steps = (*program.steps[:place], *several, *program.steps[place + 1 :])
            yield dataclasses.replace(program, steps=steps)
    for place, one in enumerate(program.first):
        for change in ({"kept": ""}, {"on_error": "refuse"}):
            if (simpler := dataclasses.replace(one, **change)) != one:
                yield dataclasses.replace(program, first=(*program.first[:place], simpler, *program.first[place + 1 :]))
    for change in ({"lateness": 0}, {"idle_after": None}, {"max_ahead": None}):
        if (plainer := dataclasses.replace(program, **change)) != program:  # type: ignore[arg-type]
            yield plainer


def _simpler_steps(step: Step) -> Iterator[tuple[Step, ...]]:
    if step[0] == "crash":
        yield (step[3],)
        yield ("restart", "drop"), step[3]
    inner = step[3] if step[0] == "crash" else step
    events = inner[1] if inner[0] == "push" else ()
    size = len(events) // 2
    while size:
        for start in range(0, len(events), size):
            less = ("push", events[:start] + events[start + size :])
            yield ((*step[:3], less) if step[0] == "crash" else less,)
        size //= 2
