"""Conditions and measures as expressions over atoms: values of single rows, classifiers, match numbers and aggregates.

`A.price < FIRST(B.price) * 0.9` becomes two values, each an expression over one input row and the place of that row in
the match, and the expression `_v0 < _v1` over them. So the database computes, once per row, everything that depends on
one row, and the matcher computes only the expression that combines rows of a match.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlglot import exp

from bridge.check.paths import column_of_path
from bridge.check.scope import field_of
from bridge.check.types import place as place_in_text
from bridge.errors import QueryError
from bridge.query.row_pattern import SEMANTICS, RowPattern
from windows.aggregates import AggregateFunction, aggregate_of, first_argument
from windows.nested import is_list, is_object
from windows.sql import column, number, unused

SHIFT = "_SHIFT"
"""The function of row expressions that reads another row of the partition: `_SHIFT(expression, rows after)`."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A row of a match: `offset` rows after the first, or before the last, of the rows matching `symbols` (None: any).

    `final`: whether all rows of the match count; otherwise only its rows up to the current one.
    """

    symbols: tuple[str, ...] | None = None
    first: bool = False
    offset: int = 0
    final: bool = False


CURRENT = Place()
"""The newest row: in a condition, the row that is tested."""


@dataclasses.dataclass(frozen=True)
class Value:
    """An expression over one input row, at a place; NULL if the match has no such row."""

    place: Place
    row: exp.Expr


@dataclasses.dataclass(frozen=True)
class Classifier:
    """CLASSIFIER(): the symbol of the row at a place, or of the row `shift` rows after it."""

    place: Place
    shift: int = 0


OWN_TYPE = "own_type"
"""The key in `meta` of an aggregate whose values only the database can compare."""

LEAVE_AS = "leave_as"
"""The key in `meta` for the type to which the database casts an aggregate's value when it leaves; "": unchanged."""

CLASSIFIER, MATCH_NUMBER = "_classifier", "_match_number"
"""The columns that represent CLASSIFIER() and MATCH_NUMBER() in an aggregate, unless the input has columns so named."""


@dataclasses.dataclass(frozen=True)
class MatchAggregate:
    """An aggregate over the rows of a match that match one of `symbols`; its columns are those of the input."""

    call: exp.Expr
    symbols: tuple[str, ...] | None
    final: bool = False
    classifier: str = CLASSIFIER
    match_number: str = MATCH_NUMBER
    """The columns in the call that stand for CLASSIFIER() and MATCH_NUMBER(); no column of the input has these names."""

    @property
    def columns(self) -> list[str]:
        """The columns of the input that the aggregate reads."""
        return [name for name in self._read if name not in (self.classifier, self.match_number)]

    @property
    def reads_classifier(self) -> bool:
        """Whether it reads CLASSIFIER()."""
        return self.classifier in self._read

    @property
    def reads_match_number(self) -> bool:
        """Whether it reads MATCH_NUMBER()."""
        return self.match_number in self._read

    @property
    def running(self) -> tuple[AggregateFunction, exp.Expr | None] | None:
        """The aggregate, if it can be updated row by row, and its argument (None: COUNT of rows)."""
        aggregate = aggregate_of(self.call)
        if aggregate is None or aggregate.running is None or isinstance(self.call.this, exp.Distinct):
            return None
        if self.reads_classifier or self.reads_match_number or self.call.meta_get(OWN_TYPE):
            return None
        argument = first_argument(self.call)
        return aggregate, None if isinstance(argument, exp.Star) else argument

    def leaving(self, value: exp.Expr) -> exp.Expr:
        """The value of the aggregate, given by an expression, as it leaves the database."""
        kind = self.call.meta_get(LEAVE_AS)
        return as_type(value, kind) if kind else value

    def own(self, name: str) -> str:
        """A name that no column in the call has, for a further column."""
        return unused(name, self._read)

    @property
    def _read(self) -> list[str]:
        return list(dict.fromkeys(found.name for found in self.call.find_all(exp.Column)))


def as_type(value: exp.Expr, kind: str) -> exp.Expr:
    """A CAST to a type, which is written as the database writes it."""
    return exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=kind))


@dataclasses.dataclass(frozen=True)
class MatchNumber:
    """MATCH_NUMBER()."""


Atom: TypeAlias = Value | Classifier | MatchAggregate | MatchNumber


@dataclasses.dataclass(frozen=True)
class MatchExpression:
    """An expression over the columns `_v0`, `_v1` …, and the atoms that these columns stand for."""

    expression: exp.Expr
    atoms: tuple[Atom, ...]

    @property
    def only(self) -> Atom | None:
        """The atom that the whole expression consists of; None if it is more than one atom."""
        return self.atoms[0] if self.expression == column("_v0") else None


def read(
    expression: exp.Expr,
    clause: RowPattern,
    fields: Sequence[str],
    symbol: str | None = None,
    final: bool = False,
    is_aggregate: Callable[[str], bool] = lambda name: False,
) -> MatchExpression:
    """Splits an expression into atoms and the expression over them.

    Args:
        fields: The input's columns; names are resolved ignoring case.
        symbol: The symbol whose DEFINE has the expression; None in MEASURES.
        final: Whether measures are FINAL by default, as with ONE ROW PER MATCH.

    Raises:
        QueryError: A column is unknown.
    """
    reader = _ExpressionReader(clause, fields, symbol, final, is_aggregate)
    tree = reader.tree(expression, final)
    atoms: dict[Atom, str] = {}
    return MatchExpression(_named(tree, atoms), tuple(atoms))


def _leaf(atom: Atom) -> exp.Expr:
    """An atom as a leaf of a tree that is being built."""
    found = column("_v")
    found.meta["atom"] = atom
    return found


def _atom(node: exp.Expr) -> Atom | None:
    found: Atom | None = node.meta_get("atom")
    return found


def _named(tree: exp.Expr, atoms: dict[Atom, str]) -> exp.Expr:
    def name(node: exp.Expr) -> exp.Expr:
        atom = _atom(node)
        return node if atom is None else column(atoms.setdefault(atom, f"_v{len(atoms)}"))

    return tree.transform(name)


STRICT = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Paren, exp.Cast, exp.TryCast, exp.Abs, exp.Literal,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Upper, exp.Lower, exp.Length, exp.DataType, exp.DataTypeParam,
    exp.ArraySize,
)  # fmt: skip
"""Nodes that are NULL if an operand is, so that they may be computed over one row before it is known that it exists."""

_NO_VALUE = (
    exp.If, exp.Tuple, exp.Interval, exp.Distinct, exp.Where, exp.Order, exp.Ordered, exp.PropertyEQ, exp.Kwarg, exp.Slice,
    exp.Comprehension,
)  # fmt: skip
"""Nodes inside expressions that are not values."""


@dataclasses.dataclass
class _ExpressionReader:
    clause: RowPattern
    fields: Sequence[str]
    symbol: str | None
    final: bool
    is_aggregate: Callable[[str], bool]

    def tree(self, node: exp.Expr, final: bool) -> exp.Expr:
        """The expression with a leaf in place of each atom."""
        if isinstance(node, exp.Column):
            return _leaf(Value(self.canonical(self.place(node, final)), self.row(node)))
        if (whole := column_of_path(node) or _column_in(node)) is not None:  # read in the same way as its column
            return _leaf(Value(self.canonical(self.place(whole, final)), self.row(node)))
        if isinstance(node, exp.Anonymous) and node.name in SEMANTICS:
            return self.tree(node.expressions[0], self.is_final(node))
        if isinstance(node, exp.Anonymous) and (found := self.function(node, final)):
            return _leaf(found)
        if self.is_aggregate_call(node):
            return _leaf(self.match_aggregate(node, final))
        copy = node.copy()
        for key, value in node.args.items():
            if isinstance(value, list):
                copy.set(key, [self.tree(v, final) if isinstance(v, exp.Expr) else v for v in value])
            elif isinstance(value, exp.Expr):
                copy.set(key, self.tree(value, final))
        return copy if isinstance(node.parent, exp.Escape) else self.hoisted(copy)

    def is_final(self, node: exp.Anonymous) -> bool:
        """Whether RUNNING or FINAL means FINAL; with ONE ROW PER MATCH both do."""
        return self.symbol is None and (node.name == "FINAL" or self.final)

    def function(self, node: exp.Anonymous, final: bool) -> Atom | None:
        """The atom of a function of row patterns; None for any other function."""
        match node.name:
            case "FIRST" | "LAST":
                return self.navigation(node, final, 0)
            case "PREV" | "NEXT":
                inner, by = node.expressions[0], _offset(node, 1)
                shift = -by if node.name == "PREV" else by
                if isinstance(inner, exp.Anonymous) and inner.name in SEMANTICS:
                    final, inner = self.is_final(inner), inner.expressions[0]
                if isinstance(inner, exp.Anonymous) and inner.name in ("FIRST", "LAST"):
                    return self.navigation(inner, final, shift)
                return self.at(self.canonical(self.place_of(inner, final)), inner, shift)
            case "CLASSIFIER":
                return Classifier(self.canonical(self.of_classifier(node, final)))
            case "MATCH_NUMBER":
                return MatchNumber()
        return None

    def navigation(self, node: exp.Anonymous, final: bool, shift: int) -> Atom:
        place = self.place_of(node.expressions[0], final)
        first = node.name == "FIRST"
        place = dataclasses.replace(place, first=first, offset=_offset(node, 0))
        return self.at(self.canonical(place), node.expressions[0], shift)

    def at(self, place: Place, expression: exp.Expr, shift: int) -> Atom:
        if any(isinstance(node, exp.Anonymous) and node.name == "CLASSIFIER" for node in expression.walk()):
            if not isinstance(expression, exp.Anonymous):
                raise QueryError(
                    "CLASSIFIER() stands alone in a navigation: write it outside, around one navigation each",
                    position=place_in_text(expression),
                )
            return Classifier(place, shift)
        row = self.row(expression)
        return Value(place, shifted(row, shift) if shift else row)

    def place_of(self, expression: exp.Expr, final: bool) -> Place:
        """The newest row of the variable that the expression reads."""
        for node in expression.walk():
            if isinstance(node, exp.Column):
                return self.place(node, final)
            if isinstance(node, exp.Anonymous) and node.name == "CLASSIFIER":
                return self.of_classifier(node, final)
        raise QueryError("a navigation names a column of the row it goes to", position=place_in_text(expression))

    def of_classifier(self, node: exp.Anonymous, final: bool) -> Place:
        variable = node.expressions[0].name if node.expressions else None
        return Place(self.symbols(variable), final=final)

    def place(self, node: exp.Column, final: bool) -> Place:
        return Place(self.symbols(node.table or None), final=final)

    def symbols(self, variable: str | None) -> tuple[str, ...] | None:
        return None if variable is None else tuple(dict.fromkeys(self.clause.symbols_of(variable)))

    def canonical(self, place: Place) -> Place:
        """The same place in canonical form: in DEFINE, the symbol's own newest row is the row being tested."""
        if self.symbol is None:
            return place
        newest = not place.first and place.offset == 0
        mine = newest and place.symbols is not None and self.symbol in place.symbols
        return dataclasses.replace(place, final=False, symbols=None if mine else place.symbols)

    def row(self, expression: exp.Expr) -> exp.Expr:
        """An expression over one row, with the exact names of the input's columns."""

        def plain(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return node
            return column(field_of(node, self.fields))

        return expression.transform(plain)

    def is_aggregate_call(self, node: exp.Expr) -> bool:
        call = node.this if isinstance(node, (exp.Filter, exp.WithinGroup)) or is_list(node) else node
        return isinstance(call, exp.AggFunc) or (isinstance(call, exp.Anonymous) and self.is_aggregate(call.name))

    def match_aggregate(self, node: exp.Expr, final: bool) -> MatchAggregate:
        columns = [found for found in node.find_all(exp.Column) if not _is_label_argument(found)]
        labels = [f for f in node.find_all(exp.Anonymous) if f.name == "CLASSIFIER" and f.expressions]
        variables = {found.table or None for found in columns} | {f.expressions[0].name for f in labels}
        variable = variables.pop() if variables else None

        label, match_number = (unused(name, self.fields) for name in (CLASSIFIER, MATCH_NUMBER))

        def inside(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Anonymous) and part.name in ("CLASSIFIER", "MATCH_NUMBER"):
                return column(label if part.name == "CLASSIFIER" else match_number)
            if isinstance(part, exp.Column):
                return exp.Star() if isinstance(part.this, exp.Star) else column(field_of(part, self.fields))
            return part

        final = final and self.symbol is None
        return MatchAggregate(node.transform(inside), self.symbols(variable), final, label, match_number)

    def hoisted(self, node: exp.Expr) -> exp.Expr:
        """A single value, if all values of a strict expression have one place.

        For the current row, of any expression.
        """
        atoms = [_atom(part) for part in node.walk() if _atom(part) is not None]
        places = {atom.place if isinstance(atom, Value) else None for atom in atoms}
        if len(places) != 1 or (place := places.pop()) is None:
            return node
        if isinstance(node, _NO_VALUE):
            return node
        present = place == CURRENT and self.symbol is not None
        if not present and not all(isinstance(part, STRICT) or _atom(part) is not None for part in _above(node)):
            return node

        def row(part: exp.Expr) -> exp.Expr:
            atom = _atom(part)
            return exp.Paren(this=atom.row.copy()) if isinstance(atom, Value) else part

        return _leaf(Value(place, node.transform(row)))


def _above(node: exp.Expr) -> list[exp.Expr]:
    """The nodes of a tree above its leaves for atoms."""
    return list(node.walk(prune=lambda part: _atom(part) is not None))


def _is_label_argument(node: exp.Column) -> bool:
    return isinstance(node.parent, exp.Anonymous) and node.parent.name == "CLASSIFIER"


def _column_in(node: exp.Expr) -> exp.Column | None:
    """The first column in an object that is built from columns of one row."""
    columns = list(node.find_all(exp.Column)) if is_object(node) else []
    rows = {column.table for column in columns}
    return columns[0] if len(rows) == 1 and node.find(exp.Anonymous, exp.AggFunc) is None else None


def _offset(node: exp.Anonymous, default: int) -> int:
    return int(node.expressions[1].name) if len(node.expressions) > 1 else default


def lag_or_lead(row: exp.Expr, by: int) -> exp.Expr:
    """LAG or LEAD of a row expression, without its window: its value `by` rows later."""
    kind = exp.Lag if by < 0 else exp.Lead
    return kind(this=row.copy(), offset=number(abs(by)))


def shift_of(node: exp.Expr) -> int | None:
    """The number of rows after the current one that a `_SHIFT` reads; None for any other node.

    >>> shift_of(shifted(column("a"), -2)), shift_of(column("a"))
    (-2, None)
    """
    if not (isinstance(node, exp.Anonymous) and node.name == SHIFT):
        return None
    by = node.expressions[1]
    return -int(by.this.name) if isinstance(by, exp.Neg) else int(by.name)


def shifted(row: exp.Expr, by: int) -> exp.Expr:
    """The value of a row expression `by` rows after the current one, in its partition."""
    return exp.Anonymous(this=SHIFT, expressions=[row, number(by)])
