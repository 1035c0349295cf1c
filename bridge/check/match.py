"""The paper's Match resolved: the definitions of its symbols and the types of its variables (rules P1 to P7)."""

from __future__ import annotations

from bridge import query
from bridge.check.resolve import Namespace, ResolvedNode, resolve, resolve_stream
from bridge.check.scope import Field, Scope, condition_of, scalar
from bridge.check.types import family, place, type_of
from bridge.errors import QueryError, nearest
from nfa.pattern import symbols


@resolve.register
def _(node: query.Match, names: Namespace) -> ResolvedNode:
    below = resolve_stream(node.input, names)
    scope = Scope(below.fields, tuple(Field(a.name, a.type) for a in node.measures))
    known = symbols(node.pattern)
    defined = [definition.symbol for definition in node.define]
    for symbol in defined:
        if defined.count(symbol) > 1:
            raise QueryError(f"symbol {symbol!r} is defined twice")
        if symbol not in known:
            raise QueryError(
                f"symbol {symbol!r} is defined but not in PATTERN {node.pattern}{nearest(symbol, list(known))}"
            )
    for attribute in node.measures:
        if any(f.name.lower() == attribute.name.lower() for f in below.fields):
            raise QueryError(f"the variable {attribute.name!r} has the name of an attribute of the stream: rename it")
    define = tuple(_definition(definition, scope, node) for definition in node.define)
    keys = tuple(scalar(key, Scope(below.fields)) for key in node.partition_by)
    resolved = query.Match(below.node, node.pattern, node.within, node.measures, define, keys)
    return ResolvedNode(resolved, tuple(Field(a.name, a.type) for a in node.measures), True, True)


def _definition(definition: query.Definition, scope: Scope, node: query.Match) -> query.Definition:
    condition = None
    if definition.condition is not None:
        condition = condition_of(definition.condition, scope, f"DEFINE {definition.symbol}")
    assignments = []
    for name, value in definition.assignments:
        variable = node.measures.find(name)
        if variable is None:
            hint = nearest(name, node.measures.names)
            raise QueryError(f"variable {name!r} is not declared in MEASURES{hint}", position=place(value))
        given = scalar(value, scope)
        kind = type_of(given, scope.type_of)
        if None not in (family(kind), family(variable.type)) and family(kind) != family(variable.type):
            raise QueryError(
                f"the variable {variable.name!r} is {variable.type}, {value.sql()} is {kind} "
                f"(CAST(… AS {variable.type}) says what is meant)",
                position=place(value),
            )
        assignments.append((variable.name, given))
    return query.Definition(definition.symbol, condition, tuple(assignments))
