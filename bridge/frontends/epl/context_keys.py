"""The keys of a context as a match has them: what `context.key1` is beside a pattern and in `match_recognize`."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp

from bridge.frontends.cursor import Cursor, word_of
from bridge.query.epl_patterns import TemporalMatch
from nfa.temporal.tree import Both, Distinct, Either, Every, Once, Repeat, Temporal, Then, While, Within
from windows.sql import column, identifier

QUALIFIER = "context"
"""`context.key1` is the first key, `context.name` the context's name."""


def key_name(place: int) -> str:
    """The name of a key, counted from 1.

    >>> key_name(1)
    'context.key1'
    """
    return f"{QUALIFIER}.key{place}"


def reads_keys(cursor: Cursor, start: int) -> bool:
    """Whether the statement whose columns begin at `start` reads `context.key1`, or another value of its context."""
    words = itertools.takewhile(lambda word: word != ";", map(word_of, cursor.tokens[start:]))
    return any(pair == (QUALIFIER.upper(), ".") for pair in itertools.pairwise(words))


def key_measures(keys: Sequence[exp.Expr]) -> tuple[exp.Alias, ...]:
    """Measures of `match_recognize` that are the keys, by which its rows are partitioned.

    >>> print(*key_measures([exp.column("k")]))
    k AS "context.key1"
    """
    names = (identifier(key_name(place)) for place, _ in enumerate(keys, 1))
    return tuple(exp.Alias(this=key.copy(), alias=name) for key, name in zip(keys, names, strict=True))


def keys_of_matches(node: TemporalMatch) -> tuple[exp.Expr, ...]:
    """The keys of a pattern's matches, over its columns; empty if a match may have no tagged event.

    >>> from bridge.query import Stream
    >>> from bridge.query.epl_patterns import Occurrence
    >>> a, b = (Occurrence(tag, Stream("S"), keys=(exp.column("k"),)) for tag in "ab")
    >>> print(*keys_of_matches(TemporalMatch((a, b), Every(Then((Once(0), Once(1)))))))
    "a_k"
    >>> print(*keys_of_matches(TemporalMatch((a, b), Either((Once(0), Once(1))))))
    COALESCE("a_k", "b_k")
    """
    tags = {number: tag for number, tag, several in node.tags if not several}
    numbers = _events_of(node.pattern, tags)
    keys = zip(*(node.events[number].keys for number in numbers), strict=True)
    return tuple(_first_known(f"{tags[n]}_{key.name}" for n, key in zip(numbers, same, strict=True)) for same in keys)


def _first_known(names: Iterator[str]) -> exp.Expr:
    first, *others = (column(name) for name in names)
    return exp.Coalesce(this=first, expressions=others) if others else first


def _events_of(tree: Temporal, tagged: Collection[int]) -> tuple[int, ...]:
    """The numbers of tagged events of which each match of the pattern has at least one; empty if there are none."""
    match tree:
        case Once(number):
            return (number,) if number in tagged else ()
        case Then(parts) | Both(parts):
            return next(filter(None, (_events_of(part, tagged) for part in parts)), ())
        case Either(parts):
            found = [_events_of(part, tagged) for part in parts]
            return tuple(number for numbers in found for number in numbers) if all(found) else ()
        case Every(part) | Within(part=part) | While(part=part) | Distinct(part=part):
            return _events_of(part, tagged)
        case Repeat(until=until):
            return () if until is None else _events_of(until, tagged)
    return ()
