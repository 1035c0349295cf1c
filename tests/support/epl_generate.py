"""Random EPL: statements of match_recognize and of patterns, with events for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from bridge.frontends.epl.cursor import EplCursor
from bridge.frontends.epl.row_pattern import pattern
from nfa.pattern import before, groups, symbols
from tests.support.epl_rows import Asked, Binding, Row

SCHEMA = "create schema {} (id string, v int, k string)"
Condition = tuple[str, Callable[[Sequence[Row], int, Binding], bool]]


def events(chance: random.Random, count: int) -> list[Row]:
    """Rows of few values, so that they often meet; times stand still now and then."""
    ts, found = 0, []
    for number in range(count):
        ts += chance.choice((0, 1, 1, 2, 5))
        found.append((ts, f"E{number}", chance.randint(1, 4), chance.choice(("x", "y", None))))
    return found


def rows(chance: random.Random) -> tuple[str, Asked]:
    """A statement of match_recognize, and what it asks."""
    window = chance.choice(
        [("", None, None), ("#keepall", None, None), ("#time(4 milliseconds)", 4, None), ("#length(3)", None, 3)]
    )
    return _rows(chance, _pattern(chance, 2), *window)


def sequence(chance: random.Random) -> tuple[str, Asked]:
    """One of single rows that follow each other."""
    return _rows(chance, " ".join("ABCD"[: chance.randint(1, 4)]))


def _rows(
    chance: random.Random, text: str, window: str = "", size: int | None = None, count: int | None = None
) -> tuple[str, Asked]:
    tree = pattern(EplCursor(text))
    names = symbols(tree)
    several = groups(tree)
    conditions, define = {}, []
    for name in names:
        if chance.random() < 0.85:
            written, condition = _condition(chance, name, sorted(before(tree, name)), several)
            conditions[name] = condition
            define.append(f"{name} as {written}")
    measures = [f"count({n}.id) as n{n}, first({n}.id) as f{n}, last({n}.id) as l{n}" for n in names if n in several]
    measures += [f"{n}.id as i{n}" for n in names if n not in several]
    by_key, all_matches = chance.random() < 0.4, chance.random() < 0.3
    after = chance.choice(("past last", "to next", "to current"))
    parts = [
        "partition by k" if by_key else "",
        f"measures {', '.join(measures)}",
        "all matches" if all_matches else "",
        f"after match skip {after} row" if after != "past last" or chance.random() < 0.5 else "",
        f"pattern ({text})",
        f"define {', '.join(define)}" if define else "",
    ]
    statement = f"select * from S{window} match_recognize ({' '.join(filter(None, parts))})"
    return statement, Asked(tree, conditions, after, all_matches, size, count, by_key)


def told(asked: Asked, binding: Binding, partition: Sequence[Row]) -> dict[str, object]:
    """The measures of a match."""
    several = groups(asked.pattern)
    found: dict[str, object] = {}
    for name in symbols(asked.pattern):
        ids = [partition[at][1] for symbol, at in binding if symbol == name]
        if name in several:
            found |= {f"n{name}": len(ids), f"f{name}": ids[0] if ids else None, f"l{name}": ids[-1] if ids else None}
        else:
            found[f"i{name}"] = ids[-1] if ids else None
    return found


def _pattern(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.25:
        return chance.choice("ABC") + chance.choice(
            ("", "", "+", "*", "?", "+?", "*?", "??", "{2}", "{1,2}", "{,2}", "{2,}")
        )
    inner = [_pattern(chance, depth - 1) for _ in range(chance.choice((2, 2, 3)))]
    match chance.randint(0, 6):
        case 0:
            return f"({' | '.join(inner)})"
        case 1:
            return f"match_recognize_permute({', '.join(inner[:2])})"
        case 2:
            return f"({' '.join(inner)}){chance.choice(('', '+', '*', '?', '{2}'))}"
    return " ".join(inner)


def _condition(chance: random.Random, name: str, earlier: list[str], several: frozenset[str]) -> Condition:
    bound = chance.randint(1, 4)
    kind = chance.randint(0, 4)
    if kind == 0:
        return f"{name}.v >= {bound}", lambda rows, at, _: rows[at][2] >= bound
    if kind == 1:
        return f"{name}.v in ({bound}, 2)", lambda rows, at, _: rows[at][2] in (bound, 2)
    if kind == 2:
        back = chance.choice((1, 2))
        return f"{name}.v > prev({name}.v, {back})", lambda rows, at, _: at >= back and rows[at][2] > rows[at - back][2]
    if kind == 3 and earlier:
        other = chance.choice(earlier)
        column = f"{other}.lastOf().v" if other in several else f"{other}.v"

        def above(rows: Sequence[Row], at: int, binding: Binding) -> bool:
            ends = [place for symbol, place in binding if symbol == other]
            return bool(ends) and rows[at][2] >= rows[ends[-1]][2]

        return f"{name}.v >= {column}", above
    return f"{name}.v <= {bound}", lambda rows, at, _: rows[at][2] <= bound


def interval(chance: random.Random) -> str:
    """A statement with INTERVAL, for which there is no definition: all drives must agree."""
    statement, _ = rows(chance)
    how = f"interval {chance.choice((3, 5, 8))} milliseconds" + (" or terminated" if chance.random() < 0.5 else "")
    return statement.replace(" define ", f" {how} define ") if " define " in statement else f"{statement[:-1]} {how})"


def batch(chance: random.Random) -> str:
    """A statement over batches."""
    statement, _ = rows(chance)
    head, tail = statement.split(" match_recognize", 1)
    return f"{head.split('#')[0]}#length_batch({chance.randint(2, 5)}) match_recognize{tail}"


def temporal(chance: random.Random) -> str:
    """A statement of a pattern."""
    tags = iter("abcdefghijklmnopqrstuvwxyz")
    return f"select * from pattern [{_temporal(chance, 3, tags, [])}]"


def _temporal(chance: random.Random, depth: int, tags, known: list[str]) -> str:  # type: ignore[no-untyped-def]
    if depth == 0 or chance.random() < 0.25:
        tag = next(tags)
        condition = chance.choice(("", f"(v > {chance.randint(1, 3)})"))
        if known and chance.random() < 0.4:
            condition = f"({chance.choice(('k', 'v'))} = {chance.choice(known)}.{{}})".replace("{}", "k")
            condition = condition.replace("(v =", "(k =")
        return f"{tag}={chance.choice('AB')}{condition}"
    kind = chance.randint(0, 8)
    if kind <= 2:
        left = _temporal(chance, depth - 1, tags, known)
        mine = [
            *known,
            *(part[-1] for part in left.split("=")[:-1] if part[-1:].isalpha() and part[-2:-1] in ("", " ", "(")),
        ]
        return f"({left} -> {_temporal(chance, depth - 1, tags, mine)})"
    if kind <= 4:
        return f"every {_temporal(chance, depth - 1, tags, known)}"
    left = _temporal(chance, depth - 1, tags, known)
    if kind == 5:
        return f"({left} and {_temporal(chance, depth - 1, tags, known)})"
    if kind == 6:
        return f"({left} or {_temporal(chance, depth - 1, tags, known)})"
    if kind == 7:
        return f"({left} and not {next(tags)}={chance.choice('AB')}(v = {chance.randint(1, 4)}))"
    if chance.random() < 0.5:
        return f"(({left}) where timer:within({chance.choice((2, 5))} milliseconds))"
    return f"({left} -> timer:interval({chance.choice((2, 4))} milliseconds))"
