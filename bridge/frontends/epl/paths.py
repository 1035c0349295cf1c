"""Paths of EPL, such as `a.items[0].price`, `m('key')` or `tags.lastOf()`, translated to the shared trees.

EPL counts the values of a list from 0, and has methods for both ends. sqlglot parses a chain into different shapes;
here it becomes a list of steps, from which the shared tree is made.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from sqlglot import exp

from bridge.check.paths import key, path
from bridge.frontends.cursor import Cursor
from bridge.frontends.expressions import position_of
from bridge.query.epl_patterns import COUNT, LAST, Element
from windows.sql import identifier

_ENDS = {"firstof": 0, "lastof": -1}
COUNTS = ("countof", "size")
_ENUMERATIONS = (
    "aggregate", "allof", "anyof", "arrayof", "average", "distinctof", "except", "groupby", "intersect", "leastfrequent",
    "max", "maxby", "min", "minby", "mostfrequent", "orderby", "orderbydesc", "reverse", "selectfrom", "sequenceequal",
    "sumof", "take", "takelast", "takewhile", "takewhilelast", "tomap", "union", "where",
)  # fmt: skip


_THERE = (
    "there are firstOf, lastOf, countOf and size, and in the list of columns and in where anyOf, allOf, sumOf, average, min "
    "and max"
)


_OF_TEXTS = {
    "tolowercase": "lower(x)", "touppercase": "upper(x)", "trim": "trim(x)", "substring": "substr(x, 1, 3)",
    "replace": "replace(x, 'a', 'b')", "contains": "x like '%a%'", "startswith": "x like 'a%'", "endswith": "x like '%a'",
    "equals": "x = 'a'", "concat": "x || 'a'", "matches": "x regexp 'a'", "isempty": "x = ''",
}  # fmt: skip
"""The equivalents of the methods of Java's strings."""


class Name(NamedTuple):
    """`.name`, or the name at the beginning of a chain."""

    name: exp.Identifier


class Index(NamedTuple):
    """`[0]`, `.firstOf()` (0) or `.lastOf()` (-1)."""

    place: int


class Key(NamedTuple):
    """`m('key')`: the value of a key in the map of this name."""

    name: exp.Identifier
    key: str


class Count(NamedTuple):
    """`.countOf()` or `.size()`."""


Step = Name | Index | Key | Count


def in_chain(node: exp.Expr) -> bool:
    """Whether a node is a step in the chain that its parent continues."""
    return isinstance(node.parent, (exp.Dot, exp.Bracket)) and node.arg_key == "this"


def steps(cursor: Cursor, node: exp.Expr) -> list[Step] | None:
    """The steps of a chain; None for a node that is not a chain, such as `Math.abs(v)`.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> chain = exp.maybe_parse("a.items[0].m('k').lastOf()")
    >>> [type(step).__name__ for step in steps(EplCursor("x"), chain)]
    ['Name', 'Name', 'Index', 'Key', 'Index']
    """
    match node:
        case exp.Identifier():
            return [Name(node)]
        case exp.Column() if not isinstance(node.this, exp.Star):
            return [Name(node.args[part]) for part in ("catalog", "db", "table", "this") if node.args.get(part)]
        case exp.Anonymous() if (found := _keyed(node)) is not None:
            return [found]
        case exp.Bracket():
            return _and(cursor, node, _index(cursor, node))
        case exp.Dot(expression=exp.Identifier() as name):
            return _and(cursor, node, Name(name))
        case exp.Dot(expression=exp.Anonymous() as call):
            return _and(cursor, node, _called(cursor, node, call))
    return None


def as_column(found: list[Step]) -> exp.Expr:
    """The tree of a chain.

    `b[0].v`, where `b` may be several events, is a column of that element (`query.epl_patterns`).
    """
    match found:
        case [Name(tag), Index(place), Name(name), *rest]:
            return following(_of_several(tag, LAST if place < 0 else place, name), rest)
        case [Name(tag), Count()]:
            return _of_several(tag, COUNT, exp.to_identifier(COUNT))
        case [Key(name, text), *rest]:
            value = key(exp.Column(this=name.copy()), text)
            value.meta["call"] = exp.Anonymous(this=name.name, expressions=[exp.Literal.string(text)])
            return following(value, rest)
    names: list[exp.Identifier] = []
    for step in found[:4]:
        if not isinstance(step, Name):
            break
        names.append(step.name)
    parts = zip(("this", "table", "db", "catalog"), (name.copy() for name in reversed(names)), strict=False)
    return following(exp.Column(**dict(parts)), found[len(names) :])


def following(base: exp.Expr, rest: list[Step]) -> exp.Expr:
    """The tree of further steps after a base expression."""
    for step in rest:
        match step:
            case Name(name):
                base = exp.Dot(this=base, expression=name.copy())
            case Index(place):
                base = path(base, place)
            case Key(name, text):
                base = key(exp.Dot(this=base, expression=name.copy()), text)
            case Count():
                base = exp.ArraySize(this=base)
    return base


def _of_several(tag: exp.Identifier, which: int | str, name: exp.Identifier) -> exp.Column:
    qualifier = identifier(str(Element(tag.name, which)))
    qualifier.meta.update(tag.meta)
    return exp.Column(this=name.copy(), table=qualifier)


def as_written(column: exp.Expr) -> exp.Expr:
    """A column of a list with its name in EPL, if that differs from the name in the shared tree.

    >>> as_written(exp.maybe_parse("a.items[1].price")).alias
    'a.items[0].price'
    """
    if isinstance(column, exp.Alias) or column.find(exp.Bracket, exp.ArraySize) is None:
        return column
    return exp.alias_(column, column.transform(_epl).sql(), quoted=True)


def _epl(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.ArraySize):
        return exp.var(f"{node.this.transform(_epl).sql()}.countOf()")
    index = node.expressions[0] if isinstance(node, exp.Bracket) else None
    if isinstance(index, exp.Neg):
        return exp.var(f"{node.this.transform(_epl).sql()}.lastOf()")
    if isinstance(index, exp.Literal) and not index.is_string:
        node.set("expressions", [exp.Literal.number(int(index.name) - 1)])
    return node


def _and(cursor: Cursor, node: exp.Expr, step: Step | None) -> list[Step] | None:
    before = None if step is None else steps(cursor, node.this)
    return None if before is None or step is None else [*before, step]


def _index(cursor: Cursor, node: exp.Bracket) -> Index:
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if not (
        isinstance(index, exp.Literal) and not index.is_string and index.name.isdigit() and int(index.name) < 2**31
    ):
        cursor.fail(
            "an index is a whole number from 0; of a table T with the key k: (select v from T where k = s.k) as v",
            position_of(node),
        )
    return Index(int(index.name))


def _keyed(call: exp.Anonymous) -> Key | None:
    """`m('key')`, unless `m` is a function, which only the schema tells."""
    argument = call.expressions[0] if len(call.expressions) == 1 else None
    if not (isinstance(argument, exp.Literal) and argument.is_string):
        return None
    name = exp.to_identifier(call.name)
    if call.meta_get("start") is not None:
        name.meta["start"] = call.meta["start"]
    return Key(name, str(argument.name))


def _called(cursor: Cursor, node: exp.Dot, call: exp.Anonymous) -> Step | None:
    name = call.name.lower()
    if not call.expressions and name in _ENDS:
        return Index(_ENDS[name])
    if not call.expressions and name in COUNTS:
        return Count()
    if name in (*_ENDS, *COUNTS, *_ENUMERATIONS) and name not in ("max", "min"):
        refuse_method(cursor, node, call)
    return _keyed(call)


def refuse_method(cursor: Cursor, node: exp.Expr, call: exp.Anonymous) -> NoReturn:
    """Refuses a method by its name."""
    of_texts = _OF_TEXTS.get(call.name.lower())
    there = f"{of_texts} says the same of a text" if of_texts else _THERE
    cursor.fail(f"the method {call.name} is not supported: {there}", position_of(node) or call.meta_get("start"))


def refuse_where(cursor: Cursor) -> None:
    """Refuses the method `where`, which would be read as the clause."""
    for before, token, after in zip(cursor.tokens, cursor.tokens[1:], cursor.tokens[2:], strict=False):
        if before.text == "." and token.text.lower() == "where" and after.text == "(":
            cursor.fail(f"the method {token.text} is not supported: {_THERE}", token.start)
