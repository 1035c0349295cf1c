"""The engine finds the matches that the report's Table 5 defines, and selects them as its Table 6 says."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

import bridge
from bridge.frontends.epl.cursor import EplCursor
from bridge.frontends.epl.row_pattern import pattern
from nfa.pattern import groups
from tests.support import epl_generate
from tests.support.epl_rows import Row
from tests.support.epl_table5 import POLICIES, Condition, Match, evaluate, generate, is_selected, labels

LENGTH = 8


def define(chance: random.Random, names: Sequence[str]) -> tuple[str, dict[str, Condition]]:
    """Conditions on single events and on the row before, as text and as functions."""
    written, conditions = [], dict[str, Condition]()
    for name in names:
        bound = chance.randint(1, 4)
        if chance.random() < 0.3:
            written.append(f"{name} as {name}.v >= prev({name}.v)")
            conditions[name] = lambda rows, at, _: at > 0 and rows[at][2] >= rows[at - 1][2]
        elif chance.random() < 0.8:
            written.append(f"{name} as {name}.v <= {bound}")
            conditions[name] = lambda rows, at, _, bound=bound: rows[at][2] <= bound
    return f" define {', '.join(written)}" if written else "", conditions


def found(text: str, measures: str, rows: Sequence[Row]) -> list[tuple[object, ...]]:
    """The measures of what the engine reports."""
    told: list[tuple[object, ...]] = []
    with bridge.connect("sqlite://") as cep:
        cep.create_query("schema", epl_generate.SCHEMA.format("S"), language="epl")
        cep.create_query("q", f"select * from S match_recognize (measures {measures} {text})", language="epl")
        cep.add_output_processor("q", lambda event: told.append(tuple(event.payload.values())))
        cep.push_all([("S", list(row[1:]), row[0]) for row in rows])
    return told


def check(seed: int) -> None:
    """All matches; then those that each policy selects."""
    chance = random.Random(seed)
    regexp = generate(chance)
    while len(labels(regexp)) < 2:
        regexp = generate(chance)
    names, several = labels(regexp), groups(pattern(EplCursor(str(regexp))))
    written, conditions = define(chance, names)
    rows = [(place, f"E{place}", chance.randint(1, 4), None) for place in range(LENGTH)]
    expected = evaluate(regexp, conditions, rows)
    measures = ", ".join(_measures(name, name in several) for name in names)
    told = {
        after: found(f"{how} after match skip {after} row pattern ({regexp}){written}", measures, rows)
        for after, how in [("to current", "all matches"), ("past last", ""), ("to next", "")]
    }
    by_row: dict[tuple[object, ...], list[Match]] = {}
    for match in expected:
        by_row.setdefault(_measured(match, names, several, rows), []).append(match)
    everything = sorted([row for row, same in by_row.items() for _ in same], key=repr)
    assert sorted(told["to current"], key=repr) == everything, (str(regexp), written, rows)
    for after, chosen in told.items():
        assert bool(chosen) == bool(expected)
        assert set(chosen) <= set(by_row), (after, str(regexp), written, rows)
        assert after == "to current" or is_selected(after, [by_row[row][0] for row in chosen]), (after, str(regexp))
    assert set(told) == set(POLICIES)


def _measures(name: str, several: bool) -> str:
    if not several:
        return f"{name}.id as i{name}"
    return f"count({name}.id) as n{name}, first({name}.id) as f{name}, last({name}.id) as l{name}"


def _measured(match: Match, names: Sequence[str], several: frozenset[str], rows: Sequence[Row]) -> tuple[object, ...]:
    measured: list[object] = []
    for name in names:
        ids = [rows[place][1] for label, place in match if label == name]
        ends = [ids[0], ids[-1]] if ids else [None, None]
        measured += [len(ids), *ends] if name in several else ends[-1:]
    return tuple(measured)


@pytest.mark.parametrize("seed", range(12))
def test_the_matches_are_those_of_table_5(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_the_matches_are_those_of_table_5_many_times(block: int) -> None:
    for seed in range(block * 500, (block + 1) * 500):
        check(seed)
