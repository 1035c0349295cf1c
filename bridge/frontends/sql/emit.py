"""EMIT: when an aggregate is reported."""

from __future__ import annotations

from bridge.frontends.cursor import Cursor


def on_change(cursor: Cursor) -> dict[str, bool]:
    if not cursor.take("EMIT"):
        return {}
    cursor.expect("ON", " (EMIT ON CHANGE)")
    every = cursor.take("EVERY")
    cursor.expect("CHANGE", " (EMIT ON CHANGE)")
    return {"every_change" if every else "on_change": True}


def step_final(cursor: Cursor) -> None:
    """`EMIT FINAL` and `EMIT ON WINDOW CLOSE` say what windows do anyway."""
    position = cursor.position
    if not cursor.take("EMIT"):
        return
    if not (cursor.take("FINAL") or cursor.take("ON", "WINDOW", "CLOSE")):
        cursor.fail(
            "windows are reported once, at their end (EMIT FINAL): for the state at each row write "
            "WINDOW(RANGE 10 S), or GROUP BY without a window",
            position,
        )
