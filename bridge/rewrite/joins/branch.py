"""One branch of a correlation (O3): what arrives at one input, joined with the windows of the others."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import INSERTED, OUT, Flow, Selection, arrived_and_valid, not_later, valid
from bridge.rewrite.joins.equations import split
from bridge.rewrite.windows.row_count import oldest_seq
from windows.sql import (
    RELATION_ORDER_PREFIX,
    aliased,
    column_of,
    conjuncts,
    derived_table,
    number,
    parenthesized,
    qualify_columns,
)
from windows.times import NEVER

Outputs = dict[str, tuple[str, str]]
"""By their names, the columns given on: the part's alias and its column."""

Equation = tuple[exp.Expr, exp.Expr]
"""Two sides that are equal."""


class By(enum.Enum):
    """How the rows that an arrival meets are found."""

    TIME = enum.auto()
    STEPS = enum.auto()
    """Of time, and of the sides of the equations in the condition."""
    INDEX = enum.auto()
    """By time; of last rows those up to the oldest one, which an index finds."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One input under its alias in the statement; `flow` is None for a relation."""

    alias: str
    name: str
    source: Selection
    flow: Flow | None

    def rows(self, arriving: bool, sought: bool) -> Selection:
        """The arrivals or the window; where its last rows are `sought` by an index, all that is kept of it."""
        if self.flow is None or arriving or self.flow.content is None:
            return self.source
        content, last = self.flow.content, self.flow.last
        return dataclasses.replace(content, source=last.rows.source) if sought and last is not None else content

    def step(self, rows: Selection, alias: str | None) -> exp.Expr:
        """The number of the step of time that a row is of.

        Steps are at least as long as the part's window, and of few lengths, so that windows of like sizes make one family.
        """
        assert self.flow is not None and self.flow.size is not None
        length = 1 << (self.flow.size - 1).bit_length()
        return exp.IntDiv(this=qualify_columns(rows.columns["ts"].copy(), alias), expression=number(length))


@dataclasses.dataclass(frozen=True)
class Branch:
    """The combinations whose last part arrives at input number `arriving`.

    `wide`: the type in which sides of equations are computed, if there is one. `once`: whether other branches find what
    one event joins with itself, too, so that one of them has to leave it out.
    """

    node: query.Correlate
    parts: Sequence[Part]
    arriving: int
    outputs: Outputs
    by: By = By.TIME
    wide: str | None = None
    once: bool = True

    # What it consists of ----------------------------------------------------------------------------------------------

    @property
    def trigger(self) -> Part:
        """The part that arrives."""
        return self.parts[self.arriving]

    @functools.cached_property
    def asked(self) -> list[exp.Expr]:
        """The conditions that all must hold."""
        return [] if self.node.condition is None else conjuncts(self.node.condition)

    @functools.cached_property
    def rows(self) -> dict[str, Selection]:
        """By alias, what is joined."""
        return {part.alias: part.rows(part is self.trigger, part.alias in self._sought) for part in self.parts}

    @functools.cached_property
    def lasts(self) -> dict[str, list[Equation]]:
        """By alias, the parts whose last rows an index finds: keys of rows `o` and the columns that give them.

        Without such columns it is computed of all rows of a window which one pushes out which.
        """
        found = {}
        for part in self.parts:
            flow = part.flow
            if flow is None or part is self.trigger or not flow.is_last_rows or self._timed:
                continue
            assert flow.content is not None and flow.last is not None
            equal: dict[exp.Expr, exp.Expr] = {
                flow.content.columns[self.outputs[mine.name][1]]: its
                for mine, its in equal_columns(self.asked, self.outputs)
                if self.outputs[mine.name][0] == part.alias and mine.meta.get("type") == its.meta.get("type")
            }
            keys, kept = flow.last.keys, flow.last.rows
            if all(key in equal for key in keys):
                found[part.alias] = [(kept.value(key, "o"), equal[key]) for key in keys]
        return found

    @property
    def is_moved(self) -> bool:
        """Whether there are equations, and none with a column as a side: of many events databases join by those as they are."""
        found = [sides for sides in self._equations if sides is not None]
        return bool(found) and not any(isinstance(side, exp.Column) for sides in found for side in sides)

    @property
    def _timed(self) -> bool:
        return self.trigger.flow is not None and self.trigger.flow.timed

    @property
    def _sought(self) -> dict[str, list[Equation]]:
        return self.lasts if self.by is By.INDEX else {}

    @functools.cached_property
    def _other(self) -> Part | None:
        """The other one of two parts, where its window has one length: time in steps so long makes a join by equality."""
        other = next((part for part in self.parts if part is not self.trigger), None)
        if len(self.parts) != 2 or other is None or other.flow is None or other.flow.size in (None, NEVER):
            return None
        return other

    @functools.cached_property
    def _equations(self) -> list[Equation | None]:
        """Which of what is asked says that something of the trigger equals something of the other part, which has steps."""
        if self._other is None:
            return [None for _ in self.asked]
        return [split(part, lambda name: self.outputs[name][0], self.trigger.alias, self.wide) for part in self.asked]

    # The statement ----------------------------------------------------------------------------------------------------

    def select(self, shown: Outputs) -> exp.Select:
        """The combinations with the columns to be `shown`."""
        stepped = self._other if self.by is By.STEPS else None
        sides = self._equations if self.by is By.STEPS else [None for _ in self.asked]
        equations = [side for side in sides if side]
        trigger = self.trigger
        source = self.rows[trigger.alias].item(trigger.alias)
        if stepped is not None:
            source = _in_steps(trigger, stepped, [self._of_trigger(side) for side, _ in equations])
        select = exp.select().from_(source)
        for part in (part for part in self.parts if part is not trigger):
            on = self._on(part)
            if part is stepped:
                step = part.step(self.rows[part.alias], part.alias)
                on = [*_in_step(trigger, step, [replaced(side, self._value) for _, side in equations]), *on]
            item, kind = self.rows[part.alias].item(part.alias), "inner" if on else "cross"
            select = select.join(item, on=exp.and_(*on) if on else None, join_type=kind)
        conditions = [
            *self.rows[trigger.alias].conditions_of(trigger.alias),
            *(replaced(part, self._value) for part, side in zip(self.asked, sides, strict=True) if side is None),
            *(self._is_last(part) for part in self.parts if part.alias in self._sought),
        ]
        columns = [*self._own_columns(), *(aliased(self._value(name), name) for name in shown)]
        return select.select(*columns).where(*conditions)

    def _value(self, name: str) -> exp.Expr:
        """An output as a column of what is joined."""
        alias, attribute = self.outputs[name]
        return qualify_columns(self.rows[alias].columns[attribute].copy(), alias)

    def _of_trigger(self, side: exp.Expr) -> exp.Expr:
        return replaced(side, lambda name: self.trigger.source.columns[self.outputs[name][1]].copy())

    def _on(self, part: Part) -> list[exp.Expr]:
        """What the rows of another part have to be."""
        own = self.rows[part.alias].conditions_of(part.alias)
        return own if part.flow is None else [*self._seen(part, part.flow), *own]

    def _seen(self, part: Part, flow: Flow) -> list[exp.Expr]:
        """Whether the part's row is in its window as of the trigger; among parts of one event the left one is seen.

        A window that events change is seen as it was before the event, but where the event itself asks (`driving`): as it
        has changed it, before what it inserts. Of rows that an index finds it is asked elsewhere which are the last ones.
        """
        assert self.trigger.flow is not None
        timed, driven = flow.timed or self._timed, self.node.driving is not None
        if flow.late and not self.trigger.flow.late:
            asked = arrived_and_valid("w", "t", flow, timed)
            if driven:
                asked = [not_later("w", "t", (), timed), _not_inserted(timed), *valid("w", "t", flow, timed=timed)]
            return [self._bound(condition, part) for condition in asked]
        is_right = self.parts.index(part) > self.arriving and self.once and not driven
        strictly = is_right and not (self.trigger.flow.late and not flow.late)
        spared = _of_one_event(timed, "_place" in self.rows[part.alias].columns) if flow.order else None
        bounded = self.by is not By.STEPS
        inside = (
            [] if part.alias in self._sought else valid("w", "t", flow, timed=timed, bounded=bounded, spared=spared)
        )
        return [
            self._bound(condition, part) for condition in (not_later("w", "t", (), timed, strictly=strictly), *inside)
        ]

    def _is_last(self, part: Part) -> exp.Expr:
        """Whether a row is one of the last ones, the oldest of which an index finds."""
        assert part.flow is not None
        alike = [exp.EQ(this=key, expression=replaced(its, self._value)) for key, its in self._sought[part.alias]]
        at = qualify_columns(self.rows[self.trigger.alias].columns["seq"].copy(), self.trigger.alias)
        oldest = oldest_seq(part.flow, at, alike, inclusive=False)
        return exp.GTE(this=column_of(part.alias, "seq"), expression=oldest)

    def _bound(self, condition: exp.Expr, part: Part) -> exp.Expr:
        """The condition on `w` and `t` as one on the part's and the trigger's own columns."""
        alias = {"w": part.alias, "t": self.trigger.alias}

        def own(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column):
                name = alias[node.table]
                return qualify_columns(self.rows[name].columns[node.name].copy(), name)
            return node

        bound = condition.transform(own)
        assert isinstance(bound, exp.Expr)
        return bound

    def _own_columns(self) -> Iterator[exp.Expr]:
        """The bridge's own columns of a combination: its time and end, and what orders it among others."""

        def own(part: Part, name: str, called: str) -> exp.Expr:
            return aliased(qualify_columns(self.rows[part.alias].columns[name].copy(), part.alias), called)

        yield from (own(self.trigger, name, name) for name in ("ts", "seq"))
        yield aliased(earliest(self.parts, self.rows), "_expires")
        yield from (own(part, own_name, called) for part in self.parts for called, own_name in keys_of(part))
        yield from (own(part, own_name, called) for part in self.parts for called, own_name in values_of(part))


def keys_of(part: Part) -> list[tuple[str, str]]:
    """What tells the rows of a part's flow apart: how it is called among the columns of a combination, and in the part."""
    return [(f"_{part.alias}_{key}", key) for key in part.flow.key] if part.flow else []


def values_of(part: Part) -> list[tuple[str, str]]:
    """The columns of a relation, which order its rows, likewise."""
    return [] if part.flow else [(f"{RELATION_ORDER_PREFIX}{part.alias}_{name}", name) for name in part.source.columns]


def equal_columns(asked: Sequence[exp.Expr], outputs: Outputs) -> Iterator[tuple[exp.Column, exp.Column]]:
    """The columns of two parts that have to be equal, either one first."""
    for condition in asked:
        sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
        found = [side for side in sides if isinstance(side, exp.Column)]
        if len({outputs[side.name][0] for side in found}) == 2:
            yield found[0], found[1]
            yield found[1], found[0]


def earliest(parts: Sequence[Part], rows: dict[str, Selection]) -> exp.Expr:
    """W5: a combination is valid until the first of its parts expires."""
    times = [
        qualify_columns(rows[part.alias].columns["_expires"].copy(), part.alias)
        for part in parts
        if part.flow is not None
    ]
    times = [time for time in times if time.sql() != number(NEVER).sql()]
    if not times:
        return number(NEVER)
    return times[0] if len(times) == 1 else exp.Least(this=times[0], expressions=times[1:])


def replaced(condition: exp.Expr, value: Callable[[str], exp.Expr]) -> exp.Expr:
    """The condition with the value of each column in its place."""

    def own(node: exp.Expr) -> exp.Expr:
        return parenthesized(value(node.name)) if isinstance(node, exp.Column) else node

    found = condition.transform(own)
    assert isinstance(found, exp.Expr)
    return found


def _not_inserted(timed: bool) -> exp.Expr:
    """Whether a row is not one that the event inserts."""
    changed = exp.LT(this=column_of("w", "_place"), expression=number(INSERTED))
    return exp.or_(changed, exp.not_(_of_one_event(timed, placed=False)))


def _of_one_event(timed: bool, placed: bool) -> exp.Expr:
    """Rows of one event all take part in its combinations, also where one of them pushes another out.

    Not one that falls out as it comes (W9): that one meets others where it arrives, as the trigger.
    """
    names = ("ts", "seq") if timed else ("seq",)
    together: list[exp.Expr] = [exp.EQ(this=column_of("w", name), expression=column_of("t", name)) for name in names]
    if placed:
        own = zip(("seq", "_place"), OUT[1:], strict=True)
        together.append(exp.not_(exp.and_(*(column_of("w", mine).eq(column_of("w", out)) for mine, out in own))))
    return exp.and_(*together)


def _in_steps(trigger: Part, other: Part, sides: Sequence[exp.Expr]) -> exp.Expr:
    """The arrivals, once in the step of time they are of and once in the one before: the window has no older rows.

    A union, as an optimizer would take a join with the two steps apart and compare every pair of rows. The trigger's
    sides of equations stand in it, too, so that the other rows are found by them.
    """
    own = other.step(trigger.source, None)
    both = [own, exp.Sub(this=own.copy(), expression=number(1))]
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("s", quoted=True))
    equal = [aliased(side, f"_side{place}") for place, side in enumerate(sides)]
    selects = [
        exp.select(every, aliased(step, "_step"), *(side.copy() for side in equal)).from_(trigger.source.item("s"))
        for step in both
    ]
    return derived_table(exp.union(*selects, distinct=False), trigger.alias)


def _in_step(trigger: Part, step: exp.Expr, sides: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The equations by which the rows of a step are found."""
    equal = [
        exp.EQ(this=column_of(trigger.alias, f"_side{place}"), expression=side) for place, side in enumerate(sides)
    ]
    return [exp.EQ(this=column_of(trigger.alias, "_step"), expression=step), *equal]
