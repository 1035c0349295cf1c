"""Resolves trees: every name is found, every type is known, and every refusal has its place.

`resolve` returns a tree of the same kind in normal form: names as the schema spells them, stars expanded, columns over
a correlation under their output names. Equal resolved trees become one operator, so the result does not depend on
spelling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from bridge import query
from bridge.check.scope import Field, Scope, condition_of
from bridge.errors import QueryError, closest, nearest, source_words
from bridge.query.epl_columns import is_type
from bridge.query.nodes import Node
from windows.sql import column

if TYPE_CHECKING:
    from windows.databases import Database


@dataclasses.dataclass(frozen=True)
class ResolvedNode:
    """A node in normal form, its columns, and whether it has a window (W5).

    `expiring`: whether each row leaves the window at a time that is known when it arrives.
    """

    node: Node
    fields: tuple[Field, ...]
    windowed: bool
    expiring: bool = False

    @property
    def visible(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.hidden)


class Namespace(Protocol):
    """The meanings of names in a bridge; each method returns None for a name that it does not know."""

    def stream(self, name: str) -> ResolvedNode | None: ...
    def relation(self, name: str) -> ResolvedNode | None: ...
    def known(self) -> list[str]: ...
    def table_names(self) -> list[str]: ...
    def store(self, name: str | None) -> Database: ...


@singledispatch
def resolve(node: Node, names: Namespace) -> ResolvedNode:
    """The tree in normal form. Raises QueryError, with the place if the tree comes from a text."""
    raise QueryError(f"{type(node).__name__} is not a query object of the bridge")


@resolve.register
def _(node: query.Output, names: Namespace) -> ResolvedNode:
    return resolve(node.input, names)


@resolve.register(query.Stream)
@resolve.register(query.Relation)
def _(node: query.Stream | query.Relation, names: Namespace) -> ResolvedNode:
    found = names.stream(node.name) if isinstance(node, query.Stream) else None
    found = found or names.relation(node.name)
    if found is None:
        hint = closest(node.name, [*names.known(), *names.table_names()]) or nearest(node.name, names.known())
        registers = f"register_stream({node.name!r}, schema), or CREATE STREAM in a script"
        hint = (
            hint or f"; {f'{registers}, registers it' if names.known() else f'nothing is registered yet: {registers}'}"
        )
        raise QueryError(
            f"unknown stream {node.name!r}{hint}", words=[*source_words(node.name), node.name.split(".")[0]]
        )
    schema = node.schema if isinstance(node, query.Stream) else None
    if schema and [(a.name, a.type) for a in schema] != [(f.name, f.type) for f in found.visible]:
        has = ", ".join(f"{f.name} {f.type}" for f in found.visible)
        raise QueryError(f"{node.name!r} is registered with other attributes: ({has}), not ({schema})")
    return found


@resolve.register
def _(node: query.Filter, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    condition = condition_of(node.condition, Scope(below.fields), "WHERE")
    return dataclasses.replace(below, node=query.Filter(below.node, condition))


@resolve.register
def _(node: query.Union, names: Namespace) -> ResolvedNode:
    parts = [resolve_stream(below, names) for below in node.inputs]
    head = parts[0].visible
    for part in parts[1:]:
        if [f.type for f in part.visible] != [f.type for f in head]:
            raise QueryError(
                f"UNION ALL wants equal columns: ({_field_list(head)}) and ({_field_list(part.visible)}); "
                "name and CAST them alike in each SELECT"
            )
    renamed = [_renamed(part, head) for part in parts]
    fields = tuple(dataclasses.replace(field, origin=None) for field in head)
    union = query.Union(tuple(renamed))
    return ResolvedNode(union, fields, all(part.windowed for part in parts), all(part.expiring for part in parts))


# Names and scalars -----------------------------------------------------------------------------------------------------


def _renamed(part: ResolvedNode, head: Sequence[Field]) -> Node:
    if [f.name for f in part.visible] == [f.name for f in head] and part.visible == part.fields:
        return part.node
    pairs = zip(part.visible, head, strict=True)
    return query.Map(part.node, tuple(exp.alias_(column(mine.name), its.name, quoted=True) for mine, its in pairs))


def without_event_types(resolved: ResolvedNode, names: Namespace) -> ResolvedNode:
    """The results without the types of events, which EPL statements add."""
    listed = [field.name for field in resolved.visible if not is_type(field.name)]
    if len(listed) == len(resolved.visible):
        return resolved
    return resolve(query.Map(resolved.node, tuple(map(column, listed))), names)


def resolve_stream(node: Node, names: Namespace) -> ResolvedNode:
    """`resolve` for the input of an operator. Raises QueryError for a table, as it is not a stream."""
    below = resolve(node, names)
    if isinstance(below.node, query.Relation):
        raise QueryError(
            f"{below.node.name!r} is a table of the database: it can be joined with a stream, "
            "or asked on demand with cep.query"
        )
    return below


def _field_list(fields: Sequence[Field]) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in fields)
