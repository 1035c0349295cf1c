"""What a condition can look back at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nfa import Path, find_all

steps = st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 99)))


def path_of(taken):
    path = Path()
    for index, (symbol, row) in enumerate(taken):
        path = path.take(symbol, index, row)
    return path


@given(steps, st.sets(st.sampled_from("ABC")), st.integers(0, 3))
def test_first_and_last_count_from_the_ends_of_rows(taken, symbols, offset):
    path = path_of(taken)
    rows = [row for symbol, row in taken if not symbols or symbol in symbols]
    assert path.rows(*symbols) == rows
    assert path.last(*symbols, back=offset) == (rows[-1 - offset] if offset < len(rows) else None)
    assert path.first(*symbols, ahead=offset) == (rows[offset] if offset < len(rows) else None)
    assert list(path.steps()) == [(symbol, index, row) for index, (symbol, row) in enumerate(taken)][::-1]
    assert len(path) == len(taken)


@given(steps, st.integers(0, 9))
def test_a_fold_goes_over_the_rows_oldest_first(taken, asked_before):
    path = path_of(taken[:asked_before])
    path.fold("text", "", spell)
    for index, (symbol, row) in enumerate(taken[asked_before:], start=asked_before):
        path = path.take(symbol, index, row)
    assert path.fold("text", "", spell) == "".join(f"{symbol}{row} " for symbol, row in taken)


def spell(text, symbol, row):
    return f"{text}{symbol}{row} "


def test_running_aggregates_cost_one_step_a_row():
    steps_made = []

    def add(total, symbol, row):
        steps_made.append(row)
        return total + row

    found = find_all(
        "A+ B",
        [1] * 300,
        lambda symbol, row, path: symbol == "A" and path.fold("sum", 0, add) < 299,
        depends_on_path=True,
    )
    assert found == []
    assert len(steps_made) <= 300 * 300 / 2
    steps_made.clear()
    assert (
        len(find_all("A+", [1] * 300, lambda symbol, row, path: path.fold("sum", 0, add) < 300, depends_on_path=True))
        == 1
    )
    assert len(steps_made) == 299


def test_paths_may_be_very_long():
    path = path_of([("A", 1)] * 200_000)
    assert path.fold("sum", 0, lambda total, symbol, row: total + row) == 200_000
    del path
