"""How long the rows of a correlation can find partners, by what its condition says about the times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp


class _Time(NamedTuple):
    """The time of an input, plus milliseconds."""

    alias: str
    plus: int


def partner_times(condition: exp.Expr | None, aliases: Sequence[str]) -> Mapping[tuple[str, str], int]:
    """For each pair (a, b) of inputs the greatest value of `a.ts - b.ts` that the condition allows, where it has a bound.

    >>> import sqlglot
    >>> join = sqlglot.condition("o.id = s.oid AND s.ts BETWEEN o.ts AND o.ts + 4000")
    >>> dict(partner_times(join, ["o", "s"]))
    {('o', 's'): 0, ('s', 'o'): 4000}
    """
    bounds: dict[tuple[str, str], int] = {}
    known = [alias.lower() for alias in aliases]
    for later, earlier in _at_most(condition):
        pair = (later.alias, earlier.alias)
        if later.alias != earlier.alias and set(pair) <= set(known):
            bounds[pair] = min(bounds.get(pair, earlier.plus - later.plus), earlier.plus - later.plus)
    for through in known:  # a - c <= (a - b) + (b - c)
        for first in known:
            for last in known:
                parts = (bounds.get((first, through)), bounds.get((through, last)))
                if first != last and parts[0] is not None and parts[1] is not None:
                    bounds[first, last] = min(bounds.get((first, last), sum(parts)), sum(parts))  # type: ignore[arg-type]
    return bounds


def lifetimes(condition: exp.Expr | None, aliases: Sequence[str]) -> dict[str, int | None]:
    """The milliseconds for which a row of each input can find partners, in lower case; None: without end.

    >>> import sqlglot
    >>> join = sqlglot.condition("o.id = s.oid AND s.ts >= o.ts AND s.ts < o.ts + 4000")
    >>> lifetimes(join, ["o", "s"]), lifetimes(sqlglot.condition("s.ts >= o.ts"), ["o", "s"])
    ({'o': 4000, 's': 1}, {'o': None, 's': 1})
    """
    bounds = partner_times(condition, aliases)
    found: dict[str, int | None] = {}
    for alias in (name.lower() for name in aliases):
        after = [bounds.get((other.lower(), alias)) for other in aliases if other.lower() != alias]
        found[alias] = None if None in after else max(0, *(each for each in after if each is not None)) + 1
    return found


def _at_most(condition: exp.Expr | None) -> Iterator[tuple[_Time, _Time]]:
    """The pairs of times of which the first is at most the second, for a condition to hold."""
    match condition:
        case exp.And():
            for part in condition.flatten(unnest=True):
                yield from _at_most(part)
        case exp.Paren():
            yield from _at_most(condition.this)
        case exp.Between():
            yield from _pair(condition.args["low"], condition.this)
            yield from _pair(condition.this, condition.args["high"])
        case exp.LTE() | exp.LT():
            yield from _pair(condition.this, condition.expression, isinstance(condition, exp.LT))
        case exp.GTE() | exp.GT():
            yield from _pair(condition.expression, condition.this, isinstance(condition, exp.GT))
        case exp.EQ():
            yield from _pair(condition.this, condition.expression)
            yield from _pair(condition.expression, condition.this)


def _pair(left: exp.Expr, right: exp.Expr, strict: bool = False) -> Iterator[tuple[_Time, _Time]]:
    first, second = _time(left), _time(right)
    if first is not None and second is not None:
        yield first._replace(plus=first.plus + strict), second


def _time(node: exp.Expr) -> _Time | None:
    match node:
        case exp.Column() if node.name.lower() == "ts" and node.table:
            return _Time(node.table.lower(), 0)
        case exp.Paren():
            return _time(node.this)
        case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Literal) and node.expression.is_int:
            below, by = _time(node.this), int(node.expression.name)
            return (
                None if below is None else below._replace(plus=below.plus + (by if isinstance(node, exp.Add) else -by))
            )
    return None
