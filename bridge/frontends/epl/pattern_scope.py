"""Names in the expressions of EPL's match_recognize: the variables of the pattern, their rows, and columns."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, cast

from sqlglot import exp

from bridge.check import paths
from bridge.errors import nearest
from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.paths import Count, Index, Key, Name, Step, following
from bridge.frontends.expressions import position_of
from bridge.query.epl_state import CURRENT
from bridge.query.row_pattern import variable_identifier
from nfa import pattern as variables
from nfa.pattern import Pattern, symbols
from windows.sql import number


class NamedExpression(NamedTuple):
    """An expression as written, with its place. Its names are resolved when the pattern is known."""

    name: str
    position: int
    region: Region
    expression: exp.Expr


@dataclasses.dataclass(frozen=True)
class PatternScope:
    """The variables that an expression may name: in the definition of `symbol`, or (None) in measures."""

    cursor: Cursor
    pattern: Pattern
    keys: tuple[str, ...]
    alias: str
    symbol: str | None = None

    @property
    def groups(self) -> frozenset[str]:
        return variables.groups(self.pattern)

    def read(self, written: NamedExpression) -> exp.Expr:
        """The expression in the form of RowPattern, with its places; a whole row is `A.*`."""
        for column in written.expression.find_all(exp.Column):
            if isinstance(column.this, exp.Star) and column.table:
                self.cursor.fail(f"the whole event is {column.table}", position_of(column))
        holder = exp.Paren(this=epl_expressions.with_chains(self.cursor, written.expression, self._navigated))
        for call in list(holder.find_all(exp.Anonymous)):
            if call.name.upper() == "PREV":
                call.replace(self._prev(call))
        for aggregate in list(holder.find_all(exp.AggFunc)):
            self._aggregate(aggregate)
        (result,) = epl_expressions.translated(self.cursor, written.region, (holder.this.pop(),))
        holder = exp.Paren(this=result)
        for column in list(holder.find_all(exp.Column)):
            self._column(column)
        found_at: exp.Expr = holder.this.pop()
        called = isinstance(found_at, exp.ArrayAgg) or found_at.name in ("FIRST", "LAST")
        for column in found_at.find_all(exp.Column):
            if isinstance(column.this, exp.Star) and (column.parent if called else column) is not found_at:
                there = f"the whole event {column.table!r} stands alone, {column.table} as a: name its attributes here"
                self.cursor.fail(there, column.args["table"].meta_get("start"))
        return found_at

    def _navigated(self, found: list[Step]) -> exp.Expr | None:
        """`A[2].v`, `A.firstOf().v`, `A.lastOf().v`, and paths into values of rows: `A.address.city`."""
        known = symbols(self.pattern)
        match found:
            case [Name(variable), Index(place), Name(name), *rest] if variable.name in known:
                call, index = ("LAST", None) if place < 0 else ("FIRST", number(place))
                return self._of_group(variable, following(exp.column(name.copy()), rest), call, index)
            case [Name(variable), Index(place)] if variable.name in known and self.symbol is None:
                call, index = ("LAST", None) if place < 0 else ("FIRST", number(place))
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
        """`prev(A.v, n)`: in DEFINE, the n-th row before in the partition; in MEASURES, in the rows of the variable."""
        arguments = list(node.expressions)
        if len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
            arguments.reverse()
        place = position_of(node) or node.meta_get("start")
        by = arguments[1] if len(arguments) == 2 else number(1)
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
        place = position_of(call) or call.meta_get("start")
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
            if len(named) > 1:  # an aggregate may name rows of other variables that have one row
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
        """A name alone: in a definition a column of the current row, in a measure a key of the partition."""
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
