"""Generates the backtracking search for one pattern and its conditions as Python source.

A state of the search is the list of waiting instructions, in preference order. They are tried in turn; if others
remain, row and state are pushed on a stack. `code` has the instruction of each row on the current path. Registers are
saved at the row of a choice, as only later rows change them before the search returns to it. When the most preferred
path ends after it passed a match, the last match passed is the result.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

from bridge.patterns.conditions import reads_match_number
from bridge.patterns.strategies.registers_code import (
    ConditionCode,
    Register,
    RegisterCode,
    RunningTotal,
    Slot,
    UnknownExpression,
    before,
)
from bridge.patterns.task import Task
from nfa.program import MatchSymbol
from nfa.threads.transitions import Transitions

MOST_CHOICES = 400
"""The greatest number of choices in all states together."""

Waiting = tuple[int, ...]

FAIL = -1

_ONWARD = {"PAST LAST ROW": "start = best if best > start else start + 1", "TO NEXT ROW": "start += 1"}


@dataclasses.dataclass(frozen=True)
class SearchState:
    """Waiting instructions in preference order. `number` is the number of the first choice; the others follow."""

    number: int
    takers: Waiting
    is_match: bool
    at_end: bool


class Generator:
    """Generates `search(start)`, which returns the start at which it gave up, or the number of rows."""

    def __init__(self, transitions: Transitions, task: Task) -> None:
        self.transitions, self.register_code, self.within = (
            transitions,
            RegisterCode(task.clause),
            task.clause.within is not None,
        )
        self.onward = _ONWARD.get(task.clause.skip.to, "start = onward(start, best)")
        self.numbered, conditions, register_code = (
            reads_match_number(task.conditions),
            task.conditions,
            self.register_code,
        )
        self.conditions = {c.symbol: register_code.condition(c) for c in conditions}
        self.states: dict[Waiting, SearchState] = {}
        self.choices = 0
        self.begun = [self.state_of(transitions.begin(at_start)) for at_start in (False, True)]
        for number in transitions.bits:
            self.state_of(transitions.after(number))
        self.live = self._live()
        saved = [
            r for state in self.states.values() for r in self.live_registers(state.takers[1:]) if not isinstance(r, str)
        ]
        self.saved = sorted(set(saved), key=register_code.name)
        self.runs = {
            state: self.choices + n for n, state in enumerate(p for p in self.states.values() if self.is_run(p))
        }
        self.width = self.choices + len(self.runs)

    def symbol(self, number: int) -> str:
        line = self.transitions.code[number]
        assert isinstance(line, MatchSymbol)
        return line.name

    def state_of(self, waiting: Waiting) -> SearchState:
        if waiting not in self.states:
            takers = tuple(n for n in waiting if n in self.transitions.bits)
            ends = any(map(self.transitions.ends, waiting))
            self.states[waiting] = SearchState(self.choices, takers, waiting[-1:] == (self.transitions.done,), ends)
            self.choices += max(len(takers), 1)
        if self.choices > MOST_CHOICES:
            raise UnknownExpression
        return self.states[waiting]

    def after(self, number: int) -> SearchState:
        return self.states[self.transitions.after(number)]

    def condition_of(self, number: int) -> ConditionCode:
        return self.conditions[self.symbol(number)]

    # Live registers ----------------------------------------------------------------------------------------------------

    def _live(self) -> dict[int, frozenset[Register]]:
        """For each instruction that takes a row, the registers that may be read from then on."""
        found: dict[int, frozenset[Register]] = {number: frozenset() for number in self.transitions.bits}
        changed = True
        while changed:
            old, found = found, {number: self._before(number, found) for number in found}
            changed = old != found
        return found

    def _before(self, number: int, live: dict[int, frozenset[Register]]) -> frozenset[Register]:
        after: frozenset[Register] = frozenset().union(*(live[n] for n in self.after(number).takers))
        slots = before(self.symbol(number), frozenset(r for r in after if isinstance(r, Slot)))
        return self.condition_of(number).reads | slots | {r for r in after if not isinstance(r, Slot)}

    def live_registers(self, takers: Waiting) -> frozenset[Register]:
        """The registers that may still be read when these instructions wait."""
        return frozenset().union(*(self.live[number] for number in takers))

    # The text ---------------------------------------------------------------------------------------------------------

    def source(self, memo: bool) -> str:
        """The source of the function; if `memo`, it remembers where the search has failed."""
        body = list(self._body(memo))
        # Locals are faster than globals.
        used = ["code", *self.register_code.columns.values(), *(f"ok{number}" for number in self.transitions.bits)]
        used += [f"saved_{name}" for name in sorted(self.saved_names)]
        head = f"def search(start, budget, *, {', '.join(f'{name}={name}' for name in used)}):"
        return "\n".join([head, "    first = end = spent = 0", "    number = 1", *body, ""])

    def _body(self, memo: bool) -> Iterator[str]:
        yield "    while True:"
        yield "        start = begins.find(1, start)"
        yield "        if start < 0: return count"
        yield "        if start >= end: first, end, number = partition(start)"
        yield "        row, best, stack = start, -1, []"
        yield "        spent -= row"
        yield "        limit = limits[start]" if self.within else "        pass"
        empty = [line for r in self.saved_everywhere() for line in self.register_code.empty(r)]
        yield from _indented(empty, 2)
        inner, outer = (self.begun[at_start].number for at_start in (True, False))
        yield f"        p = {inner} if start == first else {outer}"
        yield "        while True:"
        yield from _indented(self.dispatch(sorted(self.states.values(), key=lambda p: p.number), memo), 3)
        yield from _indented(self.backtrack(memo), 3)
        yield from _indented(self.end_of_start(memo), 2)

    def saved_everywhere(self) -> list[Register]:
        every = frozenset().union(*self.live.values())
        return sorted((r for r in every if not isinstance(r, str)), key=self.register_code.name)

    def dispatch(self, states: Sequence[SearchState], memo: bool) -> list[str]:
        if len(states) == 1:
            return self.block(states[0], memo)
        half = len(states) // 2
        lines = [f"if p < {states[half].number}:", *_indented(self.dispatch(states[:half], memo), 1)]
        return [*lines, "else:", *_indented(self.dispatch(states[half:], memo), 1)]

    def block(self, state: SearchState, memo: bool) -> list[str]:
        lines: list[str] = []
        if memo:
            lines += [f"if p == {state.number}:", *_indented(self.memo_check(state), 1)]
        if state.at_end:
            lines += ["if pad[row]: best, stack = row, []"]
        if state.is_match:
            lines += ["if best < row: best, stack = row, []"]
        for at, _ in enumerate(state.takers):
            attempt = self.attempt(state, at, memo)
            is_reached = f"if p <= {state.number + at}:"
            lines += attempt if at == len(state.takers) - 1 else [is_reached, *_indented(attempt, 1)]
        return ["while True:", *_indented([*lines, f"p = {FAIL}", "break"], 1)]

    def key(self, state: SearchState) -> list[str]:
        """The key of a visit to a state, beside the row: the registers whose values may differ between two visits."""
        symbols = {self.symbol(n) for n in self.transitions.bits if self.after(n) is state}
        implied = {
            r
            for r in self.live_registers(state.takers)
            if isinstance(r, Slot) and _is_newest(r) and state not in self.begun and all(map(r.takes, symbols))
        }
        return self.register_code.key(sorted(self.live_registers(state.takers) - implied, key=self.register_code.name))

    def memo_check(self, state: SearchState) -> list[str]:
        """Fail if the search has been in this state, else note that it has."""
        names = self.key(state)
        key = names[0] if len(names) == 1 else f"({', '.join(names)})"
        seen = f"seen{state.number}"
        fails = _indented([f"p = {FAIL}", "break"], 1)
        if not names:
            return [f"if {seen}[row]:", *fails, f"{seen}[row] = 1"]
        return [
            f"known = {seen}.get(row)",
            f"if known is None: {seen}[row] = {{{key}}}",
            f"elif {key} in known:",
            *fails,
            f"else: known.add({key})",
        ]

    def attempt(self, state: SearchState, at: int, memo: bool) -> list[str]:
        """Take the row by one instruction if possible, and push the other instructions as choices."""
        number = state.takers[at]
        condition, after = self.condition_of(number), self.after(number)
        taken = [
            *self.remaining_choices(state, at),
            *self.register_code.updates(
                self.symbol(number), self.sorted_live_registers(after), self.running_totals(condition)
            ),
            f"code[row] = {number}",
            "row += 1",
            *([f"p = {after.number}"] if after.number != state.number or len(state.takers) > 1 else []),
            "continue" if after is state else "break",
        ]
        lines = [f"if {condition.holds}:", *_indented(taken, 1)] if condition.holds else taken
        noted = [f"code[row] = {number}"] if condition.labels else []
        if state in self.runs and at == 0 and not (memo and self.key(state)):
            lines = self.run(state, memo)
        limited = "row < limit and " if self.within else ""
        return [f"if {limited}ok{number}[row]:", *_indented([*noted, *condition.lines, *lines], 1)]

    def sorted_live_registers(self, state: SearchState) -> list[Register]:
        return sorted(self.live_registers(state.takers), key=self.register_code.name)

    def running_totals(self, condition: ConditionCode) -> frozenset[Register]:
        return frozenset(r for r in condition.reads if isinstance(r, RunningTotal))

    def remaining_choices(self, state: SearchState, at: int) -> list[str]:
        """Push the choices that are left on the stack."""
        rest = state.takers[at + 1 :]
        if not rest:
            return []
        keep = [f"stack.append(row * {self.width} + {state.number + at + 1})", *self.saves(rest)]
        able = " or ".join(f"ok{number}[row]" for number in dict.fromkeys(rest[:3]))
        return [f"if {able}:", *_indented(keep, 1)] if len(rest) <= 3 else keep

    def saves(self, rest: Waiting) -> list[str]:
        names = [
            name for r in self.live_registers(rest) if not isinstance(r, str) for name in self.register_code.locals(r)
        ]
        return [f"saved_{name}[row] = {name}" for name in sorted(names)]

    def restores(self) -> list[str]:
        return [f"{name} = saved_{name}[row]" for r in self.saved for name in self.register_code.locals(r)]

    def end_of_start(self, memo: bool) -> list[str]:
        """Note the match of the start, if it has one, and continue with the next start."""
        # A failure under one limit, or with one match number, says nothing about others.
        end = "end" if self.numbered else "best"
        return [
            "if spent > budget: return start",
            *(["forget(start, limit)"] if memo and self.within else []),
            *["if best < 0:", "    start += 1", "    continue"],
            *["starts.append(start)", "lengths.append(best - start)", "codes.extend(code[start:best])"],
            *["number += 1", "budget += 4 * (best - start)"],
            *([f"forget(start, {end})"] if memo else []),
            self.onward,
        ]

    def backtrack(self, memo: bool) -> list[str]:
        lines = [
            f"if p != {FAIL}: continue",
            "spent += row",
            "if not stack: break",
            f"row, p = divmod(stack.pop(), {self.width})",
            "spent -= row - 1",
        ]
        lines += ["if spent > budget: break"]
        for state, number in self.runs.items():
            if len(state.takers) > 1 and not (memo and self.key(state)):
                lines += [f"if p == {number}:", *_indented([*self.backtrack_in_run(state), "continue"], 1)]
        return [*lines, *self.restores()]

    # Rows of one instruction ------------------------------------------------------------------------------------------

    def is_run(self, state: SearchState) -> bool:
        """Whether the first choice returns to its own state while rows match the symbol, whatever came before."""
        if not state.takers or self.after(state.takers[0]) is not state or self.condition_of(state.takers[0]).holds:
            return False
        return all(_is_newest(r) for r in self.renewed_registers(state))

    def renewed_registers(self, state: SearchState) -> list[Register]:
        """The live registers that each row of the run renews."""
        symbol = self.symbol(state.takers[0])
        wanted = [r for r in self.live_registers(state.takers) if isinstance(r, (Slot, RunningTotal))]
        return [r for r in wanted if r.takes(symbol)]

    def run(self, state: SearchState, memo: bool) -> list[str]:
        number, rest = state.takers[0], state.takers[1:]
        limits = [f"ok{number}.find(0, row)", *(["limit"] if self.within else [])]
        seen = f"seen{state.number}"
        reach = ", ".join([*limits, *([f"{seen}.find(1, row + 1)"] if memo else [])])
        keep = [f"stack += (row, (last - 1) * {self.width} + {self.runs[state]})", *self.saves(rest)] if rest else []
        return [
            f"last = min({reach}, count)",
            *keep,
            *([f"{seen}[row:last] = b'\\1' * (last - row)"] if memo else []),
            f"code[row:last] = b'\\x{number:02x}' * (last - row)",
            "row = last",
            *(f"{self.register_code.name(r)} = row - 1" for r in self.renewed_registers(state)),
            f"p = {state.number}",
            "continue",
        ]

    def backtrack_in_run(self, state: SearchState) -> list[str]:
        """Return to the last row of a run at which another choice may hold.

        The registers are saved at its first row.
        """
        renewed = [self.register_code.name(r) for r in self.renewed_registers(state)]
        saved = sorted(self.saved_names)
        return [
            "low = stack.pop()",
            "spent += 2 * row",
            *(f"{name} = saved_{name}[low]" for name in saved if name not in renewed),
            "while row > low:",
            *_indented(
                [*(f"{name} = row - 1" for name in renewed), *self.stop_where_possible(state.takers[1:]), "row -= 1"], 1
            ),
            f"if row > low: stack += (low, (row - 1) * {self.width} + {self.runs[state]})",
            *(f"if row == low: {name} = saved_{name}[low]" for name in renewed if name in saved),
            "spent -= 2 * row",
            f"p = {state.number + 1}",
        ]

    def stop_where_possible(self, rest: Waiting) -> list[str]:
        """Stop at a row that one of these instructions may take, according to quick tests."""
        able = " or ".join(f"ok{number}[row]" for number in rest)
        condition = self.condition_of(rest[0])
        if len(rest) > 1 or not condition.holds or condition.labels:
            return [f"if {able}: break"]
        limited = "row < limit and " if self.within else ""
        return [f"if {limited}{able}:", *_indented([*condition.lines, f"if {condition.holds}: break"], 1)]

    @functools.cached_property
    def saved_names(self) -> set[str]:
        return {name for r in self.saved for name in self.register_code.locals(r)}


def _is_newest(register: Register) -> bool:
    return isinstance(register, Slot) and not register.first and register.place == 0


def _indented(lines: Sequence[str], by: int) -> list[str]:
    return ["    " * by + line for line in lines]
