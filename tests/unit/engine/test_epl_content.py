"""What cep.query finds in statements of EPL: Esper's iterator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import bridge

if TYPE_CHECKING:
    from tests.support.databases import Database

CONTENTS = [
    # values of single events beside aggregates: a row for each event in the window
    ("select k, sum(v) as s from A#length(3)", [("a", 15), ("b", 15), ("a", 15)]),
    ("select k, v, count(*) + v as c from A#length(3) group by k", [("a", 5, 7), ("b", 2, 3), ("a", 8, 10)]),
    (
        "select k, v, sum(v) as s from A#length(3) where v > 2 group by k having count(*) > 1",
        [("a", 5, 13), ("a", 8, 13)],
    ),
    # order by and limit, of all that there is
    (
        "select * from A#keepall match_recognize (measures X.k as k, X.v as v all matches pattern (X) define X as X.v > 2) "
        "order by v desc limit 2",
        [("a", 9), ("a", 8)],
    ),
    ("select k, sum(v) as s from A#length(3) group by k order by s limit 1", [("b", 2)]),
    ("select k, sum(v) as s from A#length(3) group by k having sum(v) > 2", [("a", 13)]),
]


@pytest.mark.parametrize(("statement", "content"), CONTENTS)
def test_the_content_of_a_statement(database: Database, statement: str, content: list[tuple[object, ...]]) -> None:
    with bridge.connect(database.present_url()) as cep:
        cep.create_query("events", "create schema A (k string, v int)", language="epl")
        cep.create_query("q", statement, language="epl")
        cep.push_events("A", [(["a", 9], 1), (["a", 5], 2), (["b", 2], 3), (["a", 8], 4)])
        rows = [tuple(row)[1:] for row in cep.query("SELECT * FROM q")]
        assert sorted(map(repr, rows)) == sorted(map(repr, content))
