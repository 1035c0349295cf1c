"""Random patterns of EPL with all operators, as Esper reads them: what binds is written in parentheses."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

STEP = 1000
"""Milliseconds: all times are whole numbers of it."""


@dataclasses.dataclass(frozen=True)
class Made:
    """A pattern, the tags that are one event afterwards, and those that are several."""

    text: str
    single: tuple[str, ...] = ()
    several: tuple[str, ...] = ()

    @property
    def columns(self) -> list[tuple[str, str]]:
        """What can be selected, and its name."""
        found = [(f"{tag}.id", tag) for tag in self.single]
        for tag in self.several:
            found += [(f"{tag}[0].id", f"{tag}0"), (f"{tag}.lastOf().id", f"{tag}l"), (f"{tag}.countOf()", f"{tag}n")]
        return found


def statement(chance: random.Random) -> tuple[str, list[str]]:
    """A statement, and the names of its columns."""
    maker = _Maker(chance)
    made = maker.made(3, Made(""))
    while not made.columns:
        made = maker.made(3, Made(""))
    columns = ", ".join(f"{value} as {name}" for value, name in made.columns)
    return f"select {columns} from pattern [{made.text}]", [name for _, name in made.columns]


class _Maker:
    """Makes one pattern; every tag is a name of its own."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.tags: Iterator[str] = (f"{letter}{number}" for number in range(100) for letter in "abcdefgh")
        self.everies = 0

    def made(self, depth: int, known: Made) -> Made:
        """A part; `known` are the tags that filters may name."""
        kinds = (
            [self.event]
            if depth == 0
            else [
                self.event, self.every, self.every, self.then, self.then, self.then, self.both, self.either, self.absent,
                self.guard, self.condition, self.distinct, self.exactly, self.until, self.until, self.timer, self.calendar,
            ]
        )  # fmt: skip
        return self.chance.choice(kinds)(depth, known)

    def event(self, depth: int, known: Made) -> Made:
        tag, stream = next(self.tags), self.chance.choice("AAB")
        conditions = [f"v {self.chance.choice(('>=', '<='))} {self.chance.randint(1, 4)}"]
        if known.single and self.chance.random() < 0.4:
            conditions.append(f"k = {self.chance.choice(known.single)}.k")
        elif known.several and self.chance.random() < 0.4:
            end = self.chance.choice(("[0]", ".lastOf()"))
            conditions.append(f"v != {self.chance.choice(known.several)}{end}.v")
        return Made(f"{tag}={stream}({', '.join(conditions)})", (tag,))

    def time(self) -> str:
        return f"{self.chance.randint(1, 6) * STEP} milliseconds"

    def every(self, depth: int, known: Made) -> Made:
        if self.everies == 2:
            return self.event(depth, known)
        self.everies += 1
        made = self.made(depth - 1, known)
        self.everies -= 1
        return dataclasses.replace(made, text=f"every ({made.text})")

    def then(self, depth: int, known: Made) -> Made:
        left = self.made(depth - 1, known)
        right = self.made(depth - 1, _and(known, left))
        arrow = "->" if self.chance.random() < 0.8 else f"-[{self.chance.randint(1, 2)}]>"
        return _and(left, right, f"({left.text} {arrow} {right.text})")

    def both(self, depth: int, known: Made) -> Made:
        left, right = self.made(depth - 1, known), self.made(depth - 1, known)
        return _and(left, right, f"({left.text} and {right.text})")

    def either(self, depth: int, known: Made) -> Made:
        left, right = self.made(depth - 1, known), self.made(depth - 1, known)
        return _and(left, right, f"({left.text} or {right.text})")

    def absent(self, depth: int, known: Made) -> Made:
        left = self.made(depth - 1, known)
        right = self.made(self.chance.choice((0, 0, 1)), known)
        return dataclasses.replace(left, text=f"({left.text} and not ({right.text}))")

    def guard(self, depth: int, known: Made) -> Made:
        made = self.made(depth - 1, known)
        most = f"max({self.time()}, {self.chance.randint(1, 2)})" if self.chance.random() < 0.3 else f"({self.time()})"
        return dataclasses.replace(made, text=f"(({made.text}) where timer:within{most})")

    def condition(self, depth: int, known: Made) -> Made:
        made = self.made(depth - 1, known)
        if not made.single:
            return made
        condition = f"{made.single[0]}.v >= {self.chance.randint(1, 4)}"
        return dataclasses.replace(made, text=f"(({made.text}) while ({condition}))")

    def distinct(self, depth: int, known: Made) -> Made:
        made = self.made(depth - 1, known)
        if not made.single:
            return made
        keys = [f"{made.single[0]}.{self.chance.choice('vk')}", *([self.time()] if self.chance.random() < 0.4 else [])]
        return dataclasses.replace(made, text=f"every-distinct({', '.join(keys)}) ({made.text})")

    def exactly(self, depth: int, known: Made) -> Made:
        made = self.made(depth - 1, known)
        text = f"[{self.chance.randint(1, 3)}] ({made.text})"
        return Made(f"({text})", (), (*made.single, *made.several))

    def until(self, depth: int, known: Made) -> Made:
        made, end = self.made(depth - 1, known), self.made(self.chance.choice((0, 0, 1)), known)
        low = self.chance.randint(1, 2)
        bounds = self.chance.choice(("", "", f"[{low}:]", f"[:{low}]", f"[{low}:{low + 1}]", f"[{low}]"))
        text = f"({bounds} ({made.text}) until ({end.text}))"
        return Made(text, end.single, (*made.single, *made.several, *end.several))

    def timer(self, depth: int, known: Made) -> Made:
        made = self.made(depth - 1, known)
        form = self.chance.choice(
            ("({0} -> timer:interval({1}))", "(timer:interval({1}) -> {0})", "(timer:interval({1}) and not ({0}))")
        )
        return dataclasses.replace(made if "not" not in form else Made(""), text=form.format(made.text, self.time()))

    def calendar(self, depth: int, known: Made) -> Made:
        made = self.made(depth - 1, known)
        form = self.chance.choice(("({0} -> {1})", "({1} -> {0})"))
        second = self.chance.choice(("*/2", "[1, 3:4]", "5", "*"))
        at = f"timer:at(*, *, *, *, *, {second})"
        dates = (
            f"timer:schedule(iso: 'R3/1970-01-01T00:00:0{self.chance.randint(0, 4)}Z/PT{self.chance.randint(1, 3)}S')"
        )
        timer = self.chance.choice((at, f"every {dates}"))
        return dataclasses.replace(made, text=form.format(made.text, timer))


def _and(left: Made, right: Made, text: str = "") -> Made:
    return Made(text, (*left.single, *right.single), (*left.several, *right.several))
