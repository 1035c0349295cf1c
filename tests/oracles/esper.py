"""Esper as a witness: it has to give what the bridge gives, but for the decisions of docs/epl.md.

    mvn -f benchmarks/esper dependency:copy-dependencies -DoutputDirectory=JARS
    python -m tests.oracles.esper --jars JARS --seeds 0:1000
    python -m tests.oracles.esper --jars JARS --seeds 0:1000 --about windows
    python -m tests.oracles.esper --jars JARS --seeds 0:60 --record tests/conformance/epl_esper.json

generate(7)                  a question: a statement with a pattern, or with match_recognize, and events for it
generate_over_windows(7)     one about windows, joins, aggregates, contexts
generate_outputs(7)          one about output snapshot, all and first
from_esper(jars, questions)  its answers, all of them by one Java; a text where Esper refuses
from_bridge(url, question)   the bridge's

Decisions of docs/epl.md, by their numbers:

 2  each of Esper's matches has to be a match, where it prefers another than the first from left to right; with an
    interval, it may have been told before its time
 3  of `all matches`, how often one is told does not count
 8  what binds is written in parentheses
10  Esper's time passes in small steps
11  timer:schedule is asked about under `every` alone, and times are whole seconds
12  where an event is several of a pattern's events at once, any order among these is right for Esper's answer
13  what is false for good may go on for Esper's answer, as in esper_leaks.py (and then in any order)
14  quantifiers in braces are not asked about within match_recognize_permute
23  of several keys, what Esper finds besides has to be a match without the window of time
26  snapshots of joins of windows of time are not asked about
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Any

from tests.oracles.esper_leaks import leaking
from tests.oracles.esper_orders import found_order
from tests.oracles.tally import Tally

Rows = list[tuple[Any, ...]]
Answer = Rows | str
"""Rows, their times first, or why there are none."""

STREAMS = "SAB"
SCHEMA = "(id string, v int, k string)"
EVENTS = 12
ENDLESS = "no answer in the time given"

UNASKED = ("Aggregation functions in the measure-clause", "Cannot invoke ", "Java heap space", ENDLESS)
"""What Esper says where it takes a variable of match_recognize_permute for one of a single row, and where it fails itself."""

SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Compiling statements is most of what Java does, hardly any of it twice."""


@dataclasses.dataclass(frozen=True)
class Question:
    """A statement, the columns that are compared, and the events, `(stream, ts, id, v, k)`; and what is created `first`."""

    seed: int
    statement: str
    columns: tuple[str, ...]
    events: tuple[tuple[Any, ...], ...]
    first: tuple[str, ...] = ()
    after: int = 8_000

    @property
    def end(self) -> int:
        """Time passes until then, so long `after` the events."""
        return int(self.events[-1][1]) + self.after


def generate(seed: int) -> Question:
    """The question of this seed: about patterns mostly, every fourth about match_recognize."""
    from tests.oracles.epl_patterns import STEP, statement

    chance = Random(f"esper/{seed}")
    if seed % 4 == 3:
        text = _rows(chance, timed=seed % 8 == 7)
        columns = re.findall(r" as ([nfli][ABC])\b", text)
        return Question(seed, text, tuple(columns), tuple(_events(chance, "S", 1)))
    text, columns = statement(chance)
    return Question(seed, text, tuple(columns), tuple(_events(chance, "AAB", STEP)))


def generate_over_windows(seed: int) -> Question:
    """The question of this seed about windows, joins, sub-queries, aggregates, both streams, and contexts."""
    from tests.oracles.epl_statements import statement

    chance = Random(f"esper/windows/{seed}")
    first, text, columns = statement(chance)
    return Question(seed, text, tuple(columns), tuple(_events(chance, "S" if " from S" in text else "AB", 1)), first)


def generate_outputs(seed: int) -> Question:
    """The question of this seed about when results are told."""
    from tests.oracles.epl_statements import columns
    from tests.support.epl_outputs import statement

    chance = Random(f"esper/outputs/{seed}")
    while re.search(r"#time\(.* as b\b", text := statement(chance)):
        pass  # decision 26
    events = _events(chance, "S" if " from S" in text else "AB", 1)
    return Question(seed, text, tuple(columns(text)), tuple(events), after=40)


GENERATORS = {"patterns": generate, "windows": generate_over_windows, "outputs": generate_outputs}


def _rows(chance: Random, timed: bool) -> str:
    from tests.support.epl_generate import interval, rows

    while True:
        text = interval(chance) if timed else rows(chance)[0]
        if not ("permute" in text and "{" in text):
            return text


def _events(chance: Random, streams: str, step: int) -> list[tuple[Any, ...]]:
    ts, found = 0, []
    for number in range(EVENTS):
        ts += step * chance.choice((0, 1, 1, 2, 4))
        row = (f"E{number}", chance.randint(1, 4), chance.choice(("x", "y", None)))
        found.append((chance.choice(streams), ts, *row))
    return found


# Answers --------------------------------------------------------------------------------------------------------------


def from_esper(jars: str, questions: Sequence[Question]) -> list[Answer]:
    """Its answers, all of them by one Java; a question that it does not come to an end with costs another Java."""
    found: list[Answer] = []
    while len(found) < len(questions):
        left = questions[len(found) :]
        found += [_answer(question, one) for question, one in zip(left, _answers(jars, left), strict=False)]
        if len(found) < len(questions):
            found.append(ENDLESS)
    return found


def _answers(jars: str, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Those of the first questions that it has answered in its time, all mostly."""
    program = pathlib.Path(__file__).with_name("EsperAnswers.java")
    seconds = 15 + len(questions) // 5
    with tempfile.TemporaryDirectory() as folder:
        given, found = pathlib.Path(folder, "questions.json"), pathlib.Path(folder, "answers.json")
        given.write_text(json.dumps([_asked(one) for one in questions]))
        limited = ("sh", "-c", f'ulimit -t {seconds}; exec "$@"', "java")
        java = ("java", *SHORT_LIVED, "-Duser.timezone=UTC", "-Xmx512m", "-cp", f"{jars}/*", program, given, found)
        done = subprocess.run([*limited, *java], capture_output=True, text=True)
        if done.returncode > 0:
            raise RuntimeError(f"{program.name} failed:\n{done.stdout}{done.stderr}")
        return [json.loads(line) for line in found.read_text().splitlines()]


def _asked(question: Question) -> dict[str, Any]:
    return {
        "schemas": "".join(f"@public @buseventtype create objectarray schema {one} {SCHEMA};\n" for one in STREAMS),
        "module": "".join(f"{before};\n" for before in question.first) + f"@name('q') {question.statement}",
        "columns": question.columns,
        "both": "irstream" in question.statement,
        "events": question.events,
        "end": question.end,
    }


def _answer(question: Question, one: dict[str, Any]) -> Answer:
    return str(one["error"]) if "error" in one else _told(question, one["rows"])


def _told(question: Question, rows: list[list[Any]]) -> Rows:
    """Of both streams the column that says which; Esper's own istream() is the text of it."""
    if "irstream" not in question.statement:
        return list(map(tuple, rows))
    at = question.columns.index("n") + 1
    return [(*row[:at], row[-1], *row[at + 1 : -1]) for row in rows]


def from_bridge(url: str, question: Question, together: bool = False) -> Answer:
    """The bridge's answer, the events pushed one by one, or `together`."""
    import bridge
    from bridge.errors import BridgeError

    found = Rows()
    with bridge.connect(url) as cep:
        for stream in STREAMS:
            cep.create_query(f"schema {stream}", f"create schema {stream} {SCHEMA}", language="epl")
        try:
            for place, text in enumerate(question.first):
                cep.create_query(f"first {place}", text, language="epl")
            cep.create_query("q", question.statement, language="epl")
        except BridgeError as error:
            return f"{type(error).__name__}: {error}"
        names = question.columns
        cep.add_output_processor("q", lambda event: found.append((event.timestamp, *map(event.payload.get, names))))
        cep.advance_time(0)
        events = [(one[0], list(one[2:]), one[1]) for one in question.events]
        for part in [events] if together else [[event] for event in events]:
            cep.push_all(part)
        cep.advance_time(question.end)
    return found


def agree(one: Answer, other: Answer) -> bool:
    """The same rows, those of one moment in any order."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return sorted(one, key=repr) == sorted(other, key=repr)


# Comparing ------------------------------------------------------------------------------------------------------------


def _decision(url: str, question: Question, said: Rows, answer: Rows) -> int | None:
    """The number of the decision from which the difference follows."""
    if "match_recognize" not in question.statement:
        return _decided_otherwise(url, question, said)
    if "all matches" in question.statement and set(said) == set(answer):
        return 3
    if "interval" in question.statement:
        said, answer = [row[1:] for row in said], [row[1:] for row in answer]
        if agree(said, answer):
            return 2
    found = set(said)
    by_key = "partition by" in question.statement and "#time(" in question.statement and set(answer) <= found
    kept = re.sub(r"#time\([^)]*\)", "#keepall", question.statement)
    if by_key and found <= _matches(url, question, said, kept):
        return 23
    has_choice = "interval" in question.statement or re.search(r"[?*|]|\{,", question.statement) is not None
    return 2 if has_choice and found <= _matches(url, question, said, question.statement) else None


def _matches(url: str, question: Question, said: Rows, statement: str) -> set[tuple[Any, ...]]:
    """All matches there are, as wide as the rows that were said."""
    every = from_bridge(url, dataclasses.replace(question, statement=_every_match(statement)))
    return {row[-len(said[0]) :] for row in every} if said and not isinstance(every, str) else set()


def _every_match(statement: str) -> str:
    """The same statement, telling all that match."""
    bare = re.sub(r" after match skip [a-z ]+ row|all matches", "", statement)
    return bare.replace(" pattern (", " all matches after match skip to current row pattern (", 1)


def _decided_otherwise(url: str, question: Question, said: Rows) -> int | None:
    """The number of the decision, had the bridge decided otherwise and given the same."""

    def first_difference() -> int | None:
        answer = from_bridge(url, question)
        if isinstance(answer, str):
            return -1
        times = {row[0] for row in ((Counter(said) - Counter(answer)) + (Counter(answer) - Counter(said)))}
        return min(times, default=None)

    for leaks, number in ((contextlib.nullcontext, 12), (leaking, 13)):
        with leaks():
            if found_order(first_difference, Random(question.seed)):
                return number
    return None


@dataclasses.dataclass
class Compared(Tally):
    rows: int = 0
    unasked: int = 0
    decided: Counter[int] = dataclasses.field(default_factory=Counter)
    """How many follow from which decision."""

    def __str__(self) -> str:
        counts = f"{self.questions} statements, {self.rows} rows, by decisions {dict(self.decided)}"
        counts += f", {self.unasked} not answered by Esper"
        return f"{counts}; {len(self.refused)} refused, {len(self.differences)} differences"


def compare(jars: str, seeds: Sequence[int], url: str = "sqlite://", about: str = "patterns") -> Compared:
    """The questions of these seeds, answered by Esper and by the bridge, pushed singly and together by turns."""
    questions = [GENERATORS[about](seed) for seed in seeds]
    return judged(questions, from_esper(jars, questions), url, about)


def compare_blocks(jars: str, blocks: Sequence[Sequence[int]], about: str) -> Iterator[Compared]:
    """A block each; Esper answers the next one while the bridge answers this."""
    with ThreadPoolExecutor(1) as beside:
        coming: list[tuple[list[Question], Future[list[Answer]]]] = []
        for seeds in (*blocks, ()):
            questions = [GENERATORS[about](seed) for seed in seeds]
            coming.append((questions, beside.submit(from_esper, jars, questions)))
            if len(coming) == 2:
                asked, answers = coming.pop(0)
                yield judged(asked, answers.result(), "sqlite://", about)


def judged(questions: Sequence[Question], answers: Sequence[Answer], url: str, about: str) -> Compared:
    """What comes of it when the bridge is asked what Esper has answered."""
    found = Compared(len(questions))
    for question, said in zip(questions, answers, strict=True):
        if isinstance(said, str) and said.startswith(UNASKED):
            found.unasked += 1
            continue
        try:
            answer = from_bridge(url, question, question.seed % 2 == 1)
        except Exception as error:  # a fault of ours is to be told, with its statement, beside all others
            answer = f"{type(error).__name__}: {error}"
        if isinstance(said, str) or isinstance(answer, str):
            found.refused.append(f"seed {question.seed}: {question.statement}\nEsper  {said}\nbridge {answer}")
            continue
        found.rows += len(said)
        if agree(said, answer):
            continue
        if about == "patterns" and (number := _decision(url, question, said, answer)) is not None:
            found.decided[number] += 1
        else:
            found.differences.append(_difference(question, said, answer))
    return found


def record(jars: str, count: int, about: str) -> list[dict[str, Any]]:
    """The first questions with rows on which Esper agrees, with its rows, to be asked where there is no Java."""
    questions = [GENERATORS[about](seed) for seed in range(count * 3)]
    asked = zip(questions, from_esper(jars, questions), strict=True)
    agreed = (
        dataclasses.asdict(one) | {"rows": said}
        for one, said in asked
        if said and not isinstance(said, str) and len(said) < 20 and agree(said, from_bridge("sqlite://", one))
    )
    return list(itertools.islice(agreed, count))


def _difference(question: Question, said: Rows, answer: Rows) -> str:
    lines = [
        f"seed {question.seed}\n{'; '.join((*question.first, question.statement))}",
        *(" ".join(map(str, event)) for event in question.events),
        f"Esper  {sorted(said, key=repr)}",
        f"bridge {sorted(answer, key=repr)}",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare what Esper and the bridge find.")
    parser.add_argument("--jars", required=True, help="a directory with Esper's jars")
    parser.add_argument("--seeds", default="0:200", help="from:to")
    parser.add_argument("--about", choices=GENERATORS, default="patterns", help="what is asked about")
    parser.add_argument("--block", type=int, default=400, help="how many statements Java is started for")
    parser.add_argument("--record", metavar="FILE", help="write so many questions with Esper's answers, and be done")
    given = parser.parse_args()
    first, end = map(int, given.seeds.split(":"))
    if given.record:
        lines = ",\n".join(map(json.dumps, record(given.jars, end, given.about)))
        pathlib.Path(given.record).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        return 0
    found = Compared()
    blocks = [range(start, min(start + given.block, end)) for start in range(first, end, given.block)]
    for block, new in zip(blocks, compare_blocks(given.jars, blocks, given.about), strict=True):
        for text in new.refused + new.differences:
            print(text, end="\n\n", flush=True)
        found.add(new)
        print(f"to seed {block.stop}: {found}", flush=True)
    return 1 if found.differences or found.refused else 0


if __name__ == "__main__":
    sys.exit(main())
