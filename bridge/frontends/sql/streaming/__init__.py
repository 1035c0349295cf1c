"""Standard streaming SQL, as Flink and others write it, becomes the query objects of the bridge.

A text of standard streaming SQL has no query objects of its own. Each construct is a composition of windows, aggregates
and joins that the bridge has anyway, so it runs live, in a replay and on Spark, on every database:

>>> from bridge.frontends.sql.statements import parse
>>> print(parse("SELECT window_end, k, SUM(v) AS total FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND)) "
...             "GROUP BY window_start, window_end, k"))
SELECT ts AS window_end, k, total FROM (SELECT k, SUM(v) AS total FROM s WINDOW(RANGE 5000 MS SLIDE 5000 MS) GROUP BY k)
>>> print(parse("SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING) AS total FROM s"))
SELECT k, SUM(v) AS total FROM s WINDOW(PARTITION BY k ROWS 3) GROUP BY k
>>> print(parse("SELECT DISTINCT k FROM s"))
SELECT * FROM (SELECT k FROM s) WINDOW(PARTITION BY k FIRST ROWS 1)

Results are only added and never taken back. A construct whose results would have to be taken back is refused, with a text
that runs. docs/language.md lists both.

How a text becomes a tree
-------------------------

`bridge.frontends.sql.select_core` reads the clauses of a SELECT, then asks this package for the query objects. What a
part means may depend on a clause that follows: a window function in FROM is a window only if GROUP BY has its bounds. Such
a part is an `UndecidedNode` until the SELECT around it has been read; a finished tree has none.

| module | what it makes |
|---|---|
| `window_functions` | TUMBLE, HOP, CUMULATE and SESSION in FROM, in GROUP BY and after a stream: their text, and their windows |
| `undecided` | the rows of a window function, before it is known whether they are grouped |
| `window_groups`, `grouping_sets` | an aggregate per window; one per set of keys |
| `bounds` | which columns of a sub-query are bounds of windows |
| `over_rows`, `over_range`, `over_following` | values OVER rows before, OVER a range of time, and OVER rows that follow |
| `ranks`, `window_ranks` | the first n rows by time or by value, so far and in windows |
| `joins`, `semi_joins` | outer joins by bounds of time, joins of windows and with versions; IN, EXISTS and NOT EXISTS |
| `times`, `time_values` | which columns are the time of the events, and arithmetic with it |
| `select_list` | DISTINCT and INTERSECT, the names of columns, aggregates by their standard names |
| `tables` | CREATE TABLE and INSERT INTO |

The time of a result
--------------------

The `ts` of a result is the time at which it is known. That is the end of its window; a millisecond after the last row
that could change it, for sessions, OVER a range and rows without a partner; and the time of the latest row in all other
cases. Where a window or a join gives a row another time, the row's own time is one more column, `event_ts`.
"""
