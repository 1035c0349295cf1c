"""EPL's variables: values under names."""

from __future__ import annotations

from typing import Any

import pytest

import bridge
from bridge.errors import BridgeError

VARIABLES = [
    "create schema A (k string, v int)",
    "create variable int Most = 3",
    "create constant variable string NAME = 'a'",
    "create variable double half = 0.5",
    "create variable long below := -5",
    "create variable boolean yes = true",
    "create variable int nothing",
]

EVENTS = [("A", {"k": k, "v": v}, ts) for ts, (k, v) in enumerate([("a", 1), ("b", 4), ("a", 2), ("a", 3)], 1)]

QUERIES: dict[str, list[dict[str, Any]]] = {
    "select k, Most, NAME || 'x' as n, half * v as h, yes as y, nothing as z, below from A(v < most)": [
        {"ts": 1, "k": "a", "Most": 3, "n": "ax", "h": 0.5, "y": True, "z": None, "below": -5},
        {"ts": 3, "k": "a", "Most": 3, "n": "ax", "h": 1.0, "y": True, "z": None, "below": -5},
    ],
    "select count(*) as n from A#keepall where k = NAME having count(*) < Most": [{"ts": 1, "n": 1}, {"ts": 3, "n": 2}],
    "select a.v as v, b.v as w from pattern [every a=A(v > Most) -> b=A(v < Most)]": [{"ts": 3, "v": 4, "w": 2}],
    "select * from A match_recognize (measures X.v + Most as x pattern (X) define X as X.v > Most)": [
        {"ts": 2, "x": 7}
    ],
}


@pytest.mark.parametrize("url", ["duckdb://", "sqlite://"])
def test_a_variable_has_its_value_wherever_it_is_named(url: str) -> None:
    found: dict[str, list[Any]] = {text: [] for text in QUERIES}
    with bridge.connect(url) as cep:
        for place, text in enumerate([*VARIABLES, *QUERIES]):
            cep.create_query(f"q{place}", text, language="epl")
            if text in QUERIES:
                cep.add_output_processor(
                    f"q{place}", lambda e, text=text: found[text].append({"ts": e.timestamp, **e.payload})
                )
        cep.push_all(EVENTS)
    assert found == QUERIES


def test_a_script_says_the_same() -> None:
    script = ";\n".join([*VARIABLES, *(f"@name('q{place}') {text}" for place, text in enumerate(QUERIES))])
    found = bridge.replay(EVENTS, script, language="epl")
    assert {text: found[f"q{place}"].to_pylist() for place, text in enumerate(QUERIES)} == QUERIES


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("create variable int Most = 4", "there is a variable 'Most' already"),
        ("create variable int x = ¦'a'", "the variable 'x' is INTEGER, 'a' is VARCHAR"),
        ("create variable int x = ¦v + 1", "the value of a variable is computed of constants"),
        ("create variable int¦[] x = {1}", "a variable of several values is not supported"),
        ("create variable ¦foo x", "the type 'foo' is not supported"),
        ("on A as a set ¦Most = 5", "a statement has the value of 'Most' as a constant"),
        ("on A as a set ¦NAME = 'b'", "the variable 'NAME' is constant"),
        ("on A as a set ¦Mist = 5", "unknown variable 'Mist'"),
        ("on A as a set half = ¦k", "the variable 'half' is DOUBLE, k is VARCHAR"),
        ("on A as a set below = ¦(select 1 from A)", "a sub-query is not supported here"),
        ("on A as a set below = ¦w", "unknown column 'w'"),
        ("on A as a set below¦", "= is expected"),
        ("on ¦A#keepall as a set below = 1", "on wants a stream"),
        ("select ¦Mist from A", "unknown column 'Mist'"),
    ],
)
def test_what_is_no_variable_is_refused(marked: str, message: str) -> None:
    before, _, after = marked.partition("¦")
    with bridge.connect("sqlite://") as cep:
        for place, text in enumerate(VARIABLES):
            cep.create_query(f"s{place}", text, language="epl")
        cep.create_query("read", "select Most from A", language="epl")
        with pytest.raises(BridgeError) as refused:
            cep.create_query("q", before + after, language="epl")
    assert message in str(refused.value)
    if after:
        assert getattr(refused.value, "position", None) == len(before)
