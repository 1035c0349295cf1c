"""The members of a family of MATCHINGs, which differ only in WITHIN and constants of DEFINE, as rows of constants."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Self, cast

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Selection
from bridge.rewrite.network import Network
from bridge.rewrite.optimize.constants import constants, covering, is_equated, kind_of, signature
from bridge.rewrite.plan import Operator
from bridge.rewrite.state_tables import add_table
from windows.sql import aliased, aliased_table, cast_to, column, column_of, number, table

ALIAS = "_k"
"""The alias of the table of constants."""

EVERY = 0
"""The number that stands for all members; the members' own numbers begin with 1."""

Row = Mapping[str, exp.Expr]


@dataclasses.dataclass(frozen=True)
class FamilyMembers:
    """Per member a row of `_member`, `_within` and the constants `_k1` … of DEFINE; `define` has these as columns.

    `nodes`: the members by their numbers; there is at least one.
    """

    nodes: Mapping[int, query.Match]
    define: tuple[query.Definition, ...]
    kinds: tuple[str, ...]
    """The types of the constants."""
    equated: tuple[str, ...]
    """The columns of constants that are compared for equality."""
    table: str
    """The table of the constants; "" if there has only ever been one member."""

    @classmethod
    def of(cls, nodes: Mapping[int, query.Match], table: str = "") -> Self:
        """The members with these numbers."""
        some = next(iter(nodes.values()))
        kinds = tuple(map(kind_of, _constants_of(some)))
        equated = tuple(f"_k{place}" for place, constant in enumerate(_constants_of(some), 1) if is_equated(constant))
        return cls(nodes, _defined(some), kinds, equated, table)

    @property
    def is_single(self) -> bool:
        """Whether there is only one member, so that its constants are in the statement."""
        return not self.table

    @property
    def names(self) -> list[str]:
        """The columns of a row."""
        return list(self._first)

    @functools.cached_property
    def _first(self) -> Row:
        return _row(*next(iter(self.nodes.items())))

    def values(self) -> exp.Values:
        """The rows as a table."""
        rows = [_row(member, node) for member, node in self.nodes.items()]
        return exp.Values(expressions=[exp.Tuple(expressions=list(row.values())) for row in rows])

    def shape(self) -> exp.Select:
        """A SELECT of one row, for the types of the columns."""
        return exp.select(*(aliased(value, name) for name, value in self.of_none().items()))

    def joined(self, rows: exp.Select) -> exp.Select:
        """The rows joined with the constants of each member."""
        return rows if self.is_single else rows.join(aliased_table(self.table, ALIAS), join_type="cross")

    def constants(self) -> Row:
        """The constants of the only member, or the columns of the table of constants."""
        return self._first if self.is_single else self.of_table(ALIAS)

    def of_table(self, alias: str) -> Row:
        """The constants as columns of a table that contains them."""
        return {name: column_of(alias, name) for name in self.names}

    def of_none(self) -> Row:
        """The columns, without values, of a run that is common to all members."""
        unknown = [cast_to(exp.null(), kind) for kind in ("BIGINT", *self.kinds)]
        return dict(zip(self.names, [cast_to(number(EVERY), "BIGINT"), *unknown], strict=True))

    def differ_in(self, symbol: str) -> bool:
        """Whether constants decide which events match a symbol, or affect what it assigns."""
        return any(found.table for expression in expressions(self.define, symbol) for found in _columns(expression))


@dataclasses.dataclass
class QueryFamily(abc.ABC):
    """Writes the tables and steps of an operator that serves all members of a family. `node` is the first member."""

    operator: Operator
    node: query.Match
    below: Flow
    network: Network

    @property
    def keys(self) -> list[str]:
        """The columns of PARTITION BY."""
        return [f"_key{place}" for place in range(len(self.node.partition_by))]

    @property
    def variables(self) -> list[str]:
        return [attribute.name for attribute in self.node.measures]

    @property
    def read(self) -> list[str]:
        """The attributes that DEFINE reads."""
        read = {found.name for value in expressions(self.node.define) for found in _columns(value)}
        return [name for name in self.below.names if name in read]

    @abc.abstractmethod
    def write(self, members: Mapping[int, query.Match]) -> None:
        """Writes the steps and purges for the present members, by their numbers."""

    @abc.abstractmethod
    def result(self, node: query.Match, member: int) -> Flow:
        """P5, P6: the matches of a member in this push, in the order of their events."""

    def matches_of(
        self, node: query.Match, member: int, name: str, order: tuple[str, ...], conditions: Sequence[exp.Expr] = ()
    ) -> Flow:
        """The rows of a member in a table of matches, for which these conditions hold."""
        columns = {
            "ts": column("ts"),
            "seq": column("seq"),
            "_expires": exp.Add(this=column("_first"), expression=number(node.within)),
            **{name: column(name) for name in (*order, *self.variables)},
        }
        own = exp.EQ(this=column("_member"), expression=number(member))
        rows = Selection(table(name), columns, (*conditions, own))
        return Flow(tuple(self.variables), rows, order=order, timed=self.below.timed)

    def join(self, node: query.Match) -> int:
        """Adds a member; returns its number."""
        names, family = self.network.names, self.operator
        member = names.member(family.identity, family.tables[0].name, node, family.members)
        self._become({**self._members, member: node})
        return member

    def leave(self, member: int) -> None:
        self.network.note_before(self.operator)
        if member in self._members:  # otherwise its creation was undone
            self.network.names.leave(self.operator.identity, self._members[member])
        self._become({other: node for other, node in self._members.items() if other != member})

    @property
    def _members(self) -> Mapping[int, query.Match]:
        return cast("Mapping[int, query.Match]", self.operator.members)

    def _become(self, members: Mapping[int, query.Match]) -> None:
        self.operator.members = members
        if not members:
            return
        rows = FamilyMembers.of(members)
        if len(members) > 1 and not self.operator.constants:
            with self.network.names.owned_by(self.operator.identity):
                self.operator.constants = self.network.name("constants", self.node)
            add_table(self.operator, self.operator.constants, rows.shape(), covering(rows.equated, rows.names))
        if name := self.operator.constants:
            self.operator.settings = lambda: [exp.delete(table(name)), exp.insert(rows.values(), table(name))]
        self.write(members)


def instant_before(here: exp.Expr, row: str, last: str) -> exp.Expr:
    """P2: the previous timestamp of a row: `here` in this push, else the newest of earlier pushes."""
    known = exp.Case().when(exp.LT(this=column_of(last, "ts"), expression=column_of(row, "ts")), column_of(last, "ts"))
    return exp.Coalesce(this=here, expressions=[known.else_(column_of(last, "_before"))])


def shape(node: query.Match) -> tuple[object, ...]:
    """A key that is equal for the members of a family."""
    defined = tuple(
        (definition.symbol, definition.condition is None, *(name for name, _ in definition.assignments))
        for definition in node.define
    )
    signed = tuple(map(signature, expressions(node.define)))
    return "Match", node.input, node.pattern, node.measures, node.partition_by, defined, signed


def expressions(define: tuple[query.Definition, ...], symbol: str | None = None) -> list[exp.Expr]:
    """The conditions and assigned values of DEFINE, or only those of one symbol."""
    found: list[exp.Expr] = []
    for definition in define:
        if symbol in (None, definition.symbol):
            found += [] if definition.condition is None else [definition.condition]
            found += [value for _, value in definition.assignments]
    return found


def _columns(expression: exp.Expr) -> list[exp.Column]:
    return list(expression.find_all(exp.Column))


def _constants_of(node: query.Match) -> list[exp.Literal]:
    return [found for expression in expressions(node.define) for found in constants(expression)]


def _row(member: int, node: query.Match) -> Row:
    whole = {"_member": number(member), "_within": number(node.within)}
    own = {name: cast_to(value, "BIGINT") for name, value in whole.items()}
    return own | {f"_k{place}": _typed(constant) for place, constant in enumerate(_constants_of(node), 1)}


def _typed(constant: exp.Literal) -> exp.Expr:
    """A constant cast to the type of its column."""
    return constant.copy() if constant.is_string else cast_to(constant.copy(), kind_of(constant))


def _defined(node: query.Match) -> tuple[query.Definition, ...]:
    """DEFINE with its constants as columns of the table of constants."""
    names = iter([f"_k{place}" for place, _ in enumerate(_constants_of(node), 1)])

    def with_columns(expression: exp.Expr) -> exp.Expr:
        result = expression.copy()
        for constant in list(constants(result)):
            constant.replace(column_of(ALIAS, next(names)))
        return result

    return tuple(
        query.Definition(
            definition.symbol,
            None if definition.condition is None else with_columns(definition.condition),
            tuple((name, with_columns(value)) for name, value in definition.assignments),
        )
        for definition in node.define
    )
