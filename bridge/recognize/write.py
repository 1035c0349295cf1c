"""A RowPattern as the text of its clause: reading it gives an equal object."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from bridge import write
from bridge.frontends.match_recognize import RESERVED
from bridge.recognize.clause import PAST_LAST_ROW, SEMANTICS, PerMatch, RowPattern, identifier
from nfa import pattern


def clause(of: RowPattern) -> str:
    """The clause in the order of the standard, on one line, without what is so by default.

    >>> clause(RowPattern(pattern.Symbol("A"), within=500))
    'MATCH_RECOGNIZE (PATTERN (A) WITHIN 500 MS)'
    """
    return f"MATCH_RECOGNIZE ({' '.join(parts(of))})"


def parts(of: RowPattern) -> list[str]:
    """What stands between the parentheses, item by item."""
    found = [
        _list("PARTITION BY", map(scalar, of.partition_by)),
        _list("ORDER BY", map(_ordered, of.order_by)),
        _list("MEASURES", map(_measure, of.measures)),
        _per_match(of),
        skip(of),
        f"PATTERN ({_pattern(of.pattern)}{'' if of.absent is None else ' NOT ' + variable(of.absent)})",
        "" if of.within is None else f"WITHIN {of.within} MS",
        _list("SUBSET", (f"{variable(name)} = ({', '.join(map(variable, those))})" for name, those in of.subsets)),
        _list("DEFINE", (f"{variable(symbol)} AS {scalar(condition)}" for symbol, condition in of.define)),
    ]
    return [part for part in found if part]


def skip(of: RowPattern) -> str:
    """AFTER MATCH SKIP, if it is not the default."""
    if of.skip == PAST_LAST_ROW:
        return ""
    return f"AFTER MATCH SKIP {of.skip.to}" + ("" if of.skip.variable is None else f" {variable(of.skip.variable)}")


def variable(name: str) -> str:
    """A pattern variable: in quotes, unless it is its own bare word in upper case.

    >>> variable("DOWN"), variable("down"), variable("PATTERN")
    ('DOWN', '"down"', '"PATTERN"')
    """
    bare = not identifier(name).args.get("quoted") and name not in RESERVED and write.name(name) == name
    return name if bare else '"' + name.replace('"', '""') + '"'


def _list(title: str, items: Iterable[str]) -> str:
    text = ", ".join(items)
    return f"{title} {text}" if text else ""


def _per_match(of: RowPattern) -> str:
    timed_out = " WITH TIMED OUT MATCHES" if of.timed_out else ""
    return of.per_match.value + timed_out if timed_out or of.per_match is not PerMatch.ONE_ROW else ""


def _pattern(tree: pattern.Pattern) -> str:
    def quoted(word: re.Match[str]) -> str:
        return word[0] if word["kept"] else variable(word[0])

    return re.sub(rf'(?P<kept>"(?:[^"]|"")*"|PERMUTE(?=\())|{pattern.WORD.pattern}', quoted, str(tree))


def _ordered(item: exp.Ordered) -> str:
    descending, first = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
    nulls = "" if first != descending else f" NULLS {'FIRST' if first else 'LAST'}"
    return scalar(item.this) + " DESC" * descending + nulls


def _measure(item: exp.Alias) -> str:
    name = item.args["alias"]
    return f"{scalar(item.this)} AS {name.sql() if name.args.get('quoted') else write.name(name.name)}"


def scalar(expression: exp.Expr) -> str:
    """An expression of the clause as it is written there."""
    # Below a node of our own, so that the root is replaced like any other; the innermost first, as text they are leaves.
    holder = exp.Paren(this=expression.copy())
    for name in [*_variables(holder)]:
        name.replace(exp.to_identifier(name.name, quoted=variable(name.name) != name.name))
    for call in reversed([*holder.find_all(exp.Anonymous)]):
        if call.name in SEMANTICS:
            call.replace(exp.var(f"{call.name} {write.scalar(call.expressions[0])}"))
    return write.scalar(holder.this)


def _variables(holder: exp.Expr) -> Iterable[exp.Identifier]:
    for column in holder.find_all(exp.Column):
        above = column.parent
        if column.table:
            yield column.args["table"]
        elif isinstance(above, exp.Anonymous) and above.name == "CLASSIFIER":
            yield column.this
