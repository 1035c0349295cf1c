"""The reader of EPL: how it spells, and what it refuses, by name and at its place."""

from __future__ import annotations

import pathlib
import re
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge.errors import BridgeError, QueryError
from bridge.frontends.epl.script import script
from bridge.frontends.epl.statement import parse

if TYPE_CHECKING:
    from tests.support.databases import Database

MATCH = "select * from S match_recognize (measures {measures} pattern ({pattern}){more})"

REFUSED = {
    "create variable int[] v = {1, 2}": "[]",
    "create variant schema V as *": "*",
    "select rstream v from S": "rstream",
    "select irstream v, sum(v) as t from S#length(3)": "v, sum",
    "select rstream sum(v) as t from S#length(3) output last every 3 sec": "",
    "select rstream sum(v) + 1 as t from S#length(3)": "sum(v)",
    "select rstream v from S#length(3) output every 3 events": "output",
    "select irstream v from S#length(3) output first every 3 sec": "output",
    "select rstream * from S#length(3) output every 3 sec": "output",
    "select rstream prev(1, v) as p from S#length(3)": "rstream",
    "select rstream a.v from A#length(3) as a, B#length_batch(3) as b": "rstream",
    "select irstream a.v from A#time_accum(3) as a, B#length(3) as b": "irstream",
    "select rstream a.v from A#length(3) as a, B#length(3) as b order by a.v": "a.v",
    "insert into X select rstream v from S#length(3)": "into",
    "insert rstream into X select v from S#length(3)": "rstream",
    "select v from S#length_batch(5) output snapshot every 5 sec": "output",
    "select a.v as v from A#time(5) as a, B#time(5) as b output snapshot every 5 events": "output",
    "select prev(1, v) as x from S#time(5) output snapshot every 5 sec": "output",
    "select v, k, sum(v) as t from S#keepall group by k output all every 5 sec": "output",
    "select countever(*) as c from S output snapshot every 5 sec": "",
    "select v, sum(v) from S#time(5) group by k output snapshot every 5 sec": "v, sum",
    "select v from S output when v > 3": "output",
    "select sum(a.v) as t from A#keepall as a, B#keepall as b output every 5 events": "output",
    "select v, sum(v) from S#time(5) group by v output every 5 events": "output",
    "select sum(v) as t from S#keepall order by k": "k",
    "select distinct v from S order by k": "k",
    "select * from A#keepall as a left outer join B#keepall as b on a.v = b.v join C#keepall as c on c.v = b.v": "join C",
    "select * from A unidirectional, B unidirectional": "B",
    "select * from A#time(5) unidirectional, B#keepall": "A#",
    "select count(*) from A#keepall as a left outer join B#keepall as b on a.v = b.v": "",
    "select * from S#ext_timed(5 sec)": "",
    "select * from S#expr(v > 3)": "v > 3",
    "select * from S#expr(current_count <= 3 or oldest_timestamp > newest_timestamp - 5)": "current",
    "select * from S#expr(current_count < 1)": "current",
    "select * from S#expr(sum(v) < 10)": "sum",
    "select * from S#groupwin(v)": "",
    "select * from S#groupwin(v)#time_batch(5 sec)": "#time_batch",
    "select * from S#groupwin(v)#firsttime(5 sec)": "#firsttime",
    "select * from S#length": "",
    "select * from S#sort(3)": ")",
    "select * from S#sort(v, 3)": "v, 3",
    "select v, sum(v) from S#length_batch(3)": "v, sum",
    "select v, sum(v) from S#sort(3, v)": "v, sum",
    "select * from S#length(3)#time(5) retain-union": "#time",
    "select * from S#nonsense(3)": "#nonsense",
    "select * from S#time(1 month)": "month",
    "select prev(1, v) from S#length(3)": "prev",
    "select prior(1, v) from S": "prior",
    "select prev(3, v) as x from S#length(3)": "prev",
    "select prev(1, v) as x from S#length_batch(3)": "prev",
    "select prev(1, v) as x from S": "prev",
    "select prev(1, sum(v)) as x from S#length(3)": "prev",
    "select prior(v) as x from S": "prior",
    "select prior(1, v) as x from A#keepall as a, B#keepall as b": "prior",
    "select sum(v) as s, prev(1, v) as x from S#length(3)": "",
    "select v from S#length(3) having prev(1, v) > 3": "prev",
    "select window(*) from S": "window",
    "select firstever(v) as f from S#length_batch(3)": "v",
    "select firstever(v) as f from S#length(3) output every 5 sec": "v",
    "select rate(5) as r, sum(v) as t from S#length(3)": "r,",
    "select countever(a.v) as c from A#keepall as a, B#keepall as b": "a.v",
    "select irstream v, sum(v) as t from S#time(5) group by v output all every 5 sec": "v,",
    "select v from S#keepall having countever(v) > 3": "countever",
    "select firstever(v, k) as f from S": "firstever",
    "select v from S where v in (select countever(v) from B#keepall)": "countever",
    "select nth(v) as n from S#keepall": "nth",
    "select v from S#keepall having nth(v, 2) > 3": "nth",
    "select rate(0) as r from S": "rate",
    "select rate(v) as r from S": "rate",
    "select prior(1, v) as x from S#time_batch(5 sec)": "prior",
    "select leaving() as l from S#length(3)": "leaving",
    "select v from S where k regexp '(?i)3'": "k",
    "select v from S where k regexp '(3'": "k",
    "select v from S where k regexp k": "k",
    "select v from S where v in [1]": "[1]",
    "select v ^ 3 from S": "^",
    "select * from (select * from S)": "(select",
    "select v from S where exists (select v from B#keepall group by v)": "group",
    "select v from S where v in (select v, k from B#keepall)": "select v, k",
    "select v from S where v > any (select v from B#keepall)": "any",
    "select (select max(v) from B#keepall) from S": "select max",
    "select (select first(v) from B#keepall) as f from S": "select first",
    "select sum(v) from S#time(5) where v in (select v from B#keepall)": "",
    "select sum(v), (select max(v) from B#keepall) as m from S": "",
    "select v from S(exists (select * from B#keepall))": "exists",
    "create window W#length_batch(5) as S": "window",
    "create table T (v window(*))": "window",
    "create table T (v sum(v + 1))": "v + 1",
    "into table T select v from S": "into",
    "into table T select sum(v) as t from S output every 5 events": "into",
    "create table T (v int[])": "[",
    "create table T": "",
    "on S as s merge T as t where t.v = s.v": "",
    "on S merge T when matched then insert select v": "insert",
    "on S merge T when not matched then delete": "delete",
    "on S merge T when not matched then insert select v + 1": "v + 1",
    "on S merge T when not matched then insert into S select v": "into",
    "on S merge T when not matched then insert (v, k) select v": "v",
    "on S merge T when matched then delete where v > 3": "where",
    "on S merge T when matched then delete then delete": "then delete",
    "on S as s update T as t set s.v = 3": "v =",
    "on S as s update T as t set v": "",
    "on S insert into T select v": "insert",
    "create expression e {v => v}": "expression",
    "on S as s select * from W": "W",
    "on S as s select v from W#length(3)": "W#",
    "on S as s select count(*) as n from W as w": "",
    "on S#length(3) as s select v from W": "S#",
    "update istream S set v = 3": "update",
    "context C select * from S": "C select",
    "@Audit('stream') select * from S": "Audit",
    "@Priority(5) select * from S": "Priority",
    "create schema X () copyfrom S": "copyfrom",
    "create window W#keepall as select v + 1 as v from S": "+ 1",
    "on S as s select and delete w.v as v from W as w": "select and",
    "on pattern [every timer:interval(5)] select count(*) as n from W": "pattern",
    "select * from S[items]": "[items]",
    "select T[k].v as v from S": "T[k]",
    "select v from S group by rollup(v)": "rollup",
    "select sum(v) from S group by grouping sets((v), (k))": "grouping sets",
    "select maxever(v) as m from S": "maxever",
    "select maxby(v) as m from S": "maxby",
    "select * from S#length(5)#uni(v)": "#uni",
    "select * from B#keepall as x, pattern [[3] a=A]#keepall as p": "* from",
    "select a.v as v from pattern [[3] a=A]": "a.v as",
    "select a.w.v as v from pattern [a=A until b=B]": "a.w",
    "select a[0].v as v from pattern [[3] a=A -> b=B(v > a.v)]": "a.v)",
    "select a[0].v as v from pattern [[2:3] a=A]": "[2:3]",
    "select a[0].v as v from pattern [[3:2] a=A until b=B]": "[3:2]",
    "select a[0].v as v from pattern [[0] a=A]": "[0]",
    "select b.v as v from pattern [a=A until not b=B]": "until",
    "select b.v as v from pattern [not a=A until b=B]": "not",
    "select b.v as v from pattern [a=A until b=B until c=C]": "until c",
    "select * from pattern [every-distinct() a=A]": ")",
    "select * from pattern [every-distinct(5) a=A]": "a=A",
    "select * from pattern [a=A -[0]> b=B]": "0]>",
    "select * from pattern [a=A where timer:interval(3)]": "timer:interval",
    "select * from pattern [timer:at(5, *, *, *)]": ")]",
    "select * from pattern [timer:at(60, *, *, *, *)]": "60",
    "select * from pattern [timer:at(5:3, *, *, *, *)]": ", *",
    "select * from pattern [timer:at(0, 0, 30, 2, *)]": "timer:at",
    "select * from pattern [timer:at(0, 0, last, *, *)]": "last",
    "select * from pattern [timer:at(0, 0, 1, *, 1)]": "timer:at",
    "select * from pattern [timer:schedule(iso: '2008')]": "timer:schedule",
    "select * from pattern [timer:schedule(iso: 'R2/P1M')]": "timer:schedule",
    "select * from pattern [timer:schedule(repetitions: 3)]": "timer:schedule",
    "select * from pattern [timer:schedule(days: 3)]": "days",
    "select * from pattern [a=A@consume]": "",
    "select * from pattern [a=A#time(5)]": "#time",
    "select * from pattern @DiscardPartialsOnMatch [a=A]": "@Discard",
    "select * from pattern [a=A], B#keepall": "pattern",
    "select * from pattern [a=A] match_recognize (measures A.v as v pattern (A))": "pattern",
    MATCH.format(measures="B.v as v", pattern="A B", more=" define B as B = A"): "B = A",
    MATCH.format(measures="coalesce(A, A) as a", pattern="A", more=""): "A, A",
    MATCH.format(measures="A.v", pattern="A", more=""): "A.v",
    MATCH.format(measures="A.v as v", pattern="A+", more=""): "A.v",
    MATCH.format(measures="A[0].v as v", pattern="A", more=""): "A[0]",
    MATCH.format(measures="count(*) as v", pattern="A+", more=""): "",
    MATCH.format(measures="sum(A.v) as v", pattern="A", more=""): "sum",
    MATCH.format(measures="sum(A.v + B.v) as v", pattern="A+ B+", more=""): "sum",
    MATCH.format(measures="v as v", pattern="A", more=""): "v as v",
    MATCH.format(measures="A.v as v", pattern="(A B)+?", more=""): "+?",
    MATCH.format(measures="A.v as v", pattern="A{0,1}", more=""): "0,1}",
    MATCH.format(measures="A[0].v as v", pattern="A{3,2}", more=""): "{3,2}",
    MATCH.format(measures="A.v as v", pattern="match_recognize_permute(A, B)+", more=""): "+",
    MATCH.format(measures="A.v as v", pattern="A", more=" define A as A.v > 1, A as A.v < 3"): "A as A.v < 3",
    MATCH.format(measures="A.v as v", pattern="A", more=" define B as B.v > 1"): "B as",
    MATCH.format(measures="A.v as v", pattern="A B", more=" define A as A.v > B.v"): "B.v)",
    MATCH.format(measures="A.v as v", pattern="A | B", more=" define B as A.v > B.v"): "A.v >",
    MATCH.format(measures="A.v as v", pattern="A B", more=" define B as B.v > prev(A.v)"): "prev",
    MATCH.format(measures="A[0].v as v", pattern="A+ B", more=" define B as sum(B.v) > 3"): "sum",
    MATCH.format(measures="C.v as v", pattern="A B", more=""): "C.v",
}
"""What is refused, and what stands where the error points (nothing: anywhere in the text)."""


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_supported_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    error = caught.value
    assert error.text == text
    assert error.position is not None
    assert text[error.position :].startswith(REFUSED[text]), (text[error.position :], error.message)


@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_statement_leaves_nothing_behind(text: str) -> None:
    with bridge.connect("sqlite://") as cep:
        with pytest.raises(BridgeError):
            cep.create_query("q", text, language="epl")
        assert (cep.streams, cep.queries) == ({}, {})


UNKNOWN = {
    "select v from S output snapshot every 5 sec": "snapshot",
    "select typeof(w) from S": "w)",
    "create schema X (v int) inherits T": "T",
    "create schema X (v T[])": "T[]",
    "create variant schema X as A, T": "T",
    "select o.p.q from S": "o.p.q",
    "select v from S where v in (select c.v from B#keepall as b)": "c.v",
    "select a[0].v as v from pattern [a=A until b=B(v > a[0].v)]": "a[0].v)",
    "select * from pattern [every-distinct(b.v) a=A -> b=B]": "b.v",
    "select * from pattern [a=A while (b.v > 3)]": "b.v",
}
"""Names that are known to be wrong when the columns are known: the place where the first of them stands."""


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_names_are_refused_at_their_place(text: str) -> None:
    with bridge.connect("sqlite://") as cep:
        for name in "SAB":
            cep.register_stream(name, "v INTEGER, k VARCHAR")
        with pytest.raises(QueryError) as caught:
            cep.create_query("q", text, language="epl")
        assert not cep.queries
    assert text[caught.value.position :].startswith(UNKNOWN[text]), caught.value


@pytest.mark.parametrize(
    "spelling", ["S#time(5 sec)", "S.win:time(5 sec)", "S#win:time(5)", "S#time(5000 milliseconds)"]
)
def test_windows_have_three_spellings(spelling: str) -> None:
    assert parse(f"select * from {spelling}") == parse("select * from S#time(5 seconds)") or spelling
    assert str(parse(f"select * from {spelling}")[0].node) == "SELECT * FROM S WINDOW(RANGE 5000 MS)"


def test_texts_stand_in_either_quotes_and_names_in_backticks() -> None:
    (found,) = parse('select `select` as a from `my stream` where b = "x" or b = \'"\'')
    assert str(found.node) == """SELECT "select" AS a FROM "my stream" WHERE b = 'x' OR b = '"'"""


def test_a_script_gives_names() -> None:
    found = script(
        "@name('one') select * from S; insert into T select * from S; @name('two') insert into U select * from T"
    )
    assert [getattr(statement, "name", None) for statement in found] == ["one", "T", "U", "two"]


def test_a_statement_that_inserts_is_read_by_the_name_of_its_stream() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.create_query("schema", "create schema S (v int)", language="epl")
        cep.create_query("high", "insert into High select v from S(v > 2)", language="epl")
        assert set(cep.queries) == {"High", "high"} or set(cep.queries) == {"High"}


def test_a_second_statement_into_one_stream_is_refused() -> None:
    with bridge.connect("sqlite://") as cep:
        cep.create_query("schema", "create schema S (v int)", language="epl")
        cep.create_query("one", "insert into T select v from S(v > 2)", language="epl")
        with pytest.raises(BridgeError):
            cep.create_query("two", "insert into T select v from S(v < 2)", language="epl")
        assert "two" not in cep.queries


def page(heading: str) -> list[str]:
    """The statements in the table of docs/epl.md under a heading."""
    text = (pathlib.Path(__file__).parents[3] / "docs" / "epl.md").read_text(encoding="utf-8")
    rows = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [found[1] for found in re.finditer(r"^\| `([^`]+)` \|", rows, re.MULTILINE)]


@pytest.mark.parametrize("statement", page("What is refused"))
def test_what_the_documentation_says_is_refused_is(statement: str) -> None:
    with bridge.connect("sqlite://") as cep:
        for stream in ("S", "A", "B"):
            cep.register_stream(stream, "v INTEGER, k VARCHAR")
        with pytest.raises(QueryError) as caught:
            cep.create_query("q", statement, language="epl")
        assert caught.value.position is not None
        assert cep.queries == {}


NAMED = (
    "create window W#keepall as S",
    "insert into W select * from S",
    "on B as b delete from W as w where w.v = b.v",
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("insert into W select v, k from S(v > 3)", "a second statement inserts"),
        ("on B as b delete from W where v = 3 and b.v = 4", "reads the window 'W' already"),
        ("on B as b delete from V", "unknown window 'V'"),
        ("create window w#keepall as S", "there is a window"),
        ("select count(*) as n from W as w, B#keepall as b where w.v = b.v", "#keepall"),
        ("on B as b update W as w set u = 3", "already"),
    ],
)
def test_what_a_named_window_cannot(text: str, reason: str) -> None:
    with bridge.connect("sqlite://") as cep:
        for stream in ("S", "B"):
            cep.register_stream(stream, "v INTEGER, k VARCHAR")
        for place, first in enumerate(NAMED):
            cep.create_query(f"first{place}", first, language="epl")
        if "already" in reason:
            cep.create_query("m", "select * from W match_recognize (measures A.v as v pattern (A))", language="epl")
        before = cep.queries
        with pytest.raises(BridgeError, match=re.escape(reason)):
            cep.create_query("q", text, language="epl")
        assert cep.queries == before


def test_a_named_window_that_is_read_plainly_gives_what_is_inserted() -> None:
    with bridge.connect("sqlite://") as cep:
        for stream in ("S", "B"):
            cep.register_stream(stream, "v INTEGER, k VARCHAR")
        for place, first in enumerate(NAMED):
            cep.create_query(f"first{place}", first, language="epl")
        cep.create_query("q", "select v from W", language="epl")
        found = []
        cep.add_output_processor("q", lambda event: found.append(event.payload))
        cep.push_event("S", [1, None], 1)
        assert found == [{"v": 1}]


def test_events_without_attributes(database: Database) -> None:
    with bridge.connect(database.present_url()) as cep:
        cep.create_query("any", "create schema Anything ()", language="epl")
        cep.create_query("count", "select count(*) as n from Anything#length(5)", language="epl")
        got = list[Any]()
        cep.add_output_processor("count", got.append)
        cep.push_event("Anything", {}, 1)
        cep.push_events("Anything", [([], 2), ({}, 3)])
    assert [event.payload["n"] for event in got] == [1, 2, 3]


def test_the_text_of_nth_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    (statement,) = parse("select nth(v, 2) as x from S#length(3)")
    assert "NTH_VALUE(v, 2)" in str(statement.node)  # type: ignore[union-attr]
    assert not caplog.records
