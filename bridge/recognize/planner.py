"""Which strategy finds the matches, and why. The plain machine ("registers") is the truth; the others equal it.

The reasons are given as `explain` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bridge.errors import QueryError
from bridge.recognize import gaps, offsets, prefilter, registers, starts
from bridge.recognize.conditions import Grade, asks_match_number
from bridge.recognize.task import Task
from nfa.errors import BudgetError
from nfa.found import Found
from nfa.scan import scan
from nfa.within import scan_within


class Choice(NamedTuple):
    """A strategy and the reason for it."""

    strategy: str
    reason: str


def choose(task: Task) -> Choice:
    """The fastest strategy that can answer, whatever the rows are."""
    if offsets.pays(task):
        return Choice("offsets", "every way to match has its rows at known distances")
    if gaps.fits(task):
        return Choice("gaps", "single rows with gaps between them that any row can fill")
    return over_rows(task)


def settled(task: Task) -> Choice:
    """The same with a look at the rows, which are sorted by now."""
    choice = choose(task)
    if choice == over_rows(task) and prefilter.pays(task):
        return Choice("prefilter", f"most rows are out of reach of a rare symbol; of the others {choice.reason}")
    return choice


def over_rows(task: Task) -> Choice:
    """The fastest of those that look at all rows they are given."""
    grade = max((condition.grade for condition in task.conditions), default=Grade.ROW)
    if asks_match_number(task.conditions):
        return Choice("registers", "a condition reads MATCH_NUMBER()")
    if grade is Grade.RUN:
        return Choice("registers", "a condition reads rows of the match at no known distance from its first")
    if grade is Grade.START:
        return Choice("starts", "conditions read, beside the row, rows at a known distance from the first")
    return Choice("symbols", "every condition is about one row and its neighbours")


def against(task: Task) -> list[Choice]:
    """The strategies that were not chosen, and what speaks against each."""
    chosen = choose(task).strategy
    wide = [c.symbol for c in task.conditions if c.grade is Grade.RUN]
    near = [c.symbol for c in task.conditions if c.grade is not Grade.ROW]
    direct = chosen in ("offsets", "gaps")
    reasons = {
        "symbols": f"it knows of each row what it can be by itself, which is not all that {_asks(near)}"
        if near
        else "it would find the same, by an automaton over all rows",
        "starts": f"it knows each start's first rows, which are not all that {_asks(wide)}"
        if wide
        else "it would find the same, row by row of each start"
        if direct
        else "it would find the same; what each row can be is known without asking for each start",
        "registers": "it would find the same, but row by row",
    }
    return [Choice(name, reason) for name, reason in reasons.items() if name != chosen]


def _asks(symbols: Sequence[str]) -> str:
    return f"{', '.join(symbols)} ask{'s' if len(symbols) == 1 else ''} for"


def run(task: Task, strategy: str) -> Found:
    """The matches by a strategy, by name; one that gives up hands over to the plain machine."""
    if strategy not in STRATEGIES:
        raise QueryError(f"no strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    try:
        return STRATEGIES[strategy](task)
    except BudgetError:
        if strategy == "registers":
            raise
        return registers.find(task)


def _prefilter(task: Task) -> Found:
    return prefilter.find(task, lambda fewer: run(fewer, over_rows(fewer).strategy))


def _symbols(task: Task) -> Found:
    if task.within is not None:
        return scan_within(task.program, task.letters, task.ends, task.times, task.within, task.skip)
    return scan(task.program, task.letters, task.ends, task.skip)


STRATEGIES: dict[str, Callable[[Task], Found]] = {
    "symbols": _symbols,
    "starts": starts.find,
    "gaps": gaps.find,
    "offsets": offsets.find,
    "prefilter": _prefilter,
    "registers": registers.find,
}
