"""EPL's pattern [ … ] checked: its tags, the columns they give, and what each condition may name."""

from __future__ import annotations

import dataclasses

from bridge import query
from bridge.check import Field, Names, Resolved, _condition, _resolve, _Scope, _streaming
from bridge.errors import QueryError
from bridge.query import Occurrence
from nfa.temporal import Once, Temporal, Then, parts, walk
from windows.schema import is_reserved


@_resolve.register
def _(node: query.TemporalMatch, names: Names) -> Resolved:
    below = {event.input: _streaming(event.input, names) for event in node.events}
    for event in node.events:
        if isinstance(below[event.input].node, query.Window):
            raise QueryError("a pattern reads streams, not windows of them: timer:within bounds how long it waits")
    numbers = {number.number for number in walk(node.pattern) if isinstance(number, Once)}
    if numbers != set(range(len(node.events))):
        raise QueryError(f"the pattern names the events {sorted(numbers)}, and there are {len(node.events)}")
    before = _before(node.pattern)
    events = tuple(
        _resolved(
            event, below[event.input], [(node.events[n], below[node.events[n].input]) for n in sorted(before[place])]
        )
        for place, event in enumerate(node.events)
    )
    fields = _fields([(event, below[event.input]) for event in node.events])
    return Resolved(query.TemporalMatch(events, node.pattern), fields, windowed=False)


def tag_field(tag: str, name: str) -> str:
    """What a condition calls the column of an event before, once it is resolved."""
    return f"{tag}.{name}"


def _resolved(event: Occurrence, own: Resolved, before: list[tuple[Occurrence, Resolved]]) -> Occurrence:
    if event.condition is None:
        return dataclasses.replace(event, input=own.node)
    visible = list(own.visible)
    for other, resolved in before:
        if other.tag is not None:
            tag = other.tag
            visible += [Field(tag_field(tag, f.name), f.type, (tag, f.name)) for f in resolved.visible]
            visible.append(Field(tag_field(tag, "ts"), "BIGINT", (tag, "ts")))
    condition = _condition(event.condition, _Scope(tuple(visible)), "a filter")
    return dataclasses.replace(event, input=own.node, condition=condition)


def _before(tree: Temporal) -> dict[int, set[int]]:
    """For each event those that may have been when it comes."""
    found: dict[int, set[int]] = {}

    def visit(node: Temporal, known: set[int]) -> None:
        if isinstance(node, Once):
            found[node.number] = known
        for part in parts(node):
            visit(part, known)
            if isinstance(node, Then):
                known = known | {below.number for below in walk(part) if isinstance(below, Once)}

    visit(tree, set())
    return found


def _fields(events: list[tuple[Occurrence, Resolved]]) -> tuple[Field, ...]:
    fields: list[Field] = []
    tags: list[str] = []
    for event, resolved in events:
        if event.tag is None:
            continue
        if event.tag.lower() in tags:
            raise QueryError(f"two events are called {event.tag!r}: give one of them another tag", words=[event.tag])
        tags.append(event.tag.lower())
        fields += [Field(f"{event.tag}_{f.name}", f.type, (event.tag, f.name)) for f in resolved.visible]
    lowered = [field.name.lower() for field in fields]
    for field in fields:
        if lowered.count(field.name.lower()) > 1 or is_reserved(field.name):
            raise QueryError(f"the pattern would have two columns {field.name!r}: give an event another tag")
    if not fields:
        raise QueryError("the pattern names no event: a=A gives the events of A the tag a")
    return tuple(fields)
