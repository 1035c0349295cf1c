"""The paper's test queries (Listing 1) give exactly the rows of the brute force, on both databases, however pushed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

import bridge
from tests.support import listing1

URLS = ("duckdb://", "sqlite://")
Events = list[tuple[str, dict, int]]


def sql_sigma(i: int, count: int) -> str:
    return f"SELECT * FROM stream[a:Integer, b:Integer] WHERE a - b = {i}"


def sql_join(i: int, count: int) -> str:
    window = f"WINDOW(RANGE {listing1.window_size(i, count)} MS)"
    return f"SELECT * FROM stream1[a:Integer] {window}, stream2[b:Integer] {window} WHERE a - b = {i + 1}"


def sql_alpha(i: int, count: int) -> str:
    return f"SELECT COUNT(*) FROM stream[a:Integer] WINDOW(RANGE {listing1.window_size(i, count)} MS)"


def sql_rho(i: int, count: int) -> str:
    return f"""SELECT z1, z2, z3 FROM stream[a:Integer]
               MATCHING (PATTERN xyu WITHIN {listing1.window_size(i, count)} MS
                         MEASURES z1:Integer, z2:Integer, z3:Integer
                         DEFINE
                             x AS true DO z1 = a,
                             y AS a - z1 = {i} DO z2 = a,
                             u AS a - z2 = {i} DO z3 = a)"""


def workload(kind: str, n: int, count: int) -> tuple[Callable[[int, int], str], Events, dict[int, list]]:
    """The query text, the events and the expected rows for each i."""
    turns = range(1, count + 1)
    if kind == "join":
        ones = listing1.single_rows(n, "a", 400 + count, seed=2)
        twos = listing1.single_rows(n, "b", 400, seed=3)
        events = [event for t in range(n) for event in (("stream1", ones[t], t), ("stream2", twos[t], t))]
        return sql_join, events, {i: listing1.join(ones, twos, i, count) for i in turns}
    rows = {
        "sigma": listing1.filter_rows(n, count),
        "alpha": listing1.single_rows(n, "a", 9, seed=5),
        "rho": listing1.rising_rows(n, count),
    }[kind]
    expected = {
        "sigma": lambda i: listing1.sigma(rows, i),
        "alpha": lambda i: listing1.alpha(rows, i, count),
        "rho": lambda i: listing1.rho(rows, i, count),
    }[kind]
    text = {"sigma": sql_sigma, "alpha": sql_alpha, "rho": sql_rho}[kind]
    return text, [("stream", row, t) for t, row in enumerate(rows)], {i: expected(i) for i in turns}


SINGLES = {("duckdb://", 1): 300, ("duckdb://", 80): 12, ("sqlite://", 80): 80}
"""How many events at the end are pushed one by one in the short run, where all of them would take minutes."""


def singly(events: Events) -> Iterator[Events]:
    return ([event] for event in events)


def at_the_end_singly(singles: int) -> Callable[[Events], Iterator[Events]]:
    def drive(events: Events) -> Iterator[Events]:
        yield from in_batches(events[:-singles])
        yield from singly(events[-singles:])

    return drive


def in_batches(events: Events) -> Iterator[Events]:
    rng = Random(6)
    while events:
        size = rng.randint(1, 400)
        yield events[:size]
        events = events[size:]


def check(url: str, kind: str, n: int, count: int, batches: Callable[[Events], Iterator[Events]]) -> None:
    text, events, expected = workload(kind, n, count)
    assert all(expected.values()), "every query is to have results"
    found: dict[int, list] = {i: [] for i in expected}
    with bridge.connect(url) as cep:
        for i, rows in found.items():
            cep.create_query(f"q{i}", text(i, count))
            cep.add_output_processor(
                f"q{i}", lambda e, rows=rows: rows.append((e.timestamp, tuple(e.payload.values())))
            )
        for batch in batches(events):
            if len(batch) == 1:
                cep.push_event(*batch[0])
            else:
                cep.push_all(batch)
    for i in expected:
        assert found[i] == expected[i], f"{kind} with i = {i}"


KINDS = ("sigma", "join", "alpha", "rho")


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("drive", ["singly", "in_batches"])
@pytest.mark.parametrize(("count", "n"), [(1, 2500), (80, 600)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("url", URLS)
def test_listing1(url, kind, count, n, drive):
    one_by_one = at_the_end_singly(SINGLES[url, count]) if (url, count) in SINGLES else singly
    check(url, kind, n, count, in_batches if drive == "in_batches" else one_by_one)


@pytest.mark.long
@pytest.mark.parametrize("batches", [singly, in_batches])
@pytest.mark.parametrize("count", [1, 10, 80])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("url", URLS)
def test_listing1_over_5000_events(url, kind, count, batches):
    check(url, kind, 5000, count, batches)


def test_rows_leave_the_window():
    """The first events are out of the windows well before the last: else the workload would not test expiry."""
    _, events, expected = workload("alpha", 600, 80)
    assert len(events) == 600
    assert expected[80][-1] == (599, (460,))
