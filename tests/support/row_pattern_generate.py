"""Random MATCH_RECOGNIZE clauses over random small tables; the same seed, the same example.

generate(7)                     any clause
generate(7, grades=("row",))    only conditions of these grades (see GRADES)
shrink(example, fails)          a smaller example that still fails

sorted(example.grades)          what its conditions read
example.text, example.clause    `MATCH_RECOGNIZE (...)` as text and as the object it is read into
example.columns, example.rows   the table
example.expected()              by tests/row_patterns.py; raises NowhereError where the query has to fail
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from sqlglot import exp

from bridge.query.row_pattern import PAST_LAST_ROW, PerMatch, RowPattern, Skip
from nfa.pattern import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Symbol,
    parts,
    symbols,
    walk,
)
from tests.support.row_patterns import Result, expression, recognize

COLUMNS = {"p": "INTEGER", "t": "INTEGER", "u": "INTEGER", "x": "INTEGER", "y": "INTEGER", "k": "VARCHAR"}
"""p partitions and may be NULL; (t, u) orders, t with ties; x may be NULL, y not; k is a letter or NULL."""

GRADES = {
    "row": (
        "x > {n}", "{v}.x >= {n}", "x < {n}", "x <> {n}", "k = '{k}'", "k <> '{k}'", "{v}.k IN ('a', '{k}')",
        "x IS NULL", "{v}.x IS NOT NULL", "x BETWEEN 1 AND {n}", "y - x > {n} OR k = '{k}'", "NOT x = y",
        "x > PREV(x)", "{v}.x < PREV({v}.x)", "x <= NEXT(x)", "x = PREV(x, 2)", "PREV(x) IS NULL OR x > PREV(x)",
        "x + y > NEXT(x + y, 1)", "CASE WHEN x > {n} THEN y ELSE x END > 1", "COALESCE(x, 2) > ABS(y - 2)",
        "k LIKE '{k}%'", "PREV(k) || k = 'ab'", "6 / x > 2", "x > PREV(LAST(x))", "x > LAST(x, 0)  OR y = {n}",
    ),
    "first": (
        "x > FIRST(x)", "x >= FIRST({w}.x)", "x < {w}.x", "x - FIRST(x) < {n}", "{v}.x <> FIRST({w}.x) OR y > {n}",
        "t - FIRST(t) < {n} + 1", "x > PREV(FIRST(x))", "k = FIRST(k)", "x > NEXT(FIRST({w}.x), 1)",
    ),
    "register": (
        "x > LAST({w}.x)", "x > {w}.x", "{v}.x > LAST({v}.x, 1)", "x >= PREV({w}.x)", "x < LAST({w}.x, 1)",
        "x > FIRST({w}.x, 1) OR x IS NULL", "SUM({w}.x) < {n} + 4", "SUM(x) <= {n} + 5", "COUNT(*) <= {n} + 1",
        "COUNT({w}.*) < {n}", "COUNT({v}.x) < 3", "AVG({w}.x) >= x", "MIN({w}.x) < x", "MAX(x) > {n}",
        "COUNT(DISTINCT x) = COUNT(x)", "x > PREV(LAST({w}.x), 1)", "COALESCE(LAST({w}.x), 0) < x",
        "SUM(DISTINCT {w}.y) < {n} + 3", "SUM({w}.x + {w}.y) > {n}", "x > NEXT(LAST({w}.x), 2)", "{s}.x < x",
        "SUM({s}.x) < {n} + 4",
    ),
    "number": ("MATCH_NUMBER() = 1 OR x > {n}", "x >= MATCH_NUMBER()", "MATCH_NUMBER() < {n}"),
    "classifier": (
        "LAST(CLASSIFIER(), 1) = '{w}'", "CLASSIFIER({s}) = '{w}' OR x > 1", "PREV(CLASSIFIER()) IS NULL OR y > {n}",
        "COUNT(CLASSIFIER({s})) < 3", "FIRST(CLASSIFIER()) = '{w}'", "CLASSIFIER() <> 'A' OR x > {n}",
    ),
}  # fmt: skip
"""Shapes of conditions, by what they read: v is the variable defined, w any, s a subset or any, n a number."""

MEASURES = (
    "x", "{w}.x", "FIRST(x)", "LAST(x)", "FIRST({w}.x)", "LAST({w}.x)", "FIRST({w}.x, 1)", "LAST({w}.y, 1)",
    "FINAL(LAST({w}.x))", "RUNNING(LAST({w}.x))", "FINAL(FIRST({s}.y, 1))", "FINAL(LAST(x, 1))", "PREV(x)", "NEXT(x)",
    "PREV({w}.x, 2)", "NEXT({w}.y)", "PREV(FIRST({w}.x), 1)", "NEXT(LAST({w}.x, 1), 2)", "PREV(FINAL(LAST(x)), 1)",
    "NEXT(FINAL(LAST({w}.y)))", "CLASSIFIER()", "CLASSIFIER({s})", "FINAL(LAST(CLASSIFIER()))", "FIRST(CLASSIFIER())",
    "FINAL(LAST(CLASSIFIER({s})))", "PREV(CLASSIFIER())", "MATCH_NUMBER()", "COUNT(*)", "COUNT({w}.*)", "COUNT({w}.x)",
    "FINAL(COUNT(*))", "FINAL(COUNT({w}.*))", "SUM({w}.x)", "SUM(y)", "FINAL(SUM({s}.x))", "AVG({w}.y)", "MIN({w}.x)",
    "MAX({s}.k)", "RUNNING(MAX(x))", "COUNT(DISTINCT {w}.x)", "SUM(DISTINCT x)", "SUM({w}.x * 2 + {w}.y)",
    "{s}.x", "{s}.x - FIRST({w}.x)", "LAST({w}.x) - FIRST({w}.x)", "COALESCE({w}.x, -1)", "{w}.k || LAST(k)",
    "CASE WHEN {w}.x > 1 THEN 'more' ELSE 'less' END", "{w}.x IS NULL", "SUM(x) / COUNT(*)", "COUNT(CLASSIFIER({s}))",
    "MAX(t) - MIN(t)", "ABS({w}.x - {s}.y)", "MATCH_NUMBER() * 100 + COUNT(*)",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Example:
    """A clause over a table; `grades` tell what its conditions read."""

    clause: RowPattern
    rows: tuple[tuple[Any, ...], ...]
    grades: frozenset[str] = frozenset()
    columns = COLUMNS

    @property
    def text(self) -> str:
        return written(self.clause)

    def expected(self) -> Result:
        return recognize(self.clause, [dict(zip(COLUMNS, row, strict=True)) for row in self.rows], list(COLUMNS))

    def __str__(self) -> str:
        return "\n".join([self.text, "", " ".join(COLUMNS), *(" ".join(map(str, row)) for row in self.rows)])


def generate(seed: int, grades: Sequence[str] = tuple(GRADES), pattern: Pattern | None = None) -> Example:
    """The example of this seed, its conditions of these grades only."""
    return _Maker(Random(f"{seed}/{grades}/{pattern}"), grades, pattern).example()


# Patterns -------------------------------------------------------------------------------------------------------------

BOUNDS = ((0, None), (1, None), (0, 1), (2, 2), (0, 2), (1, 3), (2, None))


def random_pattern(rng: Random, names: Sequence[str] = "ABCD", depth: int = 3, exclusion: bool = True) -> Pattern:
    """A pattern of every kind of node, mostly short."""
    if depth == 0 or rng.random() < 0.25:
        return _leaf(rng, names)
    inner = [random_pattern(rng, names, depth - 1, exclusion) for _ in range(rng.choice([2, 2, 3]))]
    kind = rng.choices(["sequence", "either", "repeat", "permute", "exclude"], [40, 18, 34, 4, 6])[0]
    match kind:
        case "either":
            return Alternation(tuple(inner))
        case "repeat":
            return _repeated(rng, inner[0])
        case "permute":
            return Permutation(tuple(inner))
        case "exclude" if exclusion and not any(isinstance(node, Exclusion) for node in walk(inner[0])):
            return Exclusion(inner[0])
    return Concatenation(tuple(inner))


def _repeated(rng: Random, part: Pattern) -> Pattern:
    least, most = rng.choice(BOUNDS)
    return Quantified(part, least, most, greedy=rng.random() < 0.7)


def _leaf(rng: Random, names: Sequence[str]) -> Pattern:
    name = Symbol(rng.choice(names))
    kind = rng.choices(["symbol", "repeat", "anchor", "empty"], [60, 34, 3, 3])[0]
    match kind:
        case "repeat":
            return _repeated(rng, name)
        case "anchor":
            return Anchor(rng.choice("^$"))
    return Empty() if kind == "empty" else name


# Clauses --------------------------------------------------------------------------------------------------------------


class _Maker:
    """Makes one example, every choice drawn from `rng`."""

    def __init__(self, rng: Random, grades: Sequence[str], pattern: Pattern | None) -> None:
        self.rng = rng
        self.grades = grades
        self.used: set[str] = set()
        self.pattern = pattern or random_pattern(rng, "ABCD"[: rng.choice([1, 2, 3, 3, 4])], rng.choice([1, 2, 3, 3]))
        self.names = symbols(self.pattern)
        self.subsets = self._subsets()

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def example(self) -> Example:
        clause = RowPattern(
            pattern=self.pattern,
            define=self._define(),
            measures=self._measures(),
            partition_by=(exp.column("p"),) if self.chance(0.6) else (),
            order_by=self._order(),
            per_match=self._per_match(),
            skip=self._skip(),
            within=self.rng.randint(1, 5) if self.chance(0.2) else None,
            subsets=self.subsets,
        )
        if clause.within is not None:
            clause = dataclasses.replace(clause, order_by=(_order("t"), _order("u")))
        return Example(clause, self._rows(), frozenset(self.used))

    def _subsets(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if len(self.names) < 2 or self.chance(0.6):
            return ()
        members = self.rng.sample(self.names, self.rng.randint(1, len(self.names)))
        return (("S", tuple(members)),)

    def _filled(self, shape: str, variable: str = "") -> exp.Expr:
        any_of = [*self.names, *(name for name, _ in self.subsets)]
        words = {
            "v": variable,
            "w": self.rng.choice(self.names),
            "s": any_of[-1] if self.chance(0.5) else self.rng.choice(any_of),
            "n": self.rng.randint(0, 4),
            "k": self.rng.choice("abc"),
        }
        return expression(shape.format(**words))

    def _define(self) -> tuple[tuple[str, exp.Expr], ...]:
        defined = [name for name in self.names if self.chance(0.85)]
        self.rng.shuffle(defined)
        return tuple((name, self._condition(name)) for name in defined)

    def _condition(self, name: str) -> exp.Expr:
        made = self._one_condition(name)
        if not self.chance(0.2):
            return made
        other = self._one_condition(name)
        return exp.and_(made, other) if self.chance(0.4) else exp.or_(made, other)

    def _one_condition(self, name: str) -> exp.Expr:
        grade = self.rng.choice(self.grades)
        self.used.add(grade)
        return self._filled(self.rng.choice(GRADES[grade]), name)

    def _measures(self) -> tuple[exp.Alias, ...]:
        usable = [shape for shape in MEASURES if self.names or not set(shape) & set("{}")]
        shapes = self.rng.sample(usable, self.rng.randint(1, 5))
        return tuple(named(self._filled_or_plain(shape), f"m{n}") for n, shape in enumerate(shapes, 1))

    def _filled_or_plain(self, shape: str) -> exp.Expr:
        return self._filled(shape) if self.names else expression(shape)

    def _order(self) -> tuple[exp.Ordered, ...]:
        if self.chance(0.8):
            return _order("t"), _order("u")
        return _order("t", desc=self.chance(0.5)), _order("u", desc=self.chance(0.5))

    def _per_match(self) -> PerMatch:
        excluding = any(isinstance(node, Exclusion) for node in walk(self.pattern))
        modes = [mode for mode in PerMatch if not (excluding and mode is PerMatch.WITH_UNMATCHED)]
        return self.rng.choice(modes if not excluding else modes[1:])

    def _skip(self) -> Skip:
        targets = [*self.names, *(name for name, _ in self.subsets)]
        to = self.rng.choice(["", "", "TO NEXT ROW", "TO NEXT ROW", "TO FIRST", "TO LAST"][: 6 if targets else 4])
        return (
            Skip(to, self.rng.choice(targets)) if to in ("TO FIRST", "TO LAST") else Skip(to) if to else PAST_LAST_ROW
        )

    def _rows(self) -> tuple[tuple[Any, ...], ...]:
        partitions = self.rng.choice([[1], [1, 2], [1, 2, None]])
        rows = [row for key in partitions for row in self._partition(key)]
        self.rng.shuffle(rows)
        return tuple(rows)

    def _partition(self, key: int | None) -> Iterator[tuple[Any, ...]]:
        time = self.rng.randint(0, 3)
        for place in range(self.rng.choice([0, 1, 3, 5, 6, 7])):
            time += self.rng.choice([0, 1, 1, 1, 2])
            x, k = self.rng.choice([None, 0, 1, 1, 2, 2, 3, 4]), self.rng.choice([None, "a", "a", "b", "b", "c", "ab"])
            # u is unique in the whole table, so that the order stands without partitions as well
            yield key, time, 10 * (key or 0) + place, x, self.rng.randint(0, 4), k


def named(tree: exp.Expr, name: str) -> exp.Alias:
    """A measure."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name))


def _order(name: str, desc: bool = False) -> exp.Ordered:
    return exp.Ordered(this=exp.column(name), desc=desc, nulls_first=not desc)


# Text -----------------------------------------------------------------------------------------------------------------


_WORDS = ("RUNNING", "FINAL")


def _sql(tree: exp.Expr) -> str:
    """sqlglot's own SQL, with RUNNING and FINAL as the words they are."""
    if isinstance(tree, exp.Anonymous) and tree.name in _WORDS:
        return f"{tree.name} {_sql(tree.expressions[0])}"
    tree, texts = tree.copy(), dict[str, str]()
    while call := next((call for call in tree.find_all(exp.Anonymous) if call.name in _WORDS), None):
        mark = f"mark_{len(texts)}_"
        texts[mark] = _sql(call)
        call.replace(exp.column(mark))
    text = tree.sql()
    for mark, words in texts.items():
        text = text.replace(mark, words)
    return text


def written(clause: RowPattern) -> str:
    """The clause as text.

    >>> from nfa import parse_pattern
    >>> x = expression("x > PREV(x)")
    >>> print(written(RowPattern(parse_pattern("A B+"), (("B", x),), (named(expression("FINAL(LAST(B.x))"), "m"),))))
    MATCH_RECOGNIZE (
      MEASURES FINAL LAST(B.x) AS m
      ONE ROW PER MATCH
      AFTER MATCH SKIP PAST LAST ROW
      PATTERN (A B+)
      DEFINE B AS x > PREV(x)
    )
    """
    skip = " ".join(word for word in clause.skip if word)
    lines = [
        _listed("PARTITION BY", map(_sql, clause.partition_by)),
        _listed("ORDER BY", (_sql(item.this) + (" DESC" if item.args.get("desc") else "") for item in clause.order_by)),
        _listed("MEASURES", map(_sql, clause.measures)),
        clause.per_match.value,
        f"AFTER MATCH SKIP {skip}",
        f"PATTERN ({clause.pattern})" + (f" WITHIN {clause.within} MS" if clause.within is not None else ""),
        _listed("SUBSET", (f"{name} = ({', '.join(members)})" for name, members in clause.subsets)),
        _listed("DEFINE", (f"{name} AS {_sql(condition)}" for name, condition in clause.define)),
    ]
    return "MATCH_RECOGNIZE (\n" + "".join(f"  {line}\n" for line in lines if line) + ")"


def _listed(word: str, items: Any) -> str:
    joined = ", ".join(items)
    return f"{word} {joined}" if joined else ""


# Shrinking ------------------------------------------------------------------------------------------------------------


def shrink(example: Example, fails: Callable[[Example], bool]) -> Example:
    """The smallest example in reach that still fails, one change at a time."""
    while smaller := next((one for one in _smaller(example) if fails(one)), None):
        example = smaller
    return example


def _smaller(example: Example) -> Iterator[Example]:
    rows, clause = example.rows, example.clause
    for size in (len(rows) // 2, 1):
        for at in range(0, len(rows) if size else 0, size or 1):
            yield dataclasses.replace(example, rows=rows[:at] + rows[at + size :])
    for simpler in _simpler(clause):
        yield dataclasses.replace(example, clause=simpler)


def _simpler(clause: RowPattern) -> Iterator[RowPattern]:
    plain: dict[str, Any] = {"skip": PAST_LAST_ROW, "within": None, "partition_by": (), "per_match": PerMatch.ONE_ROW}
    for name, default in plain.items():
        if getattr(clause, name) != default:
            yield dataclasses.replace(clause, **{name: default})
    constant = (named(expression("MATCH_NUMBER()"), "m1"),)  # a row without columns would be no row
    if len(clause.measures) == 1 and clause.measures != constant:
        yield dataclasses.replace(clause, measures=constant)
    for name in ("define", "measures"):
        listed: tuple[Any, ...] = getattr(clause, name)
        for at in range(len(listed)):
            if name == "measures" and len(listed) == 1:
                continue
            fewer: dict[str, Any] = {name: listed[:at] + listed[at + 1 :]}
            yield dataclasses.replace(clause, **fewer)
    for pattern in _simpler_patterns(clause.pattern):
        if symbols(pattern) == symbols(clause.pattern) or _is_free(clause, pattern):
            kept = tuple(one for one in clause.define if one[0] in symbols(pattern))
            yield dataclasses.replace(clause, pattern=pattern, define=kept)


def _is_free(clause: RowPattern, pattern: Pattern) -> bool:
    """Whether nothing outside the pattern names what it has lost."""
    lost = set(symbols(clause.pattern)) - set(symbols(pattern))
    trees = [*clause.measures, *(tree for name, tree in clause.define if name not in lost)]
    named = {column.table or column.name for tree in trees for column in tree.find_all(exp.Column)}
    in_subsets = {member for _, members in clause.subsets for member in members}
    return not lost & (named | in_subsets | {clause.skip.variable or ""})


def _simpler_patterns(tree: Pattern) -> Iterator[Pattern]:
    inner = parts(tree)
    yield from inner
    for at, part in enumerate(inner):
        if isinstance(tree, Concatenation | Alternation | Permutation):
            rest = inner[:at] + inner[at + 1 :]
            yield type(tree)(rest) if len(rest) > 1 else rest[0]
        for simpler in _simpler_patterns(part):
            yield _with(tree, at, simpler)


def _with(tree: Pattern, at: int, part: Pattern) -> Pattern:
    """The pattern with another part in one place."""
    if isinstance(tree, Quantified | Exclusion):
        return dataclasses.replace(tree, part=part)
    assert isinstance(tree, Concatenation | Alternation | Permutation)
    return type(tree)((*tree.parts[:at], part, *tree.parts[at + 1 :]))
