"""EPL's variables: create variable, on … set, and how statements read values that may change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from bridge.check.types import family, type_of
from bridge.errors import nearest
from bridge.frontends.cursor import Cursor, Region
from bridge.frontends.epl import expressions as epl_expressions
from bridge.frontends.epl.clauses import OutputClauses
from bridge.frontends.epl.inputs import Item, tags_of
from bridge.frontends.expressions import Qualifiers, resolve
from bridge.query.epl_patterns import Occurrence, TemporalMatch
from bridge.query.epl_state import SetVariables, Variable, over_early_values, variables_in, with_variable
from bridge.query.nodes import Filter, Map, Node, Stream, without_filters
from windows.sql import column


@dataclasses.dataclass(frozen=True)
class CreateVariable:
    """`create constant variable int LIMIT = 3`."""

    variable: Variable


@dataclasses.dataclass(frozen=True)
class OnSet:
    """`on S as s set most = s.v`: variables that events set from now on."""

    node: SetVariables
    text: str


@dataclasses.dataclass(frozen=True)
class Constants:
    """The names of variables whose values are part of statements, so that they cannot change any more."""

    names: frozenset[str]


def after(known: Mapping[str, Variable], statements: Iterable[object], read: Iterable[str]) -> dict[str, Variable]:
    """The variables, by name in lower case, after these statements of a script. `read`: the names read as constants."""
    found = dict(known)
    for name in read:
        found[name] = dataclasses.replace(found[name], is_read=True)
    for one in statements:
        if isinstance(one, CreateVariable):
            found[one.variable.name.lower()] = one.variable
        if isinstance(one, OnSet):
            for state in one.node.set:
                found[state.name.lower()] = dataclasses.replace(found[state.name.lower()], is_set=True)
    return found


# CREATE VARIABLE ------------------------------------------------------------------------------------------------------


def create_variable(cursor: Cursor) -> CreateVariable:
    """Steps over `constant variable int most = 3`, after `create`.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> found = create_variable(EplCursor("variable double most = 3")).variable
    >>> found.name, found.value.sql()
    ('most', 'CAST(3 AS DOUBLE)')
    """
    is_constant = cursor.take("CONSTANT")
    cursor.expect("VARIABLE")
    position = cursor.position
    kind = epl_expressions.type_of_name(cursor, cursor.name("the type of a variable"), position)
    if cursor.word() == "[":
        cursor.fail("a variable of several values is not supported: write them, v in (1, 2)")
    name = cursor.name("a name for the variable")
    if not (cursor.take("=") or cursor.take(":=")):
        return CreateVariable(Variable(name, kind, exp.cast(exp.null(), kind), is_constant))
    position = cursor.position
    value = epl_expressions.single_expression(cursor, cursor.until((";",)), "a value")
    if value.find(exp.Column, exp.AggFunc, exp.Anonymous) is not None:
        cursor.fail("the value of a variable is computed of constants", position)
    found = type_of(value, lambda column: "UNKNOWN")
    if None not in (family(found), family(kind)) and family(found) != family(kind):
        cursor.fail(f"the variable {name!r} is {kind}, {value.sql()} is {found}", position)
    return CreateVariable(Variable(name, kind, value if _is_of(value, kind) else exp.cast(value, kind), is_constant))


def _is_of(value: exp.Expr, kind: str) -> bool:
    """Whether a literal has a type without conversion."""
    if isinstance(value, exp.Boolean):
        return kind == "BOOLEAN"
    if not isinstance(value, exp.Literal):
        return False
    return kind == "VARCHAR" if value.is_string else kind in ("INTEGER", "BIGINT") if value.is_int else kind == "DOUBLE"


# ON … SET -------------------------------------------------------------------------------------------------------------


def on_set(cursor: Cursor, by: Item, start: int) -> OnSet:
    """Steps over `set most = s.v, n = n + 1`, after `on S as s`. `start`: the offset of the statement."""
    cursor.expect("SET")
    before = cursor.variables
    changed = {name.lower(): _settable(cursor, name, at) for name, at in _names(cursor)}
    cursor.variables = {**before, **changed}
    names = Qualifiers(None if tags_of(by.node) else by.alias, tags_of(by.node))
    settings = []
    while True:
        name = cursor.name("a variable")
        cursor.at += 1
        if cursor.word() == "(" and cursor.word(1) == "SELECT":
            cursor.fail(
                "a sub-query is not supported here: insert its results into a stream, and set the variable on its events"
            )
        value = epl_expressions.single_expression(cursor, cursor.until((",",)), "a value")
        settings.append((cursor.variables[name.lower()].name, resolve(cursor, [value], names)[0]))
        if not cursor.take(","):
            break
    changing = dict.fromkeys(
        [name for name, _ in settings] + [name for _, value in settings for name in variables_in(value)]
    )
    tables = tuple(cursor.variables[name.lower()].state for name in changing)
    cursor.variables = before
    node = SetVariables(with_early_values(by.node), tables, tuple(settings))
    return OnSet(node, cursor.slice(Region(start, cursor.at)))


def _names(cursor: Cursor) -> list[tuple[str, int]]:
    """The variables that are set, with their offsets. The cursor does not move, as values may name all of them."""
    start, found = cursor.at, list[tuple[str, int]]()
    while True:
        position = cursor.position
        found.append((cursor.name("a variable"), position))
        if not cursor.take(":="):
            cursor.expect("=", f" (set {found[-1][0]} = …)")
        cursor.until((",",))
        if not cursor.take(","):
            cursor.at = start
            return found


def _settable(cursor: Cursor, name: str, position: int) -> Variable:
    variable = cursor.variables.get(name.lower())
    if variable is None:
        hint = nearest(name, [one.name for one in cursor.variables.values()])
        cursor.fail(f"unknown variable {name!r}{hint}: create variable, before", position)
    if variable.is_constant:
        cursor.fail(f"the variable {variable.name!r} is constant", position)
    if variable.is_read:
        cursor.fail(
            f"a statement has the value of {variable.name!r} as a constant: on … set stands before those that read it",
            position,
        )
    return dataclasses.replace(variable, is_set=True)


# Values that may change -----------------------------------------------------------------------------------------------


def variables_of(expressions: Iterable[exp.Expr]) -> tuple[str, ...]:
    """The variables that these expressions read."""
    return tuple(dict.fromkeys(name for one in expressions for name in variables_in(one)))


def with_variables(node: Node, names: Iterable[str], early: bool = False) -> Node:
    """The rows with the values of variables as of their statement, or as before the event (`early`)."""
    for name in names:
        node = with_variable(node, name, early)
    return node


def is_filter(node: Node) -> bool:
    """Whether a condition on a node's rows is one on the events of a stream, which are filtered on arrival."""
    return isinstance(without_filters(node), Stream)


def with_early_values(node: Node) -> Node:
    """The tree, in which filters of streams and of a pattern's events read values of variables from before the event.

    >>> condition = exp.GT(this=exp.column("v"), expression=exp.column("variable.most"))
    >>> print(with_early_values(Filter(Stream("S"), condition)))
    SELECT * FROM S WITH "filter.most" ("filter.most".most OF most) WHERE v > "filter.most"
    """
    if isinstance(node, Filter) and is_filter(node):
        names = variables_in(node.condition)
        return (
            Filter(with_variables(with_early_values(node.input), names, early=True), over_early_values(node.condition))
            if names
            else node
        )
    if isinstance(node, TemporalMatch):
        conditions = {below: [e.condition for e in node.events if e.input == below] for below in node.inputs_of}
        variables = {
            below: variables_of(one for one in found if one is not None) for below, found in conditions.items()
        }
        return dataclasses.replace(node, events=tuple(_occurrence(one, variables[one.input]) for one in node.events))
    return node.with_inputs(with_early_values)


def _occurrence(event: Occurrence, names: tuple[str, ...]) -> Occurrence:
    """An event of a pattern, with the values that any event of its stream reads, as these share an input."""
    condition = None if event.condition is None else over_early_values(event.condition)
    return dataclasses.replace(
        event, input=with_variables(with_early_values(event.input), names, early=True), condition=condition
    )


@dataclasses.dataclass(frozen=True)
class SplitColumns:
    """A list of columns and HAVING, split: the `inner` columns are aggregates, the others combine these with variables.

    Variables have the values of the time at which the aggregates are reported.
    """

    inner: tuple[exp.Expr, ...]
    columns: tuple[exp.Expr, ...]
    having: exp.Expr | None

    @classmethod
    def of(
        cls, cursor: Cursor, columns: Sequence[exp.Expr], having: Sequence[exp.Expr], clauses: OutputClauses, at: int
    ) -> SplitColumns:
        """Splits the list of columns and HAVING."""
        if clauses.is_arranged or clauses.distinct:
            cursor.fail(
                "a variable that changes beside aggregates in an order, or each once, is not supported: insert the "
                "results into a stream, and read that",
                at,
            )
        if any(variables_in(call) for one in (*columns, *having) for call in one.find_all(exp.AggFunc)):
            cursor.fail("an aggregate of a variable that changes is not supported: insert its values into a stream", at)
        aliases = {one.alias.lower(): one.this for one in columns if isinstance(one, exp.Alias)}
        found: dict[exp.Expr, str] = {}

        def part(node: exp.Expr) -> exp.Expr:
            is_own = isinstance(node, exp.Column) and not variables_in(node)
            if not is_own and not isinstance(node, exp.AggFunc):
                return node
            return column(found.setdefault(node.copy(), f"part.{len(found) + 1}"))

        def meant(node: exp.Expr) -> exp.Expr:
            is_alias = isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases
            return exp.paren(aliases[node.name.lower()].copy()) if is_alias else node

        outer = tuple(
            exp.alias_(one.unalias().transform(part), one.alias_or_name or one.sql(), quoted=True) for one in columns
        )
        wanted = having[0].transform(meant).transform(part) if having else None
        inner = tuple(exp.alias_(value, name, quoted=True) for value, name in found.items())
        return cls(inner, outer, wanted)

    def over(self, node: Node) -> Node:
        """The results over an aggregate of the inner columns."""
        node = with_variables(node, variables_of((*self.columns, *([self.having] if self.having is not None else []))))
        return Map(node if self.having is None else Filter(node, self.having), self.columns)
