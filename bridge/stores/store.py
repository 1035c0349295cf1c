"""Data stores by name: connections that are opened when needed, queried for many sets of values, and waited for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlglot import exp

from bridge.errors import NameTaken, QueryError, SchemaError, nearest
from bridge.stores.statement import Sql, joined, places, without_values
from windows.databases import Database, Refused, open_database
from windows.databases.base import PARAMETER
from windows.databases.refused import refusals_at
from windows.schema import is_storable
from windows.sql import aliased, column_of, identifier

FIRST_WAIT, LONGEST_WAIT = 0.1, 30.0
"""The seconds until a store that does not answer is tried again; they double each time."""

SINGLY = 3
"""The greatest number of sets of values that are queried one by one, as a table of values would not pay."""

AT_ONCE = 10_000
"""The greatest number of sets of values in one statement."""

_VALUES = "cep_values"

Values = tuple[Any, ...]
Answers = dict[Values, list[Values]]


class Unreachable(Exception):
    """Raised if a data store does not answer; it is tried again later."""


class Store:
    """One data store. `target` is a URL, an SQLAlchemy engine or a `Database`."""

    def __init__(self, name: str, target: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._target = target
        self._clock = clock
        self._database: Database | None = None
        self._wait = FIRST_WAIT
        self._again = 0.0

    @property
    def resting(self) -> bool:
        """Whether it recently did not answer, so that it is not tried for a while."""
        return self._clock() < self._again

    def database(self) -> Database:
        """The connection, which is opened if necessary; raises Unreachable if that fails."""
        if self._database is None:
            try:
                self._database = open_database(self._target)
            except Refused as error:
                self._failed()
                raise Unreachable(str(error)) from None
        return self._database

    @contextlib.contextmanager
    def opened(self) -> Iterator[Database]:
        """The database for a statement.

        Raises Unreachable if the connection is lost, Refused if the database refuses.
        """
        if self.resting:
            raise Unreachable(f"the data store {self.name!r} did not answer and is asked again later")
        database = self.database()
        try:
            yield database
        except Refused as error:
            if database.answers():
                raise
            self.close()
            self._failed()
            raise Unreachable(str(error)) from None
        self._wait, self._again = FIRST_WAIT, 0.0

    def prepare(self, sql: Sql, place: range | None) -> None:
        """Lets the store prepare a statement, if it answers. Raises `Refused` for a name that it does not know.

        `place`: the offsets of the statement in the text of the query.
        """
        with refusals_at(place), contextlib.suppress(Unreachable), self.opened() as database:
            database.prepare(database.render(without_values(sql)))

    def close(self) -> None:
        """Ends the connection; a connection that the caller gave stays open."""
        database, self._database = self._database, None
        if database is not None and database is not self._target:
            with contextlib.suppress(Refused):
                database.close()

    def defer(self) -> None:
        """Makes no further attempt to reach it for a while."""
        self._failed()

    def wake(self) -> None:
        """Tries it again at once, even if it failed recently."""
        self._again = 0.0

    def _failed(self) -> None:
        self._again = self._clock() + self._wait
        self._wait = min(2 * self._wait, LONGEST_WAIT)


class Stores:
    """All data stores of a bridge, and the steps that wait for them."""

    def __init__(self) -> None:
        self.known: dict[str, Store] = {}

    def add(self, name: str, target: Any) -> Store:
        """Registers a store, which must answer now."""
        if not isinstance(name, str) or not name.strip() or not is_storable(name):
            raise SchemaError(f"{name!r} cannot be a name")
        if name.lower() in self.known:
            raise NameTaken(f"there is a data store {name!r} already")
        store = Store(name, target)
        try:
            store.database()
        except Unreachable as error:
            raise SchemaError(f"the data store {name!r}: {error}") from None
        self.known[name.lower()] = store
        return store

    def find(self, name: str) -> Store:
        """The store of this name."""
        found = self.known.get(name.lower())
        if found is None:
            hint = nearest(name, [store.name for store in self.known.values()])
            hint = hint or "; cep.register_datastore(name, url) registers one"
            raise QueryError(f"unknown data store {name!r}{hint}", words=[name])
        return found

    def close(self) -> None:
        """Ends all connections."""
        for store in self.known.values():
            store.close()


class ParameterizedSelect:
    """A SELECT for many sets of values: asked for all of them at once if possible, else for each."""

    def __init__(self, sql: Sql, names: Sequence[str], kinds: Sequence[Any], database: Database, at_once: bool) -> None:
        self.at_once = at_once
        self._kinds = kinds
        self._single, self._order = database.parameterize(sql.tree, sql.count)
        self._places = places(sql, names, database)
        self._sorted = not sql.tree.args.get("order")
        self._many = database.render(self._joined(sql, names, database)) if at_once else ""
        self._count = sql.count

    def answers(self, sets: Sequence[Values], database: Database) -> Answers:
        """The rows for each set of values, ordered by their values or as the SELECT orders them."""
        found: Answers = {}
        for start in range(0, len(sets), AT_ONCE):
            part = sets[start : start + AT_ONCE]
            if self.at_once and len(part) > SINGLY:
                found.update(self._at_once(part, database))
            else:
                found.update({values: self._one(values, database) for values in part})
        return found

    def _one(self, values: Values, database: Database) -> list[Values]:
        found = database.fetch_bound(self._single, [values[place] for place in self._order])
        rows = [tuple(row[place] for place in self._places) for row in found]
        return sorted(rows, key=_by_value) if self._sorted else rows

    def _at_once(self, sets: Sequence[Values], database: Database) -> Answers:
        import pyarrow as pa

        numbers = pa.array(range(len(sets)), pa.int64())
        columns = [_array(values, kind) for values, kind in zip(zip(*sets, strict=True), self._kinds, strict=True)]
        names = [f"{PARAMETER}{place}" for place in range(self._count)]
        database.register_arrow(_VALUES, pa.Table.from_arrays([numbers, *columns], names=["cep_number", *names]))
        try:
            rows = database.fetch(self._many)
        finally:
            database.unregister_arrow(_VALUES)
        found: Answers = {values: [] for values in sets}
        for number, *row in rows:
            found[sets[number]].append(tuple(row))
        for answer in found.values():
            answer.sort(key=_by_value)
        return found

    @staticmethod
    def _joined(sql: Sql, names: Sequence[str], database: Database) -> exp.Select:
        values = exp.alias_(exp.to_table(exp.Table(this=identifier(_VALUES))), "v", table=True)
        select = joined(sql, names, values, "v", database, left=False)
        select.set("expressions", [aliased(column_of("v", "cep_number"), "cep_number"), *select.expressions])
        return select


def _by_value(row: Values) -> list[tuple[bool, Any]]:
    """Rows in the order of their values, NULL first."""
    return [(value is not None, 0 if value is None else value) for value in row]


def _array(values: Sequence[Any], kind: Any) -> Any:
    """The values as Arrow; without a kind, in the type that they have."""
    import pyarrow as pa

    array = pa.array(values, kind)
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array
