"""The reference itself against SEMANTICS: its worked examples, and one case computed by hand for each rule."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bridge.query.expressions import scalar
from bridge.query.match import Definition, Match
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Relation, Stream, Union, Window
from tests.support.generate import Case, code, print_case, random_case, shrink
from tests.support.reference import MeaningError, Scope, column_names, derivative, evaluate, matches_nothing, value

S, L, R = Stream("s"), Stream("l"), Stream("r")
SCHEMAS = {"s": "a INTEGER", "k": "g VARCHAR, a INTEGER", "l": "a INTEGER", "r": "b INTEGER"}
COUNT = ["COUNT(*) AS n"]
NULL = None


def events(text: str, stream: str = "s") -> list[tuple[str, tuple, int]]:
    """`1:5 2:x,7 r3:1` → events at 1, 2, 3; a letter before the time names another stream, `-` is NULL."""
    found = re.findall(r"([a-z]?)(-?\d+):(\S+)", text)
    return [(name or stream, tuple(map(constant, values.split(","))), int(ts)) for name, ts, values in found]


def constant(text: str) -> int | str | None:
    if text == "-":
        return None
    return int(text) if text.lstrip("-").isdigit() else text


def run(query: Node, text: str, stream: str = "s", end: int | None = None, **more) -> list[tuple]:
    """The results, as (ts, value, …)."""
    results = evaluate({"query": query}, SCHEMAS, events(text, stream), end=end, **more)["query"]
    return [(ts, *values) for ts, values in results]


# The worked examples --------------------------------------------------------------------------------------------------


def test_o2_worked_example():
    query = Aggregate(Window(S, "RANGE 3 MS"), ["COUNT(*) AS n", "SUM(a) AS total"])
    assert run(query, "1:5 2:7 2:1 4:2") == [(1, 1, 5), (2, 2, 12), (2, 3, 13), (4, 3, 10)]


def test_o3_worked_example():
    query = Correlate({"l": Window(L, "RANGE 2 MS"), "r": Window(R, "RANGE 4 MS")}, "a = b")
    assert run(query, "l1:7 r2:7 r3:7 l4:7 r6:7") == [(2, 7, 7), (4, 7, 7), (4, 7, 7)]


RHO = Match(
    S,
    "xyu",
    500,
    "z1 INTEGER, z2 INTEGER, z3 INTEGER",
    (
        Definition("x", scalar("true"), {"z1": "a"}),
        Definition("y", "a - z1 = 1", {"z2": "a"}),
        Definition("u", "a - z2 = 1", {"z3": "a"}),
    ),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:7 2:1 3:2 4:3 5:4", [(4, 1, 2, 3), (5, 2, 3, 4)]),
        ("2:1 3:2 3:5 4:3 4:6", [(4, 1, 2, 3)]),
        ("2:1 3:2 3:5 4:3 4:6 5:7", [(4, 1, 2, 3), (5, 5, 6, 7)]),
        ("1:1 2:2 600:3", []),
        ("1:1 2:2 500:3", [(500, 1, 2, 3)]),
        ("1:1 2:2 501:3", []),
    ],
)
def test_p_worked_examples(text, expected):
    assert run(RHO, text) == expected


# T, W -----------------------------------------------------------------------------------------------------------------


def test_t2_events_come_in_order_of_time():
    with pytest.raises(MeaningError, match="T2"):
        run(S, "2:1 1:1")


def test_w1_a_row_is_valid_from_its_ts_to_before_ts_plus_range():
    assert run(Aggregate(Window(S, "RANGE 2 MS"), COUNT), "1:0 2:0 3:0") == [(1, 1), (2, 2), (3, 2)]


def test_w2_rows_counts_by_arrival_also_at_equal_ts():
    assert run(Aggregate(Window(S, "ROWS 2"), ["SUM(a) AS n"]), "1:1 1:2 1:4 9:8") == [(1, 1), (1, 3), (1, 6), (9, 12)]


def test_w2_rows_per_partition_and_null_is_a_partition():
    query = Aggregate(Window(Stream("k"), "ROWS 2", "g"), ["SUM(a) AS n"])
    assert run(query, "1:x,1 2:-,2 3:x,4 4:-,8 5:x,16 6:-,32", "k") == [
        (1, 1),
        (2, 3),
        (3, 7),
        (4, 15),
        (5, 30),
        (6, 60),
    ]


def test_w3_a_jumping_window_reports_at_its_boundaries_before_the_events_there():
    query = Aggregate(Window(S, "RANGE 4 MS SLIDE 2 MS"), ["COUNT(*) AS n", "SUM(a) AS total"])
    assert run(query, "1:1 2:2 3:4 4:8") == [(2, 1, 1), (4, 3, 7)]
    # 6 holds 2..5, 8 holds 4..7; 10 (6..9) is empty and reports nothing.
    assert run(query, "1:1 2:2 3:4 4:8", end=99) == [(2, 1, 1), (4, 3, 7), (6, 3, 14), (8, 1, 8)]


def test_w3_boundaries_count_from_zero_also_below_it():
    assert run(Aggregate(Window(S, "RANGE 5 MS SLIDE 5 MS"), COUNT), "-7:0 -5:0 -1:0 0:0", end=5) == [
        (-5, 1),
        (0, 2),
        (5, 1),
    ]


def test_w3_a_gap_between_slides_loses_rows():
    assert run(Window(S, "RANGE 1 MS SLIDE 3 MS"), "0:0 1:1 2:2 3:3 5:5", end=6) == [(3, 2), (6, 5)]


def test_w3_rows_enter_at_the_boundary_one_after_another():
    query = Correlate({"x": Window(S, "RANGE 2 MS SLIDE 2 MS"), "r": Window(R, "RANGE 9 MS")})
    assert run(query, "r0:7 0:1 1:2 r2:8 r3:9 r4:6") == [
        (2, 1, 7),
        (2, 2, 7),
        (2, 1, 8),
        (2, 2, 8),
        (3, 1, 9),
        (3, 2, 9),
    ]


def test_w3_groups_of_a_boundary_come_in_order_of_their_first_row_after_the_filter():
    query = Aggregate(
        Filter(Window(Stream("k"), "RANGE 4 MS SLIDE 4 MS"), "a > 0"), ["g", "SUM(a) AS n"], ["g"], "SUM(a) > 1"
    )
    assert run(query, "0:y,0 1:x,1 1:z,1 2:y,2 3:x,3", "k", end=8) == [(4, "x", 4), (4, "y", 2)]


def test_w3_rows_slide_reports_at_each_mth_row():
    query = Aggregate(Window(S, "ROWS 3 SLIDE 2"), ["COUNT(*) AS n", "SUM(a) AS total"])
    assert run(query, "1:1 1:2 3:4 5:8 5:16 5:32") == [(1, 2, 3), (5, 3, 14), (5, 3, 56)]
    assert run(Window(S, "ROWS 1 SLIDE 2"), "1:1 2:2 3:3 4:4") == [(2, 2), (4, 4)]
    assert run(Window(S, "ROWS 2 SLIDE 1"), "1:1 2:2") == [(1, 1), (2, 1), (2, 2)]


def test_w3_rows_slide_counts_per_partition():
    query = Aggregate(Window(Stream("k"), "ROWS 2 SLIDE 2", "g"), ["g", "SUM(a) AS n"], "g")
    assert run(query, "1:x,1 2:y,2 3:y,4 4:x,8", "k") == [(3, "y", 6), (4, "x", 9)]


def test_w3_rows_slide_is_valid_until_the_next_renewal():
    query = Correlate({"x": Window(S, "ROWS 1 SLIDE 2"), "r": Window(R, "NOW")})
    assert run(query, "1:1 r1:9 2:2 r3:8 3:3 r3:7 4:4 r4:6") == [(3, 2, 8), (3, 2, 7), (4, 4, 6)]


def test_w4_now_and_unbounded():
    assert run(Aggregate(Window(S, "NOW"), COUNT), "1:0 1:0 2:0") == [(1, 1), (1, 2), (2, 1)]
    assert run(Aggregate(Window(S, "UNBOUNDED"), COUNT), "1:0 1:0 999:0") == [(1, 1), (1, 2), (999, 3)]


@pytest.mark.parametrize("query", [Aggregate(Filter(S, "a > 0"), COUNT), Correlate({"l": L, "r": Window(R, "NOW")})])
def test_w4_a_stream_without_a_window_is_refused(query):
    with pytest.raises(MeaningError, match="W4"):
        run(query, "1:1 l1:1 r1:1")


def test_w5_filter_map_and_union_keep_validity():
    windows = Union((Window(S, "RANGE 2 MS"), Map(Filter(Window(S, "RANGE 4 MS"), "a > 0"), ["a + 10 AS a"])))
    query = Aggregate(windows, ["COUNT(*) AS n", "SUM(a) AS total"])
    assert run(query, "1:1 2:0 4:2") == [(1, 1, 1), (1, 2, 12), (2, 3, 12), (4, 2, 13), (4, 3, 25)]


def test_w5_a_correlation_is_valid_until_its_first_part_expires():
    query = Aggregate(Correlate({"l": Window(L, "RANGE 3 MS"), "r": Window(R, "RANGE 9 MS")}), COUNT)
    # (l1, r2) until 4; (l3, r2) and (l3, r5) until 6; r6 meets nothing, l 7 meets r2, r5, r6.
    assert run(query, "l1:0 r2:0 l3:0 r5:0 r6:0 l7:0") == [(2, 1), (3, 2), (5, 2), (7, 1), (7, 2), (7, 3)]


def test_w5_an_aggregates_row_is_replaced_by_the_next_of_its_group_or_goes_with_its_window():
    counts = Aggregate(Window(Stream("k"), "RANGE 3 MS"), ["g", "COUNT(*) AS n"], "g")
    query = Aggregate(counts, ["COUNT(*) AS n", "SUM(n) AS total"])
    assert run(query, "1:x,0 2:y,0 3:x,0 6:y,0", "k") == [(1, 1, 1), (2, 2, 2), (3, 2, 3), (6, 1, 1)]


def test_w5_a_result_that_having_hides_still_replaces():
    counts = Aggregate(Window(S, "UNBOUNDED"), ["COUNT(*) AS n"], having="COUNT(*) <> 2")
    assert run(Correlate({"x": counts, "r": Window(R, "NOW")}), "1:0 r1:7 2:0 r2:8 3:0 r3:9") == [(1, 1, 7), (3, 3, 9)]


def test_w5_a_match_is_valid_for_within_from_its_first_event():
    pairs = Match(S, "A A", 3, "z INTEGER", [Definition("A", assignments={"z": "a"})])
    assert run(Aggregate(pairs, COUNT), "1:0 3:0 4:0 5:0 6:0") == [(3, 1), (4, 1), (5, 2), (6, 2)]
    # (1, 3) until 4, (3, 4) until 6, (4, 5) until 7, (5, 6) until 8.


def test_w5_a_written_window_replaces_the_derived_validity():
    pairs = Correlate({"l": Window(L, "NOW"), "r": Window(R, "NOW")})
    assert run(Aggregate(Window(pairs, "ROWS 2"), COUNT), "l1:0 r1:0 l2:0 r2:0 r2:0") == [(1, 1), (2, 2), (2, 2)]
    assert run(Aggregate(Window(Window(S, "NOW"), "RANGE 9 MS"), COUNT), "1:0 2:0") == [(1, 1), (2, 2)]


# O --------------------------------------------------------------------------------------------------------------------


def test_o1_null_is_not_satisfied():
    assert run(Filter(S, "a > 0"), "1:- 2:1 3:0") == [(2, 1)]
    assert run(Filter(S, "NOT a > 0"), "1:- 2:1 3:0") == [(3, 0)]


def test_o1_map_keeps_star_and_computes():
    query = Map(S, ["*", "a * 2 AS b", "CASE WHEN a > 1 THEN 'x' ELSE 'y' END || 'z' AS c"])
    assert run(query, "1:1 2:2 3:-") == [(1, 1, 2, "yz"), (2, 2, 4, "xz"), (3, NULL, NULL, "yz")]
    assert column_names({"query": query}, SCHEMAS) == {"query": ["a", "b", "c"]}


def test_o1_a_union_gives_the_left_rows_of_an_event_first():
    query = Union((Filter(S, "a > 1"), Map(S, ["-a AS a"]), R))
    assert run(query, "1:1 1:2 r1:7 2:3") == [(1, -1), (1, 2), (1, -2), (1, 7), (2, 3), (2, -3)]


def test_o2_where_filters_after_the_window_has_counted():
    query = Aggregate(Filter(Window(S, "ROWS 2"), "a > 0"), ["SUM(a) AS n"])
    assert run(query, "1:1 2:0 3:2 4:4") == [(1, 1), (3, 2), (4, 6)]


def test_o2_a_filter_below_the_window_makes_it_count_what_passed():
    assert run(Aggregate(Window(Filter(S, "a > 0"), "ROWS 2"), ["SUM(a) AS n"]), "1:1 2:0 3:2 4:4") == [
        (1, 1),
        (3, 3),
        (4, 6),
    ]


def test_o2_group_by_reports_the_new_rows_group_and_having_filters():
    query = Aggregate(Window(Stream("k"), "UNBOUNDED"), ["g", "COUNT(a) AS n"], "g", "COUNT(*) > 1")
    assert run(query, "1:x,1 2:y,1 3:x,- 4:-,1 5:-,1", "k") == [(3, "x", 1), (5, NULL, 2)]


def test_o2_aggregates_pass_over_null_but_first_and_last_do_not():
    columns = ["COUNT(a) AS c", "COUNT(DISTINCT a) AS d", "SUM(a) AS s", "AVG(a) AS v", "MIN(a) AS lo", "MAX(a) AS hi"]
    query = Aggregate(Window(S, "UNBOUNDED"), [*columns, "STDDEV(a) AS dev", "FIRST(a) AS f", "LAST(a) AS l"])
    first, *_, last = run(query, "1:- 2:2 3:4 4:4 5:-")
    assert first == (1, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
    assert last == (5, 3, 2, 10, pytest.approx(10 / 3), 2, 4, pytest.approx((4 / 3) ** 0.5), NULL, NULL)


def test_o2_rows_of_one_trigger_enter_one_after_another():
    pairs = Correlate({"l": Window(L, "RANGE 9 MS"), "r": Window(R, "RANGE 9 MS")})
    assert run(Aggregate(pairs, COUNT), "r1:1 r2:2 r3:3 l4:0") == [(4, 1), (4, 2), (4, 3)]
    assert run(Aggregate(Window(pairs, "ROWS 2"), ["SUM(b) AS n"]), "r1:1 r2:2 r3:4 l4:0") == [(4, 1), (4, 3), (4, 6)]


def test_o3_each_combination_at_its_last_part_in_order_of_its_parts():
    query = Correlate({"l": Window(L, "UNBOUNDED"), "r": Window(R, "UNBOUNDED"), "s": Window(S, "UNBOUNDED")}, "b <> 3")
    assert run(query, "s1:8 l1:1 l2:2 s2:9 r3:3 r3:4") == [(3, 1, 4, 8), (3, 1, 4, 9), (3, 2, 4, 8), (3, 2, 4, 9)]


def test_o3_a_stream_with_itself_meets_itself_once():
    query = Correlate({"x": Window(S, "RANGE 2 MS"), "y": Window(S, "RANGE 2 MS")}, "x.a <= y.a")
    assert run(query, "1:1 2:1 3:2") == [(1, 1, 1), (2, 1, 1), (2, 1, 1), (2, 1, 1), (3, 1, 2), (3, 2, 2)]
    assert column_names({"query": query}, SCHEMAS) == {"query": ["x_a", "y_a"]}


def test_o3_names_are_qualified_whatever_their_case():
    query = Correlate({"x": Window(S, "NOW"), "y": Window(Stream("upper"), "NOW")})
    assert column_names({"query": query}, {**SCHEMAS, "upper": "A INTEGER, b INTEGER"}) == {
        "query": ["x_a", "y_A", "b"]
    }


def test_o3_a_rows_window_has_taken_the_arriving_row_in():
    query = Correlate({"x": Window(S, "ROWS 1"), "y": Window(S, "ROWS 2")})
    assert run(query, "1:1 2:2 3:3") == [(1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 3, 2), (3, 3, 3)]


def test_o3_rows_pushed_out_within_their_own_trigger_still_take_part():
    pairs = Correlate({"l": Window(L, "UNBOUNDED"), "r": Window(R, "NOW")})
    query = Correlate({"x": Window(Map(pairs, ["a"]), "ROWS 1"), "y": Window(R, "ROWS 1")})
    assert run(query, "l1:1 l2:2 r3:3 r4:4") == [(3, 1, 3), (3, 2, 3), (4, 1, 4), (4, 2, 4)]


def test_o4_a_relation_takes_part_but_triggers_nothing():
    query = Correlate({"x": Window(S, "RANGE 2 MS"), "t": Relation("t")}, "a = k")
    tables = {"t": (["k", "v"], [(1, "one"), (2, "two"), (NULL, "none")])}
    assert run(query, "1:1 2:3 3:- 4:2", relations=tables) == [(1, 1, 1, "one"), (4, 2, 2, "two")]


def test_o4_rows_of_a_relation_do_not_order_the_results():
    query = Correlate({"t": Relation("t"), "x": Window(S, "RANGE 9 MS"), "r": Window(R, "NOW")}, "a = k")
    tables = {"t": (["k"], [(1,), (2,)])}
    assert run(query, "1:2 2:1 r3:7", relations=tables) == [(3, 2, 2, 7), (3, 1, 1, 7)]


def test_o5_a_query_is_read_by_its_name_as_if_it_stood_there():
    inner = Filter(Window(S, "RANGE 2 MS"), "a > 0")
    queries = {"inner": inner, "outer": Aggregate(Stream("inner"), COUNT), "nested": Aggregate(inner, COUNT)}
    results = evaluate(queries, SCHEMAS, events("1:1 2:0 2:1 3:1"))
    assert results["outer"] == results["nested"] == [(1, (1,)), (2, (2,)), (3, (2,))]


def test_on_change_also_reports_what_expiry_changed_before_the_events_of_that_time():
    query = Aggregate(Window(S, "RANGE 3 MS"), ["COUNT(*) AS n", "SUM(a) AS total"], on_change=True)
    rows = [(1, 1, 5), (2, 2, 12), (2, 3, 13), (4, 2, 8), (4, 3, 10), (5, 1, 2)]
    assert run(query, "1:5 2:7 2:1 4:2", end=6) == rows
    assert run(query, "1:5 2:7 2:1 4:2", end=7) == [*rows, (7, 0, NULL)]


def test_on_change_says_nothing_of_emptied_groups_and_obeys_having():
    query = Aggregate(Window(Stream("k"), "RANGE 4 MS"), ["g", "COUNT(*) AS n"], "g", on_change=True)
    rows = [(1, "x", 1), (2, "y", 1), (3, "x", 2), (3, "y", 2), (5, "x", 1), (6, "y", 1)]
    assert run(query, "1:x,0 2:y,0 3:x,0 3:y,0", "k", end=9) == rows
    assert run(dataclasses.replace(query, having="COUNT(*) > 1"), "1:x,0 2:y,0 3:x,0 3:y,0", "k", end=9) == rows[2:4]


def test_on_change_groups_of_one_instant_come_in_order_of_their_oldest_row_left():
    query = Aggregate(Window(Stream("k"), "RANGE 4 MS"), ["g", "COUNT(*) AS n"], "g", on_change=True)
    assert run(query, "1:x,0 1:y,0 2:y,0 3:x,0", "k", end=5)[-2:] == [(5, "y", 1), (5, "x", 1)]


# P --------------------------------------------------------------------------------------------------------------------


def pattern(text: str, *define: Definition, input: Node = S, within: int = 100, by: str | tuple = ()) -> Match:
    return Match(input, text, within, "z INTEGER, w INTEGER", define, by)


def test_p1_every_way_to_match_is_a_match():
    query = pattern("A+ B?", Definition("A", "a = 1", {"z": "COALESCE(z, 0) + 1"}), Definition("B", None, {"w": "a"}))
    assert run(query, "1:1 2:1") == [(1, 1, NULL), (2, 2, NULL), (2, 1, 1), (2, 1, NULL)]


def test_p2_events_of_equal_ts_are_alternatives():
    query = pattern("A B", Definition("A", assignments={"z": "a"}), Definition("B", assignments={"w": "a"}))
    assert run(query, "1:1 1:2 2:3 2:4") == [(2, 1, 3), (2, 2, 3), (2, 1, 4), (2, 2, 4)]


def test_p2_instants_are_those_of_the_filtered_stream():
    query = pattern("A B", Definition("A", assignments={"z": "a"}), Definition("B", assignments={"w": "a"}))
    assert run(dataclasses.replace(query, input=Filter(S, "a > 0")), "1:1 2:0 3:2") == [(3, 1, 2)]


def test_p3_unset_variables_are_null_and_assignments_see_the_values_before():
    swap = pattern(
        "A B", Definition("A", "z IS NULL", {"z": "a", "w": "z"}), Definition("B", "a > z", {"z": "a", "w": "z"})
    )
    assert run(swap, "1:1 2:2 3:0") == [(2, 2, 1)]
    assert run(pattern("A", Definition("A", "z = 0 OR a > 9")), "1:1 2:10") == [(2, NULL, NULL)]


def test_p3_an_event_emits_several_symbols():
    query = pattern("(A | B)", Definition("A", "a > 0", {"z": "a"}), Definition("B", "a > 1", {"w": "a"}))
    assert run(query, "1:1 2:2") == [(1, 1, NULL), (2, 2, NULL), (2, NULL, 2)]


def test_p5_equal_derivations_are_one_match():
    query = pattern("(A | A) A? A?", Definition("A", assignments={"z": "a"}))
    assert run(query, "1:1 2:2") == [(1, 1, NULL), (2, 2, NULL), (2, 2, NULL)]


def test_p6_matches_of_one_event_come_by_their_events_then_by_their_symbols():
    query = pattern("(B | A) A", Definition("A", assignments={"z": "a"}), Definition("B", assignments={"w": "a"}))
    assert run(query, "1:1 1:2 2:3") == [(2, 3, 1), (2, 3, NULL), (2, 3, 2), (2, 3, NULL)]


def test_p7_partitions_have_their_own_instants():
    define = [Definition("A", assignments={"z": "a"}), Definition("B", assignments={"w": "a"})]
    query = pattern("A B", *define, input=Stream("k"), by="g")
    assert run(query, "1:x,1 2:y,2 3:-,3 4:x,4 5:-,5 6:y,6", "k") == [(4, 1, 4), (5, 3, 5), (6, 2, 6)]


@pytest.mark.parametrize(
    ("text", "words", "others"),
    [
        ("A B* C", ["AC", "ABC", "ABBC"], ["A", "C", "ABCC", ""]),
        ("(A | B C){2}", ["AA", "ABC", "BCA", "BCBC"], ["A", "BC", "AAA", "ACB"]),
        ("A{1,3}", ["A", "AA", "AAA"], ["", "AAAA"]),
        ("(A? B?){2,} C", ["C", "ABC", "BABC", "AAAAC"], ["", "AB"]),
        ("(A*)* B", ["B", "AB", "AAAB"], ["A", ""]),
        ("PERMUTE(A, B, C)", ["ABC", "CAB", "BCA"], ["AB", "AAB", "ABCA"]),
        ("A (() | B)", ["A", "AB"], ["", "ABB"]),
    ],
)
def test_p1_the_language_of_a_pattern(text, words, others):
    assert [word for word in [*words, *others] if in_language(text, word)] == words


def in_language(text: str, word: str) -> bool:
    language = frozenset({(pattern(text).pattern,)})
    for symbol in word:
        language = derivative(language, symbol)
    return any(map(matches_nothing, language))


# Scalars --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n > 1", NULL),
        ("n > 1 AND a > 9", False),
        ("n > 1 OR a < 9", True),
        ("NOT (n > 1)", NULL),
        ("n IS NULL AND a IS NOT NULL", True),
        ("a IN (1, NULL)", NULL),
        ("a IN (2, NULL)", True),
        ("a NOT IN (1, 3)", True),
        ("a BETWEEN 3 AND n", False),
        ("COALESCE(n, a, 7)", 2),
        ("CASE a WHEN 2 THEN 'two' ELSE 'other' END", "two"),
        ("CASE WHEN n > 1 THEN 1 END", NULL),
        ("ABS(-(a)) * 0.25 - 1", -0.5),
        ("t || 'y' || n", NULL),
        ("x.t || 'y'", "ty"),
        ("X.A = 2.0", True),
    ],
)
def test_three_valued_logic(text, expected):
    found = value(scalar(text), Scope([("x", "a"), ("x", "n"), ("x", "t")], (2, NULL, "t")))
    assert found == expected
    assert type(found) is type(expected)


# The generator --------------------------------------------------------------------------------------------------------


def test_a_seed_gives_one_case():
    for seed in range(20):
        one, other = random_case(seed), random_case(seed)
        assert print_case(one) == print_case(other)


def test_what_is_reported_never_changes_later():
    """The histories are written down as a whole; that they follow from what came so far shows here."""
    for seed in range(60):
        case = random_case(seed)
        expected = case.expected()
        for number in range(len(case.events)):
            early = dataclasses.replace(case, events=case.events[:number], end=None).expected()
            assert all(rows == expected[name][: len(rows)] for name, rows in early.items())


def test_shrinking_leaves_what_fails():
    query = Aggregate(
        Window(Filter(S, "a > 0 AND a < 9"), "RANGE 3 MS"), ["COUNT(*) AS n", "SUM(a) AS m"], having="SUM(a) > 1"
    )
    case = Case(SCHEMAS, {"one": query, "two": S}, tuple(events("1:1 2:2 3:0 4:4 9:3")))
    small = shrink(case, lambda smaller: any(values[-1] == 4 for _, values in smaller.expected().get("one", ())))
    assert len(small.events) == 1
    assert [code(node) for node in small.queries.values()] == ["Stream('s')"]
