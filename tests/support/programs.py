"""Random programs: queries of all languages beside each other, events, and what else is done to a bridge meanwhile.

A program is the same for a bridge that nobody disturbs and for one whose process ends again and again (`lives`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from random import Random
from typing import Any

from bridge import query as q
from bridge.errors import BridgeError
from tests.random import test_random_cpl as cpl
from tests.random import test_random_epl_on_set as on_set
from tests.random import test_random_epl_tables as epl_tables
from tests.support import epl_histories, epl_outputs
from tests.support.generate import Case, Maker, Source, is_left_open
from tests.support.reference import AmbiguousError, LimitError
from tests.support.row_pattern_generate import COLUMNS, generate

ROW_LIMIT = 400
STREAMS = {
    **dict.fromkeys("SAB", "id VARCHAR, v INTEGER, k VARCHAR"),
    "E": ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()),
    "N": "n BIGINT",
}
CALLS = "k VARCHAR, v BIGINT"
RELATION = {"r1": ("k INTEGER, w INTEGER, v VARCHAR", ((0, 1, "x"), (1, None, "y"), (2, 3, None), (4, 2, "x")))}
RELATIONS = (
    "CREATE TABLE r1 (k INTEGER, w INTEGER, v VARCHAR(20))",
    "INSERT INTO r1 VALUES (0, 1, 'x'), (1, NULL, 'y'), (2, 3, NULL), (4, 2, 'x')",
    "CREATE TABLE t (k VARCHAR(20), n BIGINT)",
    "INSERT INTO t VALUES ('ann', 1), ('bob', 2), ('bob', 5)",
)
"""What the scripts of CPL read and write."""

Event = tuple[str, tuple[Any, ...], int]
Step = tuple[Any, ...]
"""What is done: its kind, and its arguments; see `lives`."""


@dataclasses.dataclass(frozen=True)
class Declared:
    """A definition: a call of `create_query`. `outputs`: the queries whose results are looked at."""

    name: str
    language: str
    text: Any
    outputs: tuple[str, ...] = ()
    kept: str = ""
    on_error: str = "refuse"

    def __str__(self) -> str:
        return f"{self.name} [{self.language} {self.kept} {self.on_error}] {self.text}"


@dataclasses.dataclass(frozen=True)
class Program:
    """Definitions that are made first, other ones that may follow, and the steps."""

    first: tuple[Declared, ...]
    steps: tuple[Step, ...]
    lateness: int = 0
    idle_after: int | None = None
    max_ahead: int | None = None

    @property
    def is_timed(self) -> bool:
        """Whether events may come out of order."""
        return bool(self.lateness or self.idle_after or self.max_ahead)

    @property
    def has_crashes(self) -> bool:
        """Whether a process ends within a step."""
        return any(step[0] == "crash" for step in self.steps)

    def __str__(self) -> str:
        head = f"lateness={self.lateness} idle_after={self.idle_after} max_ahead={self.max_ahead}"
        return "\n".join([head, *map(str, self.first), *(f"  {step}" for step in self.steps)])


# Queries --------------------------------------------------------------------------------------------------------------


class Trees(Maker):
    """Trees of all operators over the streams S, A and B."""

    def streams(self) -> None:
        self.schemas = dict.fromkeys("SAB", STREAMS["S"])
        columns = (("id", "VARCHAR"), ("v", "INTEGER"), ("k", "VARCHAR"))
        self.sources = [Source(q.Stream(name), columns) for name in "SAB"]

    def value(self, kind: str) -> Any:
        return self.rng.choice(["x", "y", "E1", "E2"]) if kind == "VARCHAR" else super().value(kind)

    def relation(self) -> str:
        self.relations = RELATION
        return "r1"


def trees(chance: Random, events: Sequence[Event], prefix: str) -> list[Declared]:
    """Some queries of which later ones may read those before."""
    queries: dict[str, q.Node] = {}
    own = tuple(event for event in events if event[0] in "SAB")
    for number in range(chance.choice((1, 1, 2, 3))):
        for _ in range(200):
            maker = Trees(Random(chance.random()))
            maker.streams()
            name = f"{prefix}{number}"
            try:
                more = {**queries, name: maker.query(name)}
            except (BridgeError, IndexError):
                continue
            case = Case(maker.schemas, more, own, RELATION)
            try:
                if is_left_open(case) or not case.expected(ROW_LIMIT)[name]:
                    continue
            except (AmbiguousError, LimitError):
                continue
            queries = more
            break
    return [Declared(name, "sql", node, (name,)) for name, node in queries.items()]


def row_pattern(chance: Random, prefix: str) -> list[Declared]:
    example = generate(chance.randrange(10**6))
    clause = dataclasses.replace(example.clause, order_by=())
    return [Declared(prefix, "sql", q.MatchRecognize(q.Stream("E"), clause), (prefix,))]


def overflow(chance: Random, prefix: str) -> list[Declared]:
    """What fails for great numbers."""
    window = chance.choice(("ROWS 3", "RANGE 5 MS", "UNBOUNDED", "RANGE 6 MS SLIDE 3 MS"))
    text = chance.choice((f"SELECT SUM(n) AS t, COUNT(*) AS c FROM N WINDOW({window})", "SELECT ABS(n) AS a FROM N"))
    return [Declared(prefix, "sql", text, (prefix,), "", chance.choice(("refuse", "skip", "stop")))]


def epl(chance: Random, prefix: str, number: int) -> list[Declared]:
    asked = epl_histories.asked(chance) if chance.random() < 0.5 else epl_histories.Asked(epl_outputs.statement(chance))
    asked = asked.numbered(number)
    first = [Declared(f"{prefix}_{place}", "epl", text) for place, text in enumerate(asked.first)]
    return [*first, Declared(prefix, "epl", asked.text, (prefix,))]


def state(chance: Random, prefix: str) -> list[Declared]:
    """Variables, tables and named windows that events change, and a statement that reads them."""
    kind = chance.randrange(3)
    if kind == 0:
        setters = chance.sample(list(on_set.SETTERS), chance.randint(1, 3))
        texts = [*on_set.CREATED, "on S set most = v, n = v", *setters, chance.choice(list(on_set.READERS))]
    elif kind == 1:
        statements, place = epl_tables.generate(chance)
        texts = [epl_tables.TABLE, *(one.text for at, one in enumerate(statements) if at != place)]
        texts.append(statements[place].text)
    else:
        texts = [*epl_tables.WINDOW, *epl_tables.changes(chance), chance.choice(epl_tables.READERS)]
    made = [Declared(f"{prefix}_{place}", "epl", text) for place, text in enumerate(texts[:-1])]
    return [*made, Declared(prefix, "epl", texts[-1], (prefix,))]


def script(chance: Random, prefix: str) -> list[Declared]:
    made = cpl.script_of(chance)
    text = re.sub(r"\b(FROM|STREAMSCHEMA) s\b", r"\1 calls", made.text)
    return [Declared(prefix, "cpl", text, tuple(out for _, _, out in made.steps))]


def queries(chance: Random, events: Sequence[Event]) -> list[list[Declared]]:
    """Queries with what they need, each list to be declared in its order."""
    found: list[list[Declared]] = []
    for number in range(chance.choice((2, 3, 3, 4, 5))):
        kind, prefix = chance.randrange(12), f"q{number}"
        if kind < 4:
            found.append(trees(chance, events, f"{prefix}x"))
        elif kind == 4:
            found.append(row_pattern(chance, prefix))
        elif kind < 9:
            found.append(epl(chance, prefix, 10 + number))
        elif kind == 9 and not any(one.name.startswith("state") for several in found for one in several):
            found.append(state(chance, "state"))
        elif kind == 10 and not any(one.language == "cpl" for several in found for one in several):
            found.append(script(chance, "script"))
        else:
            found.append(overflow(chance, prefix))
    return found


# Events ---------------------------------------------------------------------------------------------------------------


def history(chance: Random, count: int) -> list[Event]:
    ts, found = chance.choice((-7, 0, 0, 1, 1000)), []
    for number in range(count):
        ts += chance.choice((0, 0, 1, 1, 2, 5))
        stream = chance.choice("SSAABBEENC")
        if stream == "E":
            x, k = chance.choice((None, 0, 1, 1, 2, 2, 3, 4)), chance.choice((None, "a", "a", "b", "b", "c", "ab"))
            values: tuple[Any, ...] = (chance.choice((1, 2, None)), ts, number, x, chance.randint(0, 4), k)
        elif stream == "N":
            values = (chance.choice((1, 2, 2**40, 2**62, -(2**63))) if chance.random() < 0.5 else 1,)
        elif stream == "C":
            stream, values = "calls", (chance.choice([*cpl.KEYS, "joe", None]), chance.randint(0, 9))
        else:
            values = (f"E{number}", chance.randint(1, 4), chance.choice(("x", "y", None)))
        found.append((stream, values, ts))
    return found


# Programs -------------------------------------------------------------------------------------------------------------


def program(seed: int, most: int = 300) -> Program:
    """The program of this seed, with at most so many events."""
    chance = Random(f"program/{seed}")
    events = history(chance, min(most, chance.choice((30, 60, 60, 120, 300))))
    groups = queries(chance, events)
    if any("pattern [" in str(one.text) for group in groups for one in group):
        events = events[:40]  # their instances may double with each event
    timed = chance.random() < 0.15
    crashes = chance.random() < 0.4
    keeps = ("silent", "table", "named") if crashes else ("silent", "", "", "table", "table", "named", "named")
    groups = [[dataclasses.replace(one, kept=chance.choice(_ways(one, keeps))) for one in group] for group in groups]
    ahead = 100_000 if timed and chance.random() < 0.5 else None
    late = (0,) if not timed else (0, 0, 0, -2, -6, 3) if ahead is None else (0, 0, 0, -2, -6, 3, 10**7)
    steps = _Steps(chance, groups, crashes, late).steps(events)
    first = tuple(one for group in groups for one in group)
    if timed:
        return Program(first, steps, chance.choice((0, 3)), chance.choice((None, 4)), ahead)
    return Program(first, steps)


COMPUTED = {
    "sql": (
        "SELECT id, v FROM S WHERE v > 1",
        "SELECT k, AVG(v) AS mean, COUNT(*) AS n FROM S WINDOW(RANGE 9 MS) GROUP BY k",
        "SELECT SUM(v) AS total, MIN(id) AS first FROM S WINDOW(ROWS 3)",
        "SELECT k, SUM(v) AS total, MAX(v) AS top FROM S WINDOW(UNBOUNDED) GROUP BY k",
        "SELECT COUNT(*) AS n, MAX(v) AS top FROM S WINDOW(RANGE 6 MS SLIDE 6 MS)",
        "SELECT k, COUNT(*) AS n FROM A WINDOW(PARTITION BY k SESSION 5 MS) GROUP BY k",
        "SELECT x.id AS x, y.id AS y FROM S WINDOW(RANGE 8 MS) AS x JOIN A WINDOW(RANGE 8 MS) AS y ON x.k = y.k",
        "SELECT z FROM A MATCHING(PATTERN ab WITHIN 12 MS MEASURES z:Integer DEFINE a AS v > 2 DO z = v, b AS v < z)",
        "SELECT m.x, m.y FROM A MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES P.id AS x, LAST(Q.id) AS y "
        "PATTERN (P Q+) WITHIN INTERVAL '20' MILLISECOND DEFINE Q AS Q.v > PREV(Q.v)) AS m",
    ),
    "epl": (
        "select irstream k, sum(v) as total from S#length(4) group by k",
        "select rstream id, v from S#time(7 msec)",
        "select id, v - prev(1, v) as step, prior(2, v) as third from S#length(5)",
        "select k, min(v) as low from S#time(9 msec) group by k having count(*) > 1",
        "select id, (select max(v) from A#length(3)) as top from S",
        "select k, v from S#unique(k) having sum(v) > 3",
        "select k, sum(v) as total from A#groupwin(k)#length(2) group by k",
        "select k, count(*) as n from A#keepall group by k output last every 8 msec",
        "select x.id as x, y.id as y from pattern [every x=S(v = 1) -> y=A(k = x.k) where timer:within(15 msec)]",
        "select x.id as x from pattern [every x=A(v = 2) -> (timer:interval(6 msec) and not S(k = x.k))]",
    ),
}
"""Queries whose results for single events are computed in the process, or found by a machine in memory."""

SETTING = (
    ("on S(v > 1) set most = v", "select id, most from A(v >= most)"),
    (
        "on A set n = n + most, most = v",
        "select k, count(*) as c, sum(v) as total from A(v >= most)#length(4) group by k",
    ),
    (
        "on S(v > most) set most = most + 1",
        "on A(k = 'x') set n = n - 1, most = 0",
        "select id, n from S where v < most",
    ),
    ("on S as x set most = x.v", "select x.id as x, y.id as y from pattern [every x=S(v > most) -> y=A(v >= most)]"),
)
"""Statements that set variables, and one that reads them."""


def computed_program(seed: int, most: int) -> Program:
    """A program of such queries whose process ends less often, so that a journal becomes longer."""
    chance = Random(f"computed/{seed}")
    events = [event for event in history(chance, most) if event[0] in "SA"]
    texts = [(language, text) for language, several in COMPUTED.items() for text in several]
    chosen = chance.sample(texts, chance.choice((1, 1, 1, 2, 3)))
    way = chance.choice(("", "", "named", "table"))
    groups = [
        [Declared(f"q{place}", language, text, (f"q{place}",), chance.choice(("", way)))]
        for place, (language, text) in enumerate(chosen)
    ]
    if chance.random() < 0.4:
        *setters, reader = chance.choice(SETTING)
        created = [*on_set.CREATED, "on S(v = 99) set most = v, n = v", *setters]
        made = [Declared(f"set_{place}", "epl", text) for place, text in enumerate(created)]
        groups.append([*made, Declared("set", "epl", reader, ("set",), chance.choice(("", way)))])
    crashes = chance.random() < 0.4
    steps = _Steps(chance, groups, crashes, (0,), pace=(0.03, 0.08), sizes=(*[1] * 20, 2, 9))
    return Program(tuple(one for group in groups for one in group), steps.steps(events))


def _ways(one: Declared, ways: Sequence[str]) -> list[str]:
    """The ways in which its results are kept: a script has no table of them, and BIGINT is less than what a sum may be."""
    if not one.outputs or "SUM(n)" in str(one.text):
        return [""]
    return [way for way in ways if way != "table" or one.language != "cpl"]


class _Steps:
    def __init__(
        self,
        chance: Random,
        groups: list[list[Declared]],
        crashes: bool,
        late: tuple[int, ...],
        pace: tuple[float, ...] = (0.15, 0.4),
        sizes: tuple[int, ...] = (1, 1, 1, 1, 2, 3, 5, 20, 200),
    ) -> None:
        self.chance, self.groups, self.crashes, self.late = chance, groups, crashes, late
        self.pace, self.sizes = pace, sizes
        self.ids: list[str] = []

    def steps(self, events: list[Event]) -> tuple[Step, ...]:
        found: list[Step] = []
        rest, chance = list(events), self.chance
        pace = chance.choice(self.pace)
        while rest:
            size = chance.choice(self.sizes)
            if chance.random() < 0.02:
                size = 200
            found.append(self._crashing(self._push(rest[:size])))
            rest = rest[size:]
            if chance.random() < pace:
                found.append(self._crashing(self._other(events[len(events) - len(rest) - 1][2], rest)))
            if chance.random() < pace:
                found.append(("restart", chance.choice(("close", "drop", "drop", "silent"))))
        end = events[-1][2]
        for ts in (end + 2, end + 30):
            found += [("time", ts), ("restart", chance.choice(("close", "drop")))]
        outputs = [out for group in self.groups for one in group for out in one.outputs]
        return (*found, *(("ask", f"SELECT * FROM {out}") for out in outputs))

    def _push(self, events: list[Event]) -> Step:
        if len(events) == 1 and self.chance.random() < 0.2:
            self.ids.append(f"id {len(self.ids)}")
            return ("event", events[0], self.chance.choice((self.ids[-1], self.ids[-1], self.ids[0])))
        events = [
            (stream, values, ts + self.chance.choice(self.late[: None if stream in "SA" else 6]))
            for stream, values, ts in events
        ]
        return ("push", tuple(events))

    def _other(self, ts: int, rest: list[Event]) -> Step:
        chance = self.chance
        group = chance.choice(self.groups)
        one = chance.choice(group)
        kind = chance.randrange(10)
        if kind < 2:
            soon = rest[0][2] if rest else ts + 5
            return ("time", chance.randint(ts, max(ts, soon)))
        if kind == 2:
            return ("purge",)
        if kind == 3:
            return ("due",)
        if kind == 4 and one.outputs:
            return ("ask", f"SELECT * FROM {chance.choice(one.outputs)}")
        if kind == 5:
            return ("remove", one.name)
        if kind == 6:
            return ("create", one)
        if kind == 7 and one.outputs and one.language != "cpl":
            return ("replace", self._variant(one))
        if kind == 8:
            return ("resume", one.name)
        return ("time", ts)

    def _variant(self, one: Declared) -> Declared:
        """The query with other constants, or another one under its name."""
        if self.chance.random() < 0.3 and one.kept != "table":  # which has the columns of the query before
            others = [each for group in self.groups for each in group if each.outputs and each.language == one.language]
            other = self.chance.choice(others)
            return dataclasses.replace(one, text=other.text)
        text = str(one.text)
        numbers = list(re.finditer(r"(?<![\w.])[2-9]\b", text))
        if numbers and not isinstance(one.text, str):
            try:
                from bridge.frontends.sql.statements import parse

                parse(text)
            except BridgeError:
                return one
        if not numbers:
            return one
        at = self.chance.choice(numbers)
        return dataclasses.replace(one, text=f"{text[: at.start()]}{int(at[0]) + 1}{text[at.end() :]}")

    def _crashing(self, step: Step) -> Step:
        if self.crashes and self.chance.random() < max(self.pace) and step[0] not in ("ask", "due"):
            return ("crash", self.chance.randrange(60), self.chance.random() < 0.5, step)
        return step
