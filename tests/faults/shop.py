"""The web shop of examples/shop with twelve customers who write a journal: `python -m tests.faults.shop URL FOLDER RUN`.

It runs until it is killed. From one run to the next a query changes.
"""

from __future__ import annotations

import pathlib
import random
import sys
import threading
import time
from typing import Any

from examples.shop.shop import QUERIES, open_shop

DEADLINE = 0.7
"""Seconds in which an order is to be paid, here."""


def queries(run: int) -> dict[str, tuple[str, str]]:
    """The queries of the shop with a shorter deadline; from one run to the next one of them changes."""
    language, text = QUERIES["unpaid"]
    hurried = {**QUERIES, "unpaid": (language, text.replace("30 sec", f"{DEADLINE * 1000:.0f} msec"))}
    return {**hurried, "worth": ("sql", QUERIES["worth"][1].replace("1 H", f"{run + 1} H"))}


def visit(cep: Any, journal: pathlib.Path, number: int, seed: int) -> None:
    """Orders, some of them paid at once; what was not acknowledged before a crash is pushed again with its id."""
    draw = random.Random(seed)
    lines = journal.read_text().splitlines() if journal.exists() else []
    if lines and not lines[-1].endswith("done"):
        order(cep, lines[-1].split()[0], lines[-1].endswith("paid"))
    with journal.open("a") as log:
        for place in range(10_000):
            name, paid = f"{number}-{seed}-{place}", draw.random() < 0.7
            log.write(f"{name} {'paid' if paid else 'open'}\n")
            log.flush()
            order(cep, name, paid)
            log.write(f"{name} {'paid' if paid else 'open'} done\n")
            log.flush()
            time.sleep(draw.random() * 0.05)


def order(cep: Any, name: str, paid: bool) -> None:
    cep.push_event("orders", [name, "ann", 10.0], event_id=name)
    if paid:
        cep.push_event("payments", [name], event_id=name)


def shop(url: str, folder: pathlib.Path, run: int) -> None:
    cep = open_shop(url, queries(run))
    threads = [
        threading.Thread(target=visit, args=(cep, folder / f"{number}.log", number, run), daemon=True)
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    time.sleep(60)


if __name__ == "__main__":
    shop(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]))
