"""The statements that read the results of a push: one for each query, or for each family of queries."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from sqlglot import exp

from bridge.engine.catalogue import QueryEntry, ResultQuery
from bridge.engine.delivery import as_arrow
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
"""The kinds of pushes that have reports of their own, by the number of their events."""

PIECE = 64
"""Results that lie in pieces of so many, each in order, are put together by these instead of one by one."""

Results = list[tuple[QueryEntry, Any]]
"""The rows of each query that has any: tuples, or an Arrow table."""


class Brief:
    """The reports of pushes that are brief beside the windows of these queries, made with the first of them.

    `ratio`: how many times as long as the push the window is, at least. `rows`: the window should hold so many, to judge
    by the events of the push.
    """

    def __init__(
        self, members: Sequence[QueryEntry], make: Callable[[], list[Report]], ratio: int, rows: int = 0
    ) -> None:
        self.ratio = ratio
        self.window = min(entry.flow.window for entry in members)
        self.rows = rows
        self._members = members
        self._make = make

    def is_for(self, count: int, lasting: int) -> bool:
        """Whether they are for so many events within so many milliseconds, as long as the windows are now."""
        is_brief = lasting * self.ratio <= self.window and count * self.window >= lasting * self.rows
        return is_brief and all(entry.is_brief for entry in self._members)

    @functools.cached_property
    def reports(self) -> list[Report]:
        return self._make()


class Report:
    """One statement and the queries whose results it gives, in the order of their numbers; `table`: their constants.

    `text` is the statement in the database's SQL; `loose`: the same without its order, and the number of each row's event
    as the last column. `places`: where each row has results of all queries, which of its columns are those of each.
    """

    def __init__(
        self,
        members: Sequence[QueryEntry],
        statement: exp.Expr,
        text: str,
        table: str | None = None,
        loose: str | None = None,
        places: Sequence[Sequence[int]] = (),
        arrow_from: int = 0,
    ) -> None:
        self.members = members
        self.statement = statement
        self.text = text
        self.table = table
        self.loose = loose
        self.places = places
        self.arrow_from = arrow_from if as_arrow(members[0]) else NEVER
        self.timed, self.sources = members[0].timed, members[0].sources
        self.brief: Brief | None = None

    def read(self, database: Database, count: int, lasting: int) -> Results:
        """The results of a push of so many events within so many milliseconds.

        Many of them are read as Arrow, where all who take them want them so.
        """
        if self.brief is not None and self.brief.is_for(count, lasting):
            return [found for each in self.brief.reports for found in each.read(database, count, lasting)]
        rows: Any = self._arrow(database) if count >= self.arrow_from else None
        if rows is None:
            rows = database.fetch(self.text)
        return self.sorted_out(rows)

    def _arrow(self, database: Database) -> Any:
        """The results as Arrow; None where the database has none of it."""
        if self.loose is None:
            return database.fetch_arrow(self.text)
        rows = database.fetch_arrow(self.loose)
        return rows if rows is None else by_number(rows, len(self.members) > 1)

    def sorted_out(self, rows: Any) -> Results:
        """What the statement gave, tuples or an Arrow table, member by member."""
        if self.places:
            return self._side_by_side(rows) if rows else []
        if len(self.members) == 1:
            return [(self.members[0], rows)] if rows else []
        return list(self._by_member(rows) if isinstance(rows, list) else self._split(rows))

    def _by_member(self, rows: list[Any]) -> Results:
        """The rows of each member: by its number they are ordered."""
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
        """The columns of each member."""
        if isinstance(rows, list):
            columns = list(zip(*rows, strict=True))
            told = [list(zip(*(columns[place] for place in places), strict=True)) for places in self.places]
        else:
            told = [rows.select(places) for places in self.places]
        return list(zip(self.members, told, strict=True))

    def _split(self, rows: Any) -> Iterator[tuple[QueryEntry, Any]]:
        """The slices of an Arrow table that is ordered by its first column, the member's number."""
        numbers = rows.column(0).to_numpy()
        ends = numbers.searchsorted(range(len(self.members)), side="right")
        begin, rows = 0, rows.drop_columns(rows.column_names[:1])
        for member, end in zip(self.members, ends.tolist(), strict=True):
            if end > begin:
                yield member, rows.slice(begin, end - begin)
            begin = end


def loose(entry: QueryEntry, statement: exp.Expr, database: Database) -> str | None:
    """A statement as `Report.loose`, where each event has one result at most of a query, so its number says the order."""
    if entry.flow.order or entry.flow.timed or not database.zero_copy_arrow:
        return None
    rows = statement.copy()
    assert isinstance(rows, exp.Select)
    rows.set("order", None)
    return database.render(rows.select(aliased(column("seq"), "cep_number")))


def by_number(rows: Any, of_members: bool = False) -> Any:
    """An Arrow table in the order of its last column, which goes: whole numbers, no two of them equal.

    `of_members`: in the order of the first column, the number of a member, and then of the last one.
    Most statements give their rows in order as they are, which costs less to see than to sort them.

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
    if of_members:
        members = rows.column(0).to_numpy()
        ends |= members[1:] != members[:-1]
        numbers += members * (numbers.max() + 1)
    rows = rows.remove_column(rows.num_columns - 1)
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


class Reports:
    """All reports, for pushes of `any` number of events and of `few`: their statements differ, and which queries share one.

    Both are outdated when queries or processors have come or gone since they were made.
    """

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._made: dict[str, dict[tuple[object, ...], list[Report]]] = {push: {} for push in PUSHES}
        self._outdated = set(PUSHES)
        self._small = 0
        """So many pushes of few events came since then."""

    def outdate(self) -> None:
        """Queries or processors have come or gone."""
        self._outdated, self._small = set(PUSHES), 0

    def before(self, count: int | None) -> list[str]:
        """A push of so many events comes, or (None) several of any size: for which pushes are they to be grouped anew?"""
        self._small += count is not None and 0 < count <= self._grouping.settings.few
        pushes = PUSHES if count is None else (self._push(count),)
        return [push for push in pushes if push in self._outdated]

    def _push(self, count: int) -> str:
        """What so many events are. Both tell the same: what is made for many does for none, and for the last few of a history."""
        if count > self._grouping.settings.few:
            return "any"
        scarce = count == 0 or self._small < 2
        return "any" if scarce and self._outdated == {"few"} else "few"

    def of(self, push: str) -> list[Report]:
        """Those that are made for `any` number of events, or for `few`."""
        return list(itertools.chain.from_iterable(self._made[push].values()))

    def regroup(self, push: str, entries: Iterable[QueryEntry]) -> list[str]:
        """Groups those that have a processor; gives the tables of constants that nobody needs any more."""
        groups: dict[tuple[object, ...], list[QueryEntry]] = {}
        for entry in entries:
            if entry.processors:
                query = entry.results.of(entry.variant(push, shared=True))
                groups.setdefault((self._grouping.alike(query), as_arrow(entry)), []).append(entry)
        before = list(self._made.values())
        known = {key: reports for made in before for key, reports in made.items()}
        found: dict[tuple[object, ...], list[Report]] = {}
        for key, members in groups.items():
            same = (*key, *(entry.number for entry in members))
            found[same] = known.get(same) or self._grouping.reports(members, push)
        self._made[push] = found
        self._outdated.discard(push)
        kept = {id(report) for made in self._made.values() for reports in made.values() for report in reports}
        gone = {id(report): report for made in before for reports in made.values() for report in reports}
        return [report.table for number, report in gone.items() if report.table is not None and number not in kept]

    def read(self, database: Database, streams: frozenset[str], count: int, final: bool, lasting: int = 0) -> Results:
        """What a push of so many events into these streams has given, query by query as they were created.

        `lasting`: so many milliseconds are between the first and the last of them.
        """
        found: Results = []
        for report in self.concerned(streams, count, final):
            found += report.read(database, count, lasting)
        if len(found) > 1:
            found.sort(key=lambda result: result[0].number)
        return found

    def concerned(self, streams: frozenset[str], count: int, final: bool) -> list[Report]:
        """What there is to be read after a push of so many events into these streams."""
        made = self.of(self._push(count))
        return [report for report in made if final or report.timed or not report.sources.isdisjoint(streams)]


# Which queries have one statement for all of them, and the statement: made where the database accepts it


class Grouping:
    """Makes the reports of queries that are alike. A `transaction` is around what makes tables."""

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
        """Queries may have one statement together where this is equal of theirs."""
        return query.shape if self._database.side_by_side_frames else query.signature

    def reports(self, members: Sequence[QueryEntry], push: str) -> list[Report]:
        """One report where the members' constants can be rows of a table, or their results side by side; else several."""
        if len(members) > 1:
            variant = members[0].variant(push, shared=True)
            apart: dict[Hashable, list[QueryEntry]] = {}
            for entry in members:
                apart.setdefault(entry.results.of(variant).signature, []).append(entry)
            if len(apart) == 1:
                with contextlib.suppress(NotAlike, Refused):
                    return [self._family(members, variant)]
            if self._database.side_by_side_frames:
                with contextlib.suppress(NotAlike, Refused):
                    most = self.settings.side_by_side
                    parts = [members[start : start + most] for start in range(0, len(members), most)]
                    return [self._side_by_side(some, variant) for some in parts]
            if len(apart) > 1:
                return [report for alike in apart.values() for report in self.reports(alike, push)]
        return [self._alone(entry, entry.variant(push, shared=False)) for entry in members]

    def _alone(self, entry: QueryEntry, variant: str) -> Report:
        query = entry.results.of(variant)
        apart = loose(entry, query.statement, self._database)
        report = Report([entry], query.statement, query.text, loose=apart, arrow_from=self.settings.arrow_from)
        if variant == "any" and entry.results.brief is not None:
            report.brief = Brief([entry], lambda: [self._alone(entry, "brief")], self.settings.brief)
        return report

    def _side_by_side(self, members: Sequence[QueryEntry], variant: str) -> Report:
        """One statement that tells all members' results of each row; the database must accept it before it counts."""
        one = side_by_side([entry.results.of(variant).statement for entry in members])
        text = self._database.render(one.statement)
        self._database.fetch(text)
        report = Report(members, one.statement, text, places=one.places, arrow_from=self.settings.arrow_from)
        if variant == "any" and all(entry.results.brief is not None for entry in members):
            report.brief = Brief(
                members,
                lambda: [self._alone(entry, "brief") for entry in members],
                self.settings.brief,
                self.settings.side_by_side_rows,
            )
        return report

    def _family(self, members: Sequence[QueryEntry], variant: str) -> Report:
        """One statement for all members; the database must accept it before it counts."""
        name = self._network.name("family", Stream(""))
        family = share_constants([entry.results.of(variant).statement for entry in members], name)
        text = self._database.render(family.statement)
        with self._transaction():
            self._create_constants(name, family)
            self._database.fetch(text)
        apart = loose(members[0], family.statement, self._database)
        return Report(members, family.statement, text, name, apart, arrow_from=self.settings.arrow_from)

    def _create_constants(self, name: str, family: Family) -> None:
        kinds = [(column, self._database.column_type(Attribute(column, kind))) for column, kind in family.columns]
        self._tables.create(name, kinds, key=family.columns[0][0])
        self._database.insert(self._tables.quoted(name), len(family.columns), family.rows)
        self._tables.index(name, covering(family.looked_up, [column for column, _ in family.columns]))
