"""Forms of SELECTs over window tables, and parts of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlglot import exp

from bridge.rewrite.flow import SESSION


class UnknownFormError(Exception):
    """Raised where the statement has another form."""


def has_other_clauses(select: exp.Expr, clauses: Collection[str]) -> bool:
    """Whether a SELECT has any other clause."""
    return any(value and part not in clauses for part, value in select.args.items())


def refuse_other_clauses(select: exp.Expr, clauses: Collection[str]) -> None:
    """Raises UnknownFormError for a SELECT that has any other clause."""
    if has_other_clauses(select, clauses):
        raise UnknownFormError


class SessionForm(NamedTuple):
    """The window table of a SELECT of sessions, the columns that have separate sessions, and the gap in ms."""

    table: exp.Table
    keys: frozenset[str]
    gap: int


def session_form(select: exp.Expr) -> SessionForm | None:
    """The form of a SELECT that gives rows, each with the end of its session as `_expires`; None for another SELECT."""
    numbered = _inner(select)
    marked = None if numbered is None else _inner(numbered)
    source = marked.args["from_"].this if marked is not None and marked.args.get("from_") else None
    if numbered is None or marked is None or not isinstance(source, exp.Table) or not isinstance(select, exp.Select):
        return None
    ends = next((item.unalias() for item in select.expressions if item.alias == "_expires"), None)
    starts = next((item.unalias() for item in marked.expressions if item.alias == "_starts"), None)
    match ends, starts:
        case (
            exp.Add(
                this=exp.Window(this=exp.Max(this=exp.Column(name="ts"))) as newest, expression=exp.Literal() as gap
            ),
            exp.Case(args={"ifs": [exp.If(this=exp.GTE(this=exp.Sub() as pause, expression=exp.Literal() as least))]}),
        ):
            before = pause.expression
            is_same = gap == least and isinstance(before, exp.Window) and isinstance(before.this, exp.Lag)
            if not is_same or not orders_by_seq(before) or pause.this.name != "ts" or before.this.this.name != "ts":
                return None
            keys = [each.name for each in before.args.get("partition_by") or ()]
            together = [each.name for each in newest.args.get("partition_by") or ()]
            is_plain = "" not in keys and together == [*keys, SESSION] and numbered.find(exp.Sum) is not None
            return SessionForm(source, frozenset(keys), number_of(gap)) if is_plain else None
    return None


def _inner(select: exp.Expr) -> exp.Select | None:
    """The inner SELECT, where a SELECT gives all its rows and columns and reads nothing else."""
    source = select.args["from_"].this if isinstance(select, exp.Select) and select.args.get("from_") else None
    if not isinstance(source, exp.Subquery) or has_other_clauses(select, ("expressions", "from_")):
        return None
    return source.this if isinstance(source.this, exp.Select) else None


def orders_by_seq(window: exp.Window) -> bool:
    order = window.args.get("order")
    terms = order.expressions if order is not None else []
    plain = not any(
        value for part, value in window.args.items() if part not in ("this", "partition_by", "order", "over")
    )
    return plain and [term.this.name for term in terms] == ["seq"] and not terms[0].args.get("desc")


def number_of(node: exp.Expr) -> int:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        raise UnknownFormError
    return int(node.name)
