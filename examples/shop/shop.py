"""A web shop that looks after itself: orders that nobody pays, guessed passwords, and what an order is worth on average.

    python examples/shop/shop.py sqlite:///shop.db

The alerts are tables of the shop's own database. Stop the program, kill it, change a query and start it again: nothing is
lost, and nothing comes twice.
"""

from __future__ import annotations

import random
import sys
import threading
import time
import uuid

import bridge

QUERIES = {
    "unpaid": (
        "epl",
        """select o.id as id, o.amount as amount from pattern [every o=orders ->
           (timer:interval(30 sec) and not payments(order_id = o.id))]""",
    ),
    "guessed": (
        "sql",
        "SELECT name, COUNT(*) AS n FROM logins WINDOW(RANGE 1 MIN) WHERE NOT ok GROUP BY name HAVING COUNT(*) >= 5",
    ),
    "worth": ("sql", "SELECT AVG(amount) AS mean, COUNT(*) AS n FROM orders WINDOW(RANGE 1 H)"),
}


def open_shop(url: str, queries: dict[str, tuple[str, str]]) -> bridge.Bridge:
    """The bridge of the shop, as it was when it was last open; what has changed since replaces what there was."""
    cep = bridge.connect(url, clock="system", standby=True)
    cep.register_stream("orders", "id VARCHAR, customer VARCHAR, amount DOUBLE")
    cep.register_stream("payments", "order_id VARCHAR")
    cep.register_stream("logins", "name VARCHAR, ok BOOLEAN")
    for name, (language, text) in queries.items():
        cep.create_query(name, text, language=language, into=f"shop_{name}", keep="30 D", replace=True)
    return cep


def visit(cep: bridge.Bridge) -> None:
    """A customer, who orders now and then, and pays most of the time. A repeated push would be dropped by its id."""
    while True:
        order = str(uuid.uuid4())
        cep.push_event("logins", ["ann", random.random() < 0.9])
        cep.push_event("orders", [order, "ann", round(random.uniform(5, 99), 2)], event_id=order)
        time.sleep(random.random())
        if random.random() < 0.8:
            cep.push_event("payments", [order], event_id=order)


def main(url: str) -> None:
    cep = open_shop(url, QUERIES)
    cep.add_output_processor("unpaid", lambda result: print("mail to the customer:", result.payload), name="mailer")
    for _ in range(12):
        threading.Thread(target=visit, args=(cep,), daemon=True).start()
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///shop.db")
