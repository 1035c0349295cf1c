"""One branch of a correlation (O3): the arrivals at one input, joined with the windows of the others."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from bridge import query
from bridge.query.epl_state import OnSelect
from bridge.rewrite.flow import INSERTED, OUT, Flow, Selection, arrived_and_valid, not_later, valid
from bridge.rewrite.joins.equations import split
from bridge.rewrite.windows.row_count import oldest_seq, stored_rows
from windows.sql import (
    RELATION_ORDER_PREFIX,
    aliased,
    column_of,
    conjuncts,
    derived_table,
    identifier,
    number,
    parenthesized,
    qualify_columns,
)
from windows.times import NEVER

Outputs = dict[str, tuple[str, str]]
"""The output columns by name: the alias of their input in the statement, and the input's column."""

Equation = tuple[exp.Expr, exp.Expr]
"""The two sides of an equation."""


class SearchBy(enum.Enum):
    """How the rows that join an arrival are found."""

    TIME = enum.auto()
    """By their timestamps."""
    STEPS = enum.auto()
    """By equal steps of time, and by the equations in the condition."""
    PAIRS = enum.auto()
    """By steps, both rows before an arrival and rows after it, so that one branch finds all results of a history."""
    INDEX = enum.auto()
    """By their timestamps; in a window of last rows an index finds the oldest row."""


@dataclasses.dataclass(frozen=True)
class JoinInput:
    """An input of a correlation: its alias in the statement, and its name in the query. A relation has no `flow`."""

    alias: str
    name: str
    source: Selection
    flow: Flow | None

    def window(self, by_index: bool) -> Selection:
        """The window's rows; all stored rows if an index finds the last of them."""
        if self.flow is None or self.flow.content is None:
            return self.source
        content, last = self.flow.content, self.flow.last
        return stored_rows(content, last) if by_index and last is not None else content

    @property
    def size(self) -> int | None:
        """How long each row is in the window, in milliseconds; None if the time differs, or is unlimited."""
        return None if self.flow is None or self.flow.size == NEVER else self.flow.size


@dataclasses.dataclass(frozen=True)
class Branch:
    """The results whose last row arrives at one input.

    Args:
        inputs: all inputs of the correlation.
        arriving: the place of the input at which rows arrive.
        outputs: the output columns.
        by: how the rows of the other inputs are found.
        wide_integer: the type in which the sides of equations are computed; None: they are not rewritten.
        shares_event: whether other branches also find the results that join an event with itself; one must omit them.
    """

    node: query.Correlate
    inputs: Sequence[JoinInput]
    arriving: int
    outputs: Outputs
    by: SearchBy = SearchBy.TIME
    wide_integer: str | None = None
    shares_event: bool = True

    # The inputs and conditions ------------------------------------------------------------------------------------------

    @property
    def trigger(self) -> JoinInput:
        """The input at which rows arrive."""
        return self.inputs[self.arriving]

    @functools.cached_property
    def conditions(self) -> list[exp.Expr]:
        """The conditions of the correlation, all of which must hold."""
        return [] if self.node.condition is None else conjuncts(self.node.condition)

    @functools.cached_property
    def rows(self) -> dict[str, Selection]:
        """The rows to join, by the alias of their input."""
        trigger, found = self.trigger, self._found_by_index
        windows = {each.alias: each.window(each.alias in found) for each in self.inputs if each is not trigger}
        return {**windows, trigger.alias: trigger.source}

    @functools.cached_property
    def indexed_inputs(self) -> dict[str, list[Equation]]:
        """The inputs whose last rows an index finds, by alias: keys of their rows `o`, and the columns equal to these.

        If the keys of a window per key do not equal columns, window functions over all rows tell which row evicts
        which.
        """
        found = {}
        for each in self.inputs:
            flow = each.flow
            if flow is None or each is self.trigger or not flow.is_last_rows or self._timed:
                continue
            assert flow.content is not None and flow.last is not None
            equal: dict[exp.Expr, exp.Expr] = {
                flow.content.columns[self.outputs[mine.name][1]]: its
                for mine, its in equal_columns(self.conditions, self.outputs)
                if self.outputs[mine.name][0] == each.alias and mine.meta_get("type") == its.meta_get("type")
            }
            keys, kept = flow.last.keys, flow.last.rows
            if all(key in equal for key in keys):
                found[each.alias] = [(kept.value(key, "o"), equal[key]) for key in keys]
        return found

    @property
    def has_computed_equations(self) -> bool:
        """Whether there are equations, and no side is a plain column; by plain columns databases join anyway."""
        found = [sides for sides in self._equations if sides is not None]
        return bool(found) and not any(isinstance(side, exp.Column) for sides in found for side in sides)

    @property
    def has_pairs(self) -> bool:
        """Whether the results are the pairs of rows of two windows whose times are close enough."""
        flows = [each.flow for each in self.inputs if each.flow is not None and each.size is not None]
        may_leave = any(flow.counted or flow.timed or flow.late or flow.jumping or flow.order for flow in flows)
        return len(flows) == len(self.inputs) == 2 and not (may_leave or self.node.outer or self.node.driving)

    @property
    def _timed(self) -> bool:
        return self.trigger.flow is not None and self.trigger.flow.timed

    @property
    def _found_by_index(self) -> dict[str, list[Equation]]:
        return self.indexed_inputs if self.by is SearchBy.INDEX else {}

    @functools.cached_property
    def _stepped_input(self) -> JoinInput | None:
        """The other of two inputs, if its rows stay equally long: steps of that length allow a join by equality."""
        other = next((each for each in self.inputs if each is not self.trigger), None)
        return None if len(self.inputs) != 2 or other is None or other.size is None else other

    def _step(self, rows: Selection, alias: str | None) -> exp.Expr:
        """The number of a row's step of time.

        A step is at least as long as the window. Its length is a power of 2, so that windows of similar sizes make one
        query family.
        """
        sizes = [each.size or 1 for each in self.inputs if each is not self.trigger or self.by is SearchBy.PAIRS]
        length = 1 << (max(sizes) - 1).bit_length()
        return exp.IntDiv(this=qualify_columns(rows.columns["ts"].copy(), alias), expression=number(length))

    @functools.cached_property
    def _equations(self) -> list[Equation | None]:
        """The sides of each condition that equates values of the trigger and of the stepped input; None for others."""
        if self._stepped_input is None:
            return [None for _ in self.conditions]
        return [
            split(condition, lambda name: self.outputs[name][0], self.trigger.alias, self.wide_integer)
            for condition in self.conditions
        ]

    @property
    def _is_stepped(self) -> bool:
        return self.by in (SearchBy.STEPS, SearchBy.PAIRS)

    # The statement ----------------------------------------------------------------------------------------------------

    def select(self, columns: Outputs) -> exp.Select:
        """The results, with these output columns."""
        stepped = self._stepped_input if self._is_stepped else None
        sides = self._equations if self._is_stepped else [None for _ in self.conditions]
        equations = [side for side in sides if side]
        trigger = self.trigger
        source = self.rows[trigger.alias].item(trigger.alias)
        if stepped is not None:
            source = self._in_steps([self._of_trigger(side) for side, _ in equations])
        select = exp.select().from_(source)
        others = [each for each in self.inputs if each is not trigger]
        for each in others:
            on = self._on(each)
            if each is stepped:
                step = self._step(self.rows[each.alias], each.alias)
                on = [*_in_step(trigger, step, [with_values(side, self._value) for _, side in equations]), *on]
            item, kind = self.rows[each.alias].item(each.alias), "inner" if on else "cross"
            select = select.join(item, on=exp.and_(*on) if on else None, join_type=kind)
        conditions = [
            *self.rows[trigger.alias].conditions_of(trigger.alias),
            *(
                with_values(each, self._value)
                for each, side in zip(self.conditions, sides, strict=True)
                if side is None
            ),
            *(self._is_last(each) for each in self.inputs if each.alias in self._found_by_index),
        ]
        shown = [*self._own_columns(), *(aliased(self._value(name), name) for name in columns)]
        return select.select(*shown).where(*conditions)

    def _in_steps(self, sides: Sequence[exp.Expr]) -> exp.Expr:
        """The arrivals, once in their own step of time and once in the previous one, as the window has no older rows.

        If pairs are searched, also in the next step. This is a union, since optimizers split a join with several steps,
        and then compare every pair of rows. It also computes the trigger's `sides` of the equations.
        """
        source = self.trigger.source
        steps = [self._step(source, None), exp.Sub(this=self._step(source, None), expression=number(1))]
        if self.by is SearchBy.PAIRS:
            steps.append(exp.Add(this=self._step(source, None), expression=number(1)))
        every = exp.Column(this=exp.Star(), table=identifier("s"))
        equal = [aliased(side, f"_side{place}") for place, side in enumerate(sides)]
        selects = [
            exp.select(every, aliased(step, "_step"), *(side.copy() for side in equal)).from_(source.item("s"))
            for step in steps
        ]
        return derived_table(exp.union(*selects, distinct=False), self.trigger.alias)

    def _value(self, name: str) -> exp.Expr:
        """An output column as a column of its input."""
        alias, attribute = self.outputs[name]
        return qualify_columns(self.rows[alias].columns[attribute].copy(), alias)

    def _of_trigger(self, side: exp.Expr) -> exp.Expr:
        return with_values(side, lambda name: self.trigger.source.columns[self.outputs[name][1]].copy())

    def _on(self, other: JoinInput) -> list[exp.Expr]:
        """Conditions on the rows of another input, apart from those of the correlation."""
        own = self.rows[other.alias].conditions_of(other.alias)
        return own if other.flow is None else [*self._in_window(other, other.flow), *own]

    def _in_window(self, other: JoinInput, flow: Flow) -> list[exp.Expr]:
        """The conditions for a row to be in its input's window as of the trigger. Of one event, the left input is seen.

        A window that statements change is seen as before the event; with OnSelect, with the event's changes, but
        without its insertions. For rows found by an index, the condition on age is a different one.
        """
        assert self.trigger.flow is not None
        if self.by is SearchBy.PAIRS:
            own = [self._bound(condition, other) for condition in valid("t", "w", self.trigger.flow)]
            return [*own, *(self._bound(condition, other) for condition in valid("w", "t", flow))]
        timed, driven = flow.timed or self._timed, self.node.driving is not None
        if flow.late and not self.trigger.flow.late:
            conditions = arrived_and_valid("w", "t", flow, timed)
            if isinstance(self.node, OnSelect):
                conditions = [not_later("w", "t", (), timed), _not_inserted(timed), *valid("w", "t", flow, timed=timed)]
            return [self._bound(condition, other) for condition in conditions]
        is_right = self.inputs.index(other) > self.arriving and self.shares_event and not driven
        strictly = is_right and not (self.trigger.flow.late and not flow.late)
        exempt = _of_one_event(timed, "_place" in self.rows[other.alias].columns) if flow.order else None
        bounded = self.by is not SearchBy.STEPS
        inside = (
            []
            if other.alias in self._found_by_index
            else valid("w", "t", flow, timed=timed, bounded=bounded, exempt=exempt)
        )
        return [
            self._bound(condition, other) for condition in (not_later("w", "t", (), timed, strictly=strictly), *inside)
        ]

    def _is_last(self, other: JoinInput) -> exp.Expr:
        """Whether a row is one of the last rows, of which an index finds the oldest."""
        assert other.flow is not None
        equations = self._found_by_index[other.alias]
        same_key = [exp.EQ(this=key, expression=with_values(its, self._value)) for key, its in equations]
        at = qualify_columns(self.rows[self.trigger.alias].columns["seq"].copy(), self.trigger.alias)
        oldest = oldest_seq(other.flow, at, same_key, inclusive=False)
        return exp.GTE(this=column_of(other.alias, "seq"), expression=oldest)

    def _bound(self, condition: exp.Expr, other: JoinInput) -> exp.Expr:
        """A condition on `w` and `t`, rewritten over the columns of the input and of the trigger."""
        alias = {"w": other.alias, "t": self.trigger.alias}

        def own(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column):
                name = alias[node.table]
                return qualify_columns(self.rows[name].columns[node.name].copy(), name)
            return node

        bound = condition.transform(own)
        assert isinstance(bound, exp.Expr)
        return bound

    def _own_columns(self) -> Iterator[exp.Expr]:
        """The bridge's columns of a result: its ts and seq, its expiry, and the order of the results of one event."""

        def value(source: JoinInput, name: str) -> exp.Expr:
            return qualify_columns(self.rows[source.alias].columns[name].copy(), source.alias)

        def own(source: JoinInput, name: str, alias: str) -> exp.Expr:
            return aliased(value(source, name), alias)

        for name in ("ts", "seq"):
            last = [value(each, name) for each in (self.inputs if self.by is SearchBy.PAIRS else [self.trigger])]
            yield aliased(
                exp.Greatest(this=last[0], expressions=last[1:], ignore_nulls=True) if last[1:] else last[0], name
            )
        yield aliased(earliest_expiry(self.inputs, self.rows), "_expires")
        yield from (own(each, name, alias) for each in self.inputs for alias, name in row_keys(each))
        yield from (own(each, name, alias) for each in self.inputs for alias, name in relation_values(each))


def row_keys(source: JoinInput) -> list[tuple[str, str]]:
    """The columns that identify the rows of a streamed input: their names in a result, and in the input."""
    return [(f"_{source.alias}_{key}", key) for key in source.flow.key] if source.flow else []


def relation_values(source: JoinInput) -> list[tuple[str, str]]:
    """The columns of a relation, which order its rows: their names in a result, and in the relation."""
    return (
        []
        if source.flow
        else [(f"{RELATION_ORDER_PREFIX}{source.alias}_{name}", name) for name in source.source.columns]
    )


def equal_columns(conditions: Sequence[exp.Expr], outputs: Outputs) -> Iterator[tuple[exp.Column, exp.Column]]:
    """The pairs of columns of two inputs that conditions equate, each pair in both orders."""
    for condition in conditions:
        sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
        found = [side for side in sides if isinstance(side, exp.Column)]
        if len({outputs[side.name][0] for side in found}) == 2:
            yield found[0], found[1]
            yield found[1], found[0]


def earliest_expiry(inputs: Sequence[JoinInput], rows: dict[str, Selection]) -> exp.Expr:
    """W5: a result is valid until the first of its rows expires."""
    times = [
        qualify_columns(rows[each.alias].columns["_expires"].copy(), each.alias)
        for each in inputs
        if each.flow is not None
    ]
    times = [time for time in times if time.sql() != number(NEVER).sql()]
    if not times:
        return number(NEVER)
    return times[0] if len(times) == 1 else exp.Least(this=times[0], expressions=times[1:])


def with_values(condition: exp.Expr, value: Callable[[str], exp.Expr]) -> exp.Expr:
    """The condition with `value(name)` in place of each column."""

    def own(node: exp.Expr) -> exp.Expr:
        return parenthesized(value(node.name)) if isinstance(node, exp.Column) else node

    changed = condition.transform(own)
    assert isinstance(changed, exp.Expr)
    return changed


def _not_inserted(timed: bool) -> exp.Expr:
    """Whether a row is not one of the event's insertions."""
    changed = exp.LT(this=column_of("w", "_place"), expression=number(INSERTED))
    return exp.or_(changed, exp.not_(_of_one_event(timed, in_place=False)))


def _of_one_event(timed: bool, in_place: bool) -> exp.Expr:
    """Whether two rows belong to one event: all of these join, even if one of them evicts another.

    A row that a window evicts on arrival (W9) is excluded: it joins others only as the trigger.
    """
    names = ("ts", "seq") if timed else ("seq",)
    same: list[exp.Expr] = [exp.EQ(this=column_of("w", name), expression=column_of("t", name)) for name in names]
    if in_place:
        own = zip(("seq", "_place"), OUT[1:], strict=True)
        same.append(exp.not_(exp.and_(*(column_of("w", mine).eq(column_of("w", out)) for mine, out in own))))
    return exp.and_(*same)


def _in_step(trigger: JoinInput, step: exp.Expr, sides: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The equations by which the rows of a step are found."""
    equal = [
        exp.EQ(this=column_of(trigger.alias, f"_side{place}"), expression=side) for place, side in enumerate(sides)
    ]
    return [exp.EQ(this=column_of(trigger.alias, "_step"), expression=step), *equal]
