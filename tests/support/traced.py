"""The statements that a bridge runs, as a test looks at them."""

from __future__ import annotations

from typing import Any


def traced(cep: Any) -> list[str]:
    """A list that gets the text of each statement from now on."""
    statements: list[str] = []
    cep.add_tracer(lambda sql, seconds, rows: statements.append(sql))
    return statements


def reads_and_writes(statements: list[str]) -> list[str]:
    """Those that read or add rows, without what begins and ends transactions."""
    return [text for text in statements if text.startswith(("INSERT", "SELECT"))]
