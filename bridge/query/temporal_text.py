"""A temporal pattern as text, for `explain` and messages. The text is not parsed again; EPL has its own syntax."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from bridge.query.epl_patterns import TemporalMatch
from bridge.query.expression_text import name_text, scalar_text
from bridge.query.nodes import Node
from nfa.temporal import tree as temporal
from nfa.temporal.calendar import Crontab, Dates

_OPERATORS: dict[type, str] = {temporal.Both: " AND ", temporal.Either: " OR "}


def temporal_text(node: TemporalMatch, item: Callable[[Node], str]) -> str:
    """The pattern as an item of FROM. `item` writes an input. Every part that has parts itself is in parentheses."""

    def event(number: int) -> str:
        one = node.events[number]
        condition = "" if one.condition is None else f"({scalar_text(one.condition)})"
        keys = f" PER {', '.join(map(scalar_text, one.keys))}" if one.keys else ""
        return ("" if one.tag is None else f"{name_text(one.tag)}=") + item(one.input) + condition + keys

    def values(numbers: Sequence[int]) -> list[str]:
        return [scalar_text(node.values[number]) for number in numbers]

    def written(tree: temporal.Temporal) -> str:
        inner = temporal.parts(tree)
        closed = [f"({written(part)})" if temporal.parts(part) else written(part) for part in inner]
        match tree:
            case temporal.Once(number):
                return event(number)
            case temporal.Every() | temporal.Absent():
                return f"{'EVERY' if isinstance(tree, temporal.Every) else 'NOT'} {closed[0]}"
            case temporal.Then(limits=limits):
                arrows = [" -> " if limit is None else f" -[{limit}]> " for limit in limits or [None] * len(closed)]
                return closed[0] + "".join(map("".join, zip(arrows, closed[1:], strict=False)))
            case temporal.Within(time=time, most=most):
                limit = "" if most is None else f", {most}"
                return f"{closed[0]} WHERE TIMER:WITHIN{'MAX' if limit else ''}({time} MS{limit})"
            case temporal.While(value=value):
                return f"{closed[0]} WHILE ({values([value])[0]})"
            case temporal.Distinct(values=keys, time=time):
                listed = ", ".join([*values(keys), *([] if time is None else [f"{time} MS"])])
                return f"EVERY-DISTINCT({listed}) {closed[0]}"
            case temporal.Repeat():
                return _repeat(tree, closed)
            case temporal.TimerInterval(time):
                return f"TIMER:INTERVAL({time} MS)"
            case temporal.At(when, repeatedly):
                return ("EVERY " if repeatedly else "") + _calendar(when)
        return _OPERATORS[type(tree)].join(closed)

    elements = f" WITH {', '.join(node.elements)}" if node.elements else ""
    return f"PATTERN [{written(node.pattern)}]{elements}"


def _repeat(tree: temporal.Repeat, closed: Sequence[str]) -> str:
    least, most = ("" if bound is None else str(bound) for bound in (tree.least, tree.most))
    bounds = f"[{least}] " if tree.is_exact else f"[{least}:{most}] " if least or most else ""
    return bounds + " UNTIL ".join(closed)


def _calendar(when: Crontab | Dates) -> str:
    if isinstance(when, Crontab):
        fields = (when.minutes, when.hours, when.days, when.months, when.weekdays, when.seconds)
        return f"TIMER:AT({', '.join(map(_field, fields))})"
    arguments = [] if when.first is None else [f"DATE: {_timestamp(when.first)}"]
    arguments += [] if when.period is None else [f"PERIOD: {when.period} MS"]
    arguments += [] if when.period is None else [f"REPETITIONS: {-1 if when.times is None else when.times}"]
    return f"TIMER:SCHEDULE({', '.join(arguments)})"


def _field(values: frozenset[int]) -> str:
    listed = sorted(values)
    if listed in (list(range(60)), list(range(24)), list(range(1, 32)), list(range(1, 13)), list(range(7))):
        return "*"
    return str(listed[0]) if len(listed) == 1 else f"[{', '.join(map(str, listed))}]"


def _timestamp(ms: int) -> str:
    try:
        timestamp = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} MS"
    return f"'{timestamp.isoformat(timespec='milliseconds')}Z'"
