"""Correlations resolved: the columns of all inputs, and their windows (rule O3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from bridge import query
from bridge.check.interval_join import lifetimes
from bridge.check.resolve import Namespace, ResolvedNode, resolve
from bridge.check.scope import Field, Scope, condition_of
from bridge.check.windows import is_known_to_end, no_window
from bridge.errors import QueryError, source_words
from bridge.query.nodes import Node
from windows.extents import Range


@resolve.register
def _(node: query.Correlate, names: Namespace) -> ResolvedNode:
    parts = [(alias, resolve(below, names)) for alias, below in node.inputs]
    streaming = [(alias, part) for alias, part in parts if not isinstance(part.node, query.Relation)]
    if not streaming:
        raise QueryError("a correlation needs a stream: for tables alone ask cep.query")
    if len(streaming) > 1:
        parts = _with_windows(node, parts, [alias for alias, _ in streaming])
        streaming = [(alias, part) for alias, part in parts if not isinstance(part.node, query.Relation)]
    fields = _joined_fields(parts)
    condition = None if node.condition is None else condition_of(node.condition, Scope(fields), "WHERE or ON")
    inputs = tuple((alias, part.node) for alias, part in parts)
    resolved = dataclasses.replace(node, inputs=inputs, condition=condition)
    windowed, expiring = (all(getattr(part, name) for _, part in streaming) for name in ("windowed", "expiring"))
    windowed = windowed and is_known_to_end(resolved) and not node.outer and node.driving is None
    return ResolvedNode(resolved, fields, windowed, expiring)


def _with_windows(
    node: query.Correlate, parts: Sequence[tuple[str, ResolvedNode]], streaming: Sequence[str]
) -> list[tuple[str, ResolvedNode]]:
    """The inputs; one without a window has the rows that can still find partners by the times in the condition.

    Raises:
        QueryError: An input has no window, and the condition does not bound its times.
    """
    found, known = list[tuple[str, ResolvedNode]](), lifetimes(node.condition, streaming)
    for alias, part in parts:
        if part.windowed or alias not in streaming or alias == node.driving:
            found.append((alias, part))
            continue
        lifetime = known.get(alias.lower())
        if lifetime is None:
            message = no_window(part.node, alias)
            raise QueryError(message, words=_words_of(part.node, alias))
        window = query.Window(part.node, Range(lifetime))
        found.append((alias, dataclasses.replace(part, node=window, windowed=True, expiring=True)))
    return found


def _joined_fields(parts: Sequence[tuple[str, ResolvedNode]]) -> tuple[Field, ...]:
    """O3: the inputs' columns in FROM order; names that occur twice become `alias_name`.

    Each part's ts is `alias.ts`.
    """
    listed = [(alias, field) for alias, part in parts for field in part.visible]
    lowered = [field.name.lower() for _, field in listed]
    fields = []
    for alias, field in listed:
        name = field.name if lowered.count(field.name.lower()) == 1 else f"{alias}_{field.name}"
        fields.append(Field(name, field.type, (alias, field.name)))
    names = [field.name.lower() for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"the correlation would have two columns {name!r}: give an input another alias")
    times = [
        Field(f"{alias}.ts", "BIGINT", (alias, "ts"), hidden=True)
        for alias, part in parts
        if not isinstance(part.node, query.Relation)
    ]
    return (*fields, *times)


def _words_of(node: Node, alias: str) -> list[str]:
    """The names by which a text may refer to an input of a correlation: its alias, or its own name."""
    name = query.source_name(node)
    return ([f"{name} {alias}", f"{name} AS {alias}"] if name else [f"AS {alias}"]) + source_words(name or alias)
