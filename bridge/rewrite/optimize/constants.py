"""Families: statements that differ only in constants become one statement, with the constants as rows of a table.

Many queries then cost about as much as one (the expression signatures of NiagaraCQ: Chen, DeWitt, Tian and Wang 2000).
The statement is lifted over the table of constants: each SELECT that has a constant, or that reads such a SELECT, also
selects `_query`, the number of the member, and groups and partitions by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from windows.aggregates import aggregate_of
from windows.sql import aliased, aliased_table, column_of, from_items, number

QUERY = "_query"
"""The column with the number of the member."""

_ALIAS = "_k"
_LARGEST = 2**63 - 1
_KINDS: dict[type, str] = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_THROUGH = (
    *_COMPARED, exp.And, exp.Or, exp.Not, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Between, exp.In,
    exp.Case, exp.If, exp.Coalesce, exp.Greatest, exp.Least, exp.Alias, exp.Nullif, exp.Abs,
)  # fmt: skip
"""Expressions in which a column may replace a constant."""


class NotAlike(Exception):
    """Raised if statements cannot be merged into one."""


@dataclasses.dataclass(frozen=True)
class Family:
    """One statement for several, and its table: `rows` of (member's number, constants …), `columns` of (name, type)."""

    statement: exp.Expr
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[object, ...], ...]
    looked_up: tuple[str, ...]
    """The columns that are compared for equality, for which an index is useful."""


def signature(statement: exp.Expr, fixed: bool = True) -> Hashable:
    """A key of a statement or expression without its constants, equal for statements that can be merged.

    `fixed`: the key includes the constants that a column cannot replace.
    """
    found: list[object] = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Literal) and (_is_free(node) or (not fixed and node.meta_get("fixed"))):
            found.append(_kind(node))
            return
        found.append(type(node))
        for name, value in node.args.items():
            several = value if isinstance(value, list) else [] if value is None or value is False else [value]
            if several:
                found.append(name)
            for one in several:
                visit(one) if isinstance(one, exp.Expr) else found.append((one,))
        found.append(None)

    visit(statement)
    return tuple(found)


def share_constants(statements: Sequence[exp.Expr], name: str) -> Family:
    """Merges statements of one signature into one, over the table `name` of their constants. Raises NotAlike.

    >>> import sqlglot
    >>> each = [sqlglot.parse_one(f"SELECT a FROM t WHERE a > {k}") for k in (3, 7)]
    >>> family = share_constants(each, "k")
    >>> print(family.statement.sql())
    SELECT "_k"."_query", a FROM t INNER JOIN "k" AS "_k" ON TRUE WHERE a > "_k"."_k1" ORDER BY "_query" NULLS LAST
    >>> family.rows
    ((0, 3), (1, 7))
    """
    literals = [list(constants(statement)) for statement in statements]
    places = [place for place, values in enumerate(zip(*literals, strict=True)) if len({v.name for v in values}) > 1]
    statement = statements[0].copy()
    own = [constant for place, constant in enumerate(constants(statement)) if place in set(places)]
    values = [tuple(_value(members[place]) for members in literals) for place in places]
    names: dict[tuple[Any, ...], str] = {}
    for column in values:
        names.setdefault((_KINDS[type(column[0])], *column), f"_k{len(names) + 1}")
    called = [names[_KINDS[type(column[0])], *column] for column in values]
    looked_up = dict.fromkeys(name for name, constant in zip(called, own, strict=True) if is_equated(constant))
    marks = {id(constant): name for name, constant in zip(called, own, strict=True)}
    largest = {id(constant): max(column) for constant, column in zip(own, values, strict=True)}
    _Lift(name, marks, largest).top(statement)
    columns = [(called, str(kind)) for (kind, *_), called in names.items()]
    rows = tuple(zip(range(len(statements)), *(column for _, *column in names), strict=True))
    return Family(statement, ((QUERY, "BIGINT"), *columns), rows, tuple(looked_up))


def constants(statement: exp.Expr) -> Iterator[exp.Literal]:
    """The literals of a statement or expression that may differ between members, in the order of the text."""
    for found in statement.walk(bfs=False):
        if isinstance(found, exp.Literal) and _is_free(found):
            yield found


def _is_free(constant: exp.Literal) -> bool:
    """Whether a column may replace a constant."""
    if constant.meta_get("fixed") or (_kind(constant) is int and int(constant.name) > _LARGEST):
        return False
    node: exp.Expr = constant
    while isinstance(node.parent, _THROUGH) or _is_argument(node):
        assert node.parent is not None
        node = node.parent
    above = node.parent
    if above is None:
        return node is not constant
    return isinstance(above, (exp.Where, exp.WindowSpec)) or (
        isinstance(above, (exp.Select, exp.Join)) and node.arg_key in ("expressions", "on") and node is not constant
    )


def _is_argument(node: exp.Expr) -> bool:
    """Whether a node is the argument of an aggregate, or of a cast of a number."""
    above = node.parent
    if isinstance(above, exp.Cast):
        return node.arg_key == "this" and not node.is_string
    aggregate = None if above is None else aggregate_of(above)
    return aggregate is not None and aggregate.parts is not None and node.arg_key == "this"


def kind_of(constant: exp.Literal) -> str:
    """The type of a column for such constants."""
    return _KINDS[_kind(constant)]


def _kind(constant: exp.Literal) -> type:
    if constant.is_string:
        return str
    return int if constant.name.isdigit() else float


def _value(constant: exp.Literal) -> Any:
    return _kind(constant)(constant.name)


def covering(sought: Iterable[str], columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The indexes of a table of constants: one per column in `sought`, followed by all other columns."""
    return tuple((name, *(other for other in columns if other != name)) for name in sought)


def is_equated(constant: exp.Literal) -> bool:
    """Whether a constant is compared for equality, for which an index on its column is useful."""
    above = constant.parent
    while isinstance(above, (exp.Paren, exp.Neg)):
        above = above.parent
    return isinstance(above, exp.EQ)


@dataclasses.dataclass
class _Lift:
    """Lifts a statement, in place, over the table of constants. `marks`: the columns for the literals to replace."""

    name: str
    marks: dict[int, str]
    largest: Mapping[int, Any]

    def top(self, statement: exp.Expr) -> None:
        """Lifts the outermost SELECT, whose rows are then ordered by member."""
        select = _select(statement)
        if not self.query(select):
            _join(select, self._table(), exp.true())
            _give(select, column_of(_ALIAS, QUERY))
        *given, member = select.expressions
        select.set("expressions", [member, *given])
        order = select.args.get("order")
        first = exp.Ordered(this=exp.column(QUERY, quoted=True))
        select.set("order", exp.Order(expressions=[first, *(order.expressions if order else [])]))
        if self.marks:
            raise NotAlike("a constant in a sub-query of an expression")

    def query(self, query: exp.Expr) -> bool:
        """Lifts a query; returns whether it has constants, so that it now selects `_query`."""
        if not isinstance(query, exp.Union):
            return self._lift(_select(query))
        sides = [query.left, query.right]
        share_constants = [self.query(side) for side in sides]
        for side in (
            side for side, done in zip(sides, share_constants, strict=True) if any(share_constants) and not done
        ):
            _join(_select(side), self._table(), exp.true())
            _give(_select(side), column_of(_ALIAS, QUERY))
        return any(share_constants)

    def _lift(self, select: exp.Select) -> bool:
        below = [item for item in from_items(select) if isinstance(item, exp.Subquery) and self.query(item.this)]
        own = [found for found in _nested(select) if id(found) in self.marks]
        if not below and not own:
            return False
        if any(select.args.get(clause) for clause in ("with_", "limit", "offset", "qualify")):
            raise NotAlike("a SELECT with a clause that is for all rows together")
        self._bound(select)
        member = column_of(_ALIAS, QUERY) if own else column_of(below[0].alias, QUERY)
        self._pair(select, below, member)
        for constant in own:
            constant.replace(column_of(_ALIAS, self.marks.pop(id(constant))))
        _separate(select, member)
        _give(select, member)
        return True

    def _pair(self, select: exp.Select, below: Sequence[exp.Subquery], member: exp.Column) -> None:
        """Joins the table of constants right after the first item, so that others can use it, and rows by member."""
        on: exp.Expr = exp.true()
        for item in below:
            if item.alias == member.table:
                continue
            same = exp.EQ(this=column_of(item.alias, QUERY), expression=member.copy())
            if isinstance(item.parent, exp.Join):
                _narrow(item.parent, same)
            else:
                on = same
        if member.table == _ALIAS:
            _join(select, self._table(), on)

    def _table(self) -> exp.Expr:
        return aliased_table(self.name, _ALIAS)

    def _bound(self, select: exp.Select) -> None:
        """Adds the widest bound to range joins of different widths: an index can use it without the member."""
        for join in select.args.get("joins") or []:
            on = join.args.get("on")
            wider = [found for part in on.flatten() if (found := self._wider(part))] if isinstance(on, exp.And) else []
            if wider:
                join.set("on", exp.and_(on, *wider, copy=False))

    def _wider(self, condition: exp.Expr) -> exp.Expr | None:
        """`a > b - k` and `a < b + k` with the largest `k` of all."""
        if not isinstance(condition, (exp.LT, exp.LTE, exp.GT, exp.GTE)):
            return None
        right = condition.expression
        falling = isinstance(condition, (exp.GT, exp.GTE))
        if not isinstance(right, exp.Sub if falling else exp.Add) or id(right.expression) not in self.largest:
            return None
        if any(id(found) in self.marks for found in (*condition.this.walk(), *right.this.walk())):
            return None
        widest = self.largest[id(right.expression)]
        wider = condition.copy()
        wider.expression.set("expression", number(widest))
        return wider


def _select(query: exp.Expr) -> exp.Select:
    if not isinstance(query, exp.Select):
        raise NotAlike(f"{type(query).__name__} is no SELECT")
    return query


def _nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of the SELECT itself, without items of FROM and sub-queries."""
    within = {id(item) for item in from_items(select)}
    for clause in select.iter_expressions():
        for node in clause.walk(prune=lambda node: isinstance(node, exp.Query)):
            if id(node) not in within:
                yield node


def _nested(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of the SELECT itself and of sub-queries in its expressions, which see its columns."""
    for node in _nodes(select):
        yield node
        if isinstance(node, exp.Select):
            yield from _nested(node)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
            yield from _nested(node.this)


def _join(select: exp.Select, item: exp.Expr, on: exp.Expr) -> None:
    """Joins an item right after the first one."""
    if not from_items(select):
        raise NotAlike("a SELECT without FROM")
    select.set("joins", [exp.Join(this=item, on=on, kind="INNER"), *(select.args.get("joins") or [])])


def _narrow(join: exp.Join, condition: exp.Expr) -> None:
    known = join.args.get("on")
    join.set("on", exp.and_(condition, known, copy=False) if known else condition)
    if join.kind == "CROSS":
        join.set("kind", "INNER")


def _separate(select: exp.Select, member: exp.Column) -> None:
    """Has groups and window functions computed per member."""
    nodes = list(_nodes(select))
    for window in nodes:
        if isinstance(window, exp.Window):
            if window.args.get("alias") or select.args.get("windows"):
                raise NotAlike("named windows")
            window.set("partition_by", [member.copy(), *(window.args.get("partition_by") or [])])
    group = select.args.get("group")
    if group is not None:
        group.append("expressions", member.copy())
    elif any(isinstance(found, exp.AggFunc) and not isinstance(found.parent, exp.Window) for found in nodes):
        raise NotAlike("an aggregate over no rows gives a row")


def _give(select: exp.Select, value: exp.Column) -> None:
    select.append("expressions", aliased(value.copy(), QUERY))
