"""The MATCH_RECOGNIZE clause as an object: what stands between its parentheses (SQL:2016, feature R010)."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge.query.expression_text import name_text, scalar_text
from bridge.query.words import ROW_PATTERN_WORDS
from nfa import pattern
from nfa.pattern import Concatenation, Pattern, Quantified, Symbol

NAVIGATION = ("FIRST", "LAST", "PREV", "NEXT")
"""The functions that name a row, the first two within the match, the others within the partition."""

OF_THE_MATCH = ("CLASSIFIER", "MATCH_NUMBER")
SEMANTICS = ("RUNNING", "FINAL")

_FOLDED = re.compile(r"[A-Z_][A-Z0-9_]*")


def identifier(variable: str) -> exp.Identifier:
    """A pattern variable as expressions hold it: quoted where the bare word would be another name.

    >>> identifier("DOWN").sql(), identifier("down").sql()
    ('DOWN', '"down"')
    """
    return exp.to_identifier(variable, quoted=_FOLDED.fullmatch(variable) is None)


class PerMatch(enum.Enum):
    """Which rows a match gives: one, or its own, with what becomes of empty matches and of rows in no match."""

    ONE_ROW = "ONE ROW PER MATCH"
    SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class Skip(NamedTuple):
    """AFTER MATCH SKIP: `to` is PAST LAST ROW, TO NEXT ROW, TO FIRST or TO LAST, the last two with a variable."""

    to: str = "PAST LAST ROW"
    variable: str | None = None


PAST_LAST_ROW = Skip()


@dataclasses.dataclass(frozen=True)
class RowPattern:
    """One clause. Names of pattern variables are folded to upper case unless they were quoted.

    Expressions are sqlglot trees in which `A.price` is a column with the variable as its table, and every function of
    row patterns an `exp.Anonymous` of its upper-case name: FIRST, LAST, PREV, NEXT, CLASSIFIER (its argument, if any, a
    column without table), MATCH_NUMBER, and RUNNING and FINAL around what they were written before. Names and these
    calls keep their place in the query text in `meta["start"]`.
    """

    pattern: Pattern
    define: tuple[tuple[str, exp.Expr], ...] = ()
    measures: tuple[exp.Alias, ...] = ()
    partition_by: tuple[exp.Column, ...] = ()
    order_by: tuple[exp.Ordered, ...] = ()
    per_match: PerMatch = PerMatch.ONE_ROW
    skip: Skip = PAST_LAST_ROW
    within: int | None = None
    """Milliseconds that lie at most between first and last row of a match, exclusive."""
    timed_out: bool = False
    """Whether partial matches are reported when their time is over (rule S6)."""
    absent: str | None = None
    """`PATTERN (A NOT B)`: the symbol of which no row may come until the time is over (rule S6)."""
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:

        return clause(self)

    def symbols_of(self, variable: str) -> tuple[str, ...]:
        """The symbols a variable stands for: those of a SUBSET, or itself."""
        return dict(self.subsets).get(variable, (variable,))


@dataclasses.dataclass(frozen=True)
class PatternTable:
    """A MATCH_RECOGNIZE clause cut out of a SELECT together with its input table.

    `name` replaces both in the text; `input` is the text of the table.
    """

    name: str
    input: str
    clause: RowPattern
    columns: Sequence[str] = ()
    """The column names that the table's correlation name gives it: `t AS v (a, b)`."""
    columns_at: int = 0
    """The offset of these names in the text."""


def absent_symbols(clause: RowPattern) -> tuple[str, str] | None:
    """The symbol of the rows that are waited through, and the one that must not come."""
    return None if clause.absent is None else (f"NOT {clause.absent}", clause.absent)


def with_absence(clause: RowPattern) -> RowPattern:
    """The clause with what is absent as a part of its pattern: any rows that are not it, then it (rule S6).

    >>> from nfa.pattern import Symbol
    >>> print(with_absence(RowPattern(Symbol("A"), within=5, absent="B")).pattern)
    A "NOT B"*? B
    """
    names = absent_symbols(clause)
    if names is None:
        return clause
    others, absent = names
    tail = (Quantified(Symbol(others), 0, None, greedy=False), Symbol(absent))
    before = clause.pattern.parts if isinstance(clause.pattern, Concatenation) else (clause.pattern,)
    condition = dict(clause.define).get(absent)
    never = exp.false() if condition is None else exp.Not(this=_is_true(condition.transform(_renamed, absent, others)))
    return dataclasses.replace(
        clause, pattern=Concatenation((*before, *tail)), define=(*clause.define, (others, never))
    )


def _is_true(condition: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=exp.Paren(this=condition), expressions=[exp.false()])


def _renamed(node: exp.Expr, old: str, new: str) -> exp.Expr:
    if isinstance(node, exp.Column) and node.table == old:
        node.set("table", exp.to_identifier(new, quoted=True))
    return node


# A RowPattern as the text of its clause: reading it gives an equal object


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
    bare = not identifier(name).args.get("quoted") and name not in ROW_PATTERN_WORDS and name_text(name) == name
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
    return f"{scalar(item.this)} AS {name.sql() if name.args.get('quoted') else name_text(name.name)}"


def scalar(expression: exp.Expr) -> str:
    """An expression of the clause as it is written there."""
    # Below a node of our own, so that the root is replaced like any other; the innermost first, as text they are leaves.
    holder = exp.Paren(this=expression.copy())
    for name in [*_variables(holder)]:
        name.replace(exp.to_identifier(name.name, quoted=variable(name.name) != name.name))
    for call in reversed([*holder.find_all(exp.Anonymous)]):
        if call.name in SEMANTICS:
            call.replace(exp.var(f"{call.name} {scalar_text(call.expressions[0])}"))
    return scalar_text(holder.this)


def _variables(holder: exp.Expr) -> Iterable[exp.Identifier]:
    for column in holder.find_all(exp.Column):
        above = column.parent
        if column.table:
            yield column.args["table"]
        elif isinstance(above, exp.Anonymous) and above.name == "CLASSIFIER":
            yield column.this
