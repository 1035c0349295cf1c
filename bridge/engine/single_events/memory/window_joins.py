"""Joins of an event with rows of windows, computed in this process: the rows are in memory, by the joined values.

A statement has this form if it consists of nested SELECTs that name and filter, around a SELECT of one window table, or
a union of such SELECTs: one per input of the join that the event does not belong to, and in an outer join one of the
event alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp

from bridge.engine.single_events.computed import Compute, Joined, Row, computed, has_only_values, joined
from bridge.engine.single_events.memory.window_content import is_window, replace_columns
from bridge.engine.single_events.memory.window_forms import UnknownFormError, refuse_other_clauses
from bridge.engine.single_events.memory.window_memory import FilledContent, FilledWindow, WindowMemory
from bridge.engine.single_events.memory.window_rows import MaintainedRows
from windows.databases import Database
from windows.sql import conjuncts, number
from windows.types import PYTHON_TYPES

MOST_JOINED = 4_096
"""The number of rows up to which an event is joined with each of them in Python."""

Mark: TypeAlias = Callable[[int, str], exp.Expr]
"""The expression that stands for a value at a place of an event's row, of a type."""


@dataclasses.dataclass(frozen=True, eq=False)
class JoinedWindow:
    """A part of a join: the rows of a window that have the event's values, and the results computed from each of them.

    `key`: the places of these values in the event's row; where one of `equal` is NULL, no row is joined. `finish`:
    computes the results from the event's row and rows of the window.
    """

    stream: str
    form: Row
    maintained: MaintainedRows
    key: Sequence[int]
    equal: Sequence[int]
    finish: Joined

    def take(self, row: Row) -> list[Row] | None:
        """The results of an event; None where the database has to compute them."""
        if any(row[place] is None for place in self.equal):
            return []
        own = self.maintained.rows.of(tuple([row[place] for place in self.key]), row[0])
        if own is None:
            return []
        if len(own.times) > MOST_JOINED:
            return None
        return self.finish(row, own.columns)


@dataclasses.dataclass(frozen=True, eq=False)
class UnmatchedEvent(JoinedWindow):
    """A part of an outer join: the result of an event that no row of a window joins. `finish` finds rows that do."""

    alone: Compute

    def take(self, row: Row) -> list[Row] | None:
        found = super().take(row)
        return self.alone(row) if found == [] else None if found is None else []


class WindowJoin:
    """A SELECT that joins an event with rows of windows. `order`: the number of columns that only sort the rows."""

    is_joined = has_few_rows = False
    """A statement over a thousand events is as fast as this process."""

    def __init__(self, parts: Sequence[JoinedWindow], order: int) -> None:
        self.parts, self._order = parts, order
        self._maintained = list({id(part.maintained): part.maintained for part in parts}.values())

    @property
    def is_loaded(self) -> bool:
        """Whether the rows are in memory."""
        return all(each.is_loaded for each in self._maintained)

    def enter(self, memory: WindowMemory) -> None:
        """Registers the rows in the memory, which keeps them up to date from now on."""
        for part in self.parts:
            memory.add(part.stream, part.form, part.maintained)

    def prepare(self, database: Database, rows: Sequence[Row]) -> None:
        """Reads the tables after enough single events, inside the transaction of these events."""
        for each in self._maintained:
            if not each.is_loaded:
                each.prepare(database, rows)

    def forget(self) -> None:
        """Forgets the rows in memory, as the tables were changed in another way."""
        for each in self._maintained:
            each.forget()

    def take(self, row: Row) -> list[Row] | None:
        """The rows of the SELECT for an event that is in memory; None where the database has to compute them."""
        if not self.is_loaded:
            return None
        found: list[Row] = []
        for part in self.parts:
            results = part.take(row)
            if results is None:
                return None
            found += results
        if not self._order:
            return found
        found.sort(key=lambda result: result[-self._order :])
        return [result[: -self._order] for result in found]


def window_join(
    statement: exp.Expr,
    memory: WindowMemory,
    place_of: Callable[[exp.Expr], int | None],
    mark: Mark,
    types: Sequence[str],
    proven: Collection[str],
    stream: str,
) -> WindowJoin | None:
    """The join that computes a SELECT of an event with rows of windows; None where only the database can.

    Args:
        statement: The SELECT, with the values of an event.
        memory: The windows, with their rows that are already in memory for other statements.
        place_of: The place of an event's value in its row; None for another expression.
        mark: The expression that stands for a value at a place of the row, of a type.
        types: The types of the columns of that row.
        proven: The types whose values the database compares and returns as Python does.
        stream: The name of the event's stream.
    """
    try:
        return _JoinRecognition(memory, place_of, mark, types, proven, stream).join(statement)
    except UnknownFormError:
        return None


@dataclasses.dataclass(frozen=True)
class _Part:
    """A SELECT of one window's rows: its columns by their names, its conditions, and the window.

    `unmatched`: for the part of an event that no row joins, the conditions under which a row would join it.
    """

    items: Mapping[str, exp.Expr]
    conditions: Sequence[exp.Expr]
    content: FilledContent
    window: FilledWindow
    unmatched: Sequence[exp.Expr] | None = None

    def over(self, select: exp.Select) -> _Part:
        """The SELECT around this one."""
        refuse_other_clauses(select, ("expressions", "from_", "where", "order"))
        items = {item.alias_or_name: replace_columns(item.unalias(), self.items) for item in select.expressions}
        where = select.args.get("where")
        added = [] if where is None else [replace_columns(where.this, self.items)]
        return dataclasses.replace(self, items=items, conditions=[*self.conditions, *added])

    def renamed(self, names: Sequence[str]) -> _Part:
        """The same part in a union whose columns have these names."""
        return dataclasses.replace(self, items=dict(zip(names, self.items.values(), strict=True)))


class _JoinRecognition:
    """Takes a SELECT apart, into its parts and the expressions that sort their rows."""

    def __init__(
        self, memory: WindowMemory, place_of: Callable[[exp.Expr], int | None], mark: Mark, types: Sequence[str],
        proven: Collection[str], stream: str,
    ) -> None:  # fmt: skip
        self._stream = stream
        self._memory, self._place_of, self._mark = memory, place_of, mark
        self._types, self._proven = types, proven

    def join(self, statement: exp.Expr) -> WindowJoin:
        """The join; raises UnknownFormError where only the database computes it."""
        parts = self._parts(statement)
        order = statement.args.get("order")
        terms = [] if order is None else order.expressions
        if any(term.args.get("desc") or not isinstance(term.this, exp.Column) for term in terms):
            raise UnknownFormError
        source = statement.args["from_"].this.this
        inner = self._parts(source) if terms else parts
        keys = [[part.items[term.this.name] for term in terms] for part in inner]
        if not all(map(self._is_by_number, keys, parts)):
            raise UnknownFormError
        matching = [part for part in parts if part.unmatched is None]
        is_in_order = len(matching) == 1  # an event has either results of this part, or a result without a row
        if len(matching) < len(parts) and not is_in_order:
            raise UnknownFormError  # NULLs would have to be sorted
        joined = [self._joined(part, [] if is_in_order else key) for part, key in zip(parts, keys, strict=True)]
        return WindowJoin(joined, 0 if is_in_order else len(terms))

    def _is_by_number(self, key: Sequence[exp.Expr], part: _Part) -> bool:
        """Whether the order is by row numbers and values of the event, which rows of one window have already."""
        return part.unmatched is not None or all(
            self._place_of(term) is not None or part.content.name_of(term) == "seq" for term in key
        )

    def _parts(self, select: exp.Expr) -> list[_Part]:
        """The parts of a SELECT or a union."""
        if isinstance(select, exp.Union) and not select.args.get("distinct"):
            refuse_other_clauses(select, ("this", "expression", "distinct"))
            left, right = self._parts(select.this), self._parts(select.expression)
            names = list(left[0].items)
            return [*left, *(part.renamed(names) for part in right)]
        source = select.args["from_"].this if isinstance(select, exp.Select) and select.args.get("from_") else None
        if isinstance(select, exp.Select) and source is None:
            return [self._unmatched(select, None)]
        if not isinstance(select, exp.Select) or not isinstance(source, exp.Table | exp.Subquery):
            raise UnknownFormError
        if is_window(source):
            return [self._innermost(select, source)]
        if has_only_values(source.this):
            return [self._unmatched(select, source)]
        return [part.over(select) for part in self._parts(source.this)]

    def _innermost(self, select: exp.Select, source: exp.Expr) -> _Part:
        """The part for a SELECT of one window table."""
        refuse_other_clauses(select, ("expressions", "from_", "where"))
        named = source if isinstance(source, exp.Table) else source.this.args["from_"].this
        window = self._memory.filled(named.name) if isinstance(named, exp.Table) else None
        if window is None:
            raise UnknownFormError
        content = FilledContent(select, window, self._place_of, self._types, window.stream == self._stream)
        if content.evicting:
            raise UnknownFormError
        items = {item.alias_or_name: item.unalias() for item in select.expressions}
        return _Part(items, [*content.conditions, *content.others], content, window)

    def _unmatched(self, select: exp.Select, event: exp.Expr | None) -> _Part:
        """The part for a SELECT of an event's values where no row joins the event, which may have the alias `event`."""
        refuse_other_clauses(select, ("expressions", "from_", "where"))
        values = {} if event is None else {item.alias_or_name: item.unalias() for item in event.this.expressions}
        match select.args["where"].this if select.args.get("where") else None:
            case exp.Not(this=exp.Exists(this=exp.Select() as found)):
                matched = found.args["from_"].this
                same = conjuncts(found.args["where"].this) if found.args.get("where") else []
            case _:
                raise UnknownFormError
        (part,) = self._parts(matched.this) if isinstance(matched, exp.Subquery) else [None]
        if part is None or part.unmatched is not None:
            raise UnknownFormError
        known = {matched.alias: part.items, **({} if event is None else {event.alias: values})}

        def place_of(side: exp.Expr) -> int | None:
            value = known.get(side.table, {}).get(side.name) if isinstance(side, exp.Column) else side
            return None if value is None else self._place_of(value)

        for each in same:  # these names mean the joined event itself
            if (
                not isinstance(each, exp.EQ)
                or place_of(each.this) is None
                or place_of(each.this) != place_of(each.expression)
            ):
                raise UnknownFormError
        items = {item.alias_or_name: replace_columns(item.unalias(), values) for item in select.expressions}
        return dataclasses.replace(part, items=items, conditions=[], unmatched=part.conditions)

    def _joined(self, part: _Part, order: Sequence[exp.Expr]) -> JoinedWindow:
        alone = None
        if part.unmatched is not None:
            alone = computed(self._selected(part, order), self._place_of, self._types, self._proven)
            part, order = dataclasses.replace(part, items={}, conditions=part.unmatched, unmatched=None), []
            if alone is None:
                raise UnknownFormError
        content, window = part.content, part.window
        columns = self._columns(part, order)
        values = {
            name: self._mark(len(self._types) + at, window.type_of(name) or "") for at, name in enumerate(columns)
        }

        def marked(node: exp.Expr) -> exp.Expr:
            name = content.name_of(node)
            return node if name is None else values[name].copy()

        select = self._selected(part, order, marked)
        types = [*self._types, *(window.type_of(name) or "" for name in columns)]
        finish = joined(select, self._place_of, types, self._proven, len(self._types))
        arrive = window.arriving([*content.columns, *columns])
        if finish is None or arrive is None:
            raise UnknownFormError
        form = (*content.form, tuple(columns))
        maintained = self._memory.find(window.stream, form)
        if maintained is None:
            maintained = MaintainedRows(content.rows(columns, window.types), arrive)
        key, equal = list(content.keys.values()), [content.keys[name] for name in content.equal]
        known = (window.stream, form, maintained, key, equal, finish)
        return JoinedWindow(*known) if alone is None else UnmatchedEvent(*known, alone)

    def _selected(
        self, part: _Part, order: Sequence[exp.Expr], marked: Callable[[exp.Expr], exp.Expr] = lambda node: node
    ) -> exp.Select:
        """A SELECT of the columns of a part, and then of the columns that sort its rows.

        `marked` puts values in place of the window's columns.
        """
        items = [
            exp.alias_(item.transform(marked), f"_{at}", quoted=True)
            for at, item in enumerate([*part.items.values(), *order])
        ]
        select = exp.select(*(items or [number(1)]), copy=False)
        if part.conditions:
            select.where(exp.and_(*part.conditions).transform(marked), copy=False)
        return select

    def _columns(self, part: _Part, order: Sequence[exp.Expr]) -> list[str]:
        """The columns of the window that the results read, and `seq`, which every row has."""
        read = [
            part.content.name_of(each)
            for tree in [*part.items.values(), *part.conditions, *order]
            for each in tree.find_all(exp.Column)
        ]
        if any(name is None for name in read):
            raise UnknownFormError
        found = list(dict.fromkeys(["seq", *filter(None, read)]))
        if any(
            part.window.type_of(name) not in self._proven or part.window.type_of(name) not in PYTHON_TYPES
            for name in [*found, *part.content.keys]
        ):
            raise UnknownFormError
        return found
