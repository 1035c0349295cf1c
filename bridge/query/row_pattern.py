"""The MATCH_RECOGNIZE clause as an object, and its text (SQL:2016, feature R010)."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from bridge.query.expression_text import name_text, scalar_text
from bridge.query.words import ROW_PATTERN_WORDS
from nfa import pattern
from nfa.pattern import Concatenation, Pattern, Quantified, Symbol
from windows.sql import identifier

NAMED_AS_VARIABLE = "named_as_variable"
"""Marks a column without a variable whose name is that of a variable, which may be what is meant."""

MOST_ROWS = 2**31 - 1
"""The greatest offset of PREV, NEXT, FIRST and LAST."""

NAVIGATION = ("FIRST", "LAST", "PREV", "NEXT")
"""The functions that refer to another row: the first two within the match, the others within the partition."""

OF_THE_MATCH = ("CLASSIFIER", "MATCH_NUMBER")
SEMANTICS = ("RUNNING", "FINAL")

_FOLDED = re.compile(r"[A-Z_][A-Z0-9_]*")


def variable_identifier(variable: str) -> exp.Identifier:
    """A pattern variable in an expression, in quotes if the bare word would be another name.

    >>> variable_identifier("DOWN").sql(), variable_identifier("down").sql()
    ('DOWN', '"down"')
    """
    return exp.to_identifier(variable, quoted=_FOLDED.fullmatch(variable) is None)


class PerMatch(enum.Enum):
    """The rows that are reported per match (one or all), and the treatment of empty matches and unmatched rows."""

    ONE_ROW = "ONE ROW PER MATCH"
    SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class Skip(NamedTuple):
    """AFTER MATCH SKIP: `to` is PAST LAST ROW, TO NEXT ROW, TO FIRST or TO LAST; the last two take a variable."""

    to: str = "PAST LAST ROW"
    variable: str | None = None


PAST_LAST_ROW = Skip()


@dataclasses.dataclass(frozen=True)
class RowPattern:
    """One MATCH_RECOGNIZE clause. Names of pattern variables are in upper case unless they were quoted.

    Expressions are sqlglot trees. `A.price` is a column whose table is the variable. Each function of row patterns is
    an `exp.Anonymous` with its name in upper case: FIRST, LAST, PREV, NEXT, CLASSIFIER (its argument, if any, is a
    column without a table), MATCH_NUMBER, and RUNNING and FINAL around the call that they qualify. `meta["start"]` of
    names and of these calls is their offset in the query text.

    >>> from nfa.parse import parse_pattern
    >>> print(RowPattern(parse_pattern("A B+"), within=500))
    MATCH_RECOGNIZE (PATTERN (A B+) WITHIN 500 MS)
    """

    pattern: Pattern
    define: tuple[tuple[str, exp.Expr], ...] = ()
    measures: tuple[exp.Alias, ...] = ()
    partition_by: tuple[exp.Column, ...] = ()
    order_by: tuple[exp.Ordered, ...] = ()
    per_match: PerMatch = PerMatch.ONE_ROW
    skip: Skip = PAST_LAST_ROW
    within: int | None = None
    """The first and the last row of a match are less than this number of milliseconds apart."""
    timed_out: bool = False
    """Whether partial matches are reported after `within` has passed (rule S6)."""
    absent: str | None = None
    """`PATTERN (A NOT B)`: the symbol that no row may match before `within` has passed (rule S6)."""
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        return f"MATCH_RECOGNIZE ({' '.join(clause_parts(self))})"

    def symbols_of(self, variable: str) -> tuple[str, ...]:
        """The symbols that a variable stands for: the members of a SUBSET, or the variable itself."""
        return dict(self.subsets).get(variable, (variable,))


class Subquery(NamedTuple):
    """A sub-query in an expression: its text and offset, and the word before it, IN or EXISTS."""

    text: str
    at: int
    word: str


@dataclasses.dataclass(frozen=True)
class PatternTable:
    """A MATCH_RECOGNIZE clause cut out of a SELECT together with its input table.

    `name` replaces both in the text. `input` is the text of the table.
    """

    name: str
    input: str
    clause: RowPattern
    columns: Sequence[str] = ()
    """The column names given to the table by its alias: `t AS v (a, b)`."""
    columns_at: int = 0
    """The offset of these names in the text."""
    subqueries: Mapping[str, Subquery] = dataclasses.field(default_factory=dict)
    """The sub-queries that are replaced by calls in MEASURES and DEFINE, by number."""


def absent_symbols(clause: RowPattern) -> tuple[str, str] | None:
    """The symbol of the rows until `within` has passed, and the symbol that none of them may match.

    None without NOT.
    """
    return None if clause.absent is None else (f"NOT {clause.absent}", clause.absent)


def with_absence(clause: RowPattern) -> RowPattern:
    """The clause with the absent symbol in its pattern: rows that do not match it, then one that does (rule S6).

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
        node.set("table", identifier(new))
    return node


# The text of the clause, which is parsed to an equal object -----------------------------------------------------------


def clause_parts(clause: RowPattern) -> list[str]:
    """The texts between the parentheses, in the order of the standard, without defaults.

    >>> clause_parts(RowPattern(Symbol("A"), within=500))
    ['PATTERN (A)', 'WITHIN 500 MS']
    """
    absent = "" if clause.absent is None else f" NOT {variable_text(clause.absent)}"
    subsets = (f"{variable_text(name)} = ({', '.join(map(variable_text, those))})" for name, those in clause.subsets)
    conditions = (f"{variable_text(symbol)} AS {row_scalar_text(value)}" for symbol, value in clause.define)
    parts = [
        _list("PARTITION BY", map(row_scalar_text, clause.partition_by)),
        _list("ORDER BY", map(_ordered, clause.order_by)),
        _list("MEASURES", map(_measure, clause.measures)),
        _per_match(clause),
        skip_text(clause),
        f"PATTERN ({_pattern(clause.pattern)}{absent})",
        "" if clause.within is None else f"WITHIN {clause.within} MS",
        _list("SUBSET", subsets),
        _list("DEFINE", conditions),
    ]
    return [part for part in parts if part]


def skip_text(clause: RowPattern) -> str:
    """AFTER MATCH SKIP; "" for the default."""
    to, variable = clause.skip
    if clause.skip == PAST_LAST_ROW:
        return ""
    return f"AFTER MATCH SKIP {to}" + ("" if variable is None else f" {variable_text(variable)}")


def variable_text(name: str) -> str:
    """A pattern variable, in quotes unless the bare word is parsed as this name.

    >>> variable_text("DOWN"), variable_text("down"), variable_text("PATTERN")
    ('DOWN', '"down"', '"PATTERN"')
    """
    bare = (
        not variable_identifier(name).args.get("quoted") and name not in ROW_PATTERN_WORDS and name_text(name) == name
    )
    return name if bare else '"' + name.replace('"', '""') + '"'


def _list(title: str, items: Iterable[str]) -> str:
    text = ", ".join(items)
    return f"{title} {text}" if text else ""


def _per_match(clause: RowPattern) -> str:
    timed_out = " WITH TIMED OUT MATCHES" if clause.timed_out else ""
    return clause.per_match.value + timed_out if timed_out or clause.per_match is not PerMatch.ONE_ROW else ""


def _pattern(tree: pattern.Pattern) -> str:
    def quoted(word: re.Match[str]) -> str:
        return word[0] if word["unchanged"] else variable_text(word[0])

    return re.sub(rf'(?P<unchanged>"(?:[^"]|"")*"|PERMUTE(?=\())|{pattern.WORD.pattern}', quoted, str(tree))


def _ordered(item: exp.Ordered) -> str:
    descending, first = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
    nulls = "" if first != descending else f" NULLS {'FIRST' if first else 'LAST'}"
    return row_scalar_text(item.this) + " DESC" * descending + nulls


def _measure(item: exp.Alias) -> str:
    name = item.args["alias"]
    return f"{row_scalar_text(item.this)} AS {name.sql() if name.args.get('quoted') else name_text(name.name)}"


def row_scalar_text(expression: exp.Expr) -> str:
    """An expression of the clause: RUNNING and FINAL before their call, variables in quotes if needed."""
    # Placed below a node of ours, so that the root can be replaced; innermost calls first, as they become leaves of
    # text.
    holder = exp.Paren(this=expression.copy())
    for name in [*_variables(holder)]:
        name.replace(exp.to_identifier(name.name, quoted=variable_text(name.name) != name.name))
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
