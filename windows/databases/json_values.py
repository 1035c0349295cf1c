"""Nested values as JSON, for databases without nested types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp

from windows.nested import FieldValue, NestedPart, constructor_of, is_nested_null, nested_part
from windows.schema import Attribute


class Elements(NamedTuple):
    """A list's elements as an item of FROM (`rows`), with the expressions for an element's value and its place."""

    rows: exp.Expr
    value: exp.Expr
    place: exp.Expr


class JsonValues:
    """How a database reads and makes nested values that it stores as JSON.

    A database with nested types needs none of it.
    """

    dialect: ClassVar[str]

    def adapt(self, node: exp.Expr) -> exp.Expr:
        """Replaces one node of a neutral statement by what this database needs."""
        raise NotImplementedError

    def column_type(self, attribute: Attribute) -> str:
        """The type of an attribute's column in this database."""
        raise NotImplementedError

    nested_type: ClassVar[str | None] = None
    """The column type for nested values as JSON, where the database has no nested types."""

    def _nested(self, node: exp.Expr) -> exp.Expr | None:
        """A node about nested values, rewritten over JSON; None for any other node."""
        if (found := nested_part(node)) is not None:
            return self.json_part(found._replace(base=found.base.transform(self.adapt)))
        if isinstance(node, exp.ArraySize):
            return self.json_length(node.this.transform(self.adapt))
        if (making := constructor_of(node)) is not None:
            order = [each.transform(self.adapt) for each in making.order]
            if making.element is not None:
                return self.json_list(making.element.transform(self.adapt), making.kind, order)
            if making.values:
                return self.json_array([value.transform(self.adapt) for value in making.values], making.kind)
            return self.json_object([(name, value.transform(self.adapt), kind) for name, value, kind in making.fields])
        if is_nested_null(node):
            kind = exp.DataType.build(self.nested_type or "", dialect=self.dialect, udt=True)
            return exp.Cast(this=node.this.transform(self.adapt), to=kind)
        return None

    def json_part(self, part: NestedPart) -> exp.Expr:
        """A part of a nested value that is stored as JSON, in its own type; the base is adapted already."""
        raise NotImplementedError

    def elements(self, values: exp.Expr, kind: str, alias: str) -> Elements:
        """The elements, of type `kind`, of a list that is not adapted yet."""
        raise NotImplementedError

    def json_length(self, value: exp.Expr) -> exp.Expr:
        """The length of a list that is stored as JSON."""
        raise NotImplementedError

    def json_object(self, fields: Sequence[FieldValue]) -> exp.Expr:
        """A JSON object of these fields, whose values are adapted already."""
        raise NotImplementedError

    def json_list(self, value: exp.Expr, kind: str, order: Sequence[exp.Expr]) -> exp.Expr:
        """An aggregate: the JSON list of a group's values, of type `kind`, in this order; all adapted already."""
        raise NotImplementedError

    def json_array(self, values: Sequence[exp.Expr], kind: str) -> exp.Expr:
        """The JSON list of these values, of type `kind`, all adapted already."""
        raise NotImplementedError

    def list_value(self, values: Sequence[Any]) -> Any:
        """A list of fetched objects, none of them NULL, as a value to insert."""
        return list(values) if self.nested_type is None else f"[{','.join(values)}]"
