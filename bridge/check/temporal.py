"""Checks EPL's pattern [ … ]: its tags, the columns of its results, and the names that each condition may use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge import query
from bridge.check.objects import object_type
from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.scope import Field, Scope, condition_of, scalar
from bridge.check.types import refuse_nested_key, type_of
from bridge.errors import QueryError
from bridge.query.epl_patterns import COUNT, LAST, WHOLE, EventColumns, Occurrence, element, elements
from nfa.temporal.tree import Distinct, Once, Temporal, Then, While, numbers, parts
from windows.schema import is_reserved
from windows.types import List


@resolve.register
def _(node: query.TemporalMatch, names: Namespace) -> ResolvedNode:
    below = {event.input: resolve_stream(event.input, names) for event in node.events}
    for event in node.events:
        if isinstance(below[event.input].node, query.Window):
            raise QueryError("a pattern reads streams, not windows of them: timer:within bounds how long it waits")
    if len({len(event.keys) for event in node.events}) > 1:
        raise QueryError("all events of a pattern must have the same number of keys")
    named = numbers(node.pattern)
    if sorted(named) != list(range(len(node.events))):
        raise QueryError(f"the pattern names the events {sorted(named)}, and there are {len(node.events)}")
    bound = _bound(node.pattern)
    if set(bound.values) != set(range(len(node.values))):
        raise QueryError(f"the pattern names the values {sorted(bound.values)}, and there are {len(node.values)}")
    scope = _Tags([(event, below[event.input]) for event in node.events])
    events = tuple(_resolved(event, below[event.input], scope, bound.events[n]) for n, event in enumerate(node.events))
    values = tuple(
        _value(value, scope.fields(value, bound.values[n]), n in bound.conditions)
        for n, value in enumerate(node.values)
    )
    fields = _fields(node, scope)
    return ResolvedNode(query.TemporalMatch(events, node.pattern, values, node.elements), fields, windowed=False)


def tag_field(tag: str, name: str) -> str:
    """The name of an earlier event's column in a resolved condition."""
    return f"{tag}.{name}"


class TaggedColumn(NamedTuple):
    """The column that a name of `tag_field` refers to: the column `name` of the event with this number.

    `which`: for a repeated tag, the index of one of its events, or LAST or COUNT.
    """

    number: int
    which: int | str
    name: str


def tagged(node: query.TemporalMatch, columns: Callable[[int], Sequence[str]], name: str) -> TaggedColumn | None:
    """The column that a name in a resolved condition refers to; None for a name without a tag.

    `columns`: of an event.
    """
    for number, tag, _ in node.tags:
        known = (*columns(number), "ts")
        if name.startswith(f"{tag}.") and name.removeprefix(f"{tag}.") in known:
            return TaggedColumn(number, LAST, name.removeprefix(f"{tag}."))
        alias, _, short = name.partition("].")
        one = element(f"{alias}]", tag)
        if one is not None and (short in known or one.which == COUNT):
            return TaggedColumn(number, one.which, short)
    return None


@dataclasses.dataclass(frozen=True)
class _Tags:
    """The events of a pattern with their resolved inputs."""

    events: list[tuple[Occurrence, ResolvedNode]]

    def fields(self, expression: exp.Expr, bound: dict[int, bool]) -> list[Field]:
        """The fields of bound events that an expression may use.

        `bound`: for each event, whether its tag is repeated.
        """
        found = list[Field]()
        for number, several in sorted(bound.items()):
            event, _ = self.events[number]
            if event.tag is None:
                continue
            for alias in map(str, elements([expression], event.tag)) if several else [event.tag]:
                found += [
                    Field(tag_field(alias, name), kind, (alias, name)) for name, kind in self.columns(number, alias)
                ]
        return found

    def columns(self, number: int, alias: str) -> list[tuple[str, str]]:
        """The names and types of an event's columns and of its time; for `tag[count]`, of the number of events."""
        event, resolved = self.events[number]
        one = element(alias, event.tag or "")
        if one is not None and one.which == COUNT:
            return [(COUNT, "BIGINT")]
        return [*((field.name, field.type) for field in resolved.visible), ("ts", "BIGINT")]


def _resolved(event: Occurrence, own: ResolvedNode, scope: _Tags, bound: dict[int, bool]) -> Occurrence:
    keys = tuple(scalar(key, Scope(own.visible)) for key in event.keys)
    for key in keys:
        refuse_nested_key(key, type_of(key, Scope(own.visible).type_of))
    event = dataclasses.replace(event, input=own.node, keys=keys)
    if event.condition is None:
        return event
    visible = (*own.fields, *scope.fields(event.condition, bound))
    condition = condition_of(event.condition, Scope(visible), "a filter")
    return dataclasses.replace(event, condition=condition)


def _value(value: exp.Expr, fields: list[Field], is_condition: bool) -> exp.Expr:
    scope = Scope(tuple(fields))
    if is_condition:
        return condition_of(value, scope, "while")
    key = scalar(value, scope)
    refuse_nested_key(key, type_of(key, scope.type_of))
    return key


@dataclasses.dataclass
class _ReadableEvents:
    """For each event and each value, the earlier events that it may read, and whether the tag of each is repeated."""

    events: dict[int, dict[int, bool]] = dataclasses.field(default_factory=dict)
    values: dict[int, dict[int, bool]] = dataclasses.field(default_factory=dict)
    conditions: set[int] = dataclasses.field(default_factory=set)


def _bound(tree: Temporal) -> _ReadableEvents:
    found = _ReadableEvents()

    def visit(node: Temporal, known: dict[int, bool]) -> None:
        if isinstance(node, Once):
            found.events[node.number] = known
        if isinstance(node, While):
            found.values[node.value] = known | numbers(node.part)
            found.conditions.add(node.value)
        if isinstance(node, Distinct):
            found.values |= {value: known | numbers(node.part) for value in node.values}
        for part in parts(node):
            visit(part, known)
            if isinstance(node, Then):
                known = known | numbers(part)

    visit(tree, {})
    return found


def _fields(node: query.TemporalMatch, scope: _Tags) -> tuple[Field, ...]:
    _refuse_tags(node)
    fields: list[Field] = []
    for event in node.event_columns:
        columns = scope.events[event.number][1].visible
        if event.is_count:
            fields.append(Field(event.prefix, "BIGINT", (event.alias, COUNT)))
        elif event.is_whole:
            fields.append(Field(event.prefix, _whole(node, event, columns), (event.alias, WHOLE)))
        else:
            fields += [Field(f"{event.prefix}_{f.name}", f.type, (event.alias, f.name)) for f in columns]
    lowered = [field.name.lower() for field in fields]
    for field in fields:
        if lowered.count(field.name.lower()) > 1 or is_reserved(field.name):
            raise QueryError(f"the pattern would have two columns {field.name!r}: give an event another tag")
    return tuple(fields)


def _whole(node: query.TemporalMatch, event: EventColumns, columns: Sequence[Field]) -> str:
    """The type of a whole event as a value, or of the list of events if the tag is repeated."""
    kind = object_type([(field.name, field.type) for field in columns], node.events[event.number].tag or "")
    return str(List(kind)) if (event.number, event.prefix, True) in node.tags else kind


def _refuse_tags(node: query.TemporalMatch) -> None:
    seen: list[str] = []
    for _, tag, _ in node.tags:
        if tag.lower() in seen:
            raise QueryError(f"two events are called {tag!r}: give one of them another tag", words=[tag])
        if "[" in tag:
            raise QueryError(f"a tag has no bracket in it: {tag!r}", words=[tag])
        seen.append(tag.lower())
