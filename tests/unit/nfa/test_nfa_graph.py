"""Pictures of patterns: what they say, that they are XML, and what is shown without the extra."""

from __future__ import annotations

import random
import sys
from xml.etree import ElementTree

import pytest

from nfa import (
    BudgetError,
    Diagram,
    Graph,
    Symbol,
    compile_automaton,
    compile_program,
    diagram,
    find_all,
    parse_pattern,
    symbols,
)
from nfa.graph import Accepting, Move

PATTERNS = [
    "A", "STRT DOWN+ UP+", "A? B? C? D", "^ A (B | C)+? {- D* -} E $", "(A B | C D) E*", "PERMUTE(A, B, C)",
    "A (B C+)* D{2,4}", "(A (B | C D)+ E)+ F", "A B C D E F G H I J K L", "A+ B* C* D* E+ | X Y Z",
    "(LOGIN FAIL{3,5} SUCCESS | RESET+ LOGIN) LOGOUT $", "()", "^ $", '"a<b" "x & y"+', "A*? (B A)*",
]  # fmt: skip


def drawn(pattern: str) -> Diagram:
    return diagram(compile_program(parse_pattern(pattern)), pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_svg_is_xml_with_each_state_and_each_symbol(pattern: str) -> None:
    one = drawn(pattern)
    root = ElementTree.fromstring(Graph((one,)).to_svg())
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {str(state) for state in range(len(one.states))} <= {text.removesuffix(" $") for text in texts}
    assert all(str(Symbol(name)) in " ".join(texts) for name in symbols(parse_pattern(pattern)))
    assert pattern in texts


@pytest.mark.parametrize("pattern", PATTERNS)
def test_mermaid_has_each_state_and_each_arrow(pattern: str) -> None:
    one = drawn(pattern)
    lines = [line.strip() for line in Graph((one,)).to_mermaid().splitlines()]
    assert sum(line.startswith("s0_") and "((" in line for line in lines) == len(one.states)
    arrows = sum(len({move.target for move in one.moves(state)}) for state in range(len(one.states)))
    assert sum("->|" in line for line in lines) == arrows


def test_a_notebook_shows_svg_or_without_the_extra_mermaid(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph((drawn("A B"),))
    assert graph._repr_svg_() == graph.to_svg() and not graph._repr_mimebundle_()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert graph._repr_svg_() is None
    assert graph._repr_mimebundle_() == {"text/vnd.mermaid": graph.to_mermaid()}
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[graph\]'"):
        graph.to_svg()


def test_two_pictures_are_one_file(tmp_path) -> None:
    both = Graph((drawn("A B"), drawn("C")))
    both.save(tmp_path / "both.svg")
    both.save(tmp_path / "both.gv")
    assert ElementTree.parse(tmp_path / "both.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "both.gv").read_text() == both.to_dot() + "\n"
    both.save(tmp_path / "both.mmd")
    assert (tmp_path / "both.mmd").read_text().startswith("flowchart LR")
    with pytest.raises(ValueError, match="a picture is"):
        both.save(tmp_path / "both.png")


def test_marks_and_preference_are_in_the_text() -> None:
    assert str(drawn("^ A B*? {- C -} $")).splitlines() == [
        "0: ^ A -> 1",
        "1: {- C -} -> 2, B -> 1",
        "2: accepting at the end ($)",
    ]
    assert drawn("A+?").states == ((Move("A", 1),), (Accepting(),))
    assert 'label="2: {- C -}", style=dashed' in Graph((drawn("A (B | {- C -} D)"),)).to_dot()
    assert r'label="1: B\n2: {- C -}"]' in Graph((drawn("A (B | {- C -})"),)).to_dot()


def test_an_automaton_has_no_preference() -> None:
    one = diagram(compile_automaton(parse_pattern("A (B | C)")), "")
    assert one.labels(1) == ["B", "C"]


def test_quotes_in_names_are_escaped() -> None:
    assert r'label="\"x\"\"y\""' in Graph((drawn('"x""y"'),)).to_dot()
    assert '|"#34;x#34;#34;y#34;"|' in Graph((drawn('"x""y"'),)).to_mermaid()


def test_a_picture_of_too_many_states_is_refused() -> None:
    with pytest.raises(BudgetError, match="more than 400 states"):
        drawn("A{500}")


@pytest.mark.parametrize("seed", range(20))
def test_the_picture_finds_the_matches_that_the_machine_finds(seed: int) -> None:
    chance = random.Random(seed)
    pattern = chance.choice(
        ["A (A | B)*? B", "(A | A B) (B | C)?", "PERMUTE(A, B?) C*", "(A* B)+ C", "A{2,3}? (C | B)+"]
    )
    word = "".join(chance.choice("ABC") for _ in range(8))
    found = find_all(pattern, word, lambda symbol, row, path: row == symbol)
    one = drawn(pattern)
    for start in range(len(word)):
        mine = first_way(one, 0, word, start)
        theirs = next((m for m in found if m.start == start), None)
        if theirs is not None:
            assert mine is not None and mine == len(theirs.memberships)


def first_way(one: Diagram, state: int, word: str, at: int) -> int | None:
    """How many rows the most preferred way takes."""
    for way in one.states[state]:
        if isinstance(way, Accepting):
            return 0
        if at < len(word) and word[at] == way.symbol and (rest := first_way(one, way.target, word, at + 1)) is not None:
            return rest + 1
    return None
