"""Flink SQL as a witness: it has to give what the bridge gives on DuckDB and on SQLite.

    python -m tests.oracles.flink --flink-python /path/to/python --seeds 0:200

Asked is what Flink does as the standard has it. Its automaton never gives back a row that it has taken, so there is
only ever one way to match: either every quantifier is exact, or no row can be both what a loop takes and what may come
after it. AFTER MATCH is always written (Flink's default is another). Not asked is what Flink refuses (alternatives,
groups, PREV, CLASSIFIER, RUNNING, ALL ROWS, a greedy end, B* after a greedy loop) or answers its own way (an optional
end, ^, $, SUBSET).

generate(7)                     a question: a clause over many small inputs, told apart by the column g
from_flink(python, questions)   its answers, by flink_answers.py in that Python; a text where Flink refuses
from_bridge(url, questions)     the bridge's
from_definition(question)       those of tests/row_patterns.py, to tell who is right
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from tests.oracles.tally import Tally

Rows = list[tuple[Any, ...]]
Answer = Rows | str
"""Rows, or why there are none."""

COLUMNS = {"g": "INTEGER", "p": "INTEGER", "ts": "BIGINT", "x": "DOUBLE", "y": "DOUBLE"}
"""g is the input, p a partition of it; ts ascends strictly in an input; x is a letter, y a number, both may be NULL."""
INPUTS = 20
URLS = ("duckdb://", "sqlite://")
LETTERS = range(6)

OWN = (
    "LAST({v}.y, 1) IS NULL OR {v}.y >= LAST({v}.y, 1)", "{v}.y < {n} + 1", "SUM({v}.y) < {n} + 3", "COUNT({v}.x) < 3",
    "{v}.y IS NOT NULL", "{v}.y <= AVG({v}.y) + {n}", "{v}.y > MIN({v}.y) OR {v}.x > 2", "{v}.x >= FIRST({v}.x)",
    "NOT {v}.y = {n}", "SUM({v}.x) + COUNT({v}.y) > {n}", "FIRST({v}.x, 1) IS NULL OR FIRST({v}.x, 1) <> {n}",
)  # fmt: skip
EARLIER = (
    "{v}.x > {w}.x", "{v}.x <> FIRST({w}.x)", "{v}.y >= LAST({w}.y)", "{v}.y <= AVG({w}.y) + {n}", "NOT {v}.y = {w}.y",
    "MAX({w}.y) >= {v}.y", "{v}.ts - FIRST({w}.ts) < {n} * 2500", "{v}.x + {v}.y > FIRST({w}.x) - 1",
    "SUM({w}.x) + COUNT({v}.y) > {n}", "{v}.y > MIN({w}.y) OR {w}.x > 2", "SUM({v}.y) < SUM({w}.y) + {n}",
)  # fmt: skip
"""Shapes of what a condition says besides the letters: v is the variable defined, w one before it, n a number."""

MEASURES = (
    "{v}.x", "FIRST({v}.x)", "LAST({v}.y)", "FIRST({v}.y, 1)", "LAST({v}.x, 1)", "SUM({v}.y)", "SUM({v}.x * 2 + {v}.y)",
    "COUNT({v}.x)", "COUNT({v}.y)", "AVG({v}.y)", "AVG({v}.x)", "MIN({v}.y)", "MAX({v}.y)", "MIN({v}.x)", "MAX({v}.ts)",
    "LAST({v}.y) - FIRST({w}.y)", "MAX({v}.x) - MIN({w}.x)", "SUM({v}.x) + COUNT({w}.x)", "LAST({v}.ts) - {w}.ts",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Element:
    """A variable of the pattern with its quantifier; one that is undefined takes every letter, and NULL."""

    name: str
    letters: tuple[int, ...] = tuple(LETTERS)
    least: int = 1
    most: int | None = 1
    reluctant: bool = False
    condition: str | None = None

    @property
    def is_loop(self) -> bool:
        return self.least != self.most

    def __str__(self) -> str:
        marks = {(1, 1): "", (0, None): "*", (1, None): "+"}
        most = "" if self.most is None else self.most
        counted = f"{{{self.least},{most}}}" if self.is_loop else f"{{{self.least}}}"
        return self.name + marks.get((self.least, self.most), counted) + ("?" if self.reluctant else "")


@dataclasses.dataclass(frozen=True)
class Question:
    seed: int
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    skip: str
    elements: tuple[Element, ...]
    seconds: int | None
    rows: tuple[tuple[Any, ...], ...]

    @property
    def names(self) -> list[str]:
        return [f"m{number}" for number in range(1, len(self.measures) + 1)]

    def text(self, for_flink: bool = False) -> str:
        """The clause; WITHIN and the time are all that is written differently."""
        within = f"INTERVAL '{self.seconds}' SECOND" if for_flink else f"{self.seconds} S"
        measures = (f"{measure} AS {name}" for measure, name in zip(self.measures, self.names, strict=True))
        defined = (f"{one.name} AS {one.condition}" for one in self.elements if one.condition)
        lines = [
            f"PARTITION BY {', '.join(self.keys)} ORDER BY {'rt' if for_flink else 'ts'}",
            f"MEASURES {', '.join(measures)}",
            f"ONE ROW PER MATCH AFTER MATCH SKIP {self.skip}",
            f"PATTERN ({' '.join(map(str, self.elements))})" + (f" WITHIN {within}" if self.seconds else ""),
            f"DEFINE {', '.join(defined)}",
        ]
        return "\n  ".join(["MATCH_RECOGNIZE (", *lines]) + "\n)"

    def only(self, g: int) -> Question:
        return dataclasses.replace(self, rows=tuple(row for row in self.rows if row[0] == g))


# Questions ------------------------------------------------------------------------------------------------------------


def generate(seed: int, inputs: int = INPUTS) -> Question:
    """The question of this seed."""
    return _Maker(Random(f"flink/{seed}")).question(seed, inputs)


class _Maker:
    """Makes one question, every choice drawn from `rng`."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        made = list(self._exact() if self.chance(0.4) else self._disjoint())
        names = [one.name for one in made]
        self.elements = tuple(
            dataclasses.replace(one, condition=self._condition(one, names[:at])) for at, one in enumerate(made)
        )
        if not any(one.condition for one in self.elements):  # Flink wants at least one
            self.elements = (dataclasses.replace(self.elements[0], condition="A.x >= 0"), *self.elements[1:])

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def question(self, seed: int, inputs: int) -> Question:
        first, last = self.elements[0].name, self.elements[-1].name
        names = [one.name for one in self.elements]
        shapes = self.rng.sample(MEASURES, self.rng.randint(2, 6))
        measures = (shape.format(v=self.rng.choice(names), w=self.rng.choice(names)) for shape in shapes)
        rows = [row for g in range(inputs) for row in self._input(g)]
        return Question(
            seed=seed,
            keys=("g", "p") if self.chance(0.8) else ("g",),
            measures=(f"FIRST({first}.ts)", f"LAST({last}.ts)", *measures),
            skip=self._skip(),
            elements=self.elements,
            seconds=self.rng.randint(1, 20) if self.chance(0.4) else None,
            rows=tuple(sorted(rows, key=lambda row: row[2])),
        )

    def _exact(self) -> Iterator[Element]:
        for name in "ABCDE"[: self.rng.choice([1, 2, 2, 3, 3, 4, 5])]:
            count = self.rng.choice([1, 1, 1, 2, 2, 3])
            letters = sorted(self.rng.sample(LETTERS, self.rng.randint(2, 6)))
            yield Element(name, tuple(letters), count, count)

    def _disjoint(self) -> Iterator[Element]:
        names = "ABCDE"[: self.rng.choice([2, 3, 3, 3, 4, 4, 5])]
        taken: set[int] = set()  # what the loops take from which the next element can follow
        greedy = False
        for name in names:
            free = sorted(set(LETTERS) - taken)
            may_loop = len(free) > 1
            least, most, reluctant = (
                self._bounds(name == "A" or greedy, name == names[-1]) if may_loop else (1, 1, False)
            )
            size = self.rng.randint(1, min(3, len(free) - may_loop))
            made = Element(name, tuple(sorted(self.rng.sample(free, size))), least, most, reluctant)
            yield made
            greedy = made.is_loop and not reluctant
            taken = {*made.letters, *(taken if least == 0 else ())} if made.is_loop else set()

    def _bounds(self, needed: bool, last: bool) -> tuple[int, int | None, bool]:
        if last:
            return self.rng.choice([(1, 1, False)] * 6 + [(2, 2, False), (1, None, True), (2, None, True)])
        loops: list[tuple[int, int | None]] = [(1, None), (1, None), (2, None), (1, 3), (2, 4)]
        loops += [] if needed else [(0, None), (0, None)]
        if self.chance(0.3):
            return self.rng.choice([(1, 1, False), (1, 1, False), (2, 2, False)])
        return *self.rng.choice(loops), self.chance(0.25)

    def _condition(self, element: Element, before: Sequence[str]) -> str | None:
        known = self._letters(element.name, element.letters)
        if self.chance(0.5):
            shape = self.rng.choice(EARLIER if before and self.chance(0.6) else OWN)
            words = {"v": element.name, "w": self.rng.choice(before or [""]), "n": self.rng.randint(0, 4)}
            known.append(f"({shape.format(**words)})")
        return " AND ".join(known) or None

    def _letters(self, name: str, letters: Sequence[int]) -> list[str]:
        """A way to say that x is one of these."""
        low, high = letters[0], letters[-1]
        if len(letters) == len(LETTERS):
            return []
        if len(letters) == len(LETTERS) - 1:
            return [f"{name}.x <> {next(one for one in LETTERS if one not in letters)}"]
        if len(letters) <= high - low:
            equal = " OR ".join(f"{name}.x = {one}" for one in letters)
            return [f"{name}.x IN ({', '.join(map(str, letters))})" if self.chance(0.5) else f"({equal})"]
        if low == high:
            return [f"{name}.x = {low}"]
        if low == LETTERS[0]:
            return [f"{name}.x < {high + 1}"]
        return [f"{name}.x > {low - 1}"] if high == LETTERS[-1] else [f"{name}.x BETWEEN {low} AND {high}"]

    def _skip(self) -> str:
        """Not to a variable that may have no row, nor back to the first row: that is an error."""
        rest = [one.name for one in self.elements[1:] if one.least]
        ends = rest + [one.name for one in self.elements[:1] if one.least > 1]
        skips = ["PAST LAST ROW", "TO NEXT ROW"]
        skips += [f"TO FIRST {self.rng.choice(rest)}"] if rest else []
        skips += [f"TO LAST {self.rng.choice(ends)}"] if ends else []
        return self.rng.choice(skips)

    def _input(self, g: int) -> Iterator[tuple[Any, ...]]:
        """The rows of some partitions, one among another."""
        partitions = {p: list(self._partition()) for p in range(1, self.rng.choice([1, 2, 3]) + 1)}
        ts = 1000 * self.rng.randint(0, 5)
        while any(partitions.values()):
            p = self.rng.choice([p for p, rows in partitions.items() if rows])
            ts += self.rng.choice([250, 500, 1000, 1000, 2000])
            yield (g, p, ts, *partitions[p].pop(0))

    def _partition(self) -> Iterator[tuple[float | None, float | None]]:
        """Rows that are often a match by their letters, with others between."""
        for _ in range(self.rng.choice([0, 1, 2, 3, 4])):
            parts: Sequence[Sequence[int]] = [LETTERS] * self.rng.randint(1, 3)
            if self.chance(0.75):
                parts = [one.letters for one in self.elements for _ in range(self._count(one))]
            for letters in parts:
                x = None if self.chance(0.02) else float(self.rng.choice(letters))
                yield x, None if self.chance(0.1) else float(self.rng.randint(-2, 6))

    def _count(self, element: Element) -> int:
        most = element.least + 2 if element.most is None else element.most
        return self.rng.randint(element.least, most)


# Answers --------------------------------------------------------------------------------------------------------------


def from_flink(python: str, questions: Sequence[Question]) -> list[Answer]:
    asked = [
        {"rows": one.rows, "keys": one.keys, "clause": one.text(for_flink=True), "measures": one.names}
        for one in questions
    ]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    script = pathlib.Path(__file__).with_name("flink_answers.py")
    with tempfile.TemporaryDirectory() as folder:
        given, found = pathlib.Path(folder, "questions.json"), pathlib.Path(folder, "answers.json")
        given.write_text(json.dumps(asked))
        environment["FLINK_LOG_DIR"] = folder
        environment["JVM_ARGS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx2g"  # all is over soon
        done = subprocess.run([python, script, given, found], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{python} {script} failed:\n{done.stdout}{done.stderr}")
        answers = json.loads(found.read_text())
    return [one["error"] if "error" in one else list(map(tuple, one["rows"])) for one in answers]


def from_bridge(url: str, questions: Sequence[Question]) -> list[Answer]:
    import bridge
    from bridge.errors import BridgeError

    found = list[Answer]()
    with bridge.connect(url) as cep:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        cep.database.execute(f"CREATE TABLE events ({columns})")
        for question in questions:
            cep.database.execute("DELETE FROM events")
            rows = (", ".join("NULL" if value is None else repr(value) for value in row) for row in question.rows)
            if values := ", ".join(f"({row})" for row in rows):
                cep.database.execute(f"INSERT INTO events VALUES {values}")
            try:
                found.append([tuple(row) for row in cep.query(f"SELECT * FROM events {question.text()}")])
            except BridgeError as error:
                found.append(f"{type(error).__name__}: {error}")
    return found


def from_definition(question: Question) -> Rows:
    from bridge.frontends.cursor import Cursor
    from bridge.frontends.sql.match_recognize import match_recognize
    from bridge.query.words import RESERVED
    from tests.support.row_patterns import recognize

    clause = match_recognize(Cursor(question.text(), RESERVED))
    return recognize(clause, [dict(zip(COLUMNS, row, strict=True)) for row in question.rows], list(COLUMNS)).rows


def agree(one: Answer, other: Answer) -> bool:
    """The same rows, in any order."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return len(one) == len(other) and all(map(_alike, _ranked(one), _ranked(other)))


def _ranked(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: [(value is not None, value or 0) for value in row])


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a == b or (None not in (a, b) and math.isclose(a, b, rel_tol=1e-9)) for a, b in pairs)


# Comparing ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Compared(Tally):
    inputs: int = 0
    matches: int = 0

    def __str__(self) -> str:
        counts = f"{self.questions} queries, {self.inputs} inputs, {self.matches} matches"
        return f"{counts}; {len(self.refused)} refused by Flink, {len(self.differences)} differences"


def compare(python: str, seeds: Sequence[int], inputs: int = INPUTS, urls: Sequence[str] = URLS) -> Compared:
    """The questions of these seeds, answered by Flink and on each database."""
    questions = [generate(seed, inputs) for seed in seeds]
    witness = from_flink(python, questions)
    found = Compared(len(questions), inputs=len(questions) * inputs)
    for question, answer in zip(questions, witness, strict=True):
        if isinstance(answer, str):
            found.refused.append(f"seed {question.seed}: {answer}\n{question.text(for_flink=True)}")
        else:
            found.matches += len(answer)
    for url in urls:
        for question, said, answer in zip(questions, witness, from_bridge(url, questions), strict=True):
            if not isinstance(said, str) and not agree(said, answer):
                found.differences.append(_difference(question, url, said, answer))
    return found


def _difference(question: Question, url: str, said: Rows, answer: Answer) -> str:
    """What differs, in the first input in which something does."""
    title = f"seed {question.seed}, {url}\n{question.text()}"
    if isinstance(answer, str):
        return f"{title}\n{answer}"
    split = [(g, _of(said, g), _of(answer, g)) for g in sorted({row[0] for row in question.rows})]
    different = [one for one in split if not agree(one[1], one[2])]
    g, flink, ours = different[0]
    small = question.only(g)
    lines = [
        f"{title}\n{len(different)} inputs differ, the first:",
        " ".join(COLUMNS),
        *(" ".join(map(str, row)) for row in small.rows),
        f"Flink      {_ranked(flink)}",
        f"bridge     {_ranked(ours)}",
        f"definition {_ranked(from_definition(small))}",
    ]
    return "\n".join(lines)


def _of(rows: Rows, g: int) -> Rows:
    return [row for row in rows if row[0] == g]


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare what Flink SQL and the bridge find.")
    parser.add_argument("--flink-python", required=True, help="a Python that has apache-flink")
    parser.add_argument("--seeds", default="0:200", help="from:to")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="how many inputs each query is asked about")
    parser.add_argument("--block", type=int, default=200, help="how many queries Flink is started for")
    given = parser.parse_args()
    first, end = map(int, given.seeds.split(":"))
    found = Compared()
    for start in range(first, end, given.block):
        new = compare(given.flink_python, range(start, min(start + given.block, end)), given.inputs)
        for text in new.refused + new.differences:
            print(text, end="\n\n", flush=True)
        found.add(new)
        print(f"to seed {min(start + given.block, end)}: {found}", flush=True)
    return 1 if found.differences or found.refused else 0


if __name__ == "__main__":
    sys.exit(main())
