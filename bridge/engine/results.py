"""The statements that read the results of a push: one per query, or one for several similar queries."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from sqlglot import exp

from bridge.engine.catalogue import QueryEntry, ResultQuery
from bridge.engine.delivery import as_arrow
from bridge.engine.special_pushes import LargePush, ShortPush, SpecialPush, WholeHistory
from bridge.engine.tables import Tables
from bridge.query.nodes import Stream
from bridge.rewrite import Network
from bridge.rewrite.optimize.constants import Family, NotAlike, covering, share_constants
from bridge.rewrite.optimize.side_by_side import side_by_side
from bridge.rewrite.settings import Settings
from windows.databases import Database, Refused
from windows.schema import Attribute
from windows.sql import aliased, column
from windows.times import NEVER

PUSHES = ("any", "few")
"""The kinds of pushes, by their number of events, that have statements of their own."""

PIECE = 64
"""The least average length of sorted runs of results for which merging the runs is faster than sorting the rows."""

SPARSE = 1_000
"""Event numbers with greater average distances are renumbered before results are sorted."""

Results = list[tuple[QueryEntry, Any]]
"""The rows of each query that has any: tuples or an Arrow table."""


class ResultStatement:
    """One statement, and the queries whose results it reads, in the order of creation. `table` has their constants.

    `text`: the statement in the database's SQL. `unordered`: the same without ORDER BY; its last column is the event's
    `seq`. `places`: the result columns of each query, if each row has results of all queries.
    """

    def __init__(
        self,
        members: Sequence[QueryEntry],
        statement: exp.Expr,
        text: str,
        table: str | None = None,
        unordered: str | None = None,
        places: Sequence[Sequence[int]] = (),
        arrow_from: int = 0,
    ) -> None:
        self.members = members
        self.statement = statement
        self.text = text
        self.table = table
        self.unordered = unordered
        self.places = places
        self.arrow_from = arrow_from if as_arrow(members[0]) else NEVER
        self.timed, self.sources = members[0].timed, members[0].sources
        self.special_pushes: list[SpecialPush[ResultStatement]] = []

    def read(self, database: Database, count: int, lasting: int, is_history: bool = False) -> Results:
        """The results of a push of `count` events. `lasting`: the milliseconds from the first event to the last.

        `is_history`: it is a whole history, before which nothing is stored. Results of many events are read as Arrow,
        if all processors take Arrow.
        """
        for push in self.special_pushes:
            if push.is_for(count, lasting, is_history):
                return [found for each in push.statements for found in each.read(database, count, lasting)]
        rows: Any = self._arrow(database) if count >= self.arrow_from else None
        if rows is None:
            rows = database.fetch(self.text)
        return self.distribute(rows)

    def _arrow(self, database: Database) -> Any:
        """The results as Arrow; None if the database does not return Arrow."""
        if self.unordered is None:
            return database.fetch_arrow(self.text)
        rows = database.fetch_arrow(self.unordered)
        return rows if rows is None else by_number(rows, len(self.members) > 1)

    def distribute(self, rows: Any) -> Results:
        """The rows of the statement (tuples or an Arrow table), by query."""
        if self.places:
            return self._side_by_side(rows) if rows else []
        if len(self.members) == 1:
            return [(self.members[0], rows)] if rows else []
        return list(self._by_member(rows) if isinstance(rows, list) else self._split(rows))

    def _by_member(self, rows: list[Any]) -> Results:
        """The rows of each query. Their first column is the query's number, and they are ordered by it."""
        found: Results = []
        last: int | None = None
        own: list[tuple[Any, ...]] = []
        for row in rows:
            if row[0] == last:
                own.append(row[1:])
            else:
                last, own = row[0], [row[1:]]
                found.append((self.members[row[0]], own))
        return found

    def _side_by_side(self, rows: Any) -> Results:
        """The rows of each query, where its results are some of the columns."""
        if isinstance(rows, list):
            columns = list(zip(*rows, strict=True))
            found = [list(zip(*(columns[place] for place in places), strict=True)) for places in self.places]
        else:
            found = [rows.select(places) for places in self.places]
        return list(zip(self.members, found, strict=True))

    def _split(self, rows: Any) -> Iterator[tuple[QueryEntry, Any]]:
        """The slices of an Arrow table, ordered by its first column, which is the number of the query."""
        numbers = rows.column(0).to_numpy()
        ends = numbers.searchsorted(range(len(self.members)), side="right")
        begin, rows = 0, rows.drop_columns(rows.column_names[:1])
        for member, end in zip(self.members, ends.tolist(), strict=True):
            if end > begin:
                yield member, rows.slice(begin, end - begin)
            begin = end


def unordered_sql(entry: QueryEntry, statement: exp.Expr, database: Database) -> str | None:
    """The text of a statement without ORDER BY, if an event has at most one result of the query; else None.

    Its last column is the event's `seq`, by which the results are sorted here.
    """
    if entry.flow.order or entry.flow.timed or not database.zero_copy_arrow:
        return None
    rows = statement.copy()
    assert isinstance(rows, exp.Select)
    rows.set("order", None)
    return database.render(rows.select(aliased(column("seq"), "cep_number")))


def by_number(rows: Any, of_members: bool = False) -> Any:
    """An Arrow table, sorted by its last column (distinct integers) and without that column.

    `of_members`: sorted by the first column, the number of a query, then by the last one. Most tables are sorted
    already or consist of long sorted runs; detecting this costs less than a sort.

    >>> import pyarrow
    >>> by_number(pyarrow.table({"a": ["z", "x", "y"], "seq": [9, 5, 7]})).column("a").to_pylist()
    ['x', 'y', 'z']
    >>> of_two = pyarrow.table({"member": [0, 1, 0, 1], "seq": [5, 5, 7, 7]})
    >>> by_number(of_two, of_members=True).column("member").to_pylist()
    [0, 0, 1, 1]
    """
    import numpy as np
    import pyarrow as pa

    numbers = rows.column(rows.num_columns - 1).to_numpy()
    if len(numbers) < 2:
        return rows.remove_column(rows.num_columns - 1)
    numbers = numbers - numbers.min()
    ends = numbers[1:] < numbers[:-1]
    members = rows.column(0).to_numpy() if of_members else None
    rows = rows.remove_column(rows.num_columns - 1)
    if members is not None:
        ends |= members[1:] != members[:-1]
    if not ends.any():
        return rows
    if numbers.max() > SPARSE * len(numbers):
        numbers = np.unique(numbers, return_inverse=True)[1]
    if members is not None:
        numbers += members * (numbers.max() + 1)
    last = np.append(np.flatnonzero(ends), len(numbers) - 1)
    first = np.append(0, last[:-1] + 1)
    order = np.argsort(numbers[first], kind="stable")
    first, last = first[order], last[order]
    if len(first) * PIECE > len(numbers) or not (numbers[last[:-1]] < numbers[first[1:]]).all():
        places = np.full(int(numbers.max()) + 1, -1)
        places[numbers] = np.arange(len(numbers))
        return rows.combine_chunks().take(pa.array(places[places >= 0]))
    if (first[1:] > first[:-1]).all():
        return rows
    pieces = list(zip(first.tolist(), (last - first + 1).tolist(), strict=True))
    whole = [column.chunk(0) for column in rows.combine_chunks().columns]
    ordered = [pa.concat_arrays([column.slice(*piece) for piece in pieces]) for column in whole]
    return pa.Table.from_arrays(ordered, schema=rows.schema)


class ResultStatements:
    """All statements that read results, for pushes of `any` number of events and of `few`.

    The statements for each kind of push are made at the first such push after queries or processors were added or
    removed.
    """

    def __init__(self, merger: StatementMerger) -> None:
        self._merger = merger
        self._made: dict[str, dict[tuple[object, ...], list[ResultStatement]]] = {push: {} for push in PUSHES}
        self._outdated = set(PUSHES)
        self._small = 0
        """The number of small pushes since queries or processors were added or removed."""

    def outdate(self) -> None:
        """Notes that queries or processors were added or removed."""
        self._outdated, self._small = set(PUSHES), 0

    def are_settled(self, count: int | None) -> bool:
        """Whether all statements that a push of `count` events needs are known to be up to date."""
        return not self._outdated or (count == 1 and self._small > 1 and "few" not in self._outdated)

    def outdated(self, count: int | None, most_in_process: int) -> list[str]:
        """The kinds of pushes to `regroup` before a push of `count` events; None: before pushes of any size.

        `most_in_process`: the greatest number of events in a push that may be computed as single events are.
        """
        few = self._merger.settings.few
        self._small += count is not None and 0 < count <= max(few, most_in_process)
        pushes = PUSHES if count is None else (self._push(count),)
        if count is not None and few < count <= most_in_process and self._small > 1:
            pushes = PUSHES
        return [push for push in pushes if push in self._outdated]

    def are_current(self, push: str) -> bool:
        """Whether the statements for this kind of push fit the present queries and processors."""
        return push not in self._outdated

    def _push(self, count: int) -> str:
        """The kind of a push of `count` events.

        Both kinds give the same rows, so no statements for `few` events are made just for the end of a history.
        """
        if count > self._merger.settings.few:
            return "any"
        scarce = count == 0 or self._small < 2
        return "any" if scarce and self._outdated == {"few"} else "few"

    def of(self, push: str) -> list[ResultStatement]:
        """The statements for pushes of `any` number of events, or of `few`."""
        return list(itertools.chain.from_iterable(self._made[push].values()))

    def regroup(self, push: str, entries: Iterable[QueryEntry]) -> list[str]:
        """Makes the statements of all queries that have a processor; returns the tables of constants to be dropped."""
        groups: dict[tuple[object, ...], list[QueryEntry]] = {}
        for entry in entries:
            if entry.processors:
                query = entry.results.of(entry.variant(push, shared=True))
                groups.setdefault((self._merger.alike(query), as_arrow(entry)), []).append(entry)
        before = list(self._made.values())
        known = {key: reports for made in before for key, reports in made.items()}
        found: dict[tuple[object, ...], list[ResultStatement]] = {}
        for key, members in groups.items():
            same = (*key, *(entry.number for entry in members))
            found[same] = known.get(same) or self._merger.statements(members, push)
        self._made[push] = found
        self._outdated.discard(push)
        kept = {id(report) for made in self._made.values() for reports in made.values() for report in reports}
        gone = {id(report): report for made in before for reports in made.values() for report in reports}
        return [report.table for number, report in gone.items() if report.table is not None and number not in kept]

    def read(
        self,
        database: Database,
        streams: frozenset[str],
        count: int,
        final: bool,
        lasting: int = 0,
        is_history: bool = False,
    ) -> Results:
        """The results of a push of `count` events into these streams, per query, in creation order.

        `lasting`: the milliseconds between the first and the last event. `is_history`: there are no other events.
        """
        found: Results = []
        for report in self._at("any" if is_history else self._push(count), streams, final):
            found += report.read(database, count, lasting, is_history)
        if len(found) > 1:
            found.sort(key=lambda result: result[0].number)
        return found

    def at(self, streams: frozenset[str], count: int, final: bool) -> list[ResultStatement]:
        """The statements to run after a push of `count` events into these streams."""
        return self._at(self._push(count), streams, final)

    def _at(self, push: str, streams: frozenset[str], final: bool) -> list[ResultStatement]:
        return [each for each in self.of(push) if final or each.members[0].runs_at(streams)]


# One statement for several queries, where the database accepts it


class StatementMerger:
    """Makes the statements of similar queries. `transaction` is the context in which tables are created."""

    def __init__(
        self,
        database: Database,
        network: Network,
        tables: Tables,
        transaction: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._database, self._network, self._tables, self._transaction = database, network, tables, transaction

    @property
    def settings(self) -> Settings:
        return self._network.settings

    def alike(self, query: ResultQuery) -> Hashable:
        """A key that is equal for queries that may share a statement."""
        return query.shape if self._database.side_by_side_frames else query.signature

    def statements(self, members: Sequence[QueryEntry], push: str) -> list[ResultStatement]:
        """One statement, if the constants can be rows of a table, or the results can stand side by side; else several.

        The statements for `any` number of events are replaced, for a whole history, by one per query if there is one.
        """
        found = self._statements(members, push)
        for report in found if push == "any" else []:
            if any(entry.results.history is not None for entry in report.members):
                make = functools.partial(self._one_per_query, report.members, "history")
                report.special_pushes.insert(0, WholeHistory(make))
        return found

    def _statements(self, members: Sequence[QueryEntry], push: str) -> list[ResultStatement]:
        if len(members) > 1:
            variant = members[0].variant(push, shared=True)
            by_signature: dict[Hashable, list[QueryEntry]] = {}
            for entry in members:
                by_signature.setdefault(entry.results.of(variant).signature, []).append(entry)
            if len(by_signature) == 1:
                with contextlib.suppress(NotAlike, Refused):
                    return [self._family(members, variant)]
            if self._database.side_by_side_frames:
                with contextlib.suppress(NotAlike, Refused):
                    most = self.settings.side_by_side
                    parts = [members[start : start + most] for start in range(0, len(members), most)]
                    return [self._side_by_side(some, variant) for some in parts]
            if len(by_signature) > 1:
                return [report for alike in by_signature.values() for report in self._statements(alike, push)]
        return [self._of_one_query(entry, entry.variant(push, shared=False)) for entry in members]

    def _of_one_query(self, entry: QueryEntry, variant: str) -> ResultStatement:
        query = entry.results.of(variant)
        unordered = unordered_sql(entry, query.statement, self._database)
        report = ResultStatement(
            [entry], query.statement, query.text, unordered=unordered, arrow_from=self.settings.arrow_from
        )
        if variant == "any" and entry.results.brief is not None:
            make = functools.partial(self._one_per_query, [entry], "brief")
            report.special_pushes.append(ShortPush([entry], make, entry.flow.brief))
        return self._with_large_push(report, variant)

    def _with_large_push(self, report: ResultStatement, variant: str) -> ResultStatement:
        """The statement; for thousands of events there is one per query, if a query has a statement for so many."""
        members = report.members
        if variant == "any" and any(entry.results.many is not None for entry in members):
            make = functools.partial(self._one_per_query, members, "many")
            report.special_pushes.append(LargePush(make, self.settings.many))
        return report

    def _one_per_query(self, members: Sequence[QueryEntry], push: str) -> list[ResultStatement]:
        """A statement per query, for pushes of this kind."""
        return [self._of_one_query(entry, entry.results.kind(push)) for entry in members]

    def _side_by_side(self, members: Sequence[QueryEntry], variant: str) -> ResultStatement:
        """One statement with the results of all queries in each row. Raises NotAlike or Refused if there is none."""
        one = side_by_side([entry.results.of(variant).statement for entry in members])
        text = self._database.render(one.statement)
        self._database.fetch(text)
        report = ResultStatement(members, one.statement, text, places=one.places, arrow_from=self.settings.arrow_from)
        if variant == "any" and all(entry.results.brief is not None for entry in members):
            make = functools.partial(self._one_per_query, members, "brief")
            report.special_pushes.append(ShortPush(members, make, self.settings.brief, self.settings.side_by_side_rows))
        return report

    def _family(self, members: Sequence[QueryEntry], variant: str) -> ResultStatement:
        """One statement over a table of the queries' constants. Raises NotAlike or Refused if that is impossible."""
        name = self._network.name("family", Stream(""))
        family = share_constants([entry.results.of(variant).statement for entry in members], name)
        text = self._database.render(family.statement)
        with self._transaction():
            self._create_constants(name, family)
            self._database.fetch(text)
        unordered = unordered_sql(members[0], family.statement, self._database)
        report = ResultStatement(members, family.statement, text, name, unordered, arrow_from=self.settings.arrow_from)
        return self._with_large_push(report, variant)

    def _create_constants(self, name: str, family: Family) -> None:
        kinds = [(column, self._database.column_type(Attribute(column, kind))) for column, kind in family.columns]
        self._tables.create(name, kinds, key=family.columns[0][0])
        self._database.insert(self._tables.quoted(name), len(family.columns), family.rows)
        self._tables.index(name, covering(family.looked_up, [column for column, _ in family.columns]))
