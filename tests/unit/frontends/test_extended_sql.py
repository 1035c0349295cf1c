"""The paper's SQL: what it says as query objects, what it refuses and where, and that it is written back."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

import bridge
from bridge.errors import QueryError
from bridge.frontends.sql.statements import parse, statements
from bridge.frontends.statements import CreateQuery, CreateStream, Query
from bridge.query.expressions import col, count, scalar
from bridge.query.match import Definition, Match
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Output, Relation, Stream, Union, Window, walk
from bridge.query.text import statement
from nfa import pattern as p
from windows.extent import Extent
from windows.extents import Now, Range, Rows, Unbounded
from windows.schema import Schema

# Listing 1 of the paper, i = 1 ----------------------------------------------------------------------------------------

SIGMA = """SELECT *
             FROM stream[a:Integer, b:Integer]
             WHERE a - b = 1"""
JOIN = """SELECT *
             FROM stream1[a:Integer] WINDOW(RANGE (500 + ({count}/2) - 1) MS),
                  stream2[b:Integer] WINDOW(RANGE (500 + ({count}/2) - 1) MS)
             WHERE a - b = 1+1"""
ALPHA = """SELECT COUNT(*)
             FROM stream[a:Integer] WINDOW(RANGE (500 + ({count}/2) - 1) MS)"""
RHO = """SELECT z1, z2, z3 FROM stream[a:Integer]
            MATCHING (PATTERN xyu WITHIN (500 + ({count}/2) - 1) MS
                      MEASURES z1:Integer, z2:Integer, z3:Integer
                      DEFINE
                               x AS true         DO z1 = a
                               y AS a - z1 = 1 DO z2 = a
                               u AS a - z2 = 1 DO z3 = a)"""

SIZES = [(1, 499), (10, 504), (80, 539)]


def test_listing_1_filter() -> None:
    assert parse(SIGMA) == Filter(Stream("stream", "a INTEGER, b INTEGER"), "a - b = 1")


@pytest.mark.parametrize(("queries", "size"), SIZES)
def test_listing_1_correlation(queries: int, size: int) -> None:
    left = Window(Stream("stream1", "a INTEGER"), Range(size))
    right = Window(Stream("stream2", "b INTEGER"), Range(size))
    assert parse(JOIN.format(count=queries)) == Correlate((left, right), "a - b = 1 + 1")


@pytest.mark.parametrize(("queries", "size"), SIZES)
def test_listing_1_aggregation(queries: int, size: int) -> None:
    assert parse(ALPHA.format(count=queries)) == Aggregate(
        Window(Stream("stream", "a INTEGER"), Range(size)), [count()]
    )


@pytest.mark.parametrize(("queries", "size"), SIZES)
@pytest.mark.parametrize("commas", [False, True])
def test_listing_1_pattern_matching(queries: int, size: int, commas: bool) -> None:
    text = RHO.format(count=queries)
    match = Match(
        Stream("stream", "a INTEGER"),
        "xyu",
        size,
        "z1 INTEGER, z2 INTEGER, z3 INTEGER",
        (
            Definition("x", "true", {"z1": "a"}),
            Definition("y", "a - z1 = 1", {"z2": "a"}),
            Definition("u", "a - z2 = 1", {"z3": "a"}),
        ),
    )
    assert parse(text.replace("= a\n", "= a,\n") if commas else text) == Map(match, ["z1", "z2", "z3"])


# What each part of the grammar says -----------------------------------------------------------------------------------

S, T, U = Stream("s"), Stream("t"), Stream("u")
M = "MATCHING (PATTERN a b WITHIN 1 S MEASURES v:Integer DEFINE "


def matched(*define: Definition, node: Node = S) -> Match:
    return Match(node, p.Concatenation((p.Symbol("a"), p.Symbol("b"))), 1000, "v INTEGER", define)


SAID: list[tuple[str, Node]] = [
    # inputs
    ("SELECT * FROM s", S),
    ("select * from s;", S),
    ("SELECT * FROM S", Stream("S")),
    ("(SELECT * FROM s)", S),
    ("\ufeffSELECT -- all\n * /* of /* nested */ it */ FROM s -- end", S),
    ('SELECT * FROM "order ""lines"""', Stream('order "lines"')),
    ("SELECT * FROM main.trades", Stream("main.trades")),
    ('SELECT trades.a FROM "my db".trades', Map(Stream("my db.trades"), ["a"])),
    ("SELECT * FROM s[a:Integer]", Stream("s", "a INTEGER")),
    ('SELECT * FROM s [a Integer, "b c": DECIMAL(10,2)]', Stream("s", 'a INTEGER, "b c" DECIMAL(10, 2)')),
    ("SELECT * FROM s[a double precision, b: varchar(20)]", Stream("s", "a DOUBLE, b VARCHAR")),
    ("SELECT * FROM (SELECT * FROM s WHERE a) x WHERE b", Filter(Filter(S, "a"), "b")),
    ("SELECT * FROM (SELECT a FROM s) WINDOW(NOW)", Window(Map(S, ["a"]), Now())),
    # windows
    ("SELECT * FROM s WINDOW(RANGE 5 S)", Window(S, Range(5000))),
    ("SELECT * FROM s window ( range 2 minutes slide 30 sec )", Window(S, Range(120_000, 30_000))),
    ("SELECT * FROM s WINDOW(RANGE (500 + (10/2) - 1) MS)", Window(S, Range(504))),
    ("SELECT * FROM s WINDOW(RANGE (2 * 0.5 * (1 - -1)) H)", Window(S, Range(7_200_000))),
    ("SELECT * FROM s WINDOW(RANGE (5/2) MS)", Window(S, Range(2))),
    ("SELECT * FROM s WINDOW(RANGE (5/2.5) MS)", Window(S, Range(2))),
    ("SELECT * FROM s WINDOW(RANGE 500MS)", Window(S, Range(500))),
    ("SELECT * FROM s WINDOW(RANGE INTERVAL '5' SECOND SLIDE INTERVAL 1 SECOND)", Window(S, Range(5000, 1000))),
    ("SELECT * FROM s WINDOW(ROWS 10)", Window(S, Rows(10))),
    ("SELECT * FROM s WINDOW(ROWS (2*5) SLIDE 5)", Window(S, Rows(10, 5))),
    ("SELECT * FROM s WINDOW(UNBOUNDED)", Window(S, Unbounded())),
    ("SELECT * FROM s WINDOW(NOW)", Window(S, Now())),
    ("SELECT * FROM s WINDOW(PARTITION BY a, b + 1 ROWS 3)", Window(S, Rows(3), ("a", "b + 1"))),
    ("SELECT * FROM s WINDOW(PARTITION BY x.a NOW) AS x", Window(S, Now(), ("a",))),
    ("SELECT * FROM s x WINDOW(PARTITION BY X.a NOW)", Window(S, Now(), ("a",))),
    # filter and map
    ("SELECT * FROM s WHERE a IS DISTINCT FROM b", Filter(S, "a IS DISTINCT FROM b")),
    ("SELECT * FROM s WHERE offset > limit AND NOT left = 1", Filter(S, "offset > limit AND NOT left = 1")),
    ("SELECT * FROM s WHERE comment = 'FROM x -- WHERE'", Filter(S, col("comment").eq("FROM x -- WHERE"))),
    ("SELECT a, b + 1 AS c, d e FROM s", Map(S, ["a", "b + 1 AS c", "d AS e"])),
    ("SELECT s.a, s.* FROM s", Map(S, ["a", "*"])),
    ("SELECT s.* FROM s", S),
    ("SELECT *, a FROM s", Map(S, ["*", "a"])),
    ("SELECT x.a FROM s AS x WHERE x.b > 1", Map(Filter(S, "b > 1"), ["a"])),
    ("SELECT my_function(a) FROM s", Map(S, ["my_function(a)"])),
    # aggregates
    ("SELECT COUNT(*) FROM s WHERE a > 1", Aggregate(Filter(S, "a > 1"), ["COUNT(*)"])),
    (
        "SELECT s.k, AVG(s.a) AS m FROM s WINDOW(ROWS 5) GROUP BY s.k HAVING AVG(s.a) > 1 EMIT ON CHANGE",
        Aggregate(Window(S, Rows(5)), ["k", "AVG(a) AS m"], ["k"], scalar("AVG(a) > 1"), on_change=True),
    ),
    ("SELECT 1 + MAX(a) FROM s", Aggregate(S, ["1 + MAX(a)"])),
    ("SELECT FIRST(a), LAST(a) FROM s", Aggregate(S, ["FIRST(a)", "LAST(a)"])),
    ("SELECT COUNT(*) FILTER (WHERE a > 1) FROM s", Aggregate(S, ["COUNT(*) FILTER (WHERE a > 1)"])),
    ("SELECT * FROM s GROUP BY a", Aggregate(S, ["*"], ["a"])),
    ("SELECT my_aggregate(a) FROM s GROUP BY ()", Aggregate(S, ["my_aggregate(a)"])),
    ("SELECT 'many' FROM s HAVING COUNT(*) > 9", Aggregate(S, ["'many'"], having=scalar("COUNT(*) > 9"))),
    # correlations
    ("SELECT * FROM s, t", Correlate((S, T))),
    ("SELECT * FROM s CROSS JOIN t", Correlate((S, T))),
    ("SELECT * FROM s l, s AS r WHERE l.a = r.a", Correlate((("l", S), ("r", S)), "l.a = r.a")),
    ("SELECT * FROM s JOIN t ON s.a = t.a", Correlate((S, T), "s.a = t.a")),
    (
        "SELECT * FROM s INNER JOIN t ON s.a = t.a AND s.b = 1, u WHERE u.a = 1 OR u.b = 2",
        Correlate((S, T, U), "s.a = t.a AND s.b = 1 AND (u.a = 1 OR u.b = 2)"),
    ),
    (
        "SELECT * FROM s, t JOIN u ON t.a = u.a WHERE s.a = t.a AND s.b = 1",
        Correlate((S, T, U), "t.a = u.a AND s.a = t.a AND s.b = 1"),
    ),
    ("SELECT s.a, t.* FROM s, t", Map(Correlate((S, T)), ["s.a", "t.*"])),
    ("SELECT COUNT(*) FROM s, t WHERE s.a = 1", Aggregate(Correlate((S, T), "s.a = 1"), ["COUNT(*)"])),
    (
        "SELECT input2.a FROM s, (SELECT a FROM t) WINDOW(NOW)",
        Map(Correlate((S, Window(Map(T, ["a"]), Now()))), ["input2.a"]),
    ),
    (
        "SELECT l.a FROM (SELECT * FROM s l, t r) WHERE r.b = 1",
        Map(Filter(Correlate((("l", S), ("r", T))), "r.b = 1"), ["l.a"]),
    ),
    ("SELECT * FROM s WINDOW(NOW), a.t", Correlate((("s", Window(S, Now())), ("t", Stream("a.t"))))),
    # unions
    ("SELECT * FROM s UNION ALL SELECT a FROM t", Union((S, Map(T, ["a"])))),
    ("SELECT * FROM s UNION ALL SELECT * FROM t UNION ALL SELECT * FROM u", Union((S, T, U))),
    ("(SELECT * FROM s UNION ALL SELECT * FROM t) UNION ALL (SELECT * FROM u)", Union((Union((S, T)), U))),
    ("SELECT * FROM (SELECT * FROM s UNION ALL SELECT * FROM t) WHERE a", Filter(Union((S, T)), "a")),
    # WITH
    ("WITH x AS (SELECT * FROM s WHERE a) SELECT * FROM x", Filter(S, "a")),
    ("WITH x AS (SELECT * FROM x) SELECT * FROM X", Stream("x")),
    ("WITH x AS (SELECT a FROM s), y AS (SELECT b FROM x) SELECT * FROM y", Map(Map(S, ["a"]), ["b"])),
    ("WITH x AS (SELECT a FROM s) SELECT x.a FROM x, t", Map(Correlate((("x", Map(S, ["a"])), T)), ["x.a"])),
    ("SELECT * FROM (WITH x AS (SELECT * FROM s) SELECT * FROM x) WINDOW(NOW)", Window(S, Now())),
    # MATCHING
    (f"SELECT * FROM s {M} a AS x > 1)", matched(Definition("a", "x > 1"))),
    (f"SELECT * FROM s {M[:-8]})", matched()),
    (
        f"SELECT * FROM s {M} a AS x DO v = 1, V = f(x, 2), b AS v DO v = 3)",
        matched(Definition("a", "x", (("v", "1"), ("V", "f(x, 2)"))), Definition("b", "v", {"v": "3"})),
    ),
    (f"SELECT * FROM s {M} a DO v = 1, b)", matched(Definition("a", None, {"v": "1"}), Definition("b"))),
    (
        f'SELECT * FROM s {M} "a" AS x IN (1, 2) b AS CASE WHEN x THEN y ELSE z END)',
        matched(Definition("a", "x IN (1, 2)"), Definition("b", "CASE WHEN x THEN y ELSE z END")),
    ),
    (f"SELECT * FROM s r {M} a AS r.x > s)", matched(Definition("a", "x > s"))),
    (
        f"SELECT * FROM s WINDOW(NOW) {M} a AS x) WINDOW(ROWS 2) m",
        Window(matched(Definition("a", "x"), node=Window(S, Now())), Rows(2)),
    ),
    (
        "SELECT * FROM s MATCHING (PARTITION BY k, j PATTERN (a | b)* c{2,3}? WITHIN INTERVAL '2' DAY MEASURES v Int)",
        Match(S, "(a | b)* c{2,3}?", 172_800_000, "v INTEGER", (), ("k", "j")),
    ),
    (
        'SELECT * FROM s MATCHING (PATTERN ^ A$ "within" /* x */ {- B -}?? WITHIN 1 S MEASURES v:Integer)',
        Match(S, '^ A $ "within" {- B -}??', 1000, "v INTEGER"),
    ),
]


@pytest.mark.parametrize(("text", "tree"), SAID)
def test_what_is_said(text: str, tree: Node) -> None:
    assert parse(text) == tree
    assert parse(statement(tree)) == tree


def test_names_keep_their_places() -> None:
    text = "WITH x AS (\n  SELECT abc FROM s WHERE abc > 1)\nSELECT x.abc FROM x /* é */, t WHERE t.abc = 2"
    tree = parse("/* é */ " + text)
    names = [
        (name.this, name.meta["start"])
        for node in walk(tree)
        for scalars in ([node.condition] if isinstance(node, (Filter, Correlate)) else getattr(node, "columns", ()))
        for name in scalars.find_all(exp.Identifier)
    ]
    assert len(names) == 6
    assert all(("/* é */ " + text)[start:].startswith(name) for name, start in names)


# Scripts --------------------------------------------------------------------------------------------------------------


def test_a_script() -> None:
    script = """
        CREATE STREAM trades (symbol VARCHAR, "the price": DOUBLE);  -- what comes in
        CREATE QUERY "high; low" AS SELECT * FROM trades WHERE symbol = ';';;
        SELECT COUNT(*) FROM "high; low" WINDOW(ROWS 5)
    """
    assert statements(script) == [
        CreateStream("trades", Schema.of('symbol VARCHAR, "the price" DOUBLE')),
        CreateQuery("high; low", Filter(Stream("trades"), "symbol = ';'"), "SELECT * FROM trades WHERE symbol = ';'"),
        Query(
            Aggregate(Window(Stream("high; low"), Rows(5)), ["COUNT(*)"]),
            'SELECT COUNT(*) FROM "high; low" WINDOW(ROWS 5)',
        ),
    ]


# Refusals, ¦ marks the place ------------------------------------------------------------------------------------------

REFUSED = """
¦                                                                 | the text is empty
¦  -- nothing                                                     | the text is empty
¦INSERT INTO s VALUES (1)                                         | a query starts with SELECT (or WITH), not 'INSERT'
¦FROM s SELECT *                                                  | a query starts with SELECT
¦CREATE QUERY q AS SELECT * FROM s                                | CREATE belongs in a script
SELECT * FROM s; ¦SELECT * FROM t                                 | one SELECT is expected here
SELECT * FROM s WHERE a = 1¦)                                     | unexpected ')' after its end
SELECT * FROM s foo ¦bar                                          | unexpected 'bar'
SELECT * FROM s WHERE a = 1 ¦foo                                  | unexpected 'foo'
SELECT * FROM s WHERE a¦, b                                       | unexpected ','
SELECT * FROM s ¦ON a = b                                         | unexpected 'ON'
SELECT * FROM s ¦WITH (NOLOCK)                                    | unexpected 'WITH'
SELECT¦                                                           | a list of columns is expected
SELECT ¦FROM s                                                    | a list of columns is expected, not 'FROM'
SELECT a¦                                                         | FROM is expected, not the end of the text
SELECT * FROM¦                                                    | a stream is expected
SELECT * FROM s,¦                                                 | a stream is expected
SELECT * FROM ¦window                                             | as a name it is quoted: "window"
SELECT * FROM ¦""                                                 | a name cannot be empty
SELECT a AS¦ FROM s                                              | a name is expected after AS
SELECT f(a AS¦), b FROM s                                        | a name is expected after AS
SELECT a ¦IS FROM s                                              | 'IS' is not a name
SELECT a¦, FROM s                                                 | an expression is missing beside ','
SELECT a¦,, b FROM s                                              | an expression is missing beside ','
SELECT ¦, b FROM s                                                | an expression is missing beside ','
SELECT f(a¦,) FROM s                                              | an expression is missing beside ','
SELECT * FROM s WHERE¦                                            | a condition is expected, not the end of the text
SELECT * FROM s WHERE ¦GROUP BY a                                 | a condition is expected, not 'GROUP BY'
SELECT * FROM s WHERE ¦*                                          | a condition is expected, not '*'
SELECT * FROM s WHERE a ¦b                                        | unexpected 'b'
¦SELEC a FROM s                                                   | unexpected 'SELEC'; did you mean SELECT?
SELECT a ¦FORM s                                                  | unexpected 'FORM'; did you mean FROM?
SELECT form ¦form s                                               | unexpected 'form'; did you mean FROM?
SELECT a FROM s ¦WHER a > 1                                       | unexpected 'WHER'; did you mean WHERE?
SELECT a FROM s WHERE a > 1 ¦GROPU BY a                           | unexpected 'GROPU'; did you mean GROUP?
SELECT a FROM s GROUP BY a ¦HAVIN COUNT(*) > 1                    | unexpected 'HAVIN'; did you mean HAVING?
SELECT * FROM s AS x ¦JION s AS y ON x.a = y.a                    | unexpected 'JION'; did you mean JOIN?
SELECT COUNT(*) FROM s ¦WINDW(RANGE 5 S)                          | unexpected 'WINDW'; did you mean WINDOW?
SELECT * FROM s ¦MATCH_RECOGNISE (PATTERN (A))                    | did you mean MATCH_RECOGNIZE?
SELECT a FROM s GROUP BY a AS ¦b                                  | unexpected 'b'
SELECT f(a AS ¦b) FROM s                                          | unexpected 'b'
SELECT * FROM s WHERE (a = ¦1                                     | syntax error: Expecting )
SELECT a FROM s WHERE a = 1 = ¦= 2                                | something is missing after '='
SELECT * FROM s WHERE a = ¦'x                                     | the text is never closed
SELECT * FROM s WHERE ¦"a = 1                                     | the quoted name is never closed
SELECT * FROM s ¦/* WHERE a = 1                                   | the comment is never closed
SELECT * FROM s ¦{# WHERE a = 1                                   | '{#' has no meaning here
SELECT ¦` FROM s                                                  | '`' is not a name
SELECT * FROM (¦s JOIN t ON a = b)                                | a sub-query is expected in parentheses
SELECT * FROM (SELECT * FROM s¦                                   | ) is expected
SELECT * FROM s ¦ORDER BY a                                       | ORDER BY is not supported: results come in time
SELECT * FROM s ¦ORDER BY a LIMIT 5                               | ORDER BY is not supported: results come in time
SELECT a ¦LIMIT 5 FROM s                                          | LIMIT is not supported
SELECT * FROM s WHERE a ¦OFFSET 2                                 | OFFSET is not supported
SELECT * FROM s WHERE a_ ¦FETCH FIRST 5 ROWS ONLY                 | FETCH is not supported
SELECT * FROM s UNION ALL SELECT * FROM t ¦ORDER BY a             | cep.query
SELECT ¦DISTINCT * FROM s                                         | DISTINCT wants the columns by name
SELECT DISTINCT ¦ON (a) b FROM s                                  | DISTINCT ON is not supported
SELECT * FROM s ¦UNION SELECT * FROM t                            | UNION wants the columns by name
SELECT * FROM s ¦UNION DISTINCT SELECT * FROM t                   | UNION wants the columns by name
SELECT * FROM s UNION ALL ¦BY NAME SELECT * FROM t                | SELECT is expected
SELECT * FROM s ¦INTERSECT SELECT * FROM t                        | INTERSECT wants the columns by name
SELECT * FROM s WHERE a ¦EXCEPT SELECT * FROM t                   | EXCEPT is not supported
SELECT s.a FROM s ¦LEFT JOIN t ON s.a = t.a                       | a LEFT JOIN of streams needs bounds of time
SELECT * FROM s ¦RIGHT OUTER JOIN t ON s.a = t.a                  | * beside a RIGHT JOIN
SELECT s.a FROM s ¦FULL JOIN t ON s.a = t.a                       | a FULL JOIN of streams needs
SELECT * FROM s ¦SEMI JOIN t ON s.a = t.a                         | a SEMI join
SELECT * FROM s ¦NATURAL JOIN t                                   | a NATURAL join
SELECT * FROM s JOIN t ON s.a = t.a ¦LEFT JOIN u ON true          | is of two inputs
SELECT * FROM s JOIN t ¦USING (a)                                 | write the condition, JOIN … ON
SELECT * FROM s JOIN t¦                                           | is written CROSS JOIN
SELECT * FROM s CROSS ¦APPLY t                                    | JOIN is expected, not 'APPLY'
SELECT * FROM s CROSS JOIN t ¦ON s.a = t.a                        | unexpected 'ON'
SELECT * FROM s, ¦LATERAL (SELECT * FROM t)                       | LATERAL is not supported
SELECT a, SUM(b) ¦OVER (PARTITION BY a) FROM s                    | ORDER BY ts is missing in OVER
SELECT SUM(b) OVER w FROM s ¦WINDOW w AS (PARTITION BY a)         | named windows are not supported
SELECT * FROM s ¦WINDOW w AS (PARTITION BY a)                     | named windows are not supported
SELECT * FROM s WHERE a > 1 ¦WINDOW w AS (PARTITION BY a)         | named windows are not supported
SELECT * FROM s ¦QUALIFY a                                        | QUALIFY is a condition on values OVER
SELECT * FROM s ¦TABLESAMPLE (10 PERCENT)                         | TABLESAMPLE is not supported
SELECT * FROM s ¦PIVOT (SUM(a) FOR b IN (1))                      | PIVOT is not supported
SELECT * FROM s ¦FOR SYSTEM_TIME AS OF '2020'                     | FOR is not supported
WITH ¦RECURSIVE x AS (SELECT * FROM s) SELECT * FROM x            | a recursive WITH is not supported
WITH x¦(a) AS (SELECT * FROM s) SELECT * FROM x                   | a list of columns is not supported here
WITH x AS (SELECT * FROM s), ¦X AS (SELECT 1) SELECT * FROM x     | WITH names 'X' twice
WITH x AS (SELECT * FROM s) SELECT * FROM x¦[a:Integer]           | a schema is not expected here
SELECT * FROM s WHERE ¦EXISTS (SELECT * FROM t)                   | name the columns
SELECT a FROM s WHERE ¦a IN (SELECT b FROM t)                     | need bounds of time
SELECT (¦SELECT 1 FROM t) FROM s                                  | a sub-query cannot stand in an expression
SELECT * FROM s WHERE a IN ¦b                                     | IN wants a list of values
SELECT a, COUNT(*) FROM s GROUP BY a, ¦2                          | name the column
SELECT COUNT(*) FROM s GROUP BY ¦GROUPING SETS ((a), (b))         | GROUPING SETS is not supported
SELECT COUNT(*) FROM s GROUP BY ¦ROLLUP (a)                       | ROLLUP is not supported
SELECT COUNT(*) FROM s GROUP BY a WITH ¦ROLLUP                    | ROLLUP is not supported
SELECT COUNT(*) FROM s GROUP BY a, ¦CUBE (a)                      | CUBE is not supported
SELECT COUNT(*) FROM s GROUP BY ¦ALL                              | ALL is not supported
SELECT * FROM ¦VALUES (1)                                         | VALUES is not a stream
SELECT * FROM (¦VALUES (1)) AS x                                  | VALUES is not a stream
SELECT * FROM ¦range(10)                                          | 'range' cannot be called
SELECT * FROM ¦UNNEST(x)                                          | UNNEST stands beside a stream
SELECT * FROM s WHERE a = ¦?                                      | a query has no parameters
SELECT * FROM s WHERE a = ¦:x                                     | a query has no parameters
SELECT * FROM s WHERE a = ¦$1                                     | a query has no parameters
SELECT * FROM s WHERE a = ¦@x                                     | a query has no parameters
SELECT a ¦INTO x FROM s                                           | INTO is not supported
SELECT ¦* EXCEPT (a) FROM s                                       | name the columns
SELECT * FROM s ¦MATCH_RECOGNIZE PATTERN (A)                      | MATCH_RECOGNIZE wants its clauses in parentheses
SELECT * FROM s AS x ¦(a, b)                                      | a list of columns is not supported here
SELECT f(a)¦.b FROM s                                             | a column is written name or input.name
SELECT * FROM s, ¦S                                               | two inputs are called 'S'
SELECT * FROM s ¦HAVING a > 1                                     | HAVING wants aggregates
SELECT a FROM s ¦EMIT ON CHANGE                                   | EMIT ON CHANGE wants aggregates
SELECT COUNT(*) FROM s EMIT ¦CHANGE                               | ON is expected (EMIT ON CHANGE)
SELECT COUNT(*) FROM s EMIT ON CHANGE ¦WHERE a                    | unexpected 'WHERE'
SELECT * FROM s WINDOW(RANGE ¦(1/2) MS)                           | a whole number of at least 1 is expected, not 0
SELECT * FROM s WINDOW(RANGE ¦(1/2.0 + 3) MS)                     | a whole number of at least 1 is expected, not 3.5
SELECT * FROM s WINDOW(RANGE ¦2.5 S)                              | a whole number
SELECT * FROM s WINDOW(RANGE ¦-5 S)                               | a whole number
SELECT * FROM s WINDOW(RANGE (5/¦0) S)                            | division by zero
SELECT * FROM s WINDOW(RANGE ¦1e9 S)                              | plain digits
SELECT * FROM s WINDOW(RANGE ¦999999999999999999 DAYS)            | less than 2**62
SELECT * FROM s WINDOW(RANGE 5 ¦FORTNIGHTS)                       | a unit of time is expected (MS, MILLISECOND
SELECT * FROM s WINDOW(RANGE 5¦)                                  | a unit of time is expected
SELECT * FROM s WINDOW(RANGE INTERVAL ¦'x' SECOND)                | INTERVAL wants a whole number
SELECT * FROM s WINDOW(RANGE 5 S SLIDE¦)                          | a number is expected, not ')'
SELECT * FROM s WINDOW(¦LAST 5)                                   | TUMBLING 5 S OF v is expected, not 'LAST'
SELECT * FROM s WINDOW(¦SESION 5 S)                               | not 'SESION'; did you mean 'SESSION'?
SELECT * FROM s WINDOW(ROWS 5 ¦S)                                 | ) is expected, not 'S'
SELECT * FROM s WINDOW(PARTITION BY a, b¦)                        | TUMBLING 5 S OF v is expected, not ')'
SELECT * FROM s WINDOW(ROWS 5) ¦WINDOW(NOW)                       | a second WINDOW
SELECT * FROM s[a¦]                                               | the type of 'a' is expected
SELECT * FROM s[a:¦Foo]                                           | unknown type 'Foo'
SELECT * FROM s[a:Integer, ¦A VARCHAR]                            | duplicate attribute 'A'
SELECT * FROM s[¦ts:Integer]                                      | the attribute name 'ts' is the bridge's own
SELECT * FROM s[a:Integer¦                                        | ] is expected
SELECT * FROM s[¦]                                                | a name with its type is expected
SELECT * FROM s ¦MATCHING xyz                                     | MATCHING wants its clauses in parentheses
SELECT * FROM s MATCHING (¦WITHIN 5 S)                            | PATTERN is expected
SELECT * FROM s MATCHING (PATTERN ¦WITHIN 5 S MEASURES v INTEGER) | a pattern is expected
SELECT * FROM s MATCHING (PATTERN ¦(xy WITHIN 1 S MEASURES v INT) | '(' is not closed by ')'
SELECT * FROM s MATCHING (PATTERN xy¦) WHERE a = 1                | WITHIN is expected (it bounds
SELECT * FROM s MATCHING (PATTERN xy ¦MEASURES v INTEGER)         | WITHIN is expected (it bounds
SELECT * FROM s MATCHING (PATTERN xy WITHIN 5 S¦)                 | MEASURES is expected
{M} ¦c AS true)                                                   | the symbol 'c' is defined but not in PATTERN
{M} ¦A AS true)                                                   | did you mean 'a'?
{M} a AS true, ¦a AS false)                                       | the symbol 'a' is defined twice
{M} a AS true DO ¦w = 1)                                          | the variable 'w' is not among MEASURES
{M} a AS¦)                                                        | a condition is expected
{M} a AS ¦, b AS true)                                            | a condition is expected
{M} a AS true DO v¦)                                              | = is expected
{M} a AS true DO v =¦)                                            | a value is expected
{M} a AS true = ¦= 1)                                             | something is missing
"""


@pytest.mark.parametrize("line", [line for line in REFUSED.splitlines() if line.strip()])
def test_refusals(line: str) -> None:
    marked, message = re.split(r"\s*\| (?=[^|]*$)", line.replace("{M}", f"SELECT * FROM s {M}"))
    before, after = marked.split("¦")
    with pytest.raises(QueryError) as refused:
        parse(before + after)
    assert message.strip() in refused.value.message
    assert (refused.value.text, refused.value.position) == (before + after, len(before))


UNKNOWN_INPUTS = """
WITH x AS (SELECT a FROM s WHERE ¦z.a = 1) SELECT * FROM x        | unknown input 'z'; there is 's'
SELECT ¦x.a FROM s                                                | unknown input 'x'; there is 's'
SELECT ¦s.a FROM s AS x                                           | unknown input 's'; there is 'x'
SELECT ¦m.s.a FROM s                                              | unknown input 'm'; there is 's'
SELECT * FROM s WINDOW(NOW), t WINDOW(NOW) WHERE ¦z.a = 1                                 | unknown input 'z'; there is 's', 't'
SELECT u.c FROM (SELECT a FROM s WINDOW(NOW) l, t WINDOW(NOW)) x, t WINDOW(NOW) u WHERE ¦l.a = 1 | unknown input 'l'
SELECT * FROM s WINDOW(PARTITION BY ¦x.a NOW)                     | unknown input 'x'
{M} a AS ¦q.b = 1)                                                | unknown input 'q'
"""
"""A qualifier may be a column with parts: that it is none either is known when names are."""


@pytest.mark.parametrize("line", UNKNOWN_INPUTS.strip().splitlines())
def test_unknown_inputs(line: str) -> None:
    marked, message = re.split(r"\s*\| (?=[^|]*$)", line.replace("{M}", f"SELECT * FROM s {M}"))
    before, after = marked.split("¦")
    with bridge.connect() as cep:
        cep.register_stream("s", "a INTEGER, b INTEGER")
        cep.register_stream("t", "c INTEGER")
        with pytest.raises(QueryError) as refused:
            cep.create_query("q", before + after)
    assert message.strip() in refused.value.message
    assert (refused.value.text, refused.value.position) == (before + after, len(before))


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        (" ;¦ ", "no statement"),
        ("CREATE ¦INDEX i ON t (a)", "CREATE STREAM or CREATE QUERY is expected, not 'INDEX'"),
        ("CREATE TABLE t (a INT, at TIMESTAMP, WATERMARK FOR ¦at AS at)", "the time of a stream is called ts"),
        ("CREATE TABLE t (ts TIMESTAMP, a INT, WATERMARK FOR ts AS ts ¦- INTERVAL '5' SECOND)", "connect(lateness=…)"),
        ("CREATE TABLE t (a INT, ¦PRIMARY KEY (a))", "leave out 'PRIMARY KEY'"),
        ("CREATE TABLE t (¦a WHATEVER)", "WHATEVER"),
        ("CREATE TABLE t (a INT, b INT); INSERT INTO t ¦SELECT a FROM s", "wants the columns a, b, by name"),
        ("CREATE STREAM ¦(a INT)", "a name for the stream is expected"),
        ("CREATE STREAM s ¦AS SELECT", "( is expected"),
        ("CREATE STREAM s (a INT¦", ") is expected"),
        ("CREATE STREAM s (a INT) ¦x", "unexpected 'x' after the end of the statement"),
        ("CREATE QUERY q ¦SELECT * FROM s", "AS is expected"),
        ("CREATE QUERY q AS ¦DELETE FROM s", "a query starts with SELECT"),
        ("SELECT * FROM s; ¦SELECT * FROM t", "a second SELECT without a name"),
        ("SELECT * FROM s;\n¦DROP TABLE s", "a query starts with SELECT"),
        ("CREATE STREAM s (a INT);\nSELECT a FROM s WHERE a ¦>", "something is missing after '>'"),
        (
            "CREATE STREAM s FROM TABLE orders¦",
            "POSITION names the column of the rows' numbers: FROM TABLE orders (POSITION id)",
        ),
        ("CREATE STREAM s FROM TABLE orders ¦(TIMESTAMP at)", "POSITION names the column"),
        ("CREATE STREAM orders FROM ¦shop", "TABLE or CHANGES OF is expected, not 'shop'"),
        ("CREATE STREAM s FROM CHANGES OF orders (¦POSITION id)", "TIMESTAMP is expected, not 'POSITION'"),
        ("CREATE STREAM s FROM TABLE orders (POSITION id, ¦POSITION id)", "POSITION is given twice"),
    ],
)
def test_refusals_in_scripts(marked: str, message: str) -> None:
    before, after = marked.split("¦")
    with pytest.raises(QueryError) as refused:
        statements(before + after)
    assert message in refused.value.message
    assert refused.value.position == len(before)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM " + "(SELECT * FROM " * 2000 + "s" + ")" * 2000,
        "SELECT * FROM s WHERE " + "(" * 2000 + "a" + ")" * 2000,
        "SELECT " + "-" + " -" * 3000 + "a FROM s",
        "SELECT * FROM s WINDOW(ROWS " + "(" * 3000 + "1" + ")" * 3000 + ")",
        "SELECT * FROM s MATCHING (PATTERN " + "(" * 3000 + "a WITHIN 1 S MEASURES v INT)",
        "WITH x AS " * 2000,
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        parse(text)


def test_a_long_chain_is_no_deep_nesting() -> None:
    assert isinstance(parse("SELECT * FROM s WHERE " + " AND ".join(["a = 1"] * 300)), Filter)


# Written back ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (Output(Relation("main.t")), "SELECT * FROM main.t"),
        (Map(Filter(S, "a > 1"), ["b"]), "SELECT b FROM s WHERE a > 1"),
        (Filter(Map(S, ["b"]), "b > 1"), "SELECT * FROM (SELECT b FROM s) WHERE b > 1"),
        (Correlate((("x", S), ("t", T)), "x.a = t.a"), "SELECT * FROM s AS x, t WHERE x.a = t.a"),
        (Window(Window(S, Now()), Rows(1)), "SELECT * FROM (SELECT * FROM s WINDOW(NOW)) WINDOW(ROWS 1)"),
        (Aggregate(S, ["f(a)"]), "SELECT f(a) FROM s GROUP BY ()"),
        (Stream("select", '"order" INT'), 'SELECT * FROM "select"["order": INTEGER]'),
        (Map(S, ["*"]), "SELECT * FROM s"),
        (Filter(S, col("from") > 1), 'SELECT * FROM s WHERE "from" > 1'),
        (
            Match(S, "xy x within", "1 S", "v INT", (Definition("x"), Definition("y", "a", {"v": "a"}))),
            'SELECT * FROM s MATCHING (PATTERN x y x "within" WITHIN 1000 MS MEASURES v: INTEGER '
            "DEFINE x, y AS a DO v = a)",
        ),
    ],
)
def test_the_text_written(tree: Node, text: str) -> None:
    assert statement(tree) == str(tree) == text


def test_a_symbol_of_letters_that_are_symbols_is_quoted() -> None:
    tree = Match(S, p.Concatenation((p.Symbol("xy"), p.Symbol("x"))), 1, "v INT", (Definition("x", "a"),))
    assert 'PATTERN "xy" x WITHIN' in statement(tree)
    assert parse(statement(tree)) == tree


# Any tree comes back -------------------------------------------------------------------------------------------------

WEIRD = [
    "a b",
    'say "a"',
    "select",
    "Größe",
    "日本",
    "MATCHING",
    "within",
    "x'y",
    "--",
    "/* c",
    "limit",
    "do",
    "end",
    ".",
]
names = st.sampled_from(["a", "b", "Price", "_x1", "offset", "ts2", *WEIRD])
stream_names = names | st.sampled_from(["main.trades", "my db.t", "a.b.c", "a..b"])
plain = re.compile(r"[A-Za-z]+[0-9]?")


def column(name: str, of: str | None = None) -> exp.Expression:
    """A column whose name is quoted where SQL wants that, and sometimes where not."""

    def identifier(text: str) -> exp.Identifier:
        return exp.to_identifier(text, quoted=text in WEIRD or not plain.fullmatch(text))

    return exp.column(identifier(name), table=None if of is None else identifier(of))


literals = st.one_of(
    st.integers(-(10**20), 10**20),
    st.booleans(),
    st.none(),
    st.text("aé'\"\n-;/*¦\\%", max_size=5),
    st.decimals(-1000, 1000, places=3),
    st.datetimes(),
    st.dates(),
).map(lambda value: exp.convert(value))


def triples(of: st.SearchStrategy[exp.Expression]) -> st.SearchStrategy[tuple[exp.Expression, ...]]:
    return st.tuples(of, of, of)


@st.composite
def grown(draw: st.DrawFn, below: st.SearchStrategy[exp.Expression]) -> exp.Expression:
    """One step of an expression over smaller ones."""
    a, b, c = (
        atom if isinstance(atom, (exp.Column, exp.Literal)) else exp.paren(atom) for atom in draw(triples(below))
    )
    shapes = [
        lambda: a + b,
        lambda: a - b,
        lambda: a * b,
        lambda: a / b,
        lambda: -a,
        lambda: a.eq(b),
        lambda: a > b,
        lambda: exp.and_(a, b, c),
        lambda: exp.or_(a, b),
        lambda: exp.not_(a),
        lambda: a.between(b, c),
        lambda: a.isin(b, c),
        lambda: a.is_(exp.null()),
        lambda: a.like("x%"),
        lambda: exp.cast(a, "DECIMAL(10, 2)"),
        lambda: exp.Case().when(a.copy(), b.copy()).else_(c.copy()),
        lambda: exp.func("COALESCE", a, b),
        lambda: exp.func("my_function", a, b, c),
        lambda: exp.func("ABS", a),
    ]
    return draw(st.sampled_from(shapes))()


def scalars(qualifiers: list[str], aggregates: bool = False) -> st.SearchStrategy[exp.Expression]:
    """Expressions over columns of these inputs, and of none; with or without aggregate functions."""
    columns = st.builds(column, names, st.sampled_from([None, *qualifiers]))
    below = st.recursive(columns | literals, grown, max_leaves=6)
    if not aggregates:
        return below
    functions = st.sampled_from(["SUM", "MIN", "AVG", "STDDEV", "FIRST", "LAST", "COUNT"])
    return below | st.builds(lambda name, of: exp.func(name, of) + 1, functions, below) | st.just(count())


def listed(items: st.SearchStrategy[exp.Expression]) -> st.SearchStrategy[tuple[exp.Expression, ...]]:
    def aliased(item: exp.Expression, alias: str | None) -> exp.Expression:
        return item if alias is None else exp.alias_(item.copy(), alias, quoted=True)

    return st.lists(st.builds(aliased, items, st.none() | names), min_size=1, max_size=3).map(tuple)


def keys(qualifiers: list[str]) -> st.SearchStrategy[tuple[exp.Expression, ...]]:
    return st.lists(scalars(qualifiers).filter(lambda key: not isinstance(key, exp.Literal)), max_size=2).map(tuple)


schemas = st.lists(
    st.tuples(names, st.sampled_from(["INTEGER", "VARCHAR", "DECIMAL(10, 2)"])),
    min_size=1,
    max_size=3,
    unique_by=lambda pair: pair[0].lower(),
).map(lambda pairs: Schema.of(dict(pairs)))
sizes = st.integers(1, 10**9)
extents = st.one_of(
    st.builds(Range, sizes, st.none() | sizes),
    st.builds(Rows, sizes, st.none() | sizes),
    st.just(Unbounded()),
    st.just(Now()),
)
symbols = st.sampled_from(["x", "y", "X", "xy", "up", "within", "define", "permute", "a b", '"', "select", "é"])
quantifiers = st.tuples(st.integers(0, 3), st.none() | st.integers(3, 5), st.booleans())
patterns = st.recursive(
    symbols.map(p.Symbol) | st.sampled_from([p.Empty(), p.Anchor("^"), p.Anchor("$")]),
    lambda below: st.one_of(
        st.lists(below.filter(lambda part: not isinstance(part, p.Concatenation)), min_size=2, max_size=3).map(
            lambda parts: p.Concatenation(tuple(parts))
        ),
        st.lists(below.filter(lambda part: not isinstance(part, p.Alternation)), min_size=2, max_size=3).map(
            lambda parts: p.Alternation(tuple(parts))
        ),
        st.builds(lambda part, bounds: p.Quantified(part, *bounds), below, quantifiers),
        st.lists(below, min_size=1, max_size=2).map(lambda parts: p.Permutation(tuple(parts))),
    ),
    max_leaves=5,
)


def aliases(node: Node) -> list[str]:
    """The qualifiers that are understood over `node`."""
    while isinstance(node, Filter):
        node = node.input
    return [alias for alias, _ in node.inputs] if isinstance(node, Correlate) else []


@st.composite
def matches(draw: st.DrawFn, node: Node) -> Node:
    pattern, measures = draw(patterns), draw(schemas)
    assignment = st.tuples(st.sampled_from(measures.names), scalars(aliases(node)))
    definition = st.tuples(st.none() | scalars(aliases(node)), st.lists(assignment, max_size=3))
    known = p.symbols(pattern)
    chosen = draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    define = tuple(Definition(symbol, *draw(definition)) for symbol in chosen)
    return Match(node, pattern, draw(sizes), measures, define, draw(keys(aliases(node))))


@st.composite
def aggregates(draw: st.DrawFn, node: Node) -> Node:
    columns = draw(listed(scalars(aliases(node), aggregates=True)))
    having = draw(st.none() | scalars(aliases(node), aggregates=True))
    return Aggregate(node, columns, draw(keys(aliases(node))), having, draw(st.booleans()))


@st.composite
def correlations(draw: st.DrawFn, inputs: list[Node]) -> Node:
    names_of = draw(st.lists(names, min_size=len(inputs), max_size=len(inputs), unique_by=str.lower))
    condition = draw(st.none() | scalars(names_of))
    return Correlate(tuple(zip(names_of, inputs, strict=True)), condition)


def above(below: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """One node over smaller ones."""
    several = st.lists(below, min_size=2, max_size=3)
    return st.one_of(
        below.flatmap(lambda node: st.builds(Filter, st.just(node), scalars(aliases(node)))),
        below.flatmap(lambda node: st.builds(Map, st.just(node), listed(scalars(aliases(node))))),
        below.flatmap(lambda node: st.builds(Window, st.just(node), extents, keys(aliases(node)))),
        below.flatmap(matches),
        below.flatmap(aggregates),
        several.flatmap(correlations),
        several.map(lambda nodes: Union(tuple(nodes))),
    )


trees = st.recursive(st.builds(Stream, stream_names, st.none() | schemas), above, max_leaves=4)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees)
def test_any_tree_comes_back(tree: Node) -> None:
    text = statement(tree)
    assert parse(text) == tree, text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM s t WHERE s.a = 1",
        "SELECT s.a AS x FROM s t",
        "SELECT s.a, COUNT(*) AS n FROM s WINDOW(RANGE 5 S) AS t GROUP BY s.a",
        "SELECT * FROM s t WHERE s.a = 1",
    ],
)
def test_a_part_of_a_column_that_is_called_as_the_stream_stays_one(text: str) -> None:
    tree = parse(text)
    assert parse(statement(tree)) == tree


@pytest.mark.parametrize("kind", Extent.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_kind_of_window_is_read_as_its_example_shows_it(kind: type[Extent]) -> None:
    tree = parse(f"SELECT COUNT(*) FROM s[v INTEGER] WINDOW({re.sub('[][]', '', kind.example)})")
    (window,) = (node for node in walk(tree) if isinstance(node, Window))
    assert type(window.extent) is kind


# Damaged queries are refused, never misread --------------------------------------------------------------------------

VALID = [text for text, _ in SAID] + [SIGMA, JOIN.format(count=1), ALPHA.format(count=1), RHO.format(count=1)]
PIECES = [piece for text in VALID for piece in re.findall(r"\w+|\s+|[^\w\s]", text)]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    pieces = re.findall(r"\w+|\s+|[^\w\s]", draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(pieces)))
        until = place + draw(st.integers(0, 2))
        pieces[place:until] = draw(st.lists(st.sampled_from(PIECES), max_size=2))
    return "".join(pieces)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_damaged_queries(text: str) -> None:
    try:
        tree = parse(text)
    except QueryError as error:
        assert error.position is not None
        assert 0 <= error.position <= len(text)
    else:
        # Text against text: words that cannot stand everywhere (`interval`) come back in quotes.
        assert statement(parse(statement(tree))) == statement(tree)
