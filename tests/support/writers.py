"""Programs that insert rows into a table at the same time, in transactions of random lengths, some of them rolled back."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
import time
from typing import Any

import sqlalchemy as sa

TYPES = {
    "postgresql": "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()",
    "mariadb": "id BIGINT AUTO_INCREMENT PRIMARY KEY, created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
    "sqlite": "id INTEGER PRIMARY KEY, created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))",
}
"""The columns of the number and the time of a row, by the name of the database."""


def create(engine: sa.Engine, name: str) -> None:
    """Makes the table that the writers fill."""
    kind = "VARCHAR(30)" if engine.dialect.name != "sqlite" else "TEXT"
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE {name} ({TYPES[engine.dialect.name]}, writer {kind}, amount BIGINT)"))
        # Changes look for the newest row of their writer.
        connection.execute(sa.text(f"CREATE INDEX {name}_of_writer ON {name} (writer, id)"))


class Writers:
    """Threads that insert `count` rows each and then end; between transactions they pause for up to `pause` seconds."""

    def __init__(self, engine: sa.Engine, table: str, number: int, count: int, seed: int, pause: float = 0.0) -> None:
        self._engine, self._table, self._count, self._pause = engine, table, count, pause
        self.failed: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._run, args=(f"w{writer}", random.Random(f"{seed} {writer}")), daemon=True)
            for writer in range(number)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()

    @property
    def are_at_work(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        if self.failed:
            raise self.failed[0]

    def _run(self, name: str, rng: random.Random) -> None:
        insert = sa.text(f"INSERT INTO {self._table} (writer, amount) VALUES (:writer, :amount)")
        done = 0
        try:
            while done < self._count:
                size = rng.randint(1, 3)
                time.sleep(rng.uniform(0, self._pause))
                with self._engine.connect() as connection, contextlib.suppress(sa.exc.OperationalError):
                    for place in range(size):
                        connection.execute(insert, {"writer": name, "amount": done + place})
                    if rng.random() < 0.2:
                        time.sleep(rng.uniform(0, 0.01))
                    if rng.random() < 0.1:
                        connection.rollback()
                        continue
                    connection.commit()
                    done += size
        except Exception as error:
            self.failed.append(error)


class Changes:
    """Threads that insert, update and delete rows, in transactions of which some are rolled back, by `count` statements each."""

    def __init__(self, engine: sa.Engine, table: str, number: int, count: int) -> None:
        self._engine, self._table, self._count = engine, table, count
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(number)]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        rng, table = random.Random(number), self._table
        for step in range(self._count):
            with (
                contextlib.suppress(sa.exc.OperationalError, sqlite3.OperationalError),
                self._engine.connect() as connection,
            ):
                what = rng.choice(["INSERT", "INSERT", "UPDATE", "DELETE"])
                one = f"(SELECT MAX(id) FROM (SELECT id FROM {table} WHERE writer = 'w{number}') AS own)"
                statement = {
                    "INSERT": f"INSERT INTO {table} (writer, amount) VALUES ('w{number}', {step})",
                    "UPDATE": f"UPDATE {table} SET amount = {step} WHERE id = {one}",
                    "DELETE": f"DELETE FROM {table} WHERE id = {one}",
                }[what]
                connection.execute(sa.text(statement))
                if rng.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()


def rows_of(engine: sa.Engine, table: str) -> list[Any]:
    """The ids of all rows that are committed, in order."""
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(f"SELECT id FROM {table} ORDER BY id"))]
