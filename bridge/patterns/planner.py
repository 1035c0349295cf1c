"""Chooses the strategy that finds the matches. The plain machine ("machine") defines the result for all of them.

Reasons are texts for `explain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bridge.errors import QueryError
from bridge.patterns.conditions import Grade, reads_match_number
from bridge.patterns.strategies import fixed_distance, gaps, machine, offsets, prefilter, registers, starts
from bridge.patterns.task import Task
from nfa.arrays.deadlines import scan_limited
from nfa.arrays.matches import Matches
from nfa.arrays.two_pass import scan
from nfa.errors import BudgetError, ExhaustedError

_DIRECT = ("offsets", "gaps")
"""The strategies that do not visit rows one by one."""


class Choice(NamedTuple):
    """A strategy and the reason for it."""

    strategy: str
    reason: str


def choose(task: Task) -> Choice:
    """The fastest strategy that supports the clause, without looking at the rows."""
    return next(choices(task))


def choices(task: Task) -> Iterator[Choice]:
    """The strategies that support the clause, the fastest first."""
    return (Choice(name, reason) for name, reason in REASONS.items() if can_answer(task, name))


def choose_for_rows(task: Task) -> Choice:
    """The fastest strategy for these rows, which are already sorted."""
    choice = choose(task)
    if choice.strategy not in _DIRECT and prefilter.pays(task):
        return Choice("prefilter", f"most rows are out of reach of a rare symbol; of the others {choice.reason}")
    return choice


def over_rows(task: Task) -> Choice:
    """The fastest of the strategies that visit all rows."""
    return next(choice for choice in choices(task) if choice.strategy not in _DIRECT)


def can_answer(task: Task, strategy: str) -> bool:
    """Whether a strategy supports the clause."""
    if strategy == "machine":
        return True
    able = {"offsets": offsets.pays, "gaps": gaps.fits, "registers": registers.supports}.get(strategy)
    if able is not None:
        return able(task)
    if reads_match_number(task.conditions):
        return False
    grade = max((condition.grade for condition in task.conditions), default=Grade.ROW)
    if strategy == "behind":
        return grade is Grade.RUN and fixed_distance.expand(task) is not None
    return grade <= (Grade.ROW if strategy == "symbols" else Grade.START)


def reasons_against(task: Task) -> list[Choice]:
    """The strategies that were not chosen, each with the reason against it."""
    chosen = choose(task).strategy
    wide = [c.symbol for c in task.conditions if c.grade is Grade.RUN]
    near = [c.symbol for c in task.conditions if c.grade is not Grade.ROW]
    direct = chosen in _DIRECT
    reasons = {
        "symbols": f"it knows of each row what it can be by itself, which is not all that {_reads(near)}"
        if near
        else "it would find the same, by an automaton over all rows",
        "starts": f"it knows each start's first rows, which are not all that {_reads(wide)}"
        if wide
        else "it would find the same, row by row of each start"
        if direct
        else "it would find the same; what each row can be is known without asking for each start",
        **({"behind": "what is read is not always the same number of rows behind"} if wide else {}),
        "registers": "it would find the same, but row by row",
        "machine": "it would find the same, but asks for each row through closures",
    }
    return [Choice(name, reason) for name, reason in reasons.items() if name != chosen]


def _reads(symbols: Sequence[str]) -> str:
    return f"{', '.join(symbols)} ask{'s' if len(symbols) == 1 else ''} for"


def run(task: Task, strategy: str) -> Matches:
    """The matches by the strategy of this name; if it exceeds its limits, by another one that visits all rows."""
    if strategy not in STRATEGIES:
        raise QueryError(f"no strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    try:
        return STRATEGIES[strategy](task)
    except ExhaustedError:
        raise  # any other strategy would exceed the limit, too
    except BudgetError:
        if strategy == "machine":
            raise
        return run(task, _after(task, strategy))


def _after(task: Task, strategy: str) -> str:
    """The strategy to use after one has exceeded its limits."""
    if strategy in (*_DIRECT, "prefilter"):
        return over_rows(task).strategy
    return "registers" if strategy != "registers" and registers.supports(task) else "machine"


def _prefilter(task: Task) -> Matches:
    return prefilter.find(task, lambda fewer: run(fewer, over_rows(fewer).strategy))


def _symbols(task: Task) -> Matches:
    if task.limits is not None:
        return scan_limited(task.program, task.symbol_sets, task.ends, task.limits, task.skip)
    return scan(task.program, task.symbol_sets, task.ends, task.skip)


def _behind(task: Task) -> Matches:
    """The matches of the expanded pattern, by the strategy for its conditions."""
    expanded = fixed_distance.expand(task)
    if expanded is None:
        raise QueryError("the conditions read rows at no known distance")
    find = _symbols if expanded.grade is Grade.ROW else starts.find
    return expanded.original(find(expanded.task(task)))


REASONS = {
    "offsets": "every way to match has its rows at known distances",
    "gaps": "single rows with gaps between them that any row can fill",
    "symbols": "every condition is about one row and its neighbours",
    "starts": "conditions read, beside the row, rows at a known distance from the first",
    "behind": "conditions read rows of the match that are always a known number of rows behind",
    "registers": "conditions read rows of the match at no known distance, sums of its rows or MATCH_NUMBER()",
    "machine": "conditions read what only the plain machine keeps",
}

STRATEGIES: dict[str, Callable[[Task], Matches]] = {
    "symbols": _symbols,
    "starts": starts.find,
    "behind": _behind,
    "gaps": gaps.find,
    "offsets": offsets.find,
    "prefilter": _prefilter,
    "registers": registers.find,
    "machine": machine.find,
}
