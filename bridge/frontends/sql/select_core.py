"""One SELECT: its clauses in the order of the text, and the query objects that they make."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.expressions import (
    Qualifiers,
    aliases_of,
    all_of,
    expression_list,
    position_of,
    refuse_foreign,
    resolve,
    unchecked_list,
    without_aliases,
)
from bridge.frontends.sql.clauses import on_change, step_final
from bridge.frontends.sql.from_items import FromClause, Join, ReadQuery, Results, aliased, condition
from bridge.frontends.sql.refused import GROUPINGS, NO_STREAM, STOPS, refuse_next
from bridge.frontends.sql.streaming.bounds import bounds_among, check_ended, is_result
from bridge.frontends.sql.streaming.grouping_sets import grouping_sets, groups_of_sets, is_grouping_set
from bridge.frontends.sql.streaming.joins import (
    OuterJoin,
    inner_join,
    joins_windows,
    outer_join,
    versioned_join,
    window_join,
    with_own_times,
)
from bridge.frontends.sql.streaming.over_following import OverFollowing, is_following
from bridge.frontends.sql.streaming.over_range import OverRange, is_range
from bridge.frontends.sql.streaming.over_rows import OverRows, give_places, has_over, without_over
from bridge.frontends.sql.streaming.ranks import FirstOfRank, RankedRows, limit_in, qualified_number, ranking_of
from bridge.frontends.sql.streaming.select_list import (
    distinct_rows,
    is_star,
    mark_time,
    standard,
    unaliased,
    with_time_named,
)
from bridge.frontends.sql.streaming.semi_joins import SemiJoin, qualified, semi_join
from bridge.frontends.sql.streaming.time_values import arithmetic_of
from bridge.frontends.sql.streaming.times import lags_of, times_of, without_time
from bridge.frontends.sql.streaming.undecided import START, RowsInWindows, decide, truncation
from bridge.frontends.sql.streaming.window_functions import WindowFunction, in_group_by, is_in_group_by, spark_bounds
from bridge.frontends.sql.streaming.window_groups import (
    Grouping,
    group_by_windows,
    parts_of,
    regroup_by_windows,
    with_columns,
)
from bridge.frontends.sql.where import Partners, Where, WhereReader
from bridge.query.nodes import Aggregate, Correlate, Filter, Map, Node, Window
from windows.extents import Unbounded

_RANK = "row_rank"
"""The name of a number that only QUALIFY reads."""


class SelectReader:
    """Steps over one SELECT, clause by clause, then makes its query objects."""

    def __init__(self, cursor: Cursor, results: Results, read: ReadQuery) -> None:
        self.cursor = cursor
        self.over_at = 0
        """The position of the first OVER, if there is one."""
        refuse_next(cursor, NO_STREAM)
        cursor.expect("SELECT")
        self.position = cursor.position
        self.distinct = cursor.take("DISTINCT")
        if self.distinct and cursor.word() == "ON":
            cursor.fail("DISTINCT ON is not supported: QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) = 1")
        columns = self._list(cursor.until(STOPS), "a list of columns")
        refuse_next(cursor)
        cursor.expect("FROM")
        source = FromClause(cursor, results, read)
        source.step()
        where = WhereReader(cursor, results, read).where() if cursor.take("WHERE") else Where([], [])
        self.partners = where.partners
        self._combine(source, where.conditions, columns)
        self.columns = self._resolved(columns)
        self._read_groups()

    def _list(self, region: Region, what: str) -> tuple[exp.Expr, ...]:
        """The expressions of a region. Those with OVER are checked without it."""
        found = unchecked_list(self.cursor, region, what)
        if has_over(found):
            self.over_at = self.over_at or give_places(self.cursor, region, found)
            refuse_foreign(self.cursor, region, tuple(map(without_over, found)))
        else:
            refuse_foreign(self.cursor, region, found)
        return found

    def _combine(self, source: FromClause, where: list[exp.Expr], columns: tuple[exp.Expr, ...]) -> None:
        """Sets `rows`, what the select list reads, and the `conditions` that are not part of it."""
        self.timed = frozenset[str]()
        inputs, on = aliased(self.cursor, source.items), [join.on for join in source.joins]
        self.outer: OuterJoin | None = None
        if len(inputs) == 1:
            (alias, self.rows), *_ = inputs
            self.names = Qualifiers(alias, aliases_of(self.rows), values=source.values | spark_bounds(self.cursor))
            self.conditions = self._resolved(where)
            return
        self.rows = Correlate(tuple((alias, _below(node)) for alias, node in inputs))
        self.names = Qualifiers(None, tuple(alias for alias, _ in inputs))
        special = self._special_join(source)
        self.conditions = self._resolved(where if special else [])
        conditions = self._resolved(on if special else [*on, *where])
        if special is None:
            position = source.items[1].position
            if joins_windows(inputs, conditions):
                self.rows, self.timed = window_join(self.cursor, inputs, conditions, columns, position)
                return
            decided = tuple((alias, decide(self.cursor, node)) for alias, node in inputs)
            self.rows = inner_join(self.cursor, decided, conditions)
        elif (as_of := source.items[1].as_of) is not None:
            self.rows = versioned_join(self.cursor, inputs, special.kind, conditions, as_of == "ts", special.position)
        else:
            self.outer = OuterJoin(inputs, special.kind, conditions, special.position)

    def _special_join(self, source: FromClause) -> Join | None:
        """The join, if it is an outer one, or one with versions."""
        found = [join for join in source.joins if join.kind != "INNER"]
        versioned = [item for item in source.items if item.as_of is not None]
        if not found and not versioned:
            return None
        if len(source.items) > 2 or not source.joins or source.items[0].as_of is not None:
            position = found[0].position if found else versioned[0].position
            self.cursor.fail(
                "an outer join, and one with FOR SYSTEM_TIME AS OF, is of two inputs: put it into a sub-query", position
            )
        return source.joins[0]

    def _resolved(self, expressions: tuple[exp.Expr, ...] | list[exp.Expr]) -> tuple[exp.Expr, ...]:
        times = times_of(self.cursor, _below(self.rows))
        if isinstance(self.rows, RowsInWindows):
            times |= set(self.rows.bounds)
        found = (arithmetic_of(each, times) for each in resolve(self.cursor, expressions, self.names))
        return tuple(each if isinstance(each, exp.Column) else with_own_times(self.timed, each) for each in found)

    # GROUP BY, HAVING, QUALIFY, EMIT

    def _read_groups(self) -> None:
        cursor = self.cursor
        self.grouped = cursor.take("GROUP BY")
        self.function: WindowFunction | None = None
        self.sets: list[tuple[exp.Expr, ...]] = []
        self.function_at = self.keys_at = cursor.position
        keys = self._resolved(self._keys()) if self.grouped else ()
        self.keys = tuple(with_own_times(self.timed, key) for key in keys)
        self.having_at = cursor.position  # or that of QUALIFY
        self.having = self._resolved([condition(cursor)]) if cursor.take("HAVING") else ()
        self.qualify: tuple[exp.Expr, ...] = ()
        if cursor.take("QUALIFY"):
            self.qualify = self._resolved(without_aliases(cursor, self._list(cursor.until(STOPS), "a condition")))

    def _keys(self) -> list[exp.Expr]:
        cursor, keys = self.cursor, list[exp.Expr]()
        if cursor.take("(", ")"):  # all rows are one group, whatever functions the list has
            return []
        while True:
            if is_grouping_set(cursor):
                self._read_sets()
            elif is_in_group_by(cursor):
                self._set_function(in_group_by(cursor, lags_of(cursor, _below(self.rows))))
            else:
                keys += self._key()
            if not cursor.take(","):
                return keys

    def _read_sets(self) -> None:
        cursor, position = self.cursor, self.cursor.position
        word = cursor.word()
        sets = grouping_sets(cursor)
        if self.sets or not isinstance(self.rows, RowsInWindows):
            cursor.fail(f"{word} is not supported: {GROUPINGS[word]}", position)
        self.sets = [self._resolved(keys) for keys in sets]

    def _key(self) -> tuple[exp.Expr, ...]:
        cursor = self.cursor
        start, region = cursor.position, cursor.until((",", *STOPS))
        for token in cursor.tokens[region.start : region.end]:
            if word_of(token) in GROUPINGS:
                cursor.fail(f"{word_of(token)} is not supported: {GROUPINGS[word_of(token)]}", token.start)
        found = without_aliases(cursor, expression_list(cursor, region, "a column to group by"))
        if isinstance(found[0], exp.Literal):
            cursor.fail("GROUP BY a position is not supported: name the column", start)
        function = truncation(found[0])
        if function is None or _has_window(self.rows):
            return found
        self._set_function(function)
        return ()

    def _set_function(self, function: WindowFunction) -> None:
        if self.function is not None or isinstance(self.rows, RowsInWindows):
            self.cursor.fail("a second window: the rows are grouped by one", self.function_at)
        if _has_window(self.rows):
            self.cursor.fail(
                f"the stream has a WINDOW( … ): leave it out, or group without {function.kind}", self.function_at
            )
        self.function = function

    # Query objects

    def tree(self) -> Node:
        """The query objects."""
        if self.function is not None:
            self.rows = RowsInWindows(
                decide(self.cursor, self.rows), self.function, implied=True, position=self.function_at
            )
        node = self._undistinct()
        if any(isinstance(column, exp.Column) and column.name.lower() == "ts" for column in self.columns):
            mark_time(node)
        if self.distinct and not self._groups_distinct():
            return distinct_rows(self.cursor, node, self.position)
        return node

    def _undistinct(self) -> Node:
        if self.partners:
            return self._semi_join(self.partners)
        if self.outer is not None:
            return self._outer_join(self.outer)
        if self.qualify or self.over_at:
            return self._over()
        if isinstance(self.rows, RankedRows):
            return self._of_ranked(self.rows)
        if isinstance(self.rows, RowsInWindows) and (found := self._of_windowed(self.rows)) is not None:
            return found
        return self._plain(self._filtered(decide(self.cursor, self.rows)))

    def _filtered(self, node: Node) -> Node:
        return Filter(node, all_of(self.conditions)) if self.conditions else node

    def _plain(self, node: Node) -> Node:
        cursor, columns = self.cursor, self.columns
        # a function that only the database knows may be an aggregate, too
        kinds = (exp.AggFunc, exp.Anonymous) if self.having or cursor.word() == "EMIT" else (exp.AggFunc,)
        if self.grouped or any(column.find(*kinds) for column in columns + self.having):
            if bounds := bounds_among(cursor, node, self.keys):
                check_ended(cursor, node, bounds, self.keys_at)
                step_final(cursor)
                return regroup_by_windows(node, columns, self.keys, self.having)
            having = self.having[0] if self.having else None
            node = Window(node, Unbounded()) if is_result(cursor, node) else node
            return Aggregate(node, columns, self.keys, having, **on_change(cursor))
        if self.having:
            cursor.fail(
                "HAVING wants aggregates or GROUP BY: a condition on single events belongs in WHERE", self.having_at
            )
        if cursor.word() == "EMIT":
            cursor.fail("EMIT ON CHANGE wants aggregates or GROUP BY: nothing else changes by expiry")
        if is_star(columns):
            return node
        columns = without_time(node, columns)
        self._refuse_other_time(columns)
        return Map(node, columns)

    def _refuse_other_time(self, columns: tuple[exp.Expr, ...]) -> None:
        """Refuses a column `o.ts` without a name of its own, as a result of a join may have another time."""
        for column in columns:
            if isinstance(column, exp.Column) and column.name.lower() == "ts" and column.table:
                self.cursor.fail(
                    f"{column.sql()} is not the time of the results, which come later: give it a name, {column.sql()} AS "
                    f"{column.table}_ts, and windows over the results are by their own ts",
                    position_of(column),
                )

    # Windows

    def _of_windowed(self, rows: RowsInWindows) -> Node | None:
        """The query objects over a window function; None if its bounds are plain columns."""
        aliases = {item.alias.lower(): item.this for item in self.columns if isinstance(item, exp.Alias)}
        keys = [unaliased(key, aliases, rows) for key in self.keys]
        if self._groups_distinct():
            keys = [item.this if isinstance(item, exp.Alias) else item for item in self.columns]
        bounded = rows.implied or any(rows.bound(key) is not None for key in keys)
        if rows.function.kind == "CUMULATE" and {rows.bound(key) for key in keys} - {None} == {START}:
            self.cursor.fail("GROUP BY window_end is missing: windows of CUMULATE have a start together", self.keys_at)
        if bounded and (self._aggregates or self._groups_distinct()):
            step_final(self.cursor)
            having = tuple(unaliased(each, aliases, rows) for each in self.having)
            others = tuple(key for key in keys if rows.bound(key) is None)
            self._check_session(rows, others)
            columns = tuple(map(standard, self.columns))
            by = Grouping(columns, self.conditions, others, tuple(map(standard, having)))
            return groups_of_sets(rows, by, self.sets) if self.sets else group_by_windows(rows, by)
        if self._aggregates:
            self.cursor.fail("GROUP BY window_start, window_end is missing: the windows are not grouped", rows.position)
        return with_columns(rows, self.conditions, without_time(rows.input, self.columns))

    def _check_session(self, rows: RowsInWindows, keys: tuple[exp.Expr, ...]) -> None:
        function = rows.function
        if function.kind == "SESSION" and not rows.implied and set(function.keys) != set(keys):
            wanted = ", ".join(key.sql() for key in function.keys) or "nothing"
            self.cursor.fail(f"the sessions are partitioned by {wanted}: GROUP BY that and the window", rows.position)

    def _groups_distinct(self) -> bool:
        rows = self.rows
        return self.distinct and isinstance(rows, RowsInWindows) and any(map(rows.has_bound, self.columns))

    @property
    def _aggregates(self) -> bool:
        """Whether the results are groups."""
        return bool(self.grouped or self.having or any(item.find(exp.AggFunc) for item in self.columns))

    def _outer_join(self, join: OuterJoin) -> Node:
        if self._aggregates or self.qualify or self.over_at:
            self.cursor.fail(f"aggregates over a {join.kind} JOIN: put the join into a sub-query", join.position)
        self._refuse_other_time(self.columns)
        return outer_join(self.cursor, join, self.conditions, self.columns)

    def _semi_join(self, partners: list[Partners]) -> Node:
        (one, *others), cursor = partners, self.cursor
        if others or self.outer is not None or self.names.own is None:
            place = others[0].position if others else one.position
            cursor.fail("IN and EXISTS are of one input, once: put it with its sub-query into FROM", place)
        if self._aggregates or self.qualify or self.over_at:
            cursor.fail("aggregates beside IN and EXISTS: put the query with its sub-query into FROM", one.position)
        inputs = ((self.names.own, self.rows), (one.alias, one.node))
        times = times_of(cursor, _below(self.rows)) | times_of(cursor, _below(one.node))
        names = Qualifiers(None, (self.names.own, one.alias))
        inner = [qualified(each, one.alias) for each in one.on]
        if one.equal is not None:
            mine, its = one.equal
            inner.append(exp.EQ(this=qualified(mine, self.names.own), expression=qualified(its, one.alias)))
        on = tuple(arithmetic_of(each, times) for each in resolve(cursor, inner, names))
        join = SemiJoin(inputs, parts_of(on), one.is_anti, one.position)
        return semi_join(cursor, join, self.conditions, self.columns)

    # OVER and numbers of rows

    def _over(self) -> Node:
        cursor, node = self.cursor, self.rows
        if not self.over_at:
            cursor.fail(
                "QUALIFY is a condition on values OVER rows: one on single events belongs in WHERE", self.having_at
            )
        if self.grouped or self.having:
            cursor.fail("GROUP BY beside OVER: put the GROUP BY into a sub-query", self.over_at or self.having_at)
        if self.conditions:
            windowed = isinstance(node, RowsInWindows) and not any(map(node.has_bound, self.conditions))
            if windowed and isinstance(node, RowsInWindows):
                node = dataclasses.replace(node, input=self._filtered(node.input))
            else:
                node = self._filtered(decide(cursor, node))
        if (number := qualified_number(self.qualify)) is not None:
            rows = RankedRows(node, self.columns, _RANK, number.window, self.over_at)
            return FirstOfRank(cursor, rows, number.limit, numbered=False).node()
        if not self.qualify and (found := ranking_of(node, self.columns, self.over_at)) is not None:
            return found
        below = decide(cursor, node)
        windows = [found for each in (*self.columns, *self.qualify) for found in each.find_all(exp.Window)]
        if any(map(is_following, windows)):
            times = times_of(cursor, below)
            return OverFollowing(cursor, self.over_at, times).node(below, self.columns, self.qualify)
        if any(map(is_range, windows)):
            return OverRange(cursor, self.over_at, times_of(cursor, below)).node(below, self.columns, self.qualify)
        over = OverRows(cursor, self.over_at, times_of(cursor, below))
        return over.node(below, without_time(below, self.columns), self.qualify)

    def _of_ranked(self, rows: RankedRows) -> Node:
        conditions = parts_of(self.conditions)

        def is_number(node: exp.Expr) -> bool:
            return isinstance(node, exp.Column) and node.name.lower() == rows.name.lower()

        limits = [limit_in(each, is_number) for each in conditions]
        limit = next((found for found in limits if found is not None), None)
        if limit is None:
            return self._plain(self._filtered(decide(self.cursor, rows)))
        others = [each for each, found in zip(conditions, limits, strict=True) if found is not limit]
        read = (*self.columns, *self.keys, *self.having, *others)
        numbered = any(is_number(node) or isinstance(node, exp.Star) for each in read for node in each.walk())
        limited = any(is_number(node) for each in others for node in each.walk())
        first = FirstOfRank(self.cursor, rows, limit, numbered, limited)
        node = first.node()
        if first.time != "ts":
            self.columns = tuple(with_time_named(each, first.time) for each in self.columns)
            others = [with_time_named(each, first.time) for each in others]
        return self._plain(Filter(node, all_of(tuple(others))) if others else node)


def _below(node: Node) -> Node:
    return node.input if isinstance(node, (RowsInWindows, RankedRows)) else node


def _has_window(node: Node) -> bool:
    return isinstance(node, Window)
