"""PATTERN of EPL's match_recognize: its quantifiers, and the variables that stand for several rows.

`{n,m}` is expanded, including the quantifier before it: `A{2,3}` is `A A A?`, `A+{2}` is `A+ A+`.
"""

from __future__ import annotations

from bridge.frontends.cursor import Cursor
from bridge.frontends.epl.cursor import whole
from nfa.pattern import Alternation, Concatenation, Pattern, Permutation, Quantified, Symbol

_MARKS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LIMIT = 1_000
"""The greatest number of repetitions in `{n}`."""


def pattern(cursor: Cursor) -> Pattern:
    """The pattern up to a closing parenthesis.

    >>> from bridge.frontends.epl.cursor import EplCursor
    >>> print(pattern(EplCursor("A{2,3} (B | C*?) match_recognize_permute(D, E+)")))
    A A A? (B | C*?) PERMUTE(D, E+)
    """
    branches = [_sequence(cursor)]
    while cursor.take("|"):
        branches.append(_sequence(cursor))
    return branches[0] if len(branches) == 1 else Alternation(tuple(branches))


def _sequence(cursor: Cursor) -> Pattern:
    items = [_repeated(cursor)]
    while cursor.peek() and cursor.word() not in (")", "|", "]"):
        if cursor.take(","):  # examples in the documentation have commas
            continue
        items.append(_repeated(cursor))
    return _joined(items)


def _joined(items: list[Pattern]) -> Pattern:
    flat = [part for item in items for part in (item.parts if isinstance(item, Concatenation) else (item,))]
    return flat[0] if len(flat) == 1 else Concatenation(tuple(flat))


def _repeated(cursor: Cursor) -> Pattern:
    group = cursor.word() == "("
    permuted = cursor.word() == "MATCH_RECOGNIZE_PERMUTE"
    if cursor.word() in ("^", "$", "-"):
        cursor.fail(f"{cursor.next_text()} is not part of EPL's patterns")
    item = _permutation(cursor) if permuted else _group(cursor) if group else Symbol(cursor.name("a pattern variable"))
    item = _quantified(cursor, item, group)
    if cursor.word() in ("{", "["):
        item = _count_quantifier(cursor, item)
    if cursor.word() in (*_MARKS, "{", "[", "??"):
        what = "match_recognize_permute takes no quantifier" if permuted else "one quantifier is enough here"
        cursor.fail(what)
    return item


def _group(cursor: Cursor) -> Pattern:
    cursor.expect("(")
    inner = pattern(cursor)
    cursor.expect(")")
    return inner


def _permutation(cursor: Cursor) -> Pattern:
    cursor.at += 1
    cursor.expect("(")
    items = [_argument(cursor)]
    while cursor.take(","):
        items.append(_argument(cursor))
    cursor.expect(")")
    if cursor.word() in (*_MARKS, "??", "{", "["):
        cursor.fail("match_recognize_permute takes no quantifier")
    return Permutation(tuple(items))


def _argument(cursor: Cursor) -> Pattern:
    items = [_repeated(cursor)]
    while cursor.word() not in (",", ")"):
        items.append(_repeated(cursor))
    return _joined(items)


def _quantified(cursor: Cursor, item: Pattern, group: bool) -> Pattern:
    position = cursor.position
    if cursor.take("??"):
        greedy, (least, most) = False, _MARKS["?"]
    elif cursor.word() in _MARKS:
        least, most = _MARKS[cursor.word()]
        cursor.at += 1
        greedy = not cursor.take("?")
    else:
        return item
    if group and not greedy:
        cursor.fail("a group has no reluctant quantifier: put it on the variables", position)
    return Quantified(item, least, most, greedy)


def _count_quantifier(cursor: Cursor, item: Pattern) -> Pattern:
    """`{n}`, `{n,}`, `{n,m}`, `{,m}`; the technical report writes `[n]`."""
    position = cursor.position
    close = "}" if cursor.word() == "{" else "]"
    cursor.at += 1
    least = 0 if cursor.word() == "," else whole(cursor, "a number of repetitions")
    most: int | None = least
    if close == "}" and cursor.take(","):
        most = None if cursor.word() == "}" else whole(cursor, "a number of repetitions")
        if most is None and least == 0:
            cursor.fail("{,} says nothing: write *", position)
    cursor.expect(close)
    if most is not None and least > most:
        cursor.fail(f"at least {least} and at most {most} cannot be", position)
    if max(least, most or 0) > _LIMIT:
        cursor.fail(f"at most {_LIMIT} repetitions are written out: use * or +", position)
    optional = _optional(item)
    rest = [Quantified(_bare(item), 0, None, _greedy(optional))] if most is None else [optional] * (most - least)
    return _joined([*[item] * least, *rest])


def _optional(item: Pattern) -> Pattern:
    if isinstance(item, Quantified):
        return Quantified(item.part, 0, item.most, item.greedy)
    return Quantified(item, 0, 1)


def _bare(item: Pattern) -> Pattern:
    return item.part if isinstance(item, Quantified) else item


def _greedy(item: Pattern) -> bool:
    return not isinstance(item, Quantified) or item.greedy
