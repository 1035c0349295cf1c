"""What a pattern says of its variables: which stand for several rows, and which come before others."""

from __future__ import annotations

from nfa.pattern import Alternation, Concatenation, Pattern, Permutation, Quantified, Symbol, parts


def groups(tree: Pattern) -> frozenset[str]:
    """The variables that stand for several rows: under `*` or `+`, or more than once along the pattern.

    >>> from nfa.parse import parse_pattern
    >>> sorted(groups(parse_pattern("A B+ (C | D) (C E?)")))
    ['B', 'C']
    """
    return frozenset(name for name, count in _counts(tree).items() if count > 1)


def _counts(tree: Pattern) -> dict[str, int]:
    """How often each variable can be bound, 2 standing for more."""
    match tree:
        case Symbol(name):
            return {name: 1}
        case Alternation(branches):
            found = [_counts(branch) for branch in branches]
            return {name: max(one.get(name, 0) for one in found) for one in found for name in one}
        case Quantified(part=part, most=most):
            times = 1 if most == 1 else 2
            return {name: count * times for name, count in _counts(part).items()}
    total: dict[str, int] = {}
    for part in parts(tree):
        for name, count in _counts(part).items():
            total[name] = total.get(name, 0) + count
    return total


def before(tree: Pattern, name: str) -> frozenset[str]:
    """The variables whose rows may come before a row of this one: those a definition may name.

    >>> from nfa.parse import parse_pattern
    >>> sorted(before(parse_pattern("A (B | C) D"), "D")), sorted(before(parse_pattern("A (B | C) D"), "C"))
    (['A', 'B', 'C'], ['A'])
    """
    found: set[str] = set()
    _collect(tree, name, frozenset(), found)
    return frozenset(found) - {name}


def _collect(tree: Pattern, name: str, seen: frozenset[str], found: set[str]) -> None:
    if isinstance(tree, Symbol) and tree.name == name:
        found |= seen
    together = tree.parts if isinstance(tree, Permutation) else ()
    for part in parts(tree):
        others = frozenset(n for other in together if other is not part for n in _counts(other))
        _collect(part, name, seen | others, found)
        if isinstance(tree, Concatenation):
            seen |= frozenset(_counts(part))
