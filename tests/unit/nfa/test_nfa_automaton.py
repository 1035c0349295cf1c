"""The automaton for patterns whose every way to match counts (rules P1 and P5)."""

from __future__ import annotations

import pickle
from itertools import product

import pytest
from hypothesis import given, settings

from nfa import BudgetError, PatternError, compile_automaton, parse_pattern, symbols
from nfa.automaton import STATE_LIMIT
from tests.support.nfa_cases import for_automata, words

LISTINGS = {
    "x y u": """
        0: x -> 1
        1: y -> 2
        2: u -> 3
        3: accepting""",
    "A B*": """
        0: A -> 1
        1: B -> 1, accepting""",
    "A | B | A": """
        0: A -> 1, B -> 1
        1: accepting""",
    "()": "0: accepting",
    "(A | B)* A": """
        0: A -> 1, B -> 0
        1: A -> 1, B -> 0, accepting""",
    "PERMUTE(A, B)": """
        0: A -> 1, B -> 2
        1: B -> 3
        2: A -> 3
        3: accepting""",
    "B A{1,2}?": """
        0: B -> 1
        1: A -> 2
        2: A -> 3, accepting
        3: accepting""",
    'A "b c"': """
        0: A -> 1
        1: "b c" -> 2
        2: accepting""",
}


@pytest.mark.parametrize("text", LISTINGS)
def test_listing(text):
    expected = "\n".join(line.strip() for line in LISTINGS[text].strip().splitlines())
    assert str(compile_automaton(parse_pattern(text))) == expected


@given(for_automata)
@settings(max_examples=150, deadline=None)
def test_accepts_just_the_words_of_the_pattern(tree):
    automaton = compile_automaton(tree)
    every = [word for length in range(7) for word in product(symbols(tree), repeat=length)]
    assert {word for word in every if automaton.accepts(word)} == words(tree, 6)


@given(for_automata)
@settings(max_examples=150, deadline=None)
def test_no_state_is_useless_and_no_two_are_alike(tree):
    automaton = compile_automaton(tree)
    moves = {(state, symbol): after for state, symbol, after in automaton.transitions}
    assert len(moves) == len(automaton.transitions)
    assert automaton.symbols == symbols(tree)
    order = {symbol: place for place, symbol in enumerate(automaton.symbols)}
    assert [(s, order[symbol]) for s, symbol, _ in automaton.transitions] == sorted((s, order[x]) for s, x in moves)
    # Told apart by the words they accept, found by growing the words; an equal set is an equal state.
    behaviour = {state: state in automaton.accepting for state in range(automaton.states)}
    for _ in range(automaton.states):
        behaviour = {
            state: (state in automaton.accepting, tuple(numbered(behaviour).get(moves.get((state, s))) for s in order))
            for state in behaviour
        }
        behaviour = numbered(behaviour)
    assert len(set(behaviour.values())) == automaton.states
    assert reaching(automaton.transitions, automaton.accepting, backward=True) == set(range(automaton.states))
    assert reaching(automaton.transitions, {0}, backward=False) == set(range(automaton.states))


def numbered(values):
    numbers = {}
    return {state: numbers.setdefault(value, len(numbers)) for state, value in values.items()}


def reaching(transitions, states, backward):
    found = set(states)
    while True:
        more = {(s if backward else t) for s, _, t in transitions if (t if backward else s) in found} - found
        if not more:
            return found
        found |= more


@pytest.mark.parametrize(("text", "what"), [("^ A", "an anchor"), ("A $", "an anchor"), ("A {- B -}", "an exclusion")])
def test_what_only_preference_knows_is_refused(text, what):
    with pytest.raises(PatternError, match=what) as caught:
        compile_automaton(parse_pattern(text))
    assert caught.value.position is None


@pytest.mark.parametrize("text", ["(A | B)* A (A | B){20}", "(A?){9000}", "A{10001}"])
def test_automata_beyond_the_limits_are_refused(text):
    with pytest.raises(BudgetError, match="automaton"):
        compile_automaton(parse_pattern(text))


def test_automata_up_to_the_limit_are_not():
    assert compile_automaton(parse_pattern(f"A{{{STATE_LIMIT - 1}}}")).states == STATE_LIMIT


def test_dot_text_quotes_names():
    assert '  0 -> 1 [label="a \\"b\\""]' in compile_automaton(parse_pattern('"a ""b"""')).to_dot().splitlines()


def test_automata_can_be_sent_to_other_processes():
    automaton = compile_automaton(parse_pattern("A (B | C)+"))
    assert pickle.loads(pickle.dumps(automaton)) == automaton
