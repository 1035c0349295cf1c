"""EPL's match_recognize ( … ), from its text to an EagerMatch.

Its clauses stand in one order: PARTITION BY, MEASURES, ALL MATCHES, AFTER MATCH SKIP, PATTERN, INTERVAL or WITHIN,
DEFINE.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from sqlglot import TokenType, exp

from bridge.check import paths
from bridge.errors import nearest
from bridge.frontends.cursor import Cursor, Region, word_of
from bridge.frontends.epl import expressions as epl_scalars
from bridge.frontends.epl import row_pattern as epl_rows
from bridge.frontends.epl.column_names import numbered
from bridge.frontends.epl.cursor import period
from bridge.frontends.epl.paths import Count, Index, Key, Name, Step, following
from bridge.frontends.expressions import position_of
from bridge.query.epl_columns import COMPUTED_KEY
from bridge.query.epl_patterns import EagerMatch
from bridge.query.epl_state import CURRENT
from bridge.query.nodes import Map, Node, Window
from bridge.query.row_pattern import RowPattern, variable_identifier
from nfa import pattern as variables
from nfa.pattern import Pattern, symbols
from nfa.skip import After

_CLAUSES = ("MEASURES", "ALL", "AFTER", "PATTERN", "INTERVAL", "WITHIN", "DEFINE")
_AFTER = {"LAST": After.PAST_LAST_ROW, "NEXT": After.TO_NEXT_ROW, "CURRENT": After.TO_CURRENT_ROW}
_REPORT = {"PASTLAST": After.PAST_LAST_ROW, "TONEXT": After.TO_NEXT_ROW, "TOCURRENT": After.TO_CURRENT_ROW}
"""The report's words for the same."""


class _NamedExpression(NamedTuple):
    """An expression as it was written, with its place; what it names is made sense of when the pattern is known."""

    name: str
    position: int
    region: Region
    expression: exp.Expr


@dataclasses.dataclass
class _MatchClauses:
    partition_by: tuple[exp.Expr, ...] = ()
    measures: tuple[_NamedExpression, ...] = ()
    all_matches: bool = False
    after: After = After.PAST_LAST_ROW
    interval: int | None = None
    or_terminated: bool = False
    within: int | None = None
    define: tuple[_NamedExpression, ...] = ()


def match_recognize(cursor: Cursor, alias: str) -> Callable[[Node], EagerMatch]:
    """Step over `match_recognize ( … )`; what it is applied to is called `alias`."""
    cursor.expect("MATCH_RECOGNIZE")
    cursor.expect("(")
    read = _MatchClauses()
    if cursor.take("PARTITION BY"):
        read.partition_by = _keys(cursor, alias)
    cursor.expect("MEASURES", " (what a match reports)")
    read.measures = _measures(cursor)
    if cursor.take("ALL"):
        cursor.expect("MATCHES")
        read.all_matches = True
    if cursor.take("AFTER"):
        read.after = _skip(cursor)
    cursor.expect("PATTERN")
    cursor.expect("(")
    pattern = epl_rows.pattern(cursor)
    cursor.expect(")")
    if cursor.take("INTERVAL"):
        read.interval = period(cursor)
        if cursor.take("OR"):
            cursor.expect("TERMINATED")
            read.or_terminated = True
    elif cursor.take("WITHIN"):
        read.within = period(cursor)
    if cursor.take("DEFINE"):
        read.define = _definitions(cursor)
    cursor.expect(")")
    return _eager_match(cursor, read, pattern, alias)


def _keys(cursor: Cursor, alias: str) -> tuple[exp.Expr, ...]:
    region = cursor.until(_CLAUSES)
    keys = epl_scalars.expression_list(cursor, region, "a column to partition by")
    for key in keys:
        if key.find(exp.AggFunc) or isinstance(key, exp.Star):
            cursor.fail("partition by wants columns, or values computed from one event's", position_of(key))
    for column in (column for key in keys for column in key.find_all(exp.Column)):
        if column.table and column.table.lower() != alias.lower():
            cursor.fail(f"unknown input {column.table!r}; there is {alias!r}", position_of(column))
        column.set("table", None)
    return keys


def _measures(cursor: Cursor) -> tuple[_NamedExpression, ...]:
    found = []
    while True:
        position = cursor.position
        region = cursor.until((",", *_CLAUSES))
        name = _dotted_name(cursor, region)
        region = region if name is None else Region(region.start, region.end - 4)
        (written,) = epl_scalars.untranslated_list(cursor, region, "a measure")
        if name is None and not isinstance(written, exp.Alias):
            cursor.fail("a measure has a name: … as name", position)
        found.append(_NamedExpression(name or written.alias, position, region, written.unalias()))
        if not cursor.take(","):
            return tuple(found)


def _dotted_name(cursor: Cursor, region: Region) -> str | None:
    """The name `c.id` of a measure `C.id as c.id`; None for a plain one."""
    last = [word_of(token) for token in cursor.tokens[max(region.start, region.end - 4) : region.end]]
    is_dotted = last[::2] == ["AS", "."]
    return cursor.slice(Region(region.end - 3, region.end)) if is_dotted else None


def _skip(cursor: Cursor) -> After:
    cursor.expect("MATCH")
    cursor.expect("SKIP")
    if cursor.word() in _REPORT:
        cursor.at += 1
        return _REPORT[cursor.word(-1)]
    if not (cursor.take("TO") or cursor.take("PAST")):
        cursor.fail(f"PAST LAST ROW, TO NEXT ROW or TO CURRENT ROW is expected, not {cursor.shown()}")
    word = cursor.word()
    if word not in _AFTER:
        cursor.fail(f"LAST, NEXT or CURRENT is expected, not {cursor.shown()}")
    cursor.at += 1
    cursor.expect("ROW")
    return _AFTER[word]


def _definitions(cursor: Cursor) -> tuple[_NamedExpression, ...]:
    found = []
    while True:
        position = cursor.position
        name = cursor.name("a pattern variable to define")
        cursor.expect("AS")
        region = _condition(cursor)
        (written,) = epl_scalars.untranslated_list(cursor, region, "a condition")
        if isinstance(written, exp.Alias):
            cursor.fail(f"unexpected {written.alias!r}", position_of(written.args["alias"]))
        found.append(_NamedExpression(name, position, region, written))
        # The report repeats DEFINE, and an example of Esper's documentation leaves a comma out.
        if not (cursor.take(",") or cursor.take("DEFINE") or cursor.word(1) == "AS"):
            return tuple(found)


def _condition(cursor: Cursor) -> Region:
    """Step over a condition, up to a comma, DEFINE, or the next definition's `B as`."""
    region = cursor.until((",", "DEFINE", "AS"))
    before = cursor.tokens[region.end - 2] if region.end - region.start > 2 else None
    ends = before is not None and (before.token_type in _VALUES or word_of(before) in (")", "]", "}"))
    if cursor.word() != "AS":
        return region
    if not ends:
        cursor.at = region.start
        return cursor.until((",", "DEFINE"))
    cursor.at -= 1
    return Region(region.start, cursor.at)


_VALUES = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING)


# What the expressions name ----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _PatternScope:
    """The variables that an expression may name: in the definition of `symbol`, or (None) in measures."""

    cursor: Cursor
    pattern: Pattern
    keys: tuple[str, ...]
    alias: str
    symbol: str | None = None

    @property
    def groups(self) -> frozenset[str]:
        return variables.groups(self.pattern)

    def read(self, written: _NamedExpression) -> exp.Expr:
        """The expression as RowPattern says, its places kept; a whole row is `A.*`."""
        for column in written.expression.find_all(exp.Column):
            if isinstance(column.this, exp.Star) and column.table:
                self.cursor.fail(f"the whole event is {column.table}", position_of(column))
        holder = exp.Paren(this=epl_scalars.with_chains(self.cursor, written.expression, self._navigated))
        for call in list(holder.find_all(exp.Anonymous)):
            if call.name.upper() == "PREV":
                call.replace(self._prev(call))
        for aggregate in list(holder.find_all(exp.AggFunc)):
            self._aggregate(aggregate)
        (result,) = epl_scalars.translated(self.cursor, written.region, (holder.this.pop(),))
        holder = exp.Paren(this=result)
        for column in list(holder.find_all(exp.Column)):
            self._column(column)
        found_at: exp.Expr = holder.this.pop()
        called = isinstance(found_at, exp.ArrayAgg) or found_at.name in ("FIRST", "LAST")
        for column in found_at.find_all(exp.Column):
            if isinstance(column.this, exp.Star) and (column.parent if called else column) is not found_at:
                there = f"the whole event {column.table!r} stands alone, {column.table} as a: name its attributes here"
                self.cursor.fail(there, column.args["table"].meta.get("start"))
        return found_at

    def _navigated(self, found: list[Step]) -> exp.Expr | None:
        """`A[2].v`, `A.firstOf().v`, `A.lastOf().v`, and paths of what rows have: `A.address.city`."""
        known = symbols(self.pattern)
        match found:
            case [Name(variable), Index(place), Name(name), *rest] if variable.name in known:
                call, index = ("LAST", None) if place < 0 else ("FIRST", exp.Literal.number(place))
                return self._of_group(variable, following(exp.column(name.copy()), rest), call, index)
            case [Name(variable), Index(place)] if variable.name in known and self.symbol is None:
                call, index = ("LAST", None) if place < 0 else ("FIRST", exp.Literal.number(place))
                return self._of_group(variable, exp.Column(this=exp.Star()), call, index)
            case [Name(variable), (Index() | Count()), *_] if variable.name in known:
                there = "write A[0].v, A.firstOf().v, A.lastOf().v, or count(A.v)"
                self.cursor.fail(f"{variable.name!r} stands for whole events here: {there}", position_of(variable))
            case [Name(variable), Name(name), *rest] if variable.name in known or variable.name == self.alias:
                return following(exp.column(name.copy(), table=variable.copy()), rest)
            case [Name(variable), Key(name, text), *rest]:
                return following(paths.key(exp.column(name.copy(), table=variable.copy()), text), rest)
            case [Name(name), *rest]:
                return following(exp.column(name.copy()), rest)
        return None

    def _of_group(self, variable: exp.Identifier, value: exp.Expr, call: str, index: exp.Expr | None) -> exp.Expr:
        place = position_of(variable)
        symbol = self._symbol(variable.name, place)
        if symbol not in self.groups:
            self.cursor.fail(f"{symbol!r} stands for one row: write {symbol}.{value.sql()}", place)
        if symbol == self.symbol:
            self.cursor.fail(
                f"within its own definition {symbol!r} is the row at hand: prev looks at those before", place
            )
        for column in value.find_all(exp.Column):
            column.set("table", _marked(variable, symbol))
        return exp.Anonymous(this=call, expressions=[value, *([index] if index is not None else [])])

    def _symbol(self, name: str, place: int | None) -> str:
        known = symbols(self.pattern)
        if name not in known:
            self.cursor.fail(f"{name!r} is not a variable of the pattern{nearest(name, list(known))}", place)
        if self.symbol not in (None, name) and name not in variables.before(self.pattern, self.symbol or ""):
            self.cursor.fail(f"{name!r} cannot have a row yet where {self.symbol!r} is defined", place)
        return name

    def _prev(self, node: exp.Anonymous) -> exp.Expr:
        """In DEFINE the row so many before in its partition; in MEASURES the variable's own row so many before."""
        arguments = list(node.expressions)
        if len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
            arguments.reverse()
        place = position_of(node) or node.meta.get("start")
        by = arguments[1] if len(arguments) == 2 else exp.Literal.number(1)
        constant = isinstance(by, exp.Literal) and not by.is_string and by.name.isdigit()
        if not 1 <= len(arguments) <= 2 or not constant:
            self.cursor.fail("prev reads prev(A.v) or prev(A.v, 2), with a constant number of rows", place)
        columns = list(arguments[0].find_all(exp.Column))
        if not columns:
            self.cursor.fail("prev wants a column", place)
        for column in columns:
            if self.symbol is not None and column.table and column.table != self.symbol:
                self.cursor.fail(f"prev looks at rows before {self.symbol!r}, the variable defined here", place)
        if int(by.name) == 0:
            return cast("exp.Expr", arguments[0].copy())
        call = "PREV" if self.symbol is not None else "LAST"
        return exp.Anonymous(this=call, expressions=[arguments[0].copy(), by.copy()])

    def _aggregate(self, call: exp.AggFunc) -> None:
        place = position_of(call) or call.meta.get("start")
        columns = list(call.find_all(exp.Column))
        if any(isinstance(column.this, exp.Star) for column in columns) or call.find(exp.Star):
            self.cursor.fail("count(*) has no meaning here: count a column of a variable", place)
        named = list(dict.fromkeys(column.table for column in columns))
        several = [name for name in named if name in self.groups]
        if len(several) != 1:
            what = "no variable" if not several else "two variables"
            self.cursor.fail(f"an aggregate is over the rows of one variable that has several, not of {what}", place)
        if isinstance(call, (exp.First, exp.Last)):
            index = [call.expression.copy()] if isinstance(call.args.get("expression"), exp.Literal) else []
            name = "FIRST" if isinstance(call, exp.First) else "LAST"
            if len(named) > 1:  # an aggregate may name rows of others, which are there once
                self.cursor.fail(f"{name.lower()} is of one variable's columns alone", place)
            call.replace(exp.Anonymous(this=name, expressions=[call.this.copy(), *index]))

    def _column(self, column: exp.Column) -> None:
        place = position_of(column)
        if isinstance(column.this, exp.Star):
            return
        if not column.table:
            self._bare(column, place)
            return
        if column.table.lower() == self.alias.lower() and column.table not in symbols(self.pattern):
            column.set("table", None)
            return
        symbol = self._symbol(column.table, place)
        single = symbol not in self.groups or self.symbol is not None
        inside = column.find_ancestor(exp.AggFunc, exp.Anonymous) is not None
        if not (single or inside):
            self.cursor.fail(
                f"{symbol!r} stands for several rows: write {symbol}[0].{column.name}, {symbol}.lastOf().{column.name}, "
                "or an aggregate",
                place,
            )
        column.set("table", _marked(column.args["table"], symbol))

    def _bare(self, column: exp.Column, place: int | None) -> None:
        """A name alone: the row at hand in a definition, a partition's key in a measure."""
        if column.name.startswith(CURRENT):
            name = column.name.removeprefix(CURRENT)
            self.cursor.fail(
                f"{name!r} changes (on … set), and cannot be read here: insert into … select *, {name} as x, before",
                place,
            )
        if column.name in symbols(self.pattern) and column.name.lower() not in self.keys:
            self._whole(column, place)
            return
        if self.symbol is None and column.name.lower() not in self.keys:
            known = ", ".join(symbols(self.pattern))
            self.cursor.fail(f"a measure says of which variable {column.name!r} is: {known}", place)

    def _whole(self, column: exp.Column, place: int | None) -> None:
        """A variable alone in a measure: its row, or the list of its rows."""
        if self.symbol is not None:
            self.cursor.fail(
                f"{column.name!r} as a whole event cannot stand in define: name its attributes, {column.name}.…", place
            )
        symbol = self._symbol(column.name, place)
        row = exp.Column(this=exp.Star(), table=_marked(column.this, symbol))
        column.replace(exp.ArrayAgg(this=row) if symbol in self.groups else row)


def _marked(written: exp.Identifier, symbol: str) -> exp.Identifier:
    found = variable_identifier(symbol)
    found.meta.update(written.meta)
    return found


def _eager_match(cursor: Cursor, read: _MatchClauses, pattern: Pattern, alias: str) -> Callable[[Node], EagerMatch]:
    known = symbols(pattern)
    seen: set[str] = set()
    for one in read.define:
        if one.name in seen:
            cursor.fail(f"the variable {one.name!r} is defined twice", one.position)
        if one.name not in known:
            cursor.fail(
                f"the variable {one.name!r} is not in the pattern{nearest(one.name, list(known))}", one.position
            )
        seen.add(one.name)
    scope = _PatternScope(cursor, pattern, tuple(key.name.lower() for key in read.partition_by), alias)
    define = tuple((one.name, dataclasses.replace(scope, symbol=one.name).read(one)) for one in read.define)
    if read.within is not None:
        define = _with_limit(dict(define), known, read.within)
    names = numbered(one.name for one in read.measures)
    measures = tuple(map(_named, map(scope.read, read.measures), names))
    columns, keys = _key_columns(read.partition_by)
    clause = RowPattern(pattern, define, measures, keys)
    rest = (clause, read.after, read.all_matches, read.interval, read.or_terminated)
    return lambda node: EagerMatch(_with_columns(node, columns), *rest)


def _with_limit(
    define: Mapping[str, exp.Expr], known: Sequence[str], milliseconds: int
) -> tuple[tuple[str, exp.Expr], ...]:
    """The definitions of all variables, whose rows are also less than so many milliseconds after the match's first row."""
    passed = exp.Sub(this=exp.column("ts"), expression=exp.Anonymous(this="FIRST", expressions=[exp.column("ts")]))
    limit = exp.LT(this=passed, expression=exp.Literal.number(milliseconds))
    return tuple((name, exp.and_(limit.copy(), define[name]) if name in define else limit.copy()) for name in known)


def _key_columns(keys: Sequence[exp.Expr]) -> tuple[tuple[exp.Expr, ...], tuple[exp.Column, ...]]:
    """The columns that each row gets for keys that are computed, and what partitions the rows."""
    columns, found = list[exp.Expr](), list[exp.Column]()
    for place, key in enumerate(keys):
        if not isinstance(key, exp.Column):
            columns.append(exp.alias_(key, f"{COMPUTED_KEY}{place}", quoted=True))
            key = exp.column(exp.to_identifier(f"{COMPUTED_KEY}{place}", quoted=True))
        found.append(key)
    return tuple(columns), tuple(found)


def _with_columns(node: Node, columns: tuple[exp.Expr, ...]) -> Node:
    """The rows with more columns, which they have before they enter a window."""
    if not columns:
        return node
    if isinstance(node, Window):
        return dataclasses.replace(node, input=_with_columns(node.input, columns))
    return Map(node, (exp.Star(), *columns))


def _named(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
