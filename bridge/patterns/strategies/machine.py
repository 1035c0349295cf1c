"""The plain machine over sorted rows, and conditions on the match so far, which are evaluated row by row."""

from __future__ import annotations

import dataclasses
import decimal
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from sqlglot import exp

from bridge.patterns.arrays import Array, arrow_columns
from bridge.patterns.conditions import Condition
from bridge.patterns.evaluate.python import scalar
from bridge.patterns.task import Task
from bridge.patterns.values import Atom, Classifier, MatchAggregate, MatchExpression, MatchNumber, Place, Value
from bridge.query.row_pattern import RowPattern, absent_symbols
from nfa import skip as modes
from nfa.arrays.matches import Matches, matches_of
from nfa.match import PatternMatch
from nfa.pattern import symbols
from nfa.program import Program
from nfa.threads.decided import Matcher, for_another_partition
from nfa.threads.path import Path
from windows.databases import Database
from windows.sql import table

T = TypeVar("T")
_T_co = TypeVar("_T_co", covariant=True)

PathPredicate = Callable[[int, "Path[int]"], bool]


def find(task: Task) -> Matches:
    """The matches, found by one `Matcher` per partition."""
    starts, lengths, codes = list[int](), list[int](), list[int]()
    conditions = PathConditions(task)
    first = 0
    for end in map(int, task.ends):
        matcher = conditions.matcher()
        for match in _matches(matcher, first, end):
            starts.append(match.start + first)
            lengths.append(len(match.memberships))
            codes += [task.numbers[member.symbol, member.excluded] for member in match.memberships]
        first = end
    return matches_of(starts, lengths, codes)


def _matches(matcher: Matcher[int], first: int, end: int) -> list[PatternMatch]:
    found = [match for row in range(first, end) for match in matcher.feed(row)]
    return found + matcher.finish()


class ByRow(Protocol[_T_co]):
    """A value for each row, by its number: a list, or a mapping if rows are added and removed."""

    def __getitem__(self, number: int, /) -> _T_co: ...


class MachineInput(Protocol):
    """The input of the machine: a `Task`, or the retained rows of a stream."""

    clause: RowPattern
    conditions: tuple[Condition, ...]
    program: Program

    @property
    def skip(self) -> modes.Skip: ...
    @property
    def within(self) -> int | None: ...
    @property
    def database(self) -> Database: ...
    @property
    def symbol_set_of(self) -> ByRow[int]: ...
    @property
    def time_of(self) -> ByRow[int]: ...
    def values_of(self, expression: exp.Expr) -> ByRow[Any]: ...
    def type_of(self, expression: exp.Expr) -> pa.DataType | None: ...
    def arrays_of(self, names: Sequence[str]) -> list[Array]: ...


class PathConditions:
    """Evaluates whether a row, given by its number, can match a symbol after a path."""

    def __init__(self, task: MachineInput) -> None:
        self.task = task
        self.symbol_sets = task.symbol_set_of
        self.bits = {name: 1 << place for place, name in enumerate(symbols(task.clause.pattern))}
        self.times = task.time_of if task.clause.within is not None else None
        self.rest = {c.symbol: self._condition(c) for c in task.conditions if c.rest is not None}
        self._first: Matcher[int] | None = None

    def matcher(self) -> Matcher[int]:
        """A machine for the next partition."""
        if self._first is not None:
            self._matcher = for_another_partition(self._first)
            return self._matcher
        time = None if self.times is None else self.times.__getitem__
        matcher: Matcher[int] = Matcher(
            self.task.program,
            self.holds,
            depends_on_path=bool(self.rest),
            skip=self.task.skip,
            within=self.task.within,
            time=time,
            timed_out=self.task.clause.timed_out,
            absent=absent_symbols(self.task.clause),
        )
        self._first = matcher
        self.set_matcher(matcher)
        return matcher

    def set_matcher(self, matcher: Matcher[int]) -> None:
        """Sets the machine whose MATCH_NUMBER() conditions read."""
        self._matcher = matcher

    def holds(self, symbol: str, row: int, path: Path[int]) -> bool:
        if not self.symbol_sets[row] & self.bits[symbol]:
            return False
        rest = self.rest.get(symbol)
        return rest is None or rest(row, path)

    @property
    def match_number(self) -> int:
        """MATCH_NUMBER() of the machine's next match."""
        return self._matcher.match_number

    def _condition(self, condition: Condition) -> PathPredicate:
        assert condition.rest is not None
        value, symbol = self.value(condition.rest), condition.symbol
        return lambda row, path: bool(value(path.take(symbol, row, row)))

    def value(self, match_expression: MatchExpression) -> Callable[[Path[int]], Any]:
        """The value of an expression over a path that ends with the current row."""
        readers, types = (
            [self._reader(atom) for atom in match_expression.atoms],
            [self._type(atom) for atom in match_expression.atoms],
        )
        return evaluator(match_expression.expression, readers, self.task.database, types)

    def _type(self, atom: Atom) -> pa.DataType | None:
        """The type of an atom's values in Arrow, if it is known."""
        if isinstance(atom, MatchAggregate) and isinstance(atom.call, (exp.Min, exp.Max)) and atom.running is not None:
            return self.task.type_of(atom.call.this)
        return self.task.type_of(atom.row) if isinstance(atom, Value) else None

    def _reader(self, atom: Atom) -> Callable[[Path[int]], Any]:
        if isinstance(atom, Value):
            values, find = self._values(atom.row), _finder(atom.place)

            def value(path: Path[int]) -> Any:
                row = find(path)
                return None if row is None else values[row]

            return value
        if isinstance(atom, Classifier):
            return functools.partial(_label, atom)
        if isinstance(atom, MatchNumber):
            return lambda path: self.match_number
        return self._fold(atom)

    def _values(self, row: exp.Expr) -> ByRow[Any]:
        return self.task.values_of(row)

    def _is_nested(self, argument: exp.Expr | None) -> bool:
        """Whether values are lists or objects, which Python cannot order."""
        kind = None if argument is None else self.task.type_of(argument)
        return kind is not None and bool(pa.types.is_nested(kind))

    def _fold(self, match_aggregate: MatchAggregate) -> Callable[[Path[int]], Any]:
        simple = _PathAggregate.of(match_aggregate)
        if simple is None or self._is_nested(simple.argument):
            return _DatabaseAggregate(match_aggregate, self).value
        values = None if simple.argument is None else self._values(simple.argument)
        name = f"{match_aggregate.call.sql()} {match_aggregate.symbols}"

        def step(state: tuple[int, Any], symbol: str, row: int) -> tuple[int, Any]:
            if match_aggregate.symbols is not None and symbol not in match_aggregate.symbols:
                return state
            value = 1 if values is None else values[row]
            if value is None:
                return state
            count, total = state
            return count + 1, value if count == 0 else simple.join(total, value)

        return lambda path: simple.result(path.fold(name, (0, None), step))


@dataclasses.dataclass(frozen=True)
class _PathAggregate:
    """COUNT, SUM, AVG, MIN and MAX of plain values, updated row by row."""

    argument: exp.Expr | None
    join: Callable[[Any, Any], Any]
    result: Callable[[tuple[int, Any]], Any]

    @classmethod
    def of(cls, match_aggregate: MatchAggregate) -> _PathAggregate | None:
        if match_aggregate.running is None:
            return None
        aggregate, argument = match_aggregate.running
        assert aggregate.running is not None
        result = _count if aggregate.function is exp.Count else _mean if aggregate.running.is_mean else _total
        return cls(argument, aggregate.running.join, result)


def _count(state: tuple[int, Any]) -> Any:
    return state[0]


def _total(state: tuple[int, Any]) -> Any:
    return state[1]


def _mean(state: tuple[int, Any]) -> Any:
    return float(state[1]) / state[0] if state[0] else None


class _DatabaseAggregate:
    """Any other aggregate, which the database computes over the rows of a path."""

    def __init__(self, match_aggregate: MatchAggregate, conditions: PathConditions) -> None:
        self.match_aggregate, self.conditions = match_aggregate, conditions
        self.names = match_aggregate.columns
        self.columns = dict(zip(self.names, conditions.task.arrays_of(self.names), strict=True))
        self.database = conditions.task.database

    def value(self, path: Path[int]) -> Any:
        steps = [
            step
            for step in path.steps()
            if self.match_aggregate.symbols is None or step[0] in self.match_aggregate.symbols
        ]
        steps.reverse()
        rows = pa.array([row for _, _, row in steps], pa.int64())
        named = {name: values.take(rows) for name, values in self.columns.items()}
        named[self.match_aggregate.classifier] = pa.array([symbol for symbol, _, _ in steps], pa.string())
        named[self.match_aggregate.match_number] = pa.array([self.conditions.match_number] * len(steps), pa.int64())
        named[self.match_aggregate.own("_member")] = pa.array(range(len(steps)), pa.int64())
        with self.database.registered(pa.table(named)) as name:
            value = self.match_aggregate.leaving(self.match_aggregate.call.copy())
            select = exp.select(exp.alias_(value, "v")).from_(table(name))
            return arrow_columns(self.database, self.database.render(select), 1)[0][0].as_py()


def _finder(place: Place) -> Callable[[Path[int]], int | None]:
    """The function that finds the row at a place of a path."""
    names = place.symbols or ()
    if place.first:
        return lambda path: path.first(*names, ahead=place.offset)
    if not names and not place.offset:
        return Path.last
    return lambda path: path.last(*names, back=place.offset)


def _label(atom: Classifier, path: Path[int]) -> str | None:
    place, names = atom.place, atom.place.symbols
    steps = list(path.steps())
    steps.reverse()
    chosen = [index for index, (symbol, _, _) in enumerate(steps) if names is None or symbol in names]
    at = place.offset if place.first else len(chosen) - 1 - place.offset
    if not 0 <= at < len(chosen):
        return None
    moved = chosen[at] + atom.shift
    return steps[moved][0] if 0 <= moved < len(steps) else None


def evaluator(
    expression: exp.Expr,
    readers: Sequence[Callable[[T], Any]],
    database: Database,
    types: Sequence[pa.DataType | None] = (),
) -> Callable[[T], Any]:
    """The function from a match to the value of an expression over its readers' values.

    In Python if that agrees with SQL.

    `types`: the types of the values that the readers return, if known.
    """
    compute = scalar(expression, len(readers))
    ask = _database_evaluator(expression, types or [None] * len(readers), database)

    def value(match: T) -> Any:
        values = [read(match) for read in readers]
        if compute is None or any(value != value for value in values):  # NaN equals itself in a database
            return ask(*values)
        try:
            return compute(*values)
        except (TypeError, OverflowError):  # decimals with doubles, dates, beyond 64 bits: left to the database
            return ask(*values)

    return value


def _array(value: Any, kind: pa.DataType | None) -> Array:
    """An array of one value. Nanoseconds are kept, which pyarrow reads only with an explicit type."""
    if getattr(value, "nanosecond", 0):
        return pa.array([value], pa.timestamp("ns"))
    try:
        return pa.array([value], kind)
    except OverflowError:  # an unsigned number beyond 63 bits
        return pa.array([decimal.Decimal(value)])


def _with_nulls(expression: exp.Expr, given: pa.Table) -> exp.Expr:
    """The expression with NULL for columns without a type, which some databases would take for texts."""
    unknown = {field.name for field in given.schema if pa.types.is_null(field.type)}

    def null(node: exp.Expr) -> exp.Expr:
        bare = node.this if isinstance(node, exp.Collate) else node  # NULL has no collation
        return exp.null() if isinstance(bare, exp.Column) and bare.name in unknown else node

    return expression.transform(null) if unknown else expression.copy()


def _database_evaluator(
    expression: exp.Expr, types: Sequence[pa.DataType | None], database: Database
) -> Callable[..., Any]:
    """The function from single values to an expression over them, computed by the database and cached."""

    def computed(*values: Any) -> Any:
        names = [f"_v{place}" for place in range(len(types))]
        arrays = [_array(value, kind) for value, kind in zip(values, types, strict=True)]
        given = pa.Table.from_arrays([*arrays, pa.array([0])], names=[*names, "_one"])
        with database.registered(given) as name:
            select = exp.select(exp.alias_(_with_nulls(expression, given), "v")).from_(table(name))
            return arrow_columns(database, database.render(select), 1)[0][0].as_py()

    cached = functools.lru_cache(maxsize=100_000)(computed)

    def ask(*values: Any) -> Any:
        is_nested = any(isinstance(value, (list, dict)) for value in values)  # such a value cannot be a dictionary key
        return computed(*values) if is_nested else cached(*values)

    return ask
