"""Correlations (O3): what arrives at one input joined with the windows of the others, each combination once.

One SELECT per streamed input, that input giving the arrivals (the new results of a join after Blakeley et al. 1986).
An input left of it is seen including the very same event, one right of it without: so no combination comes twice.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from bridge import query
from bridge.flow import (
    BY_VALUE,
    INSERTED,
    OUT,
    Flow,
    Form,
    Need,
    Selection,
    derived,
    named,
    not_later,
    number,
    of,
    qualified,
    seen,
    valid,
    whole,
    zero,
)
from bridge.plan import Operator, Origin
from bridge.query import Node
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.sides import split
from bridge.rewrite.stream import oldest_seen
from bridge.scope import conjuncts
from windows.databases.base import table_of
from windows.window import NEVER

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
        return dataclasses.replace(content, source=last.kept.source) if sought and last is not None else content


@rewrite.register
def _(node: query.Correlate, network: Network, need: Need) -> Flow:
    def build(operator: Operator) -> None:
        streamed = sum(not isinstance(below, query.Relation) for _, below in node.inputs)
        parts = _parts(node, network, windowed=streamed > 1)
        operator.result = _flow(node, parts, network)
        operator.keys = tuple(f"_{part.alias}_{key}" for part in parts if part.flow for key in part.flow.key)
        operator.origins = lambda: _origins(_parts(node, network, windowed=True))

    tables = {below.name.lower() for _, below in node.inputs if isinstance(below, query.Relation)}
    operator = network.operator(node, build, "Correlate", key=network.as_of_now(node, tables))
    return network.give(operator, node, max(need, Need.ARRIVALS) if network.changes(tables) else need)


def _parts(node: query.Correlate, network: Network, windowed: bool) -> list[Part]:
    return [
        _part(place, alias, below, network, windowed and alias != node.driving)
        for place, (alias, below) in enumerate(node.inputs, 1)
    ]


def _origins(parts: list[Part]) -> list[Origin]:
    """The parts whose rows leave when others come."""
    counted = [part for part in parts if part.flow is not None and part.flow.counted]
    return [(part.flow, {key: f"_{part.alias}_{key}" for key in part.flow.key}) for part in counted if part.flow]


def _part(place: int, name: str, node: Node, network: Network, windowed: bool) -> Part:
    if isinstance(node, query.Relation):
        return Part(f"p{place}", name, related(node, network), None)
    flow = network.rewrite(node, Need.CONTENT if windowed else Need.ARRIVALS)
    return Part(f"p{place}", name, flow.arrivals, flow)


def related(node: query.Relation, network: Network) -> Selection:
    """The rows of a table."""
    columns = network.database.relation_columns(node.name, network.source(node.name).names)
    return Selection(table_of(node.name), columns)


def _flow(node: query.Correlate, parts: list[Part], network: Network) -> Flow:
    outputs = _outputs(parts, network, node)
    order = (
        *(f"_{part.alias}_{key}" for part in parts if part.flow for key in part.flow.key),
        *(f"{BY_VALUE}{part.alias}_{name}" for part in parts if not part.flow for name in part.source.columns),
    )
    names = tuple(outputs)
    columns = ["ts", "seq", "_expires", *order, *names]
    database = network.database
    told = [place for place, part in enumerate(parts) if part.flow and node.driving in (None, part.name)]

    def joined(by: By) -> Selection:
        alone_by = By.TIME if by is By.STEPS else by
        branches = [_branch(node, parts, place, outputs, by, database.wide) for place in told]
        branches += [_alone(node, parts, place, outputs, alone_by) for place in told if parts[place].name in node.outer]
        union = branches[0] if len(branches) == 1 else exp.union(*branches, distinct=False)
        return Selection.of(exp.Subquery(this=union), columns)

    for name, columns_sought in _sought(node, parts, outputs) if database.indexes else ():
        network.index(name, columns_sought)
    forms: dict[str, Form] = {}
    if not database.indexes:
        forms["few"] = lambda: joined(By.TIME)
    elif all(_is_moved(_equations(_asked(node), parts, parts[place], outputs, database.wide)) for place in told):
        forms["many"] = lambda: joined(By.STEPS)
        if database.seeks:  # all members' constants with each row, and then a seek, is faster than all their equations
            forms["shared"] = lambda: joined(By.TIME)
    if database.indexes and any(_lasts(_asked(node), parts, parts[place], outputs) for place in told):
        forms["few"] = lambda: joined(By.INDEX)  # of many it takes MariaDB the third power of their number
    timed = any(part.flow.timed for part in parts if part.flow)
    hidden = tuple(f"{part.name}.ts" for part in parts if part.flow)
    found = joined(By.TIME if database.indexes else By.STEPS)
    return Flow(names, found, order=order, timed=timed, hidden=hidden, forms=forms)


def _outputs(parts: list[Part], network: Network, node: query.Correlate) -> Outputs:
    """Output name → (part's alias, its column), as check.py named them."""
    listed = [(part, name) for part in parts for name in _attributes(part)]
    lowered = [name.lower() for _, name in listed]
    outputs = {}
    for part, name in listed:
        shown = name if lowered.count(name.lower()) == 1 else f"{part.name}_{name}"
        outputs[shown] = (part.alias, name)
    for part in parts:
        if part.flow is not None:
            outputs[f"{part.name}.ts"] = (part.alias, "ts")
    return outputs


def _attributes(part: Part) -> tuple[str, ...]:
    """The columns a part gives on; the times of a correlation's own parts stay within it."""
    names = tuple(part.source.columns) if part.flow is None else part.flow.names
    return tuple(name for name in names if not (part.flow is not None and name in part.flow.hidden))


def _branch(
    node: query.Correlate,
    parts: list[Part],
    arriving: int,
    shown: Outputs,
    by: By,
    wide: str | None = None,
    named_by: Outputs | None = None,
) -> exp.Select:
    """The combinations whose last part arrives at input number `arriving`, with the columns to be `shown`."""
    outputs = named_by or shown
    once = named_by is None and node.driving is None  # else no other branch finds what one event joins with itself
    trigger = parts[arriving]
    asked = _asked(node)
    by_time = by is not By.STEPS
    lasts = _lasts(asked, parts, trigger, outputs) if by is By.INDEX else {}
    rows = {part.alias: part.rows(place == arriving, part.alias in lasts) for place, part in enumerate(parts)}

    def value(name: str) -> exp.Expr:
        alias, attribute = outputs[name]
        return qualified(rows[alias].columns[attribute].copy(), alias)

    stepped = None if by_time else _stepped(parts, trigger)
    sides = [None for _ in asked] if by_time else _equations(asked, parts, trigger, outputs, wide)
    source = rows[trigger.alias].item(trigger.alias)
    if stepped is not None:
        mine = [
            _replaced(side[0], lambda name: trigger.source.columns[outputs[name][1]].copy()) for side in sides if side
        ]
        source = _in_steps(trigger, stepped, mine)
    select = exp.select().from_(source)
    conditions = list(rows[trigger.alias].conditions_of(trigger.alias))
    for place, part in enumerate(parts):
        if place != arriving:
            on = rows[part.alias].conditions_of(part.alias)
            if part.flow is not None:
                driven = node.driving is not None
                is_last = part.alias in lasts
                on = [*_seen(part, trigger, place > arriving and once, by_time, rows, driven, is_last), *on]
            if part is stepped:
                other = [_replaced(side[1], value) for side in sides if side]
                on = [*_in_step(trigger, _step(part, rows[part.alias], part.alias), other), *on]
            kind = "inner" if on else "cross"
            item = rows[part.alias].item(part.alias)
            select = select.join(item, on=exp.and_(*on) if on else None, join_type=kind)
    conditions += [_replaced(part, value) for part, side in zip(asked, sides, strict=True) if side is None]
    for part in parts:
        if part.flow is not None and part.alias in lasts:
            alike = [exp.EQ(this=key, expression=_replaced(its, value)) for key, its in lasts[part.alias]]
            at = qualified(rows[trigger.alias].columns["seq"].copy(), trigger.alias)
            oldest = oldest_seen(part.flow, at, alike, itself=False)
            conditions.append(exp.GTE(this=of(part.alias, "seq"), expression=oldest))
    columns = _columns(parts, trigger, rows)
    columns += [named(value(name), name) for name in shown]
    return select.select(*columns).where(*conditions)


def _alone(node: query.Correlate, parts: list[Part], arriving: int, outputs: Outputs, by: By) -> exp.Select:
    """The arrivals at one of two inputs that nothing of the other joins, that one's columns being NULL."""
    trigger = parts[arriving]
    found = _branch(node, parts, arriving, {}, by, named_by=outputs)
    own = derived(trigger.source.select(), "o")
    assert trigger.flow is not None
    same_row = [exp.EQ(this=of("o", key), expression=of("j", f"_{trigger.alias}_{key}")) for key in trigger.flow.key]
    joined = exp.select(number(1)).from_(derived(found, "j")).where(*same_row)
    columns: list[exp.Expr] = [of("o", name) for name in ("ts", "seq")]
    columns.append(named(number(NEVER), "_expires"))
    for part in parts:
        names = [(f"_{part.alias}_{key}", key) for key in part.flow.key] if part.flow else []
        names += [] if part.flow else [(f"{BY_VALUE}{part.alias}_{name}", name) for name in part.source.columns]
        columns += [named(of("o", name) if part is trigger else exp.null(), shown) for shown, name in names]
    for shown, (alias, name) in outputs.items():
        columns.append(named(of("o", name) if alias == trigger.alias else exp.null(), shown))
    return exp.select(*columns).from_(own).where(exp.Not(this=exp.Exists(this=joined)))


def _columns(parts: list[Part], trigger: Part, rows: dict[str, Selection]) -> list[exp.Expr]:
    """The bridge's own columns of a combination: its time and end, and what orders it among others."""

    def own(part: Part, name: str, called: str) -> exp.Expr:
        return named(qualified(rows[part.alias].columns[name].copy(), part.alias), called)

    flowing = [(part, key) for part in parts if part.flow for key in part.flow.key]
    related = [(part, name) for part in parts if not part.flow for name in part.source.columns]
    return [
        *(own(trigger, name, name) for name in ("ts", "seq")),
        named(_earliest(parts, rows), "_expires"),
        *(own(part, key, f"_{part.alias}_{key}") for part, key in flowing),
        *(own(part, name, f"{BY_VALUE}{part.alias}_{name}") for part, name in related),
    ]


def _seen(
    part: Part, trigger: Part, right: bool, by_time: bool, rows: dict[str, Selection], driven: bool, is_last: bool
) -> list[exp.Expr]:
    """Whether the part's row is in its window as of the trigger; among parts of one event the left one is seen.

    A window that events change is seen as it was before the event, but where the event itself asks (`driven`): as it has
    changed it, before what it inserts. Of rows that are sought (`is_last`) it is asked elsewhere which are the last ones.
    """
    assert part.flow is not None and trigger.flow is not None
    timed = part.flow.timed or trigger.flow.timed
    if part.flow.late and not trigger.flow.late:
        asked = seen("w", "t", part.flow, timed)
        if driven:
            asked = [not_later("w", "t", (), timed), _not_inserted(timed), *valid("w", "t", part.flow, timed=timed)]
        return [_bound(condition, part, trigger, rows) for condition in asked]
    right = right and not (trigger.flow.late and not part.flow.late)
    own = _of_one_event(timed, "_place" in rows[part.alias].columns) if part.flow.order else None
    inside = [] if is_last else valid("w", "t", part.flow, timed=timed, bounded=by_time, spared=own)
    conditions = [not_later("w", "t", (), timed, strictly=right), *inside]
    return [_bound(condition, part, trigger, rows) for condition in conditions]


def _not_inserted(timed: bool) -> exp.Expr:
    """Whether a row is not one that the event inserts."""
    changed = exp.LT(this=of("w", "_place"), expression=number(INSERTED))
    return exp.or_(changed, exp.not_(_of_one_event(timed, placed=False)))


def _stepped(parts: list[Part], trigger: Part) -> Part | None:
    """The other one of two parts, where its window has one length: time in steps so long makes a join by equality."""
    other = next((part for part in parts if part is not trigger), None)
    if len(parts) != 2 or other is None or other.flow is None or other.flow.size in (None, NEVER):
        return None
    return other


def _sought(node: query.Correlate, parts: list[Part], outputs: Outputs) -> Iterator[tuple[str, tuple[str, str]]]:
    """The tables of windows, by which columns rows are sought in them: those that have to equal others', and their order."""
    flows = {part.alias: part.flow for part in parts}
    for mine, _ in _equal_columns(_asked(node), outputs):
        alias, attribute = outputs[mine.name]
        flow = flows[alias]
        if flow is None or flow.content is None:
            continue
        held, kept, order = flow.content.columns[attribute], flow.content.source, "ts"
        if flow.last is not None and flow.is_last_rows:
            kept, order = flow.last.kept.source, "seq"
        elif flow.size in (None, 1):
            continue
        if isinstance(held, exp.Column) and isinstance(kept, exp.Table):
            yield kept.name, (held.name, order)


def _equal_columns(asked: list[exp.Expr], outputs: Outputs) -> Iterator[tuple[exp.Column, exp.Column]]:
    """The columns of two parts that have to be equal, either one first."""
    for condition in asked:
        sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
        found = [side for side in sides if isinstance(side, exp.Column)]
        if len({outputs[side.name][0] for side in found}) == 2:
            yield found[0], found[1]
            yield found[1], found[0]


def _lasts(asked: list[exp.Expr], parts: list[Part], trigger: Part, outputs: Outputs) -> dict[str, list[Equation]]:
    """By their aliases, the parts whose last rows an index finds: keys of rows `o` and the columns that give them.

    Without such columns it is computed of all rows of a window which one pushes out which.
    """
    found = {}
    for part in parts:
        flow = part.flow
        if flow is None or part is trigger or not flow.is_last_rows or (trigger.flow and trigger.flow.timed):
            continue
        assert flow.content is not None and flow.last is not None
        equal: dict[exp.Expr, exp.Expr] = {
            flow.content.columns[outputs[mine.name][1]]: its
            for mine, its in _equal_columns(asked, outputs)
            if outputs[mine.name][0] == part.alias and mine.meta.get("type") == its.meta.get("type")
        }
        keys, kept = flow.last.keys, flow.last.kept
        if all(key in equal for key in keys):
            found[part.alias] = [(kept.value(key, "o"), equal[key]) for key in keys]
    return found


def _asked(node: query.Correlate) -> list[exp.Expr]:
    """The conditions that all must hold."""
    return [] if node.condition is None else conjuncts(node.condition)


def _equations(
    asked: list[exp.Expr], parts: list[Part], trigger: Part, outputs: Outputs, wide: str | None
) -> list[Equation | None]:
    """Which of these say that something of the trigger equals something of the other part, which has steps."""
    if _stepped(parts, trigger) is None:
        return [None for _ in asked]
    return [split(part, lambda name: outputs[name][0], trigger.alias, wide) for part in asked]


def _is_moved(equations: Iterable[Equation | None]) -> bool:
    """Whether there are equations, and none with a column as a side: of many events databases join by those as they are."""
    found = [sides for sides in equations if sides is not None]
    return bool(found) and not any(isinstance(side, exp.Column) for sides in found for side in sides)


def _in_steps(trigger: Part, other: Part, sides: Sequence[exp.Expr]) -> exp.Expr:
    """The arrivals, once in the step of time they are of and once in the one before: the window has no older rows.

    A union, as an optimizer would take a join with the two steps apart and compare every pair of rows. The trigger's
    sides of equations stand in it, too, so that the other rows are found by them.
    """
    own = _step(other, trigger.source, None)
    both = [own, exp.Sub(this=own.copy(), expression=number(1))]
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("s", quoted=True))
    equal = [named(side, f"_side{place}") for place, side in enumerate(sides)]
    selects = [
        exp.select(every, named(step, "_step"), *(side.copy() for side in equal)).from_(trigger.source.item("s"))
        for step in both
    ]
    return derived(exp.union(*selects, distinct=False), trigger.alias)


def _in_step(trigger: Part, step: exp.Expr, sides: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The equations by which the rows of a step are found."""
    equal = [exp.EQ(this=of(trigger.alias, f"_side{place}"), expression=side) for place, side in enumerate(sides)]
    return [exp.EQ(this=of(trigger.alias, "_step"), expression=step), *equal]


def _step(part: Part, rows: Selection, alias: str | None) -> exp.Expr:
    """The number of the step of time that a row is of.

    Steps are at least as long as the part's window, and of few lengths, so that windows of like sizes make one family.
    """
    assert part.flow is not None and part.flow.size is not None
    length = 1 << (part.flow.size - 1).bit_length()
    return exp.IntDiv(this=qualified(rows.columns["ts"].copy(), alias), expression=number(length))


def _of_one_event(timed: bool, placed: bool) -> exp.Expr:
    """Rows of one event all take part in its combinations, also where one of them pushes another out.

    Not one that falls out as it comes (W9): that one meets others where it arrives, as the trigger.
    """
    names = ("ts", "seq") if timed else ("seq",)
    together: list[exp.Expr] = [exp.EQ(this=of("w", name), expression=of("t", name)) for name in names]
    if placed:
        own = zip(("seq", "_place"), OUT[1:], strict=True)
        together.append(exp.not_(exp.and_(*(of("w", mine).eq(of("w", out)) for mine, out in own))))
    return exp.and_(*together)


def _bound(condition: exp.Expr, part: Part, trigger: Part, rows: dict[str, Selection]) -> exp.Expr:
    """The condition on `w` and `t` as one on the part's and the trigger's own columns."""
    alias = {"w": part.alias, "t": trigger.alias}

    def own(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            name = alias[node.table]
            return qualified(rows[name].columns[node.name].copy(), name)
        return node

    bound = condition.transform(own)
    assert isinstance(bound, exp.Expr)
    return bound


def _replaced(condition: exp.Expr, value: object) -> exp.Expr:
    def own(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return whole(value(node.name))  # type: ignore[operator]

    replaced = condition.transform(own)
    assert isinstance(replaced, exp.Expr)
    return replaced


def _earliest(parts: list[Part], rows: dict[str, Selection]) -> exp.Expr:
    """W5: a combination is valid until the first of its parts expires."""
    times = [
        qualified(rows[part.alias].columns["_expires"].copy(), part.alias) for part in parts if part.flow is not None
    ]
    times = [time for time in times if time.sql() != number(NEVER).sql()]
    if not times:
        return number(NEVER)
    return times[0] if len(times) == 1 else exp.Least(this=times[0], expressions=times[1:])


def present(node: query.Correlate, flows: list[Flow | None], network: Network) -> Flow:
    """The combinations of the inputs' present contents, for an answer on demand."""
    parts = []
    for place, ((alias, below), flow) in enumerate(zip(node.inputs, flows, strict=True), 1):
        part = _part(place, alias, below, network, windowed=False) if flow is None else None
        parts.append(part or Part(f"p{place}", alias, flow.arrivals, flow))  # type: ignore[union-attr]
    outputs = _outputs(parts, network, node)
    rows = {part.alias: part.source for part in parts}
    select = exp.select().from_(parts[0].source.item(parts[0].alias))
    for part in parts[1:]:
        select = select.join(part.source.item(part.alias), join_type="cross")
    times = [qualified(part.source.columns["ts"].copy(), part.alias) for part in parts if part.flow]
    newest = times[0] if len(times) == 1 else exp.Greatest(this=times[0], expressions=times[1:])
    select = select.select(named(newest, "ts"), named(zero(), "seq"), named(_earliest(parts, rows), "_expires"))
    columns = {name: qualified(rows[alias].columns[own].copy(), alias) for name, (alias, own) in outputs.items()}
    select = select.select(*(named(value.copy(), name) for name, value in columns.items()))
    conditions = [condition for part in parts for condition in part.source.conditions_of(part.alias)]
    if node.condition is not None:
        conditions.append(_replaced(node.condition, lambda name: columns[name].copy()))
    select = select.where(*conditions)
    names = tuple(outputs)
    hidden = tuple(f"{part.name}.ts" for part in parts if part.flow)
    return Flow(names, Selection.of(exp.Subquery(this=select), ["ts", "seq", "_expires", *names]), hidden=hidden)
