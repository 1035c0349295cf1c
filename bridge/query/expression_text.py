"""Names and expressions as SQL text, which is parsed to equal ones."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from sqlglot import ErrorLevel, exp

from bridge.errors import QueryError
from bridge.query.expressions import parsed
from bridge.query.words import CLAUSE_WORDS, NOT_OPERANDS, RESERVED, WORD

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def name_text(text: str) -> str:
    """A name, in double quotes unless the bare word is parsed as this name.

    >>> name_text("price"), name_text("order"), name_text('2" pipe')
    ('price', '"order"', '"2"" pipe"')
    """
    return text if _is_bare(text) else '"' + text.replace('"', '""') + '"'


def _is_bare(text: str) -> bool:
    upper = text.upper()
    return bool(_BARE.fullmatch(text)) and upper not in RESERVED and upper not in CLAUSE_WORDS and _is_column(text)


@functools.lru_cache(maxsize=4096)
def _is_column(word: str) -> bool:
    """Whether sqlglot parses the bare word as a column wherever a column may be."""
    if word.upper() in NOT_OPERANDS or not WORD.fullmatch(word):
        return False
    try:
        read = parsed(f"SELECT a, {word}, {word} + 1 AS {word}")
    except QueryError:
        return False
    column = exp.column(exp.to_identifier(word, quoted=False))
    return list(read.find_all(exp.Column))[1:] == [column, column]


def scalars_text(expressions: Iterable[exp.Expr]) -> str:
    """Expressions, separated by commas."""
    return ", ".join(map(scalar_text, expressions))


def scalar_text(expression: exp.Expr) -> str:
    """An expression. Names that SQL would parse as something else are in quotes.

    sqlglot logs nothing where it has no exact form: of EPL's `nth(v, 2)`, only `NTH_VALUE … FROM LAST` can be written.
    """
    if any(not node.args.get("quoted") and not _is_column(node.name) for node in expression.find_all(exp.Identifier)):
        expression = expression.copy()
        for node in expression.find_all(exp.Identifier):
            node.set("quoted", node.args.get("quoted") or not _is_column(node.name))
    return expression.sql(comments=False, normalize_functions=False, unsupported_level=ErrorLevel.IGNORE)
