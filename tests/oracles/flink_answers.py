"""What Flink SQL answers; runs in a Python that has apache-flink, and knows nothing of the bridge.

    python flink_answers.py questions.json answers.json

A question is {"rows": [[g, p, ts, x, y], ...], "keys": [...], "clause": "MATCH_RECOGNIZE (...)", "measures": [...]}, its
clause ordered by rt, the time of ts. An answer is {"rows": [...]}, the keys before the measures, or {"error": "..."}.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

AT_ONCE = 25
"""How many questions are one job, as a job takes a second whatever it does."""

SETTINGS = {
    "parallelism.default": "1",
    "table.local-time-zone": "UTC",
    "restart-strategy.type": "none",
    # One watermark, after all rows: no row is late.
    "pipeline.auto-watermark-interval": "1000000000000 ms",
}
NAMES = ("g", "p", "ts", "x", "y")
COLUMNS = "g INT, p INT, ts BIGINT, x DOUBLE, y DOUBLE, rt AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR rt AS rt"


class Flink:
    """A table environment, and a folder for the tables it reads."""

    def __init__(self, folder: pathlib.Path) -> None:
        from pyflink.common import Configuration
        from pyflink.table import EnvironmentSettings, TableEnvironment

        settings = Configuration()
        for name, text in SETTINGS.items():
            settings.set_string(name, text)
        made = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
        self.tables = TableEnvironment.create(made)
        self.folder = folder

    def answers(self, questions: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for at in range(0, len(questions), AT_ONCE):
            some = questions[at : at + AT_ONCE]
            for number, question in enumerate(some, at):
                rows = (json.dumps(dict(zip(NAMES, row, strict=True))) for row in question["rows"])
                (self.create(f"t{number}", COLUMNS) / "rows").write_text("\n".join(rows))
            yield from self.some_answers(at, some)
            for number in range(at, at + len(some)):
                self.drop(f"t{number}")

    def create(self, name: str, columns: str) -> pathlib.Path:
        """A table, and the folder that its rows are in."""
        folder = self.folder / name
        folder.mkdir()
        place = f"'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json'"
        self.tables.execute_sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({place})")
        return folder

    def drop(self, name: str) -> None:
        self.tables.execute_sql(f"DROP TEMPORARY TABLE {name}")
        shutil.rmtree(self.folder / name)

    def some_answers(self, first: int, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """As one job; if it fails, half of them at a time, so that only those that Flink refuses have no answer."""
        try:
            return self.together(first, questions)
        except Exception as error:
            if len(questions) == 1:
                return [{"error": reason(str(error))}]
        half = len(questions) // 2
        return self.some_answers(first, questions[:half]) + self.some_answers(first + half, questions[half:])

    def together(self, first: int, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = [f"m{number}" for number in range(1, max(len(question["measures"]) for question in questions) + 1)]
        columns = ["question INT", "g INT", "p INT", *(f"{name} DOUBLE" for name in names)]
        selects = [select(first + at, question, len(names)) for at, question in enumerate(questions)]
        folder = self.create("answers", ", ".join(columns))
        try:
            self.tables.execute_sql(f"INSERT INTO answers {' UNION ALL '.join(selects)}").wait()
            rows = [json.loads(line) for file in folder.rglob("*") if file.is_file() for line in file.open()]
        finally:
            self.drop("answers")
        found: list[list[list[Any]]] = [[] for _ in questions]
        for row in rows:
            question = questions[row["question"] - first]
            # A NULL may be left out of what is written.
            found[row["question"] - first].append(
                [row.get(name) for name in (*question["keys"], *names[: len(question["measures"])])]
            )
        return [{"rows": rows} for rows in found]


def select(number: int, question: dict[str, Any], width: int) -> str:
    """The number of the question, both keys, and the measures as so many numbers."""
    measures = [f"CAST({name} AS DOUBLE)" for name in question["measures"]]
    measures += ["CAST(NULL AS DOUBLE)"] * (width - len(measures))
    p = "p" if "p" in question["keys"] else "CAST(NULL AS INT)"
    return f"SELECT {number}, g, {p}, {', '.join(measures)} FROM t{number} {question['clause']}"


def reason(text: str) -> str:
    """The innermost of the exceptions in a Java stack trace."""
    causes: list[str] = re.findall(r"((?:\w+\.)+\w*(?:Exception|Error): [^\n]*)", text)
    return causes[-1] if causes else text.strip().partition("\n")[0]


def main(questions: str, answers: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        given = json.loads(pathlib.Path(questions).read_text())
        found = list(Flink(pathlib.Path(folder)).answers(given))
    pathlib.Path(answers).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
