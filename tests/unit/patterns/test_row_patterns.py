"""The thread machine against the definition, and the examples that other tests are fed with."""

from __future__ import annotations

from random import Random

import pytest

from bridge.query.row_pattern import RowPattern
from nfa import find_all, past_last_row, to_first, to_last, to_next_row
from nfa.errors import SkipError
from nfa.pattern import Pattern, symbols
from tests.support.row_pattern_generate import Example, generate, named, random_pattern, shrink
from tests.support.row_patterns import Match, NowhereError, expression, matches, recognize


def letters_match(pattern: Pattern, text: str, skip: str) -> list[tuple]:
    """By the definition, with the condition that a row is the symbol's letter."""

    def after(match: Match) -> int:
        rows = [step.row for step in match.steps if step.symbol == "A"]
        if skip == "next":
            return match.start + 1
        if skip in ("first", "last"):
            target = rows[0 if skip == "first" else -1] if rows else match.start
            if target == match.start:
                raise NowhereError
            return target
        return match.steps[-1].row + 1

    found = matches(pattern, len(text), lambda path, number: text[path[-1].row] == path[-1].symbol, after)
    return [(match.number, match.start, match.steps) for match in found]


SKIPS = {"past": past_last_row, "next": to_next_row, "first": to_first("A"), "last": to_last("A")}


def check_letters(seed: int) -> None:
    rng = Random(seed)
    pattern = random_pattern(rng, "ABC", rng.choice([1, 2, 3]))
    text = "".join(rng.choices("ABC", [3, 2, 1], k=rng.randint(0, 7)))
    skip = rng.choice(list(SKIPS))
    try:
        expected = letters_match(pattern, text, skip)
    except NowhereError:
        with pytest.raises(SkipError):
            find_all(pattern, text, lambda symbol, row, path: symbol == row, skip=SKIPS[skip])
        return
    found = find_all(pattern, text, lambda symbol, row, path: symbol == row, skip=SKIPS[skip])
    assert [tuple(match) for match in map(_plain, found)] == expected, f"seed {seed}: {pattern} over {text!r}, {skip}"


def _plain(match):
    return match.number, match.start, match.memberships


@pytest.mark.parametrize("block", range(4))
def test_the_machine_finds_what_the_definition_says(block: int):
    for seed in range(block * 4000, (block + 1) * 4000):
        check_letters(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_the_machine_finds_what_the_definition_says_a_million_times(block: int):
    for seed in range(10**6 + block * 10**4, 10**6 + (block + 1) * 10**4):
        check_letters(seed)


def test_examples_are_what_their_seed_says():
    assert str(generate(11)) == str(generate(11))
    assert len({str(generate(seed)) for seed in range(50)}) == 50


def test_examples_keep_to_the_grades_asked_for():
    assert all(generate(seed, ("row", "first")).grades <= {"row", "first"} for seed in range(50))


def test_shrinking_keeps_the_failure_and_drops_the_rest():
    def fails(example: Example) -> bool:
        return "B" in symbols(example.clause.pattern) and len(example.rows) > 1

    seed = next(seed for seed in range(1000) if fails(generate(seed)))
    small = shrink(generate(seed), fails)
    assert len(small.rows) == 2
    assert str(small.clause.pattern) == "B"


def test_the_text_of_an_example_is_read_as_its_clause():
    reader = pytest.importorskip("bridge.frontends.sql.match_recognize")
    from bridge.frontends.cursor import Cursor

    for seed in range(300):
        example = generate(seed)
        read = Example(reader.match_recognize(Cursor(example.text)), example.rows)
        assert outcome(read) == outcome(example), str(example)


def outcome(example: Example) -> object:
    try:
        return example.expected()
    except NowhereError as error:
        return str(error)


ROWS = [{"t": t, "x": x} for t, x in enumerate([10, 8, 6, 7, 9, 5], 1)]


def test_the_definition_on_a_v_shape():
    from nfa import parse_pattern

    clause = RowPattern(
        pattern=parse_pattern("STRT DOWN+ UP+"),
        define=(("DOWN", expression("x < PREV(x)")), ("UP", expression("x > PREV(x)"))),
        measures=tuple(
            named(expression(text), name)
            for name, text in {"a": "STRT.t", "low": "LAST(DOWN.t)", "z": "LAST(UP.t)", "n": "COUNT(UP.*)"}.items()
        ),
    )
    assert recognize(clause, ROWS, ["t", "x"]) == (("a", "low", "z", "n"), [(1, 3, 5, 2)])
