"""What may set variables: names found, types that fit, every refusal with its place."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from bridge.check import Names, Resolved, resolve, streaming
from bridge.scope import CURRENT, Field, Scope, scalar
from bridge.state import check_fits
from bridge.types import type_of
from bridge.variables import SetVariables


@resolve.register
def _(node: SetVariables, names: Names) -> Resolved:
    below = streaming(node.input, names)
    types = {column.name: column.type for table in node.tables for column in table.schema}
    values = [Field(CURRENT + name, kind, hidden=True) for name, kind in types.items()]
    scope = Scope((*below.fields, *values))
    settings = []
    for name, value in node.settings:
        found = scalar(value, scope)
        kind = type_of(found, scope.type_of)
        check_fits(value, kind, Field(name, types[name]), "variable")
        settings.append((name, found if kind == types[name] else exp.cast(found, types[name])))
    told = tuple(Field(table.name, types[table.name]) for table in node.set)
    return Resolved(dataclasses.replace(node, input=below.node, settings=tuple(settings)), told, windowed=False)
