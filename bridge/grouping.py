"""Which queries have one statement for all of them, and the statement: made where the database accepts it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence

from bridge.catalogue import Emission, QueryEntry
from bridge.query import Stream
from bridge.reports import Brief, Report, loose
from bridge.rewrite import Network
from bridge.rewrite.beside import beside
from bridge.rewrite.family import Family, NotAlike, covering, lifted
from bridge.tables import Tables
from windows.databases import Database, Refused
from windows.schema import Attribute

BESIDE = 100
"""Queries whose results a statement tells side by side at most."""

MANY_ROWS = 4_096
"""Rows in a window from which on a statement for each query of a brief push is faster than one over all rows."""


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

    def alike(self, emission: Emission) -> Hashable:
        """Queries may have one statement together where this is equal of theirs."""
        return emission.shape if self._database.beside else emission.signature

    def reports(self, members: Sequence[QueryEntry], push: str) -> list[Report]:
        """One report where the members' constants can be rows of a table, or their results side by side; else several."""
        if len(members) > 1:
            form = members[0].form(push, shared=True)
            apart: dict[Hashable, list[QueryEntry]] = {}
            for entry in members:
                apart.setdefault(entry.emissions[form].signature, []).append(entry)
            if len(apart) == 1:
                with contextlib.suppress(NotAlike, Refused):
                    return [self._family(members, form)]
            if self._database.beside:
                with contextlib.suppress(NotAlike, Refused):
                    parts = [members[start : start + BESIDE] for start in range(0, len(members), BESIDE)]
                    return [self._side_by_side(some, form) for some in parts]
            if len(apart) > 1:
                return [report for alike in apart.values() for report in self.reports(alike, push)]
        return [self._alone(entry, entry.form(push, shared=False)) for entry in members]

    def _alone(self, entry: QueryEntry, form: str) -> Report:
        emission = entry.emissions[form]
        apart = loose(entry, emission.statement, self._database)
        report = Report([entry], emission.statement, emission.text, loose=apart)
        if form == "many" and "brief" in entry.emissions:
            report.brief = Brief([entry], lambda: [self._alone(entry, "brief")])
        return report

    def _side_by_side(self, members: Sequence[QueryEntry], form: str) -> Report:
        """One statement that tells all members' results of each row; the database must accept it before it counts."""
        one = beside([entry.emissions[form].statement for entry in members])
        text = self._database.render(one.statement)
        self._database.fetch(text)
        report = Report(members, one.statement, text, places=one.places)
        if form == "many" and all("brief" in entry.emissions for entry in members):
            report.brief = Brief(members, lambda: [self._alone(entry, "brief") for entry in members], MANY_ROWS)
        return report

    def _family(self, members: Sequence[QueryEntry], form: str) -> Report:
        """One statement for all members; the database must accept it before it counts."""
        name = self._network.name("family", Stream(""))
        family = lifted([entry.emissions[form].statement for entry in members], name)
        text = self._database.render(family.statement)
        with self._transaction():
            self._create_constants(name, family)
            self._database.fetch(text)
        return Report(members, family.statement, text, name, loose(members[0], family.statement, self._database))

    def _create_constants(self, name: str, family: Family) -> None:
        kinds = [(column, self._database.column_type(Attribute(column, kind))) for column, kind in family.columns]
        self._tables.create(name, kinds, key=family.columns[0][0])
        self._database.insert(self._tables.quoted(name), len(family.columns), family.rows)
        self._tables.index(name, covering(family.looked_up, [column for column, _ in family.columns]))
