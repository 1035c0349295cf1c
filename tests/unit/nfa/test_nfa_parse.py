"""PATTERN text to tree and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfa import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    PatternError,
    Permutation,
    Quantified,
    Symbol,
    length_bounds,
    nullable,
    parse_pattern,
    symbols,
)
from nfa.parse import DEPTH_LIMIT
from tests.support.nfa_cases import anchors, empties, excluding, words

A, B, C = map(Symbol, "ABC")
any_names = st.text(min_size=1, max_size=4).map(Symbol) | st.sampled_from(["A", "permute", 'a "b"', "Größe"]).map(
    Symbol
)
any_trees = st.recursive(any_names | anchors | empties, excluding, max_leaves=12)


@given(any_trees)
def test_what_is_written_is_read_back(tree):
    assert parse_pattern(str(tree)) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("A", A),
        ("A B", Concatenation((A, B))),
        ("A|B C", Alternation((A, Concatenation((B, C))))),
        ("(A|B)C", Concatenation((Alternation((A, B)), C))),
        ("((A))", A),
        ("()", Empty()),
        ("( )*", Quantified(Empty(), 0, None)),
        ("A*", Quantified(A, 0, None)),
        ("A+?", Quantified(A, 1, None, greedy=False)),
        ("A??", Quantified(A, 0, 1, greedy=False)),
        ("A ? ?", Quantified(A, 0, 1, greedy=False)),
        ("A{2}", Quantified(A, 2, 2)),
        ("A{2,}?", Quantified(A, 2, None, greedy=False)),
        ("A{ , 3 }", Quantified(A, 0, 3)),
        ("A{,}", Quantified(A, 0, None)),
        ("A{1,3}?", Quantified(A, 1, 3, greedy=False)),
        ("A B*", Concatenation((A, Quantified(B, 0, None)))),
        ("permute(A, B|C)", Permutation((A, Alternation((B, C))))),
        ("PERMUTE (A)", Permutation((A,))),
        ("{- A B -}", Exclusion(Concatenation((A, B)))),
        ("{-A-}+", Quantified(Exclusion(A), 1, None)),
        ("^A$", Concatenation((Anchor("^"), A, Anchor("$")))),
        ('"a ""b"""*', Quantified(Symbol('a "b"'), 0, None)),
        ('"PERMUTE"', Symbol("PERMUTE")),
        ("Größe", Symbol("Größe")),
        ("A /* ( */ B -- )\n C", Concatenation((A, B, C))),
        ("A\n\tB", Concatenation((A, B))),
    ],
)
def test_text_is_read_as(text, tree):
    assert parse_pattern(text) == tree


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (Concatenation((A, Quantified(Concatenation((B, C)), 1, None, greedy=False))), "A (B C)+?"),
        (Quantified(Quantified(A, 0, None), 0, 1), "(A*)?"),
        (Alternation((A, Alternation((B, C)))), "A | (B | C)"),
        (Concatenation((A, Concatenation((B, C)))), "A (B C)"),
        (Quantified(A, 2, 5), "A{2,5}"),
        (Quantified(A, 1, 1), "A{1}"),
        (Concatenation((Symbol("a b"), Anchor("$"))), '"a b" $'),
    ],
)
def test_trees_are_written_with_as_few_parentheses_as_possible(tree, text):
    assert str(tree) == text


@pytest.mark.parametrize(
    ("text", "names", "read"),
    [
        ("xyu", None, "xyu"),
        ("xyu", {"x", "y", "u"}, "x y u"),
        ("xy*", {"x", "y"}, "x y*"),
        ("xy u", {"x", "y", "u"}, "x y u"),
        ("xyu", {"x", "y", "u", "xyu"}, "xyu"),
        ("xy", {"x", "y", "long"}, "x y"),
        ("xyu", {"x", "y"}, "x y u"),
        ("xyu", {"x", "y", "long"}, "xyu"),
        ("xyu", {"a"}, "xyu"),
        ("xyu", set(), "xyu"),
        ("x1", {"x"}, "x1"),
        ("x_", {"x"}, "x_"),
        ("u", {"x"}, "u"),
        ('"xy"', {"x", "y"}, "xy"),
        ("PERMUTE(xy, u)", {"x", "y", "u"}, "PERMUTE(x y, u)"),
        ("(xy)+", {"x", "y"}, "(x y)+"),
    ],
)
def test_letters_standing_together(text, names, read):
    assert str(parse_pattern(text, names=names)) == read


def test_letters_standing_together_are_not_nested():
    assert parse_pattern("AB C", names="ABC") == Concatenation((A, B, C))


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "expected here"),
        ("   ", 3, "expected here"),
        ("(A", 0, "'(' is not closed by ')'"),
        ("A (B -}", 2, "not closed by ')' before '-}'"),
        ("A)", 1, "')' closes nothing"),
        ("A -}", 2, "'-}' closes nothing"),
        ("A, B", 1, "',' closes nothing"),
        ("A}", 1, "'}' closes nothing"),
        ("A{3,2}", 1, "at least 3 but at most 2"),
        ("A{0}", 1, "must allow one"),
        ("A{,0}", 1, "must allow one"),
        ("A{}", 1, "written {n}"),
        ("A{2", 1, "not closed by '}'"),
        ("A{x}", 1, "written {n}"),
        ("A{99999999999}", 2, "above 999999999"),
        ("*", 0, "nothing before it to repeat"),
        ("A | +", 4, "nothing before it to repeat"),
        ("{2}", 0, "nothing before it to repeat"),
        ("A**", 2, "follows a quantifier"),
        ("A???", 3, "follows a quantifier"),
        ("A |", 3, "expected here"),
        ("A | | B", 4, "expected before '|'"),
        ("A ; B", 2, "';' has no meaning"),
        ("2A", 0, "before '2'"),
        ("A 'B'", 2, "no meaning"),
        ("PERMUTE", 0, "needs a list"),
        ("PERMUTE A", 0, "needs a list"),
        ("PERMUTE()", 8, "expected before ')'"),
        ("PERMUTE(A, )", 11, "expected before ')'"),
        ("PERMUTE(A B", 7, "not closed by ')'"),
        ("{- A", 0, "'{-' is not closed by '-}'"),
        ("{- -}", 3, "expected before '-}'"),
        ("{- A {- B -} -}", 5, "cannot stand inside an exclusion"),
        ("{- (A | PERMUTE(B, {- C -})) -}", 19, "cannot stand inside an exclusion"),
        ('A "b', 2, "quoted name is never closed"),
        ('A ""', 2, "cannot be empty"),
        ("A /* B", 2, "comment is never closed"),
        ("(" * 65 + "A" + ")" * 65, 64, "deeper than 64"),
    ],
)
def test_what_is_no_pattern_is_refused_at_its_place(text, position, message):
    with pytest.raises(PatternError) as caught:
        parse_pattern(text, offset=1000)
    assert message in caught.value.message
    assert caught.value.position == 1000 + position


def test_an_exclusion_may_follow_an_exclusion():
    assert parse_pattern("{- A -} {- B -}") == Concatenation((Exclusion(A), Exclusion(B)))


def test_groups_may_nest_as_deep_as_the_limit():
    text = "(" * DEPTH_LIMIT + "A+" + ")+" * DEPTH_LIMIT
    assert str(parse_pattern(text)) == text
    with pytest.raises(PatternError, match="nested deeper"):
        parse_pattern("(" * 50_000)


marks = st.text(alphabet=' ABxy"(){}|,*+?^$-/123\n')
pieces = st.lists(st.sampled_from(["PERMUTE(", "{-", "-}", "A", "B ", "(", ")", ",", "|", "{2,", "}", "?", "*"]))


@given(marks | st.text() | pieces.map("".join), st.none() | st.frozensets(st.sampled_from("ABxy")))
def test_any_text_is_a_pattern_or_a_pattern_error(text, names):
    try:
        tree = parse_pattern(text, names=names)
    except PatternError as error:
        assert error.message and 0 <= error.position <= len(text)
    else:
        assert parse_pattern(str(tree)) == tree


def test_symbols_stand_in_order_of_first_appearance():
    assert symbols(parse_pattern("B (A | {- C -})* PERMUTE(D, A) B")) == ("B", "A", "C", "D")


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("()", (0, 0)),
        ("^ A $", (1, 1)),
        ("A | B C", (1, 2)),
        ("A* | B", (0, None)),
        ("PERMUTE(A, B C?)", (2, 3)),
        ("(A B?){2,3}", (2, 6)),
        ("{- A{4,} -}", (4, None)),
        ("()*", (0, 0)),
    ],
)
def test_length_bounds(text, bounds):
    assert length_bounds(parse_pattern(text)) == bounds
    assert nullable(parse_pattern(text)) == (bounds[0] == 0)


@given(st.recursive(st.sampled_from([A, B]) | empties, excluding, max_leaves=5))
def test_length_bounds_are_those_of_the_words(tree):
    least, most = length_bounds(tree)
    lengths = {len(word) for word in words(without_exclusions(tree), 6)}
    assert (min(lengths) == least) if least <= 6 else not lengths
    assert max(lengths, default=0) == most or most is None or most > 6


def without_exclusions(tree):
    return parse_pattern(str(tree).replace("{-", "(").replace("-}", ")"))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Symbol(""),
        lambda: Concatenation((A,)),
        lambda: Alternation(()),
        lambda: Permutation(()),
        lambda: Quantified(A, 3, 2),
        lambda: Quantified(A, 0, 0),
        lambda: Quantified(A, -1, None),
        lambda: Anchor("x"),
    ],
)
def test_trees_that_no_text_can_mean_are_refused(build):
    with pytest.raises(ValueError):
        build()
